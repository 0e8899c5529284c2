// SPDX-License-Identifier: MIT
/* cluster.c in OpenCL C. */

static float distance_run(__global const float *a, __global const float *b, ulong dims)
{
	float sum = 0;

	for (ulong d = 0; d < dims; d++) {
		float apart = a[d] - b[d];

		sum += apart * apart;
	}
	return sum;
}

static float distance_of(__global const float *a, __global const float *b, ulong dims)
{
	long_sum sum = 0;

	if (dims <= RUN)
		return distance_run(a, b, dims);
	for (ulong d = 0; d < dims; d += RUN)
		sum += distance_run(a + d, b + d, min(dims - d, (ulong)RUN));
	return (float)sum;
}

__kernel void arax_std_distances_f32(__global const float *a, ulong na, __global const float *b,
				     ulong nb, __global float *dist, ulong ndist, uint rows_a,
				     uint rows_b, uint dims, __global int *result)
{
	ulong n = (ulong)rows_a * rows_b;

	if (SHORT(na, (ulong)rows_a * dims) || SHORT(nb, (ulong)rows_b * dims) || SHORT(ndist, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		dist[i] = distance_of(a + i / rows_b * dims, b + i % rows_b * dims, dims);
}

__kernel void arax_std_kmeans_assign(__global const float *x, ulong nx,
				     __global const float *center,
				     ulong ncenter, __global uint *label, ulong nlabel, uint n,
				     uint dims, uint k, __global int *result)
{
	if (!k || !dims || SHORT(nx, (ulong)n * dims) || SHORT(ncenter, (ulong)k * dims) ||
	    SHORT(nlabel, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n) {
		float best = INFINITY;
		uint at = 0;

		for (uint c = 0; c < k; c++) {
			float d = distance_of(x + i * dims, center + (ulong)c * dims, dims);

			if (d < best) {
				best = d;
				at = c;
			}
		}
		label[i] = at;
	}
}

#ifdef cl_khr_fp64
/* One number of one center a work-item; it looks at all labels, so no label leads anywhere. */
__kernel void arax_std_kmeans_update(__global const float *x, ulong nx, __global const uint *label,
				     ulong nlabel, __global float *center, ulong ncenter, uint n,
				     uint dims, uint k, __global int *result)
{
	ulong items = (ulong)k * dims;

	if (!k || !dims || SHORT(nx, (ulong)n * dims) || SHORT(nlabel, n) ||
	    SHORT(ncenter, items)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, items) {
		ulong c = i / dims, d = i % dims;
		double sum = 0;
		uint count = 0;

		for (ulong p = 0; p < n; p++)
			if (label[p] == c) {
				sum += x[p * dims + d];
				count++;
			}
		if (count)
			center[i] = (float)(sum / count);
	}
}
#endif
