// SPDX-License-Identifier: MIT
/* ml.c and grid.c: matrices, and grids */
#include "selftests/unit/std_case.h"

struct matrix_args { uint32_t rows, cols; };
struct product_args { uint32_t rows, features, classes; };

static struct product_args product_args(const struct trial *t)
{
	if (t->size == SIZE_HUGE)
		return (struct product_args){ size_of(t, 150), size_of(t, 1500), size_of(t, 60) };
	if (t->size == SIZE_LONG)
		return (struct product_args){ 1, 100003, 2 };
	return (struct product_args){ size_of(t, 40), size_of(t, 300), size_of(t, 19) };
}

static void make_matmul(struct trial *t)
{
	struct product_args a = product_args(t);

	set_args(t, &a);
	if (t->size == SIZE_LONG) {
		add_equals(t, (uint64_t)a.rows * a.features, 0.1f);
		add_equals(t, (uint64_t)a.classes * a.features, 1);
	} else {
		add_floats(t, (uint64_t)a.rows * a.features, -2, 2);
		add_floats(t, (uint64_t)a.classes * a.features, -1, 1);
	}
	add_holes(t, 4ull * a.rows * a.classes);
}

static void make_matmul_i32(struct trial *t)
{
	struct product_args a = product_args(t);
	int32_t *x;

	set_args(t, &a);
	x = add_bytes(t, 4ull * a.rows * a.features);
	for (uint64_t i = 0; i < (uint64_t)a.rows * a.features; i++)
		x[i] = t->size == SIZE_LONG ? 1 : (int32_t)trial_random(19) - 9;
	if (t->size == SIZE_LONG)
		add_equals(t, (uint64_t)a.classes * a.features, 0.1f);
	else
		add_floats(t, (uint64_t)a.classes * a.features, -1, 1);
	add_holes(t, 4ull * a.rows * a.classes);
}

/* f32, of up to 100,000 terms: 1e-5 of the sum of their sizes. */
static void check_product(const struct trial *t, bool integers)
{
	const struct product_args *a = ARGS_OF(t, struct product_args);

	for (uint64_t i = 0; i < (uint64_t)a->rows * a->classes; i++) {
		double sum = 0, size = 0;

		for (uint64_t f = 0; f < a->features; f++) {
			uint64_t at = i / a->classes * a->features + f;
			double x = integers ? RANGE(t, 0, int32_t)[at] : f32_at(t, 0, at);
			double term = x * f32_at(t, 1, i % a->classes * a->features + f);

			sum += term;
			size += fabs(term);
		}
		near(t, i, f32_at(t, 2, i), sum, size * 1e-5);
	}
}

static void check_matmul(const struct trial *t)
{
	check_product(t, false);
}

static void check_matmul_i32(const struct trial *t)
{
	check_product(t, true);
}

/* ------------------------------------------------------------------ */
/* Rows                                                                */

static struct matrix_args matrix(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct matrix_args a = { size_of(t, huge ? 500 : 130), side_of(t, huge ? 1100 : 600) };

	if (t->size == SIZE_LONG)
		a = (struct matrix_args){ 2, 100003 };
	set_args(t, &a);
	return a;
}

/* Of exponentials; in a long row all are equal, but the first one, which is the greatest. */
static float *add_exponents(struct trial *t, const struct matrix_args *a)
{
	uint64_t n = (uint64_t)a->rows * a->cols;
	float *x;

	if (t->size != SIZE_LONG)
		return add_floats(t, n, -30, 30);
	x = add_equals(t, n, -1);
	for (uint64_t r = 0; r < a->rows; r++)
		x[r * a->cols] = 0;
	return x;
}

/* fmax() leaves NaN out. */
static double greatest(const struct trial *t, uint32_t range, uint64_t at, uint64_t n)
{
	double most = -INFINITY;

	for (uint64_t i = 0; i < n; i++)
		most = fmax(most, (double)WAS(t, range, float)[at + i]);
	return most;
}

static void make_row_max(struct trial *t)
{
	struct matrix_args a = matrix(t);
	uint64_t n = (uint64_t)a.rows * a.cols;

	add_nans(t, add_floats(t, n, -30, 30), n);
	add_holes(t, 4ull * a.rows);
}

static void check_row_max(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);

	for (uint64_t r = 0; r < a->rows; r++)
		same(t, r, f32_at(t, 1, r), greatest(t, 0, r * a->cols, a->cols));
}

/* As a mask is added to what attention makes: of each row something is left, in every other trial. */
static void add_masks(const struct trial *t, const struct matrix_args *a, float *x)
{
	if (t->size < SIZE_SOME || t->size == SIZE_LONG || trial_random(2))
		return;
	for (uint64_t i = 0; i < (uint64_t)a->rows * a->cols; i++)
		if (i % a->cols && !trial_random(3))
			x[i] = trial_random(2) ? -INFINITY : (float)uniform(-1000, -60);
}

