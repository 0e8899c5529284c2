/* SPDX-License-Identifier: MIT */
/*
 * preempted.h - a short kernel that took long because its thread lost the CPU has taught
 * nothing about its run time
 */
#ifndef ARAX_DAEMON_PREEMPTED_H
#define ARAX_DAEMON_PREEMPTED_H

#include <stdbool.h>
#include <sys/resource.h>

/* Whether this thread lost its CPU since @seen was last written here.  A system call. */
static inline bool was_preempted(long *seen)
{
	struct rusage ru;
	long before = *seen;

	if (getrusage(RUSAGE_THREAD, &ru))
		return false;
	*seen = ru.ru_nivcsw;
	return ru.ru_nivcsw != before;
}

#endif /* ARAX_DAEMON_PREEMPTED_H */
