// SPDX-License-Identifier: MIT
/*
 * One task may reach a thousand points that calls wait for, and many tasks may end at once: all of
 * the points are reached, and never more under one hold of core->dispatch than a task or two have.
 */
#include "core_fixture.h"

#define REACHERS	48u
#define WAITS		(CORE_MAX_WAITERS / ARAX_WAIT_MAX)
/* One task's too many, and then one that fails with it. */
#define AT_MOST		(2 * CORE_MAX_WAITERS)

struct bench {
	struct fx *fx;
	struct fx_client *cl;
	struct fx_client *waiter;
};

static struct core_wait watches[REACHERS][WAITS];
static const u32 *reached;
static u32 seen, most, holds;

/* The linker leads the end of each hold to here, while somebody seems to wait for the lock. */
static struct core_lock *watched;
static void (*at_unlock)(void);

void __real_core_lock_wake(struct core_lock *l);
void __wrap_core_lock_wake(struct core_lock *l);

void __wrap_core_lock_wake(struct core_lock *l)
{
	if (l == watched)
		at_unlock();
	else
		__real_core_lock_wake(l);
}

void fx_watch_unlocks(struct core_lock *l, void (*then)(void))
{
	if (watched)
		watched->waiters = 0;
	watched = l;
	at_unlock = then;
	if (l)
		l->waiters = 1;
}

static void look(void)
{
	u32 n = *reached - seen;

	seen += n;
	most = n > most ? n : most;
	holds++;
}

static void watch_holds(const struct bench *b)
{
	reached = &b->waiter->c->reached;
	seen = *reached;
	most = 0;
	holds = 0;
	fx_watch_unlocks(&b->fx->core->dispatch, look);
}

/* A second context waits for the timeline of each task as often as it may. */
static void wait_for(struct bench *b, u32 timeline, struct core_wait *waits)
{
	struct arax_timeline_share s = { .handle = timeline };
	struct arax_wait a = { .flags = ARAX_WAIT_ALL, .count = ARAX_WAIT_MAX };
	u32 k;

	ck_assert_int_eq(core_timeline_export(b->cl->c, &s), 0);
	ck_assert_int_eq(core_timeline_import(b->waiter->c, &s), 0);
	for (k = 0; k < ARAX_WAIT_MAX; k++) {
		a.points[k].timeline = s.handle;
		a.points[k].value = 1;
	}
	for (k = 0; k < WAITS; k++)
		ck_assert_int_eq(core_wait_begin(b->waiter->c, &a, &waits[k]), 0);
}

/* Published, and not submitted. */
static void push(struct bench *b, u32 i, u32 opcode)
{
	struct arax_task_ext x = { .size = sizeof(x), .signal_value = 1 };
	struct arax_task t = fx_marker(b->cl, i);

	x.signal_timeline = fx_timeline(b->cl, 0);
	t.opcode = opcode;
	t.flags = ARAX_TASK_EXT;
	t.ext = i * (u32)sizeof(x);
	memcpy(b->cl->region + b->cl->init.arena_offset + t.ext, &x, sizeof(x));
	wait_for(b, x.signal_timeline, watches[i]);
	fx_push(b->cl, &t);
}

static struct bench set_up(u32 slots, bool attach, u32 opcode)
{
	struct core_params p = fx_params();
	struct bench b;
	u32 i;

	p.slots = slots;
	b.fx = fx_new(&p);
	b.cl = fx_client(b.fx, 1000, 2);
	b.waiter = fx_client(b.fx, 2000, 3);
	ck_assert_int_eq(fx_init(b.cl, 64, 128, 8192), 0);
	ck_assert_int_eq(fx_init(b.waiter, 16, 128, 0), 0);
	b.cl->queue = fx_queue(b.cl, ARAX_QUEUE_IN_ORDER);
	if (attach)
		ck_assert_int_eq(fx_attach(b.fx, 0), 0);
	for (i = 0; i < REACHERS; i++)
		push(&b, i, opcode);
	/* As if all of its calls slept. */
	core_atomic_add(&b.waiter->c->waiters, 1);
	return b;
}

