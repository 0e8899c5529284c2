// SPDX-License-Identifier: MIT
/* Show and set what a tenant, a cgroup, may use. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "libarax/admin/cgroup.h"
#include "libarax/admin/saved.h"
#include "libarax/admin/setting.h"
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
	{ "usage.device_time", "MAX", COLUMN_SHARE },
	{ "usage.wait_ns", "WAITED", COLUMN_NS },
	{ "usage.pressure.some.avg10", "PRESSURE", COLUMN_PERCENT },
	{ "saved", "SAVED", COLUMN_TEXT },
	{ 0 },
};

static const struct column one[] = {
	{ "path", "tenant", COLUMN_TEXT },
	{ "usage.memory.current", "memory.current", COLUMN_BYTES },
	{ "usage.memory.peak", "memory.peak", COLUMN_BYTES },
	{ "usage.memory.max", "memory.max", COLUMN_BYTES },
	{ "usage.memory.events", "memory.events", COLUMN_COUNT },
	{ "usage.device_memory.current", "device_memory.current", COLUMN_BYTES },
	{ "usage.device_memory.peak", "device_memory.peak", COLUMN_BYTES },
	{ "usage.device_memory.max", "device_memory.max", COLUMN_BYTES },
	{ "usage.device_memory.events", "device_memory.events", COLUMN_COUNT },
	{ "usage.tasks.current", "tasks.current", COLUMN_COUNT },
	{ "usage.tasks.peak", "tasks.peak", COLUMN_COUNT },
	{ "usage.tasks.max", "tasks.max", COLUMN_COUNT },
	{ "usage.tasks.events", "tasks.events", COLUMN_COUNT },
	{ "usage.contexts.current", "contexts.current", COLUMN_COUNT },
	{ "usage.contexts.peak", "contexts.peak", COLUMN_COUNT },
	{ "usage.contexts.max", "contexts.max", COLUMN_COUNT },
	{ "usage.contexts.events", "contexts.events", COLUMN_COUNT },
	{ "usage.device_time.weight", "device_time.weight", COLUMN_NUMBER },
	{ "usage.device_time", "device_time.max", COLUMN_SHARE },
	{ "usage.device_time.stat", "device_time.stat", COLUMN_STAT },
	{ "usage.pressure.some", "pressure", COLUMN_PRESSURE },
	{ "usage.device_ns", "device_time used", COLUMN_NS },
	{ "usage.wait_ns", "waited for devices", COLUMN_NS },
	{ "usage.tasks_done", "tasks done", COLUMN_COUNT },
	{ "usage.tasks_failed", "tasks failed", COLUMN_COUNT },
	{ "saved", "saved", COLUMN_TEXT },
	{ 0 },
};

/* ------------------------------------------------------------------ */
/* Which cgroup                                                        */

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

static bool kernel_has_cgroup2(void)
{
	FILE *f = fopen("/proc/filesystems", "re");
	bool found = !f;
	char line[256];

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, "\tcgroup2\n");
	if (f)
		fclose(f);
	return found;
}

static void no_mount(void)
{
	if (kernel_has_cgroup2())
		cli_fail("no cgroup2 file system is mounted, and a tenant is a cgroup of version 2:\n"
			 "mount -t cgroup2 none DIR, or boot without systemd.unified_cgroup_hierarchy=0");
	else
		cli_fail("this kernel has no cgroup2 (CONFIG_CGROUPS), and so one tenant alone: what\n"
			 "holds are the users' limits, parameters of arax.ko or in araxd.conf(5)");
}

/*
 * As it is saved: "/sys/fs/cgroup/a", "/a" and "a/" are all "/a".  False after saying
 * what is wrong.
 */
