// SPDX-License-Identifier: MIT
/* scan.c for GPUs.  One block scans all (scan_*), or a block a part (scan_parts_*). */
#include "std_gpu.h"

#define EACH	8u	/* items of a thread at a time */

/* Item k in shared memory: threads that look at every EACH'th find them in different banks. */
#define PLACE(k)	((k) + (k) / EACH)

template <typename W> struct scan_room {
	W items[PARTS * (EACH + 1)];
	W sums[PARTS];
};

/*
 * Items @i .. @end - 1 behind those whose sum is @before, EACH times as many at once as there are
 * threads: each adds up its own, and then what stands 1, 2, 4 ... threads before it.  All threads
 * of a block call it.
 */
template <typename T, typename W>
static __device__ void scan_piece(const T *x, T *y, uint64_t i, uint64_t end, W before,
				  uint32_t exclusive, scan_room<W> *room)
{
	const uint64_t me = arax_item(), used = parts_used(), all = EACH * used;

	for (; i < end; i += all) {
		const uint64_t nr = end - i < all ? end - i : all, first = me < used ? me * EACH : nr;
		W sum = 0;

		for (uint64_t k = me; me < used && k < nr; k += used)
			room->items[PLACE(k)] = x[i + k];
		__syncthreads();
		for (uint64_t k = first; k < nr && k < first + EACH; k++)
			sum += room->items[PLACE(k)];
		if (me < used)
			room->sums[me] = sum;
		__syncthreads();
		for (uint64_t apart = 1; apart < used; apart *= 2) {
			W more = me >= apart && me < used ? room->sums[me - apart] : 0;

			__syncthreads();
			if (me < used)
				room->sums[me] += more;
			__syncthreads();
		}
		sum = me && me < used ? before + room->sums[me - 1] : before;
		for (uint64_t k = first; k < nr && k < first + EACH; k++) {
			W next = sum + room->items[PLACE(k)];

			room->items[PLACE(k)] = exclusive ? sum : next;
			sum = next;
		}
		before += room->sums[used - 1];
		__syncthreads();
		for (uint64_t k = me; me < used && k < nr; k += used)
			y[i + k] = (T)room->items[PLACE(k)];
		__syncthreads();
	}
}

template <typename T, typename W>
static __device__ void scan(const T *x, uint64_t nx, T *y, uint64_t ny, uint32_t n,
			    uint32_t exclusive, arax_gpu_result result, scan_room<W> *room)
{
	if (exclusive > 1 || SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	if (!arax_group())
		scan_piece(x, y, 0, n, (W)0, exclusive, room);
}

template <typename T, typename W>
static __device__ void scan_parts(const T *x, uint64_t nx, const W *part, uint64_t npart, T *y,
				  uint64_t ny, uint32_t n, uint32_t parts, uint32_t exclusive,
				  arax_gpu_result result, scan_room<W> *room)
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
		before = add_parts(room->sums, before);
		scan_piece(x, y, PART(n, parts, p), PART(n, parts, p + 1), before, exclusive, room);
	}
}

ARAX_GPU_KERNEL arax_std_scan_u32(const uint32_t *x, uint64_t nx, uint32_t *y, uint64_t ny,
				  uint32_t n, uint32_t exclusive, arax_gpu_result result)
{
	__shared__ scan_room<uint32_t> room;

	if (result.canceled())
		return;
	scan(x, nx, y, ny, n, exclusive, result, &room);
}

ARAX_GPU_KERNEL arax_std_scan_f32(const float *x, uint64_t nx, float *y, uint64_t ny, uint32_t n,
				  uint32_t exclusive, arax_gpu_result result)
{
	__shared__ scan_room<double> room;

	if (result.canceled())
		return;
	scan(x, nx, y, ny, n, exclusive, result, &room);
}

ARAX_GPU_KERNEL arax_std_scan_parts_u32(const uint32_t *x, uint64_t nx, const uint32_t *part,
					uint64_t npart, uint32_t *y, uint64_t ny, uint32_t n,
					uint32_t parts, uint32_t exclusive, arax_gpu_result result)
{
	__shared__ scan_room<uint32_t> room;

	if (result.canceled())
		return;
	scan_parts(x, nx, part, npart, y, ny, n, parts, exclusive, result, &room);
}

ARAX_GPU_KERNEL arax_std_scan_parts_f32(const float *x, uint64_t nx, const double *part,
					uint64_t npart, float *y, uint64_t ny, uint32_t n,
					uint32_t parts, uint32_t exclusive, arax_gpu_result result)
{
	__shared__ scan_room<double> room;

	if (result.canceled())
		return;
	scan_parts(x, nx, part, npart, y, ny, n, parts, exclusive, result, &room);
}
