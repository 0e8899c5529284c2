// SPDX-License-Identifier: MIT
/* sim_replay_test - recorded runs: contexts, queues, timelines, and who waits for what */
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/sched/policies.h"
#include "daemon/sim/engine.h"
#include "daemon/sim/rng.h"
#include "daemon/sim/trace.h"
#include "selftests/unit/tmp.h"

#define MS	1000000ull
#define US	1000ull
#define MOST	64u

static struct scenario sc;
static struct sim_result result;
static char error[512];
static struct sim_seen seen[8][MOST];

#define NAME(c_name, name) name,
static const char *const policies[] = { SCHED_POLICIES(NAME) };
#undef NAME
#define POLICIES	((int)(sizeof(policies) / sizeof(policies[0])))

static void keep(void *arg, const struct sim_seen *s)
{
	seen[s->app][s->task] = *s;
}

/* Four lanes, and a kernel of 1 ms that takes a quarter of the device. */
static int load(const char *lines, const char *head, const char *more)
{
	char path[UNIT_TMP_LEN], text[2048];
	int fd = mkstemp(unit_tmp(path, "arax-sim-XXXXXX")), err;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, lines, strlen(lines)), (ssize_t)strlen(lines));
	close(fd);
	snprintf(text, sizeof(text),
		 "{ %s \"machine\": { \"devices\": [ { \"name\": \"d\", \"lanes\": 4 } ] },\n"
		 "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000, \"demand\": 0.25 } } } ],\n"
		 "  \"tenants\": [ { \"name\": \"t\" , \"count\": 2 } ],\n"
		 "  \"workload\": [ { \"type\": \"trace\", \"file\": \"%s\" %s } ] }\n", head, path, more);
	err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	unlink(path);
	return err;
}

static void run_by(const char *policy)
{
	struct sim_options o = { .policy = policy, .watch = keep };
	int err;

	memset(seen, 0, sizeof(seen));
	err = sim_run(&sc, &o, &result, error, sizeof(error));
	ck_assert_msg(!err, "%s", error);
}

static void over(void)
{
	sim_result_fini(&result);
	scenario_fini(&sc);
}

static uint64_t makespan(const char *lines, const char *more)
{
	int err = load(lines, "", more);
	uint64_t ns;

	ck_assert_msg(!err, "%s", error);
	run_by(NULL);
	ck_assert_uint_eq(result.completed, result.submitted);
	ns = result.makespan_ns;
	return ns;
}

#define K(more, ranges)	"{ \"kernel\": \"k\" " more ", \"ranges\": [ " ranges " ] }\n"
#define QUEUE(n)	", \"queue\": " #n ", \"in_order\": true"
#define FLOW(n)		", \"queue\": " #n
#define CONTEXT(c)	", \"context\": " #c
#define X		"[ \"x\", 0, 8, \"inout\" ]"
#define Y		"[ \"y\", 0, 8, \"inout\" ]"

START_TEST(queues_have_their_order)
{
	/* One after the other, without a byte in common; or side by side, with the same. */
	ck_assert_uint_eq(makespan(K(QUEUE(1), X) K(QUEUE(1), Y) K(QUEUE(1), ""), ""), 3 * MS);
	over();
	ck_assert_uint_eq(makespan(K(QUEUE(1), X) K(QUEUE(2), X) K(QUEUE(3), X), ""), MS);
	over();
	ck_assert_uint_eq(makespan(K(FLOW(1), X) K(FLOW(2), X) K(FLOW(3), X), ""), 3 * MS);
	over();
	ck_assert_uint_eq(makespan(K(FLOW(1), X) K(FLOW(1), Y) K(FLOW(1), ""), ""), MS);
	over();
	ck_assert_uint_eq(makespan(K(FLOW(1), X) K(FLOW(1) ", \"barrier\": true", Y) K(FLOW(1), ""), ""),
			  3 * MS);
	over();
	/* A queue of one kind is in order with that of the other kind by ranges. */
	ck_assert_uint_eq(makespan(K(QUEUE(1), X) K(FLOW(1), X) K(QUEUE(1), Y), ""), 2 * MS);
	over();
}
END_TEST

