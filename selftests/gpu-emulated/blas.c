// SPDX-License-Identifier: MIT
/*
 * A vendor's BLAS in software, on streams of the driver in software (emulated, not hardware): once
 * as cuBLAS (EMULATED_CUDA) and once as rocBLAS.  It proves what it is asked to compute, in which
 * order, and on whose handle; not that the vendor's does the same.
 *
 * Where AMD's ends the process, so does this one.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef EMULATED_CUDA
#include <cublas_v2.h>
#define AS(cuda, hip)	cuda
#define STATUS		cublasStatus_t
#define HANDLE		cublasHandle_t
#define STREAM		cudaStream_t
#define OP		cublasOperation_t
#define TRIANGLE	cublasFillMode_t
#define SIDE		cublasSideMode_t
#define DIAGONAL	cublasDiagType_t
#else
#include "daemon/kernels/blas/rocblas_api.h"
#define AS(cuda, hip)	hip
#define STATUS		int
#define HANDLE		rocblas_handle
#define STREAM		void *
#define OP		int
#define TRIANGLE	int
#define SIDE		int
#define DIAGONAL	int
int hipStreamQuery(void *stream);
#endif

#include "selftests/gpu-emulated/emulated.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define EXPORT __attribute__((visibility("default")))

#define OK		AS(CUBLAS_STATUS_SUCCESS, ROCBLAS_SUCCESS)
#define INVALID		AS(CUBLAS_STATUS_INVALID_VALUE, 11)
#define FAILED		AS(CUBLAS_STATUS_EXECUTION_FAILED, 6)
#define NOT_INITIALIZED	AS(CUBLAS_STATUS_NOT_INITIALIZED, 1)
#define TRANSPOSED(op)	((op) == AS(CUBLAS_OP_T, ROCBLAS_OP_TRANSPOSE))
#define IS_OP(op)	(TRANSPOSED(op) || (op) == AS(CUBLAS_OP_N, ROCBLAS_OP_NONE))
#define IS_UPPER(t)	((t) == AS(CUBLAS_FILL_MODE_UPPER, ROCBLAS_UPPER))
#define IS_TRIANGLE(t)	(IS_UPPER(t) || (t) == AS(CUBLAS_FILL_MODE_LOWER, ROCBLAS_LOWER))

#define ALIVE	0xb1a5a11e

/* All that were not ended are on a list: what is left of a broken context is no leak. */
struct handle {
	struct handle *next;
	uint32_t alive;
	void *stream;
};

static struct handle *handles;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* By columns, as BLAS has them. */
struct matrix {
	uint64_t address;
	bool f64;
	int rows, columns, lead;
};

struct job {
	enum { PRODUCT, SOLVE } what;
	struct matrix a, b, c;		/* SOLVE: b is c */
	double alpha, beta;
	bool turn_a, turn_b;
	bool one_triangle, upper, unit, right;
};

static bool is_right(const struct matrix *m)
{
	return m->rows >= 0 && m->columns >= 0 && m->lead >= (m->rows > 1 ? m->rows : 1);
}

/* NULL: an item of it is nowhere. */
static void *data_of(const struct matrix *m)
{
	static char nothing[sizeof(double)];
	uint64_t items;

	if (!m->rows || !m->columns)
		return nothing;
	items = (uint64_t)(m->columns - 1) * (uint64_t)m->lead + (uint64_t)m->rows;
	return emulated_memory(m->address, items * (m->f64 ? sizeof(double) : sizeof(float)));
}

static double get(const struct matrix *m, const void *data, bool turned, int i, int k)
{
	size_t at = turned ? (size_t)i * (size_t)m->lead + (size_t)k :
			     (size_t)k * (size_t)m->lead + (size_t)i;

	return m->f64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}

static void set(const struct matrix *m, void *data, int i, int k, double v)
{
	size_t at = (size_t)k * (size_t)m->lead + (size_t)i;

	if (m->f64)
		((double *)data)[at] = v;
	else
		((float *)data)[at] = (float)v;
}

static void product(const struct job *j, const void *a, const void *b, void *c)
{
	const int inner = j->turn_a ? j->a.rows : j->a.columns;

	for (int k = 0; k < j->c.columns; k++)
		for (int i = 0; i < j->c.rows; i++) {
			double sum = 0;

			if (j->one_triangle && (j->upper ? i > k : i < k))
				continue;
			for (int x = 0; x < inner; x++)
				sum += get(&j->a, a, j->turn_a, i, x) * get(&j->b, b, j->turn_b, x, k);
			sum *= j->alpha;
			/* What was there is not read then. */
			if (j->beta != 0)
				sum += j->beta * get(&j->c, c, false, i, k);
			set(&j->c, c, i, k, sum);
		}
}

