// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Canceling.  A client may have many tasks, so it goes in steps, with the locks
 * dropped between them: first tasks at the mediator are asked for, behind a cursor
 * in their list; then those queued are moved to the list of what is to be
 * examined, and come back from it one by one.
 *
 * core->lock is held during each step, so a mediator is settled between two of
 * them, and ends the examination first.
 */
#include "core.h"

static bool matches(const struct core_client *c, const struct core_task *t)
{
	return c->cancel_queue ? t->queue == c->cancel_queue :
				 t->d.user_data == c->cancel->user_data;
}

/* Returns false at the end, or if the list has been taken over or settled. */
static bool ask_step(struct core *core, struct core_client *c)
{
	u32 n;

	for (n = 0; n < CORE_STEP && !clist_empty(&c->cursor); n++) {
		struct clist *pos = c->cursor.next;
		struct core_task *t = clist_entry(pos, struct core_task, node);

		clist_del(&c->cursor);
		if (pos == &c->dispatched)
			break;
		clist_add(&c->cursor, pos);
		/* Once: notes come before other clients' tasks, and it has been told of this one. */
		if (t->canceled || !matches(c, t))
			continue;
		t->canceled = true;
		core_note_task(core, t, CORE_NOTE_CANCEL);
	}
	return !clist_empty(&c->cursor);
}

bool core_cancel_step(struct core *core, struct core_client *c, u32 max, struct core_garbage *g)
{
	struct core_result r = { .result = -ECANCELED, .device = ~0u };

	for (; max && !clist_empty(&c->exam) && !core_step_over(g); max--) {
		struct core_task *t = clist_first(&c->exam, struct core_task, node);

		if (matches(c, t)) {
			core_fail_mark(core, t);
			core_complete(core, t, &r, g);
			c->nr_canceled++;
		} else if (!core_fail_reaches(core, t, g)) {
			clist_del(&t->node);
			core_dispatch_requeue(core, t);
		}
	}
	return !clist_empty(&c->exam);
}

static void run_steps(struct core_client *c)
{
	struct core *core = c->core;
	bool asking = true, more = true;
	struct core_garbage g;

	while (more) {
		core_garbage_init(&g);
		core_mutex_lock(&core->lock);
		core_spin_lock(&core->dispatch);
		if (asking) {
			asking = ask_step(core, c);
			if (!asking)
				clist_splice_tail(&c->queued, &c->exam);
		} else {
			more = core_cancel_step(core, c, CORE_STEP, &g);
		}
		core_spin_unlock(&core->dispatch);
		core_mutex_unlock(&core->lock);
		/* core->lock may not be held here. */
		core_spin_lock(&core->dispatch);
		g.points = 0;
		core_dispatch_flush(core, &g);
		core_unlock_collect(core, &g);
		core_resched();
	}
}

int core_cancel(struct core_client *c, struct arax_cancel *a)
{
	struct core *core = c->core;
	struct core_queue *q = NULL;

	if (a->flags & ~ARAX_CANCEL_QUEUE)
		return -EOPNOTSUPP;
	if (a->flags & ARAX_CANCEL_QUEUE ? a->user_data != 0 : a->queue != 0)
		return -EINVAL;
	a->nr_canceled = 0;
	core_mutex_lock(&c->lock);
	if (a->flags & ARAX_CANCEL_QUEUE) {
		q = core_handle_find(&c->handles, CORE_QUEUE, a->queue);
		if (!q) {
			core_mutex_unlock(&c->lock);
			return -EBADF;
		}
	}
	core_spin_lock(&core->dispatch);
	c->cancel = a;
	c->cancel_queue = q;
	c->nr_canceled = 0;
	clist_add(&c->cursor, &c->dispatched);
	core_spin_unlock(&core->dispatch);
	run_steps(c);
	core_spin_lock(&core->dispatch);
	clist_del(&c->cursor);
	c->cancel = NULL;
	a->nr_canceled = c->nr_canceled;
	core_spin_unlock(&core->dispatch);
	core_mutex_unlock(&c->lock);
	return 0;
}
