// SPDX-License-Identifier: MIT
/*
 * prices.c - the prices by which what is cheapest costs most
 *
 * With the c's that are known so far it is a small linear program: the prices are the best for
 * the least of those, and that is no less than f can be.  Asking with these brings the next c
 * (Kelley's cutting planes).  Alone they leap from one corner to the other, hundreds of times where
 * there are 16 prices; so it is asked between them and the best ones so far (Ben-Ameur and
 * Neto, Acceleration of cutting-plane and column generation algorithms, Networks 49, 2007).
 *
 * The linear program is solved by its dual: the mean of c's, by weights that add up to one, of
 * which the largest part is least.  There each c is a column more, so one solution is where the
 * next begins: the revised simplex method, with the basis' inverse, and the prices are its
 * multipliers.  What rounding does to them does no harm: f is asked for, whatever they are.
 */
#include "daemon/sim/prices.h"

#include <math.h>
#include <string.h>

/* So near to the best ones of all, from 0 to 1, is asked; and where little is missing at 0. */
#define INWARD	0.7
#define LITTLE	1e-4
/* What is less is none. */
#define NEAR	1e-9
#define PIVOT	1e-11
#define STEPS	500

/* Columns: the weights of c's, what each part is below the largest one, and that one. */
#define SLACK	PRICES_CUTS
#define LARGEST	(SLACK + PRICES_MOST)

/*
 * In the basis' terms.  The lines: of each part the largest, less the mean, less its slack, is 0;
 * all weights are 1.
 */
static void express(const struct prices *p, uint32_t column, double *in)
{
	double of[PRICES_MOST + 1] = { 0 };

	if (column < SLACK) {
		for (uint32_t i = 0; i < p->nr; i++)
			of[i] = -p->cut[column][i];
		of[p->nr] = 1;
	} else if (column < LARGEST) {
		of[column - SLACK] = -1;
	} else {
		for (uint32_t i = 0; i < p->nr; i++)
			of[i] = 1;
	}
	for (uint32_t i = 0; i <= p->nr; i++) {
		in[i] = 0;
		for (uint32_t k = 0; k <= p->nr; k++)
			in[i] += p->inverse[i][k] * of[k];
	}
}

static void take_in(struct prices *p, uint32_t line, uint32_t column, const double *in)
{
	for (uint32_t k = 0; k <= p->nr; k++)
		p->inverse[line][k] /= in[line];
	p->value[line] /= in[line];
	for (uint32_t i = 0; i <= p->nr; i++) {
		if (i == line)
			continue;
		for (uint32_t k = 0; k <= p->nr; k++)
			p->inverse[i][k] -= in[i] * p->inverse[line][k];
		p->value[i] -= in[i] * p->value[line];
	}
	p->basic[line] = column;
}

/* All weight is the first c's, and its largest part is the largest. */
static void first_basis(struct prices *p)
{
	double in[PRICES_MOST + 1];
	uint32_t largest = 0;

	for (uint32_t i = 0; i <= p->nr; i++) {
		memset(p->inverse[i], 0, sizeof(p->inverse[i]));
		p->inverse[i][i] = 1;
		p->value[i] = i == p->nr;
		if (i < p->nr && p->cut[0][i] > p->cut[0][largest])
			largest = i;
	}
	express(p, 0, in);
	take_in(p, p->nr, 0, in);
	express(p, LARGEST, in);
	take_in(p, largest, LARGEST, in);
	for (uint32_t i = 0; i < p->nr; i++) {
		if (i == largest)
			continue;
		express(p, SLACK + i, in);
		take_in(p, i, SLACK + i, in);
	}
}

static uint32_t line_of_largest(const struct prices *p)
{
	uint32_t i = 0;

	while (p->basic[i] != LARGEST)
		i++;
	return i;
}

/* The one that makes the largest part smaller, most for its size; or LARGEST: none does. */
static uint32_t entering(const struct prices *p, const double *price)
{
	double least = -NEAR;
	uint32_t found = LARGEST;

	for (uint32_t c = 0; c < p->cuts; c++) {
		double cost = -price[p->nr];

		for (uint32_t i = 0; i < p->nr; i++)
			cost += price[i] * p->cut[c][i];
		if (cost < least) {
			least = cost;
			found = c;
		}
	}
	for (uint32_t i = 0; i < p->nr; i++)
		if (price[i] < least) {
			least = price[i];
			found = SLACK + i;
		}
	return found;
}

/* The line that is first at zero; @nr + 1: none is. */
static uint32_t leaving(const struct prices *p, const double *in, uint32_t largest)
{
	uint32_t found = p->nr + 1;
	double least = 0;

	for (uint32_t i = 0; i <= p->nr; i++) {
		double ratio;

		if (i == largest || in[i] <= PIVOT)
			continue;
		ratio = fmax(p->value[i], 0) / in[i];
		if (found > p->nr || ratio < least || (ratio <= least && in[i] > in[found])) {
			found = i;
			least = ratio;
		}
	}
	return found;
}

/* @price: where the known c's are best, adding up to one */
static void solve(struct prices *p, double *price)
{
	uint32_t largest = line_of_largest(p);
	double sum = 0;

	for (int step = 0; step < STEPS; step++) {
		double in[PRICES_MOST + 1];
		uint32_t column, line;

		p->above = p->value[largest];
		column = entering(p, p->inverse[largest]);
		if (column == LARGEST)
			break;
		express(p, column, in);
		line = leaving(p, in, largest);
		if (line > p->nr)
			break;
		take_in(p, line, column, in);
	}
	p->above = p->value[largest];
	for (uint32_t i = 0; i < p->nr; i++) {
		price[i] = fmax(p->inverse[largest][i], 0);
		sum += price[i];
	}
	for (uint32_t i = 0; i < p->nr; i++)
		price[i] = sum > 0 ? price[i] / sum : 1.0 / p->nr;
}

double prices_above(const struct prices *p)
{
	return p->above * p->scale;
}

void prices_begin(struct prices *p, uint32_t nr, const double *from)
{
	double sum = 0;

	p->nr = nr;
	p->cuts = 0;
	p->best = -1;
	p->above = HUGE_VAL;
	p->scale = 1;
	for (uint32_t i = 0; i < nr; i++)
		sum += from[i];
	for (uint32_t i = 0; i < nr; i++)
		p->next[i] = sum > 0 ? from[i] / sum : 1.0 / nr;
}

bool prices_next(struct prices *p, const double *c)
{
	double price[PRICES_MOST], f = 0, inward;

	for (uint32_t i = 0; i < p->nr; i++)
		f += c[i] * p->next[i];
	if (f > p->best) {
		p->best = f;
		memcpy(p->best_at, p->next, sizeof(p->next));
	}
	if (p->cuts == PRICES_CUTS || p->best <= 0)
		return false;
	if (!p->cuts)
		p->scale = f;
	for (uint32_t i = 0; i < p->nr; i++)
		p->cut[p->cuts][i] = c[i] / p->scale;
	if (!p->cuts++)
		first_basis(p);
	solve(p, price);
	if (prices_above(p) - p->best <= NEAR * p->best)
		return false;
	inward = prices_above(p) - p->best > LITTLE * p->best ? INWARD : 0;
	for (uint32_t i = 0; i < p->nr; i++)
		p->next[i] = inward * p->best_at[i] + (1 - inward) * price[i];
	return true;
}
