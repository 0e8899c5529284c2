// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Submission: entries are copied once out of the client's ring, the copy is
 * checked, handles become references, the tenant is charged, and the task goes
 * to the dispatch ring.  A batch pays for locks and charges once.
 */
#include "core.h"

#define BATCH	32

/* What the copy of an entry became. */
struct prepared {
	struct core_task *task;
	u64 user_data;
	s32 error;
	bool refused;		/* and has its tag: those behind it know */
};

/* The compiler may not go back to the shared memory after this. */
static inline void copy_once(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
	__asm__ volatile("" : : "r"(dst) : "memory");
}

static __always_inline int check_range(const struct arax_range *r, const struct core_buffer *buf)
{
	u64 rows, end;

	/* One row: nearly all. */
	if (core_likely(!((r->count ^ 1) | r->stride) && r->access - 1 < ARAX_INOUT))
		return r->offset > buf->bytes || r->length > buf->bytes - r->offset ? -EINVAL : 0;
	if (r->access < ARAX_IN || r->access > ARAX_INOUT || !r->count)
		return -EINVAL;
	if (r->count > 1 ? r->stride < r->length : r->stride != 0)
		return -EINVAL;
	if (check_mul_overflow((u64)(r->count - 1), (u64)r->stride, &rows) ||
	    check_add_overflow(rows, r->length, &end) ||
	    check_add_overflow(end, r->offset, &end) || end > buf->bytes)
		return -EINVAL;
	return 0;
}

static inline int add_task_range(struct core_client *c, struct core_task *t, u32 i,
				 const struct arax_range *r, u64 *access)
{
	struct core_buffer *buf = core_handle_find(&c->handles, CORE_BUFFER, r->buffer);
	struct arax_dispatch_range *x = &t->ranges[i];
	int err;

	if (!buf)
		return -EBADF;
	err = check_range(r, buf);
	if (err)
		return err;
	t->buffers[i] = buf;
	x->buffer = buf->id;
	x->offset = r->offset;
	x->length = r->length;
	x->stride = r->stride;
	x->count = r->count;
	*access |= (u64)r->access << (2 * i);
	return 0;
}

static int check_geometry(const struct core_task *t)
{
	u64 n = 1;
	u32 i;

	/* One dimension of single items: nothing to multiply. */
	if (t->d.grid[0] && t->d.grid[1] == 1 && t->d.grid[2] == 1 && t->d.block[0] == 1 &&
	    t->d.block[1] == 1 && t->d.block[2] == 1)
		return 0;
	for (i = 0; i < 3; i++) {
		if (!t->d.grid[i] || !t->d.block[i])
			return -EINVAL;
		if (check_mul_overflow(n, (u64)t->d.grid[i] * t->d.block[i], &n))
			return -EINVAL;
	}
	return n >> 63 ? -EINVAL : 0;
}

static int check_launch(struct core *core, const struct core_task *t)
{
	const struct core_kernel *k;

	/* What its signature is only the mediator knows. */
	if (t->d.kernel & ARAX_KERNEL_OWN)
		return check_geometry(t);
	k = core_kernel_find(core, t->d.kernel);
	if (!k || !core_read_once(k->kinds))
		return -ENOENT;
	if (k->sig.nr_ranges != t->d.nr_ranges || k->sig.arg_len != t->d.arg_len ||
	    k->sig.access != t->d.access)
		return -EINVAL;
	return check_geometry(t);
}

static u64 range_bytes(const struct arax_dispatch_range *r)
{
	return r->length * r->count;	/* check_range() bounds it by the buffer */
}

