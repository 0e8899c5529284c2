// SPDX-License-Identifier: MIT
/* Tenants: charges, limits, events, users' defaults. */
#include "core_fixture.h"

static struct core_tenant *user(struct fx *fx, u32 uid)
{
	struct core_tenant *u;

	core_mutex_lock(&fx->core->lock);
	u = core_user_get(fx->core, uid);
	core_mutex_unlock(&fx->core->lock);
	return u;
}

static void put(struct fx *fx, struct core_tenant *t)
{
	core_mutex_lock(&fx->core->lock);
	core_tenant_put(fx->core, t);
	core_mutex_unlock(&fx->core->lock);
}

static int set(struct fx *fx, int fd, u32 what, u64 value)
{
	union core_args a = { 0 };

	a.limit.cgroup_fd = fd;
	a.limit.what = what;
	a.limit.value = value;
	return fx_call(fx, NULL, ARAX_NR_LIMIT_SET, &a);
}

static u64 events(struct core_tenant *t, u32 res)
{
	return core_atomic_read(&t->res[res].events);
}

static u64 peak(struct core_tenant *t, u32 res)
{
	return core_atomic_read(&t->res[res].peak);
}

START_TEST(three_deep)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *u = user(fx, 7), **t = fx->tenants;
	const u32 m = ARAX_RES_MEMORY;
	u32 i;

	ck_assert_int_eq(set(fx, 0, m, 1000), 0);
	ck_assert_int_eq(set(fx, 1, m, 600), 0);
	ck_assert_int_eq(set(fx, 2, m, 500), 0);
	ck_assert_int_eq(core_charge(t[2], u, m, 500), 0);
	ck_assert_int_eq(core_charge(t[2], u, m, 1), -EDQUOT);
	ck_assert_uint_eq(events(t[2], m), 1);
	ck_assert_int_eq(core_charge(t[3], u, m, 101), -EDQUOT);
	ck_assert_uint_eq(events(t[1], m), 1);
	/* Refused above: no trace below. */
	ck_assert_uint_eq(fx_used(t[3], m), 0);
	ck_assert_uint_eq(peak(t[3], m), 0);
	ck_assert_uint_eq(events(t[3], m), 0);
	ck_assert_int_eq(core_charge(t[3], u, m, 100), 0);
	ck_assert_int_eq(core_charge(t[0], u, m, 401), -EDQUOT);
	ck_assert_int_eq(core_charge(t[0], u, m, 400), 0);
	for (i = 0; i < 2; i++)
		ck_assert_uint_eq(fx_used(t[i], m), i ? 600 : 1000);
	/* Below what is in use: no more, but nothing breaks. */
	ck_assert_int_eq(set(fx, 2, m, 10), 0);
	ck_assert_int_eq(core_charge(t[2], u, m, 1), -EDQUOT);
	core_uncharge(t[2], u, m, 495);
	ck_assert_int_eq(core_charge(t[2], u, m, 5), 0);
	ck_assert_int_eq(core_charge(t[2], u, m, 1), -EDQUOT);
	core_uncharge(t[2], u, m, 10);
	core_uncharge(t[3], u, m, 100);
	core_uncharge(t[0], u, m, 400);
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(fx_used(t[i], m), 0);
	ck_assert_uint_eq(peak(t[0], m), 1000);
	put(fx, u);
	fx_free(fx);
}
END_TEST

START_TEST(user_defaults)
{
	struct core_params p = fx_params();
	struct core_tenant *u, **t;
	struct fx *fx;

	p.user_memory = 100;
	fx = fx_new(&p);
	t = fx->tenants;
	u = user(fx, 7);
	ck_assert_int_eq(core_charge(t[2], u, ARAX_RES_MEMORY, 101), -EDQUOT);
	ck_assert_uint_eq(events(u, ARAX_RES_MEMORY), 1);
	ck_assert_int_eq(core_charge(t[3], u, ARAX_RES_MEMORY, 100), 0);
	ck_assert_int_eq(core_charge(t[2], u, ARAX_RES_MEMORY, 1), -EDQUOT);
	/* Something is configured above t[2]: the cgroups decide. */
	ck_assert_int_eq(set(fx, 1, ARAX_RES_MEMORY, 1000), 0);
	ck_assert_int_eq(core_charge(t[2], u, ARAX_RES_MEMORY, 900), 0);
	ck_assert_int_eq(core_charge(t[2], u, ARAX_RES_MEMORY, 1), -EDQUOT);
	ck_assert_uint_eq(events(t[1], ARAX_RES_MEMORY), 1);
	/* The setting of one resource says nothing of another's. */
	ck_assert_int_eq(core_charge(t[2], u, ARAX_RES_TASKS, 1001), -EDQUOT);
	core_uncharge(t[2], u, ARAX_RES_MEMORY, 900);
	core_uncharge(t[3], u, ARAX_RES_MEMORY, 100);
	put(fx, u);
	fx_free(fx);
}
END_TEST

