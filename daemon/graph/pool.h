/* SPDX-License-Identifier: MIT */
/*
 * pool.h - objects of one size, reused last-in first-out
 *
 * Memory grows with the largest number of objects that lived at once and goes
 * back to the system only in pool_fini().  One thread.
 */
#ifndef ARAXD_GRAPH_POOL_H
#define ARAXD_GRAPH_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POOL_POISON(p, n)	ASAN_POISON_MEMORY_REGION(p, n)
#define POOL_UNPOISON(p, n)	ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POOL_POISON(p, n)	((void)0)
#define POOL_UNPOISON(p, n)	((void)0)
#endif

struct pool_object {
	struct pool_object *next;
};

struct pool {
	struct pool_object *free;
	size_t size;		/* of an object, rounded up */
	size_t avail;		/* objects on the free list */
	size_t used;
	void *chunks;
	uint64_t bytes;		/* obtained from the system */
};

void pool_init(struct pool *p, size_t size);
void pool_fini(struct pool *p);

/* Adds a chunk; false: no memory. */
bool pool_grow(struct pool *p);

/* Makes the next @n calls of pool_get() succeed; false: no memory. */
static inline bool pool_reserve(struct pool *p, size_t n)
{
	while (__builtin_expect(p->avail < n, 0)) {
		if (!pool_grow(p))
			return false;
	}
	return true;
}

/* An object with undefined contents, or NULL. */
static inline void *pool_get(struct pool *p)
{
	struct pool_object *o;

	if (__builtin_expect(!p->free, 0) && !pool_grow(p))
		return NULL;
	o = p->free;
	POOL_UNPOISON(o, p->size);
	p->free = o->next;
	/* The next one: what was freed long ago is in no cache. */
	__builtin_prefetch(p->free, 1);
	p->avail--;
	p->used++;
	return o;
}

static inline void pool_put(struct pool *p, void *object)
{
	struct pool_object *o = object;

	o->next = p->free;
	p->free = o;
	p->avail++;
	p->used--;
	/* The link is read under pool_get()'s unpoisoning only. */
	POOL_POISON(o, p->size);
}

#endif /* ARAXD_GRAPH_POOL_H */
