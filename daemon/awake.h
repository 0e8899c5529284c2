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

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "daemon/backends/relax.h"
#include "daemon/dispatch/ticks.h"

#define AWAKE_MANY_CPUS	8	/* lanes of a device, who polls, a program or two */
#define AWAKE_ROUNDS	2000
#define AWAKE_NS	200000u
#define AWAKE_LOOKS	16	/* between two looks at the clock */

static inline bool awake_many_cpus(void)
{
	static int many;
	int known = __atomic_load_n(&many, __ATOMIC_RELAXED);

	if (!known) {
		known = sysconf(_SC_NPROCESSORS_ONLN) >= AWAKE_MANY_CPUS ? 1 : -1;
		__atomic_store_n(&many, known, __ATOMIC_RELAXED);
	}
	return known > 0;
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
