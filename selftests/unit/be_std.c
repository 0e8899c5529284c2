// SPDX-License-Identifier: MIT
/*
 * The kernels that come with Arax, on the CPU: each by its case (std_case.h), whole and in
 * spans as a device that splits calls it; each with ranges that are too short by one, and
 * with arguments at their ends, in ranges that end where a page does.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/kernels/overlap.h"
#include "daemon/kernels/registry.h"
#include "daemon/kernels/std/memory_limit.h"
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/work.h"
#include "daemon/log.h"
#include "selftests/unit/std_case.h"
#include "uapi/arax.h"

#define FOLDER	"build/lib/arax/kernels"
#define ROUNDS	40

static struct registry *registry;

/* By libcheck in each test's own process. */
static void setup(void)
{
	trial_seed();
	log_max_level = LOG_LEVEL_WARNING;
	registry = registry_create();
	ck_assert_int_gt(registry_load_folder(registry, FOLDER), 0);
}

static void teardown(void)
{
	registry_destroy(registry);
}

static arax_kernel_fn *function_of(const char *name)
{
	const struct kernel *k = registry_find(registry, name);
	const struct kernel_impl *impl;
	arax_kernel_fn *fn;
	void *library;

	ck_assert_msg(!!k, "no kernel %s", name);
	impl = kernel_impl(k, ARAX_DEVICE_CPU);
	ck_assert_msg(!!impl, "%s is not for the CPU", name);
	library = dlopen(impl->file, RTLD_NOW);
	ck_assert_msg(!!library, "%s", dlerror());
	fn = (arax_kernel_fn *)dlsym(library, impl->symbol);
	ck_assert_msg(!!fn, "%s has no %s", impl->file, impl->symbol);
	return fn;
}

static int run_spans(arax_kernel_fn *fn, const struct trial *t, uint32_t spans)
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = t->nr_ranges, .grid = { spans, 1, 1 },
		.block = { 1, 1, 1 }, .ranges = t->r, .args = t->args, .arg_len = t->arg_len,
	};
	int err = 0;

	for (uint32_t s = 0; !err && s < spans; s++) {
		l.group_begin = s;
		l.group_end = s + 1;
		err = fn(&l);
	}
	return err;
}

static uint32_t spans_of(const struct kernel *k)
{
	static const uint32_t spans[] = { 1, 2, 3, 8, 64 };

	return k->split ? spans[trial_random(5)] : 1;
}

static const struct kernel *kernel_of(const struct std_case *c)
{
	const struct kernel *k = registry_find(registry, c->name);

	ck_assert_msg(k, "no kernel %s", c->name);
	return k;
}

/* One case a test: nothing, one, many odd ones, two that are huge, and one of long sums. */
START_TEST(references)
{
	const struct std_case *c = std_case_at((size_t)_i);
	const struct kernel *k = kernel_of(c);
	arax_kernel_fn *fn;

	fn = function_of(c->name);
	for (int round = 0; round < ROUNDS; round++) {
		struct trial t;

		trial_open(&t, c, round < 2 ? (enum trial_size)round :
				  round < ROUNDS - 3 ? SIZE_SOME :
				  round < ROUNDS - 1 ? SIZE_HUGE : SIZE_LONG);
		ck_assert_uint_eq(t.arg_len, k->sig.abi.arg_len);
		ck_assert_uint_eq(t.nr_ranges, k->sig.abi.nr_ranges);
		ck_assert_msg(run_spans(fn, &t, spans_of(k)) == 0, "%s: round %d", c->name, round);
		trial_check(&t, k->sig.abi.access);
		trial_close(&t);
	}
}
END_TEST

/* Products of no terms, or of some that don't count: c = beta c is left, or x = 0. */
START_TEST(no_terms)
{
	static const double alphas[] = { 0, NAN, INFINITY, -INFINITY, 1 };
	const struct std_case *c;

	for (size_t i = 0; (c = std_case_at(i)); i++)
		for (uint32_t round = 0; round < 25; round++) {
			struct trial t;

			trial_open(&t, c, SIZE_SOME);
			if (blas_without_terms(&t, alphas[round % 5]) &&
			    kernel_impl(kernel_of(c), ARAX_DEVICE_CPU)) {
				ck_assert_int_eq(run_spans(function_of(c->name), &t,
							   spans_of(kernel_of(c))), 0);
				trial_check(&t, kernel_of(c)->sig.abi.access);
			}
			trial_close(&t);
		}
}
END_TEST

static void refused(arax_kernel_fn *fn, const struct trial *t, const char *why)
{
	int err = run_spans(fn, t, 1);

	ck_assert_msg(err == -EINVAL, "%s: %d%s", t->c->name, err, why);
}

/* Ranges that are shorter by a byte, empty or strided, and arguments of another size. */
START_TEST(lengths_are_checked)
{
	const struct std_case *c = std_case_at((size_t)_i);
	struct trial t;
	arax_kernel_fn *fn;

	kernel_of(c);
	fn = function_of(c->name);
	for (int round = 0; round < 10; round++) {
		trial_open(&t, c, round ? SIZE_SOME : SIZE_ONE);
		for (uint32_t i = 0; i < t.nr_ranges; i++) {
			struct arax_launch_range whole = t.r[i];

			if (c->optional >> i & 1 || !whole.length)
				continue;
			t.r[i].length--;
			refused(fn, &t, " with a byte less");
			t.r[i].length = 0;
			refused(fn, &t, " without a range");
			t.r[i] = whole;
			t.r[i].count = 2;
			refused(fn, &t, " with a strided range");
			t.r[i] = whole;
		}
		trial_check_untouched(&t, " by a refused launch");
		if (strcmp(c->name, "null")) {
			t.nr_ranges--;
			refused(fn, &t, " with a range less");
			t.nr_ranges++;
			t.arg_len--;
			refused(fn, &t, " with arguments that are too short");
			t.arg_len = 0;
			refused(fn, &t, " without arguments");
		}
		trial_check_untouched(&t, " by a refused launch");
		trial_close(&t);
	}
}
END_TEST

