// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Failures that the mediator's graph doesn't know of: of tasks that end while they are
 * queued here, or that the mediator could not take.  (What fails with a number of the
 * graph's fails its dependents when they come there.)  Among those queued here such
 * a task leaves marks, which follow the same rules: a task depends on an earlier one in
 * its in-order queue, on a barrier of its dataflow queue or as one, and on who
 * writes bytes that it touches, if one of the two is in a dataflow queue.
 * Strided ranges count from their first byte to their last, and what doesn't
 * fit a buffer's short list makes neighbours one.  CONTINUE queues opt out.
 *
 * A mark holds for tasks queued behind the failed one until it failed.  They are
 * held against it when their turn to be dispatched comes: nobody walks the queue
 * because a task in front of it has failed.
 *
 * What the mediator has committed as well may fail here nevertheless, as a buffer was
 * revoked.  Then its graph has the dependents run that have been dispatched, so they are
 * held against the marks when they are committed.  All of them come behind the failed one:
 * what was before it, and touches the same, had ended before it began.
 */
#include "core.h"

static bool in_dataflow(const struct core_task *t)
{
	return t->queue->flags & ARAX_QUEUE_DATAFLOW;
}

bool core_has_queued(const struct core_client *c)
{
	return !clist_empty(&c->queued) || !clist_empty(&c->exam);
}

static void begin(struct core *core, struct core_client *c, u64 origin)
{
	c->fail_mark = ++core->poison;
	c->fail_origin = origin;
	c->fail_last = 0;
	c->fail_ended = false;
	c->fail_any = (struct core_poison) { 0 };
	core->nr_marking++;
}

/* Whether some that are dispatched may depend on what had been, and failed. */
static bool ended_concerns(const struct core_client *c)
{
	const struct clist *first = c->dispatched.next;

	/* A cancel's. */
	if (first == &c->cursor)
		first = first->next;
	return c->fail_ended && first != &c->dispatched &&
	       (s32)(clist_entry(first, struct core_task, node)->d.seq - c->fail_ended_to) < 0;
}

void core_fail_end(struct core *core, struct core_client *c)
{
	/* Nothing is committed without a mediator. */
	if (!c->fail_mark || (core->state == CORE_LIVE && ended_concerns(c)))
		return;
	c->fail_mark = 0;
	c->fail_ended = false;
	/* While anybody's marks count, those on shared buffers may be his. */
	if (!--core->nr_marking)
		core->poison_dead = core->poison;
}

static void poison(struct core_client *c, struct core_poison *p, u64 from, u64 to, bool ended)
{
	if (ended) {
		p->ended = c->fail_mark;
		p->ended_to = c->fail_ended_to;
	}
	if (p->mark != c->fail_mark) {
		p->mark = c->fail_mark;
		p->from = from;
		p->to = to;
		return;
	}
	if (p->from > from)
		p->from = from;
	if (p->to < to)
		p->to = to;
}

/* Up to which order, or 0: t is not behind what left the mark.  Of one dispatched: whether. */
static u64 poisoned(const struct core_client *c, const struct core_poison *p,
		    const struct core_task *t)
{
	if (t->state == CORE_TASK_DISPATCHED && core_likely(c->core->state == CORE_LIVE))
		return p->ended == c->fail_mark && (s32)(t->d.seq - p->ended_to) < 0;
	return p->mark == c->fail_mark && p->from < t->order && t->order <= p->to ? p->to : 0;
}

static void poison_task(struct core *core, struct core_task *t, u64 to, bool ended)
{
	struct core_client *c = t->client;
	/* While they are settled all are queued, and ordered as they are looked at. */
	bool queued = t->state == CORE_TASK_QUEUED || core->state == CORE_QUIESCED;
	u64 from = queued ? t->order : 0;
	bool flow = in_dataflow(t);
	u32 i;

	if (c->fail_last < to)
		c->fail_last = to;
	poison(c, &t->queue->poison, from, to, ended);
	if (t->d.flags & ARAX_TASK_BARRIER)
		poison(c, &t->queue->barrier_poison, from, to, ended);
	for (i = 0; i < t->d.nr_ranges; i++) {
		struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];

		if (!(t->d.access >> (2 * i) & ARAX_OUT) || !r->length)
			continue;
		if (buf->poison.mark != c->fail_mark) {
			if (buf->poison.mark > core->poison_dead) {
				/* Another context's, who shares the buffer. */
				poison(c, &c->fail_any, from, to, ended);
				continue;
			}
			buf->nr_poisoned[0] = 0;
			buf->nr_poisoned[1] = 0;
		}
		poison(c, &buf->poison, from, to, ended);
		core_extent_add(buf->poisoned[flow], &buf->nr_poisoned[flow], r->offset,
				core_range_end(r));
	}
}

