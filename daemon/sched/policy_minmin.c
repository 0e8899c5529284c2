/* SPDX-License-Identifier: MIT */
/*
 * policy_minmin.c - the device that the task's data would reach soonest
 *
 * The optimist's count: each piece from the place with the fastest link to it.
 * Only devices with memory of their own that holds more than a tenth of the bytes count; if there
 * is none: round robin.  Of equals one that is idle, then the one with the fewest busy lanes.
 */
#include "daemon/sched/policy.h"

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	return least_transfer(s, node, now_ns, s->ops.transfer_min_ns ? s->ops.transfer_min_ns :
						       s->ops.transfer_ns);
}

const struct sched_policy sched_policy_minmin = {
	.name = "minmin-transfer-time",
	.choose = choose,
};
