// SPDX-License-Identifier: MIT
/* sim_test - virtual time: hand-computed cases, and what must hold in every run */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/sched/policies.h"
#include "daemon/sim/engine.h"
#include "daemon/sim/event.h"
#include "daemon/sim/residency.h"
#include "daemon/sim/rng.h"
#include "daemon/sim/share.h"
#include "daemon/sim/trace.h"

#define MS	1000000ull
#define US	1000ull

static struct scenario sc;
static struct sim_result result;
static char error[512];
static bool ahead, on_lane;

#define NAME(c_name, name) name,
static const char *const policies[] = { SCHED_POLICIES(NAME) };
#undef NAME
#define POLICIES	((int)(sizeof(policies) / sizeof(policies[0])))

/* ------------------------------------------------------------------ */
/* Parts                                                               */

START_TEST(events_come_in_their_order)
{
	struct events h = { 0 };
	struct event e[200] = { 0 };
	struct rng rng = { .seed = 3 };
	uint64_t last = 0, order = 0;
	struct event *x;
	int n = 0;

	ck_assert_ptr_null(event_next(&h));
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(event_set(&h, &e[i], rng_next(&rng) % 50), 0);
	for (int i = 0; i < 200; i += 3)
		event_cancel(&h, &e[i]);
	for (int i = 1; i < 200; i += 3)
		ck_assert_int_eq(event_set(&h, &e[i], rng_next(&rng) % 50), 0);
	while ((x = event_next(&h))) {
		ck_assert(x->time > last || (x->time == last && x->order >= order));
		ck_assert_int_ne((x - e) % 3, 0);
		ck_assert(!event_is_set(x));
		last = x->time;
		order = x->order;
		n++;
	}
	ck_assert_int_eq(n, 133);
	ck_assert_int_eq(event_set(&h, &e[0], EVENT_LAST), 0);
	ck_assert_int_eq(event_set(&h, &e[1], EVENT_LAST + 1), -EOVERFLOW);
	ck_assert_ptr_eq(event_next(&h), &e[0]);
	ck_assert_ptr_null(event_next(&h));
	free(h.heap);
}
END_TEST

START_TEST(a_full_capacity_is_shared)
{
	struct share s = { 0 };
	struct share_job a, b;

	share_add(&s, &a, 100, 1, 1000);
	ck_assert_uint_eq(share_next(&s), 1100);
	/* a has 50 left, now at half the speed; b has 50 left then, alone. */
	share_add(&s, &b, 100, 1, 1050);
	ck_assert_uint_eq(share_next(&s), 1150);
	ck_assert_ptr_null(share_pop(&s, 1149));
	ck_assert_ptr_eq(share_pop(&s, 1150), &a);
	ck_assert_ptr_null(share_pop(&s, 1150));
	ck_assert_uint_eq(share_next(&s), 1200);
	ck_assert_ptr_eq(share_pop(&s, 1200), &b);
	ck_assert_uint_eq(share_next(&s), UINT64_MAX);
	/* It was used all the time, and no more than that. */
	share_advance(&s, 5000);
	ck_assert_double_eq_tol(s.used, 200, 0.000001);
}
END_TEST

START_TEST(small_demands_disturb_nobody)
{
	struct share s = { 0 };
	struct share_job a, b, c;

	share_add(&s, &a, 100, 0.5, 0);
	share_add(&s, &b, 100, 0.5, 0);
	ck_assert_uint_eq(share_next(&s), 100);
	/* Three of them are half too many: from 40 on at two thirds of the speed. */
	share_add(&s, &c, 100, 0.5, 40);
	ck_assert_uint_eq(share_next(&s), 130);
	ck_assert_ptr_eq(share_pop(&s, 130), &a);
	ck_assert_ptr_eq(share_pop(&s, 130), &b);
	ck_assert_uint_eq(share_next(&s), 170);
	ck_assert_double_eq_tol(share_had(&s, &c, 100, 150), 80, 0.000001);
	ck_assert_double_eq_tol(share_had(&s, &c, 100, 171), 100, 0.000001);
	share_remove(&s, &c, 150);
	ck_assert_uint_eq(share_next(&s), UINT64_MAX);
	ck_assert_double_eq_tol(s.used, 130 + 10, 0.000001);
}
END_TEST

/* Against an array of bytes, each with the set of places where it is valid. */
START_TEST(residency_is_exact)
{
	enum { BYTES = 64, PLACES = 70 };
	static uint8_t model[BYTES][PLACES];
	struct rng rng = { .seed = 11 };
	struct residency r;
	int wrong = 0;

	memset(model, 0, sizeof(model));
	ck_assert(residency_init(&r, BYTES, PLACES));
	for (int i = 0; i < BYTES; i++)
		model[i][0] = 1;
	for (int step = 0; step < 20000; step++) {
		uint32_t place = (uint32_t)rng_between(&rng, 0, PLACES - 1), source = 0;
		uint64_t at = rng_between(&rng, 0, BYTES - 1), start, end, valid = 0;
		uint64_t len = rng_between(&rng, 1, BYTES - at), first = at;
		uint64_t what = rng_between(&rng, 0, 9);

		if (what < 5) {
			ck_assert(residency_copied(&r, at, len, place));
			for (uint64_t i = at; i < at + len; i++)
				model[i][place] = 1;
		} else if (what < 9) {
			ck_assert(residency_written(&r, at, len, place));
			for (uint64_t i = at; i < at + len; i++) {
				memset(model[i], 0, PLACES);
				model[i][place] = 1;
			}
		} else {
			residency_drop(&r, place);
			for (uint64_t i = 0; i < BYTES; i++)
				model[i][place] = 0;
		}
		for (uint64_t i = at; i < at + len; i++)
			valid += model[i][place];
		ck_assert_uint_eq(residency_valid(&r, at, len, place), valid);
		while (first < at + len && model[first][place])
			first++;
		ck_assert_int_eq(residency_missing(&r, at, len, place, &start, &end, &source),
				 first < at + len);
		if (first < at + len) {
			ck_assert_uint_eq(start, first);
			ck_assert(end > start && end <= at + len);
			for (uint64_t i = start; i < end; i++) {
				wrong += model[i][place];
				wrong += source != PLACE_NONE && !model[i][source];
			}
		}
		if (residency_sole(&r, 0, place, &start, &end))
			for (uint64_t i = start; i < end; i++)
				for (uint32_t p = 0; p < PLACES; p++)
					wrong += model[i][p] != (p == place);
		ck_assert_int_eq(wrong, 0);
	}
	/* Whole again, it is one piece again. */
	ck_assert(residency_written(&r, 0, BYTES, 1));
	ck_assert_uint_eq(r.nr, 1);
	residency_fini(&r);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Runs                                                                */

static void load(const char *text)
{
	int err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));

	ck_assert_msg(!err, "%s", error);
}

static void run_watched(void (*watch)(void *arg, const struct sim_seen *seen), void *arg)
{
	struct sim_options o = { .watch = watch, .arg = arg, .ahead = ahead,
				 .on_lane = on_lane };
	int err = sim_run(&sc, &o, &result, error, sizeof(error));

	ck_assert_msg(!err, "%s", error);
}

static uint64_t makespan(const char *text)
{
	uint64_t ns;

	load(text);
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.completed, result.submitted);
	ns = result.makespan_ns;
	sim_result_fini(&result);
	scenario_fini(&sc);
	return ns;
}

/* @devices and @work of a scenario whose kernel k takes 1 ms. */
static const char *simple(const char *links, const char *devices, double demand, const char *work)
{
	static char text[4096];

	snprintf(text, sizeof(text),
		 "{ \"machine\": { %s \"devices\": [ %s ] },\n"
		 "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000, \"demand\": %g } } } ],\n"
		 "  \"tenants\": [ { \"name\": \"t\" } ],\n"
		 "  \"workload\": [ %s ] }\n", links, devices, demand, work);
	return text;
}

#define STREAM(width, length, mb, more) \
	"{ \"type\": \"streams\", \"width\": " #width ", \"length\": " #length \
	", \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": " #mb " " more " }"

/* 1 byte a ns, so 1 MB is 1 ms. */
#define LINK(count, more) \
	"\"links\": [ { \"name\": \"l\", \"gb_per_s\": 1, \"count\": " #count " " more " } ],"
#define DEVICE(count, lanes) \
	"{ \"name\": \"d\", \"count\": " #count ", \"lanes\": " #lanes \
	", \"link\": \"l\", \"memory_gb\": 1 }"

/* Who writes a piece of a buffer doesn't pay for all the others: else this is 4 * 10^10 steps. */
START_TEST(residency_of_many_pieces_is_quick)
{
	enum { PIECES = 200000 };
	struct residency r;
	clock_t start;

	ck_assert(residency_init(&r, 8ull * PIECES, 8));
	for (uint64_t i = 0; i < PIECES; i++)
		ck_assert(residency_written(&r, 8 * i, 8, 1 + i % 2));
	start = clock();
	for (uint64_t i = 0; i < PIECES; i++)
		ck_assert(residency_written(&r, 8 * i, 8, 3 + i % 2));
	ck_assert_double_lt((double)(clock() - start) / CLOCKS_PER_SEC, 3);
	ck_assert_uint_eq(r.nr, PIECES);
	ck_assert_uint_eq(residency_valid(&r, 0, r.bytes, 3), 4ull * PIECES);
	residency_fini(&r);
}
END_TEST

START_TEST(kernels_share_a_device)
{
	static const char device[] = "{ \"name\": \"d\", \"lanes\": 3 }";

	ck_assert_uint_eq(makespan(simple("", device, 1, STREAM(1, 1, 1, ""))), MS);
	ck_assert_uint_eq(makespan(simple("", device, 1, STREAM(2, 1, 1, ""))), 2 * MS);
	ck_assert_uint_eq(makespan(simple("", device, 0.5, STREAM(2, 1, 1, ""))), MS);
	/* Two of these take all of it, so the third one waits; of those it begins, and all are slower. */
	ck_assert_uint_eq(makespan(simple("", device, 0.5, STREAM(3, 1, 1, ""))), 2 * MS);
	ck_assert_uint_eq(makespan(simple("", device, 0.4, STREAM(3, 1, 1, ""))), 6 * MS / 5);
	/* Four on three lanes: three at 4/3 of the time, and the last one alone. */
	ck_assert_uint_eq(makespan(simple("", device, 0.25, STREAM(4, 1, 1, ""))), 2 * MS);
}
END_TEST

/* A file with @trace, for the caller to remove, and the load that it is. */
static const char *trace_of(const char *trace, char *path)
{
	static char work[128];
	int fd;

	strcpy(path, "/tmp/arax-sim-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, trace, strlen(trace)), (ssize_t)strlen(trace));
	close(fd);
	snprintf(work, sizeof(work), "{ \"type\": \"trace\", \"file\": \"%s\" }", path);
	return work;
}

/* To the byte and the ns, though 1e9 * 0.0157 is less than 15,700,000 in binary. */
START_TEST(units_are_exact)
{
	char path[32];

	load(simple("\"links\": [ { \"name\": \"l\", \"gb_per_s\": 1, \"latency_us\": 1.001 } ],",
		    "{ \"name\": \"d\", \"link\": \"l\", \"memory_gb\": 0.0157, \"lost_at_ms\": [ 1000.000007 ] }", 1,
		    STREAM(1, 1, 15.7, ", \"arrive_ms\": 1.000007, \"target_ms\": 1.000007")));
	ck_assert_uint_eq(sc.links[0].latency_ns, 1001);
	ck_assert_uint_eq(sc.devices[0].memory, 15700000);
	ck_assert_uint_eq(sc.devices[0].lost_ns, 1000000007);
	ck_assert_uint_eq(sc.work.apps[0].arrive_ns, 1000007);
	ck_assert_uint_eq(sc.work.apps[0].target_ns, 1000007);
	ck_assert_uint_eq(sc.work.apps[0].tasks[0].footprint, 15700000);
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.completed, 1);
	ck_assert_uint_eq(result.devices[0].bytes_in, 15700000);
	sim_result_fini(&result);
	scenario_fini(&sc);
	load(simple("", "{ \"name\": \"d\" }", 1,
		    trace_of("{ \"kernel\": \"k\", \"submit_us\": 0, \"ranges\": [] }\n"
			     "{ \"kernel\": \"k\", \"submit_us\": 1.001, \"target_us\": 1.001, \"unblock_us\": 1.001, \"end_us\": 1.001, \"ranges\": [] }\n",
			     path)));
	unlink(path);
	ck_assert_uint_eq(sc.work.apps[0].tasks[1].after_ns, 1001);
	ck_assert_uint_eq(sc.work.apps[0].hows[1].target_ns, 1001);
	ck_assert_uint_eq(sc.work.apps[0].hows[1].unblock_ns, 1001);
	ck_assert_uint_eq(sc.work.apps[0].hows[1].end_ns, 1001);
	scenario_fini(&sc);
}
END_TEST

