/* SPDX-License-Identifier: MIT */
/*
 * policy_static.c - each client on a device of its own, as without a scheduler
 *
 * A context is pinned by its first task to the device with the fewest contexts (of equals,
 * the lowest index) and stays there, whatever stands idle: the baseline that elastic
 * policies are compared with.  What its device can't run goes round robin, or nobody
 * would run it.
 */
#include <stdlib.h>

#include "daemon/sched/policy.h"

#define BUCKETS		1024u

struct pin {
	struct pin *next;
	uint64_t context;
	uint32_t device;
};

struct state {
	struct pin *buckets[BUCKETS];
	uint32_t contexts[SCHED_MAX_DEVICES];	/* pinned to each device */
};

static struct pin **find(struct state *st, uint64_t context)
{
	struct pin **p = &st->buckets[context % BUCKETS];

	while (*p && (*p)->context != context)
		p = &(*p)->next;
	return p;
}

static struct pin *pin(struct sched *s, const struct graph_node *node)
{
	struct state *st = s->policy_state;
	struct pin **p = find(st, task_context(node));
	uint32_t best = SCHED_NO_DEVICE;

	if (*p)
		return *p;
	for (uint32_t i = 0; i < s->nr_devices; i++)
		if (can_run(s, node, i) &&
		    (best == SCHED_NO_DEVICE || st->contexts[i] < st->contexts[best]))
			best = i;
	if (best == SCHED_NO_DEVICE)
		return NULL;
	*p = calloc(1, sizeof(**p));
	if (!*p)
		return NULL;
	(*p)->context = task_context(node);
	(*p)->device = best;
	st->contexts[best]++;
	return *p;
}

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	const struct pin *p = pin(s, node);

	if (!p || !can_run(s, node, p->device))
		return round_robin(s, node, now_ns);
	return when_idle(s, p->device);
}

static void unpin(struct state *st, struct pin **p)
{
	struct pin *gone = *p;

	*p = gone->next;
	st->contexts[gone->device]--;
	free(gone);
}

static void context_gone(struct sched *s, uint64_t context)
{
	struct state *st = s->policy_state;
	struct pin **p = find(st, context);

	if (*p)
		unpin(st, p);
}

static void leave(struct sched *s)
{
	struct state *st = s->policy_state;

	for (uint32_t i = 0; i < BUCKETS; i++)
		while (st->buckets[i])
			unpin(st, &st->buckets[i]);
}

const struct sched_policy sched_policy_pinned = {
	.name = "static",
	.state_bytes = sizeof(struct state),
	.choose = choose,
	.context_gone = context_gone,
	.leave = leave,
};
