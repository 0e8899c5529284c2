/* SPDX-License-Identifier: MIT */
/*
 * The six benchmarks of GrCUDA's scheduler (Parravicini et al., arXiv 2012.09646)
 * on the kernels that come with Arax.
 */
#ifndef BENCH_SIX_H
#define BENCH_SIX_H

#include "flow.h"

#define SIX		6
#define SIX_SIZES	3

/**
 * struct six - one of them
 * @size:	from small to GrCUDA's own smallest, or what fits a bench's time
 * @make:	buffers, their contents, steps, the schedule by hand
 */
struct six {
	const char *name;
	uint32_t size[SIX_SIZES];
	void (*make)(struct flow *f, uint32_t size);
};

extern const struct six six[SIX];

void vec_make(struct flow *f, uint32_t n);
void bs_make(struct flow *f, uint32_t n);
void hits_make(struct flow *f, uint32_t n);
void img_make(struct flow *f, uint32_t n);
void ml_make(struct flow *f, uint32_t n);
void dl_make(struct flow *f, uint32_t n);

/* The same numbers on each machine, from 0 up to below 1. */
double six_random(void);
/* A buffer of @n of them, times @scale, plus @base. */
struct arax_buffer *six_floats(struct flow *f, uint64_t n, double base, double scale);

#endif
