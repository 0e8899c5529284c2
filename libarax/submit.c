// SPDX-License-Identifier: MIT
/* From descriptions to ring entries. */
#include "internal.h"
#include "nap.h"

#define TASK_FLAGS	(ARAX_TASK_IDEMPOTENT | ARAX_TASK_BARRIER)
#define ROOM_PART	8	/* of a full ring: what has to be free before it is filled again */
#define ROOM_NS		500000u	/* but no longer than this, if there is any */
#define PUBLISH_MAX	16	/* entries written before the consumer may have the first */
#define TAKEN_LOOKS	2000	/* before that, at whether tasks have been taken: some 50 us */

/* ------------------------------------------------------------------ */
/* Checks that spare a round trip and can say what is wrong            */

static __attribute__((cold)) int wrong_signature(const struct arax_desc *d)
{
	const struct arax_kernel *k = d->kernel;
	size_t i;

	if (d->nr_ranges != k->sig.nr_ranges || d->arg_len != k->sig.arg_len)
		return error_set(-EINVAL, "kernel %s takes %u ranges and %u bytes of arguments, %zu and %zu given",
				 k->name, k->sig.nr_ranges, k->sig.arg_len, d->nr_ranges,
				 d->arg_len);
	for (i = 0; i < d->nr_ranges; i++) {
		if (d->ranges[i].access != ((k->sig.access >> (2 * i)) & 3))
			return error_set(-EINVAL, "kernel %s: range %zu is declared %s", k->name, i,
					 (const char *[]){ "unused", "in", "out", "inout" }
					 [(k->sig.access >> (2 * i)) & 3]);
	}
	return 0;
}

static inline int check_launch(const struct arax_desc *d)
{
	const struct arax_kernel *k = d->kernel;
	const struct arax_range *r = d->ranges, *end = r + d->nr_ranges;
	uint64_t access, wrong;

	if (unlikely(!k))
		return error_set(-EINVAL, "a launch without a kernel");
	if (unlikely(d->nr_ranges != k->sig.nr_ranges || d->arg_len != k->sig.arg_len))
		return wrong_signature(d);
	access = k->sig.access;
	for (wrong = 0; r < end; r++, access >>= 2)
		wrong |= r->access ^ (access & 3);
	return unlikely(wrong | access) ? wrong_signature(d) : 0;
}

static __attribute__((cold)) int wrong_fields(const struct arax_desc *d)
{
	if (d->flags & ~(uint32_t)TASK_FLAGS)
		return error_set(-EOPNOTSUPP, "task flags %#x", d->flags);
	return error_set(-EINVAL, "arax_desc.reserved is not zero: zero a task before you fill it in");
}

static inline int check(const struct arax_desc *d)
{
	if (unlikely(d->opcode >= ARAX_OP_MAX))
		return error_set(-EINVAL, "task of unknown kind %u", d->opcode);
	if (unlikely((d->flags & ~(uint32_t)TASK_FLAGS) | d->reserved[0] | d->reserved[1]))
		return wrong_fields(d);
	if (unlikely(d->event && load_relaxed(&d->event->state) == EVENT_PENDING))
		return error_set(-EBUSY, "the event belongs to a task that is not done");
	return d->opcode == ARAX_OP_LAUNCH ? check_launch(d) : 0;
}

/* What an entry can't hold may be too much altogether. */
static int check_ext(const struct arax *ax, const struct arax_desc *d)
{
	if (d->nr_ranges > ARAX_MAX_RANGES)
		return error_set(-EINVAL, "%zu ranges, a task takes at most %u", d->nr_ranges,
				 ARAX_MAX_RANGES);
	if (d->arg_len > ARAX_MAX_ARGS)
		return error_set(-EINVAL, "%zu bytes of arguments, a task takes at most %u: use a buffer",
				 d->arg_len, ARAX_MAX_ARGS);
	if ((d->wait && d->wait->ax != ax) || (d->signal && d->signal->ax != ax))
		return error_set(-EINVAL, "a timeline of another context: import it");
	return 0;
}

/* ------------------------------------------------------------------ */
/* Entries                                                             */

