/* SPDX-License-Identifier: MIT */
/*
 * policy_min_transfer_size.c - the device that holds most of the task's bytes
 *
 * Of equals one that is idle, then the one with the fewest busy lanes; the task waits for it if
 * all of them are busy.  If no device with memory of its own holds more than a tenth, locality is
 * worth less than spreading: round robin.
 */
#include "daemon/sched/policy.h"

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	uint32_t best = SCHED_NO_DEVICE;
	uint64_t most = 0, bytes;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		bytes = held_bytes(s, node, i);
		if (bytes > most || (bytes && bytes == most && rather(s, i, best))) {
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
