// SPDX-License-Identifier: MIT
/*
 * ways.c - a bound by all ways through the graph at once
 *
 * Whatever a schedule does, it runs each task on one kind of device: let x be 1 if that is the
 * second one, else 0.  Then how long a task takes is known, the sum for each kind is, and
 *
 * - from a task's begin to the begin of one that waits for it at least the first one's time goes
 *   by, and if one of the two runs at the host and the other on a device that has a link, what
 *   the second one reads of the first one's results is on that link for a time;
 * - so is what a task reads that has been at the host from the beginning, before it begins;
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
 * @carry:	BY_LINE: what is carried then takes so long; negative: it goes from the second kind
 *		to the first
 */
struct step {
	double at;
	uint32_t from;
	uint8_t by, kind;
	bool gap;
	double carry;
};

/**
 * struct ways - a program
 * @ns, @part:	of each kind, each task: how long it takes; what it takes of all devices of the kind
 * @x:		part of each task on the second kind
 * @lines:	by their ends; @carry: of each, what is carried takes if its tasks are of two kinds
 * @fetch:	of each kind, each task: what has to come from the host before it takes
 * @reach:	@nr_reach tasks, in their order; @reach_of: each task's, or SIM_ANY
 */
struct ways {
	uint32_t nr, words;
	double *ns[2], *part[2], *x, *weight;
	struct step *steps;
	struct dag_line *lines;
	size_t nr_lines;
	double *carry, *fetch[2];
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

/* ------------------------------------------------------------------ */
/* Copies                                                              */

/**
 * struct toll - the least that bytes take to or from a kind's devices
 * @byte_ns:	0: its devices work in the host's memory
 */
struct toll {
	double latency_ns, byte_ns;
};

static struct toll find_toll(const struct scenario *sc, uint32_t kind)
{
	struct toll t = { 0 };
	bool first = true;

	for (uint32_t i = 0; i < sc->nr_devices; i++) {
		const struct sim_device *d = &sc->devices[i];
		const struct sim_link *l;

		if (d->kind != kind)
			continue;
		/* Of one that has none nobody knows which of them is taken. */
		if (d->link == SIM_ANY)
			return (struct toll){ 0 };
		l = &sc->links[d->link];
		if (first || (double)l->latency_ns < t.latency_ns)
			t.latency_ns = (double)l->latency_ns;
		if (first || l->ns_per_byte < t.byte_ns)
			t.byte_ns = l->ns_per_byte;
		first = false;
	}
	return t;
}

/*
 * Bytes that @to reads of what @from writes, and nobody after it.  @writers: of each range, who wrote
 * to its buffer last before its task; SIM_ANY: nobody.  What the host itself does is on neither kind.
 */
static double handed_on(const struct sim_app *a, const uint32_t *writers, uint32_t from,
			uint32_t to)
{
	const struct sim_task *f = &a->tasks[from], *t = &a->tasks[to];
	uint64_t bytes = 0;

	if (f->kernel == SIM_HOST || t->kernel == SIM_HOST)
		return 0;
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		const struct sim_range *r = &a->ranges[t->first_range + i];

		if (!(r->access & ARAX_IN) || writers[t->first_range + i] != from)
			continue;
		for (uint32_t k = 0; k < f->nr_ranges; k++) {
			const struct sim_range *o = &a->ranges[f->first_range + k];
			uint64_t start = r->offset > o->offset ? r->offset : o->offset;
			uint64_t end = r->offset + r->length < o->offset + o->length ?
				       r->offset + r->length : o->offset + o->length;

			if (o->access & ARAX_OUT && o->buffer == r->buffer && start < end &&
			    end - start > bytes)
				bytes = end - start;
		}
	}
	return (double)bytes;
}

/* The largest of its inputs that are in buffers which nobody before it writes to. */
static double from_host(const struct sim_app *a, const uint32_t *writers, uint32_t task)
{
	const struct sim_task *t = &a->tasks[task];
	uint64_t bytes = 0;

	for (uint32_t i = 0; t->kernel != SIM_HOST && i < t->nr_ranges; i++) {
		const struct sim_range *r = &a->ranges[t->first_range + i];

		if (r->access & ARAX_IN && writers[t->first_range + i] == SIM_ANY &&
		    r->length > bytes)
			bytes = r->length;
	}
	return (double)bytes;
}

