/* SPDX-License-Identifier: MIT */
/*
 * upcoming.h - when bytes of a buffer are going to be used next
 *
 * The uses of tasks that were submitted and have not begun, by the pieces that they
 * name.  Not thread-safe.
 */
#ifndef ARAXD_MEMORY_UPCOMING_H
#define ARAXD_MEMORY_UPCOMING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/memory/treap.h"

#define UPCOMING_NEVER	UINT64_MAX

/* Pieces that one question looks at; what lies beyond counts as used as soon as any of it is. */
#define UPCOMING_VISITS	64u

/**
 * struct upcoming - the uses of a buffer; all zero: none
 * @random:	begins as a number that clients don't know, or they could make the search long
 */
struct upcoming {
	struct treap_root pieces;
	uint64_t random;
};

/*
 * A task will use bytes @start .. @end - 1; what has a lower @seq comes first.  False: no
 * memory, and it is not known of it.  O(log n) for n different pieces, and uses of each.
 */
bool upcoming_add(struct upcoming *u, uint64_t start, uint64_t end, uint64_t seq);
/* It has begun, or never will.  False: nothing is known of it. */
bool upcoming_remove(struct upcoming *u, uint64_t start, uint64_t end, uint64_t seq);
/* All of them; returns how many there were. */
uint64_t upcoming_clear(struct upcoming *u);

/* The least seq of a use that shares a byte with start..end; UPCOMING_NEVER: there is none. */
uint64_t upcoming_next(const struct upcoming *u, uint64_t start, uint64_t end);

#endif /* ARAXD_MEMORY_UPCOMING_H */
