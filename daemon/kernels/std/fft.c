// SPDX-License-Identifier: MIT
/*
 * Fourier transforms of any length: Stockham's for lengths without a prime factor over 7,
 * Bluestein's convolution of length 2^k for all others.
 *
 * Inside, real and imaginary parts lie apart, so that what is done to one number is done
 * to a vector of them.  The inverse is the same transform with the two parts exchanged.
 */
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/std/vmath.h"

int arax_std_fft_c32(const struct arax_launch *l);

#define MAX_N		(1u << 27)
#define MAX_STAGES	32u
#define MAX_RADIX	7u

struct fft_args {
	uint32_t n, batch, inverse;
};

/* Real parts, and imaginary ones. */
struct parts {
	float *re, *im;
};

struct plan {
	uint64_t n;
	uint32_t nr_stages;
	uint32_t radix[MAX_STAGES];
	float *memory;
	struct parts twiddle;		/* of all stages, one after the other */
	struct parts data, other;	/* n each, between which stages go back and forth */
};

/* Fewest stages first: 4, then 2, 3, 5, 7.  What is left over is returned. */
static uint64_t factorize(struct plan *p, uint64_t n)
{
	static const uint32_t radices[] = { 4, 2, 3, 5, 7 };

	p->nr_stages = 0;
	for (uint32_t i = 0; i < 5; i++)
		for (; n % radices[i] == 0; n /= radices[i])
			p->radix[p->nr_stages++] = radices[i];
	return n;
}

/* exp(-2 pi i * k / n) for k = first + i * step, modulo n. */
STD_CLONES
static void circle(struct parts to, uint64_t first, uint64_t step, uint64_t count, uint64_t n)
{
	double per = 1.0 / (double)n;

	for (uint64_t i = 0; i < count; i++) {
		double c, s;

		std_turn((double)(uint32_t)(first + i * step) * per, &c, &s);
		to.re[i] = (float)c;
		to.im[i] = (float)-s;
	}
}

/* Of a stage: item p of the k-th, exp(-2 pi i * p * k / length). */
static void make_twiddles(struct plan *p)
{
	struct parts to = p->twiddle;
	uint64_t length = p->n;

	for (uint32_t i = 0; i < p->nr_stages; i++) {
		uint32_t radix = p->radix[i];
		uint64_t m = length / radix;

		for (uint32_t k = 1; k < radix; k++) {
			circle(to, 0, k, m, length);
			to.re += m;
			to.im += m;
		}
		length = m;
	}
}

static void plan_free(struct plan *p)
{
	std_scratch_free(p->memory);
}

/* n is 1 or has no prime factor over 7. */
static int plan_make(struct plan *p, uint64_t n)
{
	float *at;

	p->n = n;
	factorize(p, n);
	/* Twiddles are fewer than 2 * n: at most n * 6 / 7 * (1 + 1 / 2 + 1 / 4 ...). */
	p->memory = std_scratch((4 + 4) * n, sizeof(float));
	at = p->memory;
	if (!at)
		return -ENOMEM;
	p->data = (struct parts){ at, at + n };
	p->other = (struct parts){ at + 2 * n, at + 3 * n };
	p->twiddle = (struct parts){ at + 4 * n, at + 6 * n };
	make_twiddles(p);
	return 0;
}

/* Small transforms of what stands in re[], im[], in place. */
STD_INLINE void fft2(float *re, float *im)
{
	float r = re[1], i = im[1];

	re[1] = re[0] - r;
	im[1] = im[0] - i;
	re[0] += r;
	im[0] += i;
}

STD_INLINE void fft4(float *re, float *im)
{
	float r0 = re[0] + re[2], i0 = im[0] + im[2], r1 = re[0] - re[2], i1 = im[0] - im[2];
	float r2 = re[1] + re[3], i2 = im[1] + im[3], r3 = re[1] - re[3], i3 = im[1] - im[3];

	re[0] = r0 + r2;
	im[0] = i0 + i2;
	re[1] = r1 + i3;
	im[1] = i1 - r3;
	re[2] = r0 - r2;
	im[2] = i0 - i2;
	re[3] = r1 - i3;
	im[3] = i1 + r3;
}

/* cos and sin of 2 pi * k / n, by n and k. */
static const float cosine[8][4] = {
	[3] = { 1, -0.5f },
	[5] = { 1, 0.30901699437f, -0.80901699437f },
	[7] = { 1, 0.62348980186f, -0.22252093396f, -0.90096886790f },
};
static const float sine[8][4] = {
	[3] = { 0, 0.86602540378f },
	[5] = { 0, 0.95105651630f, 0.58778525229f },
	[7] = { 0, 0.78183148247f, 0.97492791218f, 0.43388373912f },
};

