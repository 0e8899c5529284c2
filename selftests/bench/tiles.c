// SPDX-License-Identifier: MIT
/* Tile Cholesky and tile LU: the tasks, their kernels and the matrix. */
#include "tiles.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "daemon/kernels/blas/blas.h"
#include "server.h"

#define SQUARE	sizeof(struct blas_square)
#define TRSM	sizeof(struct blas_trsm)
#define SYRK	sizeof(struct blas_syrk)
#define GEMM	sizeof(struct blas_gemm)

struct tile_kernel tile_kernels[TILE_STEPS] = {
	[STEP_POTRF] = { "potrf_f64", "arax_blas_potrf", 1, SQUARE, NULL },
	[STEP_TRSM_CHOLESKY] = { "trsm_f64", "arax_blas_trsm", 2, TRSM, NULL },
	[STEP_SYRK] = { "syrk_f64", "arax_blas_syrk", 2, SYRK, NULL },
	[STEP_GEMM_CHOLESKY] = { "gemm_f64", "arax_blas_gemm", 3, GEMM, NULL },
	[STEP_GETRF] = { "getrf_nopiv_f64", "arax_blas_getrf", 1, SQUARE, NULL },
	[STEP_TRSM_ROW] = { "trsm_f64", "arax_blas_trsm", 2, TRSM, NULL },
	[STEP_TRSM_COLUMN] = { "trsm_f64", "arax_blas_trsm", 2, TRSM, NULL },
	[STEP_GEMM_LU] = { "gemm_f64", "arax_blas_gemm", 3, GEMM, NULL },
};

_Static_assert(sizeof(struct blas_gemm) <= TILE_ARGS, "the longest arguments");

const char *tiles_open(void)
{
	static char why[512];
	char path[4200];
	void *library;
	int i;

	build_path(path, sizeof(path), "lib/arax/kernels/arax-blas.so");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(why, sizeof(why), "no kernel library arax-blas (Debian: libopenblas-openmp-dev, then make): %.300s",
			 dlerror());
		return why;
	}
	for (i = 0; i < TILE_STEPS; i++) {
		tile_kernels[i].fn = (arax_kernel_fn *)dlsym(library, tile_kernels[i].symbol);
		if (!tile_kernels[i].fn)
			bench_fail("%s: no %s", path, tile_kernels[i].symbol);
	}
	return NULL;
}

/* ------------------------------------------------------------------ */
/* The tasks                                                           */

static void make_args(struct tile_graph *g)
{
	const uint32_t n = g->tile;
	const struct blas_square square = { n, 0 };
	const struct blas_trsm cholesky = { 1, n, n, BLAS_RIGHT | BLAS_TRANS_A, 0 };
	const struct blas_trsm row = { 1, n, n, BLAS_UNIT, 0 };
	const struct blas_trsm column = { 1, n, n, BLAS_RIGHT | BLAS_UPPER, 0 };
	const struct blas_syrk syrk = { -1, 1, n, n, 0, 0 };
	const struct blas_gemm nt = { -1, 1, n, n, n, BLAS_TRANS_B };
	const struct blas_gemm nn = { -1, 1, n, n, n, 0 };

	memcpy(g->args[STEP_POTRF], &square, sizeof(square));
	memcpy(g->args[STEP_GETRF], &square, sizeof(square));
	memcpy(g->args[STEP_TRSM_CHOLESKY], &cholesky, sizeof(cholesky));
	memcpy(g->args[STEP_TRSM_ROW], &row, sizeof(row));
	memcpy(g->args[STEP_TRSM_COLUMN], &column, sizeof(column));
	memcpy(g->args[STEP_SYRK], &syrk, sizeof(syrk));
	memcpy(g->args[STEP_GEMM_CHOLESKY], &nt, sizeof(nt));
	memcpy(g->args[STEP_GEMM_LU], &nn, sizeof(nn));
}

static uint32_t number(const struct tile_graph *g, uint32_t m, uint32_t n)
{
	return m + n * g->across;
}

static void add(struct tile_graph *g, enum tile_step step, int k, int m, int n, uint32_t a,
		uint32_t b, uint32_t c)
{
	g->tasks[g->nr_tasks++] = (struct tile_task){
		step, 2 * (int)g->across - 2 * k - m - n, { a, b, c },
	};
}

static void cholesky_step(struct tile_graph *g, uint32_t k)
{
	uint32_t m, n, kk = number(g, k, k);
	int ik = (int)k;

	add(g, STEP_POTRF, ik, 0, 0, kk, 0, 0);
	for (m = k + 1; m < g->across; m++)
		add(g, STEP_TRSM_CHOLESKY, ik, (int)m, 0, kk, number(g, m, k), 0);
	for (n = k + 1; n < g->across; n++) {
		add(g, STEP_SYRK, ik, (int)n, (int)n, number(g, n, k), number(g, n, n), 0);
		for (m = n + 1; m < g->across; m++)
			add(g, STEP_GEMM_CHOLESKY, ik, (int)m, (int)n, number(g, m, k),
			    number(g, n, k), number(g, m, n));
	}
}

static void lu_step(struct tile_graph *g, uint32_t k)
{
	uint32_t m, n, kk = number(g, k, k);
	int ik = (int)k;

	add(g, STEP_GETRF, ik, 0, 0, kk, 0, 0);
	for (n = k + 1; n < g->across; n++)
		add(g, STEP_TRSM_ROW, ik, (int)n, 0, kk, number(g, k, n), 0);
	for (m = k + 1; m < g->across; m++)
		add(g, STEP_TRSM_COLUMN, ik, (int)m, 0, kk, number(g, m, k), 0);
	for (n = k + 1; n < g->across; n++)
		for (m = k + 1; m < g->across; m++)
			add(g, STEP_GEMM_LU, ik, (int)m, (int)n, number(g, m, k), number(g, k, n),
			    number(g, m, n));
}

