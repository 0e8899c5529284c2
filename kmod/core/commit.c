// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Completion: the client's entry, its timeline, the books, the references. */
#include "core.h"

#define CHUNK	64	/* commits under one hold of core->dispatch, at most */
#define GROUP	16	/* of them, posted together; a kernel stack is small */

static inline struct arax_completion *place(const struct core_client *c, u32 pos)
{
	return (void *)(c->region + c->layout.cq_offset +
			(size_t)(pos & (c->depth - 1)) * sizeof(struct arax_completion));
}

static void put_completion(struct core_client *c, u32 pos, u64 user_data, u64 tag,
			   const struct core_result *r)
{
	struct arax_completion *e = place(c, pos);

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

/* A task that a commit ends; what the mediator wrote is read once. */
struct ended {
	struct core_task *task;
	const struct arax_commit_entry *from;
	s32 result;
	u32 dirty;
	bool here;		/* the mediator says that all was well, and it is not */
	u64 origin;		/* ... then: as it depends on this one; 0: a buffer of its was revoked */
};

static bool silent(const struct core_task *t, s32 result)
{
	return t->d.flags & ARAX_TASK_SILENT && !result;
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
static core_noinline void update_residency(struct core_task *t, s32 result, u32 dirty)
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
		if (!(dirty >> i & 1) && !buf->nr_dirty && !buf->nr_lost)
			continue;
		end = core_range_end(x);
		if (dirty >> i & 1)
			core_extent_add(buf->dirty, &buf->nr_dirty, x->offset, end);
		else if (x->count == 1 && !result && buf->nr_dirty)
			core_extent_remove(buf->dirty, &buf->nr_dirty, x->offset, end);
		/* Written anew, wherever that is. */
		if (buf->nr_lost && x->count == 1 && !result && t->d.access >> (2 * i) & ARAX_OUT)
			core_extent_remove(buf->lost, &buf->nr_lost, x->offset, end);
	}
	if (t->promised)
		core_unpromise(t);
}

/* Nearly all: the host's copies are current, as they were. */
static inline bool stays_resident(const struct core_task *t, u32 dirty)
{
	struct core_buffer *const *b = t->buffers, *const *end = b + t->d.nr_ranges;
	u32 any = dirty | t->promised;

	for (; b < end; b++)
		any |= (*b)->nr_dirty | (*b)->nr_lost;
	return core_likely(!any);
}

/* References go, the structure goes back to its client, which may be free after the last one. */
static inline void release(struct core_task *t, struct core_garbage *g)
{
	struct core_buffer **b = t->buffers, **end = b + t->d.nr_ranges;

	for (; b < end; b++)
		core_buffer_put_locked(*b, g);
	core_queue_put_locked(t->queue, g);
	if (t->big && !t->roomy) {
		*(void **)t->big = g->bigs;
		g->bigs = t->big;
		t->big = NULL;
	}
	t->state = CORE_TASK_FREE;
	clist_move(&t->node, &t->client->freed);
}

static inline void released(struct core_client *c, u32 n, struct core_garbage *g)
{
	c->nr_tasks -= n;
	if (c->gone)
		core_client_check_free(c, g);
}

void core_zombie_release(struct core_task *t, struct core_garbage *g)
{
	release(t, g);
	t->client->nr_zombies--;
	released(t->client, 0, g);
}

/* What its end means to others; it stays in its list. */
static inline void finish(struct core *core, struct core_task *t, s32 result, u32 dirty,
			  struct core_garbage *g)
{
	if (core_likely(t->state == CORE_TASK_DISPATCHED))
		core_slot_free(core, t);
	else
		core_share_queued(core, t->client, -1);
	if (t->notes) {
		t->notes = 0;
		clist_del(&t->note);
	}
	if (t->blocked)
		cheap_remove(&t->wait->tasks, &t->tl_node);
	t->blocked = false;
	if (!stays_resident(t, dirty))
		update_residency(t, result, dirty);
	if (t->signal) {
		core_timeline_reach(core, t->signal, t->signal_value, result, g);
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
	if (silent(t, r->result))
		core_write_once(c->silent, c->silent + 1);
	else
		core_post(c, t->d.user_data, t->d.tag, r, g);
	finish(core, t, r->result, r->dirty, g);
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
	t->client->nr_zombies++;
	t->client->nr_tasks--;
}

void core_complete(struct core *core, struct core_task *t, const struct core_result *r,
		   struct core_garbage *g)
{
	settle_books(t, r);
	post_and_finish(core, t, r, g);
	release(t, g);
	released(t->client, 1, g);
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

