// SPDX-License-Identifier: MIT
/* overhead: what a task costs beside a call of its kernel, by how long that takes. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <arax/kernel.h>

#include "bench.h"
#include "clock.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"

#define BAR		1.02
#define LONG_US		1000	/* the bar is about tasks of this and longer */
#define ITEMS		(16u << 20)	/* of three arrays of 128 MiB: 10 ms at 40 GB/s */
#define CALIBRATE_NS	20e6
#define MAX_TASKS	8192
#define BATCH		16
#define MIN_TASKS	16	/* or a sample is mostly its first wake-up and its last one; */
				/* of long ones as many, however long it measures */
#define FEWEST_ROUNDS	3

static const double lengths_us[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000 };

#define NR_LENGTHS (sizeof(lengths_us) / sizeof(*lengths_us))

/**
 * struct load - a kernel, and how much of it a task is
 * @per_us:	units of work that take a microsecond
 * @units:	of one task
 * @tasks:	of one sample
 * @at:		the next item of the arrays
 */
struct load {
	const char *name;
	arax_kernel_fn *fn;
	struct arax_kernel kernel;
	struct session *s;
	struct arax_buffer *buffers[3];
	int arrays;
	double per_us;
	uint64_t units;
	unsigned int tasks;
	uint64_t at;
};

union args {
	uint64_t rounds;
	struct { double s; uint64_t n; } triad;
};

/* One task: arguments, and the bytes that it touches. */
static size_t describe(struct load *l, union args *args, struct arax_range *ranges)
{
	uint64_t bytes = l->units * sizeof(double), offset;

	if (!l->arrays) {
		args->rounds = l->units;
		ranges[0] = arax_inout(l->buffers[0]);
		return 1;
	}
	/* Through the arrays, piece by piece, so that each comes from memory. */
	if (l->at + l->units > ITEMS)
		l->at = 0;
	offset = l->at * sizeof(double);
	l->at += l->units;
	args->triad.s = 3;
	args->triad.n = l->units;
	ranges[0] = arax_part(l->buffers[0], ARAX_IN, offset, bytes);
	ranges[1] = arax_part(l->buffers[1], ARAX_IN, offset, bytes);
	ranges[2] = arax_part(l->buffers[2], ARAX_OUT, offset, bytes);
	return 3;
}

static size_t arg_len(const struct load *l)
{
	return l->arrays ? sizeof(((union args *)0)->triad) : sizeof(uint64_t);
}

static void call_once(struct load *l)
{
	struct arax_launch_range direct[3] = { { 0 } };
	struct arax_range ranges[3];
	struct arax_launch launch = {
		.size = sizeof(launch), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 }, .group_end = 1,
		.ranges = direct, .arg_len = (uint32_t)arg_len(l),
	};
	union args args;
	uint32_t i;
	int err;

	launch.nr_ranges = (uint32_t)describe(l, &args, ranges);
	launch.args = &args;
	for (i = 0; i < launch.nr_ranges; i++) {
		direct[i].data = (char *)arax_buffer_data(l->buffers[i]) + ranges[i].offset;
		direct[i].length = ranges[i].length;
		direct[i].count = 1;
	}
	err = l->fn(&launch);
	if (err)
		bench_fail("%s: %s", l->name, arax_strerror(err));
}

/* On the core of the device, which has nothing to do meanwhile. */
static void call_round(void *arg, double seconds, struct samples *samples)
{
	struct load *l = arg;
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);
	unsigned int i;

	place_self(place_cpu[1]);
	do {
		t0 = ticks();
		for (i = 0; i < l->tasks; i++)
			call_once(l);
		t1 = ticks();
		samples_add(samples, t1 - t0);
	} while (t1 < end);
	place_self(place_cpu[0]);
}

static void submit(struct load *l, unsigned int n)
{
	struct arax_desc desc[BATCH] = { 0 };
	struct arax_range ranges[BATCH][3];
	union args args[BATCH];
	unsigned int i;

	for (i = 0; i < n; i++) {
		desc[i].opcode = ARAX_OP_LAUNCH;
		desc[i].kernel = &l->kernel;
		/* By its size araxd tells a short task from a long one. */
		desc[i].grid = arax_grid((uint32_t)l->units, 1, 1);
		desc[i].nr_ranges = describe(l, &args[i], ranges[i]);
		desc[i].ranges = ranges[i];
		desc[i].args = &args[i];
		desc[i].arg_len = arg_len(l);
	}
	if (arax_submit(l->s->queue, desc, n, 0) != (int)n)
		bench_fail("submitting: %s", arax_error_text());
}

