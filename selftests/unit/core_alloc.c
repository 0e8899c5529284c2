// SPDX-License-Identifier: MIT
/*
 * Memory is had before core->lock is taken: in the kernel it is charged to the caller's
 * cgroup, where whoever is over memory.high sleeps for seconds, and all others would with him.
 * The linker leads the core's allocations to here.
 */
#include <check.h>
#include <stdlib.h>

#include "core_fixture.h"

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);

static struct core *watched;
static u32 under_lock;
static void (*meanwhile)(void);		/* once, while so much memory is had */
static size_t so_much;

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	void (*then)(void) = meanwhile;

	if (watched && core_lock_taken(&watched->lock)) {
		under_lock++;
	} else if (watched && then && bytes == so_much) {
		meanwhile = NULL;
		then();
	}
	return __real_aligned_alloc(align, bytes);
}

static struct fx_client *cl, *other;

START_TEST(buffers)
{
	struct fx *fx = fx_new(NULL);
	u32 i;

	cl = fx_client_ready(fx);
	watched = fx->core;
	for (i = 0; i < 200; i++)
		fx_buffer(cl, 4096);
	watched = NULL;
	ck_assert_uint_eq(under_lock, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

static void fill_up(void)
{
	u32 had = watched->buffers.cap;

	while (watched->buffers.cap == had || watched->buffers.free)
		fx_buffer(other, 4096);
}

static void one_more(void)
{
	fx_buffer(other, 4096);
}

/* Who had it made finds that another one has made the table larger, and even filled that. */
START_TEST(two_at_a_time)
{
	struct fx *fx = fx_new(NULL);
	u32 round, cap;

	cl = fx_client_ready(fx);
	other = fx_client_ready(fx);
	for (round = 0; round < 2; round++) {
		while (fx->core->buffers.free)
			fx_buffer(cl, 4096);
		cap = fx->core->buffers.cap;
		watched = fx->core;
		so_much = sizeof(struct core_slot_entry) * 2 * cap;
		meanwhile = round ? fill_up : one_more;
		fx_buffer(cl, 4096);
		watched = NULL;
		ck_assert_ptr_null(meanwhile);
		ck_assert_uint_eq(fx->core->buffers.cap, round ? 4 * cap : 2 * cap);
		ck_assert_uint_eq(under_lock, 0);
	}
	fx_release(other);
	fx_release(cl);
	ck_assert_uint_eq(fx->core->buffers.used, 0);
	fx_free(fx);
}
END_TEST

START_TEST(users_and_tenants)
{
	struct fx *fx = fx_new(NULL);
	struct core_tenant *t;
	struct clist spares;
	u32 i;

	watched = fx->core;
	cl = fx_client(fx, 4711, 2);
	other = fx_client(fx, 4711, 2);		/* who is there already */
	ck_assert_ptr_eq(cl->c->user, other->c->user);
	clist_init(&spares);
	ck_assert_int_eq(core_spares_make(&spares, 2), 0);
	core_mutex_lock(&fx->core->lock);
	for (i = 0; i < 2; i++) {
		t = core_tenant_get_spare(fx->core, 900 + i, fx->tenants[0], "/x", &spares);
		ck_assert_ptr_nonnull(t);
		ck_assert_uint_eq(t->weight, 100);
		/* Who is there needs none. */
		ck_assert_ptr_eq(core_tenant_get_spare(fx->core, 900 + i, NULL, "", &spares), t);
		core_tenant_put(fx->core, t);
	}
	ck_assert_ptr_null(core_tenant_get_spare(fx->core, 950, fx->tenants[0], "/x", &spares));
	core_tenant_put(fx->core, t);
	t = core_tenant_get_spare(fx->core, 900, NULL, "", &spares);
	core_tenant_put(fx->core, t);
	core_tenant_put(fx->core, t);
	core_mutex_unlock(&fx->core->lock);
	/* What is left of them is freed: the sanitizers look. */
	ck_assert_int_eq(core_spares_make(&spares, 3), 0);
	core_spares_free(&spares);
	ck_assert(clist_empty(&spares));
	watched = NULL;
	ck_assert_uint_eq(under_lock, 0);
	fx_release(other);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_alloc_suite(void)
{
	Suite *s = suite_create("core alloc");
	TCase *tc = tcase_create("alloc");

	tcase_add_test(tc, buffers);
	tcase_add_test(tc, two_at_a_time);
	tcase_add_test(tc, users_and_tenants);
	suite_add_tcase(s, tc);
	return s;
}
