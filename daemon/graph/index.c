/* SPDX-License-Identifier: MIT */
/*
 * index.c - which ranges are in use, and by whom
 *
 * Most tasks use a shape that is in the index already and shares no byte with
 * another one: they find it by its hash and need no search.  Only new shapes
 * and crowded ones are compared with the others of their buffer.
 */
#include "daemon/graph/internal.h"

/* ------------------------------------------------------------------ */
/* Accesses in a span                                                  */

static void list_add(struct access **head, struct access *a)
{
	a->next = *head;
	a->pprev = head;
	if (a->next)
		a->next->pprev = &a->next;
	*head = a;
}

static void detach(struct access *a)
{
	struct span *s = a->span;

	if (s->writer == a) {
		s->writer = NULL;
	} else {
		*a->pprev = a->next;
		if (a->next)
			a->next->pprev = a->pprev;
		if (a->write)
			s->ordered_writes--;
	}
	a->span = NULL;
}

static bool span_unused(const struct span *s)
{
	return !s->writer && !s->readers && !s->ordered;
}

bool span_has_writer(const struct span *s)
{
	return s->writer || s->ordered_writes;
}

/* ------------------------------------------------------------------ */
/* Buffers and spans                                                   */

static uint64_t buffer_hash(const struct graph *g, const struct context *c,
			    uint64_t id)
{
	return mix(id ^ g->key[0], (uint64_t)c->id ^ g->key[3]);
}

uint64_t index_hash(const struct graph *g, const struct context *c,
		    uint64_t buffer, const struct shape *s)
{
	uint64_t rows = ((uint64_t)s->stride << 32 | s->count) + c->id * g->key[3];

	return mix(buffer ^ g->key[0] ^ rows, s->offset ^ g->key[1]) ^
	       mix(s->length ^ g->key[2], rows ^ g->key[0]);
}

bool index_reserve(struct graph *g, unsigned int ranges)
{
	return pool_reserve(&g->span_pool, ranges) &&
	       pool_reserve(&g->buffer_pool, ranges) &&
	       pool_reserve(&g->tree_pool, (size_t)ranges * TREE_MAX_DEPTH);
}

static struct buffer *buffer_find(const struct graph *g, const struct context *c,
				  uint64_t id)
{
	struct link *l = table_first(&g->buffers, buffer_hash(g, c, id));

	for (; l; l = l->next) {
		struct buffer *b = (struct buffer *)l;

		if (b->id == id && b->context == c)
			return b;
	}
	return NULL;
}

static struct buffer *buffer_get(struct graph *g, struct context *c, uint64_t id)
{
	struct buffer *b = buffer_find(g, c, id);

	if (b)
		return b;
	b = pool_get(&g->buffer_pool);
	b->context = c;
	b->id = id;
	b->root = NULL;
	b->nr_spans = 0;
	b->mixed = false;
	b->prev = NULL;
	b->next = c->buffers;
	if (b->next)
		b->next->prev = b;
	c->buffers = b;
	table_insert(&g->buffers, &b->link, buffer_hash(g, c, id));
	return b;
}

static void buffer_free(struct graph *g, struct buffer *b)
{
	table_remove(&g->buffers, &b->link);
	if (b->prev)
		b->prev->next = b->next;
	else
		b->context->buffers = b->next;
	if (b->next)
		b->next->prev = b->prev;
	pool_put(&g->buffer_pool, b);
}

static void idle_add(struct graph *g, struct span *s)
{
	s->idle = true;
	s->idle_next = NULL;
	s->idle_prev = g->idle_tail;
	if (g->idle_tail)
		g->idle_tail->idle_next = s;
	else
		g->idle = s;
	g->idle_tail = s;
	g->nr_idle++;
}

static void idle_remove(struct graph *g, struct span *s)
{
	s->idle = false;
	if (s->idle_prev)
		s->idle_prev->idle_next = s->idle_next;
	else
		g->idle = s->idle_next;
	if (s->idle_next)
		s->idle_next->idle_prev = s->idle_prev;
	else
		g->idle_tail = s->idle_prev;
	g->nr_idle--;
}

static struct span *span_create(struct graph *g, struct buffer *b,
				const struct shape *shape, uint64_t hash)
{
	struct span *s = pool_get(&g->span_pool);

	s->buffer = b;
	s->shape = *shape;
	s->writer = s->readers = s->ordered = NULL;
	s->leaf = NULL;
	s->ordered_writes = 0;
	s->crowded = s->may_write = s->idle = false;
	table_insert(&g->spans, &s->link, hash);
	if (!b->root && b->nr_spans == BUFFER_FEW) {
		for (unsigned int i = 0; i < BUFFER_FEW; i++) {
			b->few[i]->may_write = span_has_writer(b->few[i]);
			tree_insert(g, b, b->few[i]);
		}
	}
	if (b->nr_spans++ < BUFFER_FEW && !b->root)
		b->few[b->nr_spans - 1] = s;
	else
		tree_insert(g, b, s);
	return s;
}

