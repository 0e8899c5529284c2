// SPDX-License-Identifier: MIT
/* sched_waits_test - how long tenants wait, and are throttled, in simulated time */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/sched.h"

#define MS	1000000ull
#define TENANTS	10
#define TASKS	64

static struct sched *s;
static uint64_t now, seq, rng;
static struct sched_stat sums[TENANTS + 1];
/* Of each tenant; 0: it has none. */
static const uint64_t parents[TENANTS + 1] = { 0, 0, 1, 1, 2, 2, 2, 3, 3, 7, 0 };

static void begin(uint32_t devices, bool tree)
{
	now = 1000000 * MS;
	rng = 88172645463325252ull;
	memset(sums, 0, sizeof(sums));
	s = sched_create(&(struct sched_params){ .policy = "rr", .stats = true });
	ck_assert_ptr_nonnull(s);
	for (uint32_t i = 0; i < devices; i++)
		ck_assert_int_eq(sched_device_set(s, i, 1), 0);
	for (uint64_t id = 1; tree && id <= TENANTS; id++)
		ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
			.id = id, .parent = parents[id], .weight = 200,
			.max_ns = SCHED_NO_MAX }), 0);
}

static void limit(uint64_t id, uint64_t parent, uint64_t max, uint64_t period)
{
	ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
		.id = id, .parent = parent, .weight = 200, .max_ns = max,
		.period_ns = period }), 0);
}

static uint64_t draw(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % n;
}

static struct graph_node *push(uint64_t tenant)
{
	struct graph_node *n = calloc(1, sizeof(*n));

