/* SPDX-License-Identifier: MIT */
/*
 * treap.h - ordered trees whose nodes are inside the objects
 *
 * As deep as chance makes them, in whichever order their nodes come.  A node may say something of
 * all below it (treap_order.refresh), such as the furthest end.  Not thread-safe.
 */
#ifndef ARAXD_MEMORY_TREAP_H
#define ARAXD_MEMORY_TREAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct treap {
	struct treap *parent, *left, *right;
	uint64_t weight;
};

/**
 * struct treap_root - a tree; all zero: empty
 * @steps:	nodes that were gone through, ever: what tests count in place of time
 */
struct treap_root {
	struct treap *top;
	uint64_t steps;
};

/**
 * struct treap_order - of a kind of trees
 * @compare:	below, above or equal to 0; equal nodes stay in the order in which they came
 * @refresh:	may be NULL: what @t says of itself and those below it, by what its children say
 */
struct treap_order {
	int (*compare)(const struct treap *a, const struct treap *b);
	void (*refresh)(struct treap *t);
};

#define treap_entry(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* The next weight; of a @state that clients don't know, or they could make trees deep. */
uint64_t treap_weight(uint64_t *state);

void treap_insert(struct treap_root *root, struct treap *n, uint64_t weight,
		  const struct treap_order *order);
void treap_remove(struct treap_root *root, struct treap *n, const struct treap_order *order);
/* What @n says has changed, but not its place. */
void treap_changed(struct treap *n, const struct treap_order *order);

/* The first that is not below @key, or NULL; @key is in no tree. */
struct treap *treap_from(struct treap_root *root, const struct treap *key,
			 const struct treap_order *order);
/* The first that is equal to @key, or NULL. */
struct treap *treap_find(struct treap_root *root, const struct treap *key,
			 const struct treap_order *order);
struct treap *treap_first(struct treap_root *root);

#endif /* ARAXD_MEMORY_TREAP_H */
