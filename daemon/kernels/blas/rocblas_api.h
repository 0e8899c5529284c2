/* SPDX-License-Identifier: MIT */
/*
 * rocblas_api.h - what is called of rocBLAS
 *
 * As <rocblas/rocblas.h> has it in ROCm 5 to 6.2; Debian 12 has none, and only the library, which
 * is opened at run time, is a vendor's.  What stands there as an enumeration, an int here.
 */
#ifndef ARAX_BLAS_ROCBLAS_API_H
#define ARAX_BLAS_ROCBLAS_API_H

enum {
	ROCBLAS_SUCCESS = 0,
	ROCBLAS_NOT_IMPLEMENTED = 2,
	ROCBLAS_MEMORY_ERROR = 5,
	ROCBLAS_PERF_DEGRADED = 7,	/* for want of memory; it has computed */
	ROCBLAS_EXCLUDED_FROM_BUILD = 14,
	ROCBLAS_ARCH_MISMATCH = 15,
};

enum {
	ROCBLAS_OP_NONE = 111,
	ROCBLAS_OP_TRANSPOSE = 112,
	ROCBLAS_UPPER = 121,
	ROCBLAS_LOWER = 122,
	ROCBLAS_NON_UNIT = 131,
	ROCBLAS_UNIT = 132,
	ROCBLAS_LEFT = 141,
	ROCBLAS_RIGHT = 142,
	ROCBLAS_ATOMICS_NOT_ALLOWED = 0,
};

typedef struct rocblas *rocblas_handle;

int rocblas_create_handle(rocblas_handle *handle);
int rocblas_destroy_handle(rocblas_handle handle);
int rocblas_set_stream(rocblas_handle handle, void *stream);
int rocblas_set_atomics_mode(rocblas_handle handle, int mode);

int rocblas_sgemm(rocblas_handle handle, int trans_a, int trans_b, int m, int n, int k,
		  const float *alpha, const float *a, int lda, const float *b, int ldb,
		  const float *beta, float *c, int ldc);
int rocblas_dgemm(rocblas_handle handle, int trans_a, int trans_b, int m, int n, int k,
		  const double *alpha, const double *a, int lda, const double *b, int ldb,
		  const double *beta, double *c, int ldc);
int rocblas_sgemv(rocblas_handle handle, int trans, int m, int n, const float *alpha,
		  const float *a, int lda, const float *x, int incx, const float *beta, float *y,
		  int incy);
int rocblas_dgemv(rocblas_handle handle, int trans, int m, int n, const double *alpha,
		  const double *a, int lda, const double *x, int incx, const double *beta, double *y,
		  int incy);
int rocblas_dtrsm(rocblas_handle handle, int side, int triangle, int trans, int diagonal, int m,
		  int n, const double *alpha, const double *a, int lda, double *b, int ldb);
int rocblas_dsyrk(rocblas_handle handle, int triangle, int trans, int n, int k,
		  const double *alpha, const double *a, int lda, const double *beta, double *c,
		  int ldc);

#endif /* ARAX_BLAS_ROCBLAS_API_H */
