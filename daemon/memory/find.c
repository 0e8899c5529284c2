// SPDX-License-Identifier: MIT
/*
 * find.c - the extents that have certain bytes of a buffer
 *
 * Those of one device may overlap, so each knows the furthest end of all below it in the tree:
 * where that is not far enough nothing is looked at.
 */
#include <errno.h>

#include "daemon/memory/internal.h"

static struct memory_extent *extent_of(const struct treap *t)
{
	return t ? treap_entry(t, struct memory_extent, place) : NULL;
}

static int compare(const struct treap *a, const struct treap *b)
{
	const struct memory_extent *e = extent_of(a), *o = extent_of(b);

	if (e->start != o->start)
		return e->start < o->start ? -1 : 1;
	return e->number < o->number ? -1 : e->number > o->number;
}

static void pull(struct memory_extent *e, const struct memory_extent *child)
{
	if (!child)
		return;
	if (e->reach < child->reach)
		e->reach = child->reach;
	if (e->dirty_reach < child->dirty_reach)
		e->dirty_reach = child->dirty_reach;
}

static void refresh(struct treap *t)
{
	struct memory_extent *e = extent_of(t);

	e->reach = e->end;
	e->dirty_reach = e->any_dirty ? e->end : 0;
	pull(e, extent_of(t->left));
	pull(e, extent_of(t->right));
}

static const struct treap_order by_start = { compare, refresh };

void extent_link(struct memory *m, struct memory_extent *e)
{
	treap_insert(&e->buffer->on[e->device], &e->place, treap_weight(&m->weights), &by_start);
}

void extent_unlink(struct memory_extent *e)
{
	treap_remove(&e->buffer->on[e->device], &e->place, &by_start);
}

void extent_dirtied(struct memory_extent *e)
{
	const bool any = e->dirty.nr;

	e->summed = false;
	e->buffer->crowded |= has_too_many_dirty(e);
	if (!e->lost)
		intervals_fit(&e->dirty, extent_pieces(e, MANY_DIRTY));
	if (e->any_dirty == any)
		return;
	/* There is nothing to save any more. */
	if (!any)
		extent_stuck(e, false);
	e->any_dirty = any;
	treap_changed(&e->place, &by_start);
}

/* ------------------------------------------------------------------ */

struct search {
	struct treap_root *root;
	uint64_t start, end;
	bool (*is_fit)(const struct memory_extent *e, const void *arg);
	const void *arg;
};

static bool is_better(const struct search *s, const struct memory_extent *e,
		      const struct memory_extent *than)
{
	return !e->leaving && !e->lost && extent_covers(e, s->start, s->end) &&
	       (!than || e->number > than->number) && (!s->is_fit || s->is_fit(e, s->arg));
}

static struct memory_extent *newest(const struct search *s, const struct treap *t,
				    struct memory_extent *best)
{
	struct memory_extent *e;

	while ((e = extent_of(t)) && e->reach >= s->end) {
		s->root->steps++;
		if (e->start > s->start) {
			t = t->left;
			continue;
		}
		if (is_better(s, e, best))
			best = e;
		best = newest(s, t->left, best);
		t = t->right;
	}
	return best;
}

struct memory_extent *extent_newest(const struct memory_buffer *b, uint32_t device,
				    uint64_t start, uint64_t end,
				    bool (*is_fit)(const struct memory_extent *e, const void *arg),
				    const void *arg)
{
	const struct search s = { &b->on[device], start, end, is_fit, arg };

	return newest(&s, s.root->top, NULL);
}

struct memory_extent *extent_find(const struct memory_buffer *b, uint32_t device,
				  uint64_t start, uint64_t end)
{
	return extent_newest(b, device, start, end, NULL, NULL);
}

/* ------------------------------------------------------------------ */

/* Whether any of the bytes lie in start..end. */
static bool meets(const struct look *l, uint64_t start, uint64_t end)
{
	uint64_t bytes;
	uint32_t row;

	if (start >= l->end || end <= l->start)
		return false;
	if (!l->rows)
		return true;
	row = memory_row_behind(l->rows, start);
	return row < memory_rows(l->rows) && memory_row(l->rows, row, &bytes) < end;
}

static bool is_wanted(const struct look *l, const struct memory_extent *e)
{
	return (!l->dirty || e->any_dirty) && meets(l, e->start, e->end);
}

