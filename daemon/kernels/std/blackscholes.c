// SPDX-License-Identifier: MIT
/* Option prices. */
#include <math.h>

#include "daemon/kernels/std/vmath.h"

int arax_std_black_scholes(const struct arax_launch *l);

struct black_scholes_args {
	double rate, volatility, years, strike;
	uint32_t n;
};

/* The same for all items of a launch. */
struct terms {
	double per_strike;	/* 1 / strike */
	double drift;
	double spread, per_spread;
	double discounted;	/* the strike's value today */
};

/*
 * Cumulative normal distribution: Hart's rational function for the tail, good to
 * 1e-15, without his continued fraction beyond 7: there the rational one is still
 * right to 1e-15 of 1, if no longer of itself.
 */
STD_INLINE double normal(double d)
{
	double a = d < 0 ? -d : d, e, num, den, tail;

	a = a > 37 ? 37 : a;
	e = std_exp_negative(-0.5 * a * a);
	num = 0.0352624965998911;
	num = num * a + 0.700383064443688;
	num = num * a + 6.37396220353165;
	num = num * a + 33.912866078383;
	num = num * a + 112.079291497871;
	num = num * a + 221.213596169931;
	num = num * a + 220.206867912376;
	den = 0.0883883476483184;
	den = den * a + 1.75566716318264;
	den = den * a + 16.064177579207;
	den = den * a + 86.7807322029461;
	den = den * a + 296.564248779674;
	den = den * a + 637.333633378831;
	den = den * a + 793.826512519948;
	den = den * a + 440.413735824752;
	tail = e * num / den;
	return d > 0 ? 1 - tail : tail;
}

STD_CLONES
static void black_scholes(double *y, const double *x, const struct terms *of, uint64_t i,
			  uint64_t end)
{
	const struct terms t = *of;

	for (; i < end; i++) {
		double d1 = (std_log(x[i] * t.per_strike) + t.drift) * t.per_spread;

		y[i] = x[i] * normal(d1) - t.discounted * normal(d1 - t.spread);
	}
}

/*
 * black_scholes(in f64 x[], out f64 y[], f64 rate, f64 volatility, f64 years, f64 strike, u32 n):
 * y = price of a European call on a share that is at x, by Black and Scholes; to 1e-13 of
 * share and strike
 */
ARAX_KERNEL int arax_std_black_scholes(const struct arax_launch *l)
{
	struct black_scholes_args args;
	uint64_t begin, end;
	struct terms t;
	const double *x;
	double *y;

	if (arax_launch_args(l, &args, sizeof(args)) || !(args.volatility > 0) ||
	    !(args.years > 0) || !(args.strike > 0))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, args.n, double);
	y = ARAX_ITEMS(l, 1, args.n, double);
	if (!x || !y)
		return -EINVAL;
	t.per_strike = 1 / args.strike;
	t.drift = (args.rate + 0.5 * args.volatility * args.volatility) * args.years;
	t.spread = args.volatility * sqrt(args.years);
	t.per_spread = 1 / t.spread;
	t.discounted = args.strike * exp(-args.rate * args.years);
	arax_launch_share(l, args.n, &begin, &end);
	black_scholes(y, x, &t, begin, end);
	return 0;
}
