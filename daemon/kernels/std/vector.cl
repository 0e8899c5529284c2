// SPDX-License-Identifier: MIT
/*
 * vector.c in OpenCL C: the same arithmetic, without contraction (see the prelude).
 */

#define SHORT(items, n) ((ulong)(n) > (items))

/*
 * An f32 sum that has grown large loses more of each term.  So of a long one runs of terms are
 * added up in f32, which GPUs are quick at, and what comes of them in this.
 */
#define RUN	128u
#ifdef cl_khr_fp64
typedef double long_sum;
#else
typedef float long_sum;
#endif

/* a * b * c * d into *n; false if that is more than `most`. */
static bool product(ulong a, ulong b, ulong c, ulong d, ulong most, ulong *n)
{
	*n = a;
	if (!a || !b || !c || !d) {
		*n = 0;
		return true;
	}
	if (*n > most / b)
		return false;
	*n *= b;
	if (*n > most / c)
		return false;
	*n *= c;
	if (*n > most / d)
		return false;
	*n *= d;
	return true;
}

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

#ifdef cl_khr_fp64
__kernel void arax_std_divide(__global const float *x, ulong nx, __global const double *by,
			      ulong nby, __global float *y, ulong ny, uint n, __global int *result)
{
	if (SHORT(nx, n) || nby < 1 || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	double s = 1 / by[0];

	ARAX_EACH(i, n)
		y[i] = (float)(x[i] * s);
}
#endif
