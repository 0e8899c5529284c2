// SPDX-License-Identifier: MIT
/*
 * Convolutions of images: planes of f32, one a channel, each rows without padding.  Work
 * is dealt to work-groups by rows of the output.
 *
 * What the weights of a filter meet is gathered for a span of pixels, and then weighed
 * once for each filter: a product of matrices whose one side stays in the cache.
 */
#include "daemon/kernels/std/conv2d.h"
#include "daemon/kernels/std/scratch.h"

int arax_std_conv_relu(const struct arax_launch *l);
int arax_std_conv2d_f32(const struct arax_launch *l);
int arax_std_conv2d_own_f32(const struct arax_launch *l);

#define SPAN		64u	/* pixels of an output row at a time */
#define HALF		32u	/* of these, as many as the sums of two filters have registers for */
#define FEW		8u	/* of rows that have no more, these are weighed for as many filters */
#define MAX_SIZE	15u	/* of conv_relu's windows */
#define MAX_STRIDE	16u
#define MAX_TAPS	65536u	/* weights of a filter */
#define RUN		512u	/* of these, so many are added up before they go to the sum */

struct conv {
	uint64_t batch, channels, filters, height, width, out_height, out_width;
	uint32_t kernel_h, kernel_w, stride, pad_h, pad_w;
	bool relu;
	uint64_t taps;
	const float *src, *weights, *bias;	/* bias: NULL if there is none */
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

/* Pixels that n of them are rounded up to. */
STD_INLINE uint64_t slots(uint64_t n)
{
	return n <= HALF ? HALF : SPAN;
}

/* What one weight meets: of row `row`, from column `at` on, which may lie left of it. */
STD_INLINE void tap(float *part, const float *row, int64_t at, const struct conv *c, uint64_t n)
{
	uint64_t i = 0, stride = c->stride, end = 0;

	while (i < n && at + (int64_t)(i * stride) < 0)
		part[i++] = 0;
	if (i < n && at + (int64_t)(i * stride) < (int64_t)c->width) {
		end = ((uint64_t)((int64_t)c->width - at) - 1) / stride + 1;
		end = end < n ? end : n;
		take(part + i, row + at + (int64_t)(i * stride), stride, end - i);
		i = end;
	}
	memset(part + i, 0, (slots(n) - i) * sizeof(*part));
}

STD_INLINE void gather(const struct conv *c, const float *image, uint64_t x, uint64_t y, uint64_t n)
{
	int64_t left = (int64_t)(x * c->stride) - c->pad_w;
	int64_t top = (int64_t)(y * c->stride) - c->pad_h;
	float *part = c->part;

	for (uint64_t k = 0; k < c->channels; k++) {
		const float *plane = image + k * c->height * c->width;

		for (int64_t j = 0; j < c->kernel_h; j++) {
			for (int64_t i = 0; i < c->kernel_w; i++, part += SPAN) {
				if (top + j < 0 || top + j >= (int64_t)c->height)
					memset(part, 0, slots(n) * sizeof(*part));
				else
					tap(part, plane + (uint64_t)(top + j) * c->width, left + i,
					    c, n);
			}
		}
	}
}

/* HALF pixels of two filters. */
STD_INLINE void weigh_run(float *p, float *q, const float *part, const float *v, const float *w,
			  uint64_t taps, bool more)
{
	std_v8 sp[4] = { { 0 } }, sq[4] = { { 0 } };

	for (uint64_t t = 0; t < taps; t++, part += SPAN)
		for (int k = 0; k < 4; k++) {
			std_v8 x = *(const std_v8 *)(part + 8 * k);

			sp[k] += x * v[t];
			sq[k] += x * w[t];
		}
	for (int k = 0; k < 4; k++) {
		std_v8 *to_p = (std_v8 *)(p + 8 * k), *to_q = (std_v8 *)(q + 8 * k);

		if (more) {
			sp[k] += *to_p;
			sq[k] += *to_q;
		}
		*to_p = sp[k];
		*to_q = sq[k];
	}
}

/* In runs: a sum that has grown large loses more of each term. */
STD_INLINE void weigh(float *p, float *q, const float *part, const float *v, const float *w,
		      uint64_t taps)
{
	weigh_run(p, q, part, v, w, taps < RUN ? taps : RUN, false);
	for (uint64_t t = RUN; t < taps; t += RUN)
		weigh_run(p, q, part + t * SPAN, v + t, w + t, taps - t < RUN ? taps - t : RUN,
			  true);
}

/* FEW pixels of as many filters, each `taps` weights behind the one before it. */
STD_INLINE void weigh_few(float (*p)[FEW], const float *part, const float *v, uint64_t taps)
{
	for (uint64_t t = 0; t < taps;) {
		uint64_t end = taps - t < RUN ? taps : t + RUN;
		std_v8 s[FEW] = { { 0 } };
		bool more = t;

		for (; t < end; t++, part += SPAN) {
			std_v8 x = *(const std_v8 *)part;

			for (uint32_t k = 0; k < FEW; k++)
				s[k] += x * v[k * taps + t];
		}
		for (uint32_t k = 0; k < FEW; k++) {
			if (more)
				s[k] += *(const std_v8 *)p[k];
			*(std_v8 *)p[k] = s[k];
		}
	}
}

STD_INLINE void finish(float *dst, const float *line, uint64_t n, const struct conv *c, uint64_t f)
{
	float bias = c->bias ? c->bias[f] : 0;

	if (c->relu)
		for (uint64_t i = 0; i < n; i++)
			dst[i] = line[i] < 0 ? 0 : line[i];
	else
		for (uint64_t i = 0; i < n; i++)
			dst[i] = line[i] + bias;
}

/* What is gathered, by all filters but the last ones, which are less than FEW: returns how many. */
STD_INLINE uint64_t filter_few(const struct conv *c, float *dst, uint64_t n)
{
	uint64_t plane = c->out_height * c->out_width, f = 0;
	float p[FEW][FEW];

	for (; f + FEW <= c->filters; f += FEW) {
		weigh_few(p, c->part, c->weights + f * c->taps, c->taps);
		for (uint64_t k = 0; k < FEW; k++)
			finish(dst + (f + k) * plane, p[k], n, c, f + k);
	}
	return f;
}

/* By filters f and up. */
STD_INLINE void filter_pairs(const struct conv *c, float *dst, uint64_t n, uint64_t f)
{
	uint64_t plane = c->out_height * c->out_width;
	float p[SPAN], q[SPAN];

	for (; f < c->filters; f += 2) {
		/* The last of an odd number has itself beside it. */
		uint64_t g = f + 1 < c->filters ? f + 1 : f;

		for (uint32_t h = 0; h < n; h += HALF)
			weigh(p + h, q + h, c->part + h, c->weights + f * c->taps,
			      c->weights + g * c->taps, c->taps);
		finish(dst + f * plane, p, n, c, f);
		finish(dst + g * plane, q, n, c, g);
	}
}

/* Rows are counted through all images. */
STD_FMA_CLONES
static void conv_rows(const struct conv *c, uint64_t row, uint64_t end)
{
	uint64_t plane = c->out_height * c->out_width;

	for (; row < end; row++) {
		uint64_t image = row / c->out_height, y = row % c->out_height;
		const float *src = c->src + image * c->channels * c->height * c->width;

		for (uint64_t x = 0; x < c->out_width; x += SPAN) {
			uint64_t n = c->out_width - x < SPAN ? c->out_width - x : SPAN;
			float *dst = c->dst + image * c->filters * plane + y * c->out_width + x;

			gather(c, src, x, y, n);
			filter_pairs(c, dst, n, n <= FEW ? filter_few(c, dst, n) : 0);
		}
	}
}

/* a * b * c * d into *n; true if that is too much for 64 bits.  Of nothing there is never too much. */
static bool too_much(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t *n)
{
	*n = 0;
	return a && b && c && d &&
	       (__builtin_mul_overflow(a, b, n) || __builtin_mul_overflow(*n, c, n) ||
		__builtin_mul_overflow(*n, d, n));
}

/* All is known but the taps and the ranges, of which the last one is `dst`. */
static int conv_run(const struct arax_launch *l, struct conv *c, uint32_t nr_ranges)
{
	uint64_t in, out, begin, end;

	c->taps = c->channels * c->kernel_h * c->kernel_w;
	if (c->taps > MAX_TAPS || too_much(c->width, c->height, c->channels, c->batch, &in) ||
	    too_much(c->out_width, c->out_height, c->filters, c->batch, &out))
		return -EINVAL;
	c->src = ARAX_ITEMS(l, 0, in, float);
	c->weights = ARAX_ITEMS(l, 1, c->filters * c->taps, float);
	c->dst = ARAX_ITEMS(l, nr_ranges - 1, out, float);
	if (!c->src || !c->weights || !c->dst)
		return -EINVAL;
	if (!out)
		return 0;
	c->part = std_scratch(c->taps * SPAN, sizeof(float));
	if (!c->part)
		return -ENOMEM;
	arax_launch_share(l, c->out_height * c->batch, &begin, &end);
	conv_rows(c, begin, end);
	std_scratch_free(c->part);
	return 0;
}

struct relu_args {
	uint32_t width, height, channels, filters, size, stride;
};

/*
 * conv_relu(in f32 src[], in f32 weights[], out f32 dst[], u32 width, u32 height, u32 channels,
 *	     u32 filters, u32 size, u32 stride):
 * each filter (channels x size x size weights, size odd and at most 15) at every stride-th
 * pixel of every stride-th row, beginning with the first, zeros beyond the edges; less than
 * 0 becomes 0
 */
ARAX_KERNEL int arax_std_conv_relu(const struct arax_launch *l)
{
	struct relu_args a;
	struct conv c;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.width || !a.height || !a.channels ||
	    !a.filters || !(a.size & 1) || a.size > MAX_SIZE || !a.stride || a.stride > MAX_STRIDE)
		return -EINVAL;
	c = (struct conv){
		.batch = 1, .channels = a.channels, .filters = a.filters, .height = a.height,
		.width = a.width, .kernel_h = a.size, .kernel_w = a.size, .stride = a.stride,
		.pad_h = a.size / 2, .pad_w = a.size / 2, .relu = true,
		.out_height = ((uint64_t)a.height + a.stride - 1) / a.stride,
		.out_width = ((uint64_t)a.width + a.stride - 1) / a.stride,
	};
	return conv_run(l, &c, 3);
}

