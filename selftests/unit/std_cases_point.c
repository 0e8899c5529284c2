// SPDX-License-Identifier: MIT
/* cluster.c and sparse.c */
#include "selftests/unit/std_case.h"

struct distances_args { uint32_t rows_a, rows_b, dims; };

static void make_distances(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct distances_args a = { size_of(t, 140), size_of(t, huge ? 9000 : 70),
				    size_of(t, huge ? 9 : 300) };

	if (t->size == SIZE_LONG)
		a = (struct distances_args){ 2, 3, 20003 };
	set_args(t, &a);
	if (t->size == SIZE_LONG) {
		add_equals(t, (uint64_t)a.rows_a * a.dims, 0.1f);
		add_equals(t, (uint64_t)a.rows_b * a.dims, 1);
	} else {
		add_floats(t, (uint64_t)a.rows_a * a.dims, -1, 1);
		add_floats(t, (uint64_t)a.rows_b * a.dims, -1, 1);
	}
	add_holes(t, 4ull * a.rows_a * a.rows_b);
}

static double distance(const float *a, const float *b, uint64_t dims)
{
	double sum = 0;

	for (uint64_t d = 0; d < dims; d++)
		sum += ((double)a[d] - (double)b[d]) * ((double)a[d] - (double)b[d]);
	return sum;
}

/* All terms have one sign: 1e-5 of the result, for up to 100,000 of them. */
static void check_distances(const struct trial *t)
{
	const struct distances_args *a = ARGS_OF(t, struct distances_args);

	for (uint64_t i = 0; i < (uint64_t)a->rows_a * a->rows_b; i++) {
		double wanted = distance(RANGE(t, 0, float) + i / a->rows_b * a->dims,
					 RANGE(t, 1, float) + i % a->rows_b * a->dims, a->dims);

		near(t, i, f32_at(t, 2, i), wanted, wanted * 1e-5);
	}
}

struct kmeans_args { uint32_t n, dims, k; };

static struct kmeans_args kmeans_args(const struct trial *t)
{
	if (t->size == SIZE_HUGE)
		return (struct kmeans_args){ size_of(t, 4000), side_of(t, 10), side_of(t, 30) };
	return (struct kmeans_args){ size_of(t, 300), side_of(t, 150), side_of(t, 40) };
}

static void make_assign(struct trial *t)
{
	struct kmeans_args a = kmeans_args(t);

	set_args(t, &a);
	add_floats(t, (uint64_t)a.n * a.dims, -1, 1);
	add_floats(t, (uint64_t)a.k * a.dims, -1, 1);
	add_holes(t, 4ull * a.n);
}

/* The nearest, or one that is as near to 1e-5. */
static void check_assign(const struct trial *t)
{
	const struct kmeans_args *a = ARGS_OF(t, struct kmeans_args);

	for (uint64_t i = 0; i < a->n; i++) {
		const float *x = RANGE(t, 0, float) + i * a->dims, *center = RANGE(t, 1, float);
		uint64_t label = RANGE(t, 2, uint32_t)[i];
		double least = INFINITY;

		ck_assert_uint_lt(label, a->k);
		for (uint64_t c = 0; c < a->k; c++)
			least = fmin(least, distance(x, center + c * a->dims, a->dims));
		near(t, i, distance(x, center + label * a->dims, a->dims), least, least * 2e-5);
	}
}

/* Labels that are none among them, and centers without any. */
static void make_update(struct trial *t)
{
	struct kmeans_args a = kmeans_args(t);
	uint32_t *label;

	set_args(t, &a);
	add_floats(t, (uint64_t)a.n * a.dims, -1, 1);
	label = add_words(t, a.n);
	for (uint32_t i = 0; i < a.n; i++)
		if (trial_random(9))
			label[i] = trial_random(a.k + 1) / 2 * 2;
	add_floats(t, (uint64_t)a.k * a.dims, -1, 1);
}

/* Added up in f64: rounded to f32 once. */
static void check_update(const struct trial *t)
{
	const struct kmeans_args *a = ARGS_OF(t, struct kmeans_args);

	for (uint64_t i = 0; i < (uint64_t)a->k * a->dims; i++) {
		double sum = 0;
		uint32_t count = 0;

		for (uint64_t p = 0; p < a->n; p++)
			if (RANGE(t, 1, uint32_t)[p] == i / a->dims) {
				sum += f32_at(t, 0, p * a->dims + i % a->dims);
				count++;
			}
		if (count)
			near(t, i, f32_at(t, 2, i), sum / count, 6e-8);
		else
			same(t, i, f32_at(t, 2, i), WAS(t, 2, float)[i]);
	}
}

struct spmv_args { uint32_t rows, cols, nnz; };

/* Two rows of all columns. */
static void make_long_spmv(struct trial *t)
{
	struct spmv_args a = { 2, 20003, 40006 };
	uint32_t *begin = add_bytes(t, 12), *col;

	set_args(t, &a);
	begin[0] = 0;
	begin[1] = a.cols;
	begin[2] = a.nnz;
	col = add_bytes(t, 4ull * a.nnz);
	for (uint32_t i = 0; i < a.nnz; i++)
		col[i] = i % a.cols;
	add_equals(t, a.nnz, 1);
	add_equals(t, a.cols, 0.1f);
	add_holes(t, 4ull * a.rows);
}

static void make_some_spmv(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct spmv_args a = { size_of(t, huge ? 20000 : 800), side_of(t, huge ? 20000 : 900), 0 };
	uint32_t *begin = add_bytes(t, 4 * ((uint64_t)a.rows + 1)), *col;

	for (uint32_t i = 0; i < a.rows; i++) {
		begin[i] = a.nnz;
		a.nnz += trial_random(7);
	}
	begin[a.rows] = a.nnz;
	set_args(t, &a);
	col = add_words(t, a.nnz);
	for (uint32_t i = 0; i < a.nnz; i++)
		col[i] %= a.cols;
	add_floats(t, a.nnz, -1, 1);
	add_floats(t, a.cols, -1, 1);
	add_holes(t, 4ull * a.rows);
}

static void make_spmv(struct trial *t)
{
	if (t->size == SIZE_LONG)
		make_long_spmv(t);
	else
		make_some_spmv(t);
}

/* 1e-6 of the sum of the terms' sizes, or of 1. */
static void check_spmv(const struct trial *t)
{
	const struct spmv_args *a = ARGS_OF(t, struct spmv_args);
	const uint32_t *begin = RANGE(t, 0, uint32_t), *col = RANGE(t, 1, uint32_t);

	for (uint32_t i = 0; i < a->rows; i++) {
		double sum = 0, size = 0;

		for (uint32_t k = begin[i]; k < begin[i + 1]; k++) {
			double term = f32_at(t, 2, k) * f32_at(t, 3, col[k]);

			sum += term;
			size += fabs(term);
		}
		near(t, i, f32_at(t, 4, i), sum, 1e-6 * fmax(size, 1));
	}
}

const struct std_case point_cases[] = {
	{ "distances_f32", make_distances, check_distances, 0 },
	{ "kmeans_assign", make_assign, check_assign, 0 },
	{ "kmeans_update", make_update, check_update, 0 },
	{ "spmv", make_spmv, check_spmv, 0 },
	{ 0 },
};
