// SPDX-License-Identifier: MIT
/*
 * arax-blas on the CPU: what it refuses, and that it computes on the calling thread alone.  (What it
 * computes: std_cases_blas.c.)
 */
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>

#include "daemon/kernels/blas/blas.h"
#include "selftests/unit/be_test.h"

#define MAP		(64u << 10)

static void *library;

/* One byte too far is a fault, not a pass. */
static struct arax_launch_range fenced(uint32_t rows, uint32_t columns)
{
	uint64_t bytes = (uint64_t)rows * columns * sizeof(double);
	char *p = mmap(NULL, MAP + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double *at;

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + MAP, 4096, PROT_NONE), 0);
	at = (double *)(p + MAP - bytes);
	for (uint64_t i = 0; i < bytes / sizeof(double); i++)
		at[i] = (double)(rand() % 2001 - 1000) / 1000;
	return (struct arax_launch_range){ at, bytes, 0, 1 };
}

static void unfence(struct arax_launch_range *r, uint32_t n)
{
	while (n--)
		munmap((char *)r[n].data + r[n].length - MAP, MAP + 4096);
}

/* In so many parts, the last one first. */
static int call_in(uint32_t parts, const char *name, const struct arax_launch_range *r, uint32_t n,
		   const void *args, uint32_t arg_len)
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = n, .grid = { parts, 1, 1 }, .block = { 1, 1, 1 },
		.ranges = r, .args = args, .arg_len = arg_len,
	};
	char symbol[64];
	arax_kernel_fn *fn;
	int err = 0;

	snprintf(symbol, sizeof(symbol), "arax_blas_%s", name);
	fn = (arax_kernel_fn *)dlsym(library, symbol);
	ck_assert_msg(fn != NULL, "%s", symbol);
	for (uint32_t i = parts; !err && i--;) {
		l.group_begin = i;
		l.group_end = i + 1;
		err = fn(&l);
	}
	return err;
}

static int call(const char *name, const struct arax_launch_range *r, uint32_t n, const void *args,
		uint32_t arg_len)
{
	return call_in(1, name, r, n, args, arg_len);
}

/* A diagonal that outweighs its rows: positive definite if symmetric, and good pivots. */
static void dominate(double *a, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		a[i + (size_t)i * n] = n + 1;
}

/* A result that is none is the task's failure, wherever in the tile it shows. */
START_TEST(no_factor)
{
	struct blas_square s = { 40, 0 };
	struct arax_launch_range r = fenced(s.n, s.n);
	double *a = r.data;

	for (uint32_t at = 0; at < s.n; at++) {
		memset(a, 0, r.length);
		for (uint32_t i = 0; i < s.n; i++)
			a[i + (size_t)i * s.n] = i == at ? 0 : 1;
		ck_assert_int_eq(call("getrf", &r, 1, &s, sizeof(s)), -EDOM);
		memset(a, 0, r.length);
		for (uint32_t i = 0; i < s.n; i++)
			a[i + (size_t)i * s.n] = i == at ? -1 : 1;
		ck_assert_int_eq(call("potrf", &r, 1, &s, sizeof(s)), -EDOM);
	}
	a[0] = NAN;
	ck_assert_int_eq(call("getrf", &r, 1, &s, sizeof(s)), -EDOM);
	/* On the diagonal, and below it, where only what comes of it is looked at. */
	for (uint32_t at = 0; at < s.n; at++) {
		memset(a, 0, r.length);
		for (uint32_t i = 0; i < s.n; i++)
			a[i + (size_t)i * s.n] = 1;
		a[at + (size_t)(at / 2) * s.n] = NAN;
		ck_assert_int_eq(call("potrf", &r, 1, &s, sizeof(s)), -EDOM);
	}
	unfence(&r, 1);
}
END_TEST

static const struct {
	const char *name;
	uint32_t nr_ranges;
	union {
		struct blas_square square;
		struct blas_trsm trsm;
		struct blas_syrk syrk;
		struct blas_gemm gemm;
	} args;
	uint32_t arg_len;
	uint32_t shape[3][2];
	uint32_t flags_at;	/* in the arguments */
} calls[] = {
	{ "potrf", 1, { .square = { 9, 0 } }, sizeof(struct blas_square), { { 9, 9 } },
	  offsetof(struct blas_square, flags) },
	{ "getrf", 1, { .square = { 9, 0 } }, sizeof(struct blas_square), { { 9, 9 } },
	  offsetof(struct blas_square, flags) },
	{ "trsm", 2, { .trsm = { 1, 5, 7, 0, 0 } }, sizeof(struct blas_trsm), { { 5, 5 }, { 5, 7 } },
	  offsetof(struct blas_trsm, flags) },
	{ "trsm", 2, { .trsm = { 1, 5, 7, BLAS_RIGHT, 0 } }, sizeof(struct blas_trsm),
	  { { 7, 7 }, { 5, 7 } }, offsetof(struct blas_trsm, flags) },
	{ "syrk", 2, { .syrk = { 1, 1, 5, 7, 0, 0 } }, sizeof(struct blas_syrk),
	  { { 5, 7 }, { 5, 5 } }, offsetof(struct blas_syrk, flags) },
	{ "gemm", 3, { .gemm = { 1, 1, 5, 7, 9, 0 } }, sizeof(struct blas_gemm),
	  { { 5, 9 }, { 9, 7 }, { 5, 7 } }, offsetof(struct blas_gemm, flags) },
};

