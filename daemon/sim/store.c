// SPDX-License-Identifier: MIT
/* store.c - memory of devices: allocations, and who has to go */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sim/internal.h"

static struct device *device_of(const struct store *s)
{
	return &s->buffer->app->sim->devices[s->place - 1];
}

static void lru_remove(struct store *s)
{
	if (!s->lru_next)
		return;
	s->lru_next->lru_prev = s->lru_prev;
	s->lru_prev->lru_next = s->lru_next;
	s->lru_next = NULL;
}

static void lru_add(struct store *s)
{
	struct store *head = &device_of(s)->lru;

	s->lru_next = head;
	s->lru_prev = head->lru_prev;
	s->lru_prev->lru_next = s;
	head->lru_prev = s;
}

void store_init(struct store *s, struct buffer *b, uint32_t place)
{
	*s = (struct store){ .buffer = b, .place = place };
	s->waiters.next = &s->waiters;
	s->waiters.prev = &s->waiters;
}

struct store *store_find(struct buffer *b, uint32_t place)
{
	struct store *s = b->stores;

	if (place == PLACE_HOST)
		return &b->host;
	while (s && s->place != place)
		s = s->next;
	return s;
}

static void evict_end(struct store *s)
{
	if (s->evicting)
		device_of(s)->evicting -= s->buffer->valid.bytes;
	s->evicting = false;
}

/* Now it is for a task that has a lane, or for none. */
static void came_for(struct store *s)
{
	if (s->ahead)
		device_of(s)->aheads--;
	s->ahead = false;
}

void store_drop(struct store *s)
{
	struct device *d = device_of(s);
	struct store **p = &s->buffer->stores;

	evict_end(s);
	came_for(s);
	lru_remove(s);
	/* Its device is lost. */
	if (s->pins)
		quota_let_go(s, true);
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	residency_drop(&s->buffer->valid, s->place);
	d->sim->version++;
	d->used -= s->buffer->valid.bytes;
	if (d->hungry)
		sim_set(d->sim, &d->feed, d->sim->now);
	free(s);
}

void store_settle(struct store *s)
{
	struct device *d;
	uint64_t start, end;

	if (s->place == PLACE_HOST || s->pins || s->arriving || s->leaving)
		return;
	d = device_of(s);
	if (s->buffer->app->ended) {
		store_drop(s);
	} else if (s->evicting) {
		/* What was written back may have been copied from here in vain. */
		if (!residency_sole(&s->buffer->valid, 0, s->place, &start, &end)) {
			d->sim->r->devices[d->index].evicted += s->buffer->valid.bytes;
			store_drop(s);
		} else {
			evict_end(s);
			lru_add(s);
		}
	} else if (d->hungry) {
		/* It can be evicted now. */
		sim_set(d->sim, &d->feed, d->sim->now);
	}
}

void stores_stale(struct buffer *b)
{
	struct store *s = b->stores, *next;

	for (; s; s = next) {
		next = s->next;
		if (!s->pins && !s->arriving && !s->leaving &&
		    !residency_valid(&b->valid, 0, b->valid.bytes, s->place))
			store_drop(s);
	}
}

void store_distrust(struct store *s, uint64_t seq)
{
	if (s->place == PLACE_HOST || store_is_trusted(s, seq) || s->arriving || s->leaving)
		return;
	residency_drop(&s->buffer->valid, s->place);
	/* What comes now is what all that were submitted have to see. */
	s->until = graph_last_seq(s->buffer->app->sim->graph);
	device_of(s)->sim->version++;
}

static void pin(struct store *s)
{
	if (s->place == PLACE_HOST || s->pins++)
		return;
	quota_hold(s);
	came_for(s);
	evict_end(s);
	lru_remove(s);
}

static void unpin(struct store *s)
{
	if (s->place == PLACE_HOST || --s->pins)
		return;
	quota_let_go(s, true);
	if (s->buffer->app->conf->plain)
		s->until = graph_last_seq(s->buffer->app->sim->graph);
	lru_add(s);
	store_settle(s);
}

