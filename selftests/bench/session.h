/* SPDX-License-Identifier: MIT */
/* A client as the benches have it. */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include <arax/arax.h>

#include "stats.h"

#define SESSION_BUFFERS	64
#define SESSION_BYTES	4096
#define WINDOW		64	/* tasks outstanding */
#define GRAIN		1024	/* tasks that one sample of throughput stands for */

/**
 * struct session - a context, a dataflow queue, 64 buffers, the null kernels
 * @gap_ns:	sleep before each task of session_null_round()
 * @batch:	of session_depth_round(): a submit's tasks; divides WINDOW
 */
struct session {
	struct arax *ax;
	struct arax_queue *queue;
	struct arax_buffer *buffers[SESSION_BUFFERS];
	struct arax_kernel null;	/* 16 bytes, an in and an inout range */
	struct arax_kernel empty;	/* 16 bytes, no range */
	struct arax_kernel wide;	/* 32 bytes, three in and an inout range */
	uint64_t gap_ns;
	unsigned int batch;
	uint64_t turn;
};

/* @link as ARAX_LINK is.  Failures end the program. */
void session_open(struct session *s, const char *link);
void session_close(struct session *s);
void session_find(struct session *s, const char *name, struct arax_kernel *kernel);

/* One null task and its end. */
void session_null(struct session *s);

/* Rounds of a struct measure; @arg is the session. */
void session_null_round(void *arg, double seconds, struct samples *samples);
/* WINDOW tasks outstanding; a sample is GRAIN tasks: let `scale` be GRAIN. */
void session_depth_round(void *arg, double seconds, struct samples *samples);
/* The same without ranges, and with four. */
void session_empty_round(void *arg, double seconds, struct samples *samples);
void session_wide_round(void *arg, double seconds, struct samples *samples);

#endif
