// SPDX-License-Identifier: MIT
/*
 * grcuda.c - the six benchmarks of GrCUDA's scheduler as graphs (arXiv 2012.09646)
 *
 * Each round the program has new inputs, runs its kernels and reads the result, for which it
 * waits; the next round begins after that.  The sizes of buffers follow from @n as the
 * benchmarks define it; a kernel's work is the elements that it goes over.
 */
#include <stdarg.h>

#include "daemon/sim/generate.h"

#define F32	4u
#define F64	8u

/* The host has new bytes for it; when it got them is not part of the benchmark. */
static void fresh(struct sim_app *a, uint32_t buffer)
{
	app_task(a, SIM_HOST, 1);
	app_whole(a, buffer, ARAX_OUT);
}

static void result(struct sim_app *a, uint32_t buffer, uint64_t bytes)
{
	app_task(a, SIM_HOST, 1)->sync = true;
	app_range(a, buffer, 0, bytes, ARAX_IN);
}

/* Reads all of @nr_in buffers, writes the one that is named last. */
static void launch(struct sim_app *a, uint16_t kernel, uint64_t work, int nr_in, ...)
{
	va_list ap;

	app_task(a, kernel, work);
	va_start(ap, nr_in);
	for (int i = 0; i < nr_in; i++)
		app_whole(a, va_arg(ap, uint32_t), ARAX_IN);
	app_whole(a, va_arg(ap, uint32_t), ARAX_OUT);
	va_end(ap);
}

static void vec(struct sim_app *a, const struct generate *g, const uint16_t *k, struct rng *rng)
{
	uint64_t n = g->n;
	uint32_t x = app_buffer(a, n * F32), y = app_buffer(a, n * F32);
	uint32_t x1 = app_buffer(a, n * F32), y1 = app_buffer(a, n * F32);
	uint32_t res = app_buffer(a, F32);

	for (uint64_t i = 0; i < g->rounds; i++) {
		fresh(a, x);
		fresh(a, y);
		launch(a, k[0], n, 1, x, x1);
		launch(a, k[0], n, 1, y, y1);
		launch(a, k[1], n, 2, x1, y1, res);
		result(a, res, F32);
	}
}

static void bs(struct sim_app *a, const struct generate *g, const uint16_t *k, struct rng *rng)
{
	for (int i = 0; i < 20; i++)
		app_buffer(a, g->n * F64);
	for (uint64_t r = 0; r < g->rounds; r++) {
		for (uint32_t i = 0; i < 10; i++)
			fresh(a, i);
		for (uint32_t i = 0; i < 10; i++)
			launch(a, k[0], g->n, 1, i, 10 + i);
		/* As the original: the first price of each. */
		for (uint32_t i = 0; i < 10; i++)
			result(a, 10 + i, F64);
	}
}

static void img(struct sim_app *a, const struct generate *g, const uint16_t *k, struct rng *rng)
{
	enum { IMAGE, BLUR3, MASK1, BLUR5, MASK2, EXTENDED, SOFT, SHARP, HALF, OUT, PLANES };
	uint64_t n = g->n * g->n;
	uint32_t max, min;

	for (int i = 0; i < PLANES; i++)
		app_buffer(a, n * F32);
	max = app_buffer(a, F32);
	min = app_buffer(a, F32);
	for (uint64_t r = 0; r < g->rounds; r++) {
		fresh(a, IMAGE);
		launch(a, k[0], n, 1, IMAGE, BLUR3);
		launch(a, k[2], n, 1, BLUR3, MASK1);
		launch(a, k[1], n, 1, IMAGE, BLUR5);
		launch(a, k[2], n, 1, BLUR5, MASK2);
		launch(a, k[3], n, 1, MASK2, max);
		launch(a, k[3], n, 1, MASK2, min);
		launch(a, k[4], n, 3, MASK2, max, min, EXTENDED);
		launch(a, k[0], n, 1, IMAGE, SOFT);
		launch(a, k[5], n, 2, IMAGE, SOFT, SHARP);
		launch(a, k[6], n, 3, SHARP, BLUR5, EXTENDED, HALF);
		launch(a, k[6], n, 3, HALF, BLUR3, MASK1, OUT);
		result(a, OUT, F32);
	}
}

static void ml(struct sim_app *a, const struct generate *g, const uint16_t *k, struct rng *rng)
{
	uint64_t n = g->n, in = n * 200, out = n * 10;
	uint32_t x = app_buffer(a, in * F32), z = app_buffer(a, in * F32);
	uint32_t weights = app_buffer(a, 2 * 10 * 200 * F32);
	uint32_t nb = app_buffer(a, out * F32), rowmax = app_buffer(a, n * F32);
	uint32_t lse = app_buffer(a, n * F32), nb2 = app_buffer(a, out * F32);
	uint32_t nb3 = app_buffer(a, out * F32), rr = app_buffer(a, out * F32);
	uint32_t rr2 = app_buffer(a, out * F32), rr3 = app_buffer(a, out * F32);
	uint32_t answer = app_buffer(a, n * F32);

	for (uint64_t r = 0; r < g->rounds; r++) {
		fresh(a, x);
		launch(a, k[0], in, 2, x, weights, nb);		/* X.W^T */
		launch(a, k[1], in, 1, x, z);			/* z-score of columns */
		launch(a, k[2], out, 1, nb, rowmax);
		launch(a, k[3], in, 2, z, weights, rr);		/* Z.C^T */
		launch(a, k[2], out, 2, nb, rowmax, lse);	/* log-sum-exp */
		launch(a, k[4], out, 1, rr, rr2);		/* intercept */
		launch(a, k[4], out, 2, nb, lse, nb2);		/* exp */
		launch(a, k[5], out, 1, nb2, nb3);		/* softmax */
		launch(a, k[5], out, 1, rr2, rr3);
		launch(a, k[6], out, 2, nb3, rr3, answer);	/* argmax of the sum */
		result(a, answer, F32);
	}
}