/* Writes what the entry can't hold and sets *@ext to its place.  -EAGAIN: no room yet. */
static int put_ext(struct ring *r, const struct arax_desc *d, size_t nr_inline, bool args,
		   uint32_t known, uint32_t *ext)
{
	struct arax_task_ext x = {
		.size = sizeof(x),
		.nr_ranges = (uint16_t)(d->nr_ranges - nr_inline),
		.arg_len = args ? (uint16_t)d->arg_len : 0,
		.deadline_ns = d->deadline,
		.wait_timeline = d->wait ? d->wait->handle : 0,
		.wait_value = d->wait_value,
		.signal_timeline = d->signal ? d->signal->handle : 0,
		.signal_value = d->signal_value,
		.known = known,
	};
	size_t ranges = x.nr_ranges * sizeof(struct arax_range);
	uint32_t len = (uint32_t)(sizeof(x) + ranges + x.arg_len);
	int64_t off = ring_arena_alloc(r, len);
	uint8_t *p;

	if (off == -1)
		return -EAGAIN;
	if (off < 0)
		return error_set(-EINVAL, "%u bytes of ranges and arguments, the arena has %u: raise arena_size",
				 len, r->arena_size);
	p = r->arena + off;
	memcpy(p, &x, sizeof(x));
	if (ranges)
		memcpy(p + sizeof(x), d->ranges + nr_inline, ranges);
	if (x.arg_len)
		memcpy(p + sizeof(x) + ranges, d->args, x.arg_len);
	*ext = (uint32_t)off;
	return 0;
}

static inline void put_ranges(struct arax_task *t, const struct arax_desc *d, size_t n)
{
	struct arax_range *more = ((struct arax_task256 *)t)->more;
	size_t i;

	for (i = n; i-- > 2;)
		more[i - 2] = d->ranges[i];
	if (n > 1)
		t->ranges[1] = d->ranges[1];
	if (n)
		t->ranges[0] = d->ranges[0];
}

/* A dimension that is 0 means 1. */
static inline void put_grid(struct arax_task *t, const struct arax_grid *g)
{
	int i;

	if (likely(g->grid[0] && g->grid[1] && g->grid[2] && g->block[0] && g->block[1] &&
		   g->block[2])) {
		memcpy(t->grid, g->grid, sizeof(t->grid));
		memcpy(t->block, g->block, sizeof(t->block));
		return;
	}
	for (i = 0; i < 3; i++) {
		t->grid[i] = g->grid[i] ? g->grid[i] : 1;
		t->block[i] = g->block[i] ? g->block[i] : 1;
	}
}

static inline void put_args(struct arax_task *t, const void *args, size_t len)
{
	/* By a constant where it is usual: the compiler knows how to copy that. */
	if (len == sizeof(t->args))
		memcpy(t->args, args, sizeof(t->args));
	else
		memcpy(t->args, args, len);
}

/* Whether the first line of an entry can say it all: see struct arax_task_short. */
static inline bool is_short(const struct ring *r, const struct arax_desc *d)
{
	const struct arax_range *x = d->ranges, *end = x + d->nr_ranges;
	const struct arax_grid *g = &d->grid;
	uint64_t more;

	if (!r->takes_short || d->opcode != ARAX_OP_LAUNCH || d->nr_ranges > 2)
		return false;
	/* A dimension of 0 or 1 is none. */
	more = (d->kernel->id & ARAX_KERNEL_OWN) | (g->grid[1] | g->grid[2]) >> 1 |
	       (uint32_t)(g->block[0] | g->block[1] | g->block[2]) >> 1;
	for (; x < end; x++)
		more |= x->offset | x->length >> 32 | (x->count ^ 1) | x->stride;
	return !more;
}

static inline void put_short(struct arax_task_short *t, const struct arax_desc *d,
			     uint64_t ticket, uint32_t known, uint32_t queue)
{
	uint32_t buffer[2] = { 0 }, length[2] = { 0 };
	size_t i;

	for (i = 0; i < d->nr_ranges; i++) {
		buffer[i] = d->ranges[i].buffer;
		length[i] = (uint32_t)d->ranges[i].length;
	}
	if (likely(d->arg_len == sizeof(t->args)))
		memcpy(t->args, d->args, sizeof(t->args));
	else if (d->arg_len)
		memcpy(t->args, d->args, d->arg_len);
	t->length[0] = length[0];
	t->length[1] = length[1];
	t->buffer[0] = buffer[0];
	t->buffer[1] = buffer[1];
	t->known = known;
	t->grid = d->grid.grid[0] ? d->grid.grid[0] : 1;
	t->kernel = d->kernel->id;
	t->queue = queue;
	t->user_data = ticket;
	t->flags = (uint16_t)(d->flags | ARAX_TASK_SHORT);
	t->nr_ranges = (uint8_t)d->nr_ranges;
	t->opcode = ARAX_OP_LAUNCH;
}

