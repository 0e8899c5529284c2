/* SPDX-License-Identifier: MIT */
/*
 * work.h - how much one launch of an installed kernel may be
 *
 * In araxd, or on a device, nothing ends a launch but itself, if it is not done in parts: no
 * deadline, no cancel, not its client's death.  Where its work is a product of its arguments, small buffers can make days of it.
 * So its manifest gives that product a bound, which holds for all of its implementations.  GPUs,
 * which are that much faster, may have another one; and there each thread has its own, since a
 * client's grid may have few; nor does a grid of many help a kernel that is few groups' work.
 */
#ifndef ARAX_DAEMON_KERNELS_WORK_H
#define ARAX_DAEMON_KERNELS_WORK_H

#include "arax/kernel.h"
#include "daemon/kernels/registry.h"

/* -EINVAL, and the reason (reason.h): it would be more than @k's most, on a GPU or elsewhere. */
int work_refuse(const struct kernel *k, const struct arax_launch *l, bool gpu);

/* The same of a kernel with a bound, without a reason. */
bool work_allows(const struct kernel *k, const struct arax_launch *l, bool gpu);

static inline int work_check(const struct kernel *k, const struct arax_launch *l, bool gpu)
{
	return __builtin_expect(k->work.steps.nr != 0, 0) ? work_refuse(k, l, gpu) : 0;
}

#endif /* ARAX_DAEMON_KERNELS_WORK_H */
