/* SPDX-License-Identifier: MIT */
/* dag.h - an application's tasks and who waits for whom, as a whole, before anything runs */
#ifndef SIM_DAG_H
#define SIM_DAG_H

#include "daemon/sim/scenario.h"

struct dispatch_room {
	struct arax_dispatch d;
	struct arax_dispatch_range r[ARAX_MAX_RANGES];
};

/**
 * struct dag - how long the way to the end is from each task
 * @ns:		that a task takes on the device that is fastest for it
 * @tail:	of the longest way from a task's end to the application's
 * @next:	the task that this way leads to, or SIM_ANY
 * @first:	where the longest way of all begins, or SIM_ANY: there are no tasks
 */
struct dag {
	double *ns, *tail;
	uint32_t *next;
	uint32_t nr, first;
};

/* @from comes before @to; of the order of the program's tasks, so @from < @to. */
struct dag_line {
	uint32_t from, to;
};

/*
 * All of them, by @to, by the daemon's own graph; what is behind a fence has none. 0, or -ENOMEM.
 * The caller frees *@line.
 */
int dag_lines(const struct sim_app *a, struct dag_line **line, size_t *nr);

/*
 * By the daemon's own graph.  Ways of which it keeps no line (what is behind a fence) are left
 * out, so a way may be longer than it says, never shorter.  0, or -ENOMEM.
 */
int dag_make(const struct scenario *sc, const struct sim_app *a, uint32_t app, struct dag *d);
void dag_fini(struct dag *d);

/*
 * Gives each task one of the 40 priorities that queues have, by the longest way from its begin to
 * the application's end; as a program does that knows about how long its kernels take.
 */
int dag_priorities(const struct scenario *sc, struct sim_app *a);

/* Of the fastest kind of device, with its draw; the host's own time of what the host does. */
double fastest_ns(const struct scenario *sc, const struct sim_task *t, uint32_t app,
		  uint64_t index);

/* The entry of task @index that the graph is given, without tenant, queue and tag's slot. */
void dag_dispatch(struct dispatch_room *room, const struct sim_app *a, uint32_t app,
		  uint32_t index, uint64_t generation, uint32_t slot);

#endif /* SIM_DAG_H */
