// SPDX-License-Identifier: MIT
/*
 * The numeric kernels of arax-std, each against its formula in double precision on
 * random shapes: none, one, odd and large ones, whole and in spans.  Tolerances are
 * relative to the sum of what was added up, and stand beside each check.
 */
#include <math.h>

#include "selftests/unit/be_std.h"

#define ROUNDS 40

static uint64_t state = 88172645463325252u;

static uint32_t any(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 16) % below);
}

static double uniform(double low, double high)
{
	return low + (high - low) * (any(1u << 30) / 1073741824.0);
}

/* Sizes that matter: nothing, one, around the widths of vectors and tiles, some. */
static uint32_t some(uint32_t most)
{
	static const uint32_t edges[] = { 0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 511, 512, 513 };
	uint32_t n = any(2) ? edges[any(15)] : any(most + 1);

	return n < most ? n : most;
}

static uint32_t one_or_more(uint32_t most)
{
	uint32_t n = some(most);

	return n ? n : 1;
}

static const uint32_t spans_of[] = { 1, 2, 3, 8, 64 };

static uint32_t spans(void)
{
	return spans_of[any(5)];
}

static struct arax_launch_range floats(uint64_t n, double low, double high)
{
	struct arax_launch_range r = fenced(4 * n);

	for (uint64_t i = 0; i < n; i++)
		((float *)r.data)[i] = (float)uniform(low, high);
	return r;
}

/* Full of what no result is, so that a hole shows. */
static struct arax_launch_range holes(uint64_t bytes)
{
	struct arax_launch_range r = fenced(bytes);

	memset(r.data, 0xff, bytes);
	return r;
}

static void drop(const struct arax_launch_range *r, uint32_t n)
{
	while (n)
		unfence(&r[--n]);
}

#define F(r, i) ((double)((const float *)(r).data)[i])

static void near(double got, double wanted, double tolerance)
{
	ck_assert_msg(fabs(got - wanted) <= tolerance, "%.17g, not %.17g to %.2g", got, wanted,
		      tolerance);
}

START_TEST(sums)
{
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t n = some(round ? 3000 : 300001);
		struct arax_launch_range r[3] = { floats(n, -1, 1), floats(n, -1, 1), fenced(8) };
		double diff = 3, dot = 0, got;

		*(double *)r[2].data = 3;
		for (uint32_t i = 0; i < n; i++) {
			diff += F(r[0], i) - F(r[1], i);
			dot += F(r[0], i) * F(r[1], i);
		}
		ck_assert_int_eq(call("sum_diff", r, 3, &n, 4, 1), 0);
		memcpy(&got, r[2].data, 8);
		near(got, diff, 2e-7 * n + 1e-12);	/* each difference is an f32 */
		ck_assert_int_eq(call("dot_f32", r, 3, &n, 4, 1), 0);
		memcpy(&got, r[2].data, 8);
		near(got, dot, 1e-13 * n);
		drop(r, 3);
	}
}
END_TEST

START_TEST(quotients)
{
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t n = some(3000);
		struct arax_launch_range r[3] = { floats(n, -5, 5), fenced(8), holes(4 * (uint64_t)n) };
		double by = uniform(0.5, 1e6);

		memcpy(r[1].data, &by, 8);
		ck_assert_int_eq(call("divide", r, 3, &n, 4, spans()), 0);
		for (uint32_t i = 0; i < n; i++)
			near(F(r[2], i), F(r[0], i) / by, fabs(F(r[0], i) / by) * 3e-7);
		drop(r, 3);
	}
}
END_TEST

struct black_scholes { double rate, volatility, years, strike; uint32_t n; };

static double price(double x, const struct black_scholes *a)
{
	double spread = a->volatility * sqrt(a->years);
	double d = (log(x / a->strike) + (a->rate + a->volatility * a->volatility / 2) * a->years) /
		   spread;

	return x * erfc(-d / sqrt(2)) / 2 -
	       a->strike * exp(-a->rate * a->years) * erfc((spread - d) / sqrt(2)) / 2;
}

