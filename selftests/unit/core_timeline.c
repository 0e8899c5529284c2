// SPDX-License-Identifier: MIT
/* Timelines: hosts, tasks and eventfds wait; values and errors arrive. */
#include "core_fixture.h"

static int advance(struct fx_client *cl, u32 h, u64 value, s32 error)
{
	union core_args a = { 0 };

	a.timeline_point.handle = h;
	a.timeline_point.value = value;
	a.timeline_point.error = error;
	return fx_call(cl->fx, cl, ARAX_NR_TIMELINE_ADVANCE, &a);
}

static struct arax_timeline_point query(struct fx_client *cl, u32 h)
{
	union core_args a = { 0 };

	a.timeline_point.handle = h;
	ck_assert_int_eq(fx_call(cl->fx, cl, ARAX_NR_TIMELINE_QUERY, &a), 0);
	return a.timeline_point;
}

static int arm(struct fx_client *cl, u32 h, u64 value, int fd)
{
	union core_args a = { 0 };

	a.timeline_eventfd.handle = h;
	a.timeline_eventfd.value = value;
	a.timeline_eventfd.fd = fd;
	return fx_call(cl->fx, cl, ARAX_NR_TIMELINE_EVENTFD, &a);
}

/* A marker with an extension, at a place of the arena of its own. */
static struct arax_task ext_task(struct fx_client *cl, u32 n, u32 wait, u64 wait_value, u32 signal,
				 u64 signal_value)
{
	struct arax_task_ext x = {
		.size = sizeof(x), .wait_timeline = wait, .wait_value = wait_value,
		.signal_timeline = signal, .signal_value = signal_value,
	};
	struct arax_task t = fx_marker(cl, n);

	t.flags = ARAX_TASK_EXT;
	t.ext = n % 16 * (u32)sizeof(x);
	memcpy(cl->region + cl->init.arena_offset + t.ext, &x, sizeof(x));
	return t;
}

START_TEST(host)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 tl = fx_timeline(cl, 5);

	ck_assert_uint_eq(query(cl, tl).value, 5);
	ck_assert_int_eq(advance(cl, tl, 4, 0), -EINVAL);
	ck_assert_int_eq(advance(cl, tl, 5, 0), 0);
	ck_assert_int_eq(advance(cl, tl, 9, 0), 0);
	ck_assert_int_eq(advance(cl, tl, 9, 1), -EINVAL);
	ck_assert_int_eq(advance(cl, tl, 9, -4096), -EINVAL);
	ck_assert_int_eq(advance(cl, tl, 10, -EIO), 0);
	ck_assert_int_eq(advance(cl, tl, 11, -EPERM), 0);
	ck_assert_int_eq(query(cl, tl).error, -EIO);	/* the first one stays */
	ck_assert_uint_eq(query(cl, tl).value, 11);
	a.timeline_point.handle = tl;
	a.timeline_point.pad = 1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_TIMELINE_QUERY, &a), -EINVAL);
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_TIMELINE_ADVANCE, &a), -EINVAL);
	ck_assert_int_eq(advance(cl, cl->queue, 9, 0), -EBADF);
	a = (union core_args){ .handle = { .handle = tl } };
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_TIMELINE_DESTROY, &a), 0);
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_TIMELINE_DESTROY, &a), -EBADF);
	ck_assert_int_eq(advance(cl, tl, 20, 0), -EBADF);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(wait_any_all)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_wait a = { .count = 2 };
	struct core_wait any, all;
	u32 x = fx_timeline(cl, 0), y = fx_timeline(cl, 0), index = 9;

	a.points[0].timeline = x;
	a.points[0].value = 2;
	a.points[1].timeline = y;
	a.points[1].value = 3;
	core_atomic_add(&cl->c->waiters, 1);
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &any), 0);
	a.flags = ARAX_WAIT_ALL;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &all), 0);
	ck_assert_int_eq(core_wait_poll(&any, &index), CORE_WAIT_PENDING);
	ck_assert_int_eq(advance(cl, y, 2, 0), 0);
	ck_assert_uint_eq(cl->wakes, 0);
	ck_assert_int_eq(advance(cl, y, 3, 0), 0);
	ck_assert_uint_eq(cl->wakes, 1);
	ck_assert_int_eq(core_wait_poll(&any, &index), 0);
	ck_assert_uint_eq(index, 1);
	ck_assert_int_eq(core_wait_poll(&all, &index), CORE_WAIT_PENDING);
	ck_assert_int_eq(advance(cl, x, 0, -EIO), 0);	/* an error counts as reached */
	ck_assert_int_eq(core_wait_poll(&all, &index), 0);
	core_wait_end(&any);
	core_wait_end(&all);
	core_atomic_add(&cl->c->waiters, -1);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Who waits for much has it looked at each time that anything of his ends: that keeps nobody. */
