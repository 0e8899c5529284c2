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

/* Spans that share bytes with the ranges, and leaves that have such: of more, the first. */
#define NEAR_MAX	(2 * EXPECT_RANGES)

/**
 * struct expected - a range that will be added
 * @at:		where in its buffer's tree the way to it has come; NULL: it needs none
 * @height:	of @at
 * @write:	it is written
 */
struct expected {
	const struct context *context;
	uint64_t buffer;
	struct shape shape;
	uint64_t hash;
	const struct tree_node *at;
	unsigned int height;
	bool write;
};

struct expectation {
	struct graph *g;
	struct expected ranges[EXPECT_RANGES];
	const struct span *near[NEAR_MAX];
	bool writes[NEAR_MAX];	/* whoever is there waits for its readers as well */
	unsigned int nr, nr_near;
};

static void expect_ranges(struct expectation *x, const struct context *c, uint64_t access,
			  const struct arax_dispatch_range *r, unsigned int nr)
{
	for (const struct arax_dispatch_range *end = r + nr; r < end; r++, access >>= 2) {
		struct expected *e = &x->ranges[x->nr];

		if (shape_from_range(&e->shape, r) <= 0)
			continue;
		e->context = c;
		e->buffer = r->buffer;
		e->write = access & ARAX_OUT;
		e->hash = index_hash(x->g, c, r->buffer, &e->shape);
		__builtin_prefetch(&x->g->spans.buckets[e->hash & x->g->spans.mask], 1);
		x->nr++;
	}
}

static void near_add(struct expectation *x, const struct span *s, bool all)
{
	__builtin_prefetch(s, 1);
	if (all)
		__builtin_prefetch((const char *)s + 64, 1);
	x->near[x->nr_near] = s;
	x->writes[x->nr_near++] = all;
}

/* Finds the span of the same shape, or else the tree in which to look for others. */
static unsigned int find_roots(struct expectation *x)
{
	unsigned int highest = 0;

	for (unsigned int i = 0; i < x->nr; i++)
		__builtin_prefetch(table_first(&x->g->spans, x->ranges[i].hash), 1);
	for (unsigned int i = 0; i < x->nr; i++) {
		struct expected *e = &x->ranges[i];
		const struct span *s = span_find(x->g, e->context, e->buffer, &e->shape, e->hash);
		const struct buffer *b;

		e->at = NULL;
		e->height = 0;
		if (s && !s->crowded && !s->buffer->mixed) {
			/* It shares no byte with another: the tree is not asked. */
			if (x->nr_near < NEAR_MAX)
				near_add(x, s, true);
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
	const struct tree_node *leaves[NEAR_MAX];
	unsigned int nr = 0, upto[EXPECT_RANGES];

	for (; highest > 1; highest--) {
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

		if (e->height)
			nr += tree_leaves(e->at, e->shape.offset, shape_end(&e->shape),
					  leaves + nr, NEAR_MAX - nr);
		else if (e->at && nr < NEAR_MAX)
			leaves[nr++] = e->at;
		upto[i] = nr;
	}
	for (unsigned int i = 0, k = 0; i < x->nr; i++) {
		const struct expected *e = &x->ranges[i];

		for (; k < upto[i]; k++) {
			const struct span *near[TREE_FAN];
			unsigned int n = tree_near(leaves[k], e->shape.offset,
						   shape_end(&e->shape), near, TREE_FAN);

			for (unsigned int j = 0; j < n && x->nr_near < NEAR_MAX; j++)
				near_add(x, near[j], e->write);
		}
	}
}

static void follow(struct expectation *x)
{
	unsigned int highest = find_roots(x);

	find_spans(x, highest);
	for (unsigned int i = 0; i < x->nr_near; i++) {
		const struct span *s = x->near[i];

		__builtin_prefetch(s->writer, 1);
		if (x->writes[i])
			__builtin_prefetch(s->readers, 1);
		if (s->in_order)
			__builtin_prefetch(s->ordered, 1);
	}
	for (unsigned int i = 0; i < x->nr_near; i++) {
		const struct span *s = x->near[i];

		if (s->writer)
			__builtin_prefetch(s->writer->node, 1);
		if (x->writes[i] && s->readers)
			__builtin_prefetch(s->readers->node, 1);
		if (s->in_order && s->ordered)
			__builtin_prefetch(s->ordered->node, 1);
	}
}

void expect_node(struct graph *g, const struct node *n)
{
	struct expectation x;

	x.g = g;
	x.nr = x.nr_near = 0;
	expect_ranges(&x, n->context, n->pub.d.access, n->pub.ranges, n->pub.d.nr_ranges);
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
			expect_ranges(&x, c, d[i]->access, (const void *)(d[i] + 1), d[i]->nr_ranges);
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
			tree_prefetch(s->leaf);
	}
	/* Others may be before it in its bucket. */
	for (unsigned int i = 0; i < n->nr_access; i++) {
		if (n->access[i].span)
			__builtin_prefetch(table_first(&g->spans, n->access[i].span->link.hash));
	}
}
