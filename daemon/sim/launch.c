// SPDX-License-Identifier: MIT
/* launch.c - a task from its pick to its end, and devices that die meanwhile */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sim/internal.h"
#include "daemon/sim/rng.h"

/* ------------------------------------------------------------------ */
/* Waiting                                                             */

static void wait_for(struct run *run, uint32_t i, struct waiter *list)
{
	struct waiter *w = &run->waits[i];

	if (w->next)
		return;
	w->run = run;
	w->next = list;
	w->prev = list->prev;
	w->prev->next = w;
	list->prev = w;
	run->pending++;
}

static void waiter_remove(struct waiter *w)
{
	w->next->prev = w->prev;
	w->prev->next = w->next;
	w->next = NULL;
}

static void wait_no_more(struct run *run)
{
	for (uint32_t i = 0; i < run->task->nr_ranges; i++)
		if (run->waits[i].next)
			waiter_remove(&run->waits[i]);
	run->pending = 0;
}

void run_wake(struct waiter *list)
{
	struct waiter woken = { .next = &woken, .prev = &woken };

	if (list->next == list)
		return;
	/* Who looks anew may come back to the list: so not from there. */
	woken.next = list->next;
	woken.prev = list->prev;
	woken.next->prev = &woken;
	woken.prev->next = &woken;
	list->next = list;
	list->prev = list;
	while (woken.next != &woken) {
		struct run *run = woken.next->run;

		waiter_remove(woken.next);
		if (!--run->pending)
			run_stage(run);
	}
}

/* ------------------------------------------------------------------ */
/* Running                                                             */

static void device_set(struct device *d)
{
	uint64_t next = share_next(&d->compute);

	if (next == EVENT_NEVER)
		event_cancel(&d->sim->events, &d->done);
	else
		sim_set(d->sim, &d->done, next);
}

static void bins_fold(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->sc->nr_devices; i++) {
		double *b = sim->r->devices[i].bins;

		for (uint32_t k = 0; k < SIM_BINS; k++)
			b[k] = k < SIM_BINS / 2 ? b[2 * k] + b[2 * k + 1] : 0;
	}
	sim->r->bin_ns *= 2;
}

void device_book(struct device *d)
{
	struct sim *sim = d->sim;
	double *bins = sim->r->devices[d->index].bins, used, each;
	uint64_t at = d->seen_at, end;

	share_advance(&d->compute, sim->now);
	used = d->compute.used - d->used_seen;
	d->used_seen = d->compute.used;
	d->seen_at = sim->now;
	if (used <= 0)
		return;
	while (sim->now > sim->r->bin_ns * SIM_BINS)
		bins_fold(sim);
	/* Between two changes it was used evenly. */
	each = used / (double)(sim->now - at);
	for (; at < sim->now; at = end) {
		end = (at / sim->r->bin_ns + 1) * sim->r->bin_ns;
		end = end < sim->now ? end : sim->now;
		bins[at / sim->r->bin_ns] += each * (double)(end - at);
	}
}

double run_used(const struct run *run)
{
	return run->job.demand *
	       share_had(&run->device->compute, &run->job, run->alone_ns, run->sim->now);
}

static uint64_t draw(const struct run *run, uint64_t seed)
{
	return rng_hash(seed, run->app->index,
			(uint64_t)(run->task - run->app->conf->tasks));
}

static void compute(struct run *run)
{
	struct device *d = run->device;
	const struct scenario *sc = run->sim->sc;
	const struct sim_cost *c = &sc->kernels[run->task->kernel].cost[d->conf->kind];

	run->alone_ns = scenario_cost_ns(sc, run->task->kernel, d->conf->kind, run->task->work);
	if (sc->jitter > 0)
		run->alone_ns *= 1 + sc->jitter * (2 * rng_unit(draw(run, sc->seed + 1)) - 1);
	run->start_ns = run->sim->now;
	run->running = true;
	device_book(d);
	share_add(&d->compute, &run->job, run->alone_ns, c->demand, run->sim->now);
	device_set(d);
	run_look_ahead(run);
}

/* Less than a demand that can be told from none. */
#define FULL_NEARLY	1e-6