START_TEST(wait_takes_no_lock)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_wait a = { .count = 1 };
	struct core_wait w;
	u32 index = 9;

	a.points[0].timeline = fx_timeline(cl, 0);
	a.points[0].value = 1;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &w), 0);
	core_spin_lock(&fx->core->dispatch);
	ck_assert_int_eq(core_wait_poll(&w, &index), CORE_WAIT_PENDING);
	core_spin_unlock(&fx->core->dispatch);
	ck_assert_int_eq(advance(cl, a.points[0].timeline, 1, 0), 0);
	core_spin_lock(&fx->core->dispatch);
	ck_assert_int_eq(core_wait_poll(&w, &index), 0);
	core_spin_unlock(&fx->core->dispatch);
	ck_assert_uint_eq(index, 0);
	core_wait_end(&w);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(wait_errors)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_wait a = { .flags = 2, .count = 1 };
	static struct core_wait w[CORE_MAX_WAITERS / ARAX_WAIT_MAX + 1];
	u32 i, x = fx_timeline(cl, 0), n = CORE_MAX_WAITERS / ARAX_WAIT_MAX;

	ck_assert_int_eq(core_wait_begin(cl->c, &a, w), -EOPNOTSUPP);
	a.flags = 0;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, w), -EBADF);
	a.count = 0;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, w), -EINVAL);
	a.count = ARAX_WAIT_MAX + 1;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, w), -EINVAL);
	a.count = ARAX_WAIT_MAX;
	for (i = 0; i < ARAX_WAIT_MAX; i++) {
		a.points[i].timeline = x;
		a.points[i].value = 1;
	}
	a.points[15].pad = 1;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, w), -EINVAL);
	a.points[15].pad = 0;
	a.points[15].timeline = 0;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, w), -EBADF);
	a.points[15].timeline = x;
	for (i = 0; i < n; i++)
		ck_assert_int_eq(core_wait_begin(cl->c, &a, &w[i]), 0);
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &w[n]), -ENOSPC);
	core_wait_end(&w[0]);
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &w[0]), 0);
	for (i = 0; i < n; i++)
		core_wait_end(&w[i]);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A call that waits for a point is woken when that is reached, and by nothing else that ends. */