static void span_free(struct graph *g, struct span *s)
{
	struct buffer *b = s->buffer;

	if (s->idle)
		idle_remove(g, s);
	table_remove(&g->spans, &s->link);
	if (b->root) {
		tree_remove(g, b, s);
	} else {
		unsigned int i = 0;

		while (b->few[i] != s)
			i++;
		b->few[i] = b->few[b->nr_spans - 1];
	}
	if (!--b->nr_spans)
		buffer_free(g, b);
	pool_put(&g->span_pool, s);
}

/* The last access has left @s. */
static void span_put(struct graph *g, struct span *s)
{
	if (s->crowded || s->buffer->mixed) {
		span_free(g, s);
		return;
	}
	idle_add(g, s);
	if (g->nr_idle > IDLE_SPANS)
		span_free(g, g->idle);
}

/* ------------------------------------------------------------------ */
/* Conflicts                                                           */

/**
 * struct search - an access on its way into the index
 * @left:	visits that it may still make
 * @writers_only: it reads, and the crowd is known
 * @mark:	its span is new: tell others that it crowds them
 * @crowd:	spans found that share bytes with it
 * @unused:	spans that may go when the walk is over (linked by idle_next)
 */
struct search {
	struct graph *g;
	struct node *node;
	struct span *span;
	bool write, dataflow, mark;
	int left;
	uint32_t crowd;
	struct span *unused;
};

/*
 * Makes the task wait for those in @s that it conflicts with, and takes out
 * those that it supersedes if @covered.
 */
static void meet(struct search *w, struct span *s, bool covered)
{
	struct access *a, *next;

	if (s->writer) {
		node_depend(w->g, w->node, s->writer->node);
		if (covered && w->write && w->dataflow)
			detach(s->writer);
		else
			w->left--;
	}
	if (w->write) {
		for (a = s->readers; a; a = next) {
			next = a->next;
			node_depend(w->g, w->node, a->node);
			if (covered && w->dataflow)
				detach(a);
			else if (--w->left < 0)
				return;
		}
	}
	if (!w->dataflow)
		return;
	for (a = s->ordered; a; a = next) {
		next = a->next;
		if (w->write || a->write)
			node_depend(w->g, w->node, a->node);
		if (covered && w->write)
			detach(a);
		else if (--w->left < 0)
			return;
	}
}

static bool visit(void *arg, struct span *s)
{
	struct search *w = arg;

	if (s == w->span)
		return true;
	if (--w->left < 0)
		return false;
	if (!shape_overlap(&s->shape, &w->span->shape))
		return true;
	if (s->idle) {
		/* Nobody's: rather lose it than crowd the new one. */
		idle_remove(w->g, s);
		s->idle_next = w->unused;
		w->unused = s;
		return true;
	}
	w->crowd++;
	if (w->mark) {
		s->crowded = true;
		w->span->crowded = true;
	}
	meet(w, s, w->write && w->dataflow &&
	     shape_contains(&w->span->shape, &s->shape));
	if (span_unused(s)) {
		w->left++;
		w->crowd--;
		s->idle_next = w->unused;
		w->unused = s;
	}
	return w->left >= 0;
}

static bool walk(struct search *w, bool writers_only)
{
	const struct shape *shape = &w->span->shape;
	struct buffer *b = w->span->buffer;

	if (b->root)
		return tree_walk(b->root, shape->offset, shape_end(shape),
				 writers_only, visit, w);
	for (unsigned int i = 0; i < b->nr_spans; i++) {
		if (!visit(w, b->few[i]))
			return false;
	}
	return true;
}

static void free_unused(struct search *w)
{
	while (w->unused) {
		struct span *s = w->unused;

		w->unused = s->idle_next;
		span_free(w->g, s);
	}
}

/* Compares the search's span with the others of its buffer. */
static void search(struct search *w, bool fresh)
{
	struct buffer *b = w->span->buffer;

	w->g->stats.searches++;
	w->mark = fresh && !b->mixed;
	w->crowd = 0;
	w->left = GRAPH_MAX_VISITS;
	if (w->mark && !walk(w, false)) {
		/* Too many to tell each; so every span counts as crowded. */
		free_unused(w);
		b->mixed = true;
		w->mark = false;
		w->left = GRAPH_MAX_VISITS;
		if (!walk(w, !w->write))
			node_fence(w->g, w->node);
	} else if (!w->mark) {
		bool all = w->write || !b->root;

		if (!walk(w, !all))
			node_fence(w->g, w->node);
		else if (all && !w->crowd && !b->mixed)
			w->span->crowded = false;
	}
	free_unused(w);
}

/* Takes out the in-order access that @n's makes superfluous, if it is easy. */
static void supersede_ordered(struct search *w, struct span *s)
{
	struct access *a = s->ordered;

	/*
	 * Whoever has to wait for a waits for @n as well, which is after a in
	 * their queue; unless a writes and @n doesn't.
	 */
	if (a && a->node != w->node && a->node->queue == w->node->queue &&
	    a->write <= w->write)
		detach(a);
}

