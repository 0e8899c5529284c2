// SPDX-License-Identifier: MIT
#include <stdlib.h>

#include "internal.h"

#define FEW	8	/* tasks of a queue: each is worth being woken for */

int arax_queue_create(struct arax *ax, uint32_t flags, int priority, struct arax_queue **queue)
{
	const struct arax_queue_options o = {
		.size = sizeof(o), .flags = flags, .priority = priority,
	};

	return arax_queue_create_with(ax, &o, queue);
}

int arax_queue_create_with(struct arax *ax, const struct arax_queue_options *o,
			   struct arax_queue **queue)
{
	struct arax_queue_create a = { .size = sizeof(a) };
	struct arax_queue *q;
	size_t i;
	int ret;

	if (o->size < sizeof(*o))
		return error_set(-EINVAL, "queue options of %zu bytes: set size to sizeof",
				 o->size);
	for (i = sizeof(*o); i < o->size; i++)
		if (((const char *)o)[i])
			return error_set(-E2BIG, "queue options that this libarax doesn't know");
	for (i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		if (o->reserved[i])
			return error_set(-E2BIG, "queue options that this libarax doesn't know");
	if (o->priority < -20 || o->priority > 19)
		return error_set(-EINVAL, "priority %d: want -20 to 19", o->priority);
	if (o->target_ns > ARAX_TARGET_MAX)
		return error_set(-EINVAL, "a target of %llu ns: want %llu at most, or 0 for none",
				 (unsigned long long)o->target_ns, ARAX_TARGET_MAX);
	a.flags = o->flags;
	a.priority = o->priority;
	a.target_ns = o->target_ns;
	q = calloc(1, sizeof(*q));
	if (!q)
		return error_set(-ENOMEM, "arax_queue_create");
	ret = context_call(ax, "creating a queue", ARAX_NR_QUEUE_CREATE, &a);
	if (ret) {
		free(q);
		if (ret == -EOPNOTSUPP)
			error_set(ret, "creating a queue with flags 0x%x: want ARAX_QUEUE_IN_ORDER or ARAX_QUEUE_DATAFLOW, and ARAX_QUEUE_CONTINUE and ARAX_QUEUE_WAIT or not%s",
				  o->flags, o->flags & ~(uint32_t)ARAX_QUEUE_FLAGS ? "" :
				  ": what you are linked to is too old for one of them");
		return ret;
	}
	if (o->flags & ARAX_QUEUE_WAIT)
		store_relaxed(&ax->link->queues_wait, true);
	q->ax = ax;
	q->handle = a.handle;
	pthread_mutex_lock(&ax->object_lock);
	q->next = ax->queues;
	ax->queues = q;
	pthread_mutex_unlock(&ax->object_lock);
	*queue = q;
	return 0;
}

static bool queue_empty(void *arg)
{
	struct arax_queue *q = arg;

	/* Pairs with the release in complete.c: finish(). */
	return !load_acquire(&q->inflight);
}

/* (ring_lock) One of its tasks that is in flight. */
static uint64_t one_of(const struct arax_queue *q)
{
	const struct ring *r = &q->ax->ring;
	uint32_t i = 0;

	while (i < r->depth - 1 && !(r->slots[i].used && r->slots[i].queue == q))
		i++;
	return (uint64_t)r->slots[i].gen << 32 | i;
}

/*
 * Not before the one that was submitted last has ended.  Then more or less all have; while
 * there are many, at least so many completions are to come, and of a few each is waited for:
 * other queues' may be a thousand meanwhile.
 */
static struct wake queue_wake(void *arg)
{
	struct arax_queue *q = arg;

	if (ring_slot_find(&q->ax->ring, q->last))
		return (struct wake){ .why = ARAX_WAKE_FOR, .ticket = q->last };
	if (q->inflight > FEW)
		return (struct wake){ .why = ARAX_WAKE_AT, .more = q->inflight };
	return (struct wake){ .why = ARAX_WAKE_FOR, .ticket = one_of(q) };
}

int arax_queue_finish(struct arax_queue *queue, uint64_t deadline)
{
	struct arax *ax = queue->ax;
	char why[WHY_LEN];
	uint64_t tag;
	int ret;

	if (!is_owner(ax))
		return not_owner();
	ret = wait_until(ax, queue_empty, queue_wake, queue, deadline);
	if (ret)
		return error_set(ret, "waiting for queue %#x", queue->handle);
	lock_take(&ax->ring_lock);
	ret = queue->error;
	queue->error = 0;
	tag = queue->error_tag;
	lock_drop(&ax->ring_lock);
	if (!ret)
		return 0;
	task_why(ax, tag, ret, why);
	return error_set(ret, "a task in queue %#x%s", queue->handle, why);
}

int arax_queue_cancel(struct arax_queue *queue)
{
	struct arax_cancel a = {
		.size = sizeof(a),
		.flags = ARAX_CANCEL_QUEUE,
		.queue = queue->handle,
	};
	int ret = context_call(queue->ax, "canceling a queue", ARAX_NR_CANCEL, &a);

	return ret ? ret : (int)a.nr_canceled;
}

void arax_queue_destroy(struct arax_queue *queue)
{
	struct arax_handle h = { .size = sizeof(h) };
	struct arax_queue **at;
	struct arax *ax;
	bool unused;

	if (!queue || !is_owner(queue->ax))
		return;
	ax = queue->ax;
	h.handle = queue->handle;
	pthread_mutex_lock(&ax->object_lock);
	for (at = &ax->queues; *at && *at != queue; at = &(*at)->next)
		;
	if (*at)
		*at = queue->next;
	pthread_mutex_unlock(&ax->object_lock);

	ax->link->ops->call(ax->link, ARAX_NR_QUEUE_DESTROY, &h);

	/* Tasks in flight point here: the last one's completion frees it. */
	lock_take(&ax->ring_lock);
	unused = !queue->inflight;
	queue->destroyed = true;
	lock_drop(&ax->ring_lock);
	if (unused)
		free(queue);
}
