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

/* Forgets periods that are over, but not what they left owing. */
static void roll(struct sched_cap *c, uint64_t now_ns)
{
	uint64_t periods, paid;

	if (now_ns - c->start_ns < c->period_ns)
		return;
	periods = (now_ns - c->start_ns) / c->period_ns;
	c->start_ns += periods * c->period_ns;
	if (__builtin_mul_overflow(periods, c->max_ns, &paid) || paid > c->spent_ns)
		paid = c->spent_ns;
	c->spent_ns -= paid;
}

void cap_charge(struct sched *s, struct sched_flow *f, uint64_t add, uint64_t take)
{
	for (; f; f = f->parent) {
		struct sched_cap *c = f->cap;

		if (!c)
			continue;
		roll(c, s->now_ns);
		c->spent_ns += add;
		/* Charged in a period that has been paid for already. */
		c->spent_ns -= take < c->spent_ns ? take : c->spent_ns;
	}
}

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

uint64_t cap_until(const struct sched *s, const struct sched_flow *f)
{
	uint64_t until = 0, at;

	for (; f; f = f->parent) {
		if (!f->cap)
			continue;
		roll(f->cap, s->now_ns);
		at = paid_at(f->cap);
		until = at > until ? at : until;
	}
	return until;
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
	if (f->parent)
		f->parent->children--;
	f->parent = parent;
	if (parent)
		parent->children++;
	s->tree_version++;
	if (has_tasks(f) || f->busy_children)
		share_count(s, f);
	f->capped |= parent && parent->capped;
}

static int set_cap(struct sched *s, struct sched_flow *f, uint64_t max_ns, uint64_t period_ns)
{
	if (max_ns == SCHED_NO_MAX) {
		if (!f->cap)
			return 0;
		free(f->cap);
		f->cap = NULL;
	} else if (!f->cap) {
		f->cap = calloc(1, sizeof(*f->cap));
		if (!f->cap)
			return -ENOMEM;
		f->cap->start_ns = s->now_ns;
		f->cap->max_ns = max_ns;
		f->cap->period_ns = period_ns;
	} else if (f->cap->max_ns != max_ns || f->cap->period_ns != period_ns) {
		roll(f->cap, s->now_ns);
		f->cap->max_ns = max_ns;
		f->cap->period_ns = period_ns;
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
