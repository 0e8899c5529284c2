// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A core's birth and death, and the disposal of what locks must not free. */
#include "core.h"

struct core *core_create(const struct core_ops *ops, const struct core_params *params,
			 void *link, int *err)
{
	struct core *core;
	u32 i;

	*err = -EINVAL;
	if (params->cells < CORE_MIN_CELLS || params->cells > CORE_MAX_CELLS ||
	    params->cells & (params->cells - 1))
		return NULL;
	if (params->slots < 2 || params->slots > CORE_MAX_SLOTS)
		return NULL;
	*err = -ENOMEM;
	core = core_alloc(sizeof(*core));
	if (!core)
		return NULL;
	core->slots = core_alloc(sizeof(*core->slots) * (size_t)params->slots);
	if (!core->slots)
		goto free;
	core->ops = ops;
	core->params = *params;
	if (!core->params.user_buffers)
		core->params.user_buffers = CORE_USER_BUFFERS;
	core->link = link;
	core_mutex_init(&core->lock);
	core_spin_init(&core->dispatch);
	clist_init(&core->clients);
	clist_init(&core->idle);
	clist_init(&core->backlog);
	clist_init(&core->task_notes);
	clist_init(&core->drop_notes);
	clist_init(&core->gone_notes);
	clist_init(&core->reached);
	clist_init(&core->zombies);
	clist_init(&core->deferred);
	core->next_client = 1;
	core_handles_init(&core->buffers, (1u << CORE_HANDLE_BITS) - 2);
	/* Slot 0 ends the free list; a tag is therefore never 0. */
	for (i = 1; i < params->slots; i++) {
		core->slots[i].gen = 1;
		core->slots[i].next_free = i + 1 < params->slots ? i + 1 : 0;
	}
	core->slot_free = 1;
	core->slot_last = params->slots - 1;
	*err = 0;
	return core;
free:
	core_free(core);
	return NULL;
}

void core_destroy(struct core *core)
{
	u32 i;

	core_warn_on(!clist_empty(&core->clients));
	core_warn_on(core->state != CORE_DETACHED);
	core_warn_on(core->slots_used);
	core_tenants_destroy(core);
	core_handles_destroy(&core->buffers);
	for (i = 0; i < core->nr_kernels; i++)
		core_free(core->kernels[i]);
	for (i = 0; i < core->nr_devices; i++)
		core_free(core->devices[i]);
	core_free(core->slots);
	core_mutex_destroy(&core->lock);
	core_spin_destroy(&core->dispatch);
	core_free(core);
}

/* Has it been posted since @from?  The entries are the client's to spoil, for itself. */
static bool posted(const struct core_client *c, u32 from, u32 to, u64 user_data)
{
	const struct arax_completion *e;

	for (; from != to; from++) {
		e = (void *)(c->region + c->layout.cq_offset +
			     (size_t)(from & (c->depth - 1)) * sizeof(*e));
		if (core_read_once(e->user_data) == user_data)
			return true;
	}
	return false;
}

/* Is anything of what was posted in these places what a client asks to be woken for? */
static bool is_wanted(const struct core_client *c, u32 why, u32 from, u32 to)
{
	const struct arax_ring_ctl *ctl = core_ctl(c);

	if (why & ~(u32)(ARAX_WAKE_AT | ARAX_WAKE_FOR))
		return true;
	if ((why & ARAX_WAKE_AT) && (s32)(to - core_read_once(ctl->cq_wake_at)) >= 0)
		return true;
	/* More than a ring full have been posted: no need to look. */
	if (to - from > c->depth)
		return true;
	return (why & ARAX_WAKE_FOR) && posted(c, from, to, core_read_once(ctl->cq_wake_for));
}

/*
 * What is posted by now is looked at once: if it was before the client asked for it, the
 * client finds it by its own look.
 */
static bool wants_wake(struct core_client *c)
{
	u32 why, from = c->cq_looked;

	c->cq_looked = c->cq_tail;
	/* Who polls before it has a ring hears of its end. */
	if (!c->ready)
		return c->dead && !c->gone;
	if (!c->region)
		return false;
	/* Acquire: pairs with the client's release, after the words that go with it. */
	why = core_load_acquire(&core_ctl(c)->cq_need_wakeup);
	if (core_likely(!why))
		return c->dead && !c->gone;
	return c->dead || is_wanted(c, why, from, c->cq_tail);
}