static bool name_cgroup(struct tenant_path *p, const char *path)
{
	char own[PATH_MAX / 4];
	const char *wrong, *at;
	size_t n;

	if (!cgroup_mount(p->mount, sizeof(p->mount))) {
		no_mount();
		return false;
	}
	if (!path) {
		if (!own_cgroup(own, sizeof(own))) {
			cli_fail("/proc/self/cgroup names no cgroup2: give a path");
			return false;
		}
		path = own;
	}
	n = strlen(p->mount);
	if (!strncmp(path, p->mount, n) && strchr("/", path[n]))
		path += n;
	for (n = 0, at = path; *at && n + 2 < sizeof(p->cgroup); at++) {
		if (*at == '/')
			continue;
		if (at == path || at[-1] == '/')
			p->cgroup[n++] = '/';
		p->cgroup[n++] = *at;
	}
	if (!n)
		p->cgroup[n++] = '/';
	p->cgroup[n] = '\0';
	wrong = *at ? "is too long" : saved_check_cgroup(p->cgroup);
	if (wrong)
		fprintf(stderr, "arax: cgroup %s: the path %s\n", path, wrong);
	return !wrong;
}

/* A directory's descriptor, or -1. */
static int open_cgroup(const struct tenant_path *p)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", p->mount, p->cgroup);
	return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int no_cgroup(const struct tenant_path *p)
{
	fprintf(stderr, "arax: cgroup %s%s: %s\n", p->mount, p->cgroup, strerror(errno));
	return EXIT_FAILED;
}

/* ------------------------------------------------------------------ */
/* show                                                                */

/* A daemon or a module from before there were these says nothing of them: null. */
static json_t *usage_of(const struct arax_tenant *t)
{
	json_t *usage = out_usage(&t->usage), *stat = json_null(), *pressure = json_null();

	if (t->flags & ARAX_TENANT_STAT) {
		stat = json_pack("{so so so so}", "usage_usec", out_u64(t->usage.device_ns / 1000),
				 "nr_periods", out_u64(t->nr_periods),
				 "nr_throttled", out_u64(t->nr_throttled),
				 "throttled_usec", out_u64(t->throttled_ns / 1000));
		pressure = json_pack("{s:{sf sf sf so}}", "some",
				     "avg10", t->waiting_avg[0] / 100.0,
				     "avg60", t->waiting_avg[1] / 100.0,
				     "avg300", t->waiting_avg[2] / 100.0,
				     "total_usec", out_u64(t->waiting_ns / 1000));
	}
	json_object_set_new(json_object_get(usage, "device_time"), "stat", stat);
	json_object_set_new(usage, "pressure", pressure);
	return usage;
}

/* @json: for programs, who find in a key of its own what others read behind the path. */
static json_t *to_json(const struct arax_tenant *t, json_t *saved, bool json)
{
	bool removed = t->flags & ARAX_TENANT_GONE;
	char path[sizeof(t->path) + 16];

	snprintf(path, sizeof(path), "%.*s%s", (int)sizeof(t->path), t->path,
		 removed && !json ? " (removed)" : "");
	return json_pack("{so so so sb so so}", "id", out_id(t->id), "parent",
			 out_id(t->parent), "path", out_string(path, sizeof(path)),
			 "removed", removed, "usage", usage_of(t), "saved", saved);
}

/* araxd knows what is saved for it, for when it comes. */
static int show_absent(struct tenant_files *f, const struct tenant_path *p, bool json)
{
	int err = errno;
	json_t *saved = err == ENOENT ? files_of_path(f, p->cgroup) : json_null();

	if (!json_is_null(saved))
		return out_object(no_tenant(p->cgroup, saved), one, json);
	errno = err;
	return no_cgroup(p);
}

static int show_one(struct admin *a, struct tenant_files *f, const char *path, bool json)
{
	struct arax_tenant t = { .size = sizeof(t) };
	struct tenant_path p;
	int ret;

	if (!name_cgroup(&p, path))
		return EXIT_FAILED;
	t.cgroup_fd = open_cgroup(&p);
	if (t.cgroup_fd < 0)
		return show_absent(f, &p, json);
	ret = admin_call(a, ARAX_NR_TENANT_QUERY, &t);
	close(t.cgroup_fd);
	if (ret)
		return admin_fail(ret, "tenant %s", path);
	return out_object(to_json(&t, files_of_tenant(f, t.id), json), one, json);
}

