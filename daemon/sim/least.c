// SPDX-License-Identifier: MIT
/*
 * least.c - a small linear program
 *
 * The dual simplex method with bounds, on a table.  Each row has a slack, and of all variables
 * with T as many are basic as there are rows: T always.  The table has these as sums of the
 * others, each of which is at one of its bounds.  T's line has a weight for each of those that
 * is not negative where the variable is at its lower bound, nor positive where it is at its upper
 * one: so as long as others are not within their bounds T is too low, and no better choice of
 * those that are in the table would make it lower.  One that isn't changes places with the one
 * by which T grows least.
 *
 * What is said in the end doesn't depend on that: the slacks' weights in T's line are
 * weights of the rows, which add up to one.  The mean of the rows by any such weights is below T
 * for each x, and its least value is easily found, as each x[i] goes by its own sign.
 */
#include "daemon/sim/least.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is nearer to a bound is at it; smaller ones are no pivots. */
#define NEAR	1e-9
#define PIVOT	1e-9

/* Basic ones: T is the first. */
#define LINE_OF_T	0u

/**
 * struct least - a program
 * @nr:		x's; @columns of the table: @nr + 1
 * @rows:	that there are, as many as the table has lines
 * @constant, @weight: of each row, in the place that its slack has
 * @taken:	the place
 * @base, @table: of each line
 * @basic:	of each line, @other: of each column: which variable.  x's first, then slacks; T is
 *		@nr + @most
 * @upper:	each column's is at its upper bound
 * @low, @high:	of x's
 * @value:	of each line, and of the columns
 */
struct least {
	uint32_t nr, columns, rows, most;
	double *constant, *weight;
	double *base, *table;
	uint32_t *basic, *other;
	bool *upper, *taken;
	double *low, *high;
	double *value, *at;
};

struct least *least_make(uint32_t nr, uint32_t rows)
{
	struct least *l = calloc(1, sizeof(*l));
	size_t columns = nr + 1ul;

	if (!l)
		return NULL;
	*l = (struct least){ .nr = nr, .columns = nr + 1, .most = rows };
	l->constant = calloc(rows, sizeof(double));
	l->weight = calloc(rows * columns, sizeof(double));
	l->base = calloc(rows, sizeof(double));
	l->table = calloc(rows * columns, sizeof(double));
	l->basic = calloc(rows, sizeof(*l->basic));
	l->other = calloc(columns, sizeof(*l->other));
	l->upper = calloc(columns, sizeof(*l->upper));
	l->taken = calloc(rows, sizeof(*l->taken));
	l->low = calloc(columns, sizeof(double));
	l->high = calloc(columns, sizeof(double));
	l->value = calloc(rows, sizeof(double));
	l->at = calloc(columns, sizeof(double));
	if (!l->constant || !l->weight || !l->base || !l->table || !l->basic || !l->other ||
	    !l->upper || !l->taken || !l->low || !l->high || !l->value || !l->at) {
		least_free(l);
		return NULL;
	}
	for (uint32_t i = 0; i < nr; i++)
		l->high[i] = 1;
	return l;
}

void least_free(struct least *l)
{
	if (!l)
		return;
	free(l->constant);
	free(l->weight);
	free(l->base);
	free(l->table);
	free(l->basic);
	free(l->other);
	free(l->upper);
	free(l->taken);
	free(l->low);
	free(l->high);
	free(l->value);
	free(l->at);
	free(l);
}

void least_fix(struct least *l, uint32_t i, double value)
{
	l->low[i] = value;
	l->high[i] = value;
}

static double *line(const struct least *l, uint32_t i)
{
	return l->table + (size_t)i * l->columns;
}

static double *row(const struct least *l, uint32_t i)
{
	return l->weight + (size_t)i * l->columns;
}

static double bound_of(const struct least *l, uint32_t variable, bool upper)
{
	return variable >= l->nr ? 0 : upper ? l->high[variable] : l->low[variable];
}

