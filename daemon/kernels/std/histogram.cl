// SPDX-License-Identifier: MIT
/*
 * histogram.c in OpenCL C.  A group counts its own share of the bins, of all items: so no
 * group needs to wait for another to have cleared them, and more of them than it takes to have
 * all bins at once would but read the items once more each.
 */

#define BINS_AT_ONCE	1024u	/* that a group counts in its local memory */
#define MAX_BINS	65536u
#define MAX_GROUPS	(MAX_BINS / BINS_AT_ONCE)	/* that have bins, whatever the grid is */

/* Count, in bins first .. first + nr - 1, with `at` the bin of item i or one beyond. */
#define COUNT_BINS(n, bins, at) \
	__local uint count[BINS_AT_ONCE]; \
	ulong groups = min(arax_groups(), (ulong)MAX_GROUPS), me = min(arax_group(), groups); \
	ulong end = PIECE(bins, min(me + 1, groups), groups); \
\
	for (ulong first = PIECE(bins, me, groups); first < end; first += BINS_AT_ONCE) { \
		uint nr = (uint)min((ulong)BINS_AT_ONCE, end - first); \
\
		for (uint b = arax_item(); b < nr; b += arax_items()) \
			count[b] = 0; \
		barrier(CLK_LOCAL_MEM_FENCE); \
		for (ulong i = arax_item(); i < (n); i += arax_items()) { \
			ulong b = (at) - first; \
\
			if (b < nr) \
				atomic_inc(&count[b]); \
		} \
		barrier(CLK_LOCAL_MEM_FENCE); \
		for (uint b = arax_item(); b < nr; b += arax_items()) \
			bin[first + b] = count[b]; \
		barrier(CLK_LOCAL_MEM_FENCE); \
	}

__kernel void arax_std_histogram_u8(__global const uchar *x, ulong nx, __global uint *bin,
				    ulong nbin, uint n, __global int *result)
{
	if (SHORT(nx, n) || nbin < 256) {
		*result = -EINVAL;
		return;
	}
	COUNT_BINS(n, 256, (ulong)x[i])
}

static ulong bin_of(float v, float low, float high, float scale, uint bins)
{
	if (!(v >= low && v < high))
		return bins;
	return min((ulong)((v - low) * scale), (ulong)bins - 1);
}

/*
 * As IEEE 754 rounds it, which is what the CPU does: OpenCL lets a device be 2.5 units off, which
 * moves what lies at a bin's end to its neighbour.  A quotient of doubles is of no help: compilers
 * know that rounded to float it is as good as one of floats, and make it that.
 */
static float bins_per_unit(uint bins, float width)
{
	float q = (float)bins / width;

	/* By what is left, which is exact. */
	return q > FLT_MAX ? q : q + fma(-q, width, (float)bins) / width;
}

__kernel void arax_std_histogram_f32(__global const float *x, ulong nx, __global uint *bin,
				     ulong nbin, float low, float high, uint n, uint bins,
				     __global int *result)
{
	float scale = bins_per_unit(bins, high - low);

	if (!bins || bins > MAX_BINS || !(low < high) || high - low > FLT_MAX ||
	    scale > FLT_MAX || SHORT(nx, n) || SHORT(nbin, bins)) {
		*result = -EINVAL;
		return;
	}
	COUNT_BINS(n, bins, bin_of(x[i], low, high, scale, bins))
}
