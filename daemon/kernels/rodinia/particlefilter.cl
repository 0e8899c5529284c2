// SPDX-License-Identifier: MIT
/* particlefilter.c in OpenCL C: groups add up as trees in local memory. */

static ulong pf_random(uint seed, uint frame, uint i, uint which)
{
	ulong x = (((ulong)seed << 32 ^ frame) * 0x9e3779b97f4a7c15ul) ^ ((ulong)which << 32 | i);

	x += 0x9e3779b97f4a7c15ul;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ul;
	x = (x ^ x >> 27) * 0x94d049bb133111ebul;
	return x ^ x >> 31;
}

static float pf_normal(ulong bits)
{
	int sum = (int)(bits & 0xffff) + (int)(bits >> 16 & 0xffff) +
		  (int)(bits >> 32 & 0xffff) + (int)(bits >> 48);

	return (float)(sum - 131070) * 2.642903e-05f;
}

static int pf_pixel(float at, uint size)
{
	float last = (float)(size - 1);

	at = at > 0 ? at : 0;
	at = at < last ? at : last;
	return (int)(at + 0.5f);
}

static float pf_likeness(__global const uchar *frame, uint width, uint height, float x, float y)
{
	int px = pf_pixel(x, width), py = pf_pixel(y, height), sum = 0, count = 0;

	for (int dy = 1 - RO_PF_RADIUS; dy < RO_PF_RADIUS; dy++) {
		__global const uchar *row = frame + (ulong)clamp(py + dy, 0, (int)height - 1) * width;

		for (int dx = 1 - RO_PF_RADIUS; dx < RO_PF_RADIUS; dx++) {
			if (dx * dx + dy * dy >= RO_PF_RADIUS * RO_PF_RADIUS)
				continue;
			sum += row[clamp(px + dx, 0, (int)width - 1)];
			count++;
		}
	}
	return (float)(256 * sum - 41984 * count) / (float)(50 * count);
}

__kernel void rodinia_pf_move(__global const uchar *frame, ulong nframe, __global float *x, ulong nx,
			      __global float *y, ulong ny, __global float *like, ulong nlike,
			      __global float *most, ulong nmost, uint n, uint width, uint height,
			      uint seed, uint number, __global int *result)
{
	__local float best[RO_PF_ITEMS];
	uint i = get_global_id(0), me = get_local_id(0);

	if (!n || !width || !height || width > 1u << 14 || height > 1u << 14 ||
	    nframe < (ulong)width * height || nx < n || ny < n || nlike < n ||
	    nmost < RO_GROUPS((ulong)n, RO_PF_ITEMS) || !ro_row(n, RO_PF_ITEMS)) {
		*result = -EINVAL;
		return;
	}
	best[me] = -INFINITY;
	if (i < n) {
		float px = ((volatile __global float *)x)[i] +
			   (1 + 5 * pf_normal(pf_random(seed, number, i, 0)));
		float py = ((volatile __global float *)y)[i] +
			   (-2 + 2 * pf_normal(pf_random(seed, number, i, 1)));

		x[i] = px;
		y[i] = py;
		best[me] = pf_likeness(frame, width, height, px, py);
		like[i] = best[me];
	}
	for (uint step = RO_PF_ITEMS / 2; step; step /= 2) {
		barrier(CLK_LOCAL_MEM_FENCE);
		if (me < step)
			best[me] = max(best[me], best[me + step]);
	}
	if (!me)
		most[get_group_id(0)] = best[0];
}

