// SPDX-License-Identifier: MIT
/* The mediator comes, dies, is replaced: who keeps what. */
#include "core_fixture.h"

START_TEST(attach_errors)
{
	struct fx *fx = fx_new(NULL);

	ck_assert_int_eq(fx_attach(fx, 4), -EOPNOTSUPP);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_FLAGS), -EINVAL);
	fx->fail_mediator = true;
	ck_assert_int_eq(fx_attach(fx, 0), -ENOMEM);
	fx->fail_mediator = false;
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_uint_eq(fx->epoch, 1);
	ck_assert_int_eq(fx_attach(fx, 0), -EBUSY);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_TAKEOVER), -EBUSY);
	core_detach(fx->core);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), -EBUSY);
	ck_assert_int_eq(fx_attach(fx, 0), -EBUSY);
	fx_gone(fx);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx->epoch, 2);
	fx_free(fx);
}
END_TEST

/* Who takes over has all that it needs before the old one loses its seat. */
START_TEST(prepared_before_a_takeover)
{
	struct arax_attach a = { .size = sizeof(a) };
	struct fx *fx = fx_new(NULL);
	struct core_attachment at;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(core_attach_prepare(fx->core, &a, &at), -EBUSY);
	a.flags = ARAX_ATTACH_TAKEOVER;
	fx->fail_mediator = true;
	ck_assert_int_eq(core_attach_prepare(fx->core, &a, &at), -ENOMEM);
	ck_assert_ptr_null(at.ring);
	ck_assert_ptr_null(at.shared);
	fx->fail_mediator = false;
	ck_assert_int_eq(core_attach_prepare(fx->core, &a, &at), 0);
	/* So far nothing has happened to the old one. */
	ck_assert_uint_eq(fx->core->state, CORE_LIVE);
	ck_assert_int_eq(core_attach_with(fx->core, &a, &at), -EBUSY);
	core_detach(fx->core);
	ck_assert_int_eq(core_attach_with(fx->core, &a, &at), 0);
	ck_assert_ptr_null(at.ring);
	ck_assert_uint_eq(a.epoch, 2);
	fx_gone(fx);
	fx_free(fx);
}
END_TEST

/* 16 bits of epoch; 0 means that there is none. */
START_TEST(epoch_wrap)
{
	struct fx *fx = fx_new(NULL);

	fx->core->epoch = 0xffff;
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_uint_eq(fx->epoch, 1);
	fx_free(fx);
}
END_TEST

/* The word in the region, for contexts made before, during and after. */
START_TEST(epoch_word)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *a = fx_client_ready(fx), *b, *c;
	struct arax_info info = { .size = sizeof(info) };

	ck_assert_uint_eq(((struct arax_ring_ctl *)a->region)->epoch, 0);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_uint_eq(((struct arax_ring_ctl *)a->region)->epoch, 1);
	b = fx_client_ready(fx);
	ck_assert_uint_eq(((struct arax_ring_ctl *)b->region)->epoch, 1);
	ck_assert_int_eq(fx_call(fx, b, ARAX_NR_INFO, (void *)&info), 0);
	ck_assert_uint_eq(info.epoch, 1);
	fx_die(fx);
	ck_assert_uint_eq(((struct arax_ring_ctl *)b->region)->epoch, 0);
	c = fx_client_ready(fx);
	ck_assert_uint_eq(((struct arax_ring_ctl *)c->region)->epoch, 0);
	ck_assert_int_eq(fx_call(fx, c, ARAX_NR_INFO, (void *)&info), 0);
	ck_assert_uint_eq(info.epoch, 0);
	fx_release(a);
	fx_release(b);
	fx_release(c);
	fx_free(fx);
}
END_TEST

/*
 * Not started: replayed in order.  Started: only if idempotent.  A corrupt
 * state word counts as started.  Each in a queue of its own.
 */
