// SPDX-License-Identifier: MIT
#include "daemon/memory/intervals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void intervals_destroy(struct intervals *s)
{
	free(s->v);
	memset(s, 0, sizeof(*s));
}

/* The first interval that ends behind @at. */
static uint32_t find(const struct intervals *s, uint64_t at)
{
	uint32_t low = 0, high = s->nr;

	while (low < high) {
		uint32_t mid = (low + high) / 2;	/* they are fewer than 2^31 */

		if (s->v[mid].end > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

#define LEAST	8u

static bool resize(struct intervals *s, uint32_t size)
{
	struct interval *v;

	if (size == s->size)
		return true;
	v = realloc(s->v, size * sizeof(*v));
	if (!v)
		return false;
	s->v = v;
	s->size = size;
	return true;
}

bool intervals_room(struct intervals *s, uint32_t more)
{
	uint32_t size = s->size ? s->size : LEAST;

	while (size < s->nr + more)
		size *= 2;
	return resize(s, size);
}

void intervals_trim(struct intervals *s)
{
	uint32_t size = LEAST;

	while (size < s->nr)
		size *= 2;
	if (size < s->size)
		resize(s, size);
}

void intervals_fit(struct intervals *s, uint32_t most)
{
	struct interval *v = NULL;

	if (s->size <= most || s->size <= LEAST || s->nr > s->size / 2)
		return;
	/*
	 * Elsewhere, and of the very size: where it was, little would be left at the begin of a hole that is
	 * not large enough for the next array of so many.
	 */
	if (s->nr) {
		v = malloc(s->nr * sizeof(*v));
		if (!v)
			return;
		memcpy(v, s->v, s->nr * sizeof(*v));
	}
	free(s->v);
	s->v = v;
	s->size = s->nr;
}

void intervals_copy(struct intervals *s, const struct intervals *from)
{
	s->nr = 0;
	if (!from->nr || !intervals_room(s, from->nr))
		return;
	memcpy(s->v, from->v, from->nr * sizeof(*s->v));
	s->nr = from->nr;
}

static bool room(struct intervals *s)
{
	return intervals_room(s, 1);
}

static void insert(struct intervals *s, uint32_t at, struct interval i)
{
	memmove(&s->v[at + 1], &s->v[at], (s->nr - at) * sizeof(*s->v));
	s->v[at] = i;
	s->nr++;
}

static void remove_at(struct intervals *s, uint32_t at, uint32_t count)
{
	memmove(&s->v[at], &s->v[at + count], (s->nr - at - count) * sizeof(*s->v));
	s->nr -= count;
}

void intervals_clear(struct intervals *s, uint64_t start, uint64_t end)
{
	uint32_t i = find(s, start), n;

	if (start >= end || i == s->nr)
		return;
	if (s->v[i].start < start) {
		struct interval rest = s->v[i];

		s->v[i++].end = start;
		if (rest.end > end) {
			/* Without room the rest loses the property as well. */
			if (!room(s))
				return;
			rest.start = end;
			insert(s, i, rest);
			return;
		}
	}
	for (n = 0; i + n < s->nr && s->v[i + n].end <= end; n++)
		;
	if (n)
		remove_at(s, i, n);
	if (i < s->nr && s->v[i].start < end)
		s->v[i].start = end;
}

static bool agree(const struct interval *a, const struct interval *b)
{
	return a->end == b->start && a->until == b->until && a->born == b->born;
}

int intervals_set(struct intervals *s, uint64_t start, uint64_t end, uint64_t until,
		  uint64_t born)
{
	struct interval n = { start, end, until, born };
	uint32_t i;

	if (start >= end)
		return 0;
	/* The same piece again: rows of a range would move all behind them, each of them. */
	i = find(s, start);
	if (i < s->nr && s->v[i].start == start && s->v[i].end == end &&
	    !(i && agree(&s->v[i - 1], &n)) && !(i + 1 < s->nr && agree(&n, &s->v[i + 1]))) {
		s->v[i] = n;
		return 0;
	}
	intervals_clear(s, start, end);
	i = find(s, start);
	if (i && agree(&s->v[i - 1], &n)) {
		s->v[i - 1].end = end;
		if (i < s->nr && agree(&s->v[i - 1], &s->v[i])) {
			s->v[i - 1].end = s->v[i].end;
			remove_at(s, i, 1);
		}
		return 0;
	}
	if (i < s->nr && agree(&n, &s->v[i])) {
		s->v[i].start = start;
		return 0;
	}
	if (!room(s))
		return -ENOMEM;
	insert(s, i, n);
	return 0;
}

/* Fewer than these are faster one by one. */
#define MANY_ROWS	16

struct rows {
	uint64_t start, bytes, stride;
	uint32_t count;
};

static void append(struct intervals *s, struct interval n)
{
	struct interval *last = s->nr ? &s->v[s->nr - 1] : NULL;

	if (n.start >= n.end)
		return;
	if (last && agree(last, &n))
		last->end = n.end;
	else
		s->v[s->nr++] = n;
}

/* What of @s is no row's, and, if @row is not NULL, the rows as it.  False: no memory. */
static bool merge_rows(struct intervals *s, const struct rows *r, const struct interval *row)
{
	struct intervals to = { 0 };
	struct interval left;
	uint32_t i, at = 0;

	/* Each may cut one in two. */
	if (!intervals_room(&to, s->nr + 2 * r->count))
		return false;
	for (i = 0; i < r->count; i++) {
		uint64_t start = r->start + i * r->stride, end = start + r->bytes;

		for (; at < s->nr && s->v[at].end <= start; at++)
			append(&to, s->v[at]);
		if (at < s->nr && s->v[at].start < start) {
			left = s->v[at];
			left.end = start;
			append(&to, left);
		}
		if (row)
			append(&to, (struct interval){ start, end, row->until, row->born });
		for (; at < s->nr && s->v[at].end <= end; at++)
			;
		/* The next row may begin in what is left of it. */
		if (at < s->nr && s->v[at].start < end)
			s->v[at].start = end;
	}
	for (; at < s->nr; at++)
		append(&to, s->v[at]);
	free(s->v);
	*s = to;
	return true;
}

int intervals_set_rows(struct intervals *s, uint64_t start, uint64_t bytes, uint64_t stride,
		       uint32_t count, uint64_t until, uint64_t born)
{
	const struct rows rows = { start, bytes, stride, count };
	const struct interval row = { .until = until, .born = born };
	int err = 0, one;

	if (count >= MANY_ROWS && bytes && merge_rows(s, &rows, &row))
		return 0;
	for (uint32_t i = 0; i < count; i++, start += stride) {
		one = intervals_set(s, start, start + bytes, until, born);
		err = err ? err : one;
	}
	return err;
}

void intervals_clear_rows(struct intervals *s, uint64_t start, uint64_t bytes, uint64_t stride,
			  uint32_t count)
{
	const struct rows rows = { start, bytes, stride, count };

	if (!s->nr)
		return;
	if (count >= MANY_ROWS && bytes && merge_rows(s, &rows, NULL))
		return;
	for (uint32_t i = 0; i < count; i++, start += stride)
		intervals_clear(s, start, start + bytes);
}

void intervals_filter(struct intervals *s, bool (*keep)(void *arg, uint64_t start, uint64_t end),
		      void *arg)
{
	uint32_t i, nr = 0;

	for (i = 0; i < s->nr; i++)
		if (keep(arg, s->v[i].start, s->v[i].end))
			s->v[nr++] = s->v[i];
	s->nr = nr;
}

/* @born: NULL: as it was */
static void change(struct intervals *s, uint64_t start, uint64_t end, uint64_t until,
		   const uint64_t *born)
{
	uint32_t i = find(s, start);

	while (start < end && i < s->nr && s->v[i].start < end) {
		struct interval old = s->v[i];
		uint64_t from = old.start > start ? old.start : start;
		uint64_t to = old.end < end ? old.end : end;
		uint64_t new = born ? *born : old.born;

		start = to;
		if (old.until == until && old.born == new) {
			i++;
			continue;
		}
		intervals_set(s, from, to, until, new);
		i = find(s, start);
	}
}

void intervals_limit(struct intervals *s, uint64_t start, uint64_t end, uint64_t until)
{
	change(s, start, end, until, NULL);
}

void intervals_renew(struct intervals *s, uint64_t start, uint64_t end, uint64_t until,
		     uint64_t born)
{
	change(s, start, end, until, &born);
}

bool intervals_gap(const struct intervals *s, uint64_t start, uint64_t end, uint64_t seq,
		   uint64_t born, uint64_t *gap_start, uint64_t *gap_end)
{
	uint32_t i = find(s, start);

	for (; start < end && i < s->nr && s->v[i].start <= start; i++) {
		if (s->v[i].until <= seq || s->v[i].born < born)
			break;
		start = s->v[i].end;
	}
	if (start >= end)
		return false;
	/* Up to the next one that counts. */
	for (; i < s->nr && s->v[i].start < end; i++) {
		if (s->v[i].until > seq && s->v[i].born >= born && s->v[i].start >= start) {
			end = s->v[i].start;
			break;
		}
	}
	*gap_start = start;
	*gap_end = end;
	return true;
}

uint32_t intervals_between(const struct intervals *s, uint64_t start, uint64_t end)
{
	const uint32_t first = find(s, start), last = start < end ? find(s, end) : first;

	return last - first + (start < end && last < s->nr && s->v[last].start < end);
}

uint64_t intervals_bytes(const struct intervals *s)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < s->nr; i++)
		sum += s->v[i].end - s->v[i].start;
	return sum;
}

bool intervals_first(const struct intervals *s, uint64_t start, uint64_t end,
		     uint64_t *from, uint64_t *to, uint64_t *born)
{
	const uint32_t i = find(s, start);
	struct interval v;

	if (i == s->nr)
		return false;
	v = s->v[i];
	if (v.start >= end)
		return false;
	*from = v.start > start ? v.start : start;
	*to = v.end < end ? v.end : end;
	*born = v.born;
	return start < end;
}

/* Whether a piece is left on either side of from..to. */
static bool cuts(const struct intervals *s, uint64_t from, uint64_t to)
{
	uint32_t i = find(s, from);

	return i < s->nr && s->v[i].start < from && s->v[i].end > to;
}

uint32_t intervals_cuts(const struct intervals *s, uint64_t start, uint64_t bytes, uint64_t stride,
			uint32_t count)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; bytes && i < count; i++, start += stride)
		sum += cuts(s, start, start + bytes);
	return sum;
}