START_TEST(misaligned_ranges_are_refused)
{
	const struct std_case *c = std_case_at((size_t)_i);
	const struct kernel *k = kernel_of(c);
	struct trial t;

	trial_open(&t, c, SIZE_ONE);
	for (uint32_t i = 0; i < t.nr_ranges; i++) {
		struct arax_launch_range whole = t.r[i];

		if (c->optional >> i & 1 || strstr(k->sig.text, "u8"))
			continue;
		/* It begins a byte earlier, so that its end is where it was. */
		t.r[i].data = (char *)whole.data - 1;
		refused(function_of(c->name), &t, " with a misaligned range");
		t.r[i] = whole;
	}
	trial_check_untouched(&t, " by a refused launch");
	trial_close(&t);
}
END_TEST

/* Products of these wrap around in 32 or in 64 bits: nothing outside of the ranges is touched. */
START_TEST(wild_arguments)
{
	static const uint32_t wild[] = { 0xffffffff, 0x80000000, 0x40000000, 0x55555556, 0x10001,
					 65536 };
	const struct std_case *c = std_case_at((size_t)_i);
	const struct kernel *k = kernel_of(c);
	uint32_t at[16], nr;
	arax_kernel_fn *fn;

	fn = function_of(c->name);
	nr = std_case_words(k->sig.text, at);
	for (size_t w = 0; w < sizeof(wild) / sizeof(wild[0]); w++)
		for (uint32_t i = 0; i <= nr && nr; i++) {
			struct trial t;
			int err;

			trial_open(&t, c, SIZE_ONE);
			for (uint32_t j = 0; j < nr; j++)	/* each alone, at last all */
				if (j == i || i == nr)
					memcpy((char *)t.args + at[j], &wild[w], 4);
			err = run_spans(fn, &t, 1);
			ck_assert_msg(err == -EINVAL || (!err && i < nr),
				      "%s: %d with %#x as word %u",
				      c->name, err, wild[w], i);
			if (err)
				trial_check_untouched(&t, " by a refused launch");
			trial_close(&t);
		}
}
END_TEST

static const struct {
	const char *name;
	uint32_t args[9];
} bad[] = {
	{ "blur", { 0, 10, 3, 0x3f800000 } }, { "blur", { 10, 0, 3, 0x3f800000 } },
	{ "blur", { 10, 10, 4, 0x3f800000 } }, { "blur", { 10, 10, 0, 0x3f800000 } },
	{ "blur", { 10, 10, 131, 0x3f800000 } }, { "blur", { 10, 10, 3, 0 } },
	{ "blur", { 10, 10, 3, 0xbf800000 } }, { "blur", { 10, 10, 3, 0x7fc00000 } },
	{ "conv_relu", { 0, 10, 2, 3, 3, 1 } }, { "conv_relu", { 10, 0, 2, 3, 3, 1 } },
	{ "conv_relu", { 10, 10, 0, 3, 3, 1 } }, { "conv_relu", { 10, 10, 2, 0, 3, 1 } },
	{ "conv_relu", { 10, 10, 2, 3, 2, 1 } }, { "conv_relu", { 10, 10, 2, 3, 17, 1 } },
	{ "conv_relu", { 10, 10, 2, 3, 3, 0 } }, { "conv_relu", { 10, 10, 2, 3, 3, 17 } },
	{ "conv2d_f32", { 1, 0, 9, 9, 1, 3, 3, 1, 0 } },
	{ "conv2d_f32", { 1, 1, 0, 9, 1, 3, 3, 1, 0 } },
	{ "conv2d_f32", { 1, 1, 9, 0, 1, 3, 3, 1, 0 } },
	{ "conv2d_f32", { 1, 1, 9, 9, 1, 0, 3, 1, 0 } },
	{ "conv2d_f32", { 1, 1, 9, 9, 1, 3, 0, 1, 0 } },
	{ "conv2d_f32", { 1, 1, 9, 9, 1, 3, 3, 0, 0 } },
	{ "conv2d_f32", { 1, 1, 9, 9, 1, 3, 3, 1, 3 } },
	{ "conv2d_f32", { 1, 1, 9, 9, 1, 10, 3, 1, 0 } },
	{ "conv2d_f32", { 1, 1, 9, 9, 1, 3, 14, 1, 2 } },
	{ "mean_pool", { 9, 9, 1, 0 } }, { "mean_pool", { 9, 9, 1, 10 } },
	{ "mean_pool", { 9, 9, 0, 2 } },
	{ "max_pool_f32", { 1, 9, 9, 0, 1, 0 } }, { "max_pool_f32", { 1, 9, 9, 3, 0, 0 } },
	{ "max_pool_f32", { 1, 9, 9, 3, 1, 2 } }, { "avg_pool_f32", { 1, 9, 9, 10, 1, 0 } },
	{ "avg_pool_f32", { 1, 0, 9, 2, 1, 1 } }, { "avg_pool_f32", { 1, 9, 0, 2, 1, 1 } },
	{ "max_f32", { 0 } }, { "min_f32", { 0 } }, { "softmax", { 3, 0 } }, { "zscore", { 3, 0 } },
	{ "sum_parts_f32", { 3, 0 } }, { "max_parts_f32", { 3, 0 } },
	{ "scan_parts_u32", { 3, 0, 0 } },
	{ "scan_u32", { 3, 2 } }, { "scan_f32", { 3, 2 } }, { "scan_parts_f32", { 3, 1, 2 } },
	{ "histogram_f32", { 0, 0x3f800000, 3, 0 } },
	{ "histogram_f32", { 0, 0x3f800000, 3, 65537 } },
	{ "histogram_f32", { 0, 0, 3, 4 } }, { "histogram_f32", { 0x3f800000, 0, 3, 4 } },
	{ "histogram_f32", { 0x7fc00000, 0, 3, 4 } },
	{ "histogram_f32", { 0xff7fffff, 0x7f7fffff, 3, 4 } },
	{ "kmeans_assign", { 3, 2, 0 } }, { "kmeans_assign", { 3, 0, 2 } },
	{ "kmeans_update", { 3, 2, 0 } }, { "kmeans_update", { 3, 0, 2 } },
	{ "fft_c32", { 0, 1, 0 } }, { "fft_c32", { 8, 1, 2 } },
};

#define NR_BAD	((int)(sizeof(bad) / sizeof(bad[0])))

