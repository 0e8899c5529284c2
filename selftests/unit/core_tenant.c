// SPDX-License-Identifier: MIT
/* Tenants: charges, limits, events, users' defaults. */
#include <math.h>

#include "core_fixture.h"

static struct core_tenant *user(struct fx *fx, u32 uid)
{
	struct core_tenant *u;

	core_mutex_lock(&fx->core->lock);
	u = core_user_get(fx->core, uid, NULL);
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
	/* Whose tenant is an ancestor's has no limits; who looks at it sees that one's. */
	fx->deep = true;
	ck_assert_int_eq(set(fx, 2, ARAX_RES_TASKS, 1), -ELOOP);
	ck_assert_int_eq(set(fx, 2, ARAX_SET_WEIGHT, 7), -ELOOP);
	ck_assert_int_eq(set(fx, 2, ARAX_SET_DEVICE_TIME, ARAX_LIMIT_MAX), -ELOOP);
	a.tenant.cgroup_fd = 2;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.usage.weight, 10000);
	memset(&a, 0, sizeof(a));
	fx->deep = false;
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

static struct arax_tenant tenant_at(struct fx *fx, int fd)
{
	union core_args a = { 0 };

	memset(&a, 0xff, sizeof(a));
	a.tenant.cgroup_fd = fd;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), 0);
	return a.tenant;
}

START_TEST(told)
{
	union core_args a = { 0 }, keep;
	struct fx *fx = fx_new(NULL);
	struct arax_tenant t = tenant_at(fx, 2);

	ck_assert_uint_eq(t.flags, 0);
	ck_assert_uint_eq(t.waiting_ns | t.nr_periods | t.nr_throttled | t.throttled_ns, 0);
	ck_assert_uint_eq(t.waiting_avg[0] | t.waiting_avg[1] | t.waiting_avg[2] | t.pad2, 0);
	a.tenants_tell.flags = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANTS_TELL, &a), -EOPNOTSUPP);
	a.tenants_tell.flags = 0;
	a.tenants_tell.count = ARAX_TELL_MAX + 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANTS_TELL, &a), -EINVAL);
	ck_assert_uint_eq(tenant_at(fx, 2).flags, 0);
	/* Of none: that there are none so far. */
	a.tenants_tell.count = 0;
	a.tenants_tell.news[0] = (struct arax_tenant_news){ .id = 300, .waiting_ns = 1 };
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANTS_TELL, &a), 0);
	ck_assert_uint_eq(tenant_at(fx, 2).flags, ARAX_TENANT_STAT);
	ck_assert_uint_eq(tenant_at(fx, 2).waiting_ns, 0);
	/* Its own, and nobody's above; who is not there is counted, whatever he is between. */
	a.tenants_tell.count = ARAX_TELL_MAX;
	for (u32 i = 0; i < ARAX_TELL_MAX; i++)
		a.tenants_tell.news[i] = (struct arax_tenant_news){ .id = 21, .waiting_ns = 5 };
	a.tenants_tell.news[3] = (struct arax_tenant_news){
		.id = 300, .nr_periods = 7, .nr_throttled = 3, .throttled_ns = 1000,
		.waiting_ns = 2000,
	};
	a.tenants_tell.news[ARAX_TELL_MAX - 1].id = 20;
	a.tenants_tell.news[0].id = ~0ull;
	keep = a;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANTS_TELL, &a), 0);
	ck_assert_uint_eq(a.tenants_tell.unknown, ARAX_TELL_MAX - 2);
	a = keep;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANTS_TELL, &a), 0);
	t = tenant_at(fx, 2);
	ck_assert_uint_eq(t.nr_periods, 14);
	ck_assert_uint_eq(t.nr_throttled, 6);
	ck_assert_uint_eq(t.throttled_ns, 2000);
	ck_assert_uint_eq(t.waiting_ns, 4000);
	ck_assert_uint_eq(tenant_at(fx, 1).waiting_ns, 10);
	ck_assert_uint_eq(tenant_at(fx, 1).nr_periods, 0);
	ck_assert_uint_eq(tenant_at(fx, 0).waiting_ns, 0);
	/* They are the tenant's, and not of who has told them. */
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	fx_die(fx);
	ck_assert_uint_eq(tenant_at(fx, 2).waiting_ns, 4000);
	ck_assert_uint_eq(tenant_at(fx, 2).flags, ARAX_TENANT_STAT);
	fx_free(fx);
}
END_TEST