/* All is reached, and who waits was woken when it was. */
static void tear_down(struct bench *b)
{
	u32 i, k, index;

	fx_watch_unlocks(NULL, NULL);
	ck_assert_uint_eq(seen, REACHERS * CORE_MAX_WAITERS);
	ck_assert_uint_le(most, AT_MOST);
	ck_assert_uint_ge(b->waiter->wakes_points, 1);
	ck_assert_uint_eq(b->waiter->c->reached_told, b->waiter->c->reached);
	core_atomic_sub_return(&b->waiter->c->waiters, 1);
	for (i = 0; i < REACHERS; i++)
		for (k = 0; k < WAITS; k++) {
			ck_assert_int_eq(core_wait_poll(&watches[i][k], &index), 0);
			core_wait_end(&watches[i][k]);
		}
	if (!b->cl->c->dead)
		fx_expect_none(b->cl);
	ck_assert_uint_eq(fx_used(b->fx->tenants[0], ARAX_RES_TASKS), 0);
	fx_release(b->waiter);
	fx_release(b->cl);
	fx_free(b->fx);
}

static void expect_all(struct bench *b, u32 from, s32 result)
{
	for (; from < REACHERS; from++)
		fx_expect(b->cl, from, result);
}

static void fetch_all(struct bench *b)
{
	struct arax_fetch f = { 0 };

	do {
		ck_assert_int_eq(core_fetch(b->fx->core, &f), 0);
	} while (f.ready && b->fx->head == b->fx->core->tail);
}

START_TEST(committed)
{
	struct bench b = set_up(64, true, ARAX_OP_MARKER);
	struct arax_commit c = { .count = REACHERS + 1 };
	struct arax_commit_entry *e = b.fx->core->commits;
	u32 i;

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	memset(e, 0, (REACHERS + 1) * sizeof(*e));
	for (i = 0; i < REACHERS; i++)
		/* The one in the middle is stale. */
		e[i < 20 ? i : i + 1].tag = fx_expect_task(b.fx, i);
	watch_holds(&b);
	ck_assert_int_eq(core_commit(b.fx->core, &c), 0);
	ck_assert_uint_eq(c.done, REACHERS + 1);
	ck_assert_uint_eq(c.stale, 1);
	expect_all(&b, 0, 0);
	tear_down(&b);
}
END_TEST

START_TEST(refused)
{
	struct bench b = set_up(64, true, 0xfff);

	watch_holds(&b);
	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	expect_all(&b, 0, -EOPNOTSUPP);
	tear_down(&b);
}
END_TEST

START_TEST(canceled)
{
	struct bench b = set_up(2, false, ARAX_OP_MARKER);
	struct arax_cancel c = { .flags = ARAX_CANCEL_QUEUE, .queue = b.cl->queue };

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	watch_holds(&b);
	ck_assert_int_eq(core_cancel(b.cl->c, &c), 0);
	ck_assert_uint_eq(c.nr_canceled, REACHERS);
	expect_all(&b, 0, -ECANCELED);
	tear_down(&b);
}
END_TEST

START_TEST(killed)
{
	struct bench b = set_up(2, false, ARAX_OP_MARKER);

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	watch_holds(&b);
	core_client_kill(b.cl->c, EPIPE);
	tear_down(&b);
}
END_TEST

/* By the mediator's fetches, behind one of theirs that has failed. */
START_TEST(failed)
{
	struct bench b = set_up(2, true, ARAX_OP_MARKER);

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	watch_holds(&b);
	fx_commit(b.fx, fx_expect_task(b.fx, 0), -EIO);
	fetch_all(&b);
	fx_expect(b.cl, 0, -EIO);
	expect_all(&b, 1, -ECANCELED);
	tear_down(&b);
}
END_TEST

START_TEST(expired)
{
	struct bench b = set_up(2, false, ARAX_OP_MARKER);

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	watch_holds(&b);
	core_expire(b.fx->core);
	expect_all(&b, 0, -EOWNERDEAD);
	tear_down(&b);
}
END_TEST

