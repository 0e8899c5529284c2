// SPDX-License-Identifier: MIT
/*
 * generate.c - random layered graphs, independent streams, tiled factorisations
 *
 *   layered	@layers of @width tasks, each reads @fan_in random results of the layer before
 *   streams	@width chains of @length tasks, each on a buffer of its own
 *   cholesky, lu  of @tiles x @tiles tiles of @tile x @tile doubles, a buffer each
 */
#include "daemon/sim/generate.h"

#include <string.h>

static uint64_t draw_work(const struct generate *g, struct rng *rng)
{
	return g->work_low + (g->work_high - g->work_low) * rng_between(rng, 0, 15) / 15;
}

static uint16_t draw_kernel(const struct generate *g, struct rng *rng)
{
	return g->kernels[rng_between(rng, 0, g->nr_kernels - 1)];
}

static void layered(struct sim_app *a, const struct generate *g, const uint16_t *kernels,
		    struct rng *rng)
{
	/* Two sets of results in turn, as a program with double buffers has. */
	for (uint64_t i = 0; i < 2 * g->width; i++)
		app_buffer(a, g->bytes);
	for (uint64_t l = 0; l < g->layers; l++) {
		uint32_t from = (uint32_t)(l % 2 ? 0 : g->width), to = (uint32_t)g->width - from;

		for (uint64_t i = 0; i < g->width; i++) {
			app_task(a, draw_kernel(g, rng), draw_work(g, rng));
			for (uint64_t k = 0; l && k < g->fan_in; k++)
				app_whole(a, from + (uint32_t)rng_between(rng, 0, g->width - 1),
					  ARAX_IN);
			app_whole(a, to + (uint32_t)i, ARAX_OUT);
		}
	}
}

static void streams(struct sim_app *a, const struct generate *g, const uint16_t *kernels,
		    struct rng *rng)
{
	for (uint64_t i = 0; i < g->width; i++)
		app_buffer(a, g->bytes);
	for (uint64_t l = 0; l < g->length; l++)
		for (uint64_t i = 0; i < g->width; i++) {
			app_task(a, draw_kernel(g, rng), draw_work(g, rng));
			app_whole(a, (uint32_t)i, ARAX_INOUT);
		}
}

/* A task on tiles: up to two that it reads, one that it changes. */
static void tiles(struct sim_app *a, const struct generate *g, uint16_t kernel, uint64_t x,
		  uint64_t y, uint64_t out)
{
	/* Each of them is cubic in the tile's side; how much so is the kernel's cost. */
	app_task(a, kernel, g->tile * g->tile * g->tile);
	if (x != SIM_ANY)
		app_whole(a, (uint32_t)x, ARAX_IN);
	if (y != SIM_ANY)
		app_whole(a, (uint32_t)y, ARAX_IN);
	app_whole(a, (uint32_t)out, ARAX_INOUT);
}

static void make_tiles(struct sim_app *a, const struct generate *g)
{
	for (uint64_t i = 0; i < g->tiles * g->tiles; i++)
		app_buffer(a, g->tile * g->tile * sizeof(double));
}

static void cholesky(struct sim_app *a, const struct generate *g, const uint16_t *kernels,
		     struct rng *rng)
{
	uint64_t n = g->tiles;

	make_tiles(a, g);
	for (uint64_t k = 0; k < n; k++) {
		tiles(a, g, kernels[0], SIM_ANY, SIM_ANY, k * n + k);
		for (uint64_t i = k + 1; i < n; i++)
			tiles(a, g, kernels[1], k * n + k, SIM_ANY, i * n + k);
		for (uint64_t i = k + 1; i < n; i++) {
			tiles(a, g, kernels[2], i * n + k, SIM_ANY, i * n + i);
			for (uint64_t j = k + 1; j < i; j++)
				tiles(a, g, kernels[3], i * n + k, j * n + k, i * n + j);
		}
	}
}

static void lu(struct sim_app *a, const struct generate *g, const uint16_t *kernels,
	       struct rng *rng)
{
	uint64_t n = g->tiles;

	make_tiles(a, g);
	for (uint64_t k = 0; k < n; k++) {
		tiles(a, g, kernels[0], SIM_ANY, SIM_ANY, k * n + k);
		for (uint64_t i = k + 1; i < n; i++) {
			tiles(a, g, kernels[1], k * n + k, SIM_ANY, k * n + i);
			tiles(a, g, kernels[1], k * n + k, SIM_ANY, i * n + k);
		}
		for (uint64_t i = k + 1; i < n; i++)
			for (uint64_t j = k + 1; j < n; j++)
				tiles(a, g, kernels[2], i * n + k, k * n + j, i * n + j);
	}
}

static const char *const no_kernels[] = { NULL };
static const char *const cholesky_kernels[] = { "potrf", "trsm", "syrk", "gemm", NULL };
static const char *const lu_kernels[] = { "getrf", "trsm", "gemm", NULL };

static const struct generator generators[] = {
	{ "layered", no_kernels, layered },
	{ "streams", no_kernels, streams },
	{ "cholesky", cholesky_kernels, cholesky },
	{ "lu", lu_kernels, lu },
};

static const struct generator *const others[] = {
	&generator_vec, &generator_bs, &generator_img, &generator_ml, &generator_hits,
	&generator_dl,
};

const struct generator *generator_find(const char *type)
{
	for (size_t i = 0; i < sizeof(generators) / sizeof(generators[0]); i++)
		if (!strcmp(generators[i].type, type))
			return &generators[i];
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(others[i]->type, type))
			return others[i];
	return NULL;
}

const char *generator_names(void)
{
	return "layered, streams, cholesky, lu, vec, bs, img, ml, hits, dl or trace";
}
