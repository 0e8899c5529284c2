// SPDX-License-Identifier: MIT
/*
 * follow.c - tasks whose data is there
 *
 * Inputs come before a task has a lane, to the device that was to have it.  How long others take
 * yet is a guess, so it may be another device that has a lane first: with the first task it would
 * copy what has come elsewhere, and so on with all that are behind it.  So a device takes first, of
 * the same program, what has come to it.
 *
 * Where memory is short a task that has ended makes others ready that use what it used.  By their
 * turn they come behind all that were ready before, and these push out what they would have found:
 * a program that goes through its data again and again, piece by piece, then brings all of
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

/* As urgent as @first, and in the same heap. */
static bool is_beside(const struct graph_node *node, const struct graph_node *first)
{
	return node->sched.program == first->sched.program && node->sched.index != ~0u &&
	       node->sched.lane != SCHED_STARTED && node->d.priority == first->d.priority;
}

/* @first has to copy, and no less than @node, of whose inputs some may not be there yet. */
static bool is_worth_it(struct sched *s, const struct graph_node *node,
			const struct graph_node *first, uint32_t device)
{
	uint64_t ns = s->ops.transfer_ns(s->arg, first, device);

	return ns && s->ops.transfer_ns(s->arg, node, device) <= ns;
}

/* The first one whose inputs came to @device, if that of @first did not. */
static struct graph_node *find_came(struct sched *s, const struct graph_node *first,
				    uint32_t device, uint64_t now_ns)
{
	struct graph_node *n, *best = NULL;

	for (uint32_t i = 0; (n = s->ops.came(s->arg, device, i)); i++) {
		if (n == first)
			return NULL;
		if (is_beside(n, first) && (!best || task_before(n, best)))
			best = n;
	}
	return best && is_worth_it(s, best, first, device) && can_run(s, best, device) &&
	       would_choose(s, best, device, now_ns) ? best : NULL;
}

struct graph_node *follow(struct sched *s, struct sched_flow *f, struct graph_node *first,
			  uint32_t device, uint64_t now_ns)
{
	struct graph_node *came = NULL;

	if (s->ops.came && f->passed < MOST_PASSED && !first->d.deadline_ns &&
	    s->ops.comes(s->arg, NULL))
		came = find_came(s, first, device, now_ns);
	if (came) {
		f->passed++;
		return came;
	}
	/* What has to be done by some time doesn't wait. */
	if (!s->follows || !s->ops.transfer_ns || !s->ops.tight(s->arg, device) ||
	    first->d.deadline_ns || f->passed >= MOST_PASSED ||
	    !s->ops.transfer_ns(s->arg, first, device)) {
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
