// SPDX-License-Identifier: MIT
/* sched_policy_test - which device each policy takes, and when it waits instead */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/policies.h"
#include "daemon/sched/sched.h"

#define MS	1000000ull
#define DEVICES	4

static struct sched *s;
static struct graph_node pool[256];
static struct arax_dispatch_range range;
static unsigned int used;
static uint32_t place;	/* the link that tasks come by */
static uint64_t now;

/* The hooks' answers for each device. */
static uint64_t resident[DEVICES], least[DEVICES], most[DEVICES];
static uint32_t allowed;
static uint32_t hosts;		/* devices that work on the host's pages */

static bool link_of(void *arg, uint32_t device, struct sched_link *link)
{
	*link = (struct sched_link){ 0 };
	return !(hosts >> device & 1);
}

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	return allowed >> device & 1;
}

static uint64_t resident_bytes(void *arg, const struct graph_node *n, uint32_t device)
{
	return resident[device];
}

static uint64_t transfer_min_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return least[device];
}

static uint64_t transfer_max_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return most[device];
}

static void make(const char *policy, uint32_t lanes)
{
	sched_destroy(s);
	s = sched_create(&(struct sched_params){
		.policy = policy,
		.ops = {
			.can_run = can_run, .resident_bytes = resident_bytes,
			.transfer_min_ns = transfer_min_ns, .transfer_max_ns = transfer_max_ns,
			.link = link_of,
		},
	});
	ck_assert_ptr_nonnull(s);
	for (uint32_t i = 0; i < DEVICES; i++)
		ck_assert_int_eq(sched_device_set(s, i, lanes), 0);
}

static void setup(void)
{
	s = NULL;
	used = 0;
	place = 0;
	now = 1000 * MS;
	allowed = ~0u;
	hosts = 0;
	for (int i = 0; i < DEVICES; i++)
		resident[i] = least[i] = most[i] = 0;
	range = (struct arax_dispatch_range){ .length = 1000, .count = 1 };
}

static void teardown(void)
{
	sched_destroy(s);
}

static struct graph_node *task_of(uint64_t tenant, uint32_t context)
{
	struct graph_node *n = &pool[used];

	*n = (struct graph_node){ .seq = ++used, .ranges = &range };
	n->d.tenant = tenant;
	n->d.context = context;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.kernel = 1;
	n->d.grid[0] = 64;
	n->d.nr_ranges = 1;
	n->sched.place = place;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

static uint32_t part_of_device;

static uint32_t part(void *arg, const struct graph_node *n, uint32_t device)
{
	return part_of_device;
}

/* Where the next task goes; it stays there. */
static uint32_t next_of(uint64_t tenant, uint32_t context)
{
	struct graph_node *n = task_of(tenant, context), *m;

	m = sched_pick(s, now);
	if (!m) {
		sched_remove(s, n);
		return SCHED_NO_DEVICE;
	}
	ck_assert_ptr_eq(m, n);
	return n->device;
}

static uint32_t next(void)
{
	return next_of(1, 1);
}

static void learn(uint64_t ns)
{
	for (uint32_t d = 0; d < DEVICES; d++)
		for (int i = 0; i < SCHED_MIN_RUNS; i++)
			sched_observe(s, sched_kernel_key(&pool[0]), d, 64, ns);
}

START_TEST(all_run_what_there_is)
{
#define NAME(c_name, name) name,
	static const char *const names[] = { SCHED_POLICIES(NAME) };
	struct graph_node *n;

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		used = 0;
		allowed = ~0u;
		make(names[i], 2);
		ck_assert_str_eq(sched_policy_name(s), names[i]);
		for (int k = 0; k < 16; k++)
			task_of(1 + k % 3, k % 5);
		for (int k = 0; k < 16; k++) {
			n = sched_pick(s, now);
			ck_assert_msg(n, "%s: task %d found no device", names[i], k);
			now += MS;
			sched_finish(s, n, MS, true);
		}
		/* Nothing runs where nothing may. */
		allowed = 0;
		task_of(1, 1);
		ck_assert_ptr_null(sched_pick(s, now));
		allowed = 1u << 2;
		now += MS;
		n = sched_pick(s, now);
		ck_assert_ptr_nonnull(n);
		ck_assert_uint_eq(n->device, 2);
	}
}
END_TEST

