// SPDX-License-Identifier: MIT
/*
 * sort.c in OpenCL C: Batcher's bitonic network, in place, by one work-group.  Which items
 * are compared comes from their number alone, so nothing that a client writes meanwhile
 * leads elsewhere.  The first step of each merge compares from both ends, so that all
 * steps go upwards, and what lies beyond n counts as larger than everything.
 */

/* Item `i` of those that stand first in pairs, `step` apart: bit `step` of it is 0. */
#define FIRST_OF(i, step)	(((i) & ~((step) - 1)) << 1 | ((i) & ((step) - 1)))

/* `exchange` for all pairs of all steps, whose numbers are a < b < n. */
#define NETWORK(n, exchange) \
	ulong pairs = 1; \
\
	if (arax_group()) \
		return; \
	while (2 * pairs < (n)) \
		pairs *= 2; \
	for (ulong merged = 2; merged <= 2 * pairs; merged *= 2) \
		for (ulong step = merged / 2; step; step /= 2) { \
			for (ulong i = arax_item(); i < pairs; i += arax_items()) { \
				ulong a = FIRST_OF(i, step); \
				ulong b = 2 * step == merged ? a ^ (merged - 1) : a + step; \
\
				if (b < (n)) \
					exchange; \
			} \
			barrier(CLK_GLOBAL_MEM_FENCE); \
		}

static void exchange_u32(__global uint *key, ulong a, ulong b)
{
	uint x = key[a], y = key[b];

	key[a] = min(x, y);
	key[b] = max(x, y);
}

__kernel void arax_std_sort_u32(__global uint *key, ulong nkey, uint n, __global int *result)
{
	if (SHORT(nkey, n)) {
		*result = -EINVAL;
		return;
	}
	NETWORK(n, exchange_u32(key, a, b))
}

/* The order of numbers as that of integers. */
static uint of_float(uint x)
{
	return x ^ ((uint)((int)x >> 31) | 0x80000000u);
}

static void exchange_f32(__global uint *key, ulong a, ulong b)
{
	uint x = key[a], y = key[b];
	bool swap = of_float(y) < of_float(x);

	key[a] = swap ? y : x;
	key[b] = swap ? x : y;
}

__kernel void arax_std_sort_f32(__global float *key, ulong nkey, uint n, __global int *result)
{
	if (SHORT(nkey, n)) {
		*result = -EINVAL;
		return;
	}
	NETWORK(n, exchange_f32((__global uint *)key, a, b))
}

static void exchange_pairs(__global uint *key, __global uint *value, ulong a, ulong b)
{
	ulong x = (ulong)key[a] << 32 | value[a], y = (ulong)key[b] << 32 | value[b];
	ulong low = min(x, y), high = max(x, y);

	key[a] = (uint)(low >> 32);
	value[a] = (uint)low;
	key[b] = (uint)(high >> 32);
	value[b] = (uint)high;
}

__kernel void arax_std_sort_pairs_u32(__global uint *key, ulong nkey, __global uint *value,
				      ulong nvalue, uint n, __global int *result)
{
	if (SHORT(nkey, n) || SHORT(nvalue, n)) {
		*result = -EINVAL;
		return;
	}
	NETWORK(n, exchange_pairs(key, value, a, b))
}
