// SPDX-License-Identifier: MIT
/*
 * vector.c for GPUs: the same arithmetic, as it is compiled without contraction to fused
 * multiply-add.
 */
#include "std_gpu.h"

ARAX_GPU_KERNEL arax_std_vadd(const float *a, uint64_t na, const float *b, uint64_t nb, float *c,
			      uint64_t nc, uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(na, n) || SHORT(nb, n) || SHORT(nc, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		c[i] = a[i] + b[i];
}

ARAX_GPU_KERNEL arax_std_saxpy(const float *x, uint64_t nx, float *y, uint64_t ny, float a,
			       uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] += a * x[i];
}

ARAX_GPU_KERNEL arax_std_triad(const float *b, uint64_t nb, const float *c, uint64_t nc, float *a,
			       uint64_t na, float s, uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(na, n) || SHORT(nb, n) || SHORT(nc, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		a[i] = b[i] + s * c[i];
}

ARAX_GPU_KERNEL arax_std_square(const float *x, uint64_t nx, float *y, uint64_t ny, uint32_t n,
				arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] = x[i] * x[i];
}

ARAX_GPU_KERNEL arax_std_divide(const float *x, uint64_t nx, const double *by, uint64_t nby,
				float *y, uint64_t ny, uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(nx, n) || nby < 1 || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	double s = 1 / by[0];

	ARAX_EACH(i, n)
		y[i] = (float)((double)x[i] * s);
}
