// SPDX-License-Identifier: MIT
/* reduce.c for GPUs: sums are of the same values in another order. */
#include "std_gpu.h"

/* ------------------------------------------------------------------ */
/* Into one number                                                       */

ARAX_GPU_KERNEL arax_std_sum_f32(const float *x, uint64_t nx, double *sum, uint64_t ns, uint32_t n,
				 arax_gpu_result result)
{
	__shared__ double parts[PARTS];
	uint64_t me = arax_item(), used = parts_used();
	double all = 0;

	if (result.canceled())
		return;
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

ARAX_GPU_KERNEL arax_std_sum_f64(const double *x, uint64_t nx, double *sum, uint64_t ns, uint32_t n,
				 arax_gpu_result result)
{
	__shared__ double parts[PARTS];
	uint64_t me = arax_item(), used = parts_used();
	double all = 0;

	if (result.canceled())
		return;
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
				 double *dot, uint64_t nd, uint32_t n, arax_gpu_result result)
{
	__shared__ double parts[PARTS];
	uint64_t me = arax_item(), used = parts_used();
	double all = 0;

	if (result.canceled())
		return;
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
				  double *sum, uint64_t ns, uint32_t n, arax_gpu_result result)
{
	__shared__ double parts[PARTS];
	uint64_t me = arax_item(), used = parts_used();
	double all = 0;

	if (result.canceled())
		return;
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
			       float sign, float *parts, arax_gpu_result result)
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
	best = put_together(parts, best, greater());
	if (!me)
		out[0] = sign * best;
}

ARAX_GPU_KERNEL arax_std_max_f32(const float *x, uint64_t nx, float *out, uint64_t nout,
				 uint32_t n, arax_gpu_result result)
{
	__shared__ float parts[PARTS];

	if (result.canceled())
		return;
	extreme(x, nx, out, nout, n, 1, parts, result);
}

ARAX_GPU_KERNEL arax_std_min_f32(const float *x, uint64_t nx, float *out, uint64_t nout,
				 uint32_t n, arax_gpu_result result)
{
	__shared__ float parts[PARTS];

	if (result.canceled())
		return;
	extreme(x, nx, out, nout, n, -1, parts, result);
}

/* ------------------------------------------------------------------ */
/* By parts: a block each                                                */

ARAX_GPU_KERNEL arax_std_sum_parts_f32(const float *x, uint64_t nx, double *part, uint64_t npart,
				       uint32_t n, uint32_t parts, arax_gpu_result result)
{
	__shared__ double of_threads[PARTS];
	uint64_t me = arax_item(), used = parts_used();

	if (result.canceled())
		return;
	if (!parts || SHORT(nx, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t p = arax_group(); p < parts; p += arax_groups()) {
		uint64_t end = PART(n, parts, p + 1);
		double sum = 0;

		for (uint64_t i = PART(n, parts, p) + me; me < used && i < end; i += used)
			sum += x[i];
		sum = add_parts(of_threads, sum);
		if (!me)
			part[p] = sum;
	}
}

ARAX_GPU_KERNEL arax_std_dot_parts_f32(const float *x, uint64_t nx, const float *y, uint64_t ny,
				       double *part, uint64_t npart, uint32_t n, uint32_t parts,
				       arax_gpu_result result)
{
	__shared__ double of_threads[PARTS];
	uint64_t me = arax_item(), used = parts_used();

	if (result.canceled())
		return;
	if (!parts || SHORT(nx, n) || SHORT(ny, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t p = arax_group(); p < parts; p += arax_groups()) {
		uint64_t end = PART(n, parts, p + 1);
		double sum = 0;

		for (uint64_t i = PART(n, parts, p) + me; me < used && i < end; i += used)
			sum += (double)x[i] * (double)y[i];
		sum = add_parts(of_threads, sum);
		if (!me)
			part[p] = sum;
	}
}

ARAX_GPU_KERNEL arax_std_sum_parts_u32(const uint32_t *x, uint64_t nx, uint32_t *part,
				       uint64_t npart, uint32_t n, uint32_t parts,
				       arax_gpu_result result)
{
	__shared__ uint32_t of_threads[PARTS];
	uint64_t me = arax_item(), used = parts_used();

	if (result.canceled())
		return;
	if (!parts || SHORT(nx, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t p = arax_group(); p < parts; p += arax_groups()) {
		uint64_t end = PART(n, parts, p + 1);
		uint32_t sum = 0;

		for (uint64_t i = PART(n, parts, p) + me; me < used && i < end; i += used)
			sum += x[i];
		sum = add_parts(of_threads, sum);
		if (!me)
			part[p] = sum;
	}
}

static __device__ void extreme_parts(const float *x, uint64_t nx, float *part, uint64_t npart,
				     uint32_t n, uint32_t parts, float sign, float *of_threads,
				     arax_gpu_result result)
{
	uint64_t me = arax_item(), used = parts_used();

	if (!parts || SHORT(nx, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t p = arax_group(); p < parts; p += arax_groups()) {
		uint64_t end = me < used ? PART(n, parts, p + 1) : 0;
		float best = extreme_of(x, PART(n, parts, p) + me, end, used, sign);

		best = put_together(of_threads, best, greater());
		if (!me)
			part[p] = sign * best;
	}
}

ARAX_GPU_KERNEL arax_std_max_parts_f32(const float *x, uint64_t nx, float *part, uint64_t npart,
				       uint32_t n, uint32_t parts, arax_gpu_result result)
{
	__shared__ float of_threads[PARTS];

	if (result.canceled())
		return;
	extreme_parts(x, nx, part, npart, n, parts, 1, of_threads, result);
}

ARAX_GPU_KERNEL arax_std_min_parts_f32(const float *x, uint64_t nx, float *part, uint64_t npart,
				       uint32_t n, uint32_t parts, arax_gpu_result result)
{
	__shared__ float of_threads[PARTS];

	if (result.canceled())
		return;
	extreme_parts(x, nx, part, npart, n, parts, -1, of_threads, result);
}
