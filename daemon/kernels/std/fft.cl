// SPDX-License-Identifier: MIT
/*
 * fft.c in OpenCL C, by other algorithms: a group transforms in place, in y (or in work,
 * for Bluestein's convolution), after its items have been put in the order of their
 * reversed digits.
 */

#define MAX_N		(1u << 27)
#define MAX_STAGES	32
#define MAX_RADIX	7

struct plan {
	ulong n;
	uint nr_stages;
	uint radix[MAX_STAGES];
};

/* What is left of n over these radices is returned. */
static ulong factorize(struct plan *p, ulong n)
{
	p->n = n;
	p->nr_stages = 0;
	for (uint radix = 2; radix <= MAX_RADIX; radix++)
		for (; n % radix == 0; n /= radix)
			p->radix[p->nr_stages++] = radix;
	return n;
}

/* Where item i goes: its digits the other way round. */
static ulong reversed(const struct plan *p, ulong i)
{
	ulong r = 0;

	for (uint s = p->nr_stages; s-- > 0; i /= p->radix[s])
		r = r * p->radix[s] + i % p->radix[s];
	return r;
}

static float2 times(float2 a, float2 b)
{
	return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* exp(-2 pi i * k / n), or its conjugate; k < n.  Whole quarters are taken off, exactly. */
static float2 turn(ulong k, ulong n, bool inverse)
{
	ulong quarter = (4 * k + n / 2) / n;
	float angle = (float)((long)(4 * k) - (long)(quarter * n)) / (float)(2 * n);
	float c = cospi(angle), s = sinpi(angle), swap = quarter & 1 ? s : c;

	s = quarter & 1 ? c : s;
	c = (quarter + 1) & 2 ? -swap : swap;
	s = quarter & 2 ? -s : s;
	return (float2)(c, inverse ? s : -s);
}

/* Item p of the butterflies that begin at `base`. */
static void butterfly(__global float *x, ulong base, ulong p, ulong apart, uint radix, bool inverse)
{
	float2 in[MAX_RADIX];

	for (uint j = 0; j < radix; j++)
		in[j] = times(vload2(base + p + j * apart, x), turn(j * p, radix * apart, inverse));
	for (uint k = 0; k < radix; k++) {
		float2 sum = in[0];

		for (uint j = 1; j < radix; j++)
			sum += times(in[j], turn(j * k % radix, radix, inverse));
		vstore2(sum, base + p + k * apart, x);
	}
}

/* Of what stands in reversed order; all items of the group come along. */
static void transform(__global float *x, const struct plan *p, bool inverse)
{
	ulong apart = 1;

	for (uint s = 0; s < p->nr_stages; s++) {
		uint radix = p->radix[s];

		barrier(CLK_GLOBAL_MEM_FENCE);
		for (ulong i = arax_item(); i < p->n / radix; i += arax_items())
			butterfly(x, i / apart * apart * radix, i % apart, apart, radix, inverse);
		apart *= radix;
	}
	barrier(CLK_GLOBAL_MEM_FENCE);
}

/* exp(-pi i k^2 / n), or its conjugate */
static float2 chirp(ulong k, ulong n, bool inverse)
{
	return turn(k * k % (2 * n), 2 * n, inverse);
}

static void transform_smooth(__global const float *x, __global float *y, const struct plan *p,
			     bool inverse)
{
	for (ulong i = arax_item(); i < p->n; i += arax_items())
		vstore2(vload2(i, x), reversed(p, i), y);
	transform(y, p, inverse);
}

/* a: x with the chirp, zeros behind it; b: the chirp's conjugate, to both sides of 0. */
static void transform_any(__global const float *x, __global float *y, __global float *a, ulong n,
			  const struct plan *p, bool inverse)
{
	__global float *b = a + 2 * p->n;
	float scale = 1 / (float)p->n;

	for (ulong i = arax_item(); i < p->n; i += arax_items()) {
		ulong from = reversed(p, i), k = min(from, p->n - from);

		vstore2(from < n ? times(vload2(from, x), chirp(from, n, inverse)) : (float2)(0, 0),
			i, a);
		vstore2(k < n ? chirp(k, n, !inverse) : (float2)(0, 0), i, b);
	}
	transform(a, p, false);
	transform(b, p, false);
	/* Their product, in reversed order again: the length is a power of 2. */
	for (ulong i = arax_item(); i < p->n; i += arax_items()) {
		ulong j = reversed(p, i);

		if (j >= i) {
			float2 low = times(vload2(i, a), vload2(i, b));
			float2 high = times(vload2(j, a), vload2(j, b));

			vstore2(high, i, a);
			vstore2(low, j, a);
		}
	}
	transform(a, p, true);
	for (ulong i = arax_item(); i < n; i += arax_items())
		vstore2(times(vload2(i, a), chirp(i, n, inverse)) * scale, i, y);
	barrier(CLK_GLOBAL_MEM_FENCE);
}

__kernel void arax_std_fft_c32(__global const float *x, ulong nx, __global float *y, ulong ny,
			       __global float *work, ulong nwork, uint n, uint batch, uint inverse,
			       __global int *result)
{
	ulong items = 2 * (ulong)n * batch, m = 0;
	struct plan plan;

	if (!n || n > MAX_N || inverse > 1 || SHORT(nx, items) || SHORT(ny, items)) {
		*result = -EINVAL;
		return;
	}
	if (factorize(&plan, n) > 1) {
		m = 1;
		while (m < 2 * (ulong)n - 1)
			m *= 2;
		if (SHORT(nwork, 4 * m * batch)) {
			*result = -EINVAL;
			return;
		}
		factorize(&plan, m);
	}
	for (ulong i = arax_share(batch, arax_group()); i < arax_share(batch, arax_group() + 1); i++) {
		if (m)
			transform_any(x + 2 * i * n, y + 2 * i * n, work + 4 * i * m, n, &plan,
				      inverse);
		else
			transform_smooth(x + 2 * i * n, y + 2 * i * n, &plan, inverse);
	}
}
