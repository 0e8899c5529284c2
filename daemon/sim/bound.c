// SPDX-License-Identifier: MIT
/*
 * bound.c - what no schedule of a scenario can beat
 *
 * The path: the same programs on the same graph with as many devices as there are tasks, each
 * the fastest for its task, and nothing to copy.
 *
 * The area: all tasks cut into pieces at will and spread over the kinds of device so that all
 * end together.  That is a linear program; any prices on the kinds, of which a second of
 * the whole machine costs one, give a bound from below by duality: the work, each task where
 * it is cheapest.  The best prices are searched for two kinds at a time; with two kinds in
 * all they are found, with more the bound may be a little low, but never wrong.
 */
#include <errno.h>
#include <float.h>
#include <stdlib.h>

#include "daemon/sim/internal.h"
#include "daemon/sim/rng.h"

/* ------------------------------------------------------------------ */
/* Path                                                                */

struct path_app {
	struct event ev;
	uint32_t next, outstanding, blocked;
};

/* A slot's task. */
struct path_task {
	struct event ev;
	struct graph_node *node;
	uint32_t index;
};

struct path {
	const struct scenario *sc;
	struct graph *graph;
	struct events events;
	struct path_app *apps;
	struct path_task *tasks;
	uint32_t *slots, free_slots;
	uint64_t now, generation;
	int err;
};

static double fastest_ns(const struct scenario *sc, const struct sim_task *t, uint32_t app,
			 uint64_t index)
{
	double best = 0, ns;

	if (t->kernel == SIM_HOST)
		return (double)t->work;
	for (uint32_t k = 0; k < sc->nr_kinds; k++) {
		ns = scenario_cost_ns(sc, t->kernel, k, t->work);
		if (ns > 0 && (best <= 0 || ns < best))
			best = ns;
	}
	if (sc->jitter > 0)
		best *= 1 + sc->jitter * (2 * rng_unit(rng_hash(sc->seed + 1, app, index)) - 1);
	return best;
}

static void path_submit(struct path *p, uint32_t app)
{
	const struct sim_app *c = &p->sc->work.apps[app];
	struct path_app *a = &p->apps[app];
	struct {
		struct arax_dispatch d;
		struct arax_dispatch_range r[ARAX_MAX_RANGES];
	} e;

	while (a->next < c->nr_tasks && a->outstanding < c->window && a->blocked == SIM_ANY) {
		const struct sim_task *t = &c->tasks[a->next];
		uint64_t due = c->arrive_ns + t->after_ns;
		uint32_t slot;

		if (due > p->now) {
			p->err = event_set(&p->events, &a->ev, due);
			return;
		}
		slot = p->slots[--p->free_slots];
		e.d = (struct arax_dispatch){
			.type = ARAX_DISPATCH_TASK, .opcode = ARAX_OP_LAUNCH,
			.cells = (uint16_t)(2 + (t->nr_ranges * sizeof(e.r[0]) + 63) / 64),
			.tag = 1ull << 48 | (p->generation++ & 0xffffff) << 24 | slot,
			.context = app + 1, .queue = 1, .queue_flags = ARAX_QUEUE_DATAFLOW,
			.nr_ranges = t->nr_ranges, .user_data = a->next,
		};
		for (uint32_t i = 0; i < t->nr_ranges; i++) {
			const struct sim_range *r = &c->ranges[t->first_range + i];

			e.d.access |= (uint64_t)r->access << 2 * i;
			e.r[i] = (struct arax_dispatch_range){
				.buffer = (uint64_t)app << 32 | (r->buffer + 1),
				.offset = r->offset, .length = r->length, .count = 1,
			};
		}
		p->tasks[slot].index = a->next;
		p->err = graph_add(p->graph, &e.d);
		if (p->err)
			return;
		if (t->sync)
			a->blocked = a->next;
		a->next++;
		a->outstanding++;
	}
}

static void path_app_fire(void *arg, struct event *e)
{
	struct path *p = arg;

	path_submit(p, (uint32_t)(owner_of(e, struct path_app, ev) - p->apps));
}

