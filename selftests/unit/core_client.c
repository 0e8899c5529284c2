// SPDX-License-Identifier: MIT
/* Contexts: init, death at any moment, queries; every counter back at zero. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core_fixture.h"

/* Of the memory for tasks, in pages. */
static size_t resident(const struct core_client *c)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n = (sizeof(struct core_task) * c->depth + page - 1) / page, i, is = 0;
	unsigned char *in = malloc(n);

	ck_assert_ptr_nonnull(in);
	ck_assert_int_eq(mincore(c->tasks, n * page, in), 0);
	for (i = 0; i < n; i++)
		is += in[i] & 1;
	free(in);
	return is;
}

/* A deep context takes memory for the tasks that it has in flight, and time for none. */
START_TEST(depth_takes_nothing)
{
	struct core_params p = fx_params();
	struct fx_client *cl;
	struct arax_task t;
	struct fx *fx;
	u32 i;

	p.user_tasks = ARAX_MAX_DEPTH;
	fx = fx_new(&p);
	cl = fx_client(fx, 5, 2);
	ck_assert_int_eq(fx_init(cl, ARAX_MAX_DEPTH, 128, 0), 0);
	cl->queue = fx_queue(cl, 0);
	ck_assert_uint_lt(resident(cl->c), 64);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 4096; i++) {
		t = fx_marker(cl, i);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		ck_assert_uint_eq(fx_drain(fx), 1);
		fx_expect(cl, i, 0);
	}
	ck_assert_uint_lt(resident(cl->c), 64);
	/* All of its depth is there when it is wanted. */
	for (i = 0; i < ARAX_MAX_DEPTH; i++) {
		t = fx_marker(cl, i);
		fx_push(cl, &t);
	}
	ck_assert_int_eq(fx_submit(cl, ARAX_MAX_DEPTH), ARAX_MAX_DEPTH);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), ARAX_MAX_DEPTH);
	for (i = 0; i < ARAX_MAX_DEPTH; i += fx_drain(fx))
		;
	for (i = 0; i < ARAX_MAX_DEPTH; i++)
		fx_expect(cl, i, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

static int queue_create(struct fx_client *cl, u32 *handle)
{
	struct arax_queue_create a = { 0 };
	int err = core_queue_create(cl->c, &a);

	*handle = a.handle;
	return err;
}

static int timeline_create(struct fx_client *cl, u32 *handle)
{
	struct arax_timeline_create a = { 0 };
	int err = core_timeline_create(cl->c, &a);

	*handle = a.handle;
	return err;
}

/* In however many contexts: what they take is who runs the core's, where nothing else counts it. */
START_TEST(a_users_handles)
{
	struct core_params p = fx_params();
	struct fx_client *a, *b, *other;
	u32 queue, timeline, any;
	struct fx *fx;

	p.user_handles = 4;
	fx = fx_new(&p);
	a = fx_client(fx, 1000, 2);
	b = fx_client(fx, 1000, 3);
	other = fx_client(fx, 2000, 2);
	ck_assert_int_eq(queue_create(a, &queue), 0);
	ck_assert_int_eq(timeline_create(a, &timeline), 0);
	ck_assert_int_eq(queue_create(b, &any), 0);
	ck_assert_int_eq(timeline_create(b, &any), 0);
	ck_assert_int_eq(queue_create(b, &any), -ENOSPC);
	ck_assert_int_eq(timeline_create(a, &any), -ENOSPC);
	ck_assert_int_eq(queue_create(other, &any), 0);
	/* What goes makes room; what is not there doesn't. */
	ck_assert_int_eq(core_queue_destroy(a->c, queue), 0);
	ck_assert_int_eq(core_queue_destroy(a->c, queue), -EBADF);
	ck_assert_int_eq(timeline_create(b, &any), 0);
	ck_assert_int_eq(queue_create(b, &any), -ENOSPC);
	ck_assert_int_eq(core_timeline_destroy(a->c, timeline), 0);
	ck_assert_int_eq(queue_create(a, &any), 0);
	ck_assert_int_eq(queue_create(a, &any), -ENOSPC);
	/* So does a context. */
	fx_release(b);
	ck_assert_uint_eq(core_atomic_read(&a->c->user->handles), 1);
	ck_assert_int_eq(timeline_create(a, &any), 0);
	fx_release(a);
	fx_release(other);
	fx_free(fx);
}
END_TEST

/* What goes through all clients, with core->lock held, goes through those that count. */
START_TEST(not_gone_through_before_init)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client(fx, 5, 2), *idle = fx_client(fx, 5, 2);

	ck_assert_uint_eq(fx->core->nr_clients, 2);
	ck_assert(clist_empty(&fx->core->clients));
	ck_assert_int_eq(fx_init(cl, 8, 128, 0), 0);
	ck_assert_ptr_eq(clist_first(&fx->core->clients, struct core_client, node), cl->c);
	fx_release(idle);
	ck_assert(!clist_empty(&fx->core->clients));
	fx_release(cl);
	ck_assert(clist_empty(&fx->core->clients));
	fx_free(fx);
}
END_TEST

