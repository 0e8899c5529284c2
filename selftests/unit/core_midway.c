// SPDX-License-Identifier: MIT
/*
 * In the middle of what is done in steps: a cancel, whose cursor stands in the list of what is
 * dispatched, a detach, a look at what has been published.
 */
#include "core_fixture.h"

#define MANY	70u	/* some more than one step looks at */

static struct fx *fx;
static struct fx_client *cl;

static void begin(void)
{
	struct core_params p = fx_params();

	p.slots = 128;
	p.cells = 4096;
	fx = fx_new(&p);
	cl = fx_client(fx, 1000, 2);
	ck_assert_int_eq(fx_init(cl, 128, 128, 4096), 0);
	cl->queue = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
}

static void end(void)
{
	fx_expect_none(cl);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_TASKS), 0);
	ck_assert_uint_eq(fx->core->nr_marking, 0);
	fx_release(cl);
	fx_free(fx);
}

/* In queues of their own: none depends on another one. */
static u64 dispatch(u32 i, bool start)
{
	struct arax_task t = fx_marker(cl, i);
	u64 tag;

	t.queue = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, i);
	if (start)
		fx_start(fx, tag);
	return tag;
}

/* As a cancel leaves it between two steps, behind so many tasks. */
static void put_cursor(u32 behind)
{
	struct clist *pos = &cl->c->dispatched;

	while (behind--)
		pos = pos->next;
	clist_add(&cl->c->cursor, pos);
}

/* The cursor is no task: it has no state to be looked at, and is not there any more at the end. */
START_TEST(dies)
{
	struct core_client *c = cl->c;

	dispatch(0, true);
	dispatch(1, false);
	put_cursor(_i);
	/* What lies there is where a task would have whether it has started. */
	c->queue_order = 0x5555555555555555ull;
	core_detach(fx->core);
	ck_assert_uint_eq(c->queue_order, 0x5555555555555555ull);
	ck_assert(!clist_empty(&c->cursor));
	fx_gone(fx);
	ck_assert(clist_empty(&c->cursor));
	fx_expect(cl, 0, -EOWNERDEAD);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	fx_expect(cl, 1, 0);
	end();
}
END_TEST

START_TEST(taken_over)
{
	dispatch(0, true);
	dispatch(1, false);
	put_cursor(_i);
	core_detach(fx->core);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_TAKEOVER), 0);
	ck_assert(clist_empty(&cl->c->cursor));
	fx_expect(cl, 0, -EOWNERDEAD);
	fx_expect(cl, 1, -EOWNERDEAD);
	core_mediator_gone(fx->core, fx->epoch - 1);
	end();
}
END_TEST

static void move_cursor(void)
{
	/* At the end of the first step. */
	if (!clist_first(&cl->c->dispatched, struct core_task, node)->started)
		return;
	clist_del(&cl->c->cursor);
	clist_add_tail(&cl->c->cursor, &cl->c->dispatched);
}

/* It moves while nobody looks: a step that ended at it doesn't go on from where it is then. */
START_TEST(moves)
{
	u32 i;

	for (i = 0; i < MANY; i++)
		dispatch(i, true);
	put_cursor(CORE_STEP);
	fx_watch_unlocks(&fx->core->dispatch, move_cursor);
	core_detach(fx->core);
	fx_watch_unlocks(NULL, NULL);
	fx_gone(fx);
	for (i = 0; i < MANY; i++)
		fx_expect(cl, i, -EOWNERDEAD);
	end();
}
END_TEST

static u32 asked, asked_at_once;

static void count_asked(void)
{
	struct clist *pos, *tmp;
	u32 n = 0;

	clist_for_each_safe(pos, tmp, &cl->c->dispatched)
		if (pos != &cl->c->cursor)
			n += clist_entry(pos, struct core_task, node)->canceled;
	asked_at_once = n - asked > asked_at_once ? n - asked : asked_at_once;
	asked = n;
}

