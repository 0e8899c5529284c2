// SPDX-License-Identifier: MIT
/*
 * Memory is had before core->lock is taken: in the kernel it is charged to the caller's
 * cgroup, where whoever is over memory.high sleeps for seconds, and all others would with him.
 * The linker leads the core's allocations to here.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core_fixture.h"

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);

static struct core *watched;
static u32 under_lock;
static void (*meanwhile)(void);		/* once, while so much memory is had */
static size_t so_much;
static u32 times;			/* that so much was had */

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	void (*then)(void) = meanwhile;

	if (watched && bytes == so_much)
		times++;
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

/* Several at once, with arguments of so many bytes, for which they have no room of their own. */
static void run_wide(struct fx *fx, u32 nr, u32 arg_len)
{
	struct arax_task_ext x = { .size = sizeof(x), .arg_len = (u16)arg_len };
	u64 tags[16];
	u32 i;

	memcpy(cl->region + cl->init.arena_offset, &x, sizeof(x));
	for (i = 0; i < nr; i++) {
		struct arax_task t = fx_marker(cl, i);

		t.opcode = ARAX_OP_CALL;
		t.flags = ARAX_TASK_EXT;
		fx_push(cl, &t);
	}
	ck_assert_int_eq(fx_submit(cl, nr), (int)nr);
	for (i = 0; i < nr; i++)
		tags[i] = fx_expect_task(fx, i);
	for (i = 0; i < nr; i++) {
		fx_commit(fx, tags[i], 0);
		fx_expect(cl, i, 0);
	}
}

/* What a place has had for a task is had once, also where others in its place need much more. */
START_TEST(room_is_kept)
{
	struct fx *fx = fx_new(NULL);
	u32 i, before;

	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	watched = fx->core;
	so_much = sizeof(struct core_room);
	times = 0;
	for (i = 0; i < 200; i++)
		run_wide(fx, 16, CORE_ROOM);
	before = times;
	ck_assert_uint_ge(before, 16);
	ck_assert_uint_le(before, cl->init.depth);
	for (i = 0; i < 200; i++)
		run_wide(fx, 1 + i % 16, i % 3 ? CORE_ROOM : 2000);
	ck_assert_uint_eq(times, before);
	/* As has one that is refused. */
	for (i = 0; i < 200; i++) {
		struct arax_task t = fx_marker(cl, 99);

		t.opcode = ARAX_OP_COPY;
		t.flags = ARAX_TASK_EXT;
		fx_push(cl, &t);
		ck_assert_int_eq(fx_submit(cl, 1), 1);
		fx_expect(cl, 99, -EINVAL);
		run_wide(fx, 16, CORE_ROOM);
	}
	ck_assert_uint_eq(times, before);
	watched = NULL;
	so_much = 0;
	ck_assert_uint_eq(under_lock, 0);
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
	tcase_add_test(tc, room_is_kept);
	suite_add_tcase(s, tc);
	return s;
}
