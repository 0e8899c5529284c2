// SPDX-License-Identifier: MIT
/* reduce.c in OpenCL C: sums are of the same values in another order. */

/*
 * Into one number: one work-group does it, whatever the grid, with at most PARTS of its
 * work-items; the first of them puts the parts together.
 */
#define PARTS	256
#define WAYS	8	/* independent sums of each, so that the loop vectorises */

/* Item `me` of `used`: its piece of n. */
#define PIECE(n, me, used)	((ulong)(n) * (me) / (used))

/* The work-items that take part. */
static ulong taking_part(void)
{
	return min(arax_items(), (ulong)PARTS);
}

#ifdef cl_khr_fp64
/* Of each work-item that takes part, one number: their sum, for the first. */
static double add_parts(__local double *parts, double mine)
{
	ulong me = arax_item(), used = taking_part();

	if (me < used)
		parts[me] = mine;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (ulong i = 1; !me && i < used; i++)
		mine += parts[i];
	return mine;
}

/* sum of x[i]; or of x[i] * y[i]; or of x[i] - y[i] */
#define SUM_OF(name, term) \
static double name(__global const float *x, __global const float *y, ulong i, ulong end) \
{ \
	double way[WAYS], all = 0; \
\
	for (int w = 0; w < WAYS; w++) \
		way[w] = 0; \
	for (; i + WAYS <= end; i += WAYS) \
		for (int w = 0; w < WAYS; w++) { \
			ulong at = i + w; \
\
			way[w] += term; \
		} \
	for (; i < end; i++) { \
		ulong at = i; \
\
		all += term; \
	} \
	for (int w = 0; w < WAYS; w++) \
		all += way[w]; \
	return all; \
}

SUM_OF(sum_items, (double)x[at])
SUM_OF(sum_products, (double)x[at] * (double)y[at])
SUM_OF(sum_differences, (double)(x[at] - y[at]))

__kernel void arax_std_sum_f32(__global const float *x, ulong nx, __global double *sum, ulong ns,
			       uint n, __global int *result)
{
	__local double parts[PARTS];
	ulong me = arax_item(), used = taking_part();
	double all = 0;

	if (SHORT(nx, n) || ns < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	if (me < used)
		all = sum_items(x, x, PIECE(n, me, used), PIECE(n, me + 1, used));
	all = add_parts(parts, all);
	if (!me)
		sum[0] = all;
}

__kernel void arax_std_dot_f32(__global const float *x, ulong nx, __global const float *y, ulong ny,
			       __global double *dot, ulong nd, uint n, __global int *result)
{
	__local double parts[PARTS];
	ulong me = arax_item(), used = taking_part();
	double all = 0;

	if (SHORT(nx, n) || SHORT(ny, n) || nd < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	if (me < used)
		all = sum_products(x, y, PIECE(n, me, used), PIECE(n, me + 1, used));
	all = add_parts(parts, all);
	if (!me)
		dot[0] = all;
}

__kernel void arax_std_sum_diff(__global const float *x, ulong nx, __global const float *y,
				ulong ny,
				__global double *sum, ulong ns, uint n, __global int *result)
{
	__local double parts[PARTS];
	ulong me = arax_item(), used = taking_part();
	double all = 0;

	if (SHORT(nx, n) || SHORT(ny, n) || ns < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	if (me < used)
		all = sum_differences(x, y, PIECE(n, me, used), PIECE(n, me + 1, used));
	all = add_parts(parts, all);
	if (!me)
		sum[0] += all;
}

__kernel void arax_std_sum_f64(__global const double *x, ulong nx, __global double *sum, ulong ns,
			       uint n, __global int *result)
{
	__local double parts[PARTS];
	ulong me = arax_item(), used = taking_part();
	double all = 0;

	if (SHORT(nx, n) || ns < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	if (me < used)
		for (ulong i = PIECE(n, me, used); i < PIECE(n, me + 1, used); i++)
			all += x[i];
	all = add_parts(parts, all);
	if (!me)
		sum[0] = all;
}
#endif

/* The greatest of sign * x[i]; a NaN is never greater. */
static float extreme_of(__global const float *x, ulong i, ulong end, float sign)
{
	float best = -INFINITY;

	for (; i < end; i++) {
		float v = sign * x[i];

		best = v > best ? v : best;
	}
	return best;
}

static void extreme(__global const float *x, ulong nx, __global float *out, ulong nout, uint n,
		    float sign, __local float *parts, __global int *result)
{
	ulong me = arax_item(), used = taking_part();
	float best = -INFINITY;

	if (SHORT(nx, n) || nout < 1 || !n) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	if (me < used)
		parts[me] = extreme_of(x, PIECE(n, me, used), PIECE(n, me + 1, used), sign);
	barrier(CLK_LOCAL_MEM_FENCE);
	if (me)
		return;
	for (ulong i = 0; i < used; i++)
		best = parts[i] > best ? parts[i] : best;
	out[0] = sign * best;
}

__kernel void arax_std_max_f32(__global const float *x, ulong nx, __global float *out, ulong nout,
			       uint n, __global int *result)
{
	__local float parts[PARTS];

	extreme(x, nx, out, nout, n, 1, parts, result);
}

__kernel void arax_std_min_f32(__global const float *x, ulong nx, __global float *out, ulong nout,
			       uint n, __global int *result)
{
	__local float parts[PARTS];

	extreme(x, nx, out, nout, n, -1, parts, result);
}

/* By parts: each one by one work-item, so that no barrier is needed. */

#define PART(n, parts, p)	((ulong)(p) * (n) / (parts))

#ifdef cl_khr_fp64
__kernel void arax_std_sum_parts_f32(__global const float *x, ulong nx, __global double *part,
				     ulong npart, uint n, uint parts, __global int *result)
{
	if (!parts || SHORT(nx, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(p, parts)
		part[p] = sum_items(x, x, PART(n, parts, p), PART(n, parts, p + 1));
}

__kernel void arax_std_dot_parts_f32(__global const float *x, ulong nx, __global const float *y,
				     ulong ny, __global double *part, ulong npart, uint n,
				     uint parts,
				     __global int *result)
{
	if (!parts || SHORT(nx, n) || SHORT(ny, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(p, parts)
		part[p] = sum_products(x, y, PART(n, parts, p), PART(n, parts, p + 1));
}
#endif

__kernel void arax_std_sum_parts_u32(__global const uint *x, ulong nx, __global uint *part,
				     ulong npart, uint n, uint parts, __global int *result)
{
	if (!parts || SHORT(nx, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(p, parts) {
		uint sum = 0;

		for (ulong i = PART(n, parts, p); i < PART(n, parts, p + 1); i++)
			sum += x[i];
		part[p] = sum;
	}
}

__kernel void arax_std_max_parts_f32(__global const float *x, ulong nx, __global float *part,
				     ulong npart, uint n, uint parts, __global int *result)
{
	if (!parts || SHORT(nx, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(p, parts)
		part[p] = extreme_of(x, PART(n, parts, p), PART(n, parts, p + 1), 1);
}

__kernel void arax_std_min_parts_f32(__global const float *x, ulong nx, __global float *part,
				     ulong npart, uint n, uint parts, __global int *result)
{
	if (!parts || SHORT(nx, n) || SHORT(npart, parts)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(p, parts)
		part[p] = -extreme_of(x, PART(n, parts, p), PART(n, parts, p + 1), -1);
}
