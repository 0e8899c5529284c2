/* SPDX-License-Identifier: MIT */
/*
 * residency.h - which bytes of a buffer are valid where
 *
 * Place 0 is the host, place i + 1 is device i.  A buffer starts valid at the host.  This is
 * all that the simulation knows of coherence: another one can take its place.
 */
#ifndef SIM_RESIDENCY_H
#define SIM_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

#define PLACE_HOST	0u
#define PLACE_NONE	(~0u)

/**
 * struct residency - of one buffer
 * @cells: segments that cover it in order, each its start and then a bit per place
 * @nr:    of segments
 */
struct residency {
	uint64_t *cells;
	uint64_t bytes;
	uint32_t nr, size;
	uint32_t words;		/* of bits, per segment */
};

/* False: no memory. */
bool residency_init(struct residency *r, uint64_t bytes, uint32_t places);
void residency_fini(struct residency *r);

/* Bytes of the range that are valid at @place. */
uint64_t residency_valid(const struct residency *r, uint64_t offset, uint64_t length,
			 uint32_t place);

/**
 * residency_missing - the first piece of a range that is not valid at @place
 * @start, @end: out: the piece, all of it valid at the same places
 * @source: out: the host if it is valid there, else the first place that has it, or
 *	    PLACE_NONE: its bytes are lost
 *
 * Returns false if there is none.
 */
bool residency_missing(const struct residency *r, uint64_t offset, uint64_t length, uint32_t place,
		       uint64_t *start, uint64_t *end, uint32_t *source);

/* The first piece at or after @offset that is valid at @place and nowhere else. */
bool residency_sole(const struct residency *r, uint64_t offset, uint32_t place, uint64_t *start,
		    uint64_t *end);

/* It is valid at @place as well.  False: no memory, and nothing has changed. */
bool residency_copied(struct residency *r, uint64_t offset, uint64_t length, uint32_t place);
/* It is valid at @place alone. */
bool residency_written(struct residency *r, uint64_t offset, uint64_t length, uint32_t place);
/* Nothing is valid at @place any more. */
void residency_drop(struct residency *r, uint32_t place);

/* Calls @each for every piece of the range, with its bits: see residency_has(). */
void residency_walk(const struct residency *r, uint64_t offset, uint64_t length,
		    void (*each)(void *arg, uint64_t bytes, const uint64_t *bits), void *arg);

static inline bool residency_has(const uint64_t *bits, uint32_t place)
{
	return bits[place / 64] >> place % 64 & 1;
}

#endif /* SIM_RESIDENCY_H */
