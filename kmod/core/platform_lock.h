/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The lock of the core in user space: one atomic instruction to take it and one to
 * give it back where nobody else wants it.  Who finds it taken looks a few times
 * more, since it is never held for long, and then sleeps: its holder may have lost
 * the CPU to the very thread that waits.
 *
 * Within one process only, and not recursive.  The memory may be freed as soon as
 * the last holder's unlock has begun: a late wake-up finds nobody.
 */
#ifndef ARAX_CORE_PLATFORM_LOCK_H
#define ARAX_CORE_PLATFORM_LOCK_H

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CORE_LOCK_LOOKS	50	/* about a microsecond */

enum {
	CORE_LOCK_FREE,
	CORE_LOCK_TAKEN,
	CORE_LOCK_AWAITED,	/* taken, and perhaps somebody sleeps */
};

struct core_lock {
	uint32_t word;
};

static inline void core_lock_init(struct core_lock *l)
{
	__atomic_store_n(&l->word, CORE_LOCK_FREE, __ATOMIC_RELAXED);
}

static inline void core_lock_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

static __attribute__((noinline, cold, unused)) void core_lock_wait(struct core_lock *l)
{
	int i, err = errno;
	uint32_t word;

	for (i = 0; i < CORE_LOCK_LOOKS; i++) {
		core_lock_relax();
		word = CORE_LOCK_FREE;
		/* Acquire pairs with the release in core_lock_unlock(). */
		if (!__atomic_load_n(&l->word, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(&l->word, &word, CORE_LOCK_TAKEN, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
	}
	/* It is taken as awaited: we can't know whether others still sleep. */
	while (__atomic_exchange_n(&l->word, CORE_LOCK_AWAITED, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, CORE_LOCK_AWAITED, NULL, NULL, 0);
	errno = err;
}

static __attribute__((noinline, cold, unused)) void core_lock_wake(struct core_lock *l)
{
	int err = errno;

	syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = err;
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
static inline int core_lock_taken(const struct core_lock *l)
{
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) != CORE_LOCK_FREE;
}

#endif /* ARAX_CORE_PLATFORM_LOCK_H */
