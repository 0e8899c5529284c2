/* SPDX-License-Identifier: MIT */
/*
 * trace.h - a recorded run: one JSON object a line
 *
 *   {"kernel": "gemm", "work": 4096, "submit_us": 12.5, "ranges": [["a", 0, 65536, "in"], ...]}
 *
 * A range is the buffer's name or number, the offset, the length and "in", "out" or "inout".
 * "kernel": "host" is an access of the program itself, "work" then its ns; "sync": true: the
 * program waited for it before it went on.  Lines are in the order of submission.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "daemon/sim/scenario.h"

/* Adds its tasks to @a.  0, -EINVAL, -E2BIG, -ENOMEM or why it can't be read. */
int trace_load(const struct scenario *sc, struct sim_app *a, const char *path, char *error,
	       size_t len);

/* One line; @buffers: a json object that keeps buffers' indices by name. */
int trace_line(const struct scenario *sc, struct sim_app *a, void *buffers, const char *file,
	       int line, const char *text, size_t bytes, char *error, size_t len);

#endif /* SIM_TRACE_H */
