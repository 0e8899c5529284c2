// SPDX-License-Identifier: MIT
/*
 * ahead.c - inputs that come before their task has a lane
 *
 * Who brings them is in nobody's way: what is made for it goes first when a task needs the room; it
 * stops as soon as one looks for some, or waits for it; between two pieces it lets the copies of tasks
 * that have a lane go on; and it takes what is free of the device's memory and not scarce.
 *
 * The task is ready, so what it reads is what it is for good until it has run: to write there meanwhile
 * is an error.  What of it a device has alone is left to the task's lane.  It may end without having
 * run, or run elsewhere, while a piece is on its way.  So the piece counts only if nobody made bytes of
 * its extent stale meanwhile; and, as whoever sees the task's end may write to a buffer that is not lazy,
 * only for tasks that were there before that.  Whoever brings them begins no other piece once the task
 * begins, or one that comes after it, anywhere: while their results are noted, extent by extent, others
 * may have the lock, and what is on its way to be noted is neither dirty nor the host's.  Who begins there
 * waits for the piece under way on its extent, see whole() and load().
 */
#include <errno.h>

#include "daemon/memory/internal.h"

struct bringer {
	struct memory *m;
	struct memory_device *d;
	const struct memory_ahead *of;
};

static bool is_on(const struct bringer *b)
{
	return b->of->go_on(b->of->arg);
}

/* Behind tasks that have a lane; false: it is over. */
static bool may_go_on(const struct bringer *b)
{
	bool wanted;

	memory_lock(b->m);
	b->d->yielding++;
	/* See memory_bring_stopped(). */
	while (b->d->loading && !device_is_wanted(b->m, b->d) && is_on(b))
		pthread_cond_wait(&b->m->settled, &b->m->lock);
	b->d->yielding--;
	wanted = device_is_wanted(b->m, b->d);
	pthread_mutex_unlock(&b->m->lock);
	return !wanted && is_on(b);
}

/* 1: a piece of the row is there now; 0: all of it; or it is over, or an error. */
static int bring_piece(const struct bringer *b, struct memory_range *r, struct bringing *what,
		       uint32_t row)
{
	uint64_t bytes, start = memory_row(r, row, &bytes);
	int done;

	if (!may_go_on(b))
		return -1;
	memory_lock(b->m);
	turn_take(b->m, &r->extent->load, NULL);
	pthread_mutex_unlock(&b->m->lock);
	done = load_piece(b->m, r, what, start, start + bytes);
	memory_lock(b->m);
	turn_end(b->m, &r->extent->load);
	pthread_mutex_unlock(&b->m->lock);
	return done;
}

static int bring_range(const struct bringer *b, struct memory_range *r, struct bringing *what)
{
	int done = 0;

	what->input = r->access & ARAX_IN;
	for (uint32_t i = 0; i < memory_rows(r) && !done; i++)
		while ((done = bring_piece(b, r, what, i)) > 0)
			;
	return done;
}

/* With an extent of its own: none other is kept while others are waited for. */
static int bring_one(const struct bringer *b, struct memory_range *ranges, uint32_t nr, uint32_t of,
		     struct bringing *what)
{
	struct memory_range *r = &ranges[of];
	uint32_t device = (uint32_t)(b->d - b->m->devices);
	uint64_t start, end;
	int done;

	task_hull(ranges, nr, of, &start, &end);
	if (!is_on(b))
		return -1;
	/* It may take long, and nobody is to wait for the extent meanwhile. */
	register_host(b->m, device, r->buffer);
	memory_lock(b->m);
	turn_take(b->m, &b->d->entering, NULL);
	pthread_mutex_unlock(&b->m->lock);
	r->extent = is_on(b) ? extent_get_ahead(b->m, r->buffer, device, start, end) : NULL;
	memory_lock(b->m);
	turn_end(b->m, &b->d->entering);
	pthread_mutex_unlock(&b->m->lock);
	if (!r->extent)
		return -1;
	done = bring_range(b, r, what);
	memory_lock(b->m);
	extent_used(b->m, r->extent);
	r->extent->bringing--;
	if (!r->extent->pins)
		forget_pieces(r->extent);
	extent_idle(r->extent);
	pthread_cond_broadcast(&b->m->settled);
	pthread_mutex_unlock(&b->m->lock);
	r->extent = NULL;
	return done;
}

void memory_bring_stopped(struct memory *m, uint32_t device)
{
	memory_lock(m);
	if (m->devices[device].yielding)
		pthread_cond_broadcast(&m->settled);
	pthread_mutex_unlock(&m->lock);
}

bool memory_bring(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		  const struct memory_ahead *a)
{
	const struct bringer b = { m, &m->devices[device], a };
	struct bringing what = {
		.seq = a->seq, .until = a->last + 1, .most = a->piece, .ahead = a,
	};

	if (!is_on(&b))
		return true;
	if (!task_could_pay(m, a->owner, a->beside + memory_bytes(ranges, nr)))
		return false;
	for (uint32_t i = 0; i < nr; i++) {
		int done = bring_one(&b, ranges, nr, i, &what);

		if (done && done != -EBUSY)
			break;
	}
	return true;
}
