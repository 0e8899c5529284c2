/* SPDX-License-Identifier: MIT */
/* Which CPU whom. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include <sched.h>
#include <sys/types.h>

/*
 * The two CPUs of every pinned measurement: the first two that this program may
 * use.  Clients (and the asking side of a floor) have [0], servers [1].  The
 * same CPU twice if there is only one.
 */
extern int place_cpu[2];
extern int place_ncpus;

void place_init(void);
/* The calling thread on CPU @cpu; -1: on every CPU that place_init() saw. */
void place_self(int cpu);
/*
 * All threads that process @pid has by now and that it has not itself bound to
 * less than all CPUs; -1: back to where they were.
 */
void place_process(pid_t pid, int cpu);

#endif
