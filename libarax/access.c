// SPDX-License-Identifier: MIT
/*
 * The host's own accesses: a marker with the range, in the place that a task would
 * have, tells when those that it would depend on have ended.
 */
#include <stdlib.h>

#include "internal.h"

/*
 * The event can outlive the call, which may run out of time: who comes second, the
 * caller or the completion, frees it.
 */
struct access {
	struct arax_event event;
	bool done;		/* atomic */
	uint32_t owners;	/* atomic */
};

static void put(struct access *a)
{
	if (__atomic_sub_fetch(&a->owners, 1, __ATOMIC_ACQ_REL) == 0)
		free(a);
}

static void ended(struct arax_event *event)
{
	struct access *a = (struct access *)event;

	/* Pairs with the acquire in is_done(). */
	store_release(&a->done, true);
	put(a);
}

static bool is_done(void *arg)
{
	struct access *a = arg;

	return load_acquire(&a->done);
}

/* Is none of the context's tasks in flight, by what has completed so far? */
static bool nothing_runs(struct arax *ax)
{
	struct arax_queue *q;
	bool idle = true;

	if (complete_all(ax) < 0)
		return false;
	pthread_mutex_lock(&ax->object_lock);
	/* Pairs with the release in complete.c: finish(). */
	for (q = ax->queues; q && idle; q = q->next)
		idle = !load_acquire(&q->inflight);
	pthread_mutex_unlock(&ax->object_lock);
	return idle;
}

/* The bytes may be on a device alone, though nothing runs any more. */
static bool is_explicit(struct arax *ax, uint32_t handle)
{
	const struct buffer *b;

	if (!load_acquire(&ax->has_explicit))
		return false;
	pthread_mutex_lock(&ax->object_lock);
	for (b = ax->buffers; b && b->pub.handle != handle; b = b->next)
		;
	pthread_mutex_unlock(&ax->object_lock);
	return b && b->is_explicit;
}

static int check(const struct arax_queue *queue, const struct arax_range *range)
{
	if (!is_owner(queue->ax))
		return not_owner();
	if (range->access < ARAX_IN || range->access > ARAX_INOUT)
		return error_set(-EINVAL, "access %u of a host access: want ARAX_IN, _OUT or _INOUT",
				 range->access);
	return 0;
}

int arax_access_begin(struct arax_queue *queue, struct arax_range range, uint64_t deadline)
{
	struct arax_desc d = {
		.opcode = ARAX_OP_MARKER,
		.ranges = &range,
		.nr_ranges = 1,
	};
	struct access *a;
	int ret;

	ret = check(queue, &range);
	if (ret || (!is_explicit(queue->ax, range.buffer) && nothing_runs(queue->ax)))
		return ret;
	a = calloc(1, sizeof(*a));
	if (!a)
		return error_set(-ENOMEM, "arax_access_begin");
	a->event.notify = ended;
	a->owners = 2;
	d.event = &a->event;
	ret = arax_submit(queue, &d, 1, 0);
	if (ret != 1) {
		free(a);
		return ret < 0 ? ret : -EAGAIN;
	}
	ret = wait_until(queue->ax, is_done, NULL, a, deadline);
	if (ret) {
		error_set(ret, "waiting for bytes %llu to %llu of buffer %#x",
			  (unsigned long long)range.offset,
			  (unsigned long long)(range.offset + range.length), range.buffer);
	} else if (a->event.result) {
		ret = a->event.result;
		error_set(ret, "bytes %llu to %llu of buffer %#x: task %#llx failed",
			  (unsigned long long)range.offset,
			  (unsigned long long)(range.offset + range.length), range.buffer,
			  (unsigned long long)a->event.origin);
	}
	put(a);
	return ret;
}

int arax_access_end(struct arax_queue *queue, struct arax_range range)
{
	return check(queue, &range);
}
