// SPDX-License-Identifier: MIT
/* sched_refusal_test - tasks that were asked in vain, where to weigh all devices takes long */
#include <check.h>
#include <stdlib.h>

#include "daemon/sched/refusal.h"
#include "daemon/sched/sched.h"

#define MS	1000000ull
#define DEVICES	64u
#define QUICK	32u	/* the first ones, at 10 ms; the others take 200 */

static struct sched *s;
static struct graph_node pool[512], *on[DEVICES];
static struct arax_dispatch_range range = { .length = 1000, .count = 1 };
static uint32_t used;
static uint64_t now;

/* Questions about the task that is watched. */
static const struct graph_node *watched;
static uint32_t asked;

static bool runs(void *arg, const struct graph_node *n, uint32_t device)
{
	asked += n == watched;
	return true;
}

static struct graph_node *task_of(uint64_t tenant)
{
	struct graph_node *n = &pool[used];

	*n = (struct graph_node){ .seq = ++used, .ranges = &range };
	n->d.tenant = tenant;
	n->d.context = (uint32_t)tenant;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.kernel = 1;
	n->d.grid[0] = 64;
	n->d.nr_ranges = 1;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

static void finish(uint32_t device, bool ended)
{
	struct graph_node *n = on[device];

	on[device] = NULL;
	sched_finish(s, n, ended ? 10 * MS : MS, false);
}

/* All quick devices work, all others are idle, and one task waits for a quick one. */
static void setup(void)
{
	struct graph_node *kind;

	used = 0;
	now = 1000 * MS;
	watched = NULL;
	s = sched_create(&(struct sched_params){ .policy = "eft", .ops = { .can_run = runs } });
	ck_assert_ptr_nonnull(s);
	kind = task_of(1);
	for (uint32_t d = 0; d < DEVICES; d++) {
		on[d] = NULL;
		ck_assert_int_eq(sched_device_set(s, d, 1), 0);
		for (int i = 0; i < SCHED_SURE_RUNS; i++)
			sched_observe(s, sched_kernel_key(kind), d, 64,
				      d < QUICK ? 10 * MS : 200 * MS);
	}
	sched_remove(s, kind);
	for (uint32_t d = 0; d < QUICK; d++) {
		struct graph_node *n = task_of(2 + d);

		ck_assert_ptr_eq(sched_pick(s, now), n);
		ck_assert_uint_lt(n->device, QUICK);
		ck_assert_ptr_null(on[n->device]);
		on[n->device] = n;
	}
	now += MS;
	watched = task_of(1);
	asked = 0;
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_ge(asked, DEVICES);
	asked = 0;
}

static void teardown(void)
{
	sched_destroy(s);
}

START_TEST(is_not_weighed_anew)
{
	task_of(100);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_gt(asked, 0);
	ck_assert_uint_lt(asked, DEVICES / 2);
}
END_TEST

START_TEST(is_weighed_anew_after_a_while)
{
	task_of(100);
	now += REFUSAL_NS;
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_ge(asked, DEVICES);
}
END_TEST

/* Whichever it is: what the task had in mind, or another one. */
START_TEST(what_becomes_idle_is_taken)
{
	const struct graph_node *n;

	finish((uint32_t)_i, true);
	n = sched_pick(s, now);
	ck_assert_ptr_eq(n, watched);
	ck_assert_uint_eq(n->device, (uint32_t)_i);
}
END_TEST

/* Devices come and go: all are weighed. */
START_TEST(other_devices_are_news)
{
	for (uint32_t d = QUICK; d < DEVICES; d++)
		ck_assert_int_eq(sched_device_set(s, d, 0), 0);
	for (uint32_t d = QUICK; d < DEVICES; d++)
		ck_assert_int_eq(sched_device_set(s, d, 1), 0);
	asked = 0;
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_ge(asked, DEVICES);
}
END_TEST

/* Another task comes where it was: that one has not been asked. */
START_TEST(another_one_is_not_it)
{
	struct graph_node *n = (struct graph_node *)watched;
	uint64_t seq = n->seq;

	sched_remove(s, n);
	*n = (struct graph_node){ .seq = seq + _i, .ranges = &range };
	n->d.tenant = n->d.context = 1;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.kernel = 1;
	n->d.grid[0] = 64;
	n->d.nr_ranges = 1;
	ck_assert_int_eq(sched_push(s, n, now + !_i), 0);
	asked = 0;
	ck_assert_ptr_null(sched_pick(s, now + !_i));
	ck_assert_uint_ge(asked, DEVICES);
}
END_TEST

/* A policy that takes over has heard nothing yet. */
START_TEST(another_policy_asks_anew)
{
	ck_assert_int_eq(sched_policy_set(s, "rr"), 0);
	ck_assert_int_eq(sched_policy_set(s, "eft"), 0);
	asked = 0;
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_ge(asked, DEVICES);
}
END_TEST

/* More devices have become idle since than are remembered, and been taken again. */
START_TEST(many_are_not_forgotten)
{
	for (uint32_t i = 0; i <= SCHED_FREED; i++) {
		struct graph_node *n = on[i % QUICK];

		finish(i % QUICK, false);
		n->sched.flow = NULL;
		ck_assert_int_eq(sched_push(s, n, now), 0);
		for (;;) {
			n = sched_pick(s, now);
			if (!n)
				break;
			on[n->device] = n;
			if (n != watched)
				continue;
			/* It was its turn: it has a quick device. */
			ck_assert_uint_lt(n->device, QUICK);
			return;
		}
	}
	ck_abort_msg("a task waits for ever");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_refusal");
	TCase *c = tcase_create("refusal");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, is_not_weighed_anew);
	tcase_add_test(c, is_weighed_anew_after_a_while);
	tcase_add_loop_test(c, what_becomes_idle_is_taken, 0, QUICK);
	tcase_add_test(c, other_devices_are_news);
	tcase_add_loop_test(c, another_one_is_not_it, 0, 2);
	tcase_add_test(c, another_policy_asks_anew);
	tcase_add_test(c, many_are_not_forgotten);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
