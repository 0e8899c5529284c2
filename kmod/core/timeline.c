// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Timelines: 64-bit counters that only grow.  Tasks and hosts advance them;
 * tasks, hosts and eventfds wait for a value.
 */
#include "core.h"

static bool reached(const struct core_timeline *tl, u64 value)
{
	return tl->value >= value || tl->error;
}

int core_timeline_create(struct core_client *c, struct arax_timeline_create *a)
{
	struct core_timeline *tl = core_alloc(sizeof(*tl));
	int err;

	if (!tl)
		return -ENOMEM;
	tl->refs = 1;
	tl->value = a->value;
	clist_init(&tl->reached);
	core_mutex_lock(&c->lock);
	err = core_client_add(c, CORE_TIMELINE, tl, &a->handle);
	core_mutex_unlock(&c->lock);
	if (err)
		core_free(tl);
	return err;
}

static void take_event(struct core_event *e, struct core_garbage *g)
{
	g->points++;
	cheap_remove(&e->tl->events, &e->by_value);
	e->tl->nr_events--;
	clist_del(&e->node);
	core_garbage_throw(&g->events, &e->node);
}

/*
 * The last reference: no task and no waiter is left, for each holds one; an
 * armed eventfd does not, it dies unsignalled.
 */
void core_timeline_put_locked(struct core_timeline *tl, struct core_garbage *g)
{
	core_warn_on(!tl->refs);
	if (--tl->refs)
		return;
	core_warn_on(tl->tasks || tl->waiters);
	clist_del(&tl->reached);
	while (tl->events)
		take_event(cheap_entry(tl->events, struct core_event, by_value), g);
	core_garbage_throw(&g->timelines, &tl->garbage);
}

void core_timeline_put(struct core *core, struct core_timeline *tl)
{
	struct core_garbage g;

	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	core_timeline_put_locked(tl, &g);
	core_unlock_collect(core, &g);
}

static struct core_timeline *get(struct core_client *c, u32 handle)
{
	struct core_timeline *tl;

	core_mutex_lock(&c->lock);
	tl = core_handle_find(&c->handles, CORE_TIMELINE, handle);
	if (tl) {
		core_spin_lock(&c->core->dispatch);
		tl->refs++;
		core_spin_unlock(&c->core->dispatch);
	}
	core_mutex_unlock(&c->lock);
	return tl;
}

int core_timeline_destroy(struct core_client *c, u32 handle)
{
	struct core_timeline *tl;

	core_mutex_lock(&c->lock);
	tl = core_client_remove(c, CORE_TIMELINE, handle);
	core_mutex_unlock(&c->lock);
	if (!tl)
		return -EBADF;
	core_timeline_put(c->core, tl);
	return 0;
}

/* The first of them if its value is reached, or NULL. */
static struct cheap *first_reached(const struct core_timeline *tl, struct cheap *waiting)
{
	struct cheap *n = cheap_first(waiting);

	return n && reached(tl, n->key) ? n : NULL;
}

/* Those at the mediator are released by a note, see dispatch.c. */
void core_timeline_release(struct core *core, u32 max)
{
	core_spin_assert(&core->dispatch);
	while (max && !clist_empty(&core->reached)) {
		struct core_timeline *tl = clist_first(&core->reached, struct core_timeline,
						       reached);

		struct cheap *n;

		for (; max && (n = first_reached(tl, tl->tasks)); max--) {
			struct core_task *t = cheap_entry(n, struct core_task, tl_node);

			cheap_remove(&tl->tasks, &t->tl_node);
			t->blocked = false;
			t->d.error = tl->error;
			if (t->state == CORE_TASK_DISPATCHED)
				core_note_task(core, t, CORE_NOTE_UNBLOCK);
		}
		/* The next one has its turn first. */
		clist_del(&tl->reached);
		if (first_reached(tl, tl->tasks))
			clist_add_tail(&tl->reached, &core->reached);
	}
}

void core_timeline_reach(struct core *core, struct core_timeline *tl, u64 value, s32 error,
			 struct core_garbage *g)
{
	struct cheap *n;

