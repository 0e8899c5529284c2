// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Clients: one open file, one context.  The structure lives until its link has
 * released it, its last task is committed and the mediator has been told.
 */
#include "core.h"

#define BEGIN_TASKS	64u	/* some pages */

/* Ids are 32 bits: their upper ones are the first that the tree looks at. */
static u64 context_key(u32 id)
{
	return (u64)id << 32;
}

static struct core_client *context_from(struct core *core, u32 id)
{
	struct core_node *n = core_tree_from(core->contexts, context_key(id));

	return n ? core_node_entry(n, struct core_client) : NULL;
}

struct core_client *core_context_find(struct core *core, u32 id)
{
	struct core_client *c = context_from(core, id);

	return c && c->id == id ? c : NULL;
}

/*
 * An id says whose buffers and tasks something is, here and at the mediator: who opens and
 * closes for hours until the counter has come round gets nobody else's.
 */
static void give_id(struct core *core, struct core_client *c)
{
	do
		c->id = core->next_client++;
	while (!c->id || core_context_find(core, c->id));
	c->serial = core->next_serial++;
	c->by_id.id = context_key(c->id);
	core_spin_lock(&core->dispatch);
	*core_tree_place(&core->contexts, c->by_id.id) = &c->by_id;
	core_spin_unlock(&core->dispatch);
}

struct core_client *core_client_create(struct core *core, void *link, u32 uid, u32 gid,
				       s32 pid, const char *comm, struct core_tenant *tenant,
				       int *err)
{
	struct core_client *c;
	struct clist spares;

	*err = -ENOMEM;
	c = core_alloc(sizeof(*c));
	if (!c)
		return NULL;
	clist_init(&spares);
	if (core_spares_make(&spares, 1)) {
		core_free(c);
		return NULL;
	}
	core_mutex_init(&c->lock);
	core_handles_init(&c->handles, core->params.max_handles);
	c->core = core;
	c->link = link;
	c->uid = uid;
	c->gid = gid;
	c->pid = pid;
	memcpy(c->comm, comm, strnlen(comm, sizeof(c->comm) - 1));
	clist_init(&c->free);
	clist_init(&c->freed);
	clist_init(&c->queued);
	clist_init(&c->exam);
	clist_init(&c->dispatched);
	clist_init(&c->cursor);
	clist_init(&c->backlog);
	clist_init(&c->share);
	clist_init(&c->events);
	clist_init(&c->wake);
	clist_init(&c->note);
	clist_init(&c->node);

	core_mutex_lock(&core->lock);
	c->user = core_user_get(core, uid, &spares);
	c->tenant = tenant;
	give_id(core, c);
	core->nr_clients++;
	core_mutex_unlock(&core->lock);
	core_spares_free(&spares);
	*err = 0;
	return c;
}

static size_t tasks_bytes(u32 depth)
{
	return sizeof(struct core_task) * (size_t)depth;
}

/* Which the link may be rid of elsewhere. */
static bool memory_taken(const struct core_client *c, void *mem)
{
	if (!mem || !c->core->ops->client_memory_free)
		return false;
	c->core->ops->client_memory_free(c, mem);
	return true;
}

static void free_memory(const struct core_client *c, void *mem)
{
	if (!memory_taken(c, mem))
		core_free(mem);
}

void core_client_end(struct core_client *c)
{
	/* Whoever sees that its last task has ended may open another one. */
	if (c->ready)
		core_uncharge(c->tenant, c->user, ARAX_RES_CONTEXTS, 1);
	if (c->core->ops->client_end)
		c->core->ops->client_end(c);
	else
		core_client_free(c);
}

