/* SPDX-License-Identifier: MIT */
/* What arax-std's GPU kernels share. */
#ifndef ARAX_STD_GPU_H
#define ARAX_STD_GPU_H

#include <arax/gpu.h>

#define SHORT(items, n) ((uint64_t)(n) > (items))

/*
 * An f32 sum that has grown large loses more of each term.  So of a long one runs of terms are
 * added up in f32, which GPUs are quick at, and what comes of them in f64.
 */
#define RUN	128u

/* Read once: its owner may write to it meanwhile. */
template <typename T> static __device__ inline T once(const T *p)
{
	return *(const volatile T *)p;
}

/*
 * Into one number: one block does it, whatever the grid, with at most PARTS of its threads,
 * whose parts are put together at last.  Threads take turns in the array, so that
 * neighbours read neighbouring memory.
 */
#define PARTS 256u

static __device__ inline uint64_t parts_used(void)
{
	return arax_items() < PARTS ? arax_items() : PARTS;
}

/*
 * Of each thread that takes part, one number: put together by halves, for the first one.  All
 * threads call it; @parts may be used again when it returns.
 */
template <typename T, typename F>
static __device__ inline T put_together(T *parts, T mine, F put)
{
	uint64_t me = arax_item(), used = parts_used(), half = 1;

	while (2 * half < used)
		half *= 2;
	if (me < used)
		parts[me] = mine;
	for (; half; half /= 2) {
		__syncthreads();
		if (me < half && me + half < used)
			parts[me] = put(parts[me], parts[me + half]);
	}
	__syncthreads();
	mine = parts[0];
	__syncthreads();
	return mine;
}

struct plus {
	template <typename T> __device__ T operator()(T a, T b) const
	{
		return a + b;
	}
};

/* A NaN is never greater. */
struct greater {
	__device__ float operator()(float a, float b) const
	{
		return b > a ? b : a;
	}
};

/* Their sum. */
template <typename T> static __device__ inline T add_parts(T *parts, T mine)
{
	return put_together(parts, mine, plus());
}

/* Where part @p of @parts of @n items begins. */
#define PART(n, parts, p)	((uint64_t)(p) * (n) / (parts))

/* The greatest of sign * x[i], every @step'th from @i on; a NaN is never greater. */
static __device__ inline float extreme_of(const float *x, uint64_t i, uint64_t end, uint64_t step,
					  float sign)
{
	float best = -__builtin_huge_valf();

	for (; i < end; i += step) {
		float v = sign * x[i];

		best = v > best ? v : best;
	}
	return best;
}

/* a * b * c into *n; false if that is more than @most. */
static __device__ inline bool product(uint64_t a, uint64_t b, uint64_t c, uint64_t most, uint64_t *n)
{
	*n = a && b && c ? a : 0;
	if (!*n)
		return true;
	if (*n > most / b)
		return false;
	*n *= b;
	if (*n > most / c)
		return false;
	*n *= c;
	return true;
}

/* The same of four. */
static __device__ inline bool product(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t most,
				      uint64_t *n)
{
	if (!d) {
		*n = 0;
		return true;
	}
	if (!product(a, b, c, most, n) || *n > most / d)
		return false;
	*n *= d;
	return true;
}

/*
 * Rows of a matrix are dealt to teams of threads: as many rows at once as a block has teams, whose
 * threads take turns in the columns.  Short rows have small teams; where there are too few rows
 * for all blocks to have some, teams are larger.  All threads of a block take as many turns, also
 * those that are in no team, or whose team has no row: they meet at barriers.
 */
struct team {
	uint32_t wide;		/* a power of 2: threads of a team */
	uint32_t mine;		/* which of its threads this is; wide: of none */
	uint64_t teams;		/* of the block */
	uint64_t which;		/* of them this thread is in; 0 if in none */
};

#define TEAM_COLUMNS	16u	/* a thread's, if rows are enough */
#define TEAM_BLOCKS	1024u	/* GPUs run as many, or fewer, at once */

