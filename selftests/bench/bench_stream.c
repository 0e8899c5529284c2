// SPDX-License-Identifier: MIT
/* stream: memory bandwidth of a CPU kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "clock.h"
#include "kernels/triad.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"

#define ITEMS	(4u << 20)	/* of 8 bytes: three arrays of 32 MiB, beyond the caches */
#define BYTES	((size_t)ITEMS * sizeof(double))

struct stream {
	struct session *s;
	struct arax_kernel triad;
	struct arax_buffer *buffers[3];
	double *arrays[3];
};

static void run_task(struct stream *st)
{
	struct { double s; uint64_t n; } args = { 3, ITEMS };
	struct arax_range ranges[3] = { arax_in(st->buffers[0]), arax_in(st->buffers[1]),
					arax_out(st->buffers[2]) };
	struct arax_event event = ARAX_EVENT_INIT;
	int err = arax_launch(st->s->queue, &st->triad, arax_grid(1, 1, 1), &args, sizeof(args),
			      ranges, 3, &event);

	if (!err)
		err = arax_wait(&event, ARAX_DEADLINE_NONE);
	if (err)
		bench_fail("a triad: %s", arax_strerror(err));
}

static void task_round(void *arg, double seconds, struct samples *samples)
{
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);

	do {
		t0 = ticks();
		run_task(arg);
		t1 = ticks();
		samples_add(samples, t1 - t0);
	} while (t1 < end);
}

static void loop_round(void *arg, double seconds, struct samples *samples)
{
	struct stream *st = arg;
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);

	do {
		t0 = ticks();
		triad(st->arrays[0], st->arrays[1], st->arrays[2], 3, ITEMS);
		__asm__ volatile("" : : : "memory");
		t1 = ticks();
		samples_add(samples, t1 - t0);
	} while (t1 < end);
}

static void fill(struct stream *st)
{
	size_t i;

	for (i = 0; i < ITEMS; i++) {
		st->arrays[0][i] = (double)i;
		st->arrays[1][i] = 1;
		st->arrays[2][i] = 0;
	}
}

/* A task by itself: the floor's loop leaves the same sums on the same pages. */
static void check(struct stream *st)
{
	size_t i;

	memset(st->arrays[2], 0, BYTES);
	run_task(st);
	for (i = 0; i < ITEMS; i++) {
		if (st->arrays[2][i] != (double)i + 3)
			bench_fail("the kernel's result is wrong at %zu", i);
	}
}

static double rate(double ns)
{
	return ns ? 3.0 * (double)BYTES / ns : 0;
}

json_t *bench_stream(const struct options *o)
{
	json_t *result = result_new("stream", o->link);
	struct measure task = { .name = "triad", .round = task_round };
	struct measure loop = { .name = "same loop, same pages", .round = loop_round };
	struct measure own = { .name = "same loop, private memory", .round = loop_round };
	struct measure *all[3] = { &task, &loop, &own };
	struct part p = { .name = "triad", .unit = "GB/s", .of = BAR_RATIO, .at_least = 1,
			  .bar = 0.95, .rounds = json_array() };
	struct server server;
	struct stream st = { 0 }, mine = { 0 };
	struct session s;
	size_t i;

	server_start(&server, o->link);
	session_open(&s, server.link);
	st.s = &s;
	session_find(&s, "bench_triad", &st.triad);
	for (i = 0; i < 3; i++) {
		if (arax_buffer_create(s.ax, BYTES, 0, &st.buffers[i]) < 0)
			bench_fail("a buffer: %s", arax_error_text());
		st.arrays[i] = arax_buffer_data(st.buffers[i]);
		mine.arrays[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mine.arrays[i] == MAP_FAILED)
			bench_fail("memory: %s", strerror(errno));
	}
	fill(&st);
	fill(&mine);
	task.arg = &st;
	loop.arg = &st;
	own.arg = &mine;
	check(&st);
	interleave(all, 3, (size_t)o->rounds, o->seconds);
	check(&st);
	p.value = rate(measure_p50(&task));
	p.p99 = rate(measure_p99(&task));
	p.floor = rate(measure_p50(&loop));
	for (i = 0; i < task.rounds; i++)
		json_array_append_new(p.rounds, json_real(rate(task.p50[i])));
	if (!strcmp(o->link, "kernel"))
		p.of = BAR_NONE;	/* measured in an emulated guest: see docs/benchmarks.md */
	result_part(result, &p);
	result_peer(result, loop.name, rate(measure_p50(&loop)));
	result_peer(result, own.name, rate(measure_p50(&own)));
	session_close(&s);
	server_stop(&server);
	for (i = 0; i < 3; i++)
		munmap(mine.arrays[i], BYTES);
	result_note(result, "note_value",
		    "c[i] = a[i] + 3 * b[i] on three arrays of 32 MiB, from launch to end; the floor "
		    "is the same loop in one thread of this process on the same pages");
	return result;
}