/* Nor does a cgroup that is made anew have the old one's. */
START_TEST(told_of_another)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);
	struct core_tenant *t;

	core_mutex_lock(&fx->core->lock);
	core_tenant_get(fx->core, 500, fx->tenants[0], "/x");
	core_mutex_unlock(&fx->core->lock);
	a.tenants_tell.count = 1;
	a.tenants_tell.news[0] = (struct arax_tenant_news){ .id = 500, .waiting_ns = 9 };
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANTS_TELL, &a), 0);
	core_mutex_lock(&fx->core->lock);
	t = core_tenant_of(*core_tree_place(&fx->core->tenants, 500));
	ck_assert_uint_eq(t->pressure.waiting_ns, 9);
	core_tenant_put(fx->core, t);
	core_mutex_unlock(&fx->core->lock);
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANTS_TELL, &a), 0);
	ck_assert_uint_eq(a.tenants_tell.unknown, 1);
	core_mutex_lock(&fx->core->lock);
	t = core_tenant_get(fx->core, 500, fx->tenants[0], "/x");
	ck_assert_uint_eq(t->pressure.waiting_ns, 0);
	core_tenant_put(fx->core, t);
	core_mutex_unlock(&fx->core->lock);
	fx_free(fx);
}
END_TEST

#define S	1000000000ull

/* In hundredths of a per cent. */
static int share(const struct core_pressure *p, int i)
{
	return (int)((u64)p->avg[i] * 10000 >> CORE_SHARE_BITS);
}

/* What the definition says: @old faded for @seconds towards @to. */
static int faded(double old, double to, double seconds, double of)
{
	return (int)(to + (old - to) * exp(-seconds / of));
}

static void near(int got, int want)
{
	/* The factors have eleven bits, and a step may be on its way. */
	ck_assert_msg(abs(got - want) <= 200, "%d, not %d", got, want);
}

START_TEST(averages)
{
	static const double of[] = { 10, 60, 300 };
	struct core_pressure p = { 0 };
	u64 now = 1000 * S;
	int i, k, was[3];

	/* Not told of anything yet. */
	core_pressure_at(&p, now);
	ck_assert_int_eq(share(&p, 0), 0);
	/* All the time, a hundred ms at a time. */
	for (k = 0; k < 300; k++)
		core_pressure_add(&p, S / 10, now += S / 10);
	ck_assert_uint_eq(p.waiting_ns, 30 * S);
	for (i = 0; i < 3; i++)
		near(share(&p, i), faded(0, 10000, 30, of[i]));
	for (; k < 60000; k++)
		core_pressure_add(&p, S / 10, now += S / 10);
	for (i = 0; i < 3; i++)
		ck_assert_int_ge(share(&p, i), 9999);
	/* A third of it. */
	for (k = 0; k < 200; k++)
		core_pressure_add(&p, S / 30, now += S / 10);
	for (i = 0; i < 3; i++) {
		was[i] = share(&p, i);
		near(was[i], faded(10000, 3333, 20, of[i]));
	}
	/* Not at all, looked at once and in steps. */
	for (k = 0; k < 400; k++)
		core_pressure_at(&p, now += S / 10);
	for (i = 0; i < 3; i++) {
		near(share(&p, i), faded(was[i], 0, 40, of[i]));
		was[i] = share(&p, i);
	}
	core_pressure_at(&p, now += 100 * S);
	for (i = 0; i < 3; i++)
		near(share(&p, i), faded(was[i], 0, 100, of[i]));
	core_pressure_at(&p, now += 1000000 * S);
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(share(&p, i), 0);
	/* Time that goes back changes nothing. */
	core_pressure_at(&p, now - 50 * S);
	core_pressure_at(&p, 0);
	/* Much at once is no more than all; the rest is in what follows. */
	core_pressure_add(&p, 10 * S, now += 2 * S);
	for (i = 0; i < 3; i++)
		ck_assert_int_le(share(&p, i), 10000);
	k = share(&p, 0);
	ck_assert_int_gt(k, 0);
	core_pressure_at(&p, now += 2 * S);
	ck_assert_int_gt(share(&p, 0), k);
	core_pressure_add(&p, ~0ull, now += 2 * S);
	core_pressure_at(&p, ~0ull);
	for (i = 0; i < 3; i++)
		ck_assert_int_le(share(&p, i), 10000);
	/* The first time soon after the clock's start. */
	p = (struct core_pressure){ 0 };
	core_pressure_add(&p, 3 * S, S);
	core_pressure_add(&p, S, 3 * S);
	ck_assert_int_gt(share(&p, 0), 0);
}
END_TEST

