/* SPDX-License-Identifier: MIT */
/* Others that run the same tile graphs: each in a process of its own. */
#ifndef BENCH_TILES_PEER_H
#define BENCH_TILES_PEER_H

#include "tiles.h"

/**
 * struct tile_runner - runs a graph in this process
 * @begin:	once.  NULL, or why it can't be
 * @prepare, @end: before and after each @run, not timed; may be NULL
 * @run:	all of its tasks, to their end; ticks
 */
struct tile_runner {
	const char *name;
	const char *(*begin)(const char *home);
	void (*prepare)(const struct tile_graph *g, double *matrix);
	uint64_t (*run)(const struct tile_graph *g, double *matrix);
	void (*end)(const struct tile_graph *g);
};

extern const struct tile_runner tile_sequential;
extern const struct tile_runner tile_openmp;
extern const struct tile_runner tile_starpu;

#define TILE_WORKERS	2

/* What came of a run; the residual only if its bits were not those of the last good one. */
struct tile_result {
	uint64_t ticks;
	uint64_t hash;
	double residual;
};

struct tile_peer;

/* @home: a folder for its files.  NULL, and @why set: there is no such peer. */
struct tile_peer *tile_peer_start(const struct tile_runner *runner, const char *home,
				  const char **why);
/* @good: a hash of the right result, 0 if none is known. */
struct tile_result tile_peer_run(struct tile_peer *p, enum tile_kind kind, uint32_t order,
				 uint32_t tile, uint64_t good);
void tile_peer_stop(struct tile_peer *p);

/* The rest of a run, in any process. */
struct tile_result tile_judge(const struct tile_graph *g, const double *matrix, uint64_t ticks,
			      uint64_t good);

#endif
