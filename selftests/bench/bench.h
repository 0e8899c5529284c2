/* SPDX-License-Identifier: MIT */
/* The benches and what they are told. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <jansson.h>
#include <stdnoreturn.h>

/**
 * struct options - the command line
 * @link:	"kernel" or "broker"
 * @json:	print JSON
 * @seconds:	to measure for, about, shared by everything in one bench
 * @rounds:	in how many turns
 */
struct options {
	const char *link;
	int json;
	double seconds;
	int rounds;
};

/* Each returns its result; what goes wrong ends the program. */
json_t *bench_floors(const struct options *o);
json_t *bench_null(const struct options *o);
json_t *bench_depth(const struct options *o);
json_t *bench_sleep(const struct options *o);
json_t *bench_handover(const struct options *o);
json_t *bench_access(const struct options *o);
json_t *bench_stream(const struct options *o);
json_t *bench_starpu(const struct options *o);
json_t *bench_simscale(const struct options *o);
json_t *bench_elastic(const struct options *o);
json_t *bench_grcuda_sim(const struct options *o);
json_t *bench_grcuda(const struct options *o);
json_t *bench_overhead(const struct options *o);
json_t *bench_cholesky(const struct options *o);
json_t *bench_fair(const struct options *o);
json_t *bench_graph(const struct options *o);
json_t *bench_cholesky_sim(const struct options *o);
json_t *bench_sharing(const struct options *o);
json_t *bench_rodinia(const struct options *o);
json_t *bench_opencl(const struct options *o);
json_t *bench_cuda(const struct options *o);
json_t *bench_outofcore(const struct options *o);

/* Says why on standard error and exits with 1. */
noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
