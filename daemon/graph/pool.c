/* SPDX-License-Identifier: MIT */
#include "daemon/graph/pool.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A pool that has become large takes huge pages: there the TLB decides. */
#define CHUNK_BYTES	(64u << 10)
#define LARGE_BYTES	(2u << 20)

struct chunk {
	struct chunk *next;
	size_t bytes;
	char pad[64 - sizeof(struct chunk *) - sizeof(size_t)];
	char objects[];
};

void pool_init(struct pool *p, size_t size)
{
	/* What is larger than a cache line begins with one. */
	size_t align = size > 64 ? 64 : 16;

	*p = (struct pool){ .size = (size + align - 1) & ~(align - 1) };
}

bool pool_grow(struct pool *p)
{
	bool large = p->bytes >= LARGE_BYTES;
	size_t bytes = large ? LARGE_BYTES : CHUNK_BYTES;
	size_t n = (bytes - sizeof(struct chunk)) / p->size;
	struct chunk *c;

	if (posix_memalign((void **)&c, large ? LARGE_BYTES : 64, bytes))
		return false;
	if (large)
		madvise(c, bytes, MADV_HUGEPAGE);	/* a hint */
	c->next = p->chunks;
	c->bytes = bytes;
	p->chunks = c;
	p->bytes += bytes;
	/* Backwards, so that objects are first handed out in ascending order. */
	for (size_t i = n; i-- > 0;) {
		struct pool_object *o = (void *)(c->objects + i * p->size);

		o->next = p->free;
		p->free = o;
		POOL_POISON(o, p->size);
	}
	p->avail += n;
	return true;
}

void pool_fini(struct pool *p)
{
	struct chunk *c = p->chunks;

	while (c) {
		struct chunk *next = c->next;

		POOL_UNPOISON(c->objects, c->bytes - sizeof(*c));
		free(c);
		c = next;
	}
	*p = (struct pool){ .size = p->size };
}