static inline int check_opcode(struct core *core, const struct core_task *t)
{
	const struct arax_dispatch *d = &t->d;

	if (core_likely(d->opcode == ARAX_OP_LAUNCH))
		return check_launch(core, t);
	switch (d->opcode) {
	case ARAX_OP_COPY:
		if (d->nr_ranges != 2 || d->access != (ARAX_IN | ARAX_OUT << 2) || d->arg_len ||
		    range_bytes(&t->ranges[0]) != range_bytes(&t->ranges[1]))
			return -EINVAL;
		return 0;
	case ARAX_OP_FILL:
		if (d->nr_ranges != 1 || d->access != ARAX_OUT || !d->arg_len ||
		    d->arg_len > 16 || d->arg_len & (d->arg_len - 1) ||
		    t->ranges[0].length & (d->arg_len - 1))
			return -EINVAL;
		return 0;
	case ARAX_OP_MARKER:
		return d->arg_len ? -EINVAL : 0;
	case ARAX_OP_CALL:
		return 0;
	}
	return -EOPNOTSUPP;
}

/* The place's next task needs more. */
static void leave_room(struct core_client *c, struct core_task *t)
{
	struct core_room *room = t->big;

	room->next_spare = c->spare_rooms;
	c->spare_rooms = room;
	t->big = NULL;
	t->roomy = false;
}

static struct core_room *take_room(struct core_client *c)
{
	struct core_room *room = c->spare_rooms;

	if (room) {
		c->spare_rooms = room->next_spare;
		return room;
	}
	room = core_alloc(sizeof(*room));
	if (room) {
		room->next = c->rooms;
		c->rooms = room;
	}
	return room;
}

static u8 *find_room(struct core_client *c, struct core_task *t, size_t n)
{
	if (n > CORE_ROOM) {
		if (t->roomy)
			leave_room(c, t);
		/* The first word links the allocation into a core_garbage. */
		t->big = core_alloc(sizeof(u64) + n);
		return t->big ? (u8 *)t->big + sizeof(u64) : NULL;
	}
	if (!t->roomy) {
		t->big = take_room(c);
		t->roomy = t->big;
	}
	return t->roomy ? ((struct core_room *)t->big)->bytes : NULL;
}

/* Room for more ranges or arguments than the task itself holds. */
static inline int make_room(struct core_client *c, struct core_task *t, u32 nr, u32 arg_len)
{
	u32 args = arg_len > ARAX_INLINE_ARGS ? arg_len : 0;
	u8 *p;

	t->buffers = t->inline_buffers;
	t->ranges = t->inline_ranges;
	t->args = t->d.args;
	if (nr <= 2 && !args)
		return 0;
	p = find_room(c, t, nr * (sizeof(*t->ranges) + sizeof(*t->buffers)) + args);
	if (!p)
		return -ENOMEM;
	t->ranges = (void *)p;
	t->buffers = (void *)(t->ranges + nr);
	if (args)
		t->args = (void *)(t->buffers + nr);
	return 0;
}

/* Mostly the one that the last task was submitted to. */
static inline struct core_queue *find_queue(struct core_client *c, u32 handle)
{
	struct core_queue *q = c->last_queue;

	if (core_likely(q && q->handle == handle))
		return q;
	q = core_handle_find(&c->handles, CORE_QUEUE, handle);
	c->last_queue = q;
	return q;
}

static struct core_timeline *find_timeline(struct core_client *c, u32 handle, int *err)
{
	struct core_timeline *tl;

	if (!handle)
		return NULL;
	tl = core_handle_find(&c->handles, CORE_TIMELINE, handle);
	if (!tl)
		*err = -EBADF;
	return tl;
}

/* What holds for all that the client submits to this queue. */
static inline void fill_origin(const struct core_client *c, struct core_task *t)
{
	const struct core_queue *q = t->queue;

	t->d.type = ARAX_DISPATCH_TASK;
	t->d.tag = 0;
	t->d.tenant = c->tenant->id;
	t->d.context = c->id;
	t->d.queue = q->handle;
	t->d.queue_flags = (u8)q->flags;
	t->d.deadline_ns = 0;
	t->d.uid = c->uid;
	t->d.priority = q->priority;
	t->d.error = 0;
	t->d.gid = c->gid;
}

static inline void fill_args(struct core_task *t, const u8 *args, u32 len)
{
	t->d.arg_len = (u16)len;
	/* By a constant where it is usual: the compiler knows how to copy that. */
	if (core_likely(len == sizeof(t->d.args))) {
		memcpy(t->d.args, args, sizeof(t->d.args));
	} else {
		memset(t->d.args, 0, sizeof(t->d.args));
		memcpy(t->d.args, args, len);
	}
}

