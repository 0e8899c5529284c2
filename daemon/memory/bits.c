// SPDX-License-Identifier: MIT
/* A bit for each byte, a word at a time: see bits.h. */
#include "daemon/memory/bits.h"

/* Of the word that has bit @start: from that one on, up to @end. */
static uint64_t mask(uint64_t start, uint64_t end)
{
	uint64_t m = ~0ull << start % 64;

	if (end - (start - start % 64) < 64)
		m &= ~(~0ull << end % 64);
	return m;
}

/* Where the next word begins, or the end. */
static uint64_t behind(uint64_t at, uint64_t end)
{
	const uint64_t left = 64 - at % 64;

	return end - at > left ? at + left : end;
}

void bits_fill(uint64_t *map, uint64_t start, uint64_t end, bool have)
{
	for (uint64_t at = start; at < end; at = behind(at, end)) {
		if (have)
			map[at / 64] |= mask(at, end);
		else
			map[at / 64] &= ~mask(at, end);
	}
}

uint64_t bits_first(const uint64_t *map, uint64_t start, uint64_t end, bool has)
{
	uint64_t at, word;

	for (at = start; at < end; at = behind(at, end)) {
		word = (has ? map[at / 64] : ~map[at / 64]) & mask(at, end);
		if (word)
			return at - at % 64 + (uint64_t)__builtin_ctzll(word);
	}
	return end;
}

uint64_t bits_end(const uint64_t *map, uint64_t start, uint64_t end)
{
	uint64_t at, word;

	while (start < end) {
		at = end - 1 - (end - 1) % 64;
		at = at > start ? at : start;
		word = map[at / 64] & mask(at, end);
		if (word)
			return at - at % 64 + 64 - (uint64_t)__builtin_clzll(word);
		end = at;
	}
	return start;
}
