// SPDX-License-Identifier: MIT
/* nn.c in OpenCL C: the nearest of a chunk are found one after the other. */

__kernel void rodinia_nn_distance(__global const float *place, ulong nplace,
				  __global float *distance, ulong ndistance, uint n, float latitude,
				  float longitude, __global int *result)
{
	ulong i = get_global_id(0);
	float dx, dy;

	if (!n || nplace < 2 * (ulong)n || ndistance < n || !ro_row(n, RO_NN_ITEMS)) {
		*result = -EINVAL;
		return;
	}
	if (i >= n)
		return;
	dy = place[2 * i] - latitude;
	dx = place[2 * i + 1] - longitude;
	distance[i] = sqrt(dy * dy + dx * dx);
}

__kernel void rodinia_nn_nearest(__global const float *distance, ulong ndistance,
				 __global uint *index, ulong nindex, __global float *best,
				 ulong nbest, uint n, uint most, __global int *result)
{
	__local float left[RO_NN_CHUNK], part[RO_NN_ITEMS];
	__local uint where[RO_NN_ITEMS];
	ulong chunks = RO_GROUPS((ulong)n, RO_NN_CHUNK), g = get_group_id(0);
	uint me = get_local_id(0), first = g * RO_NN_CHUNK;

	if (!n || !most || most > RO_NN_MOST || ndistance < n || nindex < chunks * most ||
	    nbest < chunks * most || !ro_geometry(chunks, 1, 1, RO_NN_ITEMS, 1, 1)) {
		*result = -EINVAL;
		return;
	}
	for (uint i = me; i < RO_NN_CHUNK; i += RO_NN_ITEMS)
		left[i] = first + i < n ? distance[first + i] : INFINITY;
	for (uint k = 0; k < most; k++) {
		float d = INFINITY;
		uint at = RO_NN_CHUNK;

		barrier(CLK_LOCAL_MEM_FENCE);
		for (uint i = me; i < RO_NN_CHUNK; i += RO_NN_ITEMS)
			if (left[i] < d) {
				d = left[i];
				at = i;
			}
		part[me] = d;
		where[me] = at;
		for (uint step = RO_NN_ITEMS / 2; step; step /= 2) {
			barrier(CLK_LOCAL_MEM_FENCE);
			if (me < step && (part[me + step] < part[me] ||
					  (part[me + step] == part[me] &&
					   where[me + step] < where[me]))) {
				part[me] = part[me + step];
				where[me] = where[me + step];
			}
		}
		barrier(CLK_LOCAL_MEM_FENCE);
		if (!me) {
			best[g * most + k] = part[0];
			index[g * most + k] = where[0] < RO_NN_CHUNK ? first + where[0] : ~0u;
			if (where[0] < RO_NN_CHUNK)
				left[where[0]] = INFINITY;
		}
	}
}
