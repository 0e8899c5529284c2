// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Completion: the client's entry, its timeline, the books, the references. */
#include "core.h"

#define CHUNK	64	/* commits under one hold of core->dispatch */
#define GROUP	16	/* of them, posted together; a kernel stack is small */

static void put_completion(struct core_client *c, u32 pos, u64 user_data, u64 tag,
			   const struct core_result *r)
{
	struct arax_completion *e;

	e = (void *)(c->region + c->layout.cq_offset +
		     (size_t)(pos & (c->depth - 1)) * sizeof(*e));
	e->result = r->result;
	e->user_data = user_data;
	e->tag = tag;
	e->origin = r->origin;
	e->device_ns = r->device_ns;
	e->wait_ns = r->wait_ns;
	e->bytes = r->bytes;
	e->device = r->device;
	e->failure = r->failure;
	/* Pairs with the client's acquire when it polls for the entry. */
	core_store_release(&e->seq, pos + 1);
}

static void wake_later(struct core_client *c, struct core_garbage *g)
{
	if (clist_empty(&c->wake))
		clist_add_tail(&c->wake, &g->wake);
}

void core_post(struct core_client *c, u64 user_data, u64 tag, const struct core_result *r,
	       struct core_garbage *g)
{
	u32 pos = c->cq_tail;

	if (c->dead || !c->region)
		return;
	core_write_once(c->cq_tail, pos + 1);
	put_completion(c, pos, user_data, tag, r);
	wake_later(c, g);
}

/* A task that a commit has ended, and how. */
struct ended {
	struct core_task *task;
	struct core_result r;
};

static bool silent(const struct core_task *t, const struct core_result *r)
{
	return t->d.flags & ARAX_TASK_SILENT && !r->result;
}

/*
 * Tasks of one client, the first one last: that is where the client looks, over and
 * over.  Were it told of each at once, it would look at the next one while we write
 * that, and take its line away, each time.
 */
static void post_all(struct core_client *c, const struct ended *e, u32 n, struct core_garbage *g)
{
	u32 i, pos, quiet = 0;

	for (i = 0; i < n; i++)
		quiet += silent(e[i].task, &e[i].r);
	core_write_once(c->silent, c->silent + quiet);
	if (c->dead || !c->region || quiet == n)
		return;
	pos = c->cq_tail + n - quiet;
	core_write_once(c->cq_tail, pos);
	for (i = n; i--;)
		if (!silent(e[i].task, &e[i].r))
			put_completion(c, --pos, e[i].task->d.user_data, e[i].task->d.tag, &e[i].r);
	wake_later(c, g);
}

/* What some tasks of one client add to its accounts and its tenants'. */
struct account {
	u64 device_ns;
	u64 wait_ns;
	u32 done;
	u32 failed;
};

static void account_add(struct account *a, const struct core_result *r)
{
	a->device_ns += r->device_ns;
	a->wait_ns += r->wait_ns;
	a->done++;
	a->failed += !!r->result;
}

static void account_tenant(struct core_tenant *n, const struct account *a)
{
	core_write_once(n->device_ns, n->device_ns + a->device_ns);
	core_write_once(n->wait_ns, n->wait_ns + a->wait_ns);
	core_write_once(n->tasks_done, n->tasks_done + a->done);
	if (a->failed)
		core_write_once(n->tasks_failed, n->tasks_failed + a->failed);
}

static void account(struct core_client *c, const struct account *a)
{
	struct core_tenant *n;

	c->device_ns += a->device_ns;
	c->wait_ns += a->wait_ns;
	c->tasks_done += a->done;
	c->tasks_failed += a->failed;
	for (n = c->tenant; n; n = n->parent)
		account_tenant(n, a);
	account_tenant(c->user, a);
}

