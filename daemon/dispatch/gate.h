/* SPDX-License-Identifier: MIT */
/*
 * gate.h - whose turn it is on a device that has to be configured for what it runs
 *
 * Tasks of one configuration pass together.  One of another waits until they have left;
 * then the device is configured for it, with nobody inside.  Those that come meanwhile
 * for the present configuration may still go before it, for as long as the switch
 * would take; so nobody waits for ever, and a stream of tasks is not stopped at each turn.
 */
#ifndef ARAXD_DISPATCH_GATE_H
#define ARAXD_DISPATCH_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct gate;
struct memory_until;

/* Without a configuration.  -ENOMEM. */
int gate_create(struct gate **out);
/* Nobody is inside, and nobody waits. */
void gate_destroy(struct gate *g);

/**
 * gate_enter - pass, with the device configured for @configuration
 * @configuration: 0: any will do
 * @switch_ns:	what @configure is expected to take
 * @configure:	called, if need be, while nobody is inside; 0 or negative errno, and
 *		then the device has no configuration
 * @until:	not waited for beyond that; NULL: for as long as it takes
 *
 * 0: inside, until gate_leave().  -ETIMEDOUT, -ECANCELED: by @until, or gate_stop(); or what
 * @configure returned.  Any thread.
 */
int gate_enter(struct gate *g, uint32_t configuration, uint64_t switch_ns,
	       int (*configure)(void *arg), void *arg, struct memory_until *until);
/* Any thread: who waits until then waits no more, nor will. */
void gate_cancel(struct gate *g, struct memory_until *until);
/* The same if the device is configured for it, and nobody waits; at once. */
bool gate_try_enter(struct gate *g, uint32_t configuration);
/* Not necessarily by the thread that entered. */
void gate_leave(struct gate *g);

/* Nobody is inside: the device has no configuration any more. */
void gate_forget(struct gate *g);

/* Nobody leaves any more: who waits, and who comes later, is refused. */
void gate_stop(struct gate *g);

/* How many wait. */
uint32_t gate_waiting(struct gate *g);

#endif /* ARAXD_DISPATCH_GATE_H */
