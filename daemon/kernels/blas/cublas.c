// SPDX-License-Identifier: MIT
/* By cuBLAS, for CUDA devices; opened when a device first asks for it. */
#include <cublas_v2.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "daemon/kernels/blas/vendor.h"

/* Calls of version 2 of its interface, which these versions have alike; the newest first. */
static const char *const libraries[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11" };

#define CALLS(X) \
	X(Create_v2) X(Destroy_v2) X(SetStream_v2) X(Sgemm_v2) X(Dgemm_v2) X(Sgemv_v2) X(Dgemv_v2) \
	X(Dtrsm_v2) X(Dsyrk_v2)

static struct {
	pthread_mutex_t lock;
	void *library;
#define X(name) __typeof__(cublas##name) *name;
	CALLS(X)
#undef X
} blas = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int open_library(char *why, size_t len)
{
	const char *missing = NULL;
	void *library = NULL;

	/* It has runtimes that keep state for threads: it stays. */
	for (size_t i = 0; !library && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library) {
		snprintf(why, len, "no cuBLAS of CUDA 11 to 13 (it comes with the CUDA Toolkit, and has to be where ld.so looks): %s",
			 dlerror());
		return -ENOENT;
	}
#define X(name)									\
	blas.name = (__typeof__(blas.name))dlsym(library, "cublas" #name);	\
	if (!blas.name)								\
		missing = "cublas" #name;
	CALLS(X)
#undef X
	if (missing) {
		snprintf(why, len, "cuBLAS has no %s", missing);
		return -ENOENT;
	}
	blas.library = library;
	return 0;
}

int arax_stream_open(const struct arax_stream *s, char *why, size_t len)
{
	int err;

	(void)s;
	pthread_mutex_lock(&blas.lock);
	err = blas.library ? 0 : open_library(why, len);
	pthread_mutex_unlock(&blas.lock);
	return err;
}

/* In place of a handle: there won't be one. */
static char no_handle;

void arax_stream_close(const struct arax_stream *s)
{
	if (*s->state != &no_handle)
		blas.Destroy_v2(*s->state);
}

static int code_of(cublasStatus_t status)
{
	switch (status) {
	case CUBLAS_STATUS_SUCCESS:
		return 0;
	case CUBLAS_STATUS_ALLOC_FAILED:
		return -ENOMEM;
	case CUBLAS_STATUS_NOT_SUPPORTED:
	case CUBLAS_STATUS_ARCH_MISMATCH:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

/* A stream's own handle, as it has memory that its calls use one after the other. */
static int handle_of(const struct arax_stream *s, cublasHandle_t *handle)
{
	cublasStatus_t status;

	if (*s->state == &no_handle)
		return -EOPNOTSUPP;
	*handle = *s->state;
	if (*handle)
		return 0;
	status = blas.Create_v2(handle);
	/* Too new for the driver; or too little memory, of which other implementations need none. */
	if (status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ARCH_MISMATCH)
		*s->state = &no_handle;
	if (*s->state || status == CUBLAS_STATUS_ALLOC_FAILED)
		return -EOPNOTSUPP;
	if (!status) {
		status = blas.SetStream_v2(*handle, s->stream);
		if (status)
			blas.Destroy_v2(*handle);
	}
	if (!status)
		*s->state = *handle;
	return code_of(status);
}

static cublasOperation_t trans(const struct blas_call *p, uint32_t flag)
{
	return p->flags & flag ? CUBLAS_OP_T : CUBLAS_OP_N;
}

static cublasFillMode_t triangle(const struct blas_call *p)
{
	return p->flags & BLAS_UPPER ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
}

int vendor_gemm(const struct arax_stream *s, const struct blas_call *p)
{
	const float alpha = (float)p->alpha, beta = (float)p->beta;
	cublasHandle_t h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	if (p->f64)
		return code_of(blas.Dgemm_v2(h, trans(p, BLAS_TRANS_A), trans(p, BLAS_TRANS_B), p->m,
					     p->n, p->k, &p->alpha, p->a, p->lda, p->b, p->ldb,
					     &p->beta, p->c, p->ldc));
	return code_of(blas.Sgemm_v2(h, trans(p, BLAS_TRANS_A), trans(p, BLAS_TRANS_B), p->m, p->n,
				     p->k, &alpha, p->a, p->lda, p->b, p->ldb, &beta, p->c, p->ldc));
}

int vendor_gemv(const struct arax_stream *s, const struct blas_call *p)
{
	const float alpha = (float)p->alpha, beta = (float)p->beta;
	cublasHandle_t h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	if (p->f64)
		return code_of(blas.Dgemv_v2(h, trans(p, BLAS_TRANS_A), p->m, p->n, &p->alpha, p->a,
					     p->lda, p->b, 1, &p->beta, p->c, 1));
	return code_of(blas.Sgemv_v2(h, trans(p, BLAS_TRANS_A), p->m, p->n, &alpha, p->a, p->lda,
				     p->b, 1, &beta, p->c, 1));
}

int vendor_trsm(const struct arax_stream *s, const struct blas_call *p)
{
	cublasHandle_t h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	return code_of(blas.Dtrsm_v2(h, p->flags & BLAS_RIGHT ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT,
				     triangle(p), trans(p, BLAS_TRANS_A),
				     p->flags & BLAS_UNIT ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT,
				     p->m, p->n, &p->alpha, p->a, p->lda, p->b, p->ldb));
}

int vendor_syrk(const struct arax_stream *s, const struct blas_call *p)
{
	cublasHandle_t h;
	int err = handle_of(s, &h);

	if (err)
		return err;
	return code_of(blas.Dsyrk_v2(h, triangle(p), trans(p, BLAS_TRANS_A), p->n, p->k, &p->alpha,
				     p->a, p->lda, &p->beta, p->c, p->ldc));
}
