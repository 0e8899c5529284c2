/* SPDX-License-Identifier: MIT */
/*
 * decline.h - launches that a device does not take
 *
 * Of some kernels a device has vendors' libraries alone, whose functions may leave a launch to
 * others before they have begun: because of what it asks for, or since the library does not work
 * on the device at all.  The task goes to another device then, and never to that one again.  A
 * kernel of which several launches in a row of one tenant are declined rests on the device: for a
 * while that tenant's are only tried there again where no other device takes them.
 */
#ifndef ARAXD_DISPATCH_DECLINE_H
#define ARAXD_DISPATCH_DECLINE_H

#include "daemon/dispatch/poller.h"
#include "daemon/kernels/registry.h"

/* Bits of a task: of more devices some count as if they had declined with another one. */
#define DECLINE_BITS	16u

static inline bool decline_has(const struct graph_node *node, uint32_t device)
{
	return node->declined >> device % DECLINE_BITS & 1;
}

/* (poller) @device has declined @node, a launch of @k. */
void decline_note(struct poller *p, struct graph_node *node, const struct kernel *k,
		  uint32_t device);
/* (poller) A launch of @k succeeded there; only where p->declines is set. */
void decline_ran(struct poller *p, const struct kernel *k, uint32_t device);
bool decline_rests(const struct poller *p, const struct graph_node *node, const struct kernel *k,
		   uint32_t device);
void decline_free(struct poller *p);

#endif /* ARAXD_DISPATCH_DECLINE_H */
