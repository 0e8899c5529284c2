/* SPDX-License-Identifier: MIT */
/* Scenarios of the benches that run in virtual time (daemon/sim). */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include "daemon/sim/engine.h"

#define OUTCOME_APPS	32

/**
 * struct outcome - what the benches want to know of a run
 * @tasks:	that completed
 * @makespan_ms, @turnaround_ms: the second is the sum over all applications
 * @app_ms:	the turnaround of each of the first OUTCOME_APPS
 * @bytes:	moved, both ways
 * @wall_s:	how long the simulation took, @pick_s of it in sched_pick()
 * @cpu_s:	time of the CPU that it took
 * @timed_out:	it took more than @limit_s
 */
struct outcome {
	uint64_t tasks;
	double makespan_ms, turnaround_ms, app_ms[OUTCOME_APPS], bytes, used;
	double wall_s, cpu_s, pick_s;
	int timed_out;
};

/* What no schedule of scenario @text can beat. */
struct sim_bound simulate_bound(const char *text);
/* Runs scenario @text; what is wrong with it ends the program.  @limit_s 0: none. */
struct outcome simulate(const char *text, const char *policy, double limit_s);

#endif
