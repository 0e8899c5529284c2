/* SPDX-License-Identifier: MIT */
/*
 * engine.h - a scenario runs in virtual time
 *
 * Tasks go through the daemon's own graph and scheduler (daemon/graph, daemon/sched); devices,
 * links and the clock are made up.  The same scenario, seed and policy give the same run.
 *
 * A task that was picked holds a lane while memory is found for its buffers on the device,
 * while what it reads is copied there, and while it runs.  So on a device with several lanes
 * copies overlap kernels; and as in araxd some come before that or go after it (before.c,
 * after.c).  A device has a copy engine for each direction; bytes between two devices go through
 * the host.  An allocation is a whole buffer; the one that submitted tasks need last is evicted, of
 * those that none needs the one that was used longest ago, and written back first where it is the
 * only valid one.
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "daemon/sim/scenario.h"

#define SIM_BINS	200

/* What a device did; times in ns of its whole capacity where not said otherwise. */
struct sim_device_result {
	double used_ns;
	uint64_t tasks;
	uint64_t bytes_in, bytes_out, bytes_peer;	/* from the host, to it, from other devices */
	uint64_t evicted;		/* bytes */
	uint64_t peak_bytes;
	double bins[SIM_BINS];		/* used_ns by time, see sim_result.bin_ns */
};

/**
 * struct sim_tenant_result - what a tenant got
 * @used_ns:	of devices' capacity, with that of devices that were lost
 * @shared_ns:	the same, until the first tenant had ended all of its applications; of kernels
 *		that still ran then the part that they had had
 * @tasks:	that ran to their end; of who has none nothing was due
 */
struct sim_tenant_result {
	double used_ns, shared_ns;
	uint64_t tasks;
};

struct sim_app_result {
	uint64_t end_ns;
	uint32_t failed;	/* tasks that failed or were canceled */
	uint32_t late;		/* that ended after their target */
};

/**
 * struct sim_result - what happened
 * @submitted:	tasks, of them @completed, @failed by themselves, @canceled for others
 * @rerun:	tasks that had a lane of a device that was lost, and were given one of another
 * @lost_bytes:	that were valid on a lost device alone
 * @makespan_ns: end of the last task
 * @jain:	of the shares per weight until the first tenant had ended (1: fair)
 * @ahead:	tasks for which inputs came before they had a lane; @left: whose results went back
 *		without one
 * @events, @picks: of the simulation
 * @wall_ns:	real time that it took; in the scheduler's calls: @pick_ns
 * @cpu_ns:	time of the CPU that it took: the same where nobody else runs
 */
struct sim_result {
	uint64_t submitted, completed, failed, canceled, rerun, lost_bytes;
	uint64_t makespan_ns, bin_ns;
	double jain;
	uint64_t ahead, left;
	uint64_t events, picks, tries;
	uint64_t wall_ns, pick_ns, cpu_ns;
	struct sim_device_result *devices;
	struct sim_tenant_result *tenants;
	struct sim_app_result *apps;
};

/**
 * struct sim_seen - one thing that happened, for who watches
 * @start_ns:	when the kernel began
 * @end_ns:	now
 * @device:	SIM_ANY: the host
 * @used_ns:	capacity that it took: time alone * demand
 */
struct sim_seen {
	uint32_t app, task, device;
	int result;
	uint64_t start_ns, end_ns;
	double used_ns;
};

/**
 * struct sim_options - how to run it
 * @policy:	instead of the scenario's, if not NULL
 * @watch:	called at the end of every task, with @arg; may be NULL
 * @time_picks:	read the clock around the scheduler's calls
 * @ahead:	inputs of tasks that wait for others are copied, too, which araxd doesn't: see ahead.c
 * @on_lane:	a task's copies only while it has a lane, as araxd does with debug.check_access
 * @limit_ns:	time of the CPU after which it stops with -ETIMEDOUT; the result then says how
 *		far it came. 0: none
 */
struct sim_options {
	const char *policy;
	void (*watch)(void *arg, const struct sim_seen *seen);
	void *arg;
	bool time_picks;
	bool ahead, on_lane;
	uint64_t limit_ns;
};

/* Whether a policy is called so; else @error says which there are. */
bool sim_has_policy(const char *name, char *error, size_t len);

/* 0, or a negative errno with @error saying why.  sim_result_fini() in either case. */
int sim_run(const struct scenario *sc, const struct sim_options *o, struct sim_result *result,
	    char *error, size_t len);
void sim_result_fini(struct sim_result *r);

/**
 * struct sim_bound - no schedule of this machine ends earlier
 * @path_ns:	as many devices as one likes, each task on the fastest, no copies
 * @area_ns:	all work spread over all devices as well as it goes, no order, no copies
 * @mixed_ns:	both: some of the work spread so, with the longest way through it in its order,
 *		between what must be before and what must be after it; see bound.c
 * @ways_ns:	of a program that is not too large: all ways through it; see ways.c
 */
struct sim_bound {
	uint64_t path_ns, area_ns, mixed_ns, ways_ns;
};

int sim_bound(const struct scenario *sc, struct sim_bound *bound, char *error, size_t len);
/* The largest of them, in ns; @name, if not NULL: which it is. */
uint64_t sim_bound_best(const struct sim_bound *b, const char **name);

#endif /* SIM_ENGINE_H */
