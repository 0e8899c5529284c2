// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The mediator's coming and going.
 *
 *   DETACHED --attach--> LIVE --detach--> QUIESCED --gone--> DETACHED
 *                          ^                  |
 *                          +-----takeover-----+
 *
 * Between detach (its file is closed) and gone (its process is no more, so no
 * DMA of its can still write) nothing of what it held is replayed or failed.
 * What is taken over fails at once, and holds its buffers until that mediator
 * is gone, while others come and go: epochs tell whose it is.
 */
#include "core.h"

/* With core->lock held, so that clients stay; core->dispatch is held per client. */
static void set_epoch(struct core *core, u32 epoch)
{
	struct clist *pos, *tmp;
	u32 n = 0;

	clist_for_each_safe(pos, tmp, &core->clients) {
		struct core_client *c = clist_entry(pos, struct core_client, node);

		core_spin_lock(&core->dispatch);
		/* Nothing is dispatched or committed now, and the next one counts anew. */
		if (!epoch)
			c->failures_before = c->failures;
		if (c->ready && c->region) {
			core_write_once(core_ctl(c)->epoch, epoch);
			/* Sleepers look at the epoch too. */
			core->ops->client_wake(c, CORE_WAKE_TASKS | CORE_WAKE_POINTS);
		}
		core_spin_unlock(&core->dispatch);
		if (++n % CORE_STEP == 0)
			core_resched();
	}
}

/*
 * With core->lock held, so that clients stay; the garbage is collected by the
 * caller after it has dropped core->lock.  Tasks that come meanwhile may share
 * the fate of the others; no more than fit are looked at.
 */
static void fail_queued(struct core *core, struct core_client *c, struct core_garbage *g)
{
	struct core_result r = { .result = -EOWNERDEAD, .device = ~0u };
	u32 n, left;
	bool more;

	core_spin_lock(&core->dispatch);
	core_orphan(c);
	left = c->nr_tasks;
	/* Of an old mediator's bytes, too: what comes from now on is not failed for it. */
	c->judged = true;
	core_spin_unlock(&core->dispatch);
	do {
		core_spin_lock(&core->dispatch);
		g->points = 0;
		core_fail_end_ended(core, c);
		clist_splice_tail(&c->exam, &c->queued);
		for (n = 0; n < CORE_STEP && left && !clist_empty(&c->queued) && !core_step_over(g);
		     n++, left--)
			core_complete(core, clist_first(&c->queued, struct core_task, node), &r,
				      g);
		more = left && !clist_empty(&c->queued);
		if (clist_empty(&c->queued))
			core_backlog_leave(c);
		core_fail_end(core, c);
		core_spin_unlock(&core->dispatch);
		core_resched();
	} while (more);
}

static void fail_all_queued(struct core *core, struct core_garbage *g)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &core->clients)
		fail_queued(core, clist_entry(pos, struct core_client, node), g);
}

static void collect_unlocked(struct core *core, struct core_garbage *g)
{
	core_spin_lock(&core->dispatch);
	core_unlock_collect(core, g);
}

/*
 * The old mediator is stuck: its tasks fail, what they use stays held, but not their
 * places in the client's window.  Nothing else takes from these lists, or adds to them,
 * until there is a new one.
 */
static void abandon(struct core *core, struct core_client *c, struct core_garbage *g)
{
	struct core_result r = { .result = -EOWNERDEAD, .device = ~0u };
	bool more;
	u32 n;

	do {
		core_spin_lock(&core->dispatch);
		g->points = 0;
		clist_del(&c->cursor);
		core_orphan(c);
		for (n = 0; n < CORE_STEP && !clist_empty(&c->dispatched) && !core_step_over(g);
		     n++) {
			struct core_task *t = clist_first(&c->dispatched, struct core_task, node);

			core_complete_held(core, t, &r, g);
			clist_add_tail(&t->node, &core->zombies);
		}
		more = !clist_empty(&c->dispatched);
		core_spin_unlock(&core->dispatch);
		core_resched();
	} while (more);
	if (!c->dead)
		core_client_more_tasks(c);
}

