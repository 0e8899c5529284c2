// SPDX-License-Identifier: MIT
/*
 * gaussian: a system of linear equations, by elimination without pivoting; two launches
 * for each unknown, each of which needs the one before.  The last part, from the triangle
 * to the unknowns, is the program's own.
 */
#include "examples/rodinia/rodinia.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct gaussian {
	struct ro_params p;
	struct ro_buffer *m, *b, *factor;
	float *m0, *b0;		/* as they were */
};

static void give_back(void *state)
{
	struct gaussian *g = state;

	free(g->m0);
	free(g->b0);
	free(g);
}

static void reset(void *state)
{
	struct gaussian *g = state;

	memcpy(g->m->data, g->m0, g->m->bytes);
	memcpy(g->b->data, g->b0, g->b->bytes);
}

/* The diagonal outweighs its row: no pivot comes near 0. */
static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct gaussian *g = ro_alloc(m, 1, sizeof(*g));
	uint64_t n = p->size, state = p->seed, i, j;

	if (!g)
		return NULL;
	g->p = *p;
	g->m = ro_buffer(m, n * n * sizeof(float));
	g->b = ro_buffer(m, n * sizeof(float));
	g->factor = ro_buffer(m, n * sizeof(float));
	g->m0 = ro_alloc(m, n * n, sizeof(float));
	g->b0 = ro_alloc(m, n, sizeof(float));
	if (m->error) {
		give_back(g);
		return NULL;
	}
	for (i = 0; i < n; i++) {
		float sum = 0;

		for (j = 0; j < n; j++) {
			g->m0[i * n + j] = ro_uniform(&state, -1, 1);
			sum += fabsf(g->m0[i * n + j]);
		}
		g->m0[i * n + i] = sum + 1;
		g->b0[i] = ro_uniform(&state, -1, 1);
	}
	return g;
}

static void run(struct ro_machine *m, void *state)
{
	struct gaussian *g = state;
	struct { uint32_t n, k; } args = { g->p.size, 0 };

	for (; args.k + 1 < args.n && !m->error; args.k++) {
		uint64_t left = args.n - args.k;

		ro_launch(m, RO_GAUSS_COLUMN, ro_row(left - 1, RO_GAUSS_ITEMS), ARAX_ARGS(args),
			  RO_RANGES(ro_in(g->m), ro_inout(g->factor)));
		ro_launch(m, RO_GAUSS_ROWS,
			  ro_grid(RO_GROUPS(left, RO_GAUSS_X), RO_GROUPS(left - 1, RO_GAUSS_Y), 1,
				  RO_GAUSS_X, RO_GAUSS_Y, 1), ARAX_ARGS(args),
			  RO_RANGES(ro_in(g->factor), ro_inout(g->m), ro_inout(g->b)));
	}
}

static void solve_triangle(const struct gaussian *g, float *x)
{
	const float *m = g->m->data, *b = g->b->data;
	uint64_t n = g->p.size, i, j;

	for (i = n; i--;) {
		double sum = b[i];

		for (j = i + 1; j < n; j++)
			sum -= (double)m[i * n + j] * x[j];
		x[i] = (float)(sum / m[i * n + i]);
	}
}

/* Row by row from the left, in double precision. */
static void sequential(const struct gaussian *g, double *m, double *x)
{
	uint64_t n = g->p.size, i, j, k;

	for (i = 0; i < n; i++) {
		double *row = &m[i * n], sum = g->b0[i];

		for (j = 0; j < n; j++)
			row[j] = g->m0[i * n + j];
		for (k = 0; k < i; k++) {
			double f = row[k] / m[k * n + k];

			for (j = k; j < n; j++)
				row[j] -= f * m[k * n + j];
			sum -= f * x[k];
		}
		x[i] = sum;
	}
	for (i = n; i--;) {
		for (j = i + 1; j < n; j++)
			x[i] -= m[i * n + j] * x[j];
		x[i] /= m[i * n + i];
	}
}

static struct ro_verdict check(void *state)
{
	struct ro_verdict v = { .error = NAN, .tolerance = 1e-5, .what = "of the greatest unknown" };
	struct gaussian *g = state;
	size_t n = g->p.size, i;
	double *m = malloc(n * n * sizeof(*m)), *wanted = calloc(n, sizeof(*wanted)), most = 0;
	float *x = calloc(n, sizeof(*x));

	v.compared = n;
	if (m && wanted && x) {
		solve_triangle(g, x);
		sequential(g, m, wanted);
		for (i = 0; i < n; i++)
			most = fabs(wanted[i]) > most ? fabs(wanted[i]) : most;
		v.error = ro_worst(x, wanted, n, most);
	}
	free(m);
	free(wanted);
	free(x);
	return v;
}

const struct ro_program ro_gaussian = {
	.name = "gaussian", .what = "a system of linear equations, by elimination",
	.size_is = "unknowns", .steps_are = "systems: one",
	.size = 256, .size_least = 2, .size_most = 8192,
	.steps = 1, .steps_most = 1, .bench_size = 1700, .bench_steps = 1,
	.make = make, .reset = reset, .run = run, .check = check, .free = give_back,
};
