// SPDX-License-Identifier: MIT
/*
 * far.h: kernels that make some numbers of rows, points and matrices; what they should be is by
 * loops here.
 */
#include "selftests/unit/far_map.h"

#include <math.h>

#include "daemon/kernels/blas/blas.h"

/* The sum of @term over row @i of @a and row @j of @b; of pieces of f32, or of integers. */
static double over_rows(const struct stretch *a, uint32_t i, const struct stretch *b, uint32_t j,
			bool integers, double (*term)(double, double))
{
	double sum = 0, tail = 0;
	const float *at = stretch_tail(a, i), *bt = stretch_tail(b, j);
	const float *ap = (const float *)a->once, *bp = (const float *)b->once;

	for (uint32_t k = 0; k < ITEMS; k++) {
		double x = integers ? ((const int32_t *)ap)[k] : (double)ap[k];
		double y = integers ? ((const int32_t *)at)[k] : (double)at[k];

		sum += term(x, (double)bp[k]);
		tail += term(y, (double)bt[k]);
	}
	return sum * (double)a->repeats + tail;
}

static double product(double a, double b)
{
	return a * b;
}

static double squared(double a, double b)
{
	return (a - b) * (a - b);
}

static void row_max(const struct far_case *c)
{
	struct stretch x = stretch_of('f', ROWS, ROW_PIECES - 1, false);
	struct { uint32_t rows, cols; } args = { ROWS, ROW_PIECES << LOG_ITEMS };
	float max[ROWS] = { 0 };
	struct arax_launch_range r[] = { x.range, far_flat(max, sizeof(max)) };

	for (uint32_t i = 0; i < ROWS; i++)
		((float *)stretch_tail(&x, i))[ITEMS - 3] = (float)(10 + i);
	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < ROWS; i++)
		far_near(c->name, i, (double)max[i], 10 + i, 0);
	stretch_end(&x);
}

static void argmax_sum(const struct far_case *c)
{
	struct stretch a = stretch_of('f', ROWS, ROW_PIECES - 1, false);
	struct stretch b = stretch_of('f', ROWS, ROW_PIECES - 1, false);
	struct { uint32_t rows, cols; } args = { ROWS, ROW_PIECES << LOG_ITEMS };
	uint32_t best[ROWS] = { 0 };
	struct arax_launch_range r[] = { a.range, b.range, far_flat(best, sizeof(best)) };

	for (uint32_t i = 0; i < ROWS; i++)
		((float *)stretch_tail(&b, i))[i] = 100;
	launch(c->name, r, 3, &args, sizeof(args));
	for (uint32_t i = 0; i < ROWS; i++)
		ck_assert_uint_eq(best[i], ((ROW_PIECES - 1) << LOG_ITEMS) + i);
	stretch_end(&a);
	stretch_end(&b);
}

static double exponential(double a, double b)
{
	return exp(a) + 0 * b;
}

static void log_sum_exp(const struct far_case *c)
{
	struct stretch x = stretch_of('f', ROWS, ROW_PIECES - 1, false);
	struct { uint32_t rows, cols; } args = { ROWS, ROW_PIECES << LOG_ITEMS };
	float max[ROWS], lse[ROWS] = { 0 };
	struct arax_launch_range r[] = { x.range, far_flat(max, sizeof(max)),
					 far_flat(lse, sizeof(lse)) };

	/* A tail counts for as much as all that is before it. */
	for (uint32_t i = 0; i < ROWS; i++) {
		max[i] = (float)(16 + i);
		for (uint32_t k = 0; k < ITEMS; k++)
			((float *)stretch_tail(&x, i))[k] += (float)(8 + i);
	}
	launch(c->name, r, 3, &args, sizeof(args));
	for (uint32_t i = 0; i < ROWS; i++)
		far_near(c->name, i, (double)lse[i],
			 log(over_rows(&x, i, &x, i, false, exponential)), 0.0001);
	stretch_end(&x);
}

static void matmul(const struct far_case *c)
{
	char type = *(const char *)c->what;
	struct stretch x = stretch_of(type, ROWS, ROW_PIECES - 1, true);
	struct stretch w = stretch_of('f', 2, ROW_PIECES - 1, true);
	struct { uint32_t rows, features, classes; } args = { ROWS, ROW_PIECES << LOG_ITEMS, 2 };
	float y[ROWS * 2] = { 0 };
	struct arax_launch_range r[] = { x.range, w.range, far_flat(y, sizeof(y)) };

	launch(c->name, r, 3, &args, sizeof(args));
	for (uint32_t i = 0; i < ROWS * 2; i++)
		far_near(c->name, i, (double)y[i],
			 over_rows(&x, i / 2, &w, i % 2, type == 'i', product), 0);
	stretch_end(&x);
	stretch_end(&w);
}