/* ------------------------------------------------------------------ */
/* What is used next, as in daemon/memory                              */

#define FULL(d, part)	((d)->used >= (d)->conf->memory / 16 * (part))

bool device_is_full(const struct device *d)
{
	return d->place != PLACE_HOST && (d->full || FULL(d, 15));
}

void stores_will_use(struct app *a, const struct sim_task *t, uint64_t seq)
{
	const struct sim_range *r = &a->conf->ranges[t->first_range];

	for (uint32_t i = 0; i < t->nr_ranges && t->kernel != SIM_HOST; i++)
		if (!upcoming_add(&a->buffers[r[i].buffer].upcoming, r[i].offset,
				  r[i].offset + r[i].length, seq))
			sim_stop(a->sim, -ENOMEM, "out of memory");
}

void stores_have_used(struct app *a, const struct sim_task *t, uint64_t seq)
{
	const struct sim_range *r = &a->conf->ranges[t->first_range];

	for (uint32_t i = 0; i < t->nr_ranges && t->kernel != SIM_HOST; i++)
		upcoming_remove(&a->buffers[r[i].buffer].upcoming, r[i].offset,
				r[i].offset + r[i].length, seq);
}

static void foresee(void *arg, struct graph_node *node)
{
	const struct sim_task *t;
	struct app *a = app_of(arg, node, &t);

	stores_will_use(a, t, node->seq);
}

void stores_foresee(struct sim *sim)
{
	if (sim->foresees)
		return;
	sim->foresees = true;
	graph_each_live(sim->graph, foresee, sim);
}

/* ------------------------------------------------------------------ */

static struct store *find_ahead(struct device *d)
{
	struct store *s = d->lru.lru_next;

	while (s != &d->lru && (!s->ahead || s->arriving || s->leaving))
		s = s->lru_next;
	return s == &d->lru ? NULL : s;
}

/*
 * What came for tasks that have no lane; then of those that are used last, or not at all, the one
 * that was not used for longest.
 */
static struct store *choose_victim(struct device *d)
{
	struct store *victim = d->aheads ? find_ahead(d) : NULL;
	uint64_t next, last = 0;

	if (victim)
		return victim;
	for (struct store *s = d->lru.lru_next; s != &d->lru; s = s->lru_next) {
		if (s->arriving || s->leaving)
			continue;
		next = upcoming_next(&s->buffer->upcoming, 0, s->buffer->valid.bytes);
		if (!victim || next > last) {
			victim = s;
			last = next;
		}
		if (last == UPCOMING_NEVER)
			break;
	}
	return victim;
}

/* Begins to make room for @need bytes; what is clean goes at once. */
static void evict(struct device *d, uint64_t need)
{
	struct store *s;
	uint64_t start, end = 0;

	d->full = true;
	stores_foresee(d->sim);
	while (need > d->conf->memory - d->used + d->evicting && (s = choose_victim(d))) {
		if (!residency_sole(&s->buffer->valid, 0, s->place, &start, &end)) {
			d->sim->r->devices[d->index].evicted += s->buffer->valid.bytes;
			store_drop(s);
			continue;
		}
		lru_remove(s);
		s->evicting = true;
		d->evicting += s->buffer->valid.bytes;
		do {
			copy_start(d->sim, s, &s->buffer->host, start, end);
		} while (residency_sole(&s->buffer->valid, end, s->place, &start, &end));
	}
}

/* Of ranges in one buffer the first has its store; returns its index. */
static uint32_t first_of(const struct run *run, uint32_t i)
{
	uint32_t k = 0;

	while (run->ranges[k].buffer != run->ranges[i].buffer)
		k++;
	return k;
}

static struct store *make_store(struct device *d, struct buffer *b)
{
	struct store *s = malloc(sizeof(*s));
	struct sim_device_result *r = &d->sim->r->devices[d->index];

