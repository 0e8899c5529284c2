// SPDX-License-Identifier: MIT
/* The table of guarded regions and the handler that reads it. */
#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/dispatch/race.h"
#include "daemon/memory/guard.h"
#include "daemon/memory/reserve.h"

#define CHUNK_SLOTS	1024u
#define MAX_CHUNKS	1024u

/*
 * A slot is in use if bytes is not 0, which is therefore written last and
 * cleared first.  Slots are reused, also while the handler looks; chunks never freed.
 */
struct region {
	uintptr_t start;
	size_t bytes;
	uint32_t owner;
	uint32_t marked;
	bool bare;			/* see reserve.h */
	uint32_t *lost;
};

uint32_t guard_nr_lost;

static struct region *chunks[MAX_CHUNKS];
static uint32_t nr_slots;		/* handed out so far; by release */
static uint32_t *free_slots;
static uint32_t nr_free, cap_free;
static uint32_t any_marked;
static int notify_fd = -1;
static size_t page_size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static bool installed;

static struct region *region(uint32_t slot)
{
	struct region *chunk = __atomic_load_n(&chunks[slot / CHUNK_SLOTS], __ATOMIC_ACQUIRE);

	return &chunk[slot % CHUNK_SLOTS];
}

static struct region *find(uintptr_t address)
{
	uint32_t i, n = __atomic_load_n(&nr_slots, __ATOMIC_ACQUIRE);

	for (i = 0; i < n; i++) {
		struct region *r = region(i);
		size_t bytes = __atomic_load_n(&r->bytes, __ATOMIC_ACQUIRE);
		uintptr_t start;

		RACE_POINT();
		start = __atomic_load_n(&r->start, __ATOMIC_ACQUIRE);
		/* With the start of another one its bytes are others, or it has none yet. */
		if (bytes && address - start < bytes &&
		    __atomic_load_n(&r->bytes, __ATOMIC_RELAXED) == bytes)
			return r;
	}
	return NULL;
}

/* What is there goes only once there is something for its place: others use it. */
static bool map_zeros(uintptr_t start, size_t bytes)
{
	void *zeros = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (zeros == MAP_FAILED)
		return false;
	if (mremap(zeros, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) != MAP_FAILED)
		return true;
	munmap(zeros, bytes);
	return false;
}

/*
 * All of it at once: a page in the midst of a mapping makes two more mappings, of which a process
 * has only so many.  Where so much can't be promised (vm.overcommit_memory = 2) there are spare
 * pages, and without these the page has to do.  @address: where it faulted, or 0.
 */
static bool mend(struct region *r, uintptr_t address)
{
	uintptr_t start = r->start & ~(page_size - 1), page = address & ~(page_size - 1);
	size_t bytes = (r->start + r->bytes - start + page_size - 1) & ~(page_size - 1);

	return map_zeros(start, bytes) || reserve_serve(start, bytes, &r->bare, page) ||
	       (page && map_zeros(page, page_size));
}

static void mark(struct region *r)
{
	const uint64_t one = 1;
	ssize_t n;
	int fd;

	__atomic_store_n(&r->marked, 1, __ATOMIC_RELAXED);
	/* Pairs with the exchange in guard_next_marked(). */
	__atomic_store_n(&any_marked, 1, __ATOMIC_SEQ_CST);
	fd = __atomic_load_n(&notify_fd, __ATOMIC_RELAXED);
	if (fd >= 0) {
		n = write(fd, &one, sizeof(one));
		(void)n;
	}
}

