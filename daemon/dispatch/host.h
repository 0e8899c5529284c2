/* SPDX-License-Identifier: MIT */
/*
 * host.h - what the CPU does for a task besides launches: copy, fill, services
 */
#ifndef ARAXD_DISPATCH_HOST_H
#define ARAXD_DISPATCH_HOST_H

#include <stdint.h>

#include "arax/kernel.h"
#include "uapi/arax.h"

/*
 * @d, @args as in the graph's node; @r its ranges as addresses.  Returns the
 * task's result: 0, -EOPNOTSUPP (no such service), -EINVAL.
 */
int host_run(const struct arax_dispatch *d, const struct arax_launch_range *r,
	     const void *args);

/* A thread that runs what is too long for the poller. */
struct host_thread;
struct host_job {
	struct host_job *next;
	void (*run)(struct host_job *job);
};

/* -EAGAIN, -ENOMEM */
int host_thread_create(const char *name, struct host_thread **out);
/* Runs what was pushed, then ends. */
void host_thread_destroy(struct host_thread *t);
void host_thread_push(struct host_thread *t, struct host_job *job);

#endif /* ARAXD_DISPATCH_HOST_H */
