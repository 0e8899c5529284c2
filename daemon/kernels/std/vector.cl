// SPDX-License-Identifier: MIT
/*
 * vector.c in OpenCL C.  Sums are of the same values in another order, all else
 * is the same arithmetic: no contraction (see the prelude).
 */

#define SHORT(items, n) ((ulong)(n) > (items))

__kernel void arax_std_vadd(__global const float *a, ulong na, __global const float *b, ulong nb,
			    __global float *c, ulong nc, uint n, __global int *result)
{
	if (SHORT(na, n) || SHORT(nb, n) || SHORT(nc, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		c[i] = a[i] + b[i];
}

__kernel void arax_std_saxpy(__global const float *x, ulong nx, __global float *y, ulong ny,
			     float a, uint n, __global int *result)
{
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] += a * x[i];
}

__kernel void arax_std_triad(__global const float *b, ulong nb, __global const float *c, ulong nc,
			     __global float *a, ulong na, float s, uint n, __global int *result)
{
	if (SHORT(na, n) || SHORT(nb, n) || SHORT(nc, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		a[i] = b[i] + s * c[i];
}

__kernel void arax_std_square(__global const float *x, ulong nx, __global float *y, ulong ny,
			      uint n, __global int *result)
{
	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] = x[i] * x[i];
}

/*
 * Reductions: one work-group does it, whatever the grid, with at most PARTS of its
 * work-items; the first of them puts the parts together.
 */
#define PARTS	256
#define WAYS	8	/* independent sums of each, so that the loop vectorises */

#ifdef cl_khr_fp64
__kernel void arax_std_sum_f32(__global const float *x, ulong nx, __global double *sum, ulong ns,
			       uint n, __global int *result)
{
	__local double parts[PARTS];
	ulong me = arax_item(), used = min(arax_items(), (ulong)PARTS), i;
	double way[WAYS], all = 0;

	if (SHORT(nx, n) || ns < 1) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	if (me < used) {
		ulong end = (me + 1) * n / used;

		for (int w = 0; w < WAYS; w++)
			way[w] = 0;
		for (i = me * n / used; i + WAYS <= end; i += WAYS)
			for (int w = 0; w < WAYS; w++)
				way[w] += x[i + w];
		for (; i < end; i++)
			all += x[i];
		for (int w = 0; w < WAYS; w++)
			all += way[w];
		parts[me] = all;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	if (me)
		return;
	for (i = 1; i < used; i++)
		all += parts[i];
	sum[0] = all;
}
#endif

/* The greatest of sign * x[i]; a NaN is never greater. */
static void extreme(__global const float *x, ulong nx, __global float *out, ulong nout, uint n,
		    float sign, __local float *parts, __global int *result)
{
	ulong me = arax_item(), used = min(arax_items(), (ulong)PARTS), i;
	float best = -INFINITY;

	if (SHORT(nx, n) || nout < 1 || !n) {
		*result = -EINVAL;
		return;
	}
	if (arax_group())
		return;
	if (me < used) {
		ulong end = (me + 1) * n / used;

		for (i = me * n / used; i < end; i++) {
			float v = sign * x[i];

			best = v > best ? v : best;
		}
		parts[me] = best;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	if (me)
		return;
	for (i = 1; i < used; i++)
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
