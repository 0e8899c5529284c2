/* SPDX-License-Identifier: MIT */
/*
 * be_cases.h - the kernels that come with Arax, on a kind of device: each by its case
 * (std_case.h), which is what be_std.c runs on the CPU; in ranges that end where a page does,
 * and are used in place or copied to memory of the device's own
 *
 * Who includes it defines KIND (ARAX_DEVICE_*), open_kind(options), variants[] of options, and
 * BLOCK (threads of a work-group).
 */
#ifndef ARAX_SELFTESTS_UNIT_BE_CASES_H
#define ARAX_SELFTESTS_UNIT_BE_CASES_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/kernels/registry.h"
#include "selftests/unit/be_device.h"
#include "selftests/unit/std_case.h"

#define FOLDER	"build/lib/arax/kernels"
#define ROUNDS	10

static struct registry *registry;
static struct device *dev;
static atomic_bool stop;

static void open_all(const char *options)
{
	log_max_level = LOG_LEVEL_WARNING;
	ck_assert_int_eq(open_kind(options), 0);
	dev = devices_at(devices, 0);
	registry = registry_create();
	ck_assert_int_gt(registry_load_folder(registry, FOLDER), 0);
	trial_seed();
}

static void close_all(void)
{
	registry_destroy(registry);
}

/* The next case that is for this kind, loaded; false behind the last. */
static bool next_case(size_t *i, const struct kernel **k, void **kernel)
{
	struct arax_backend_kernel desc = { .size = sizeof(desc) };
	const struct kernel_impl *impl;
	const struct std_case *c;

	for (; (c = std_case_at(*i)); (*i)++) {
		*k = registry_find(registry, c->name);
		ck_assert_msg(*k || access(FOLDER "/arax-blas.so", F_OK), "no kernel %s", c->name);
		impl = *k ? kernel_impl(*k, KIND) : NULL;
		if (!impl)
			continue;
		desc.fd = impl->fd;
		desc.file = impl->file;
		desc.symbol = impl->symbol;
		desc.signature = (*k)->sig.text;
		ck_assert_int_eq(device_kernel_load(dev, &desc, kernel), 0);
		return true;
	}
	return false;
}

static int run(struct trial *t, void *kernel, uint32_t grid, uint32_t block)
{
	struct arax_launch_range r[TRIAL_MAX_RANGES];
	uint64_t at[TRIAL_MAX_RANGES];
	bool own = dev->info.memory;
	int err;

	memcpy(r, t->r, sizeof(r));
	for (uint32_t i = 0; own && i < t->nr_ranges; i++) {
		ck_assert_int_eq(device_alloc(dev, r[i].length ? r[i].length : 1, 0, &at[i]), 0);
		ck_assert_int_eq(device_copy_in(dev, 0, at[i], r[i].data, r[i].length), 0);
		r[i].data = (void *)(uintptr_t)at[i];
	}
	err = launch(dev, kernel, 0, grid, block, r, t->nr_ranges, t->args, t->arg_len);
	for (uint32_t i = 0; own && i < t->nr_ranges; i++) {
		ck_assert_int_eq(device_copy_out(dev, 0, t->r[i].data, at[i], t->r[i].length), 0);
		device_free(dev, at[i]);
	}
	return err;
}

static uint32_t some_grid(void)
{
	return trial_random(2) ? 1 : 1 + trial_random(40);
}

START_TEST(references)
{
	const struct kernel *k;
	void *kernel;

	open_all(variants[_i]);
	for (size_t i = 0; next_case(&i, &k, &kernel); i++) {
		for (int round = 0; round < ROUNDS; round++) {
			/* Once without company: no barrier has two sides then. */
			uint32_t block = round == 2 && !_i ? 1 : BLOCK;
			struct trial t;

			trial_open(&t, std_case_at(i), round < 2 ? (enum trial_size)round :
				   round < ROUNDS - 1 || _i ? SIZE_SOME : SIZE_HUGE);
			ck_assert_msg(!run(&t, kernel, some_grid(), block), "%s: round %d",
				      t.c->name,
				      round);
			trial_check(&t, k->sig.abi.access);
			trial_close(&t);
		}
		device_kernel_unload(dev, kernel);
	}
	close_all();
}
END_TEST

