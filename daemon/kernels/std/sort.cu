// SPDX-License-Identifier: MIT
/*
 * sort.c for GPUs: Batcher's bitonic network, in place, by one block, as sort.cl has it.  Which
 * items are compared comes from their number alone, so nothing that is in them leads elsewhere.
 * The first step of each merge compares from both ends, so that all steps go upwards, and what
 * lies beyond n counts as larger than everything.  Steps between items that are near each other
 * are done in shared memory, all of a merge at once.
 */
#include "sort_keys.h"

#define SORT_TILE	2048u	/* items in shared memory */

/*
 * Pair @i of a step: of a, which stands first in it, bit `step` is 0.  @from_ends: it is a
 * merge's first.
 */
static __device__ inline void pair_at(uint64_t i, uint64_t step, bool from_ends, uint64_t *a,
				      uint64_t *b)
{
	*a = (i & ~(step - 1)) << 1 | (i & (step - 1));
	*b = from_ends ? *a ^ (2 * step - 1) : *a + step;
}

/* The steps from @step to 1 of a merge, between @nr items of a tile. */
template <typename T>
static __device__ void steps_in_tile(T *tile, uint64_t nr, uint64_t step, bool from_ends)
{
	for (; step; step /= 2, from_ends = false) {
		for (uint64_t i = arax_item(); i < SORT_TILE / 2; i += arax_items()) {
			uint64_t a, b;

			pair_at(i, step, from_ends, &a, &b);
			if (b < nr && tile[b] < tile[a]) {
				T low = tile[b];

				tile[b] = tile[a];
				tile[a] = low;
			}
		}
		__syncthreads();
	}
}

/* Of each tile: all merges that stay in it, or the last steps of one that does not. */
template <typename T, typename K>
static __device__ void steps_in_tiles(const K &keys, uint64_t n, T *tile, bool all_merges)
{
	for (uint64_t first = 0; first < n; first += SORT_TILE) {
		const uint64_t nr = n - first < SORT_TILE ? n - first : SORT_TILE;

		for (uint64_t i = arax_item(); i < nr; i += arax_items())
			tile[i] = keys.get(first + i);
		__syncthreads();
		for (uint64_t step = 1; all_merges && step < nr; step *= 2)
			steps_in_tile(tile, nr, step, true);
		if (!all_merges)
			steps_in_tile(tile, nr, SORT_TILE / 2, false);
		/* Each thread stores what it loads next in the same places. */
		for (uint64_t i = arax_item(); i < nr; i += arax_items())
			keys.put(first + i, tile[i]);
	}
	__syncthreads();
}

/* A step between items that may be far from each other. */
template <typename T, typename K>
static __device__ void far_step(const K &keys, uint64_t n, uint64_t step, bool from_ends)
{
	uint64_t pairs = 1;

	while (2 * pairs < n)
		pairs *= 2;
	for (uint64_t i = arax_item(); i < pairs; i += arax_items()) {
		uint64_t a, b;

		pair_at(i, step, from_ends, &a, &b);
		if (b < n) {
			T x = keys.get(a), y = keys.get(b);

			keys.put(a, y < x ? y : x);
			keys.put(b, y < x ? x : y);
		}
	}
	__syncthreads();
}

template <typename T, typename K>
static __device__ void sort(const K &keys, uint64_t n, T *tile)
{
	if (arax_group())
		return;
	steps_in_tiles(keys, n, tile, true);
	for (uint64_t half = SORT_TILE; half < n; half *= 2) {
		for (uint64_t step = half; step >= SORT_TILE; step /= 2)
			far_step<T>(keys, n, step, step == half);
		steps_in_tiles(keys, n, tile, false);
	}
}

ARAX_GPU_KERNEL arax_std_sort_u32(uint32_t *key, uint64_t nkey, uint32_t n,
				  arax_gpu_result result)
{
	__shared__ uint32_t tile[SORT_TILE];

	if (result.canceled())
		return;
	if (SHORT(nkey, n)) {
		*result = -EINVAL;
		return;
	}
	sort(keys_u32{ key }, n, tile);
}

ARAX_GPU_KERNEL arax_std_sort_f32(float *key, uint64_t nkey, uint32_t n, arax_gpu_result result)
{
	__shared__ uint32_t tile[SORT_TILE];

	if (result.canceled())
		return;
	if (SHORT(nkey, n)) {
		*result = -EINVAL;
		return;
	}
	sort(keys_f32{ (uint32_t *)key }, n, tile);
}

ARAX_GPU_KERNEL arax_std_sort_pairs_u32(uint32_t *key, uint64_t nkey, uint32_t *value,
					uint64_t nvalue, uint32_t n, arax_gpu_result result)
{
	__shared__ uint64_t tile[SORT_TILE];

	if (result.canceled())
		return;
	if (SHORT(nkey, n) || SHORT(nvalue, n)) {
		*result = -EINVAL;
		return;
	}
	sort(keys_pairs{ key, value }, n, tile);
}