START_TEST(changes_while_tasks_run)
{
	struct graph_node *n;

	make("rr", 1);
	ck_assert_uint_eq(next(), 0);
	ck_assert_uint_eq(next(), 1);
	ck_assert_int_eq(sched_policy_set(s, "static"), 0);
	ck_assert_int_eq(sched_policy_set(s, "best"), -EINVAL);
	ck_assert_str_eq(sched_policy_name(s), "static");
	/* Pinned to 0, which is busy. */
	n = task_of(1, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	/* What waited because of the old policy is looked at again. */
	ck_assert_int_eq(sched_policy_set(s, "rr"), 0);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 2);
	for (int i = 0; i < 3; i++)
		sched_finish(s, &pool[i], MS, true);
	ck_assert(sched_is_idle(s));
}
END_TEST

START_TEST(stream_aware_counts_busy_lanes)
{
	make("stream-aware", 2);
	for (uint32_t i = 0; i < DEVICES; i++)
		ck_assert_uint_eq(next(), i);
	ck_assert_uint_eq(next(), 0);
	sched_finish(s, &pool[2], MS, true);
	ck_assert_uint_eq(next(), 2);
	ck_assert_uint_eq(next(), 1);
	/* A device with more lanes takes no more than the others' number of tasks. */
	ck_assert_int_eq(sched_device_set(s, 3, 8), 0);
	ck_assert_uint_eq(next(), 2);
	ck_assert_uint_eq(next(), 3);
	ck_assert_uint_eq(next(), 3);
}
END_TEST

START_TEST(min_transfer_size_follows_the_bytes)
{
	make("min-transfer-size", 1);
	/* Nothing anywhere, then too little: in turn. */
	ck_assert_uint_eq(next(), 0);
	sched_finish(s, &pool[0], MS, true);
	resident[3] = 100;
	ck_assert_uint_eq(next(), 1);
	sched_finish(s, &pool[1], MS, true);
	resident[3] = 101;
	ck_assert_uint_eq(next(), 3);
	/* It waits for the one that has most, but not if one that has as much is idle. */
	ck_assert_uint_eq(next(), SCHED_NO_DEVICE);
	resident[2] = 101;
	ck_assert_uint_eq(next(), 2);
	sched_finish(s, &pool[2], MS, true);
	resident[1] = 500;
	ck_assert_uint_eq(next(), 1);
	/* Not where it can't run. */
	allowed = ~2u;
	resident[2] = resident[3] = 0;
	ck_assert_uint_eq(next(), 3);
}
END_TEST

START_TEST(transfer_times_follow_the_links)
{
	for (uint32_t d = 0; d < DEVICES; d++) {
		resident[d] = 200;
		least[d] = 100 - d;	/* 3 is best */
		most[d] = 100 + d;	/* 0 is best */
	}
	make("minmin-transfer-time", 1);
	ck_assert_uint_eq(next(), 3);
	ck_assert_uint_eq(next(), SCHED_NO_DEVICE);
	make("minmax-transfer-time", 1);
	ck_assert_uint_eq(next(), 0);
	/* Those with less than a tenth don't count, however near. */
	resident[0] = 50;
	ck_assert_uint_eq(next(), 1);
	make("minmax-transfer-time", 1);
	for (uint32_t d = 0; d < DEVICES; d++)
		resident[d] = 100;
	for (uint32_t d = 0; d < DEVICES; d++)
		ck_assert_uint_eq(next(), d);
}
END_TEST

static const char *const by_data[] = {
	"min-transfer-size", "minmin-transfer-time", "minmax-transfer-time",
};

/* Whoever makes a scheduler without hooks gets turns, no crash. */
START_TEST(hooks_may_be_missing)
{
	sched_destroy(s);
	s = sched_create(&(struct sched_params){ .policy = by_data[_i] });
	for (uint32_t d = 0; d < DEVICES; d++)
		sched_device_set(s, d, 1);
	for (uint32_t d = 0; d < DEVICES; d++)
		ck_assert_uint_eq(next(), d);
}
END_TEST

/* What three devices have alike, they share the work on. */
START_TEST(equals_share_the_work)
{
	make(by_data[_i], 2);
	resident[0] = resident[1] = resident[3] = 500;
	ck_assert_int_eq(sched_device_set(s, 1, 3), 0);
	ck_assert_uint_eq(next(), 0);
	ck_assert_uint_eq(next(), 1);
	ck_assert_uint_eq(next(), 3);
	sched_finish(s, &pool[1], MS, true);
	ck_assert_uint_eq(next(), 1);
	ck_assert_uint_eq(next(), 0);
	/* As many lanes of 1 are busy as of 3. */
	ck_assert_uint_eq(next(), 1);
	ck_assert_uint_eq(next(), 3);
	/* Idle is still one lane of 1. */
	ck_assert_uint_eq(next(), 1);
	ck_assert_uint_eq(next(), SCHED_NO_DEVICE);
}
END_TEST