	if (!n)
		return;
	r->failure = c->failures_before + n;
	c->failures = r->failure;
}

/* All but what was read already. */
static void read_result(struct core_client *c, const struct ended *e, struct core_result *r)
{
	const struct arax_commit_entry *s = e->from;

	r->result = e->result;
	r->dirty = e->dirty;
	r->device_ns = core_read_once(s->device_ns);
	r->wait_ns = core_read_once(s->wait_ns);
	r->bytes = core_read_once(s->bytes);
	r->origin = core_read_once(s->origin);
	r->device = core_read_once(s->device);
	r->failure = 0;
	if (e->here)
		r->origin = e->origin;
	else if (r->result)
		read_failure(c, s, r);
}

/*
 * Tasks of one client, the first one last: that is where the client looks, over and
 * over.  Were it told of each at once, it would look at the next one while we write
 * that, and take its line away, each time.
 *
 * Here some of them have failed, or are to be silent, or there is nobody to be told.
 */
static core_noinline void post_some(struct core *core, const struct ended *e, u32 n,
				    struct account *a, struct core_garbage *g)
{
	struct core_client *c = e->task->client;
	struct core_result r[GROUP];
	u32 i, pos, quiet = 0;

	for (i = 0; i < n; i++) {
		read_result(c, &e[i], &r[i]);
		account_add(a, &r[i]);
		quiet += silent(e[i].task, r[i].result);
	}
	core_write_once(c->silent, c->silent + quiet);
	if (!c->dead && c->region && quiet != n) {
		pos = c->cq_tail + n - quiet;
		core_write_once(c->cq_tail, pos);
		for (i = n; i--;)
			if (!silent(e[i].task, r[i].result))
				put_completion(c, --pos, e[i].task->d.user_data, e[i].task->d.tag,
					       &r[i]);
		wake_later(c, g);
	}
	for (i = 0; i < n; i++)
		/* With a number, or as another one's: the mediator's graph knows of it. */
		if (r[i].result && !r[i].failure && !r[i].origin && !e[i].here)
			core_fail_mark(core, e[i].task);
}

/* The same where all is well: from the mediator's entries into the client's. */
static inline void post_all(struct core_client *c, const struct ended *e, u32 n,
			    struct account *a, struct core_garbage *g)
{
	u32 i, pos = c->cq_tail + n;

	core_write_once(c->cq_tail, pos);
	for (i = n; i--;) {
		const struct arax_commit_entry *s = e[i].from;
		const struct core_task *t = e[i].task;
		struct arax_completion *to = place(c, --pos);
		u64 device_ns = core_read_once(s->device_ns), wait_ns = core_read_once(s->wait_ns);

		to->result = 0;
		to->user_data = t->d.user_data;
		to->tag = t->d.tag;
		to->origin = core_read_once(s->origin);
		to->device_ns = device_ns;
		to->wait_ns = wait_ns;
		to->bytes = core_read_once(s->bytes);
		to->device = core_read_once(s->device);
		to->failure = 0;
		a->device_ns += device_ns;
		a->wait_ns += wait_ns;
		/* Pairs with the client's acquire when it polls for the entry. */
		core_store_release(&to->seq, pos + 1);
	}
	a->done = n;
	wake_later(c, g);
}

/* Tasks of one client. */
static inline void end_run(struct core *core, const struct ended *e, u32 n, bool well,
			   struct core_garbage *g)
{
	struct core_client *c = e->task->client;
	struct account a = { 0 };
	u32 i;

