// SPDX-License-Identifier: MIT
/*
 * The host's own accesses: a marker with the range, in the place that a task would
 * have, tells when those that it would depend on have ended.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/**
 * struct access - markers under way
 * @left:	that have not ended; atomic, written under ring_lock
 * @owners:	events that are pending, and the caller; atomic.  The events can outlive the
 *		call, which may run out of time: who comes last frees it
 * @caller:	how many of them the caller is: one, and one for each that is not submitted
 */
struct access {
	uint32_t left;
	uint32_t owners;
	uint32_t caller;
	struct arax_event events[];
};

/* Markers that are submitted at once. */
#define MARKERS		16u
/* Of one call; their events have to fit an address space of 32 bits, too. */
#define RANGES_MAX	(INT32_MAX / sizeof(struct arax_event) - 1)

static void put(struct access *a, uint32_t owners)
{
	if (__atomic_sub_fetch(&a->owners, owners, __ATOMIC_ACQ_REL) == 0)
		free(a);
}

void access_count(struct arax_event *event)
{
	struct access *a = event->data;

	/* Pairs with the acquire in is_done(). */
	store_release(&a->left, a->left - 1);
}

void access_ended(struct arax_event *event)
{
	put(event->data, 1);
}

static bool is_done(void *arg)
{
	struct access *a = arg;

	return !load_acquire(&a->left);
}

/*
 * Is none of the context's tasks in flight, by what has completed so far?  That may be one of a
 * queue that has been destroyed.
 */
static bool nothing_runs(struct arax *ax)
{
	bool idle;

	complete_all(ax);
	lock_take(&ax->ring_lock);
	idle = ring_is_idle(&ax->ring);
	lock_drop(&ax->ring_lock);
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

/*
 * Markers for the ranges from *@done on, while there is room for them.  0: for all of them;
 * -EAGAIN: the ring is full.
 */
static int submit_some(struct arax_queue *queue, struct access *a, const struct arax_range *ranges,
		       size_t nr, size_t *done)
{
	struct arax_desc d[MARKERS];
	size_t n, i;
	int ret;

	while (*done < nr) {
		n = nr - *done < MARKERS ? nr - *done : MARKERS;
		memset(d, 0, n * sizeof(*d));
		for (i = 0; i < n; i++) {
			a->events[*done + i].notify = access_ended;
			a->events[*done + i].data = a;
			d[i].opcode = ARAX_OP_MARKER;
			d[i].ranges = &ranges[*done + i];
			d[i].nr_ranges = 1;
			d[i].event = &a->events[*done + i];
		}
		ret = arax_submit(queue, d, n, ARAX_SUBMIT_NOWAIT);
		if (ret <= 0)
			return ret < 0 ? ret : -EAGAIN;
		*done += (size_t)ret;
		a->caller -= (uint32_t)ret;
	}
	return 0;
}

static void caller_gone(void *arg)
{
	struct access *a = arg;

	put(a, a->caller);
}

static int say_range(const struct arax_range *r, int err, const char *what, uint64_t origin)
{
	unsigned long long end = r->offset + r->length;

	if (origin)
		return error_set(err, "bytes %llu to %llu of buffer %#x: task %#llx failed",
				 (unsigned long long)r->offset, end, r->buffer,
				 (unsigned long long)origin);
	return error_set(err, "%s bytes %llu to %llu of buffer %#x", what,
			 (unsigned long long)r->offset, end, r->buffer);
}

static int result_of(const struct access *a, const struct arax_range *ranges, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (a->events[i].result)
			return say_range(&ranges[i], a->events[i].result, "bringing",
					 a->events[i].origin);
	return 0;
}

/* Of those that have not come, where time has run out. */
static const struct arax_range *first_missing(const struct access *a,
					      const struct arax_range *ranges, size_t nr)
{
	size_t i = 0;

	while (i + 1 < nr && arax_event_done(&a->events[i]))
		i++;
	return &ranges[i];
}

/*
 * Submits all and waits until they have ended.  The thread may be cancelled while it waits, also
 * for room in the ring: in between what it has submitted is counted.
 */
static int submit_and_wait(struct arax_queue *queue, struct access *a,
			   const struct arax_range *ranges, size_t nr, uint64_t deadline)
{
	int ret, err, cancel;
	size_t done = 0;

	pthread_cleanup_push(caller_gone, a);
	do {
		err = 0;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		ret = submit_some(queue, a, ranges, nr, &done);
		pthread_setcancelstate(cancel, NULL);
		if (ret == -EAGAIN)
			err = context_dead(queue->ax);
		if (ret == -EAGAIN && !err)
			err = submit_room(queue->ax, deadline);
	} while (ret == -EAGAIN && !err);
	if (!ret)
		err = wait_until(queue->ax, is_done, NULL, a, deadline);
	if (err)
		ret = say_range(first_missing(a, ranges, nr), err, "waiting for", 0);
	pthread_cleanup_pop(0);
	return ret;
}

int arax_access_begin_all(struct arax_queue *queue, const struct arax_range *ranges, size_t nr,
			  uint64_t deadline)
{
	bool needed = false;
	struct access *a;
	int ret = 0;
	size_t i;

	if (nr > RANGES_MAX)
		return error_set(-EINVAL, "%zu ranges: at most %zu at a time", nr, RANGES_MAX);
	for (i = 0; i < nr && !ret; i++) {
		ret = check(queue, &ranges[i]);
		needed = needed || (!ret && is_explicit(queue->ax, ranges[i].buffer));
	}
	if (ret || !nr)
		return ret;
	if (!needed && nothing_runs(queue->ax)) {
		/* So it looks as well when all have ended because the context has. */
		ret = context_dead(queue->ax);
		return ret ? error_set(ret, "arax_access_begin") : 0;
	}
	a = calloc(1, sizeof(*a) + nr * sizeof(a->events[0]));
	if (!a)
		return error_set(-ENOMEM, "arax_access_begin");
	a->owners = (uint32_t)nr + 1;
	a->left = (uint32_t)nr;
	a->caller = a->owners;
	ret = submit_and_wait(queue, a, ranges, nr, deadline);
	if (!ret)
		ret = result_of(a, ranges, nr);
	put(a, a->caller);
	return ret;
}

int arax_access_begin(struct arax_queue *queue, struct arax_range range, uint64_t deadline)
{
	return arax_access_begin_all(queue, &range, 1, deadline);
}

int arax_access_end(struct arax_queue *queue, struct arax_range range)
{
	return check(queue, &range);
}
