// SPDX-License-Identifier: MIT
/*
 * sched_astray_test - predictions that are far from true, which is what tenants may see to
 *
 * A program's own kernels may take what they like for sizes that they name as they like, and what
 * ends with an error is not learnt from: so one can have it said of a task that it takes days.
 * That is nothing to gain by, nor to lose.
 */
#include <check.h>
#include <stdlib.h>

#include "daemon/sched/sched.h"

#define MS	1000000ull
#define S	1000000000ull

/* Kernels: of the one who leads astray, of one who doesn't, and one of another device. */
enum { HIS = 5, OTHERS = 6, ELSEWHERE = 7, SHORT = 8 };
#define ASTRAY	(1u << 31)	/* size of a task that was never seen */

static struct sched *s;
static uint64_t now, seq;
static bool one_tenant;		/* they are programs of one, by their contexts */
static bool anywhere;		/* can all run */

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	(void)arg;
	return anywhere || device == (n->d.kernel == ELSEWHERE);
}

static struct graph_node *task(uint64_t tenant, uint32_t kernel, uint32_t size)
{
	struct graph_node *n = calloc(1, (sizeof(*n) + 63) / 64 * 64);

	ck_assert_ptr_nonnull(n);
	n->seq = ++seq;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.grid[0] = size;
	n->d.tenant = one_tenant ? 1 : tenant;
	n->d.kernel = kernel;
	n->d.context = (uint32_t)tenant;
	return n;
}

static void teach(uint64_t tenant, uint32_t kernel, uint32_t size, uint64_t ns)
{
	struct graph_node *n = task(tenant, kernel, size);

	for (int i = 0; i < 20; i++)
		sched_observe(s, sched_kernel_key(n), 0, sched_work(n), ns);
	free(n);
}

static void begin(uint64_t he)
{
	now = 1000 * S;
	s = sched_create(&(struct sched_params){ .ops.can_run = can_run });
	ck_assert_ptr_nonnull(s);
	sched_device_set(s, 0, 1);
	sched_device_set(s, 1, 1);
	/* By these three it is days, if not certain. */
	for (uint32_t i = 0; i < 3; i++)
		teach(he, HIS, 1u << i, MS << (4 * i));
	teach(2, OTHERS, 1, 10 * MS);
}

static void push(uint64_t tenant, uint32_t kernel, uint32_t size)
{
	struct graph_node *n = task(tenant, kernel, size);

	n->run_ns = now;
	ck_assert_int_eq(sched_push(s, n, now), 0);
}

static struct graph_node *pick(void)
{
	struct graph_node *n = sched_pick(s, now);

	ck_assert_ptr_nonnull(n);
	return n;
}

static void finish(struct graph_node *n, uint64_t ns, bool learn)
{
	sched_finish(s, n, ns, learn);
	free(n);
}

/* He is there, and takes nothing that the other one wants. */
static void be_there(void)
{
	struct graph_node *n;

	push(1, ELSEWHERE, 1);
	n = pick();
	ck_assert_uint_eq(n->device, 1);
	finish(n, 1000, true);
}

/* For so long the other one has the device for itself. */
static uint32_t alone_for(uint64_t ns, uint32_t queued)
{
	for (uint64_t end = now + ns; now < end; queued--) {
		struct graph_node *n;

		for (; queued < 8; queued++)
			push(2, OTHERS, 1);
		n = pick();
		be_there();
		now += 10 * MS;
		finish(n, 10 * MS, true);
	}
	return queued;
}

/*
 * For the time that a tenant was elsewhere it has the credit, whatever its tasks are said to take:
 * by sizes that are near, or since such tasks did take as much once, his own even.
 */
