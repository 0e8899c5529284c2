// SPDX-License-Identifier: MIT
/* The programs of outofcore: what they do, what they have to move, what comes out. */
#include "outofcore.h"

#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define PASSES		4
#define PART		16	/* of the memory: a chunk, a tile of rows */
#define MOST_DIMS	512
#define FACTOR		2.0f

static struct ooc_step *add_step(struct ooc_program *p)
{
	struct ooc_step *more = realloc(p->steps, (p->nr_steps + 1) * sizeof(*more));

	if (!more)
		bench_fail("no memory");
	p->steps = more;
	return &p->steps[p->nr_steps++];
}

static uint64_t beyond(uint64_t bytes, uint64_t memory)
{
	return bytes > memory ? bytes - memory : 0;
}

/* x and y; each pass goes through both from the beginning to the end. */
static void make_stream(struct ooc_program *p, uint64_t memory, double times)
{
	uint64_t chunk = memory / PART, chunks = (uint64_t)(times * (double)memory) / (2 * chunk);
	uint64_t c, array = chunks * chunk;
	const float factor = FACTOR;
	uint32_t pass, k;

	p->name = "stream";
	p->kernel = "saxpy";
	p->nr_arrays = 2;
	p->nr_pieces = 2;
	p->result = 1;
	p->passes = PASSES;
	p->arrays[0] = array;
	p->arrays[1] = array;
	memcpy(&p->args[0], &factor, sizeof(factor));
	p->args[1] = (uint32_t)(chunk / sizeof(float));
	p->arg_len = 8;
	p->nr_ids = (uint32_t)(2 * chunks);
	for (pass = 0; pass < PASSES; pass++) {
		for (c = 0; c < chunks; c++) {
			struct ooc_step *s = add_step(p);

			for (k = 0; k < 2; k++)
				s->pieces[k] = (struct ooc_piece){ k, (uint32_t)(2 * c + k), c * chunk, chunk,
								   k ? ARAX_INOUT : ARAX_IN };
		}
	}
	p->data = 2 * array;
	p->work = PASSES * p->data;
	p->in.any_order = p->data;
	p->in.this_order = p->data + (PASSES - 1) * beyond(p->data, memory);
	p->out.any_order = array;
	p->out.this_order = array + (PASSES - 1) * beyond(array, memory);
}

static uint64_t pairs_bytes(uint64_t side, uint64_t dims)
{
	return (2 * side * dims + side * side) * sizeof(float);
}

/* Tile i of a meets every tile of b; the result lies tile by tile. */
static void make_pairs(struct ooc_program *p, uint64_t memory, double times)
{
	uint64_t dims = MOST_DIMS, tile, tiles = 2, i, j, rows, cell;

	/* Rows that are long beside a tile's number of them: so a and b are most of it. */
	while (dims > 64 && dims * dims * sizeof(float) > memory / 4)
		dims /= 2;
	tile = memory / PART / (dims * sizeof(float));
	while (pairs_bytes((tiles + 1) * tile, dims) <= times * (double)memory)
		tiles++;
	p->name = "pairs";
	p->kernel = "distances_f32";
	p->nr_arrays = 3;
	p->nr_pieces = 3;
	p->result = 2;
	p->side = (uint32_t)(tiles * tile);
	p->tile = (uint32_t)tile;
	p->dims = (uint32_t)dims;
	rows = tile * dims * sizeof(float);
	cell = tile * tile * sizeof(float);
	p->arrays[0] = tiles * rows;
	p->arrays[1] = tiles * rows;
	p->arrays[2] = tiles * tiles * cell;
	p->args[0] = p->tile;
	p->args[1] = p->tile;
	p->args[2] = p->dims;
	p->arg_len = 12;
	p->nr_ids = (uint32_t)(2 * tiles + tiles * tiles);
	for (i = 0; i < tiles; i++) {
		for (j = 0; j < tiles; j++) {
			struct ooc_step *s = add_step(p);
			uint64_t at = i * tiles + j;

			s->pieces[0] = (struct ooc_piece){ 0, (uint32_t)i, i * rows, rows, ARAX_IN };
			s->pieces[1] = (struct ooc_piece){ 1, (uint32_t)(tiles + j), j * rows, rows,
							   ARAX_IN };
			s->pieces[2] = (struct ooc_piece){ 2, (uint32_t)(2 * tiles + at), at * cell, cell,
							   ARAX_OUT };
		}
	}
	p->data = p->arrays[0] + p->arrays[1] + p->arrays[2];
	p->work = p->nr_steps * (2 * rows + cell);
	p->in.any_order = p->arrays[0] + p->arrays[1];
	p->in.this_order = p->in.any_order + (tiles - 1) * beyond(p->arrays[1], memory);
	p->out.any_order = p->arrays[2];
	p->out.this_order = p->arrays[2];
}

void ooc_make(struct ooc_program *p, int which, uint64_t memory, double times)
{
	memset(p, 0, sizeof(*p));
	if (which)
		make_pairs(p, memory, times);
	else
		make_stream(p, memory, times);
}

void ooc_free(struct ooc_program *p)
{
	free(p->steps);
	p->steps = NULL;
}

/* ------------------------------------------------------------------ */

/* An element of a row: of the row's number, and of the place in it. */
static float row_part(uint64_t array, uint64_t row)
{
	return (float)(row % (array ? 5 : 7));
}

static float dim_part(uint64_t array, uint64_t dim)
{
	return (float)(dim % (array ? 3 : 2));
}

void ooc_fill(const struct ooc_program *p, float *const *arrays)
{
	uint64_t n = p->arrays[0] / sizeof(float), i, k;

	for (k = 0; k < p->nr_arrays; k++) {
		if (p->dims && k == p->result)
			memset(arrays[k], 0xff, p->arrays[k]);
		else if (p->dims)
			for (i = 0; i < n; i++)
				arrays[k][i] = row_part(k, i / p->dims) + dim_part(k, i % p->dims);
		else
			for (i = 0; i < n; i++)
				arrays[k][i] = (float)(i % (k ? 7 : 1000));
	}
}

static int64_t check_stream(const struct ooc_program *p, const float *y)
{
	uint64_t i;

	for (i = 0; i < p->arrays[1] / sizeof(float); i++)
		if (y[i] != (float)(i % 7) + (float)p->passes * FACTOR * (float)(i % 1000))
			return (int64_t)i;
	return -1;
}

/* The sum over d of (r + e(d))^2 is dims r^2 + 2 r sum(e) + sum(e^2). */
static int64_t check_pairs(const struct ooc_program *p, const float *result)
{
	uint64_t i, j, tiles = p->side / p->tile, at;
	float sum = 0, squares = 0, e, r;

	for (i = 0; i < p->dims; i++) {
		e = dim_part(0, i) - dim_part(1, i);
		sum += e;
		squares += e * e;
	}
	for (i = 0; i < p->side; i++) {
		for (j = 0; j < p->side; j++) {
			at = ((i / p->tile * tiles + j / p->tile) * p->tile + i % p->tile) * p->tile +
			     j % p->tile;
			r = row_part(0, i) - row_part(1, j);
			if (result[at] != (float)p->dims * r * r + 2 * r * sum + squares)
				return (int64_t)at;
		}
	}
	return -1;
}

int64_t ooc_check(const struct ooc_program *p, const float *result)
{
	return p->dims ? check_pairs(p, result) : check_stream(p, result);
}
