// SPDX-License-Identifier: MIT
/*
 * Launches that were submitted to a device that is apart, or before it came to be: what goes
 * with its process, or its context, is reported all the same, in the order of its lane.
 */
#include <errno.h>
#include <string.h>

#include "daemon/backends/apart/apart.h"

static struct apart_lane *lane_of(struct apart_device *d, uint32_t lane)
{
	return &d->lanes[lane % d->info.lanes];
}

/* (lanes_lock) */
static void push(struct apart_lane *l, uint64_t cookie, uint32_t turn)
{
	l->pending[(l->first + l->nr++) % ARAX_LANE_DEPTH] =
		(struct apart_pending){ .cookie = cookie, .turn = turn };
}

/* (lanes_lock) */
static void pop(struct apart_lane *l)
{
	l->first = (l->first + 1) % ARAX_LANE_DEPTH;
	l->nr--;
}

/* The last one, which was not submitted after all; false: it has been reported as lost. */
static bool take_back(struct apart_device *d, struct apart_lane *l, uint64_t cookie)
{
	bool last;

	pthread_mutex_lock(&d->lanes_lock);
	last = l->nr && l->pending[(l->first + l->nr - 1) % ARAX_LANE_DEPTH].cookie == cookie;
	if (last)
		l->nr--;
	pthread_mutex_unlock(&d->lanes_lock);
	return last;
}

static void set_lost(struct arax_backend_done *done, uint64_t cookie)
{
	*done = (struct arax_backend_done){ .cookie = cookie, .result = -ENODEV };
}

void apart_lanes_take(struct apart_device *d)
{
	const struct arax_backend *below = &d->stack->below;
	struct arax_backend_done done;

	/* In a context that is broken nothing is waited for. */
	for (uint32_t i = 0; below->wait && i < d->info.lanes; i++)
		while (d->lanes[i].nr < ARAX_LANE_DEPTH && !below->wait(d->here, i, &done))
			push(&d->lanes[i], done.cookie, d->turn);
}

int apart_lane_submit(struct apart_device *d, struct channel *c,
		      const struct arax_backend_run *run, uint64_t cookie)
{
	struct apart_lane *l = lane_of(d, run->lane);
	bool full;
	int err;

	/*
	 * Before the helper has it: another thread may be told at once that it is done, and finds
	 * it here.  No other thread submits on this lane, so it is the last one still if it fails.
	 */
	pthread_mutex_lock(&d->lanes_lock);
	full = l->nr == ARAX_LANE_DEPTH;
	if (!full)
		push(l, cookie, d->turn);
	pthread_mutex_unlock(&d->lanes_lock);
	if (full)
		return -EAGAIN;
	err = apart_submit(c, run, cookie);
	if (err && !take_back(d, l, cookie))
		err = 0;
	return err;
}

int apart_lane_wait(struct apart_device *d, struct channel *c, uint32_t lane,
		    struct arax_backend_done *done)
{
	struct apart_lane *l = lane_of(d, lane);
	struct apart_pending p = { 0 };
	struct arax_backend_done said;
	bool any;

	pthread_mutex_lock(&d->lanes_lock);
	any = l->nr;
	if (any)
		p = l->pending[l->first];
	pthread_mutex_unlock(&d->lanes_lock);
	if (!any)
		return -ENOENT;
	set_lost(done, p.cookie);
	if (c && p.turn == d->turn) {
		channel_begin(c, APART_WAIT)->lane = lane;
		if (!channel_call(c)) {
			said = c->slot->call.done[0];
			if (said.cookie == p.cookie)
				*done = said;
		}
	}
	pthread_mutex_lock(&d->lanes_lock);
	pop(l);
	pthread_mutex_unlock(&d->lanes_lock);
	return 0;
}

/* Those that nobody will finish: of former turns, or @all. */
static uint32_t collect_lost(struct apart_device *d, bool all, struct arax_backend_done *done,
			     uint32_t max)
{
	uint32_t n = 0;

	pthread_mutex_lock(&d->lanes_lock);
	for (uint32_t i = 0; i < d->info.lanes; i++) {
		struct apart_lane *l = &d->lanes[i];

		for (; n < max && l->nr; pop(l)) {
			const struct apart_pending *p = &l->pending[l->first];

			if (!all && p->turn == d->turn)
				break;
			set_lost(&done[n++], p->cookie);
		}
	}
	pthread_mutex_unlock(&d->lanes_lock);
	return n;
}

/* The launch that a helper says is done: the first of some lane.  False: it is none. */
static bool take_done(struct apart_device *d, const struct arax_backend_done *done)
{
	bool found = false;

	pthread_mutex_lock(&d->lanes_lock);
	for (uint32_t i = 0; !found && i < d->info.lanes; i++) {
		struct apart_lane *l = &d->lanes[i];

		found = l->nr && l->pending[l->first].cookie == done->cookie &&
			l->pending[l->first].turn == d->turn;
		if (found)
			pop(l);
	}
	pthread_mutex_unlock(&d->lanes_lock);
	return found;
}

int apart_lane_poll(struct apart_device *d, struct channel *c, struct arax_backend_done *done,
		    uint32_t max, uint64_t timeout_ns)
{
	uint32_t n = collect_lost(d, !c, done, max), nr = 0;
	struct apart_call *call;
	int got;

	if (n || !max)
		return (int)n;
	if (!c)
		return -ENODEV;
	call = channel_begin(c, APART_POLL);
	call->nr = max < APART_DONE ? max : APART_DONE;
	call->ns = timeout_ns;
	got = channel_count(c, max < APART_DONE ? max : APART_DONE);
	if (got == -ENODEV) {
		n = collect_lost(d, true, done, max);
		return n ? (int)n : -ENODEV;
	}
	for (int i = 0; i < got; i++) {
		done[nr] = call->done[i];
		nr += take_done(d, &done[nr]);
	}
	return got < 0 ? got : (int)nr;
}