/* Ranges that are too short by one byte, or empty: refused as on the CPU, nothing written. */
START_TEST(lengths_are_checked)
{
	const struct kernel *k;
	void *kernel;

	open_all(variants[_i]);
	for (size_t i = 0; next_case(&i, &k, &kernel); i++) {
		struct trial t;

		trial_open(&t, std_case_at(i), SIZE_ONE);
		for (uint32_t r = 0; r < t.nr_ranges; r++)
			for (int cut = 0; cut < 2; cut++) {
				uint64_t whole = t.r[r].length;

				if (t.c->optional >> r & 1 || !whole)
					continue;
				t.r[r].length = cut ? 0 : whole - 1;
				ck_assert_msg(run(&t, kernel, 2, BLOCK) == -EINVAL, "%s: range %u",
					      t.c->name, r);
				t.r[r].length = whole;
			}
		trial_check_untouched(&t, " by a refused launch");
		trial_close(&t);
		device_kernel_unload(dev, kernel);
	}
	close_all();
}
END_TEST

/* All plain u32 at their ends: nothing wraps around, nothing is touched. */
START_TEST(wild_arguments)
{
	static const uint32_t wild[] = { 0xffffffff, 0x80000000, 0x40000000, 0x55555556, 0x10001,
					 65536 };
	const struct kernel *k;
	void *kernel;

	open_all(variants[0]);
	for (size_t i = 0; next_case(&i, &k, &kernel); i++) {
		uint32_t at[16], nr = std_case_words(k->sig.text, at);

		for (size_t w = 0; nr && w < sizeof(wild) / sizeof(wild[0]); w++) {
			struct trial t;

			trial_open(&t, std_case_at(i), SIZE_ONE);
			for (uint32_t j = 0; j < nr; j++)
				memcpy((char *)t.args + at[j], &wild[w], 4);
			ck_assert_msg(run(&t, kernel, 2, BLOCK) == -EINVAL, "%s: %#x", t.c->name,
				      wild[w]);
			trial_check_untouched(&t, " by a refused launch");
			trial_close(&t);
		}
		device_kernel_unload(dev, kernel);
	}
	close_all();
}
END_TEST

/* Ranges of bytes begin where they like. */
typedef uint32_t any_word __attribute__((aligned(1)));

/* A client that writes to its ranges while the kernel runs, as fast as it can. */
static void *scribble(void *arg)
{
	const struct trial *t = arg;
	uint64_t x = 88172645463325252u;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		const struct arax_launch_range *r;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		r = &t->r[x % t->nr_ranges];
		if (r->length >= 4)
			((volatile any_word *)r->data)[(x >> 8) % (r->length / 4)] =
				(uint32_t)(x >> 32) >> (x >> 4 & 31);
	}
	return NULL;
}

/* Whatever comes of it: nothing outside of the ranges is touched, which would be a fault. */
START_TEST(contents_change)
{
	const struct kernel *k;
	void *kernel;

	open_all(variants[0]);
	for (size_t i = 0; next_case(&i, &k, &kernel); i++) {
		for (int round = 0; round < 3; round++) {
			pthread_t thread;
			struct trial t;
			int err;

			trial_open(&t, std_case_at(i), SIZE_SOME);
			atomic_store(&stop, false);
			ck_assert_int_eq(pthread_create(&thread, NULL, scribble, &t), 0);
			for (int again = 0; again < 5; again++) {
				err = run(&t, kernel, some_grid(), BLOCK);
				/* A matrix tells that it has become wrong. */
				ck_assert_msg(!err || (err == -EINVAL &&
						       !strcmp(t.c->name, "spmv")),
					      "%s: %d", t.c->name, err);
			}
			atomic_store(&stop, true);
			pthread_join(thread, NULL);
			trial_close(&t);
		}
		device_kernel_unload(dev, kernel);
	}
	close_all();
}
END_TEST

/* @nr: variants; @before: of each test, may be NULL */
static Suite *case_suite(const char *name, int nr, SFun before)
{
	Suite *suite = suite_create(name);
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, setup, teardown);
	if (before)
		tcase_add_checked_fixture(t, before, NULL);
	tcase_add_loop_test(t, references, 0, nr);
	tcase_add_loop_test(t, lengths_are_checked, 0, nr);
	tcase_add_test(t, wild_arguments);
	tcase_add_test(t, contents_change);
	suite_add_tcase(suite, t);
	return suite;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_CASES_H */
