// SPDX-License-Identifier: MIT
/* image.c */
#include "selftests/unit/std_case.h"

struct n_args { uint32_t n; };
struct image_args { uint32_t width, height; };
struct blur_args { uint32_t width, height, size; float sigma; };
struct unsharpen_args { float amount; uint32_t n; };

static uint32_t items(const struct trial *t)
{
	return size_of(t, t->size == SIZE_HUGE ? 300007 : 3000);
}

static double clamp01(double v)
{
	return v > 0 ? v < 1 ? v : 1 : 0;
}

static void make_gray(struct trial *t)
{
	struct n_args a = { items(t) };
	uint8_t *rgb;

	set_args(t, &a);
	rgb = add_bytes(t, 3ull * a.n);
	for (uint64_t i = 0; i < 3ull * a.n; i++)
		rgb[i] = (uint8_t)trial_random(256);
	add_holes(t, 4ull * a.n);
}

static void check_gray(const struct trial *t)
{
	for (uint32_t i = 0; i < ARGS_OF(t, struct n_args)->n; i++) {
		const uint8_t *rgb = RANGE(t, 0, uint8_t) + 3 * (uint64_t)i;

		near(t, i, f32_at(t, 1, i),
		     (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]) / 255, 5e-7);
	}
}

static void make_u8(struct trial *t)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, 0, 1, 0.5f };
	struct n_args a = { items(t) };
	float *gray;

	set_args(t, &a);
	gray = add_floats(t, a.n, -0.5, 1.5);
	for (uint32_t i = 0; i < a.n; i += 1 + trial_random(30))
		gray[i] = odd[trial_random(6)];
	add_holes(t, a.n);
}

/* Rounded at a half, in f32. */
static void check_u8(const struct trial *t)
{
	for (uint32_t i = 0; i < ARGS_OF(t, struct n_args)->n; i++)
		near(t, i, RANGE(t, 1, uint8_t)[i], clamp01(f32_at(t, 0, i)) * 255, 0.50001);
}

static void make_blur(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct blur_args a = { side_of(t, huge ? 403 : 120), side_of(t, huge ? 301 : 70),
			       1 + 2 * trial_random(huge ? 3 : 8), (float)uniform(0.5, 10) };

	if (t->size == SIZE_SOME && !trial_random(8)) {	/* wider than what it blurs */
		a.size = 129;
		a.width = 1 + trial_random(20);
		a.height = 1 + trial_random(20);
	}
	if (t->size == SIZE_SOME && !trial_random(8))	/* it changes nothing */
		a.sigma = 1e-30f;
	set_args(t, &a);
	add_floats(t, (uint64_t)a.width * a.height, 0, 1);
	add_holes(t, 4ull * a.width * a.height);
}