/* No lock is needed: nothing can find it any more. */
void core_client_free(struct core_client *c)
{
	struct core *core = c->core;

	core_warn_on(c->nr_tasks || c->nr_zombies || core_atomic_read(&c->sleepers) ||
		     core_atomic_read(&c->waiters));
	core_warn_on(core_has_queued(c) || !clist_empty(&c->dispatched) || c->fail_mark ||
		     c->ended_mark);
	core_mutex_lock(&core->lock);
	clist_del(&c->node);
	core_spin_lock(&core->dispatch);
	core_tree_unlink(&core->contexts, &c->by_id);
	core_spin_unlock(&core->dispatch);
	core_uncharge(c->tenant, c->user, ARAX_RES_DEVICE_MEMORY, c->device_memory);
	core_uncharge(c->tenant, c->user, ARAX_RES_MEMORY, c->kept_memory);
	core->nr_clients--;
	core_tenant_put(core, c->tenant);
	core_tenant_put(core, c->user);
	core_mutex_unlock(&core->lock);
	while (c->rooms) {
		struct core_room *room = c->rooms;

		c->rooms = room->next;
		core_free(room);
		core_resched();
	}
	while (c->more_tasks) {
		struct core_more_tasks *more = c->more_tasks;

		c->more_tasks = more->next;
		free_memory(c, more);
	}
	if (!memory_taken(c, c->tasks))
		core_free_sparse(c->tasks, tasks_bytes(c->depth));
	core_free(c->whys);
	free_memory(c, core_handles_take(&c->handles));
	core_mutex_destroy(&c->lock);
	core_free(c);
}

void core_client_check_free(struct core_client *c, struct core_garbage *g)
{
	if (!c->gone || c->nr_tasks || c->nr_zombies || !c->noted)
		return;
	core_fail_end(c->core, c);
	core_fail_end_ended(c->core, c);
	clist_del(&c->wake);
	core_garbage_throw(&g->clients, &c->wake);
	c->noted = false;	/* once */
}

/* Dead at once: nothing of it is queued or dispatched any more. */
static void die(struct core_client *c, u32 error, struct core_garbage *g)
{
	struct core *core = c->core;

	core_write_once(c->dead, error);
	if (c->ready && c->region)
		core_write_once(core_ctl(c)->dead, error);
	core_backlog_leave(c);
	/* What is dispatched, the mediator is told to drop. */
	if (core->state == CORE_LIVE && c->peak_tasks) {
		if (clist_empty(&c->note))
			clist_add_tail(&c->note, &core->gone_notes);
	} else {
		c->noted = true;
	}
	if (clist_empty(&c->wake))
		clist_add_tail(&c->wake, &g->wake);
	core_dispatch_flush(core, g);
}

/* Some of what is queued vanishes; returns false when all has. */
static bool drop_step(struct core_client *c, struct core_garbage *g)
{
	struct core_result r = { .result = -ECANCELED, .device = ~0u };
	u32 n;

	clist_splice_tail(&c->exam, &c->queued);
	core_backlog_leave(c);
	for (n = 0; n < CORE_STEP && !clist_empty(&c->queued) && !core_step_over(g); n++)
		core_complete(c->core, clist_first(&c->queued, struct core_task, node), &r, g);
	/* On timelines that others have, too: it would take the places of who is still there. */
	if (core_timeline_disarm_some(c, g) || !clist_empty(&c->queued))
		return true;
	core_fail_end(c->core, c);
	return false;
}

void core_client_kill(struct core_client *c, u32 error)
{
	struct core *core = c->core;
	struct core_garbage g;
	bool more = true;

	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	if (c->dead)
		more = false;
	else
		die(c, error, &g);
	core_unlock_collect(core, &g);
	while (more) {
		core_garbage_init(&g);
		core_spin_lock(&core->dispatch);
		more = drop_step(c, &g);
		core_unlock_collect(core, &g);
		core_resched();
	}
}

static int take_one(core_atomic *of, u64 max)
{
	u64 used = core_atomic_read(of);

	do {
		if (max && used >= max)
			return -ENOSPC;
	} while (!core_atomic_try_cmpxchg(of, &used, used + 1));
	return 0;
}

static int take_share(struct core *core, struct core_tenant *user)
{
	return take_one(&user->handles, core->params.user_handles);
}

int core_user_handle_take(struct core *core, struct core_tenant *user)
{
	int err = take_one(&user->outside, core->params.max_handles);

	if (err)
		return err;
	err = take_share(core, user);
	if (err) {
		core_atomic_sub_return(&user->outside, 1);
		return err;
	}
	core_mutex_lock(&core->lock);
	core_tenant_hold(core, user);
	core_mutex_unlock(&core->lock);
	return 0;
}

