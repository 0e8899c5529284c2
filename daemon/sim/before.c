// SPDX-License-Identifier: MIT
/*
 * before.c - inputs that come before their task has a lane, as in daemon/dispatch/ahead.c
 *
 * While a device's lanes are all taken what those ready tasks read that would be given one next,
 * by sched_next(), comes to memory that is free, piece by piece, when no copy of a task that has a
 * lane is on its way there.  When the task begins, wherever, no other piece begins for it: its lane
 * brings the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/internal.h"

#define NEVER	UINT64_MAX

/*
 * To look at a task is as much work as to pick one, and there are as many looks as devices.  So of
 * many only some are taken for each pick, as araxd gives them a part of its time: on 32 one task is
 * looked at for two that are picked, on 256 one for 128.
 */
#define LOOKS_FREE	(1u << 24)
#define LOOKS_EACH	512u

static bool may_look(const struct sim *sim)
{
	uint64_t each = (uint64_t)sim->sc->nr_devices * sim->sc->nr_devices;

	return sim->nr_looked * each <= LOOKS_FREE + sim->r->picks * LOOKS_EACH;
}

static bool has_place(const struct before *b)
{
	return b->nr < b->most && b->out < AHEAD_OUT;
}

/* What came of it, or didn't, is another one's chance. */
static void place_is_free(struct device *d)
{
	d->sim->look_at[d->index] = 0;
	d->sim->look = true;
}

static struct coming *first_out(struct before *b)
{
	for (uint32_t i = 0; i < b->nr; i++)
		if (b->of[i].out)
			return &b->of[i];
	return NULL;
}

/* Of a range that others have bytes of alone nothing: those are for the task's lane. */
static uint64_t missing(struct device *d, struct buffer *b, const struct sim_range *r, uint64_t seq)
{
	const struct store *s = store_find(b, d->place);

	if (residency_valid(&b->valid, r->offset, r->length, PLACE_HOST) < r->length)
		return 0;
	if (!s || !store_is_trusted(s, seq))
		return r->length;
	return r->length - residency_valid(&b->valid, r->offset, r->length, d->place);
}

static double bring_ns(struct device *d, const struct coming *c)
{
	const struct sim_range *r = &c->app->conf->ranges[c->task->first_range];
	const struct wire *w = d->engines[TO_DEVICE].wire;
	double ns = 0;

	for (uint32_t i = 0; i < c->task->nr_ranges; i++) {
		uint64_t bytes = r[i].access & ARAX_IN ?
				 missing(d, &c->app->buffers[r[i].buffer], &r[i], c->node->seq) : 0;

		if (bytes)
			ns += (double)w->latency_ns + (double)bytes * w->ns_per_byte;
	}
	return ns;
}

/* False: no more of the range can come; *@full: nor of others. */
static bool bring_piece(struct device *d, struct buffer *b, const struct sim_range *r, uint64_t seq,
			bool *full)
{
	struct store *s = store_find(b, d->place);
	uint64_t start, end;
	uint32_t source;

	if (s && s->evicting)
		return false;
	if (s)
		store_distrust(s, seq);
	if (!residency_missing(&b->valid, r->offset, r->length, d->place, &start, &end, &source) ||
	    source != PLACE_HOST)
		return false;
	if (!s) {
		s = store_spare(d, b);
		*full = !s;
		if (!s)
			return false;
		s->ahead = true;
		d->aheads++;
		s->until = graph_last_seq(d->sim->graph);
	}
	if (end > start + AHEAD_PIECE_BYTES)
		end = start + AHEAD_PIECE_BYTES;
	copy_start(d->sim, &b->host, s, start, end);
	return true;
}

static bool bring(struct device *d, struct coming *c)
{
	bool full = d->hungry;

	for (; c->range < c->task->nr_ranges && !full; c->range++) {
		const struct sim_range *r =
			&c->app->conf->ranges[c->task->first_range + c->range];

		if (r->access & ARAX_IN &&
		    bring_piece(d, &c->app->buffers[r->buffer], r, c->node->seq, &full))
			return true;
	}
	return false;
}

void before_go_on(struct device *d)
{
	struct coming *c;

	while (!d->engines[TO_DEVICE].first && (c = first_out(d->before)) && !bring(d, c)) {
		c->out = false;
		d->before->out--;
		place_is_free(d);
	}
}