static void hits(struct sim_app *a, const struct generate *g, const uint16_t *k, struct rng *rng)
{
	uint64_t n = g->n, degree = 3;
	uint32_t row[2], col[2], val[2], auth[2], hub[2], sum[2];

	for (int i = 0; i < 2; i++) {
		row[i] = app_buffer(a, (n + 1) * F32);
		col[i] = app_buffer(a, n * degree * F32);
		val[i] = app_buffer(a, n * degree * F32);
		auth[i] = app_buffer(a, n * F32);
		hub[i] = app_buffer(a, n * F32);
		sum[i] = app_buffer(a, F32);
	}
	for (uint64_t r = 0; r < g->rounds; r++) {
		for (int i = 0; i < 2; i++) {
			fresh(a, row[i]);
			fresh(a, col[i]);
			fresh(a, val[i]);
		}
		fresh(a, auth[0]);
		fresh(a, hub[0]);
		for (int i = 0; i < 5; i++) {
			fresh(a, sum[0]);
			fresh(a, sum[1]);
			launch(a, k[0], n * degree, 4, row[0], col[0], val[0], hub[0], auth[1]);
			launch(a, k[0], n * degree, 4, row[1], col[1], val[1], auth[0], hub[1]);
			launch(a, k[1], n, 1, auth[1], sum[0]);
			launch(a, k[1], n, 1, hub[1], sum[1]);
			launch(a, k[2], n, 2, auth[1], sum[0], auth[0]);
			launch(a, k[2], n, 2, hub[1], sum[1], hub[0]);
		}
		result(a, auth[0], F32);
		result(a, hub[0], F32);
	}
}

static void dl(struct sim_app *a, const struct generate *g, const uint16_t *k, struct rng *rng)
{
	uint64_t n = g->n, half = n / 2, pooled = half / 5, last = pooled / 2;
	uint32_t image[2], conv1[2], pool[2], conv2[2], both, weights, res;

	for (int i = 0; i < 2; i++) {
		image[i] = app_buffer(a, n * n * F32);
		conv1[i] = app_buffer(a, half * half * 8 * F32);
		pool[i] = app_buffer(a, pooled * pooled * 8 * F32 + F32);
		conv2[i] = app_buffer(a, last * last * 16 * F32 + F32);
	}
	both = app_buffer(a, 2 * last * last * 16 * F32 + F32);
	weights = app_buffer(a, 2 * last * last * 16 * F32 + F32);
	res = app_buffer(a, F32);
	for (uint64_t r = 0; r < g->rounds; r++) {
		fresh(a, image[0]);
		fresh(a, image[1]);
		for (int i = 0; i < 2; i++) {
			launch(a, k[0], half * half * 8, 1, image[i], conv1[i]);
			launch(a, k[1], half * half * 8, 1, conv1[i], pool[i]);
			launch(a, k[2], last * last * 16, 1, pool[i], conv2[i]);
		}
		launch(a, k[3], 2 * last * last * 16, 2, conv2[0], conv2[1], both);
		launch(a, k[4], 2 * last * last * 16, 2, both, weights, res);
		result(a, res, F32);
	}
}

static const char *const vec_kernels[] = { "vec_square", "vec_reduce", NULL };
static const char *const bs_kernels[] = { "black_scholes", NULL };
static const char *const img_kernels[] = {
	"img_blur3", "img_blur5", "img_sobel", "img_extreme", "img_extend", "img_unsharpen",
	"img_combine", NULL,
};
static const char *const ml_kernels[] = {
	"ml_bayes", "ml_zscore", "ml_rows", "ml_ridge", "ml_map", "ml_softmax", "ml_argmax", NULL,
};
static const char *const hits_kernels[] = { "hits_spmv", "hits_sum", "hits_divide", NULL };
static const char *const dl_kernels[] = {
	"dl_conv1", "dl_pool", "dl_conv2", "dl_concat", "dl_dot", NULL,
};

const struct generator generator_vec = { "vec", vec_kernels, vec };
const struct generator generator_bs = { "bs", bs_kernels, bs };
const struct generator generator_img = { "img", img_kernels, img };
const struct generator generator_ml = { "ml", ml_kernels, ml };
const struct generator generator_hits = { "hits", hits_kernels, hits };
const struct generator generator_dl = { "dl", dl_kernels, dl };