/*
 * The last reference to a buffer that the mediator has: a note is sent, and the
 * room in the ring must not be used to dispatch what is being dropped.
 */
START_TEST(kill_with_mediated_buffers)
{
	struct core_params p = fx_params();
	struct arax_buffer_get get = { 0 };
	struct core_buffer *buf;
	struct fx_client *cl;
	struct arax_task t;
	const struct arax_dispatch *d;
	struct fx *fx;
	u64 tag[4];
	u32 i, h;

	p.slots = 5;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 4; i++) {
		t = fx_marker(cl, i);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		tag[i] = fx_expect_task(fx, i);
	}
	for (i = 0; i < 8; i++) {
		h = fx_buffer(cl, 4096);
		buf = core_handle_find(&cl->c->handles, CORE_BUFFER, h);
		get.id = buf->id;
		ck_assert_int_eq(core_buffer_get(fx->core, &get), 0);
		fx_close_buffer(fx, buf);
		t = fx_copy(cl, 10 + i, h, h, 16);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		ck_assert_int_eq(core_buffer_destroy(cl->c, h), 0);
	}
	/* A slot comes free without anybody looking. */
	core_spin_lock(&fx->core->dispatch);
	fx->core->params.slots = 6;
	fx->core->slots = realloc(fx->core->slots, 6 * sizeof(*fx->core->slots));
	fx->core->slots[5] = (struct core_slot){ .gen = 1 };
	fx->core->slot_free = 5;
	fx->core->slot_last = 5;
	core_spin_unlock(&fx->core->dispatch);
	core_client_kill(cl->c, EPIPE);
	while ((d = fx_next(fx)))
		ck_assert_uint_ne(d->type, ARAX_DISPATCH_TASK);
	for (i = 0; i < 4; i++)
		fx_commit(fx, tag[i], 0);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

static int init(struct fx_client *cl, struct arax_context_init i)
{
	union core_args a = { .context_init = i };

	return fx_call(cl->fx, cl, ARAX_NR_CONTEXT_INIT, &a);
}

START_TEST(init_errors)
{
	struct core_params p = fx_params();
	const struct arax_context_init good = {
		.depth = 2, .entry_size = 128, .ring_fd = -1, .wake_fd = -1,
	};
	struct arax_context_init i;
	struct fx_client *cl, *two;
	struct fx *fx;

	p.user_contexts = 1;
	p.user_memory = 1 << 20;
	fx = fx_new(&p);
	cl = fx_client(fx, 5, 2);
	two = fx_client(fx, 5, 2);
#define BAD(change, error) \
	do { \
		i = good; \
		change; \
		ck_assert_int_eq(init(cl, i), error); \
	} while (0)
	BAD(i.flags = 1, -EOPNOTSUPP);
	BAD(i.pad = 1, -EINVAL);
	BAD(i.depth = 0, -EINVAL);
	BAD(i.depth = 1, -EINVAL);
	BAD(i.depth = 3, -EINVAL);
	BAD(i.depth = ARAX_MAX_DEPTH * 2, -EINVAL);
	BAD(i.depth = 1u << 31, -EINVAL);
	BAD(i.entry_size = 64, -EINVAL);
	BAD(i.entry_size = 0, -EINVAL);
	BAD(i.arena_size = 1, -EINVAL);
	BAD(i.arena_size = ARAX_MAX_ARENA + 4096, -EINVAL);
	BAD(i.arena_size = ~4095u, -EINVAL);
	BAD(i.arena_size = 1 << 20, -EDQUOT);
	fx->fail_ring = -ENOMEM;
	BAD(i.arena_size = 0, -ENOMEM);
	fx->fail_ring = 0;
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_MEMORY), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_CONTEXTS), 0);
	ck_assert_int_eq(init(cl, good), 0);
	ck_assert_int_eq(init(cl, good), -EBUSY);
	ck_assert_int_eq(init(two, good), -EDQUOT);
	fx_release(cl);
	ck_assert_int_eq(init(two, good), 0);
	fx_release(two);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_MEMORY), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_CONTEXTS), 0);
	fx_free(fx);
}
END_TEST

