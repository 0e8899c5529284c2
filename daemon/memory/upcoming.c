// SPDX-License-Identifier: MIT
/*
 * upcoming.c - when bytes of a buffer are going to be used next
 *
 * A tree of the pieces that tasks name, by their start and end; each knows the furthest end
 * and the first use of all below it.  Pieces are mostly the same few again and again: the uses
 * of each are a tree by their seqs, since tasks may end in any order.
 */
#include "daemon/memory/upcoming.h"

#include <stdlib.h>

struct use {
	struct treap place;
	uint64_t seq;
};

/**
 * struct piece - bytes @start .. @end - 1
 * @uses:	at least one
 * @first:	the least seq of them
 * @reach, @soonest: of all pieces from here on down: the largest end, the least seq
 */
struct piece {
	struct treap place;
	uint64_t start, end;
	struct treap_root uses;
	uint64_t first;
	uint64_t reach, soonest;
};

static struct piece *piece_of(const struct treap *t)
{
	return t ? treap_entry(t, struct piece, place) : NULL;
}

static struct use *use_of(const struct treap *t)
{
	return t ? treap_entry(t, struct use, place) : NULL;
}

static int compare_pieces(const struct treap *a, const struct treap *b)
{
	const struct piece *p = piece_of(a), *q = piece_of(b);

	if (p->start != q->start)
		return p->start < q->start ? -1 : 1;
	return p->end < q->end ? -1 : p->end > q->end;
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

static void refresh_piece(struct treap *t)
{
	struct piece *p = piece_of(t);

	p->reach = p->end;
	p->soonest = p->first;
	pull(p, piece_of(t->left));
	pull(p, piece_of(t->right));
}

static int compare_uses(const struct treap *a, const struct treap *b)
{
	const struct use *u = use_of(a), *v = use_of(b);

	return u->seq < v->seq ? -1 : u->seq > v->seq;
}

static const struct treap_order pieces = { compare_pieces, refresh_piece };
static const struct treap_order uses = { compare_uses, NULL };

static struct piece *find(struct upcoming *u, uint64_t start, uint64_t end)
{
	const struct piece key = { .start = start, .end = end };

	return piece_of(treap_find(&u->pieces, &key.place, &pieces));
}

static struct piece *make(struct upcoming *u, uint64_t start, uint64_t end)
{
	struct piece *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->start = start;
	p->end = end;
	p->first = UPCOMING_NEVER;
	treap_insert(&u->pieces, &p->place, treap_weight(&u->random), &pieces);
	return p;
}

static void set_first(struct piece *p, uint64_t seq)
{
	if (p->first == seq)
		return;
	p->first = seq;
	treap_changed(&p->place, &pieces);
}

/* Of all its trees together. */
static void count_steps(struct upcoming *u, struct piece *p)
{
	u->pieces.steps += p->uses.steps;
	p->uses.steps = 0;
}

bool upcoming_add(struct upcoming *u, uint64_t start, uint64_t end, uint64_t seq)
{
	struct piece *p = find(u, start, end);
	struct use *new = malloc(sizeof(*new));

	if (!p && new)
		p = make(u, start, end);
	if (!p || !new) {
		free(new);
		return false;
	}
	new->seq = seq;
	treap_insert(&p->uses, &new->place, treap_weight(&u->random), &uses);
	count_steps(u, p);
	set_first(p, seq < p->first ? seq : p->first);
	return true;
}

bool upcoming_remove(struct upcoming *u, uint64_t start, uint64_t end, uint64_t seq)
{
	const struct use key = { .seq = seq };
	struct piece *p = find(u, start, end);
	struct use *gone = p ? use_of(treap_find(&p->uses, &key.place, &uses)) : NULL;

	if (!gone)
		return false;
	treap_remove(&p->uses, &gone->place, &uses);
	free(gone);
	if (p->uses.top)
		set_first(p, use_of(treap_first(&p->uses))->seq);
	count_steps(u, p);
	if (!p->uses.top) {
		treap_remove(&u->pieces, &p->place, &pieces);
		free(p);
	}
	return true;
}

static uint64_t clear_uses(struct treap *t)
{
	uint64_t nr;

	if (!t)
		return 0;
	nr = 1 + clear_uses(t->left) + clear_uses(t->right);
	free(use_of(t));
	return nr;
}

static uint64_t clear_pieces(struct treap *t)
{
	uint64_t nr;

	if (!t)
		return 0;
	nr = clear_pieces(t->left) + clear_pieces(t->right) + clear_uses(piece_of(t)->uses.top);
	free(piece_of(t));
	return nr;
}

uint64_t upcoming_clear(struct upcoming *u)
{
	uint64_t nr = clear_pieces(u->pieces.top);

	u->pieces.top = NULL;
	return nr;
}

static void look(const struct treap *t, uint64_t start, uint64_t end, uint32_t *visits,
		 uint64_t *soonest)
{
	const struct piece *p = piece_of(t);

	/* Nothing here shares a byte, or none of it comes sooner. */
	if (!p || p->reach <= start || p->soonest >= *soonest)
		return;
	if (!*visits) {
		*soonest = p->soonest;
		return;
	}
	--*visits;
	if (p->start < end && p->end > start && p->first < *soonest)
		*soonest = p->first;
	look(t->left, start, end, visits, soonest);
	if (p->start < end)
		look(t->right, start, end, visits, soonest);
}

uint64_t upcoming_next(const struct upcoming *u, uint64_t start, uint64_t end)
{
	uint32_t visits = UPCOMING_VISITS;
	uint64_t soonest = UPCOMING_NEVER;

	look(u->pieces.top, start, end, &visits, &soonest);
	return soonest;
}
