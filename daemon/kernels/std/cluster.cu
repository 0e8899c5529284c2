// SPDX-License-Identifier: MIT
/* cluster.c for GPUs. */
#include "std_gpu.h"

#define NEAR	16u	/* of a tile of distances, a thread each */
#define DIMS	16u	/* dimensions that are shared at once */

/* Dimensions @at.. of rows @first..; what there is not is 0. */
static __device__ void load_rows(float *to, const float *x, uint64_t rows, uint64_t dims,
				 uint64_t first, uint64_t at)
{
	for (uint32_t i = (uint32_t)arax_item(); i < NEAR * DIMS; i += (uint32_t)arax_items()) {
		uint64_t r = first + i / DIMS, d = at + i % DIMS;

		to[i / DIMS * (DIMS + 1) + i % DIMS] = r < rows && d < dims ? x[r * dims + d] : 0;
	}
}

/* A block computes tiles; one of few threads goes over the rows again for the others' distances. */
ARAX_GPU_KERNEL arax_std_distances_f32(const float *a, uint64_t na, const float *b, uint64_t nb,
				       float *dist, uint64_t ndist, uint32_t rows_a, uint32_t rows_b,
				       uint32_t dims, int32_t *result)
{
	__shared__ float ra[NEAR * (DIMS + 1)], rb[NEAR * (DIMS + 1)];
	uint64_t n = (uint64_t)rows_a * rows_b, me = arax_item(), items = arax_items();
	uint64_t down = ((uint64_t)rows_a + NEAR - 1) / NEAR, across = ((uint64_t)rows_b + NEAR - 1) / NEAR;

	if (SHORT(na, (uint64_t)rows_a * dims) || SHORT(nb, (uint64_t)rows_b * dims) ||
	    SHORT(ndist, n)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t t = arax_group(); t < down * across; t += arax_groups()) {
		uint64_t i0 = t / across * NEAR, j0 = t % across * NEAR;

		for (uint64_t p = 0; p < NEAR * NEAR; p += items) {
			uint32_t mine = (uint32_t)(p + me), i = mine / NEAR, j = mine % NEAR;
			float sum = 0;

			for (uint64_t at = 0; at < dims; at += DIMS) {
				load_rows(ra, a, rows_a, dims, i0, at);
				load_rows(rb, b, rows_b, dims, j0, at);
				__syncthreads();
				for (uint32_t d = 0; mine < NEAR * NEAR && d < DIMS; d++) {
					float apart = ra[i * (DIMS + 1) + d] - rb[j * (DIMS + 1) + d];

					sum += apart * apart;
				}
				__syncthreads();
			}
			if (mine < NEAR * NEAR && i0 + i < rows_a && j0 + j < rows_b)
				dist[(i0 + i) * rows_b + j0 + j] = sum;
		}
	}
}

static __device__ inline float distance_of(const float *a, const float *b, uint64_t dims)
{
	float sum = 0;

	for (uint64_t d = 0; d < dims; d++) {
		float apart = a[d] - b[d];

		sum += apart * apart;
	}
	return sum;
}

ARAX_GPU_KERNEL arax_std_kmeans_assign(const float *x, uint64_t nx, const float *center,
				       uint64_t ncenter, uint32_t *label, uint64_t nlabel, uint32_t n,
				       uint32_t dims, uint32_t k, int32_t *result)
{
	if (!k || !dims || SHORT(nx, (uint64_t)n * dims) || SHORT(ncenter, (uint64_t)k * dims) ||
	    SHORT(nlabel, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n) {
		float best = __builtin_huge_valf();
		uint32_t at = 0;

		for (uint32_t c = 0; c < k; c++) {
			float d = distance_of(x + i * dims, center + (uint64_t)c * dims, dims);

			if (d < best) {
				best = d;
				at = c;
			}
		}
		label[i] = at;
	}
}

/*
 * A block has as many dimensions of a center as it has threads that take part; if the center has
 * fewer, several threads share one, each with a part of the points.  They look at all labels,
 * so no label leads anywhere.
 */
ARAX_GPU_KERNEL arax_std_kmeans_update(const float *x, uint64_t nx, const uint32_t *label,
				       uint64_t nlabel, float *center, uint64_t ncenter, uint32_t n,
				       uint32_t dims, uint32_t k, int32_t *result)
{
	__shared__ double sums[PARTS];
	__shared__ uint32_t counts[PARTS];

	if (!k || !dims || SHORT(nx, (uint64_t)n * dims) || SHORT(nlabel, n) ||
	    SHORT(ncenter, (uint64_t)k * dims)) {
		*result = -EINVAL;
		return;
	}

	const uint64_t me = arax_item(), used = parts_used();
	const uint64_t wide = dims < used ? dims : used, sharing = used / wide;
	const uint64_t blocks = (dims + wide - 1) / wide;	/* that a center takes */

	for (uint64_t t = arax_group(); t < k * blocks; t += arax_groups()) {
		const uint64_t c = t / blocks, d = t % blocks * wide + me % wide;
		const bool mine = me < sharing * wide && d < dims;
		uint64_t half = 1;

		if (mine) {
			double sum = 0;
			uint32_t count = 0;

			for (uint64_t p = me / wide; p < n; p += sharing)
				if (label[p] == c) {
					sum += x[p * dims + d];
					count++;
				}
			sums[me] = sum;
			counts[me] = count;
		}
		while (2 * half < sharing)
			half *= 2;
		for (; half; half /= 2) {
			__syncthreads();
			if (mine && me / wide < half && me / wide + half < sharing) {
				sums[me] += sums[me + half * wide];
				counts[me] += counts[me + half * wide];
			}
		}
		if (mine && me < wide && counts[me])
			center[c * dims + d] = (float)(sums[me] / counts[me]);
		__syncthreads();
	}
}
