// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Completion: the client's entry, its timeline, the books, the references. */
#include "core.h"

#define CHUNK	64	/* commits under one hold of core->dispatch; a kernel stack is small */

void core_post(struct core_client *c, u64 user_data, u64 tag, const struct core_result *r,
	       struct core_garbage *g)
{
	struct arax_completion *e;
	u32 pos = c->cq_tail;

	if (c->dead || !c->region)
		return;
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
	e->flags = 0;
	core_write_once(c->cq_tail, pos + 1);
	/* Pairs with the client's acquire when it polls for the entry. */
	core_store_release(&e->seq, pos + 1);
	if (clist_empty(&c->wake))
		clist_add_tail(&c->wake, &g->wake);
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
static void update_residency(struct core_task *t, const struct core_result *r)
{
	u32 i;

	for (i = 0; i < t->d.nr_ranges; i++) {
		struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *x = &t->ranges[i];
		u64 end = core_range_end(x);

		if (!(t->d.access >> (2 * i) & ARAX_OUT) || !x->length)
			continue;
		if (r->dirty >> i & 1) {
			core_extent_add(buf->dirty, &buf->nr_dirty, x->offset, end);
		} else if (x->count == 1 && !r->result) {
			if (buf->nr_dirty)
				core_extent_remove(buf->dirty, &buf->nr_dirty, x->offset, end);
			if (buf->nr_lost)
				core_extent_remove(buf->lost, &buf->nr_lost, x->offset, end);
		}
	}
}

/* References go, the structure goes back to its client. */
void core_task_release(struct core *core, struct core_task *t, struct core_garbage *g)
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
	core_client_check_free(c, g);
}

static void finish(struct core *core, struct core_task *t, const struct core_result *r,
		   struct core_garbage *g)
{
	struct core_client *c = t->client;
	u64 tag = 0;

	if (t->state == CORE_TASK_DISPATCHED) {
		tag = t->d.tag;
		core_slot_free(core, t);
	}
	clist_del(&t->node);
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
	if (t->d.flags & ARAX_TASK_SILENT && !r->result)
		core_write_once(c->silent, c->silent + 1);
	else
		core_post(c, t->d.user_data, tag, r, g);
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
	finish(core, t, r, g);
	t->state = CORE_TASK_ZOMBIE;
}

void core_complete(struct core *core, struct core_task *t, const struct core_result *r,
		   struct core_garbage *g)
{
	settle_books(t, r);
	finish(core, t, r, g);
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
 * The places of a run's completions were last read by the client: fetch them all
 * at once, instead of one after the other as they are written.
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

/*
 * Charges first: a client that sees its completion may submit at once and must
 * find its charge gone.  Runs of one client's tasks are uncharged together.
 */
static void uncharge_runs(struct core *core, struct core_task **t, u32 n)
{
	u32 i, run;

	for (i = 0; i < n; i += run) {
		struct core_client *c;

		run = 1;
		if (!t[i])
			continue;
		c = t[i]->client;
		while (i + run < n && t[i + run] && t[i + run]->client == c)
			run++;
		prefetch_places(c, run);
		core_uncharge_tasks(core, c->tenant, c->user, run);
	}
}

/* Each word is read once: the mediator may still be writing it. */
static void read_result(const struct arax_commit_entry *s, struct core_result *r)
{
	r->result = core_read_once(s->result);
	r->dirty = core_read_once(s->dirty);
	r->device_ns = core_read_once(s->device_ns);
	r->wait_ns = core_read_once(s->wait_ns);
	r->bytes = core_read_once(s->bytes);
	r->origin = core_read_once(s->origin);
	r->device = core_read_once(s->device);
	if (r->result > 0 || r->result < -4095)
		r->result = -EIO;
}

static u32 commit_chunk(struct core *core, const struct arax_commit_entry *e, u32 mask,
			u32 first, u32 n)
{
	struct core_task *tasks[CHUNK];
	struct account a = { 0 };
	struct core_garbage g;
	u32 i, stale = 0;

	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	for (i = 0; i < n; i++) {
		tasks[i] = claim(core, core_read_once(e[(first + i) & mask].tag));
		stale += !tasks[i];
	}
	uncharge_runs(core, tasks, n);
	for (i = 0; i < n; i++) {
		struct core_task *t = tasks[i];
		struct core_result r;
		struct core_client *c;

		if (!t)
			continue;
		c = t->client;
		read_result(&e[(first + i) & mask], &r);
		account_add(&a, &r);
		if (r.result)
			core_fail_mark(core, t);
		finish(core, t, &r, &g);
		core_task_release(core, t, &g);
		if (i + 1 < n && tasks[i + 1] && tasks[i + 1]->client == c)
			continue;
		/* The last of a run of one client's. */
		account(c, &a);
		memset(&a, 0, sizeof(a));
		if (c->fail_mark)
			core_fail_pass(core, c, &g);
	}
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
