// SPDX-License-Identifier: MIT
/*
 * IMG, ML and DL: pictures, samples, layers
 *
 * In the schedules by hand t[i] stands for what step i writes.
 */
#include "bench.h"
#include "six.h"

/* ------------------------------------------------------------------ */
/* IMG: sharpen what is in front, blur what is behind                  */

enum {
	IMG_BLUR3, IMG_SOBEL3, IMG_BLUR5, IMG_SOBEL5, IMG_MAX, IMG_MIN, IMG_EXTEND, IMG_BLUR_SHARP,
	IMG_SHARPEN, IMG_COMBINE, IMG_ALL,
};

/* The way to the end leads through BLUR5 and EXTEND: what is on it comes first. */
static void img_hand(struct flow *f)
{
	char *t __attribute__((unused)) = f->token;	/* the pragmas use it */

#pragma omp task depend(out : t[IMG_BLUR5])
	flow_call(f, IMG_BLUR5);
#pragma omp task depend(out : t[IMG_BLUR_SHARP])
	flow_call(f, IMG_BLUR_SHARP);
#pragma omp task depend(in : t[IMG_BLUR5]) depend(out : t[IMG_SOBEL5])
	flow_call(f, IMG_SOBEL5);
#pragma omp task depend(in : t[IMG_BLUR_SHARP]) depend(out : t[IMG_SHARPEN])
	flow_call(f, IMG_SHARPEN);
#pragma omp task depend(in : t[IMG_SOBEL5]) depend(out : t[IMG_MAX])
	flow_call(f, IMG_MAX);
#pragma omp task depend(in : t[IMG_SOBEL5]) depend(out : t[IMG_MIN])
	flow_call(f, IMG_MIN);
#pragma omp task depend(out : t[IMG_BLUR3])
	flow_call(f, IMG_BLUR3);
#pragma omp task depend(in : t[IMG_MAX], t[IMG_MIN]) depend(out : t[IMG_EXTEND])
	flow_call(f, IMG_EXTEND);
#pragma omp task depend(in : t[IMG_BLUR3]) depend(out : t[IMG_SOBEL3])
	flow_call(f, IMG_SOBEL3);
#pragma omp task depend(in : t[IMG_SHARPEN], t[IMG_BLUR5], t[IMG_EXTEND]) \
	depend(out : t[IMG_COMBINE])
	flow_call(f, IMG_COMBINE);
#pragma omp task depend(in : t[IMG_COMBINE], t[IMG_BLUR3], t[IMG_SOBEL3])
	flow_call(f, IMG_ALL);
}

static void blur(struct flow *f, struct arax_buffer *from, struct arax_buffer *to, uint32_t n,
		 uint32_t size, float sigma)
{
	struct { uint32_t width, height, size; float sigma; } args = { n, n, size, sigma };

	flow_step(f, "blur", (uint64_t)n * n, ARAX_ARGS(args),
		  ARAX_RANGES(arax_in(from), arax_out(to)));
}

static void sobel(struct flow *f, struct arax_buffer *from, struct arax_buffer *to, uint32_t n)
{
	struct { uint32_t width, height; } args = { n, n };

	flow_step(f, "sobel", (uint64_t)n * n, ARAX_ARGS(args),
		  ARAX_RANGES(arax_in(from), arax_out(to)));
}

