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

static bool is_direct(const struct copy *c)
{
	return c->from->place != PLACE_HOST && c->to->place != PLACE_HOST;
}

static void flow_begin(struct sim *sim, struct flow *f, struct wire *w, uint64_t bytes)
{
	f->wire = w;
	share_add(&w->share, &f->job, (double)bytes * w->ns_per_byte, 1, sim->now);
	wire_set(sim, w);
}

static void latency_fire(void *arg, struct event *ev)
{
	struct engine *e = owner_of(ev, struct engine, latency);
	const struct copy *c = e->first;
	struct sim *sim = arg;

	flow_begin(sim, &e->flows[0], e->wire, c->end - c->start);
	if (is_direct(c)) {
		struct wire *w = sim->devices[c->from->place - 1].engines[TO_HOST].wire;

		/* It is as quick as the slower one of the two; a bus has it once. */
		if (w != e->wire)
			flow_begin(sim, &e->flows[1], w, c->end - c->start);
	}
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
	struct run *run = c->run;

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
		run_wake(&to->waiters);
	copy_free(sim, c);
	if (run)
		run_is_back(run);
}

static void engine_done(struct sim *sim, struct engine *e)
{
	struct sim_device_result *r = &sim->r->devices[e->device->index];
	struct copy *c = e->first;
	struct device *source = is_direct(c) ? &sim->devices[c->from->place - 1] : NULL;
	uint64_t bytes = c->end - c->start;

	if (source)
		r->bytes_peer += bytes;
	else if (c->to->place)
		r->bytes_in += bytes;
	else
		r->bytes_out += bytes;
	e->wire->queued -= bytes;
	e->first = c->next;
	if (!e->first)
		e->last = &e->first;
	arrived(sim, c);
	engine_next(sim, e);
	if (source && !--source->lent)
		run_wake(&source->borrowers);
	if (!e->first && e->device->before)
		before_go_on(e->device);
}

static void wire_fire(void *arg, struct event *ev)
{
	struct wire *w = owner_of(ev, struct wire, ev);
	struct sim *sim = arg;
	struct share_job *j;

	while ((j = share_pop(&w->share, sim->now))) {
		struct flow *f = owner_of(j, struct flow, job);
		struct engine *e = f->engine;

		f->wire = NULL;
		if (!e->flows[0].wire && !e->flows[1].wire)
			engine_done(sim, e);
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
	for (uint32_t i = 0; i < 2; i++)
		e->flows[i].engine = e;
}

struct copy *copy_start(struct sim *sim, struct store *from, struct store *to, uint64_t start,
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
		return NULL;
	}
	*c = (struct copy){
		.buffer = from->buffer, .from = from, .to = to, .start = start, .end = end,
	};
	if (is_direct(c))
		sim->devices[from->place - 1].lent++;
	from->leaving++;
	to->arriving++;
	c->buffer->app->copies++;
	e->wire->queued += end - start;
	*e->last = c;
	e->last = &c->next;
	if (idle)
		engine_next(sim, e);
	return c;
}

bool are_peers(const struct sim *sim, const struct device *d, uint32_t place)
{
	const struct sim_device *from;

	if (place == PLACE_HOST || place == PLACE_NONE || !d->conf->peers)
		return false;
	from = sim->devices[place - 1].conf;
	return from->peers && from->kind == d->conf->kind;
}

static void engine_stop(struct engine *e)
{
	struct sim *sim = e->device->sim;

	event_cancel(&sim->events, &e->latency);
	for (uint32_t i = 0; i < 2; i++) {
		struct flow *f = &e->flows[i];

		if (!f->wire)
			continue;
		share_remove(&f->wire->share, &f->job, sim->now);
		wire_set(sim, f->wire);
		f->wire = NULL;
	}
}

/* Those from @place alone, or all if that is PLACE_NONE; to *@to, and returns where others go. */
static struct copy **engine_clear(struct engine *e, uint32_t place, struct copy **to)
{
	struct copy **p = &e->first, *c;
	struct sim *sim = e->device->sim;
	bool first = true;

	while ((c = *p)) {
		if (place != PLACE_NONE && c->from->place != place) {
			p = &c->next;
			first = false;
			continue;
		}
		if (first)
			engine_stop(e);
		*p = c->next;
		e->wire->queued -= c->end - c->start;
		if (is_direct(c))
			sim->devices[c->from->place - 1].lent--;
		c->from->leaving--;
		c->to->arriving--;
		*to = c;
		to = &c->next;
	}
	e->last = p;
	*to = NULL;
	return to;
}

struct copy *copies_take(struct device *d)
{
	struct sim *sim = d->sim;
	struct copy *taken = NULL, **to = &taken;

	for (uint32_t i = 0; i < 2; i++)
		to = engine_clear(&d->engines[i], PLACE_NONE, to);
	for (uint32_t i = 0; d->conf->peers && i < sim->sc->nr_devices; i++) {
		struct engine *e = &sim->devices[i].engines[TO_DEVICE];
		const struct copy *first = e->first;

		if (i == d->index || !first)
			continue;
		to = engine_clear(e, d->place, to);
		if (e->first != first)
			engine_next(sim, e);
	}
	/* Its own stores are going. */
	for (struct copy *c = taken; c; c = c->next)
		if (c->to->place == d->place)
			c->to = NULL;
	return taken;
}

void copies_lost(struct sim *sim, struct copy *c)
{
	while (c) {
		struct copy *next = c->next;

		/* Who waits on the lost device doesn't any more. */
		if (c->to && !c->to->arriving)
			run_wake(&c->to->waiters);
		copy_free(sim, c);
		c = next;
	}
	/* Who waits for a place to copy from may find none any more. */
	for (uint32_t i = 0; i < sim->sc->nr_devices; i++)
		if (!sim->devices[i].lent)
			run_wake(&sim->devices[i].borrowers);
}
