// SPDX-License-Identifier: MIT
/* sched_test - whose turn it is, which device, and how long it takes */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/policies.h"
#include "daemon/sched/sched.h"

#define MS	1000000ull

static struct sched *s;
static struct graph_node pool[4096];
static unsigned int used;
static uint64_t now;

static uint64_t transfer[4];
static uint32_t configured[4];	/* the kernel that a device is ready for; 0: all */
static uint64_t switching;
#define POLICY_NAME(c_name, name) name,
static const char *const policy_names[] = { SCHED_POLICIES(POLICY_NAME) };
static uint32_t allowed[64];	/* by kernel: bit per device; 0: all */

static uint64_t waking[2];	/* by device: until it can begin */
static unsigned int asked;	/* how often whether one can */

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	uint32_t mask = allowed[n->d.kernel];

	asked++;
	return !mask || mask >> device & 1;
}

static uint64_t transfer_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return transfer[device];
}

static uint64_t switch_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return configured[device] && configured[device] != n->d.kernel ? switching : 0;
}

static uint64_t hand_over_ns(void *arg, uint32_t device, uint64_t run_ns)
{
	return device < 2 ? waking[device] : 0;
}

static uint64_t lanes_awake;

static uint64_t awake(void *arg, uint32_t device)
{
	return lanes_awake;
}

static void make(const char *policy)
{
	s = sched_create(&(struct sched_params){
		.policy = policy,
		.ops = {
			.can_run = can_run, .transfer_ns = transfer_ns, .switch_ns = switch_ns,
			.hand_over_ns = hand_over_ns, .awake = awake,
		},
	});
	ck_assert_ptr_nonnull(s);
}

static void setup(void)
{
	make(NULL);
	memset(allowed, 0, sizeof(allowed));
	lanes_awake = 0;
	now = 1000 * MS;
	used = 0;
}

static void teardown(void)
{
	sched_destroy(s);
}

static struct graph_node *task(uint64_t tenant, uint32_t kernel)
{
	struct graph_node *n = &pool[used];

	*n = (struct graph_node){ .seq = ++used };
	n->d.tenant = tenant;
	n->d.kernel = kernel;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.grid[0] = 64;
	return n;
}

static struct graph_node *push(uint64_t tenant, uint32_t kernel)
{
	struct graph_node *n = task(tenant, kernel);

	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

static void learn(uint32_t kernel, uint32_t device, uint64_t ns)
{
	struct graph_node *n = task(1, kernel);

	for (int i = 0; i < SCHED_MIN_RUNS; i++)
		sched_observe(s, sched_kernel_key(n), device, sched_work(n), ns);
}

START_TEST(refuses_bad_values)
{
	ck_assert_ptr_null(sched_create(&(struct sched_params){ .policy = "best" }));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(sched_device_set(s, SCHED_MAX_DEVICES, 1), -EINVAL);
	ck_assert_int_eq(sched_device_set(s, 0, 5000), -EINVAL);
	ck_assert_int_eq(sched_tenant_weight(s, 1, 0), -EINVAL);
	ck_assert_int_eq(sched_tenant_weight(s, 1, 10001), -EINVAL);
}
END_TEST

START_TEST(priority_then_order)
{
	struct graph_node *a, *b, *c, *d;

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	a = task(1, 1);
	b = task(1, 1);
	c = task(1, 1);
	d = task(1, 1);
	a->d.priority = 5;
	b->d.priority = -3;
	c->d.priority = 5;
	d->d.priority = 19;
	sched_push(s, d, now);
	sched_push(s, c, now);
	sched_push(s, b, now);
	sched_push(s, a, now);
	ck_assert(!sched_is_idle(s));
	struct graph_node *order[] = { b, a, c, d };

	for (int i = 0; i < 4; i++) {
		struct graph_node *n = sched_pick(s, now);

		ck_assert_ptr_eq(n, order[i]);
		/* One lane: no more until it is free. */
		ck_assert_ptr_null(sched_pick(s, now));
		sched_finish(s, n, MS, true);
	}
	ck_assert(sched_is_idle(s));
	ck_assert_ptr_null(sched_pick(s, now));
}
END_TEST

/* However many lanes they have. */
START_TEST(equal_devices_have_equally_much)
{
	uint32_t has[4] = { 0 };

	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_int_eq(sched_device_set(s, i, 4), 0);
		learn(1, i, MS);
	}
	for (uint32_t i = 0; i < 16; i++)
		push(1, 1);
	for (uint32_t i = 0; i < 16; i++) {
		struct graph_node *n = sched_pick(s, now);

		ck_assert_ptr_nonnull(n);
		has[n->device]++;
		for (uint32_t k = 0; k < 4; k++)
			ck_assert_uint_le(has[n->device], has[k] + 1);
	}
}
END_TEST

/* A hundred of kernel 1 for device 0, and then one of kernel 2 for device 1. */
static struct graph_node *last_of_many(void)
{
	struct graph_node *n;

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	ck_assert_int_eq(sched_device_set(s, 1, 1), 0);
	allowed[2] = 2;
	for (int i = 0; i < 100; i++)
		push(1, 1);
	n = push(1, 2);
	push(1, 2);
	return n;
}

/* Whatever chooses, nobody waits for a device on which it can't run. */
START_TEST(only_busy_devices_have_those_waiting_that_need_them)
{
	struct graph_node *n;

	sched_destroy(s);
	make(policy_names[_i]);
	allowed[1] = 1;
	n = last_of_many();
	ck_assert_uint_eq(sched_pick(s, now)->d.kernel, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 1);
	/* There is no other lane for the second one. */
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, n, MS, true);
	ck_assert_ptr_eq(sched_pick(s, now), n + 1);
	sched_finish(s, n + 1, MS, true);
	/* Who could run on the busy device as well is left to the policy. */
	allowed[3] = 3;
	n = push(1, 3);
	ck_assert_ptr_null(sched_pick(s, now));
}
END_TEST

/* The same behind tasks that could run on the idle device, but would rather wait. */
START_TEST(none_waits_for_those_that_would_rather_wait)
{
	struct graph_node *n;

	learn(1, 0, MS);
	learn(1, 1, 100000 * MS);
	n = last_of_many();
	ck_assert_uint_eq(sched_pick(s, now)->device, 0);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 1);
}
END_TEST

/* A search in vain costs as much as one with success: it is not repeated for nothing. */
START_TEST(tasks_for_idle_devices_are_looked_for_now_and_then)
{
	unsigned int before;

	learn(1, 0, MS);
	learn(1, 1, 100000 * MS);
	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	ck_assert_int_eq(sched_device_set(s, 1, 1), 0);
	for (uint32_t i = 0; i < 16; i++)
		allowed[16 + i] = 1;
	for (uint32_t i = 0; i < 512; i++)
		push(1, 16 + i % 16);
	sched_pick(s, now);
	ck_assert_ptr_null(sched_pick(s, now));
	before = asked;
	push(1, 16);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_lt(asked - before, 100);
	/* In time it is. */
	now += 10 * MS;
	ck_assert_int_eq(sched_device_set(s, 2, 1), 0);
	allowed[40] = 2;
	push(1, 40);
	ck_assert_ptr_eq(sched_pick(s, now), &pool[used - 1]);
}
END_TEST

/* Tenants 1 and 2 run 3,000 tasks; returns tenant 1's share in thousandths. */
static unsigned int share_kernels(uint64_t ns1, uint64_t ns2, uint32_t kernel2)
{
	uint64_t got[3] = { 0 };

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	for (int i = 0; i < 8; i++) {
		push(1, 1);
		push(2, kernel2);
	}
	for (int i = 0; i < 3000; i++) {
		struct graph_node *n = sched_pick(s, now);
		uint64_t tenant, ns;

		ck_assert_ptr_nonnull(n);
		tenant = n->d.tenant;
		ns = tenant == 1 ? ns1 : ns2;
		now += ns;
		got[tenant] += ns;
		sched_finish(s, n, ns, true);
		n->seq += 16;
		ck_assert_int_eq(sched_push(s, n, now), 0);
	}
	ck_assert_uint_eq(sched_tenant_device_ns(s, 1), got[1]);
	return got[1] * 1000 / (got[1] + got[2]);
}

static unsigned int share(uint64_t ns1, uint64_t ns2)
{
	return share_kernels(ns1, ns2, 2);
}

