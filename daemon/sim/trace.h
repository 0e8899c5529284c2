/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a recorded run: one JSON object a line
 *
 *   {"kernel": "gemm", "work": 4096, "submit_us": 12.5, "ranges": [["a", 0, 65536, "in"], ...]}
 *
 * A range is the buffer's name or number, the offset, the length and "in", "out" or "inout".
 * "kernel": "host" is an access of the program itself, "work" then its ns; "sync": true: the
 * program waited for it before it went on.  Lines are in the order of submission.
 *
 * Besides, all of them may be absent:
 *
 *   context	number or name: of the program; each is an application of its own, for which the
 *		names of buffers are its own as well
 *   tenant	the same: contexts of one have one of the scenario's tenants
 *   queue	number, of the context's
 *   in_order	the queue is; else dataflow, as without it
 *   barrier	ARAX_TASK_BARRIER
 *   priority	of the task in its tenant
 *   target_us	after which it is late, from its submission on
 *   wait, signal: [timeline, value]; timelines are of all contexts
 *   unblock_us	where no wait tells for what it waited: when that was there, as submit_us
 *   end_us	when it ended: for who replays it in a closed loop
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "daemon/sim/scenario.h"

/* Instead of a kernel's name. */
#define TRACE_HOST	"host"

/* Adds its tasks to @a.  0, -EINVAL, -E2BIG, -ENOMEM or why it can't be read. */
int trace_load(const struct scenario *sc, struct sim_app *a, const char *path, char *error,
	       size_t len);

/* One line; @names: a json object that keeps indices by name. */
int trace_line(const struct scenario *sc, struct sim_app *a, void *names, const char *file,
	       int line, const char *text, size_t bytes, char *error, size_t len);

#endif /* SIM_TRACE_H */
