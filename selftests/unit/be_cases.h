/* SPDX-License-Identifier: MIT */
/*
 * be_cases.h - the kernels that come with Arax, on a kind of device: each by its case
 * (std_case.h), which is what be_std.c runs on the CPU; in ranges that end where a page does,
 * and are used in place or copied to memory of the device's own
 *
 * Who includes it defines KIND (ARAX_DEVICE_*), open_kind(options), variants[] of options,
 * BLOCK (threads of a work-group), odd_blocks[] of other sizes, each for one launch of a kernel,
 * and VENDORS: whether vendors' libraries, where they are installed, take launches of functions
 * that call them; else these may leave all to others.  DEVICE_BYTES(address, bytes) is where this
 * process has memory of the device's, or NULL.
 *
 * Each implementation of a kernel is tried, also those that araxd would have for GPUs alone.
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

/* Clients write on purpose while kernels read; and all threads of a kernel say that it is refused. */
#ifdef __SANITIZE_THREAD__
#define WITH_RACES	false
#else
#define WITH_RACES	true
#endif

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

/*
 * An implementation of a kernel that has a case.
 * @took, @left: launches that it ran, and that it left to others
 */
struct tried {
	size_t next;
	const struct std_case *c;
	const struct kernel *k;
	const struct kernel_impl *impl;
	void *kernel;
	uint32_t took, left;
};

/* Behind @e's; NULL: there is no more. */
static const struct kernel_impl *next_impl(struct tried *e)
{
	e->impl = e->impl ? kernel_impl_next(e->k, e->impl) : NULL;
	while (!e->impl) {
		e->c = std_case_at(e->next++);
		if (!e->c)
			return NULL;
		e->k = registry_find(registry, e->c->name);
		ck_assert_msg(e->k || access(FOLDER "/arax-blas.so", F_OK), "no kernel %s",
			      e->c->name);
		e->impl = e->k ? kernel_impl(e->k, KIND) : NULL;
	}
	return e->impl;
}

/* The next one, loaded; false behind the last.  @e is 0 before the first. */
static bool next_case(struct tried *e)
{
	struct arax_backend_kernel desc = { .size = sizeof(desc) };
	int err;

	while (next_impl(e)) {
		desc.flags = e->impl->host ? ARAX_KERNEL_STREAM : 0;
		desc.fd = e->impl->fd;
		desc.file = e->impl->file;
		desc.symbol = e->impl->symbol;
		desc.signature = e->k->sig.text;
		e->took = e->left = 0;
		err = device_kernel_load(dev, &desc, &e->kernel);
		if (!err)
			return true;
		/* The library that it is for, it says, is not installed. */
		ck_assert_msg(e->impl->host && err == -ENOENT, "%s of %s: %d", e->impl->symbol,
			      e->impl->file, err);
		be_skip(e->impl->symbol, "the library that it calls is not here");
	}
	return false;
}

static void unload(struct tried *e)
{
	device_kernel_unload(dev, e->kernel);
}

/* Whether it ran; what it leaves to others, of which there has to be one, it has left alone. */
static bool has_run(struct tried *e, const struct trial *t, int err, const char *what)
{
	if (e->impl->host && err == -EOPNOTSUPP && kernel_impl_next(e->k, e->impl)) {
		trial_check_untouched(t, " by a launch that was left to others");
		e->left++;
		return false;
	}
	ck_assert_msg(!err, "%s of %s: %s: %d", e->impl->symbol, e->impl->file, what, err);
	e->took++;
	return true;
}

/**
 * struct ranges - of a launch, where its device has them
 * @seen: by this process, or the client's copy, which is nobody's while the launch runs
 */
struct ranges {
	struct arax_launch_range r[TRIAL_MAX_RANGES], seen[TRIAL_MAX_RANGES];
	uint32_t nr;
};

