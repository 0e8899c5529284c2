/* SPDX-License-Identifier: MIT */
/*
 * bits.h - which bytes of something have a property, a bit for each
 *
 * As large however many pieces they are.  Not thread-safe.
 */
#ifndef ARAXD_MEMORY_BITS_H
#define ARAXD_MEMORY_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 64 bits each. */
static inline size_t bits_words(uint64_t bytes)
{
	return (size_t)(bytes / 64 + !!(bytes % 64));
}

/* start..end have it from now on, or not. */
void bits_fill(uint64_t *map, uint64_t start, uint64_t end, bool have);
/* The first of start..end that has it, or has it not; @end: none. */
uint64_t bits_first(const uint64_t *map, uint64_t start, uint64_t end, bool has);
/* Behind the last of start..end that has it; @start: none. */
uint64_t bits_end(const uint64_t *map, uint64_t start, uint64_t end);

#endif /* ARAXD_MEMORY_BITS_H */
