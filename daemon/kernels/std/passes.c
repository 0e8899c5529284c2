// SPDX-License-Identifier: MIT
/*
 * Kernels that end in one number of an array, or order one, in front of those in which one block does
 * it: by passes over all of a CUDA or HIP device (passes.cu), however large the client's grid is.
 * What is short is left to that block, which one launch brings to its end.  The passes are chosen
 * by arguments alone, never by contents.
 */
#include <float.h>

#include "daemon/kernels/std/passes_gpu.h"

ARAX_KERNEL arax_stream_fn arax_std_passes_sum_f32, arax_std_passes_sum_f64,
	arax_std_passes_dot_f32, arax_std_passes_sum_diff, arax_std_passes_max_f32,
	arax_std_passes_min_f32, arax_std_passes_scan_u32, arax_std_passes_scan_f32,
	arax_std_passes_histogram_u8, arax_std_passes_histogram_f32, arax_std_passes_kmeans_update,
	arax_std_passes_sort_u32, arax_std_passes_sort_f32, arax_std_passes_sort_pairs_u32;

/* Of fewer items for each multiprocessor one block is as quick: of what it reads once, and more often. */
#define FEW		64u
#define FEW_OFTEN	8u

/* Blocks for each multiprocessor: of those that load most at once, and of others. */
#define BLOCKS		4u
#define MORE_BLOCKS	8u

/* And last what all of them take. */
#define ARGS(...)	((void *[]){ __VA_ARGS__, (void *)s->result })

static bool has_items(const struct arax_launch *l, uint32_t i, uint64_t items, uint64_t bytes)
{
	return i < l->nr_ranges && l->ranges[i].count == 1 && l->ranges[i].length / bytes >= items;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t pieces(uint64_t n, uint64_t of)
{
	return (n + of - 1) / of;
}

/* Blocks of threads with EACH items, but no more than @most for each multiprocessor. */
#define EACH	16u

static uint32_t blocks_for(const struct pass_state *st, enum pass pass, uint64_t n, uint64_t most)
{
	return (uint32_t)least(pieces(n, EACH * pass_threads(st, pass)), most * st->multiprocessors);
}

/* A thread for each of @n. */
static uint32_t blocks_of(const struct pass_state *st, enum pass pass, uint64_t n)
{
	return (uint32_t)pieces(n, pass_threads(st, pass));
}

/* ------------------------------------------------------------------ */
/* Into one number                                                     */

struct n_args {
	uint32_t n;
};

static uint64_t parts_bytes(const struct pass_state *st)
{
	return BLOCKS * st->multiprocessors * sizeof(double);
}

/* @two: arrays; @bytes: of an item; @add: to the number that is there */
static int sum(const struct arax_launch *l, const struct arax_stream *s, enum pass pass, bool two,
	       uint64_t bytes, uint32_t add)
{
	struct pass_state *st;
	struct n_args a;
	uint32_t parts;
	void *x, *y, *to;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)) || !has_items(l, 0, a.n, bytes) ||
	    (two && !has_items(l, 1, a.n, bytes)) || !has_items(l, 1 + two, 1, sizeof(double)))
		return -EINVAL;
	err = pass_begin(s, a.n, FEW, &st);
	if (!err)
		err = pass_ready(st, parts_bytes(st));
	if (err)
		return err;
	x = l->ranges[0].data;
	y = l->ranges[1].data;
	to = l->ranges[1 + two].data;
	parts = blocks_for(st, pass, a.n, BLOCKS);
	err = pass_launch(s, st, pass, parts, 1, two ? ARGS(&x, &y, &st->scratch, &a.n) :
						       ARGS(&x, &st->scratch, &a.n));
	return err ? err : pass_launch(s, st, PASS_sum_parts, 1, 1,
				       ARGS(&st->scratch, &to, &parts, &add));
}

int arax_std_passes_sum_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	return sum(l, s, PASS_sum_f32, false, sizeof(float), 0);
}

