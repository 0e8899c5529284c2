// SPDX-License-Identifier: MIT
/* sim_bound_test - the bound by all ways (ways.h), and the linear program that it solves (least.h) */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sim/engine.h"
#include "daemon/sim/least.h"
#include "daemon/sim/rng.h"
#include "daemon/sim/ways.h"
#include "selftests/bench/sirocco.h"
#include "selftests/unit/tmp.h"

#define MS	1000000.0

#define MOST	9
/* Of which all schedules are looked at. */
#define FEW	6
#define KINDS	2

static char error[512];

/* ------------------------------------------------------------------ */
/* The linear program                                                  */

#define VARIABLES	7
#define ROWS		12

static double value_at(const double *constant, double weight[][VARIABLES], const double *x)
{
	double most = -HUGE_VAL;

	for (int r = 0; r < ROWS; r++) {
		double sum = constant[r];

		for (int i = 0; i < VARIABLES; i++)
			sum += weight[r][i] * x[i];
		most = fmax(most, sum);
	}
	return most;
}

/* No x has less, and the one that it comes to has that. */
START_TEST(the_least_is_found)
{
	struct rng rng = { .seed = (uint64_t)_i + 1 };
	double constant[ROWS], weight[ROWS][VARIABLES], x[VARIABLES], least;
	struct least *l = least_make(VARIABLES, 9);

	ck_assert_ptr_nonnull(l);
	least_fix(l, 2, 1);
	for (int r = 0; r < ROWS; r++) {
		constant[r] = (double)rng_between(&rng, 0, 100);
		for (int i = 0; i < VARIABLES; i++)
			weight[r][i] = (double)rng_between(&rng, 0, 100) - 50;
	}
	/* One after the other, and those that nothing hangs on make room. */
	for (int round = 0; round < 30; round++)
		for (int r = 0; r < ROWS; r++) {
			double sum = constant[r];

			if (round + r)
				least_solve(l, 1000, x);
			else
				memset(x, 0, sizeof(x));
			for (int i = 0; i < VARIABLES; i++)
				sum += weight[r][i] * x[i];
			if (!(round + r) || sum > least_bound(l) + 1e-9)
				ck_assert(least_add(l, constant[r], weight[r]));
		}
	ck_assert_uint_lt(least_solve(l, 1000, x), 1000);
	least = least_bound(l);
	ck_assert_double_eq_tol(value_at(constant, weight, x), least, 1e-6);
	for (int i = 0; i < VARIABLES; i++)
		ck_assert(x[i] >= 0 && x[i] <= 1);
	ck_assert_double_eq(x[2], 1);
	for (int n = 0; n < 2000; n++) {
		for (int i = 0; i < VARIABLES; i++)
			x[i] = n & 1 ? (double)rng_between(&rng, 0, 1) : rng_unit(rng_next(&rng));
		x[2] = 1;
		ck_assert_double_ge(value_at(constant, weight, x), least - 1e-6);
	}
	least_free(l);
}
END_TEST

