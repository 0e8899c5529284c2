// SPDX-License-Identifier: MIT
/* graph: what the daemon's dependency graph costs a task, and that its memory stays. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "clock.h"
#include "daemon/graph/graph.h"
#include "openmp_peer.h"
#include "place.h"
#include "result.h"

#define RANGES		4
#define ENTRIES		(1u << 18)	/* more than are ever live, so that a tag is free again */
#define STEP		256u		/* tasks that end, and are added, between two readings */
#define TILE		4096u

struct entry {
	struct arax_dispatch d;
	struct arax_dispatch_range r[RANGES];
};

/**
 * struct shape - what tasks of a kind name
 * @nr:		ranges of each
 * @ranges:	fills those of task @i, where @live tasks are
 */
struct shape {
	unsigned int nr;
	void (*ranges)(struct entry *e, uint32_t i, uint32_t live);
};

/**
 * struct graph_case - a figure
 * @live:	tasks that are in the graph all the time
 * @bar:	ns to add one, 0: stated
 */
struct graph_case {
	const char *name;
	const struct shape *shape;
	uint32_t live;
	double bar;
};

static uint64_t rng;

static uint64_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	return rng ^= rng << 17;
}

static void range(struct entry *e, unsigned int i, uint64_t buffer, uint64_t offset,
		  uint64_t length)
{
	e->r[i] = (struct arax_dispatch_range){
		.buffer = buffer, .offset = offset, .length = length, .count = 1,
	};
}

/* An in and an inout range that others have used just so: 64 buffers. */
static void repeat(struct entry *e, uint32_t i, uint32_t live)
{
	e->d.access = ARAX_IN | ARAX_INOUT << 2;
	range(e, 0, i % 64, 0, TILE);
	range(e, 1, (i * 7 + 1) % 64, TILE, TILE);
}

/* A stencil's three inputs and its output: tiles of two buffers. */
static void aligned(struct entry *e, uint32_t i, uint32_t live)
{
	e->d.access = ARAX_IN | ARAX_IN << 2 | ARAX_IN << 4 | ARAX_OUT << 6;
	for (unsigned int k = 0; k < 3; k++)
		range(e, k, 1, (uint64_t)(i + k) % live * TILE, TILE);
	range(e, 3, 2, (uint64_t)i % live * TILE, TILE);
}

/* At random places of one buffer; each overlaps about one that is there. */
static void scattered(struct entry *e, uint32_t i, uint32_t live)
{
	uint64_t space = (uint64_t)live * RANGES * TILE;

	e->d.access = ARAX_IN | ARAX_IN << 2 | ARAX_IN << 4 | ARAX_OUT << 6;
	for (unsigned int k = 0; k < RANGES; k++)
		range(e, k, 1, rnd() % space, 1 + rnd() % TILE);
}

/* Blocks of a matrix of rows of 64 KiB: 16 rows each, at random places. */
static void strided(struct entry *e, uint32_t i, uint32_t live)
{
	uint64_t rows = (uint64_t)live * RANGES;

	scattered(e, i, live);
	for (unsigned int k = 0; k < RANGES; k++) {
		e->r[k].offset = rnd() % rows * 65536 + rnd() % 60 * 1024;
		e->r[k].length = 1024;
		e->r[k].stride = 65536;
		e->r[k].count = 16;
	}
}

static const struct shape two_repeated = { 2, repeat };
static const struct shape four_aligned = { 4, aligned };
static const struct shape four_scattered = { 4, scattered };
static const struct shape four_strided = { 4, strided };

/* So many ranges, if it is four of a task: 1,000 and 100,000. */
#define FEW	250u
#define MANY	25000u

static const struct graph_case cases[] = {
	{ "2 repeated, 1,000 live", &two_repeated, 500, 100 },
	{ "2 repeated, 100,000 live", &two_repeated, 50000, 200 },
	{ "4 aligned, 1,000 live", &four_aligned, FEW, 300 },
	{ "4 aligned, 100,000 live", &four_aligned, MANY, 600 },
	{ "4 random, 1,000 live", &four_scattered, FEW, 1000 },
	{ "4 random, 100,000 live", &four_scattered, MANY, 2000 },
	{ "4 strided, 1,000 live", &four_strided, FEW, 0 },
	{ "4 strided, 100,000 live", &four_strided, MANY, 0 },
};

