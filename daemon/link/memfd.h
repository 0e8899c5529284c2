/* SPDX-License-Identifier: MIT */
/*
 * memfd.h - what clients' memory files are
 *
 * Nothing here asks a file system but those in memory, nor takes a lock of the file's: its owner
 * can hold that for as long as he likes.
 */
#ifndef ARAXD_LINK_MEMFD_H
#define ARAXD_LINK_MEMFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Its seals, and what it is with these.  -EINVAL: not a memfd; -EBADF: no descriptor; -EACCES: not
 * one for reading and writing, and what araxd maps of it is both.
 */
int memfd_identify(int fd, struct stat *st);

/*
 * Of one that has been identified: its pages are there, and no more than @bytes but for the rest
 * of a huge page, which *@surplus is.  -EINVAL: not so, or they are of a huge page pool.  What is behind
 * its end takes time to count: the longer the more its owner has put there.
 */
int memfd_pages(int fd, const struct stat *st, uint64_t bytes, uint64_t *surplus);

/* Some of its first @bytes are not there: less is in all. */
bool memfd_has_holes(const struct stat *st, uint64_t bytes);

#endif /* ARAXD_LINK_MEMFD_H */
