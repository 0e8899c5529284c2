/* SPDX-License-Identifier: MIT */
/*
 * The client's side of the rings: tickets, entries, arena, completions.  No
 * system call, no lock: the caller serialises all but ring_cq_ready().
 */
#ifndef LIBARAX_RING_H
#define LIBARAX_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <arax/uapi.h>

#include "barrier.h"

struct arax_event;
struct arax_queue;

/*
 * A task in flight.  An entry's user_data is its ticket: the slot's index and,
 * above it, the generation, so that a completion of an earlier use is known.
 */
struct ring_slot {
	struct arax_event *event;	/* or NULL; as the next one while it is used */
	struct arax_queue *queue;
	uint32_t gen;
	bool used;
};

struct ring {
	struct arax_ring_ctl *ctl;
	uint8_t *sq;
	struct arax_completion *cq;
	uint8_t *arena;
	uint32_t depth;
	uint32_t mask;
	uint32_t entry_size;
	uint32_t entry_shift;	/* the same as a power of two */
	uint32_t max_inline;	/* ranges that an entry holds */
	bool takes_short;	/* the core knows struct arax_task_short */
	uint32_t arena_size;

	uint32_t sq_tail;	/* next position to write */
	uint32_t nr_free;	/* may be read without the lock, as a hint */
	uint32_t *free;		/* stack of slot indices: the last one used is warm */
	struct ring_slot *slots;

	/* The arena is a ring of its own: bytes counted for ever. */
	uint64_t arena_head;
	uint64_t arena_tail;
	uint64_t *arena_end;	/* arena_head behind the entry, by its place */

	uint32_t failure;	/* the last one that completions told of */

	/* Written by whoever reaps, read by those who spin. */
	uint32_t cq_head __attribute__((aligned(64)));
};

/* @region, laid out as @init says.  Returns 0 or -ENOMEM. */
int ring_init(struct ring *r, uint8_t *region, const struct arax_context_init *init);
void ring_destroy(struct ring *r);

/* ------------------------------------------------------------------ */
/* Tickets                                                             */

static inline struct ring_slot *ring_slot_get(struct ring *r, uint64_t *ticket)
{
	uint32_t i, n = r->nr_free;
	struct ring_slot *s;

	if (unlikely(!n))
		return NULL;
	store_relaxed(&r->nr_free, n - 1);
	i = r->free[n - 1];
	s = &r->slots[i];
	s->used = true;
	*ticket = (uint64_t)s->gen << 32 | i;
	return s;
}

/* NULL: no ticket of a task in flight. */
static inline struct ring_slot *ring_slot_find(struct ring *r, uint64_t ticket)
{
	uint32_t i = (uint32_t)ticket;
	struct ring_slot *s;

	if (unlikely(i >= r->depth))
		return NULL;
	s = &r->slots[i];
	return likely(s->used && s->gen == (uint32_t)(ticket >> 32)) ? s : NULL;
}

static inline void ring_slot_put(struct ring *r, uint32_t i)
{
	struct ring_slot *s = &r->slots[i];
	uint32_t n = r->nr_free;

	s->used = false;
	s->gen++;
	r->free[n] = i;
	store_relaxed(&r->nr_free, n + 1);
}

/* Nothing is in flight. */
static inline bool ring_is_idle(const struct ring *r)
{
	return r->nr_free == r->depth;
}

/* ------------------------------------------------------------------ */
/* Arena                                                               */

/* Room of consumed entries comes back. */
static inline void ring_arena_reclaim(struct ring *r)
{
	/* Pairs with the release with which the core moves sq_head. */
	uint32_t head = load_acquire(&r->ctl->sq_head);
	uint64_t end = r->arena_tail;

	if (r->sq_tail - head > r->depth)
		return;		/* not a head that the core could have written */
	if (head == r->sq_tail)
		end = r->arena_head;
	else if (r->sq_tail - head < r->depth)
		end = r->arena_end[(head - 1) & r->mask];
	/* Never back: an empty arena may have been begun anew since. */
	if (end > r->arena_tail)
		r->arena_tail = end;
}

/*
 * @len bytes in one piece, aligned to 8.  Returns the offset, or -1 if there is
 * no room until more entries have been consumed, -2 if there never will be.
 */
int64_t ring_arena_alloc(struct ring *r, uint32_t len);

/* ------------------------------------------------------------------ */
/* Submission                                                          */

static inline struct arax_task *ring_sq_at(const struct ring *r, uint32_t pos)
{
	return (struct arax_task *)(r->sq + ((size_t)(pos & r->mask) << r->entry_shift));
}

static inline struct arax_task *ring_sq_entry(struct ring *r)
{
	return ring_sq_at(r, r->sq_tail);
}

/* The entry at the tail is complete, and the next one may be written. */
static inline void ring_sq_push(struct ring *r)
{
	uint32_t tail = r->sq_tail;

	r->arena_end[tail & r->mask] = r->arena_head;
	r->sq_tail = tail + 1;
}

/*
 * Let the consumer have the last @n entries.  The first one comes last: that is where
 * it looks, over and over, and then at the one behind it.
 */
static inline void ring_sq_publish(struct ring *r, uint32_t n)
{
	uint32_t pos = r->sq_tail, first = pos - n;

	for (; pos != first; pos--)
		/* Pairs with the acquire in the core (submit.c). */
		store_release(&ring_sq_at(r, pos - 1)->seq, pos);
}

/* ------------------------------------------------------------------ */
/* Completion                                                          */

/* Any thread, at any time; a hint unless the caller serialises. */
static inline bool ring_cq_ready(struct ring *r)
{
	uint32_t head = load_relaxed(&r->cq_head);

	/* Pairs with the release with which the core publishes. */
	return load_acquire(&r->cq[head & r->mask].seq) == head + 1;
}

/* The one at that position, or NULL. */
static inline const struct arax_completion *ring_cq_at(const struct ring *r, uint32_t pos)
{
	const struct arax_completion *c = &r->cq[pos & r->mask];

	/* As above. */
	return load_acquire(&c->seq) == pos + 1 ? c : NULL;
}

/* Of a failure.  What is submitted from now on doesn't fail with it. */
static inline void ring_cq_learn(struct ring *r, const struct arax_completion *c)
{
	if (unlikely(c->failure))
		r->failure = c->failure;
}

/* All before @head have been read. */
static inline void ring_cq_advance(struct ring *r, uint32_t head)
{
	store_relaxed(&r->cq_head, head);
}

/* Give the places of what was read back to the core. */
static inline void ring_cq_credit(struct ring *r)
{
	/* Pairs with the acquire in the core, before it reuses a place. */
	store_release(&r->ctl->cq_head, r->cq_head);
}

#endif /* LIBARAX_RING_H */