static void distances(const struct far_case *c)
{
	struct stretch a = stretch_of('f', ROWS, ROW_PIECES - 1, true);
	struct stretch b = stretch_of('f', 2, ROW_PIECES - 1, true);
	struct { uint32_t rows_a, rows_b, dims; } args = { ROWS, 2, ROW_PIECES << LOG_ITEMS };
	float dist[ROWS * 2] = { 0 };
	struct arax_launch_range r[] = { a.range, b.range, far_flat(dist, sizeof(dist)) };

	/* Where all are alike they would add nothing. */
	memset(b.once, 0, b.piece);
	launch(c->name, r, 3, &args, sizeof(args));
	for (uint32_t i = 0; i < ROWS * 2; i++)
		far_near(c->name, i, (double)dist[i],
			 over_rows(&a, i / 2, &b, i % 2, false, squared), 0);
	stretch_end(&a);
	stretch_end(&b);
}

/* ------------------------------------------------------------------ */
/* Points                                                               */

#define DIMS	2u
#define CENTERS	3u
#define POINTS	(ITEMS / DIMS)	/* of a piece */
#define MANY	16392u		/* pieces, 8 * 2049 */

static void kmeans_assign(const struct far_case *c)
{
	struct stretch x = stretch_of('f', 1, MANY - 1, false);
	struct stretch label = stretch_make(POINTS * sizeof(uint32_t), 1, MANY - 1);
	struct { uint32_t n, dims, k; } args = { MANY * POINTS, DIMS, CENTERS };
	float center[CENTERS * DIMS] = { 0, 0, 4, 0, -2, 3 };
	uint32_t *wanted = malloc(label.piece);
	struct arax_launch_range r[] = { x.range, far_flat(center, sizeof(center)), label.range };

	launch(c->name, r, 3, &args, sizeof(args));
	args.n = POINTS;
	r[2] = far_flat(wanted, label.piece);
	for (uint32_t tail = 0; tail < 2; tail++) {
		r[0] = stretch_part(&x, tail);
		launch(c->name, r, 3, &args, sizeof(args));
		ck_assert_int_eq(memcmp(wanted, stretch_part(&label, tail).data, label.piece), 0);
	}
	free(wanted);
	stretch_end(&x);
	stretch_end(&label);
}

static void kmeans_update(const struct far_case *c)
{
	struct stretch x = stretch_of('f', 1, MANY - 1, false);
	struct stretch label = stretch_make(POINTS * sizeof(uint32_t), 1, MANY - 1);
	struct { uint32_t n, dims, k; } args = { MANY * POINTS, DIMS, CENTERS };
	double sum[CENTERS * DIMS] = { 0 }, count[CENTERS] = { 0 };
	float center[CENTERS * DIMS] = { 0 };
	struct arax_launch_range r[] = { x.range, label.range, far_flat(center, sizeof(center)) };
	uint32_t *of = (uint32_t *)label.once;

	/* One center has points of the tail alone. */
	for (uint32_t i = 0; i < 2 * POINTS; i++)
		of[i] = i < POINTS ? far_random() % 2 : 1 + far_random() % 2;
	for (uint32_t i = 0; i < 2 * POINTS; i++) {
		double times = i < POINTS ? MANY - 1 : 1;

		count[of[i]] += times;
		for (uint32_t d = 0; d < DIMS; d++)
			sum[of[i] * DIMS + d] += times * (double)((float *)x.once)[i * DIMS + d];
	}
	launch(c->name, r, 3, &args, sizeof(args));
	for (uint32_t i = 0; i < CENTERS * DIMS; i++)
		far_near(c->name, i, (double)center[i], sum[i] / count[i / DIMS], 0.000001);
	stretch_end(&x);
	stretch_end(&label);
}

/* ------------------------------------------------------------------ */
/* Sparse                                                               */

#define COLS	1024u

struct spmv_args {
	uint32_t rows, cols, nnz;
};

/* Few rows of many items: the last begins beyond 2^31. */
static void spmv_items(const struct far_case *c)
{
	struct stretch col = stretch_make(ITEMS * sizeof(uint32_t), 1, PIECES);
	struct stretch value = stretch_of('f', 1, PIECES, true);
	struct spmv_args args = { ROWS, COLS, (PIECES + 1) << LOG_ITEMS };
	uint32_t begin[ROWS + 1] = { 0, ITEMS, PIECES << LOG_ITEMS, (PIECES + 1) << LOG_ITEMS };
	double sum[2] = { 0 };
	float x[COLS], y[ROWS] = { 0 };
	struct arax_launch_range r[] = { far_flat(begin, sizeof(begin)), col.range, value.range,
					 far_flat(x, sizeof(x)), far_flat(y, sizeof(y)) };

	for (uint32_t i = 0; i < COLS; i++)
		x[i] = (float)(1 + i % 3);
	for (uint32_t i = 0; i < 2 * ITEMS; i++) {
		uint32_t column = far_random() % COLS;

		((uint32_t *)col.once)[i] = column;
		sum[i / ITEMS] += (double)(((float *)value.once)[i] * x[column]);
	}
	launch(c->name, r, 5, &args, sizeof(args));
	far_near(c->name, 0, (double)y[0], sum[0], 0);
	far_near(c->name, 1, (double)y[1], sum[0] * (PIECES - 1), 0);
	far_near(c->name, 2, (double)y[2], sum[1], 0);
	stretch_end(&col);
	stretch_end(&value);
}

