// SPDX-License-Identifier: MIT
/* Of basic.c, what OpenCL C can do: it has no clock to spin by. */

__kernel void arax_std_null(__global const uchar *a, ulong na, __global uchar *b, ulong nb,
			    ulong x, ulong y)
{
}
