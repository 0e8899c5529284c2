/* SPDX-License-Identifier: MIT */
/*
 * far_map.h - what the cases of far.h share: stretches, rows of one piece that is mapped again and
 * again, and a tail each; and what stands in them
 *
 * Numbers are small integers, so that sums in f64 are exact, and few of a piece are not 0 where sums
 * are in f32.
 */
#ifndef ARAX_SELFTESTS_UNIT_FAR_MAP_H
#define ARAX_SELFTESTS_UNIT_FAR_MAP_H

#include <stdbool.h>

#include "selftests/unit/far.h"

#define LOG_ITEMS	18
#define ITEMS		(1u << LOG_ITEMS)	/* of a piece, as a rule */
#define PIECES		8196u			/* 4 * 2049; of ITEMS they have more than 2^31 */
#define ROWS		3u
#define ROW_PIECES	5462u			/* three rows have more than 2^32 items */

struct far_case {
	const char *name;	/* of the kernel */
	void (*run)(const struct far_case *c);
	const void *what;	/* run()'s own */
};

/* Of a file each; they end with one that has no name. */
extern const struct far_case far_items[], far_rows[], far_grids[];

/* Who runs the cases. */
extern far_launch *launch;

/**
 * struct stretch - memory that is more than there is
 * @range:	all of it: @rows times (@repeats pieces, and a tail)
 * @once:	the piece, and behind it the tails, each @piece bytes
 */
struct stretch {
	struct arax_launch_range range;
	char *once;
	uint64_t piece, repeats;
	uint32_t rows;
};

/* @piece: whole pages.  What lies before and behind it is no memory. */
struct stretch stretch_make(uint64_t piece, uint32_t rows, uint64_t repeats);
/*
 * @type: f(32), d (f64), i(32), b(ytes), p(ixels of three), ITEMS in a piece; -5 .. 5, or any bytes.
 * @sparse: few in the piece are not 0
 */
struct stretch stretch_of(char type, uint32_t rows, uint64_t repeats, bool sparse);
void stretch_fill(const struct stretch *s, char type, bool sparse);
void stretch_end(struct stretch *s);

static inline void *stretch_tail(const struct stretch *s, uint32_t row)
{
	return s->once + (1 + row) * s->piece;
}

/* The piece (@tail 0) or a row's tail, on its own. */
struct arax_launch_range stretch_part(const struct stretch *s, uint32_t tail);
struct arax_launch_range far_flat(void *data, uint64_t bytes);

uint32_t far_random(void);
uint32_t far_size_of(char type);	/* bytes */
void far_near(const char *what, uint64_t i, double got, double wanted, double tolerance);

#endif /* ARAX_SELFTESTS_UNIT_FAR_MAP_H */