bool core_asked_for(struct core_client *c, u32 seen)
{
	u32 why, tail;

	if (!core_client_ready(c) || !c->region)
		return false;
	tail = core_read_once(c->cq_tail);
	if (tail == seen)
		return false;
	/* As above. */
	why = core_load_acquire(&core_ctl(c)->cq_need_wakeup);
	return !why || is_wanted(c, why, seen, tail);
}

/* Has a point been reached that a call waits for, since the last time?  Or it waits for ever. */
static bool wants_points(struct core_client *c)
{
	if (core_likely(!core_atomic_read(&c->waiters)) || (c->reached == c->reached_told && !c->dead))
		return false;
	c->reached_told = c->reached;
	return true;
}

static u32 wanted(struct core_client *c)
{
	u32 what = wants_points(c) ? CORE_WAKE_POINTS : 0;

	return wants_wake(c) || core_atomic_read(&c->sleepers) ? what | CORE_WAKE_TASKS : what;
}

/*
 * Pairs with the full barrier of whoever sets a need_wakeup word and then looks at its
 * ring: either it sees our entry, or we its word.
 */
static void wake_clients(struct core *core, struct clist *list)
{
	struct clist *pos, *tmp;

	core_full_barrier();
	clist_for_each_safe(pos, tmp, list) {
		struct core_client *c = clist_entry(pos, struct core_client, wake);
		u32 what;

		clist_del(&c->wake);
		what = wanted(c);
		if (what)
			core->ops->client_wake(c, what);
	}
}

static void wake(struct core *core, struct core_garbage *g)
{
	if (clist_empty(&g->wake) && !g->mediator)
		return;
	if (g->defer_wake) {
		clist_splice_tail(&g->wake, &core->deferred);
		return;
	}
	wake_clients(core, &g->wake);
	if (g->mediator && core->page && core_read_once(core->page->need_wakeup))
		core->ops->mediator_wake(core);
}

void core_wake_deferred_locked(struct core *core)
{
	core_spin_assert(&core->dispatch);
	if (!clist_empty(&core->deferred))
		wake_clients(core, &core->deferred);
}

void core_wake_deferred(struct core *core)
{
	core_spin_lock(&core->dispatch);
	core_wake_deferred_locked(core);
	core_spin_unlock(&core->dispatch);
}

static struct clist *garbage_take(struct clist **heap)
{
	struct clist *n = *heap;

	if (n) {
		*heap = n->next;
		clist_init(n);
	}
	return n;
}

/* There may be as much of it as a client has tasks, or handles: others have their turn between. */
static core_noinline void collect(struct core *core, struct core_garbage *g)
{
	struct clist *n;

	while (g->bigs) {
		void *big = g->bigs;

		g->bigs = *(void **)big;
		core_free(big);
		core_resched();
	}
	while ((n = garbage_take(&g->queues))) {
		core_free(clist_entry(n, struct core_queue, garbage));
		core_resched();
	}
	while ((n = garbage_take(&g->events))) {
		struct core_event *e = clist_entry(n, struct core_event, node);

		core->ops->event_end(e->event, e->fired);
		core_free(e);
		core_resched();
	}
	while ((n = garbage_take(&g->timelines))) {
		core_free(clist_entry(n, struct core_timeline, garbage));
		core_resched();
	}
	while ((n = garbage_take(&g->buffers))) {
		core->ops->buffer_idle(clist_entry(n, struct core_buffer, garbage));
		core_resched();
	}
	while ((n = garbage_take(&g->clients)))
		core_client_end(clist_entry(n, struct core_client, wake));
}

void core_unlock_collect(struct core *core, struct core_garbage *g)
	core_releases(&core->dispatch)
{
	if (g->flush)
		core_dispatch_flush(core, g);
	wake(core, g);
	core_spin_unlock(&core->dispatch);
	if (!core_likely(!g->bigs && !g->queues && !g->events && !g->timelines && !g->buffers &&
			 !g->clients))
		collect(core, g);
}