void intervals_around(const struct intervals *s, uint64_t *start, uint64_t *end)
{
	uint32_t first = find(s, *start), last = find(s, *end);

	if (*start >= *end)
		return;
	if (first < s->nr && s->v[first].start < *start)
		*start = s->v[first].start;
	if (last < s->nr && s->v[last].start < *end)
		*end = s->v[last].end;
}

/* Behind the last one, or into it. */
static void append_alike(struct intervals *s, struct interval n)
{
	struct interval *last = s->nr ? &s->v[s->nr - 1] : NULL;

	if (!last || last->end < n.start)
		s->v[s->nr++] = n;
	else if (last->end < n.end)
		last->end = n.end;
}

bool intervals_add(struct intervals *s, const struct intervals *more)
{
	struct intervals to = { 0 };
	uint32_t i = 0, j = 0;

	if (!intervals_room(&to, s->nr + more->nr))
		return false;
	while (i < s->nr || j < more->nr) {
		if (j == more->nr || (i < s->nr && s->v[i].start < more->v[j].start))
			append_alike(&to, s->v[i++]);
		else
			append_alike(&to, more->v[j++]);
	}
	free(s->v);
	*s = to;
	return true;
}

void intervals_coarsen(struct intervals *s, uint64_t grain, uint64_t last)
{
	uint32_t i, nr = s->nr;

	s->nr = 0;
	for (i = 0; i < nr; i++) {
		struct interval v = s->v[i];

		v.start -= v.start % grain;
		v.end += (grain - v.end % grain) % grain;
		v.end = v.end < last ? v.end : last;
		append_alike(s, v);
	}
}

