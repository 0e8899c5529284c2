/* SPDX-License-Identifier: MIT */
#include "daemon/graph/pool.h"

#include <stdlib.h>

#define CHUNK_BYTES	(64u << 10)

struct chunk {
	struct chunk *next;
	char pad[64 - sizeof(struct chunk *)];
	char objects[];
};

void pool_init(struct pool *p, size_t size)
{
	*p = (struct pool){ .size = (size + 15) & ~(size_t)15 };
}

bool pool_grow(struct pool *p)
{
	size_t n = (CHUNK_BYTES - sizeof(struct chunk)) / p->size;
	struct chunk *c;

	if (posix_memalign((void **)&c, 64, CHUNK_BYTES))
		return false;
	c->next = p->chunks;
	p->chunks = c;
	p->bytes += CHUNK_BYTES;
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

		POOL_UNPOISON(c, CHUNK_BYTES);
		free(c);
		c = next;
	}
	*p = (struct pool){ .size = p->size };
}
