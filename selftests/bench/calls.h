/* SPDX-License-Identifier: MIT */
/* System calls as floors and peers.  Each is a struct measure's round. */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include "stats.h"

/* getppid(), @arg unused.  A sample is one call. */
void calls_null(void *arg, double seconds, struct samples *s);
/* @arg: int *fd of /dev/arax: its cheapest call that does anything (INFO). */
void calls_ioctl(void *arg, double seconds, struct samples *s);

struct uring;
/* NULL where io_uring or liburing is not to be had; @why says which. */
struct uring *uring_open(unsigned int batch, const char **why);
/* @arg: the uring.  A sample is one io_uring_submit_and_wait() of a batch of NOPs. */
void uring_round(void *arg, double seconds, struct samples *s);
void uring_close(struct uring *u);

#endif
