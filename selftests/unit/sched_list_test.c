// SPDX-License-Identifier: MIT
/* sched_list_test - list schedules (list.h) */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/list.h"
#include "daemon/sim/rng.h"

#define MACHINES	5u
#define PLACES		4u
#define TASKS		60u
#define LINES		400u
#define KINDS		3u

static struct list_program p;
static struct list_machine machines[MACHINES];
static struct list_place places[PLACES];
static double ns[KINDS * MACHINES];
static struct list_item items[TASKS];
static struct list_use uses[4 * TASKS];
static uint32_t nexts[LINES];
static struct list_task tasks[TASKS + 1];
static struct list *l;
static const struct list_rule heft = { .quick = 1 };

/* A machine on the host, and so many with memory of their own: 10 ns and 1 ns a byte each way. */
static void setup_machines(uint32_t away, bool peers)
{
	memset(tasks, 0, sizeof(tasks));
	memset(items, 0, sizeof(items));
	memset(ns, 0, sizeof(ns));
	p = (struct list_program){
		.nr_machines = 1 + away, .nr_places = 1 + away, .nr_kinds = KINDS,
		.machines = machines, .places = places, .ns = ns, .items = items, .uses = uses,
		.nexts = nexts, .tasks = tasks,
	};
	for (uint32_t i = 0; i <= away; i++) {
		machines[i] = (struct list_machine){ .device = 10 + i, .place = i };
		places[i] = (struct list_place){
			.in_latency_ns = 10, .in_byte_ns = 1, .out_latency_ns = 10,
			.out_byte_ns = 1, .peers = peers,
		};
	}
}

static void cost(uint32_t kind, double host, double away)
{
	for (uint32_t m = 0; m < p.nr_machines; m++)
		ns[kind * p.nr_machines + m] = m ? away : host;
}

/* The next one; its uses and nexts follow. */
static void task(uint32_t kind)
{
	tasks[p.nr_tasks].kind = kind;
	tasks[p.nr_tasks].times = 1;
	tasks[p.nr_tasks + 1] = tasks[p.nr_tasks];
	p.nr_tasks++;
}

static void use(uint32_t item, bool reads, bool writes)
{
	uses[tasks[p.nr_tasks].uses++] = (struct list_use){ item, reads, writes };
	if (p.nr_items <= item)
		p.nr_items = item + 1;
	if (items[item].bytes <= 0)
		items[item] = (struct list_item){ .bytes = 90, .places = 1 };
}

/* The last task comes before that one. */
static void before(uint32_t next)
{
	nexts[tasks[p.nr_tasks].nexts++] = next;
}

static double schedule(const struct list_rule *rule)
{
	for (uint32_t t = 0; t < p.nr_tasks; t++)
		tasks[t].waits = 0;
	for (uint32_t n = 0; n < tasks[p.nr_tasks].nexts; n++)
		tasks[nexts[n]].waits++;
	list_free(l);
	l = list_make(&p);
	ck_assert_ptr_nonnull(l);
	ck_assert(list_begin(l, rule));
	ck_assert_int_eq(list_go_on(l, p.nr_tasks), 1);
	return list_ns(l);
}

static void expect(uint32_t t, uint32_t device, double begin)
{
	const struct list_seat *s = &list_seats(l)[t];

	ck_assert_uint_eq(s->device, device);
	ck_assert_double_eq_tol(s->begin_ns, begin, 0.01);
}

static void teardown(void)
{
	list_free(l);
	l = NULL;
}

/* Two that are on their own go where each is quicker, one behind the other if that ends earlier. */
START_TEST(each_goes_where_it_ends_first)
{
	setup_machines(1, false);
	cost(0, 500, 100);
	for (int i = 0; i < 6; i++)
		task(0);
	/* Five there, and the sixth either way: 600 is later than 500. */
	ck_assert_double_eq_tol(schedule(&heft), 500, 0.01);
	expect(0, 11, 0);
	expect(1, 11, 100);
	/* The fifth ends at 500 on both, and there is earlier found here. */
	expect(4, 10, 0);
	expect(5, 11, 400);
}
END_TEST

START_TEST(long_ways_go_first)
{
	setup_machines(1, false);
	cost(0, 0, 100);
	cost(1, 0, 50);
	task(1);
	task(0);
	before(2);
	task(0);
	ck_assert_double_eq_tol(schedule(&heft), 250, 0.01);
	expect(1, 11, 0);
	expect(2, 11, 100);
	expect(0, 11, 200);
	/* But for those of a priority of their own. */
	tasks[1].priority = tasks[2].priority = 1;
	schedule(&heft);
	expect(0, 11, 0);
	expect(1, 11, 50);
}
END_TEST