static void place(const struct trial *t, struct ranges *to)
{
	bool own = dev->info.memory;

	memcpy(to->r, t->r, sizeof(to->r));
	memcpy(to->seen, t->r, sizeof(to->seen));
	to->nr = t->nr_ranges;
	for (uint32_t i = 0; own && i < t->nr_ranges; i++) {
		uint64_t bytes = t->r[i].length, at;
		void *seen;

		ck_assert_int_eq(device_alloc(dev, bytes ? bytes : 1, 0, &at), 0);
		ck_assert_int_eq(device_copy_in(dev, 0, at, t->r[i].data, bytes), 0);
		to->r[i].data = (void *)(uintptr_t)at;
		seen = DEVICE_BYTES(at, bytes);
		if (seen)
			to->seen[i].data = seen;
	}
}

static void take_back(struct trial *t, struct ranges *from)
{
	bool own = dev->info.memory;

	for (uint32_t i = 0; own && i < t->nr_ranges; i++) {
		uint64_t at = (uintptr_t)from->r[i].data;

		ck_assert_int_eq(device_copy_out(dev, 0, t->r[i].data, at, t->r[i].length), 0);
		device_free(dev, at);
	}
}

static int run(struct trial *t, void *kernel, uint32_t grid, uint32_t block)
{
	struct ranges ranges;
	int err;

	place(t, &ranges);
	err = launch(dev, kernel, 0, grid, block, ranges.r, ranges.nr, t->args, t->arg_len);
	take_back(t, &ranges);
	return err;
}

static uint32_t some_grid(void)
{
	return trial_random(2) ? 1 : 1 + trial_random(40);
}

static uint32_t some_block(int round)
{
	/* After what is nothing, and one of everything. */
	size_t i = (size_t)round - SIZE_SOME;

	return i < sizeof(odd_blocks) / sizeof(odd_blocks[0]) ? odd_blocks[i] : BLOCK;
}

START_TEST(references)
{
	struct tried e = { 0 };

	open_all(variants[_i]);
	while (next_case(&e)) {
		/* What leaves some to others takes some. */
		for (int round = 0; round < ROUNDS ||
				    (round < 10 * ROUNDS && VENDORS && !e.took); round++) {
			uint32_t block = _i ? BLOCK : some_block(round);
			char what[32];
			struct trial t;

			trial_open(&t, e.c, round < 2 ? (enum trial_size)round :
				   round >= ROUNDS ? (round % 2 ? SIZE_HUGE : SIZE_SOME) :
				   _i || round < ROUNDS - 2 ? SIZE_SOME :
				   round < ROUNDS - 1 ? SIZE_HUGE : SIZE_LONG);
			snprintf(what, sizeof(what), "round %d", round);
			if (has_run(&e, &t, run(&t, e.kernel, some_grid(), block), what))
				trial_check(&t, e.k->sig.abi.access);
			trial_close(&t);
		}
		if (e.impl->host)
			printf("# %s took %u launches, left %u to others\n", e.impl->symbol, e.took,
			       e.left);
		ck_assert_msg(!VENDORS || e.took, "%s of %s takes nothing", e.impl->symbol,
			      e.impl->file);
		unload(&e);
	}
	close_all();
}
END_TEST

/* Ranges that are too short by one byte, or empty: refused as on the CPU, nothing written. */
START_TEST(lengths_are_checked)
{
	struct tried e = { 0 };

	open_all(variants[_i]);
	while (next_case(&e)) {
		struct trial t;

		trial_open(&t, e.c, SIZE_ONE);
		for (uint32_t r = 0; r < t.nr_ranges; r++)
			for (int cut = 0; cut < 2; cut++) {
				uint64_t whole = t.r[r].length;

				if (t.c->optional >> r & 1 || !whole)
					continue;
				t.r[r].length = cut ? 0 : whole - 1;
				ck_assert_msg(run(&t, e.kernel, 2, BLOCK) == -EINVAL, "%s: range %u",
					      e.impl->symbol, r);
				t.r[r].length = whole;
			}
		trial_check_untouched(&t, " by a refused launch");
		trial_close(&t);
		unload(&e);
	}
	close_all();
}
END_TEST

