/* SPDX-License-Identifier: MIT */
/* policy_rr.c - round robin: the next device with an idle lane */
#include "daemon/sched/policy.h"

uint32_t round_robin(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		uint32_t device = (s->next_device + i) % s->nr_devices;

		if (device_idle(&s->devices[device]) && can_run(s, node, device)) {
			s->next_device = device + 1;
			return device;
		}
	}
	return SCHED_NO_DEVICE;
}

const struct sched_policy sched_policy_rr = {
	.name = "rr",
	.choose = round_robin,
};
