// SPDX-License-Identifier: MIT
/* Many tasks at once: what is done in steps is done wholly, and in order. */
#include "core_fixture.h"

#define MANY	1000u		/* several times what one step looks at */

struct bench {
	struct fx *fx;
	struct fx_client *cl;
};

static struct bench set_up(u32 slots, bool attach)
{
	struct core_params p = fx_params();
	struct bench b;

	p.slots = slots;
	p.cells = 1u << 14;
	p.user_tasks = 4096;
	b.fx = fx_new(&p);
	b.cl = fx_client(b.fx, 1000, 2);
	ck_assert_int_eq(fx_init(b.cl, 1024, 128, 4096), 0);
	b.cl->queue = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	if (attach)
		ck_assert_int_eq(fx_attach(b.fx, 0), 0);
	return b;
}

static void tear_down(struct bench *b)
{
	fx_expect_none(b->cl);
	ck_assert_uint_eq(fx_used(b->fx->tenants[0], ARAX_RES_TASKS), 0);
	ck_assert_uint_eq(b->fx->core->nr_marking, 0);
	fx_release(b->cl);
	fx_free(b->fx);
}

/* So many of @queue, from @first on. */
static void send(struct bench *b, u32 queue, u32 first, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		struct arax_task t = fx_marker(b->cl, first + i);

		t.queue = queue;
		fx_push(b->cl, &t);
	}
	ck_assert_int_eq(fx_submit(b->cl, n), (int)n);
}

/* Fetches as long as there is more to be done without more room. */
static void fetch_all(struct bench *b)
{
	struct arax_fetch f = { 0 };
	u32 rounds = 0;

	do {
		ck_assert_int_eq(core_fetch(b->fx->core, &f), 0);
		ck_assert_uint_lt(++rounds, MANY);
	} while (f.ready && b->fx->head == b->fx->core->tail);
}

static u32 cancel_queue(struct bench *b, u32 queue)
{
	struct arax_cancel c = { .flags = ARAX_CANCEL_QUEUE, .queue = queue };

	ck_assert_int_eq(core_cancel(b->cl->c, &c), 0);
	return c.nr_canceled;
}

/* All dependents of a failure that wait behind it, by fetching alone. */
START_TEST(failure)
{
	struct bench b = set_up(2, true);
	struct arax_completion e;
	u32 i, other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u64 tag;

	send(&b, b.cl->queue, 0, MANY);
	send(&b, other, MANY, 1);
	tag = fx_expect_task(b.fx, 0);
	fx_commit(b.fx, tag, -EIO);
	fetch_all(&b);
	fx_expect(b.cl, 0, -EIO);
	for (i = 1; i < MANY; i++) {
		e = fx_expect(b.cl, i, -ECANCELED);
		ck_assert_uint_eq(e.origin, tag);
	}
	fx_commit(b.fx, fx_expect_task(b.fx, MANY), 0);
	fx_expect(b.cl, MANY, 0);
	tear_down(&b);
}
END_TEST

/* What was queued once the client could know is no dependent. */
START_TEST(failure_ends)
{
	struct bench b = set_up(2, true);
	u32 other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u64 tag;

	send(&b, other, 1, 1);
	send(&b, b.cl->queue, 2, 2);
	send(&b, other, 4, 2);
	tag = fx_expect_task(b.fx, 1);
	/* 2 takes the slot; nobody gets past 3, which waits for it. */
	fx_commit(b.fx, tag, -EIO);
	fx_expect(b.cl, 1, -EIO);
	fx_expect_none(b.cl);
	tag = fx_expect_task(b.fx, 2);
	send(&b, other, 6, 1);
	fx_commit(b.fx, tag, 0);
	fx_expect(b.cl, 2, 0);
	fx_expect(b.cl, 4, -ECANCELED);
	fx_expect(b.cl, 5, -ECANCELED);
	fx_commit(b.fx, fx_expect_task(b.fx, 3), 0);
	fx_expect(b.cl, 3, 0);
	fx_commit(b.fx, fx_expect_task(b.fx, 6), 0);
	fx_expect(b.cl, 6, 0);
	tear_down(&b);
}
END_TEST

/* Another failure in between doesn't prolong that. */
START_TEST(failure_ends_by_itself)
{
	struct bench b = set_up(3, true);
	u32 one = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER), two = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	u64 a, c, tag;

	send(&b, one, 1, 1);
	send(&b, two, 2, 1);
	send(&b, b.cl->queue, 3, 3);
	send(&b, one, 6, 1);
	a = fx_expect_task(b.fx, 1);
	c = fx_expect_task(b.fx, 2);
	fx_commit(b.fx, a, -EIO);
	fx_expect(b.cl, 1, -EIO);
	send(&b, one, 7, 1);
	fx_commit(b.fx, c, -EIO);
	fx_expect(b.cl, 2, -EIO);
	tag = fx_expect_task(b.fx, 3);
	fx_expect_none(b.cl);
	fx_commit(b.fx, tag, 0);
	fx_expect(b.cl, 3, 0);
	fx_expect(b.cl, 6, -ECANCELED);
	ck_assert_uint_eq(fx_drain(b.fx), 3);
	fx_expect(b.cl, 4, 0);
	fx_expect(b.cl, 5, 0);
	fx_expect(b.cl, 7, 0);
	tear_down(&b);
}
END_TEST