/* What the entry says without its ranges. */
static inline void fill(const struct core_client *c, struct core_task *t,
			const struct arax_task *b)
{
	u32 i;

	fill_origin(c, t);
	t->d.opcode = b->opcode;
	t->d.kernel = b->kernel;
	t->d.flags = b->flags & ~ARAX_TASK_EXT;
	t->d.nr_ranges = b->nr_ranges;
	for (i = 0; i < 3; i++) {
		t->d.grid[i] = b->grid[i];
		t->d.block[i] = b->block[i];
	}
	t->d.user_data = b->user_data;
	t->d.known = b->known;
	fill_args(t, b->args, b->arg_len);
}

static inline int add_inline_ranges(struct core_client *c, struct core_task *t,
				    const struct arax_task256 *e)
{
	u32 i, n = e->base.nr_ranges;
	u64 access = 0;
	int err = 0;

	for (i = 0; i < n && i < 2 && core_likely(!err); i++)
		err = add_task_range(c, t, i, &e->base.ranges[i], &access);
	for (; i < n && !err; i++)
		err = add_task_range(c, t, i, &e->more[i - 2], &access);
	t->d.access = access;
	return err;
}

/* The same with what the entry does not hold itself. */
static core_noinline int prepare_ext(struct core_client *c, struct core_task *t,
				     const struct arax_task256 *e)
{
	const struct arax_task *b = &e->base;
	const u8 *arena = c->region + c->layout.arena_offset;
	u32 i, nr = b->nr_ranges, pos = b->ext;
	struct arax_task_ext x;
	int err, handle_err = 0;
	u64 access;

	if (pos & 7 || c->arena_size < sizeof(x) || pos > c->arena_size - sizeof(x))
		return -EINVAL;
	pos = (u32)core_nospec(pos, c->arena_size);
	copy_once(&x, arena + pos, sizeof(x));
	pos += sizeof(x);
	if (x.size != sizeof(x))
		return x.size < sizeof(x) ? -EINVAL : -E2BIG;
	nr += x.nr_ranges;
	if (nr > ARAX_MAX_RANGES || x.arg_len > ARAX_MAX_ARGS || (x.arg_len && b->arg_len))
		return -EINVAL;
	if (x.nr_ranges * (u32)sizeof(struct arax_range) + x.arg_len > c->arena_size - pos)
		return -EINVAL;
	if (x.pad)
		return -EINVAL;
	err = make_room(c, t, nr, x.arg_len ? x.arg_len : b->arg_len);
	if (err)
		return err;
	fill(c, t, b);
	t->d.nr_ranges = (u8)nr;
	t->d.known = x.known;
	if (x.arg_len)
		t->d.arg_len = x.arg_len;
	if (x.deadline_ns != ARAX_DEADLINE_NONE)
		t->d.deadline_ns = x.deadline_ns;
	t->wait = find_timeline(c, x.wait_timeline, &handle_err);
	t->signal = find_timeline(c, x.signal_timeline, &handle_err);
	t->wait_value = x.wait_value;
	t->signal_value = x.signal_value;
	err = add_inline_ranges(c, t, e);
	access = t->d.access;
	for (i = b->nr_ranges; i < nr && !err; i++) {
		struct arax_range r;

		copy_once(&r, arena + pos, sizeof(r));
		pos += sizeof(r);
		err = add_task_range(c, t, i, &r, &access);
	}
	t->d.access = access;
	if (err)
		return err;
	t->ranged = true;
	if (x.arg_len)
		copy_once(t->args, arena + pos, x.arg_len);
	return handle_err ? handle_err : check_opcode(c->core, t);
}

