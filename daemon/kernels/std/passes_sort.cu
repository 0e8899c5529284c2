// SPDX-License-Identifier: MIT
/*
 * Sorting: Batcher's bitonic network, in place, as sort.cu has it.  See passes.cu.
 *
 * Which items are compared comes from their number alone, so nothing that is in them leads elsewhere,
 * whoever changes them meanwhile.  What lies beyond n counts as larger than everything.
 *
 * Several steps of a merge are done at a time: of @step, @step / 2 ... items that are compared with each
 * other alone are 2, 4 ... items, which a thread loads at once.
 */

template <uint32_t STEPS, typename T, typename A>
static __device__ inline void steps_of(const A &at, uint64_t i, uint64_t step, bool from_ends)
{
	const uint32_t nr = 1u << STEPS;
	const uint64_t apart = step >> (STEPS - 1), low = i & (apart - 1);
	const uint64_t first = (i & ~(apart - 1)) << STEPS;
	/* A merge's first step compares from both ends: so the upper half stands the other way round. */
	const uint64_t high = from_ends ? apart - 1 - low : low;
	T v[nr];

	for (uint32_t j = 0; j < nr; j++)
		v[j] = at.get(first + j * apart + (j < nr / 2 ? low : high));
	for (uint32_t j = 0; j < nr / 2; j++) {
		T x = v[j], y = from_ends ? v[nr - 1 - j] : v[j + nr / 2];
		T less = y < x ? y : x, more = y < x ? x : y;

		v[j] = less;
		if (from_ends)
			v[nr - 1 - j] = more;
		else
			v[j + nr / 2] = more;
	}
	for (uint32_t h = nr / 4; h; h /= 2)
		for (uint32_t j = 0; j < nr; j++)
			if (!(j & h)) {
				T x = v[j], y = v[j + h];

				v[j] = y < x ? y : x;
				v[j + h] = y < x ? x : y;
			}
	for (uint32_t j = 0; j < nr; j++)
		at.put(first + j * apart + (j < nr / 2 ? low : high), v[j]);
}

/* So that threads that each have neighbours find these in different banks. */
#define SORT_PLACE(i)	((i) + (i) / 32)
#define SORT_ROOM	SORT_PLACE(SORT_BLOCK)

template <typename T> struct tile_items {
	T *room;

	__device__ T get(uint64_t i) const
	{
		return room[SORT_PLACE((uint32_t)i)];
	}
	__device__ void put(uint64_t i, T v) const
	{
		room[SORT_PLACE((uint32_t)i)] = v;
	}
};

template <typename K> struct all_items {
	typedef typename K::number number;
	K keys;
	uint64_t n;

	__device__ number get(uint64_t i) const
	{
		return i < n ? keys.get(i) : (number)0 - 1;
	}
	__device__ void put(uint64_t i, number v) const
	{
		if (i < n)
			keys.put(i, v);
	}
};

/* The steps from @step to 1 in a tile. */
template <typename T>
static __device__ inline void steps_in_tile(const tile_items<T> &tile, uint32_t step, bool from_ends)
{
	while (step) {
		const uint32_t steps = step >= 4 ? 3 : step, nr = SORT_BLOCK >> steps;

		for (uint32_t i = thread(); i < nr; i += threads()) {
			if (steps == 3)
				steps_of<3, T>(tile, i, step, from_ends);
			else if (steps == 2)
				steps_of<2, T>(tile, i, step, from_ends);
			else
				steps_of<1, T>(tile, i, step, from_ends);
		}
		step >>= steps;
		from_ends = false;
		__syncthreads();
	}
}

/* Of each tile, one for each block: all merges that stay in it, or the last steps of one that does not. */
template <typename K>
static __device__ inline void sort_tile(const K &keys, uint32_t n, uint32_t all_merges,
					typename K::number *room)
{
	const all_items<K> items = { keys, n };
	const tile_items<typename K::number> tile = { room };
	const uint64_t first = (uint64_t)blockIdx.x * SORT_BLOCK;

	for (uint32_t i = thread(); i < SORT_BLOCK; i += threads())
		tile.put(i, items.get(first + i));
	__syncthreads();
	for (uint32_t step = 1; all_merges && step < SORT_BLOCK; step *= 2)
		steps_in_tile(tile, step, true);
	if (!all_merges)
		steps_in_tile(tile, SORT_BLOCK / 2, false);
	for (uint32_t i = thread(); i < SORT_BLOCK; i += threads())
		items.put(first + i, tile.get(i));
}

/* @steps of a merge from @step on, between items that may be far from each other. */
template <typename K>
static __device__ inline void sort_far(const K &keys, uint32_t n, uint32_t step, uint32_t steps,
				       uint32_t from_ends)
{
	typedef typename K::number T;
	const all_items<K> items = { keys, n };
	const uint64_t i = (uint64_t)blockIdx.x * threads() + thread();

	/* Beyond are groups that have no item. */
	if (i >= SORT_GROUPS(n, step, steps))
		return;
	if (steps == 4)
		steps_of<4, T>(items, i, step, from_ends);
	else if (steps == 3)
		steps_of<3, T>(items, i, step, from_ends);
	else if (steps == 2)
		steps_of<2, T>(items, i, step, from_ends);
	else
		steps_of<1, T>(items, i, step, from_ends);
}

PASS_KERNEL arax_pass_sort_tile_u32(uint32_t *key, uint32_t n, uint32_t all_merges,
				    arax_gpu_result result)
{
	__shared__ uint32_t room[SORT_ROOM];

	if (result.canceled())
		return;
	sort_tile(keys_u32{ key }, n, all_merges, room);
}

PASS_KERNEL arax_pass_sort_tile_f32(uint32_t *key, uint32_t n, uint32_t all_merges,
				    arax_gpu_result result)
{
	__shared__ uint32_t room[SORT_ROOM];

	if (result.canceled())
		return;
	sort_tile(keys_f32{ key }, n, all_merges, room);
}

PASS_KERNEL arax_pass_sort_tile_pairs(uint32_t *key, uint32_t *value, uint32_t n,
					  uint32_t all_merges, arax_gpu_result result)
{
	__shared__ uint64_t room[SORT_ROOM];

	if (result.canceled())
		return;
	sort_tile(keys_pairs{ key, value }, n, all_merges, room);
}

PASS_KERNEL arax_pass_sort_far_u32(uint32_t *key, uint32_t n, uint32_t step, uint32_t steps,
				       uint32_t from_ends, arax_gpu_result result)
{
	if (result.canceled())
		return;
	sort_far(keys_u32{ key }, n, step, steps, from_ends);
}

PASS_KERNEL arax_pass_sort_far_f32(uint32_t *key, uint32_t n, uint32_t step, uint32_t steps,
				       uint32_t from_ends, arax_gpu_result result)
{
	if (result.canceled())
		return;
	sort_far(keys_f32{ key }, n, step, steps, from_ends);
}

PASS_KERNEL arax_pass_sort_far_pairs(uint32_t *key, uint32_t *value, uint32_t n, uint32_t step,
					 uint32_t steps, uint32_t from_ends, arax_gpu_result result)
{
	if (result.canceled())
		return;
	sort_far(keys_pairs{ key, value }, n, step, steps, from_ends);
}
