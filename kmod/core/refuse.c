// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What depends on a refused task.  It never reaches the mediator, whose graph
 * can't fail its dependents, so the core does, in the order of submission:
 *
 *   A refused task leaves marks: on its queue, and on the bytes that it would
 *   have written.  Of the tasks behind it those that depend on it by the rules
 *   of fail.c are refused with ECANCELED and leave marks of their own.
 *
 * Marks hold for what the client wrote before it could see the first refusal:
 * up to the first entry that was not yet published when the core looked, just
 * after that completion was: nobody can tell from an entry whether its client
 * had seen it, and one that depends on a refused task shall not run.
 * Each has an end of its own, a position in the submission ring.
 *
 * All of it belongs to client->lock, the marks on queues too.
 */
#include "core.h"

#define LOOK_LOCKED	32	/* entries looked at under core->dispatch */

/* Of the first entry that is not consumed. */
static u64 consumed(const struct core_client *c)
{
	return c->refusals.at + (u32)(c->sq_head - (u32)c->refusals.at);
}

/* Later than any that can be published: stands for an end not known yet. */
static u64 open_end(const struct core_client *c)
{
	return consumed(c) + c->depth + 1;
}

static bool in_dataflow(const struct core_task *t)
{
	return t->queue->flags & ARAX_QUEUE_DATAFLOW;
}

bool core_refusals_hold(struct core_client *c, u32 pos)
{
	struct core_refusals *r = &c->refusals;

	r->at += (u32)(pos - (u32)r->at);
	if (r->id && r->at >= r->last)
		r->id = 0;
	return r->id;
}

static void begin(struct core_client *c)
{
	struct core_refusals *r = &c->refusals;

	if (r->id)
		return;
	/* Marks of another id don't count: those on queues stay as they are. */
	r->id = ++r->ids;
	r->published = consumed(c);
	memset(r->any, 0, sizeof(r->any));
	memset(r->bytes, 0, sizeof(r->bytes));
}

/* Of two reasons the one that lasts longer, or the first. */
static void set(struct core_mark *m, const struct core_mark *new)
{
	if (!m->origin || m->end < new->end)
		*m = *new;
}

/* Joins a mark that it touches, or takes a free place; without one it is on any bytes. */
static void mark_bytes(struct core_refusals *r, u64 pos, u32 buffer, bool flow, u64 start, u64 end,
		       const struct core_mark *m)
{
	struct core_marked_bytes *b, *free = NULL;
	u32 i;

	for (i = 0; i < CORE_MARKED_BYTES; i++) {
		b = &r->bytes[i];
		if (!b->mark.origin || b->mark.end <= pos) {
			free = b;
			continue;
		}
		if (b->buffer != buffer || b->flow != flow || b->mark.end != m->end ||
		    b->end < start || b->start > end)
			continue;
		b->start = b->start < start ? b->start : start;
		b->end = b->end > end ? b->end : end;
		return;
	}
	if (!free) {
		set(&r->any[flow], m);
		return;
	}
	free->buffer = buffer;
	free->flow = flow;
	free->start = start;
	free->end = end;
	free->mark = *m;
}

static void leave_marks(struct core_client *c, const struct core_task *t, u64 pos,
			const struct core_mark *m)
{
	struct core_refusals *r = &c->refusals;
	struct core_queue *q = t->queue;
	bool flow = in_dataflow(t);
	u32 i;

	if (q->refusals != r->id) {
		q->refusals = r->id;
		memset(&q->refused, 0, sizeof(q->refused));
		memset(&q->refused_barrier, 0, sizeof(q->refused_barrier));
	}
	set(&q->refused, m);
	if (t->d.flags & ARAX_TASK_BARRIER)
		set(&q->refused_barrier, m);
	if (!t->ranged) {
		set(&r->any[flow], m);
		return;
	}
	for (i = 0; i < t->d.nr_ranges; i++) {
		const struct arax_dispatch_range *x = &t->ranges[i];

		if (t->d.access >> (2 * i) & ARAX_OUT && x->length)
			mark_bytes(r, pos, (u32)x->buffer, flow, x->offset, core_range_end(x), m);
	}
}

