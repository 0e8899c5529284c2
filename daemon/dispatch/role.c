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
	memset(r, 0, sizeof(*r));
	return -pthread_mutex_init(&r->standby, NULL);
}

void role_destroy(struct role *r)
{
	pthread_mutex_destroy(&r->standby);
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

static bool watch(struct role *r, void (*tick)(void *arg), void *arg)
{
	struct timespec nap = { .tv_nsec = ROLE_NAP_US * 1000 };
	uint64_t seen = __atomic_load_n(&r->word, __ATOMIC_RELAXED);
	uint32_t idle = 0;

	while (!stopped(r)) {
		uint64_t word;

		nanosleep(&nap, NULL);
		tick(arg);
		word = __atomic_load_n(&r->word, __ATOMIC_RELAXED);
		if (word != seen) {
			seen = word;
			idle = 0;
			continue;
		}
		/* The same loan as one nap ago: its borrower is stuck. */
		if ((word & 1) &&
		    __atomic_compare_exchange_n(&r->word, &word, word + 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
		if (++idle > ROLE_IDLE_NAPS &&
		    __atomic_load_n(&r->holder_asleep, __ATOMIC_RELAXED)) {
			deep_sleep(r);
			idle = 0;
		}
	}
	return false;
}

bool role_await(struct role *r, void (*tick)(void *arg), void *arg)
{
	bool got = false;

	__atomic_fetch_add(&r->waiting, 1, __ATOMIC_RELAXED);
	/* One watches, the others wait for its place. */
	pthread_mutex_lock(&r->standby);
	__atomic_fetch_sub(&r->waiting, 1, __ATOMIC_RELAXED);
	if (!stopped(r))
		got = watch(r, tick, arg);
	pthread_mutex_unlock(&r->standby);
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
