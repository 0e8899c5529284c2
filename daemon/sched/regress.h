/* SPDX-License-Identifier: MIT */
/* regress.h - run time as a function of work, from the means of some sizes */
#ifndef ARAXD_SCHED_REGRESS_H
#define ARAXD_SCHED_REGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define REGRESS_POINTS	64

struct regress_point {
	double work;
	double ns;
	double weight;
};

/**
 * struct regress_fit - a curve
 * @power:	ns = a * work^b; else ns = a + b * work
 * @error:	root mean square of the relative deviations of the points
 * @points:	0: there is none
 * @least, @most: work that was seen
 */
struct regress_fit {
	bool power;
	double a, b;
	double error;
	uint32_t points;
	double least, most;
};

/*
 * Of the two forms the one that is nearer to the points, relatively: the line unless the
 * power is clearly better.  Two points of different work at least.
 */
struct regress_fit regress(const struct regress_point *p, uint32_t nr);

/* 0 if there is no curve. */
double regress_ns(const struct regress_fit *f, double work);

/*
 * How far to believe it, 0 to 1000: less with few points, points off the curve, and the
 * farther @work is from what was seen.
 */
uint32_t regress_confidence(const struct regress_fit *f, double work);

#endif /* ARAXD_SCHED_REGRESS_H */
