// SPDX-License-Identifier: MIT
/*
 * Kernels of classifiers.  A matrix is rows of samples without padding between
 * them; work is dealt to work-groups by rows, but for zscore, where it is by columns.
 */
#include <math.h>
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/std/vmath.h"

int arax_std_matmul_i32(const struct arax_launch *l);
int arax_std_matmul_f32(const struct arax_launch *l);
int arax_std_row_max(const struct arax_launch *l);
int arax_std_log_sum_exp(const struct arax_launch *l);
int arax_std_exp_rows(const struct arax_launch *l);
int arax_std_softmax(const struct arax_launch *l);
int arax_std_zscore(const struct arax_launch *l);
int arax_std_add_row(const struct arax_launch *l);
int arax_std_argmax_sum(const struct arax_launch *l);

#define TILE	512u	/* items that stay in the first cache together */

struct matrix_args {
	uint32_t rows, cols;
};

struct product_args {
	uint32_t rows, features, classes;
};

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ------------------------------------------------------------------ */
/* Products                                                            */

/* y[k] += x * w[k], four rows of w at once: each piece of x is loaded once for all. */
STD_INLINE void dot4(float *y, const float *x, const float *w, uint64_t stride, uint64_t n)
{
	std_v8 sum[4] = { { 0 } };
	uint64_t i = 0;

	for (; i + 8 <= n; i += 8)
		for (uint64_t k = 0; k < 4; k++)
			sum[k] += *(const std_v8 *)(x + i) * *(const std_v8 *)(w + k * stride + i);
	for (uint64_t k = 0; k < 4; k++)
		y[k] += std_sum8(&sum[k]);
	for (; i < n; i++)
		for (uint64_t k = 0; k < 4; k++)
			y[k] += x[i] * w[k * stride + i];
}

STD_INLINE void dot1(float *y, const float *x, const float *w, uint64_t n)
{
	std_v8 sum = { 0 };
	uint64_t i = 0;

	for (; i + 8 <= n; i += 8)
		sum += *(const std_v8 *)(x + i) * *(const std_v8 *)(w + i);
	*y += std_sum8(&sum);
	for (; i < n; i++)
		*y += x[i] * w[i];
}

STD_INLINE void dots(float *y, const float *x, const float *w, const struct product_args *a,
		     uint64_t n)
{
	uint64_t c = 0;

	for (; c + 4 <= a->classes; c += 4)
		dot4(y + c, x, w + c * a->features, a->features, n);
	for (; c < a->classes; c++)
		dot1(y + c, x, w + c * a->features, n);
}

STD_FMA_CLONES
static void product_i32(float *y, const int32_t *x, const float *w, const struct product_args *a,
			uint64_t row, uint64_t end)
{
	float part[TILE];

	for (; row < end; row++) {
		float *out = y + row * a->classes;

		memset(out, 0, a->classes * sizeof(*out));
		for (uint64_t f = 0; f < a->features; f += TILE) {
			const int32_t *in = x + row * a->features + f;
			uint64_t n = least(TILE, a->features - f);

			for (uint64_t i = 0; i < n; i++)
				part[i] = (float)in[i];
			dots(out, part, w + f, a, n);
		}
	}
}

STD_FMA_CLONES
static void product_f32(float *y, const float *x, const float *w, const struct product_args *a,
			uint64_t row, uint64_t end)
{
	for (; row < end; row++) {
		float *out = y + row * a->classes;

		memset(out, 0, a->classes * sizeof(*out));
		for (uint64_t f = 0; f < a->features; f += TILE)
			dots(out, x + row * a->features + f, w + f, a, least(TILE, a->features - f));
	}
}