/* Tasks on it fail from now on. */
static void tell(struct region *r)
{
	if (r->lost && !__atomic_exchange_n(r->lost, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&guard_nr_lost, 1, __ATOMIC_RELAXED);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	int saved = errno;
	struct region *r = NULL;

	/* Sent by somebody, or a machine check: not ours to mend. */
	if (info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR)
		r = find(address);
	if (!r || !mend(r, address)) {
		/* The access is repeated and ends the process. */
		signal(SIGBUS, SIG_DFL);
		errno = saved;
		return;
	}
	tell(r);
	if (r->owner)
		mark(r);
	errno = saved;
}

void guard_notify(int event_fd)
{
	__atomic_store_n(&notify_fd, event_fd, __ATOMIC_RELAXED);
}

int guard_init(void)
{
	struct sigaction sa;
	int err;

	page_size = (size_t)sysconf(_SC_PAGESIZE);
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_sigbus;
	/* ONSTACK: a kernel may have put something else into the stack pointer, see kernel.h. */
	sa.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER | SA_ONSTACK;
	sigemptyset(&sa.sa_mask);
	/* What was there the first time is what guard_exit() brings back. */
	err = sigaction(SIGBUS, &sa, installed ? NULL : &before) ? -errno : 0;
	installed |= !err;
	/* If there is none, there may be zeros all the same when they are needed. */
	if (!err)
		reserve_init();
	return err;
}

void guard_exit(void)
{
	uint32_t i;

	sigaction(SIGBUS, &before, NULL);
	installed = false;
	guard_notify(-1);
	reserve_exit();
	for (i = 0; i < MAX_CHUNKS; i++) {
		free(chunks[i]);
		chunks[i] = NULL;
	}
	free(free_slots);
	free_slots = NULL;
	nr_slots = nr_free = cap_free = 0;
}

bool guard_may_map(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type != HUGETLBFS_MAGIC;
}

static int take_slot(uint32_t *slot)
{
	uint32_t next = nr_slots;

	if (nr_free) {
		*slot = free_slots[--nr_free];
		return 0;
	}
	if (next >= CHUNK_SLOTS * MAX_CHUNKS)
		return -ENOMEM;
	if (next + 1 > cap_free) {
		uint32_t cap = cap_free ? cap_free * 2 : CHUNK_SLOTS;
		uint32_t *more = realloc(free_slots, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		free_slots = more;
		cap_free = cap;
	}
	if (!chunks[next / CHUNK_SLOTS]) {
		struct region *chunk = calloc(CHUNK_SLOTS, sizeof(*chunk));

		if (!chunk)
			return -ENOMEM;
		__atomic_store_n(&chunks[next / CHUNK_SLOTS], chunk, __ATOMIC_RELEASE);
	}
	*slot = next;
	/* Pairs with the acquire in find(). */
	__atomic_store_n(&nr_slots, next + 1, __ATOMIC_RELEASE);
	return 0;
}

int guard_add_told(const void *start, size_t bytes, uint32_t owner, uint32_t *lost, uint32_t *slot)
{
	struct region *r;
	int err;

	pthread_mutex_lock(&lock);
	err = take_slot(slot);
	if (!err) {
		r = region(*slot);
		/* Who sees this one sees that the one before had gone: see find(). */
		__atomic_store_n(&r->start, (uintptr_t)start, __ATOMIC_RELEASE);
		__atomic_store_n(&r->owner, owner, __ATOMIC_RELAXED);
		__atomic_store_n(&r->marked, 0, __ATOMIC_RELAXED);
		r->bare = false;
		r->lost = lost;
		/* With it the handler finds all the rest. */
		__atomic_store_n(&r->bytes, bytes, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

int guard_add(const void *start, size_t bytes, uint32_t owner, uint32_t *slot)
{
	return guard_add_told(start, bytes, owner, NULL, slot);
}

void guard_remove(uint32_t slot)
{
	struct region *r = region(slot);

	pthread_mutex_lock(&lock);
	if (r->bare)
		reserve_forget(r->start & ~(page_size - 1), r->bytes + (r->start & (page_size - 1)));
	__atomic_store_n(&r->bytes, 0, __ATOMIC_RELEASE);
	if (r->lost && __atomic_load_n(r->lost, __ATOMIC_RELAXED))
		__atomic_fetch_sub(&guard_nr_lost, 1, __ATOMIC_RELAXED);
	free_slots[nr_free++] = slot;
	pthread_mutex_unlock(&lock);
}

uint32_t guard_next_marked(void)
{
	uint32_t i, owner = 0;

	if (!__atomic_load_n(&any_marked, __ATOMIC_RELAXED))
		return 0;
	pthread_mutex_lock(&lock);
	__atomic_exchange_n(&any_marked, 0, __ATOMIC_SEQ_CST);
	for (i = 0; i < nr_slots; i++) {
		struct region *r = region(i);

		if (!r->bytes || !__atomic_exchange_n(&r->marked, 0, __ATOMIC_RELAXED))
			continue;
		owner = r->owner;
		/* There may be more. */
		__atomic_store_n(&any_marked, 1, __ATOMIC_RELAXED);
		break;
	}
	pthread_mutex_unlock(&lock);
	return owner;
}

bool guard_lose(uint32_t slot)
{
	struct region *r = region(slot);
	bool mended;

	/* First, so that no task ends well that has seen zeros. */
	tell(r);
	mended = mend(r, 0);
	if (r->owner)
		mark(r);
	return mended;
}
