// SPDX-License-Identifier: MIT
/*
 * Whose turn it is of tasks that wait for device memory (daemon/dispatch/quota.h), where it matters
 * at which point of its way the first one is.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/quota.h"
#include "daemon/dispatch/run.h"
#include "selftests/unit/wait.h"

#define OTHERS	16u	/* more than may overtake one that has no device to wait for */

static struct poller p;
static struct poller_device devs[2];
static struct run runs[2][2];
static struct memory_range ranges;
static struct graph_node large, others[OTHERS], before;
static uint64_t settles;

/* What it is about the poller: @d.kernel are devices, bits; @run_ns is set while it runs. */

bool run_could(const struct poller *poller, const struct graph_node *node, uint32_t device)
{
	(void)poller;
	return node->d.kernel >> device & 1;
}

bool run_can(void *arg, const struct graph_node *node, uint32_t device)
{
	return !devs[device].lost && run_could(arg, node, device);
}

bool run_anywhere(struct poller *poller, const struct graph_node *node)
{
	(void)poller;
	(void)node;
	return true;
}

enum graph_state graph_node_state(const struct graph_node *node)
{
	return node->run_ns ? GRAPH_RUNNING : GRAPH_POPPED;
}

int sched_push(struct sched *s, struct graph_node *node, uint64_t now_ns)
{
	(void)s;
	(void)now_ns;
	node->priv = &p;
	return 0;
}

void run_refuse(struct poller *poller, struct graph_node *node, int result)
{
	(void)poller;
	(void)node;
	ck_abort_msg("a task ends: %d", result);
}

void run_refuse_for_good(struct poller *poller, struct graph_node *node)
{
	run_refuse(poller, node, 0);
}

uint64_t memory_settles(const struct memory *m)
{
	(void)m;
	return settles;
}

void poller_kick(struct poller *poller)
{
	(void)poller;
}

static void setup(void)
{
	memset(&p, 0, sizeof(p));
	memset(runs, 0, sizeof(runs));
	memset(others, 0, sizeof(others));
	p.ticks.mult = 1ull << 32;
	p.ticks.per_us = 1000;
	p.devs = devs;
	p.nr_devs = 2;
	for (uint32_t i = 0; i < 2; i++) {
		devs[i] = (struct poller_device){ .runs = runs[i], .nr_runs = 2, .depth = 2 };
		for (uint32_t k = 0; k < 2; k++)
			runs[i][k] = (struct run){ .poller = &p, .device = i, .remote = &ranges };
	}
	large = (struct graph_node){ .d.tenant = 1, .d.kernel = 2 };
	before = large;
	for (uint32_t i = 0; i < OTHERS; i++)
		others[i] = (struct graph_node){ .d.tenant = 1, .d.kernel = 1 };
}

static void teardown(void)
{
	quota_end(&p);
}

static void start(struct run *run, struct graph_node *node, uint32_t ticket)
{
	node->run_ns = 1;
	run->node = node;
	run->handed = true;
	run->rt.ticket = ticket;
	quota_started(run);
}

static bool is_tried(const struct graph_node *node)
{
	quota_look(&p);
	return node->priv;
}

/*
 * It is on a lane of its device, behind a task that takes long: who can run elsewhere goes on
 * meanwhile.
 */
START_TEST(who_is_behind_others_holds_up_nobody)
{
	ck_assert_int_eq(quota_wait(&p, &large, settles), 0);
	for (uint32_t i = 0; i < OTHERS; i++)
		ck_assert_int_eq(quota_wait(&p, &others[i], settles), 0);
	settles++;
	ck_assert(comes_true(is_tried(&large), 100));
	start(&runs[1][0], &before, UINT32_MAX);
	start(&runs[1][1], &large, 0);
	for (uint32_t i = 0; i < OTHERS; i++) {
		ck_assert(comes_true(is_tried(&others[i]), 100));
		ck_assert(i + 1 == OTHERS || !others[i + 1].priv);
		start(&runs[0][0], &others[i], i);
		quota_entered(&runs[0][0]);
		quota_look(&p);
		quota_gone(&p, &others[i]);
	}
	quota_gone(&p, &large);
	ck_assert_ptr_null(p.quota.lines);
}
END_TEST