/* Arguments that no range is long enough for. */
START_TEST(bad_arguments)
{
	const struct kernel *k = registry_find(registry, bad[_i].name);
	struct trial t;

	ck_assert_ptr_nonnull(k);
	trial_open(&t, NULL, SIZE_NONE);
	for (uint32_t i = 0; i < k->sig.abi.nr_ranges; i++)
		add_bytes(&t, 1 << 18);
	memcpy(t.args, bad[_i].args, sizeof(bad[_i].args));
	t.arg_len = k->sig.abi.arg_len;
	ck_assert_msg(run_spans(function_of(bad[_i].name), &t, 1) == -EINVAL, "%s: number %d",
		      bad[_i].name, _i);
	trial_close(&t);
}
END_TEST

/*
 * Whether a launch with these arguments is done, elsewhere and on a GPU, with this many threads, by
 * this many in a block.
 */
static const struct {
	const char *name;
	uint32_t args[9];
	bool here, gpu;
	uint32_t threads, block;
} works[] = {
	/* Padding makes much of little, and so do narrow rows. */
	{ "conv2d_f32", { 16, 1, 1, 1, 2, 256, 256, 1, 255 }, true, true, 1 << 24, 32 },
	{ "conv2d_f32", { 1024, 1, 1, 1, 2, 256, 256, 1, 255 }, false, true, 1 << 24, 32 },
	{ "conv2d_f32", { 65536, 1, 1, 1, 2, 256, 256, 1, 255 }, false, false, 1 << 24, 32 },
	{ "conv2d_f32", { 1, 65536, 1u << 22, 1, 1, 1, 1, 1, 0 }, false, true, 1 << 24, 32 },
	/* Strides make little of much: patches of images, the first layer of another net. */
	{ "conv2d_f32", { 64, 3, 224, 224, 768, 14, 14, 14, 0 }, true, true, 1 << 24, 32 },
	{ "conv2d_f32", { 1024, 3, 224, 224, 64, 7, 7, 2, 3 }, true, true, 1 << 24, 32 },
	{ "conv2d_f32", { 1024, 512, 7, 7, 512, 3, 3, 1, 1 }, true, true, 1 << 24, 32 },
	{ "conv2d_f32", { 4096, 4096, 1, 1, 4096, 1, 1, 1, 0 }, true, true, 1 << 24, 32 },
	{ "conv_relu", { 16384, 16384, 16, 64, 15, 16 }, true, true, 1 << 24, 32 },
	{ "conv_relu", { 16384, 16384, 64, 1024, 15, 1 }, false, false, 1 << 24, 32 },
	/* Of windows as large as the image there may be as many as pixels. */
	{ "max_pool_f32", { 1, 512, 512, 512, 1, 256 }, true, true, 1 << 24, 32 },
	{ "max_pool_f32", { 1, 1024, 1024, 1024, 1, 512 }, false, true, 1 << 24, 32 },
	{ "avg_pool_f32", { 1, 2048, 2048, 2048, 1, 1024 }, false, false, 1 << 24, 32 },
	{ "max_pool_f32", { 64 * 64, 112, 112, 3, 2, 1 }, true, true, 1 << 24, 32 },
	{ "avg_pool_f32", { 256 * 2048, 7, 7, 7, 1, 0 }, true, true, 1 << 24, 32 },
	{ "avg_pool_f32", { 1, 16384, 16384, 16384, 1, 0 }, true, true, 1 << 24, 32 },
	{ "blur", { 4096, 4096, 129, 0x3f800000 }, true, true, 1 << 24, 32 },
	{ "blur", { 16384, 16384, 129, 0x3f800000 }, false, true, 1 << 24, 32 },
	/* Triangles and factors: flags 2 has the triangle on the right. */
	{ "gemm_f64", { 0, 0, 0, 0, 8192, 8192, 8192, 0 }, true, true, 1 << 24, 32 },
	{ "gemm_f64", { 0, 0, 0, 0, 16384, 16384, 16384, 0 }, false, true, 1 << 24, 32 },
	{ "gemm_f32", { 0, 0, 16384, 16384, 16384, 0 }, false, true, 1 << 24, 32 },
	{ "gemm_f32", { 0, 0, 65536, 65536, 65536, 0 }, false, false, 1 << 24, 32 },
	{ "syrk_f64", { 0, 0, 0, 0, 16384, 8128, 0 }, true, true, 1 << 24, 32 },
	{ "syrk_f64", { 0, 0, 0, 0, 16384, 16384, 0 }, false, true, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 512, 1 << 20, 0 }, true, true, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 512, 1 << 20, 7 }, false, false, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 1 << 20, 512, 2 }, true, true, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 1 << 20, 512, 1 }, false, false, 1 << 24, 32 },
	{ "potrf_f64", { 16384, 0 }, true, true, 1 << 24, 256 },
	{ "potrf_f64", { 32768, 0 }, false, false, 1 << 24, 1024 },
	{ "getrf_nopiv_f64", { 14000, 0 }, true, true, 1 << 24, 256 },
	{ "getrf_nopiv_f64", { 16384, 0 }, false, false, 1 << 24, 1024 },
	/* A tile is computed whole, for one element and one term, too. */
	{ "gemm_f64", { 0, 0, 0, 0, 1, 1, 1 << 28, 0 }, true, true, 256, 256 },
	{ "gemm_f64", { 0, 0, 0, 0, 1, 1, (1 << 28) + 1, 0 }, false, true, 512, 512 },
	{ "gemm_f32", { 0, 0, 1, 1, 1 << 29, 0 }, false, true, 512, 512 },
	{ "gemm_f32", { 0, 0, 1, 1u << 31, 16, 0 }, false, true, 1 << 24, 32 },
	{ "gemm_f32", { 0, 0, 1 << 17, 1 << 18, 1, 0 }, true, true, 1 << 24, 32 },
	{ "syrk_f64", { 0, 0, 0, 0, 1, 1 << 27, 0 }, true, true, 128, 128 },
	{ "syrk_f64", { 0, 0, 0, 0, 1, 1 << 29, 0 }, false, true, 512, 512 },
	{ "syrk_f64", { 0, 0, 0, 0, 1 << 20, 1, 0 }, false, true, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 1, 0x80000000, 0 }, true, true, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 1, 0x80000001, 0 }, false, true, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 0x80000001, 1, 2 }, false, true, 1 << 24, 32 },
	{ "trsm_f64", { 0, 0, 1 << 18, 1, 0 }, true, true, 256, 256 },
	{ "trsm_f64", { 0, 0, (1 << 18) + 1, 1, 0 }, false, true, 512, 512 },
	/* Whatever has no room in 64 bits, and what there is nothing of. */
	{ "gemm_f64", { 0, 0, 0, 0, 0xffffffff, 0xffffffff, 0xffffffff, 0 }, false, false, 1 << 24, 1024 },
	{ "gemm_f64", { 0, 0, 0, 0, 0xffffffff, 0, 0xffffffff, 0 }, true, true, 1, 1 },
	{ "syrk_f64", { 0, 0, 0, 0, 0xffffffff, 0xffffffff, 0 }, false, false, 1 << 24, 1024 },
	{ "trsm_f64", { 0, 0, 0xffffffff, 0xffffffff, 2 }, false, false, 1 << 24, 1024 },
	{ "potrf_f64", { 0xffffffff, 0 }, false, false, 1 << 24, 1024 },
	{ "getrf_nopiv_f64", { 0xffffffff, 0 }, false, false, 1 << 24, 1024 },
	{ "potrf_f64", { 0, 0 }, true, true, 1, 1 },
	/* Groups that have nothing to do are no help to those that have: one has a factorisation. */
	{ "potrf_f64", { 18000, 0 }, true, true, 256, 256 },
	{ "potrf_f64", { 18000, 0 }, true, false, 256, 1 },
	{ "potrf_f64", { 18000, 0 }, true, false, 1 << 24, 128 },
	{ "potrf_f64", { 2800, 0 }, true, true, 1, 1 },
	{ "getrf_nopiv_f64", { 14000, 0 }, true, false, 1 << 24, 1 },
	{ "getrf_nopiv_f64", { 2200, 0 }, true, true, 1, 1 },
	/* And columns of a triangle's equations, by 32; or rows of those that it is on the right of. */
	{ "trsm_f64", { 0, 0, 1 << 16, 32, 0 }, true, true, 1 << 24, 16 },
	{ "trsm_f64", { 0, 0, 1 << 16, 32, 0 }, true, false, 1 << 24, 15 },
	{ "trsm_f64", { 0, 0, 1 << 16, 96, 0 }, true, true, 1 << 24, 16 },
	{ "trsm_f64", { 0, 0, 32, 1 << 16, 2 }, true, false, 1 << 24, 15 },
	{ "gemm_f64", { 0, 0, 0, 0, 64, 64, 1 << 28, 0 }, true, false, 1 << 24, 128 },
	{ "gemm_f64", { 0, 0, 0, 0, 64, 65, 1 << 27, 0 }, true, true, 1 << 24, 128 },
	{ "syrk_f64", { 0, 0, 0, 0, 128, 1 << 26, 0 }, true, false, 1 << 24, 32 },
	{ "syrk_f64", { 0, 0, 0, 0, 128, 1 << 26, 0 }, true, true, 1 << 24, 64 },
	/* A GPU has no more for one of its threads than a core. */
	{ "matmul_f32", { 8192, 8192, 8192 }, true, true, 1 << 16, 32 },
	{ "matmul_f32", { 16384, 16384, 16384 }, false, true, 1 << 16, 32 },
	{ "matmul_f32", { 65536, 65536, 65536 }, false, false, 1 << 24, 32 },
	{ "matmul_f32", { 8192, 8192, 8192 }, true, true, 128, 32 },
	{ "matmul_f32", { 8192, 8192, 8192 }, true, false, 64, 32 },
};

