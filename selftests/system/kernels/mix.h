/* SPDX-License-Identifier: MIT */
/*
 * What coherent.c has computed on devices, and computes itself: both from here.  What they write
 * depends on all that they read.
 */
#ifndef SYSTEM_MIX_H
#define SYSTEM_MIX_H

#include <arax/kernel.h>

struct mix_args {
	uint32_t salt;
};

/* Of a salt: having done all of it, it fails. */
#define MIX_FAILS	(1u << 24)

static inline uint8_t *mix_row(const struct arax_launch_range *r, uint32_t row)
{
	return (uint8_t *)r->data + (uint64_t)row * r->stride;
}

static inline uint64_t mix_hash(uint64_t hash, const struct arax_launch_range *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		for (uint64_t k = 0; k < r->length; k++)
			hash = (hash ^ mix_row(r, i)[k]) * 1099511628211ull;
	return hash;
}

/*
 * Of the ranges in, inout, out: some bytes of the second, by what is in them, and all of the
 * third.
 */
static inline int mix_three(const struct arax_launch *l)
{
	struct mix_args args;
	uint64_t hash;

	if (l->nr_ranges != 3 || arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	hash = mix_hash(mix_hash(14695981039346656037ull + args.salt, &l->ranges[0]),
			&l->ranges[1]);
	for (uint32_t i = 0; i < l->ranges[1].count; i++) {
		uint8_t *p = mix_row(&l->ranges[1], i);

		for (uint64_t k = 0; k < l->ranges[1].length; k++)
			if (hash >> (k + i) % 61 & 1)
				p[k] = (uint8_t)(3 * p[k] + (hash >> k % 8) + i);
	}
	for (uint32_t i = 0; i < l->ranges[2].count; i++) {
		uint8_t *p = mix_row(&l->ranges[2], i);

		for (uint64_t k = 0; k < l->ranges[2].length; k++)
			p[k] = (uint8_t)((hash >> (k + i) % 56) + k);
	}
	return args.salt & MIX_FAILS ? -EIO : 0;
}

/* Each work-group has a part of the only range. */
static inline int mix_groups(const struct arax_launch *l)
{
	uint64_t groups = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	struct mix_args args;

	if (l->nr_ranges != 1 || arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	for (uint32_t i = 0; i < l->ranges[0].count; i++) {
		uint64_t from = l->ranges[0].length * l->group_begin / groups;
		uint64_t to = l->ranges[0].length * l->group_end / groups;
		uint8_t *p = mix_row(&l->ranges[0], i);

		for (uint64_t k = from; k < to; k++)
			p[k] = (uint8_t)(5 * p[k] + args.salt + k + i);
	}
	return args.salt & MIX_FAILS ? -EIO : 0;
}

#endif
