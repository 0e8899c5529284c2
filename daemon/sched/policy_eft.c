/* SPDX-License-Identifier: MIT */
/*
 * policy_eft.c - the device that would finish the task earliest
 *
 * A busy device counts from when its first lane will be free.  If the best is
 * busy the task waits for it, although a slower one is idle: that one is left
 * to tasks which it serves better.  But not where others wait as well and the idle
 * one would be done before the best has done some of them: then the best has enough to
 * do, and what was once measured on a device that lost its CPU for a moment does not
 * leave it idle for ever.  A device whose run time is unknown, and can't be told
 * from other sizes either, is tried as soon as it is idle, the least known first.
 */
#include "daemon/sched/policy.h"

/* Waiting tasks that count, so that what is far slower is still left alone. */
#define BACKLOG	4

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
	uint64_t best_ns = UINT64_MAX, idle_ns = UINT64_MAX, run_ns = 0;
	uint64_t best_move = 0, idle_move = 0;
	uint32_t best = SCHED_NO_DEVICE, unknown = SCHED_NO_DEVICE, idle = SCHED_NO_DEVICE;
	uint32_t others = s->queued < BACKLOG ? s->queued : BACKLOG;
	uint32_t least = SCHED_MIN_RUNS;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		struct sched_device *d = &s->devices[i];
		struct sched_estimate e;
		struct sched_forecast f;
		uint64_t end, move = 0;

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
		if (s->ops.transfer_ns)
			move = s->ops.transfer_ns(s->arg, node, i);
		/* Who is busy takes the next one by itself, who is idle has to be woken. */
		end = free_at(d, now_ns) + move + e.ns + (device_idle(d) ? hand_over_ns(s, i) : 0);
		if (end < best_ns) {
			best_ns = end;
			best_move = move;
			run_ns = e.ns;
			best = i;
		}
		if (device_idle(d) && end < idle_ns) {
			idle_ns = end;
			idle_move = move;
			idle = i;
		}
	}
	if (unknown != SCHED_NO_DEVICE)
		return unknown;
	/* This one is among those queued.  To move data for it would take others' time, too. */
	if (idle != SCHED_NO_DEVICE && others > 1 && idle_move <= best_move &&
	    !device_idle(&s->devices[best]) && idle_ns < best_ns + (others - 1) * run_ns)
		return idle;
	return when_idle(s, best);
}

const struct sched_policy sched_policy_eft = {
	.name = "eft",
	.choose = choose,
};