static void note_end(void *arg, const struct sim_seen *seen)
{
	uint64_t (*ends)[8] = arg;

	ends[seen->app][seen->task] = seen->end_ns;
}

/* When each task of @work ends on one device of so many lanes that each kernel fills for 1 ms. */
static void ends_of(const char *work, int lanes, uint64_t (*ends)[8])
{
	char device[64];

	snprintf(device, sizeof(device), "{ \"name\": \"d\", \"lanes\": %d }", lanes);
	load(simple("", device, 1, work));
	run_watched(note_end, ends);
	sim_result_fini(&result);
	scenario_fini(&sc);
}

#define ALONE(name)	"{\"kernel\": \"k\", \"work\": 1, \"ranges\": [[\"" name "\", 0, 8, \"out\"]]}\n"
#define NEXT(name)	"{\"kernel\": \"k\", \"work\": 1, \"ranges\": [[\"" name "\", 0, 8, \"inout\"]]}\n"

/* Three that nothing waits for, and a chain of three, which is submitted last. */
START_TEST(the_urgent_one_begins_first)
{
	static const char trace[] = ALONE("a") ALONE("b") ALONE("c") ALONE("x") NEXT("x") NEXT("x");
	uint64_t ends[1][8] = { { 0 } };
	char path[64], work[512], *end;

	snprintf(work, sizeof(work), "%s", trace_of(trace, path));
	end = strrchr(work, '}');
	strcpy(end, ", \"priority\": \"path\" }");
	ends_of(work, 3, ends);
	/* x first; then a, for x's second is not there yet; it passes b, which is. */
	ck_assert_uint_eq(ends[0][3], MS);
	ck_assert_uint_eq(ends[0][0], 2 * MS);
	ck_assert_uint_eq(ends[0][4], 3 * MS);
	ck_assert_uint_eq(ends[0][1], 4 * MS);
	/* The last one is as urgent as c, which came before. */
	ck_assert_uint_eq(ends[0][5], 6 * MS);
	/* Without priorities all go as they came. */
	strcpy(end, "}");
	ends_of(work, 3, ends);
	unlink(path);
	ck_assert_uint_eq(ends[0][2], 3 * MS);
	ck_assert_uint_eq(ends[0][5], 6 * MS);
}
END_TEST

/* Whose turn it is among programs is the scheduler's matter, and was decided at the pick. */
START_TEST(priority_passes_no_other_program)
{
	uint64_t ends[2][8] = { { 0 } };

	ends_of(STREAM(3, 1, 1, ", \"priority\": 19") ", "
		STREAM(1, 2, 1, ", \"priority\": -20, \"arrive_ms\": 0.5"), 3, ends);
	/* It has the lane that is free at 1 ms, and is behind the two that had theirs before. */
	ck_assert_uint_eq(ends[0][2], 3 * MS);
	ck_assert_uint_eq(ends[1][0], 4 * MS);
	ck_assert_uint_eq(ends[1][1], 5 * MS);
}
END_TEST

/* Nor do urgent ones that come by and by: each has the turn of another one of its program. */
START_TEST(the_urgent_ones_have_no_more_turns)
{
	static const char trace[] = ALONE("a") ALONE("b") ALONE("x") NEXT("x") NEXT("x");
	uint64_t ends[2][8] = { { 0 } };
	char path[64], work[512], *end;

	snprintf(work, sizeof(work), "%s", trace_of(trace, path));
	end = strrchr(work, '}');
	strcpy(end, ", \"priority\": \"path\" }, " STREAM(1, 1, 1, ", \"arrive_ms\": 0.5"));
	ends_of(work, 8, ends);
	unlink(path);
	/* x, a, and x again, which b has let pass, and so is behind the other program. */
	ck_assert_uint_eq(ends[0][2], MS);
	ck_assert_uint_eq(ends[0][0], 2 * MS);
	ck_assert_uint_eq(ends[0][3], 3 * MS);
	ck_assert_uint_eq(ends[1][0], 4 * MS);
}
END_TEST

START_TEST(copies_overlap_kernels)
{
	/* copy, copy beside kernel, kernel; where copies are for lanes alone nothing overlaps on one */
	ck_assert_uint_eq(makespan(simple(LINK(1, ""), DEVICE(1, 2), 1, STREAM(2, 1, 1, ""))),
			  3 * MS);
	ck_assert_uint_eq(makespan(simple(LINK(1, ""), DEVICE(1, 1), 1, STREAM(2, 1, 1, ""))),
			  3 * MS);
	on_lane = true;
	ck_assert_uint_eq(makespan(simple(LINK(1, ""), DEVICE(1, 1), 1, STREAM(2, 1, 1, ""))),
			  4 * MS);
	on_lane = false;
	/* What is there is not copied again. */
	ck_assert_uint_eq(makespan(simple(LINK(1, ""), DEVICE(1, 1), 1, STREAM(1, 5, 1, ""))),
			  6 * MS);
	ck_assert_uint_eq(makespan(simple(LINK(1, ", \"latency_us\": 10"), DEVICE(1, 1), 1,
					  STREAM(1, 1, 1, ""))), 2 * MS + 10 * US);
}
END_TEST

START_TEST(devices_share_a_link)
{
	static const char two[] = STREAM(1, 1, 1, ", \"pin\": \"d0\"") ", "
				  STREAM(1, 1, 1, ", \"pin\": \"d1\"");
	static const char later[] = STREAM(1, 1, 1, ", \"pin\": \"d0\"") ", "
				    STREAM(1, 1, 1, ", \"pin\": \"d1\", \"arrive_ms\": 0.5");

	ck_assert_uint_eq(makespan(simple(LINK(2, ""), DEVICE(2, 1), 1, two)), 2 * MS);
	ck_assert_uint_eq(makespan(simple(LINK(1, ""), DEVICE(2, 1), 1, two)), 3 * MS);
	/* Half of the first alone, its rest shared until 1.5 ms, the second's rest alone. */
	ck_assert_uint_eq(makespan(simple(LINK(1, ""), DEVICE(2, 1), 1, later)), 3 * MS);
}
END_TEST

static uint64_t traced(const char *device, const char *trace)
{
	char path[32];
	uint64_t ns = makespan(simple(LINK(1, ""), device, 1, trace_of(trace, path)));

	unlink(path);
	return ns;
}

/* A kernel on d0 writes what a kernel on d1 reads: by way of the host, there and back. */
START_TEST(bytes_between_devices_go_by_the_host)
{
	ck_assert_uint_eq(traced(DEVICE(1, 1),
		"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 1000000, \"out\" ] ] }\n"
		"{ \"kernel\": \"host\", \"work\": 1000, \"ranges\": [ [ \"x\", 0, 1000000, \"in\" ] ] }\n"),
		2 * MS + US);
}
END_TEST

#define IN(offset, length)	"[ \"x\", " #offset ", " #length ", \"in\" ]"
#define READS(ranges)		"{ \"kernel\": \"k\", \"ranges\": [ " ranges " ] }\n"

/* Twice the same, parts of it, or pieces with holes and then all: 1 MB is 1 ms, and nothing is missing. */
START_TEST(what_ranges_share_comes_once)
{
	ck_assert_uint_eq(traced(DEVICE(1, 1), READS(IN(0, 1000000) ", " IN(0, 1000000) ", "
						     IN(500000, 500000))), 2 * MS);
	ck_assert_uint_eq(traced(DEVICE(1, 1), READS(IN(200000, 300000) ", " IN(600000, 100000) ", "
						     IN(650000, 250000) ", " IN(0, 1000000))),
			  2 * MS);
	ck_assert_uint_eq(traced(DEVICE(1, 1), READS(IN(300000, 700000) ", " IN(0, 600000))), 2 * MS);
	/* Back to the host as well: kernel, copy, access. */
	ck_assert_uint_eq(traced(DEVICE(1, 1),
		"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 1000000, \"out\" ] ] }\n"
		"{ \"kernel\": \"host\", \"work\": 1000, \"ranges\": [ " IN(0, 600000) ", " IN(400000, 600000) " ] }\n"),
		2 * MS + US);
}
END_TEST

/* What a kernel takes 1 ms to write so many others read then, one on each device: 100 kB are 0.1 ms. */
static uint64_t handed_on(const char *links, const char *peers, int readers, uint64_t *direct)
{
	char trace[1024], devices[256], path[32];
	uint64_t ns;

	strcpy(trace, "{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 100000, \"out\" ] ] }\n");
	for (int i = 0; i < readers; i++)
		sprintf(trace + strlen(trace), "{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 100000, \"in\" ], [ \"y%d\", 0, 8, \"out\" ] ] }\n",
			i);
	sprintf(devices, "{ \"name\": \"d\", \"count\": %d, \"lanes\": 1, \"link\": \"l\", \"memory_gb\": 1 %s }",
		readers, peers);
	load(simple(links, devices, 1, trace_of(trace, path)));
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.completed, result.submitted);
	*direct = 0;
	for (uint32_t i = 0; i < sc.nr_devices; i++)
		*direct += result.devices[i].bytes_peer;
	ns = result.makespan_ns;
	sim_result_fini(&result);
	scenario_fini(&sc);
	unlink(path);
	return ns;
}

START_TEST(peers_copy_from_each_other)
{
	static const char peers[] = ", \"peers\": true";
	uint64_t direct;

	/* Out and in, or both at once; on a bus that goes one way at a time it is there once. */
	ck_assert_uint_eq(handed_on(LINK(2, ""), "", 2, &direct), 2 * MS + 200 * US);
	ck_assert_uint_eq(direct, 0);
	ck_assert_uint_eq(handed_on(LINK(2, ""), peers, 2, &direct), 2 * MS + 100 * US);
	ck_assert_uint_eq(direct, 100000);
	ck_assert_uint_eq(handed_on(LINK(1, ""), peers, 2, &direct), 2 * MS + 100 * US);
	ck_assert_uint_eq(handed_on(LINK(1, ", \"duplex\": false"), peers, 2, &direct),
			  2 * MS + 100 * US);
	/* The second one waits for the first, then there are two to copy from; not 300 us for each. */
	ck_assert_uint_eq(handed_on(LINK(4, ""), peers, 4, &direct), 2 * MS + 200 * US);
	ck_assert_uint_eq(direct, 300000);
}
END_TEST

/* v and its kernel, then x, and then w is needed as well as x. */
static const char joined[] =
	"{ \"kernel\": \"k\", \"ranges\": [ [ \"v\", 0, 1000000, \"in\" ] ] }\n"
	"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 1000000, \"out\" ] ] }\n"
	"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 1000000, \"in\" ], [ \"w\", 0, 1000000, \"in\" ] ] }\n";

START_TEST(inputs_come_ahead)
{
	/* As araxd does: a lane that is at work brings nothing for others. */
	ck_assert_uint_eq(traced(DEVICE(1, 1), joined), 5 * MS);
	ahead = true;
	/* w comes beside the second kernel, though one lane has nothing else to do meanwhile. */
	ck_assert_uint_eq(traced(DEVICE(1, 1), joined), 4 * MS);
	/* Not where v would have to go for it: that is for who is ready. */
	ck_assert_uint_eq(traced("{ \"name\": \"d\", \"lanes\": 1, \"link\": \"l\", \"memory_gb\": 0.002 }",
				 joined), 5 * MS);
	/* Nor what the kernel is only about to write, or the one behind the next will. */
	ck_assert_uint_eq(traced(DEVICE(1, 1),
		"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 1000000, \"out\" ] ] }\n"
		"{ \"kernel\": \"host\", \"work\": 1000, \"ranges\": [ [ \"x\", 0, 1, \"inout\" ], [ \"w\", 0, 1000000, \"out\" ] ] }\n"
		"{ \"kernel\": \"k\", \"ranges\": [ [ \"w\", 0, 1000000, \"in\" ] ] }\n"),
		3 * MS + US + 1);
	ahead = false;
}
END_TEST

