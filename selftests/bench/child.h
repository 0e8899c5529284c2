/* SPDX-License-Identifier: MIT */
/* Child processes that never outlive this one. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <sys/types.h>

/*
 * Fork; the child runs @run(@arg) and exits with 0.  It dies with its parent,
 * and child_end_all() ends it.
 */
pid_t child_start(void (*run)(void *arg), void *arg);
/*
 * Have @run called at the end of this process, however it comes to it (exit() or
 * SIGINT, SIGTERM, SIGHUP), when no child is left; the last one first.  It makes
 * no call that a signal handler may not make.
 */
void child_after(void (*run)(void));
/* Whether this process is one of them. */
int child_here(void);
/* SIGTERM, then after 3 s SIGKILL; returns the wait status. */
int child_end(pid_t pid);
/* The same after @seconds. */
int child_end_within(pid_t pid, int seconds);
/* Wait for its own end. */
int child_join(pid_t pid);

#endif