#define NR_WORKS	((int)(sizeof(works) / sizeof(works[0])))

START_TEST(work_is_what_it_takes)
{
	const struct kernel *k = registry_find(registry, works[_i].name);
	struct arax_launch l = { .args = works[_i].args, .arg_len = sizeof(works[_i].args),
				 .grid = { works[_i].threads / works[_i].block, 1, 1 },
				 .block = { works[_i].block, 1, 1 } };

	ck_assert_ptr_nonnull(k);
	for (int gpu = 0; gpu < 2; gpu++)
		ck_assert_msg((work_check(k, &l, gpu) == 0) ==
			      (gpu ? works[_i].gpu : works[_i].here),
			      "%s, number %d: %s%s", works[_i].name, _i, gpu ? "on a GPU: " : "",
			      work_check(k, &l, gpu) ? "refused" : "not refused");
}
END_TEST

/* Of the model of run times: whole tiles would be one size for all that is small. */
START_TEST(sizes_are_of_elements)
{
	static const struct {
		const char *name;
		uint32_t args[9];
		uint64_t size;
	} sizes[] = {
		{ "gemm_f64", { 0, 0, 0, 0, 5, 7, 9, 0 }, 315 },
		{ "gemm_f32", { 0, 0, 5, 7, 9, 0 }, 315 },
		{ "syrk_f64", { 0, 0, 0, 0, 5, 8, 0 }, 100 },
		{ "trsm_f64", { 0, 0, 5, 8, 0 }, 80 },
		{ "trsm_f64", { 0, 0, 5, 8, 2 }, 160 },
		{ "potrf_f64", { 12, 0 }, 288 },
		{ "getrf_nopiv_f64", { 12, 0 }, 576 },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct kernel *k = registry_find(registry, sizes[i].name);
		struct arax_launch l = { .args = sizes[i].args, .arg_len = sizeof(sizes[i].args) };

		ck_assert_ptr_nonnull(k);
		ck_assert_msg(steps_of(&k->size, &l) == sizes[i].size, "%s: %llu", sizes[i].name,
			      (unsigned long long)steps_of(&k->size, &l));
	}
}
END_TEST

/* What its owner may have written into a matrix. */
START_TEST(spmv_contents)
{
	arax_kernel_fn *fn = function_of("spmv");
	uint32_t *args, *begin, *col;
	struct trial t;

	for (int round = 0; round < 20; round++) {
		trial_open(&t, &point_cases[3], SIZE_SOME);
		ck_assert_str_eq(t.c->name, "spmv");
		args = t.args;	/* rows, cols, nnz */
		begin = t.r[0].data;
		col = t.r[1].data;
		if (args[0] && args[2]) {
			col[args[2] - 1] = args[1];
			refused(fn, &t, " with a column beyond the last");
			col[args[2] - 1] = 0xffffffff;
			refused(fn, &t, " with a column far beyond the last");
			col[args[2] - 1] = 0;
			begin[args[0]] = args[2] + 1;
			refused(fn, &t, " with a row that ends behind the matrix");
			begin[args[0]] = args[2];
			begin[0] = 0xffffffff;
			refused(fn, &t, " with a row that begins behind its end");
		}
		trial_close(&t);
	}
}
END_TEST

