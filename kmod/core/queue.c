// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Queues: a policy and a priority; what they order is the mediator's work. */
#include "core.h"

int core_queue_create(struct core_client *c, struct arax_queue_create *a)
{
	struct core_queue *q;
	int err;

	if (a->flags & ~ARAX_QUEUE_FLAGS)
		return -EOPNOTSUPP;
	if (a->priority < -20 || a->priority > 19 || a->target_ns > ARAX_TARGET_MAX)
		return -EINVAL;
	q = core_alloc(sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->flags = a->flags;
	q->priority = a->priority;
	q->target_ns = a->target_ns;
	q->tasks = 1;
	core_mutex_lock(&c->lock);
	err = core_client_add(c, CORE_QUEUE, q, &a->handle);
	if (!err) {
		q->handle = a->handle;
		c->queues_wait |= a->flags & ARAX_QUEUE_WAIT;
	}
	core_mutex_unlock(&c->lock);
	if (err)
		core_free(q);
	return err;
}

void core_queue_put_locked(struct core_queue *q, struct core_garbage *g)
{
	if (!--q->tasks)
		core_garbage_throw(&g->queues, &q->garbage);
}

/* Tasks that are under way finish; they keep the queue's order. */
int core_queue_destroy(struct core_client *c, u32 handle)
{
	struct core *core = c->core;
	struct core_garbage g;
	struct core_queue *q;

	core_mutex_lock(&c->lock);
	q = core_client_remove(c, CORE_QUEUE, handle);
	c->last_queue = NULL;
	core_mutex_unlock(&c->lock);
	if (!q)
		return -EBADF;
	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	core_queue_put_locked(q, &g);
	core_unlock_collect(core, &g);
	return 0;
}
