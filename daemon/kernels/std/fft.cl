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

static void add_stage(struct plan *p, uint radix)
{
	p->radix[p->nr_stages++] = radix;
}

/*
 * What is left of n over these radices is returned.  Of a power of 2 they are the same from either end:
 * then who is put into the order of his reversed digits changes places with who stands there.
 */
static ulong factorize(struct plan *p, ulong n)
{
	uint twos = 0, fours;

	p->n = n;
	p->nr_stages = 0;
	for (; n % 2 == 0; n /= 2)
		twos++;
	fours = twos / 4;
	for (uint i = 0; i < fours; i++)
		add_stage(p, 4);
	if (twos % 4 == 2)
		add_stage(p, 4);
	for (uint i = 0; twos % 2 && i < twos % 4; i++)
		add_stage(p, 2);
	for (uint i = 0; i < fours; i++)
		add_stage(p, 4);
	for (uint radix = 3; radix <= MAX_RADIX; radix += 2)
		for (; n % radix == 0; n /= radix)
			add_stage(p, radix);
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

/* exp(-2 pi i * k / n), or its conjugate; k < n <= 2^28.  Whole quarters are taken off, exactly. */
static float2 turn(uint k, uint n, bool inverse)
{
	uint quarter = (4 * k + n / 2) / n;
	float angle = (float)((int)(4 * k) - (int)(quarter * n)) / (float)(2 * n);
	float c = cospi(angle), s = sinpi(angle), swap = quarter & 1 ? s : c;

	s = quarter & 1 ? c : s;
	c = (quarter + 1) & 2 ? -swap : swap;
	s = quarter & 2 ? -s : s;
	return (float2)(c, inverse ? s : -s);
}

/* A turn by a quarter. */
static float2 quarter_turn(float2 a, bool inverse)
{
	return inverse ? (float2)(-a.y, a.x) : (float2)(a.y, -a.x);
}

/* Item p of the butterflies that begin at `base`. */
static void butterfly(__global float *x, ulong base, ulong p, ulong apart, uint radix, bool inverse)
{
	float2 in[MAX_RADIX], root[MAX_RADIX];

	in[0] = vload2(base + p, x);
	for (uint j = 1; j < radix; j++)
		in[j] = times(vload2(base + p + j * apart, x),
			      turn((uint)(j * p), (uint)(radix * apart), inverse));
	if (radix == 2) {
		vstore2(in[0] + in[1], base + p, x);
		vstore2(in[0] - in[1], base + p + apart, x);
		return;
	}
	if (radix == 4) {
		float2 even = in[0] + in[2], odd = in[1] + in[3];
		float2 low = in[0] - in[2], high = quarter_turn(in[1] - in[3], inverse);

		vstore2(even + odd, base + p, x);
		vstore2(low + high, base + p + apart, x);
		vstore2(even - odd, base + p + 2 * apart, x);
		vstore2(low - high, base + p + 3 * apart, x);
		return;
	}
	/* A prime: no turn is a whole one. */
	for (uint k = 1; k < radix; k++)
		root[k] = turn(k, radix, inverse);
	for (uint k = 0; k < radix; k++) {
		float2 sum = in[0];

		for (uint j = 1; j < radix; j++)
			sum += k ? times(in[j], root[j * k % radix]) : in[j];
		vstore2(sum, base + p + k * apart, x);
	}
}

/* exp(-pi i k^2 / n), or its conjugate */
static float2 chirp(ulong k, ulong n, bool inverse)
{
	return turn((uint)(k * k % (2 * n)), (uint)(2 * n), inverse);
}

/* What a transform is made of: one of y; or, with chirps, three of what is in work. */
struct job {
	__global const float *x;
	__global float *y;
	__global float *work;	/* a, then b, p.n items each */
	ulong n;		/* of x and y */
	bool inverse, any;	/* any: n is not p.n */
	struct plan p;
};

/* In front of pass 0: x in reversed order; or x with the chirp, and zeros behind it. */
static void begin(const struct job *j, ulong i)
{
	ulong to = reversed(&j->p, i);

	if (!j->any)
		vstore2(vload2(i, j->x), to, j->y);
	else
		vstore2(i < j->n ? times(vload2(i, j->x), chirp(i, j->n, j->inverse)) :
				   (float2)(0, 0), to, j->work);
}

/* Of pass 1: the chirp's conjugate, to both sides of 0. */
static void mirror(const struct job *j, ulong i)
{
	ulong k = min(i, j->p.n - i);

	vstore2(k < j->n ? chirp(k, j->n, !j->inverse) : (float2)(0, 0), reversed(&j->p, i),
		j->work + 2 * j->p.n);
}

/* Of pass 2, which goes back: the product, reversed in place, as the length is a power of 2. */
static void combine_parts(const struct job *j, ulong i)
{
	__global float *a = j->work, *b = j->work + 2 * j->p.n;
	ulong other = reversed(&j->p, i);

	if (other >= i) {
		float2 low = times(vload2(i, a), vload2(i, b));
		float2 high = times(vload2(other, a), vload2(other, b));

		vstore2(high, i, a);
		vstore2(low, other, a);
	}
}

/*
 * One loop for all passes and stages, so that a driver that puts functions in the place of
 * their calls, as those with barriers must, compiles the butterflies once.  And one loop over the
 * items: in front of a barrier, PoCL 5.0 does not survive two of them that exclude each other.
 */
static void transform(const struct job *j)
{
	ulong me = arax_item(), items = arax_items();
	uint stages = j->p.nr_stages + 1, last = (j->any ? 3 : 1) * stages;
	ulong apart = 1;

	for (uint step = 0; step < last; step++) {
		uint pass = step / stages, stage = step % stages;
		__global float *at = !j->any ? j->y : pass == 1 ? j->work + 2 * j->p.n : j->work;
		uint radix = stage ? j->p.radix[stage - 1] : 1;

		apart = stage ? apart : 1;
		for (ulong i = me; i < j->p.n / radix; i += items) {
			if (stage)
				butterfly(at, i / apart * apart * radix, i % apart, apart, radix,
					  j->any ? pass == 2 : j->inverse);
			else if (!pass)
				begin(j, i);
			else if (pass == 1)
				mirror(j, i);
			else
				combine_parts(j, i);
		}
		apart *= radix;
		barrier(CLK_GLOBAL_MEM_FENCE);
	}
	for (ulong i = me; j->any && i < j->n; i += items)
		vstore2(times(vload2(i, j->work), chirp(i, j->n, j->inverse)) * (1 / (float)j->p.n),
			i, j->y);
}

__kernel void arax_std_fft_c32(__global const float *x, ulong nx, __global float *y, ulong ny,
			       __global float *work, ulong nwork, uint n, uint batch, uint inverse,
			       __global int *result)
{
	ulong items = 2 * (ulong)n * batch, m = n;
	ulong first = arax_share(batch, arax_group()), end = arax_share(batch, arax_group() + 1);
	struct job job;

	if (!n || n > MAX_N || inverse > 1 || SHORT(nx, items) || SHORT(ny, items)) {
		*result = -EINVAL;
		return;
	}
	job.n = n;
	job.inverse = inverse;
	job.any = factorize(&job.p, n) > 1;
	if (job.any) {
		m = 1;
		while (m < 2 * (ulong)n - 1)
			m *= 2;
		if (SHORT(nwork, 4 * m * batch)) {
			*result = -EINVAL;
			return;
		}
		factorize(&job.p, m);
	}
	for (ulong i = first; i < end; i++) {
		job.x = x + 2 * i * n;
		job.y = y + 2 * i * n;
		job.work = work + (job.any ? 4 * i * m : 0);
		transform(&job);
	}
}
