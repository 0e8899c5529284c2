// SPDX-License-Identifier: MIT
/* sim_beside_test - copies beside the tasks that have a lane: hand-computed cases */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sched/policies.h"
#include "daemon/sim/engine.h"
#include "selftests/unit/tmp.h"

#define MS	1000000ull
#define US	1000ull

static struct scenario sc;
static struct sim_result result;
static char error[512];
static char path[UNIT_TMP_LEN];
static uint64_t ends[8][32];
static bool on_lane;

#define NAME(c_name, name) name,
static const char *const policies[] = { SCHED_POLICIES(NAME) };
#undef NAME
#define POLICIES	((int)(sizeof(policies) / sizeof(policies[0])))

static void note_end(void *arg, const struct sim_seen *s)
{
	if (s->app < 8 && s->task < 32)
		ends[s->app][s->task] = s->end_ns;
}

static uint64_t makespan_by(const char *policy, const char *text)
{
	struct sim_options o = { .policy = policy, .on_lane = on_lane, .watch = note_end };
	int err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));

	memset(ends, 0, sizeof(ends));
	if (!err)
		err = sim_run(&sc, &o, &result, error, sizeof(error));
	ck_assert_msg(!err, "%s", error);
	ck_assert_uint_eq(result.completed, result.submitted);
	return result.makespan_ns;
}

static void over(void)
{
	sim_result_fini(&result);
	scenario_fini(&sc);
}

/* One byte a ns, so 1 MB is 1 ms; k takes 1 ms, and fills a device. */
static const char *scenario(const char *link, const char *device, const char *work)
{
	static char text[4096];

	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 1 %s } ],\n"
		 "  \"devices\": [ { \"name\": \"d\", \"link\": \"l\", \"lanes\": 1 %s } ] },\n"
		 "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000 } } } ],\n"
		 "  \"tenants\": [ { \"name\": \"t\" }, { \"name\": \"u\" } ],\n"
		 "  \"workload\": [ %s ] }\n", link, device, work);
	return text;
}

static uint64_t makespan(const char *link, const char *device, const char *work)
{
	return makespan_by(NULL, scenario(link, device, work));
}

#define GB	", \"memory_gb\": 1"
#define STREAM(width, length, mb, more) \
	"{ \"type\": \"streams\", \"width\": " #width ", \"length\": " #length \
	", \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": " #mb " " more " }"
#define PLAIN	", \"buffers\": \"plain\""

/* A load of @lines, for the caller to unlink(path). */
static const char *trace(const char *lines, const char *more)
{
	static char work[256];
	int fd;

	fd = mkstemp(unit_tmp(path, "arax-sim-XXXXXX"));
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, lines, strlen(lines)), (ssize_t)strlen(lines));
	close(fd);
	snprintf(work, sizeof(work), "{ \"type\": \"trace\", \"file\": \"%s\" %s }", path, more);
	return work;
}

#define K(ranges)	"{ \"kernel\": \"k\", \"ranges\": [ " ranges " ] }\n"
#define IN(name)	"[ \"" name "\", 0, 1000000, \"in\" ]"
#define OUT(name, bytes) "[ \"" name "\", 0, " #bytes ", \"out\" ]"

/* Sixteen copies of 1 ms, kernels of 1 ms, results of 1 ms: the kernels run one after the other. */
START_TEST(copies_go_beside_the_kernels)
{
	const char *policy = policies[_i], *text;

	text = scenario("", GB, STREAM(16, 1, 1, ""));
	ck_assert_uint_eq(makespan_by(policy, text), 17 * MS);
	ck_assert_uint_eq(result.ahead, 15);
	ck_assert_uint_eq(result.left, 0);
	over();
	on_lane = true;
	ck_assert_uint_eq(makespan_by(policy, text), 32 * MS);
	ck_assert_uint_eq(result.ahead, 0);
	over();
	on_lane = false;
	text = scenario("", GB, STREAM(16, 1, 1, PLAIN));
	ck_assert_uint_eq(makespan_by(policy, text), 18 * MS);
	ck_assert_uint_eq(result.ahead, 15);
	/* Nobody waits for the last one's lane. */
	ck_assert_uint_eq(result.left, 15);
	ck_assert_uint_eq(result.devices[0].bytes_out, 16000000);
	over();
	on_lane = true;
	ck_assert_uint_eq(makespan_by(policy, text), 48 * MS);
	ck_assert_uint_eq(result.left, 0);
	ck_assert_uint_eq(result.devices[0].bytes_in, 16000000);
	ck_assert_uint_eq(result.devices[0].bytes_out, 16000000);
	over();
	on_lane = false;
}
END_TEST

