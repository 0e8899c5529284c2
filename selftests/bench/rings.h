/* SPDX-License-Identifier: MIT */
/* Bare rings between two processes: what `depth` costs without anything in it. */
#ifndef BENCH_RINGS_H
#define BENCH_RINGS_H

#include "stats.h"

struct rings;

/*
 * 128-byte requests, 64-byte replies, published by a sequence word each; both
 * sides spin while a round runs.  The answering process is on @cpu.
 */
struct rings *rings_start(int cpu);
/* 64 requests outstanding; a sample is 1,024 of them.  @arg is the rings. */
void rings_round(void *arg, double seconds, struct samples *s);
void rings_stop(struct rings *r);

#endif