START_TEST(equal_weights_share_equally)
{
	ck_assert_uint_lt(abs((int)share(MS, MS) - 500), 5);
}
END_TEST

/* It is device time that is shared, not tasks. */
START_TEST(long_tasks_gain_nothing)
{
	ck_assert_uint_lt(abs((int)share(10 * MS, MS) - 500), 10);
}
END_TEST

/* Nor if the prediction is wrong: it is replaced by what was measured. */
START_TEST(wrong_predictions_gain_nothing)
{
	ck_assert_uint_lt(abs((int)share_kernels(10 * MS, MS, 1) - 500), 10);
}
END_TEST

/* A tenant that was here before comes back while another one is busy. */
START_TEST(absence_saves_nothing)
{
	struct graph_node *n;
	unsigned int second = 0;

	sched_device_set(s, 0, 1);
	push(2, 1);
	for (int i = 0; i < 1000; i++)
		push(1, 1);
	for (int i = 0; i < 900; i++) {
		n = sched_pick(s, now);
		sched_finish(s, n, MS, true);
	}
	for (int i = 0; i < 20; i++)
		push(2, 1);
	for (int i = 0; i < 20; i++) {
		n = sched_pick(s, now);
		second += n->d.tenant == 2;
		sched_finish(s, n, MS, true);
	}
	ck_assert_uint_ge(second, 9);
	ck_assert_uint_le(second, 11);
}
END_TEST

START_TEST(weights_hold)
{
	ck_assert_int_eq(sched_tenant_weight(s, 1, 300), 0);
	ck_assert_uint_lt(abs((int)share(MS, 3 * MS) - 750), 10);
}
END_TEST

START_TEST(idling_saves_nothing)
{
	unsigned int first = 0;

	sched_device_set(s, 0, 1);
	for (int i = 0; i < 1000; i++) {
		struct graph_node *n = push(1, 1);

		ck_assert_ptr_eq(sched_pick(s, now), n);
		sched_finish(s, n, MS, true);
	}
	/* Tenant 2 was away for a second of device time: it gets half, not all. */
	for (int i = 0; i < 20; i++) {
		push(1, 1);
		push(2, 1);
	}
	for (int i = 0; i < 20; i++) {
		struct graph_node *n = sched_pick(s, now);

		first += n->d.tenant == 2;
		sched_finish(s, n, MS, true);
	}
	ck_assert_uint_ge(first, 9);
	ck_assert_uint_le(first, 11);
}
END_TEST

/* The same for tasks that the poller runs itself. */
/* How many of tenant 1's there are among the next @n picks, which all run on. */
static uint32_t picks_of_first(uint32_t n)
{
	uint32_t of_first = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct graph_node *node = sched_pick(s, now);

		ck_assert_ptr_nonnull(node);
		of_first += node->d.tenant == 1;
	}
	return of_first;
}

/* Who has lanes is charged before it is known how long: else one has all of them first. */
START_TEST(what_runs_is_charged)
{
	ck_assert_int_eq(sched_device_set(s, 0, 8), 0);
	learn(1, 0, 100 * MS);
	for (uint32_t i = 0; i < 16; i++)
		push(1, 1);
	for (uint32_t i = 0; i < 16; i++)
		push(2, 1);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(picks_of_first(2), 1);
}
END_TEST

/* And gets it back then: what was thought to take a second is charged what it took. */
START_TEST(what_was_charged_is_given_back)
{
	struct graph_node *n;

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	learn(1, 0, 1000 * MS);
	learn(2, 0, 10 * MS);
	for (uint32_t i = 0; i < 16; i++)
		push(1, 1);
	for (uint32_t i = 0; i < 200; i++)
		push(2, 2);
	do {
		n = sched_pick(s, now);
		ck_assert_ptr_nonnull(n);
		now += n->d.tenant == 1 ? MS : 10 * MS;
		sched_finish(s, n, n->d.tenant == 1 ? MS : 10 * MS, false);
	} while (n->d.tenant != 1);
	/* A task of the other's is ten of its own. */
	for (uint32_t i = 0, other = 0; i < 8; i++) {
		n = sched_pick(s, now);
		ck_assert_ptr_nonnull(n);
		other += n->d.tenant == 2;
		ck_assert_uint_le(other, 2);
		now += n->d.tenant == 1 ? MS : 10 * MS;
		sched_finish(s, n, n->d.tenant == 1 ? MS : 10 * MS, false);
	}
}
END_TEST

#define DAYS	1000000000000000ull	/* eleven and a half, in ns */

/* Nor does it ever have been charged as much as may be, for what it never took. */
START_TEST(what_was_given_back_can_be_charged_again)
{
	struct graph_node *n;

	ck_assert_int_eq(sched_device_set(s, 0, 8), 0);
	learn(1, 0, DAYS);
	learn(2, 0, 100 * MS);
	for (uint32_t i = 0; i < 4000; i++) {
		used = 0;
		n = push(1, 1);
		ck_assert_ptr_eq(sched_pick(s, now), n);
		now += MS;
		sched_finish(s, n, MS, false);
	}
	for (uint32_t i = 0; i < 16; i++)
		push(1, 2);
	for (uint32_t i = 0; i < 16; i++)
		push(2, 2);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(picks_of_first(2), 1);
}
END_TEST

/* What it has run is charged in place of what was thought, and nothing twice. */
START_TEST(what_has_run_so_far_is_charged_once)
{
	struct graph_node *n;

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	learn(1, 0, 1000 * MS);
	learn(2, 0, 10 * MS);
	push(1, 1);
	n = sched_pick(s, now);
	ck_assert_uint_eq(n->d.tenant, 1);
	for (uint32_t i = 0; i < 16; i++)
		push(1, 1);
	for (uint32_t i = 0; i < 200; i++)
		push(2, 2);
	for (uint32_t i = 1; i <= 10; i++) {
		now += 10 * MS;
		sched_progress(s, n, 10 * MS * i, now);
	}
	sched_finish(s, n, 100 * MS, false);
	/* The other has not had that, and has as much now, but not ten times as much. */
	for (uint32_t i = 0; i < 40; i++) {
		n = sched_pick(s, now);
		if (n->d.tenant == 1)
			break;
		now += 10 * MS;
		sched_finish(s, n, 10 * MS, false);
	}
	ck_assert_uint_eq(n->d.tenant, 1);
}
END_TEST

/* While it runs on: who has taken long has the next lane late. */
START_TEST(what_has_run_so_far_counts)
{
	struct graph_node *n[2];

	ck_assert_int_eq(sched_device_set(s, 0, 8), 0);
	learn(1, 0, 10 * MS);
	for (uint32_t i = 0; i < 16; i++)
		push(1 + i % 2, 1);
	for (uint32_t i = 0; i < 2; i++)
		n[i] = sched_pick(s, now);
	ck_assert_uint_eq(n[0]->d.tenant, 1);
	ck_assert_uint_eq(n[1]->d.tenant, 2);
	now += 100 * MS;
	sched_progress(s, n[0], 100 * MS, now);
	ck_assert_uint_eq(picks_of_first(6), 0);
}
END_TEST

START_TEST(inline_runs_are_charged)
{
	unsigned int first = 0;

	sched_device_set(s, 0, 1);
	for (int i = 0; i < 1000; i++)
		sched_charge(s, task(1, 1), 0, MS / 100, true);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 1), 10 * MS);
	learn(1, 0, MS / 100);
	for (int i = 0; i < 20; i++)
		push(2, 1);
	for (int i = 0; i < 10; i++) {
		push(1, 1);
		struct graph_node *n = sched_pick(s, now);

		first += n->d.tenant == 2;
		sched_finish(s, n, MS / 100, true);
	}
	ck_assert_uint_ge(first, 4);
	ck_assert_uint_le(first, 6);
}
END_TEST

START_TEST(eft_takes_the_faster)
{
	struct graph_node *n;

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	learn(1, 0, 11 * MS);
	learn(1, 1, 2 * MS);
	n = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 1);
	ck_assert_uint_eq(n->sched.predicted_ns, 2 * MS);

	/* The fast one busy for 2 ms: waiting (4 ms) beats the slow one (11 ms). */
	for (int i = 0; i < 4; i++)
		push(1, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	/* Data that lies elsewhere: 11 against 2 + 2 + 20. */
	transfer[1] = 20 * MS;
	now += MS;
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, 0);
	transfer[1] = 0;
}
END_TEST

