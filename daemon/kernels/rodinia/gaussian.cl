// SPDX-License-Identifier: MIT
/* gaussian.c in OpenCL C. */

static int gauss_usable(uint n, uint k)
{
	return n && n <= 1u << 16 && k < n - 1;
}

__kernel void rodinia_gauss_column(__global const float *m, ulong nm, __global float *factor,
				   ulong nfactor, uint n, uint k, __global int *result)
{
	ulong i = k + 1 + get_global_id(0);

	if (!gauss_usable(n, k) || nm < (ulong)n * n || nfactor < n ||
	    !ro_row(n - k - 1, RO_GAUSS_ITEMS)) {
		*result = -EINVAL;
		return;
	}
	if (i < n)
		factor[i] = m[i * n + k] / m[(ulong)k * n + k];
}

__kernel void rodinia_gauss_rows(__global const float *factor, ulong nfactor, __global float *m,
				 ulong nm, __global float *b, ulong nb, uint n, uint k,
				 __global int *result)
{
	ulong j = k + get_global_id(0), i = k + 1 + get_global_id(1);

	if (!gauss_usable(n, k) || nm < (ulong)n * n || nfactor < n || nb < n ||
	    !ro_geometry(RO_GROUPS(n - k, RO_GAUSS_X), RO_GROUPS(n - k - 1, RO_GAUSS_Y), 1,
			 RO_GAUSS_X, RO_GAUSS_Y, 1)) {
		*result = -EINVAL;
		return;
	}
	if (i >= n || j >= n)
		return;
	m[i * n + j] -= factor[i] * m[(ulong)k * n + j];
	if (j == k)
		b[i] -= factor[i] * b[k];
}
