// SPDX-License-Identifier: MIT
/* Refused tasks fail who depends on them, as far as their client could not know. */
#include "core_fixture.h"

struct bench {
	struct fx *fx;
	struct fx_client *cl;
	u32 flow;		/* a dataflow queue; cl->queue is in-order */
	u32 a, b;		/* buffers, 8,192 bytes */
};

static struct bench set_up(void)
{
	struct bench b = { .fx = fx_new(NULL) };

	b.cl = fx_client(b.fx, 1000, 2);
	ck_assert_int_eq(fx_init(b.cl, 128, 128, 8192), 0);
	b.cl->queue = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	b.flow = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW);
	b.a = fx_buffer(b.cl, 8192);
	b.b = fx_buffer(b.cl, 8192);
	ck_assert_int_eq(fx_attach(b.fx, 0), 0);
	return b;
}

static void tear_down(struct bench *b)
{
	fx_expect_none(b->cl);
	ck_assert_uint_eq(fx_used(b->fx->tenants[0], ARAX_RES_TASKS), 0);
	fx_release(b->cl);
	fx_free(b->fx);
}

static void push_marker(struct bench *b, u64 user_data, u32 queue)
{
	struct arax_task t = fx_marker(b->cl, user_data);

	t.queue = queue;
	fx_push(b->cl, &t);
}

/* A marker has no arguments: refused. */
static void push_bad(struct bench *b, u64 user_data, u32 queue)
{
	struct arax_task t = fx_marker(b->cl, user_data);

	t.queue = queue;
	t.arg_len = 1;
	fx_push(b->cl, &t);
}

/* Reads from a, writes to b; refused if @bad, with its ranges known. */
static struct arax_task copy(struct bench *b, u64 user_data, u32 queue, u64 from, u64 to, u64 n,
			     bool bad)
{
	struct arax_task t = fx_copy(b->cl, user_data, b->a, b->b, n);

	t.queue = queue;
	t.ranges[0].offset = from;
	t.ranges[1].offset = to;
	t.arg_len = bad;
	return t;
}

static void push_copy(struct bench *b, u64 user_data, u32 queue, u64 from, u64 to, u64 n, bool bad)
{
	struct arax_task t = copy(b, user_data, queue, from, to, n, bad);

	fx_push(b->cl, &t);
}

static u64 expect_refused(struct bench *b, u64 user_data, s32 error)
{
	struct arax_completion e = fx_expect(b->cl, user_data, error);

	ck_assert_uint_ne(e.tag, 0);
	ck_assert_uint_eq(ARAX_TAG_EPOCH(e.tag), 0);
	ck_assert_uint_eq(e.origin, 0);
	return e.tag;
}

static void expect_canceled(struct bench *b, u64 user_data, u64 origin)
{
	struct arax_completion e = fx_expect(b->cl, user_data, -ECANCELED);

	ck_assert_uint_eq(e.origin, origin);
	ck_assert_uint_ne(e.tag, origin);
	ck_assert_uint_ne(e.tag, 0);
}

static void expect_runs(struct bench *b, u64 user_data)
{
	fx_commit(b->fx, fx_expect_task(b->fx, user_data), 0);
	fx_expect(b->cl, user_data, 0);
}

START_TEST(in_order)
{
	struct bench b = set_up();
	u32 other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u64 tag;

	push_marker(&b, 1, b.cl->queue);
	push_bad(&b, 2, b.cl->queue);
	push_marker(&b, 3, b.cl->queue);
	push_marker(&b, 4, other);
	push_marker(&b, 5, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 5), 5);
	tag = expect_refused(&b, 2, -EINVAL);
	expect_canceled(&b, 3, tag);
	expect_canceled(&b, 5, tag);
	expect_runs(&b, 1);
	expect_runs(&b, 4);
	/* Its client knows. */
	push_marker(&b, 6, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_runs(&b, 6);
	tear_down(&b);
}
END_TEST

