// SPDX-License-Identifier: MIT
/* far.h: windows, images, what is in order, and what is computed in place. */
#include "selftests/unit/far_map.h"

#include <math.h>

#define WIDTH	(1u << 15)	/* a piece is eight rows of it */

static void pool(const struct far_case *c)
{
	/* A plane is two windows, one above the other; the tail is in the second. */
	struct stretch x = stretch_of('f', ROWS, WIDTH / 4 - 1, true);
	struct {
		uint32_t planes, height, width, size, stride, pad;
	} args = { ROWS, 2 * WIDTH, WIDTH, WIDTH, WIDTH, 0 };
	bool most = !strcmp(c->name, "max_pool_f32");
	float y[ROWS * 2] = { 0 };
	struct arax_launch_range r[] = { x.range, far_flat(y, sizeof(y)) };
	double head = 0;

	for (uint32_t i = 0; i < ITEMS; i++)
		head += (double)((float *)x.once)[i];
	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < ROWS * 2; i++) {
		double sum = head * (WIDTH / 8);

		for (uint32_t k = 0; i % 2 && k < ITEMS; k++)
			sum += (double)((float *)stretch_tail(&x, i / 2))[k] -
			       (double)((float *)x.once)[k];
		far_near(c->name, i, (double)y[i], most ? i % 2 ? 5 : 2 : sum / WIDTH / WIDTH,
			 0.000000001);
	}
	stretch_end(&x);
}

static void mean_pool(const struct far_case *c)
{
	struct stretch x = stretch_of('f', ROWS, WIDTH / 4 - 1, true);
	struct { uint32_t width, height, channels, size; } args = { WIDTH, 2 * WIDTH, ROWS, WIDTH };
	float y[ROWS * 2] = { 0 };
	struct arax_launch_range r[] = { x.range, far_flat(y, sizeof(y)) };
	double sum[1 + ROWS] = { 0 };

	for (uint32_t i = 0; i < (1 + ROWS) * ITEMS; i++)
		sum[i / ITEMS] += (double)((float *)x.once)[i];
	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < ROWS * 2; i++)
		far_near(c->name, i, (double)y[i],
			 (sum[0] * (WIDTH / 8) + (i % 2) * (sum[1 + i / 2] - sum[0])) /
			 WIDTH / WIDTH, 0.000000001);
	stretch_end(&x);
}

/* Whatever reads neighbours gets other ones at a piece's ends: so that these do not count. */
static void unchanged(const struct far_case *c, const void *args, uint32_t arg_len)
{
	struct stretch x = stretch_of('f', 1, 2 * PIECES - 1, false);
	struct stretch y = stretch_make(x.piece, 1, 2 * PIECES - 1);
	struct arax_launch_range r[] = { x.range, y.range };

	launch(c->name, r, 2, args, arg_len);
	ck_assert_msg(!memcmp(x.once, y.once, 2 * x.piece), "%s", c->name);
	stretch_end(&x);
	stretch_end(&y);
}

static void stencil5(const struct far_case *c)
{
	struct {
		uint32_t width, height;
		float center, side;
	} args = { WIDTH, 8 * 2 * PIECES, 1, 0 };

	unchanged(c, &args, sizeof(args));
}

static void stencil7(const struct far_case *c)
{
	struct {
		uint32_t width, height, depth;
		float center, side;
	} args = { 1024, 1024, PIECES / 2, 1, 0 };

	unchanged(c, &args, sizeof(args));
}

static void blur(const struct far_case *c)
{
	struct {
		uint32_t width, height, size;
		float sigma;
	} args = { WIDTH, 8 * 2 * PIECES, 1, 1 };

	unchanged(c, &args, sizeof(args));
}

