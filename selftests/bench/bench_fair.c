// SPDX-License-Identifier: MIT
/*
 * fair: what part of one device's time tenants, and programs of one tenant, get
 *
 * Each program is a process that keeps far more tasks queued than are run meanwhile.  A task
 * says when it began, its completion how long it had the device; so what everybody had in any
 * window of time is known exactly, with the parts of tasks that lie in it.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "clock.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "tenant.h"

#define PROGRAMS	3
#define QUEUED_MAX	1024	/* tasks of each; of the shortest some 20 ms */
#define QUEUED_NS	(1000 * MS)
#define JUDGED_S	9	/* below that windows are too short to judge them */
#define LEAST_S		0.4	/* for each case, however short the whole */
#define LONGEST_S	20	/* and however long it is: a log then has room for all tasks */
#define BATCH		8
#define RUNS_MAX	(1u << 20)	/* of 20 us and longer */
#define MS		1000000ull
#define US		1000ull
#define WINDOW_TASKS	100	/* of the longest */
#define PERIOD_NS	(100 * MS)
#define MAX_NS		(20 * MS)

/* A task: when it began, how long it had the device. */
struct run {
	uint64_t start;
	uint64_t ns;
};

/* What a program left; in memory that it shares with the bench. */
struct log {
	uint64_t nr;
	struct run runs[RUNS_MAX];
};

/**
 * struct program - a process that sends tasks
 * @tenant:	of tenant_sibling()
 * @ns:		length of its tasks
 * @begin, @end: when it sends; CLOCK_MONOTONIC
 */
struct program {
	const char *link;
	int tenant;
	uint64_t ns;
	uint64_t begin, end;
	struct log *log;
	pid_t pid;
};

/* ------------------------------------------------------------------ */
/* A program                                                           */

struct tasks {
	struct arax_desc desc[QUEUED_MAX];
	struct arax_event event[QUEUED_MAX];
	struct arax_range range[QUEUED_MAX];
	int nr;
	uint64_t ns;
	uint64_t *start;	/* of each, in a buffer */
};

static void make_tasks(struct tasks *t, struct session *s, struct arax_kernel *kernel, uint64_t ns)
{
	struct arax_buffer *b;
	int i;

	t->nr = QUEUED_MAX;
	while ((uint64_t)t->nr * ns > QUEUED_NS && t->nr > 2 * BATCH)
		t->nr /= 2;
	if (arax_buffer_create(s->ax, (size_t)t->nr * sizeof(uint64_t), 0, &b))
		bench_fail("a buffer: %s", arax_error_text());
	t->start = arax_buffer_data(b);
	t->ns = ns;
	for (i = 0; i < t->nr; i++) {
		t->range[i] = arax_part(b, ARAX_OUT, (uint64_t)i * sizeof(uint64_t),
					sizeof(uint64_t));
		t->desc[i].opcode = ARAX_OP_LAUNCH;
		t->desc[i].kernel = kernel;
		t->desc[i].grid = arax_grid(1, 1, 1);
		t->desc[i].args = &t->ns;
		t->desc[i].arg_len = sizeof(t->ns);
		t->desc[i].ranges = &t->range[i];
		t->desc[i].nr_ranges = 1;
		t->desc[i].event = &t->event[i];
	}
}

static void submit(struct session *s, struct tasks *t, int first)
{
	memset(&t->start[first], 0, BATCH * sizeof(*t->start));
	if (arax_submit(s->queue, &t->desc[first], BATCH, 0) != BATCH)
		bench_fail("submitting: %s", arax_error_text());
}

static void note(const struct tasks *t, int i, struct log *log)
{
	if (!t->start[i])
		bench_fail("a task did nothing");
	if (log->nr == RUNS_MAX)
		bench_fail("more tasks than there could be");
	log->runs[log->nr++] = (struct run){ t->start[i], t->event[i].device_ns };
}

static void await(struct tasks *t, int first, struct log *log)
{
	int i, err;

	for (i = first; i < first + BATCH; i++) {
		err = arax_wait(&t->event[i], ARAX_DEADLINE_NONE);
		if (err)
			bench_fail("a task: %s", arax_strerror(err));
		note(t, i, log);
	}
}

