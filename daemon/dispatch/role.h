/* SPDX-License-Identifier: MIT */
/*
 * role.h - who polls
 *
 * The poller's state has one owner at a time: the thread that holds the role.
 * Around a kernel that it runs itself the poller lends the role out.  If it
 * comes back soon, it takes the role back, and all that was spent are two
 * atomic operations.  If the kernel runs on (it was predicted wrongly), the
 * standby thread takes the role and polls from there; the other, when it
 * comes back, finds the role gone, reports its task like any device thread,
 * and becomes the standby.
 *
 * The word counts: even while held, odd while lent.  So the standby sees
 * whether it is still the same loan as at its last look.
 */
#ifndef ARAXD_DISPATCH_ROLE_H
#define ARAXD_DISPATCH_ROLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define ROLE_NAP_US	4000	/* how long a loan may go unnoticed */
#define ROLE_IDLE_NAPS	25	/* naps without a loan before sleeping deeply */

struct role {
	uint64_t word __attribute__((aligned(64)));
	/* The holder sleeps; set by it, read by the standby. */
	uint32_t holder_asleep __attribute__((aligned(64)));
	uint32_t standby_asleep;	/* a futex */
	uint32_t stop;
	uint32_t waiting;	/* threads in role_await() */
	pthread_mutex_t standby;
};

int role_init(struct role *r);
void role_destroy(struct role *r);

/* By the holder.  Returns the token for role_return(). */
static inline uint64_t role_lend(struct role *r)
{
	uint64_t lent = __atomic_load_n(&r->word, __ATOMIC_RELAXED) + 1;

	/* Pairs with the acquire of the standby's compare-and-swap. */
	__atomic_store_n(&r->word, lent, __ATOMIC_RELEASE);
	return lent;
}

/* Whether the caller holds the role again. */
static inline bool role_return(struct role *r, uint64_t lent)
{
	return __atomic_compare_exchange_n(&r->word, &lent, lent + 1, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/*
 * Wait as standby.  True: the caller holds the role now; false: role_stop().
 * `tick` is called at every nap, from the one thread that naps.
 */
bool role_await(struct role *r, void (*tick)(void *arg), void *arg);

/* The holder is about to sleep, or has woken. */
void role_sleep(struct role *r);
void role_wake(struct role *r);

void role_stop(struct role *r);

#endif /* ARAXD_DISPATCH_ROLE_H */
