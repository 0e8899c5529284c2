/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Barriers of unequal price, for user space.
 *
 * Where two threads each store a word and then load the other's, both need a full
 * barrier in between, or each may miss the other's store.  If one of the two is rare,
 * it can issue the barrier for both: membarrier(2) interrupts every running thread of
 * the process.  The frequent one then only keeps its compiler from reordering, and
 * need not wait until its earlier stores have reached the other processors.
 *
 * Between threads of one process only.
 */
#ifndef ARAX_CORE_PLATFORM_BARRIER_H
#define ARAX_CORE_PLATFORM_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

/* membarrier(2) can be had.  Set before main(), constant afterwards. */
extern bool core_barriers_unequal;

#if defined(__SANITIZE_THREAD__)
/* TSan does not model fences; an RMW on a shared word is as strong on x86. */
static inline void core_full_barrier(void)
{
	static uint32_t fence;

	__atomic_fetch_add(&fence, 1, __ATOMIC_SEQ_CST);
}
#else
static inline void core_full_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

/* The frequent side's. */
static inline void core_light_barrier(void)
{
	if (__builtin_expect(core_barriers_unequal, 1))
		__asm__ volatile("" ::: "memory");
	else
		core_full_barrier();
}

/* The rare side's: some microseconds. */
void core_heavy_barrier(void);

#endif /* ARAX_CORE_PLATFORM_BARRIER_H */
