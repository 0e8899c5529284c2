/* SPDX-License-Identifier: MIT */
/*
 * share.c - the tree of tenants: what part of device time each may have
 *
 * Weights are relative to those of siblings that are busy; who waits for the next period of its
 * maximum is not.  A tenant's virtual time runs by the product of its own and its ancestors'
 * parts; it is worked out anew when somebody became busy or idle.  Tasks of a tenant that has busy
 * children count as one more child.
 *
 * device_time.max: what a tenant and all below it spend, on all devices, is summed up in
 * each period.  Once it has reached the maximum, no task starts until the next period;
 * what running tasks spend beyond it is owed, and taken from the periods that follow.
 * What was not spent is gone with its period.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sched/internal.h"

/* ------------------------------------------------------------------ */
/* Weights                                                             */

/* Those that wait for a period to come take nothing from others meanwhile. */
static bool has_tasks(const struct sched_flow *f)
{
	return (f->used && !f->blocked) || f->running;
}

/* Of all that share what @g gets. */
static double weights_in(const struct sched_flow *g)
{
	return (double)g->child_weights + (has_tasks(g) ? DEFAULT_WEIGHT : 0);
}

void share_rescale(struct sched *s, struct sched_flow *f)
{
	const struct sched_flow *g;
	double scale = 256.0 / f->weight;

	/* Its tasks are one child more beside the others. */
	if (f->busy_children)
		scale *= weights_in(f) / DEFAULT_WEIGHT;
	for (g = f; g->parent; g = g->parent) {
		double sum = weights_in(g->parent) + (g->counted ? 0 : g->weight);

		scale *= sum / g->parent->weight;
	}
	f->scale = scale < 1 << 20 ? (uint64_t)(scale * (1 << SCALE_BITS)) : 1ull << 44;
	f->scale += !f->scale;
	f->scaled = s->tree_version;
}

void share_count(struct sched *s, struct sched_flow *f)
{
	while (f->parent && !f->counted) {
		f->counted = f->weight;
		f->parent->child_weights += f->counted;
		f->parent->busy_children++;
		s->tree_version++;
		f = f->parent;
	}
}

void share_uncount(struct sched *s, struct sched_flow *f)
{
	/* Its own tasks were one child more. */
	if (f->busy_children && !has_tasks(f))
		s->tree_version++;
	while (f->parent && f->counted && !f->busy_children && !has_tasks(f)) {
		f->parent->child_weights -= f->counted;
		f->parent->busy_children--;
		f->counted = 0;
		s->tree_version++;
		f = f->parent;
	}
}

/* ------------------------------------------------------------------ */
/* Maxima                                                              */

/* When the last of the periods is over in which what is owed is paid. */
static uint64_t paid_at(const struct sched_cap *c)
{
	uint64_t periods, ns;

	if (c->spent_ns < c->max_ns)
		return 0;
	if (!c->max_ns)
		return UINT64_MAX;
	periods = (c->spent_ns - c->max_ns) / c->max_ns + 1;
	if (__builtin_mul_overflow(periods, c->period_ns, &ns) ||
	    __builtin_add_overflow(ns, c->start_ns, &ns))
		return UINT64_MAX;
	return ns;
}

/*
 * Periods that any of @from to @to is in, but for those that began before *@counted, which is
 * brought to the end of the last one.
 */
static uint64_t count_periods(const struct sched_cap *c, uint64_t from, uint64_t to,
			      uint64_t *counted)
{
	uint64_t last = to - (to - c->start_ns) % c->period_ns;

	from = from > *counted ? from : *counted;
	if (from > to)
		return 0;
	if (__builtin_add_overflow(last, c->period_ns, counted))
		*counted = UINT64_MAX;
	return from < last ? (last - from - 1) / c->period_ns + 2 : 1;
}