/* With core->lock held: its device memory died with the mediator, as did what that kept. */
static void uncharge_devices(struct core *core)
{
	struct clist *pos, *tmp;
	u32 n = 0;

	clist_for_each_safe(pos, tmp, &core->clients) {
		struct core_client *c = clist_entry(pos, struct core_client, node);

		core_spin_lock(&core->dispatch);
		core_uncharge(c->tenant, c->user, ARAX_RES_DEVICE_MEMORY, c->device_memory);
		core_write_once(c->device_memory, 0);
		core_uncharge(c->tenant, c->user, ARAX_RES_MEMORY, c->kept_memory);
		core_write_once(c->kept_memory, 0);
		core_spin_unlock(&core->dispatch);
		if (++n % CORE_STEP == 0)
			core_resched();
	}
}

static size_t ring_bytes(const struct core *core)
{
	return (size_t)core->params.cells * ARAX_CELL_SIZE;
}

/* The mediator's page and what follows it: the slots' states and the commit area. */
static size_t states_bytes(const struct core *core)
{
	return ((size_t)core->params.slots * sizeof(u32) + 4095) & ~(size_t)4095;
}

static size_t shared_bytes(const struct core *core)
{
	return 4096 + states_bytes(core) +
	       CORE_COMMIT_ENTRIES * sizeof(struct arax_commit_entry);
}

int core_attach_prepare(struct core *core, const struct arax_attach *a,
			struct core_attachment *at)
{
	u32 i;

	at->ring = NULL;
	at->shared = NULL;
	if (a->flags & ~ARAX_ATTACH_FLAGS)
		return -EOPNOTSUPP;
	if (a->flags == ARAX_ATTACH_FLAGS)
		return -EINVAL;		/* take over and replay exclude each other */
	/* Only to save the trouble: it is looked at again. */
	if (core_read_once(core->state) != CORE_DETACHED && !(a->flags & ARAX_ATTACH_TAKEOVER))
		return -EBUSY;
	at->ring = core->ops->mediator_alloc(core, ring_bytes(core), false);
	at->shared = core->ops->mediator_alloc(core, shared_bytes(core), true);
	if (!at->ring || !at->shared) {
		core_attach_drop(core, at);
		return -ENOMEM;
	}
	/* No word of the empty ring may look published: the first is 1. */
	for (i = 0; i < core->params.cells; i++)
		((struct arax_dispatch *)(at->ring + (size_t)i * ARAX_CELL_SIZE))->seq = i;
	return 0;
}

void core_attach_drop(struct core *core, struct core_attachment *at)
{
	if (at->ring)
		core->ops->mediator_free(core, at->ring, false);
	if (at->shared)
		core->ops->mediator_free(core, at->shared, true);
	at->ring = NULL;
	at->shared = NULL;
}

/* The memory becomes the core's, which shows it from here on. */
static void take_memory(struct core *core, struct core_attachment *at)
{
	size_t states = states_bytes(core);

	core->ring = at->ring;
	core->page = (void *)at->shared;
	core->states = (void *)(at->shared + 4096);
	core->commits = (void *)(at->shared + 4096 + states);
	core->page->states_offset = 4096;
	core->page->commits_offset = (u32)(4096 + states);
	at->ring = NULL;
	at->shared = NULL;
}

int core_attach_with(struct core *core, struct arax_attach *a, struct core_attachment *at)
{
	struct clist *pos, *tmp;
	struct core_garbage g;

	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	if (core->state == CORE_LIVE ||
	    (core->state == CORE_QUIESCED && !(a->flags & ARAX_ATTACH_TAKEOVER))) {
		core_mutex_unlock(&core->lock);
		return -EBUSY;
	}
	if (core->state == CORE_QUIESCED) {
		clist_for_each_safe(pos, tmp, &core->clients)
			abandon(core, clist_entry(pos, struct core_client, node), &g);
		uncharge_devices(core);
	}
	if (!(a->flags & ARAX_ATTACH_RECOVER))
		fail_all_queued(core, &g);

	core_spin_lock(&core->dispatch);
	take_memory(core, at);
	core->tail = 0;
	core->head_seen = 0;
	core_write_once(core->epoch, core->epoch == 0xffff ? 1 : core->epoch + 1);
	core_write_once(core->state, CORE_LIVE);
	core_dispatch_flush(core, &g);
	core_spin_unlock(&core->dispatch);
	set_epoch(core, core->epoch);
	a->epoch = core->epoch;
	a->cells = core->params.cells;
	a->slots = core->params.slots;
	a->commit_entries = CORE_COMMIT_ENTRIES;
	a->dispatch_offset = 0;
	a->dispatch_bytes = ring_bytes(core);
	a->shared_offset = (a->dispatch_bytes + 4095) & ~(u64)4095;
	a->shared_bytes = shared_bytes(core);
	core_mutex_unlock(&core->lock);
	collect_unlocked(core, &g);
	return 0;
}

