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

static int check_range(const struct arax_range *r, const struct core_buffer *buf)
{
	u64 rows, end;

	/* One row: nearly all. */
	if (core_likely(r->count == 1 && !r->stride && r->access - 1 < ARAX_INOUT))
		return check_add_overflow(r->offset, r->length, &end) || end > buf->bytes ?
		       -EINVAL : 0;
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

static int add_task_range(struct core_client *c, struct core_task *t, u32 i,
		     const struct arax_range *r)
{
	struct core_buffer *buf = core_handle_find(&c->handles, CORE_BUFFER, r->buffer);
	struct arax_dispatch_range *x;
	int err;

	if (!buf)
		return -EBADF;
	err = check_range(r, buf);
	if (err)
		return err;
	t->buffers[i] = buf;
	x = &t->ranges[i];
	x->buffer = buf->id;
	x->offset = r->offset;
	x->length = r->length;
	x->stride = r->stride;
	x->count = r->count;
	t->d.access |= (u64)r->access << (2 * i);
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

static int check_opcode(struct core *core, const struct core_task *t)
{
	const struct arax_dispatch *d = &t->d;

	switch (d->opcode) {
	case ARAX_OP_LAUNCH:
		return check_launch(core, t);
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

/* Room for more ranges or arguments than the task itself holds. */
static int make_room(struct core_task *t, u32 nr, u32 arg_len)
{
	size_t n;
	u8 *p;

	t->buffers = t->inline_buffers;
	t->ranges = t->inline_ranges;
	t->args = t->d.args;
	t->big = NULL;
	if (nr <= 2 && arg_len <= ARAX_INLINE_ARGS)
		return 0;
	/* The first word links the allocation into a core_garbage. */
	n = sizeof(void *) + nr * (sizeof(*t->ranges) + sizeof(*t->buffers)) + arg_len;
	p = core_alloc(n + sizeof(u64));
	if (!p)
		return -ENOMEM;
	t->big = p;
	p += sizeof(u64);
	t->ranges = (void *)p;
	t->buffers = (void *)(t->ranges + nr);
	if (arg_len > ARAX_INLINE_ARGS)
		t->args = (void *)(t->buffers + nr);
	return 0;
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

/*
 * Fills the task from the private copy of its entry; takes no references yet.  What
 * it allocated is refuse()'s to free.
 */
static int prepare(struct core_client *c, struct core_task *t, const struct arax_task256 *e)
{
	const struct arax_task *b = &e->base;
	struct arax_task_ext x = { 0 };
	const u8 *arena = c->region + c->layout.arena_offset;
	u32 i, nr, pos = 0, inline_max = c->entry_size == 128 ? 2 : 6;
	u32 arg_len = b->arg_len;
	int err = 0, handle_err = 0;

	t->big = NULL;
	t->wait = NULL;
	t->signal = NULL;
	/* Even if it is refused: others may depend on it. */
	t->queue = core_handle_find(&c->handles, CORE_QUEUE, b->queue);
	t->barrier = b->flags & ARAX_TASK_BARRIER;
	t->ranged = false;
	if (b->flags & ~ARAX_TASK_FLAGS)
		return -EOPNOTSUPP;
	if (b->nr_ranges > inline_max || arg_len > ARAX_INLINE_ARGS)
		return -EINVAL;
	if (!t->queue)
		return -EBADF;
	nr = b->nr_ranges;
	if (b->flags & ARAX_TASK_EXT) {
		pos = b->ext;
		if (pos & 7 || c->arena_size < sizeof(x) || pos > c->arena_size - sizeof(x))
			return -EINVAL;
		pos = (u32)core_nospec(pos, c->arena_size);
		copy_once(&x, arena + pos, sizeof(x));
		pos += sizeof(x);
		if (x.size != sizeof(x))
			return x.size < sizeof(x) ? -EINVAL : -E2BIG;
		nr += x.nr_ranges;
		if (nr > ARAX_MAX_RANGES || x.arg_len > ARAX_MAX_ARGS || (x.arg_len && arg_len))
			return -EINVAL;
		if (x.nr_ranges * (u32)sizeof(struct arax_range) + x.arg_len > c->arena_size - pos)
			return -EINVAL;
		if (x.pad)
			return -EINVAL;
		if (x.arg_len)
			arg_len = x.arg_len;
	}
	err = make_room(t, nr, arg_len);
	if (err)
		return err;

	memset(&t->d, 0, sizeof(t->d));
	t->d.type = ARAX_DISPATCH_TASK;
	t->d.opcode = b->opcode;
	t->d.nr_ranges = (u8)nr;
	t->d.flags = b->flags & ~ARAX_TASK_EXT;
	t->d.arg_len = (u16)arg_len;
	t->d.kernel = b->kernel;
	t->d.context = c->id;
	t->d.uid = c->uid;
	t->d.gid = c->gid;
	t->d.known = b->flags & ARAX_TASK_EXT ? x.known : b->known;
	t->d.tenant = c->tenant->id;
	t->d.queue = t->queue->handle;
	t->d.queue_flags = (u8)t->queue->flags;
	t->d.priority = t->queue->priority;
	t->d.user_data = b->user_data;
	t->d.deadline_ns = x.deadline_ns == ARAX_DEADLINE_NONE ? 0 : x.deadline_ns;
	for (i = 0; i < 3; i++) {
		t->d.grid[i] = b->grid[i];
		t->d.block[i] = b->block[i];
	}
	if (b->flags & ARAX_TASK_EXT) {
		t->wait = find_timeline(c, x.wait_timeline, &handle_err);
		t->signal = find_timeline(c, x.signal_timeline, &handle_err);
		t->wait_value = x.wait_value;
		t->signal_value = x.signal_value;
	}
	for (i = 0; i < b->nr_ranges && !err; i++)
		err = add_task_range(c, t, i, i < 2 ? &b->ranges[i] : &e->more[i - 2]);
	for (; i < nr && !err; i++) {
		struct arax_range r;

		copy_once(&r, arena + pos, sizeof(r));
		pos += sizeof(r);
		err = add_task_range(c, t, i, &r);
	}
	if (err)
		return err;
	t->ranged = true;
	if (x.arg_len)
		copy_once(t->args, arena + pos, x.arg_len);
	else
		memcpy(t->args, b->args, arg_len);
	return handle_err ? handle_err : check_opcode(c->core, t);
}

/* Under core->dispatch: what may have changed since prepare() looked. */
static int recheck(struct core_task *t)
{
	bool lost = false;
	u32 i;

	for (i = 0; i < t->d.nr_ranges; i++) {
		if (t->buffers[i]->revoked)
			return -ESTALE;
		lost |= t->buffers[i]->nr_lost != 0;
	}
	/* What comes while its client is being settled is judged now, like the others. */
	if (!lost || (t->client->core->state == CORE_QUIESCED && clist_empty(&t->client->exam)))
		return 0;
	if (core_reads_lost(t))
		return -EIO;
	core_promise(t);
	return 0;
}

static void take_references(struct core_task *t)
{
	u32 i;

	for (i = 0; i < t->d.nr_ranges; i++)
		t->buffers[i]->users++;
	t->queue->tasks++;
	if (t->signal)
		t->signal->refs++;
	t->blocked = false;
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

static void refuse(struct core_client *c, const struct prepared *p, s32 error,
		   struct core_garbage *g)
{
	struct core_task *t = p->task;
	struct core_result r = { .result = error, .device = ~0u, .origin = t->origin };

	if (t->big) {
		*(void **)t->big = g->bigs;
		g->bigs = t->big;
		t->big = NULL;
	}
	if (t->promised)
		core_unpromise(t);
	/* Whoever waits for it would wait for ever. */
	if (t->signal)
		core_timeline_reach(c->core, t->signal, t->signal_value, error, g);
	clist_add_tail(&t->node, &c->freed);
	core_post(c, p->user_data, t->d.tag, &r, g);
}

/*
 * Credit: entries consumed and not yet taken off the completion ring.  The
 * client's head is only believed as far as we have posted.
 */
static bool have_credit(struct core_client *c, bool *corrupt)
{
	u32 used = c->submitted - core_read_once(c->silent) - c->cq_seen, head;

	if (used < c->depth)
		return true;
	/* Pairs with the client's release store after it has read entries. */
	head = core_load_acquire(&core_ctl(c)->cq_head);
	if (head - c->cq_seen > core_read_once(c->cq_tail) - c->cq_seen) {
		*corrupt = true;
		return false;
	}
	c->cq_seen = head;
	return c->submitted - core_read_once(c->silent) - head < c->depth;
}

static struct core_task *take_free(struct core_client *c)
{
	struct core_task *t;

	if (clist_empty(&c->free)) {
		core_spin_lock(&c->core->dispatch);
		clist_splice_tail(&c->freed, &c->free);
		core_spin_unlock(&c->core->dispatch);
		if (clist_empty(&c->free))
			return NULL;
	}
	t = clist_first(&c->free, struct core_task, node);
	clist_del(&t->node);
	return t;
}

/*
 * The entries behind this one are probably there already: their lines are still the
 * client's, and come while this one is being checked.
 */
static void prefetch_entry(const struct core_client *c, u32 ahead)
{
	const u8 *slot = c->region + c->layout.sq_offset +
			 (size_t)((c->sq_head + ahead) & (c->depth - 1)) * c->entry_size;

	__builtin_prefetch(slot);
	__builtin_prefetch(slot + 64);
}

static u32 gather(struct core_client *c, struct prepared *p, u32 max, bool *corrupt, int *why)
{
	struct arax_task256 e;
	const u8 *slot;
	struct core_task *t;
	u32 n;

	for (n = 0; n < max; n++) {
		if (!core_submit_ready(c)) {
			*why = -EINVAL;
			break;
		}
		if (!have_credit(c, corrupt)) {
			*why = -EAGAIN;
			break;
		}
		t = take_free(c);
		if (!t) {
			*why = -EAGAIN;
			break;
		}
		prefetch_entry(c, 2);
		slot = c->region + c->layout.sq_offset +
		       (size_t)(c->sq_head & (c->depth - 1)) * c->entry_size;
		/* By constants: the compiler knows how to copy those. */
		if (c->entry_size == sizeof(e.base))
			copy_once(&e, slot, sizeof(e.base));
		else
			copy_once(&e, slot, sizeof(e));
		c->sq_head++;
		c->submitted++;
		p[n].task = t;
		p[n].user_data = e.base.user_data;
		p[n].refused = false;
		p[n].error = prepare(c, t, &e);
	}
	return n;
}

/*
 * Refused tasks get their tags, and fail who comes behind and depends on them.
 * @reach: else only marks are left, by those whose charge was refused: all behind
 * the first of them were refused as well.
 */
static void refuse_dependents(struct core_client *c, struct prepared *p, u32 n, bool reach)
{
	u64 pos = c->refusals.at;
	u32 i;

	for (i = 0; i < n; i++, pos++) {
		struct core_task *t = p[i].task;

		if (p[i].refused)
			continue;
		if (!p[i].error) {
			if (!reach || !core_refusal_reaches(c, t, pos))
				continue;
			p[i].error = -ECANCELED;
			core_tag_undispatched(c->core, t);
		} else {
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
	u32 i, good = 0;

	for (i = 0; i < n; i++) {
		if (!p[i].error)
			p[i].error = c->dead ? -(s32)c->dead : recheck(p[i].task);
		good += !p[i].error;
	}
	if (good < n || marks) {
		refuse_dependents(c, p, n, true);
		for (i = 0, good = 0; i < n; i++)
			good += !p[i].error;
	}
	if (!charge(c, p, n, good)) {
		refuse_dependents(c, p, n, false);
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

/* Returns false if the refusals are not closed yet. */
static bool enqueue(struct core_client *c, struct prepared *p, u32 n, struct core_garbage *g)
{
	struct core *core = c->core;
	/* Once a batch: the clock costs as much as a task. */
	u64 now = core->ops->now ? core->ops->now(core) : core_now_ns();
	bool all = admit(c, p, n), looked = true;
	u32 i;

	for (i = 0; i < n; i++) {
		struct core_task *t = p[i].task;

		if (p[i].error) {
			refuse(c, &p[i], p[i].error, g);
			continue;
		}
		t->d.submit_ns = now;
		if (t->queue->target_ns && !t->d.deadline_ns) {
			t->d.deadline_ns = now + t->queue->target_ns;
			t->d.flags |= ARAX_DISPATCH_TARGET;
		}
		take_references(t);
		if (++c->nr_tasks > c->peak_tasks)
			c->peak_tasks = c->nr_tasks;
		core_dispatch_queue(core, t, g);
	}
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
	if (!all || core_has_queued(c))
		core_dispatch_flush(core, g);
	return looked;
}

int core_submit(struct core_client *c, u32 max)
{
	struct core *core = c->core;
	struct prepared p[BATCH];
	struct core_garbage g;
	bool corrupt = false, closed;
	u32 done = 0, n, want;
	int why = 0;

	core_mutex_lock(&c->lock);
	if (!c->ready) {
		core_mutex_unlock(&c->lock);
		return -ENXIO;
	}
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
			closed = enqueue(c, p, n, &g);
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
	core_mutex_unlock(&c->lock);
	if (corrupt) {
		core_client_kill(c, EPIPE);
		return -EPIPE;
	}
	return done ? (int)done : why;
}