static inline int add_short_ranges(struct core_client *c, struct core_task *t,
				   const struct arax_task_short *s)
{
	u32 i;

	for (i = 0; i < s->nr_ranges; i++) {
		struct core_buffer *buf = core_handle_find(&c->handles, CORE_BUFFER, s->buffer[i]);
		struct arax_dispatch_range *x = &t->ranges[i];

		if (!buf)
			return -EBADF;
		if (s->length[i] > buf->bytes)
			return -EINVAL;
		t->buffers[i] = buf;
		x->buffer = buf->id;
		x->offset = 0;
		x->length = s->length[i];
		x->stride = 0;
		x->count = 1;
	}
	for (; i < 2; i++)
		if (s->buffer[i] | s->length[i])
			return -EINVAL;
	return 0;
}

/*
 * An entry of one line.  Which bytes it reads and writes only the signature says: where
 * there is none, it counts as a writer of all, as it does without a good handle.
 */
static inline int prepare_short(struct core_client *c, struct core_task *t,
				const struct arax_task_short *s)
{
	const struct core_kernel *k;
	u32 i;
	int err;

	if (s->opcode != ARAX_OP_LAUNCH || s->flags & ARAX_TASK_EXT || s->nr_ranges > 2 ||
	    s->kernel & ARAX_KERNEL_OWN)
		return -EINVAL;
	k = core_kernel_find(c->core, s->kernel);
	if (!k || !core_read_once(k->kinds))
		return -ENOENT;
	if (k->sig.nr_ranges != s->nr_ranges || k->sig.arg_len > ARAX_INLINE_ARGS || !s->grid)
		return -EINVAL;
	fill_origin(c, t);
	t->d.opcode = ARAX_OP_LAUNCH;
	t->d.kernel = s->kernel;
	t->d.flags = s->flags & ~ARAX_TASK_SHORT;
	t->d.nr_ranges = s->nr_ranges;
	t->d.access = k->sig.access;
	for (i = 0; i < 3; i++) {
		t->d.grid[i] = 1;
		t->d.block[i] = 1;
	}
	t->d.grid[0] = s->grid;
	t->d.user_data = s->user_data;
	t->d.known = s->known;
	fill_args(t, s->args, k->sig.arg_len);
	err = make_room(c, t, s->nr_ranges, k->sig.arg_len);
	if (!err)
		err = add_short_ranges(c, t, s);
	t->ranged = !err;
	return err;
}

static inline int prepare_full(struct core_client *c, struct core_task *t,
			       const struct arax_task256 *e)
{
	const struct arax_task *b = &e->base;
	int err;

	if (b->nr_ranges > 2 && (c->entry_size == 128 || b->nr_ranges > 6))
		return -EINVAL;
	if (b->arg_len > ARAX_INLINE_ARGS)
		return -EINVAL;
	if (!t->queue)
		return -EBADF;
	if (b->flags & ARAX_TASK_EXT)
		return prepare_ext(c, t, e);
	err = make_room(c, t, b->nr_ranges, b->arg_len);
	if (err)
		return err;
	fill(c, t, b);
	err = add_inline_ranges(c, t, e);
	if (err)
		return err;
	t->ranged = true;
	return check_opcode(c->core, t);
}

/* The private copy of an entry.  Both forms begin alike. */
union entry {
	struct arax_task256 full;
	struct arax_task_short brief;
};

#define LINE	sizeof(struct arax_task_short)

/*
 * Copies the entry of @slot, its first line first: it says whether there is more.  By
 * constants: the compiler knows how to copy those.
 */
static inline void copy_entry(union entry *e, const u8 *slot, u32 size)
{
	u8 *to = (u8 *)e;

	copy_once(to, slot, LINE);
	if (e->brief.flags & ARAX_TASK_SHORT)
		return;
	if (core_likely(size == sizeof(struct arax_task)))
		copy_once(to + LINE, slot + LINE, sizeof(struct arax_task) - LINE);
	else
		copy_once(to + LINE, slot + LINE, sizeof(struct arax_task256) - LINE);
}

/*
 * Fills the task from the private copy of its entry; takes no references yet.  What
 * it allocated is refuse()'s to free.
 */
