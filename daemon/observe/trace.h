/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a record of each task that a device ran, or that none did, in a file
 *
 * One JSON object a line, in the order in which the tasks ended:
 *
 *   seq		in the order of submission, on its link
 *   link, context, queue, tenant, tag: where it came from
 *   kernel	its name; or "copy", "fill", "call"
 *   work	how much it is: sched_work(), or 2^63 - 1 if that is more
 *   submit_us	when it was submitted, since the file was opened
 *   start_us	when it was given to its device
 *   enter_us, run_us, leave_us: data brought, kernel run, results taken back
 *   device, lane: "none" of a task that was canceled, was refused or came too late:
 *		then start_us is its end
 *   result	0 or a negative errno
 *   origin	only of a task that failed because another did: that one's tag
 *   in_order	only of an in-order queue, true; so barrier, of ARAX_TASK_BARRIER
 *   priority	only where it is not 0
 *   target_us	only of a task with a deadline, or of a queue with a target: after its submission
 *   unblock_us	only where it was submitted to wait for a timeline: when that was reached
 *   late_us	only where it ended after its deadline, or its queue's target: by how much
 *   ranges	[buffer, offset, length, access, stride, count] each
 *   then	seq of those that were waiting for it
 *
 * `arax trace` makes pictures of it.  Writing costs some microseconds a task, on
 * the thread that polls: this is for looking, not for measuring.
 *
 * Not thread-safe: the poller's.
 */
#ifndef ARAXD_OBSERVE_TRACE_H
#define ARAXD_OBSERVE_TRACE_H

#include <stdint.h>

#include "daemon/graph/graph.h"

/* A file that has grown to this gets no more. */
#define TRACE_MAX_BYTES	(1ull << 30)

#define TRACE_NO_DEVICE	"none"

struct trace;

/**
 * struct trace_task - what the graph's node does not say
 * @start_ns:	CLOCK_MONOTONIC
 * @enter_ns, @run_ns, @leave_ns: lengths
 * @late_ns:	0: it was not
 * @origin:	0: it was itself
 */
struct trace_task {
	const char *link;
	const char *kernel;
	const char *device;
	uint32_t lane;
	int32_t result;
	uint64_t start_ns;
	uint64_t enter_ns;
	uint64_t run_ns;
	uint64_t leave_ns;
	uint64_t late_ns;
	uint64_t origin;
};

/*
 * Makes the file, mode 0600; one of ours that is there goes.  0 or negative errno: -EPERM,
 * another user's is there; -EINVAL, something else than a file is.
 */
int trace_open(const char *path, struct trace **out);
/* NULL is ignored. */
void trace_close(struct trace *t);
/* What is not in the file yet. */
void trace_flush(struct trace *t);

/* Before graph_complete(). */
void trace_task(struct trace *t, const struct graph_node *node, const struct trace_task *task);

#endif /* ARAXD_OBSERVE_TRACE_H */