static void path_task_fire(void *arg, struct event *e)
{
	struct path *p = arg;
	struct path_task *t = owner_of(e, struct path_task, ev);
	uint32_t app = t->node->d.context - 1, unused;

	graph_complete(p->graph, t->node, 0, &unused);
	p->slots[p->free_slots++] = (uint32_t)(t - p->tasks);
	p->apps[app].outstanding--;
	if (p->apps[app].blocked == t->index)
		p->apps[app].blocked = SIM_ANY;
	path_submit(p, app);
}

static void path_start(struct path *p)
{
	struct graph_node *n;

	while (!p->err && (n = graph_pop_ready(p->graph))) {
		uint32_t app = n->d.context - 1;
		struct path_task *t = &p->tasks[ARAX_TAG_SLOT(n->d.tag)];
		const struct sim_task *st = &p->sc->work.apps[app].tasks[t->index];

		graph_start(p->graph, n);
		t->node = n;
		t->ev.fire = path_task_fire;
		p->err = event_set(&p->events, &t->ev,
				   p->now + event_ns(fastest_ns(p->sc, st, app, t->index)));
	}
}

static int path_run(struct path *p, uint64_t *ns)
{
	const struct workload *w = &p->sc->work;
	struct event *e;
	uint64_t n = 1;

	for (uint32_t i = 0; i < w->nr; i++)
		n += w->apps[i].window < w->apps[i].nr_tasks ? w->apps[i].window :
							      w->apps[i].nr_tasks;
	if (n > 1u << 24)
		return -ENOSPC;
	p->apps = calloc(w->nr + 1, sizeof(*p->apps));
	p->tasks = calloc(n, sizeof(*p->tasks));
	p->slots = malloc(n * sizeof(*p->slots));
	p->graph = graph_create(&(struct graph_params){ .slots = (uint32_t)n });
	if (!p->apps || !p->tasks || !p->slots || !p->graph)
		return -ENOMEM;
	for (; p->free_slots < n; p->free_slots++)
		p->slots[p->free_slots] = (uint32_t)(n - 1) - p->free_slots;
	for (uint32_t i = 0; i < w->nr; i++) {
		p->apps[i].ev.fire = path_app_fire;
		p->apps[i].blocked = SIM_ANY;
		p->err = event_set(&p->events, &p->apps[i].ev, w->apps[i].arrive_ns);
		if (p->err)
			return p->err;
	}
	while (!p->err && (e = event_next(&p->events))) {
		p->now = e->time;
		e->fire(p, e);
		path_start(p);
	}
	*ns = p->now;
	return p->err;
}

/* ------------------------------------------------------------------ */
/* Area                                                                */

/* All tasks of a kernel with the same work; @ns on each kind, of the whole device. */
struct load {
	struct load *next;
	uint64_t work, count;
	uint16_t kernel;
	double ns[SIM_MAX_KINDS];
};

struct area {
	const struct scenario *sc;
	struct load **buckets;
	uint32_t mask;
	double size[SIM_MAX_KINDS];	/* devices of each kind */
	double price[SIM_MAX_KINDS];
};

static int area_load(struct area *a)
{
	const struct scenario *sc = a->sc;

	a->mask = (1u << 16) - 1;
	a->buckets = calloc(a->mask + 1, sizeof(*a->buckets));
	if (!a->buckets)
		return -ENOMEM;
	for (uint32_t i = 0; i < sc->work.nr; i++) {
		const struct sim_app *app = &sc->work.apps[i];

		for (uint32_t k = 0; k < app->nr_tasks; k++) {
			const struct sim_task *t = &app->tasks[k];
			struct load **p, *l;

			if (t->kernel == SIM_HOST)
				continue;
			p = &a->buckets[rng_hash(t->work, t->kernel, 0) & a->mask];
			while (*p && ((*p)->work != t->work || (*p)->kernel != t->kernel))
				p = &(*p)->next;
			if (*p) {
				(*p)->count++;
				continue;
			}
			l = calloc(1, sizeof(*l));
			if (!l)
				return -ENOMEM;
			*l = (struct load){ .work = t->work, .count = 1, .kernel = t->kernel };
			for (uint32_t d = 0; d < sc->nr_kinds; d++)
				l->ns[d] = scenario_cost_ns(sc, t->kernel, d, t->work) *
					   sc->kernels[t->kernel].cost[d].demand *
					   (1 - sc->jitter);
			*p = l;
		}
	}
	return 0;
}

