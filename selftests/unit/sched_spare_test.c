// SPDX-License-Identifier: MIT
/* sched_spare_test - what eft gives to a device that all of the next tasks would rather not have */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/sched.h"

#define MS	1000000ull
#define QUICK	0
#define SLOW	1
#define OTHER	2

static struct sched *s;
static struct graph_node pool[1024];
static struct arax_dispatch_range range;
static unsigned int used;
static uint64_t now;

/* The hooks' answers. */
static uint64_t transfer[3], way_ns, live;
static uint32_t forbidden;	/* kernel that SLOW can't run */
static uint32_t asked;		/* how often whether one can */

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	asked++;
	return device != SLOW || n->d.kernel != forbidden;
}

static uint64_t transfer_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return transfer[device];
}

static void way(void *arg, const struct graph_node *n, uint32_t device, struct sched_way *w)
{
	*w = (struct sched_way){ .all_ns = n->d.context == 7 ? way_ns : 0 };
}

static uint64_t tasks_live(void *arg, const struct graph_node *n)
{
	return live;
}

/* One that was stopped on a device that is lost, if there is to @stop one. */
static struct graph_node *stopped;
static bool stop;

/* A task's followers are the next ones of the pool: so many. */
static uint32_t behind[1024];

static void followers(void *arg, const struct graph_node *n,
		      void (*each)(void *to, const struct graph_node *n, uint32_t waits), void *to)
{
	uint32_t at = (uint32_t)(n - pool);

	for (uint32_t i = 1; i <= behind[at]; i++)
		each(to, n + i, 1);
}

/* What has ended, or never was submitted; and where the next look back begins. */
static bool over[1024];
static uint32_t look;

static bool look_back(void *arg, const struct graph_node *node, bool anew,
		      bool (*each)(void *to, struct graph_node *n), void *to)
{
	bool more = true;

	if (anew)
		look = used;
	while (look && more) {
		look--;
		if (!over[look] && pool[look].d.context == node->d.context)
			more = each(to, &pool[look]);
	}
	return !look;
}

static void make(bool graph)
{
	s = sched_create(&(struct sched_params){
		.ops = {
			.can_run = can_run, .transfer_ns = transfer_ns, .way = way, .live = tasks_live,
			.followers = graph ? followers : NULL,
			.look_back = graph ? look_back : NULL,
		},
	});
	ck_assert_ptr_nonnull(s);
}

static void setup(void)
{
	make(false);
	memset(behind, 0, sizeof(behind));
	memset(over, 0, sizeof(over));
	look = 0;
	now = 1000 * MS;
	used = 0;
	way_ns = 0;
	live = 0;
	forbidden = 0;
	for (int i = 0; i < 3; i++)
		transfer[i] = 0;
	range = (struct arax_dispatch_range){ .length = 1000, .count = 1 };
	ck_assert_int_eq(sched_device_set(s, QUICK, 1), 0);
	ck_assert_int_eq(sched_device_set(s, SLOW, 1), 0);
}

static void teardown(void)
{
	sched_destroy(s);
}

static struct graph_node *task(uint64_t tenant, uint32_t kernel, int priority)
{
	struct graph_node *n = &pool[used];

	ck_assert_uint_lt(used, sizeof(pool) / sizeof(pool[0]));
	*n = (struct graph_node){ .seq = ++used, .ranges = &range };
	n->d.tenant = tenant;
	n->d.context = (uint32_t)tenant;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.kernel = kernel;
	n->d.priority = priority;
	n->d.grid[0] = 64;
	n->d.nr_ranges = 1;
	return n;
}

static struct graph_node *push(uint64_t tenant, uint32_t kernel, int priority)
{
	struct graph_node *n = task(tenant, kernel, priority);

	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

static void push_many(int count)
{
	while (count--)
		push(1, 1, 0);
}

/* Returns the task before them. */
static struct graph_node *push_many_of(uint32_t kernel, int count)
{
	struct graph_node *n = &pool[used - 1];

	while (count--)
		push(1, kernel, 0);
	return n;
}

/* Each device has run it often enough to be believed. */
static void learn(uint32_t kernel, uint64_t quick_ns, uint64_t slow_ns)
{
	struct graph_node *n = task(1, kernel, 0);

	over[n - pool] = true;
	for (int i = 0; i < 40; i++) {
		sched_observe(s, sched_kernel_key(n), QUICK, 64, quick_ns);
		sched_observe(s, sched_kernel_key(n), SLOW, 64, slow_ns);
		sched_observe(s, sched_kernel_key(n), OTHER, 64, quick_ns);
	}
}

static void finish(struct graph_node *n, uint64_t run_ns)
{
	sched_finish(s, n, run_ns, true);
	over[n - pool] = true;
}

/* The quick device has something to do. */
static void busy(void)
{
	struct graph_node *n = push(1, 1, 0);

	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, QUICK);
}

