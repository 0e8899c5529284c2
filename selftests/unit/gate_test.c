// SPDX-License-Identifier: MIT
/* gate_test - who may use a device that has to be configured, and when */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/dispatch/gate.h"
#include "daemon/memory/memory.h"
#include "selftests/unit/wait.h"

#define NEVER	UINT64_MAX

static struct gate *g;
static int configured;		/* times */
static int fail;		/* what configure() returns */

static void setup(void)
{
	configured = 0;
	fail = 0;
	ck_assert_int_eq(gate_create(&g), 0);
}

static void teardown(void)
{
	gate_destroy(g);
}

static int configure(void *arg)
{
	__atomic_add_fetch(&configured, 1, __ATOMIC_RELAXED);
	return fail;
}

static int times(void)
{
	return __atomic_load_n(&configured, __ATOMIC_RELAXED);
}

/* A task on a thread of its own: it enters, and leaves when it is told to. */
struct task {
	pthread_t thread;
	uint32_t configuration;
	uint64_t switch_ns;
	struct memory_until until;
	bool inside, leave;
	int result;
};

static void *task_main(void *arg)
{
	struct task *t = arg;

	t->result = gate_enter(g, t->configuration, t->switch_ns, configure, NULL, &t->until);
	if (t->result)
		return NULL;
	__atomic_store_n(&t->inside, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&t->leave, __ATOMIC_ACQUIRE))
		sched_yield();
	gate_leave(g);
	return NULL;
}

static void start(struct task *t, uint32_t configuration, uint64_t switch_ns)
{
	*t = (struct task){ .configuration = configuration, .switch_ns = switch_ns };
	ck_assert_int_eq(pthread_create(&t->thread, NULL, task_main, t), 0);
}

static bool is_inside(struct task *t)
{
	return __atomic_load_n(&t->inside, __ATOMIC_ACQUIRE);
}

static void await_inside(struct task *t)
{
	while (!is_inside(t))
		sched_yield();
}

static void await_waiting(uint32_t n)
{
	while (gate_waiting(g) != n)
		sched_yield();
}

static int end(struct task *t)
{
	__atomic_store_n(&t->leave, true, __ATOMIC_RELEASE);
	pthread_join(t->thread, NULL);
	return t->result;
}

START_TEST(who_tries_does_not_wait)
{
	struct task a, other;

	ck_assert(!gate_try_enter(g, 0));
	start(&a, 1, 0);
	await_inside(&a);
	ck_assert(!gate_try_enter(g, 2));
	ck_assert(gate_try_enter(g, 1));
	ck_assert(gate_try_enter(g, 0));
	gate_leave(g);
	/* Nor is anybody to wait for it longer than he must. */
	start(&other, 2, 0);
	await_waiting(1);
	ck_assert(!gate_try_enter(g, 1));
	ck_assert_int_eq(end(&a), 0);
	ck_assert(!is_inside(&other));
	gate_leave(g);
	await_inside(&other);
	ck_assert_int_eq(end(&other), 0);
	ck_assert(gate_try_enter(g, 2));
	gate_leave(g);
	gate_stop(g);
	ck_assert(!gate_try_enter(g, 2));
}
END_TEST

START_TEST(one_configuration_at_a_time)
{
	struct task a, b, other, any;

	start(&a, 1, 0);
	await_inside(&a);
	ck_assert_int_eq(times(), 1);
	start(&b, 1, 0);
	await_inside(&b);
	start(&any, 0, 0);
	await_inside(&any);
	ck_assert_int_eq(times(), 1);
	start(&other, 2, NEVER);
	await_waiting(1);
	ck_assert_int_eq(end(&a), 0);
	ck_assert_int_eq(end(&any), 0);
	await_waiting(1);
	ck_assert(!is_inside(&other));
	ck_assert_int_eq(times(), 1);
	ck_assert_int_eq(end(&b), 0);
	await_inside(&other);
	ck_assert_int_eq(times(), 2);
	ck_assert_int_eq(end(&other), 0);
	/* It stays as it is when it is empty. */
	start(&a, 2, 0);
	await_inside(&a);
	ck_assert_int_eq(times(), 2);
	ck_assert_int_eq(end(&a), 0);
}
END_TEST

/* Who would need a switch lets the others pass for as long as that would take. */
START_TEST(a_switch_waits_for_its_price)
{
	struct task a, b, other;

	start(&a, 1, 0);
	await_inside(&a);
	start(&other, 2, NEVER);
	await_waiting(1);
	start(&b, 1, 0);
	await_inside(&b);
	ck_assert(!is_inside(&other));
	ck_assert_int_eq(end(&a), 0);
	ck_assert_int_eq(end(&b), 0);
	await_inside(&other);
	ck_assert_int_eq(end(&other), 0);
	ck_assert_int_eq(times(), 2);
}
END_TEST

/* And when it has waited for that long, who comes later stands back. */
START_TEST(nobody_waits_for_ever)
{
	struct task a, b, other;

	start(&a, 1, 0);
	await_inside(&a);
	start(&other, 2, 0);
	await_waiting(1);
	start(&b, 1, NEVER);
	await_waiting(2);
	ck_assert(!is_inside(&b));
	ck_assert_int_eq(end(&a), 0);
	await_inside(&other);
	ck_assert(!is_inside(&b));
	ck_assert_int_eq(end(&other), 0);
	await_inside(&b);
	ck_assert_int_eq(end(&b), 0);
	ck_assert_int_eq(times(), 3);
}
END_TEST