START_TEST(greatest)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client(fx, 5, 2);

	ck_assert_int_eq(fx_init(cl, ARAX_MAX_DEPTH, 256, ARAX_MAX_ARENA), 0);
	ck_assert_uint_eq(cl->init.region_size, 4096 + 65536 * (256 + 64) + ARAX_MAX_ARENA);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Killed between open and init, by an administrator. */
START_TEST(dead_before_init)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client(fx, 5, 2);
	struct arax_context_init i = { .depth = 2, .entry_size = 128, .ring_fd = -1,
				       .wake_fd = -1 };

	ck_assert_int_eq(core_context_kill(fx->core, cl->c->id + 1), -ENOENT);
	ck_assert_int_eq(core_context_kill(fx->core, cl->c->id), 0);
	/* It may poll already. */
	ck_assert_uint_eq(cl->wakes, 1);
	ck_assert_int_eq(init(cl, i), -EPIPE);
	/* The race: the call had begun. */
	ck_assert_int_eq(core_context_init(cl->c, &i), 0);
	ck_assert_uint_eq(((struct arax_ring_ctl *)cl->region)->dead, EPIPE);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Queued and running work, blocked and signalling, of a context that is killed. */
START_TEST(death_leaves_nothing)
{
	struct core_params p = fx_params();
	struct fx_client *cl, *other;
	const struct arax_dispatch *d;
	struct arax_task t;
	struct fx *fx;
	u64 tag[3];
	u32 i, a, b, tl;

	p.slots = 4;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	other = fx_client_ready(fx);
	a = fx_buffer(cl, 4096);
	b = fx_buffer(cl, 8192);
	tl = fx_timeline(cl, 0);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 10; i++) {
		struct arax_task_ext x = { .size = sizeof(x), .signal_timeline = tl,
					   .signal_value = i };

		if (i % 3 == 1) {
			x.wait_timeline = tl;
			x.wait_value = 100;
		}
		t = fx_copy(cl, i, a, b, 64);
		t.flags = ARAX_TASK_EXT;
		t.ext = i * (u32)sizeof(x);
		memcpy(cl->region + cl->init.arena_offset + t.ext, &x, sizeof(x));
		ck_assert_int_eq(fx_send(cl, &t), 1);
	}
	for (i = 0; i < 3; i++)
		tag[i] = fx_expect_task(fx, i);
	ck_assert_ptr_null(fx_next(fx));
	ck_assert_int_eq(core_context_kill(fx->core, cl->init.context), 0);
	ck_assert_uint_eq(((struct arax_ring_ctl *)cl->region)->dead, EPIPE);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 3);
	ck_assert_int_eq(fx_send(cl, &t), -EPIPE);
	/* The failed signals of what vanished released the blocked one that runs. */
	do {
		d = fx_next(fx);
		ck_assert_ptr_nonnull(d);
		ck_assert_uint_ne(d->type, ARAX_DISPATCH_TASK);
	} while (d->type != ARAX_DISPATCH_CONTEXT);
	ck_assert_uint_eq(d->context, cl->init.context);
	fx_release(cl);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_CONTEXTS), 2);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_MEMORY),
			  12288 + other->init.region_size);
	for (i = 0; i < 3; i++)
		ck_assert_uint_eq(fx_commit(fx, tag[i], 0), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_CONTEXTS), 1);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_MEMORY), other->init.region_size);
	ck_assert_uint_eq(fx->core->nr_clients, 1);
	/* Nobody else noticed. */
	t = fx_marker(other, 50);
	ck_assert_int_eq(fx_send(other, &t), 1);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(other, 50, 0);
	fx_release(other);
	fx_free(fx);
}
END_TEST

