/* SPDX-License-Identifier: MIT */
/*
 * awake.h - to wait awake for what usually comes soon
 *
 * To sleep costs two wake-ups, some 30 us each on a virtual machine.  Where CPUs are few, whoever
 * waits awake takes one from those that it waits for, and does so for about the price of a
 * wake-up; where there are many, for as long as the next piece of work of a program may take
 * to come.
 */
#ifndef ARAX_DAEMON_AWAKE_H
#define ARAX_DAEMON_AWAKE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "daemon/backends/relax.h"
#include "daemon/dispatch/ticks.h"

#define AWAKE_MANY_CPUS	8	/* lanes of a device, who polls, a program or two */
#define AWAKE_SHARE	4	/* of many CPUs: what one device's lanes may wait awake on */
#define AWAKE_ROUNDS	2000
#define AWAKE_NS	200000u
#define AWAKE_LOOKS	16	/* between two looks at the clock */

/* That this process may use: its first thread, as others are bound to a device's. */
static inline unsigned int awake_cpus(void)
{
	static unsigned int cpus;
	unsigned int n = __atomic_load_n(&cpus, __ATOMIC_RELAXED);
	cpu_set_t set;

	if (!n) {
		/* It fails with more than the set has room for. */
		n = sched_getaffinity(getpid(), sizeof(set), &set) ? CPU_SETSIZE :
								     (unsigned int)CPU_COUNT(&set);
		__atomic_store_n(&cpus, n, __ATOMIC_RELAXED);
	}
	return n;
}

static inline bool awake_many_cpus(void)
{
	return awake_cpus() >= AWAKE_MANY_CPUS;
}

/* Whether @come(@arg) became true. */
static inline bool awake_for(bool (*come)(const void *arg), const void *arg)
{
	uint64_t until = awake_many_cpus() ? monotonic_ns() + AWAKE_NS : 0;
	int rounds = AWAKE_ROUNDS;

	for (;;) {
		if (come(arg))
			return true;
		relax();
		if (!until && !rounds--)
			return false;
		if (until && !(rounds-- % AWAKE_LOOKS) && monotonic_ns() >= until)
			return false;
	}
}

#endif /* ARAX_DAEMON_AWAKE_H */
