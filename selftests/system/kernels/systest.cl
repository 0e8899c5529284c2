// SPDX-License-Identifier: MIT
/* Of systest.c's what is for OpenCL's devices, too. */

__kernel void st_add(__global uint *x, ulong n, uint value)
{
	ARAX_EACH(i, n)
		x[i] += value;
}

__kernel void st_fail(__global uint *x, ulong n, uint value, __global int *result)
{
	*result = -(int)value;
}