/* It has what it waited for, and ends. */
static void enters(struct graph_node *node)
{
	start(&runs[0][0], node, 0);
	quota_entered(&runs[0][0]);
	quota_look(&p);
	quota_gone(&p, node);
}

/* Who was overtaken often enough holds up its own tenant's tasks, and nobody else's. */
START_TEST(who_was_overtaken_holds_up_its_own)
{
	struct graph_node foreign[3] = { { .d.tenant = 2, .d.kernel = 1 } };
	const uint32_t most = 8;

	foreign[1] = foreign[0];
	foreign[2] = foreign[0];
	ck_assert_int_eq(quota_wait(&p, &large, settles), 0);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(quota_wait(&p, &foreign[i], settles), 0);
	for (uint32_t i = 0; i < OTHERS; i++)
		ck_assert_int_eq(quota_wait(&p, &others[i], settles), 0);
	settles++;
	quota_look(&p);
	ck_assert(large.priv && foreign[0].priv && others[0].priv);
	/* So that nothing is tried but when something enters. */
	p.ticks.per_us = 1000000000;
	ck_assert_int_eq(quota_wait(&p, &large, settles), 0);
	for (uint32_t i = 0; i < most; i++) {
		ck_assert_ptr_nonnull(others[i].priv);
		enters(&others[i]);
	}
	ck_assert_ptr_null(others[most].priv);
	enters(&foreign[0]);
	ck_assert_ptr_nonnull(foreign[1].priv);
	ck_assert_ptr_null(others[most].priv);
	quota_gone(&p, &large);
	enters(&foreign[1]);
	ck_assert_ptr_nonnull(foreign[2].priv);
	ck_assert_ptr_nonnull(others[most].priv);
}
END_TEST

/* One of its devices was being rebuilt when it came: it is before those that came when that was back. */
START_TEST(who_came_while_a_device_was_away_is_first)
{
	struct graph_node first = { .d.tenant = 1, .d.kernel = 3 }, second = first;

	devs[1].lost = true;
	ck_assert_int_eq(quota_wait(&p, &first, settles), 0);
	devs[1].lost = false;
	ck_assert_int_eq(quota_wait(&p, &second, settles), 0);
	settles++;
	ck_assert(comes_true(is_tried(&first), 100));
	ck_assert_ptr_null(second.priv);
	enters(&first);
	ck_assert(comes_true(is_tried(&second), 100));
	quota_gone(&p, &second);
	ck_assert_ptr_null(p.quota.lines);
}
END_TEST

/* The least CPU time of some looks while a task of each of @nr tenants waits. */
static uint64_t look_ns(uint32_t nr)
{
	struct graph_node *nodes = calloc(nr, sizeof(*nodes));
	uint64_t least = UINT64_MAX;

	ck_assert_ptr_nonnull(nodes);
	p.ticks.per_us = 1000000000;
	for (uint32_t i = 0; i < nr; i++) {
		nodes[i] = (struct graph_node){ .d.tenant = i + 1, .d.kernel = 1 };
		ck_assert_int_eq(quota_wait(&p, &nodes[i], settles), 0);
	}
	for (uint32_t i = 0; i < 20; i++) {
		struct timespec from, to;
		uint64_t ns;

		p.quota.entered = true;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		quota_look(&p);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		ns = (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u +
		     (uint64_t)to.tv_nsec - (uint64_t)from.tv_nsec;
		least = ns < least ? ns : least;
	}
	for (uint32_t i = 0; i < nr; i++) {
		ck_assert_ptr_null(nodes[i].priv);
		quota_gone(&p, &nodes[i]);
	}
	free(nodes);
	return least;
}

/* It is the poller that looks, ten thousand times a second. */
START_TEST(a_look_at_many_tenants_is_short)
{
	uint64_t few = look_ns(256), many = look_ns(4096);

	ck_assert_msg(many < 64 * few, "%llu ns for 256 tenants, %llu for 4096",
		      (unsigned long long)few, (unsigned long long)many);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("quota");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, who_is_behind_others_holds_up_nobody);
	tcase_add_test(t, who_was_overtaken_holds_up_its_own);
	tcase_add_test(t, who_came_while_a_device_was_away_is_first);
	tcase_add_test(t, a_look_at_many_tenants_is_short);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
