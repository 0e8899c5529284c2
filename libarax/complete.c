// SPDX-License-Identifier: MIT
/* From completion entries to events. */
#include <stdlib.h>

#include "internal.h"

/* What is done with once ring_lock is dropped. */
struct aftermath {
	struct arax_event *notify;
	struct arax_event **notify_end;
	struct arax_queue *queues;
	unsigned int count;
};

static inline void event_finish(struct arax_event *e, const struct arax_completion *c,
				struct aftermath *after)
{
	e->result = c->result;
	e->tag = c->tag;
	e->origin = c->origin;
	e->device_ns = c->device_ns;
	e->wait_ns = c->wait_ns;
	e->bytes = c->bytes;
	e->device = c->device;
	if (unlikely(e->notify)) {
		wait_noted(e->ax);
		if (e->notify == access_ended)
			access_count(e);
		e->next = NULL;
		*after->notify_end = e;
		after->notify_end = &e->next;
		return;
	}
	/*
	 * Pairs with the acquire in arax_event_done().  From here on the event
	 * may be gone: its owner need not have waited for this thread.
	 */
	store_release(&e->state, EVENT_DONE);
}

static inline void finish(struct arax *ax, uint32_t slot, const struct arax_completion *c,
			  struct aftermath *after)
{
	struct ring_slot *s = &ax->ring.slots[slot];
	struct arax_queue *q = s->queue;

	if (s->event) {
		event_finish(s->event, c, after);
	} else if (c->result && !q->error) {
		q->error = c->result;
		q->error_tag = c->origin ? c->origin : c->tag;
	}
	ring_slot_put(&ax->ring, slot);
	/* Pairs with the acquire in queue.c: queue_empty(). */
	store_release(&q->inflight, q->inflight - 1);
	if (unlikely(q->destroyed && !q->inflight)) {
		q->next = after->queues;
		after->queues = q;
	}
	after->count++;
}

static inline void take_all(struct arax *ax, struct aftermath *after)
{
	const struct arax_completion *c;
	uint32_t head = ax->ring.cq_head;

	while ((c = ring_cq_at(&ax->ring, head))) {
		/* Once: what is checked is what is used. */
		uint64_t ticket = load_relaxed(&c->user_data);

		if (unlikely(c->result)) {
			ring_cq_learn(&ax->ring, c);
			refusal_note(ax, c);
		}
		if (likely(ring_slot_find(&ax->ring, ticket)))
			finish(ax, (uint32_t)ticket, c, after);
		head++;
		/*
		 * No look at the next place where nothing can be: the core has that line
		 * already, to write to it, and it would take as long as this one to come.
		 */
		if (ring_is_idle(&ax->ring))
			break;
	}
	if (head != ax->ring.cq_head)
		ring_cq_advance(&ax->ring, head);
	if (after->count)
		ring_cq_credit(&ax->ring);
}

/*
 * Of one thread: what it still has to call.  A notify may take completions itself, as it does
 * where it submits to a full ring: what is to be called for those waits until it has returned,
 * or the stack would grow with the number of tasks.
 */
static _Thread_local struct {
	struct arax_event *first;
	struct arax_event **end;
	struct calling *calling;
} noted;

/* A call that calls them, within a notify that another one has called. */
struct calling {
	const struct arax *ax;
	struct calling *outer;
};

/* Out of the way of those that have none. */
static __attribute__((noinline)) void note_all(struct arax *ax, struct aftermath *after)
{
	if (noted.first)
		*noted.end = after->notify;
	else
		noted.first = after->notify;
	noted.end = after->notify_end;
	if (!noted.calling)
		notify_noted(ax);
}

void notify_noted(struct arax *ax)
{
	struct calling now = { ax, noted.calling };
	struct arax_event *e;
	int cancel;

	/* A thread that ended in one would never call the others. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	noted.calling = &now;
	while ((e = noted.first)) {
		void (*notify)(struct arax_event *) = e->notify;

		noted.first = e->next;
		/* Who looks for the end may take the event for his own from here on. */
		store_release(&e->state, EVENT_DONE);
		notify(e);
	}
	noted.calling = now.outer;
	pthread_setcancelstate(cancel, NULL);
}

bool notify_is_called_by(const struct arax *ax)
{
	const struct calling *c;

	for (c = noted.calling; c && c->ax != ax; c = c->outer)
		;
	return c;
}

/* The notifies come last: one of them may take as long as it likes, and others wait. */
static int settle(struct arax *ax, struct aftermath *after)
{
	struct arax_queue *q;

	if (!after->count)
		return 0;
	while (unlikely(after->queues)) {
		q = after->queues;
		after->queues = q->next;
		free(q);
	}
	wait_wake_followers(ax);
	/* Somebody polls, and what he polls for may just have been taken. */
	if (unlikely(load_acquire(&ax->armed)))
		eventfd_ring(ax->nudge_fd);
	if (unlikely(after->notify))
		note_all(ax, after);
	return (int)after->count;
}

int complete_all(struct arax *ax)
{
	struct aftermath after = { .notify_end = &after.notify };

	lock_take(&ax->ring_lock);
	take_all(ax, &after);
	lock_drop(&ax->ring_lock);
	return settle(ax, &after);
}

void complete_dead(struct arax *ax, int err)
{
	struct aftermath after = { .notify_end = &after.notify };
	struct arax_completion c = {
		/* The task's own fate is unknown, the context's is what it is. */
		.result = err == -ENOTCONN ? -EOWNERDEAD : err,
		.device = ~0u,
	};
	uint32_t i;

	lock_take(&ax->ring_lock);
	take_all(ax, &after);
	for (i = 0; i < ax->ring.depth; i++) {
		if (ax->ring.slots[i].used)
			finish(ax, i, &c, &after);
	}
	/* Last: who sees it may count on finding his event done. */
	if (!ax->dead)
		store_release(&ax->dead, err);
	lock_drop(&ax->ring_lock);
	wait_wake_followers(ax);
	/* Who polls has to see it, also if nothing was in flight. */
	if (unlikely(load_acquire(&ax->armed)))
		eventfd_ring(ax->nudge_fd);
	settle(ax, &after);
}

int context_dead(struct arax *ax)
{
	int err = load_acquire(&ax->dead);
	uint32_t word;

	if (err || !ax->has_rings)
		return err;
	word = load_relaxed(&ax->ring.ctl->dead);
	if (likely(!word))
		return 0;
	/* A broker that comes to its end says so here, and its socket ends after that. */
	err = word == EOWNERDEAD ? -ENOTCONN : -EPIPE;
	complete_dead(ax, err);
	return err;
}
