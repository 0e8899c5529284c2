// SPDX-License-Identifier: MIT
/* Scans: sums of parts, then each part behind the sum of those before it.  See passes.cu. */

/* Item k of a tile: threads that look at every SCAN_EACH'th find them in different banks. */
#define SCAN_PLACE(k)	((k) + (k) / SCAN_EACH)
#define SCAN_ROOM	(PASS_THREADS * (SCAN_EACH + 1))

/* Where block @p's part begins: of @n items, in whole tiles but for the last. */
static __device__ inline uint64_t part_begin(uint64_t n, uint64_t p)
{
	const uint64_t tiles = (n + SCAN_TILE - 1) / SCAN_TILE, at = PART(tiles, gridDim.x, p) * SCAN_TILE;

	return at < n ? at : n;
}

template <class Op>
static __device__ inline void sum_of_part(const typename Op::item *x, typename Op::number *part,
					  uint32_t n, typename Op::number *room)
{
	const uint64_t first = part_begin(n, blockIdx.x), end = part_begin(n, blockIdx.x + 1ull);
	typename Op::number all = of_block(Op(), share_of(Op(), x + first, x + first, end - first,
							  thread(), threads()), room);

	if (!thread())
		part[blockIdx.x] = all;
}

/* What stands before each thread's @mine in a block, and the sum of all in *@all. */
template <typename W>
static __device__ inline W before_thread(W mine, W *sums, W *all)
{
	const uint32_t me = thread(), nr = threads();
	W *from = sums, *to = sums + PASS_THREADS;

	from[me] = mine;
	__syncthreads();
	for (uint32_t apart = 1; apart < nr; apart *= 2) {
		W *other = from;

		to[me] = me >= apart ? from[me - apart] + from[me] : from[me];
		from = to;
		to = other;
		__syncthreads();
	}
	*all = from[nr - 1];
	mine = me ? from[me - 1] : 0;
	__syncthreads();
	return mine;
}

/* @room: of a tile; @sums: 2 * PASS_THREADS */
template <typename T, typename W>
static __device__ inline void scan_part(const T *x, const W *part, T *y, uint32_t n,
					uint32_t exclusive, T *room, W *sums)
{
	const uint32_t me = thread(), nr = threads();
	const uint64_t tile = (uint64_t)nr * SCAN_EACH;
	const uint64_t end = part_begin(n, blockIdx.x + 1ull);
	W before = 0, all;

	for (uint32_t p = me; p < blockIdx.x; p += nr)
		before += part[p];
	before_thread(before, sums, &all);
	before = all;
	for (uint64_t i = part_begin(n, blockIdx.x); i < end; i += tile) {
		const uint32_t items = end - i < tile ? (uint32_t)(end - i) : (uint32_t)tile;
		W sum = 0;
		T v[SCAN_EACH];

		for (uint32_t e = 0; e < SCAN_EACH; e++)
			v[e] = me + e * nr < items ? x[i + me + e * nr] : 0;
		for (uint32_t e = 0; e < SCAN_EACH; e++)
			room[SCAN_PLACE(me + e * nr)] = v[e];
		__syncthreads();
		for (uint32_t e = 0; e < SCAN_EACH; e++) {
			v[e] = room[SCAN_PLACE(me * SCAN_EACH + e)];
			sum += v[e];
		}
		sum = before + before_thread(sum, sums, &all);
		before += all;
		for (uint32_t e = 0; e < SCAN_EACH; e++) {
			W next = sum + v[e];

			room[SCAN_PLACE(me * SCAN_EACH + e)] = (T)(exclusive ? sum : next);
			sum = next;
		}
		__syncthreads();
		for (uint32_t e = 0; e < SCAN_EACH; e++)
			if (me + e * nr < items)
				y[i + me + e * nr] = room[SCAN_PLACE(me + e * nr)];
		__syncthreads();
	}
}

PASS_KERNEL arax_pass_scan_sums_u32(const uint32_t *x, uint32_t *part, uint32_t n,
				    arax_gpu_result result)
{
	__shared__ uint32_t room[PASS_THREADS];

	if (result.canceled())
		return;
	sum_of_part<sum_of_words>(x, part, n, room);
}

PASS_KERNEL arax_pass_scan_sums_f32(const float *x, double *part, uint32_t n,
				    arax_gpu_result result)
{
	__shared__ double room[PASS_THREADS];

	if (result.canceled())
		return;
	sum_of_part<sum_of<float>>(x, part, n, room);
}

/* As many blocks as the pass before had. */
PASS_KERNEL arax_pass_scan_u32(const uint32_t *x, const uint32_t *part, uint32_t *y, uint32_t n,
				   uint32_t exclusive, arax_gpu_result result)
{
	__shared__ uint32_t room[SCAN_ROOM], sums[2 * PASS_THREADS];

	if (result.canceled())
		return;
	scan_part(x, part, y, n, exclusive, room, sums);
}

PASS_KERNEL arax_pass_scan_f32(const float *x, const double *part, float *y, uint32_t n,
				   uint32_t exclusive, arax_gpu_result result)
{
	__shared__ float room[SCAN_ROOM];
	__shared__ double sums[2 * PASS_THREADS];

	if (result.canceled())
		return;
	scan_part(x, part, y, n, exclusive, room, sums);
}
