// SPDX-License-Identifier: MIT
/*
 * Breadth-first search, a level a launch: every node of that level gives its
 * neighbours that have none the next.  Several may do so at once, and all write the
 * same.  found[slot] says whether there is anything to do, so that the program can
 * launch levels ahead without looking.
 *
 * Rows and neighbours are contents of buffers: each is read once and compared before
 * it is used, and a row is not followed beyond `most` neighbours.  A row begins where one
 * before it has ended, or later: so a call follows no more neighbours than there are.
 */
#include "daemon/kernels/rodinia/rodinia.h"

struct start_args {
	uint32_t nodes, slots, source;
};

struct level_args {
	uint32_t nodes, edges, most, level, slot;
};

ARAX_KERNEL int rodinia_bfs_start(const struct arax_launch *l);
ARAX_KERNEL int rodinia_bfs_level(const struct arax_launch *l);

ARAX_KERNEL int rodinia_bfs_start(const struct arax_launch *l)
{
	struct start_args a;
	uint32_t *found;
	int32_t *cost;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	cost = ARAX_ITEMS(l, 0, a.nodes, int32_t);
	found = ARAX_ITEMS(l, 1, a.slots, uint32_t);
	if (!cost || !found || a.source >= a.nodes || a.slots > RO_BFS_ITEMS ||
	    !ro_row(l, a.nodes, RO_BFS_ITEMS))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		uint64_t end = ro_min((g + 1) * RO_BFS_ITEMS, a.nodes);

		for (uint64_t v = g * RO_BFS_ITEMS; v < end; v++)
			cost[v] = v == a.source ? 0 : -1;
		for (uint32_t i = 0; !g && i < a.slots; i++)
			found[i] = !i;
	}
	return 0;
}

/* @followed: where the last row that was followed has ended */
static int visit(const struct level_args *a, const uint32_t *first, const uint32_t *to,
		 int32_t *cost, uint32_t *next, uint64_t v, uint32_t *followed)
{
	uint32_t begin = RO_ONCE(first[v]), end = RO_ONCE(first[v + 1]);

	if (begin < *followed || begin > end || end > a->edges || end - begin > a->most)
		return -EINVAL;
	end = (uint32_t)arax_index(end, (uint64_t)a->edges + 1);
	*followed = end;
	for (uint32_t e = begin; e < end; e++) {
		uint32_t w = RO_ONCE(to[e]);

		if (w >= a->nodes)
			return -EINVAL;
		w = (uint32_t)arax_index(w, a->nodes);
		if (RO_SHARED_GET(cost[w]) < 0) {
			RO_SHARED_SET(cost[w], (int32_t)a->level + 1);
			RO_SHARED_SET(*next, 1);
		}
	}
	return 0;
}

ARAX_KERNEL int rodinia_bfs_level(const struct arax_launch *l)
{
	const uint32_t *first, *to;
	uint32_t *found, followed = 0;
	struct level_args a;
	int32_t *cost;
	int err = 0;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	first = ARAX_ITEMS(l, 0, (uint64_t)a.nodes + 1, uint32_t);
	to = ARAX_ITEMS(l, 1, a.edges, uint32_t);
	cost = ARAX_ITEMS(l, 2, a.nodes, int32_t);
	found = ARAX_ITEMS(l, 3, (uint64_t)a.slot + 2, uint32_t);
	if (!first || !to || !cost || !found || a.level >= INT32_MAX ||
	    !ro_row(l, a.nodes, RO_BFS_ITEMS))
		return -EINVAL;
	if (!RO_SHARED_GET(found[a.slot]))
		return 0;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		uint64_t end = ro_min((g + 1) * RO_BFS_ITEMS, a.nodes);

		for (uint64_t v = g * RO_BFS_ITEMS; v < end; v++)
			if (RO_SHARED_GET(cost[v]) == (int32_t)a.level &&
			    visit(&a, first, to, cost, &found[a.slot + 1], v, &followed))
				err = -EINVAL;
	}
	return err;
}
