// SPDX-License-Identifier: MIT
/* hotspot3d.c in OpenCL C. */

__kernel void rodinia_hotspot3d(__global const float *power, ulong npower,
				__global const float *from, ulong nfrom, __global float *to,
				ulong nto, uint nx, uint ny, uint nz, float mid, float wx, float wy,
				float wz, float per_power, float ambient, __global int *result)
{
	ulong x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
	ulong row = nx, plane = row * ny, cells = plane * nz, i;

	if (!nx || !ny || !nz || nx > 1u << 16 || ny > 1u << 16 || nz > 1u << 16 ||
	    npower < cells || nfrom < cells || nto < cells ||
	    !ro_geometry(RO_GROUPS(nx, RO_HOT3_X), RO_GROUPS(ny, RO_HOT3_Y),
			 RO_GROUPS(nz, RO_HOT3_Z), RO_HOT3_X, RO_HOT3_Y, RO_HOT3_Z)) {
		*result = -EINVAL;
		return;
	}
	if (x >= nx || y >= ny || z >= nz)
		return;
	i = z * plane + y * row + x;
	to[i] = from[i] * mid + from[y ? i - row : i] * wy + from[y + 1 < ny ? i + row : i] * wy +
		from[x + 1 < nx ? i + 1 : i] * wx + from[x ? i - 1 : i] * wx +
		from[z + 1 < nz ? i + plane : i] * wz + from[z ? i - plane : i] * wz +
		per_power * power[i] + ambient;
}