__kernel void rodinia_pf_weigh(__global const float *most, ulong nmost, __global const float *like,
			       ulong nlike, __global const float *x, ulong nx,
			       __global const float *y, ulong ny, __global float *running,
			       ulong nrunning, __global float *sums, ulong nsums, uint n,
			       __global int *result)
{
	__local float w[2][RO_PF_ITEMS], wx[RO_PF_ITEMS], wy[RO_PF_ITEMS];
	ulong groups = RO_GROUPS((ulong)n, RO_PF_ITEMS), g = get_group_id(0);
	uint i = get_global_id(0), me = get_local_id(0), now = 0;
	float best = -INFINITY, weight = 0;

	if (!n || nmost < groups || nlike < n || nx < n || ny < n || nrunning < n ||
	    nsums < 3 * groups || !ro_row(n, RO_PF_ITEMS)) {
		*result = -EINVAL;
		return;
	}
	/* Of all groups: each work-item looks at some of them. */
	for (ulong k = me; k < groups; k += RO_PF_ITEMS)
		best = max(best, most[k]);
	wx[me] = best;
	for (uint step = RO_PF_ITEMS / 2; step; step /= 2) {
		barrier(CLK_LOCAL_MEM_FENCE);
		if (me < step)
			wx[me] = max(wx[me], wx[me + step]);
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	best = wx[0];
	barrier(CLK_LOCAL_MEM_FENCE);
	if (i < n)
		weight = exp(like[i] - best);
	w[0][me] = weight;
	wx[me] = i < n ? weight * x[i] : 0;
	wy[me] = i < n ? weight * y[i] : 0;
	/* Running sums: of 2, 4, 8 ... work-items. */
	for (uint far = 1; far < RO_PF_ITEMS; far *= 2) {
		barrier(CLK_LOCAL_MEM_FENCE);
		w[!now][me] = w[now][me] + (me >= far ? w[now][me - far] : 0);
		now = !now;
	}
	for (uint step = RO_PF_ITEMS / 2; step; step /= 2) {
		barrier(CLK_LOCAL_MEM_FENCE);
		if (me < step) {
			wx[me] += wx[me + step];
			wy[me] += wy[me + step];
		}
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	if (i < n)
		running[i] = w[now][me];
	if (!me) {
		sums[g] = w[now][RO_PF_ITEMS - 1];
		sums[groups + g] = wx[0];
		sums[2 * groups + g] = wy[0];
	}
}

/* One work-item: a sum for each group is little. */
__kernel void rodinia_pf_total(__global const float *sums, ulong nsums, __global float *before,
			       ulong nbefore, __global float *estimate, ulong nestimate, uint n,
			       __global int *result)
{
	ulong groups = RO_GROUPS((ulong)n, RO_PF_ITEMS);
	float sum = 0, sum_x = 0, sum_y = 0;

	if (!n || nsums < 3 * groups || nbefore < groups + 1 || nestimate < 2 || !ro_row(1, 1)) {
		*result = -EINVAL;
		return;
	}
	for (ulong g = 0; g < groups; g++) {
		before[g] = sum;
		sum += sums[g];
		sum_x += sums[groups + g];
		sum_y += sums[2 * groups + g];
	}
	before[groups] = sum;
	estimate[0] = sum_x / sum;
	estimate[1] = sum_y / sum;
}

__kernel void rodinia_pf_resample(__global const float *before, ulong nbefore,
				  __global const float *running, ulong nrunning,
				  __global const float *x, ulong nx, __global const float *y, ulong ny,
				  __global float *x2, ulong nx2, __global float *y2, ulong ny2, uint n,
				  uint seed, uint number, __global int *result)
{
	ulong groups = RO_GROUPS((ulong)n, RO_PF_ITEMS), low = 0, high = groups - 1, from;
	uint j = get_global_id(0);
	float at;

	if (!n || nbefore < groups + 1 || nrunning < n || nx < n || ny < n || nx2 < n || ny2 < n ||
	    !ro_row(n, RO_PF_ITEMS)) {
		*result = -EINVAL;
		return;
	}
	if (j >= n)
		return;
	at = ((float)j + (float)(pf_random(seed, number, 0, 2) >> 40) * 0x1p-24f) / (float)n *
	     before[groups];
	/* The last group that begins until there, and in it the first sum beyond. */
	while (low < high) {
		ulong mid = low + (high - low + 1) / 2;

		if (before[mid] <= at)
			low = mid;
		else
			high = mid - 1;
	}
	from = low;
	at -= before[from];
	low *= RO_PF_ITEMS;
	high = min(low + RO_PF_ITEMS, (ulong)n) - 1;
	while (low < high) {
		ulong mid = low + (high - low) / 2;

		if (running[mid] > at)
			high = mid;
		else
			low = mid + 1;
	}
	x2[j] = x[low];
	y2[j] = y[low];
}