START_TEST(prices)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct black_scholes a = { uniform(0, 0.2), uniform(0.01, 1), uniform(0.1, 5),
					   uniform(1, 500), some(3000) };
		struct arax_launch_range r[2] = { fenced(8 * (uint64_t)a.n), holes(8 * (uint64_t)a.n) };
		double *x = r[0].data, *y = r[1].data;

		for (uint32_t i = 0; i < a.n; i++)	/* from worthless to certain */
			x[i] = a.strike * exp(uniform(-1, 1) * (any(2) ? 0.1 : 12));
		ck_assert_int_eq(call("black_scholes", r, 2, &a, sizeof(a), spans()), 0);
		for (uint32_t i = 0; i < a.n; i++)
			near(y[i], price(x[i], &a), 1e-13 * (x[i] + a.strike));
		drop(r, 2);
	}
}
END_TEST

START_TEST(prices_at_the_ends)
{
	struct black_scholes a = { 0.08, 0.3, 1, 60, 6 }, bad;
	struct arax_launch_range r[2] = { fenced(48), holes(48) };
	double *x = r[0].data, *y = r[1].data;
	double ends[] = { 0, -1, 1e-320, NAN, 1e300, 60 };

	memcpy(x, ends, sizeof(ends));
	ck_assert_int_eq(call("black_scholes", r, 2, &a, sizeof(a), 1), 0);
	for (int i = 0; i < 3; i++)
		near(y[i], 0, 1e-290);
	ck_assert(isnan(y[3]));
	near(y[4] / 1e300, 1, 1e-12);
	near(y[5], price(60, &a), 1e-11);
	for (int i = 0; i < 6; i++) {
		double wrong[] = { 0, -1, NAN };

		bad = a;
		*(i % 2 ? &bad.volatility : i < 3 ? &bad.years : &bad.strike) = wrong[i / 2];
		ck_assert_int_eq(call("black_scholes", r, 2, &bad, sizeof(bad), 1), -EINVAL);
	}
}
END_TEST

START_TEST(products)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct { uint32_t rows, features, classes; } a = { some(70), some(1100), some(19) };
		uint64_t nx = (uint64_t)a.rows * a.features, nw = (uint64_t)a.classes * a.features;
		uint64_t ny = (uint64_t)a.rows * a.classes;
		struct arax_launch_range r[3] = { floats(nx, -2, 2), floats(nw, -1, 1), holes(4 * ny) };
		int integers = round % 2;

		for (uint64_t i = 0; integers && i < nx; i++)
			((int32_t *)r[0].data)[i] = (int32_t)any(19) - 9;
		ck_assert_int_eq(call(integers ? "matmul_i32" : "matmul_f32", r, 3, &a, sizeof(a),
				      spans()), 0);
		for (uint64_t i = 0; i < ny; i++) {
			double sum = 0, size = 0;

			for (uint64_t f = 0; f < a.features; f++) {
				uint64_t at = i / a.classes * a.features + f;
				double x = integers ? ((int32_t *)r[0].data)[at] : F(r[0], at);
				double term = x * F(r[1], i % a.classes * a.features + f);

				sum += term;
				size += fabs(term);
			}
			near(F(r[2], i), sum, size * 1e-5);	/* f32, of up to 1,100 terms */
		}
		drop(r, 3);
	}
}
END_TEST

