// SPDX-License-Identifier: MIT
#include "daemon/dispatch/follow.h"

#include "daemon/dispatch/own.h"
#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"

#define MAX_BEFORE	(ARAX_LANE_DEPTH - 1)
#define MAX_BEHIND	16u	/* that wait for one task: looked at, each time */

/* A task that waits for @nr of the lane's, with these tickets. */
struct behind {
	const struct graph_node *node;
	uint32_t waits;
	uint32_t nr;
	uint32_t after[MAX_BEFORE];
};

struct look {
	const struct run *run;		/* the one that they wait for */
	uint32_t nr;
	struct behind behind[MAX_BEHIND];
};

bool follow_on(const struct poller_device *pd)
{
	/* With a gate it may have to be configured anew, for which all have to be out of it. */
	return pd->depth > 1 && !pd->gate;
}

static void gather(void *arg, const struct graph_node *node, uint32_t waits)
{
	struct look *l = arg;
	struct behind *b = l->behind;

	if (waits > MAX_BEFORE)
		return;
	while (b < l->behind + l->nr && b->node != node)
		b++;
	if (b == l->behind + l->nr) {
		if (l->nr == MAX_BEHIND)
			return;
		l->nr++;
		*b = (struct behind){ .node = node, .waits = waits };
	}
	if (b->nr < MAX_BEFORE)
		b->after[b->nr++] = l->run->rt.ticket;
}

/* Those of a lane that may have others behind them; returns how many it has in all. */
static uint32_t find_runs(const struct poller_device *pd, uint32_t lane,
			  const struct run *runs[ARAX_LANE_DEPTH])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < pd->nr_runs; i++) {
		const struct run *run = &pd->runs[i];

		if (!(pd->runs_busy >> i & 1) || run->lane != lane || !run->node)
			continue;
		/*
		 * Not on its lane yet, or never: then nobody knows when it will be.  Or how a load
		 * ends is not the lane's to say.
		 */
		if (!run->handed || run->load || run->rt.buffers || n == ARAX_LANE_DEPTH)
			return ARAX_LANE_DEPTH;
		runs[n++] = run;
	}
	return n;
}

/* Whether it waits for tasks of the lane alone, none of which is too long ago. */
static bool is_behind(const struct poller_device *pd, uint32_t lane, const struct behind *b)
{
	uint32_t next = runner_ticket(pd->runner, lane);

	for (uint32_t i = 0; i < b->nr; i++)
		if (next - b->after[i] >= RUNNER_LATE)
			return false;
	return b->nr == b->waits && graph_may_follow(b->node, b->nr);
}

/* By then it is to have begun, or to be told: which nobody does for what is on a device. */
static bool has_deadline(const struct graph_node *node)
{
	return node->d.deadline_ns && node->d.deadline_ns != ARAX_DEADLINE_NONE &&
	       !(node->d.flags & ARAX_DISPATCH_TARGET);
}

static bool can_follow(struct poller *p, const struct poller_device *pd, struct graph_node *node)
{
	const struct kernel *k;

	if (node->d.opcode != ARAX_OP_LAUNCH || own_is_launch(node) || has_deadline(node))
		return false;
	k = run_kernel(node);
	return k && !runner_needs_worker(pd->runner, k) && run_can(p, node, pd->dev->index) &&
	       (pd->dev->info.memory || !p->memory || !remote_is_dirty(node));
}

/* Of those that it waits for, the ones that it is only to come behind: bits. */
static uint32_t find_order(const struct behind *b, const struct run **runs, uint32_t nr)
{
	uint32_t order = 0;

	for (uint32_t i = 0; i < nr; i++)
		for (uint32_t k = 0; k < b->nr; k++)
			if (runs[i]->rt.ticket == b->after[k] &&
			    graph_only_orders(runs[i]->node, b->node))
				order |= 1u << k;
	return order;
}

/* The first that may go behind @runs does so. */
static bool follow_one(struct poller *p, struct poller_device *pd, uint32_t lane,
		       const struct run **runs, uint32_t nr)
{
	struct link *l = runs[0]->link;
	const struct behind *first = NULL;
	struct look look = { .nr = 0 };
	struct graph_node *node;

	for (uint32_t i = 0; i < nr; i++) {
		look.run = runs[i];
		/* One graph: else two tasks could be the same one. */
		if (runs[i]->link == l && graph_successors(runs[i]->node, NULL, 0) <= MAX_BEHIND)
			graph_each_successor(runs[i]->node, gather, &look);
	}
	for (uint32_t i = 0; i < look.nr; i++) {
		const struct behind *b = &look.behind[i];

		if (is_behind(pd, lane, b) && (!first || b->node->seq < first->node->seq))
			first = b;
	}
	node = first ? graph_find(l->graph, first->node->d.tag) : NULL;
	if (!node)
		return false;
	node->priv = l;
	if (!can_follow(p, pd, node) ||
	    sched_book(p->sched, node, pd->dev->index, lane, poller_ns(p)))
		return false;
	run_follow(p, node, first->after, first->nr, find_order(first, runs, nr));
	/* Who waits for that finds it handed over. */
	POLLER_COUNT(p, followed);
	return true;
}

int follow_start(struct poller *p)
{
	const struct run *runs[ARAX_LANE_DEPTH];
	int n = 0;

	for (uint32_t i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];

		if (!follow_on(pd) || pd->lost)
			continue;
		for (uint32_t lane = 0; lane < pd->lanes; lane++) {
			uint32_t nr = find_runs(pd, lane, runs);

			while (nr && nr < ARAX_LANE_DEPTH && follow_one(p, pd, lane, runs, nr)) {
				n++;
				nr = find_runs(pd, lane, runs);
			}
		}
	}
	return n;
}
