/* SPDX-License-Identifier: MIT */
/* Samples, and what is said about them. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

#define SAMPLES_MAX	(1u << 20)
#define ROUNDS_MAX	64

/* Times in ticks.  Those beyond SAMPLES_MAX are not kept. */
struct samples {
	uint64_t *ticks;
	size_t n;
};

void samples_init(struct samples *s);
void samples_free(struct samples *s);

static inline void samples_add(struct samples *s, uint64_t ticks)
{
	if (s->n < SAMPLES_MAX)
		s->ticks[s->n++] = ticks;
}

static inline int samples_full(const struct samples *s)
{
	return s->n == SAMPLES_MAX;
}

/*
 * The value that a share @p of the samples does not pass, in ns, by sorting
 * them.  0 if there are none.
 */
double samples_percentile(struct samples *s, double p);

/* Of a copy. */
double median(const double *values, size_t n);

/**
 * struct measure - one thing that is measured in turn with others
 * @name:	for people and JSON
 * @round:	measure for about @seconds, add samples
 * @arg:	for @round
 * @scale:	what one sample stands for: tasks of a batch (0: 1)
 * @p50, @p99:	of each round, ns
 * @rounds:	how many there were
 */
struct measure {
	const char *name;
	void (*round)(void *arg, double seconds, struct samples *s);
	void *arg;
	double scale;
	double p50[ROUNDS_MAX];
	double p99[ROUNDS_MAX];
	size_t rounds;
};

/* @rounds times one round of each, in @seconds altogether, after a short warm-up. */
void interleave(struct measure **m, size_t n, size_t rounds, double seconds);

/* Medians over the rounds. */
double measure_p50(const struct measure *m);
double measure_p99(const struct measure *m);

#endif