/* They have every byte, all of them, wherever the task runs in the end. */
START_TEST(hosts_hold_nothing)
{
	make(by_data[_i], 1);
	hosts = 1u << 0 | 1u << 1;
	resident[0] = resident[1] = 1000;
	for (uint32_t d = 0; d < DEVICES; d++)
		ck_assert_uint_eq(next(), d);
	ck_assert_uint_eq(next(), SCHED_NO_DEVICE);
	/* Who has a part in memory of its own is taken, and waited for. */
	for (uint32_t d = 0; d < DEVICES; d++)
		sched_finish(s, &pool[d], MS, true);
	resident[2] = 200;
	most[2] = least[2] = 50;
	ck_assert_uint_eq(next(), 2);
	ck_assert_uint_eq(next(), SCHED_NO_DEVICE);
	/* What such devices can't run is done in turn. */
	allowed = hosts;
	ck_assert_uint_eq(next(), 0);
	ck_assert_uint_eq(next(), 1);
	ck_assert_uint_eq(next(), SCHED_NO_DEVICE);
}
END_TEST

START_TEST(static_pins_contexts)
{
	make("static", 1);
	ck_assert_uint_eq(next_of(1, 100), 0);
	ck_assert_uint_eq(next_of(1, 101), 1);
	ck_assert_uint_eq(next_of(1, 102), 2);
	ck_assert_uint_eq(next_of(1, 103), 3);
	/* Full, and others idle: it waits. */
	sched_finish(s, &pool[1], MS, true);
	sched_finish(s, &pool[2], MS, true);
	ck_assert_uint_eq(next_of(1, 100), SCHED_NO_DEVICE);
	ck_assert_uint_eq(next_of(1, 102), 2);
	ck_assert_uint_eq(next_of(1, 101), 1);
	/* One goes: the next one takes its place. */
	sched_finish(s, &pool[3], MS, true);
	sched_context_gone(s, 0, 103);
	sched_context_gone(s, 0, 999);
	ck_assert_uint_eq(next_of(1, 104), 3);
	/* What its device can't run doesn't wait for ever. */
	sched_finish(s, &pool[0], MS, true);
	allowed = 1;
	ck_assert_uint_eq(next_of(1, 104), 0);
}
END_TEST

/* One number, two links: the one that leaves is not the other one. */
START_TEST(static_pins_by_link)
{
	make("static", 2);
	ck_assert_uint_eq(next_of(1, 100), 0);
	place = 1;
	ck_assert_uint_eq(next_of(1, 100), 1);
	ck_assert_uint_eq(next_of(1, 101), 2);
	sched_context_gone(s, 0, 100);
	ck_assert_uint_eq(next_of(1, 100), 1);
	place = 0;
	ck_assert_uint_eq(next_of(1, 100), 0);
}
END_TEST

START_TEST(static_forgets_contexts)
{
	make("static", 1);
	for (uint32_t c = 0; c < 100000; c++) {
		used = 0;
		ck_assert_uint_eq(next_of(1, c * 7), 0);
		sched_finish(s, &pool[0], MS, true);
		sched_context_gone(s, 0, c * 7);
	}
}
END_TEST

START_TEST(fair_takes_the_least_load)
{
	make("fair", 2);
	used = 1;
	pool[0] = (struct graph_node){ .d.opcode = ARAX_OP_LAUNCH, .d.kernel = 1 };
	learn(10 * MS);
	for (uint32_t i = 0; i < DEVICES; i++)
		ck_assert_uint_eq(next(), i);
	/* 2 ms later those that began later have more left. */
	sched_finish(s, &pool[3], 10 * MS, true);
	now += 2 * MS;
	ck_assert_uint_eq(next(), 2);
	ck_assert_uint_eq(next(), 0);
	now += 9 * MS;
	/* 1 is overdue, so next to nothing; 3 likewise and 0 and 2 have more. */
	ck_assert_uint_eq(next(), 1);
}
END_TEST

