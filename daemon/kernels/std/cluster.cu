// SPDX-License-Identifier: MIT
/* cluster.c for GPUs. */
#include "std_gpu.h"

#define NEAR	16u	/* of a tile of distances, a thread each */
#define DIMS	16u	/* dimensions that are shared at once */
#define FEW_DIMS 8u

/* Dimensions @at.. of rows @first..; what there is not is 0. */
static __device__ void load_rows(float *to, const float *x, uint64_t rows, uint64_t dims,
				 uint64_t first, uint64_t at)
{
	for (uint32_t i = (uint32_t)arax_item(); i < NEAR * DIMS; i += (uint32_t)arax_items()) {
		uint64_t r = first + i / DIMS, d = at + i % DIMS;

		to[i / DIMS * (DIMS + 1) + i % DIMS] = r < rows && d < dims ? x[r * dims + d] : 0;
	}
}

/* Rows @i0.. of a, @j0.. of b: a pair is a number below NEAR * NEAR. */
struct tile {
	const float *a, *b;
	uint64_t rows_a, rows_b, dims, i0, j0;
	float *ra, *rb;		/* shared: NEAR * (DIMS + 1) */
};

/* The distance of pair @mine; none, if there is no such pair.  All threads of a block call it. */
static __device__ float distance_in(const tile *t, uint32_t mine)
{
	const uint32_t i = mine / NEAR * (DIMS + 1), j = mine % NEAR * (DIMS + 1);
	double sum = 0;
	float part = 0;

	for (uint64_t at = 0; at < t->dims; at += DIMS) {
		load_rows(t->ra, t->a, t->rows_a, t->dims, t->i0, at);
		load_rows(t->rb, t->b, t->rows_b, t->dims, t->j0, at);
		__syncthreads();
		for (uint32_t d = 0; mine < NEAR * NEAR && d < DIMS; d++) {
			float apart = t->ra[i + d] - t->rb[j + d];

			part += apart * apart;
		}
		if (at % RUN == RUN - DIMS) {
			sum += part;
			part = 0;
		}
		__syncthreads();
	}
	return (float)(sum + part);
}

/* A block computes tiles; one of few threads goes over the rows again for the others' distances. */
ARAX_GPU_KERNEL arax_std_distances_f32(const float *a, uint64_t na, const float *b, uint64_t nb,
				       float *dist, uint64_t ndist, uint32_t rows_a, uint32_t rows_b,
				       uint32_t dims, arax_gpu_result result)
{
	__shared__ float ra[NEAR * (DIMS + 1)], rb[NEAR * (DIMS + 1)];
	uint64_t down = ((uint64_t)rows_a + NEAR - 1) / NEAR, across = ((uint64_t)rows_b + NEAR - 1) / NEAR;
	tile t = { a, b, rows_a, rows_b, dims, 0, 0, ra, rb };

	if (result.canceled())
		return;
	if (SHORT(na, (uint64_t)rows_a * dims) || SHORT(nb, (uint64_t)rows_b * dims) ||
	    SHORT(ndist, (uint64_t)rows_a * rows_b)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t n = arax_group(); n < down * across; n += arax_groups()) {
		t.i0 = n / across * NEAR;
		t.j0 = n % across * NEAR;
		for (uint64_t p = 0; p < NEAR * NEAR; p += arax_items()) {
			uint32_t mine = (uint32_t)(p + arax_item());
			uint64_t i = t.i0 + mine / NEAR, j = t.j0 + mine % NEAR;
			float sum = distance_in(&t, mine);

			if (mine < NEAR * NEAR && i < rows_a && j < rows_b)
				dist[i * rows_b + j] = sum;
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

/* Of few dimensions, neighbours' points stand close enough together: a thread a point. */
static __device__ void assign_by_points(const float *x, const float *center, uint32_t *label,
					uint32_t n, uint32_t dims, uint32_t k)
{
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
 * NEAR points at a time meet all centers.  @best, @at, NEAR * NEAR each: of a point the least
 * distance from every NEAR'th center on, and which that is.
 */
static __device__ void assign_by_tiles(tile *t, uint32_t *label, float *best, uint32_t *at)
{
	const uint64_t me = arax_item(), items = arax_items();
	const uint64_t down = (t->rows_a + NEAR - 1) / NEAR;

	for (uint64_t n = arax_group(); n < down; n += arax_groups()) {
		t->i0 = n * NEAR;
		for (uint64_t p = 0; p < NEAR * NEAR; p += items) {
			const uint32_t mine = (uint32_t)(p + me);
			float least = __builtin_huge_valf();
			uint32_t which = 0;

			for (t->j0 = 0; t->j0 < t->rows_b; t->j0 += NEAR) {
				uint64_t c = t->j0 + mine % NEAR;
				float d = distance_in(t, mine);

				if (c < t->rows_b && d < least) {
					least = d;
					which = (uint32_t)c;
				}
			}
			if (mine < NEAR * NEAR) {
				best[mine] = least;
				at[mine] = which;
			}
		}
		__syncthreads();
		for (uint64_t i = me; i < NEAR && t->i0 + i < t->rows_a; i += items) {
			uint64_t first = i * NEAR;

			for (uint64_t c = first + 1; c < first + NEAR; c++)
				if (best[c] < best[first] ||
				    (!(best[first] < best[c]) && at[c] < at[first])) {
					best[first] = best[c];
					at[first] = at[c];
				}
			label[t->i0 + i] = at[first];
		}
		__syncthreads();
	}
}

ARAX_GPU_KERNEL arax_std_kmeans_assign(const float *x, uint64_t nx, const float *center,
				       uint64_t ncenter, uint32_t *label, uint64_t nlabel, uint32_t n,
				       uint32_t dims, uint32_t k, arax_gpu_result result)
{
	__shared__ float ra[NEAR * (DIMS + 1)], rb[NEAR * (DIMS + 1)], best[NEAR * NEAR];
	__shared__ uint32_t at[NEAR * NEAR];
	tile t = { x, center, n, k, dims, 0, 0, ra, rb };

	if (result.canceled())
		return;
	if (!k || !dims || SHORT(nx, (uint64_t)n * dims) || SHORT(ncenter, (uint64_t)k * dims) ||
	    SHORT(nlabel, n)) {
		*result = -EINVAL;
		return;
	}
	if (dims <= FEW_DIMS)
		assign_by_points(x, center, label, n, dims, k);
	else
		assign_by_tiles(&t, label, best, at);
}

/*
 * A block has as many dimensions of a center as it has threads that take part; if the center has
 * fewer, several threads share one, each with a part of the points.  They look at all labels,
 * so no label leads anywhere.
 */
ARAX_GPU_KERNEL arax_std_kmeans_update(const float *x, uint64_t nx, const uint32_t *label,
				       uint64_t nlabel, float *center, uint64_t ncenter, uint32_t n,
				       uint32_t dims, uint32_t k, arax_gpu_result result)
{
	__shared__ double sums[PARTS];
	__shared__ uint32_t counts[PARTS];

	if (result.canceled())
		return;
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