static inline int prepare(struct core_client *c, struct core_task *t, const union entry *e)
{
	const struct arax_task_short *s = &e->brief;

	t->wait = NULL;
	t->signal = NULL;
	t->ranged = false;
	/* Even if it is refused: others may depend on it. */
	t->d.flags = s->flags;
	t->queue = find_queue(c, s->queue);
	if (s->flags & ~ARAX_TASK_FLAGS)
		return -EOPNOTSUPP;
	if (!(s->flags & ARAX_TASK_SHORT))
		return prepare_full(c, t, &e->full);
	return t->queue ? prepare_short(c, t, s) : -EBADF;
}

static bool touches_lost(const struct core_task *t)
{
	u32 i;

	for (i = 0; i < t->d.nr_ranges; i++)
		if (t->buffers[i]->nr_lost)
			return true;
	return false;
}

/* Some bytes of its buffers may have died with a mediator. */
static int judge_lost(struct core_task *t)
{
	const struct core_client *c = t->client;

	/* settle() is still to come, or under way: behind all that were before it. */
	if (!touches_lost(t) ||
	    (c->core->state == CORE_QUIESCED && (!c->judged || !clist_empty(&c->exam))))
		return 0;
	if (core_reads_lost(t))
		return -EIO;
	core_promise(t);
	return 0;
}

/* Under core->dispatch: what may have changed since prepare() looked. */
static inline int recheck(struct core_task *t, u32 *lost)
{
	struct core_buffer **b = t->buffers, **end = b + t->d.nr_ranges;

	for (; b < end; b++) {
		if ((*b)->revoked)
			return -ESTALE;
		*lost |= (*b)->nr_lost;
	}
	return 0;
}

static inline void take_references(struct core_task *t)
{
	struct core_buffer **b = t->buffers, **end = b + t->d.nr_ranges;

	for (; b < end; b++)
		(*b)->users++;
	t->queue->tasks++;
	t->blocked = false;
	if (t->signal)
		t->signal->refs++;
	if (!t->wait)
		return;
	t->wait->refs++;
	if (t->wait->error) {
		t->d.error = t->wait->error;
	} else if (t->wait->value < t->wait_value) {
		t->blocked = true;
		cheap_insert(&t->wait->tasks, &t->tl_node, t->wait_value);
	}
}

static void throw_big(struct core_task *t, struct core_garbage *g)
{
	if (!t->big || t->roomy)
		return;
	*(void **)t->big = g->bigs;
	g->bigs = t->big;
	t->big = NULL;
}

static void refuse(struct core_client *c, const struct prepared *p, s32 error,
		   struct core_garbage *g)
{
	struct core_task *t = p->task;
	struct core_result r = { .result = error, .device = ~0u, .origin = t->origin };

	throw_big(t, g);
	if (t->promised)
		core_unpromise(t);
	/* Whoever waits for it would wait for ever. */
	if (t->signal)
		core_timeline_reach(c->core, t->signal, t->signal_value, error, g);
	clist_add_tail(&t->node, &c->freed);
	core_post(c, p->user_data, t->d.tag, &r, g);
}

/*
 * Credit: entries that may be consumed before completions are taken off their ring.
 * The client's head is only believed as far as we have posted.
 */
static u32 credit(struct core_client *c, bool *corrupt)
{
	u32 consumed = c->submitted - core_read_once(c->silent), head;

	if (consumed - c->cq_seen < c->depth)
		return c->depth - (consumed - c->cq_seen);
	/* Pairs with the client's release store after it has read entries. */
	head = core_load_acquire(&core_ctl(c)->cq_head);
	if (head - c->cq_seen > core_read_once(c->cq_tail) - c->cq_seen) {
		*corrupt = true;
		return 0;
	}
	c->cq_seen = head;
	return consumed - head < c->depth ? c->depth - (consumed - head) : 0;
}

static struct core_task *take_free(struct core_client *c)
{
	struct core_task *t;

	if (clist_empty(&c->free)) {
		core_spin_lock(&c->core->dispatch);
		clist_splice_tail(&c->freed, &c->free);
		core_spin_unlock(&c->core->dispatch);
		if (clist_empty(&c->free))
			core_client_begin_tasks(c);
		if (clist_empty(&c->free))
			return NULL;
	}
	t = clist_first(&c->free, struct core_task, node);
	clist_del(&t->node);
	return t;
}