/* Also without anybody attached. */
START_TEST(detached)
{
	struct bench b = set_up();
	u64 tag;

	fx_die(b.fx);
	push_bad(&b, 1, b.cl->queue);
	push_marker(&b, 2, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	tag = expect_refused(&b, 1, -EINVAL);
	expect_canceled(&b, 2, tag);
	tear_down(&b);
}
END_TEST

/* More than what is consumed at once, and more than is looked at with the lock held. */
START_TEST(long_batch)
{
	struct bench b = set_up();
	u64 tag;
	u32 i;

	push_bad(&b, 0, b.cl->queue);
	for (i = 1; i < 128; i++)
		push_marker(&b, i, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 128), 128);
	tag = expect_refused(&b, 0, -EINVAL);
	for (i = 1; i < 128; i++)
		expect_canceled(&b, i, tag);
	push_marker(&b, 200, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_runs(&b, 200);
	tear_down(&b);
}
END_TEST

/* What was published counts, not what was consumed. */
START_TEST(stream)
{
	struct bench b = set_up();
	u64 tag;

	push_bad(&b, 1, b.cl->queue);
	push_marker(&b, 2, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	tag = expect_refused(&b, 1, -EINVAL);
	push_marker(&b, 3, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	expect_canceled(&b, 2, tag);
	expect_runs(&b, 3);
	tear_down(&b);
}
END_TEST

/* Each refusal ends by itself: others that go on don't prolong it. */
START_TEST(own_ends)
{
	struct bench b = set_up();
	u32 i, other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u64 tag;

	push_bad(&b, 1, b.cl->queue);
	push_bad(&b, 2, other);
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_refused(&b, 1, -EINVAL);
	for (i = 0; i < 1000; i++) {
		push_bad(&b, 2, other);
		push_marker(&b, 3, b.cl->queue);
		push_marker(&b, 4, other);
		ck_assert_int_eq(fx_submit(b.cl, 1), 1);
		expect_refused(&b, 2, -EINVAL);
		push_bad(&b, 2, other);
		ck_assert_int_eq(fx_submit(b.cl, 3), 3);
		tag = expect_refused(&b, 2, -EINVAL);
		expect_canceled(&b, 4, tag);
		expect_runs(&b, 3);
	}
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_refused(&b, 2, -EINVAL);
	tear_down(&b);
}
END_TEST

START_TEST(continue_runs)
{
	struct bench b = set_up();
	u32 queue = fx_queue(b.cl, ARAX_QUEUE_CONTINUE);

	push_bad(&b, 1, queue);
	push_marker(&b, 2, queue);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	expect_refused(&b, 1, -EINVAL);
	expect_runs(&b, 2);
	tear_down(&b);
}
END_TEST

START_TEST(byte_ranges)
{
	struct bench b = set_up();
	struct arax_task t;
	u64 tag;

	push_copy(&b, 1, b.flow, 0, 100, 100, true);
	push_copy(&b, 2, b.flow, 0, 200, 100, false);	/* the next bytes */
	push_copy(&b, 3, b.flow, 0, 0, 100, false);	/* those before */
	t = copy(&b, 4, b.flow, 0, 0, 1, false);	/* reads the last of them */
	t.ranges[0].buffer = b.b;
	t.ranges[0].offset = 199;
	t.ranges[1].offset = 4000;
	fx_push(b.cl, &t);
	push_copy(&b, 5, b.flow, 0, 150, 10, false);	/* writes some */
	t.user_data = 6;				/* reads what 4 would have written */
	t.ranges[0].offset = 4000;
	t.ranges[1].offset = 5000;
	fx_push(b.cl, &t);
	push_copy(&b, 7, b.flow, 4000, 6000, 10, false);	/* the other buffer */
	ck_assert_int_eq(fx_submit(b.cl, 7), 7);
	tag = expect_refused(&b, 1, -EINVAL);
	expect_canceled(&b, 4, tag);
	expect_canceled(&b, 5, tag);
	expect_canceled(&b, 6, tag);
	expect_runs(&b, 2);
	expect_runs(&b, 3);
	expect_runs(&b, 7);
	tear_down(&b);
}
END_TEST

/* Bytes relate a dataflow queue to others, and no two in-order queues. */
START_TEST(queues_apart)
{
	struct bench b = set_up();
	u32 other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u64 tag;

	push_copy(&b, 1, b.cl->queue, 0, 0, 100, true);
	push_copy(&b, 2, other, 0, 0, 100, false);
	push_copy(&b, 3, b.flow, 0, 0, 100, false);
	ck_assert_int_eq(fx_submit(b.cl, 3), 3);
	tag = expect_refused(&b, 1, -EINVAL);
	expect_canceled(&b, 3, tag);
	expect_runs(&b, 2);
	push_copy(&b, 4, b.flow, 0, 0, 100, true);
	push_copy(&b, 5, other, 0, 0, 100, false);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	tag = expect_refused(&b, 4, -EINVAL);
	expect_canceled(&b, 5, tag);
	tear_down(&b);
}
END_TEST

/* Written anew by a task that runs nevertheless: who reads that may run. */
START_TEST(written_anew)
{
	struct bench b = set_up();
	u32 go_on = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	u64 tag;

	push_copy(&b, 1, b.flow, 0, 100, 100, true);
	push_copy(&b, 2, go_on, 0, 100, 99, false);
	push_copy(&b, 3, b.flow, 0, 100, 1, false);	/* one byte is left */
	push_copy(&b, 4, go_on, 0, 100, 100, false);
	push_copy(&b, 5, b.flow, 0, 100, 1, false);
	ck_assert_int_eq(fx_submit(b.cl, 5), 5);
	tag = expect_refused(&b, 1, -EINVAL);
	expect_canceled(&b, 3, tag);
	expect_runs(&b, 2);
	expect_runs(&b, 4);
	expect_runs(&b, 5);
	tear_down(&b);
}
END_TEST

START_TEST(barriers)
{
	struct bench b = set_up();
	struct arax_task t;
	u64 tag;

	push_bad(&b, 1, b.flow);
	push_marker(&b, 2, b.flow);
	t = fx_marker(b.cl, 3);
	t.queue = b.flow;
	t.flags = ARAX_TASK_BARRIER;
	fx_push(b.cl, &t);
	push_marker(&b, 4, b.flow);
	ck_assert_int_eq(fx_submit(b.cl, 4), 4);
	tag = expect_refused(&b, 1, -EINVAL);
	expect_canceled(&b, 3, tag);
	expect_canceled(&b, 4, tag);
	expect_runs(&b, 2);
	/* A barrier whose flags are all that could be read. */
	t.user_data = 5;
	t.nr_ranges = 7;
	fx_push(b.cl, &t);
	push_marker(&b, 6, b.flow);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	tag = expect_refused(&b, 5, -EINVAL);
	expect_canceled(&b, 6, tag);
	tear_down(&b);
}
END_TEST

/* Its bytes can't be told: it counts as a writer of all. */
START_TEST(unknown_ranges)
{
	struct bench b = set_up();
	struct arax_task t = copy(&b, 1, b.flow, 0, 100, 100, false);
	u64 tag;

	t.ranges[1].buffer = 0;
	fx_push(b.cl, &t);
	push_marker(&b, 2, b.flow);		/* no bytes */
	push_copy(&b, 3, b.flow, 0, 8000, 1, false);
	push_copy(&b, 4, b.cl->queue, 0, 8000, 1, false);
	ck_assert_int_eq(fx_submit(b.cl, 4), 4);
	tag = expect_refused(&b, 1, -EBADF);
	expect_canceled(&b, 3, tag);
	expect_canceled(&b, 4, tag);
	expect_runs(&b, 2);
	/* In an in-order queue: nothing to other in-order queues. */
	t.user_data = 5;
	t.queue = b.cl->queue;
	t.ranges[1].buffer = b.b;
	t.ranges[1].offset = 8192;
	fx_push(b.cl, &t);
	push_copy(&b, 6, fx_queue(b.cl, ARAX_QUEUE_IN_ORDER), 0, 100, 1, false);
	push_copy(&b, 7, b.flow, 0, 100, 1, false);
	ck_assert_int_eq(fx_submit(b.cl, 3), 3);
	tag = expect_refused(&b, 5, -EINVAL);
	expect_canceled(&b, 7, tag);
	expect_runs(&b, 6);
	tear_down(&b);
}
END_TEST

/* It is in no queue, so nothing comes after it. */
START_TEST(unknown_queue)
{
	struct bench b = set_up();

	push_copy(&b, 1, 77, 0, 0, 100, false);
	push_copy(&b, 2, b.flow, 0, 0, 100, false);
	push_marker(&b, 3, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 3), 3);
	expect_refused(&b, 1, -EBADF);
	expect_runs(&b, 2);
	expect_runs(&b, 3);
	tear_down(&b);
}
END_TEST

/* More marks than have a place: whoever touches bytes is canceled, then. */
START_TEST(many_ranges)
{
	struct bench b = set_up();
	u64 tag = 0;
	u32 i;

	for (i = 0; i < CORE_MARKED_BYTES; i++)
		push_copy(&b, i, b.flow, 0, 100 * i, 10, true);
	push_copy(&b, 100, b.flow, 0, 8000, 10, false);
	push_copy(&b, 101, b.flow, 0, 100, 10, false);
	/* Joins the first, needs no place. */
	push_copy(&b, 102, b.flow, 0, 10, 5, true);
	push_copy(&b, 103, b.flow, 0, 8010, 10, false);
	push_copy(&b, 104, b.flow, 0, 7000, 10, true);
	push_copy(&b, 105, b.flow, 0, 8020, 10, false);
	ck_assert_int_eq(fx_submit(b.cl, CORE_MARKED_BYTES + 6), CORE_MARKED_BYTES + 6);
	for (i = 0; i < CORE_MARKED_BYTES; i++) {
		u64 one = expect_refused(&b, i, -EINVAL);

		if (i == 1)
			tag = one;
	}
	expect_canceled(&b, 101, tag);
	expect_refused(&b, 102, -EINVAL);
	tag = expect_refused(&b, 104, -EINVAL);
	expect_canceled(&b, 105, tag);
	expect_runs(&b, 100);
	expect_runs(&b, 103);
	tear_down(&b);
}
END_TEST

static void set_tasks_max(struct bench *b, u64 value)
{
	struct arax_limit l = {
		.cgroup_fd = 2, .what = ARAX_SET_MAX + ARAX_RES_TASKS, .value = value,
	};

	ck_assert_int_eq(core_limit_set(b->fx->core, &l), 0);
}

/* Over quota: so are those behind, or they depend on it. Nothing stays charged. */
START_TEST(quota)
{
	struct bench b = set_up();
	u32 i, other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u64 tag;

	set_tasks_max(&b, 2);
	for (i = 0; i < 40; i++)
		push_marker(&b, i, b.cl->queue);
	ck_assert_int_eq(fx_submit(b.cl, 40), 40);
	tag = expect_refused(&b, 2, -EDQUOT);
	for (i = 3; i < 32; i++)
		expect_refused(&b, i, -EDQUOT);
	for (; i < 40; i++)
		expect_canceled(&b, i, tag);
	ck_assert_uint_eq(fx_used(b.fx->tenants[2], ARAX_RES_TASKS), 2);
	expect_runs(&b, 0);
	/* One place is left: the canceled ones don't take it. */
	push_bad(&b, 50, other);
	for (i = 51; i < 60; i++)
		push_marker(&b, i, other);
	push_marker(&b, 60, fx_queue(b.cl, ARAX_QUEUE_IN_ORDER));
	ck_assert_int_eq(fx_submit(b.cl, 11), 11);
	tag = expect_refused(&b, 50, -EINVAL);
	for (i = 51; i < 60; i++)
		expect_canceled(&b, i, tag);
	expect_runs(&b, 1);
	expect_runs(&b, 60);
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	tear_down(&b);
}
END_TEST

/* Not consumed, nor what is behind them, of whatever queue, until there is room. */
START_TEST(waits_for_room)
{
	struct bench b = set_up();
	u32 waits = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_WAIT);
	struct core_tenant *leaf = b.fx->tenants[2];
	u32 i;

	set_tasks_max(&b, 2);
	for (i = 0; i < 40; i++)
		push_marker(&b, i, waits);
	push_bad(&b, 40, waits);
	push_marker(&b, 41, fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT));
	ck_assert(!core_awaits_room(b.cl->c));
	ck_assert_int_eq(fx_submit(b.cl, 42), 2);
	ck_assert_uint_eq(core_ctl(b.cl->c)->sq_head, 2);
	for (i = 0; i < 3; i++) {
		ck_assert(core_awaits_room(b.cl->c));
		ck_assert_int_eq(fx_submit(b.cl, 42), -EAGAIN);
	}
	fx_expect_none(b.cl);
	for (i = 0; i < 39; i++) {
		expect_runs(&b, i);
		ck_assert(!core_awaits_room(b.cl->c));
		/* The bad one needs no room. */
		ck_assert_int_eq(fx_submit(b.cl, 42), i == 37 ? 2 : 1);
		ck_assert_uint_eq(fx_used(leaf, ARAX_RES_TASKS), 2);
		if (i == 37)
			expect_refused(&b, 40, -EINVAL);
	}
	expect_runs(&b, 39);
	expect_runs(&b, 41);
	ck_assert_int_eq(fx_submit(b.cl, 42), -EINVAL);
	/* What waits is nothing that was refused. */
	ck_assert_uint_eq(core_atomic_read(&leaf->res[ARAX_RES_TASKS].events), 0);
	ck_assert_uint_eq(core_atomic_read(&leaf->res[ARAX_RES_TASKS].peak), 2);
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	tear_down(&b);
}
END_TEST