START_TEST(no_credit_for_what_is_said)
{
	uint32_t queued[2] = { 0 };
	uint64_t got[2] = { 0 };

	one_tenant = _i & 2;
	begin(1);
	teach(1, SHORT, 1, 20 * S);
	if (_i & 4) {
		push(1, SHORT, 1);
		now += 20 * S;
		finish(pick(), 20 * S, true);
	}
	queued[1] = alone_for(100 * S, 0);
	for (uint64_t end = now + 60 * S; now < end;) {
		struct graph_node *n;
		uint64_t ns;
		bool other;

		for (; queued[0] < 4; queued[0]++)
			push(1, _i & 1 ? SHORT : HIS, _i & 1 ? 1 : ASTRAY);
		for (; queued[1] < 8; queued[1]++)
			push(2, OTHERS, 1);
		n = pick();
		other = n->d.context == 2;
		queued[other]--;
		ns = other ? 10 * MS : 16 * MS;
		now += ns;
		got[other] += ns;
		/* His end with an error. */
		finish(n, ns, other);
	}
	ck_assert_uint_ge(got[1], 28 * S);
	ck_assert_uint_ge(got[0], 28 * S);
	for (uint32_t i = 0; i < queued[0] + queued[1]; i++)
		finish(pick(), 1, false);
	sched_destroy(s);
}
END_TEST

/* On so many lanes; of each tenant: what a task takes, which are queued, time had, waited at most. */
struct compete {
	int lanes;
	uint64_t takes[2];
	uint32_t queued[2];
	uint64_t got[2], longest;
};

/*
 * He has 16 tasks at a time, which end with an error; the other one as many, or, with @alone, one after
 * the other, and thinks for a moment.
 */
static void compete(struct compete *t, uint32_t his, uint32_t size, bool alone)
{
	struct graph_node *on[8] = { NULL }, *n;
	uint64_t ends[8], comes = now;

	sched_device_set(s, 0, (uint32_t)t->lanes);
	for (uint64_t end = now + 60 * S, next; now < end; now = next) {
		for (int i = 0; i < t->lanes; i++) {
			if (!on[i] || ends[i] > now)
				continue;
			n = on[i];
			on[i] = NULL;
			comes = n->d.tenant == 2 ? now + MS : comes;
			t->got[n->d.tenant - 1] += t->takes[n->d.tenant - 1];
			finish(n, t->takes[n->d.tenant - 1], n->d.tenant == 2);
		}
		for (; t->queued[0] < 16; t->queued[0]++)
			push(1, his, size);
		for (; alone ? comes <= now : t->queued[1] < 16; t->queued[1]++) {
			push(2, OTHERS, 1);
			comes = UINT64_MAX;
		}
		while ((n = sched_pick(s, now))) {
			int lane = 0;

			while (on[lane])
				lane++;
			on[lane] = n;
			ends[lane] = now + t->takes[n->d.tenant - 1];
			t->queued[n->d.tenant - 1]--;
			if (n->d.tenant == 2 && now - n->run_ns > t->longest)
				t->longest = now - n->run_ns;
		}
		next = comes;
		for (int i = 0; i < t->lanes; i++)
			if (on[i] && ends[i] < next)
				next = ends[i];
	}
	for (int i = 0; i < t->lanes; i++)
		if (on[i])
			finish(on[i], 1, false);
	while ((n = sched_pick(s, now)))
		finish(n, 1, false);
}

/*
 * A device comes as far as those were charged that it has been given to, which may be given back after
 * others' picks.  Who has one task at a time then finds it as far; so is who was charged, and is not
 * before him.
 */
START_TEST(nothing_is_to_be_had_by_what_is_given_back)
{
	struct compete t = { .lanes = _i & 2 ? 8 : 2, .takes = { 16 * MS, 10 * MS } };
	bool alone = _i & 4;

	begin(1);
	teach(1, SHORT, 1, 20 * S);
	compete(&t, _i & 1 ? SHORT : HIS, _i & 1 ? 1 : ASTRAY, alone);
	if (alone) {
		/* A lane is free soon. */
		ck_assert_uint_le(t.longest, 2 * t.takes[0]);
	} else {
		ck_assert_uint_ge(t.got[1], 29 * S * (uint64_t)t.lanes);
		/* While one of his runs the other one is before him: that is one lane at least. */
		ck_assert_uint_ge(t.got[0], 29 * S * 2);
	}
	sched_destroy(s);
}
END_TEST

