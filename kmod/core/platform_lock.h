/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The lock of the core in user space.  Who finds it taken looks a few times more, since it
 * is never held for long, and then sleeps: its holder may have lost the CPU to the very
 * thread that waits.  Within one process only, and not recursive.
 *
 * It takes one atomic instruction, and is given back by a plain store, so that the holder
 * need not wait for what it has stored under it to reach the other processors; who has to
 * wait pays for that with a system call.  The memory must stay until the last unlock has
 * returned.
 */
#ifndef ARAX_CORE_PLATFORM_LOCK_H
#define ARAX_CORE_PLATFORM_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "platform_barrier.h"

struct core_lock {
	uint32_t taken;		/* a futex */
	uint32_t waiters;
};

void core_lock_wait(struct core_lock *l) __attribute__((cold));
void core_lock_wake(struct core_lock *l) __attribute__((cold));

static inline void core_lock_init(struct core_lock *l)
{
	__atomic_store_n(&l->taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&l->waiters, 0, __ATOMIC_RELAXED);
}

static inline void core_lock_lock(struct core_lock *l)
{
	uint32_t taken = 0;

	/* Acquire pairs with the release in core_lock_unlock(). */
	if (__builtin_expect(!__atomic_compare_exchange_n(&l->taken, &taken, 1, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 0))
		core_lock_wait(l);
}

static inline bool core_lock_trylock(struct core_lock *l)
{
	uint32_t taken = 0;

	/* Acquire: as above. */
	return __atomic_compare_exchange_n(&l->taken, &taken, 1, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static inline void core_lock_unlock(struct core_lock *l)
{
	/* Release pairs with the acquires of whoever takes it next. */
	__atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
	/* Pairs with the heavy one in core_lock_wait(). */
	core_light_barrier();
	if (__builtin_expect(__atomic_load_n(&l->waiters, __ATOMIC_RELAXED), 0))
		core_lock_wake(l);
}

static inline bool core_lock_taken(const struct core_lock *l)
{
	return __atomic_load_n(&l->taken, __ATOMIC_RELAXED);
}

#endif /* ARAX_CORE_PLATFORM_LOCK_H */
