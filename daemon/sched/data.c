/* SPDX-License-Identifier: MIT */
/* data.c - where a task's data is: what the policies that follow it share */
#include "daemon/sched/policy.h"

uint64_t sched_bytes(const struct graph_node *node)
{
	uint64_t bytes = 0, part;

	for (uint32_t i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];

		if (__builtin_mul_overflow(r->length, (uint64_t)r->count, &part) ||
		    __builtin_add_overflow(bytes, part, &bytes))
			return UINT64_MAX;
	}
	return bytes;
}

bool holds_enough(struct sched *s, const struct graph_node *node, uint32_t device)
{
	return s->ops.resident_bytes &&
	       s->ops.resident_bytes(s->arg, node, device) > sched_bytes(node) / 10;
}

uint32_t least_transfer(struct sched *s, const struct graph_node *node, uint64_t now_ns,
			uint64_t (*transfer_ns)(void *arg, const struct graph_node *node,
						uint32_t device))
{
	uint32_t best = SCHED_NO_DEVICE;
	uint64_t least = UINT64_MAX, ns;

	for (uint32_t i = 0; transfer_ns && i < s->nr_devices; i++) {
		if (!can_run(s, node, i) || !holds_enough(s, node, i))
			continue;
		ns = transfer_ns(s->arg, node, i);
		if (ns < least || best == SCHED_NO_DEVICE) {
			least = ns;
			best = i;
		}
	}
	if (best == SCHED_NO_DEVICE)
		return round_robin(s, node, now_ns);
	return when_idle(s, best);
}
