/* SPDX-License-Identifier: MIT */
/*
 * How long to wait awake.  Any thread may call any of these at any time; what they
 * learn is a context's.
 */
#ifndef LIBARAX_AWAKE_H
#define LIBARAX_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

struct arax;

enum spin {
	SPIN_NONE,		/* wasn't worth a try */
	SPIN_HIT,		/* something may have happened */
	SPIN_MISS,
};

/* A wait whose task had to wake the peer. */
struct woken {
	uint64_t since;		/* 0: it is none */
	bool learns;
	bool spins;
};

/* Spinning for as long as ax->spin_ns was worth it, or not. */
void spin_adapt(struct arax *ax, bool worth);

/* The wait @w, whose task has had to wake the peer: how many ns to spin, and its end. */
uint32_t woken_begin(struct arax *ax, struct woken *w);
void woken_end(struct arax *ax, const struct woken *w);

/* Shall a wait that would sleep at once be awake instead; and it was, until it ended. */
bool probe_due(struct arax *ax);
void probe_hit(struct arax *ax);

/* A sleep of @slept ns has ended a wait of @waited. */
void sleep_adapt(struct arax *ax, enum spin spun, uint64_t slept, uint64_t waited);

#endif
