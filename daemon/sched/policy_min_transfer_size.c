/* SPDX-License-Identifier: MIT */
/*
 * policy_min_transfer_size.c - the device that holds most of the task's bytes
 *
 * Of equals the one with the lowest index; the task waits for it if it is busy.  If no
 * device holds more than a tenth, locality is worth less than spreading: round robin.
 */
#include "daemon/sched/policy.h"

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	uint32_t best = SCHED_NO_DEVICE;
	uint64_t most = sched_bytes(node) / 10, bytes;

	for (uint32_t i = 0; s->ops.resident_bytes && i < s->nr_devices; i++) {
		if (!can_run(s, node, i))
			continue;
		bytes = s->ops.resident_bytes(s->arg, node, i);
		if (bytes > most) {
			most = bytes;
			best = i;
		}
	}
	if (best == SCHED_NO_DEVICE)
		return round_robin(s, node, now_ns);
	return when_idle(s, best);
}

const struct sched_policy sched_policy_min_transfer_size = {
	.name = "min-transfer-size",
	.choose = choose,
};