/*
 * With ring_lock held.  Writes one task's entry; -EAGAIN: no room.
 *
 * A consumer that is awake reads the entry's first line over and over, so that is
 * written last and without a pause: else it would be taken away between two stores
 * and had to come back.
 */
static inline int put(struct arax *ax, struct arax_queue *q, const struct arax_desc *d,
		      uint32_t known)
{
	struct ring *r = &ax->ring;
	size_t nr_inline = d->nr_ranges < r->max_inline ? d->nr_ranges : r->max_inline;
	bool long_args = d->arg_len > ARAX_INLINE_ARGS;
	bool has_ext = d->nr_ranges > nr_inline || long_args ||
		       d->deadline | (uintptr_t)d->wait | (uintptr_t)d->signal;
	uint32_t flags = d->flags, ext = known;
	struct arax_task *t = ring_sq_entry(r);
	struct arax_event *e = d->event;
	struct ring_slot *s;
	uint64_t ticket = 0;
	int ret;

	if (unlikely(has_ext)) {
		ret = check_ext(ax, d);
		if (ret)
			return ret;
	}
	if (unlikely(!r->nr_free))
		return -EAGAIN;
	if (unlikely(has_ext)) {
		ret = put_ext(r, d, nr_inline, long_args, known, &ext);
		if (ret)
			return ret;
		flags |= ARAX_TASK_EXT;
	}
	s = ring_slot_get(r, &ticket);
	s->event = e;
	s->queue = q;
	q->last = ticket;
	if (e) {
		e->ax = ax;
		e->ticket = ticket;
		store_relaxed(&e->state, EVENT_PENDING);
		if (unlikely(e->notify))
			wait_note(ax);
	}
	if (!has_ext && likely(is_short(r, d))) {
		put_short((struct arax_task_short *)t, d, ticket, known, q->handle);
		ring_sq_push(r);
		return 0;
	}
	if (!long_args && d->arg_len)
		put_args(t, d->args, d->arg_len);
	put_ranges(t, d, nr_inline);
	t->ext = ext;
	t->arg_len = long_args ? 0 : (uint16_t)d->arg_len;
	put_grid(t, &d->grid);
	t->kernel = d->opcode == ARAX_OP_LAUNCH ? d->kernel->id : d->service;
	t->queue = q->handle;
	t->user_data = ticket;
	t->flags = (uint16_t)flags;
	t->nr_ranges = (uint8_t)nr_inline;
	t->opcode = (uint8_t)d->opcode;
	ring_sq_push(r);
	return 0;
}

/* ------------------------------------------------------------------ */
/* Submission                                                          */

/* Entries are published, @count since the last time: ring if need be. */
static int kick(struct arax *ax, uint32_t count)
{
	bool woke;
	int ret;

	if (!count)
		return 0;
	ret = ax->link->ops->kick(ax->link, count, &woke);
	if (woke != load_relaxed(&ax->woke))
		store_relaxed(&ax->woke, woke);
	/*
	 * The entries are published, so that they can't be taken back, and nobody knows of
	 * them: those tasks end as a dead context's do.
	 */
	if (unlikely(ret))
		complete_dead(ax, ret);
	return ret;
}

/*
 * Where some of the context's queues wait for room: the caller may destroy what his tasks name as soon
 * as he is back, so that they have to be there by then.
 */
static void await_taken(struct arax *ax, uint32_t tail)
{
	struct timespec for_room = NAP_FIRST;
	uint32_t looks = 0;

	/* Pairs with the release with which the core moves sq_head. */
	while ((int32_t)(load_acquire(&ax->ring.ctl->sq_head) - tail) < 0) {
		if (looks++ < TAKEN_LOOKS) {
			cpu_relax();
			continue;
		}
		nap(&for_room);
		if (ax->link->ops->hangup(ax->link))
			complete_dead(ax, -ENOTCONN);
		if (context_dead(ax))
			return;
	}
}

