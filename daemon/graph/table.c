/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "daemon/graph/internal.h"

bool table_init(struct table *t, unsigned int bits)
{
	*t = (struct table){ .mask = (1ull << bits) - 1 };
	t->buckets = calloc(t->mask + 1, sizeof(*t->buckets));
	return t->buckets;
}

void table_fini(struct table *t)
{
	free(t->buckets);
	*t = (struct table){ 0 };
}

void table_grow(struct table *t)
{
	uint64_t mask = t->mask * 2 + 1;
	struct link **buckets = calloc(mask + 1, sizeof(*buckets));

	if (!buckets)
		return;		/* longer chains, no harm */
	for (uint64_t i = 0; i <= t->mask; i++) {
		struct link *l = t->buckets[i];

		while (l) {
			struct link *next = l->next;

			l->next = buckets[l->hash & mask];
			buckets[l->hash & mask] = l;
			l = next;
		}
	}
	free(t->buckets);
	t->buckets = buckets;
	t->mask = mask;
}

void table_remove(struct table *t, struct link *l)
{
	struct link **p = &t->buckets[l->hash & t->mask];

	while (*p != l)
		p = &(*p)->next;
	*p = l->next;
	t->used--;
}
