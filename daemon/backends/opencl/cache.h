/* SPDX-License-Identifier: MIT */
/*
 * cache.h - built programs on disk
 *
 * An entry is a file named after the hash of its key.  It holds the key and the
 * program's source, both compared whole, the table of kernels, and the driver's
 * binary under a checksum: whatever is not right is as if it were not there,
 * and is written anew.  Files appear by rename, complete or not at all; the
 * oldest go when there are too many.
 *
 * What lies here runs in araxd.  So the folder is used only if it belongs to
 * root (or the daemon's own uid) and nobody else can write to it.
 */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_CACHE_H
#define ARAX_DAEMON_BACKENDS_OPENCL_CACHE_H

#include <errno.h>
#include <stddef.h>

#include "daemon/backends/opencl/blob.h"

#define CACHE_MAX_ENTRY		(64u << 20)
#define CACHE_MAX_BYTES		(256u << 20)
#define CACHE_MAX_ENTRIES	1024

/*
 * @path NULL: $CACHE_DIRECTORY, $XDG_CACHE_HOME/arax, /var/cache/arax for root,
 * else $HOME/.cache/arax.  Makes the folder.  An error leaves the cache off, and
 * @why says what is wrong with the folder.
 */
int cache_open(const char *path, char *why, size_t len);
void cache_close(void);
/* The folder's name; NULL: there is no cache. */
const char *cache_path(void);

/* -ENOENT: nothing usable there.  The caller frees table and binary. */
int cache_get(const char *key, const struct blob *source, char **table, struct blob *binary);
/* Of cache_get(): @table says why there is none, and nothing else is there. */
#define CACHE_FAILURE		(-ENOEXEC)
/* That there is none: it counts for a day.  @why is not empty. */
void cache_put_failure(const char *key, const struct blob *source, const char *why);
/* A cache that can't be written is none: nothing is returned. */
void cache_put(const char *key, const struct blob *source, const char *table,
	       const struct blob *binary);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_CACHE_H */