static struct arax_task *entry_at(struct bench *b, u32 pos)
{
	return (void *)(b->cl->region + b->cl->init.sq_offset + pos * b->cl->init.entry_size);
}

/* Others' tasks that come first are refused as ever; then it waits. */
START_TEST(others_do_not_wait)
{
	struct bench b = set_up();
	u32 waits = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT);

	set_tasks_max(&b, 1);
	push_marker(&b, 1, waits);
	push_marker(&b, 2, b.cl->queue);
	push_marker(&b, 3, waits);
	push_marker(&b, 4, fx_queue(b.cl, ARAX_QUEUE_IN_ORDER));
	ck_assert_int_eq(fx_submit(b.cl, 4), 2);
	expect_refused(&b, 2, -EDQUOT);
	ck_assert_int_eq(fx_submit(b.cl, 2), -EAGAIN);
	/* It is read anew: what its owner has written there meanwhile is what counts. */
	entry_at(&b, 2)->user_data = 33;
	expect_runs(&b, 1);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	expect_refused(&b, 4, -EDQUOT);
	expect_runs(&b, 33);
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	tear_down(&b);
}
END_TEST

/* The mediator dies while some wait, and what they may depend on with it: none of them runs. */
START_TEST(waiting_when_it_dies)
{
	struct bench b = set_up();
	u32 i, waits = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT);
	u32 other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);

	set_tasks_max(&b, 2);
	for (i = 0; i < 5; i++)
		push_marker(&b, i, i < 4 ? waits : other);
	ck_assert_int_eq(fx_submit(b.cl, 5), 2);
	ck_assert_int_eq(fx_submit(b.cl, 3), -EAGAIN);
	fx_start(b.fx, fx_expect_task(b.fx, 0));
	fx_die(b.fx);
	fx_expect(b.cl, 0, -EOWNERDEAD);
	fx_expect(b.cl, 1, -ECANCELED);
	if (_i)
		ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert(!core_awaits_room(b.cl->c));
	/* One by one, and another mediator comes and dies in between. */
	if (_i == 2) {
		ck_assert_int_eq(fx_submit(b.cl, 1), 1);
		fx_die(b.fx);
	}
	ck_assert_int_eq(fx_submit(b.cl, 3), _i == 2 ? 2 : 3);
	fx_expect(b.cl, 2, -EOWNERDEAD);
	fx_expect(b.cl, 3, -EOWNERDEAD);
	if (_i != 1)
		ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	expect_runs(&b, 4);
	/* That is over with what was there. */
	push_marker(&b, 5, fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT));
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_runs(&b, 5);
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	tear_down(&b);
}
END_TEST