START_TEST(a_failure_leaves_none)
{
	fail = -EIO;
	ck_assert_int_eq(gate_enter(g, 1, 0, configure, NULL, NULL), -EIO);
	ck_assert_int_eq(gate_enter(g, 1, 0, configure, NULL, NULL), -EIO);
	ck_assert_int_eq(times(), 2);
	fail = 0;
	ck_assert_int_eq(gate_enter(g, 1, 0, configure, NULL, NULL), 0);
	gate_leave(g);
	/* What was there before is gone as well. */
	fail = -ENODEV;
	ck_assert_int_eq(gate_enter(g, 2, 0, configure, NULL, NULL), -ENODEV);
	fail = 0;
	ck_assert_int_eq(gate_enter(g, 1, 0, configure, NULL, NULL), 0);
	gate_leave(g);
	ck_assert_int_eq(times(), 5);
}
END_TEST

/* What its device was made ready for went with that device, which is made anew. */
START_TEST(what_is_lost_is_configured_anew)
{
	struct task a, b;

	start(&a, 1, 0);
	await_inside(&a);
	ck_assert_int_eq(end(&a), 0);
	gate_forget(g);
	ck_assert(!gate_try_enter(g, 1));
	start(&b, 1, 0);
	await_inside(&b);
	ck_assert_int_eq(times(), 2);
	ck_assert_int_eq(end(&b), 0);
}
END_TEST

START_TEST(who_waits_at_the_end_is_refused)
{
	struct task a, b, c;

	start(&a, 1, 0);
	await_inside(&a);
	start(&b, 2, 0);
	await_waiting(1);
	start(&c, 1, 0);
	await_waiting(2);
	gate_stop(g);
	ck_assert_int_eq(end(&b), -ECANCELED);
	ck_assert_int_eq(end(&c), -ECANCELED);
	ck_assert_int_eq(gate_enter(g, 1, 0, configure, NULL, NULL), -ECANCELED);
	ck_assert_int_eq(end(&a), 0);
	ck_assert_int_eq(times(), 1);
}
END_TEST

/* Nor does anybody stand back for it any more. */
START_TEST(who_waits_is_canceled)
{
	struct memory_until until = { 0 };
	struct task a, b, other;

	start(&a, 1, 0);
	await_inside(&a);
	start(&other, 2, 0);
	await_waiting(1);
	start(&b, 1, NEVER);
	await_waiting(2);
	gate_cancel(g, &other.until);
	ck_assert_int_eq(end(&other), -ECANCELED);
	await_inside(&b);
	/* Told before it came. */
	gate_cancel(g, &until);
	ck_assert_int_eq(gate_enter(g, 2, 0, configure, NULL, &until), -ECANCELED);
	ck_assert_int_eq(end(&a), 0);
	ck_assert_int_eq(end(&b), 0);
	ck_assert_int_eq(times(), 1);
}
END_TEST

/* Also if the device is free before it is awake. */
START_TEST(who_was_canceled_configures_nothing)
{
	for (int i = 0; i < 100; i++) {
		struct task a, other;

		start(&a, 1, 0);
		await_inside(&a);
		start(&other, 2, 0);
		await_waiting(1);
		gate_cancel(g, &other.until);
		ck_assert_int_eq(end(&a), 0);
		ck_assert_int_eq(end(&other), -ECANCELED);
	}
	ck_assert_int_eq(times(), 1);
}
END_TEST

START_TEST(nobody_waits_beyond_his_deadline)
{
	struct memory_until until = { .deadline_ns = wait_now_ns() + 10000000 };
	struct task a, b;

	start(&a, 1, 0);
	await_inside(&a);
	ck_assert_int_eq(gate_enter(g, 2, 0, configure, NULL, &until), -ETIMEDOUT);
	/* It has passed. */
	ck_assert_int_eq(gate_enter(g, 2, 0, configure, NULL, &until), -ETIMEDOUT);
	ck_assert_uint_eq(gate_waiting(g), 0);
	b = (struct task){ .configuration = 2 };
	b.until.deadline_ns = wait_now_ns() + 600000000000;
	ck_assert_int_eq(pthread_create(&b.thread, NULL, task_main, &b), 0);
	await_waiting(1);
	ck_assert_int_eq(end(&a), 0);
	await_inside(&b);
	ck_assert_int_eq(end(&b), 0);
	ck_assert_int_eq(times(), 2);
}
END_TEST

/* ------------------------------------------------------------------ */

#define THREADS	6
#define ROUNDS	2000

static uint32_t present;	/* written with nobody inside: not atomic, for TSan */
static int inside;

static int configure_to(void *arg)
{
	ck_assert_int_eq(__atomic_load_n(&inside, __ATOMIC_RELAXED), 0);
	present = *(uint32_t *)arg;
	return 0;
}

static void *storm_main(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t c = 1 + (uint32_t)rand_r(&seed) % 3;

		ck_assert_int_eq(gate_enter(g, c, (uint64_t)rand_r(&seed) % 20000, configure_to, &c,
					    NULL), 0);
		__atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);
		ck_assert_uint_eq(present, c);
		if (i % 8 == 0)
			sched_yield();
		ck_assert_uint_eq(present, c);
		__atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
		gate_leave(g);
	}
	return NULL;
}

START_TEST(many_at_once)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, storm_main, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(gate_waiting(g), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gate");
	TCase *c = tcase_create("gate");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, one_configuration_at_a_time);
	tcase_add_test(c, who_tries_does_not_wait);
	tcase_add_test(c, a_switch_waits_for_its_price);
	tcase_add_test(c, nobody_waits_for_ever);
	tcase_add_test(c, a_failure_leaves_none);
	tcase_add_test(c, what_is_lost_is_configured_anew);
	tcase_add_test(c, who_waits_at_the_end_is_refused);
	tcase_add_test(c, who_waits_is_canceled);
	tcase_add_test(c, who_was_canceled_configures_nothing);
	tcase_add_test(c, nobody_waits_beyond_his_deadline);
	tcase_add_test(c, many_at_once);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
