// SPDX-License-Identifier: MIT
/*
 * What the mediator's polling thread calls, while another one holds core->lock for as long as it
 * likes: none of these may wait for it, which here would be for ever.
 */
#include "core_fixture.h"

static struct fx *fx;
static struct fx_client *cl;

static void begin(void)
{
	fx = fx_new(NULL);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
}

static void end(void)
{
	fx_release(cl);
	fx_free(fx);
}

static int call(u32 nr, union core_args *a)
{
	a->size = 0;
	return fx_call(fx, NULL, nr, a);
}

START_TEST(buffers)
{
	union core_args a = { .buffer_query.handle = fx_buffer(cl, 4096) };
	u64 id;

	ck_assert_int_eq(core_buffer_query(cl->c, &a.buffer_query), 0);
	id = a.buffer_query.id;
	core_mutex_lock(&fx->core->lock);
	a = (union core_args) { .buffer_get.id = id };
	ck_assert_int_eq(call(ARAX_NR_BUFFER_GET, &a), 0);
	ck_assert_uint_eq(a.buffer_get.bytes, 4096);
	a = (union core_args) { .buffer_get.id = id + 1 };
	ck_assert_int_eq(call(ARAX_NR_BUFFER_GET, &a), -ENOENT);
	core_mutex_unlock(&fx->core->lock);
	fx_close_buffer(fx, core_handle_find(&fx->core->buffers, CORE_BUFFER, (u32)id));
	end();
}
END_TEST

START_TEST(charges)
{
	union core_args a = { .charge = { .context = cl->init.context, .delta = 1000,
					  .resource = ARAX_RES_DEVICE_MEMORY } };

	core_mutex_lock(&fx->core->lock);
	ck_assert_int_eq(call(ARAX_NR_CHARGE, &a), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_DEVICE_MEMORY), 1000);
	a.charge.context++;
	ck_assert_int_eq(call(ARAX_NR_CHARGE, &a), -ENOENT);
	core_mutex_unlock(&fx->core->lock);
	end();
}
END_TEST

START_TEST(words)
{
	struct arax_task t = fx_marker(cl, 7);
	union core_args a = { 0 };
	u64 tag;

	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 7);
	core_mutex_lock(&fx->core->lock);
	a.task_why.tag = tag;
	strcpy(a.task_why.text, "so");
	ck_assert_int_eq(call(ARAX_NR_TASK_EXPLAIN, &a), 0);
	ck_assert_uint_eq(fx_commit(fx, tag, -EIO), 0);
	ck_assert_int_eq(call(ARAX_NR_TASK_EXPLAIN, &a), -ESTALE);
	memset(a.task_why.text, 0, sizeof(a.task_why.text));
	ck_assert_int_eq(core_task_why(cl->c, &a.task_why), 0);
	ck_assert_str_eq(a.task_why.text, "so");
	core_mutex_unlock(&fx->core->lock);
	fx_expect(cl, 7, -EIO);
	end();
}
END_TEST

START_TEST(devices)
{
	union core_args a = { .device.name = "gpu" };

	core_mutex_lock(&fx->core->lock);
	ck_assert_int_eq(call(ARAX_NR_DEVICE_PUBLISH, &a), 0);
	memset(&a, 0, sizeof(a));
	ck_assert_int_eq(call(ARAX_NR_DEVICE_QUERY, &a), 0);
	ck_assert_str_eq(a.device.name, "gpu");
	core_mutex_unlock(&fx->core->lock);
	end();
}
END_TEST

START_TEST(tenants)
{
	union core_args a = { 0 };

	core_mutex_lock(&fx->core->lock);
	a.tenants_tell.count = 2;
	a.tenants_tell.news[0].id = 20;
	a.tenants_tell.news[0].nr_throttled = 3;
	a.tenants_tell.news[1].id = 21;
	ck_assert_int_eq(call(ARAX_NR_TENANTS_TELL, &a), 0);
	ck_assert_uint_eq(a.tenants_tell.unknown, 1);
	/* The least that is not less. */
	a = (union core_args) { .tenant = { .cgroup_fd = -1, .id = 2 } };
	ck_assert_int_eq(call(ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.id, 20);
	ck_assert_uint_eq(a.tenant.parent, 1);
	ck_assert_uint_eq(a.tenant.nr_throttled, 3);
	ck_assert_uint_eq(a.tenant.flags, ARAX_TENANT_STAT);
	ck_assert_str_eq(a.tenant.path, "/a");
	a = (union core_args) { .tenant = { .cgroup_fd = -1, .id = 301 } };
	ck_assert_int_eq(call(ARAX_NR_TENANT_QUERY, &a), -ENOENT);
	core_mutex_unlock(&fx->core->lock);
	end();
}
END_TEST

/* Its cgroup is removed while a context is there; and then there are only its limits. */
START_TEST(removed_tenant)
{
	union core_args a = { .tenant = { .cgroup_fd = -1, .id = 4000 } };
	struct core *core = fx->core;
	struct core_tenant *t;

	core_mutex_lock(&core->lock);
	t = fx_cgroup(fx, 4000, fx->tenants[0]);
	t->weight = 7;
	fx_rmdir(t);
	ck_assert_int_eq(call(ARAX_NR_TENANT_QUERY, &a), 0);
	ck_assert_uint_eq(a.tenant.id, 4000);
	ck_assert_uint_eq(a.tenant.flags, ARAX_TENANT_GONE);
	*(bool *)t->link = false;
	core_tenant_put(core, t);
	core_mutex_unlock(&core->lock);
	ck_assert_uint_eq(fx->cgroups, 1);
	fx_rmdir(t);
	a = (union core_args) { .tenant = { .cgroup_fd = -1, .id = 4000 } };
	ck_assert_int_eq(call(ARAX_NR_TENANT_QUERY, &a), -ENOENT);
	ck_assert_uint_eq(fx->cgroups, 0);
	end();
}
END_TEST

/* The last task of a context that is closed, and the word of its end. */
START_TEST(last_commit)
{
	struct arax_task t = fx_marker(cl, 7);
	struct arax_fetch f = { 0 };
	u64 tag;

	fx->ends_later = true;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 7);
	fx_release(cl);
	core_mutex_lock(&fx->core->lock);
	ck_assert_int_eq(core_fetch(fx->core, &f), 0);
	ck_assert_uint_eq(fx_commit(fx, tag, 0), 0);
	ck_assert_int_eq(core_fetch(fx->core, &f), 0);
	ck_assert(!clist_empty(&fx->ended));
	core_mutex_unlock(&fx->core->lock);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_CONTEXTS), 0);
	ck_assert_uint_eq(fx->core->nr_clients, 1);
	fx_end_clients(fx);
	ck_assert_uint_eq(fx->core->nr_clients, 0);
	fx_free(fx);
}
END_TEST

Suite *core_polling_suite(void)
{
	Suite *s = suite_create("core polling");
	TCase *tc = tcase_create("polling");

	tcase_add_checked_fixture(tc, begin, NULL);
	tcase_add_test(tc, buffers);
	tcase_add_test(tc, charges);
	tcase_add_test(tc, words);
	tcase_add_test(tc, devices);
	tcase_add_test(tc, tenants);
	tcase_add_test(tc, removed_tenant);
	tcase_add_test(tc, last_commit);
	suite_add_tcase(s, tc);
	return s;
}
