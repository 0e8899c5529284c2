/* SPDX-License-Identifier: MIT */
/*
 * graph_model.h - drives a graph with random tasks beside a plain model of it
 *
 * The model compares every pair of tasks byte by byte and keeps everything for
 * ever; it shares no code with the graph.  Used by the unit test (random
 * numbers) and by the fuzzer (its input).
 */
#ifndef GRAPH_MODEL_H
#define GRAPH_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct graph_model_params - what to try
 * @draw:	a number below @n (>= 1)
 * @more:	whether to go on; checked before each step
 * @tasks:	to submit at most, up to GRAPH_MODEL_TASKS
 * @inflight:	to keep unfinished at most
 * @contexts, @queues: at most 4 each
 * @in_order, @strided, @barriers, @continues, @failures, @cancels, @blocks,
 * @deadlines, @gone, @follows: whether such a thing happens
 * @exact_failures: check who fails exactly; needs no @continues, or neither
 *		@in_order nor @strided
 * @loose:	tasks may wait longer than needed (fences), never shorter
 * @hulls:	ranges are long: nearly all overlap
 * @fences:	if not NULL: tasks that were fenced are added to it
 */
struct graph_model_params {
	uint32_t (*draw)(void *arg, uint32_t n);
	bool (*more)(void *arg);
	void *arg;
	unsigned int tasks, inflight, contexts, queues;
	bool in_order, strided, barriers, continues, failures, cancels, blocks;
	bool deadlines, gone, follows, exact_failures, loose, hulls;
	uint64_t *fences;
};

#define GRAPH_MODEL_TASKS	2048

/* Runs to the end of all tasks.  Returns the number of violations (printed). */
int graph_model_run(const struct graph_model_params *params);

#endif /* GRAPH_MODEL_H */
