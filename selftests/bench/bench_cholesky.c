// SPDX-License-Identifier: MIT
/* cholesky: tile Cholesky and tile LU beside StarPU's dmdas, with the same kernels. */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "tenant.h"
#include "tiles.h"
#include "tiles_arax.h"
#include "tiles_peer.h"

#define BAR_ALL		1.02
#define BAR_FINE	0.95	/* for tiles of FINE and smaller */
#define FINE		128
#define WARM_UP		3	/* runs that do not count: StarPU wants 10 samples of each kernel */
#define RESIDUAL_MAX	10
#define ORDER		2048u	/* in the usual time */
#define USUAL_SECONDS	25
#define USUAL_ROUNDS	9
#define ORDER_MIN	512
#define ORDER_MAX	6144
#define ORDER_STEP	256

static const uint32_t tile_sizes[] = { 64, 128, 256 };

#define NR_SIZES	(sizeof(tile_sizes) / sizeof(*tile_sizes))
#define NR_CASES	(TILE_KINDS * NR_SIZES)

static const char *const kind_names[TILE_KINDS] = { "cholesky", "lu" };

enum { ARAX, STARPU, OPENMP, SEQUENTIAL, RUNNERS };

static const struct tile_runner *const peers[RUNNERS] = {
	[STARPU] = &tile_starpu, [OPENMP] = &tile_openmp, [SEQUENTIAL] = &tile_sequential,
};

struct field {
	struct tile_client client;
	struct tile_peer *peers[RUNNERS];
};

/* One factorization at one tile size. */
struct tile_case {
	char name[32];
	struct tile_graph graph;
	uint64_t good;		/* hash of the right result */
	size_t rounds;
	double ms[RUNNERS][ROUNDS_MAX];
};

static int there(const struct field *f, int who)
{
	return who == ARAX || f->peers[who];
}

static double run(struct field *f, struct tile_case *c, int who)
{
	struct tile_result r;

	if (who == ARAX)
		r = tile_client_run(&f->client, &c->graph, c->good);
	else
		r = tile_peer_run(f->peers[who], c->graph.kind, c->graph.order, c->graph.tile,
				  c->good);
	if (!(r.residual < RESIDUAL_MAX))
		bench_fail("%s: %s computed something else (residual %g)", c->name,
			   who == ARAX ? "Arax" : peers[who]->name, r.residual);
	c->good = r.hash;
	return ticks_to_ns(r.ticks) / 1e6;
}

/*
 * All on the same two CPUs: araxd makes a device of each, StarPU and OpenMP have two
 * workers, and who submits has no other place either.
 */
static void two_cpus(void)
{
	cpu_set_t two;

	CPU_ZERO(&two);
	CPU_SET(place_cpu[0], &two);
	CPU_SET(place_cpu[1], &two);
	sched_setaffinity(0, sizeof(two), &two);
}

/* Of the time asked for alone, so that runs are comparable.  Work grows with its cube. */
static uint32_t choose_order(const struct options *o)
{
	double runs = (double)(o->rounds + WARM_UP) / (USUAL_ROUNDS + WARM_UP);
	double order = ORDER * cbrt(o->seconds / USUAL_SECONDS / runs) + ORDER_STEP / 2.0;

	order = fmin(fmax(order, ORDER_MIN), ORDER_MAX);
	return (uint32_t)order / ORDER_STEP * ORDER_STEP;
}

/* Who goes first changes from round to round. */
static void measure(struct field *f, struct tile_case *cases, int rounds)
{
	int r, i, who;
	size_t c;

	for (r = -WARM_UP; r < rounds; r++) {
		for (c = 0; c < NR_CASES; c++) {
			for (i = 0; i < RUNNERS; i++) {
				double ms;

				who = (i + r + WARM_UP) % RUNNERS;
				if (!there(f, who))
					continue;
				ms = run(f, &cases[c], who);
				if (r >= 0)
					cases[c].ms[who][r] = ms;
				/* The one before goes to sleep. */
				usleep(2000);
			}
			cases[c].rounds = (size_t)(r < 0 ? 0 : r + 1);
		}
	}
}

static double middle(const struct tile_case *c, int who)
{
	return median(c->ms[who], c->rounds);
}

static double worst(const struct tile_case *c, int who)
{
	double most = 0;
	size_t i;

	for (i = 0; i < c->rounds; i++)
		most = fmax(most, c->ms[who][i]);
	return most;
}

/* Geometric mean over the cases of @kind with tiles up to @most. */
static double mean(const struct tile_case *cases, int who, uint32_t most,
		   double (*of)(const struct tile_case *c, int who))
{
	double sum = 0;
	size_t i, n = 0;

	for (i = 0; i < NR_CASES; i++) {
		if (cases[i].graph.tile > most)
			continue;
		sum += log(of(&cases[i], who));
		n++;
	}
	return exp(sum / (double)n);
}

