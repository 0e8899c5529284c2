/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the core needs of the world around it: the one place where kmod/core
 * touches kernel headers.  In user space (araxd's broker, the unit tests, the
 * fuzzers) the same names stand for atomic builtins and the lock of platform_lock.h.
 */
#ifndef ARAX_CORE_PLATFORM_H
#define ARAX_CORE_PLATFORM_H

#ifdef __KERNEL__

#include <linux/types.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/string.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/prefetch.h>
#include <linux/timekeeping.h>
#include <linux/bug.h>
#include <linux/sched.h>

typedef struct mutex core_mutex;
#define core_mutex_init(m)	mutex_init(m)
#define core_mutex_destroy(m)	mutex_destroy(m)
#define core_mutex_lock(m)	mutex_lock(m)
#define core_mutex_trylock(m)	mutex_trylock(m)
#define core_mutex_unlock(m)	mutex_unlock(m)
#define core_mutex_assert(m)	lockdep_assert_held(m)

typedef spinlock_t core_spin;
#define core_spin_init(s)	spin_lock_init(s)
#define core_spin_destroy(s)	do { } while (0)
#define core_spin_lock(s)	spin_lock(s)
#define core_spin_unlock(s)	spin_unlock(s)
#define core_spin_assert(s)	lockdep_assert_held(s)
#define core_releases(s)	__releases(s)	/* for sparse */

#define INT64_MIN	S64_MIN

typedef atomic64_t core_atomic;
#define core_atomic_read(a)	((u64)atomic64_read(a))
#define core_atomic_set(a, v)	atomic64_set(a, (s64)(v))
#define core_atomic_add(a, v)	atomic64_add((s64)(v), a)
#define core_atomic_sub_return(a, v) ((u64)atomic64_sub_return((s64)(v), a))
static inline bool core_atomic_try_cmpxchg(core_atomic *a, u64 *old, u64 new)
{
	return atomic64_try_cmpxchg(a, (s64 *)old, (s64)new);
}

#define core_load_acquire(p)	smp_load_acquire(p)
#define core_store_release(p, v) smp_store_release(p, v)
#define core_read_once(x)	READ_ONCE(x)
#define core_write_once(x, v)	WRITE_ONCE(x, v)
#define core_full_barrier()	smp_mb()
#define core_nospec(i, n)	array_index_nospec(i, n)
#define core_warn_on(c)		WARN_ON(c)
#define core_resched()		cond_resched()
#define core_prefetch_write(p)	prefetchw(p)
#define core_likely(c)		likely(c)
#define core_cold		__cold
#define core_noinline		noinline

#define core_now_ns()		ktime_get_ns()
#define core_div(a, b)		div64_u64(a, b)

/*
 * Where the caller's cgroup has no more room it is told so, by ENOMEM: by this flag memory.max has no
 * OOM killer come (try_charge_memcg() in mm/memcontrol.c).
 */
#define CORE_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

static inline void *core_alloc(size_t n)
{
	void *p;

	if (n <= PAGE_SIZE)
		return kzalloc(n, CORE_GFP);
	/* As kvzalloc(), which with that flag would try hard to have the pages in a row. */
	p = kzalloc(n, GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN);
	return p ? p : __vmalloc(n, CORE_GFP | __GFP_ZERO);
}

/* What is nobody's more than anybody else's. */
static inline void *core_alloc_common(size_t n)
{
	return kvzalloc(n, GFP_KERNEL);
}

static inline void core_free(const void *p)
{
	kvfree(p);
}

/* Of which most may never be used. */
static inline void *core_alloc_sparse(size_t n)
{
	return core_alloc(n);
}

static inline void core_free_sparse(const void *p, size_t n)
{
	core_free(p);
}

#else /* user space */

#include <errno.h>
#include <limits.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform_lock.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