#define NR_CASES (sizeof(cases) / sizeof(*cases))

/* ------------------------------------------------------------------ */
/* One case                                                            */

/**
 * struct window - tasks that slide through a graph: the oldest end, others are added
 * @add, @end, @copy: ns a task, of each round
 */
struct window {
	const struct graph_case *c;
	struct graph *g;
	struct entry *entries;
	uint32_t nr_entries, head;
	double add[ROUNDS_MAX], end[ROUNDS_MAX], copy[ROUNDS_MAX];
};

static void fill(struct entry *e, uint32_t slot, unsigned int nr)
{
	memset(e, 0, sizeof(*e));
	e->d.type = ARAX_DISPATCH_TASK;
	e->d.opcode = ARAX_OP_LAUNCH;
	e->d.tag = 1ull << 48 | 1ull << 24 | slot;
	e->d.context = 7;
	e->d.queue = 3;
	e->d.queue_flags = ARAX_QUEUE_DATAFLOW;
	e->d.nr_ranges = (uint8_t)nr;
	e->d.cells = (uint16_t)(2 + nr / 2 + nr % 2);
	e->d.arg_len = 16;
	e->d.grid[0] = e->d.grid[1] = e->d.grid[2] = 1;
}

static struct graph *new_graph(void)
{
	struct graph *g = graph_create(&(struct graph_params){ .slots = ENTRIES });

	if (!g)
		bench_fail("a graph: %s", strerror(errno));
	return g;
}

static void add(struct graph *g, const struct arax_dispatch *d)
{
	int err = graph_add(g, d);

	if (err)
		bench_fail("a task of the graph: %s", strerror(-err));
}

/* As araxd adds what it finds in its ring, where so many are told of at once. */
_Static_assert(GRAPH_EXPECT * RANGES <= ARAX_MAX_RANGES, "a group is expected in part");
static void add_all(struct graph *g, const struct arax_dispatch *const *d, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (i % GRAPH_EXPECT == 0)
			graph_expect(g, d + i, n - i < GRAPH_EXPECT ? n - i : GRAPH_EXPECT);
		add(g, d[i]);
	}
}

static void window_init(struct window *w, const struct graph_case *c)
{
	uint32_t i;

	w->c = c;
	w->g = new_graph();
	w->nr_entries = 2 * c->live + 2 * STEP;
	w->entries = calloc(w->nr_entries, sizeof(*w->entries));
	if (!w->entries)
		bench_fail("no memory");
	rng = 88172645463325252ull;
	for (i = 0; i < w->nr_entries; i++) {
		fill(&w->entries[i], i, c->shape->nr);
		c->shape->ranges(&w->entries[i], i, c->live);
	}
	for (i = 0; i < c->live; i++)
		add(w->g, &w->entries[i].d);
	w->head = c->live;
}

/* The next entry whose slot is free: those of tasks that wait long are still in use. */
static const struct entry *next(struct window *w)
{
	const struct entry *e;

	do {
		e = &w->entries[w->head];
		w->head = (w->head + 1) % w->nr_entries;
	} while (graph_find(w->g, e->d.tag));
	return e;
}

/* All three on the same entries; the copies are what no graph could do without. */
static void window_round(struct window *w, double seconds, size_t r)
{
	static struct graph_node *nodes[STEP];
	static const struct arax_dispatch *which[STEP];
	static struct entry copies[STEP];
	uint64_t stop = ticks() + ns_to_ticks(seconds * 1e9), t, ends = 0, adds = 0, copying = 0;
	uint64_t tasks = 0;
	uint32_t i, n, most = w->c->live < 2 * STEP ? w->c->live / 2 : STEP;

	do {
		t = ticks();
		for (n = 0; n < most && (nodes[n] = graph_pop_ready(w->g)); n++)
			;
		for (i = 0; i < n; i++)
			graph_complete(w->g, nodes[i], 0, NULL);
		ends += ticks() - t;
		for (i = 0; i < n; i++)
			which[i] = &next(w)->d;
		t = ticks();
		for (i = 0; i < n; i++)
			memcpy(&copies[i], which[i], sizeof(copies[i]));
		copying += ticks() - t;
		t = ticks();
		add_all(w->g, which, n);
		adds += ticks() - t;
		tasks += n;
	} while (t < stop);
	w->add[r] = ticks_to_ns(adds) / (double)tasks;
	w->end[r] = ticks_to_ns(ends) / (double)tasks;
	w->copy[r] = ticks_to_ns(copying) / (double)tasks;
}

