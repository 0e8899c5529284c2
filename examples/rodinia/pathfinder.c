// SPDX-License-Identifier: MIT
/*
 * pathfinder: the cheapest way through a wall of stones from top to bottom, straight or
 * one to the side at each row; a launch is some rows, from one buffer to the other and back.
 */
#include "examples/rodinia/rodinia.h"

#include <stdlib.h>
#include <string.h>

#define EACH	20	/* rows of a launch */

struct pathfinder {
	struct ro_params p;
	struct ro_buffer *wall, *cost[2];
	int32_t *first;
};

static void give_back(void *state)
{
	struct pathfinder *f = state;

	free(f->first);
	free(f);
}

static void reset(void *state)
{
	struct pathfinder *f = state;

	memcpy(f->cost[0]->data, f->first, f->cost[0]->bytes);
}

static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct pathfinder *f = ro_alloc(m, 1, sizeof(*f));
	uint64_t cols = p->size, state = p->seed, i;
	int32_t *wall;

	if (!f)
		return NULL;
	f->p = *p;
	f->wall = ro_buffer(m, cols * p->steps * 4);
	f->cost[0] = ro_buffer(m, cols * 4);
	f->cost[1] = ro_buffer(m, cols * 4);
	f->first = ro_alloc(m, cols, 4);
	if (m->error) {
		give_back(f);
		return NULL;
	}
	wall = f->wall->data;
	for (i = 0; i < cols; i++)
		f->first[i] = (int32_t)(ro_random(&state) % 10);
	for (i = 0; i < cols * p->steps; i++)
		wall[i] = (int32_t)(ro_random(&state) % 10);
	return f;
}

static void run(struct ro_machine *m, void *state)
{
	struct pathfinder *f = state;
	struct { uint32_t cols, rows; } args = { f->p.size, EACH };
	uint32_t done = 0, from = 0;

	for (; done < f->p.steps && !m->error; done += args.rows, from = !from) {
		if (args.rows > f->p.steps - done)
			args.rows = f->p.steps - done;
		ro_launch(m, RO_PATHFINDER,
			  ro_grid(RO_GROUPS(args.cols, RO_PATH_TILE - 2 * args.rows), 1, 1,
				  RO_PATH_ITEMS, 1, 1), ARAX_ARGS(args),
			  RO_RANGES(ro_part(f->wall, ARAX_IN, (uint64_t)done * args.cols * 4,
					    (uint64_t)args.rows * args.cols * 4),
				    ro_in(f->cost[from]), ro_out(f->cost[!from])));
	}
}

/* A row at a time; what is left of a row's beginning is kept aside. */
static void sequential(const struct pathfinder *f, int32_t *cost)
{
	const int32_t *wall = f->wall->data;
	uint64_t cols = f->p.size, x;
	uint32_t row;

	for (row = 0; row < f->p.steps; row++) {
		int32_t west = cost[0];

		for (x = 0; x < cols; x++) {
			int32_t here = cost[x], least = here < west ? here : west;

			if (x + 1 < cols && cost[x + 1] < least)
				least = cost[x + 1];
			cost[x] = least + wall[row * cols + x];
			west = here;
		}
	}
}

static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .error = 1, .what = "costs that differ" };
	struct pathfinder *f = state;
	int32_t *wanted = malloc((size_t)f->p.size * sizeof(*wanted));

	if (wanted) {
		memcpy(wanted, f->first, (size_t)f->p.size * sizeof(*wanted));
		sequential(f, wanted);
		v = ro_compare_i32(f->cost[RO_GROUPS(f->p.steps, EACH) % 2]->data, wanted, f->p.size,
				   v.what);
	}
	free(wanted);
	return v;
}

const struct ro_program ro_pathfinder = {
	.name = "pathfinder", .what = "the cheapest way through a wall",
	.size_is = "columns", .steps_are = "rows",
	.size = 100000, .size_least = 1, .size_most = 1u << 24,
	.steps = 100, .steps_most = 10000, .bench_size = 400000, .bench_steps = 400,
	.make = make, .reset = reset, .run = run, .check = check, .free = give_back,
};