	core_spin_assert(&core->dispatch);
	if (value > tl->value)
		tl->value = value;
	if (error && !tl->error)
		tl->error = error;
	if (first_reached(tl, tl->tasks) && clist_empty(&tl->reached)) {
		clist_add_tail(&tl->reached, &core->reached);
		g->flush = true;
	}
	/* A point that is reached stays so: whoever waits need not be woken for it again. */
	while ((n = first_reached(tl, tl->waiters))) {
		struct core_wait_point *p = cheap_entry(n, struct core_wait_point, by_value);

		g->points++;
		cheap_remove(&tl->waiters, n);
		/* Pairs with the acquire in core_wait_poll(). */
		core_store_release(&p->waits, false);
		/* Whoever sees it sees that this one waits no more; pairs with conn_check_pending(). */
		core_store_release(&p->client->reached, p->client->reached + 1);
		if (clist_empty(&p->client->wake))
			clist_add_tail(&p->client->wake, &g->wake);
	}
	while ((n = first_reached(tl, tl->events))) {
		struct core_event *e = cheap_entry(n, struct core_event, by_value);

		e->fired = true;
		take_event(e, g);
	}
}

bool core_timeline_disarm_some(struct core_client *c, struct core_garbage *g)
{
	u32 n;

	core_spin_assert(&c->core->dispatch);
	for (n = 0; n < CORE_STEP && !clist_empty(&c->events); n++)
		take_event(clist_first(&c->events, struct core_event, node), g);
	return !clist_empty(&c->events);
}

void core_timeline_disarm(struct core_client *c)
{
	struct core *core = c->core;
	struct core_garbage g;
	bool more;

	do {
		core_garbage_init(&g);
		core_spin_lock(&core->dispatch);
		more = core_timeline_disarm_some(c, &g);
		core_unlock_collect(core, &g);
		core_resched();
	} while (more);
}

int core_timeline_query(struct core_client *c, struct arax_timeline_point *a)
{
	struct core_timeline *tl;

	if (a->pad)
		return -EINVAL;
	tl = get(c, a->handle);
	if (!tl)
		return -EBADF;
	core_spin_lock(&c->core->dispatch);
	a->value = tl->value;
	a->error = tl->error;
	core_spin_unlock(&c->core->dispatch);
	core_timeline_put(c->core, tl);
	return 0;
}

/* EINVAL: it can't go back. */
int core_timeline_advance(struct core_client *c, const struct arax_timeline_point *a)
{
	struct core *core = c->core;
	struct core_timeline *tl;
	struct core_garbage g;
	int err = 0;

	if (a->pad || a->error > 0 || a->error < -4095)
		return -EINVAL;
	tl = get(c, a->handle);
	if (!tl)
		return -EBADF;
	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	if (a->value < tl->value)
		err = -EINVAL;
	else
		core_timeline_reach(core, tl, a->value, a->error, &g);
	core_timeline_put_locked(tl, &g);
	core_dispatch_flush(core, &g);
	core_unlock_collect(core, &g);
	return err;
}

int core_timeline_eventfd(struct core_client *c, const struct arax_timeline_eventfd *a)
{
	struct core *core = c->core;
	struct core_timeline *tl;
	struct core_garbage g;
	struct core_event *e;
	int err = 0;

	if (a->pad)
		return -EINVAL;
	e = core_alloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->event = core->ops->event_get(c, a->fd, &err);
	if (!e->event)
		goto free;
	tl = get(c, a->handle);
	if (!tl) {
		core->ops->event_end(e->event, false);
		err = -EBADF;
		goto free;
	}
	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	if (reached(tl, a->value)) {
		e->fired = true;
		core_garbage_throw(&g.events, &e->node);
	} else if (c->dead) {
		/* What it had armed has gone, or is going. */
		core_garbage_throw(&g.events, &e->node);
		err = -(int)c->dead;
	} else if (tl->nr_events == CORE_MAX_EVENTS) {
		core_garbage_throw(&g.events, &e->node);
		err = -ENOSPC;
	} else {
		e->tl = tl;
		cheap_insert(&tl->events, &e->by_value, a->value);
		tl->nr_events++;
		clist_add_tail(&e->node, &c->events);
	}
	core_timeline_put_locked(tl, &g);
	core_unlock_collect(core, &g);
	return err;
free:
	core_free(e);
	return err;
}

