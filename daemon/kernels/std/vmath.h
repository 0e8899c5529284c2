/* SPDX-License-Identifier: MIT */
/*
 * vmath.h - exp, log, cos and sin without a branch or a call, so that loops of them vectorise
 *
 * Rounding to an integer is by adding a number so large that its last bit counts
 * ones: the low bits of the sum then are that integer.
 */
#ifndef ARAX_STD_VMATH_H
#define ARAX_STD_VMATH_H

#include <float.h>

#include "daemon/kernels/std/std.h"

#define ROUND_F32	0x1.8p23f
#define ROUND_F64	0x1.8p52

/*
 * Within 2 ulp, and infinity above what there is.  From about -87 on down it is 0; NaN is NaN.
 * It is twice the polynomial, times 2^(n - 1): so n reaches as far up as floats do, and at the low
 * end the bits are those of 0.
 */
STD_INLINE float std_expf(float x)
{
	float shifted, n, r, p, scale;
	uint32_t bits;

	x = x < -87.0f ? -87.0f : x;
	x = x > 89.0f ? 89.0f : x;
	shifted = x * 0x1.715476p0f + ROUND_F32;
	n = shifted - ROUND_F32;
	/* ln 2 in two parts: the first has so few bits that its product is exact. */
	r = x - n * 0.693145751953125f;
	r = r - n * 1.428606765330187e-06f;
	p = 1.0f / 360;
	p = p * r + 1.0f / 60;
	p = p * r + 1.0f / 12;
	p = p * r + 1.0f / 3;
	p = p * r + 1;
	p = p * r + 2;
	p = p * r + 2;
	memcpy(&bits, &shifted, sizeof(bits));
	bits = (bits << 23) + (126u << 23);
	memcpy(&scale, &bits, sizeof(scale));
	return p * scale;
}

/* For x of -700 to 0: below, it stays at about 1e-304.  Within 2 ulp. */
STD_INLINE double std_exp_negative(double x)
{
	double shifted, n, r, p, scale;
	uint64_t bits;

	x = x < -700 ? -700 : x;
	shifted = x * 0x1.71547652b82fep0 + ROUND_F64;
	n = shifted - ROUND_F64;
	r = x - n * 0.6931471805582987;
	r = r - n * 1.646594958289708e-12;
	p = 1.0 / 479001600;
	p = p * r + 1.0 / 39916800;
	p = p * r + 1.0 / 3628800;
	p = p * r + 1.0 / 362880;
	p = p * r + 1.0 / 40320;
	p = p * r + 1.0 / 5040;
	p = p * r + 1.0 / 720;
	p = p * r + 1.0 / 120;
	p = p * r + 1.0 / 24;
	p = p * r + 1.0 / 6;
	p = p * r + 0.5;
	p = p * r + 1;
	p = p * r + 1;
	memcpy(&bits, &shifted, sizeof(bits));
	bits = (bits << 52) + (1023ull << 52);
	memcpy(&scale, &bits, sizeof(scale));
	return p * scale;
}

/*
 * x = m * 2^e with m around 1; log m is twice the series of artanh f, f = (m - 1) / (m + 1).
 * Of 0 and below it is that of the least normal number; x must be finite.
 */
STD_INLINE double std_log(double x)
{
	double m, e, f, s, p;
	uint64_t bits, exponent;

	x = x < DBL_MIN ? DBL_MIN : x;
	memcpy(&bits, &x, sizeof(bits));
	/* 2^52 + the exponent, as a number: 64-bit integers don't convert in vectors. */
	exponent = (bits >> 52) | 0x4330000000000000ull;
	memcpy(&e, &exponent, sizeof(e));
	e -= 0x1p52 + 1023;
	bits = (bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
	memcpy(&m, &bits, sizeof(m));
	e += m > 1.4142135623730951 ? 1 : 0;
	m *= m > 1.4142135623730951 ? 0.5 : 1;
	f = (m - 1) / (m + 1);
	s = f * f;
	p = 1.0 / 19;
	p = p * s + 1.0 / 17;
	p = p * s + 1.0 / 15;
	p = p * s + 1.0 / 13;
	p = p * s + 1.0 / 11;
	p = p * s + 1.0 / 9;
	p = p * s + 1.0 / 7;
	p = p * s + 1.0 / 5;
	p = p * s + 1.0 / 3;
	p = p * s + 1;
	return e * 0.6931471805599453 + 2 * f * p;
}

/*
 * cos and sin of t turns (2 pi t), t of 0 to 2^30; within 1e-15.  The nearest quarter is
 * taken off, and by its number the two change places and signs.
 */
STD_INLINE void std_turn(double t, double *cosine, double *sine)
{
	double shifted = t * 4 + ROUND_F64, r = t - (shifted - ROUND_F64) * 0.25, x, s, c, swap;
	uint64_t quarter;

	memcpy(&quarter, &shifted, sizeof(quarter));
	x = r * 6.283185307179586;
	r = x * x;
	s = -1.0 / 1307674368000;
	s = s * r + 1.0 / 6227020800;
	s = s * r - 1.0 / 39916800;
	s = s * r + 1.0 / 362880;
	s = s * r - 1.0 / 5040;
	s = s * r + 1.0 / 120;
	s = s * r - 1.0 / 6;
	s = s * r + 1;
	s = s * x;
	c = 1.0 / 20922789888000;
	c = c * r - 1.0 / 87178291200;
	c = c * r + 1.0 / 479001600;
	c = c * r - 1.0 / 3628800;
	c = c * r + 1.0 / 40320;
	c = c * r - 1.0 / 720;
	c = c * r + 1.0 / 24;
	c = c * r - 0.5;
	c = c * r + 1;
	swap = quarter & 1 ? s : c;
	s = quarter & 1 ? c : s;
	c = (quarter + 1) & 2 ? -swap : swap;
	*sine = quarter & 2 ? -s : s;
	*cosine = c;
}

#endif /* ARAX_STD_VMATH_H */
