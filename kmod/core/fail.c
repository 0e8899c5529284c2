// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Failures among tasks that the mediator has not seen.  The mediator's graph
 * cancels the dependents that it knows; those still queued here are found by
 * this pass, which follows the same rules: a task depends on an earlier one in
 * its in-order queue, on a barrier of its dataflow queue or as one, and on who
 * writes bytes that it touches, if one of the two is in a dataflow queue.
 * Strided ranges count from their first byte to their last, and what doesn't
 * fit a buffer's short list makes neighbours one.  CONTINUE queues opt out.
 */
#include "core.h"

static bool in_dataflow(const struct core_task *t)
{
	return t->queue->flags & ARAX_QUEUE_DATAFLOW;
}

static void poison_task(struct core_task *t, u64 mark)
{
	bool flow = in_dataflow(t);
	u32 i;

	t->queue->poison = mark;
	if (t->d.flags & ARAX_TASK_BARRIER)
		t->queue->barrier_poison = mark;
	for (i = 0; i < t->d.nr_ranges; i++) {
		struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];

		if (!(t->d.access >> (2 * i) & ARAX_OUT) || !r->length)
			continue;
		if (buf->poison != mark) {
			buf->poison = mark;
			buf->nr_poisoned[0] = 0;
			buf->nr_poisoned[1] = 0;
		}
		core_extent_add(buf->poisoned[flow], &buf->nr_poisoned[flow], r->offset,
				core_range_end(r));
	}
}

static bool follows(const struct core_task *t, u64 mark)
{
	const struct core_queue *q = t->queue;

	if (!in_dataflow(t))
		return q->poison == mark;
	return q->barrier_poison == mark ||
	       (t->d.flags & ARAX_TASK_BARRIER && q->poison == mark);
}

static bool depends(const struct core_task *t, u64 mark)
{
	u32 i, kind;

	if (t->queue->flags & ARAX_QUEUE_CONTINUE)
		return false;
	if (follows(t, mark))
		return true;
	for (i = 0; i < t->d.nr_ranges; i++) {
		const struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];

		if (buf->poison != mark || !r->length)
			continue;
		/* Two in-order queues are not related by what they touch. */
		for (kind = in_dataflow(t) ? 0 : 1; kind < 2; kind++)
			if (core_extent_overlaps(buf->poisoned[kind], buf->nr_poisoned[kind],
						 r->offset, core_range_end(r)))
				return true;
	}
	return false;
}

/* Remembers that t failed; before its references are released. */
void core_fail_mark(struct core *core, struct core_task *t)
{
	struct core_client *c = t->client;

	if (clist_empty(&c->queued))
		return;
	if (!c->fail_mark) {
		c->fail_mark = ++core->poison;
		c->fail_origin = t->d.tag;
	}
	poison_task(t, c->fail_mark);
}

/* Cancels what is queued behind the marked failures, and what depends on that. */
void core_fail_pass(struct core *core, struct core_client *c, struct core_garbage *g)
{
	struct core_result r = { .result = -ECANCELED, .device = ~0u };
	struct clist *pos, *tmp;

	if (!c->fail_mark)
		return;
	r.origin = c->fail_origin;
	clist_for_each_safe(pos, tmp, &c->queued) {
		struct core_task *t = clist_entry(pos, struct core_task, node);

		if (!depends(t, c->fail_mark))
			continue;
		poison_task(t, c->fail_mark);
		core_complete(core, t, &r, g);
	}
	c->fail_mark = 0;
}
