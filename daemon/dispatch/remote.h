/* SPDX-License-Identifier: MIT */
/*
 * remote.h - tasks on devices that have memory of their own
 *
 * Between the poller and daemon/memory: a lane's thread brings the data, runs the
 * kernel and takes the results back; the other lanes' kernels run meanwhile.
 * Where no device has memory poller.memory is NULL, and none of this happens.
 */
#ifndef ARAXD_DISPATCH_REMOTE_H
#define ARAXD_DISPATCH_REMOTE_H

#include "daemon/dispatch/poller.h"

struct memory_range;
struct run;

/* Manage the memory of those devices that have some.  0 or negative errno. */
int remote_create(struct poller *p, struct devices *devices);
/* Nothing runs any more; the links are still there. */
void remote_destroy(struct poller *p);

/* Make a lane of such a device ready for its tasks.  -ENOMEM. */
int remote_prepare(struct run *run);

/* After find_ranges().  -ENOMEM. */
int remote_begin(struct run *run);

/*
 * (poller) A task that runs need not any more, or none of a context's: one that waits for room, for
 * its device to be configured, or for a thread of the host's, ends with -ECANCELED.  NULL: it is no
 * more.
 */
void remote_cancel(struct link *l, const struct graph_node *node);
void remote_context_gone(struct link *l, uint32_t context);

/* (poller) Before the commit. */
void remote_settle(struct run *run);

/*
 * (poller) Instead of run->rt.enter() on a lane's thread, after remote_begin(): whether the
 * task has all that it needs on its device now, and leaves its results there.
 */
bool remote_enter_ready(struct run *run);

/* (poller) A task on the host's pages has ended with @result, before the commit. */
void remote_host_wrote(struct link *l, const struct graph_node *node, int result);

/* (poller) Whether bytes that the task uses are on a device alone. */
bool remote_is_dirty(const struct graph_node *node);
/* (poller) Whether it uses an explicit buffer of which some device has had bytes. */
bool remote_has_lazy(const struct graph_node *node);
/* (poller) Its ranges, for daemon/memory; of a buffer that no device has had, without one. */
void remote_look_up(const struct graph_node *node, struct memory_range *ranges);
/* (poller) The ranges of a task that ended well whose results are not at the host. */
uint32_t remote_dirty_ranges(const struct run *run);

/*
 * (poller) Before tasks are given to devices: where memory has become short, it is told what
 * the tasks that there are will use, and from now on poller.foresees; where not, no longer.
 */
void remote_look_ahead(struct poller *p);
/* (poller, foreseeing) It was added; NULL: it has ended already. */
void remote_foresee(struct link *l, struct graph_node *node);
/* (poller, foreseeing) It has ended, or ends without running. */
void remote_has_used(struct link *l, const struct graph_node *node);

/* (poller) Of a launch that has ended: bytes copied between host and device for it. */
uint64_t remote_moved(const struct run *run);
/* (poller) It waited for a timeline, and goes on.  NULL: it is no more. */
void remote_distrust(struct poller *p, const struct link *l, const struct graph_node *node);

/* (poller) The same as remote_look_up(), of a task that may come to a device.  False: it can't. */
bool remote_look_ahead_of(struct poller *p, const struct graph_node *node,
			  struct memory_range *ranges);
/* Whose quota its data counts for; @l: by which it came. */
struct memory_owner remote_owner(const struct link *l, const struct graph_node *node);

/* As memory.h counts them. */
uint64_t remote_rows(const struct graph_node *node);
/* What its ranges take on a device: as memory_bytes(). */
uint64_t remote_bytes(const struct graph_node *node);
/* In one piece: as memory_largest(). */
uint64_t remote_largest(const struct graph_node *node);
/*
 * Whether all of the task's data has room on the device at once, in not too many rows; or, where
 * that has no memory of its own, whether no range is too long for it.
 */
bool remote_fits(const struct poller *p, const struct graph_node *node, uint32_t device);

/* What the scheduler asks about data, of a poller that manages some. */
struct sched_ops;
void remote_answers(struct sched_ops *ops);

#endif /* ARAXD_DISPATCH_REMOTE_H */
