// SPDX-License-Identifier: MIT
/*
 * Whose turn it is of tasks that wait for device memory (daemon/dispatch/quota.h), where it matters
 * at which point of its way the first one is.
 */
#include <check.h>
#include <string.h>

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

bool run_can(void *arg, const struct graph_node *node, uint32_t device)
{
	(void)arg;
	return node->d.kernel >> device & 1;
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

int main(void)
{
	Suite *s = suite_create("quota");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, who_is_behind_others_holds_up_nobody);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
