// SPDX-License-Identifier: MIT
#include "daemon/worker/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/worker/inside.h"

#define PREFIX		"arax-worker-"
/*
 * A millisecond apart: until what was killed is gone.  Where more wants to run than there are
 * CPUs for, it is long until a killed process has a turn to end in.
 */
#define END_LOOKS	1000

struct worker_cgroup {
	char name[32];
	int dir, procs, freeze;		/* -1, all: it was killed */
	uint64_t killed_ns;		/* CLOCK_MONOTONIC; 0: it was not */
	bool dies;			/* all of it, when it can */
	bool gone, said;
};

/* Written before there are threads that have workers. */
static int top = -1, lock = -1;
static uint32_t most_tasks;
static bool counts_tasks;
static _Atomic uint32_t next_number;

static int write_at(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* False: something in it has not ended. */
static bool removed(const char *name)
{
	return !unlinkat(top, name, AT_REMOVEDIR) || errno == ENOENT;
}

static void say_not_removed(const char *name)
{
	log_warn("a worker's cgroup can't be removed", log_str("cgroup", name));
}

/* Before Linux 5.14 there is no such file: then only the worker itself was killed. */
static bool kill_all(int dir)
{
	return !write_at(dir, "cgroup.kill", "1");
}

static void kill_old(const char *name, uint64_t until)
{
	int dir = openat(top, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	kill_all(dir);
	close(dir);
}

static void remove_killed(const char *name, uint64_t until)
{
	bool gone;

	while (!(gone = removed(name)) && errno == EBUSY && now_ns() < until)
		usleep(1000);
	if (!gone)
		say_not_removed(name);
}

static void each_old(void (*each)(const char *name, uint64_t until), uint64_t until)
{
	int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (list && (e = readdir(list)))
		if (!strncmp(e->d_name, PREFIX, strlen(PREFIX)))
			each(e->d_name, until);
	if (list)
		closedir(list);
}

/* An araxd that was killed left them.  They need a moment until they are gone, but one for all. */
static void remove_old(void)
{
	each_old(kill_old, 0);
	each_old(remove_killed, now_ns() + END_LOOKS * 1000000ull);
}

/*
 * Another araxd's workers are not to be ended.  Whoever can open a file can lock it, and all may
 * open the folder: so it is one that no others can open.
 */
static int lock_folder(void)
{
	lock = openat(top, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	/* Before Linux 5.14, and in the topmost, there is none; of one that was given to us it is not ours. */
	if (lock < 0 && (errno == ENOENT || errno == EACCES))
		lock = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0)
		return -errno;
	if (flock(lock, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return 0;
}

/* The folder above it at least: nothing is made elsewhere.  What can't be looked at fails later. */
static bool is_on_cgroup2(const char *folder)
{
	char above[PATH_MAX];
	struct statfs fs;

	if (!statfs(folder, &fs))
		return fs.f_type == CGROUP2_SUPER_MAGIC;
	snprintf(above, sizeof(above), "%s", folder);
	return statfs(dirname(above), &fs) || fs.f_type == CGROUP2_SUPER_MAGIC;
}

static int open_folder(const char *folder)
{
	struct statfs fs;
	int err;

	if (!is_on_cgroup2(folder))
		return -ENOTTY;
	if (mkdir(folder, 0755) && errno != EEXIST)
		return -errno;
	top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || fstatfs(top, &fs))
		return -errno;
	if (fs.f_type != CGROUP2_SUPER_MAGIC)
		return -ENOTTY;
	err = lock_folder();
	if (err)
		return err;
	return faccessat(top, "cgroup.procs", W_OK, 0) ? -errno : 0;
}

int worker_cgroups_open(const char *folder, uint32_t tasks)
{
	int err = open_folder(folder);

	if (err) {
		log_err("workers can't have cgroups", log_str("folder", folder),
			err == -ENOTTY ? log_str("error", "it is not on a cgroup2 file system") :
					 log_errno(err),
			log_str("remedy", "worker.cgroup: a folder of cgroup2 that nobody else uses"));
		worker_cgroups_close();
		return err;
	}
	remove_old();
	most_tasks = tasks;
	/* Only where the ones above have it. */
	counts_tasks = !write_at(top, "cgroup.subtree_control", "+pids");
	log_info("workers have cgroups", log_str("folder", folder),
		 log_str("threads", counts_tasks ? "counted" : "not counted: no pids controller"));
	return 0;
}

/*
 * Our process may be there for longer, with a file of a client's whose close has no end.  While it
 * is, and the folder, which is our unit's, has a controller for those below, cgroup2 lets nobody
 * in, hence no next araxd begin.
 */
void worker_cgroups_close(void)
{
	if (counts_tasks)
		write_at(top, "cgroup.subtree_control", "-pids");
	counts_tasks = false;
	if (lock >= 0)
		close(lock);
	if (top >= 0)
		close(top);
	lock = -1;
	top = -1;
}

static int fill(struct worker_cgroup *cg)
{
	char text[16];

	cg->dir = openat(top, cg->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (cg->dir < 0)
		return -errno;
	cg->procs = openat(cg->dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	cg->freeze = openat(cg->dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
	if (cg->procs < 0 || cg->freeze < 0)
		return -errno;
	snprintf(text, sizeof(text), "%u", most_tasks);
	return counts_tasks ? write_at(cg->dir, "pids.max", text) : 0;
}

int worker_cgroup_make(struct worker_cgroup **out)
{
	struct worker_cgroup *cg;
	int err;

	*out = NULL;
	if (top < 0)
		return 0;
	cg = calloc(1, sizeof(*cg));
	if (!cg)
		return -ENOMEM;
	cg->dir = cg->procs = cg->freeze = -1;
	/* One that could not be removed has its number still. */
	do {
		snprintf(cg->name, sizeof(cg->name), PREFIX "%u", atomic_fetch_add(&next_number, 1));
		err = mkdirat(top, cg->name, 0755) ? -errno : 0;
	} while (err == -EEXIST);
	if (!err)
		err = fill(cg);
	if (err) {
		log_err("a worker gets no cgroup", log_str("cgroup", cg->name), log_errno(err));
		worker_cgroup_free(cg);
		return err;
	}
	*out = cg;
	return 0;
}

int worker_cgroup_procs(const struct worker_cgroup *cg)
{
	return cg ? cg->procs : -1;
}

bool worker_cgroup_freeze(struct worker_cgroup *cg, bool frozen)
{
	return cg && pwrite(cg->freeze, frozen ? "1" : "0", 1, 0) == 1;
}

void worker_cgroup_kill(const struct worker_cgroup *cg)
{
	if (cg && cg->dir >= 0)
		kill_all(cg->dir);
}

static void close_all(struct worker_cgroup *cg)
{
	int *const fds[] = { &cg->dir, &cg->procs, &cg->freeze };

	for (int i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* The last that is done by its descriptors. */
static void kill_and_close(struct worker_cgroup *cg)
{
	int dir = cg->dir;

	/* It takes one, and there may be no more than these. */
	cg->dir = -1;
	close_all(cg);
	/* Without one nothing has entered it. */
	cg->dies = dir < 0 || kill_all(dir);
	if (dir >= 0)
		close(dir);
	cg->killed_ns = now_ns();
}

bool worker_cgroup_gone(struct worker_cgroup *cg)
{
	bool late;

	if (!cg || cg->gone)
		return true;
	if (!cg->killed_ns)
		kill_and_close(cg);
	cg->gone = removed(cg->name);
	if (cg->gone)
		return true;
	late = errno != EBUSY || now_ns() - cg->killed_ns >= END_LOOKS * 1000000ull;
	/* What nobody has killed may be there for ever. */
	cg->gone = late && (errno != EBUSY || !cg->dies);
	if (late && !cg->said)
		say_not_removed(cg->name);
	cg->said |= late;
	return cg->gone;
}

void worker_cgroup_free(struct worker_cgroup *cg)
{
	if (!worker_cgroup_gone(cg) && !cg->said)
		say_not_removed(cg->name);
	free(cg);
}