#define US	1000ull

/* Where the thread that asks is one device's own, that one need not be woken. */
START_TEST(eft_counts_the_waking)
{
	static const struct {
		uint64_t waking[2];
		uint32_t near, device;
	} cases[] = {
		{ { 0, 0 }, SCHED_NO_DEVICE, 0 },
		{ { 60 * US, 60 * US }, SCHED_NO_DEVICE, 0 },
		{ { 60 * US, 10 * US }, SCHED_NO_DEVICE, 1 },
		{ { 20 * US, 20 * US }, 1, 0 },
		{ { 60 * US, 60 * US }, 1, 1 },
		{ { 60 * US, 60 * US }, 0, 0 },
		/* It waits awake. */
		{ { 0, 60 * US }, 1, 0 },
		/* No more than that. */
		{ { MS, 10 * US }, SCHED_NO_DEVICE, 1 },
		{ { 2 * MS, MS }, SCHED_NO_DEVICE, 0 },
	};
	static const uint64_t took[] = { 200 * US, 240 * US };
	struct graph_node *n;

	for (uint32_t i = 0; i < 2; i++) {
		sched_device_set(s, i, 1);
		learn(1, i, took[i]);
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(waking, cases[i].waking, sizeof(waking));
		sched_near(s, cases[i].near);
		n = push(1, 1);
		ck_assert_ptr_eq(sched_pick(s, now), n);
		ck_assert_msg(n->device == cases[i].device, "case %zu", i);
		now += 10 * MS;
		sched_finish(s, n, took[n->device], true);
	}
	memset(waking, 0, sizeof(waking));
}
END_TEST

/* One that is busy may take longer than it is thought to: nobody looks again in between. */
START_TEST(eft_wakes_who_sleeps)
{
	struct graph_node *n;

	for (uint32_t i = 0; i < 2; i++) {
		sched_device_set(s, i, 1);
		learn(1, i, 20 * US);
	}
	waking[1] = SCHED_HAND_OVER_MOST_NS;
	for (uint32_t i = 0; i < 2; i++) {
		n = push(1, 1);
		ck_assert_ptr_eq(sched_pick(s, now), n);
		ck_assert_uint_eq(n->device, i);
		/* It is nearly done, as far as is known. */
		now += 15 * US;
	}
	waking[1] = 0;
}
END_TEST

/* The best is free in a moment, but the other one is now, and hardly slower. */
START_TEST(eft_waits_for_no_trifle)
{
	struct graph_node *n;

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	for (uint32_t kernel = 1; kernel <= 3; kernel++) {
		learn(kernel, 0, kernel == 1 ? 2 * MS : 10 * MS);
		learn(kernel, 1, kernel == 1 ? 90 * MS : kernel == 2 ? 13 * MS : 15 * MS);
	}
	n = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 0);
	now += MS;
	/* In 1 ms: 1 + 10 against 15, and a quarter of 10 is less than that. */
	n = push(1, 3);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_remove(s, n);
	/* 13, but for what has to be brought. */
	n = push(1, 2);
	transfer[1] = MS / 10;
	ck_assert_ptr_null(sched_pick(s, now));
	transfer[1] = 0;
	sched_remove(s, n);
	n = push(1, 2);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 1);
}
END_TEST

/* How many of @tasks, one after the other, went to the second device. */
static int one_by_one(int tasks, uint64_t first_ns, uint64_t second_ns, uint64_t deadline_ns)
{
	const uint64_t ns[] = { first_ns, second_ns };
	struct graph_node *n;
	int second = 0;

	for (int i = 0; i < tasks; i++) {
		used = 0;
		n = task(1, 1);
		n->d.deadline_ns = deadline_ns;
		ck_assert_int_eq(sched_push(s, n, now), 0);
		ck_assert_ptr_eq(sched_pick(s, now), n);
		second += n->device == 1;
		now += ns[n->device];
		sched_finish(s, n, ns[n->device], true);
	}
	return second;
}

/* The better of two was measured while it was disturbed, and nobody ever has to wait. */
START_TEST(eft_doubts_few_runs)
{
	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	learn(1, 0, 2 * MS);
	learn(1, 1, 10 * MS);
	ck_assert_int_lt(one_by_one(100, 2 * MS, MS, 0), 1);
	ck_assert_int_ge(one_by_one(200, 2 * MS, MS, 0), 1);
	one_by_one(1000, 2 * MS, MS, 0);
	ck_assert_int_eq(one_by_one(100, 2 * MS, MS, 0), 100);
}
END_TEST

/* One that is slower indeed: a small part of the time is lost, and for a while only. */
START_TEST(eft_tries_with_measure)
{
	uint64_t begin = now;
	int second;

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	learn(1, 0, 2 * MS);
	learn(1, 1, 10 * MS);
	second = one_by_one(1000, 2 * MS, 10 * MS, 0);
	ck_assert_int_ge(second, 4);
	ck_assert_uint_le(now - begin, 1000 * 2 * MS + 1000 * 2 * MS / 32);
	one_by_one(3000, 2 * MS, 10 * MS, 0);
	ck_assert_int_eq(one_by_one(1000, 2 * MS, 10 * MS, 0), 0);
}
END_TEST

/* Who is asked for again and again, and waits, has run nothing. */
START_TEST(eft_tries_by_what_has_run)
{
	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	learn(1, 0, 10 * MS);
	learn(1, 1, 500 * MS);
	push(1, 1);
	ck_assert_ptr_nonnull(sched_pick(s, now));
	push(1, 1);
	for (int i = 0; i < 5000; i++) {
		now += 1000;
		/* As each task of others that comes or goes. */
		sched_near(s, SCHED_NO_DEVICE);
		ck_assert_ptr_null(sched_pick(s, now));
	}
}
END_TEST

/* What was known well before a restart is so after it. */
START_TEST(eft_tries_nothing_that_it_was_told)
{
	struct sched_known k = { .kernel = sched_kernel_key(task(1, 1)), .runs = 40, .work = 64 };

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	for (k.device = 0; k.device < 2; k.device++) {
		k.ns = k.all_ns = k.device ? 10 * MS : 2 * MS;
		sched_import(s, &k);
	}
	ck_assert_int_eq(one_by_one(1000, 2 * MS, 10 * MS, 0), 0);
}
END_TEST

START_TEST(eft_tries_nothing_with_a_deadline)
{
	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	learn(1, 0, 2 * MS);
	learn(1, 1, 10 * MS);
	ck_assert_int_eq(one_by_one(1000, 2 * MS, MS, now + 100000 * MS), 0);
}
END_TEST

/*
 * The fast one would have to be configured first: 50 + 2 against 10.  For what it is
 * ready for it is the fast one, and where the slow one is slower than that too.
 */
START_TEST(eft_counts_the_switch)
{
	struct graph_node *n;

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	for (uint32_t kernel = 1; kernel <= 3; kernel++) {
		learn(kernel, 0, kernel == 3 ? 90 * MS : 10 * MS);
		learn(kernel, 1, 2 * MS);
	}
	configured[1] = 2;
	switching = 50 * MS;
	push(1, 1);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, 0);
	sched_finish(s, n, 10 * MS, true);
	push(1, 2);
	n = sched_pick(s, now);
	ck_assert_uint_eq(n->device, 1);
	sched_finish(s, n, 2 * MS, true);
	push(1, 3);
	n = sched_pick(s, now);
	ck_assert_uint_eq(n->device, 1);
	/* Its lane is busy until that is done: 52 ms and 2 more are worse than 10, */
	configured[1] = 0;
	push(1, 2);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, 0);
	/* and data to be moved comes on top: 90 + 1 against 52 + 2 + 40. */
	sched_finish(s, n, 10 * MS, true);
	transfer[0] = MS;
	transfer[1] = 40 * MS;
	push(1, 3);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, 0);
	memset(transfer, 0, sizeof(transfer));
	switching = 0;
}
END_TEST

/*
 * Of tasks of two kinds in turn those go first that the device is ready for, for as long
 * as the switch took; then it is the others' turn.  It is not kept for nothing.
 */
