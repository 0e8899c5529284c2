// SPDX-License-Identifier: MIT
/*
 * VEC, B&S and HITS: arrays and a sparse matrix
 *
 * In the schedules by hand t[i] stands for what step i writes; where a buffer is
 * written again, so does it for the step that writes it first.
 */
#include <string.h>

#include "bench.h"
#include "six.h"

/* ------------------------------------------------------------------ */
/* VEC: res += sum(x^2 - y^2)                                          */

enum { VEC_X, VEC_Y, VEC_SUM };

static void vec_hand(struct flow *f)
{
	char *t __attribute__((unused)) = f->token;	/* the pragmas use it */

#pragma omp task depend(out : t[VEC_X])
	flow_call(f, VEC_X);
#pragma omp task depend(out : t[VEC_Y])
	flow_call(f, VEC_Y);
#pragma omp task depend(in : t[VEC_X], t[VEC_Y])
	flow_call(f, VEC_SUM);
}

static void vec_reset(struct flow *f)
{
	memset(arax_buffer_data(f->out[0]), 0, sizeof(double));
}

void vec_make(struct flow *f, uint32_t n)
{
	uint64_t bytes = (uint64_t)n * sizeof(float);
	struct arax_buffer *x = six_floats(f, n, 0, 1), *y = six_floats(f, n, 0, 1);
	struct arax_buffer *x1 = flow_buffer(f, bytes, 0), *y1 = flow_buffer(f, bytes, 0);
	struct arax_buffer *res = flow_buffer(f, sizeof(double), 1);

	f->hand = vec_hand;
	f->reset = vec_reset;
	flow_step(f, "square", n, ARAX_ARGS(n), ARAX_RANGES(arax_in(x), arax_out(x1)));
	flow_step(f, "square", n, ARAX_ARGS(n), ARAX_RANGES(arax_in(y), arax_out(y1)));
	flow_step(f, "sum_diff", n, ARAX_ARGS(n),
		  ARAX_RANGES(arax_in(x1), arax_in(y1), arax_inout(res)));
}

/* ------------------------------------------------------------------ */
/* B&S: ten independent arrays of prices                               */

#define STOCKS	10

static void bs_hand(struct flow *f)
{
	unsigned int i;

	for (i = 0; i < STOCKS; i++) {
#pragma omp task firstprivate(i)
		flow_call(f, i);
	}
}

void bs_make(struct flow *f, uint32_t n)
{
	struct { double rate, volatility, years, strike; uint32_t n; } args = { 0.08, 0.3, 1, 60, n };
	uint64_t bytes = (uint64_t)n * sizeof(double), k;
	struct arax_buffer *x, *y;
	double *values;
	int i;

	f->hand = bs_hand;
	for (i = 0; i < STOCKS; i++) {
		x = flow_buffer(f, bytes, 0);
		y = flow_buffer(f, bytes, 1);
		values = arax_buffer_data(x);
		for (k = 0; k < n; k++)
			values[k] = 59.5 + six_random();
		flow_step(f, "black_scholes", n, ARAX_ARGS(args),
			  ARAX_RANGES(arax_in(x), arax_out(y)));
	}
}

/* ------------------------------------------------------------------ */
/* HITS: hubs and authorities of a random graph                        */

#define DEGREE		3
#define ITERATIONS	5

enum { HITS_AUTH, HITS_HUB, HITS_SUM_AUTH, HITS_SUM_HUB, HITS_DIV_AUTH, HITS_DIV_HUB, HITS_STEPS };

