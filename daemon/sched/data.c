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

/*
 * Who works on the host's pages would hold every byte, and all tasks would go there, while others
 * that could have their data stand idle.
 */
static bool has_memory(struct sched *s, uint32_t device)
{
	struct sched_link link;

	return !s->ops.link || s->ops.link(s->arg, device, &link);
}

uint64_t held_bytes(struct sched *s, const struct graph_node *node, uint32_t device)
{
	uint64_t bytes;

	if (!s->ops.resident_bytes || !can_run(s, node, device) || !has_memory(s, device))
		return 0;
	bytes = s->ops.resident_bytes(s->arg, node, device);
	return bytes > sched_bytes(node) / 10 ? bytes : 0;
}

bool rather(const struct sched *s, uint32_t a, uint32_t b)
{
	const struct sched_device *x = &s->devices[a], *y = &s->devices[b];

	if (device_idle(x) != device_idle(y))
		return device_idle(x);
	return x->busy < y->busy;
}

uint32_t least_transfer(struct sched *s, const struct graph_node *node, uint64_t now_ns,
			uint64_t (*transfer_ns)(void *arg, const struct graph_node *node,
						uint32_t device))
{
	uint32_t best = SCHED_NO_DEVICE;
	uint64_t least = UINT64_MAX, ns;

	for (uint32_t i = 0; transfer_ns && i < s->nr_devices; i++) {
		if (!held_bytes(s, node, i))
			continue;
		ns = transfer_ns(s->arg, node, i);
		if (best == SCHED_NO_DEVICE || ns < least || (ns == least && rather(s, i, best))) {
			least = ns;
			best = i;
		}
	}
	if (best == SCHED_NO_DEVICE)
		return round_robin(s, node, now_ns);
	return when_idle(s, best);
}
