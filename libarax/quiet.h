/* SPDX-License-Identifier: MIT */
/*
 * quiet.h - no look before it is worth one
 *
 * Who waits for the only task that is in flight looks at the place where its completion comes,
 * over and over, and each look takes that place's line away from the core, which has to have it
 * back before it can write: one way of a line more for each task.  So the first look is put off
 * for about as long as such tasks have taken lately.
 *
 * How long is found by steps, up where the first look came too early and half as far down where
 * the completion was there: so two of three are there, which was measured to be best.  By that
 * alone the short ones of a program's tasks would wait as long as its longer ones.  So some waits
 * are trials, which look at once, and nobody puts off his look for longer than the shorter ones
 * of the last trials took.
 *
 * In ticks of the processor's clock where reading it costs next to nothing; elsewhere no look is
 * put off.  What is learnt is a hint: several threads may write it at once.
 */
#ifndef LIBARAX_QUIET_H
#define LIBARAX_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#include "barrier.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define QUIET_HAS_TICKS	1
#define QUIET_TICKS()	__rdtsc()
#else
#define QUIET_HAS_TICKS	0
#define QUIET_TICKS()	0u
#endif

#define QUIET_TRIALS	8u
#define QUIET_EVERY	13u	/* waits from one to the next; no multiple of a program's rhythm */
#define QUIET_MAX	4096u	/* ticks, 1 to 2 us: whoever takes longer does not mind */
#define QUIET_LEAST	128u	/* ticks: less is not worth it */
#define QUIET_STEP	2u	/* down; up it is twice that */

struct quiet {
	uint32_t ticks;			/* until the first look */
	uint32_t bound;			/* of that, by the trials; 0: none is put off */
	uint32_t turn;			/* waits since the last trial */
	uint32_t next;			/* trial to be written */
	uint32_t trials[QUIET_TRIALS];	/* what they took */
};

/* The second shortest of the trials: the shortest may have been lucky. */
static inline uint32_t quiet_bound(const struct quiet *q)
{
	uint32_t i, t, least = QUIET_MAX, second = QUIET_MAX;

	for (i = 0; i < QUIET_TRIALS; i++) {
		t = load_relaxed(&q->trials[i]);
		if (t < least) {
			second = least;
			least = t;
		} else if (t < second) {
			second = t;
		}
	}
	/* What is there at once is found by one look, without a clock. */
	return second < QUIET_LEAST ? 0 : second;
}

/* The next wait is a trial. */
static inline bool quiet_tries(struct quiet *q)
{
	uint32_t turn = load_relaxed(&q->turn) + 1;

	store_relaxed(&q->turn, turn < QUIET_EVERY ? turn : 0);
	return turn >= QUIET_EVERY;
}

/* A trial has ended after @ticks, or has not for as long. */
static inline void quiet_tried(struct quiet *q, uint64_t ticks)
{
	uint32_t next = load_relaxed(&q->next) % QUIET_TRIALS, bound;

	store_relaxed(&q->trials[next], ticks < QUIET_MAX ? (uint32_t)ticks : QUIET_MAX);
	store_relaxed(&q->next, next + 1);
	bound = quiet_bound(q);
	store_relaxed(&q->bound, bound);
	if (load_relaxed(&q->ticks) > bound)
		store_relaxed(&q->ticks, bound);
}

/* The first look found the completion, or came too early. */
static inline void quiet_learn(struct quiet *q, bool there)
{
	uint32_t ticks = load_relaxed(&q->ticks), bound;

	if (there) {
		store_relaxed(&q->ticks, ticks > QUIET_STEP ? ticks - QUIET_STEP : 0);
		return;
	}
	bound = load_relaxed(&q->bound);
	ticks += 2 * QUIET_STEP;
	store_relaxed(&q->ticks, ticks < bound ? ticks : bound);
}

#endif /* LIBARAX_QUIET_H */
