/* SPDX-License-Identifier: MIT */
/*
 * scenario.h - a machine, its tenants and what they run
 *
 * Written by hand as JSON (docs/simulation.md has every key), or put together by a program.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdio.h>

#include "daemon/sim/workload.h"

#define SIM_MAX_DEVICES	1024u	/* SCHED_MAX_DEVICES */
#define SIM_MAX_KINDS	16u
#define SIM_MAX_KERNELS	1024u
#define SIM_MAX_TENANTS	65536u
#define SIM_MAX_LINKS	1024u
#define SIM_MAX_LANES	64u
#define SIM_NAME	48

/**
 * struct sim_link - what connects devices to the host's memory
 * @ns_per_byte: one direction's bandwidth, of all its devices together
 * @latency_ns:	of each copy, before its first byte
 * @duplex:	the directions don't share their bandwidth
 */
struct sim_link {
	char name[SIM_NAME];
	double ns_per_byte;
	uint64_t latency_ns;
	bool duplex;
};

/**
 * struct sim_device - a device
 * @kind:	index of the column of costs that it has
 * @link:	index, or SIM_ANY: it works in the host's memory
 * @memory:	bytes; of no meaning without a link
 * @peers:	others of its kind with this copy from it directly, and it from them
 * @lost_ns:	when it dies; UINT64_MAX: never
 */
struct sim_device {
	char name[SIM_NAME];
	uint32_t kind, link, lanes;
	uint64_t memory;
	bool peers;
	uint64_t lost_ns;
};

/* A run takes base_ns + item_ns * work alone; @demand: see share.h. 0: it can't run there. */
struct sim_cost {
	double base_ns, item_ns, demand;
};

struct sim_kernel {
	char name[SIM_NAME];
	struct sim_cost cost[SIM_MAX_KINDS];
};

/* @device_memory: bytes that its tasks may hold on devices; 0: any number */
struct sim_tenant {
	char name[SIM_NAME];
	uint32_t weight;
	uint64_t device_memory;
};

/**
 * struct scenario - everything that decides what happens
 * @jitter:	run times vary evenly within this share of them, up and down
 * @fail:	probability that a task fails at its end
 * @warm:	the scheduler knows the run times before it begins
 */
struct scenario {
	char name[SIM_NAME];
	char policy[SIM_NAME];
	uint64_t seed;
	double jitter, fail;
	bool warm;
	char kinds[SIM_MAX_KINDS][SIM_NAME];
	uint32_t nr_kinds, nr_links, nr_devices, nr_kernels, nr_tenants;
	struct sim_link *links;
	struct sim_device *devices;
	struct sim_kernel *kernels;
	struct sim_tenant *tenants;
	uint32_t nr_timelines;		/* of all that traces have */
	struct workload work;
};

/**
 * scenario_load - read a scenario
 * @file:  its name: for messages, and traces are looked for beside it
 * @text:  its content
 * @seed:  instead of its own, if not NULL
 *
 * Returns 0, or -EINVAL, -E2BIG, -ENOMEM, or what went wrong with a trace; @error then says
 * where and why, and what would be right.
 */
int scenario_load(struct scenario *sc, const char *file, const char *text, size_t bytes,
		  const uint64_t *seed, char *error, size_t len);
void scenario_fini(struct scenario *sc);

/* ns that @work takes on a device of @kind alone; 0 if it can't run there. */
double scenario_cost_ns(const struct scenario *sc, uint32_t kernel, uint32_t kind, uint64_t work);

/* Index of a kernel, or SIM_ANY. */
uint32_t scenario_kernel(const struct scenario *sc, const char *name);

#endif /* SIM_SCENARIO_H */
