/* SPDX-License-Identifier: MIT */
/*
 * be_same.h - arax-std on another kind of device against arax-std on the CPU: the same
 * random inputs and arguments, the same results within the tolerances below.
 *
 *	exact		one rounding for each operation, in the same order
 *	3 ulp		a division or square root, which OpenCL may round so
 *	sums		1e-13 of the sum of absolute values: another order, in f64
 *	blur		2e-6 of what is at most 1: exp() differs by 3 ulp
 *
 * Who includes it defines KIND (ARAX_DEVICE_*), open_kind(options), and variants[] of
 * options.
 */
#ifndef ARAX_SELFTESTS_UNIT_BE_SAME_H
#define ARAX_SELFTESTS_UNIT_BE_SAME_H

#include <dlfcn.h>
#include <float.h>
#include <math.h>

#include "daemon/kernels/registry.h"
#include "selftests/unit/be_device.h"

#define MAX_RANGES 4

enum fit { EXACT, ULPS, SUM, BLUR };

/* Items of a range: so many for each of n, or one alone. */
struct shape {
	uint32_t bytes, each;
};

enum args { N, S_N, SIZE, WINDOW };

static const struct spec {
	const char *name;
	struct shape ranges[MAX_RANGES];
	enum args args;
	enum fit fit;
} specs[] = {
	{ "vadd", { { 4, 1 }, { 4, 1 }, { 4, 1 } }, N, EXACT },
	{ "saxpy", { { 4, 1 }, { 4, 1 } }, S_N, EXACT },
	{ "triad", { { 4, 1 }, { 4, 1 }, { 4, 1 } }, S_N, EXACT },
	{ "square", { { 4, 1 }, { 4, 1 } }, N, EXACT },
	{ "sum_f32", { { 4, 1 }, { 8, 0 } }, N, SUM },
	{ "max_f32", { { 4, 1 }, { 4, 0 } }, N, EXACT },
	{ "min_f32", { { 4, 1 }, { 4, 0 } }, N, EXACT },
	{ "rgb_to_gray", { { 1, 3 }, { 4, 1 } }, N, ULPS },
	{ "gray_to_u8", { { 4, 1 }, { 1, 1 } }, N, EXACT },
	{ "blur", { { 4, 1 }, { 4, 1 } }, WINDOW, BLUR },
	{ "sobel", { { 4, 1 }, { 4, 1 } }, SIZE, ULPS },
	{ "extend", { { 4, 0 }, { 4, 0 }, { 4, 1 } }, N, ULPS },
	{ "unsharpen", { { 4, 1 }, { 4, 1 }, { 4, 1 } }, S_N, EXACT },
	{ "combine", { { 4, 1 }, { 4, 1 }, { 4, 1 }, { 4, 1 } }, N, EXACT },
};

#define NR_SPECS (sizeof(specs) / sizeof(specs[0]))

static struct registry *registry;
static void *library;
static unsigned int first_seed, seed;

/* One kernel on both sides. */
struct trial {
	const struct spec *spec;
	const struct kernel *k;
	arax_kernel_fn *cpu;
	void *other;
	struct device *dev;
	uint32_t nr_ranges;
	uint8_t *cpu_data[MAX_RANGES], *other_data[MAX_RANGES];
	uint64_t bytes[MAX_RANGES];
	uint32_t args[4], arg_len, n;
};

static uint32_t random_to(uint32_t n)
{
	return n ? (uint32_t)(((uint64_t)rand_r(&seed) * n) / ((uint64_t)RAND_MAX + 1)) : 0;
}

static void open_trial(struct trial *t, const struct spec *s)
{
	struct arax_backend_kernel desc = { .size = sizeof(desc) };
	const struct kernel_impl *impl;
	char symbol[64];

	memset(t, 0, sizeof(*t));
	t->spec = s;
	t->dev = devices_at(devices, 0);
	t->k = registry_find(registry, s->name);
	ck_assert_ptr_nonnull(t->k);
	snprintf(symbol, sizeof(symbol), "arax_std_%s", s->name);
	t->cpu = (arax_kernel_fn *)dlsym(library, symbol);
	ck_assert_ptr_nonnull(t->cpu);
	impl = kernel_impl(t->k, KIND);
	ck_assert_msg(!!impl, "%s is not for this kind", s->name);
	desc.fd = impl->fd;
	desc.file = impl->file;
	desc.symbol = impl->symbol;
	desc.signature = t->k->sig.text;
	ck_assert_int_eq(device_kernel_load(t->dev, &desc, &t->other), 0);
	t->nr_ranges = t->k->sig.abi.nr_ranges;
	t->arg_len = t->k->sig.abi.arg_len;
}

static float random_float(void)
{
	return (float)rand_r(&seed) / (float)RAND_MAX * 3 - 1;
}

static void fill(uint8_t *p, uint64_t bytes, uint32_t item)
{
	if (item == 1)
		for (uint64_t i = 0; i < bytes; i++)
			p[i] = (uint8_t)rand_r(&seed);
	else
		for (uint64_t i = 0; i + 4 <= bytes; i += 4)
			*(float *)(p + i) = random_float();
}

