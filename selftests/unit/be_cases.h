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

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/kernels/blas/blas.h"
#include "daemon/kernels/registry.h"
#include "daemon/kernels/work.h"
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
		ck_assert_msg(!!e->k, "no kernel %s", e->c->name);
		e->impl = kernel_impl(e->k, KIND);
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

/* Where each is a thread that meets the others at barriers, a few of the largest take minutes. */
static uint32_t grid_for(uint32_t block)
{
	return block < 1024 ? some_grid() : 1;
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
			if (has_run(&e, &t, run(&t, e.kernel, grid_for(block), block), what))
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

/* Products of no terms, or of some that don't count: c = beta c is left, or x = 0. */
START_TEST(no_terms)
{
	static const double alphas[] = { 0, NAN, INFINITY, -INFINITY, 1 };
	struct tried e = { 0 };

	open_all(variants[0]);
	while (next_case(&e)) {
		for (uint32_t round = 0; round < 15; round++) {
			struct trial t;

			trial_open(&t, e.c, SIZE_SOME);
			if (blas_without_terms(&t, alphas[round % 5]) &&
			    has_run(&e, &t, run(&t, e.kernel, some_grid(), BLOCK), "without terms"))
				trial_check(&t, e.k->sig.abi.access);
			trial_close(&t);
		}
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

/* Kernels that there may be no result for: what they find out on the way. */
static bool factorises(const struct tried *e)
{
	return !strcmp(e->c->name, "potrf_f64") || !strcmp(e->c->name, "getrf_nopiv_f64");
}

/* A matrix whose only numbers are on the diagonal, 1 but for @which, which is @what. */
static int factorise(struct tried *e, uint32_t n, uint32_t flags, uint32_t row, uint32_t column,
		     double what)
{
	struct blas_square args = { n, flags };
	struct trial t;
	double *a;
	int err;

	trial_open(&t, NULL, SIZE_NONE);
	a = add_bytes(&t, (uint64_t)n * n * sizeof(*a));
	for (uint64_t i = 0; i < (uint64_t)n * n; i++)
		a[i] = i % (n + 1ull) == 0;
	a[row + (uint64_t)column * n] = what;
	set_args(&t, &args);
	err = run(&t, e->kernel, 3, BLOCK);
	trial_close(&t);
	return err;
}

/* Wherever that shows: in the first tile, at its end, in the next one, in the last one, which is no whole one. */
START_TEST(no_factor)
{
	static const uint32_t places[] = { 0, 7, 31, 32, 63, 64, 69 };
	struct tried e = { 0 };

	open_all(variants[0]);
	while (next_case(&e)) {
		bool cholesky = !strcmp(e.c->name, "potrf_f64");

		for (size_t i = 0; factorises(&e) && i < sizeof(places) / sizeof(places[0]); i++) {
			uint32_t at = places[i];

			ck_assert_int_eq(factorise(&e, 70, 0, at, at, 0), -EDOM);
			ck_assert_int_eq(factorise(&e, 70, 0, at, at, NAN), -EDOM);
			ck_assert_int_eq(factorise(&e, 70, 0, at, at, -1), cholesky ? -EDOM : 0);
			ck_assert_int_eq(factorise(&e, 70, 0, at, at, 2), 0);
			/* Beside the diagonal, where only what comes of it is looked at; or nobody looks. */
			if (!cholesky || !at)
				continue;
			ck_assert_int_eq(factorise(&e, 70, 0, at, at / 2, NAN), -EDOM);
			ck_assert_int_eq(factorise(&e, 70, 0, at / 2, at, NAN), 0);
			ck_assert_int_eq(factorise(&e, 70, BLAS_UPPER, at / 2, at, NAN), -EDOM);
			ck_assert_int_eq(factorise(&e, 70, BLAS_UPPER, at, at / 2, NAN), 0);
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
				/* A matrix tells that it has become wrong, or has no factors. */
				ck_assert_msg(!err || (err == -EOPNOTSUPP && e.impl->host) ||
					      (err == -EINVAL && !strcmp(t.c->name, "spmv")) ||
					      (err == -EDOM && factorises(&e)),
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

/* ------------------------------------------------------------------ */
/* Any launch                                                            */

#define ANY_ROUNDS	150
#define ANY_BYTES	6000u

/* Few, and such that sums and products of them wrap around. */
static uint32_t any_u32(void)
{
	static const uint32_t edges[] = { 0, 1, 2, 255, 256, 65535, 65536, 65537, 0x3fffffff, 0x40000000,
					  0x55555556, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };

	return trial_random(4) ? trial_random(1 + trial_random(20)) :
				 edges[trial_random(sizeof(edges) / sizeof(edges[0]))];
}

static double any_number(void)
{
	static const double numbers[] = { 0, -0.0, 1, -1, 1e-30, 1e-42, 1e30, 3e38, NAN, INFINITY,
					  -INFINITY };

	return trial_random(2) ? uniform(-2, 5) :
				 numbers[trial_random(sizeof(numbers) / sizeof(numbers[0]))];
}

/* @words: of those that are u32 and come first; NULL: none. */
static void add_arguments(struct trial *t, const char *text, const uint32_t *words, uint32_t nr)
{
	uint32_t end = 0;

	for (const char *p = strchr(text, '('); p; p = strchr(p + 1, ',')) {
		const char *type = p + (*p == '(' ? 1 : 2);
		uint32_t size = strncmp(type + 1, "64 ", 3) ? 4 : 8;
		double number = any_number();
		float single = (float)number;
		uint64_t word = nr ? *words : any_u32();
		const void *from = size == 8 ? (void *)&number : (void *)&single;

		if (!strncmp(type, "in", 2) || !strncmp(type, "out", 3))
			continue;
		end = (end + size - 1) / size * size;
		memcpy((char *)t->args + end, *type == 'f' ? from : &word, size);
		end += size;
		words += nr != 0;
		nr -= nr != 0;
	}
}

/* Numbers, small integers, or what is neither. */
static void any_range(struct trial *t, uint32_t bytes)
{
	uint32_t kind = trial_random(3), *p = add_bytes(t, bytes);

	for (uint32_t i = 0; i < bytes / 4; i++) {
		float number = (float)(kind == 1 ? uniform(-4, 4) : any_number());

		p[i] = trial_random(20);
		if (kind)
			memcpy(&p[i], &number, sizeof(number));
	}
}

static arax_kernel_fn *on_cpu(const struct kernel *k)
{
	const struct kernel_impl *impl = kernel_impl(k, ARAX_DEVICE_CPU);
	void *library = dlopen(impl->file, RTLD_NOW);
	arax_kernel_fn *fn;

	ck_assert_msg(!!library, "%s", dlerror());
	fn = (arax_kernel_fn *)dlsym(library, impl->symbol);
	ck_assert_msg(!!fn, "%s", impl->symbol);
	return fn;
}

/* By the CPU on copies of the ranges; 1: that would not be begun. */
static int cpu_result(const struct tried *e, const struct trial *t, uint32_t grid)
{
	struct arax_launch_range r[TRIAL_MAX_RANGES];
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = t->nr_ranges, .grid = { grid, 1, 1 },
		.block = { BLOCK, 1, 1 }, .group_end = grid, .ranges = r, .args = t->args,
		.arg_len = t->arg_len,
	};
	int err;

	if (work_check(e->k, &l, false))
		return 1;
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		r[i] = t->r[i];
		r[i].data = malloc(t->r[i].length + 1);
		ck_assert_ptr_nonnull(r[i].data);
		memcpy(r[i].data, t->r[i].data, t->r[i].length);
	}
	err = on_cpu(e->k)(&l);
	for (uint32_t i = 0; i < t->nr_ranges; i++)
		free(r[i].data);
	return err;
}

static void say_launch(const struct tried *e, const struct trial *t)
{
	printf("# %s of %s, arguments", e->impl->symbol, e->impl->file);
	for (uint32_t i = 0; i < t->arg_len / 4; i++)
		printf(" %#x", ((const uint32_t *)t->args)[i]);
	printf(", ranges of");
	for (uint32_t i = 0; i < t->nr_ranges; i++)
		printf(" %lu", (unsigned long)t->r[i].length);
	printf(" bytes\n");
	fflush(stdout);
}

/* It ends as the CPU's does, and if it is refused nothing is written. */
static void any_launch(struct tried *e, const uint32_t *words, uint32_t nr, const uint32_t *bytes)
{
	uint32_t grid = some_grid(), cut[TRIAL_MAX_RANGES];
	struct trial t;
	int err, wanted;

	trial_open(&t, NULL, SIZE_SOME);
	t.c = e->c;
	t.arg_len = e->k->sig.abi.arg_len;
	add_arguments(&t, e->k->sig.text, words, nr);
	for (uint32_t i = 0; i < e->k->sig.abi.nr_ranges; i++) {
		uint32_t whole = bytes ? bytes[i] + 7 : trial_random(4) ? trial_random(ANY_BYTES) :
									  trial_random(40);

		whole -= whole % 8;
		cut[i] = bytes ? whole - bytes[i] : whole && trial_random(2) ? trial_random(8) : 0;
		any_range(&t, whole);
	}
	trial_keep(&t);
	/* It may end within an item: what is left of that is nobody's. */
	for (uint32_t i = 0; i < t.nr_ranges; i++)
		t.r[i].length -= cut[i];
	wanted = cpu_result(e, &t, grid);
	if (wanted <= 0) {
		err = run(&t, e->kernel, grid, BLOCK);
		/* Of a matrix it is the contents that are refused, row by row, or on the way. */
		if (err && strcmp(t.c->name, "spmv") && !(err == -EDOM && factorises(e)))
			trial_check_untouched(&t, " by a refused launch");
		/* Where it is rounding that decides whether there are factors. */
		if (factorises(e) && (!err || err == -EDOM) && wanted != -EINVAL)
			err = wanted;
		if (err != wanted && !(e->impl->host && err == -EOPNOTSUPP)) {
			say_launch(e, &t);
			ck_abort_msg("%s of %s: %d, %d on the CPU", e->impl->symbol, e->impl->file, err,
				     wanted);
		}
	}
	for (uint32_t i = 0; i < t.nr_ranges; i++) {
		t.r[i].length += cut[i];
		ck_assert_msg(!memcmp((char *)t.r[i].data + t.r[i].length - cut[i],
				      (char *)t.was[i] + t.r[i].length - cut[i], cut[i]),
			      "%s: range %u was written behind its end", t.c->name, i);
	}
	trial_close(&t);
}

/* Of nothing, however large; and a range that is not empty, and yet has no item. */
static const struct {
	const char *name;
	uint32_t words[9], bytes[TRIAL_MAX_RANGES];
} odd_launches[] = {
	{ "conv2d_f32", { 0, 2, 0xffffffff, 0xffffffff, 1, 1, 1, 1, 0 }, { 0, 8, 4, 0 } },
	{ "conv2d_f32", { 0, 1, 0xffffffff, 0xffffffff, 1, 256, 256, 1, 255 }, { 0, 1 << 18, 0, 0 } },
	{ "max_pool_f32", { 0, 0xffffffff, 0xffffffff, 0x80000000, 1, 0x40000000 }, { 0, 0 } },
	{ "avg_pool_f32", { 0, 0xffffffff, 0xffffffff, 0x80000000, 1, 0x40000000 }, { 0, 0 } },
	{ "conv2d_f32", { 1, 1, 4, 4, 1, 1, 1, 1, 0 }, { 64, 4, 3, 64 } },
};

START_TEST(any_launches)
{
	struct tried e = { 0 };
	uint32_t rounds;

	open_all(variants[0]);
	while (next_case(&e)) {
		for (size_t i = 0; i < sizeof(odd_launches) / sizeof(odd_launches[0]); i++)
			if (!strcmp(odd_launches[i].name, e.c->name))
				any_launch(&e, odd_launches[i].words, 9, odd_launches[i].bytes);
		/* Libraries have the driver compile for each shape. */
		rounds = e.impl->host && KIND == ARAX_DEVICE_OPENCL ? ANY_ROUNDS / 10 : ANY_ROUNDS;
		while (rounds--)
			any_launch(&e, NULL, 0, NULL);
		unload(&e);
	}
	close_all();
}
END_TEST

/* @nr: variants; @before: of each test, may be NULL */
static Suite *case_suite(const char *name, int nr, SFun before)
{
	Suite *suite = suite_create(name);
	TCase *t = tcase_create("all"), *c = tcase_create("changes"), *a = tcase_create("any");

	tcase_set_timeout(t, 300);
	tcase_set_timeout(c, 300);
	tcase_set_timeout(a, 600);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_checked_fixture(a, setup, teardown);
	if (before) {
		tcase_add_checked_fixture(t, before, NULL);
		tcase_add_checked_fixture(c, before, NULL);
		tcase_add_checked_fixture(a, before, NULL);
	}
	tcase_add_loop_test(t, references, 0, nr);
	tcase_add_test(t, no_terms);
	tcase_add_test(t, behind_a_failure);
	if (WITH_RACES) {
		tcase_add_test(t, rows_share_the_items);
		tcase_add_test(t, no_factor);
		tcase_add_loop_test(t, lengths_are_checked, 0, nr);
		tcase_add_test(t, wild_arguments);
		tcase_add_test(a, any_launches);
		tcase_add_test(c, contents_change);
	}
	suite_add_tcase(suite, t);
	suite_add_tcase(suite, c);
	suite_add_tcase(suite, a);
	return suite;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_CASES_H */
