/* SPDX-License-Identifier: MIT */
/* A program of a few kernels on a few buffers, run in four ways. */
#ifndef BENCH_FLOW_H
#define BENCH_FLOW_H

#include <arax/arax.h>
#include <arax/kernel.h>

#define FLOW_STEPS	64
#define FLOW_BUFFERS	48
#define FLOW_RANGES	5
#define FLOW_ARGS	48

/* A kernel of the standard library, as araxd has it and as a function here. */
struct flow_kernel {
	struct arax_kernel k;
	arax_kernel_fn *fn;
};

struct flow_step {
	const struct flow_kernel *kernel;
	struct arax_launch launch;
	uint64_t args[FLOW_ARGS / 8];
	struct arax_range ranges[FLOW_RANGES];
	struct arax_launch_range direct[FLOW_RANGES];
	struct arax_event event;
};

/**
 * struct flow - a program
 * @hand:	the schedule that its author would write: OpenMP tasks that call
 *		flow_call(); runs within a parallel region, on one thread of it
 * @reset:	what the host writes before each run, or NULL
 * @out:	buffers whose contents are the program's result
 * @flags:	of its buffers
 * @token:	stands for what a step writes, in the depend clauses of @hand
 * @device_ns:	of all steps of the last run through araxd
 */
struct flow {
	struct arax *ax;
	struct arax_queue *queue;
	uint32_t flags;
	void (*hand)(struct flow *f);
	void (*reset)(struct flow *f);
	struct arax_buffer *buffers[FLOW_BUFFERS];
	struct flow_step steps[FLOW_STEPS];
	struct arax_desc desc[FLOW_STEPS];
	unsigned int nr_buffers, nr_steps, nr_outs;
	struct arax_buffer *out[FLOW_BUFFERS];
	void *wanted[FLOW_BUFFERS];
	char token[FLOW_STEPS];
	uint64_t device_ns;
};

/* Zeroes @f but for context, queue and flags.  Failures end the program, here and below. */
void flow_begin(struct flow *f);
void flow_end(struct flow *f);

/* A buffer; its contents are the result if @out. */
struct arax_buffer *flow_buffer(struct flow *f, uint64_t bytes, int out);
/* @items: work-groups, from which araxd tells small launches from large ones. */
void flow_step(struct flow *f, const char *kernel, uint64_t items, const void *args,
	       size_t arg_len, const struct arax_range *ranges, size_t nr_ranges);

/* Call the kernel of step @i here and now. */
void flow_call(struct flow *f, unsigned int i);

/* The four ways. */
void flow_sequential(struct flow *f);	/* calls, one after the other */
/*
 * @hand, on as many threads as CPUs are pinned.  The caller is the first: it should be on
 * place_cpu[0], before the clock runs.
 */
void flow_hand(struct flow *f);
void flow_synchronous(struct flow *f);	/* each task submitted when the one before is done */
void flow_submit(struct flow *f);	/* all of them */
void flow_finish(struct flow *f);
void flow_inferred(struct flow *f);	/* both */

/* Run in one way; keep its results, or hold them against those kept, byte by byte. */
void flow_keep(struct flow *f, void (*run)(struct flow *f));
void flow_check(struct flow *f, void (*run)(struct flow *f), const char *what);

#endif
