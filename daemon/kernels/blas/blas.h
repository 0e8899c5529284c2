/* SPDX-License-Identifier: MIT */
/* blas.h - arguments of the kernels of arax-blas, as their signatures lay them out */
#ifndef ARAX_BLAS_H
#define ARAX_BLAS_H

#include <stdbool.h>

#include <arax/kernel.h>

#define BLAS_UPPER	0x1	/* the upper triangle; else the lower */
#define BLAS_RIGHT	0x2	/* the triangle stands on the right */
#define BLAS_TRANS_A	0x4
#define BLAS_TRANS_B	0x8
#define BLAS_UNIT	0x10	/* the triangle's diagonal is 1, whatever stands there */

struct blas_square {
	uint32_t n;
	uint32_t flags;
};

struct blas_trsm {
	double alpha;
	uint32_t m, n;
	uint32_t flags;
	uint32_t pad;
};

struct blas_syrk {
	double alpha, beta;
	uint32_t n, k;
	uint32_t flags;
	uint32_t pad;
};

struct blas_gemm {
	double alpha, beta;
	uint32_t m, n, k;
	uint32_t flags;
};

struct blas_gemm_f32 {
	float alpha, beta;
	uint32_t m, n, k;
	uint32_t flags;
};

struct blas_gemv {
	double alpha, beta;
	uint32_t m, n;
	uint32_t flags;
	uint32_t pad;
};

struct blas_gemv_f32 {
	float alpha, beta;
	uint32_t m, n;
	uint32_t flags;
};

#endif /* ARAX_BLAS_H */
