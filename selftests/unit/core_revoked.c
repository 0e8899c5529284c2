// SPDX-License-Identifier: MIT
/* Failures that the mediator's graph doesn't know of: it has run what depends on them. */
#include "core_fixture.h"

#define PART	64u

struct bench {
	struct fx *fx;
	struct fx_client *cl;
	u32 stale, a, b, free;	/* buffers: the first will be revoked, nobody waits for the last */
};

/* @slots: of tasks at the mediator, and one more; 0: enough. */
static struct bench set_up(u32 slots)
{
	struct core_params p = fx_params();
	struct bench b;

	if (slots)
		p.slots = slots;
	b.fx = fx_new(&p);
	b.cl = fx_client_ready(b.fx);
	ck_assert_int_eq(fx_attach(b.fx, 0), 0);
	b.cl->queue = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW);
	b.stale = fx_buffer(b.cl, 4096);
	b.a = fx_buffer(b.cl, 4096);
	b.b = fx_buffer(b.cl, 4096);
	b.free = fx_buffer(b.cl, 4096);
	return b;
}

static void tear_down(struct bench *b)
{
	/* Of what has ended nothing is kept longer than for those that were there. */
	ck_assert_uint_eq(b->cl->c->ended_mark, 0);
	fx_release(b->cl);
	fx_free(b->fx);
}

static void send_task(struct bench *b, struct arax_task t)
{
	ck_assert_int_eq(fx_send(b->cl, &t), 1);
}

/* The @nth part of @to is written. */
static struct arax_task copy_to(struct bench *b, u64 user_data, u32 from, u32 to, u32 nth)
{
	struct arax_task t = fx_copy(b->cl, user_data, from, to, PART);

	t.ranges[1].offset = nth * PART;
	return t;
}

static u64 dispatch(struct bench *b, u64 user_data, u32 from, u32 to, u32 nth)
{
	send_task(b, copy_to(b, user_data, from, to, nth));
	return fx_expect_task(b->fx, user_data);
}

/* Ends well, says the mediator. */
static struct arax_completion ends(struct bench *b, u64 tag, u64 user_data, s32 result)
{
	fx_commit(b->fx, tag, 0);
	return fx_expect(b->cl, user_data, result);
}

static void revoke(struct bench *b)
{
	ck_assert_int_eq(core_buffer_revoke(b->cl->c, b->stale), 0);
}

static void cancel_one(struct fx_client *cl, u64 user_data)
{
	struct arax_cancel c = { .user_data = user_data };

	ck_assert_int_eq(core_cancel(cl->c, &c), 0);
	ck_assert_uint_eq(c.nr_canceled, 1);
	fx_expect(cl, user_data, -ECANCELED);
}

/*
 * What ends here only, as a buffer was revoked, fails those behind it that the mediator has, and which
 * it lets run; but not who was submitted when that was known, though others fail later.
 */
