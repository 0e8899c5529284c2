/* SPDX-License-Identifier: MIT */
/* deadline.c - the tasks that have a deadline, in a binary heap */
#include <stdlib.h>

#include "daemon/graph/internal.h"

static uint64_t key(const struct node *n)
{
	return n->pub.d.deadline_ns;
}

static void place(struct graph *g, uint32_t i, struct node *n)
{
	g->heap[i] = n;
	n->heap_index = i;
}

static void sift_up(struct graph *g, uint32_t i, struct node *n)
{
	while (i && key(n) < key(g->heap[(i - 1) / 2])) {
		place(g, i, g->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(g, i, n);
}

bool heap_reserve(struct graph *g)
{
	uint32_t size = g->heap_size ? g->heap_size * 2 : 64;
	struct node **heap;

	if (g->heap_used < g->heap_size)
		return true;
	heap = realloc(g->heap, size * sizeof(*heap));
	if (!heap)
		return false;
	g->heap = heap;
	g->heap_size = size;
	return true;
}

void heap_push(struct graph *g, struct node *n)
{
	n->flags |= NODE_HEAPED;
	sift_up(g, g->heap_used++, n);
}

void heap_remove(struct graph *g, struct node *n)
{
	uint32_t i = n->heap_index;
	struct node *last = g->heap[--g->heap_used];

	n->flags &= ~NODE_HEAPED;
	if (last == n)
		return;
	if (i && key(last) < key(g->heap[(i - 1) / 2])) {
		sift_up(g, i, last);
		return;
	}
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= g->heap_used)
			break;
		if (child + 1 < g->heap_used &&
		    key(g->heap[child + 1]) < key(g->heap[child]))
			child++;
		if (key(last) <= key(g->heap[child]))
			break;
		place(g, i, g->heap[child]);
		i = child;
	}
	place(g, i, last);
}

uint64_t graph_next_deadline(const struct graph *g)
{
	return g->heap_used ? key(g->heap[0]) : UINT64_MAX;
}
