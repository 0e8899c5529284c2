/* SPDX-License-Identifier: MIT */
/*
 * arax/kernel.h - what the author of a CPU kernel includes
 *
 * A kernel is a function of a shared object:
 *
 *	#include <arax/kernel.h>
 *
 *	struct vadd_args { uint32_t n; };
 *
 *	int vadd(const struct arax_launch *l)
 *	{
 *		struct vadd_args args;
 *
 *		if (arax_launch_args(l, &args, sizeof(args)))
 *			return -EINVAL;
 *		...
 *	}
 *
 * and a manifest beside it (see araxd.conf(5), KERNEL LIBRARIES) says what its
 * arguments are: "vadd(in f32 a[], in f32 b[], out f32 c[], u32 n)".
 *
 * RULES
 *
 *   - Ranges come in the order of the signature; their contents can change
 *     under the kernel's hands at any time, because the client maps them.  A
 *     kernel whose manifest says "addressing": "launch" takes no address and
 *     no trip count from a range's contents, unless it read them once, checked
 *     them, and brought them into their range (arax_index()).
 *   - Lengths are the client's choice: check them at entry, return -EINVAL.
 *     arax_launch_items() does that for flat arrays.
 *   - Plain arguments are laid out as the members of a C struct of the
 *     signature's types in the signature's order (natural alignment, size
 *     rounded up to the largest alignment).  They are a private copy.
 *   - Ranges may overlap, unless the manifest says "overlap": "none".
 *   - "split": "groups" in the manifest lets a device call the kernel several
 *     times at once, each time for the work-groups group_begin..group_end-1.
 *     Group g has the coordinates x = g % grid[0], y = g / grid[0] % grid[1],
 *     z = g / (grid[0] * grid[1]).  Without it the span is always everything.
 *   - Return 0 or a negative errno, which becomes the task's result (ENODEV, which
 *     devices alone may say, becomes EIO).  Don't
 *     exit, don't change the thread's signal mask, affinity or locale, keep no
 *     state between calls, start no threads that outlive the call.
 *   - Signals come at any time, as where a client takes a page away.  Code that
 *     uses the stack pointer for something else, as generators of code may, needs
 *     a stack for them meanwhile, by sigaltstack(); their handlers have SA_ONSTACK.
 *
 * This ABI only grows: struct arax_launch by fields at its end (see @size),
 * struct arax_launch_range never.
 */
#ifndef ARAX_KERNEL_H
#define ARAX_KERNEL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct arax_launch_range - bytes that a launch may touch
 * @data:	first byte; no alignment is promised beyond the client's offset
 * @length:	bytes of one row; 0 is possible
 * @stride:	bytes from one row's start to the next; 0 if @count is 1
 * @count:	rows, at least 1
 */
struct arax_launch_range {
	void *data;
	uint64_t length;
	uint32_t stride;
	uint32_t count;
};

/**
 * struct arax_launch - one call of a kernel
 * @size:	of this struct as the caller knows it
 * @nr_ranges:	as the signature says
 * @grid:	work-groups in each dimension, each at least 1
 * @block:	work-items of a group in each dimension, each at least 1
 * @group_begin, @group_end: linear span of work-groups to run now; the whole
 *		is 0 .. grid[0] * grid[1] * grid[2]
 * @ranges:	@nr_ranges of them
 * @args:	@arg_len bytes, aligned to 8
 * @arg_len:	as the signature says
 *
 * The caller keeps all of it; nothing may be kept after the return.
 */
struct arax_launch {
	uint32_t size;
	uint32_t nr_ranges;
	uint32_t grid[3];
	uint32_t block[3];
	uint64_t group_begin;
	uint64_t group_end;
	const struct arax_launch_range *ranges;
	const void *args;
	uint32_t arg_len;
	uint32_t pad;
};

/* The type of a kernel's function. */
typedef int arax_kernel_fn(const struct arax_launch *launch);

/* Mark a kernel's function: seen from outside whatever the default is. */
#define ARAX_KERNEL __attribute__((visibility("default")))

/* Copy the plain arguments into a struct.  -EINVAL if their size differs. */
static inline int arax_launch_args(const struct arax_launch *l, void *args, size_t size)
{
	if (l->arg_len != size)
		return -EINVAL;
	memcpy(args, l->args, size);
	return 0;
}

/*
 * Range @i as a flat array of @items elements of @item_size bytes.  NULL if the
 * launch has no such range, or it is strided, too short, or not aligned to
 * @item_size (a power of two; 1, 2, 4, 8).
 */
static inline void *arax_launch_items(const struct arax_launch *l, uint32_t i,
				      uint64_t items, uint32_t item_size)
{
	const struct arax_launch_range *r;

	if (i >= l->nr_ranges)
		return NULL;
	r = &l->ranges[i];
	if (r->count != 1 || items > r->length / item_size)
		return NULL;
	if ((uintptr_t)r->data & (item_size - 1))
		return NULL;
	return r->data;
}

#define ARAX_ITEMS(l, i, items, type) \
	((type *)arax_launch_items((l), (i), (items), sizeof(type)))

/*
 * For an index @i that was read from a range: @i if it is below @n, else 0.  Without a
 * branch, so that neither does a processor that runs ahead of the check use another one
 * (what it then loads would leave traces).  @n: 1 .. 2^63.  It replaces no check: read the
 * contents once, compare, and use what this returns.
 */
static inline uint64_t arax_index(uint64_t i, uint64_t n)
{
	uint64_t keep;

	/* The compiler shall not know what the check has shown. */
	__asm__ volatile("" : "+r"(i));
	keep = 0 - (~(i | (n - 1 - i)) >> 63);
	return i & keep;
}

/* All work-groups of the launch; UINT64_MAX if the product doesn't fit. */
static inline uint64_t arax_launch_groups(const struct arax_launch *l)
{
	uint64_t n = (uint64_t)l->grid[0] * l->grid[1];

	if (l->grid[2] && n > UINT64_MAX / l->grid[2])
		return UINT64_MAX;
	return n * l->grid[2];
}

/*
 * This call's share of @items that lie in a row: the items are dealt evenly to
 * the launch's work-groups, whatever its geometry.  All spans together cover
 * each item exactly once.
 */
static inline void arax_launch_share(const struct arax_launch *l, uint64_t items,
				     uint64_t *begin, uint64_t *end)
{
	uint64_t groups = arax_launch_groups(l);
	uint64_t each, more;

	if (l->group_begin == 0 && l->group_end >= groups) {
		*begin = 0;
		*end = items;
		return;
	}
	each = items / groups;
	more = items % groups;	/* the first `more` groups have one item extra */
	*begin = l->group_begin * each + (l->group_begin < more ? l->group_begin : more);
	*end = l->group_end * each + (l->group_end < more ? l->group_end : more);
}

#ifdef __cplusplus
}
#endif

#endif /* ARAX_KERNEL_H */
