// SPDX-License-Identifier: MIT
/* null: one task at a time, there and back, both sides awake. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "calls.h"
#include "child.h"
#include "clock.h"
#include "echo.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "tenant.h"

#define IDLE_CONTEXTS	64
#define LONG_TASK_NS	100000000u

struct company {
	const char *link;
	int ready[2];
};

static void tell_ready(struct company *c)
{
	if (write(c->ready[1], "", 1) != 1)
		_exit(1);
}

/* Contexts with rings, that do nothing. */
static void be_idle(void *arg)
{
	struct company *c = arg;
	struct arax_options o = { .size = sizeof(o), .link = c->link };
	struct arax *ax;
	int i;

	for (i = 0; i < IDLE_CONTEXTS; i++) {
		if (arax_open(&ax, &o) < 0)
			bench_fail("idle context %d: %s", i, arax_error_text());
	}
	tell_ready(c);
	for (;;)
		pause();
}

/* Two tasks of 100 ms, one behind the other: one always runs, and never both. */
static void be_busy(void *arg)
{
	struct company *c = arg;
	struct arax_event events[2] = { ARAX_EVENT_INIT, ARAX_EVENT_INIT };
	uint64_t ns = LONG_TASK_NS;
	struct arax_queue *queue;
	struct arax_kernel spin;
	struct session s;
	int i, err = 0, told = 0;

	session_open(&s, c->link);
	session_find(&s, "bench_spin", &spin);
	if (arax_queue_create(s.ax, ARAX_QUEUE_IN_ORDER, 0, &queue) < 0)
		bench_fail("creating a queue: %s", arax_error_text());
	for (i = 0; !err; i ^= 1) {
		if (events[i].ax) {
			err = arax_wait(&events[i], ARAX_DEADLINE_NONE);
			if (!err && events[i].device_ns < LONG_TASK_NS / 2)
				bench_fail("the long task is none");
		}
		if (!err)
			err = arax_launch(queue, &spin, arax_grid(1, 1, 1), ARAX_ARGS(ns),
					  ARAX_NO_RANGES, &events[i]);
		if (!err && i && !told) {
			tell_ready(c);
			told = 1;
		}
	}
	bench_fail("the long task: %s", arax_strerror(err));
}

static pid_t company_start(struct company *c, const char *link, void (*run)(void *arg))
{
	char byte;
	pid_t pid;

	c->link = link;
	if (pipe2(c->ready, O_CLOEXEC) < 0)
		bench_fail("pipe: %s", strerror(errno));
	pid = child_start(run, c);
	close(c->ready[1]);
	if (read(c->ready[0], &byte, 1) != 1)
		bench_fail("the other clients did not get ready");
	return pid;
}

/* Of company that left by itself what was measured is in doubt. */
static void company_end(struct company *c, pid_t pid)
{
	int status = child_end(pid);

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
		bench_fail("the other clients did not stay");
	close(c->ready[0]);
}

/*
 * The kernel link can't be faster than its system calls: one that submits and
 * one by which the daemon commits.
 */
static void add_calls(struct part *p, const struct measure *call)
{
	if (call)
		p->floor += 2 * measure_p50(call);
}

static void one_part(json_t *result, const char *name, double bar, struct session *s,
		     struct measure *lines, struct measure *call, const struct options *o)
{
	size_t n = lines ? call ? 3 : 2 : 1;
	struct measure task = { .name = name, .round = session_null_round, .arg = s };
	struct measure *all[3] = { &task, lines, call };
	struct part p = { .name = name, .unit = "ns", .of = bar ? BAR_RATIO : BAR_NONE,
			  .bar = bar };

	if (lines)
		lines->rounds = 0;
	if (call)
		call->rounds = 0;
	interleave(all, n, (size_t)o->rounds, o->seconds / 3);
	part_measured(&p, &task, lines);
	add_calls(&p, call);
	result_part(result, &p);
}

/* The same function, but as the program's own: in a worker of its user. */
static void own_part(json_t *result, struct session *s, struct measure *lines,
		     const struct options *o)
{
	struct arax_own_kernel mine = {
		.signature = "own_null(in u8 a[], inout u8 b[], u64 x, u64 y)",
		.symbol = "bench_null",
	};
	struct session own = *s;
	char path[4200];

	build_path(path, sizeof(path), "lib/arax/bench-kernels/arax-bench.so");
	if (arax_module_load_file(s->ax, ARAX_DEVICE_CPU, path, &mine, 1, &own.null) < 0) {
		result_note(result, "note_own_kernel", arax_error_text());
		return;
	}
	one_part(result, "own kernel", 0, &own, lines, NULL, o);
}

json_t *bench_null(const struct options *o)
{
	int kernel = !strcmp(o->link, "kernel"), fd = -1;
	json_t *result = result_new("null", o->link);
	struct measure lines = { .name = "two cache lines", .round = echo_round };
	struct measure call = { .name = "no-op ioctl", .round = calls_ioctl, .arg = &fd };
	struct measure *calls = kernel ? &call : NULL;
	struct company company;
	struct server server;
	struct session s;
	pid_t pid;

	tenant_enter();
	lines.arg = echo_start(ECHO_LINES, place_cpu[1]);
	server_start(&server, o->link);
	tenant_limit(server.link);
	if (kernel) {
		fd = open("/dev/arax", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			bench_fail("/dev/arax: %s", strerror(errno));
	}
	session_open(&s, server.link);
	place_self(place_cpu[0]);
	server_place(&server, place_cpu[1]);
	one_part(result, "alone", kernel ? 2.0 : 1.5, &s, &lines, calls, o);
	if (kernel)
		result_peer(result, "no-op ioctl", measure_p50(&call));
	result_peer(result, "two cache lines", measure_p50(&lines));

	/* They wait: where does not matter. */
	pid = company_start(&company, server.link, be_idle);
	one_part(result, "64 idle contexts", kernel ? 0 : 1.7, &s, &lines, calls, o);
	company_end(&company, pid);

	own_part(result, &s, &lines, o);

	/*
	 * Three that want a CPU: nobody is pinned, as nobody would be in life, and
	 * a floor of two more spinners would say nothing.
	 */
	place_self(-1);
	server_place(&server, -1);
	pid = company_start(&company, server.link, be_busy);
	one_part(result, "beside 100 ms", 0, &s, NULL, NULL, o);
	company_end(&company, pid);

	session_close(&s);
	server_stop(&server);
	echo_stop(lines.arg);
	if (fd >= 0)
		close(fd);
	tenant_report(result);
	result_note(result, "note_placement",
		    "client on pinned_cpus[0], araxd and the floor's other side on [1]; "
		    "'beside 100 ms': nobody pinned, no floor");
	return result;
}