int arax_std_passes_sum_f64(const struct arax_launch *l, const struct arax_stream *s)
{
	return sum(l, s, PASS_sum_f64, false, sizeof(double), 0);
}

int arax_std_passes_dot_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	return sum(l, s, PASS_dot_f32, true, sizeof(float), 0);
}

int arax_std_passes_sum_diff(const struct arax_launch *l, const struct arax_stream *s)
{
	return sum(l, s, PASS_sum_diff, true, sizeof(float), 1);
}

/* The greatest of sign * x[i], times sign. */
static int extreme(const struct arax_launch *l, const struct arax_stream *s, float sign)
{
	struct pass_state *st;
	struct n_args a;
	uint32_t parts;
	void *x, *to;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n || !has_items(l, 0, a.n, sizeof(float)) ||
	    !has_items(l, 1, 1, sizeof(float)))
		return -EINVAL;
	err = pass_begin(s, a.n, FEW, &st);
	if (!err)
		err = pass_ready(st, parts_bytes(st));
	if (err)
		return err;
	x = l->ranges[0].data;
	to = l->ranges[1].data;
	parts = blocks_for(st, PASS_greatest, a.n, BLOCKS);
	err = pass_launch(s, st, PASS_greatest, parts, 1, ARGS(&x, &st->scratch, &a.n, &sign));
	return err ? err : pass_launch(s, st, PASS_greatest_parts, 1, 1,
				       ARGS(&st->scratch, &to, &parts, &sign));
}

int arax_std_passes_max_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	return extreme(l, s, 1);
}

int arax_std_passes_min_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	return extreme(l, s, -1);
}

/* ------------------------------------------------------------------ */
/* Scans                                                               */

static int scan(const struct arax_launch *l, const struct arax_stream *s, enum pass sums,
		enum pass pass)
{
	struct { uint32_t n, exclusive; } a;
	struct pass_state *st;
	uint32_t parts;
	void *x, *y;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)) || a.exclusive > 1 ||
	    !has_items(l, 0, a.n, sizeof(uint32_t)) || !has_items(l, 1, a.n, sizeof(uint32_t)))
		return -EINVAL;
	err = pass_begin(s, a.n, FEW, &st);
	if (!err)
		err = pass_ready(st, MORE_BLOCKS * st->multiprocessors * sizeof(double));
	if (err)
		return err;
	x = l->ranges[0].data;
	y = l->ranges[1].data;
	parts = (uint32_t)least(pieces(a.n, SCAN_TILE), MORE_BLOCKS * st->multiprocessors);
	err = pass_launch(s, st, sums, parts, 1, ARGS(&x, &st->scratch, &a.n));
	return err ? err : pass_launch(s, st, pass, parts, 1,
				       ARGS(&x, &st->scratch, &y, &a.n, &a.exclusive));
}

int arax_std_passes_scan_u32(const struct arax_launch *l, const struct arax_stream *s)
{
	return scan(l, s, PASS_scan_sums_u32, PASS_scan_u32);
}

int arax_std_passes_scan_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	return scan(l, s, PASS_scan_sums_f32, PASS_scan_f32);
}

/* ------------------------------------------------------------------ */
/* Counting                                                            */

#define BYTES		256u	/* different ones */
#define MAX_BINS	65536u

int arax_std_passes_histogram_u8(const struct arax_launch *l, const struct arax_stream *s)
{
	uint32_t bins = BYTES;
	struct pass_state *st;
	struct n_args a;
	void *x, *bin;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)) || !has_items(l, 0, a.n, 1) ||
	    !has_items(l, 1, bins, sizeof(uint32_t)))
		return -EINVAL;
	err = pass_begin(s, a.n, FEW, &st);
	if (!err)
		err = pass_ready(st, 0);
	if (err)
		return err;
	x = l->ranges[0].data;
	bin = l->ranges[1].data;
	err = pass_launch(s, st, PASS_clear, blocks_of(st, PASS_clear, bins), 1, ARGS(&bin, &bins));
	return err ? err : pass_launch(s, st, PASS_count_u8,
				       blocks_for(st, PASS_count_u8, a.n, MORE_BLOCKS), 1,
				       ARGS(&x, &bin, &a.n));
}

