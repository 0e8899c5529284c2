// SPDX-License-Identifier: MIT
/* What the poller does without work: how long it waits awake, and where it sleeps. */
#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/rest.h"
#include "selftests/unit/be_test.h"

#define POLL_US		50u
#define SHORT_US	20u
#define LONG_US		1000u
#define ENOUGH		10	/* sleeps in a row, for whatever takes a few */

static struct poller *p;
static struct config config;
static cpu_set_t cpus;

static void setup(void)
{
	config.loop.poll_us = POLL_US;
	p = aligned_alloc(64, (sizeof(*p) + 63) & ~(size_t)63);
	*p = (struct poller){ .config = &config, .cpus = 2 };
	ticks_init(&p->ticks);
	p->now = ticks_now(&p->ticks);
	rest_init(p);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
}

static void teardown(void)
{
	ck_assert_int_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	free(p);
}

/* As the loop does: work, perhaps a peer woken, and asleep, by the clock, for @us. */
static void work_and_sleep(uint64_t us)
{
	rest_over(p);
	rest_slept(p, ticks_now(&p->ticks) - us * p->ticks.per_us);
	p->rest.woke_peer = false;
	p->rest.next_move = 0;
}

static void wake_and_sleep(uint32_t cpu, uint64_t us)
{
	rest_woke(p, cpu);
	work_and_sleep(us);
}

/* Whether it waits awake at all. */
static bool waits(void)
{
	uint64_t since = 0;

	return rest_awake(p, &since);
}

/* Another one of this thread's than @cpu; -1: there is none. */
static int other_cpu(int cpu)
{
	int i;

	for (i = 0; i < CPU_SETSIZE; i++)
		if (i != cpu && CPU_ISSET(i, &cpus))
			return i;
	return -1;
}

static void stay_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* To be on one CPU and free to be on all. */
static void be_on(int cpu)
{
	stay_on(cpu);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

START_TEST(awake_for_a_while)
{
	uint64_t since = 0, began = ticks_now(&p->ticks), took;

	while (rest_awake(p, &since))
		;
	took = ticks_now(&p->ticks) - began;
	ck_assert_uint_ge(took, POLL_US * p->ticks.per_us);
	/* It has slept soon after that, on a CPU that nobody else wanted. */
	work_and_sleep(SHORT_US * 3);
	ck_assert(waits());
}
END_TEST

START_TEST(not_after_waking)
{
	rest_woke(p, REST_NO_CPU);
	ck_assert(!waits());
	/* But if it comes back at once, time and again. */
	wake_and_sleep(REST_NO_CPU, SHORT_US);
	rest_woke(p, REST_NO_CPU);
	ck_assert(!waits());
	work_and_sleep(SHORT_US);
	rest_woke(p, REST_NO_CPU);
	ck_assert(waits());
}
END_TEST

/* Of who sleeps on this very CPU. */
START_TEST(not_after_long_sleeps)
{
	int i, cpu = other_cpu(-1);

	stay_on(cpu);
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep((uint32_t)cpu + 1, LONG_US);
	ck_assert(waits());
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep((uint32_t)cpu, LONG_US);
	ck_assert(!waits());
	work_and_sleep(LONG_US);
	ck_assert(!waits());
	work_and_sleep(SHORT_US);
	ck_assert(waits());
}
END_TEST

START_TEST(not_with_one_cpu)
{
	p->cpus = 1;
	rest_init(p);
	ck_assert(!waits());
	p->cpus = p->cpus_taken = 2;
	rest_init(p);
	ck_assert(!waits());
}
END_TEST

static void still_free(void)
{
	cpu_set_t now;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(now), &now), 0);
	ck_assert(CPU_EQUAL(&now, &cpus));
}

/* As often as it takes: others may move this thread as well. */
START_TEST(comes_near)
{
	int here = other_cpu(-1), there = other_cpu(here), i;
	uint64_t moves = 0;

	for (i = 0; i < ENOUGH; i++) {
		while (moves == p->stats.moves) {
			be_on(i % 2 ? there : here);
			wake_and_sleep((uint32_t)(i % 2 ? here : there), LONG_US);
		}
		moves = p->stats.moves;
		still_free();
	}
}
END_TEST

/* Where it would be wrong it stays. */
START_TEST(stays)
{
	int cpu = other_cpu(-1), other = other_cpu(cpu), i;

	for (i = 0; i < ENOUGH; i++) {
		be_on(cpu);
		/* Who is busy is better off on another CPU. */
		wake_and_sleep((uint32_t)other, SHORT_US);
	}
	for (i = 0; i < ENOUGH; i++) {
		/* Two programs. */
		rest_woke(p, (uint32_t)other);
		wake_and_sleep((uint32_t)other, LONG_US);
	}
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep((uint32_t)(i % 2 ? other : cpu), LONG_US);
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep(REST_NO_CPU, LONG_US);
	/* Who is there already, and stays there: were it free others could move it meanwhile. */
	stay_on(cpu);
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep((uint32_t)cpu, LONG_US);
	/* Who has woken nobody knows of nobody. */
	for (i = 0; i < ENOUGH; i++) {
		be_on(other);
		work_and_sleep(LONG_US);
	}
	be_on(cpu);
	/* What a program says may be anything. */
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep(CPU_SETSIZE, LONG_US);
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep(INT32_MAX, LONG_US);
	/* Nor where it may not be. */
	stay_on(cpu);
	for (i = 0; i < ENOUGH; i++)
		wake_and_sleep((uint32_t)other, LONG_US);
	ck_assert_uint_eq(p->stats.moves, 0);
	ck_assert_int_eq(sched_getcpu(), cpu);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("daemon-rest");
	TCase *t = tcase_create("rest");
	cpu_set_t all;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, awake_for_a_while);
	tcase_add_test(t, not_after_waking);
	tcase_add_test(t, not_after_long_sleeps);
	tcase_add_test(t, not_with_one_cpu);
	if (!sched_getaffinity(0, sizeof(all), &all) && CPU_COUNT(&all) > 1) {
		tcase_add_test(t, comes_near);
		tcase_add_test(t, stays);
	} else {
		be_skip("comes_near", "there is one CPU");
		be_skip("stays", "there is one CPU");
	}
	suite_add_tcase(s, t);
	return be_main(s);
}
