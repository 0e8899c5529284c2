// SPDX-License-Identifier: MIT
/* Users share the ids of buffers: whoever has many leaves some to others, however many users he is. */
#include "core_fixture.h"

#define IDS	4095u		/* for place 0 is none, and the first size is for the parts of it */
#define PART	(4096u / 8)	/* of one user */
#define CROWD	8u
#define FEW	8u		/* which one still gets where an eighth is left */
#define HORDE	800u

static struct fx *set_up(void)
{
	struct core_params p = fx_params();
	struct fx *fx;

	p.user_buffers = PART;
	fx = fx_new(&p);
	fx->core->buffers.max = IDS;
	return fx;
}

static void limit(struct fx *fx, u32 tenant)
{
	struct core_counter *n = &fx->tenants[tenant]->res[ARAX_RES_MEMORY];

	core_atomic_set(&n->max, 1ull << 40);
}

/* A context and as many buffers as it gets, up to @max of both; or NULL. */
static struct fx_client *take(struct fx *fx, u32 uid, u32 tenant, u32 max, u32 *got)
{
	struct arax_buffer_create a = { .bytes = 4096, .fd = -1 };
	struct fx_client *cl = fx_client(fx, uid, tenant);
	int err;

	*got = 0;
	err = fx_init(cl, 2, 128, 0);
	while (!err && ++*got < max)
		err = core_buffer_create(cl->c, &a);
	if (!err)
		return cl;
	ck_assert_int_eq(err, -ENOSPC);
	if (*got)
		return cl;
	fx_release(cl);
	return NULL;
}

static u32 left(const struct fx *fx)
{
	return IDS - 1 - fx->core->buffers.used;
}

/* As many as before these were judged, whoever has a limit. */
START_TEST(one_has_his_part)
{
	struct fx *fx = set_up();
	struct fx_client *cl;
	u32 got;

	if (_i)
		limit(fx, 2);
	cl = take(fx, 1000, 2, 2 * PART, &got);
	ck_assert_uint_eq(got, PART);
	fx_release(cl);
	ck_assert_uint_eq(fx->tenants[0]->buffers, 0);
	fx_free(fx);
}
END_TEST

/* Each takes his part: they leave a quarter, and who comes has his context and more. */
START_TEST(eight_users)
{
	struct fx *fx = set_up();
	struct fx_client *crowd[CROWD], *other;
	u32 i, got;

	if (_i)
		limit(fx, 2);
	for (i = 0; i < CROWD; i++) {
		crowd[i] = take(fx, 1000 + i, 2, PART, &got);
		ck_assert_ptr_nonnull(crowd[i]);
		/* The last ones of the first half are nobody's who has many. */
		ck_assert_uint_eq(got, i < 3 ? PART : i < 4 ? PART - 2 : 128);
	}
	ck_assert_uint_gt(left(fx), 1024);
	other = take(fx, 2000, 3, 100, &got);
	ck_assert_uint_eq(got, 100);
	fx_release(other);
	/* As one of those below the limit that has few. */
	other = take(fx, 2000, 2, 100, &got);
	ck_assert_uint_eq(got, 100);
	fx_release(other);
	for (i = 0; i < CROWD; i++)
		fx_release(crowd[i]);
	fx_free(fx);
}
END_TEST

/* So many that each has few: what is below one limit leaves an eighth, by its users' sum. */
START_TEST(subordinate_users)
{
	struct fx *fx = set_up();
	struct fx_client *horde[HORDE], *other;
	u32 i, got;

	limit(fx, 1);
	for (i = 0; i < HORDE; i++)
		horde[i] = take(fx, 1000 + i, 2, 7, &got);
	ck_assert_ptr_null(horde[HORDE - 1]);
	ck_assert_uint_eq(left(fx), 4096 / 8);
	/* tenants[3] is below that limit as well, the root is not. */
	ck_assert_ptr_null(take(fx, 2000, 3, 1, &got));
	other = take(fx, 2000, 0, FEW, &got);
	ck_assert_ptr_nonnull(other);
	ck_assert_uint_eq(got, FEW);
	fx_release(other);
	/* With a limit of its own it is judged by itself. */
	limit(fx, 3);
	other = take(fx, 2000, 3, FEW, &got);
	ck_assert_ptr_nonnull(other);
	ck_assert_uint_eq(got, FEW);
	fx_release(other);
	for (i = 0; i < HORDE; i++)
		if (horde[i])
			fx_release(horde[i]);
	ck_assert_uint_eq(fx->core->buffers.used, 0);
	fx_free(fx);
}
END_TEST

/* Where nothing is limited: it takes many users to leave none, and each of them has few. */
START_TEST(without_limits)
{
	struct fx *fx = set_up();
	struct fx_client *horde[HORDE];
	u32 i, got;

	for (i = 0; i < HORDE; i++) {
		horde[i] = take(fx, 1000 + i, 2, PART, &got);
		if (left(fx) <= 4096 / 16)
			break;
	}
	ck_assert_uint_gt(i, 50);
	ck_assert_uint_lt(i, HORDE);
	for (; i < HORDE; i--)
		if (horde[i])
			fx_release(horde[i]);
	fx_free(fx);
}
END_TEST

Suite *core_buffer_share_suite(void)
{
	Suite *s = suite_create("core buffer share");
	TCase *tc = tcase_create("ids");

	tcase_add_loop_test(tc, one_has_his_part, 0, 2);
	tcase_add_loop_test(tc, eight_users, 0, 2);
	tcase_add_test(tc, subordinate_users);
	tcase_add_test(tc, without_limits);
	suite_add_tcase(s, tc);
	return s;
}