int intervals_clear_old(struct intervals *s, const struct intervals *less, uint64_t born)
{
	uint32_t first, at, end, to, more = 0, i;

	if (!less->nr)
		return 0;
	for (i = 0; i < less->nr; i++)
		more += cuts(s, less->v[i].start, less->v[i].end);
	if (more && !intervals_room(s, more))
		return -ENOMEM;
	/* What comes of each is written where those before it were, and there is room for what is cut. */
	first = find(s, less->v[0].start);
	to = first;
	at = first + more;
	end = s->nr + more;
	if (first < s->nr)
		memmove(&s->v[at], &s->v[first], (s->nr - first) * sizeof(*s->v));
	for (i = 0; at < end && i < less->nr; at++) {
		struct interval v = s->v[at], before = v;

		while (i < less->nr && less->v[i].end <= v.start)
			i++;
		for (; v.born <= born && i < less->nr && less->v[i].start < v.end; i++) {
			before.start = v.start;
			before.end = less->v[i].start;
			if (before.start < before.end)
				s->v[to++] = before;
			v.start = less->v[i].end;
			/* It may go on into the next one. */
			if (v.start >= v.end)
				break;
		}
		if (v.start < v.end)
			s->v[to++] = v;
	}
	if (at < end)
		memmove(&s->v[to], &s->v[at], (end - at) * sizeof(*s->v));
	s->nr = to + (end - at);
	return 0;
}
