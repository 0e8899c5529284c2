/* SPDX-License-Identifier: MIT */
/*
 * brief_mutex.h - mutexes that are held for less than it costs to sleep
 *
 * Who finds one taken looks again for some microseconds before he sleeps, as a sleep and its end cost
 * 50 us and more on a virtual machine.
 */
#ifndef ARAX_DAEMON_BRIEF_MUTEX_H
#define ARAX_DAEMON_BRIEF_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "daemon/backends/relax.h"

#define BRIEF_TRIES	200

static inline void brief_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

/* For who may not wait for it: whether he has it.  Of one that is held for long at times, too. */
static inline bool brief_mutex_try(pthread_mutex_t *mutex)
{
	for (int tries = 0; tries < BRIEF_TRIES; tries++) {
		if (!pthread_mutex_trylock(mutex))
			return true;
		relax();
	}
	return false;
}

#endif /* ARAX_DAEMON_BRIEF_MUTEX_H */
