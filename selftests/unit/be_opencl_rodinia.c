// SPDX-License-Identifier: MIT
/*
 * The Rodinia kernels on OpenCL: whatever arguments say, and buffers contain, nothing is touched
 * beyond the ranges, which end where a page does, so that it would be a fault.  That they compute
 * what they should is seen by selftests/system/rodinia.sh.
 */
#include "daemon/kernels/registry.h"
#include "daemon/kernels/work.h"
#include "examples/rodinia/rodinia.h"
#include "selftests/unit/be_opencl.h"
#include "selftests/unit/std_case.h"

#define FOLDER	"build/lib/arax/rodinia-kernels"
#define ROUNDS	500

static struct registry *registry;
static struct device *dev;

static void open_all(void)
{
	log_max_level = LOG_LEVEL_WARNING;
	ck_assert_int_eq(open_opencl(""), 0);
	dev = devices_at(devices, 0);
	registry = registry_create();
	ck_assert_int_gt(registry_load_folder(registry, FOLDER), 0);
	trial_seed();
}

static void close_all(void)
{
	registry_destroy(registry);
}

static void *load_kernel(const struct kernel *k)
{
	const struct kernel_impl *impl = kernel_impl(k, ARAX_DEVICE_OPENCL);
	struct arax_backend_kernel desc = {
		.size = sizeof(desc), .fd = impl->fd, .file = impl->file, .symbol = impl->symbol,
		.signature = k->sig.text,
	};
	void *kernel;

	ck_assert_int_eq(device_kernel_load(dev, &desc, &kernel), 0);
	return kernel;
}

/* Groups are as each kernel has them, but for the hotspots and the matrix these are rows. */
static void block_of(const char *name, uint32_t block[3])
{
	static const struct {
		const char *name;
		uint32_t block[3];
	} others[] = {
		{ "rodinia_gauss_rows", { RO_GAUSS_X, RO_GAUSS_Y, 1 } },
		{ "rodinia_hotspot", { RO_HOT_X, RO_HOT_ITEMS_Y, 1 } },
		{ "rodinia_hotspot3d", { RO_HOT3_X, RO_HOT3_Y, RO_HOT3_Z } },
		{ "rodinia_lavamd", { RO_LAVA_ITEMS, 1, 1 } },
		{ "rodinia_nw", { RO_NW_TILE, 1, 1 } },
		{ "rodinia_pf_total", { 1, 1, 1 } },
	};

	block[0] = 256;
	block[1] = 1;
	block[2] = 1;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(others[i].name, name))
			memcpy(block, others[i].block, sizeof(others[i].block));
}

static int run(const struct kernel *k, void *kernel, struct trial *t, const uint32_t grid[3])
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = t->nr_ranges, .grid = { grid[0], grid[1], grid[2] },
		.group_end = (uint64_t)grid[0] * grid[1] * grid[2], .ranges = t->r,
		.args = t->args, .arg_len = k->sig.abi.arg_len,
	};
	struct arax_backend_run run = { .size = sizeof(run), .kernel = kernel, .launch = &l,
					.name = k->sig.name };

	block_of(k->sig.name, l.block);
	return device_run(dev, &run);
}

/* Sizes that fit, and such that sums and products of them wrap around. */
static uint32_t some_word(void)
{
	static const uint32_t words[] = {
		0, 1, 1, 2, 2, 3, 4, 5, 31, 33, 64, 65, 255, 257, 0x10000, 0x10001, 0x40000000,
		0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0xffffffff,
	};

	return words[trial_random(sizeof(words) / sizeof(words[0]))];
}

/* Also of more than one dimension, in one launch of four. */
static void some_grid(uint32_t grid[3])
{
	for (int i = 0; i < 3; i++)
		grid[i] = i && trial_random(4) ? 1 : 1 + trial_random(3);
}

static void add_some(struct trial *t, uint32_t n)
{
	uint32_t *p = add_bytes(t, 4ull * n);

	for (uint32_t i = 0; i < n; i++)
		p[i] = some_word();
}

START_TEST(wild_launches)
{
	open_all();
	for (uint32_t i = 0; i < registry_count(registry); i++) {
		const struct kernel *k = registry_at(registry, i);
		void *kernel = load_kernel(k);

		for (int round = 0; round < ROUNDS; round++) {
			uint32_t grid[3];
			struct trial t;
			int err;

			trial_open(&t, NULL, SIZE_SOME);
			for (uint32_t r = 0; r < k->sig.abi.nr_ranges; r++)
				add_some(&t, trial_random(3000));
			for (uint32_t w = 0; w < k->sig.abi.arg_len / 4; w++)
				((uint32_t *)t.args)[w] = some_word();
			some_grid(grid);
			err = run(k, kernel, &t, grid);
			ck_assert_msg(!err || err == -EINVAL, "%s: %d", k->sig.name, err);
			trial_close(&t);
		}
		device_kernel_unload(dev, kernel);
	}
	close_all();
}
END_TEST

/* Behind the last column the number of the next one is 0 again. */
START_TEST(no_such_column)
{
	static const char *const names[] = { "rodinia_gauss_column", "rodinia_gauss_rows" };
	static const uint32_t bad[] = { 1, 2, 3, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
	const uint32_t one[3] = { 1, 1, 1 };

	open_all();
	for (int i = 0; i < 2; i++) {
		const struct kernel *k = registry_find(registry, names[i]);
		void *kernel = load_kernel(k);

		for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
			uint32_t args[] = { 2, bad[b] };
			struct trial t;

			trial_open(&t, NULL, SIZE_SOME);
			for (uint32_t r = 0; r < k->sig.abi.nr_ranges; r++)
				add_floats(&t, 4, 1, 2);
			memcpy(t.args, args, sizeof(args));
			ck_assert_msg(run(k, kernel, &t, one) == -EINVAL, "%s: column %u of 2",
				      names[i], bad[b]);
			trial_close(&t);
		}
		device_kernel_unload(dev, kernel);
	}
	close_all();
}
END_TEST

/* Each group looks at all groups: what that takes is bounded, for as many as a client has room for. */
START_TEST(groups_of_groups)
{
	const struct kernel *k;
	uint32_t n;
	struct arax_launch l = { .size = sizeof(l), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
				 .args = &n, .arg_len = sizeof(n) };

	open_all();
	k = registry_find(registry, "rodinia_pf_weigh");
	ck_assert_uint_gt(k->work.steps.nr, 0);
	n = 1u << 26;
	ck_assert(work_allows(k, &l, false));
	ck_assert_uint_eq(steps_of(&k->size, &l), n);
	n = 1u << 28;
	ck_assert(!work_allows(k, &l, false));
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("opencl_rodinia");
	TCase *t = tcase_create("kernels");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, wild_launches);
	tcase_add_test(t, no_such_column);
	tcase_add_test(t, groups_of_groups);
	suite_add_tcase(suite, t);
	return run_opencl(suite);
}
