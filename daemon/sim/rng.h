/* SPDX-License-Identifier: MIT */
/*
 * rng.h - draws that depend on what they are for, not on when they are made
 *
 * A draw is a hash of the seed and of the thing's numbers.  So two policies see the same
 * run times and the same failures, whatever order they run the tasks in.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdint.h>

/* splitmix64's finalizer */
static inline uint64_t rng_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static inline uint64_t rng_hash(uint64_t seed, uint64_t a, uint64_t b)
{
	return rng_mix(rng_mix(rng_mix(seed) ^ a) ^ b);
}

/* In [0, 1). */
static inline double rng_unit(uint64_t hash)
{
	return (double)(hash >> 11) / (double)(1ull << 53);
}

/* A sequence, for who builds something in order. */
struct rng {
	uint64_t seed, n;
};

static inline uint64_t rng_next(struct rng *r)
{
	return rng_hash(r->seed, r->n++, 0);
}

/* In [low, high]. */
static inline uint64_t rng_between(struct rng *r, uint64_t low, uint64_t high)
{
	return low + (uint64_t)(rng_unit(rng_next(r)) * (double)(high - low + 1));
}

#endif /* SIM_RNG_H */