typedef struct core_lock core_mutex;
#define core_mutex_init(m)	core_lock_init(m)
#define core_mutex_destroy(m)	core_warn_on(core_lock_taken(m))
#define core_mutex_lock(m)	core_lock_lock(m)
#define core_mutex_trylock(m)	core_lock_trylock(m)
#define core_mutex_unlock(m)	core_lock_unlock(m)
#define core_mutex_assert(m)	core_warn_on(!core_lock_taken(m))

/* A lock that only spins would burn a whole time slice when its holder is preempted. */
typedef struct core_lock core_spin;
#define core_spin_init(s)	core_lock_init(s)
#define core_spin_destroy(s)	core_warn_on(core_lock_taken(s))
#define core_spin_lock(s)	core_lock_lock(s)
#define core_spin_unlock(s)	core_lock_unlock(s)
#define core_spin_assert(s)	core_warn_on(!core_lock_taken(s))
#define core_releases(s)

typedef struct {
	u64 v;
} core_atomic;
#define core_atomic_read(a)	__atomic_load_n(&(a)->v, __ATOMIC_RELAXED)
#define core_atomic_set(a, n)	__atomic_store_n(&(a)->v, (u64)(n), __ATOMIC_RELAXED)
#define core_atomic_add(a, n)	((void)__atomic_fetch_add(&(a)->v, (u64)(n), __ATOMIC_RELAXED))
#define core_atomic_sub_return(a, n) \
	__atomic_sub_fetch(&(a)->v, (u64)(n), __ATOMIC_SEQ_CST)
static inline bool core_atomic_try_cmpxchg(core_atomic *a, u64 *old, u64 new)
{
	return __atomic_compare_exchange_n(&a->v, old, new, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

#define core_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define core_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define core_read_once(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define core_write_once(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define core_resched()		((void)0)
#define core_likely(c)		__builtin_expect(!!(c), 1)
#define core_cold		__attribute__((cold))
#define core_noinline		__attribute__((noinline))
#define CORE_LINE		64
#define ____cacheline_aligned	__attribute__((aligned(CORE_LINE)))

static inline void core_prefetch_write(const void *p)
{
#if defined(__x86_64__)
	/* The compiler would only fetch it for reading: older processors lack this. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* All ones if i < n, else 0, without a branch that could be mispredicted. */
static inline size_t core_nospec(size_t i, size_t n)
{
	size_t mask;

	/* That i < n has been checked: the compiler would know, and take all ones. */
	__asm__ volatile("" : "+r"(i));
	mask = (size_t)((ptrdiff_t)(i - n) >> (sizeof(size_t) * CHAR_BIT - 1));
	return i & mask;
}

/* The kernel warns; here a broken invariant must stop a test at once. */
static inline bool core_warn(bool bad, const char *what, const char *file, int line)
{
	if (__builtin_expect(bad, 0)) {
		fprintf(stderr, "arax core: %s:%d: %s\n", file, line, what);
		abort();
	}
	return bad;
}
#define core_warn_on(c)		core_warn(!!(c), #c, __FILE__, __LINE__)

#define check_add_overflow(a, b, d)	__builtin_add_overflow(a, b, d)
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)

#define core_div(a, b)		((u64)(a) / (u64)(b))

static inline u64 core_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

static inline void *core_alloc(size_t n)
{
	size_t bytes = (n + CORE_LINE - 1) & ~(size_t)(CORE_LINE - 1);
	void *p = bytes < n ? NULL : aligned_alloc(CORE_LINE, bytes);

	return p ? memset(p, 0, n) : NULL;
}

static inline void *core_alloc_common(size_t n)
{
	return core_alloc(n);
}

static inline void core_free(const void *p)
{
	free((void *)p);
}

/*
 * Of which most may never be used: what is not takes no memory, of which this process would
 * have to have as much as all its clients might use.
 */
void *core_alloc_sparse(size_t n);
void core_free_sparse(const void *p, size_t n);

#endif /* user space */

#endif /* ARAX_CORE_PLATFORM_H */
