// SPDX-License-Identifier: MIT
/* ml.c for GPUs: products by tiles, rows by teams of threads; zscore a block some columns. */
#include "product_gpu.h"

template <typename T> struct matmul_job {
	const T *x;
	const float *w;
	float *y;
	uint64_t rows, features, classes;

	__device__ void begin(uint64_t) const
	{
	}
	__device__ void load(strips *s, uint64_t i0, uint64_t j0, uint64_t at) const
	{
		if (block_fits()) {
			strip_part<TILE_DOWN, T> some;
			strip_part<TILE_ACROSS, float> others;

			some.read(x, rows, features, i0, at);
			others.read(w, classes, features, j0, at);
			some.write(s->down);
			others.write(s->across);
			return;
		}
		load_strip<TILE_DOWN>(s->down, x, rows, features, i0, at);
		load_strip<TILE_ACROSS>(s->across, w, classes, features, j0, at);
	}
	__device__ void next(uint64_t) const
	{
	}
	__device__ void put(uint64_t i, uint64_t j, float sum) const
	{
		if (i < rows && j < classes)
			y[i * classes + j] = sum;
	}
};

/* y[r * classes + c] = row r of x times row c of w */
template <typename T>
static __device__ inline void matmul(const T *x, uint64_t nx, const float *w, uint64_t nw, float *y,
				     uint64_t ny, uint32_t rows, uint32_t features, uint32_t classes,
				     arax_gpu_result result, strips *s)
{
	const uint64_t down = ((uint64_t)rows + TILE_DOWN - 1) / TILE_DOWN;
	const uint64_t across = ((uint64_t)classes + TILE_ACROSS - 1) / TILE_ACROSS;
	const matmul_job<T> job = { x, w, y, rows, features, classes };

	if (SHORT(nx, (uint64_t)rows * features) || SHORT(nw, (uint64_t)classes * features) ||
	    SHORT(ny, (uint64_t)rows * classes)) {
		*result = -EINVAL;
		return;
	}
	for (uint64_t t = arax_group(); t < down * across; t += arax_groups())
		product_tile(job, s, rows, features, t / across * TILE_DOWN, t % across * TILE_ACROSS);
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_std_matmul_i32(const int32_t *x, uint64_t nx, const float *w, uint64_t nw, float *y,
		    uint64_t ny, uint32_t rows, uint32_t features, uint32_t classes,
		    arax_gpu_result result)
{
	__shared__ strips s;

	if (result.canceled())
		return;
	matmul(x, nx, w, nw, y, ny, rows, features, classes, result, &s);
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_std_matmul_f32(const float *x, uint64_t nx, const float *w, uint64_t nw, float *y,
		    uint64_t ny, uint32_t rows, uint32_t features, uint32_t classes,
		    arax_gpu_result result)
{
	__shared__ strips s;

	if (result.canceled())
		return;
	matmul(x, nx, w, nw, y, ny, rows, features, classes, result, &s);
}

ARAX_GPU_KERNEL arax_std_row_max(const float *x, uint64_t nx, float *most, uint64_t nmost,
				 uint32_t rows, uint32_t cols, arax_gpu_result result)
{
	__shared__ float parts[PARTS];

	if (result.canceled())
		return;
	if (!cols || SHORT(nx, (uint64_t)rows * cols) || SHORT(nmost, rows)) {
		*result = -EINVAL;
		return;
	}

	const team t = team_for(rows, cols);

	TEAM_EACH(r, t, rows) {
		const bool mine = r < rows;
		float best = extreme_of(mine ? x + r * cols : x, t.mine, mine ? cols : 0, t.wide, 1);

		best = team_together(t, parts, best, greater());
		if (mine && !t.mine)
			most[r] = best;
	}
}

/* The sum of exp(x[i] - top), every @step'th from @i on. */
static __device__ inline double exps_of(const float *x, uint64_t i, uint64_t end, uint64_t step,
					float top)
{
	double sum = 0;

	while (i < end) {
		const uint64_t stop = end - i > RUN * step ? i + RUN * step : end;
		float part = 0;

		for (; i < stop; i += step)
			part += expf(x[i] - top);
		sum += part;
	}
	return sum;
}

ARAX_GPU_KERNEL arax_std_log_sum_exp(const float *x, uint64_t nx, const float *most,
				     uint64_t nmost, float *lse, uint64_t nlse, uint32_t rows,
				     uint32_t cols, arax_gpu_result result)
{
	__shared__ double parts[PARTS];

	if (result.canceled())
		return;
	if (!cols || SHORT(nx, (uint64_t)rows * cols) || SHORT(nmost, rows) || SHORT(nlse, rows)) {
		*result = -EINVAL;
		return;
	}

	const team t = team_for(rows, cols);

	TEAM_EACH(r, t, rows) {
		const bool mine = r < rows;
		const float top = mine ? most[r] : 0;
		double sum = exps_of(mine ? x + r * cols : x, t.mine, mine ? cols : 0, t.wide, top);

		sum = team_together(t, parts, sum, plus());
		if (mine && !t.mine)
			lse[r] = top + logf((float)sum);
	}
}

/* Some reads are on their way before the first write, which might be to what they read. */
#define AT_ONCE	4u

template <typename F>
static __device__ inline void each_in_rows(float *x, uint64_t n, uint64_t cols, F f)
{
	walk w = walk_begin(n, cols);

	while (w.i < w.end) {
		uint64_t at[AT_ONCE];
		float v[AT_ONCE];

		for (uint32_t k = 0; k < AT_ONCE; k++, walk_on(&w)) {
			at[k] = w.i;
			v[k] = w.i < w.end ? f(x[w.i], w) : 0;
		}
		for (uint32_t k = 0; k < AT_ONCE; k++)
			if (at[k] < w.end)
				x[at[k]] = v[k];
	}
}

struct exp_less {
	const float *less;

	__device__ float operator()(float v, const walk &at) const
	{
		return expf(v - less[at.row]);
	}
};

struct plus_column {
	const float *row;

	__device__ float operator()(float v, const walk &at) const
	{
		return v + row[at.col];
	}
};

ARAX_GPU_KERNEL arax_std_exp_rows(const float *less, uint64_t nless, float *x, uint64_t nx,
				  uint32_t rows, uint32_t cols, arax_gpu_result result)
{
	uint64_t n = (uint64_t)rows * cols;

	if (result.canceled())
		return;
	if (!cols || SHORT(nless, rows) || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	each_in_rows(x, n, cols, exp_less{ less });
}

/* A row of which a thread has no more columns than it has registers for: read once, written once. */
static __device__ inline void softmax_kept(float *row, const team &t, uint32_t cols, double *sums,
					   float *tops)
{
	const uint32_t wide = t.wide, n = t.mine < cols ? cols - t.mine : 0;
	float v[TEAM_COLUMNS], most = -__builtin_huge_valf(), part = 0, share;
	float *x = row + t.mine;

	/* What there is not adds nothing: to a row of -infinity alone as little as its items, NaN. */
	for (uint32_t k = 0; k < TEAM_COLUMNS; k++)
		v[k] = k * wide < n ? x[k * wide] : -__builtin_huge_valf();
	for (uint32_t k = 0; k < TEAM_COLUMNS; k++)
		most = v[k] > most ? v[k] : most;
	most = team_together(t, tops, most, greater());
	for (uint32_t k = 0; k < TEAM_COLUMNS; k++) {
		v[k] = expf(v[k] - most);
		part += v[k];
	}
	share = 1 / (float)team_together(t, sums, (double)part, plus());
	for (uint32_t k = 0; k < TEAM_COLUMNS; k++)
		if (k * wide < n)
			x[k * wide] = v[k] * share;
}

static __device__ inline void softmax_long(float *row, const team &t, uint64_t cols, double *sums,
					   float *tops)
{
	float most = extreme_of(row, t.mine, cols, t.wide, 1), share;

	most = team_together(t, tops, most, greater());
	share = 1 / (float)team_together(t, sums, exps_of(row, t.mine, cols, t.wide, most), plus());
	for (uint64_t i = t.mine; i < cols; i += t.wide)
		row[i] = expf(row[i] - most) * share;
}

/* Of a block of all threads that a GPU takes, each has 64 registers. */
ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_std_softmax(float *x, uint64_t nx, uint32_t rows, uint32_t cols, arax_gpu_result result)
{
	__shared__ double sums[PARTS];
	__shared__ float tops[PARTS];

	if (result.canceled())
		return;
	if (!cols || SHORT(nx, (uint64_t)rows * cols)) {
		*result = -EINVAL;
		return;
	}

	const team t = team_for(rows, cols);
	const bool kept = cols <= (uint64_t)TEAM_COLUMNS * t.wide;

	TEAM_EACH(r, t, rows) {
		float *row = r < rows ? x + r * cols : x;
		const uint32_t n = r < rows ? cols : 0;

		if (kept)
			softmax_kept(row, t, n, sums, tops);
		else
			softmax_long(row, t, n, sums, tops);
	}
}

ARAX_GPU_KERNEL arax_std_add_row(const float *row, uint64_t nrow, float *x, uint64_t nx,
				 uint32_t rows, uint32_t cols, arax_gpu_result result)
{
	uint64_t n = (uint64_t)rows * cols;

	if (result.canceled())
		return;
	if (!cols || SHORT(nrow, cols) || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	each_in_rows(x, n, cols, plus_column{ row });
}

struct argmax {
	float most;
	uint32_t at;
};

/* The first of equals; a NaN is never greater. */
struct earlier {
	__device__ argmax operator()(argmax a, argmax b) const
	{
		return b.most > a.most || (b.most == a.most && b.at < a.at) ? b : a;
	}
};

ARAX_GPU_KERNEL arax_std_argmax_sum(const float *a, uint64_t na, const float *b, uint64_t nb,
				    uint32_t *best, uint64_t nbest, uint32_t rows, uint32_t cols,
				    arax_gpu_result result)
{
	__shared__ argmax parts[PARTS];
	uint64_t n = (uint64_t)rows * cols;

	if (result.canceled())
		return;
	if (!cols || SHORT(na, n) || SHORT(nb, n) || SHORT(nbest, rows)) {
		*result = -EINVAL;
		return;
	}

	const team t = team_for(rows, cols);

	TEAM_EACH(r, t, rows) {
		argmax m = { -__builtin_huge_valf(), 0 };

		for (uint64_t i = t.mine; r < rows && i < cols; i += t.wide) {
			float v = a[r * cols + i] + b[r * cols + i];

			if (v > m.most)
				m = argmax{ v, (uint32_t)i };
		}
		m = team_together(t, parts, m, earlier());
		if (r < rows && !t.mine)
			best[r] = m.at;
	}
}

#define ZSCORE_COLUMNS	32u	/* at once, or as few as a GPU reads in one go */
#define ZSCORE_FEW	8u

/*
 * A block has some columns at once, that neighbours read neighbouring memory; several threads share
 * a column.  Sums are of the distance to the column's first item.
 */
ARAX_GPU_KERNEL arax_std_zscore(const int32_t *x, uint64_t nx, float *z, uint64_t nz,
				uint32_t rows, uint32_t cols, arax_gpu_result result)
{
	__shared__ double parts[PARTS], more[PARTS];
	uint64_t n = (uint64_t)rows * cols;

	if (result.canceled())
		return;
	if (!cols || SHORT(nx, n) || SHORT(nz, n)) {
		*result = -EINVAL;
		return;
	}

	const uint64_t me = arax_item(), used = parts_used();
	const uint64_t least = cols / ZSCORE_COLUMNS < arax_groups() ? ZSCORE_FEW : ZSCORE_COLUMNS;
	const uint64_t some = least < cols ? least : cols, wide = some < used ? some : used;
	const uint64_t sharing = used / wide;

	for (uint64_t c0 = arax_group() * wide; rows && c0 < cols; c0 += arax_groups() * wide) {
		const uint64_t c = c0 + me % wide;
		const bool mine = me < sharing * wide && c < cols;
		const double first = mine ? x[c] : 0;
		double sum = 0, squares = 0, middle, variance, mean, scale;
		uint64_t half = 1;

		for (uint64_t r = me / wide; mine && r < rows; r += sharing) {
			double d = x[r * cols + c] - first;

			sum += d;
			squares += d * d;
		}
		if (mine) {
			parts[me] = sum;
			more[me] = squares;
		}
		while (2 * half < sharing)
			half *= 2;
		for (; half; half /= 2) {
			__syncthreads();
			if (mine && me / wide < half && me / wide + half < sharing) {
				parts[me] += parts[me + half * wide];
				more[me] += more[me + half * wide];
			}
		}
		__syncthreads();
		middle = mine ? parts[me % wide] / rows : 0;
		variance = mine ? more[me % wide] / rows - middle * middle : 0;
		mean = first + middle;
		scale = variance > 0 ? 1 / sqrt(variance) : 0;
		for (uint64_t r = me / wide; mine && r < rows; r += sharing)
			z[r * cols + c] = (float)((x[r * cols + c] - mean) * scale);
		/* The next columns' take the place of these. */
		__syncthreads();
	}
}
