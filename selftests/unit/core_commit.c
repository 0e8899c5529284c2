// SPDX-License-Identifier: MIT
/* Commits: stale tags, batches, what the client finds in its ring. */
#include "core_fixture.h"

static struct arax_commit batch(struct fx *fx, u32 first, u32 count, int error)
{
	union core_args a = { 0 };

	a.commit.first = first;
	a.commit.count = count;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_COMMIT, &a), error);
	return a.commit;
}

START_TEST(contents)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t = fx_marker(cl, 0x1122334455667788);
	struct arax_completion e;
	u64 tag;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, t.user_data);
	fx->core->commits[0] = (struct arax_commit_entry){
		.tag = tag, .result = -ECANCELED, .device_ns = 5, .wait_ns = 6, .bytes = 7,
		.origin = 8, .device = 9,
	};
	batch(fx, 0, 1, 0);
	e = fx_expect(cl, t.user_data, -ECANCELED);
	ck_assert_uint_eq(e.tag, tag);
	ck_assert_uint_eq(e.origin, 8);
	ck_assert_uint_eq(e.device_ns, 5);
	ck_assert_uint_eq(e.wait_ns, 6);
	ck_assert_uint_eq(e.bytes, 7);
	ck_assert_uint_eq(e.device, 9);
	ck_assert_uint_eq(e.failure, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

static int explain(struct fx *fx, u64 tag, const char *text)
{
	union core_args a = { .task_why = { .tag = tag } };

	strcpy(a.task_why.text, text);
	return fx_call(fx, NULL, ARAX_NR_TASK_EXPLAIN, &a);
}

static int why(struct fx_client *cl, u64 tag, char *text)
{
	union core_args a = { .task_why = { .tag = tag } };
	int err = fx_call(cl->fx, cl, ARAX_NR_TASK_WHY, &a);

	strcpy(text, a.task_why.text);
	return err;
}

/* Before the end is committed, for the task's context alone, and as long as few others fail. */
START_TEST(explained)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *other = fx_client_ready(fx);
	struct arax_task t = fx_marker(cl, 1);
	union core_args a = { 0 };
	char text[ARAX_WHY_LEN];
	u64 tag, later, tags[128];
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(explain(fx, 0, "none"), -ESTALE);
	ck_assert_int_eq(explain(fx, (u64)-1, "none"), -ESTALE);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	ck_assert_int_eq(why(cl, tag, text), -ENOENT);
	ck_assert_int_eq(explain(fx, tag, ""), -EINVAL);
	a.task_why.tag = tag;
	memset(a.task_why.text, 'x', ARAX_WHY_LEN);
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TASK_EXPLAIN, &a), -EINVAL);
	a.task_why.text[ARAX_WHY_LEN - 1] = 0;
	a.task_why.pad = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TASK_EXPLAIN, &a), -EINVAL);
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_TASK_WHY, &a), -EINVAL);
	ck_assert_int_eq(explain(fx, tag + (1ull << 24), "another generation"), -ESTALE);
	ck_assert_int_eq(explain(fx, tag, "it is too wide"), 0);
	fx_commit(fx, tag, -EINVAL);
	fx_expect(cl, 1, -EINVAL);
	ck_assert_int_eq(explain(fx, tag, "too late"), -ESTALE);
	ck_assert_int_eq(why(cl, tag, text), 0);
	ck_assert_str_eq(text, "it is too wide");
	ck_assert_int_eq(why(other, tag, text), -ENOENT);
	ck_assert_int_eq(why(cl, 0, text), -ENOENT);
	for (i = 0; i < 16; i++) {
		ck_assert_int_eq(why(cl, tag, text), 0);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		later = fx_expect_task(fx, 1);
		ck_assert_int_eq(explain(fx, later, i % 2 ? "another one" : "and another one"), 0);
		fx_commit(fx, later, -EINVAL);
		fx_expect(cl, 1, -EINVAL);
	}
	ck_assert_int_eq(why(cl, tag, text), -ENOENT);
	ck_assert_int_eq(why(cl, later, text), 0);
	ck_assert_str_eq(text, "another one");
	/* For one reason many may fail, and be asked about from the first one on. */
	for (i = 0; i < 128; i++) {
		ck_assert_int_eq(fx_send(cl, &t), 1);
		tags[i] = fx_expect_task(fx, 1);
		ck_assert_int_eq(explain(fx, tags[i], "all alike"), 0);
		fx_commit(fx, tags[i], -EINVAL);
		fx_expect(cl, 1, -EINVAL);
	}
	ck_assert_int_eq(why(cl, later, text), -ENOENT);
	for (i = 0; i < 128; i++) {
		ck_assert_int_eq(why(cl, tags[i], text), 0);
		ck_assert_str_eq(text, "all alike");
	}
	fx_release(other);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A wrong tag in each part; a tag twice, in one batch and in two. */
