// SPDX-License-Identifier: MIT
/*
 * ways.c - a bound by all ways through the graph at once
 *
 * Whatever a schedule does, it runs each task on one kind of device: let x be 1 if that is the
 * second one, else 0.  Then how long a task takes is known, the sum for each kind is, and
 *
 * - from a task's begin to the begin of one that waits for it at least the first one's time goes
 *   by;
 * - from a task's end to the begin of another all those go by that wait for the first and are
 *   waited for by the second: what each kind has of them, over its devices, is not longer.  The
 *   same holds from the program's begin on, and to its end;
 * - so a way from the begin to the end, over tasks and over such gaps, is no longer than the
 *   schedule: and how long it is, is linear in x.
 *
 * Thus the least T that is above all ways for some x, if x may be anything from 0 to 1, is a bound
 * (for one way alone, and the gap that has all tasks, it is the mixed bound of Agullo, Beaumont,
 * Eyraud-Dubois and Kumar).  There are far too many ways to write down; but for a given x the
 * longest one is found by one pass.  So it begins with few, and takes in the longest one until
 * that is no longer than T.  If it ends before, for it takes long, T is lower, and a bound too.
 *
 * Gaps are looked at between the tasks of the longest way alone, of which there are few: there
 * graphs are narrow.
 */
#include "daemon/sim/ways.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/dag.h"
#include "daemon/sim/least.h"

/* Ways that are taken in at most, steps for each, and products for all of it, about. */
#define WAYS		240u
#define STEPS		400u
#define EFFORT		4e8
/* By so little the longest way may be longer than T. */
#define ENOUGH		1e-4

#define BITS	64u

enum { FIRST, SECOND };

/**
 * struct reach - of a task on the longest way
 * @after, @before: bit for each task that waits for it; that it waits for
 */
struct reach {
	uint32_t task;
	uint64_t *after, *before;
};

/* How a way comes to a task's begin, or to the end. */
enum { FROM_BEGIN, BY_LINE, BY_GAP };

/**
 * struct step - the last one of the longest way to a task's begin
 * @from:	task; not FROM_BEGIN
 * @kind:	whose gap it is; BY_GAP, or FROM_BEGIN with a gap
 * @gap:	FROM_BEGIN: there is one
 */
struct step {
	double at;
	uint32_t from;
	uint8_t by, kind;
	bool gap;
};

/**
 * struct ways - a program
 * @ns, @part:	of each kind, each task: how long it takes; what it takes of all devices of the kind
 * @x:		part of each task on the second kind
 * @lines:	by their ends
 * @reach:	@nr_reach tasks, in their order; @reach_of: each task's, or SIM_ANY
 */
struct ways {
	uint32_t nr, words;
	double *ns[2], *part[2], *x, *weight;
	struct step *steps;
	struct dag_line *lines;
	size_t nr_lines;
	struct reach *reach;
	uint32_t nr_reach, *reach_of;
	uint64_t *bits;
};

static bool has(const uint64_t *bits, uint32_t i)
{
	return bits[i / BITS] >> i % BITS & 1;
}

/* Which two kinds have devices; false: there are more. */
static bool find_kinds(const struct scenario *sc, uint32_t *kinds, double *devices)
{
	double all[SIM_MAX_KINDS] = { 0 };
	uint32_t nr = 0;

	for (uint32_t i = 0; i < sc->nr_devices; i++)
		all[sc->devices[i].kind]++;
	for (uint32_t k = 0; k < sc->nr_kinds; k++) {
		if (all[k] <= 0)
			continue;
		if (nr == 2)
			return false;
		kinds[nr] = k;
		devices[nr++] = all[k];
	}
	if (nr == 1) {
		kinds[1] = kinds[0];
		devices[1] = 0;
	}
	return nr;
}

static void set_task(struct ways *w, const struct scenario *sc, const struct sim_task *t,
		     uint32_t i, const uint32_t *kinds, const double *devices, struct least *l)
{
	double can[2] = { 0 };

	if (t->kernel == SIM_HOST) {
		w->ns[FIRST][i] = w->ns[SECOND][i] = (double)t->work;
		least_fix(l, i, 0);
		return;
	}
	for (int k = 0; k < 2; k++) {
		const struct sim_cost *c = &sc->kernels[t->kernel].cost[kinds[k]];

		can[k] = devices[k] > 0 ? scenario_cost_ns(sc, t->kernel, kinds[k], t->work) : 0;
		w->ns[k][i] = can[k] * (1 - sc->jitter);
		w->part[k][i] = can[k] > 0 ? w->ns[k][i] * c->demand / devices[k] : 0;
	}
	/* What nothing can run fails, and takes no time. */
	if (can[SECOND] <= 0)
		least_fix(l, i, 0);
	else if (can[FIRST] <= 0)
		least_fix(l, i, 1);
}