void img_make(struct flow *f, uint32_t n)
{
	struct { float amount; uint32_t n; } unsharpen = { 0.5f, n * n };
	struct arax_buffer *b[8], *max, *min, *out, *image;
	uint32_t pixels = n * n;
	int i;

	f->hand = img_hand;
	image = six_floats(f, pixels, 0, 1);
	for (i = 0; i < 8; i++)
		b[i] = flow_buffer(f, (uint64_t)pixels * 4, 0);
	max = flow_buffer(f, 4, 0);
	min = flow_buffer(f, 4, 0);
	out = flow_buffer(f, (uint64_t)pixels * 4, 1);
	blur(f, image, b[0], n, 3, 1);
	sobel(f, b[0], b[1], n);
	blur(f, image, b[2], n, 5, 10);
	sobel(f, b[2], b[3], n);
	flow_step(f, "max_f32", pixels, ARAX_ARGS(pixels), ARAX_RANGES(arax_in(b[3]), arax_out(max)));
	flow_step(f, "min_f32", pixels, ARAX_ARGS(pixels), ARAX_RANGES(arax_in(b[3]), arax_out(min)));
	flow_step(f, "extend", pixels, ARAX_ARGS(pixels),
		  ARAX_RANGES(arax_in(min), arax_in(max), arax_inout(b[3])));
	blur(f, image, b[4], n, 3, 5);
	flow_step(f, "unsharpen", pixels, ARAX_ARGS(unsharpen),
		  ARAX_RANGES(arax_in(image), arax_in(b[4]), arax_out(b[5])));
	flow_step(f, "combine", pixels, ARAX_ARGS(pixels),
		  ARAX_RANGES(arax_in(b[5]), arax_in(b[2]), arax_in(b[3]), arax_out(b[6])));
	flow_step(f, "combine", pixels, ARAX_ARGS(pixels),
		  ARAX_RANGES(arax_in(b[6]), arax_in(b[0]), arax_in(b[1]), arax_out(out)));
}

/* ------------------------------------------------------------------ */
/* ML: naive Bayes beside ridge regression                             */

#define FEATURES	200
#define CLASSES		10

enum {
	ML_BAYES, ML_MAX, ML_LSE, ML_EXP, ML_SOFTMAX_BAYES, ML_ZSCORE, ML_RIDGE, ML_INTERCEPT,
	ML_SOFTMAX_RIDGE, ML_ARGMAX,
};

/* Two chains and their end; the longer one first. */
static void ml_hand(struct flow *f)
{
	char *t __attribute__((unused)) = f->token;	/* the pragmas use it */
	unsigned int i;

#pragma omp task depend(out : t[ML_SOFTMAX_RIDGE])
	for (i = ML_ZSCORE; i <= ML_SOFTMAX_RIDGE; i++)
		flow_call(f, i);
#pragma omp task depend(out : t[ML_SOFTMAX_BAYES])
	for (i = ML_BAYES; i <= ML_SOFTMAX_BAYES; i++)
		flow_call(f, i);
#pragma omp task depend(in : t[ML_SOFTMAX_RIDGE], t[ML_SOFTMAX_BAYES])
	flow_call(f, ML_ARGMAX);
}

void ml_make(struct flow *f, uint32_t n)
{
	struct { uint32_t rows, features, classes; } product = { n, FEATURES, CLASSES };
	struct { uint32_t rows, cols; } samples = { n, FEATURES }, scores = { n, CLASSES };
	uint64_t items = (uint64_t)n * FEATURES, results = (uint64_t)n * CLASSES, i;
	struct arax_buffer *x = flow_buffer(f, items * 4, 0), *z = flow_buffer(f, items * 4, 0);
	struct arax_buffer *bayes = flow_buffer(f, results * 4, 0);
	struct arax_buffer *ridge = flow_buffer(f, results * 4, 0);
	struct arax_buffer *max = flow_buffer(f, (uint64_t)n * 4, 0);
	struct arax_buffer *lse = flow_buffer(f, (uint64_t)n * 4, 0);
	struct arax_buffer *best = flow_buffer(f, (uint64_t)n * 4, 1);
	struct arax_buffer *w = six_floats(f, CLASSES * FEATURES, -0.1, 0.2);
	struct arax_buffer *c = six_floats(f, CLASSES * FEATURES, -0.1, 0.2);
	struct arax_buffer *intercept = six_floats(f, CLASSES, 0, 1);
	int32_t *digits = arax_buffer_data(x);

	f->hand = ml_hand;
	for (i = 0; i < items; i++)
		digits[i] = (int32_t)(six_random() * 10);
	flow_step(f, "matmul_i32", n, ARAX_ARGS(product),
		  ARAX_RANGES(arax_in(x), arax_in(w), arax_out(bayes)));
	flow_step(f, "row_max", n, ARAX_ARGS(scores), ARAX_RANGES(arax_in(bayes), arax_out(max)));
	flow_step(f, "log_sum_exp", n, ARAX_ARGS(scores),
		  ARAX_RANGES(arax_in(bayes), arax_in(max), arax_out(lse)));
	flow_step(f, "exp_rows", n, ARAX_ARGS(scores), ARAX_RANGES(arax_in(lse), arax_inout(bayes)));
	flow_step(f, "softmax", n, ARAX_ARGS(scores), ARAX_RANGES(arax_inout(bayes)));
	flow_step(f, "zscore", n, ARAX_ARGS(samples), ARAX_RANGES(arax_in(x), arax_out(z)));
	flow_step(f, "matmul_f32", n, ARAX_ARGS(product),
		  ARAX_RANGES(arax_in(z), arax_in(c), arax_out(ridge)));
	flow_step(f, "add_row", n, ARAX_ARGS(scores),
		  ARAX_RANGES(arax_in(intercept), arax_inout(ridge)));
	flow_step(f, "softmax", n, ARAX_ARGS(scores), ARAX_RANGES(arax_inout(ridge)));
	flow_step(f, "argmax_sum", n, ARAX_ARGS(scores),
		  ARAX_RANGES(arax_in(bayes), arax_in(ridge), arax_out(best)));
}

