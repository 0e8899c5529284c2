// SPDX-License-Identifier: MIT
/*
 * Layers of neural networks on images: planes of f32, one a channel, each rows
 * without padding.  Work is dealt to work-groups by rows of the output.
 */
#include <stdlib.h>

#include "daemon/kernels/std/std.h"

int arax_std_conv_relu(const struct arax_launch *l);
int arax_std_mean_pool(const struct arax_launch *l);
int arax_std_concat(const struct arax_launch *l);

#define SPAN		64u	/* pixels of an output row at a time */
#define HALF		32u	/* of these, as many as the sums of two filters have registers for */
#define MAX_SIZE	15u
#define MAX_STRIDE	16u
#define MAX_TAPS	65536u	/* weights of a filter */

struct conv_args {
	uint32_t width, height, channels, filters, size, stride;
};

struct conv {
	struct conv_args a;
	uint64_t taps, out_width, out_height;
	const float *src, *weights;
	float *dst;
	float *part;	/* taps x SPAN: what each weight meets in the span */
};

/* to[i] = from[i * stride]; common strides apart, so that they vectorise. */
STD_INLINE void take(float *restrict to, const float *restrict from, uint64_t stride, uint64_t n)
{
	if (stride == 1)
		memcpy(to, from, n * sizeof(*to));
	else if (stride == 2)
		for (uint64_t i = 0; i < n; i++)
			to[i] = from[2 * i];
	else
		for (uint64_t i = 0; i < n; i++)
			to[i] = from[stride * i];
}

/* What one weight meets: of row `row`, from column `at` on, which may lie left of it. */
STD_INLINE void tap(float *part, const float *row, int64_t at, const struct conv_args *a,
		    uint64_t n)
{
	uint64_t i = 0, stride = a->stride, end = 0;

	while (i < n && at + (int64_t)(i * stride) < 0)
		part[i++] = 0;
	if (at + (int64_t)(i * stride) < (int64_t)a->width) {
		end = ((uint64_t)((int64_t)a->width - at) - 1) / stride + 1;
		end = end < n ? end : n;
		take(part + i, row + at + (int64_t)(i * stride), stride, end - i);
		i = end;
	}
	memset(part + i, 0, (SPAN - i) * sizeof(*part));
}

STD_INLINE void gather(const struct conv *c, uint64_t x, uint64_t y, uint64_t n)
{
	const struct conv_args *a = &c->a;
	int64_t left = (int64_t)(x * a->stride) - a->size / 2;
	int64_t top = (int64_t)(y * a->stride) - a->size / 2;
	float *part = c->part;

	for (uint64_t k = 0; k < a->channels; k++) {
		const float *plane = c->src + k * a->height * a->width;

		for (int64_t j = 0; j < a->size; j++) {
			for (int64_t i = 0; i < a->size; i++, part += SPAN) {
				if (top + j < 0 || top + j >= a->height)
					memset(part, 0, SPAN * sizeof(*part));
				else
					tap(part, plane + (top + j) * a->width, left + i, a, n);
			}
		}
	}
}

/* HALF pixels of two filters. */
STD_INLINE void weigh(float *p, float *q, const float *part, const float *v, const float *w,
		      uint64_t taps)
{
	std_v8 sp[4] = { { 0 } }, sq[4] = { { 0 } };

	for (uint64_t t = 0; t < taps; t++, part += SPAN)
		for (int k = 0; k < 4; k++) {
			std_v8 x = *(const std_v8 *)(part + 8 * k);

			sp[k] += x * v[t];
			sq[k] += x * w[t];
		}
	for (int k = 0; k < 4; k++) {
		*(std_v8 *)(p + 8 * k) = sp[k];
		*(std_v8 *)(q + 8 * k) = sq[k];
	}
}

STD_INLINE void rectify(float *dst, const float *line, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		dst[i] = line[i] < 0 ? 0 : line[i];
}

STD_FMA_CLONES
static void conv_rows(const struct conv *c, uint64_t y, uint64_t end)
{
	uint64_t plane = c->out_height * c->out_width;
	float p[SPAN], q[SPAN];

	for (; y < end; y++)
		for (uint64_t x = 0; x < c->out_width; x += SPAN) {
			uint64_t n = c->out_width - x < SPAN ? c->out_width - x : SPAN;
			float *dst = c->dst + y * c->out_width + x;

			gather(c, x, y, n);
			for (uint64_t f = 0; f < c->a.filters; f += 2) {
				/* The last of an odd number has itself beside it. */
				uint64_t g = f + 1 < c->a.filters ? f + 1 : f;

				for (uint32_t h = 0; h < SPAN; h += HALF)
					weigh(p + h, q + h, c->part + h, c->weights + f * c->taps,
					      c->weights + g * c->taps, c->taps);
				rectify(dst + f * plane, p, n);
				rectify(dst + g * plane, q, n);
			}
		}
}

