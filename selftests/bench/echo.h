/* SPDX-License-Identifier: MIT */
/* A question to another process and its answer: the floors. */
#ifndef BENCH_ECHO_H
#define BENCH_ECHO_H

#include "stats.h"

enum echo_kind {
	ECHO_LINES,	/* a cache line each way, both spin */
	ECHO_EVENTFD,	/* both sleep in read() */
	ECHO_FUTEX,	/* both sleep in futex() */
	ECHO_SOCKET,	/* SOCK_SEQPACKET, 64 bytes each way */
};

struct echo;

/* Starts the answering process, on @cpu (-1: any).  It sleeps between rounds. */
struct echo *echo_start(enum echo_kind kind, int cpu);
/*
 * Sleep @gap_ns before each question.  What is timed is the question and its
 * answer alone.
 */
void echo_gap(struct echo *e, uint64_t gap_ns);
/* A struct measure's round, @arg is the echo; the caller places itself. */
void echo_round(void *arg, double seconds, struct samples *s);
void echo_stop(struct echo *e);

/* Time to sleep for, used alike by all that is measured with gaps. */
void gap_sleep(uint64_t ns);

#endif
