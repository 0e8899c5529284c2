/* SPDX-License-Identifier: MIT */
/*
 * helper.h - a process of arax-device, and the channels to it
 *
 * It dies of SIGKILL only, or of itself, and is waited for by a thread of its own, which says so
 * to everyone who calls.  Thread-safe but for helper_start() and helper_stop().
 */
#ifndef ARAX_DAEMON_BACKENDS_APART_HELPER_H
#define ARAX_DAEMON_BACKENDS_APART_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backends/apart/channel.h"

struct helper;

/* For tests: how long it has for a step, and to end once it is killed. */
extern uint32_t helper_step_ms, helper_end_ms;

/* For one thread at a time. */
struct channel {
	struct channel *next, *next_free;
	struct helper *helper;
	struct slot *slot;
	uint32_t turn;			/* of its calls */
	bool ended;			/* the last one had no answer: the process had ended */
};

/*
 * @program: open, the caller's; @device: for messages; @channels: that there are to be at any
 * time: more than are in use for long at once.  Negative errno, -EAGAIN, -EINTR: as helper_stop().
 */
int helper_start(int program, const char *device, uint32_t channels, struct helper **helper);
/* From now on nobody waits for it long. */
void helper_kill(struct helper *h);
/*
 * That, and it is gone, or is waited for by nobody but its own thread as it does not end; no channel
 * is in use any more.  -EAGAIN: it lacked something, and ended by that.  -EINTR: a signal ended it.
 */
int helper_stop(struct helper *h);
/*
 * It has come a step further in being set up, and has a while for the next one: else it is killed.  So it
 * has from its start on, until helper_serves().
 */
void helper_goes_on(struct helper *h);
/* It is of use now: from now on it is said if it ends for want of something, too. */
void helper_serves(struct helper *h);

/* Whether it has ended as by a fault: not by us, and not for want of something. */
bool helper_fell(struct helper *h);

/* A channel that is free, or a new one, or the next that is given back.  NULL: it has ended. */
struct channel *helper_take(struct helper *h);
void helper_give(struct channel *c);
/* One that is never taken: for who must not wait for others, one thread at a time. */
struct channel *helper_kept(struct helper *h);

/* c->slot->call, cleared but for what a launch, a poll and gauges take. */
struct apart_call *channel_begin(struct channel *c, enum apart_op op);
/* Makes that call.  Its result: 0 or a negative errno, -ENODEV if the helper is gone. */
int channel_call(struct channel *c);
/*
 * Likewise, for who must not wait for long, and what waits for nothing that runs there: it has as long as
 * a step of being set up.  Then the process hangs, and is ended, whatever else it does.
 */
int channel_call_soon(struct channel *c);
/* As channel_call(), where a result may be a count up to @max. */
int channel_count(struct channel *c, uint32_t max);
/* Of the last one that had no answer: whether the process had come to it before it ended. */
bool channel_was_taken(const struct channel *c);
/* Texts for it, @nr of them.  -E2BIG */
int channel_texts(struct channel *c, const char *const *texts, uint32_t nr);
/* *@id: the number under which the helper finds @fd, which stays the caller's.  -ENODEV: gone */
int channel_send(struct channel *c, int fd, uint64_t *id);

#endif /* ARAX_DAEMON_BACKENDS_APART_HELPER_H */
