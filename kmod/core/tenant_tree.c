// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tenants by id: a digital search tree.  A node is on the way that the bits of its
 * id describe, most significant first, as high up as there was room.  So no choice
 * of ids, and a tenant may choose by making and removing cgroups, makes a way longer
 * than 64 steps, whatever the number of nodes.
 */
#include "core.h"

#define TOP_BIT(id)	((id) >> 63)

struct core_tenant **core_tenant_place(struct core_tenant **root, u64 id)
{
	u64 bits = id;

	for (; *root && (*root)->id != id; bits <<= 1)
		root = &(*root)->below[TOP_BIT(bits)];
	return root;
}

void core_tenant_unlink(struct core_tenant **root, struct core_tenant *t)
{
	struct core_tenant **place = core_tenant_place(root, t->id), **last = place, *leaf;

	/* Any leaf below may take its place: their ids begin with the same bits. */
	while ((*last)->below[0] || (*last)->below[1])
		last = &(*last)->below[!(*last)->below[0]];
	leaf = *last;
	*last = NULL;
	if (leaf == t)
		return;
	leaf->below[0] = t->below[0];
	leaf->below[1] = t->below[1];
	*place = leaf;
}

static struct core_tenant *lesser(struct core_tenant *a, struct core_tenant *b)
{
	return !a || (b && b->id < a->id) ? b : a;
}

struct core_tenant *core_tenant_from(struct core_tenant *root, u64 id)
{
	struct core_tenant *t, *above = NULL, *least = NULL;
	u64 bits = id;

	for (t = root; t; t = t->below[TOP_BIT(bits)], bits <<= 1) {
		if (t->id >= id)
			least = lesser(least, t);
		/* All of these are greater; of such branches the last has the least. */
		if (!TOP_BIT(bits) && t->below[1])
			above = t->below[1];
	}
	for (t = above; t; t = t->below[!t->below[0]])
		least = lesser(least, t);
	return least;
}