static void meet(struct core_mark *found, u64 pos, const struct core_mark *m)
{
	if (m->origin && pos < m->end)
		set(found, m);
}

static void meet_bytes(const struct core_refusals *r, const struct core_task *t, u64 pos,
		       struct core_mark *found)
{
	bool flow = in_dataflow(t), any = false;
	u32 i, k;

	for (i = 0; i < t->d.nr_ranges; i++) {
		const struct arax_dispatch_range *x = &t->ranges[i];

		if (!x->length)
			continue;
		any = true;
		for (k = 0; k < CORE_MARKED_BYTES; k++) {
			const struct core_marked_bytes *b = &r->bytes[k];

			/* Two in-order queues are not related by what they touch. */
			if (b->buffer == x->buffer && (flow || b->flow) &&
			    b->start < core_range_end(x) && x->offset < b->end)
				meet(found, pos, &b->mark);
		}
	}
	if (any)
		meet(found, pos, &r->any[true]);
	if (any && flow)
		meet(found, pos, &r->any[false]);
}

/* A task that runs nevertheless, and writes bytes anew: who comes behind depends on it alone. */
static void wipe_bytes(struct core_refusals *r, const struct core_task *t)
{
	u32 i, k;

	for (i = 0; i < t->d.nr_ranges && in_dataflow(t); i++) {
		const struct arax_dispatch_range *x = &t->ranges[i];

		if (!(t->d.access >> (2 * i) & ARAX_OUT) || x->count != 1)
			continue;
		for (k = 0; k < CORE_MARKED_BYTES; k++) {
			struct core_marked_bytes *b = &r->bytes[k];

			if (b->buffer == x->buffer && x->offset <= b->start &&
			    b->end <= core_range_end(x))
				b->mark.origin = 0;
		}
	}
}

bool core_refusal_reaches(struct core_client *c, struct core_task *t, u64 pos)
{
	struct core_refusals *r = &c->refusals;
	const struct core_queue *q = t->queue;
	struct core_mark found = { 0 };

	if (!r->id)
		return false;
	if (q->flags & ARAX_QUEUE_CONTINUE) {
		wipe_bytes(r, t);
		return false;
	}
	if (q->refusals == r->id) {
		if (!in_dataflow(t) || t->d.flags & ARAX_TASK_BARRIER)
			meet(&found, pos, &q->refused);
		else
			meet(&found, pos, &q->refused_barrier);
	}
	meet_bytes(r, t, pos, &found);
	if (!found.origin)
		return false;
	t->origin = found.origin;
	leave_marks(c, t, pos, &found);
	return true;
}

void core_refusal_add(struct core_client *c, struct core_task *t, u64 pos)
{
	struct core_mark m = { .origin = t->d.tag, .end = open_end(c) };

	if (!t->queue)
		return;
	begin(c);
	c->refusals.last = m.end;
	leave_marks(c, t, pos, &m);
}

bool core_refusals_look(struct core_client *c, bool locked)
{
	struct core_refusals *r = &c->refusals;
	u32 n;

	/* Each entry is looked at once, however many are refused. */
	if (r->published < consumed(c))
		r->published = consumed(c);
	for (n = 0; r->published < consumed(c) + c->depth; n++, r->published++) {
		if (locked && n == LOOK_LOCKED)
			return false;
		if (!core_entry_ready(c, (u32)r->published))
			break;
	}
	return true;
}

static void close_mark(const struct core_client *c, struct core_mark *m)
{
	if (m->end == open_end(c))
		m->end = c->refusals.published;
}

void core_refusals_close_queue(struct core_client *c, struct core_queue *q)
{
	close_mark(c, &q->refused);
	close_mark(c, &q->refused_barrier);
}

void core_refusals_close(struct core_client *c)
{
	struct core_refusals *r = &c->refusals;
	u32 i;

	for (i = 0; i < CORE_MARKED_BYTES; i++)
		close_mark(c, &r->bytes[i].mark);
	for (i = 0; i < 2; i++)
		close_mark(c, &r->any[i]);
	r->last = r->published;
}
