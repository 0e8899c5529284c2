// SPDX-License-Identifier: MIT
/* hotspot3d: as hotspot, for a stack of eight chips; a step a launch. */
#include "examples/rodinia/rodinia.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS	8

/* Of the stack; SI units, kelvin. */
#define THICKNESS	0.0005
#define EDGE		0.016
#define SPECIFIC_HEAT	1.75e6
#define CAPACITY_PART	0.5
#define CONDUCTIVITY	100.0
#define MOST_POWER	3.0e6
#define PRECISION	0.001
#define AMBIENT		80.0
/* As hotspot's; from a thinner layer the surroundings take more. */
#define HEATING		0.2

struct hotspot3d {
	struct ro_params p;
	struct ro_buffer *power, *t[2];
	float *t0;
	double mid, x, y, z, power_scale;
};

static void give_back(void *state)
{
	struct hotspot3d *h = state;

	free(h->t0);
	free(h);
}

static void reset(void *state)
{
	struct hotspot3d *h = state;

	memcpy(h->t[0]->data, h->t0, h->t[0]->bytes);
}

static uint64_t cells_of(const struct hotspot3d *h)
{
	return (uint64_t)h->p.size * h->p.size * LAYERS;
}

static void constants(struct hotspot3d *h)
{
	double cell = EDGE / h->p.size, layer = THICKNESS / LAYERS;
	double capacity = CAPACITY_PART * SPECIFIC_HEAT * THICKNESS * cell * cell;
	double slope = MOST_POWER / (CAPACITY_PART * THICKNESS * SPECIFIC_HEAT);

	h->power_scale = PRECISION / slope / capacity;
	/* A step must not take more from a cell than it has: small cells need short ones. */
	if (h->power_scale * 8 * CONDUCTIVITY * THICKNESS > 0.5)
		h->power_scale = 0.5 / (8 * CONDUCTIVITY * THICKNESS);
	h->x = h->power_scale * 2 * CONDUCTIVITY * THICKNESS;
	h->y = h->x;
	h->z = h->power_scale * CONDUCTIVITY * cell * cell / layer;
	h->mid = 1 - 2 * h->x - 2 * h->y - 3 * h->z;
}

static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct hotspot3d *h = ro_alloc(m, 1, sizeof(*h));
	uint64_t state = p->seed, bytes, i;
	float *power, most;

	if (!h)
		return NULL;
	h->p = *p;
	bytes = cells_of(h) * sizeof(float);
	h->power = ro_buffer(m, bytes);
	h->t[0] = ro_buffer(m, bytes);
	h->t[1] = ro_buffer(m, bytes);
	h->t0 = ro_alloc(m, cells_of(h), sizeof(float));
	if (m->error) {
		give_back(h);
		return NULL;
	}
	constants(h);
	most = (float)(HEATING / h->power_scale);
	power = h->power->data;
	for (i = 0; i < cells_of(h); i++) {
		h->t0[i] = ro_uniform(&state, 323, 343);
		power[i] = ro_uniform(&state, most / 2, most);
	}
	return h;
}

static void run(struct ro_machine *m, void *state)
{
	struct hotspot3d *h = state;
	struct { uint32_t nx, ny, nz; float mid, x, y, z, power, ambient; } args = {
		h->p.size, h->p.size, LAYERS, (float)h->mid, (float)h->x, (float)h->y, (float)h->z,
		(float)h->power_scale, (float)(h->z * AMBIENT),
	};
	uint32_t step;

	for (step = 0; step < h->p.steps && !m->error; step++)
		ro_launch(m, RO_HOTSPOT3D,
			  ro_grid(RO_GROUPS(args.nx, RO_HOT3_X), RO_GROUPS(args.ny, RO_HOT3_Y),
				  RO_GROUPS(args.nz, RO_HOT3_Z), RO_HOT3_X, RO_HOT3_Y, RO_HOT3_Z),
			  ARAX_ARGS(args),
			  RO_RANGES(ro_in(h->power), ro_in(h->t[step % 2]),
				    ro_out(h->t[!(step % 2)])));
}

/* By what flows to each of six neighbours and to the surroundings, in double precision. */
static double sequential(const struct hotspot3d *h, const double *t, int64_t x, int64_t y, int64_t z)
{
	int64_t n = h->p.size, plane = n * n, i = z * plane + y * n + x;
	const float *power = h->power->data;
	double mid = t[i], change = h->power_scale * power[i] + h->z * (AMBIENT - mid);

	if (x)
		change += h->x * (t[i - 1] - mid);
	if (x + 1 < n)
		change += h->x * (t[i + 1] - mid);
	if (y)
		change += h->y * (t[i - n] - mid);
	if (y + 1 < n)
		change += h->y * (t[i + n] - mid);
	if (z)
		change += h->z * (t[i - plane] - mid);
	if (z + 1 < LAYERS)
		change += h->z * (t[i + plane] - mid);
	return mid + change;
}

static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .error = NAN, .what = "of 343 K" };
	struct hotspot3d *h = state;
	size_t cells = cells_of(h), i;
	double *t = malloc(cells * sizeof(*t)), *next = malloc(cells * sizeof(*t)), *swap;
	int64_t n = h->p.size, x, y, z;
	uint32_t step;

	/* Nine roundings a step, of sums that come to 343 bit by bit. */
	v.tolerance = 3.6e-7 * (h->p.steps + 2);
	v.compared = cells;
	if (t && next) {
		for (i = 0; i < cells; i++)
			t[i] = h->t0[i];
		for (step = 0; step < h->p.steps; step++) {
			for (z = 0; z < LAYERS; z++)
				for (y = 0; y < n; y++)
					for (x = 0; x < n; x++)
						next[(z * n + y) * n + x] = sequential(h, t, x, y, z);
			swap = t;
			t = next;
			next = swap;
		}
		v.error = ro_worst(h->t[h->p.steps % 2]->data, t, cells, 343);
	}
	free(t);
	free(next);
	return v;
}

const struct ro_program ro_hotspot3d = {
	.name = "hotspot3d", .what = "the temperature of a stack of eight chips",
	.size_is = "cells on an edge", .steps_are = "steps of time",
	.size = 128, .size_least = 1, .size_most = 4096,
	.steps = 20, .steps_most = 100000, .bench_size = 512, .bench_steps = 400,
	.make = make, .reset = reset, .run = run, .check = check, .free = give_back,
};
