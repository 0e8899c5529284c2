/* SPDX-License-Identifier: MIT */
/*
 * prices.h - the prices by which what is cheapest costs most
 *
 *	most of f(q) where q[i] >= 0, the sum of q[i] is 1, and f(q) is the least of all c . q
 *
 * over more c than can be written down, of which for a given q the one that is least is found by
 * one look.  Whoever searches asks with the prices that prices_next() says, and hands in what
 * came of it.
 */
#ifndef SIM_PRICES_H
#define SIM_PRICES_H

#include <stdbool.h>
#include <stdint.h>

#define PRICES_MOST	17u
/* Answers that there is place for. */
#define PRICES_CUTS	256u

/**
 * struct prices - a search
 * @cut:	the c's so far, over @scale
 * @inverse, @value, @basic:	the basis, of @nr + 1 lines
 * @best:	f of @best_at, which no other so far was above
 * @above:	the least of @cut at the best prices for it
 * @next:	the prices that are to be asked with
 */
struct prices {
	uint32_t nr, cuts;
	double cut[PRICES_CUTS][PRICES_MOST];
	double inverse[PRICES_MOST + 1][PRICES_MOST + 1], value[PRICES_MOST + 1];
	uint32_t basic[PRICES_MOST + 1];
	double best, best_at[PRICES_MOST];
	double above, scale;
	double next[PRICES_MOST];
};

/* From @from, which need not add up to one. */
void prices_begin(struct prices *p, uint32_t nr, const double *from);
/* @c is the least one at p->next.  False: no other prices are better, or there is no more place. */
bool prices_next(struct prices *p, const double *c);
/* f is nowhere higher. */
double prices_above(const struct prices *p);

#endif /* SIM_PRICES_H */
