// SPDX-License-Identifier: MIT
/*
 * Kernels that end in one number of an array, or order one, in front of those in which one block does
 * it: by passes over all of a CUDA or HIP device (passes.cu), however large the client's grid is.
 * What is short is left to that block, which one launch brings to its end.  The passes are chosen
 * by arguments alone, never by contents.
 */
#include "daemon/kernels/std/passes_gpu.h"

ARAX_KERNEL arax_stream_fn arax_std_passes_sum_f32, arax_std_passes_sum_f64,
	arax_std_passes_dot_f32, arax_std_passes_sum_diff, arax_std_passes_max_f32,
	arax_std_passes_min_f32;

/* Fewer items for each multiprocessor are left to one block. */
#define FEW		64u

/* Blocks for each multiprocessor. */
#define BLOCKS		4u

#define ARGS(...)	((void *[]){ __VA_ARGS__ })

static bool has_items(const struct arax_launch *l, uint32_t i, uint64_t items, uint64_t bytes)
{
	return i < l->nr_ranges && l->ranges[i].count == 1 && l->ranges[i].length / bytes >= items;
}

/* Blocks of threads with @each items, but no more than the device runs at once. */
static uint32_t blocks_for(const struct pass_state *st, enum pass pass, uint64_t n, uint64_t each)
{
	uint64_t all = each * pass_threads(st, pass), nr = (n + all - 1) / all;
	uint64_t most = BLOCKS * st->multiprocessors;

	return (uint32_t)(nr < most ? nr : most);
}

/* ------------------------------------------------------------------ */
/* Into one number                                                     */

struct n_args {
	uint32_t n;
};

#define EACH	16u	/* items of a thread */

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
		err = pass_ready(s, st, parts_bytes(st));
	if (err)
		return err;
	x = l->ranges[0].data;
	y = l->ranges[1].data;
	to = l->ranges[1 + two].data;
	parts = blocks_for(st, pass, a.n, EACH);
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
		err = pass_ready(s, st, parts_bytes(st));
	if (err)
		return err;
	x = l->ranges[0].data;
	to = l->ranges[1].data;
	parts = blocks_for(st, PASS_greatest, a.n, EACH);
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
