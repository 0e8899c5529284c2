// SPDX-License-Identifier: MIT
/*
 * elastic: applications that may use every device, against each on a device of its own.
 *
 * An application is some chains of kernels, each on a buffer, that may run side by side.  It
 * is given to devices task by task (eft), or stays on the device that it was dealt on arrival,
 * in turn (static).  Value: the sum of the applications' turnarounds, static over elastic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "daemon/sim/rng.h"
#include "result.h"
#include "simulate.h"

#define MIXES	1000
#define MIX_APPS	16

/* What an application is like; a task is @work items of 1 ns. */
struct application {
	double arrive_ms, mb;
	int width, length, work;
};

static struct outcome run(const struct application *a, size_t n, int devices, int fixed)
{
	static char text[65536];
	size_t len;

	len = (size_t)snprintf(text, sizeof(text),
		"{ \"name\": \"elastic\",\n"
		" \"machine\": { \"links\": [ { \"name\": \"l\", \"count\": %d, \"gb_per_s\": 12, \"latency_us\": 10 } ],\n"
		"  \"devices\": [ { \"name\": \"d\", \"count\": %d, \"link\": \"l\", \"memory_gb\": 16, \"lanes\": 2 } ] },\n"
		" \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 5, \"ns_per_item\": 1 } } } ],\n"
		" \"tenants\": [ { \"name\": \"t\", \"count\": 64 } ],\n"
		" \"workload\": [", devices, devices);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
			"%s\n  { \"type\": \"streams\", \"tenant\": \"t%zu\", \"arrive_ms\": %.6f, \"width\": %d,\n"
			"    \"length\": %d, \"work\": %d, \"mb\": %.6f, \"kernels\": [ \"k\" ]%s }",
			i ? "," : "", i, a[i].arrive_ms, a[i].width, a[i].length, a[i].work, a[i].mb,
			fixed ? ", \"pin\": \"spread\"" : "");
	snprintf(text + len, sizeof(text) - len, " ] }\n");
	return simulate(text, "eft", 0);
}

/* The same applications both ways. */
struct both {
	struct outcome elastic, fixed;
	double gain;
};

static struct both compare(const struct application *a, size_t n, int devices)
{
	struct both b = { .elastic = run(a, n, devices, 0), .fixed = run(a, n, devices, 1) };

	b.gain = b.fixed.turnaround_ms / b.elastic.turnaround_ms;
	return b;
}

static void add(json_t *result, const char *name, double value, double bar)
{
	struct part p = {
		.name = name, .unit = "times", .value = value, .p99 = value, .floor = 1,
		.of = bar > 0 ? BAR_RATIO : BAR_NONE, .at_least = 1, .bar = bar,
	};

	result_part(result, &p);
}

/* A case: its figure, and a row for each application. */
static void add_case(json_t *result, json_t *rows, const char *name, const struct application *a,
		     size_t n, int devices, double bar)
{
	struct both b = compare(a, n, devices);

	add(result, name, b.gain, bar);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(rows,
			json_pack("{s:s, s:i, s:f, s:i, s:i, s:f, s:f, s:f}", "case", name,
				  "application", (int)i + 1, "arrive_ms", a[i].arrive_ms,
				  "chains", a[i].width, "length", a[i].length,
				  "elastic_ms", b.elastic.app_ms[i], "static_ms", b.fixed.app_ms[i],
				  "ratio", b.fixed.app_ms[i] / b.elastic.app_ms[i]));
}

/*
 * One short application in three is ten times as long.  One arrives whenever the machine, fully
 * used, would have done the mean of them: so there is always work, and never an end of it.
 */
static void staggered(json_t *result, json_t *rows, int devices)
{
	struct application a[24];
	char name[32];

	for (int i = 0; i < 24; i++)
		a[i] = (struct application){
			.arrive_ms = i * (8 * (10 + 10 + 100) / 3.0) / devices, .mb = 1, .width = 8,
			.length = i % 3 == 2 ? 100 : 10, .work = 1000000,
		};
	snprintf(name, sizeof(name), "%d devices", devices);
	add_case(result, rows, name, a, 24, devices, 2);
}

/* Each has the machine for itself, as far as elasticity lets it: the others are not there. */
static void favourable(json_t *result, json_t *rows)
{
	struct application a[8];

	for (int i = 0; i < 8; i++)
		a[i] = (struct application){
			.arrive_ms = i * 400, .mb = 1, .width = 16, .length = 20, .work = 1000000,
		};
	add_case(result, rows, "favourable", a, 8, 4, 3);
}