/* What was waited counts when it was, however late the first look is. */
START_TEST(looked_at_late)
{
	static const int idle[] = { 20, 40, 80, 3600 };
	static const double of[] = { 10, 60, 300 };
	struct core_pressure p, first;
	double all;
	u64 now;
	int i, k;

	p = (struct core_pressure){ 0 };
	now = 1000 * S;
	for (k = 0; k < 319; k++)
		core_pressure_add(&p, S / 10, now += S / 10);
	first = p;
	for (k = 0; k < 4; k++) {
		p = first;
		core_pressure_at(&p, now + (u64)idle[k] * S);
		/* A step may not be over. */
		for (i = 0; i < 3; i++) {
			all = faded(0, 10000, 31.9, of[i]);
			ck_assert_int_ge(share(&p, i), faded(all, 0, idle[k], of[i]) - 200);
			ck_assert_int_le(share(&p, i), faded(all, 0, idle[k] - 2, of[i]) + 100);
		}
	}
	ck_assert_int_eq(share(&p, 0), 0);
	/* Nor does it stand for now when it goes on. */
	p = first;
	core_pressure_add(&p, S / 10, now + 3600 * S);
	ck_assert_int_le(share(&p, 0), 200);
	/* Told at once, and in pieces. */
	p = (struct core_pressure){ 0 };
	now = 1000 * S;
	core_pressure_add(&p, 30 * S, now += 30 * S);
	for (i = 0; i < 3; i++)
		near(share(&p, i), faded(0, 10000, 30, of[i]));
	core_pressure_add(&p, 40 * S, now += 140 * S);
	for (i = 0; i < 3; i++)
		near(share(&p, i), faded(faded(faded(0, 10000, 30, of[i]), 0, 100, of[i]), 10000, 40,
					of[i]));
}
END_TEST

/* However it is looked at, no moment stands for much more than it is. */
START_TEST(any_looks)
{
	struct core_pressure p = { 0 };
	u64 now = 7 * S, gap, waited;
	int k;

	for (k = 0; k < 100000; k++) {
		gap = (u64)rand() * 37 % (k % 7 ? S / 5 : 9 * S);
		now += gap;
		waited = gap / 2;
		if (k % 3)
			core_pressure_add(&p, waited, now);
		else
			core_pressure_add(&p, 0, now);
		core_pressure_at(&p, now);
		ck_assert_int_le(share(&p, 0), 7000);
		ck_assert_int_le(share(&p, 2), 5000);
	}
	ck_assert_int_gt(share(&p, 2), 2000);
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

/* ------------------------------------------------------------------ */
/* Cgroups that come and go                                            */

/* A cgroup appears, a saved limit is set, and it is unused. */
static struct core_tenant *limited(struct fx *fx, u64 id, struct core_tenant *parent)
{
	struct core_tenant *t = fx_cgroup(fx, id, parent);

	core_atomic_set(&t->res[ARAX_RES_MEMORY].max, id);
	return t;
}

static u32 nr_tenants(struct fx *fx)
{
	union core_args a = { 0 };
	u32 n;

	a.tenant.cgroup_fd = -1;
	for (n = 0; !fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a); n++)
		a.tenant.id++;
	return n;
}