static void summary(json_t *result, const struct field *f, const struct tile_case *cases,
		    const char *name, uint32_t most, double bar)
{
	struct part p = { .name = name, .unit = "ms", .of = BAR_RATIO, .bar = bar };

	p.value = mean(cases, ARAX, most, middle);
	p.p99 = mean(cases, ARAX, most, worst);
	if (there(f, STARPU))
		p.floor = mean(cases, STARPU, most, middle);
	else
		p.of = BAR_NONE;
	result_part(result, &p);
}

static void one_part(json_t *result, const struct field *f, const struct tile_case *c)
{
	struct part p = { .name = c->name, .unit = "ms", .of = BAR_RATIO, .rounds = json_array() };
	char name[64];
	size_t i;
	int who;

	p.bar = c->graph.tile <= FINE ? BAR_FINE : BAR_ALL;
	p.value = middle(c, ARAX);
	p.p99 = worst(c, ARAX);
	if (there(f, STARPU))
		p.floor = middle(c, STARPU);
	else
		p.of = BAR_NONE;
	for (i = 0; i < c->rounds; i++)
		json_array_append_new(p.rounds, json_real(c->ms[ARAX][i]));
	result_part(result, &p);
	for (who = STARPU; who < RUNNERS; who++) {
		if (!there(f, who))
			continue;
		snprintf(name, sizeof(name), "%.30s, %.30s", peers[who]->name, c->name);
		result_peer(result, name, middle(c, who));
	}
}

/* Median and longest of whoever is there. */
static json_t *row(const struct field *f, const struct tile_case *c)
{
	static const char *const fields[RUNNERS][2] = {
		[ARAX] = { "arax_ms", "arax_longest_ms" },
		[STARPU] = { "starpu_ms", "starpu_longest_ms" },
		[OPENMP] = { "openmp_ms", "openmp_longest_ms" },
		[SEQUENTIAL] = { "sequential_ms", "sequential_longest_ms" },
	};
	json_t *row = json_pack("{s:s, s:i, s:i, s:I}", "program", kind_names[c->graph.kind],
				"tile", (int)c->graph.tile, "order", (int)c->graph.order, "tasks",
				(json_int_t)c->graph.nr_tasks);

	for (int who = 0; who < RUNNERS; who++) {
		if (!there(f, who))
			continue;
		json_object_set_new(row, fields[who][0], json_real(middle(c, who)));
		json_object_set_new(row, fields[who][1], json_real(worst(c, who)));
	}
	if (there(f, STARPU))
		json_object_set_new(row, "ratio",
				    json_real(middle(c, ARAX) / middle(c, STARPU)));
	/* run() ends the bench otherwise. */
	json_object_set_new(row, "checked", json_true());
	return row;
}

static void start_peers(json_t *result, struct field *f, const struct server *s)
{
	const char *why;
	int i;

	for (i = STARPU; i < RUNNERS; i++) {
		f->peers[i] = tile_peer_start(peers[i], s->dir[0] ? s->dir : "/tmp", &why);
		if (!f->peers[i])
			result_note(result, i == STARPU ? "skipped" : "note_openmp", why);
	}
}

json_t *bench_cholesky(const struct options *o)
{
	json_t *result = result_new("cholesky", o->link), *rows;
	static struct tile_case cases[NR_CASES];
	struct field f = { 0 };
	struct server server;
	const char *why = tiles_open();
	char path[4200];
	uint32_t order;
	size_t i;

	if (why) {
		result_note(result, "skipped", why);
		return result;
	}
	tenant_enter();
	two_cpus();
	server_start(&server, o->link);
	tenant_limit(server.link);
	if (!tile_client_open(&f.client, server.link)) {
		server_stop(&server);
		build_path(path, sizeof(path), "lib/arax/kernels/arax-blas.so");
		if (!access(path, F_OK))
			bench_fail("araxd does not take %s", path);
		result_note(result, "skipped", "this araxd has no kernel library arax-blas");
		return result;
	}
	start_peers(result, &f, &server);
	order = choose_order(o);
	for (i = 0; i < NR_CASES; i++) {
		snprintf(cases[i].name, sizeof(cases[i].name), "%s %u", kind_names[i / NR_SIZES],
			 tile_sizes[i % NR_SIZES]);
		tile_graph_make(&cases[i].graph, (enum tile_kind)(i / NR_SIZES), order,
				tile_sizes[i % NR_SIZES]);
	}
	measure(&f, cases, o->rounds);
	summary(result, &f, cases, "all tiles", UINT32_MAX, BAR_ALL);
	summary(result, &f, cases, "tiles up to 128", FINE, BAR_FINE);
	rows = json_array();
	for (i = 0; i < NR_CASES; i++) {
		one_part(result, &f, &cases[i]);
		json_array_append_new(rows, row(&f, &cases[i]));
		tile_graph_free(&cases[i].graph);
	}
	tile_client_close(&f.client);
	for (i = 0; i < RUNNERS; i++)
		if (f.peers[i])
			tile_peer_stop(f.peers[i]);
	server_stop(&server);
	tenant_report(result);
	json_object_set_new(result, "rows", rows);
	result_int(result, "order", (long)order);
	result_note(result, "note_value",
		    "makespan, the median of the rounds, and in place of p99 the longest; the floor is StarPU's; 'all' and 'up to' are geometric means");
	return result;
}