/* Kernel 1: 1 ms and 20 ms. */
START_TEST(the_last_of_many_is_taken)
{
	struct graph_node *n;

	learn(1, MS, 20 * MS);
	busy();
	/* The last of 19 is done after 19 ms. */
	push_many(19);
	ck_assert_ptr_null(sched_pick(s, now));
	/* With three more there is one that would be later, but for the last ones' own sake. */
	push_many(3);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, &pool[used - 1]);
	ck_assert_uint_eq(n->device, SLOW);
	/* Those before it go on in their order. */
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, &pool[1], MS, true);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, &pool[2]);
	ck_assert_uint_eq(n->device, QUICK);
}
END_TEST

/* A device more halves what is waited for. */
START_TEST(all_that_are_at_work_count)
{
	ck_assert_int_eq(sched_device_set(s, OTHER, 1), 0);
	learn(1, MS, 20 * MS);
	push(1, 1, 0);
	push(1, 1, 0);
	ck_assert_ptr_nonnull(sched_pick(s, now));
	ck_assert_ptr_nonnull(sched_pick(s, now));
	push_many(30);
	ck_assert_ptr_null(sched_pick(s, now));
	push_many(12);
	ck_assert_ptr_nonnull(sched_pick(s, now));
}
END_TEST

/* Of two kinds that would not be later the one that is slower by less, though not the last. */
START_TEST(the_least_behind_is_taken)
{
	struct graph_node *n, *m;

	learn(1, MS, 20 * MS);
	learn(2, MS, 10 * MS);
	busy();
	push_many(12);
	m = push(1, 2, 0);
	push_many(12);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, m);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* It has 2 tasks before it, not 32. */
START_TEST(the_first_is_left_alone)
{
	struct graph_node *n;

	learn(1, MS, 20 * MS);
	learn(2, MS, 10 * MS);
	busy();
	push(1, 2, -5);
	push(1, 2, -5);
	push(1, 2, -5);
	push_many(30);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, &pool[used - 1]);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

START_TEST(what_it_cannot_run_is_left)
{
	struct graph_node *n;

	learn(1, MS, 20 * MS);
	learn(2, MS, 2 * MS);
	forbidden = 2;
	busy();
	push_many(30);
	n = push_many_of(2, 30);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, SLOW);
	forbidden = 1;
	sched_finish(s, n, 20 * MS, true);
	now += 2 * MS;
	for (int i = 0; i < 30; i++) {
		n = sched_pick(s, now);
		ck_assert(!n || n->d.kernel == 2);
	}
}
END_TEST

START_TEST(the_way_counts)
{
	learn(1, MS, 20 * MS);
	busy();
	push_many(30);
	/* 20 + 15 ms; and then more on its way than at work, however many wait. */
	transfer[SLOW] = 15 * MS;
	ck_assert_ptr_null(sched_pick(s, now));
	push_many(10);
	ck_assert_ptr_nonnull(sched_pick(s, now));
	sched_finish(s, &pool[used - 1], 20 * MS, true);
	transfer[SLOW] = 21 * MS;
	push_many(100);
	now += 2 * MS;
	ck_assert_ptr_null(sched_pick(s, now));
}
END_TEST

