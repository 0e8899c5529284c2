/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - pages for guarded memory where there is none for zeros
 *
 * Where no more memory is promised to anybody (vm.overcommit_memory = 2) a mapping of zeros can't be
 * had, nor can a page that is missing in a file.  So there are a few pages from the start.  All of
 * a region becomes a mapping in which each access faults, which needs no memory, and an access gets
 * a spare page in its place, until another one needs that: then it reads as zeros again.
 *
 * An access goes on once all pages that it touches are there.  Several threads at such memory may
 * take pages from each other, but there are many more than they touch at once.
 *
 * reserve_serve() is async-signal-safe.  Thread-safe.
 */
#ifndef ARAXD_MEMORY_RESERVE_H
#define ARAXD_MEMORY_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Negative errno: there are none, and reserve_serve() fails. */
int reserve_init(void);
void reserve_exit(void);

/*
 * A region of whole pages has none of its own from now on: @bare, false at first, says whether that
 * is so.  Its page @page, if not 0, is there.
 */
bool reserve_serve(uintptr_t start, size_t bytes, bool *bare, uintptr_t page);
/* Nobody uses the region any more, and it is about to be unmapped. */
void reserve_forget(uintptr_t start, size_t bytes);

#endif /* ARAXD_MEMORY_RESERVE_H */