int core_timeline_export(struct core_client *c, struct arax_timeline_share *a)
{
	struct core_timeline *tl;
	int fd;

	if (a->pad)
		return -EINVAL;
	tl = get(c, a->handle);
	if (!tl)
		return -EBADF;
	fd = c->core->ops->timeline_export(c, tl);
	if (fd < 0) {
		core_timeline_put(c->core, tl);
		return fd;
	}
	a->fd = fd;
	return 0;
}

int core_timeline_import(struct core_client *c, struct arax_timeline_share *a)
{
	struct core_timeline *tl;
	int err = 0;

	if (a->pad)
		return -EINVAL;
	tl = c->core->ops->timeline_import(c, a->fd, &err);
	if (!tl)
		return err;
	core_mutex_lock(&c->lock);
	err = core_client_add(c, CORE_TIMELINE, tl, &a->handle);
	core_mutex_unlock(&c->lock);
	if (err)
		core_timeline_put(c->core, tl);
	return err;
}

int core_wait_begin(struct core_client *c, const struct arax_wait *a, struct core_wait *w)
{
	struct core *core = c->core;
	bool full;
	u32 i;

	if (a->flags & ~ARAX_WAIT_FLAGS)
		return -EOPNOTSUPP;
	if (!a->count || a->count > ARAX_WAIT_MAX)
		return -EINVAL;
	for (i = 0; i < a->count; i++)
		if (a->points[i].pad)
			return -EINVAL;
	memset(w, 0, sizeof(*w));
	w->client = c;
	w->flags = a->flags;
	for (i = 0; i < a->count; i++) {
		struct core_wait_point *p = &w->points[i];

		p->client = c;
		p->tl = get(c, a->points[i].timeline);
		if (!p->tl) {
			core_wait_end(w);
			return -EBADF;
		}
		core_spin_lock(&core->dispatch);
		p->by_value.key = a->points[i].value;
		p->waits = !reached(p->tl, p->by_value.key);
		if (p->waits)
			cheap_insert(&p->tl->waiters, &p->by_value, p->by_value.key);
		full = ++p->tl->nr_waiters > CORE_MAX_WAITERS;
		core_spin_unlock(&core->dispatch);
		w->count++;
		if (full) {
			core_wait_end(w);
			return -ENOSPC;
		}
	}
	return 0;
}

/*
 * Without a lock: whatever of its client's has ended, all that it waits for is looked at, and that
 * may be thousands of points.
 */
int core_wait_poll(struct core_wait *w, u32 *index)
{
	u32 i, n = 0, dead;

	for (i = 0; i < w->count; i++) {
		/* Pairs with the release in core_timeline_reach(). */
		if (core_load_acquire(&w->points[i].waits))
			continue;
		if (!n++)
			*index = i;
	}
	if (n == w->count || (n && !(w->flags & ARAX_WAIT_ALL)))
		return 0;
	dead = core_read_once(w->client->dead);
	return dead ? -(int)dead : CORE_WAIT_PENDING;
}

void core_wait_end(struct core_wait *w)
{
	struct core *core = w->client->core;
	struct core_garbage g;
	u32 i = 0;

	while (i < w->count) {
		core_garbage_init(&g);
		core_spin_lock(&core->dispatch);
		for (; i < w->count && !core_step_over(&g); i++) {
			struct core_wait_point *p = &w->points[i];

			if (p->waits)
				cheap_remove(&p->tl->waiters, &p->by_value);
			p->tl->nr_waiters--;
			/* With the last one go the eventfds on it. */
			core_timeline_put_locked(p->tl, &g);
		}
		core_unlock_collect(core, &g);
	}
	w->count = 0;
}
