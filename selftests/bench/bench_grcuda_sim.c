// SPDX-License-Identifier: MIT
/*
 * grcuda-sim: GrCUDA's six benchmarks on a simulated P100 (p100.h), the schedule that is
 * inferred from ranges against a program that waits for every kernel.
 */
#include <math.h>
#include <stdio.h>

#include "bench.h"
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

static struct outcome run(const char *type, double n, double scale, int window)
{
	static char text[16384];
	size_t len;

	len = (size_t)snprintf(text, sizeof(text),
		"{ \"name\": \"%s\", \"machine\": {\n"
		"  \"links\": [ { \"name\": \"pcie\", \"gb_per_s\": %g, \"latency_us\": %d, \"duplex\": true } ],\n"
		"  \"devices\": [ { \"name\": \"p100\", \"link\": \"pcie\", \"memory_gb\": %g, \"lanes\": %d } ] },\n"
		" \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [", type, P100_LINK_GB_PER_S,
		P100_LINK_US, P100_MEMORY_GB, P100_LANES);
	for (size_t k = 0; k < sizeof(p100_kernels) / sizeof(p100_kernels[0]); k++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
			"%s\n  { \"name\": \"%s\", \"cost\": { \"p100\": { \"ns_per_item\": %.12g } } }",
			k ? "," : "", p100_kernels[k].name, scale * item_ns(k));
	snprintf(text + len, sizeof(text) - len,
		 " ],\n \"workload\": [ { \"type\": \"%s\", \"n\": %.0f, \"window\": %d } ] }\n", type, n,
		 window);
	return simulate(text, "eft", 0);
}

json_t *bench_grcuda_sim(const struct options *o)
{
	const size_t nr = sizeof(p100_benchmarks) / sizeof(p100_benchmarks[0]);
	json_t *result = result_new("grcuda-sim", o->link);
	double product = 1, best = 1;
	struct part parts[6], mean = {
		.name = "geometric mean", .unit = "times", .floor = 1, .of = BAR_RATIO, .at_least = 1,
		.bar = BAR,
	};
	char names[6][32];

	for (size_t i = 0; i < nr; i++) {
		const char *type = p100_benchmarks[i].type;
		double n = p100_benchmarks[i].n, serial = p100_benchmarks[i].serial_ms;
		/* Twice without overlap: what is not kernels is the same in both. */
		double one = run(type, n, 1, 1).makespan_ms, two = run(type, n, 2, 1).makespan_ms;
		double copies = one - (two - one), scale = (serial - copies) / (two - one);
		double sync, inferred;

		if (!(scale > 0))
			bench_fail("%s: its inputs take longer than the authors' whole run", type);
		sync = run(type, n, scale, 1).makespan_ms;
		inferred = run(type, n, scale, 64).makespan_ms;
		if (fabs(sync - serial) > 0.01 * serial)
			bench_fail("%s: %g ms instead of the calibrated %g", type, sync, serial);
		snprintf(names[i], sizeof(names[i]), "%s", type);
		parts[i] = (struct part){
			.name = names[i], .unit = "times", .value = sync / inferred,
			.p99 = sync / inferred, .floor = 1, .of = BAR_NONE,
		};
		product *= sync / inferred;
		/* Link and device both busy all the time: no schedule does better. */
		best *= serial / fmax(copies, serial - copies);
	}
	mean.value = pow(product, 1.0 / (double)nr);
	mean.p99 = mean.value;
	result_part(result, &mean);
	for (size_t i = 0; i < nr; i++)
		result_part(result, &parts[i]);
	mean = (struct part){
		.name = "no schedule beats", .unit = "times", .value = pow(best, 1.0 / (double)nr),
		.floor = 1, .of = BAR_NONE,
	};
	mean.p99 = mean.value;
	result_part(result, &mean);
	result_note(result, "note_value",
		    "time of a program that waits for each kernel over that of the inferred schedule, in virtual time; constants: selftests/bench/p100.h");
	return result;
}
