// SPDX-License-Identifier: MIT
/* sim_area_test - the least time for some work on many kinds of device (area.h) */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/sim/area.h"
#include "daemon/sim/rng.h"

#define LOADS	60
/* Of which all ways to place them are looked at. */
#define FEW	6
#define ROUNDS	16000
#define STEP	0.02
#define MANY	200000

/**
 * struct work - tasks of @nr kernels on @kinds kinds of device
 * @us:		that one takes on each kind; 0: it can't run there
 * @chain:	bit for each kernel whose tasks run one after the other
 */
struct work {
	int nr, kinds, devices[SIM_MAX_KINDS];
	double us[LOADS][SIM_MAX_KINDS], count[LOADS];
	uint64_t chain;
};

static char error[512];

static void load(struct scenario *sc, const struct work *w)
{
	size_t room = 1u << 20;
	char *text = malloc(room), *to = text;
	int err;

	ck_assert_ptr_nonnull(text);
	to += sprintf(to, "{ \"machine\": { \"devices\": [");
	for (int k = 0; k < w->kinds; k++)
		to += sprintf(to, "%s { \"name\": \"%c\", \"count\": %d }", k ? "," : "", 'a' + k,
			      w->devices[k]);
	to += sprintf(to, " ] }, \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [");
	for (int i = 0; i < w->nr; i++) {
		to += sprintf(to, "%s { \"name\": \"k%d\", \"cost\": {", i ? "," : "", i);
		for (int k = 0, n = 0; k < w->kinds; k++)
			if (w->us[i][k] > 0)
				to += sprintf(to, "%s \"%c\": { \"base_us\": %.15g }",
					      n++ ? "," : "", 'a' + k, w->us[i][k]);
		to += sprintf(to, " } }");
	}
	sprintf(to, " ], \"workload\": [ { \"type\": \"streams\", \"width\": 1, \"length\": 1, \"kernels\": [ \"k0\" ], \"work\": 1, \"mb\": 1 } ] }");
	err = scenario_load(sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	free(text);
	ck_assert_msg(!err, "%s", error);
}

static double least_us(const struct work *w)
{
	struct scenario sc;
	struct area a;
	double ns;

	load(&sc, w);
	ck_assert(area_init(&a, &sc));
	for (int i = 0; i < w->nr; i++) {
		struct sim_task t = { .kernel = (uint16_t)i, .work = 1 };

		ck_assert_uint_eq(area_load(&a, &t, w->chain >> i & 1), (uint32_t)i);
	}
	ns = area_least_ns(&a, w->count, w->chain, 0);
	area_fini(&a);
	scenario_fini(&sc);
	return ns / 1000;
}

static struct work some_devices(struct rng *rng, int kinds, int nr)
{
	struct work w = { .nr = nr, .kinds = kinds };

	for (int k = 0; k < kinds; k++)
		w.devices[k] = (int)rng_between(rng, 1, 20);
	for (int i = 0; i < nr; i++)
		w.count[i] = (double)rng_between(rng, 1, 30);
	return w;
}

/* Kinds that are faster than others for anything, or for some; not all run all. */
static struct work random_work(struct rng *rng, int kinds, int nr)
{
	struct work w = some_devices(rng, kinds, nr);
	double slow[SIM_MAX_KINDS], spread = (double)rng_between(rng, 0, 3);

	for (int k = 0; k < kinds; k++)
		slow[k] = exp(4 * rng_unit(rng_next(rng)));
	for (int i = 0; i < nr; i++)
		for (int k = 0; k < kinds; k++)
			if (!k || rng_between(rng, 0, 9))
				w.us[i][k] = 100 * slow[k] * exp(spread * rng_unit(rng_next(rng)));
	return w;
}

/*
 * Something that can be done: by multiplicative weights, each round all tasks of a load go where
 * they are cheapest by prices that grow where much has gone; in the mean of the second half of
 * all rounds.
 */
static double feasible_us(const struct work *w, int rounds, double step)
{
	double weight[SIM_MAX_KINDS + 1] = { 0 }, sum[SIM_MAX_KINDS + 1] = { 0 };
	double most = 0, largest = 0;

	for (int k = 0; k < w->kinds; k++) {
		double us = 0;

		for (int i = 0; i < w->nr; i++)
			us += w->us[i][k];
		weight[k] = us > 0 ? w->devices[k] / us : 0;
		weight[w->kinds] = fmax(weight[k], weight[w->kinds]);
	}
	for (int r = -rounds; r < rounds; r++) {
		double used[SIM_MAX_KINDS + 1] = { 0 }, heaviest = 0;

		for (int i = 0; i < w->nr; i++) {
			double least = HUGE_VAL;
			int at = 0;

			for (int k = 0; k < w->kinds; k++) {
				double price = weight[k] / w->devices[k];

				if (w->chain >> i & 1)
					price += weight[w->kinds];
				if (w->us[i][k] > 0 && price * w->us[i][k] < least) {
					least = price * w->us[i][k];
					at = k;
				}
			}
			used[at] += w->us[i][at] * w->count[i] / w->devices[at];
			if (w->chain >> i & 1)
				used[w->kinds] += w->us[i][at] * w->count[i];
		}
		for (int k = 0; k <= w->kinds; k++) {
			sum[k] += r < 0 ? 0 : used[k];
			largest = fmax(largest, used[k]);
		}
		for (int k = 0; k <= w->kinds; k++) {
			weight[k] *= exp(step * used[k] / largest);
			heaviest = fmax(heaviest, weight[k]);
		}
		for (int k = 0; k <= w->kinds; k++)
			weight[k] /= heaviest;
	}
	for (int k = 0; k <= w->kinds; k++)
		most = fmax(most, sum[k] / rounds);
	return most;
}

static const int of_kinds[] = { 2, 3, 4, 8, 16 };
#define NR_OF_KINDS	((int)(sizeof(of_kinds) / sizeof(of_kinds[0])))

START_TEST(near_what_can_be_done)
{
	struct rng rng = { .seed = (uint64_t)_i + 1 };

	for (int n = 0; n < 20; n++) {
		struct work w = random_work(&rng, of_kinds[_i], (int)rng_between(&rng, 1, LOADS));
		double can, ns;

		if (n & 1)
			w.chain = rng_next(&rng) & rng_next(&rng);
		w.chain &= ~0ull >> (64 - w.nr);
		for (int i = 0; i < w.nr; i++)
			w.count[i] = w.chain >> i & 1 ? 1 : w.count[i];
		can = feasible_us(&w, ROUNDS, STEP);
		ns = least_us(&w);
		ck_assert_double_le(ns, can * (1 + 1e-9));
		ck_assert_double_ge(ns, can * 0.98);
	}
}
END_TEST

/*
 * What is least is known beforehand: by some prices each task costs least on the kind that it is
 * on, and all kinds end together.
 */
START_TEST(what_was_hidden_is_found)
{
	struct rng rng = { .seed = (uint64_t)_i + 100 };
	int kinds = of_kinds[_i];

	for (int n = 0; n < 20; n++) {
		struct work w = some_devices(&rng, kinds, (int)rng_between(&rng, kinds, LOADS));
		double price[SIM_MAX_KINDS], all[SIM_MAX_KINDS] = { 0 }, us = 1e6;

		for (int k = 0; k < kinds; k++)
			price[k] = exp(4 * rng_unit(rng_next(&rng)));
		for (int i = 0; i < w.nr; i++)
			all[i % kinds] += w.count[i];
		for (int i = 0; i < w.nr; i++) {
			int home = i % kinds;
			double takes = us * w.devices[home] / all[home];

			for (int k = 0; k < kinds; k++)
				w.us[i][k] = takes * price[home] / price[k];
			/* Others are dearer, more or less so, or all the same. */
			for (int k = 0; n % 4 && k < kinds; k++)
				if (k != home && rng_between(&rng, 0, 3))
					w.us[i][k] *= exp(n % 4 * rng_unit(rng_next(&rng)));
		}
		ck_assert_double_le(least_us(&w), us * (1 + 1e-9));
		ck_assert_double_ge(least_us(&w), us * 0.9999);
	}
}
END_TEST

/* Of whole tasks, each placed on any kind, whatever it can be cut into there. */
static double placed_us(const struct work *w, int i, double *used, double chain)
{
	double best = HUGE_VAL;

	if (i == w->nr) {
		for (int k = 0; k < w->kinds; k++)
			chain = fmax(chain, used[k] / w->devices[k]);
		return chain;
	}
	for (int k = 0; k < w->kinds; k++) {
		if (w->us[i][k] <= 0)
			continue;
		used[k] += w->us[i][k];
		best = fmin(best, placed_us(w, i + 1, used,
					    chain + (w->chain >> i & 1 ? w->us[i][k] : 0)));
		used[k] -= w->us[i][k];
	}
	return best;
}

START_TEST(no_placement_beats_it)
{
	struct rng rng = { .seed = (uint64_t)_i + 200 };

	for (int n = 0; n < 40; n++) {
		struct work w = random_work(&rng, (int)rng_between(&rng, 2, 4),
					    (int)rng_between(&rng, 1, FEW));
		double used[SIM_MAX_KINDS] = { 0 };

		for (int i = 0; i < w.nr; i++)
			w.count[i] = 1;
		for (int k = 0; k < w.kinds; k++)
			w.devices[k] = (int)rng_between(&rng, 1, 2);
		w.chain = rng_next(&rng) & ((1u << w.nr) - 1);
		ck_assert_double_le(least_us(&w), placed_us(&w, 0, used, 0) * (1 + 1e-9));
	}
}
END_TEST

/* One kernel, tasks of @nr sizes, of each the same; those of every 1000th are long. */
static double sizes_ns(const struct work *w, uint32_t nr, double count, double beyond)
{
	double *counts = malloc(nr * sizeof(*counts)), ns;
	struct scenario sc;
	struct area a;

	ck_assert_ptr_nonnull(counts);
	load(&sc, w);
	for (int k = 0; k < w->kinds; k++)
		sc.kernels[0].cost[k].item_ns = k + 1;
	ck_assert(area_init(&a, &sc));
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t n = i * (MANY / nr);
		struct sim_task t = { .work = (1000 + n) * (n % 1000 ? 1ull : 1000ull) + 1 };

		ck_assert_uint_eq(area_load(&a, &t, false), i);
		counts[i] = count;
	}
	ns = area_least_ns(&a, counts, false, beyond);
	area_fini(&a);
	scenario_fini(&sc);
	free(counts);
	return ns;
}