START_TEST(recover_matrix)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t;
	u64 tag[6];
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 6; i++) {
		t = fx_marker(cl, i);
		t.queue = fx_queue(cl, 0);
		t.flags = i & 1 ? ARAX_TASK_IDEMPOTENT : 0;
		ck_assert_int_eq(fx_send(cl, &t), 1);
		tag[i] = fx_expect_task(fx, i);
	}
	fx_start(fx, tag[2]);
	fx_start(fx, tag[3]);
	fx->core->states[ARAX_TAG_SLOT(tag[4])] = 0xdeadbeef;
	core_detach(fx->core);
	fx_expect_none(cl);	/* its DMA may still write */
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_TASKS), 6);
	fx_gone(fx);
	fx_expect(cl, 2, -EOWNERDEAD);
	fx_expect(cl, 4, -EOWNERDEAD);
	fx_expect_none(cl);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx_commit(fx, tag[0], 0), 1);	/* the old tag */
	fx_commit(fx, fx_expect_task(fx, 0), 0);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	fx_commit(fx, fx_expect_task(fx, 3), 0);
	fx_commit(fx, fx_expect_task(fx, 5), 0);
	for (i = 0; i < 6; i++)
		if (i != 2 && i != 4)
			fx_expect(cl, i, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* What waited behind a started one in its queue is canceled with it. */
START_TEST(recover_dependents)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_completion e;
	struct arax_task t;
	u64 tag = 0;
	u32 i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 3; i++) {
		t = fx_marker(cl, i);
		if (i == 2)
			t.queue = fx_queue(cl, 0);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		if (!i)
			tag = fx_expect_task(fx, i);
	}
	fx_start(fx, tag);
	fx_die(fx);
	fx_expect(cl, 0, -EOWNERDEAD);
	e = fx_expect(cl, 1, -ECANCELED);
	ck_assert_uint_eq(e.origin, tag);
	fx_expect_none(cl);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 2, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Queued while nobody is attached; kept, or failed by an attach that doesn't recover. */
START_TEST(queued_meanwhile)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t;

	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	fx_expect(cl, 1, -EOWNERDEAD);
	fx_die(fx);
	t = fx_marker(cl, 2);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 2, 0);
	fx_die(fx);
	t = fx_marker(cl, 3);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	core_expire(fx->core);
	fx_expect(cl, 3, -EOWNERDEAD);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/*
 * Whoever is queued while nobody is attached asks for the time to run in which somebody
 * has to come, however often it was over before; but for the first mediator all wait.
 */
START_TEST(recovery_begins_anew)
{
	struct core_params few = fx_params();
	struct arax_task t, bad;
	struct fx_client *cl;
	struct fx *fx;
	u32 i;

	few.slots = 4;
	fx = fx_new(&few);
	cl = fx_client_ready(fx);
	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx->recoveries, 0);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 1, 0);
	/* More than the mediator takes at once: they wait, but there is one. */
	for (i = 0; i < 16; i++) {
		t = fx_marker(cl, i);
		fx_push(cl, &t);
	}
	ck_assert_int_eq(fx_submit(cl, 16), 16);
	ck_assert_uint_eq(fx_drain(fx), 16);
	for (i = 0; i < 16; i++)
		fx_expect(cl, i, 0);
	ck_assert_uint_eq(fx->recoveries, 0);

	/* It is quiesced: whoever finds it gone lets the time run. */
	core_detach(fx->core);
	t = fx_marker(cl, 2);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx->recoveries, 0);
	fx_gone(fx);
	core_expire(fx->core);
	fx_expect(cl, 2, -EOWNERDEAD);
	for (i = 1; i < 4; i++) {
		t = fx_marker(cl, 2 + i);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		ck_assert_uint_eq(fx->recoveries, i);
		fx_expect_none(cl);
		core_expire(fx->core);
		fx_expect(cl, 2 + i, -EOWNERDEAD);
	}
	/* A refused task waits for nobody. */
	bad = fx_marker(cl, 6);
	bad.queue = 0xbad;
	ck_assert_int_eq(fx_send(cl, &bad), 1);
	fx_expect(cl, 6, -EBADF);
	ck_assert_uint_eq(fx->recoveries, 3);
	/* One that comes in time has them. */
	t = fx_marker(cl, 7);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx->recoveries, 4);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	core_expire(fx->core);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 7, 0);
	ck_assert_uint_eq(fx->recoveries, 4);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A stuck mediator's tasks fail at once, what they use stays held till it is gone. */
