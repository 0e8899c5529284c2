// SPDX-License-Identifier: MIT
#include "daemon/memory/treap.h"

/* Of splitmix64. */
uint64_t treap_weight(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Where the tree points to @n, which @parent has. */
static struct treap **link_of(struct treap_root *root, struct treap *parent, const struct treap *n)
{
	if (!parent)
		return &root->top;
	return parent->left == n ? &parent->left : &parent->right;
}

/* @n and its parent change places; the order stays. */
static void rise(struct treap_root *root, struct treap *n)
{
	struct treap *p = n->parent, **inner;

	*link_of(root, p->parent, p) = n;
	n->parent = p->parent;
	inner = p->left == n ? &n->right : &n->left;
	*(p->left == n ? &p->left : &p->right) = *inner;
	if (*inner)
		(*inner)->parent = p;
	*inner = p;
	p->parent = n;
}

void treap_changed(struct treap *n, const struct treap_order *order)
{
	for (; order->refresh && n; n = n->parent)
		order->refresh(n);
}

void treap_insert(struct treap_root *root, struct treap *n, uint64_t weight,
		  const struct treap_order *order)
{
	struct treap **at = &root->top, *parent = NULL;

	while (*at) {
		root->steps++;
		parent = *at;
		at = order->compare(n, parent) < 0 ? &parent->left : &parent->right;
	}
	*n = (struct treap){ .parent = parent, .weight = weight };
	*at = n;
	while (n->parent && n->parent->weight < weight) {
		root->steps++;
		parent = n->parent;
		rise(root, n);
		if (order->refresh)
			order->refresh(parent);
	}
	treap_changed(n, order);
}

void treap_remove(struct treap_root *root, struct treap *n, const struct treap_order *order)
{
	struct treap *child;

	/* Down, until there is at most one below it. */
	while (n->left && n->right) {
		root->steps++;
		rise(root, n->left->weight > n->right->weight ? n->left : n->right);
	}
	child = n->left ? n->left : n->right;
	*link_of(root, n->parent, n) = child;
	if (child)
		child->parent = n->parent;
	treap_changed(n->parent, order);
}

struct treap *treap_from(struct treap_root *root, const struct treap *key,
			 const struct treap_order *order)
{
	struct treap *t = root->top, *from = NULL;

	while (t) {
		root->steps++;
		if (order->compare(t, key) < 0) {
			t = t->right;
		} else {
			from = t;
			t = t->left;
		}
	}
	return from;
}

struct treap *treap_find(struct treap_root *root, const struct treap *key,
			 const struct treap_order *order)
{
	struct treap *t = treap_from(root, key, order);

	return t && !order->compare(t, key) ? t : NULL;
}

struct treap *treap_first(struct treap_root *root)
{
	struct treap *t = root->top;

	for (; t && t->left; t = t->left)
		root->steps++;
	return t;
}
