// SPDX-License-Identifier: MIT
/*
 * upcoming.c - when bytes of a buffer are going to be used next
 *
 * A treap of the pieces that tasks name, by their start and end; each knows the furthest end
 * and the first use of all below it.  Pieces are mostly the same few again and again: their
 * uses form a queue in the order of seqs.
 */
#include "daemon/memory/upcoming.h"

#include <stddef.h>
#include <stdlib.h>

struct use {
	struct use *next, *prev;
	uint64_t seq;
};

/**
 * struct piece - bytes @start .. @end - 1
 * @first, @last: its uses; at least one
 * @reach, @soonest: of all pieces from here on down: the largest end, the least seq
 */
struct piece {
	struct piece *left, *right;
	uint64_t weight;
	uint64_t start, end;
	struct use *first, *last;
	uint64_t reach, soonest;
};

static int compare(uint64_t start, uint64_t end, const struct piece *p)
{
	if (start != p->start)
		return start < p->start ? -1 : 1;
	return end < p->end ? -1 : end > p->end;
}

static void pull(struct piece *p, const struct piece *child)
{
	if (!child)
		return;
	if (p->reach < child->reach)
		p->reach = child->reach;
	if (p->soonest > child->soonest)
		p->soonest = child->soonest;
}

static void refresh(struct piece *p)
{
	p->reach = p->end;
	p->soonest = p->first ? p->first->seq : UPCOMING_NEVER;
	pull(p, p->left);
	pull(p, p->right);
}

static struct piece *merge(struct piece *a, struct piece *b)
{
	if (!a || !b)
		return a ? a : b;
	if (a->weight > b->weight) {
		a->right = merge(a->right, b);
		refresh(a);
		return a;
	}
	b->left = merge(a, b->left);
	refresh(b);
	return b;
}

/* Those before start..end, and the others. */
static void split(struct piece *p, uint64_t start, uint64_t end, struct piece **before,
		  struct piece **after)
{
	if (!p) {
		*before = NULL;
		*after = NULL;
	} else if (compare(start, end, p) > 0) {
		split(p->right, start, end, &p->right, after);
		*before = p;
		refresh(p);
	} else {
		split(p->left, start, end, before, &p->left);
		*after = p;
		refresh(p);
	}
}

static struct piece *find(struct piece *p, uint64_t start, uint64_t end)
{
	while (p) {
		int c = compare(start, end, p);

		if (!c)
			return p;
		p = c < 0 ? p->left : p->right;
	}
	return NULL;
}

/* The uses of start..end have changed. */
static void refresh_to(struct piece *p, uint64_t start, uint64_t end)
{
	int c = compare(start, end, p);

	if (c)
		refresh_to(c < 0 ? p->left : p->right, start, end);
	refresh(p);
}

/* Of splitmix64. */
static uint64_t draw(struct upcoming *u)
{
	uint64_t z = u->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static struct piece *make(struct upcoming *u, uint64_t start, uint64_t end)
{
	struct piece *p = calloc(1, sizeof(*p)), *before, *after;

	if (!p)
		return NULL;
	p->weight = draw(u);
	p->start = start;
	p->end = end;
	refresh(p);
	split(u->root, start, end, &before, &after);
	u->root = merge(merge(before, p), after);
	return p;
}

/* What is left of @p and those below it without @gone, which is among them. */
static struct piece *without(struct piece *p, const struct piece *gone)
{
	int c = compare(gone->start, gone->end, p);

	if (!c)
		return merge(p->left, p->right);
	if (c < 0)
		p->left = without(p->left, gone);
	else
		p->right = without(p->right, gone);
	refresh(p);
	return p;
}

bool upcoming_add(struct upcoming *u, uint64_t start, uint64_t end, uint64_t seq)
{
	struct piece *p = find(u->root, start, end);
	struct use *new = malloc(sizeof(*new)), *before;

	if (!p && new)
		p = make(u, start, end);
	if (!p || !new) {
		free(new);
		return false;
	}
	before = p->last;
	while (before && before->seq > seq)
		before = before->prev;
	new->seq = seq;
	new->prev = before;
	new->next = before ? before->next : p->first;
	*(new->prev ? &new->prev->next : &p->first) = new;
	*(new->next ? &new->next->prev : &p->last) = new;
	if (p->first == new)
		refresh_to(u->root, start, end);
	return true;
}

bool upcoming_remove(struct upcoming *u, uint64_t start, uint64_t end, uint64_t seq)
{
	struct piece *p = find(u->root, start, end);
	struct use *gone = p ? p->first : NULL;
	bool was_first;

	while (gone && gone->seq != seq)
		gone = gone->next;
	if (!gone)
		return false;
	was_first = p->first == gone;
	*(gone->prev ? &gone->prev->next : &p->first) = gone->next;
	*(gone->next ? &gone->next->prev : &p->last) = gone->prev;
	free(gone);
	if (!p->first) {
		u->root = without(u->root, p);
		free(p);
	} else if (was_first) {
		refresh_to(u->root, start, end);
	}
	return true;
}

static uint64_t clear(struct piece *p)
{
	uint64_t nr = 0;

	if (!p)
		return 0;
	nr = clear(p->left) + clear(p->right);
	while (p->first) {
		struct use *next = p->first->next;

		free(p->first);
		p->first = next;
		nr++;
	}
	free(p);
	return nr;
}

uint64_t upcoming_clear(struct upcoming *u)
{
	uint64_t nr = clear(u->root);

	u->root = NULL;
	return nr;
}

static void look(const struct piece *p, uint64_t start, uint64_t end, uint32_t *visits,
		 uint64_t *soonest)
{
	/* Nothing here shares a byte, or none of it comes sooner. */
	if (!p || p->reach <= start || p->soonest >= *soonest)
		return;
	if (!*visits) {
		*soonest = p->soonest;
		return;
	}
	--*visits;
	if (p->start < end && p->end > start && p->first->seq < *soonest)
		*soonest = p->first->seq;
	look(p->left, start, end, visits, soonest);
	if (p->start < end)
		look(p->right, start, end, visits, soonest);
}

uint64_t upcoming_next(const struct upcoming *u, uint64_t start, uint64_t end)
{
	uint32_t visits = UPCOMING_VISITS;
	uint64_t soonest = UPCOMING_NEVER;

	look(u->root, start, end, &visits, &soonest);
	return soonest;
}
