// SPDX-License-Identifier: MIT
/* A task's extents: all of them or none, pinned and paid for. */
#include <errno.h>
#include <stdio.h>

#include "daemon/complaints.h"
#include "daemon/log.h"
#include "daemon/memory/internal.h"
#include "daemon/reason.h"

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

void task_hull(const struct memory_range *ranges, uint32_t nr, uint32_t of, uint64_t *start,
	       uint64_t *end)
{
	hull(ranges, nr, of, start, end);
	/* Something to point at: an empty range has an address too. */
	if (*start == *end)
		++*end;
	if (*end > ranges[of].buffer->bytes) {
		*end = ranges[of].buffer->bytes;
		*start = *end - 1;
	}
}

struct memory_range *extent_holder(const struct memory_extent *e, uint64_t payer, bool pays)
{
	struct memory_range *r;

	for (r = e->holders; r; r = r->next_holder)
		if (r->payer == payer && (r->pays || !pays))
			return r;
	return NULL;
}

/* (locked) */
static void add_holder(struct memory_extent *e, struct memory_range *r)
{
	struct memory *m = e->buffer->memory;

	r->holds = true;
	r->next_holder = e->holders;
	e->holders = r;
	if (r->next_holder)
		return;
	e->held_next = m->held;
	e->held_prev = &m->held;
	if (e->held_next)
		e->held_next->held_prev = &e->held_next;
	m->held = e;
}

/* (locked) */
static void remove_holder(struct memory_extent *e, struct memory_range *r)
{
	struct memory_range **p = &e->holders;

	while (*p != r)
		p = &(*p)->next_holder;
	*p = r->next_holder;
	r->holds = false;
	if (e->holders)
		return;
	*e->held_prev = e->held_next;
	if (e->held_next)
		e->held_next->held_prev = e->held_prev;
}

/* (locked) One task less; its owner pays no longer if that was its last. */
static void unpin(struct memory_extent *e, struct memory_range *r, struct refunds *refunds)
{
	struct memory_range *heir;

	extent_unpin(e);
	if (!r->holds)
		return;
	remove_holder(e, r);
	if (!r->pays)
		return;
	r->pays = false;
	heir = extent_holder(e, r->payer, false);
	if (heir) {
		heir->pays = true;
		return;
	}
	refunds->v[refunds->nr].id = r->payer;
	refunds->v[refunds->nr++].bytes = e->end - e->start;
}

/* The task that paid may have ended meanwhile: then it left that to us. */
static void let_go(struct memory *m, struct memory_range *ranges, uint32_t nr)
{
	struct refunds refunds = { 0 };
	uint32_t i;

	memory_lock(m);
	for (i = 0; i < nr; i++) {
		unpin(ranges[i].extent, &ranges[i], &refunds);
		ranges[i].extent = NULL;
	}
	m->refunding += !!refunds.nr;
	pthread_mutex_unlock(&m->lock);
	if (refunds.nr)
		task_refund(m, &refunds);
}

/*
 * (locked) The extent of an earlier range of the task that shares bytes with @of, as both have one
 * hull.  To look for it again may find another: those between have made extents, or keep some.
 */
static struct memory_extent *shared(const struct memory_range *ranges, uint32_t of, uint64_t start,
				    uint64_t end)
{
	uint32_t i;

	for (i = 0; i < of; i++)
		if (ranges[i].buffer == ranges[of].buffer && ranges[i].offset < end &&
		    memory_range_end(&ranges[i]) > start &&
		    extent_covers(ranges[i].extent, start, end))
			return ranges[i].extent;
	return NULL;
}

static int take_extent(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		       uint32_t of, enum extent_fit fit, uint64_t payer)
{
	uint64_t start, end;

	task_hull(ranges, nr, of, &start, &end);
	memory_lock(m);
	ranges[of].extent = shared(ranges, of, start, end);
	if (ranges[of].extent)
		extent_pin(ranges[of].extent);
	pthread_mutex_unlock(&m->lock);
	if (ranges[of].extent)
		return 0;
	return extent_get(m, ranges[of].buffer, device, start, end, fit, payer,
			  &ranges[of].extent);
}

