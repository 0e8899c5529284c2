// SPDX-License-Identifier: MIT
/*
 * far.h: kernels that make an item of each, or some numbers of all.  What the piece and the tail
 * alone give, is by the same kernel at that size, which the cases of std_case.h have shown to be
 * right.
 */
#include "selftests/unit/far_map.h"

#include <math.h>

/* ------------------------------------------------------------------ */
/* Item by item: each of the ranges has as many                         */

/**
 * struct each - a kernel
 * @in, @out:	types of ranges; in capitals, those of one item
 * @plain:	arguments before n
 */
struct each {
	const char *in, *out;
	uint32_t nr_plain, plain[8];
};

static void each_run(const struct far_case *c)
{
	const struct each *e = c->what;
	struct stretch s[FAR_RANGES] = { 0 };
	struct arax_launch_range r[FAR_RANGES];
	uint32_t args[10] = { 0 }, nr = (uint32_t)(strlen(e->in) + 1), at = e->nr_plain;
	/* As a struct with doubles is. */
	uint32_t arg_len = 4 * (at + 1 + (at == 8));
	double one = 3;
	char *wanted;

	memcpy(args, e->plain, sizeof(e->plain));
	for (uint32_t i = 0; i < nr; i++) {
		char type = i + 1 < nr ? e->in[i] : e->out[0];

		if (type == 'D') {
			r[i] = far_flat(&one, sizeof(one));
			continue;
		}
		s[i] = stretch_of(type, 1, PIECES - 1, false);
		r[i] = s[i].range;
	}
	memset(s[nr - 1].once, 0xa5, 2 * s[nr - 1].piece);
	args[at] = PIECES << LOG_ITEMS;
	launch(c->name, r, nr, args, arg_len);
	wanted = malloc(s[nr - 1].piece);
	ck_assert_ptr_nonnull(wanted);
	args[at] = ITEMS;
	for (uint32_t tail = 0; tail < 2; tail++) {
		for (uint32_t i = 0; i + 1 < nr; i++)
			if (s[i].once)
				r[i] = stretch_part(&s[i], tail);
		r[nr - 1] = far_flat(wanted, s[nr - 1].piece);
		launch(c->name, r, nr, args, arg_len);
		ck_assert_msg(!memcmp(wanted, stretch_part(&s[nr - 1], tail).data, s[nr - 1].piece),
			      "%s: the %s is wrong", c->name, tail ? "tail" : "piece");
	}
	free(wanted);
	for (uint32_t i = 0; i < nr; i++)
		if (s[i].once)
			stretch_end(&s[i]);
}

/* ------------------------------------------------------------------ */
/* Into some numbers                                                    */

/**
 * struct reduction - a kernel
 * @in:		types of ranges
 * @out:	type of the results, @nr_out of them
 * @op:		of the piece's and the tail's: +, < or >
 * @pieces:	of the range
 * @parts:	result i is of the i-th of so many parts; 0: all are of all
 * @bins:	arguments are low, high, n, bins: a histogram
 */
struct reduction {
	const char *in;
	char out, op;
	uint32_t nr_out, pieces, parts;
	bool bins;
};

static double result_at(const void *results, char type, uint32_t i)
{
	return type == 'd' ? ((const double *)results)[i] :
	       type == 'f' ? (double)((const float *)results)[i] : ((const uint32_t *)results)[i];
}

static void reduce(const struct far_case *c, struct arax_launch_range *r, double *results,
		   uint32_t n, uint32_t parts)
{
	const struct reduction *d = c->what;
	struct { float low, high; uint32_t n, bins; } histogram = { -5.5f, 5.5f, n, d->nr_out };
	uint32_t args[] = { n, parts }, nr = (uint32_t)strlen(d->in);

	memset(results, 0, 256 * sizeof(*results));
	r[nr] = far_flat(results, (uint64_t)(parts ? parts : d->nr_out) * far_size_of(d->out));
	launch(c->name, r, nr + 1, d->bins ? (void *)&histogram : args,
	       d->bins ? sizeof(histogram) : d->parts ? 8 : 4);
}