START_TEST(takeover)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 a = fx_buffer(cl, 4096);
	struct arax_task t;
	u64 tag;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_copy(cl, 1, a, a, 8);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	core_detach(fx->core);
	t = fx_marker(cl, 2);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_TAKEOVER), 0);
	fx_expect(cl, 1, -EOWNERDEAD);
	fx_expect(cl, 2, -EOWNERDEAD);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 0);
	ck_assert_uint_eq(fx_commit(fx, tag, 0), 1);
	ck_assert_int_eq(core_buffer_destroy(cl->c, a), 0);
	ck_assert_uint_eq(fx->buffers, 1);
	t = fx_marker(cl, 3);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 3, 0);
	fx_release(cl);
	ck_assert_uint_eq(fx->buffers, 1);
	core_mediator_gone(fx->core, fx->epoch - 1);	/* the old one */
	ck_assert_uint_eq(fx->buffers, 0);
	ck_assert_uint_eq(fx->core->state, CORE_LIVE);
	fx_free(fx);
}
END_TEST

/* A full window that a stuck mediator holds is the client's again, with the next one. */
START_TEST(takeover_with_a_full_window)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t;
	u32 i, round;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 16; i++) {
			t = fx_marker(cl, i);
			ck_assert_int_eq(fx_send(cl, &t), 1);
			fx_expect_task(fx, i);
		}
		core_detach(fx->core);
		ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_TAKEOVER), 0);
		for (i = 0; i < 16; i++)
			fx_expect(cl, i, -EOWNERDEAD);
		ck_assert_uint_eq(cl->c->nr_more_tasks, cl->c->nr_zombies);
	}
	t = fx_marker(cl, 99);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 99, 0);
	/* They come back one after the other, and are all of use. */
	for (round = 1; round < 4; round++) {
		core_mediator_gone(fx->core, round);
		for (i = 0; i < 16; i++) {
			t = fx_marker(cl, i);
			fx_push(cl, &t);
		}
		ck_assert_int_eq(fx_submit(cl, 16), 16);
		ck_assert_uint_eq(fx_drain(fx), 16);
		for (i = 0; i < 16; i++)
			fx_expect(cl, i, 0);
	}
	/* There are as many as that, and another one that is stuck needs no more. */
	for (i = 0; i < 16; i++) {
		t = fx_marker(cl, i);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		fx_expect_task(fx, i);
	}
	core_detach(fx->core);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_TAKEOVER), 0);
	ck_assert_uint_eq(cl->c->nr_more_tasks, 48);
	for (i = 0; i < 16; i++)
		fx_expect(cl, i, -EOWNERDEAD);
	core_mediator_gone(fx->core, 4);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Each mediator is settled by itself: one that is stuck holds up no other. */
START_TEST(generations)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t;
	u32 buf[3], i;

	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(fx_attach(fx, i ? ARAX_ATTACH_TAKEOVER : 0), 0);
		buf[i] = fx_buffer(cl, 4096);
		t = fx_copy(cl, i, buf[i], buf[i], 8);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		fx_expect_task(fx, i);
		ck_assert_int_eq(core_buffer_destroy(cl->c, buf[i]), 0);
		core_detach(fx->core);
	}
	/* Two are stuck, and the third is gone: what it had is replayed. */
	fx_expect(cl, 0, -EOWNERDEAD);
	fx_expect(cl, 1, -EOWNERDEAD);
	fx_expect_none(cl);
	ck_assert(!core_mediator_gone(fx->core, 77));
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), -EBUSY);
	ck_assert(core_mediator_gone(fx->core, 3));
	ck_assert(!core_mediator_gone(fx->core, 3));
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx->buffers, 3);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 2, 0);
	ck_assert_uint_eq(fx->buffers, 2);
	/* The older ones, in any order. */
	ck_assert(!core_mediator_gone(fx->core, 2));
	ck_assert_uint_eq(fx->buffers, 1);
	ck_assert(!core_mediator_gone(fx->core, 1));
	ck_assert_uint_eq(fx->buffers, 0);
	ck_assert_uint_eq(fx->core->state, CORE_LIVE);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Notes come before other clients' tasks: who asks again and again is told of once. */
