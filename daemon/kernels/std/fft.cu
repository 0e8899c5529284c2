// SPDX-License-Identifier: MIT
/*
 * fft.c for GPUs, as fft.cl has it: a block transforms in place, in y (or in work, for
 * Bluestein's convolution), after its items have been put in the order of their reversed digits.
 * cuFFT's is used where it is installed, see fft_vendor.c.
 */
#include "std_gpu.h"

#define MAX_N		(1u << 27)
#define MAX_STAGES	32
#define MAX_RADIX	7u

struct complex32 {
	float re, im;
};

struct fft_plan {
	uint64_t n;
	uint32_t nr_stages;
	uint32_t radix[MAX_STAGES];
};

static __device__ inline void add_stage(fft_plan *p, uint32_t radix)
{
	p->radix[p->nr_stages++] = radix;
}

/* Of a power of 2 the radices are the same from either end, see fft.cl. */
static __device__ uint64_t factorize(fft_plan *p, uint64_t n)
{
	uint32_t twos = 0, fours;

	p->n = n;
	p->nr_stages = 0;
	for (; n % 2 == 0; n /= 2)
		twos++;
	fours = twos / 4;
	for (uint32_t i = 0; i < fours; i++)
		add_stage(p, 4);
	if (twos % 4 == 2)
		add_stage(p, 4);
	for (uint32_t i = 0; twos % 2 && i < twos % 4; i++)
		add_stage(p, 2);
	for (uint32_t i = 0; i < fours; i++)
		add_stage(p, 4);
	for (uint32_t radix = 3; radix <= MAX_RADIX; radix += 2)
		for (; n % radix == 0; n /= radix)
			add_stage(p, radix);
	return n;
}

/* Where item i goes: its digits the other way round. */
static __device__ uint64_t reversed(const fft_plan *p, uint64_t i)
{
	uint64_t r = 0;

	for (uint32_t s = p->nr_stages; s-- > 0; i /= p->radix[s])
		r = r * p->radix[s] + i % p->radix[s];
	return r;
}

