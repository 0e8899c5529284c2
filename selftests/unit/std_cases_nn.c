// SPDX-License-Identifier: MIT
/* conv.c and pool.c.  A convolution is within 1e-5 of the sum of its terms' sizes. */
#include "selftests/unit/std_case.h"

struct relu_args { uint32_t width, height, channels, filters, size, stride; };

struct conv_args {
	uint32_t batch, channels, height, width, filters, kernel_h, kernel_w, stride, pad;
};

static uint64_t outputs(uint32_t side, uint32_t kernel, uint32_t stride, uint32_t pad)
{
	return ((uint64_t)side + 2 * pad - kernel) / stride + 1;
}

/* Item i of the output: its sum, and the sum of its terms' sizes. */
static double conv_at(const struct trial *t, const struct conv_args *a, uint64_t out_h,
		      uint64_t out_w, uint64_t i, double *size)
{
	uint64_t f = i / out_w / out_h % a->filters, image = i / out_w / out_h / a->filters;
	int64_t left = (int64_t)(i % out_w * a->stride) - a->pad;
	int64_t top = (int64_t)(i / out_w % out_h * a->stride) - a->pad;
	double sum = 0;

	*size = 0;
	for (uint64_t c = 0; c < a->channels; c++)
		for (int64_t y = 0; y < a->kernel_h; y++)
			for (int64_t x = 0; x < a->kernel_w; x++) {
				uint64_t plane = image * a->channels + c;
				double term;

				if (top + y < 0 || left + x < 0 || top + y >= a->height ||
				    left + x >= a->width)
					continue;
				term = f32_at(t, 0,
					      (plane * a->height + (uint64_t)(top + y)) * a->width +
						    (uint64_t)(left + x)) *
				       f32_at(t, 1,
					      ((f * a->channels + c) * a->kernel_h + (uint64_t)y) *
							    a->kernel_w + (uint64_t)x);
				sum += term;
				*size += fabs(term);
			}
	return sum;
}

/* Few, which GPUs have no tiles for; enough for one, or for two. */
static uint32_t some_filters(const struct trial *t)
{
	if (t->size == SIZE_HUGE)
		return 60 + trial_random(10);
	return size_of(t, trial_random(2) ? 6 : 20);
}

static void make_relu(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct relu_args a = { side_of(t, huge ? 300 : 150), side_of(t, huge ? 90 : 20),
			       1 + trial_random(4), 1 + some_filters(t), 1 + 2 * trial_random(4),
			       1 + trial_random(4) };
	uint64_t out;

	set_args(t, &a);
	out = outputs(a.width, a.size, a.stride, a.size / 2) *
	      outputs(a.height, a.size, a.stride, a.size / 2);
	add_floats(t, (uint64_t)a.width * a.height * a.channels, -1, 1);
	add_floats(t, (uint64_t)a.channels * a.filters * a.size * a.size, -1, 1);
	add_holes(t, 4 * out * a.filters);
}

static void check_relu(const struct trial *t)
{
	const struct relu_args *r = ARGS_OF(t, struct relu_args);
	struct conv_args a = { 1, r->channels, r->height, r->width, r->filters, r->size, r->size,
			       r->stride,
			       r->size / 2 };
	uint64_t out_h = outputs(a.height, a.kernel_h, a.stride, a.pad);
	uint64_t out_w = outputs(a.width, a.kernel_w, a.stride, a.pad);

	for (uint64_t i = 0; i < out_h * out_w * a.filters; i++) {
		double size, wanted = conv_at(t, &a, out_h, out_w, i, &size);

		near(t, i, f32_at(t, 2, i), fmax(wanted, 0), size * 1e-5);
	}
}