int core_attach(struct core *core, struct arax_attach *a)
{
	struct core_attachment at;
	int err = core_attach_prepare(core, a, &at);

	if (err)
		return err;
	err = core_attach_with(core, a, &at);
	if (err)
		core_attach_drop(core, &at);
	return err;
}

/*
 * Notes have no reader now: the mediator's maps and contexts die with it.  Those
 * of tasks go with their tasks.  None is added while there is no mediator.
 */
static bool drop_notes_step(struct core *core, struct core_garbage *g)
{
	u32 n;

	for (n = 0; n < CORE_STEP && !clist_empty(&core->drop_notes); n++) {
		struct core_buffer *buf = clist_first(&core->drop_notes, struct core_buffer,
						      note);

		clist_del(&buf->note);
		core_garbage_throw(&g->buffers, &buf->garbage);
	}
	for (; n < CORE_STEP && !clist_empty(&core->gone_notes); n++) {
		struct core_client *c = clist_first(&core->gone_notes, struct core_client, note);

		clist_del(&c->note);
		c->noted = true;
		core_client_check_free(c, g);
	}
	return n == CORE_STEP;
}

/*
 * Which tasks had started?  Nothing is added to or taken from the list while the
 * old mediator is not gone, but for a cancel's cursor.
 */
static void look_at_states(struct core *core, struct core_client *c, const u32 *states)
{
	struct clist *pos = NULL;
	u32 n;

	do {
		core_spin_lock(&core->dispatch);
		c->judged = false;
		pos = pos ? pos : c->dispatched.next;
		for (n = 0; n < CORE_STEP && pos != &c->dispatched; pos = pos->next) {
			struct core_task *t = clist_entry(pos, struct core_task, node);

			if (pos == &c->cursor)
				continue;
			/* Any other word than IDLE, a corrupt one too, is "started". */
			t->started = core_read_once(states[ARAX_TAG_SLOT(t->d.tag)]) !=
				     ARAX_SLOT_IDLE;
			n++;
		}
		/* It moves as soon as we look away. */
		if (pos == &c->cursor)
			pos = pos->next;
		core_spin_unlock(&core->dispatch);
		core_resched();
	} while (pos != &c->dispatched);
}

/* What was only on its devices is lost. */
static void lose_bytes(struct core *core)
{
	enum core_type type;
	void *object;
	u32 i, k, n = 0;

	for (i = 0; (object = core_handle_next(&core->buffers, &i, &type)); i++) {
		struct core_buffer *buf = object;

		core_spin_lock(&core->dispatch);
		buf->mediated = false;
		for (k = 0; k < buf->nr_dirty; k++)
			core_extent_add(buf->lost, &buf->nr_lost, buf->dirty[k].start,
					buf->dirty[k].end);
		buf->nr_dirty = 0;
		core_spin_unlock(&core->dispatch);
		if (++n % CORE_STEP == 0)
			core_resched();
	}
}

