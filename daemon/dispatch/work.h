/* SPDX-License-Identifier: MIT */
/*
 * work.h - things that other threads want the poller to do
 *
 * Many producers, one consumer: a stack that the consumer takes whole and
 * turns round, so what one producer pushes is seen in that order.
 */
#ifndef ARAXD_DISPATCH_WORK_H
#define ARAXD_DISPATCH_WORK_H

#include <stdbool.h>
#include <stddef.h>

struct work {
	struct work *next;
	void (*run)(struct work *w);
};

struct work_queue {
	struct work *top __attribute__((aligned(64)));
};

/* Returns whether the queue was empty. */
static inline bool work_push(struct work_queue *q, struct work *w)
{
	struct work *old = __atomic_load_n(&q->top, __ATOMIC_RELAXED);

	do {
		w->next = old;
		/* Release pairs with the acquire in work_take(). */
	} while (!__atomic_compare_exchange_n(&q->top, &old, w, true, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return !old;
}

static inline bool work_pending(const struct work_queue *q)
{
	return __atomic_load_n(&q->top, __ATOMIC_RELAXED);
}

/* All of it, oldest first. */
static inline struct work *work_take(struct work_queue *q)
{
	struct work *w = __atomic_exchange_n(&q->top, NULL, __ATOMIC_ACQUIRE);
	struct work *list = NULL;

	while (w) {
		struct work *next = w->next;

		w->next = list;
		list = w;
		w = next;
	}
	return list;
}

#endif /* ARAXD_DISPATCH_WORK_H */