/* Of all ranges, by what wrote to their buffers before; NULL: no memory. */
static uint32_t *find_writers(const struct sim_app *a)
{
	const struct sim_task *last = &a->tasks[a->nr_tasks - 1];
	uint32_t *writers = malloc((last->first_range + last->nr_ranges + 1ul) * sizeof(*writers));
	uint32_t *latest = malloc((a->nr_buffers + 1ul) * sizeof(*latest));

	if (!writers || !latest) {
		free(writers);
		free(latest);
		return NULL;
	}
	for (uint32_t i = 0; i < a->nr_buffers; i++)
		latest[i] = SIM_ANY;
	for (uint32_t t = 0; t < a->nr_tasks; t++) {
		const struct sim_range *r = &a->ranges[a->tasks[t].first_range];
		uint32_t nr = a->tasks[t].nr_ranges;

		for (uint32_t i = 0; i < nr; i++)
			writers[a->tasks[t].first_range + i] = latest[r[i].buffer];
		for (uint32_t i = 0; i < nr; i++)
			if (r[i].access & ARAX_OUT)
				latest[r[i].buffer] = t;
	}
	free(latest);
	return writers;
}

/*
 * One of two kinds has to be the host's for what goes between them: between two devices that both
 * have links bytes may be on one that is neither's.
 */
static int find_copies(struct ways *w, const struct scenario *sc, const struct sim_app *a,
		       const uint32_t *kinds)
{
	struct toll toll[2] = { find_toll(sc, kinds[0]), find_toll(sc, kinds[1]) };
	const struct toll *t = toll[0].byte_ns > 0 ? &toll[0] : &toll[1];
	bool one = (toll[0].byte_ns > 0) != (toll[1].byte_ns > 0);
	uint32_t *writers = find_writers(a);

	w->carry = calloc(w->nr_lines + 1, sizeof(*w->carry));
	for (int k = 0; k < 2; k++)
		w->fetch[k] = calloc(w->nr + 1ul, sizeof(double));
	if (!writers || !w->carry || !w->fetch[FIRST] || !w->fetch[SECOND]) {
		free(writers);
		return -ENOMEM;
	}
	for (size_t i = 0; one && i < w->nr_lines; i++) {
		double bytes = handed_on(a, writers, w->lines[i].from, w->lines[i].to);

		w->carry[i] = bytes > 0 ? t->latency_ns + bytes * t->byte_ns : 0;
	}
	for (uint32_t i = 0; i < w->nr; i++) {
		double bytes = from_host(a, writers, i);

		for (int k = 0; bytes > 0 && k < 2; k++)
			if (toll[k].byte_ns > 0)
				w->fetch[k][i] = toll[k].latency_ns + bytes * toll[k].byte_ns;
	}
	free(writers);
	return 0;
}

/* From when on @i can run at all. */
static double fetch_ns(const struct ways *w, uint32_t i)
{
	return w->fetch[FIRST][i] * (1 - w->x[i]) + w->fetch[SECOND][i] * w->x[i];
}

/* ------------------------------------------------------------------ */

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
		w->steps[i] = (struct step){ .by = FROM_BEGIN, .at = fetch_ns(w, i) };
		for (; line < w->nr_lines && w->lines[line].to == i; line++) {
			uint32_t from = w->lines[line].from;
			double more = w->x[i] - w->x[from], carry = w->carry[line];

			if (more < 0)
				carry = -carry;
			take(&w->steps[i], w->steps[from].at + task_ns(w, from) + carry * more,
			     (struct step){ .by = BY_LINE, .from = from, .carry = carry });
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

static double add_fetch(struct ways *w, uint32_t to)
{
	w->weight[to] += w->fetch[SECOND][to] - w->fetch[FIRST][to];
	return w->fetch[FIRST][to];
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

		if (s->by == FROM_BEGIN && s->gap)
			return constant + add_gap(w, NULL, before, s->kind);
		if (s->by == FROM_BEGIN)
			return constant + (to < w->nr ? add_fetch(w, to) : 0);
		if (s->by == BY_GAP)
			constant += add_gap(w, w->reach[w->reach_of[s->from]].after, before, s->kind);
		if (s->by == BY_LINE && to < w->nr) {
			w->weight[to] += s->carry;
			w->weight[s->from] -= s->carry;
		}
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
		err = find_copies(&w, sc, a, kinds);
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
	free(w.carry);
	free(w.fetch[FIRST]);
	free(w.fetch[SECOND]);
	free(w.reach);
	free(w.reach_of);
	free(w.bits);
	return err;
}
