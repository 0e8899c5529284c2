// SPDX-License-Identifier: MIT
/* ml.c for GPUs: a thread a product, a row or an item; zscore a block a column. */
#include "std_gpu.h"

/* Runs of as many terms in each of four sums. */
template <typename T>
static __device__ inline float dot_run(const T *x, const float *w, uint64_t n)
{
	float sum[4] = { 0, 0, 0, 0 };
	uint64_t i = 0;

	for (; i + 4 <= n; i += 4)
		for (int k = 0; k < 4; k++)
			sum[k] += (float)x[i + k] * w[i + k];
	for (; i < n; i++)
		sum[0] += (float)x[i] * w[i];
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <typename T>
static __device__ inline float dot(const T *x, const float *w, uint64_t n)
{
	double sum = 0;

	if (n <= 4 * RUN)
		return dot_run(x, w, n);
	for (uint64_t i = 0; i < n; i += 4 * RUN)
		sum += dot_run(x + i, w + i, n - i < 4 * RUN ? n - i : 4 * RUN);
	return (float)sum;
}

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
	ARAX_EACH(i, n)
		y[i] = dot(x + i / classes * features, w + i % classes * features, features);
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
		float top = most[r];
		double sum = 0;

		for (uint64_t i = 0; i < cols;) {
			uint64_t end = i + RUN < cols ? i + RUN : cols;
			float part = 0;

			for (; i < end; i++)
				part += expf(x[r * cols + i] - top);
			sum += part;
		}
		lse[r] = top + logf((float)sum);
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
		float most = extreme_of(row, 0, cols, 1, 1), share;
		double sum = 0;

		for (uint64_t i = 0; i < cols;) {
			uint64_t end = i + RUN < cols ? i + RUN : cols;
			float part = 0;

			for (; i < end; i++) {
				float e = expf(row[i] - most);

				row[i] = e;
				part += e;
			}
			sum += part;
		}
		share = 1 / (float)sum;
		for (uint64_t i = 0; i < cols; i++)
			row[i] *= share;
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