/* Ranges that hold one element less, arguments of another size, unknown flags. */
START_TEST(bad_calls_are_refused)
{
	uint32_t n = calls[_i].nr_ranges, len = calls[_i].arg_len, flags = 1u << 30;
	struct arax_launch_range r[3] = { 0 };
	char args[64];

	for (uint32_t i = 0; i < n; i++) {
		r[i] = fenced(calls[_i].shape[i][0], calls[_i].shape[i][1]);
		if (calls[_i].shape[i][0] == calls[_i].shape[i][1])
			dominate(r[i].data, calls[_i].shape[i][0]);
	}
	memcpy(args, &calls[_i].args, len);
	ck_assert_int_eq(call(calls[_i].name, r, n, args, len), 0);
	for (uint32_t i = 0; i < n; i++) {
		r[i].length -= sizeof(double);
		ck_assert_int_eq(call(calls[_i].name, r, n, args, len), -EINVAL);
		r[i].length += sizeof(double);
		r[i].count = 2;
		ck_assert_int_eq(call(calls[_i].name, r, n, args, len), -EINVAL);
		r[i].count = 1;
	}
	ck_assert_int_eq(call(calls[_i].name, r, n - 1, args, len), -EINVAL);
	ck_assert_int_eq(call(calls[_i].name, r, n, args, len - 4), -EINVAL);
	memcpy(args + calls[_i].flags_at, &flags, sizeof(flags));
	ck_assert_int_eq(call(calls[_i].name, r, n, args, len), -EINVAL);
	unfence(r, n);
}
END_TEST

/* Their product is 0 modulo 2^32, and nothing is 2^31 long. */
START_TEST(huge_orders_are_refused)
{
	struct blas_gemm g = { 1, 1, 1u << 31, 0, 0, 0 };
	struct blas_square s = { 1u << 16, 0 };
	struct arax_launch_range r[3] = { fenced(1, 1), fenced(1, 1), fenced(1, 1) };

	ck_assert_int_eq(call("potrf", r, 1, &s, sizeof(s)), -EINVAL);
	ck_assert_int_eq(call("getrf", r, 1, &s, sizeof(s)), -EINVAL);
	ck_assert_int_eq(call("gemm", r, 3, &g, sizeof(g)), -EINVAL);
	unfence(r, 3);
}
END_TEST

static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int n = 0;

	ck_assert_ptr_nonnull(tasks);
	while (readdir(tasks))
		n++;
	closedir(tasks);
	return n - 2;
}

#define AT_ONCE		3
#define BIG		90u	/* enough for a library with threads to use them */
#define CALLS		400

struct caller {
	pthread_t thread;
	struct arax_launch_range in, want;
	int wrong;
};

static void factorize(const struct arax_launch_range *in, struct arax_launch_range *out)
{
	struct blas_square s = { BIG, 0 };

	memcpy(out->data, in->data, in->length);
	ck_assert_int_eq(call("getrf", out, 1, &s, sizeof(s)), 0);
}

static void *keep_calling(void *arg)
{
	struct arax_launch_range out = fenced(BIG, BIG);
	struct caller *c = arg;
	int i;

	for (i = 0; i < CALLS; i++) {
		factorize(&c->in, &out);
		c->wrong += !!memcmp(out.data, c->want.data, out.length);
	}
	unfence(&out, 1);
	return NULL;
}

/* Devices call at once, each computes alone, and nobody else has come of it. */
START_TEST(threads)
{
	struct caller callers[AT_ONCE] = { 0 };
	int i, before = count_threads();

	for (i = 0; i < AT_ONCE; i++) {
		callers[i].in = fenced(BIG, BIG);
		callers[i].want = fenced(BIG, BIG);
		dominate(callers[i].in.data, BIG);
		factorize(&callers[i].in, &callers[i].want);
	}
	ck_assert_int_eq(count_threads(), before);
	for (i = 0; i < AT_ONCE; i++)
		ck_assert_int_eq(pthread_create(&callers[i].thread, NULL, keep_calling,
						&callers[i]), 0);
	for (i = 0; i < AT_ONCE; i++)
		pthread_join(callers[i].thread, NULL);
	for (i = 0; i < AT_ONCE; i++)
		ck_assert_int_eq(callers[i].wrong, 0);
	ck_assert_int_eq(count_threads(), before);
}
END_TEST

