// SPDX-License-Identifier: MIT
/* Cgroups, and what the module says of them. */
#include "ktest.h"

#include <linux/limits.h>
#include <sys/stat.h>

#define ROOT	"/sys/fs/cgroup"

static void path_of(char *out, const char *path, const char *file)
{
	snprintf(out, PATH_MAX, "%s/%s%s%s", ROOT, path, file ? "/" : "", file ? file : "");
}

int cgroup_new(const char *path)
{
	char full[PATH_MAX];
	int fd;

	path_of(full, path, NULL);
	if (mkdir(full, 0755) && errno != EEXIST)
		CHECK_SYS(-1);
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

/* Its last process may still be on its way out. */
void cgroup_remove(const char *path)
{
	char full[PATH_MAX];

	path_of(full, path, NULL);
	CHECK(COMES(!rmdir(full) || errno != EBUSY));
}

void cgroup_write(const char *path, const char *file, const char *text)
{
	char full[PATH_MAX];

	path_of(full, path, file);
	CHECK_OK(write_text(full, text));
}

void cgroup_enter(const char *path)
{
	cgroup_write(path, "cgroup.procs", "0");
}

long long cgroup_read(const char *path, const char *file, const char *key)
{
	char full[PATH_MAX], word[64];
	long long value = -1;
	FILE *f;

	path_of(full, path, file);
	if (!key)
		return read_number(full);
	f = fopen(full, "re");
	CHECK(f);
	while (fscanf(f, "%63s %lld", word, &value) == 2)
		if (!strcmp(word, key))
			break;
	fclose(f);
	return value;
}

int limit_set(int ctl, int cgroup, unsigned int what, uint64_t value)
{
	struct arax_limit l = { .size = sizeof(l), .cgroup_fd = cgroup, .what = what,
				.value = value };

	return CALL(ctl, LIMIT_SET, &l);
}

struct arax_tenant tenant_query(int ctl, int cgroup)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = cgroup };

	CHECK_OK(CALL(ctl, TENANT_QUERY, &t));
	return t;
}

uint32_t context_of(int ctl, pid_t pid)
{
	struct arax_context c = { .size = sizeof(c) };

	while (!CALL(ctl, CONTEXT_QUERY, &c)) {
		if (c.pid == pid && c.depth)
			return c.id;
		c.id++;
	}
	return 0;
}