static int conv_bounds(const struct arax_launch *l, struct conv *c)
{
	uint64_t in, out;

	if (!c->a.width || !c->a.height || !c->a.channels || !c->a.filters ||
	    !(c->a.size & 1) || c->a.size > MAX_SIZE || !c->a.stride || c->a.stride > MAX_STRIDE)
		return -EINVAL;
	c->taps = (uint64_t)c->a.channels * c->a.size * c->a.size;
	c->out_width = ((uint64_t)c->a.width + c->a.stride - 1) / c->a.stride;
	c->out_height = ((uint64_t)c->a.height + c->a.stride - 1) / c->a.stride;
	if (c->taps > MAX_TAPS ||
	    __builtin_mul_overflow((uint64_t)c->a.width * c->a.height, c->a.channels, &in) ||
	    __builtin_mul_overflow(c->out_width * c->out_height, c->a.filters, &out))
		return -EINVAL;
	c->src = ARAX_ITEMS(l, 0, in, float);
	c->weights = ARAX_ITEMS(l, 1, c->a.filters * c->taps, float);
	c->dst = ARAX_ITEMS(l, 2, out, float);
	return c->src && c->weights && c->dst ? 0 : -EINVAL;
}

/*
 * conv_relu(in f32 src[], in f32 weights[], out f32 dst[], u32 width, u32 height, u32 channels,
 *	     u32 filters, u32 size, u32 stride):
 * each filter (channels x size x size weights, size odd and at most 15) at every stride-th
 * pixel of every stride-th row, beginning with the first, zeros beyond the edges; less than
 * 0 becomes 0
 */
ARAX_KERNEL int arax_std_conv_relu(const struct arax_launch *l)
{
	uint64_t begin, end;
	struct conv c;
	int err;

	err = arax_launch_args(l, &c.a, sizeof(c.a));
	if (!err)
		err = conv_bounds(l, &c);
	if (err)
		return err;
	c.part = malloc(c.taps * SPAN * sizeof(float));
	if (!c.part)
		return -ENOMEM;
	arax_launch_share(l, c.out_height, &begin, &end);
	conv_rows(&c, begin, end);
	free(c.part);
	return 0;
}

struct pool_args {
	uint32_t width, height, channels, size;
};

STD_CLONES
static void add_rows(float *line, const float *src, uint64_t width, uint64_t rows)
{
	memcpy(line, src, width * sizeof(*line));
	for (uint64_t r = 1; r < rows; r++)
		for (uint64_t x = 0; x < width; x++)
			line[x] += src[r * width + x];
}

/*
 * mean_pool(in f32 src[], out f32 dst[], u32 width, u32 height, u32 channels, u32 size):
 * the mean of each square of size x size; what is left over to the right and below is dropped
 */
ARAX_KERNEL int arax_std_mean_pool(const struct arax_launch *l)
{
	uint64_t in, width, height, rows, y, end;
	struct pool_args a;
	const float *src;
	float *dst, *line, scale;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.size || a.size > a.width ||
	    a.size > a.height || !a.channels ||
	    __builtin_mul_overflow((uint64_t)a.width * a.height, a.channels, &in))
		return -EINVAL;
	width = a.width / a.size;
	height = a.height / a.size;
	rows = height * a.channels;
	src = ARAX_ITEMS(l, 0, in, float);
	dst = ARAX_ITEMS(l, 1, rows * width, float);
	if (!src || !dst)
		return -EINVAL;
	line = malloc(a.width * sizeof(*line));
	if (!line)
		return -ENOMEM;
	scale = 1 / ((float)a.size * (float)a.size);
	arax_launch_share(l, rows, &y, &end);
	for (; y < end; y++) {
		uint64_t first = y / height * a.height + y % height * a.size;

		add_rows(line, src + first * a.width, a.width, a.size);
		for (uint64_t x = 0; x < width; x++) {
			float sum = 0;

			for (uint64_t i = 0; i < a.size; i++)
				sum += line[x * a.size + i];
			dst[y * width + x] = sum * scale;
		}
	}
	free(line);
	return 0;
}

struct concat_args {
	uint32_t n, m;
};

/* concat(in f32 a[], in f32 b[], out f32 c[], u32 n, u32 m): n items of a, then m of b */
ARAX_KERNEL int arax_std_concat(const struct arax_launch *l)
{
	struct concat_args args;
	uint64_t i, end, n;
	const float *a, *b;
	float *c;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	n = args.n;
	a = ARAX_ITEMS(l, 0, n, float);
	b = ARAX_ITEMS(l, 1, args.m, float);
	c = ARAX_ITEMS(l, 2, n + args.m, float);
	if (!a || !b || !c)
		return -EINVAL;
	arax_launch_share(l, n + args.m, &i, &end);
	if (i < n && i < end) {
		uint64_t stop = end < n ? end : n;

		memcpy(c + i, a + i, (stop - i) * sizeof(*c));
		i = stop;
	}
	if (i < end)
		memcpy(c + i, b + (i - n), (end - i) * sizeof(*c));
	return 0;
}