int arax_std_passes_histogram_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	struct { float low, high; uint32_t n, bins; } a;
	struct pass_state *st;
	void *x, *bin;
	float scale;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	scale = (float)a.bins / (a.high - a.low);
	if (!a.bins || a.bins > MAX_BINS || !(a.low < a.high) || a.high - a.low > FLT_MAX ||
	    scale > FLT_MAX || !has_items(l, 0, a.n, sizeof(float)) ||
	    !has_items(l, 1, a.bins, sizeof(uint32_t)))
		return -EINVAL;
	err = pass_begin(s, a.n, FEW, &st);
	if (!err)
		err = pass_ready(st, 0);
	if (err)
		return err;
	x = l->ranges[0].data;
	bin = l->ranges[1].data;
	err = pass_launch(s, st, PASS_clear, blocks_of(st, PASS_clear, a.bins), 1, ARGS(&bin, &a.bins));
	return err ? err : pass_launch(s, st, PASS_count_f32,
				       blocks_for(st, PASS_count_f32, a.n, MORE_BLOCKS),
				       (uint32_t)pieces(a.bins, COUNT_ROOM),
				       ARGS(&x, &bin, &a.low, &a.high, &scale, &a.n, &a.bins));
}

/* ------------------------------------------------------------------ */
/* Centers                                                             */

struct kmeans_args {
	uint32_t n, dims, k;
};

/* How they are dealt: see the kernel. */
struct tiles {
	uint32_t wide, centers, teams, tiles, parts;
	uint64_t part_bytes;
};

static int deal(const struct pass_state *st, const struct kmeans_args *a, struct tiles *t)
{
	const uint32_t threads = pass_threads(st, PASS_mean_sums);
	uint64_t sums = (uint64_t)a->k * a->dims, tiles, parts;

	if (sums > SCRATCH_MAX / (sizeof(double) + sizeof(uint32_t)))
		return -EOPNOTSUPP;
	/* What one warp loads together; and room for two teams. */
	t->wide = (uint32_t)least(a->dims, least(threads, 32));
	t->centers = (uint32_t)least(a->k, least(MEAN_COUNTS / 2, MEAN_SUMS / 2 / t->wide));
	t->teams = (uint32_t)least(threads / t->wide, least(MEAN_SUMS / t->wide, MEAN_COUNTS) /
						      t->centers);
	tiles = pieces(a->dims, t->wide) * pieces(a->k, t->centers);
	t->part_bytes = sums * sizeof(double) + a->k * sizeof(uint32_t);
	parts = least(BLOCKS * st->multiprocessors / tiles, SCRATCH_MAX / t->part_bytes);
	parts = least(parts, pieces(a->n, EACH * t->teams));
	t->parts = parts ? (uint32_t)parts : 1;
	t->tiles = (uint32_t)tiles;
	return 0;
}

int arax_std_passes_kmeans_update(const struct arax_launch *l, const struct arax_stream *s)
{
	void *x, *label, *center, *count;
	struct pass_state *st;
	struct kmeans_args a;
	struct tiles t = { 0 };
	uint32_t each;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.k || !a.dims ||
	    !has_items(l, 0, (uint64_t)a.n * a.dims, sizeof(float)) ||
	    !has_items(l, 1, a.n, sizeof(uint32_t)) ||
	    !has_items(l, 2, (uint64_t)a.k * a.dims, sizeof(float)))
		return -EINVAL;
	err = pass_begin(s, a.n, FEW_OFTEN, &st);
	if (!err)
		err = pass_ready(st, 0);
	if (!err)
		err = deal(st, &a, &t);
	if (!err)
		err = pass_ready(st, t.parts * t.part_bytes);
	if (err)
		return err;
	x = l->ranges[0].data;
	label = l->ranges[1].data;
	center = l->ranges[2].data;
	count = (char *)st->scratch + (uint64_t)t.parts * a.k * a.dims * sizeof(double);
	err = pass_launch(s, st, PASS_mean_sums, t.parts * t.tiles, 1,
			  ARGS(&x, &label, &st->scratch, &count, &a.n, &a.dims, &a.k, &t.wide,
			       &t.centers, &t.teams, &t.tiles));
	each = pass_threads(st, PASS_means) / MEAN_SLICES(pass_threads(st, PASS_means));
	return err ? err : pass_launch(s, st, PASS_means,
				       (uint32_t)pieces((uint64_t)a.k * a.dims, each), 1,
				       ARGS(&st->scratch, &count, &center, &a.dims, &a.k, &t.parts));
}

