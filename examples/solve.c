// SPDX-License-Identifier: MIT
/*
 * Solve A x = b for a symmetric, positive definite A, by Cholesky's factorisation in tiles: A = L L^T,
 * then L y = b, then L^T x = y.  Each task has a tile or two, and all are submitted at once.  Nothing
 * here says what runs before what, or where: Arax infers it from the tiles, and runs side by side
 * what may be, on as many devices as there are.
 */
#include <arax/arax.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "report.h"

#define MAX_ORDER	32768u
#define MAX_TILES	128u	/* in a row */
#define MAX_TILE	10304u	/* on a side: a product of larger ones is more than a launch may be */

#define SAID		1	/* in place of an error whose text is Arax's */

/* Of arax-blas, whose matrices stand column by column; docs/kernels-reference.md. */
#define RIGHT		2u
#define TRANS_A		4u
#define TRANS_B		8u

enum which { POTRF, TRSM, SYRK, GEMM, GEMV, NR_KERNELS };

struct potrf { uint32_t n, flags; };
struct trsm { double alpha; uint32_t m, n, flags, pad; };
struct syrk { double alpha, beta; uint32_t n, k, flags, pad; };
struct gemm { double alpha, beta; uint32_t m, n, k, flags; };
struct gemv { double alpha, beta; uint32_t m, n, flags, pad; };

struct system {
	struct arax *ax;
	struct arax_queue *queue;
	struct arax_kernel kernels[NR_KERNELS];
	struct arax_buffer *a, *x;	/* the tiles of A's lower triangle, then L's; b, then x */
	uint32_t order, tile, tiles;
	struct arax_event *events;
	uint32_t nr, max;	/* events in use; that there are */
	int error;		/* the first one */
};

/* Rows of the tiles in row @i, and columns of those in column @i: of the last ones maybe fewer. */
static uint32_t rows(const struct system *s, uint32_t i)
{
	uint32_t left = s->order - i * s->tile;

	return left < s->tile ? left : s->tile;
}

static uint64_t tile_bytes(const struct system *s)
{
	return (uint64_t)s->tile * s->tile * sizeof(double);
}

/* Where in the buffer tile (@i, @j) of the triangle is. */
static uint64_t tile_at(const struct system *s, uint32_t i, uint32_t j)
{
	return ((uint64_t)i * (i + 1) / 2 + j) * tile_bytes(s);
}

static struct arax_range tile(const struct system *s, uint32_t access, uint32_t i, uint32_t j)
{
	return arax_part(s->a, access, tile_at(s, i, j),
			 (uint64_t)rows(s, i) * rows(s, j) * sizeof(double));
}

static struct arax_range part_of_x(const struct system *s, uint32_t access, uint32_t i)
{
	return arax_part(s->x, access, (uint64_t)i * s->tile * sizeof(double),
			 rows(s, i) * sizeof(double));
}

/* After an error nothing more is launched. */
static void launch(struct system *s, enum which kernel, const void *args, size_t arg_len,
		   const struct arax_range *ranges, size_t nr_ranges)
{
	/* Groups of 64 for 32 x 32 numbers each: what suits OpenCL devices; cores don't mind. */
	uint32_t side = (s->tile + 31) / 32;
	struct arax_grid grid = { { side, side, 1 }, { 64, 1, 1 } };

	if (!s->error)
		s->error = arax_launch(s->queue, &s->kernels[kernel], grid, args, arg_len, ranges,
				       nr_ranges, &s->events[s->nr]);
	if (!s->error)
		s->nr++;
}

