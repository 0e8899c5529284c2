/* SPDX-License-Identifier: MIT */
/*
 * std.h - what the kernels of arax-std share
 *
 * Every kernel checks at entry that its ranges hold what geometry and arguments
 * make it touch; after that indices come from those checked numbers alone.
 */
#ifndef ARAX_STD_H
#define ARAX_STD_H

#include <stdbool.h>

#include <arax/kernel.h>

/* Compiled for several instruction sets; the loader picks one. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define STD_CLONES __attribute__((target_clones("avx2", "default")))
#define STD_FMA_CLONES __attribute__((target_clones("fma", "default")))
#else
#define STD_CLONES
#define STD_FMA_CLONES
#endif

/* Into each of those, to be compiled for its instruction set. */
#define STD_INLINE static inline __attribute__((always_inline))

/* A loop of which no turn reads what another one writes. */
#ifdef __clang__
#define STD_EACH(i, n) for (uint64_t i = 0; i < (n); i++)
#else
#define STD_EACH(i, n) _Pragma("GCC ivdep") for (uint64_t i = 0; i < (n); i++)
#endif

/* Eight at once, at any address: a loop of sums that the compiler may not reorder itself. */
typedef float std_v8 __attribute__((vector_size(32), aligned(4), may_alias));

STD_INLINE float std_sum8(const std_v8 *v)
{
	return (((*v)[0] + (*v)[1]) + ((*v)[2] + (*v)[3])) +
	       (((*v)[4] + (*v)[5]) + ((*v)[6] + (*v)[7]));
}

/* What was read is what counts from here on: the compiler may not read its source again. */
static inline void std_settled(const void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}

/*
 * Read once: its owner can write another number after this one has been checked, and the
 * compiler may otherwise read it again where it is used.
 */
static inline uint32_t std_once(const uint32_t *p)
{
	return *(const volatile uint32_t *)p;
}

/* For signatures that end in "u32 n" alone. */
static inline int std_items(const struct arax_launch *l, uint64_t *n)
{
	uint32_t items;

	if (arax_launch_args(l, &items, sizeof(items)))
		return -EINVAL;
	*n = items;	/* 64 bits: products with it don't overflow */
	return 0;
}

/* For those that end in "u32 n, u32 parts", at least one part: see reduce.c. */
struct std_parts {
	uint32_t n, parts;
};

static inline int std_parts(const struct arax_launch *l, struct std_parts *a)
{
	return arax_launch_args(l, a, sizeof(*a)) || !a->parts ? -EINVAL : 0;
}

/* Where part p begins; it ends where the next one begins. */
static inline uint64_t std_part(const struct std_parts *a, uint64_t p)
{
	return p * a->n / a->parts;
}

#endif /* ARAX_STD_H */