/*
 * Of the first one's program the run that is due first, and it goes by that one, which waits on in
 * its place.  Whose turn it is among programs has been decided, and no priority gets one more than that.
 */
static struct run *take_held(struct device *d)
{
	struct run *first = d->held, **at = &d->held, *run;

	for (struct run **p = at; *p; p = &(*p)->held)
		if ((*p)->app == first->app && sched_is_due_before((*p)->node, (*at)->node))
			at = p;
	run = *at;
	if (first == run || first->held == run) {
		*at = run->held;
		return run;
	}
	d->held = first->held;
	*at = first;
	first->held = run->held;
	return run;
}

/*
 * What a kernel would gain that begins on a full device the others would lose.  So it waits, as it does
 * in araxd (daemon/backends/line.c), and one that is more urgent may come before it.
 */
static void begin_held(struct device *d)
{
	while (d->held && d->compute.load < 1 - FULL_NEARLY)
		compute(take_held(d));
}

static void hold(struct run *run)
{
	struct run **last = &run->device->held;

	while (*last)
		last = &(*last)->held;
	run->held = NULL;
	*last = run;
	begin_held(run->device);
}

static void host_fire(void *arg, struct event *e)
{
	task_end(owner_of(e, struct run, ev), 0);
}

static void device_fire(void *arg, struct event *e)
{
	struct device *d = owner_of(e, struct device, done);
	struct sim *sim = arg;
	struct share_job *j;

	device_book(d);
	while ((j = share_pop(&d->compute, sim->now))) {
		struct run *run = owner_of(j, struct run, job);
		/* No other seed's run times: seeds are below 2^63. */
		bool failed = sim->sc->fail > 0 &&
			      rng_unit(draw(run, ~sim->sc->seed)) < sim->sc->fail;

		run->running = false;
		sim->r->devices[d->index].tasks++;
		sim->r->tenants[run->app->conf->tenant].used_ns += run->alone_ns * run->job.demand;
		if (failed || d->place == PLACE_HOST || !run->app->conf->plain)
			task_end(run, failed ? -EIO : 0);
		else
			run_leave(run);
	}
	begin_held(d);
	device_set(d);
}

/*
 * One of the peers that hold the piece; if it can be, one that no other copies from: as in araxd, where
 * two that want the same don't halve a link, but the second one has two to copy from.
 */
static struct device *find_peer(const struct run *run, const struct residency *r, uint64_t start)
{
	struct device *best = NULL;

	for (uint32_t i = 0; run->device && run->device->conf->peers &&
			     i < run->sim->sc->nr_devices; i++) {
		struct device *d = &run->sim->devices[i];

		if (are_peers(run->sim, run->device, d->place) &&
		    residency_valid(r, start, 1, d->place) && (!best || d->lent < best->lent))
			best = d;
	}
	return best;
}

/*
 * What isn't there of [@at, @last) of range @i; False: bytes are lost.  @host_busy: copies to the host
 * were on their way already, and may bring just this.
 */
static bool fetch(struct run *run, uint32_t i, uint64_t at, uint64_t last, bool host_busy)
{
	struct store *to = run->stores[i], *host = &to->buffer->host;
	struct device *peer;
	uint64_t start, end;
	uint32_t source;

	while (residency_missing(&to->buffer->valid, at, last - at, to->place, &start, &end,
				 &source)) {
		at = end;
		if (source == PLACE_NONE)
			return false;
		if (source == PLACE_HOST) {
			copy_start(run->sim, host, to, start, end);
			wait_for(run, i, &to->waiters);
			continue;
		}
		peer = find_peer(run, &to->buffer->valid, start);
		if (peer && peer->lent) {
			wait_for(run, i, &peer->borrowers);
			continue;
		}
		if (peer) {
			copy_start(run->sim, store_find(to->buffer, peer->place), to, start, end);
			wait_for(run, i, &to->waiters);
			continue;
		}
		/* By way of the host. */
		if (!host_busy)
			copy_start(run->sim, store_find(to->buffer, source), host, start, end);
		wait_for(run, i, &host->waiters);
	}
	return true;
}

/*
 * The same but for what the ranges before @k cover, which is on its way for them: a task may read bytes
 * by several ranges, and they come once.
 */