/* Stopped before its end it says less, not more. */
START_TEST(a_search_that_ends_early_is_a_bound)
{
	static const double weight[2][VARIABLES] = {
		{ -1, -2, -3, -4, -5, -6, -7 }, { 7, 6, 5, 4, 3, 2, 1 },
	};
	struct least *l = least_make(VARIABLES, 2);
	double x[VARIABLES], early, last;

	ck_assert(least_add(l, 28, weight[0]));
	early = least_bound(l);
	ck_assert_double_eq_tol(early, 0, 1e-9);
	ck_assert(least_add(l, 0, weight[1]));
	ck_assert_uint_eq(least_solve(l, 0, x), 0);
	ck_assert_double_eq_tol(least_bound(l), early, 1e-9);
	least_solve(l, 100, x);
	last = least_bound(l);
	/* Those that help most first: 7, 6, 5 and half of 4 make 28 - 20 = 8 of both. */
	ck_assert_double_eq_tol(last, 8, 1e-9);
	/* There is no place for a third one, as both count. */
	ck_assert(!least_add(l, 100, weight[0]));
	least_free(l);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Small graphs                                                        */

/**
 * struct small - a program of few tasks on few devices
 * @ms:		that a task takes on each kind; 0: it can't run there
 * @after:	bit for each earlier task that it waits for
 * @host:	bit for each task that is the host's, for the first kind's time
 * @demand:	of all of a device, while a task runs; 0: it is 1
 * @jitter:	by what part of it a task's time may be less, or more
 * @copy:	that anything takes to or from the first kind, ms
 * @fetch:	bit for each task that reads something nobody writes
 */
struct small {
	int nr, devices[KINDS];
	double ms[MOST][KINDS];
	uint32_t after[MOST];
	uint32_t host;
	double demand, jitter, copy;
	uint32_t fetch;
};

/* Each task is the only one of its kernel. */
static void load(struct scenario *sc, const struct small *g)
{
	char path[UNIT_TMP_LEN], text[4096], line[512];
	int fd = mkstemp(unit_tmp(path, "arax-bound-XXXXXX")), err;

	ck_assert_int_ge(fd, 0);
	for (int i = 0; i < g->nr; i++) {
		size_t len;

		if (g->host >> i & 1)
			len = (size_t)sprintf(line, "{\"kernel\": \"host\", \"work\": %.0f", g->ms[i][0] * MS);
		else
			len = (size_t)sprintf(line, "{\"kernel\": \"k%d\", \"work\": 1", i);
		len += (size_t)sprintf(line + len, ", \"ranges\": [[\"b%d\", 0, 8, \"out\"]", i);
		for (int j = 0; j < i; j++)
			if (g->after[i] >> j & 1)
				len += (size_t)sprintf(line + len, ", [\"b%d\", 0, 8, \"in\"]", j);
		if (g->fetch >> i & 1)
			len += (size_t)sprintf(line + len, ", [\"h%d\", 0, 8, \"in\"]", i);
		len += (size_t)sprintf(line + len, "]}\n");
		ck_assert_int_eq(write(fd, line, len), (ssize_t)len);
	}
	close(fd);
	sprintf(text, "{ \"jitter\": %g, \"machine\": { ", g->jitter);
	if (g->copy > 0)
		sprintf(text + strlen(text), "\"links\": [ { \"name\": \"l\", \"count\": %d, \"gb_per_s\": 1000000, \"latency_us\": %g } ], ",
			g->devices[0], g->copy * 1000);
	sprintf(text + strlen(text), "\"devices\": [ { \"name\": \"f\", \"count\": %d, \"lanes\": 2 %s }, { \"name\": \"s\", \"count\": %d, \"lanes\": 1 } ] }, \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [",
		g->devices[0],
		g->copy > 0 ? ", \"link\": \"l\", \"memory_gb\": 1, \"peers\": true" : "",
		g->devices[1]);
	for (int i = 0; i < g->nr; i++) {
		sprintf(text + strlen(text), "%s{ \"name\": \"k%d\", \"cost\": {", i ? "," : "", i);
		for (int k = 0, n = 0; k < KINDS; k++)
			if (g->ms[i][k] > 0)
				sprintf(text + strlen(text), "%s \"%c\": { \"base_us\": %g, \"demand\": %g }",
					n++ ? "," : "", "fs"[k], g->ms[i][k] * 1000,
					g->demand > 0 ? g->demand : 1);
		strcat(text, " } }");
	}
	sprintf(text + strlen(text), " ], \"workload\": [ { \"type\": \"trace\", \"file\": \"%s\", \"priority\": \"path\" } ] }",
		path);
	err = scenario_load(sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	unlink(path);
	ck_assert_msg(!err, "%s", error);
}

/* The quick kind has two lanes. */
static int places(const struct small *g, int kind)
{
	return g->devices[kind] * (!kind && g->demand > 0 && g->demand <= 0.5 ? 2 : 1);
}

static double carried(const struct small *g, uint32_t kinds, int to, int from)
{
	/* What the host does is where nobody is. */
	if ((g->host >> to | g->host >> from) & 1)
		return 0;
	return (kinds >> to ^ kinds >> from) & 1 ? g->copy : 0;
}

/*
 * Tasks in this order, each as early as it goes, and as short as it may be; copies disturb nobody, and
 * between devices of a kind they take no time.
 */
static double schedule(const struct small *g, const int *order, uint32_t kinds)
{
	double free_at[KINDS][4] = { { 0 } }, end[MOST], last = 0;

	for (int n = 0; n < g->nr; n++) {
		int i = order[n], k = kinds >> i & 1, d = 0;
		double begin = 0;

		for (int j = 0; j < i; j++)
			if (g->after[i] >> j & 1)
				begin = fmax(begin, end[j] + carried(g, kinds, i, j));
		if (!k && g->fetch >> i & 1)
			begin = fmax(begin, g->copy);
		if (g->host >> i & 1) {
			end[i] = begin + g->ms[i][0];
			last = fmax(last, end[i]);
			continue;
		}
		for (int c = 1; c < places(g, k); c++)
			if (free_at[k][c] < free_at[k][d])
				d = c;
		end[i] = fmax(begin, free_at[k][d]) + g->ms[i][k] * (1 - g->jitter);
		free_at[k][d] = end[i];
		last = fmax(last, end[i]);
	}
	return last;
}

/* Of all orders, with all kinds for each task. */
static double best_of(const struct small *g, int *order, int placed, uint32_t done)
{
	double best = HUGE_VAL;

	if (placed == g->nr) {
		for (uint32_t kinds = 0; kinds < 1u << g->nr; kinds++) {
			bool can = true;

			for (int i = 0; i < g->nr; i++)
				can &= g->ms[i][kinds >> i & 1] > 0;
			if (can)
				best = fmin(best, schedule(g, order, kinds));
		}
		return best;
	}
	for (int i = 0; i < g->nr; i++) {
		if (done >> i & 1 || (g->after[i] & ~done))
			continue;
		order[placed] = i;
		best = fmin(best, best_of(g, order, placed + 1, done | 1u << i));
	}
	return best;
}

static double ways_ms(const struct small *g, struct sim_bound *all, double *makespan)
{
	struct sim_options o = { .policy = NULL };
	struct sim_result result;
	struct scenario sc;
	double ns;

	load(&sc, g);
	ck_assert_int_eq(ways_least_ns(&sc, 0, &ns), 0);
	ck_assert_int_eq(sim_bound(&sc, all, error, sizeof(error)), 0);
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), 0);
	*makespan = (double)result.makespan_ns / MS;
	sim_result_fini(&result);
	scenario_fini(&sc);
	return ns / MS;
}