	/* First: somebody waits for these, and nobody sees the rest before the unlock. */
	if (core_likely(well && !c->dead && c->region))
		post_all(c, e, n, &a, g);
	else
		post_some(core, e, n, &a, g);
	for (i = 0; i < n; i++) {
		finish(core, e[i].task, e[i].result, e[i].dirty, g);
		release(e[i].task, g);
	}
	if (!core_likely(!c->ended_mark))
		core_fail_have_ended(core, c);
	prefetch_places(c, n);
	account(c, &a);
	core_uncharge_tasks(core, c->tenant, c->user, n);
	released(c, n, g);
}

bool core_uses_revoked(const struct core_task *t)
{
	u32 i;

	if (core_likely(!t->client->core->nr_revoked))
		return false;
	for (i = 0; i < t->d.nr_ranges; i++)
		if (t->buffers[i]->revoked)
			return true;
	return false;
}

/* Of one that the mediator says is well. */
static core_noinline void judge_ended(struct core *core, struct ended *e)
{
	struct core_task *t = e->task;

	if (core_uses_revoked(t)) {
		e->result = -ESTALE;
		e->origin = 0;
		core_fail_mark_ended(core, t, t->d.tag);
	} else if (core_fail_reaches_ended(core, t, &e->origin)) {
		e->result = -ECANCELED;
	} else {
		return;
	}
	e->here = true;
}

static inline s32 result_of(s32 said)
{
	return core_likely(!said) || (said < 0 && said >= -4095) ? said : -EIO;
}

/* All that its end may reach, or let go of. */
static inline u32 points_of(const struct core_task *t)
{
	u32 n = 0;

	if (!core_likely(!t->signal))
		n += core_timeline_points(t->signal);
	if (!core_likely(!t->wait))
		n += core_timeline_points(t->wait);
	return n;
}

/* Returns how many it took, one at least; adds to @stale those whose tags were. */
static u32 commit_group(struct core *core, const struct arax_commit_entry *e, u32 mask,
			u32 first, u32 n, u32 *stale, struct core_garbage *g)
{
	struct ended ended[GROUP];
	struct core_client *client = NULL;
	u32 i, nr = 0, run = 0, points = 0;
	bool well = true;

	for (i = 0; i < n && points < CORE_STEP_POINTS; i++) {
		const struct arax_commit_entry *x = &e[(first + i) & mask];
		struct core_task *t = claim(core, core_read_once(x->tag));

		if (!t)
			continue;
		/* A run of one client's tasks ends with another one's. */
		if (!core_likely(!nr || t->client == client)) {
			end_run(core, &ended[run], nr - run, well, g);
			run = nr;
			well = true;
		}
		client = t->client;
		ended[nr].task = t;
		ended[nr].from = x;
		ended[nr].result = result_of(core_read_once(x->result));
		ended[nr].here = false;
		if (!core_likely(!(core->nr_revoked | client->ended_mark)) && !ended[nr].result)
			judge_ended(core, &ended[nr]);
		ended[nr].dirty = core_read_once(x->dirty);
		well &= !ended[nr].result && !(t->d.flags & ARAX_TASK_SILENT);
		points += points_of(t);
		nr++;
	}
	if (nr)
		end_run(core, &ended[run], nr - run, well, g);
	*stale += i - nr;
	return i;
}

/* Returns how many it took, one at least; the same with @stale. */
static u32 commit_chunk(struct core *core, const struct arax_commit_entry *e, u32 mask,
			u32 first, u32 n, u32 *stale)
{
	struct core_garbage g;
	u32 done = 0;

	core_garbage_init(&g);
	g.defer_wake = core->params.defers_wakes;
	core_spin_lock(&core->dispatch);
	core_wake_deferred_locked(core);
	while (done < n && !core_step_over(&g))
		done += commit_group(core, e, mask, first + done,
				     n - done < GROUP ? n - done : GROUP, stale, &g);
	core_dispatch_flush(core, &g);
	core_unlock_collect(core, &g);
	return done;
}

u32 core_commit_entries(struct core *core, const struct arax_commit_entry *e, u32 n, u32 mask,
			u32 first, u32 *stale)
{
	u32 done = 0;

	*stale = 0;
	while (done < n) {
		done += commit_chunk(core, e, mask, first + done,
				     n - done < CHUNK ? n - done : CHUNK, stale);
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