/* Many rows, of which the last few have an item each. */
static void spmv_rows(const struct far_case *c)
{
	struct stretch begin = stretch_make(ITEMS * sizeof(uint32_t), 1, PIECES - 1);
	struct stretch y = stretch_of('f', 1, PIECES - 1, false);
	struct spmv_args args = { (PIECES << LOG_ITEMS) - 1, COLS, 100 };
	uint32_t col[100], *edge = stretch_tail(&begin, 0);
	float value[100], x[COLS];
	struct arax_launch_range r[] = { begin.range, far_flat(col, sizeof(col)),
					 far_flat(value, sizeof(value)), far_flat(x, sizeof(x)),
					 y.range };

	for (uint32_t i = 0; i < COLS; i++)
		x[i] = (float)i;
	for (uint32_t i = 0; i < 100; i++) {
		col[i] = 7 * i;
		value[i] = 2;
		edge[ITEMS - 100 + i] = i + 1;
	}
	launch(c->name, r, 5, &args, sizeof(args));
	for (uint32_t i = 0; i + 1 < 2 * ITEMS; i++) {
		uint32_t last = i + 101 - 2 * ITEMS; /* this many before the first that has one */

		far_near(c->name, i, (double)((float *)y.once)[i], last < 100 ? 14. * last : 0, 0);
	}
	stretch_end(&begin);
	stretch_end(&y);
}

/* ------------------------------------------------------------------ */
/* Tiles of matrices, of which two sides are short                      */

static void gemv(const struct far_case *c)
{
	const bool turned = !!c->what;
	/* Column by column: as m x n = 4 x columns; turned, three columns of as many rows. */
	struct stretch a = turned ? stretch_of('f', ROWS, ROW_PIECES - 1, true) :
				    stretch_of('f', 1, 2 * PIECES - 1, true);
	struct stretch x = turned ? stretch_of('f', 1, ROW_PIECES - 1, true) :
				    stretch_make(ITEMS, 1, 2 * PIECES - 1);
	uint32_t many = turned ? ROW_PIECES << LOG_ITEMS : 2 * PIECES << (LOG_ITEMS - 2);
	struct blas_gemv_f32 args = { 1, 0, turned ? many : 4, turned ? ROWS : many,
				      turned ? BLAS_TRANS_A : 0 };
	uint32_t nr = turned ? ROWS : 4;
	float y[4] = { 0 };
	struct arax_launch_range r[] = { a.range, x.range, far_flat(y, nr * sizeof(*y)) };

	if (!turned)
		stretch_fill(&x, 'f', false);
	launch(c->name, r, 3, &args, sizeof(args));
	for (uint32_t i = 0; i < nr; i++) {
		double sum[2] = { 0 };

		for (uint32_t k = i; !turned && k < 2 * ITEMS; k += 4)
			sum[k / ITEMS] += (double)(((float *)a.once)[k] * ((float *)x.once)[k / 4]);
		far_near(c->name, i, (double)y[i],
			 turned ? over_rows(&a, i, &x, 0, false, product)
				: sum[0] * (2 * PIECES - 1) + sum[1],
			 0);
	}
	stretch_end(&a);
	stretch_end(&x);
}

/* c = a' b, of two columns each. */
static void gemm(const struct far_case *c)
{
	struct stretch a = stretch_of('f', 2, ROW_PIECES - 1, true);
	struct stretch b = stretch_of('f', 2, ROW_PIECES - 1, true);
	struct blas_gemm_f32 args = { 1, 0, 2, 2, ROW_PIECES << LOG_ITEMS, BLAS_TRANS_A };
	float product_of[4] = { 0 };
	struct arax_launch_range r[] = { a.range, b.range,
					 far_flat(product_of, sizeof(product_of)) };

	launch(c->name, r, 3, &args, sizeof(args));
	for (uint32_t i = 0; i < 4; i++)
		far_near(c->name, i, (double)product_of[i],
			 over_rows(&a, i % 2, &b, i / 2, false, product), 0);
	stretch_end(&a);
	stretch_end(&b);
}

/* ------------------------------------------------------------------ */

const struct far_case far_rows[] = {
	{ "row_max", row_max, NULL },
	{ "argmax_sum", argmax_sum, NULL },
	{ "log_sum_exp", log_sum_exp, NULL },
	{ "matmul_f32", matmul, "f" },
	{ "matmul_i32", matmul, "i" },
	{ "distances_f32", distances, NULL },
	{ "kmeans_assign", kmeans_assign, NULL },
	{ "kmeans_update", kmeans_update, NULL },
	{ "spmv", spmv_items, NULL },
	{ "spmv", spmv_rows, NULL },
	{ "gemv_f32", gemv, NULL },
	{ "gemv_f32", gemv, "turned" },
	{ "gemm_f32", gemm, NULL },
	{ 0 }
};