START_TEST(wait_among_others)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_wait a = { .count = 1 };
	u32 tl = fx_timeline(cl, 0), index, i, round;
	struct core_wait w;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	a.points[0].timeline = tl;
	for (round = 1; round <= 2; round++) {
		struct arax_task t = ext_task(cl, 9, 0, 0, tl, round);

		a.points[0].value = round;
		ck_assert_int_eq(core_wait_begin(cl->c, &a, &w), 0);
		core_atomic_add(&cl->c->waiters, 1);
		cl->wakes = cl->wakes_points = 0;
		for (i = 0; i < 3; i++) {
			struct arax_task other = fx_marker(cl, i);

			ck_assert_int_eq(fx_send(cl, &other), 1);
			fx_commit(fx, fx_expect_task(fx, i), 0);
			fx_expect(cl, i, 0);
			ck_assert_int_eq(core_wait_poll(&w, &index), CORE_WAIT_PENDING);
		}
		ck_assert_uint_eq(cl->wakes, 0);
		ck_assert_int_eq(fx_send(cl, &t), 1);
		fx_commit(fx, fx_expect_task(fx, 9), 0);
		fx_expect(cl, 9, 0);
		ck_assert_uint_eq(cl->wakes, 1);
		ck_assert_uint_eq(cl->wakes_points, 1);
		ck_assert_int_eq(core_wait_poll(&w, &index), 0);
		core_wait_end(&w);
		core_atomic_add(&cl->c->waiters, -1);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* The same where wakes are deferred: it is told once, also if something else has ended in between. */
START_TEST(wait_of_deferred)
{
	struct core_params p = fx_params();
	struct arax_wait a = { .count = 1 };
	struct arax_task t;
	struct fx_client *cl;
	struct core_wait w;
	struct fx *fx;
	u32 index;

	p.defers_wakes = true;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	a.points[0].timeline = fx_timeline(cl, 0);
	a.points[0].value = 1;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &w), 0);
	core_atomic_add(&cl->c->waiters, 1);
	cl->wakes = cl->wakes_points = 0;
	t = ext_task(cl, 1, 0, 0, a.points[0].timeline, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	ck_assert_uint_eq(cl->wakes, 0);
	ck_assert_int_eq(core_wait_poll(&w, &index), 0);
	t = fx_marker(cl, 2);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 2), 0);
	core_wake_deferred(fx->core);
	ck_assert_uint_eq(cl->wakes, 1);
	ck_assert_uint_eq(cl->wakes_points, 1);
	core_wait_end(&w);
	core_atomic_add(&cl->c->waiters, -1);
	fx_expect(cl, 1, 0);
	fx_expect(cl, 2, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Whose task it is that reaches the point makes no difference; and who signals doesn't wait for it. */
START_TEST(wait_for_others)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *peer = fx_client_ready(fx);
	struct arax_timeline_share s = { .handle = fx_timeline(cl, 0) };
	struct arax_wait a = { .count = 1 };
	u32 mine = s.handle, index;
	struct arax_task t;
	struct core_wait w;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(core_timeline_export(cl->c, &s), 0);
	ck_assert_int_eq(core_timeline_import(peer->c, &s), 0);
	a.points[0].timeline = s.handle;
	a.points[0].value = 1;
	ck_assert_int_eq(core_wait_begin(peer->c, &a, &w), 0);
	core_atomic_add(&peer->c->waiters, 1);
	core_atomic_add(&cl->c->waiters, 1);	/* for something else */
	cl->wakes = peer->wakes = peer->wakes_points = 0;
	t = ext_task(cl, 1, 0, 0, mine, 1);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	ck_assert_uint_eq(peer->wakes, 1);
	ck_assert_uint_eq(peer->wakes_points, 1);
	ck_assert_uint_eq(cl->wakes, 0);
	ck_assert_int_eq(core_wait_poll(&w, &index), 0);
	core_wait_end(&w);
	core_atomic_add(&peer->c->waiters, -1);
	core_atomic_add(&cl->c->waiters, -1);
	fx_expect(cl, 1, 0);
	fx_release(peer);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Reached after the call has begun and before it sleeps: nobody is woken, and it doesn't. */
START_TEST(wait_not_yet_asleep)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_wait a = { .count = 1 };
	struct core_wait w;
	u32 index, value;

	a.points[0].timeline = fx_timeline(cl, 0);
	for (value = 1; value <= 2; value++) {
		a.points[0].value = value;
		ck_assert_int_eq(core_wait_begin(cl->c, &a, &w), 0);
		cl->wakes = 0;
		ck_assert_int_eq(advance(cl, a.points[0].timeline, value, 0), 0);
		ck_assert_uint_eq(cl->wakes, 0);
		core_atomic_add(&cl->c->waiters, 1);
		ck_assert_int_eq(core_wait_poll(&w, &index), 0);
		core_wait_end(&w);
		core_atomic_add(&cl->c->waiters, -1);
	}
	/* And what nobody was told of then doesn't hide the next one. */
	a.points[0].value = value;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &w), 0);
	core_atomic_add(&cl->c->waiters, 1);
	ck_assert_int_eq(advance(cl, a.points[0].timeline, value, 0), 0);
	ck_assert_uint_eq(cl->wakes_points, 1);
	ck_assert_int_eq(core_wait_poll(&w, &index), 0);
	core_wait_end(&w);
	core_atomic_add(&cl->c->waiters, -1);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A killed context's sleepers wake with its error; a destroyed handle's go on. */