static void make_log_sum_exp(struct trial *t)
{
	struct matrix_args a = matrix(t);
	float *x = add_exponents(t, &a);
	float *most = add_bytes(t, 4ull * a.rows);

	add_masks(t, &a, x);

	for (uint64_t r = 0; r < a.rows; r++) {
		most[r] = -INFINITY;
		for (uint64_t i = 0; i < a.cols; i++)
			most[r] = fmaxf(most[r], x[r * a.cols + i]);
	}
	add_holes(t, 4ull * a.rows);
}

static void check_log_sum_exp(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);

	for (uint64_t r = 0; r < a->rows; r++) {
		double sum = 0, most = f32_at(t, 1, r);

		for (uint64_t i = 0; i < a->cols; i++)
			sum += exp(f32_at(t, 0, r * a->cols + i) - most);
		near(t, r, f32_at(t, 2, r), most + log(sum), 2e-5);
	}
}

static void make_exp_rows(struct trial *t)
{
	static const float ends[] = { -INFINITY, INFINITY, -1e30f, 1e30f, -90, -87, -80, 80, 87, 88,
				      89, 90, 110 };
	struct matrix_args a = matrix(t);
	float *x;

	add_floats(t, a.rows, -20, 20);
	x = add_floats(t, (uint64_t)a.rows * a.cols, -30, 30);
	for (uint64_t i = 0; t->size >= SIZE_SOME && i < (uint64_t)a.rows * a.cols; i++)
		if (!trial_random(10))
			x[i] = ends[trial_random(sizeof(ends) / sizeof(ends[0]))];
}

/*
 * The difference is rounded to f32 first: up to 110, so its error is up to 4e-6.  Where that decides
 * between the greatest float and infinity it may be either.
 */
static void check_exp_rows(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);

	for (uint64_t i = 0; i < (uint64_t)a->rows * a->cols; i++) {
		double wanted = exp(WAS(t, 1, float)[i] - f32_at(t, 0, i / a->cols));
		double got = f32_at(t, 1, i);

		if (wanted < 0x1p128 * (1 - 1e-5) || (wanted < 0x1p128 * (1 + 1e-5) && !isinf(got)))
			near(t, i, got, wanted, 1e-5 * wanted + 2e-38);
		else
			same(t, i, got, INFINITY);
	}
}

static void make_softmax(struct trial *t)
{
	struct matrix_args a = matrix(t);

	add_masks(t, &a, add_exponents(t, &a));
}

static void check_softmax(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);

	for (uint64_t r = 0; r < a->rows; r++) {
		const float *x = WAS(t, 0, float) + r * a->cols;
		double sum = 0, most = greatest(t, 0, r * a->cols, a->cols);

		for (uint64_t i = 0; i < a->cols; i++)
			sum += exp((double)x[i] - most);
		for (uint64_t i = 0; i < a->cols; i++) {
			double share = exp((double)x[i] - most) / sum;

			near(t, i, f32_at(t, 0, r * a->cols + i), share,
			     share > 0 ? 1e-5 * share + 2e-38 : 0);
		}
	}
}

static void make_add_row(struct trial *t)
{
	struct matrix_args a = matrix(t);

	add_floats(t, a.cols, -1, 1);
	add_floats(t, (uint64_t)a.rows * a.cols, -30, 30);
}

static void check_add_row(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);

	for (uint64_t i = 0; i < (uint64_t)a->rows * a->cols; i++)
		near(t, i, f32_at(t, 1, i), (double)WAS(t, 1, float)[i] + f32_at(t, 0, i % a->cols),
		     2e-6);
}

static void make_argmax_sum(struct trial *t)
{
	struct matrix_args a = matrix(t);
	float *x = add_floats(t, (uint64_t)a.rows * a.cols, -3, 3);

	for (uint64_t i = 0; i < (uint64_t)a.rows * a.cols; i++)
		x[i] = rintf(x[i]);	/* equals among them */
	add_nans(t, x, (uint64_t)a.rows * a.cols);
	x = add_floats(t, (uint64_t)a.rows * a.cols, -3, 3);
	for (uint64_t i = 0; i < (uint64_t)a.rows * a.cols; i++)
		x[i] = rintf(x[i]);
	add_holes(t, 4ull * a.rows);
}

static void check_argmax_sum(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);

	for (uint64_t r = 0; r < a->rows; r++) {
		uint64_t at = r * a->cols, first = 0;
		double best = -INFINITY;

		for (uint64_t i = 0; i < a->cols; i++) {
			double sum = f32_at(t, 0, at + i) + f32_at(t, 1, at + i);

			if (sum > best) {
				best = sum;
				first = i;
			}
		}
		same(t, r, RANGE(t, 2, uint32_t)[r], (double)first);
	}
}

static void make_zscore(struct trial *t)
{
	struct matrix_args a = matrix(t);
	int32_t far = trial_random(2) ? 0 : 2000000000;
	int32_t *x = add_bytes(t, 4ull * a.rows * a.cols);

	for (uint64_t i = 0; i < (uint64_t)a.rows * a.cols; i++)	/* every fifth column is constant */
		x[i] = far + (i % a.cols % 5 == 4 ? 7 : (int32_t)trial_random(10));
	add_holes(t, 4ull * a.rows * a.cols);
}