static u32 gather(struct core_client *c, struct prepared *p, u32 max, bool *corrupt, int *why)
{
	const u8 *sq = c->region + c->layout.sq_offset;
	const u32 mask = c->depth - 1, size = c->entry_size;
	u32 n, pos = c->sq_head, room = 0;
	union entry e;

	for (n = 0; n < max; n++, pos++) {
		const u8 *slot = sq + (size_t)(pos & mask) * size;
		const u8 *ahead = sq + (size_t)((pos + 2) & mask) * size;
		struct core_task *t;

		/* Pairs with the client's release when it publishes the entry. */
		if (core_load_acquire(&((const struct arax_task *)slot)->seq) != pos + 1) {
			*why = -EINVAL;
			break;
		}
		if (n >= room) {
			c->submitted += n;
			room += credit(c, corrupt);
			c->submitted -= n;
		}
		t = n < room ? take_free(c) : NULL;
		if (!t) {
			*why = -EAGAIN;
			break;
		}
		/*
		 * The entries behind this one are probably there already: their lines are
		 * still the client's, and come while this one is being checked.
		 */
		__builtin_prefetch(ahead);
		__builtin_prefetch(ahead + 64);
		copy_entry(&e, slot, size);
		p[n].task = t;
		p[n].user_data = e.brief.user_data;
		p[n].refused = false;
		p[n].error = prepare(c, t, &e);
	}
	/* Read in core_orphan(). */
	core_write_once(c->sq_head, pos);
	c->submitted += n;
	return n;
}

/*
 * Refused tasks get their tags, and fail who comes behind and depends on them.
 * @reach: else only marks are left, by those whose charge was refused: all behind
 * the first of them were refused as well.
 * @lost: some have buffers of which bytes are lost.  They are judged here, each when it is known
 * that those before it go on: one that is refused rewrites nothing.
 */
static core_cold void refuse_dependents(struct core_client *c, struct prepared *p, u32 n,
					bool reach, bool lost)
{
	u64 pos = c->refusals.at;
	u32 i;

	for (i = 0; i < n; i++, pos++) {
		struct core_task *t = p[i].task;

		if (p[i].refused)
			continue;
		if (!p[i].error && reach && core_refusal_reaches(c, t, pos)) {
			p[i].error = -ECANCELED;
			core_tag_undispatched(c->core, t);
		} else {
			if (!p[i].error && lost)
				p[i].error = judge_lost(t);
			if (!p[i].error)
				continue;
			t->origin = 0;
			core_tag_undispatched(c->core, t);
			core_refusal_add(c, t, pos);
		}
		p[i].refused = true;
	}
}

/* Charges the good ones of a batch, as many as fit: the first ones. */
static bool charge(struct core_client *c, struct prepared *p, u32 n, u32 good)
{
	u32 i, fit = core_charge_tasks(c->core, c->tenant, c->user, good);

	if (fit == good)
		return true;
	for (i = 0; i < n; i++) {
		if (p[i].error)
			continue;
		if (fit)
			fit--;
		else
			p[i].error = -EDQUOT;
	}
	return false;
}

/* Which tasks of a batch go on?  Those are charged. */
static bool admit(struct core_client *c, struct prepared *p, u32 n)
{
	bool marks = core_refusals_hold(c, c->sq_head - n);
	u32 i, good = 0, lost = 0;

	for (i = 0; i < n; i++) {
		if (!p[i].error)
			p[i].error = c->dead ? -(s32)c->dead : recheck(p[i].task, &lost);
		good += !p[i].error;
	}
	if (good < n || marks || lost) {
		refuse_dependents(c, p, n, true, lost);
		for (i = 0, good = 0; i < n; i++)
			good += !p[i].error;
	}
	if (!charge(c, p, n, good)) {
		refuse_dependents(c, p, n, false, false);
		return false;
	}
	return good == n;
}

/* The refused ones of a batch have completed: what is published from now on may run. */
static void close_refusals(struct core_client *c, const struct prepared *p, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (p[i].refused && p[i].task->queue)
			core_refusals_close_queue(c, p[i].task->queue);
	core_refusals_close(c);
}