/* So many loads that all prices are found with some of them. */
START_TEST(many_kinds_are_quick)
{
	struct work w = { .nr = 1, .kinds = SIM_MAX_KINDS };
	double speed = 0, all = 0, ns, seconds;
	clock_t began;

	for (int k = 0; k < w.kinds; k++) {
		w.devices[k] = 16;
		w.us[0][k] = 1e-6;
		speed += 16.0 / (k + 1);
	}
	for (uint32_t n = 0; n < MANY; n++)
		all += (1000.0 + n) * (n % 1000 ? 1 : 1000);
	began = clock();
	ns = sizes_ns(&w, MANY, 1, 0);
	seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
	ck_assert_double_lt(seconds, 5);
	/* All kinds together are as quick as so many of the first one. */
	ck_assert_double_le(ns, (all + MANY) / speed * (1 + 1e-6));
	ck_assert_double_ge(ns, all / speed * 0.99);
}
END_TEST

/* To who asks whether it is above something; what is said where it isn't is a bound, too. */
START_TEST(what_is_above_is_told_in_full)
{
	struct work w = { .nr = 1, .kinds = 3, .devices = { 1, 1, 1 }, .us = { { 1, 1, 1 } } };
	double ns = sizes_ns(&w, 100, 1, 0);

	ck_assert_double_le(sizes_ns(&w, 100, 1, 2 * ns), ns * (1 + 1e-9));
	ck_assert_double_eq_tol(sizes_ns(&w, 100, 1, ns * 0.9), ns, ns * 1e-5);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim_area");
	TCase *t = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, near_what_can_be_done, 0, NR_OF_KINDS);
	tcase_add_loop_test(t, what_was_hidden_is_found, 0, NR_OF_KINDS);
	tcase_add_loop_test(t, no_placement_beats_it, 0, 10);
	tcase_add_test(t, many_kinds_are_quick);
	tcase_add_test(t, what_is_above_is_told_in_full);
	suite_add_tcase(suite, t);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