/* The same where what waits came when it was dead already, or stuck. */
START_TEST(waiting_when_all_fails)
{
	struct bench b = set_up();
	u32 i, waits = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT);

	set_tasks_max(&b, 2);
	if (_i == 2)
		core_detach(b.fx->core);
	else
		fx_die(b.fx);
	for (i = 0; i < 4; i++)
		push_marker(&b, i, waits);
	ck_assert_int_eq(fx_submit(b.cl, 4), 2);
	ck_assert_int_eq(fx_submit(b.cl, 2), -EAGAIN);
	if (_i == 0)
		core_expire(b.fx->core);
	else
		ck_assert_int_eq(fx_attach(b.fx, _i == 2 ? ARAX_ATTACH_TAKEOVER : 0), 0);
	fx_expect(b.cl, 0, -EOWNERDEAD);
	fx_expect(b.cl, 1, -EOWNERDEAD);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	fx_expect(b.cl, 2, -EOWNERDEAD);
	fx_expect(b.cl, 3, -EOWNERDEAD);
	if (_i == 0)
		ck_assert_int_eq(fx_attach(b.fx, 0), 0);
	push_marker(&b, 4, waits);
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_runs(&b, 4);
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	tear_down(&b);
}
END_TEST

/* What was published since is none of it, though there is no end of that. */
START_TEST(waiting_is_over_at_last)
{
	struct bench b = set_up();
	u32 i, waits[2];

	/* Each is put there before the one before it has ended, and depends on none of these. */
	for (i = 0; i < 2; i++)
		waits[i] = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT);
	set_tasks_max(&b, 1);
	for (i = 0; i < 3; i++)
		push_marker(&b, i, waits[i & 1]);
	ck_assert_int_eq(fx_submit(b.cl, 3), 1);
	ck_assert_int_eq(fx_submit(b.cl, 2), -EAGAIN);
	fx_start(b.fx, fx_expect_task(b.fx, 0));
	fx_die(b.fx);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	fx_expect(b.cl, 0, -EOWNERDEAD);
	for (i = 1; i <= 2; i++) {
		ck_assert_int_eq(fx_submit(b.cl, 1), 1);
		fx_expect(b.cl, i, -EOWNERDEAD);
		push_marker(&b, i + 2, waits[i & 1]);
	}
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_runs(&b, 3);
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	expect_runs(&b, 4);
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	tear_down(&b);
}
END_TEST

