/* SPDX-License-Identifier: MIT */
/*
 * models.h - learnt run times, and those of copies, across restarts
 *
 * The scheduler numbers kernels and devices; the file names them.  What the file says of
 * kernels or devices that aren't here now is kept for the day they are.
 */
#ifndef ARAXD_DISPATCH_MODELS_H
#define ARAXD_DISPATCH_MODELS_H

#include <stdbool.h>
#include <stddef.h>

struct models;
struct poller;

/* Where the file is by default; false: nowhere. */
bool models_default_path(bool user, char *path, size_t len);

/*
 * Before the poller starts, once links and devices are there: take over what @path knows.
 * A file that can't be used is logged and, once there is something to write, put aside as
 * @path.unused.  NULL: no memory.
 */
struct models *models_open(struct poller *p, const char *path);
/* (poller) Write what is new, on a thread of its own.  False: it still writes what was new before. */
bool models_save(struct models *m);
/* Write what is new, and end.  Nobody polls any more. */
void models_close(struct models *m);

#endif /* ARAXD_DISPATCH_MODELS_H */