static void factorise(struct system *s)
{
	for (uint32_t k = 0; k < s->tiles; k++) {
		struct potrf potrf = { rows(s, k), 0 };

		launch(s, POTRF, ARAX_ARGS(potrf), ARAX_RANGES(tile(s, ARAX_INOUT, k, k)));
		for (uint32_t i = k + 1; i < s->tiles; i++) {
			struct trsm trsm = { 1, rows(s, i), rows(s, k), RIGHT | TRANS_A, 0 };

			launch(s, TRSM, ARAX_ARGS(trsm),
			       ARAX_RANGES(tile(s, ARAX_IN, k, k), tile(s, ARAX_INOUT, i, k)));
		}
		for (uint32_t j = k + 1; j < s->tiles; j++) {
			struct syrk syrk = { -1, 1, rows(s, j), rows(s, k), 0, 0 };

			launch(s, SYRK, ARAX_ARGS(syrk),
			       ARAX_RANGES(tile(s, ARAX_IN, j, k), tile(s, ARAX_INOUT, j, j)));
			for (uint32_t i = j + 1; i < s->tiles; i++) {
				struct gemm gemm = { -1, 1, rows(s, i), rows(s, j), rows(s, k), TRANS_B };

				launch(s, GEMM, ARAX_ARGS(gemm),
				       ARAX_RANGES(tile(s, ARAX_IN, i, k), tile(s, ARAX_IN, j, k),
						   tile(s, ARAX_INOUT, i, j)));
			}
		}
	}
}

/* x's part @i less what tile (@row, @column) and x's part @k make of it. */
static void subtract(struct system *s, uint32_t row, uint32_t column, uint32_t flags, uint32_t k,
		     uint32_t i)
{
	struct gemv gemv = { -1, 1, rows(s, row), rows(s, column), flags, 0 };

	launch(s, GEMV, ARAX_ARGS(gemv),
	       ARAX_RANGES(tile(s, ARAX_IN, row, column), part_of_x(s, ARAX_IN, k),
			   part_of_x(s, ARAX_INOUT, i)));
}

static void substitute(struct system *s, uint32_t k, uint32_t flags)
{
	struct trsm trsm = { 1, rows(s, k), 1, flags, 0 };

	launch(s, TRSM, ARAX_ARGS(trsm),
	       ARAX_RANGES(tile(s, ARAX_IN, k, k), part_of_x(s, ARAX_INOUT, k)));
}

static void solve(struct system *s)
{
	for (uint32_t k = 0; k < s->tiles; k++) {
		substitute(s, k, 0);
		for (uint32_t i = k + 1; i < s->tiles; i++)
			subtract(s, i, k, 0, k, i);
	}
	for (uint32_t k = s->tiles; k--; ) {
		substitute(s, k, TRANS_A);
		for (uint32_t i = 0; i < k; i++)
			subtract(s, k, i, TRANS_A, k, i);
	}
}

/* ------------------------------------------------------------------ */
/* The matrix                                                            */

/* Less the further from the diagonal, as of points on a line that know less and less of each other. */
static double item(uint32_t i, uint32_t j)
{
	uint32_t apart = i > j ? i - j : j - i;

	return apart ? 1 / (1 + (double)apart * apart) : 4;
}

static double solution(uint32_t i)
{
	return 1 + (double)(i % 10) / 10;
}

static void fill(const struct system *s)
{
	double *x = arax_buffer_data(s->x);

	for (uint32_t i = 0; i < s->tiles; i++)
		for (uint32_t j = 0; j <= i; j++) {
			double *a = (double *)((char *)arax_buffer_data(s->a) + tile_at(s, i, j));

			for (uint32_t c = 0; c < rows(s, j); c++)
				for (uint32_t r = 0; r < rows(s, i); r++)
					*a++ = item(i * s->tile + r, j * s->tile + c);
		}
	for (uint32_t i = 0; i < s->order; i++) {
		x[i] = 0;
		for (uint32_t j = 0; j < s->order; j++)
			x[i] += item(i, j) * solution(j);
	}
}

static double largest_error(const struct system *s)
{
	const double *x = arax_buffer_data(s->x);
	double most = 0;

	for (uint32_t i = 0; i < s->order; i++) {
		double error = fabs(x[i] - solution(i));

		/* Compared with the others it would be forgotten. */
		if (isnan(error))
			return error;
		if (error > most)
			most = error;
	}
	return most;
}

/* ------------------------------------------------------------------ */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int find_kernels(struct system *s)
{
	static const char *const names[NR_KERNELS] = {
		[POTRF] = "potrf_f64", [TRSM] = "trsm_f64", [SYRK] = "syrk_f64", [GEMM] = "gemm_f64",
		[GEMV] = "gemv_f64",
	};

	for (int i = 0; i < NR_KERNELS && !s->error; i++)
		s->error = arax_kernel_find(s->ax, names[i], arax_deadline(2000000000), &s->kernels[i]);
	return s->error;
}

