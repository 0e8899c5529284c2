// SPDX-License-Identifier: MIT
/* vector.c, reduce.c, basic.c's null, blackscholes.c */
#include "selftests/unit/std_case.h"

struct n_args { uint32_t n; };
struct scaled_args { float s; uint32_t n; };
struct parts_args { uint32_t n, parts; };

static uint32_t items(const struct trial *t)
{
	return size_of(t, t->size == SIZE_HUGE ? 300007 : 3000);
}

static uint32_t n_of(const struct trial *t)
{
	return ARGS_OF(t, struct n_args)->n;
}

static void make_null(struct trial *t)
{
	uint64_t args[2] = { 1, 2 };

	add_floats(t, 3, -1, 1);
	add_floats(t, 5, -1, 1);
	set_args(t, &args);
}

static void check_null(const struct trial *t)
{
	trial_check_untouched(t, " by nothing");
}

static void make_n(struct trial *t, uint32_t in)
{
	struct n_args a = { items(t) };

	set_args(t, &a);
	for (uint32_t i = 0; i < in; i++)
		add_floats(t, a.n, -2, 2);
	add_holes(t, 4ull * a.n);
}

static void make_vadd(struct trial *t)
{
	make_n(t, 2);
}

/* One rounding: exact. */
static void check_vadd(const struct trial *t)
{
	for (uint32_t i = 0; i < n_of(t); i++)
		same(t, i, f32_at(t, 2, i), (float)(f32_at(t, 0, i) + f32_at(t, 1, i)));
}

static void make_square(struct trial *t)
{
	make_n(t, 1);
}

static void check_square(const struct trial *t)
{
	for (uint32_t i = 0; i < n_of(t); i++)
		same(t, i, f32_at(t, 1, i), (float)(f32_at(t, 0, i) * f32_at(t, 0, i)));
}

static void make_saxpy(struct trial *t)
{
	struct scaled_args a = { (float)uniform(-3, 3), items(t) };

	set_args(t, &a);
	add_floats(t, a.n, -2, 2);
	add_floats(t, a.n, -2, 2);
}

/* Two roundings of what is at most 8. */
static void check_saxpy(const struct trial *t)
{
	const struct scaled_args *a = ARGS_OF(t, struct scaled_args);

	for (uint32_t i = 0; i < a->n; i++)
		near(t, i, f32_at(t, 1, i), WAS(t, 1, float)[i] + (double)a->s * f32_at(t, 0, i),
		     1e-6);
}

static void make_triad(struct trial *t)
{
	make_saxpy(t);
	add_holes(t, 4ull * ARGS_OF(t, struct scaled_args)->n);
}

static void check_triad(const struct trial *t)
{
	const struct scaled_args *a = ARGS_OF(t, struct scaled_args);

	for (uint32_t i = 0; i < a->n; i++)
		near(t, i, f32_at(t, 2, i), f32_at(t, 0, i) + (double)a->s * f32_at(t, 1, i), 1e-6);
}

static void make_divide(struct trial *t)
{
	/* What divides, or its reciprocal, may be where a float can't be. */
	static const double scales[][2] = { { 1, 1 }, { 1e37, 1e37 }, { 1e-10, 1e-45 } };
	const double *scale = scales[t->size == SIZE_SOME ? trial_random(3) : 0];
	struct n_args a = { items(t) };
	float *x;

	set_args(t, &a);
	x = add_floats(t, a.n, -5, 5);
	for (uint32_t i = 0; i < a.n; i++)
		x[i] = (float)(x[i] * scale[0]);
	*add_doubles(t, 1, 0.5, 1e6) *= scale[1];
	add_holes(t, 4ull * a.n);
}

/* By the reciprocal: 2 ulp. */
static void check_divide(const struct trial *t)
{
	double by = RANGE(t, 1, double)[0];

	for (uint32_t i = 0; i < n_of(t); i++)
		near(t, i, f32_at(t, 2, i), f32_at(t, 0, i) / by,
		     fabs(f32_at(t, 0, i) / by) * 3e-7);
}

/* ------------------------------------------------------------------ */
/* Reductions: sums are within 1e-15 for each item, of what is at most 4   */

static void make_sum(struct trial *t)
{
	struct n_args a = { items(t) };

	set_args(t, &a);
	add_floats(t, a.n, -2, 2);
	add_holes(t, 8);
}