/* Adds range @i of @n, of @shape, and makes @n depend on what it conflicts with. */
static void add_range(struct graph *g, struct node *n, unsigned int i,
		      const struct shape *shape, uint64_t hash)
{
	uint64_t id = n->pub.ranges[i].buffer;
	struct access *a = &n->access[i];
	struct search w;
	struct span *s = NULL;
	bool fresh;

	for (struct link *l = table_first(&g->spans, hash); l; l = l->next) {
		s = (struct span *)l;
		if (l->hash == hash && s->buffer->id == id &&
		    s->buffer->context == n->context &&
		    shape_equal(&s->shape, shape))
			break;
		s = NULL;
	}
	w.g = g;
	w.node = n;
	w.write = n->pub.d.access >> 2 * i & ARAX_OUT;
	w.dataflow = n->flags & NODE_DATAFLOW;
	w.unused = NULL;
	fresh = !s;
	if (fresh) {
		struct buffer *b = buffer_get(g, n->context, id);

		s = span_create(g, b, shape, hash);
		w.span = s;
		if (b->nr_spans > 1)
			search(&w, true);
	} else {
		if (s->idle) {
			idle_remove(g, s);
		} else {
			w.left = GRAPH_MAX_VISITS;
			meet(&w, s, true);
			if (w.left < 0)
				node_fence(g, n);
		}
		w.span = s;
		if (s->crowded || s->buffer->mixed)
			search(&w, false);
	}

	a->node = n;
	a->span = s;
	a->write = w.write;
	if (w.dataflow) {
		if (w.write)
			s->writer = a;
		else
			list_add(&s->readers, a);
	} else {
		supersede_ordered(&w, s);
		list_add(&s->ordered, a);
		s->ordered_writes += a->write;
	}
	if (w.write && !s->may_write)
		tree_mark_writer(s);
}

/* ------------------------------------------------------------------ */
/* Calls                                                               */

/*
 * A large index lies in memory, not in the cache.  Then its lines are asked
 * for before the first of them is needed, so that they come together.
 */
#define LARGE_INDEX	4096

static void prefetch_ranges(struct graph *g, struct node *n,
			    const struct shape *shapes)
{
	const struct tree_node *leaves[ARAX_MAX_RANGES];
	unsigned int nr = n->pub.d.nr_ranges;

	for (unsigned int i = 0; i < nr; i++) {
		struct buffer *b = NULL;

		leaves[i] = NULL;
		if (shapes[i].count)
			b = buffer_find(g, n->context, n->pub.ranges[i].buffer);
		if (b && b->root)
			leaves[i] = tree_prefetch(b->root, shapes[i].offset);
	}
	for (unsigned int i = 0; i < nr; i++) {
		if (leaves[i])
			tree_prefetch_spans(leaves[i], shapes[i].offset,
					    shape_end(&shapes[i]));
	}
}

void index_add(struct graph *g, struct node *n)
{
	struct shape shapes[ARAX_MAX_RANGES];
	uint64_t hashes[ARAX_MAX_RANGES];
	unsigned int nr = n->pub.d.nr_ranges;
	bool large = g->spans.used > LARGE_INDEX;

	n->nr_access = nr;
	for (unsigned int i = 0; i < nr; i++) {
		const struct arax_dispatch_range *r = &n->pub.ranges[i];

		n->access[i].span = NULL;
		if (shape_from_range(&shapes[i], r) <= 0) {
			shapes[i].count = 0;
			continue;
		}
		hashes[i] = index_hash(g, n->context, r->buffer, &shapes[i]);
		if (unlikely(large))
			__builtin_prefetch(&g->spans.buckets[hashes[i] & g->spans.mask], 1);
	}
	if (unlikely(large))
		prefetch_ranges(g, n, shapes);
	for (unsigned int i = 0; i < nr; i++) {
		if (shapes[i].count)
			add_range(g, n, i, &shapes[i], hashes[i]);
	}
}

void index_remove(struct graph *g, struct node *n)
{
	if (unlikely(g->spans.used > LARGE_INDEX)) {
		for (unsigned int i = 0; i < n->nr_access; i++)
			__builtin_prefetch(n->access[i].span);
		for (unsigned int i = 0; i < n->nr_access; i++) {
			struct span *s = n->access[i].span;

			if (!s)
				continue;
			__builtin_prefetch(&g->spans.buckets[s->link.hash & g->spans.mask], 1);
			if (s->leaf)
				tree_prefetch_leaf(s->leaf);
		}
	}
	for (unsigned int i = 0; i < n->nr_access; i++) {
		struct access *a = &n->access[i];
		struct span *s = a->span;

		if (!s)
			continue;
		detach(a);
		if (span_unused(s))
			span_put(g, s);
	}
}

static void forget_span(struct graph *g, struct span *s)
{
	if (s->idle)
		idle_remove(g, s);
	table_remove(&g->spans, &s->link);
	pool_put(&g->span_pool, s);
}

void index_drop_context(struct graph *g, struct context *c)
{
	while (c->buffers) {
		struct buffer *b = c->buffers;

		if (b->root) {
			tree_free(g, b->root, forget_span);
		} else {
			for (unsigned int i = 0; i < b->nr_spans; i++)
				forget_span(g, b->few[i]);
		}
		buffer_free(g, b);
	}
}
