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

static int call(const char *name, const struct arax_launch_range *r, uint32_t n, const void *args,
		uint32_t arg_len)
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = n, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
		.group_end = 1, .ranges = r, .args = args, .arg_len = arg_len,
	};
	char symbol[64];
	arax_kernel_fn *fn;

	snprintf(symbol, sizeof(symbol), "arax_blas_%s", name);
	fn = (arax_kernel_fn *)dlsym(library, symbol);
	ck_assert_msg(fn != NULL, "%s", symbol);
	return fn(&l);
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
	suite_add_tcase(suite, t);
	return be_main(suite);
}
