/* SPDX-License-Identifier: MIT */
/* generate.h - applications of known shapes */
#ifndef SIM_GENERATE_H
#define SIM_GENERATE_H

#include "daemon/sim/rng.h"
#include "daemon/sim/scenario.h"

#define GENERATE_KERNELS	16

/**
 * struct generate - what an application is made of
 * @n:		by the type: see the table in generate.c
 * @kernels:	that the tasks take in turn (layered, streams)
 * @work_low, @work_high: work items of a task, one of 16 amounts between them
 * @bytes:	of each buffer
 */
struct generate {
	uint64_t layers, width, fan_in, length, tiles, tile, n, rounds;
	uint16_t kernels[GENERATE_KERNELS];
	uint32_t nr_kernels;
	uint64_t work_low, work_high;
	uint64_t bytes;
};

/**
 * struct generator - a type of application
 * @needs: names of the kernels that it uses, besides its own
 * @make:  adds the tasks; @kernels: indices of @needs
 */
struct generator {
	const char *type;
	const char *const *needs;
	void (*make)(struct sim_app *a, const struct generate *g, const uint16_t *kernels,
		     struct rng *rng);
};

/* NULL: there is no such type. */
const struct generator *generator_find(const char *type);
/* All their names, for messages. */
const char *generator_names(void);

/* grcuda.c */
extern const struct generator generator_vec, generator_bs, generator_img, generator_ml,
	generator_hits, generator_dl;

#endif /* SIM_GENERATE_H */
