/* SPDX-License-Identifier: MIT */
/*
 * ahead.h - what tasks need comes to a device that is busy, before they have a lane there
 *
 * While a device's lanes are all taken a thread that does nothing else brings what those read that would
 * be given one next, by the scheduler's order, a few of them.  Nobody depends on it: a task may begin
 * before all is there, and its lane brings the rest; or elsewhere, or never.  What may be taken for it,
 * and what its bytes count for then, is the memory manager's affair (memory_bring()).
 */
#ifndef ARAXD_DISPATCH_AHEAD_H
#define ARAXD_DISPATCH_AHEAD_H

#include "daemon/dispatch/poller.h"

struct ahead;
struct coming;
struct run;

/* For a device with memory.  -ENOMEM, -EAGAIN. */
int ahead_create(struct poller *p, struct poller_device *pd);
/* Nothing of it runs any more, but may be in the poller's queue, which nobody empties then. */
void ahead_stop_all(struct poller *p);
void ahead_free_all(struct poller *p);

/* (poller) Tasks are queued, and none has a device. */
void ahead_look(struct poller *p);

/* (poller) For ahead_left(). */
void ahead_forget(struct poller *p, const struct graph_node *node, struct run *run);
/* (poller) It has a lane now, as @run; NULL: it ends without.  Before any that comes after it begins. */
static inline void ahead_left(struct poller *p, const struct graph_node *node, struct run *run)
{
	if (__builtin_expect(p->nr_ahead, 0))
		ahead_forget(p, node, run);
}

/* (poller) Bytes that came so; the run has ended. */
uint64_t ahead_moved(const struct coming *c);
void ahead_run_over(struct run *run);

/* (poller) The device is lost: nothing new comes; whether something is still on its way. */
void ahead_stop(struct poller_device *pd);
bool ahead_is_busy(const struct poller_device *pd);

#endif /* ARAXD_DISPATCH_AHEAD_H */
