/* SPDX-License-Identifier: MIT */
/*
 * least.h - the least that some sums of which each is linear can all be kept below
 *
 *	least T such that	T >= constant + sum of weight[i] * x[i]	for each row
 *				low[i] <= x[i] <= high[i]
 *
 * A linear program by its dual: rows may be added while it is solved, and whatever comes of the
 * search, least_bound() is no more than T.
 */
#ifndef SIM_LEAST_H
#define SIM_LEAST_H

#include <stdbool.h>
#include <stdint.h>

struct least;

/* @nr variables, each between 0 and 1, and up to @rows rows at a time.  NULL: no memory */
struct least *least_make(uint32_t nr, uint32_t rows);
void least_free(struct least *l);
/* @value: the only one that variable @i may have; before the first row */
void least_fix(struct least *l, uint32_t i, double value);
/* For which others may go that T is above at present.  False: there are none, it is full. */
bool least_add(struct least *l, double constant, const double *weight);
/* By at most @steps steps; @x is where it came to.  How many it took. */
uint32_t least_solve(struct least *l, uint32_t steps, double *x);
/* No more than T, whatever rounding did. */
double least_bound(const struct least *l);

#endif /* SIM_LEAST_H */