/* Numbers of which all sums are exact, whatever their order. */
static struct arax_launch_range whole_numbers(uint64_t n)
{
	double *x = malloc((n + 1) * sizeof(*x));

	ck_assert_ptr_nonnull(x);
	for (uint64_t i = 0; i < n; i++)
		x[i] = rand() % 17 - 8;
	return (struct arax_launch_range){ x, n * sizeof(*x), 0, 1 };
}

/* The last range is the result: the same however it is cut. */
static void cut(const char *name, const struct arax_launch_range *in, uint32_t nr_in, uint64_t out,
		const void *args, uint32_t arg_len)
{
	static const uint32_t parts[] = { 2, 3, 4, 5, 9, 64 };
	struct arax_launch_range r[3], was = whole_numbers(out), whole = whole_numbers(out);
	struct arax_launch_range cut = whole_numbers(out);

	memcpy(r, in, nr_in * sizeof(*in));
	memcpy(whole.data, was.data, was.length);
	r[nr_in] = whole;
	ck_assert_int_eq(call(name, r, nr_in + 1, args, arg_len), 0);
	r[nr_in] = cut;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		memcpy(cut.data, was.data, was.length);
		ck_assert_int_eq(call_in(parts[i], name, r, nr_in + 1, args, arg_len), 0);
		ck_assert_msg(!memcmp(cut.data, whole.data, was.length), "%s in %u parts", name,
			      parts[i]);
	}
	free(was.data);
	free(whole.data);
	free(cut.data);
}

static const uint32_t sides[] = { 1, 64, 65, 256, 511, 512, 513, 1100 };
#define SIDES	((int)(sizeof(sides) / sizeof(sides[0])))

/* So that blocks and strips end anywhere. */
START_TEST(in_parts)
{
	uint32_t m = sides[_i / SIDES], n = sides[_i % SIDES], k = 5;
	struct arax_launch_range in[2] = { whole_numbers(m * k), whole_numbers(k * n) };
	struct arax_launch_range a = whole_numbers((uint64_t)m * n), x = whole_numbers(m + n);

	for (uint32_t flags = 0; flags < 4; flags++) {
		struct blas_gemm gemm = { 2, -3, m, n, k, (flags & 1 ? BLAS_TRANS_A : 0) |
					  (flags & 2 ? BLAS_TRANS_B : 0) };
		struct blas_syrk syrk = { 2, -3, m, k, (flags & 1 ? BLAS_TRANS_A : 0) |
					  (flags & 2 ? BLAS_UPPER : 0), 0 };
		struct blas_gemv gemv = { 2, -3, m, n, flags & 1 ? BLAS_TRANS_A : 0, 0 };
		struct arax_launch_range mv[2] = { a, x };

		cut("gemm", in, 2, (uint64_t)m * n, &gemm, sizeof(gemm));
		if (m == n)
			cut("syrk", in, 1, (uint64_t)m * m, &syrk, sizeof(syrk));
		mv[1].length = (flags & 1 ? m : n) * sizeof(double);
		cut("gemv", mv, 2, flags & 1 ? n : m, &gemv, sizeof(gemv));
	}
	free(in[0].data);
	free(in[1].data);
	free(a.data);
	free(x.data);
}
END_TEST

/* Of a triangle whose inverse has whole numbers, too: 1 on the diagonal, and in one more place of each row. */
START_TEST(solved_in_parts)
{
	for (int right = 0; right < 2; right++) {
		uint32_t n = sides[_i], order = 40;
		struct blas_trsm s = { 1, right ? n : order, right ? order : n,
				       right ? BLAS_RIGHT : 0, 0 };
		struct arax_launch_range a = whole_numbers(order * order);
		double *x = a.data;

		for (uint32_t i = 0; i < order; i++)
			for (uint32_t j = 0; j < order; j++)
				x[i + j * order] = i == j || (i == j + 1 && i % 2);
		cut("trsm", &a, 1, (uint64_t)order * n, &s, sizeof(s));
		free(x);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("blas");
	TCase *t = tcase_create("all");

	if (access("build/lib/arax/kernels/arax-blas.so", F_OK)) {
		be_skip("blas", "not built: no libopenblas-openmp-dev");
		return 0;
	}
	library = dlopen("build/lib/arax/kernels/arax-blas.so", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	tcase_set_timeout(t, 60);
	tcase_add_test(t, no_factor);
	tcase_add_loop_test(t, bad_calls_are_refused, 0, sizeof(calls) / sizeof(calls[0]));
	tcase_add_test(t, huge_orders_are_refused);
	tcase_add_test(t, threads);
	tcase_add_loop_test(t, in_parts, 0, SIDES * SIDES);
	tcase_add_loop_test(t, solved_in_parts, 0, SIDES);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
