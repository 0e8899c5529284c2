/* SPDX-License-Identifier: MIT */
/* sched_task.h - what the scheduler keeps in a task; see sched.h */
#ifndef ARAXD_SCHED_TASK_H
#define ARAXD_SCHED_TASK_H

#include <stdbool.h>
#include <stdint.h>

struct sched_flow;
struct sched_program;

#define SCHED_STARTED	(~0u)

/**
 * struct sched_task - the scheduler's part of a graph node
 * @flow:	its tenant, from sched_push() to sched_finish() or sched_remove()
 * @program:	which one of its tenant's, for the same time
 * @index:	its place in its program's heap; ~0 once picked
 * @lane:	of the device, once picked; SCHED_STARTED: it was before, and is queued again
 * @due:	what its turn among its program's tasks goes by, ns
 * @kind:	what is known of its run time is kept under this; 0: not looked up yet
 * @predicted_ns: run time expected on the device chosen, 0 if unknown
 * @push_ns:	when it was pushed; then, when it was picked
 * @charged:	virtual time that its tenant was charged at the pick
 * @booked_ns:	by sched_book(): run time expected then; else 0
 * @full_ns:	what it is expected to take of its device's whole capacity
 * @part:	which part of it it takes, in 1024ths; 0: what @full_ns says is not counted
 * @outlook:	which outlook @way_ns is of (outlook.h); 0: of none
 * @place:	which one of several graphs it is in: contexts are numbered in each
 * @kernel:	of a launch: which kernel it is in all graphs; 0: as @d.kernel has it
 * @left:	its lane may be another one's already, see sched_leave()
 * @work:	of a launch: how much it is, as is known of its kernel; 0: see sched_work()
 * @way_ns:	from its begin to the end of its program, as far as that was submitted
 * @seat:	the same word if @outlook is a plan's: which of its tasks it is (plan.h)
 */
struct sched_task {
	struct sched_flow *flow;
	struct sched_program *program;
	uint32_t index;
	uint32_t lane;
	uint64_t due;
	uint64_t kind;
	uint64_t predicted_ns;
	uint64_t push_ns;
	uint64_t charged;
	uint64_t booked_ns;
	uint64_t full_ns;
	uint32_t part;
	uint32_t outlook;
	union {
		float way_ns;
		uint32_t seat;
	};
	uint32_t place;
	uint32_t kernel;
	bool left;
	uint64_t work;
};

#endif /* ARAXD_SCHED_TASK_H */
