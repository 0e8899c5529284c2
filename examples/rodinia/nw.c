// SPDX-License-Identifier: MIT
/*
 * nw: the best alignment of two random proteins, by Needleman and Wunsch; a launch is a
 * diagonal of tiles, and needs the two before it. Each step has a greater penalty for a gap.
 */
#include "examples/rodinia/rodinia.h"

#include <stdlib.h>

#define PENALTY	10
#define ACIDS	20

/*
 * How alike two amino acids are.  Not a table of what evolution does (the original's is
 * BLOSUM62): the same sort of numbers, symmetric, high on the diagonal.
 */
static int32_t alike(uint32_t a, uint32_t b)
{
	uint32_t low = a < b ? a : b, high = a < b ? b : a;

	return a == b ? 4 + (int32_t)(a * 7 % 8) : (int32_t)((low * 31 + high * 17) % 8) - 4;
}

struct nw {
	struct ro_params p;
	struct ro_buffer *like, *score;
	uint8_t *proteins;
};

static void give_back(void *state)
{
	struct nw *s = state;

	free(s->proteins);
	free(s);
}

static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct nw *s = ro_alloc(m, 1, sizeof(*s));
	uint64_t n = p->size, state = p->seed, x, y;
	int32_t *like;

	if (!s)
		return NULL;
	s->p = *p;
	s->like = ro_buffer(m, n * n * 4);
	s->score = ro_buffer(m, (n + 1) * (n + 1) * 4);
	s->proteins = ro_alloc(m, 2 * n, 1);
	if (m->error) {
		give_back(s);
		return NULL;
	}
	for (x = 0; x < 2 * n; x++)
		s->proteins[x] = (uint8_t)(ro_random(&state) % ACIDS);
	like = s->like->data;
	for (y = 0; y < n; y++)
		for (x = 0; x < n; x++)
			like[y * n + x] = alike(s->proteins[y], s->proteins[n + x]);
	return s;
}

static void run(struct ro_machine *m, void *state)
{
	struct nw *s = state;
	struct { uint32_t n; int32_t penalty; uint32_t diagonal; } args = { s->p.size, 0, 0 };
	uint32_t tiles = RO_GROUPS(s->p.size, RO_NW_TILE), step;

	for (step = 0; step < s->p.steps; step++) {
		args.penalty = PENALTY + (int32_t)(step % 100);
		for (args.diagonal = 0; args.diagonal < 2 * tiles - 1 && !m->error; args.diagonal++) {
			uint32_t count = args.diagonal < tiles ? args.diagonal + 1 :
								 2 * tiles - 1 - args.diagonal;

			ro_launch(m, RO_NW, ro_grid(count, 1, 1, RO_NW_TILE, 1, 1), ARAX_ARGS(args),
				  RO_RANGES(ro_in(s->like), ro_inout(s->score)));
		}
	}
}

/* Row by row, two rows at a time, from the proteins themselves. */
static uint64_t sequential(const struct nw *s, int32_t penalty, int32_t *rows)
{
	uint64_t n = s->p.size, wide = n + 1, wrong = 0, x, y;
	const int32_t *score = s->score->data;

	for (y = 0; y <= n; y++) {
		int32_t *row = &rows[y % 2 * wide], *up = &rows[!(y % 2) * wide];

		row[0] = -(int32_t)y * penalty;
		for (x = 1; x <= n; x++) {
			row[x] = row[x - 1] - penalty;
			if (!y)
				continue;
			if (up[x] - penalty > row[x])
				row[x] = up[x] - penalty;
			if (up[x - 1] + alike(s->proteins[y - 1], s->proteins[n + x - 1]) > row[x])
				row[x] = up[x - 1] + alike(s->proteins[y - 1],
							   s->proteins[n + x - 1]);
		}
		for (x = 0; x <= n; x++)
			wrong += row[x] != score[y * wide + x];
	}
	return wrong;
}

static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .error = 1, .what = "scores that differ" };
	struct nw *s = state;
	uint64_t wide = (uint64_t)s->p.size + 1;
	int32_t *rows = malloc(2 * wide * sizeof(*rows));

	v.compared = wide * wide;
	if (rows)
		v.error = (double)sequential(s, PENALTY + (int32_t)((s->p.steps - 1) % 100), rows);
	free(rows);
	return v;
}

const struct ro_program ro_nw = {
	.name = "nw", .what = "alignment of two proteins (Needleman-Wunsch)",
	.size_is = "amino acids of each", .steps_are = "alignments",
	.size = 1024, .size_least = 1, .size_most = 16384,
	.steps = 1, .steps_most = 1000, .bench_size = 8192, .bench_steps = 1,
	.make = make, .run = run, .check = check, .free = give_back,
};