struct conv2d_args {
	uint32_t batch, channels, height, width, filters, kernel_h, kernel_w, stride, pad;
};

static int conv2d_check(const struct arax_launch *l, struct conv2d *c)
{
	uint64_t padded_h, padded_w, taps, in, out;
	struct conv2d_args a;
	bool has_bias;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.channels || !a.height || !a.width ||
	    !a.kernel_h || !a.kernel_w || !a.stride || a.channels > MAX_TAPS ||
	    a.kernel_h > MAX_TAPS || a.kernel_w > MAX_TAPS || l->nr_ranges < 4 ||
	    (a.pad >= a.kernel_h && a.pad >= a.kernel_w))
		return -EINVAL;
	padded_h = a.height + 2ull * a.pad;
	padded_w = a.width + 2ull * a.pad;
	taps = (uint64_t)a.channels * a.kernel_h * a.kernel_w;
	if (a.kernel_h > padded_h || a.kernel_w > padded_w || taps > MAX_TAPS)
		return -EINVAL;
	*c = (struct conv2d){
		.batch = a.batch, .channels = a.channels, .filters = a.filters, .height = a.height,
		.width = a.width, .kernel_h = a.kernel_h, .kernel_w = a.kernel_w,
		.stride = a.stride, .pad = a.pad,
		.out_height = (padded_h - a.kernel_h) / a.stride + 1,
		.out_width = (padded_w - a.kernel_w) / a.stride + 1,
	};
	if (too_much(c->width, c->height, c->channels, c->batch, &in) ||
	    too_much(c->out_width, c->out_height, c->filters, c->batch, &out))
		return -EINVAL;
	c->x = ARAX_ITEMS(l, 0, in, float);
	c->weights = ARAX_ITEMS(l, 1, c->filters * taps, float);
	c->y = ARAX_ITEMS(l, 3, out, float);
	/* Of less than an item GPUs don't know, either. */
	has_bias = l->ranges[2].length >= sizeof(float);
	if (has_bias)
		c->bias = ARAX_ITEMS(l, 2, a.filters, float);
	return c->x && c->weights && c->y && (c->bias || !has_bias) ? 0 : -EINVAL;
}

