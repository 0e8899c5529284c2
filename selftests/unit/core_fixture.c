// SPDX-License-Identifier: MIT
/* The link in one process, see core_fixture.h. */
#define FX_ABORTS
#include "core_fixture.h"

static void count(u32 *n, int by)
{
	__atomic_fetch_add(n, (u32)by, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ */
/* struct core_ops                                                     */

static int ring_alloc(struct core_client *c, struct arax_context_init *init, u32 bytes)
{
	struct fx_client *cl = c->link;

	if (init->ring_fd != -1 || init->wake_fd != -1)
		return -EINVAL;
	if (cl->fx->fail_ring)
		return cl->fx->fail_ring;
	cl->region = aligned_alloc(4096, (bytes + 4095) & ~4095u);
	if (!cl->region)
		return -ENOMEM;
	memset(cl->region, 0, bytes);
	c->link_ring = cl->region;
	c->region = cl->region;
	count(&cl->fx->rings, 1);
	return 0;
}

static void ring_free(struct core_client *c)
{
	struct fx_client *cl = c->link;

	free(c->link_ring);
	cl->region = NULL;
	count(&cl->fx->rings, -1);
}

static int back(struct core_client *c, struct core_buffer *buf)
{
	struct fx_client *cl = c->link;
	struct fx_pages *p;

	if (cl->fx->backing)
		cl->fx->backing(buf);
	if (cl->fx->fail_buffer)
		return cl->fx->fail_buffer;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->fx = cl->fx;
	buf->link = p;
	count(&cl->fx->buffers, 1);
	return 0;
}

static int buffer_create(struct core_client *c, struct core_buffer *buf,
			 struct arax_buffer_create *arg)
{
	arg->map_offset = (u64)buf->id << 12;
	return back(c, buf);
}

static int buffer_inspect(struct core_client *c, struct arax_buffer_import *arg,
			  struct core_buffer **existing)
{
	struct fx_client *cl = c->link;
	struct core_buffer *buf;

	switch (arg->type) {
	case ARAX_IMPORT_ARAX:
		if (arg->fd < 0 || arg->fd >= FX_TABLE || !cl->fx->exports[arg->fd])
			return -EBADF;
		buf = cl->fx->exports[arg->fd];
		if (!core_buffer_use(buf))
			return -ESTALE;
		*existing = buf;
		return 0;
	case ARAX_IMPORT_MEMFD:
		if (arg->fd < 0)
			return -EBADF;
		arg->bytes = (u64)arg->fd << 12;
		return 0;
	case ARAX_IMPORT_USER:
		return 0;
	}
	return -EOPNOTSUPP;
}

static int buffer_import(struct core_client *c, struct core_buffer *buf,
			 struct arax_buffer_import *arg)
{
	return back(c, buf);
}

static int buffer_export(struct core_client *c, struct core_buffer *buf,
			 struct arax_buffer_export *arg)
{
	struct fx_pages *p = buf->link;
	int fd;

	if (arg->type != ARAX_EXPORT_ARAX)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&p->fx->lock);
	for (fd = 0; fd < FX_TABLE && p->fx->exports[fd]; fd++)
		;
	if (fd < FX_TABLE) {
		p->fx->exports[fd] = buf;
		p->holds++;
	}
	pthread_mutex_unlock(&p->fx->lock);
	if (fd == FX_TABLE)
		return -EMFILE;
	arg->fd = fd;
	return 0;
}

/* With fx->lock held; drops it. */
static void drop_if_last(struct fx *fx, struct core_buffer *buf, struct fx_pages *p)
{
	bool last = p->idle && !p->holds;

	pthread_mutex_unlock(&fx->lock);
	if (!last)
		return;
	count(&fx->buffers, -1);
	free(p);
	core_buffer_free(buf);
}

static void buffer_idle(struct core_buffer *buf)
{
	struct fx_pages *p = buf->link;

	if (buf->type == CORE_BUFFER_RING) {
		core_buffer_free(buf);
		return;
	}
	pthread_mutex_lock(&p->fx->lock);
	p->idle = true;
	drop_if_last(p->fx, buf, p);
}

void fx_close_buffer(struct fx *fx, struct core_buffer *buf)
{
	struct fx_pages *p = buf->link;

	pthread_mutex_lock(&fx->lock);
	p->holds--;
	drop_if_last(fx, buf, p);
}

static void buffer_revoke(struct core_buffer *buf)
{
	struct fx_pages *p = buf->link;

	p->revoked = true;
}

static int buffer_get(struct core_buffer *buf, struct arax_buffer_get *arg)
{
	struct fx_pages *p = buf->link;

	if (p->fx->fail_get)
		return p->fx->fail_get;
	pthread_mutex_lock(&p->fx->lock);
	p->holds++;
	pthread_mutex_unlock(&p->fx->lock);
	arg->fd = 1000 + (int)CORE_HANDLE_INDEX(buf->id);
	return 0;
}

static void client_wake(struct core_client *c, u32 what)
{
	struct fx_client *cl = c->link;

	count(&cl->wakes, 1);
	count(&cl->wakes_points, !!(what & CORE_WAKE_POINTS));
}

static void mediator_wake(struct core *core)
{
	struct fx *fx = core->link;

	count(&fx->mediator_wakes, 1);
}

static void recovery_begin(struct core *core)
{
	struct fx *fx = core->link;

	count(&fx->recoveries, 1);
}

static void *mediator_alloc(struct core *core, size_t bytes, bool writable)
{
	struct fx *fx = core->link;
	void *mem;

	if (fx->fail_mediator && writable)
		return NULL;
	mem = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	if (mem)
		memset(mem, 0, bytes);
	return mem;
}

static void mediator_free(struct core *core, void *mem, bool writable)
{
	free(mem);
}

/* A descriptor is an index; odd ones are no eventfds. */
static void *event_get(struct core_client *c, int fd, int *err)
{
	struct fx_client *cl = c->link;

	if (fd < 0 || fd >= FX_TABLE || fd & 1) {
		*err = fd < 0 || fd >= FX_TABLE ? -EBADF : -EINVAL;
		return NULL;
	}
	count(&cl->fx->events_held, 1);
	return &cl->fx->events[fd];
}

static struct fx *only;		/* event_end is told no more than the event */

/* Takes as long as its client likes: no lock of the core may be held. */
static void event_end(void *event, bool fired)
{
	core_mutex_lock(&only->core->lock);
	core_spin_lock(&only->core->dispatch);
	core_spin_unlock(&only->core->dispatch);
	core_mutex_unlock(&only->core->lock);
	if (fired)
		__atomic_fetch_add((u64 *)event, 1, __ATOMIC_RELAXED);
	count(&only->events_held, -1);
}

static int timeline_export(struct core_client *c, struct core_timeline *tl)
{
	struct fx_client *cl = c->link;
	int fd;

	for (fd = 0; fd < FX_TABLE; fd++) {
		if (cl->fx->timelines[fd])
			continue;
		cl->fx->timelines[fd] = tl;
		return fd;
	}
	return -EMFILE;
}

static struct core_timeline *timeline_import(struct core_client *c, int fd, int *err)
{
	struct fx_client *cl = c->link;
	struct core_timeline *tl = fd >= 0 && fd < FX_TABLE ? cl->fx->timelines[fd] : NULL;

	*err = -EBADF;
	if (!tl)
		return NULL;
	core_spin_lock(&c->core->dispatch);
	tl->refs++;
	core_spin_unlock(&c->core->dispatch);
	return tl;
}

static int tenant_by_fd(struct core *core, int fd, bool itself, struct core_tenant **out)
{
	struct fx *fx = core->link;

	if (fd < 0 || fd > 3)
		return -EBADF;
	if (itself && fx->deep)
		return -ELOOP;
	core_tenant_hold(core, fx->tenants[fd]);
	*out = fx->tenants[fd];
	return 0;
}

/* A tenant's link is whether its cgroup is removed. */
static bool tenant_gone(struct core *core, const struct core_tenant *t)
{
	return *(bool *)t->link;
}

static void tenant_free(struct core *core, struct core_tenant *t)
{
	struct fx *fx = core->link;

	free(t->link);
	fx->cgroups--;
}

/* Here, or later: fx_end_clients(). */
static void client_end(struct core_client *c)
{
	struct fx *fx = c->core->link;

	if (fx->ends_later)
		clist_add_tail(&c->wake, &fx->ended);
	else
		core_client_free(c);
}

static const struct core_ops ops = {
	.ring_alloc = ring_alloc,
	.ring_free = ring_free,
	.buffer_create = buffer_create,
	.buffer_inspect = buffer_inspect,
	.buffer_import = buffer_import,
	.buffer_export = buffer_export,
	.buffer_idle = buffer_idle,
	.buffer_revoke = buffer_revoke,
	.buffer_get = buffer_get,
	.client_end = client_end,
	.client_wake = client_wake,
	.mediator_wake = mediator_wake,
	.recovery_begin = recovery_begin,
	.mediator_alloc = mediator_alloc,
	.mediator_free = mediator_free,
	.event_get = event_get,
	.event_end = event_end,
	.timeline_export = timeline_export,
	.timeline_import = timeline_import,
	.tenant_by_fd = tenant_by_fd,
	.tenant_gone = tenant_gone,
	.tenant_free = tenant_free,
};

/* ------------------------------------------------------------------ */
/* Life                                                                */

struct core_params fx_params(void)
{
	struct core_params p = {
		.link = ARAX_LINK_KERNEL,
		.guarantees = ARAX_GUAR_SURVIVES_DAEMON,
		.cells = 1024,
		.slots = 64,
		.max_handles = 1000,
		.user_memory = 1ull << 40,
		.user_tasks = 1000,
		.user_contexts = 64,
		.gone_at_once = true,
	};

	return p;
}

struct fx *fx_new(const struct core_params *params)
{
	struct core_params p = params ? *params : fx_params();
	struct fx *fx = calloc(1, sizeof(*fx));
	int err;

	only = fx;
	clist_init(&fx->ended);
	pthread_mutex_init(&fx->lock, NULL);
	fx->core = core_create(&ops, &p, fx, &err);
	ck_assert_ptr_nonnull(fx->core);
	core_mutex_lock(&fx->core->lock);
	fx->tenants[0] = core_tenant_get(fx->core, 1, NULL, "/");
	fx->tenants[1] = core_tenant_get(fx->core, 20, fx->tenants[0], "/a");
	fx->tenants[2] = core_tenant_get(fx->core, 300, fx->tenants[1], "/a/b");
	fx->tenants[3] = core_tenant_get(fx->core, 30, fx->tenants[1], "/a/c");
	core_mutex_unlock(&fx->core->lock);
	return fx;
}

void fx_free(struct fx *fx)
{
	u32 i;

	for (i = 0; i < FX_TABLE; i++) {
		if (fx->timelines[i])
			core_timeline_put(fx->core, fx->timelines[i]);
		if (fx->exports[i])
			fx_close_buffer(fx, fx->exports[i]);
	}
	if (fx->core->state != CORE_DETACHED)
		fx_die(fx);
	core_mutex_lock(&fx->core->lock);
	for (i = 4; i-- > 0;)
		core_tenant_put(fx->core, fx->tenants[i]);
	core_mutex_unlock(&fx->core->lock);
	core_destroy(fx->core);
	ck_assert_uint_eq(fx->buffers, 0);
	ck_assert_uint_eq(fx->rings, 0);
	ck_assert_uint_eq(fx->cgroups, 0);
	ck_assert_uint_eq(fx->events_held, 0);
	pthread_mutex_destroy(&fx->lock);
	free(fx);
}

struct fx_client *fx_client(struct fx *fx, u32 uid, u32 tenant)
{
	struct fx_client *cl = calloc(1, sizeof(*cl));
	int err;

	cl->fx = fx;
	core_mutex_lock(&fx->core->lock);
	core_tenant_hold(fx->core, fx->tenants[tenant]);
	core_mutex_unlock(&fx->core->lock);
	cl->c = core_client_create(fx->core, cl, uid, 100, 4242, "tester", fx->tenants[tenant],
				   &err);
	ck_assert_ptr_nonnull(cl->c);
	return cl;
}

struct core_tenant *fx_cgroup(struct fx *fx, u64 id, struct core_tenant *parent)
{
	struct core_tenant *t = core_tenant_get(fx->core, id, parent, "/cgroup");

	ck_assert_ptr_nonnull(t);
	if (!t->link) {
		t->link = calloc(1, sizeof(bool));
		fx->cgroups++;
	}
	return t;
}

void fx_rmdir(struct core_tenant *t)
{
	*(bool *)t->link = true;
}

int fx_init(struct fx_client *cl, u32 depth, u32 entry_size, u32 arena)
{
	union core_args a = { 0 };
	int err;

	a.context_init.depth = depth;
	a.context_init.entry_size = entry_size;
	a.context_init.arena_size = arena;
	a.context_init.ring_fd = -1;
	a.context_init.wake_fd = -1;
	err = fx_call(cl->fx, cl, ARAX_NR_CONTEXT_INIT, &a);
	if (!err)
		cl->init = a.context_init;
	return err;
}

struct fx_client *fx_client_ready(struct fx *fx)
{
	struct fx_client *cl = fx_client(fx, 1000, 2);

	ck_assert_int_eq(fx_init(cl, 16, 128, 8192), 0);
	cl->queue = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	return cl;
}

/* The core may keep its part until the mediator has let go; ours stays as long. */
void fx_release(struct fx_client *cl)
{
	core_client_release(cl->c);
	free(cl);
}

void fx_end_clients(struct fx *fx)
{
	while (!clist_empty(&fx->ended)) {
		struct core_client *c = clist_first(&fx->ended, struct core_client, wake);

		clist_del(&c->wake);
		core_client_free(c);
	}
}

int fx_call(struct fx *fx, struct fx_client *cl, u32 nr, union core_args *a)
{
	const struct core_call *call = core_call_find(nr);

	if (!call)
		return -ENOTTY;
	if (!a->size)
		a->size = call->size;
	if (a->size < call->min_size)
		return -EINVAL;
	return core_call_run(call, fx->core, cl ? cl->c : NULL, a);
}

/* ------------------------------------------------------------------ */
/* The client's side                                                   */

u32 fx_buffer(struct fx_client *cl, u64 bytes)
{
	union core_args a = { 0 };

	a.buffer_create.bytes = bytes;
	a.buffer_create.fd = -1;
	ck_assert_int_eq(fx_call(cl->fx, cl, ARAX_NR_BUFFER_CREATE, &a), 0);
	return a.buffer_create.handle;
}

u32 fx_queue(struct fx_client *cl, u32 flags)
{
	union core_args a = { 0 };

	a.queue_create.flags = flags;
	ck_assert_int_eq(fx_call(cl->fx, cl, ARAX_NR_QUEUE_CREATE, &a), 0);
	return a.queue_create.handle;
}

u32 fx_timeline(struct fx_client *cl, u64 value)
{
	union core_args a = { 0 };

	a.timeline_create.value = value;
	ck_assert_int_eq(fx_call(cl->fx, cl, ARAX_NR_TIMELINE_CREATE, &a), 0);
	return a.timeline_create.handle;
}

u64 fx_used(struct core_tenant *t, u32 res)
{
	return core_atomic_read(&t->res[res].used);
}

struct arax_task fx_marker(const struct fx_client *cl, u64 user_data)
{
	struct arax_task t = {
		.opcode = ARAX_OP_MARKER,
		.user_data = user_data,
		.queue = cl->queue,
	};

	return t;
}

struct arax_task fx_copy(const struct fx_client *cl, u64 user_data, u32 from, u32 to, u64 n)
{
	struct arax_task t = fx_marker(cl, user_data);

	t.opcode = ARAX_OP_COPY;
	t.nr_ranges = 2;
	t.ranges[0] = (struct arax_range){ .buffer = from, .access = ARAX_IN, .length = n,
					   .count = 1 };
	t.ranges[1] = (struct arax_range){ .buffer = to, .access = ARAX_OUT, .length = n,
					   .count = 1 };
	return t;
}

void fx_push(struct fx_client *cl, const struct arax_task *t)
{
	struct arax_task *e = (void *)(cl->region + cl->init.sq_offset +
				       (size_t)(cl->sq_tail & (cl->init.depth - 1)) *
				       cl->init.entry_size);

	memcpy((u8 *)e + sizeof(e->seq), (const u8 *)t + sizeof(t->seq),
	       sizeof(*t) - sizeof(t->seq));
	/* Pairs with the acquire in core_submit_ready(). */
	core_store_release(&e->seq, ++cl->sq_tail);
}

int fx_submit(struct fx_client *cl, u32 n)
{
	return core_submit(cl->c, n);
}

int fx_send(struct fx_client *cl, const struct arax_task *t)
{
	fx_push(cl, t);
	return fx_submit(cl, 1);
}

bool fx_pop(struct fx_client *cl, struct arax_completion *out)
{
	struct arax_completion *e = (void *)(cl->region + cl->init.cq_offset +
					     (size_t)(cl->cq_head & (cl->init.depth - 1)) *
					     sizeof(*e));

	/* Pairs with the release in core_post(). */
	if (core_load_acquire(&e->seq) != cl->cq_head + 1)
		return false;
	*out = *e;
	/* Pairs with the acquire in have_credit(). */
	core_store_release(&((struct arax_ring_ctl *)cl->region)->cq_head, ++cl->cq_head);
	return true;
}

struct arax_completion fx_expect(struct fx_client *cl, u64 user_data, s32 result)
{
	struct arax_completion e = { 0 };

	ck_assert_msg(fx_pop(cl, &e), "no completion, %llu expected",
		      (unsigned long long)user_data);
	ck_assert_uint_eq(e.user_data, user_data);
	ck_assert_int_eq(e.result, result);
	return e;
}

void fx_expect_none(struct fx_client *cl)
{
	struct arax_completion e;

	ck_assert(!fx_pop(cl, &e));
}

/* ------------------------------------------------------------------ */
/* The mediator's side                                                 */

int fx_attach(struct fx *fx, u32 flags)
{
	union core_args a = { 0 };
	int err;

	a.attach.flags = flags;
	err = fx_call(fx, NULL, ARAX_NR_ATTACH, &a);
	if (!err) {
		fx->head = 0;
		fx->epoch = a.attach.epoch;
	}
	return err;
}

void fx_die(struct fx *fx)
{
	core_detach(fx->core);
	fx_gone(fx);
}

void fx_gone(struct fx *fx)
{
	core_mediator_gone(fx->core, fx->core->epoch);
}

const struct arax_dispatch *fx_next(struct fx *fx)
{
	const struct arax_dispatch *d;

	d = core_ring_peek(fx->core->ring, fx->core->params.cells, &fx->head);
	if (d) {
		fx->head += d->cells;
		/* Pairs with the acquire in dispatch.c: the cells may be written again. */
		core_store_release(&fx->core->page->head, fx->head);
	}
	return d;
}

u64 fx_expect_task(struct fx *fx, u64 user_data)
{
	const struct arax_dispatch *d = fx_next(fx);

	ck_assert_msg(d, "the ring is empty, task %llu expected", (unsigned long long)user_data);
	ck_assert_uint_eq(d->type, ARAX_DISPATCH_TASK);
	ck_assert_uint_eq(d->user_data, user_data);
	return d->tag;
}

void fx_start(struct fx *fx, u64 tag)
{
	fx->core->states[ARAX_TAG_SLOT(tag)] = ARAX_SLOT_STARTED;
}

static u32 commit(struct fx *fx, struct arax_commit_entry e)
{
	union core_args a = { 0 };

	e.device_ns = 10;
	e.wait_ns = 3;
	e.bytes = 7;
	e.device = 1;
	fx->core->commits[0] = e;
	a.commit.count = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_COMMIT, &a), 0);
	ck_assert_uint_eq(a.commit.done, 1);
	return a.commit.stale;
}

u32 fx_commit(struct fx *fx, u64 tag, s32 result)
{
	return commit(fx, (struct arax_commit_entry){ .tag = tag, .result = result });
}

u32 fx_commit_failure(struct fx *fx, u64 tag, s32 result, u32 failure)
{
	return commit(fx, (struct arax_commit_entry){ .tag = tag, .result = result,
						      .failure = failure });
}

u32 fx_commit_canceled(struct fx *fx, u64 tag, u64 origin)
{
	return commit(fx, (struct arax_commit_entry){ .tag = tag, .result = -ECANCELED,
						      .origin = origin });
}

u32 fx_commit_dirty(struct fx *fx, u64 tag, u32 dirty)
{
	return commit(fx, (struct arax_commit_entry){ .tag = tag, .dirty = dirty });
}

u32 fx_drain(struct fx *fx)
{
	const struct arax_dispatch *d;
	u32 n = 0;

	while ((d = fx_next(fx))) {
		if (d->type != ARAX_DISPATCH_TASK)
			continue;
		ck_assert_uint_eq(fx_commit(fx, d->tag, 0), 0);
		n++;
	}
	return n;
}
