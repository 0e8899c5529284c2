// SPDX-License-Identifier: MIT
/* fft.c: against the sum that defines a transform, of all items or, of large ones, of some */
#include "selftests/unit/std_case.h"

struct fft_args { uint32_t n, batch, inverse; };

static uint32_t left_over(uint32_t n)
{
	for (uint32_t p = 2; p <= 7; p++)
		while (n % p == 0)
			n /= p;
	return n;
}

/* Powers of 2, lengths with small factors, primes, anything. */
static uint32_t length(const struct trial *t)
{
	static const uint32_t some[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 30, 32, 49, 60,
					 64, 77,
					 97, 100, 105, 121, 128, 210, 243, 256, 420, 511, 512, 625,
					 1000, 1009, 1024 };
	static const uint32_t large[] = { 65536, 50000, 16807, 30011, 59049 };

	if (t->size == SIZE_HUGE)
		return large[trial_random(5)];
	if (t->size != SIZE_SOME)
		return 1;
	return trial_random(3) ? some[trial_random(sizeof(some) / sizeof(some[0]))] :
				 1 + trial_random(600);
}

#define TONE	3u

/* What is in one item afterwards, where noise is in all of them. */
static void add_tone(struct trial *t, uint32_t n)
{
	float *x = add_bytes(t, 8ull * n);

	for (uint64_t i = 0; i < n; i++) {
		double turns = (double)(i * TONE % n) / n;

		x[2 * i] = (float)cos(2 * M_PI * turns);
		x[2 * i + 1] = (float)sin(2 * M_PI * turns);
	}
}

static void make_fft(struct trial *t)
{
	struct fft_args a = { length(t), size_of(t, t->size == SIZE_HUGE ? 2 : 5),
			      trial_random(2) };
	uint64_t m = 1;

	if (t->size == SIZE_LONG)
		a = (struct fft_args){ trial_random(2) ? 4096 : 4099, 1, trial_random(2) };
	if (a.n > 300)
		a.batch = a.batch > 1 ? 1 : a.batch;
	while (m < 2ull * a.n - 1)
		m *= 2;
	set_args(t, &a);
	if (t->size == SIZE_LONG)
		add_tone(t, a.n);
	else
		add_floats(t, 2ull * a.n * a.batch, -1, 1);
	add_holes(t, 8ull * a.n * a.batch);
	add_holes(t, left_over(a.n) > 1 ? 16 * m * a.batch : 0);
}

/* f32 all the way, with correctly rounded twiddles: within 1e-7 of the root of the sum of
 * squares for each halving (and for three transforms of twice the length, for most lengths).
 */
static void check_noise(const struct trial *t)
{
	const struct fft_args *a = ARGS_OF(t, struct fft_args);
	uint64_t step = a->n > 2000 ? a->n / 16 + 1 : 1;
	double halvings = log2(a->n) + 2;
	double *c = malloc(16ull * a->n), *s = c + a->n;

	ck_assert_ptr_nonnull(c);
	for (uint64_t i = 0; i < a->n; i++) {
		c[i] = cos(2 * M_PI * (double)i / a->n);
		s[i] = (a->inverse ? 1 : -1) * sin(2 * M_PI * (double)i / a->n);
	}
	for (uint64_t b = 0; b < a->batch; b++) {
		const float *x = RANGE(t, 0, float) + 2 * b * a->n;
		double squares = 0;

		for (uint64_t i = 0; i < 2ull * a->n; i++)
			squares += (double)x[i] * (double)x[i];
		for (uint64_t k = 0; k < a->n; k += step) {
			double re = 0, im = 0, tolerance = 1e-7 * halvings * sqrt(squares);

			for (uint64_t i = 0; i < a->n; i++) {
				uint64_t at = i * k % a->n;

				re += (double)x[2 * i] * c[at] - (double)x[2 * i + 1] * s[at];
				im += (double)x[2 * i] * s[at] + (double)x[2 * i + 1] * c[at];
			}
			if (left_over(a->n) > 1)
				tolerance *= 3;
			near(t, k, f32_at(t, 1, 2 * (b * a->n + k)), re, tolerance);
			near(t, k, f32_at(t, 1, 2 * (b * a->n + k) + 1), im, tolerance);
		}
	}
	free(c);
}

/* All within 3e-7 of the greatest item, or 5e-7 by the convolution. */
static void check_tone(const struct trial *t)
{
	const struct fft_args *a = ARGS_OF(t, struct fft_args);
	double tolerance = (left_over(a->n) > 1 ? 5e-7 : 3e-7) * a->n;
	uint32_t where = a->inverse ? a->n - TONE : TONE;

	for (uint32_t k = 0; k < a->n; k++) {
		near(t, k, f32_at(t, 1, 2 * k), k == where ? a->n : 0, tolerance);
		near(t, k, f32_at(t, 1, 2 * k + 1), 0, tolerance);
	}
}

static void check_fft(const struct trial *t)
{
	if (t->size == SIZE_LONG)
		check_tone(t);
	else
		check_noise(t);
}

const struct std_case fft_cases[] = {
	{ "fft_c32", make_fft, check_fft, 0 },
	{ 0 },
};