START_TEST(contexts_are_programs)
{
	/* What is called x is another buffer in each. */
	ck_assert_uint_eq(makespan(K(CONTEXT(7), X) K(CONTEXT(3), X) K(CONTEXT(7), X) K(CONTEXT("\"c\""), X), ""),
			  2 * MS);
	ck_assert_uint_eq(sc.work.nr, 3);
	ck_assert_uint_eq(sc.work.apps[0].nr_tasks, 2);
	ck_assert_uint_eq(sc.work.apps[1].nr_tasks, 1);
	ck_assert_uint_eq(sc.work.apps[2].nr_buffers, 1);
	ck_assert_uint_eq(result.apps[1].end_ns, MS);
	over();
	/* Each has a window of its own. */
	ck_assert_uint_eq(makespan(K(CONTEXT(1), X) K(CONTEXT(1), Y) K(CONTEXT(2), X) K(CONTEXT(2), Y),
				   ", \"window\": 1"), 2 * MS);
	over();
	/* The trace's tenants are the scenario's, in turn, and others for its next copy. */
	makespan(K(CONTEXT(1) ", \"tenant\": \"0x9\"", X) K(CONTEXT(2) ", \"tenant\": \"0x5\"", X)
		 K(CONTEXT(3) ", \"tenant\": \"0x9\"", X), ", \"tenant\": \"t\", \"apps\": 2");
	ck_assert_uint_eq(sc.work.nr, 6);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_uint_eq(sc.work.apps[i].tenant, i % 2);
	ck_assert_uint_eq(result.tenants[0].tasks, 3);
	over();
}
END_TEST

/* Which says nothing of it is of neither, whichever came first. */
START_TEST(who_is_not_named_is_one_more)
{
	makespan(K("", X) K(CONTEXT(7) ", \"tenant\": 1", X) K("", X), ", \"tenant\": \"t\"");
	ck_assert_uint_eq(sc.work.nr, 2);
	ck_assert_uint_eq(sc.work.apps[0].nr_tasks, 1);
	ck_assert_uint_eq(sc.work.apps[1].nr_tasks, 2);
	ck_assert_uint_eq(sc.work.apps[0].tenant, 0);
	ck_assert_uint_eq(sc.work.apps[1].tenant, 1);
	ck_assert_uint_eq(result.makespan_ns, 2 * MS);
	over();
	/* Nor is a number a name. */
	ck_assert_uint_eq(makespan(K("", "[ 5, 0, 8, \"inout\" ]") K("", "[ \"#5\", 0, 8, \"inout\" ]"), ""), MS);
	over();
	makespan(K(CONTEXT(5), X) K(CONTEXT("#5"), X), "");
	ck_assert_uint_eq(sc.work.nr, 2);
	over();
}
END_TEST

/* Each is an application, for "spread" as well; and keeps no more memory than it needs. */
START_TEST(contexts_are_spread)
{
	char text[1024], path[UNIT_TMP_LEN];
	static const char lines[] = K(CONTEXT(1), X) K(CONTEXT(2), X) K(CONTEXT(3), X);
	int fd = mkstemp(unit_tmp(path, "arax-sim-XXXXXX")), err;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, lines, strlen(lines)), (ssize_t)strlen(lines));
	close(fd);
	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"devices\": [ { \"name\": \"d\", \"count\": 2 } ] },\n"
		 "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000 } } } ],\n"
		 "  \"tenants\": [ { \"name\": \"t\" } ],\n"
		 "  \"workload\": [ { \"type\": \"trace\", \"file\": \"%s\", \"pin\": \"spread\" } ] }\n", path);
	err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	unlink(path);
	ck_assert_msg(!err, "%s", error);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_uint_eq(sc.work.apps[i].pin, i % 2);
		ck_assert_uint_eq(sc.work.apps[i].size_tasks, 1);
		ck_assert_uint_eq(sc.work.apps[i].size_hows, 1);
	}
	scenario_fini(&sc);
}
END_TEST

