// SPDX-License-Identifier: MIT
/* By cuBLAS, for CUDA devices; opened when a device first asks for it. */
#include <cublas_v2.h>
#include <stddef.h>

/* Calls of version 2 of its interface, which these versions have alike; the newest first. */
static const char *const names[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL };

#define NO_LIBRARY \
	"no cuBLAS of CUDA 11 to 13 (it comes with the CUDA Toolkit, and has to be where ld.so looks)"

#define BLAS_CALLS(X) \
	X(create, cublasCreate_v2) X(destroy, cublasDestroy_v2) X(set_stream, cublasSetStream_v2) \
	X(sgemm, cublasSgemm_v2) X(dgemm, cublasDgemm_v2) X(sgemv, cublasSgemv_v2) \
	X(dgemv, cublasDgemv_v2) X(dtrsm, cublasDtrsm_v2) X(dsyrk, cublasDsyrk_v2)

#define HANDLE		cublasHandle_t
#define STATUS		cublasStatus_t
#define OP_N		CUBLAS_OP_N
#define OP_T		CUBLAS_OP_T
#define UPPER		CUBLAS_FILL_MODE_UPPER
#define LOWER		CUBLAS_FILL_MODE_LOWER
#define LEFT		CUBLAS_SIDE_LEFT
#define RIGHT		CUBLAS_SIDE_RIGHT
#define UNIT		CUBLAS_DIAG_UNIT
#define NON_UNIT	CUBLAS_DIAG_NON_UNIT

/* The driver has one name, for cuBLAS as for araxd. */
#define LIBRARY_SUITS	NULL

#include "daemon/kernels/blas/gpu_blas.h"

static int code_of(STATUS status)
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

static int handle_make(const struct arax_stream *s, HANDLE *handle)
{
	STATUS status = blas.create(handle);

	/* Too new for the driver. */
	if (status == CUBLAS_STATUS_NOT_INITIALIZED)
		return -EOPNOTSUPP;
	if (!status) {
		status = blas.set_stream(*handle, s->stream);
		if (status)
			blas.destroy(*handle);
	}
	return code_of(status);
}

static void handle_end(const struct arax_stream *s, HANDLE handle)
{
	(void)s;
	blas.destroy(handle);
}
