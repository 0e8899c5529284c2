/* SPDX-License-Identifier: MIT */
/* run.h - a task on a device, as run.c and remote.c see it */
#ifndef ARAXD_DISPATCH_RUN_H
#define ARAXD_DISPATCH_RUN_H

#include "daemon/dispatch/host.h"
#include "daemon/dispatch/poller.h"
#include "daemon/memory/memory.h"

struct declared;
struct module;
struct own_load;

/*
 * A lane's present task.  While it is on another thread that thread owns the
 * runner's part and the ranges; it comes back through the poller's work queue.
 */
struct run {
	struct work work;
	struct host_job job;
	struct runner_task rt;
	struct poller *poller;
	struct link *link;
	struct graph_node *node;
	uint32_t device;
	uint32_t lane;
	bool direct;		/* by run_direct() */
	bool here;		/* it ran on the thread that ends it */
	bool hosted;		/* no launch, but what the host does: by a lane of cores */
	uint32_t cpus;		/* that it keeps busy, while another thread runs it */
	uint64_t start;		/* ticks */
	struct arax_launch_range ranges[ARAX_MAX_RANGES];
	struct runner_buffer buffers[ARAX_MAX_RANGES];
	struct declared *declared;	/* see declared.h; NULL: nobody checks */
	struct module *module;		/* its kernel is of this one; NULL: it is installed */
	struct own_load *load;		/* see own.h; NULL: it is none */
	struct memory_range *remote;	/* where the device has memory of its own */
	uint64_t seq;
	bool stored;			/* results may have reached the host's pages */
	bool spent;			/* some of its input is nowhere any more */
	bool lazy;			/* it has a range of a lazy buffer, see memory.h */
	bool held;			/* between memory_enter() and memory_settle() */
};

/* The device may have other lanes than before.  -EINVAL, -ENOMEM. */
int run_refresh(struct poller *p, struct poller_device *pd);
/* (poller) What remote_awaits_host() waited for is there, or can't be had. */
void run_go_on(struct run *run, int err);

#endif /* ARAXD_DISPATCH_RUN_H */