static u32 in_tree(const struct core_node *t)
{
	return t ? 1 + in_tree(t->below[0]) + in_tree(t->below[1]) : 0;
}

/* Made, limited and removed again and again: none is left but what is on its way. */
START_TEST(recreated)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *t;
	u32 i, most = 0;

	core_mutex_lock(&fx->core->lock);
	for (i = 0; i < 1000; i++) {
		t = limited(fx, 1000 + i, fx->tenants[1]);
		core_tenant_put(fx->core, t);
		fx_rmdir(t);
		most = fx->cgroups > most ? fx->cgroups : most;
	}
	core_mutex_unlock(&fx->core->lock);
	ck_assert_uint_le(most, 2);
	/* Nor is that one told. */
	ck_assert_uint_eq(nr_tenants(fx), 4);
	ck_assert_uint_eq(fx->cgroups, 0);
	ck_assert_uint_eq(fx->tenants[1]->refs, 3);
	fx_free(fx);
}
END_TEST

/* Those of live cgroups stay, limits and all, and bound how many others may linger. */
START_TEST(dead_among_live)
{
	const u32 live = 50;
	struct fx *fx = fx_new(NULL);
	struct core_tenant *t;
	u32 i;

	core_mutex_lock(&fx->core->lock);
	for (i = 0; i < live; i++)
		core_tenant_put(fx->core, limited(fx, 1000 + i, fx->tenants[1]));
	for (i = 0; i < 2000; i++) {
		t = limited(fx, 5000 + i, fx->tenants[1]);
		core_tenant_put(fx->core, t);
		fx_rmdir(t);
		ck_assert_uint_le(fx->cgroups, 2 * live + 2);
	}
	/* New ones without limits find what is left, too. */
	for (i = 0; i < 2 * live; i++)
		core_tenant_put(fx->core, fx_cgroup(fx, 9000 + i, fx->tenants[0]));
	ck_assert_uint_eq(fx->cgroups, live);
	for (i = 0; i < live; i++) {
		t = fx_cgroup(fx, 1000 + i, fx->tenants[1]);
		ck_assert_uint_eq(core_atomic_read(&t->res[ARAX_RES_MEMORY].max), 1000 + i);
		core_tenant_put(fx->core, t);
	}
	core_mutex_unlock(&fx->core->lock);
	ck_assert_uint_eq(nr_tenants(fx), 4 + live);
	fx_free(fx);
}
END_TEST

/* What is charged in a removed cgroup counts, above too, until it is given back. */
START_TEST(removed_while_charged)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *u = user(fx, 7), *top, *leaf;
	union core_args a = { 0 };
	const u32 m = ARAX_RES_MEMORY;

	core_mutex_lock(&fx->core->lock);
	top = limited(fx, 1000, fx->tenants[0]);
	leaf = limited(fx, 2000, top);
	core_tenant_put(fx->core, top);
	core_mutex_unlock(&fx->core->lock);
	ck_assert_int_eq(core_charge(leaf, u, m, 400), 0);
	fx_rmdir(leaf);
	fx_rmdir(top);
	ck_assert_uint_eq(nr_tenants(fx), 6);
	a.tenant.cgroup_fd = -1;
	a.tenant.id = 1000;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.flags, ARAX_TENANT_GONE);
	ck_assert_uint_eq(a.tenant.usage.counters[m].used, 400);
	/* Its limits hold as before. */
	ck_assert_int_eq(core_charge(leaf, u, m, 601), -EDQUOT);
	ck_assert_uint_eq(events(top, m), 1);
	core_uncharge(leaf, u, m, 400);
	put(fx, leaf);		/* both at once, with no look by anybody */
	ck_assert_uint_eq(fx->cgroups, 0);
	ck_assert_uint_eq(fx_used(fx->tenants[0], m), 0);
	a.tenant.id = 0;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.flags, 0);
	put(fx, u);
	fx_free(fx);
}
END_TEST

