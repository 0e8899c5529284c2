/* SPDX-License-Identifier: MIT */
/*
 * cgroup.h - a cgroup for each worker: what it starts is stopped, counted and ended with it
 *
 * One folder of cgroup2 for all workers of a process, which belongs to nobody else: to
 * worker_cgroups_open() before there are any.  Without it all of this does nothing, and workers
 * are stopped by signals.
 */
#ifndef ARAX_DAEMON_WORKER_CGROUP_H
#define ARAX_DAEMON_WORKER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct worker_cgroup;

/**
 * worker_cgroups_open - have a cgroup for each worker from now on
 * @folder:	is made if it is not there; what a dead araxd's workers left in it is ended
 * @tasks:	processes and threads of each worker, where cgroup2 has the pids controller
 *
 * 0 or negative errno (logged).
 */
int worker_cgroups_open(const char *folder, uint32_t tasks);
/* All workers are gone. */
void worker_cgroups_close(void);

/*
 * For one worker.  0, and *@cg NULL where there are none; else negative errno (logged).  The child
 * itself enters it, by writing "0" to worker_cgroup_procs().
 */
int worker_cgroup_make(struct worker_cgroup **cg);
/* -1 for NULL. */
int worker_cgroup_procs(const struct worker_cgroup *cg);

/* All of it stands still soon, whatever signals it gets but SIGKILL; or goes on.  False: it can't. */
bool worker_cgroup_freeze(struct worker_cgroup *cg, bool frozen);

/* All that is in it, without waiting for anything. */
void worker_cgroup_kill(const struct worker_cgroup *cg);

/*
 * Has what is in it killed, and says whether it could be removed.  False: to be asked again, for
 * something hangs in the kernel, or needs a moment.  It has no descriptors from then on.
 */
bool worker_cgroup_gone(struct worker_cgroup *cg);
/* One that is not gone stays, which is logged. */
void worker_cgroup_free(struct worker_cgroup *cg);

#endif /* ARAX_DAEMON_WORKER_CGROUP_H */