/* All plain u32 at their ends: nothing wraps around, nothing is touched. */
START_TEST(wild_arguments)
{
	static const uint32_t wild[] = { 0xffffffff, 0x80000000, 0x40000000, 0x55555556, 0x10001,
					 65536 };
	struct tried e = { 0 };

	open_all(variants[0]);
	while (next_case(&e)) {
		uint32_t at[16], nr = std_case_words(e.k->sig.text, at);

		for (size_t w = 0; nr && w < sizeof(wild) / sizeof(wild[0]); w++) {
			struct trial t;

			trial_open(&t, e.c, SIZE_ONE);
			for (uint32_t j = 0; j < nr; j++)
				memcpy((char *)t.args + at[j], &wild[w], 4);
			ck_assert_msg(run(&t, e.kernel, 2, BLOCK) == -EINVAL, "%s: %#x",
				      e.impl->symbol, wild[w]);
			trial_check_untouched(&t, " by a refused launch");
			trial_close(&t);
		}
		unload(&e);
	}
	close_all();
}
END_TEST

/* Ranges of bytes begin where they like. */
typedef uint32_t any_word __attribute__((aligned(1)));

/* A client that writes to its ranges while the kernel runs, as fast as it can. */
static void *scribble(void *arg)
{
	const struct ranges *t = arg;
	uint64_t x = 88172645463325252u;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		const struct arax_launch_range *r;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		r = &t->seen[x % t->nr];
		if (r->length >= 4)
			((volatile any_word *)r->data)[(x >> 8) % (r->length / 4)] =
				(uint32_t)(x >> 32) >> (x >> 4 & 31);
	}
	return NULL;
}

/* Whatever comes of it: nothing outside of the ranges is touched, which would be a fault. */
START_TEST(contents_change)
{
	struct tried e = { 0 };

	open_all(variants[0]);
	while (next_case(&e)) {
		for (int round = 0; round < 3; round++) {
			struct ranges ranges;
			pthread_t thread;
			struct trial t;
			int err;

			trial_open(&t, e.c, SIZE_SOME);
			place(&t, &ranges);
			atomic_store(&stop, false);
			ck_assert_int_eq(pthread_create(&thread, NULL, scribble, &ranges), 0);
			for (int again = 0; again < 5; again++) {
				err = launch(dev, e.kernel, 0, some_grid(), BLOCK, ranges.r, ranges.nr,
					     t.args, t.arg_len);
				/* A matrix tells that it has become wrong. */
				ck_assert_msg(!err || (err == -EOPNOTSUPP && e.impl->host) ||
					      (err == -EINVAL && !strcmp(t.c->name, "spmv")),
					      "%s: %d", e.impl->symbol, err);
			}
			atomic_store(&stop, true);
			pthread_join(thread, NULL);
			take_back(&t, &ranges);
			trial_close(&t);
		}
		unload(&e);
	}
	close_all();
}
END_TEST

/*
 * Rows that say, every other one, that all items are theirs: no more are done than one for each of
 * the two work-groups, or a launch would take rows times items.
 */
START_TEST(rows_share_the_items)
{
	struct tried e = { 0 };

	open_all(variants[0]);
	while (next_case(&e)) {
		for (int round = 0; round < 10 && !strcmp(e.c->name, "spmv"); round++) {
			uint32_t rows, nnz, done = 0;
			struct trial t;

			trial_open(&t, e.c, SIZE_SOME);
			rows = ((uint32_t *)t.args)[0];
			nnz = ((uint32_t *)t.args)[2];
			for (uint32_t i = 0; i <= rows; i++)
				((uint32_t *)t.r[0].data)[i] = i % 2 ? nnz : 0;
			trial_keep(&t);
			ck_assert_int_eq(run(&t, e.kernel, 2, BLOCK),
					 rows > 1 && nnz ? -EINVAL : 0);
			for (uint32_t i = 0; i < rows; i++)
				done += RANGE(&t, 4, uint32_t)[i] != WAS(&t, 4, uint32_t)[i];
			ck_assert_msg(!nnz || done <= 2, "%s: %u of %u rows have all %u items",
				      e.impl->symbol, done, rows, nnz);
			trial_close(&t);
		}
		unload(&e);
	}
	close_all();
}
END_TEST