/* Two tasks without a lane at a time: k2 keeps it from 3 to 10 ms, until its result is back. */
START_TEST(lanes_wait_where_results_are_slow)
{
	const char *work = trace(K(OUT("a", 3000000)) K(OUT("b", 3000000)) K(OUT("c", 3000000))
				 K(OUT("d", 3000000)) K(OUT("e", 3000000)) K(OUT("f", 3000000)), PLAIN);

	ck_assert_uint_eq(makespan("", GB, work), 20 * MS);
	unlink(path);
	ck_assert_uint_eq(ends[0][0], 4 * MS);
	ck_assert_uint_eq(ends[0][1], 7 * MS);
	ck_assert_uint_eq(ends[0][2], 10 * MS);
	ck_assert_uint_eq(ends[0][3], 14 * MS);
	ck_assert_uint_eq(result.left, 4);
	over();
}
END_TEST

/* Less than 20 us there, or 50 us back, is not worth it. */
START_TEST(small_copies_wait_for_their_lane)
{
	ck_assert_uint_eq(makespan("", GB, STREAM(4, 1, 0.019, "")), 4 * (MS + 19 * US));
	ck_assert_uint_eq(result.ahead, 0);
	over();
	ck_assert_uint_eq(makespan("", GB, STREAM(4, 1, 0.02, "")), 4 * MS + 20 * US);
	over();
	ck_assert_uint_eq(makespan("", GB, STREAM(4, 1, 0.049, PLAIN)),
			  4 * (MS + 49 * US) + 49 * US);
	ck_assert_uint_eq(result.left, 0);
	over();
	ck_assert_uint_eq(makespan("", GB, STREAM(4, 1, 0.05, PLAIN)), 4 * MS + 100 * US);
	ck_assert_uint_eq(result.left, 3);
	over();
}
END_TEST

/* Nothing goes for what comes ahead: the second one's fits beside the first one's, and no other. */
START_TEST(only_free_memory_is_taken)
{
	const char *work = trace(K(IN("a")) K(IN("b")) K(IN("c")) K(IN("d")), "");

	ck_assert_uint_eq(makespan("", ", \"memory_gb\": 0.002", work), 7 * MS);
	unlink(path);
	ck_assert_uint_eq(ends[0][1], 3 * MS);
	ck_assert_uint_eq(result.devices[0].peak_bytes, 2000000);
	ck_assert_uint_eq(result.devices[0].evicted, 2000000);
	over();
}
END_TEST

/* What came for a task without a lane goes for one that has it, and not what others have used. */
START_TEST(what_came_ahead_goes_first)
{
	/* By its weight u is next, and its buffer needs room: a stays. */
	static const char text[] =
		"{ \"policy\": \"fair\", \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 1 } ],\n"
		"  \"devices\": [ { \"name\": \"d\", \"link\": \"l\", \"lanes\": 1, \"memory_gb\": 0.002 } ] },\n"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000 } } } ],\n"
		"  \"tenants\": [ { \"name\": \"t\", \"weight\": 1 }, { \"name\": \"u\", \"weight\": 10000 } ],\n"
		"  \"workload\": [ %s, " STREAM(1, 1, 1, ", \"tenant\": \"u\", \"arrive_ms\": 1.5") " ] }\n";
	char all[4096];

	snprintf(all, sizeof(all), text, trace(K(IN("a")) K(IN("b")) K(IN("a")), ""));
	/* a; u's, for which b goes that had come, though it is used before a; b; a. */
	makespan_by(NULL, all);
	unlink(path);
	ck_assert_uint_eq(ends[0][0], 2 * MS);
	ck_assert_uint_eq(ends[1][0], 4 * MS);
	ck_assert_uint_eq(ends[0][1], 6 * MS);
	ck_assert_uint_eq(ends[0][2], 7 * MS);
	over();
}
END_TEST

/* A piece that is on its way for others is what one waits for at most: 4 MiB. */
START_TEST(lanes_go_first)
{
	/* Of 20 MB the first piece is half there when u's comes, and t's own lane brings the rest. */
	static const char more[] = ", \"tenant\": \"u\", \"arrive_ms\": 0";
	char work[1024];
	int n;

	n = snprintf(work, sizeof(work), "%s, ",
		     trace("{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 8, \"in\" ] ] }\n"
			   "{ \"kernel\": \"k\", \"ranges\": [ [ \"y\", 0, 20000000, \"in\" ] ] }\n", more));
	snprintf(work + n, sizeof(work) - (size_t)n, STREAM(1, 1, 1, ", \"arrive_ms\": 0.5"));
	makespan("", ", \"memory_gb\": 1", work);
	unlink(path);
	/* From 0: 8 bytes, kernel to 1 ms; meanwhile y's first piece, to 4.19 ms; then the stream's. */
	ck_assert_uint_eq(ends[1][0], 8 + (4ull << 20) + MS + MS);
	over();
}
END_TEST

