// SPDX-License-Identifier: MIT
/* By CLBlast, for OpenCL devices; opened when a device first asks for it. */
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "daemon/kernels/blas/vendor.h"

#define LIBRARY	"libclblast.so.1"

#define OPENCL	"libOpenCL.so.1"	/* which it calls itself */

#define CALLS(X) X(Sgemm) X(Dgemm) X(Sgemv) X(Dgemv) X(Dtrsm) X(Dsyrk) X(ClearCache)

static struct {
	pthread_mutex_t lock;
	void *library;
#define X(name) __typeof__(CLBlast##name) *name;
	CALLS(X)
#undef X
	__typeof__(clEnqueueFillBuffer) *fill;
} blast = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int open_library(char *why, size_t len)
{
	/* It stays: it has exit handlers of its own. */
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	const char *missing = NULL;

	if (!library) {
		snprintf(why, len, "no CLBlast (Debian: libclblast1): %s", dlerror());
		return -ENOENT;
	}
#define X(name)									\
	blast.name = (__typeof__(blast.name))dlsym(library, "CLBlast" #name);	\
	if (!blast.name)							\
		missing = "CLBlast" #name;
	CALLS(X)
#undef X
	if (missing) {
		snprintf(why, len, LIBRARY " has no %s", missing);
		return -ENOENT;
	}
	library = dlopen(OPENCL, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	blast.fill = library ? (__typeof__(blast.fill))dlsym(library, "clEnqueueFillBuffer") : NULL;
	if (!blast.fill) {
		snprintf(why, len, OPENCL " has no clEnqueueFillBuffer");
		return -ENOENT;
	}
	blast.library = library;
	return 0;
}

int arax_stream_open(const struct arax_stream *s, char *why, size_t len)
{
	int err;

	(void)s;
	pthread_mutex_lock(&blast.lock);
	err = blast.library ? 0 : open_library(why, len);
	pthread_mutex_unlock(&blast.lock);
	return err;
}

/* Programs, which hold the device's context. */
void arax_stream_close(const struct arax_stream *s)
{
	(void)s;
	blast.ClearCache();
}

static int done(const struct arax_stream *s, CLBlastStatusCode status)
{
	*s->state = &blast;
	switch (status) {
	case CLBlastSuccess:
		return 0;
	/* Found out before anything is begun that others would see. */
	case CLBlastNoDoublePrecision:
	case CLBlastNotImplemented:
	case CLBlastInvalidLocalThreadsDim:
	case CLBlastInvalidLocalThreadsTotal:
	case CLBlastInvalidLocalMemUsage:
	case CLBlastOpenCLBuildProgramFailure:
	case CLBlastTempBufferAllocFailure:
		return -EOPNOTSUPP;
	case CLBlastOpenCLOutOfResources:
	case CLBlastOpenCLOutOfHostMemory:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

static CLBlastTranspose trans(const struct blas_call *p, uint32_t flag)
{
	return p->flags & flag ? CLBlastTransposeYes : CLBlastTransposeNo;
}

static size_t size(int n)
{
	return (size_t)n;
}

int vendor_gemm(const struct arax_stream *s, const struct blas_call *p)
{
	cl_command_queue queue = s->stream;
	const size_t m = size(p->m), n = size(p->n), k = size(p->k);
	const size_t lda = size(p->lda), ldb = size(p->ldb), ldc = size(p->ldc);

	/* A dimension of 0 it takes for an error. */
	if (!k)
		return -EOPNOTSUPP;
	if (p->f64)
		return done(s, blast.Dgemm(CLBlastLayoutColMajor, trans(p, BLAS_TRANS_A),
					   trans(p, BLAS_TRANS_B), m, n, k, p->alpha, p->a, 0, lda,
					   p->b, 0, ldb, p->beta, p->c, 0, ldc, &queue, NULL));
	return done(s, blast.Sgemm(CLBlastLayoutColMajor, trans(p, BLAS_TRANS_A),
				   trans(p, BLAS_TRANS_B), m, n, k, (float)p->alpha, p->a, 0, lda,
				   p->b, 0, ldb, (float)p->beta, p->c, 0, ldc, &queue, NULL));
}

int vendor_gemv(const struct arax_stream *s, const struct blas_call *p)
{
	cl_command_queue queue = s->stream;
	const size_t m = size(p->m), n = size(p->n), lda = size(p->lda);
	const size_t items = p->flags & BLAS_TRANS_A ? n : m;
	static const uint64_t zero;

	/* What is there it reads also where beta is 0. */
	if (p->beta == 0 &&
	    blast.fill(queue, p->c, &zero, sizeof(float), 0,
		       items * (p->f64 ? sizeof(double) : sizeof(float)), 0, NULL, NULL))
		return -EOPNOTSUPP;
	if (p->f64)
		return done(s, blast.Dgemv(CLBlastLayoutColMajor, trans(p, BLAS_TRANS_A), m, n,
					   p->alpha, p->a, 0, lda, p->b, 0, 1, p->beta, p->c, 0, 1,
					   &queue, NULL));
	return done(s, blast.Sgemv(CLBlastLayoutColMajor, trans(p, BLAS_TRANS_A), m, n,
				   (float)p->alpha, p->a, 0, lda, p->b, 0, 1, (float)p->beta, p->c, 0,
				   1, &queue, NULL));
}

static CLBlastTriangle triangle(const struct blas_call *p)
{
	return p->flags & BLAS_UPPER ? CLBlastTriangleUpper : CLBlastTriangleLower;
}

int vendor_trsm(const struct arax_stream *s, const struct blas_call *p)
{
	cl_command_queue queue = s->stream;

	return done(s, blast.Dtrsm(CLBlastLayoutColMajor,
				   p->flags & BLAS_RIGHT ? CLBlastSideRight : CLBlastSideLeft,
				   triangle(p), trans(p, BLAS_TRANS_A),
				   p->flags & BLAS_UNIT ? CLBlastDiagonalUnit : CLBlastDiagonalNonUnit,
				   size(p->m), size(p->n), p->alpha, p->a, 0, size(p->lda),
				   p->b, 0, size(p->ldb), &queue, NULL));
}

int vendor_syrk(const struct arax_stream *s, const struct blas_call *p)
{
	cl_command_queue queue = s->stream;

	if (!p->k)
		return -EOPNOTSUPP;
	return done(s, blast.Dsyrk(CLBlastLayoutColMajor, triangle(p), trans(p, BLAS_TRANS_A),
				   size(p->n), size(p->k), p->alpha, p->a, 0,
				   size(p->lda), p->beta, p->c, 0, size(p->ldc), &queue,
				   NULL));
}