static void task_round(void *arg, double seconds, struct samples *samples)
{
	struct load *l = arg;
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);
	unsigned int left, n;
	int err;

	do {
		t0 = ticks();
		for (left = l->tasks; left; left -= n) {
			n = left < BATCH ? left : BATCH;
			submit(l, n);
		}
		err = arax_queue_finish(l->s->queue, ARAX_DEADLINE_NONE);
		t1 = ticks();
		if (err)
			bench_fail("%s: %s", l->name, arax_strerror(err));
		samples_add(samples, t1 - t0);
	} while (t1 < end);
}

static void calibrate(struct load *l)
{
	uint64_t t0, t1, calls = 0;

	place_self(place_cpu[1]);
	l->units = l->arrays ? 4096 : 1000;
	t0 = ticks();
	do {
		call_once(l);
		calls++;
		t1 = ticks();
	} while (ticks_to_ns(t1 - t0) < CALIBRATE_NS);
	l->per_us = (double)(calls * l->units) * 1000 / ticks_to_ns(t1 - t0);
	place_self(place_cpu[0]);
}

static void load_init(struct load *l, struct session *s, void *library)
{
	uint64_t i, n = l->arrays ? ITEMS : 1;
	int k;

	l->s = s;
	l->fn = (arax_kernel_fn *)dlsym(library, l->name);
	if (!l->fn)
		bench_fail("%s: %s", l->name, dlerror());
	session_find(s, l->name, &l->kernel);
	for (k = 0; k < (l->arrays ? 3 : 1); k++) {
		double *x;

		if (arax_buffer_create(s->ax, n * sizeof(double), 0, &l->buffers[k]) < 0)
			bench_fail("a buffer: %s", arax_error_text());
		x = arax_buffer_data(l->buffers[k]);
		for (i = 0; i < n; i++)
			x[i] = l->arrays ? (double)(k + 1) : 0;
	}
	calibrate(l);
}

/* Every task did its work, on these pages: the chain's end, or the last array. */
static void check(struct load *l)
{
	uint64_t i, x, wanted;
	double *c;

	if (!l->arrays) {
		l->units = 1000;
		l->tasks = 100;
		memset(arax_buffer_data(l->buffers[0]), 0, sizeof(x));
		for (i = 0; i < l->tasks; i++)
			call_once(l);
		memcpy(&wanted, arax_buffer_data(l->buffers[0]), sizeof(wanted));
		if (!wanted)
			bench_fail("%s: calls do nothing", l->name);
		memset(arax_buffer_data(l->buffers[0]), 0, sizeof(x));
		for (i = 0; i < l->tasks; i++)
			submit(l, 1);
		if (arax_queue_finish(l->s->queue, ARAX_DEADLINE_NONE))
			bench_fail("%s: %s", l->name, arax_error_text());
		memcpy(&x, arax_buffer_data(l->buffers[0]), sizeof(x));
		if (x != wanted)
			bench_fail("%s: the result is not that of calls", l->name);
		return;
	}
	c = arax_buffer_data(l->buffers[2]);
	memset(c, 0, ITEMS * sizeof(*c));
	l->at = 0;
	l->units = 1000;
	for (i = 0; i < 100; i++)
		submit(l, 1);
	if (arax_queue_finish(l->s->queue, ARAX_DEADLINE_NONE))
		bench_fail("%s: %s", l->name, arax_error_text());
	for (i = 0; i < 100001; i++) {
		if (c[i] != (i < 100000 ? 1 + 3 * 2.0 : 0))
			bench_fail("%s: the result is wrong at %llu", l->name, (unsigned long long)i);
	}
}

/* ------------------------------------------------------------------ */

struct point {
	double direct_us, task_us, task_p99_us;
};

/* @tasks of a sample; 0: by how long it may take. */
static void one_length(struct load *l, double us, unsigned int tasks, const struct options *o,
		       double seconds, struct point *p)
{
	struct measure task = { .name = "tasks", .round = task_round, .arg = l };
	struct measure call = { .name = "calls", .round = call_round, .arg = l };
	struct measure *all[2] = { &task, &call };
	double each = seconds / (2 * o->rounds) * 1e6, fit;
	int rounds;

	l->units = (uint64_t)(us * l->per_us) + 1;
	if (l->arrays && l->units > ITEMS)
		l->units = ITEMS;
	/* Not of thousands of tasks, or a round would be one sample. */
	l->tasks = each / us < MIN_TASKS || us >= LONG_US ? MIN_TASKS :
		   each / us > MAX_TASKS ? MAX_TASKS : (unsigned int)(each / us);
	if (tasks)
		l->tasks = tasks;
	task.scale = l->tasks;
	call.scale = l->tasks;
	fit = seconds * 1e6 / (2 * l->tasks * us);
	rounds = fit >= o->rounds || o->rounds <= FEWEST_ROUNDS ? o->rounds :
		 fit > FEWEST_ROUNDS ? (int)fit : FEWEST_ROUNDS;
	interleave(all, 2, (size_t)rounds, seconds);
	p->task_us = measure_p50(&task) / 1000;
	p->task_p99_us = measure_p99(&task) / 1000;
	p->direct_us = measure_p50(&call) / 1000;
}

