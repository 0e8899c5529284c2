// SPDX-License-Identifier: MIT
/*
 * hotspot: the temperature of a processor from the power that its parts take, in steps of
 * time; a launch is some steps, from one buffer to the other and back.
 */
#include "examples/rodinia/rodinia.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EACH	2	/* steps of a launch */

/* Of the chip; SI units, kelvin. */
#define THICKNESS	0.0005
#define EDGE		0.016
#define SPECIFIC_HEAT	1.75e6
#define CAPACITY_PART	0.5
#define CONDUCTIVITY	100.0
#define MOST_POWER	3.0e6	/* of a cubic metre */
#define PRECISION	0.001	/* degrees of a step at the most power */
#define AMBIENT		80.0
/*
 * Kelvin a step from a cell's power, half of it at least: about what the surroundings take, so that
 * it stays as warm, and tens of times what is allowed, or a kernel without power would pass.
 */
#define HEATING		0.02

struct hotspot {
	struct ro_params p;
	struct ro_buffer *power, *t[2];
	float *t0;
	double scale, x, y, z;
};

static void give_back(void *state)
{
	struct hotspot *h = state;

	free(h->t0);
	free(h);
}

static void reset(void *state)
{
	struct hotspot *h = state;

	memcpy(h->t[0]->data, h->t0, h->t[0]->bytes);
}

static void constants(struct hotspot *h)
{
	double cell = EDGE / h->p.size, volume = THICKNESS * cell * cell;
	double slope = MOST_POWER / (CAPACITY_PART * THICKNESS * SPECIFIC_HEAT);

	h->scale = PRECISION / slope / (CAPACITY_PART * SPECIFIC_HEAT * volume);
	/* Cells are square. */
	h->x = 2 * CONDUCTIVITY * THICKNESS;
	h->y = h->x;
	h->z = CONDUCTIVITY * cell * cell / THICKNESS;
	/* A step must not take more from a cell than it has: small cells need short ones. */
	if (h->scale * 4 * h->x > 0.5)
		h->scale = 0.5 / (4 * h->x);
}

static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct hotspot *h = ro_alloc(m, 1, sizeof(*h));
	uint64_t cells = (uint64_t)p->size * p->size, state = p->seed, i;
	float *power, most;

	if (!h)
		return NULL;
	h->p = *p;
	h->power = ro_buffer(m, cells * sizeof(float));
	h->t[0] = ro_buffer(m, cells * sizeof(float));
	h->t[1] = ro_buffer(m, cells * sizeof(float));
	h->t0 = ro_alloc(m, cells, sizeof(float));
	if (m->error) {
		give_back(h);
		return NULL;
	}
	constants(h);
	most = (float)(HEATING / h->scale);
	power = h->power->data;
	for (i = 0; i < cells; i++) {
		h->t0[i] = ro_uniform(&state, 323, 343);
		power[i] = ro_uniform(&state, most / 2, most);
	}
	return h;
}

static void run(struct ro_machine *m, void *state)
{
	struct hotspot *h = state;
	struct { uint32_t rows, cols, steps; float scale, x, y, z; } args = {
		h->p.size, h->p.size, EACH, (float)h->scale, (float)h->x, (float)h->y, (float)h->z,
	};
	uint32_t done = 0, from = 0;

	for (; done < h->p.steps && !m->error; done += args.steps, from = !from) {
		if (args.steps > h->p.steps - done)
			args.steps = h->p.steps - done;
		ro_launch(m, RO_HOTSPOT,
			  ro_grid(RO_GROUPS(args.cols, RO_HOT_X - 2 * args.steps),
				  RO_GROUPS(args.rows, RO_HOT_Y - 2 * args.steps), 1, RO_HOT_X,
				  RO_HOT_ITEMS_Y, 1), ARAX_ARGS(args),
			  RO_RANGES(ro_in(h->power), ro_in(h->t[from]), ro_out(h->t[!from])));
	}
}

/* A whole step at a time, in double precision. */
static void sequential(const struct hotspot *h, const double *t, double *to)
{
	const float *power = h->power->data;
	int64_t n = h->p.size, x, y;

	for (y = 0; y < n; y++)
		for (x = 0; x < n; x++) {
			double mid = t[y * n + x];
			double west = x ? t[y * n + x - 1] : mid;
			double east = x + 1 < n ? t[y * n + x + 1] : mid;
			double north = y ? t[(y - 1) * n + x] : mid;
			double south = y + 1 < n ? t[(y + 1) * n + x] : mid;
			double flow = (west - mid) * h->x + (east - mid) * h->x +
				      (north - mid) * h->y + (south - mid) * h->y +
				      (AMBIENT - mid) * h->z;

			to[y * n + x] = mid + h->scale * (power[y * n + x] + flow);
		}
}

static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .error = NAN, .what = "of 343 K" };
	struct hotspot *h = state;
	size_t cells = (size_t)h->p.size * h->p.size, i;
	double *t = malloc(cells * sizeof(*t)), *next = malloc(cells * sizeof(*t)), *swap;
	uint32_t step, launches = RO_GROUPS(h->p.steps, EACH);

	/* Two roundings a step, and what the constants lose. */
	v.tolerance = 1.2e-7 * (h->p.steps + 4);
	v.compared = cells;
	if (t && next) {
		for (i = 0; i < cells; i++)
			t[i] = h->t0[i];
		for (step = 0; step < h->p.steps; step++) {
			sequential(h, t, next);
			swap = t;
			t = next;
			next = swap;
		}
		v.error = ro_worst(h->t[launches % 2]->data, t, cells, 343);
	}
	free(t);
	free(next);
	return v;
}

const struct ro_program ro_hotspot = {
	.name = "hotspot", .what = "the temperature of a processor",
	.size_is = "cells on an edge", .steps_are = "steps of time",
	.size = 512, .size_least = 1, .size_most = 16384,
	.steps = 20, .steps_most = 100000, .bench_size = 1024, .bench_steps = 80,
	.make = make, .reset = reset, .run = run, .check = check, .free = give_back,
};
