/* SPDX-License-Identifier: MIT */
/*
 * own.h - kernels of a program's own: loading, unloading, and who may launch them
 *
 * ARAX_SERVICE_LOAD is a task like any other: it has a lane of a device that could run the
 * image, and the image is tried there, in the process that would run it.  So it is the
 * program's own device time that a constructor without end takes.
 */
#ifndef ARAXD_DISPATCH_OWN_H
#define ARAXD_DISPATCH_OWN_H

#include "daemon/dispatch/poller.h"

struct run;

static inline bool own_is_load(const struct graph_node *node)
{
	return node->d.opcode == ARAX_OP_CALL && node->d.kernel == ARAX_SERVICE_LOAD;
}

static inline bool own_is_launch(const struct graph_node *node)
{
	return node->d.opcode == ARAX_OP_LAUNCH && node->d.kernel & ARAX_KERNEL_OWN;
}

static inline bool own_is_unload(const struct graph_node *node)
{
	return node->d.opcode == ARAX_OP_CALL && node->d.kernel == ARAX_SERVICE_UNLOAD;
}

/* (poller) The kernel of a launch, which is its context's own; NULL: there is none. */
const struct kernel *own_kernel(const struct link *l, const struct graph_node *node);
/*
 * (poller) Whether the device can run the kernel, or load the image, of a load or launch.  An
 * image that no device is for is loaded by any that could: to be refused with a reason.
 */
bool own_suits(const struct poller *p, const struct graph_node *node, uint32_t device);
/* (poller) Of a launch: whether all that it lacks is a device with such a long piece of memory. */
bool own_is_too_long(const struct poller *p, const struct graph_node *node);

/*
 * (poller) Around a launch of an own kernel: it stays while it runs.  -ENOEXEC: there is none
 * (any more); -EINVAL: the launch is not as its signature says, which no core has seen.
 */
int own_hold(struct run *run);
void own_release(struct run *run);

/* (poller) ARAX_SERVICE_LOAD: after find_ranges(), for the lane's thread.  -EINVAL, -ENOMEM. */
int own_begin(struct run *run);
/* (poller) The same has come back, before its commit.  Returns its result. */
int own_end(struct run *run, int result);

/* (poller) ARAX_SERVICE_UNLOAD: its result. */
int own_unload(const struct graph_node *node);
/* (poller) The context is gone, or all are. */
void own_context_gone(struct link *l, uint32_t context);
void own_all_gone(struct link *l);

#endif /* ARAXD_DISPATCH_OWN_H */
