// SPDX-License-Identifier: MIT
/* A tenant three deep, with limits; and some beside each other. */
#include "tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "result.h"
#include "server.h"

#define LEVELS	3
#define LEVEL	"/level%d"

static char mount[128];
static char groups[LEVELS][256];
static char origin[320];	/* cgroup.procs of it */
static int depth, limited;
static char why[256];

static int find_mount(void)
{
	char dev[128], where[128], type[64];
	FILE *f = fopen("/proc/mounts", "r");
	int found = 0;

	while (f && !found && fscanf(f, "%127s %127s %63s %*[^\n]", dev, where, type) == 3) {
		if (strcmp(type, "cgroup2"))
			continue;
		snprintf(mount, sizeof(mount), "%s", where);
		found = 1;
	}
	if (f)
		fclose(f);
	return found;
}

/* Where this process is now, to go back there at the end. */
static void find_origin(void)
{
	char line[160];
	FILE *f = fopen("/proc/self/cgroup", "r");

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::", 3))
			snprintf(origin, sizeof(origin), "%s%s/cgroup.procs", mount, line + 3);
	}
	if (f)
		fclose(f);
}

static int move_to(const char *procs)
{
	int err = 0, fd = open(procs, O_WRONLY | O_CLOEXEC);

	/* "0": the writer. */
	if (fd < 0 || write(fd, "0\n", 2) != 2)
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Who was in it has been waited for, but what an araxd left that was killed ends by itself. */
static void remove_group(const char *path)
{
	int i;

	for (i = 0; rmdir(path) && errno == EBUSY && i < 300; i++)
		usleep(10000);
}

/*
 * Nobody else that lives has this process's number: a group that is named by it is what one
 * left who was killed.  One that somebody is in, for whatever reason, stays.
 */
static int make_group(const char *path)
{
	char below[280];
	int i, k;

	if (!mkdir(path, 0755))
		return 0;
	if (errno != EEXIST)
		return -1;
	for (i = LEVELS; i--;) {
		snprintf(below, sizeof(below), "%s", path);
		for (k = 0; k < i; k++)
			snprintf(below + strlen(below), sizeof(below) - strlen(below), LEVEL,
				 k + 2);
		rmdir(below);
	}
	return mkdir(path, 0755);
}

static void leave(void)
{
	int i;

	if (!depth || move_to(origin))
		return;
	for (i = depth; i--;)
		remove_group(groups[i]);
	depth = 0;
}

void tenant_enter(void)
{
	char procs[300];
	int i, err;

	if (!find_mount()) {
		snprintf(why, sizeof(why), "no cgroup2 file system is mounted");
		return;
	}
	find_origin();
	for (i = 0; i < LEVELS; i++) {
		if (i)
			snprintf(groups[i], sizeof(groups[i]), "%.240s" LEVEL, groups[i - 1], i + 1);
		else
			snprintf(groups[i], sizeof(groups[i]), "%s/arax-bench-%d", mount, getpid());
		if (make_group(groups[i]) < 0) {
			snprintf(why, sizeof(why), "%.200s: %s", groups[i], strerror(errno));
			leave();
			return;
		}
		depth = i + 1;
	}
	child_after(leave);
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", groups[LEVELS - 1]);
	err = move_to(procs);
	if (err) {
		snprintf(why, sizeof(why), "moving into %.200s: %s", groups[LEVELS - 1],
			 strerror(err));
		leave();
	}
}

struct set {
	const char *link;
	const char *group;
	const char *setting[3];	/* or NULL */
};

static void run_arax(void *arg)
{
	struct set *s = arg;
	char arax[4200];

	setenv("ARAX_LINK", s->link, 1);
	build_path(arax, sizeof(arax), "bin/arax");
	execl(arax, "arax", "tenant", "set", s->group, s->setting[0], s->setting[1],
	      s->setting[2], NULL);
	_exit(127);
}

void tenant_limit(const char *link)
{
	int i, status;

	limited = 0;
	for (i = 0; i < depth; i++) {
		/* High enough never to refuse; what is measured is that they are counted. */
		struct set s = { link, groups[i],
				 { "memory.max=1G", "tasks.max=100000", "contexts.max=1000" } };

		status = child_join(child_start(run_arax, &s));
		if (status) {
			snprintf(why, sizeof(why), "`arax tenant set` failed (status %#x)", status);
			return;
		}
		limited++;
	}
}

/* ------------------------------------------------------------------ */

static char siblings[TENANT_SIBLINGS][256];
static int nr_siblings;

/* They are empty: their processes have ended. */
static void remove_siblings(void)
{
	while (nr_siblings)
		remove_group(siblings[--nr_siblings]);
}

int tenant_change(const char *link, int sibling, const char *setting)
{
	struct set s = { link, siblings[sibling], { setting } };
	int status = child_join(child_start(run_arax, &s));

	if (status)
		snprintf(why, sizeof(why), "`arax tenant set %s` failed (status %#x)", setting,
			 status);
	return status ? -1 : 0;
}

int tenant_sibling(const char *link, const char *setting)
{
	int i = nr_siblings;

	if (!find_mount()) {
		snprintf(why, sizeof(why), "no cgroup2 file system is mounted");
		return -1;
	}
	snprintf(siblings[i], sizeof(siblings[i]), "%s/arax-bench-%d-%d", mount, getpid(), i);
	if (make_group(siblings[i]) < 0) {
		snprintf(why, sizeof(why), "%.200s: %s", siblings[i], strerror(errno));
		return -1;
	}
	if (!nr_siblings++)
		child_after(remove_siblings);
	return tenant_change(link, i, setting) ? -1 : i;
}

void tenant_join(int sibling)
{
	char procs[300];
	int err;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", siblings[sibling]);
	err = move_to(procs);
	if (err)
		bench_fail("moving into %s: %s", siblings[sibling], strerror(err));
}

const char *tenant_why(void)
{
	return why;
}

void tenant_report(json_t *result)
{
	result_int(result, "tenant_depth", depth);
	result_int(result, "tenant_limits", limited);
	if (why[0])
		result_note(result, "note_tenant", why);
}