/* Width and height as given; n is their product where the kernel has no image. */
static void prepare(struct trial *t, uint32_t width, uint32_t height)
{
	float f = random_float();

	t->n = width * height;
	if (t->spec->args == N)
		t->args[0] = t->n;
	if (t->spec->args == S_N) {
		memcpy(&t->args[0], &f, 4);
		t->args[1] = t->n;
	}
	if (t->spec->args == SIZE || t->spec->args == WINDOW) {
		t->args[0] = width;
		t->args[1] = height;
	}
	if (t->spec->args == WINDOW) {
		t->args[2] = 1 + 2 * random_to(t->n > 1u << 20 ? 3 : 8);
		f = 0.5f + (float)random_to(100) / 10;
		memcpy(&t->args[3], &f, 4);
	}
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		const struct shape *s = &t->spec->ranges[i];

		t->bytes[i] = s->each ? (uint64_t)s->bytes * s->each * t->n : s->bytes;
		t->cpu_data[i] = malloc(t->bytes[i] + 1);
		t->other_data[i] = malloc(t->bytes[i] + 1);
		ck_assert(t->cpu_data[i] && t->other_data[i]);
		fill(t->cpu_data[i], t->bytes[i], s->bytes);
		memcpy(t->other_data[i], t->cpu_data[i], t->bytes[i]);
	}
}

static int run_cpu(struct trial *t)
{
	struct arax_launch_range r[MAX_RANGES];
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = t->nr_ranges, .grid = { 1, 1, 1 },
				 .block = { 1, 1, 1 }, .group_end = 1, .ranges = r,
				 .args = t->args, .arg_len = t->arg_len };

	for (uint32_t i = 0; i < t->nr_ranges; i++)
		r[i] = (struct arax_launch_range){ t->cpu_data[i], t->bytes[i], 0, 1 };
	return t->cpu(&l);
}

static int run_other(struct trial *t)
{
	struct arax_launch_range r[MAX_RANGES];
	uint64_t at[MAX_RANGES];
	uint32_t grid = 1 + random_to(70), block = random_to(2) ? 1 : 5;
	int err;

	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		r[i] = (struct arax_launch_range){ t->other_data[i], t->bytes[i], 0, 1 };
		if (!t->dev->info.memory)
			continue;
		ck_assert_int_eq(device_alloc(t->dev, t->bytes[i] ? t->bytes[i] : 1, 0, &at[i]), 0);
		ck_assert_int_eq(device_copy_in(t->dev, 0, at[i], r[i].data, r[i].length), 0);
		r[i].data = (void *)(uintptr_t)at[i];
	}
	err = launch(t->dev, t->other, 0, grid, block, r, t->nr_ranges, t->args, t->arg_len);
	for (uint32_t i = 0; t->dev->info.memory && i < t->nr_ranges; i++) {
		ck_assert_int_eq(device_copy_out(t->dev, 0, t->other_data[i], at[i], t->bytes[i]), 0);
		device_free(t->dev, at[i]);
	}
	return err;
}

static bool fits(const struct trial *t, uint32_t range, uint64_t i, double scale)
{
	const float *a = (const float *)t->cpu_data[range], *b = (const float *)t->other_data[range];
	float diff = fabsf(a[i] - b[i]);

	switch (t->spec->fit) {
	case EXACT:
		return !memcmp(&a[i], &b[i], 4);
	case ULPS:
		return diff <= 3 * FLT_EPSILON * fabsf(a[i]);
	case BLUR:
		return diff <= 2e-6f * 2;	/* inputs are up to 2 */
	case SUM:
		break;
	}
	return fabs(*(const double *)a - *(const double *)b) <= 1e-13 * scale;
}

static void compare(const struct trial *t)
{
	double scale = 0;

	for (uint64_t i = 0; t->spec->fit == SUM && i < t->n; i++)
		scale += fabs((double)((const float *)t->cpu_data[0])[i]);
	for (uint32_t r = 0; r < t->nr_ranges; r++) {
		uint32_t item = t->spec->ranges[r].bytes;

		/* Inputs are as they were, bytes exact. */
		if (item == 1 || !(t->k->sig.abi.access >> (2 * r) & ARAX_OUT)) {
			ck_assert_msg(!memcmp(t->cpu_data[r], t->other_data[r], t->bytes[r]),
				      "%s: range %u differs", t->spec->name, r);
			continue;
		}
		for (uint64_t i = 0; i < t->bytes[r] / item; i++)
			ck_assert_msg(fits(t, r, i, scale), "%s, %u items: range %u, item %lu: %.9g, not %.9g (ARAX_SEED=%u)",
				      t->spec->name, t->n, r, (unsigned long)i,
				      (double)((float *)t->other_data[r])[i],
				      (double)((float *)t->cpu_data[r])[i], first_seed);
	}
}

static void free_data(struct trial *t)
{
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		free(t->cpu_data[i]);
		free(t->other_data[i]);
	}
}