/* T is what this one says, with its slack; x's are where that makes it least. */
static void begin(struct least *l)
{
	l->base[LINE_OF_T] = l->constant[0];
	l->basic[LINE_OF_T] = l->nr + l->most;
	for (uint32_t i = 0; i < l->nr; i++) {
		line(l, LINE_OF_T)[i] = row(l, 0)[i];
		l->other[i] = i;
		l->upper[i] = row(l, 0)[i] < 0;
		l->at[i] = bound_of(l, i, l->upper[i]);
	}
	line(l, LINE_OF_T)[l->nr] = 1;
	l->other[l->nr] = l->nr;
}

static void find_values(struct least *l)
{
	for (uint32_t i = 0; i < l->rows; i++) {
		const double *of = line(l, i);
		double sum = l->base[i];

		for (uint32_t c = 0; c < l->columns; c++)
			sum += of[c] * l->at[c];
		l->value[i] = sum;
	}
}

/* Rows that T is above have their slack in the table, and nothing hangs on them. */
static void make_room(struct least *l)
{
	find_values(l);
	for (uint32_t i = l->rows - 1; i; i--) {
		uint32_t last = l->rows - 1;

		if (l->basic[i] < l->nr || l->value[i] <= NEAR * fabs(l->value[LINE_OF_T]))
			continue;
		l->taken[l->basic[i] - l->nr] = false;
		l->rows--;
		if (i == last)
			continue;
		memcpy(line(l, i), line(l, last), l->columns * sizeof(double));
		l->base[i] = l->base[last];
		l->basic[i] = l->basic[last];
		l->value[i] = l->value[last];
	}
}

bool least_add(struct least *l, double constant, const double *weight)
{
	uint32_t r, place = 0;
	double *to;

	if (l->rows == l->most)
		make_room(l);
	r = l->rows;
	if (r == l->most)
		return false;
	while (l->taken[place])
		place++;
	l->taken[place] = true;
	l->constant[place] = constant;
	memcpy(row(l, place), weight, l->nr * sizeof(*weight));
	l->rows++;
	if (!r) {
		begin(l);
		return true;
	}
	/* Its slack: T, less the sum; what is basic of that is a sum of others. */
	to = line(l, r);
	l->basic[r] = l->nr + place;
	l->base[r] = l->base[LINE_OF_T] - constant;
	memcpy(to, line(l, LINE_OF_T), l->columns * sizeof(*to));
	for (uint32_t c = 0; c < l->columns; c++)
		if (l->other[c] < l->nr)
			to[c] -= weight[l->other[c]];
	for (uint32_t i = 1; i < r; i++) {
		double w = l->basic[i] < l->nr ? weight[l->basic[i]] : 0;
		const double *from = line(l, i);

		if (w == 0)
			continue;
		l->base[r] -= w * l->base[i];
		for (uint32_t c = 0; c < l->columns; c++)
			to[c] -= w * from[c];
	}
	return true;
}

/* The line that is farthest out of its bounds, or 0: none is.  @above: the upper one */
static uint32_t worst(const struct least *l, bool *above)
{
	double most = NEAR, scale = fabs(l->value[LINE_OF_T]) + 1;
	uint32_t found = 0;

	for (uint32_t i = 1; i < l->rows; i++) {
		bool slack = l->basic[i] >= l->nr;
		double low = bound_of(l, l->basic[i], false) - l->value[i];
		double high = slack ? 0 : l->value[i] - bound_of(l, l->basic[i], true);

		/* Slacks are times, x's parts. */
		low = slack ? low / scale : low;
		if (low > most || high > most) {
			*above = high > low;
			most = high > low ? high : low;
			found = i;
		}
	}
	return found;
}