/* Four in turn, where there is room for three: what is needed last has to go. */
START_TEST(who_is_needed_last_goes)
{
	char trace[2048];
	size_t len = 0;

	for (int i = 0; i < 12; i++)
		len += (size_t)snprintf(trace + len, sizeof(trace) - len,
			"{ \"kernel\": \"k\", \"ranges\": [ [ \"b%d\", 0, 1000000, \"in\" ] ] }\n", i % 4);
	on_lane = true;
	/* Six copies; they would be twelve if it were what was not used for longest. */
	ck_assert_uint_eq(traced("{ \"name\": \"d\", \"lanes\": 1, \"link\": \"l\", \"memory_gb\": 0.003 }",
				 trace), 18 * MS);
	/* All stay. */
	ck_assert_uint_eq(traced(DEVICE(1, 1), trace), 16 * MS);
	on_lane = false;
	/* There is free memory for the second and third alone: three of the six are waited for. */
	ck_assert_uint_eq(traced("{ \"name\": \"d\", \"lanes\": 1, \"link\": \"l\", \"memory_gb\": 0.003 }",
				 trace), 16 * MS);
	ck_assert_uint_eq(traced(DEVICE(1, 1), trace), 13 * MS);
}
END_TEST

START_TEST(memory_is_never_passed)
{
	/* Eight chains of 1 MB each on 3 MB: each goes to its end, and its result back for others. */
	load(simple(LINK(1, ""),
		    "{ \"name\": \"d\", \"lanes\": 2, \"link\": \"l\", \"memory_gb\": 0.003 }", 1,
		    STREAM(8, 10, 1, "")));
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.completed, 80);
	ck_assert_uint_le(result.devices[0].peak_bytes, 3000000);
	ck_assert_uint_ge(result.devices[0].peak_bytes, 2000000);
	ck_assert_uint_eq(result.devices[0].evicted, 5000000);
	ck_assert_uint_eq(result.devices[0].bytes_in, 8000000);
	ck_assert_uint_eq(result.devices[0].bytes_out, 5000000);
	sim_result_fini(&result);
	scenario_fini(&sc);
	/* One that can't fit at all fails, and says so by its result. */
	load(simple(LINK(1, ""),
		    "{ \"name\": \"d\", \"lanes\": 2, \"link\": \"l\", \"memory_gb\": 0.0005 }", 1,
		    STREAM(1, 1, 1, "")));
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.failed, 1);
	ck_assert_uint_eq(result.completed, 0);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/* Twenty short requests among the tasks of a batch; @target of the batch's queue. */
static uint32_t late_requests(const char *target)
{
	char work[512];
	uint32_t late = 0;

	snprintf(work, sizeof(work),
		 STREAM(20, 20, 1, ", \"window\": 1024 %s") ", "
		 STREAM(1, 1, 1, ", \"apps\": 20, \"every_ms\": 10, \"target_ms\": 5"), target);
	load(simple("", "{ \"name\": \"d\", \"lanes\": 1 }", 1, work));
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.completed, 420);
	for (uint32_t i = 1; i < sc.work.nr; i++)
		late += result.apps[i].late;
	sim_result_fini(&result);
	scenario_fini(&sc);
	return late;
}

/* ------------------------------------------------------------------ */
/* Policies                                                            */

static double makespan_by(const char *policy)
{
	struct sim_options o = { .policy = policy };
	double ms;
	int err = sim_run(&sc, &o, &result, error, sizeof(error));

	ck_assert_msg(!err, "%s", error);
	ck_assert_uint_eq(result.completed, result.submitted);
	ms = (double)result.makespan_ns / 1e6;
	sim_result_fini(&result);
	return ms;
}

static void note_device(void *arg, const struct sim_seen *s)
{
	uint32_t *devices = arg;

	devices[s->task] = s->device;
}

/* Where each of the tasks of @trace runs, by @policy; two fast devices and a slow one. */
static void places_by(const char *policy, const char *trace, uint32_t *devices)
{
	struct sim_options o = { .policy = policy, .watch = note_device, .arg = devices };
	char text[2048], path[32];

	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 10 }, { \"name\": \"m\", \"gb_per_s\": 1 } ],\n"
		 "  \"devices\": [ { \"name\": \"f\", \"count\": 2, \"link\": \"l\", \"memory_gb\": 1 },\n"
		 "                 { \"name\": \"s\", \"link\": \"m\", \"memory_gb\": 1 } ] },\n"
		 " \"kernels\": [ { \"name\": \"k\", \"cost\": { \"f\": { \"base_us\": 10 } } },\n"
		 "                { \"name\": \"g\", \"cost\": { \"s\": { \"base_us\": 10 } } } ],\n"
		 " \"tenants\": [ { \"name\": \"t\" } ], \"workload\": [ %s ] }\n", trace_of(trace, path));
	load(text);
	ck_assert_msg(!sim_run(&sc, &o, &result, error, sizeof(error)), "%s", error);
	ck_assert_uint_eq(result.completed, result.submitted);
	sim_result_fini(&result);
	scenario_fini(&sc);
	unlink(path);
}

/* x comes to be on the first device, the larger y on the second one; the rest follows. */
#define X_AND_Y(more) \
	"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 4000000, \"out\" ] ], \"sync\": true }\n" \
	"{ \"kernel\": \"k\", \"ranges\": [ [ \"y\", 0, 5000000, \"out\" ] ], \"sync\": true }\n" more
#define BOTH \
	"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 4000000, \"in\" ], [ \"y\", 0, 5000000, \"in\" ] ] }\n"
#define Y_ALONE	"{ \"kernel\": \"k\", \"ranges\": [ [ \"y\", 0, 5000000, \"inout\" ] ], \"sync\": true }\n"

START_TEST(policies_follow_the_data)
{
	static const char *const follow[] = {
		"min-transfer-size", "minmin-transfer-time", "minmax-transfer-time",
	};
	uint32_t d[6];

	/* It would be the first one's turn. */
	places_by("rr", X_AND_Y(Y_ALONE Y_ALONE), d);
	ck_assert(d[0] == 0 && d[1] == 1 && d[2] == 0 && d[3] == 1);
	for (int i = 0; i < 3; i++) {
		places_by(follow[i], X_AND_Y(Y_ALONE Y_ALONE BOTH), d);
		ck_assert(d[0] == 0 && d[1] == 1);
		ck_assert_msg(d[2] == 1 && d[3] == 1, "%s: y is on 1, its tasks ran on %u and %u",
			      follow[i], d[2], d[3]);
		/* There the lesser part is missing. */
		ck_assert_msg(d[4] == 1, "%s: most is on 1, the task ran on %u", follow[i], d[4]);
	}
}
END_TEST

/*
 * Both are at the host as well, and x on the slow device.  At best x goes to y in 0.4 ms; at
 * worst it comes from the slow one in 4.4 ms, and y to x from the other fast one in 1 ms.
 */
START_TEST(the_best_way_is_not_the_worst)
{
	static const char trace[] = X_AND_Y(
		"{ \"kernel\": \"g\", \"ranges\": [ [ \"x\", 0, 4000000, \"in\" ] ], \"sync\": true }\n"
		"{ \"kernel\": \"host\", \"work\": 1, \"ranges\": [ [ \"y\", 0, 5000000, \"in\" ] ], \"sync\": true }\n"
		BOTH);
	uint32_t d[5];

	places_by("minmin-transfer-time", trace, d);
	ck_assert_uint_eq(d[2], 2);
	ck_assert_uint_eq(d[4], 1);
	places_by("minmax-transfer-time", trace, d);
	ck_assert_uint_eq(d[2], 2);
	ck_assert_uint_eq(d[4], 0);
}
END_TEST

/* One of 10 ms, one of 1 ms, and a third that comes when the second has left. */
START_TEST(who_has_left_counts_no_more)
{
	struct sim_options o = { .policy = "static" };

	load(simple("", "{ \"name\": \"d\", \"count\": 2, \"lanes\": 1 }", 1,
		    STREAM(1, 10, 1, "") ", " STREAM(1, 1, 1, "") ", "
		    STREAM(1, 5, 1, ", \"arrive_ms\": 3")));
	ck_assert_msg(!sim_run(&sc, &o, &result, error, sizeof(error)), "%s", error);
	ck_assert_uint_eq(result.apps[0].end_ns, 10 * MS);
	ck_assert_uint_eq(result.apps[1].end_ns, MS);
	ck_assert_uint_eq(result.apps[2].end_ns, 8 * MS);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

static const char loads[] =
	"{ \"machine\": { \"links\": [ { \"name\": \"l\", \"count\": %d, \"gb_per_s\": 12, \"latency_us\": 10 } ],\n"
	"  \"devices\": [ { \"name\": \"g\", \"count\": 4, \"link\": \"l\", \"memory_gb\": 16 } ] },\n"
	" \"kernels\": [ { \"name\": \"k\", \"cost\": { \"g\": { \"base_us\": 5, \"ns_per_item\": 1 } } } ],\n"
	" \"tenants\": [ { \"name\": \"t\", \"count\": 2 } ],\n"
	" \"workload\": [ { \"tenant\": \"t\", \"apps\": %d, \"every_ms\": 1, \"window\": 256, \"kernels\": [ \"k\" ],\n"
	"   \"work\": [ %d, %d ], \"mb\": %g, %s } ] }\n";

/*
 * From loads that only move data to those that only compute, a client a device is never much
 * better, and often far worse.
 */
START_TEST(eft_bears_comparison_with_static)
{
	static const char *const shapes[] = {
		"\"type\": \"layered\", \"layers\": 30, \"width\": 12, \"fan_in\": 2",
		"\"type\": \"streams\", \"width\": 8, \"length\": 50",
	};
	static const int us[] = { 10, 100, 1000 };
	static const double mb[] = { 0.1, 1, 8 };
	double sum = 0, ratio, worst = 0;
	char text[2048];
	int n = 0;

	for (int i = 0; i < 2 * 2 * 2 * 3 * 3; i++) {
		int time = us[i / 8 % 3];

		snprintf(text, sizeof(text), loads, 1 + i % 2, i / 2 % 2 ? 7 : 2, time * 500,
			 time * 2000, mb[i / 24], shapes[i / 4 % 2]);
		load(text);
		ratio = makespan_by("eft") / makespan_by("static");
		scenario_fini(&sc);
		sum += log(ratio);
		worst = ratio > worst ? ratio : worst;
		n++;
	}
	ck_assert_int_eq(n, 72);
	ck_assert_double_le(exp(sum / n), 0.8);
	ck_assert_double_le(worst, 2);
}
END_TEST

START_TEST(eft_on_the_examples)
{
	static const char *const files[] = { "two-tenants", "cholesky", "device-loss", "replay" };
	const uint64_t seeds = 8;
	char path[128], *text;
	double sum = 0;
	size_t bytes;
	FILE *f;

	snprintf(path, sizeof(path), "examples/scenarios/%s.json", files[_i]);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	text = calloc(1, 1 << 16);
	bytes = fread(text, 1, 1 << 16, f);
	fclose(f);
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		ck_assert_int_eq(scenario_load(&sc, path, text, bytes, &seed, error,
					       sizeof(error)), 0);
		/* Where devices die, chance decides who was on them. */
		if (sc.fail > 0) {
			sc.fail = 0;
			for (uint32_t i = 0; i < sc.nr_devices; i++)
				sc.devices[i].lost_ns = UINT64_MAX;
		}
		sum += log(makespan_by("eft") / makespan_by("static"));
		scenario_fini(&sc);
	}
	free(text);
	/*
	 * With three programs pinned to each device, which take turns there, nothing is moved
	 * and hardly anything stands idle: eft, which spreads them, is a little behind.
	 */
	ck_assert_double_le(exp(sum / (double)seeds), _i == 2 ? 1.12 : 1.08);
}
END_TEST

