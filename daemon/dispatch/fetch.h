/* SPDX-License-Identifier: MIT */
/*
 * fetch.h - bytes that are on a device alone come to the host, for who is next to use them there
 *
 * Copies can be long, and are made on a thread that has nothing else to do.  There are tasks of
 * many tenants that wait for some: these have turns, and a fetch of much makes way after some
 * milliseconds.  Within a tenant they begin in the order in which they came.
 */
#ifndef ARAXD_DISPATCH_FETCH_H
#define ARAXD_DISPATCH_FETCH_H

#include <stdint.h>

struct fetch;
struct host_thread;

/* Tenants with a turn each; where there are more, some share one. */
#define FETCH_TURNS	64u

/**
 * struct fetch_turns - whose fetch is next
 * @thread:	of its own, for what lanes have the host do may be longer than any turn; NULL: no
 *		device has memory
 * @of:		in order; all zero: none.  @live: as below, @guests of them not @tenant's
 * @taken, @some: which of these have some; have some that wait
 * @last:	the turn that was served last
 * @out:	that are with the thread, which has work while the poller is on its way
 * @live:	these and those that wait; that thread reads it, too
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
};

#endif /* ARAXD_DISPATCH_FETCH_H */
