// SPDX-License-Identifier: MIT
/* sim_report_test - what a simulated run is said to have been like */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/report.h"

#define MS	1000000ull

static struct scenario sc;

static json_t *run(const char *text)
{
	struct sim_options o = { 0 };
	struct sim_result r;
	char error[512] = "";
	json_t *report;
	int err;

	err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	ck_assert_msg(!err, "%s", error);
	err = sim_run(&sc, &o, &r, error, sizeof(error));
	ck_assert_msg(!err, "%s", error);
	report = report_json(&sc, sc.policy, &r, NULL);
	sim_result_fini(&r);
	return report;
}

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

#define KERNEL(name, kind) \
	"{ \"name\": \"" name "\", \"cost\": { \"" kind "\": { \"base_us\": 1000 } } }"
#define STREAM(kernel, width, length) \
	"{ \"type\": \"streams\", \"width\": " #width ", \"length\": " #length \
	", \"kernels\": [ \"" kernel "\" ], \"work\": 1, \"mb\": 1 }"

/* Of @nr applications the last takes 1 ms, the one before 2 ms, and so on; the first ones @lost tasks. */
static json_t *turnaround(uint32_t nr, uint32_t lost)
{
	char text[512], error[512] = "";
	struct sim_app_result *apps = calloc(nr, sizeof(*apps));
	struct sim_result r = { .apps = apps };
	json_t *report;

	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"devices\": [ { \"name\": \"d\" } ] }, \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [ "
		 KERNEL("k", "d") " ], \"workload\": [ { \"apps\": %u, \"type\": \"streams\", \"width\": 1, \"length\": 1, \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": 1 } ] }",
		 nr);
	ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), NULL, error,
				       sizeof(error)), 0);
	r.devices = calloc(1, sizeof(*r.devices));
	r.tenants = calloc(1, sizeof(*r.tenants));
	for (uint32_t i = 0; i < nr; i++)
		apps[i] = (struct sim_app_result){ .end_ns = (nr - i) * MS, .failed = i < lost };
	report = report_json(&sc, "eft", &r, NULL);
	sim_result_fini(&r);
	scenario_fini(&sc);
	return report;
}

static const struct {
	uint32_t nr;
	double p50, p99;
} ranks[] = { { 1, 1, 1 }, { 2, 1, 2 }, { 99, 50, 99 }, { 100, 50, 99 }, { 101, 51, 100 },
	      { 200, 100, 198 } };

/* One application in a hundred at most took longer than what p99 says. */
START_TEST(few_take_longer_than_p99)
{
	json_t *report = turnaround(ranks[_i].nr, 0), *t = json_object_get(report, "turnaround_ms");

	ck_assert_double_eq(number(t, "p50"), ranks[_i].p50);
	ck_assert_double_eq(number(t, "p99"), ranks[_i].p99);
	ck_assert_double_eq(number(t, "max"), ranks[_i].nr);
	json_decref(report);
}
END_TEST

static char *text_of(const json_t *report)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	ck_assert_ptr_nonnull(f);
	report_print(report, f);
	fclose(f);
	return text;
}

static void printed(const json_t *report, const char *expected)
{
	char *text = text_of(report);

	ck_assert_msg(strstr(text, expected), "%s", text);
	free(text);
}

/* Who did less was over earlier. */
START_TEST(who_lost_tasks_has_no_turnaround)
{
	json_t *report = turnaround(5, 2), *t = json_object_get(report, "turnaround_ms");

	ck_assert_double_eq(number(t, "apps"), 3);
	ck_assert_double_eq(number(t, "left_out"), 2);
	ck_assert_double_eq(number(t, "total"), 6);
	ck_assert_double_eq(number(t, "max"), 3);
	printed(report, "max 3.000; without 2 of 5 applications, whose tasks failed or were canceled\n");
	json_decref(report);
	report = turnaround(5, 5);
	t = json_object_get(report, "turnaround_ms");
	ck_assert_double_eq(number(t, "apps"), 0);
	ck_assert_ptr_null(json_object_get(t, "mean"));
	printed(report, "turnaround   none: of all 5 applications ");
	json_decref(report);
	report = turnaround(5, 0);
	printed(report, "max 5.000\n");
	json_decref(report);
}
END_TEST

/* The only device that can run one program's kernels is lost in the first one. */
START_TEST(what_is_lost_is_no_capacity_and_no_rerun)
{
	json_t *report = run("{ \"machine\": { \"devices\": [ { \"name\": \"a\", \"lanes\": 4, \"lost_at_ms\": [ 0.5 ] },\n"
			     "  { \"name\": \"b\", \"lanes\": 1 } ] }, \"tenants\": [ { \"name\": \"t\" } ],\n"
			     "  \"kernels\": [ " KERNEL("s", "a") ", " KERNEL("k", "b") " ],\n"
			     "  \"workload\": [ " STREAM("s", 4, 9) ", " STREAM("k", 4, 9) " ] }");
	const json_t *devices = json_object_get(report, "devices");

	ck_assert_double_eq(number(report, "failed"), 4);
	ck_assert_double_eq(number(report, "canceled"), 32);
	ck_assert_double_eq(number(report, "rerun"), 0);
	ck_assert_double_eq(number(report, "makespan_ms"), 36);
	ck_assert_double_eq_tol(number(json_array_get(devices, 0), "used"), 1, 0.00001);
	ck_assert_double_eq_tol(number(json_array_get(devices, 1), "used"), 1, 0.00001);
	ck_assert_double_eq_tol(number(report, "used"), 1, 0.00001);
	json_decref(report);
	scenario_fini(&sc);
}
END_TEST

