/* SPDX-License-Identifier: MIT */
/*
 * await.h - for how long a lane's thread waits awake for its next task
 *
 * Until about what it takes to be woken has passed, twice: for the lane's thread itself, and for
 * the poller, which else would have to be woken by whoever asks for the next task.  That differs
 * from machine to machine (5 us, or 50 on some virtual ones), so it is measured.  A core that waits
 * for a task that waits for one that runs elsewhere stays awake for longer: it will come, and
 * nobody else has been given this core.
 */
#ifndef ARAX_DAEMON_WORKER_AWAIT_H
#define ARAX_DAEMON_WORKER_AWAIT_H

#include <stdbool.h>
#include <stdint.h>

struct lane;
struct runner;

void await_init(struct runner *r);

/* On @lane's thread.  Whether there is a task now. */
bool await_next(struct lane *lane);

/* It slept, and was woken for what was handed to it at @handed_ns, CLOCK_MONOTONIC. */
void await_woken(struct runner *r, uint64_t handed_ns);

#endif /* ARAX_DAEMON_WORKER_AWAIT_H */
