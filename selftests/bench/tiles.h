/* SPDX-License-Identifier: MIT */
/* Tile Cholesky and tile LU: the tasks, their kernels and the matrix, for whoever runs them. */
#ifndef BENCH_TILES_H
#define BENCH_TILES_H

#include <stddef.h>
#include <stdint.h>

#include <arax/kernel.h>

enum tile_kind { TILE_CHOLESKY, TILE_LU, TILE_KINDS };

/* A step of a factorization: one kernel of arax-blas with one choice of flags. */
enum tile_step {
	STEP_POTRF,		/* L(k,k) */
	STEP_TRSM_CHOLESKY,	/* L(m,k) */
	STEP_SYRK,		/* A(m,m) -= L(m,k) * L(m,k)^T */
	STEP_GEMM_CHOLESKY,	/* A(m,n) -= L(m,k) * L(n,k)^T */
	STEP_GETRF,		/* L(k,k), U(k,k) */
	STEP_TRSM_ROW,		/* U(k,n) */
	STEP_TRSM_COLUMN,	/* L(m,k) */
	STEP_GEMM_LU,		/* A(m,n) -= L(m,k) * U(k,n) */
	TILE_STEPS
};

#define TILE_RANGES	3	/* at most; the last is written, those before it are read */
#define TILE_ARGS	32

/**
 * struct tile_kernel - what a step calls
 * @name:	of the kernel for Arax
 * @symbol:	in arax-blas.so
 * @fn:		that, opened
 */
struct tile_kernel {
	const char *name;
	const char *symbol;
	uint32_t nr_ranges;
	uint32_t arg_len;
	arax_kernel_fn *fn;
};

extern struct tile_kernel tile_kernels[TILE_STEPS];

/**
 * struct tile_task - one task
 * @priority:	larger first: StarPU's own examples' (2 * tiles - 2 * k - m - n)
 * @tiles:	by number
 */
struct tile_task {
	enum tile_step step;
	int priority;
	uint32_t tiles[TILE_RANGES];
};

/**
 * struct tile_graph - a factorization, in the order in which it is submitted
 * @order:	of the matrix
 * @tile:	of a tile; divides @order
 * @across:	tiles in a row
 * @args:	of each step
 */
struct tile_graph {
	enum tile_kind kind;
	uint32_t order, tile, across;
	struct tile_task *tasks;
	size_t nr_tasks;
	uint8_t args[TILE_STEPS][TILE_ARGS] __attribute__((aligned(8)));
};

/* Opens arax-blas.so for direct calls.  NULL, or why there is none. */
const char *tiles_open(void);

void tile_graph_make(struct tile_graph *g, enum tile_kind kind, uint32_t order, uint32_t tile);
void tile_graph_free(struct tile_graph *g);

static inline uint64_t tile_bytes(const struct tile_graph *g)
{
	return (uint64_t)g->tile * g->tile * sizeof(double);
}

static inline double *tile_at(const struct tile_graph *g, double *matrix, uint32_t number)
{
	return matrix + (uint64_t)number * g->tile * g->tile;
}

/* Calls a task's kernel on @tiles, in this thread. */
void tile_call(const struct tile_graph *g, const struct tile_task *t, double *const *tiles);

/* Writes the matrix that is to be factorized: always the same. */
void tiles_fill(const struct tile_graph *g, double *matrix);
/* Of all bits. */
uint64_t tiles_hash(const struct tile_graph *g, const double *matrix);
/*
 * |A x - L (L^T x)| or |A x - L (U x)|, for an x as good as random, over
 * |A| |x| order epsilon: some units at most if @matrix holds A's factors.
 */
double tiles_residual(const struct tile_graph *g, const double *matrix);

#endif
