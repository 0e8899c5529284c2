// SPDX-License-Identifier: MIT
/*
 * Running sums.  scan_* is one core's work.  On all cores it takes two launches:
 * sum_parts_* (see reduce.c), and scan_parts_* with these sums and as many parts, each
 * of which begins with the sums of those before it.
 */
#include "daemon/kernels/std/std.h"

int arax_std_scan_u32(const struct arax_launch *l);
int arax_std_scan_f32(const struct arax_launch *l);
int arax_std_scan_parts_u32(const struct arax_launch *l);
int arax_std_scan_parts_f32(const struct arax_launch *l);

#define RUNS	4u	/* side by side: one sum alone waits for itself */
#define RUN	256u	/* items of a run; a tile of runs stays in the first cache */
#define TILE	(RUNS * RUN)

struct scan_args {
	uint32_t n, exclusive;
};

struct scan_parts_args {
	struct std_parts p;
	uint32_t exclusive;
};

/* y[i] = sum of x up to i (of those before it: exclusive), on top of `sum`. */
#define SCAN(name, type, wide)							\
STD_INLINE wide name(type *y, const type *x, uint64_t n, wide sum, uint32_t exclusive) \
{										\
	for (uint64_t i = 0; i < n; i++) {					\
		wide next = sum + (wide)x[i];					\
										\
		y[i] = (type)(exclusive ? sum : next);				\
		sum = next;							\
	}									\
	return sum;								\
}										\
										\
/* The runs' own sums come first: each then knows where it begins. */		\
STD_INLINE wide name##_tile(type *y, const type *x, wide sum, uint32_t exclusive) \
{										\
	wide at[RUNS];								\
										\
	for (uint32_t r = 0; r < RUNS; r++) {					\
		wide part[8] = { 0 };						\
										\
		at[r] = sum;							\
		for (uint32_t i = 0; i < RUN; i += 8)				\
			for (uint32_t w = 0; w < 8; w++)			\
				part[w] += (wide)x[r * RUN + i + w];		\
		for (uint32_t w = 0; w < 8; w++)				\
			sum += part[w];						\
	}									\
	for (uint32_t i = 0; i < RUN; i++)					\
		for (uint32_t r = 0; r < RUNS; r++) {				\
			wide next = at[r] + (wide)x[r * RUN + i];		\
										\
			y[r * RUN + i] = (type)(exclusive ? at[r] : next);	\
			at[r] = next;						\
		}								\
	return sum;								\
}										\
										\
STD_CLONES									\
static void name##_all(type *y, const type *x, uint64_t n, wide sum, uint32_t exclusive) \
{										\
	uint64_t i = 0;								\
										\
	for (; i + TILE <= n; i += TILE)					\
		sum = exclusive ? name##_tile(y + i, x + i, sum, 1) :		\
				  name##_tile(y + i, x + i, sum, 0);		\
	name(y + i, x + i, n - i, sum, exclusive);				\
}

SCAN(scan_u32, uint32_t, uint32_t)
SCAN(scan_f32, float, double)

static int scan_bounds(const struct arax_launch *l, struct scan_args *a, const void **x, void **y)
{
	if (arax_launch_args(l, a, sizeof(*a)) || a->exclusive > 1)
		return -EINVAL;
	*x = arax_launch_items(l, 0, a->n, 4);
	*y = arax_launch_items(l, 1, a->n, 4);
	return *x && *y ? 0 : -EINVAL;
}

/* scan_u32(in u32 x[], out u32 y[], u32 n, u32 exclusive): modulo 2^32 */
ARAX_KERNEL int arax_std_scan_u32(const struct arax_launch *l)
{
	struct scan_args a;
	const void *x;
	void *y;

	if (scan_bounds(l, &a, &x, &y))
		return -EINVAL;
	scan_u32_all(y, x, a.n, 0, a.exclusive);
	return 0;
}

/* scan_f32(in f32 x[], out f32 y[], u32 n, u32 exclusive): the sum goes on in f64 */
ARAX_KERNEL int arax_std_scan_f32(const struct arax_launch *l)
{
	struct scan_args a;
	const void *x;
	void *y;

	if (scan_bounds(l, &a, &x, &y))
		return -EINVAL;
	scan_f32_all(y, x, a.n, 0, a.exclusive);
	return 0;
}

static int parts_bounds(const struct arax_launch *l, struct scan_parts_args *a, const void **x,
			const void **part, uint32_t part_size, void **y)
{
	if (arax_launch_args(l, a, sizeof(*a)) || a->exclusive > 1 || !a->p.parts)
		return -EINVAL;
	*x = arax_launch_items(l, 0, a->p.n, 4);
	*part = arax_launch_items(l, 1, a->p.parts, part_size);
	*y = arax_launch_items(l, 2, a->p.n, 4);
	return *x && *part && *y ? 0 : -EINVAL;
}

/*
 * scan_parts_u32(in u32 x[], in u32 part[], out u32 y[], u32 n, u32 parts, u32 exclusive):
 * part[] is of sum_parts_u32
 */
ARAX_KERNEL int arax_std_scan_parts_u32(const struct arax_launch *l)
{
	struct scan_parts_args a;
	const void *x, *part;
	uint32_t sum = 0;
	uint64_t p, end;
	void *y;

	if (parts_bounds(l, &a, &x, &part, sizeof(uint32_t), &y))
		return -EINVAL;
	arax_launch_share(l, a.p.parts, &p, &end);
	for (uint64_t i = 0; i < p; i++)
		sum += ((const uint32_t *)part)[i];
	for (; p < end; p++) {
		uint64_t from = std_part(&a.p, p), n = std_part(&a.p, p + 1) - from;

		scan_u32_all((uint32_t *)y + from, (const uint32_t *)x + from, n, sum, a.exclusive);
		sum += ((const uint32_t *)part)[p];
	}
	return 0;
}

/*
 * scan_parts_f32(in f32 x[], in f64 part[], out f32 y[], u32 n, u32 parts, u32 exclusive):
 * part[] is of sum_parts_f32
 */
ARAX_KERNEL int arax_std_scan_parts_f32(const struct arax_launch *l)
{
	struct scan_parts_args a;
	const void *x, *part;
	uint64_t p, end;
	double sum = 0;
	void *y;

	if (parts_bounds(l, &a, &x, &part, sizeof(double), &y))
		return -EINVAL;
	arax_launch_share(l, a.p.parts, &p, &end);
	for (uint64_t i = 0; i < p; i++)
		sum += ((const double *)part)[i];
	for (; p < end; p++) {
		uint64_t from = std_part(&a.p, p), n = std_part(&a.p, p + 1) - from;

		scan_f32_all((float *)y + from, (const float *)x + from, n, sum, a.exclusive);
		sum += ((const double *)part)[p];
	}
	return 0;
}