START_TEST(eft_keeps_a_configuration)
{
	struct graph_node *first, *n, *other;

	sched_device_set(s, 0, 2);
	learn(1, 0, 10 * MS);
	learn(2, 0, 10 * MS);
	switching = 50 * MS;
	configured[0] = 9;
	first = push(1, 1);
	other = push(1, 2);
	push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), first);
	configured[0] = 1;
	n = sched_pick(s, now + 51 * MS);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.kernel, 1);
	sched_finish(s, n, 10 * MS, true);
	ck_assert_ptr_null(sched_pick(s, now + 99 * MS));
	ck_assert_ptr_eq(sched_pick(s, now + 100 * MS), other);
	sched_finish(s, other, 10 * MS, true);
	sched_finish(s, first, 10 * MS, true);
	/* Nothing runs. */
	configured[0] = 2;
	n = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now + 101 * MS), n);
	memset(configured, 0, sizeof(configured));
	switching = 0;
}
END_TEST

/*
 * 200 tasks of 10 ms, of two kinds in turn, on one device with two lanes, in virtual time.
 * A switch waits for what runs, and takes 50 ms.  Returns how many there were.
 */
static unsigned int run_mixed(bool told, uint64_t *took)
{
	struct graph_node *on[2] = { NULL };
	uint64_t end[2] = { 0 }, t = now, ready = now;
	unsigned int done = 0, switches = 0;
	uint32_t config = 0;

	make(NULL);
	sched_device_set(s, 0, 2);
	learn(1, 0, 10 * MS);
	learn(2, 0, 10 * MS);
	for (unsigned int i = 0; i < 200; i++)
		push(1, 1 + i % 2);
	while (done < 200) {
		unsigned int i = !on[0] ? 0 : !on[1] ? 1 : end[0] > end[1];
		struct graph_node *n;

		configured[0] = config ? config : 9;
		switching = told ? 50 * MS : 0;
		n = on[i] ? NULL : sched_pick(s, t);
		if (n) {
			if (n->d.kernel != config) {
				ready = (on[!i] && end[!i] > t ? end[!i] : t) + 50 * MS;
				config = n->d.kernel;
				switches++;
			}
			on[i] = n;
			end[i] = (t > ready ? t : ready) + 10 * MS;
			continue;
		}
		/* Nothing to start: the next one ends. */
		i = !on[0] ? 1 : !on[1] ? 0 : end[0] > end[1];
		ck_assert_ptr_nonnull(on[i]);
		t = end[i] > t ? end[i] : t;
		sched_finish(s, on[i], 10 * MS, true);
		on[i] = NULL;
		done++;
	}
	sched_destroy(s);
	*took = t - now;
	memset(configured, 0, sizeof(configured));
	switching = 0;
	return switches;
}

START_TEST(eft_switches_seldom)
{
	uint64_t told_ns, untold_ns;
	unsigned int told, untold;

	sched_destroy(s);
	untold = run_mixed(false, &untold_ns);
	used = 0;
	told = run_mixed(true, &told_ns);
	/* Each time it finds as many as it looks at, see LOOK_AHEAD. */
	ck_assert_uint_ge(untold, 100);
	ck_assert_uint_le(told, 200 / 8 + 1);
	ck_assert_uint_lt(3 * told_ns, untold_ns);
	make(NULL);
}
END_TEST

/* 2 + 2 ms on the busy fast one against 7: waiting pays, but not if others wait as well. */
START_TEST(eft_counts_the_backlog)
{
	struct graph_node *n;

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	learn(1, 0, 7 * MS);
	learn(1, 1, 2 * MS);
	push(1, 1);
	ck_assert_ptr_nonnull(sched_pick(s, now));
	push(1, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	push(1, 1);
	push(1, 1);
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->device, 0);
}
END_TEST

/* 6 ms until the faster one is free, and 6 more: the slower one's 10 are less. */
START_TEST(eft_counts_the_wait)
{
	struct graph_node *n, *m;

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	learn(1, 0, 10 * MS);
	learn(1, 1, 6 * MS);
	n = push(1, 1);
	m = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 1);
	ck_assert_ptr_eq(sched_pick(s, now), m);
	ck_assert_uint_eq(m->device, 0);
}
END_TEST

START_TEST(eft_tries_the_unknown)
{
	unsigned int on[2] = { 0 };

	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	for (int i = 0; i < 50; i++) {
		struct graph_node *n = push(1, 1);

		ck_assert_ptr_eq(sched_pick(s, now), n);
		on[n->device]++;
		sched_finish(s, n, n->device ? MS : 3 * MS, true);
	}
	ck_assert_uint_eq(on[0], SCHED_MIN_RUNS);
	ck_assert_uint_eq(on[1], 50 - SCHED_MIN_RUNS);
}
END_TEST

START_TEST(others_use_what_one_cannot)
{
	struct graph_node *a, *b;

	allowed[3] = 1;		/* kernel 3: device 0 only */
	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	a = push(1, 3);
	for (int i = 0; i < 5; i++)
		push(1, 3);
	b = push(2, 1);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_uint_eq(a->device, 0);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	ck_assert_uint_eq(b->device, 1);
	/* Inside a tenant too. */
	sched_finish(s, b, MS, true);
	b = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	ck_assert_uint_eq(b->device, 1);
	/* The order of those passed over is kept. */
	sched_finish(s, a, MS, true);
	ck_assert_uint_eq(sched_pick(s, now)->seq, a->seq + 1);
	allowed[3] = 0;
}
END_TEST

/* As many as it takes, as far as they will run soon; in the order of their picks. */
START_TEST(lanes_have_tasks_ahead)
{
	struct graph_node *n[6];
	uint32_t i;

	ck_assert_int_eq(sched_device_ahead(s, 0, 3), -EINVAL);
	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	ck_assert_int_eq(sched_device_ahead(s, 0, 3), 0);
	learn(1, 0, 50000);
	for (i = 0; i < 6; i++)
		n[i] = push(1, 1);
	for (i = 0; i < 4; i++) {
		ck_assert_ptr_eq(sched_pick(s, now), n[i]);
		ck_assert_uint_eq(n[i]->sched.lane, 0);
	}
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_eq(sched_running(s), 4);
	now += 50000;
	sched_finish(s, n[0], 50000, true);
	ck_assert_ptr_eq(sched_pick(s, now), n[4]);
	ck_assert_ptr_null(sched_pick(s, now));
	for (i = 1; i < 5; i++) {
		now += 50000;
		sched_finish(s, n[i], 50000, true);
	}
	ck_assert_ptr_eq(sched_pick(s, now), n[5]);
	sched_finish(s, n[5], 50000, true);
	ck_assert_uint_eq(sched_running(s), 0);
	/* No more. */
	ck_assert_int_eq(sched_device_ahead(s, 0, 0), 0);
	n[0] = push(1, 1);
	n[1] = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n[0]);
	ck_assert_ptr_null(sched_pick(s, now));
}
END_TEST

/* Not behind what takes long, or nobody knows how long, or longer than it should. */
/* Where the scheduler says which lane it is. */
START_TEST(who_is_awake_has_the_next)
{
	/* Two that are, and one that there is not. */
	const uint32_t lanes[] = { 1, 3, 0, 2 };
	uint32_t i;

	ck_assert_int_eq(sched_device_set(s, 0, 4), 0);
	ck_assert_int_eq(sched_device_ahead(s, 0, 1), 0);
	lanes_awake = 1 << 1 | 1 << 3 | 1ull << 40;
	for (i = 0; i < 4; i++) {
		struct graph_node *n = push(1, 1);

		ck_assert_ptr_eq(sched_pick(s, now), n);
		ck_assert_uint_eq(n->sched.lane, lanes[i]);
	}
}
END_TEST

START_TEST(none_wait_long_ahead)
{
	struct graph_node *a, *b;

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	ck_assert_int_eq(sched_device_ahead(s, 0, 3), 0);
	learn(1, 0, SCHED_AHEAD_NS * 3 / 4);
	learn(2, 0, SCHED_AHEAD_NS * 2);
	a = push(1, 1);
	b = push(1, 1);
	push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, a, 1000, false);
	sched_finish(s, b, 1000, false);
	now += MS;
	a = sched_pick(s, now);
	ck_assert_ptr_nonnull(a);
	now += SCHED_AHEAD_NS;
	push(1, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, a, 1000, false);
	a = sched_pick(s, now);
	sched_finish(s, a, 1000, false);
	a = push(1, 2);
	push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_null(sched_pick(s, now));
	/* But for its last part. */
	now += SCHED_AHEAD_NS * 3 / 2;
	b = sched_pick(s, now);
	ck_assert_ptr_nonnull(b);
	sched_finish(s, a, 1000, false);
	sched_finish(s, b, 1000, false);
	a = push(1, 3);
	push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_null(sched_pick(s, now));
}
END_TEST

