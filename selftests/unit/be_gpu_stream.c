// SPDX-License-Identifier: MIT
/* Functions that put work onto a GPU's streams, on a driver in software: emulated, not hardware. */
#include "selftests/unit/be_gpu_calls.h"
#include "selftests/unit/be_stream_fn.h"

#define ITEMS	16

static struct arax_backend_kernel desc;
static void *dev, *fn, *inc;

static void open_fn(int i)
{
	setenv("EMULATED_FORGIVING", "1", 1);
	setenv("ARAX_TEST_STREAM_DRIVER", emulated_path(&gpus[i]), 1);
	dev = open_gpu(i, NULL);
	inc = load(dev, INC);
	desc = fn_desc(FN_FILE, "fn_fill");
	ck_assert_msg(!ops->kernel_load(dev, &desc, &fn), "%s", take_log());
}

static void close_fn(void)
{
	ops->kernel_unload(dev, fn);
	ops->kernel_unload(dev, inc);
	ck_assert_int_eq(fn_states(), 0);
	ck_assert(!fn_is_loaded());
	close(desc.fd);
}

static int call(uint32_t lane, const struct arax_launch_range *r, int32_t value, int32_t mode)
{
	struct fn_args a = { value, mode, (uint32_t)(r->length / 4) };

	return run(dev, fn, lane, 1, 1, r, 1, &a, sizeof(a));
}

static int32_t item(uint64_t at, uint32_t i)
{
	int32_t x = 0;

	ck_assert_int_eq(ops->copy_out(dev, 0, &x, at + 4 * i, 4), 0);
	return x;
}

static const struct {
	int mode, err;
} ends[] = { { FN_FAILS, -EIO }, { FN_LOST, -EIO }, { FN_POSITIVE, -EIO }, { FN_OTHER, -EOPNOTSUPP },
	     { FN_AGAIN, -EIO }, { FN_WORKS, 0 } };

START_TEST(how_it_ends)
{
	struct arax_backend_done done;
	struct arax_launch_range r;
	struct job j;
	uint64_t at;

	open_fn(_i);
	at = take_memory(dev, 4096);
	r = range(at, 4 * ITEMS);
	for (int32_t i = 0; i < (int32_t)(sizeof(ends) / sizeof(ends[0])); i++) {
		struct fn_args a = { 20 + i, ends[i].mode, ITEMS }, clean = { -1, FN_WORKS, ITEMS };
		int32_t none = -1;

		ck_assert_int_eq(run(dev, fn, 0, 1, 1, &r, 1, &clean, sizeof(clean)), 0);
		ck_assert_int_eq(call((uint32_t)i % 4, &r, 10 + i, ends[i].mode), ends[i].err);
		/* What it has put there has been done when that is known. */
		ck_assert_int_eq(item(at, ITEMS - 1), ends[i].mode == FN_OTHER ? none : 10 + i);
		fill(&j, fn, 1, 1, 1, &r, 1, &a, sizeof(a));
		ck_assert_int_eq(ops->submit(dev, &j.run, 5), ends[i].err);
		if (!ends[i].err) {
			ck_assert_int_eq(ops->wait(dev, 1, &done), 0);
			ck_assert_uint_eq(done.cookie, 5);
			ck_assert_int_eq(done.result, 0);
		}
		ck_assert_int_eq(item(at, ITEMS - 1), ends[i].mode == FN_OTHER ? none : 20 + i);
	}
	/* On the fourth lane it left all to others. */
	ck_assert_int_eq(fn_states(), 3);
	ops->free(dev, at);
	close_fn();
}
END_TEST

START_TEST(bad_launches)
{
	struct arax_launch_range r, wrong;
	struct fn_args a = { 1, FN_WORKS, 1 };
	uint64_t at;

	open_fn(_i);
	at = take_memory(dev, 4096);
	r = range(at, 4 * ITEMS);
	ck_assert_int_eq(call(0, &r, 3, FN_WORKS), 0);
	wrong = range(at + 1, 4 * ITEMS);
	ck_assert_int_eq(call(0, &wrong, 1, FN_WORKS), -EINVAL);
	wrong = r;
	wrong.count = 2;
	wrong.stride = 128;
	ck_assert_int_eq(call(0, &wrong, 1, FN_WORKS), -EINVAL);
	wrong = range(at + 4092, 8);
	ck_assert_int_eq(call(0, &wrong, 1, FN_WORKS), -EFAULT);
	wrong = range(at, 0);
	ck_assert_int_eq(call(0, &wrong, 1, FN_WORKS), 0);
	ck_assert_int_eq(run(dev, fn, 0, 1, 1, &wrong, 1, &a, sizeof(a)), -EINVAL);
	ck_assert_int_eq(run(dev, fn, 0, 1, 1, &r, 1, &a, sizeof(a) - 4), -EINVAL);
	ck_assert_int_eq(run(dev, fn, 0, 1, 1, &r, 0, &a, sizeof(a)), -EINVAL);
	/* Grids are kernels': those of a product's order are beyond what a device has. */
	ck_assert_int_eq(run(dev, fn, 0, UINT32_MAX, 1024, &r, 1, &a, sizeof(a)), 0);
	ck_assert_int_eq(item(at, 0), 1);
	ck_assert_int_eq(item(at, 1), 3);
	ops->free(dev, at);
	close_fn();
}
END_TEST