static __device__ inline complex32 times(complex32 a, complex32 b)
{
	return complex32{ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

/* exp(-2 pi i * k / n), or its conjugate; k < n <= 2^28.  Whole quarters are taken off, exactly. */
static __device__ complex32 turn(uint32_t k, uint32_t n, bool inverse)
{
	uint32_t quarter = (4 * k + n / 2) / n;
	float angle = (float)((int32_t)(4 * k) - (int32_t)(quarter * n)) / (float)(2 * n);
	float c, s, swap;

	turn_by(angle, &c, &s);
	swap = quarter & 1 ? s : c;
	s = quarter & 1 ? c : s;
	c = (quarter + 1) & 2 ? -swap : swap;
	s = quarter & 2 ? -s : s;
	return complex32{ c, inverse ? s : -s };
}

static __device__ inline complex32 add(complex32 a, complex32 b)
{
	return complex32{ a.re + b.re, a.im + b.im };
}

static __device__ inline complex32 less(complex32 a, complex32 b)
{
	return complex32{ a.re - b.re, a.im - b.im };
}

/* A turn by a quarter. */
static __device__ inline complex32 quarter_turn(complex32 a, bool inverse)
{
	return inverse ? complex32{ -a.im, a.re } : complex32{ a.im, -a.re };
}

/* For radix 2 and 4 without arrays, which would not be in registers. */
static __device__ void butterfly2(complex32 *x, uint64_t p, uint64_t apart, bool inverse)
{
	const complex32 a = x[p], b = times(x[p + apart], turn((uint32_t)p, (uint32_t)(2 * apart), inverse));

	x[p] = add(a, b);
	x[p + apart] = less(a, b);
}

static __device__ void butterfly4(complex32 *x, uint64_t p, uint64_t apart, bool inverse)
{
	const uint32_t k = (uint32_t)p, n = (uint32_t)(4 * apart);
	const complex32 a = x[p], b = times(x[p + apart], turn(k, n, inverse));
	const complex32 c = times(x[p + 2 * apart], turn(2 * k, n, inverse));
	const complex32 d = times(x[p + 3 * apart], turn(3 * k, n, inverse));
	const complex32 even = add(a, c), odd = add(b, d);
	const complex32 low = less(a, c), high = quarter_turn(less(b, d), inverse);

	x[p] = add(even, odd);
	x[p + apart] = add(low, high);
	x[p + 2 * apart] = less(even, odd);
	x[p + 3 * apart] = less(low, high);
}

/* Item p of the butterflies that begin at x. */
static __device__ void butterfly(complex32 *x, uint64_t p, uint64_t apart, uint32_t radix, bool inverse)
{
	complex32 in[MAX_RADIX], root[MAX_RADIX];

	if (radix == 2)
		return butterfly2(x, p, apart, inverse);
	if (radix == 4)
		return butterfly4(x, p, apart, inverse);
	in[0] = x[p];
	for (uint32_t j = 1; j < radix; j++) {
		in[j] = times(x[p + j * apart], turn((uint32_t)(j * p), (uint32_t)(radix * apart), inverse));
		root[j] = turn(j, radix, inverse);
	}
	/* A prime: no turn is a whole one. */
	for (uint32_t k = 0; k < radix; k++) {
		complex32 sum = in[0];

		for (uint32_t j = 1; j < radix; j++)
			sum = add(sum, k ? times(in[j], root[j * k % radix]) : in[j]);
		x[p + k * apart] = sum;
	}
}

/* exp(-pi i k^2 / n), or its conjugate */
static __device__ inline complex32 chirp(uint64_t k, uint64_t n, bool inverse)
{
	return turn((uint32_t)(k * k % (2 * n)), (uint32_t)(2 * n), inverse);
}

/* What a transform is made of: one of y; or, with chirps, three of what is in work. */
struct fft_job {
	const complex32 *x;
	complex32 *y;
	complex32 *work;	/* a, then b, p.n items each */
	uint64_t n;		/* of x and y */
	bool inverse, any;	/* any: n is not p.n */
	fft_plan p;
};

/* In front of pass 0: x in reversed order; or x with the chirp, and zeros behind it. */
static __device__ void begin(const fft_job *j, uint64_t i)
{
	uint64_t to = reversed(&j->p, i);

	if (!j->any)
		j->y[to] = j->x[i];
	else
		j->work[to] = i < j->n ? times(j->x[i], chirp(i, j->n, j->inverse)) :
					 complex32{ 0, 0 };
}

/* Of pass 1: the chirp's conjugate, to both sides of 0. */
static __device__ void mirror(const fft_job *j, uint64_t i)
{
	uint64_t k = i < j->p.n - i ? i : j->p.n - i;

	j->work[j->p.n + reversed(&j->p, i)] = k < j->n ? chirp(k, j->n, !j->inverse) :
							  complex32{ 0, 0 };
}

/* Of pass 2, which goes back: the product, reversed in place, as the length is a power of 2. */
static __device__ void combine_parts(const fft_job *j, uint64_t i)
{
	complex32 *a = j->work, *b = j->work + j->p.n;
	uint64_t other = reversed(&j->p, i);

	if (other >= i) {
		complex32 low = times(a[i], b[i]), high = times(a[other], b[other]);

		a[i] = high;
		a[other] = low;
	}
}

static __device__ void transform(const fft_job *j)
{
	uint64_t me = arax_item(), items = arax_items(), apart = 1;
	uint32_t stages = j->p.nr_stages + 1, last = (j->any ? 3 : 1) * stages;

	for (uint32_t step = 0; step < last; step++) {
		uint32_t pass = step / stages, stage = step % stages;
		complex32 *at = !j->any ? j->y : pass == 1 ? j->work + j->p.n : j->work;

		if (!stage) {
			for (uint64_t i = me; i < j->p.n; i += items) {
				if (!pass)
					begin(j, i);
				else if (pass == 1)
					mirror(j, i);
				else
					combine_parts(j, i);
			}
			apart = 1;
		} else {
			uint32_t radix = j->p.radix[stage - 1];

			for (uint64_t i = me; i < j->p.n / radix; i += items)
				butterfly(at + i / apart * apart * radix, i % apart, apart, radix,
					  j->any ? pass == 2 : j->inverse);
			apart *= radix;
		}
		__syncthreads();
	}
	for (uint64_t i = me; j->any && i < j->n; i += items) {
		complex32 v = times(j->work[i], chirp(i, j->n, j->inverse));
		float scale = 1 / (float)j->p.n;

		j->y[i] = complex32{ v.re * scale, v.im * scale };
	}
}

/* Compilers would use more registers than a block of all threads that a GPU takes can have. */
ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_std_fft_c32(const float *x, uint64_t nx, float *y, uint64_t ny, float *work, uint64_t nwork,
		 uint32_t n, uint32_t batch, uint32_t inverse, arax_gpu_result result)
{
	uint64_t items = 2 * (uint64_t)n * batch, m = n;
	uint64_t first = arax_share(batch, arax_group()), end = arax_share(batch, arax_group() + 1);
	fft_job job;

	if (result.canceled())
		return;
	if (!n || n > MAX_N || inverse > 1 || SHORT(nx, items) || SHORT(ny, items)) {
		*result = -EINVAL;
		return;
	}
	job.n = n;
	job.inverse = inverse;
	job.any = factorize(&job.p, n) > 1;
	if (job.any) {
		m = 1;
		while (m < 2 * (uint64_t)n - 1)
			m *= 2;
		if (SHORT(nwork, 4 * m * batch)) {
			*result = -EINVAL;
			return;
		}
		factorize(&job.p, m);
	}
	for (uint64_t i = first; i < end; i++) {
		job.x = (const complex32 *)x + i * n;
		job.y = (complex32 *)y + i * n;
		job.work = job.any ? (complex32 *)work + 2 * i * m : NULL;
		transform(&job);
	}
}