/* Who doesn't wait is not cancelled, though it may take a moment. */
static void await_taken_by(struct arax *ax, uint32_t tail, bool nowait)
{
	int cancel;

	if (nowait)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	await_taken(ax, tail);
	if (nowait)
		pthread_setcancelstate(cancel, NULL);
}

static bool has_slot(void *arg)
{
	struct arax *ax = arg;

	return load_relaxed(&ax->ring.nr_free) != 0;
}

/*
 * A full ring that is filled up one task at a time wakes its owner, who takes a CPU from
 * somebody, for each of them: so an eighth of it has to be free.
 */
static uint32_t room(const struct arax *ax)
{
	return ax->ring.depth > ROOM_PART ? ax->ring.depth / ROOM_PART : 1;
}

static bool has_room(void *arg)
{
	struct arax *ax = arg;

	return load_relaxed(&ax->ring.nr_free) >= room(ax);
}

static struct wake room_wake(void *arg)
{
	const struct arax *ax = arg;

	return (struct wake){ .why = ARAX_WAKE_AT, .more = room(ax) - ax->ring.nr_free };
}

int submit_room(struct arax *ax, uint64_t deadline)
{
	uint64_t end;
	int ret;

	if (has_slot(ax))
		return 0;
	end = now_ns() + ROOM_NS;
	ret = wait_until(ax, has_room, room_wake, ax, end < deadline ? end : deadline);
	if (ret != -ETIMEDOUT)
		return ret;
	/* What is in flight may wait for the very task that finds no room. */
	return has_slot(ax) ? 0 : wait_until(ax, has_slot, NULL, ax, deadline);
}

/* Everything is kicked: wait for free tickets, or for room in the arena. */
static int wait_for_room(struct arax *ax)
{
	struct timespec once = NAP_FIRST;

	if (!has_slot(ax))
		return submit_room(ax, ARAX_DEADLINE_NONE);
	/*
	 * The consumer copies entries without waiting for tasks to run, so this
	 * is short; nothing wakes who waits for it.
	 */
	nap(&once);
	complete_all(ax);
	if (ax->link->ops->hangup(ax->link))
		complete_dead(ax, -ENOTCONN);
	return context_dead(ax);
}

/*
 * For who won't wait.  He may do nothing but submit: then nobody else takes what has ended, or sees
 * that the daemon is gone.
 */
static __attribute__((cold)) int look_for_room(struct arax *ax)
{
	if (!complete_all(ax))
		wait_look_for_end(ax);
	return context_dead(ax);
}

int arax_submit(struct arax_queue *queue, const struct arax_desc *tasks, size_t count,
		uint32_t flags)
{
	struct arax *ax = queue->ax;
	size_t i = 0, kicked = 0, written;
	uint32_t known, tail, fresh;
	bool looked = false;
	int ret = 0, err;

	if (unlikely(!is_owner(ax)))
		return not_owner();
	if (unlikely(flags & ~(uint32_t)ARAX_SUBMIT_NOWAIT))
		return error_set(-EOPNOTSUPP, "submit flags %#x", flags);
	if (unlikely(count > INT32_MAX))
		return error_set(-EINVAL, "submitting %zu tasks", count);
	lock_take(&ax->ring_lock);
	/* The caller decided on all of them before it could know of later ones. */
	known = ax->ring.failure;
again:
	/* It is set under the lock, too. */
	ret = i < count ? ax->dead : 0;
	for (; i < count && !ret; i += written) {
		size_t max = count - i < PUBLISH_MAX ? count - i : PUBLISH_MAX;

		for (written = 0; written < max; written++) {
			ret = check(&tasks[i + written]);
			if (likely(!ret))
				ret = put(ax, queue, &tasks[i + written], known);
			if (unlikely(ret))
				break;
		}
		store_relaxed(&queue->inflight, queue->inflight + (uint32_t)written);
		ring_sq_publish(&ax->ring, (uint32_t)written);
	}
	tail = ax->ring.sq_tail;
	lock_drop(&ax->ring_lock);
	fresh = (uint32_t)(i - kicked);
	err = kick(ax, fresh);
	kicked = i;
	if (unlikely(load_relaxed(&ax->link->queues_wait)) && fresh && !err)
		await_taken_by(ax, tail, flags & ARAX_SUBMIT_NOWAIT);
	/* Some were submitted, or there would have been nothing to kick; their ends tell why. */
	if (likely(!ret) || unlikely(err))
		return (int)i;

	if (ret == -EAGAIN && !(flags & ARAX_SUBMIT_NOWAIT && (i || looked))) {
		looked = true;
		ret = flags & ARAX_SUBMIT_NOWAIT ? look_for_room(ax) : wait_for_room(ax);
		if (!ret) {
			lock_take(&ax->ring_lock);
			goto again;
		}
	}
	if (i)
		return (int)i;
	if (ret == load_acquire(&ax->dead))
		error_set(ret, "submitting to queue %#x", queue->handle);
	else if (ret == -EAGAIN)
		error_set(ret, "%u tasks are in flight, or the arena is full", ax->ring.depth);
	return ret;
}