/* All that goes by rows, on one matrix. */
START_TEST(rows_of_a_matrix)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct { uint32_t rows, cols; } a = { some(130), one_or_more(1100) };
		uint64_t n = (uint64_t)a.rows * a.cols;
		struct arax_launch_range x = floats(n, -30, 30), row = floats(a.cols, -1, 1);
		struct arax_launch_range max = holes(4 * (uint64_t)a.rows);
		struct arax_launch_range lse = holes(4 * (uint64_t)a.rows);
		struct arax_launch_range best = holes(4 * (uint64_t)a.rows);
		struct arax_launch_range p = fenced(4 * n), s = fenced(4 * n);

		memcpy(p.data, x.data, 4 * n);
		memcpy(s.data, x.data, 4 * n);
		ck_assert_int_eq(call("row_max", (struct arax_launch_range[]){ x, max }, 2, &a, 8,
				      spans()), 0);
		ck_assert_int_eq(call("log_sum_exp", (struct arax_launch_range[]){ x, max, lse }, 3,
				      &a, 8, spans()), 0);
		ck_assert_int_eq(call("exp_rows", (struct arax_launch_range[]){ lse, p }, 2, &a, 8,
				      spans()), 0);
		ck_assert_int_eq(call("softmax", &s, 1, &a, 8, spans()), 0);
		ck_assert_int_eq(call("argmax_sum", (struct arax_launch_range[]){ x, s, best }, 3,
				      &a, 8, spans()), 0);
		for (uint32_t i = 0; i < a.rows; i++) {
			uint64_t at = (uint64_t)i * a.cols;
			double most = -INFINITY, sum = 0;
			uint32_t first = 0;

			for (uint32_t c = 0; c < a.cols; c++) {
				most = fmax(most, F(x, at + c));
				if ((float)(F(x, at + c) + F(s, at + c)) >
				    (float)(F(x, at + first) + F(s, at + first)))
					first = c;
			}
			for (uint32_t c = 0; c < a.cols; c++)
				sum += exp(F(x, at + c) - most);
			ck_assert_double_eq(F(max, i), most);
			near(F(lse, i), most + log(sum), 2e-5);
			ck_assert_uint_eq(((uint32_t *)best.data)[i], first);
			for (uint32_t c = 0; c < a.cols; c++) {
				double share = exp(F(x, at + c) - most) / sum;

				near(F(s, at + c), share, 1e-5 * share + 1e-35);
				/* The exponent's own rounding, near 30, is in this one. */
				near(F(p, at + c), share, 1e-5 * share + 1e-35);
			}
		}
		memcpy(p.data, x.data, 4 * n);
		ck_assert_int_eq(call("add_row", (struct arax_launch_range[]){ row, p }, 2, &a, 8,
				      spans()), 0);
		for (uint64_t i = 0; i < n; i++)
			near(F(p, i), F(x, i) + F(row, i % a.cols), 4e-6);
		drop((struct arax_launch_range[]){ x, row, max, lse, best, p, s }, 7);
	}
}
END_TEST

START_TEST(columns_of_a_matrix)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct { uint32_t rows, cols; } a = { some(900), one_or_more(90) };
		uint64_t n = (uint64_t)a.rows * a.cols;
		struct arax_launch_range r[2] = { fenced(4 * n), holes(4 * n) };
		int32_t *x = r[0].data, far = round % 3 ? 0 : 2000000000;

		for (uint64_t i = 0; i < n; i++)	/* every fifth column is constant */
			x[i] = far + (i % a.cols % 5 == 4 ? 7 : (int32_t)any(10));
		ck_assert_int_eq(call("zscore", r, 2, &a, 8, spans()), 0);
		for (uint32_t c = 0; c < a.cols; c++) {
			double mean = 0, variance = 0;

			for (uint32_t i = 0; i < a.rows; i++)
				mean += x[(uint64_t)i * a.cols + c];
			mean /= a.rows;
			for (uint32_t i = 0; i < a.rows; i++) {
				double d = x[(uint64_t)i * a.cols + c] - mean;

				variance += d * d / a.rows;
			}
			for (uint32_t i = 0; i < a.rows; i++) {
				uint64_t at = (uint64_t)i * a.cols + c;

				near(F(r[1], at), variance > 1e-9 ? (x[at] - mean) / sqrt(variance) : 0,
				     2e-6);
			}
		}
		drop(r, 2);
	}
}
END_TEST

struct spmv { uint32_t rows, cols, nnz; };

