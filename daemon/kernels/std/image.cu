// SPDX-License-Identifier: MIT
/*
 * image.c for GPUs.  As the CPU's blur goes down and then across a whole row, this one does with
 * tiles: the same sums in the same order.
 */
#include "std_gpu.h"

#define BLUR_MAX_SIZE	129u
#define BLUR_SPAN	256u	/* columns of a tile: those that it blurs, and those around them */
#define BLUR_ROWS	8u

static __device__ float clamp01(float v)
{
	v = v > 0 ? v : 0;	/* a NaN becomes 0 */
	return v < 1 ? v : 1;
}

ARAX_GPU_KERNEL arax_std_rgb_to_gray(const uint8_t *rgb, uint64_t nrgb, float *gray,
				     uint64_t ngray, uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(nrgb, 3 * (uint64_t)n) || SHORT(ngray, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)		/* Rec. 709 */
		gray[i] = (0.2126f * rgb[3 * i] + 0.7152f * rgb[3 * i + 1] +
			   0.0722f * rgb[3 * i + 2]) / 255;
}

ARAX_GPU_KERNEL arax_std_gray_to_u8(const float *gray, uint64_t ngray, uint8_t *out, uint64_t nout,
				    uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(ngray, n) || SHORT(nout, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		out[i] = (uint8_t)(clamp01(gray[i]) * 255 + 0.5f);
}

/* Half of a symmetric window, weights that add up to 1: w[0] is the middle. */
static __device__ void gauss(float *w, uint32_t radius, float sigma)
{
	float sum = 0;

	for (uint32_t i = 0; i <= radius; i++) {
		/* The square of a sigma that is small would be 0. */
		float far = (float)i / sigma;

		w[i] = expf(-0.5f * far * far);
		sum += i ? 2 * w[i] : w[i];
	}
	for (uint32_t i = 0; i <= radius; i++)
		w[i] /= sum;
}

/* Rows and columns beyond the edge repeat it. */
static __device__ inline float blur_down(const float *src, uint64_t width, uint64_t height,
					 uint64_t x, uint64_t y, const float *w, uint32_t radius)
{
	float sum = w[0] * src[y * width + x];

	for (uint32_t i = 1; i <= radius; i++) {
		uint64_t up = y >= i ? y - i : 0, down = y + i < height ? y + i : height - 1;

		sum += w[i] * (src[up * width + x] + src[down * width + x]);
	}
	return sum;
}

static __device__ inline float blur_across(const float *sums, const float *w, uint32_t radius)
{
	float sum = w[0] * sums[0];

	for (uint32_t j = 1; j <= radius; j++)
		sum += w[j] * (sums[j] + *(sums - j));
	return sum;
}

/* Of a tile of BLUR_ROWS from @y0 on, and of the columns from @x0 on that are @radius from its sides. */
static __device__ inline void blur_tile(const float *src, float *dst, uint64_t width, uint64_t height,
					uint64_t x0, uint64_t y0, const float *w, uint32_t radius,
					float *sums)
{
	const uint32_t me = (uint32_t)arax_item(), items = (uint32_t)arax_items();

	for (uint32_t i = me; i < BLUR_ROWS * BLUR_SPAN; i += items) {
		uint64_t x = x0 + i % BLUR_SPAN, y = y0 + i / BLUR_SPAN;

		if (y >= height || x >= width + 2 * radius)
			continue;
		x = x < radius ? 0 : x - radius < width ? x - radius : width - 1;
		sums[i] = blur_down(src, width, height, x, y, w, radius);
	}
	__syncthreads();
	for (uint32_t i = me; i < BLUR_ROWS * BLUR_SPAN; i += items) {
		const uint64_t x = x0 + i % BLUR_SPAN, y = y0 + i / BLUR_SPAN;

		if (i % BLUR_SPAN < BLUR_SPAN - 2 * radius && y < height && x < width)
			dst[y * width + x] = blur_across(sums + i + radius, w, radius);
	}
	__syncthreads();
}

/* The first thread of each block that has a tile computes the weights, for all of its threads. */
ARAX_GPU_KERNEL arax_std_blur(const float *src, uint64_t nsrc, float *dst, uint64_t ndst,
			      uint32_t width, uint32_t height, uint32_t size, float sigma,
			      arax_gpu_result result)
{
	__shared__ float w[BLUR_MAX_SIZE / 2 + 1], sums[BLUR_ROWS * BLUR_SPAN];
	uint64_t n = (uint64_t)width * height;
	uint32_t radius = size / 2, wide = BLUR_SPAN - 2 * radius;

	if (result.canceled())
		return;
	if (!width || !height || !(size & 1) || size > BLUR_MAX_SIZE || !(sigma > 0) ||
	    SHORT(nsrc, n) || SHORT(ndst, n)) {
		*result = -EINVAL;
		return;
	}

	const uint64_t across = ((uint64_t)width + wide - 1) / wide;
	const uint64_t down = ((uint64_t)height + BLUR_ROWS - 1) / BLUR_ROWS;

	if (arax_group() >= down * across)
		return;
	if (!arax_item())
		gauss(w, radius, sigma);
	__syncthreads();
	for (uint64_t t = arax_group(); t < down * across; t += arax_groups())
		blur_tile(src, dst, width, height, t % across * wide, t / across * BLUR_ROWS, w,
			  radius, sums);
}

ARAX_GPU_KERNEL arax_std_sobel(const float *src, uint64_t nsrc, float *dst, uint64_t ndst,
			       uint32_t width, uint32_t height, arax_gpu_result result)
{
	uint64_t n = (uint64_t)width * height;

	if (result.canceled())
		return;
	if (!width || !height || SHORT(nsrc, n) || SHORT(ndst, n)) {
		*result = -EINVAL;
		return;
	}
	WALK(at, n, width) {
		uint64_t x = at.col, y = at.row;
		const float *mid = src + y * width;
		const float *up = y ? mid - width : mid;
		const float *down = y + 1 < height ? mid + width : mid;
		uint64_t a = x ? x - 1 : 0, b = x + 1 < width ? x + 1 : x;
		float gx = up[b] - up[a] + 2 * (mid[b] - mid[a]) + down[b] - down[a];
		float gy = down[a] - up[a] + 2 * (down[x] - up[x]) + down[b] - up[b];

		dst[at.i] = sqrtf(gx * gx + gy * gy);
	}
}

ARAX_GPU_KERNEL arax_std_extend(const float *low, uint64_t nlow, const float *high, uint64_t nhigh,
				float *x, uint64_t nx, uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (nlow < 1 || nhigh < 1 || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	float min_x = low[0], span = high[0] - min_x;

	ARAX_EACH(i, n) {
		float v = span > 0 ? 5 * (x[i] - min_x) / span : 0;

		x[i] = v < 1 ? v : 1;
	}
}

ARAX_GPU_KERNEL arax_std_unsharpen(const float *x, uint64_t nx, const float *blurred,
				   uint64_t nblurred, float *y, uint64_t ny, float amount,
				   uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(nx, n) || SHORT(nblurred, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] = clamp01(x[i] * (1 + amount) - blurred[i] * amount);
}

ARAX_GPU_KERNEL arax_std_combine(const float *x, uint64_t nx, const float *y, uint64_t ny,
				 const float *mask, uint64_t nmask, float *z, uint64_t nz,
				 uint32_t n, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (SHORT(nx, n) || SHORT(ny, n) || SHORT(nmask, n) || SHORT(nz, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		z[i] = x[i] * mask[i] + y[i] * (1 - mask[i]);
}
