/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What waits, by a key, the smallest first and equal ones as they came; the node is
 * inside the object.  A hostile client chooses how much waits and in which order it
 * comes and goes, so each step takes logarithmic time: a treap, which is as deep as
 * chance makes it (see heap.c).
 */
#ifndef ARAX_CORE_HEAP_H
#define ARAX_CORE_HEAP_H

#include "platform.h"

struct cheap {
	struct cheap *up;
	struct cheap *left;
	struct cheap *right;
	u64 key;
};

/* *root is NULL if there is none, else any of them: the first is cheap_first(). */
void cheap_insert(struct cheap **root, struct cheap *n, u64 key);
void cheap_remove(struct cheap **root, struct cheap *n);

static inline struct cheap *cheap_first(struct cheap *root)
{
	while (root && root->left)
		root = root->left;
	return root;
}

#define cheap_entry(ptr, type, member) \
	((type *)((char *)(ptr) - __builtin_offsetof(type, member)))

#endif /* ARAX_CORE_HEAP_H */