/* How long those below were kept until now, as things have been since that was looked at. */
static void throttled(struct sched *s, struct sched_flow *f)
{
	struct sched_cap *c = f->cap;
	uint64_t from = c->seen_ns, to = paid_at(c);

	c->seen_ns = s->now_ns;
	to = to < s->now_ns ? to : s->now_ns;
	if (from >= to)
		return;
	f->stat.throttled_ns += to - from;
	f->stat.nr_throttled += count_periods(c, from, to - 1, &c->throttled_ns);
	f->stat.nr_periods += count_periods(c, from, to - 1, &c->counted_ns);
	stat_list(s, f);
}

/* Forgets periods that are over, but not what they left owing. */
static void roll(struct sched *s, struct sched_flow *f)
{
	struct sched_cap *c = f->cap;
	uint64_t now_ns = s->now_ns, periods, paid;

	if (__builtin_expect(c->held != 0, 0))
		throttled(s, f);
	if (now_ns - c->start_ns < c->period_ns)
		return;
	periods = (now_ns - c->start_ns) / c->period_ns;
	c->start_ns += periods * c->period_ns;
	if (__builtin_mul_overflow(periods, c->max_ns, &paid) || paid > c->spent_ns)
		paid = c->spent_ns;
	c->spent_ns -= paid;
	c->owed_ns = c->spent_ns;
}

/*
 * A period that is over has been paid for, whether all of that was used or not: given back in
 * this one it would be saved.  But what is owed still may turn out not to have been spent.
 */
void cap_keep(struct sched *s, const struct graph_node *n, uint64_t run_ns)
{
	uint64_t charged = n->sched.predicted_ns ? n->sched.predicted_ns : SCHED_GUESS_NS;
	struct sched_flow *f;

	if (run_ns >= charged)
		return;
	for (f = n->sched.flow; f; f = f->parent) {
		uint64_t unspent = charged - run_ns;
		struct sched_cap *c = f->cap;

		if (!c)
			continue;
		roll(s, f);
		if (n->sched.push_ns >= c->start_ns)
			continue;
		c->owed_ns = c->owed_ns < c->spent_ns ? c->owed_ns : c->spent_ns;
		unspent -= unspent < c->owed_ns ? unspent : c->owed_ns;
		c->owed_ns -= charged - run_ns - unspent;
		c->spent_ns += unspent;
	}
}

void cap_charge(struct sched *s, struct sched_flow *f, uint64_t add, uint64_t take,
		uint64_t ran_ns)
{
	uint64_t from = ran_ns < s->now_ns ? s->now_ns - ran_ns : 0;

	for (; f; f = f->parent) {
		struct sched_cap *c = f->cap;

		if (!c)
			continue;
		roll(s, f);
		c->spent_ns += add;
		/* Charged in a period that has been paid for already. */
		c->spent_ns -= take < c->spent_ns ? take : c->spent_ns;
		f->stat.nr_periods += count_periods(c, from, s->now_ns, &c->counted_ns);
		stat_list(s, f);
	}
}

uint64_t cap_until(struct sched *s, struct sched_flow *f)
{
	uint64_t until = 0, at;

	for (; f; f = f->parent) {
		if (!f->cap)
			continue;
		roll(s, f);
		at = paid_at(f->cap);
		until = at > until ? at : until;
	}
	return until;
}

void cap_hold(struct sched *s, struct sched_flow *f)
{
	f->held = true;
	for (; f; f = f->parent) {
		if (!f->cap)
			continue;
		roll(s, f);
		if (!f->cap->held++) {
			f->cap->seen_ns = s->now_ns;
			stat_list(s, f);
		}
	}
}

void cap_let_go(struct sched *s, struct sched_flow *f)
{
	if (!f->held)
		return;
	f->held = false;
	for (; f; f = f->parent) {
		if (!f->cap)
			continue;
		roll(s, f);
		f->cap->held--;
	}
}

void cap_look(struct sched *s, struct sched_flow *f)
{
	roll(s, f);
	if (f->cap->held)
		stat_list(s, f);
}