/* A program that is kept together for its data. */
START_TEST(those_at_home_stay)
{
	struct graph_node *n;

	learn(1, MS, 20 * MS);
	way_ns = 1000 * MS;
	n = task(1, 1, 0);
	n->d.context = 7;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	push_many(30);
	n = &pool[used - 1];
	/* The first ones alone would do. */
	for (int i = 0; i < 30; i++) {
		struct graph_node *m = task(1, 1, 0);

		m->d.context = 7;
		ck_assert_uint_eq(sched_choose(s, m, now), SCHED_NO_DEVICE);
		ck_assert_int_eq(sched_push(s, m, now), 0);
	}
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* 5 tasks wait; the slow one's 20 ms are at most four times what the last one would wait. */
static struct graph_node *one_of_few(uint64_t all, uint64_t deadline_ns)
{
	learn(1, MS, 20 * MS);
	busy();
	live = all;
	for (int i = 0; i < 7; i++) {
		struct graph_node *n = task(1, 1, 0);

		n->d.deadline_ns = deadline_ns;
		ck_assert_int_eq(sched_push(s, n, now), 0);
	}
	return sched_pick(s, now);
}

START_TEST(who_has_more_to_come_may_be_later)
{
	struct graph_node *n = one_of_few(100, 0);

	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* Of the 30 that live 8 are here; half of the rest takes 11 ms. */
START_TEST(who_has_little_to_come_may_not)
{
	ck_assert_ptr_null(one_of_few(30, 0));
}
END_TEST

START_TEST(who_has_a_deadline_may_not)
{
	ck_assert_ptr_null(one_of_few(100, now + 100 * MS));
}
END_TEST

/* What was stopped is on its device still, however late its turn comes. */
START_TEST(what_was_stopped_stays_there)
{
	struct graph_node *stopped, *n;

	learn(1, MS, 20 * MS);
	stopped = push(1, 1, 5);
	ck_assert_ptr_eq(sched_pick(s, now), stopped);
	push_many(30);
	now += MS / 2;
	ck_assert_int_ge(sched_put_back(s, stopped, MS / 2, MS / 2, MS / 2, SCHED_ROOM_NONE, now), 0);
	n = sched_pick(s, now);
	ck_assert_ptr_ne(n, stopped);
	ck_assert_uint_eq(n->device, QUICK);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, &pool[used - 1]);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* More wait than are looked at: the last of 400 is done after 400 ms. */
START_TEST(those_between_count_as_well)
{
	learn(1, MS, 300 * MS);
	busy();
	push_many(280);
	ck_assert_ptr_null(sched_pick(s, now));
	push_many(120);
	now += 5 * MS;
	ck_assert_ptr_eq(sched_pick(s, now), &pool[used - 1]);
}
END_TEST

/* Then it is left idle for where the data is, and not for its speed. */
START_TEST(one_as_quick_is_left)
{
	struct graph_node *n;

	learn(1, 10 * MS, 18 * MS);
	learn(2, 10 * MS, 22 * MS);
	busy();
	transfer[SLOW] = 13 * MS;
	push_many(100);
	ck_assert_ptr_null(sched_pick(s, now));
	push(1, 2, 0);
	now += 2 * MS;
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, &pool[used - 1]);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* Nobody gets more than its maximum by it. */
START_TEST(maxima_hold)
{
	struct sched_tenant t = { .id = 1, .weight = 100, .max_ns = MS, .period_ns = 1000 * MS };
	struct graph_node *n;

	learn(1, MS, 20 * MS);
	ck_assert_int_eq(sched_tenant_set(s, &t), 0);
	busy();
	/* Its turn comes after all of the other one's, which wait. */
	push_many(100);
	for (int i = 0; i < 8; i++)
		push(2, 1, 0);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, &pool[1], MS, true);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.tenant, 2);
	ck_assert_uint_eq(n->device, QUICK);
	ck_assert_ptr_null(sched_pick(s, now));
}
END_TEST

/* Who is behind by turns gets nothing out of it, and the first tenant finds nothing. */
START_TEST(another_tenants_may_be_taken)
{
	struct graph_node *n;

	learn(1, MS, 20 * MS);
	busy();
	push(2, 1, 0);
	for (int i = 0; i < 40; i++)
		push(1, 1, 0);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.tenant, 1);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* The same scheduler, but one that can ask the graph. */
static void ask_the_graph(void)
{
	sched_destroy(s);
	make(true);
	ck_assert_int_eq(sched_device_set(s, QUICK, 1), 0);
	ck_assert_int_eq(sched_device_set(s, SLOW, 1), 0);
}

/*
 * Seven wait, which the quick one has done in 8 ms; to the last one belong 40 more that it makes
 * ready, @chain one after the other.  The slow one takes 20 ms for one.
 */
static struct graph_node *one_of_a_graph(bool chain, uint64_t deadline_ns)
{
	ask_the_graph();
	learn(1, MS, 20 * MS);
	busy();
	push_many(6);
	task(1, 1, 0)->d.deadline_ns = deadline_ns;
	behind[used - 1] = chain ? 1 : 40;
	ck_assert_int_eq(sched_push(s, &pool[used - 1], now), 0);
	for (int i = 0; i < 40; i++) {
		task(1, 1, 0);
		behind[used - 1] = chain && i < 39;
	}
	live = 48;
	return sched_pick(s, now);
}

