// SPDX-License-Identifier: MIT
/*
 * area.c - the least time for some work
 *
 * By duality: give each kind of device a price for its time, and the chain one, such that a
 * second of the whole machine and of the chain costs one.  Then what all of the work costs, each
 * task where it is cheapest, is a bound from below, and the best prices give T itself.  They
 * are searched for: the chain's by golden section, the kinds' for two of them at a time.  With
 * two kinds in all the best are found, with more the bound may be a little low, but never wrong.
 *
 * Of more than two kinds there are many pairs.  Where there are so many loads that to look at all
 * of them each time took longer than to run them, the prices are searched for with some of them:
 * whatever the prices, what all of the work costs by them is a bound.
 */
#include "daemon/sim/area.h"

#include <float.h>
#include <stdlib.h>

#include "daemon/sim/rng.h"

#define GOLDEN	0.6180339887498949
/* Each leaves GOLDEN of where the best may be. */
#define STEPS	28
/* Products that the kinds' prices may take where there are many of them. */
#define MANY	5e7

bool area_init(struct area *a, const struct scenario *sc)
{
	*a = (struct area){ .sc = sc, .mask = 255 };
	for (uint32_t i = 0; i < sc->nr_devices; i++)
		a->devices[sc->devices[i].kind]++;
	a->table = calloc(a->mask + 1, sizeof(*a->table));
	return a->table;
}

void area_fini(struct area *a)
{
	free(a->loads);
	free(a->table);
	*a = (struct area){ 0 };
}

static uint32_t *place_of(const struct area *a, uint64_t work, uint16_t kernel, bool chain)
{
	uint64_t h = rng_hash(work, kernel, chain);

	for (;; h++) {
		uint32_t *p = &a->table[h & a->mask];
		const struct load *l;

		if (!*p)
			return p;
		l = &a->loads[*p - 1];
		if (l->work == work && l->kernel == kernel && l->chain == chain)
			return p;
	}
}

static bool make_room(struct area *a)
{
	uint32_t size = a->size ? 2 * a->size : 64;
	uint32_t *table = calloc(4ul * size, sizeof(*table)), *old = a->table;
	struct load *loads = table ? realloc(a->loads, size * sizeof(*loads)) : NULL;

	if (!loads) {
		free(table);
		return false;
	}
	a->loads = loads;
	a->size = size;
	a->table = table;
	a->mask = 4 * size - 1;
	free(old);
	for (uint32_t i = 0; i < a->nr; i++)
		*place_of(a, loads[i].work, loads[i].kernel, loads[i].chain) = i + 1;
	return true;
}

uint32_t area_load(struct area *a, const struct sim_task *t, bool chain)
{
	const struct scenario *sc = a->sc;
	uint32_t *p = place_of(a, t->work, t->kernel, chain);
	struct load *l;

	if (*p)
		return *p - 1;
	if (a->nr == a->size) {
		if (!make_room(a))
			return SIM_ANY;
		p = place_of(a, t->work, t->kernel, chain);
	}
	l = &a->loads[a->nr];
	*l = (struct load){ .work = t->work, .kernel = t->kernel, .chain = chain };
	for (uint32_t k = 0; k < sc->nr_kinds; k++) {
		if (a->devices[k] <= 0)
			continue;
		l->alone_ns[k] = scenario_cost_ns(sc, t->kernel, k, t->work) * (1 - sc->jitter);
		l->ns[k] = l->alone_ns[k] * sc->kernels[t->kernel].cost[k].demand;
	}
	*p = ++a->nr;
	return a->nr - 1;
}

/* One of a->stride, by chance: loads may come in turns. */
static uint32_t step_from(const struct area *a, uint32_t i)
{
	return a->stride > 1 ? 1 + (uint32_t)(rng_mix(i) % (2ull * a->stride - 1)) : 1;
}