/* Kernels and functions on one stream, four at once, each on what the one before it has left. */
START_TEST(in_order)
{
	struct arax_backend_done done;
	struct arax_launch_range r;
	struct job j;
	uint64_t at;

	open_fn(_i);
	at = take_memory(dev, 4096);
	r = range(at, 4 * ITEMS);
	for (int32_t round = 1; round < 100; round++) {
		struct fn_args a = { round * 100, FN_WORKS, ITEMS };

		for (uint32_t i = 0; i < ARAX_LANE_DEPTH; i++) {
			if (i == 1)
				fill(&j, fn, 0, 1, 1, &r, 1, &a, sizeof(a));
			else
				fill(&j, inc, 0, 1, 1, &r, 1, NULL, 0);
			ck_assert_int_eq(ops->submit(dev, &j.run, i), 0);
		}
		ck_assert_int_eq(ops->submit(dev, &j.run, 9), -EAGAIN);
		for (uint32_t i = 0; i < ARAX_LANE_DEPTH; i++) {
			ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
			ck_assert_uint_eq(done.cookie, i);
			ck_assert_int_eq(done.result, 0);
		}
		ck_assert_int_eq(item(at, 3), round * 100 + ARAX_LANE_DEPTH - 2);
	}
	ops->free(dev, at);
	close_fn();
}
END_TEST

/* What it kept for the old one's streams is gone; it works on the new ones. */
START_TEST(a_new_context)
{
	struct arax_launch_range r;
	void *trap;
	uint64_t at;

	open_fn(_i);
	trap = load(dev, TRAP);
	at = take_memory(dev, 4 * ITEMS);
	r = range(at, 4 * ITEMS);
	ck_assert_int_eq(call(0, &r, 1, FN_WORKS), 0);
	ck_assert_int_eq(call(2, &r, 2, FN_WORKS), 0);
	ck_assert_int_eq(fn_states(), 2);
	r.length = 4;
	ck_assert_int_eq(run(dev, trap, 0, 1, 1, &r, 1, &bad, 4), -EFAULT);
	r.length = 4 * ITEMS;
	ck_assert_int_eq(call(0, &r, 3, FN_WORKS), -ENODEV);
	ck_assert_int_eq(ops->reset(dev), 0);
	ck_assert_int_eq(fn_states(), 0);
	at = take_memory(dev, 4 * ITEMS);
	r = range(at, 4 * ITEMS);
	ck_assert_int_eq(call(2, &r, 4, FN_WORKS), 0);
	ck_assert_int_eq(item(at, 1), 4);
	ck_assert_int_eq(fn_states(), 1);
	ops->free(dev, at);
	ops->kernel_unload(dev, trap);
	close_fn();
}
END_TEST

/* Unloaded while the context is broken: what it keeps goes with that. */
START_TEST(unloaded_when_broken)
{
	struct arax_launch_range r;
	void *trap;
	uint64_t at;

	open_fn(_i);
	trap = load(dev, TRAP);
	at = take_memory(dev, 4);
	r = range(at, 4);
	ck_assert_int_eq(call(0, &r, 1, FN_WORKS), 0);
	ck_assert_int_eq(run(dev, trap, 0, 1, 1, &r, 1, &bad, 4), -EFAULT);
	ops->kernel_unload(dev, fn);
	ck_assert_int_eq(fn_states(), 1);
	ck_assert_int_eq(ops->reset(dev), 0);
	ck_assert(!fn_is_loaded());
	ck_assert_int_eq(ops->kernel_load(dev, &desc, &fn), 0);
	at = take_memory(dev, 4);
	r = range(at, 4);
	ck_assert_int_eq(call(0, &r, 5, FN_WORKS), 0);
	ck_assert_int_eq(item(at, 0), 5);
	ops->free(dev, at);
	ops->kernel_unload(dev, trap);
	close_fn();
}
END_TEST

static int refused_load(const struct arax_backend_kernel *d)
{
	void *k;

	return ops->kernel_load(dev, d, &k);
}

START_TEST(what_is_refused)
{
	char path[128];

	dev = open_gpu(_i, NULL);
	write_image("k", ptx);
	snprintf(path, sizeof(path), "%s/k", folder);
	fn_assert_refused(refused_load, -ENOEXEC, path, "test_inc");
	fn_assert_refused(refused_load, -ENOENT, FN_FILE, "fn_spill");
	assert_logged("there is no function fn_spill in it");
	setenv("ARAX_TEST_STREAM_OPEN", "no library of that name", 1);
	fn_assert_refused(refused_load, -ENOENT, FN_FILE, "fn_fill");
	assert_logged("fn_fill: no library of that name");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gpu_stream");
	TCase *t = tcase_create("emulated");

	puts("# emulated, not hardware");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, close_gpu);
	tcase_add_loop_test(t, how_it_ends, 0, NR_GPUS);
	tcase_add_loop_test(t, bad_launches, 0, NR_GPUS);
	tcase_add_loop_test(t, in_order, 0, NR_GPUS);
	tcase_add_loop_test(t, a_new_context, 0, NR_GPUS);
	tcase_add_loop_test(t, unloaded_when_broken, 0, NR_GPUS);
	tcase_add_loop_test(t, what_is_refused, 0, NR_GPUS);
	suite_add_tcase(s, t);
	return be_main(s);
}