static void reduction_run(const struct far_case *c)
{
	const struct reduction *d = c->what;
	static double got[256], of_piece[256], of_tail[256];
	struct stretch s[FAR_RANGES];
	struct arax_launch_range r[FAR_RANGES];
	uint32_t nr = (uint32_t)strlen(d->in), parts = d->parts ? d->parts : 1;

	for (uint32_t i = 0; i < nr; i++) {
		s[i] = stretch_of(d->in[i], 1, d->pieces - 1, false);
		/* The tail has what is greatest and what is least. */
		if (d->in[i] == 'f' && strchr("<>", d->op)) {
			((float *)stretch_tail(&s[i], 0))[ITEMS - 1] = 100;
			((float *)stretch_tail(&s[i], 0))[ITEMS - 2] = -100;
		}
		r[i] = s[i].range;
	}
	reduce(c, r, got, d->pieces << LOG_ITEMS, d->parts);
	for (uint32_t i = 0; i < nr; i++)
		r[i] = stretch_part(&s[i], 0);
	reduce(c, r, of_piece, ITEMS, d->parts ? 1 : 0);
	for (uint32_t i = 0; i < nr; i++)
		r[i] = stretch_part(&s[i], 1);
	reduce(c, r, of_tail, ITEMS, d->parts ? 1 : 0);
	for (uint32_t i = 0; i < d->nr_out; i++) {
		double pieces = d->pieces / parts, k = d->parts ? 0 : i;
		double one = result_at(of_piece, d->out, (uint32_t)k), wanted = one * pieces;
		double tail = result_at(of_tail, d->out, (uint32_t)k);
		bool last = !d->parts || i + 1 == d->parts;

		if (d->op == '+')
			wanted = last ? one * (pieces - 1) + tail : wanted;
		else
			wanted = !last || (d->op == '<' ? one < tail : one > tail) ? one : tail;
		if (d->out == 'i')
			wanted = fmod(wanted, 4294967296.0);
		far_near(c->name, i, result_at(got, d->out, i), wanted, 0);
	}
	for (uint32_t i = 0; i < nr; i++)
		stretch_end(&s[i]);
}

/* ------------------------------------------------------------------ */

#define EACH(name, ...)		{ name, each_run, &(const struct each){ __VA_ARGS__ } }
#define REDUCTION(name, ...) \
	{ name, reduction_run, &(const struct reduction){ __VA_ARGS__ } }

const struct far_case far_items[] = {
	REDUCTION("sum_f32", "f", 'd', '+', 1, PIECES, 0, false),
	REDUCTION("max_f32", "f", 'f', '>', 1, PIECES, 0, false),
	REDUCTION("min_f32", "f", 'f', '<', 1, PIECES, 0, false),
	REDUCTION("sum_diff", "ff", 'd', '+', 1, PIECES, 0, false),
	REDUCTION("dot_f32", "ff", 'd', '+', 1, PIECES, 0, false),
	REDUCTION("sum_f64", "d", 'd', '+', 1, PIECES, 0, false),
	REDUCTION("sum_parts_f32", "f", 'd', '+', 4, PIECES, 4, false),
	REDUCTION("sum_parts_u32", "i", 'i', '+', 4, PIECES, 4, false),
	REDUCTION("dot_parts_f32", "ff", 'd', '+', 4, PIECES, 4, false),
	REDUCTION("max_parts_f32", "f", 'f', '>', 4, PIECES, 4, false),
	REDUCTION("min_parts_f32", "f", 'f', '<', 4, PIECES, 4, false),
	REDUCTION("histogram_u8", "b", 'i', '+', 256, 16383, 0, false),
	REDUCTION("histogram_f32", "f", 'i', '+', 16, PIECES, 0, true),
	EACH("vadd", "ff", "f", 0, { 0 }),
	EACH("triad", "ff", "f", 1, { 0x40400000 }),
	EACH("square", "f", "f", 0, { 0 }),
	EACH("divide", "fD", "f", 0, { 0 }),
	EACH("rgb_to_gray", "p", "f", 0, { 0 }),
	EACH("gray_to_u8", "f", "b", 0, { 0 }),
	EACH("unsharpen", "ff", "f", 1, { 0x3f000000 }),
	EACH("combine", "fff", "f", 0, { 0 }),
	/* 0.05, 0.5, 2, 3 */
	EACH("black_scholes", "d", "d", 8, { 0x9999999a, 0x3fa99999, 0, 0x3fe00000, 0,
	     0x40000000, 0, 0x40080000 }),
	{ 0 }
};
