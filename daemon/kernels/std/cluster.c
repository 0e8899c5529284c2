// SPDX-License-Identifier: MIT
/*
 * Points of `dims` f32, one after the other: how far apart they are, and k-means.
 * Distances are squared: the sum of the squared differences.
 */
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/std/std.h"

int arax_std_distances_f32(const struct arax_launch *l);
int arax_std_kmeans_assign(const struct arax_launch *l);
int arax_std_kmeans_update(const struct arax_launch *l);

#define WIDE	16u	/* points that stand side by side in vectors */
#define ROWS	64u	/* points that each meets of the others, at a time */
#define PIECE	128u	/* dimensions at a time */
#define COLUMNS	4096u	/* of distances, that a work-group has some of */

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Dimensions of `m` points, turned: to[d][j], zeros beyond the last. */
STD_INLINE void turn(float (*to)[WIDE], const float *b, uint64_t m, uint64_t dims, uint64_t n)
{
	for (uint64_t d = 0; d < n; d++)
		for (uint64_t j = 0; j < WIDE; j++)
			to[d][j] = j < m ? b[j * dims + d] : 0;
}

/* dist[i][j] of up to ROWS of a and up to WIDE of b. */
STD_INLINE void meet(float (*dist)[WIDE], const float *a, uint64_t rows, const float *b, uint64_t m,
		     uint64_t dims)
{
	float turned[PIECE][WIDE];

	memset(dist, 0, rows * sizeof(*dist));
	for (uint64_t d = 0; d < dims; d += PIECE) {
		uint64_t n = least(PIECE, dims - d);

		turn(turned, b + d, m, dims, n);
		for (uint64_t i = 0; i < rows; i++) {
			const float *x = a + i * dims + d;
			std_v8 s0 = { 0 }, s1 = { 0 };

			for (uint64_t k = 0; k < n; k++) {
				std_v8 d0 = x[k] - *(const std_v8 *)turned[k];
				std_v8 d1 = x[k] - *(const std_v8 *)(turned[k] + 8);

				s0 += d0 * d0;
				s1 += d1 * d1;
			}
			*(std_v8 *)dist[i] += s0;
			*(std_v8 *)(dist[i] + 8) += s1;
		}
	}
}

struct distances_args {
	uint32_t rows_a, rows_b, dims;
};

/* Of ROWS x COLUMNS distances at most, the ones from @row and @j on. */
STD_FMA_CLONES
static void distances(float *out, const float *a, const float *b, const struct distances_args *s,
		      uint64_t row, uint64_t j)
{
	uint64_t rows = least(ROWS, s->rows_a - row), end = least(j + COLUMNS, s->rows_b);
	float dist[ROWS][WIDE];

	for (; j < end; j += WIDE) {
		uint64_t m = least(WIDE, end - j);

		meet(dist, a + row * s->dims, rows, b + j * s->dims, m, s->dims);
		for (uint64_t i = 0; i < rows; i++)
			memcpy(out + (row + i) * s->rows_b + j, dist[i], m * sizeof(*out));
	}
}

/*
 * distances_f32(in f32 a[], in f32 b[], out f32 dist[], u32 rows_a, u32 rows_b, u32 dims):
 * dist is rows_a x rows_b; dealt to work-groups by blocks
 */
ARAX_KERNEL int arax_std_distances_f32(const struct arax_launch *l)
{
	uint64_t i, end, across;
	struct distances_args s;
	const float *a, *b;
	float *out;

	if (arax_launch_args(l, &s, sizeof(s)))
		return -EINVAL;
	a = ARAX_ITEMS(l, 0, (uint64_t)s.rows_a * s.dims, float);
	b = ARAX_ITEMS(l, 1, (uint64_t)s.rows_b * s.dims, float);
	out = ARAX_ITEMS(l, 2, (uint64_t)s.rows_a * s.rows_b, float);
	if (!a || !b || !out)
		return -EINVAL;
	if (!s.rows_b)		/* rows without end may have none */
		return 0;
	across = (s.rows_b - 1) / COLUMNS + 1;
	arax_launch_share(l, across * (((uint64_t)s.rows_a + ROWS - 1) / ROWS), &i, &end);
	for (; i < end; i++)
		distances(out, a, b, &s, i / across * ROWS, i % across * COLUMNS);
	return 0;
}