void core_user_handle_give(struct core *core, struct core_tenant *user)
{
	core_atomic_sub_return(&user->handles, 1);
	core_atomic_sub_return(&user->outside, 1);
	core_mutex_lock(&core->lock);
	core_tenant_put(core, user);
	core_mutex_unlock(&core->lock);
}

int core_client_add(struct core_client *c, enum core_type type, void *object, u32 *handle)
{
	int err;

	core_mutex_assert(&c->lock);
	err = take_share(c->core, c->user);
	if (err)
		return err;
	err = core_handle_add(&c->handles, type, object, handle);
	if (err)
		core_atomic_sub_return(&c->user->handles, 1);
	else
		core_client_count(c, type, 1);
	return err;
}

void *core_client_remove(struct core_client *c, enum core_type type, u32 handle)
{
	void *object;

	core_mutex_assert(&c->lock);
	object = core_handle_remove(&c->handles, type, handle);
	if (object) {
		core_client_count(c, type, -1);
		core_atomic_sub_return(&c->user->handles, 1);
	}
	return object;
}

void core_client_release(struct core_client *c)
{
	struct core *core = c->core;
	struct core_buffer *ring;
	struct core_garbage g;
	enum core_type type;
	void *object;
	u32 i, handle;

	core_client_kill(c, EPIPE);

	/* Nobody else holds the file: the lock only pleases its checkers. */
	core_garbage_init(&g);
	core_mutex_lock(&c->lock);
	for (i = 0; (object = core_handle_next(&c->handles, &i, &type)); i++) {
		handle = i | (u32)c->handles.e[i].gen << CORE_HANDLE_BITS;
		core_handle_remove(&c->handles, type, handle);
		core_spin_lock(&core->dispatch);
		if (type == CORE_BUFFER)
			core_buffer_put_locked(object, &g);
		else if (type == CORE_QUEUE)
			core_queue_put_locked(object, &g);
		else
			core_timeline_put_locked(object, &g);
		core_spin_unlock(&core->dispatch);
		core_resched();
	}
	core_atomic_sub_return(&c->user->handles, c->nr[CORE_QUEUE] + c->nr[CORE_TIMELINE]);
	core_mutex_unlock(&c->lock);

	core_spin_lock(&core->dispatch);
	ring = c->ring_buf;
	c->ring_buf = NULL;
	c->region = NULL;	/* who holds core->dispatch looks here first */
	core_unlock_collect(core, &g);
	/* Another one who kills it may be at it still. */
	core_timeline_disarm(c);
	if (ring) {
		core->ops->ring_free(c);
		core_buffer_put(ring);
	}

	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	c->gone = true;
	core_client_check_free(c, &g);
	core_unlock_collect(core, &g);
}

static void tasks_init(struct core_client *c, struct core_task *tasks, u32 n, struct clist *list)
{
	u32 i;

	for (i = 0; i < n; i++) {
		tasks[i].client = c;
		clist_init(&tasks[i].node);
		clist_init(&tasks[i].note);
		clist_add_tail(&tasks[i].node, list);
	}
}

/*
 * Few clients have as many in flight as their depth allows: to touch all of them when a context is
 * made takes the longer the deeper it is, and memory that may never be used.
 */
void core_client_begin_tasks(struct core_client *c)
{
	u32 n = c->depth - c->nr_begun;

	if (n > BEGIN_TASKS)
		n = BEGIN_TASKS;
	tasks_init(c, c->tasks + c->nr_begun, n, &c->free);
	c->nr_begun += n;
}

