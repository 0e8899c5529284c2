/* SPDX-License-Identifier: MIT */
#ifndef LIBARAX_EVENTFD_H
#define LIBARAX_EVENTFD_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Not by write(), where a thread that is cancelled ends: who sleeps there would never hear of
 * what has been done for him.  A full counter (EAGAIN) is readable anyway.
 */
static inline int eventfd_ring(int fd)
{
	const uint64_t one = 1;

	return syscall(SYS_write, fd, &one, sizeof(one)) < 0 && errno != EAGAIN ? -errno : 0;
}

/* Empties it, nor by read(). */
static inline void eventfd_empty(int fd)
{
	uint64_t count;

	(void)!syscall(SYS_read, fd, &count, sizeof(count));
}

#endif /* LIBARAX_EVENTFD_H */
