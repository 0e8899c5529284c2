/* SPDX-License-Identifier: MIT */
/*
 * aside.h - tasks stand aside for others whose turn it is
 *
 * Those in workers, and launches that cores do in parts.  When such a task has run for a slice, the
 * scheduler is asked whether it should make way.  If so its worker is stopped, or no further part
 * is begun, what it ran is charged, and it is queued like those that have not begun, but keeps its
 * place (struct run); its next turn comes by the scheduler.  For the graph, and for who cancels, it
 * runs all the while.
 */
#ifndef ARAXD_DISPATCH_ASIDE_H
#define ARAXD_DISPATCH_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/dispatch/poller.h"

struct kernel;
struct run;

/* How many of a device's tasks can stand aside at once. */
uint32_t aside_room(const struct poller *p, const struct poller_device *pd);

/* All of these places are taken: then nothing begins that might want one. */
static inline bool aside_full(const struct poller_device *pd)
{
	return __builtin_expect(pd->max_aside && pd->nr_aside >= pd->max_aside, 0);
}

void aside_init(struct run *run);

/* (poller) Before it is handed over: it is to run in a worker. */
void aside_begin(struct run *run);
/* Whether a launch of @k that is thought to take @ns, 0: nothing is thought, is long and done in parts. */
bool aside_in_parts(const struct poller_device *pd, const struct kernel *k, uint64_t ns);
/* (poller) Likewise, of such a launch. */
void aside_begin_parts(struct run *run);
/* (poller) Its device has nothing of it: it is in a worker. */
bool aside_is_elsewhere(const struct run *run);
/*
 * (poller) It was, and is over: as sched_finish(), with what it ran in all.  Returns what the device
 * was busy with it, but for what was counted when it stood aside.
 */
uint64_t aside_settle(struct run *run, struct graph_node *node, uint64_t all_ns, bool learn);

/* (poller) @node was picked.  True: it stood aside, and goes on. */
bool aside_go_on(struct poller *p, struct graph_node *node);

/* (poller) Nobody wants what this context has that can be ended. */
void aside_context_gone(struct link *l, uint32_t context);
/* (poller) Those of the device go on beside all others: there will be no turns. */
void aside_let_go(struct poller_device *pd);

#endif /* ARAXD_DISPATCH_ASIDE_H */
