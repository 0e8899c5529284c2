// SPDX-License-Identifier: MIT
/*
 * Kernels on grey images: rows of f32 in 0..1, no padding between rows.  Work
 * is dealt to work-groups by rows.
 */
#include <math.h>
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/std/std.h"

#define BLUR_MAX_SIZE 129u

int arax_std_rgb_to_gray(const struct arax_launch *l);
int arax_std_gray_to_u8(const struct arax_launch *l);
int arax_std_blur(const struct arax_launch *l);
int arax_std_sobel(const struct arax_launch *l);
int arax_std_extend(const struct arax_launch *l);
int arax_std_unsharpen(const struct arax_launch *l);
int arax_std_combine(const struct arax_launch *l);

static inline float clamp01(float v)
{
	v = v > 0 ? v : 0;	/* a NaN becomes 0 */
	return v < 1 ? v : 1;
}

/* rgb_to_gray(in u8 rgb[], out f32 gray[], u32 n): n pixels of 3 bytes */
ARAX_KERNEL int arax_std_rgb_to_gray(const struct arax_launch *l)
{
	uint64_t n, i, end;
	const uint8_t *rgb;
	float *gray;

	if (std_items(l, &n))
		return -EINVAL;
	rgb = ARAX_ITEMS(l, 0, 3 * n, uint8_t);
	gray = ARAX_ITEMS(l, 1, n, float);
	if (!rgb || !gray)
		return -EINVAL;
	arax_launch_share(l, n, &i, &end);
	for (; i < end; i++)	/* Rec. 709 */
		gray[i] = (0.2126f * rgb[3 * i] + 0.7152f * rgb[3 * i + 1] +
			   0.0722f * rgb[3 * i + 2]) / 255;
	return 0;
}

/* gray_to_u8(in f32 gray[], out u8 out[], u32 n): 0..1 to 0..255, clamped */
ARAX_KERNEL int arax_std_gray_to_u8(const struct arax_launch *l)
{
	uint64_t n, i, end;
	const float *gray;
	uint8_t *out;

	if (std_items(l, &n))
		return -EINVAL;
	gray = ARAX_ITEMS(l, 0, n, float);
	out = ARAX_ITEMS(l, 1, n, uint8_t);
	if (!gray || !out)
		return -EINVAL;
	arax_launch_share(l, n, &i, &end);
	for (; i < end; i++)
		out[i] = (uint8_t)(clamp01(gray[i]) * 255 + 0.5f);
	return 0;
}

struct blur_args {
	uint32_t width, height, size;
	float sigma;
};

/* Half of a symmetric window, weights that add up to 1: w[0] is the middle. */
static void gauss(float *w, uint32_t radius, float sigma)
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

/* line[x] = weighted sum of column x around row y; rows beyond the edge repeat it. */
STD_CLONES
static void blur_down(float *line, const float *src, uint64_t width, uint64_t height, uint64_t y,
		      const float *w, uint64_t radius)
{
	const float *row = src + y * width;

	for (uint64_t x = 0; x < width; x++)
		line[x] = w[0] * row[x];
	for (uint64_t i = 1; i <= radius; i++) {
		const float *up = src + (y >= i ? y - i : 0) * width;
		const float *down = src + (y + i < height ? y + i : height - 1) * width;

		for (uint64_t x = 0; x < width; x++)
			line[x] += w[i] * (up[x] + down[x]);
	}
}

/* The same along a line that has `radius` copies of its ends on both sides. */
STD_CLONES
static void blur_across(float *dst, const float *line, uint64_t width, const float *w,
			uint64_t radius)
{
	for (uint64_t x = 0; x < width; x++)
		dst[x] = w[0] * line[x];
	for (uint64_t i = 1; i <= radius; i++)
		for (uint64_t x = 0; x < width; x++)
			dst[x] += w[i] * (line[x + i] + *(line + x - i));
}

/*
 * blur(in f32 src[], out f32 dst[], u32 width, u32 height, u32 size, f32 sigma):
 * Gaussian with a window of size x size (odd, at most 129)
 */
ARAX_KERNEL int arax_std_blur(const struct arax_launch *l)
{
	float weights[BLUR_MAX_SIZE / 2 + 1];
	struct blur_args args;
	uint64_t n, y, end, width, radius;
	const float *src;
	float *dst, *padded, *line;

	if (arax_launch_args(l, &args, sizeof(args)) || !args.width || !args.height ||
	    !(args.size & 1) || args.size > BLUR_MAX_SIZE || !(args.sigma > 0))
		return -EINVAL;
	width = args.width;
	radius = args.size / 2;
	n = width * args.height;
	src = ARAX_ITEMS(l, 0, n, float);
	dst = ARAX_ITEMS(l, 1, n, float);
	if (!src || !dst)
		return -EINVAL;
	gauss(weights, (uint32_t)radius, args.sigma);
	padded = std_scratch(width + 2 * radius, sizeof(float));
	if (!padded)
		return -ENOMEM;
	line = padded + radius;
	arax_launch_share(l, args.height, &y, &end);
	for (; y < end; y++) {
		blur_down(line, src, width, args.height, y, weights, radius);
		for (uint64_t i = 1; i <= radius; i++) {
			*(line - i) = line[0];
			line[width - 1 + i] = line[width - 1];
		}
		blur_across(dst + y * width, line, width, weights, radius);
	}
	std_scratch_free(padded);
	return 0;
}

