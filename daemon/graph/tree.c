/* SPDX-License-Identifier: MIT */
/*
 * tree.c - the spans of one buffer, ordered by their start
 *
 * Nodes are wide so that a search touches few cache lines, and what is looked at is
 * always a whole node: how many it has is not foreseen by the processor, that there are
 * TREE_FAN is.  Places that are not in use hold what is never found.  Spans know their
 * leaf, so removing needs no search.  Nodes are never merged, only freed when
 * empty: the tree is as deep as the largest it once was, and goes when the
 * buffer's last span does.
 */
#include <string.h>

#include "daemon/graph/internal.h"

#define NOWHERE		UINT64_MAX	/* start of a place not in use; its end is 0 */

/* The first one: what a place not in use points to may be elsewhere in @t as well. */
static unsigned int slot_of(const struct tree_node *t, const void *child)
{
	unsigned int at = TREE_FAN;

	for (unsigned int i = TREE_FAN; i-- > 0;)
		at = t->child[i] == child ? i : at;
	return at;
}

static uint64_t max_of(const uint64_t *v)
{
	uint64_t m = 0;

	for (unsigned int i = 0; i < TREE_FAN; i++)
		m = v[i] > m ? v[i] : m;
	return m;
}

/* The largest end of a span in @t that may have a writer, or 0. */
static uint64_t max_wend(const struct tree_node *t)
{
	uint64_t m = 0;

	if (!t->leaf)
		return max_of(t->wend);
	for (unsigned int hits = t->writers; hits; hits &= hits - 1) {
		unsigned int i = __builtin_ctz(hits);

		m = t->end[i] > m ? t->end[i] : m;
	}
	return m;
}

/* @n places from @at on are not in use any more. */
static void vacate(struct tree_node *t, unsigned int at, unsigned int n)
{
	for (; n--; at++) {
		t->start[at] = NOWHERE;
		t->end[at] = 0;
		if (!t->leaf)
			t->wend[at] = 0;
	}
}

static struct tree_node *new_node(struct graph *g, unsigned int height)
{
	/* tree_insert()'s callers have reserved a node for each level. */
	struct tree_node *t = pool_get(&g->tree_pool);

	t->parent = NULL;
	t->n = 0;
	t->writers = 0;
	t->height = height;
	t->leaf = !height;
	memset(t->child, 0, sizeof(t->child));
	vacate(t, 0, TREE_FAN);
	return t;
}

static void adopt(struct tree_node *t, unsigned int i)
{
	if (t->leaf)
		((struct span *)t->child[i])->leaf = t;
	else
		((struct tree_node *)t->child[i])->parent = t;
}

static unsigned int below(unsigned int at)
{
	return (1u << at) - 1;
}

static void open_slot(struct tree_node *t, unsigned int at)
{
	unsigned int n = t->n - at;

	memmove(&t->start[at + 1], &t->start[at], n * sizeof(t->start[0]));
	memmove(&t->end[at + 1], &t->end[at], n * sizeof(t->end[0]));
	memmove(&t->child[at + 1], &t->child[at], n * sizeof(t->child[0]));
	if (!t->leaf)
		memmove(&t->wend[at + 1], &t->wend[at], n * sizeof(t->wend[0]));
	t->writers = (uint16_t)((t->writers & ~below(at)) << 1 | (t->writers & below(at)));
	t->n++;
}

static void close_slot(struct tree_node *t, unsigned int at)
{
	unsigned int n = --t->n - at;

	memmove(&t->start[at], &t->start[at + 1], n * sizeof(t->start[0]));
	memmove(&t->end[at], &t->end[at + 1], n * sizeof(t->end[0]));
	memmove(&t->child[at], &t->child[at + 1], n * sizeof(t->child[0]));
	if (!t->leaf)
		memmove(&t->wend[at], &t->wend[at + 1], n * sizeof(t->wend[0]));
	t->writers = (uint16_t)((t->writers >> 1 & ~below(at)) | (t->writers & below(at)));
	vacate(t, t->n, 1);
}

/* @writer: of a leaf's child, a span.  Another's is described afterwards. */
static void put(struct tree_node *t, unsigned int at, uint64_t start,
		uint64_t end, bool writer, void *child)
{
	open_slot(t, at);
	t->start[at] = start;
	t->end[at] = end;
	t->child[at] = child;
	if (t->leaf)
		t->writers |= (uint16_t)((unsigned int)writer << at);
	else
		t->wend[at] = 0;
	adopt(t, at);
}

