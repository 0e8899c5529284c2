// SPDX-License-Identifier: MIT
/* sched_outlook_test - what is said of what is to come in a program */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/outlook.h"
#include "daemon/sched/policy.h"

#define MS	1000000ull
#define QUICK	0
#define SLOW	1
#define TASKS	16384u

static struct sched *s;
static struct outlook *o;
static struct graph_node pool[TASKS];
static uint32_t used, look;
static uint64_t now;
static bool over[TASKS];
static bool quick_only[64];	/* kernels */

/* A task's followers are so many of the pool, from so many behind it on. */
static uint32_t behind[TASKS], apart[TASKS];

static bool may_run(void *arg, const struct graph_node *n, uint32_t device)
{
	return device == QUICK || !quick_only[n->d.kernel];
}

static uint64_t tasks_live(void *arg, const struct graph_node *n)
{
	uint64_t live = 0;

	for (uint32_t i = 0; i < used; i++)
		live += !over[i];
	return live;
}

static void followers(void *arg, const struct graph_node *n,
		      void (*each)(void *to, const struct graph_node *n, uint32_t waits), void *to)
{
	uint32_t at = (uint32_t)(n - pool);

	for (uint32_t i = 0; i < behind[at]; i++)
		if (at + apart[at] + i < used)
			each(to, n + apart[at] + i, 1);
}

static bool look_back(void *arg, const struct graph_node *node, bool anew,
		      bool (*each)(void *to, struct graph_node *n), void *to)
{
	bool more = true;

	if (anew)
		look = used;
	while (look && more)
		if (!over[--look])
			more = each(to, &pool[look]);
	return !look;
}

static void setup(void)
{
	s = sched_create(&(struct sched_params){
		.ops = {
			.can_run = may_run, .live = tasks_live, .followers = followers,
			.look_back = look_back,
		},
	});
	ck_assert_ptr_nonnull(s);
	o = outlook_make();
	ck_assert_ptr_nonnull(o);
	used = 0;
	look = 0;
	now = 1000 * MS;
	memset(over, 0, sizeof(over));
	memset(quick_only, 0, sizeof(quick_only));
	memset(behind, 0, sizeof(behind));
	memset(apart, 0, sizeof(apart));
	ck_assert_int_eq(sched_device_set(s, QUICK, 1), 0);
	ck_assert_int_eq(sched_device_set(s, SLOW, 1), 0);
}

static void teardown(void)
{
	outlook_free(o);
	sched_destroy(s);
}

/* Submitted, with so many of those that come right after it behind it. */
static struct graph_node *task(uint32_t kernel, uint32_t nr_behind)
{
	struct graph_node *n = &pool[used];

	ck_assert_uint_lt(used, TASKS);
	behind[used] = nr_behind;
	apart[used] = 1;
	*n = (struct graph_node){ .seq = ++used };
	n->d.tenant = 1;
	n->d.context = 1;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.kernel = kernel;
	n->d.grid[0] = 64;
	return n;
}

static void tasks(uint32_t kernel, uint32_t nr)
{
	while (nr--)
		task(kernel, 0);
}

static void learn(uint32_t kernel, uint32_t device, uint64_t ns)
{
	struct graph_node n = { .d = { .opcode = ARAX_OP_LAUNCH, .kernel = kernel } };

	for (int i = 0; i < SCHED_SURE_RUNS; i++)
		sched_observe(s, sched_kernel_key(&n), device, 64, ns);
}

/* @slow_ns: 0: it can't run there. */
static void costs(uint32_t kernel, uint64_t quick_ns, uint64_t slow_ns)
{
	learn(kernel, QUICK, quick_ns);
	if (slow_ns)
		learn(kernel, SLOW, slow_ns);
	else
		quick_only[kernel] = true;
}

/* Until it is known: so many times.  0: it is not. */
static int look_until_known(void)
{
	for (int i = 1; i < 100; i++)
		if (outlook_look(s, o, &pool[0]))
			return i;
	return 0;
}

/* It runs on the quick device. */
static struct graph_node *begun(uint32_t kernel, uint32_t nr_behind)
{
	struct graph_node *n = task(kernel, nr_behind);

