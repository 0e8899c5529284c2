/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The locks of the core in user space.  Who finds one taken looks a few times more,
 * since it is never held for long, and then sleeps: its holder may have lost the CPU
 * to the very thread that waits.  Within one process only, and not recursive.
 *
 *   core_lock	    one atomic instruction to take it and one to give it back where
 *		    nobody else wants it.  The memory may be freed as soon as the last
 *		    holder's unlock has begun: a late wake-up finds nobody.
 *   core_hot_lock  given back by a plain store, so that the holder need not wait for
 *		    what it has stored under it to reach the other processors; who has
 *		    to wait pays for that with a system call.  The memory must stay until
 *		    the last unlock has returned.
 */
#ifndef ARAX_CORE_PLATFORM_LOCK_H
#define ARAX_CORE_PLATFORM_LOCK_H

#include <stdint.h>

#include "platform_barrier.h"

enum {
	CORE_LOCK_FREE,
	CORE_LOCK_TAKEN,
	CORE_LOCK_AWAITED,	/* taken, and perhaps somebody sleeps */
};

struct core_lock {
	uint32_t word;
};

void core_lock_wait(struct core_lock *l) __attribute__((cold));
void core_lock_wake(struct core_lock *l) __attribute__((cold));

static inline void core_lock_init(struct core_lock *l)
{
	__atomic_store_n(&l->word, CORE_LOCK_FREE, __ATOMIC_RELAXED);
}

static inline void core_lock_lock(struct core_lock *l)
{
	uint32_t word = CORE_LOCK_FREE;

	/* Acquire pairs with the release in core_lock_unlock(). */
	if (__builtin_expect(!__atomic_compare_exchange_n(&l->word, &word, CORE_LOCK_TAKEN, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 0))
		core_lock_wait(l);
}

static inline void core_lock_unlock(struct core_lock *l)
{
	/* Release pairs with the acquires of whoever takes it next. */
	if (__builtin_expect(__atomic_exchange_n(&l->word, CORE_LOCK_FREE, __ATOMIC_RELEASE) ==
			     CORE_LOCK_AWAITED, 0))
		core_lock_wake(l);
}

/* Whether anybody holds it: enough to catch a caller that forgot to. */
static inline bool core_lock_taken(const struct core_lock *l)
{
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) != CORE_LOCK_FREE;
}

struct core_hot_lock {
	uint32_t taken;		/* a futex */
	uint32_t waiters;
};

void core_hot_wait(struct core_hot_lock *l) __attribute__((cold));
void core_hot_wake(struct core_hot_lock *l) __attribute__((cold));

static inline void core_hot_init(struct core_hot_lock *l)
{
	__atomic_store_n(&l->taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->waiters, 0, __ATOMIC_RELAXED);
}

static inline void core_hot_lock(struct core_hot_lock *l)
{
	uint32_t taken = 0;

	/* Acquire pairs with the release in core_hot_unlock(). */
	if (__builtin_expect(!__atomic_compare_exchange_n(&l->taken, &taken, 1, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 0))
		core_hot_wait(l);
}

static inline void core_hot_unlock(struct core_hot_lock *l)
{
	/* Release pairs with the acquires of whoever takes it next. */
	__atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
	/* Pairs with the heavy one in core_hot_wait(). */
	core_light_barrier();
	if (__builtin_expect(__atomic_load_n(&l->waiters, __ATOMIC_RELAXED), 0))
		core_hot_wake(l);
}

static inline bool core_hot_taken(const struct core_hot_lock *l)
{
	return __atomic_load_n(&l->taken, __ATOMIC_RELAXED);
}

#endif /* ARAX_CORE_PLATFORM_LOCK_H */
