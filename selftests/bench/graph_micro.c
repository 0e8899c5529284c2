// SPDX-License-Identifier: MIT
/*
 * graph_micro - what the daemon's graph costs per task
 *
 *   graph_micro [--json] [--seconds N]
 *
 * Each figure is the least of several rounds: the cost without disturbance.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/graph/graph.h"

struct entry {
	struct arax_dispatch d;
	struct arax_dispatch_range r[4];
};

static bool json;
static bool first = true;
static double budget_s = 0.3;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t rng = 88172645463325252ull;

static uint64_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	return rng ^= rng << 17;
}

static void show(const char *name, double ns, double target)
{
	if (json)
		printf("%s\n  {\"name\": \"%s\", \"value\": %.1f, \"unit\": \"ns\", \"target\": %.0f}",
		       first ? "" : ",", name, ns, target);
	else if (target)
		printf("%-46s %8.1f ns   (target %.0f)\n", name, ns, target);
	else
		printf("%-46s %8.1f ns\n", name, ns);
	first = false;
}

static void fill(struct entry *e, uint32_t slot, unsigned int nr_ranges)
{
	memset(&e->d, 0, sizeof(e->d));
	e->d.type = ARAX_DISPATCH_TASK;
	e->d.opcode = ARAX_OP_LAUNCH;
	e->d.tag = 1ull << 48 | 1ull << 24 | slot;
	e->d.context = 7;
	e->d.queue = 3;
	e->d.queue_flags = ARAX_QUEUE_DATAFLOW;
	e->d.nr_ranges = nr_ranges;
	e->d.cells = 2 + nr_ranges / 2 + nr_ranges % 2;
	e->d.arg_len = 16;
	e->d.access = 0xff;
	e->d.grid[0] = e->d.grid[1] = e->d.grid[2] = 1;
}

static void range(struct entry *e, unsigned int i, uint64_t buffer,
		  uint64_t offset, uint64_t length)
{
	e->r[i] = (struct arax_dispatch_range){
		.buffer = buffer, .offset = offset, .length = length, .count = 1,
	};
}

static struct graph *make(void)
{
	struct graph *g = graph_create(&(struct graph_params){ .slots = 1u << 18 });

	if (!g) {
		perror("graph_create");
		exit(1);
	}
	return g;
}

static void add(struct graph *g, struct entry *e)
{
	int err = graph_add(g, &e->d);

	if (err) {
		fprintf(stderr, "graph_add: %s\n", strerror(-err));
		exit(1);
	}
}

/* The daemon's loop with null tasks: @burst added, then popped and completed. */
static void null_path(const char *name, unsigned int burst, unsigned int buffers,
		      double target)
{
	static struct entry ring[1024];
	struct graph *g = make();
	double best = 1e9;
	uint64_t stop = now_ns() + budget_s * 1e9;

	for (unsigned int i = 0; i < 1024; i++) {
		fill(&ring[i], i % 256, 2);
		ring[i].d.access = ARAX_IN | ARAX_INOUT << 2;
		range(&ring[i], 0, i % buffers, 0, 65536);
		range(&ring[i], 1, (i * 7 + 1) % buffers, 65536, 65536);
	}
	do {
		uint64_t t = now_ns();
		const unsigned int tasks = 64 * 1024;

		for (unsigned int i = 0; i < tasks; i += burst) {
			struct graph_node *n;

			for (unsigned int k = 0; k < burst; k++)
				add(g, &ring[(i + k) % 1024]);
			while ((n = graph_pop_ready(g))) {
				graph_start(g, n);
				graph_complete(g, n, 0, NULL);
			}
		}
		t = now_ns() - t;
		if ((double)t / tasks < best)
			best = (double)t / tasks;
	} while (now_ns() < stop);
	graph_destroy(g);
	show(name, best, target);
}

/*
 * The cost of adding (and, apart, of completing) a task of @nr ranges while
 * @live others are in the graph: a window of tasks slides along.
 */
