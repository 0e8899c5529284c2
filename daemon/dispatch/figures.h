/* SPDX-License-Identifier: MIT */
/*
 * figures.h - what devices are doing now, for people
 *
 * They are taken when somebody looks at devices, which the core tells by ARAX_DISPATCH_DEVICES:
 * while nobody does they cost nothing.  Vendors' libraries take milliseconds to tell theirs, so a
 * thread asks them, and others go on with the next devices where one does not answer.
 */
#ifndef ARAXD_DISPATCH_FIGURES_H
#define ARAXD_DISPATCH_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "uapi/arax.h"

struct poller;
struct poller_device;

#define FIGURES_LANES	64u

/**
 * struct figures_point - what a device's lanes had done at a time
 * @ticks:	the same
 * @busy_ns:	by tasks that had ended
 * @began:	of each lane: since when it was at work on its first task, in ticks; 0: it was not
 */
struct figures_point {
	uint64_t ns;
	uint64_t ticks;
	uint64_t busy_ns;
	uint64_t began[FIGURES_LANES];
};

/**
 * struct figures - of one device, the poller's
 * @ns:		when they were taken; 0: never yet
 * @mark, @look: since when @busy is counted anew, and when it was last looked at
 * @busy:	per cent of its lanes' time, of about the last second
 * @known, @told, @power_mw, @used, @taken: as in struct arax_device; @told is its busy
 */
struct figures {
	uint64_t ns;
	struct figures_point mark, look;
	uint32_t busy;
	uint32_t known;
	uint32_t told;
	uint32_t power_mw;
	uint64_t used, taken;
};

/* Once devices are there.  -EAGAIN, -ENOMEM. */
int figures_create(struct poller *p);
/*
 * Nobody polls any more; devices are still there.  False: somebody is inside a device's library, and
 * may be for ever: so that is to stay.
 */
bool figures_destroy(struct poller *p);
/* (poller) Several times a second while anything runs. */
void figures_look(struct poller *p);
/* Devices' gauges to the log, each when it has answered.  Any thread. */
void figures_log(struct poller *p);
/* (poller) Somebody wants to know: they are published in some milliseconds. */
void figures_ask(struct poller *p);
/* (poller) */
void figures_fill(const struct poller *p, const struct poller_device *pd, struct arax_device *a);

#endif /* ARAXD_DISPATCH_FIGURES_H */
