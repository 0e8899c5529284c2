// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Failures among tasks that the mediator has not seen.  The mediator's graph
 * cancels the dependents that it knows; those still queued here are found by
 * this pass.  It works on whole buffers, not on byte ranges: a task is taken
 * for a dependent if it touches a buffer that a failed task would have
 * written, or follows one in an in-order queue.  CONTINUE queues opt out.
 */
#include "core.h"

static void poison_task(struct core_task *t, u64 mark)
{
	u32 i;

	t->queue->poison = mark;
	for (i = 0; i < t->d.nr_ranges; i++)
		if (t->d.access >> (2 * i) & ARAX_OUT)
			t->buffers[i]->poison = mark;
}

static bool depends(const struct core_task *t, u64 mark)
{
	u32 i;

	if (t->queue->flags & ARAX_QUEUE_CONTINUE)
		return false;
	if (t->queue->poison == mark &&
	    (!(t->queue->flags & ARAX_QUEUE_DATAFLOW) || t->d.flags & ARAX_TASK_BARRIER))
		return true;
	for (i = 0; i < t->d.nr_ranges; i++)
		if (t->buffers[i]->poison == mark)
			return true;
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
