/* SPDX-License-Identifier: MIT */
/*
 * door.h - a visit to a poller that sleeps
 *
 * The poller's state belongs to the thread that holds the polling role (role.h), and
 * that thread may sleep.  To wake it takes longer than many tasks run.  So it leaves its
 * door open: whoever has something to be done there (a device's thread whose task has
 * ended) enters, does it as the poller would, and leaves the place as if the poller had
 * just gone to sleep again.  The role stays whose it is; the door is a lock of its state
 * that nobody ever waits for but the owner, for a visit's length.
 *
 *	SHUT	the owner is awake.  What is to be done is pushed to its queue
 *	OPEN	it sleeps, or is about to and will look at its queue once more
 *	TAKEN	somebody visits, and will look at the queue once more after leaving
 *	AWAITED	so, and the owner waits for the end of it
 *
 * Nothing gets lost: who pushes work tries the door afterwards.  If that fails, somebody
 * is inside, or the owner is awake; either looks at the queue after its own change of
 * the door that made the attempt fail:
 *
 *	pusher:			who leaves, who opens:
 *	push to the queue	door := OPEN
 *	  (full barrier)	  (full barrier)
 *	try the door		look at the queue
 *
 * One of both sees the other's store.  selftests/model/door.pml checks all interleavings.
 *
 * A visitor doesn't block, and runs no kernel: the owner may be waiting.  It may stay for as long
 * as the owner would wait awake, and leaves when the owner waits for that.
 */
#ifndef ARAXD_DISPATCH_DOOR_H
#define ARAXD_DISPATCH_DOOR_H

#include <stdbool.h>
#include <stdint.h>

enum door_state {
	DOOR_SHUT,
	DOOR_OPEN,
	DOOR_TAKEN,
	DOOR_AWAITED,
};

struct door {
	uint32_t state __attribute__((aligned(64)));	/* a futex */
};

/* By the owner: all that it wrote is seen by those who enter.  It looks at its queue then. */
void door_open(struct door *d);
/* By the owner, before it touches anything: sees all that visitors wrote. */
void door_shut(struct door *d);

/* After the push.  True: the caller is inside. */
bool door_enter(struct door *d);
/* The caller looks at the queue then, and enters again if there is something. */
void door_leave(struct door *d);

/* By who is inside: whether the owner waits for the end of it. */
static inline bool door_is_awaited(const struct door *d)
{
	return __atomic_load_n(&d->state, __ATOMIC_RELAXED) == DOOR_AWAITED;
}

#endif /* ARAXD_DISPATCH_DOOR_H */