/* By it the run can be had again. */
START_TEST(the_seed_is_exact)
{
	json_t *report = run("{ \"seed\": 9223372036854775807, \"machine\": { \"devices\": [ { \"name\": \"d\" } ] },\n"
			     "  \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [ " KERNEL("k", "d") " ],\n"
			     "  \"workload\": [ " STREAM("k", 1, 1) " ] }");

	printed(report, "seed 9223372036854775807\n");
	json_decref(report);
	scenario_fini(&sc);
}
END_TEST

/* 1001 times 1234.567891 s: to the ns, of which an ms has six decimals. */
START_TEST(times_are_exact)
{
	json_t *report = run("{ \"machine\": { \"devices\": [ { \"name\": \"d\", \"lanes\": 1 } ] }, \"tenants\": [ { \"name\": \"t\" } ],\n"
			     "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1234567.891 } } } ],\n"
			     "  \"workload\": [ " STREAM("k", 1, 1001) " ] }");
	char *text = json_dumps(report, REPORT_JSON);

	ck_assert_double_eq(number(report, "makespan_ms"), 1235802.458891);
	ck_assert_msg(strstr(text, "\"makespan_ms\": 1235802.458891,"), "%s", text);
	printed(report, "makespan     1235802.459 ms\n");
	printed(report, "mean 1235802.459 ms, p50 1235802.459, p99 1235802.459, max 1235802.459\n");
	free(text);
	json_decref(report);
	scenario_fini(&sc);
}
END_TEST

/* A name may have what ends an XML section; no parser takes that as it is. */
START_TEST(a_picture_is_xml)
{
	json_t *report = run("{ \"name\": \"<&\", \"machine\": { \"devices\": [ { \"name\": \"d\" } ] }, \"tenants\": [ { \"name\": \"a]]>b\" } ],\n"
			     "  \"kernels\": [ " KERNEL("k", "d") " ], \"workload\": [ " STREAM("k", 1, 1) " ] }");
	struct sim_options o = { 0 };
	struct sim_result r;
	char error[512] = "", *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	json_decref(report);
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(sim_run(&sc, &o, &r, error, sizeof(error)), 0);
	ck_assert_int_eq(report_plot(&sc, &r, f), 0);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, ">&lt;&amp;: use of each device"));
	ck_assert_ptr_nonnull(strstr(text, ">a]]&gt;b</text>"));
	ck_assert_ptr_null(strstr(text, "]]>"));
	free(text);
	sim_result_fini(&r);
	scenario_fini(&sc);
}
END_TEST

#define TENANTS	1000u

/* However many there are: people want to see whom it went well with, and whom not. */
START_TEST(of_many_tenants_those_at_the_ends)
{
	json_t *report = turnaround(5, 0), *list = json_array();
	char *text, name[16];

	/* Each had so many hundredths of what was due as its name says; they are in no order. */
	for (uint32_t i = 0; i < TENANTS; i++) {
		uint32_t k = i * 7 % TENANTS;

		snprintf(name, sizeof(name), "tenant%u", k);
		json_array_append_new(list, json_pack("{s:s,s:f,s:f}", "name", name, "share_due", 0.001,
						      "share_while_all_ran", 0.00001 * k));
	}
	json_object_set_new(report, "tenants", list);
	text = text_of(report);
	for (uint32_t i = 0; i < TENANTS; i++) {
		snprintf(name, sizeof(name), " tenant%u ", i);
		ck_assert_msg(!strstr(text, name) == (i >= 8 && i < TENANTS - 8), "%s: %s", name, text);
	}
	ck_assert_msg(strstr(text, " and 984 between them: p1 0.09, p50 4.99, p99 9.90 "), "%s", text);
	ck_assert(strstr(text, " tenant999 ") < strstr(text, " tenant992 ") &&
		  strstr(text, " tenant992 ") < strstr(text, " tenant0 "));
	free(text);
	json_decref(report);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim_report");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_loop_test(t, few_take_longer_than_p99, 0, sizeof(ranks) / sizeof(ranks[0]));
	tcase_add_test(t, who_lost_tasks_has_no_turnaround);
	tcase_add_test(t, what_is_lost_is_no_capacity_and_no_rerun);
	tcase_add_test(t, the_seed_is_exact);
	tcase_add_test(t, times_are_exact);
	tcase_add_test(t, a_picture_is_xml);
	tcase_add_test(t, of_many_tenants_those_at_the_ends);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
