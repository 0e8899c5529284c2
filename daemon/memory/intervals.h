/* SPDX-License-Identifier: MIT */
/*
 * intervals.h - which bytes of something have a property, and since when
 *
 * A sorted array of disjoint intervals.  Not thread-safe.
 */
#ifndef ARAXD_MEMORY_INTERVALS_H
#define ARAXD_MEMORY_INTERVALS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct interval - bytes @start .. @end - 1
 * @until:	holds for tasks added to their graph before this (graph_node.seq)
 * @born:	the clock of whoever set it, see intervals_gap()
 */
struct interval {
	uint64_t start;
	uint64_t end;
	uint64_t until;
	uint64_t born;
};

struct intervals {
	struct interval *v;
	uint32_t nr, size;
};

void intervals_destroy(struct intervals *s);

/*
 * Neighbours that agree become one.  Where there is no memory for one more, bytes
 * lose the property that should have kept it, and -ENOMEM is returned by _set().
 */
int intervals_set(struct intervals *s, uint64_t start, uint64_t end, uint64_t until,
		  uint64_t born);
void intervals_clear(struct intervals *s, uint64_t start, uint64_t end);

/*
 * The same for @count pieces of @bytes, each @stride behind the one before it; and to take the
 * property from them.  One walk through all there are, not one for each.
 */
int intervals_set_rows(struct intervals *s, uint64_t start, uint64_t bytes, uint64_t stride,
		       uint32_t count, uint64_t until, uint64_t born);
void intervals_clear_rows(struct intervals *s, uint64_t start, uint64_t bytes, uint64_t stride,
			  uint32_t count);

/* Those that @keep says no to go. */
void intervals_filter(struct intervals *s, bool (*keep)(void *arg, uint64_t start, uint64_t end),
		      void *arg);

/* Room for @more of them.  False: no memory. */
bool intervals_room(struct intervals *s, uint32_t more);
/*
 * The first bytes of start..end that have the property, and since when; false: none.
 */
bool intervals_first(const struct intervals *s, uint64_t start, uint64_t end,
		     uint64_t *from, uint64_t *to, uint64_t *born);
/* What of @less was born by @born loses it, in one walk.  -ENOMEM: nothing does. */
int intervals_clear_old(struct intervals *s, const struct intervals *less, uint64_t born);

/* So many more there are, at most, once that property is taken from rows as of _clear_rows(). */
uint32_t intervals_cuts(const struct intervals *s, uint64_t start, uint64_t bytes, uint64_t stride,
			uint32_t count);
/* start..end and what it would cut off. */
void intervals_around(const struct intervals *s, uint64_t *start, uint64_t *end);
/* Those of @more as well, where all of both have been set alike.  False: no memory. */
bool intervals_add(struct intervals *s, const struct intervals *more);
/*
 * Of those that all have been set alike: each from a multiple of @grain to one, or to @last.  Those that
 * touch then become one.
 */
void intervals_coarsen(struct intervals *s, uint64_t grain, uint64_t last);

/* Room that none needs is given back; of more than @most, where that is half of it. */
void intervals_trim(struct intervals *s);
void intervals_fit(struct intervals *s, uint32_t most);

/* The same as @from.  Without memory for it: none. */
void intervals_copy(struct intervals *s, const struct intervals *from);

/* What of start..end has the property has it until @until from now on. */
void intervals_limit(struct intervals *s, uint64_t start, uint64_t end, uint64_t until);
/* ... and as if it were born at @born. */
void intervals_renew(struct intervals *s, uint64_t start, uint64_t end, uint64_t until,
		     uint64_t born);

/**
 * intervals_gap - the first bytes of start..end that lack the property
 * @seq:	intervals whose @until is not above this don't count
 * @born:	those born before this don't either
 *
 * False if there are none; else *@gap_start, *@gap_end.
 */
bool intervals_gap(const struct intervals *s, uint64_t start, uint64_t end, uint64_t seq,
		   uint64_t born, uint64_t *gap_start, uint64_t *gap_end);

/* Those that have bytes of start..end. */
uint32_t intervals_between(const struct intervals *s, uint64_t start, uint64_t end);
/* Bytes that have the property, whatever until and born say. */
uint64_t intervals_bytes(const struct intervals *s);

#endif /* ARAXD_MEMORY_INTERVALS_H */
