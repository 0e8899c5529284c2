// SPDX-License-Identifier: MIT
/* arax-blas: what OpenCL has of it, too.  Matrices stand column by column. */
#include "selftests/unit/std_case.h"
#include "daemon/kernels/blas/blas.h"

/* Element of a matrix with @rows rows, or of its transpose. */
static double element(const struct trial *t, uint32_t range, bool f64, uint64_t rows,
		      bool transposed,
		      uint64_t i, uint64_t j)
{
	uint64_t at = transposed ? j + i * rows : i + j * rows;

	return f64 ? RANGE(t, range, double)[at] : f32_at(t, range, at);
}

static double was(const struct trial *t, uint32_t range, bool f64, uint64_t i)
{
	return f64 ? WAS(t, range, double)[i] : (double)WAS(t, range, float)[i];
}

static double result(const struct trial *t, uint32_t range, bool f64, uint64_t i)
{
	return f64 ? RANGE(t, range, double)[i] : f32_at(t, range, i);
}

static void add_numbers(struct trial *t, bool f64, uint64_t n)
{
	if (f64)
		add_doubles(t, n, -1, 1);
	else
		add_floats(t, n, -1, 1);
}

/* 0 often: what was there then isn't read. */
static double some_beta(void)
{
	return trial_random(3) ? uniform(-2, 2) : 0;
}

/* To 1e-5 of the sum of the terms' sizes in f32, 1e-14 in f64, for up to 700 terms. */
static double tolerance(bool f64, double size)
{
	return (size + 1e-300) * (f64 ? 1e-14 : 1e-5);
}

/* One struct for both: alpha and beta as they were rounded. */
struct product {
	double alpha, beta;
	uint32_t m, n, k, flags;
};

static void make_gemm(struct trial *t, bool f64)
{
	uint32_t most = t->size == SIZE_HUGE ? 300 : 80;
	struct blas_gemm d = { uniform(-2, 2), some_beta(), size_of(t, most), size_of(t, most),
			       size_of(t, t->size == SIZE_HUGE ? 700 : 80),
			       trial_random(4) * BLAS_TRANS_A };
	struct blas_gemm_f32 f = { (float)d.alpha, (float)d.beta, d.m, d.n, d.k, d.flags };

	if (f64)
		set_args(t, &d);
	else
		set_args(t, &f);
	add_numbers(t, f64, (uint64_t)d.m * d.k);
	add_numbers(t, f64, (uint64_t)d.k * d.n);
	add_numbers(t, f64, (uint64_t)d.m * d.n);
	if (!d.beta)
		memset(t->r[2].data, 0xff, t->r[2].length);
}

static void check_gemm(const struct trial *t, bool f64, const struct product *p)
{
	bool ta = p->flags & BLAS_TRANS_A, tb = p->flags & BLAS_TRANS_B;

	for (uint64_t i = 0; i < p->m; i++)
		for (uint64_t j = 0; j < p->n; j++) {
			double old = p->beta ? p->beta * was(t, 2, f64, i + j * p->m) : 0;
			double sum = 0, size = fabs(old);

			for (uint64_t k = 0; k < p->k; k++) {
				double term = p->alpha * element(t, 0, f64, ta ? p->k : p->m, ta, i,
								 k) *
					      element(t, 1, f64, tb ? p->n : p->k, tb, k, j);

				sum += term;
				size += fabs(term);
			}
			near(t, i + j * p->m, result(t, 2, f64, i + j * p->m), sum + old,
			     tolerance(f64, size));
		}
}

static void make_gemm_f32(struct trial *t)
{
	make_gemm(t, false);
}

static void make_gemm_f64(struct trial *t)
{
	make_gemm(t, true);
}

static void check_gemm_f32(const struct trial *t)
{
	const struct blas_gemm_f32 *a = ARGS_OF(t, struct blas_gemm_f32);

	check_gemm(t, false, &(struct product){ (double)a->alpha, (double)a->beta, a->m, a->n, a->k,
						a->flags });
}

static void check_gemm_f64(const struct trial *t)
{
	const struct blas_gemm *a = ARGS_OF(t, struct blas_gemm);

	check_gemm(t, true, &(struct product){ a->alpha, a->beta, a->m, a->n, a->k, a->flags });
}

static void make_gemv(struct trial *t, bool f64)
{
	uint32_t most = t->size == SIZE_HUGE ? 700 : 200, rows, columns;
	struct blas_gemv d = { .alpha = uniform(-2, 2), .beta = some_beta(), .m = size_of(t, most),
			       .n = size_of(t, most), .flags = trial_random(2) * BLAS_TRANS_A };
	struct blas_gemv_f32 f = { (float)d.alpha, (float)d.beta, d.m, d.n, d.flags };

	if (f64)
		set_args(t, &d);
	else
		set_args(t, &f);
	rows = d.flags ? d.n : d.m;
	columns = d.flags ? d.m : d.n;
	add_numbers(t, f64, (uint64_t)d.m * d.n);
	add_numbers(t, f64, columns);
	add_numbers(t, f64, rows);
	if (!d.beta)
		memset(t->r[2].data, 0xff, t->r[2].length);
}

static void check_gemv(const struct trial *t, bool f64, const struct product *p)
{
	bool ta = p->flags & BLAS_TRANS_A;

	for (uint64_t i = 0; i < (ta ? p->n : p->m); i++) {
		double old = p->beta ? p->beta * was(t, 2, f64, i) : 0, sum = 0, size = fabs(old);

		for (uint64_t k = 0; k < (ta ? p->m : p->n); k++) {
			double term = p->alpha * element(t, 0, f64, p->m, ta, i, k) *
				      result(t, 1, f64, k);

			sum += term;
			size += fabs(term);
		}
		near(t, i, result(t, 2, f64, i), sum + old, tolerance(f64, size));
	}
}

static void make_gemv_f32(struct trial *t)
{
	make_gemv(t, false);
}

static void make_gemv_f64(struct trial *t)
{
	make_gemv(t, true);
}

static void check_gemv_f32(const struct trial *t)
{
	const struct blas_gemv_f32 *a = ARGS_OF(t, struct blas_gemv_f32);

	check_gemv(t, false, &(struct product){ (double)a->alpha, (double)a->beta, a->m, a->n, 0,
						a->flags });
}

static void check_gemv_f64(const struct trial *t)
{
	const struct blas_gemv *a = ARGS_OF(t, struct blas_gemv);

	check_gemv(t, true, &(struct product){ a->alpha, a->beta, a->m, a->n, 0, a->flags });
}

const struct std_case blas_cases[] = {
	{ "gemm_f32", make_gemm_f32, check_gemm_f32, 0 },
	{ "gemm_f64", make_gemm_f64, check_gemm_f64, 0 },
	{ "gemv_f32", make_gemv_f32, check_gemv_f32, 0 },
	{ "gemv_f64", make_gemv_f64, check_gemv_f64, 0 },
	{ 0 },
};
