// SPDX-License-Identifier: MIT
/* refusal.c - tasks that would rather wait than have any device that is idle: see refusal.h */
#include "daemon/sched/refusal.h"

struct refusal *refusal_of(struct refusal *table, const struct graph_node *node)
{
	/* Not by where it lies: a simulation is the same in each run. */
	return &table[node->seq % REFUSALS];
}

bool refusal_holds(const struct sched *s, const struct refusal *r, const struct graph_node *node,
		   uint64_t now_ns)
{
	return r->node == node && r->seq == node->seq && r->push_ns == node->sched.push_ns &&
	       now_ns - r->at_ns < REFUSAL_NS && s->frees - r->frees <= SCHED_FREED &&
	       !has_idle_lane(&s->devices[r->best]);
}
