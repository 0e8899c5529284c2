// SPDX-License-Identifier: MIT
#include "daemon/memory/holes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/log.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int uffd = -1;

static int open_uffd(int flags)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_SIGBUS };
	int err, fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);

	if (fd < 0)
		return -errno;
	err = ioctl(fd, UFFDIO_API, &api) ? -errno :
	      api.features & UFFD_FEATURE_MISSING_SHMEM ? 0 : -EOPNOTSUPP;
	if (!err)
		return fd;
	close(fd);
	return err;
}

/*
 * Who only gets signals by it never handles a fault of the kernel's: so what needs a privilege
 * elsewhere is not asked for.  Linux before 5.11 does not know the difference.
 */
static void begin(void)
{
	int fd = open_uffd(UFFD_USER_MODE_ONLY);

	if (fd == -EINVAL)
		fd = open_uffd(0);
	if (fd < 0)
		log_notice("userfaultfd can't be had: pages of holes in programs' memfds are charged to araxd",
			   log_errno(fd));
	else
		uffd = fd;
}

bool holes_fault(const void *start, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct uffdio_register reg = {
		.range = { (uintptr_t)start, (bytes + page - 1) & ~(page - 1) },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	pthread_once(&once, begin);
	return uffd >= 0 && !ioctl(uffd, UFFDIO_REGISTER, &reg);
}
