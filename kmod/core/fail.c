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
	c->fail_any = (struct core_poison) { 0 };
	core->nr_marking++;
}

/* Whether some that are dispatched were submitted before that place. */
static bool any_before(const struct core_client *c, u64 place)
{
	const struct clist *first = c->dispatched.next;

	/* A cancel's. */
	if (first == &c->cursor)
		first = first->next;
	return first != &c->dispatched &&
	       clist_entry(first, struct core_task, node)->place < place;
}

static void marks_end(struct core *core, u64 *mark)
{
	if (!*mark)
		return;
	*mark = 0;
	/* While anybody's marks count, those on shared buffers may be his. */
	if (!--core->nr_marking)
		core->poison_dead = core->poison;
}

void core_fail_end(struct core *core, struct core_client *c)
{
	marks_end(core, &c->fail_mark);
}

void core_fail_end_ended(struct core *core, struct core_client *c)
{
	marks_end(core, &c->ended_mark);
}

static void poison(struct core_client *c, struct core_poison *p, u64 from, u64 to)
{
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

/* Up to which order, or 0: t is not behind what left the mark. */
static u64 poisoned(const struct core_client *c, const struct core_poison *p,
		    const struct core_task *t)
{
	return p->mark == c->fail_mark && p->from < t->order && t->order <= p->to ? p->to : 0;
}

static void poison_task(struct core *core, struct core_task *t, u64 to)
{
	struct core_client *c = t->client;
	/* While they are settled all are queued, and ordered as they are looked at. */
	bool queued = t->state == CORE_TASK_QUEUED || core->state == CORE_QUIESCED;
	u64 from = queued ? t->order : 0;
	bool flow = in_dataflow(t);
	u32 i;

	if (c->fail_last < to)
		c->fail_last = to;
	poison(c, &t->queue->poison, from, to);
	if (t->d.flags & ARAX_TASK_BARRIER)
		poison(c, &t->queue->barrier_poison, from, to);
	for (i = 0; i < t->d.nr_ranges; i++) {
		struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];

		if (!(t->d.access >> (2 * i) & ARAX_OUT) || !r->length)
			continue;
		if (buf->poison.mark != c->fail_mark) {
			if (buf->poison.mark > core->poison_dead && buf->poisoner != c->serial) {
				/* Another context's, who shares the buffer. */
				poison(c, &c->fail_any, from, to);
				continue;
			}
			buf->nr_poisoned[0] = 0;
			buf->nr_poisoned[1] = 0;
			buf->poisoner = c->serial;
		}
		poison(c, &buf->poison, from, to);
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
	poison_task(core, t, core->state == CORE_QUIESCED ? ~0ull : c->queue_order);
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
	poison_task(core, t, to);
	core_complete(core, t, &r, g);
	return true;
}

static void ended_add(const struct core_client *c, struct core_ended *e,
		      const struct core_task *t, u64 origin)
{
	if (e->mark != c->ended_mark || t->place < e->from)
		e->from = t->place;
	e->mark = c->ended_mark;
	e->to = c->ended_to;
	e->origin = origin;
}

static void ended_add_bytes(const struct core_client *c, struct core_buffer *buf,
			    const struct core_task *t, u64 start, u64 end, u64 origin)
{
	struct core_ended_bytes *e, *best = buf->ended;
	u64 least = ~0ull, by;
	u32 i;

	for (i = 0; i < buf->nr_ended; i++) {
		e = &buf->ended[i];
		by = (e->start > start ? e->start - start : 0) + (e->end < end ? end - e->end : 0);
		/* What is there only to be forgotten goes first. */
		if (!any_before(c, e->by.to)) {
			*e = (struct core_ended_bytes){ .start = start, .end = end };
			break;
		}
		if (by < least && e->flow == in_dataflow(t)) {
			least = by;
			best = e;
		}
	}
	if (i == buf->nr_ended && i < CORE_ENDED_BYTES) {
		buf->ended[buf->nr_ended++] = (struct core_ended_bytes){ .start = start, .end = end };
	} else if (i == CORE_ENDED_BYTES) {
		i = (u32)(best - buf->ended);
		best->flow |= in_dataflow(t);
	}
	e = &buf->ended[i];
	e->flow |= in_dataflow(t);
	e->start = e->start < start ? e->start : start;
	e->end = e->end > end ? e->end : end;
	ended_add(c, &e->by, t, origin);
}

void core_fail_mark_ended(struct core *core, struct core_task *t, u64 origin)
{
	struct core_client *c = t->client;
	u32 i;

	if (core_has_queued(c)) {
		if (!c->fail_mark)
			begin(core, c, origin);
		poison_task(core, t, c->queue_order);
	}
	if (!c->ended_mark) {
		c->ended_mark = ++core->poison;
		core->nr_marking++;
	}
	/* Who submits more from now on may know. */
	c->ended_to = c->places + (u32)(core_read_once(c->sq_head) - (u32)c->places);
	ended_add(c, &t->queue->ended, t, origin);
	if (t->d.flags & ARAX_TASK_BARRIER)
		ended_add(c, &t->queue->barrier_ended, t, origin);
	for (i = 0; i < t->d.nr_ranges; i++) {
		struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];

		if (!(t->d.access >> (2 * i) & ARAX_OUT) || !r->length)
			continue;
		if (buf->ended_mark != c->ended_mark) {
			if (buf->ended_mark > core->poison_dead && buf->ender != c->serial) {
				ended_add(c, &c->ended_any, t, origin);
				continue;
			}
			buf->ended_mark = c->ended_mark;
			buf->ender = c->serial;
			buf->nr_ended = 0;
		}
		ended_add_bytes(c, buf, t, r->offset, core_range_end(r), origin);
	}
}

static bool behind(const struct core_client *c, const struct core_ended *e,
		   const struct core_task *t, u64 *origin)
{
	if (e->mark != c->ended_mark || t->place <= e->from || t->place >= e->to)
		return false;
	*origin = e->origin;
	return true;
}

static bool depends_ended(const struct core_client *c, const struct core_task *t, u64 *origin)
{
	bool flow = in_dataflow(t);
	u32 i, k;

	if (t->queue->flags & ARAX_QUEUE_CONTINUE)
		return false;
	if (behind(c, !flow || t->d.flags & ARAX_TASK_BARRIER ? &t->queue->ended :
							       &t->queue->barrier_ended, t, origin))
		return true;
	for (i = 0; i < t->d.nr_ranges; i++) {
		const struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];

		if (!r->length)
			continue;
		if (behind(c, &c->ended_any, t, origin))
			return true;
		if (buf->ended_mark != c->ended_mark)
			continue;
		for (k = 0; k < buf->nr_ended; k++) {
			const struct core_ended_bytes *e = &buf->ended[k];

			if (e->start < core_range_end(r) && r->offset < e->end &&
			    (flow || e->flow) && behind(c, &e->by, t, origin))
				return true;
		}
	}
	return false;
}

bool core_fail_reaches_ended(struct core *core, struct core_task *t, u64 *origin)
{
	if (!t->client->ended_mark || !depends_ended(t->client, t, origin))
		return false;
	core_fail_mark_ended(core, t, *origin);
	return true;
}

bool core_fail_reached(const struct core_client *c, const struct core_task *t, u64 *origin)
{
	if (t->state == CORE_TASK_DISPATCHED)
		return c->ended_mark && depends_ended(c, t, origin);
	*origin = c->fail_origin;
	return c->fail_mark && depends(c, t);
}

void core_fail_have_ended(struct core *core, struct core_client *c)
{
	if (c->ended_mark && !any_before(c, c->ended_to))
		core_fail_end_ended(core, c);
}