static int run_product(const struct arax_launch *l, int integers)
{
	struct product_args args;
	uint64_t begin, end;
	const float *w;
	const void *x;
	float *y;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	x = arax_launch_items(l, 0, (uint64_t)args.rows * args.features, 4);
	w = ARAX_ITEMS(l, 1, (uint64_t)args.classes * args.features, float);
	y = ARAX_ITEMS(l, 2, (uint64_t)args.rows * args.classes, float);
	if (!x || !w || !y)
		return -EINVAL;
	if (!args.classes)	/* rows without end may have none */
		return 0;
	arax_launch_share(l, args.rows, &begin, &end);
	if (integers)
		product_i32(y, x, w, &args, begin, end);
	else
		product_f32(y, x, w, &args, begin, end);
	return 0;
}

/*
 * matmul_i32(in i32 x[], in f32 w[], out f32 y[], u32 rows, u32 features, u32 classes):
 * y = x * w', w being classes x features
 */
ARAX_KERNEL int arax_std_matmul_i32(const struct arax_launch *l)
{
	return run_product(l, 1);
}

/* matmul_f32(in f32 x[], ...): the same */
ARAX_KERNEL int arax_std_matmul_f32(const struct arax_launch *l)
{
	return run_product(l, 0);
}

/* ------------------------------------------------------------------ */
/* Rows                                                                */

/* Arguments of (u32 rows, u32 cols), cols at least 1. */
static int matrix(const struct arax_launch *l, struct matrix_args *args, uint64_t *items)
{
	if (arax_launch_args(l, args, sizeof(*args)) || !args->cols)
		return -EINVAL;
	*items = (uint64_t)args->rows * args->cols;
	return 0;
}

/* A NaN is never greater. */
STD_INLINE float greatest(const float *x, uint64_t n)
{
	float best = -__builtin_inff();

	for (uint64_t i = 0; i < n; i++)
		best = x[i] > best ? x[i] : best;
	return best;
}

/* row_max(in f32 x[], out f32 max[], u32 rows, u32 cols) */
ARAX_KERNEL int arax_std_row_max(const struct arax_launch *l)
{
	struct matrix_args args;
	uint64_t items, i, end;
	const float *x;
	float *max;

	if (matrix(l, &args, &items))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, items, float);
	max = ARAX_ITEMS(l, 1, args.rows, float);
	if (!x || !max)
		return -EINVAL;
	arax_launch_share(l, args.rows, &i, &end);
	for (; i < end; i++)
		max[i] = greatest(x + i * args.cols, args.cols);
	return 0;
}

/* Of a tile at most: an f32 sum that has grown large loses more of each term. */
STD_INLINE float sum_of(const float *x, uint64_t n)
{
	float sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += x[i];
	return sum;
}

STD_INLINE float sum_of_tiles(const float *x, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i += TILE)
		sum += (double)sum_of(x + i, least(TILE, n - i));
	return (float)sum;
}

/*
 * Rows are short: so many at once as fill a tile have their exponentials taken
 * in one loop.  Of a long row, one piece after another.
 */
STD_CLONES
static void log_sum_exp(float *lse, const float *x, const float *max, uint64_t cols, uint64_t row,
			uint64_t end)
{
	uint64_t width = least(cols, TILE), height = TILE / width;
	float part[TILE];

	while (row < end) {
		uint64_t rows = least(height, end - row);
		double sum[TILE] = { 0 };

		for (uint64_t c = 0; c < cols; c += width) {
			uint64_t n = least(width, cols - c);

			for (uint64_t r = 0; r < rows; r++)
				for (uint64_t i = 0; i < n; i++)
					part[r * n + i] = x[(row + r) * cols + c + i] -
							  max[row + r];
			for (uint64_t i = 0; i < rows * n; i++)
				part[i] = std_expf(part[i]);
			for (uint64_t r = 0; r < rows; r++)
				sum[r] += (double)sum_of(part + r * n, n);
		}
		for (uint64_t r = 0; r < rows; r++)
			lse[row + r] = max[row + r] + logf((float)sum[r]);
		row += rows;
	}
}

/*
 * log_sum_exp(in f32 x[], in f32 max[], out f32 lse[], u32 rows, u32 cols):
 * lse = max + log(sum of exp(x - max)) of each row
 */