/* There are other maxima above those that wait, or others of those wait below. */
static void count_held(struct sched *s)
{
	struct sched_flow *f, *g;
	uint32_t i;

	for (i = 0; i <= s->bucket_mask; i++)
		for (f = s->buckets[i]; f; f = f->hash_next) {
			if (!f->cap)
				continue;
			roll(s, f);
			f->cap->held = 0;
			f->cap->seen_ns = s->now_ns;
		}
	for (i = 0; i <= s->bucket_mask; i++)
		for (f = s->buckets[i]; f; f = f->hash_next)
			for (g = f->held ? f : NULL; g; g = g->parent)
				if (g->cap) {
					g->cap->held++;
					stat_list(s, g);
				}
}

/* ------------------------------------------------------------------ */
/* What is told                                                        */

/* A maximum here is one for all below. */
static void mark_capped(struct sched *s)
{
	s->capped = false;
	for (uint32_t i = 0; i <= s->bucket_mask; i++)
		for (struct sched_flow *f = s->buckets[i]; f; f = f->hash_next) {
			f->capped = false;
			for (struct sched_flow *g = f; g; g = g->parent)
				f->capped |= !!g->cap;
			s->capped |= f->capped;
		}
	count_held(s);
	sched_wake_all(s);
}

static bool is_below(const struct sched_flow *f, const struct sched_flow *above)
{
	for (; f; f = f->parent)
		if (f == above)
			return true;
	return false;
}

static void set_parent(struct sched *s, struct sched_flow *f, struct sched_flow *parent)
{
	/* A loop. */
	if (parent && is_below(parent, f))
		return;
	if (f->counted) {
		/* As if it had no tasks: it may have some. */
		f->parent->child_weights -= f->counted;
		f->parent->busy_children--;
		f->counted = 0;
		share_uncount(s, f->parent);
	}
	if (f->waiters)
		waits_down(s, f->parent);
	if (f->parent)
		f->parent->children--;
	f->parent = parent;
	if (parent)
		parent->children++;
	if (f->waiters)
		waits_up(s, parent);
	s->tree_version++;
	if (has_tasks(f) || f->busy_children)
		share_count(s, f);
	f->capped |= parent && parent->capped;
	if (f->waiters && s->capped)
		count_held(s);
}

static int set_cap(struct sched *s, struct sched_flow *f, uint64_t max_ns, uint64_t period_ns)
{
	if (max_ns == SCHED_NO_MAX) {
		if (!f->cap)
			return 0;
		roll(s, f);
		free(f->cap);
		f->cap = NULL;
	} else if (!f->cap) {
		f->cap = calloc(1, sizeof(*f->cap));
		if (!f->cap)
			return -ENOMEM;
		f->cap->start_ns = s->now_ns;
		f->cap->counted_ns = s->now_ns;
		f->cap->max_ns = max_ns;
		f->cap->period_ns = period_ns;
	} else if (f->cap->max_ns != max_ns || f->cap->period_ns != period_ns) {
		roll(s, f);
		f->cap->max_ns = max_ns;
		f->cap->period_ns = period_ns;
		/* The one that is under way is counted, and those of the new kind are others. */
		if (f->cap->counted_ns > s->now_ns)
			f->cap->counted_ns = s->now_ns;
		if (f->cap->throttled_ns > s->now_ns)
			f->cap->throttled_ns = s->now_ns;
	} else {
		return 0;
	}
	mark_capped(s);
	return 0;
}

static void set_weight(struct sched *s, struct sched_flow *f, uint32_t weight)
{
	if (f->weight == weight)
		return;
	f->weight = weight;
	if (f->counted) {
		f->parent->child_weights += weight;
		f->parent->child_weights -= f->counted;
		f->counted = weight;
	}
	s->tree_version++;
}

int share_set(struct sched *s, struct sched_flow *f, const struct sched_tenant *t)
{
	struct sched_flow *parent = NULL;

	if (t->parent) {
		/* Who makes room for the parent must not take @f for one to be forgotten. */
		f->children++;
		parent = flow_get(s, t->parent);
		f->children--;
		if (!parent)
			return -ENOMEM;
	}
	if (f->parent != parent)
		set_parent(s, f, parent);
	set_weight(s, f, t->weight);
	f->told = s->round;
	return set_cap(s, f, t->max_ns, t->period_ns);
}
