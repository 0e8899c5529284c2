/* SPDX-License-Identifier: MIT */
/* regress.c - weighted least squares; see regress.h */
#include "daemon/sched/regress.h"

#include <math.h>

#define TINY	.000000000001

/* What no run takes; a curve may run away. */
#define MOST_NS	((double)(1ull << 50))

/* y = a + b * x */
static bool line(const double *x, const double *y, const double *w, uint32_t nr, double *a,
		 double *b)
{
	double sw = 0, mx = 0, my = 0, sxx = 0, sxy = 0;

	for (uint32_t i = 0; i < nr; i++) {
		sw += w[i];
		mx += w[i] * x[i];
		my += w[i] * y[i];
	}
	if (!(sw > 0))
		return false;
	mx /= sw;
	my /= sw;
	for (uint32_t i = 0; i < nr; i++) {
		sxx += w[i] * (x[i] - mx) * (x[i] - mx);
		sxy += w[i] * (x[i] - mx) * (y[i] - my);
	}
	/* All of the same size. */
	if (!(sxx > TINY * sw * (mx * mx + TINY)))
		return false;
	*b = sxy / sxx;
	*a = my - *b * mx;
	return isfinite(*a) && isfinite(*b);
}

/* Time neither falls with work nor is below zero without any. */
static void tame_line(struct regress_fit *f, const double *x, const double *y, const double *w,
		      uint32_t nr)
{
	double sw = 0, my = 0, sxx = 0, sxy = 0;

	if (f->a >= 0 && f->b >= 0)
		return;
	for (uint32_t i = 0; i < nr; i++) {
		sw += w[i];
		my += w[i] * y[i];
		sxx += w[i] * x[i] * x[i];
		sxy += w[i] * x[i] * y[i];
	}
	if (f->b < 0) {
		f->a = my / sw;
		f->b = 0;
	} else {
		f->a = 0;
		f->b = sxy / sxx;
	}
}

static double error_of(const struct regress_fit *f, const struct regress_point *p, uint32_t nr)
{
	double sum = 0, sw = 0;

	for (uint32_t i = 0; i < nr; i++) {
		double off = regress_ns(f, p[i].work) / p[i].ns - 1;

		sum += p[i].weight * off * off;
		sw += p[i].weight;
	}
	return sqrt(sum / sw);
}

struct regress_fit regress(const struct regress_point *p, uint32_t nr)
{
	double x[REGRESS_POINTS], y[REGRESS_POINTS], w[REGRESS_POINTS];
	struct regress_fit l = { 0 }, e = { .power = true };
	bool has_line, has_power;

	if (nr < 2 || nr > REGRESS_POINTS)
		return (struct regress_fit){ 0 };
	l.least = INFINITY;
	for (uint32_t i = 0; i < nr; i++) {
		if (!(p[i].work >= 1) || !(p[i].ns > 0) || !(p[i].weight > 0))
			return (struct regress_fit){ 0 };
		l.least = fmin(l.least, p[i].work);
		l.most = fmax(l.most, p[i].work);
		x[i] = p[i].work;
		y[i] = p[i].ns;
		/* Relative errors are what counts, over many orders of magnitude. */
		w[i] = p[i].weight / (p[i].ns * p[i].ns);
	}
	l.points = nr;
	has_line = line(x, y, w, nr, &l.a, &l.b);
	if (has_line) {
		tame_line(&l, x, y, w, nr);
		l.error = error_of(&l, p, nr);
	}
	e.points = nr;
	e.least = l.least;
	e.most = l.most;
	for (uint32_t i = 0; i < nr; i++) {
		x[i] = log(p[i].work);
		y[i] = log(p[i].ns);
		w[i] = p[i].weight;
	}
	has_power = line(x, y, w, nr, &e.a, &e.b);
	if (has_power) {
		e.a = exp(e.a);
		has_power = e.b >= 0 && e.b <= 4 && isfinite(e.a);
		e.error = error_of(&e, p, nr);
	}
	if (has_line && (!has_power || l.error <= 1.25 * e.error + .001))
		return l;
	return has_power ? e : (struct regress_fit){ 0 };
}

double regress_ns(const struct regress_fit *f, double work)
{
	double ns;

	if (!f->points)
		return 0;
	ns = f->power ? f->a * pow(work, f->b) : f->a + f->b * work;
	return ns < 1 ? 1 : ns < MOST_NS ? ns : MOST_NS;
}

uint32_t regress_confidence(const struct regress_fit *f, double work)
{
	double c, beyond = 0;

	if (!f->points)
		return 0;
	c = f->points / (f->points + 1.0) / (1 + 4 * f->error);
	if (work < f->least)
		beyond = log2(f->least / work);
	else if (work > f->most)
		beyond = log2(work / f->most);
	return (uint32_t)(1000 * c / (1 + beyond / 4));
}