/* They had started: none of them runs again. */
START_TEST(settled)
{
	struct bench b = set_up(64, true, ARAX_OP_MARKER);
	u32 i;

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	for (i = 0; i < REACHERS; i++)
		fx_start(b.fx, fx_expect_task(b.fx, i));
	watch_holds(&b);
	fx_die(b.fx);
	expect_all(&b, 0, -EOWNERDEAD);
	tear_down(&b);
}
END_TEST

/* The mediator dies in the middle of a cancel, which is ended first. */
START_TEST(settled_canceled)
{
	struct bench b = set_up(2, true, ARAX_OP_MARKER);
	struct arax_cancel c = { .flags = ARAX_CANCEL_QUEUE };
	struct core_client *cl = b.cl->c;

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	fx_start(b.fx, fx_expect_task(b.fx, 0));
	cl->cancel = &c;
	cl->cancel_queue = core_handle_find(&cl->handles, CORE_QUEUE, b.cl->queue);
	clist_splice_tail(&cl->queued, &cl->exam);
	watch_holds(&b);
	fx_die(b.fx);
	ck_assert_uint_eq(cl->nr_canceled, REACHERS - 1);
	expect_all(&b, 1, -ECANCELED);
	fx_expect(b.cl, 0, -EOWNERDEAD);
	tear_down(&b);
}
END_TEST

START_TEST(taken_over)
{
	struct bench b = set_up(64, true, ARAX_OP_MARKER);

	ck_assert_int_eq(fx_submit(b.cl, REACHERS), REACHERS);
	core_detach(b.fx->core);
	watch_holds(&b);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_TAKEOVER), 0);
	expect_all(&b, 0, -EOWNERDEAD);
	core_mediator_gone(b.fx->core, b.fx->epoch - 1);
	tear_down(&b);
}
END_TEST

/* The last reference of each timeline is a call's, and with it go the eventfds that are armed on it. */
START_TEST(wait_ended)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct bench b = { .fx = fx, .cl = cl, .waiter = cl };
	struct arax_wait a = { .count = ARAX_WAIT_MAX };
	struct arax_timeline_eventfd e = { .value = 2 };
	struct core_wait w;
	u32 i, k;

	for (i = 0; i < ARAX_WAIT_MAX; i++) {
		a.points[i].timeline = fx_timeline(cl, 0);
		a.points[i].value = 1;
	}
	ck_assert_int_eq(core_wait_begin(cl->c, &a, &w), 0);
	for (i = 0; i < ARAX_WAIT_MAX; i++) {
		e.handle = a.points[i].timeline;
		for (k = 0; k < CORE_MAX_EVENTS; k++)
			ck_assert_int_eq(core_timeline_eventfd(cl->c, &e), 0);
		ck_assert_int_eq(core_timeline_destroy(cl->c, e.handle), 0);
	}
	ck_assert_uint_eq(fx->events_held, ARAX_WAIT_MAX * CORE_MAX_EVENTS);
	watch_holds(&b);
	core_wait_end(&w);
	fx_watch_unlocks(NULL, NULL);
	ck_assert_uint_eq(fx->events_held, 0);
	/* Besides those of the fixture, one for each eventfd. */
	holds -= ARAX_WAIT_MAX * CORE_MAX_EVENTS;
	ck_assert_uint_ge(holds, ARAX_WAIT_MAX * CORE_MAX_EVENTS /
				 (CORE_STEP_POINTS + CORE_MAX_EVENTS));
	fx_release(cl);
	fx_free(fx);
}
END_TEST

Suite *core_points_suite(void)
{
	Suite *s = suite_create("core points");
	TCase *tc = tcase_create("points");

	tcase_add_test(tc, committed);
	tcase_add_test(tc, refused);
	tcase_add_test(tc, canceled);
	tcase_add_test(tc, killed);
	tcase_add_test(tc, failed);
	tcase_add_test(tc, expired);
	tcase_add_test(tc, settled);
	tcase_add_test(tc, settled_canceled);
	tcase_add_test(tc, taken_over);
	tcase_add_test(tc, wait_ended);
	suite_add_tcase(s, tc);
	return s;
}
