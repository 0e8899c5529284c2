// SPDX-License-Identifier: MIT
/* montecarlo.c for OpenCL devices: one sum for each work-group. */

/* splitmix64 (Steele, Lea, Flood 2014): a counter-based generator. */
static ulong mix64(ulong x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

__kernel void mc_pi(__global ulong *hits, ulong nhits, uint samples, uint seed,
		    __global int *result)
{
	ulong g = arax_group(), n = 0;

	if (nhits < arax_groups()) {
		*result = -EINVAL;
		return;
	}
	if (arax_item())
		return;
	for (uint i = 0; i < samples; i++) {
		ulong r = mix64((ulong)seed << 48 ^ g << 32 ^ i);
		double x = (double)(r >> 32) / 4294967296.0;
		double y = (double)(uint)r / 4294967296.0;

		n += x * x + y * y < 1.0;
	}
	hits[g] = n;
}