static void window(const char *name, unsigned int live, unsigned int nr,
		   void (*shape)(struct entry *e, unsigned int i, unsigned int live),
		   double target)
{
	struct graph *g = make();
	struct entry *e = calloc(live * 2, sizeof(*e));
	struct graph_node **nodes = calloc(live, sizeof(*nodes));
	const unsigned int batch = live < 512 ? live / 2 : 256;
	double add_best = 1e9, end_best = 1e9;
	uint64_t stop = now_ns() + budget_s * 1e9;
	unsigned int head = 0, rounds = 0;
	struct graph_stats st;
	char text[96];

	for (unsigned int i = 0; i < live * 2; i++) {
		fill(&e[i], i, nr);
		shape(&e[i], i, live);
	}
	while (head < live)
		add(g, &e[head++ % (2 * live)]);
	do {
		uint64_t sum_add = 0, sum_end = 0;
		unsigned int tasks = 0;

		while (tasks < 4096) {
			unsigned int got = 0;
			uint64_t t = now_ns();

			while (got < batch && (nodes[got] = graph_pop_ready(g)))
				got++;
			for (unsigned int i = 0; i < got; i++)
				graph_complete(g, nodes[i], 0, NULL);
			sum_end += now_ns() - t;
			t = now_ns();
			for (unsigned int i = 0; i < got; i++) {
				struct entry *x = &e[head++ % (2 * live)];

				/* Its slot may still be in use: take a free one. */
				while (graph_find(g, x->d.tag))
					x = &e[head++ % (2 * live)];
				add(g, x);
			}
			sum_add += now_ns() - t;
			tasks += got;
		}
		if ((double)sum_add / tasks < add_best)
			add_best = (double)sum_add / tasks;
		if ((double)sum_end / tasks < end_best)
			end_best = (double)sum_end / tasks;
	} while (++rounds < 3 || now_ns() < stop);
	graph_stats(g, &st);
	snprintf(text, sizeof(text), "%s: add", name);
	show(text, add_best, target);
	snprintf(text, sizeof(text), "%s: pop+complete", name);
	show(text, end_best, 0);
	if (!json)
		printf("    edges/task %.2f, fences %llu, spans %llu, memory %llu KiB\n",
		       (double)st.edges / st.added, (unsigned long long)st.fences,
		       (unsigned long long)st.spans,
		       (unsigned long long)st.memory >> 10);
	graph_destroy(g);
	free(e);
	free(nodes);
}

/* Two ranges that repeat live ones exactly. */
static void shape_repeat(struct entry *e, unsigned int i, unsigned int live)
{
	e->d.access = ARAX_IN | ARAX_INOUT << 2;
	range(e, 0, i % 64, 0, 4096);
	range(e, 1, (i * 7 + 1) % 64, 4096, 4096);
}

/* Four aligned tiles of one buffer: a stencil's three inputs and its output. */
static void shape_aligned(struct entry *e, unsigned int i, unsigned int live)
{
	e->d.access = ARAX_IN | ARAX_IN << 2 | ARAX_IN << 4 | ARAX_OUT << 6;
	for (unsigned int k = 0; k < 3; k++)
		range(e, k, 1, (uint64_t)(i + k) % live * 4096, 4096);
	range(e, 3, 2, (uint64_t)i % live * 4096, 4096);
}

/* Four ranges at random places of one buffer, about one neighbour each. */
static void shape_random(struct entry *e, unsigned int i, unsigned int live)
{
	uint64_t space = (uint64_t)live * 4 * 4096;

	e->d.access = ARAX_IN | ARAX_IN << 2 | ARAX_IN << 4 | ARAX_OUT << 6;
	for (unsigned int k = 0; k < 4; k++)
		range(e, k, 1, rnd() % space, 1 + rnd() % 4096);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "seconds", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			json = true;
			break;
		case 's':
			budget_s = atof(optarg);
			break;
		case 'h':
			puts("usage: graph_micro [--json] [--seconds N]\n"
			     "Measures the daemon's dependency graph, N seconds a figure.");
			return 0;
		case 'V':
			puts("graph_micro " ARAX_VERSION);
			return 0;
		default:
			return 2;
		}
	}
	if (json)
		printf("[");
	null_path("null: add+pop+complete, 64 buffers, 64 at once", 64, 64, 80);
	null_path("null: add+pop+complete, 64 buffers, 1 at once", 1, 64, 80);
	null_path("null: add+pop+complete, 1024 buffers, 64", 64, 1024, 0);
	window("2 repeated ranges, 64 live", 64, 2, shape_repeat, 100);
	window("2 repeated ranges, 1000 live", 1000, 2, shape_repeat, 100);
	window("4 aligned ranges, 1000 live", 1000, 4, shape_aligned, 300);
	window("4 random ranges, 1000 live ranges", 250, 4, shape_random, 1000);
	window("4 random ranges, 100000 live ranges", 25000, 4, shape_random, 0);
	window("4 random ranges, 1000 live tasks", 1000, 4, shape_random, 1000);
	window("4 random ranges, 100000 live tasks", 100000, 4, shape_random, 0);
	if (json)
		printf("\n]\n");
	return 0;
}
