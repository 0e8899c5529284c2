// SPDX-License-Identifier: MIT
/*
 * bfs: how many steps each node of a random graph is from a source.  Each step of the
 * search has its own sources.
 *
 * Nobody looks after each level: a level that finds nothing leaves its flag down and those
 * after it return at once, so levels are launched in batches, and only between two of
 * these the program reads the last flag.
 */
#include "examples/rodinia/rodinia.h"

#include <stdlib.h>

#define BATCH	8	/* levels; a random graph of a million nodes has 10 to 12 */
#define DEGREE	6

struct bfs {
	struct ro_params p;
	uint32_t edges, most;
	struct ro_buffer *first, *to, *cost, *found;
};

static uint32_t source(const struct bfs *b, uint32_t step)
{
	return (uint32_t)((uint64_t)step * 2654435761u % b->p.size);
}

/* Each node is joined to about DEGREE others, both ways. */
static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct bfs *b = ro_alloc(m, 1, sizeof(*b));
	uint32_t n = p->size, *first, *to, *ends, i, degree;
	uint64_t links = (uint64_t)n * DEGREE / 2, state = p->seed, k;

	if (!b)
		return NULL;
	b->p = *p;
	b->edges = (uint32_t)(2 * links);
	b->first = ro_buffer(m, ((uint64_t)n + 1) * 4);
	b->to = ro_buffer(m, (uint64_t)b->edges * 4);
	b->cost = ro_buffer(m, (uint64_t)n * p->steps * 4);
	b->found = ro_buffer(m, (uint64_t)(BATCH + 1) * p->steps * 4);
	ends = ro_alloc(m, 2 * links, sizeof(*ends));
	if (m->error) {
		free(ends);
		free(b);
		return NULL;
	}
	first = b->first->data;
	to = b->to->data;
	for (k = 0; k < 2 * links; k++) {
		ends[k] = (uint32_t)(ro_random(&state) % n);
		first[ends[k] + 1]++;
	}
	for (i = 0; i < n; i++) {
		degree = first[i + 1];
		b->most = degree > b->most ? degree : b->most;
		first[i + 1] += first[i];
	}
	/* Into its row, from the end; the row's begin is moved there meanwhile. */
	for (k = 0; k < 2 * links; k++)
		to[--first[ends[k] + 1]] = ends[k ^ 1];
	for (i = 0; i < n; i++)
		first[i] = first[i + 1];
	first[n] = b->edges;
	free(ends);
	return b;
}

static struct ro_range of_step(const struct ro_buffer *b, uint32_t access, uint32_t step,
			       uint64_t items)
{
	return ro_part(b, access, step * items * 4, items * 4);
}

static void levels(struct ro_machine *m, const struct bfs *b, uint32_t step, uint32_t level)
{
	struct { uint32_t nodes, edges, most, level, slot; } args = {
		b->p.size, b->edges, b->most, level, 0,
	};

	for (; args.slot < BATCH; args.slot++, args.level++)
		ro_launch(m, RO_BFS_LEVEL, ro_row(b->p.size, RO_BFS_ITEMS), ARAX_ARGS(args),
			  RO_RANGES(ro_in(b->first), ro_in(b->to),
				    of_step(b->cost, ARAX_INOUT, step, b->p.size),
				    of_step(b->found, ARAX_INOUT, step, BATCH + 1)));
}

static void run(struct ro_machine *m, void *state)
{
	struct bfs *b = state;
	uint32_t *found = b->found->data, level = 0, step, i;
	bool more = true;

	for (step = 0; step < b->p.steps; step++) {
		struct { uint32_t nodes, slots, source; } args = {
			b->p.size, BATCH + 1, source(b, step),
		};

		ro_launch(m, RO_BFS_START, ro_row(b->p.size, RO_BFS_ITEMS), ARAX_ARGS(args),
			  RO_RANGES(of_step(b->cost, ARAX_OUT, step, b->p.size),
				    of_step(b->found, ARAX_OUT, step, BATCH + 1)));
		levels(m, b, step, 0);
	}
	while (more && !m->error) {
		ro_wait(m);
		more = false;
		level += BATCH;
		for (step = 0; step < b->p.steps && !m->error; step++) {
			uint32_t *of = &found[step * (BATCH + 1)];

			if (!of[BATCH])
				continue;
			of[0] = 1;
			for (i = 1; i <= BATCH; i++)
				of[i] = 0;
			levels(m, b, step, level);
			more = true;
		}
	}
}

/* By a queue of nodes. */
static void sequential(const struct bfs *b, uint32_t from, int32_t *cost, uint32_t *queue)
{
	const uint32_t *first = b->first->data, *to = b->to->data;
	uint32_t head = 0, tail = 0, i;

	for (i = 0; i < b->p.size; i++)
		cost[i] = -1;
	cost[from] = 0;
	queue[tail++] = from;
	while (head < tail) {
		uint32_t v = queue[head++];

		for (i = first[v]; i < first[v + 1]; i++) {
			if (cost[to[i]] >= 0)
				continue;
			cost[to[i]] = cost[v] + 1;
			queue[tail++] = to[i];
		}
	}
}

static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .what = "nodes that differ" }, one;
	struct bfs *b = state;
	int32_t *wanted = malloc((size_t)b->p.size * 4), *cost = b->cost->data;
	uint32_t *queue = malloc((size_t)b->p.size * 4), step;

	if (!wanted || !queue)
		v.error = 1;
	for (step = 0; step < b->p.steps && wanted && queue; step++) {
		sequential(b, source(b, step), wanted, queue);
		one = ro_compare_i32(&cost[(uint64_t)step * b->p.size], wanted, b->p.size, v.what);
		v.error += one.error;
		v.compared += one.compared;
	}
	free(wanted);
	free(queue);
	return v;
}

const struct ro_program ro_bfs = {
	.name = "bfs", .what = "breadth-first search of a random graph",
	.size_is = "nodes, joined to 6 others on the average", .steps_are = "sources",
	.size = 100000, .size_least = 1, .size_most = 1u << 24,
	.steps = 4, .steps_most = 1024, .bench_size = 1000000, .bench_steps = 12,
	.make = make, .run = run, .check = check, .free = free,
};