/* From @t on down, where nothing begins before @from. */
static struct memory_extent *first_below(const struct look *l, struct treap_root *root,
					 const struct treap *t, uint64_t from)
{
	struct memory_extent *e, *first;

	while ((e = extent_of(t)) && meets(l, from, l->dirty ? e->dirty_reach : e->reach)) {
		root->steps++;
		first = first_below(l, root, t->left, from);
		if (first)
			return first;
		if (is_wanted(l, e))
			return e;
		from = e->start;
		t = t->right;
	}
	return NULL;
}

static struct memory_extent *first_from(const struct look *l, uint32_t device)
{
	const struct memory_buffer *b = l->buffer;
	struct memory_extent *first = NULL;

	for (; !first && device <= l->to && device < b->memory->nr_devices; device++)
		first = first_below(l, &b->on[device], b->on[device].top, 0);
	return first;
}

struct memory_extent *look_first(const struct look *l)
{
	return first_from(l, l->from);
}

struct memory_extent *look_next(const struct look *l, struct memory_extent *e)
{
	struct treap_root *root = &l->buffer->on[e->device];
	struct memory_extent *next = first_below(l, root, e->place.right, e->start);
	const struct treap *t, *p;

	for (t = &e->place; !next && (p = t->parent); t = p) {
		if (p->right == t)
			continue;
		root->steps++;
		next = extent_of(p);
		if (!is_wanted(l, next))
			next = first_below(l, root, p->right, next->start);
	}
	return next ? next : first_from(l, e->device + 1);
}

struct memory_extent *look_on(const struct look *l, struct memory_extent *e, uint32_t *done)
{
	const struct memory_extent key = { .start = e->start, .number = e->number + 1 };
	const uint32_t device = e->device;

	if (*done < MEMORY_AT_ONCE)
		return look_next(l, e);
	*done = 0;
	if (!memory_let_others(l->buffer->memory))
		return look_next(l, e);
	/* That one may be gone. */
	e = extent_of(treap_from(&l->buffer->on[device], &key.place, &by_start));
	if (!e)
		return first_from(l, device + 1);
	return is_wanted(l, e) ? e : look_next(l, e);
}

static void clear_rows(struct memory_extent *e, const struct memory_range *r, uint32_t first,
		       uint32_t rows)
{
	uint64_t bytes, start = memory_row(r, first, &bytes);

	e->clears++;
	intervals_clear_rows(&e->valid, start, bytes, r->stride, rows);
	intervals_clear_rows(&e->dirty, start, bytes, r->stride, rows);
	extent_dirtied(e);
	/* Of one in use whoever uses it does that in the end. */
	if (!e->pins)
		forget_pieces(e);
}

/* (locked) There is no memory to tell the rows, which are as they should be, from what is dirty beside them. */
static void lose_beside(struct memory_extent *e, const struct memory_range *r, uint32_t first,
			uint32_t rows)
{
	lost_take(e, r);
	lost_clear_rows(e->buffer->lost, r, first, rows);
}

int look_clear_rows(const struct look *l, const struct memory_range *r,
		    const struct memory_extent *keep, bool reserve)
{
	uint32_t first, rows, done = 0;
	struct memory_extent *e;

	for (e = look_first(l); e; e = look_on(l, e, &done)) {
		rows = memory_rows_in(r, e->start, e->end, &first);
		done += 1 + rows;
		if (e == keep)
			continue;
		if (e->lost) {
			if (!lost_clear_rows(e, r, first, rows) && reserve)
				return -ENOMEM;
			continue;
		}
		if (e->any_dirty && !dirty_reserve(e, rows)) {
			if (reserve)
				return -ENOMEM;
			lose_beside(e, r, first, rows);
		}
		clear_rows(e, r, first, rows);
	}
	return 0;
}

uint32_t clear_clean_rows(struct memory_extent *e, const struct memory_range *r)
{
	uint32_t first, rows = memory_rows_in(r, e->start, e->end, &first), i;
	uint64_t start, bytes;

	/* In one walk, where that is the same. */
	if (!e->dirty.nr && rows)
		clear_rows(e, r, first, rows);
	for (i = first; e->dirty.nr && i < first + rows; i++) {
		start = memory_row(r, i, &bytes);
		clear_clean(e, start, start + bytes);
	}
	if (!e->pins)
		forget_pieces(e);
	return rows;
}

void look_clear_clean(const struct look *l, const struct memory_range *r)
{
	struct memory_extent *e;
	uint32_t done = 0;

	for (e = look_first(l); e; e = look_on(l, e, &done))
		done += 1 + clear_clean_rows(e, r);
}
