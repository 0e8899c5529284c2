/* SPDX-License-Identifier: MIT */
/*
 * await.h - for how long a lane's thread waits awake for its next task
 *
 * Where threads want more CPUs than there are: for some 50 us, as each one of these is somebody's.
 * Else until what it takes to be woken has passed, three times: for the lane's thread itself, for the
 * poller, which would have to be woken by whoever asks for the next task, and for him, who was woken
 * by the end of the last one.  That differs from machine to machine (5 us, or 50 on some virtual
 * ones), so it is measured.  And the one lane of a core stays awake as long as anything runs on other
 * devices, but not for ever: its next task may wait for that.
 */
#ifndef ARAX_DAEMON_WORKER_AWAIT_H
#define ARAX_DAEMON_WORKER_AWAIT_H

#include <stdbool.h>
#include <stdint.h>

struct lane;
struct runner;

#define AWAIT_WAKE_MOST_NS	75000u

void await_init(struct runner *r);

/* On @lane's thread.  Whether there is a task now. */
bool await_next(struct lane *lane);

/* It slept, and was woken for what was handed to it at @handed_ns, CLOCK_MONOTONIC. */
void await_woken(struct runner *r, uint64_t handed_ns);

/* Whether to wait on.  @more: tasks run elsewhere, or have until @since; @began: of the wait. */
bool await_on(uint64_t now, uint64_t began, uint64_t *since, uint32_t wake_ns, bool more);

/* What waking takes is @wake_ns, as far as is known, and was @took_ns: what it is now. */
uint32_t await_learn(uint32_t wake_ns, uint64_t took_ns);

#endif /* ARAX_DAEMON_WORKER_AWAIT_H */
