// SPDX-License-Identifier: MIT
/* plan_trials.c - list schedules are tried by one rule after the other, the best one is kept */
#include "daemon/sched/plan_impl.h"

#include <stdlib.h>

/* Tasks, times memories, that one call places. */
#define PLACES		512u
/* About what placing one takes for each memory; the part of the program's time that all may take. */
#define PLACE_NS	100u
#define PART		48u
#define RULES_MOST	64u

#define FINEST		0.03

/* ------------------------------------------------------------------ */
/* Rules                                                               */

/* The first ones, and @later for all kinds: these were the best of most graphs that were looked at. */
static const struct {
	double quick, later;
} first[] = {
	{ 0.9, 0.3 }, { 0.6, 0.3 }, { 1, 0.3 }, { 0.2, 0.3 },
	{ -1, 0 }, { -1, 0.15 }, { -1, 0.4 }, { -1, 0.6 },	/* -1: the best one's so far */
};

#define FIRST	(sizeof(first) / sizeof(first[0]))

static void rule_first(struct trials *t, uint32_t i)
{
	t->rule = t->best;
	if (first[i].quick >= 0)
		t->rule.quick = first[i].quick;
	t->rule.near = 1;
	for (uint32_t k = 0; k < LIST_KINDS; k++)
		t->rule.later[k] = first[i].later;
}

/* The next change of one thing; false: no finer ones are tried. */
static bool next_change(struct trials *t, uint32_t kinds)
{
	t->down = !t->down;
	if (t->down)
		return true;
	if (t->dim++ < kinds)
		return true;
	t->dim = 0;
	if (!t->better)
		t->step /= 2;
	t->better = false;
	return t->step >= FINEST;
}

/* False: there are no more. */
static bool rule_next(struct trials *t, uint32_t kinds)
{
	if (t->nr == t->most)
		return false;
	if (t->nr < FIRST) {
		rule_first(t, t->nr);
		return true;
	}
	if (t->nr == FIRST) {
		t->step = 0.25;
		t->dim = 0;
		t->down = false;
	} else if (!next_change(t, kinds)) {
		return false;
	}
	for (;;) {
		t->rule = t->best;
		if (t->dim < kinds) {
			t->rule.later[t->dim] += t->down ? t->step : -t->step;
			return true;
		}
		t->rule.quick += (t->down ? -0.6 : 0.6) * t->step;
		if (t->rule.quick >= 0 && t->rule.quick <= 1)
			return true;
		if (!next_change(t, kinds))
			return false;
	}
}

/* ------------------------------------------------------------------ */
/* Trying                                                              */

/* The list's schedule is the best one so far. */
static void take_seats(struct plan *p)
{
	const struct list_seat *seats = list_seats(p->list);

	for (uint32_t t = 0; t < p->program.nr_tasks; t++)
		p->seats[t] = (struct seat){
			.device = seats[t].device, .begin_ns = (float)seats[t].begin_ns,
		};
	p->length_ns = list_ns(p->list);
}

static void judge(struct plan *p)
{
	struct trials *t = &p->trials;
	double ns = list_ns(p->list), most;

	if (t->best_ns < 0 || ns < t->best_ns) {
		t->best = t->rule;
		t->best_ns = ns;
		take_seats(p);
		if (t->nr >= FIRST) {
			/* On to something else. */
			t->better = true;
			t->down = true;
		}
	}
	t->nr++;
	if (t->nr > 1)
		return;
	most = ns / PART / PLACE_NS / p->program.nr_places / p->program.nr_tasks;
	t->most = most < 1 ? 1 : most > RULES_MOST ? RULES_MOST : (uint32_t)most;
}

static int by_begin(const void *a, const void *b, void *of)
{
	const struct plan *p = of;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct seat *i = &p->seats[x], *k = &p->seats[y];

	if (i->begin_ns != k->begin_ns)
		return i->begin_ns < k->begin_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static bool set_out(struct sched *s, struct plan *p, uint64_t now_ns)
{
	uint32_t nr = p->program.nr_tasks, at = 0;
	uint32_t *turns = calloc(nr, sizeof(*turns));

	p->order = calloc(nr, sizeof(*p->order));
	p->queues = calloc(s->nr_devices + 1ul, sizeof(*p->queues));
	if (!turns || !p->order || !p->queues) {
		free(turns);
		return false;
	}
	for (uint32_t t = 0; t < nr; t++) {
		turns[t] = t;
		if (p->seats[t].device != LIST_NONE)
			p->queues[p->seats[t].device].nr++;
		else
			p->nowhere++;
	}
	if (p->nowhere == nr) {
		free(turns);
		return false;
	}
	qsort_r(turns, nr, sizeof(*turns), by_begin, p);
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		p->queues[i].begin = at;
		at += p->queues[i].nr;
		p->queues[i].nr = 0;
	}
	for (uint32_t i = 0; i < nr; i++) {
		struct seat *seat = &p->seats[turns[i]];
		struct queue *q;

		seat->turn = i;
		if (seat->device == LIST_NONE)
			continue;
		q = &p->queues[seat->device];
		seat->place = q->nr++;
		p->order[q->begin + seat->place] = turns[i];
	}
	free(turns);
	__atomic_store_n(&s->plans, s->plans + 1, __ATOMIC_RELAXED);
	p->left = at;
	p->begun_ns = now_ns;
	p->stage = FOLLOWED;
	return true;
}

bool plan_try_on(struct sched *s, struct plan *p, uint64_t now_ns)
{
	struct trials *t = &p->trials;
	uint32_t left = PLACES / p->program.nr_places + 1;
	int r;

	while (left) {
		uint32_t all = p->program.nr_tasks;

		if (!t->begun) {
			if (!rule_next(t, p->program.nr_kinds))
				return set_out(s, p, now_ns);
			if (!list_begin(p->list, &t->rule))
				return false;
			t->begun = true;
		}
		r = list_go_on(p->list, left);
		if (r < 0)
			return false;
		if (!r)
			return true;
		t->begun = false;
		judge(p);
		left -= left < all ? left : all;
	}
	return true;
}
