/* SPDX-License-Identifier: MIT */
/*
 * rodinia.h - nine programs of the Rodinia suite, and what they run on
 *
 * A program makes its buffers and launches its kernels on a machine, and does not see
 * which: Arax (arax.c), or an OpenCL queue of the bench's own (selftests/bench), which is
 * what Arax is compared with.  Launches take effect as if one after the other; ro_wait()
 * is before the program itself looks at a buffer.
 *
 * The algorithms are those of S. Che et al., "Rodinia: A benchmark suite for heterogeneous
 * computing", IISWC 2009, and of the suite's descriptions; code and inputs are ours.
 */
#ifndef EXAMPLES_RODINIA_H
#define EXAMPLES_RODINIA_H

#include <stdbool.h>

#include <arax/arax.h>

#include "daemon/kernels/rodinia/shape.h"

enum ro_kernel {
	RO_BFS_START, RO_BFS_LEVEL, RO_GAUSS_COLUMN, RO_GAUSS_ROWS, RO_HOTSPOT, RO_HOTSPOT3D,
	RO_LAVAMD, RO_NN_DISTANCE, RO_NN_NEAREST, RO_NW, RO_PF_MOVE, RO_PF_WEIGH, RO_PF_TOTAL,
	RO_PF_RESAMPLE, RO_PATHFINDER, RO_KERNELS
};

extern const char *const ro_kernel_names[RO_KERNELS];

/* ------------------------------------------------------------------ */
/* Machines                                                              */

struct ro_buffer {
	void *data;
	uint64_t bytes;
	void *own;		/* the machine's */
};

struct ro_range {
	const struct ro_buffer *buffer;
	uint32_t access;	/* ARAX_IN, ARAX_OUT, ARAX_INOUT */
	uint64_t offset, length;
};

#define RO_MAX_BUFFERS	16
#define RO_MAX_RANGES	6

struct ro_machine;

/* Each returns 0, or sets m->why and returns a negative errno. */
struct ro_machine_ops {
	int (*create)(struct ro_machine *m, struct ro_buffer *b);
	void (*destroy)(struct ro_machine *m, struct ro_buffer *b);
	int (*launch)(struct ro_machine *m, enum ro_kernel kernel, const struct arax_grid *grid,
		      const void *args, size_t arg_len, const struct ro_range *ranges,
		      uint32_t nr_ranges);
	int (*wait)(struct ro_machine *m);
};

/**
 * struct ro_machine - the part that programs know
 * @error:	the first failure; after it nothing more is done
 * @why:	about it
 * @tasks:	launched since ro_run() began
 */
struct ro_machine {
	const struct ro_machine_ops *ops;
	int error;
	char why[256];
	uint64_t tasks;
	struct ro_buffer buffers[RO_MAX_BUFFERS];
	uint32_t nr_buffers;
};

/* Zeroed, and the machine's until ro_end(); after a failure NULL. */
struct ro_buffer *ro_buffer(struct ro_machine *m, uint64_t bytes);
void ro_launch(struct ro_machine *m, enum ro_kernel kernel, struct arax_grid grid, const void *args,
	       size_t arg_len, const struct ro_range *ranges, uint32_t nr_ranges);
void ro_wait(struct ro_machine *m);
void ro_fail(struct ro_machine *m, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define RO_RANGES(...)	((const struct ro_range[]){ __VA_ARGS__ }), \
			(uint32_t)(sizeof((const struct ro_range[]){ __VA_ARGS__ }) / \
				   sizeof(struct ro_range))

static inline struct ro_range ro_part(const struct ro_buffer *b, uint32_t access, uint64_t offset,
				      uint64_t length)
{
	return (struct ro_range){ b, access, offset, length };
}

static inline struct ro_range ro_in(const struct ro_buffer *b)
{
	return ro_part(b, ARAX_IN, 0, b->bytes);
}

static inline struct ro_range ro_out(const struct ro_buffer *b)
{
	return ro_part(b, ARAX_OUT, 0, b->bytes);
}

static inline struct ro_range ro_inout(const struct ro_buffer *b)
{
	return ro_part(b, ARAX_INOUT, 0, b->bytes);
}

/* Groups and work-items of one. */
struct arax_grid ro_grid(uint64_t gx, uint64_t gy, uint64_t gz, uint16_t x, uint16_t y, uint16_t z);
/* In a row, of @each work-items, for @items. */
struct arax_grid ro_row(uint64_t items, uint16_t each);

/* ------------------------------------------------------------------ */
/* Programs                                                              */

struct ro_params {
	uint32_t size, steps;
	uint64_t seed;
};

/**
 * struct ro_verdict - a result beside the sequential version's
 * @error:	the worst; NaN is worse than all
 * @tolerance:	what is allowed; 0: none
 * @what:	what @error is
 */
struct ro_verdict {
	double error, tolerance;
	const char *what;
	uint64_t compared;
};

/**
 * struct ro_program - one of the nine
 * @size, @steps: unless said; the least, the most
 * @size_is, @steps_are: for people
 * @bench_size, @bench_steps: of a run of about a second
 * @make:	buffers and inputs; returns its state (free()), NULL after a failure
 * @reset:	inputs that a run overwrites, as they were; or NULL
 * @run:	all launches, without waiting for the last of them
 * @check:	against the sequential version, which it computes
 */
struct ro_program {
	const char *name, *what, *size_is, *steps_are;
	uint32_t size, size_least, size_most;
	uint32_t steps, steps_most;
	uint32_t bench_size, bench_steps;
	void *(*make)(struct ro_machine *m, const struct ro_params *p);
	void (*reset)(void *state);
	void (*run)(struct ro_machine *m, void *state);
	struct ro_verdict (*check)(void *state);
	void (*free)(void *state);
};

#define RO_PROGRAMS	9

extern const struct ro_program *const ro_programs[RO_PROGRAMS];

const struct ro_program *ro_find(const char *name);
/* Whether a run of this size can be; else says why on @why. */
bool ro_sizes(const struct ro_program *p, const struct ro_params *params, char *why, size_t len);
/* Launch all and wait for the end. */
void ro_run(struct ro_machine *m, const struct ro_program *p, void *state);
/* Gives the program's buffers back. */
void ro_end(struct ro_machine *m);

static inline bool ro_passes(const struct ro_verdict *v)
{
	return v->error <= v->tolerance;	/* not if it is NaN */
}

/* ------------------------------------------------------------------ */
/* For the programs                                                      */

/* Memory of the program's own, zeroed; after a failure NULL. */
void *ro_alloc(struct ro_machine *m, size_t n, size_t bytes);
uint64_t ro_random(uint64_t *state);
/* Of [low, high). */
float ro_uniform(uint64_t *state, float low, float high);
/* Integers that differ. */
struct ro_verdict ro_compare_i32(const int32_t *got, const int32_t *wanted, uint64_t n,
				 const char *what);
/* The greatest difference, in units of @scale. */
double ro_worst(const float *got, const double *wanted, uint64_t n, double scale);

#endif
