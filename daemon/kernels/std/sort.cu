// SPDX-License-Identifier: MIT
/*
 * sort.c for GPUs: Batcher's bitonic network, in place, by one block, as sort.cl has it.  Which
 * items are compared comes from their number alone, so nothing that is in them leads elsewhere.
 * The first step of each merge compares from both ends, so that all steps go upwards, and what
 * lies beyond n counts as larger than everything.
 */
#include "std_gpu.h"

/* @exchange(a, b) for all pairs a < b < n of all steps. */
template <typename F> static __device__ void network(uint64_t n, F exchange)
{
	uint64_t pairs = 1;

	if (arax_group())
		return;
	while (2 * pairs < n)
		pairs *= 2;
	for (uint64_t merged = 2; merged <= 2 * pairs; merged *= 2)
		for (uint64_t step = merged / 2; step; step /= 2) {
			for (uint64_t i = arax_item(); i < pairs; i += arax_items()) {
				/* Of those that stand first in pairs: bit `step` is 0. */
				uint64_t a = (i & ~(step - 1)) << 1 | (i & (step - 1));
				uint64_t b = 2 * step == merged ? a ^ (merged - 1) : a + step;

				if (b < n)
					exchange(a, b);
			}
			__syncthreads();
		}
}

struct exchange_u32 {
	uint32_t *key;

	__device__ void operator()(uint64_t a, uint64_t b) const
	{
		uint32_t x = key[a], y = key[b];

		key[a] = x < y ? x : y;
		key[b] = x < y ? y : x;
	}
};

ARAX_GPU_KERNEL arax_std_sort_u32(uint32_t *key, uint64_t nkey, uint32_t n, int32_t *result)
{
	if (SHORT(nkey, n)) {
		*result = -EINVAL;
		return;
	}
	network(n, exchange_u32{ key });
}

/* The order of numbers as that of integers. */
static __device__ inline uint32_t of_float(uint32_t x)
{
	return x ^ ((uint32_t)((int32_t)x >> 31) | 0x80000000u);
}

/* As bits: a NaN may have some that a register for floats would not keep. */
struct exchange_f32 {
	uint32_t *key;

	__device__ void operator()(uint64_t a, uint64_t b) const
	{
		uint32_t x = key[a], y = key[b];
		bool swap = of_float(y) < of_float(x);

		key[a] = swap ? y : x;
		key[b] = swap ? x : y;
	}
};

ARAX_GPU_KERNEL arax_std_sort_f32(float *key, uint64_t nkey, uint32_t n, int32_t *result)
{
	if (SHORT(nkey, n)) {
		*result = -EINVAL;
		return;
	}
	network(n, exchange_f32{ (uint32_t *)key });
}

struct exchange_pairs {
	uint32_t *key, *value;

	__device__ void operator()(uint64_t a, uint64_t b) const
	{
		uint64_t x = (uint64_t)key[a] << 32 | value[a], y = (uint64_t)key[b] << 32 | value[b];
		uint64_t low = x < y ? x : y, high = x < y ? y : x;

		key[a] = (uint32_t)(low >> 32);
		value[a] = (uint32_t)low;
		key[b] = (uint32_t)(high >> 32);
		value[b] = (uint32_t)high;
	}
};

ARAX_GPU_KERNEL arax_std_sort_pairs_u32(uint32_t *key, uint64_t nkey, uint32_t *value,
					uint64_t nvalue, uint32_t n, int32_t *result)
{
	if (SHORT(nkey, n) || SHORT(nvalue, n)) {
		*result = -EINVAL;
		return;
	}
	network(n, exchange_pairs{ key, value });
}