START_TEST(stale)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t = fx_marker(cl, 1);
	struct arax_commit c;
	u64 tag;
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	batch(fx, 0, CORE_COMMIT_ENTRIES + 1, -EINVAL);
	c = batch(fx, 0, CORE_COMMIT_ENTRIES, 0);	/* zeroes */
	ck_assert_uint_eq(c.done, CORE_COMMIT_ENTRIES);
	ck_assert_uint_eq(c.stale, CORE_COMMIT_ENTRIES);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	ck_assert_uint_eq(fx_commit(fx, tag ^ 1ull << 48, 0), 1);
	ck_assert_uint_eq(fx_commit(fx, tag ^ 1ull << 24, 0), 1);
	ck_assert_uint_eq(fx_commit(fx, tag ^ 1, 0), 1);
	ck_assert_uint_eq(fx_commit(fx, tag | 0xffffff, 0), 1);
	fx_expect_none(cl);
	for (i = 0; i < 3; i++)
		fx->core->commits[(255 + i) & 255] = (struct arax_commit_entry){ .tag = tag };
	c = batch(fx, 255, 3, 0);		/* goes round the area's end */
	ck_assert_uint_eq(c.done, 3);
	ck_assert_uint_eq(c.stale, 2);
	fx_expect(cl, 1, 0);
	fx_expect_none(cl);
	ck_assert_uint_eq(fx_commit(fx, tag, 0), 1);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(results)
{
	static const s32 given[] = { 1, -4096, INT32_MIN, -4095, -1 };
	static const s32 seen[] = { -EIO, -EIO, -EIO, -4095, -1 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 5; i++) {
		struct arax_task t = fx_marker(cl, i);

		ck_assert_int_eq(fx_send(cl, &t), 1);
		fx_commit(fx, fx_expect_task(fx, i), given[i]);
		fx_expect(cl, i, seen[i]);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Completions come in the order of the commits, whatever that of the tasks. */
START_TEST(order)
{
	static const u32 perm[] = { 3, 1, 4, 0, 5, 2 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl[2] = { fx_client_ready(fx), fx_client_ready(fx) };
	u64 tag[2][6];
	u32 i, k;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 6; i++) {
		for (k = 0; k < 2; k++) {
			struct arax_task t = fx_marker(cl[k], i);

			ck_assert_int_eq(fx_send(cl[k], &t), 1);
			tag[k][i] = fx_expect_task(fx, i);
		}
	}
	for (i = 0; i < 6; i++)
		for (k = 0; k < 2; k++)
			fx->core->commits[2 * i + k] = (struct arax_commit_entry){
				.tag = tag[k][perm[i]]
			};
	ck_assert_uint_eq(batch(fx, 0, 12, 0).stale, 0);
	for (i = 0; i < 6; i++)
		for (k = 0; k < 2; k++)
			fx_expect(cl[k], perm[i], 0);
	fx_release(cl[0]);
	fx_release(cl[1]);
	fx_free(fx);
}
END_TEST

/* Woken only if it sleeps; once for a batch. */
START_TEST(wakes)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_ring_ctl *ctl = (void *)cl->region;
	u32 i, round;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	cl->wakes = 0;
	for (round = 0; round < 3; round++) {
		ctl->cq_need_wakeup = round == 1;
		if (round == 2)
			core_atomic_add(&cl->c->sleepers, 1);
		for (i = 0; i < 4; i++) {
			struct arax_task t = fx_marker(cl, i);

			ck_assert_int_eq(fx_send(cl, &t), 1);
			fx->core->commits[i] = (struct arax_commit_entry){
				.tag = fx_expect_task(fx, i)
			};
		}
		batch(fx, 0, 4, 0);
		ck_assert_uint_eq(cl->wakes, round);
		ck_assert_uint_eq(core_client_unread(cl->c), 4);
		for (i = 0; i < 4; i++)
			fx_expect(cl, i, 0);
		ck_assert_uint_eq(core_client_unread(cl->c), 0);
	}
	core_atomic_add(&cl->c->sleepers, -1);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A slot's place is reused as late as possible, with another generation. */
START_TEST(tags)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u64 tag, seen[200];
	u32 i, k;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 200; i++) {
		struct arax_task t = fx_marker(cl, i);

		ck_assert_int_eq(fx_send(cl, &t), 1);
		tag = fx_expect_task(fx, i);
		ck_assert_uint_ne(tag, 0);
		ck_assert_uint_eq(ARAX_TAG_SLOT(tag), 1 + i % 63);
		for (k = 0; k < i; k++)
			if (seen[k] == tag)
				ck_abort_msg("tag given twice");
		seen[i] = tag;
		fx_commit(fx, tag, 0);
		fx_expect(cl, i, 0);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Who says what he sleeps for is left asleep for all else. */
START_TEST(wakes_for)
{
	static const struct {
		u32 why, at;
		u64 task;
		u32 wakes[4];	/* after each of four commits */
	} t[] = {
		{ ARAX_WAKE_ANY, 0, 0, { 1, 2, 3, 4 } },
		{ ARAX_WAKE_AT, 3, 0, { 0, 0, 1, 2 } },
		{ ARAX_WAKE_AT, 5, 0, { 0, 0, 0, 0 } },
		{ ARAX_WAKE_FOR, 0, 2, { 0, 0, 1, 1 } },
		{ ARAX_WAKE_FOR, 0, 9, { 0, 0, 0, 0 } },
		{ ARAX_WAKE_FOR | ARAX_WAKE_AT, 4, 1, { 0, 1, 1, 2 } },
		{ ARAX_WAKE_FOR | ARAX_WAKE_ANY, 0, 9, { 1, 2, 3, 4 } },
		{ 0x80, 0, 0, { 1, 2, 3, 4 } },	/* of a later version */
	};
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_ring_ctl *ctl = (void *)cl->region;
	u32 i, k;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (k = 0; k < sizeof(t) / sizeof(*t); k++) {
		cl->wakes = 0;
		ctl->cq_wake_at = cl->c->cq_tail + t[k].at;
		ctl->cq_wake_for = t[k].task;
		ctl->cq_need_wakeup = t[k].why;
		for (i = 0; i < 4; i++) {
			struct arax_task task = fx_marker(cl, i);

			ck_assert_int_eq(fx_send(cl, &task), 1);
			fx->core->commits[0] = (struct arax_commit_entry){
				.tag = fx_expect_task(fx, i)
			};
			batch(fx, 0, 1, 0);
			ck_assert_msg(cl->wakes == t[k].wakes[i], "%u: %u wakes after %u", k,
				      cl->wakes, i);
			fx_expect(cl, i, 0);
		}
	}
	/* The end of its context is news to anybody. */
	cl->wakes = 0;
	ctl->cq_need_wakeup = ARAX_WAKE_FOR;
	core_client_kill(cl->c, EFAULT);
	ck_assert_uint_ge(cl->wakes, 1);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/*
 * Where the mediator defers wakes, a commit wakes nobody by itself: the next one
 * does, or core_wake_deferred(); and nobody twice.  Who is not asleep is left alone.
 */
START_TEST(deferred_wakes)
{
	struct core_params p = fx_params();
	struct arax_task t;
	struct fx_client *cl;
	struct fx *fx;
	u64 tag;

	p.defers_wakes = true;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	cl->wakes = 0;
	fx->core->page->need_wakeup = 1;
	core_ctl(cl->c)->cq_need_wakeup = 1;

	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	ck_assert_uint_eq(fx->mediator_wakes, 0);	/* it submits itself */
	fx_commit(fx, tag, 0);
	ck_assert_uint_eq(cl->wakes, 0);
	fx_expect(cl, 1, 0);
	core_wake_deferred(fx->core);
	ck_assert_uint_eq(cl->wakes, 1);
	core_wake_deferred(fx->core);
	ck_assert_uint_eq(cl->wakes, 1);

	t = fx_marker(cl, 2);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	ck_assert_uint_eq(cl->wakes, 1);
	t = fx_marker(cl, 3);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 3);
	fx_commit(fx, tag, 0);
	ck_assert_uint_eq(cl->wakes, 2);	/* for the second task */
	core_wake_deferred(fx->core);
	ck_assert_uint_eq(cl->wakes, 3);	/* for the third */
	fx_expect(cl, 2, 0);
	fx_expect(cl, 3, 0);

	/* A refusal is posted by the submission; its wake is deferred as well. */
	t = fx_marker(cl, 4);
	t.opcode = ARAX_OP_MAX;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(cl->wakes, 3);
	fx_expect(cl, 4, -EOPNOTSUPP);
	core_wake_deferred(fx->core);
	ck_assert_uint_eq(cl->wakes, 4);

	core_ctl(cl->c)->cq_need_wakeup = 0;
	t = fx_marker(cl, 5);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 5), 0);
	core_wake_deferred(fx->core);
	ck_assert_uint_eq(cl->wakes, 4);
	fx_expect(cl, 5, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A client that goes while its wake is deferred is forgotten. */
START_TEST(deferred_gone)
{
	struct core_params p = fx_params();
	struct arax_task t;
	struct fx_client *cl;
	struct fx *fx;

	p.defers_wakes = true;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	fx_expect(cl, 1, 0);
	fx_release(cl);
	fx_drain(fx);
	core_wake_deferred(fx->core);
	fx_free(fx);
}
END_TEST

/* Of a batch each client gets its own, in the order of the commits, and not the silent ones. */
START_TEST(mixed_batch)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl[2] = { fx_client_ready(fx), fx_client_ready(fx) };
	struct arax_commit c = { .count = 0 };
	u32 i, who, at[2] = { 0, 0 };
	s32 result[2][16];
	u64 tag[32];

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 32; i++) {
		struct arax_task t = fx_marker(cl[i & 1], i / 2);

		if (i / 2 % 3 == 0)
			t.flags = ARAX_TASK_SILENT;
		ck_assert_int_eq(fx_send(cl[i & 1], &t), 1);
		tag[i] = fx_expect_task(fx, i / 2);
	}
	/* Runs of one and of several, across the groups; every fourth is named twice. */
	while (at[0] < 16 || at[1] < 16) {
		who = (c.count % 7 < 5) ^ (c.count > 25);
		who = at[who] < 16 ? who : !who;
		i = at[who]++;
		result[who][i] = i % 6 == 3 ? -EIO : 0;
		fx->core->commits[c.count].tag = tag[2 * i + who];
		fx->core->commits[c.count++].result = result[who][i];
		if (i % 4 == 0) {
			fx->core->commits[c.count].tag = tag[2 * i + who];
			fx->core->commits[c.count++].result = -EFAULT;
		}
	}
	ck_assert_int_eq(core_commit(fx->core, &c), 0);
	ck_assert_uint_eq(c.done, 40);
	ck_assert_uint_eq(c.stale, 8);
	for (who = 0; who < 2; who++) {
		for (i = 0; i < 16; i++)
			if (i % 3 || result[who][i])
				ck_assert_uint_eq(fx_expect(cl[who], i, result[who][i]).tag,
						  tag[2 * i + who]);
		fx_expect_none(cl[who]);
		ck_assert_uint_eq(cl[who]->c->silent, 3);
		fx_release(cl[who]);
	}
	fx_free(fx);
}
END_TEST

Suite *core_commit_suite(void)
{
	Suite *s = suite_create("core commit");
	TCase *tc = tcase_create("commit");

	tcase_add_test(tc, contents);
	tcase_add_test(tc, explained);
	tcase_add_test(tc, stale);
	tcase_add_test(tc, results);
	tcase_add_test(tc, order);
	tcase_add_test(tc, wakes);
	tcase_add_test(tc, wakes_for);
	tcase_add_test(tc, deferred_wakes);
	tcase_add_test(tc, deferred_gone);
	tcase_add_test(tc, tags);
	tcase_add_test(tc, mixed_batch);
	suite_add_tcase(s, tc);
	return s;
}