START_TEST(a_cancel_is_told_once)
{
	struct arax_cancel c = { .user_data = 1 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t;
	u64 tag;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	for (int i = 0; i < 3; i++) {
		const struct arax_dispatch *d;

		ck_assert_int_eq(core_cancel(cl->c, &c), 0);
		d = fx_next(fx);
		ck_assert(i ? !d : d && d->type == ARAX_DISPATCH_CANCEL && d->tag == tag);
	}
	fx_commit(fx, tag, 0);
	fx_expect(cl, 1, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/*
 * Between the moments in which a client is marked dead and its queue is dropped others may put its
 * tasks back among those that wait.
 */
START_TEST(the_dead_send_nothing)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct core_garbage g;
	struct arax_task t;

	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert(core_has_queued(cl->c));
	cl->c->dead = EPIPE;
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	core_garbage_init(&g);
	core_spin_lock(&fx->core->dispatch);
	core_dispatch_flush(fx->core, &g);
	core_unlock_collect(fx->core, &g);
	ck_assert_ptr_null(fx_next(fx));
	ck_assert(core_has_queued(cl->c));
	cl->c->dead = 0;
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A cancel that the old mediator never answered isn't forgotten by the replay. */
START_TEST(cancel_survives)
{
	struct arax_cancel c = { .user_data = 1 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	const struct arax_dispatch *d;
	struct arax_task t;
	u64 tag;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_marker(cl, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	ck_assert_int_eq(core_cancel(cl->c, &c), 0);
	ck_assert_uint_eq(c.nr_canceled, 0);
	d = fx_next(fx);
	ck_assert_uint_eq(d->type, ARAX_DISPATCH_CANCEL);
	ck_assert_uint_eq(d->tag, tag);
	t = fx_marker(cl, 2);
	t.queue = fx_queue(cl, 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	core_detach(fx->core);
	c.user_data = 2;	/* and one that nobody was there to be told of */
	ck_assert_int_eq(core_cancel(cl->c, &c), 0);
	fx_gone(fx);
	fx_expect(cl, 1, -ECANCELED);
	fx_expect(cl, 2, -ECANCELED);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_ptr_null(fx_next(fx));
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* What the mediator keeps in pages of its own counts beside the client's buffers. */
START_TEST(kept_memory)
{
	struct arax_charge c = { .resource = ARAX_RES_MEMORY, .delta = 1000 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	uint64_t before;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	before = fx_used(fx->tenants[0], ARAX_RES_MEMORY);
	c.context = cl->init.context;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_MEMORY), before + 1000);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_DEVICE_MEMORY), 0);
	/* Neither is given back as the other, nor what buffers are charged. */
	c.delta = -1001;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EINVAL);
	c.delta = -1;
	c.resource = ARAX_RES_DEVICE_MEMORY;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EINVAL);
	c.delta = INT64_MAX;
	c.resource = ARAX_RES_MEMORY;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EDQUOT);
	c.delta = -400;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_MEMORY), before + 600);
	core_detach(fx->core);
	fx_gone(fx);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_MEMORY), before);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(device_memory)
{
	struct arax_charge c = { .resource = ARAX_RES_DEVICE_MEMORY, .delta = 1000 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -ENOENT);
	c.context = cl->init.context;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_DEVICE_MEMORY), 1000);
	c.delta = -1001;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EINVAL);
	c.delta = INT64_MIN;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EINVAL);
	c.delta = INT64_MAX;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), 0);
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EDQUOT);	/* 64 bits are full */
	c.delta = -INT64_MAX;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), 0);
	c.delta = -400;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), 0);
	c.pad = 1;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EINVAL);
	c.pad = 0;
	c.resource = ARAX_RES_TASKS;
	ck_assert_int_eq(core_mediator_charge(fx->core, &c), -EOPNOTSUPP);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_DEVICE_MEMORY), 600);
	core_detach(fx->core);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_DEVICE_MEMORY), 600);
	fx_gone(fx);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_DEVICE_MEMORY), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

static u32 query_flags(struct fx_client *cl, u32 h)
{
	struct arax_buffer_query q = { .handle = h };

	ck_assert_int_eq(core_buffer_query(cl->c, &q), 0);
	return q.flags;
}

