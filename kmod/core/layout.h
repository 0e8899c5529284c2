/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Where things lie in a context's region.  Client and core compute it alike,
 * so that the core need not believe an offset that a client wrote.
 */
#ifndef ARAX_CORE_LAYOUT_H
#define ARAX_CORE_LAYOUT_H

#include "uapi/arax.h"

#define ARAX_CTL_BYTES	4096u

struct arax_layout {
	__u32 sq_offset;
	__u32 cq_offset;
	__u32 arena_offset;
	__u32 region_size;
};

/* Returns 0, or -22 (EINVAL) if a geometry is outside the contract. */
static inline int arax_layout(__u32 depth, __u32 entry_size, __u32 arena_size,
			      struct arax_layout *out)
{
	if (depth < ARAX_MIN_DEPTH || depth > ARAX_MAX_DEPTH || (depth & (depth - 1)))
		return -22;
	if (entry_size != 128 && entry_size != 256)
		return -22;
	if (arena_size > ARAX_MAX_ARENA || (arena_size & 4095))
		return -22;
	out->sq_offset = ARAX_CTL_BYTES;
	out->cq_offset = out->sq_offset + depth * entry_size;
	out->arena_offset = (out->cq_offset + depth * 64 + 4095) & ~4095u;
	out->region_size = out->arena_offset + arena_size;
	return 0;
}

#endif /* ARAX_CORE_LAYOUT_H */
