/* SPDX-License-Identifier: MIT */
/*
 * policy_eft.c - the device that would finish the task earliest
 *
 * A busy device counts from when its first lane will be free.  If the best is
 * busy the task waits for it, although a slower one is idle: that one is left
 * to tasks which it serves better.  A device whose run time is unknown, and can't be told
 * from other sizes either, is tried as soon as it is idle, the least known first.
 */
#include "daemon/sched/policy.h"

static uint64_t free_at(const struct sched_device *d, uint64_t now_ns)
{
	uint64_t first = UINT64_MAX;

	if (device_idle(d))
		return now_ns;
	for (uint32_t i = 0; i < d->lanes_size; i++) {
		if (d->lane[i].until && d->lane[i].until < first)
			first = d->lane[i].until;
	}
	/* One that is overdue will hardly end this very instant. */
	return first > now_ns ? first : now_ns + (now_ns - first) + 1;
}

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	uint64_t kernel = sched_kernel_key(node), work = sched_work(node);
	uint64_t best_ns = UINT64_MAX;
	uint32_t best = SCHED_NO_DEVICE, unknown = SCHED_NO_DEVICE;
	uint32_t least = SCHED_MIN_RUNS;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		struct sched_device *d = &s->devices[i];
		struct sched_estimate e;
		struct sched_forecast f;
		uint64_t end;

		if (!can_run(s, node, i))
			continue;
		e = sched_estimate(s, kernel, i, work);
		if (e.runs < SCHED_MIN_RUNS) {
			f = sched_forecast(s, kernel, i, work);
			e.ns = f.ns;
			if (f.confidence < SCHED_CONFIDENT) {
				if (device_idle(d) && e.runs < least) {
					least = e.runs;
					unknown = i;
				}
				continue;
			}
		}
		end = free_at(d, now_ns) + e.ns;
		if (s->ops.transfer_ns)
			end += s->ops.transfer_ns(s->arg, node, i);
		if (end < best_ns) {
			best_ns = end;
			best = i;
		}
	}
	if (unknown != SCHED_NO_DEVICE)
		return unknown;
	return when_idle(s, best);
}

const struct sched_policy sched_policy_eft = {
	.name = "eft",
	.choose = choose,
};
