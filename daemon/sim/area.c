// SPDX-License-Identifier: MIT
/*
 * area.c - the least time for some work
 *
 * By duality: give each kind of device a price for its time, and the chain one, such that a
 * second of the whole machine and of the chain costs one.  Then what all of the work costs, each
 * task where it is cheapest, is a bound from below, and the best prices give T itself: they are
 * searched for (prices.h).
 *
 * Where there are so many loads that to look at all of them each time took longer than to run
 * them, the prices are searched for with some of them: whatever the prices, what all of the work
 * costs by them is a bound.
 */
#include "daemon/sim/area.h"

#include <float.h>
#include <stdlib.h>

#include "daemon/sim/prices.h"
#include "daemon/sim/rng.h"

_Static_assert(PRICES_MOST > SIM_MAX_KINDS, "one for each kind, and the chain's");

/* At most so many times what a task costs on a kind is looked at. */
#define LOOKS	2e8

bool area_init(struct area *a, const struct scenario *sc)
{
	*a = (struct area){ .sc = sc, .mask = 255 };
	for (uint32_t i = 0; i < sc->nr_devices; i++)
		a->devices[sc->devices[i].kind]++;
	for (uint32_t k = 0; k < sc->nr_kinds; k++)
		if (a->devices[k] > 0)
			a->kinds[a->nr_kinds++] = k;
	a->table = calloc(a->mask + 1, sizeof(*a->table));
	return a->table;
}

void area_fini(struct area *a)
{
	free(a->loads);
	free(a->picks);
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
	struct load *loads = realloc(a->loads, size * sizeof(*loads));
	struct pick *picks = realloc(a->picks, size * sizeof(*picks));

	a->loads = loads ? loads : a->loads;
	a->picks = picks ? picks : a->picks;
	if (!table || !loads || !picks) {
		free(table);
		return false;
	}
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
	for (uint32_t k = 0; k < a->nr_kinds; k++) {
		uint32_t kind = a->kinds[k];

		l->alone_ns[k] = scenario_cost_ns(sc, t->kernel, kind, t->work) * (1 - sc->jitter);
		l->ns[k] = l->alone_ns[k] * sc->kernels[t->kernel].cost[kind].demand;
		if (l->ns[k] > 0 && (l->least_ns <= 0 || l->ns[k] < l->least_ns))
			l->least_ns = l->ns[k];
	}
	*p = ++a->nr;
	return a->nr - 1;
}

/* Each with all of its tasks; or false: there are too many loads, so some, for others as well. */
static bool take_loads(struct area *a, const double *count, uint32_t most)
{
	double all = 0, step, passed = 0, due;

	a->nr_picks = 0;
	for (uint32_t i = 0; i < a->nr; i++) {
		if (count[i] <= 0 || a->loads[i].least_ns <= 0)
			continue;
		a->picks[a->nr_picks++] = (struct pick){ i, count[i] };
		all += count[i] * a->loads[i].least_ns;
	}
	if (a->nr_picks <= most)
		return true;
	/* Each stands for as much work, by chance: loads may come in turns. */
	step = all / most;
	due = step * rng_unit(rng_mix(0));
	most = a->nr_picks;
	a->nr_picks = 0;
	for (uint32_t i = 0, n = 0; i < most; i++) {
		struct pick p = a->picks[i];
		double work = p.count * a->loads[p.load].least_ns;
		uint32_t times = 0;

		for (passed += work; passed > due; times++) {
			n++;
			due = step * (n + rng_unit(rng_mix(n)));
		}
		if (!times)
			continue;
		p.count *= times * step / work;
		a->picks[a->nr_picks++] = p;
	}
	return false;
}

/*
 * What of each kind's devices, and of the chain, goes to work if each task is where it costs least
 * by @share, which are the parts that all of a kind's devices have of what costs one.
 */
static void put_all(const struct area *a, const double *share, bool chain, double *used)
{
	double price[SIM_MAX_KINDS], chain_price = chain ? share[a->nr_kinds] : 0, chained = 0;

	for (uint32_t k = 0; k < a->nr_kinds; k++) {
		price[k] = share[k] / a->devices[a->kinds[k]];
		used[k] = 0;
	}
	for (uint32_t i = 0; i < a->nr_picks; i++) {
		const struct load *l = &a->loads[a->picks[i].load];
		double least = DBL_MAX;
		uint32_t at = 0;

		for (uint32_t k = 0; k < a->nr_kinds; k++) {
			double ns = l->ns[k], cost = ns * price[k];

			if (l->chain)
				cost += l->alone_ns[k] * chain_price;
			if (ns > 0 && cost < least) {
				least = cost;
				at = k;
			}
		}
		used[at] += l->ns[at] * a->picks[i].count;
		if (l->chain)
			chained += l->alone_ns[at] * a->picks[i].count;
	}
	for (uint32_t k = 0; k < a->nr_kinds; k++)
		used[k] /= a->devices[a->kinds[k]];
	if (chain)
		used[a->nr_kinds] = chained;
}

/* Prices that make each kind as dear, in the mean of what it can run, as the fastest one. */
static void guess(const struct area *a, double *share)
{
	double all[SIM_MAX_KINDS] = { 0 }, least[SIM_MAX_KINDS] = { 0 };

	for (uint32_t i = 0; i < a->nr_picks; i++) {
		const struct load *l = &a->loads[a->picks[i].load];

		for (uint32_t k = 0; k < a->nr_kinds; k++) {
			if (l->ns[k] <= 0)
				continue;
			all[k] += l->ns[k] * a->picks[i].count;
			least[k] += l->least_ns * a->picks[i].count;
		}
	}
	for (uint32_t k = 0; k < a->nr_kinds; k++)
		share[k] = all[k] > 0 ? a->devices[a->kinds[k]] * least[k] / all[k] : 0;
	share[a->nr_kinds] = 0;
}

double area_least_ns(struct area *a, const double *count, bool chain, double beyond)
{
	uint32_t nr = a->nr_kinds + chain, most = LOOKS / PRICES_CUTS / (a->nr_kinds + 1) + 1;
	double used[PRICES_MOST], share[PRICES_MOST], cost = 0;
	struct prices p;
	bool all;

	all = take_loads(a, count, most);
	if (!a->nr_picks)
		return 0;
	guess(a, share);
	prices_begin(&p, nr, share);
	do {
		put_all(a, p.next, chain, used);
	} while (prices_next(&p, used) && prices_above(&p) > beyond);
	if (all)
		return p.best;
	/* Of some of the loads it is no bound: of all of them, by whatever prices, it is. */
	take_loads(a, count, UINT32_MAX);
	put_all(a, p.best_at, chain, used);
	for (uint32_t i = 0; i < nr; i++)
		cost += p.best_at[i] * used[i];
	return cost;
}

double area_effort(const struct area *a)
{
	double all = (double)a->nr * a->nr_kinds * PRICES_CUTS / 4;

	return all < LOOKS ? all : LOOKS;
}
