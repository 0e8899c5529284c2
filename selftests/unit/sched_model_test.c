// SPDX-License-Identifier: MIT
/* sched_model_test - run times learnt, outliers, and what sizes say of other sizes */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "daemon/sched/regress.h"
#include "daemon/sched/sched.h"

#define KERNEL	((uint64_t)(ARAX_OP_LAUNCH + 1) << 32 | 1)

static struct sched *s;
static uint64_t rng = 88172645463325252ull;

static double noise(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (double)(rng >> 11) / (1ull << 53) * 2 - 1;
}

static void setup(void)
{
	s = sched_create(&(struct sched_params){ 0 });
}

static void teardown(void)
{
	sched_destroy(s);
}

static void observe(uint32_t device, uint64_t work, uint64_t ns, int times)
{
	while (times--)
		sched_observe(s, KERNEL, device, work, ns);
}

#define near(is, should, relative) \
	ck_assert_double_lt(fabs((double)(is) / (double)(should) - 1), relative)

START_TEST(finds_a_line)
{
	struct regress_point p[10];
	struct regress_fit f;

	for (int i = 0; i < 10; i++) {
		double work = 1 << (2 * i);

		p[i] = (struct regress_point){ work, 5000 + 3 * work, 1 };
	}
	f = regress(p, 10);
	ck_assert(!f.power);
	near(f.a, 5000, 1e-6);
	near(f.b, 3, 1e-6);
	ck_assert_double_lt(f.error, 1e-6);
	ck_assert_uint_gt(regress_confidence(&f, 1000), 850);
	/* Far beyond it is worth less. */
	ck_assert_uint_lt(regress_confidence(&f, 1e12), 300);
	for (int i = 0; i < 10; i++)
		p[i].ns *= 1 + 0.1 * noise();
	f = regress(p, 10);
	near(regress_ns(&f, 300000), 905000, 0.15);
	ck_assert_uint_lt(regress_confidence(&f, 1000), 850);
}
END_TEST

START_TEST(finds_a_power)
{
	struct regress_point p[8];
	struct regress_fit f;

	for (int i = 0; i < 8; i++) {
		double work = 16 << i;

		p[i] = (struct regress_point){ work, 7 * pow(work, 1.5) * (1 + 0.02 * noise()), 1 };
	}
	f = regress(p, 8);
	ck_assert(f.power);
	near(f.b, 1.5, 0.05);
	near(regress_ns(&f, 5000), 7 * pow(5000, 1.5), 0.1);
}
END_TEST

START_TEST(curves_are_tame)
{
	/* Falling with work: at best it doesn't depend on it. */
	struct regress_point fall[] = { { 10, 900, 1 }, { 100, 500, 1 }, { 1000, 100, 1 } };
	struct regress_point below[] = { { 100, 10, 1 }, { 200, 1000, 1 }, { 300, 2000, 1 } };
	struct regress_point same[] = { { 100, 10, 1 }, { 100, 1000, 1 } };
	struct regress_point bad[] = { { 0, 10, 1 }, { 100, NAN, 1 } };
	struct regress_fit f = regress(fall, 3);

	ck_assert_double_ge(f.b, 0);
	ck_assert_uint_lt(regress_confidence(&f, 100), SCHED_CONFIDENT);
	f = regress(below, 3);
	ck_assert_double_gt(regress_ns(&f, 1), 0);
	f = regress(same, 2);
	ck_assert_uint_eq(f.points, 0);
	ck_assert_uint_eq(regress_confidence(&f, 100), 0);
	ck_assert(regress_ns(&f, 100) == 0);
	ck_assert_uint_eq(regress(bad, 2).points, 0);
	ck_assert_uint_eq(regress(fall, 1).points, 0);
	ck_assert_uint_eq(regress(fall, REGRESS_POINTS + 1).points, 0);
}
END_TEST