/* All launches together have a part of the memory, whoever has the lanes: each half of the rest. */
START_TEST(scratch_is_limited)
{
	size_t half = std_scratch_most() / 2;
	char *one = std_scratch(half / 8, 8), *two;

	ck_assert_ptr_nonnull(one);
	ck_assert_ptr_null(std_scratch(half / 16 + 8, 8));
	ck_assert_ptr_null(std_scratch_zeros(UINT64_MAX, 8));
	ck_assert_ptr_null(std_scratch(UINT64_MAX, 1));
	two = std_scratch_zeros(half / 16, 8);
	ck_assert_ptr_nonnull(two);
	for (size_t i = 0; i < 4096; i++)
		ck_assert_int_eq(two[i], 0);
	ck_assert_uint_eq((uintptr_t)two % 16, 0);
	ck_assert_ptr_null(std_scratch(half / 32 + 8, 8));
	std_scratch_free(one);
	ck_assert_ptr_null(std_scratch(half / 8, 8));
	std_scratch_free(two);
	one = std_scratch(half / 8, 8);
	ck_assert_ptr_nonnull(one);
	std_scratch_free(one);
	std_scratch_free(NULL);
}
END_TEST

/* Whatever others hold, and for however long: what is small there is, and is given back as such. */
START_TEST(small_scratch_is_for_all)
{
	void *large[64], *small[64];
	size_t bytes = std_scratch_most() / 2;
	uint32_t nr = 0;

	for (; bytes > STD_SCRATCH_SMALL; bytes /= 2) {
		void *p = std_scratch(bytes, 1);

		if (p)
			large[nr++] = p;
	}
	ck_assert_uint_gt(nr, 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 64; i++) {
			small[i] = std_scratch(STD_SCRATCH_SMALL, 1);
			ck_assert_ptr_nonnull(small[i]);
		}
		for (int i = 0; i < 64; i++)
			std_scratch_free(small[i]);
	}
	ck_assert_ptr_null(std_scratch(std_scratch_most() / 4, 1));
	while (nr)
		std_scratch_free(large[--nr]);
	large[0] = std_scratch(std_scratch_most() / 2, 1);
	ck_assert_ptr_nonnull(large[0]);
	std_scratch_free(large[0]);
}
END_TEST

/* The least of all cgroups that the process is in, one below the other. */
START_TEST(memory_of_a_cgroup)
{
	char top[64], middle[80], low[96], self[80];

	be_mkdir(top);
	snprintf(middle, sizeof(middle), "%s/a.slice", top);
	snprintf(low, sizeof(low), "%s/b.service", middle);
	snprintf(self, sizeof(self), "%s/self", top);
	ck_assert_int_eq(mkdir(middle, 0700), 0);
	ck_assert_int_eq(mkdir(low, 0700), 0);
	ck_assert_uint_eq(std_cgroup_limit(self, top), UINT64_MAX);
	be_write(top, "self", "1:memory:/a.slice\n");
	ck_assert_uint_eq(std_cgroup_limit(self, top), UINT64_MAX);
	be_write(top, "self", "1:name=systemd:/\n0::/a.slice/b.service\n");
	ck_assert_uint_eq(std_cgroup_limit(self, top), UINT64_MAX);
	be_write(low, "memory.max", "max\n");
	ck_assert_uint_eq(std_cgroup_limit(self, top), UINT64_MAX);
	be_write(middle, "memory.max", "3000000000\n");
	ck_assert_uint_eq(std_cgroup_limit(self, top), 3000000000);
	be_write(low, "memory.max", "1000000\n");
	ck_assert_uint_eq(std_cgroup_limit(self, top), 1000000);
	/* As seen from inside a container. */
	be_write(top, "memory.max", "2000000\n");
	be_write(top, "self", "0::/\n");
	ck_assert_uint_eq(std_cgroup_limit(self, top), 2000000);
	ck_assert_uint_le(std_scratch_most(), std_memory_limit() / 4);
	be_rmdir(top);
}
END_TEST

/* And kernels take theirs from it: one that would need more does nothing. */
START_TEST(kernels_have_scratch_only)
{
	uint64_t items = std_scratch_most() / sizeof(double) + 4096;
	struct { uint32_t n, dims, k; } a = { 0, 4096, (uint32_t)(items / 4096) };
	uint64_t bytes = (uint64_t)a.k * a.dims * sizeof(float);
	struct arax_launch_range r[3] = { { &a, 0, 0, 1 }, { &a, 0, 0, 1 }, { NULL, bytes, 0, 1 } };
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 3, .grid = { 1, 1, 1 },
				 .block = { 1, 1, 1 }, .group_end = 1, .ranges = r, .args = &a,
				 .arg_len = sizeof(a) };

	/* Address space alone: nothing touches it. */
	r[2].data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(r[2].data, MAP_FAILED);
	ck_assert_int_eq(function_of("kmeans_update")(&l), -ENOMEM);
	munmap(r[2].data, bytes);
}
END_TEST

START_TEST(prices_at_the_ends)
{
	double ends[] = { 0, -1, 1e-320, NAN, 1e300 }, y[5];
	struct { double rate, volatility, years, strike; uint32_t n; } a = { 0.08, 0.3, 1, 60, 5 };
	typeof(a) wrong;
	struct arax_launch_range r[2] = { { ends, sizeof(ends), 0, 1 }, { y, sizeof(y), 0, 1 } };
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 2, .grid = { 1, 1, 1 },
				 .block = { 1, 1, 1 }, .group_end = 1, .ranges = r, .args = &a,
				 .arg_len = sizeof(a) };
	arax_kernel_fn *fn = function_of("black_scholes");

	ck_assert_int_eq(fn(&l), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_double_le(fabs(y[i]), 1e-290);
	ck_assert(isnan(y[3]));
	ck_assert_double_le(fabs(y[4] / 1e300 - 1), 1e-12);
	l.args = &wrong;
	for (int i = 0; i < 9; i++) {
		const double none[] = { 0, -1, NAN };

		wrong = a;
		*(i / 3 ? i / 3 == 1 ? &wrong.volatility : &wrong.years : &wrong.strike) = none[i % 3];
		ck_assert_int_eq(fn(&l), -EINVAL);
	}
}
END_TEST