START_TEST(sparse)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct spmv a = { some(800), one_or_more(900), 0 };
		struct arax_launch_range r[5] = { fenced(4 * ((uint64_t)a.rows + 1)) };
		uint32_t *begin = r[0].data, *col;

		for (uint32_t i = 0; i < a.rows; i++) {
			begin[i] = a.nnz;
			a.nnz += any(7);
		}
		begin[a.rows] = a.nnz;
		r[1] = fenced(4 * (uint64_t)a.nnz);
		col = r[1].data;
		for (uint32_t i = 0; i < a.nnz; i++)
			col[i] = any(a.cols);
		r[2] = floats(a.nnz, -1, 1);
		r[3] = floats(a.cols, -1, 1);
		r[4] = holes(4 * (uint64_t)a.rows);
		ck_assert_int_eq(call("spmv", r, 5, &a, sizeof(a), spans()), 0);
		for (uint32_t i = 0; i < a.rows; i++) {
			double sum = 0;

			for (uint32_t k = begin[i]; k < begin[i + 1]; k++)
				sum += F(r[2], k) * F(r[3], col[k]);
			near(F(r[4], i), sum, 1e-6);
		}
		/* What its owner may have written since. */
		if (a.rows && a.nnz) {
			col[a.nnz - 1] = a.cols;
			ck_assert_int_eq(call("spmv", r, 5, &a, sizeof(a), 1), -EINVAL);
			col[a.nnz - 1] = 0xffffffff;
			ck_assert_int_eq(call("spmv", r, 5, &a, sizeof(a), 1), -EINVAL);
			col[a.nnz - 1] = 0;
			begin[a.rows] = a.nnz + 1;
			ck_assert_int_eq(call("spmv", r, 5, &a, sizeof(a), 1), -EINVAL);
			begin[a.rows] = a.nnz;
			begin[0] = 0xffffffff;
			ck_assert_int_eq(call("spmv", r, 5, &a, sizeof(a), 1), -EINVAL);
		}
		drop(r, 5);
	}
}
END_TEST

struct conv { uint32_t width, height, channels, filters, size, stride; };

static double conv_at(const struct arax_launch_range *r, const struct conv *a, uint64_t f,
		      uint64_t x, uint64_t y, double *size)
{
	int64_t half = a->size / 2;
	double sum = 0;

	*size = 0;
	for (int64_t k = 0; k < a->channels; k++)
		for (int64_t j = 0; j < a->size; j++)
			for (int64_t i = 0; i < a->size; i++) {
				int64_t sx = (int64_t)(x * a->stride) + i - half;
				int64_t sy = (int64_t)(y * a->stride) + j - half;
				double term;

				if (sx < 0 || sy < 0 || sx >= a->width || sy >= a->height)
					continue;
				term = F(r[0], (k * a->height + sy) * a->width + sx) *
				       F(r[1], (((int64_t)f * a->channels + k) * a->size + j) *
						       a->size + i);
				sum += term;
				*size += fabs(term);
			}
	return sum > 0 ? sum : 0;
}

START_TEST(convolutions)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct conv a = { one_or_more(150), one_or_more(20), 1 + any(4), 1 + any(5),
				  1 + 2 * any(4), 1 + any(4) };
		uint64_t w = (a.width + a.stride - 1) / a.stride;
		uint64_t h = (a.height + a.stride - 1) / a.stride;
		struct arax_launch_range r[3] = {
			floats((uint64_t)a.width * a.height * a.channels, -1, 1),
			floats((uint64_t)a.channels * a.filters * a.size * a.size, -1, 1),
			holes(4 * w * h * a.filters),
		};

		ck_assert_int_eq(call("conv_relu", r, 3, &a, sizeof(a), spans()), 0);
		for (uint64_t i = 0; i < w * h * a.filters; i++) {
			double size;
			double wanted = conv_at(r, &a, i / (w * h), i % w, i / w % h, &size);

			near(F(r[2], i), wanted, size * 1e-5);
		}
		drop(r, 3);
	}
}
END_TEST