/* In the old state nothing more is committed, in the new one nothing is judged. */
void core_detach(struct core *core)
{
	void *ring, *page, *states;
	struct clist *pos, *tmp;
	struct core_garbage g;
	bool more;

	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	if (core->state != CORE_LIVE) {
		core_mutex_unlock(&core->lock);
		return;
	}
	core_spin_lock(&core->dispatch);
	core_write_once(core->state, CORE_QUIESCED);
	ring = core->ring;
	page = core->page;
	states = core->states;
	core->ring = NULL;
	core->page = NULL;
	core->states = NULL;
	core->commits = NULL;
	core_spin_unlock(&core->dispatch);
	core_devices_forget(core);
	clist_for_each_safe(pos, tmp, &core->clients)
		look_at_states(core, clist_entry(pos, struct core_client, node), states);
	lose_bytes(core);
	do {
		core_spin_lock(&core->dispatch);
		more = drop_notes_step(core, &g);
		core_spin_unlock(&core->dispatch);
		core_resched();
	} while (more);
	set_epoch(core, 0);
	core->ops->mediator_free(core, ring, false);
	core->ops->mediator_free(core, page, true);
	core_mutex_unlock(&core->lock);
	collect_unlocked(core, &g);
}

/* Why a task of the old mediator, or one that waited behind it, can't run now. */
static s32 settle_error(const struct core_client *c, const struct core_task *t)
{
	if (t->state == CORE_TASK_DISPATCHED) {
		if (c->dead || (t->started && !(t->d.flags & ARAX_TASK_IDEMPOTENT)))
			return -EOWNERDEAD;
		if (t->canceled)
			return -ECANCELED;
	}
	if (core_uses_revoked(t))
		return -ESTALE;
	return core_reads_lost(t) ? -EIO : 0;
}

/*
 * Some of those that were there, of which @left are still to be looked at; what is kept goes back to
 * the queue.  What came meanwhile is settled with the last ones: who submits as fast as we go
 * doesn't keep us for ever.
 */
static bool settle_step(struct core *core, struct core_client *c, u32 *left,
			struct core_garbage *g)
{
	struct core_result r = { .device = ~0u };
	u32 n;

	g->points = 0;
	for (n = 0; !clist_empty(&c->exam); n++) {
		struct core_task *t = clist_first(&c->exam, struct core_task, node);
		bool reached;

		if (*left && (n == CORE_STEP || core_step_over(g)))
			return true;
		*left -= !!*left;
		/* By where it was. */
		reached = core_fail_reached(c, t, &r.origin);
		t->order = ++c->queue_order;
		core_unpromise(t);
		r.result = settle_error(c, t);
		if (r.result)
			r.origin = 0;
		else if (reached)
			r.result = -ECANCELED;
		if (t->state == CORE_TASK_DISPATCHED && !r.result) {
			core_slot_free(core, t);
			t->d.tag = 0;
			t->state = CORE_TASK_QUEUED;
			core_share_queued(core, c, 1);
			/* It will be dispatched as it is then: notes came too late. */
			clist_del(&t->note);
			t->notes = 0;
		}
		if (r.result) {
			core_fail_mark(core, t);
			core_complete(core, t, &r, g);
		} else if (!core_fail_reaches(core, t, g)) {
			core_promise(t);
			clist_del(&t->node);
			core_dispatch_requeue(core, t);
		}
	}
	return false;
}

/* Some of a cancel that was under way.  Its client submits nothing meanwhile. */
static bool cancel_step(struct core *core, struct core_client *c, struct core_garbage *g)
{
	g->points = 0;
	return core_cancel_step(core, c, CORE_STEP, g);
}

/*
 * One client's tasks of the old mediator: what had not started, or may run
 * twice, goes back to the head of its queue in the old order; the rest fails,
 * and what depended on it.  So does what reads bytes that were lost and that no
 * task before it is going to rewrite: it was accepted when they were still there,
 * or was not judged until now.
 */
static void settle(struct core *core, struct core_client *c, struct core_garbage *g)
{
	bool more;
	u32 left;

	core_spin_lock(&core->dispatch);
	while (cancel_step(core, c, g)) {
		core_spin_unlock(&core->dispatch);
		core_resched();
		core_spin_lock(&core->dispatch);
	}
	clist_del(&c->cursor);
	core_orphan(c);
	clist_splice_tail(&c->dispatched, &c->exam);
	clist_splice_tail(&c->queued, &c->exam);
	left = c->nr_tasks;
	c->judged = true;
	core_spin_unlock(&core->dispatch);
	do {
		core_spin_lock(&core->dispatch);
		more = settle_step(core, c, &left, g);
		core_spin_unlock(&core->dispatch);
		core_resched();
	} while (more);
	core_spin_lock(&core->dispatch);
	core_fail_end(core, c);
	core_fail_end_ended(core, c);
	core_spin_unlock(&core->dispatch);
}