	ck_assert_int_eq(sched_push(s, n, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, QUICK);
	return n;
}

static bool is_left(const struct graph_node *n)
{
	struct leaving of = { .found = 0 };

	return outlook_leaves(s, o, &of, n, now);
}

static double tail_ms(const struct graph_node *n)
{
	double ns = -1;

	return outlook_tail_ns(s, o, n, &ns) ? ns / MS : -1;
}

static double left_ms(void)
{
	return outlook_left_ns(s, o, now) / MS;
}

/* ------------------------------------------------------------------ */
/* Ways                                                                */

START_TEST(ways_are_the_longest)
{
	costs(1, MS, 0);
	costs(2, 10 * MS, 0);
	/* 1 and 2 behind the first one, and one behind each of these. */
	task(1, 2);
	apart[0] = 1;
	task(1, 1);
	apart[1] = 2;
	task(2, 1);
	apart[2] = 2;
	task(2, 0);
	task(1, 0);
	ck_assert_int_eq(look_until_known(), 1);
	ck_assert_double_eq_tol(tail_ms(&pool[0]), 11, 0.001);
	ck_assert_double_eq_tol(tail_ms(&pool[1]), 10, 0.001);
	ck_assert_double_eq_tol(tail_ms(&pool[2]), 1, 0.001);
	ck_assert_double_eq_tol(tail_ms(&pool[3]), 0, 0.001);
}
END_TEST

/* Each layer waits for all of the one before; each task for the 60 before it. */
START_TEST(deep_and_wide_graphs_are_known)
{
	static const struct {
		uint32_t nr, wide, lines, length;
	} graphs[] = { { 9000, 8, 8, 9000 / 8 }, { 9000, 60, 60, 9000 / 60 }, { 9000, 1, 60, 9000 } };
	int looks;

	costs(1, MS, 0);
	for (uint32_t i = 0; i < graphs[_i].nr; i++) {
		task(1, graphs[_i].lines);
		apart[i] = graphs[_i].wide - i % graphs[_i].wide;
	}
	looks = look_until_known();
	ck_assert_int_ge(looks, 1);
	/* All lines, of which each call looks at some. */
	ck_assert_int_le(looks, (int)(graphs[_i].nr * (graphs[_i].lines + 1) / 8192) + 1);
	ck_assert_double_eq_tol(tail_ms(&pool[0]), graphs[_i].length - 1, 1);
}
END_TEST

/* Nor is any of it taken for known before all is. */
START_TEST(too_many_kinds_say_nothing)
{
	costs(1, MS, 20 * MS);
	/* The last one is found last. */
	for (uint32_t i = 0; i < OUTLOOK_KINDS; i++)
		task(i + 2, 0);
	tasks(1, 100);
	ck_assert_int_eq(look_until_known(), 0);
	ck_assert(!outlook_is_known(o));
	ck_assert_double_lt(tail_ms(&pool[used - 1]), 0);
	ck_assert(!is_left(&pool[used - 1]));
	/* One less is not too many. */
	over[0] = true;
	for (uint32_t i = 0; i < 200; i++)
		task(1, 0);
	ck_assert_int_eq(look_until_known(), 1);
}
END_TEST

START_TEST(nothing_is_said_too_early)
{
	costs(1, 10 * MS, 15 * MS);
	costs(2, MS, 20 * MS);
	for (uint32_t i = 0; i < 9000; i++)
		task(i % 100 ? 2 : 1, 0);
	ck_assert(!outlook_look(s, o, &pool[0]));
	ck_assert_double_lt(tail_ms(&pool[used - 100]), 0);
	ck_assert(!is_left(&pool[used - 100]));
	ck_assert_int_eq(look_until_known(), 1);
	ck_assert_double_ge(tail_ms(&pool[used - 100]), 0);
	ck_assert(is_left(&pool[used - 100]));
}
END_TEST

/* A window of 64 tasks: as old ones end new ones come. */
START_TEST(what_has_come_since_is_looked_at)
{
	costs(1, MS, 0);
	tasks(1, 64);
	ck_assert_int_eq(look_until_known(), 1);
	for (int i = 0; i < 17; i++) {
		ck_assert(outlook_look(s, o, &pool[63]));
		ck_assert_double_lt(i ? tail_ms(&pool[63 + i]) : -1, 0);
		outlook_left(s, o, &pool[i], 0);
		over[i] = true;
		task(1, 0);
	}
	ck_assert(outlook_look(s, o, &pool[63]));
	ck_assert_double_ge(tail_ms(&pool[used - 1]), 0);
	ck_assert_double_eq_tol(left_ms(), 64, 0.01);
}
END_TEST

/* ------------------------------------------------------------------ */
/* What is left                                                        */

/*
 * 300 short ones wait for one that runs for 100 ms, and six of 10 ms are ready: what waits is not
 * like what is ready.
 */
START_TEST(what_waits_is_as_it_is)
{
	costs(1, 100 * MS, 0);
	costs(2, 10 * MS, 0);
	costs(3, MS / 100, 0);
	begun(1, 300);
	tasks(3, 300);
	tasks(2, 6);
	ck_assert_int_ge(look_until_known(), 1);
	ck_assert_double_eq_tol(left_ms(), 100 + 60 + 3, 0.01);
}
END_TEST

/* Of one kind nothing was known at first. */
START_TEST(sides_go_by_what_is_known_now)
{
	costs(1, MS, MS);
	tasks(1, 10);
	tasks(2, 10);
	ck_assert_int_eq(look_until_known(), 1);
	costs(2, MS, 9 * MS);
	ck_assert(outlook_is_quick(s, o, QUICK, now));
	ck_assert(!outlook_is_quick(s, o, SLOW, now));
}
END_TEST

/* It was ten times as quick as the others. */
START_TEST(what_was_lost_is_nobodys_measure)
{
	ck_assert_int_eq(sched_device_set(s, 2, 1), 0);
	costs(1, MS, 3 * MS);
	learn(1, 2, MS / 10);
	tasks(1, 10);
	ck_assert_int_eq(look_until_known(), 1);
	ck_assert(!outlook_is_quick(s, o, QUICK, now));
	ck_assert_int_eq(sched_device_set(s, 2, 0), 0);
	now++;
	ck_assert(outlook_is_quick(s, o, QUICK, now));
	ck_assert(!outlook_is_quick(s, o, SLOW, now));
	ck_assert_double_eq_tol(outlook_left_ns(s, o, now) / MS, 7.5, 0.01);
}
END_TEST

/* Now and then. */
START_TEST(sides_are_found_again)
{
	costs(1, MS, 3 * MS / 2);
	tasks(1, 300);
	ck_assert_int_eq(look_until_known(), 1);
	ck_assert(outlook_is_quick(s, o, SLOW, now));
	for (int i = 0; i < 10; i++)
		learn(1, SLOW, 20 * MS);
	now++;
	ck_assert(outlook_is_quick(s, o, SLOW, now));
	for (int i = 0; i < 64; i++)
		outlook_left(s, o, &pool[i], 0);
	ck_assert(!outlook_is_quick(s, o, SLOW, now));
}
END_TEST

/* Two at once, and a chain of six: that is longer than all work. */
START_TEST(ways_that_have_begun_are_left)
{
	struct graph_node *first;

	ck_assert_int_eq(sched_device_set(s, QUICK, 2), 0);
	costs(1, 100 * MS, 0);
	costs(2, 10 * MS, 0);
	first = begun(1, 1);
	for (int i = 0; i < 6; i++)
		task(2, i < 5);
	ck_assert_int_eq(look_until_known(), 1);
	ck_assert_double_eq_tol(left_ms(), 160, 0.01);
	now += 40 * MS;
	ck_assert_double_eq_tol(left_ms(), 120, 0.01);
	/* It goes on so when the next one is placed. */
	now += 60 * MS;
	sched_finish(s, first, 100 * MS, true);
	outlook_left(s, o, &pool[1], now + 15 * MS);
	ck_assert_double_eq_tol(left_ms(), 65, 0.01);
	/* Not when one has ended. */
	outlook_left(s, o, &pool[2], 0);
	ck_assert_double_eq_tol(left_ms(), 65, 0.01);
}
END_TEST

/* Behind the one that runs another is booked: when the first one ends its lane doesn't say. */
START_TEST(who_is_before_others_ends_sooner)
{
	struct graph_node *booked;

	ck_assert_int_eq(sched_device_set(s, QUICK, 2), 0);
	ck_assert_int_eq(sched_device_ahead(s, QUICK, 1), 0);
	costs(1, 4 * MS, 0);
	costs(2, 10 * MS, 0);
	begun(1, 1);
	task(2, 0);
	booked = task(1, 0);
	ck_assert_int_eq(sched_book(s, booked, QUICK, 0, now), 0);
	ck_assert_int_eq(look_until_known(), 1);
	/* 4 and 10 ms; or 8 ms, and 10 on both lanes. */
	ck_assert_double_le(left_ms(), 14.01);
}
END_TEST

/* The slow one takes 15 ms; @quick short ones are left for the quick one, and @tail behind. */
static bool is_one_left(uint32_t quick, uint32_t tail)
{
	struct graph_node *n;

	costs(1, MS, 60 * MS);
	costs(2, 10 * MS, 15 * MS);
	n = task(2, tail > 0);
	for (uint32_t i = 0; i < tail; i++)
		task(1, i + 1 < tail);
	tasks(1, quick);
	ck_assert_int_eq(look_until_known(), 1);
	return is_left(n);
}

/* All that is left takes 17 ms, of which one in ten may be an error. */
START_TEST(who_would_end_late_is_not_left)
{
	static const struct {
		uint32_t quick, tail;
		bool left;
	} cases[] = { { 17, 0, true }, { 16, 0, false }, { 7, 10, false }, { 27, 10, true } };

	ck_assert_int_eq(is_one_left(cases[_i].quick, cases[_i].tail), cases[_i].left);
}
END_TEST

/* It is done with what it has first. */
START_TEST(slow_devices_have_to_be_waited_for)
{
	struct graph_node *n;

	ck_assert(is_one_left(82, 0));
	n = task(1, 0);
	ck_assert_int_eq(sched_device_set(s, QUICK, 0), 0);
	ck_assert_int_eq(sched_push(s, n, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, SLOW);
	ck_assert_int_eq(sched_device_set(s, QUICK, 1), 0);
	/* 60 and 15 ms, of 82. */
	now++;
	ck_assert(!is_left(&pool[0]));
	now += 50 * MS;
	ck_assert(is_left(&pool[0]));
}
END_TEST

/* Of these the quick one should do the most. */
START_TEST(what_both_should_do_is_not_left)
{
	costs(1, MS, 60 * MS);
	costs(2, 10 * MS, 15 * MS);
	tasks(2, 20);
	tasks(1, 5);
	ck_assert_int_eq(look_until_known(), 1);
	ck_assert_double_gt(outlook_slow_part(s, o, &pool[0], now), 0.1);
	ck_assert_double_lt(outlook_slow_part(s, o, &pool[0], now), 0.9);
	ck_assert_double_lt(outlook_slow_part(s, o, &pool[20], now), 0.001);
	ck_assert(!is_left(&pool[0]));
}
END_TEST

/* The quick device, and what is left is told. */
static uint32_t to_the_quick(struct sched *sched, const struct graph_node *node, uint64_t now_ns)
{
	return when_idle(sched, QUICK);
}

static void left(struct sched *sched, const struct graph_node *node, uint64_t end_ns)
{
	outlook_left(sched, o, node, end_ns);
}

static const struct sched_policy telling = {
	.name = "telling", .choose = to_the_quick, .left = left, .may_ask = true,
};

/* Whatever becomes of a task, it is to come no more; and is counted so once. */
START_TEST(what_has_left_is_not_left)
{
	struct graph_node *first, *booked, *n;

	s->policy = &telling;
	ck_assert_int_eq(sched_device_ahead(s, QUICK, 1), 0);
	costs(1, MS, 0);
	first = task(1, 0);
	booked = task(1, 0);
	tasks(1, 8);
	ck_assert_int_eq(look_until_known(), 1);
	ck_assert_double_eq_tol(left_ms(), 10, 0.001);
	/* One runs, one is booked behind it: what these take is left, and not counted twice. */
	ck_assert_int_eq(sched_push(s, first, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), first);
	ck_assert_double_eq_tol(left_ms(), 10, 0.001);
	ck_assert_int_eq(sched_book(s, booked, QUICK, 0, now), 0);
	ck_assert_double_eq_tol(left_ms(), 10, 0.001);
	/* One was canceled in the queue, one before; and one ran past the queue. */
	n = &pool[2];
	ck_assert_int_eq(sched_push(s, n, now), 0);
	sched_remove(s, n);
	sched_ended(s, n);
	ck_assert_double_eq_tol(left_ms(), 9, 0.001);
	sched_ended(s, &pool[3]);
	ck_assert_double_eq_tol(left_ms(), 8, 0.001);
	sched_charge(s, &pool[4], QUICK, MS, false);
	ck_assert_double_eq_tol(left_ms(), 7, 0.001);
	/* Stopped, and goes on. */
	now += 2 * MS;
	sched_finish(s, booked, MS, true);
	ck_assert_int_ge(sched_put_back(s, first, MS, MS, MS, SCHED_ROOM_NONE, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), first);
	sched_finish(s, first, MS, false);
	ck_assert_double_eq_tol(left_ms(), 5, 0.001);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_outlook");
	TCase *t = tcase_create("all");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, ways_are_the_longest);
	tcase_add_loop_test(t, deep_and_wide_graphs_are_known, 0, 3);
	tcase_add_test(t, too_many_kinds_say_nothing);
	tcase_add_test(t, nothing_is_said_too_early);
	tcase_add_test(t, what_has_come_since_is_looked_at);
	tcase_add_test(t, what_waits_is_as_it_is);
	tcase_add_test(t, sides_go_by_what_is_known_now);
	tcase_add_test(t, what_was_lost_is_nobodys_measure);
	tcase_add_test(t, sides_are_found_again);
	tcase_add_test(t, ways_that_have_begun_are_left);
	tcase_add_test(t, who_is_before_others_ends_sooner);
	tcase_add_loop_test(t, who_would_end_late_is_not_left, 0, 4);
	tcase_add_test(t, slow_devices_have_to_be_waited_for);
	tcase_add_test(t, what_both_should_do_is_not_left);
	tcase_add_test(t, what_has_left_is_not_left);
	suite_add_tcase(suite, t);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
