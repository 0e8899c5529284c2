// SPDX-License-Identifier: MIT
/* list.c - list schedules with insertion */
#include "daemon/sched/list.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is closer than that is at the same time, ns. */
#define CLOSE	1.0
/* Both ends of a copy are tried in turn for so long. */
#define MEETINGS	16

struct span {
	double begin, end;
};

/*
 * When something is at work: spans in their order, apart from each other by more than @least, for
 * there is nothing that would fit in between.
 */
struct busy {
	struct span *spans;
	uint32_t nr, size;
	double least;
};

/**
 * struct list - a schedule that is being made
 * @machines:	busy
 * @in, @out:	of each place, its link's directions
 * @at:		of each item, each place: since when it is there; INFINITY: it is not
 * @way:	of each task, to the end
 * @ready:	heap, the longest way first
 * @from:	of each task: all that it waits for has ended
 * @quickest, @slowest: of each kind
 * @hope:	of each machine: when the task at hand would end there at best
 */
struct list {
	const struct list_program *p;
	struct list_rule rule;
	struct busy *machines, *in, *out;
	double *at, *way, *from;
	uint32_t *ready, *waits;
	uint32_t nr_ready, left;
	struct list_seat *seats;
	double quickest[LIST_KINDS], slowest[LIST_KINDS], *hope;
	double end_ns;
};

/* ------------------------------------------------------------------ */
/* Time                                                                */

