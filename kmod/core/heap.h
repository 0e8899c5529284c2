/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A pairing heap with its node inside the object: smallest key first, insertion
 * in constant time, removal of any node in logarithmic time over a sequence.
 * What waits for a timeline is kept so, because a hostile client chooses how
 * much waits and in which order it comes.
 */
#ifndef ARAX_CORE_HEAP_H
#define ARAX_CORE_HEAP_H

#include "platform.h"

struct cheap {
	struct cheap *child;
	struct cheap *next;	/* sibling */
	struct cheap *prev;	/* sibling, or the parent of a first child */
	u64 key;
};

/* Two roots become one; either may be NULL. */
static inline struct cheap *cheap_meld(struct cheap *a, struct cheap *b)
{
	struct cheap *low;

	if (!a || !b)
		return a ? a : b;
	low = b->key < a->key ? b : a;
	b = low == a ? b : a;
	b->prev = low;
	b->next = low->child;
	if (b->next)
		b->next->prev = b;
	low->child = b;
	return low;
}

/* The root of what a list of siblings becomes: in pairs, then from the right. */
static inline struct cheap *cheap_gather(struct cheap *list)
{
	struct cheap *pairs = NULL, *root = NULL, *a, *b;

	while (list) {
		a = list;
		b = a->next;
		list = b ? b->next : NULL;
		a->next = NULL;
		a->prev = NULL;
		if (b) {
			b->next = NULL;
			b->prev = NULL;
			a = cheap_meld(a, b);
		}
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		a = pairs;
		pairs = a->next;
		a->next = NULL;
		root = cheap_meld(root, a);
	}
	return root;
}

static inline void cheap_insert(struct cheap **root, struct cheap *n, u64 key)
{
	n->child = NULL;
	n->next = NULL;
	n->prev = NULL;
	n->key = key;
	*root = cheap_meld(*root, n);
}

static inline void cheap_remove(struct cheap **root, struct cheap *n)
{
	if (*root == n) {
		*root = cheap_gather(n->child);
		return;
	}
	if (n->prev->child == n)
		n->prev->child = n->next;
	else
		n->prev->next = n->next;
	if (n->next)
		n->next->prev = n->prev;
	*root = cheap_meld(*root, cheap_gather(n->child));
}

#define cheap_entry(ptr, type, member) \
	((type *)((char *)(ptr) - __builtin_offsetof(type, member)))

#endif /* ARAX_CORE_HEAP_H */