/* What all of the work costs at these prices: a bound in ns. */
static double area_value(const struct area *a)
{
	double sum = 0;

	for (uint32_t i = 0; i <= a->mask; i++) {
		for (const struct load *l = a->buckets[i]; l; l = l->next) {
			double least = 0;

			for (uint32_t k = 0; k < a->sc->nr_kinds; k++) {
				double cost = l->ns[k] * a->price[k];

				if (a->size[k] > 0 && l->ns[k] > 0 && (least <= 0 || cost < least))
					least = cost > 0 ? cost : DBL_MIN;
			}
			sum += least * (double)l->count;
		}
	}
	return sum;
}

/* Shifts the price between two kinds, their sum as it is. */
static double area_shift(struct area *a, uint32_t x, uint32_t y)
{
	double all = a->price[x] * a->size[x] + a->price[y] * a->size[y];
	double low = 0, high = 1, left, right;

	for (int i = 0; i < 40; i++) {
		double m1 = low + (high - low) / 3, m2 = high - (high - low) / 3;

		a->price[x] = all * m1 / a->size[x];
		a->price[y] = all * (1 - m1) / a->size[y];
		left = area_value(a);
		a->price[x] = all * m2 / a->size[x];
		a->price[y] = all * (1 - m2) / a->size[y];
		right = area_value(a);
		if (left < right)
			low = m1;
		else
			high = m2;
	}
	return area_value(a);
}

static double area_best(struct area *a)
{
	const struct scenario *sc = a->sc;
	uint32_t kinds = 0;
	double best, value;

	for (uint32_t i = 0; i < sc->nr_devices; i++)
		a->size[sc->devices[i].kind]++;
	for (uint32_t k = 0; k < sc->nr_kinds; k++)
		kinds += a->size[k] > 0;
	for (uint32_t k = 0; k < sc->nr_kinds; k++)
		a->price[k] = a->size[k] > 0 ? 1 / (a->size[k] * kinds) : 0;
	best = area_value(a);
	for (int sweep = 0; sweep < (kinds > 2 ? 4 : 1); sweep++)
		for (uint32_t x = 0; x < sc->nr_kinds; x++)
			for (uint32_t y = x + 1; y < sc->nr_kinds; y++) {
				if (a->size[x] <= 0 || a->size[y] <= 0)
					continue;
				value = area_shift(a, x, y);
				best = value > best ? value : best;
			}
	return best;
}

/* ------------------------------------------------------------------ */

int sim_bound(const struct scenario *sc, struct sim_bound *bound, char *error, size_t len)
{
	struct path path = { .sc = sc };
	struct area area = { .sc = sc };
	int err = path_run(&path, &bound->path_ns);

	free(path.apps);
	free(path.tasks);
	free(path.slots);
	free(path.events.heap);
	graph_destroy(path.graph);
	if (!err)
		err = area_load(&area);
	if (!err)
		bound->area_ns = event_ns(area_best(&area));
	for (uint32_t i = 0; area.buckets && i <= area.mask; i++) {
		while (area.buckets[i]) {
			struct load *next = area.buckets[i]->next;

			free(area.buckets[i]);
			area.buckets[i] = next;
		}
	}
	free(area.buckets);
	if (err)
		snprintf(error, len, "%s", err == -ENOSPC ?
			 "more tasks are outstanding than the graph has slots: use smaller windows" :
			 err == -EOVERFLOW ? EVENT_TOO_LATE : "out of memory");
	return err;
}
