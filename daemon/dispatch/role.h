/* SPDX-License-Identifier: MIT */
/*
 * role.h - who polls
 *
 * The poller's state has one owner at a time: the thread that holds the role.
 * Around a kernel that it runs itself the poller lends the role out.  If it
 * comes back soon, it takes the role back, and all that was spent are a few
 * plain loads and stores.  If the kernel runs on (it was predicted wrongly), the
 * standby thread takes the role and polls from there; the other, when it
 * comes back, finds the role gone, reports its task like any device thread,
 * and becomes the standby.
 *
 * Who lends it to what runs on, with no standby there, stalls everybody.  So he asks
 * role_is_watched() first.  That looks at a number to which anybody adds, before he waits, but from
 * which only who has just got the role takes (or sees role_stop()), before he may lend it: the
 * holder may see too few there, but never one too many.
 *
 * Each thread has a seat, whose word counts: even while held, odd while lent.  So
 * the standby sees whether it is still the same loan as at its last look.
 */
#ifndef ARAXD_DISPATCH_ROLE_H
#define ARAXD_DISPATCH_ROLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kmod/core/platform_barrier.h"

#define ROLE_NAP_US	4000	/* how long a loan may go unnoticed */
#define ROLE_IDLE_NAPS	25	/* naps without a loan before sleeping deeply */
#define ROLE_SEATS	16	/* threads that may hold the role, one at a time */

struct role_seat {
	uint64_t word __attribute__((aligned(64)));
};

struct role {
	/* Whose the role is: changed by the standby alone, with claim_lock held. */
	struct role_seat *holder __attribute__((aligned(64)));
	uint32_t claimed;	/* the standby is about to take the role */
	uint32_t waiting;	/* threads in role_await(), or sure to come there */
	pthread_mutex_t claim_lock;
	/* The holder sleeps; set by it, read by the standby. */
	uint32_t holder_asleep __attribute__((aligned(64)));
	uint32_t standby_asleep;	/* a futex */
	uint32_t stop;
	pthread_mutex_t standby;
	struct role_seat seats[ROLE_SEATS];
	uint32_t nr_seats;	/* taken; under claim_lock */
};

/* The role is the caller's, or of whom it starts; it has the first seat. */
int role_init(struct role *r);
void role_destroy(struct role *r);
/* Another seat: one for each thread that will wait for the role.  NULL: none is left. */
struct role_seat *role_seat(struct role *r);

/* By the holder.  Returns the seat for role_return(). */
static inline struct role_seat *role_lend(struct role *r)
{
	struct role_seat *seat = r->holder;

	/* Release: who takes the role sees all that we did; pairs with claim(). */
	__atomic_store_n(&seat->word, seat->word + 1, __ATOMIC_RELEASE);
	return seat;
}

/* Whether the role is gone: a claim is under way or has been decided. */
bool role_dispute(struct role *r, const struct role_seat *seat) __attribute__((cold));

/* Whether the caller holds the role again. */
static inline bool role_return(struct role *r, struct role_seat *seat)
{
	__atomic_store_n(&seat->word, seat->word + 1, __ATOMIC_RELAXED);
	/*
	 * Pairs with the heavy one in claim(): either the standby sees that the loan
	 * has come back, or we that it claims the role.
	 */
	core_light_barrier();
	if (__builtin_expect(__atomic_load_n(&r->claimed, __ATOMIC_ACQUIRE), 0))
		return role_dispute(r, seat);
	/* Acquire: pairs with the release in claim(), if the role is gone. */
	return __atomic_load_n(&r->holder, __ATOMIC_ACQUIRE) == seat;
}

/*
 * One thread more is going to call role_await(), whatever happens: from now on the holder relies on
 * it.  Or not, after all: by the holder, or before there is one.
 */
void role_expect(struct role *r);
void role_expect_not(struct role *r);

/* By the holder: whether somebody takes the role if it is lent and does not come back soon. */
static inline bool role_is_watched(const struct role *r)
{
	return __atomic_load_n(&r->waiting, __ATOMIC_RELAXED);
}

/*
 * Wait as standby, once for each role_expect().  True: the caller holds the role now; false:
 * role_stop().  @tick is called at every nap, from the one thread that naps.
 */
bool role_await(struct role *r, struct role_seat *seat, void (*tick)(void *arg), void *arg);

/* The holder is about to sleep, or has woken. */
void role_sleep(struct role *r);
void role_wake(struct role *r);

void role_stop(struct role *r);

#endif /* ARAXD_DISPATCH_ROLE_H */
