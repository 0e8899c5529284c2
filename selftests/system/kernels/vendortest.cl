// SPDX-License-Identifier: MIT
/* In place of stream_fn.c's function, and told from it by what it writes. */

__kernel void vt_fill(__global int *x, ulong nx, int value, int mode, uint n)
{
	ARAX_EACH(i, min((ulong)n, nx))
		x[i] = value + 1000000;
}
