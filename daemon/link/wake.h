/* SPDX-License-Identifier: MIT */
/*
 * wake.h - write to an eventfd that a client holds too
 *
 * O_NONBLOCK belongs to the open file, so a client can clear it, fill the
 * counter, and let the writer wait for ever, with the core's locks held.  A
 * timer of the writing thread, which runs only while it writes now and then,
 * interrupts such a wait.
 *
 * And a write takes as long as it takes to look at all who watch the eventfd.
 * The same timer often comes in the midst of writes that take long: then the
 * next ones to that eventfd are measured.
 */
#ifndef ARAXD_LINK_WAKE_H
#define ARAXD_LINK_WAKE_H

#include <stdint.h>

/* Of an eventfd: how many writes to it are to be measured still.  First 0. */
struct wake_watch {
	uint8_t looks;		/* atomic */
};

#define WAKE_BLOCKED	UINT64_MAX
#define WAKE_TICK_NS	10000000u	/* after which it is interrupted, at the latest */

/* Installs the timer's signal handler.  Negative errno. */
int wake_init(void);

/*
 * Adds 1.  Returns the time of this thread, in ns, that it is known to have taken beyond what
 * such a write usually takes: almost always 0.  WAKE_BLOCKED: it had to be interrupted, its owner
 * means us harm.
 */
uint64_t wake_write(int fd, struct wake_watch *w);

/* Time of the calling thread. */
uint64_t wake_thread_ns(void);

/* After wake_init(): how many times as long as elsewhere a write takes on this machine, 1 or more. */
uint32_t wake_slowness(void);

/* What is more than usual of @ns, in which something was to be looked at by all who watch it. */
uint64_t wake_beyond_usual(uint64_t ns);

/* The calling thread writes no more for a while: no signal interrupts it until it does. */
void wake_rest(void);

#endif /* ARAXD_LINK_WAKE_H */
