// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A treap: a search tree by keys, and a heap by weights.  A node's weight is made of
 * its address, which clients neither choose nor know, so no order of theirs makes the
 * tree deep.
 */
#include "heap.h"

/* Of splitmix64. */
static u64 weight(const struct cheap *n)
{
	u64 z = (u64)(unsigned long)n * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* What points to @n. */
static struct cheap **link_of(struct cheap **root, const struct cheap *n)
{
	struct cheap *up = n->up;

	if (!up)
		return root;
	return up->left == n ? &up->left : &up->right;
}

/* @n and the one above it change places; the order stays. */
static void rise(struct cheap **root, struct cheap *n)
{
	struct cheap *up = n->up, **inner = up->left == n ? &n->right : &n->left;

	*link_of(root, up) = n;
	n->up = up->up;
	*(up->left == n ? &up->left : &up->right) = *inner;
	if (*inner)
		(*inner)->up = up;
	*inner = up;
	up->up = n;
}

void cheap_insert(struct cheap **root, struct cheap *n, u64 key)
{
	struct cheap **at = root, *up = NULL;
	u64 w = weight(n);

	while (*at) {
		up = *at;
		at = key < up->key ? &up->left : &up->right;
	}
	n->up = up;
	n->left = NULL;
	n->right = NULL;
	n->key = key;
	*at = n;
	while (n->up && weight(n->up) < w)
		rise(root, n);
}

void cheap_remove(struct cheap **root, struct cheap *n)
{
	struct cheap *below;

	/* Down, until there is at most one below it. */
	while (n->left && n->right)
		rise(root, weight(n->left) > weight(n->right) ? n->left : n->right);
	below = n->left ? n->left : n->right;
	*link_of(root, n) = below;
	if (below)
		below->up = n->up;
}
