/* SPDX-License-Identifier: MIT */
/* passes.h - what passes.cu and passes.c share: sizes of shared memory, by which passes are chosen */
#ifndef ARAX_STD_PASSES_H
#define ARAX_STD_PASSES_H

#define PASS_THREADS	256u	/* of a block, at most */
#define SCAN_EACH	8u	/* items of a thread in a tile */
#define SCAN_TILE	(PASS_THREADS * SCAN_EACH)
#define COUNT_ROOM	8192u	/* bins in shared memory */
#define COUNT_COPIES	8u	/* of few bins, at most */
#define MEAN_SUMS	5120u	/* of dimensions of centers, in shared memory */
#define MEAN_COUNTS	2048u	/* of centers */
/* Of a block's threads so many take turns in the parts of one number. */
#define MEAN_SLICES(threads) \
	((threads) < 8 ? 1u : (threads) < 32 ? (uint32_t)(threads) / 4 : 8u)
#define SORT_BLOCK	4096u	/* items in shared memory */
#define SORT_FUSED	4u	/* steps at once between items beyond that */

/* How many groups of 1 << @steps of @n items, the farthest @step << 1 apart, have an item. */
#define SORT_GROUPS(n, step, steps) \
	((((uint64_t)(n) - 1) / ((uint64_t)(step) * 2) + 1) * ((step) >> ((steps) - 1)))

#endif /* ARAX_STD_PASSES_H */
