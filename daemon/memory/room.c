// SPDX-License-Identifier: MIT
/*
 * room.c - tasks that wait for room on a device, and who may go before them
 *
 * What the first one that waits needs is kept for it: tasks that come after it may hold what is
 * left beside that, and no more.  So it waits for no others than those that were there before it,
 * and small tasks go on meanwhile.
 *
 * If it would have room but for tasks of its own tenant, which may take long, nothing is kept from
 * other tenants until those have ended: two ordinary tasks of one would be enough to keep a device
 * from all.  Then it waits for those as well that came meanwhile, but for no more of them.
 */
#include "daemon/memory/internal.h"

/**
 * struct held - bytes of a device, by who is in the way of the first one that waits
 * @own, @others: held by tasks that were there before it: of its tenant alone; of others, too
 * @later:	held by tasks that came after it
 */
struct held {
	uint64_t own, others, later;
};

/* (locked) */
static bool is_later(const struct memory_extent *e, const struct memory_wait *first)
{
	const struct memory_range *u;

	for (u = e->users; u; u = u->next_user)
		if (u->came > first->since)
			return true;
	return false;
}

/* (locked) */
static void look(const struct memory_device *d, const struct memory_wait *first, struct held *h)
{
	const struct memory_extent *e;
	const struct memory_range *u;

	*h = (struct held){ 0 };
	for (e = d->used; e; e = e->used_next) {
		uint64_t bytes = e->end - e->start;
		bool own = false, others = false, later = false;

		for (u = e->users; u; u = u->next_user) {
			later |= u->came > first->since;
			own |= u->came <= first->since && u->tenant == first->tenant;
			others |= u->came <= first->since && u->tenant != first->tenant;
		}
		h->later += later ? bytes : 0;
		h->others += others ? bytes : 0;
		h->own += own && !others ? bytes : 0;
	}
}

/* (locked) Whether nobody but its own tenant, with older tasks, keeps it from having room. */
static bool is_its_own_affair(const struct memory_device *d, const struct memory_wait *first,
			      const struct held *h)
{
	uint64_t left = d->stats.bytes - first->bytes;

	return h->others <= left && h->own > left - h->others;
}

/* (locked) */
static bool may_have(const struct memory_device *d, uint64_t tenant, const struct held *h,
		     uint64_t more)
{
	const struct memory_wait *first = d->first;

	if (tenant != first->tenant && is_its_own_affair(d, first, h))
		return true;
	return h->later + more <= d->stats.bytes - first->bytes;
}

bool room_is_kept_for(const struct memory_device *d, const struct memory_wait *w)
{
	return d->first && d->first != w;
}

bool room_is_worth_it(const struct memory_device *d, uint64_t tenant, uint64_t bytes)
{
	struct held h;

	if (!bytes)
		return true;
	look(d, d->first, &h);
	/* What it needs may be held by tasks that came later, and then is no more. */
	h.later = 0;
	return may_have(d, tenant, &h, bytes);
}

bool room_is_left_for(const struct memory_device *d, const struct memory_range *ranges, uint32_t nr,
		      uint64_t tenant)
{
	uint64_t more = 0;
	struct held h;
	uint32_t i, j;

	for (i = 0; i < nr; i++) {
		const struct memory_extent *e = ranges[i].extent;

		for (j = 0; j < i && ranges[j].extent != e; j++)
			;
		if (j == i && !is_later(e, d->first))
			more += e->end - e->start;
	}
	if (!more)
		return true;
	look(d, d->first, &h);
	return may_have(d, tenant, &h, more);
}

void room_wait(struct memory_device *d, struct memory_wait *w, uint64_t bytes)
{
	struct memory_wait **p = &d->first;
	struct held h;

	while (*p && *p != w)
		p = &(*p)->next;
	if (!*p) {
		*p = w;
		w->bytes = bytes < d->stats.bytes ? bytes : d->stats.bytes;
		w->since = d->came;
	}
	if (d->first != w)
		return;
	/* There was room and it was of no use, as memory has gaps: only later ones are in the way. */
	look(d, w, &h);
	if (!h.own && !h.others && h.later <= d->stats.bytes - w->bytes)
		w->bytes = d->stats.bytes;
}

void room_no_wait(struct memory *m, struct memory_device *d, struct memory_wait *w)
{
	struct memory_wait **p = &d->first;

	while (*p && *p != w)
		p = &(*p)->next;
	if (!*p)
		return;
	*p = w->next;
	if (p != &d->first)
		return;
	/* Who is first now has let others go, and need do so no more. */
	if (d->first)
		d->first->since = d->came;
	d->turns++;
	pthread_cond_broadcast(&m->settled);
}

void room_used(struct memory_device *d, struct memory_extent *e)
{
	e->used_next = d->used;
	e->used_prev = &d->used;
	if (e->used_next)
		e->used_next->used_prev = &e->used_next;
	d->used = e;
}

void room_unused(struct memory_extent *e)
{
	*e->used_prev = e->used_next;
	if (e->used_next)
		e->used_next->used_prev = e->used_prev;
}