static void check_sum(const struct trial *t)
{
	double sum = 0;

	for (uint32_t i = 0; i < n_of(t); i++)
		sum += f32_at(t, 0, i);
	near(t, 0, RANGE(t, 1, double)[0], sum, 1e-15 * n_of(t));
}

static void make_sum_f64(struct trial *t)
{
	struct n_args a = { items(t) };

	set_args(t, &a);
	add_doubles(t, a.n, -2, 2);
	add_holes(t, 8);
}

static void check_sum_f64(const struct trial *t)
{
	double sum = 0;

	for (uint32_t i = 0; i < n_of(t); i++)
		sum += RANGE(t, 0, double)[i];
	/* Each step rounds a sum that grows with the root of n. */
	near(t, 0, RANGE(t, 1, double)[0], sum, 1e-15 * n_of(t) * (1 + sqrt(n_of(t)) / 4));
}

static void make_sum_diff(struct trial *t)
{
	struct n_args a = { items(t) };

	set_args(t, &a);
	add_floats(t, a.n, -1, 1);
	add_floats(t, a.n, -1, 1);
	add_doubles(t, 1, -3, 3);
}

static void check_sum_diff(const struct trial *t)
{
	double sum = WAS(t, 2, double)[0];

	for (uint32_t i = 0; i < n_of(t); i++)	/* each difference is an f32 */
		sum += (double)(RANGE(t, 0, float)[i] - RANGE(t, 1, float)[i]);
	near(t, 0, RANGE(t, 2, double)[0], sum, 1e-13 * (1 + n_of(t)));
}

static void make_dot(struct trial *t)
{
	struct n_args a = { items(t) };

	set_args(t, &a);
	add_floats(t, a.n, -2, 2);
	add_floats(t, a.n, -2, 2);
	add_holes(t, 8);
}

static void check_dot(const struct trial *t)
{
	double sum = 0;

	for (uint32_t i = 0; i < n_of(t); i++)
		sum += f32_at(t, 0, i) * f32_at(t, 1, i);
	near(t, 0, RANGE(t, 2, double)[0], sum, 1e-13 * n_of(t));
}

static void make_extreme(struct trial *t)
{
	struct n_args a = { items(t) };

	a.n = a.n ? a.n : 1;
	set_args(t, &a);
	add_nans(t, add_floats(t, a.n, -2, 2), a.n);
	add_holes(t, 4);
}

/* fmax() leaves NaN out. */
static double extreme(const struct trial *t, uint64_t i, uint64_t end, double sign)
{
	double best = -INFINITY;

	for (; i < end; i++)
		best = fmax(best, sign * f32_at(t, 0, i));
	return sign * best;
}

static void check_max(const struct trial *t)
{
	same(t, 0, f32_at(t, 1, 0), extreme(t, 0, n_of(t), 1));
}

static void check_min(const struct trial *t)
{
	same(t, 0, f32_at(t, 1, 0), extreme(t, 0, n_of(t), -1));
}

/* More parts than items among them. */
static struct parts_args parts_args(const struct trial *t)
{
	return (struct parts_args){ items(t), t->size == SIZE_HUGE ? 64 : 1 + trial_random(40) };
}

static void make_sum_parts(struct trial *t)
{
	struct parts_args a = parts_args(t);

	set_args(t, &a);
	add_floats(t, a.n, -2, 2);
	add_holes(t, 8ull * a.parts);
}

static void make_dot_parts(struct trial *t)
{
	struct parts_args a = parts_args(t);

	set_args(t, &a);
	add_floats(t, a.n, -2, 2);
	add_floats(t, a.n, -2, 2);
	add_holes(t, 8ull * a.parts);
}

static void make_extreme_parts(struct trial *t)
{
	struct parts_args a = parts_args(t);

	set_args(t, &a);
	add_nans(t, add_floats(t, a.n, -2, 2), a.n);
	add_holes(t, 4ull * a.parts);
}

static void make_sum_parts_u32(struct trial *t)
{
	struct parts_args a = parts_args(t);

	set_args(t, &a);
	add_words(t, a.n);
	add_holes(t, 4ull * a.parts);
}

static uint64_t part_begin(const struct parts_args *a, uint64_t p)
{
	return p * a->n / a->parts;
}

static void check_sum_parts(const struct trial *t)
{
	const struct parts_args *a = ARGS_OF(t, struct parts_args);

	for (uint64_t p = 0; p < a->parts; p++) {
		double sum = 0;

		for (uint64_t i = part_begin(a, p); i < part_begin(a, p + 1); i++)
			sum += f32_at(t, 0, i);
		near(t, p, RANGE(t, 1, double)[p], sum, 1e-15 * a->n);
	}
}