/* As much to do on both, but on one with a heavy tenant beside. */
START_TEST(fair_counts_the_shares)
{
	make("fair", 2);
	used = 1;
	pool[0] = (struct graph_node){ .d.opcode = ARAX_OP_LAUNCH, .d.kernel = 1 };
	learn(10 * MS);
	sched_tenant_weight(s, 2, 1000);
	sched_tenant_weight(s, 3, 10);
	allowed = 1;
	ck_assert_uint_eq(next_of(2, 1), 0);
	allowed = 2;
	ck_assert_uint_eq(next_of(3, 1), 1);
	allowed = 3;
	ck_assert_uint_eq(next_of(1, 1), 1);
	/* Now 1 has twice the work, of which half is one's own: still less than 11 : 1. */
	sched_device_set(s, 1, 3);
	ck_assert_uint_eq(next_of(1, 1), 1);
	/* Equal weights: the lesser load. */
	sched_tenant_weight(s, 2, 100);
	sched_tenant_weight(s, 3, 100);
	sched_device_set(s, 1, 4);
	ck_assert_uint_eq(next_of(1, 1), 0);
}
END_TEST

START_TEST(choose_takes_nothing)
{
	struct graph_node n = { .ranges = &range };

	make("fair", 1);
	n.d.opcode = ARAX_OP_LAUNCH;
	n.d.tenant = 7;
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(sched_choose(s, &n, now), 0);
	ck_assert_ptr_null(n.sched.flow);
	ck_assert(sched_is_idle(s));
	allowed = 0;
	ck_assert_uint_eq(sched_choose(s, &n, now), SCHED_NO_DEVICE);
}
END_TEST

/* In these tests a task's data is there unless it says so. */
static bool short_of_memory;

static uint64_t transfer_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return n->d.user_data;
}

static bool tight(void *arg, uint32_t device)
{
	return short_of_memory;
}

static void make_short(const char *policy)
{
	sched_destroy(s);
	s = sched_create(&(struct sched_params){
		.policy = policy,
		.ops = { .can_run = can_run, .transfer_ns = transfer_ns, .tight = tight },
	});
	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	used = 0;
	allowed = 1;
	short_of_memory = true;
}

/* Data of the first and the second is missing, that of the third is there. */
static struct graph_node *three(int32_t priority, uint64_t deadline_ns)
{
	struct graph_node *n;

	for (int i = 0; i < 3; i++) {
		n = &pool[used];
		*n = (struct graph_node){ .seq = ++used, .ranges = &range };
		n->d.tenant = 1;
		n->d.context = 1;
		n->d.opcode = ARAX_OP_LAUNCH;
		n->d.kernel = 1;
		n->d.nr_ranges = 1;
		n->d.user_data = i < 2 ? MS : 0;
		n->d.priority = i < 2 ? 0 : priority;
		n->d.deadline_ns = i < 2 ? deadline_ns : 0;
		ck_assert_int_eq(sched_push(s, n, now), 0);
	}
	return n;
}

static struct graph_node *pick(void)
{
	struct graph_node *n = sched_pick(s, now);

	ck_assert_ptr_nonnull(n);
	sched_finish(s, n, MS, true);
	return n;
}

START_TEST(who_finds_its_data_goes_first)
{
#define NAME(c_name, name) name,
	static const char *const names[] = { SCHED_POLICIES(NAME) };
	struct graph_node *third;

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		make_short(names[i]);
		third = three(0, 0);
		ck_assert_ptr_eq(pick(), third);
		ck_assert_ptr_eq(pick(), &pool[0]);
		ck_assert_ptr_eq(pick(), &pool[1]);
	}
#undef NAME
	/* Not where there is room, */
	make_short(NULL);
	short_of_memory = false;
	three(0, 0);
	ck_assert_ptr_eq(pick(), &pool[0]);
	/* nor before what is more urgent, */
	make_short(NULL);
	three(1, 0);
	ck_assert_ptr_eq(pick(), &pool[0]);
	/* nor before what has to be done by some time. */
	make_short(NULL);
	three(0, now + 1000 * MS);
	ck_assert_ptr_eq(pick(), &pool[0]);
	/* Who has gone is not picked again. */
	make_short(NULL);
	third = three(0, 0);
	sched_remove(s, third);
	memset(third, 0xff, sizeof(*third));
	ck_assert_ptr_eq(pick(), &pool[0]);
}
END_TEST

/* However many there are that find theirs, the others come. */
START_TEST(nobody_is_passed_over_for_ever)
{
	uint32_t passed = 0;

	make_short(NULL);
	three(0, 0);
	while (pick() != &pool[0]) {
		struct graph_node *n = &pool[3];

		*n = pool[2];
		n->seq = 100 + passed;
		ck_assert_int_eq(sched_push(s, n, now), 0);
		ck_assert_uint_le(++passed, 32);
	}
	ck_assert_uint_ge(passed, 16);
}
END_TEST

