// SPDX-License-Identifier: MIT
/*
 * particlefilter: follows a bright disc through a noisy film by particles; four launches a
 * frame (see daemon/kernels/rodinia/particlefilter.c), the estimate of each frame is kept.
 */
#include "examples/rodinia/rodinia.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EDGE	128	/* pixels of a frame */
#define FRAMES	56	/* then the disc has left */

struct filter {
	struct ro_params p;
	uint64_t groups;
	struct ro_buffer *film, *x[2], *y[2], *like, *most, *running, *sums, *before, *estimate;
};

/* Where the disc is. */
static void disc(uint32_t frame, float *x, float *y)
{
	*x = EDGE / 4 + (float)frame;
	*y = EDGE - 8 - 2 * (float)frame;
}

static void reset(void *state)
{
	struct filter *f = state;
	float *x = f->x[0]->data, *y = f->y[0]->data;
	uint64_t i;

	for (i = 0; i < f->p.size; i++)
		disc(0, &x[i], &y[i]);
}

static void paint(uint8_t *frame, uint32_t number, uint64_t *state)
{
	float cx, cy;
	int x, y;

	disc(number, &cx, &cy);
	for (y = 0; y < EDGE; y++)
		for (x = 0; x < EDGE; x++) {
			float r2 = ((float)x - cx) * ((float)x - cx) + ((float)y - cy) * ((float)y - cy);
			float light = r2 < RO_PF_RADIUS * RO_PF_RADIUS ? 228 : 100;

			frame[y * EDGE + x] = (uint8_t)(light + ro_uniform(state, -10, 10));
		}
}

static void *make(struct ro_machine *m, const struct ro_params *p)
{
	struct filter *f = ro_alloc(m, 1, sizeof(*f));
	uint64_t bytes = (uint64_t)p->size * sizeof(float), state = p->seed;
	uint32_t i;

	if (!f)
		return NULL;
	f->p = *p;
	f->groups = RO_GROUPS((uint64_t)p->size, RO_PF_ITEMS);
	f->film = ro_buffer(m, (uint64_t)p->steps * EDGE * EDGE);
	for (i = 0; i < 2; i++) {
		f->x[i] = ro_buffer(m, bytes);
		f->y[i] = ro_buffer(m, bytes);
	}
	f->like = ro_buffer(m, bytes);
	f->running = ro_buffer(m, bytes);
	f->most = ro_buffer(m, f->groups * sizeof(float));
	f->sums = ro_buffer(m, 3 * f->groups * sizeof(float));
	f->before = ro_buffer(m, (f->groups + 1) * sizeof(float));
	f->estimate = ro_buffer(m, (uint64_t)p->steps * 2 * sizeof(float));
	if (m->error) {
		free(f);
		return NULL;
	}
	for (i = 0; i < p->steps; i++)
		paint((uint8_t *)f->film->data + (uint64_t)i * EDGE * EDGE, i, &state);
	return f;
}

static void run(struct ro_machine *m, void *state)
{
	struct filter *f = state;
	struct arax_grid all = ro_row(f->p.size, RO_PF_ITEMS);
	struct { uint32_t n, width, height, seed, frame; } move = {
		f->p.size, EDGE, EDGE, (uint32_t)f->p.seed, 0,
	};
	struct { uint32_t n; } n = { f->p.size };
	struct { uint32_t n, seed, frame; } again = { f->p.size, (uint32_t)f->p.seed, 0 };

	for (; move.frame < f->p.steps && !m->error; move.frame++) {
		const struct ro_buffer *x = f->x[move.frame % 2], *y = f->y[move.frame % 2];

		again.frame = move.frame;
		ro_launch(m, RO_PF_MOVE, all, ARAX_ARGS(move),
			  RO_RANGES(ro_part(f->film, ARAX_IN, (uint64_t)move.frame * EDGE * EDGE,
					    EDGE * EDGE), ro_inout(x), ro_inout(y), ro_out(f->like),
				    ro_out(f->most)));
		ro_launch(m, RO_PF_WEIGH, all, ARAX_ARGS(n),
			  RO_RANGES(ro_in(f->most), ro_in(f->like), ro_in(x), ro_in(y),
				    ro_out(f->running), ro_out(f->sums)));
		ro_launch(m, RO_PF_TOTAL, ro_grid(1, 1, 1, 1, 1, 1), ARAX_ARGS(n),
			  RO_RANGES(ro_in(f->sums), ro_out(f->before),
				    ro_part(f->estimate, ARAX_OUT, move.frame * 8ull, 8)));
		ro_launch(m, RO_PF_RESAMPLE, all, ARAX_ARGS(again),
			  RO_RANGES(ro_in(f->before), ro_in(f->running), ro_in(x), ro_in(y),
				    ro_out(f->x[!(move.frame % 2)]),
				    ro_out(f->y[!(move.frame % 2)])));
	}
}

/* ------------------------------------------------------------------ */
/* One particle after the other, in double precision                     */

struct particle {
	double x, y, weight;
};

/* The kernels' own source of chance: what is drawn has to be the same. */
static uint64_t chance(uint32_t seed, uint32_t frame, uint32_t i, uint32_t which)
{
	uint64_t state = (((uint64_t)seed << 32 ^ frame) * 0x9e3779b97f4a7c15u) ^
			 ((uint64_t)which << 32 | i);

	return ro_random(&state);
}

static double normal(uint64_t bits)
{
	double sum = 0;
	int i;

	for (i = 0; i < 4; i++)
		sum += (double)(bits >> 16 * i & 0xffff);
	return (sum - 131070) * 2.642903e-05;
}

