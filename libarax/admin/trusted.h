/* SPDX-License-Identifier: MIT */
/*
 * trusted.h - open what only the administrator can have written
 *
 * Each call opens once, without following a link in the last part of the name,
 * and then looks at the descriptor: owner root, or the daemon's own uid if that
 * is not root; not writable by group or world (no ACL can grant more than the
 * group bits show).  `why` says what is wrong.
 */
#ifndef LIBARAX_ADMIN_TRUSTED_H
#define LIBARAX_ADMIN_TRUSTED_H

#include <stddef.h>
#include <sys/types.h>

/* -EPERM: owner or mode; -ELOOP: a link; -ENOTDIR; else as open(2). */
int trusted_open_folder(const char *path, char *why, size_t len);

/* A regular file in an open folder; plain name.  -EINVAL: not a regular file. */
int trusted_open_file(int folder, const char *name, char *why, size_t len);

/* A regular file by absolute path; its folder is checked as well. */
int trusted_open_path(const char *path, char *why, size_t len);

/* A whole file into memory, NUL-terminated.  -E2BIG over @max; caller frees. */
int trusted_read(int fd, size_t max, char **text, size_t *bytes);

#endif /* LIBARAX_ADMIN_TRUSTED_H */