/*
 * What is queued while there is no mediator must not wait for ever: the time that
 * began when the last one died may be over already.  Before the first one nobody has
 * died, and who starts early waits.
 */
static void await_mediator(struct core *core)
{
	if (core->state == CORE_DETACHED && core->epoch && core->ops->recovery_begin)
		core->ops->recovery_begin(core);
}

static bool waits(const struct prepared *p)
{
	return !p->error && p->task->queue->flags & ARAX_QUEUE_WAIT;
}

/*
 * They waited for room when a mediator died.  What failed with it fails who depends on it as far as
 * that is here, and these may: so they end with it, as if they had begun.  What was published since
 * then waits on.
 */
static core_cold void fail_orphans(struct core_client *c, struct prepared *p, u32 n)
{
	u32 i, pos = c->sq_head - n;

	for (i = 0; i < n && (s32)(pos + i - c->orphans_end) < 0; i++)
		if (waits(&p[i]))
			p[i].error = -EOWNERDEAD;
	if ((s32)(c->sq_head - c->orphans_end) >= 0)
		core_write_once(c->orphaned, false);
}

/* The last ones of a batch go back, and are read anew. */
static core_cold void unread(struct core_client *c, struct prepared *p, u32 n,
			     struct core_garbage *g)
{
	u32 i;

	for (i = 0; i < n; i++) {
		throw_big(p[i].task, g);
		clist_add_tail(&p[i].task->node, &c->freed);
	}
	core_write_once(c->sq_head, c->sq_head - n);
	c->submitted -= n;
}

/*
 * How many of a batch one hold should have: whichever are refused, they reach no more points
 * than the last of them alone may.  The others are for the next one.
 */
static inline u32 within_points(const struct prepared *p, u32 n)
{
	u32 i, points = 0;

	for (i = 0; i < n && points < CORE_STEP_POINTS; i++)
		if (!core_likely(!p[i].task->signal))
			points += core_timeline_points(p[i].task->signal);
	return i;
}

/*
 * Of a queue that waits for room those that find none, and all behind them, are not consumed: they go
 * back unlooked at, and are read anew.  What is refused before that for lack of room is of others.
 * Returns how many are left.
 */
static core_cold u32 give_back(struct core_client *c, struct prepared *p, u32 n,
			       struct core_garbage *g)
{
	u32 i = core_room_for_tasks(c->tenant, c->user, n);

	while (i < n && !waits(&p[i]))
		i++;
	unread(c, p + i, n - i, g);
	core_write_once(c->awaits_room, i < n);
	return i;
}

/* Returns false if the refusals are not closed yet. */
static bool enqueue(struct core_client *c, struct prepared *p, u32 n, struct core_garbage *g)
{
	struct core *core = c->core;
	/* Once a batch: the clock costs as much as a task. */
	u64 now = core->ops->now ? core->ops->now(core) : core_now_ns();
	bool all = admit(c, p, n), is_free = core_dispatch_is_free(c), looked = true;
	u32 i;

	for (i = 0; i < n; i++) {
		struct core_task *t = p[i].task;

		if (p[i].error) {
			refuse(c, &p[i], p[i].error, g);
			is_free = core_dispatch_is_free(c);
			continue;
		}
		t->d.submit_ns = now;
		t->place = c->places + i;
		if (t->queue->target_ns && !t->d.deadline_ns) {
			t->d.deadline_ns = now + t->queue->target_ns;
			t->d.flags |= ARAX_DISPATCH_TARGET;
		}
		take_references(t);
		c->nr_tasks++;
		is_free = core_dispatch_queue(core, t, is_free, g);
	}
	c->places += n;
	if (c->peak_tasks < c->nr_tasks)
		c->peak_tasks = c->nr_tasks;
	if (!all && !c->dead) {
		/*
		 * Pairs with the client's acquire of a completion and its release
		 * of the next entry: we see all that came before it saw ours.
		 */
		core_full_barrier();
		looked = core_refusals_look(c, true);
		if (looked)
			close_refusals(c, p, n);
	}
	/* Those just used are in the cache. */
	clist_splice(&c->freed, &c->free);
	/* A refused task may have signalled; and whoever waits for room has a look. */
	if (!all || core_has_queued(c)) {
		core_dispatch_flush(core, g);
		if (core_has_queued(c))
			await_mediator(core);
	}
	return looked;
}