/* Who is idle comes first; then where it ends first. */
START_TEST(ahead_comes_after_idle)
{
	struct graph_node *a, *b, *c, *d;

	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(sched_device_set(s, i, 1), 0);
		ck_assert_int_eq(sched_device_ahead(s, i, 1), 0);
	}
	learn(1, 0, 50000);
	learn(1, 1, 60000);
	a = push(1, 1);
	b = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	ck_assert_uint_eq(a->device, 0);
	ck_assert_uint_eq(b->device, 1);
	c = push(1, 1);
	d = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), c);
	ck_assert_uint_eq(c->device, 0);
	ck_assert_ptr_eq(sched_pick(s, now), d);
	ck_assert_uint_eq(d->device, 1);
	push(1, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	/* Offline: what it has comes to its end, and nothing is booked. */
	ck_assert_int_eq(sched_device_set(s, 0, 0), 0);
	sched_finish(s, a, 50000, true);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, c, 50000, true);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, b, 60000, true);
	a = sched_pick(s, now);
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(a->device, 1);
}
END_TEST

/* Who is behind another one's task waits for as long as that takes: nobody is. */
START_TEST(ahead_of_ones_own_alone)
{
	struct graph_node *a, *b, *c, *d;

	ck_assert_int_eq(sched_device_set(s, 0, 2), 0);
	ck_assert_int_eq(sched_device_ahead(s, 0, 3), 0);
	learn(1, 0, 50000);
	a = push(1, 1);
	b = push(1, 1);
	b->d.context = 5;
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	c = push(2, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	/* Nor behind another program of the same tenant. */
	d = push(1, 1);
	d->d.context = 6;
	ck_assert_ptr_null(sched_pick(s, now));
	d = push(1, 1);
	d->d.context = 5;
	ck_assert_ptr_eq(sched_pick(s, now), d);
	ck_assert_uint_eq(d->sched.lane, b->sched.lane);
	/* It stays the second tenant's turn. */
	sched_finish(s, a, 50000, true);
	ck_assert_ptr_eq(sched_pick(s, now), c);
}
END_TEST

/* Pushed and picked. */
static struct graph_node *started(uint64_t tenant, uint32_t kernel)
{
	struct graph_node *n = push(tenant, kernel);

	ck_assert_ptr_eq(sched_pick(s, now), n);
	return n;
}

/* It stays as it is. */
static void refuse(struct graph_node *n, uint32_t device, uint32_t lane)
{
	uint32_t queued = sched_queued(s), running = sched_running(s);

	ck_assert_int_eq(sched_book(s, n, device, lane, now), -EAGAIN);
	ck_assert_ptr_null(n->sched.flow);
	ck_assert_uint_eq(sched_queued(s), queued);
	ck_assert_uint_eq(sched_running(s), running);
}

/* @before, all that runs, ends, so that @n waits no more: it runs like any other. */
static void run_after(struct graph_node *before, struct graph_node *n)
{
	sched_finish(s, before, 1000, false);
	ck_assert(sched_is_idle(s));
	ck_assert_int_eq(sched_push(s, n, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	sched_finish(s, n, 1000, false);
	ck_assert(sched_is_idle(s));
}

static void finish_both(struct graph_node *a, struct graph_node *b)
{
	sched_finish(s, a, 50000, true);
	sched_finish(s, b, 50000, true);
}

static void book(struct graph_node *n, uint32_t device, uint32_t lane)
{
	ck_assert_int_eq(sched_book(s, n, device, lane, now), 0);
	ck_assert_uint_eq(n->device, device);
	ck_assert_uint_eq(n->sched.lane, lane);
}

static void setup_lanes(uint32_t lanes)
{
	ck_assert_int_eq(sched_device_set(s, 0, lanes), 0);
	ck_assert_int_eq(sched_device_ahead(s, 0, 3), 0);
	learn(1, 0, 50000);
}

/* Behind what it waits for, although it would find an idle lane if it did not. */
START_TEST(followers_are_booked)
{
	struct graph_node *a, *b, *c, *d;

	setup_lanes(2);
	a = started(1, 1);
	b = task(1, 1);
	book(b, 0, a->sched.lane);
	ck_assert_uint_eq(sched_running(s), 2);
	ck_assert_uint_eq(sched_queued(s), 0);
	/* The idle one is others' still, and no other. */
	c = started(2, 2);
	ck_assert_uint_ne(c->sched.lane, a->sched.lane);
	d = push(2, 2);
	ck_assert_ptr_null(sched_pick(s, now));
	now += 50000;
	sched_finish(s, a, 50000, true);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, b, 60000, true);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 1), 110000);
	ck_assert_ptr_eq(sched_pick(s, now), d);
	ck_assert_uint_eq(d->sched.lane, b->sched.lane);
	sched_finish(s, c, 1000, true);
	sched_finish(s, d, 1000, true);
	ck_assert(sched_is_idle(s));
	/* Both are. */
	a = started(1, 2);
	b = started(2, 2);
	ck_assert_uint_ne(a->sched.lane, b->sched.lane);
	push(1, 2);
	ck_assert_ptr_null(sched_pick(s, now));
}
END_TEST

/* As many as it takes, however long these take together: none of them could begin earlier. */
START_TEST(followers_fill_a_lane)
{
	struct graph_node *n[6];

	setup_lanes(1);
	learn(3, 0, SCHED_AHEAD_NS);
	n[0] = started(1, 3);
	for (uint32_t i = 1; i < 6; i++)
		n[i] = task(1, 3);
	for (uint32_t i = 1; i < 4; i++)
		book(n[i], 0, 0);
	refuse(n[4], 0, 0);
	sched_finish(s, n[0], SCHED_AHEAD_NS, true);
	book(n[4], 0, 0);
	refuse(n[5], 0, 0);
	for (uint32_t i = 1; i < 4; i++)
		sched_finish(s, n[i], SCHED_AHEAD_NS, true);
	run_after(n[4], n[5]);
}
END_TEST

/* What is long is alone behind one. */
START_TEST(followers_are_not_long)
{
	struct graph_node *a, *b, *c;

	setup_lanes(1);
	learn(2, 0, SCHED_AHEAD_NS + 1);
	learn(3, 0, SCHED_BOOK_NS);
	learn(4, 0, SCHED_BOOK_NS + 1);
	a = started(1, 1);
	c = task(1, 4);
	refuse(c, 0, 0);
	b = task(1, 3);
	book(b, 0, 0);
	refuse(c, 0, 0);
	c = task(1, 2);
	refuse(c, 0, 0);
	sched_finish(s, a, 50000, true);
	book(c, 0, 0);
	sched_finish(s, b, SCHED_BOOK_NS, true);
	a = task(1, 4);
	refuse(a, 0, 0);
	run_after(c, a);
	/* Nor behind several short ones: they count together. */
	a = started(1, 1);
	b = task(1, 2);
	book(b, 0, 0);
	c = task(1, 3);
	refuse(c, 0, 0);
	sched_finish(s, a, 50000, true);
	run_after(b, c);
	/* Where nothing is ahead of another neither a short one is, nor a long one. */
	ck_assert_int_eq(sched_device_ahead(s, 0, 0), 0);
	a = started(1, 1);
	for (uint32_t kernel = 1; kernel <= 3; kernel++) {
		b = task(1, kernel);
		refuse(b, 0, 0);
	}
	run_after(a, b);
}
END_TEST

START_TEST(unknown_followers_wait)
{
	struct graph_node *a, *b;

	setup_lanes(1);
	a = started(1, 1);
	b = task(1, 2);
	refuse(b, 0, 0);
	/* Elsewhere it is known. */
	learn(2, 1, 50000);
	refuse(b, 0, 0);
	run_after(a, b);
	a = started(1, 1);
	b = task(1, 2);
	learn(2, 0, 50000);
	book(b, 0, 0);
	finish_both(a, b);
	/* What is before it may take as long as it likes. */
	a = started(1, 3);
	b = task(1, 1);
	book(b, 0, 0);
	finish_both(a, b);
	ck_assert(sched_is_idle(s));
}
END_TEST

