// SPDX-License-Identifier: MIT
/*
 * Grids and matrices of f32, row after row without gaps: stencils, and a matrix turned.
 * Work is dealt to work-groups by rows (of the output).
 */
#include "daemon/kernels/std/std.h"

int arax_std_stencil5_f32(const struct arax_launch *l);
int arax_std_stencil7_f32(const struct arax_launch *l);
int arax_std_transpose_f32(const struct arax_launch *l);

struct stencil_args {
	uint32_t width, height, depth;
	float center, side;
};

struct stencil5_args {
	uint32_t width, height;
	float center, side;
};

/*
 * A row that has neighbours in `rows` directions, two items each.  The sides are added in
 * the order of the rows, left and right last.
 */
STD_INLINE void stencil_row(float *y, const float *x, uint64_t width, const float *const *side,
			    uint32_t rows, const struct stencil_args *a)
{
	y[0] = x[0];
	y[width - 1] = x[width - 1];
	for (uint64_t i = 1; i + 1 < width; i++) {
		float sum = side[0][i] + side[1][i];

		if (rows == 4)
			sum = sum + (side[2][i] + side[3][i]);
		sum = sum + (*(x + i - 1) + x[i + 1]);
		y[i] = a->center * x[i] + a->side * sum;
	}
}

STD_CLONES
static void stencil5_row(float *y, const float *x, uint64_t width, const struct stencil_args *a)
{
	const float *const side[] = { x - width, x + width };

	stencil_row(y, x, width, side, 2, a);
}

STD_CLONES
static void stencil7_row(float *y, const float *x, uint64_t width, uint64_t plane,
			 const struct stencil_args *a)
{
	const float *const side[] = { x - plane, x + plane, x - width, x + width };

	stencil_row(y, x, width, side, 4, a);
}

static int stencil(const struct arax_launch *l, const struct stencil_args *a, bool deep)
{
	uint64_t width = a->width, plane = width * a->height, n, row, end;
	const float *x;
	float *y;

	if (__builtin_mul_overflow(plane, a->depth, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	y = ARAX_ITEMS(l, 1, n, float);
	if (!x || !y)
		return -EINVAL;
	if (!n)
		return 0;
	arax_launch_share(l, (uint64_t)a->height * a->depth, &row, &end);
	for (; row < end; row++) {
		uint64_t at = row * width, r = row % a->height, z = row / a->height;

		if (!r || r == a->height - 1 || (deep && (!z || z == a->depth - 1)))
			memcpy(y + at, x + at, width * sizeof(*y));
		else if (deep)
			stencil7_row(y + at, x + at, width, plane, a);
		else
			stencil5_row(y + at, x + at, width, a);
	}
	return 0;
}

/*
 * stencil5_f32(in f32 x[], out f32 y[], u32 width, u32 height, f32 center, f32 side):
 * y = center * x + side * (the 4 around it); what is at an edge stays as it is
 */
ARAX_KERNEL int arax_std_stencil5_f32(const struct arax_launch *l)
{
	struct stencil5_args a;
	struct stencil_args all;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	all = (struct stencil_args){ a.width, a.height, 1, a.center, a.side };
	return stencil(l, &all, false);
}

/*
 * stencil7_f32(in f32 x[], out f32 y[], u32 width, u32 height, u32 depth, f32 center, f32 side):
 * the same with the 6 around it, plane after plane
 */
ARAX_KERNEL int arax_std_stencil7_f32(const struct arax_launch *l)
{
	struct stencil_args a;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	return stencil(l, &a, true);
}

#define SIDE	16u	/* of a square that is turned at once: both sides of it stay in the cache */

struct transpose_args {
	uint32_t rows, cols;
};

/* Rows of y (columns of x) `c` to `end`. */
STD_CLONES
static void transpose(float *y, const float *x, uint64_t rows, uint64_t cols, uint64_t c,
		      uint64_t end)
{
	for (; c < end; c += SIDE) {
		uint64_t across = end - c < SIDE ? end - c : SIDE;

		for (uint64_t r = 0; r < rows; r += SIDE) {
			uint64_t down = rows - r < SIDE ? rows - r : SIDE;

			for (uint64_t i = 0; i < across; i++)
				for (uint64_t j = 0; j < down; j++)
					y[(c + i) * rows + r + j] = x[(r + j) * cols + c + i];
		}
	}
}

/* transpose_f32(in f32 x[], out f32 y[], u32 rows, u32 cols): y is cols x rows */
ARAX_KERNEL int arax_std_transpose_f32(const struct arax_launch *l)
{
	struct transpose_args a;
	uint64_t n, c, end;
	const float *x;
	float *y;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	n = (uint64_t)a.rows * a.cols;
	x = ARAX_ITEMS(l, 0, n, float);
	y = ARAX_ITEMS(l, 1, n, float);
	if (!x || !y)
		return -EINVAL;
	if (!n)
		return 0;
	arax_launch_share(l, a.cols, &c, &end);
	transpose(y, x, a.rows, a.cols, c, end);
	return 0;
}
