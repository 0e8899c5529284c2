/* SPDX-License-Identifier: MIT */
/*
 * spawn.h - start a process that has nothing but what it is given
 */
#ifndef ARAX_DAEMON_WORKER_SPAWN_H
#define ARAX_DAEMON_WORKER_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/worker/proto.h"

struct spawn {
	int fds[WORKER_NR_FDS];	/* what becomes descriptor 3.. ; 0..2 are unused */
	uint32_t uid, gid;
	uint64_t memory;	/* RLIMIT_DATA beside a stack for each CPU, 0: as it is */
	cpu_set_t cpus;
	enum worker_role role;
	int cgroup;		/* its cgroup.procs; -1: it stays in ours */
};

/*
 * The child has: its descriptors and no other (0..2 are /dev/null), the uid and
 * gid, no supplementary group, no capability, no_new_privs, an empty
 * environment, a session of its own, default signals, no core dumps, and it is
 * killed when the calling thread ends.  With code that a program brought it is the first to go
 * when memory is short.  If it fails before the program runs it
 * sends WORKER_MSG_FAILED on its socket.  Negative errno if there is no child.
 *
 * Where a vendor's stack is to work it has files of its own besides, beneath
 * WORKER_SCRATCH, of WORKER_SCRATCH_BYTES at most: a file system in memory that
 * nobody else sees, and that is gone with it.  Who compiles may start other programs: so it
 * is the first process of a namespace, and none of them outlives it, nor reaches
 * anybody else's or a network.
 */
pid_t spawn_worker(const struct spawn *s);

#endif /* ARAX_DAEMON_WORKER_SPAWN_H */