static uint32_t less(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t more(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Of as many channels as classifiers have in their last layers, and more. */
static void make_long_conv2d(struct trial *t)
{
	struct conv_args a = { 1, 20003, 2, 3, 3, 1, 1, 1, 0 };

	set_args(t, &a);
	add_equals(t, (uint64_t)a.channels * a.height * a.width, 0.1f);
	add_equals(t, (uint64_t)a.filters * a.channels, 1);
	add_bytes(t, 0);
	add_holes(t, 4ull * a.filters * a.height * a.width);
}

static void make_some_conv2d(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct conv_args a = { size_of(t, 3), 1 + trial_random(4), side_of(t, huge ? 60 : 20),
			       side_of(t, huge ? 200 : 150), some_filters(t), 1 + trial_random(5),
			       1 + trial_random(5), 1 + trial_random(4), 0 };
	uint64_t out;

	a.pad = trial_random(more(a.kernel_h, a.kernel_w));
	if (a.kernel_h > a.height + 2 * a.pad)
		a.kernel_h = a.height;
	if (a.kernel_w > a.width + 2 * a.pad)
		a.kernel_w = a.width;
	if (a.pad >= more(a.kernel_h, a.kernel_w))
		a.pad = more(a.kernel_h, a.kernel_w) - 1;
	set_args(t, &a);
	out = outputs(a.height, a.kernel_h, a.stride, a.pad) *
	      outputs(a.width, a.kernel_w, a.stride, a.pad);
	add_floats(t, (uint64_t)a.batch * a.channels * a.height * a.width, -1, 1);
	add_floats(t, (uint64_t)a.filters * a.channels * a.kernel_h * a.kernel_w, -1, 1);
	add_floats(t, trial_random(2) ? a.filters : 0, -1, 1);
	add_holes(t, 4 * out * a.batch * a.filters);
}

static void make_conv2d(struct trial *t)
{
	if (t->size == SIZE_LONG)
		make_long_conv2d(t);
	else
		make_some_conv2d(t);
}

/*
 * Windows of more terms than what comes with Arax adds up in one piece, for few items of the
 * output: SIZE_HUGE is one row, SIZE_LONG is as high as wide.
 */
static void make_large_conv2d(struct trial *t)
{
	bool equal = t->size == SIZE_HUGE || t->size == SIZE_LONG;
	struct conv_args a = { 1, 1, 1, 1, 1, 1, 1, 1, 0 };
	uint64_t in, out, weights;

	if (t->size == SIZE_HUGE) {
		a = (struct conv_args){ 1, 1, 1, 65537, 1, 1, 65536, 1, 0 };
	} else if (t->size == SIZE_LONG) {
		a = (struct conv_args){ 1, 1, 256, 257, 1, 256, 256, 1, 0 };
	} else if (t->size == SIZE_SOME) {
		a.channels = 1 + trial_random(3);
		a.filters = 1 + trial_random(2);
		a.kernel_h = 1 + trial_random(trial_random(2) ? 4 : 40);
		a.kernel_w = 1 + trial_random(trial_random(2) ? 300 : 40);
		a.stride = 1 + trial_random(3);
		a.pad = trial_random(2) ? trial_random(less(a.kernel_h, a.kernel_w)) : 0;
		/* Five items a side at most, or one pixel. */
		a.height = a.kernel_h + trial_random(5 * a.stride);
		a.height -= a.height > 2 * a.pad ? 2 * a.pad : a.height - 1;
		a.width = a.kernel_w + trial_random(5 * a.stride);
		a.width -= a.width > 2 * a.pad ? 2 * a.pad : a.width - 1;
	}
	if (t->size == SIZE_NONE)
		a.filters = 0;
	set_args(t, &a);
	in = (uint64_t)a.channels * a.height * a.width;
	weights = (uint64_t)a.filters * a.channels * a.kernel_h * a.kernel_w;
	out = outputs(a.height, a.kernel_h, a.stride, a.pad) *
	      outputs(a.width, a.kernel_w, a.stride, a.pad);
	if (equal) {
		add_equals(t, in, 0.1f);
		add_equals(t, weights, 1);
	} else {
		add_floats(t, in, -1, 1);
		add_floats(t, weights, -1, 1);
	}
	add_bytes(t, 0);
	add_holes(t, 4 * out * a.filters);
}

static void check_conv2d(const struct trial *t)
{
	const struct conv_args *a = ARGS_OF(t, struct conv_args);
	uint64_t out_h = outputs(a->height, a->kernel_h, a->stride, a->pad);
	uint64_t out_w = outputs(a->width, a->kernel_w, a->stride, a->pad);

	for (uint64_t i = 0; i < out_h * out_w * a->filters * a->batch; i++) {
		double size, wanted = conv_at(t, a, out_h, out_w, i, &size);

		if (t->r[2].length)
			wanted += f32_at(t, 2, i / out_w / out_h % a->filters);
		near(t, i, f32_at(t, 3, i), wanted, (size + 1) * 1e-5);
	}
}

struct mean_args { uint32_t width, height, channels, size; };

static void make_mean(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct mean_args a = { 7 + trial_random(huge ? 300 : 90), 7 + trial_random(huge ? 200 : 40),
			       1 + trial_random(4), 1 + trial_random(7) };

	if (t->size == SIZE_LONG)
		a = (struct mean_args){ 301, 300, 1, 300 };
	set_args(t, &a);
	if (t->size == SIZE_LONG)
		add_equals(t, (uint64_t)a.width * a.height * a.channels, 0.1f);
	else
		add_floats(t, (uint64_t)a.width * a.height * a.channels, -1, 1);
	add_holes(t, 4ull * (a.width / a.size) * (a.height / a.size) * a.channels);
}

static void check_mean(const struct trial *t)
{
	const struct mean_args *a = ARGS_OF(t, struct mean_args);
	uint64_t w = a->width / a->size, h = a->height / a->size;

	for (uint64_t i = 0; i < w * h * a->channels; i++) {
		uint64_t top = i / w / h * a->height + i / w % h * a->size;
		double sum = 0;

		for (uint64_t y = 0; y < a->size; y++)
			for (uint64_t x = 0; x < a->size; x++)
				sum += f32_at(t, 0, (top + y) * a->width + i % w * a->size + x);
		near(t, i, f32_at(t, 1, i), sum / a->size / a->size, 1e-6);
	}
}

struct pool_args { uint32_t planes, height, width, size, stride, pad; };

static void make_some_pool(struct trial *t, bool nans)
{
	bool huge = t->size == SIZE_HUGE;
	struct pool_args a = { size_of(t, 5), side_of(t, huge ? 150 : 40),
			       side_of(t, huge ? 200 : 90),
			       1 + trial_random(7), 1 + trial_random(5), 0 };
	uint64_t in, out;
	float *x;

	a.size = a.size < a.height ? a.size : a.height;
	a.size = a.size < a.width ? a.size : a.width;
	a.pad = trial_random(a.size / 2 + 1);
	if (t->size == SIZE_LONG)
		a = (struct pool_args){ 1, 300, 301, 300, 1, 0 };
	set_args(t, &a);
	out = outputs(a.height, a.size, a.stride, a.pad) * outputs(a.width, a.size, a.stride,
								   a.pad);
	in = (uint64_t)a.planes * a.height * a.width;
	x = t->size == SIZE_LONG ? add_equals(t, in, 0.1f) : add_floats(t, in, -1, 1);
	if (nans)
		add_nans(t, x, in);
	add_holes(t, 4 * out * a.planes);
}

static void make_max_pool(struct trial *t)
{
	make_some_pool(t, true);
}

static void make_avg_pool(struct trial *t)
{
	make_some_pool(t, false);
}

/* fmax() leaves NaN out. */
static void check_pool(const struct trial *t, bool most)
{
	const struct pool_args *a = ARGS_OF(t, struct pool_args);
	uint64_t w = outputs(a->width, a->size, a->stride, a->pad);
	uint64_t h = outputs(a->height, a->size, a->stride, a->pad);

	for (uint64_t i = 0; i < w * h * a->planes; i++) {
		int64_t left = (int64_t)(i % w * a->stride) - a->pad;
		int64_t top = (int64_t)(i / w % h * a->stride) - a->pad;
		double sum = 0, best = -INFINITY;
		uint32_t count = 0;

		for (int64_t y = top; y < top + a->size; y++)
			for (int64_t x = left; x < left + a->size; x++) {
				double v;

				if (x < 0 || y < 0 || x >= a->width || y >= a->height)
					continue;
				v = f32_at(t, 0, (i / w / h * a->height + (uint64_t)y) * a->width +
						 (uint64_t)x);
				sum += v;
				best = fmax(best, v);
				count++;
			}
		if (most)
			same(t, i, f32_at(t, 1, i), best);
		else
			near(t, i, f32_at(t, 1, i), sum / count, 1e-6);
	}
}

static void check_max_pool(const struct trial *t)
{
	check_pool(t, true);
}

static void check_avg_pool(const struct trial *t)
{
	check_pool(t, false);
}

struct concat_args { uint32_t n, m; };

static void make_concat(struct trial *t)
{
	struct concat_args a = { size_of(t, 3000), size_of(t, 3000) };

	set_args(t, &a);
	add_floats(t, a.n, -1, 1);
	add_floats(t, a.m, -1, 1);
	add_holes(t, 4 * ((uint64_t)a.n + a.m));
}

static void check_concat(const struct trial *t)
{
	const struct concat_args *a = ARGS_OF(t, struct concat_args);

	for (uint64_t i = 0; i < (uint64_t)a->n + a->m; i++)
		same(t, i, f32_at(t, 2, i), i < a->n ? f32_at(t, 0, i) : f32_at(t, 1, i - a->n));
}

const struct std_case nn_cases[] = {
	{ "conv_relu", make_relu, check_relu, 0 },
	{ "conv2d_f32", make_conv2d, check_conv2d, 0x4 },
	{ "conv2d_f32", make_large_conv2d, check_conv2d, 0x4 },
	{ "mean_pool", make_mean, check_mean, 0 },
	{ "max_pool_f32", make_max_pool, check_max_pool, 0 },
	{ "avg_pool_f32", make_avg_pool, check_avg_pool, 0 },
	{ "concat", make_concat, check_concat, 0 },
	{ 0 },
};
