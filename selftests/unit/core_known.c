// SPDX-License-Identifier: MIT
/* Failures are numbered for each client, and its tasks say which ones it knew of. */
#include "core_fixture.h"

static u64 send(struct fx_client *cl, u64 user_data, u32 known)
{
	struct arax_task t = fx_marker(cl, user_data);

	t.known = known;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	return user_data;
}

/* The next must be that task, and know of so many by the mediator's account. */
static u64 expect_knows(struct fx *fx, u64 user_data, u32 known)
{
	const struct arax_dispatch *d = fx_next(fx);

	ck_assert_ptr_nonnull(d);
	ck_assert_uint_eq(d->user_data, user_data);
	ck_assert_uint_eq(d->known, known);
	return d->tag;
}

/* A task fails as the mediator's so many'th; returns which one it is to its client. */
static u32 fail_one(struct fx_client *cl, u64 user_data, u32 failure)
{
	u64 tag;

	send(cl, user_data, 0);
	tag = fx_expect_task(cl->fx, user_data);
	ck_assert_uint_eq(fx_commit_failure(cl->fx, tag, -EIO, failure), 0);
	return fx_expect(cl, user_data, -EIO).failure;
}

START_TEST(goes_there_and_back)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_uint_eq(fail_one(cl, 1, 1), 1);
	ck_assert_uint_eq(fail_one(cl, 2, 2), 2);
	send(cl, 3, 0);
	send(cl, 4, 1);
	send(cl, 5, 2);
	fx_commit(fx, expect_knows(fx, 3, 0), 0);
	fx_commit(fx, expect_knows(fx, 4, 1), 0);
	fx_commit(fx, expect_knows(fx, 5, 2), 0);
	ck_assert_uint_eq(fx_expect(cl, 3, 0).failure, 0);
	fx_expect(cl, 4, 0);
	fx_expect(cl, 5, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* What has not happened yet, or can't have, is not known. */
START_TEST(lies)
{
	static const u32 known[] = { 3, 4, 0x7fffffff, 0x80000000, 0xfffffffe, ~0u };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	fail_one(cl, 1, 1);
	fail_one(cl, 2, 2);
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		send(cl, 10 + i, known[i]);
		fx_commit(fx, expect_knows(fx, 10 + i, 0), 0);
		fx_expect(cl, 10 + i, 0);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* It may come with an extension, whose pad is ours. */
START_TEST(extension)
{
	struct arax_task_ext x = { .size = sizeof(x), .known = 1 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t = fx_marker(cl, 2);

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	fail_one(cl, 1, 1);
	t.flags = ARAX_TASK_EXT;
	t.ext = 0;
	memcpy(cl->region + cl->init.arena_offset, &x, sizeof(x));
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, expect_knows(fx, 2, 1), 0);
	fx_expect(cl, 2, 0);
	x.pad = 1;
	memcpy(cl->region + cl->init.arena_offset, &x, sizeof(x));
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_expect(cl, 2, -EINVAL);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* One fails often, the other never. */
START_TEST(each_client_its_own)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *a = fx_client_ready(fx), *b = fx_client_ready(fx);
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 1; i < 100; i++)
		ck_assert_uint_eq(fail_one(a, i, i), i);
	ck_assert_uint_eq(fail_one(b, 1, 1), 1);
	send(a, 200, 99);
	send(b, 200, 1);
	send(b, 201, 2);
	fx_commit(fx, expect_knows(fx, 200, 99), 0);
	fx_commit(fx, expect_knows(fx, 200, 1), 0);
	fx_commit(fx, expect_knows(fx, 201, 0), 0);
	fx_expect(a, 200, 0);
	fx_expect(b, 200, 0);
	fx_expect(b, 201, 0);
	fx_release(a);
	fx_release(b);
	fx_free(fx);
}
END_TEST

/* A number without a failure is none; a failure without a number is held against nobody. */
START_TEST(mediators_words)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	send(cl, 1, 0);
	ck_assert_uint_eq(fx_commit_failure(fx, fx_expect_task(fx, 1), 0, 7), 0);
	ck_assert_uint_eq(fx_expect(cl, 1, 0).failure, 0);
	ck_assert_uint_eq(fail_one(cl, 2, 0), 0);
	ck_assert_uint_eq(fail_one(cl, 3, 1), 1);
	send(cl, 4, 1);
	fx_commit(fx, expect_knows(fx, 4, 1), 0);
	fx_expect(cl, 4, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/*
 * A new mediator counts from 1 on, the client goes on.  What it knew of the old one
 * means nothing to the new one, neither with tasks that come now nor with those that
 * were there.
 */
START_TEST(next_mediator)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 1; i <= 5; i++)
		fail_one(cl, i, i);
	send(cl, 10, 3);
	send(cl, 11, 5);
	expect_knows(fx, 10, 3);
	fx_die(fx);
	send(cl, 12, 5);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	fx_commit(fx, expect_knows(fx, 10, 0), 0);
	ck_assert_uint_eq(fx_commit_failure(fx, expect_knows(fx, 11, 0), -EIO, 1), 0);
	fx_commit(fx, expect_knows(fx, 12, 0), 0);
	fx_expect(cl, 10, 0);
	ck_assert_uint_eq(fx_expect(cl, 11, -EIO).failure, 6);
	fx_expect(cl, 12, 0);
	send(cl, 13, 5);
	send(cl, 14, 6);
	fx_commit(fx, expect_knows(fx, 13, 0), 0);
	fx_commit(fx, expect_knows(fx, 14, 1), 0);
	fx_expect(cl, 13, 0);
	fx_expect(cl, 14, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Queued in the core while failures happen: what its client knew then stands. */
START_TEST(backlog)
{
	struct core_params p = fx_params();
	struct fx *fx;
	struct fx_client *cl, *other;
	u64 first, tag;

	p.slots = 3;		/* two tasks */
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	other = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	fail_one(cl, 1, 1);
	send(other, 1, 0);
	send(cl, 2, 1);
	send(other, 2, 0);
	send(cl, 3, 1);
	first = fx_expect_task(fx, 1);
	tag = expect_knows(fx, 2, 1);
	ck_assert_ptr_null(fx_next(fx));
	/* Task 3 depends on it: the graph will see that it doesn't know. */
	ck_assert_uint_eq(fx_commit_failure(fx, tag, -EIO, 2), 0);
	ck_assert_uint_eq(fx_expect(cl, 2, -EIO).failure, 2);
	send(cl, 4, 2);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	tag = expect_knows(fx, 3, 1);
	ck_assert_uint_eq(fx_commit_canceled(fx, tag, tag + 1), 0);
	ck_assert_uint_eq(fx_expect(cl, 3, -ECANCELED).origin, tag + 1);
	fx_commit(fx, expect_knows(fx, 4, 2), 0);
	fx_expect(cl, 4, 0);
	fx_commit(fx, first, 0);
	fx_expect(other, 2, 0);
	fx_expect(other, 1, 0);
	fx_release(cl);
	fx_release(other);
	fx_free(fx);
}
END_TEST

/* After 4 billion of them. */
START_TEST(wrap)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	cl->c->failures = cl->c->failures_before = ~0u - 1;
	ck_assert_uint_eq(fail_one(cl, 1, 1), ~0u);
	send(cl, 2, ~0u);
	send(cl, 3, ~0u - 1);
	fx_commit(fx, expect_knows(fx, 2, 1), 0);
	fx_commit(fx, expect_knows(fx, 3, 0), 0);
	fx_expect(cl, 2, 0);
	fx_expect(cl, 3, 0);
	ck_assert_uint_eq(fail_one(cl, 4, 3), 1);
	send(cl, 5, 1);
	send(cl, 6, ~0u);
	fx_commit(fx, expect_knows(fx, 5, 3), 0);
	fx_commit(fx, expect_knows(fx, 6, 1), 0);
	fx_expect(cl, 5, 0);
	fx_expect(cl, 6, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_known_suite(void)
{
	Suite *s = suite_create("core known");
	TCase *t = tcase_create("known");

	tcase_add_test(t, goes_there_and_back);
	tcase_add_test(t, lies);
	tcase_add_test(t, extension);
	tcase_add_test(t, each_client_its_own);
	tcase_add_test(t, mediators_words);
	tcase_add_test(t, next_mediator);
	tcase_add_test(t, backlog);
	tcase_add_test(t, wrap);
	suite_add_tcase(s, t);
	return s;
}