START_TEST(pools)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct { uint32_t width, height, channels, size; } a = { 7 + any(90), 7 + any(40),
									 1 + any(4), 1 + any(7) };
		uint64_t w = a.width / a.size, h = a.height / a.size;
		struct arax_launch_range r[2] = {
			floats((uint64_t)a.width * a.height * a.channels, -1, 1),
			holes(4 * w * h * a.channels),
		};

		ck_assert_int_eq(call("mean_pool", r, 2, &a, sizeof(a), spans()), 0);
		for (uint64_t i = 0; i < w * h * a.channels; i++) {
			uint64_t top = i / w / h * a.height + i / w % h * a.size;
			double sum = 0;

			for (uint64_t j = 0; j < a.size; j++)
				for (uint64_t k = 0; k < a.size; k++)
					sum += F(r[0], (top + j) * a.width + i % w * a.size + k);
			near(F(r[1], i), sum / a.size / a.size, 1e-6);
		}
		drop(r, 2);
	}
}
END_TEST

START_TEST(one_after_the_other)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct { uint32_t n, m; } a = { some(600), some(600) };
		struct arax_launch_range r[3] = { floats(a.n, 0, 1), floats(a.m, 0, 1),
						  holes(4 * ((uint64_t)a.n + a.m)) };

		ck_assert_int_eq(call("concat", r, 3, &a, 8, spans()), 0);
		ck_assert_int_eq(memcmp(r[2].data, r[0].data, 4 * (size_t)a.n), 0);
		ck_assert_int_eq(memcmp((float *)r[2].data + a.n, r[1].data, 4 * (size_t)a.m), 0);
		drop(r, 3);
	}
}
END_TEST

/* Every kernel: what its ranges must hold, no byte more. */
static const struct {
	const char *name;
	uint32_t nr_ranges, bytes[5];
	uint32_t arg_len, args[10];
} needs[] = {
	{ "sum_diff", 3, { 400, 400, 8 }, 4, { 100 } },
	{ "dot_f32", 3, { 400, 400, 8 }, 4, { 100 } },
	{ "divide", 3, { 400, 8, 400 }, 4, { 100 } },
	{ "black_scholes", 2, { 800, 800 }, 40,	/* 1.0 four times */
	  { 0, 0x3ff00000, 0, 0x3ff00000, 0, 0x3ff00000, 0, 0x3ff00000, 100 } },
	{ "matmul_i32", 3, { 800, 240, 120 }, 12, { 10, 20, 3 } },
	{ "matmul_f32", 3, { 800, 240, 120 }, 12, { 10, 20, 3 } },
	{ "row_max", 2, { 800, 40 }, 8, { 10, 20 } },
	{ "log_sum_exp", 3, { 800, 40, 40 }, 8, { 10, 20 } },
	{ "exp_rows", 2, { 40, 800 }, 8, { 10, 20 } },
	{ "softmax", 1, { 800 }, 8, { 10, 20 } },
	{ "zscore", 2, { 800, 800 }, 8, { 10, 20 } },
	{ "add_row", 2, { 80, 800 }, 8, { 10, 20 } },
	{ "argmax_sum", 3, { 800, 800, 40 }, 8, { 10, 20 } },
	{ "spmv", 5, { 44, 120, 120, 80, 40 }, 12, { 10, 20, 30 } },
	{ "conv_relu", 3, { 1600, 216, 336 }, 24, { 20, 10, 2, 3, 3, 3 } },
	{ "mean_pool", 2, { 1600, 144 }, 16, { 20, 10, 2, 3 } },
	{ "concat", 3, { 400, 40, 440 }, 8, { 100, 10 } },
};

#define NR_NEEDS (sizeof(needs) / sizeof(needs[0]))

