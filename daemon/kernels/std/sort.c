// SPDX-License-Identifier: MIT
/*
 * Sorting, by digits of RADIX bits, the last one first.
 *
 * Where a key goes depends on its contents.  Those are read once, into memory that is the
 * kernel's own, and sorted there: no address comes from what a client can still change.
 * That memory is twice the keys'.
 */
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/std/std.h"

int arax_std_sort_u32(const struct arax_launch *l);
int arax_std_sort_f32(const struct arax_launch *l);
int arax_std_sort_pairs_u32(const struct arax_launch *l);

#define RADIX	11u
#define DIGITS	(1u << RADIX)
#define SMALL	64u	/* below, counting digits takes longer than inserting */

/* The sorted keys are what sort_*() returns: one or the other of its two. */
#define RADIX_SORT(name, type)							\
static void insert_##name(type *key, uint64_t n)				\
{										\
	for (uint64_t i = 1; i < n; i++) {					\
		type k = key[i];						\
		uint64_t j = i;							\
										\
		for (; j && k < key[j - 1]; j--)				\
			key[j] = key[j - 1];					\
		key[j] = k;							\
	}									\
}										\
										\
/* False: all have the same digit, nothing has moved. */			\
static bool pass_##name(type *to, const type *from, uint64_t n, uint32_t shift)	\
{										\
	uint64_t at[DIGITS] = { 0 }, sum = 0;					\
										\
	for (uint64_t i = 0; i < n; i++)					\
		at[from[i] >> shift & (DIGITS - 1)]++;				\
	if (at[from[0] >> shift & (DIGITS - 1)] == n)				\
		return false;							\
	for (uint32_t d = 0; d < DIGITS; d++) {					\
		uint64_t count = at[d];						\
										\
		at[d] = sum;							\
		sum += count;							\
	}									\
	for (uint64_t i = 0; i < n; i++)					\
		to[at[from[i] >> shift & (DIGITS - 1)]++] = from[i];		\
	return true;								\
}										\
										\
static type *sort_##name(type *key, type *other, uint64_t n)			\
{										\
	if (n < SMALL) {							\
		insert_##name(key, n);						\
		return key;							\
	}									\
	for (uint32_t shift = 0; shift < 8 * sizeof(type); shift += RADIX)	\
		if (pass_##name(other, key, n, shift)) {			\
			type *sorted = other;					\
										\
			other = key;						\
			key = sorted;						\
		}								\
	return key;								\
}

RADIX_SORT(u32, uint32_t)
RADIX_SORT(u64, uint64_t)

/* The launch's @n keys, and room for twice as many in @own, which is the caller's to free. */
static int take_keys(const struct arax_launch *l, uint32_t **key, uint32_t **own, uint64_t *n)
{
	if (std_items(l, n))
		return -EINVAL;
	*key = ARAX_ITEMS(l, 0, *n, uint32_t);
	if (!*key)
		return -EINVAL;
	*own = std_scratch(2 * *n + 1, sizeof(**own));
	return *own ? 0 : -ENOMEM;
}

/* sort_u32(inout u32 key[], u32 n): ascending */
ARAX_KERNEL int arax_std_sort_u32(const struct arax_launch *l)
{
	uint32_t *key, *own;
	uint64_t n;
	int err = take_keys(l, &key, &own, &n);

	if (err)
		return err;
	memcpy(own, key, n * sizeof(*own));
	std_settled(own);
	memcpy(key, sort_u32(own, own + n, n), n * sizeof(*own));
	std_scratch_free(own);
	return 0;
}

/* The order of numbers as that of integers: what is negative, reversed, before the rest. */
STD_CLONES
static void from_floats(uint32_t *to, const uint32_t *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = from[i] ^ ((uint32_t)((int32_t)from[i] >> 31) | 0x80000000u);
}

STD_CLONES
static void to_floats(uint32_t *to, const uint32_t *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = from[i] ^ (~(uint32_t)((int32_t)from[i] >> 31) | 0x80000000u);
}

/*
 * sort_f32(inout f32 key[], u32 n): ascending; -0 stands before 0, a NaN at the end of its
 * sign's side
 */
ARAX_KERNEL int arax_std_sort_f32(const struct arax_launch *l)
{
	uint32_t *key, *own;
	uint64_t n;
	int err = take_keys(l, &key, &own, &n);

	if (err)
		return err;
	from_floats(own, key, n);
	std_settled(own);
	to_floats(key, sort_u32(own, own + n, n), n);
	std_scratch_free(own);
	return 0;
}

/* sort_pairs_u32(inout u32 key[], inout u32 value[], u32 n): by key, equal keys by value */
ARAX_KERNEL int arax_std_sort_pairs_u32(const struct arax_launch *l)
{
	uint32_t *key, *value;
	uint64_t *own, *sorted;
	uint64_t n;

	if (std_items(l, &n))
		return -EINVAL;
	key = ARAX_ITEMS(l, 0, n, uint32_t);
	value = ARAX_ITEMS(l, 1, n, uint32_t);
	if (!key || !value)
		return -EINVAL;
	own = std_scratch(2 * n + 1, sizeof(*own));
	if (!own)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		own[i] = (uint64_t)key[i] << 32 | value[i];
	std_settled(own);
	sorted = sort_u64(own, own + n, n);
	for (uint64_t i = 0; i < n; i++) {
		key[i] = (uint32_t)(sorted[i] >> 32);
		value[i] = (uint32_t)sorted[i];
	}
	std_scratch_free(own);
	return 0;
}
