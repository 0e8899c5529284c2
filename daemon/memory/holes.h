/* SPDX-License-Identifier: MIT */
/*
 * holes.h - holes in clients' memory files bring no pages
 *
 * A page of a file in memory belongs to the cgroup of whoever touches it first.  A client that punches
 * holes into a file that we have mapped would have us get the pages anew, one piece after the
 * other, and these are charged to our cgroup for as long as it keeps the file, be it nobody's buffer
 * any more.  With a mapping registered with userfaultfd a hole is a SIGBUS instead, for which see
 * guard.h, and EFAULT where the kernel itself touches it: no page comes.  Those that are
 * there, or swapped out, are had as ever.
 */
#ifndef ARAXD_MEMORY_HOLES_H
#define ARAXD_MEMORY_HOLES_H

#include <stdbool.h>
#include <stddef.h>

/* From now on, of a guarded mapping of a file in memory.  False: here they bring pages. */
bool holes_fault(const void *start, size_t bytes);

#endif /* ARAXD_MEMORY_HOLES_H */
