// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Objects by id: a digital search tree.  A node is on the way that the bits of its
 * id describe, most significant first, as high up as there was room.  So no choice
 * of ids, and a tenant may choose by making and removing cgroups, makes a way longer
 * than 64 steps, whatever the number of nodes.
 */
#include "core.h"

#define TOP_BIT(id)	((id) >> 63)

struct core_node **core_tree_place(struct core_node **root, u64 id)
{
	u64 bits = id;

	for (; *root && (*root)->id != id; bits <<= 1)
		root = &(*root)->below[TOP_BIT(bits)];
	return root;
}

void core_tree_unlink(struct core_node **root, struct core_node *n)
{
	struct core_node **place = core_tree_place(root, n->id), **last = place, *leaf;

	/* Any leaf below may take its place: their ids begin with the same bits. */
	while ((*last)->below[0] || (*last)->below[1])
		last = &(*last)->below[!(*last)->below[0]];
	leaf = *last;
	*last = NULL;
	if (leaf == n)
		return;
	leaf->below[0] = n->below[0];
	leaf->below[1] = n->below[1];
	*place = leaf;
}

static struct core_node *lesser(struct core_node *a, struct core_node *b)
{
	return !a || (b && b->id < a->id) ? b : a;
}

struct core_node *core_tree_from(struct core_node *root, u64 id)
{
	struct core_node *n, *above = NULL, *least = NULL;
	u64 bits = id;

	for (n = root; n; n = n->below[TOP_BIT(bits)], bits <<= 1) {
		if (n->id >= id)
			least = lesser(least, n);
		/* All of these are greater; of such branches the last has the least. */
		if (!TOP_BIT(bits) && n->below[1])
			above = n->below[1];
	}
	for (n = above; n; n = n->below[!n->below[0]])
		least = lesser(least, n);
	return least;
}
