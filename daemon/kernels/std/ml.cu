// SPDX-License-Identifier: MIT
/* ml.c for GPUs: a thread a product, a row or an item; zscore a block a column. */
#include "std_gpu.h"

/* y[r * classes + c] = row r of x times row c of w */
template <typename T>
static __device__ void matmul(const T *x, uint64_t nx, const float *w, uint64_t nw, float *y,
			      uint64_t ny, uint32_t rows, uint32_t features, uint32_t classes,
			      int32_t *result)
{
	uint64_t n = (uint64_t)rows * classes;

	if (SHORT(nx, (uint64_t)rows * features) || SHORT(nw, (uint64_t)classes * features) ||
	    SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n) {
		const T *in = x + i / classes * features;
		const float *weights = w + i % classes * features;
		float sum[4] = { 0, 0, 0, 0 };
		uint64_t f = 0;

		for (; f + 4 <= features; f += 4)
			for (int k = 0; k < 4; k++)
				sum[k] += (float)in[f + k] * weights[f + k];
		for (; f < features; f++)
			sum[0] += (float)in[f] * weights[f];
		y[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	}
}

ARAX_GPU_KERNEL arax_std_matmul_i32(const int32_t *x, uint64_t nx, const float *w, uint64_t nw,
				    float *y, uint64_t ny, uint32_t rows, uint32_t features,
				    uint32_t classes, int32_t *result)
{
	matmul(x, nx, w, nw, y, ny, rows, features, classes, result);
}

ARAX_GPU_KERNEL arax_std_matmul_f32(const float *x, uint64_t nx, const float *w, uint64_t nw,
				    float *y, uint64_t ny, uint32_t rows, uint32_t features,
				    uint32_t classes, int32_t *result)
{
	matmul(x, nx, w, nw, y, ny, rows, features, classes, result);
}

ARAX_GPU_KERNEL arax_std_row_max(const float *x, uint64_t nx, float *most, uint64_t nmost,
				 uint32_t rows, uint32_t cols, int32_t *result)
{
	if (!cols || SHORT(nx, (uint64_t)rows * cols) || SHORT(nmost, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows)
		most[r] = extreme_of(x, r * cols, (r + 1) * cols, 1, 1);
}

ARAX_GPU_KERNEL arax_std_log_sum_exp(const float *x, uint64_t nx, const float *most,
				     uint64_t nmost, float *lse, uint64_t nlse, uint32_t rows,
				     uint32_t cols, int32_t *result)
{
	if (!cols || SHORT(nx, (uint64_t)rows * cols) || SHORT(nmost, rows) || SHORT(nlse, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows) {
		float sum = 0, top = most[r];

		for (uint64_t i = 0; i < cols; i++)
			sum += expf(x[r * cols + i] - top);
		lse[r] = top + logf(sum);
	}
}

ARAX_GPU_KERNEL arax_std_exp_rows(const float *less, uint64_t nless, float *x, uint64_t nx,
				  uint32_t rows, uint32_t cols, int32_t *result)
{
	uint64_t n = (uint64_t)rows * cols;

	if (!cols || SHORT(nless, rows) || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		x[i] = expf(x[i] - less[i / cols]);
}

ARAX_GPU_KERNEL arax_std_softmax(float *x, uint64_t nx, uint32_t rows, uint32_t cols,
				 int32_t *result)
{
	if (!cols || SHORT(nx, (uint64_t)rows * cols)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows) {
		float *row = x + r * cols;
		float sum = 0, most = extreme_of(row, 0, cols, 1, 1);

		for (uint64_t i = 0; i < cols; i++) {
			float e = expf(row[i] - most);

			row[i] = e;
			sum += e;
		}
		sum = 1 / sum;
		for (uint64_t i = 0; i < cols; i++)
			row[i] *= sum;
	}
}

ARAX_GPU_KERNEL arax_std_add_row(const float *row, uint64_t nrow, float *x, uint64_t nx,
				 uint32_t rows, uint32_t cols, int32_t *result)
{
	uint64_t n = (uint64_t)rows * cols;

	if (!cols || SHORT(nrow, cols) || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		x[i] += row[i % cols];
}

ARAX_GPU_KERNEL arax_std_argmax_sum(const float *a, uint64_t na, const float *b, uint64_t nb,
				    uint32_t *best, uint64_t nbest, uint32_t rows, uint32_t cols,
				    int32_t *result)
{
	uint64_t n = (uint64_t)rows * cols;

	if (!cols || SHORT(na, n) || SHORT(nb, n) || SHORT(nbest, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows) {
		float most = -__builtin_huge_valf();
		uint32_t at = 0;

		for (uint32_t i = 0; i < cols; i++) {
			float v = a[r * cols + i] + b[r * cols + i];

			if (v > most) {
				most = v;
				at = i;
			}
		}
		best[r] = at;
	}
}

/* Sums are of the distance to the column's first item; the first thread deals out the two. */
ARAX_GPU_KERNEL arax_std_zscore(const int32_t *x, uint64_t nx, float *z, uint64_t nz,
				uint32_t rows, uint32_t cols, int32_t *result)
{
	__shared__ double parts[PARTS], more[PARTS], mean, scale;
	uint64_t me = arax_item(), used = parts_used(), n = (uint64_t)rows * cols;

	if (!cols || SHORT(nx, n) || SHORT(nz, n)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t c = arax_group(); rows && c < cols; c += arax_groups()) {
		double first = x[c], sum = 0, squares = 0;

		for (uint64_t r = me; me < used && r < rows; r += used) {
			double d = x[r * cols + c] - first;

			sum += d;
			squares += d * d;
		}
		sum = add_parts(parts, sum);
		squares = add_parts(more, squares);
		if (!me) {
			double middle = sum / rows, variance = squares / rows - middle * middle;

			mean = first + middle;
			scale = variance > 0 ? 1 / sqrt(variance) : 0;
		}
		__syncthreads();
		for (uint64_t r = me; me < used && r < rows; r += used)
			z[r * cols + c] = (float)((x[r * cols + c] - mean) * scale);
		/* The next column's take the place of these. */
		__syncthreads();
	}
}
