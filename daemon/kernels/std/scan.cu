// SPDX-License-Identifier: MIT
/* scan.c for GPUs.  One block scans all (scan_*), or a block a part (scan_parts_*). */
#include "std_gpu.h"

/*
 * Items @i .. @end - 1 behind those whose sum is @before, as many at once as there are threads:
 * each adds what stands 1, 2, 4 ... before it.  All threads of a block call it.
 */
template <typename T, typename W>
static __device__ void scan_piece(const T *x, T *y, uint64_t i, uint64_t end, W before,
				  uint32_t exclusive, W *sums)
{
	const uint64_t me = arax_item(), used = parts_used();

	for (; i < end; i += used) {
		const bool mine = me < used && i + me < end;
		W sum = mine ? x[i + me] : 0;

		if (me < used)
			sums[me] = sum;
		__syncthreads();
		for (uint64_t apart = 1; apart < used; apart *= 2) {
			W more = me >= apart && me < used ? sums[me - apart] : 0;

			__syncthreads();
			if (me < used)
				sums[me] += more;
			__syncthreads();
		}
		if (mine && !exclusive)
			y[i + me] = (T)(before + sums[me]);
		else if (mine)
			y[i + me] = (T)(me ? before + sums[me - 1] : before);
		before += sums[used - 1];
		__syncthreads();
	}
}

template <typename T, typename W>
static __device__ void scan(const T *x, uint64_t nx, T *y, uint64_t ny, uint32_t n,
			    uint32_t exclusive, int32_t *result, W *sums)
{
	if (exclusive > 1 || SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	if (!arax_group())
		scan_piece(x, y, 0, n, (W)0, exclusive, sums);
}

template <typename T, typename W>
static __device__ void scan_parts(const T *x, uint64_t nx, const W *part, uint64_t npart, T *y,
				  uint64_t ny, uint32_t n, uint32_t parts, uint32_t exclusive,
				  int32_t *result, W *sums)
{
	const uint64_t me = arax_item(), used = parts_used();

	if (exclusive > 1 || !parts || SHORT(nx, n) || SHORT(npart, parts) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t p = arax_group(); p < parts; p += arax_groups()) {
		W before = 0;

		for (uint64_t i = me; me < used && i < p; i += used)
			before += part[i];
		before = add_parts(sums, before);
		scan_piece(x, y, PART(n, parts, p), PART(n, parts, p + 1), before, exclusive, sums);
	}
}

ARAX_GPU_KERNEL arax_std_scan_u32(const uint32_t *x, uint64_t nx, uint32_t *y, uint64_t ny,
				  uint32_t n, uint32_t exclusive, int32_t *result)
{
	__shared__ uint32_t sums[PARTS];

	scan(x, nx, y, ny, n, exclusive, result, sums);
}

ARAX_GPU_KERNEL arax_std_scan_f32(const float *x, uint64_t nx, float *y, uint64_t ny, uint32_t n,
				  uint32_t exclusive, int32_t *result)
{
	__shared__ double sums[PARTS];

	scan(x, nx, y, ny, n, exclusive, result, sums);
}

ARAX_GPU_KERNEL arax_std_scan_parts_u32(const uint32_t *x, uint64_t nx, const uint32_t *part,
					uint64_t npart, uint32_t *y, uint64_t ny, uint32_t n,
					uint32_t parts, uint32_t exclusive, int32_t *result)
{
	__shared__ uint32_t sums[PARTS];

	scan_parts(x, nx, part, npart, y, ny, n, parts, exclusive, result, sums);
}

ARAX_GPU_KERNEL arax_std_scan_parts_f32(const float *x, uint64_t nx, const double *part,
					uint64_t npart, float *y, uint64_t ny, uint32_t n,
					uint32_t parts, uint32_t exclusive, int32_t *result)
{
	__shared__ double sums[PARTS];

	scan_parts(x, nx, part, npart, y, ny, n, parts, exclusive, result, sums);
}