static void be_program(void *arg)
{
	static struct tasks t;
	struct program *p = arg;
	struct arax_kernel kernel;
	struct session s;
	uint64_t now;
	int at, i;

	tenant_join(p->tenant);
	session_open(&s, p->link);
	session_find(&s, "bench_log", &kernel);
	make_tasks(&t, &s, &kernel, p->ns);
	now = clock_ns();
	if (now < p->begin)
		usleep((useconds_t)((p->begin - now) / 1000));
	for (at = 0; at < t.nr; at += BATCH)
		submit(&s, &t, at);
	for (at = 0; clock_ns() < p->end; at = (at + BATCH) % t.nr) {
		await(&t, at, p->log);
		submit(&s, &t, at);
	}
	/* Of those that are left only what has run: nobody waits for all the giants. */
	for (i = 0; i < t.nr && arax_test(&t.event[at]) == 1; i++, at = (at + 1) % t.nr)
		note(&t, at, p->log);
	_exit(0);
}

static void program_start(struct program *p)
{
	p->log = mmap(NULL, sizeof(*p->log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (p->log == MAP_FAILED)
		bench_fail("mmap: %s", strerror(errno));
	p->pid = child_start(be_program, p);
}

/* What it had of the device in a window of time, ns. */
static double had(const struct program *p, uint64_t from, uint64_t to)
{
	double sum = 0;
	uint64_t i;

	for (i = 0; i < p->log->nr; i++) {
		uint64_t start = p->log->runs[i].start, end = start + p->log->runs[i].ns;

		start = start < from ? from : start;
		end = end > to ? to : end;
		if (start < end)
			sum += (double)(end - start);
	}
	return sum;
}

/* ------------------------------------------------------------------ */
/* Shares                                                              */

/* The part of a run in which all are there, and it is known how long tasks take. */
struct span {
	uint64_t from, to;
};

static struct span steady(uint64_t begin, uint64_t end, uint64_t longest)
{
	uint64_t head = 20 * longest + 100 * MS, tail = 2 * longest + 50 * MS;

	head = head < (end - begin) / 3 ? head : (end - begin) / 3;
	tail = tail < (end - begin) / 6 ? tail : (end - begin) / 6;
	return (struct span){ begin + head, end - tail };
}

static void run_programs(struct program *p, int n)
{
	int i;

	for (i = 0; i < n; i++)
		program_start(&p[i]);
	/* What one was alone for is nobody's part. */
	for (i = 0; i < n; i++) {
		if (child_join(p[i].pid))
			bench_fail("a program failed");
	}
}

static void forget(struct program *p, int n)
{
	while (n--)
		munmap(p[n].log, sizeof(*p[n].log));
}

/* Three tenants of weights 1:2:4, or two programs of one tenant. */
struct share_case {
	const char *name;
	int programs;
	uint64_t ns[PROGRAMS];
	double should[PROGRAMS];
	double seconds;		/* of 20 */
};

static const struct share_case cases[] = {
	{ "1:2:4, tasks alike", 3, { MS, MS, MS }, { 1 / 7., 2 / 7., 4 / 7. }, 2.5 },
	{ "1:2:4, giants of the least", 3, { 10 * MS, MS, 20 * US },
	  { 1 / 7., 2 / 7., 4 / 7. }, 4 },
	{ "1:2:4, giants of the most", 3, { 20 * US, MS, 10 * MS },
	  { 1 / 7., 2 / 7., 4 / 7. }, 4 },
	{ "two programs of a tenant", 2, { 20 * US, 5 * MS }, { .5, .5 }, 3 },
};

#define NR_CASES (sizeof(cases) / sizeof(*cases))

/* Percent of the device's time. */
static double off(const struct program *p, int n, const double *should, uint64_t from,
		  uint64_t to)
{
	double mine[PROGRAMS], sum = 0, worst = 0;
	int i;

	for (i = 0; i < n; i++) {
		mine[i] = had(&p[i], from, to);
		sum += mine[i];
	}
	for (i = 0; i < n; i++) {
		double d = sum ? 100 * fabs(mine[i] / sum - should[i]) : 100;

		worst = fmax(worst, d);
	}
	return worst;
}

static void add_row(json_t *rows, const char *name, const struct program *p, int n,
		    const double *should, uint64_t from, uint64_t to)
{
	double mine[PROGRAMS], sum = 0;
	int i;

	for (i = 0; i < n; i++) {
		mine[i] = had(&p[i], from, to);
		sum += mine[i];
	}
	for (i = 0; i < n; i++)
		json_array_append_new(rows, json_pack("{s:s,s:i,s:f,s:f,s:f,s:i}", "case", name,
						      "program", i + 1,
						      "task_us", (double)p[i].ns / 1e3,
						      "should_percent", 100 * should[i],
						      "got_percent", 100 * mine[i] / sum,
						      "tasks", (int)p[i].log->nr));
}

/* Of a bench that runs for @seconds: what one case of it gets that has @share of 20. */
static uint64_t run_ns(double seconds, double share)
{
	double s = share * seconds / 20;

	return (uint64_t)(fmin(fmax(s, LEAST_S), LONGEST_S) * 1e9);
}

/*
 * Whether it is to be run again, and for longer: somebody had nothing, as the machine was away.
 * Not where @of is judged: that somebody has nothing is what is looked for there.
 */
static bool too_short(struct program *p, int n, struct span s, enum bar_of of, uint64_t *ns)
{
	int i = 0;

	if (of != BAR_NONE)
		return false;
	while (i < n && had(&p[i], s.from, s.to) > 0)
		i++;
	if (i == n || *ns > (uint64_t)LONGEST_S * 1000 * MS / 2)
		return false;
	*ns *= 2;
	forget(p, n);
	return true;
}

static void run_case(json_t *result, json_t *rows, const struct share_case *c, const char *link,
		     const int *tenants, double seconds)
{
	struct part part = { .name = c->name, .unit = "%", .floor = 1, .bar = 1,
			     .of = seconds >= JUDGED_S ? BAR_RATIO : BAR_NONE,
			     .rounds = json_array() };
	uint64_t ns = run_ns(seconds, c->seconds), begin, longest = 0, from, window;
	struct program p[PROGRAMS] = { 0 };
	double worst = 0, sum = 0, d;
	struct span span;
	int i, n = 0;

	do {
		begin = clock_ns() + 50 * MS;
		for (i = 0; i < c->programs; i++) {
			longest = c->ns[i] > longest ? c->ns[i] : longest;
			p[i] = (struct program){ .link = link, .tenant = tenants[i],
						 .ns = c->ns[i], .begin = begin,
						 .end = begin + ns };
		}
		run_programs(p, c->programs);
		span = steady(begin, begin + ns, longest);
	} while (too_short(p, c->programs, span, part.of, &ns));
	window = WINDOW_TASKS * longest;
	if (window > (span.to - span.from) / 2)
		window = (span.to - span.from) / 2;
	for (from = span.from; from + window <= span.to; from += window / 2, n++) {
		d = off(p, c->programs, c->should, from, from + window);
		worst = d > worst ? d : worst;
		sum += d;
		json_array_append_new(part.rounds, json_real(d));
	}
	part.value = worst;
	part.p99 = n ? sum / n : 0;
	result_part(result, &part);
	add_row(rows, c->name, p, c->programs, c->should, span.from, span.to);
	forget(p, c->programs);
}

/* ------------------------------------------------------------------ */
/* Maxima, and who was away                                            */

/*
 * One with a maximum beside one without: in so many whole periods, wherever they begin, it has no
 * more than theirs and one task.
 */
static void run_max(json_t *result, json_t *rows, const char *link, const int *tenants,
		    double seconds)
{
	static const double should[] = { .2, .8 };
	enum bar_of of = seconds >= JUDGED_S ? BAR_RATIO : BAR_NONE;
	struct part most = { .name = "device_time.max, most", .unit = "ms", .of = of, .bar = 1 };
	struct part all = { .name = "device_time.max, all", .unit = "ms", .of = of,
			    .at_least = 1, .bar = .95 };
	uint64_t ns = run_ns(seconds, 4), begin;
	struct program p[2] = { 0 };
	struct span span;
	double periods;
	int i;

	do {
		begin = clock_ns() + 50 * MS;
		for (i = 0; i < 2; i++)
			p[i] = (struct program){ .link = link, .tenant = tenants[i], .ns = MS,
						 .begin = begin, .end = begin + ns };
		run_programs(p, 2);
		span = steady(begin, begin + ns, PERIOD_NS / 20);
		periods = fmax(floor((double)(span.to - span.from) / PERIOD_NS), 1);
		span.to = span.from + (uint64_t)(periods * PERIOD_NS);
	} while (too_short(p, 2, span, of, &ns));
	most.value = all.value = had(&p[0], span.from, span.to) / 1e6;
	most.p99 = all.p99 = all.value;
	all.floor = periods * MAX_NS / 1e6;
	/* Those that it touches are one more than those that lie in it. */
	most.floor = ((periods + 1) * MAX_NS + MS) / 1e6;
	result_part(result, &most);
	result_part(result, &all);
	add_row(rows, "device_time.max", p, 2, should, span.from, span.to);
	forget(p, 2);
}

/* It comes back to what is its part, from the first window on. */
static void run_away(json_t *result, json_t *rows, const char *link, const int *tenants,
		     double seconds)
{
	static const double should[] = { 1 / 3., 2 / 3. };
	struct part part = { .name = "1:2, who was away", .unit = "%", .floor = 1, .bar = 1,
			     .of = seconds >= JUDGED_S ? BAR_RATIO : BAR_NONE };
	uint64_t ns = run_ns(seconds, 2.5), begin, end, from, window;
	struct program p[2] = { 0 };
	int i;

	do {
		begin = clock_ns() + 50 * MS;
		end = begin + ns;
		for (i = 0; i < 2; i++)
			p[i] = (struct program){ .link = link, .tenant = tenants[i], .ns = MS,
						 .begin = i ? begin + ns / 2 : begin,
						 .end = end };
		run_programs(p, 2);
		/* From its first task on: how fast it wakes is not the scheduler's matter. */
		from = p[1].log->nr ? p[1].log->runs[0].start : p[1].begin;
		window = WINDOW_TASKS * MS;
		if (from + window > end)
			window = from < end ? end - from : MS;
	} while (too_short(p, 2, (struct span){ from, from + window }, part.of, &ns));
	part.value = off(p, 2, should, from, from + window);
	part.p99 = part.value;
	result_part(result, &part);
	add_row(rows, part.name, p, 2, should, from, from + window);
	forget(p, 2);
}

json_t *bench_fair(const struct options *o)
{
	static const char *const weights[] = { "device_time.weight=100", "device_time.weight=200",
					       "device_time.weight=400" };
	json_t *result = result_new("fair", o->link), *rows = json_array();
	int tenants[TENANT_SIBLINGS], same[PROGRAMS], limited[2], i;
	struct server server;
	size_t c;

	/* araxd makes its devices of the CPUs that it may use: one of one. */
	place_self(place_cpu[1]);
	server_start(&server, o->link);
	place_self(place_cpu[0]);
	for (i = 0; i < PROGRAMS; i++)
		tenants[i] = tenant_sibling(server.link, weights[i]);
	tenants[PROGRAMS] = tenant_sibling(server.link, "device_time.max=20000 100000");
	for (i = 0; i <= PROGRAMS; i++) {
		if (tenants[i] >= 0)
			continue;
		result_note(result, "skipped", tenant_why());
		json_decref(rows);
		server_stop(&server);
		return result;
	}
	for (i = 0; i < PROGRAMS; i++)
		same[i] = tenants[0];
	limited[0] = tenants[PROGRAMS];
	limited[1] = tenants[0];
	for (c = 0; c < NR_CASES; c++)
		run_case(result, rows, &cases[c], server.link,
			 cases[c].programs == PROGRAMS ? tenants : same,
			 o->seconds);
	run_away(result, rows, server.link, tenants, o->seconds);
	run_max(result, rows, server.link, limited, o->seconds);
	server_stop(&server);
	json_object_set_new(result, "rows", rows);
	result_note(result, "note_value",
		    "the largest difference between what somebody had and should have had, in percent of the device's time in windows of 100 times the longest task that overlap by half; in place of p99 their mean; the floor is the 1 % that is promised");
	result_note(result, "note_max",
		    "20 ms in each 100: what a tenant had in all whole periods, at most those that they touch and a task, and at least 95 % of those that lie in them");
	result_note(result, "note_placement",
		    "programs on pinned_cpus[0], araxd and its one device on [1]");
	return result;
}