static int show_all(struct admin *a, struct tenant_files *f, bool json)
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
		json_array_append_new(rows, to_json(&t, files_of_tenant(f, t.id), json));
		if (!++t.id)
			break;
	}
	if (ret && ret != -ENOENT) {
		json_decref(rows);
		return admin_fail(ret, "listing tenants");
	}
	files_add_others(f, rows);
	return out_rows(rows, columns, json);
}

static int show(const char *path, const char *folder, bool json)
{
	struct tenant_files f;
	struct admin *a;
	int ret;

	a = admin_open();
	if (!a)
		return EXIT_FAILED;
	files_read(&f, folder);
	ret = path ? show_one(a, &f, path, json) : show_all(a, &f, json);
	files_close(&f);
	admin_close(a);
	return ret;
}

/* ------------------------------------------------------------------ */
/* set, unset                                                          */

/* Before anything is opened: is all of it well said? */
static int check_settings(const struct command *self, const char *path, int argc, char **argv,
			  bool unset)
{
	struct tenant_setting s;
	const char *wrong;
	int i;

	/* A key with a slip in it, or without its value, looks like a path. */
	if (!argc && path)
		return cli_usage(self, "what to %s of tenant \"%s\"?  There are " TENANT_KEYS,
				 unset ? "unset" : "set", path);
	if (!argc)
		return cli_usage(self, "what to %s?", unset ? "unset" : "set");
	for (i = 0; i < argc; i++) {
		wrong = tenant_parse(argv[i], unset, &s);
		if (wrong)
			return cli_usage(self, "%s: %s", argv[i], wrong);
	}
	return EXIT_OK;
}

static int too_deep(const struct tenant_path *p)
{
	fprintf(stderr, "arax: cgroup %s nests deeper than 32 levels: it counts for the one above it that\n"
		"does not, and limits are set there\n", p->cgroup);
	return EXIT_FAILED;
}

/* @f: what is saved from now on, or NULL: that holds again where nothing else is to. */
static int set_live(const struct tenant_path *p, const struct tenant_files *f, int fd, int argc,
		    char **argv, bool unset)
{
	const struct saved_limit *saved;
	int i, err, ret = EXIT_OK;
	struct tenant_setting s;
	struct admin *a;

	a = admin_open();
	if (!a)
		return EXIT_FAILED;
	for (i = 0; i < argc; i++) {
		struct arax_limit l = { .size = sizeof(l), .cgroup_fd = fd };

		tenant_parse(argv[i], unset, &s);
		saved = f && unset ? saved_find(&f->saved, p->cgroup, argv[i]) : NULL;
		if (saved)
			s = saved->setting;
		l.what = s.what;
		l.value = s.value;
		l.period_ns = s.period_ns;
		err = admin_call(a, ARAX_NR_LIMIT_SET, &l);
		if (err == -ELOOP)
			ret = too_deep(p);
		else if (err)
			ret = admin_fail(err, "%s of tenant %s", argv[i], p->cgroup);
	}
	admin_close(a);
	return ret;
}

/* What can't be saved is not set either; what can't be set is not saved. */
static int change(const struct tenant_path *p, const char *folder, int argc, char **argv,
		  bool unset, bool save)
{
	struct tenant_files f;
	int fd, ret = EXIT_OK;

	if (save && !files_change(&f, folder, p->cgroup, argc, argv, unset))
		return EXIT_FAILED;
	fd = open_cgroup(p);
	if (fd >= 0)
		ret = set_live(p, save ? &f : NULL, fd, argc, argv, unset);
	else if (save && errno == ENOENT)
		fprintf(stderr, "arax: there is no cgroup %s now: %s\n", p->cgroup,
			unset ? "only what is saved of it is looked at" :
				"araxd will know when there is");
	else
		ret = no_cgroup(p);
	if (fd >= 0)
		close(fd);
	if (!save)
		return ret;
	if (!ret)
		ret = files_write(&f);
	if (!ret && unset)
		files_tell_others(&f, p->cgroup, argc, argv);
	files_close(&f);
	return ret;
}

