/* SPDX-License-Identifier: MIT */
#include "daemon/graph/shape.h"

/* Whether a row of @s has a byte in [@start, @end). */
static bool row_overlap(const struct shape *s, uint64_t start, uint64_t end)
{
	uint64_t row = 0;

	/* The first row that ends behind @start. */
	if (s->count > 1 && start >= s->offset + s->length)
		row = (start - s->offset - s->length) / s->stride + 1;
	if (row >= s->count)
		return false;
	return s->offset + row * s->stride < end &&
	       s->offset + row * s->stride + s->length > start;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	int64_t q = a / b;

	return q - (a % b < 0);
}

static bool same_stride_overlap(const struct shape *a, const struct shape *b)
{
	int64_t p = a->stride;
	int64_t d = (int64_t)b->offset - (int64_t)a->offset;
	int64_t k;

	/*
	 * Row j of b begins d + (j - i) * p behind row i of a.  They overlap if
	 * that lies in (-b.length, a.length); take the least k = j - i above
	 * the lower bound that exists.
	 */
	k = floor_div(-(int64_t)b->length - d, p) + 1;
	if (k < -((int64_t)a->count - 1))
		k = -((int64_t)a->count - 1);
	return k <= (int64_t)b->count - 1 && d + k * p < (int64_t)a->length;
}

bool shape_overlap_strided(const struct shape *a, const struct shape *b)
{
	uint64_t first, last;

	if (a->count == 1)
		return row_overlap(b, a->offset, a->offset + a->length);
	if (b->count == 1)
		return row_overlap(a, b->offset, b->offset + b->length);
	if (a->stride == b->stride)
		return same_stride_overlap(a, b);

	/* Row by row of the one with fewer rows where the other one is. */
	if (a->count > b->count) {
		const struct shape *t = a;

		a = b;
		b = t;
	}
	first = 0;
	if (b->offset >= a->offset + a->length)
		first = (b->offset - a->offset - a->length) / a->stride + 1;
	if (shape_end(b) <= a->offset || first >= a->count)
		return false;
	last = (shape_end(b) - 1 - a->offset) / a->stride;
	if (last >= a->count)
		last = a->count - 1;
	if (last < first)
		return false;	/* b lies between two rows */
	if (last - first >= SHAPE_EXACT_ROWS)
		return true;
	for (uint64_t i = first; i <= last; i++) {
		uint64_t s = a->offset + i * a->stride;

		if (row_overlap(b, s, s + a->length))
			return true;
	}
	return false;
}

bool shape_contains(const struct shape *a, const struct shape *b)
{
	uint64_t d, row;

	if (b->offset < a->offset || shape_end(b) > shape_end(a))
		return false;
	if (a->count == 1)
		return true;
	d = b->offset - a->offset;
	row = d / a->stride;
	if (d % a->stride + b->length > a->length)
		return false;
	if (b->count == 1)
		return row < a->count;
	return a->stride == b->stride && row + b->count <= a->count;
}
