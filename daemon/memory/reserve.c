// SPDX-License-Identifier: MIT
#include "daemon/memory/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One access may touch 16, and few more than two. */
#define PAGES	128u

static int fd = -1;
static uint8_t *view;			/* of all of them, ours */
static size_t page_size;
static uintptr_t place[PAGES];		/* where each is, if it is anywhere; 0: nowhere */
static uint32_t next;
static uint32_t taken;			/* the lock; 2: somebody may sleep for it */

/* A handler may not wait for a mutex of the library's, and mmap() may take long. */
static void lock(void)
{
	uint32_t free = 0;

	if (__atomic_compare_exchange_n(&taken, &free, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&taken, 2, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &taken, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void)
{
	if (__atomic_exchange_n(&taken, 0, __ATOMIC_RELEASE) == 2)
		syscall(SYS_futex, &taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

int reserve_init(void)
{
	size_t bytes;
	int err;

	if (fd >= 0)
		return 0;
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	bytes = PAGES * page_size;
	fd = memfd_create("arax-reserve", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Now, while there may be some. */
	if (fallocate(fd, 0, 0, (off_t)bytes))
		goto fail;
	view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (view != MAP_FAILED)
		return 0;
fail:
	err = -errno;
	close(fd);
	fd = -1;
	return err;
}

void reserve_exit(void)
{
	if (fd < 0)
		return;
	munmap(view, PAGES * page_size);
	close(fd);
	fd = -1;
	memset(place, 0, sizeof(place));
}

static bool map(uintptr_t start, size_t bytes, uint64_t offset)
{
	return fd >= 0 && mmap((void *)start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			       fd, (off_t)offset) != MAP_FAILED;
}

/* Behind the file's end. */
static bool map_nothing(uintptr_t start, size_t bytes)
{
	return map(start, bytes, PAGES * page_size);
}

static bool is_placed(uintptr_t page)
{
	for (uint32_t i = 0; i < PAGES; i++)
		if (place[i] == page)
			return true;
	return false;
}

/* (locked) The one that was given away longest ago. */
static bool give(uintptr_t page)
{
	uint32_t i = next;

	if (place[i] && !map_nothing(place[i], page_size))
		return false;
	next = (i + 1) % PAGES;
	place[i] = 0;
	/* Whose bytes these were is not known to who sees them next. */
	memset(view + i * page_size, 0, page_size);
	if (!map(page, page_size, i * page_size))
		return false;
	place[i] = page;
	return true;
}

/* (locked) None is there. */
static void forget(uintptr_t start, size_t bytes)
{
	for (uint32_t i = 0; i < PAGES; i++)
		if (place[i] - start < bytes)
			place[i] = 0;
}

/* (locked) Another thread may have been here just before. */
static bool make_bare(uintptr_t start, size_t bytes, bool *bare)
{
	if (*bare)
		return true;
	if (!map_nothing(start, bytes))
		return false;
	forget(start, bytes);
	*bare = true;
	return true;
}

bool reserve_serve(uintptr_t start, size_t bytes, bool *bare, uintptr_t page)
{
	bool served;

	lock();
	served = make_bare(start, bytes, bare) && (!page || is_placed(page) || give(page));
	unlock();
	return served;
}

void reserve_forget(uintptr_t start, size_t bytes)
{
	lock();
	forget(start, bytes);
	unlock();
}
