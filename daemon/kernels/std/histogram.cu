// SPDX-License-Identifier: MIT
/*
 * histogram.c for GPUs.  A block counts its own share of the bins, of all items: so no block needs
 * to wait for another to have cleared them, and more of them than it takes to have all bins at once
 * would but read the items once more each.
 */
#include "std_gpu.h"

#define BINS_AT_ONCE	1024u	/* that a block counts in its shared memory */
#define MAX_BINS	65536u
#define MAX_BLOCKS	(MAX_BINS / BINS_AT_ONCE)	/* that have bins, whatever the grid is */
#define READ_AHEAD	8u	/* items of a thread, so that it waits for memory once for all of them */
#define GREATEST	3.402823466e+38f

/* @at(i) is the bin of item i, by one reading of it, or one beyond.  All threads of a block call it. */
template <typename F>
static __device__ void count_bins(uint64_t n, uint32_t *bin, uint64_t bins, F at, uint32_t *count)
{
	const uint64_t blocks = arax_groups() < MAX_BLOCKS ? arax_groups() : MAX_BLOCKS;
	const uint64_t me = arax_group() < blocks ? arax_group() : blocks;
	const uint64_t end = PART(bins, blocks, me < blocks ? me + 1 : blocks);

	for (uint64_t first = PART(bins, blocks, me); first < end; first += BINS_AT_ONCE) {
		uint64_t nr = end - first < BINS_AT_ONCE ? end - first : BINS_AT_ONCE;

		for (uint64_t b = arax_item(); b < nr; b += arax_items())
			count[b] = 0;
		__syncthreads();
		for (uint64_t i = arax_item(); i < n; i += READ_AHEAD * arax_items()) {
			uint64_t b[READ_AHEAD];

			for (uint32_t k = 0; k < READ_AHEAD; k++)
				b[k] = i + k * arax_items() < n ? at(i + k * arax_items()) - first : nr;
			for (uint32_t k = 0; k < READ_AHEAD; k++)
				if (b[k] < nr)
					atomicAdd(&count[b[k]], 1u);
		}
		__syncthreads();
		for (uint64_t b = arax_item(); b < nr; b += arax_items())
			bin[first + b] = count[b];
		__syncthreads();
	}
}

struct bin_of_byte {
	const uint8_t *x;

	__device__ uint64_t operator()(uint64_t i) const
	{
		return once(x + i);
	}
};

ARAX_GPU_KERNEL arax_std_histogram_u8(const uint8_t *x, uint64_t nx, uint32_t *bin, uint64_t nbin,
				      uint32_t n, arax_gpu_result result)
{
	__shared__ uint32_t count[BINS_AT_ONCE];

	if (result.canceled())
		return;
	if (SHORT(nx, n) || nbin < 256) {
		*result = -EINVAL;
		return;
	}
	count_bins(n, bin, 256, bin_of_byte{ x }, count);
}

struct bin_of_float {
	const float *x;
	float low, high, scale;
	uint32_t bins;

	__device__ uint64_t operator()(uint64_t i) const
	{
		float v = once(x + i);
		uint64_t b;

		if (!(v >= low && v < high))
			return bins;
		b = (uint64_t)((v - low) * scale);
		return b < bins ? b : bins - 1;
	}
};

ARAX_GPU_KERNEL arax_std_histogram_f32(const float *x, uint64_t nx, uint32_t *bin, uint64_t nbin,
				       float low, float high, uint32_t n, uint32_t bins,
				       arax_gpu_result result)
{
	__shared__ uint32_t count[BINS_AT_ONCE];
	float scale = (float)bins / (high - low);

	if (result.canceled())
		return;
	if (!bins || bins > MAX_BINS || !(low < high) || high - low > GREATEST || scale > GREATEST ||
	    SHORT(nx, n) || SHORT(nbin, bins)) {
		*result = -EINVAL;
		return;
	}
	count_bins(n, bin, bins, bin_of_float{ x, low, high, scale, bins }, count);
}