void tile_graph_make(struct tile_graph *g, enum tile_kind kind, uint32_t order, uint32_t tile)
{
	size_t t = order / tile;
	uint32_t k;

	memset(g, 0, sizeof(*g));
	g->kind = kind;
	g->order = order;
	g->tile = tile;
	g->across = order / tile;
	/* No more than LU's: the sum of the squares from 1 to t. */
	g->tasks = calloc(t * (t + 1) * (2 * t + 1) / 6, sizeof(*g->tasks));
	if (!g->tasks)
		bench_fail("no memory for %zu tiles", t * t);
	make_args(g);
	for (k = 0; k < g->across; k++) {
		if (kind == TILE_CHOLESKY)
			cholesky_step(g, k);
		else
			lu_step(g, k);
	}
}

void tile_graph_free(struct tile_graph *g)
{
	free(g->tasks);
	g->tasks = NULL;
}

void tile_call(const struct tile_graph *g, const struct tile_task *t, double *const *tiles)
{
	const struct tile_kernel *k = &tile_kernels[t->step];
	struct arax_launch_range ranges[TILE_RANGES];
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = k->nr_ranges, .grid = { 1, 1, 1 },
		.block = { 1, 1, 1 }, .group_end = 1, .ranges = ranges, .args = g->args[t->step],
		.arg_len = k->arg_len,
	};
	uint32_t i;
	int err;

	for (i = 0; i < k->nr_ranges; i++)
		ranges[i] = (struct arax_launch_range){ tiles[i], tile_bytes(g), 0, 1 };
	err = k->fn(&l);
	if (err)
		bench_fail("%s: %s", k->name, strerror(-err));
}

/* ------------------------------------------------------------------ */
/* The matrix                                                          */

/* -1 to 1, as good as random. */
static double noise(uint64_t a, uint64_t b)
{
	uint64_t x = (a << 32 | b) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	return (double)(int32_t)(x >> 32) / 2147483648.0;
}

/* Symmetric for Cholesky; the diagonal outweighs its row. */
static double element(const struct tile_graph *g, uint32_t i, uint32_t j)
{
	if (i == j)
		return g->order;
	return g->kind == TILE_CHOLESKY && i < j ? noise(j, i) : noise(i, j);
}

static size_t place(const struct tile_graph *g, uint32_t i, uint32_t j)
{
	return (size_t)number(g, i / g->tile, j / g->tile) * g->tile * g->tile + i % g->tile +
	       (size_t)(j % g->tile) * g->tile;
}

void tiles_fill(const struct tile_graph *g, double *matrix)
{
	uint32_t m, n, i, j, t = g->tile;
	double *out = matrix;

	for (n = 0; n < g->across; n++)
		for (m = 0; m < g->across; m++)
			for (j = n * t; j < (n + 1) * t; j++)
				for (i = m * t; i < (m + 1) * t; i++)
					*out++ = element(g, i, j);
}

uint64_t tiles_hash(const struct tile_graph *g, const double *matrix)
{
	uint64_t i, word, hash[4] = { 1, 2, 3, 4 };

	/* Four at once: each alone would wait for its multiplication. */
	for (i = 0; i < (uint64_t)g->order * g->order; i++) {
		memcpy(&word, &matrix[i], sizeof(word));
		hash[i % 4] = (hash[i % 4] ^ word) * 0x9e3779b97f4a7c15ull;
		hash[i % 4] ^= hash[i % 4] >> 32;
	}
	return hash[0] ^ hash[1] * 3 ^ hash[2] * 5 ^ hash[3] * 7;
}

/* y = factor * x, the upper or lower one; of L^T what stands in L. */
static void multiply(const struct tile_graph *g, const double *matrix, int upper, const double *x,
		     double *y)
{
	int unit = g->kind == TILE_LU && !upper, mirrored = g->kind == TILE_CHOLESKY && upper;
	uint32_t i, j, r;
	double v;

	memset(y, 0, g->order * sizeof(*y));
	for (j = 0; j < g->order; j++) {
		y[j] += (unit ? 1 : matrix[place(g, j, j)]) * x[j];
		for (r = 1; r < g->order; r++) {
			/* Down or up from the diagonal. */
			if (upper && !mirrored) {
				if (r > j)
					break;
				i = j - r;
			} else {
				if (j + r >= g->order)
					break;
				i = j + r;
			}
			v = matrix[place(g, i, j)];
			if (mirrored)
				y[j] += v * x[i];
			else
				y[i] += v * x[j];
		}
	}
}

double tiles_residual(const struct tile_graph *g, const double *matrix)
{
	double *x = calloc(4 * (size_t)g->order, sizeof(*x)), *half, *y, *z;
	double worst = 0, most = 0, norm = 0, row;
	uint32_t i, j;

	if (!x)
		bench_fail("no memory for vectors of %u", g->order);
	half = x + g->order;
	y = half + g->order;
	z = y + g->order;
	for (i = 0; i < g->order; i++) {
		x[i] = noise(i, 0xfffffff);
		most = fmax(most, fabs(x[i]));
	}
	for (i = 0; i < g->order; i++) {
		row = 0;
		for (j = 0; j < g->order; j++) {
			y[i] += element(g, i, j) * x[j];
			row += fabs(element(g, i, j));
		}
		norm = fmax(norm, row);
	}
	multiply(g, matrix, 1, x, half);
	multiply(g, matrix, 0, half, z);
	for (i = 0; i < g->order; i++)
		worst = fmax(worst, isfinite(z[i]) ? fabs(y[i] - z[i]) : INFINITY);
	free(x);
	return worst / (norm * most * g->order * DBL_EPSILON);
}
