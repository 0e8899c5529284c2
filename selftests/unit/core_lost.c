// SPDX-License-Identifier: MIT
/* Lost bytes: who may read them, in the order of submission. */
#include "core_fixture.h"

struct bench {
	struct fx *fx;
	struct fx_client *cl;
	u32 a, b, c;		/* buffers; b's first 4,096 bytes are lost */
	u32 flow;
};

static void lose(struct bench *b)
{
	struct arax_task t = fx_copy(b->cl, 1000, b->a, b->b, 4096);

	ck_assert_int_eq(fx_send(b->cl, &t), 1);
	fx_commit_dirty(b->fx, fx_expect_task(b->fx, 1000), 2);
	fx_expect(b->cl, 1000, 0);
}

static struct bench set_up(void)
{
	struct bench b = { .fx = fx_new(NULL) };

	b.cl = fx_client(b.fx, 1000, 2);
	ck_assert_int_eq(fx_init(b.cl, 64, 128, 0), 0);
	b.cl->queue = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	b.flow = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW);
	b.a = fx_buffer(b.cl, 8192);
	b.b = fx_buffer(b.cl, 8192);
	b.c = fx_buffer(b.cl, 1 << 20);
	ck_assert_int_eq(fx_attach(b.fx, 0), 0);
	lose(&b);
	return b;
}

static struct bench set_up_lost(void)
{
	struct bench b = set_up();

	fx_die(b.fx);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	return b;
}

static void tear_down(struct bench *b)
{
	fx_expect_none(b->cl);
	ck_assert_uint_eq(fx_used(b->fx->tenants[0], ARAX_RES_TASKS), 0);
	fx_release(b->cl);
	fx_free(b->fx);
}

/* Each to a place of its own. */
static void reader(struct bench *b, u64 user_data, u32 queue, u64 offset, u64 n)
{
	struct arax_task t = fx_copy(b->cl, user_data, b->b, b->c, n);

	t.queue = queue;
	t.ranges[0].offset = offset;
	t.ranges[1].offset = user_data * 8192;
	ck_assert_int_eq(fx_send(b->cl, &t), 1);
}

static void writer(struct bench *b, u64 user_data, u32 queue, u64 offset, u64 n)
{
	struct arax_task t = fx_copy(b->cl, user_data, b->a, b->b, n);

	t.queue = queue;
	t.ranges[1].offset = offset;
	ck_assert_int_eq(fx_send(b->cl, &t), 1);
}

static void done(struct bench *b, u64 user_data)
{
	fx_commit(b->fx, fx_expect_task(b->fx, user_data), 0);
	fx_expect(b->cl, user_data, 0);
}

START_TEST(behind_a_writer)
{
	struct bench b = set_up_lost();
	u32 other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u32 go_on = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);

	reader(&b, 1, b.cl->queue, 0, 1);
	fx_expect(b.cl, 1, -EIO);
	writer(&b, 2, b.cl->queue, 0, 4096);
	reader(&b, 3, b.cl->queue, 0, 4096);
	reader(&b, 4, b.flow, 100, 4096);	/* some behind them were never lost */
	reader(&b, 5, other, 0, 1);		/* may run before it */
	fx_expect(b.cl, 5, -EIO);
	reader(&b, 6, go_on, 0, 1);		/* would run without it */
	fx_expect(b.cl, 6, -EIO);
	done(&b, 2);
	reader(&b, 7, other, 0, 4096);
	reader(&b, 8, go_on, 0, 4096);
	done(&b, 3);
	done(&b, 4);
	done(&b, 7);
	done(&b, 8);
	tear_down(&b);
}
END_TEST

START_TEST(in_pieces)
{
	struct bench b = set_up_lost();

	writer(&b, 1, b.cl->queue, 2048, 2048);
	reader(&b, 2, b.cl->queue, 2048, 10);
	reader(&b, 3, b.cl->queue, 2047, 10);
	fx_expect(b.cl, 3, -EIO);
	writer(&b, 4, b.flow, 0, 2047);
	reader(&b, 5, b.flow, 0, 4096);
	fx_expect(b.cl, 5, -EIO);
	writer(&b, 6, b.flow, 2040, 10);
	reader(&b, 7, b.flow, 0, 8192);
	reader(&b, 8, b.cl->queue, 0, 4096);
	done(&b, 1);
	done(&b, 2);
	done(&b, 4);
	done(&b, 6);
	done(&b, 7);
	done(&b, 8);
	tear_down(&b);
}
END_TEST

