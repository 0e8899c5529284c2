// SPDX-License-Identifier: MIT
/*
 * lost.c - bytes of a buffer that nobody has
 *
 * Who reads them is told so, until they have been written anew.  That they are lost has to be noted
 * whatever happens: else what is there instead would be taken for them, be it half a task's or what the
 * host had long before.  So a buffer's record is there, with room for a few pieces, before any of its
 * bytes is on a device; and where there is no memory for one more, all of them are rounded outward, until
 * they are few.  Then bytes count as lost that somebody has, but none that is lost as good.
 *
 * A record is araxd's memory and lasts as long as the buffer does, whatever its program has lost.  So it
 * has one for all devices, and it takes no more than a part of the buffer's own bytes, which its tenant
 * pays for.  Where pieces would take more there is a bit for each byte instead: that is the same part, and
 * enough however the bytes are lost and written anew.  But of a large buffer so many bits are more than
 * anybody should have to go through at once: its pieces are rounded likewise when they are too many, and who
 * would cut one in two by writing in its midst has not written.
 */
#include <stdlib.h>

#include "daemon/memory/bits.h"
#include "daemon/memory/internal.h"

/* An interval is 32 bytes, and an array of them may be twice as large as it has to be. */
#define LOST_BYTES_A_PIECE	256u
#define LOST_MIN_PIECES		16u
#define LOST_MAX_PIECES		(1u << 13)
/* The bits of a buffer of so many bytes take as much as that many pieces. */
#define MAX_MAPPED	((uint64_t)LOST_MAX_PIECES * LOST_BYTES_A_PIECE)

uint32_t lost_most(const struct memory_buffer *b)
{
	uint64_t nr = b->bytes / LOST_BYTES_A_PIECE;

	if (nr > LOST_MAX_PIECES)
		return LOST_MAX_PIECES;
	return nr > LOST_MIN_PIECES ? (uint32_t)nr : LOST_MIN_PIECES;
}

bool lost_reserve(struct memory_buffer *b, uint32_t device)
{
	struct memory_extent *e;

	if (b->lost)
		return true;
	e = calloc(1, sizeof(*e));
	if (!e)
		return false;
	if (!intervals_room(&e->dirty, 1)) {
		free(e);
		return false;
	}
	e->buffer = b;
	e->device = device;
	e->lost = true;
	e->end = b->bytes;
	b->lost = e;
	return true;
}

/* (locked) Among the buffer's extents it is found, and looked at, by all: not before there is a reason. */
static struct memory_extent *find_record(struct memory_buffer *b)
{
	struct memory_extent *e = b->lost;

	if (e && !e->number) {
		e->number = ++b->memory->created;
		extent_link(b->memory, e);
	}
	return e;
}

/* (locked) Twice as many would have room; no memory is needed for it. */
static void round_outward(struct memory_extent *e)
{
	uint32_t most = lost_most(e->buffer), cells = e->dirty.size < most ? e->dirty.size : most;

	intervals_coarsen(&e->dirty, (e->end + cells - 1) / cells, e->end);
	e->coarse = true;
}

/* (locked) From now on by bits, if there are any pieces.  False: it is too large, or there is no memory. */
static bool to_map(struct memory_extent *e)
{
	struct intervals *s = &e->dirty;

	if (e->end > MAX_MAPPED || !s->nr)
		return false;
	e->map = calloc(bits_words(e->end), sizeof(*e->map));
	if (!e->map)
		return false;
	for (uint32_t i = 0; i < s->nr; i++)
		bits_fill(e->map, s->v[i].start, s->v[i].end, true);
	s->v[0].end = s->v[s->nr - 1].end;
	s->nr = 1;
	intervals_trim(s);
	return true;
}

/* (locked) */
static void add_to_map(struct memory_extent *e, uint64_t start, uint64_t end)
{
	struct interval *all = &e->dirty.v[0];

	bits_fill(e->map, start, end, true);
	all->start = all->start < start ? all->start : start;
	all->end = all->end > end ? all->end : end;
}

/* (locked) */
static void clear_map_rows(struct memory_extent *e, uint64_t start, uint64_t bytes, uint64_t stride,
			   uint32_t rows)
{
	struct interval *all = &e->dirty.v[0];
	uint64_t end;

	for (uint32_t i = 0; i < rows; i++, start += stride) {
		end = start + bytes < e->end ? start + bytes : e->end;
		bits_fill(e->map, start, end, false);
	}
	all->start = bits_first(e->map, all->start, all->end, true);
	if (all->start < all->end) {
		all->end = bits_end(e->map, all->start, all->end);
		return;
	}
	free(e->map);
	e->map = NULL;
	e->dirty.nr = 0;
}

