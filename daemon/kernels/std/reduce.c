// SPDX-License-Identifier: MIT
/*
 * Reductions.  Work-groups of one launch can't wait for each other, so those that give
 * one number are one core's work.  The *_parts kernels give one number for each of
 * `parts` pieces, on as many cores as there are: part p is of the items
 * p * n / parts .. (p + 1) * n / parts - 1, whatever the geometry.
 */
#include "daemon/kernels/std/std.h"

int arax_std_sum_f32(const struct arax_launch *l);
int arax_std_sum_f64(const struct arax_launch *l);
int arax_std_max_f32(const struct arax_launch *l);
int arax_std_min_f32(const struct arax_launch *l);
int arax_std_sum_diff(const struct arax_launch *l);
int arax_std_dot_f32(const struct arax_launch *l);
int arax_std_sum_parts_f32(const struct arax_launch *l);
int arax_std_sum_parts_u32(const struct arax_launch *l);
int arax_std_dot_parts_f32(const struct arax_launch *l);
int arax_std_max_parts_f32(const struct arax_launch *l);
int arax_std_min_parts_f32(const struct arax_launch *l);

#define WAYS 16	/* independent partial results, so that the loop vectorises */

STD_CLONES
static double sum_f32(const float *x, uint64_t n)
{
	double part[WAYS] = { 0 }, sum = 0;
	uint64_t i = 0;

	for (; i + WAYS <= n; i += WAYS)
		for (int w = 0; w < WAYS; w++)
			part[w] += (double)x[i + (uint64_t)w];
	for (; i < n; i++)
		sum += (double)x[i];
	for (int w = 0; w < WAYS; w++)
		sum += part[w];
	return sum;
}

/* sum_f32(in f32 x[], out f64 sum[], u32 n): sum[0], added up in f64 */
ARAX_KERNEL int arax_std_sum_f32(const struct arax_launch *l)
{
	const float *x;
	double *sum;
	uint64_t n;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	sum = ARAX_ITEMS(l, 1, 1, double);
	if (!x || !sum)
		return -EINVAL;
	*sum = sum_f32(x, n);
	return 0;
}

/* The greatest of sign * x; a NaN is never greater. */
STD_CLONES
static float extreme(const float *x, uint64_t n, float sign)
{
	float part[WAYS], best;
	uint64_t i = 0;

	for (int w = 0; w < WAYS; w++)
		part[w] = -__builtin_inff();
	for (; i + WAYS <= n; i += WAYS)
		for (int w = 0; w < WAYS; w++) {
			float v = sign * x[i + (uint64_t)w];

			part[w] = v > part[w] ? v : part[w];
		}
	best = part[0];
	for (int w = 1; w < WAYS; w++)
		best = part[w] > best ? part[w] : best;
	for (; i < n; i++)
		best = sign * x[i] > best ? sign * x[i] : best;
	return sign * best;
}

static int run_extreme(const struct arax_launch *l, float sign)
{
	const float *x;
	uint64_t n;
	float *out;

	if (std_items(l, &n) || !n)
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	out = ARAX_ITEMS(l, 1, 1, float);
	if (!x || !out)
		return -EINVAL;
	*out = extreme(x, n, sign);
	return 0;
}

/* max_f32(in f32 x[], out f32 max[], u32 n): max[0]; n at least 1 */
ARAX_KERNEL int arax_std_max_f32(const struct arax_launch *l)
{
	return run_extreme(l, 1);
}

/* min_f32(in f32 x[], out f32 min[], u32 n): min[0]; n at least 1 */
ARAX_KERNEL int arax_std_min_f32(const struct arax_launch *l)
{
	return run_extreme(l, -1);
}

STD_CLONES
static double sum_diff(const float *x, const float *y, uint64_t n)
{
	double part[WAYS] = { 0 }, sum = 0;
	uint64_t i = 0;

	for (; i + WAYS <= n; i += WAYS)
		for (uint64_t w = 0; w < WAYS; w++)
			part[w] += (double)(x[i + w] - y[i + w]);
	for (; i < n; i++)
		sum += (double)(x[i] - y[i]);
	for (int w = 0; w < WAYS; w++)
		sum += part[w];
	return sum;
}

/* sum_diff(in f32 x[], in f32 y[], inout f64 sum[], u32 n): sum[0] += sum of x - y */
ARAX_KERNEL int arax_std_sum_diff(const struct arax_launch *l)
{
	const float *x, *y;
	double *sum;
	uint64_t n;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	y = ARAX_ITEMS(l, 1, n, float);
	sum = ARAX_ITEMS(l, 2, 1, double);
	if (!x || !y || !sum)
		return -EINVAL;
	*sum += sum_diff(x, y, n);
	return 0;
}

STD_CLONES
static double dot(const float *x, const float *y, uint64_t n)
{
	double part[WAYS] = { 0 }, sum = 0;
	uint64_t i = 0;

	for (; i + WAYS <= n; i += WAYS)
		for (uint64_t w = 0; w < WAYS; w++)
			part[w] += (double)x[i + w] * (double)y[i + w];
	for (; i < n; i++)
		sum += (double)x[i] * (double)y[i];
	for (int w = 0; w < WAYS; w++)
		sum += part[w];
	return sum;
}

