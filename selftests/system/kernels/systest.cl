// SPDX-License-Identifier: MIT
/* Of systest.c's what is for OpenCL's devices, too; and mix.h's arithmetic, whose ranges are flat ones here. */

__kernel void st_add(__global uint *x, ulong n, uint value)
{
	ARAX_EACH(i, n)
		x[i] += value;
}

__kernel void st_fail(__global uint *x, ulong n, uint value, __global int *result)
{
	*result = -(int)value;
}

#define MIX_FAILS (1u << 24)	/* as in mix.h */

static ulong st_hash(ulong hash, __global const uchar *p, ulong n)
{
	for (ulong k = 0; k < n; k++)
		hash = (hash ^ p[k]) * 1099511628211UL;
	return hash;
}

/* By one work-item: each byte depends on those before it. */
__kernel void st_mix(__global const uchar *a, ulong na, __global uchar *b, ulong nb,
		     __global uchar *c, ulong nc, uint salt, __global int *result)
{
	ulong hash;

	if (arax_group() || arax_item())
		return;
	hash = st_hash(st_hash(14695981039346656037UL + salt, a, na), b, nb);
	for (ulong k = 0; k < nb; k++)
		if (hash >> k % 61 & 1)
			b[k] = (uchar)(3 * b[k] + (hash >> k % 8));
	for (ulong k = 0; k < nc; k++)
		c[k] = (uchar)((hash >> k % 56) + k);
	if (salt & MIX_FAILS)
		*result = -EIO;
}

__kernel void st_mix_groups(__global uchar *x, ulong n, uint salt, __global int *result)
{
	ulong end = n * (arax_group() + 1) / arax_groups();

	for (ulong k = n * arax_group() / arax_groups() + arax_item(); k < end; k += arax_items())
		x[k] = (uchar)(5 * x[k] + salt + k);
	if (salt & MIX_FAILS)
		*result = -EIO;
}