START_TEST(targets_are_met_where_they_can_be)
{
	ck_assert_uint_eq(late_requests(""), 0);
	/* All of the batch was submitted at once: then that is later, and nothing failed. */
	ck_assert_uint_ge(late_requests(", \"target_ms\": 5"), 18);
	ck_assert_uint_eq(late_requests(", \"target_ms\": 5, \"priority\": 3"), 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* What must hold in every run                                         */

static const char mixed[] =
	"{ \"seed\": 5, \"jitter\": 0.2, \"task_failure\": %g, \"models\": \"%s\", \"policy\": \"%s\",\n"
	" \"machine\": { \"links\": [ { \"name\": \"l\", \"count\": 2, \"gb_per_s\": 10, \"latency_us\": 5, \"duplex\": false } ],\n"
	"  \"devices\": [ { \"name\": \"g\", \"count\": 4, \"link\": \"l\", \"memory_gb\": 0.02, \"lanes\": 3, \"peers\": true %s },\n"
	"                 { \"name\": \"c\", \"lanes\": 2 } ] },\n"
	" \"kernels\": [ { \"name\": \"a\", \"cost\": { \"g\": { \"base_us\": 3, \"ns_per_item\": 0.1 }, \"c\": { \"ns_per_item\": 1 } } },\n"
	"                { \"name\": \"b\", \"cost\": { \"g\": { \"base_us\": 9, \"ns_per_item\": 0.2, \"demand\": 0.4 } } } ],\n"
	" \"tenants\": [ { \"name\": \"t\", \"count\": 5, \"weight\": 10 }, { \"name\": \"u\" } ],\n"
	" \"workload\": [ { \"type\": \"layered\", \"tenant\": \"t\", \"apps\": 10, \"layers\": 12, \"width\": 9, \"fan_in\": 3, \"buffers\": \"%s\",\n"
	"                   \"kernels\": [ \"a\", \"b\" ], \"work\": [ 1000, 90000 ], \"mb\": 0.5, \"every_ms\": 0.5, \"arrival\": \"random\" },\n"
	"                 { \"type\": \"streams\", \"tenant\": \"u\", \"width\": 6, \"length\": 40, \"kernels\": [ \"b\" ], \"work\": 20000, \"mb\": 1 } ] }\n";

static const char *buffers = "explicit";

static const char *fill(double fail, const char *models, const char *policy, const char *more)
{
	static char text[4096];

	snprintf(text, sizeof(text), mixed, fail, models, policy, more, buffers);
	return text;
}

struct books {
	uint64_t hash;
	double used;
	struct sim_seen *seen[128];
};

static void keep(void *arg, const struct sim_seen *s)
{
	struct books *b = arg;
	struct sim_seen *mine = &b->seen[s->app][s->task];

	ck_assert_uint_eq(mine->end_ns, 0);	/* once only */
	ck_assert_uint_le(s->start_ns, s->end_ns);
	*mine = *s;
	b->used += s->used_ns;
	b->hash = rng_hash(b->hash, s->end_ns, (uint64_t)s->app << 32 | s->task);
	b->hash = rng_hash(b->hash, s->device, s->start_ns);
}

static void open_books(struct books *b)
{
	memset(b, 0, sizeof(*b));
	ck_assert_uint_le(sc.work.nr, sizeof(b->seen) / sizeof(b->seen[0]));
	for (uint32_t i = 0; i < sc.work.nr; i++)
		b->seen[i] = calloc(sc.work.apps[i].nr_tasks, sizeof(*b->seen[i]));
}

static void close_books(struct books *b)
{
	for (uint32_t i = 0; i < sc.work.nr; i++)
		free(b->seen[i]);
	sim_result_fini(&result);
	scenario_fini(&sc);
}

/* Nobody began before those that he depends on had ended. */
static void check_order(const struct books *b)
{
	for (uint32_t i = 0; i < sc.work.nr; i++) {
		const struct sim_app *a = &sc.work.apps[i];

		for (uint32_t t = 0; t < a->nr_tasks; t++)
			for (uint32_t e = t > 40 ? t - 40 : 0; e < t; e++) {
				const struct sim_task *x = &a->tasks[e], *y = &a->tasks[t];
				bool conflict = false;

				for (int p = 0; p < x->nr_ranges; p++)
					for (int q = 0; q < y->nr_ranges; q++) {
						const struct sim_range *r = &a->ranges[x->first_range + p];
						const struct sim_range *s = &a->ranges[y->first_range + q];

						conflict |= r->buffer == s->buffer &&
							    ((r->access | s->access) & ARAX_OUT);
					}
				if (conflict && b->seen[i][t].end_ns && b->seen[i][e].end_ns)
					ck_assert_uint_ge(b->seen[i][t].start_ns,
							  b->seen[i][e].end_ns);
			}
	}
}

START_TEST(every_task_ends_once)
{
	const char *policy = policies[_i % POLICIES], *models = _i / POLICIES == 1 ? "cold" : "warm";
	double devices = 0, tenants = 0;
	uint64_t tasks = 0;
	struct books b;

	ahead = _i / POLICIES == 2;
	buffers = _i / POLICIES == 3 ? "plain" : "explicit";
	load(fill(0, models, policy, ""));
	open_books(&b);
	run_watched(keep, &b);
	ck_assert_uint_eq(result.submitted, 10 * 12 * 9 + 6 * 40);
	ck_assert_uint_eq(result.completed, result.submitted);
	for (uint32_t i = 0; i < sc.work.nr; i++)
		for (uint32_t t = 0; t < sc.work.apps[i].nr_tasks; t++)
			ck_assert_uint_ne(b.seen[i][t].end_ns, 0);
	check_order(&b);
	for (uint32_t i = 0; i < sc.nr_devices; i++) {
		double bins = 0;

		for (int k = 0; k < SIM_BINS; k++)
			bins += result.devices[i].bins[k];
		ck_assert_double_eq_tol(bins, result.devices[i].used_ns, 1 + 0.000001 * bins);
		ck_assert_double_le(result.devices[i].used_ns, (double)result.makespan_ns);
		ck_assert_uint_le(result.devices[i].peak_bytes, 20000000);
		devices += result.devices[i].used_ns;
		tasks += result.devices[i].tasks;
	}
	for (uint32_t i = 0; i < sc.nr_tenants; i++)
		tenants += result.tenants[i].used_ns;
	ck_assert_uint_eq(tasks, result.submitted);
	/* Ends are rounded up to whole ns, and until then the device counts as used. */
	ck_assert_double_ge(devices, b.used - 1);
	ck_assert_double_le(devices, b.used + (double)tasks);
	ck_assert_double_eq_tol(tenants, b.used, 0.000001 * b.used);
	close_books(&b);
}
END_TEST

static uint64_t hash_of(const char *text, const uint64_t *seed)
{
	struct books b;

	ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), seed, error,
				       sizeof(error)), 0);
	open_books(&b);
	run_watched(keep, &b);
	close_books(&b);
	return b.hash;
}

START_TEST(a_seed_is_a_run)
{
	const char *text = fill(0.01, "warm", policies[_i], ", \"lost_at_ms\": [ 2 ]");
	uint64_t other = 6, first = hash_of(text, NULL);

	ck_assert_uint_eq(hash_of(text, NULL), first);
	ck_assert_uint_ne(hash_of(text, &other), first);
	buffers = "plain";
	text = fill(0.01, "warm", policies[_i], ", \"lost_at_ms\": [ 2 ]");
	ck_assert_uint_ne(hash_of(text, NULL), first);
	first = hash_of(text, NULL);
	ck_assert_uint_eq(hash_of(text, NULL), first);
}
END_TEST

/* Nor does it matter where anything lies in memory, of hundreds of devices and waiting tasks. */
START_TEST(a_seed_is_a_run_on_many_devices)
{
	static const char text[] =
		"{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 12, \"count\": 32 } ],"
		"  \"devices\": [ { \"name\": \"big\", \"count\": 32, \"link\": \"l\", \"per_link\": 2, \"memory_gb\": 16, \"lanes\": 2 },"
		"    { \"name\": \"small\", \"count\": 32, \"link\": \"l\", \"per_link\": 2, \"memory_gb\": 16, \"lanes\": 2 } ] },"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"big\": { \"ns_per_item\": 0.1 },"
		"    \"small\": { \"ns_per_item\": 0.3 } } } ],"
		"  \"tenants\": [ { \"name\": \"t\", \"count\": 100 } ],"
		"  \"workload\": [ { \"type\": \"layered\", \"tenant\": \"t\", \"apps\": 100, \"layers\": 6,"
		"    \"width\": 10, \"fan_in\": 2, \"kernels\": [ \"k\" ], \"work\": [ 1000000, 16000000 ],"
		"    \"mb\": 1 } ] }";
	void *between[64];
	uint64_t first = hash_of(text, NULL);

	for (uint32_t i = 0; i < 64; i++)
		between[i] = malloc(4096 + 1472 * i);
	for (uint32_t i = 0; i < 64; i += 3) {
		free(between[i]);
		between[i] = NULL;
	}
	ck_assert_uint_eq(hash_of(text, NULL), first);
	for (uint32_t i = 0; i < 64; i++)
		free(between[i]);
}
END_TEST

START_TEST(failures_are_counted)
{
	double devices = 0, tenants = 0;
	struct books b;
	uint64_t failed = 0;

	ahead = _i / POLICIES == 1;
	buffers = _i / POLICIES == 2 ? "plain" : "explicit";
	load(fill(0.02, "warm", policies[_i % POLICIES], ", \"lost_at_ms\": [ 1, 2.5, 4 ]"));
	open_books(&b);
	run_watched(keep, &b);
	ck_assert_uint_eq(result.completed + result.failed + result.canceled, result.submitted);
	ck_assert_uint_ge(result.failed, 5);
	ck_assert_uint_ge(result.canceled, 1);
	ck_assert_uint_ge(result.rerun, 1);
	for (uint32_t i = 0; i < sc.work.nr; i++)
		failed += result.apps[i].failed;
	ck_assert_uint_eq(failed, result.failed + result.canceled);
	/* Somebody had what devices did, though it was in vain; but for the rounding of ends. */
	for (uint32_t i = 0; i < sc.nr_devices; i++)
		devices += result.devices[i].used_ns;
	for (uint32_t i = 0; i < sc.nr_tenants; i++)
		tenants += result.tenants[i].used_ns;
	ck_assert_double_ge(devices, tenants - 1);
	ck_assert_double_le(devices, tenants + (double)result.submitted);
	/* None ran on a device that was gone. */
	for (uint32_t i = 0; i < sc.work.nr; i++)
		for (uint32_t t = 0; t < sc.work.apps[i].nr_tasks; t++) {
			const struct sim_seen *s = &b.seen[i][t];

			if (s->device < sc.nr_devices)
				ck_assert_uint_le(s->end_ns, sc.devices[s->device].lost_ns);
		}
	check_order(&b);
	close_books(&b);
}
END_TEST

/* A tenant of short kernels ends while the other one's only kernel runs: both had a device of two. */
static void keep_run(void *arg, const struct sim_seen *seen)
{
	struct sim_seen *of = arg;

	of[seen->task] = *seen;
}

