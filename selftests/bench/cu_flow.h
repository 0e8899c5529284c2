/* SPDX-License-Identifier: MIT */
/*
 * A program of flow.h on a GPU: through araxd, and by CUDA's own calls in three ways.
 * All begin with what the host has in pinned memory and end with the results there; all
 * launch the same kernels with the same grids.  For files that are built with HAVE_CUDA.
 */
#ifndef BENCH_CU_FLOW_H
#define BENCH_CU_FLOW_H

#include "cu_peer.h"
#include "daemon/backends/params.h"
#include "flow.h"

#define CU_FLOW_PARAMS	(2 * FLOW_RANGES + 16)

/**
 * struct cu_buffer - a buffer of the program
 * @in, @out:	pinned copies of its contents: before a run (NULL: a step writes it first), and
 *		after it (NULL: not among the results)
 * @first:	the step that uses it first
 * @last:	the step that writes it last
 * @copied:	event and node of the copy in
 */
struct cu_buffer {
	uint64_t bytes;
	CUdeviceptr at;
	void *in, *out;
	unsigned int first, last;
	CUevent copied;
	CUgraphNode node;
};

/**
 * struct cu_step - a launch
 * @before:	bit for each step that has to end first; none that another of them waits for
 * @stream:	that a programmer would put it on
 */
struct cu_step {
	CUfunction function;
	struct params params;
	unsigned int buffer[FLOW_RANGES];
	uint64_t address[FLOW_RANGES], items[FLOW_RANGES];
	void *values[CU_FLOW_PARAMS];
	uint32_t blocks, threads;
	uint64_t before;
	int stream;
	CUevent done;
	CUgraphNode node;
};

struct cu_flow {
	struct flow *f;
	struct cu_peer *peer;
	struct cu_buffer buffers[FLOW_BUFFERS];
	struct cu_step steps[FLOW_STEPS];
	unsigned int nr_streams;
	CUgraphExec graph;
};

/*
 * Of @f as it was made, whose buffers are ARAX_BUFFER_EXPLICIT and were used by no task yet.
 * @streams: of each step, repeated if there are more steps; @nr of them.
 */
void cu_flow_open(struct cu_flow *c, struct flow *f, struct cu_peer *peer, const uint8_t *streams,
		  unsigned int nr);
void cu_flow_close(struct cu_flow *c);

/* As if the program had written all inputs: they have to be copied again. */
void cu_flow_dirty(struct cu_flow *c);
void cu_flow_arax(struct cu_flow *c);		/* all submitted, results at the host */
void cu_flow_synchronous(struct cu_flow *c);	/* each copy and launch waited for */
void cu_flow_streams(struct cu_flow *c);	/* events between streams */
void cu_flow_graph(struct cu_flow *c);		/* made once; copies are nodes */

/* The contents of result @i after a run, in Arax' buffer or in CUDA's. */
void cu_flow_results(struct cu_flow *c, bool arax, unsigned int i, void *to);
/* Nothing of an earlier run is left in the results. */
void cu_flow_poison(struct cu_flow *c, bool arax);

#endif
