// SPDX-License-Identifier: MIT
/* Failures among tasks that the mediator has not seen. */
#include "core_fixture.h"

/* One slot: the first task is at the mediator, the others wait in the core. */
static struct fx *narrow(struct fx_client **cl)
{
	struct core_params p = fx_params();
	struct fx *fx;

	p.slots = 2;
	fx = fx_new(&p);
	*cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	return fx;
}

START_TEST(in_order_dependents)
{
	struct arax_completion e;
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u64 tag;
	u32 i, other;

	other = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	for (i = 0; i < 4; i++) {
		t = fx_marker(cl, i);
		if (i == 2)
			t.queue = other;
		ck_assert_int_eq(fx_send(cl, &t), 1);
	}
	tag = fx_expect_task(fx, 0);
	fx_commit(fx, tag, -EIO);
	fx_expect(cl, 0, -EIO);
	e = fx_expect(cl, 1, -ECANCELED);
	ck_assert_uint_eq(e.origin, tag);
	e = fx_expect(cl, 3, -ECANCELED);
	ck_assert_uint_eq(e.origin, tag);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	fx_expect(cl, 2, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(continue_runs)
{
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u32 i;

	cl->queue = fx_queue(cl, ARAX_QUEUE_CONTINUE);
	for (i = 0; i < 3; i++) {
		t = fx_marker(cl, i);
		ck_assert_int_eq(fx_send(cl, &t), 1);
	}
	fx_commit(fx, fx_expect_task(fx, 0), -EIO);
	fx_expect(cl, 0, -EIO);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	fx_expect(cl, 1, 0);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A task fails that which touches its bytes, not that which shares a buffer. */
START_TEST(byte_ranges)
{
	struct arax_completion e;
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u32 a, b;
	u64 tag;

	a = fx_buffer(cl, 4096);
	b = fx_buffer(cl, 8192);
	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	t = fx_copy(cl, 1, a, b, 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t.user_data = 2;	/* the next bytes */
	t.ranges[1].offset = 64;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t.user_data = 3;	/* reads what 1 wrote, writes elsewhere */
	t.ranges[0].buffer = b;
	t.ranges[1].offset = 4096;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t.user_data = 4;	/* reads what 3 would have written */
	t.ranges[0].offset = 4159;
	t.ranges[0].length = 1;
	t.ranges[1].length = 1;
	t.ranges[1].offset = 200;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	fx_commit(fx, tag, -EIO);
	fx_expect(cl, 1, -EIO);
	e = fx_expect(cl, 3, -ECANCELED);
	ck_assert_uint_eq(e.origin, tag);
	fx_expect(cl, 4, -ECANCELED);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	fx_expect(cl, 2, 0);
	fx_expect_none(cl);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Who only writes over what it read is not failed by it, nor by who is canceled because of it. */
START_TEST(readers_fail_nobody)
{
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u32 a, b, c;

	a = fx_buffer(cl, 4096);
	b = fx_buffer(cl, 4096);
	c = fx_buffer(cl, 4096);
	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	t = fx_copy(cl, 1, a, b, 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_copy(cl, 2, c, a, 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_copy(cl, 3, b, b, 64);
	t.ranges[1].offset = 128;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_copy(cl, 4, c, b, 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_copy(cl, 5, a, c, 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 1), -EIO);
	fx_expect(cl, 1, -EIO);
	fx_expect(cl, 3, -ECANCELED);
	fx_expect(cl, 4, -ECANCELED);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	fx_expect(cl, 2, 0);
	fx_commit(fx, fx_expect_task(fx, 5), 0);
	fx_expect(cl, 5, 0);
	fx_expect_none(cl);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

#define RANDOM_TASKS	8
#define PIECE		64

struct random_task {
	u32 queue, buffer[2], piece[2];
	bool flow, barrier, fails;
};

static u32 rnd(u32 *seed, u32 n)
{
	*seed = *seed * 1664525 + 1013904223;
	return (u32)((u64)*seed * n >> 32);
}

/* As uapi/arax.h has it, and the mediator's graph (selftests/unit/graph_model.c): of @a's ranges the second is written. */
static bool depends_on(const struct random_task *b, const struct random_task *a)
{
	u32 i;

	if (a->queue == b->queue && (!a->flow || a->barrier || b->barrier))
		return true;
	for (i = 0; i < 2 && (a->flow || b->flow); i++)
		if (b->buffer[i] == a->buffer[1] && b->piece[i] == a->piece[1])
			return true;
	return false;
}

/* Whoever depends on a failed task fails, and nobody else. */
START_TEST(dependents_and_no_others)
{
	struct random_task tasks[RANDOM_TASKS] = { 0 };
	u32 seed = (u32)_i * 0x9e3779b9u + 1, queues[3], buffers[2], i, k;
	const struct arax_dispatch *d;
	struct arax_completion e;
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);

	for (i = 0; i < 3; i++)
		queues[i] = fx_queue(cl, i ? ARAX_QUEUE_DATAFLOW : ARAX_QUEUE_IN_ORDER);
	for (i = 0; i < 2; i++)
		buffers[i] = fx_buffer(cl, 4096);
	for (i = 0; i < RANDOM_TASKS; i++) {
		struct random_task *r = &tasks[i];
		struct arax_task t = fx_copy(cl, i, buffers[0], buffers[0], PIECE);

		r->queue = rnd(&seed, 3);
		r->flow = r->queue;
		r->barrier = !rnd(&seed, 10);
		for (k = 0; k < 2; k++) {
			r->buffer[k] = rnd(&seed, 2);
			r->piece[k] = rnd(&seed, 3);
			t.ranges[k].buffer = buffers[r->buffer[k]];
			t.ranges[k].offset = 2ull * PIECE * r->piece[k];
		}
		t.queue = queues[r->queue];
		t.flags |= r->barrier ? ARAX_TASK_BARRIER : 0;
		ck_assert_int_eq(fx_send(cl, &t), 1);
		r->fails = !i;
		for (k = 0; k < i; k++)
			r->fails |= tasks[k].fails && depends_on(r, &tasks[k]);
	}
	fx_commit(fx, fx_expect_task(fx, 0), -EIO);
	while ((d = fx_next(fx)))
		if (d->type == ARAX_DISPATCH_TASK)
			fx_commit(fx, d->tag, 0);
	for (i = 0; i < RANDOM_TASKS; i++) {
		ck_assert(fx_pop(cl, &e));
		ck_assert_uint_lt(e.user_data, RANDOM_TASKS);
		ck_assert_int_eq(!!e.result, tasks[e.user_data].fails);
	}
	fx_expect_none(cl);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Two in-order queues are not related by their ranges, as at the mediator. */
START_TEST(queues_apart)
{
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u32 b;

	b = fx_buffer(cl, 4096);
	t = fx_copy(cl, 1, b, b, 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t.user_data = 2;
	t.queue = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t.user_data = 3;
	t.queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 1), -EIO);
	fx_expect(cl, 1, -EIO);
	fx_expect(cl, 3, -ECANCELED);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	fx_expect(cl, 2, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A barrier follows all before it in its dataflow queue, and all follow it. */
START_TEST(barriers)
{
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u32 i, other;

	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	other = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	for (i = 0; i < 5; i++) {
		t = fx_marker(cl, i);
		t.flags = i == 2 ? ARAX_TASK_BARRIER : 0;
		if (i == 4)
			t.queue = other;
		ck_assert_int_eq(fx_send(cl, &t), 1);
	}
	fx_commit(fx, fx_expect_task(fx, 0), -EIO);
	fx_expect(cl, 0, -EIO);
	fx_expect(cl, 2, -ECANCELED);
	fx_expect(cl, 3, -ECANCELED);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	fx_commit(fx, fx_expect_task(fx, 4), 0);
	fx_expect(cl, 1, 0);
	fx_expect(cl, 4, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Canceled before a mediator had it: its tag, of no epoch, is its dependents' origin. */
START_TEST(cancel_names_its_origin)
{
	struct arax_cancel c = { .user_data = 1 };
	struct arax_completion e, d;
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u64 tag;
	u32 i;

	for (i = 0; i < 4; i++) {
		t = fx_marker(cl, i);
		ck_assert_int_eq(fx_send(cl, &t), 1);
	}
	tag = fx_expect_task(fx, 0);
	ck_assert_int_eq(core_cancel(cl->c, &c), 0);
	ck_assert_uint_eq(c.nr_canceled, 1);
	e = fx_expect(cl, 1, -ECANCELED);
	ck_assert_uint_ne(e.tag, 0);
	ck_assert_uint_eq(ARAX_TAG_EPOCH(e.tag), 0);
	ck_assert_uint_eq(e.origin, 0);
	for (i = 2; i < 4; i++) {
		d = fx_expect(cl, i, -ECANCELED);
		ck_assert_uint_eq(d.origin, e.tag);
		ck_assert_uint_ne(d.tag, 0);
		ck_assert_uint_ne(d.tag, e.tag);
	}
	fx_commit(fx, tag, 0);
	fx_expect(cl, 0, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Back from a dead mediator: the tag that it had is nobody's any more. */
START_TEST(cancel_of_a_recovered_task)
{
	struct arax_cancel c = { .user_data = 1 };
	struct arax_completion e;
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u64 tag;

	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_marker(cl, 2);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	fx_die(fx);
	ck_assert_int_eq(core_cancel(cl->c, &c), 0);
	e = fx_expect(cl, 1, -ECANCELED);
	ck_assert_uint_ne(e.tag, tag);
	ck_assert_uint_eq(ARAX_TAG_EPOCH(e.tag), 0);
	tag = e.tag;
	e = fx_expect(cl, 2, -ECANCELED);
	ck_assert_uint_eq(e.origin, tag);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A canceled task fails its dependents while notes of its buffers go out. */
START_TEST(cancel_queue_with_notes)
{
	struct arax_cancel c = { .flags = ARAX_CANCEL_QUEUE };
	struct arax_buffer_get get = { 0 };
	struct core_buffer *buf;
	struct fx_client *cl;
	struct fx *fx = narrow(&cl);
	struct arax_task t;
	u64 tag;
	u32 i, h;

	t = fx_marker(cl, 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 0);
	cl->queue = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	for (i = 1; i < 9; i++) {
		h = fx_buffer(cl, 4096);
		buf = core_handle_find(&cl->c->handles, CORE_BUFFER, h);
		get.id = buf->id;
		ck_assert_int_eq(core_buffer_get(fx->core, &get), 0);
		fx_close_buffer(fx, buf);
		t = fx_copy(cl, i, h, h, 16);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		ck_assert_int_eq(core_buffer_destroy(cl->c, h), 0);
	}
	core_spin_lock(&fx->core->dispatch);
	fx->core->params.slots = 3;
	fx->core->slots = realloc(fx->core->slots, 3 * sizeof(*fx->core->slots));
	fx->core->slots[2] = (struct core_slot){ .gen = 1 };
	fx->core->slot_free = 2;
	fx->core->slot_last = 2;
	core_spin_unlock(&fx->core->dispatch);
	c.queue = cl->queue;
	ck_assert_int_eq(core_cancel(cl->c, &c), 0);
	ck_assert_uint_eq(c.nr_canceled, 8);
	for (i = 1; i < 9; i++)
		fx_expect(cl, i, -ECANCELED);
	fx_commit(fx, tag, 0);
	fx_expect(cl, 0, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_fail_suite(void)
{
	Suite *s = suite_create("core fail");
	TCase *tc = tcase_create("fail");

	tcase_add_test(tc, in_order_dependents);
	tcase_add_test(tc, continue_runs);
	tcase_add_test(tc, byte_ranges);
	tcase_add_test(tc, readers_fail_nobody);
	tcase_add_loop_test(tc, dependents_and_no_others, 0, 200);
	tcase_add_test(tc, queues_apart);
	tcase_add_test(tc, barriers);
	tcase_add_test(tc, cancel_names_its_origin);
	tcase_add_test(tc, cancel_of_a_recovered_task);
	tcase_add_test(tc, cancel_queue_with_notes);
	suite_add_tcase(s, tc);
	return s;
}
