/* SPDX-License-Identifier: MIT */
/*
 * quota.h - tasks whose tenants have too much device memory in use just now
 *
 * Such a task has come as far as its device, and holds nothing there: neither a lane nor the gate.
 * It waits here until a task has given something back, as if it had not been popped yet: it can
 * be canceled, and its deadline holds.  Then of each tenant's tasks that can run on the same devices
 * the one that came first is tried again, one at a time, so that nobody overtakes it who was refused
 * after it.  Who can run elsewhere, too, or only there, need not wait until a device has time or
 * room for that one; but it is overtaken by so many at most, unless it waits for a device all the
 * while.
 *
 * All of it is the poller's, or a visitor's, but for what quota_entered() says.
 */
#ifndef ARAXD_DISPATCH_QUOTA_H
#define ARAXD_DISPATCH_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct graph_node;
struct poller;
struct quota_line;
struct run;

/**
 * struct quota - all of them
 * @lines:	those with tasks that wait, or with one that is tried; a tenant's one after the other
 * @settles:	memory_settles() when they were looked at last
 * @next:	ticks: not before, however many tasks end
 * @due:	ticks: then, if none does
 * @entered:	atomic: some tenant's next one may be tried
 */
struct quota {
	struct quota_line *lines;
	uint64_t settles;
	uint64_t next, due;
	bool entered;
};

/*
 * The task, popped and not started, waits: it has tried after memory_settles() was @settles.
 * -ENOMEM
 */
int quota_wait(struct poller *p, struct graph_node *node, uint64_t settles);
/* It is on its way to a device again; then, on any thread: it has what it waited for. */
void quota_started(struct run *run);
void quota_entered(struct run *run);
/* Where it was tried it works on the host's pages. */
void quota_needs_none(struct poller *p, struct graph_node *node);
/* It has ended, or does so without having been started. */
void quota_gone(struct poller *p, struct graph_node *node);

/* Those that may be tried again go to the scheduler. */
void quota_look(struct poller *p);
/* When that is to be called; ns, UINT64_MAX: not before something happens. */
uint64_t quota_next(const struct poller *p);

/* Nothing is done any more. */
void quota_end(struct poller *p);

#endif /* ARAXD_DISPATCH_QUOTA_H */