/* However long its path is, and what is wrong with it is said. */
START_TEST(folders_are_deep)
{
	static const char text[] =
		"{ \"machine\": { \"devices\": [ { \"name\": \"d\" } ] },\n"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000 } } } ],\n"
		"  \"tenants\": [ { \"name\": \"t\" } ],\n"
		"  \"workload\": [ { \"type\": \"trace\", \"file\": \"t.jsonl\" } ] }\n";
	char path[1024], said[4096], start[UNIT_TMP_LEN];
	size_t at[8], n;
	FILE *f;
	int err;

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(start, "arax-sim-XXXXXX")));
	n = (size_t)snprintf(path, sizeof(path), "%s", start);
	for (uint32_t i = 0; i < 8; i++) {
		at[i] = n;
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/%0100d", 0);
		ck_assert_int_eq(mkdir(path, 0700), 0);
	}
	snprintf(path + n, sizeof(path) - n, "/s.json");
	err = scenario_load(&sc, path, text, strlen(text), NULL, said, sizeof(said));
	ck_assert_int_eq(err, -ENOENT);
	ck_assert_msg(strstr(said, "/t.jsonl: No such file"), "%s", said);
	snprintf(path + n, sizeof(path) - n, "/t.jsonl");
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(K("", X), f);
	fclose(f);
	err = scenario_load(&sc, path, text, strlen(text), NULL, said, sizeof(said));
	unlink(path);
	for (uint32_t i = 8; i--; path[at[i]] = '\0') {
		path[i == 7 ? n : at[i + 1]] = '\0';
		rmdir(path);
	}
	rmdir(start);
	ck_assert_msg(!err, "%s", said);
	scenario_fini(&sc);
}
END_TEST

/* The clocks of one context say nothing of another's. */
START_TEST(arrivals_are_of_their_context)
{
	makespan(K(CONTEXT(1) ", \"submit_us\": 5000", X) K(CONTEXT(2) ", \"submit_us\": 1000", X)
		 K(CONTEXT(1) ", \"submit_us\": 4000", Y), "");
	/* The first one of all is where the trace begins. */
	ck_assert_uint_eq(seen[0][0].start_ns, 4 * MS);
	ck_assert_uint_eq(seen[0][1].start_ns, 4 * MS);
	ck_assert_uint_eq(seen[1][0].start_ns, 0);
	/* Who comes later has not waited till then. */
	ck_assert_uint_eq(sc.work.apps[0].arrive_ns, 4 * MS);
	ck_assert_uint_eq(sc.work.apps[1].arrive_ns, 0);
	over();
	ck_assert_uint_eq(makespan(K(", \"submit_us\": 5000000", X) K(", \"submit_us\": 5003000, \"unblock_us\": 5004000", ""),
				   ", \"arrive_ms\": 2"), 7 * MS);
	over();
}
END_TEST

#define WAIT(t, v)	", \"wait\": [ \"" t "\", " #v " ]"
#define SIGNAL(t, v)	", \"signal\": [ \"" t "\", " #v " ]"

#define LONG		4000u

static uint32_t last_of_first;

/* Of the first program the last task is the first to be let go. */
static void goes_down(void *arg, const struct sim_seen *s)
{
	if (s->app)
		return;
	ck_assert_uint_lt(s->task, last_of_first);
	last_of_first = s->task;
}

START_TEST(timelines_hold_tasks)
{
	/* Two in-order queues; the wait comes before its signal, which is another context's. */
	makespan(K(CONTEXT(1) QUEUE(1) WAIT("a", 2), "") K(CONTEXT(1) QUEUE(1), "")
		 K(CONTEXT(2) QUEUE(1) SIGNAL("a", 1), "") K(CONTEXT(2) QUEUE(1) SIGNAL("a", 2), "")
		 K(CONTEXT(2) QUEUE(2) WAIT("a", 1), ""), "");
	ck_assert_uint_eq(seen[1][1].end_ns, 2 * MS);
	ck_assert_uint_eq(seen[0][0].start_ns, 2 * MS);
	ck_assert_uint_eq(seen[0][1].start_ns, 3 * MS);
	ck_assert_uint_eq(seen[1][2].start_ns, MS);
	over();
	/* What was reached holds nobody; each copy of the trace has its own. */
	makespan(K(SIGNAL("a", 3), X) K(WAIT("a", 2) ", \"submit_us\": 5000", Y),
		 ", \"apps\": 2, \"every_ms\": 1");
	ck_assert_uint_eq(seen[0][1].start_ns, 5 * MS);
	ck_assert_uint_eq(seen[1][1].start_ns, 6 * MS);
	over();
	makespan(K(WAIT("a", 1), X) K(SIGNAL("a", 1), Y), ", \"apps\": 2, \"every_ms\": 9");
	ck_assert_uint_eq(seen[1][0].start_ns, 10 * MS);
	over();
}
END_TEST