/* Nor is it kept from making way. */
START_TEST(what_is_said_to_be_long_makes_way)
{
	struct graph_node *n;
	uint64_t ran = 0;
	uint32_t queued;

	begin(1);
	queued = alone_for(100 * S, 0);
	push(1, HIS, ASTRAY);
	while ((n = pick())->d.tenant == 2) {
		now += 10 * MS;
		finish(n, 10 * MS, true);
		push(2, OTHERS, 1);
	}
	do {
		ran += 50 * MS;
		now += 50 * MS;
		sched_progress(s, n, ran, now);
		ck_assert_uint_lt(ran, 2 * S);
	} while (!sched_makes_way(s, n, ran, SCHED_ROOM_PLENTY, now));
	finish(n, ran, false);
	for (; queued; queued--)
		finish(pick(), 1, false);
	sched_destroy(s);
}
END_TEST

/*
 * A tenant deep in the tree, of which a little is much in virtual time, of which days are more than
 * there is: all begin anew, and what he has had is not forgotten with that.
 */
START_TEST(nobody_is_paid_for_beginning_anew)
{
	const uint64_t levels = 11, he = 100 + levels;
	uint32_t queued[2] = { 0 }, his = 0;
	uint64_t got[2] = { 0 };

	begin(he);
	for (uint64_t i = 0; i <= levels; i++)
		ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
			.id = 100 + i, .parent = i ? 99 + i : 0, .weight = 100,
			.max_ns = SCHED_NO_MAX }), 0);
	/* Each above has something to do that waits. */
	sched_device_set(s, 1, 0);
	for (uint64_t i = 0; i < levels; i++)
		push(100 + i, ELSEWHERE, 1);
	for (uint64_t end = now + 60 * S; now < end;) {
		struct graph_node *n, *canceled;
		bool other, brief;
		uint64_t ns;

		for (; queued[0] < 1; queued[0]++)
			push(he, ++his % 2 ? SHORT : HIS, ASTRAY);
		for (; queued[1] < 8; queued[1]++)
			push(2, OTHERS, 1);
		n = pick();
		other = n->d.tenant == 2;
		brief = n->d.kernel == SHORT;
		queued[other]--;
		if (!other && !brief) {
			canceled = task(he, HIS, ASTRAY);
			ck_assert_int_eq(sched_push(s, canceled, now), 0);
			sched_remove(s, canceled);
			free(canceled);
		}
		ns = other ? 10 * MS : brief ? 1000 : 256 * MS;
		now += ns;
		got[other] += ns;
		finish(n, ns, other || brief);
	}
	/* His part is less than a hundredth. */
	ck_assert_uint_ge(got[1], 58 * S);
	sched_device_set(s, 1, 1);
	for (uint32_t i = 0; i < queued[0] + queued[1] + levels; i++)
		finish(pick(), 1, false);
	sched_destroy(s);
}
END_TEST

/* Far from here, and no task takes one there: this does, as one who is there only to take it. */
static void begin_anew(void)
{
	struct graph_node *n[2] = { task(3, ELSEWHERE, 1), task(4, ELSEWHERE, 1) };

	/* One's in a row would be charged as one. */
	for (int i = 0; i < 140; i++)
		sched_charge(s, n[i % 2], 1, 1ull << 62, false);
	free(n[0]);
	free(n[1]);
}

/*
 * All begin anew while all that is known is what they were charged, or what they have had.  Who was
 * charged too much is as far behind the other one afterwards as he is.
 */
START_TEST(what_is_given_back_after_beginning_anew)
{
	const uint64_t hour = 3600 * S;
	struct graph_node *his, *others;
	uint64_t got[2] = { 0 };

	begin(1);
	teach(2, SHORT, 1, hour);
	sched_device_set(s, 0, 2);
	push(1, HIS, ASTRAY);
	push(2, SHORT, 1);
	his = pick();
	others = pick();
	ck_assert_uint_eq(his->d.tenant, 1);
	if (!_i)
		begin_anew();
	teach(1, SHORT + 1, 1, 10 * MS);
	for (int i = 0; i < 8; i++)
		push(1 + i % 2, SHORT + 1, 1);
	sched_device_set(s, 0, 1);
	now += MS;
	finish(his, MS, false);
	now += hour;
	finish(others, hour, true);
	if (_i)
		begin_anew();
	for (uint64_t end = now + 10 * S; now < end;) {
		struct graph_node *n = pick();
		uint64_t who = n->d.tenant;

		now += 10 * MS;
		got[who - 1] += 10 * MS;
		finish(n, 10 * MS, true);
		push(who, SHORT + 1, 1);
	}
	ck_assert_uint_eq(got[0], 10 * S);
	for (int i = 0; i < 8; i++)
		finish(pick(), 1, false);
	sched_destroy(s);
}
END_TEST