static int submit_after(void *kernel, uint32_t grid, uint32_t block,
			const struct arax_launch_range *r, uint32_t nr, const void *args,
			uint32_t arg_len, uint32_t after)
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = nr, .grid = { grid, 1, 1 }, .block = { block, 1, 1 },
		.group_end = grid, .ranges = r, .args = args, .arg_len = arg_len,
	};
	struct arax_backend_run run = { .size = sizeof(run), .kernel = kernel, .launch = &l,
					.name = "test", .after = after };

	return device_submit(dev, &run, after);
}

/* An implementation that is refused by what it is asked for, and says so: square of nothing. */
static void *load_refused(void)
{
	const struct kernel *k = registry_find(registry, "square");
	const struct kernel_impl *impl = kernel_impl(k, KIND);
	struct arax_backend_kernel desc = {
		.size = sizeof(desc), .fd = impl->fd, .file = impl->file, .symbol = impl->symbol,
		.signature = k->sig.text,
	};
	void *kernel;

	ck_assert_int_eq(device_kernel_load(dev, &desc, &kernel), 0);
	return kernel;
}

/*
 * Behind one that fails nothing is touched, by any of them; functions of vendors' libraries, and
 * they alone, can't see to that, and say so.
 */
START_TEST(behind_a_failure)
{
	static const struct arax_launch_range nothing[2] = { { .count = 1 }, { .count = 1 } };
	static const uint32_t one = 1;
	struct arax_backend_done done;
	uint32_t canceled = 0, wait = 0;
	struct tried e = { 0 };
	void *refused;

	open_all(variants[0]);
	if (!device_follows(dev)) {
		be_skip("behind_a_failure", "this device's launches don't begin before others have ended");
		close_all();
		return;
	}
	refused = load_refused();
	while (next_case(&e)) {
		for (int round = 0; round < 2; round++) {
			struct ranges ranges;
			struct trial t;
			int err;

			trial_open(&t, e.c, round ? SIZE_SOME : SIZE_HUGE);
			place(&t, &ranges);
			ck_assert_int_eq(submit_after(refused, 1, 1, nothing, 2, &one, 4, 0), 0);
			err = submit_after(e.kernel, 3, BLOCK, ranges.r, ranges.nr, t.args, t.arg_len, 1);
			ck_assert_int_eq(device_wait(dev, 0, &done), 0);
			ck_assert_int_eq(done.result, -EINVAL);
			if (!err) {
				ck_assert_int_eq(device_wait(dev, 0, &done), 0);
				ck_assert_msg(done.result == -ECANCELED &&
					      done.flags == ARAX_DONE_NOT_RUN, "%s of %s: %d, flags %#x",
					      e.impl->symbol, e.impl->file, done.result, done.flags);
			}
			ck_assert_msg(!err || (e.impl->host && (err == -EAGAIN || err == -EOPNOTSUPP)) ||
				      KIND == ARAX_DEVICE_HIP, "%s of %s: %d", e.impl->symbol,
				      e.impl->file, err);
			canceled += !err;
			wait += err == -EAGAIN;
			take_back(&t, &ranges);
			trial_check_untouched(&t, " by a launch behind one that failed");
			trial_close(&t);
		}
		unload(&e);
	}
	printf("# %u launches behind one that failed did nothing, %u have to wait for its end\n", canceled,
	       wait);
	device_kernel_unload(dev, refused);
	close_all();
}
END_TEST

/* @nr: variants; @before: of each test, may be NULL */
static Suite *case_suite(const char *name, int nr, SFun before)
{
	Suite *suite = suite_create(name);
	TCase *t = tcase_create("all"), *c = tcase_create("changes");

	std_cases_here(name);

	tcase_set_timeout(t, 300);
	tcase_set_timeout(c, 300);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_checked_fixture(c, setup, teardown);
	if (before) {
		tcase_add_checked_fixture(t, before, NULL);
		tcase_add_checked_fixture(c, before, NULL);
	}
	tcase_add_loop_test(t, references, 0, nr);
	tcase_add_test(t, rows_share_the_items);
	tcase_add_test(t, behind_a_failure);
	if (WITH_RACES) {
		tcase_add_loop_test(t, lengths_are_checked, 0, nr);
		tcase_add_test(t, wild_arguments);
		tcase_add_test(c, contents_change);
	}
	suite_add_tcase(suite, t);
	suite_add_tcase(suite, c);
	return suite;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_CASES_H */
