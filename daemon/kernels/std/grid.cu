// SPDX-License-Identifier: MIT
/* grid.c for GPUs: the same sums in the same order. */
#include "std_gpu.h"

/* At an edge of a side that is `n` long. */
#define AT_EDGE(i, n)	(!(i) || (i) == (n) - 1)

#define TILE	32u	/* of a transpose: by rows in, by columns out */

ARAX_GPU_KERNEL arax_std_stencil5_f32(const float *x, uint64_t nx, float *y, uint64_t ny,
				      uint32_t width, uint32_t height, float center, float side,
				      arax_gpu_result result)
{
	uint64_t n = (uint64_t)width * height;

	if (result.canceled())
		return;
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	WALK(w, n, width) {
		const uint64_t i = w.i;

		if (AT_EDGE(w.col, width) || AT_EDGE(w.row, height)) {
			y[i] = x[i];
		} else {
			float sum = x[i - width] + x[i + width];

			sum = sum + (x[i - 1] + x[i + 1]);
			y[i] = center * x[i] + side * sum;
		}
	}
}

/* Memory keeps as many threads busy as there can be: with 32 registers each. */
ARAX_GPU_KERNEL __launch_bounds__(1024, 2)
arax_std_stencil7_f32(const float *x, uint64_t nx, float *y, uint64_t ny, uint32_t width,
		      uint32_t height, uint32_t depth, float center, float side,
		      arax_gpu_result result)
{
	uint64_t plane = (uint64_t)width * height, n;

	if (result.canceled())
		return;
	if (!product(width, height, depth, nx < ny ? nx : ny, &n)) {
		*result = -EINVAL;
		return;
	}
	for (walk3 w = walk3_begin(n, width, height); w.in.i < w.in.end; walk3_on(&w)) {
		const uint64_t i = w.in.i;

		if (AT_EDGE(w.in.col, width) || AT_EDGE(w.row, height) || AT_EDGE(w.plane, depth)) {
			y[i] = x[i];
		} else {
			float sum = x[i - plane] + x[i + plane];

			sum = sum + (x[i - width] + x[i + width]);
			sum = sum + (x[i - 1] + x[i + 1]);
			y[i] = center * x[i] + side * sum;
		}
	}
}

/* Neighbouring threads read neighbouring memory, and write it: between these a tile is shared. */
ARAX_GPU_KERNEL arax_std_transpose_f32(const float *x, uint64_t nx, float *y, uint64_t ny,
				       uint32_t rows, uint32_t cols, arax_gpu_result result)
{
	__shared__ float tile[TILE * (TILE + 1)];
	uint64_t n = (uint64_t)rows * cols;
	uint64_t down = ((uint64_t)rows + TILE - 1) / TILE, across = ((uint64_t)cols + TILE - 1) / TILE;

	if (result.canceled())
		return;
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t t = arax_group(); t < down * across; t += arax_groups()) {
		uint64_t row = t / across * TILE, col = t % across * TILE;

		for (uint32_t i = (uint32_t)arax_item(); i < TILE * TILE; i += (uint32_t)arax_items()) {
			uint64_t r = row + i / TILE, c = col + i % TILE;

			if (r < rows && c < cols)
				tile[i / TILE * (TILE + 1) + i % TILE] = x[r * cols + c];
		}
		__syncthreads();
		for (uint32_t i = (uint32_t)arax_item(); i < TILE * TILE; i += (uint32_t)arax_items()) {
			uint64_t r = row + i % TILE, c = col + i / TILE;

			if (r < rows && c < cols)
				y[c * rows + r] = tile[i % TILE * (TILE + 1) + i / TILE];
		}
		__syncthreads();
	}
}