/* The one in the middle, and what comes behind it: not what comes before. */
START_TEST(cancel_in_the_middle)
{
	struct bench b = set_up(2, false);
	struct arax_cancel c = { .user_data = 500 };
	struct arax_completion e;
	u64 tag;
	u32 i;

	send(&b, b.cl->queue, 0, MANY);
	ck_assert_int_eq(core_cancel(b.cl->c, &c), 0);
	ck_assert_uint_eq(c.nr_canceled, 1);
	tag = fx_expect(b.cl, 500, -ECANCELED).tag;
	for (i = 501; i < MANY; i++) {
		e = fx_expect(b.cl, i, -ECANCELED);
		ck_assert_uint_eq(e.origin, tag);
	}
	fx_expect_none(b.cl);
	send(&b, b.cl->queue, MANY, 1);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	for (i = 0; i < 500; i++) {
		fx_commit(b.fx, fx_expect_task(b.fx, i), 0);
		fx_expect(b.cl, i, 0);
	}
	fx_commit(b.fx, fx_expect_task(b.fx, MANY), 0);
	fx_expect(b.cl, MANY, 0);
	tear_down(&b);
}
END_TEST

START_TEST(cancel_all)
{
	struct bench b = set_up(1024, true);
	const struct arax_dispatch *d;
	u32 i, other = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER), asked = 0;
	static u64 tags[512];

	send(&b, b.cl->queue, 0, MANY);
	send(&b, other, MANY, 1);
	for (i = 0; i < 512; i++)
		tags[i] = fx_expect_task(b.fx, i);
	ck_assert_uint_eq(cancel_queue(&b, b.cl->queue), MANY - 512);
	for (i = 512; i < MANY; i++)
		fx_expect(b.cl, i, -ECANCELED);
	fetch_all(&b);
	do {
		while ((d = fx_next(b.fx))) {
			ck_assert_uint_eq(d->type, ARAX_DISPATCH_CANCEL);
			ck_assert_uint_eq(d->tag, tags[asked++]);
		}
		fetch_all(&b);
	} while (asked < 512);
	for (i = 0; i < 512; i++) {
		fx_commit(b.fx, tags[i], -ECANCELED);
		fx_expect(b.cl, i, -ECANCELED);
	}
	fx_commit(b.fx, fx_expect_task(b.fx, MANY), 0);
	fx_expect(b.cl, MANY, 0);
	tear_down(&b);
}
END_TEST

/* At the mediator and queued: replayed as they came, but for what had started. */
START_TEST(settled)
{
	struct bench b = set_up(1024, true);
	u32 i, done = 0;
	u64 tag;

	send(&b, fx_queue(b.cl, ARAX_QUEUE_DATAFLOW), 0, MANY);
	for (i = 0; i < 512; i++) {
		tag = fx_expect_task(b.fx, i);
		if (i % 100 == 99)
			fx_start(b.fx, tag);
	}
	fx_die(b.fx);
	for (i = 99; i < 512; i += 100)
		fx_expect(b.cl, i, -EOWNERDEAD);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	for (i = 0; i < MANY; i++) {
		if (i < 512 && i % 100 == 99)
			continue;
		fetch_all(&b);
		fx_commit(b.fx, fx_expect_task(b.fx, i), 0);
		fx_expect(b.cl, i, 0);
		done++;
	}
	ck_assert_uint_eq(done, MANY - 5);
	tear_down(&b);
}
END_TEST

START_TEST(taken_over)
{
	struct bench b = set_up(1024, true);
	u32 i;

	send(&b, b.cl->queue, 0, MANY);
	core_detach(b.fx->core);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_TAKEOVER), 0);
	for (i = 0; i < MANY; i++)
		fx_expect(b.cl, i, -EOWNERDEAD);
	core_mediator_gone(b.fx->core, b.fx->epoch - 1);
	tear_down(&b);
}
END_TEST

START_TEST(expired)
{
	struct bench b = set_up(1024, false);
	u32 i;

	send(&b, b.cl->queue, 0, MANY);
	core_expire(b.fx->core);
	for (i = 0; i < MANY; i++)
		fx_expect(b.cl, i, -EOWNERDEAD);
	tear_down(&b);
}
END_TEST