static int create(struct system *s)
{
	uint32_t n = s->tiles;

	/* Of the factorisation, and of both substitutions. */
	s->max = n + n * (n - 1) + n * (n - 1) * (n - 2) / 6 + 2 * (n + n * (n - 1) / 2);
	s->events = calloc(s->max, sizeof(*s->events));
	if (!s->events) {
		fprintf(stderr, "solve: no memory for %u events\n", s->max);
		return SAID;
	}
	if (!find_kernels(s))
		s->error = arax_buffer_create(s->ax, n * (n + 1ull) / 2 * tile_bytes(s), 0, &s->a);
	if (!s->error)
		s->error = arax_buffer_create(s->ax, s->order * sizeof(double), 0, &s->x);
	if (!s->error)
		s->error = arax_queue_create(s->ax, ARAX_QUEUE_DATAFLOW, 0, &s->queue);
	return s->error;
}

static int run(struct system *s)
{
	uint32_t on[256] = { 0 };
	struct arax_device device;
	double start, took, error;
	int err = create(s);

	if (err)
		return err;
	fill(s);
	start = now();
	factorise(s);
	solve(s);
	for (uint32_t i = 0; i < s->nr; i++) {
		err = arax_wait(&s->events[i], ARAX_DEADLINE_NONE);
		if (err)
			return err;
		report_add(&s->events[i]);
		if (s->events[i].device < 256)
			on[s->events[i].device]++;
	}
	if (s->error)
		return s->error;
	took = now() - start;
	error = largest_error(s);
	printf("%u unknowns, %u tasks, %.0f ms, %.1f GF/s, largest error %.1e\n", s->order, s->nr,
	       took * 1e3, pow(s->order, 3) / 3 / took / 1e9, error);
	for (uint32_t i = 0; i < 256; i++)
		if (on[i] && !arax_get_device(s->ax, i, &device))
			printf("%6u on %s\n", on[i], device.name);
	if (error < 1e-9)
		return 0;
	fprintf(stderr, "solve: that is more than rounding\n");
	return SAID;
}

static bool number(const char *text, uint32_t most, uint32_t *value)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 0);
	*value = (uint32_t)n;
	return !errno && end != text && !*end && *text != '-' && n && n <= most;
}

static int usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: solve [--order N] [--tile N] [--report FILE]\n"
		"Solve N linear equations (2048; at most %u) by Cholesky's factorisation, in tiles of\n"
		"N x N numbers (256; at most %u, and at most %u of them in a row of the matrix).\n",
		MAX_ORDER, MAX_TILE, MAX_TILES);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "order", required_argument, NULL, 'o' },
		{ "tile", required_argument, NULL, 't' },
		{ "report", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 }
	};
	struct system s = { .order = 2048, .tile = 256 };
	const char *report = NULL;
	int c, err;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'o':
		case 't':
			if (!number(optarg, MAX_ORDER, c == 'o' ? &s.order : &s.tile)) {
				fprintf(stderr, "solve: --%s takes a number from 1 to %u, not '%s'\n",
					c == 'o' ? "order" : "tile", MAX_ORDER, optarg);
				return usage(2);
			}
			break;
		case 'r':
			report = optarg;
			break;
		case 'V':
			return printf("solve %s\n", ARAX_VERSION) < 0;
		default:
			return usage(c == 'h' ? 0 : 2);
		}
	}
	/* It would be memory for nothing. */
	if (s.tile > s.order)
		s.tile = s.order;
	if (s.tile > MAX_TILE) {
		fprintf(stderr, "solve: tiles of %u are more than %u, which is the most that a launch may multiply: take smaller ones\n",
			s.tile, MAX_TILE);
		return usage(2);
	}
	s.tiles = (s.order + s.tile - 1) / s.tile;
	if (s.tiles > MAX_TILES) {
		fprintf(stderr, "solve: %u tiles in a row are more than %u: take larger ones\n", s.tiles,
			MAX_TILES);
		return usage(2);
	}
	err = arax_open(&s.ax, NULL);
	if (!err) {
		err = run(&s);
		arax_close(s.ax);
	}
	if (!err)
		err = report_write(report, "solve");
	else if (err != SAID)
		fprintf(stderr, "solve: %s\n", arax_error_text());
	free(s.events);
	return err ? 1 : 0;
}
