// SPDX-License-Identifier: MIT
/*
 * quota.c - limits of what tenants' tasks hold on devices, as in daemon/dispatch/quota.c
 *
 * Whoever would take more than is left gives his lane back and goes into his tenant's line.  When
 * some of it is free the first one of the line goes to the scheduler again, and the next when that
 * one has what it wants.  A task for which the whole limit is too little fails.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sim/internal.h"

/**
 * struct quota - a tenant's
 * @max:	bytes
 * @held:	of buffers on devices that its runs use
 * @beside:	of buffers of tasks without a lane for which something comes, or has come
 * @first, @last: tasks that wait, in the order in which they came
 * @tried:	was the first one, and has been pushed; NULL: none has
 * @next:	to be looked at as well; @listed: it is in that list
 */
struct quota {
	uint64_t max, held, beside;
	struct graph_node *first, **last;
	const struct graph_node *tried;
	struct quota *next;
	bool listed;
};

bool quotas_init(struct sim *sim)
{
	const struct scenario *sc = sim->sc;
	bool any = false;

	for (uint32_t i = 0; i < sc->nr_tenants; i++)
		any |= sc->tenants[i].device_memory;
	if (!any)
		return true;
	sim->quotas = calloc(sc->nr_tenants, sizeof(*sim->quotas));
	if (!sim->quotas)
		return false;
	for (uint32_t i = 0; i < sc->nr_tenants; i++) {
		sim->quotas[i].max = sc->tenants[i].device_memory;
		sim->quotas[i].last = &sim->quotas[i].first;
	}
	return true;
}

struct quota *quota_of(struct sim *sim, uint32_t tenant)
{
	return sim->sc->tenants[tenant].device_memory ? &sim->quotas[tenant] : NULL;
}

static void look_again(struct sim *sim, struct quota *q)
{
	if (q->listed || !q->first || q->tried)
		return;
	q->listed = true;
	q->next = sim->freed;
	sim->freed = q;
}

void quota_hold(const struct store *s)
{
	if (s->buffer->app->quota)
		s->buffer->app->quota->held += s->buffer->valid.bytes;
}

void quota_let_go(const struct store *s, bool look)
{
	struct quota *q = s->buffer->app->quota;

	if (!q)
		return;
	q->held -= s->buffer->valid.bytes;
	if (look)
		look_again(s->buffer->app->sim, q);
}

bool quota_ahead(struct quota *q, const struct sim_task *t)
{
	bool fits = t->footprint <= q->max && q->held + q->beside <= q->max - t->footprint;

	q->beside += t->footprint;
	return fits;
}

void quota_not_ahead(struct quota *q, const struct sim_task *t)
{
	q->beside -= t->footprint;
}

/* What others of its program don't hold there. */
static uint64_t wanted(const struct run *run)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < run->task->nr_ranges; i++) {
		struct buffer *b = &run->app->buffers[run->ranges[i].buffer];
		const struct store *s = store_find(b, run->device->place);
		uint32_t k = 0;

		while (run->ranges[k].buffer != run->ranges[i].buffer)
			k++;
		if (k == i && !(s && s->pins))
			bytes += b->valid.bytes;
	}
	return bytes;
}

bool quota_admits(const struct run *run)
{
	const struct quota *q = run->app->quota;
	uint64_t bytes;

	if (!q || !run->device || run->device->place == PLACE_HOST)
		return true;
	bytes = wanted(run);
	return bytes <= q->max && q->held <= q->max - bytes;
}

void quota_entered(const struct run *run)
{
	struct quota *q = run->app->quota;

	if (q->tried != run->node)
		return;
	q->tried = NULL;
	look_again(run->sim, q);
}

void quota_gone(struct sim *sim, struct quota *q, const struct graph_node *node)
{
	if (q->tried != node)
		return;
	q->tried = NULL;
	look_again(sim, q);
}

void quota_wait(struct run *run)
{
	struct quota *q = run->app->quota;
	struct graph_node *node = run->node;
	struct sim *sim = run->sim;

	if (wanted(run) > q->max) {
		task_end(run, -EDQUOT);
		return;
	}
	run_give_back(run);
	graph_stop(sim->graph, node);
	node->next = NULL;
	/* It has tried in vain, and keeps its place. */
	if (q->tried == node) {
		q->tried = NULL;
		node->next = q->first;
		q->first = node;
		if (!node->next)
			q->last = &node->next;
		return;
	}
	*q->last = node;
	q->last = &node->next;
}

void quota_look(struct sim *sim)
{
	struct quota *q;

	while ((q = sim->freed) && !sim->err) {
		struct graph_node *node = q->first;

		sim->freed = q->next;
		q->listed = false;
		if (q->tried || !node)
			continue;
		q->first = node->next;
		if (!q->first)
			q->last = &q->first;
		q->tried = node;
		task_queue(sim, node);
	}
}