START_TEST(overflow)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *u = user(fx, 7), **t = fx->tenants;

	ck_assert_int_eq(core_charge(t[2], u, ARAX_RES_DEVICE_MEMORY, ~0ull), 0);
	ck_assert_int_eq(core_charge(t[2], u, ARAX_RES_DEVICE_MEMORY, 1), -EDQUOT);
	ck_assert_int_eq(core_charge(t[3], u, ARAX_RES_DEVICE_MEMORY, 1), -EDQUOT);
	ck_assert_uint_eq(fx_used(t[3], ARAX_RES_DEVICE_MEMORY), 0);
	core_uncharge(t[2], u, ARAX_RES_DEVICE_MEMORY, ~0ull);
	put(fx, u);
	fx_free(fx);
}
END_TEST

START_TEST(limit_errors)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);

	ck_assert_int_eq(set(fx, 9, ARAX_RES_MEMORY, 1), -EBADF);
	ck_assert_int_eq(set(fx, 2, ARAX_RES_MAX, 1), -EOPNOTSUPP);
	ck_assert_int_eq(set(fx, 2, 0xff, 1), -EOPNOTSUPP);
	ck_assert_int_eq(set(fx, 2, 0x102, 1), -EOPNOTSUPP);
	ck_assert_int_eq(set(fx, 2, ARAX_SET_WEIGHT, 0), -EINVAL);
	ck_assert_int_eq(set(fx, 2, ARAX_SET_WEIGHT, 10001), -EINVAL);
	ck_assert_int_eq(set(fx, 2, ARAX_SET_WEIGHT, 10000), 0);
	ck_assert_int_eq(set(fx, 2, ARAX_SET_DEVICE_TIME, 5), -EINVAL);	/* no period */
	ck_assert_int_eq(set(fx, 2, ARAX_SET_DEVICE_TIME, ARAX_LIMIT_MAX), 0);
	a.limit.cgroup_fd = 2;
	a.limit.value = 1;
	a.limit.pad = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_LIMIT_SET, &a), -EINVAL);
	a.limit.pad = 0;
	a.limit.period_ns = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_LIMIT_SET, &a), -EINVAL);
	a.limit.what = ARAX_SET_DEVICE_TIME;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_LIMIT_SET, &a), 0);
	ck_assert_uint_eq(fx->tenants[2]->max_ns, 1);
	ck_assert_uint_eq(fx->tenants[2]->period_ns, 1);
	fx_free(fx);
}
END_TEST

START_TEST(query)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);

	a.tenant.cgroup_fd = -1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.id, 1);
	ck_assert_uint_eq(a.tenant.parent, 0);
	a.tenant.id = 2;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.id, 20);
	ck_assert_str_eq(a.tenant.path, "/a");
	a.tenant.id = 301;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), -ENOENT);
	a.tenant.cgroup_fd = 2;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.id, 300);
	ck_assert_uint_eq(a.tenant.parent, 20);
	ck_assert_uint_eq(a.tenant.usage.weight, 100);
	ck_assert_uint_eq(a.tenant.usage.counters[0].max, ARAX_LIMIT_MAX);
	a.tenant.cgroup_fd = 50;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), -EBADF);
	fx_free(fx);
}
END_TEST

/* A tenant with a setting stays without a reference; without one it goes. */
START_TEST(life)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *t, *again;

	core_mutex_lock(&fx->core->lock);
	t = core_tenant_get(fx->core, 500, fx->tenants[0], "/x");
	core_tenant_put(fx->core, t);
	t = core_tenant_get(fx->core, 500, fx->tenants[0], "/x");
	ck_assert_uint_eq(t->refs, 1);
	core_atomic_set(&t->res[0].max, 5);
	core_tenant_put(fx->core, t);
	again = core_tenant_get(fx->core, 500, fx->tenants[0], "/x");
	ck_assert_ptr_eq(t, again);
	ck_assert_uint_eq(core_atomic_read(&again->res[0].max), 5);
	core_tenant_put(fx->core, again);
	core_mutex_unlock(&fx->core->lock);
	fx_free(fx);		/* frees it with the tree */
}
END_TEST

/* Each refused task counts once, in a batch too; those that fit run. */
START_TEST(task_events)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t;
	u32 i;

	ck_assert_int_eq(set(fx, 1, ARAX_RES_TASKS, 3), 0);
	for (i = 0; i < 8; i++) {
		t = fx_marker(cl, i);
		fx_push(cl, &t);
	}
	ck_assert_int_eq(fx_submit(cl, 8), 8);
	ck_assert_uint_eq(events(fx->tenants[1], ARAX_RES_TASKS), 5);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 3);
	for (i = 3; i < 8; i++)
		fx_expect(cl, i, -EDQUOT);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx_drain(fx), 3);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_TASKS), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_tenant_suite(void)
{
	Suite *s = suite_create("core tenant");
	TCase *tc = tcase_create("tenant");

	tcase_add_test(tc, three_deep);
	tcase_add_test(tc, user_defaults);
	tcase_add_test(tc, overflow);
	tcase_add_test(tc, limit_errors);
	tcase_add_test(tc, query);
	tcase_add_test(tc, life);
	tcase_add_test(tc, task_events);
	suite_add_tcase(s, tc);
	return s;
}
