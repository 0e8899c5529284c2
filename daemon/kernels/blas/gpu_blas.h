/* SPDX-License-Identifier: MIT */
/*
 * gpu_blas.h - vendor.h by a library that has cuBLAS's calls, as rocBLAS has, in all but their names
 *
 * Included by cublas.c and rocblas.c, each after
 *
 *	BLAS_CALLS(X)	X(field, symbol) for the fields of `blas` that are used here
 *	names, NO_LIBRARY, LIBRARY_SUITS
 *			as a struct vendor_library has them; asked for each device
 *	HANDLE, STATUS	types of the library's
 *	OP_N, OP_T, UPPER, LOWER, LEFT, RIGHT, UNIT, NON_UNIT
 *
 * and it has
 *
 *	handle_make()	a handle for the stream; -EOPNOTSUPP: there will be none
 *	handle_end()
 *	code_of()	a negative errno
 */
#include <pthread.h>

#include "daemon/kernels/blas/vendor.h"
#include "daemon/kernels/vendor_library.h"

static struct {
	pthread_mutex_t lock;
	void *library;
#define X(field, symbol) __typeof__(symbol) *field;
	BLAS_CALLS(X)
#undef X
} blas = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int handle_make(const struct arax_stream *s, HANDLE *handle);
static void handle_end(const struct arax_stream *s, HANDLE handle);
static int code_of(STATUS status);

static const struct vendor_call calls[] = {
#define X(field, symbol) { #symbol, (void **)&blas.field },
	BLAS_CALLS(X)
#undef X
	{ NULL, NULL }
};

static const struct vendor_library the_library = { names, NO_LIBRARY, calls, LIBRARY_SUITS };

int arax_stream_open(const struct arax_stream *s, char *why, size_t len)
{
	int err = 0;

	pthread_mutex_lock(&blas.lock);
	if (!blas.library)
		err = vendor_library_open(&the_library, s, &blas.library, why, len);
	else if (the_library.suits)
		err = the_library.suits(s, blas.library, why, len);
	pthread_mutex_unlock(&blas.lock);
	return err;
}

/* In place of a handle: there won't be one. */
static char no_handle;

void arax_stream_close(const struct arax_stream *s)
{
	if (*s->state != &no_handle)
		handle_end(s, *s->state);
}

/* A stream's own handle, as it has memory that its calls use one after the other. */
static int handle_of(const struct arax_stream *s, HANDLE *handle)
{
	int err;

	if (*s->state == &no_handle)
		return -EOPNOTSUPP;
	*handle = *s->state;
	if (*handle)
		return 0;
	err = handle_make(s, handle);
	if (!err)
		*s->state = *handle;
	else if (err == -EOPNOTSUPP)
		*s->state = &no_handle;
	/* Of memory other implementations need none. */
	return err == -ENOMEM ? -EOPNOTSUPP : err;
}

#define TRANS(p, flag)	((p)->flags & (flag) ? OP_T : OP_N)
#define TRIANGLE(p)	((p)->flags & BLAS_UPPER ? UPPER : LOWER)

int vendor_gemm(const struct arax_stream *s, const struct blas_call *p)
{
	const float alpha = (float)p->alpha, beta = (float)p->beta;
	HANDLE h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	if (p->f64)
		return code_of(blas.dgemm(h, TRANS(p, BLAS_TRANS_A), TRANS(p, BLAS_TRANS_B), p->m,
					  p->n, p->k, &p->alpha, p->a, p->lda, p->b, p->ldb,
					  &p->beta, p->c, p->ldc));
	return code_of(blas.sgemm(h, TRANS(p, BLAS_TRANS_A), TRANS(p, BLAS_TRANS_B), p->m, p->n,
				  p->k, &alpha, p->a, p->lda, p->b, p->ldb, &beta, p->c, p->ldc));
}

int vendor_gemv(const struct arax_stream *s, const struct blas_call *p)
{
	const float alpha = (float)p->alpha, beta = (float)p->beta;
	HANDLE h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	if (p->f64)
		return code_of(blas.dgemv(h, TRANS(p, BLAS_TRANS_A), p->m, p->n, &p->alpha, p->a,
					  p->lda, p->b, 1, &p->beta, p->c, 1));
	return code_of(blas.sgemv(h, TRANS(p, BLAS_TRANS_A), p->m, p->n, &alpha, p->a, p->lda, p->b,
				  1, &beta, p->c, 1));
}

int vendor_trsm(const struct arax_stream *s, const struct blas_call *p)
{
	HANDLE h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	return code_of(blas.dtrsm(h, p->flags & BLAS_RIGHT ? RIGHT : LEFT, TRIANGLE(p),
				  TRANS(p, BLAS_TRANS_A), p->flags & BLAS_UNIT ? UNIT : NON_UNIT,
				  p->m, p->n, &p->alpha, p->a, p->lda, p->b, p->ldb));
}

int vendor_syrk(const struct arax_stream *s, const struct blas_call *p)
{
	HANDLE h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	return code_of(blas.dsyrk(h, TRIANGLE(p), TRANS(p, BLAS_TRANS_A), p->n, p->k, &p->alpha,
				  p->a, p->lda, &p->beta, p->c, p->ldc));
}