/* Bytes that were only on a device are lost with the mediator, till rewritten. */
START_TEST(lost_bytes)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 a = fx_buffer(cl, 8192), b = fx_buffer(cl, 8192);
	struct arax_task t;

	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_copy(cl, 1, a, b, 4096);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit_dirty(fx, fx_expect_task(fx, 1), 2);
	fx_expect(cl, 1, 0);
	ck_assert_uint_eq(query_flags(cl, b), 0);
	/* Accepted while the bytes were there; not started. */
	t = fx_copy(cl, 2, b, a, 8);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_copy(cl, 3, b, a, 8);
	t.ranges[0].offset = 4096;
	t.ranges[1].offset = 100;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_die(fx);
	ck_assert_uint_eq(query_flags(cl, b), ARAX_BUFFER_IS_LOST);
	ck_assert_uint_eq(query_flags(cl, a), 0);
	fx_expect(cl, 2, -EIO);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 3, 0);
	t = fx_copy(cl, 4, b, a, 1);
	t.ranges[0].offset = 4095;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_expect(cl, 4, -EIO);
	t = fx_copy(cl, 5, a, b, 4095);		/* all but the last byte */
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 5, 0);
	ck_assert_uint_eq(query_flags(cl, b), ARAX_BUFFER_IS_LOST);
	t = fx_copy(cl, 6, b, a, 4095);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 6, 0);
	t = fx_copy(cl, 7, a, b, 4096);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx_drain(fx), 1);
	fx_expect(cl, 7, 0);
	ck_assert_uint_eq(query_flags(cl, b), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Written back by a later task before the death: not lost. */
START_TEST(dirty_then_clean)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 a = fx_buffer(cl, 8192);
	struct arax_task t = fx_copy(cl, 1, a, a, 4096);

	t.ranges[0].offset = 4096;
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit_dirty(fx, fx_expect_task(fx, 1), ~0u);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit_dirty(fx, fx_expect_task(fx, 1), 0);
	fx_die(fx);
	ck_assert_uint_eq(query_flags(cl, a), 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Dead or gone contexts between detach and gone. */
START_TEST(client_dies_meanwhile)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *k = fx_client_ready(fx);
	u32 a = fx_buffer(cl, 4096);
	struct arax_task t;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_copy(cl, 1, a, a, 8);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = fx_marker(k, 2);
	ck_assert_int_eq(fx_send(k, &t), 1);
	core_detach(fx->core);
	core_client_kill(k->c, EPIPE);
	fx_release(cl);
	ck_assert_uint_eq(fx->buffers, 1);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 2);
	fx_gone(fx);
	ck_assert_uint_eq(fx->buffers, 0);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_TASKS), 0);
	ck_assert_uint_eq(fx_used(fx->tenants[2], ARAX_RES_CONTEXTS), 1);
	fx_release(k);
	fx_free(fx);
}
END_TEST

START_TEST(fetch)
{
	struct arax_fetch f = { 0 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t = fx_marker(cl, 1);

	ck_assert_int_eq(core_fetch(fx->core, &f), -ENOTCONN);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	f.flags = 1;
	ck_assert_int_eq(core_fetch(fx->core, &f), -EOPNOTSUPP);
	f.flags = 0;
	f.pad = 1;
	ck_assert_int_eq(core_fetch(fx->core, &f), -EINVAL);
	f.pad = 0;
	ck_assert_int_eq(core_fetch(fx->core, &f), 0);
	ck_assert_uint_eq(f.ready, 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx->mediator_wakes, 0);
	ck_assert_int_eq(core_fetch(fx->core, &f), 0);
	ck_assert_uint_eq(f.ready, 1);
	fx->core->page->need_wakeup = 1;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(fx->mediator_wakes, 1);
	ck_assert_uint_eq(fx_drain(fx), 2);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_mediator_suite(void)
{
	Suite *s = suite_create("core mediator");
	TCase *tc = tcase_create("mediator");

	tcase_add_test(tc, attach_errors);
	tcase_add_test(tc, prepared_before_a_takeover);
	tcase_add_test(tc, epoch_wrap);
	tcase_add_test(tc, epoch_word);
	tcase_add_test(tc, recover_matrix);
	tcase_add_test(tc, recover_dependents);
	tcase_add_test(tc, queued_meanwhile);
	tcase_add_test(tc, recovery_begins_anew);
	tcase_add_test(tc, takeover);
	tcase_add_test(tc, takeover_with_a_full_window);
	tcase_add_test(tc, generations);
	tcase_add_test(tc, a_cancel_is_told_once);
	tcase_add_test(tc, the_dead_send_nothing);
	tcase_add_test(tc, cancel_survives);
	tcase_add_test(tc, device_memory);
	tcase_add_test(tc, kept_memory);
	tcase_add_test(tc, lost_bytes);
	tcase_add_test(tc, dirty_then_clean);
	tcase_add_test(tc, client_dies_meanwhile);
	tcase_add_test(tc, fetch);
	suite_add_tcase(s, tc);
	return s;
}
