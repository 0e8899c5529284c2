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

/* ------------------------------------------------------------------ */
/* Which is the only one                                                 */

/* (lanes_lock) Those of the helper that there is. */
static void count_anew(struct apart_device *d)
{
	if (d->launches.turn == d->turn)
		return;
	memset(&d->launches, 0, sizeof(d->launches));
	d->launches.turn = d->turn;
	d->launches.careful = d->turn == d->first ? 0 : APART_CAREFUL;
}

/* (lanes_lock) */
static void begin(struct apart_device *d, struct apart_began *b)
{
	/* Of one that has fallen before it is not the cause, nor company of who is. */
	bool late = helper_fell(d->helper);

	count_anew(d);
	*b = (struct apart_began){ .turn = d->turn };
	b->alone = !d->launches.under_way++ && !late;
	if (!late)
		b->number = ++d->launches.began;
}

/* (lanes_lock) */
static bool is_cause(const struct apart_device *d, const struct apart_began *b)
{
	return b->alone && b->turn == d->turn && b->number == d->launches.began && d->helper &&
	       helper_fell(d->helper);
}

/* (lanes_lock) As is_cause(). */
static bool end(struct apart_device *d, const struct apart_began *b)
{
	bool cause = is_cause(d, b);

	if (b->turn == d->launches.turn)
		d->launches.under_way--;
	return cause;
}

void apart_launch_begin(struct apart_device *d, struct apart_began *b)
{
	pthread_mutex_lock(&d->lanes_lock);
	begin(d, b);
	pthread_mutex_unlock(&d->lanes_lock);
}

bool apart_launch_end(struct apart_device *d, const struct apart_began *b)
{
	bool fell;

	pthread_mutex_lock(&d->lanes_lock);
	fell = end(d, b);
	pthread_mutex_unlock(&d->lanes_lock);
	return fell;
}

/* There they would wait for each other, too: but all of them as if they were under way. */
bool apart_launch_one(struct apart_device *d)
{
	bool one;

	pthread_mutex_lock(&d->lanes_lock);
	count_anew(d);
	one = d->launches.careful;
	d->launches.careful -= one;
	pthread_mutex_unlock(&d->lanes_lock);
	if (one)
		pthread_mutex_lock(&d->one);
	return one;
}

/* ------------------------------------------------------------------ */
/* Lanes                                                                 */

/* (lanes_lock) */
static void push(struct apart_lane *l, uint64_t cookie, const struct apart_began *b)
{
	l->pending[(l->first + l->nr++) % ARAX_LANE_DEPTH] =
		(struct apart_pending){ .cookie = cookie, .began = *b };
}

/* (lanes_lock) As apart_launch_end(). */
static bool pop(struct apart_device *d, struct apart_lane *l)
{
	bool fell = end(d, &l->pending[l->first].began);

	l->first = (l->first + 1) % ARAX_LANE_DEPTH;
	l->nr--;
	return fell;
}

/*
 * The last one, which was not submitted after all; false: it has been reported as lost, or will be:
 * an error alone can't say that its process fell over it.  @taken: the process has had it.
 */
static bool take_back(struct apart_device *d, struct apart_lane *l, uint64_t cookie, bool taken)
{
	const struct apart_pending *p;
	bool last;

	pthread_mutex_lock(&d->lanes_lock);
	p = &l->pending[(l->first + l->nr - 1) % ARAX_LANE_DEPTH];
	last = l->nr && p->cookie == cookie && !(taken && is_cause(d, &p->began));
	if (last) {
		l->nr--;
		end(d, &p->began);
	}
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
	const struct apart_began here = { .turn = d->turn };
	struct arax_backend_done done;

	/* In a context that is broken nothing is waited for. */
	for (uint32_t i = 0; below->wait && i < d->info.lanes; i++)
		while (d->lanes[i].nr < ARAX_LANE_DEPTH && !below->wait(d->here, i, &done))
			push(&d->lanes[i], done.cookie, &here);
}

int apart_lane_submit(struct apart_device *d, struct channel *c,
		      const struct arax_backend_run *run, uint64_t cookie)
{
	struct apart_lane *l = lane_of(d, run->lane);
	struct apart_began began;
	bool full;
	int err;

	/*
	 * Before the helper has it: another thread may be told at once that it is done, and finds
	 * it here.  No other thread submits on this lane, so it is the last one still if it fails.
	 */
	pthread_mutex_lock(&d->lanes_lock);
	full = l->nr == ARAX_LANE_DEPTH;
	if (!full) {
		begin(d, &began);
		push(l, cookie, &began);
	}
	pthread_mutex_unlock(&d->lanes_lock);
	if (full)
		return -EAGAIN;
	err = apart_submit(c, run, cookie);
	if (err && !take_back(d, l, cookie, !c->ended || channel_was_taken(c)))
		err = 0;
	return err;
}

int apart_lane_wait(struct apart_device *d, struct channel *c, uint32_t lane,
		    struct arax_backend_done *done)
{
	struct apart_lane *l = lane_of(d, lane);
	struct apart_pending p = { 0 };
	struct arax_backend_done said;
	bool any, lost = true;

	pthread_mutex_lock(&d->lanes_lock);
	any = l->nr;
	if (any)
		p = l->pending[l->first];
	pthread_mutex_unlock(&d->lanes_lock);
	if (!any)
		return -ENOENT;
	set_lost(done, p.cookie);
	if (c && p.began.turn == d->turn) {
		channel_begin(c, APART_WAIT)->lane = lane;
		if (!channel_call(c)) {
			said = c->slot->call.done[0];
			lost = said.cookie != p.cookie;
			if (!lost)
				*done = said;
		}
	}
	pthread_mutex_lock(&d->lanes_lock);
	if (pop(d, l) && lost)
		done->flags |= ARAX_DONE_ALONE;
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

		for (; n < max && l->nr; n++) {
			const struct apart_pending *p = &l->pending[l->first];

			if (!all && p->began.turn == d->turn)
				break;
			set_lost(&done[n], p->cookie);
			if (pop(d, l))
				done[n].flags |= ARAX_DONE_ALONE;
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
			l->pending[l->first].began.turn == d->turn;
		if (found)
			pop(d, l);
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