	if (!s) {
		sim_stop(d->sim, -ENOMEM, "out of memory");
		return NULL;
	}
	store_init(s, b, d->place);
	s->next = b->stores;
	b->stores = s;
	d->used += b->valid.bytes;
	if (r->peak_bytes < d->used)
		r->peak_bytes = d->used;
	if (FULL(d, 12))
		stores_foresee(d->sim);
	return s;
}

struct store *store_spare(struct device *d, struct buffer *b)
{
	struct store *s;

	if (b->valid.bytes > d->conf->memory - d->used)
		return NULL;
	s = make_store(d, b);
	if (s)
		lru_add(s);
	return s;
}

static bool make_stores(struct run *run)
{
	struct device *d = run->device;

	for (uint32_t i = 0; i < run->task->nr_ranges; i++) {
		struct buffer *b = &run->app->buffers[run->ranges[i].buffer];
		struct store *s;

		if (run->stores[i] || first_of(run, i) != i)
			continue;
		s = make_store(d, b);
		if (!s)
			return false;
		s->pins = 1;
		quota_hold(s);
		run->stores[i] = s;
	}
	return true;
}

bool run_reserve(struct run *run)
{
	struct device *d = run->device;
	uint32_t place = d ? d->place : PLACE_HOST, n = run->task->nr_ranges;
	uint64_t need = 0;
	bool ok = true;

	for (uint32_t i = 0; i < n; i++) {
		struct buffer *b = &run->app->buffers[run->ranges[i].buffer];

		run->stores[i] = store_find(b, place);
		if (first_of(run, i) != i)
			continue;
		if (run->stores[i] && run->app->conf->plain)
			store_distrust(run->stores[i], run->node->seq);
		if (run->stores[i])
			pin(run->stores[i]);
		else
			need += b->valid.bytes;
	}
	if (need && need > d->conf->memory - d->used) {
		evict(d, need);
		ok = need <= d->conf->memory - d->used;
	}
	if (ok && need)
		ok = make_stores(run);
	if (!ok) {
		/* Nothing has changed for those that wait, so they are not told. */
		for (uint32_t i = 0; i < n; i++) {
			struct store *s = run->stores[i];

			if (s && s->place && first_of(run, i) == i && !--s->pins) {
				quota_let_go(s, false);
				lru_add(s);
			}
		}
		return false;
	}
	run->pinned = true;
	for (uint32_t i = 0; i < n; i++)
		run->stores[i] = run->stores[first_of(run, i)];
	return true;
}

void run_unpin(struct run *run)
{
	if (!run->pinned)
		return;
	run->pinned = false;
	for (uint32_t i = 0; i < run->task->nr_ranges; i++) {
		if (run->stores[i] && first_of(run, i) == i)
			unpin(run->stores[i]);
	}
}

bool app_buffers_make(struct sim *sim, struct app *a)
{
	a->buffers = calloc(a->conf->nr_buffers + 1, sizeof(*a->buffers));
	if (!a->buffers)
		return false;
	for (uint32_t i = 0; i < a->conf->nr_buffers; i++) {
		struct buffer *b = &a->buffers[i];

		b->app = a;
		b->upcoming.random = (uint64_t)a->index << 32 | i;
		store_init(&b->host, b, PLACE_HOST);
		if (!residency_init(&b->valid, a->conf->buffers[i], sim->sc->nr_devices + 1))
			return false;
	}
	return true;
}

void app_buffers_free(struct app *a)
{
	for (uint32_t i = 0; a->buffers && i < a->conf->nr_buffers; i++) {
		while (a->buffers[i].stores)
			store_drop(a->buffers[i].stores);
		upcoming_clear(&a->buffers[i].upcoming);
		residency_fini(&a->buffers[i].valid);
	}
	free(a->buffers);
	a->buffers = NULL;
}

void app_buffers_drop(struct app *a)
{
	a->ended = true;
	for (uint32_t i = 0; i < a->conf->nr_buffers; i++) {
		struct store *s = a->buffers[i].stores, *next;

		for (; s; s = next) {
			next = s->next;
			store_settle(s);
		}
	}
	if (!a->copies)
		app_buffers_free(a);
}
