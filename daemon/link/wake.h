/* SPDX-License-Identifier: MIT */
/*
 * wake.h - write to an eventfd that a client holds too
 *
 * O_NONBLOCK belongs to the open file, so a client can clear it, fill the
 * counter, and let the writer wait for ever, with the core's locks held.  A
 * timer of the writing thread, which runs only while it writes now and then,
 * interrupts such a wait.
 */
#ifndef ARAXD_LINK_WAKE_H
#define ARAXD_LINK_WAKE_H

#include <stdbool.h>

/* Installs the timer's signal handler.  Negative errno. */
int wake_init(void);

/* Adds 1.  False: it had to be interrupted, its owner means us harm. */
bool wake_write(int fd);

/* The calling thread writes no more for a while: no signal interrupts it until it does. */
void wake_rest(void);

#endif /* ARAXD_LINK_WAKE_H */
