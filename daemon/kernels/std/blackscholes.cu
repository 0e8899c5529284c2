// SPDX-License-Identifier: MIT
/* blackscholes.c for GPUs, with the device's own exp and log: within 1e-13 as well. */
#include <float.h>

#include "std_gpu.h"

/* Cumulative normal distribution: see blackscholes.c. */
static __device__ double normal(double d)
{
	double a = d < 0 ? -d : d, e, num, den, tail;

	a = a > 37 ? 37 : a;
	e = exp(-0.5 * a * a);
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

ARAX_GPU_KERNEL arax_std_black_scholes(const double *x, uint64_t nx, double *y, uint64_t ny,
				       double rate, double volatility, double years, double strike,
				       uint32_t n, arax_gpu_result result)
{
	double drift = (rate + 0.5 * volatility * volatility) * years;
	double spread = volatility * sqrt(years), discounted = strike * exp(-rate * years);

	if (result.canceled())
		return;
	if (!(volatility > 0) || !(years > 0) || !(strike > 0) || SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n) {
		double ratio = x[i] * (1 / strike);
		/* Of 0 and below, as of the least normal number. */
		double d1 = (log(ratio > DBL_MIN ? ratio : DBL_MIN) + drift) * (1 / spread);

		y[i] = x[i] * normal(d1) - discounted * normal(d1 - spread);
	}
}
