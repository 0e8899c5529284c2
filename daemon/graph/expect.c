/* SPDX-License-Identifier: MIT */
/*
 * expect.c - asks for the cache lines that tasks need when they are added and taken out
 *
 * A large index lies in memory, and one line there leads to the next: table, tree, span,
 * access, node.  So each step is made for all ranges before the next step, and for those
 * of several tasks, if they are known: then their lines come together.  It changes
 * nothing, and what it finds is not kept: adding a task finds it again, in the cache.
 */
#include "daemon/graph/internal.h"

#define NEAR_MAX	(2 * EXPECT_RANGES)	/* spans that share bytes with the ranges: of more, the first */

/**
 * struct expected - a range that will be added
 * @at:		where in its buffer's tree the way to it has come; NULL: it needs none
 * @height:	of @at
 */
struct expected {
	const struct context *context;
	uint64_t buffer;
	struct shape shape;
	uint64_t hash;
	const struct tree_node *at;
	unsigned int height;
};

struct expectation {
	struct graph *g;
	struct expected ranges[EXPECT_RANGES];
	const struct span *near[NEAR_MAX];
	unsigned int nr, nr_near;
};

static void expect_ranges(struct expectation *x, const struct context *c,
			  const struct arax_dispatch_range *r, unsigned int nr)
{
	for (const struct arax_dispatch_range *end = r + nr; r < end; r++) {
		struct expected *e = &x->ranges[x->nr];

		if (shape_from_range(&e->shape, r) <= 0)
			continue;
		e->context = c;
		e->buffer = r->buffer;
		e->hash = index_hash(x->g, c, r->buffer, &e->shape);
		__builtin_prefetch(&x->g->spans.buckets[e->hash & x->g->spans.mask], 1);
		x->nr++;
	}
}

/* Finds the span of the same shape, or else the tree in which to look for others. */
static unsigned int find_roots(struct expectation *x)
{
	unsigned int highest = 0;

	for (unsigned int i = 0; i < x->nr; i++) {
		const struct link *first = table_first(&x->g->spans, x->ranges[i].hash);

		if (!first)
			continue;
		__builtin_prefetch(first, 1);
		__builtin_prefetch((const char *)first + 64, 1);
	}
	for (unsigned int i = 0; i < x->nr; i++) {
		struct expected *e = &x->ranges[i];
		const struct span *s = span_find(x->g, e->context, e->buffer, &e->shape, e->hash);
		const struct buffer *b;

		e->at = NULL;
		e->height = 0;
		if (s && !s->crowded && !s->buffer->mixed) {
			/* It shares no byte with another: the tree is not asked. */
			if (x->nr_near < NEAR_MAX)
				x->near[x->nr_near++] = s;
			continue;
		}
		b = buffer_find(x->g, e->context, e->buffer);
		if (!b || !b->root)
			continue;
		e->at = b->root;
		e->height = b->root->height;
		highest = e->height > highest ? e->height : highest;
	}
	return highest;
}

static void find_spans(struct expectation *x, unsigned int highest)
{
	for (; highest; highest--) {
		for (unsigned int i = 0; i < x->nr; i++) {
			struct expected *e = &x->ranges[i];

			if (e->height != highest)
				continue;
			e->at = tree_step(e->at, e->shape.offset);
			e->height--;
		}
	}
	for (unsigned int i = 0; i < x->nr; i++) {
		const struct expected *e = &x->ranges[i];

		if (e->at)
			x->nr_near += tree_near(e->at, e->shape.offset, shape_end(&e->shape),
						x->near + x->nr_near, NEAR_MAX - x->nr_near);
	}
}

static void follow(struct expectation *x)
{
	unsigned int highest = find_roots(x);

	find_spans(x, highest);
	for (unsigned int i = 0; i < x->nr_near; i++) {
		__builtin_prefetch(x->near[i]->writer, 1);
		__builtin_prefetch(x->near[i]->readers, 1);
		__builtin_prefetch(x->near[i]->ordered, 1);
	}
	for (unsigned int i = 0; i < x->nr_near; i++) {
		const struct span *s = x->near[i];

		if (s->writer)
			__builtin_prefetch(s->writer->node, 1);
		if (s->readers)
			__builtin_prefetch(s->readers->node, 1);
		if (s->ordered)
			__builtin_prefetch(s->ordered->node, 1);
	}
}

void expect_node(struct graph *g, const struct node *n)
{
	struct expectation x;

	x.g = g;
	x.nr = x.nr_near = 0;
	expect_ranges(&x, n->context, n->pub.ranges, n->pub.d.nr_ranges);
	follow(&x);
}

/* Nobody has looked at it yet: the ranges that it says it has may not be there. */
static bool is_whole(const struct arax_dispatch *d)
{
	return (size_t)d->cells * ARAX_CELL_SIZE >=
	       sizeof(*d) + d->nr_ranges * sizeof(struct arax_dispatch_range);
}

unsigned int expect_entries(struct graph *g, const struct arax_dispatch *const *d, unsigned int n)
{
	struct expectation x;
	unsigned int i;

	x.g = g;
	x.nr = x.nr_near = 0;
	for (i = 0; i < n && d[i]->nr_ranges <= EXPECT_RANGES - x.nr; i++) {
		const struct context *c = context_of(g, d[i]);

		if (c && c->tracks && is_whole(d[i]))
			expect_ranges(&x, c, (const void *)(d[i] + 1), d[i]->nr_ranges);
	}
	follow(&x);
	return i;
}

void expect_removal(struct graph *g, const struct node *n)
{
	for (unsigned int i = 0; i < n->nr_access; i++)
		__builtin_prefetch(n->access[i].span);
	for (unsigned int i = 0; i < n->nr_access; i++) {
		const struct span *s = n->access[i].span;

		if (!s)
			continue;
		__builtin_prefetch(&g->spans.buckets[s->link.hash & g->spans.mask], 1);
		if (s->leaf)
			tree_prefetch_leaf(s->leaf);
	}
	/* Others may be before it in its bucket. */
	for (unsigned int i = 0; i < n->nr_access; i++) {
		if (n->access[i].span)
			__builtin_prefetch(table_first(&g->spans, n->access[i].span->link.hash));
	}
}