/* ------------------------------------------------------------------ */
/* Sorting                                                             */

struct sorting {
	const struct arax_stream *s;
	const struct pass_state *st;
	enum pass tile, far;
	void *key, *value;		/* NULL: keys alone */
	uint32_t n;
};

static int sort_tiles(const struct sorting *o, uint32_t all_merges)
{
	const struct arax_stream *s = o->s;
	struct sorting a = *o;

	return pass_launch(s, o->st, o->tile, (uint32_t)pieces(o->n, SORT_BLOCK), 1,
			   o->value ? ARGS(&a.key, &a.value, &a.n, &all_merges) :
				      ARGS(&a.key, &a.n, &all_merges));
}

static int sort_far(const struct sorting *o, uint32_t step, uint32_t steps, uint32_t from_ends)
{
	const struct arax_stream *s = o->s;
	struct sorting a = *o;

	return pass_launch(s, o->st, o->far,
			   blocks_of(o->st, o->far, SORT_GROUPS(o->n, step, steps)), 1,
			   o->value ? ARGS(&a.key, &a.value, &a.n, &step, &steps, &from_ends) :
				      ARGS(&a.key, &a.n, &step, &steps, &from_ends));
}

/* As many launches as n says. */
static int sort(const struct sorting *o)
{
	int err = sort_tiles(o, 1);

	for (uint64_t half = SORT_BLOCK; !err && half < o->n; half *= 2) {
		for (uint32_t step = (uint32_t)half, steps; !err && step >= SORT_BLOCK; step >>= steps) {
			steps = 1;
			while (steps < SORT_FUSED && step >> steps >= SORT_BLOCK)
				steps++;
			err = sort_far(o, step, steps, step == half);
		}
		if (!err)
			err = sort_tiles(o, 0);
	}
	return err;
}

static int sort_keys(const struct arax_launch *l, const struct arax_stream *s, enum pass tile,
		     enum pass far, bool pairs)
{
	struct sorting o = { .s = s, .tile = tile, .far = far };
	struct pass_state *st;
	struct n_args a;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)) || !has_items(l, 0, a.n, sizeof(uint32_t)) ||
	    (pairs && !has_items(l, 1, a.n, sizeof(uint32_t))))
		return -EINVAL;
	err = pass_begin(s, a.n, FEW_OFTEN, &st);
	if (!err)
		err = pass_ready(st, 0);
	if (err)
		return err;
	o.st = st;
	o.key = l->ranges[0].data;
	o.value = pairs ? l->ranges[1].data : NULL;
	o.n = a.n;
	return sort(&o);
}

int arax_std_passes_sort_u32(const struct arax_launch *l, const struct arax_stream *s)
{
	return sort_keys(l, s, PASS_sort_tile_u32, PASS_sort_far_u32, false);
}

int arax_std_passes_sort_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	return sort_keys(l, s, PASS_sort_tile_f32, PASS_sort_far_f32, false);
}

int arax_std_passes_sort_pairs_u32(const struct arax_launch *l, const struct arax_stream *s)
{
	return sort_keys(l, s, PASS_sort_tile_pairs, PASS_sort_far_pairs, true);
}
