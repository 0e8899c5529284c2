// SPDX-License-Identifier: MIT
/*
 * vector.c and reduce.c for GPUs.  Sums are of the same values in another order, all else is
 * the same arithmetic: it is compiled without contraction to fused multiply-add.
 */
#include "std_gpu.h"

ARAX_GPU_KERNEL arax_std_vadd(const float *a, uint64_t na, const float *b, uint64_t nb, float *c,
			      uint64_t nc, uint32_t n, int32_t *result)
{
	if (SHORT(na, n) || SHORT(nb, n) || SHORT(nc, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		c[i] = a[i] + b[i];
}

ARAX_GPU_KERNEL arax_std_saxpy(const float *x, uint64_t nx, float *y, uint64_t ny, float a,
			       uint32_t n, int32_t *result)
{
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] += a * x[i];
}

ARAX_GPU_KERNEL arax_std_triad(const float *b, uint64_t nb, const float *c, uint64_t nc, float *a,
			       uint64_t na, float s, uint32_t n, int32_t *result)
{
	if (SHORT(na, n) || SHORT(nb, n) || SHORT(nc, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		a[i] = b[i] + s * c[i];
}

ARAX_GPU_KERNEL arax_std_square(const float *x, uint64_t nx, float *y, uint64_t ny, uint32_t n,
				int32_t *result)
{
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] = x[i] * x[i];
}

ARAX_GPU_KERNEL arax_std_divide(const float *x, uint64_t nx, const double *by, uint64_t nby,
				float *y, uint64_t ny, uint32_t n, int32_t *result)
{
	if (SHORT(nx, n) || nby < 1 || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	float s = (float)(1 / by[0]);

	ARAX_EACH(i, n)
		y[i] = x[i] * s;
}

/* ------------------------------------------------------------------ */
/* Into one number                                                       */

ARAX_GPU_KERNEL arax_std_sum_f32(const float *x, uint64_t nx, double *sum, uint64_t ns, uint32_t n,
				 int32_t *result)
{
	__shared__ double parts[PARTS];
	uint64_t me = arax_item(), used = parts_used();
	double all = 0;

	if (SHORT(nx, n) || ns < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	for (uint64_t i = me; me < used && i < n; i += used)
		all += x[i];
	all = add_parts(parts, all);
	if (!me)
		sum[0] = all;
}

ARAX_GPU_KERNEL arax_std_dot_f32(const float *x, uint64_t nx, const float *y, uint64_t ny,
				 double *dot, uint64_t nd, uint32_t n, int32_t *result)
{
	__shared__ double parts[PARTS];
	uint64_t me = arax_item(), used = parts_used();
	double all = 0;

	if (SHORT(nx, n) || SHORT(ny, n) || nd < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	for (uint64_t i = me; me < used && i < n; i += used)
		all += (double)x[i] * (double)y[i];
	all = add_parts(parts, all);
	if (!me)
		dot[0] = all;
}

ARAX_GPU_KERNEL arax_std_sum_diff(const float *x, uint64_t nx, const float *y, uint64_t ny,
				  double *sum, uint64_t ns, uint32_t n, int32_t *result)
{
	__shared__ double parts[PARTS];
	uint64_t me = arax_item(), used = parts_used();
	double all = 0;

	if (SHORT(nx, n) || SHORT(ny, n) || ns < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	for (uint64_t i = me; me < used && i < n; i += used)
		all += (double)(x[i] - y[i]);
	all = add_parts(parts, all);
	if (!me)
		sum[0] += all;
}

static __device__ void extreme(const float *x, uint64_t nx, float *out, uint64_t nout, uint32_t n,
			       float sign, float *parts, int32_t *result)
{
	uint64_t me = arax_item(), used = parts_used();
	float best;

	if (SHORT(nx, n) || nout < 1 || !n) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	best = extreme_of(x, me, me < used ? n : 0, used, sign);
	if (me < used)
		parts[me] = best;
	__syncthreads();
	if (me)
		return;
	for (uint64_t i = 1; i < used; i++)
		best = parts[i] > best ? parts[i] : best;
	out[0] = sign * best;
}

ARAX_GPU_KERNEL arax_std_max_f32(const float *x, uint64_t nx, float *out, uint64_t nout,
				 uint32_t n, int32_t *result)
{
	__shared__ float parts[PARTS];

	extreme(x, nx, out, nout, n, 1, parts, result);
}

ARAX_GPU_KERNEL arax_std_min_f32(const float *x, uint64_t nx, float *out, uint64_t nout,
				 uint32_t n, int32_t *result)
{
	__shared__ float parts[PARTS];

	extreme(x, nx, out, nout, n, -1, parts, result);
}
