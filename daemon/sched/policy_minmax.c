/* SPDX-License-Identifier: MIT */
/*
 * policy_minmax.c - the device that the task's data would reach soonest
 *
 * The pessimist's count: each piece from the place with the slowest link to it.
 * Only devices with memory of their own that holds more than a tenth of the bytes count; if there
 * is none: round robin.  Of equals one that is idle, then the one with the fewest busy lanes.
 */
#include "daemon/sched/policy.h"

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	return least_transfer(s, node, now_ns, s->ops.transfer_max_ns ? s->ops.transfer_max_ns :
						       s->ops.transfer_ns);
}

const struct sched_policy sched_policy_minmax = {
	.name = "minmax-transfer-time",
	.choose = choose,
};