/* A piece adds up to nothing, so that each begins as the first one does. */
static void scan(const struct far_case *c)
{
	char type = *(const char *)c->what;
	struct stretch x = stretch_of(type, 1, PIECES - 1, false);
	struct stretch y = stretch_make(x.piece, 1, PIECES - 1);
	struct { uint32_t n, exclusive; } args = { PIECES << LOG_ITEMS, 0 };
	struct arax_launch_range r[] = { x.range, y.range };
	uint32_t *words = (uint32_t *)x.once;
	double sum = 0;

	for (uint32_t i = 0; i < ITEMS; i += 2)
		if (type == 'i')
			words[i + 1] = -words[i];
		else
			((float *)words)[i + 1] = -((float *)words)[i];
	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < 2 * ITEMS; i++) {
		double got = type == 'i' ? ((int32_t *)y.once)[i] : (double)((float *)y.once)[i];

		sum += type == 'i' ? ((int32_t *)words)[i] : (double)((float *)words)[i];
		far_near(c->name, i, got, sum, 0);
	}
	stretch_end(&x);
	stretch_end(&y);
}

/* Two long rows become as many short ones. */
static void transpose(const struct far_case *c)
{
	struct stretch x = stretch_of('f', 2, PIECES - 1, false);
	struct stretch y = stretch_make(2 * x.piece, 1, PIECES - 1);
	struct { uint32_t rows, cols; } args = { 2, PIECES << LOG_ITEMS };
	struct arax_launch_range r[] = { x.range, y.range };
	const uint32_t *from = (uint32_t *)x.once, *to = (uint32_t *)y.once;

	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < 2 * ITEMS; i++) {
		ck_assert_uint_eq(to[i], from[i / 2]);
		ck_assert_uint_eq(to[2 * ITEMS + i], from[(1 + i % 2) * ITEMS + i / 2]);
	}
	stretch_end(&x);
	stretch_end(&y);
}

static void concat(const struct far_case *c)
{
	struct stretch a = stretch_of('f', 1, PIECES - 1, false),
		       b = stretch_of('f', 1, PIECES - 1, false);
	struct stretch both = stretch_make(a.piece, 2, PIECES - 1);
	struct { uint32_t n, m; } args = { PIECES << LOG_ITEMS, PIECES << LOG_ITEMS };
	struct arax_launch_range r[] = { a.range, b.range, both.range };

	memcpy(b.once, a.once, a.piece);
	launch(c->name, r, 3, &args, sizeof(args));
	ck_assert_int_eq(memcmp(both.once, a.once, 2 * a.piece), 0);
	ck_assert_int_eq(memcmp(stretch_tail(&both, 1), stretch_tail(&b, 0), b.piece), 0);
	stretch_end(&a);
	stretch_end(&b);
	stretch_end(&both);
}

static void zscore(const struct far_case *c)
{
	struct stretch x = stretch_of('i', 1, PIECES - 1, false);
	struct stretch z = stretch_make(x.piece, 1, PIECES - 1);
	struct { uint32_t rows, cols; } args = { PIECES << (LOG_ITEMS - 2), 4 };
	struct arax_launch_range r[] = { x.range, z.range };
	const int32_t *from = (int32_t *)x.once;

	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t col = 0; col < 4; col++) {
		double sum = 0, squares = 0, mean, deviation;

		for (uint32_t i = col; i < 2 * ITEMS; i += 4) {
			double times = i < ITEMS ? PIECES - 1 : 1;

			sum += times * from[i];
			squares += times * from[i] * from[i];
		}
		mean = sum / args.rows;
		deviation = sqrt(squares / args.rows - mean * mean);
		for (uint32_t i = col; i < 2 * ITEMS; i += 4)
			far_near(c->name, i, (double)((float *)z.once)[i],
				 (from[i] - mean) / deviation, 0.00001);
	}
	stretch_end(&x);
	stretch_end(&z);
}

/* ------------------------------------------------------------------ */
/* In place: what is repeated is left as it is by what is done to it    */

static void saxpy(const struct far_case *c)
{
	struct stretch x = stretch_of('f', 1, PIECES - 1, false),
		       y = stretch_of('f', 1, PIECES - 1, false);
	struct { float a; uint32_t n; } args = { 3, PIECES << LOG_ITEMS };
	struct arax_launch_range r[] = { x.range, y.range };
	float *was = malloc(2 * y.piece);

	memset(x.once, 0, x.piece);
	memcpy(was, y.once, 2 * y.piece);
	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < 2 * ITEMS; i++)
		far_near(c->name, i, (double)((float *)y.once)[i],
			 (double)(was[i] + 3 * ((float *)x.once)[i]), 0);
	free(was);
	stretch_end(&x);
	stretch_end(&y);
}

