// SPDX-License-Identifier: MIT
/* A task's extents: all of them or none, pinned and paid for. */
#include <errno.h>

#include "daemon/log.h"
#include "daemon/memory/internal.h"

/*
 * Ranges of one buffer that touch each other must lie in one extent: the kernel
 * may count on one being seen through the other.
 */
static void hull(const struct memory_range *ranges, uint32_t nr, uint32_t of, uint64_t *start,
		 uint64_t *end)
{
	bool grown = true;
	uint32_t i;

	*start = ranges[of].offset;
	*end = memory_range_end(&ranges[of]);
	while (grown) {
		grown = false;
		for (i = 0; i < nr; i++) {
			uint64_t from = ranges[i].offset, to = memory_range_end(&ranges[i]);

			if (ranges[i].buffer != ranges[of].buffer || from >= *end || to <= *start)
				continue;
			if (from < *start || to > *end)
				grown = true;
			*start = from < *start ? from : *start;
			*end = to > *end ? to : *end;
		}
	}
}

static void let_go(struct memory *m, struct memory_range *ranges, uint32_t nr)
{
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	for (i = 0; i < nr; i++) {
		ranges[i].extent->pins--;
		ranges[i].extent = NULL;
	}
	pthread_mutex_unlock(&m->lock);
}

/* (entering) All of them, or none. */
static int take_extents(struct memory *m, uint32_t device, struct memory_range *ranges,
			uint32_t nr, bool tight)
{
	uint64_t start, end;
	uint32_t i;
	int err;

	for (i = 0; i < nr; i++) {
		hull(ranges, nr, i, &start, &end);
		/* Something to point at: an empty range has an address too. */
		if (start == end)
			end++;
		if (end > ranges[i].buffer->bytes) {
			end = ranges[i].buffer->bytes;
			start = end - 1;
		}
		err = extent_get(m, ranges[i].buffer, device, start, end, tight,
				 &ranges[i].extent);
		if (err) {
			let_go(m, ranges, i);
			return err;
		}
		ranges[i].address = ranges[i].extent->address +
				    (ranges[i].offset - ranges[i].extent->start);
	}
	return 0;
}

/* ------------------------------------------------------------------ */
/* Who pays                                                            */

/* (locked) Marks what nobody pays for yet, each extent but once; returns its bytes. */
static uint64_t mark_unpaid(struct memory_range *ranges, uint32_t nr, struct memory_owner owner,
			    bool marked[])
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < nr; i++) {
		struct memory_extent *e = ranges[i].extent;

		marked[i] = !e->is_charged;
		if (!marked[i])
			continue;
		e->is_charged = true;
		e->charged = owner;
		bytes += e->end - e->start;
	}
	return bytes;
}

/* (entering) -EDQUOT; 0 also where the owner is gone: then nobody pays. */
static int charge(struct memory *m, struct memory_range *ranges, uint32_t nr,
		  struct memory_owner owner)
{
	bool marked[ARAX_MAX_RANGES];
	uint64_t bytes;
	uint32_t i;
	int err;

	if (!m->charge)
		return 0;
	pthread_mutex_lock(&m->lock);
	bytes = mark_unpaid(ranges, nr, owner, marked);
	pthread_mutex_unlock(&m->lock);
	err = bytes ? m->charge(m->charge_arg, owner.id, (int64_t)bytes) : 0;
	if (!err)
		return 0;
	pthread_mutex_lock(&m->lock);
	for (i = 0; i < nr; i++)
		if (marked[i])
			ranges[i].extent->is_charged = false;
	pthread_mutex_unlock(&m->lock);
	return err == -EDQUOT ? err : 0;
}

void task_refund(struct memory *m, const struct refunds *refunds)
{
	uint32_t i;

	for (i = 0; i < refunds->nr; i++)
		m->charge(m->charge_arg, refunds->v[i].id, -(int64_t)refunds->v[i].bytes);
	pthread_mutex_lock(&m->lock);
	m->refunding--;
	m->settles++;
	pthread_cond_broadcast(&m->settled);
	pthread_mutex_unlock(&m->lock);
}

/* ------------------------------------------------------------------ */