static long nearest(double at)
{
	return at < 0 ? 0 : at > EDGE - 1 ? EDGE - 1 : lround(at);
}

static double likeness(const uint8_t *frame, double x, double y)
{
	long px = nearest(x), py = nearest(y), dx, dy;
	double sum = 0;
	int n = 0;

	for (dx = -RO_PF_RADIUS; dx <= RO_PF_RADIUS; dx++)
		for (dy = -RO_PF_RADIUS; dy <= RO_PF_RADIUS; dy++) {
			double light;

			if (dx * dx + dy * dy >= RO_PF_RADIUS * RO_PF_RADIUS)
				continue;
			light = frame[nearest((double)(py + dy)) * EDGE + nearest((double)(px + dx))];
			sum += ((light - 100) * (light - 100) - (light - 228) * (light - 228)) / 50;
			n++;
		}
	return sum / n;
}

static void draw_again(struct particle *p, struct particle *old, uint32_t n, double total,
		       uint64_t bits)
{
	double first = (double)(bits >> 40) / (1 << 24), sum = 0;
	uint32_t i = 0, j;

	memcpy(old, p, n * sizeof(*p));
	for (j = 0; j < n; j++) {
		double at = (j + first) / n * total;

		while (i + 1 < n && sum + old[i].weight <= at)
			sum += old[i++].weight;
		p[j] = old[i];
	}
}

static void one_frame(const struct filter *f, uint32_t frame, struct particle *p,
		      struct particle *old, double *mean)
{
	const uint8_t *film = (uint8_t *)f->film->data + (uint64_t)frame * EDGE * EDGE;
	uint32_t n = f->p.size, seed = (uint32_t)f->p.seed, i;
	double most = -INFINITY, total = 0;

	for (i = 0; i < n; i++) {
		p[i].x += 1 + 5 * normal(chance(seed, frame, i, 0));
		p[i].y += -2 + 2 * normal(chance(seed, frame, i, 1));
		p[i].weight = likeness(film, p[i].x, p[i].y);
		most = p[i].weight > most ? p[i].weight : most;
	}
	mean[0] = 0;
	mean[1] = 0;
	for (i = 0; i < n; i++) {
		p[i].weight = exp(p[i].weight - most);
		total += p[i].weight;
		mean[0] += p[i].weight * p[i].x;
		mean[1] += p[i].weight * p[i].y;
	}
	mean[0] /= total;
	mean[1] /= total;
	draw_again(p, old, n, total, chance(seed, frame, 0, 2));
}

/*
 * The last particles, which no estimate comes from: each must be, to the bit, a moved one whose part
 * of the sum, up to what sums in single precision lose, is where it was drawn.  From the machine's
 * own places and logarithms, which the last estimate speaks for.
 * Returns how far the worst is off: nothing, or a whole frame.
 */
static double last_drawn(const struct filter *f, double *until)
{
	uint32_t n = f->p.size, last = f->p.steps - 1, i, j, k;
	const float *x = f->x[last % 2]->data, *y = f->y[last % 2]->data, *like = f->like->data;
	const float *x2 = f->x[!(last % 2)]->data, *y2 = f->y[!(last % 2)]->data;
	double first = (double)(chance((uint32_t)f->p.seed, last, 0, 2) >> 40) / (1 << 24);
	double most = -INFINITY, total = 0, at, lost;

	for (i = 0; i < n; i++)
		most = like[i] > most ? like[i] : most;
	for (i = 0; i < n; i++)
		until[i] = total += exp(like[i] - most);
	lost = 1.2e-7 * ((double)f->groups + RO_PF_ITEMS + 16) * total;
	for (i = 0, j = 0; j < n; j++) {
		at = (j + first) / n * total;
		while (i + 1 < n && !(until[i] > at - lost))
			i++;
		for (k = i; x2[j] != x[k] || y2[j] != y[k]; k++)
			if (k + 1 == n || !(until[k] <= at + lost))
				return EDGE;
	}
	return 0;
}

static struct ro_verdict check(void *state)
{
	/*
	 * A particle within a rounding error of a pixel's edge, or of its neighbour's part of
	 * the sum, goes another way: then it is one of many that matter.
	 */
	struct ro_verdict v = { .error = NAN, .tolerance = 0.05, .what = "pixels" };
	struct filter *f = state;
	uint32_t n = f->p.size, i;
	struct particle *p = calloc(n, sizeof(*p)), *old = calloc(n, sizeof(*old));
	const float *estimate = f->estimate->data;
	double *until = calloc(n, sizeof(*until)), mean[2], worst = 0, one;
	float x, y;

	v.compared = f->p.steps * 2ull + n * 2ull;
	if (p && old && until) {
		disc(0, &x, &y);
		for (i = 0; i < n; i++) {
			p[i].x = x;
			p[i].y = y;
		}
		for (i = 0; i < f->p.steps; i++) {
			one_frame(f, i, p, old, mean);
			one = ro_worst(&estimate[2 * i], mean, 2, 1);
			if (!(one <= worst))
				worst = one;
		}
		one = last_drawn(f, until);
		v.error = one > worst ? one : worst;
	}
	free(until);
	free(p);
	free(old);
	return v;
}

const struct ro_program ro_particlefilter = {
	.name = "particlefilter", .what = "following an object through a film",
	.size_is = "particles", .steps_are = "frames of 128 x 128 pixels",
	.size = 20000, .size_least = 1, .size_most = 1u << 22,
	.steps = 10, .steps_most = FRAMES, .bench_size = 200000, .bench_steps = 40,
	.make = make, .reset = reset, .run = run, .check = check, .free = free,
};
