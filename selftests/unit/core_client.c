// SPDX-License-Identifier: MIT
/* Contexts: init, death at any moment, queries; every counter back at zero. */
#include "core_fixture.h"

/*
 * The last reference to a buffer that the mediator has: a note is sent, and the
 * room in the ring must not be used to dispatch what is being dropped.
 */
START_TEST(kill_with_mediated_buffers)
{
	struct core_params p = fx_params();
	struct arax_buffer_get get = { 0 };
	struct core_buffer *buf;
	struct fx_client *cl;
	struct arax_task t;
	const struct arax_dispatch *d;
	struct fx *fx;
	u64 tag[4];
	u32 i, h;

	p.slots = 5;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 4; i++) {
		t = fx_marker(cl, i);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		tag[i] = fx_expect_task(fx, i);
	}
	for (i = 0; i < 8; i++) {
		h = fx_buffer(cl, 4096);
		buf = core_handle_find(&cl->c->handles, CORE_BUFFER, h);
		get.id = buf->id;
		ck_assert_int_eq(core_buffer_get(fx->core, &get), 0);
		fx_close_buffer(fx, buf);
		t = fx_copy(cl, 10 + i, h, h, 16);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		ck_assert_int_eq(core_buffer_destroy(cl->c, h), 0);
	}
	/* A slot comes free without anybody looking. */
	core_spin_lock(&fx->core->dispatch);
	fx->core->params.slots = 6;
	fx->core->slots = realloc(fx->core->slots, 6 * sizeof(*fx->core->slots));
	fx->core->slots[5] = (struct core_slot){ .gen = 1 };
	fx->core->slot_free = 5;
	core_spin_unlock(&fx->core->dispatch);
	core_client_kill(cl->c, EPIPE);
	while ((d = fx_next(fx)))
		ck_assert_uint_ne(d->type, ARAX_DISPATCH_TASK);
	for (i = 0; i < 4; i++)
		fx_commit(fx, tag[i], 0);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_client_suite(void)
{
	Suite *s = suite_create("core client");
	TCase *tc = tcase_create("client");

	tcase_add_test(tc, kill_with_mediated_buffers);
	suite_add_tcase(s, tc);
	return s;
}