static struct small random_graph(struct rng *rng)
{
	struct small g = { .nr = (int)rng_between(rng, 2, FEW) };

	g.devices[0] = (int)rng_between(rng, 1, 2);
	g.devices[1] = (int)rng_between(rng, 1, 3);
	for (int i = 0; i < g.nr; i++) {
		g.ms[i][0] = (double)rng_between(rng, 1, 20);
		g.ms[i][1] = g.ms[i][0] * (double)rng_between(rng, 1, 8);
		if (!rng_between(rng, 0, 5))
			g.ms[i][rng_between(rng, 0, 1)] = 0;
		for (int j = 0; j < i; j++)
			g.after[i] |= (uint32_t)!rng_between(rng, 0, 2) << j;
	}
	return g;
}

/* Two may be side by side, none takes as long as it says, or some are the host's. */
static struct small odd_graph(struct rng *rng)
{
	struct small g = random_graph(rng);

	g.demand = rng_between(rng, 0, 1) ? 1 : 0.5;
	g.jitter = rng_between(rng, 0, 1) ? 0 : 0.3;
	for (int i = 0; i < g.nr; i++)
		if (!rng_between(rng, 0, 3) && g.ms[i][0] > 0)
			g.host |= 1u << i;
	return g;
}

/* What goes from one kind to the other is on a link, and what the first kind finds at the host. */
static struct small linked_graph(struct rng *rng)
{
	struct small g = odd_graph(rng);

	g.copy = (double)rng_between(rng, 1, 6);
	for (int i = 0; i < g.nr; i++)
		g.fetch |= (uint32_t)!rng_between(rng, 0, 1) << i & ~g.host;
	return g;
}