/* Who fails by one seed is not who is quick by another one. */
START_TEST(failures_are_no_run_times)
{
	static struct sim_seen failing[64], varying[64];
	const uint64_t seed = 5;
	uint32_t alike = 0;

	load(simple("", "{ \"name\": \"d\", \"lanes\": 1 }", 1, STREAM(64, 1, 1, "")));
	ck_assert(sc.work.apps[0].nr_tasks == 64);
	sc.fail = 0.5;
	sc.seed = seed;
	run_watched(keep_run, failing);
	sim_result_fini(&result);
	sc.fail = 0;
	sc.jitter = 0.5;
	sc.seed = seed + 1;
	run_watched(keep_run, varying);
	for (uint32_t i = 0; i < 64; i++)
		alike += (failing[i].result != 0) == (varying[i].end_ns - varying[i].start_ns < MS);
	ck_assert_uint_ge(alike, 12);
	ck_assert_uint_le(alike, 52);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/* What is made task by task keeps no room for more: there may be a million programs. */
START_TEST(programs_have_no_more_than_they_need)
{
	load(simple("", "{ \"name\": \"d\" }", 1, STREAM(1, 3, 1, "")));
	ck_assert_uint_eq(sc.work.apps[0].size_tasks, 3);
	ck_assert_uint_eq(sc.work.apps[0].size_ranges, 3);
	ck_assert_uint_eq(sc.work.apps[0].size_buffers, 1);
	scenario_fini(&sc);
}
END_TEST

START_TEST(shares_count_what_runs)
{
	load("{ \"machine\": { \"devices\": [ { \"name\": \"d\", \"count\": 2, \"lanes\": 1 } ] },\n"
	     "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1000, \"ns_per_item\": 1 } } } ],\n"
	     "  \"tenants\": [ { \"name\": \"t\" }, { \"name\": \"u\" } ],\n"
	     "  \"workload\": [\n"
	     "    { \"type\": \"streams\", \"tenant\": \"t\", \"width\": 1, \"length\": 9, \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": 1, \"pin\": \"d0\" },\n"
	     "    { \"type\": \"streams\", \"tenant\": \"u\", \"width\": 1, \"length\": 1, \"kernels\": [ \"k\" ], \"work\": 99000000, \"mb\": 1, \"pin\": \"d1\" } ] }\n");
	run_watched(NULL, NULL);
	ck_assert_double_eq_tol(result.tenants[0].shared_ns, 9000009, 1);
	ck_assert_double_eq_tol(result.tenants[1].shared_ns, 9000009, 1);
	ck_assert_double_eq_tol(result.tenants[1].used_ns, 100000000, 1);
	ck_assert_double_eq_tol(result.jain, 1, 0.000001);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

START_TEST(what_only_a_lost_device_had_is_lost)
{
	load(simple(LINK(1, ""),
		    "{ \"name\": \"d\", \"count\": 2, \"lanes\": 1, \"link\": \"l\", \"memory_gb\": 1, \"lost_at_ms\": [ 3.5 ] }",
		    1, STREAM(1, 10, 1, "")));
	/* The second run was over: its result was nowhere else, and the third read it. */
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.lost_bytes, 1000000);
	ck_assert_uint_eq(result.completed, 2);
	ck_assert_uint_eq(result.failed, 1);
	ck_assert_uint_eq(result.canceled, 7);
	ck_assert_uint_eq(result.rerun, 1);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/* The last of them is no harder to take leave of than the first: else it would be half a minute. */
START_TEST(many_programs_of_a_tenant_are_quick)
{
	struct sim_options o = { .limit_ns = 15000 * MS };

	load(simple("", "{ \"name\": \"d\" }", 1, STREAM(1, 1, 1, ", \"apps\": 80000")));
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), 0);
	ck_assert_uint_eq(result.completed, 80000);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/* It is lost while another one copies from it: the writer had ended, both readers have nothing to read. */
START_TEST(who_copies_from_a_lost_device_is_told)
{
	char path[32];

	load(simple(LINK(2, ""),
		    "{ \"name\": \"d\", \"count\": 2, \"lanes\": 1, \"link\": \"l\", \"memory_gb\": 1, \"peers\": true, \"lost_at_ms\": [ 1.5 ] }",
		    1, trace_of("{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 900000, \"out\" ] ] }\n"
				"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 900000, \"in\" ], [ \"y\", 0, 8, \"out\" ] ] }\n"
				"{ \"kernel\": \"k\", \"ranges\": [ [ \"x\", 0, 900000, \"in\" ], [ \"z\", 0, 8, \"out\" ] ] }\n",
				path)));
	run_watched(NULL, NULL);
	unlink(path);
	ck_assert_uint_eq(result.completed, 1);
	ck_assert_uint_eq(result.failed, 2);
	ck_assert_uint_eq(result.rerun, 1);
	ck_assert_uint_eq(result.lost_bytes, 900000);
	ck_assert_uint_eq(result.devices[1].bytes_peer, 0);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

static const char *const endless[] = {
	/* a task of 35,000 years */
	"{ \"machine\": { \"devices\": [ { \"name\": \"d\" } ] }, \"tenants\": [ { \"name\": \"t\" } ],"
	"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"ns_per_item\": 1e9 } } } ],"
	"  \"workload\": [ { \"type\": \"streams\", \"width\": 1, \"length\": 2, \"kernels\": [ \"k\" ], \"work\": 1099511627776, \"mb\": 1 } ] }",
	/* copies of 32 years each */
	"{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 1e-6 } ], \"devices\": [ { \"name\": \"d\", \"link\": \"l\", \"memory_gb\": 1e6 } ] },"
	"  \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1 } } } ],"
	"  \"workload\": [ { \"type\": \"streams\", \"width\": 40, \"length\": 2, \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": 1e6 } ] }",
	/* programs, one each 12 days, for 270 years */
	"{ \"machine\": { \"devices\": [ { \"name\": \"d\" } ] }, \"tenants\": [ { \"name\": \"t\" } ],"
	"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1 } } } ],"
	"  \"workload\": [ { \"type\": \"streams\", \"width\": 1, \"length\": 1, \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": 1, \"apps\": 8192, \"every_ms\": 1e9 } ] }",
};

START_TEST(time_has_an_end)
{
	struct sim_options o = { 0 };
	struct sim_bound b;

	load(endless[_i]);
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), -EOVERFLOW);
	ck_assert_msg(strstr(error, "146 years"), "%s", error);
	sim_result_fini(&result);
	error[0] = '\0';
	/* Where nothing is copied it may end. */
	ck_assert_int_eq(sim_bound(&sc, &b, error, sizeof(error)), _i == 1 ? 0 : -EOVERFLOW);
	ck_assert_msg(_i == 1 || strstr(error, "146 years"), "%s", error);
	scenario_fini(&sc);
}
END_TEST

START_TEST(nowhere_to_run_is_said)
{
	struct sim_options o = { .policy = "best" };

	load(simple("", "{ \"name\": \"d\" }", 1, STREAM(1, 1, 1, "")));
	ck_assert_int_eq(sim_run(&sc, &o, &result, error, sizeof(error)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "no such policy: best; there are eft, fair, rr,"));
	sim_result_fini(&result);
	scenario_fini(&sc);
	load(simple("", "{ \"name\": \"d\", \"lost_at_ms\": [ 0.5 ] }", 1, STREAM(1, 2, 1, "")));
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.failed, 1);
	ck_assert_uint_eq(result.canceled, 1);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Bounds                                                              */

START_TEST(bounds_are_right)
{
	struct sim_bound bound;

	load(simple("", "{ \"name\": \"d\", \"lanes\": 3 }", 1, STREAM(4, 5, 1, "")));
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	ck_assert_uint_eq(bound.path_ns, 5 * MS);
	ck_assert_uint_eq(bound.area_ns, 20 * MS);
	scenario_fini(&sc);
	/* Half as fast: the best split is two thirds to one third. */
	load("{ \"machine\": { \"devices\": [ { \"name\": \"f\" }, { \"name\": \"s\" } ] },\n"
	     "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"f\": { \"base_us\": 1000 }, \"s\": { \"base_us\": 2000 } } } ],\n"
	     "  \"tenants\": [ { \"name\": \"t\" } ], \"workload\": [ " STREAM(30, 1, 1, "") " ] }");
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	ck_assert_uint_eq(bound.path_ns, MS);
	ck_assert_double_eq_tol((double)bound.area_ns, 20e6, 20e3);
	scenario_fini(&sc);
}
END_TEST

static struct sim_bound bound_of(const char *text)
{
	struct sim_bound bound;

	load(text);
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	scenario_fini(&sc);
	return bound;
}

/* A quick device and a slow one, on which kernel a takes @a us. */
#define TWO(a, work) \
	"{ \"machine\": { \"devices\": [ { \"name\": \"f\" }, { \"name\": \"s\" } ] },\n" \
	"  \"kernels\": [ { \"name\": \"a\", \"cost\": { \"f\": { \"base_us\": 1000 }, \"s\": { \"base_us\": " #a " } } },\n" \
	"   { \"name\": \"b\", \"cost\": { \"f\": { \"base_us\": 1000 }, \"s\": { \"base_us\": 10000 } } } ],\n" \
	"  \"tenants\": [ { \"name\": \"t\" } ], \"workload\": [ " work " ] }"
#define TASKS(kernel, width, length) \
	"{ \"type\": \"streams\", \"kernels\": [ \"" #kernel "\" ], \"work\": 1, \"mb\": 1, \"width\": " #width \
	", \"length\": " #length " }"

START_TEST(bounds_are_the_linear_programs)
{
	struct sim_bound b;
	const char *name;

	/* All b and 10/3 of a on the quick one: 10 + x = 2 (10 - x). */
	b = bound_of(TWO(2000, TASKS(a, 10, 1) "," TASKS(b, 10, 1)));
	ck_assert_double_eq_tol((double)b.area_ns, 40e6 / 3, 1e3);
	ck_assert_uint_eq(b.path_ns, MS);
	ck_assert_uint_eq(sim_bound_best(&b, &name), b.area_ns);
	ck_assert_str_eq(name, "area");
	/*
	 * But if all a are a chain, of which x are on the quick one, and y of b on the slow one:
	 * x + 10 - y = x + 2 (10 - x) = 2 (10 - x) + 10 y.
	 */
	b = bound_of(TWO(2000, TASKS(a, 1, 10) "," TASKS(b, 10, 1)));
	ck_assert_double_eq_tol((double)b.area_ns, 40e6 / 3, 1e3);
	ck_assert_double_eq_tol((double)b.mixed_ns, 280e6 / 19, 1e3);
	ck_assert_uint_eq(b.path_ns, 10 * MS);
	ck_assert_uint_eq(sim_bound_best(&b, &name), b.mixed_ns);
	ck_assert_str_eq(name, "mixed");
	/* Nothing to do but the chain. */
	b = bound_of(TWO(2000, TASKS(a, 1, 10)));
	ck_assert_uint_eq(sim_bound_best(&b, &name), 10 * MS);
	ck_assert_str_eq(name, "critical path");
	/* What can't begin before 10 ms. */
	b = bound_of(simple("", "{ \"name\": \"d\" }", 1, STREAM(4, 1, 1, ", \"arrive_ms\": 10")));
	ck_assert_uint_eq(b.path_ns, 11 * MS);
	ck_assert_uint_eq(b.area_ns, 4 * MS);
	ck_assert_uint_eq(b.mixed_ns, 14 * MS);
}
END_TEST

/* All kernels 1 ms on two devices, @more its workload's. */
static const char *tiled(const char *type, int tiles, const char *more)
{
	static const char *const names[] = { "potrf", "trsm", "syrk", "gemm", "getrf" };
	static char text[2048];

	strcpy(text, "{ \"machine\": { \"devices\": [ { \"name\": \"d\", \"count\": 2, \"lanes\": 1 } ] }, \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [");
	for (int i = 0; i < 5; i++)
		sprintf(text + strlen(text), "%s{ \"name\": \"%s\", \"cost\": { \"d\": { \"base_us\": 1000 } } }",
			i ? "," : "", names[i]);
	sprintf(text + strlen(text), "], \"workload\": [ { \"type\": \"%s\", \"tiles\": %d, \"tile\": 8, \"window\": 4096%s } ] }",
		type, tiles, more);
	return text;
}

START_TEST(narrow_ends_count)
{
	struct sim_bound b = bound_of(tiled("cholesky", 3, ""));

	/* potrf; trsm trsm; syrk gemm | syrk potrf; trsm; syrk; potrf */
	ck_assert_uint_eq(b.path_ns, 7 * MS);
	ck_assert_uint_eq(b.area_ns, 5 * MS);
	ck_assert_double_eq_tol((double)b.mixed_ns, 7e6, 1e3);
	/* The first alone, the last two one after the other, and 53 tasks in between. */
	b = bound_of(tiled("cholesky", 6, ""));
	ck_assert_uint_eq(b.path_ns, 16 * MS);
	ck_assert_uint_eq(b.area_ns, 28 * MS);
	ck_assert_double_eq_tol((double)b.mixed_ns, 29.5e6, 1e3);
	ck_assert_uint_le(b.mixed_ns, makespan(tiled("cholesky", 6, "")));
}
END_TEST

