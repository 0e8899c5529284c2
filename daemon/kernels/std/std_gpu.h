/* SPDX-License-Identifier: MIT */
/* What arax-std's GPU kernels share. */
#ifndef ARAX_STD_GPU_H
#define ARAX_STD_GPU_H

#include <arax/gpu.h>

#define SHORT(items, n) ((uint64_t)(n) > (items))

/*
 * Into one number: one block does it, whatever the grid, with at most PARTS of its threads;
 * the first of them puts the parts together.  Threads take turns in the array, so that
 * neighbours read neighbouring memory.
 */
#define PARTS 256u

static __device__ inline uint64_t parts_used(void)
{
	return arax_items() < PARTS ? arax_items() : PARTS;
}

/* Of each thread that takes part, one number: their sum, for the first.  All threads call it. */
static __device__ inline double add_parts(double *parts, double mine)
{
	uint64_t me = arax_item(), used = parts_used();

	if (me < used)
		parts[me] = mine;
	__syncthreads();
	for (uint64_t i = 1; !me && i < used; i++)
		mine += parts[i];
	return mine;
}

/* The greatest of sign * x[i], every @step'th from @i on; a NaN is never greater. */
static __device__ inline float extreme_of(const float *x, uint64_t i, uint64_t end, uint64_t step,
					  float sign)
{
	float best = -__builtin_huge_valf();

	for (; i < end; i += step) {
		float v = sign * x[i];

		best = v > best ? v : best;
	}
	return best;
}

/* a * b * c into *n; false if that is more than @most. */
static __device__ inline bool product(uint64_t a, uint64_t b, uint64_t c, uint64_t most, uint64_t *n)
{
	*n = a && b && c ? a : 0;
	if (!*n)
		return true;
	if (*n > most / b)
		return false;
	*n *= b;
	if (*n > most / c)
		return false;
	*n *= c;
	return true;
}

#endif /* ARAX_STD_GPU_H */