/* Or was, and the place has been used anew since. */
static bool was_published(const struct core_client *c, u32 pos)
{
	const struct arax_task *t = (const void *)(c->region + c->layout.sq_offset +
				     (size_t)(pos & (c->depth - 1)) * c->entry_size);

	/* Pairs with the client's release when it publishes the entry. */
	return (s32)(core_load_acquire(&t->seq) - (pos + 1)) >= 0;
}

/*
 * The first place from which on nothing is published.  They are in a row, unless a client harms itself,
 * and it may have as many as fit: too many to look at each here.
 */
static u32 end_of_published(const struct core_client *c)
{
	u32 pos = core_read_once(c->sq_head), least = 0, most = c->depth, middle;

	while (least < most) {
		middle = (least + most) / 2;
		if (was_published(c, pos + middle))
			least = middle + 1;
		else
			most = middle;
	}
	return pos + least;
}

void core_orphan(struct core_client *c)
{
	if (!core_read_once(c->awaits_room) || !c->region)
		return;
	c->orphans_end = end_of_published(c);
	core_write_once(c->orphaned, true);
}

/* With client->lock held.  Is all through that was there then? */
static core_cold void forget_orphans(struct core_client *c)
{
	core_spin_lock(&c->core->dispatch);
	if (!core_entry_ready(c, c->sq_head) || (s32)(c->sq_head - c->orphans_end) >= 0)
		core_write_once(c->orphaned, false);
	core_spin_unlock(&c->core->dispatch);
}

/* With client->lock held, which it gives back. */
static int submit_locked(struct core_client *c, u32 max)
{
	struct core *core = c->core;
	struct prepared p[BATCH];
	struct core_garbage g;
	bool corrupt = false, closed;
	u32 done = 0, n, want;
	int why = 0;

	if (!c->ready) {
		core_mutex_unlock(&c->lock);
		return -ENXIO;
	}
	if (core_awaits_room(c))
		why = -EAGAIN;
	/* No more can be published at once; who feeds it meanwhile calls again. */
	if (max > c->depth)
		max = c->depth;
	while (done < max && !why) {
		if (core_read_once(c->dead)) {
			why = -(int)core_read_once(c->dead);
			break;
		}
		want = max - done < BATCH ? max - done : BATCH;
		n = gather(c, p, want, &corrupt, &why);
		if (n) {
			core_garbage_init(&g);
			g.defer_wake = core->params.defers_wakes;
			core_spin_lock(&core->dispatch);
			want = within_points(p, n);
			if (!core_likely(want == n)) {
				unread(c, p + want, n - want, &g);
				n = want;
				/* The rest says anew why it is the last. */
				why = 0;
			}
			if (c->orphaned)
				fail_orphans(c, p, n);
			if (c->queues_wait && !c->dead)
				n = give_back(c, p, n, &g);
			if (n < want)
				why = -EAGAIN;
			closed = !n || enqueue(c, p, n, &g);
			core_unlock_collect(core, &g);
			if (!closed) {
				core_refusals_look(c, false);
				close_refusals(c, p, n);
			}
			/* Pairs with the client's acquire before it reuses a place. */
			core_store_release(&core_ctl(c)->sq_head, c->sq_head);
			done += n;
		}
		core_resched();
	}
	if (core_read_once(c->orphaned))
		forget_orphans(c);
	core_mutex_unlock(&c->lock);
	if (corrupt) {
		core_client_kill(c, EPIPE);
		return -EPIPE;
	}
	return done ? (int)done : why;
}

int core_submit(struct core_client *c, u32 max)
{
	core_mutex_lock(&c->lock);
	return submit_locked(c, max);
}

int core_submit_try(struct core_client *c, u32 max)
{
	return core_mutex_trylock(&c->lock) ? submit_locked(c, max) : -EBUSY;
}