/* But for one of which nothing comes but time. */
START_TEST(each_kernel_has_a_case)
{
	for (uint32_t i = 0; i < registry_count(registry); i++) {
		const char *name = registry_at(registry, i)->sig.name;
		const struct std_case *c;
		bool found = !strcmp(name, "spin");

		for (size_t k = 0; (c = std_case_at(k)) && !found; k++)
			found = !strcmp(c->name, name);
		ck_assert_msg(found, "%s has no case", name);
	}
}
END_TEST

START_TEST(spin)
{
	arax_kernel_fn *fn = function_of("spin");
	struct arax_launch_range r = { &(char){ 0 }, 1, 0, 1 };
	struct timespec a, b;
	uint32_t us = 3000, too_long = 10000001;
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 1, .grid = { 1, 1, 1 },
				 .block = { 1, 1, 1 }, .group_end = 1, .ranges = &r, .args = &us,
				 .arg_len = 4 };

	clock_gettime(CLOCK_MONOTONIC, &a);
	ck_assert_int_eq(fn(&l), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert_int_ge((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec, 3000000);
	l.args = &too_long;
	ck_assert_int_eq(fn(&l), -EINVAL);
	l.args = &us;
	l.arg_len = 3;
	ck_assert_int_eq(fn(&l), -EINVAL);
}
END_TEST

/* That work in place, as is said of them: the first range's place is the last one's. */
static const char *const in_place[] = {
	"vadd", "saxpy", "triad", "square", "divide", "black_scholes", "gray_to_u8", "unsharpen", "combine",
};

#define NR_IN_PLACE	((int)(sizeof(in_place) / sizeof(in_place[0])))

/* Whichever span comes first; or it is refused. */
START_TEST(works_in_place)
{
	const struct kernel *k = registry_find(registry, in_place[_i]);
	arax_kernel_fn *fn = function_of(in_place[_i]);
	const struct std_case *c = NULL;

	for (size_t i = 0; (c = std_case_at(i)) && strcmp(c->name, in_place[_i]);)
		i++;
	ck_assert_ptr_nonnull(c);
	for (int round = 0; round < 20; round++) {
		struct arax_launch l = { .size = sizeof(l), .grid = { 2, 1, 1 }, .block = { 1, 1, 1 } };
		struct arax_launch_range r[TRIAL_MAX_RANGES], *first = &r[0], *last;
		struct trial t;

		trial_open(&t, c, SIZE_SOME);
		memcpy(r, t.r, sizeof(r));
		last = &r[t.nr_ranges - 1];
		/* What is both is there already. */
		if (k->sig.abi.access >> (2 * (t.nr_ranges - 1)) & ARAX_IN)
			memcpy(first->data, last->data, last->length);
		ck_assert_int_eq(run_spans(fn, &t, 2), 0);
		last->data = first->data;
		memcpy(first->data, t.was[0], first->length);
		if (k->sig.abi.access >> (2 * (t.nr_ranges - 1)) & ARAX_IN)
			memcpy(first->data, t.was[t.nr_ranges - 1], last->length);
		l.ranges = r;
		l.nr_ranges = t.nr_ranges;
		l.args = t.args;
		l.arg_len = t.arg_len;
		if (!first->length || !overlap_check(k, &l)) {
			for (l.group_begin = 2; l.group_begin--;) {
				l.group_end = l.group_begin + 1;
				ck_assert_int_eq(fn(&l), 0);
			}
			ck_assert_msg(!memcmp(last->data, t.r[t.nr_ranges - 1].data, last->length),
				      "%s: another result in place", in_place[_i]);
		}
		trial_close(&t);
	}
}
END_TEST

/* arax_launch_share: every item once, whatever the geometry. */
START_TEST(shares_cover)
{
	for (uint32_t groups = 1; groups < 40; groups++)
		for (uint64_t items = 0; items < 100; items += 3) {
			uint64_t next = 0;

			for (uint32_t g = 0; g < groups; g += 2) {
				struct arax_launch l = {
					.grid = { groups, 1, 1 }, .group_begin = g,
					.group_end = g + 2 < groups ? g + 2 : groups,
				};
				uint64_t begin, end;

				arax_launch_share(&l, items, &begin, &end);
				ck_assert_uint_eq(begin, next);
				ck_assert_uint_ge(end, begin);
				next = end;
			}
			ck_assert_uint_eq(next, items);
		}
}
END_TEST

START_TEST(groups_saturate)
{
	struct arax_launch l = { .grid = { UINT32_MAX, UINT32_MAX, UINT32_MAX } };

	ck_assert_uint_eq(arax_launch_groups(&l), UINT64_MAX);
	l.grid[2] = 1;
	ck_assert_uint_eq(arax_launch_groups(&l), (uint64_t)UINT32_MAX * UINT32_MAX);
}
END_TEST

struct conv_shape { uint32_t batch, channels, height, width, filters, kernel_h, kernel_w, stride, pad; };

/* Of layers that there are, of what divides by nothing, and what oneDNN is not asked for. */
static const struct conv_shape shapes[] = {
	{ 1, 64, 56, 56, 64, 3, 3, 1, 1 }, { 1, 256, 28, 28, 64, 1, 1, 1, 0 },
	{ 1, 3, 112, 112, 64, 7, 7, 2, 3 }, { 1, 512, 7, 7, 128, 3, 3, 1, 1 },
	{ 1, 128, 28, 28, 64, 1, 1, 2, 0 }, { 3, 16, 32, 32, 24, 3, 3, 1, 1 },
	{ 2, 7, 41, 37, 13, 5, 3, 3, 2 }, { 5, 9, 17, 130, 33, 4, 2, 2, 1 },
	{ 1, 1, 300, 200, 1, 3, 3, 1, 0 }, { 1, 40, 12, 300, 3, 12, 5, 1, 0 },
	{ 2, 30, 20, 20, 30, 1, 3, 1, 2 }, { 1, 1, 9, 9, 1, 3, 3, 1, 1 },
	{ 4, 20, 9, 9, 100, 3, 3, 4, 2 },
};

static float *floats(uint64_t n)
{
	float *p = malloc(n * sizeof(*p) + !n);

	for (uint64_t i = 0; i < n; i++)
		p[i] = (float)trial_random(2001) / 1000 - 1;
	return p;
}

/* By oneDNN where it is: what it computes in parts is what this library's own loops do. */
START_TEST(conv2d_in_parts)
{
	const struct conv_shape *s = &shapes[_i];
	uint64_t in = (uint64_t)s->batch * s->channels * s->height * s->width;
	uint64_t taps = (uint64_t)s->channels * s->kernel_h * s->kernel_w;
	uint64_t out = ((s->height + 2 * s->pad - s->kernel_h) / s->stride + 1) *
		       (uint64_t)((s->width + 2 * s->pad - s->kernel_w) / s->stride + 1) *
		       s->filters * s->batch;
	static const uint32_t spans[] = { 1, 2, 3, 8, 64 };
	arax_kernel_fn *fn = function_of("conv2d_f32"), *own;
	struct arax_launch_range r[4] = {
		{ floats(in), in * 4, 0, 1 }, { floats(taps * s->filters), taps * s->filters * 4, 0, 1 },
		{ floats(s->filters), _i % 2 ? s->filters * 4 : 0, 0, 1 }, { NULL, out * 4, 0, 1 },
	};
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 4, .ranges = r, .args = s,
				 .arg_len = sizeof(*s) };
	float *wanted = malloc(out * 4), *got = malloc(out * 4);
	void *library = dlopen(FOLDER "/arax-std.so", RTLD_NOW);

	own = (arax_kernel_fn *)dlsym(library, "arax_std_conv2d_own_f32");
	ck_assert(own != NULL);
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
		for (int k = 0; k < 3; k++) {
			l.grid[k] = k ? 1 : spans[i];
			l.block[k] = 1;
		}
		for (int own_now = 0; own_now < 2; own_now++) {
			memset(own_now ? wanted : got, 0x7f, out * 4);
			r[3].data = own_now ? wanted : got;
			for (l.group_begin = 0; l.group_begin < spans[i]; l.group_begin = l.group_end) {
				l.group_end = l.group_begin + 1;
				ck_assert_int_eq((own_now ? own : fn)(&l), 0);
			}
		}
		/* Sums of about this many terms of at most 1. */
		for (uint64_t j = 0; j < out; j++)
			ck_assert_msg(fabsf(got[j] - wanted[j]) <= 1e-6f * (float)(taps + 1),
				      "shape %d in %u, item %lu: %g, not %g", _i, spans[i],
				      (unsigned long)j, (double)got[j], (double)wanted[j]);
	}
	for (int i = 0; i < 3; i++)
		free(r[i].data);
	free(wanted);
	free(got);
}
END_TEST