static void release_zombies(struct core *core, u32 epoch, struct core_garbage *g)
{
	struct clist old;
	u32 n;

	/* core->lock keeps others from them. */
	clist_init(&old);
	core_spin_lock(&core->dispatch);
	clist_splice_tail(&core->zombies, &old);
	core_spin_unlock(&core->dispatch);
	while (!clist_empty(&old)) {
		core_spin_lock(&core->dispatch);
		for (n = 0; n < CORE_STEP && !clist_empty(&old); n++) {
			struct core_task *t = clist_first(&old, struct core_task, node);

			clist_del(&t->node);
			if (ARAX_TAG_EPOCH(t->d.tag) == epoch)
				core_zombie_release(t, g);
			else
				clist_add_tail(&t->node, &core->zombies);
		}
		core_spin_unlock(&core->dispatch);
		core_resched();
	}
}

bool core_mediator_gone(struct core *core, u32 epoch)
{
	struct core_garbage g;
	struct clist *pos, *tmp;
	bool last;

	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	release_zombies(core, epoch, &g);
	last = core->state == CORE_QUIESCED && core->epoch == epoch;
	if (last) {
		core_spin_lock(&core->dispatch);
		core->era++;
		core_spin_unlock(&core->dispatch);
		clist_for_each_safe(pos, tmp, &core->clients)
			settle(core, clist_entry(pos, struct core_client, node), &g);
		core_spin_lock(&core->dispatch);
		core_write_once(core->state, CORE_DETACHED);
		core_spin_unlock(&core->dispatch);
		uncharge_devices(core);
	}
	core_mutex_unlock(&core->lock);
	collect_unlocked(core, &g);
	return last;
}

void core_expire(struct core *core)
{
	struct core_garbage g;

	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	if (core->state == CORE_DETACHED)
		fail_all_queued(core, &g);
	core_mutex_unlock(&core->lock);
	collect_unlocked(core, &g);
}

/* The link sleeps, if it must, after it has seen ready == 0. */
int core_fetch(struct core *core, struct arax_fetch *a)
{
	struct core_garbage g;
	bool more;

	if (a->flags)
		return -EOPNOTSUPP;
	if (a->pad)
		return -EINVAL;
	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	if (core->state != CORE_LIVE) {
		core_unlock_collect(core, &g);
		return -ENOTCONN;
	}
	more = core_dispatch_flush(core, &g);
	a->ready = more || core->tail != core_read_once(core->page->head);
	core_unlock_collect(core, &g);
	return 0;
}

int core_mediator_charge(struct core *core, const struct arax_charge *a)
{
	struct core_client *c;
	int err = -ENOENT;
	u64 *held;

	if (a->pad || a->delta == -0x7fffffffffffffffll - 1)
		return -EINVAL;
	if (a->resource != ARAX_RES_DEVICE_MEMORY && a->resource != ARAX_RES_MEMORY)
		return -EOPNOTSUPP;
	core_spin_lock(&core->dispatch);
	c = core_context_find(core, a->context);
	if (!c)
		goto unlock;
	held = a->resource == ARAX_RES_MEMORY ? &c->kept_memory : &c->device_memory;
	if (a->delta >= 0) {
		err = core_charge(c->tenant, c->user, a->resource, (u64)a->delta);
		if (!err)
			core_write_once(*held, *held + (u64)a->delta);
	} else if ((u64)-a->delta > *held) {
		err = -EINVAL;
	} else {
		core_uncharge(c->tenant, c->user, a->resource, (u64)-a->delta);
		core_write_once(*held, *held - (u64)-a->delta);
		err = 0;
	}
unlock:
	core_spin_unlock(&core->dispatch);
	return err;
}
