/* SPDX-License-Identifier: MIT */
/*
 * gang.h - the threads of a group of cores, which run one launch together
 *
 * A gang of n cores has n - 1 threads of its own, each bound to a core; the
 * caller of gang_run is the n-th.  So a gang of one core is no thread at all,
 * and a launch that is not split costs a function call.
 */
#ifndef ARAX_DAEMON_BACKENDS_GANG_H
#define ARAX_DAEMON_BACKENDS_GANG_H

#include <sched.h>
#include <stdint.h>

#include "arax/kernel.h"

struct gang;

/* -EINVAL: no core; -ENOMEM, -EAGAIN. */
int gang_create(const cpu_set_t *cpus, struct gang **gang);
void gang_destroy(struct gang *g);
unsigned int gang_size(const struct gang *g);

/*
 * Run all work-groups of a launch, in spans, on whatever cores are free; returns
 * when all are done.  The first error met is returned, spans not yet begun are
 * then left out.  From any thread; while another thread's launch is split, this
 * one runs on the caller alone.
 */
int gang_run(struct gang *g, arax_kernel_fn *fn, const struct arax_launch *l);

#endif /* ARAX_DAEMON_BACKENDS_GANG_H */