static void try(struct trial *t, uint32_t width, uint32_t height)
{
	int want, got;

	prepare(t, width, height);
	want = run_cpu(t);
	got = run_other(t);
	ck_assert_msg(want == got, "%s, %u x %u: %d, not %d", t->spec->name, width, height, got,
		      want);
	if (!want)
		compare(t);
	free_data(t);
}

static void open_all(const char *options)
{
	ck_assert_int_eq(open_kind(options), 0);
	registry = registry_create();
	ck_assert_int_ge(registry_load_folder(registry, "build/lib/arax/kernels"), 33);
	library = dlopen("build/lib/arax/kernels/arax-std.so", RTLD_NOW);
	ck_assert_ptr_nonnull(library);
	/* Of each run another one; ARAX_SEED repeats one that failed. */
	first_seed = getenv("ARAX_SEED") ? (unsigned int)atoi(getenv("ARAX_SEED")) :
					   (unsigned int)getpid();
	seed = first_seed;
}

static void close_all(void)
{
	registry_destroy(registry);
	dlclose(library);
}

START_TEST(random_shapes)
{
	static const uint32_t fixed[][2] = {
		{ 0, 0 }, { 0, 5 }, { 1, 1 }, { 1, 2 }, { 2, 1 }, { 3, 1 }, { 1, 997 }, { 997, 1 },
		{ 17, 31 }, { 64, 64 }, { 129, 5 },
	};
	const size_t nr_fixed = sizeof(fixed) / sizeof(fixed[0]);

	open_all(variants[_i]);
	for (size_t s = 0; s < NR_SPECS; s++) {
		struct trial t;

		open_trial(&t, &specs[s]);
		for (size_t i = 0; i < nr_fixed + 8; i++)
			try(&t, i < nr_fixed ? fixed[i][0] : 1 + random_to(300),
			    i < nr_fixed ? fixed[i][1] : 1 + random_to(100));
		device_kernel_unload(t.dev, t.other);
	}
	close_all();
}
END_TEST

/* Larger than caches and than what one work-item should do. */
START_TEST(huge_shapes)
{
	open_all(variants[0]);
	for (size_t s = 0; s < NR_SPECS; s++) {
		bool image = specs[s].args == SIZE || specs[s].args == WINDOW;
		struct trial t;

		open_trial(&t, &specs[s]);
		try(&t, image ? 403 : 300007, image ? 301 : 1);
		if (image)
			try(&t, 1, 30011);
		if (!s)	/* beyond any cache, once */
			try(&t, 3000017, 1);
		device_kernel_unload(t.dev, t.other);
	}
	close_all();
}
END_TEST

/* Ranges that are too short by one, or empty: refused as on the CPU, nothing written. */
START_TEST(lengths_are_checked)
{
	open_all(variants[_i]);
	for (size_t s = 0; s < NR_SPECS; s++) {
		struct trial t;

		open_trial(&t, &specs[s]);
		for (uint32_t r = 0; r < t.nr_ranges; r++)
			for (int cut = 0; cut < 2; cut++) {
				prepare(&t, 13, 11);
				t.bytes[r] = cut ? 0 : t.bytes[r] - 1;
				ck_assert_int_eq(run_cpu(&t), -EINVAL);
				ck_assert_msg(run_other(&t) == -EINVAL, "%s: range %u, cut %d",
					      t.spec->name, r, cut);
				t.bytes[r] = 0;	/* equal as far as it was given */
				compare(&t);
				free_data(&t);
			}
		device_kernel_unload(t.dev, t.other);
	}
	close_all();
}
END_TEST

/* Arguments at their ends: nothing wraps around, nothing is touched. */
START_TEST(wild_arguments)
{
	static const uint32_t wild[] = { 0xffffffff, 0x80000000, 0x40000000, 0x55555556, 65536 };

	open_all(variants[0]);
	for (size_t s = 0; s < NR_SPECS; s++)
		for (size_t w = 0; w < sizeof(wild) / sizeof(wild[0]); w++) {
			struct trial t;

			open_trial(&t, &specs[s]);
			prepare(&t, 10, 10);
			for (int i = 0; i < 4; i++)
				t.args[i] = wild[w];
			ck_assert_int_eq(run_cpu(&t), -EINVAL);
			ck_assert_msg(run_other(&t) == -EINVAL, "%s: %#x", t.spec->name, wild[w]);
			compare(&t);
			free_data(&t);
			device_kernel_unload(t.dev, t.other);
		}
	close_all();
}
END_TEST

/* @nr: variants; @before: of each test, may be NULL */
static Suite *same_suite(const char *name, int nr, SFun before)
{
	Suite *suite = suite_create(name);
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, setup, teardown);
	if (before)
		tcase_add_checked_fixture(t, before, NULL);
	tcase_add_loop_test(t, random_shapes, 0, nr);
	tcase_add_test(t, huge_shapes);
	tcase_add_loop_test(t, lengths_are_checked, 0, nr);
	tcase_add_test(t, wild_arguments);
	suite_add_tcase(suite, t);
	return suite;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_SAME_H */
