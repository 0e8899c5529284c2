// SPDX-License-Identifier: MIT
#include "daemon/memory/hostmap.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

/* @tree: of struct mapping by address; none of them overlap. */
static pthread_rwlock_t tree_lock = PTHREAD_RWLOCK_INITIALIZER;
static void *tree;

/* Held shared while they are told, alone to change the list.  Not within tree_lock. */
static pthread_rwlock_t watches_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct hostmap_watch *watches;

/* Equal is what overlaps: so an address finds the buffer that it is in. */
static int compare(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;

	if (x->base + x->bytes <= y->base)
		return -1;
	return y->base + y->bytes <= x->base;
}

int hostmap_add(const struct mapping *m)
{
	void *node;

	if (!m->bytes)
		return 0;
	pthread_rwlock_wrlock(&tree_lock);
	node = tsearch(m, &tree, compare);
	pthread_rwlock_unlock(&tree_lock);
	return node ? 0 : -ENOMEM;
}

void hostmap_remove(const struct mapping *m)
{
	if (!m->bytes)
		return;
	pthread_rwlock_wrlock(&tree_lock);
	tdelete(m, &tree, compare);
	pthread_rwlock_unlock(&tree_lock);
	pthread_rwlock_rdlock(&watches_lock);
	for (struct hostmap_watch *w = watches; w; w = w->next)
		w->gone(w, m->serial);
	pthread_rwlock_unlock(&watches_lock);
}

bool hostmap_find(const void *p, uint64_t bytes, struct mapping *m)
{
	const struct mapping key = { .base = (uint8_t *)p, .bytes = 1 };
	const struct mapping *const *found;
	bool whole = false;

	pthread_rwlock_rdlock(&tree_lock);
	found = tfind(&key, &tree, compare);
	if (found) {
		const struct mapping *in = *found;

		whole = bytes <= in->bytes - (uint64_t)(key.base - in->base);
		/* Not what its link and the poller change. */
		*m = (struct mapping){
			.base = in->base, .bytes = in->bytes, .serial = in->serial, .fd = in->fd,
		};
	}
	pthread_rwlock_unlock(&tree_lock);
	return whole;
}

void hostmap_watch(struct hostmap_watch *w)
{
	pthread_rwlock_wrlock(&watches_lock);
	w->next = watches;
	watches = w;
	pthread_rwlock_unlock(&watches_lock);
}

void hostmap_unwatch(struct hostmap_watch *w)
{
	struct hostmap_watch **link = &watches;

	pthread_rwlock_wrlock(&watches_lock);
	while (*link && *link != w)
		link = &(*link)->next;
	if (*link)
		*link = w->next;
	pthread_rwlock_unlock(&watches_lock);
}
