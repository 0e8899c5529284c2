// SPDX-License-Identifier: MIT
/* Histograms: a block counts for itself, then adds to what all have.  See passes.cu. */

#define COUNT_AHEAD	8u	/* items that a thread reads at once */

PASS_KERNEL arax_pass_clear(uint32_t *bin, uint32_t bins, arax_gpu_result result)
{
	if (result.canceled())
		return;
	for (uint64_t b = arax_group() * threads() + thread(); b < bins; b += arax_groups() * threads())
		bin[b] = 0;
}

/*
 * Bins @first .. @first + @nr - 1 of shared memory's, in as many copies as fit: a warp that meets
 * one value only then waits for none but its own.
 */
struct counts {
	uint32_t *room;
	uint64_t first;
	uint32_t nr, copies;
};

static __device__ inline counts no_counts(uint32_t *room, uint64_t first, uint32_t nr)
{
	counts c = { room, first, nr, COUNT_ROOM / nr };

	if (c.copies > COUNT_COPIES)
		c.copies = COUNT_COPIES;
	for (uint32_t i = thread(); i < nr * c.copies; i += threads())
		room[i] = 0;
	__syncthreads();
	return c;
}

static __device__ inline uint32_t *copy_of(const counts &c)
{
	return c.room + (uint64_t)(thread() / 32 % c.copies) * c.nr;
}

static __device__ inline void add_counts(const counts &c, uint32_t *bin)
{
	__syncthreads();
	for (uint32_t b = thread(); b < c.nr; b += threads()) {
		uint32_t all = 0;

		for (uint32_t k = 0; k < c.copies; k++)
			all += c.room[(uint64_t)k * c.nr + b];
		if (all)
			atomicAdd(&bin[c.first + b], all);
	}
}

/* By words, where these are aligned: any byte has a bin. */
PASS_KERNEL arax_pass_count_u8(const uint8_t *x, uint32_t *bin, uint32_t n, arax_gpu_result result)
{
	__shared__ uint32_t room[256 * COUNT_COPIES];
	const counts c = no_counts(room, 0, 256);
	const uint64_t me = arax_group() * threads() + thread(), step = arax_groups() * threads();
	const uint64_t head = before_aligned(x, n), nr = (n - head) / WIDE, tail = head + nr * WIDE;
	const wide<uint32_t> *w = (const wide<uint32_t> *)(x + head);
	uint32_t *count = copy_of(c);

	if (result.canceled())
		return;
	for (uint64_t i = me; i < nr; i += 2 * step) {
		wide<uint32_t> v[2];
		const uint32_t both = i + step < nr ? 2 : 1;

		v[0] = w[i];
		if (both > 1)
			v[1] = w[i + step];
		for (uint32_t a = 0; a < 2; a++)
			for (uint32_t k = 0; a < both && k < WIDE / 4; k++)
				for (uint32_t b = 0; b < 32; b += 8)
					atomicAdd(&count[v[a].at[k] >> b & 255], 1u);
	}
	for (uint64_t i = me; i < head; i += step)
		atomicAdd(&count[once(x + i)], 1u);
	for (uint64_t i = tail + me; i < n; i += step)
		atomicAdd(&count[once(x + i)], 1u);
	add_counts(c, bin);
}

/* Of bins, block row y has those from y * COUNT_ROOM on. */
PASS_KERNEL arax_pass_count_f32(const float *x, uint32_t *bin, float low, float high, float scale,
				    uint32_t n, uint32_t bins, arax_gpu_result result)
{
	__shared__ uint32_t room[COUNT_ROOM];
	const uint32_t first = blockIdx.y * COUNT_ROOM;
	const counts c = no_counts(room, first, bins - first < COUNT_ROOM ? bins - first : COUNT_ROOM);
	const uint64_t step = (uint64_t)gridDim.x * threads();
	uint32_t *count = copy_of(c);

	if (result.canceled())
		return;
	for (uint64_t i = (uint64_t)blockIdx.x * threads() + thread(); i < n; i += COUNT_AHEAD * step) {
		float v[COUNT_AHEAD];

		/* What is beyond is in no bin. */
		for (uint32_t a = 0; a < COUNT_AHEAD; a++)
			v[a] = i + a * step < n ? once(x + i + a * step) : high;
		for (uint32_t a = 0; a < COUNT_AHEAD; a++) {
			uint32_t b;

			if (!(v[a] >= low && v[a] < high))
				continue;
			b = (uint32_t)((v[a] - low) * scale);
			b = (b < bins ? b : bins - 1) - first;
			if (b < c.nr)
				atomicAdd(&count[b], 1u);
		}
	}
	add_counts(c, bin);
}