/* However many wait for later values: who is next is found at once. */
START_TEST(timelines_are_long)
{
	struct sim_options o = { .watch = goes_down };
	char path[UNIT_TMP_LEN], text[1024];
	int fd = mkstemp(unit_tmp(path, "arax-sim-XXXXXX")), err;
	FILE *f = fdopen(fd, "w");

	ck_assert_ptr_nonnull(f);
	/* The one that waits for most comes first. */
	for (uint32_t i = LONG; i; i--)
		fprintf(f, "{ \"kernel\": \"k\", \"context\": 1, \"wait\": [ \"a\", %u ], \"ranges\": [] }\n", i);
	for (uint32_t i = 1; i <= LONG; i++)
		fprintf(f, "{ \"kernel\": \"k\", \"context\": 2, \"in_order\": true, \"signal\": [ \"a\", %u ], \"ranges\": [] }\n", i);
	ck_assert_int_eq(fclose(f), 0);
	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"devices\": [ { \"name\": \"d\", \"lanes\": 4 } ] },\n"
		 "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1, \"demand\": 0.25 } } } ],\n"
		 "  \"tenants\": [ { \"name\": \"t\" } ],\n"
		 "  \"workload\": [ { \"type\": \"trace\", \"file\": \"%s\" } ] }\n", path);
	err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	unlink(path);
	ck_assert_msg(!err, "%s", error);
	last_of_first = UINT32_MAX;
	err = sim_run(&sc, &o, &result, error, sizeof(error));
	ck_assert_msg(!err, "%s", error);
	ck_assert_uint_eq(result.completed, 2 * LONG);
	over();
}
END_TEST

/* Who waits for a timeline that failed ends with it, whether it had waited before or not. */
START_TEST(timelines_fail)
{
	int err = load(K(WAIT("a", 1), X) K(SIGNAL("a", 1), Y) K(WAIT("a", 1) ", \"submit_us\": 5000", ""),
		       "\"task_failure\": 1,", "");

	ck_assert_msg(!err, "%s", error);
	run_by(NULL);
	ck_assert_uint_eq(result.completed, 0);
	ck_assert_uint_eq(result.failed + result.canceled, 3);
	ck_assert_uint_eq(result.devices[0].tasks, 1);
	over();
}
END_TEST

START_TEST(unblocked_when_it_was)
{
	makespan(K(", \"unblock_us\": 2500", X) K("", X) K("", Y), ", \"arrive_ms\": 1");
	ck_assert_uint_eq(seen[0][0].start_ns, 3500 * US);
	ck_assert_uint_eq(seen[0][1].start_ns, 4500 * US);
	ck_assert_uint_eq(seen[0][2].start_ns, MS);
	over();
}
END_TEST

/* 3 ms each in the recorded run, in which the second one came 0.2 ms after the first one's end. */
START_TEST(loops_are_open_or_closed)
{
	static const char lines[] =
		K(", \"end_us\": 3000", X)
		K(", \"submit_us\": 3200, \"end_us\": 6500", Y)
		K(", \"submit_us\": 3300, \"unblock_us\": 3400, \"end_us\": 6400", "")
		K(", \"submit_us\": 6600, \"end_us\": 9600", X);

	/* The machine is three times as fast: by the clock nothing comes earlier for it. */
	makespan(lines, "");
	ck_assert_uint_eq(seen[0][1].start_ns, 3200 * US);
	ck_assert_uint_eq(seen[0][2].start_ns, 3400 * US);
	ck_assert_uint_eq(result.makespan_ns, 7600 * US);
	over();
	/* The third one has 0.1 ms to wait, and ends last; the last one comes 0.1 after the second. */
	makespan(lines, ", \"loop\": \"closed\"");
	ck_assert_uint_eq(seen[0][1].start_ns, 1200 * US);
	ck_assert_uint_eq(seen[0][2].start_ns, 1400 * US);
	ck_assert_uint_eq(seen[0][3].start_ns, 2300 * US);
	over();
}
END_TEST