/* What all of the work costs. */
static double cost_of_all(const struct area *a)
{
	double sum = 0;

	for (uint32_t i = 0; i < a->nr; i += step_from(a, i)) {
		const struct load *l = &a->loads[i];
		double least = DBL_MAX;

		if (a->count[i] <= 0)
			continue;
		for (uint32_t k = 0; k < a->sc->nr_kinds; k++) {
			double cost = l->ns[k] * a->price[k] +
				      (l->chain ? l->alone_ns[k] * a->chain_price : 0);

			if (l->ns[k] > 0 && cost < least)
				least = cost;
		}
		sum += least < DBL_MAX ? least * a->count[i] : 0;
	}
	return sum;
}

/**
 * struct search - for the best of a price
 * @at:	the value where it is set to a part of 1, from 0 to 1
 */
struct search {
	struct area *a;
	uint32_t x, y;
	double all;
	double (*at)(struct search *s, double part);
};

/* What is concave has one hill. */
static double climb(struct search *s)
{
	double low = 0, high = 1, left = high - GOLDEN, right = low + GOLDEN;
	double l = s->at(s, left), r = s->at(s, right);

	for (int i = 0; i < STEPS; i++) {
		if (l < r) {
			low = left;
			left = right;
			l = r;
			right = low + GOLDEN * (high - low);
			r = s->at(s, right);
		} else {
			high = right;
			right = left;
			r = l;
			left = high - GOLDEN * (high - low);
			l = s->at(s, left);
		}
	}
	return s->at(s, l > r ? left : right);
}

/* Between two kinds, what both cost as it is. */
static double shift(struct search *s, double part)
{
	s->a->price[s->x] = s->all * part / s->a->devices[s->x];
	s->a->price[s->y] = s->all * (1 - part) / s->a->devices[s->y];
	return cost_of_all(s->a);
}

/* One round of pairs is enough for two kinds. */
static uint32_t rounds_of(const struct area *a, uint32_t *kinds)
{
	*kinds = 0;
	for (uint32_t k = 0; k < a->sc->nr_kinds; k++)
		*kinds += a->devices[k] > 0;
	return *kinds > 2 ? 4 : 1;
}

/* Of the kinds' prices. */
static double effort_of_kinds(const struct area *a)
{
	uint32_t kinds, rounds = rounds_of(a, &kinds);
	double pairs = kinds * (kinds - 1.0) / 2;

	return (1 + rounds * pairs * STEPS) * a->nr * kinds;
}

double area_effort(const struct area *a)
{
	return effort_of_kinds(a) * STEPS;
}

/* The kinds' prices, if all of them together have @all. */
static double best_of_kinds(struct area *a, double all)
{
	uint32_t nr = a->sc->nr_kinds, kinds, rounds = rounds_of(a, &kinds);
	double best;

	for (uint32_t k = 0; k < nr; k++)
		a->price[k] = a->devices[k] > 0 ? all / (a->devices[k] * kinds) : 0;
	best = cost_of_all(a);
	for (uint32_t round = 0; round < rounds; round++)
		for (uint32_t x = 0; x < nr; x++)
			for (uint32_t y = x + 1; y < nr; y++) {
				struct search s = { .a = a, .x = x, .y = y, .at = shift };
				double value;

				if (a->devices[x] <= 0 || a->devices[y] <= 0)
					continue;
				s.all = a->price[x] * a->devices[x] + a->price[y] * a->devices[y];
				value = climb(&s);
				best = value > best ? value : best;
			}
	return best;
}

static double with_chain(struct search *s, double part)
{
	s->a->chain_price = part;
	return best_of_kinds(s->a, 1 - part);
}

double area_least_ns(struct area *a, const double *count, bool chain)
{
	struct search s = { .a = a, .at = with_chain };
	double best, value, effort = effort_of_kinds(a);
	uint32_t kinds;

	a->count = count;
	a->chain_price = 0;
	a->stride = !chain && rounds_of(a, &kinds) > 1 && effort > MANY ?
		    1 + (uint32_t)(effort / MANY) : 1;
	best = best_of_kinds(a, 1);
	if (a->stride > 1) {
		a->stride = 1;
		best = cost_of_all(a);
	}
	if (!chain)
		return best;
	value = climb(&s);
	return value > best ? value : best;
}
