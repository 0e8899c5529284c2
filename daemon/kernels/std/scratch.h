/* SPDX-License-Identifier: MIT */
/*
 * scratch.h - memory that a kernel has while it runs
 *
 * It is araxd's, and no user is charged for it: launches on one buffer, of many contexts and on
 * all lanes at once, have a copy each.  So all of them together have a part of the machine's
 * memory, and a launch that would take more fails with ENOMEM; it can't wait for others, who may
 * wait for it.
 */
#ifndef ARAX_STD_SCRATCH_H
#define ARAX_STD_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @items of @size bytes each, aligned to 16; NULL: there are not as many.  _zeros: all 0. */
void *std_scratch(uint64_t items, size_t size);
void *std_scratch_zeros(uint64_t items, size_t size);
/* NULL is nothing. */
void std_scratch_free(void *p);

/* Bytes that there are for all. */
size_t std_scratch_most(void);

#endif /* ARAX_STD_SCRATCH_H */