/*
 * The same where they are taken together: of those that came later who depends on such a one fails
 * with it, and the others run, or wait for room.
 */
START_TEST(waiting_beside_later_ones)
{
	struct bench b = set_up();
	u32 i, waits[2], round, at = 0;

	for (i = 0; i < 2; i++)
		waits[i] = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT);
	/* Also where the ring has been gone round in between. */
	for (round = 0; round < 2 * b.cl->c->depth / 7; round++, at += 7) {
		set_tasks_max(&b, 1);
		for (i = 0; i < 3; i++)
			push_marker(&b, at + i, waits[0]);
		ck_assert_int_eq(fx_submit(b.cl, 3), 1);
		ck_assert_int_eq(fx_submit(b.cl, 2), -EAGAIN);
		fx_start(b.fx, fx_expect_task(b.fx, at));
		fx_die(b.fx);
		ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
		fx_expect(b.cl, at, -EOWNERDEAD);
		push_marker(&b, at + 3, waits[1]);
		push_marker(&b, at + 4, waits[0]);
		push_marker(&b, at + 5, waits[1]);
		push_marker(&b, at + 6, waits[1]);
		set_tasks_max(&b, 5);
		ck_assert_int_eq(fx_submit(b.cl, 7), 5);
		ck_assert_int_eq(fx_submit(b.cl, 7), 1);
		fx_expect(b.cl, at + 1, -EOWNERDEAD);
		fx_expect(b.cl, at + 2, -EOWNERDEAD);
		fx_expect(b.cl, at + 4, -ECANCELED);
		expect_runs(&b, at + 3);
		expect_runs(&b, at + 5);
		expect_runs(&b, at + 6);
	}
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	tear_down(&b);
}
END_TEST

