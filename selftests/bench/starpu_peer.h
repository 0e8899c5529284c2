/* SPDX-License-Identifier: MIT */
/* StarPU's empty CPU tasks. */
#ifndef BENCH_STARPU_PEER_H
#define BENCH_STARPU_PEER_H

#include "stats.h"

/*
 * StarPU lives in a process of its own and is paused between rounds, so that its
 * workers' polling takes no CPU from others.
 */
struct starpu_peer;

/*
 * @workers: CPU workers besides the submitting thread, 0: StarPU's default.
 * @handles: 0 or 2 (one R, one RW, of 64).  @home: a folder for its files.
 * NULL, and @why set: there is no StarPU.
 */
struct starpu_peer *starpu_peer_start(int workers, int handles, const char *home,
				      const char **why);
/* A sample is GRAIN tasks, submitted at once and waited for.  @arg is the peer. */
void starpu_peer_round(void *arg, double seconds, struct samples *s);
void starpu_peer_stop(struct starpu_peer *p);

#endif