/* The mediator is asked for all of them, for so many under one hold of the lock. */
START_TEST(asks)
{
	struct arax_cancel c = { .flags = ARAX_CANCEL_QUEUE, .queue = cl->queue };
	u64 tags[MANY];
	u32 i;

	for (i = 0; i < MANY; i++) {
		struct arax_task t = fx_marker(cl, i);

		ck_assert_int_eq(fx_send(cl, &t), 1);
		tags[i] = fx_expect_task(fx, i);
	}
	fx_watch_unlocks(&fx->core->dispatch, count_asked);
	ck_assert_int_eq(core_cancel(cl->c, &c), 0);
	fx_watch_unlocks(NULL, NULL);
	ck_assert(clist_empty(&cl->c->cursor));
	ck_assert_uint_eq(asked, MANY);
	ck_assert_uint_le(asked_at_once, CORE_STEP);
	for (i = 0; i < MANY; i++) {
		fx_commit(fx, tags[i], -ECANCELED);
		fx_expect(cl, i, -ECANCELED);
	}
	end();
}
END_TEST

/* What fails as it is committed is held against those that were dispatched, as long as there are some. */
START_TEST(fails)
{
	u32 h = fx_buffer(cl, 4096), i;
	u64 tag[2];

	for (i = 0; i < 2; i++) {
		struct arax_task t = fx_copy(cl, i, h, h, 64);

		t.ranges[0].offset = 2048;
		ck_assert_int_eq(fx_send(cl, &t), 1);
		tag[i] = fx_expect_task(fx, i);
	}
	put_cursor(0);
	ck_assert_int_eq(core_buffer_revoke(cl->c, h), 0);
	fx_commit(fx, tag[0], 0);
	ck_assert_uint_ne(cl->c->ended_mark, 0);
	fx_commit(fx, tag[1], 0);
	ck_assert_uint_eq(cl->c->ended_mark, 0);
	fx_expect(cl, 0, -ESTALE);
	fx_expect(cl, 1, -ESTALE);
	clist_del(&cl->c->cursor);
	end();
}
END_TEST

/* A call that was under way when its mediator was detached leaves no note, which nobody would read. */
START_TEST(got_late)
{
	union core_args a = { .buffer_query.handle = fx_buffer(cl, 4096) };
	struct arax_buffer_get g = { 0 };
	u32 handle = a.buffer_query.handle;

	ck_assert_int_eq(core_buffer_query(cl->c, &a.buffer_query), 0);
	core_detach(fx->core);
	g.id = a.buffer_query.id;
	ck_assert_int_eq(core_buffer_get(fx->core, &g), 0);
	fx_close_buffer(fx, core_handle_find(&fx->core->buffers, CORE_BUFFER, (u32)g.id));
	ck_assert_uint_eq(fx->buffers, 1);
	ck_assert_int_eq(core_buffer_destroy(cl->c, handle), 0);
	ck_assert_uint_eq(fx->buffers, 0);
	fx_gone(fx);
	end();
}
END_TEST

/* So many entries are published, from the beginning on; @again: their places were used anew since. */
static u32 orphans(u32 n, u32 again)
{
	struct core_client *c = cl->c;
	u32 i;

	for (i = 0; i < c->depth; i++) {
		struct arax_task *t = (void *)(c->region + c->layout.sq_offset +
					       (size_t)i * c->entry_size);

		t->seq = i < again ? c->depth + i + 1 : i < n ? i + 1 : 0;
	}
	c->awaits_room = true;
	core_spin_lock(&fx->core->dispatch);
	core_orphan(c);
	core_spin_unlock(&fx->core->dispatch);
	ck_assert(c->orphaned);
	c->awaits_room = false;
	c->orphaned = false;
	return c->orphans_end;
}

/* Submission takes entries in meanwhile, and its client publishes in their places. */
START_TEST(published)
{
	u32 i, depth = cl->c->depth;

	for (i = 0; i <= depth; i++)
		ck_assert_uint_eq(orphans(i, 0), i);
	for (i = 0; i <= depth; i++)
		ck_assert_uint_eq(orphans(depth, i), depth);
	end();
}
END_TEST

Suite *core_midway_suite(void)
{
	Suite *s = suite_create("core midway");
	TCase *tc = tcase_create("midway");

	tcase_add_checked_fixture(tc, begin, NULL);
	tcase_add_loop_test(tc, dies, 0, 3);
	tcase_add_loop_test(tc, taken_over, 0, 3);
	tcase_add_test(tc, moves);
	tcase_add_test(tc, asks);
	tcase_add_test(tc, fails);
	tcase_add_test(tc, got_late);
	tcase_add_test(tc, published);
	suite_add_tcase(s, tc);
	return s;
}
