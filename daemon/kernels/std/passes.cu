// SPDX-License-Identifier: MIT
/*
 * The kernels of passes.c: what makes one number of an array, scans or sorts one, counts or adds up
 * what is in it, by all of a device, in several launches.
 *
 * They are launched by passes.c alone, which has checked the ranges' lengths: one-dimensional blocks
 * of a power of two of threads, PASS_THREADS at most.  Ranges' contents are the client's, who may
 * change them at any time: an address that depends on one is checked after it was read, once.
 * Scratch memory is another launch's from before: a pass reads there what one before it has written.
 */
#include "sort_keys.h"
#include "passes.h"

static __device__ inline uint32_t thread(void)
{
	return threadIdx.x;
}

static __device__ inline uint32_t threads(void)
{
	return blockDim.x;
}

/* ------------------------------------------------------------------ */
/* Into one number: a part of each block, then of all parts              */

#define WIDE	16u	/* bytes that a thread loads at once */
#define AHEAD	4u	/* of these, before it waits for the first */

template <typename T> struct alignas(WIDE) wide {
	T at[WIDE / sizeof(T)];
};

/* How many items stand in front of the first that is aligned to WIDE, of @n. */
template <typename T> static __device__ inline uint64_t before_aligned(const T *x, uint64_t n)
{
	uint64_t nr = (0 - (uint64_t)(uintptr_t)x) % WIDE / sizeof(T);

	return nr < n ? nr : n;
}

template <typename T> struct sum_of {
	typedef T item;
	typedef double number;
	static const bool two = false;

	__device__ double none() const
	{
		return 0;
	}
	__device__ double with(double sum, T x, T) const
	{
		return sum + (double)x;
	}
	__device__ double put(double a, double b) const
	{
		return a + b;
	}
};

struct sum_of_words : sum_of<uint32_t> {
	typedef uint32_t number;

	__device__ uint32_t none() const
	{
		return 0;
	}
	__device__ uint32_t with(uint32_t sum, uint32_t x, uint32_t) const
	{
		return sum + x;
	}
	__device__ uint32_t put(uint32_t a, uint32_t b) const
	{
		return a + b;
	}
};

struct sum_of_products : sum_of<float> {
	static const bool two = true;

	__device__ double with(double sum, float x, float y) const
	{
		return sum + (double)x * (double)y;
	}
};

struct sum_of_differences : sum_of<float> {
	static const bool two = true;

	__device__ double with(double sum, float x, float y) const
	{
		return sum + (double)(x - y);
	}
};

/* The greatest of sign * x; a NaN is never greater. */
struct greatest {
	typedef float item;
	typedef float number;
	static const bool two = false;
	float sign;

	__device__ float none() const
	{
		return -__builtin_huge_valf();
	}
	__device__ float with(float best, float x, float) const
	{
		float v = sign * x;

		return v > best ? v : best;
	}
	__device__ float put(float a, float b) const
	{
		return b > a ? b : a;
	}
};

/* Of items @first, @first + @step ... below @n, one at a time. */
template <class Op>
static __device__ inline typename Op::number
one_by_one(const Op &op, typename Op::number all, const typename Op::item *x,
	   const typename Op::item *y, uint64_t first, uint64_t n, uint64_t step)
{
	for (uint64_t i = first; i < n; i += step)
		all = op.with(all, x[i], Op::two ? y[i] : x[i]);
	return all;
}

