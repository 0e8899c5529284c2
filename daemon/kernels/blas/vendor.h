/* SPDX-License-Identifier: MIT */
/*
 * vendor.h - what of arax-blas a vendor's library computes, on a device's stream
 *
 * vendor.c has the kernels' functions and checks what they are given; clblast.c, cublas.c and
 * rocblas.c have one library's calls each, and are linked with it to a file of their own.
 * Such a call returns what a function of arax/stream.h does.
 */
#ifndef ARAX_BLAS_VENDOR_H
#define ARAX_BLAS_VENDOR_H

#include <arax/stream.h>

#include "daemon/kernels/blas/blas.h"

/**
 * struct blas_call - arguments that have been checked
 * @f64: items are f64, else f32
 * @flags: BLAS_*
 * @m, @n, @k: as the kernel has them
 * @a, @b, @c: cl_mem or addresses; of gemv the matrix and two vectors, of trsm @b is the result
 * @lda, @ldb, @ldc: leading dimensions, at least 1
 */
struct blas_call {
	bool f64;
	uint32_t flags;
	int m, n, k;
	int lda, ldb, ldc;
	double alpha, beta;
	void *a, *b, *c;
};

/* None of @m and @n is 0; @k may be. */
int vendor_gemm(const struct arax_stream *s, const struct blas_call *p);
/* Likewise. */
int vendor_gemv(const struct arax_stream *s, const struct blas_call *p);
/* f64 alone. */
int vendor_trsm(const struct arax_stream *s, const struct blas_call *p);
int vendor_syrk(const struct arax_stream *s, const struct blas_call *p);

/* arax_stream_open() and arax_stream_close(), whose names are not of a vendor. */
ARAX_KERNEL arax_stream_open_fn arax_stream_open;
ARAX_KERNEL arax_stream_close_fn arax_stream_close;

#endif /* ARAX_BLAS_VENDOR_H */
