/* SPDX-License-Identifier: MIT */
/* mounts.h - where what a worker mounts for itself is seen */
#ifndef ARAX_DAEMON_WORKER_MOUNTS_H
#define ARAX_DAEMON_WORKER_MOUNTS_H

#include <stdbool.h>

/*
 * Whether nobody outside of a copy of this process's mounts would see what is mounted there, even if
 * that can't be asked for: in a chroot "/" need not be a mount that could be made private.
 *
 * There the mount that "/" is in may lie outside, and is not told to who is inside: then the first
 * process's list has it, if that has the same mounts.
 */
bool mounts_nothing_shared(void);

#endif /* ARAX_DAEMON_WORKER_MOUNTS_H */