START_TEST(lengths_are_checked)
{
	struct arax_launch_range r[5], good[5] = { { 0 } };
	uint32_t n = needs[_i].nr_ranges;
	const char *name = needs[_i].name;

	for (uint32_t i = 0; i < n; i++)
		good[i] = fenced(needs[_i].bytes[i]);
	memcpy(r, good, sizeof(r));
	ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), 0);
	for (uint32_t i = 0; i < n; i++) {
		r[i].length--;
		ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
		r[i].length = 0;
		ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
		r[i] = good[i];
		r[i].count = 2;
		ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
		r[i] = good[i];
	}
	if (n > 1)
		ck_assert_int_eq(call(name, r, n - 1, needs[_i].args, needs[_i].arg_len, 1), -EINVAL);
	ck_assert_int_eq(call(name, r, n, needs[_i].args, needs[_i].arg_len - 1, 1), -EINVAL);
	ck_assert_int_eq(call(name, r, n, needs[_i].args, 0, 1), -EINVAL);
}
END_TEST

/* Products of these wrap around in 32 or in 64 bits. */
START_TEST(wild_arguments)
{
	static const uint32_t wild[] = { 0xffffffff, 0x80000000, 0x40000000, 0x10001, 65536 };
	struct arax_launch_range r[5];

	for (int i = 0; i < 5; i++)
		r[i] = fenced(4096);
	for (int w = 0; w < 5; w++) {
		for (size_t k = 0; k < NR_NEEDS; k++) {
			uint32_t args[10];

			memcpy(args, needs[k].args, sizeof(args));
			/* All alike, and then each alone. */
			for (uint32_t at = 0; at < needs[k].arg_len / 4; at++)
				args[at] = wild[w];
			if (!strcmp(needs[k].name, "black_scholes")) {
				memcpy(args, needs[k].args, sizeof(args));
				args[8] = wild[w];
			}
			ck_assert_int_eq(call(needs[k].name, r, needs[k].nr_ranges, args,
					      needs[k].arg_len, 1), -EINVAL);
		}
		for (uint32_t at = 0; at < 4; at++) {
			uint32_t conv[6] = { 20, 10, 2, 3, 3, 3 }, pool[4] = { 20, 10, 2, 3 };

			conv[at] = wild[w];
			pool[at] = wild[w];
			ck_assert_int_eq(call("conv_relu", r, 3, conv, 24, 1), -EINVAL);
			ck_assert_int_eq(call("mean_pool", r, 2, pool, 16, 1), -EINVAL);
		}
	}
}
END_TEST

static const uint32_t bad_convs[][6] = {
	{ 0, 10, 2, 3, 3, 1 }, { 10, 0, 2, 3, 3, 1 }, { 10, 10, 0, 3, 3, 1 }, { 10, 10, 2, 0, 3, 1 },
	{ 10, 10, 2, 3, 2, 1 }, { 10, 10, 2, 3, 17, 1 }, { 10, 10, 2, 3, 3, 0 },
	{ 10, 10, 2, 3, 3, 17 },
};

START_TEST(conv_arguments)
{
	struct arax_launch_range r[3] = { fenced(1 << 16), fenced(1 << 16), fenced(1 << 16) };

	ck_assert_int_eq(call("conv_relu", r, 3, bad_convs[_i], 24, 1), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("numeric");
	TCase *t = tcase_create("all");

	if (std_open())
		return 1;
	tcase_set_timeout(t, 120);
	tcase_add_test(t, sums);
	tcase_add_test(t, quotients);
	tcase_add_test(t, prices);
	tcase_add_test(t, prices_at_the_ends);
	tcase_add_test(t, products);
	tcase_add_test(t, rows_of_a_matrix);
	tcase_add_test(t, columns_of_a_matrix);
	tcase_add_test(t, sparse);
	tcase_add_test(t, convolutions);
	tcase_add_test(t, pools);
	tcase_add_test(t, one_after_the_other);
	tcase_add_loop_test(t, lengths_are_checked, 0, NR_NEEDS);
	tcase_add_test(t, wild_arguments);
	tcase_add_loop_test(t, conv_arguments, 0, sizeof(bad_convs) / sizeof(bad_convs[0]));
	suite_add_tcase(suite, t);
	return be_main(suite);
}