/* The share of thread @me of @step: of @x's @n items (and @y's), in some order that these three give. */
template <class Op>
static __device__ inline typename Op::number
share_of(const Op &op, const typename Op::item *x, const typename Op::item *y, uint64_t n,
	 uint64_t me, uint64_t step)
{
	typedef typename Op::item item;
	const uint32_t each = WIDE / sizeof(item);
	const bool apart = Op::two && ((uintptr_t)x ^ (uintptr_t)y) % WIDE;
	const uint64_t head = apart ? n : before_aligned(x, n), nr = (n - head) / each;
	const wide<item> *wx = (const wide<item> *)(x + head), *wy = (const wide<item> *)(y + head);
	typename Op::number all[AHEAD];
	uint64_t i = me;

	for (uint32_t a = 0; a < AHEAD; a++)
		all[a] = op.none();
	for (; i + (AHEAD - 1) * step < nr; i += AHEAD * step) {
		wide<item> vx[AHEAD], vy[AHEAD];

		for (uint32_t a = 0; a < AHEAD; a++) {
			vx[a] = wx[i + a * step];
			if (Op::two)
				vy[a] = wy[i + a * step];
		}
		for (uint32_t a = 0; a < AHEAD; a++)
			for (uint32_t k = 0; k < each; k++)
				all[a] = op.with(all[a], vx[a].at[k],
						 Op::two ? vy[a].at[k] : vx[a].at[k]);
	}
	for (; i < nr; i += step) {
		wide<item> vx = wx[i], vy = Op::two ? wy[i] : vx;

		for (uint32_t k = 0; k < each; k++)
			all[0] = op.with(all[0], vx.at[k], vy.at[k]);
	}
	all[1] = one_by_one(op, all[1], x, y, me, head, step);
	all[2] = one_by_one(op, all[2], x, y, head + nr * each + me, n, step);
	return op.put(op.put(all[0], all[1]), op.put(all[2], all[3]));
}

/* Of all threads of a block, for the first one. */
template <class Op>
static __device__ inline typename Op::number
of_block(const Op &op, typename Op::number mine, typename Op::number *parts)
{
	return put_together(parts, mine, [op](typename Op::number a, typename Op::number b) {
		return op.put(a, b);
	});
}

template <class Op>
static __device__ inline void part_of(const Op &op, const typename Op::item *x,
				      const typename Op::item *y, typename Op::number *part,
				      uint32_t n, typename Op::number *room)
{
	typename Op::number all = share_of(op, x, y, n, arax_group() * threads() + thread(),
					   arax_groups() * threads());

	all = of_block(op, all, room);
	if (!thread())
		part[arax_group()] = all;
}

ARAX_GPU_KERNEL arax_pass_sum_f32(const float *x, double *part, uint32_t n)
{
	__shared__ double room[PASS_THREADS];

	part_of(sum_of<float>(), x, x, part, n, room);
}

ARAX_GPU_KERNEL arax_pass_sum_f64(const double *x, double *part, uint32_t n)
{
	__shared__ double room[PASS_THREADS];

	part_of(sum_of<double>(), x, x, part, n, room);
}

ARAX_GPU_KERNEL arax_pass_dot_f32(const float *x, const float *y, double *part, uint32_t n)
{
	__shared__ double room[PASS_THREADS];

	part_of(sum_of_products(), x, y, part, n, room);
}

ARAX_GPU_KERNEL arax_pass_sum_diff(const float *x, const float *y, double *part, uint32_t n)
{
	__shared__ double room[PASS_THREADS];

	part_of(sum_of_differences(), x, y, part, n, room);
}

ARAX_GPU_KERNEL arax_pass_greatest(const float *x, float *part, uint32_t n, float sign)
{
	__shared__ float room[PASS_THREADS];

	part_of(greatest{ sign }, x, x, part, n, room);
}

/* By one block.  @add: to what is in *@to. */
ARAX_GPU_KERNEL arax_pass_sum_parts(const double *part, double *to, uint32_t parts, uint32_t add)
{
	__shared__ double room[PASS_THREADS];
	double all = of_block(sum_of<double>(),
			      share_of(sum_of<double>(), part, part, parts, thread(), threads()), room);

	if (!thread())
		*to = add ? *to + all : all;
}

ARAX_GPU_KERNEL arax_pass_greatest_parts(const float *part, float *to, uint32_t parts, float sign)
{
	__shared__ float room[PASS_THREADS];
	const greatest op = { 1 };
	float best = of_block(op, share_of(op, part, part, parts, thread(), threads()), room);

	if (!thread())
		*to = sign * best;
}