/* Writes what @t's parent says about @t. */
static void describe(struct tree_node *t)
{
	struct tree_node *p = t->parent;
	unsigned int i = slot_of(p, t);

	if (p->start[i] > t->start[0])
		p->start[i] = t->start[0];
	p->end[i] = max_of(t->end);
	p->wend[i] = max_wend(t);
}

/* Splits full @t at @at; returns the right part, which its parent has. */
static struct tree_node *split(struct graph *g, struct buffer *b,
			       struct tree_node *t, unsigned int at)
{
	struct tree_node *r = new_node(g, t->height);
	struct tree_node *p = t->parent;
	unsigned int n = t->n - at;

	memcpy(r->start, &t->start[at], n * sizeof(t->start[0]));
	memcpy(r->end, &t->end[at], n * sizeof(t->end[0]));
	memcpy(r->child, &t->child[at], n * sizeof(t->child[0]));
	if (!t->leaf)
		memcpy(r->wend, &t->wend[at], n * sizeof(t->wend[0]));
	r->writers = (uint16_t)(t->writers >> at);
	t->writers = (uint16_t)(t->writers & below(at));
	r->n = n;
	t->n = at;
	vacate(t, at, n);
	for (unsigned int i = 0; i < n; i++)
		adopt(r, i);
	if (!p) {
		p = new_node(g, t->height + 1);
		put(p, 0, t->start[0], 0, false, t);
		b->root = p;
	} else if (p->n == TREE_FAN) {
		unsigned int i = slot_of(p, t);
		struct tree_node *q = split(g, b, p, TREE_FAN / 2);

		if (i >= TREE_FAN / 2)
			p = q;
	}
	put(p, slot_of(p, t) + 1, r->start[0], 0, false, r);
	describe(t);
	describe(r);
	return r;
}

static unsigned int find_slot(const struct tree_node *t, uint64_t start)
{
	unsigned int i = 0;

	/* How many begin at or before @start; no early exit, no branch. */
	for (unsigned int k = 0; k < TREE_FAN; k++)
		i += t->start[k] <= start;
	return i;
}

/* Bits of those that share a byte with the hull [start, end), going by @ends. */
static unsigned int within(const struct tree_node *t, const uint64_t *ends, uint64_t start,
			   uint64_t end)
{
	unsigned int hits = 0;

	for (unsigned int i = TREE_FAN; i-- > 0;)
		hits += hits + (ends[i] > start);
	/* They are in the order of their starts. */
	return hits & below(find_slot(t, end - 1));
}

void tree_insert(struct graph *g, struct buffer *b, struct span *s)
{
	uint64_t start = s->shape.offset;
	uint64_t end = shape_end(&s->shape);
	uint64_t wend = s->may_write ? end : 0;
	struct tree_node *t = b->root;
	unsigned int i;

	if (!t)
		t = b->root = new_node(g, 0);
	while (!t->leaf) {
		i = find_slot(t, start);
		if (i)
			i--;
		else
			t->start[0] = start;
		if (t->end[i] < end)
			t->end[i] = end;
		if (wend && t->wend[i] < wend)
			t->wend[i] = wend;
		t = t->child[i];
	}
	i = find_slot(t, start);
	if (t->n == TREE_FAN) {
		/* Ascending starts are common: then leave the left one full. */
		unsigned int at = i == TREE_FAN ? TREE_FAN - 1 : TREE_FAN / 2;
		struct tree_node *r = split(g, b, t, at);

		if (i >= at) {
			t = r;
			i -= at;
		}
		put(t, i, start, end, s->may_write, s);
		describe(t);
		return;
	}
	put(t, i, start, end, s->may_write, s);
}

