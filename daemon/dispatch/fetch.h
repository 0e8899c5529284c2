/* SPDX-License-Identifier: MIT */
/*
 * fetch.h - bytes that are on a device alone come to the host, for who is next to use them there
 *
 * Copies can be long, and are made on a thread that has nothing else to do.  There are tasks of
 * many tenants that wait for some: these have turns, and a fetch of much makes way after some
 * milliseconds.  Within a tenant they begin in the order in which they came.
 *
 * A task waits here before it is queued for a device, or has given its lane back, and so keeps none
 * from others: like a marker's fetch, its own is no device time, and costs its tenant turns here.
 * It has not begun: it can be canceled, and its deadline holds.  What has come stays at the host,
 * as whoever would write there waits for the task; but for those of its program that race with
 * it.  Then its lane waits for a second fetch, and that is device time.  A marker, of which its
 * fetch is all, is stopped likewise.
 */
#ifndef ARAXD_DISPATCH_FETCH_H
#define ARAXD_DISPATCH_FETCH_H

#include <stdbool.h>
#include <stdint.h>

struct fetch;
struct graph_node;
struct host_thread;
struct poller;

/* Tenants with a turn each; where there are more, some share one. */
#define FETCH_TURNS	64u

/* With the thread at a time: it has the next one before the poller hears of the last one's end. */
#define FETCH_OUT	2u

/**
 * struct fetch_turns - whose fetch is next
 * @thread:	of its own, for what lanes have the host do may be longer than any turn; NULL: no
 *		device has memory
 * @of:		in order; all zero: none.  @live: as below, @guests of them not @tenant's
 * @taken, @some: which of these have some; have some that wait
 * @last:	the turn that was served last
 * @out:	that are with the thread, which has work while the poller is on its way: @with
 * @live:	these and those that wait; that thread reads it, too
 * @look:	some may be wanted no longer
 */
struct fetch_turns {
	struct host_thread *thread;
	struct {
		struct fetch *first, *last;
		uint64_t tenant;
		uint32_t live, guests;
	} of[FETCH_TURNS];
	uint64_t taken, some;
	uint32_t last;
	uint32_t out;
	uint32_t live;
	struct fetch *with[FETCH_OUT];
	bool look;
};

/*
 * (poller) A popped task that can be run on the host's pages alone, if its bytes are elsewhere: it
 * is queued when they have come, or ends.  False: it need not wait.
 */
bool fetch_before_queue(struct poller *p, struct graph_node *node);
/* (poller) The same of one that was to run there now, with some of its bytes elsewhere. */
void fetch_for_task(struct poller *p, struct graph_node *node);

/* (poller) @look: those that are canceled, too late, or nobody's any more end. */
void fetch_look(struct poller *p);

#endif /* ARAXD_DISPATCH_FETCH_H */
