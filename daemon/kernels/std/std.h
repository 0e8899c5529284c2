/* SPDX-License-Identifier: MIT */
/*
 * std.h - what the kernels of arax-std share
 *
 * Every kernel checks at entry that its ranges hold what geometry and arguments
 * make it touch; after that indices come from those checked numbers alone.
 */
#ifndef ARAX_STD_H
#define ARAX_STD_H

#include <arax/kernel.h>

/* Compiled for several instruction sets; the loader picks one. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define STD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define STD_CLONES
#endif

/* For signatures that end in "u32 n" alone. */
static inline int std_items(const struct arax_launch *l, uint64_t *n)
{
	uint32_t items;

	if (arax_launch_args(l, &items, sizeof(items)))
		return -EINVAL;
	*n = items;	/* 64 bits: products with it don't overflow */
	return 0;
}

#endif /* ARAX_STD_H */