/* For programs: what holds now, also when not all could be set.  Returns the exit status. */
static int tell(const struct tenant_path *p, const char *folder, int status)
{
	struct tenant_files f;
	struct stat st;
	char full[PATH_MAX];
	json_t *saved;
	int ret;

	snprintf(full, sizeof(full), "%s%s", p->mount, p->cgroup);
	if (!stat(full, &st)) {
		ret = show(p->cgroup, folder, true);
		return status ? status : ret;
	}
	if (status)
		return status;
	/* It can only have been saved. */
	files_read(&f, folder);
	saved = files_of_path(&f, p->cgroup);
	files_close(&f);
	return out_object(no_tenant(p->cgroup, saved), one, true);
}

/* Takes --save and --tenants DIR out of argv.  False: DIR is missing. */
static bool take_options(int *argc, char **argv, bool *save, const char **folder)
{
	int i, n = 1;

	*save = false;
	*folder = SAVED_FOLDER;
	for (i = 1; i < *argc; i++) {
		if (!strcmp(argv[i], "--save")) {
			*save = true;
		} else if (!strcmp(argv[i], "--tenants")) {
			if (++i == *argc)
				return false;
			*folder = argv[i];
		} else {
			argv[n++] = argv[i];
		}
	}
	*argc = n;
	argv[n] = NULL;
	return true;
}

static int run(const struct command *self, int argc, char **argv)
{
	const char *path = NULL, *folder;
	struct tenant_path p;
	bool json, shows, unset, save;
	int ret;

	if (!take_options(&argc, argv, &save, &folder))
		return cli_usage(self, "--tenants: which folder?");
	ret = cli_options(self, &argc, argv, &json);
	if (ret >= 0)
		return ret;
	if (argc < 2)
		return cli_usage(self, "show, set or unset?");
	shows = !strcmp(argv[1], "show");
	unset = !strcmp(argv[1], "unset");
	if (!shows && !unset && strcmp(argv[1], "set"))
		return cli_usage(self, "\"%s\": want show, set or unset", argv[1]);
	if (shows && save)
		return cli_usage(self, "--save is for set and unset");
	argc -= 2;
	argv += 2;
	if (argc && (shows || !tenant_is_setting(argv[0]))) {
		path = argv[0];
		argc--;
		argv++;
	}
	/* A script's variable that is not set must not mean the whole machine. */
	if (path && !*path)
		return cli_usage(self, "the PATH is empty: \"/\" is the whole machine");
	if (shows && argc)
		return cli_usage(self, "unexpected \"%s\"", argv[0]);
	if (shows)
		return show(path, folder, json);
	ret = check_settings(self, path, argc, argv, unset);
	if (ret)
		return ret;
	if (!name_cgroup(&p, path))
		return EXIT_FAILED;
	ret = change(&p, folder, argc, argv, unset, save);
	return json ? tell(&p, folder, ret) : ret;
}

const struct command cmd_tenant = {
	.name = "tenant",
	.args = "show [--tenants DIR] [--json] [PATH] |\n"
		"                   set [--save] [--tenants DIR] [--json] [PATH] KEY=VALUE... |\n"
		"                   unset [--save] [--tenants DIR] [--json] [PATH] KEY...",
	.summary = "show and set what tenants may use (administrators)",
	.help = "PATH is a cgroup: absolute, or as seen from the mount point; by default the\n"
		"caller's own for set and unset, all for show.  Keys and values:\n\n"
		"  memory.max, device_memory.max  bytes; K, M, G and T are powers of 1024; or max\n"
		"  tasks.max, contexts.max        a number, or max\n"
		"  device_time.weight             1 to 10000, 100 if unset\n"
		"  device_time.max                \"MAX PERIOD\" in microseconds, or max\n\n"
		"  --save         keep it across reboots, too, in /etc/arax/tenants.d; the cgroup\n"
		"                 need not exist yet\n"
		"  --tenants DIR  instead of /etc/arax/tenants.d\n"
		"  --json         print the tenant as it is then, as show PATH does\n\n"
		"A limit below what is in use is allowed: it refuses whatever comes on top.\n",
	.run = run,
};
