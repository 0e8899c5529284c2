/* SPDX-License-Identifier: MIT */
/*
 * The lock around the rings: one atomic instruction to take it and one to give it back
 * where nobody else wants it.  It is held for tens of nanoseconds; who finds it taken
 * looks a few times more, then sleeps, since its holder may have lost the CPU.  Within
 * one process only, and not recursive.
 */
#ifndef LIBARAX_LOCK_H
#define LIBARAX_LOCK_H

#include <stdint.h>

#include "barrier.h"

enum {
	LOCK_FREE,		/* as zeroed memory is */
	LOCK_TAKEN,
	LOCK_AWAITED,		/* taken, and perhaps somebody sleeps */
};

struct lock {
	uint32_t word;
};

void lock_wait(struct lock *l) __attribute__((cold));
void lock_wake(struct lock *l) __attribute__((cold));

static inline void lock_take(struct lock *l)
{
	uint32_t word = LOCK_FREE;

	/* Acquire pairs with the release in lock_drop(). */
	if (unlikely(!__atomic_compare_exchange_n(&l->word, &word, LOCK_TAKEN, 0,
						  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
		lock_wait(l);
}

static inline void lock_drop(struct lock *l)
{
	/* Release pairs with the acquires of whoever takes it next. */
	if (unlikely(__atomic_exchange_n(&l->word, LOCK_FREE, __ATOMIC_RELEASE) == LOCK_AWAITED))
		lock_wake(l);
}

#endif /* LIBARAX_LOCK_H */