static double task_ns(const struct ways *w, uint32_t i)
{
	return w->ns[FIRST][i] + (w->ns[SECOND][i] - w->ns[FIRST][i]) * w->x[i];
}

/* Of the tasks in both sets, NULL: all, what the kind has longest; which that is. */
static double gap_ns(const struct ways *w, const uint64_t *a, const uint64_t *b, uint8_t *kind)
{
	double sum[2] = { 0 };

	for (uint32_t k = 0; k < w->words; k++) {
		uint64_t left = (a ? a[k] : ~0ull) & (b ? b[k] : ~0ull);

		for (; left; left &= left - 1) {
			uint32_t i = k * BITS + (uint32_t)__builtin_ctzll(left);

			if (i >= w->nr)
				break;
			sum[FIRST] += w->part[FIRST][i] * (1 - w->x[i]);
			sum[SECOND] += w->part[SECOND][i] * w->x[i];
		}
	}
	*kind = sum[SECOND] > sum[FIRST];
	return sum[*kind];
}

static void take(struct step *s, double at, struct step with)
{
	if (at <= s->at)
		return;
	*s = with;
	s->at = at;
}

/* Over the gaps before the task of @r. */
static void cross_gaps(struct ways *w, uint32_t r)
{
	struct step *s = &w->steps[w->reach[r].task];
	struct step by = { .by = FROM_BEGIN, .gap = true };

	take(s, gap_ns(w, NULL, w->reach[r].before, &by.kind), by);
	for (uint32_t q = 0; q < r; q++) {
		uint32_t from = w->reach[q].task;
		double ns;

		if (!has(w->reach[q].after, w->reach[r].task))
			continue;
		by = (struct step){ .by = BY_GAP, .from = from };
		ns = gap_ns(w, w->reach[q].after, w->reach[r].before, &by.kind);
		take(s, w->steps[from].at + task_ns(w, from) + ns, by);
	}
}

/* To each task, and to the end, which is behind the last one. */
static void find_longest(struct ways *w)
{
	struct step *end = &w->steps[w->nr], by = { .by = FROM_BEGIN, .gap = true };
	size_t line = 0;

	*end = (struct step){ .by = FROM_BEGIN };
	for (uint32_t i = 0; i < w->nr; i++) {
		w->steps[i] = (struct step){ .by = FROM_BEGIN };
		for (; line < w->nr_lines && w->lines[line].to == i; line++) {
			uint32_t from = w->lines[line].from;

			take(&w->steps[i], w->steps[from].at + task_ns(w, from),
			     (struct step){ .by = BY_LINE, .from = from });
		}
		if (w->reach_of[i] != SIM_ANY)
			cross_gaps(w, w->reach_of[i]);
		take(end, w->steps[i].at + task_ns(w, i),
		     (struct step){ .by = BY_LINE, .from = i });
	}
	take(end, gap_ns(w, NULL, NULL, &by.kind), by);
	for (uint32_t r = 0; r < w->nr_reach; r++) {
		uint32_t from = w->reach[r].task;
		double ns;

		by = (struct step){ .by = BY_GAP, .from = from };
		ns = gap_ns(w, w->reach[r].after, NULL, &by.kind);
		take(end, w->steps[from].at + task_ns(w, from) + ns, by);
	}
}

static double add_gap(struct ways *w, const uint64_t *a, const uint64_t *b, uint8_t kind)
{
	double constant = 0;

	for (uint32_t i = 0; i < w->nr; i++) {
		if ((a && !has(a, i)) || (b && !has(b, i)))
			continue;
		if (kind == FIRST) {
			constant += w->part[FIRST][i];
			w->weight[i] -= w->part[FIRST][i];
		} else {
			w->weight[i] += w->part[SECOND][i];
		}
	}
	return constant;
}

/* How long the longest way to @to is for any x: what doesn't depend on it, and @weight. */
static double add_way(struct ways *w, uint32_t to)
{
	double constant = 0;

	memset(w->weight, 0, w->nr * sizeof(*w->weight));
	for (;;) {
		const struct step *s = &w->steps[to];
		const uint64_t *before = to < w->nr && w->reach_of[to] != SIM_ANY ?
					 w->reach[w->reach_of[to]].before : NULL;

		if (s->by == FROM_BEGIN)
			return constant + (s->gap ? add_gap(w, NULL, before, s->kind) : 0);
		if (s->by == BY_GAP)
			constant += add_gap(w, w->reach[w->reach_of[s->from]].after, before, s->kind);
		constant += w->ns[FIRST][s->from];
		w->weight[s->from] += w->ns[SECOND][s->from] - w->ns[FIRST][s->from];
		to = s->from;
	}
}

