// SPDX-License-Identifier: MIT
/* Tile graphs as OpenMP tasks with `depend`. */
#include "tiles_peer.h"

#ifdef _OPENMP
#include "clock.h"

/* Not in the tasks themselves: an array literal there would be their parent's, and shared. */
static void call(const struct tile_graph *g, const struct tile_task *t, double *a, double *b,
		 double *c)
{
	double *tiles[TILE_RANGES] = { a, b, c };

	tile_call(g, t, tiles);
}

static uint64_t run_tasks(const struct tile_graph *g, double *matrix)
{
	uint64_t t0 = ticks();

	#pragma omp parallel num_threads(TILE_WORKERS)
	#pragma omp single
	for (size_t i = 0; i < g->nr_tasks; i++) {
		const struct tile_task *t = &g->tasks[i];
		double *a = tile_at(g, matrix, t->tiles[0]), *b = tile_at(g, matrix, t->tiles[1]);
		double *c = tile_at(g, matrix, t->tiles[2]);

		switch (tile_kernels[t->step].nr_ranges) {
		case 1:
			#pragma omp task depend(inout : a[0])
			call(g, t, a, b, c);
			break;
		case 2:
			#pragma omp task depend(in : a[0]) depend(inout : b[0])
			call(g, t, a, b, c);
			break;
		default:
			#pragma omp task depend(in : a[0], b[0]) depend(inout : c[0])
			call(g, t, a, b, c);
			break;
		}
	}
	return ticks() - t0;
}

const struct tile_runner tile_openmp = { .name = "OpenMP tasks", .run = run_tasks };
#else
static const char *absent(const char *home)
{
	return "the compiler has no OpenMP";
}

const struct tile_runner tile_openmp = { .name = "OpenMP tasks", .begin = absent };
#endif