/* Others don't wait for those that wait. */
START_TEST(followers_come_after_the_queue)
{
	struct graph_node *a, *b, *c;

	setup_lanes(1);
	a = started(1, 1);
	b = task(1, 1);
	c = push(2, 1);
	refuse(b, 0, 0);
	ck_assert_ptr_null(sched_pick(s, now));
	refuse(b, 0, 0);
	sched_remove(s, c);
	book(b, 0, 0);
	finish_both(a, b);
	a = started(1, 1);
	b = task(1, 1);
	c = push(2, 1);
	refuse(b, 0, 0);
	sched_finish(s, a, 50000, true);
	ck_assert_ptr_eq(sched_pick(s, now), c);
	refuse(b, 0, 0);
	run_after(c, b);
}
END_TEST

/* A lane that has none, or another program's, or that there is not. */
START_TEST(followers_follow_their_own)
{
	struct graph_node *a, *b, *c;

	setup_lanes(2);
	a = started(1, 1);
	b = task(1, 1);
	refuse(b, 0, !a->sched.lane);
	refuse(b, 0, 2);
	refuse(b, 1, 0);
	c = task(2, 1);
	refuse(c, 0, a->sched.lane);
	run_after(a, b);
	/* Nor those that there were. */
	refuse(task(1, 1), 0, 0);
	a = started(1, 1);
	refuse(c, 0, a->sched.lane);
	/* Now this tenant is known. */
	b = started(2, 1);
	refuse(c, 0, a->sched.lane);
	book(c, 0, b->sched.lane);
	finish_both(c, b);
	c = task(1, 1);
	c->d.context = 5;
	refuse(c, 0, a->sched.lane);
	run_after(a, c);
}
END_TEST

START_TEST(followers_go_where_they_should)
{
	struct graph_node *a, *b, *c;

	setup_lanes(1);
	learn(1, 1, 5000);
	learn(2, 0, MS);
	learn(2, 1, 50 * MS);
	learn(3, 0, MS);
	a = started(1, 1);
	ck_assert_int_eq(sched_device_set(s, 1, 1), 0);
	ck_assert_int_eq(sched_device_ahead(s, 1, 3), 0);
	/* There it would be done earlier. */
	b = task(1, 1);
	refuse(b, 0, 0);
	/* There nobody knows. */
	c = task(1, 3);
	refuse(c, 0, 0);
	/* That the place was looked at does not make it anybody's. */
	ck_assert_int_eq(sched_push(s, b, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	ck_assert_uint_eq(b->device, 1);
	c = task(1, 1);
	book(c, 1, 0);
	sched_finish(s, b, 5000, true);
	sched_finish(s, c, 5000, true);
	b = task(1, 2);
	book(b, 0, 0);
	sched_finish(s, a, 50000, true);
	c = push(2, 2);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, b, MS, true);
	ck_assert_ptr_eq(sched_pick(s, now), c);
	ck_assert_uint_eq(c->device, 0);
	sched_finish(s, c, MS, true);
	/* It can't run there at all. */
	a = started(1, 2);
	b = task(1, 4);
	learn(4, 0, 50000);
	allowed[4] = 2;
	refuse(b, 0, 0);
	run_after(a, b);
	ck_assert_uint_eq(b->device, 1);
	allowed[4] = 0;
}
END_TEST

START_TEST(followers_keep_to_the_maximum)
{
	struct sched_tenant t = { .id = 1, .weight = 100, .max_ns = 100000, .period_ns = MS };
	struct graph_node *a, *b, *c;

	setup_lanes(1);
	/* From when it is told. */
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_int_eq(sched_tenant_set(s, &t), 0);
	a = started(1, 1);
	b = task(1, 1);
	c = task(1, 1);
	book(b, 0, 0);
	refuse(c, 0, 0);
	now += MS;
	/* This period's are two as well. */
	book(c, 0, 0);
	sched_finish(s, a, 50000, true);
	a = task(1, 1);
	book(a, 0, 0);
	sched_finish(s, b, 50000, true);
	b = task(1, 1);
	refuse(b, 0, 0);
	finish_both(c, a);
	ck_assert(sched_is_idle(s));
	ck_assert_int_eq(sched_push(s, b, now), 0);
	ck_assert_ptr_null(sched_pick(s, now));
	now = sched_next_wake(s);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	sched_finish(s, b, 50000, true);
	ck_assert(sched_is_idle(s));
}
END_TEST

START_TEST(followers_leave_what_is_offline)
{
	struct graph_node *a, *b;

	setup_lanes(1);
	a = started(1, 1);
	b = task(1, 1);
	ck_assert_int_eq(sched_device_set(s, 0, 0), 0);
	refuse(b, 0, 0);
	sched_finish(s, a, 50000, true);
	refuse(b, 0, 0);
	ck_assert_int_eq(sched_push(s, b, now), 0);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	a = task(1, 1);
	book(a, 0, 0);
	/* What is there comes to its end. */
	ck_assert_int_eq(sched_device_set(s, 0, 0), 0);
	finish_both(b, a);
	ck_assert(sched_is_idle(s));
	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	started(1, 1);
}
END_TEST

/* Its lane is another one's, and its tenant is charged for all of it. */
START_TEST(who_leaves_is_not_done)
{
	struct graph_node *a, *b, *c;

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	a = push(1, 1);
	b = push(1, 1);
	c = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_leave(s, a, MS);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_eq(sched_running(s), 2);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 1), 0);
	sched_finish(s, a, 3 * MS, false);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 1), 3 * MS);
	ck_assert_ptr_null(sched_pick(s, now));
	/* It may have to be run again. */
	ck_assert_int_eq(sched_push(s, a, now), 0);
	sched_finish(s, b, MS, false);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, a, MS, false);
	ck_assert_ptr_eq(sched_pick(s, now), c);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, c, MS, false);
	ck_assert(sched_is_idle(s));
}
END_TEST

/* Tasks of one tenant, as many as there are, in their order; and nothing is taken. */
START_TEST(next_are_in_turn)
{
	struct graph_node *n[6], *next[SCHED_NEXT];

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	for (uint32_t i = 0; i < 6; i++)
		n[i] = push(1, 1);
	/* It has a lane for them. */
	ck_assert_uint_eq(sched_next(s, 0, next, SCHED_NEXT, now), 0);
	ck_assert_uint_eq(sched_next(s, 7, next, SCHED_NEXT, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), n[0]);
	ck_assert_uint_eq(sched_next(s, 0, next, 2, now), 2);
	ck_assert_ptr_eq(next[0], n[1]);
	ck_assert_ptr_eq(next[1], n[2]);
	ck_assert_uint_eq(sched_next(s, 0, next, SCHED_NEXT, now), 4);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_ptr_eq(next[i], n[1 + i]);
	ck_assert_uint_eq(sched_queued(s), 5);
	for (uint32_t i = 1; i < 6; i++) {
		sched_finish(s, n[i - 1], MS, true);
		ck_assert_ptr_eq(sched_pick(s, now), n[i]);
	}
	ck_assert_uint_eq(sched_next(s, 0, next, SCHED_NEXT, now), 0);
	/* Offline it is given nothing. */
	push(1, 1);
	ck_assert_int_eq(sched_device_set(s, 0, 0), 0);
	ck_assert_uint_eq(sched_next(s, 0, next, SCHED_NEXT, now), 0);
}
END_TEST

/* Who has many does not have them all come before another one's first. */
START_TEST(next_are_shared)
{
	struct graph_node *next[SCHED_NEXT], *running;
	uint32_t of[3] = { 0 };

	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	learn(1, 0, MS);
	ck_assert_int_eq(sched_tenant_weight(s, 2, 200), 0);
	running = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), running);
	for (uint32_t i = 0; i < 8; i++)
		push(1, 1);
	for (uint32_t i = 0; i < 8; i++)
		push(2, 1);
	ck_assert_uint_eq(sched_next(s, 0, next, 4, now), 4);
	for (uint32_t i = 0; i < 4; i++)
		of[next[i]->d.tenant]++;
	ck_assert_uint_ge(of[1], 1);
	ck_assert_uint_ge(of[2], 2);
	ck_assert_uint_eq(next[0]->d.tenant, 2);
	/* As the picks that follow. */
	for (uint32_t i = 0; i < 4; i++) {
		sched_finish(s, running, MS, true);
		now += MS;
		running = sched_pick(s, now);
		ck_assert_ptr_eq(running, next[i]);
	}
}
END_TEST