bool lost_first(const struct memory_extent *e, uint64_t *start, uint64_t *end)
{
	*start = bits_first(e->map, *start, *end, true);
	if (*start == *end)
		return false;
	*end = bits_first(e->map, *start, *end, false);
	return true;
}

/* (locked) As few as there may be. */
static void limit_pieces(struct memory_extent *e)
{
	if (e->dirty.nr > lost_most(e->buffer) && !to_map(e))
		round_outward(e);
}

/* (locked) */
static void add_one(struct memory_extent *e, uint64_t start, uint64_t end)
{
	if (e->map) {
		add_to_map(e, start, end);
		return;
	}
	/* One may be cut in two until they are one again. */
	if (!intervals_room(&e->dirty, 2))
		round_outward(e);
	intervals_set(&e->dirty, start, end, FOREVER, DIRTY_BEFORE);
	limit_pieces(e);
}

/* (locked) False: there is no memory to do it in one walk. */
static bool add_all(struct memory_extent *e, const struct intervals *found)
{
	if (!e->map && !intervals_add(&e->dirty, found))
		return false;
	for (uint32_t i = 0; e->map && i < found->nr; i++)
		add_to_map(e, found->v[i].start, found->v[i].end);
	limit_pieces(e);
	return true;
}

/* (locked) What of start..end is dirty in @e. */
static void take_row(struct memory_extent *e, struct memory_extent *record, uint64_t start, uint64_t end)
{
	uint64_t at, from, to, born;

	/* What can't be cut in two is lost as a whole. */
	if (!intervals_room(&e->dirty, 1))
		intervals_around(&e->dirty, &start, &end);
	for (at = start; intervals_first(&e->dirty, at, end, &from, &to, &born); at = to)
		if (record)
			add_one(record, from, to);
	/* Not one by one: each would move all behind it. */
	intervals_clear(&e->dirty, start, end);
}

/* (locked) What of the rows is dirty in @e.  False: no memory. */
static bool collect(const struct memory_extent *e, const struct memory_range *r, struct intervals *found)
{
	uint64_t at, end, bytes, from, to, born;

	for (uint32_t i = 0; i < memory_rows(r); i++) {
		at = memory_row(r, i, &bytes);
		for (end = at + bytes; intervals_first(&e->dirty, at, end, &from, &to, &born); at = to)
			if (intervals_set(found, from, to, FOREVER, DIRTY_BEFORE))
				return false;
	}
	return true;
}

/* Fewer than these are quicker one by one. */
#define MANY_PIECES	16u

/* (locked) The same as take_row() of each, in one walk.  False: there is no memory for that, or no need. */
static bool take_rows(struct memory_extent *e, struct memory_extent *record, const struct memory_range *r)
{
	uint64_t bytes, start = memory_row(r, 0, &bytes);
	struct intervals found = { 0 };
	bool done;

	if (e->dirty.nr < MANY_PIECES && memory_rows(r) < MANY_PIECES)
		return false;
	done = collect(e, r, &found) && intervals_room(&e->dirty, memory_rows(r)) &&
	       add_all(record, &found);
	intervals_destroy(&found);
	if (!done)
		return false;
	intervals_clear_rows(&e->dirty, start, bytes, r->stride, memory_rows(r));
	return true;
}

void lost_take(struct memory_extent *e, const struct memory_range *r)
{
	/* NULL: the buffer is going, and nobody asks any more. */
	struct memory_extent *record = find_record(e->buffer);
	uint64_t start, bytes;

	if (!record || !take_rows(e, record, r)) {
		for (uint32_t i = 0; e->dirty.nr && i < memory_rows(r); i++) {
			start = memory_row(r, i, &bytes);
			take_row(e, record, start, start + bytes);
		}
	}
	extent_dirtied(e);
	if (!record)
		return;
	intervals_trim(&record->dirty);
	extent_dirtied(record);
}

bool lost_clear_rows(struct memory_extent *e, const struct memory_range *r, uint32_t first,
		     uint32_t rows)
{
	uint64_t bytes, start = memory_row(r, first, &bytes);
	uint32_t cuts = e->map ? 0 : intervals_cuts(&e->dirty, start, bytes, r->stride, rows);

	if ((e->dirty.nr + cuts > lost_most(e->buffer) || !intervals_room(&e->dirty, cuts)) && !to_map(e))
		return false;
	if (e->map)
		clear_map_rows(e, start, bytes, r->stride, rows);
	else
		intervals_clear_rows(&e->dirty, start, bytes, r->stride, rows);
	intervals_trim(&e->dirty);
	e->coarse = e->coarse && e->dirty.nr;
	extent_dirtied(e);
	return true;
}
