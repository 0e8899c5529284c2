// SPDX-License-Identifier: MIT
/* By CLBlast, for OpenCL devices; opened when a device first asks for it. */
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>
#include <pthread.h>

#include "daemon/kernels/blas/vendor.h"
#include "daemon/kernels/vendor_library.h"

#define CALLS(X) X(Sgemm) X(Dgemm) X(Sgemv) X(Dgemv) X(Dtrsm) X(Dsyrk) X(ClearCache)

static struct {
	pthread_mutex_t lock;
	void *library;
#define X(name) __typeof__(CLBlast##name) *name;
	CALLS(X)
#undef X
	__typeof__(clEnqueueFillBuffer) *fill;
} blast = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int open_libraries(const struct arax_stream *s, char *why, size_t len)
{
	static const char *const clblast[] = { "libclblast.so.1", NULL };
	static const char *const opencl[] = { "libOpenCL.so.1", NULL };	/* which it calls itself */
	static const struct vendor_call calls[] = {
#define X(name) { "CLBlast" #name, (void **)&blast.name },
		CALLS(X)
#undef X
		{ NULL, NULL }
	};
	static const struct vendor_call buffers[] = {
		{ "clEnqueueFillBuffer", (void **)&blast.fill }, { NULL, NULL }
	};
	const struct vendor_library v = { clblast, "no CLBlast (Debian: libclblast1)", calls, NULL };
	const struct vendor_library cl = { opencl, "no OpenCL", buffers, NULL };
	void *library;
	int err = vendor_library_open(&v, s, &library, why, len);

	return err ? err : vendor_library_open(&cl, s, &blast.library, why, len);
}

int arax_stream_open(const struct arax_stream *s, char *why, size_t len)
{
	int err;

	pthread_mutex_lock(&blast.lock);
	err = blast.library ? 0 : open_libraries(s, why, len);
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
	CLBlastStatusCode status;
	int err;

	status = blast.Dtrsm(CLBlastLayoutColMajor,
			     p->flags & BLAS_RIGHT ? CLBlastSideRight : CLBlastSideLeft,
			     triangle(p), trans(p, BLAS_TRANS_A),
			     p->flags & BLAS_UNIT ? CLBlastDiagonalUnit : CLBlastDiagonalNonUnit,
			     size(p->m), size(p->n), p->alpha, p->a, 0, size(p->lda), p->b, 0,
			     size(p->ldb), &queue, NULL);
	err = done(s, status);
	/* It is made of several, and by then may have solved a part in place: it can't be begun anew. */
	if (err == -EOPNOTSUPP && status != CLBlastNoDoublePrecision)
		return status == CLBlastTempBufferAllocFailure ? -ENOMEM : -EIO;
	return err;
}

int vendor_syrk(const struct arax_stream *s, const struct blas_call *p)
{
	cl_command_queue queue = s->stream;

	/* As of products. */
	if (!p->k)
		return -EOPNOTSUPP;
	return done(s, blast.Dsyrk(CLBlastLayoutColMajor, triangle(p), trans(p, BLAS_TRANS_A),
				   size(p->n), size(p->k), p->alpha, p->a, 0, size(p->lda), p->beta,
				   p->c, 0, size(p->ldc), &queue, NULL));
}
