// SPDX-License-Identifier: MIT
/* Show and set what a tenant, a cgroup, may use. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "tenant.h"

static const struct column columns[] = {
	{ "path", "TENANT", COLUMN_TEXT },
	{ "usage.memory.current", "MEMORY", COLUMN_BYTES },
	{ "usage.memory.max", "MAX", COLUMN_BYTES },
	{ "usage.device_memory.current", "DEVMEM", COLUMN_BYTES },
	{ "usage.device_memory.max", "MAX", COLUMN_BYTES },
	{ "usage.tasks.current", "TASKS", COLUMN_COUNT },
	{ "usage.tasks.max", "MAX", COLUMN_COUNT },
	{ "usage.contexts.current", "CONTEXTS", COLUMN_COUNT },
	{ "usage.contexts.max", "MAX", COLUMN_COUNT },
	{ "usage.device_time.weight", "WEIGHT", COLUMN_NUMBER },
	{ "usage.device_time.used_ns", "DEVICE", COLUMN_NS },
	{ "usage.wait_ns", "WAITED", COLUMN_NS },
	{ 0 },
};

static const struct column one[] = {
	{ "path", "tenant", COLUMN_TEXT },
	{ "usage.memory.current", "memory.current", COLUMN_BYTES },
	{ "usage.memory.peak", "memory.peak", COLUMN_BYTES },
	{ "usage.memory.max", "memory.max", COLUMN_BYTES },
	{ "usage.memory.events", "memory.events", COLUMN_COUNT },
	{ "usage.device_memory.current", "device_memory.current", COLUMN_BYTES },
	{ "usage.device_memory.max", "device_memory.max", COLUMN_BYTES },
	{ "usage.tasks.current", "tasks.current", COLUMN_COUNT },
	{ "usage.tasks.peak", "tasks.peak", COLUMN_COUNT },
	{ "usage.tasks.max", "tasks.max", COLUMN_COUNT },
	{ "usage.tasks.events", "tasks.events", COLUMN_COUNT },
	{ "usage.contexts.current", "contexts.current", COLUMN_COUNT },
	{ "usage.contexts.max", "contexts.max", COLUMN_COUNT },
	{ "usage.device_time.weight", "device_time.weight", COLUMN_NUMBER },
	{ "usage.device_time.max_ns", "device_time.max", COLUMN_NS },
	{ "usage.device_time.period_ns", "  in each", COLUMN_NS },
	{ "usage.device_ns", "device_time used", COLUMN_NS },
	{ "usage.wait_ns", "waited for devices", COLUMN_NS },
	{ "usage.tasks_done", "tasks done", COLUMN_COUNT },
	{ "usage.tasks_failed", "tasks failed", COLUMN_COUNT },
	{ 0 },
};

/* ------------------------------------------------------------------ */
/* Which cgroup                                                        */

static bool cgroup_mount(char *path, size_t size)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	bool found = false;

	while (f && !found && (m = getmntent(f))) {
		found = !strcmp(m->mnt_type, "cgroup2");
		if (found)
			snprintf(path, size, "%s", m->mnt_dir);
	}
	if (f)
		endmntent(f);
	return found;
}

/* This process's own, below the mount point. */
static bool own_cgroup(char *path, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	bool found = false;
	char line[PATH_MAX / 4];

	while (f && !found && fgets(line, sizeof(line), f)) {
		found = !strncmp(line, "0::", 3);
		line[strcspn(line, "\n")] = '\0';
		if (found)
			snprintf(path, size, "%.*s", (int)size - 1, line + 3);
	}
	if (f)
		fclose(f);
	return found;
}

/* A directory's descriptor, or -1 after saying why. */
static int open_cgroup(const char *path)
{
	char mount[PATH_MAX / 4], own[PATH_MAX / 4], full[PATH_MAX];
	int fd;

	if (!cgroup_mount(mount, sizeof(mount))) {
		cli_fail("no cgroup2 file system is mounted");
		return -1;
	}
	if (!path) {
		if (!own_cgroup(own, sizeof(own))) {
			cli_fail("/proc/self/cgroup names no cgroup2: give a path");
			return -1;
		}
		path = own;
	}
	/* "/sys/fs/cgroup/a", "/a" and "a" are the same. */
	if (!strncmp(path, mount, strlen(mount)) && strchr("/", path[strlen(mount)]))
		snprintf(full, sizeof(full), "%s", path);
	else
		snprintf(full, sizeof(full), "%s/%s", mount, path);
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fprintf(stderr, "arax: cgroup %s: %s\n", full, strerror(errno));
	return fd;
}

/* ------------------------------------------------------------------ */
/* show                                                                */