/* What oneDNN would take, too, by this library's own loops. */
START_TEST(conv2d_by_own_loops)
{
	static const enum trial_size sizes[] = { SIZE_SOME, SIZE_HUGE, SIZE_LONG };
	const struct std_case *c = &nn_cases[1];
	const struct kernel *k = kernel_of(c);
	void *library = dlopen(FOLDER "/arax-std.so", RTLD_NOW);
	arax_kernel_fn *own = (arax_kernel_fn *)dlsym(library, "arax_std_conv2d_own_f32");

	ck_assert_str_eq(c->name, "conv2d_f32");
	ck_assert_ptr_nonnull(own);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct trial t;

		trial_open(&t, c, sizes[i]);
		ck_assert_int_eq(run_spans(own, &t, spans_of(k)), 0);
		trial_check(&t, k->sig.abi.access);
		trial_close(&t);
	}
}
END_TEST

/* A convolution of which threads compute a work-group each, all at once. */
struct together {
	arax_kernel_fn *fn;
	struct arax_launch l;
	uint32_t next;
	int err;
};

static void *take_groups(void *arg)
{
	struct together *t = arg;
	struct arax_launch l = t->l;

	for (;;) {
		int err;

		l.group_begin = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);
		if (l.group_begin >= l.grid[0])
			return NULL;
		l.group_end = l.group_begin + 1;
		err = t->fn(&l);
		if (err)
			__atomic_store_n(&t->err, err, __ATOMIC_RELAXED);
	}
}

START_TEST(conv2d_by_threads)
{
	/* In blocks of rows, and of filters. */
	static const struct conv_shape some[] = { { 2, 32, 40, 40, 48, 3, 3, 1, 1 },
						  { 2, 96, 14, 14, 160, 1, 1, 1, 0 } };
	const struct conv_shape *s = &some[_i];
	uint64_t in = (uint64_t)s->batch * s->channels * s->height * s->width;
	uint64_t weights = (uint64_t)s->filters * s->channels * s->kernel_h * s->kernel_w;
	uint64_t out = (uint64_t)s->batch * s->filters * s->height * s->width;
	struct arax_launch_range r[4] = { { floats(in), in * 4, 0, 1 }, { floats(weights), weights * 4, 0, 1 },
					  { NULL, 0, 0, 1 }, { malloc(out * 4), out * 4, 0, 1 } };
	float *got = r[3].data, *wanted = malloc(out * 4);
	struct together t = {
		.fn = function_of("conv2d_f32"),
		.l = { .size = sizeof(t.l), .nr_ranges = 4, .ranges = r, .args = s,
		       .arg_len = sizeof(*s), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 }, .group_end = 1 },
	};
	pthread_t threads[4];

	ck_assert_int_eq(t.fn(&t.l), 0);
	memcpy(wanted, got, out * 4);
	t.l.grid[0] = 12;
	for (int round = 0; round < 10; round++) {
		memset(got, 0, out * 4);
		t.next = 0;
		for (int i = 0; i < 4; i++)
			ck_assert_int_eq(pthread_create(&threads[i], NULL, take_groups, &t), 0);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		ck_assert_int_eq(t.err, 0);
		for (uint64_t j = 0; j < out; j++)
			ck_assert_msg(fabsf(got[j] - wanted[j]) < 1e-3f, "item %lu: %g, not %g",
				      (unsigned long)j, (double)got[j], (double)wanted[j]);
	}
	for (int i = 0; i < 4; i++)
		free(r[i].data);
	free(wanted);
}
END_TEST