START_TEST(no_schedule_with_copies_beats_it)
{
	struct rng rng = { .seed = (uint64_t)_i + 300 };
	int order[FEW], reached = 0, sharper = 0;

	for (int n = 0; n < 40; n++) {
		struct small g = linked_graph(&rng);
		double best = best_of(&g, order, 0, 0), makespan, ways, without;
		struct sim_bound all;

		ways = ways_ms(&g, &all, &makespan);
		ck_assert_double_le(ways, best * (1 + 1e-9));
		ck_assert_double_le(ways, makespan * (1 + 1e-9));
		reached += ways > best * 0.999;
		g.copy = 0;
		without = ways_ms(&g, &all, &makespan);
		ck_assert_double_ge(ways, without * 0.999);
		sharper += ways > without * 1.01;
	}
	ck_assert_int_ge(reached, 8);
	ck_assert_int_ge(sharper, 8);
}
END_TEST

START_TEST(no_schedule_of_an_odd_graph_beats_it)
{
	struct rng rng = { .seed = (uint64_t)_i + 200 };
	int order[FEW], reached = 0;

	for (int n = 0; n < 40; n++) {
		struct small g = odd_graph(&rng);
		double best = best_of(&g, order, 0, 0), makespan, ways;
		struct sim_bound all;

		ways = ways_ms(&g, &all, &makespan);
		ck_assert_double_le(ways, best * (1 + 1e-9));
		ck_assert_double_le(ways, makespan * (1 + 1e-9));
		reached += ways > best * 0.999;
	}
	/* Often it is what can be had. */
	ck_assert_int_ge(reached, 10);
}
END_TEST

/* Nor is it below the older ones, which its ways include. */
START_TEST(no_schedule_of_a_small_graph_beats_it)
{
	struct rng rng = { .seed = (uint64_t)_i + 100 };
	int order[FEW], sharper = 0;

	for (int n = 0; n < 40; n++) {
		struct small g = random_graph(&rng);
		double best = best_of(&g, order, 0, 0), makespan, ways;
		struct sim_bound all;

		ways = ways_ms(&g, &all, &makespan);
		ck_assert_double_le(ways, best * (1 + 1e-9));
		ck_assert_double_le(ways, makespan * (1 + 1e-9));
		ck_assert_double_ge(ways, (double)all.path_ns / MS * 0.999);
		ck_assert_double_ge(ways, (double)all.area_ns / MS * 0.999);
		ck_assert_uint_ge(sim_bound_best(&all, NULL), all.mixed_ns);
		sharper += ways > (double)all.mixed_ns / MS * 1.001 && ways > (double)all.path_ns / MS * 1.001;
	}
	ck_assert_int_gt(sharper, 0);
}
END_TEST

/* Hand-computed: what is between two narrow places must fit there, twice. */
START_TEST(gaps_are_crossed)
{
	struct small g = { .nr = 6, .devices = { 1, 1 } };
	struct sim_bound all;
	double makespan;

	/* 0; 1 and 2; 3; 4; 5.  Each takes 2 ms here, 6 there: 1 and 2 have 3 ms together at least. */
	for (int i = 0; i < 6; i++) {
		g.ms[i][0] = 2;
		g.ms[i][1] = 6;
	}
	g.after[1] = g.after[2] = 1;
	g.after[3] = 6;
	g.after[4] = 8;
	g.after[5] = 16;
	/* 1 on one way, 2 on another, and x of both there: 2 (2 - 2 x) = 6 * 2 x, but then 2 + 4 x. */
	ck_assert_double_eq_tol(ways_ms(&g, &all, &makespan), 2 + 3 + 2 + 2 + 2, 0.01);
	ck_assert_double_ge(makespan, 11);
	/* With nothing else to run on there are four. */
	for (int i = 0; i < 6; i++)
		g.ms[i][1] = 0;
	ck_assert_double_eq_tol(ways_ms(&g, &all, &makespan), 12, 0.01);
	ck_assert_double_eq_tol(makespan, 12, 0.01);
	/* Without the line from the first to the third, that may be beside anything. */
	g.after[2] = 0;
	g.after[3] = 2;
	g.devices[0] = 2;
	ck_assert_double_eq_tol(ways_ms(&g, &all, &makespan), 10, 0.01);
}
END_TEST