/* Odd n: items j and n - j meet the same cosines, and sines of opposite sign. */
STD_INLINE void fft_odd(float *re, float *im, uint32_t n)
{
	float sr[4], si[4], dr[4], di[4], r0 = re[0], i0 = im[0];

#pragma GCC unroll 4
	for (uint32_t j = 1; j <= n / 2; j++) {
		sr[j] = re[j] + re[n - j];
		si[j] = im[j] + im[n - j];
		dr[j] = re[j] - re[n - j];
		di[j] = im[j] - im[n - j];
		re[0] += sr[j];
		im[0] += si[j];
	}
#pragma GCC unroll 4
	for (uint32_t k = 1; k <= n / 2; k++) {
		float r = r0, i = i0, tr = 0, ti = 0;

#pragma GCC unroll 4
		for (uint32_t j = 1; j <= n / 2; j++) {
			uint32_t at = j * k % n, near = at <= n / 2 ? at : n - at;
			float c = cosine[n][near], s = at <= n / 2 ? sine[n][near] : -sine[n][near];

			r += c * sr[j];
			i += c * si[j];
			tr += s * di[j];
			ti += s * dr[j];
		}
		re[k] = r + tr;
		im[k] = i - ti;
		re[n - k] = r - tr;
		im[n - k] = i + ti;
	}
}

/* Item `at` of each of `radix` rows that are `apart`, transformed, times twiddles, to rows of y. */
STD_INLINE void butterfly(struct parts y, uint64_t to, uint64_t to_apart, struct parts x,
			  uint64_t from,
			  uint64_t apart, struct parts w, uint64_t p, uint64_t m, uint32_t radix)
{
	float re[MAX_RADIX], im[MAX_RADIX];

#pragma GCC unroll 8
	for (uint32_t j = 0; j < radix; j++) {
		re[j] = x.re[from + j * apart];
		im[j] = x.im[from + j * apart];
	}
	if (radix == 2)
		fft2(re, im);
	else if (radix == 4)
		fft4(re, im);
	else
		fft_odd(re, im, radix);
	y.re[to] = re[0];
	y.im[to] = im[0];
#pragma GCC unroll 8
	for (uint32_t k = 1; k < radix; k++) {
		float c = w.re[(k - 1) * m + p], s = w.im[(k - 1) * m + p];

		y.re[to + k * to_apart] = re[k] * c - im[k] * s;
		y.im[to + k * to_apart] = re[k] * s + im[k] * c;
	}
}

/* m butterflies, each on `side` items that stand side by side. */
STD_INLINE void stage_of(struct parts y, struct parts x, struct parts w, uint64_t m, uint64_t side,
			 uint32_t radix)
{
	if (side == 1) {
		STD_EACH(p, m)
			butterfly(y, radix * p, 1, x, p, m, w, p, m, radix);
		return;
	}
	for (uint64_t p = 0; p < m; p++) {
		STD_EACH(q, side)
			butterfly(y, q + side * radix * p, side, x, q + side * p, side * m, w, p,
				  m, radix);
	}
}

STD_FMA_CLONES
static void stage(struct parts y, struct parts x, struct parts w, uint64_t m, uint64_t side,
		  uint32_t radix)
{
	if (radix == 4)
		stage_of(y, x, w, m, side, 4);
	else if (radix == 2)
		stage_of(y, x, w, m, side, 2);
	else if (radix == 3)
		stage_of(y, x, w, m, side, 3);
	else if (radix == 5)
		stage_of(y, x, w, m, side, 5);
	else
		stage_of(y, x, w, m, side, 7);
}

/* Of x, which is p->data and spent: where the result stands. */
static struct parts transform(const struct plan *p, struct parts x)
{
	struct parts y = p->other, w = p->twiddle;
	uint64_t length = p->n, side = 1;

	for (uint32_t i = 0; i < p->nr_stages; i++) {
		uint32_t radix = p->radix[i];
		struct parts swap = x;

		length /= radix;
		stage(y, x, w, length, side, radix);
		w.re += (radix - 1) * length;
		w.im += (radix - 1) * length;
		side *= radix;
		x = y;
		y = swap;
	}
	return x;
}

/* Between numbers as the client has them, and parts; inverse: exchanged. */
static struct parts in_order(struct parts p, uint32_t inverse)
{
	return inverse ? (struct parts){ p.im, p.re } : p;
}

STD_CLONES
static void take_apart(struct parts to, const float *x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		to.re[i] = x[2 * i];
		to.im[i] = x[2 * i + 1];
	}
}

STD_CLONES
static void put_together(float *y, struct parts from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		y[2 * i] = from.re[i];
		y[2 * i + 1] = from.im[i];
	}
}

/* to[i] = a[i] * b[i] * scale */
STD_FMA_CLONES
static void multiply(struct parts to, struct parts a, struct parts b, float scale, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		float r = a.re[i] * b.re[i] - a.im[i] * b.im[i];

		to.im[i] = (a.re[i] * b.im[i] + a.im[i] * b.re[i]) * scale;
		to.re[i] = r * scale;
	}
}