START_TEST(priorities_and_targets_are_tasks)
{
	/* Five for four lanes: the last one goes before the one that would be the fourth. */
	makespan(K("", "") K("", "") K("", "") K(", \"priority\": 5", "") K(", \"priority\": -3", ""), "");
	ck_assert_uint_eq(seen[0][4].end_ns, MS);
	ck_assert_uint_eq(seen[0][3].end_ns, 2 * MS);
	over();
	makespan(K(QUEUE(1) ", \"target_us\": 1500", "") K(QUEUE(1) ", \"target_us\": 1500", "")
		 K(QUEUE(1) ", \"target_us\": 1500000", ""), "");
	ck_assert_uint_eq(result.apps[0].late, 1);
	over();
}
END_TEST

/* What has none of it is as it was, and takes no memory for it. */
START_TEST(old_traces_are_read)
{
	makespan("{\"kernel\": \"k\", \"ranges\": []}\n"
		 "{\"kernel\": \"k\", \"work\": 1, \"submit_us\": 2, \"ranges\": [[\"x\", 0, 4, \"out\"]]}\n"
		 "{\"kernel\": \"k\", \"work\": 1, \"submit_us\": 1, \"sync\": true, \"ranges\": [[3, 0, 4, \"in\"]]}\n", "");
	ck_assert_ptr_null(sc.work.apps[0].hows);
	ck_assert_uint_eq(sc.work.nr, 1);
	ck_assert_uint_eq(seen[0][2].start_ns, 2 * US);
	over();
}
END_TEST

/* GPUs may have 2^45 steps in a launch (kernels-reference.md). */
START_TEST(large_launches_are_read)
{
	ck_assert_uint_eq(makespan(K(", \"work\": 35184372088832", X), ""), MS);
	ck_assert_uint_eq(sc.work.apps[0].tasks[0].work, 1ull << 45);
	over();
}
END_TEST

static const struct {
	const char *lines, *more, *says;
} bad[] = {
	{ K(", \"context\": []", ""), "", "context: must be a number, or a name" },
	{ K(", \"context\": 1.5", ""), "", "context: must be a number, or a name" },
	{ K(", \"tenant\": true", ""), "", "tenant: must be a number, or a name" },
	{ K(", \"queue\": -1", ""), "", "queue: -1 is not within 0" },
	{ K(", \"queue\": 4294967295", ""), "", "queue: 4294967295 is not within 0" },
	{ K(", \"in_order\": 1", ""), "", "in_order: must be true or false" },
	{ K(", \"barrier\": \"yes\"", ""), "", "barrier: must be true or false" },
	{ K(", \"priority\": 20", ""), "", "priority: 20 is not within -20 to 19" },
	{ K(", \"priority\": 0.5", ""), "", "priority: must be a whole number" },
	{ K(", \"target_us\": -1", ""), "", "target_us: -1 is not within" },
	{ K(", \"unblock_us\": \"1\"", ""), "", "unblock_us: must be a number" },
	{ K(", \"end_us\": 1e13", ""), "", "end_us: 1e+13 is not within" },
	{ K(", \"wait\": 1", ""), "", "wait: must be a timeline and its value" },
	{ K(", \"wait\": [ \"a\", 0 ]", ""), "", "wait: must be a timeline and its value" },
	{ K(", \"wait\": [ \"a\", 4611686018427387905 ]", ""), "", "wait: must be a timeline and its value" },
	{ K(CONTEXT(1) ", \"tenant\": 3", "") K(CONTEXT(1) ", \"tenant\": 4", ""), "",
	  "task 1 is not of the tenant that its context's first one is of" },
	{ K(", \"signal\": [ \"a\", 1, 2 ]", ""), "", "signal: must be a timeline and its value" },
	{ K(", \"signal\": [ [], 1 ]", ""), "", "signal: must be a number, or a name" },
	{ K(WAIT("a", 1) ", \"unblock_us\": 5", ""), "", "unblock_us: a task that says for what it waits" },
	{ K(WAIT("a", 2), "") K(SIGNAL("a", 1), "") K(SIGNAL("b", 2), ""), "",
	  "task 0 waits until timeline a is 2, and none brings it there" },
	{ K(", \"end_us\": 5", "") K("", ""), ", \"loop\": \"closed\"", "loop: \"closed\" needs the end of each task" },
	{ K("", ""), ", \"loop\": \"closed\"", "loop: \"closed\" needs the end of each task" },
	{ K("", ""), ", \"loop\": \"round\"", "loop: must be \"open\"" },
	{ K("", ""), "}, { \"type\": \"trace\", \"file\": \"/\"", "/: Is a directory" },
};

