// SPDX-License-Identifier: MIT
/*
 * bound.c - what no schedule of a scenario can beat
 *
 * The path: the same programs on the same graph with as many devices as there are tasks, each
 * the fastest for its task, and nothing to copy.
 *
 * The area: all tasks cut into pieces at will and spread over the kinds of device so that all
 * end together (area.h).
 *
 * The mixed bound: the same, and the longest way through the graph is one task after the other,
 * wherever they run.  Not only of all tasks: those that can't begin before an instant, after each
 * of which there is so much to come, have all of their time between the two.  So it is looked
 * for over such pairs; a graph that is narrow at its beginning and its end, as a factorisation's
 * is, leaves devices idle there whatever one does.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sim/area.h"
#include "daemon/sim/dag.h"
#include "daemon/sim/internal.h"
#include "daemon/sim/ways.h"

/* Instants of each of the two that are tried; products that all of that may take. */
#define CUTS		32u
#define EFFORT		2e8
/* Programs of which all ways are looked at, the first ones: that takes up to a second each. */
#define WAYS_APPS	2u

/* ------------------------------------------------------------------ */
/* Path                                                                */

/* @ends: of each task, in a closed loop: there it comes earlier, too, where all is faster. */
struct path_app {
	struct event ev;
	uint32_t next, outstanding, blocked;
	uint64_t *ends;
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
	double *began;			/* each task of all programs */
	uint32_t *first_of;		/* where a program's begin there */
	int err;
};

static void path_submit(struct path *p, uint32_t app)
{
	const struct sim_app *c = &p->sc->work.apps[app];
	struct path_app *a = &p->apps[app];
	struct dispatch_room e;

	while (a->next < c->nr_tasks && a->outstanding < c->window && a->blocked == SIM_ANY) {
		const struct sim_task *t = &c->tasks[a->next];
		uint64_t due = app_due_ns(c, a->next, a->ends);
		uint32_t slot;

		if (due == UINT64_MAX)
			return;
		if (due > p->now) {
			p->err = event_set(&p->events, &a->ev, due);
			return;
		}
		slot = p->slots[--p->free_slots];
		dag_dispatch(&e, c, app, a->next, p->generation++, slot);
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
	if (p->apps[app].ends)
		p->apps[app].ends[t->index] = p->now ? p->now : 1;
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
		p->began[p->first_of[app] + t->index] = (double)p->now;
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
		if (w->apps[i].closed)
			p->apps[i].ends = calloc(w->apps[i].nr_tasks + 1ul,
						 sizeof(*p->apps[i].ends));
		if (w->apps[i].closed && !p->apps[i].ends)
			return -ENOMEM;
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
/* Mixed                                                               */

/**
 * struct mixed - all tasks
 * @head:	before this none can begin
 * @tail:	so long after its end there is more to do
 * @load:	which it is one of, or SIM_ANY: the host's
 */
struct mixed {
	uint32_t nr;
	double *head, *tail;
	uint32_t *load;
	struct area area;
	double heads[CUTS], tails[CUTS];
	uint32_t nr_heads, nr_tails;
	double *count;			/* by load, tail and head: that many or more */
};

static int mixed_tasks(struct mixed *m, const struct scenario *sc)
{
	double longest = 0;
	uint32_t chained = 0, n = 0;
	struct dag d, chain = { .first = SIM_ANY };
	int err = 0;

	for (uint32_t i = 0; !err && i < sc->work.nr; i++) {
		err = dag_make(sc, &sc->work.apps[i], i, &d);
		if (err)
			break;
		for (uint32_t k = 0; k < d.nr; k++)
			m->tail[n++] = d.tail[k];
		if (d.first != SIM_ANY && d.ns[d.first] + d.tail[d.first] > longest) {
			longest = d.ns[d.first] + d.tail[d.first];
			dag_fini(&chain);
			chain = d;
			chained = n - d.nr;
		} else {
			dag_fini(&d);
		}
	}
	for (uint32_t i = chain.first; !err && i != SIM_ANY; i = chain.next[i])
		m->load[chained + i] = 1;
	dag_fini(&chain);
	n = 0;
	for (uint32_t i = 0; !err && i < sc->work.nr; i++) {
		const struct sim_app *a = &sc->work.apps[i];

		for (uint32_t k = 0; !err && k < a->nr_tasks; k++, n++) {
			bool host = a->tasks[k].kernel == SIM_HOST;

			m->load[n] = host ? SIM_ANY : area_load(&m->area, &a->tasks[k], m->load[n]);
			if (!host && m->load[n] == SIM_ANY)
				err = -ENOMEM;
		}
	}
	return err;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* 0, and others, closer to each other where they are small. */
static uint32_t find_cuts(const double *of, uint32_t nr, uint32_t most, double *cuts)
{
	double *sorted = malloc((nr + 1ul) * sizeof(*sorted));
	uint32_t n = 1, different = 0;

	cuts[0] = 0;
	if (!sorted)
		return n;
	for (uint32_t i = 0; i < nr; i++)
		sorted[i] = of[i];
	qsort(sorted, nr, sizeof(*sorted), by_value);
	for (uint32_t i = 0; i < nr; i++)
		if (!different || sorted[i] > sorted[different - 1])
			sorted[different++] = sorted[i];
	for (uint32_t i = 1; i < most; i++) {
		/* What is narrow is the very beginning, or the end. */
		uint64_t at = (uint64_t)different * i * i / ((uint64_t)most * most);
		double cut = different ? sorted[at] : 0;

		if (cut > cuts[n - 1])
			cuts[n++] = cut;
	}
	free(sorted);
	return n;
}

/* The last one that is not above @value. */
static uint32_t cut_of(const double *cuts, uint32_t nr, double value)
{
	uint32_t i = nr - 1;

	while (i && cuts[i] > value)
		i--;
	return i;
}

static double *counts_at(const struct mixed *m, uint32_t head, uint32_t tail)
{
	return m->count + ((size_t)head * m->nr_tails + tail) * m->area.nr;
}

/* Of the tasks with at least these heads and tails, by load. */
static int count_loads(struct mixed *m)
{
	uint32_t nr = m->area.nr;

	m->count = calloc((size_t)m->nr_heads * m->nr_tails * nr + 1, sizeof(*m->count));
	if (!m->count)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->nr; i++)
		if (m->load[i] != SIM_ANY)
			counts_at(m, cut_of(m->heads, m->nr_heads, m->head[i]),
				  cut_of(m->tails, m->nr_tails, m->tail[i]))[m->load[i]]++;
	for (uint32_t h = m->nr_heads; h--;)
		for (uint32_t t = m->nr_tails; t--;)
			for (uint32_t l = 0; l < nr; l++) {
				double *c = counts_at(m, h, t);

				if (h + 1 < m->nr_heads)
					c[l] += counts_at(m, h + 1, t)[l];
				if (t + 1 < m->nr_tails)
					c[l] += counts_at(m, h, t + 1)[l];
				if (h + 1 < m->nr_heads && t + 1 < m->nr_tails)
					c[l] -= counts_at(m, h + 1, t + 1)[l];
			}
	return 0;
}

static int mixed_run(struct mixed *m, const struct scenario *sc, struct sim_bound *bound)
{
	double best = 0, area = 0, effort;
	uint32_t cuts = CUTS;
	int err = mixed_tasks(m, sc);

	if (err)
		return err;
	effort = area_effort(&m->area);
	while (cuts > 1 && cuts * cuts * effort > EFFORT)
		cuts--;
	m->nr_heads = find_cuts(m->head, m->nr, cuts, m->heads);
	m->nr_tails = find_cuts(m->tail, m->nr, cuts, m->tails);
	err = count_loads(m);
	if (err)
		return err;
	area = area_least_ns(&m->area, counts_at(m, 0, 0), false, 0);
	best = area;
	for (uint32_t h = 0; h < m->nr_heads; h++)
		for (uint32_t t = 0; t < m->nr_tails; t++) {
			double around = m->heads[h] + m->tails[t];
			double ns = area_least_ns(&m->area, counts_at(m, h, t), true,
						  best - around);

			/* Where there is no such task nothing has to come before or after it. */
			ns += ns > 0 ? around : 0;
			best = ns > best ? ns : best;
		}
	bound->area_ns = event_ns(area);
	bound->mixed_ns = event_ns(best);
	return 0;
}

/* ------------------------------------------------------------------ */

/* Any program's bound is one of all. */
static int ways_run(const struct scenario *sc, struct sim_bound *bound)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < sc->work.nr && i < WAYS_APPS; i++) {
		const struct sim_app *a = &sc->work.apps[i];
		double ns;

		err = ways_least_ns(sc, i, &ns);
		ns = ns * (1 - 1e-9) + (double)a->arrive_ns;
		if (!err && a->nr_tasks && event_ns(ns) > bound->ways_ns)
			bound->ways_ns = event_ns(ns);
	}
	return err;
}

