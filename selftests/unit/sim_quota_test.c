// SPDX-License-Identifier: MIT
/* sim_quota_test - tenants whose tasks may hold so much on devices */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/policies.h"
#include "daemon/sim/engine.h"

#define MS	1000000ull
#define MOST	64u

static struct scenario sc;
static struct sim_result result;
static char error[512];
static struct sim_seen seen[8][MOST];
static int ended[8][MOST];

#define NAME(c_name, name) name,
static const char *const policies[] = { SCHED_POLICIES(NAME) };
#undef NAME
#define POLICIES	((int)(sizeof(policies) / sizeof(policies[0])))

static void keep(void *arg, const struct sim_seen *s)
{
	seen[s->app][s->task] = *s;
	ended[s->app][s->task]++;
}

/* One byte a ns, so 1 MB is 1 ms; k takes 1 ms; t may hold @limit GB. */
static uint64_t run(const char *policy, const char *limit, const char *device, const char *demand,
		    const char *work)
{
	struct sim_options o = { .policy = policy, .watch = keep };
	char text[4096];
	int err;

	memset(seen, 0, sizeof(seen));
	memset(ended, 0, sizeof(ended));
	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 1 } ],\n"
		 "  \"devices\": [ { \"name\": \"d\", \"link\": \"l\" %s } ] },\n"
		 "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000, \"demand\": %s } } } ],\n"
		 "  \"tenants\": [ { \"name\": \"t\", \"device_memory_gb\": %s }, { \"name\": \"u\" } ],\n"
		 "  \"workload\": [ %s ] }\n", device, demand, limit, work);
	err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	ck_assert_msg(!err, "%s", error);
	err = sim_run(&sc, &o, &result, error, sizeof(error));
	ck_assert_msg(!err, "%s", error);
	return result.makespan_ns;
}

static void over(void)
{
	sim_result_fini(&result);
	scenario_fini(&sc);
}

#define LANES(n)	", \"memory_gb\": 1, \"lanes\": " #n
#define STREAM(width, length, mb, more) \
	"{ \"type\": \"streams\", \"width\": " #width ", \"length\": " #length \
	", \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": " #mb " " more " }"

/* Of four lanes one: the next one's data comes when the last one has let go of its own. */
START_TEST(one_at_a_time)
{
	const char *policy = policies[_i];

	ck_assert_uint_eq(run(policy, "0.0015", LANES(4), "1", STREAM(4, 1, 1, "")), 8 * MS);
	ck_assert_uint_eq(result.completed, 4);
	over();
	ck_assert_uint_eq(run(policy, "0.004", LANES(4), "1", STREAM(4, 1, 1, "")), 5 * MS);
	over();
	/* What two of them share is there for both. */
	ck_assert_uint_eq(run(policy, "0.0015", LANES(4), "1",
			      STREAM(1, 3, 1, ", \"window\": 3")), 4 * MS);
	over();
}
END_TEST

/* They have no lane: others have it. */
START_TEST(who_waits_has_no_lane)
{
	run(NULL, "0.0015", LANES(2), "0.5", STREAM(4, 1, 1, "") ", "
	    STREAM(2, 1, 0.000001, ", \"tenant\": \"u\", \"arrive_ms\": 0.1"));
	ck_assert_uint_eq(result.completed, 6);
	/* t has one lane; behind what is on the link already. */
	ck_assert_uint_le(seen[1][0].start_ns, MS + 2);
	ck_assert_uint_le(seen[1][1].start_ns, 3 * MS + 4);
	ck_assert_uint_eq(result.rerun, 0);
	over();
}
END_TEST

/* In front of a lane as well: one more fits beside the one that runs. */
START_TEST(what_comes_ahead_counts)
{
	ck_assert_uint_eq(run(NULL, "0.0015", LANES(1), "1", STREAM(3, 1, 1, "")), 6 * MS);
	ck_assert_uint_eq(result.ahead, 0);
	over();
	ck_assert_uint_eq(run(NULL, "0.0025", LANES(1), "1", STREAM(3, 1, 1, "")), 5 * MS);
	ck_assert_uint_eq(result.ahead, 1);
	over();
	ck_assert_uint_eq(run(NULL, "0.003", LANES(1), "1", STREAM(3, 1, 1, "")), 4 * MS);
	ck_assert_uint_eq(result.ahead, 2);
	over();
}
END_TEST

START_TEST(more_than_all_of_it_fails)
{
	run(NULL, "0.0015", LANES(2), "1", STREAM(2, 2, 2, "") ", " STREAM(2, 1, 1, ""));
	ck_assert_uint_eq(result.failed, 2);
	ck_assert_uint_eq(result.canceled, 2);
	ck_assert_uint_eq(result.completed, 2);
	ck_assert_int_eq(seen[0][0].result, -EDQUOT);
	ck_assert_uint_eq(result.tenants[0].tasks, 2);
	over();
	/* Nobody else's is limited. */
	run(NULL, "0.0015", LANES(2), "1", STREAM(2, 2, 2, ", \"tenant\": \"u\""));
	ck_assert_uint_eq(result.completed, 4);
	over();
}
END_TEST

/* Of @app, with 1 MB each, that run at that instant. */
static uint32_t running(uint32_t app, uint64_t ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < MOST; i++)
		n += seen[app][i].start_ns <= ns && ns < seen[app][i].end_ns;
	return n;
}

/* Devices with little memory, of which one dies, results that go back, priorities: all end once. */
START_TEST(never_more_than_that)
{
	static const char device[] = ", \"count\": 3, \"per_link\": 3, \"lanes\": 4, \"memory_gb\": 0.0045, \"lost_at_ms\": [ 9.3 ]";
	const char *policy = policies[_i % POLICIES];
	bool plain = _i / POLICIES;
	uint32_t most = 0;

	run(policy, "0.0035", device, "0.25",
	    plain ? STREAM(24, 2, 1, ", \"window\": 12, \"buffers\": \"plain\"") ", "
		    STREAM(24, 2, 1, ", \"tenant\": \"u\", \"buffers\": \"plain\", \"priority\": -3") :
		    STREAM(24, 2, 1, ", \"window\": 12") ", "
		    STREAM(24, 2, 1, ", \"tenant\": \"u\", \"priority\": -3"));
	ck_assert_uint_eq(result.completed + result.failed + result.canceled, result.submitted);
	ck_assert_uint_eq(result.submitted, 96);
	for (uint32_t a = 0; a < 2; a++)
		for (uint32_t i = 0; i < 48; i++)
			ck_assert_int_le(ended[a][i], 1);
	for (uint32_t i = 0; i < 48; i++) {
		uint32_t n = running(0, seen[0][i].start_ns);

		ck_assert_int_ne(seen[0][i].result, -EDQUOT);
		most = n > most ? n : most;
	}
	ck_assert_uint_ge(most, 1);
	ck_assert_uint_le(most, 3);
	over();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim_quota");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_loop_test(t, one_at_a_time, 0, POLICIES);
	tcase_add_test(t, who_waits_has_no_lane);
	tcase_add_test(t, what_comes_ahead_counts);
	tcase_add_test(t, more_than_all_of_it_fails);
	tcase_add_loop_test(t, never_more_than_that, 0, 2 * POLICIES);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
