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
 */
#include "core.h"

static void set_epoch(struct core *core, u32 epoch)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &core->clients) {
		struct core_client *c = clist_entry(pos, struct core_client, node);

		if (!c->ready || !c->region)
			continue;
		core_write_once(core_ctl(c)->epoch, epoch);
		/* Sleepers look at the epoch too. */
		core->ops->client_wake(c);
	}
}

static void fail_queued(struct core *core, struct core_client *c, struct core_garbage *g)
{
	struct core_result r = { .result = -EOWNERDEAD, .device = ~0u };
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &c->queued)
		core_complete(core, clist_entry(pos, struct core_task, node), &r, g);
	clist_del(&c->backlog);
}

/*
 * With core->lock held, so that clients stay; the garbage is collected by the
 * caller after it has dropped core->lock.  core->dispatch is held per client.
 */
static void fail_all_queued(struct core *core, struct core_garbage *g)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &core->clients) {
		core_spin_lock(&core->dispatch);
		fail_queued(core, clist_entry(pos, struct core_client, node), g);
		core_spin_unlock(&core->dispatch);
		core_resched();
	}
}

static void collect_unlocked(struct core *core, struct core_garbage *g)
{
	core_spin_lock(&core->dispatch);
	core_unlock_collect(core, g);
}

/* The old mediator is stuck: its tasks fail, what they use stays held. */
static void abandon(struct core *core, struct core_garbage *g)
{
	struct core_result r = { .result = -EOWNERDEAD, .device = ~0u };
	struct clist *pos, *tmp, *tp, *tt;

	clist_for_each_safe(pos, tmp, &core->clients) {
		struct core_client *c = clist_entry(pos, struct core_client, node);

		core_spin_lock(&core->dispatch);
		clist_for_each_safe(tp, tt, &c->dispatched) {
			struct core_task *t = clist_entry(tp, struct core_task, node);

			core_complete_held(core, t, &r, g);
			clist_add_tail(&t->node, &core->zombies);
		}
		core_spin_unlock(&core->dispatch);
	}
}

/* With core->lock held: its device memory died with the mediator. */
static void uncharge_devices(struct core *core)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &core->clients) {
		struct core_client *c = clist_entry(pos, struct core_client, node);

		core_uncharge(c->tenant, c->user, ARAX_RES_DEVICE_MEMORY, c->device_memory);
		core_write_once(c->device_memory, 0);
	}
}

int core_attach(struct core *core, struct arax_attach *a)
{
	size_t states = ((size_t)core->params.slots * sizeof(u32) + 4095) & ~(size_t)4095;
	size_t commits = CORE_COMMIT_ENTRIES * sizeof(struct arax_commit_entry);
	size_t ring_bytes = (size_t)core->params.cells * ARAX_CELL_SIZE;
	size_t shared_bytes = 4096 + states + commits;
	struct core_garbage g;
	u8 *ring, *shared;
	int err = 0;
	u32 i;

	if (a->flags & ~ARAX_ATTACH_FLAGS)
		return -EOPNOTSUPP;
	if (a->flags == ARAX_ATTACH_FLAGS)
		return -EINVAL;		/* take over and replay exclude each other */
	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	if (core->state == CORE_LIVE ||
	    (core->state == CORE_QUIESCED && !(a->flags & ARAX_ATTACH_TAKEOVER))) {
		core_mutex_unlock(&core->lock);
		return -EBUSY;
	}
	ring = core->ops->mediator_alloc(core, ring_bytes, false);
	shared = core->ops->mediator_alloc(core, shared_bytes, true);
	if (!ring || !shared) {
		err = -ENOMEM;
		goto free;
	}
	if (core->state == CORE_QUIESCED) {
		abandon(core, &g);
		uncharge_devices(core);
	}
	if (!(a->flags & ARAX_ATTACH_RECOVER))
		fail_all_queued(core, &g);

	core_spin_lock(&core->dispatch);
	core->ring = ring;
	core->page = (void *)shared;
	core->states = (void *)(shared + 4096);
	core->commits = (void *)(shared + 4096 + states);
	core->page->states_offset = 4096;
	core->page->commits_offset = (u32)(4096 + states);
	/* No word of the empty ring may look published: the first is 1. */
	for (i = 0; i < core->params.cells; i++)
		((struct arax_dispatch *)(ring + (size_t)i * ARAX_CELL_SIZE))->seq = i;
	core->tail = 0;
	core_write_once(core->epoch, core->epoch == 0xffff ? 1 : core->epoch + 1);
	core_write_once(core->state, CORE_LIVE);
	set_epoch(core, core->epoch);
	core_dispatch_flush(core, &g);
	core_spin_unlock(&core->dispatch);
	a->epoch = core->epoch;
	a->cells = core->params.cells;
	a->slots = core->params.slots;
	a->commit_entries = CORE_COMMIT_ENTRIES;
	a->dispatch_offset = 0;
	a->dispatch_bytes = ring_bytes;
	a->shared_offset = (ring_bytes + 4095) & ~(u64)4095;
	a->shared_bytes = shared_bytes;
	core_mutex_unlock(&core->lock);
	collect_unlocked(core, &g);
	return 0;
free:
	if (ring)
		core->ops->mediator_free(core, ring, false);
	if (shared)
		core->ops->mediator_free(core, shared, true);
	core_mutex_unlock(&core->lock);
	return err;
}

/* Notes have no reader now: the mediator's maps and contexts die with it. */
static void drop_notes(struct core *core, struct core_garbage *g)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &core->task_notes) {
		clist_entry(pos, struct core_task, note)->notes = 0;
		clist_del(pos);
	}
	clist_for_each_safe(pos, tmp, &core->drop_notes)
		clist_del(pos);
	clist_for_each_safe(pos, tmp, &core->gone_notes) {
		struct core_client *c = clist_entry(pos, struct core_client, note);

		clist_del(pos);
		c->noted = true;
		core_client_check_free(c, g);
	}
}