/* A look in vain has a pause; who comes then has its inputs, too, though nothing else happens. */
START_TEST(pauses_end)
{
	static const char text[] =
		"{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 1 } ],\n"
		"  \"devices\": [ { \"name\": \"d\", \"count\": 2, \"link\": \"l\", \"per_link\": 2, \"lanes\": 1, \"memory_gb\": 1 } ] },\n"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 10000 } } } ],\n"
		"  \"tenants\": [ { \"name\": \"t\" } ],\n"
		"  \"workload\": [ " STREAM(1, 1, 0.000001, ", \"pin\": \"d0\"") ", "
		STREAM(2, 1, 0.000001, ", \"pin\": \"d1\"") ", "
		STREAM(1, 1, 1, ", \"pin\": \"d0\", \"arrive_ms\": 0.01") " ] }\n";

	makespan_by(NULL, text);
	ck_assert_uint_ge(ends[2][0], 20 * MS);
	ck_assert_uint_le(ends[2][0], 20 * MS + 10);
	over();
}
END_TEST

/* Nor do they go on for ever where nothing runs any more: tasks that none can run fail. */
START_TEST(pauses_of_nothing_end)
{
	static const char text[] =
		"{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 1 } ],\n"
		"  \"devices\": [ { \"name\": \"d\", \"count\": 2, \"link\": \"l\", \"per_link\": 2, \"lanes\": 1, \"memory_gb\": 1, \"lost_at_ms\": [ 15 ] } ] },\n"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 10000 } } } ],\n"
		"  \"tenants\": [ { \"name\": \"t\" } ],\n"
		"  \"workload\": [ " STREAM(4, 1, 1, ", \"pin\": \"d0\"") " ] }\n";
	struct sim_options o = { .policy = policies[_i], .limit_ns = 5000 * MS };

	ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), NULL, error,
				       sizeof(error)), 0);
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), 0);
	ck_assert_uint_eq(result.completed, 1);
	ck_assert_uint_eq(result.failed, 3);
	/* The second one had a lane, and got none of another device. */
	ck_assert_uint_eq(result.rerun, 0);
	ck_assert_uint_eq(result.makespan_ns, 15 * MS);
	over();
}
END_TEST

/* Plain buffers: who waits after each task could have written, who submits all at once could not. */
START_TEST(plain_inputs_come_anew)
{
	ck_assert_uint_eq(makespan("", GB, STREAM(1, 3, 1, PLAIN)), 7 * MS);
	over();
	ck_assert_uint_eq(makespan("", GB, STREAM(1, 3, 1, PLAIN ", \"window\": 1")), 9 * MS);
	over();
	ck_assert_uint_eq(makespan("", GB, STREAM(1, 3, 1, ", \"window\": 1")), 4 * MS);
	over();
	/* Where there is nothing to copy they are like others. */
	ck_assert_uint_eq(makespan_by(NULL,
		"{ \"machine\": { \"devices\": [ { \"name\": \"d\" } ] },\n"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000 } } } ],\n"
		"  \"tenants\": [ { \"name\": \"t\" } ],\n"
		"  \"workload\": [ " STREAM(1, 3, 1, PLAIN ", \"window\": 1") " ] }\n"), 3 * MS);
	over();
}
END_TEST

/*
 * Where the program may have written what comes ahead comes once: while u's three have the lane t's
 * second task waits, and then only has to run.
 */
START_TEST(plain_inputs_come_anew_ahead)
{
	static const char work[] =
		STREAM(1, 2, 1, PLAIN ", \"window\": 1") ", "
		STREAM(3, 1, 0.000008, ", \"priority\": -20, \"arrive_ms\": 1.5");

	makespan("", GB, work);
	ck_assert_uint_eq(result.ahead, 1);
	ck_assert_uint_eq(result.devices[0].bytes_in, 2000000 + 3 * 8);
	over();
}
END_TEST

/* A result that is on its way when its device dies is none: the task runs again. */
START_TEST(who_has_left_runs_again)
{
	ck_assert_uint_ge(makespan("", ", \"count\": 2, \"per_link\": 2, \"memory_gb\": 1, \"lost_at_ms\": [ 6.5 ]",
				   STREAM(8, 1, 2, PLAIN)), 8 * MS);
	ck_assert_uint_ge(result.rerun, 2);
	ck_assert_uint_ge(result.left, 1);
	ck_assert_uint_eq(result.lost_bytes, 0);
	over();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim_beside");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_loop_test(t, copies_go_beside_the_kernels, 0, POLICIES);
	tcase_add_test(t, lanes_wait_where_results_are_slow);
	tcase_add_test(t, small_copies_wait_for_their_lane);
	tcase_add_test(t, only_free_memory_is_taken);
	tcase_add_test(t, what_came_ahead_goes_first);
	tcase_add_test(t, lanes_go_first);
	tcase_add_test(t, pauses_end);
	tcase_add_loop_test(t, pauses_of_nothing_end, 0, POLICIES);
	tcase_add_test(t, plain_inputs_come_anew);
	tcase_add_test(t, plain_inputs_come_anew_ahead);
	tcase_add_test(t, who_has_left_runs_again);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