	n->seq = ++seq;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.grid[0] = 64;
	n->d.tenant = tenant;
	n->d.context = (uint32_t)tenant;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

static struct graph_node *pick(void)
{
	return sched_pick(s, now);
}

static void finish(struct graph_node *n, uint64_t ran)
{
	sched_finish(s, n, ran, false);
	free(n);
}

static void take_out(struct graph_node *n)
{
	sched_remove(s, n);
	free(n);
}

/* All that has come, @max at a time. */
static void collect(uint32_t max)
{
	struct sched_stat got[TASKS];
	uint32_t n;

	do {
		n = sched_stats(s, got, max, now);
		for (uint32_t i = 0; i < n; i++) {
			struct sched_stat *sum = &sums[got[i].tenant];

			ck_assert_uint_le(got[i].tenant, TENANTS);
			ck_assert(got[i].waiting_ns || got[i].nr_periods);
			sum->waiting_ns += got[i].waiting_ns;
			sum->nr_periods += got[i].nr_periods;
			sum->nr_throttled += got[i].nr_throttled;
			sum->throttled_ns += got[i].throttled_ns;
			ck_assert_uint_le(sum->nr_throttled, sum->nr_periods);
			ck_assert_uint_le(sum->throttled_ns, sum->waiting_ns);
		}
	} while (n == max);
}

/* Who gets a device at once has not waited, however late the poller is. */
START_TEST(no_wait)
{
	struct graph_node *n;

	begin(1, true);
	for (int i = 0; i < 5; i++) {
		n = push(4);
		now += 1000;
		ck_assert_ptr_eq(pick(), n);
		ck_assert_ptr_null(pick());
		now += MS;
		finish(n, MS);
		ck_assert_ptr_null(pick());
		now += MS;
	}
	collect(16);
	ck_assert_uint_eq(sums[4].waiting_ns, 0);
	ck_assert_uint_eq(sums[1].waiting_ns, 0);
	ck_assert(!sched_has_stats(s));
	/* Nor by what ran past the queue. */
	n = calloc(1, sizeof(*n));
	n->d.tenant = 4;
	n->d.opcode = ARAX_OP_LAUNCH;
	sched_charge(s, n, 0, MS, false);
	free(n);
	ck_assert(!sched_has_stats(s));
	sched_destroy(s);
}
END_TEST

/* 4 and 5 are below 2, and that below 1. */
START_TEST(overlaps_count_once)
{
	struct graph_node *a, *b, *c;

	begin(1, true);
	a = push(4);
	ck_assert_ptr_eq(pick(), a);
	b = push(4);
	ck_assert_ptr_null(pick());
	now += 3 * MS;
	c = push(5);
	ck_assert_ptr_null(pick());
	now += 4 * MS;
	/* While they wait, it is told. */
	collect(1);
	ck_assert_uint_eq(sums[4].waiting_ns, 7 * MS);
	ck_assert_uint_eq(sums[5].waiting_ns, 4 * MS);
	ck_assert_uint_eq(sums[2].waiting_ns, 7 * MS);
	ck_assert_uint_eq(sums[1].waiting_ns, 7 * MS);
	ck_assert(sched_has_stats(s));
	now += MS;
	take_out(b);
	now += MS;
	finish(a, 9 * MS);
	ck_assert_ptr_eq(pick(), c);
	collect(16);
	ck_assert_uint_eq(sums[4].waiting_ns, 8 * MS - MS);	/* as of the last time told */
	ck_assert_uint_eq(sums[5].waiting_ns, 6 * MS);
	ck_assert_uint_eq(sums[2].waiting_ns, 9 * MS);
	ck_assert_uint_eq(sums[1].waiting_ns, 9 * MS);
	ck_assert_uint_eq(sums[3].waiting_ns, 0);
	ck_assert(!sched_has_stats(s));
	now += MS;
	finish(c, MS);
	collect(16);
	ck_assert_uint_eq(sums[1].waiting_ns, 9 * MS);
	sched_destroy(s);
}
END_TEST

/* Those above change while some wait below. */
START_TEST(another_parent)
{
	struct graph_node *a, *b;

	begin(1, true);
	a = push(10);
	ck_assert_ptr_eq(pick(), a);
	b = push(4);
	ck_assert_ptr_null(pick());
	now += MS;
	collect(16);
	limit(4, 3, SCHED_NO_MAX, 0);
	now += 2 * MS;
	collect(16);
	ck_assert_uint_eq(sums[4].waiting_ns, 3 * MS);
	ck_assert_uint_eq(sums[2].waiting_ns, MS);
	ck_assert_uint_eq(sums[3].waiting_ns, 2 * MS);
	ck_assert_uint_eq(sums[1].waiting_ns, 3 * MS);
	limit(4, 0, SCHED_NO_MAX, 0);
	now += MS;
	collect(16);
	ck_assert_uint_eq(sums[3].waiting_ns, 2 * MS);
	ck_assert_uint_eq(sums[1].waiting_ns, 3 * MS);
	finish(a, 4 * MS);
	ck_assert_ptr_eq(pick(), b);
	finish(b, MS);
	sched_destroy(s);
}
END_TEST

/* As counted one by one: what has something queued when nothing can be picked. */
START_TEST(as_by_hand)
{
	struct graph_node *queued[TASKS], *running[TASKS], *n;
	uint64_t want[TENANTS + 1] = { 0 };
	uint32_t nr = 0, runs = 0, at;

	begin(3, true);
	for (int i = 0; i < 20000; i++) {
		uint64_t took = 1 + draw(MS), has = 0;

		for (uint64_t k = draw(4); k && nr < TASKS; k--)
			queued[nr++] = push(1 + draw(TENANTS));
		while ((n = pick())) {
			for (at = 0; queued[at] != n; at++)
				;
			queued[at] = queued[--nr];
			running[runs++] = n;
		}
		for (at = 0; at < nr; at++)
			for (uint64_t t = queued[at]->d.tenant; t; t = parents[t])
				has |= 1ull << t;
		now += took;
		for (uint64_t t = 1; t <= TENANTS; t++)
			want[t] += has >> t & 1 ? took : 0;
		if (!draw(3))
			collect(1 + (uint32_t)draw(4));
		/* It is told the time by that, which it has to be before tasks go. */
		ck_assert_ptr_null(pick());
		if (runs && draw(2)) {
			at = (uint32_t)draw(runs);
			finish(running[at], took);
			running[at] = running[--runs];
		}
		if (nr && !draw(3)) {
			at = (uint32_t)draw(nr);
			take_out(queued[at]);
			queued[at] = queued[--nr];
		}
	}
	collect(16);
	for (uint64_t t = 1; t <= TENANTS; t++)
		ck_assert_uint_eq(sums[t].waiting_ns, want[t]);
	while (nr)
		take_out(queued[--nr]);
	while (runs)
		finish(running[--runs], 1);
	sched_destroy(s);
}
END_TEST

/* ------------------------------------------------------------------ */
/* device_time.max                                                     */

/* 10 ms of each 100: a task of 10 ms runs, and its next one has to wait. */
START_TEST(throttled)
{
	struct graph_node *a, *b;

	begin(2, true);
	limit(4, 2, 10 * MS, 100 * MS);
	a = push(4);
	ck_assert_ptr_eq(pick(), a);
	now += 10 * MS;
	finish(a, 10 * MS);
	b = push(4);
	ck_assert_ptr_null(pick());
	collect(16);
	ck_assert_uint_eq(sums[4].nr_periods, 1);
	ck_assert_uint_eq(sums[4].nr_throttled, 0);
	now += 30 * MS;
	collect(16);
	ck_assert_uint_eq(sums[4].nr_throttled, 1);
	ck_assert_uint_eq(sums[4].throttled_ns, 30 * MS);
	ck_assert_uint_eq(sums[4].waiting_ns, 30 * MS);
	ck_assert_uint_eq(sched_next_wake(s), now + 60 * MS);
	/* Late: what is past the period's end was not its maximum's doing. */
	now += 65 * MS;
	ck_assert_ptr_eq(pick(), b);
	collect(16);
	ck_assert_uint_eq(sums[4].nr_periods, 2);
	ck_assert_uint_eq(sums[4].nr_throttled, 1);
	ck_assert_uint_eq(sums[4].throttled_ns, 90 * MS);
	ck_assert_uint_eq(sums[4].waiting_ns, 95 * MS);
	/* It is its own maximum, not of those above; they wait, though. */
	ck_assert_uint_eq(sums[2].throttled_ns, 0);
	ck_assert_uint_eq(sums[2].nr_periods, 0);
	ck_assert_uint_eq(sums[2].waiting_ns, 95 * MS);
	/* It runs through three periods more, and owes for them. */
	now += 300 * MS;
	ck_assert_ptr_null(pick());
	finish(b, 300 * MS);
	collect(16);
	ck_assert_uint_eq(sums[4].nr_periods, 5);
	ck_assert_uint_eq(sums[4].nr_throttled, 1);
	ck_assert_uint_eq(sums[4].throttled_ns, 90 * MS);
	/* Nobody waits: nor is anybody throttled. */
	now += 1000 * MS;
	collect(16);
	ck_assert_uint_eq(sums[4].nr_periods, 5);
	ck_assert_uint_eq(sums[4].throttled_ns, 90 * MS);
	/* 300 ms are paid in 30 periods, of which ten are over. */
	b = push(4);
	ck_assert_ptr_null(pick());
	now += 200 * MS;
	ck_assert_ptr_null(pick());
	take_out(b);
	now += 100 * MS;
	ck_assert_ptr_null(pick());
	collect(16);
	ck_assert_uint_eq(sums[4].throttled_ns, 290 * MS);
	ck_assert_uint_eq(sums[4].nr_throttled, 4);
	ck_assert_uint_eq(sums[4].nr_periods, 8);
	ck_assert_uint_eq(sums[4].waiting_ns, 295 * MS);
	sched_destroy(s);
}
END_TEST

/* Two below wait, and both maxima are used up for a while. */
START_TEST(throttled_above)
{
	struct graph_node *a, *b, *c;

	begin(2, true);
	limit(2, 1, 5 * MS, 50 * MS);
	limit(4, 2, 5 * MS, 100 * MS);
	a = push(4);
	ck_assert_ptr_eq(pick(), a);
	now += 5 * MS;
	finish(a, 5 * MS);
	b = push(4);
	c = push(5);
	ck_assert_ptr_null(pick());
	now += 45 * MS;
	/* 2 may go on, and so 5. */
	ck_assert_ptr_eq(pick(), c);
	ck_assert_ptr_null(pick());
	collect(16);
	ck_assert_uint_eq(sums[2].throttled_ns, 45 * MS);
	ck_assert_uint_eq(sums[2].nr_throttled, 1);
	ck_assert_uint_eq(sums[4].throttled_ns, 45 * MS);
	ck_assert_uint_eq(sums[5].throttled_ns, 0);
	ck_assert_uint_eq(sums[5].waiting_ns, 45 * MS);
	now += 10 * MS;
	/* 4 waits still, but for its own. */
	collect(16);
	ck_assert_uint_eq(sums[4].throttled_ns, 55 * MS);
	ck_assert_uint_eq(sums[2].throttled_ns, 45 * MS);
	finish(c, MS);
	/* Its maximum is taken away: it may go on, and has been throttled till now. */
	now += 10 * MS;
	ck_assert_ptr_null(pick());
	limit(4, 2, SCHED_NO_MAX, 0);
	ck_assert_ptr_eq(pick(), b);
	now += 10 * MS;
	collect(16);
	ck_assert_uint_eq(sums[4].throttled_ns, 65 * MS);
	ck_assert_uint_eq(sums[4].nr_throttled, 1);
	ck_assert_uint_eq(sums[4].waiting_ns, 65 * MS);
	finish(b, MS);
	sched_destroy(s);
}
END_TEST

/* A maximum comes, changes and goes above those that wait for another one. */
START_TEST(maximum_changes)
{
	struct graph_node *a, *b, *c;

	begin(1, true);
	limit(4, 2, 0, 100 * MS);
	a = push(4);
	ck_assert_ptr_null(pick());
	now += 150 * MS;
	collect(16);
	ck_assert_uint_eq(sums[4].throttled_ns, 150 * MS);
	ck_assert_uint_eq(sums[4].nr_throttled, 2);
	limit(2, 1, 0, 100 * MS);
	ck_assert_ptr_null(pick());
	now += 100 * MS;
	collect(16);
	ck_assert_uint_eq(sums[2].throttled_ns, 100 * MS);
	ck_assert_uint_eq(sums[4].throttled_ns, 250 * MS);
	/* With its tenant: as one below another one, and of that alone. */
	limit(4, 3, SCHED_NO_MAX, 0);
	b = pick();
	ck_assert_ptr_eq(b, a);
	c = push(4);
	ck_assert_ptr_null(pick());
	now += 100 * MS;
	collect(16);
	ck_assert_uint_eq(sums[2].throttled_ns, 100 * MS);
	ck_assert_uint_eq(sums[4].throttled_ns, 250 * MS);
	finish(b, 100 * MS);
	limit(2, 1, 7, 1);
	limit(2, 1, SCHED_NO_MAX, 0);
	ck_assert_ptr_eq(pick(), c);
	finish(c, 1);
	sched_destroy(s);
}
END_TEST

/* A period that was long is no reason to count none of short ones. */
START_TEST(periods_become_short)
{
	struct graph_node *a;
	int i;

	begin(1, true);
	limit(4, 2, 10 * MS, 3600000 * MS);
	a = push(4);
	ck_assert_ptr_eq(pick(), a);
	now += 20 * MS;
	finish(a, 20 * MS);
	a = push(4);
	ck_assert_ptr_null(pick());
	now += 50 * MS;
	collect(16);
	ck_assert_uint_eq(sums[4].nr_periods, 1);
	ck_assert_uint_eq(sums[4].nr_throttled, 1);
	limit(4, 2, 0, 100 * MS);
	for (i = 0; i < 10; i++) {
		ck_assert_ptr_null(pick());
		now += 100 * MS;
		collect(16);
	}
	ck_assert_uint_ge(sums[4].nr_periods, 10);
	ck_assert_uint_le(sums[4].nr_periods, 12);
	ck_assert_uint_eq(sums[4].nr_throttled, sums[4].nr_periods);
	limit(4, 2, SCHED_NO_MAX, 0);
	ck_assert_ptr_eq(pick(), a);
	finish(a, 1);
	sched_destroy(s);
}
END_TEST

/* Who is to be told of stays until then. */
START_TEST(nothing_is_forgotten)
{
	struct graph_node *a, *b;
	struct sched_stat got[16];
	uint64_t sum = 0;
	uint32_t n;

	begin(1, false);
	a = push(5000);
	ck_assert_ptr_eq(pick(), a);
	for (uint64_t id = 1; id < 3000; id++) {
		b = push(id);
		ck_assert_ptr_null(pick());
		now += 10;
		ck_assert_ptr_null(pick());
		take_out(b);
	}
	do {
		n = sched_stats(s, got, 16, now);
		for (uint32_t i = 0; i < n; i++) {
			ck_assert_uint_eq(got[i].waiting_ns, 10);
			sum += got[i].waiting_ns;
		}
	} while (n == 16);
	ck_assert_uint_eq(sum, 2999 * 10);
	ck_assert(!sched_has_stats(s));
	finish(a, 1);
	sched_destroy(s);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched waits");
	TCase *tc = tcase_create("waits");
	SRunner *r;
	int failed;

	tcase_add_test(tc, no_wait);
	tcase_add_test(tc, overlaps_count_once);
	tcase_add_test(tc, another_parent);
	tcase_add_test(tc, as_by_hand);
	tcase_add_test(tc, throttled);
	tcase_add_test(tc, throttled_above);
	tcase_add_test(tc, maximum_changes);
	tcase_add_test(tc, periods_become_short);
	tcase_add_test(tc, nothing_is_forgotten);
	suite_add_tcase(suite, tc);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