START_TEST(wait_and_die)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_wait a = { .count = 1 };
	struct core_wait w;
	u32 index;

	a.points[0].timeline = fx_timeline(cl, 0);
	a.points[0].value = 1;
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &w), 0);
	ck_assert_int_eq(core_timeline_destroy(cl->c, a.points[0].timeline), 0);
	ck_assert_int_eq(core_wait_poll(&w, &index), CORE_WAIT_PENDING);
	core_atomic_add(&cl->c->waiters, 1);
	core_client_kill(cl->c, EPIPE);
	ck_assert_uint_eq(cl->wakes, 1);
	ck_assert_int_eq(core_wait_poll(&w, &index), -EPIPE);
	core_wait_end(&w);
	core_atomic_add(&cl->c->waiters, -1);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(eventfds)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 i, tl = fx_timeline(cl, 3);

	ck_assert_int_eq(arm(cl, tl, 3, 2), 0);		/* reached already */
	ck_assert_uint_eq(fx->events[2], 1);
	ck_assert_uint_eq(fx->events_held, 0);
	ck_assert_int_eq(arm(cl, tl, 4, 2), 0);
	ck_assert_int_eq(arm(cl, tl, 6, 4), 0);
	ck_assert_int_eq(arm(cl, tl, 6, -1), -EBADF);
	ck_assert_int_eq(arm(cl, tl, 6, 3), -EINVAL);	/* no eventfd */
	ck_assert_int_eq(arm(cl, 0, 6, 4), -EBADF);
	ck_assert_uint_eq(fx->events_held, 2);
	a.timeline_eventfd.pad = 1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_TIMELINE_EVENTFD, &a), -EINVAL);
	ck_assert_int_eq(advance(cl, tl, 5, 0), 0);
	ck_assert_uint_eq(fx->events[2], 2);
	ck_assert_int_eq(advance(cl, tl, 5, 0), 0);
	ck_assert_uint_eq(fx->events[2], 2);		/* once */
	ck_assert_uint_eq(fx->events_held, 1);
	for (i = 1; i < CORE_MAX_EVENTS; i++)
		ck_assert_int_eq(arm(cl, tl, 100, 6), 0);
	ck_assert_int_eq(arm(cl, tl, 100, 6), -ENOSPC);
	ck_assert_uint_eq(fx->events_held, CORE_MAX_EVENTS);
	ck_assert_int_eq(advance(cl, tl, 5, -EIO), 0);	/* the error signals all */
	ck_assert_uint_eq(fx->events[4], 1);
	ck_assert_uint_eq(fx->events[6], CORE_MAX_EVENTS - 1);
	ck_assert_int_eq(arm(cl, fx_timeline(cl, 0), 1, 8), 0);
	fx_release(cl);		/* dies unsignalled */
	ck_assert_uint_eq(fx->events[8], 0);
	ck_assert_uint_eq(fx->events_held, 0);
	fx_free(fx);
}
END_TEST