static bool fetch_rest(struct run *run, uint32_t i, uint32_t k, uint64_t at, uint64_t last,
		       bool host_busy)
{
	while (k--) {
		const struct sim_range *r = &run->ranges[k];
		uint64_t end = r->offset + r->length;

		if (!(r->access & ARAX_IN) || r->buffer != run->ranges[i].buffer ||
		    r->offset >= last || end <= at)
			continue;
		return (at >= r->offset || fetch_rest(run, i, k, at, r->offset, host_busy)) &&
		       (end >= last || fetch_rest(run, i, k, end, last, host_busy));
	}
	return fetch(run, i, at, last, host_busy);
}

void run_stage(struct run *run)
{
	bool busy[ARAX_MAX_RANGES], host_busy[ARAX_MAX_RANGES];
	uint32_t n = run->task->nr_ranges;

	/* Before its own copies begin: those are no reason for it to wait with others. */
	for (uint32_t i = 0; i < n; i++) {
		busy[i] = run->stores[i]->arriving;
		host_busy[i] = run->stores[i]->buffer->host.arriving;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct sim_range *r = &run->ranges[i];

		if (!(r->access & ARAX_IN))
			continue;
		if (busy[i]) {
			wait_for(run, i, &run->stores[i]->waiters);
		} else if (!fetch_rest(run, i, i, r->offset, r->offset + r->length,
				       host_busy[i])) {
			wait_no_more(run);
			task_end(run, -EIO);
			return;
		}
	}
	if (run->pending)
		return;
	if (run->device) {
		hold(run);
		return;
	}
	run->start_ns = run->sim->now;
	sim_set(run->sim, &run->ev, run->sim->now + run->task->work);
}

/* Its memory is its own. */
static void run_enter(struct run *run)
{
	if (run->app->quota)
		quota_entered(run);
	run_stage(run);
}

void run_give_back(struct run *run)
{
	struct sim *sim = run->sim;

	run->next->prev = run->prev;
	run->prev->next = run->next;
	sched_finish(sim->sched, run->node, sim->now - run->start_ns, false);
	run->next = sim->free_runs;
	sim->free_runs = run;
	sim->changed = true;
}

static void feed(void *arg, struct event *e)
{
	struct device *d = owner_of(e, struct device, feed);

	while (d->hungry) {
		struct run *run = d->hungry;
		bool may = quota_admits(run);

		if (may && !run_reserve(run))
			return;
		d->hungry = run->hungry;
		if (!d->hungry)
			d->hungry_last = &d->hungry;
		if (may)
			run_enter(run);
		else
			quota_wait(run);
	}
}

void run_begin(struct sim *sim, struct graph_node *node, struct device *d)
{
	struct run *run = sim->free_runs;

	if (run)
		sim->free_runs = run->next;
	else
		run = malloc(sizeof(*run));
	if (!run) {
		sim_stop(sim, -ENOMEM, "out of memory");
		return;
	}
	*run = (struct run){ .sim = sim, .node = node, .device = d };
	if (sim->nr_coming)
		before_forget(sim, node);
	run->app = app_of(sim, node, &run->task);
	run->ranges = &run->app->conf->ranges[run->task->first_range];
	run->ev.fire = host_fire;
	run->start_ns = sim->now;
	run->next = d ? &d->runs : &sim->host_runs;
	run->prev = run->next->prev;
	run->prev->next = run;
	run->next->prev = run;
	if (!quota_admits(run)) {
		quota_wait(run);
		return;
	}
	/* Those who wait for memory come first, or a large task would wait for ever. */
	if ((d && d->hungry) || !run_reserve(run)) {
		*d->hungry_last = run;
		d->hungry_last = &run->hungry;
	} else {
		run_enter(run);
	}
}

/* ------------------------------------------------------------------ */
/* Loss                                                                */

static void drop_stores(struct device *d)
{
	struct sim *sim = d->sim;
	uint64_t start, end;

	for (uint32_t a = 0; a < sim->sc->work.nr; a++) {
		struct app *app = &sim->apps[a];

		for (uint32_t i = 0; app->buffers && i < app->conf->nr_buffers; i++) {
			struct store *s = store_find(&app->buffers[i], d->place);

			if (!s)
				continue;
			for (end = 0; residency_sole(&s->buffer->valid, end, d->place, &start,
						     &end);)
				sim->r->lost_bytes += end - start;
			store_drop(s);
		}
	}
}