/* By the ways that were taken in so far.  Returns how many steps it took. */
static uint32_t improve(struct ways *w, struct least *l, double *best)
{
	uint32_t steps = least_solve(l, STEPS, w->x);
	double bound = least_bound(l);

	*best = bound > *best ? bound : *best;
	return steps;
}

static int solve(struct ways *w, struct least *l, double *ns)
{
	double effort = 0, best = 0, gap;
	bool done = false;

	memset(w->weight, 0, w->nr * sizeof(*w->weight));
	gap = add_gap(w, NULL, NULL, FIRST);
	least_add(l, gap, w->weight);
	memset(w->weight, 0, w->nr * sizeof(*w->weight));
	least_add(l, add_gap(w, NULL, NULL, SECOND), w->weight);
	while (!done && effort < EFFORT) {
		uint32_t steps = improve(w, l, &best);

		effort += (double)w->nr * ((steps + 1.0) * WAYS + w->nr_reach * w->nr_reach / 4.0);
		find_longest(w);
		done = w->steps[w->nr].at <= best * (1 + ENOUGH) ||
		       !least_add(l, add_way(w, w->nr), w->weight);
	}
	/* The last one that was taken in counts as well. */
	if (!done)
		improve(w, l, &best);
	*ns = best;
	return 0;
}

/* Lines go forward: so what is reached is known when it is come to. */
static void find_reach(struct ways *w, struct reach *r)
{
	for (size_t i = 0; i < w->nr_lines; i++) {
		const struct dag_line *d = &w->lines[i];

		if (d->from == r->task || has(r->after, d->from))
			r->after[d->to / BITS] |= 1ull << d->to % BITS;
	}
	for (size_t i = w->nr_lines; i--;) {
		const struct dag_line *d = &w->lines[i];

		if (d->to == r->task || has(r->before, d->to))
			r->before[d->from / BITS] |= 1ull << d->from % BITS;
	}
}

static int make_reach(struct ways *w, const struct scenario *sc, uint32_t app)
{
	struct dag d;
	uint32_t n = 0;
	int err = dag_make(sc, &sc->work.apps[app], app, &d);

	if (err)
		return err;
	for (uint32_t i = d.first; i != SIM_ANY; i = d.next[i])
		n++;
	w->reach = calloc(n + 1ul, sizeof(*w->reach));
	w->bits = calloc(2ul * n * w->words + 1, sizeof(*w->bits));
	w->reach_of = malloc((w->nr + 1ul) * sizeof(*w->reach_of));
	if (!w->reach || !w->bits || !w->reach_of) {
		dag_fini(&d);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i <= w->nr; i++)
		w->reach_of[i] = SIM_ANY;
	for (uint32_t i = d.first; i != SIM_ANY; i = d.next[i]) {
		struct reach *r = &w->reach[w->nr_reach];

		r->task = i;
		r->after = w->bits + 2ul * w->nr_reach * w->words;
		r->before = r->after + w->words;
		w->reach_of[i] = w->nr_reach++;
		find_reach(w, r);
	}
	dag_fini(&d);
	return 0;
}

int ways_least_ns(const struct scenario *sc, uint32_t app, double *ns)
{
	const struct sim_app *a = &sc->work.apps[app];
	struct ways w = { .nr = a->nr_tasks, .words = (a->nr_tasks + BITS - 1) / BITS };
	struct least *l = NULL;
	uint32_t kinds[2];
	double devices[2];
	int err = -ENOMEM;

	*ns = 0;
	if (!w.nr || w.nr > WAYS_TASKS || !find_kinds(sc, kinds, devices))
		return 0;
	for (int k = 0; k < 2; k++) {
		w.ns[k] = calloc(w.nr, sizeof(double));
		w.part[k] = calloc(w.nr, sizeof(double));
	}
	w.x = calloc(w.nr, sizeof(*w.x));
	w.weight = calloc(w.nr, sizeof(*w.weight));
	w.steps = calloc(w.nr + 1ul, sizeof(*w.steps));
	l = least_make(w.nr, WAYS);
	if (w.ns[0] && w.ns[1] && w.part[0] && w.part[1] && w.x && w.weight && w.steps && l)
		err = dag_lines(a, &w.lines, &w.nr_lines);
	if (!err)
		err = make_reach(&w, sc, app);
	for (uint32_t i = 0; !err && i < w.nr; i++)
		set_task(&w, sc, &a->tasks[i], i, kinds, devices, l);
	if (!err)
		err = solve(&w, l, ns);
	least_free(l);
	for (int k = 0; k < 2; k++) {
		free(w.ns[k]);
		free(w.part[k]);
	}
	free(w.x);
	free(w.weight);
	free(w.steps);
	free(w.lines);
	free(w.reach);
	free(w.reach_of);
	free(w.bits);
	return err;
}