/* What they have in memory of their own goes with them, each time; so does a context's end. */
START_TEST(waits_with_much)
{
	struct bench b = set_up();
	u32 i, waits = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_WAIT);
	struct arax_task_ext x = { .size = sizeof(x), .arg_len = 1000 };
	struct arax_task t = fx_marker(b.cl, 7);

	memcpy(b.cl->region + b.cl->init.arena_offset, &x, sizeof(x));
	t.opcode = ARAX_OP_CALL;
	t.queue = waits;
	t.flags = ARAX_TASK_EXT;
	set_tasks_max(&b, 0);
	for (i = 0; i < 20; i++)
		fx_push(b.cl, &t);
	for (i = 0; i < 5; i++)
		ck_assert_int_eq(fx_submit(b.cl, 20), -EAGAIN);
	set_tasks_max(&b, 1);
	ck_assert_int_eq(fx_submit(b.cl, 20), 1);
	expect_runs(&b, 7);
	if (_i) {
		set_tasks_max(&b, 0);
		ck_assert_int_eq(fx_submit(b.cl, 20), -EAGAIN);
		core_client_kill(b.cl->c, EPIPE);
		ck_assert(!core_awaits_room(b.cl->c));
		ck_assert_int_eq(fx_submit(b.cl, 20), -EPIPE);
	}
	set_tasks_max(&b, ARAX_LIMIT_MAX);
	if (!_i) {
		ck_assert_int_eq(fx_submit(b.cl, 20), 19);
		for (i = 0; i < 19; i++)
			expect_runs(&b, 7);
	}
	tear_down(&b);
}
END_TEST

