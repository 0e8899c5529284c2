// SPDX-License-Identifier: MIT
/*
 * sched_micro - what the daemon's scheduler costs per task
 *
 *   sched_micro [--json] [--seconds N]
 *
 * Each figure is the least of several rounds: the cost without disturbance.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/sched/sched.h"
#include "selftests/bench/micro.h"

#define TASKS	4096u

static struct graph_node nodes[TASKS];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static struct sched *make(const char *policy, unsigned int devices, unsigned int lanes)
{
	struct sched *s = sched_create(&(struct sched_params){ .policy = policy });

	if (!s) {
		perror(policy);
		exit(1);
	}
	for (unsigned int i = 0; i < devices; i++) {
		struct graph_node n = {
			.d.opcode = ARAX_OP_LAUNCH, .d.kernel = 1, .d.grid = { 64, 1, 1 },
		};

		sched_device_set(s, i, lanes);
		for (uint32_t k = 0; k < SCHED_MIN_RUNS; k++)
			sched_observe(s, sched_kernel_key(&n), i, sched_work(&n), 1000);
	}
	return s;
}

static struct graph_node *task(unsigned int i, unsigned int tenants)
{
	struct graph_node *n = &nodes[i % TASKS];

	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.kernel = 1;
	n->d.grid[0] = 64;
	n->d.tenant = 1 + i % tenants;
	n->sched.kind = 0;
	n->seq = i + 1;
	return n;
}

/* @depth tasks are queued; each picked one ends and a new one comes. */
static void queued(const char *name, const char *policy, unsigned int devices, unsigned int lanes,
		   unsigned int tenants, unsigned int depth)
{
	struct sched *s = make(policy, devices, lanes);
	uint64_t stop = now_ns() + (uint64_t)(micro_budget_s * 1e9), now = 1;
	double best = 1e9;
	unsigned int seq = 0;

	while (seq < depth)
		sched_push(s, task(seq++, tenants), now);
	do {
		const unsigned int n = 1u << 16;
		uint64_t t = now_ns();

		for (unsigned int i = 0; i < n; i++) {
			struct graph_node *node = sched_pick(s, now);

			now += 1000;
			sched_finish(s, node, 1000, true);
			/* Some slots of the array are queued still: @depth is far below its size. */
			sched_push(s, task(seq++, tenants), now);
		}
		t = now_ns() - t;
		if ((double)t / n < best)
			best = (double)t / n;
	} while (now_ns() < stop);
	sched_destroy(s);
	micro_show(name, best);
}

/* The poller runs the task itself. */
static void direct(const char *name, unsigned int tenants)
{
	struct sched *s = make("eft", 1, 1);
	uint64_t stop = now_ns() + (uint64_t)(micro_budget_s * 1e9);
	double best = 1e9;
	unsigned int seq = 0;

	do {
		const unsigned int n = 1u << 16;
		uint64_t t = now_ns();

		for (unsigned int i = 0; i < n; i++) {
			struct graph_node *node = task(seq++, tenants);

			if (!sched_is_short(s, node, 0, 20000)) {
				fprintf(stderr, "%s: the model has not learnt\n", name);
				exit(1);
			}
			sched_charge(s, node, 0, 1000, true);
		}
		t = now_ns() - t;
		if ((double)t / n < best)
			best = (double)t / n;
	} while (now_ns() < stop);
	sched_destroy(s);
	micro_show(name, best);
}

static void measure_all(void)
{
	direct("is_short + charge, 1 tenant", 1);
	direct("is_short + charge, 16 tenants", 16);
	queued("push + pick + finish, eft, 1 device, 1 tenant", "eft", 1, 1, 1, 1);
	queued("push + pick + finish, eft, 1 device, 16 tenants", "eft", 1, 1, 16, 256);
	queued("push + pick + finish, eft, 4 devices, 16 tenants", "eft", 4, 2, 16, 256);
	queued("push + pick + finish, eft, 256 devices, 1000 tenants", "eft", 256, 1, 1000, 2000);
	queued("push + pick + finish, rr, 4 devices, 16 tenants", "rr", 4, 2, 16, 256);
}

int main(int argc, char **argv)
{
	return micro_run(argc, argv, measure_all);
}