/* Of one kind, but longer or shorter than it is. */
START_TEST(sizes_count)
{
	setup_machines(1, false);
	cost(0, 0, 100);
	task(0);
	task(0);
	task(0);
	tasks[0].times = 0.5;
	tasks[1].times = 2;
	ck_assert_double_eq_tol(schedule(&heft), 350, 0.01);
	expect(1, 11, 0);
	expect(2, 11, 200);
	expect(0, 11, 300);
	/* Where it is slower, too: 250 is earlier than 300. */
	cost(0, 500, 100);
	schedule(&heft);
	expect(1, 11, 0);
	expect(2, 11, 200);
	expect(0, 10, 0);
}
END_TEST

/* What has to wait for a copy leaves room for another one. */
START_TEST(gaps_are_filled)
{
	setup_machines(1, false);
	cost(0, 0, 200);
	cost(1, 0, 90);
	task(0);
	use(0, true, false);
	task(1);
	ck_assert_double_eq_tol(schedule(&heft), 300, 0.01);
	expect(0, 11, 100);
	expect(1, 11, 0);
	/* Unless it is longer than that. */
	cost(1, 0, 110);
	ck_assert_double_eq_tol(schedule(&heft), 410, 0.01);
	expect(1, 11, 300);
	/* Nor while the machine has something of before to do; nor before it may. */
	cost(1, 0, 90);
	machines[1].free_ns = 50;
	ck_assert_double_eq_tol(schedule(&heft), 390, 0.01);
	machines[1].free_ns = 0;
	tasks[1].from_ns = 20;
	ck_assert_double_eq_tol(schedule(&heft), 390, 0.01);
}
END_TEST

/* The slow one takes what it ends later by no more than the part that the rule says. */
START_TEST(slow_ones_are_given_some)
{
	struct list_rule rule = heft;

	setup_machines(1, false);
	cost(0, 500, 100);
	task(0);
	schedule(&rule);
	expect(0, 11, 0);
	rule.later[0] = 0.99;
	schedule(&rule);
	expect(0, 11, 0);
	rule.later[0] = 1.01;
	ck_assert_double_eq_tol(schedule(&rule), 500, 0.01);
	expect(0, 10, 0);
	/* That is each kind's own. */
	cost(1, 500, 100);
	tasks[0].kind = 1;
	schedule(&rule);
	expect(0, 11, 0);
}
END_TEST

/* 1 writes what 2 and 3 read elsewhere: by way of the host twice as long, and both have their own link. */
START_TEST(data_goes_along)
{
	setup_machines(3, false);
	cost(0, 0, 100);
	cost(1, 0, 1000);
	task(0);
	use(0, false, true);
	before(1);
	before(2);
	before(3);
	for (int i = 0; i < 3; i++) {
		task(1);
		use(0, true, false);
		use(1 + (uint32_t)i, false, true);
	}
	/* One stays; the others' come by the host, where it is once: 100 + 100 + 100. */
	ck_assert_double_eq_tol(schedule(&heft), 1300, 0.01);
	expect(1, 11, 100);
	expect(2, 12, 300);
	expect(3, 13, 300);
	/* Directly; the second from whom the first went to, or after it. */
	for (uint32_t i = 0; i < PLACES; i++)
		places[i].peers = 7;
	ck_assert_double_eq_tol(schedule(&heft), 1300, 0.01);
	expect(2, 12, 200);
	expect(3, 13, 300);
	/* From where it lies at first, and since when. */
	items[0].places = 4;
	items[0].since_ns = 70;
	tasks[0].kind = LIST_NONE;
	for (uint32_t u = 0; u < tasks[4].uses; u++)
		uses[u].writes = uses[u].writes && uses[u].item;
	ck_assert_double_eq_tol(schedule(&heft), 1270, 0.01);
	expect(1, 12, 70);
	/* In three places at once: nothing has to come. */
	items[0].places = 2 | 4 | 8;
	ck_assert_double_eq_tol(schedule(&heft), 1070, 0.01);
}
END_TEST

/* What ends little later need not be copied. */
START_TEST(near_is_worth_something)
{
	struct list_rule rule = heft;

	setup_machines(1, false);
	cost(0, 250, 100);
	task(0);
	use(0, true, true);
	schedule(&rule);
	expect(0, 11, 100);
	rule.near = 0.4;
	schedule(&rule);
	expect(0, 11, 100);
	rule.near = 0.6;
	schedule(&rule);
	expect(0, 10, 0);
}
END_TEST

