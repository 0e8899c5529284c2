/* SPDX-License-Identifier: MIT */
/*
 * waits.c - how long tenants wait for devices
 *
 * A tenant waits from a pick on that found nothing for a task of its own or of one below it,
 * until it has none left that is queued: who is given a device at once has not waited.  One above
 * counts those directly below that wait, and itself; so while several do, time runs once for it.
 *
 * It is throttled while it waits, or one below does, for the next period of its own maximum: that
 * is of struct sched_cap, see share.c.  What has come to these figures is kept in a list of
 * those where something has, until sched_stats().
 */
#include <string.h>

#include "daemon/sched/internal.h"

void stat_list(struct sched *s, struct sched_flow *f)
{
	if (f->listed || !s->keeps_stats)
		return;
	f->listed = true;
	f->stat_next = NULL;
	*s->stats_end = f;
	s->stats_end = &f->stat_next;
	s->nr_stats++;
}

static struct sched_flow *unlist(struct sched *s)
{
	struct sched_flow *f = s->stats;

	s->stats = f->stat_next;
	if (!s->stats)
		s->stats_end = &s->stats;
	s->nr_stats--;
	f->listed = false;
	return f;
}

void waits_up(struct sched *s, struct sched_flow *f)
{
	for (; f && !f->waiters++; f = f->parent) {
		f->waited_to = s->now_ns;
		stat_list(s, f);
	}
}

void waits_down(struct sched *s, struct sched_flow *f)
{
	for (; f && !--f->waiters; f = f->parent)
		f->stat.waiting_ns += s->now_ns - f->waited_to;
}

void waits_begin(struct sched *s)
{
	struct sched_flow *f;

	while ((f = s->came)) {
		s->came = f->came_next;
		f->came = false;
		if (!f->used || f->waits)
			continue;
		f->waits = true;
		waits_up(s, f);
		if (f->blocked)
			cap_hold(s, f);
	}
}

void waits_forget(struct sched *s)
{
	struct sched_flow **p = &s->came, *f;

	while ((f = *p)) {
		if (f->used) {
			p = &f->came_next;
			continue;
		}
		*p = f->came_next;
		f->came = false;
	}
}

void waits_end(struct sched *s, struct sched_flow *f)
{
	f->waits = false;
	cap_let_go(s, f);
	waits_down(s, f);
}

bool sched_has_stats(const struct sched *s)
{
	return s->nr_stats;
}

uint32_t sched_stats(struct sched *s, struct sched_stat *stats, uint32_t max, uint64_t now_ns)
{
	uint32_t left = s->nr_stats, n = 0;

	told_time(s, now_ns);
	for (; left && n < max; left--) {
		struct sched_flow *f = unlist(s);
		struct sched_stat *t = &f->stat;

		if (f->waiters) {
			t->waiting_ns += s->now_ns - f->waited_to;
			f->waited_to = s->now_ns;
			stat_list(s, f);
		}
		if (f->cap)
			cap_look(s, f);
		if (!t->waiting_ns && !t->throttled_ns && !t->nr_periods)
			continue;
		stats[n] = *t;
		stats[n++].tenant = f->tenant;
		memset(t, 0, sizeof(*t));
	}
	return n;
}
