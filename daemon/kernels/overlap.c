// SPDX-License-Identifier: MIT
#include "daemon/kernels/overlap.h"

#include <errno.h>

#include "daemon/reason.h"
#include "uapi/arax.h"

/* From its first byte to its last, with what a strided one leaves out. */
static uint64_t end_of(const struct arax_launch_range *r)
{
	return (uintptr_t)r->data + (uint64_t)(r->count - 1) * r->stride + r->length;
}

static bool overlap(const struct arax_launch_range *a, const struct arax_launch_range *b)
{
	return a->length && b->length && (uintptr_t)a->data < end_of(b) &&
	       (uintptr_t)b->data < end_of(a);
}

static bool written(const struct kernel *k, uint32_t i)
{
	return k->sig.abi.access >> (2 * i) & ARAX_OUT;
}

int overlap_refuse(const struct kernel *k, const struct arax_launch *l)
{
	for (uint32_t i = 1; i < l->nr_ranges; i++)
		for (uint32_t j = 0; j < i; j++) {
			if ((!written(k, i) && !written(k, j)) ||
			    !overlap(&l->ranges[i], &l->ranges[j]))
				continue;
			reason_set("kernel %s can't work in place: ranges %u and %u overlap, and it writes to one of them",
				   k->sig.name, j, i);
			return -EINVAL;
		}
	return 0;
}