START_TEST(context_query)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *a = fx_client_ready(fx), *b = fx_client(fx, 9, 3);
	struct arax_context q = { 0 };
	struct arax_task t = fx_marker(a, 1);

	fx_buffer(a, 4096);
	fx_timeline(a, 0);
	ck_assert_int_eq(fx_send(a, &t), 1);
	ck_assert_int_eq(core_context_query(fx->core, &q), 0);
	ck_assert_uint_eq(q.id, a->init.context);
	ck_assert_uint_eq(q.uid, 1000);
	ck_assert_uint_eq(q.gid, 100);
	ck_assert_int_eq(q.pid, 4242);
	ck_assert_str_eq(q.comm, "tester");
	ck_assert_uint_eq(q.nr_buffers, 1);
	ck_assert_uint_eq(q.nr_queues, 1);
	ck_assert_uint_eq(q.nr_timelines, 1);
	ck_assert_uint_eq(q.tenant, 300);
	ck_assert_uint_eq(q.depth, 16);
	ck_assert_uint_eq(q.usage.counters[ARAX_RES_TASKS].used, 1);
	ck_assert_uint_eq(q.usage.counters[ARAX_RES_MEMORY].used, 4096 + a->init.region_size);
	q.id++;
	ck_assert_int_eq(core_context_query(fx->core, &q), 0);
	ck_assert_uint_eq(q.id, b->c->id);
	ck_assert_uint_eq(q.tenant, 30);
	ck_assert_uint_eq(q.flags, 0);
	core_client_kill(b->c, EPIPE);
	ck_assert_int_eq(core_context_query(fx->core, &q), 0);
	ck_assert_uint_eq(q.flags, 1);
	q.id++;
	ck_assert_int_eq(core_context_query(fx->core, &q), -ENOENT);
	fx_release(a);
	fx_release(b);
	fx_free(fx);
}
END_TEST

/* When the counter has come round no id is given out twice, and they are found in order. */
START_TEST(ids_come_round)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl[5];
	struct arax_context q = { 0 };
	static const u32 id[5] = { 1, 2, 0xffffffff, 3, 4 }, order[5] = { 1, 2, 3, 4, 0xffffffff };
	u32 i;

	for (i = 0; i < 5; i++) {
		if (i == 2)
			fx->core->next_client = 0xffffffff;
		cl[i] = fx_client(fx, 1000, 2);
		ck_assert_uint_eq(cl[i]->c->id, id[i]);
	}
	for (i = 0; i < 5; i++, q.id++) {
		ck_assert_int_eq(core_context_query(fx->core, &q), 0);
		ck_assert_uint_eq(q.id, order[i]);
	}
	ck_assert_int_eq(core_context_kill(fx->core, 5), -ENOENT);
	ck_assert_int_eq(core_context_kill(fx->core, 0), -ENOENT);
	ck_assert_int_eq(core_context_kill(fx->core, 3), 0);
	for (i = 0; i < 5; i++)
		ck_assert_uint_eq(cl[i]->c->dead, id[i] == 3 ? EPIPE : 0);
	for (i = 0; i < 5; i++)
		fx_release(cl[i]);
	ck_assert_ptr_null(fx->core->contexts);
	fx_free(fx);
}
END_TEST

START_TEST(usage)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_usage u = { .scope = 3 };
	struct arax_task t = fx_marker(cl, 1);
	u32 scope;

	ck_assert_int_eq(core_usage_query(cl->c, &u), -EOPNOTSUPP);
	u.scope = 0;
	u.pad = 1;
	ck_assert_int_eq(core_usage_query(cl->c, &u), -EINVAL);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	fx_commit(fx, fx_expect_task(fx, 1), -EIO);
	for (scope = ARAX_USAGE_CONTEXT; scope <= ARAX_USAGE_USER; scope++) {
		u = (struct arax_usage){ .scope = scope };
		ck_assert_int_eq(core_usage_query(cl->c, &u), 0);
		ck_assert_uint_eq(u.device_ns, 20);
		ck_assert_uint_eq(u.wait_ns, 6);
		ck_assert_uint_eq(u.tasks_done, 2);
		ck_assert_uint_eq(u.tasks_failed, 1);
		ck_assert_uint_eq(u.counters[ARAX_RES_TASKS].used, 0);
		ck_assert_uint_eq(u.counters[ARAX_RES_TASKS].peak, 2);
		ck_assert_uint_eq(u.counters[ARAX_RES_CONTEXTS].used, 1);
		ck_assert_uint_eq(u.counters[ARAX_RES_MEMORY].used, cl->init.region_size);
	}
	ck_assert_uint_eq(fx->tenants[0]->device_ns, 20);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_client_suite(void)
{
	Suite *s = suite_create("core client");
	TCase *tc = tcase_create("client");

	tcase_add_test(tc, init_errors);
	tcase_add_test(tc, greatest);
	tcase_add_test(tc, not_gone_through_before_init);
	tcase_add_test(tc, depth_takes_nothing);
	tcase_add_test(tc, a_users_handles);
	tcase_add_test(tc, dead_before_init);
	tcase_add_test(tc, kill_with_mediated_buffers);
	tcase_add_test(tc, death_leaves_nothing);
	tcase_add_test(tc, context_query);
	tcase_add_test(tc, ids_come_round);
	tcase_add_test(tc, usage);
	suite_add_tcase(s, tc);
	return s;
}