struct kmeans_args {
	uint32_t n, dims, k;
};

STD_FMA_CLONES
static void assign(uint32_t *label, const float *x, const float *center,
		   const struct kmeans_args *s,
		   uint64_t row, uint64_t end)
{
	float dist[ROWS][WIDE], best[ROWS];

	for (; row < end; row += ROWS) {
		uint64_t rows = least(ROWS, end - row);

		for (uint64_t i = 0; i < rows; i++) {
			label[row + i] = 0;
			best[i] = __builtin_inff();
		}
		for (uint64_t j = 0; j < s->k; j += WIDE) {
			uint64_t m = least(WIDE, s->k - j);

			meet(dist, x + row * s->dims, rows, center + j * s->dims, m, s->dims);
			for (uint64_t i = 0; i < rows; i++)
				for (uint64_t c = 0; c < m; c++)
					if (dist[i][c] < best[i]) {
						best[i] = dist[i][c];
						label[row + i] = (uint32_t)(j + c);
					}
		}
	}
}

/*
 * kmeans_assign(in f32 x[], in f32 center[], out u32 label[], u32 n, u32 dims, u32 k):
 * the nearest of k centers to each of n points, the first of equals
 */
ARAX_KERNEL int arax_std_kmeans_assign(const struct arax_launch *l)
{
	const float *x, *center;
	struct kmeans_args s;
	uint64_t row, end;
	uint32_t *label;

	if (arax_launch_args(l, &s, sizeof(s)) || !s.k || !s.dims)
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, (uint64_t)s.n * s.dims, float);
	center = ARAX_ITEMS(l, 1, (uint64_t)s.k * s.dims, float);
	label = ARAX_ITEMS(l, 2, s.n, uint32_t);
	if (!x || !center || !label)
		return -EINVAL;
	arax_launch_share(l, s.n, &row, &end);
	assign(label, x, center, &s, row, end);
	return 0;
}

/* Sums and counts of the clusters begin .. end - 1, of all points. */
static void add_up(double *sum, uint32_t *count, const float *x, const uint32_t *label,
		   const struct kmeans_args *s, uint64_t begin, uint64_t end)
{
	for (uint64_t i = 0; i < s->n; i++) {
		uint64_t c = std_once(&label[i]);

		if (c < begin || c >= end)
			continue;
		c = arax_index(c - begin, end - begin);
		count[c]++;
		for (uint64_t d = 0; d < s->dims; d++)
			sum[c * s->dims + d] += (double)x[i * s->dims + d];
	}
}

/*
 * kmeans_update(in f32 x[], in u32 label[], inout f32 center[], u32 n, u32 dims, u32 k):
 * each center becomes the mean of the points with its number, added up in f64; that of none
 * stays.  Labels of k and more are of no center.  Dealt to work-groups by centers.
 */
ARAX_KERNEL int arax_std_kmeans_update(const struct arax_launch *l)
{
	uint64_t begin, end, items;
	struct kmeans_args s;
	const uint32_t *label;
	uint32_t *count;
	const float *x;
	float *center;
	double *sum;

	if (arax_launch_args(l, &s, sizeof(s)) || !s.k || !s.dims)
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, (uint64_t)s.n * s.dims, float);
	label = ARAX_ITEMS(l, 1, s.n, uint32_t);
	center = ARAX_ITEMS(l, 2, (uint64_t)s.k * s.dims, float);
	if (!x || !label || !center)
		return -EINVAL;
	arax_launch_share(l, s.k, &begin, &end);
	if (begin == end)
		return 0;
	items = (end - begin) * s.dims;
	sum = std_scratch_zeros(items, sizeof(*sum));
	count = std_scratch_zeros(end - begin, sizeof(*count));
	if (!sum || !count) {
		std_scratch_free(count);
		std_scratch_free(sum);
		return -ENOMEM;
	}
	add_up(sum, count, x, label, &s, begin, end);
	for (uint64_t i = 0; i < items; i++)
		if (count[i / s.dims])
			center[begin * s.dims + i] = (float)(sum[i] / count[i / s.dims]);
	std_scratch_free(count);
	std_scratch_free(sum);
	return 0;
}
