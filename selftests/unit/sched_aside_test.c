// SPDX-License-Identifier: MIT
/* sched_aside_test - running tasks that make way: for whom, when, and what that comes to */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/sched.h"

#define MS	1000000ull
#define S	1000000000ull
#define SLICE	(50 * MS)

static struct sched *s;
static uint64_t now, seq;
static struct graph_node *nodes[2048];
static unsigned int nr_nodes;
static uint32_t refused;		/* device that can't run tasks of kernel 9 */

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	(void)arg;
	return n->d.kernel != 9 || device != refused;
}

static void setup(void)
{
	now = 1000 * S;
	seq = 0;
	refused = SCHED_NO_DEVICE;
	s = sched_create(&(struct sched_params){ .policy = "rr", .ops.can_run = can_run });
	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
}

static void teardown(void)
{
	sched_destroy(s);
	while (nr_nodes)
		free(nodes[--nr_nodes]);
}

static struct graph_node *push(uint64_t tenant, uint32_t context)
{
	struct graph_node *n = calloc(1, sizeof(*n));

	n->seq = ++seq;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.grid[0] = 1;
	n->d.tenant = tenant;
	n->d.context = context;
	nodes[nr_nodes++] = n;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

static void free_node(struct graph_node *n)
{
	sched_remove(s, n);
	free(n);
}

static bool asks(struct graph_node *n, uint64_t ran_ns, uint64_t all_ns)
{
	sched_progress(s, n, ran_ns, now);
	return sched_makes_way(s, n, all_ns, SCHED_ROOM_PLENTY, now);
}

START_TEST(for_another_tenant)
{
	struct graph_node *a = push(1, 1), *b;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	now += SLICE;
	ck_assert(!asks(a, SLICE, SLICE));	/* nobody waits */
	b = push(2, 2);
	ck_assert(!asks(a, SLICE, SLICE));	/* who comes now owes nothing */
	now += SLICE;
	ck_assert(asks(a, 2 * SLICE, 2 * SLICE));
	ck_assert_int_eq(sched_put_back(s, a, 2 * SLICE, 0, 0, SCHED_ROOM_PLENTY, now), 0);
	ck_assert_uint_eq(sched_queued(s), 2);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 1), 2 * SLICE);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	ck_assert_ptr_null(sched_pick(s, now));
	/* Which is behind it by a slice. */
	ck_assert(!asks(b, SLICE - MS, SLICE - MS));
	ck_assert(asks(b, SLICE + MS, SLICE + MS));
	sched_finish(s, b, MS, false);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_uint_eq(a->device, 0);
	sched_finish(s, a, MS, false);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 1), 2 * SLICE + MS);
	ck_assert(sched_is_idle(s));
}
END_TEST

START_TEST(not_where_it_helps_nobody)
{
	struct graph_node *a = push(1, 1), *b;

	refused = 0;
	ck_assert_int_eq(sched_device_set(s, 1, 1), 0);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	refused = a->device;
	b = push(2, 2);
	b->d.kernel = 9;
	/* It can't use this device. */
	ck_assert(!asks(a, SLICE, SLICE));
	refused = SCHED_NO_DEVICE;
	ck_assert(asks(a, SLICE, SLICE));
	/* There is another lane. */
	ck_assert_int_eq(sched_device_set(s, a->device, 2), 0);
	ck_assert(!asks(a, SLICE, SLICE));
	ck_assert_ptr_eq(sched_pick(s, now), b);
	sched_finish(s, a, 1, false);
	sched_finish(s, b, 1, false);
}
END_TEST

/* It keeps its device, though the policy would have another one. */
START_TEST(goes_on_where_it_was)
{
	struct graph_node *a, *b, *c;

	ck_assert_int_eq(sched_device_set(s, 1, 1), 0);
	a = push(1, 1);
	b = push(2, 2);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	c = push(3, 3);
	ck_assert_int_eq(sched_put_back(s, a, SLICE, 0, 0, SCHED_ROOM_PLENTY, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), c);
	ck_assert_uint_eq(c->device, a->device);
	/* The other one is idle: that is no place for what has begun. */
	sched_finish(s, b, SLICE, false);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, c, SLICE, false);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_uint_eq(a->device, c->device);
	sched_finish(s, a, 1, false);
}
END_TEST

