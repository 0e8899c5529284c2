/* SPDX-License-Identifier: MIT */
/*
 * lone.h - a task that nothing of its context is before
 *
 * Order is inferred inside a context.  So a task whose context has no other in the graph, and
 * no failure that its client did not know of, waits for nothing; and if it runs here and now
 * nothing will have had to wait for it.  The graph need not hear of it: it is run out of the
 * dispatch ring.  That is what a program does which waits for each of its tasks, and one that keeps
 * many short ones under way: each of a row has ended when the next one is looked at.  What is less
 * short is handed to the graph if there is more in the ring, which may be for several lanes, and so
 * is what has more than LONE_RANGES ranges or LONE_ARGS bytes of arguments.
 *
 * The graph hears of it after all (it enters) if it fails, since its failure is to be numbered, or
 * if the role goes to another thread while it runs: then others come that have to wait for it.
 */
#ifndef ARAXD_DISPATCH_LONE_H
#define ARAXD_DISPATCH_LONE_H

#include "daemon/dispatch/poller.h"

/*
 * (poller) Runs the task @d, which has been taken off the ring of @l, at once and on this thread
 * if it is one, if it is short, and if nobody wants a device.  False: it was not taken.
 * p->lone.row is set before by who knows that it is not the only one that has come.
 */
bool lone_run(struct poller *p, struct link *l, const struct arax_dispatch *d,
	      enum run_outcome *outcome);

/*
 * (poller) It enters the graph, as a task that runs.  graph_is_free() has made room for it: only
 * if the core gave its tag to another one as well it ends without.
 */
void lone_enter(struct run *run);

/* (poller) It has ended, or has come back from where it ran. */
static inline void lone_ended(struct poller *p, const struct run *run)
{
	if (p->lone.run == run)
		p->lone.run = NULL;
}

/*
 * (poller) Several came at once.  On the kernel link the first one can be seen before the others
 * are published: to tell of it at once, as of one that is alone, would be one more system call.  So
 * for a while each is of a row.
 */
void lone_had_company(struct poller *p);

/* (poller) By who has just got the role, before anything else. */
void lone_inherit(struct poller *p);

#endif /* ARAXD_DISPATCH_LONE_H */
