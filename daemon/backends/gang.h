/* SPDX-License-Identifier: MIT */
/*
 * gang.h - the threads of a group of cores, which run launches together
 *
 * A gang of n cores has n - 1 threads of its own; whoever calls gang_run() is another.  So a
 * gang of one core is no thread at all, and a launch there costs a function call.
 */
#ifndef ARAX_DAEMON_BACKENDS_GANG_H
#define ARAX_DAEMON_BACKENDS_GANG_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "arax/kernel.h"

struct gang;

/* -EINVAL: no core; -ENOMEM, -EAGAIN. */
int gang_create(const cpu_set_t *cpus, struct gang **gang);
void gang_destroy(struct gang *g);
unsigned int gang_size(const struct gang *g);

/* How many cores it has from now on, at most gang_size(); 0: all. */
void gang_limit(struct gang *g, unsigned int cores);

/*
 * Run all work-groups of a launch; returns when all are done.  If @split, in spans, on whatever
 * cores no other launch wants, as long as they don't; otherwise as one span on the caller.  The
 * first error met is returned, spans not yet begun are then left out.  From any thread, and from
 * several at once: as many as there are cores have one each.
 */
int gang_run(struct gang *g, arax_kernel_fn *fn, const struct arax_launch *l, bool split);

/**
 * struct gang_parts - for a split launch that is long
 * @part_ns:	about what one part of it is to take a core
 * @between:	on the caller's thread, between two of them, as of struct arax_backend_run
 * @arg:	for it
 */
struct gang_parts {
	uint64_t part_ns;
	int (*between)(void *arg, int still);
	void *arg;
};

/* gang_run(), split.  While @between is told that all stands still it keeps no core from others. */
int gang_run_in_parts(struct gang *g, arax_kernel_fn *fn, const struct arax_launch *l,
		      const struct gang_parts *parts);

#endif /* ARAX_DAEMON_BACKENDS_GANG_H */