/* Dispatched with BLOCKED, released by a note; reached before: not blocked. */
START_TEST(tasks_wait)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	const struct arax_dispatch *d;
	u32 i, tl = fx_timeline(cl, 1);
	struct arax_task t;
	u64 tag[6];

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 1; i < 6; i++) {
		t = ext_task(cl, i, tl, 6 - i, 0, 0);	/* 5, 4, 3, 2, 1 */
		ck_assert_int_eq(fx_send(cl, &t), 1);
		d = fx_next(fx);
		ck_assert_uint_eq(d->flags, i < 5 ? ARAX_DISPATCH_BLOCKED : 0);
		tag[i] = d->tag;
	}
	fx_commit(fx, tag[3], -ETIMEDOUT);		/* gives up while blocked */
	fx_expect(cl, 3, -ETIMEDOUT);
	ck_assert_int_eq(advance(cl, tl, 4, 0), 0);
	for (i = 0; i < 2; i++) {
		d = fx_next(fx);
		ck_assert_uint_eq(d->type, ARAX_DISPATCH_UNBLOCK);
		ck_assert_uint_eq(d->tag, tag[4 - 2 * i]);	/* 2 before 4 */
		ck_assert_int_eq(d->error, 0);
	}
	ck_assert_ptr_null(fx_next(fx));
	ck_assert_int_eq(advance(cl, tl, 4, -EIO), 0);
	d = fx_next(fx);
	ck_assert_uint_eq(d->type, ARAX_DISPATCH_UNBLOCK);
	ck_assert_uint_eq(d->tag, tag[1]);
	ck_assert_int_eq(d->error, -EIO);
	t = ext_task(cl, 6, tl, 100, 0, 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	d = fx_next(fx);
	ck_assert_uint_eq(d->flags, 0);
	ck_assert_int_eq(d->error, -EIO);
	fx_commit(fx, d->tag, -ECANCELED);
	for (i = 1; i < 6; i++)
		if (i != 3)
			fx_commit(fx, tag[i], 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Reached while the task waits in the core: it goes out unblocked, no note. */
START_TEST(reached_in_queue)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 tl = fx_timeline(cl, 0);
	struct arax_task t = ext_task(cl, 1, tl, 1, 0, 0);
	const struct arax_dispatch *d;

	ck_assert_int_eq(fx_send(cl, &t), 1);
	t = ext_task(cl, 2, tl, 2, 0, 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_int_eq(advance(cl, tl, 1, 0), 0);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	d = fx_next(fx);
	ck_assert_uint_eq(d->flags, 0);
	d = fx_next(fx);
	ck_assert_uint_eq(d->flags, ARAX_DISPATCH_BLOCKED);
	/* Replayed while blocked: blocked again. */
	fx_die(fx);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	fx_commit(fx, fx_next(fx)->tag, 0);
	d = fx_next(fx);
	ck_assert_uint_eq(d->flags, ARAX_DISPATCH_BLOCKED);
	core_detach(fx->core);
	ck_assert_int_eq(advance(cl, tl, 2, 0), 0);
	fx_gone(fx);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	d = fx_next(fx);
	ck_assert_uint_eq(d->type, ARAX_DISPATCH_TASK);
	ck_assert_uint_eq(d->flags, 0);
	fx_commit(fx, d->tag, 0);
	ck_assert_ptr_null(fx_next(fx));
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A success, a failure, a refusal and a death each signal. */
START_TEST(tasks_signal)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *peer = fx_client_ready(fx);
	struct arax_timeline_share s = { 0 };
	u32 a = fx_timeline(cl, 0), b = fx_timeline(cl, 0), c = fx_timeline(cl, 0), tl, imported;
	struct arax_task t;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = ext_task(cl, 1, 0, 0, a, 7);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 1), 0);
	ck_assert_uint_eq(query(cl, a).value, 7);
	ck_assert_int_eq(query(cl, a).error, 0);
	t = ext_task(cl, 2, 0, 0, b, 7);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_commit(fx, fx_expect_task(fx, 2), -EFAULT);
	ck_assert_uint_eq(query(cl, b).value, 7);
	ck_assert_int_eq(query(cl, b).error, -EFAULT);
	t = ext_task(cl, 3, 0, 0, c, 7);
	t.opcode = ARAX_OP_LAUNCH;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	ck_assert_uint_eq(query(cl, c).value, 7);
	ck_assert_int_eq(query(cl, c).error, -ENOENT);
	/* Another context learns of our death. */
	tl = fx_timeline(cl, 0);
	s.handle = tl;
	ck_assert_int_eq(core_timeline_export(cl->c, &s), 0);
	ck_assert_int_eq(core_timeline_import(peer->c, &s), 0);
	imported = s.handle;
	fx_die(fx);
	t = ext_task(cl, 4, 0, 0, tl, 3);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_release(cl);
	ck_assert_uint_eq(query(peer, imported).value, 3);
	ck_assert_int_eq(query(peer, imported).error, -ECANCELED);
	s.pad = 1;
	ck_assert_int_eq(core_timeline_export(peer->c, &s), -EINVAL);
	ck_assert_int_eq(core_timeline_import(peer->c, &s), -EINVAL);
	s.pad = 0;
	s.handle = 0;
	ck_assert_int_eq(core_timeline_export(peer->c, &s), -EBADF);
	s.fd = 50;
	ck_assert_int_eq(core_timeline_import(peer->c, &s), -EBADF);
	fx_release(peer);
	fx_free(fx);
}
END_TEST

/* Many tasks in an order that a list would hate; each is released at its value. */
START_TEST(heap)
{
	enum { N = 500 };
	struct cheap n[N] = { 0 }, *root = NULL;
	bool in[N] = { false };
	u32 i, round, have = 0, seed = 12345;

	for (round = 0; round < 20000; round++) {
		seed = seed * 1664525 + 1013904223;
		i = (seed >> 8) % N;
		if (!in[i]) {
			cheap_insert(&root, &n[i], seed >> 24);
			have++;
		} else if (seed >> 31) {
			cheap_remove(&root, &n[i]);
			have--;
		} else {
			struct cheap *top = cheap_first(root);
			u32 k;

			for (k = 0; k < N; k++)
				if (in[k] && n[k].key < top->key)
					ck_abort_msg("not the smallest");
			i = (u32)(top - n);
			cheap_remove(&root, top);
			have--;
		}
		in[i] = !in[i];
	}
	for (i = 0; root; i++)
		cheap_remove(&root, root);
	ck_assert_uint_eq(i, have);
}
END_TEST

