/* SPDX-License-Identifier: MIT */
/* A client of one araxd, and what benches of one kind of device time through it. */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include <arax/arax.h>

#include "bench.h"
#include "clock.h"
#include "server.h"
#include "stats.h"

#define SIDE_BATCH	64
#define SIDE_NULL_BYTES	4096u
#define SIDE_FIND_NS	5000000000u

/**
 * struct side - the client
 * @server:	started by the bench
 * @small:	of null tasks
 * @large:	in and out, of @bytes
 */
struct side {
	struct server server;
	struct arax *ax;
	struct arax_queue *queue;
	struct arax_kernel null;
	struct arax_buffer *small[SIDE_BATCH + 1];
	struct arax_buffer *large[2];
	uint64_t bytes;
};

/* Ends the program if @err, as what libarax returns, says so. */
void must(int err, const char *what);

/* @flags: of the buffers.  Of side->server; failures end the program, here and below. */
void side_open(struct side *s, uint64_t bytes, uint32_t flags);
void side_close(struct side *s);

/* A null task and its end; SIDE_BATCH of them. */
void side_null(struct side *s);
void side_nulls(struct side *s);

/*
 * For buffers that are ARAX_BUFFER_EXPLICIT.  A task that needs large[0], all of which the
 * program has written before; the program needs large[1], all of which a task has written.
 */
void side_dirty_host(struct side *s);
void side_copy_in(struct side *s);
void side_dirty_device(struct side *s);
void side_copy_out(struct side *s);
/* By araxd's own count: that the copies are made that are timed. */
void side_check_copies(struct side *s);

/* A function of a struct measure that times one thing until its time is over. */
#define ROUND(name, type, before, timed)						\
static void name(void *arg, double seconds, struct samples *samples)			\
{											\
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);		\
	type *w = arg;									\
											\
	do {										\
		before(w);								\
		t0 = ticks();								\
		timed(w);								\
		t1 = ticks();								\
		samples_add(samples, t1 - t0);						\
	} while (t1 < end && !samples_full(samples));					\
}

/**
 * struct figure - a part of a bench, and how it is measured
 * @bytes:	that one sample moves: a rate in GB/s; 0: time
 * @scale:	tasks in a sample
 * @bar:	of the time, if it is over 1, else of the rate; 0: none
 */
struct figure {
	const char *name;
	void (*arax)(void *arg, double seconds, struct samples *samples);
	void (*native)(void *arg, double seconds, struct samples *samples);
	double bytes, scale, bar;
};

/* Both in turn, with @arg, for @seconds.  @api: whose calls the native ones are. */
void figure_measure(json_t *result, const struct figure *f, void *arg, const char *api,
		    double seconds, int rounds, int judged);

#endif