/* 20 ms, and 1 ms for the longest way from there: all that is left takes the quick one 45. */
START_TEST(who_is_no_later_than_the_end_may_be)
{
	struct graph_node *n = one_of_a_graph(false, 0);

	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* 20 ms, and 40 ms from there, but all that is left takes about as long as these. */
START_TEST(who_has_a_long_way_to_go_may_not)
{
	struct graph_node *last = &pool[48], *n = one_of_a_graph(true, 0);

	ck_assert_ptr_ne(n, last);
	ck_assert_ptr_null(n);
}
END_TEST

START_TEST(nor_who_has_a_deadline)
{
	ck_assert_ptr_null(one_of_a_graph(false, now + 1000000 * MS));
}
END_TEST

/*
 * The slow device takes @slow_ms for what the quick one takes 1 for, and more than that is to come.
 * But of what is ready, three tasks, the quick one is done with in less than a fourth of it, unless
 * it has @begun something of 100 ms.
 */
static struct graph_node *one_of_few_that_are_ready(uint64_t slow_ms, bool begun)
{
	ask_the_graph();
	learn(1, MS, slow_ms * MS);
	learn(2, 100 * MS, 10000 * MS);
	live = 1000;
	push(1, begun ? 2 : 1, 0);
	ck_assert_ptr_nonnull(sched_pick(s, now));
	ck_assert_uint_eq(pool[used - 1].device, QUICK);
	push_many(3);
	behind[used - 4] = 3 + 60;
	for (int i = 0; i < 60; i++)
		task(1, 1, 0);
	return sched_pick(s, now);
}

START_TEST(the_quick_must_have_something_to_do)
{
	ck_assert_ptr_null(one_of_few_that_are_ready(20, false));
}
END_TEST

START_TEST(what_they_have_begun_is_something)
{
	struct graph_node *n = one_of_few_that_are_ready(150, true);

	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* 600 are ready, for more than a fourth of the 1.5 s; 256 would not be. */
START_TEST(all_that_are_ready_are_something)
{
	struct graph_node *n;

	ask_the_graph();
	learn(1, MS, 1500 * MS);
	learn(2, 100 * MS, 100000 * MS);
	live = 1000;
	busy();
	push_many(600);
	behind[used - 1] = 20;
	for (int i = 0; i < 20; i++)
		task(1, 2, 0);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

/* One that is 1.8 times as slow, but much slower with what is to come: there it should do these. */
START_TEST(what_the_slow_should_do_they_take)
{
	struct graph_node *n;

	ask_the_graph();
	learn(1, 10 * MS, 18 * MS);
	learn(2, 10 * MS, 200 * MS);
	live = 1000;
	busy();
	transfer[SLOW] = 13 * MS;
	push_many(50);
	behind[used - 1] = 50;
	for (int i = 0; i < 50; i++)
		task(1, 2, 0);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, SLOW);
}
END_TEST

static void stop_one(void)
{
	ck_assert_int_eq(sched_device_set(s, OTHER, 1), 0);
	stopped = push(1, 1, -4);
	ck_assert_ptr_eq(sched_pick(s, now), stopped);
	ck_assert_uint_eq(stopped->device, OTHER);
	ck_assert_int_ge(sched_put_back(s, stopped, 1, 1, 1, SCHED_ROOM_NONE, now), 0);
	ck_assert_int_eq(sched_device_set(s, OTHER, 0), 0);
}

/*
 * Of the second kernel the slow device should do all: it is 1.5 times as slow with that, and 20
 * times with the other one, of which there are many.  The last of these goes there, and the one
 * of the second kernel comes: with @deadline_ns, and @more of the same, which are
 * as much shorter.
 */
static struct graph_node *one_to_be_left(int many, uint64_t deadline_ns, uint32_t more)
{
	struct graph_node *first, *last, *m;

	ask_the_graph();
	learn(1, MS, 20 * MS);
	learn(2, 10 * MS / (more + 1), 15 * MS / (more + 1));
	live = 1000;
	busy();
	if (stop)
		stop_one();
	first = &pool[used - 1 - stop];
	push_many(many);
	last = &pool[used - 1];
	behind[used - 1] = more + 1;
	m = task(1, 2, -5);
	for (uint32_t i = 0; i < more; i++)
		task(1, 2, -5);
	live = (uint64_t)many + 2 + more;
	ck_assert_ptr_eq(sched_pick(s, now), last);
	ck_assert_uint_eq(last->device, SLOW);
	now += MS;
	finish(first, MS);
	m->d.deadline_ns = deadline_ns;
	for (uint32_t i = 0; i <= more; i++)
		ck_assert_int_eq(sched_push(s, m + i, now), 0);
	asked = 0;
	return sched_pick(s, now);
}

/* The quick one is idle, and m is first; but it can wait for 19 ms, and take 15. */
START_TEST(one_is_left_to_the_slow)
{
	struct graph_node *n = one_to_be_left(60, 0, 0);

	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.kernel, 1);
	ck_assert_uint_eq(n->device, QUICK);
}
END_TEST

/* Nothing else is ready, so the quick one takes it all the same. */
START_TEST(what_is_left_is_better_than_nothing)
{
	struct graph_node *first, *n;

	ask_the_graph();
	learn(1, MS, 20 * MS);
	learn(2, 10 * MS, 15 * MS);
	live = 1000;
	busy();
	first = &pool[used - 1];
	behind[used - 1] = 202;
	push(1, 2, 0);
	task(1, 2, 0);
	for (int i = 0; i < 200; i++)
		task(1, 1, 0);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, first + 1);
	ck_assert_uint_eq(n->device, SLOW);
	now += MS;
	finish(first, MS);
	ck_assert_int_eq(sched_push(s, first + 2, now), 0);
	/* That is what it would have waited for. */
	ck_assert_uint_eq(sched_choose(s, first + 2, now), SCHED_NO_DEVICE);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, first + 2);
	ck_assert_uint_eq(n->device, QUICK);
}
END_TEST

