// SPDX-License-Identifier: MIT
/*
 * grcuda-sim: GrCUDA's six benchmarks on a simulated P100 (p100.h), the schedule that is
 * inferred from ranges against a program that waits for every kernel.
 */
#include <math.h>
#include <stdio.h>

#include "bench.h"
#include "least.h"
#include "p100.h"
#include "result.h"
#include "simulate.h"

#define BAR	1.44

static double item_ns(size_t k)
{
	double ns = p100_kernels[k].bytes / P100_BYTES_PER_NS;

	ns = fmax(ns, p100_kernels[k].f32 / P100_F32_PER_NS);
	return fmax(ns, p100_kernels[k].f64 / P100_F64_PER_NS);
}

/* @link: GB/s */
static const char *scenario(const char *type, double n, double scale, double link, int window)
{
	static char text[16384];
	size_t len;

	len = (size_t)snprintf(text, sizeof(text),
		"{ \"name\": \"%s\", \"machine\": {\n"
		"  \"links\": [ { \"name\": \"pcie\", \"gb_per_s\": %g, \"latency_us\": %d, \"duplex\": true } ],\n"
		"  \"devices\": [ { \"name\": \"p100\", \"link\": \"pcie\", \"memory_gb\": %g, \"lanes\": %d } ] },\n"
		" \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [", type, link, P100_LINK_US,
		P100_MEMORY_GB, P100_LANES);
	for (size_t k = 0; k < sizeof(p100_kernels) / sizeof(p100_kernels[0]); k++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
			"%s\n  { \"name\": \"%s\", \"cost\": { \"p100\": { \"ns_per_item\": %.12g } } }",
			k ? "," : "", p100_kernels[k].name, scale * item_ns(k));
	snprintf(text + len, sizeof(text) - len,
		 " ],\n \"workload\": [ { \"type\": \"%s\", \"n\": %.0f, \"window\": %d } ] }\n", type, n,
		 window);
	return text;
}

static double run_ms(const char *type, double n, double scale, double link, int window)
{
	return simulate(scenario(type, n, scale, link, window), "eft", 0).makespan_ms;
}

/**
 * struct times - of one program, ms
 * @faults:	synchronous, its inputs come by page faults: the authors' median
 * @copies:	synchronous, its inputs are copied before the launch that needs them
 * @inferred:	all submitted, the graph and the scheduler decide
 * @least:	no schedule takes less
 */
struct times {
	double faults, copies, inferred, least;
};

static struct times measure(size_t i)
{
	const char *type = p100_benchmarks[i].type;
	double n = p100_benchmarks[i].n, serial = p100_benchmarks[i].serial_ms;
	/* Without overlap: what is not kernels is the same in both. */
	double one = run_ms(type, n, 1, P100_FAULTS_GB_PER_S, 1);
	double two = run_ms(type, n, 2, P100_FAULTS_GB_PER_S, 1);
	double moving = one - (two - one), scale = (serial - moving) / (two - one);
	struct times t;

	if (!(scale > 0))
		bench_fail("%s: its inputs take longer than the authors' whole run", type);
	t.faults = run_ms(type, n, scale, P100_FAULTS_GB_PER_S, 1);
	t.copies = run_ms(type, n, scale, P100_LINK_GB_PER_S, 1);
	t.inferred = run_ms(type, n, scale, P100_LINK_GB_PER_S, 64);
	t.least = least_ms(scenario(type, n, scale, P100_LINK_GB_PER_S, 64));
	if (fabs(t.faults - serial) > 0.01 * serial)
		bench_fail("%s: %g ms instead of the calibrated %g", type, t.faults, serial);
	if (t.inferred < t.least)
		bench_fail("%s: %g ms, but no schedule takes less than %g: one of the two is wrong",
			   type, t.inferred, t.least);
	return t;
}

static void state(json_t *result, const char *name, double value)
{
	struct part p = {
		.name = name, .unit = "times", .value = value, .p99 = value, .floor = 1,
		.of = BAR_NONE,
	};

	result_part(result, &p);
}

/* All times, in ms; the authors' scheduled ones beside ours. */
static json_t *row(size_t i, const struct times *t)
{
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "program", p100_benchmarks[i].type,
			 "n", p100_benchmarks[i].n, "synchronous_ms", t->faults,
			 "synchronous_copies_ms", t->copies, "inferred_ms", t->inferred,
			 "least_ms", t->least, "authors_scheduled_ms",
			 p100_benchmarks[i].scheduled_ms);
}

json_t *bench_grcuda_sim(const struct options *o)
{
	const size_t nr = sizeof(p100_benchmarks) / sizeof(p100_benchmarks[0]);
	json_t *result = result_new("grcuda-sim", "none"), *rows = json_array();
	double over_faults = 1, over_copies = 1, over_least = 1, best = 1, authors = 1;
	struct part mean = {
		.name = "geometric mean", .unit = "times", .floor = 1, .of = BAR_RATIO, .at_least = 1,
		.bar = BAR,
	};
	struct times t[sizeof(p100_benchmarks) / sizeof(p100_benchmarks[0])];

	for (size_t i = 0; i < nr; i++) {
		t[i] = measure(i);
		over_faults *= t[i].faults / t[i].inferred;
		over_copies *= t[i].copies / t[i].inferred;
		over_least *= t[i].inferred / t[i].least;
		best *= t[i].faults / t[i].least;
		authors *= t[i].faults / p100_benchmarks[i].scheduled_ms;
		json_array_append_new(rows, row(i, &t[i]));
	}
	mean.value = pow(over_faults, 1.0 / (double)nr);
	mean.p99 = mean.value;
	result_part(result, &mean);
	for (size_t i = 0; i < nr; i++)
		state(result, p100_benchmarks[i].type, t[i].faults / t[i].inferred);
	state(result, "over synchronous copies", pow(over_copies, 1.0 / (double)nr));
	state(result, "no schedule beats", pow(best, 1.0 / (double)nr));
	state(result, "inferred over that bound", pow(over_least, 1.0 / (double)nr));
	state(result, "the authors' own", pow(authors, 1.0 / (double)nr));
	json_object_set_new(result, "rows", rows);
	result_note(result, "note_value",
		    "time of the authors' synchronous program, whose inputs come by page faults, over that of the inferred schedule, in virtual time; constants: selftests/bench/p100.h");
	result_note(result, "note_copies",
		    "over synchronous copies: the same against a synchronous program whose inputs are copied at the link's full rate: what overlap alone gains where each kernel takes the whole device");
	return result;
}