/* Among its tenant's it is the first still: so few stand aside at once. */
START_TEST(keeps_its_place)
{
	struct graph_node *a = push(1, 1), *next = push(1, 1), *b;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	b = push(2, 2);
	now += 700 * MS;
	ck_assert_int_eq(sched_put_back(s, a, 700 * MS, 0, 0, SCHED_ROOM_PLENTY, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	sched_finish(s, b, S, false);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	sched_finish(s, a, 1, false);
	ck_assert_ptr_eq(sched_pick(s, now), next);
	sched_finish(s, next, 1, false);
}
END_TEST

START_TEST(for_another_program)
{
	struct graph_node *a = push(1, 1), *same = push(1, 1), *other, *third;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	now += 2 * S;
	/* Its own tasks wait for their program. */
	ck_assert(!asks(a, 2 * S, 2 * S));
	other = push(1, 2);
	ck_assert(!asks(a, SLICE, SCHED_LONG_NS - 1));
	ck_assert(asks(a, SLICE, SCHED_LONG_NS));
	ck_assert_int_eq(sched_put_back(s, a, SLICE, SCHED_LONG_NS - 1, S, SCHED_ROOM_PLENTY, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_int_eq(sched_put_back(s, a, S, S, S, SCHED_ROOM_PLENTY, now), 1);
	/* Before what came earlier of the first one. */
	ck_assert_ptr_eq(sched_pick(s, now), other);
	now += MS;
	third = push(1, 3);
	/* Turn by turn: who has waited longest. */
	ck_assert_int_eq(sched_put_back(s, other, S, S, S, SCHED_ROOM_PLENTY, now), 1);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	now += S;
	ck_assert_int_eq(sched_put_back(s, a, S, S, S, SCHED_ROOM_PLENTY, now), 1);
	ck_assert_ptr_eq(sched_pick(s, now), third);
	sched_finish(s, third, MS, false);
	/* For as long as it ran itself; then it is as before. */
	ck_assert_ptr_eq(sched_pick(s, now), other);
	ck_assert_int_eq(sched_put_back(s, other, MS, MS, MS, SCHED_ROOM_PLENTY, now), 0);
	/* What comes only now, too. */
	now += 2 * MS;
	third = push(1, 3);
	ck_assert_ptr_eq(sched_pick(s, now), other);
	ck_assert_int_eq(sched_put_back(s, other, MS, MS, MS, SCHED_ROOM_PLENTY, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), third);
	sched_finish(s, third, MS, false);
	now += SCHED_LONG_NS;
	ck_assert_ptr_eq(sched_pick(s, now), a);
	sched_finish(s, a, MS, false);
	/* What has begun before what comes earlier, but of a program that just had its turn. */
	ck_assert_ptr_eq(sched_pick(s, now), other);
	sched_finish(s, other, MS, false);
	ck_assert_ptr_eq(sched_pick(s, now), same);
	sched_finish(s, same, MS, false);
	same = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), same);
	sched_finish(s, same, MS, false);
	ck_assert(sched_is_idle(s));
}
END_TEST

/* As if the running one had come only now, with its priority. */
START_TEST(not_for_what_is_less_urgent)
{
	struct graph_node *a = push(1, 1), *other;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	other = calloc(1, sizeof(*other));
	nodes[nr_nodes++] = other;
	other->seq = ++seq;
	other->d.opcode = ARAX_OP_LAUNCH;
	other->d.tenant = 1;
	other->d.context = 2;
	other->d.priority = 10;
	ck_assert_int_eq(sched_push(s, other, now), 0);
	ck_assert(!asks(a, 2 * S, 2 * S));
	now += 10 * SCHED_AGE_NS + 2 * MS;
	ck_assert(asks(a, 2 * S, 2 * S));
	sched_finish(s, a, 1, false);
	ck_assert_ptr_eq(sched_pick(s, now), other);
	sched_finish(s, other, 1, false);
}
END_TEST

START_TEST(removed_while_it_waits)
{
	struct graph_node *a = push(1, 1), *b;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_int_eq(sched_put_back(s, a, SLICE, 0, 0, SCHED_ROOM_PLENTY, now), 0);
	ck_assert_uint_eq(sched_running(s), 0);
	sched_remove(s, a);
	ck_assert(sched_is_idle(s));
	/* The same struct may be the next task's. */
	ck_assert_int_eq(sched_push(s, a, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_int_eq(sched_put_back(s, a, SLICE, 0, 0, SCHED_ROOM_PLENTY, now), 0);
	b = push(1, 2);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	sched_finish(s, a, 1, false);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	sched_finish(s, b, 1, false);
}
END_TEST

#define LANES	8

/* Tasks without end on some lanes of device 0, slice by slice. */
struct table {
	struct graph_node *run[LANES];
	uint64_t ran[LANES];
	uint32_t lanes;
};

static void run_slices(struct table *t, uint64_t ns, uint64_t *got)
{
	uint64_t end = now + ns;
	struct graph_node *n;
	uint32_t i;

	while (now < end) {
		for (i = 0; i < t->lanes; i++) {
			n = t->run[i] ? NULL : sched_pick(s, now);
			if (!n)
				continue;
			t->run[i] = n;
			t->ran[i] = 0;
		}
		now += SLICE;
		for (i = 0; i < t->lanes; i++) {
			n = t->run[i];
			if (!n)
				continue;
			t->ran[i] += SLICE;
			got[n->d.tenant] += SLICE;
			if (!asks(n, t->ran[i], t->ran[i]))
				continue;
			ck_assert_int_ge(sched_put_back(s, n, t->ran[i], 0, 0, SCHED_ROOM_PLENTY,
							now), 0);
			t->run[i] = NULL;
		}
	}
}

static void put_all_back(struct table *t)
{
	for (uint32_t i = 0; i < t->lanes; i++) {
		if (t->run[i])
			ck_assert_int_ge(sched_put_back(s, t->run[i], t->ran[i], 0, 0,
							SCHED_ROOM_PLENTY, now), 0);
		t->run[i] = NULL;
	}
	while (nr_nodes)
		free_node(nodes[--nr_nodes]);
	ck_assert(sched_is_idle(s));
}

static const uint32_t lane_counts[] = { 1, 2, 3, 4, 8 };

/* Whatever the number of lanes, and with as many tasks each. */
START_TEST(weights_hold)
{
	struct table t = { .lanes = lane_counts[_i] };
	uint64_t got[4] = { 0 };

	ck_assert_int_eq(sched_device_set(s, 0, t.lanes), 0);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(sched_tenant_weight(s, i + 1, 100u << i), 0);
		for (uint32_t j = 0; j < t.lanes; j++)
			push(i + 1, i + 1);
	}
	run_slices(&t, 140 * S, got);
	for (int i = 0; i < 3; i++)
		ck_assert_double_le(fabs((double)got[i + 1] /
					 (20.0 * S * t.lanes * (1 << i)) - 1), 0.01);
	put_all_back(&t);
}
END_TEST

/* Whether or not anybody else wants the device. */
START_TEST(maxima_hold)
{
	struct table t = { .lanes = lane_counts[_i] };
	uint64_t got[4] = { 0 };

	ck_assert_int_eq(sched_device_set(s, 0, t.lanes), 0);
	ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
		.id = 1, .weight = 100, .max_ns = 400 * MS, .period_ns = S }), 0);
	for (uint32_t j = 0; j < t.lanes; j++)
		push(1, 1);
	run_slices(&t, 30 * S, got);
	ck_assert_double_le(fabs((double)got[1] / (12.0 * S) - 1), 0.05);
	/* In each period, but for what all lanes run until they are looked at. */
	for (int i = 0; i < 30; i++) {
		got[1] = 0;
		run_slices(&t, S, got);
		ck_assert_uint_le(got[1], 400 * MS + t.lanes * SLICE);
	}
	for (uint32_t j = 0; j < t.lanes; j++)
		push(2, 2);
	got[1] = got[2] = 0;
	run_slices(&t, 30 * S, got);
	ck_assert_double_le(fabs((double)got[1] / (12.0 * S) - 1), 0.05);
	ck_assert_double_le(fabs((double)got[2] / ((30.0 * t.lanes - 12) * S) - 1), 0.05);
	ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
		.id = 1, .weight = 100, .max_ns = SCHED_NO_MAX }), 0);
	put_all_back(&t);
}
END_TEST

