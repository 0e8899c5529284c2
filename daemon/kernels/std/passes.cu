// SPDX-License-Identifier: MIT
/*
 * The kernels of passes.c: what makes one number of an array, scans or sorts one, counts or adds up
 * what is in it, by all of a device, in several launches.
 *
 * They are launched by passes.c alone, which has checked the ranges' lengths: one-dimensional blocks
 * of a power of two of threads, PASS_THREADS at most.  Ranges' contents are the client's, who may
 * change them at any time: an address that depends on one is checked after it was read, once.
 * Scratch memory is another launch's from before: a pass reads there what one before it has written.
 */
#include "sort_keys.h"
#include "passes.h"

#define PASS_KERNEL ARAX_GPU_KERNEL __launch_bounds__(PASS_THREADS)

static __device__ inline uint32_t thread(void)
{
	return threadIdx.x;
}

static __device__ inline uint32_t threads(void)
{
	return blockDim.x;
}

#define WIDE	16u	/* bytes that a thread loads at once */
#define AHEAD	4u	/* of these, before it waits for the first */

template <typename T> struct alignas(WIDE) wide {
	T at[WIDE / sizeof(T)];
};

/* How many items stand in front of the first that is aligned to WIDE, of @n. */
template <typename T> static __device__ inline uint64_t before_aligned(const T *x, uint64_t n)
{
	uint64_t nr = (0 - (uint64_t)(uintptr_t)x) % WIDE / sizeof(T);

	return nr < n ? nr : n;
}

#include "passes_sum.cu"
#include "passes_scan.cu"
#include "passes_count.cu"
#include "passes_mean.cu"
#include "passes_sort.cu"