START_TEST(revoked_under_what_is_dispatched)
{
	enum { R, B, C, D, G, BUFFERS };
	const struct { u32 from, to; s32 result; } does[] = {
		{ R, B, -ESTALE }, { B, C, -ECANCELED }, { C, D, -ECANCELED }, { G, G, 0 },
		{ G, C, -ECANCELED },
	};
	enum { TASKS = sizeof(does) / sizeof(does[0]) };
	struct core_params p = fx_params();
	struct fx *fx;
	struct fx_client *cl;
	struct arax_completion e;
	u32 buf[BUFFERS], i;
	struct arax_task t;
	u64 tag[TASKS], late[2];

	/* Or some find no slot, and are queued until others have ended. */
	if (_i)
		p.slots = 4;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < BUFFERS; i++)
		buf[i] = fx_buffer(cl, 4096);
	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	for (i = 0; i < TASKS; i++) {
		t = fx_copy(cl, i, buf[does[i].from], buf[does[i].to], 64);
		ck_assert_int_eq(fx_send(cl, &t), 1);
	}
	for (i = 0; i < (_i ? 3 : TASKS); i++)
		tag[i] = fx_expect_task(fx, i);
	ck_assert_int_eq(core_buffer_revoke(cl->c, buf[R]), 0);
	fx_commit(fx, tag[0], 0);
	ck_assert_uint_eq(fx_expect(cl, 0, -ESTALE).origin, 0);
	/* It is known: this one writes B anew, and the next one reads that. */
	t = fx_copy(cl, 10, buf[G], buf[B], 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_copy(cl, 11, buf[B], buf[G], 64);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	for (i = 1; i < TASKS; i++) {
		if (_i && i == 3)
			tag[3] = fx_expect_task(fx, 3);
		if (_i && i == 4)
			break;
		fx_commit(fx, tag[i], 0);
		e = fx_expect(cl, i, does[i].result);
		ck_assert_uint_eq(e.origin, does[i].result ? tag[0] : 0);
		/* It would write what that one should have, and was the next to be dispatched. */
		if (_i && i == 1)
			ck_assert_uint_eq(fx_expect(cl, 4, -ECANCELED).origin, tag[0]);
	}
	for (i = 0; i < 2; i++) {
		late[i] = fx_expect_task(fx, 10 + i);
		fx_commit(fx, late[i], 0);
		fx_expect(cl, 10 + i, 0);
	}
	ck_assert_uint_eq(fx->core->nr_marking, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST


static void recover(struct fx *fx)
{
	const struct arax_dispatch *d;

	fx_die(fx);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	while ((d = fx_next(fx)))
		fx_commit(fx, d->tag, 0);
}

/* The next mediator is not given what depends on it as if nothing had been. */
START_TEST(known_when_the_mediator_dies)
{
	struct bench b = set_up(0);
	u64 tag = dispatch(&b, 0, b.stale, b.a, 0);

	dispatch(&b, 1, b.a, b.b, 0);
	revoke(&b);
	ends(&b, tag, 0, -ESTALE);
	recover(b.fx);
	ck_assert_uint_eq(fx_expect(b.cl, 1, -ECANCELED).origin, tag);
	tear_down(&b);
}
END_TEST

/* Nor what was queued yet behind one that fails as it was said to. */
START_TEST(queued_when_the_mediator_dies)
{
	struct bench b = set_up(3);
	u64 tag = dispatch(&b, 0, b.stale, b.a, 0);

	for (u32 i = 5; i < 8; i++)
		send_task(&b, copy_to(&b, i, b.free, b.free, 0));
	send_task(&b, copy_to(&b, 1, b.a, b.b, 0));
	fx_commit(b.fx, tag, -EIO);
	fx_expect(b.cl, 0, -EIO);
	recover(b.fx);
	fx_expect(b.cl, 1, -ECANCELED);
	for (u32 i = 5; i < 8; i++)
		fx_expect(b.cl, i, 0);
	tear_down(&b);
}
END_TEST

/* Both are at work at once, and one comes before the other. */
START_TEST(rows_between_rows)
{
	struct bench b = set_up(0);
	struct arax_task t = copy_to(&b, 1, b.stale, b.a, 0);
	u64 before = dispatch(&b, 0, b.free, b.a, 1), tag;

	for (u32 i = 0; i < 2; i++) {
		t.ranges[i].count = 2;
		t.ranges[i].stride = 2 * PART;
	}
	send_task(&b, t);
	tag = fx_expect_task(b.fx, 1);
	revoke(&b);
	ends(&b, tag, 1, -ESTALE);
	ends(&b, before, 0, 0);
	tear_down(&b);
}
END_TEST

/* What a program that knows of it has written anew is as good as any. */
START_TEST(done_again_beside_another)
{
	struct bench b = set_up(0);
	u64 one = dispatch(&b, 0, b.stale, b.a, 0), other = dispatch(&b, 1, b.stale, b.a, 16), again;

	revoke(&b);
	ends(&b, one, 0, -ESTALE);
	again = dispatch(&b, 2, b.free, b.a, 0);
	ends(&b, other, 1, -ESTALE);
	ends(&b, again, 2, 0);
	tear_down(&b);
}
END_TEST

/* The bytes of one that never was dispatched are no reason for those that were. */
START_TEST(canceled_beside_it)
{
	struct bench b = set_up(3);
	struct arax_task reader = copy_to(&b, 1, b.a, b.b, 0);
	u64 tag = dispatch(&b, 0, b.stale, b.a, 0), read;

	reader.ranges[0].offset = 16 * PART;
	send_task(&b, reader);
	read = fx_expect_task(b.fx, 1);
	send_task(&b, copy_to(&b, 3, b.free, b.free, 0));
	send_task(&b, copy_to(&b, 2, b.free, b.a, 16));
	revoke(&b);
	ends(&b, tag, 0, -ESTALE);
	cancel_one(b.cl, 2);
	ends(&b, read, 1, 0);
	ends(&b, fx_expect_task(b.fx, 3), 3, 0);
	tear_down(&b);
}
END_TEST

/* A stranger whose marks never end, as a task of his doesn't, has others' marks none the wider. */
START_TEST(strangers_are_none_the_worse)
{
	struct bench b = set_up(8);
	struct fx_client *cl = fx_client_ready(b.fx);
	u64 hangs = dispatch(&b, 0, b.free, b.free, 0), tag = dispatch(&b, 1, b.stale, b.a, 0);
	const struct arax_dispatch *d;
	struct arax_task t;
	u32 buf[4], i, first;

	revoke(&b);
	ends(&b, tag, 1, -ESTALE);
	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	for (i = 0; i < 4; i++)
		buf[i] = fx_buffer(cl, 4096);
	for (first = 100; first <= 200; first += 100) {
		for (i = 0; i < 10; i++) {
			t = fx_copy(cl, first + i, buf[i < 9 ? 0 : 2], buf[i < 9 ? 1 : 3], PART);
			t.ranges[1].offset = PART * i;
			ck_assert_int_eq(fx_send(cl, &t), 1);
		}
		cancel_one(cl, first + 8);
		for (i = 0; i < 10; i++) {
			if (i == 8)
				continue;
			d = fx_next(b.fx);
			if (d)
				fx_commit(b.fx, d->tag, 0);
			fx_expect(cl, first + i, 0);
		}
	}
	ends(&b, hangs, 0, 0);
	fx_release(cl);
	tear_down(&b);
}
END_TEST

/* However many are submitted while one is at work. */
START_TEST(behind_one_that_hangs)
{
	struct bench b = set_up(0);
	u64 hangs = dispatch(&b, 9, b.free, b.free, 0);
	u64 tag, next;

	b.cl->c->places += 1ull << 32;
	tag = dispatch(&b, 0, b.stale, b.a, 0);
	next = dispatch(&b, 1, b.a, b.b, 0);
	revoke(&b);
	ends(&b, tag, 0, -ESTALE);
	ends(&b, next, 1, -ECANCELED);
	ends(&b, hangs, 9, 0);
	tear_down(&b);
}
END_TEST

/* Which it was, also where an older one is still remembered. */
START_TEST(the_failure_that_it_was)
{
	struct bench b = set_up(0);
	u32 stale = fx_buffer(b.cl, 4096), c = fx_buffer(b.cl, 4096);
	u64 hangs = dispatch(&b, 9, b.free, b.free, 0);
	u64 old = dispatch(&b, 0, b.stale, b.a, 0), tag, next;

	revoke(&b);
	ends(&b, old, 0, -ESTALE);
	tag = dispatch(&b, 1, stale, c, 0);
	next = dispatch(&b, 2, c, c, 0);
	ck_assert_int_eq(core_buffer_revoke(b.cl->c, stale), 0);
	ends(&b, tag, 1, -ESTALE);
	ck_assert_uint_eq(ends(&b, next, 2, -ECANCELED).origin, tag);
	ends(&b, hangs, 9, 0);
	tear_down(&b);
}
END_TEST

/* In a queue whose program has known of it: a later failure is none of those before that. */
START_TEST(canceled_behind_it)
{
	struct bench b = set_up(4);
	u32 fill = _i ? 2 : 3, i, q = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	struct arax_task t = copy_to(&b, 0, b.stale, b.a, 0);
	u64 hangs = _i ? dispatch(&b, 9, b.free, b.free, 0) : 0, tag, last[3];

	t.queue = q;
	send_task(&b, t);
	tag = fx_expect_task(b.fx, 0);
	revoke(&b);
	ends(&b, tag, 0, -ESTALE);
	for (i = 0; i < fill; i++) {
		t = copy_to(&b, 10 + i, b.b, b.b, i);
		t.ranges[0].offset = i * PART;
		send_task(&b, t);
		last[i] = fx_expect_task(b.fx, 10 + i);
	}
	for (i = 1; i <= 2; i++) {
		t = fx_marker(b.cl, i);
		t.queue = q;
		send_task(&b, t);
	}
	ck_assert_ptr_null(fx_next(b.fx));
	cancel_one(b.cl, 2);
	for (i = 0; i < fill; i++)
		ends(&b, last[i], 10 + i, 0);
	ends(&b, fx_expect_task(b.fx, 1), 1, 0);
	if (_i)
		ends(&b, hangs, 9, 0);
	tear_down(&b);
}
END_TEST

/* By order alone: of an in-order queue, and behind a barrier of a dataflow one. */
START_TEST(behind_it_in_its_queue)
{
	struct bench b = set_up(0);
	struct arax_task t = copy_to(&b, 0, b.stale, b.a, 0);
	u64 tag[3];
	u32 i;

	b.cl->queue = fx_queue(b.cl, _i ? ARAX_QUEUE_DATAFLOW : ARAX_QUEUE_IN_ORDER);
	t.queue = b.cl->queue;
	if (_i)
		t.flags |= ARAX_TASK_BARRIER;
	send_task(&b, t);
	for (i = 1; i < 3; i++)
		send_task(&b, copy_to(&b, i, b.free, b.b, i));
	for (i = 0; i < 3; i++)
		tag[i] = fx_expect_task(b.fx, i);
	revoke(&b);
	ends(&b, tag[0], 0, -ESTALE);
	for (i = 1; i < 3; i++)
		ck_assert_uint_eq(ends(&b, tag[i], i, -ECANCELED).origin, tag[0]);
	tear_down(&b);
}
END_TEST

Suite *core_revoked_suite(void)
{
	Suite *s = suite_create("core revoked");
	TCase *tc = tcase_create("revoked");

	tcase_add_loop_test(tc, revoked_under_what_is_dispatched, 0, 2);
	tcase_add_test(tc, known_when_the_mediator_dies);
	tcase_add_test(tc, queued_when_the_mediator_dies);
	tcase_add_test(tc, rows_between_rows);
	tcase_add_test(tc, done_again_beside_another);
	tcase_add_test(tc, canceled_beside_it);
	tcase_add_test(tc, strangers_are_none_the_worse);
	tcase_add_test(tc, behind_one_that_hangs);
	tcase_add_test(tc, the_failure_that_it_was);
	tcase_add_loop_test(tc, canceled_behind_it, 0, 2);
	tcase_add_loop_test(tc, behind_it_in_its_queue, 0, 2);
	suite_add_tcase(s, tc);
	return s;
}