/* The promise ends with the writer, kept or not. */
START_TEST(writer_fails)
{
	struct bench b = set_up_lost();
	struct arax_limit l = { .cgroup_fd = 2, .what = ARAX_SET_MAX + ARAX_RES_TASKS };

	writer(&b, 1, b.flow, 0, 4096);
	writer(&b, 2, b.flow, 0, 4096);
	fx_commit(b.fx, fx_expect_task(b.fx, 1), -EDOM);
	fx_expect(b.cl, 1, -EDOM);
	reader(&b, 3, b.flow, 0, 1);		/* there is the other */
	fx_commit(b.fx, fx_expect_task(b.fx, 2), -EDOM);
	fx_expect(b.cl, 2, -EDOM);
	done(&b, 3);
	reader(&b, 4, b.flow, 0, 1);
	fx_expect(b.cl, 4, -EIO);
	/* One that wasn't accepted promised nothing. */
	ck_assert_int_eq(core_limit_set(b.fx->core, &l), 0);
	writer(&b, 5, b.flow, 0, 4096);
	fx_expect(b.cl, 5, -EDQUOT);
	l.value = ARAX_LIMIT_MAX;
	ck_assert_int_eq(core_limit_set(b.fx->core, &l), 0);
	reader(&b, 6, b.flow, 0, 1);
	fx_expect(b.cl, 6, -EIO);
	tear_down(&b);
}
END_TEST

/* Written anew on a device: not lost, until that one is lost too. */
START_TEST(rewritten_elsewhere)
{
	struct bench b = set_up_lost();

	lose(&b);
	reader(&b, 1, b.flow, 0, 4096);
	done(&b, 1);
	fx_die(b.fx);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	reader(&b, 2, b.flow, 0, 1);
	fx_expect(b.cl, 2, -EIO);
	tear_down(&b);
}
END_TEST

/* Not started when the mediator died: each is judged by those before it. */
START_TEST(settled_in_order)
{
	struct bench b = set_up();
	u32 other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);

	reader(&b, 1, b.cl->queue, 0, 8);
	writer(&b, 2, b.flow, 0, 4096);
	reader(&b, 3, b.flow, 0, 8);
	reader(&b, 4, other, 0, 8);
	core_detach(b.fx->core);
	reader(&b, 5, b.flow, 8, 8);
	reader(&b, 6, fx_queue(b.cl, ARAX_QUEUE_CONTINUE), 0, 8);
	fx_expect_none(b.cl);
	fx_gone(b.fx);
	fx_expect(b.cl, 1, -EIO);
	fx_expect(b.cl, 6, -EIO);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	fx_expect_none(b.cl);
	done(&b, 2);
	done(&b, 3);
	done(&b, 4);
	done(&b, 5);
	tear_down(&b);
}
END_TEST

/* A writer that comes later promises nothing to those before it, at no time. */
START_TEST(later_promises)
{
	struct bench b = set_up_lost();

	writer(&b, 1, b.flow, 0, 4096);
	reader(&b, 2, b.flow, 0, 8);
	writer(&b, 3, b.flow, 0, 4096);
	fx_commit_dirty(b.fx, fx_expect_task(b.fx, 1), 2);
	fx_expect(b.cl, 1, 0);
	fx_die(b.fx);
	fx_expect(b.cl, 2, -EIO);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	done(&b, 3);
	tear_down(&b);
}
END_TEST

/* The writer had started, so it failed: its reader does too, and is told why. */
START_TEST(writer_dies)
{
	struct bench b = set_up();
	struct arax_completion e;

	writer(&b, 1, b.cl->queue, 0, 4096);
	reader(&b, 2, b.cl->queue, 0, 8);
	fx_start(b.fx, fx_expect_task(b.fx, 1));
	fx_die(b.fx);
	fx_expect(b.cl, 1, -EOWNERDEAD);
	ck_assert(fx_pop(b.cl, &e));
	ck_assert_uint_eq(e.user_data, 2);
	ck_assert_int_eq(e.result, -EIO);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	tear_down(&b);
}
END_TEST

