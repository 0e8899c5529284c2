/* SPDX-License-Identifier: MIT */
/*
 * workload.h - applications and their tasks, in the order in which they submit them
 *
 * Dependencies are not part of it: the graph infers them from the ranges, as it does for
 * real programs.
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uapi/arax.h"

#define SIM_HOST	0xffffu		/* instead of a kernel: the program itself */
#define SIM_ANY		(~0u)
#ifndef SIM_MAX_TASKS		/* the fuzzer has less time */
#define SIM_MAX_TASKS	(1u << 24)
#endif

/* @access: ARAX_IN, ARAX_OUT or ARAX_INOUT */
struct sim_range {
	uint64_t offset, length;
	uint32_t buffer;
	uint32_t access;
};

/**
 * struct sim_task - a launch, or an access of the host
 * @work:	work items; of the host: ns that it takes
 * @after_ns:	not submitted before this, counted from the application's arrival
 * @footprint:	bytes of all its buffers
 * @kernel:	index, or SIM_HOST
 * @priority:	of the queue that it goes to, beside the program's own
 * @sync:	the program waits for its end before it goes on
 */
struct sim_task {
	uint64_t work;
	uint64_t after_ns;
	uint64_t footprint;
	uint32_t first_range;
	uint16_t kernel;
	uint8_t nr_ranges;
	int8_t priority;
	bool sync;
};

/**
 * struct sim_how - what a recorded task was submitted with
 * @context:	of the recorded run, by the order in which they came in it; so @tenant.  SIM_ANY: it
 *		is not said
 * @queue:	of its context
 * @in_order, @barrier: see ARAX_QUEUE_DATAFLOW, ARAX_TASK_BARRIER
 * @target_ns:	after its submission it is late; 0: it never is
 * @unblock_ns:	it had waited until then, counted as sim_task.after_ns; 0: it hadn't
 * @wait, @signal: 1 + index of a timeline, with the value that it waits for, or brings; 0: none
 * @end_ns:	when it ended, counted the same; 0: not known
 * @behind:	the last one that had ended before it was submitted, @think_ns before: it is not
 *		submitted earlier than that after it; SIM_ANY: as sim_task.after_ns says
 */
struct sim_how {
	uint32_t context, tenant;
	uint32_t queue;
	bool in_order, barrier;
	uint32_t wait, signal;
	uint64_t wait_value, signal_value;
	uint64_t target_ns, unblock_ns, end_ns;
	uint32_t behind;
	uint64_t think_ns;
};

/**
 * struct sim_app - a program
 * @window:	tasks that it has outstanding at most
 * @pin:	the one device that may run it, or SIM_ANY
 * @plain:	its buffers are: results go back to the host after each task, and inputs come anew
 *		when it may have written; else they are as those of ARAX_BUFFER_EXPLICIT
 * @priority, @target_ns: of its queue
 * @hows:	of each task, or NULL: they have nothing that isn't in struct sim_task
 * @closed:	sim_how.behind counts
 */
struct sim_app {
	uint64_t arrive_ns;
	uint32_t tenant;
	uint32_t window;
	uint32_t pin;
	bool plain;
	int32_t priority;
	uint64_t target_ns;
	uint32_t nr_tasks, nr_ranges, nr_buffers;
	uint32_t size_tasks, size_ranges, size_buffers;
	struct sim_task *tasks;
	struct sim_range *ranges;
	uint64_t *buffers;		/* bytes of each */
	struct sim_how *hows;
	uint32_t nr_hows, size_hows;
	uint32_t nr_contexts, nr_tenants, nr_timelines;	/* of the trace */
	bool closed;
	bool failed;			/* there was no memory: see app_done() */
};

/* Returns the buffer's index. */
uint32_t app_buffer(struct sim_app *a, uint64_t bytes);
/* Begins a task; its ranges follow by app_range(). */
struct sim_task *app_task(struct sim_app *a, uint16_t kernel, uint64_t work);
/* Of the task that was begun last. */
struct sim_how *app_how(struct sim_app *a);
/* All tasks so far have one.  False: no memory. */
bool app_complete(struct sim_app *a);
void app_range(struct sim_app *a, uint32_t buffer, uint64_t offset, uint64_t length,
	       uint32_t access);
/* The same with the whole buffer. */
void app_whole(struct sim_app *a, uint32_t buffer, uint32_t access);
/*
 * When the program submits its task @next; @ends: of each task, when it ended, 0: it has not.
 * NULL: by the clock alone.  UINT64_MAX: after one that has not ended.
 */
uint64_t app_due_ns(const struct sim_app *a, uint32_t next, const uint64_t *ends);
/* The tasks are complete.  False if memory was short meanwhile. */
bool app_done(struct sim_app *a);
/* No more memory than it needs.  False: no memory. */
bool app_trim(struct sim_app *a);
void app_fini(struct sim_app *a);

struct workload {
	struct sim_app *apps;
	uint32_t nr, size;
};

/* A new one at the end, or NULL. */
struct sim_app *workload_app(struct workload *w);
void workload_fini(struct workload *w);

#endif /* SIM_WORKLOAD_H */
