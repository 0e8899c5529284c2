// SPDX-License-Identifier: MIT
/* Percentiles, medians, and rounds that take turns. */
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

void samples_init(struct samples *s)
{
	s->n = 0;
	s->ticks = malloc(SAMPLES_MAX * sizeof(*s->ticks));
	if (!s->ticks) {
		fprintf(stderr, "arax-bench: no memory for samples\n");
		exit(1);
	}
	/* No page fault while the clock runs. */
	memset(s->ticks, 0, SAMPLES_MAX * sizeof(*s->ticks));
}

void samples_free(struct samples *s)
{
	free(s->ticks);
	s->ticks = NULL;
	s->n = 0;
}

static int by_ticks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double samples_percentile(struct samples *s, double p)
{
	size_t i;

	if (!s->n)
		return 0;
	qsort(s->ticks, s->n, sizeof(*s->ticks), by_ticks);
	i = (size_t)((double)s->n * p);
	if (i >= s->n)
		i = s->n - 1;
	return ticks_to_ns(s->ticks[i]);
}

double median(const double *values, size_t n)
{
	double copy[ROUNDS_MAX];

	if (!n || n > ROUNDS_MAX)
		return 0;
	memcpy(copy, values, n * sizeof(*values));
	qsort(copy, n, sizeof(*copy), by_value);
	return n % 2 ? copy[n / 2] : (copy[n / 2 - 1] + copy[n / 2]) / 2;
}

static void one_round(struct measure *m, double seconds, struct samples *s, int keep)
{
	double scale = m->scale ? m->scale : 1;

	s->n = 0;
	m->round(m->arg, seconds, s);
	if (!keep || m->rounds == ROUNDS_MAX)
		return;
	m->p50[m->rounds] = samples_percentile(s, 0.5) / scale;
	m->p99[m->rounds] = samples_percentile(s, 0.99) / scale;
	m->rounds++;
}

void interleave(struct measure **m, size_t n, size_t rounds, double seconds)
{
	double each = seconds / (double)(rounds * n);
	struct samples s;
	size_t r, i;

	samples_init(&s);
	for (i = 0; i < n; i++)
		one_round(m[i], each < 0.1 ? each : 0.1, &s, 0);
	for (r = 0; r < rounds; r++) {
		for (i = 0; i < n; i++) {
			one_round(m[i], each, &s, 1);
			/* The one before goes to sleep: no spinner stays beside the next. */
			usleep(2000);
		}
	}
	samples_free(&s);
}

double measure_p50(const struct measure *m)
{
	return median(m->p50, m->rounds);
}

double measure_p99(const struct measure *m)
{
	return median(m->p99, m->rounds);
}
