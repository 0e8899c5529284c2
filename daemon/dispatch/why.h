/* SPDX-License-Identifier: MIT */
/*
 * why.h - what a task's owner is told of its failure, beside the errno
 */
#ifndef ARAXD_DISPATCH_WHY_H
#define ARAXD_DISPATCH_WHY_H

#include <stdint.h>

#include "daemon/dispatch/poller.h"
#include "daemon/kernels/registry.h"

/*
 * (poller) Before its end is committed.  @k: NULL: it came to no device, else it ran on @device.
 * @reason: "" if nobody said any.
 */
void why_tell(struct link *l, const struct graph_node *node, const struct kernel *k,
	      const char *device, int result, const char *reason);

#endif /* ARAXD_DISPATCH_WHY_H */