ARAX_KERNEL int arax_std_log_sum_exp(const struct arax_launch *l)
{
	struct matrix_args args;
	uint64_t items, begin, end;
	const float *x, *max;
	float *lse;

	if (matrix(l, &args, &items))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, items, float);
	max = ARAX_ITEMS(l, 1, args.rows, float);
	lse = ARAX_ITEMS(l, 2, args.rows, float);
	if (!x || !max || !lse)
		return -EINVAL;
	arax_launch_share(l, args.rows, &begin, &end);
	log_sum_exp(lse, x, max, args.cols, begin, end);
	return 0;
}

/* In place, a tile of rows at a time, so that exponentials come in long loops. */
STD_CLONES
static void exp_rows(float *x, const float *less, uint64_t cols, uint64_t row, uint64_t end)
{
	uint64_t height = cols < TILE ? TILE / cols : 1;

	while (row < end) {
		uint64_t rows = least(height, end - row);
		float *tile = x + row * cols;

		for (uint64_t r = 0; r < rows; r++)
			for (uint64_t i = 0; i < cols; i++)
				tile[r * cols + i] -= less[row + r];
		for (uint64_t i = 0; i < rows * cols; i++)
			tile[i] = std_expf(tile[i]);
		row += rows;
	}
}

/* exp_rows(in f32 less[], inout f32 x[], u32 rows, u32 cols): x = exp(x - less of its row) */
ARAX_KERNEL int arax_std_exp_rows(const struct arax_launch *l)
{
	struct matrix_args args;
	uint64_t items, begin, end;
	const float *less;
	float *x;

	if (matrix(l, &args, &items))
		return -EINVAL;
	less = ARAX_ITEMS(l, 0, args.rows, float);
	x = ARAX_ITEMS(l, 1, items, float);
	if (!less || !x)
		return -EINVAL;
	arax_launch_share(l, args.rows, &begin, &end);
	exp_rows(x, less, args.cols, begin, end);
	return 0;
}

STD_INLINE void softmax_rows(float *x, uint64_t cols, uint64_t row, uint64_t end, bool tiles)
{
	uint64_t height = cols < TILE ? TILE / cols : 1;

	while (row < end) {
		uint64_t rows = least(height, end - row);
		float *tile = x + row * cols;

		for (uint64_t r = 0; r < rows; r++) {
			float max = greatest(tile + r * cols, cols);

			for (uint64_t i = 0; i < cols; i++)
				tile[r * cols + i] -= max;
		}
		for (uint64_t i = 0; i < rows * cols; i++)
			tile[i] = std_expf(tile[i]);
		for (uint64_t r = 0; r < rows; r++) {
			float share = 1 / (tiles ? sum_of_tiles(tile + r * cols, cols) :
						   sum_of(tile + r * cols, cols));

			for (uint64_t i = 0; i < cols; i++)
				tile[r * cols + i] *= share;
		}
		row += rows;
	}
}

STD_CLONES
static void softmax(float *x, uint64_t cols, uint64_t row, uint64_t end)
{
	if (cols <= TILE)
		softmax_rows(x, cols, row, end, false);
	else
		softmax_rows(x, cols, row, end, true);
}

/* softmax(inout f32 x[], u32 rows, u32 cols): x = exp(x) / sum of exp(x) of each row */
ARAX_KERNEL int arax_std_softmax(const struct arax_launch *l)
{
	struct matrix_args args;
	uint64_t items, begin, end;
	float *x;

	if (matrix(l, &args, &items))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, items, float);
	if (!x)
		return -EINVAL;
	arax_launch_share(l, args.rows, &begin, &end);
	softmax(x, args.cols, begin, end);
	return 0;
}

/* add_row(in f32 row[], inout f32 x[], u32 rows, u32 cols): x += row, to each row */
ARAX_KERNEL int arax_std_add_row(const struct arax_launch *l)
{
	struct matrix_args args;
	uint64_t items, r, end;
	const float *row;
	float *x;

	if (matrix(l, &args, &items))
		return -EINVAL;
	row = ARAX_ITEMS(l, 0, args.cols, float);
	x = ARAX_ITEMS(l, 1, items, float);
	if (!row || !x)
		return -EINVAL;
	arax_launch_share(l, args.rows, &r, &end);
	for (; r < end; r++)
		for (uint64_t i = 0; i < args.cols; i++)
			x[r * args.cols + i] += row[i];
	return 0;
}