/* Item (@i, @k) of op(a), of which only one triangle is read. */
static double of_triangle(const struct job *j, const void *a, int i, int k)
{
	return i == k && j->unit ? 1 : get(&j->a, a, j->turn_a, i, k);
}

static void solve(const struct job *j, const void *a, void *c)
{
	const int n = j->a.rows, lines = j->right ? j->c.rows : j->c.columns;
	/* Whether op(a) is a lower one, and of x op(a) the transposed. */
	const bool forward = (j->upper == j->turn_a) != j->right;

	for (int line = 0; line < lines; line++)
		for (int step = 0; step < n; step++) {
			int i = forward ? step : n - 1 - step;
			double v = j->alpha * (j->right ? get(&j->c, c, false, line, i) :
						      get(&j->c, c, false, i, line));

			for (int done = 0; done < step; done++) {
				int x = forward ? done : n - 1 - done;

				v -= j->right ? get(&j->c, c, false, line, x) * of_triangle(j, a, x, i) :
						get(&j->c, c, false, x, line) * of_triangle(j, a, i, x);
			}
			v /= of_triangle(j, a, i, i);
			if (j->right)
				set(&j->c, c, line, i, v);
			else
				set(&j->c, c, i, line, v);
		}
}

static bool work(void *arg)
{
	const struct job *j = arg;
	void *a = data_of(&j->a), *b = data_of(&j->b), *c = data_of(&j->c);

	if (!a || !b || !c)
		return false;
	if (j->what == PRODUCT)
		product(j, a, b, c);
	else
		solve(j, a, c);
	return true;
}

static STATUS put(HANDLE handle, const struct job *j)
{
	struct handle *h = (void *)handle;
	struct job *own;

	if (!h || h->alive != ALIVE || !h->stream)
		return NOT_INITIALIZED;
	if (!is_right(&j->a) || !is_right(&j->b) || !is_right(&j->c))
		return INVALID;
	own = malloc(sizeof(*own));
	*own = *j;
	return emulated_push(h->stream, work, own) ? OK : FAILED;
}

/* ------------------------------------------------------------------ */

EXPORT STATUS AS(cublasCreate_v2, rocblas_create_handle)(HANDLE *handle)
{
	struct handle *h = calloc(1, sizeof(*h));

	h->alive = ALIVE;
	pthread_mutex_lock(&lock);
	h->next = handles;
	handles = h;
	pthread_mutex_unlock(&lock);
	*handle = (void *)h;
	return OK;
}

EXPORT STATUS AS(cublasDestroy_v2, rocblas_destroy_handle)(HANDLE handle)
{
	struct handle *h = (void *)handle, **link = &handles;

#ifndef EMULATED_CUDA
	/* Its memory there can't be freed. */
	if (h->stream && hipStreamQuery(h->stream)) {
		fputs("rocBLAS internal error: Unable to free device memory\n", stderr);
		abort();
	}
#endif
	if (h->alive != ALIVE)
		abort();
	h->alive = 0;
	pthread_mutex_lock(&lock);
	while (*link != h)
		link = &(*link)->next;
	*link = h->next;
	pthread_mutex_unlock(&lock);
	free(h);
	return OK;
}

EXPORT STATUS AS(cublasSetStream_v2, rocblas_set_stream)(HANDLE handle, STREAM stream)
{
	((struct handle *)handle)->stream = stream;
	return OK;
}

#ifndef EMULATED_CUDA
EXPORT STATUS rocblas_set_atomics_mode(HANDLE handle, int mode)
{
	return mode == ROCBLAS_ATOMICS_NOT_ALLOWED ? OK : INVALID;
}
#endif

static struct matrix matrix(const void *at, bool f64, int rows, int columns, int lead)
{
	return (struct matrix){ (uint64_t)(uintptr_t)at, f64, rows, columns, lead };
}

static STATUS gemm(HANDLE h, bool f64, OP ta, OP tb, int m, int n, int k, double alpha,
		   const void *a, int lda, const void *b, int ldb, double beta, void *c, int ldc)
{
	struct job j = {
		.what = PRODUCT, .alpha = alpha, .beta = beta,
		.turn_a = TRANSPOSED(ta), .turn_b = TRANSPOSED(tb),
		.a = TRANSPOSED(ta) ? matrix(a, f64, k, m, lda) : matrix(a, f64, m, k, lda),
		.b = TRANSPOSED(tb) ? matrix(b, f64, n, k, ldb) : matrix(b, f64, k, n, ldb),
		.c = matrix(c, f64, m, n, ldc),
	};

#ifndef EMULATED_CUDA
	if (strcmp(emulated_arch(), EMULATED_GFX)) {
		fprintf(stderr, "rocBLAS error: Cannot read TensileLibrary.dat for GPU arch : %s\n",
			emulated_arch());
		abort();
	}
#endif
	return IS_OP(ta) && IS_OP(tb) ? put(h, &j) : INVALID;
}