static uint32_t *of_slot(struct sim *sim, const struct graph_node *node)
{
	return &sim->coming[ARAX_TAG_SLOT(node->d.tag)];
}

static bool begin(struct device *d, struct graph_node *node)
{
	struct before *b = d->before;
	struct coming *c = &b->of[b->nr];

	*c = (struct coming){ .node = node, .out = true };
	c->app = app_of(d->sim, node, &c->task);
	if (*of_slot(d->sim, node) || bring_ns(d, c) < AHEAD_WORTH_NS)
		return false;
	if (c->app->quota)
		c->out = quota_ahead(c->app->quota, c->task);
	*of_slot(d->sim, node) = d->index + 1;
	b->nr++;
	b->out += c->out;
	d->sim->nr_coming++;
	d->sim->r->ahead += c->out;
	return true;
}

static void take_out(struct device *d, uint32_t i)
{
	struct before *b = d->before;

	if (b->of[i].app->quota)
		quota_not_ahead(b->of[i].app->quota, b->of[i].task);
	*of_slot(d->sim, b->of[i].node) = 0;
	b->out -= b->of[i].out;
	b->nr--;
	memmove(&b->of[i], &b->of[i + 1], (b->nr - i) * sizeof(b->of[0]));
	d->sim->nr_coming--;
}

void before_forget(struct sim *sim, const struct graph_node *node)
{
	uint32_t i = 0, device = *of_slot(sim, node);
	struct device *d;

	if (!device)
		return;
	d = &sim->devices[device - 1];
	while (d->before->of[i].node != node)
		i++;
	take_out(d, i);
	place_is_free(d);
}

void before_lost(struct device *d)
{
	if (!d->before)
		return;
	while (d->before->nr)
		take_out(d, 0);
	d->sim->look_at[d->index] = NEVER;
}

static void look(struct device *d)
{
	struct graph_node *nodes[SCHED_NEXT];
	struct before *b = d->before;
	struct sim *sim = d->sim;
	uint64_t asked = sim->nr_asked;
	bool any = false;
	uint32_t nr;

	nr = sched_next(sim->sched, d->index, nodes, b->most, sim->now);
	for (uint32_t i = 0; i < nr && has_place(b); i++)
		any |= begin(d, nodes[i]);
	b->vain = any ? 0 : b->vain + (b->vain < AHEAD_DOUBLED);
	if (any)
		sim->look_at[d->index] = has_place(b) ? 0 : NEVER;
	else
		sim->look_at[d->index] = sim->now + (1000ull * AHEAD_PAUSE_US << b->vain);
	before_go_on(d);
	sim->nr_looked += sim->nr_asked - asked;
}

void before_look(struct sim *sim, bool anew)
{
	uint64_t last = 0;

	sim->look = false;
	if (!sched_queued(sim->sched))
		return;
	for (uint32_t i = 0; i < sim->sc->nr_devices; i++) {
		if (sim->look_at[i] == NEVER)
			continue;
		if (!may_look(sim))
			return;
		if (sim->look_at[i] <= sim->now)
			look(&sim->devices[i]);
		else if (anew && sim->look_at[i] > last)
			last = sim->look_at[i];
	}
	/* What has changed is seen then, if nothing else happens before; if nothing can, nobody is busy. */
	if (last && sim->events.used && !event_is_set(&sim->look_event))
		sim_set(sim, &sim->look_event, last);
}

static void look_fire(void *arg, struct event *e)
{
	struct sim *sim = arg;

	sim->look = true;
}

bool before_init(struct sim *sim)
{
	const struct scenario *sc = sim->sc;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < sc->nr_devices; i++)
		nr += sc->devices[i].link != SIM_ANY;
	if (!nr || sim->o->on_lane)
		return true;
	sim->look_at = malloc(sc->nr_devices * sizeof(*sim->look_at));
	sim->coming = calloc(sim->nr_slots, sizeof(*sim->coming));
	sim->before = calloc(nr, sizeof(*sim->before));
	if (!sim->look_at || !sim->coming || !sim->before)
		return false;
	sim->look_event.fire = look_fire;
	nr = 0;
	for (uint32_t i = 0; i < sc->nr_devices; i++) {
		struct device *d = &sim->devices[i];

		sim->look_at[i] = NEVER;
		if (d->place == PLACE_HOST)
			continue;
		sim->look_at[i] = 0;
		d->before = &sim->before[nr++];
		d->before->most = AHEAD_MOST(d->conf->lanes);
	}
	return true;
}