/*
 * argmax_sum(in f32 a[], in f32 b[], out u32 best[], u32 rows, u32 cols):
 * the column where a + b of a row is greatest, the first of equals
 */
ARAX_KERNEL int arax_std_argmax_sum(const struct arax_launch *l)
{
	struct matrix_args args;
	uint64_t items, r, end;
	const float *a, *b;
	uint32_t *best;

	if (matrix(l, &args, &items))
		return -EINVAL;
	a = ARAX_ITEMS(l, 0, items, float);
	b = ARAX_ITEMS(l, 1, items, float);
	best = ARAX_ITEMS(l, 2, args.rows, uint32_t);
	if (!a || !b || !best)
		return -EINVAL;
	arax_launch_share(l, args.rows, &r, &end);
	for (; r < end; r++) {
		float max = -__builtin_inff();
		uint32_t at = 0;

		for (uint32_t i = 0; i < args.cols; i++) {
			float v = a[r * args.cols + i] + b[r * args.cols + i];

			if (v > max) {
				max = v;
				at = i;
			}
		}
		best[r] = at;
	}
	return 0;
}

/* ------------------------------------------------------------------ */
/* Columns                                                             */

/* What is known of a column; sums are of the distance to its first item. */
struct columns {
	double *first, *sum, *squares;
};

STD_CLONES
static void add_up(const struct columns *k, const int32_t *x, uint64_t rows, uint64_t cols,
		   uint64_t n)
{
	double *restrict first = k->first, *restrict sum = k->sum, *restrict squares = k->squares;

	for (uint64_t i = 0; i < n; i++) {
		first[i] = x[i];
		sum[i] = 0;
		squares[i] = 0;
	}
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t i = 0; i < n; i++) {
			double d = x[r * cols + i] - first[i];

			sum[i] += d;
			squares[i] += d * d;
		}
}

/* Mean and deviation take the place of the sums. */
static void settle(const struct columns *k, uint64_t rows, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		double mean = k->sum[i] / (double)rows;
		double variance = k->squares[i] / (double)rows - mean * mean;

		k->sum[i] = k->first[i] + mean;
		k->squares[i] = variance > 0 ? 1 / sqrt(variance) : 0;
	}
}

STD_CLONES
static void standardise(float *z, const struct columns *k, const int32_t *x, uint64_t rows,
			uint64_t cols, uint64_t n)
{
	const double *restrict mean = k->sum, *restrict scale = k->squares;

	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t i = 0; i < n; i++)
			z[r * cols + i] = (float)((x[r * cols + i] - mean[i]) * scale[i]);
}

/*
 * zscore(in i32 x[], out f32 z[], u32 rows, u32 cols): z = (x - mean of its column) / standard
 * deviation of its column (of the rows as they are, not of a sample); 0 where all are equal
 */
ARAX_KERNEL int arax_std_zscore(const struct arax_launch *l)
{
	uint64_t items, begin, end, n;
	struct matrix_args args;
	struct columns k;
	const int32_t *x;
	float *z;

	if (matrix(l, &args, &items))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, items, int32_t);
	z = ARAX_ITEMS(l, 1, items, float);
	if (!x || !z)
		return -EINVAL;
	arax_launch_share(l, args.cols, &begin, &end);
	n = end - begin;
	if (!args.rows || !n)
		return 0;
	k.first = std_scratch(3 * n, sizeof(*k.first));
	if (!k.first)
		return -ENOMEM;
	k.sum = k.first + n;
	k.squares = k.sum + n;
	add_up(&k, x + begin, args.rows, args.cols, n);
	settle(&k, args.rows, n);
	standardise(z + begin, &k, x + begin, args.rows, args.cols, n);
	std_scratch_free(k.first);
	return 0;
}