/* Revoked in the middle of a batch's life; ranges in an allocation of their own. */
START_TEST(revoked)
{
	struct bench b = set_up();
	struct arax_task_ext x = { .size = sizeof(x), .nr_ranges = 1, .arg_len = 100 };
	struct arax_range r = { .buffer = b.b, .access = ARAX_OUT, .offset = 4096, .length = 8,
				.count = 1 };
	struct arax_task t = fx_marker(b.cl, 1);
	u8 *arena = b.cl->region + b.cl->init.arena_offset;
	u64 tag;

	memcpy(arena, &x, sizeof(x));
	memcpy(arena + sizeof(x), &r, sizeof(r));
	t.opcode = ARAX_OP_CALL;
	t.queue = b.flow;
	t.flags = ARAX_TASK_EXT;
	t.nr_ranges = 1;
	t.ranges[0] = r;
	t.ranges[0].buffer = b.a;
	ck_assert_int_eq(core_buffer_revoke(b.cl->c, b.a), 0);
	fx_push(b.cl, &t);
	t = fx_marker(b.cl, 2);
	t.opcode = ARAX_OP_CALL;
	t.queue = b.flow;
	t.nr_ranges = 1;
	t.ranges[0] = r;
	fx_push(b.cl, &t);
	t.user_data = 3;
	t.ranges[0].offset = 0;
	fx_push(b.cl, &t);
	ck_assert_int_eq(fx_submit(b.cl, 3), 3);
	tag = expect_refused(&b, 1, -ESTALE);
	expect_canceled(&b, 2, tag);
	expect_runs(&b, 3);
	tear_down(&b);
}
END_TEST

/* Its timelines are those of a failed task. */
START_TEST(signals)
{
	struct bench b = set_up();
	struct arax_task_ext x = { .size = sizeof(x), .signal_value = 1 };
	struct arax_timeline_point q = { 0 };
	struct arax_task t = fx_marker(b.cl, 2);
	u64 tag;

	x.signal_timeline = fx_timeline(b.cl, 0);
	memcpy(b.cl->region + b.cl->init.arena_offset, &x, sizeof(x));
	t.flags = ARAX_TASK_EXT;
	push_bad(&b, 1, b.cl->queue);
	fx_push(b.cl, &t);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	tag = expect_refused(&b, 1, -EINVAL);
	expect_canceled(&b, 2, tag);
	q.handle = x.signal_timeline;
	ck_assert_int_eq(core_timeline_query(b.cl->c, &q), 0);
	ck_assert_uint_eq(q.value, 1);
	ck_assert_int_eq(q.error, -ECANCELED);
	tear_down(&b);
}
END_TEST

Suite *core_refuse_suite(void)
{
	Suite *s = suite_create("core refuse");
	TCase *tc = tcase_create("refuse");

	tcase_add_test(tc, in_order);
	tcase_add_test(tc, detached);
	tcase_add_test(tc, long_batch);
	tcase_add_test(tc, stream);
	tcase_add_test(tc, own_ends);
	tcase_add_test(tc, continue_runs);
	tcase_add_test(tc, byte_ranges);
	tcase_add_test(tc, queues_apart);
	tcase_add_test(tc, written_anew);
	tcase_add_test(tc, barriers);
	tcase_add_test(tc, unknown_ranges);
	tcase_add_test(tc, unknown_queue);
	tcase_add_test(tc, many_ranges);
	tcase_add_test(tc, quota);
	tcase_add_test(tc, waits_for_room);
	tcase_add_test(tc, others_do_not_wait);
	tcase_add_loop_test(tc, waiting_when_it_dies, 0, 3);
	tcase_add_loop_test(tc, waiting_when_all_fails, 0, 3);
	tcase_add_test(tc, waiting_is_over_at_last);
	tcase_add_test(tc, waiting_beside_later_ones);
	tcase_add_loop_test(tc, waits_with_much, 0, 2);
	tcase_add_test(tc, revoked);
	tcase_add_test(tc, signals);
	suite_add_tcase(s, tc);
	return s;
}
