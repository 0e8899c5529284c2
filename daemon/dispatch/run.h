/* SPDX-License-Identifier: MIT */
/* run.h - a task on a device, as run.c and remote.c see it */
#ifndef ARAXD_DISPATCH_RUN_H
#define ARAXD_DISPATCH_RUN_H

#include <errno.h>

#include "daemon/dispatch/host.h"
#include "daemon/dispatch/poller.h"
#include "daemon/memory/memory.h"

#define MAX_RUNS	64u	/* places of a device: bits */

struct declared;
struct module;
struct own_load;
struct quota_line;

/**
 * struct aside - of a task that runs in a worker, see aside.h
 * @slice, @parked: what its thread has to tell
 * @told:	@slice is queued
 * @asked:	it is to make way, or has; the device counts it
 * @laneless:	it has, and is queued again
 * @since:	ticks: when it was given the lane that it has
 * @charged_ns:	of what it ran, at the last time
 * @place_ns:	the same, when other programs last went before it
 */
struct aside {
	struct runner_turn turn;
	struct work slice, parked;
	bool told;
	bool asked;
	bool laneless;
	bool here;		/* a launch in araxd */
	uint64_t since;
	uint64_t charged_ns;
	uint64_t place_ns;
};

/*
 * A lane's present task.  While it is on another thread that thread owns the
 * runner's part, the ranges and @unrun; it comes back through the poller's work queue.
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
	bool lone;		/* its node is none of the graph's: see lone.h */
	bool here;		/* it ran on the thread that ends it */
	bool hosted;		/* no launch, but what the host does: by a lane of cores */
	uint32_t token;		/* its lane, where each has one task: it may get another one */
	uint32_t cpus;		/* that it keeps busy, while another thread runs it */
	struct aside aside;
	struct work leaves;	/* see back.h */
	struct host_job back;
	bool left;		/* its lane may be another one's: @token says nothing */
	uint64_t lane_ns;	/* that it had it */
	uint32_t back_place;
	uint64_t start;		/* ticks */
	struct arax_launch_range ranges[ARAX_MAX_RANGES];
	struct runner_buffer buffers[ARAX_MAX_RANGES];
	struct declared *declared;	/* see declared.h; NULL: nobody checks */
	struct module *module;		/* its kernel is of this one; NULL: it is installed */
	struct own_load *load;		/* see own.h; NULL: it is none */
	struct memory_range *remote;	/* where the device has memory of its own */
	struct memory_until until;	/* then it waits no longer for room there, at a gate, for the host */
	uint64_t fetch_ns;		/* that its lane waited for what it uses to come to the host */
	uint64_t seq;
	bool stored;			/* results may have reached the host's pages */
	bool spent;			/* some of its input is nowhere any more */
	bool lazy;			/* it has a range of a lazy buffer, see memory.h */
	bool unrun;			/* nothing of it has run: its ranges are as they were */
	bool held;			/* between memory_enter() and memory_settle() */
	bool over_quota;		/* it did not enter, and may when others have ended */
	uint64_t settles;		/* before it tried to */
	struct coming *coming;		/* see ahead.h; NULL: nothing came for it before it began */
	struct quota_line *quota;	/* see quota.h; NULL: it is no task's that has waited there */
	bool handed;			/* it has a ticket of its lane */
	bool follows;			/* started before what it waits for had ended: follow.h */
};

/* If it has not begun by then it does not; 0: it may at any time. */
static inline uint64_t run_deadline_ns(const struct graph_node *node)
{
	return node->d.flags & ARAX_DISPATCH_TARGET ? 0 : node->d.deadline_ns;
}

/* A launch that ends with @result had not begun: all bytes are as they were. */
static inline bool run_did_nothing(const struct run *run, int result)
{
	return (run->rt.declined && result) ||
	       (run->rt.late && result == -ETIMEDOUT) || run->rt.skipped;
}

/*
 * Any thread, of one that has run: -ESTALE if it may have read zeros where there is nothing any more, and
 * why; else 0.
 */
int run_result_of_lost(const struct run *run);

/* For all of a device, with those that a task which has no lane any more may have. */
static inline struct run *run_end(const struct poller_device *pd)
{
	return pd->runs + pd->nr_runs + pd->nr_spares;
}
/* (poller) Of the host's, run->cpus, while another thread runs the task. */
void run_take_cpus(struct run *run);
void run_give_cpus(struct run *run);
/* (poller) Now and then: at what tasks that run use, for as long as they do. */
void run_look_at_buffers(struct poller *p);
/* One that no task has, of a device whose lanes have one each. */
uint32_t run_free_lane(const struct poller *p, const struct poller_device *pd);
/* The device may have other lanes than before.  -EINVAL, -ENOMEM. */
int run_refresh(struct poller *p, struct poller_device *pd);
/*
 * (poller) Starts a task that sched_book() has placed, and that waits for @nr tasks of its lane,
 * with the tickets @after; @order: bits, for those that it is only to come behind.
 */
void run_follow(struct poller *p, struct graph_node *node, const uint32_t *after, uint32_t nr,
		uint32_t order);
/* (poller) Nothing runs now, and what ran lately on a device that orders launches was one program's. */
bool run_was_alone(const struct poller *p);
/* fetch.c: */
/*
 * (poller) Before a run on the host's pages: bytes that it uses are on a device alone, and are on
 * their way now; run_go_on() follows when they are there.
 */
void fetch_for_run(struct run *run);
/*
 * (poller) A marker: the program is about to use its ranges.  It ends when the bytes are there, or
 * as fetch.h says.
 */
enum run_outcome fetch_for_host(struct poller *p, struct graph_node *node);
/* (poller) What fetch_for_run() waited for is there, or can't be had. */
void run_go_on(struct run *run, int err);

#endif /* ARAXD_DISPATCH_RUN_H */