/* A timeline lives on with others: who armed on it and is gone takes no place of theirs. */
START_TEST(eventfds_of_who_is_gone)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *gone = fx_client_ready(fx);
	struct arax_timeline_share s = { .handle = fx_timeline(cl, 0) };
	u32 i, tl = s.handle;

	ck_assert_int_eq(core_timeline_export(cl->c, &s), 0);
	ck_assert_int_eq(core_timeline_import(gone->c, &s), 0);
	ck_assert_int_eq(arm(cl, tl, 7, 2), 0);
	for (i = 1; i < CORE_MAX_EVENTS; i++)
		ck_assert_int_eq(arm(gone, s.handle, 1 + i % 9, 4), 0);
	ck_assert_int_eq(arm(cl, tl, 1, 2), -ENOSPC);
	/* Some are reached before: what is let go of is the rest. */
	ck_assert_int_eq(advance(cl, tl, 1, 0), 0);
	ck_assert_uint_eq(fx->events[4], CORE_MAX_EVENTS / 9);
	fx_release(gone);
	ck_assert_uint_eq(fx->events_held, 1);
	for (i = 1; i < CORE_MAX_EVENTS; i++)
		ck_assert_int_eq(arm(cl, tl, 7, 2), 0);
	ck_assert_int_eq(arm(cl, tl, 7, 2), -ENOSPC);
	ck_assert_int_eq(advance(cl, tl, 9, 0), 0);
	ck_assert_uint_eq(fx->events[2], CORE_MAX_EVENTS);
	ck_assert_uint_eq(fx->events[4], CORE_MAX_EVENTS / 9);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* It keeps its descriptor, and can't let go of them itself. */
START_TEST(eventfds_of_who_is_killed)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *dead = fx_client_ready(fx);
	struct arax_timeline_share s = { .handle = fx_timeline(cl, 0) };
	u32 i, tl = s.handle;

	ck_assert_int_eq(core_timeline_export(cl->c, &s), 0);
	ck_assert_int_eq(core_timeline_import(dead->c, &s), 0);
	for (i = 0; i < CORE_MAX_EVENTS; i++)
		ck_assert_int_eq(arm(dead, s.handle, 5, 4), 0);
	ck_assert_int_eq(arm(cl, tl, 5, 2), -ENOSPC);
	ck_assert_int_eq(core_context_kill(fx->core, dead->c->id), 0);
	ck_assert_uint_eq(fx->events_held, 0);
	ck_assert_int_lt(arm(dead, s.handle, 5, 4), 0);
	for (i = 0; i < CORE_MAX_EVENTS; i++)
		ck_assert_int_eq(arm(cl, tl, 5, 2), 0);
	ck_assert_int_eq(advance(cl, tl, 5, 0), 0);
	ck_assert_uint_eq(fx->events[2], CORE_MAX_EVENTS);
	ck_assert_uint_eq(fx->events[4], 0);
	fx_release(dead);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_timeline_suite(void)
{
	Suite *s = suite_create("core timeline");
	TCase *tc = tcase_create("timeline");

	tcase_add_test(tc, host);
	tcase_add_test(tc, wait_any_all);
	tcase_add_test(tc, wait_takes_no_lock);
	tcase_add_test(tc, wait_errors);
	tcase_add_test(tc, wait_among_others);
	tcase_add_test(tc, wait_of_deferred);
	tcase_add_test(tc, wait_for_others);
	tcase_add_test(tc, wait_not_yet_asleep);
	tcase_add_test(tc, wait_and_die);
	tcase_add_test(tc, eventfds);
	tcase_add_test(tc, eventfds_of_who_is_gone);
	tcase_add_test(tc, eventfds_of_who_is_killed);
	tcase_add_test(tc, tasks_wait);
	tcase_add_test(tc, reached_in_queue);
	tcase_add_test(tc, tasks_signal);
	tcase_add_test(tc, heap);
	suite_add_tcase(s, tc);
	return s;
}