static void complain(const struct memory_device *d, const struct memory_range *ranges, uint32_t nr)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < nr; i++)
		bytes += memory_range_end(&ranges[i]) - ranges[i].offset;
	log_warn("a task does not fit on a device: give it smaller ranges",
		 log_u64("bytes", bytes), log_u64("device_bytes", d->stats.bytes),
		 log_u64("ranges", nr));
}

/* (locked) */
static void add_users(struct memory_range *ranges, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++) {
		ranges[i].next_user = ranges[i].extent->users;
		ranges[i].extent->users = &ranges[i];
		ranges[i].loaded = false;
	}
}

static int take_paid(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		     struct memory_owner owner, bool tight)
{
	int err = take_extents(m, device, ranges, nr, tight);

	if (err)
		return err;
	err = charge(m, ranges, nr, owner);
	if (err)
		let_go(m, ranges, nr);
	return err;
}

/* (entering) Not now, if it is -ENOMEM or -EDQUOT; then nothing is held. */
static int take(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		struct memory_owner owner)
{
	int err;

	/* A larger part of one buffer is no reason to do without another, or to pay for. */
	err = take_paid(m, device, ranges, nr, owner, false);
	if (err == -ENOMEM || err == -EDQUOT)
		err = take_paid(m, device, ranges, nr, owner, true);
	return err;
}

/* (locked) Does a task of this tenant hold anything? */
static bool tenant_holds(const struct memory *m, uint64_t tenant)
{
	const struct memory_extent *e;
	uint32_t i;

	for (i = 0; i < m->nr_devices; i++)
		for (e = m->devices[i].extents; e; e = e->next)
			if (e->is_charged && e->charged.tenant == tenant)
				return true;
	return false;
}

/*
 * (locked, entering) Waits until some task has settled that may have been in the way,
 * by which @settles becomes another number; false: there is none.
 */
static bool wait_for_others(struct memory *m, struct memory_device *d, uint64_t tenant,
			    uint64_t settles, int err)
{
	bool others = m->refunding || (err == -ENOMEM ? d->held : tenant_holds(m, tenant));

	if (m->stopped)
		return false;
	/* Since this task tried. */
	if (m->settles != settles)
		return true;
	if (!others)
		return false;
	d->stats.waits++;
	/* One tenant's quota is no reason for others to wait for this device. */
	if (err == -EDQUOT)
		pthread_mutex_unlock(&d->entering);
	pthread_cond_wait(&m->settled, &m->lock);
	if (err == -EDQUOT) {
		pthread_mutex_unlock(&m->lock);
		pthread_mutex_lock(&d->entering);
		pthread_mutex_lock(&m->lock);
	}
	return true;
}

int task_hold(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
	      struct memory_owner owner)
{
	struct memory_device *d = &m->devices[device];
	bool again = true, stopped;
	uint64_t settles;
	int err;

	pthread_mutex_lock(&d->entering);
	do {
		pthread_mutex_lock(&m->lock);
		settles = m->settles;
		pthread_mutex_unlock(&m->lock);
		err = take(m, device, ranges, nr, owner);
		pthread_mutex_lock(&m->lock);
		if (!err) {
			d->held++;
			add_users(ranges, nr);
		}
		if (err == -ENOMEM || err == -EDQUOT)
			again = wait_for_others(m, d, owner.tenant, settles, err);
		else
			again = false;
		stopped = m->stopped;
		pthread_mutex_unlock(&m->lock);
	} while (again);
	pthread_mutex_unlock(&d->entering);
	if (err && stopped)
		return -ECANCELED;
	if (err == -ENOMEM)
		complain(d, ranges, nr);
	return err;
}

void task_release(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		  struct refunds *refunds)
{
	uint32_t i;

	refunds->nr = 0;
	for (i = 0; i < nr; i++) {
		struct memory_extent *e = ranges[i].extent;
		struct memory_range **p = &e->users;

		while (*p != &ranges[i])
			p = &(*p)->next_user;
		*p = ranges[i].next_user;
		ranges[i].extent = NULL;
		extent_used(m, e);
		if (--e->pins || !e->is_charged)
			continue;
		e->is_charged = false;
		refunds->v[refunds->nr].id = e->charged.id;
		refunds->v[refunds->nr++].bytes = e->end - e->start;
	}
	m->devices[device].held--;
	m->refunding++;
}