/* Whose turn it is where a line has to move: the one by which T grows least, of those not passed. */
static uint32_t cheapest(const struct least *l, uint32_t i, bool above)
{
	const double *of = line(l, i), *cost = line(l, LINE_OF_T);
	double least = 0, size = 0;
	uint32_t found = l->columns;

	for (uint32_t c = 0; c < l->columns; c++) {
		double by = above ? -of[c] : of[c], ratio;
		uint32_t v = l->other[c];

		if (v < l->nr && l->low[v] == l->high[v])
			continue;
		/* It can only move away from its bound. */
		if (l->upper[c] ? by > -PIVOT : by < PIVOT)
			continue;
		ratio = fabs(cost[c] / of[c]);
		if (found == l->columns || ratio < least - 1e-12 ||
		    (ratio <= least + 1e-12 && fabs(of[c]) > size)) {
			found = c;
			least = ratio;
			size = fabs(of[c]);
		}
	}
	return found;
}

/*
 * The column that brings line @i back within its bound at T's least cost; or @columns.  Those that
 * don't suffice, though they go all the way to their other bound, stay there.
 */
static uint32_t partner(struct least *l, uint32_t i, bool above)
{
	double out = above ? l->value[i] - bound_of(l, l->basic[i], true) :
			     bound_of(l, l->basic[i], false) - l->value[i];

	for (;;) {
		uint32_t c = cheapest(l, i, above), v = c < l->columns ? l->other[c] : 0;
		double all;

		if (c == l->columns || v >= l->nr)
			return c;
		all = fabs(line(l, i)[c]) * (l->high[v] - l->low[v]);
		if (all >= out)
			return c;
		out -= all;
		l->upper[c] = !l->upper[c];
		l->at[c] = bound_of(l, v, l->upper[c]);
	}
}

static void swap(struct least *l, uint32_t i, uint32_t c, bool above)
{
	double *of = line(l, i), pivot = of[c];
	uint32_t entering = l->other[c];

	for (uint32_t k = 0; k < l->columns; k++)
		of[k] /= -pivot;
	of[c] = 1 / pivot;
	l->base[i] /= -pivot;
	for (uint32_t k = 0; k < l->rows; k++) {
		double *to = line(l, k), times = to[c];

		if (k == i || times == 0)
			continue;
		to[c] = 0;
		for (uint32_t m = 0; m < l->columns; m++)
			to[m] += times * of[m];
		l->base[k] += times * l->base[i];
	}
	l->other[c] = l->basic[i];
	l->basic[i] = entering;
	l->upper[c] = above;
	l->at[c] = bound_of(l, l->other[c], above);
}

uint32_t least_solve(struct least *l, uint32_t steps, double *x)
{
	bool above = false;
	uint32_t taken = 0;

	for (; l->rows && taken < steps; taken++) {
		uint32_t i, c;

		find_values(l);
		i = worst(l, &above);
		if (!i)
			break;
		c = partner(l, i, above);
		if (c == l->columns)
			break;
		swap(l, i, c, above);
	}
	find_values(l);
	for (uint32_t c = 0; c < l->columns; c++)
		if (l->other[c] < l->nr)
			x[l->other[c]] = l->at[c];
	for (uint32_t i = 1; i < l->rows; i++)
		if (l->basic[i] < l->nr)
			x[l->basic[i]] = fmin(fmax(l->value[i], l->low[l->basic[i]]),
					      l->high[l->basic[i]]);
	return taken;
}

double least_bound(const struct least *l)
{
	const double *cost = line(l, LINE_OF_T);
	double sum = 0, all = 0, *mean;

	if (!l->rows)
		return 0;
	mean = calloc(l->columns, sizeof(*mean));
	if (!mean)
		return 0;
	for (uint32_t c = 0; c < l->columns; c++) {
		uint32_t r = l->other[c] - l->nr;

		if (l->other[c] < l->nr || cost[c] <= 0)
			continue;
		all += cost[c];
		sum += cost[c] * l->constant[r];
		for (uint32_t i = 0; i < l->nr; i++)
			mean[i] += cost[c] * row(l, r)[i];
	}
	for (uint32_t i = 0; i < l->nr; i++)
		sum += fmin(mean[i] * l->low[i], mean[i] * l->high[i]);
	free(mean);
	return all > 0 ? sum / all : 0;
}