static u64 follows(const struct core_client *c, const struct core_task *t)
{
	const struct core_queue *q = t->queue;

	if (!in_dataflow(t) || t->d.flags & ARAX_TASK_BARRIER)
		return poisoned(c, &q->poison, t);
	return poisoned(c, &q->barrier_poison, t);
}

/* Up to which order whatever it depends on has failed others, or 0. */
static u64 depends(const struct core_client *c, const struct core_task *t)
{
	u32 i, kind;
	u64 to;

	if (t->queue->flags & ARAX_QUEUE_CONTINUE)
		return 0;
	to = follows(c, t);
	if (to)
		return to;
	for (i = 0; i < t->d.nr_ranges; i++) {
		const struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];

		if (!r->length)
			continue;
		to = poisoned(c, &c->fail_any, t);
		if (to)
			return to;
		to = poisoned(c, &buf->poison, t);
		if (!to)
			continue;
		/* Two in-order queues are not related by what they touch. */
		for (kind = in_dataflow(t) ? 0 : 1; kind < 2; kind++)
			if (core_extent_overlaps(buf->poisoned[kind], buf->nr_poisoned[kind],
						 r->offset, core_range_end(r)))
				return to;
	}
	return 0;
}

/* Remembers that t failed; before its references are released. */
void core_fail_mark(struct core *core, struct core_task *t)
{
	struct core_client *c = t->client;

	if (!core_has_queued(c))
		return;
	if (!t->d.tag)
		core_tag_undispatched(core, t);
	if (!c->fail_mark)
		begin(core, c, t->d.tag);
	poison_task(core, t, core->state == CORE_QUIESCED ? ~0ull : c->queue_order, false);
}

bool core_fail_reaches(struct core *core, struct core_task *t, struct core_garbage *g)
{
	struct core_client *c = t->client;
	struct core_result r = { .result = -ECANCELED, .device = ~0u };
	u64 to = c->fail_mark ? depends(c, t) : 0;

	if (!to)
		return false;
	r.origin = c->fail_origin;
	/* Its own dependents are failed as long as that which failed it counts. */
	poison_task(core, t, to, false);
	core_complete(core, t, &r, g);
	return true;
}

void core_fail_mark_ended(struct core *core, struct core_task *t)
{
	struct core_client *c = t->client;

	if (!c->fail_mark)
		begin(core, c, t->d.tag);
	/* Who submits more from now on may know. */
	c->fail_ended_to = core_read_once(c->sq_head);
	c->fail_ended = true;
	poison_task(core, t, c->queue_order, true);
}

bool core_fail_reaches_ended(struct core *core, struct core_task *t)
{
	if (!t->client->fail_ended || !depends(t->client, t))
		return false;
	core_fail_mark_ended(core, t);
	return true;
}

void core_fail_have_ended(struct core *core, struct core_client *c)
{
	/* Those queued are looked at when they are dispatched. */
	if (c->fail_ended && !ended_concerns(c) && !core_has_queued(c))
		core_fail_end(core, c);
}