START_TEST(what_cannot_be_is_said)
{
	setup_machines(1, false);
	cost(0, 100, 0);
	task(0);
	before(1);
	task(1);
	tasks[1].waits = 1;
	l = list_make(&p);
	ck_assert(list_begin(l, &heft));
	/* Nothing runs the second kind. */
	ck_assert_int_eq(list_go_on(l, 1), 0);
	ck_assert_int_eq(list_go_on(l, 1), -EINVAL);
	list_free(l);
	/* Who waits for nobody that there is. */
	tasks[1] = (struct list_task){ .kind = 0, .times = 1, .waits = 2, .nexts = tasks[1].nexts };
	l = list_make(&p);
	ck_assert(list_begin(l, &heft));
	ck_assert_int_eq(list_go_on(l, 5), -EINVAL);
	list_free(l);
	/* Nothing at all is soon done. */
	p.nr_tasks = 0;
	tasks[0] = (struct list_task){ 0 };
	l = list_make(&p);
	ck_assert(list_begin(l, &heft));
	ck_assert_int_eq(list_go_on(l, 1), 1);
	ck_assert_double_eq(list_ns(l), 0);
}
END_TEST

static void random_program(struct rng *rng)
{
	uint32_t nr = (uint32_t)rng_between(rng, 1, TASKS);

	setup_machines((uint32_t)rng_between(rng, 1, 3), rng_between(rng, 0, 1));
	for (uint32_t k = 0; k < KINDS; k++)
		cost(k, (double)rng_between(rng, 1, 900), (double)rng_between(rng, 1, 300));
	for (uint32_t i = 0; i < nr; i++) {
		task(rng_between(rng, 0, 9) ? (uint32_t)rng_between(rng, 0, KINDS - 1) : LIST_NONE);
		for (int u = 0; u < 3; u++)
			use((uint32_t)rng_between(rng, 0, TASKS - 1), rng_between(rng, 0, 2),
			    rng_between(rng, 0, 1));
		for (uint32_t k = i + 1; k < nr && k < i + 6; k++)
			if (!rng_between(rng, 0, 2))
				before(k);
	}
}

static double took(uint32_t t)
{
	const struct list_seat *s = &list_seats(l)[t];

	return s->device == LIST_NONE ? 0 : ns[tasks[t].kind * p.nr_machines + s->device - 10];
}

/* Each after those before it, none beside another, all counted; and in pieces as at once. */
START_TEST(schedules_are_possible)
{
	struct rng rng = { .seed = (uint64_t)_i + 1 };
	struct list_seat whole[TASKS];
	double last = 0, all;
	struct list_rule rule = { .quick = rng_unit(rng_next(&rng)), .near = 1 };
	int err;

	random_program(&rng);
	for (uint32_t k = 0; k < KINDS; k++)
		rule.later[k] = rng_unit(rng_next(&rng)) - 0.3;
	all = schedule(&rule);
	memcpy(whole, list_seats(l), p.nr_tasks * sizeof(*whole));
	for (uint32_t t = 0; t < p.nr_tasks; t++) {
		double end = whole[t].begin_ns + took(t);

		last = end > last ? end : last;
		for (uint32_t n = tasks[t].nexts; n < tasks[t + 1].nexts; n++)
			ck_assert_double_ge(whole[nexts[n]].begin_ns, end - 0.01);
		for (uint32_t o = 0; o < t; o++)
			if (whole[o].device == whole[t].device && whole[t].device != LIST_NONE)
				ck_assert(whole[o].begin_ns + took(o) <= whole[t].begin_ns + 1.01 ||
					  end <= whole[o].begin_ns + 1.01);
	}
	ck_assert_double_eq_tol(all, last, 0.01);
	ck_assert(list_begin(l, &rule));
	do {
		err = list_go_on(l, (uint32_t)rng_between(&rng, 1, 7));
	} while (!err);
	ck_assert_int_eq(err, 1);
	ck_assert_int_eq(memcmp(whole, list_seats(l), p.nr_tasks * sizeof(*whole)), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("list");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_test(t, each_goes_where_it_ends_first);
	tcase_add_test(t, long_ways_go_first);
	tcase_add_test(t, sizes_count);
	tcase_add_test(t, gaps_are_filled);
	tcase_add_test(t, slow_ones_are_given_some);
	tcase_add_test(t, data_goes_along);
	tcase_add_test(t, near_is_worth_something);
	tcase_add_test(t, what_cannot_be_is_said);
	tcase_add_loop_test(t, schedules_are_possible, 0, 60);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