START_TEST(nothing_beats_its_bound)
{
	struct sim_bound bound;

	load(_i < 2 ? fill(0, "warm", policies[_i], "") : tiled(_i & 1 ? "lu" : "cholesky", _i, ""));
	run_watched(NULL, NULL);
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	ck_assert_uint_gt(bound.path_ns, 0);
	ck_assert_uint_gt(bound.area_ns, 0);
	ck_assert_uint_ge(result.makespan_ns, bound.path_ns);
	ck_assert_uint_ge(result.makespan_ns, bound.area_ns);
	ck_assert_uint_ge(result.makespan_ns, bound.mixed_ns);
	ck_assert_uint_ge(result.makespan_ns, bound.ways_ns);
	ck_assert_uint_ge(bound.mixed_ns, bound.area_ns);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Scenarios that are wrong                                            */

static const char good[] =
	"{\n"
	" \"name\": \"n\", \"seed\": 1, \"policy\": \"eft\", \"models\": \"warm\", \"jitter\": 0, \"task_failure\": 0,\n"
	" \"machine\": {\n"
	"  \"links\": [ { \"name\": \"l\", \"count\": 2, \"gb_per_s\": 1, \"latency_us\": 1, \"duplex\": true } ],\n"
	"  \"devices\": [ { \"name\": \"d\", \"count\": 2, \"kind\": \"d\", \"link\": \"l\", \"per_link\": 1, \"memory_gb\": 1, \"lanes\": 1, \"lost_at_ms\": [ 9 ] } ] },\n"
	" \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1, \"ns_per_item\": 1, \"demand\": 1 } } } ],\n"
	" \"tenants\": [ { \"name\": \"t\", \"count\": 1, \"weight\": 5 } ],\n"
	" \"workload\": [\n"
	"  { \"type\": \"layered\", \"tenant\": \"t\", \"apps\": 1, \"arrive_ms\": 0, \"every_ms\": 0, \"arrival\": \"regular\", \"window\": 8, \"pin\": \"d1\",\n"
	"    \"layers\": 2, \"width\": 2, \"fan_in\": 1, \"kernels\": [ \"k\" ], \"work\": [ 1, 2 ], \"mb\": 1 },\n"
	"  { \"type\": \"streams\", \"width\": 2, \"length\": 2, \"kernels\": [ \"k\" ], \"work\": 7, \"mb\": 2 } ]\n"
	"}\n";

static const struct {
	const char *from, *to, *says;
	int line;
} bad[] = {
	{ "\"name\": \"n\"", "\"nmae\": \"n\"", "nmae: no such key; there are name, seed", 2 },
	{ "\"name\": \"n\"", "\"name\": 5", "name: must be a string of 1 to 47", 2 },
	{ "\"name\": \"n\"", "\"name\": \"\\t\"", "not printable", 2 },
	{ "{ \"name\": \"k\"", "{ \"name\": \"host\"", "name: \"host\" is what traces call", 6 },
	{ "\"seed\": 1", "\"seed\": -1", "seed: -1 is not within 0", 2 },
	{ "\"seed\": 1", "\"seed\": 1.5", "seed: must be a whole number", 2 },
	{ "\"policy\": \"eft\"", "\"policy\": \"best\"", "policy: no such policy: best; there are eft, fair, rr,", 2 },
	{ "\"models\": \"warm\"", "\"models\": \"hot\"", "models: must be \"warm\"", 2 },
	{ "\"jitter\": 0", "\"jitter\": 2", "jitter: 2 is not within 0 to 0.9", 2 },
	{ "\"task_failure\": 0", "\"task_failure\": \"no\"", "task_failure: must be a number from 0 to 1", 2 },
	{ "\"machine\": {", "\"machine\": 3, \"x\": {", "x: no such key", 3 },
	{ "\"links\": [", "\"links\": [ 5, ", "machine.links[0]: must be an object", 4 },
	{ "\"gb_per_s\": 1", "\"gb_per_s\": 0", "machine.links[0].gb_per_s: 0 is not within", 4 },
	{ ", \"gb_per_s\": 1", "", "gb_per_s: is missing: give a number", 4 },
	{ "\"latency_us\": 1", "\"latency_us\": -1", "latency_us: -1 is not within", 4 },
	{ "\"duplex\": true", "\"duplex\": 1", "duplex: must be true or false", 4 },
	{ "\"count\": 2, \"gb", "\"count\": 2000, \"gb", "links[0].count: 2000 is not within 1 to 1024", 4 },
	{ "\"d\", \"count\": 2, \"kind\"", "\"spread\", \"kind\"", "devices[0].name: \"spread\" is what a pin says for all devices in turn: give", 5 },
	{ "\"count\": 2, \"kind\"", "\"count\": 0, \"kind\"", "devices[0].count: 0 is not within", 5 },
	{ "\"link\": \"l\"", "\"link\": \"m\"", "link: no link is named 'm': add it", 5 },
	{ "\"link\": \"l\", \"per_link\": 1, ", "", "memory_gb: a device without a link", 5 },
	{ "\"per_link\": 1", "\"per_link\": 0", "per_link: 0 is not within", 5 },
	{ "\"count\": 2, \"kind\"", "\"count\": 3, \"kind\"", "3 devices need more than the 2 links", 5 },
	{ "\"memory_gb\": 1, ", "", "memory_gb: is missing", 5 },
	{ "\"memory_gb\": 1, ", "\"memory_gb\": 1, \"peers\": 1, ", "peers: must be true or false", 5 },
	{ "\"link\": \"l\", \"per_link\": 1, \"memory_gb\": 1", "\"peers\": true", "peers: a device without a link", 5 },
	{ "\"lanes\": 1", "\"lanes\": 65", "lanes: 65 is not within 1 to 64", 5 },
	{ "[ 9 ]", "[ -9 ]", "lost_at_ms: element 0 is no number", 5 },
	{ "[ 9 ]", "[ 1, 2, 3 ]", "lost_at_ms: must be an array of 1 to 2", 5 },
	{ "\"kind\": \"d\"", "\"kind\": \"e\"", "kernels[0].cost.d: no device is of this kind", 6 },
	{ "\"base_us\": 1, \"ns_per_item\": 1", "\"base_us\": 0", "takes no time", 6 },
	{ "\"demand\": 1", "\"demand\": 0", "demand: 0 is not within 0.001 to 1", 6 },
	{ "\"demand\": 1", "\"speed\": 1", "cost.d.speed: no such key", 6 },
	{ "{ \"d\": { \"base_us\": 1, \"ns_per_item\": 1, \"demand\": 1 } }", "{ }", "kernels[0].cost: must be an object with", 6 },
	{ "\"weight\": 5", "\"weight\": 0", "tenants[0].weight: 0 is not within 1 to 10000", 7 },
	{ "\"weight\": 5 }", "\"weight\": 5 }, { \"name\": \"t\" }", "tenants[1].name: 't' is here twice", 7 },
	{ "{ \"name\": \"t\"", "{ \"name\": \"t2\" }, { \"name\": \"t\", \"count\": 3 }, { \"name\": \"x\"",
	  "tenants[1].name: 't2' is here twice: give", 7 },
	{ "{ \"name\": \"l\"", "{ \"name\": \"l1\", \"gb_per_s\": 1 }, { \"name\": \"l\"",
	  "machine.links[1].name: 'l1' is here twice: give", 4 },
	{ "{ \"name\": \"d\", \"count\"", "{ \"name\": \"d0\" }, { \"name\": \"d\", \"count\"",
	  "machine.devices[1].name: 'd0' is here twice: give", 5 },
	{ "\"type\": \"layered\"", "\"type\": \"lay\"", "type: 'lay' is none: give layered", 9 },
	{ "\"type\": \"layered\"", "\"type\": \"cholesky\"", "layers: no such key", 10 },
	{ "\"tenant\": \"t\"", "\"tenant\": \"x\"", "tenant: 'x' is none: add it", 9 },
	{ "\"apps\": 1", "\"apps\": 0", "apps: 0 is not within", 9 },
	{ "\"apps\": 1", "\"priority\": 20", "priority: 20 is not within -20 to 19", 9 },
	{ "\"apps\": 1", "\"priority\": 1.5", "priority: must be a whole number from -20 to 19", 9 },
	{ "\"apps\": 1", "\"priority\": \"high\"", "priority: 'high' is none: give a number", 9 },
	{ "\"apps\": 1", "\"buffers\": \"lazy\"", "buffers: must be \"explicit\"", 9 },
	{ "\"arrive_ms\": 0", "\"arrive_ms\": -1", "arrive_ms: -1 is not within", 9 },
	{ "\"every_ms\": 0", "\"every_ms\": -1", "every_ms: -1 is not within", 9 },
	{ "\"regular\"", "\"odd\"", "arrival: must be \"regular\" or", 9 },
	{ "\"window\": 8", "\"window\": 0", "window: 0 is not within 1 to 65536", 9 },
	{ "\"d1\"", "\"d2\"", "pin: 'd2' is no device", 9 },
	{ "\"layers\": 2, ", "", "layers: is missing", 9 },
	{ "\"width\": 2, \"fan_in\"", "\"width\": 0, \"fan_in\"", "width: 0 is not within", 10 },
	{ "\"fan_in\": 1", "\"fan_in\": 32", "fan_in: 32 is not within 0 to 31", 10 },
	{ "\"kernels\": [ \"k\" ], \"work\": [", "\"kernels\": [ \"z\" ], \"work\": [", "kernels: element 0 is not the name", 10 },
	{ "[ 1, 2 ]", "[ 2, 1 ]", "work: must be a whole number of work items", 10 },
	{ "\"mb\": 1 ", "\"mb\": 0 ", "workload[0].mb: 0 is not within", 10 },
	{ "\"length\": 2", "\"length\": 0", "workload[1].length: 0 is not within", 11 },
	{ "\"length\": 2", "\"length\": 16777216", "there are more than 16777216 tasks", 11 },
	{ "\"type\": \"streams\", \"width\": 2, \"length\": 2, \"kernels\": [ \"k\" ], \"work\": 7, \"mb\": 2",
	  "\"type\": \"lu\", \"tiles\": 2, \"tile\": 4", "lu needs the kernel 'getrf': add it", 11 },
	{ "\"type\": \"streams\", \"width\": 2, \"length\": 2, \"kernels\": [ \"k\" ], \"work\": 7, \"mb\": 2",
	  "\"type\": \"trace\", \"file\": \"/nonexistent\"", "/nonexistent: No such file", 11 },
	{ "\"type\": \"streams\", \"width\": 2, \"length\": 2, \"kernels\": [ \"k\" ], \"work\": 7, \"mb\": 2",
	  "\"type\": \"img\", \"n\": 4294967296", "n: 4294967296 is not within 100 to 1048576", 11 },
	{ "\"type\": \"streams\", \"width\": 2, \"length\": 2, \"kernels\": [ \"k\" ], \"work\": 7, \"mb\": 2",
	  "\"type\": \"dl\", \"n\": 1048577", "n: 1048577 is not within 100 to 1048576", 11 },
	{ "\"seed\": 1", "\"\\u001b[2J\": 1", " ?[2J: no such key", 1 },
	{ "\"seed\": 1", "\"seed\": \033[2J", "?", 2 },
	{ "\"seed\": 1", "\"\\u009b2J\": 1", " ??2J: no such key", 1 },
	{ "\"seed\": 1", "\"\xc2\x9b\x32J\xc3\xb6\": 1", " ??2J\xc3\xb6: no such key", 2 },
	{ "\"seed\": 1", "\"seed\": 1, \"seed\": 2", "duplicate", 2 },
	{ "\"seed\": 1", "\"seed\" 1", "':' expected", 2 },
};

/* @good with the first @from replaced. */
static char *change(const char *from, const char *to)
{
	const char *at = strstr(good, from);
	char *text = malloc(sizeof(good) + strlen(to));

	ck_assert_ptr_nonnull(at);
	sprintf(text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
	return text;
}

START_TEST(refuses)
{
	char *text = change(bad[_i].from, bad[_i].to), where[32];
	int err;

	error[0] = '\0';
	err = scenario_load(&sc, "bad.json", text, strlen(text), NULL, error, sizeof(error));
	ck_assert_int_lt(err, 0);
	snprintf(where, sizeof(where), "bad.json:%d: ", bad[_i].line);
	ck_assert_msg(!strpbrk(error, "\033\n\x9b"), "%s", error);
	ck_assert_msg(strstr(error, bad[_i].says), "\"%s\" does not say \"%s\"", error, bad[_i].says);
	ck_assert_msg(!strncmp(error, where, strlen(where)), "%s is not in line %d", error,
		      bad[_i].line);
	free(text);
}
END_TEST

/* Names that only begin alike. */
START_TEST(takes_names_that_differ)
{
	char *text = change("{ \"name\": \"t\"", "{ \"name\": \"t3\" }, { \"name\": \"t-1\" }, { \"name\": \"t01\" }, { \"name\": \"t\" }, { \"name\": \"t\", \"count\": 3 }, { \"name\": \"x\"");

	load(text);
	ck_assert_uint_eq(sc.nr_tenants, 8);
	scenario_fini(&sc);
	free(text);
}
END_TEST

/* A name is found without a look at the others: else it would take a quarter of a minute. */
START_TEST(takes_many_for_many)
{
	const uint32_t nr = 65536;
	size_t size = 512 + nr * 128ul, n;
	char *text = malloc(size);

	ck_assert_ptr_nonnull(text);
	n = (size_t)snprintf(text, size,
			     "{ \"machine\": { \"devices\": [ { \"name\": \"d\" } ] }, \"tenants\": [ { \"name\": \"t\", \"count\": %u } ], \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 1 } } } ], \"workload\": [", nr);
	for (uint32_t i = 0; i < nr; i++)
		n += (size_t)snprintf(text + n, size - n,
				      "%c{\"type\":\"streams\",\"tenant\":\"t%u\",\"width\":1,\"length\":1,\"kernels\":[\"k\"],\"work\":1,\"mb\":1}",
				      i ? ',' : ' ', i);
	snprintf(text + n, size - n, "]}");
	load(text);
	ck_assert_uint_eq(sc.work.nr, nr);
	for (uint32_t i = 0; i < nr; i++)
		ck_assert_uint_eq(sc.work.apps[i].tenant, i);
	scenario_fini(&sc);
	free(text);
}
END_TEST

/* An entry's name stands for what was made of it; what another one calls so is the other's. */
START_TEST(a_name_is_of_its_entry_alone)
{
	static const char machine[] =
		"{ \"machine\": { \"links\": [ { \"name\": \"pcie\", \"count\": 2, \"gb_per_s\": 12 }, { \"name\": \"pcie2\", \"gb_per_s\": 1 } ],\n"
		"  \"devices\": [ { \"name\": \"g\", \"count\": 3, \"link\": \"pcie\", \"memory_gb\": 1 }, { \"name\": \"h\", \"link\": \"pcie2\", \"memory_gb\": 1 } ] },\n"
		"  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"g\": { \"base_us\": 1 } } } ],\n"
		"  \"tenants\": [ { \"name\": \"t\", \"count\": 2 }, { \"name\": \"t2\" }, { \"name\": \"u0\" }, { \"name\": \"u1\" } ],\n"
		"  \"workload\": [ { \"tenant\": \"%s\", \"apps\": 3, \"type\": \"streams\", \"width\": 1, \"length\": 1, \"kernels\": [ \"k\" ], \"work\": 1, \"mb\": 1 } ] }";
	char text[sizeof(machine)];

	snprintf(text, sizeof(text), machine, "t");
	load(text);
	ck_assert_uint_eq(sc.devices[0].link, 0);
	ck_assert_uint_eq(sc.devices[1].link, 0);
	ck_assert_uint_eq(sc.devices[2].link, 1);
	ck_assert_uint_eq(sc.devices[3].link, 2);
	ck_assert_uint_eq(sc.work.apps[1].tenant, 1);
	ck_assert_uint_eq(sc.work.apps[2].tenant, 0);
	scenario_fini(&sc);
	/* Two that were never one. */
	snprintf(text, sizeof(text), machine, "u");
	ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error)),
			 -EINVAL);
	ck_assert_msg(strstr(error, "'u' is none"), "%s", error);
}
END_TEST

