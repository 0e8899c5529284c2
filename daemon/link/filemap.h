/* SPDX-License-Identifier: MIT */
/*
 * filemap.h - map and unmap clients' files
 *
 * Whoever has a file mapped very often, and punches holes into it, has its list of mappings looked
 * through again and again; to add one, or to take one out, waits for that, with the lock of our
 * whole address space held.  So the time that these calls sleep is measured: it is the file's
 * owner's doing.
 *
 * One at a time: what another waits for meanwhile is none of its own doing.  Thread-safe.
 *
 * Children don't have them: fork() would wait for each file in the same way.  And they are taken out
 * in pieces, as all who map something wait for each.
 */
#ifndef ARAXD_LINK_FILEMAP_H
#define ARAXD_LINK_FILEMAP_H

#include <stddef.h>
#include <stdint.h>

#define FILEMAP_PIECE	((size_t)8 << 20)

/* All that is mapped, shared and writable.  MAP_FAILED and errno.  *@ns: slept beyond the usual. */
void *filemap_map(int fd, size_t bytes, uint64_t *ns);
/* Returns that time. */
uint64_t filemap_unmap(void *base, size_t bytes);

/* The same of administrators' files, and where nobody is timed: several at a time. */
void *filemap_map_untimed(int fd, size_t bytes);
void filemap_unmap_untimed(void *base, size_t bytes);

#endif /* ARAXD_LINK_FILEMAP_H */
