/* SPDX-License-Identifier: MIT */
/*
 * policy_fair.c - fair share: the device with the least load for the tenant's share of it
 *
 * A device's load is the time that its busy lanes still need, by prediction, for each of
 * its lanes.  The tenant's share is its weight among those that have a task there.  So a
 * tenant goes where little is to be done and where few others, or light ones, have a claim.
 * Of equals: the device that gave out least time so far, then the lowest index.
 */
#include "daemon/sched/policy.h"

/* 2^-10 ns: load / share; never the largest number there is. */
static uint64_t claim(const struct sched_device *d, const struct sched_flow *f, uint64_t now_ns)
{
	uint64_t left = 0, others = 0;
	unsigned __int128 load;

	for (uint32_t i = 0; i < d->lanes_size; i++) {
		const struct sched_lane *l = &d->lane[i];

		if (!l->until)
			continue;
		/* One that is overdue is busy still. */
		left += l->until > now_ns ? l->until - now_ns : 1;
		if (l->flow != f)
			others += l->flow->weight;
	}
	/* A prediction is below 2^50, so 2^13 would have to add up. */
	left = left / d->lanes < 1ull << 40 ? left / d->lanes : 1ull << 40;
	load = (unsigned __int128)((left << 10) / f->weight) * (f->weight + others);
	return load < UINT64_MAX ? (uint64_t)load : UINT64_MAX - 1;
}

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	const struct sched_flow *f = node->sched.flow;
	uint32_t best = SCHED_NO_DEVICE;
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		const struct sched_device *d = &s->devices[i];
		uint64_t c;

		if (!device_idle(d) || !can_run(s, node, i))
			continue;
		c = claim(d, f, now_ns);
		if (c < least || (c == least && best != SCHED_NO_DEVICE &&
				  d->given_ns < s->devices[best].given_ns)) {
			least = c;
			best = i;
		}
	}
	return best;
}

const struct sched_policy sched_policy_fair = {
	.name = "fair",
	.choose = choose,
};