START_TEST(unseen_sizes_are_forecast)
{
	struct sched_forecast f = sched_forecast(s, KERNEL, 0, 1 << 12);

	ck_assert_uint_eq(f.ns, 0);
	ck_assert_uint_eq(f.confidence, 0);
	for (int k = 4; k < 20; k += 3)
		observe(0, 1u << k, 2000 + 10 * (1u << k), 20);
	f = sched_forecast(s, KERNEL, 0, 1 << 12);
	ck_assert(f.regression);
	ck_assert_uint_eq(f.runs, 0);
	near(f.ns, 2000 + 10 * 4096, 0.05);
	ck_assert_uint_ge(f.confidence, SCHED_CONFIDENT);
	/* With a history of its own that counts. */
	observe(0, 1 << 12, 100000, 20);
	f = sched_forecast(s, KERNEL, 0, 1 << 12);
	ck_assert(!f.regression);
	ck_assert_uint_eq(f.ns, 100000);
	ck_assert_uint_gt(f.confidence, 900);
	/* Nothing is told of another device, or another kernel. */
	ck_assert_uint_eq(sched_forecast(s, KERNEL, 1, 1 << 12).ns, 0);
	ck_assert_uint_eq(sched_forecast(s, KERNEL + 1, 0, 1 << 12).ns, 0);
	/* sched_estimate() stays with what was seen. */
	ck_assert_uint_eq(sched_estimate(s, KERNEL, 0, 1 << 14).ns, 0);
}
END_TEST

START_TEST(mean_work_counts_not_the_class)
{
	/* All at the upper end of their classes: with their lower bounds it were 2x off. */
	for (int k = 4; k < 14; k += 2)
		observe(0, (2u << k) - 1, 10 * ((2u << k) - 1), 20);
	near(sched_forecast(s, KERNEL, 0, (2 << 9) - 1).ns, 10 * ((2 << 9) - 1), 0.05);
}
END_TEST

START_TEST(outliers_are_left_out)
{
	struct sched_estimate e;

	observe(0, 64, 1000, 100);
	for (int i = 0; i < 50; i++) {
		observe(0, 64, 1000000, 1);
		observe(0, 64, 1000, 30);
	}
	e = sched_estimate(s, KERNEL, 0, 64);
	ck_assert_uint_eq(e.ns, 1000);
	/* The longest shows them all the same. */
	observe(0, 64, 1000000, 1);
	ck_assert_uint_eq(sched_estimate(s, KERNEL, 0, 64).max_ns, 1000000);
	/* Those in a row are a change. */
	observe(0, 64, 1000000, 60);
	near(sched_estimate(s, KERNEL, 0, 64).ns, 1000000, 0.01);
	/* In the first runs there is no saying what is one. */
	observe(1, 64, 1000, 2);
	observe(1, 64, 9000, 1);
	ck_assert_uint_gt(sched_estimate(s, KERNEL, 1, 64).ns, 3000);
}
END_TEST

START_TEST(noise_is_not_an_outlier)
{
	double sum = 0;

	for (int i = 0; i < 20000; i++) {
		uint64_t ns = (uint64_t)(10000 + 9000 * noise());

		observe(0, 64, ns, 1);
		if (i >= 19000)
			sum += (double)sched_estimate(s, KERNEL, 0, 64).ns;
	}
	near(sum / 1000, 10000, 0.1);
	ck_assert_uint_lt(sched_forecast(s, KERNEL, 0, 64).confidence, 850);
}
END_TEST

/* Two devices whose sizes are known but for one: no trials there. */
START_TEST(eft_needs_no_trial_of_what_it_can_tell)
{
	static struct graph_node n[64];
	unsigned int on[2] = { 0 };

	for (uint32_t d = 0; d < 2; d++) {
		sched_device_set(s, d, 1);
		for (int k = 4; k < 16; k += 2)
			observe(d, 1u << k, (d ? 10 : 40) * (1u << k), 20);
	}
	for (int i = 0; i < 20; i++) {
		n[i] = (struct graph_node){ .seq = i + 1 };
		n[i].d.opcode = ARAX_OP_LAUNCH;
		n[i].d.kernel = 1;
		n[i].d.tenant = 1;
		n[i].d.grid[0] = 1 << 9;
		ck_assert_int_eq(sched_push(s, &n[i], 1), 0);
		ck_assert_ptr_eq(sched_pick(s, 1), &n[i]);
		ck_assert_uint_gt(n[i].sched.predicted_ns, 0);
		on[n[i].device]++;
		sched_finish(s, &n[i], (n[i].device ? 10 : 40) << 9, true);
	}
	ck_assert_uint_eq(on[0], 0);
	ck_assert_uint_eq(on[1], 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_model");
	TCase *c = tcase_create("models");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, finds_a_line);
	tcase_add_test(c, finds_a_power);
	tcase_add_test(c, curves_are_tame);
	tcase_add_test(c, unseen_sizes_are_forecast);
	tcase_add_test(c, mean_work_counts_not_the_class);
	tcase_add_test(c, outliers_are_left_out);
	tcase_add_test(c, noise_is_not_an_outlier);
	tcase_add_test(c, eft_needs_no_trial_of_what_it_can_tell);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
