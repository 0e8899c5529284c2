// SPDX-License-Identifier: MIT
/* sharing: several applications on one device, at once and one after another. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "clock.h"
#include "echo.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"

#define APPS		4
#define WIDE_APPS	2
/* Of 8 bytes: three arrays of 16 MiB, so that no application has its data in a cache. */
#define ITEMS		(1u << 21)
#define GAP_NS		2000000u
#define BAR		1.2
#define WARM_UP_S	0.05

/* An application: a process that runs tasks, one at a time, when asked to. */
struct app {
	const char *link;
	int ask[2];
	int answer[2];
	pid_t pid;
};

struct app_ask {
	double seconds;
	uint64_t gap_ns;	/* of host work after each task */
};

static void tell(int fd, const void *what, size_t bytes)
{
	if (write(fd, what, bytes) != (ssize_t)bytes)
		bench_fail("an application's pipe: %s", strerror(errno));
}

static void hear(int fd, void *what, size_t bytes)
{
	if (read(fd, what, bytes) != (ssize_t)bytes)
		bench_fail("an application has ended");
}

static void task(struct session *s, const struct arax_kernel *triad, struct arax_buffer **b)
{
	struct { double s; uint64_t n; } args = { 3, ITEMS };
	struct arax_event event = ARAX_EVENT_INIT;
	int err = arax_launch(s->queue, triad, arax_grid(1, 1, 1), ARAX_ARGS(args),
			      ARAX_RANGES(arax_in(b[0]), arax_in(b[1]), arax_out(b[2])), &event);

	if (!err)
		err = arax_wait(&event, ARAX_DEADLINE_NONE);
	if (err)
		bench_fail("an application's task: %s", arax_strerror(err));
}

static void be_app(void *arg)
{
	struct arax_buffer *b[3];
	struct arax_kernel triad;
	struct app *a = arg;
	struct app_ask ask;
	struct session s;
	double *x, *last, rate;
	size_t i;

	close(a->ask[1]);
	close(a->answer[0]);
	session_open(&s, a->link);
	session_find(&s, "bench_triad", &triad);
	for (i = 0; i < 3; i++) {
		if (arax_buffer_create(s.ax, ITEMS * sizeof(double), 0, &b[i]))
			bench_fail("a buffer: %s", arax_error_text());
		x = arax_buffer_data(b[i]);
		for (size_t j = 0; j < ITEMS; j++)
			x[j] = (double)i;
	}
	last = (double *)arax_buffer_data(b[2]) + ITEMS - 1;
	rate = 0;
	tell(a->answer[1], &rate, sizeof(rate));
	while (read(a->ask[0], &ask, sizeof(ask)) == sizeof(ask)) {
		uint64_t t0 = ticks(), t1 = t0, n = 0;

		/* What earlier tasks left says nothing about these. */
		*last = 0;
		do {
			task(&s, &triad, b);
			if (ask.gap_ns)
				gap_sleep(ask.gap_ns);
			t1 = ticks();
			n++;
		} while (ticks_to_ns(t1 - t0) < ask.seconds * 1e9);
		if (*last != 3)
			bench_fail("an application's result is wrong");
		rate = (double)n / ticks_to_ns(t1 - t0) * 1e9;
		tell(a->answer[1], &rate, sizeof(rate));
	}
}

static void app_start(struct app *a, const char *link)
{
	double ready;

	a->link = link;
	if (pipe2(a->ask, O_CLOEXEC) < 0 || pipe2(a->answer, O_CLOEXEC) < 0)
		bench_fail("pipe: %s", strerror(errno));
	a->pid = child_start(be_app, a);
	close(a->ask[0]);
	close(a->answer[1]);
	hear(a->answer[0], &ready, sizeof(ready));
}

/* The first @k at once; tasks a second of each. */
static void together(struct app *apps, int k, const struct app_ask *ask, double *rates)
{
	int i;

	for (i = 0; i < k; i++)
		tell(apps[i].ask[1], ask, sizeof(*ask));
	for (i = 0; i < k; i++)
		hear(apps[i].answer[0], &rates[i], sizeof(rates[i]));
}

/* A number of applications of a kind, with what came of each round. */
struct share_case {
	const char *name;
	int apps;
	uint64_t gap_ns;
	int judged;
	int wide;			/* on a device of two cores, of which a task uses one */
	double shared[ROUNDS_MAX];	/* tasks/s of all */
	double sliced[ROUNDS_MAX];
	double slowdown[ROUNDS_MAX];	/* of the worst one */
	double alone_of[APPS][ROUNDS_MAX], shared_of[APPS][ROUNDS_MAX];
};

static struct share_case cases[] = {
	{ .name = "1 with gaps", .apps = 1, .gap_ns = GAP_NS },
	{ .name = "2 with gaps", .apps = 2, .gap_ns = GAP_NS, .judged = 1 },
	{ .name = "4 with gaps", .apps = 4, .gap_ns = GAP_NS, .judged = 1 },
	{ .name = "2 on two cores", .apps = 2, .judged = 1, .wide = 1 },
	{ .name = "2 without", .apps = 2 },
	{ .name = "4 without", .apps = 4 },
};

#define NR_CASES (sizeof(cases) / sizeof(*cases))

/*
 * Time-slicing at its best: each has the device for so long that changing it costs
 * nothing, and what it can't use meanwhile is lost.
 */
