// SPDX-License-Identifier: MIT
/*
 * Counting.  Which bin is counted up comes from an item's contents, but can't lie outside:
 * a byte has a bin for each of its values, and a bin's number is made from one reading of
 * the item, in registers, and cut to what there is.
 */
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/std/std.h"

int arax_std_histogram_u8(const struct arax_launch *l);
int arax_std_histogram_f32(const struct arax_launch *l);

#define BYTES	256u
#define WAYS	4u	/* tables that take turns: equal neighbours don't wait for each other */
#define BATCH	256u
#define MAX_BINS 65536u

/* histogram_u8(in u8 x[], out u32 bin[], u32 n): bin[v] = how many are v, of 256 */
ARAX_KERNEL int arax_std_histogram_u8(const struct arax_launch *l)
{
	uint32_t count[WAYS][BYTES] = { { 0 } };
	const uint8_t *x;
	uint64_t n, i = 0;
	uint32_t *bin;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, uint8_t);
	bin = ARAX_ITEMS(l, 1, BYTES, uint32_t);
	if (!x || !bin)
		return -EINVAL;
	for (; i + WAYS <= n; i += WAYS)
		for (uint64_t w = 0; w < WAYS; w++)
			count[w][x[i + w]]++;
	for (; i < n; i++)
		count[0][x[i]]++;
	for (i = 0; i < BYTES; i++)
		bin[i] = count[0][i] + count[1][i] + count[2][i] + count[3][i];
	return 0;
}

struct histogram_args {
	float low, high;
	uint32_t n, bins;
};

/* Numbers of the bins of up to BATCH items; of what is in none, `bins`. */
STD_CLONES
static void classify(uint32_t *to, const float *x, uint64_t n, const struct histogram_args *a)
{
	float low = a->low, high = a->high, scale = (float)a->bins / (high - low);
	int32_t last = (int32_t)a->bins - 1;

	for (uint64_t i = 0; i < n; i++) {
		float v = x[i];
		bool inside = v >= low && v < high;
		int32_t at = (int32_t)((inside ? v - low : 0) * scale);

		at = at < last ? at : last;	/* rounding up near the end */
		to[i] = inside ? (uint32_t)at : a->bins;
	}
}

/*
 * histogram_f32(in f32 x[], out u32 bin[], f32 low, f32 high, u32 n, u32 bins):
 * bin[i] = how many of x lie in the i-th of `bins` (at most 65,536) equal parts of low..high,
 * high itself not included: (x - low) * (bins / (high - low)), rounded down, all in f32
 */
ARAX_KERNEL int arax_std_histogram_f32(const struct arax_launch *l)
{
	uint32_t *bin, *count, at[BATCH];
	struct histogram_args a;
	const float *x;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.bins || a.bins > MAX_BINS ||
	    !(a.low < a.high) || a.high - a.low > __FLT_MAX__ ||
	    (float)a.bins / (a.high - a.low) > __FLT_MAX__)
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, a.n, float);
	bin = ARAX_ITEMS(l, 1, a.bins, uint32_t);
	if (!x || !bin)
		return -EINVAL;
	count = std_scratch_zeros(a.bins + 1, sizeof(*count));
	if (!count)
		return -ENOMEM;
	for (uint64_t i = 0; i < a.n; i += BATCH) {
		uint64_t some = a.n - i < BATCH ? a.n - i : BATCH;

		classify(at, x + i, some, &a);
		std_settled(at);
		for (uint64_t k = 0; k < some; k++)
			count[at[k]]++;
	}
	memcpy(bin, count, a.bins * sizeof(*bin));
	std_scratch_free(count);
	return 0;
}
