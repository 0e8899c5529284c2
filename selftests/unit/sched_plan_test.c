// SPDX-License-Identifier: MIT
/* sched_plan_test - a program's tasks are placed together (plan.h), as the scheduler's callers see it */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/internal.h"
#include "daemon/sim/rng.h"

#define MS	1000000ull
#define QUICK	0u
#define SLOW	1u
#define TASKS	256u
#define LANES	3
#define OTHER	2u	/* another program's context */

static struct sched *s;
static struct graph_node pool[TASKS];
static struct arax_dispatch_range ranges[TASKS];
static int after[TASKS];		/* which it waits for; -1: none */
static uint64_t took[TASKS][3];		/* ns, on each device */
static uint64_t ends[TASKS];		/* 0: it has no device */
static bool over[TASKS], pushed[TASKS];
static uint32_t used, look, waited;
static uint64_t now;
static bool quick_only[64];		/* kernels */

/* Of those while something is picked, which one finds no memory, or is the first; 0: none. */
static uint32_t asked_for, fails_at;
static bool picking, for_ever;

void *__real_calloc(size_t nr, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_calloc(size_t nr, size_t size);
void *__wrap_realloc(void *at, size_t size);

static bool has_memory(void)
{
	if (!picking)
		return true;
	asked_for++;
	return !fails_at || asked_for < fails_at || (asked_for > fails_at && !for_ever);
}

void *__wrap_calloc(size_t nr, size_t size)
{
	return has_memory() ? __real_calloc(nr, size) : NULL;
}

void *__wrap_realloc(void *at, size_t size)
{
	return has_memory() ? __real_realloc(at, size) : NULL;
}

static bool may_run(void *arg, const struct graph_node *n, uint32_t device)
{
	return device == QUICK || !quick_only[n->d.kernel];
}

static uint64_t tasks_live(void *arg, const struct graph_node *n)
{
	uint64_t live = 0;

	for (uint32_t i = 0; i < used; i++)
		live += !over[i] && pool[i].d.context == n->d.context;
	return live;
}

static void followers(void *arg, const struct graph_node *n,
		      void (*each)(void *to, const struct graph_node *n, uint32_t waits), void *to)
{
	for (uint32_t i = 0; i < used; i++)
		if (after[i] == n - pool)
			each(to, &pool[i], 1);
}

static bool look_back(void *arg, const struct graph_node *node, bool anew,
		      bool (*each)(void *to, struct graph_node *n), void *to)
{
	bool more = true;

	if (anew)
		look = used;
	while (look && more)
		if (!over[--look] && pool[look].d.context == node->d.context)
			more = each(to, &pool[look]);
	return !look;
}

static bool link_of(void *arg, uint32_t device, struct sched_link *l)
{
	*l = (struct sched_link){ .in_byte_ns = 1, .out_byte_ns = 1 };
	return device == QUICK;
}

static void setup(void)
{
	s = sched_create(&(struct sched_params){
		.ops = {
			.can_run = may_run, .live = tasks_live, .followers = followers,
			.look_back = look_back, .link = link_of,
		},
	});
	ck_assert_ptr_nonnull(s);
	used = waited = 0;
	asked_for = 0;
	now = 1000 * MS;
	memset(over, 0, sizeof(over));
	memset(pushed, 0, sizeof(pushed));
	memset(ends, 0, sizeof(ends));
	memset(quick_only, 0, sizeof(quick_only));
	ck_assert_int_eq(sched_device_set(s, QUICK, 1), 0);
	ck_assert_int_eq(sched_device_set(s, SLOW, 1), 0);
}

static void teardown(void)
{
	sched_destroy(s);
}

static void learn(uint32_t kernel, uint32_t device, uint64_t ns)
{
	struct graph_node n = { .d = { .opcode = ARAX_OP_LAUNCH, .kernel = kernel } };

	for (int i = 0; i < SCHED_SURE_RUNS; i++)
		sched_observe(s, sched_kernel_key(&n), device, 64, ns);
}

/* Behind @of, or nobody if that is negative. */
static struct graph_node *task_of(uint32_t context, uint32_t kernel, int of, uint64_t quick_ns,
				  uint64_t slow_ns)
{
	struct graph_node *n = &pool[used];

	ck_assert_uint_lt(used, TASKS);
	ranges[used] = (struct arax_dispatch_range){ .buffer = used + 1, .length = 8, .count = 1 };
	*n = (struct graph_node){ .seq = used + 1, .ranges = &ranges[used] };
	n->d.nr_ranges = 1;
	n->d.access = ARAX_OUT;
	n->d.tenant = context;
	n->d.context = context;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.kernel = kernel;
	n->d.grid[0] = 64;
	after[used] = of;
	took[used][QUICK] = quick_ns;
	took[used][SLOW] = took[used][SLOW + 1] = slow_ns;
	used++;
	return n;
}

static void push_ready(void)
{
	for (uint32_t i = 0; i < used; i++) {
		if (pushed[i] || over[i] || (after[i] >= 0 && !over[after[i]]))
			continue;
		pushed[i] = true;
		ck_assert_int_eq(sched_push(s, &pool[i], now), 0);
	}
}

/* As a poller does: again, as long as it is asked to. */
static struct graph_node *pick(void)
{
	struct graph_node *n;

	for (int i = 0; i < 10000; i++) {
		picking = true;
		n = sched_pick(s, now);
		picking = false;
		if (n || sched_next_wake(s) > now)
			return n;
		waited++;
	}
	ck_abort_msg("it thinks for ever");
}

static void begin_all(void)
{
	struct graph_node *n;

	push_ready();
	while ((n = pick()))
		ends[n - pool] = now + took[n - pool][n->device];
}

static void end(uint32_t i)
{
	over[i] = true;
	ends[i] = 0;
	sched_finish(s, &pool[i], took[i][pool[i].device], true);
}

/* The next end; false: nothing runs. */
static bool go_on(void)
{
	uint32_t first = used;

	for (uint32_t i = 0; i < used; i++)
		if (ends[i] && (first == used || ends[i] < ends[first]))
			first = i;
	if (first == used)
		return false;
	now = ends[first];
	end(first);
	begin_all();
	return true;
}

/* Until nothing is left; ns. */
static uint64_t run(void)
{
	uint64_t start = now;

	begin_all();
	while (go_on())
		;
	for (uint32_t i = 0; i < used; i++)
		ck_assert_msg(over[i], "task %u has not run", i);
	ck_assert_uint_eq(sched_queued(s), 0);
	return now - start;
}

/* 20 chains of two tasks: the first takes about as long anywhere, the second is for one device. */
static void chains(void)
{
	learn(1, QUICK, 4 * MS);
	learn(1, SLOW, 5 * MS);
	learn(2, QUICK, MS);
	learn(2, SLOW, 30 * MS);
	for (int i = 0; i < 20; i++) {
		task_of(1, 1, -1, 4 * MS, 5 * MS);
		task_of(1, 2, (int)used - 1, MS, 30 * MS);
	}
}

START_TEST(all_are_placed_together)
{
	chains();
	/* 11 and 9 of the firsts, then all seconds. */
	ck_assert_uint_le(run(), 64 * MS);
	ck_assert_uint_gt(waited, 3);
	ck_assert_uint_eq(sched_plans(s), 1);
	for (uint32_t i = 1; i < 40; i += 2)
		ck_assert_uint_eq(pool[i].device, QUICK);
}
END_TEST

/* One call does no more than a part of it. */
START_TEST(others_are_not_kept_waiting)
{
	struct graph_node *n, *first = NULL;

	chains();
	push_ready();
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_eq(sched_next_wake(s), 0);
	/* Somebody else comes meanwhile, and goes at once. */
	learn(3, QUICK, MS);
	learn(3, SLOW, MS);
	n = task_of(OTHER, 3, -1, MS, MS);
	push_ready();
	for (int i = 0; i < 3 && first != n; i++) {
		first = sched_pick(s, now);
		if (first)
			ends[first - pool] = now + took[first - pool][first->device];
	}
	ck_assert_ptr_eq(first, n);
	run();
}
END_TEST

START_TEST(who_comes_ends_the_plan)
{
	struct graph_node *n;

	chains();
	begin_all();
	for (int i = 0; i < 5; i++)
		ck_assert(go_on());
	learn(3, QUICK, MS);
	learn(3, SLOW, MS);
	n = task_of(OTHER, 3, -1, MS, MS);
	run();
	ck_assert(n->device == QUICK || n->device == SLOW);
}
END_TEST

/* Nor is anybody kept awake for it. */
START_TEST(without_devices_it_sleeps)
{
	chains();
	push_ready();
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_eq(sched_next_wake(s), 0);
	ck_assert_int_eq(sched_device_set(s, QUICK, 0), 0);
	ck_assert_int_eq(sched_device_set(s, SLOW, 0), 0);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_gt(sched_next_wake(s), now);
	ck_assert_int_eq(sched_device_set(s, SLOW, 1), 0);
	run();
}
END_TEST

/* It has found nothing out yet: then things are tried, not planned. */
START_TEST(what_is_not_known_is_tried)
{
	chains();
	learn(4, QUICK, MS);
	for (int i = 0; i < 10; i++)
		task_of(1, 4, -1, MS, 9 * MS);
	run();
	ck_assert_uint_eq(sched_plans(s), 0);
}
END_TEST

/* It comes in pieces, and the first ones run already: what is there is planned, and all anew. */
START_TEST(what_comes_later_is_planned_with_the_rest)
{
	learn(1, QUICK, 4 * MS);
	learn(1, SLOW, 12 * MS);
	for (int i = 0; i < 10; i++)
		task_of(1, 1, -1, 4 * MS, 12 * MS);
	begin_all();
	ck_assert_uint_eq(sched_plans(s), 0);
	for (int i = 0; i < 40; i++)
		task_of(1, 1, i % 10, 4 * MS, 12 * MS);
	ck_assert(go_on());
	ck_assert_uint_eq(sched_plans(s), 1);
	/* These go beside it, where there is room. */
	for (int i = 0; i < 10; i++)
		task_of(1, 1, -1, 4 * MS, 12 * MS);
	for (int i = 0; i < 3; i++)
		ck_assert(go_on());
	ck_assert_uint_eq(sched_plans(s), 1);
	for (int i = 0; i < 90; i++)
		task_of(1, 1, i % 10, 4 * MS, 12 * MS);
	for (int i = 0; i < 3; i++)
		ck_assert(go_on());
	ck_assert_uint_eq(sched_plans(s), 2);
	/* 150 tasks by three fourths and one: some are as long as three of the others. */
	run();
	ck_assert_uint_le(now - 1000 * MS, 450 * MS + 12 * MS);
}
END_TEST

/* One batch after the other, the next when the last one has ended; markers are told of, or not. */
START_TEST(each_batch_has_its_plan)
{
	for (int batch = 1; batch < 6; batch++) {
		uint32_t first = used;

		chains();
		for (int i = 0; i < 4; i++) {
			task_of(1, 0, (int)first, 0, 0)->d.opcode = ARAX_OP_MARKER;
			pushed[used - 1] = true;
		}
		begin_all();
		while (go_on())
			;
		for (uint32_t i = used - 4; i < used; i++) {
			over[i] = true;
			if (_i)
				sched_ended(s, &pool[i]);
		}
		ck_assert_uint_eq(sched_plans(s), batch);
	}
	run();
}
END_TEST

/* A plan leaves a device idle, and what is not in it finds that: it begins none of its own. */
START_TEST(what_goes_beside_it_begins_no_other)
{
	learn(1, QUICK, 4 * MS);
	learn(1, SLOW, 12 * MS);
	ck_assert_int_eq(sched_device_set(s, QUICK, 2), 0);
	for (int i = 0; i < 40; i++)
		task_of(1, 1, i - 1, 4 * MS, 12 * MS);
	begin_all();
	ck_assert_uint_eq(sched_plans(s), 1);
	for (int i = 0; i < 8; i++) {
		task_of(1, 1, -1, 4 * MS, 12 * MS);
		begin_all();
		ck_assert(go_on());
	}
	run();
	ck_assert_uint_eq(sched_plans(s), 1);
}
END_TEST

/* What can't run there is nobody's wish. */
START_TEST(what_only_one_can_run_is_planned_for)
{
	chains();
	learn(4, QUICK, MS);
	quick_only[4] = true;
	for (int i = 0; i < 10; i++)
		task_of(1, 4, -1, MS, 0);
	run();
	ck_assert_uint_eq(sched_plans(s), 1);
	for (uint32_t i = 40; i < 50; i++)
		ck_assert_uint_eq(pool[i].device, QUICK);
}
END_TEST

/* Urgent ones that nobody waits for go first all the same; a deadline is nothing to plan with. */
START_TEST(urgent_ones_stay_urgent)
{
	uint64_t urgent = 0;

	chains();
	for (int i = 0; i < 4; i++) {
		struct graph_node *n = task_of(1, 2, -1, MS, 30 * MS);

		n->d.priority = _i == 0 ? -1 : 0;
		n->d.deadline_ns = _i == 2 ? now + MS : 0;
	}
	begin_all();
	do {
		for (uint32_t i = 40; i < used; i++)
			urgent = ends[i] > urgent ? ends[i] : urgent;
	} while (go_on());
	if (_i == 1)
		ck_assert_uint_gt(urgent, 1010 * MS);
	else
		ck_assert_uint_eq(urgent, 1004 * MS);
	if (_i < 2)
		ck_assert_uint_eq(sched_plans(s), 1);
	ck_assert_uint_eq(sched_queued(s), 0);
}
END_TEST

START_TEST(few_or_short_or_alike_are_not)
{
	learn(1, QUICK, 4 * MS);
	learn(1, SLOW, 20 * MS);
	for (int i = 0; i < 20; i++)
		task_of(1, 1, -1, 4 * MS, 20 * MS);
	run();
	ck_assert_uint_eq(sched_plans(s), 0);
	learn(2, QUICK, 4 * MS);
	learn(2, SLOW, 4 * MS);
	for (int i = 0; i < 60; i++)
		task_of(1, 2, -1, 4 * MS, 4 * MS);
	run();
	ck_assert_uint_eq(sched_plans(s), 0);
	learn(3, QUICK, 100000);
	learn(3, SLOW, 500000);
	for (int i = 0; i < 60; i++)
		task_of(1, 3, -1, 100000, 500000);
	run();
	ck_assert_uint_eq(sched_plans(s), 0);
}
END_TEST

/* A device goes, a task ends without one, and things take longer than they should. */
START_TEST(plans_are_dropped)
{
	chains();
	begin_all();
	ck_assert(go_on());
	if (_i == 0) {
		ck_assert_int_eq(sched_device_set(s, SLOW, 0), 0);
	} else if (_i == 1) {
		/* The next ones of the slow device, in a row. */
		for (uint32_t i = 0, n = 0; i < used && n < 6; i += 2) {
			if (pool[i].sched.flow && pool[i].sched.index == ~0u)
				continue;
			if (over[i])
				continue;
			sched_ended(s, &pool[i]);
			sched_remove(s, &pool[i]);
			over[i] = true;
			n++;
		}
	} else {
		for (uint32_t i = 0; i < used; i++)
			took[i][QUICK] *= 5;
	}
	run();
}
END_TEST

/* What is to come by the plan doesn't: so who is ready goes. */
START_TEST(it_waits_for_nothing_for_ever)
{
	chains();
	/* Every other chain is never ready, as if it waited for something that is no task. */
	for (uint32_t i = 0; i < used; i += 4)
		pushed[i] = true;
	begin_all();
	while (go_on())
		;
	for (uint32_t i = 0; i < used; i++)
		ck_assert(over[i] == (i % 4 > 1));
}
END_TEST

/*
 * Every other chain waits for something that is no task, and what runs beside takes for ever: the rest
 * does not wait for that.
 */
START_TEST(nor_for_what_runs_for_ever)
{
	struct graph_node *n;

	ck_assert_int_eq(sched_device_set(s, 2, 1), 0);
	chains();
	learn(1, 2, 5 * MS);
	learn(2, 2, 30 * MS);
	n = task_of(1, 1, -1, 0, 0);
	pushed[40] = true;
	for (uint32_t i = 0; i < 40; i += 4)
		pushed[i] = true;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	ck_assert_ptr_eq(pick(), n);
	begin_all();
	while (go_on())
		;
	for (int i = 0; i < 40; i++) {
		now += 50 * MS;
		begin_all();
		while (go_on())
			;
	}
	for (uint32_t i = 0; i < 40; i++)
		ck_assert(over[i] == (i % 4 > 1));
}
END_TEST

/* Copies and fills run on devices as kernels do; a marker runs nowhere. */
START_TEST(all_kinds_of_tasks_are_planned)
{
	struct graph_node *copy;

	chains();
	for (int i = 0; i < 8; i++) {
		struct graph_node *n = task_of(1, 0, 2 * i, MS, 2 * MS);

		n->d.opcode = i % 2 ? ARAX_OP_COPY : ARAX_OP_MARKER;
		/* Who has the graph ends it himself. */
		if (i % 2)
			continue;
		pushed[used - 1] = true;
	}
	copy = &pool[used - 1];
	for (int i = 0; i < SCHED_SURE_RUNS; i++) {
		sched_observe(s, sched_kernel_key(copy), QUICK, sched_work(copy), MS);
		sched_observe(s, sched_kernel_key(copy), SLOW, sched_work(copy), 2 * MS);
	}
	begin_all();
	ck_assert_uint_eq(sched_plans(s), 1);
	while (go_on())
		;
	for (uint32_t i = 0; i < used; i++)
		ck_assert(over[i] == (pool[i].d.opcode != ARAX_OP_MARKER));
}
END_TEST

/* Another one of its allocations fails each time: there is a plan later; or all from then on: none. */
START_TEST(without_memory_all_run)
{
	uint64_t planned, ns;

	chains();
	planned = run();
	fails_at = 0;
	for_ever = _i;
	for (;;) {
		teardown();
		setup();
		fails_at++;
		chains();
		ns = run();
		if (asked_for < fails_at)
			break;
		ck_assert_uint_eq(sched_plans(s), !for_ever);
		ck_assert_uint_le(ns, planned + 20 * MS);
	}
	/* A plan takes so many at least; and the last run had them all. */
	ck_assert_uint_gt(fails_at, 25);
	ck_assert_uint_eq(ns, planned);
	fails_at = 0;
}
END_TEST

/* Whatever tasks there are, each runs once. */
START_TEST(all_run)
{
	struct rng rng = { .seed = (uint64_t)_i + 1 };

	for (uint32_t k = 1; k < 6; k++) {
		learn(k, QUICK, rng_between(&rng, 1, 9) * MS);
		if (rng_between(&rng, 0, 3))
			learn(k, SLOW, rng_between(&rng, 1, 90) * MS);
		else
			quick_only[k] = true;
	}
	ck_assert_int_eq(sched_device_set(s, QUICK, (uint32_t)rng_between(&rng, 1, LANES)), 0);
	for (int i = 0; i < 150; i++)
		task_of(1, (uint32_t)rng_between(&rng, 1, 5),
			i && rng_between(&rng, 0, 2) ? (int)rng_between(&rng, 0, (uint64_t)i - 1) : -1,
			rng_between(&rng, 1, 20) * MS, rng_between(&rng, 1, 200) * MS);
	begin_all();
	for (int i = 0; i < 100; i++) {
		if (!rng_between(&rng, 0, 20))
			task_of(rng_between(&rng, 0, 3) ? 1 : OTHER,
				(uint32_t)rng_between(&rng, 1, 5), -1, MS, MS);
		go_on();
	}
	run();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("plan");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, all_are_placed_together);
	tcase_add_test(t, others_are_not_kept_waiting);
	tcase_add_test(t, who_comes_ends_the_plan);
	tcase_add_test(t, without_devices_it_sleeps);
	tcase_add_test(t, what_is_not_known_is_tried);
	tcase_add_test(t, what_comes_later_is_planned_with_the_rest);
	tcase_add_loop_test(t, each_batch_has_its_plan, 0, 2);
	tcase_add_test(t, what_goes_beside_it_begins_no_other);
	tcase_add_test(t, what_only_one_can_run_is_planned_for);
	tcase_add_loop_test(t, urgent_ones_stay_urgent, 0, 3);
	tcase_add_test(t, few_or_short_or_alike_are_not);
	tcase_add_loop_test(t, plans_are_dropped, 0, 3);
	tcase_add_test(t, it_waits_for_nothing_for_ever);
	tcase_add_test(t, nor_for_what_runs_for_ever);
	tcase_add_test(t, all_kinds_of_tasks_are_planned);
	tcase_add_loop_test(t, without_memory_all_run, 0, 2);
	tcase_add_loop_test(t, all_run, 0, 200);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
