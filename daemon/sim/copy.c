// SPDX-License-Identifier: MIT
/* copy.c - copy engines take copies in order; links share their bandwidth */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sim/internal.h"

static void wire_set(struct sim *sim, struct wire *w)
{
	uint64_t next = share_next(&w->share);

	if (next == EVENT_NEVER)
		event_cancel(&sim->events, &w->ev);
	else
		sim_set(sim, &w->ev, next);
}

static void engine_next(struct sim *sim, struct engine *e)
{
	if (e->first)
		sim_set(sim, &e->latency, sim->now + e->wire->latency_ns);
}

static void latency_fire(void *arg, struct event *ev)
{
	struct engine *e = owner_of(ev, struct engine, latency);
	const struct copy *c = e->first;
	struct sim *sim = arg;

	e->flowing = true;
	share_add(&e->wire->share, &e->job, (double)(c->end - c->start) * e->wire->ns_per_byte, 1,
		  sim->now);
	wire_set(sim, e->wire);
}

static void copy_free(struct sim *sim, struct copy *c)
{
	struct app *a = c->buffer->app;

	c->next = sim->free_copies;
	sim->free_copies = c;
	if (!--a->copies && a->ended)
		app_buffers_free(a);
}

static void arrived(struct sim *sim, struct copy *c)
{
	struct residency *r = &c->buffer->valid;
	uint64_t bytes = c->end - c->start;
	struct store *to = c->to;

	/*
	 * A write-back may find that the range was written anew elsewhere meanwhile.  What is
	 * valid at its source can only be what was read there.
	 */
	if (residency_valid(r, c->start, bytes, c->from->place) == bytes &&
	    !residency_copied(r, c->start, bytes, c->to->place))
		sim_stop(sim, -ENOMEM, "out of memory");
	sim->version++;
	c->from->leaving--;
	to->arriving--;
	store_settle(c->from);
	/* Where somebody waits it is pinned, and he may end its application. */
	if (to->waiters.next == &to->waiters)
		store_settle(to);
	else if (!to->arriving)
		run_wake(to);
	copy_free(sim, c);
}

static void wire_fire(void *arg, struct event *ev)
{
	struct wire *w = owner_of(ev, struct wire, ev);
	struct sim *sim = arg;
	struct share_job *j;

	while ((j = share_pop(&w->share, sim->now))) {
		struct engine *e = owner_of(j, struct engine, job);
		struct sim_device_result *r = &sim->r->devices[e->device->index];
		struct copy *c = e->first;

		if (c->to->place)
			r->bytes_in += c->end - c->start;
		else
			r->bytes_out += c->end - c->start;
		w->queued -= c->end - c->start;
		e->flowing = false;
		e->first = c->next;
		if (!e->first)
			e->last = &e->first;
		arrived(sim, c);
		engine_next(sim, e);
	}
	wire_set(sim, w);
}

void wire_init(struct wire *w, const struct sim_link *l)
{
	w->ns_per_byte = l->ns_per_byte;
	w->latency_ns = l->latency_ns;
	w->ev.fire = wire_fire;
}

void engine_init(struct engine *e, struct device *d, struct wire *w)
{
	e->device = d;
	e->wire = w;
	e->last = &e->first;
	e->latency.fire = latency_fire;
}

void copy_start(struct sim *sim, struct store *from, struct store *to, uint64_t start,
		uint64_t end)
{
	uint32_t place = to->place ? to->place : from->place;
	struct engine *e = &sim->devices[place - 1].engines[to->place ? TO_DEVICE : TO_HOST];
	struct copy *c = sim->free_copies;
	bool idle = !e->first;

	if (c)
		sim->free_copies = c->next;
	else
		c = malloc(sizeof(*c));
	if (!c) {
		sim_stop(sim, -ENOMEM, "out of memory");
		return;
	}
	*c = (struct copy){
		.buffer = from->buffer, .from = from, .to = to, .start = start, .end = end,
	};
	from->leaving++;
	to->arriving++;
	c->buffer->app->copies++;
	e->wire->queued += end - start;
	*e->last = c;
	e->last = &c->next;
	if (idle)
		engine_next(sim, e);
}

struct copy *engine_clear(struct engine *e)
{
	struct sim *sim = e->device->sim;
	struct copy *first = e->first;

	event_cancel(&sim->events, &e->latency);
	if (e->flowing) {
		share_remove(&e->wire->share, &e->job, sim->now);
		wire_set(sim, e->wire);
	}
	e->flowing = false;
	e->first = NULL;
	e->last = &e->first;
	for (struct copy *c = first; c; c = c->next) {
		e->wire->queued -= c->end - c->start;
		c->from->leaving--;
		c->to->arriving--;
	}
	return first;
}

void copy_lost(struct sim *sim, struct copy *c)
{
	while (c) {
		struct copy *next = c->next;
		struct store *host = &c->buffer->host;

		/* Only those who wait at the host are not on the lost device. */
		if (!host->arriving)
			run_wake(host);
		copy_free(sim, c);
		c = next;
	}
}