/* Not those that would go elsewhere, nor those that nobody can be asked about. */
START_TEST(next_are_its_own)
{
	struct graph_node *a, *b, *next[SCHED_NEXT];

	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(sched_device_set(s, i, 1), 0);
	learn(1, 0, MS);
	learn(1, 1, 100 * MS);
	allowed[2] = 2;
	allowed[3] = 1;
	a = push(1, 1);
	b = push(1, 2);
	ck_assert_ptr_eq(sched_pick(s, now), a);
	ck_assert_ptr_eq(sched_pick(s, now), b);
	a = push(1, 1);
	b = push(1, 2);
	ck_assert_uint_eq(sched_next(s, 0, next, SCHED_NEXT, now), 1);
	ck_assert_ptr_eq(next[0], a);
	ck_assert_uint_eq(sched_next(s, 1, next, SCHED_NEXT, now), 1);
	ck_assert_ptr_eq(next[0], b);
	ck_assert_int_eq(sched_policy_set(s, "rr"), 0);
	ck_assert_uint_eq(sched_next(s, 0, next, SCHED_NEXT, now), 0);
	ck_assert_uint_eq(sched_next(s, 1, next, SCHED_NEXT, now), 1);
	ck_assert_ptr_eq(next[0], b);
}
END_TEST

START_TEST(rr_takes_turns)
{
	sched_destroy(s);
	make("rr");
	for (uint32_t i = 0; i < 3; i++)
		sched_device_set(s, i, 2);
	for (uint32_t i = 0; i < 6; i++) {
		push(1, 1);
		ck_assert_uint_eq(sched_pick(s, now)->device, i % 3);
	}
	push(1, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_eq(sched_running(s), 6);
	ck_assert_uint_eq(sched_queued(s), 1);
}
END_TEST

START_TEST(offline_devices_take_nothing)
{
	struct graph_node *n, *m;

	sched_device_set(s, 0, 2);
	n = push(1, 1);
	m = push(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	sched_device_set(s, 0, 0);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_finish(s, n, MS, false);
	ck_assert_ptr_null(sched_pick(s, now));
	sched_device_set(s, 0, 1);
	ck_assert_ptr_eq(sched_pick(s, now), m);
}
END_TEST

START_TEST(removed_tasks_are_not_picked)
{
	struct graph_node *n[100];
	unsigned int left = 0;

	sched_device_set(s, 0, 1);
	for (int i = 0; i < 100; i++)
		n[i] = push(i % 7, 1);
	for (int i = 0; i < 100; i += 3)
		sched_remove(s, n[i]);
	sched_remove(s, n[0]);
	for (struct graph_node *m; (m = sched_pick(s, now)); left++) {
		ck_assert_uint_ne((m->seq - 1) % 3, 0);
		sched_finish(s, m, 1000, true);
	}
	ck_assert_uint_eq(left, 66);
	ck_assert(sched_is_idle(s));
}
END_TEST

/*
 * Thousands of tenants that come and go leave nothing; weights stay as long as they are
 * told: without that, not even those are kept which had one.
 */
START_TEST(tenants_come_and_go)
{
	sched_device_set(s, 0, 1);
	for (uint64_t i = 99; i < 100000; i++) {
		used = 0;
		struct graph_node *n = push(i == 99 ? 7 : i, 1);

		if (i > 99)
			sched_tenant_weight(s, i, 200);
		sched_tenant_weight(s, 7, 400);
		sched_round(s);
		ck_assert_ptr_eq(sched_pick(s, now), n);
		sched_finish(s, n, 1000, true);
	}
	ck_assert_uint_eq(sched_tenant_device_ns(s, 7), 1000);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 100), 0);
	ck_assert_uint_eq(sched_tenant_device_ns(s, 99999), 1000);
}
END_TEST

/* However many kernels programs bring, what is known of others keeps its room. */
START_TEST(own_kernels_share_records)
{
	struct graph_node *n = task(1, 1), *own = task(1, 1);
	uint64_t keys[200];
	uint32_t nr = 0, j;

	n->d.opcode = own->d.opcode = ARAX_OP_LAUNCH;
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t key;

		own->d.context = i / 100;
		own->d.kernel = ARAX_KERNEL_OWN | (i * 7919u & ~ARAX_KERNEL_OWN);
		key = sched_kernel_key(own);
		ck_assert_uint_ne(key, 0);
		for (j = 0; j < nr && keys[j] != key; j++)
			;
		if (j < nr)
			continue;
		ck_assert_uint_lt(nr, 100);
		keys[nr++] = key;
		/* None that an installed one could have. */
		n->d.kernel = (uint32_t)key & ~ARAX_KERNEL_OWN;
		ck_assert_uint_ne(sched_kernel_key(n), key);
	}
	ck_assert_uint_gt(nr, 1);
}
END_TEST

/* What one tenant's take says nothing of another's, though both are the first of their programs. */
START_TEST(own_kernels_are_a_tenants)
{
	struct graph_node *a = task(1, 1), *b = task(1, 1);
	uint32_t nr = 0;

	a->d.opcode = b->d.opcode = ARAX_OP_LAUNCH;
	a->d.kernel = b->d.kernel = ARAX_KERNEL_OWN | 1;
	a->d.context = b->d.context = 1;
	b->d.tenant = a->d.tenant + 1;
	for (int i = 0; i < SCHED_MIN_RUNS; i++)
		sched_observe(s, sched_kernel_key(a), 0, sched_work(a), 1000000);
	ck_assert_uint_ne(sched_predict_ns(s, sched_kernel_key(a), 0, sched_work(a)), 0);
	ck_assert_uint_eq(sched_predict_ns(s, sched_kernel_key(b), 0, sched_work(b)), 0);
	/* Nor do all other ones of some more. */
	for (uint64_t t = 2; t < 1000; t++) {
		b->d.tenant = t;
		nr += sched_kernel_key(a) == sched_kernel_key(b);
	}
	ck_assert_uint_le(nr, 1000 / 16);
}
END_TEST

/* Of all sizes, on all devices. */
START_TEST(own_kernels_leave_room)
{
	struct graph_node *own = task(1, 1);
	uint64_t key;

	own->d.opcode = ARAX_OP_LAUNCH;
	for (uint32_t i = 0; i < 64 * 200; i++) {
		own->d.tenant = i / 64;
		own->d.kernel = ARAX_KERNEL_OWN | i % 64;
		key = sched_kernel_key(own);
		for (uint32_t size = 0; size < 30; size++)
			sched_observe(s, key, i % 2, 1ull << size, 1000);
	}
	for (uint64_t i = 1; i <= SCHED_MAX_RECORDS / 4; i++)
		for (int k = 0; k < SCHED_MIN_RUNS; k++)
			sched_observe(s, i, 0, 1, 1000 + i);
	ck_assert_uint_eq(sched_predict_ns(s, SCHED_MAX_RECORDS / 4, 0, 1),
			  1000 + SCHED_MAX_RECORDS / 4);
}
END_TEST

