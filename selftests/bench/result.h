/* SPDX-License-Identifier: MIT */
/* What a bench says, for people and as JSON. */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <jansson.h>

#include "stats.h"

enum bar_of {
	BAR_NONE,	/* stated, not judged */
	BAR_RATIO,	/* value over floor */
	BAR_VALUE,
	BAR_P99,
};

/**
 * struct part - one figure and what it is held against
 * @name:	of the figure within its bench
 * @unit:	of value, p99 and floor
 * @value, @p99: medians over the rounds
 * @floor:	what the same takes without Arax; 0: there is none
 * @of:		what the bar is about
 * @at_least:	a larger figure is better
 * @bar:	the target
 * @rounds:	@value of each round, for plots; or NULL
 */
struct part {
	const char *name;
	const char *unit;
	double value;
	double p99;
	double floor;
	enum bar_of of;
	int at_least;
	double bar;
	json_t *rounds;
};

/* value, p99, floor and rounds from what was measured (@floor may be NULL). */
void part_measured(struct part *p, const struct measure *value, const struct measure *floor);

/* Of what was measured: GB/s, where a sample moves @bytes. */
void part_rate(struct part *p, const struct measure *value, double bytes);

/*
 * A bench's object: name, link, machine.  The first part's fields are the
 * object's own as well.
 */
json_t *result_new(const char *name, const char *link);
/* Takes p->rounds.  "met" is null without a bar; the object's is that of all its parts. */
void result_part(json_t *result, const struct part *p);
void result_peer(json_t *result, const char *name, double ns);
/* Why a peer is missing, or how something was set up. */
void result_note(json_t *result, const char *name, const char *text);
void result_int(json_t *result, const char *name, long value);

/* Prints, and releases. */
void result_print(json_t *result, int json);

#endif
