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

static double gain(const struct application *a, size_t n, int devices, struct outcome *elastic,
		   struct outcome *fixed)
{
	*elastic = run(a, n, devices, 0);
	*fixed = run(a, n, devices, 1);
	return fixed->turnaround_ms / elastic->turnaround_ms;
}

static void add(json_t *result, const char *name, double value, double bar)
{
	struct part p = {
		.name = name, .unit = "times", .value = value, .p99 = value, .floor = 1,
		.of = bar > 0 ? BAR_RATIO : BAR_NONE, .at_least = 1, .bar = bar,
	};

	result_part(result, &p);
}

/*
 * One short application in three is ten times as long.  One arrives whenever the machine, fully
 * used, would have done the mean of them: so there is always work, and never an end of it.
 */
static void staggered(json_t *result, int devices)
{
	struct application a[24];
	struct outcome elastic, fixed;
	char name[32];

	for (int i = 0; i < 24; i++)
		a[i] = (struct application){
			.arrive_ms = i * (8 * (10 + 10 + 100) / 3.0) / devices, .mb = 1, .width = 8,
			.length = i % 3 == 2 ? 100 : 10, .work = 1000000,
		};
	snprintf(name, sizeof(name), "%d devices", devices);
	add(result, name, gain(a, 24, devices, &elastic, &fixed), 2);
}

/* Each has the machine for itself, as far as elasticity lets it: the others are not there. */
static void favourable(json_t *result)
{
	struct application a[8];
	struct outcome elastic, fixed;

	for (int i = 0; i < 8; i++)
		a[i] = (struct application){
			.arrive_ms = i * 400, .mb = 1, .width = 16, .length = 20, .work = 1000000,
		};
	add(result, "favourable", gain(a, 8, 4, &elastic, &fixed), 3);
}

struct mix {
	double gain;
	uint64_t seed;
};

static size_t make_mix(uint64_t seed, struct application *a, int *devices)
{
	struct rng rng = { .seed = seed };
	size_t n = rng_between(&rng, 4, 16);
	double at = 0;

	*devices = rng_between(&rng, 0, 1) ? 8 : 4;
	for (size_t i = 0; i < n; i++) {
		a[i] = (struct application){
			.arrive_ms = at, .mb = (double)rng_between(&rng, 1, 40) / 10,
			.width = (int)rng_between(&rng, 1, 16), .length = (int)rng_between(&rng, 2, 40),
			.work = (int)rng_between(&rng, 50, 2000) * 1000,
		};
		at += (double)rng_between(&rng, 0, 100);
	}
	return n;
}

static int by_gain(const void *x, const void *y)
{
	double a = ((const struct mix *)x)->gain, b = ((const struct mix *)y)->gain;

	return (a > b) - (a < b);
}

static void mixes(json_t *result, int count)
{
	struct mix *m = calloc((size_t)count, sizeof(*m));
	struct application a[16];
	struct outcome elastic, fixed;
	char note[512];
	int devices, worse = 0;
	size_t n;

	if (!m)
		bench_fail("out of memory");
	for (int i = 0; i < count; i++) {
		m[i].seed = (uint64_t)i + 1;
		n = make_mix(m[i].seed, a, &devices);
		m[i].gain = gain(a, n, devices, &elastic, &fixed);
		worse += m[i].gain < 0.99;
	}
	qsort(m, (size_t)count, sizeof(*m), by_gain);
	add(result, "random, 1 in 100", m[count / 100].gain, 0.99);
	add(result, "random, median", m[count / 2].gain, 0);
	add(result, "random, worst", m[0].gain, 0);
	result_int(result, "mixes", count);
	result_int(result, "mixes_worse_by_1_percent", worse);
	n = make_mix(m[0].seed, a, &devices);
	gain(a, n, devices, &elastic, &fixed);
	snprintf(note, sizeof(note), "seed %llu, %zu applications on %d devices: elastic %.1f ms in sum, %.0f MB moved, devices used %.0f %%; static %.1f ms, %.0f MB, %.0f %%; first: %d chains of %d tasks of %.2f ms on %.1f MB",
		 (unsigned long long)m[0].seed, n, devices, elastic.turnaround_ms,
		 elastic.bytes / 1e6, 100 * elastic.used, fixed.turnaround_ms, fixed.bytes / 1e6,
		 100 * fixed.used, a[0].width, a[0].length, a[0].work / 1e6, a[0].mb);
	result_note(result, "note_worst", note);
	free(m);
}

json_t *bench_elastic(const struct options *o)
{
	json_t *result = result_new("elastic", o->link);

	staggered(result, 4);
	staggered(result, 8);
	favourable(result);
	mixes(result, o->seconds >= 5 ? MIXES : (int)(MIXES * o->seconds / 5) + 10);
	result_note(result, "note_value",
		    "sum of the applications' turnarounds, each on one device over elastic; in virtual time");
	result_note(result, "note_favourable",
		    "the original's slides: applications that come one after the other, each able to fill the four devices, of which static leaves three idle");
	return result;
}