/* A marker of what is on a device alone: it comes back with it, wholly or in part. */
START_TEST(brought_back)
{
	struct bench b = set_up();
	struct arax_task t = fx_marker(b.cl, 1), c = fx_copy(b.cl, 1, b.b, b.a, 2048);

	t.nr_ranges = 1;
	t.ranges[0] = c.ranges[0];
	t.ranges[0].access = ARAX_IN;
	ck_assert_int_eq(fx_send(b.cl, &t), 1);
	done(&b, 1);
	/* One that fails brings nothing. */
	t.user_data = 2;
	t.ranges[0].offset = 2048;
	ck_assert_int_eq(fx_send(b.cl, &t), 1);
	fx_commit(b.fx, fx_expect_task(b.fx, 2), -EIO);
	fx_expect(b.cl, 2, -EIO);
	fx_die(b.fx);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	reader(&b, 3, b.flow, 0, 2048);
	done(&b, 3);
	reader(&b, 4, b.flow, 2048, 8);
	fx_expect(b.cl, 4, -EIO);
	/* And what is lost stays lost, whoever asks. */
	t.user_data = 5;
	t.known = 0;
	t.ranges[0].access = ARAX_IN;
	ck_assert_int_eq(fx_send(b.cl, &t), 1);
	fx_expect(b.cl, 5, -EIO);
	tear_down(&b);
}
END_TEST

/* A writer that is canceled by a refusal before it: at once, or @_i tasks to a submission. */
START_TEST(a_refused_writer_promises_nothing)
{
	struct bench b = set_up_lost();
	struct arax_completion e;
	struct arax_task t = fx_marker(b.cl, 10);
	u32 got = 0;

	t.opcode = 99;
	fx_push(b.cl, &t);
	t = fx_copy(b.cl, 11, b.a, b.b, 4096);
	fx_push(b.cl, &t);
	ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	fx_expect(b.cl, 10, -EOPNOTSUPP);
	if (_i)
		ck_assert_int_eq(fx_submit(b.cl, 1), 1);
	/* By bytes it comes behind the writer. */
	t = fx_copy(b.cl, 12, b.b, b.c, 4096);
	t.queue = b.flow;
	fx_push(b.cl, &t);
	ck_assert_int_eq(fx_submit(b.cl, 2 - _i), 2 - _i);
	while (fx_pop(b.cl, &e)) {
		ck_assert_int_eq(e.result, e.user_data == 11 ? -ECANCELED : -EIO);
		got++;
	}
	ck_assert_uint_eq(got, 2);
	ck_assert_ptr_null(fx_next(b.fx));
	tear_down(&b);
}
END_TEST

/* A promise that finds no place is not made. */
START_TEST(many_writers)
{
	struct bench b = set_up_lost();
	u32 i;

	for (i = 0; i <= CORE_PROMISES; i++)
		writer(&b, i, b.flow, 100 * i, 100);
	for (i = 0; i < CORE_PROMISES; i++)
		reader(&b, 10 + i, b.flow, 100 * i, 100);
	reader(&b, 20, b.flow, 100 * CORE_PROMISES, 100);
	fx_expect(b.cl, 20, -EIO);
	ck_assert_uint_eq(fx_drain(b.fx), 2 * CORE_PROMISES + 1);
	for (i = 0; i <= CORE_PROMISES; i++)
		fx_expect(b.cl, i, 0);
	for (i = 0; i < CORE_PROMISES; i++)
		fx_expect(b.cl, 10 + i, 0);
	reader(&b, 21, b.flow, 100 * CORE_PROMISES, 100);
	done(&b, 21);
	tear_down(&b);
}
END_TEST

Suite *core_lost_suite(void)
{
	Suite *s = suite_create("core lost");
	TCase *tc = tcase_create("lost");

	tcase_add_test(tc, behind_a_writer);
	tcase_add_test(tc, in_pieces);
	tcase_add_test(tc, writer_fails);
	tcase_add_test(tc, rewritten_elsewhere);
	tcase_add_test(tc, settled_in_order);
	tcase_add_test(tc, later_promises);
	tcase_add_test(tc, writer_dies);
	tcase_add_test(tc, brought_back);
	tcase_add_loop_test(tc, a_refused_writer_promises_nothing, 0, 2);
	tcase_add_test(tc, many_writers);
	suite_add_tcase(s, tc);
	return s;
}
