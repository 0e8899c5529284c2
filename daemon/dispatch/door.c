// SPDX-License-Identifier: MIT
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/dispatch/door.h"
#include "daemon/dispatch/race.h"
#include "kmod/core/platform_barrier.h"

static bool change(struct door *d, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&d->state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

bool door_enter(struct door *d)
{
	RACE_POINT();
	/* Pairs with those in door_open() and door_leave(): the push comes before the try. */
	core_full_barrier();
	/* Acquire: pairs with the releases in door_open() and door_leave(). */
	return change(d, DOOR_OPEN, DOOR_TAKEN);
}

void door_leave(struct door *d)
{
	RACE_POINT();
	/* Release: pairs with the acquires in door_enter() and door_shut(). */
	if (!change(d, DOOR_TAKEN, DOOR_OPEN)) {
		/* The owner waits: it is given to it, so that no other comes between. */
		__atomic_store_n(&d->state, DOOR_SHUT, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &d->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	/* Pairs with the one in door_enter(): the door comes before the look at the queue. */
	core_full_barrier();
	RACE_POINT();
}

void door_open(struct door *d)
{
	RACE_POINT();
	/* Release: pairs with the acquire in door_enter(). */
	__atomic_store_n(&d->state, DOOR_OPEN, __ATOMIC_SEQ_CST);
	/* Pairs with the one in door_enter(): the door comes before the look at the queue. */
	core_full_barrier();
	RACE_POINT();
}

void door_shut(struct door *d)
{
	RACE_POINT();
	while (!change(d, DOOR_OPEN, DOOR_SHUT)) {
		if (!change(d, DOOR_TAKEN, DOOR_AWAITED))
			continue;
		RACE_POINT();
		/* The visitor changes it to SHUT before it wakes: pairs with door_leave(). */
		while (__atomic_load_n(&d->state, __ATOMIC_ACQUIRE) == DOOR_AWAITED)
			syscall(SYS_futex, &d->state, FUTEX_WAIT_PRIVATE, DOOR_AWAITED, NULL, NULL,
				0);
		return;
	}
}