START_TEST(takes_what_is_right)
{
	load(good);
	ck_assert_uint_eq(sc.nr_devices, 2);
	ck_assert_str_eq(sc.devices[1].name, "d1");
	ck_assert_uint_eq(sc.devices[1].link, 1);
	ck_assert_uint_eq(sc.devices[0].lost_ns, 9 * MS);
	ck_assert_uint_eq(sc.devices[1].lost_ns, UINT64_MAX);
	ck_assert_uint_eq(sc.work.nr, 2);
	ck_assert_uint_eq(sc.work.apps[0].pin, 1);
	ck_assert_uint_eq(sc.work.apps[1].nr_tasks, 4);
	ck_assert_uint_eq(sc.work.apps[1].tasks[0].footprint, 2000000);
	scenario_fini(&sc);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
/* As many tasks as there may be have more ranges than that; the memory is never touched. */
START_TEST(tasks_may_have_all_their_ranges)
{
	uint32_t nr = 2 * SIM_MAX_TASKS;
	struct sim_app a = {
		.ranges = malloc(nr * sizeof(*a.ranges)), .nr_ranges = nr, .size_ranges = nr,
	};

	ck_assert_ptr_nonnull(a.ranges);
	app_buffer(&a, 8);
	app_task(&a, 0, 1);
	app_whole(&a, 0, ARAX_IN);
	ck_assert(!a.failed);
	ck_assert_uint_eq(a.tasks[0].first_range, nr);
	ck_assert_uint_eq(a.ranges[nr].length, 8);
	app_fini(&a);
}
END_TEST
#endif

START_TEST(factorisations_have_their_tasks)
{
	static const char head[] =
		"{ \"machine\": { \"devices\": [ { \"name\": \"d\" } ] }, \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [";
	static const char *const names[] = { "potrf", "trsm", "syrk", "gemm", "getrf" };
	char text[2048];

	strcpy(text, head);
	for (int i = 0; i < 5; i++)
		sprintf(text + strlen(text), "%s{ \"name\": \"%s\", \"cost\": { \"d\": { \"base_us\": 1 } } }",
			i ? "," : "", names[i]);
	strcat(text, "], \"workload\": [ { \"type\": \"cholesky\", \"tiles\": 6, \"tile\": 8 }, { \"type\": \"lu\", \"tiles\": 6, \"tile\": 8 } ] }");
	load(text);
	/* n + n(n-1)/2 + n(n-1)/2 + n(n-1)(n-2)/6; n + n(n-1) + (n-1)n(2n-1)/6 */
	ck_assert_uint_eq(sc.work.apps[0].nr_tasks, 6 + 15 + 15 + 20);
	ck_assert_uint_eq(sc.work.apps[1].nr_tasks, 6 + 30 + 55);
	scenario_fini(&sc);
}
END_TEST

/* A factorisation on a quick device and eight that take 2 to 29 times as long. */
START_TEST(who_is_slow_helps)
{
	static const char text[] =
		"{ \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 12 } ], \"devices\": [\n"
		"   { \"name\": \"g\", \"lanes\": 2, \"link\": \"l\", \"memory_gb\": 64 },\n"
		"   { \"name\": \"c\", \"count\": 8, \"lanes\": 1 } ] }, \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [\n"
		"  { \"name\": \"potrf\", \"cost\": { \"g\": { \"base_us\": 14000 }, \"c\": { \"base_us\": 28000 } } },\n"
		"  { \"name\": \"trsm\", \"cost\": { \"g\": { \"base_us\": 7500 }, \"c\": { \"base_us\": 83000 } } },\n"
		"  { \"name\": \"syrk\", \"cost\": { \"g\": { \"base_us\": 3200 }, \"c\": { \"base_us\": 83000 } } },\n"
		"  { \"name\": \"gemm\", \"cost\": { \"g\": { \"base_us\": 5700 }, \"c\": { \"base_us\": 165000 } } } ],\n"
		" \"workload\": [ { \"type\": \"cholesky\", \"tiles\": 24, \"tile\": 960, \"window\": 4096 } ] }";
	struct sim_bound bound;
	uint64_t slow = 0;

	load(text);
	run_watched(NULL, NULL);
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	ck_assert_double_le((double)result.makespan_ns, 1.05 * (double)sim_bound_best(&bound, NULL));
	for (uint32_t i = 1; i < sc.nr_devices; i++)
		slow += result.devices[i].tasks;
	ck_assert_uint_ge(slow, result.completed / 5);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/*
 * 120 tasks of a Cholesky: one after the other, each where it ends first, takes 1.5 times the bound.  Run
 * times that are not as expected, or a core that is lost, cost some of what a plan gains.
 */
START_TEST(a_program_is_planned_as_a_whole)
{
	static const char form[] =
		"{ \"jitter\": %g, \"machine\": { \"links\": [ { \"name\": \"l\", \"gb_per_s\": 12, \"latency_us\": 10 } ], \"devices\": [\n"
		"   { \"name\": \"g\", \"lanes\": 3, \"link\": \"l\", \"memory_gb\": 12 },\n"
		"   { \"name\": \"c\", \"count\": 8, \"lanes\": 1 %s } ] }, \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [\n"
		"  { \"name\": \"potrf\", \"cost\": { \"g\": { \"base_us\": 4286 }, \"c\": { \"base_us\": 7373 } } },\n"
		"  { \"name\": \"trsm\", \"cost\": { \"g\": { \"base_us\": 2537 }, \"c\": { \"base_us\": 22118 } } },\n"
		"  { \"name\": \"syrk\", \"cost\": { \"g\": { \"base_us\": 820 }, \"c\": { \"base_us\": 22118 } } },\n"
		"  { \"name\": \"gemm\", \"cost\": { \"g\": { \"base_us\": 1536 }, \"c\": { \"base_us\": 44237 } } } ],\n"
		" \"workload\": [ { \"type\": \"cholesky\", \"tiles\": 8, \"tile\": 960, \"window\": 4096 } %s ] }";
	static const struct {
		double jitter, most;
		const char *lost, *more;
	} cases[] = {
		{ 0, 1.26, "", "" },
		{ 0.15, 1.5, "", "" },
		{ 0, 1.45, ", \"lost_at_ms\": [ 30 ]", "" },
		/* It is not alone from 20 ms on. */
		{ 0, 1.5, "", ", { \"type\": \"streams\", \"arrive_ms\": 20, \"width\": 1, \"length\": 5, \"kernels\": [ \"gemm\" ], \"work\": 1, \"mb\": 1 }" },
	};
	struct sim_bound bound;
	char text[4096];

	snprintf(text, sizeof(text), form, cases[_i].jitter, cases[_i].lost, cases[_i].more);
	load(text);
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.completed, result.submitted);
	ck_assert_int_eq(sim_bound(&sc, &bound, error, sizeof(error)), 0);
	ck_assert_double_le((double)result.makespan_ns,
			    cases[_i].most * (double)sim_bound_best(&bound, NULL));
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

/*
 * What 2,000 short tasks wait for runs for 100 ms, and six are ready of which a slow device takes
 * 500 ms for one.  What is to come is short, so these are not left to it.
 */
/* Chains of tasks of 0.1 to 1 ms on two quick devices and @cores that are @slow times slower. */
static uint64_t chains(int cores, int slow, int window, uint64_t seed)
{
	static char text[2048];
	char more[256] = "", cost[64] = "";
	uint64_t ns;

	if (cores) {
		snprintf(more, sizeof(more), ", { \"name\": \"c\", \"count\": %d, \"lanes\": 1 }", cores);
		snprintf(cost, sizeof(cost), ", \"c\": { \"base_us\": 5, \"ns_per_item\": %d }", slow);
	}
	snprintf(text, sizeof(text),
		 "{ \"models\": \"warm\", \"machine\": {"
		 "    \"links\": [ { \"name\": \"l\", \"count\": 2, \"gb_per_s\": 12, \"latency_us\": 10 } ],"
		 "    \"devices\": [ { \"name\": \"d\", \"count\": 2, \"link\": \"l\", \"per_link\": 1,"
		 "      \"memory_gb\": 8, \"lanes\": 1 }%s ] },"
		 "  \"kernels\": [ { \"name\": \"k\", \"cost\": { \"d\": { \"base_us\": 5, \"ns_per_item\": 1 }%s } } ],"
		 "  \"tenants\": [ { \"name\": \"t\" } ],"
		 "  \"workload\": [ { \"type\": \"streams\", \"width\": 16, \"length\": 40, \"kernels\": [ \"k\" ],"
		 "    \"work\": [ 100000, 1000000 ], \"mb\": 0.001, \"window\": %d } ] }", more, cost, window);
	ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), &seed, error,
				       sizeof(error)), 0);
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.completed, result.submitted);
	ns = result.makespan_ns;
	sim_result_fini(&result);
	scenario_fini(&sc);
	return ns;
}

/* A program that shows all of itself is done no later for it, nor for devices that are slow. */
START_TEST(a_plan_knows_sizes)
{
	static const int slow[] = { 5, 20, 50 };

	for (uint64_t seed = 1; seed <= 3; seed++) {
		double all = (double)chains(4, slow[_i], 1000, seed);

		ck_assert_double_le(all, 1.02 * (double)chains(4, slow[_i], 64, seed));
		ck_assert_double_le(all, 1.02 * (double)chains(0, 0, 1000, seed));
	}
}
END_TEST

START_TEST(what_is_to_come_is_not_like_what_is_ready)
{
	static char trace[2048 * 128], text[1024];
	size_t len = (size_t)sprintf(trace, "{ \"kernel\": \"r\", \"work\": 1, \"ranges\": [ [ \"r\", 0, 8, \"out\" ] ] }\n");
	char path[32];

	for (int i = 0; i < 2006; i++)
		len += (size_t)sprintf(trace + len,
				       "{ \"kernel\": \"%s\", \"work\": 1, \"ranges\": [ %s[ \"b%d\", 0, 8, \"out\" ] ] }\n",
				       i < 2000 ? "short" : "big",
				       i < 2000 ? "[ \"r\", 0, 8, \"in\" ], " : "", i);
	trace_of(trace, path);
	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"devices\": [ { \"name\": \"g\", \"lanes\": 1 }, { \"name\": \"c\", \"lanes\": 1, \"count\": 4 } ] },\n"
		 " \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [\n"
		 "  { \"name\": \"r\", \"cost\": { \"g\": { \"base_us\": 100000 } } },\n"
		 "  { \"name\": \"short\", \"cost\": { \"g\": { \"base_us\": 10 }, \"c\": { \"base_us\": 200 } } },\n"
		 "  { \"name\": \"big\", \"cost\": { \"g\": { \"base_us\": 10000 }, \"c\": { \"base_us\": 500000 } } } ],\n"
		 " \"workload\": [ { \"type\": \"trace\", \"file\": \"%s\", \"window\": 4096 } ] }", path);
	/* On the quick one alone 180 ms. */
	ck_assert_uint_le(makespan(text), 180 * MS);
	unlink(path);
}
END_TEST

/*
 * 200 tasks that only the quick device can run, the last of which makes two of 10 ms ready, that a
 * slow one takes 30 ms for: when they are, nothing else is left.
 */