/* (entering) All of them, or none. */
static int take_extents(struct memory *m, uint32_t device, struct memory_range *ranges,
			uint32_t nr, enum extent_fit fit, uint64_t payer)
{
	uint32_t i;
	int err;

	for (i = 0; i < nr; i++) {
		ranges[i].holds = ranges[i].pays = false;
		err = take_extent(m, device, ranges, nr, i, fit, payer);
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

/*
 * (locked) Does a task hold anything, or has just let go of it, so that it is worth waiting
 * for?  Of @tenant; @any: of whichever one.
 */
static bool somebody_holds(const struct memory *m, uint64_t tenant, bool any)
{
	const struct memory_extent *e;
	const struct memory_range *r;

	if (m->refunding)
		return true;
	for (e = m->held; e; e = e->held_next)
		for (r = e->holders; r; r = r->next_holder)
			if (r->pays && (any || r->tenant == tenant))
				return true;
	return false;
}

/*
 * (locked, entering) The task holds its extents for @owner, so that what another one of the
 * same owner pays comes to it when that ends.  Returns what the owner does not pay for yet, and
 * @asked, the ranges (bits) that are marked as if it did.
 */
static uint64_t add_holders(struct memory_range *ranges, uint32_t nr, struct memory_owner owner,
			    uint32_t *asked)
{
	uint64_t bytes = 0;
	uint32_t i;

	*asked = 0;
	for (i = 0; i < nr; i++) {
		struct memory_extent *e = ranges[i].extent;

		ranges[i].payer = owner.id;
		ranges[i].tenant = owner.tenant;
		ranges[i].pays = !extent_holder(e, owner.id, true);
		add_holder(e, &ranges[i]);
		if (!ranges[i].pays)
			continue;
		*asked |= 1u << i;
		bytes += e->end - e->start;
	}
	return bytes;
}

/* (locked, charging) It was refused, or its context is gone. */
static void pay_nothing(struct memory_range *ranges, uint32_t asked)
{
	for (; asked; asked &= asked - 1)
		ranges[__builtin_ctz(asked)].pays = false;
}

/*
 * (entering) -EDQUOT, or MEMORY_LATER where there is something to wait for; 0 also where the owner
 * is gone: then nobody pays.  Charges come one after the other, so that who is refused sees by the
 * marks who has what was wanted.
 */
static int charge(struct memory *m, struct memory_range *ranges, uint32_t nr,
		  struct memory_owner owner)
{
	bool fits = false, worth;
	uint32_t asked;
	uint64_t bytes, settles;
	int err = 0;

	if (!m->charge)
		return 0;
	pthread_mutex_lock(&m->charging);
	memory_lock(m);
	bytes = add_holders(ranges, nr, owner, &asked);
	settles = m->settles;
	pthread_mutex_unlock(&m->lock);
	if (bytes)
		err = m->charge(m->charge_arg, owner.id, (int64_t)bytes);
	/* Who shares a limit with this tenant is theirs to say; what is held goes again. */
	if (err == -EDQUOT && m->limit)
		fits = bytes <= m->limit(m->charge_arg, owner, NULL);
	memory_lock(m);
	if (err)
		pay_nothing(ranges, asked);
	/* Or has paid back meanwhile what was in the way: then there is no waiting, but again. */
	worth = m->settles != settles;
	if (m->limit)
		worth = fits && (worth || somebody_holds(m, 0, true));
	else
		worth = worth || somebody_holds(m, owner.tenant, false);
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_unlock(&m->charging);
	if (err != -EDQUOT)
		return 0;
	return worth ? MEMORY_LATER : err;
}

bool task_could_pay(struct memory *m, struct memory_owner owner, uint64_t bytes)
{
	uint64_t left = UINT64_MAX;

	/* A charge to try it would be seen: as an event if it is refused, else in the peak. */
	if (m->limit)
		m->limit(m->charge_arg, owner, &left);
	return bytes <= left;
}

void task_refund(struct memory *m, const struct refunds *refunds)
{
	uint32_t i;

	for (i = 0; i < refunds->nr; i++)
		m->charge(m->charge_arg, refunds->v[i].id, -(int64_t)refunds->v[i].bytes);
	memory_lock(m);
	m->refunding--;
	memory_settled(m);
	pthread_cond_broadcast(&m->settled);
	pthread_mutex_unlock(&m->lock);
}

/* ------------------------------------------------------------------ */

bool task_part(const struct memory_range *ranges, uint32_t nr, uint32_t of, uint64_t *start,
	       uint64_t *end)
{
	uint32_t i;

	hull(ranges, nr, of, start, end);
	for (i = 0; i < of; i++)
		if (ranges[i].buffer == ranges[of].buffer && ranges[i].offset < *end &&
		    memory_range_end(&ranges[i]) > *start)
			return false;
	return true;
}

uint64_t memory_bytes(const struct memory_range *ranges, uint32_t nr)
{
	uint64_t bytes = 0, start, end;
	uint32_t i;

	for (i = 0; i < nr; i++)
		bytes += task_part(ranges, nr, i, &start, &end) ? end - start : 0;
	return bytes;
}

uint64_t memory_largest(const struct memory_range *ranges, uint32_t nr)
{
	uint64_t most = 0, start, end;
	uint32_t i;

	for (i = 0; i < nr; i++)
		if (task_part(ranges, nr, i, &start, &end) && most < end - start)
			most = end - start;
	return most;
}

static void complain(const struct memory_device *d, const struct memory_range *ranges, uint32_t nr)
{
	/* Of all: whose task it is is not known here, and he is told by its reason. */
	static struct complaints said;
	uint64_t bytes = memory_bytes(ranges, nr), unsaid;

	if (complaints_say_now(&said, 0, &unsaid))
		log_warn("a task does not fit on a device: give it smaller ranges",
			 log_u64("bytes", bytes), log_u64("device_bytes", d->stats.bytes),
			 log_u64("ranges", nr), log_u64("unsaid", unsaid));
	reason_set("its data, %llu bytes, does not fit on a device that has %llu: give it smaller ranges",
		   (unsigned long long)bytes, (unsigned long long)d->stats.bytes);
}

/* It is the tenant's own affair: no line in the log. */
static void over_quota(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		       struct memory_owner owner)
{
	uint64_t max = m->limit ? m->limit(m->charge_arg, owner, NULL) : UINT64_MAX;
	char limit[32] = "";

	if (max != UINT64_MAX)
		snprintf(limit, sizeof(limit), ", %llu bytes", (unsigned long long)max);
	reason_set("its data, %llu bytes, is more than its tenant's device_memory.max%s, lets it have: give it smaller ranges, or raise that (arax tenant set)",
		   (unsigned long long)memory_bytes(ranges, nr), limit);
}

/* (locked) */
static void add_users(struct memory_device *d, struct memory_range *ranges, uint32_t nr,
		      struct memory_owner owner)
{
	uint32_t i;

	d->held++;
	d->came++;
	for (i = 0; i < nr; i++) {
		struct memory_extent *e = ranges[i].extent;

		if (!e->users)
			room_used(d, e);
		ranges[i].next_user = e->users;
		e->users = &ranges[i];
		ranges[i].tenant = owner.tenant;
		ranges[i].came = d->came;
		ranges[i].loaded = false;
		ranges[i].left = false;
	}
}

/* (entering) Whether the task @w, which waits or may come to that, may keep its extents. */
static bool may_keep(struct memory *m, struct memory_device *d, const struct memory_range *ranges,
		     uint32_t nr, const struct memory_wait *w)
{
	bool may;

	/* Nobody else begins to wait meanwhile. */
	if (!w->beside)
		return true;
	memory_lock(m);
	may = !room_is_kept_for(d, w) || room_is_left_for(d, ranges, nr, w->tenant);
	pthread_mutex_unlock(&m->lock);
	return may;
}

static int take_paid(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		     struct memory_owner owner,
		     const struct memory_wait *w, enum extent_fit fit)
{
	int err = take_extents(m, device, ranges, nr, fit, owner.id);

	if (err)
		return err;
	if (!may_keep(m, &m->devices[device], ranges, nr, w)) {
		let_go(m, ranges, nr);
		return -ENOMEM;
	}
	err = charge(m, ranges, nr, owner);
	if (err)
		let_go(m, ranges, nr);
	return err;
}

/* (entering) Not now, if it is -ENOMEM, -EDQUOT or MEMORY_LATER; then nothing is held. */
static int take(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		struct memory_owner owner, const struct memory_wait *w)
{
	struct memory_device *d = &m->devices[device];
	bool worth = true;
	int err;

	if (w->beside) {
		memory_lock(m);
		worth = !room_is_kept_for(d, w) ||
			room_is_worth_it(d, owner.tenant, memory_bytes(ranges, nr));
		pthread_mutex_unlock(&m->lock);
	}
	/* Others' data need not go for one that may not have the room. */
	if (!worth)
		return -ENOMEM;
	/* A larger part of one buffer is no reason to do without another, or to pay for. */
	err = take_paid(m, device, ranges, nr, owner, w, FIT_WIDE);
	if (err == -ENOMEM)
		err = take_paid(m, device, ranges, nr, owner, w, FIT_ROOM);
	if (err == -EDQUOT || err == MEMORY_LATER)
		err = take_paid(m, device, ranges, nr, owner, w, FIT_QUOTA);
	return err;
}

/*
 * (locked, entering) No room on the device, or it is kept for another one.  0: there is, or may be
 * by now; -ENOMEM: waiting doesn't bring any; or it was not to wait any longer.
 * @settles, @turns: before the task tried.  @entering: out: it is.
 */
static int wait_for_room(struct memory *m, struct memory_device *d, uint64_t settles,
			 uint64_t turns, struct memory_wait *w, uint64_t bytes,
			 struct memory_until *until, bool *entering)
{
	int err = 0;

	if (!room_is_kept_for(d, w) && m->settles == settles && d->turns == turns && !d->held &&
	    !d->freeing && !m->refunding)
		return -ENOMEM;
	room_wait(d, w, bytes);
	d->stats.waits++;
	/* Who comes meanwhile need not wait for as long, but see room.c. */
	turn_end(m, &d->entering);
	__atomic_store_n(&until->waits, true, __ATOMIC_RELAXED);
	while (m->settles == settles && d->turns == turns && !m->stopped && !err)
		err = memory_await(m, &m->settled, until);
	__atomic_store_n(&until->waits, false, __ATOMIC_RELAXED);
	if (m->stopped)
		err = -ECANCELED;
	if (!err)
		err = turn_take(m, &d->entering, until);
	*entering = !err;
	return err;
}

int task_hold(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
	      struct memory_owner owner, struct memory_until *until)
{
	struct memory_device *d = &m->devices[device];
	struct memory_wait w = { .tenant = owner.tenant };
	bool again, stopped, entering = true;
	uint64_t settles, turns;
	int err = 0;

	memory_lock(m);
	/* Who is entering may wait for what this thread has to do first. */
	if (until)
		err = turn_take(m, &d->entering, until);
	else if (!turn_try(m, &d->entering))
		err = -EAGAIN;
	if (err) {
		pthread_mutex_unlock(&m->lock);
		return err;
	}
	do {
		d->ranges = ranges;
		d->nr_ranges = nr;
		d->until = until;
		settles = m->settles;
		turns = d->turns;
		w.beside = room_is_kept_for(d, &w);
		pthread_mutex_unlock(&m->lock);
		err = take(m, device, ranges, nr, owner, &w);
		memory_lock(m);
		again = false;
		if (!err) {
			add_users(d, ranges, nr, owner);
		} else if (!until && (err == -ENOMEM || err == -EDQUOT)) {
			err = -EAGAIN;
		} else if (err == -ENOMEM) {
			err = wait_for_room(m, d, settles, turns, &w, memory_bytes(ranges, nr),
					    until, &entering);
			again = !err;
		} else if (err == MEMORY_LATER) {
			d->stats.waits++;
		}
	} while (again);
	room_no_wait(m, d, &w);
	if (entering)
		turn_end(m, &d->entering);
	stopped = m->stopped;
	pthread_mutex_unlock(&m->lock);
	if (err && stopped)
		return -ECANCELED;
	if (err == -ENOMEM)
		complain(d, ranges, nr);
	if (err == -EDQUOT)
		over_quota(m, ranges, nr, owner);
	return err;
}

/* ------------------------------------------------------------------ */
/* Where nothing is missing                                             */

/* (locked) The extent that has all of @r, or NULL: see load_row() for what that means. */
static struct memory_extent *whole(struct memory *m, uint32_t device, const struct memory_range *r,
				   uint64_t seq)
{
	uint64_t end = memory_range_end(r), gap_start, gap_end;
	struct memory_extent *e;
	bool gap;

	if (memory_rows(r) != 1 || r->offset == end ||
	    (r->access & ARAX_OUT && !r->buffer->lazy))
		return NULL;
	e = extent_find(r->buffer, device, r->offset, end);
	if (!e || e->bringing)
		return NULL;
	if (r->access & ARAX_IN)
		gap = intervals_gap(&e->valid, r->offset, end, seq, trusted_since(m, r),
				    &gap_start, &gap_end);
	else
		gap = intervals_gap(&e->filled, r->offset, end, 0, 0, &gap_start, &gap_end);
	return gap ? NULL : e;
}

/* (locked) Ranges of one buffer in one extent, as hull() asks. */
static bool find_whole(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		       uint64_t seq)
{
	uint32_t i, j;

	for (i = 0; i < nr; i++) {
		ranges[i].extent = whole(m, device, &ranges[i], seq);
		for (j = 0; j < i && ranges[i].extent; j++)
			if (ranges[j].buffer == ranges[i].buffer &&
			    ranges[j].extent != ranges[i].extent)
				ranges[i].extent = NULL;
		if (!ranges[i].extent)
			break;
	}
	if (i == nr)
		return true;
	for (j = 0; j <= i; j++)
		ranges[j].extent = NULL;
	return false;
}

/* (charging, locked) As charge(), but that nobody waits. */
static int hold_whole(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		      struct memory_owner owner)
{
	uint32_t asked = 0, i;
	uint64_t bytes;
	int err = 0;

	for (i = 0; i < nr; i++) {
		ranges[i].holds = ranges[i].pays = false;
		extent_pin(ranges[i].extent);
		ranges[i].address = ranges[i].extent->address +
				    (ranges[i].offset - ranges[i].extent->start);
	}
	bytes = m->charge ? add_holders(ranges, nr, owner, &asked) : 0;
	if (bytes) {
		pthread_mutex_unlock(&m->lock);
		err = m->charge(m->charge_arg, owner.id, (int64_t)bytes);
		memory_lock(m);
	}
	if (err)
		pay_nothing(ranges, asked);
	if (err == -EDQUOT)
		return err;
	add_users(&m->devices[device], ranges, nr, owner);
	for (i = 0; i < nr; i++)
		ranges[i].loaded = true;
	return 0;
}

int memory_enter_ready(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		       uint64_t seq, struct memory_owner owner)
{
	struct memory_device *d = &m->devices[device];
	int err = -EAGAIN;

	if (__atomic_load_n(&d->entering.taken, __ATOMIC_RELAXED))
		return -EAGAIN;
	memory_lock(m);
	if (d->entering.taken || pthread_mutex_trylock(&m->charging)) {
		pthread_mutex_unlock(&m->lock);
		return -EAGAIN;
	}
	turn_try(m, &d->entering);
	if (find_whole(m, device, ranges, nr, seq) &&
	    (!room_is_kept_for(d, NULL) || room_is_left_for(d, ranges, nr, owner.tenant)))
		err = hold_whole(m, device, ranges, nr, owner);
	pthread_mutex_unlock(&m->charging);
	if (err == -EDQUOT) {
		pthread_mutex_unlock(&m->lock);
		let_go(m, ranges, nr);
		memory_lock(m);
	}
	turn_end(m, &d->entering);
	pthread_mutex_unlock(&m->lock);
	return err ? -EAGAIN : 0;
}

/* (locked) Whether the piece is of a task's rows, or dirty. */
static bool is_needed(void *arg, uint64_t start, uint64_t end)
{
	const struct memory_extent *e = arg;
	uint64_t from, to, born, bytes;
	const struct memory_range *u;
	uint32_t row;

	for (u = e->users; u; u = u->next_user) {
		row = memory_row_behind(u, start);
		if (row < memory_rows(u) && memory_row(u, row, &bytes) < end)
			return true;
	}
	return intervals_first(&e->dirty, start, end, &from, &to, &born);
}

/* (locked) Arrays that have been larger, for a task with many rows. */
static void give_back(struct memory_extent *e)
{
	intervals_fit(&e->valid, extent_pieces(e, MAX_KNOWN));
	intervals_fit(&e->filled, extent_pieces(e, MAX_KNOWN));
}

void forget_pieces(struct memory_extent *e)
{
	uint64_t most = extent_pieces(e, MAX_KNOWN) + 2 * (uint64_t)e->dirty.nr;
	const struct memory_range *u;

	/* Whoever uses it may have as many again, before each piece is looked at once more. */
	for (u = e->users; u; u = u->next_user)
		most += 2 * (uint64_t)memory_rows(u);
	if (e->valid.nr + e->filled.nr <= (e->pins && e->many > most ? e->many : most)) {
		give_back(e);
		return;
	}
	if (e->pins) {
		intervals_filter(&e->valid, is_needed, e);
		intervals_filter(&e->filled, is_needed, e);
		e->many = 2 * ((uint64_t)e->valid.nr + e->filled.nr);
	} else {
		e->many = 0;
		intervals_copy(&e->valid, &e->dirty);
		intervals_copy(&e->filled, &e->dirty);
	}
	give_back(e);
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
		if (!e->users)
			room_unused(e);
		ranges[i].extent = NULL;
		extent_used(m, e);
		unpin(e, &ranges[i], refunds);
		forget_pieces(e);
	}
	m->devices[device].held--;
	m->refunding++;
}