static struct conv own_of(const struct conv2d *c)
{
	return (struct conv){
		.batch = c->batch, .channels = c->channels, .filters = c->filters,
		.height = c->height, .width = c->width, .kernel_h = c->kernel_h,
		.kernel_w = c->kernel_w, .stride = c->stride, .pad_h = c->pad, .pad_w = c->pad,
		.out_height = c->out_height, .out_width = c->out_width, .bias = c->bias,
	};
}

static int conv2d_own(const struct arax_launch *l, const struct conv2d *c)
{
	struct conv own = own_of(c);

	return conv_run(l, &own, 4);
}

int std_conv2d_block(const struct conv2d *c, const struct conv2d_block *b)
{
	struct conv own = own_of(c);

	own.taps = c->channels * c->kernel_h * c->kernel_w;
	own.batch = 1;
	own.filters = b->filters;
	own.src = c->x + b->image * c->channels * c->height * c->width;
	own.weights = c->weights + b->filter * own.taps;
	own.bias = c->bias ? c->bias + b->filter : NULL;
	own.dst = c->y + (b->image * c->filters + b->filter) * c->out_height * c->out_width;
	own.part = std_scratch(own.taps * SPAN, sizeof(float));
	if (!own.part)
		return -ENOMEM;
	conv_rows(&own, b->row, b->row + b->rows);
	std_scratch_free(own.part);
	return 0;
}

/*
 * conv2d_f32(in f32 x[], in f32 weights[], in f32 bias[], out f32 y[], u32 batch, u32 channels,
 *	      u32 height, u32 width, u32 filters, u32 kernel_h, u32 kernel_w, u32 stride, u32 pad):
 * x is batch x channels x height x width, with `pad` zeros (less than the kernel's larger
 * side) around each plane; weights filters x channels x kernel_h x kernel_w, not mirrored; bias
 * one a filter, or empty; y batch x filters x out_h x out_w,
 * out = (side + 2 * pad - kernel) / stride + 1.
 * A filter has 65,536 weights at most.
 */
ARAX_KERNEL int arax_std_conv2d_f32(const struct arax_launch *l)
{
	struct conv2d c;
	int err = conv2d_check(l, &c);

	if (err || !c.batch || !c.filters)
		return err;
	return std_conv2d_dnn_suits(&c) ? std_conv2d_dnn(l, &c) : conv2d_own(l, &c);
}

/* The same without oneDNN, wherever it is: for tests and comparisons. */
ARAX_KERNEL int arax_std_conv2d_own_f32(const struct arax_launch *l)
{
	struct conv2d c;
	int err = conv2d_check(l, &c);

	return err ? err : conv2d_own(l, &c);
}