void core_detach(struct core *core)
{
	struct clist *pos, *tmp, *tp, *tt;
	struct core_garbage g;
	void *ring, *page, *object;
	enum core_type type;
	u32 i;

	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	if (core->state != CORE_LIVE) {
		core_mutex_unlock(&core->lock);
		return;
	}
	core_spin_lock(&core->dispatch);
	core_write_once(core->state, CORE_QUIESCED);
	clist_for_each_safe(pos, tmp, &core->clients) {
		struct core_client *c = clist_entry(pos, struct core_client, node);

		clist_for_each_safe(tp, tt, &c->dispatched) {
			struct core_task *t = clist_entry(tp, struct core_task, node);
			u32 slot = ARAX_TAG_SLOT(t->d.tag);

			/* Any other word than IDLE, a corrupt one too, is "started". */
			t->started = core_read_once(core->states[slot]) != ARAX_SLOT_IDLE;
		}
	}
	for (i = 0; (object = core_handle_next(&core->buffers, &i, &type)); i++) {
		struct core_buffer *buf = object;
		u32 k;

		buf->mediated = false;
		for (k = 0; k < buf->nr_dirty; k++)
			core_extent_add(buf->lost, &buf->nr_lost, buf->dirty[k].start,
					buf->dirty[k].end);
		buf->nr_dirty = 0;
	}
	drop_notes(core, &g);
	ring = core->ring;
	page = core->page;
	core->ring = NULL;
	core->page = NULL;
	core->states = NULL;
	core->commits = NULL;
	set_epoch(core, 0);
	core_spin_unlock(&core->dispatch);
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
	return core_reads_lost(t) ? -EIO : 0;
}

/*
 * One client's tasks of the old mediator: what had not started, or may run
 * twice, goes back to the head of its queue in the old order; the rest fails,
 * and what depended on it.  So does what reads bytes that were lost: it was
 * accepted when they were still there.
 */
static void settle(struct core *core, struct core_client *c, struct core_garbage *g)
{
	struct core_result r = { .device = ~0u };
	struct clist *pos, *tmp, old;

	clist_init(&old);
	clist_splice_tail(&c->dispatched, &old);
	/* All of them in front of what was queued, so that the pass sees all. */
	clist_splice_tail(&c->queued, &old);
	clist_splice_tail(&old, &c->queued);
	clist_for_each_safe(pos, tmp, &c->queued) {
		struct core_task *t = clist_entry(pos, struct core_task, node);

		r.result = settle_error(c, t);
		if (r.result) {
			core_fail_mark(core, t);
			core_complete(core, t, &r, g);
			continue;
		}
		if (t->state == CORE_TASK_QUEUED)
			continue;
		core_slot_free(core, t);
		t->state = CORE_TASK_QUEUED;
		/* It will be dispatched as it is then: notes came too late. */
		clist_del(&t->note);
		t->notes = 0;
	}
	core_fail_pass(core, c, g);
	if (!clist_empty(&c->queued) && clist_empty(&c->backlog))
		clist_add_tail(&c->backlog, &core->backlog);
}

void core_mediator_gone(struct core *core)
{
	struct core_garbage g;
	struct clist *pos, *tmp;

	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	core_spin_lock(&core->dispatch);
	clist_for_each_safe(pos, tmp, &core->zombies)
		core_task_release(core, clist_entry(pos, struct core_task, node), &g);
	core_spin_unlock(&core->dispatch);
	if (core->state == CORE_QUIESCED) {
		clist_for_each_safe(pos, tmp, &core->clients) {
			core_spin_lock(&core->dispatch);
			settle(core, clist_entry(pos, struct core_client, node), &g);
			core_spin_unlock(&core->dispatch);
			core_resched();
		}
		core_spin_lock(&core->dispatch);
		core_write_once(core->state, CORE_DETACHED);
		core_spin_unlock(&core->dispatch);
		uncharge_devices(core);
	}
	core_mutex_unlock(&core->lock);
	collect_unlocked(core, &g);
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
	core_dispatch_flush(core, &g);
	a->ready = core->tail != core_read_once(core->page->head);
	core_unlock_collect(core, &g);
	return 0;
}

int core_mediator_charge(struct core *core, const struct arax_charge *a)
{
	struct core_client *c = NULL;
	struct clist *pos, *tmp;
	int err = -ENOENT;

	if (a->pad || a->delta == -0x7fffffffffffffffll - 1)
		return -EINVAL;
	if (a->resource != ARAX_RES_DEVICE_MEMORY)
		return -EOPNOTSUPP;
	core_mutex_lock(&core->lock);
	clist_for_each_safe(pos, tmp, &core->clients) {
		c = clist_entry(pos, struct core_client, node);
		if (c->id == a->context)
			break;
		c = NULL;
	}
	if (!c)
		goto unlock;
	if (a->delta >= 0) {
		err = core_charge(c->tenant, c->user, a->resource, (u64)a->delta);
		if (!err)
			core_write_once(c->device_memory, c->device_memory + (u64)a->delta);
	} else if ((u64)-a->delta > c->device_memory) {
		err = -EINVAL;
	} else {
		core_uncharge(c->tenant, c->user, a->resource, (u64)-a->delta);
		core_write_once(c->device_memory, c->device_memory - (u64)-a->delta);
		err = 0;
	}
unlock:
	core_mutex_unlock(&core->lock);
	return err;
}
