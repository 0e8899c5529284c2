// SPDX-License-Identifier: MIT
/*
 * level.c - where turns have come to, device by device
 *
 * Not every device is of use to everybody.  Who has a device with many lanes for himself has a
 * virtual time far ahead of those that share another one, and neither takes anything from the
 * other.  So each device has a level, the start tag of the latest pick there (the virtual time
 * of start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996).  Who comes begins with the
 * lowest of those where somebody is, so that it is behind nobody who is busy where it goes.  Who
 * takes a device from far below its level is lifted there, up to a credit, as if it had had what is
 * between: else it would have that device for itself until it has caught up.  That holds on this device
 * alone, for what it has never had is no debt where others are as far as it is.
 *
 * Who had a task that might run here, and rather has it wait for another device, has let others by:
 * he is lifted to where he was then, and nobody else is.
 *
 * So neither who has just come, nor who always keeps one small task running, nor who has been at
 * another device has more than the credit before others, and nobody has to wait for it longer.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/internal.h"

/* A device that nobody has used for so long has no level any more. */
#define RECENT_NS	1000000000ull

static bool has_level(const struct sched *s, const struct sched_device *d)
{
	return d->busy || s->now_ns - d->level_ns < RECENT_NS;
}

uint64_t level_lowest(const struct sched *s)
{
	uint64_t least = s->nr_active ? s->active[0]->vtime : UINT64_MAX;

	for (uint32_t i = 0; i < s->nr_devices; i++)
		if (s->devices[i].held < least && has_level(s, &s->devices[i]))
			least = s->devices[i].held;
	return least == UINT64_MAX || least < s->vtime ? s->vtime : least;
}

uint64_t level_farthest(const struct sched *s)
{
	uint64_t most = level_least(s);

	for (uint32_t i = 0; i < s->nr_devices; i++)
		if (s->devices[i].level > most)
			most = s->devices[i].level;
	return most;
}

uint64_t level_lifted(struct sched *s, struct sched_flow *f, uint32_t device, uint64_t ns)
{
	const struct sched_device *d = &s->devices[device];
	uint64_t at = level_own(s, f, device), credit;
	uint64_t level = f->waited ? d->held : d->level;

	if (at >= level || !has_level(s, d))
		return at;
	/* Its own next task may have been charged for more than it takes, lately. */
	credit = virtual_ns(s, f, SCHED_CREDIT_NS + ns);
	return level - at > credit ? level - credit : at;
}

/* Only there; false: no memory. */
static bool lift_there(struct sched *s, struct sched_flow *f, uint32_t device, uint64_t by)
{
	uint64_t *lifts = f->lifts;

	if (device >= f->nr_lifts) {
		lifts = realloc(lifts, s->nr_devices * sizeof(*lifts));
		if (!lifts)
			return false;
		memset(lifts + f->nr_lifts, 0, (s->nr_devices - f->nr_lifts) * sizeof(*lifts));
		f->lifts = lifts;
		f->nr_lifts = s->nr_devices;
	}
	lifts[device] = by;
	s->lifts = true;
	return true;
}

/* What it would be lifted by on each device that has a level it is lifted by as a whole. */
static __attribute__((cold, noinline)) void lift(struct sched *s, struct sched_flow *f,
						  uint32_t device, uint64_t at, uint64_t ns)
{
	uint64_t all = at - f->vtime;

	if (f->lifts && f->lifts_of != s->lifts_of)
		memset(f->lifts, 0, f->nr_lifts * sizeof(*f->lifts));
	f->lifts_of = s->lifts_of;
	for (uint32_t i = 0; i < s->nr_devices && all; i++) {
		uint64_t there;

		if (i == device || !s->devices[i].lanes || !has_level(s, &s->devices[i]))
			continue;
		there = level_lifted(s, f, i, ns) - f->vtime;
		all = there < all ? there : all;
	}
	f->vtime += all;
	level_moved(s, f, all);
	if (at > f->vtime && !lift_there(s, f, device, at - f->vtime))
		f->vtime = at;
}

void level_moved(const struct sched *s, struct sched_flow *f, uint64_t by)
{
	if (f->lifts_of != s->lifts_of)
		return;
	for (uint32_t i = 0; i < f->nr_lifts; i++)
		f->lifts[i] -= f->lifts[i] < by ? f->lifts[i] : by;
}

void level_lift(struct sched *s, struct sched_flow *f, uint32_t device, uint64_t ns)
{
	struct sched_device *d = &s->devices[device];
	uint64_t at = level_lifted(s, f, device, ns);

	if (__builtin_expect(at != level_own(s, f, device), 0))
		lift(s, f, device, at, ns);
	if (__builtin_expect(at > SCHED_FAR, 0)) {
		level_rebase(s);
		at = 0;
	}
	if (d->level < at || !has_level(s, d))
		d->level = at;
	if (at > s->waited)
		at = s->waited;
	if (d->held < at || !has_level(s, d))
		d->held = at;
	d->level_ns = s->now_ns;
}

void level_reach(struct sched *s, const struct sched_flow *f, uint32_t device, bool alone)
{
	struct sched_device *d = &s->devices[device];
	uint64_t at = level_own(s, f, device);

	if (!alone && s->nr_active && s->active[0]->vtime < at)
		at = s->active[0]->vtime;
	if (d->held < at)
		d->held = at;
	if (d->level < at)
		d->level = at;
}

void level_anew(struct sched *s)
{
	s->lifts = false;
	s->lifts_of++;
	for (uint32_t i = 0; i < s->nr_devices; i++)
		s->devices[i].level = s->devices[i].held = s->devices[i].level_ns = 0;
}

void level_rebase(struct sched *s)
{
	for (uint32_t i = 0; i <= s->bucket_mask; i++)
		for (struct sched_flow *f = s->buckets[i]; f; f = f->hash_next)
			f->vtime = 0;
	s->vtime = s->vtime_max = 0;
	level_anew(s);
}
