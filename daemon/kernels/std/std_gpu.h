/* SPDX-License-Identifier: MIT */
/* What arax-std's GPU kernels share. */
#ifndef ARAX_STD_GPU_H
#define ARAX_STD_GPU_H

#include <arax/gpu.h>

#define SHORT(items, n) ((uint64_t)(n) > (items))

/*
 * An f32 sum that has grown large loses more of each term.  So of a long one runs of terms are
 * added up in f32, which GPUs are quick at, and what comes of them in f64.
 */
#define RUN	128u

/* Read once: its owner may write to it meanwhile. */
template <typename T> static __device__ inline T once(const T *p)
{
	return *(const volatile T *)p;
}

/*
 * Into one number: one block does it, whatever the grid, with at most PARTS of its threads,
 * whose parts are put together at last.  Threads take turns in the array, so that
 * neighbours read neighbouring memory.
 */
#define PARTS 256u

static __device__ inline uint64_t parts_used(void)
{
	return arax_items() < PARTS ? arax_items() : PARTS;
}

/*
 * Of each thread that takes part, one number: put together by halves, for the first one.  All
 * threads call it; @parts may be used again when it returns.
 */
template <typename T, typename F>
static __device__ inline T put_together(T *parts, T mine, F put)
{
	uint64_t me = arax_item(), used = parts_used(), half = 1;

	while (2 * half < used)
		half *= 2;
	if (me < used)
		parts[me] = mine;
	for (; half; half /= 2) {
		__syncthreads();
		if (me < half && me + half < used)
			parts[me] = put(parts[me], parts[me + half]);
	}
	__syncthreads();
	mine = parts[0];
	__syncthreads();
	return mine;
}

struct plus {
	template <typename T> __device__ T operator()(T a, T b) const
	{
		return a + b;
	}
};

/* A NaN is never greater. */
struct greater {
	__device__ float operator()(float a, float b) const
	{
		return b > a ? b : a;
	}
};

/* Their sum. */
template <typename T> static __device__ inline T add_parts(T *parts, T mine)
{
	return put_together(parts, mine, plus());
}

/* Where part @p of @parts of @n items begins. */
#define PART(n, parts, p)	((uint64_t)(p) * (n) / (parts))

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

/* The same of four. */
static __device__ inline bool product(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t most,
				      uint64_t *n)
{
	if (!d) {
		*n = 0;
		return true;
	}
	if (!product(a, b, c, most, n) || *n > most / d)
		return false;
	*n *= d;
	return true;
}

/* The sine and cosine of pi x, exact where these are 0 or 1. */
static __device__ inline void turn_by(float x, float *c, float *s)
{
#if defined(__CUDACC__) || defined(__HIP__)
	sincospif(x, s, c);
#else
	*s = (float)sin(3.14159265358979323846 * (double)x);
	*c = (float)cos(3.14159265358979323846 * (double)x);
#endif
}

#endif /* ARAX_STD_GPU_H */