START_TEST(killed)
{
	struct bench b = set_up(2, true);

	send(&b, b.cl->queue, 0, MANY);
	ck_assert_int_eq(core_context_kill(b.fx->core, b.cl->init.context), 0);
	ck_assert_uint_eq(fx_used(b.fx->tenants[0], ARAX_RES_TASKS), 1);
	fx_commit(b.fx, fx_expect_task(b.fx, 0), 0);
	tear_down(&b);
}
END_TEST

/* Who waits for a timeline is told, all of them, by fetching alone. */
START_TEST(reached)
{
	struct bench b = set_up(2048, true);
	struct arax_task_ext x = { .size = sizeof(x), .wait_value = 1 };
	struct arax_timeline_point p = { .value = 1 };
	const struct arax_dispatch *d;
	u32 i, told = 0;
	static u64 tags[MANY];

	x.wait_timeline = fx_timeline(b.cl, 0);
	memcpy(b.cl->region + b.cl->init.arena_offset, &x, sizeof(x));
	for (i = 0; i < MANY; i++) {
		struct arax_task t = fx_marker(b.cl, i);

		t.flags = ARAX_TASK_EXT;
		ck_assert_int_eq(fx_send(b.cl, &t), 1);
		tags[i] = fx_expect_task(b.fx, i);
	}
	p.handle = x.wait_timeline;
	ck_assert_int_eq(core_timeline_advance(b.cl->c, &p), 0);
	while (told < MANY) {
		fetch_all(&b);
		d = fx_next(b.fx);
		ck_assert_ptr_nonnull(d);
		ck_assert_uint_eq(d->type, ARAX_DISPATCH_UNBLOCK);
		told++;
	}
	for (i = 0; i < MANY; i++) {
		fx_commit(b.fx, tags[i], 0);
		fx_expect(b.cl, i, 0);
	}
	tear_down(&b);
}
END_TEST

/* Two contexts with failures in a buffer that they share: neither's are lost. */
START_TEST(shared_buffer)
{
	struct bench b = set_up(3, true);
	struct fx_client *two = fx_client_ready(b.fx);
	struct arax_buffer_export ex = { .type = ARAX_EXPORT_ARAX };
	struct arax_buffer_import im = { .type = ARAX_IMPORT_ARAX };
	struct fx_client *cl[2] = { b.cl, two };
	u32 h[2], q[2], i, k;
	u64 tag[2];

	h[0] = fx_buffer(b.cl, 8192);
	ex.handle = h[0];
	ck_assert_int_eq(core_buffer_export(b.cl->c, &ex), 0);
	im.fd = ex.fd;
	ck_assert_int_eq(core_buffer_import(two->c, &im), 0);
	h[1] = im.handle;
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 2; i++) {
			struct arax_task t = fx_copy(cl[i], k, h[i], h[i], 64);

			if (!k)
				q[i] = fx_queue(cl[i], ARAX_QUEUE_DATAFLOW);
			t.queue = q[i];
			t.ranges[0].offset = 4096;
			ck_assert_int_eq(fx_send(cl[i], &t), 1);
			if (!k)
				tag[i] = fx_expect_task(b.fx, 0);
		}
	}
	/* Both fail before either one's dependents are looked at. */
	core_spin_lock(&b.fx->core->dispatch);
	for (i = 0; i < 2; i++) {
		struct core_task *t = b.fx->core->slots[ARAX_TAG_SLOT(tag[i])].task;

		core_fail_mark(b.fx->core, t);
	}
	core_spin_unlock(&b.fx->core->dispatch);
	for (i = 0; i < 2; i++)
		fx_commit(b.fx, tag[i], -EIO);
	fx_expect(cl[0], 0, -EIO);
	fx_expect(cl[0], 1, -ECANCELED);
	/* Its turn came when the first commit made room. */
	fx_expect(cl[1], 1, -ECANCELED);
	fx_expect(cl[1], 0, -EIO);
	ck_assert_ptr_null(fx_next(b.fx));
	fx_release(two);
	tear_down(&b);
}
END_TEST

Suite *core_steps_suite(void)
{
	Suite *s = suite_create("core steps");
	TCase *tc = tcase_create("steps");

	tcase_add_test(tc, failure);
	tcase_add_test(tc, failure_ends);
	tcase_add_test(tc, failure_ends_by_itself);
	tcase_add_test(tc, cancel_in_the_middle);
	tcase_add_test(tc, cancel_all);
	tcase_add_test(tc, settled);
	tcase_add_test(tc, taken_over);
	tcase_add_test(tc, expired);
	tcase_add_test(tc, killed);
	tcase_add_test(tc, reached);
	tcase_add_test(tc, shared_buffer);
	suite_add_tcase(s, tc);
	return s;
}
