/* SPDX-License-Identifier: MIT */
/*
 * area.h - the least time in which a machine can do some work, order left aside
 *
 * The linear program of Agullo, Beaumont, Eyraud-Dubois and Kumar (Are static schedules so bad?
 * A case study on Cholesky factorization, IPDPS 2016), which StarPU's bounds have too:
 *
 *	least T such that
 *	for each load:	the counts on all kinds of device add up to how many there are
 *	for each kind:	count * time, over all loads, is at most T * devices of the kind
 *	the chain:	count * time, over the loads of tasks that run one after the other,
 *			is at most T
 *
 * With the last line it is the mixed bound, without it the area bound.
 */
#ifndef SIM_AREA_H
#define SIM_AREA_H

#include "daemon/sim/scenario.h"

/**
 * struct load - tasks that are alike
 * @ns:		that one takes on each of the area's kinds, of the device's whole capacity; 0: not there
 * @alone_ns:	from its begin to its end
 * @least_ns:	of @ns; 0: nothing can run it
 * @chain:	they are in the chain
 */
struct load {
	uint64_t work;
	uint16_t kernel;
	bool chain;
	double ns[SIM_MAX_KINDS], alone_ns[SIM_MAX_KINDS], least_ns;
};

/* Of one load, so many tasks. */
struct pick {
	uint32_t load;
	double count;
};

/**
 * struct area - all loads
 * @devices:	of each kind of the scenario
 * @kinds:	those that have any
 * @picks:	what the prices are searched for with
 */
struct area {
	const struct scenario *sc;
	struct load *loads;
	uint32_t nr, size;
	uint32_t *table, mask;		/* of the loads' indices, + 1 */
	double devices[SIM_MAX_KINDS];
	uint32_t kinds[SIM_MAX_KINDS], nr_kinds;
	struct pick *picks;
	uint32_t nr_picks;
};

bool area_init(struct area *a, const struct scenario *sc);
/* The load that @t is one of, or SIM_ANY: there is no memory. */
uint32_t area_load(struct area *a, const struct sim_task *t, bool chain);
/*
 * T in ns for @count tasks of each load, or a little less; with @chain, or as if all could run
 * side by side.  Where it turns out that T is not above @beyond, anything that is not above it.
 */
double area_least_ns(struct area *a, const double *count, bool chain, double beyond);
/* About how many products that takes. */
double area_effort(const struct area *a);
void area_fini(struct area *a);

#endif /* SIM_AREA_H */