START_TEST(refuses)
{
	ck_assert_int_lt(load(bad[_i].lines, "", bad[_i].more), 0);
	ck_assert_msg(strstr(error, bad[_i].says), "%s", error);
}
END_TEST

/* Timelines that wait for each other are no defect of a line: the run says so. */
START_TEST(waiting_in_a_circle_is_said)
{
	struct sim_options o = { .policy = NULL };
	int err = load(K(WAIT("a", 1) SIGNAL("b", 1), "") K(WAIT("b", 1) SIGNAL("a", 1), ""), "", "");

	ck_assert_msg(!err, "%s", error);
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), -EDEADLK);
	ck_assert_msg(strstr(error, "tasks wait for each other for ever"), "%s", error);
	over();
}
END_TEST

/* Behind a window that is full of those that wait for it. */
START_TEST(windows_that_keep_out_are_said)
{
	struct sim_options o = { .policy = NULL };
	static const char lines[] = K(WAIT("a", 1), X) K(WAIT("a", 1), Y) K(SIGNAL("a", 1), "");
	int err = load(lines, "", ", \"window\": 2");

	ck_assert_msg(!err, "%s", error);
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), -EDEADLK);
	ck_assert_msg(strstr(error, "give the trace a larger \"window\""), "%s", error);
	over();
	ck_assert_uint_eq(makespan(lines, ", \"window\": 3"), 2 * MS);
	over();
}
END_TEST

/* A random run of four contexts, of queues of both kinds and a timeline that comes by and by. */
static char *random_trace(uint64_t seed)
{
	struct rng rng = { .seed = seed };
	char *text = calloc(1, MOST * 256);
	uint32_t value = 0;

	for (uint32_t i = 0, n = 0; i < MOST; i++) {
		uint32_t queue = (uint32_t)rng_between(&rng, 0, 3);
		char more[128] = "";

		if (rng_next(&rng) % 4 == 0)
			sprintf(more, ", \"signal\": [ 7, %u ]", ++value);
		else if (value && rng_next(&rng) % 4 == 0)
			sprintf(more, ", \"wait\": [ 7, %u ]", (uint32_t)rng_between(&rng, 1, value));
		else if (rng_next(&rng) % 4 == 0)
			sprintf(more, ", \"unblock_us\": %u, \"priority\": %d", i * 100, (int)(i % 40) - 20);
		n += (uint32_t)sprintf(text + n, "{ \"kernel\": \"k\", \"context\": %u, \"queue\": %u, \"in_order\": %s, \"submit_us\": %u, \"end_us\": %u, \"ranges\": [ [ %u, 0, 8, \"%s\" ] ] %s }\n",
				       (uint32_t)rng_between(&rng, 0, 3), queue,
				       queue < 2 ? "true" : "false", i * 60, i * 60 + 500,
				       (uint32_t)rng_between(&rng, 0, 2),
				       rng_next(&rng) % 2 ? "in" : "inout", more);
	}
	return text;
}

static void check_pair(uint32_t app, uint32_t x, uint32_t y)
{
	const struct sim_app *a = &sc.work.apps[app];
	const struct sim_how *p = &a->hows[x], *q = &a->hows[y];
	const struct sim_range *r = &a->ranges[a->tasks[x].first_range];
	const struct sim_range *s = &a->ranges[a->tasks[y].first_range];
	bool waits = p->in_order && q->in_order && p->queue == q->queue;

	if (!p->in_order || !q->in_order)
		waits |= r->buffer == s->buffer && (r->access | s->access) & ARAX_OUT;
	if (waits)
		ck_assert_uint_ge(seen[app][y].start_ns, seen[app][x].end_ns);
}

