/* SPDX-License-Identifier: MIT */
/* Programs on more data than a device holds, as lists of steps on pieces of arrays. */
#ifndef BENCH_OUTOFCORE_H
#define BENCH_OUTOFCORE_H

#include <arax/arax.h>
#include <stdbool.h>
#include <stdint.h>

#define OOC_PIECES	3
#define OOC_ARRAYS	3
/* Drivers for CPUs make vectors of a single item's loop. */
#define OOC_GROUPS	16
#define OOC_GROUP_ITEMS	1

/**
 * struct ooc_piece - bytes of an array that a step uses
 * @id:		of these bytes in the program; no two pieces overlap in part
 * @access:	ARAX_IN, ARAX_OUT, ARAX_INOUT
 */
struct ooc_piece {
	uint32_t array;
	uint32_t id;
	uint64_t offset;
	uint64_t bytes;
	uint32_t access;
};

struct ooc_step {
	struct ooc_piece pieces[OOC_PIECES];
};

/**
 * struct ooc_bytes - what has to be moved
 * @any_order:	each byte that is read once to the device, each result once back
 * @this_order:	with the steps one after the other as they stand: at the end of each turn
 *		the device has at most its memory's worth of what the next turn uses again
 */
struct ooc_bytes {
	uint64_t any_order;
	uint64_t this_order;
};

/**
 * struct ooc_program - all steps are of one kernel, with the same arguments
 * @nr_pieces:	of each step
 * @data:	bytes of all arrays
 * @work:	bytes that all steps touch, added up
 * @result:	the array that counts at the end
 */
struct ooc_program {
	const char *name;
	const char *kernel;
	uint32_t nr_arrays, nr_pieces, nr_steps, nr_ids;
	uint64_t arrays[OOC_ARRAYS];
	struct ooc_step *steps;
	uint32_t args[3];
	uint32_t arg_len;
	uint32_t result;
	uint64_t data;
	uint64_t work;
	struct ooc_bytes in, out;
	/* Of who made it. */
	uint32_t passes, side, tile, dims;
};

#define OOC_PROGRAMS	2

/*
 * Which: 0: stream: four passes of y += 2 x, chunk by chunk; nothing is used again before
 * all else was.  1: pairs: squared distances of all pairs of rows of two matrices, tile by
 * tile; a tile is used in many steps.  About @times what a device of @memory bytes holds.
 */
void ooc_make(struct ooc_program *p, int which, uint64_t memory, double times);
void ooc_free(struct ooc_program *p);

/* The arrays as they are before the first step.  Small whole numbers: all sums are exact. */
void ooc_fill(const struct ooc_program *p, float *const *arrays);
/* The first wrong element of the result, by closed forms; -1: all are right. */
int64_t ooc_check(const struct ooc_program *p, const float *result);

/* ------------------------------------------------------------------ */

struct ooc_memory;

/**
 * struct ooc_machine - a device, by hand
 * @in, @out:	copies; may be called beside run()
 */
struct ooc_machine {
	const char *name;
	struct ooc_memory *(*alloc)(struct ooc_machine *m, uint64_t bytes);
	void (*free)(struct ooc_machine *m, struct ooc_memory *mem);
	void (*in)(struct ooc_machine *m, struct ooc_memory *to, const void *from, uint64_t bytes);
	void (*out)(struct ooc_machine *m, void *to, struct ooc_memory *from, uint64_t bytes);
	void (*run)(struct ooc_machine *m, const struct ooc_program *p,
		    struct ooc_memory *const *pieces, const struct ooc_step *step);
	void (*close)(struct ooc_machine *m);
	int cpu;		/* where its threads are; -1: anywhere */
};

/* Core @cpu; its memory is the host's, its copies are memcpy(). */
struct ooc_machine *ooc_cpu_open(int cpu);
/* The first OpenCL device.  NULL: @why says why not. */
struct ooc_machine *ooc_cl_open(char *why, size_t len);

/*
 * The program as somebody writes it for this device alone.  If it @fits: all pieces stay.  Else
 * with two sets of pieces, one of which is written back and filled by a second thread while
 * the other is worked on.  ns from the first copy to the last.
 */
double ooc_by_hand(struct ooc_machine *m, const struct ooc_program *p, float *const *arrays,
		   bool fits);

#endif
