// SPDX-License-Identifier: MIT
/*
 * lavamd: the forces on particles in a cube of boxes, each from those in its own box and
 * the 26 around it.  A launch is a plane of boxes; none needs another, so all may run
 * side by side.
 */
#include "examples/rodinia/rodinia.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARTICLES	100	/* of a box */
#define ALPHA		0.5

struct lavamd {
	struct ro_params p;
	uint64_t in_plane;	/* particles */
	struct ro_buffer *at, *charge, *force;
};

static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct lavamd *v = ro_alloc(m, 1, sizeof(*v));
	uint64_t b = p->size, state = p->seed, n, i;
	float *at, *charge, half = (float)b / 2;

	if (!v)
		return NULL;
	v->p = *p;
	v->in_plane = b * b * PARTICLES;
	n = v->in_plane * b;
	v->at = ro_buffer(m, n * 4 * sizeof(float));
	v->charge = ro_buffer(m, n * sizeof(float));
	v->force = ro_buffer(m, n * 4 * sizeof(float));
	if (m->error) {
		free(v);
		return NULL;
	}
	at = v->at->data;
	charge = v->charge->data;
	for (i = 0; i < n; i++) {
		uint64_t box = i / PARTICLES;
		float *a = &at[4 * i];

		/* From the middle of the cube: sums of squares lose a fourth of what they would. */
		a[1] = (float)(box % b) - half + ro_uniform(&state, 0, 1);
		a[2] = (float)(box / b % b) - half + ro_uniform(&state, 0, 1);
		a[3] = (float)(box / (b * b)) - half + ro_uniform(&state, 0, 1);
		/* v + v' - r r' is half the square of a distance then. */
		a[0] = (a[1] * a[1] + a[2] * a[2] + a[3] * a[3]) / 2;
		charge[i] = ro_uniform(&state, 0.1f, 1);
	}
	return v;
}

static void run(struct ro_machine *m, void *state)
{
	struct lavamd *v = state;
	uint32_t b = v->p.size, step;
	struct { uint32_t boxes, particles, plane; float alpha; } args = { b, PARTICLES, 0, 0 };

	for (step = 0; step < v->p.steps; step++) {
		/* Other forces than the last, or the last need not be done. */
		args.alpha = step + 1 < v->p.steps ? ALPHA / 2 : ALPHA;
		for (args.plane = 0; args.plane < b && !m->error; args.plane++) {
			uint64_t first = args.plane ? args.plane - 1 : 0;
			uint64_t planes = (args.plane + 2 < b ? args.plane + 2 : b) - first;

			ro_launch(m, RO_LAVAMD, ro_grid(b, b, 1, RO_LAVA_ITEMS, 1, 1),
				  ARAX_ARGS(args),
				  RO_RANGES(ro_part(v->at, ARAX_IN, first * v->in_plane * 16,
						    planes * v->in_plane * 16),
					    ro_part(v->charge, ARAX_IN, first * v->in_plane * 4,
						    planes * v->in_plane * 4),
					    ro_part(v->force, ARAX_OUT, args.plane * v->in_plane * 16,
						    v->in_plane * 16)));
		}
	}
}

/*
 * Of all particles in boxes near to one: potential and force, in double precision, but from the
 * halves of squares that the kernels are given.
 */
static void sequential(const struct lavamd *v, uint64_t i, double *sum, double *scale)
{
	const float *at = v->at->data, *charge = v->charge->data, *own = &at[4 * i];
	int64_t b = v->p.size, box = (int64_t)(i / PARTICLES), x, y, z;
	uint64_t j, begin;

	memset(sum, 0, 4 * sizeof(*sum));
	*scale = 0;
	for (x = box % b - 1; x <= box % b + 1; x++)
		for (y = box / b % b - 1; y <= box / b % b + 1; y++)
			for (z = box / (b * b) - 1; z <= box / (b * b) + 1; z++) {
				if (x < 0 || y < 0 || z < 0 || x >= b || y >= b || z >= b)
					continue;
				begin = (uint64_t)((z * b + y) * b + x) * PARTICLES;
				for (j = begin; j < begin + PARTICLES; j++) {
					const float *o = &at[4 * j];
					double dx = (double)own[1] - o[1], dy = (double)own[2] - o[2];
					double dz = (double)own[3] - o[3];
					double dot = (double)own[1] * o[1] + (double)own[2] * o[2] +
						     (double)own[3] * o[3];
					double r2 = 2 * ((double)own[0] + o[0] - dot);
					double e = charge[j] * exp(-ALPHA * ALPHA * r2);

					sum[0] += e;
					sum[1] += 2 * e * dx;
					sum[2] += 2 * e * dy;
					sum[3] += 2 * e * dz;
					*scale += e;
				}
			}
}

static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .what = "of the sum of a particle's potentials" };
	struct lavamd *l = state;
	uint64_t n = l->in_plane * l->p.size, i, k;
	const float *force = l->force->data;
	double sum[4], scale, error;

	/*
	 * Half the square of a distance is told from sums of up to three squares of half the cube's
	 * edge, with four roundings, and a force is up to four times as wrong as that is.
	 */
	v.tolerance = 1e-6 * (0.36 * l->p.size * l->p.size + 10);
	for (i = 0; i < n; i++) {
		sequential(l, i, sum, &scale);
		for (k = 0; k < 4; k++) {
			error = fabs(force[4 * i + k] - sum[k]) / scale;
			if (!(error <= v.error) && !isnan(v.error))
				v.error = error;
			v.compared++;
		}
	}
	return v;
}

const struct ro_program ro_lavamd = {
	.name = "lavamd", .what = "forces between particles in neighbouring boxes",
	.size_is = "boxes of 100 particles on an edge", .steps_are = "times",
	.size = 4, .size_least = 1, .size_most = 64,
	.steps = 1, .steps_most = 1000, .bench_size = 9, .bench_steps = 1,
	.make = make, .run = run, .check = check, .free = free,
};