START_TEST(what_only_one_can_run_is_done_as_well)
{
	static char trace[256 * 128], text[1024];
	char path[32];
	size_t len = 0;

	for (int i = 0; i < 214; i++)
		len += (size_t)sprintf(trace + len,
				       "{ \"kernel\": \"%s\", \"work\": 1, \"ranges\": [ %s[ \"x%d\", 0, 8, \"out\" ] ] }\n",
				       i < 12 ? "c" : i < 212 ? "g" : "b",
				       i < 212 ? "" : "[ \"x211\", 0, 8, \"in\" ], ", i);
	trace_of(trace, path);
	snprintf(text, sizeof(text),
		 "{ \"machine\": { \"devices\": [ { \"name\": \"g\", \"lanes\": 1 }, { \"name\": \"c\", \"lanes\": 1, \"count\": 4 } ] },\n"
		 " \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [\n"
		 "  { \"name\": \"c\", \"cost\": { \"g\": { \"base_us\": 1000 }, \"c\": { \"base_us\": 15000 } } },\n"
		 "  { \"name\": \"g\", \"cost\": { \"g\": { \"base_us\": 100 } } },\n"
		 "  { \"name\": \"b\", \"cost\": { \"g\": { \"base_us\": 10000 }, \"c\": { \"base_us\": 30000 } } } ],\n"
		 " \"workload\": [ { \"type\": \"trace\", \"file\": \"%s\", \"window\": 4096 } ] }", path);
	/* On the quick one alone 52 ms. */
	ck_assert_uint_le(makespan(text), 52 * MS);
	unlink(path);
}
END_TEST

/* Where run times are known beforehand nothing is run to find them out. */
START_TEST(what_is_known_is_not_tried)
{
	load("{ \"machine\": { \"devices\": [ { \"name\": \"g\" }, { \"name\": \"c\" } ] },\n"
	     " \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [\n"
	     "  { \"name\": \"k\", \"cost\": { \"g\": { \"base_us\": 2000 }, \"c\": { \"base_us\": 10000 } } } ],\n"
	     " \"workload\": [ " STREAM(1, 1000, 1, "") " ] }");
	run_watched(NULL, NULL);
	ck_assert_uint_eq(result.devices[1].tasks, 0);
	sim_result_fini(&result);
	scenario_fini(&sc);
}
END_TEST

static int priority_of(const char *more, uint32_t task)
{
	int priority;

	load(tiled("cholesky", 6, more));
	priority = sc.work.apps[0].priority + sc.work.apps[0].tasks[task].priority;
	scenario_fini(&sc);
	return priority;
}

START_TEST(long_ways_go_first)
{
	const struct sim_app *a;

	load(tiled("cholesky", 6, ""));
	a = &sc.work.apps[0];
	/* potrf, trsm of the next row; syrk there, then the other rows. */
	ck_assert_int_eq(a->tasks[0].priority, -20);
	ck_assert_int_eq(a->tasks[a->nr_tasks - 1].priority, 17);
	ck_assert_int_lt(a->tasks[0].priority, a->tasks[1].priority);
	ck_assert_int_lt(a->tasks[1].priority, a->tasks[6].priority);
	for (uint32_t i = 1; i < a->nr_tasks; i++)
		ck_assert_int_ge(a->tasks[i].priority, -20);
	scenario_fini(&sc);
	ck_assert_int_eq(priority_of(", \"priority\": \"path\"", 0), -20);
	ck_assert_int_eq(priority_of(", \"priority\": 3", 0), 3);
	ck_assert_int_eq(priority_of(", \"priority\": 3", 20), 3);
	/* Others have none of their own, unless asked. */
	load(simple("", "{ \"name\": \"d\" }", 1, STREAM(2, 5, 1, "")));
	ck_assert_int_eq(sc.work.apps[0].tasks[0].priority, 0);
	scenario_fini(&sc);
	load(simple("", "{ \"name\": \"d\" }", 1, STREAM(2, 5, 1, ", \"priority\": \"path\"")));
	ck_assert_int_eq(sc.work.apps[0].tasks[0].priority, -20);
	ck_assert_int_eq(sc.work.apps[0].tasks[9].priority, 11);
	scenario_fini(&sc);
}
END_TEST

static const struct {
	const char *line, *says;
} lines[] = {
	{ "{ \"kernel\": \"k\", \"work\": 5, \"submit_us\": 1, \"ranges\": [ [ \"a\", 0, 5, \"in\" ], [ 7, 1, 2, \"out\" ] ] }", NULL },
	{ "{ \"kernel\": \"host\", \"sync\": true, \"ranges\": [ ] }", NULL },
	{ "{ \"kernel\": \"z\", \"ranges\": [ ] }", "t:3: kernel: 'z' has no cost" },
	{ "{ \"kernel\": \"k\" }", "t:3: ranges: is missing" },
	{ "{ \"kernel\": \"k\", \"ranges\": [ [ \"a\", 0, 5 ] ] }", "a range is [buffer" },
	{ "{ \"kernel\": \"k\", \"ranges\": [ [ \"a\", 0, 5, \"read\" ] ] }", "a range is [buffer" },
	{ "{ \"kernel\": \"k\", \"ranges\": [ [ \"a\", \"4k\", 5, \"in\" ] ] }", "a range is [buffer" },
	{ "{ \"kernel\": \"k\", \"ranges\": [ [ \"a\", 0, 5.0, \"in\" ] ] }", "a range is [buffer" },
	{ "{ \"kernel\": \"k\", \"ranges\": [ [ \"a\", -1, 5, \"in\" ] ] }", "offset and length" },
	{ "{ \"kernel\": \"k\", \"ranges\": [ [ \"a\", 0, 0, \"in\" ] ] }", "offset and length" },
	{ "{ \"kernel\": \"k\", \"ranges\": [ [ 1.5, 0, 1, \"in\" ] ] }", "begins with its buffer" },
	{ "{ \"kernel\": \"k\", \"work\": 0, \"ranges\": [ ] }", "work: 0 is not within" },
	{ "{ \"kernel\": \"k\", \"sync\": 1, \"ranges\": [ ] }", "sync: must be true" },
	{ "{ \"kernel\": \"k\", \"rages\": [ ] }", "rages: no such key" },
	{ "[", "t:3: column" },
};

START_TEST(reads_traces)
{
	struct sim_app a = { 0 };
	json_t *buffers = json_object();
	int err;

	load(good);
	error[0] = '\0';
	err = trace_line(&sc, &a, buffers, "t", 3, lines[_i].line, strlen(lines[_i].line), error,
			 sizeof(error));
	if (lines[_i].says) {
		ck_assert_int_lt(err, 0);
		ck_assert_msg(strstr(error, lines[_i].says), "%s", error);
	} else {
		ck_assert_msg(!err, "%s", error);
		ck_assert_uint_eq(a.nr_tasks, 1);
		ck_assert(app_done(&a));
	}
	if (!_i) {
		ck_assert_uint_eq(a.nr_buffers, 2);
		ck_assert_uint_eq(a.buffers[0], 5);
		ck_assert_uint_eq(a.buffers[1], 3);
		ck_assert_uint_eq(a.tasks[0].footprint, 8);
		ck_assert_uint_eq(a.tasks[0].after_ns, 1000);
	}
	app_fini(&a);
	json_decref(buffers);
	scenario_fini(&sc);
}
END_TEST

/* Counted when the first of the programs has been read, and not when memory is gone. */
START_TEST(tasks_of_traces_count)
{
	char trace[20 * sizeof("{\"kernel\": \"k\", \"ranges\": []}\n")] = "", path[64], work[512];
	const char *text;
	int err;

	for (int i = 0; i < 20; i++)
		strcat(trace, "{\"kernel\": \"k\", \"ranges\": []}\n");
	snprintf(work, sizeof(work), "%s", trace_of(trace, path));
	strcpy(strrchr(work, '}'), ", \"apps\": 1048576 }");
	text = simple("", "{ \"name\": \"d\" }", 1, work);
	error[0] = '\0';
	err = scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error));
	unlink(path);
	ck_assert_int_eq(err, -E2BIG);
	ck_assert_msg(strstr(error, "there are more than 16777216 tasks in all"), "%s", error);
}
END_TEST

/* What is no trace is not read until memory is gone. */
START_TEST(lines_of_traces_have_an_end)
{
	const size_t most = 65536;
	char *line = malloc(most + 2), path[64];
	static const char task[] = "{ \"kernel\": \"k\", \"ranges\": [] }";
	const char *text;

	ck_assert_ptr_nonnull(line);
	for (size_t more = 0; more < 2; more++) {
		memset(line, ' ', most + more);
		memcpy(line, task, sizeof(task) - 1);
		line[most + more] = '\0';
		text = simple("", "{ \"name\": \"d\" }", 1, trace_of(line, path));
		error[0] = '\0';
		ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), NULL, error,
					       sizeof(error)), more ? -E2BIG : 0);
		unlink(path);
		scenario_fini(&sc);
	}
	ck_assert_msg(strstr(error, ":1: a line has more than 65536 bytes"), "%s", error);
	free(line);
	text = simple("", "{ \"name\": \"d\" }", 1, "{ \"type\": \"trace\", \"file\": \"/tmp\" }");
	ck_assert_int_eq(scenario_load(&sc, "test.json", text, strlen(text), NULL, error, sizeof(error)),
			 -EISDIR);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, events_come_in_their_order);
	tcase_add_test(t, a_full_capacity_is_shared);
	tcase_add_test(t, small_demands_disturb_nobody);
	tcase_add_test(t, residency_is_exact);
	tcase_add_test(t, residency_of_many_pieces_is_quick);
	tcase_add_test(t, units_are_exact);
	tcase_add_test(t, kernels_share_a_device);
	tcase_add_test(t, the_urgent_one_begins_first);
	tcase_add_test(t, priority_passes_no_other_program);
	tcase_add_test(t, the_urgent_ones_have_no_more_turns);
	tcase_add_test(t, copies_overlap_kernels);
	tcase_add_test(t, devices_share_a_link);
	tcase_add_test(t, bytes_between_devices_go_by_the_host);
	tcase_add_test(t, what_ranges_share_comes_once);
	tcase_add_test(t, peers_copy_from_each_other);
	tcase_add_test(t, inputs_come_ahead);
	tcase_add_test(t, who_is_needed_last_goes);
	tcase_add_test(t, memory_is_never_passed);
	tcase_add_test(t, targets_are_met_where_they_can_be);
	tcase_add_test(t, policies_follow_the_data);
	tcase_add_test(t, the_best_way_is_not_the_worst);
	tcase_add_test(t, who_has_left_counts_no_more);
	tcase_add_test(t, eft_bears_comparison_with_static);
	tcase_add_loop_test(t, eft_on_the_examples, 0, 4);
	tcase_add_loop_test(t, every_task_ends_once, 0, 4 * POLICIES);
	tcase_add_loop_test(t, a_seed_is_a_run, 0, POLICIES);
	tcase_add_test(t, a_seed_is_a_run_on_many_devices);
	tcase_add_loop_test(t, failures_are_counted, 0, 3 * POLICIES);
	tcase_add_test(t, failures_are_no_run_times);
	tcase_add_test(t, programs_have_no_more_than_they_need);
	tcase_add_test(t, shares_count_what_runs);
	tcase_add_test(t, what_only_a_lost_device_had_is_lost);
	tcase_add_test(t, many_programs_of_a_tenant_are_quick);
	tcase_add_test(t, who_copies_from_a_lost_device_is_told);
	tcase_add_loop_test(t, time_has_an_end, 0, sizeof(endless) / sizeof(endless[0]));
	tcase_add_test(t, nowhere_to_run_is_said);
	tcase_add_test(t, bounds_are_right);
	tcase_add_test(t, bounds_are_the_linear_programs);
	tcase_add_test(t, narrow_ends_count);
	tcase_add_loop_test(t, nothing_beats_its_bound, 0, POLICIES);
	tcase_add_test(t, takes_names_that_differ);
	tcase_add_test(t, takes_many_for_many);
	tcase_add_test(t, a_name_is_of_its_entry_alone);
	tcase_add_test(t, takes_what_is_right);
	tcase_add_loop_test(t, refuses, 0, sizeof(bad) / sizeof(bad[0]));
#ifndef __SANITIZE_ADDRESS__
	tcase_add_test(t, tasks_may_have_all_their_ranges);
#endif
	tcase_add_test(t, factorisations_have_their_tasks);
	tcase_add_test(t, long_ways_go_first);
	tcase_add_test(t, who_is_slow_helps);
	tcase_add_loop_test(t, a_program_is_planned_as_a_whole, 0, 4);
	tcase_add_test(t, what_is_known_is_not_tried);
	tcase_add_test(t, what_only_one_can_run_is_done_as_well);
	tcase_add_loop_test(t, a_plan_knows_sizes, 0, 3);
	tcase_add_test(t, what_is_to_come_is_not_like_what_is_ready);
	tcase_add_test(t, tasks_of_traces_count);
	tcase_add_test(t, lines_of_traces_have_an_end);
	tcase_add_loop_test(t, reads_traces, 0, sizeof(lines) / sizeof(lines[0]));
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
