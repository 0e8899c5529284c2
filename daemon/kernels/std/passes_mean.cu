// SPDX-License-Identifier: MIT
/* Centers: sums of a block's points by their labels, then of all blocks'.  See passes.cu. */

#define MEAN_AHEAD	16u	/* points of a thread at once */

/*
 * Block b has part b / @tiles of the points, and of centers and dimensions tile b % @tiles: @centers
 * of these, @wide of those.  A thread has one dimension of every @teams'th point of the part, and sums
 * of its team's own: so none waits for another, and what comes of it is the same each time.
 */
PASS_KERNEL arax_pass_mean_sums(const float *x, const uint32_t *label, double *sum,
				    uint32_t *count, uint32_t n, uint32_t dims, uint32_t k,
				    uint32_t wide, uint32_t centers, uint32_t teams, uint32_t tiles,
				    arax_gpu_result result)
{
	__shared__ double sums[MEAN_SUMS];
	__shared__ uint32_t counts[MEAN_COUNTS];
	const uint32_t across = (dims - 1) / wide + 1, tile = blockIdx.x % tiles;
	const uint32_t part = blockIdx.x / tiles, parts = gridDim.x / tiles;
	const uint32_t c0 = tile / across * centers, d0 = tile % across * wide;
	const uint32_t nr = k - c0 < centers ? k - c0 : centers;
	const uint32_t team = thread() / wide, at = thread() % wide, d = d0 + at;
	const uint64_t end = PART(n, parts, part + 1ull);

	if (result.canceled())
		return;
	for (uint32_t i = thread(); i < teams * centers * wide; i += threads())
		sums[i] = 0;
	for (uint32_t i = thread(); i < teams * centers; i += threads())
		counts[i] = 0;
	__syncthreads();
	for (uint64_t p = PART(n, parts, part) + team; team < teams && d < dims && p < end;
	     p += MEAN_AHEAD * teams) {
		uint32_t c[MEAN_AHEAD];
		float v[MEAN_AHEAD];

		for (uint32_t a = 0; a < MEAN_AHEAD; a++)
			c[a] = p + a * teams < end ? once(label + p + a * teams) - c0 : nr;
		for (uint32_t a = 0; a < MEAN_AHEAD; a++)
			v[a] = c[a] < nr ? x[(p + a * teams) * dims + d] : 0;
		for (uint32_t a = 0; a < MEAN_AHEAD; a++) {
			if (c[a] >= nr)
				continue;
			sums[(team * centers + c[a]) * wide + at] += v[a];
			if (!d)
				counts[team * centers + c[a]]++;
		}
	}
	__syncthreads();
	for (uint32_t i = thread(); i < nr * wide; i += threads()) {
		double all = 0;

		for (uint32_t t = 0; t < teams; t++)
			all += sums[t * centers * wide + i];
		if (d0 + i % wide < dims)
			sum[((uint64_t)part * k + c0 + i / wide) * dims + d0 + i % wide] = all;
	}
	for (uint32_t c = thread(); !d0 && c < nr; c += threads()) {
		uint32_t all = 0;

		for (uint32_t t = 0; t < teams; t++)
			all += counts[t * centers + c];
		count[(uint64_t)part * k + c0 + c] = all;
	}
}

/* Several threads take turns in the parts of each number. */
PASS_KERNEL arax_pass_means(const double *sum, const uint32_t *count, float *center,
				uint32_t dims, uint32_t k, uint32_t parts, arax_gpu_result result)
{
	__shared__ double sums[PASS_THREADS];
	__shared__ uint32_t counts[PASS_THREADS];
	const uint32_t slices = MEAN_SLICES(threads()), each = threads() / slices, me = thread();
	const uint64_t all = (uint64_t)k * dims, i = (uint64_t)blockIdx.x * each + me % each;
	double of = 0;
	uint32_t nr = 0;

	if (result.canceled())
		return;
	for (uint32_t p = me / each; i < all && p < parts; p += slices) {
		of += sum[p * all + i];
		nr += count[(uint64_t)p * k + i / dims];
	}
	sums[me] = of;
	counts[me] = nr;
	__syncthreads();
	if (me >= each || i >= all)
		return;
	for (uint32_t s = 1; s < slices; s++) {
		of += sums[s * each + me];
		nr += counts[s * each + me];
	}
	if (nr)
		center[i] = (float)(of / nr);
}