static double efficiency(const struct point *p)
{
	return p->direct_us / p->task_us;
}

/* The length from which on that efficiency is reached; between two points, on the logarithms. */
static double length_of(const struct point *p, double wanted)
{
	size_t i = NR_LENGTHS;
	double low, high, part;

	while (i && efficiency(&p[i - 1]) >= wanted)
		i--;
	if (!i)
		return p[0].direct_us;	/* at the shortest already */
	if (i == NR_LENGTHS)
		return 0;
	low = efficiency(&p[i - 1]);
	high = efficiency(&p[i]);
	part = (wanted - low) / (high - low);
	return exp(log(p[i - 1].direct_us) +
		   part * (log(p[i].direct_us) - log(p[i - 1].direct_us)));
}

static void reached(json_t *result, const struct load *l, const struct point *p, double wanted)
{
	char name[64];
	struct part part = { .name = name, .unit = "us", .value = length_of(p, wanted) };

	snprintf(name, sizeof(name), "%.0f %% of %s", wanted * 100, l->name);
	if (part.value > 0)
		result_part(result, &part);
	else
		result_note(result, name, "not reached at 10 ms");
}

json_t *bench_overhead(const struct options *o)
{
	json_t *result = result_new("overhead", o->link), *curve = json_array();
	struct load loads[] = { { .name = "bench_work" }, { .name = "bench_triad", .arrays = 1 } };
	struct point points[2][NR_LENGTHS], alone = { 0 };
	struct part p = { .name = "tasks of 1 ms and longer", .unit = "us", .bar = BAR };
	struct part single = { .name = "one task of 1 ms, waited for", .unit = "us" };
	double task = 0, direct = 0;
	struct server server;
	struct session s;
	char path[4200];
	void *library;
	size_t i, k;
	int n = 0;

	server_start_devices(&server, o->link, 1);
	session_open(&s, server.link);
	build_path(path, sizeof(path), "lib/arax/bench-kernels/arax-bench.so");
	library = dlopen(path, RTLD_NOW);
	if (!library)
		bench_fail("%s", dlerror());
	place_self(place_cpu[0]);
	for (k = 0; k < 2; k++) {
		load_init(&loads[k], &s, library);
		check(&loads[k]);
		for (i = 0; i < NR_LENGTHS; i++) {
			one_length(&loads[k], lengths_us[i], 0, o, o->seconds / (2 * NR_LENGTHS),
				   &points[k][i]);
			json_array_append_new(curve, json_pack("{s:s,s:f,s:f,s:f,s:f}",
					      "kernel", loads[k].name, "length_us", lengths_us[i],
					      "direct_us", points[k][i].direct_us,
					      "task_us", points[k][i].task_us,
					      "efficiency", efficiency(&points[k][i])));
			if (lengths_us[i] < LONG_US)
				continue;
			task += log(points[k][i].task_us);
			direct += log(points[k][i].direct_us);
			n++;
		}
	}
	one_length(&loads[0], LONG_US, 1, o, o->seconds / (2 * NR_LENGTHS), &alone);
	p.value = exp(task / n);
	p.floor = exp(direct / n);
	p.of = strcmp(o->link, "kernel") ? BAR_RATIO : BAR_NONE;
	result_part(result, &p);
	single.value = alone.task_us;
	single.p99 = alone.task_p99_us;
	single.floor = alone.direct_us;
	result_part(result, &single);
	for (k = 0; k < 2; k++) {
		reached(result, &loads[k], points[k], 0.5);
		reached(result, &loads[k], points[k], 0.95);
	}
	for (k = 0; k < 2; k++) {
		for (i = 0; i < NR_LENGTHS; i++) {
			char name[64];
			struct part row = { .name = name, .unit = "us",
					    .value = points[k][i].task_us,
					    .p99 = points[k][i].task_p99_us,
					    .floor = points[k][i].direct_us };

			snprintf(name, sizeof(name), "%s %g us", loads[k].name, lengths_us[i]);
			result_part(result, &row);
		}
	}
	json_object_set_new(result, "curve", curve);
	session_close(&s);
	server_stop(&server);
	result_note(result, "note_value",
		    "a task's share of 16 or more, submitted by 16 and waited for together, unless it says "
		    "one; the floor is a call of the same function of the same library in this process");
	result_note(result, "note_placement",
		    "one device of one core on pinned_cpus[1], where calls run too; client on [0], "
		    "the rest of araxd not pinned");
	return result;
}
