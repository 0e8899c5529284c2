/* SPDX-License-Identifier: MIT */
/* Arax as the programs' machine. */
#ifndef EXAMPLES_RODINIA_ARAX_H
#define EXAMPLES_RODINIA_ARAX_H

#include "examples/rodinia/rodinia.h"

#define RO_DEVICES	64

/* What a device did. */
struct ro_use {
	uint64_t tasks, device_ns, bytes;
};

struct ro_events;

/**
 * struct ro_arax - a context and a dataflow queue
 * @report:	ask for each task's end: fills @use
 */
struct ro_arax {
	struct ro_machine m;
	struct arax *ax;
	struct arax_queue *queue;
	struct arax_timeline *timeline;	/* of ends */
	uint64_t ends;
	struct arax_kernel kernels[RO_KERNELS];
	bool report;
	struct ro_use use[RO_DEVICES];
	struct ro_events *events;
	uint64_t nr_events;
};

/* @link as in struct arax_options.  What fails is in a->m.why. */
int ro_arax_open(struct ro_arax *a, const char *link, bool report);
void ro_arax_close(struct ro_arax *a);

#endif