/* What waits for a lane that no device has any more fails, as in araxd: run_refuse_stranded(). */
static void refuse_stranded(struct sim *sim)
{
	for (uint32_t slot = 0; slot < sim->nr_slots && sched_queued(sim->sched); slot++) {
		struct graph_node *node = graph_at(sim->graph, slot);

		if (!node || graph_node_state(node) != GRAPH_POPPED || !node->sched.flow ||
		    task_can_run(sim, node))
			continue;
		sched_remove(sim->sched, node);
		task_refuse(sim, node);
	}
}

void device_lose(void *arg, struct event *e)
{
	struct device *d = owner_of(e, struct device, loss);
	struct sim *sim = arg;
	struct copy *copies = NULL;
	struct run *run;

	device_book(d);
	sim->briefs[d->index].kinds = 0;
	sim->changed = true;
	sched_device_set(sim->sched, d->index, 0);
	event_cancel(&sim->events, &d->done);
	d->hungry = NULL;
	d->held = NULL;
	d->hungry_last = &d->hungry;
	for (run = d->runs.next; run != &d->runs; run = run->next) {
		wait_no_more(run);
		if (!run->running)
			continue;
		/* In vain, but the tenant had it. */
		sim->r->tenants[run->app->conf->tenant].used_ns += run_used(run);
		run->running = false;
		share_remove(&d->compute, &run->job, sim->now);
	}
	before_lost(d);
	if (d->place != PLACE_HOST) {
		copies = copies_take(d);
		drop_stores(d);
	}
	while ((run = d->runs.next) != &d->runs) {
		run->next->prev = &d->runs;
		d->runs.next = run->next;
		sched_finish(sim->sched, run->node, sim->now - run->start_ns, false);
		graph_stop(sim->graph, run->node);
		run->node->losses = 1;
		task_queue(sim, run->node);
		run->next = sim->free_runs;
		sim->free_runs = run;
	}
	copies_lost(sim, copies);
	refuse_stranded(sim);
}

void device_init(struct sim *sim, struct device *d, uint32_t index)
{
	const struct scenario *sc = sim->sc;

	d->sim = sim;
	d->conf = &sc->devices[index];
	d->index = index;
	d->place = d->conf->link == SIM_ANY ? PLACE_HOST : index + 1;
	d->done.fire = device_fire;
	d->loss.fire = device_lose;
	d->feed.fire = feed;
	d->lru.lru_next = &d->lru;
	d->lru.lru_prev = &d->lru;
	d->runs.next = &d->runs;
	d->runs.prev = &d->runs;
	d->hungry_last = &d->hungry;
	d->borrowers.next = &d->borrowers;
	d->borrowers.prev = &d->borrowers;
	if (d->place != PLACE_HOST) {
		struct wire *w = &sim->wires[2 * d->conf->link];

		w[0].devices++;
		w[1].devices++;
		engine_init(&d->engines[TO_DEVICE], d, &w[0]);
		engine_init(&d->engines[TO_HOST], d,
			    &w[sc->links[d->conf->link].duplex ? 1 : 0]);
	}
	sim->briefs[index] = (struct brief){
		.kinds = 1u << d->conf->kind, .place = d->place, .memory = UINT64_MAX,
		.peers = d->conf->peers ? d->conf->kind + 1u : 0,
	};
	if (d->place != PLACE_HOST)
		sim->briefs[index].memory = d->conf->memory;
	/* Without a link of its own: what is on a device comes by that one's, say the first. */
	if (d->place != PLACE_HOST)
		sim->briefs[index].wire = d->engines[TO_DEVICE].wire;
	else if (sc->nr_links)
		sim->briefs[index].wire = &sim->wires[sc->links[0].duplex ? 1 : 0];
	if (d->conf->lost_ns != UINT64_MAX)
		sim_set(sim, &d->loss, d->conf->lost_ns);
}