struct chirp {
	struct plan plan;
	uint64_t n;
	float *memory;
	struct parts wave;	/* n: exp(-pi i k^2 / n) */
	struct parts mirrored;	/* the transform of its conjugate, to both sides of 0 */
};

static void chirp_free(struct chirp *c)
{
	std_scratch_free(c->memory);
	plan_free(&c->plan);
}

/* The length of the convolution: no wrap reaches what counts. */
static uint64_t chirp_length(uint64_t n)
{
	uint64_t m = 1;

	while (m < 2 * n - 1)
		m *= 2;
	return m;
}

static int chirp_make(struct chirp *c, uint64_t n)
{
	uint64_t m = chirp_length(n), square = 0;
	struct parts done, to;

	if (plan_make(&c->plan, m))
		return -ENOMEM;
	c->n = n;
	c->memory = std_scratch(2 * n + 2 * m, sizeof(float));
	if (!c->memory) {
		plan_free(&c->plan);
		return -ENOMEM;
	}
	c->wave = (struct parts){ c->memory, c->memory + n };
	c->mirrored = (struct parts){ c->memory + 2 * n, c->memory + 2 * n + m };
	for (uint64_t k = 0; k < n; k++) {	/* square: k^2 modulo 2 n */
		double cosine_of, sine_of;

		std_turn((double)(uint32_t)square / (double)(2 * n), &cosine_of, &sine_of);
		c->wave.re[k] = (float)cosine_of;
		c->wave.im[k] = (float)-sine_of;
		square = (square + 2 * k + 1) % (2 * n);
	}
	to = c->plan.data;
	memset(to.re, 0, m * sizeof(float));
	memset(to.im, 0, m * sizeof(float));
	for (uint64_t k = 0; k < n; k++) {
		uint64_t at = k ? m - k : 0;

		to.re[k] = c->wave.re[k];
		to.re[at] = c->wave.re[k];
		to.im[k] = -c->wave.im[k];
		to.im[at] = -c->wave.im[k];
	}
	done = transform(&c->plan, to);
	memcpy(c->mirrored.re, done.re, m * sizeof(float));
	memcpy(c->mirrored.im, done.im, m * sizeof(float));
	return 0;
}

/* Of p->data's first n numbers, where the result stands, n of them. */
static struct parts transform_chirp(const struct chirp *c)
{
	const struct plan *p = &c->plan;
	struct parts done;

	multiply(p->data, p->data, c->wave, 1, c->n);
	memset(p->data.re + c->n, 0, (p->n - c->n) * sizeof(float));
	memset(p->data.im + c->n, 0, (p->n - c->n) * sizeof(float));
	done = transform(p, p->data);
	/* Back, by exchanged parts. */
	multiply(p->data, done, c->mirrored, 1.0f / (float)p->n, p->n);
	done = in_order(transform(p, in_order(p->data, 1)), 1);
	multiply(done, done, c->wave, 1, c->n);
	return done;
}

static bool smooth(uint64_t n)
{
	struct plan p;

	return factorize(&p, n) == 1;
}

/*
 * fft_c32(in f32 x[], out f32 y[], out f32 work[], u32 n, u32 batch, u32 inverse):
 * `batch` transforms of n complex numbers each (re, im; n at most 2^27), not scaled.
 * work may be empty where n has no prime factor over 7, else it is for 4 * m items a
 * transform, m the least power of 2 from 2 * n - 1 on; what is in it afterwards means nothing.
 * Dealt to work-groups by transforms.
 */
ARAX_KERNEL int arax_std_fft_c32(const struct arax_launch *l)
{
	uint64_t items, i, end, n;
	struct fft_args a;
	struct chirp c;
	const float *x;
	bool plain;
	float *y;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n || a.n > MAX_N || a.inverse > 1)
		return -EINVAL;
	n = a.n;
	plain = smooth(n);
	items = 2 * n * a.batch;
	x = ARAX_ITEMS(l, 0, items, float);
	y = ARAX_ITEMS(l, 1, items, float);
	if (!x || !y || !ARAX_ITEMS(l, 2, plain ? 0 : 4 * chirp_length(n) * a.batch, float))
		return -EINVAL;
	arax_launch_share(l, a.batch, &i, &end);
	if (i == end)
		return 0;
	if (plain ? plan_make(&c.plan, n) : chirp_make(&c, n))
		return -ENOMEM;
	for (; i < end; i++) {
		take_apart(in_order(c.plan.data, a.inverse), x + 2 * n * i, n);
		put_together(y + 2 * n * i,
			     in_order(plain ? transform(&c.plan, c.plan.data) : transform_chirp(&c),
				      a.inverse), n);
	}
	if (plain)
		plan_free(&c.plan);
	else
		chirp_free(&c);
	return 0;
}
