/* SPDX-License-Identifier: MIT */
/* sort_keys.h - what sort.cu and passes.cu sort: each as numbers in the order that is wanted */
#ifndef ARAX_STD_SORT_KEYS_H
#define ARAX_STD_SORT_KEYS_H

#include "std_gpu.h"

struct keys_u32 {
	typedef uint32_t number;
	uint32_t *key;

	__device__ uint32_t get(uint64_t i) const
	{
		return key[i];
	}
	__device__ void put(uint64_t i, uint32_t k) const
	{
		key[i] = k;
	}
};

/*
 * The order of numbers as that of integers.  From bits: a NaN may have some that a register for
 * floats would not keep.
 */
struct keys_f32 {
	typedef uint32_t number;
	uint32_t *key;

	__device__ uint32_t get(uint64_t i) const
	{
		uint32_t k = key[i];

		return k ^ ((uint32_t)((int32_t)k >> 31) | 0x80000000u);
	}
	__device__ void put(uint64_t i, uint32_t k) const
	{
		key[i] = k & 0x80000000u ? k ^ 0x80000000u : ~k;
	}
};

struct keys_pairs {
	typedef uint64_t number;
	uint32_t *key, *value;

	__device__ uint64_t get(uint64_t i) const
	{
		return (uint64_t)key[i] << 32 | value[i];
	}
	__device__ void put(uint64_t i, uint64_t k) const
	{
		key[i] = (uint32_t)(k >> 32);
		value[i] = (uint32_t)k;
	}
};

#endif /* ARAX_STD_SORT_KEYS_H */