static void check_zscore(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);
	const int32_t *x = RANGE(t, 0, int32_t);
	uint64_t n = (uint64_t)a->rows * a->cols;

	for (uint64_t c = 0; c < a->cols; c++) {
		double mean = 0, variance = 0;

		for (uint64_t i = c; i < n; i += a->cols)
			mean += x[i];
		mean /= a->rows;
		for (uint64_t i = c; i < n; i += a->cols)
			variance += (x[i] - mean) * (x[i] - mean) / a->rows;
		for (uint64_t i = c; i < n; i += a->cols)
			near(t, i, f32_at(t, 1, i),
			     variance > 1e-9 ? (x[i] - mean) / sqrt(variance) : 0,
			     2e-6);
	}
}

/* ------------------------------------------------------------------ */
/* Grids                                                               */

static void make_transpose(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct matrix_args a = { size_of(t, huge ? 700 : 130), size_of(t, huge ? 700 : 130) };

	set_args(t, &a);
	add_floats(t, (uint64_t)a.rows * a.cols, -1, 1);
	add_holes(t, 4ull * a.rows * a.cols);
}

static void check_transpose(const struct trial *t)
{
	const struct matrix_args *a = ARGS_OF(t, struct matrix_args);

	for (uint64_t r = 0; r < a->rows; r++)
		for (uint64_t c = 0; c < a->cols; c++)
			same(t, c, f32_at(t, 1, c * a->rows + r), f32_at(t, 0, r * a->cols + c));
}

struct stencil5_args { uint32_t width, height; float center, side; };
struct stencil7_args { uint32_t width, height, depth; float center, side; };

static void make_stencil5(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct stencil5_args a = { size_of(t, huge ? 700 : 150), size_of(t, huge ? 500 : 60), 0.5f,
				   0.125f };

	set_args(t, &a);
	add_floats(t, (uint64_t)a.width * a.height, -1, 1);
	add_holes(t, 4ull * a.width * a.height);
}

static void make_stencil7(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct stencil7_args a = { size_of(t, huge ? 100 : 40), size_of(t, huge ? 80 : 20),
				   size_of(t, huge ? 60 : 10), -0.5f, 0.25f };

	set_args(t, &a);
	add_floats(t, (uint64_t)a.width * a.height * a.depth, -1, 1);
	add_holes(t, 4ull * a.width * a.height * a.depth);
}

static bool at_edge(uint64_t i, uint64_t n)
{
	return !i || i == n - 1;
}

/* depth 0: a plane alone, without neighbours above and below */
static void check_stencil(const struct trial *t, const struct stencil7_args *a)
{
	uint64_t width = a->width, plane = width * a->height;

	for (uint64_t i = 0; i < plane * (a->depth ? a->depth : 1); i++) {
		double wanted;

		if (at_edge(i % width, width) || at_edge(i / width % a->height, a->height) ||
		    (a->depth && at_edge(i / plane, a->depth))) {
			same(t, i, f32_at(t, 1, i), f32_at(t, 0, i));
			continue;
		}
		wanted = f32_at(t, 0, i - 1) + f32_at(t, 0, i + 1) + f32_at(t, 0, i - width) +
			 f32_at(t, 0, i + width);
		if (a->depth)
			wanted += f32_at(t, 0, i - plane) + f32_at(t, 0, i + plane);
		wanted = wanted * (double)a->side + f32_at(t, 0, i) * (double)a->center;
		near(t, i, f32_at(t, 1, i), wanted, 1e-6);
	}
}

static void check_stencil5(const struct trial *t)
{
	const struct stencil5_args *a = ARGS_OF(t, struct stencil5_args);

	check_stencil(t, &(struct stencil7_args){ a->width, a->height, 0, a->center, a->side });
}

static void check_stencil7(const struct trial *t)
{
	if (ARGS_OF(t, struct stencil7_args)->depth)
		check_stencil(t, ARGS_OF(t, struct stencil7_args));
}

const struct std_case matrix_cases[] = {
	{ "matmul_f32", make_matmul, check_matmul, 0 },
	{ "matmul_i32", make_matmul_i32, check_matmul_i32, 0 },
	{ "row_max", make_row_max, check_row_max, 0 },
	{ "log_sum_exp", make_log_sum_exp, check_log_sum_exp, 0 },
	{ "exp_rows", make_exp_rows, check_exp_rows, 0 },
	{ "softmax", make_softmax, check_softmax, 0 },
	{ "add_row", make_add_row, check_add_row, 0 },
	{ "argmax_sum", make_argmax_sum, check_argmax_sum, 0 },
	{ "zscore", make_zscore, check_zscore, 0 },
	{ "transpose_f32", make_transpose, check_transpose, 0 },
	{ "stencil5_f32", make_stencil5, check_stencil5, 0 },
	{ "stencil7_f32", make_stencil7, check_stencil7, 0 },
	{ 0 },
};
