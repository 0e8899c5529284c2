/* SPDX-License-Identifier: MIT */
/*
 * shape.h - the bytes of a buffer that a range names
 *
 * Rows of @length bytes, @count of them, @stride apart.  Always normalised: a
 * shape whose rows touch is one row (count 1, stride 0); length > 0; the last
 * byte lies below 2^62.
 */
#ifndef ARAXD_GRAPH_SHAPE_H
#define ARAXD_GRAPH_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "uapi/arax.h"

/* Shapes of different strides with more rows than this may be called overlapping
 * although they are not. */
#define SHAPE_EXACT_ROWS	64

struct shape {
	uint64_t offset;
	uint64_t length;
	uint32_t stride;
	uint32_t count;
};

static inline bool shape_equal(const struct shape *a, const struct shape *b)
{
	return !((a->offset ^ b->offset) | (a->length ^ b->length) |
		 (a->stride ^ b->stride) | (a->count ^ b->count));
}

/* Rows that it takes to see whether they overlap, or more. */
static inline uint32_t shape_rows_compared(const struct shape *a, const struct shape *b)
{
	uint32_t rows = a->count < b->count ? a->count : b->count;

	if (__builtin_expect(rows == 1 || a->stride == b->stride, 1))
		return 1;
	return rows < SHAPE_EXACT_ROWS ? rows : SHAPE_EXACT_ROWS;
}

/* One past the last byte. */
static inline uint64_t shape_end(const struct shape *s)
{
	return s->offset + (uint64_t)(s->count - 1) * s->stride + s->length;
}

/* 1: *@s is set; 0: the range is empty; -1: it wraps round or has no rows. */
static inline int shape_from_range(struct shape *s,
				   const struct arax_dispatch_range *r)
{
	*s = (struct shape){ r->offset, r->length, 0, 1 };
	if (__builtin_expect((r->offset | r->length) >> 61, 0))
		return -1;
	if (__builtin_expect(r->count == 1, 1))
		return r->length != 0;
	if (!r->count || r->stride < r->length)
		return -1;
	if (r->stride == r->length) {
		s->length = (uint64_t)r->stride * r->count;
	} else {
		s->stride = r->stride;
		s->count = r->count;
	}
	if (s->length >> 61)
		return -1;
	if (!s->length)
		return 0;
	/* stride * count < 2^64 by their types; the sum must fit as well. */
	if ((uint64_t)s->stride * s->count >> 61)
		return -1;
	return 1;
}

/* Whether the shapes have a byte in common. */
bool shape_overlap_strided(const struct shape *a, const struct shape *b);

static inline bool shape_overlap(const struct shape *a, const struct shape *b)
{
	if (a->offset >= shape_end(b) || b->offset >= shape_end(a))
		return false;
	if (a->count == 1 && b->count == 1)
		return true;
	return shape_overlap_strided(a, b);
}

/* Whether @a has all bytes of @b; may say no where rows of @b span several of @a. */
bool shape_contains(const struct shape *a, const struct shape *b);

#endif /* ARAXD_GRAPH_SHAPE_H */