START_TEST(bytes_do_not_overflow)
{
	struct arax_dispatch_range r[2] = { { .length = 10, .count = 3 },
					    { .length = 1ull << 63, .count = 2 } };
	struct graph_node n = { .ranges = r };

	ck_assert_uint_eq(sched_bytes(&n), 0);
	n.d.nr_ranges = 1;
	ck_assert_uint_eq(sched_bytes(&n), 30);
	n.d.nr_ranges = 2;
	ck_assert_uint_eq(sched_bytes(&n), UINT64_MAX);
}
END_TEST

/*
 * Two devices of three lanes each.  A kernel takes 10 ms on the first one, where a task of it
 * begins, and 15 on the second.
 */
static struct graph_node *begin_on_the_first(uint32_t takes)
{
	struct graph_node *n = &(struct graph_node){ .d.opcode = ARAX_OP_LAUNCH, .d.kernel = 1 };

	part_of_device = takes;
	s = sched_create(&(struct sched_params){ .policy = "eft", .ops = { .part = part } });
	ck_assert_ptr_nonnull(s);
	ck_assert_int_eq(sched_device_set(s, 0, 3), 0);
	ck_assert_int_eq(sched_device_set(s, 1, 3), 0);
	for (int i = 0; i < 40; i++) {
		sched_observe(s, sched_kernel_key(n), 0, 64, 10 * MS);
		sched_observe(s, sched_kernel_key(n), 1, 64, 15 * MS);
	}
	n = task_of(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 0);
	return n;
}

/*
 * If it takes the whole device a second one there would end after 20 ms, though lanes are idle.
 */
START_TEST(a_full_device_is_not_idle)
{
	struct graph_node *first = begin_on_the_first(_i), *n;

	n = task_of(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, _i == 1024);
	/* When it has ended there is room again; for what began behind it, it is known. */
	now += 10 * MS;
	sched_finish(s, first, 10 * MS, true);
	n = task_of(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	ck_assert_uint_eq(n->device, 0);
	n = task_of(1, 1);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	/* 10 + 10 there, or 5 + 15 here. */
	ck_assert_uint_eq(n->device, 0);
	n = task_of(1, 1);
	/* Else the third lane of the first one is free at once, as far as is known. */
	ck_assert_ptr_eq(sched_pick(s, now), _i ? n : NULL);
	if (_i)
		ck_assert_uint_eq(n->device, 1);
}
END_TEST

/* What should have ended long ago may take as long again: its device is not taken for an empty one. */
START_TEST(an_overdue_device_is_not_idle)
{
	static const struct {
		uint32_t late_ms, device;
	} cases[] = { { 1, 0 }, { 20, 1 } };

	begin_on_the_first(1024);
	now += (10 + cases[_i].late_ms) * MS;
	ck_assert_uint_eq(next(), cases[_i].device);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_policy");
	TCase *c = tcase_create("policies");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, all_run_what_there_is);
	tcase_add_test(c, changes_while_tasks_run);
	tcase_add_test(c, stream_aware_counts_busy_lanes);
	tcase_add_test(c, min_transfer_size_follows_the_bytes);
	tcase_add_test(c, transfer_times_follow_the_links);
	tcase_add_loop_test(c, hooks_may_be_missing, 0, 3);
	tcase_add_loop_test(c, equals_share_the_work, 0, 3);
	tcase_add_loop_test(c, hosts_hold_nothing, 0, 3);
	tcase_add_test(c, static_pins_contexts);
	tcase_add_test(c, static_pins_by_link);
	tcase_add_test(c, static_forgets_contexts);
	tcase_add_test(c, fair_takes_the_least_load);
	tcase_add_test(c, fair_counts_the_shares);
	tcase_add_test(c, choose_takes_nothing);
	tcase_add_test(c, who_finds_its_data_goes_first);
	tcase_add_test(c, nobody_is_passed_over_for_ever);
	tcase_add_test(c, bytes_do_not_overflow);
	tcase_add_loop_test(c, a_full_device_is_not_idle, 0, 1);
	tcase_add_loop_test(c, a_full_device_is_not_idle, 1024, 1025);
	tcase_add_loop_test(c, an_overdue_device_is_not_idle, 0, 2);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
