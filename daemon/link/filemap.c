// SPDX-License-Identifier: MIT
#include "daemon/link/filemap.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define USUAL_NS	2000000u	/* a page to be had, a thread that looks something up */
#define MOST_NS		50000000u	/* of one call: it may be another's doing after all */

/* Who waits has the first of them: whoever comes back for the next piece is behind him. */
static pthread_mutex_t next_one = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* Of this thread. */
struct moment {
	uint64_t wall_ns, ran_ns;
	long sleeps;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct moment now(void)
{
	struct rusage r = { 0 };

	getrusage(RUSAGE_THREAD, &r);
	return (struct moment){
		.wall_ns = clock_ns(CLOCK_MONOTONIC), .ran_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID),
		.sleeps = r.ru_nvcsw,
	};
}

/* A thread that only had to wait for a CPU has not slept. */
static uint64_t slept_since(const struct moment *begin)
{
	struct moment end = now();
	uint64_t wall = end.wall_ns - begin->wall_ns, ran = end.ran_ns - begin->ran_ns;

	if (end.sleeps == begin->sleeps || wall < ran + USUAL_NS)
		return 0;
	return wall - ran - USUAL_NS < MOST_NS ? wall - ran - USUAL_NS : MOST_NS;
}

/* The next call is to wait for the file alone, not for who has our address space locked just now. */
static struct moment begin(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *any;

	pthread_mutex_lock(&next_one);
	pthread_mutex_lock(&one_at_a_time);
	pthread_mutex_unlock(&next_one);
	any = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (any != MAP_FAILED)
		munmap(any, page);
	return now();
}

static uint64_t end(const struct moment *begin)
{
	uint64_t ns = slept_since(begin);

	pthread_mutex_unlock(&one_at_a_time);
	return ns;
}

void *filemap_map_untimed(int fd, size_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base != MAP_FAILED)
		madvise(base, bytes, MADV_DONTFORK);
	return base;
}

void *filemap_map(int fd, size_t bytes, uint64_t *ns)
{
	struct moment m = begin();
	void *base = filemap_map_untimed(fd, bytes);
	int err = errno;

	*ns = end(&m);
	errno = err;
	return base;
}

/* The last piece of what is left, so that this is where it was. */
static size_t unmap_piece(void *base, size_t bytes)
{
	size_t piece = bytes % FILEMAP_PIECE ? bytes % FILEMAP_PIECE : FILEMAP_PIECE;

	munmap((char *)base + bytes - piece, piece);
	return bytes - piece;
}

void filemap_unmap_untimed(void *base, size_t bytes)
{
	while (bytes)
		bytes = unmap_piece(base, bytes);
}

uint64_t filemap_unmap(void *base, size_t bytes)
{
	uint64_t ns = 0;

	while (bytes) {
		struct moment m = begin();

		bytes = unmap_piece(base, bytes);
		ns += end(&m);
	}
	return ns;
}