/*
 * Two wide places between three narrow ones: what is longest goes over both, and no way along lines
 * is as long, nor all work.  Two devices; each task takes 2 ms.
 */
START_TEST(one_way_crosses_all_gaps)
{
	struct small g = { .nr = 9, .devices = { 2, 1 } };
	struct sim_bound all;
	double makespan;

	for (int i = 0; i < 9; i++)
		g.ms[i][0] = 2;
	g.after[1] = g.after[2] = g.after[3] = 1;
	g.after[4] = 7 << 1;
	g.after[5] = g.after[6] = g.after[7] = 1 << 4;
	g.after[8] = 7 << 5;
	ck_assert_double_eq_tol(ways_ms(&g, &all, &makespan), 2 + 3 + 2 + 3 + 2, 0.01);
	/* From the begin to the first narrow place, and from the last one to the end. */
	g = (struct small){ .nr = 7, .devices = { 2, 1 } };
	for (int i = 0; i < 7; i++)
		g.ms[i][0] = 2;
	g.after[3] = 7;
	g.after[4] = g.after[5] = g.after[6] = 1 << 3;
	ck_assert_double_eq_tol(ways_ms(&g, &all, &makespan), 3 + 2 + 3, 0.01);
	/* What the host does takes as long as it says, whatever devices do. */
	g.host = 1 << 3;
	g.ms[3][0] = 7;
	g.jitter = 0.5;
	ck_assert_double_eq_tol(ways_ms(&g, &all, &makespan), 1.5 + 7 + 1.5, 0.01);
}
END_TEST

/*
 * A graph so large that the search ends by its effort, here after a way was taken in: without that
 * one it is 144.83 ms.
 */
START_TEST(the_last_way_counts)
{
	char text[4096];
	struct scenario sc;
	double ns;

	strcpy(text, "{ \"machine\": { \"devices\": [ { \"name\": \"g\", \"count\": 4 }, { \"name\": \"c\", \"count\": 20 } ] },"
	       " \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [");
	for (size_t k = 0; k < sizeof(sirocco_kernels) / sizeof(sirocco_kernels[0]); k++) {
		double item_ns = sirocco_kernels[k].operations / SIROCCO_CORE_PER_NS;

		sprintf(text + strlen(text),
			"%s { \"name\": \"%s\", \"cost\": { \"g\": { \"ns_per_item\": %.12g }, \"c\": { \"ns_per_item\": %.12g } } }",
			k ? "," : "", sirocco_kernels[k].name,
			item_ns / sirocco_kernels[k].faster, item_ns);
	}
	sprintf(text + strlen(text), " ], \"workload\": [ { \"type\": \"cholesky\", \"tiles\": 13, \"tile\": %d } ] }",
		SIROCCO_TILE);
	ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), NULL, error,
				       sizeof(error)), 0);
	ck_assert_int_eq(ways_least_ns(&sc, 0, &ns), 0);
	ck_assert_double_ge(ns, 145 * MS);
	scenario_fini(&sc);
}
END_TEST

/* @tasks: of kernels "a", on devices with a link of 1 GB/s, and "c", on cores; each takes 1 ms. */
static double linked_ms(const char *tasks, const char *second, double *makespan)
{
	char path[UNIT_TMP_LEN], text[2048];
	struct sim_options o = { .policy = NULL };
	int fd = mkstemp(unit_tmp(path, "arax-bound-XXXXXX")), err;
	struct sim_result result;
	struct scenario sc;
	double ns;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, tasks, strlen(tasks)), (ssize_t)strlen(tasks));
	close(fd);
	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 1 }, { \"name\": \"q\", \"gb_per_s\": 100 } ],"
		 "  \"devices\": [ { \"name\": \"a\", \"link\": \"l\", \"memory_gb\": 4 }, { \"name\": \"c\" %s } ] },"
		 " \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [ { \"name\": \"a\", \"cost\": { \"a\": { \"base_us\": 1000 } } },"
		 "  { \"name\": \"c\", \"cost\": { \"c\": { \"base_us\": 1000 } } } ],"
		 " \"workload\": [ { \"type\": \"trace\", \"file\": \"%s\" } ] }", second, path);
	err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	unlink(path);
	ck_assert_msg(!err, "%s", error);
	ck_assert_int_eq(ways_least_ns(&sc, 0, &ns), 0);
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), 0);
	ck_assert_uint_eq(result.completed, result.submitted);
	*makespan = (double)result.makespan_ns / MS;
	sim_result_fini(&result);
	scenario_fini(&sc);
	return ns / MS;
}

