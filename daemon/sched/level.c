// SPDX-License-Identifier: MIT
/*
 * level.c - where turns have come to, device by device
 *
 * Of those that take turns: all tenants, and the programs of each that has several.
 *
 * Not every device is of use to everybody.  Who has a device with many lanes for himself has a
 * virtual time far ahead of those that share another one, and neither takes anything from the
 * other.  So each device has a level, the start tag of the latest pick there (the virtual time
 * of start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996).  Who comes begins with the
 * lowest of those where somebody is, so that it is behind nobody who is busy where it goes.  Who
 * takes a device from far below its level is lifted there, up to a credit, as if it had had what is
 * between: else it would have that device for itself until it has caught up.  That holds on this
 * device alone, for what it has never had is no debt where others are as far as it is.  It holds
 * as well if nobody was there for a while: who was the last one owes nothing to who came next.
 *
 * Who had a task that might run here, and rather has it wait for another device, has let others by:
 * he is lifted to where he was then, and nobody else is.
 *
 * So neither who has just come, nor who always keeps one small task running, nor who has been at
 * another device has more than the credit before others, and nobody has to wait for it longer.
 *
 * Programs have priorities, which are head starts: their tags are compared with these, and so are
 * the levels, but what a program has is kept without.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/internal.h"

static bool in_use(const struct sched *s, const struct sched_level *d)
{
	return d->until && (d->busy || s->now_ns < d->until);
}

bool level_room(const struct sched *s, struct sched_levels *l)
{
	struct sched_level *of;

	if (l->nr >= s->nr_devices)
		return true;
	of = realloc(l->of, s->nr_devices * sizeof(*of));
	if (!of)
		return false;
	memset(of + l->nr, 0, (s->nr_devices - l->nr) * sizeof(*of));
	l->of = of;
	l->nr = s->nr_devices;
	return true;
}

void level_free(struct sched_levels *l)
{
	free(l->of);
}

uint64_t level_lowest(const struct sched *s, const struct sched_levels *l, uint64_t least)
{
	for (uint32_t i = 0; i < l->nr; i++)
		if (l->of[i].held < least && in_use(s, &l->of[i]))
			least = l->of[i].held;
	return least;
}

uint64_t level_lifted(const struct sched *s, const struct sched_levels *l,
		      const struct sched_account *a, uint32_t device,
		      const struct sched_terms *terms)
{
	const struct sched_level *d = &l->of[device];
	uint64_t at = level_own(l, a, device), level = terms->waited ? d->held : d->at;

	level -= level < terms->head ? level : terms->head;
	if (at >= level)
		return at;
	return level - at > terms->credit ? level - terms->credit : at;
}

/* Only there; false: no memory. */
static bool lift_there(const struct sched *s, struct sched_levels *l, struct sched_account *a,
		       uint32_t device, uint64_t by)
{
	struct sched_lifts *lifts = a->lifts;
	uint32_t nr = lifts ? lifts->nr : 0;

	if (device >= nr) {
		lifts = realloc(lifts, sizeof(*lifts) + s->nr_devices * sizeof(*lifts->by));
		if (!lifts)
			return false;
		memset(lifts->by + nr, 0, (s->nr_devices - nr) * sizeof(*lifts->by));
		lifts->nr = s->nr_devices;
		lifts->of = l->lifts_of;
		a->lifts = lifts;
	}
	lifts->by[device] = by;
	l->lifts = true;
	return true;
}

/* What it would be lifted by on each device that has a level it is lifted by as a whole. */
static __attribute__((cold, noinline)) void lift(const struct sched *s, struct sched_levels *l,
						 struct sched_account *a, uint32_t device,
						 uint64_t at, const struct sched_terms *terms)
{
	uint64_t all = at - a->vtime;

	if (a->lifts && a->lifts->of != l->lifts_of) {
		memset(a->lifts->by, 0, a->lifts->nr * sizeof(*a->lifts->by));
		a->lifts->of = l->lifts_of;
	}
	for (uint32_t i = 0; i < l->nr && all; i++) {
		uint64_t there;

		if (i == device || !s->devices[i].lanes || !in_use(s, &l->of[i]))
			continue;
		there = level_lifted(s, l, a, i, terms) - a->vtime;
		all = there < all ? there : all;
	}
	a->vtime += all;
	level_moved(l, a, all);
	if (at > a->vtime && !lift_there(s, l, a, device, at - a->vtime))
		a->vtime = at;
}

void level_moved(const struct sched_levels *l, struct sched_account *a, uint64_t by)
{
	struct sched_lifts *lifts = a->lifts;

	if (!lifts || lifts->of != l->lifts_of)
		return;
	for (uint32_t i = 0; i < lifts->nr; i++)
		lifts->by[i] -= lifts->by[i] < by ? lifts->by[i] : by;
}

static void reached(const struct sched *s, struct sched_level *d, uint64_t at, uint64_t held)
{
	if (d->at < at)
		d->at = at;
	if (d->held < held || !in_use(s, d))
		d->held = held;
	d->until = s->now_ns + SCHED_RECENT_NS;
}

void level_lift(const struct sched *s, struct sched_levels *l, struct sched_account *a,
		uint32_t device, const struct sched_terms *terms, uint64_t ahead)
{
	uint64_t at = level_lifted(s, l, a, device, terms);

	if (__builtin_expect(at != level_own(l, a, device), 0))
		lift(s, l, a, device, at, terms);
	at += ahead;
	reached(s, &l->of[device], at, at < l->waited ? at : l->waited);
}

void level_reach(const struct sched *s, struct sched_levels *l, uint32_t device, uint64_t at)
{
	reached(s, &l->of[device], at, at);
}

void level_anew(struct sched_levels *l)
{
	l->lifts = false;
	l->lifts_of++;
	for (uint32_t i = 0; i < l->nr; i++)
		l->of[i] = (struct sched_level){
			.busy = l->of[i].busy, .only = l->of[i].only, .found = l->of[i].found,
		};
}