/* When the timeline had that value. */
static uint64_t reached(uint64_t value)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < sc.work.nr; i++) {
		for (uint32_t t = 0; t < sc.work.apps[i].nr_tasks; t++) {
			const struct sim_how *h = &sc.work.apps[i].hows[t];

			if (h->signal && h->signal_value >= value && seen[i][t].end_ns < first)
				first = seen[i][t].end_ns;
		}
	}
	return first;
}

START_TEST(replays_keep_their_order)
{
	char *text = random_trace(100 + (uint64_t)_i);
	bool closed = _i / POLICIES;
	uint64_t tasks = 0;
	int err = load(text, "\"jitter\": 0.3,", closed ? ", \"loop\": \"closed\"" : "");

	free(text);
	ck_assert_msg(!err, "%s", error);
	run_by(policies[_i % POLICIES]);
	ck_assert_uint_eq(result.completed, MOST);
	ck_assert_uint_eq(sc.work.nr, 4);
	for (uint32_t i = 0; i < sc.work.nr; i++) {
		const struct sim_app *a = &sc.work.apps[i];

		tasks += a->nr_tasks;
		for (uint32_t t = 0; t < a->nr_tasks; t++) {
			const struct sim_how *h = &a->hows[t];

			for (uint32_t e = 0; e < t; e++)
				check_pair(i, e, t);
			if (h->wait)
				ck_assert_uint_ge(seen[i][t].start_ns, reached(h->wait_value));
			if (!closed)
				ck_assert_uint_ge(seen[i][t].start_ns,
						  a->arrive_ns + a->tasks[t].after_ns);
			if (!closed)
				ck_assert_uint_ge(seen[i][t].start_ns,
						  a->arrive_ns + h->unblock_ns);
			if (h->behind != SIM_ANY)
				ck_assert_uint_ge(seen[i][t].start_ns,
						  seen[i][h->behind].end_ns + h->think_ns);
		}
	}
	ck_assert_uint_eq(tasks, MOST);
	over();
}
END_TEST

/* The bounds know of queues: side by side is no shorter than they say. */
START_TEST(bounds_know_queues)
{
	struct sim_bound bound;

	makespan(K(QUEUE(1), X) K(QUEUE(2), X) K(QUEUE(3), X) K(QUEUE(4), X), "");
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	ck_assert_uint_eq(result.makespan_ns, MS);
	ck_assert_uint_le(sim_bound_best(&bound, NULL), MS);
	ck_assert_uint_eq(bound.path_ns, MS);
	over();
}
END_TEST

/* In a closed loop tasks come earlier where all is faster, and no bound is above what it does. */
START_TEST(bounds_know_closed_loops)
{
	struct sim_bound bound;

	makespan(K(", \"end_us\": 3000", X) K(", \"submit_us\": 3200, \"end_us\": 6500", Y)
		 K(", \"submit_us\": 6600, \"end_us\": 9600", X), ", \"loop\": \"closed\"");
	ck_assert_uint_eq(result.makespan_ns, 3300 * US);
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	ck_assert_uint_eq(bound.path_ns, 3300 * US);
	ck_assert_uint_eq(sim_bound_best(&bound, NULL), 3300 * US);
	over();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim_replay");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_test(t, queues_have_their_order);
	tcase_add_test(t, contexts_are_programs);
	tcase_add_test(t, who_is_not_named_is_one_more);
	tcase_add_test(t, contexts_are_spread);
	tcase_add_test(t, folders_are_deep);
	tcase_add_test(t, arrivals_are_of_their_context);
	tcase_add_test(t, timelines_hold_tasks);
	tcase_add_test(t, timelines_are_long);
	tcase_add_test(t, timelines_fail);
	tcase_add_test(t, unblocked_when_it_was);
	tcase_add_test(t, loops_are_open_or_closed);
	tcase_add_test(t, priorities_and_targets_are_tasks);
	tcase_add_test(t, old_traces_are_read);
	tcase_add_test(t, large_launches_are_read);
	tcase_add_loop_test(t, refuses, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, waiting_in_a_circle_is_said);
	tcase_add_test(t, windows_that_keep_out_are_said);
	tcase_add_loop_test(t, replays_keep_their_order, 0, 2 * POLICIES);
	tcase_add_test(t, bounds_know_queues);
	tcase_add_test(t, bounds_know_closed_loops);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
