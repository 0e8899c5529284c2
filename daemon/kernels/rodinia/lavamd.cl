// SPDX-License-Identifier: MIT
/* lavamd.c in OpenCL C: a box's neighbours pass through local memory one by one. */

__kernel void rodinia_lavamd(__global const float *at, ulong nat, __global const float *charge,
			     ulong ncharge, __global float *force, ulong nforce, uint boxes,
			     uint particles, uint plane, float alpha, __global int *result)
{
	__local float4 near_at[RO_LAVA_ITEMS];
	__local float near_charge[RO_LAVA_ITEMS];
	ulong n = (ulong)boxes * boxes * particles;
	int b = boxes, bx = get_group_id(0), by = get_group_id(1), bz = plane;
	int first = bz ? bz - 1 : 0, planes = min(bz + 2, b) - first;
	uint i = get_local_id(0);
	float a2 = 2 * alpha * alpha;
	float4 home = 0, sum = 0;

	if (!boxes || boxes > 1024 || !particles || particles > RO_LAVA_ITEMS || plane >= boxes ||
	    nat < 4 * n * planes || ncharge < n * planes || nforce < 4 * n ||
	    !ro_geometry(boxes, boxes, 1, RO_LAVA_ITEMS, 1, 1)) {
		*result = -EINVAL;
		return;
	}
	if (i < particles)
		home = vload4((((ulong)(bz - first) * b + by) * b + bx) * particles + i, at);
	for (int z = first; z < first + planes; z++)
		for (int y = max(by - 1, 0); y < min(by + 2, b); y++)
			for (int x = max(bx - 1, 0); x < min(bx + 2, b); x++) {
				ulong p = (((ulong)(z - first) * b + y) * b + x) * particles;

				if (i < particles) {
					near_at[i] = vload4(p + i, at);
					near_charge[i] = charge[p + i];
				}
				barrier(CLK_LOCAL_MEM_FENCE);
				for (uint j = 0; j < particles && i < particles; j++) {
					float4 o = near_at[j];
					float dot = home.y * o.y + home.z * o.z + home.w * o.w;
					float vij = exp(-a2 * (home.x + o.x - dot));
					float fs = 2 * vij, q = near_charge[j];

					sum.x += q * vij;
					sum.y += q * (fs * (home.y - o.y));
					sum.z += q * (fs * (home.z - o.z));
					sum.w += q * (fs * (home.w - o.w));
				}
				barrier(CLK_LOCAL_MEM_FENCE);
			}
	if (i < particles)
		vstore4(sum, ((ulong)by * b + bx) * particles + i, force);
}
