/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A circular doubly linked list with its node inside the object. */
#ifndef ARAX_CORE_LIST_H
#define ARAX_CORE_LIST_H

#include "platform.h"

struct clist {
	struct clist *next;
	struct clist *prev;
};

static inline void clist_init(struct clist *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool clist_empty(const struct clist *l)
{
	return l->next == l;
}

static inline void clist_insert(struct clist *n, struct clist *prev, struct clist *next)
{
	n->next = next;
	n->prev = prev;
	prev->next = n;
	next->prev = n;
}

static inline void clist_add_tail(struct clist *n, struct clist *l)
{
	clist_insert(n, l->prev, l);
}

static inline void clist_add(struct clist *n, struct clist *l)
{
	clist_insert(n, l, l->next);
}

/* Leaves the node initialised, so that taking it out twice does no harm. */
static inline void clist_del(struct clist *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	clist_init(n);
}

/* From the list that it is in to the head of another. */
static inline void clist_move(struct clist *n, struct clist *l)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	clist_add(n, l);
}

/* Moves all of from to the tail of to. */
static inline void clist_splice_tail(struct clist *from, struct clist *to)
{
	if (clist_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	clist_init(from);
}

/* Moves all of from to the head of to. */
static inline void clist_splice(struct clist *from, struct clist *to)
{
	if (clist_empty(from))
		return;
	from->next->prev = to;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	to->next = from->next;
	clist_init(from);
}

#define clist_entry(ptr, type, member) \
	((type *)((char *)(ptr) - __builtin_offsetof(type, member)))
#define clist_first(l, type, member) clist_entry((l)->next, type, member)

/* The body may take the entry out. */
#define clist_for_each_safe(pos, tmp, l) \
	for ((pos) = (l)->next, (tmp) = (pos)->next; (pos) != (l); \
	     (pos) = (tmp), (tmp) = (pos)->next)

#endif /* ARAX_CORE_LIST_H */
