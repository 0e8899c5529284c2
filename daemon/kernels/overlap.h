/* SPDX-License-Identifier: MIT */
/*
 * overlap.h - a kernel whose output must lie apart from everything else
 *
 * What its work-items write, others read: where a range that is written overlaps another one, the
 * result goes by who is first, and so by the kind of device.  Its manifest says so, and such a launch
 * is refused on all kinds.
 */
#ifndef ARAX_DAEMON_KERNELS_OVERLAP_H
#define ARAX_DAEMON_KERNELS_OVERLAP_H

#include "arax/kernel.h"
#include "daemon/kernels/registry.h"

/* -EINVAL, and the reason (reason.h): two of @l's ranges overlap, of which @k writes one. */
int overlap_refuse(const struct kernel *k, const struct arax_launch *l);

static inline int overlap_check(const struct kernel *k, const struct arax_launch *l)
{
	return __builtin_expect(k->apart, 0) ? overlap_refuse(k, l) : 0;
}

#endif /* ARAX_DAEMON_KERNELS_OVERLAP_H */