/* The rows' first columns get nothing added, their last ones what is in the row. */
static void add_row(const struct far_case *c)
{
	struct stretch row = stretch_of('f', 1, ROW_PIECES - 1, false);
	struct stretch x = stretch_of('f', ROWS, ROW_PIECES - 1, false);
	struct { uint32_t rows, cols; } args = { ROWS, ROW_PIECES << LOG_ITEMS };
	struct arax_launch_range r[] = { row.range, x.range };
	float *was = malloc((1 + ROWS) * x.piece), *added = stretch_tail(&row, 0);

	memset(row.once, 0, row.piece);
	memcpy(was, x.once, (1 + ROWS) * x.piece);
	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < (1 + ROWS) * ITEMS; i++)
		far_near(c->name, i, (double)((float *)x.once)[i],
			 (double)was[i] + (i < ITEMS ? 0 : (double)added[i % ITEMS]), 0);
	free(was);
	stretch_end(&row);
	stretch_end(&x);
}

#define SHORT_ROW	64u	/* several are done at once, of which none is another one's alias */

/* exp(1 - 1) = 1 */
static void exp_rows(const struct far_case *c)
{
	struct stretch less = stretch_make(ITEMS / SHORT_ROW * sizeof(float), 1, PIECES - 1);
	struct stretch x = stretch_of('f', 1, PIECES - 1, false);
	struct { uint32_t rows, cols; } args = { PIECES * (ITEMS / SHORT_ROW), SHORT_ROW };
	float *was = malloc(2 * x.piece), *by = (float *)less.once;
	struct arax_launch_range r[] = { less.range, x.range };

	for (uint32_t i = 0; i < ITEMS; i++)
		((float *)x.once)[i] = 1;
	for (uint32_t i = 0; i < 2 * ITEMS / SHORT_ROW; i++)
		by[i] = i < ITEMS / SHORT_ROW ? 1 : (float)(i % 5);
	memcpy(was, x.once, 2 * x.piece);
	launch(c->name, r, 2, &args, sizeof(args));
	for (uint32_t i = 0; i < 2 * ITEMS; i++) {
		double wanted = exp((double)(was[i] - by[i / SHORT_ROW]));

		far_near(c->name, i, (double)((float *)x.once)[i], wanted, wanted * 0.00001);
	}
	free(was);
	stretch_end(&less);
	stretch_end(&x);
}

/* Of equals each is the same share. */
static void softmax(const struct far_case *c)
{
	struct stretch x = stretch_of('f', 1, PIECES - 1, false);
	struct { uint32_t rows, cols; } args = { PIECES * (ITEMS / SHORT_ROW), SHORT_ROW };
	struct arax_launch_range r[] = { x.range };
	float *was = malloc(2 * x.piece);

	for (uint32_t i = 0; i < ITEMS; i++)
		((float *)x.once)[i] = 1.f / SHORT_ROW;
	memcpy(was, x.once, 2 * x.piece);
	launch(c->name, r, 1, &args, sizeof(args));
	for (uint32_t i = 0; i < 2 * ITEMS; i++) {
		double sum = 0;

		for (uint32_t k = 0; k < SHORT_ROW; k++)
			sum += exp((double)was[i / SHORT_ROW * SHORT_ROW + k]);
		far_near(c->name, i, (double)((float *)x.once)[i], exp((double)was[i]) / sum,
			 0.00001);
	}
	free(was);
	stretch_end(&x);
}

/* ------------------------------------------------------------------ */

const struct far_case far_grids[] = {
	{ "max_pool_f32", pool, NULL },
	{ "avg_pool_f32", pool, NULL },
	{ "mean_pool", mean_pool, NULL },
	{ "stencil5_f32", stencil5, NULL },
	{ "stencil7_f32", stencil7, NULL },
	{ "blur", blur, NULL },
	{ "scan_u32", scan, "i" },
	{ "scan_f32", scan, "f" },
	{ "transpose_f32", transpose, NULL },
	{ "concat", concat, NULL },
	{ "zscore", zscore, NULL },
	{ "saxpy", saxpy, NULL },
	{ "add_row", add_row, NULL },
	{ "exp_rows", exp_rows, NULL },
	{ "softmax", softmax, NULL },
	{ 0 }
};