static __device__ inline team team_for(uint64_t rows, uint64_t cols)
{
	const uint64_t used = parts_used(), me = arax_item();
	const uint64_t blocks = arax_groups() < TEAM_BLOCKS ? arax_groups() : TEAM_BLOCKS;
	uint32_t wide = 1;
	team t;

	while (2 * wide <= used && wide < cols &&
	       ((uint64_t)wide * TEAM_COLUMNS < cols || rows * wide < blocks * used))
		wide *= 2;
	t.wide = wide;
	t.teams = used / wide;
	t.which = me < t.teams * wide ? me / wide : 0;
	t.mine = me < t.teams * wide ? (uint32_t)(me % wide) : wide;
	return t;
}

/* A loop over the block's turns; of each, the row that is @t's: of a thread in no team, or none, beyond all. */
#define TEAM_EACH(r, t, rows) \
	for (uint64_t r##_turn = arax_group() * (t).teams, \
	     r = (t).mine < (t).wide ? r##_turn + (t).which : UINT64_MAX; \
	     r##_turn < (rows); \
	     r##_turn += arax_groups() * (t).teams, \
	     r = (t).mine < (t).wide ? r##_turn + (t).which : UINT64_MAX)

/* Of each thread of a team one number, put together for all of them.  All threads of the block call it. */
template <typename T, typename F>
static __device__ inline T team_together(const team &t, T *parts, T mine, F put)
{
	const uint64_t first = t.which * t.wide, me = first + t.mine;

	if (t.wide == 1)
		return mine;
	if (t.mine < t.wide)
		parts[me] = mine;
	for (uint32_t half = t.wide / 2; half; half /= 2) {
		__syncthreads();
		if (t.mine < half)
			parts[me] = put(parts[me], parts[me + half]);
	}
	__syncthreads();
	mine = parts[first];
	__syncthreads();
	return mine;
}

/*
 * This thread's part of the items of a matrix, as ARAX_EACH deals them, with their rows and
 * columns: by one division, as GPUs have none.
 */
struct walk {
	uint64_t i, end, row, cols;	/* cols: 2^32 at most */
	uint32_t col, step, down, across;
};

static __device__ inline walk walk_begin(uint64_t n, uint64_t cols)
{
	const uint64_t i = arax_share(n, arax_group()) + arax_item();
	const uint64_t end = arax_share(n, arax_group() + 1);
	const uint32_t step = (uint32_t)arax_items();

	if (i >= end)
		return walk{ end, end, 0, cols, 0, step, 0, 0 };
	return walk{ i, end, i / cols, cols, (uint32_t)(i % cols), step, (uint32_t)(step / cols),
		     (uint32_t)(step % cols) };
}

static __device__ inline void walk_on(walk *w)
{
	uint64_t col = (uint64_t)w->col + w->across;

	w->i += w->step;
	w->row += w->down;
	if (col >= w->cols) {
		col -= w->cols;
		w->row++;
	}
	w->col = (uint32_t)col;
}

/* @n is not 0 where @cols is 0 */
#define WALK(w, n, cols) \
	for (walk w = walk_begin((n), (cols)); w.i < w.end; walk_on(&w))

/* A walk whose rows are of planes. */
struct walk3 {
	walk in;
	uint64_t height;		/* 2^32 at most */
	uint32_t row, plane, rows_down, planes_down;
};

static __device__ inline walk3 walk3_begin(uint64_t n, uint64_t width, uint64_t height)
{
	const walk w = walk_begin(n, width);

	if (w.i >= w.end)
		return walk3{ w, height, 0, 0, 0, 0 };
	return walk3{ w, height, (uint32_t)(w.row % height), (uint32_t)(w.row / height),
		      (uint32_t)(w.down % height), (uint32_t)(w.down / height) };
}

static __device__ inline void walk3_on(walk3 *w)
{
	const uint64_t before = w->in.row;
	uint64_t row = w->row;

	walk_on(&w->in);
	row += w->rows_down + (w->in.row - before - w->in.down);
	w->plane += w->planes_down;
	if (row >= w->height) {
		row -= w->height;
		w->plane++;
	}
	w->row = (uint32_t)row;
}

/* The sine and cosine of pi x, exact where these are 0 or 1. */
static __device__ inline void turn_by(float x, float *c, float *s)
{
#if defined(__CUDACC__) || defined(__HIP__)
	sincospif(x, s, c);
#else
	*s = (float)sin(3.14159265358979323846 * (double)x);
	*c = (float)cos(3.14159265358979323846 * (double)x);
#endif
}

#endif /* ARAX_STD_GPU_H */