uint64_t sim_bound_best(const struct sim_bound *b, const char **name)
{
	uint64_t best = b->path_ns > b->area_ns ? b->path_ns : b->area_ns;
	const char *which = b->path_ns > b->area_ns ? "critical path" : "area";

	if (b->mixed_ns > best) {
		best = b->mixed_ns;
		which = "mixed";
	}
	if (b->ways_ns > best) {
		best = b->ways_ns;
		which = "ways";
	}
	if (name)
		*name = which;
	return best;
}

int sim_bound(const struct scenario *sc, struct sim_bound *bound, char *error, size_t len)
{
	struct path path = { .sc = sc };
	struct mixed m = { 0 };
	int err = -ENOMEM;

	*bound = (struct sim_bound){ 0 };
	path.first_of = malloc((sc->work.nr + 1ul) * sizeof(*path.first_of));
	for (uint32_t i = 0; path.first_of && i < sc->work.nr; i++) {
		path.first_of[i] = m.nr;
		m.nr += sc->work.apps[i].nr_tasks;
	}
	m.head = calloc(m.nr + 1ul, sizeof(*m.head));
	m.tail = calloc(m.nr + 1ul, sizeof(*m.tail));
	m.load = calloc(m.nr + 1ul, sizeof(*m.load));
	path.began = m.head;
	if (path.first_of && m.head && m.tail && m.load && area_init(&m.area, sc))
		err = path_run(&path, &bound->path_ns);
	for (uint32_t i = 0; path.apps && i < sc->work.nr; i++)
		free(path.apps[i].ends);
	free(path.apps);
	free(path.tasks);
	free(path.slots);
	free(path.events.heap);
	free(path.first_of);
	graph_destroy(path.graph);
	if (!err)
		err = mixed_run(&m, sc, bound);
	if (!err)
		err = ways_run(sc, bound);
	area_fini(&m.area);
	free(m.head);
	free(m.tail);
	free(m.load);
	free(m.count);
	if (err)
		snprintf(error, len, "%s", err == -ENOSPC ?
			 "more tasks are outstanding than the graph has slots: use smaller windows" :
			 err == -EOVERFLOW ? EVENT_TOO_LATE : "out of memory");
	return err;
}
