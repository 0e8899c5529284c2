// SPDX-License-Identifier: MIT
/*
 * follow.c - tasks whose data is there, where memory is short
 *
 * A task that has ended makes others ready that use what it used.  By their turn they come
 * behind all that were ready before, and these push out what they would have found: a
 * program that goes through its data again and again, piece by piece, then brings all of
 * it each time.  So on a device whose memory is short what became ready lately goes first, if
 * it finds all that it reads.
 */
#include <string.h>

#include "daemon/sched/policy.h"

/* A tenant's first task is passed over so many times in a row at most. */
#define MOST_PASSED	32

void follow_queued(struct sched *s, struct graph_node *node)
{
	s->follows = s->ops.tight(s->arg, SCHED_NO_DEVICE);
	if (s->follows) {
		s->lately[s->lately_at] = node;
		s->lately_at = (s->lately_at + 1) % LATELY;
	} else {
		memset(s->lately, 0, sizeof(s->lately));
	}
}

void follow_gone(struct sched *s, const struct graph_node *node)
{
	for (uint32_t i = 0; i < LATELY; i++)
		if (s->lately[i] == node)
			s->lately[i] = NULL;
}

/* Of those that are asked for one is taken: the policy learns from that one alone. */
static bool would_choose(struct sched *s, struct graph_node *node, uint32_t device,
			 uint64_t now_ns)
{
	bool would;

	s->asking = s->policy->may_ask;
	would = s->policy->choose(s, node, now_ns) == device;
	s->asking = false;
	return would && (!s->policy->may_ask || s->policy->choose(s, node, now_ns) == device);
}

/* Whether @node may go to @device before @first, which has to wait for its data there. */
static bool may_follow(struct sched *s, struct graph_node *node, const struct sched_flow *f,
		       const struct graph_node *first, uint32_t device, uint64_t now_ns)
{
	return node && node != first && node->sched.flow == f && node->sched.index != ~0u &&
	       node->d.priority <= first->d.priority && can_run(s, node, device) &&
	       !switch_ns(s, node, device) && !s->ops.transfer_ns(s->arg, node, device) &&
	       would_choose(s, node, device, now_ns);
}

struct graph_node *follow(struct sched *s, struct sched_flow *f, struct graph_node *first,
			  uint32_t device, uint64_t now_ns)
{
	/* What has to be done by some time doesn't wait. */
	if (!s->ops.transfer_ns || !s->ops.tight(s->arg, device) || first->d.deadline_ns ||
	    f->passed >= MOST_PASSED || !s->ops.transfer_ns(s->arg, first, device)) {
		f->passed = 0;
		return first;
	}
	for (uint32_t i = 0; i < LATELY; i++) {
		struct graph_node *n = s->lately[(s->lately_at + LATELY - 1 - i) % LATELY];

		if (may_follow(s, n, f, first, device, now_ns)) {
			f->passed++;
			return n;
		}
	}
	f->passed = 0;
	return first;
}
