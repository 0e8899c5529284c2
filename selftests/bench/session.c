// SPDX-License-Identifier: MIT
/* A client as the benches have it. */
#include "session.h"

#include <string.h>

#include "bench.h"
#include "clock.h"
#include "echo.h"

#define FIND_NS	5000000000u

void session_find(struct session *s, const char *name, struct arax_kernel *kernel)
{
	if (arax_kernel_find(s->ax, name, arax_deadline(FIND_NS), kernel) < 0)
		bench_fail("kernel %s: %s", name, arax_error_text());
}

void session_open(struct session *s, const char *link)
{
	struct arax_options o = { .size = sizeof(o), .link = link };
	int i;

	memset(s, 0, sizeof(*s));
	s->batch = 16;
	if (arax_open(&s->ax, &o) < 0)
		bench_fail("opening a context: %s", arax_error_text());
	if (arax_queue_create(s->ax, ARAX_QUEUE_DATAFLOW, 0, &s->queue) < 0)
		bench_fail("creating a queue: %s", arax_error_text());
	for (i = 0; i < SESSION_BUFFERS; i++) {
		if (arax_buffer_create(s->ax, SESSION_BYTES, 0, &s->buffers[i]) < 0)
			bench_fail("creating a buffer: %s", arax_error_text());
	}
	session_find(s, "bench_null", &s->null);
	session_find(s, "bench_empty", &s->empty);
	session_find(s, "bench_wide", &s->wide);
}

void session_close(struct session *s)
{
	arax_close(s->ax);
	s->ax = NULL;
}

/* Task i reads buffer i and updates the one that task i + 32 reads. */
static struct arax_buffer *input(struct session *s, uint64_t i)
{
	return s->buffers[i % SESSION_BUFFERS];
}

static struct arax_buffer *output(struct session *s, uint64_t i)
{
	return s->buffers[(i + SESSION_BUFFERS / 2) % SESSION_BUFFERS];
}

void session_null(struct session *s)
{
	struct arax_event event = ARAX_EVENT_INIT;
	uint64_t args[2] = { s->turn, 0 };
	struct arax_range ranges[2];
	int err;

	ranges[0] = arax_in(input(s, s->turn));
	ranges[1] = arax_inout(output(s, s->turn));
	s->turn++;
	err = arax_launch(s->queue, &s->null, arax_grid(1, 1, 1), args, sizeof(args), ranges, 2,
			  &event);
	if (!err)
		err = arax_wait(&event, ARAX_DEADLINE_NONE);
	if (err)
		bench_fail("a null task: %s", arax_strerror(err));
}

void session_null_round(void *arg, double seconds, struct samples *samples)
{
	struct session *s = arg;
	uint64_t t0, t1, end;

	session_null(s);
	t1 = ticks();
	end = t1 + ns_to_ticks(seconds * 1e9);
	while (t1 < end && !samples_full(samples)) {
		if (s->gap_ns)
			gap_sleep(s->gap_ns);
		t0 = ticks();
		session_null(s);
		t1 = ticks();
		samples_add(samples, t1 - t0);
	}
}

/* ------------------------------------------------------------------ */

#define WIDEST	4

struct window {
	struct arax_desc desc[WINDOW];
	struct arax_event event[WINDOW];
	struct arax_range ranges[WINDOW][WIDEST];
	uint64_t args[WINDOW][WIDEST];
};

/* Tasks of @kernel, with @nr ranges: the last one is updated, the others are read. */
static void window_init(struct session *s, struct window *w, const struct arax_kernel *kernel,
			unsigned int nr)
{
	unsigned int i, k;

	memset(w, 0, sizeof(*w));
	for (i = 0; i < WINDOW; i++) {
		for (k = 0; k + 1 < nr; k++)
			w->ranges[i][k] = arax_in(input(s, (uint64_t)i + k));
		if (nr)
			w->ranges[i][nr - 1] = arax_inout(output(s, (uint64_t)i));
		w->desc[i].opcode = ARAX_OP_LAUNCH;
		w->desc[i].kernel = kernel;
		w->desc[i].grid = arax_grid(1, 1, 1);
		w->desc[i].args = w->args[i];
		w->desc[i].arg_len = (nr > 2 ? nr : 2) * sizeof(w->args[i][0]);
		w->desc[i].ranges = w->ranges[i];
		w->desc[i].nr_ranges = nr;
		w->desc[i].event = &w->event[i];
	}
}

static void window_submit(struct session *s, struct window *w, unsigned int first)
{
	int n = arax_submit(s->queue, &w->desc[first], s->batch, 0);

	if (n != (int)s->batch)
		bench_fail("submitting: %s", arax_error_text());
}

static void window_wait(struct session *s, struct window *w, unsigned int first)
{
	unsigned int i;
	int err;

	for (i = first; i < first + s->batch; i++) {
		err = arax_wait(&w->event[i], ARAX_DEADLINE_NONE);
		if (err)
			bench_fail("a null task: %s", arax_strerror(err));
	}
}

static void window_round(struct session *s, double seconds, struct samples *samples,
			 const struct arax_kernel *kernel, unsigned int nr)
{
	static struct window w;
	unsigned int at = 0, done = 0, i;
	uint64_t t0, t1, end;

	window_init(s, &w, kernel, nr);
	for (i = 0; i < WINDOW; i += s->batch)
		window_submit(s, &w, i);
	t0 = ticks();
	t1 = t0;
	end = t0 + ns_to_ticks(seconds * 1e9);
	while (t1 < end && !samples_full(samples)) {
		window_wait(s, &w, at);
		window_submit(s, &w, at);
		at = (at + s->batch) % WINDOW;
		done += s->batch;
		if (done < GRAIN)
			continue;
		t1 = ticks();
		samples_add(samples, t1 - t0);
		t0 = t1;
		done = 0;
	}
	for (i = 0; i < WINDOW; i += s->batch)
		window_wait(s, &w, (at + i) % WINDOW);
}

void session_depth_round(void *arg, double seconds, struct samples *samples)
{
	struct session *s = arg;

	window_round(s, seconds, samples, &s->null, 2);
}

void session_empty_round(void *arg, double seconds, struct samples *samples)
{
	struct session *s = arg;

	window_round(s, seconds, samples, &s->empty, 0);
}

void session_wide_round(void *arg, double seconds, struct samples *samples)
{
	struct session *s = arg;

	window_round(s, seconds, samples, &s->wide, WIDEST);
}