/* Nor is one that was stopped taken in place of them: its device is lost for now. */
START_TEST(what_was_stopped_is_not_taken_instead)
{
	struct graph_node *n;

	stop = true;
	n = one_to_be_left(240, 0, 400);
	stop = false;
	ck_assert_ptr_nonnull(n);
	ck_assert_ptr_ne(n, stopped);
	ck_assert_uint_eq(n->d.kernel, 1);
	ck_assert_uint_eq(n->device, QUICK);
}
END_TEST

/* What holds for one of them is not found out for each. */
START_TEST(many_are_left_at_little_cost)
{
	struct graph_node *n = one_to_be_left(240, 0, 400);

	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.kernel, 1);
	ck_assert_uint_eq(n->device, QUICK);
	ck_assert_uint_le(asked, 60);
}
END_TEST

/* Where little else is to be done it isn't, nor if it has a deadline. */
START_TEST(one_that_would_be_late_is_not_left)
{
	struct graph_node *n = one_to_be_left(_i ? 60 : 22, _i ? now + 1000000 * MS : 0, 0);

	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.kernel, 2);
	ck_assert_uint_eq(n->device, QUICK);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_spare");
	TCase *t = tcase_create("all");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_last_of_many_is_taken);
	tcase_add_test(t, all_that_are_at_work_count);
	tcase_add_test(t, the_least_behind_is_taken);
	tcase_add_test(t, the_first_is_left_alone);
	tcase_add_test(t, what_it_cannot_run_is_left);
	tcase_add_test(t, the_way_counts);
	tcase_add_test(t, those_at_home_stay);
	tcase_add_test(t, what_was_stopped_stays_there);
	tcase_add_test(t, those_between_count_as_well);
	tcase_add_test(t, who_has_more_to_come_may_be_later);
	tcase_add_test(t, who_has_little_to_come_may_not);
	tcase_add_test(t, who_has_a_deadline_may_not);
	tcase_add_test(t, one_as_quick_is_left);
	tcase_add_test(t, maxima_hold);
	tcase_add_test(t, another_tenants_may_be_taken);
	tcase_add_test(t, who_is_no_later_than_the_end_may_be);
	tcase_add_test(t, who_has_a_long_way_to_go_may_not);
	tcase_add_test(t, nor_who_has_a_deadline);
	tcase_add_test(t, the_quick_must_have_something_to_do);
	tcase_add_test(t, what_they_have_begun_is_something);
	tcase_add_test(t, all_that_are_ready_are_something);
	tcase_add_test(t, what_the_slow_should_do_they_take);
	tcase_add_test(t, one_is_left_to_the_slow);
	tcase_add_test(t, what_is_left_is_better_than_nothing);
	tcase_add_test(t, what_was_stopped_is_not_taken_instead);
	tcase_add_test(t, many_are_left_at_little_cost);
	tcase_add_loop_test(t, one_that_would_be_late_is_not_left, 0, 2);
	suite_add_tcase(suite, t);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