/* Which bytes are current only on a device, and which were lost with one. */
static inline void update_residency(struct core_task *t, const struct core_result *r)
{
	u32 i;

	for (i = 0; i < t->d.nr_ranges; i++) {
		struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *x = &t->ranges[i];
		u64 end;

		/* A marker's range is the host's to use: its bytes were brought there. */
		if ((!(t->d.access >> (2 * i) & ARAX_OUT) && t->d.opcode != ARAX_OP_MARKER) ||
		    !x->length)
			continue;
		/* Nearly all: its host copy is current, as it was. */
		if (!(r->dirty >> i & 1) && !buf->nr_dirty && !buf->nr_lost)
			continue;
		end = core_range_end(x);
		if (r->dirty >> i & 1)
			core_extent_add(buf->dirty, &buf->nr_dirty, x->offset, end);
		else if (x->count == 1 && !r->result && buf->nr_dirty)
			core_extent_remove(buf->dirty, &buf->nr_dirty, x->offset, end);
		/* Written anew, wherever that is. */
		if (buf->nr_lost && x->count == 1 && !r->result &&
		    t->d.access >> (2 * i) & ARAX_OUT)
			core_extent_remove(buf->lost, &buf->nr_lost, x->offset, end);
	}
	if (t->promised)
		core_unpromise(t);
}

/* References go, the structure goes back to its client. */
static inline void release(struct core *core, struct core_task *t, struct core_garbage *g)
{
	struct core_client *c = t->client;
	u32 i;

	for (i = 0; i < t->d.nr_ranges; i++)
		core_buffer_put_locked(t->buffers[i], g);
	core_queue_put_locked(t->queue, g);
	if (t->big) {
		*(void **)t->big = g->bigs;
		g->bigs = t->big;
		t->big = NULL;
	}
	clist_del(&t->node);
	t->state = CORE_TASK_FREE;
	clist_add(&t->node, &c->freed);
	c->nr_tasks--;
	if (c->gone)
		core_client_check_free(c, g);
}

void core_task_release(struct core *core, struct core_task *t, struct core_garbage *g)
{
	release(core, t, g);
}

/* What its end means to others; it stays in its list. */
static inline void finish(struct core *core, struct core_task *t, const struct core_result *r,
			  struct core_garbage *g)
{
	if (t->state == CORE_TASK_DISPATCHED)
		core_slot_free(core, t);
	if (!clist_empty(&t->note))
		clist_del(&t->note);
	if (t->blocked)
		cheap_remove(&t->wait->tasks, &t->tl_node);
	t->blocked = false;
	update_residency(t, r);
	if (t->signal) {
		core_timeline_reach(core, t->signal, t->signal_value, r->result, g);
		core_timeline_put_locked(t->signal, g);
	}
	if (t->wait)
		core_timeline_put_locked(t->wait, g);
}

static void post_and_finish(struct core *core, struct core_task *t, const struct core_result *r,
			    struct core_garbage *g)
{
	struct core_client *c = t->client;

	if (t->state != CORE_TASK_DISPATCHED && !t->d.tag)
		core_tag_undispatched(core, t);
	/* First: somebody waits for this, and nobody sees the rest before the unlock. */
	if (silent(t, r))
		core_write_once(c->silent, c->silent + 1);
	else
		core_post(c, t->d.user_data, t->d.tag, r, g);
	finish(core, t, r, g);
}

static void settle_books(struct core_task *t, const struct core_result *r)
{
	struct core_client *c = t->client;
	struct account a = { 0 };

	core_uncharge_tasks(c->core, c->tenant, c->user, 1);
	account_add(&a, r);
	account(c, &a);
}

void core_complete_held(struct core *core, struct core_task *t, const struct core_result *r,
			struct core_garbage *g)
{
	settle_books(t, r);
	post_and_finish(core, t, r, g);
	clist_del(&t->node);
	t->state = CORE_TASK_ZOMBIE;
}

void core_complete(struct core *core, struct core_task *t, const struct core_result *r,
		   struct core_garbage *g)
{
	settle_books(t, r);
	post_and_finish(core, t, r, g);
	core_task_release(core, t, g);
}

/* Out of its slot: the same tag a second time is stale. */
static struct core_task *claim(struct core *core, u64 tag)
{
	u32 i = ARAX_TAG_SLOT(tag);
	struct core_task *t;

	if (i >= core->params.slots)
		return NULL;
	i = (u32)core_nospec(i, core->params.slots);
	t = core->slots[i].task;
	if (!t || t->d.tag != tag)
		return NULL;
	core->slots[i].task = NULL;
	return t;
}

/*
 * The places behind a run's completions were last read by the client.  Fetch as many
 * as there were now: the next run finds them here, and fetching takes longer than
 * writing.  The client looks at no more than the first of them meanwhile.
 */