/* The first one that ends after @at. */
static uint32_t span_after(const struct busy *b, double at)
{
	uint32_t low = 0, high = b->nr;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (b->spans[mid].end > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* From when on, not before @at, it has @ns to spare. */
static double fit(const struct busy *b, double at, double ns)
{
	if (!b->nr || b->spans[b->nr - 1].end <= at)
		return at;
	for (uint32_t i = span_after(b, at); i < b->nr; i++) {
		if (at + ns <= b->spans[i].begin + CLOSE)
			break;
		at = b->spans[i].end > at ? b->spans[i].end : at;
	}
	return at;
}

static bool put(struct busy *b, double begin, double end)
{
	/* Those that it comes so close to that it becomes one with them: @i to @last - 1. */
	uint32_t i = span_after(b, begin - b->least), last = i;

	while (last < b->nr && b->spans[last].begin <= end + b->least)
		last++;
	if (i < last) {
		begin = b->spans[i].begin < begin ? b->spans[i].begin : begin;
		end = b->spans[last - 1].end > end ? b->spans[last - 1].end : end;
	} else if (b->nr == b->size) {
		uint32_t size = b->size ? 2 * b->size : 16;
		struct span *spans = realloc(b->spans, size * sizeof(*spans));

		if (!spans)
			return false;
		b->spans = spans;
		b->size = size;
	}
	if (last != i + 1)
		memmove(&b->spans[i + 1], &b->spans[last], (b->nr - last) * sizeof(*b->spans));
	b->nr += i + 1 - last;
	b->spans[i] = (struct span){ begin, end };
	return true;
}

/* ------------------------------------------------------------------ */
/* Data                                                                */

static double *at_of(const struct list *l, uint32_t item)
{
	return l->at + (uint64_t)item * l->p->nr_places;
}

/* A copy: from where, when it begins and ends. */
struct copy {
	uint32_t from;
	double begin, end;
};

/* To the host. */
static struct copy copy_out(const struct list *l, uint32_t from, double at, double bytes)
{
	const struct list_place *f = &l->p->places[from];
	double ns = f->out_latency_ns + bytes * f->out_byte_ns;
	struct copy c = { .from = from, .begin = fit(&l->out[from], at, ns) };

	c.end = c.begin + ns;
	return c;
}

static struct copy copy_in(const struct list *l, uint32_t to, double at, double bytes)
{
	const struct list_place *t = &l->p->places[to];
	double ns = t->in_latency_ns + bytes * t->in_byte_ns;
	struct copy c = { .begin = fit(&l->in[to], at, ns) };

	c.end = c.begin + ns;
	return c;
}

/* As quick as the slower link, when both are free. */
static struct copy copy_peer(const struct list *l, uint32_t from, uint32_t to, double at,
			     double bytes)
{
	const struct list_place *f = &l->p->places[from], *t = &l->p->places[to];
	double out = f->out_latency_ns + bytes * f->out_byte_ns;
	double in = t->in_latency_ns + bytes * t->in_byte_ns, ns = out > in ? out : in;
	struct copy c = { .from = from, .begin = at };

	for (int i = 0; i < MEETINGS; i++) {
		double begin = c.begin;

		c.begin = fit(&l->in[to], fit(&l->out[from], begin, ns), ns);
		if (c.begin <= begin)
			break;
	}
	c.end = c.begin + ns;
	return c;
}

static bool are_peers(const struct list *l, uint32_t a, uint32_t b)
{
	return a && b && l->p->places[a].peers && l->p->places[a].peers == l->p->places[b].peers;
}

/**
 * struct bring - the best way of an item to a place
 * @direct:	by one copy, the last one; else @first goes before it, to the host
 */
struct bring {
	bool direct;
	struct copy first, last;
};

/* Not before @from; it is there after @b->last.end. */
static void find_way(const struct list *l, uint32_t item, uint32_t to, double from,
		     struct bring *b)
{
	const double *at = at_of(l, item);
	double bytes = l->p->items[item].bytes;
	struct copy c;

	b->direct = true;
	b->last.end = INFINITY;
	if (to && at[0] < INFINITY)
		b->last = copy_in(l, to, at[0] > from ? at[0] : from, bytes);
	for (uint32_t place = 1; place < l->p->nr_places; place++) {
		double since = at[place] > from ? at[place] : from;

		if (place == to || since + bytes * l->p->places[place].out_byte_ns >= b->last.end)
			continue;
		if (!to || are_peers(l, place, to)) {
			c = to ? copy_peer(l, place, to, since, bytes) :
				 copy_out(l, place, since, bytes);
			if (c.end < b->last.end) {
				b->last = c;
				b->direct = true;
			}
		} else if (at[0] == INFINITY) {
			struct copy first = copy_out(l, place, since, bytes);

			c = copy_in(l, to, first.end, bytes);
			if (c.end < b->last.end) {
				b->first = first;
				b->last = c;
				b->direct = false;
			}
		}
	}
}

/*
 * When all is at @to that @t reads.  Copies that go one after the other are seen to do so; how
 * long all of them take is added to *@copies.
 */
static double gather_ns(const struct list *l, uint32_t t, uint32_t to, double from,
			double *copies)
{
	const struct list_task *task = &l->p->tasks[t];
	double all = from, last = 0;
	struct bring b;

	for (uint32_t u = task->uses; u < task[1].uses; u++) {
		const struct list_use *use = &l->p->uses[u];
		double at = at_of(l, use->item)[to];

		if (!use->reads)
			continue;
		if (at == INFINITY) {
			find_way(l, use->item, to, from, &b);
			at = b.last.end;
			/* Nobody has it. */
			if (at == INFINITY)
				continue;
			if (last > 0 && at - last < b.last.end - b.last.begin)
				at = last + (b.last.end - b.last.begin);
			last = at;
			*copies += b.last.end - b.last.begin;
		}
		all = at > all ? at : all;
	}
	return all;
}

static bool book(struct list *l, uint32_t to, const struct bring *b)
{
	if (!b->direct && !put(&l->out[b->first.from], b->first.begin, b->first.end))
		return false;
	if (b->direct && b->last.from && !put(&l->out[b->last.from], b->last.begin, b->last.end))
		return false;
	return !to || put(&l->in[to], b->last.begin, b->last.end);
}

/* The same, and it is so.  Negative: no memory. */
static double gather(struct list *l, uint32_t t, uint32_t to, double from)
{
	const struct list_task *task = &l->p->tasks[t];
	double all = from;
	struct bring b;

	for (uint32_t u = task->uses; u < task[1].uses; u++) {
		const struct list_use *use = &l->p->uses[u];
		double *at = at_of(l, use->item);

		if (!use->reads)
			continue;
		if (at[to] == INFINITY) {
			find_way(l, use->item, to, from, &b);
			/* Nobody has it, so it takes nothing. */
			if (b.last.end == INFINITY)
				b.last.end = from;
			else if (!book(l, to, &b))
				return -1;
			if (!b.direct)
				at[0] = b.first.end;
			at[to] = b.last.end;
		}
		all = at[to] > all ? at[to] : all;
	}
	return all;
}

static void write_at(struct list *l, uint32_t t, uint32_t place, double end)
{
	const struct list_task *task = &l->p->tasks[t];

	for (uint32_t u = task->uses; u < task[1].uses; u++) {
		double *at = at_of(l, l->p->uses[u].item);

		if (!l->p->uses[u].writes)
			continue;
		for (uint32_t i = 0; i < l->p->nr_places; i++)
			at[i] = INFINITY;
		at[place] = end;
	}
}

/* ------------------------------------------------------------------ */
/* Tasks                                                               */

static bool goes_before(const struct list *l, uint32_t a, uint32_t b)
{
	const struct list_task *x = &l->p->tasks[a], *y = &l->p->tasks[b];

	if (x->priority != y->priority)
		return x->priority < y->priority;
	return l->way[a] != l->way[b] ? l->way[a] > l->way[b] : a < b;
}

static void push(struct list *l, uint32_t t)
{
	uint32_t i = l->nr_ready++;

	for (; i && goes_before(l, t, l->ready[(i - 1) / 2]); i = (i - 1) / 2)
		l->ready[i] = l->ready[(i - 1) / 2];
	l->ready[i] = t;
}

static uint32_t pop(struct list *l)
{
	uint32_t first = l->ready[0], last = l->ready[--l->nr_ready], i = 0, child;

	for (; (child = 2 * i + 1) < l->nr_ready; i = child) {
		if (child + 1 < l->nr_ready &&
		    goes_before(l, l->ready[child + 1], l->ready[child]))
			child++;
		if (goes_before(l, last, l->ready[child]))
			break;
		l->ready[i] = l->ready[child];
	}
	l->ready[i] = last;
	return first;
}

static void find_ways(struct list *l)
{
	const struct list_program *p = l->p;

	for (uint32_t t = p->nr_tasks; t--;) {
		const struct list_task *task = &p->tasks[t];
		double longest = 0;

		for (uint32_t n = task->nexts; n < task[1].nexts; n++)
			if (l->way[p->nexts[n]] > longest)
				longest = l->way[p->nexts[n]];
		if (task->kind != LIST_NONE)
			longest += task->times * (l->rule.quick * l->quickest[task->kind] +
						  (1 - l->rule.quick) * l->slowest[task->kind]);
		l->way[t] = longest;
	}
}

static void ended(struct list *l, uint32_t t, double end)
{
	const struct list_task *task = &l->p->tasks[t];

	l->left--;
	l->end_ns = end > l->end_ns ? end : l->end_ns;
	for (uint32_t n = task->nexts; n < task[1].nexts; n++) {
		uint32_t next = l->p->nexts[n];

		if (l->from[next] < end)
			l->from[next] = end;
		if (!--l->waits[next])
			push(l, next);
	}
}

/*
 * What is there of @t's inputs, and what would have to come if links were free: not later than
 * gather_ns(), and *@copies no more.
 */
static double hope_ns(const struct list *l, uint32_t t, uint32_t to, double *copies)
{
	const struct list_task *task = &l->p->tasks[t];
	const struct list_place *place = &l->p->places[to];
	double all = l->from[t];

	*copies = 0;
	for (uint32_t u = task->uses; u < task[1].uses; u++) {
		const struct list_use *use = &l->p->uses[u];
		double at = at_of(l, use->item)[to];

		if (!use->reads)
			continue;
		if (at < INFINITY)
			all = at > all ? at : all;
		else if (to)
			*copies += place->in_latency_ns +
				   l->p->items[use->item].bytes * place->in_byte_ns;
	}
	return all > l->from[t] + *copies ? all : l->from[t] + *copies;
}

/* 0: it can't run there. */
static double run_ns(const struct list *l, uint32_t t, uint32_t m)
{
	const struct list_task *task = &l->p->tasks[t];

	return task->times * l->p->ns[task->kind * l->p->nr_machines + m];
}

/* What it may be later for being on a slow machine where it takes @ns, as the rule has it. */
static double bonus_ns(const struct list *l, uint32_t t, double ns)
{
	const struct list_task *task = &l->p->tasks[t];

	return l->rule.later[task->kind] * (ns - task->times * l->quickest[task->kind]);
}

/* When it ends on a machine, as the rule counts. */
static double end_ns(const struct list *l, uint32_t t, uint32_t m, double there, double copies)
{
	double ns = run_ns(l, t, m);

	return fit(&l->machines[m], there, ns) + ns - bonus_ns(l, t, ns) + l->rule.near * copies;
}

/*
 * Of all machines the one where it ends first, as the rule has it; LIST_NONE: nothing can run it.  To
 * see what copies take is most of the work: so first it is found out for the most hopeful one, and
 * then only for those that may be better.
 */
static uint32_t choose(struct list *l, uint32_t t)
{
	const struct list_program *p = l->p;
	uint32_t best = LIST_NONE, first = LIST_NONE, known = LIST_NONE;
	double least = INFINITY, there = 0, copies = 0, end;

	for (uint32_t m = 0; m < p->nr_machines; m++) {
		double ns = run_ns(l, t, m);

		l->hope[m] = INFINITY;
		if (ns <= 0)
			continue;
		/* Machines of one place are beside each other. */
		if (p->machines[m].place != known)
			there = hope_ns(l, t, p->machines[m].place, &copies);
		known = p->machines[m].place;
		l->hope[m] = there + ns - bonus_ns(l, t, ns) + l->rule.near * copies;
		if (l->hope[m] >= least)
			continue;
		l->hope[m] = end_ns(l, t, m, there, copies);
		if (l->hope[m] < least) {
			least = l->hope[m];
			first = m;
		}
	}
	if (first == LIST_NONE)
		return LIST_NONE;
	known = LIST_NONE;
	least = INFINITY;
	for (uint32_t i = 0; i <= p->nr_machines; i++) {
		uint32_t m = i ? i - 1 : first;

		if (l->hope[m] == INFINITY || l->hope[m] > least + CLOSE ||
		    (i && m == first))
			continue;
		if (p->machines[m].place != known) {
			copies = 0;
			there = gather_ns(l, t, p->machines[m].place, l->from[t], &copies);
		}
		known = p->machines[m].place;
		end = end_ns(l, t, m, there, copies);
		if (end < least - CLOSE || (end < least + CLOSE && m < best)) {
			least = end;
			best = m;
		}
	}
	return best;
}

static int place(struct list *l, uint32_t t)
{
	const struct list_program *p = l->p;
	uint32_t kind = p->tasks[t].kind, m;
	double begin, ns;

	if (kind == LIST_NONE) {
		begin = gather(l, t, 0, l->from[t]);
		if (begin < 0)
			return -ENOMEM;
		l->seats[t] = (struct list_seat){ .device = LIST_NONE, .begin_ns = begin };
		write_at(l, t, 0, begin);
		ended(l, t, begin);
		return 0;
	}
	m = choose(l, t);
	if (m == LIST_NONE)
		return -EINVAL;
	ns = run_ns(l, t, m);
	begin = gather(l, t, p->machines[m].place, l->from[t]);
	if (begin < 0)
		return -ENOMEM;
	begin = fit(&l->machines[m], begin, ns);
	if (!put(&l->machines[m], begin, begin + ns))
		return -ENOMEM;
	l->seats[t] = (struct list_seat){ .device = p->machines[m].device, .begin_ns = begin };
	write_at(l, t, p->machines[m].place, begin + ns);
	ended(l, t, begin + ns);
	return 0;
}

/* ------------------------------------------------------------------ */
/* Calls                                                               */

bool list_begin(struct list *l, const struct list_rule *rule)
{
	const struct list_program *p = l->p;

	l->rule = *rule;
	l->left = p->nr_tasks;
	l->nr_ready = 0;
	l->end_ns = 0;
	for (uint32_t m = 0; m < p->nr_machines; m++) {
		l->machines[m].nr = 0;
		if (p->machines[m].free_ns > 0 &&
		    !put(&l->machines[m], 0, p->machines[m].free_ns))
			return false;
	}
	for (uint32_t i = 0; i < p->nr_places; i++)
		l->in[i].nr = l->out[i].nr = 0;
	for (uint32_t i = 0; i < p->nr_items; i++) {
		double *at = at_of(l, i);

		for (uint32_t k = 0; k < p->nr_places; k++)
			at[k] = p->items[i].places >> k & 1 ? p->items[i].since_ns : INFINITY;
	}
	find_ways(l);
	for (uint32_t t = 0; t < p->nr_tasks; t++) {
		l->from[t] = p->tasks[t].from_ns;
		l->waits[t] = p->tasks[t].waits;
		if (!l->waits[t])
			push(l, t);
	}
	return true;
}

int list_go_on(struct list *l, uint32_t tasks)
{
	int err = 0;

	for (; !err && l->nr_ready && tasks; tasks--)
		err = place(l, pop(l));
	if (err)
		return err;
	if (l->nr_ready)
		return 0;
	return l->left ? -EINVAL : 1;
}

double list_ns(const struct list *l)
{
	return l->end_ns;
}

const struct list_seat *list_seats(const struct list *l)
{
	return l->seats;
}

static void find_extremes(struct list *l)
{
	const struct list_program *p = l->p;

	for (uint32_t k = 0; k < p->nr_kinds; k++) {
		for (uint32_t m = 0; m < p->nr_machines; m++) {
			double ns = p->ns[k * p->nr_machines + m];

			if (ns <= 0)
				continue;
			if (l->quickest[k] <= 0 || ns < l->quickest[k])
				l->quickest[k] = ns;
			if (ns > l->slowest[k])
				l->slowest[k] = ns;
		}
	}
}

/* The least that goes into a gap. */
static void find_least(struct list *l)
{
	const struct list_program *p = l->p;
	double bytes = INFINITY, times = 1;

	for (uint32_t t = 0; t < p->nr_tasks; t++)
		if (p->tasks[t].kind != LIST_NONE && p->tasks[t].times < times)
			times = p->tasks[t].times;
	for (uint32_t m = 0; m < p->nr_machines; m++) {
		double least = INFINITY;

		for (uint32_t k = 0; k < p->nr_kinds; k++) {
			double ns = p->ns[k * p->nr_machines + m];

			least = ns > 0 && ns * times < least ? ns * times : least;
		}
		l->machines[m].least = least < INFINITY && least > 2 * CLOSE ? least - CLOSE : CLOSE;
	}
	for (uint32_t i = 0; i < p->nr_items; i++)
		bytes = p->items[i].bytes < bytes ? p->items[i].bytes : bytes;
	bytes = p->nr_items ? bytes : 0;
	for (uint32_t i = 0; i < p->nr_places; i++) {
		const struct list_place *at = &p->places[i];
		double in = at->in_latency_ns + bytes * at->in_byte_ns;
		double out = at->out_latency_ns + bytes * at->out_byte_ns;

		l->in[i].least = in > 2 * CLOSE ? in - CLOSE : CLOSE;
		l->out[i].least = out > 2 * CLOSE ? out - CLOSE : CLOSE;
	}
}

struct list *list_make(const struct list_program *p)
{
	struct list *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->p = p;
	l->machines = calloc(p->nr_machines + 1ul, sizeof(*l->machines));
	l->in = calloc(p->nr_places + 1ul, sizeof(*l->in));
	l->out = calloc(p->nr_places + 1ul, sizeof(*l->out));
	l->at = calloc((uint64_t)p->nr_items * p->nr_places + 1, sizeof(*l->at));
	l->way = calloc(p->nr_tasks + 1ul, sizeof(*l->way));
	l->from = calloc(p->nr_tasks + 1ul, sizeof(*l->from));
	l->ready = calloc(p->nr_tasks + 1ul, sizeof(*l->ready));
	l->waits = calloc(p->nr_tasks + 1ul, sizeof(*l->waits));
	l->seats = calloc(p->nr_tasks + 1ul, sizeof(*l->seats));
	l->hope = calloc(p->nr_machines + 1ul, sizeof(*l->hope));
	if (!l->hope || !l->machines || !l->in || !l->out || !l->at || !l->way || !l->from || !l->ready ||
	    !l->waits || !l->seats) {
		list_free(l);
		return NULL;
	}
	find_extremes(l);
	find_least(l);
	return l;
}

static void free_all(struct busy *b, uint32_t nr)
{
	for (uint32_t i = 0; b && i < nr; i++)
		free(b[i].spans);
	free(b);
}

void list_free(struct list *l)
{
	if (!l)
		return;
	free_all(l->machines, l->p->nr_machines);
	free_all(l->in, l->p->nr_places);
	free_all(l->out, l->p->nr_places);
	free(l->at);
	free(l->way);
	free(l->from);
	free(l->ready);
	free(l->waits);
	free(l->seats);
	free(l->hope);
	free(l);
}