static char *stack_low, *stack_high;
static volatile sig_atomic_t came, strayed;

static void note_place(int sig)
{
	char *here = __builtin_frame_address(0);

	came++;
	strayed += here < stack_low || here >= stack_high;
}

/*
 * Code that oneDNN makes has data's addresses in the stack pointer: there no signal may come, or what
 * its handler stores is stored into that data, or below it.
 */
START_TEST(conv2d_has_a_stack_for_signals)
{
	static const struct conv_shape some[] = { { 1, 256, 28, 28, 64, 1, 1, 1, 0 },
						  { 1, 512, 7, 7, 128, 3, 3, 1, 1 },
						  { 4, 20, 9, 9, 100, 3, 3, 4, 2 } };
	const struct conv_shape *s = &some[_i];
	uint64_t out = (uint64_t)s->batch * s->filters * ((s->height + 2 * s->pad - s->kernel_h) / s->stride + 1) *
		       ((s->width + 2 * s->pad - s->kernel_w) / s->stride + 1);
	uint64_t in = (uint64_t)s->batch * s->channels * s->height * s->width;
	uint64_t weights = (uint64_t)s->filters * s->channels * s->kernel_h * s->kernel_w;
	struct arax_launch_range r[4] = { { floats(in), in * 4, 0, 1 }, { floats(weights), weights * 4, 0, 1 },
					  { NULL, 0, 0, 1 }, { malloc(out * 4), out * 4, 0, 1 } };
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 4, .ranges = r, .args = s,
				 .arg_len = sizeof(*s), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
				 .group_end = 1 };
	struct itimerspec often = { { 0, 500000 }, { 0, 500000 } }, never = { 0 };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct sigaction sa = { .sa_handler = note_place, .sa_flags = SA_ONSTACK | SA_RESTART };
	arax_kernel_fn *fn = function_of("conv2d_f32");
	stack_t before, after;
	pthread_attr_t attr;
	timer_t timer;
	size_t size;
	void *low;

	ck_assert_int_eq(pthread_getattr_np(pthread_self(), &attr), 0);
	ck_assert_int_eq(pthread_attr_getstack(&attr, &low, &size), 0);
	stack_low = low;
	stack_high = stack_low + size;
	ck_assert_int_eq(sigaltstack(NULL, &before), 0);
	ck_assert_int_eq(sigaction(SIGRTMIN, &sa, NULL), 0);
	ck_assert_int_eq(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	ck_assert_int_eq(timer_settime(timer, 0, &often, NULL), 0);
	while (came < 300 && !strayed)
		ck_assert_int_eq(fn(&l), 0);
	ck_assert_int_eq(timer_settime(timer, 0, &never, NULL), 0);
	ck_assert_msg(!strayed, "a signal came where there is no stack");
	/* It is not there any longer than it is needed. */
	ck_assert_int_eq(sigaltstack(NULL, &after), 0);
	ck_assert_int_eq(after.ss_flags, before.ss_flags);
	ck_assert_ptr_eq(after.ss_sp, before.ss_sp);
	timer_delete(timer);
	pthread_attr_destroy(&attr);
	for (int i = 0; i < 4; i++)
		free(r[i].data);
}
END_TEST

/* It would be a silent loss if nothing were computed by it any more. */
START_TEST(conv2d_has_the_library)
{
#ifdef STD_HAS_DNN
	float x[64 * 100], weights[64 * 9 * 64], y[64 * 100];
	struct conv_shape s = { 1, 64, 10, 10, 64, 3, 3, 1, 1 };
	struct arax_launch_range r[4] = { { x, sizeof(x), 0, 1 }, { weights, sizeof(weights), 0, 1 },
					  { x, 0, 0, 1 }, { y, sizeof(y), 0, 1 } };
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 4, .ranges = r, .args = &s,
				 .arg_len = sizeof(s), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
				 .group_end = 1 };

	memset(x, 0, sizeof(x));
	memset(weights, 0, sizeof(weights));
	ck_assert_ptr_null(dlopen("libdnnl.so.2", RTLD_NOW | RTLD_NOLOAD));
	ck_assert_int_eq(function_of("conv2d_f32")(&l), 0);
	ck_assert(dlopen("libdnnl.so.2", RTLD_NOW | RTLD_NOLOAD) ||
		  !dlopen("libdnnl.so.2", RTLD_NOW));
#else
	be_skip("conv2d_has_the_library", "arax-std was built without oneDNN (Debian: libdnnl-dev)");
#endif
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("std");
	TCase *t = tcase_create("all");
	int nr = (int)std_cases_here("std");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, references, 0, nr);
	tcase_add_loop_test(t, lengths_are_checked, 0, nr);
	tcase_add_loop_test(t, misaligned_ranges_are_refused, 0, nr);
	tcase_add_loop_test(t, wild_arguments, 0, nr);
	tcase_add_loop_test(t, bad_arguments, 0, NR_BAD);
	tcase_add_loop_test(t, work_is_what_it_takes, 0, NR_WORKS);
	tcase_add_test(t, sizes_are_of_elements);
	tcase_add_test(t, no_terms);
	tcase_add_test(t, spmv_contents);
	tcase_add_test(t, scratch_is_limited);
	tcase_add_test(t, small_scratch_is_for_all);
	tcase_add_test(t, memory_of_a_cgroup);
	tcase_add_test(t, kernels_have_scratch_only);
	tcase_add_test(t, prices_at_the_ends);
	tcase_add_test(t, each_kernel_has_a_case);
	tcase_add_test(t, spin);
	tcase_add_loop_test(t, works_in_place, 0, NR_IN_PLACE);
	tcase_add_test(t, shares_cover);
	tcase_add_test(t, groups_saturate);
	tcase_add_loop_test(t, conv2d_in_parts, 0, sizeof(shapes) / sizeof(shapes[0]));
	tcase_add_test(t, conv2d_by_own_loops);
	tcase_add_loop_test(t, conv2d_by_threads, 0, 2);
	tcase_add_loop_test(t, conv2d_has_a_stack_for_signals, 0, 3);
	tcase_add_test(t, conv2d_has_the_library);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
