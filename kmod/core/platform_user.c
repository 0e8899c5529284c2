// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What platform.h, platform_barrier.h and platform_lock.h keep out of line; not in the module. */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform.h"
#include "platform_barrier.h"
#include "platform_lock.h"

#define LOOKS	50	/* about a microsecond */

bool core_barriers_unequal;

static long membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

static __attribute__((constructor)) void register_process(void)
{
	int err = errno;

	core_barriers_unequal = !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	errno = err;
}

/* Whether what membarrier(2) has just failed for may go. */
static bool may_succeed(void)
{
	/* After a fork the child has to register anew. */
	if (errno == EPERM && !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		return true;
	/* The kernel makes a list of processors. */
	if (errno != ENOMEM)
		return false;
	sched_yield();
	return true;
}

void core_heavy_barrier(void)
{
	int err = errno;

	core_full_barrier();
	if (!core_barriers_unequal)
		return;
	while (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
		if (may_succeed())
			continue;
		/* Those who take the light one rely on it: a wake-up would be lost some day. */
		fprintf(stderr, "arax core: membarrier: %s\n", strerror(errno));
		abort();
	}
	errno = err;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* A few looks: it is never held for long. */
static bool look(uint32_t *word)
{
	int i;

	for (i = 0; i < LOOKS; i++) {
		uint32_t expected = 0;

		relax();
		/* Acquire pairs with the release of the unlock. */
		if (!__atomic_load_n(word, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(word, &expected, 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	}
	return false;
}

static void futex(uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

void core_lock_wait(struct core_lock *l)
{
	int err = errno;

	if (look(&l->taken))
		return;
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	/*
	 * Pairs with the light one in core_lock_unlock(): an unlock either is seen
	 * here, or sees that somebody waits.
	 */
	core_heavy_barrier();
	while (__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE))
		futex(&l->taken, FUTEX_WAIT_PRIVATE, 1);
	__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_RELAXED);
	errno = err;
}

void core_lock_wake(struct core_lock *l)
{
	int err = errno;

	futex(&l->taken, FUTEX_WAKE_PRIVATE, 1);
	errno = err;
}

/* So much is not worth a mapping of its own. */
#define DENSE_BYTES	(256u << 10)

void *core_alloc_sparse(size_t n)
{
	void *p;

	if (n <= DENSE_BYTES)
		return core_alloc(n);
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	if (p == MAP_FAILED)
		return NULL;
	/* A huge page would be there as a whole, and takes its time. */
	madvise(p, n, MADV_NOHUGEPAGE);
	return p;
}

void core_free_sparse(const void *p, size_t n)
{
	if (n <= DENSE_BYTES)
		core_free(p);
	else if (p)
		munmap((void *)p, n);
}
