// SPDX-License-Identifier: MIT
/* Tile graphs through Arax: tiles are byte ranges of one buffer, and order is inferred. */
#include "tiles_arax.h"

#include <string.h>

#include "bench.h"
#include "clock.h"

#define BATCH	64		/* tasks of one submit, at most */
#define DEPTH	4096		/* what a user may have in flight by default */
#define FIND_NS	1000000000u

int tile_client_open(struct tile_client *c, const char *link)
{
	struct arax_options o = { .size = sizeof(o), .link = link, .depth = DEPTH,
				  .entry_size = 256, .arena_size = 1u << 20 };
	int i;

	memset(c, 0, sizeof(*c));
	if (arax_open(&c->ax, &o))
		bench_fail("opening a context: %s", arax_error_text());
	for (i = 0; i < TILE_STEPS; i++) {
		if (arax_kernel_find(c->ax, tile_kernels[i].name, arax_deadline(FIND_NS),
				     &c->kernels[i])) {
			arax_close(c->ax);
			return 0;
		}
	}
	for (i = 0; i < TILE_QUEUES; i++) {
		if (arax_queue_create(c->ax, ARAX_QUEUE_DATAFLOW, i - 20, &c->queues[i]))
			bench_fail("creating a queue: %s", arax_error_text());
	}
	return 1;
}

void tile_client_close(struct tile_client *c)
{
	arax_close(c->ax);
}

/* Priorities are from 2 * across to -2 * across. */
static struct arax_queue *queue_of(const struct tile_client *c, const struct tile_graph *g,
				   const struct tile_task *t)
{
	int below = 2 * (int)g->across - t->priority;

	return c->queues[below * (TILE_QUEUES - 1) / (4 * (int)g->across)];
}

struct batch {
	struct arax_queue *queue;
	size_t n;
	struct arax_desc tasks[BATCH];
	struct arax_range ranges[BATCH][TILE_RANGES];
};

static void submit(struct batch *b)
{
	if (b->n && arax_submit(b->queue, b->tasks, b->n, 0) != (int)b->n)
		bench_fail("submitting: %s", arax_error_text());
	b->n = 0;
}

static void add(struct batch *b, const struct tile_client *c, const struct tile_graph *g,
		const struct tile_task *t)
{
	const uint32_t n = tile_kernels[t->step].nr_ranges;
	struct arax_range *r = b->ranges[b->n];
	uint32_t i;

	for (i = 0; i < n; i++)
		r[i] = arax_part(c->buffer, i == n - 1 ? ARAX_INOUT : ARAX_IN,
				 t->tiles[i] * tile_bytes(g), tile_bytes(g));
	/* The geometry says how much work it is: run times are learnt by it. */
	b->tasks[b->n++] = (struct arax_desc){
		.opcode = ARAX_OP_LAUNCH, .kernel = &c->kernels[t->step],
		.grid = arax_grid(g->tile, g->tile, 1), .args = g->args[t->step],
		.arg_len = tile_kernels[t->step].arg_len, .ranges = r, .nr_ranges = n,
	};
}

static void finish(const struct tile_client *c)
{
	int i, err;

	for (i = 0; i < TILE_QUEUES; i++) {
		err = arax_queue_finish(c->queues[i], ARAX_DEADLINE_NONE);
		if (err)
			bench_fail("a tile's task: %s", arax_strerror(err));
	}
}

static uint64_t run(const struct tile_client *c, const struct tile_graph *g)
{
	static struct batch b;
	uint64_t t0 = ticks();
	size_t i;

	for (i = 0; i < g->nr_tasks; i++) {
		struct arax_queue *queue = queue_of(c, g, &g->tasks[i]);

		if (b.n == BATCH || (b.n && queue != b.queue))
			submit(&b);
		b.queue = queue;
		add(&b, c, g, &g->tasks[i]);
	}
	submit(&b);
	finish(c);
	return ticks() - t0;
}

struct tile_result tile_client_run(struct tile_client *c, const struct tile_graph *g,
				   uint64_t good)
{
	uint64_t bytes = (uint64_t)g->order * g->order * sizeof(double), took;

	if (!c->buffer || arax_buffer_bytes(c->buffer) != bytes) {
		arax_buffer_destroy(c->buffer);
		if (arax_buffer_create(c->ax, bytes, 0, &c->buffer))
			bench_fail("a buffer of %llu bytes: %s", (unsigned long long)bytes,
				   arax_error_text());
	}
	tiles_fill(g, arax_buffer_data(c->buffer));
	took = run(c, g);
	return tile_judge(g, arax_buffer_data(c->buffer), took, good);
}
