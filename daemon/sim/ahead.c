// SPDX-License-Identifier: MIT
/*
 * ahead.c - inputs of tasks that aren't ready yet
 *
 * While a kernel runs, what waits for it alone will most likely follow on its device, for the
 * kernel's results are there.  What that task reads besides can come meanwhile, as long as
 * nobody else wants the link and nothing has to go for it.
 *
 * araxd does not do that: a task that follows another one on its lane gets its data when that
 * one has succeeded (look_before() in daemon/worker/lane.c).  So it is asked for
 * (sim_options.ahead), to see what it would be worth.
 */
#include "daemon/sim/internal.h"

struct ahead {
	struct sim *sim;
	struct run *run;	/* whose successors they are */
};

/* Bytes that @run is about to write are not to be had yet. */
static bool is_result(const struct run *run, const struct app *app, const struct sim_range *r)
{
	for (uint32_t i = 0; i < run->task->nr_ranges; i++) {
		const struct sim_range *o = &run->ranges[i];

		if (o->access & ARAX_OUT && run->app == app && o->buffer == r->buffer &&
		    o->offset < r->offset + r->length && r->offset < o->offset + o->length)
			return true;
	}
	return false;
}

static void fetch_ahead(struct device *d, struct buffer *b, const struct sim_range *r)
{
	uint64_t at = r->offset, last = r->offset + r->length, start, end;
	struct store *to = store_find(b, d->place);
	uint32_t source;

	if (to && (to->arriving || to->evicting))
		return;
	while (residency_missing(&b->valid, at, last - at, d->place, &start, &end, &source)) {
		at = end;
		/* Bytes of other devices would take two links' time on a guess. */
		if (source != PLACE_HOST)
			continue;
		if (!to)
			to = store_spare(d, b);
		if (!to)
			return;
		copy_start(d->sim, &b->host, to, start, end);
	}
}

static void look_at(void *arg, const struct graph_node *node, uint32_t waits)
{
	const struct ahead *a = arg;
	struct device *d = a->run->device;
	const struct sim_range *r;
	const struct sim_task *t;
	struct app *app;

	if (waits != 1 || node->d.opcode == ARAX_OP_MARKER ||
	    !sim_can_run(a->sim, node, d->index))
		return;
	app = app_of(a->sim, node, &t);
	r = &app->conf->ranges[t->first_range];
	for (uint32_t i = 0; i < t->nr_ranges; i++)
		if (r[i].access & ARAX_IN && !is_result(a->run, app, &r[i]))
			fetch_ahead(d, &app->buffers[r[i].buffer], &r[i]);
}

void run_look_ahead(struct run *run)
{
	struct ahead a = { .sim = run->sim, .run = run };
	struct device *d = run->device;

	if (!run->sim->o->ahead || d->place == PLACE_HOST ||
	    d->engines[TO_DEVICE].wire->queued || d->hungry)
		return;
	graph_each_successor(run->node, look_at, &a);
}
