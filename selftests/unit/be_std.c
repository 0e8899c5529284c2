// SPDX-License-Identifier: MIT
/*
 * The kernels of arax-std: each against a plain computation of the same thing,
 * whole and in spans, and each with ranges that are too short by one.
 */
#include <math.h>
#include <time.h>

#include "selftests/unit/be_std.h"

#define W 61u
#define H 37u
#define N (W * H)

static float *f32(const struct arax_launch_range *r)
{
	return r->data;
}

static void randomise(struct arax_launch_range *r)
{
	for (uint64_t i = 0; i < r->length / 4; i++)
		f32(r)[i] = (float)(rand() % 1000) / 1000;
}

static const uint32_t span_counts[] = { 1, 2, 7, 200 };

START_TEST(vectors)
{
	struct arax_launch_range r[3];
	struct { float s; uint32_t n; } scaled = { 2.5f, N };
	uint32_t n = N, spans = span_counts[_i];
	float old[N];

	for (int i = 0; i < 3; i++) {
		r[i] = fenced(4 * N);
		randomise(&r[i]);
	}
	ck_assert_int_eq(call("vadd", r, 3, &n, 4, spans), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq(f32(&r[2])[i], f32(&r[0])[i] + f32(&r[1])[i]);
	ck_assert_int_eq(call("triad", r, 3, &scaled, 8, spans), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq_tol(f32(&r[2])[i], f32(&r[0])[i] + 2.5f * f32(&r[1])[i], 1e-5f);
	memcpy(old, r[1].data, sizeof(old));
	ck_assert_int_eq(call("saxpy", r, 2, &scaled, 8, spans), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq_tol(f32(&r[1])[i], old[i] + 2.5f * f32(&r[0])[i], 1e-5f);
	ck_assert_int_eq(call("square", r, 2, &n, 4, spans), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq(f32(&r[1])[i], f32(&r[0])[i] * f32(&r[0])[i]);
}
END_TEST

START_TEST(reductions)
{
	struct arax_launch_range r[2] = { fenced(4 * N), fenced(8) };
	uint32_t sizes[] = { 1, 15, 16, 17, N };

	randomise(&r[0]);
	f32(&r[0])[3] = -5;
	f32(&r[0])[0] = 9;
	for (int s = 0; s < 5; s++) {
		double sum = 0;
		float max = -INFINITY, min = INFINITY;

		for (uint32_t i = 0; i < sizes[s]; i++) {
			float v = f32(&r[0])[i];

			sum += (double)v;
			max = v > max ? v : max;
			min = v < min ? v : min;
		}
		ck_assert_int_eq(call("sum_f32", r, 2, &sizes[s], 4, 1), 0);
		ck_assert_double_eq_tol(*(double *)r[1].data, sum, 1e-6);
		ck_assert_int_eq(call("max_f32", r, 2, &sizes[s], 4, 1), 0);
		ck_assert_float_eq(*f32(&r[1]), max);
		ck_assert_int_eq(call("min_f32", r, 2, &sizes[s], 4, 1), 0);
		ck_assert_float_eq(*f32(&r[1]), min);
	}
}
END_TEST

/* The textbook double sum, with edges repeated. */
static float blur_at(const float *src, int x, int y, int radius, float sigma)
{
	double sum = 0, weights = 0;

	for (int j = -radius; j <= radius; j++)
		for (int i = -radius; i <= radius; i++) {
			int cx = x + i < 0 ? 0 : x + i >= (int)W ? (int)W - 1 : x + i;
			int cy = y + j < 0 ? 0 : y + j >= (int)H ? (int)H - 1 : y + j;
			double w = exp(-(i * i + j * j) / (2.0 * (double)sigma * (double)sigma));

			sum += w * (double)src[cy * (int)W + cx];
			weights += w;
		}
	return (float)(sum / weights);
}

START_TEST(blurs)
{
	static const struct { uint32_t size; float sigma; } kinds[] = { { 1, 1 }, { 3, 1 }, { 5, 10 },
								{ 21, 4 }, { 129, 30 } };
	struct arax_launch_range r[2] = { fenced(4 * N), fenced(4 * N) };

	randomise(&r[0]);
	for (int k = 0; k < 5; k++) {
		struct { uint32_t w, h, size; float sigma; } args = { W, H, kinds[k].size,
								      kinds[k].sigma };

		ck_assert_int_eq(call("blur", r, 2, &args, sizeof(args), span_counts[_i]), 0);
		for (uint32_t i = 0; i < N; i += 7)
			ck_assert_float_eq_tol(f32(&r[1])[i],
					       blur_at(r[0].data, (int)(i % W), (int)(i / W),
						       (int)kinds[k].size / 2, kinds[k].sigma), 1e-4f);
	}
}
END_TEST

START_TEST(sobels)
{
	struct arax_launch_range r[2] = { fenced(4 * N), fenced(4 * N) };
	struct { uint32_t w, h; } args = { W, H };

	/* A slope of 1 to the right: 4 + 4 inside, half at the edges. */
	for (uint32_t i = 0; i < N; i++)
		f32(&r[0])[i] = (float)(i % W);
	ck_assert_int_eq(call("sobel", r, 2, &args, sizeof(args), span_counts[_i]), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq(f32(&r[1])[i], i % W && i % W != W - 1 ? 8 : 4);
	/* One down. */
	for (uint32_t i = 0; i < N; i++)
		f32(&r[0])[i] = (float)(i / W);
	ck_assert_int_eq(call("sobel", r, 2, &args, sizeof(args), span_counts[_i]), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq(f32(&r[1])[i], i / W && i / W != H - 1 ? 8 : 4);
	args.w = args.h = 1;
	ck_assert_int_eq(call("sobel", r, 2, &args, sizeof(args), 1), 0);
	ck_assert_float_eq(f32(&r[1])[0], 0);
}
END_TEST

START_TEST(pixels)
{
	struct arax_launch_range r[4] = { fenced(4 * N), fenced(4 * N), fenced(4 * N), fenced(4 * N) };
	struct arax_launch_range p[3] = { fenced(3 * N), fenced(4 * N), fenced(N) };
	struct arax_launch_range e[3] = { fenced(4), fenced(4), fenced(4 * N) };
	struct { float amount; uint32_t n; } unsharpen = { 0.5f, N };
	uint32_t n = N, spans = span_counts[_i];
	float old[N];

	for (int i = 0; i < 3; i++)
		randomise(&r[i]);
	ck_assert_int_eq(call("combine", r, 4, &n, 4, spans), 0);
	for (uint32_t i = 0; i < N; i++) {
		float m = f32(&r[2])[i];

		ck_assert_float_eq_tol(f32(&r[3])[i], f32(&r[0])[i] * m + f32(&r[1])[i] * (1 - m),
				       1e-6f);
	}
	ck_assert_int_eq(call("unsharpen", r, 3, &unsharpen, 8, spans), 0);
	for (uint32_t i = 0; i < N; i++) {
		float v = 1.5f * f32(&r[0])[i] - 0.5f * f32(&r[1])[i];

		ck_assert_float_eq_tol(f32(&r[2])[i], v < 0 ? 0 : v > 1 ? 1 : v, 1e-6f);
	}
	*f32(&e[0]) = 0.1f;
	*f32(&e[1]) = 0.9f;
	randomise(&e[2]);
	memcpy(old, e[2].data, sizeof(old));
	ck_assert_int_eq(call("extend", e, 3, &n, 4, spans), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_float_eq_tol(f32(&e[2])[i], fminf(1, 5 * (old[i] - 0.1f) / 0.8f), 1e-5f);
	memset(p[0].data, 255, 3 * N);
	((uint8_t *)p[0].data)[0] = 0;
	ck_assert_int_eq(call("rgb_to_gray", p, 2, &n, 4, spans), 0);
	ck_assert_float_eq_tol(f32(&p[1])[0], 1 - 0.2126f, 1e-5f);
	ck_assert_float_eq_tol(f32(&p[1])[N - 1], 1, 1e-5f);
	f32(&p[1])[1] = -3;
	f32(&p[1])[2] = 3;
	f32(&p[1])[3] = NAN;
	f32(&p[1])[4] = 0.5f;
	ck_assert_int_eq(call("gray_to_u8", p + 1, 2, &n, 4, spans), 0);
	ck_assert_uint_eq(((uint8_t *)p[2].data)[1], 0);
	ck_assert_uint_eq(((uint8_t *)p[2].data)[2], 255);
	ck_assert_uint_eq(((uint8_t *)p[2].data)[3], 0);
	ck_assert_uint_eq(((uint8_t *)p[2].data)[4], 128);
}
END_TEST

/* Every kernel: what its ranges must hold, for arguments that say n items. */
static const struct {
	const char *name;
	uint32_t nr_ranges, bytes[4];
	uint32_t arg_len, args[4];
} needs[] = {
	{ "vadd", 3, { 400, 400, 400 }, 4, { 100 } },
	{ "saxpy", 2, { 400, 400 }, 8, { 0, 100 } },
	{ "triad", 3, { 400, 400, 400 }, 8, { 0, 100 } },
	{ "square", 2, { 400, 400 }, 4, { 100 } },
	{ "sum_f32", 2, { 400, 8 }, 4, { 100 } },
	{ "max_f32", 2, { 400, 4 }, 4, { 100 } },
	{ "min_f32", 2, { 400, 4 }, 4, { 100 } },
	{ "rgb_to_gray", 2, { 300, 400 }, 4, { 100 } },
	{ "gray_to_u8", 2, { 400, 100 }, 4, { 100 } },
	{ "blur", 2, { 400, 400 }, 16, { 10, 10, 3, 0x3f800000 } },
	{ "sobel", 2, { 400, 400 }, 8, { 10, 10 } },
	{ "extend", 3, { 4, 4, 400 }, 4, { 100 } },
	{ "unsharpen", 3, { 400, 400, 400 }, 8, { 0, 100 } },
	{ "combine", 4, { 400, 400, 400, 400 }, 4, { 100 } },
};

START_TEST(lengths_are_checked)
{
	struct arax_launch_range r[4], good[4] = { { 0 } };
	uint32_t n = needs[_i].nr_ranges;
	const char *name = needs[_i].name;

	for (uint32_t i = 0; i < n; i++)
		good[i] = fenced(needs[_i].bytes[i]);
	memcpy(r, good, sizeof(r));
	ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), 0);
	for (uint32_t i = 0; i < n; i++) {
		r[i].length--;
		ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
		r[i].length = 0;
		ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
		r[i] = good[i];
		r[i].count = 2;		/* strided ranges are not for these */
		ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
		r[i] = good[i];
	}
	ck_assert_int_eq(call(name, r, n - 1, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
	ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len - 1, 1), -EINVAL);
	ck_assert_int_eq(call(name, r, n, needs[_i].args, 0, 1), -EINVAL);
}
END_TEST

START_TEST(misaligned_ranges_are_refused)
{
	struct arax_launch_range r[3] = { fenced(404), fenced(404), fenced(404) };
	uint32_t n = 100;

	r[1].data = (char *)r[1].data + 1;
	r[1].length--;
	ck_assert_int_eq(call("vadd", r, 3, &n, 4, 1), -EINVAL);
}
END_TEST

/* Arguments at their ends: nothing wraps around, nothing is touched. */
START_TEST(wild_arguments)
{
	struct arax_launch_range r[4] = { fenced(400), fenced(400), fenced(400), fenced(400) };
	static const uint32_t wild[] = { 0xffffffff, 0x80000000, 0x40000000, 0x55555556, 65536 };

	for (int w = 0; w < 5; w++) {
		uint32_t same[4] = { wild[w], wild[w], wild[w], wild[w] };
		uint32_t blur[4] = { wild[w], wild[w], 3, 0x3f800000 };

		for (size_t k = 0; k < sizeof(needs) / sizeof(needs[0]); k++)
			ck_assert_int_eq(call(needs[k].name, r, needs[k].nr_ranges, same,
					      needs[k].arg_len, 1), -EINVAL);
		ck_assert_int_eq(call("blur", r, 2, blur, 16, 1), -EINVAL);
		blur[0] = 1;
		ck_assert_int_eq(call("blur", r, 2, blur, 16, 1), -EINVAL);
	}
}
END_TEST

static const uint32_t bad_blurs[][4] = {
	{ 0, 10, 3, 0x3f800000 }, { 10, 0, 3, 0x3f800000 },
	{ 10, 10, 4, 0x3f800000 }, { 10, 10, 0, 0x3f800000 }, { 10, 10, 131, 0x3f800000 },
	{ 10, 10, 3, 0 }, { 10, 10, 3, 0xbf800000 }, { 10, 10, 3, 0x7fc00000 },
};

START_TEST(blur_arguments)
{
	struct arax_launch_range r[2] = { fenced(400), fenced(400) };

	ck_assert_int_eq(call("blur", r, 2, bad_blurs[_i], 16, 1), -EINVAL);
}
END_TEST

START_TEST(null_and_spin)
{
	struct arax_launch_range r[2] = { fenced(1), fenced(1) };
	struct timespec a, b;
	uint64_t args[2] = { 1, 2 };
	uint32_t us = 3000, too_long = 10000001;

	ck_assert_int_eq(call("null", r, 2, args, 16, 1), 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	ck_assert_int_eq(call("spin", r, 1, &us, 4, 1), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert_int_ge((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec, 3000000);
	ck_assert_int_eq(call("spin", r, 1, &too_long, 4, 1), -EINVAL);
	ck_assert_int_eq(call("spin", r, 1, args, 8, 1), -EINVAL);
}
END_TEST

/* arax_launch_share: every item once, whatever the geometry. */
START_TEST(shares_cover)
{
	for (uint32_t groups = 1; groups < 40; groups++)
		for (uint64_t items = 0; items < 100; items += 3) {
			uint64_t next = 0;

			for (uint32_t g = 0; g < groups; g += 2) {
				struct arax_launch l = {
					.grid = { groups, 1, 1 }, .group_begin = g,
					.group_end = g + 2 < groups ? g + 2 : groups,
				};
				uint64_t begin, end;

				arax_launch_share(&l, items, &begin, &end);
				ck_assert_uint_eq(begin, next);
				ck_assert_uint_ge(end, begin);
				next = end;
			}
			ck_assert_uint_eq(next, items);
		}
}
END_TEST

START_TEST(groups_saturate)
{
	struct arax_launch l = { .grid = { UINT32_MAX, UINT32_MAX, UINT32_MAX } };

	ck_assert_uint_eq(arax_launch_groups(&l), UINT64_MAX);
	l.grid[2] = 1;
	ck_assert_uint_eq(arax_launch_groups(&l), (uint64_t)UINT32_MAX * UINT32_MAX);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("std");
	TCase *t = tcase_create("all");

	if (std_open())
		return 1;
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, vectors, 0, 4);
	tcase_add_test(t, reductions);
	tcase_add_loop_test(t, blurs, 0, 4);
	tcase_add_loop_test(t, sobels, 0, 4);
	tcase_add_loop_test(t, pixels, 0, 4);
	tcase_add_loop_test(t, lengths_are_checked, 0, sizeof(needs) / sizeof(needs[0]));
	tcase_add_test(t, misaligned_ranges_are_refused);
	tcase_add_test(t, wild_arguments);
	tcase_add_loop_test(t, blur_arguments, 0, sizeof(bad_blurs) / sizeof(bad_blurs[0]));
	tcase_add_test(t, null_and_spin);
	tcase_add_test(t, shares_cover);
	tcase_add_test(t, groups_saturate);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
