/* SPDX-License-Identifier: MIT */
/*
 * rest.h - what the poller does without work: for how long it waits awake before it
 * sleeps, and on which CPU.  All of it is the poller's, or a visitor's.
 */
#ifndef ARAXD_DISPATCH_REST_H
#define ARAXD_DISPATCH_REST_H

#include <stdbool.h>
#include <stdint.h>

struct poller;

#define REST_NO_CPU	UINT32_MAX

struct rest {
	bool may_spin;			/* more than one CPU */
	uint64_t spin_ticks;
	bool woke_peer;			/* the last commit woke a sleeper */
	bool tried;			/* spinning in spite of that */
	bool spun;			/* before this sleep, in vain */
	bool alone;			/* it woke by itself, and has found nothing yet */
	uint32_t short_sleeps;		/* in a row: it would have paid to spin */
	uint32_t long_sleeps;		/* in a row: it would not */
	uint32_t spin_pause;		/* sleeps until spinning is tried again */
	uint32_t crowded;		/* times that the peer seemed to want our CPU */
	uint32_t woken;			/* peers, since the last sleep */
	uint32_t woken_cpu;		/* where the last one sleeps, or REST_NO_CPU */
	uint32_t near_cpu;		/* the same of the sleep before, */
	uint32_t near_sleeps;		/* and so many before it, all of them long */
	uint64_t next_move;
};

void rest_init(struct poller *p);

/* There was work. */
void rest_over(struct poller *p);

/* A peer has been woken that sleeps on @cpu, by its own word; REST_NO_CPU: it doesn't say. */
void rest_woke(struct poller *p, uint32_t cpu);

/* Whether to wait awake for a few more turns.  @idle_since: ticks, 0 at first. */
bool rest_awake(struct poller *p, uint64_t *idle_since);

/*
 * The last task was handed to a device that has work for all its CPUs now, and this thread is on
 * one of them: the task may not even have begun.
 */
bool rest_in_the_way(const struct poller *p);

/* It has slept since the ticks @since. */
void rest_slept(struct poller *p, uint64_t since);

#endif /* ARAXD_DISPATCH_REST_H */