void tree_remove(struct graph *g, struct buffer *b, struct span *s)
{
	struct tree_node *t = s->leaf;
	void *child = s;

	s->leaf = NULL;
	for (;;) {
		struct tree_node *p = t->parent;
		unsigned int i = slot_of(t, child);
		uint64_t end = t->end[i], wend;

		if (t->leaf)
			wend = t->writers >> i & 1 ? end : 0;
		else
			wend = t->wend[i];
		close_slot(t, i);
		if (t->n) {
			/* Tell upwards while it changes anything. */
			for (; p; t = p, p = p->parent) {
				i = slot_of(p, t);
				if (p->end[i] != end && p->wend[i] != wend)
					break;
				end = p->end[i];
				wend = p->wend[i];
				p->end[i] = max_of(t->end);
				p->wend[i] = max_wend(t);
				if (p->end[i] == end && p->wend[i] == wend)
					break;
			}
			break;
		}
		pool_put(&g->tree_pool, t);
		if (!p) {
			b->root = NULL;
			return;
		}
		child = t;
		t = p;
	}
	while (!b->root->leaf && b->root->n == 1) {
		t = b->root;
		b->root = t->child[0];
		b->root->parent = NULL;
		pool_put(&g->tree_pool, t);
	}
}

void tree_mark_writer(struct span *s)
{
	struct tree_node *t = s->leaf;
	uint64_t end = shape_end(&s->shape);

	s->may_write = true;
	if (!t)
		return;
	t->writers |= (uint16_t)(1u << slot_of(t, s));
	for (struct tree_node *p = t->parent; p; t = p, p = p->parent) {
		unsigned int i = slot_of(p, t);

		if (p->wend[i] >= end)
			break;
		p->wend[i] = end;
	}
}

static void unmark_writer(struct span *s, unsigned int i)
{
	struct tree_node *t = s->leaf;
	uint64_t old = t->end[i];

	s->may_write = false;
	t->writers &= (uint16_t)~(1u << i);
	for (struct tree_node *p = t->parent; p; t = p, p = p->parent) {
		i = slot_of(p, t);
		if (p->wend[i] != old)
			break;
		p->wend[i] = max_wend(t);
		if (p->wend[i] == old)
			break;
	}
}

bool tree_walk(struct tree_node *t, uint64_t start, uint64_t end, bool writers,
	       bool (*visit)(void *arg, struct span *s), void *arg)
{
	const uint64_t *ends = writers && !t->leaf ? t->wend : t->end;
	unsigned int hits = within(t, ends, start, end);

	if (writers && t->leaf)
		hits &= t->writers;
	for (; hits; hits &= hits - 1) {
		unsigned int i = __builtin_ctz(hits);
		struct span *s = t->child[i];

		if (!t->leaf) {
			if (!tree_walk(t->child[i], start, end, writers, visit, arg))
				return false;
			continue;
		}
		/* Its writers have left since: not again until one comes. */
		if (writers && !span_has_writer(s)) {
			unmark_writer(s, i);
			continue;
		}
		if (!visit(arg, s))
			return false;
	}
	return true;
}

/* Of an inner node: @wend is looked at for those that have a writer, and is elsewhere. */
void tree_prefetch(const struct tree_node *t)
{
	for (size_t i = 0; i < offsetof(struct tree_node, wend); i += 64)
		__builtin_prefetch((const char *)t + i, 1);
}

unsigned int tree_near(const struct tree_node *t, uint64_t start, uint64_t end,
		       const struct span **near, unsigned int max)
{
	unsigned int hits = within(t, t->end, start, end), n = 0;

	for (; hits && n < max; hits &= hits - 1, n++)
		near[n] = t->child[__builtin_ctz(hits)];
	return n;
}

const struct tree_node *tree_step(const struct tree_node *t, uint64_t start)
{
	unsigned int i = find_slot(t, start);
	const struct tree_node *child = t->child[i ? i - 1 : 0];

	tree_prefetch(child);
	return child;
}

unsigned int tree_leaves(const struct tree_node *t, uint64_t start, uint64_t end,
			 const struct tree_node **leaves, unsigned int max)
{
	unsigned int at = find_slot(t, start), n = 0;
	unsigned int hits = within(t, t->end, start, end) | 1u << (at ? at - 1 : 0);

	for (; hits && n < max; hits &= hits - 1, n++) {
		leaves[n] = t->child[__builtin_ctz(hits)];
		tree_prefetch(leaves[n]);
	}
	return n;
}

void tree_free(struct graph *g, struct tree_node *t,
	       void (*each)(struct graph *g, struct span *s))
{
	for (unsigned int i = 0; i < t->n; i++) {
		if (t->leaf)
			each(g, t->child[i]);
		else
			tree_free(g, t->child[i], each);
	}
	pool_put(&g->tree_pool, t);
}
