/* SPDX-License-Identifier: MIT */
/* Atomics on memory that a peer in another process or the kernel shares. */
#ifndef LIBARAX_BARRIER_H
#define LIBARAX_BARRIER_H

#define load_relaxed(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_relaxed(p, v)	__atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)

#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)

static inline void full_barrier(void)
{
#ifdef __SANITIZE_THREAD__
	/* The sanitizer knows no fences, but that a locked operation is one. */
	static unsigned int word;

	__atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif /* LIBARAX_BARRIER_H */