/* Whoever names a cgroup while it is removed keeps the tenant until he lets go. */
START_TEST(removed_while_named)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *t;
	u32 i;

	core_mutex_lock(&fx->core->lock);
	t = limited(fx, 1000, fx->tenants[0]);
	core_tenant_put(fx->core, t);
	ck_assert_ptr_eq(fx_cgroup(fx, 1000, fx->tenants[0]), t);
	fx_rmdir(t);
	for (i = 0; i < 10; i++)
		core_tenant_put(fx->core, limited(fx, 2000 + i, fx->tenants[0]));
	ck_assert_uint_eq(t->refs, 1);
	core_atomic_set(&t->res[ARAX_RES_TASKS].max, 5);
	core_tenant_put(fx->core, t);
	ck_assert_uint_eq(fx->cgroups, 10);
	core_mutex_unlock(&fx->core->lock);
	fx_free(fx);
}
END_TEST

/* Users have no cgroup: they go with their last context. */
START_TEST(users_go)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *u[100];
	u32 i;

	for (i = 0; i < 100; i++)
		u[i] = user(fx, i * 65536);
	ck_assert_uint_eq(in_tree(fx->core->users), 100);
	for (i = 0; i < 100; i++)
		put(fx, u[i]);
	ck_assert_ptr_null(fx->core->users);
	fx_free(fx);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The tree of ids                                                     */

static u32 height(const struct core_node *t)
{
	u32 a, b;

	if (!t)
		return 0;
	a = height(t->below[0]);
	b = height(t->below[1]);
	return 1 + (a > b ? a : b);
}

static struct core_tenant *least_from(struct core_tenant *t, u32 n, const bool *in, u64 id)
{
	struct core_tenant *least = NULL;
	u32 i;

	for (i = 0; i < n; i++)
		if (in[i] && t[i].id >= id && (!least || t[i].id < least->id))
			least = &t[i];
	return least;
}

/* Against a search through all, with ids that lie close, far apart and at the ends. */
START_TEST(tree)
{
	enum { N = 300 };
	static struct core_tenant t[N];
	static bool in[N];
	struct core_node *root = NULL, **place;
	u32 round, i, nr = 0;
	u64 id;

	srand(1);
	for (i = 0; i < N; i++) {
		id = i % 3 == 0 ? i : i % 3 == 1 ? 1ull << (10 + i % 54) | i : ~0ull - i;
		t[i].id = id;
	}
	for (round = 0; round < 20000; round++) {
		i = (u32)rand() % N;
		place = core_tree_place(&root, t[i].id);
		ck_assert_ptr_eq(*place, in[i] ? &t[i].by_id : NULL);
		if (in[i]) {
			core_tree_unlink(&root, &t[i].by_id);
		} else {
			t[i].by_id.below[0] = t[i].by_id.below[1] = NULL;
			*place = &t[i].by_id;
		}
		nr += in[i] ? -1u : 1;
		in[i] = !in[i];
		id = t[(u32)rand() % N].id + (u32)rand() % 3 - 1;
		ck_assert_ptr_eq(core_tenant_from(root, id), least_from(t, N, in, id));
		ck_assert_uint_eq(in_tree(root), nr);
		ck_assert_uint_le(height(root), 65);
	}
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
	tcase_add_test(tc, told);
	tcase_add_test(tc, told_of_another);
	tcase_add_test(tc, averages);
	tcase_add_test(tc, looked_at_late);
	tcase_add_test(tc, any_looks);
	tcase_add_test(tc, life);
	tcase_add_test(tc, task_events);
	tcase_add_test(tc, recreated);
	tcase_add_test(tc, dead_among_live);
	tcase_add_test(tc, removed_while_charged);
	tcase_add_test(tc, removed_while_named);
	tcase_add_test(tc, users_go);
	tcase_add_test(tc, tree);
	suite_add_tcase(s, tc);
	return s;
}