START_TEST(model_learns)
{
	struct graph_node *n = task(1, 1), *big = task(1, 1);
	uint64_t key = sched_kernel_key(n), work = sched_work(n);
	struct sched_estimate e;

	big->d.grid[1] = 1000;
	for (int i = 0; i < SCHED_MIN_RUNS; i++) {
		ck_assert_uint_eq(sched_predict_ns(s, key, 0, work), 0);
		ck_assert(!sched_is_short(s, n, 0, 5000));
		sched_observe(s, key, 0, work, 1000);
	}
	ck_assert_uint_eq(sched_predict_ns(s, key, 0, work), 1000);
	ck_assert(sched_is_short(s, n, 0, 5000));
	ck_assert(!sched_is_short(s, n, 0, 1000));
	/* Another device, another size: unknown. */
	ck_assert_uint_eq(sched_predict_ns(s, key, 1, work), 0);
	ck_assert_uint_eq(sched_predict_ns(s, key, 0, sched_work(big)), 0);
	ck_assert(!sched_is_short(s, big, 0, 5000));
	/* One run in a hundred that is disturbed costs little. */
	for (int i = 0; i < 500; i++) {
		sched_observe(s, key, 0, work, i % 100 == 99 ? 60000 : 1000);
		ck_assert(sched_is_short(s, n, 0, 5000));
	}
	/* One in ten: the mean of the others still is short, the task is not. */
	for (int i = 0; i < 500; i++)
		sched_observe(s, key, 0, work, i % 10 == 9 ? 60000 : 1000);
	e = sched_estimate(s, key, 0, work);
	ck_assert_uint_lt(e.ns, 5000);
	ck_assert_uint_gt(e.all_ns, 5000);
	ck_assert(!sched_is_short(s, n, 0, 5000));
	for (int i = 0; i < 300; i++)
		sched_observe(s, key, 0, work, 1000);
	ck_assert(sched_is_short(s, n, 0, 5000));
	/* Nor is one that took so long that a hundred others would not make up for it. */
	sched_observe(s, key, 0, work, 1000000);
	ck_assert_uint_lt(sched_estimate(s, key, 0, work).ns, 5000);
	ck_assert(!sched_is_short(s, n, 0, 5000));
	/* It follows a change. */
	for (int i = 0; i < 60; i++)
		sched_observe(s, key, 0, work, 8000);
	ck_assert_uint_gt(sched_predict_ns(s, key, 0, work), 7500);
}
END_TEST

START_TEST(markers_are_short)
{
	struct graph_node *n = task(1, 1);

	n->d.opcode = ARAX_OP_MARKER;
	ck_assert(sched_is_short(s, n, 0, 1));
}
END_TEST

START_TEST(model_is_bounded)
{
	for (uint64_t i = 1; i < 3 * SCHED_MAX_RECORDS; i++)
		for (int k = 0; k < SCHED_MIN_RUNS; k++)
			sched_observe(s, i, 0, 1, 1000 + i);
	ck_assert_uint_eq(sched_predict_ns(s, 5, 0, 1), 1005);
	ck_assert_uint_eq(sched_predict_ns(s, SCHED_MAX_RECORDS / 2, 0, 1),
			  1000 + SCHED_MAX_RECORDS / 2);
	ck_assert_uint_eq(sched_predict_ns(s, 3 * SCHED_MAX_RECORDS - 1, 0, 1), 0);
}
END_TEST

/* Kernels that deal what their ranges hold to a grid of the device's size are not all alike. */
START_TEST(large_launches_are_not_small_ones)
{
	struct arax_dispatch_range r[2] = { { .length = 4 << 20, .count = 1 },
					    { .length = 1 << 10, .stride = 1 << 12, .count = 1 << 10 } };
	struct graph_node *n = task(1, 1);

	n->d.grid[0] = 64;
	ck_assert_uint_eq(sched_work(n), 64);
	n->ranges = r;
	n->d.nr_ranges = 2;
	ck_assert_uint_eq(sched_work(n), (5 << 20) / SCHED_LINE);
	for (int i = 0; i < SCHED_MIN_RUNS; i++)
		sched_observe(s, sched_kernel_key(n), 0, sched_work(n), MS);
	r[0].length = 1000;
	n->d.nr_ranges = 1;
	ck_assert_uint_eq(sched_work(n), 64);
	ck_assert_uint_eq(sched_predict_ns(s, sched_kernel_key(n), 0, sched_work(n)), 0);
	/* A grid of items is what it is. */
	n->d.block[0] = 256;
	ck_assert_uint_eq(sched_work(n), 64 * 256);
	/* And what is known of the kernel says most. */
	n->sched.work = 5;
	ck_assert_uint_eq(sched_work(n), 5);
}
END_TEST

START_TEST(work_does_not_overflow)
{
	struct graph_node *n = task(1, 1);

	for (int i = 0; i < 3; i++) {
		n->d.grid[i] = ~0u;
		n->d.block[i] = 0xffff;
	}
	ck_assert_uint_eq(sched_work(n), UINT64_MAX);
	sched_observe(s, 1, 0, UINT64_MAX, UINT64_MAX);
	sched_observe(s, 1, 0, UINT64_MAX, UINT64_MAX);
	sched_observe(s, 1, 0, UINT64_MAX, UINT64_MAX);
	ck_assert_uint_gt(sched_predict_ns(s, 1, 0, UINT64_MAX), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched");
	TCase *c = tcase_create("sched");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, refuses_bad_values);
	tcase_add_test(c, priority_then_order);
	tcase_add_loop_test(c, only_busy_devices_have_those_waiting_that_need_them, 0,
			    sizeof(policy_names) / sizeof(policy_names[0]));
	tcase_add_test(c, equal_devices_have_equally_much);
	tcase_add_test(c, none_waits_for_those_that_would_rather_wait);
	tcase_add_test(c, tasks_for_idle_devices_are_looked_for_now_and_then);
	tcase_add_test(c, equal_weights_share_equally);
	tcase_add_test(c, long_tasks_gain_nothing);
	tcase_add_test(c, wrong_predictions_gain_nothing);
	tcase_add_test(c, absence_saves_nothing);
	tcase_add_test(c, weights_hold);
	tcase_add_test(c, idling_saves_nothing);
	tcase_add_test(c, what_runs_is_charged);
	tcase_add_test(c, what_was_charged_is_given_back);
	tcase_add_test(c, what_was_given_back_can_be_charged_again);
	tcase_add_test(c, what_has_run_so_far_is_charged_once);
	tcase_add_test(c, what_has_run_so_far_counts);
	tcase_add_test(c, inline_runs_are_charged);
	tcase_add_test(c, eft_takes_the_faster);
	tcase_add_test(c, eft_counts_the_waking);
	tcase_add_test(c, eft_wakes_who_sleeps);
	tcase_add_test(c, eft_waits_for_no_trifle);
	tcase_add_test(c, eft_doubts_few_runs);
	tcase_add_test(c, eft_tries_with_measure);
	tcase_add_test(c, eft_tries_by_what_has_run);
	tcase_add_test(c, eft_tries_nothing_that_it_was_told);
	tcase_add_test(c, eft_tries_nothing_with_a_deadline);
	tcase_add_test(c, eft_counts_the_switch);
	tcase_add_test(c, eft_keeps_a_configuration);
	tcase_add_test(c, eft_switches_seldom);
	tcase_add_test(c, eft_counts_the_wait);
	tcase_add_test(c, eft_counts_the_backlog);
	tcase_add_test(c, eft_tries_the_unknown);
	tcase_add_test(c, others_use_what_one_cannot);
	tcase_add_test(c, lanes_have_tasks_ahead);
	tcase_add_test(c, who_is_awake_has_the_next);
	tcase_add_test(c, none_wait_long_ahead);
	tcase_add_test(c, ahead_comes_after_idle);
	tcase_add_test(c, ahead_of_ones_own_alone);
	tcase_add_test(c, followers_are_booked);
	tcase_add_test(c, followers_fill_a_lane);
	tcase_add_test(c, followers_are_not_long);
	tcase_add_test(c, unknown_followers_wait);
	tcase_add_test(c, followers_come_after_the_queue);
	tcase_add_test(c, followers_follow_their_own);
	tcase_add_test(c, followers_go_where_they_should);
	tcase_add_test(c, followers_keep_to_the_maximum);
	tcase_add_test(c, followers_leave_what_is_offline);
	tcase_add_test(c, who_leaves_is_not_done);
	tcase_add_test(c, next_are_in_turn);
	tcase_add_test(c, next_are_shared);
	tcase_add_test(c, next_are_its_own);
	tcase_add_test(c, rr_takes_turns);
	tcase_add_test(c, offline_devices_take_nothing);
	tcase_add_test(c, removed_tasks_are_not_picked);
	tcase_add_test(c, tenants_come_and_go);
	tcase_add_test(c, own_kernels_share_records);
	tcase_add_test(c, own_kernels_are_a_tenants);
	tcase_add_test(c, own_kernels_leave_room);
	tcase_add_test(c, model_learns);
	tcase_add_test(c, markers_are_short);
	tcase_add_test(c, model_is_bounded);
	tcase_add_test(c, large_launches_are_not_small_ones);
	tcase_add_test(c, work_does_not_overflow);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
