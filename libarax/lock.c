// SPDX-License-Identifier: MIT
/* What lock.h keeps out of line. */
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock.h"

#define LOOKS	100	/* some microseconds: the holder may be taking a ring full */

static void futex(uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

void lock_wait(struct lock *l)
{
	int i, err = errno;

	for (i = 0; i < LOOKS; i++) {
		uint32_t word = LOCK_FREE;

		cpu_relax();
		/* Acquire pairs with the release in lock_drop(). */
		if (load_relaxed(&l->word) == LOCK_FREE &&
		    __atomic_compare_exchange_n(&l->word, &word, LOCK_TAKEN, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
	}
	/* It is taken as awaited: we can't know whether others still sleep. */
	while (__atomic_exchange_n(&l->word, LOCK_AWAITED, __ATOMIC_ACQUIRE))
		futex(&l->word, FUTEX_WAIT_PRIVATE, LOCK_AWAITED);
	errno = err;
}

void lock_wake(struct lock *l)
{
	int err = errno;

	futex(&l->word, FUTEX_WAKE_PRIVATE, 1);
	errno = err;
}
