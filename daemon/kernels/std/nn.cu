// SPDX-License-Identifier: MIT
/* Of conv.c and pool.c, layers of one image: a thread computes one item of the output at a time. */
#include "std_gpu.h"

#define MAX_SIZE	15u
#define MAX_STRIDE	16u
#define MAX_TAPS	65536u

struct conv {
	uint64_t channels, height, width, out_height, out_width;
	uint32_t size, stride;
};

/* Item i of the output, which is filters x out_height x out_width. */
static __device__ float conv_at(const float *src, const float *weights, const conv *c, uint64_t i)
{
	int64_t pad = c->size / 2, width = (int64_t)c->width;
	int64_t left = (int64_t)(i % c->out_width * c->stride) - pad;
	int64_t top = (int64_t)(i / c->out_width % c->out_height * c->stride) - pad;
	const float *w = weights + i / c->out_width / c->out_height * c->channels * c->size * c->size;
	/* The part of the kernel that lies on the image. */
	int64_t i0 = left < 0 ? -left : 0, j0 = top < 0 ? -top : 0;
	int64_t i1 = width - left < c->size ? width - left : c->size;
	int64_t j1 = (int64_t)c->height - top < c->size ? (int64_t)c->height - top : c->size;
	float sum = 0;

	for (uint64_t k = 0; k < c->channels; k++) {
		for (int64_t j = j0; j < j1; j++)
			for (int64_t m = i0; m < i1; m++)
				sum += src[(top + j) * width + left + m] * w[j * c->size + m];
		src += c->height * c->width;
		w += c->size * c->size;
	}
	return sum;
}

ARAX_GPU_KERNEL arax_std_conv_relu(const float *src, uint64_t nsrc, const float *weights,
				   uint64_t nweights, float *dst, uint64_t ndst, uint32_t width,
				   uint32_t height, uint32_t channels, uint32_t filters,
				   uint32_t size, uint32_t stride, int32_t *result)
{
	uint64_t in, out;
	conv c;

	if (!width || !height || !channels || !filters || !(size & 1) || size > MAX_SIZE ||
	    !stride || stride > MAX_STRIDE) {
		*result = -EINVAL;
		return;
	}
	c.channels = channels;
	c.height = height;
	c.width = width;
	c.size = size;
	c.stride = stride;
	c.out_height = ((uint64_t)height + stride - 1) / stride;
	c.out_width = ((uint64_t)width + stride - 1) / stride;
	if ((uint64_t)channels * size * size > MAX_TAPS ||
	    SHORT(nweights, (uint64_t)filters * channels * size * size) ||
	    !product(width, height, channels, nsrc, &in) ||
	    !product(c.out_width, c.out_height, filters, ndst, &out)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, out) {
		float v = conv_at(src, weights, &c, i);

		dst[i] = v < 0 ? 0 : v;
	}
}

ARAX_GPU_KERNEL arax_std_mean_pool(const float *src, uint64_t nsrc, float *dst, uint64_t ndst,
				   uint32_t width, uint32_t height, uint32_t channels,
				   uint32_t size, int32_t *result)
{
	uint64_t in, out, w, h;

	if (!size || size > width || size > height || !channels) {
		*result = -EINVAL;
		return;
	}
	w = width / size;
	h = height / size;
	if (!product(width, height, channels, nsrc, &in) || !product(w, h, channels, ndst, &out)) {
		*result = -EINVAL;
		return;
	}
	float scale = 1 / ((float)size * (float)size);

	ARAX_EACH(i, out) {
		uint64_t top = i / w / h * height + i / w % h * size, left = i % w * size;
		float sum = 0;

		for (uint64_t r = 0; r < size; r++)
			for (uint64_t k = 0; k < size; k++)
				sum += src[(top + r) * width + left + k];
		dst[i] = sum * scale;
	}
}

ARAX_GPU_KERNEL arax_std_concat(const float *a, uint64_t na, const float *b, uint64_t nb, float *c,
				uint64_t nc, uint32_t n, uint32_t m, int32_t *result)
{
	uint64_t all = (uint64_t)n + m;

	if (SHORT(na, n) || SHORT(nb, m) || SHORT(nc, all)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, all)
		c[i] = i < n ? a[i] : b[i - n];
}