static void one_round(struct share_case *c, struct app *apps, double seconds, size_t r)
{
	struct app_ask turn = { seconds / c->apps, c->gap_ns }, all = { seconds, c->gap_ns };
	double alone[APPS], rates[APPS];
	int i;

	for (i = 0; i < c->apps; i++) {
		together(apps + i, 1, &turn, &alone[i]);
		c->sliced[r] += alone[i] / c->apps;
	}
	together(apps, c->apps, &all, rates);
	for (i = 0; i < c->apps; i++) {
		c->alone_of[i][r] = alone[i];
		c->shared_of[i][r] = rates[i];
		c->shared[r] += rates[i];
		c->slowdown[r] = fmax(c->slowdown[r], alone[i] / rates[i]);
	}
}

/* Each application of each case. */
static void add_rows(json_t *rows, const struct share_case *c, size_t rounds)
{
	int i;

	for (i = 0; i < c->apps; i++) {
		double alone = median(c->alone_of[i], rounds);
		double shared = median(c->shared_of[i], rounds);

		json_array_append_new(rows, json_pack(
			"{s:s,s:i,s:f,s:f,s:f,s:f}", "case", c->name, "application", i + 1,
			"alone_per_s", alone, "sliced_per_s", alone / c->apps,
			"shared_per_s", shared, "slowdown", alone / shared));
	}
}

static void report(json_t *result, size_t rounds)
{
	struct part gain = { .name = "gain", .unit = "times", .floor = 1, .of = BAR_RATIO,
			     .at_least = 1, .bar = BAR };
	json_t *rows = json_array();
	double sum = 0;
	size_t i, r;
	int n = 0;

	for (i = 0; i < NR_CASES; i++) {
		if (!cases[i].judged || !cases[i].shared[0])
			continue;
		sum += log(median(cases[i].shared, rounds) / median(cases[i].sliced, rounds));
		n++;
	}
	gain.value = exp(sum / n);
	gain.p99 = gain.value;
	result_part(result, &gain);
	for (i = 0; i < NR_CASES; i++) {
		struct share_case *c = &cases[i];

		if (!c->shared[0])
			continue;
		add_rows(rows, c, rounds);
		struct part p = { .name = c->name, .unit = "tasks/s", .rounds = json_array(),
				  .of = c->judged ? BAR_RATIO : BAR_NONE, .at_least = 1,
				  .bar = c->judged ? BAR : 0 };
		char name[64];

		p.value = median(c->shared, rounds);
		p.p99 = p.value;
		p.floor = median(c->sliced, rounds);
		for (r = 0; r < rounds; r++) {
			p.p99 = fmin(p.p99, c->shared[r]);
			json_array_append_new(p.rounds, json_real(c->shared[r]));
		}
		result_part(result, &p);
		snprintf(name, sizeof(name), "%s: slowdown of the slowest", c->name);
		result_peer(result, name, median(c->slowdown, rounds));
	}
	json_object_set_new(result, "rows", rows);
}

/* A device of both CPUs, for applications with tasks for one. */
static void start_wide(struct server *server, struct app *apps, const struct app_ask *warm_up)
{
	char config[64];
	double rate;
	int i;

	snprintf(config, sizeof(config), "cpu { groups = { \"%d,%d\" } }", place_cpu[0],
		 place_cpu[1]);
	server_start_standard(server, "cpu", config);
	for (i = 0; i < WIDE_APPS; i++) {
		app_start(&apps[i], server->link);
		together(&apps[i], 1, warm_up, &rate);
	}
}

static void end_apps(struct app *apps, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		close(apps[i].ask[1]);
		child_end(apps[i].pid);
		close(apps[i].answer[0]);
	}
}

json_t *bench_sharing(const struct options *o)
{
	json_t *result = result_new("sharing", o->link);
	double each = o->seconds / (2.0 * NR_CASES * o->rounds);
	bool has_wide = place_cpu[0] != place_cpu[1] && strcmp(o->link, "kernel");
	struct app_ask warm_up = { WARM_UP_S, 0 };
	struct app apps[APPS], wide_apps[WIDE_APPS];
	struct server server, wide;
	double rate;
	size_t i, r;

	/* araxd makes its devices of the CPUs that it may use: one of one. */
	place_self(place_cpu[1]);
	server_start(&server, o->link);
	place_self(place_cpu[0]);
	for (i = 0; i < APPS; i++) {
		app_start(&apps[i], server.link);
		together(&apps[i], 1, &warm_up, &rate);
	}
	place_self(-1);
	if (has_wide)
		start_wide(&wide, wide_apps, &warm_up);
	for (r = 0; r < (size_t)o->rounds; r++)
		for (i = 0; i < NR_CASES; i++)
			if (!cases[i].wide)
				one_round(&cases[i], apps, each, r);
			else if (has_wide)
				one_round(&cases[i], wide_apps, each, r);
	report(result, (size_t)o->rounds);
	end_apps(apps, APPS);
	server_stop(&server);
	if (has_wide) {
		end_apps(wide_apps, WIDE_APPS);
		server_stop(&wide);
	} else {
		result_note(result, "note_two_cores",
			    "without: it takes two CPUs and starts its own araxd");
	}
	result_int(result, "gap_ns", GAP_NS);
	result_note(result, "note_value",
		    "tasks on 48 MiB of all applications at once; the floor is the same number of applications one after another on the same device; in place of p99 the worst round; gain: geometric mean of the judged ratios");
	result_note(result, "note_placement",
		    "applications on pinned_cpus[0], araxd and its one device on [1]; on two cores: nobody pinned");
	return result;
}
