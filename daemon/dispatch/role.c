// SPDX-License-Identifier: MIT
/* The standby's half of the polling role. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/dispatch/role.h"
#include "kmod/core/platform.h"

int role_init(struct role *r)
{
	int err;

	memset(r, 0, sizeof(*r));
	r->holder = &r->seats[0];
	r->nr_seats = 1;
	err = -pthread_mutex_init(&r->claim_lock, NULL);
	if (err)
		return err;
	err = -pthread_mutex_init(&r->standby, NULL);
	if (err)
		pthread_mutex_destroy(&r->claim_lock);
	return err;
}

void role_destroy(struct role *r)
{
	pthread_mutex_destroy(&r->standby);
	pthread_mutex_destroy(&r->claim_lock);
}

struct role_seat *role_seat(struct role *r)
{
	struct role_seat *seat = NULL;

	pthread_mutex_lock(&r->claim_lock);
	if (r->nr_seats < ROLE_SEATS)
		seat = &r->seats[r->nr_seats++];
	pthread_mutex_unlock(&r->claim_lock);
	return seat;
}

bool role_dispute(struct role *r, const struct role_seat *seat)
{
	bool mine;

	/* Whoever claims decides before it drops the lock. */
	pthread_mutex_lock(&r->claim_lock);
	mine = r->holder == seat;
	pthread_mutex_unlock(&r->claim_lock);
	return mine;
}

/* The loan @lent of @from looks forgotten: takes the role, unless it comes back now. */
static bool claim(struct role *r, struct role_seat *from, uint64_t lent, struct role_seat *seat)
{
	bool won;

	pthread_mutex_lock(&r->claim_lock);
	__atomic_store_n(&r->claimed, 1, __ATOMIC_RELAXED);
	/* Pairs with the light one in role_return(), see there. */
	core_heavy_barrier();
	/* Acquire: pairs with the release in role_lend(). */
	won = __atomic_load_n(&from->word, __ATOMIC_ACQUIRE) == lent;
	/* Release: pairs with the acquires in role_return(), of this and of claimed. */
	if (won)
		__atomic_store_n(&r->holder, seat, __ATOMIC_RELEASE);
	__atomic_store_n(&r->claimed, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&r->claim_lock);
	return won;
}

static void futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool stopped(struct role *r)
{
	return __atomic_load_n(&r->stop, __ATOMIC_ACQUIRE);
}

/* Only while the holder sleeps, which can't lend: nothing can get stuck. */
static void deep_sleep(struct role *r)
{
	__atomic_store_n(&r->standby_asleep, 1, __ATOMIC_RELAXED);
	/* Pairs with role_wake() and role_stop(): we see their word or they ours. */
	core_full_barrier();
	while (__atomic_load_n(&r->holder_asleep, __ATOMIC_RELAXED) && !stopped(r) &&
	       __atomic_load_n(&r->standby_asleep, __ATOMIC_RELAXED))
		futex_wait(&r->standby_asleep, 1);
	__atomic_store_n(&r->standby_asleep, 0, __ATOMIC_RELAXED);
}

static bool watch(struct role *r, struct role_seat *seat, void (*tick)(void *arg), void *arg)
{
	struct timespec nap = { .tv_nsec = ROLE_NAP_US * 1000 };
	/* It stays the holder's while we watch: nobody else claims. */
	struct role_seat *from = r->holder;
	uint64_t seen = __atomic_load_n(&from->word, __ATOMIC_RELAXED);
	uint32_t idle = 0;

	while (!stopped(r)) {
		uint64_t word;

		nanosleep(&nap, NULL);
		tick(arg);
		word = __atomic_load_n(&from->word, __ATOMIC_RELAXED);
		if (word != seen) {
			seen = word;
			idle = 0;
			continue;
		}
		/* The same loan as one nap ago: its borrower is stuck. */
		if ((word & 1) && claim(r, from, word, seat))
			return true;
		if (++idle > ROLE_IDLE_NAPS &&
		    __atomic_load_n(&r->holder_asleep, __ATOMIC_RELAXED)) {
			deep_sleep(r);
			idle = 0;
		}
	}
	return false;
}

void role_expect(struct role *r)
{
	__atomic_fetch_add(&r->waiting, 1, __ATOMIC_RELAXED);
}

void role_expect_not(struct role *r)
{
	__atomic_fetch_sub(&r->waiting, 1, __ATOMIC_RELAXED);
}

bool role_await(struct role *r, struct role_seat *seat, void (*tick)(void *arg), void *arg)
{
	bool got = false;

	/* One watches, the others wait for its place. */
	pthread_mutex_lock(&r->standby);
	if (!stopped(r))
		got = watch(r, seat, tick, arg);
	pthread_mutex_unlock(&r->standby);
	/* Not before: the holder may have lent the role because we are here. */
	role_expect_not(r);
	return got;
}

void role_sleep(struct role *r)
{
	__atomic_store_n(&r->holder_asleep, 1, __ATOMIC_RELAXED);
}

void role_wake(struct role *r)
{
	__atomic_store_n(&r->holder_asleep, 0, __ATOMIC_RELAXED);
	/* Pairs with deep_sleep(). */
	core_full_barrier();
	if (__atomic_load_n(&r->standby_asleep, __ATOMIC_RELAXED)) {
		__atomic_store_n(&r->standby_asleep, 0, __ATOMIC_RELAXED);
		futex_wake(&r->standby_asleep);
	}
}

void role_stop(struct role *r)
{
	__atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
	/* Pairs with deep_sleep(). */
	core_full_barrier();
	__atomic_store_n(&r->standby_asleep, 0, __ATOMIC_RELAXED);
	futex_wake(&r->standby_asleep);
}
