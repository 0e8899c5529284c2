/* SPDX-License-Identifier: MIT */
/*
 * guard.h - survive a client's memory
 *
 * A mapping of memory that a client made can fault although its size is sealed
 * (no page to be had, an I/O error), or because a buffer was revoked.  Guarded
 * regions turn the first SIGBUS into zeros in all of our mapping, which stays one,
 * and a mark against the region; whoever owns it asks for the marks and ends that
 * context.
 *
 * Not so where a mapping consists of pages of a huge page pool, which may run dry:
 * no smaller page can be put into that.  So such files are refused before they are
 * mapped, see guard_may_map().
 *
 * The handler is async-signal-safe: it reads a table that only grows.
 * Thread-safe.
 */
#ifndef ARAXD_MEMORY_GUARD_H
#define ARAXD_MEMORY_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Install the handler.  Negative errno.  To be called again after what may have put its own in
 * front of it: compilers within drivers do, and theirs may end the process.
 */
int guard_init(void);
/* An eventfd that is written at each mark; -1: none. */
void guard_notify(int event_fd);
/* Back to the default; every region must have been removed. */
void guard_exit(void);

/* Whether a mapping of @fd could be guarded: not of a huge page pool's file, or of none. */
bool guard_may_map(int fd);

/*
 * A region in the handler's table; @owner is what guard_next_marked() returns, 0: nobody
 * asks for it.  -ENOMEM.
 */
int guard_add(const void *start, size_t bytes, uint32_t owner, uint32_t *slot);
/* The same; *@lost, which is 0 now, is 1 once its bytes are gone.  It stays till guard_remove(). */
int guard_add_told(const void *start, size_t bytes, uint32_t owner, uint32_t *lost, uint32_t *slot);
/* Before the munmap(). */
void guard_remove(uint32_t slot);

/* As if it had faulted.  False: there is no memory for zeros in its place. */
bool guard_lose(uint32_t slot);
/* The owner of a region that faulted since the last call; 0: none. */
uint32_t guard_next_marked(void);

extern uint32_t guard_nr_lost;

/* Whether there is any region that was to be told and whose bytes are gone. */
static inline bool guard_any_lost(void)
{
	return __atomic_load_n(&guard_nr_lost, __ATOMIC_RELAXED);
}

#endif /* ARAXD_MEMORY_GUARD_H */