/* Who was alone has had no more than what was there: the other one gets half from now on. */
START_TEST(nothing_is_owed_for_having_been_alone)
{
	struct table t = { .lanes = lane_counts[_i] };
	uint64_t got[4] = { 0 };

	ck_assert_int_eq(sched_device_set(s, 0, t.lanes), 0);
	for (uint32_t j = 0; j < t.lanes; j++)
		push(1, 1);
	run_slices(&t, 100 * S, got);
	for (uint32_t j = 0; j < t.lanes; j++)
		push(2, 2);
	for (int i = 0; i < 10; i++) {
		got[1] = got[2] = 0;
		run_slices(&t, S, got);
		ck_assert_double_le(fabs((double)got[1] - (double)got[2]), 4.0 * SLICE * t.lanes);
	}
	put_all_back(&t);
}
END_TEST

/* Without room for more nobody begins: those that have begun change places. */
START_TEST(no_room)
{
	struct graph_node *a = push(1, 1), *b, *c;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	b = push(2, 2);
	sched_progress(s, a, SLICE, now);
	ck_assert(!sched_makes_way(s, a, SLICE, SCHED_ROOM_NONE, now));
	ck_assert(sched_makes_way(s, a, SLICE, SCHED_ROOM_SOME, now));
	ck_assert_int_eq(sched_put_back(s, a, SLICE, 0, 0, SCHED_ROOM_SOME, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	sched_progress(s, b, 2 * SLICE, now);
	ck_assert(sched_makes_way(s, b, SLICE, SCHED_ROOM_NONE, now));
	sched_finish(s, b, 2 * SLICE, false);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	/* Of its own tenant, only with plenty. */
	c = push(1, 2);
	sched_progress(s, a, 2 * S, now);
	ck_assert(!sched_makes_way(s, a, 2 * S, SCHED_ROOM_SOME, now));
	ck_assert(sched_makes_way(s, a, 2 * S, SCHED_ROOM_PLENTY, now));
	sched_finish(s, a, 2 * S, false);
	ck_assert_ptr_eq(sched_pick(s, now), c);
	sched_finish(s, c, 1, false);
}
END_TEST

/* Behind others that can't: only by its end they can. */
START_TEST(those_that_have_begun_go_on)
{
	struct graph_node *a = push(1, 1), *n;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_int_eq(sched_put_back(s, a, SLICE, 0, 0, SCHED_ROOM_SOME, now), 0);
	refused = 0;
	for (int i = 0; i < 20; i++) {
		n = calloc(1, sizeof(*n));
		nodes[nr_nodes++] = n;
		n->seq = ++seq;
		n->d.opcode = ARAX_OP_LAUNCH;
		n->d.kernel = 9;
		n->d.tenant = n->d.context = 1;
		n->d.priority = -10;
		ck_assert_int_eq(sched_push(s, n, now), 0);
	}
	ck_assert_ptr_eq(sched_pick(s, now), a);
	sched_finish(s, a, 1, false);
	ck_assert_ptr_null(sched_pick(s, now));
	refused = SCHED_NO_DEVICE;
	now += MS;
	while ((n = sched_pick(s, now)))
		sched_finish(s, n, 1, false);
	ck_assert(sched_is_idle(s));
}
END_TEST

/* However many tasks the first program has queued. */
START_TEST(for_another_program_behind_many)
{
	struct graph_node *a = push(1, 1), *other;

	ck_assert_ptr_eq(sched_pick(s, now), a);
	for (int i = 0; i < 1000; i++)
		push(1, 1);
	now += 2 * S;
	other = push(1, 2);
	ck_assert(asks(a, S, S));
	ck_assert_int_eq(sched_put_back(s, a, S, S, S, SCHED_ROOM_PLENTY, now), 1);
	ck_assert_ptr_eq(sched_pick(s, now), other);
	sched_finish(s, other, 1, false);
	while ((a = sched_pick(s, now)))
		sched_finish(s, a, 1, false);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_aside");
	TCase *t = tcase_create("aside");
	SRunner *runner;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, for_another_tenant);
	tcase_add_test(t, not_where_it_helps_nobody);
	tcase_add_test(t, goes_on_where_it_was);
	tcase_add_test(t, keeps_its_place);
	tcase_add_test(t, for_another_program);
	tcase_add_test(t, not_for_what_is_less_urgent);
	tcase_add_test(t, removed_while_it_waits);
	tcase_add_test(t, no_room);
	tcase_add_test(t, those_that_have_begun_go_on);
	tcase_add_test(t, for_another_program_behind_many);
	tcase_add_loop_test(t, weights_hold, 0, 5);
	tcase_add_loop_test(t, maxima_hold, 0, 5);
	tcase_add_loop_test(t, nothing_is_owed_for_having_been_alone, 0, 5);
	suite_add_tcase(suite, t);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
