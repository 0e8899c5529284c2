// SPDX-License-Identifier: MIT
/*
 * after.c - results that go back to the host, of plain buffers
 *
 * A task of such buffers has ended when all of its results are there.  Where others wait for a
 * lane its own is the next one's meanwhile, as in daemon/dispatch/back.c.  Until then nothing of it
 * counts as written: if the device is lost it runs again.
 */
#include "daemon/sim/internal.h"

static double back_ns(const struct run *run)
{
	const struct wire *w = run->device->engines[TO_HOST].wire;
	double ns = 0;

	for (uint32_t i = 0; i < run->task->nr_ranges; i++) {
		const struct sim_range *r = &run->ranges[i];

		if (r->access & ARAX_OUT)
			ns += (double)w->latency_ns + (double)r->length * w->ns_per_byte;
	}
	return ns;
}

static void leave_lane(struct run *run)
{
	struct sim *sim = run->sim;

	run->left = true;
	run->device->left++;
	sched_leave(sim->sched, run->node, sim->now - run->start_ns);
	sim->changed = true;
	sim->r->left++;
}

void run_leave(struct run *run)
{
	struct sim *sim = run->sim;
	struct device *d = run->device;

	run->ran_ns = sim->now - run->start_ns;
	for (uint32_t i = 0; i < run->task->nr_ranges; i++) {
		const struct sim_range *r = &run->ranges[i];
		struct copy *c;

		if (!(r->access & ARAX_OUT))
			continue;
		c = copy_start(sim, run->stores[i], &run->stores[i]->buffer->host, r->offset,
			       r->offset + r->length);
		if (!c)
			return;
		c->run = run;
		run->pending++;
	}
	if (!run->pending)
		task_end(run, 0);
	else if (!sim->o->on_lane && sched_queued(sim->sched) && d->left < BACK_MOST &&
		 back_ns(run) >= BACK_WORTH_NS)
		leave_lane(run);
}

void run_is_back(struct run *run)
{
	if (--run->pending)
		return;
	run->device->left -= run->left;
	task_end(run, 0);
}