/* ------------------------------------------------------------------ */
/* Scans: sums of parts, then each part behind the sum of those before it */

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

ARAX_GPU_KERNEL arax_pass_scan_sums_u32(const uint32_t *x, uint32_t *part, uint32_t n)
{
	__shared__ uint32_t room[PASS_THREADS];

	sum_of_part<sum_of_words>(x, part, n, room);
}

ARAX_GPU_KERNEL arax_pass_scan_sums_f32(const float *x, double *part, uint32_t n)
{
	__shared__ double room[PASS_THREADS];

	sum_of_part<sum_of<float>>(x, part, n, room);
}

/* As many blocks as the pass before had. */
ARAX_GPU_KERNEL arax_pass_scan_u32(const uint32_t *x, const uint32_t *part, uint32_t *y, uint32_t n,
				   uint32_t exclusive)
{
	__shared__ uint32_t room[SCAN_ROOM], sums[2 * PASS_THREADS];

	scan_part(x, part, y, n, exclusive, room, sums);
}

ARAX_GPU_KERNEL arax_pass_scan_f32(const float *x, const double *part, float *y, uint32_t n,
				   uint32_t exclusive)
{
	__shared__ float room[SCAN_ROOM];
	__shared__ double sums[2 * PASS_THREADS];

	scan_part(x, part, y, n, exclusive, room, sums);
}

/* ------------------------------------------------------------------ */
/* Histograms: a block counts for itself, then adds to what all have      */

#define COUNT_AHEAD	8u	/* items that a thread reads at once */