/* dot_f32(in f32 x[], in f32 y[], out f64 dot[], u32 n): dot[0], added up in f64 */
ARAX_KERNEL int arax_std_dot_f32(const struct arax_launch *l)
{
	const float *x, *y;
	double *out;
	uint64_t n;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	y = ARAX_ITEMS(l, 1, n, float);
	out = ARAX_ITEMS(l, 2, 1, double);
	if (!x || !y || !out)
		return -EINVAL;
	*out = dot(x, y, n);
	return 0;
}

STD_CLONES
static double sum_f64(const double *x, uint64_t n)
{
	double part[WAYS] = { 0 }, sum = 0;
	uint64_t i = 0;

	for (; i + WAYS <= n; i += WAYS)
		for (uint64_t w = 0; w < WAYS; w++)
			part[w] += x[i + w];
	for (; i < n; i++)
		sum += x[i];
	for (int w = 0; w < WAYS; w++)
		sum += part[w];
	return sum;
}

/* sum_f64(in f64 x[], out f64 sum[], u32 n): sum[0]; of parts, the whole */
ARAX_KERNEL int arax_std_sum_f64(const struct arax_launch *l)
{
	const double *x;
	double *sum;
	uint64_t n;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, double);
	sum = ARAX_ITEMS(l, 1, 1, double);
	if (!x || !sum)
		return -EINVAL;
	*sum = sum_f64(x, n);
	return 0;
}

/* ------------------------------------------------------------------ */
/* By parts                                                            */

/* sum_parts_f32(in f32 x[], out f64 part[], u32 n, u32 parts): added up in f64 */
ARAX_KERNEL int arax_std_sum_parts_f32(const struct arax_launch *l)
{
	struct std_parts a;
	uint64_t p, end;
	const float *x;
	double *part;

	if (std_parts(l, &a))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, a.n, float);
	part = ARAX_ITEMS(l, 1, a.parts, double);
	if (!x || !part)
		return -EINVAL;
	arax_launch_share(l, a.parts, &p, &end);
	for (; p < end; p++) {
		uint64_t from = std_part(&a, p);

		part[p] = sum_f32(x + from, std_part(&a, p + 1) - from);
	}
	return 0;
}

STD_CLONES
static uint32_t sum_u32(const uint32_t *x, uint64_t n)
{
	uint32_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += x[i];
	return sum;
}

/* sum_parts_u32(in u32 x[], out u32 part[], u32 n, u32 parts): modulo 2^32 */
ARAX_KERNEL int arax_std_sum_parts_u32(const struct arax_launch *l)
{
	struct std_parts a;
	uint64_t p, end;
	const uint32_t *x;
	uint32_t *part;

	if (std_parts(l, &a))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, a.n, uint32_t);
	part = ARAX_ITEMS(l, 1, a.parts, uint32_t);
	if (!x || !part)
		return -EINVAL;
	arax_launch_share(l, a.parts, &p, &end);
	for (; p < end; p++) {
		uint64_t from = std_part(&a, p);

		part[p] = sum_u32(x + from, std_part(&a, p + 1) - from);
	}
	return 0;
}

/* dot_parts_f32(in f32 x[], in f32 y[], out f64 part[], u32 n, u32 parts): added up in f64 */
ARAX_KERNEL int arax_std_dot_parts_f32(const struct arax_launch *l)
{
	const float *x, *y;
	struct std_parts a;
	uint64_t p, end;
	double *part;

	if (std_parts(l, &a))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, a.n, float);
	y = ARAX_ITEMS(l, 1, a.n, float);
	part = ARAX_ITEMS(l, 2, a.parts, double);
	if (!x || !y || !part)
		return -EINVAL;
	arax_launch_share(l, a.parts, &p, &end);
	for (; p < end; p++) {
		uint64_t from = std_part(&a, p);

		part[p] = dot(x + from, y + from, std_part(&a, p + 1) - from);
	}
	return 0;
}

static int extreme_parts(const struct arax_launch *l, float sign)
{
	struct std_parts a;
	uint64_t p, end;
	const float *x;
	float *part;

	if (std_parts(l, &a))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, a.n, float);
	part = ARAX_ITEMS(l, 1, a.parts, float);
	if (!x || !part)
		return -EINVAL;
	arax_launch_share(l, a.parts, &p, &end);
	for (; p < end; p++) {
		uint64_t from = std_part(&a, p);

		part[p] = extreme(x + from, std_part(&a, p + 1) - from, sign);
	}
	return 0;
}

/* max_parts_f32(in f32 x[], out f32 part[], u32 n, u32 parts): of no items, -infinity */
ARAX_KERNEL int arax_std_max_parts_f32(const struct arax_launch *l)
{
	return extreme_parts(l, 1);
}

/* min_parts_f32(in f32 x[], out f32 part[], u32 n, u32 parts): of no items, infinity */
ARAX_KERNEL int arax_std_min_parts_f32(const struct arax_launch *l)
{
	return extreme_parts(l, -1);
}
