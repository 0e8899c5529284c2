/* SPDX-License-Identifier: MIT */
/*
 * policy_stream_aware.c - the device with the fewest busy lanes
 *
 * Of equals the one with the lowest index.  Knows nothing of run times or data.
 */
#include "daemon/sched/policy.h"

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	uint32_t best = SCHED_NO_DEVICE, fewest = UINT32_MAX;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		const struct sched_device *d = &s->devices[i];

		if (d->busy < fewest && device_idle(d) && can_run(s, node, i)) {
			fewest = d->busy;
			best = i;
		}
	}
	return best;
}

const struct sched_policy sched_policy_stream_aware = {
	.name = "stream-aware",
	.choose = choose,
};