ARAX_GPU_KERNEL arax_pass_clear(uint32_t *bin, uint32_t bins)
{
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
ARAX_GPU_KERNEL arax_pass_count_u8(const uint8_t *x, uint32_t *bin, uint32_t n)
{
	__shared__ uint32_t room[256 * COUNT_COPIES];
	const counts c = no_counts(room, 0, 256);
	const uint64_t me = arax_group() * threads() + thread(), step = arax_groups() * threads();
	const uint64_t head = before_aligned(x, n), nr = (n - head) / WIDE, tail = head + nr * WIDE;
	const wide<uint32_t> *w = (const wide<uint32_t> *)(x + head);
	uint32_t *count = copy_of(c);

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
ARAX_GPU_KERNEL arax_pass_count_f32(const float *x, uint32_t *bin, float low, float high, float scale,
				    uint32_t n, uint32_t bins)
{
	__shared__ uint32_t room[COUNT_ROOM];
	const uint32_t first = blockIdx.y * COUNT_ROOM;
	const counts c = no_counts(room, first, bins - first < COUNT_ROOM ? bins - first : COUNT_ROOM);
	const uint64_t step = (uint64_t)gridDim.x * threads();
	uint32_t *count = copy_of(c);

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

/* ------------------------------------------------------------------ */
/* Centers: sums of a block's points by their labels, then of all blocks'  */

#define MEAN_AHEAD	16u	/* points of a thread at once */

/*
 * Block b has part b / @tiles of the points, and of centers and dimensions tile b % @tiles: @centers
 * of these, @wide of those.  A thread has one dimension of every @teams'th point of the part, and sums
 * of its team's own: so none waits for another, and what comes of it is the same each time.
 */
ARAX_GPU_KERNEL arax_pass_mean_sums(const float *x, const uint32_t *label, double *sum,
				    uint32_t *count, uint32_t n, uint32_t dims, uint32_t k,
				    uint32_t wide, uint32_t centers, uint32_t teams, uint32_t tiles)
{
	__shared__ double sums[MEAN_SUMS];
	__shared__ uint32_t counts[MEAN_COUNTS];
	const uint32_t across = (dims - 1) / wide + 1, tile = blockIdx.x % tiles;
	const uint32_t part = blockIdx.x / tiles, parts = gridDim.x / tiles;
	const uint32_t c0 = tile / across * centers, d0 = tile % across * wide;
	const uint32_t nr = k - c0 < centers ? k - c0 : centers;
	const uint32_t team = thread() / wide, at = thread() % wide, d = d0 + at;
	const uint64_t end = PART(n, parts, part + 1ull);

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
ARAX_GPU_KERNEL arax_pass_means(const double *sum, const uint32_t *count, float *center,
				uint32_t dims, uint32_t k, uint32_t parts)
{
	__shared__ double sums[PASS_THREADS];
	__shared__ uint32_t counts[PASS_THREADS];
	const uint32_t slices = MEAN_SLICES(threads()), each = threads() / slices, me = thread();
	const uint64_t all = (uint64_t)k * dims, i = (uint64_t)blockIdx.x * each + me % each;
	double of = 0;
	uint32_t nr = 0;

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

/* ------------------------------------------------------------------ */
/* Sorting: Batcher's bitonic network, in place, as sort.cu has it        */

/*
 * Which items are compared comes from their number alone, so nothing that is in them leads elsewhere,
 * whoever changes them meanwhile.  What lies beyond n counts as larger than everything.
 *
 * Steps of a merge are done FUSED at a time: of @step, @step / 2 ... items that are compared with each
 * other alone are 2, 4 ... items, which a thread loads at once.
 */
template <uint32_t STEPS, typename T, typename A>
static __device__ inline void steps_of(const A &at, uint64_t i, uint64_t step, bool from_ends)
{
	const uint32_t nr = 1u << STEPS;
	const uint64_t apart = step >> (STEPS - 1), low = i & (apart - 1);
	const uint64_t first = (i & ~(apart - 1)) << STEPS;
	/* A merge's first step compares from both ends: so the upper half stands the other way round. */
	const uint64_t high = from_ends ? apart - 1 - low : low;
	T v[nr];

	for (uint32_t j = 0; j < nr; j++)
		v[j] = at.get(first + j * apart + (j < nr / 2 ? low : high));
	for (uint32_t j = 0; j < nr / 2; j++) {
		T x = v[j], y = from_ends ? v[nr - 1 - j] : v[j + nr / 2];
		T less = y < x ? y : x, more = y < x ? x : y;

		v[j] = less;
		if (from_ends)
			v[nr - 1 - j] = more;
		else
			v[j + nr / 2] = more;
	}
	for (uint32_t h = nr / 4; h; h /= 2)
		for (uint32_t j = 0; j < nr; j++)
			if (!(j & h)) {
				T x = v[j], y = v[j + h];

				v[j] = y < x ? y : x;
				v[j + h] = y < x ? x : y;
			}
	for (uint32_t j = 0; j < nr; j++)
		at.put(first + j * apart + (j < nr / 2 ? low : high), v[j]);
}

/* So that threads that each have neighbours find these in different banks. */
#define SORT_PLACE(i)	((i) + (i) / 32)
#define SORT_ROOM	SORT_PLACE(SORT_BLOCK)

template <typename T> struct tile_items {
	T *room;

	__device__ T get(uint64_t i) const
	{
		return room[SORT_PLACE((uint32_t)i)];
	}
	__device__ void put(uint64_t i, T v) const
	{
		room[SORT_PLACE((uint32_t)i)] = v;
	}
};

template <typename K> struct all_items {
	typedef typename K::number number;
	K keys;
	uint64_t n;

	__device__ number get(uint64_t i) const
	{
		return i < n ? keys.get(i) : (number)0 - 1;
	}
	__device__ void put(uint64_t i, number v) const
	{
		if (i < n)
			keys.put(i, v);
	}
};

/* The steps from @step to 1 in a tile. */
template <typename T>
static __device__ inline void steps_in_tile(const tile_items<T> &tile, uint32_t step, bool from_ends)
{
	while (step) {
		const uint32_t steps = step >= 4 ? 3 : step, nr = SORT_BLOCK >> steps;

		for (uint32_t i = thread(); i < nr; i += threads()) {
			if (steps == 3)
				steps_of<3, T>(tile, i, step, from_ends);
			else if (steps == 2)
				steps_of<2, T>(tile, i, step, from_ends);
			else
				steps_of<1, T>(tile, i, step, from_ends);
		}
		step >>= steps;
		from_ends = false;
		__syncthreads();
	}
}

/* Of each tile, one for each block: all merges that stay in it, or the last steps of one that does not. */
template <typename K>
static __device__ inline void sort_tile(const K &keys, uint32_t n, uint32_t all_merges,
					typename K::number *room)
{
	const all_items<K> items = { keys, n };
	const tile_items<typename K::number> tile = { room };
	const uint64_t first = (uint64_t)blockIdx.x * SORT_BLOCK;

	for (uint32_t i = thread(); i < SORT_BLOCK; i += threads())
		tile.put(i, items.get(first + i));
	__syncthreads();
	for (uint32_t step = 1; all_merges && step < SORT_BLOCK; step *= 2)
		steps_in_tile(tile, step, true);
	if (!all_merges)
		steps_in_tile(tile, SORT_BLOCK / 2, false);
	for (uint32_t i = thread(); i < SORT_BLOCK; i += threads())
		items.put(first + i, tile.get(i));
}

/* @steps of a merge from @step on, between items that may be far from each other. */
template <typename K>
static __device__ inline void sort_far(const K &keys, uint32_t n, uint32_t step, uint32_t steps,
				       uint32_t from_ends)
{
	typedef typename K::number T;
	const all_items<K> items = { keys, n };
	const uint64_t i = (uint64_t)blockIdx.x * threads() + thread();

	/* Beyond are groups that have no item. */
	if (i >= SORT_GROUPS(n, step, steps))
		return;
	if (steps == 4)
		steps_of<4, T>(items, i, step, from_ends);
	else if (steps == 3)
		steps_of<3, T>(items, i, step, from_ends);
	else if (steps == 2)
		steps_of<2, T>(items, i, step, from_ends);
	else
		steps_of<1, T>(items, i, step, from_ends);
}

ARAX_GPU_KERNEL arax_pass_sort_tile_u32(uint32_t *key, uint32_t n, uint32_t all_merges)
{
	__shared__ uint32_t room[SORT_ROOM];

	sort_tile(keys_u32{ key }, n, all_merges, room);
}

ARAX_GPU_KERNEL arax_pass_sort_tile_f32(uint32_t *key, uint32_t n, uint32_t all_merges)
{
	__shared__ uint32_t room[SORT_ROOM];

	sort_tile(keys_f32{ key }, n, all_merges, room);
}

ARAX_GPU_KERNEL arax_pass_sort_tile_pairs(uint32_t *key, uint32_t *value, uint32_t n,
					  uint32_t all_merges)
{
	__shared__ uint64_t room[SORT_ROOM];

	sort_tile(keys_pairs{ key, value }, n, all_merges, room);
}

ARAX_GPU_KERNEL arax_pass_sort_far_u32(uint32_t *key, uint32_t n, uint32_t step, uint32_t steps,
				       uint32_t from_ends)
{
	sort_far(keys_u32{ key }, n, step, steps, from_ends);
}

ARAX_GPU_KERNEL arax_pass_sort_far_f32(uint32_t *key, uint32_t n, uint32_t step, uint32_t steps,
				       uint32_t from_ends)
{
	sort_far(keys_f32{ key }, n, step, steps, from_ends);
}

ARAX_GPU_KERNEL arax_pass_sort_far_pairs(uint32_t *key, uint32_t *value, uint32_t n, uint32_t step,
					 uint32_t steps, uint32_t from_ends)
{
	sort_far(keys_pairs{ key, value }, n, step, steps, from_ends);
}