/* Nor is anything his that he has had meanwhile, however much he was charged at a time. */
START_TEST(what_was_charged_is_known_after_beginning_anew)
{
	enum { DEVICES = 40 };
	const uint64_t hour = 3600 * S;
	struct graph_node *on[DEVICES];
	uint64_t got = 0;

	begin(1);
	teach(1, SHORT + 1, 1, 10 * MS);
	/* Days are as much as anything can be. */
	sched_tenant_weight(s, 1, 1);
	sched_tenant_weight(s, 2, 1);
	for (uint32_t i = 0; i < DEVICES; i++) {
		sched_device_set(s, i, i != 1);
		for (uint32_t k = 0; k < 3; k++) {
			struct graph_node *n = task(1, HIS, 1u << k);

			sched_observe(s, sched_kernel_key(n), i, sched_work(n), MS << (4 * k));
			sched_observe(s, sched_kernel_key(n), i, sched_work(n), MS << (4 * k));
			sched_observe(s, sched_kernel_key(n), i, sched_work(n), MS << (4 * k));
			free(n);
		}
	}
	anywhere = true;
	for (int i = 0; i < DEVICES - 1; i++) {
		push(1, HIS, ASTRAY);
		on[i] = pick();
		ck_assert_uint_eq(on[i]->device, i + (i > 0));
	}
	anywhere = false;
	for (int i = 0; i < 8; i++)
		push(1 + i % 2, SHORT + 1, 1);
	begin_anew();
	now += hour;
	for (int i = 0; i < DEVICES - 1; i++)
		finish(on[i], hour, false);
	for (uint64_t end = now + 10 * S; now < end;) {
		struct graph_node *n = pick();
		uint64_t who = n->d.tenant;

		now += 10 * MS;
		got += who == 1 ? 10 * MS : 0;
		push(who, n->d.kernel, 1);
		finish(n, 10 * MS, true);
	}
	ck_assert_uint_eq(got, 0);
	for (int i = 0; i < 8; i++)
		finish(pick(), 1, false);
	sched_destroy(s);
}
END_TEST

/* A maximum is used up by what was used: who was charged for more goes on when that is known. */
START_TEST(a_maximum_is_not_used_up_by_what_is_said)
{
	struct graph_node *n;

	begin(1);
	teach(1, SHORT, 1, S);
	ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
		.id = 1, .weight = 100, .max_ns = 10 * MS, .period_ns = 100 * MS }), 0);
	/* What was learnt is another one's; or nothing was, of that size. */
	push(1, _i ? HIS : SHORT, _i ? ASTRAY : 1);
	push(1, SHORT, 1);
	n = pick();
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_gt(sched_next_wake(s), now + 90 * MS);
	now += MS;
	finish(n, MS, false);
	/* Soon: who has many wait has not all of them looked at each time. */
	now += MS;
	ck_assert_uint_le(sched_next_wake(s), now);
	n = pick();
	/* It did take as long: the next one waits for as many periods. */
	now += S;
	finish(n, S, true);
	push(1, SHORT, 1);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_gt(sched_next_wake(s), now + 8 * S);
	now = sched_next_wake(s);
	finish(pick(), MS, false);
	sched_destroy(s);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_astray");
	TCase *c = tcase_create("astray");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, no_credit_for_what_is_said, 0, 8);
	tcase_add_loop_test(c, nothing_is_to_be_had_by_what_is_given_back, 0, 8);
	tcase_add_test(c, what_is_said_to_be_long_makes_way);
	tcase_add_test(c, nobody_is_paid_for_beginning_anew);
	tcase_add_loop_test(c, what_is_given_back_after_beginning_anew, 0, 2);
	tcase_add_test(c, what_was_charged_is_known_after_beginning_anew);
	tcase_add_loop_test(c, a_maximum_is_not_used_up_by_what_is_said, 0, 2);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
