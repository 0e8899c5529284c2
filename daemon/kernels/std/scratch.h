/* SPDX-License-Identifier: MIT */
/*
 * scratch.h - memory that a kernel has while it runs
 *
 * It is araxd's, and no user is charged for it: launches on one buffer, of many contexts and on
 * all lanes at once, have a copy each.  So all of them together have a part of the memory that
 * araxd may have, and a launch that would take more fails with ENOMEM; it can't wait for others,
 * who may wait for it.
 *
 * Nobody may keep others from theirs by holding it all for as long as a long launch takes.  So what
 * is small does not count, of which there are no more at once than a few for each lane; and of the
 * rest each has at most half of what those before it have left.
 */
#ifndef ARAX_STD_SCRATCH_H
#define ARAX_STD_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes: the most that a convolution needs, whose filters are limited. */
#define STD_SCRATCH_SMALL	((size_t)16 << 20)

/* @items of @size bytes each, aligned to 16; NULL: there are not as many.  _zeros: all 0. */
void *std_scratch(uint64_t items, size_t size);
void *std_scratch_zeros(uint64_t items, size_t size);
/* NULL is nothing. */
void std_scratch_free(void *p);

/* Bytes that there are for all that is not small. */
size_t std_scratch_most(void);

#endif /* ARAX_STD_SCRATCH_H */