/* Two threads, one for each vector; they exchange those once an iteration. */
static void hits_hand(struct flow *f)
{
	char *t __attribute__((unused)) = f->token;	/* the pragmas use it */
	unsigned int i, s;

	for (i = 0; i < ITERATIONS; i++) {
		s = i * HITS_STEPS;
#pragma omp task firstprivate(s) depend(in : t[HITS_DIV_HUB]) depend(out : t[HITS_AUTH])
		flow_call(f, s + HITS_AUTH);
#pragma omp task firstprivate(s) depend(in : t[HITS_DIV_AUTH]) depend(out : t[HITS_HUB])
		flow_call(f, s + HITS_HUB);
#pragma omp task firstprivate(s) depend(in : t[HITS_AUTH]) depend(out : t[HITS_SUM_AUTH])
		flow_call(f, s + HITS_SUM_AUTH);
#pragma omp task firstprivate(s) depend(in : t[HITS_HUB]) depend(out : t[HITS_SUM_HUB])
		flow_call(f, s + HITS_SUM_HUB);
#pragma omp task firstprivate(s) depend(in : t[HITS_AUTH], t[HITS_SUM_AUTH]) \
	depend(out : t[HITS_DIV_AUTH])
		flow_call(f, s + HITS_DIV_AUTH);
#pragma omp task firstprivate(s) depend(in : t[HITS_HUB], t[HITS_SUM_HUB]) \
	depend(out : t[HITS_DIV_HUB])
		flow_call(f, s + HITS_DIV_HUB);
	}
}

struct csr {
	struct arax_buffer *begin, *col, *value;
};

static void csr_make(struct flow *f, struct csr *m, uint32_t n)
{
	uint32_t *begin, *col, i;
	float *value;

	m->begin = flow_buffer(f, ((uint64_t)n + 1) * 4, 0);
	m->col = flow_buffer(f, (uint64_t)n * DEGREE * 4, 0);
	m->value = flow_buffer(f, (uint64_t)n * DEGREE * 4, 0);
	begin = arax_buffer_data(m->begin);
	col = arax_buffer_data(m->col);
	value = arax_buffer_data(m->value);
	for (i = 0; i <= n; i++)
		begin[i] = DEGREE * i;
	for (i = 0; i < DEGREE * n; i++) {
		col[i] = (uint32_t)(six_random() * n);
		value[i] = 1;
	}
}

/* Count what is in each column, add up, deal out: the rows of the other one. */
static void csr_transpose(const struct csr *from, struct csr *to, uint32_t n)
{
	uint32_t *begin = arax_buffer_data(to->begin), *col = arax_buffer_data(to->col);
	const uint32_t *other = arax_buffer_data(from->col);
	uint32_t i;

	memset(begin, 0, ((size_t)n + 1) * 4);
	for (i = 0; i < DEGREE * n; i++)
		begin[other[i] + 1]++;
	for (i = 0; i < n; i++)
		begin[i + 1] += begin[i];
	for (i = 0; i < DEGREE * n; i++)
		col[begin[other[i]]++] = i / DEGREE;
	/* Each has moved to where the next one began. */
	memmove(begin + 1, begin, (size_t)n * 4);
	begin[0] = 0;
}

static void multiply(struct flow *f, const struct csr *m, struct arax_buffer *x,
		     struct arax_buffer *y, uint32_t n)
{
	struct { uint32_t rows, cols, nnz; } args = { n, n, DEGREE * n };

	flow_step(f, "spmv", n, ARAX_ARGS(args),
		  ARAX_RANGES(arax_in(m->begin), arax_in(m->col), arax_in(m->value), arax_in(x),
			      arax_out(y)));
}

void hits_make(struct flow *f, uint32_t n)
{
	struct arax_buffer *one = six_floats(f, n, 1, 0), *next[2], *sum[2], *now[2];
	struct csr a, transposed;
	int i, k;

	f->hand = hits_hand;
	csr_make(f, &a, n);
	csr_make(f, &transposed, n);
	csr_transpose(&a, &transposed, n);
	for (k = 0; k < 2; k++) {
		next[k] = flow_buffer(f, (uint64_t)n * 4, 0);
		sum[k] = flow_buffer(f, 8, 0);
		now[k] = flow_buffer(f, (uint64_t)n * 4, 1);
	}
	for (i = 0; i < ITERATIONS; i++) {
		multiply(f, &transposed, i ? now[1] : one, next[0], n);
		multiply(f, &a, i ? now[0] : one, next[1], n);
		for (k = 0; k < 2; k++)
			flow_step(f, "sum_f32", n, ARAX_ARGS(n),
				  ARAX_RANGES(arax_in(next[k]), arax_out(sum[k])));
		for (k = 0; k < 2; k++)
			flow_step(f, "divide", n, ARAX_ARGS(n),
				  ARAX_RANGES(arax_in(next[k]), arax_in(sum[k]), arax_out(now[k])));
	}
}
