// SPDX-License-Identifier: MIT
/* Kernels on arrays of f32. */
#include "daemon/kernels/std/std.h"

int arax_std_vadd(const struct arax_launch *l);
int arax_std_saxpy(const struct arax_launch *l);
int arax_std_triad(const struct arax_launch *l);
int arax_std_square(const struct arax_launch *l);
int arax_std_sum_f32(const struct arax_launch *l);
int arax_std_max_f32(const struct arax_launch *l);
int arax_std_min_f32(const struct arax_launch *l);
int arax_std_sum_diff(const struct arax_launch *l);
int arax_std_dot_f32(const struct arax_launch *l);
int arax_std_divide(const struct arax_launch *l);

struct scaled {
	float s;
	uint32_t n;
};

STD_CLONES
static void vadd(float *c, const float *a, const float *b, uint64_t i, uint64_t end)
{
	for (; i < end; i++)
		c[i] = a[i] + b[i];
}

/* vadd(in f32 a[], in f32 b[], out f32 c[], u32 n): c = a + b */
ARAX_KERNEL int arax_std_vadd(const struct arax_launch *l)
{
	uint64_t n, begin, end;
	const float *a, *b;
	float *c;

	if (std_items(l, &n))
		return -EINVAL;
	a = ARAX_ITEMS(l, 0, n, float);
	b = ARAX_ITEMS(l, 1, n, float);
	c = ARAX_ITEMS(l, 2, n, float);
	if (!a || !b || !c)
		return -EINVAL;
	arax_launch_share(l, n, &begin, &end);
	vadd(c, a, b, begin, end);
	return 0;
}

STD_CLONES
static void saxpy(float *y, const float *x, float s, uint64_t i, uint64_t end)
{
	for (; i < end; i++)
		y[i] += s * x[i];
}

/* saxpy(in f32 x[], inout f32 y[], f32 a, u32 n): y += a * x */
ARAX_KERNEL int arax_std_saxpy(const struct arax_launch *l)
{
	struct scaled args;
	uint64_t begin, end;
	const float *x;
	float *y;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, args.n, float);
	y = ARAX_ITEMS(l, 1, args.n, float);
	if (!x || !y)
		return -EINVAL;
	arax_launch_share(l, args.n, &begin, &end);
	saxpy(y, x, args.s, begin, end);
	return 0;
}

STD_CLONES
static void triad(float *a, const float *b, const float *c, float s, uint64_t i, uint64_t end)
{
	for (; i < end; i++)
		a[i] = b[i] + s * c[i];
}

/* triad(in f32 b[], in f32 c[], out f32 a[], f32 s, u32 n): a = b + s * c */
ARAX_KERNEL int arax_std_triad(const struct arax_launch *l)
{
	struct scaled args;
	uint64_t begin, end;
	const float *b, *c;
	float *a;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	b = ARAX_ITEMS(l, 0, args.n, float);
	c = ARAX_ITEMS(l, 1, args.n, float);
	a = ARAX_ITEMS(l, 2, args.n, float);
	if (!a || !b || !c)
		return -EINVAL;
	arax_launch_share(l, args.n, &begin, &end);
	triad(a, b, c, args.s, begin, end);
	return 0;
}

/* square(in f32 x[], out f32 y[], u32 n): y = x * x */
ARAX_KERNEL int arax_std_square(const struct arax_launch *l)
{
	uint64_t n, begin, end;
	const float *x;
	float *y;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	y = ARAX_ITEMS(l, 1, n, float);
	if (!x || !y)
		return -EINVAL;
	arax_launch_share(l, n, &begin, &end);
	for (; begin < end; begin++)
		y[begin] = x[begin] * x[begin];
	return 0;
}

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
static void scale(float *y, const float *x, float s, uint64_t i, uint64_t end)
{
	for (; i < end; i++)
		y[i] = x[i] * s;
}

/* divide(in f32 x[], in f64 by[], out f32 y[], u32 n): y = x / by[0] */
ARAX_KERNEL int arax_std_divide(const struct arax_launch *l)
{
	uint64_t n, begin, end;
	const double *by;
	const float *x;
	float *y;

	if (std_items(l, &n))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, n, float);
	by = ARAX_ITEMS(l, 1, 1, double);
	y = ARAX_ITEMS(l, 2, n, float);
	if (!x || !by || !y)
		return -EINVAL;
	arax_launch_share(l, n, &begin, &end);
	scale(y, x, (float)(1 / *by), begin, end);
	return 0;
}
