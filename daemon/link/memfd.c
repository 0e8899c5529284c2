// SPDX-License-Identifier: MIT
#include "daemon/link/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/memory/guard.h"

#define ST_BLOCK	512u	/* stat's, whatever the file's */

#ifndef SYS_cachestat
#define SYS_cachestat	451
#endif

int memfd_identify(int fd, struct stat *st)
{
	/*
	 * First: it asks no file system, and after it none but those in memory is asked.  And what
	 * was done to the file before it was sealed is seen below.
	 */
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0)
		return errno == EBADF ? -EBADF : -EINVAL;
	if (fstat(fd, st) || !S_ISREG(st->st_mode))
		return -EINVAL;
	return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR ? seals : -EACCES;
}

/* Of memory files: as many pages as a page has entries for. */
static uint64_t huge_page(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return page * (page / 8);
}

bool memfd_has_holes(const struct stat *st, uint64_t bytes)
{
	return (uint64_t)st->st_blocks * ST_BLOCK < bytes;
}

/*
 * Bytes of pages that are there behind its end; 0 where Linux can't tell, before 6.5.  To look for holes
 * would take a lock of the file's, and to count what is before its end takes long in earnest, too.
 */
static uint64_t behind_end(int fd, const struct stat *st)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	/* As the kernel has them.  Without a length it is all; what is swapped out counts as evicted. */
	const struct { uint64_t off, len; } range = {
		((uint64_t)st->st_size + page - 1) / page * page, 0,
	};
	struct { uint64_t cache, dirty, writeback, evicted, recently_evicted; } n;

	if (syscall(SYS_cachestat, fd, &range, &n, 0))
		return 0;
	return (n.cache + n.evicted) * page;
}

int memfd_pages(int fd, const struct stat *st, uint64_t bytes, uint64_t *surplus)
{
	uint64_t present = (uint64_t)st->st_blocks * ST_BLOCK;

	/* What we touch first is charged to our cgroup, not to its owner's. */
	if (memfd_has_holes(st, (uint64_t)st->st_size))
		return -EINVAL;
	*surplus = present > bytes ? present - bytes : 0;
	/* Pages behind its end are of no use, but they are there for as long as we map it. */
	if (*surplus >= huge_page())
		return -EINVAL;
	/* Nor may they stand for holes; so few are soon counted. */
	if (present < (uint64_t)st->st_size + behind_end(fd, st))
		return -EINVAL;
	/* The pool may be empty when we touch a hole in it, and that would be our end. */
	return guard_may_map(fd) ? 0 : -EINVAL;
}