/* What a third one has written since is not carried, nor what another kind's link brings. */
START_TEST(only_what_is_carried_counts)
{
	double makespan;

	/* 1 MB is 1 ms: there, 1 ms, back, 1 ms. */
	ck_assert_double_eq_tol(linked_ms("{\"kernel\": \"a\", \"ranges\": [[\"x\", 0, 1000000, \"inout\"]]}\n"
					  "{\"kernel\": \"c\", \"ranges\": [[\"x\", 0, 1000000, \"in\"]]}\n",
					  "", &makespan), 4, 0.01);
	ck_assert_double_eq_tol(makespan, 4, 0.01);
	/* Between them nearly all of it is overwritten on the other side. */
	ck_assert_double_le(linked_ms("{\"kernel\": \"a\", \"ranges\": [[\"x\", 0, 1000000, \"out\"]]}\n"
				      "{\"kernel\": \"c\", \"ranges\": [[\"x\", 0, 999992, \"out\"]]}\n"
				      "{\"kernel\": \"c\", \"ranges\": [[\"x\", 0, 1000000, \"in\"]]}\n",
				      "", &makespan), makespan);
	ck_assert_double_le(makespan, 3.1);
	/* Two links, of which it has the quick one. */
	ck_assert_double_eq_tol(linked_ms("{\"kernel\": \"c\", \"ranges\": [[\"x\", 0, 1000000, \"in\"]]}\n",
					  ", \"link\": \"q\", \"memory_gb\": 4", &makespan), 1.01, 0.001);
	ck_assert_double_eq_tol(makespan, 1.01, 0.001);
}
END_TEST

/* Of three kinds it says nothing, and of too many tasks. */
START_TEST(what_it_cannot_tell_of)
{
	static const char three[] =
		"{ \"machine\": { \"devices\": [ { \"name\": \"a\" }, { \"name\": \"b\" }, { \"name\": \"c\" } ] },"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"a\": { \"base_us\": 1000 } } } ],"
		"  \"tenants\": [ { \"name\": \"t\" } ], \"workload\": [ { \"type\": \"streams\", \"kernels\": [ \"k\" ],"
		"  \"width\": 2, \"length\": 2, \"work\": 1, \"mb\": 1 } ] }";
	struct scenario sc;
	double ns = 1;

	ck_assert_int_eq(scenario_load(&sc, "test.json", three, strlen(three), NULL, error,
				       sizeof(error)), 0);
	ck_assert_int_eq(ways_least_ns(&sc, 0, &ns), 0);
	ck_assert_double_eq(ns, 0);
	scenario_fini(&sc);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim_bound");
	TCase *t = tcase_create("all");
	SRunner *runner;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, the_least_is_found, 0, 50);
	tcase_add_test(t, a_search_that_ends_early_is_a_bound);
	tcase_add_loop_test(t, no_schedule_of_a_small_graph_beats_it, 0, 10);
	tcase_add_loop_test(t, no_schedule_of_an_odd_graph_beats_it, 0, 10);
	tcase_add_loop_test(t, no_schedule_with_copies_beats_it, 0, 10);
	tcase_add_test(t, only_what_is_carried_counts);
	tcase_add_test(t, gaps_are_crossed);
	tcase_add_test(t, one_way_crosses_all_gaps);
	tcase_add_test(t, the_last_way_counts);
	tcase_add_test(t, what_it_cannot_tell_of);
	suite_add_tcase(suite, t);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