void core_client_more_tasks(struct core_client *c)
{
	struct core_more_tasks *more;
	struct clist fresh;
	u32 n;

	core_mutex_assert(&c->core->lock);
	/* Those that were made before have come back, or are among them. */
	if (c->nr_zombies <= c->nr_more_tasks)
		return;
	n = c->nr_zombies - c->nr_more_tasks;
	more = core_alloc(sizeof(*more) + sizeof(*more->tasks) * (size_t)n);
	if (!more)
		return;
	clist_init(&fresh);
	tasks_init(c, more->tasks, n, &fresh);
	more->next = c->more_tasks;
	c->more_tasks = more;
	c->nr_more_tasks += n;
	core_spin_lock(&c->core->dispatch);
	clist_splice_tail(&fresh, &c->freed);
	core_spin_unlock(&c->core->dispatch);
}

int core_context_init(struct core_client *c, struct arax_context_init *a)
{
	struct core *core = c->core;
	struct arax_layout l;
	struct core_task *tasks = NULL;
	struct core_buffer *ring;
	int err;

	if (a->flags || a->pad)
		return a->flags ? -EOPNOTSUPP : -EINVAL;
	if (arax_layout(a->depth, a->entry_size, a->arena_size, &l))
		return -EINVAL;
	core_mutex_lock(&c->lock);
	err = -EBUSY;
	if (c->ready)
		goto unlock;
	err = core_charge(c->tenant, c->user, ARAX_RES_CONTEXTS, 1);
	if (err)
		goto unlock;
	err = -ENOMEM;
	tasks = core_alloc_sparse(tasks_bytes(a->depth));
	if (!tasks)
		goto uncharge;
	ring = core_buffer_new(c, l.region_size, CORE_BUFFER_RING, &err);
	if (!ring)
		goto uncharge;
	c->ring_buf = ring;
	c->layout = l;
	err = core->ops->ring_alloc(c, a, l.region_size);
	if (err) {
		c->ring_buf = NULL;
		core_buffer_free(ring);
		goto uncharge;
	}
	c->tasks = tasks;
	core_write_once(c->depth, a->depth);	/* read by usage queries at any time */
	c->entry_size = a->entry_size;
	c->arena_size = a->arena_size;
	core_client_begin_tasks(c);
	/*
	 * From here on attach, detach and kill see the region.  Before that it is not among
	 * those whom they go through: no limit says how often a node is opened.
	 */
	core_mutex_lock(&core->lock);
	clist_add_tail(&c->node, &core->clients);
	core_spin_lock(&core->dispatch);
	core_write_once(core_ctl(c)->epoch, core->state == CORE_LIVE ? core->epoch : 0);
	core_write_once(core_ctl(c)->dead, c->dead);
	/* Pairs with the acquire in core_client_ready(). */
	core_store_release(&c->ready, true);
	core_spin_unlock(&core->dispatch);
	core_mutex_unlock(&core->lock);
	core_atomic_add(&c->memory, l.region_size);
	a->sq_offset = l.sq_offset;
	a->cq_offset = l.cq_offset;
	a->arena_offset = l.arena_offset;
	a->region_size = l.region_size;
	a->context = c->id;
	core_mutex_unlock(&c->lock);
	return 0;
uncharge:
	core_free_sparse(tasks, tasks_bytes(a->depth));
	core_uncharge(c->tenant, c->user, ARAX_RES_CONTEXTS, 1);
unlock:
	core_mutex_unlock(&c->lock);
	return err;
}

u32 core_client_unread(struct core_client *c)
{
	if (!core_client_ready(c) || !c->region)
		return 0;
	return core_read_once(c->cq_tail) - core_read_once(core_ctl(c)->cq_head);
}

int core_submit_check(const struct core_client *c, const struct arax_submit *a)
{
	if (a->flags & ~ARAX_SUBMIT_FLAGS)
		return -EOPNOTSUPP;
	if (a->min_complete > c->depth)
		return -EINVAL;
	if (a->flags & ARAX_SUBMIT_SEEN)
		return 0;
	return a->seen || a->flags & ARAX_SUBMIT_AS_ASKED ? -EINVAL : 0;
}

bool core_submit_done(struct core_client *c, const struct arax_submit *a)
{
	if (a->flags & ARAX_SUBMIT_AS_ASKED)
		return core_asked_for(c, a->seen);
	if (core_client_unread(c) >= a->min_complete)
		return true;
	return a->flags & ARAX_SUBMIT_SEEN && core_client_ready(c) && c->region &&
	       core_read_once(c->cq_tail) != a->seen;
}

