// SPDX-License-Identifier: MIT
/* sleep: tasks with gaps, more clients than CPUs, idleness. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "clock.h"
#include "echo.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"

#define GAP_NS		1000000
#define CLIENTS		4
#define CLIENT_SAMPLES	(1u << 17)

static void with_gaps(json_t *result, const char *name, int client, int other, double bar,
		      struct server *server, struct session *s, const struct options *o)
{
	struct measure task = { .name = name, .round = session_null_round, .arg = s };
	struct measure pair = { .name = "eventfd pair", .round = echo_round };
	struct measure *all[2] = { &task, &pair };
	struct part p = { .name = name, .unit = "ns", .of = BAR_RATIO, .bar = bar };

	pair.arg = echo_start(ECHO_EVENTFD, other);
	echo_gap(pair.arg, GAP_NS);
	s->gap_ns = GAP_NS;
	place_self(client);
	server_place(server, other);
	interleave(all, 2, (size_t)o->rounds, o->seconds / 4);
	s->gap_ns = 0;
	echo_stop(pair.arg);
	part_measured(&p, &task, &pair);
	if (!strcmp(o->link, "kernel"))
		p.of = BAR_NONE;	/* measured in an emulated guest: see docs/benchmarks.md */
	result_part(result, &p);
}

/* ------------------------------------------------------------------ */

struct client {
	const char *link;
	double seconds;
	struct shared {
		uint32_t go;
		size_t n[CLIENTS];
		uint64_t ticks[CLIENTS][CLIENT_SAMPLES];
	} *shared;
	int index;
	int ready[2];
};

/* Every client keeps what it saw: the last CLIENT_SAMPLES of it. */
static void be_client(void *arg)
{
	struct client *c = arg;
	struct shared *sh = c->shared;
	uint64_t t0, t1, end;
	struct session s;
	size_t n = 0;

	session_open(&s, c->link);
	session_null(&s);
	if (write(c->ready[1], "", 1) != 1)
		_exit(1);
	while (!__atomic_load_n(&sh->go, __ATOMIC_ACQUIRE))
		usleep(1000);
	t1 = ticks();
	end = t1 + ns_to_ticks(c->seconds * 1e9);
	while (t1 < end) {
		t0 = ticks();
		session_null(&s);
		t1 = ticks();
		sh->ticks[c->index][n++ % CLIENT_SAMPLES] = t1 - t0;
	}
	sh->n[c->index] = n;
	session_close(&s);
}

static void crowd(json_t *result, struct server *server, const struct options *o)
{
	struct client c = { .link = server->link, .seconds = o->seconds / 4 };
	struct part p = { .name = "4 clients", .unit = "ns", .of = BAR_P99, .bar = 1e6 };
	struct samples all;
	pid_t pid[CLIENTS];
	size_t i, kept, total = 0;
	char byte;

	place_self(-1);
	server_place(server, -1);
	c.shared = mmap(NULL, sizeof(*c.shared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c.shared == MAP_FAILED || pipe(c.ready) < 0)
		bench_fail("clients: %s", strerror(errno));
	for (c.index = 0; c.index < CLIENTS; c.index++)
		pid[c.index] = child_start(be_client, &c);
	close(c.ready[1]);
	for (i = 0; i < CLIENTS; i++) {
		if (read(c.ready[0], &byte, 1) != 1)
			bench_fail("a client did not get ready");
	}
	close(c.ready[0]);
	__atomic_store_n(&c.shared->go, 1, __ATOMIC_RELEASE);
	for (i = 0; i < CLIENTS; i++) {
		if (child_join(pid[i]))
			bench_fail("a client failed");
	}
	samples_init(&all);
	for (i = 0; i < CLIENTS; i++) {
		total += c.shared->n[i];
		kept = c.shared->n[i] < CLIENT_SAMPLES ? c.shared->n[i] : CLIENT_SAMPLES;
		while (kept--)
			samples_add(&all, c.shared->ticks[i][kept]);
	}
	if (!strcmp(o->link, "kernel"))
		p.of = BAR_NONE;
	p.value = samples_percentile(&all, 0.5);
	p.p99 = samples_percentile(&all, 0.99);
	result_part(result, &p);
	result_int(result, "tasks_of_4_clients", (long)((double)total / c.seconds));
	samples_free(&all);
	munmap(c.shared, sizeof(*c.shared));
}

/* ------------------------------------------------------------------ */

static void idle(json_t *result, struct session *s, struct server *server)
{
	struct part p = { .name = "idle", .unit = "% of a CPU", .of = BAR_VALUE, .bar = 0 };
	double hz = (double)sysconf(_SC_CLK_TCK);
	long before, after;
	uint64_t start;

	session_null(s);
	gap_sleep(1000000000u);
	before = server_cpu_ticks(server);
	start = clock_ns();
	gap_sleep(2000000000u);
	after = server_cpu_ticks(server);
	if (before < 0 || after < 0) {
		result_note(result, "note_idle", "araxd's process is not known (ARAX_BENCH_PID)");
		return;
	}
	p.value = 100 * (double)(after - before) / hz / ((double)(clock_ns() - start) / 1e9);
	p.p99 = p.value;
	result_part(result, &p);
}

json_t *bench_sleep(const struct options *o)
{
	json_t *result = result_new("sleep", o->link);
	struct server server;
	struct session s;

	server_start(&server, o->link);
	session_open(&s, server.link);
	with_gaps(result, "1 ms gaps, pinned", place_cpu[0], place_cpu[1], 1.3, &server, &s, o);
	with_gaps(result, "1 ms gaps", -1, -1, 2, &server, &s, o);
	crowd(result, &server, o);
	idle(result, &s, &server);
	session_close(&s);
	server_stop(&server);
	result_note(result, "note_placement",
		    "pinned: asker on pinned_cpus[0], araxd or the eventfd's other side on [1]; "
		    "the rest is free");
	return result;
}