static void prefetch_places(const struct core_client *c, u32 n)
{
	u32 i;

	if (c->dead || !c->region)
		return;
	for (i = 0; i < n; i++)
		core_prefetch_write(c->region + c->layout.cq_offset +
				    (size_t)((c->cq_tail + i) & (c->depth - 1)) *
				    sizeof(struct arax_completion));
}

/* To its client they count on, whoever the mediator is. */
static void read_failure(struct core_client *c, const struct arax_commit_entry *s,
			 struct core_result *r)
{
	u32 n = core_read_once(s->failure);

	if (r->result > 0 || r->result < -4095)
		r->result = -EIO;
	if (!n)
		return;
	r->failure = c->failures_before + n;
	c->failures = r->failure;
}

/* Each word is read once: the mediator may still be writing it. */
static void read_result(struct core_client *c, const struct arax_commit_entry *s,
			struct core_result *r)
{
	r->result = core_read_once(s->result);
	r->dirty = core_read_once(s->dirty);
	r->device_ns = core_read_once(s->device_ns);
	r->wait_ns = core_read_once(s->wait_ns);
	r->bytes = core_read_once(s->bytes);
	r->origin = core_read_once(s->origin);
	r->device = core_read_once(s->device);
	r->failure = 0;
	if (!core_likely(!r->result))
		read_failure(c, s, r);
}

/* Tasks of one client. */
static void end_run(struct core *core, const struct ended *e, u32 n, struct core_garbage *g)
{
	struct core_client *c = e->task->client;
	struct account a = { 0 };
	u32 i;

	/* First: somebody waits for these, and nobody sees the rest before the unlock. */
	post_all(c, e, n, g);
	for (i = 0; i < n; i++) {
		account_add(&a, &e[i].r);
		/* With a number, or as another one's: the mediator's graph knows of it. */
		if (e[i].r.result && !e[i].r.failure && !e[i].r.origin)
			core_fail_mark(core, e[i].task);
		finish(core, e[i].task, &e[i].r, g);
		release(core, e[i].task, g);
	}
	prefetch_places(c, n);
	core_uncharge_tasks(core, c->tenant, c->user, n);
	account(c, &a);
}

/* Returns how many tags were stale. */
static u32 commit_group(struct core *core, const struct arax_commit_entry *e, u32 mask,
			u32 first, u32 n, struct core_garbage *g)
{
	struct ended ended[GROUP];
	u32 i, nr = 0, begin = 0;

	for (i = 0; i < n; i++) {
		const struct arax_commit_entry *x = &e[(first + i) & mask];

		ended[nr].task = claim(core, core_read_once(x->tag));
		if (!ended[nr].task)
			continue;
		read_result(ended[nr].task->client, x, &ended[nr].r);
		nr++;
	}
	for (i = 1; i <= nr; i++) {
		if (i < nr && ended[i].task->client == ended[begin].task->client)
			continue;
		end_run(core, &ended[begin], i - begin, g);
		begin = i;
	}
	return n - nr;
}

static u32 commit_chunk(struct core *core, const struct arax_commit_entry *e, u32 mask,
			u32 first, u32 n)
{
	struct core_garbage g;
	u32 done, stale = 0;

	core_garbage_init(&g);
	g.defer_wake = core->params.defers_wakes;
	core_spin_lock(&core->dispatch);
	core_wake_deferred_locked(core);
	for (done = 0; done < n; done += GROUP)
		stale += commit_group(core, e, mask, first + done,
				      n - done < GROUP ? n - done : GROUP, &g);
	core_dispatch_flush(core, &g);
	core_unlock_collect(core, &g);
	return stale;
}

u32 core_commit_entries(struct core *core, const struct arax_commit_entry *e, u32 n, u32 mask,
			u32 first, u32 *stale)
{
	u32 done, run;

	*stale = 0;
	for (done = 0; done < n; done += run) {
		run = n - done < CHUNK ? n - done : CHUNK;
		*stale += commit_chunk(core, e, mask, first + done, run);
		core_resched();
	}
	return done;
}

/* By the attached mediator only, so the commit area stays while this runs. */
int core_commit(struct core *core, struct arax_commit *a)
{
	if (a->flags)
		return -EOPNOTSUPP;
	if (a->count > CORE_COMMIT_ENTRIES)
		return -EINVAL;
	a->done = core_commit_entries(core, core->commits, a->count, CORE_COMMIT_ENTRIES - 1,
				      a->first, &a->stale);
	return 0;
}