static inline int submit_one(struct arax_queue *q, const struct arax_desc *d)
{
	int ret = arax_submit(q, d, 1, 0);

	return ret < 0 ? ret : 0;
}

int arax_launch(struct arax_queue *queue, const struct arax_kernel *kernel,
		struct arax_grid grid, const void *args, size_t arg_len,
		const struct arax_range *ranges, size_t nr_ranges, struct arax_event *event)
{
	struct arax_desc d = {
		.opcode = ARAX_OP_LAUNCH,
		.kernel = kernel,
		.grid = grid,
		.args = args,
		.arg_len = arg_len,
		.ranges = ranges,
		.nr_ranges = nr_ranges,
		.event = event,
	};

	return submit_one(queue, &d);
}

int arax_copy(struct arax_queue *queue, struct arax_range to, struct arax_range from,
	      struct arax_event *event)
{
	struct arax_range ranges[2] = { from, to };
	struct arax_desc d = {
		.opcode = ARAX_OP_COPY,
		.ranges = ranges,
		.nr_ranges = 2,
		.event = event,
	};

	ranges[0].access = ARAX_IN;
	ranges[1].access = ARAX_OUT;
	return submit_one(queue, &d);
}

int arax_fill(struct arax_queue *queue, struct arax_range to, const void *pattern,
	      size_t pattern_len, struct arax_event *event)
{
	struct arax_desc d = {
		.opcode = ARAX_OP_FILL,
		.args = pattern,
		.arg_len = pattern_len,
		.ranges = &to,
		.nr_ranges = 1,
		.event = event,
	};

	if (!pattern_len || pattern_len > 16 || (pattern_len & (pattern_len - 1)))
		return error_set(-EINVAL, "a pattern of %zu bytes: want 1, 2, 4, 8 or 16",
				 pattern_len);
	to.access = ARAX_OUT;
	return submit_one(queue, &d);
}

int arax_marker(struct arax_queue *queue, struct arax_event *event)
{
	struct arax_desc d = {
		.opcode = ARAX_OP_MARKER,
		.flags = ARAX_TASK_BARRIER,
		.event = event,
	};

	return submit_one(queue, &d);
}

int arax_call(struct arax_queue *queue, uint32_t service, const void *args, size_t arg_len,
	      const struct arax_range *ranges, size_t nr_ranges, struct arax_event *event)
{
	struct arax_desc d = {
		.opcode = ARAX_OP_CALL,
		.service = service,
		.args = args,
		.arg_len = arg_len,
		.ranges = ranges,
		.nr_ranges = nr_ranges,
		.event = event,
	};

	return submit_one(queue, &d);
}

int arax_cancel(struct arax_event *event)
{
	struct arax_cancel a = { .size = sizeof(a), .user_data = event->ticket };
	int ret;

	if (load_acquire(&event->state) == EVENT_UNUSED)
		return error_set(-EINVAL, "canceling an event that was never submitted");
	if (arax_event_done(event))
		return 0;
	/* Should it end meanwhile: nobody else has its generation of the ticket. */
	ret = context_call(event->ax, "canceling a task", ARAX_NR_CANCEL, &a);
	return ret ? ret : a.nr_canceled != 0;
}