static void check_dot_parts(const struct trial *t)
{
	const struct parts_args *a = ARGS_OF(t, struct parts_args);

	for (uint64_t p = 0; p < a->parts; p++) {
		double sum = 0;

		for (uint64_t i = part_begin(a, p); i < part_begin(a, p + 1); i++)
			sum += f32_at(t, 0, i) * f32_at(t, 1, i);
		near(t, p, RANGE(t, 2, double)[p], sum, 1e-13 * a->n);
	}
}

static void check_sum_parts_u32(const struct trial *t)
{
	const struct parts_args *a = ARGS_OF(t, struct parts_args);

	for (uint64_t p = 0; p < a->parts; p++) {
		uint32_t sum = 0;

		for (uint64_t i = part_begin(a, p); i < part_begin(a, p + 1); i++)
			sum += RANGE(t, 0, uint32_t)[i];
		same(t, p, RANGE(t, 1, uint32_t)[p], sum);
	}
}

static void check_extreme_parts(const struct trial *t, double sign)
{
	const struct parts_args *a = ARGS_OF(t, struct parts_args);

	for (uint64_t p = 0; p < a->parts; p++)
		same(t, p, f32_at(t, 1, p),
		     extreme(t, part_begin(a, p), part_begin(a, p + 1), sign));
}

static void check_max_parts(const struct trial *t)
{
	check_extreme_parts(t, 1);
}

static void check_min_parts(const struct trial *t)
{
	check_extreme_parts(t, -1);
}

/* ------------------------------------------------------------------ */
/* Option prices                                                       */

struct prices_args { double rate, volatility, years, strike; uint32_t n; };

static void make_prices(struct trial *t)
{
	struct prices_args a = { uniform(0, 0.2), uniform(0.01, 1), uniform(0.1, 5),
				 uniform(1, 500),
				 t->size == SIZE_HUGE ? 40009 : items(t) };
	double *x;

	set_args(t, &a);
	x = add_doubles(t, a.n, 0, 1);
	for (uint32_t i = 0; i < a.n; i++)	/* from worthless to certain */
		x[i] = a.strike * exp(uniform(-1, 1) * (trial_random(2) ? 0.1 : 12));
	add_holes(t, 8ull * a.n);
}

static double price(double x, const struct prices_args *a)
{
	double spread = a->volatility * sqrt(a->years);
	double d = (log(x / a->strike) + (a->rate + a->volatility * a->volatility / 2) * a->years) /
		   spread;

	return x * erfc(-d / sqrt(2)) / 2 -
	       a->strike * exp(-a->rate * a->years) * erfc((spread - d) / sqrt(2)) / 2;
}

static void check_prices(const struct trial *t)
{
	const struct prices_args *a = ARGS_OF(t, struct prices_args);
	const double *x = RANGE(t, 0, double), *y = RANGE(t, 1, double);

	for (uint32_t i = 0; i < a->n; i++)
		near(t, i, y[i], price(x[i], a), 1e-13 * (x[i] + a->strike));
}

const struct std_case vector_cases[] = {
	{ "null", make_null, check_null, 0x3 },
	{ "vadd", make_vadd, check_vadd, 0 },
	{ "saxpy", make_saxpy, check_saxpy, 0 },
	{ "triad", make_triad, check_triad, 0 },
	{ "square", make_square, check_square, 0 },
	{ "divide", make_divide, check_divide, 0 },
	{ "sum_f32", make_sum, check_sum, 0 },
	{ "sum_f64", make_sum_f64, check_sum_f64, 0 },
	{ "sum_diff", make_sum_diff, check_sum_diff, 0 },
	{ "dot_f32", make_dot, check_dot, 0 },
	{ "max_f32", make_extreme, check_max, 0 },
	{ "min_f32", make_extreme, check_min, 0 },
	{ "sum_parts_f32", make_sum_parts, check_sum_parts, 0 },
	{ "sum_parts_u32", make_sum_parts_u32, check_sum_parts_u32, 0 },
	{ "dot_parts_f32", make_dot_parts, check_dot_parts, 0 },
	{ "max_parts_f32", make_extreme_parts, check_max_parts, 0 },
	{ "min_parts_f32", make_extreme_parts, check_min_parts, 0 },
	{ "black_scholes", make_prices, check_prices, 0 },
	{ 0 },
};