static int64_t inside(int64_t i, uint32_t n)
{
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* The textbook double sum, with edges repeated. */
static double blur_at(const struct trial *t, const struct blur_args *a, const double *w, uint64_t i)
{
	int64_t radius = a->size / 2, x = (int64_t)(i % a->width), y = (int64_t)(i / a->width);
	double sum = 0, weights = 0;

	for (int64_t v = -radius; v <= radius; v++)
		for (int64_t h = -radius; h <= radius; h++) {
			double weight = w[labs(v)] * w[labs(h)];
			uint64_t at = (uint64_t)(inside(y + v, a->height) * a->width +
						 inside(x + h, a->width));

			sum += weight * f32_at(t, 0, at);
			weights += weight;
		}
	return sum / weights;
}

/* Weights are rounded to f32, and there are up to 129 of them each way. */
static void check_blur(const struct trial *t)
{
	const struct blur_args *a = ARGS_OF(t, struct blur_args);
	uint64_t n = (uint64_t)a->width * a->height;
	double w[65];

	for (uint32_t i = 0; i <= a->size / 2; i++)
		w[i] = exp(-(double)(i * i) / (2.0 * (double)a->sigma * (double)a->sigma));
	for (uint64_t i = 0; i < n; i += 1 + trial_random(9))
		near(t, i, f32_at(t, 1, i), blur_at(t, a, w, i), 5e-6);
}

static void make_sobel(struct trial *t)
{
	bool huge = t->size == SIZE_HUGE;
	struct image_args a = { side_of(t, huge ? 601 : 120), side_of(t, huge ? 503 : 70) };

	set_args(t, &a);
	add_floats(t, (uint64_t)a.width * a.height, 0, 1);
	add_holes(t, 4ull * a.width * a.height);
}

static void check_sobel(const struct trial *t)
{
	const struct image_args *a = ARGS_OF(t, struct image_args);

	for (uint64_t i = 0; i < (uint64_t)a->width * a->height; i++) {
		int64_t x = (int64_t)(i % a->width), y = (int64_t)(i / a->width);
		double gx = 0, gy = 0;

		for (int64_t d = -1; d <= 1; d++) {
			double weight = d ? 1 : 2;
			int64_t row = inside(y + d, a->height), col = inside(x + d, a->width);

			gx += weight * (f32_at(t, 0, row * a->width + inside(x + 1, a->width)) -
					f32_at(t, 0, row * a->width + inside(x - 1, a->width)));
			gy += weight * (f32_at(t, 0, inside(y + 1, a->height) * a->width + col) -
					f32_at(t, 0, inside(y - 1, a->height) * a->width + col));
		}
		near(t, i, f32_at(t, 1, i), sqrt(gx * gx + gy * gy), 2e-6);
	}
}

static void make_extend(struct trial *t)
{
	struct n_args a = { items(t) };

	set_args(t, &a);
	add_floats(t, 1, -0.1, 0.3);
	add_floats(t, 1, 0.5, 1);
	add_floats(t, a.n, 0, 1);
}

static void check_extend(const struct trial *t)
{
	double low = f32_at(t, 0, 0), span = f32_at(t, 1, 0) - low;

	for (uint32_t i = 0; i < ARGS_OF(t, struct n_args)->n; i++)
		near(t, i, f32_at(t, 2, i), fmin(1, 5 * (WAS(t, 2, float)[i] - low) / span), 1e-5);
}

static void make_unsharpen(struct trial *t)
{
	struct unsharpen_args a = { (float)uniform(0, 2), items(t) };

	set_args(t, &a);
	add_floats(t, a.n, 0, 1);
	add_floats(t, a.n, 0, 1);
	add_holes(t, 4ull * a.n);
}

static void check_unsharpen(const struct trial *t)
{
	const struct unsharpen_args *a = ARGS_OF(t, struct unsharpen_args);

	for (uint32_t i = 0; i < a->n; i++)
		near(t, i, f32_at(t, 2, i),
		     clamp01(f32_at(t, 0, i) * (1 + (double)a->amount) -
			     f32_at(t, 1, i) * (double)a->amount), 1e-6);
}

static void make_combine(struct trial *t)
{
	struct n_args a = { items(t) };

	set_args(t, &a);
	for (int i = 0; i < 3; i++)
		add_floats(t, a.n, 0, 1);
	add_holes(t, 4ull * a.n);
}

static void check_combine(const struct trial *t)
{
	for (uint32_t i = 0; i < ARGS_OF(t, struct n_args)->n; i++) {
		double mask = f32_at(t, 2, i);

		near(t, i, f32_at(t, 3, i), f32_at(t, 0, i) * mask + f32_at(t, 1, i) * (1 - mask),
		     5e-7);
	}
}

const struct std_case image_cases[] = {
	{ "rgb_to_gray", make_gray, check_gray, 0 },
	{ "gray_to_u8", make_u8, check_u8, 0 },
	{ "blur", make_blur, check_blur, 0 },
	{ "sobel", make_sobel, check_sobel, 0 },
	{ "extend", make_extend, check_extend, 0 },
	{ "unsharpen", make_unsharpen, check_unsharpen, 0 },
	{ "combine", make_combine, check_combine, 0 },
	{ 0 },
};
