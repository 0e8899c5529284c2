/* SPDX-License-Identifier: MIT */
/*
 * child.h - a child that has none of our descriptors but those that it is to have
 *
 * Among ours are clients' files, and for some the kernel asks a process of the client's before a
 * descriptor is closed: to be closed in a child, after a fork(), they keep it for as long as that one
 * likes.  So the child has never had them: it begins with our table, and takes of that a copy of its
 * lowest part alone, where at first nothing is but what we have opened ourselves.
 */
#ifndef ARAXD_CHILD_H
#define ARAXD_CHILD_H

#include <stdint.h>
#include <sys/types.h>

/* That a child can be given at once. */
#define CHILD_FDS	6u

/* The least RLIMIT_NOFILE with which more than half is left when the places are kept. */
#define CHILD_LEAST_FILES	256u

/*
 * Has places for them, from now on: before there are any of clients', or those below are copied as
 * well.  0, or negative errno.  Any thread; once is enough.  Takes what is free below 64, or below
 * the next multiple of that if more is open by then.
 */
int child_reserve(void);

/* As close(), of what was opened before: its number is not to become a client's. */
void child_close(int fd);

/**
 * child_begin - as fork(), but for the descriptors
 * @flags:	namespaces (CLONE_NEW*)
 * @fds, @nr:	what it is to have, CHILD_FDS at most; -1 for none
 * @have:	... by these numbers there, close-on-exec; filled in before it begins
 *
 * Up to 0..2 and what was opened before child_reserve() it has no other.  Any thread, one at a time.
 * The child makes system calls only: other threads may have held any lock.  Negative errno if there
 * is none.
 */
pid_t child_begin(unsigned long flags, const int *fds, uint32_t nr, int *have);

#endif /* ARAXD_CHILD_H */