static void report(json_t *result, json_t *rows, const struct window *w, size_t rounds)
{
	struct part p = { .name = w->c->name, .unit = "ns", .bar = w->c->bar,
			  .of = w->c->bar ? BAR_VALUE : BAR_NONE, .rounds = json_array() };
	struct graph_stats st;
	double worst = 0;
	size_t r;

	for (r = 0; r < rounds; r++) {
		worst = w->add[r] > worst ? w->add[r] : worst;
		json_array_append_new(p.rounds, json_real(w->add[r]));
	}
	p.value = median(w->add, rounds);
	p.p99 = worst;
	p.floor = median(w->copy, rounds);
	result_part(result, &p);
	graph_stats(w->g, &st);
	json_array_append_new(rows, json_pack(
		"{s:s,s:i,s:i,s:f,s:f,s:f,s:f,s:f}", "case", w->c->name,
		"live_tasks", (int)w->c->live, "live_ranges", (int)(w->c->live * w->c->shape->nr),
		"add_ns", p.value, "end_ns", median(w->end, rounds), "copy_ns", p.floor,
		"edges_a_task", (double)st.edges / (double)st.added,
		"mib", (double)st.memory / (1 << 20)));
}

/* ------------------------------------------------------------------ */
/* A stream                                                            */

/* It has as much memory after all tasks as it had after the first thousands. */
static void stream(json_t *result, double seconds)
{
	struct part p = { .name = "memory of a stream", .unit = "KiB", .of = BAR_RATIO, .bar = 1 };
	uint64_t stop = ticks() + ns_to_ticks(seconds * 1e9);
	struct graph *g = new_graph();
	struct graph_node *n;
	struct graph_stats st;
	struct entry e;
	uint64_t i;

	for (i = 0; i < 100000 || (i % 1024 || ticks() < stop); i++) {
		fill(&e, (uint32_t)(i % 4096), 2);
		repeat(&e, (uint32_t)i, 0);
		/* Each of its own place, too: nothing may be kept of it. */
		range(&e, 0, 1000, i * TILE, TILE);
		add(g, &e.d);
		if (i % 64 < 63)
			continue;
		while ((n = graph_pop_ready(g)))
			graph_complete(g, n, 0, NULL);
		if (i == 64 * 1024 - 1) {
			graph_stats(g, &st);
			p.floor = (double)st.memory / 1024;
		}
	}
	graph_stats(g, &st);
	p.value = p.p99 = (double)st.memory / 1024;
	result_part(result, &p);
	result_int(result, "stream_tasks", (long)i);
	graph_destroy(g);
}

json_t *bench_graph(const struct options *o)
{
	json_t *result = result_new("graph", "none"), *rows = json_array();
	static struct window w[NR_CASES];
	double each = o->seconds / (double)(o->rounds * (NR_CASES + 3)), peer[ROUNDS_MAX];
	size_t i, r, rounds = (size_t)o->rounds;

	place_self(place_cpu[0]);
	for (i = 0; i < NR_CASES; i++)
		window_init(&w[i], &cases[i]);
	for (i = 0; i < NR_CASES; i++)
		window_round(&w[i], each, 0);
	for (r = 0; r < rounds; r++) {
		for (i = 0; i < NR_CASES; i++)
			window_round(&w[i], each, r);
		place_self(-1);
		peer[r] = openmp_tasks(each);
		place_self(place_cpu[0]);
	}
	for (i = 0; i < NR_CASES; i++)
		report(result, rows, &w[i], rounds);
	stream(result, 2 * each * (double)rounds);
	result_peer(result, "OpenMP task, 2 depend clauses, run", median(peer, rounds));
	json_object_set_new(result, "rows", rows);
	for (i = 0; i < NR_CASES; i++) {
		graph_destroy(w[i].g);
		free(w[i].entries);
	}
	result_note(result, "note_value",
		    "ns to add a task beside so many live ranges; in place of p99 the worst round; the floor is a copy of its entry; the bars with 100,000 are twice those with 1,000");
	result_note(result, "note_peer",
		    "libgomp, one thread that creates empty tasks on 64 addresses and one that runs them, ns a task");
	return result;
}
