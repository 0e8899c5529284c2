/* SPDX-License-Identifier: MIT */
/* common.h - small things that filters share */
#ifndef ARAX_DAEMON_FILTERS_COMMON_H
#define ARAX_DAEMON_FILTERS_COMMON_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/reason.h"

/* A decimal number between lo and hi. */
static inline int filter_number(const char *text, double lo, double hi, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= lo && v <= hi)) {
		reason_set("want a number from %g to %g", lo, hi);
		return -EINVAL;
	}
	*out = v;
	return 0;
}

/* Uniform in [0, 1); splitmix64, so that a seed gives the same run again. */
static inline double filter_random(_Atomic uint64_t *state)
{
	uint64_t z = atomic_fetch_add_explicit(state, 0x9e3779b97f4a7c15ull,
					       memory_order_relaxed);

	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

#endif /* ARAX_DAEMON_FILTERS_COMMON_H */
