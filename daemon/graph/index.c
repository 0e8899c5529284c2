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

/* ------------------------------------------------------------------ */
/* Buffers and spans                                                   */

uint64_t index_hash(const struct graph *g, const struct context *c,
		    uint64_t buffer, const struct shape *s)
{
	uint64_t rows = ((uint64_t)s->stride << 32 | s->count) + c->id * g->key[3];

	return mix(buffer ^ g->key[0] ^ rows, s->offset ^ g->key[1]) ^
	       mix(s->length ^ g->key[2], rows ^ g->key[0]);
}

bool index_make_room(struct graph *g, unsigned int ranges)
{
	if (!pool_reserve(&g->span_pool, ranges) || !pool_reserve(&g->buffer_pool, ranges) ||
	    !pool_reserve(&g->tree_pool, (size_t)ranges * TREE_MAX_DEPTH))
		return false;
	g->room = ranges;
	return true;
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

static void kept_add(struct graph *g, struct span *s)
{
	s->kept = true;
	s->kept_next = NULL;
	s->kept_prev = g->kept_tail;
	if (g->kept_tail)
		g->kept_tail->kept_next = s;
	else
		g->kept = s;
	g->kept_tail = s;
	g->nr_kept++;
}

static void kept_remove(struct graph *g, struct span *s)
{
	s->kept = false;
	if (s->kept_prev)
		s->kept_prev->kept_next = s->kept_next;
	else
		g->kept = s->kept_next;
	if (s->kept_next)
		s->kept_next->kept_prev = s->kept_prev;
	else
		g->kept_tail = s->kept_prev;
	g->nr_kept--;
}

/*
 * Most tasks use a buffer as the last one that used it did: that one's span is looked at
 * before anything is hashed.  Who has buffers that share a place here only comes to that.
 */
static inline struct span **recent_place(struct graph *g, uint64_t buffer)
{
	return &g->recent[buffer % RECENT_SPANS];
}

static void recent_forget(struct graph *g, struct span *s)
{
	struct span **place = recent_place(g, s->buffer->id);

	if (*place == s)
		*place = NULL;
}

static struct span *span_create(struct graph *g, struct buffer *b,
				const struct shape *shape, uint64_t hash)
{
	struct span *s = pool_get(&g->span_pool);

	g->room = 0;	/* has to be looked at anew */
	s->buffer = b;
	s->shape = *shape;
	s->writer = s->readers = s->ordered = NULL;
	s->leaf = NULL;
	s->ordered_writes = s->users = 0;
	s->crowded = s->may_write = s->kept = s->in_order = false;
	table_insert(&g->spans, &s->link, hash);
	b->nr_spans++;
	return s;
}

/* Puts a new span where there are few; false: it goes into the tree. */
static inline bool few_add(struct graph *g, struct buffer *b, struct span *s)
{
	if (likely(b->root))
		return false;
	if (b->nr_spans <= BUFFER_FEW) {
		b->few[b->nr_spans - 1] = s;
		return true;
	}
	for (unsigned int i = 0; i < BUFFER_FEW; i++) {
		b->few[i]->may_write = span_has_writer(b->few[i]);
		tree_insert(g, b, b->few[i]);
	}
	return false;
}

static void span_free(struct graph *g, struct span *s)
{
	struct buffer *b = s->buffer;

	if (s->kept)
		kept_remove(g, s);
	recent_forget(g, s);
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

static void keep(struct graph *g, struct span *s)
{
	kept_add(g, s);
	while (g->nr_kept > KEPT_SPANS) {
		s = g->kept;
		if (span_used(s))
			kept_remove(g, s);	/* until its last access leaves again */
		else
			span_free(g, s);
	}
}

void index_retire(struct graph *g, struct span *s)
{
	if (s->crowded || s->buffer->mixed)
		span_free(g, s);
	else
		keep(g, s);
}

/* ------------------------------------------------------------------ */
/* Conflicts                                                           */

/**
 * struct search - an access on its way into the index
 * @left:	visits that it may still make
 * @rows_left:	rows that it may still look at
 * @writers_only: it reads, and the crowd is known
 * @mark:	its span is new: tell others that it crowds them
 * @apart:	its span is new, and goes into the tree when the search is over
 * @crowd:	spans found that share bytes with it
 * @unused:	spans that may go when the walk is over (linked by kept_next)
 */
struct search {
	struct graph *g;
	struct node *node;
	struct span *span;
	bool write, dataflow, mark, apart;
	int left;
	uint32_t rows_left;
	uint32_t crowd;
	struct span *unused;
};

/* After a visit; or it waits for all of them already. */
static inline bool is_enough(struct search *w)
{
	return --w->left < 0 || w->node->flags & NODE_FENCED;
}

/*
 * Makes the task wait for those in @s that it conflicts with, and takes out
 * those that it supersedes if @covered.
 */
static void meet(struct search *w, struct span *s, bool covered)
{
	/* Each is superseded only once: such an edge is no part of what a task may have. */
	const bool pays = !(covered && w->write && w->dataflow);
	struct access *a, *next;

	if (s->writer) {
		w->g->edges_left += !pays;
		node_depend(w->g, w->node, s->writer->node, false);
		if (covered && w->write && w->dataflow)
			access_detach(s->writer);
		else
			w->left--;
	}
	if (w->write && s->users) {
		for (a = s->readers; a; a = next) {
			next = a->next;
			w->g->edges_left += !pays;
			node_depend(w->g, w->node, a->node, true);
			if (covered && w->dataflow)
				access_detach(a);
			else if (is_enough(w))
				return;
		}
	}
	if (!w->dataflow || !s->in_order)
		return;
	for (a = s->ordered; a; a = next) {
		next = a->next;
		w->g->edges_left += !pays;
		if (w->write || a->write)
			node_depend(w->g, w->node, a->node, !a->write);
		if (covered && w->write)
			access_detach(a);
		else if (is_enough(w))
			return;
	}
}

static void discard(struct search *w, struct span *s)
{
	if (s->kept)
		kept_remove(w->g, s);
	s->kept_next = w->unused;
	w->unused = s;
}

static bool visit(void *arg, struct span *s)
{
	struct search *w = arg;
	uint32_t rows;

	if (s == w->span)
		return true;
	rows = shape_rows_compared(&s->shape, &w->span->shape);
	if (--w->left < 0 || unlikely(w->rows_left < rows))
		return false;
	w->rows_left -= rows;
	if (!shape_overlap(&s->shape, &w->span->shape))
		return true;
	if (!span_used(s)) {
		/* Rather lose it than crowd the new one. */
		discard(w, s);
		return true;
	}
	w->crowd++;
	if (w->mark) {
		s->crowded = true;
		w->span->crowded = true;
	}
	meet(w, s, w->write && w->dataflow &&
	     shape_contains(&w->span->shape, &s->shape));
	if (!span_used(s)) {
		w->left++;
		w->crowd--;
		discard(w, s);
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
	if (w->apart)
		return true;	/* all others have left it */
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

		w->unused = s->kept_next;
		span_free(w->g, s);
	}
}

/* Compares the search's span with the others of its buffer. */
static void search(struct search *w, bool fresh)
{
	struct buffer *b = w->span->buffer;

	w->g->stats.searches++;
	w->rows_left = w->g->rows_left;
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
	w->g->stats.rows += w->g->rows_left - w->rows_left;
	w->g->rows_left = w->rows_left;
	free_unused(w);
}

/* Takes out the in-order access that @n's makes superfluous, if it is easy. */
static void supersede_ordered(const struct node *n, struct span *s, bool write)
{
	struct access *a = s->ordered;

	/*
	 * Whoever has to wait for a waits for @n as well, which is after a in
	 * their queue; unless a writes and @n doesn't.  And fails with it, where
	 * @n does.
	 */
	if (a && a->node != n && n->queue && a->node->queue == n->queue && a->write <= write &&
	    !(n->flags & NODE_CONTINUE))
		access_detach(a);
}

/*
 * Makes @n depend on what an access of that shape conflicts with.  @s: its span, or
 * NULL if it is a new one, of that @hash.  Returns the span.
 */
static __attribute__((noinline))
struct span *relate(struct graph *g, struct node *n, struct span *s, bool write,
		    uint64_t buffer, const struct shape *shape, uint64_t hash)
{
	struct search w = {
		.g = g, .node = n, .write = write, .dataflow = n->flags & NODE_DATAFLOW,
	};

	if (!s) {
		struct buffer *b = buffer_get(g, n->context, buffer);

		s = span_create(g, b, shape, hash);
		w.span = s;
		w.apart = !few_add(g, b, s);
		if (b->nr_spans > 1)
			search(&w, true);
		if (w.apart) {
			/* Behind the search, which reads what this writes, and in larger pieces. */
			s->may_write = write;
			tree_insert(g, b, s);
		}
		return s;
	}
	if (span_used(s)) {
		w.left = GRAPH_MAX_VISITS;
		meet(&w, s, true);
		if (w.left < 0)
			node_fence(g, n);
	}
	w.span = s;
	if (s->crowded || s->buffer->mixed)
		search(&w, false);
	if (!w.dataflow)
		supersede_ordered(n, s, write);
	return s;
}

/* The span of a range that is not the recent one; NULL: it is empty. */
static __attribute__((noinline))
struct span *relate_other(struct graph *g, struct node *n, bool write,
			  const struct arax_dispatch_range *r)
{
	struct shape shape;
	struct span *s;
	uint64_t hash;

	if (shape_from_range(&shape, r) <= 0)
		return NULL;
	hash = index_hash(g, n->context, r->buffer, &shape);
	s = span_find(g, n->context, r->buffer, &shape, hash);
	if (!s || span_used(s) || s->buffer->mixed)
		s = relate(g, n, s, write, r->buffer, &shape, hash);
	*recent_place(g, r->buffer) = s;
	return s;
}

/* Adds a range of @n and makes @n depend on what it conflicts with. */
static inline void add_range(struct graph *g, struct node *n, struct access *a, bool write,
			     const struct arax_dispatch_range *r)
{
	struct span *s = *recent_place(g, r->buffer);

	a->node = n;
	/* What is in the index is not empty, and a single row there has no stride. */
	if (!likely(s && r->count == 1 && s->shape.count == 1 && s->shape.offset == r->offset &&
		    s->shape.length == r->length && s->buffer->id == r->buffer &&
		    s->buffer->context == n->context)) {
		s = relate_other(g, n, write, r);
		if (!s) {
			a->span = NULL;
			return;
		}
	} else if (span_used(s) || s->buffer->mixed) {
		/* Else it was kept, and shares no byte with another. */
		relate(g, n, s, write, r->buffer, &s->shape, s->link.hash);
	}
	a->span = s;
	a->write = write;
	s->users++;
	if (unlikely(!(n->flags & NODE_DATAFLOW))) {
		list_add(&s->ordered, a);
		s->in_order = true;
		s->ordered_writes += write;
	} else if (write) {
		s->writer = a;
	} else {
		list_add(&s->readers, a);
	}
	if (write && !s->may_write)
		tree_mark_writer(s);
}

/* ------------------------------------------------------------------ */
/* Calls                                                               */

void index_add(struct graph *g, struct node *n)
{
	const struct arax_dispatch_range *r = n->pub.ranges, *end = r + n->pub.d.nr_ranges;
	uint64_t access = n->pub.d.access;
	struct access *a = n->access;

	if (unlikely(g->spans.used > LARGE_INDEX)) {
		if (g->expected)
			g->expected--;
		else
			expect_node(g, n);
	}
	for (; r < end; r++, a++, access >>= 2)
		add_range(g, n, a, access & ARAX_OUT, r);
	n->nr_access = n->pub.d.nr_ranges;
}

static void forget_span(struct graph *g, struct span *s)
{
	if (s->kept)
		kept_remove(g, s);
	recent_forget(g, s);
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
