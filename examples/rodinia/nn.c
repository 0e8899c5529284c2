// SPDX-License-Identifier: MIT
/*
 * nn: the ten records nearest to each of some targets. Two launches a target: the
 * distances, and the nearest of each chunk; the program takes the nearest of those.
 */
#include "examples/rodinia/rodinia.h"

#include <math.h>
#include <stdlib.h>

#define NEAREST	10
#define AT_ONCE	4	/* targets whose distances are kept: so many may be on their way */

struct nn {
	struct ro_params p;
	uint64_t chunks;
	struct ro_buffer *place, *distance, *index, *best;
};

static void target(const struct nn *s, uint32_t step, float *latitude, float *longitude)
{
	uint64_t state = s->p.seed + step + 1;

	*latitude = ro_uniform(&state, -90, 90);
	*longitude = ro_uniform(&state, -180, 180);
}

static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct nn *s = ro_alloc(m, 1, sizeof(*s));
	uint64_t state = p->seed, candidates, i;
	float *place;

	if (!s)
		return NULL;
	s->p = *p;
	s->chunks = RO_GROUPS((uint64_t)p->size, RO_NN_CHUNK);
	candidates = s->chunks * NEAREST * p->steps;
	s->place = ro_buffer(m, (uint64_t)p->size * 2 * sizeof(float));
	s->distance = ro_buffer(m, (uint64_t)p->size * AT_ONCE * sizeof(float));
	s->index = ro_buffer(m, candidates * sizeof(uint32_t));
	s->best = ro_buffer(m, candidates * sizeof(float));
	if (m->error) {
		free(s);
		return NULL;
	}
	place = s->place->data;
	for (i = 0; i < p->size; i++) {
		place[2 * i] = ro_uniform(&state, -90, 90);
		place[2 * i + 1] = ro_uniform(&state, -180, 180);
	}
	return s;
}

static void run(struct ro_machine *m, void *state)
{
	struct nn *s = state;
	uint64_t n = s->p.size, bytes = s->chunks * NEAREST * 4;
	uint32_t step;

	for (step = 0; step < s->p.steps && !m->error; step++) {
		struct { uint32_t n; float latitude, longitude; } to = { s->p.size, 0, 0 };
		struct { uint32_t n, most; } nearest = { s->p.size, NEAREST };
		uint64_t offset = step % AT_ONCE * n * 4;

		target(s, step, &to.latitude, &to.longitude);
		ro_launch(m, RO_NN_DISTANCE, ro_row(n, RO_NN_ITEMS), ARAX_ARGS(to),
			  RO_RANGES(ro_in(s->place), ro_part(s->distance, ARAX_OUT, offset, n * 4)));
		ro_launch(m, RO_NN_NEAREST, ro_grid(s->chunks, 1, 1, RO_NN_ITEMS, 1, 1),
			  ARAX_ARGS(nearest),
			  RO_RANGES(ro_part(s->distance, ARAX_IN, offset, n * 4),
				    ro_part(s->index, ARAX_OUT, step * bytes, bytes),
				    ro_part(s->best, ARAX_OUT, step * bytes, bytes)));
	}
}

struct found {
	double distance;
	uint32_t index;
};

static int by_distance(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* How far a record is, in double precision. */
static double distance(const struct nn *s, uint32_t step, uint32_t index)
{
	const float *place = s->place->data;
	float latitude, longitude;

	target(s, step, &latitude, &longitude);
	return hypot((double)place[2 * (uint64_t)index] - latitude,
		     (double)place[2 * (uint64_t)index + 1] - longitude);
}

/* The nearest of all chunks; an index beyond all records has no distance. */
static void merge(const struct nn *s, uint32_t step, struct found *found, double *error)
{
	uint64_t n = s->chunks * NEAREST, first = step * n, i;
	const uint32_t *index = s->index->data;
	const float *best = s->best->data;

	for (i = 0; i < n; i++) {
		double real = index[first + i] < s->p.size ? distance(s, step, index[first + i]) :
							     INFINITY;

		found[i] = (struct found){ best[first + i], index[first + i] };
		if (isinf(real) && isinf(best[first + i]))
			continue;
		real = fabs(best[first + i] - real) / 360;
		if (!(real <= *error))
			*error = real;
	}
	qsort(found, n, sizeof(*found), by_distance);
}

/* How far the nearest are, the nearest first. */
static void sequential(const struct nn *s, uint32_t step, double *nearest)
{
	uint32_t i, k;
	double d;

	for (k = 0; k < NEAREST; k++)
		nearest[k] = INFINITY;
	for (i = 0; i < s->p.size; i++) {
		d = distance(s, step, i);
		for (k = NEAREST; k && d < nearest[k - 1]; k--)
			if (k < NEAREST)
				nearest[k] = nearest[k - 1];
		if (k < NEAREST)
			nearest[k] = d;
	}
}

/* Of two that are as near either may be found: what is compared is how far they are. */
static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .tolerance = 1e-6, .what = "of 360 degrees" };
	struct nn *s = state;
	struct found *found = malloc(s->chunks * NEAREST * sizeof(*found));
	uint32_t step, most = s->p.size < NEAREST ? s->p.size : NEAREST, i;
	double wanted[NEAREST], d;

	if (!found)
		v.error = NAN;
	for (step = 0; step < s->p.steps && found; step++) {
		sequential(s, step, wanted);
		merge(s, step, found, &v.error);
		for (i = 0; i < most; i++) {
			d = fabs(found[i].distance - wanted[i]) / 360;
			if (!(d <= v.error))
				v.error = d;
			/* Nor is one of them found twice. */
			if (i && found[i].index == found[i - 1].index)
				v.error = INFINITY;
			v.compared++;
		}
	}
	free(found);
	return v;
}

const struct ro_program ro_nn = {
	.name = "nn", .what = "the ten records nearest to each target",
	.size_is = "records", .steps_are = "targets",
	.size = 42764, .size_least = 1, .size_most = 1u << 26,
	.steps = 4, .steps_most = 10000, .bench_size = 1000000, .bench_steps = 80,
	.make = make, .run = run, .check = check, .free = free,
};