/* ------------------------------------------------------------------ */
/* DL: two pictures through the same layers, and what they have in common */

#define POOL	5

enum { DL_CONV1, DL_POOL, DL_CONV2, DL_BRANCH, DL_CONCAT = 2 * DL_BRANCH, DL_DENSE };

static void dl_hand(struct flow *f)
{
	char *t __attribute__((unused)) = f->token;	/* the pragmas use it */
	unsigned int b, i;

	for (b = 0; b < 2; b++) {
#pragma omp task firstprivate(b) depend(out : t[b])
		for (i = 0; i < DL_BRANCH; i++)
			flow_call(f, b * DL_BRANCH + i);
	}
#pragma omp task depend(in : t[0], t[1]) depend(out : t[2])
	flow_call(f, DL_CONCAT);
#pragma omp task depend(in : t[2])
	flow_call(f, DL_DENSE);
}

void dl_make(struct flow *f, uint32_t n)
{
	uint32_t half = (n + 1) / 2, pooled = half / POOL, last = (pooled + 1) / 2;
	struct { uint32_t width, height, channels, filters, size, stride; }
		first = { n, n, 1, 8, 3, 2 }, second = { pooled, pooled, 8, 16, 3, 2 };
	struct { uint32_t width, height, channels, size; } pool = { half, half, 8, POOL };
	uint32_t items = last * last * 16, both = 2 * items;
	struct { uint32_t n, m; } concat = { items, items };
	struct arax_buffer *image[2], *w1[2], *w2[2], *c1, *p, *c2[2], *joined, *dense, *dot;
	int b;

	f->hand = dl_hand;
	for (b = 0; b < 2; b++) {
		image[b] = six_floats(f, (uint64_t)n * n, 0, 1);
		w1[b] = six_floats(f, 8 * 9, -1, 2);
		w2[b] = six_floats(f, 16 * 8 * 9, -1, 2);
	}
	for (b = 0; b < 2; b++) {
		c1 = flow_buffer(f, (uint64_t)half * half * 8 * 4, 0);
		p = flow_buffer(f, (uint64_t)pooled * pooled * 8 * 4, 0);
		c2[b] = flow_buffer(f, (uint64_t)items * 4, 1);
		flow_step(f, "conv_relu", (uint64_t)half * half, ARAX_ARGS(first),
			  ARAX_RANGES(arax_in(image[b]), arax_in(w1[b]), arax_out(c1)));
		flow_step(f, "mean_pool", (uint64_t)half * half, ARAX_ARGS(pool),
			  ARAX_RANGES(arax_in(c1), arax_out(p)));
		flow_step(f, "conv_relu", (uint64_t)last * last, ARAX_ARGS(second),
			  ARAX_RANGES(arax_in(p), arax_in(w2[b]), arax_out(c2[b])));
	}
	joined = flow_buffer(f, (uint64_t)both * 4, 0);
	dense = six_floats(f, both, -1, 2);
	dot = flow_buffer(f, sizeof(double), 1);
	flow_step(f, "concat", both, ARAX_ARGS(concat),
		  ARAX_RANGES(arax_in(c2[0]), arax_in(c2[1]), arax_out(joined)));
	flow_step(f, "dot_f32", both, ARAX_ARGS(both),
		  ARAX_RANGES(arax_in(joined), arax_in(dense), arax_out(dot)));
}