struct image_args {
	uint32_t width, height;
};

/* Three rows around one: edges repeat. */
STD_CLONES
static void sobel_row(float *out, const float *up, const float *mid, const float *down,
		      uint64_t width)
{
	for (uint64_t x = 0; x < width; x++) {
		uint64_t a = x ? x - 1 : 0, b = x + 1 < width ? x + 1 : x;
		float gx = up[b] - up[a] + 2 * (mid[b] - mid[a]) + down[b] - down[a];
		float gy = down[a] - up[a] + 2 * (down[x] - up[x]) + down[b] - up[b];

		out[x] = sqrtf(gx * gx + gy * gy);
	}
}

/* sobel(in f32 src[], out f32 dst[], u32 width, u32 height): length of the gradient */
ARAX_KERNEL int arax_std_sobel(const struct arax_launch *l)
{
	struct image_args args;
	uint64_t n, y, end, width;
	const float *src;
	float *dst;

	if (arax_launch_args(l, &args, sizeof(args)) || !args.width || !args.height)
		return -EINVAL;
	width = args.width;
	n = width * args.height;
	src = ARAX_ITEMS(l, 0, n, float);
	dst = ARAX_ITEMS(l, 1, n, float);
	if (!src || !dst)
		return -EINVAL;
	arax_launch_share(l, args.height, &y, &end);
	for (; y < end; y++)
		sobel_row(dst + y * width, src + (y ? y - 1 : 0) * width, src + y * width,
			  src + (y + 1 < args.height ? y + 1 : y) * width, width);
	return 0;
}

/*
 * extend(in f32 min[], in f32 max[], inout f32 x[], u32 n):
 * x = min(1, 5 * (x - min[0]) / (max[0] - min[0]))
 */
ARAX_KERNEL int arax_std_extend(const struct arax_launch *l)
{
	const float *min, *max;
	uint64_t n, i, end;
	float low, span, *x;

	if (std_items(l, &n))
		return -EINVAL;
	min = ARAX_ITEMS(l, 0, 1, float);
	max = ARAX_ITEMS(l, 1, 1, float);
	x = ARAX_ITEMS(l, 2, n, float);
	if (!min || !max || !x)
		return -EINVAL;
	low = *min;
	span = *max - low;
	arax_launch_share(l, n, &i, &end);
	for (; i < end; i++) {
		float v = span > 0 ? 5 * (x[i] - low) / span : 0;

		x[i] = v < 1 ? v : 1;
	}
	return 0;
}

struct unsharpen_args {
	float amount;
	uint32_t n;
};

/*
 * unsharpen(in f32 x[], in f32 blurred[], out f32 y[], f32 amount, u32 n):
 * y = x * (1 + amount) - blurred * amount, clamped to 0..1
 */
ARAX_KERNEL int arax_std_unsharpen(const struct arax_launch *l)
{
	struct unsharpen_args args;
	const float *x, *blurred;
	uint64_t i, end;
	float *y;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, args.n, float);
	blurred = ARAX_ITEMS(l, 1, args.n, float);
	y = ARAX_ITEMS(l, 2, args.n, float);
	if (!x || !blurred || !y)
		return -EINVAL;
	arax_launch_share(l, args.n, &i, &end);
	for (; i < end; i++)
		y[i] = clamp01(x[i] * (1 + args.amount) - blurred[i] * args.amount);
	return 0;
}

/*
 * combine(in f32 x[], in f32 y[], in f32 mask[], out f32 z[], u32 n):
 * z = x * mask + y * (1 - mask)
 */
ARAX_KERNEL int arax_std_combine(const struct arax_launch *l)
{
	const float *x, *y, *mask;
	uint64_t n, i, end;
	float *z;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	y = ARAX_ITEMS(l, 1, n, float);
	mask = ARAX_ITEMS(l, 2, n, float);
	z = ARAX_ITEMS(l, 3, n, float);
	if (!x || !y || !mask || !z)
		return -EINVAL;
	arax_launch_share(l, n, &i, &end);
	for (; i < end; i++)
		z[i] = x[i] * mask[i] + y[i] * (1 - mask[i]);
	return 0;
}