static json_t *to_json(const struct arax_tenant *t)
{
	return json_pack("{sI sI so so}", "id", (json_int_t)t->id, "parent",
			 (json_int_t)t->parent, "path", out_string(t->path, sizeof(t->path)),
			 "usage", out_usage(&t->usage));
}

static int show_one(struct admin *a, const char *path, bool json)
{
	struct arax_tenant t = { .size = sizeof(t) };
	int ret;

	t.cgroup_fd = open_cgroup(path);
	if (t.cgroup_fd < 0)
		return EXIT_FAILED;
	ret = admin_call(a, ARAX_NR_TENANT_QUERY, &t);
	close(t.cgroup_fd);
	if (ret)
		return admin_fail(ret, "tenant %s", path);
	return out_object(to_json(&t), one, json);
}

static int show_all(struct admin *a, bool json)
{
	struct arax_tenant t = { 0 };
	json_t *rows = json_array();
	int ret;

	for (;;) {
		t.size = sizeof(t);
		t.cgroup_fd = -1;
		ret = admin_call(a, ARAX_NR_TENANT_QUERY, &t);
		if (ret)
			break;
		json_array_append_new(rows, to_json(&t));
		if (!++t.id)
			break;
	}
	if (ret && ret != -ENOENT) {
		json_decref(rows);
		return admin_fail(ret, "listing tenants");
	}
	return out_rows(rows, columns, json);
}

/* ------------------------------------------------------------------ */
/* set, unset                                                          */

/* Before anything is opened: is all of it well said? */
static int check_settings(const struct command *self, int argc, char **argv, bool unset)
{
	struct tenant_setting s;
	const char *wrong;
	int i;

	if (!argc)
		return cli_usage(self, "what to %s?", unset ? "unset" : "set");
	for (i = 0; i < argc; i++) {
		wrong = tenant_parse(argv[i], unset, &s);
		if (wrong)
			return cli_usage(self, "%s: %s", argv[i], wrong);
	}
	return EXIT_OK;
}

static int change(struct admin *a, const char *path, int argc, char **argv, bool unset)
{
	int i, fd, err, ret = EXIT_OK;
	struct tenant_setting s;

	fd = open_cgroup(path);
	if (fd < 0)
		return EXIT_FAILED;
	for (i = 0; i < argc; i++) {
		struct arax_limit l = { .size = sizeof(l), .cgroup_fd = fd };

		tenant_parse(argv[i], unset, &s);
		l.what = s.what;
		l.value = s.value;
		l.period_ns = s.period_ns;
		err = admin_call(a, ARAX_NR_LIMIT_SET, &l);
		if (err)
			ret = admin_fail(err, "%s of tenant %s", argv[i], path ? path : "(own)");
	}
	close(fd);
	return ret;
}

static int run(const struct command *self, int argc, char **argv)
{
	bool json, show, unset;
	const char *path = NULL;
	struct admin *a;
	int ret = cli_options(self, &argc, argv, &json);

	if (ret >= 0)
		return ret;
	if (argc < 2)
		return cli_usage(self, "show, set or unset?");
	show = !strcmp(argv[1], "show");
	unset = !strcmp(argv[1], "unset");
	if (!show && !unset && strcmp(argv[1], "set"))
		return cli_usage(self, "\"%s\": want show, set or unset", argv[1]);
	argc -= 2;
	argv += 2;
	if (argc && (show || !tenant_is_setting(argv[0]))) {
		path = argv[0];
		argc--;
		argv++;
	}
	if (show && argc)
		return cli_usage(self, "unexpected \"%s\"", argv[0]);
	ret = show ? EXIT_OK : check_settings(self, argc, argv, unset);
	if (ret)
		return ret;
	a = admin_open();
	if (!a)
		return EXIT_FAILED;
	if (!show)
		ret = change(a, path, argc, argv, unset);
	else
		ret = path ? show_one(a, path, json) : show_all(a, json);
	admin_close(a);
	return ret;
}

const struct command cmd_tenant = {
	.name = "tenant",
	.args = "show [PATH] [--json] | set [PATH] KEY=VALUE... | unset [PATH] KEY...",
	.summary = "show and set what tenants may use (administrators)",
	.help = "PATH is a cgroup: absolute, or as seen from the mount point; by default the\n"
		"caller's own for set and unset, all for show.  Keys and values:\n\n"
		"  memory.max, device_memory.max  bytes; K, M, G and T are powers of 1024; or max\n"
		"  tasks.max, contexts.max        a number, or max\n"
		"  device_time.weight             1 to 10000, 100 if unset\n"
		"  device_time.max                \"MAX PERIOD\" in microseconds, or max\n\n"
		"A limit below what is in use is allowed: it refuses whatever comes on top.\n",
	.run = run,
};
