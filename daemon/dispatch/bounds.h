/* SPDX-License-Identifier: MIT */
/*
 * bounds.h - launches that are more than their kernel may do on some of the devices
 *
 * A manifest may have GPUs do more in a launch than others (daemon/kernels/work.h).  Where there
 * are both, a launch goes where it is not too much; where there are not, the device's own check
 * refuses it.
 */
#ifndef ARAXD_DISPATCH_BOUNDS_H
#define ARAXD_DISPATCH_BOUNDS_H

#include <stdbool.h>

#include "daemon/dispatch/poller.h"
#include "daemon/kernels/registry.h"

/* How much this launch of @k is, whose manifest says it. */
uint64_t bounds_size(const struct graph_node *node, const struct kernel *k);

/* Are there devices of both sorts? */
bool bounds_differ(const struct poller *p);

/* Is this launch of @k not too much for such a device?  Cold: of kernels with a bound alone. */
bool bounds_allow(const struct graph_node *node, const struct kernel *k, bool gpu);

/* -EINVAL, and this thread's reason, if it is too much for each device that could run @k; else 0. */
int bounds_tell(const struct poller *p, const struct graph_node *node, const struct kernel *k);

#endif /* ARAXD_DISPATCH_BOUNDS_H */