struct mix {
	uint64_t seed;
	int devices;
	size_t n;
	struct application a[MIX_APPS];
	struct both b;
};

static void make_mix(struct mix *m)
{
	struct rng rng = { .seed = m->seed };
	double at = 0;

	m->n = rng_between(&rng, 4, MIX_APPS);
	m->devices = rng_between(&rng, 0, 1) ? 8 : 4;
	for (size_t i = 0; i < m->n; i++) {
		m->a[i] = (struct application){
			.arrive_ms = at, .mb = (double)rng_between(&rng, 1, 40) / 10,
			.width = (int)rng_between(&rng, 1, 16), .length = (int)rng_between(&rng, 2, 40),
			.work = (int)rng_between(&rng, 50, 2000) * 1000,
		};
		at += (double)rng_between(&rng, 0, 100);
	}
}

static int by_gain(const void *x, const void *y)
{
	double a = ((const struct mix *)x)->b.gain, b = ((const struct mix *)y)->b.gain;

	return (a > b) - (a < b);
}

/* Of @count, sorted: @percent are worse, or as good. */
static const struct mix *at(const struct mix *m, int count, int percent)
{
	return &m[percent * (count - 1) / 100];
}

/* A row for each percent of the mixes, from the worst on. */
static void percentiles(json_t *result, const struct mix *m, int count)
{
	json_t *rows = json_array();

	for (int percent = 0; percent <= 100; percent++) {
		const struct mix *x = at(m, count, percent);

		json_array_append_new(rows,
			json_pack("{s:i, s:I, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
				  "percent", percent, "seed", (json_int_t)x->seed,
				  "devices", x->devices, "applications", (json_int_t)x->n,
				  "elastic_ms", x->b.elastic.turnaround_ms,
				  "static_ms", x->b.fixed.turnaround_ms, "ratio", x->b.gain,
				  "elastic_moved_mb", x->b.elastic.bytes / 1e6,
				  "static_moved_mb", x->b.fixed.bytes / 1e6,
				  "elastic_used_percent", 100 * x->b.elastic.used,
				  "static_used_percent", 100 * x->b.fixed.used));
	}
	json_object_set_new(result, "percentiles", rows);
}

static void mixes(json_t *result, int count)
{
	struct mix *m = calloc((size_t)count, sizeof(*m));
	const struct both *worst;
	char note[512];
	int worse = 0;

	if (!m)
		bench_fail("out of memory");
	for (int i = 0; i < count; i++) {
		m[i].seed = (uint64_t)i + 1;
		make_mix(&m[i]);
		m[i].b = compare(m[i].a, m[i].n, m[i].devices);
		worse += m[i].b.gain < 0.99;
	}
	qsort(m, (size_t)count, sizeof(*m), by_gain);
	add(result, "random, 1 in 100", at(m, count, 1)->b.gain, 0.99);
	add(result, "random, median", at(m, count, 50)->b.gain, 0);
	add(result, "random, worst", m[0].b.gain, 0);
	result_int(result, "mixes", count);
	result_int(result, "mixes_worse_by_1_percent", worse);
	percentiles(result, m, count);
	worst = &m[0].b;
	snprintf(note, sizeof(note), "seed %llu, %zu applications on %d devices: elastic %.1f ms in sum, %.0f MB moved, devices used %.0f %%; static %.1f ms, %.0f MB, %.0f %%; first: %d chains of %d tasks of %.2f ms on %.1f MB",
		 (unsigned long long)m[0].seed, m[0].n, m[0].devices, worst->elastic.turnaround_ms,
		 worst->elastic.bytes / 1e6, 100 * worst->elastic.used, worst->fixed.turnaround_ms,
		 worst->fixed.bytes / 1e6, 100 * worst->fixed.used, m[0].a[0].width,
		 m[0].a[0].length, m[0].a[0].work / 1e6, m[0].a[0].mb);
	result_note(result, "note_worst", note);
	free(m);
}

json_t *bench_elastic(const struct options *o)
{
	json_t *result = result_new("elastic", "none"), *rows = json_array();

	staggered(result, rows, 4);
	staggered(result, rows, 8);
	favourable(result, rows);
	json_object_set_new(result, "rows", rows);
	mixes(result, o->seconds >= 5 ? MIXES : (int)(MIXES * o->seconds / 5) + 10);
	result_note(result, "note_value",
		    "sum of the applications' turnarounds, each on one device over elastic; in virtual time");
	result_note(result, "note_favourable",
		    "the original's slides: applications that come one after the other, each able to fill the four devices, of which static leaves three idle");
	return result;
}
