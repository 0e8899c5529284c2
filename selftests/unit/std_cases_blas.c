// SPDX-License-Identifier: MIT
/* arax-blas.  Matrices stand column by column. */
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

/* And 0 now and then: then that is nothing which it is for. */
static double some_alpha(void)
{
	return trial_random(4) ? uniform(-2, 2) : 0;
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
	struct blas_gemm d = { some_alpha(), some_beta(), size_of(t, most), size_of(t, most),
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
	if (d.alpha == 0)
		memset(t->r[0].data, 0xff, t->r[0].length);
}

static void check_gemm(const struct trial *t, bool f64, const struct product *p)
{
	bool ta = p->flags & BLAS_TRANS_A, tb = p->flags & BLAS_TRANS_B;

	for (uint64_t i = 0; i < p->m; i++)
		for (uint64_t j = 0; j < p->n; j++) {
			double old = p->beta ? p->beta * was(t, 2, f64, i + j * p->m) : 0;
			double sum = 0, size = fabs(old);

			for (uint64_t k = 0; p->alpha != 0 && k < p->k; k++) {
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
	struct blas_gemv d = { .alpha = some_alpha(), .beta = some_beta(), .m = size_of(t, most),
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
	if (d.alpha == 0)
		memset(t->r[0].data, 0xff, t->r[0].length);
}

static void check_gemv(const struct trial *t, bool f64, const struct product *p)
{
	bool ta = p->flags & BLAS_TRANS_A;

	for (uint64_t i = 0; i < (ta ? p->n : p->m); i++) {
		double old = p->beta ? p->beta * was(t, 2, f64, i) : 0, sum = 0, size = fabs(old);

		for (uint64_t k = 0; p->alpha != 0 && k < (ta ? p->m : p->n); k++) {
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

/* Item (i, j) of a triangle, which has 1 on its diagonal with UNIT, and of its transpose. */
static double in_triangle(const struct trial *t, uint64_t order, uint32_t flags, uint64_t i, uint64_t j)
{
	const double *a = RANGE(t, 0, double);
	uint64_t row = flags & BLAS_TRANS_A ? j : i, column = flags & BLAS_TRANS_A ? i : j;

	if (row == column)
		return flags & BLAS_UNIT ? 1 : a[row + column * order];
	return (flags & BLAS_UPPER ? row < column : row > column) ? a[row + column * order] : 0;
}

/* What nobody may read is no number: the other triangle, and with UNIT the diagonal. */
static void hide_unused(double *a, uint64_t order, uint32_t flags)
{
	for (uint64_t i = 0; i < order * order; i++) {
		uint64_t row = i % order, column = i / order;

		if (row == column ? flags & BLAS_UNIT : (row < column) != !!(flags & BLAS_UPPER))
			a[i] = NAN;
	}
}

static void make_trsm(struct trial *t)
{
	uint32_t most = t->size == SIZE_HUGE ? 250 : 70;
	struct blas_trsm a = { .alpha = some_alpha(), .m = size_of(t, most), .n = size_of(t, most) };
	uint32_t order;
	double *x;

	a.flags = (trial_random(2) ? BLAS_UPPER : 0) | (trial_random(2) ? BLAS_RIGHT : 0) |
		  (trial_random(2) ? BLAS_TRANS_A : 0) | (trial_random(2) ? BLAS_UNIT : 0);
	set_args(t, &a);
	order = a.flags & BLAS_RIGHT ? a.n : a.m;
	x = add_doubles(t, (uint64_t)order * order, -1, 1);
	/* So that solutions don't grow: each row is outweighed by its diagonal. */
	for (uint64_t i = 0; i < (uint64_t)order * order; i++)
		x[i] = i % (order + 1ull) ? x[i] / order : 1 + fabs(x[i]);
	if (trial_random(2))
		hide_unused(x, order, a.flags);
	x = add_doubles(t, (uint64_t)a.m * a.n, -1, 1);
	if (a.alpha == 0)
		memset(x, 0xff, t->r[1].length);
}

/* What was there is what comes of multiplying the solution, to 1e-10 of the terms' sizes. */
static void check_trsm(const struct trial *t)
{
	const struct blas_trsm *a = ARGS_OF(t, struct blas_trsm);
	const double *x = RANGE(t, 1, double);
	bool right = a->flags & BLAS_RIGHT;
	uint64_t order = right ? a->n : a->m, m = a->m;

	/* Whatever stood there. */
	for (uint64_t i = 0; a->alpha == 0 && i < m * a->n; i++)
		same(t, i, x[i], 0);
	if (a->alpha == 0)
		return;
	for (uint64_t i = 0; i < m; i++)
		for (uint64_t j = 0; j < a->n; j++) {
			double sum = 0, size = 0;

			for (uint64_t k = 0; k < order; k++) {
				double term = right ? x[i + k * m] * in_triangle(t, order, a->flags, k, j) :
						      in_triangle(t, order, a->flags, i, k) * x[k + j * m];

				sum += term;
				size += fabs(term);
			}
			near(t, i + j * m, sum, a->alpha * WAS(t, 1, double)[i + j * m],
			     1e-10 * (size + 1e-300));
		}
}

static void make_syrk(struct trial *t)
{
	uint32_t most = t->size == SIZE_HUGE ? 250 : 70;
	struct blas_syrk a = { .alpha = some_alpha(), .beta = some_beta(), .n = size_of(t, most),
			       .k = size_of(t, most) };

	/* Then it is c = beta c. */
	if (t->size == SIZE_SOME && !trial_random(3))
		a.k = 0;
	a.flags = (trial_random(2) ? BLAS_UPPER : 0) | (trial_random(2) ? BLAS_TRANS_A : 0);
	set_args(t, &a);
	add_doubles(t, (uint64_t)a.n * a.k, -1, 1);
	add_doubles(t, (uint64_t)a.n * a.n, -1, 1);
	if (!a.beta)
		memset(t->r[1].data, 0xff, t->r[1].length);
	if (a.alpha == 0)
		memset(t->r[0].data, 0xff, t->r[0].length);
}

/* The other triangle is as it was. */
static void check_syrk(const struct trial *t)
{
	const struct blas_syrk *a = ARGS_OF(t, struct blas_syrk);
	bool ta = a->flags & BLAS_TRANS_A;

	for (uint64_t i = 0; i < a->n; i++)
		for (uint64_t j = 0; j < a->n; j++) {
			double old = WAS(t, 1, double)[i + j * a->n], got = RANGE(t, 1, double)[i + j * a->n];
			double sum = a->beta != 0 ? a->beta * old : 0, size = fabs(sum);

			if (a->flags & BLAS_UPPER ? i > j : i < j) {
				/* Bit by bit: it may be no number. */
				ck_assert_msg(!memcmp(&got, &old, sizeof(got)),
					      "syrk_f64: the other triangle's item %zu has changed",
					      (size_t)(i + j * a->n));
				continue;
			}
			for (uint64_t k = 0; a->alpha != 0 && k < a->k; k++) {
				double term = a->alpha *
					      element(t, 0, true, ta ? a->k : a->n, ta, i, k) *
					      element(t, 0, true, ta ? a->k : a->n, ta, j, k);

				sum += term;
				size += fabs(term);
			}
			near(t, i + j * a->n, got, sum, 1e-10 * (size + 1e-300));
		}
}

/* Numbers that outweigh their rows stand on the diagonal: so it is positive definite, and needs no pivoting. */
static double *make_square(struct trial *t, uint32_t flags)
{
	struct blas_square a = { size_of(t, t->size == SIZE_HUGE ? 250 : 70), flags };
	double *x;

	set_args(t, &a);
	x = add_doubles(t, (uint64_t)a.n * a.n, -1, 1);
	for (uint64_t i = 0; i < a.n; i++)
		x[i + i * a.n] = a.n + 1;
	return x;
}

/* Item (i, j) of one of two factors, which has 1 on its diagonal where that is not stored. */
static double in_factor(const struct trial *t, uint64_t n, bool upper, bool unit, uint64_t i, uint64_t j)
{
	if (i == j)
		return unit ? 1 : RANGE(t, 0, double)[i + j * n];
	return (upper ? i < j : i > j) ? RANGE(t, 0, double)[i + j * n] : 0;
}

/* What was there is what comes of multiplying the factors, to 1e-10 of the terms' sizes. */
static void near_product(const struct trial *t, uint64_t n, uint64_t i, uint64_t j, double sum,
			 double size)
{
	near(t, i + j * n, sum, WAS(t, 0, double)[i + j * n], 1e-10 * (size + 1e-300));
}

/* The other triangle may be no numbers. */
static void make_potrf(struct trial *t)
{
	double *x = make_square(t, trial_random(2) ? BLAS_UPPER : 0);
	const struct blas_square *a = ARGS_OF(t, struct blas_square);
	bool none = trial_random(2);

	for (uint64_t i = 0; none && i < (uint64_t)a->n * a->n; i++)
		if (a->flags & BLAS_UPPER ? i % a->n > i / a->n : i % a->n < i / a->n)
			x[i] = NAN;
}

static void check_potrf(const struct trial *t)
{
	const struct blas_square *a = ARGS_OF(t, struct blas_square);
	bool upper = a->flags & BLAS_UPPER;
	uint64_t n = a->n;

	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < n; j++) {
			double sum = 0, size = 0;

			if (upper ? i > j : i < j) {
				ck_assert_msg(!memcmp(RANGE(t, 0, double) + i + j * n,
						      WAS(t, 0, double) + i + j * n, sizeof(double)),
					      "potrf_f64: the other triangle's item %zu has changed",
					      (size_t)(i + j * n));
				continue;
			}
			for (uint64_t k = 0; k < n; k++) {
				double term = upper ? in_factor(t, n, true, false, k, i) *
						      in_factor(t, n, true, false, k, j) :
						      in_factor(t, n, false, false, i, k) *
						      in_factor(t, n, false, false, j, k);

				sum += term;
				size += fabs(term);
			}
			near_product(t, n, i, j, sum, size);
		}
}

static void make_getrf(struct trial *t)
{
	make_square(t, 0);
}

static void check_getrf(const struct trial *t)
{
	uint64_t n = ARGS_OF(t, struct blas_square)->n;

	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < n; j++) {
			double sum = 0, size = 0;

			for (uint64_t k = 0; k < n; k++) {
				double term = in_factor(t, n, false, true, i, k) *
					      in_factor(t, n, true, false, k, j);

				sum += term;
				size += fabs(term);
			}
			near_product(t, n, i, j, sum, size);
		}
}

static void set_alpha(struct trial *t, bool f64, double alpha)
{
	if (f64)
		*(double *)t->args = alpha;
	else
		*(float *)t->args = (float)alpha;
}

bool blas_without_terms(struct trial *t, double alpha)
{
	bool gemm = !strncmp(t->c->name, "gemm", 4), gemv = !strncmp(t->c->name, "gemv", 4);
	bool f64 = strstr(t->c->name, "_f64") != NULL, solved = !strcmp(t->c->name, "trsm_f64");
	uint32_t *words = (uint32_t *)((char *)t->args + (f64 ? 16 : 8));

	if (!gemm && !gemv && strcmp(t->c->name, "syrk_f64") && (!solved || alpha != 0))
		return false;
	set_alpha(t, f64, alpha);
	/* m, n, k; m, n, flags; n, k. */
	if (alpha != 0)
		words[gemm ? 2 : gemv ? !(words[2] & BLAS_TRANS_A) : 1] = 0;
	for (uint32_t i = 0; alpha == 0 && i < (solved ? 2 : t->nr_ranges - 1); i++)
		memset(t->r[i].data, 0xff, t->r[i].length);
	trial_keep(t);
	return true;
}

const struct std_case blas_cases[] = {
	{ "gemm_f32", make_gemm_f32, check_gemm_f32, 0 },
	{ "gemm_f64", make_gemm_f64, check_gemm_f64, 0 },
	{ "gemv_f32", make_gemv_f32, check_gemv_f32, 0 },
	{ "gemv_f64", make_gemv_f64, check_gemv_f64, 0 },
	{ "trsm_f64", make_trsm, check_trsm, 0 },
	{ "syrk_f64", make_syrk, check_syrk, 0 },
	{ "potrf_f64", make_potrf, check_potrf, 0 },
	{ "getrf_nopiv_f64", make_getrf, check_getrf, 0 },
	{ 0 },
};
