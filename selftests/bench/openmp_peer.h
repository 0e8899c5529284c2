/* SPDX-License-Identifier: MIT */
/* What OpenMP takes for tasks whose order it infers from addresses. */
#ifndef BENCH_OPENMP_PEER_H
#define BENCH_OPENMP_PEER_H

/*
 * Makes empty tasks that read one of 64 addresses and update another one, on two threads, for
 * about @seconds.  ns a task, its run included.
 */
double openmp_tasks(double seconds);

#endif
