// SPDX-License-Identifier: MIT
#include "daemon/kernels/std/memory_limit.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

/* In the hierarchy of cgroup2, whose line begins so. */
static bool own_cgroup(const char *self, char path[PATH_MAX])
{
	FILE *f = fopen(self, "re");
	bool found = false;

	while (f && !found && fgets(path, PATH_MAX, f)) {
		found = !strncmp(path, "0::", 3);
		path[strcspn(path, "\n")] = '\0';
	}
	if (f)
		fclose(f);
	if (found)
		memmove(path, path + 3, strlen(path + 3) + 1);
	return found;
}

/* "max", or no such file, as in the topmost one: none. */
static uint64_t limit_at(const char *folder)
{
	unsigned long long bytes = UINT64_MAX;
	char path[2 * PATH_MAX + 16];
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.max", folder);
	f = fopen(path, "re");
	if (f && fscanf(f, "%llu", &bytes) != 1)
		bytes = UINT64_MAX;
	if (f)
		fclose(f);
	return bytes;
}

uint64_t std_cgroup_limit(const char *self, const char *mount)
{
	char own[PATH_MAX], path[2 * PATH_MAX], *end;
	uint64_t least = UINT64_MAX;

	if (!own_cgroup(self, own))
		return least;
	snprintf(path, sizeof(path), "%s%s", mount, own);
	for (end = path + strlen(path); end; end = strrchr(path + strlen(mount), '/')) {
		uint64_t bytes;

		*end = '\0';
		bytes = limit_at(path);
		if (bytes < least)
			least = bytes;
	}
	return least;
}

uint64_t std_memory_limit(void)
{
	uint64_t cgroup = std_cgroup_limit("/proc/self/cgroup", "/sys/fs/cgroup"), all;
	struct sysinfo s;

	if (sysinfo(&s))
		return 0;
	all = (uint64_t)s.totalram * s.mem_unit;
	return cgroup < all ? cgroup : all;
}