/* The same words for the client itself, for `arax ps` and for fdinfo. */
static void context_usage(struct core_client *c, struct arax_usage *u)
{
	struct core *core = c->core;
	u32 i;

	memset(u->counters, 0, sizeof(u->counters));
	for (i = 0; i < ARAX_RES_MAX; i++)
		u->counters[i].max = ARAX_LIMIT_MAX;
	u->counters[ARAX_RES_MEMORY].used = core_atomic_read(&c->memory) +
					    core_read_once(c->kept_memory);
	u->counters[ARAX_RES_CONTEXTS].used = core_read_once(c->ready);
	u->counters[ARAX_RES_DEVICE_MEMORY].used = core_read_once(c->device_memory);
	core_spin_lock(&core->dispatch);
	u->counters[ARAX_RES_TASKS].used = c->nr_tasks;
	u->counters[ARAX_RES_TASKS].peak = c->peak_tasks;
	u->counters[ARAX_RES_TASKS].max = core_read_once(c->depth);
	u->device_ns = c->device_ns;
	u->wait_ns = c->wait_ns;
	u->tasks_done = c->tasks_done;
	u->tasks_failed = c->tasks_failed;
	core_spin_unlock(&core->dispatch);
	u->max_ns = ARAX_LIMIT_MAX;
	u->period_ns = 0;
	u->weight = core_read_once(c->tenant->weight);
}

int core_usage_query(struct core_client *c, struct arax_usage *a)
{
	if (a->pad)
		return -EINVAL;
	switch (a->scope) {
	case ARAX_USAGE_CONTEXT:
		context_usage(c, a);
		return 0;
	case ARAX_USAGE_TENANT:
		core_tenant_usage(c->core, c->tenant, a);
		return 0;
	case ARAX_USAGE_USER:
		core_tenant_usage(c->core, c->user, a);
		return 0;
	}
	return -EOPNOTSUPP;
}

/* core->lock keeps the client from being freed meanwhile. */
int core_context_query(struct core *core, struct arax_context *a)
{
	struct core_client *c;

	core_mutex_lock(&core->lock);
	c = context_from(core, a->id);
	if (!c) {
		core_mutex_unlock(&core->lock);
		return -ENOENT;
	}
	a->id = c->id;
	a->uid = c->uid;
	a->gid = c->gid;
	a->pid = c->pid;
	a->nr_buffers = core_read_once(c->nr[CORE_BUFFER]);
	a->nr_queues = core_read_once(c->nr[CORE_QUEUE]);
	a->nr_timelines = core_read_once(c->nr[CORE_TIMELINE]);
	a->depth = core_client_ready(c) ? c->depth : 0;
	a->tenant = c->tenant->id;
	memcpy(a->comm, c->comm, sizeof(a->comm));
	memset(&a->usage, 0, sizeof(a->usage));
	a->usage.size = sizeof(a->usage);
	a->usage.scope = ARAX_USAGE_CONTEXT;
	context_usage(c, &a->usage);
	a->flags = core_read_once(c->dead) || core_read_once(c->gone);
	core_mutex_unlock(&core->lock);
	return 0;
}

int core_context_kill(struct core *core, u32 id)
{
	struct core_garbage g;
	struct core_client *c;
	bool more = false;

	/*
	 * The garbage is collected only after core->lock, which keeps the client:
	 * collecting needs core->lock free.
	 */
	core_garbage_init(&g);
	core_mutex_lock(&core->lock);
	c = core_context_find(core, id);
	if (c) {
		core_spin_lock(&core->dispatch);
		more = !c->dead;
		if (more)
			die(c, EPIPE, &g);
		core_spin_unlock(&core->dispatch);
	}
	while (more) {
		core_spin_lock(&core->dispatch);
		more = drop_step(c, &g);
		core_spin_unlock(&core->dispatch);
		core_resched();
	}
	core_mutex_unlock(&core->lock);
	core_spin_lock(&core->dispatch);
	core_unlock_collect(core, &g);
	return c ? 0 : -ENOENT;
}
