// SPDX-License-Identifier: MIT
/* Kernels on arrays of f32. */
#include "daemon/kernels/std/std.h"

int arax_std_vadd(const struct arax_launch *l);
int arax_std_saxpy(const struct arax_launch *l);
int arax_std_triad(const struct arax_launch *l);
int arax_std_square(const struct arax_launch *l);
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

/* In f64: the factor, or its reciprocal, may be beyond f32 where the results are not. */
STD_CLONES
static void scale(float *y, const float *x, double s, uint64_t i, uint64_t end)
{
	for (; i < end; i++)
		y[i] = (float)((double)x[i] * s);
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
	scale(y, x, 1 / *by, begin, end);
	return 0;
}
