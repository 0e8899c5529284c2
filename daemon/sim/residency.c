// SPDX-License-Identifier: MIT
/* residency.c - a buffer's segments and the places where each is valid */
#include "daemon/sim/residency.h"

#include <stdlib.h>
#include <string.h>

static uint32_t stride(const struct residency *r)
{
	return 1 + r->words;
}

static uint64_t *cell(const struct residency *r, uint32_t i)
{
	return r->cells + (uint64_t)i * stride(r);
}

static uint64_t *bits_of(const struct residency *r, uint32_t i)
{
	return cell(r, i) + 1;
}

static uint64_t start_of(const struct residency *r, uint32_t i)
{
	return i < r->nr ? *cell(r, i) : r->bytes;
}

bool residency_init(struct residency *r, uint64_t bytes, uint32_t places)
{
	*r = (struct residency){ .bytes = bytes, .nr = 1, .size = 1, .words = (places + 63) / 64 };
	r->cells = calloc(stride(r), sizeof(*r->cells));
	if (!r->cells)
		return false;
	bits_of(r, 0)[0] = 1u << PLACE_HOST;
	return true;
}

void residency_fini(struct residency *r)
{
	free(r->cells);
	r->cells = NULL;
}

/* The segment that holds the byte @at. */
static uint32_t find(const struct residency *r, uint64_t at)
{
	uint32_t low = 0, high = r->nr;

	while (high - low > 1) {
		uint32_t mid = (low + high) / 2;

		if (*cell(r, mid) <= at)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static bool room(struct residency *r, uint32_t more)
{
	uint32_t size = r->size;
	uint64_t *cells;

	while (size < r->nr + more)
		size *= 2;
	if (size == r->size)
		return true;
	cells = realloc(r->cells, (uint64_t)size * stride(r) * sizeof(*cells));
	if (!cells)
		return false;
	r->cells = cells;
	r->size = size;
	return true;
}

/* The segment that starts at @at, made by a cut if need be; there is room. */
static uint32_t cut(struct residency *r, uint64_t at)
{
	uint32_t i;

	if (at >= r->bytes)
		return r->nr;
	i = find(r, at);
	if (*cell(r, i) == at)
		return i;
	memmove(cell(r, i + 1), cell(r, i),
		(uint64_t)(r->nr - i) * stride(r) * sizeof(*r->cells));
	r->nr++;
	*cell(r, i + 1) = at;
	return i + 1;
}

static bool alike(const struct residency *r, uint32_t a, uint32_t b)
{
	return !memcmp(bits_of(r, a), bits_of(r, b), r->words * sizeof(*r->cells));
}

/* Joins segments in [@first, @last] with those before them where they are alike. */
static void join(struct residency *r, uint32_t first, uint32_t last)
{
	uint32_t to = first ? first : 1;

	for (uint32_t i = to; i < r->nr; i++) {
		if (i <= last && alike(r, to - 1, i))
			continue;
		/* None was joined: those behind stay where they are. */
		if (to == i && i > last)
			return;
		if (to != i)
			memcpy(cell(r, to), cell(r, i), stride(r) * sizeof(*r->cells));
		to++;
	}
	r->nr = to;
}

static bool set(struct residency *r, uint64_t offset, uint64_t length, uint32_t place, bool alone)
{
	uint32_t first, last;

	if (!length)
		return true;
	if (!room(r, 2))
		return false;
	first = cut(r, offset);
	last = cut(r, offset + length);
	for (uint32_t i = first; i < last; i++) {
		if (alone)
			memset(bits_of(r, i), 0, r->words * sizeof(*r->cells));
		bits_of(r, i)[place / 64] |= 1ull << place % 64;
	}
	join(r, first, last);
	return true;
}

bool residency_copied(struct residency *r, uint64_t offset, uint64_t length, uint32_t place)
{
	return set(r, offset, length, place, false);
}

bool residency_written(struct residency *r, uint64_t offset, uint64_t length, uint32_t place)
{
	return set(r, offset, length, place, true);
}

void residency_drop(struct residency *r, uint32_t place)
{
	for (uint32_t i = 0; i < r->nr; i++)
		bits_of(r, i)[place / 64] &= ~(1ull << place % 64);
	join(r, 1, r->nr);
}

void residency_walk(const struct residency *r, uint64_t offset, uint64_t length,
		    void (*each)(void *arg, uint64_t bytes, const uint64_t *bits), void *arg)
{
	uint64_t end = offset + length;

	for (uint32_t i = find(r, offset); offset < end; i++) {
		uint64_t stop = start_of(r, i + 1) < end ? start_of(r, i + 1) : end;

		each(arg, stop - offset, bits_of(r, i));
		offset = stop;
	}
}

struct count {
	uint64_t bytes;
	uint32_t place;
};

static void count_valid(void *arg, uint64_t bytes, const uint64_t *bits)
{
	struct count *c = arg;

	if (residency_has(bits, c->place))
		c->bytes += bytes;
}

uint64_t residency_valid(const struct residency *r, uint64_t offset, uint64_t length,
			 uint32_t place)
{
	struct count c = { .place = place };

	residency_walk(r, offset, length, count_valid, &c);
	return c.bytes;
}

static uint32_t first_place(const struct residency *r, const uint64_t *bits)
{
	for (uint32_t w = 0; w < r->words; w++)
		if (bits[w])
			return w * 64 + (uint32_t)__builtin_ctzll(bits[w]);
	return PLACE_NONE;
}

bool residency_missing(const struct residency *r, uint64_t offset, uint64_t length, uint32_t place,
		       uint64_t *start, uint64_t *end, uint32_t *source)
{
	uint64_t stop = offset + length;

	for (uint32_t i = find(r, offset); i < r->nr && *cell(r, i) < stop; i++) {
		if (residency_has(bits_of(r, i), place))
			continue;
		*start = *cell(r, i) > offset ? *cell(r, i) : offset;
		*end = start_of(r, i + 1) < stop ? start_of(r, i + 1) : stop;
		*source = first_place(r, bits_of(r, i));
		return *start < *end;
	}
	return false;
}

bool residency_sole(const struct residency *r, uint64_t offset, uint32_t place, uint64_t *start,
		    uint64_t *end)
{
	if (offset >= r->bytes)
		return false;
	for (uint32_t i = find(r, offset); i < r->nr; i++) {
		const uint64_t *bits = bits_of(r, i);
		bool sole = residency_has(bits, place);

		for (uint32_t w = 0; sole && w < r->words; w++)
			sole = bits[w] == (w == place / 64 ? 1ull << place % 64 : 0);
		if (!sole)
			continue;
		*start = *cell(r, i) > offset ? *cell(r, i) : offset;
		*end = start_of(r, i + 1);
		return true;
	}
	return false;
}