EXPORT STATUS AS(cublasSgemm_v2, rocblas_sgemm)
	(HANDLE h, OP ta, OP tb, int m, int n, int k, const float *alpha, const float *a, int lda,
	 const float *b, int ldb, const float *beta, float *c, int ldc)
{
	return gemm(h, false, ta, tb, m, n, k, (double)*alpha, a, lda, b, ldb, (double)*beta, c, ldc);
}

EXPORT STATUS AS(cublasDgemm_v2, rocblas_dgemm)
	(HANDLE h, OP ta, OP tb, int m, int n, int k, const double *alpha, const double *a, int lda,
	 const double *b, int ldb, const double *beta, double *c, int ldc)
{
	return gemm(h, true, ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}

/* Vectors are one row, whose items are @inc apart. */
static STATUS gemv(HANDLE h, bool f64, OP t, int m, int n, double alpha, const void *a, int lda,
		   const void *x, int incx, double beta, void *y, int incy)
{
	struct job j = {
		.what = PRODUCT, .alpha = alpha, .beta = beta, .turn_a = TRANSPOSED(t),
		.turn_b = true, .a = matrix(a, f64, m, n, lda),
		.b = matrix(x, f64, 1, TRANSPOSED(t) ? m : n, incx),
		.c = matrix(y, f64, TRANSPOSED(t) ? n : m, 1, TRANSPOSED(t) ? n : m),
	};

	return IS_OP(t) && incy == 1 && m && n ? put(h, &j) : INVALID;
}

EXPORT STATUS AS(cublasSgemv_v2, rocblas_sgemv)
	(HANDLE h, OP t, int m, int n, const float *alpha, const float *a, int lda, const float *x,
	 int incx, const float *beta, float *y, int incy)
{
	return gemv(h, false, t, m, n, (double)*alpha, a, lda, x, incx, (double)*beta, y, incy);
}

EXPORT STATUS AS(cublasDgemv_v2, rocblas_dgemv)
	(HANDLE h, OP t, int m, int n, const double *alpha, const double *a, int lda,
	 const double *x, int incx, const double *beta, double *y, int incy)
{
	return gemv(h, true, t, m, n, *alpha, a, lda, x, incx, *beta, y, incy);
}

EXPORT STATUS AS(cublasDtrsm_v2, rocblas_dtrsm)
	(HANDLE h, SIDE side, TRIANGLE triangle, OP t, DIAGONAL diagonal, int m, int n,
	 const double *alpha, const double *a, int lda, double *b, int ldb)
{
	const bool right = side == AS(CUBLAS_SIDE_RIGHT, ROCBLAS_RIGHT);
	const bool unit = diagonal == AS(CUBLAS_DIAG_UNIT, ROCBLAS_UNIT);
	const int order = right ? n : m;
	struct job j = {
		.what = SOLVE, .alpha = *alpha, .turn_a = TRANSPOSED(t), .right = right,
		.upper = IS_UPPER(triangle), .unit = unit,
		.a = matrix(a, true, order, order, lda), .b = matrix(b, true, m, n, ldb),
		.c = matrix(b, true, m, n, ldb),
	};

	if (!IS_TRIANGLE(triangle) || !IS_OP(t) ||
	    (!right && side != AS(CUBLAS_SIDE_LEFT, ROCBLAS_LEFT)) ||
	    (!unit && diagonal != AS(CUBLAS_DIAG_NON_UNIT, ROCBLAS_NON_UNIT)))
		return INVALID;
	return put(h, &j);
}

EXPORT STATUS AS(cublasDsyrk_v2, rocblas_dsyrk)
	(HANDLE h, TRIANGLE triangle, OP t, int n, int k, const double *alpha, const double *a,
	 int lda, const double *beta, double *c, int ldc)
{
	struct job j = {
		.what = PRODUCT, .alpha = *alpha, .beta = *beta, .turn_a = TRANSPOSED(t),
		.turn_b = !TRANSPOSED(t), .one_triangle = true, .upper = IS_UPPER(triangle),
		.a = TRANSPOSED(t) ? matrix(a, true, k, n, lda) : matrix(a, true, n, k, lda),
		.c = matrix(c, true, n, n, ldc),
	};

	j.b = j.a;
	return IS_TRIANGLE(triangle) && IS_OP(t) ? put(h, &j) : INVALID;
}
