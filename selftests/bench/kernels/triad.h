/* SPDX-License-Identifier: MIT */
/*
 * The loop that `stream` measures: compiled into the kernel library and into
 * arax-bench, by the same compiler with the same flags.
 */
#ifndef BENCH_TRIAD_H
#define BENCH_TRIAD_H

#include <stdint.h>

static inline void triad(const double *a, const double *b, double *c, double s, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		c[i] = a[i] + s * b[i];
}

#endif
