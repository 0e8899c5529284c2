// SPDX-License-Identifier: MIT
/* Functions that put work onto an OpenCL device's queues, on a real driver: host pages, and its own memory. */
#include "daemon/backends/opencl/opencl.h"
#include "selftests/unit/be_opencl.h"
#include "selftests/unit/be_stream_fn.h"

#define INC	"__kernel void inc(__global int *x, ulong n) { ARAX_EACH(i, n) x[i]++; }\n"
#define ITEMS	16

static const char *const variants[] = { "", "\"zero-copy=no\"" };
static struct device *dev;
static struct arax_backend_kernel desc;
static void *fn, *inc;

static void open_variant(int variant)
{
	ck_assert_int_eq(open_opencl(variants[variant]), 0);
	dev = devices_at(devices, 0);
	be_write(folder, "k.cl", INC);
	ck_assert_int_eq(load_from(dev, "k.cl", "inc", "inc(inout i32 x[])", &inc), 0);
	desc = fn_desc(FN_FILE, "fn_fill");
	ck_assert_msg(!device_kernel_load(dev, &desc, &fn), "%s", take_log());
}

static void close_variant(void)
{
	device_kernel_unload(dev, fn);
	device_kernel_unload(dev, inc);
	ck_assert_int_eq(fn_states(), 0);
	ck_assert(!fn_is_loaded());
	close(desc.fd);
}

static int32_t pages[1024] __attribute__((aligned(4096)));
static uint64_t own;

/* Of the device, beginning @skip items into what holds it. */
static struct arax_launch_range put(uint32_t skip, uint32_t items)
{
	if (!dev->info.memory)
		return (struct arax_launch_range){ pages + skip, 4 * items, 0, 1 };
	if (!own)
		ck_assert_int_eq(device_alloc(dev, sizeof(pages), 0, &own), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, own, pages, sizeof(pages)), 0);
	return (struct arax_launch_range){ (void *)(uintptr_t)(own + 4 * skip), 4 * items, 0, 1 };
}

static void take(void)
{
	if (dev->info.memory)
		ck_assert_int_eq(device_copy_out(dev, 0, pages, own, sizeof(pages)), 0);
}

static int call(uint32_t lane, const struct arax_launch_range *r, int32_t value, int32_t mode)
{
	struct fn_args a = { value, mode, r->length / 4 };

	return launch(dev, fn, lane, 1, 1, r, 1, &a, sizeof(a));
}

static int submit(void *kernel, const struct arax_launch_range *r, const struct fn_args *a,
		  uint64_t cookie, uint32_t after)
{
	const struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = 1, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
		.group_end = 1, .ranges = r, .args = a, .arg_len = a ? sizeof(*a) : 0,
	};
	const struct arax_backend_run run = { .size = sizeof(run), .kernel = kernel, .launch = &l,
					      .name = "test", .after = after };

	return device_submit(dev, &run, cookie);
}

static int wait_for(uint64_t cookie)
{
	struct arax_backend_done done = { 0 };

	ck_assert_int_eq(device_wait(dev, 0, &done), 0);
	ck_assert_uint_eq(done.cookie, cookie);
	return done.result;
}

START_TEST(ranges_are_buffers)
{
	static const uint32_t skips[] = { 0, 1, 3, 32, 1024 - ITEMS };

	open_variant(_i);
	for (size_t i = 0; i < sizeof(skips) / sizeof(skips[0]); i++) {
		uint32_t skip = skips[i];
		struct arax_launch_range r;

		memset(pages, 0x55, sizeof(pages));
		r = put(skip, ITEMS);
		ck_assert_int_eq(call(i & 1, &r, 7 + (int32_t)i, FN_WORKS), 0);
		take();
		for (uint32_t k = 0; k < 1024; k++)
			ck_assert_int_eq(pages[k], k - skip < ITEMS ? 7 + (int32_t)i : 0x55555555);
	}
	/* A lane's state each. */
	ck_assert_int_eq(fn_states(), 2);
	close_variant();
}
END_TEST

START_TEST(how_it_ends)
{
	static const struct {
		int mode, err;
	} ends[] = { { FN_FAILS, -EIO }, { FN_LOST, -EIO }, { FN_AGAIN, -EIO }, { FN_POSITIVE, -EIO },
		     { FN_OTHER, -EOPNOTSUPP }, { FN_WORKS, 0 } };

	open_variant(_i);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct arax_launch_range r;
		struct fn_args a = { 20 + (int32_t)i, ends[i].mode, ITEMS };

		memset(pages, 0, sizeof(pages));
		r = put(0, ITEMS);
		ck_assert_int_eq(call(0, &r, 10 + (int32_t)i, ends[i].mode), ends[i].err);
		take();
		/* What it has put there has been done when that is known. */
		ck_assert_int_eq(pages[ITEMS - 1], ends[i].mode == FN_OTHER ? 0 : 10 + (int32_t)i);
		ck_assert_int_eq(submit(fn, &r, &a, 5, 0), ends[i].err);
		if (!ends[i].err)
			ck_assert_int_eq(wait_for(5), 0);
		take();
		ck_assert_int_eq(pages[ITEMS - 1], ends[i].mode == FN_OTHER ? 0 : 20 + (int32_t)i);
	}
	close_variant();
}
END_TEST

START_TEST(bad_launches)
{
	struct fn_args a = { 1, FN_WORKS, 0 };
	struct arax_launch_range r, bad;

	open_variant(_i);
	memset(pages, 0, sizeof(pages));
	r = put(0, ITEMS);
	bad = r;
	bad.data = (char *)bad.data + 1;
	ck_assert_int_eq(call(0, &bad, 1, FN_WORKS), -EINVAL);
	bad = r;
	bad.count = 2;
	bad.stride = 128;
	ck_assert_int_eq(call(0, &bad, 1, FN_WORKS), -EINVAL);
	ck_assert_int_eq(launch(dev, fn, 0, 1, 1, &r, 1, &a, sizeof(a) - 4), -EINVAL);
	ck_assert_int_eq(launch(dev, fn, 0, 1, 1, &r, 0, &a, sizeof(a)), -EINVAL);
	/* Its own checks: shorter than it needs.  An empty one has no buffer. */
	bad = r;
	bad.length = 0;
	ck_assert_int_eq(call(0, &bad, 1, FN_WORKS), 0);
	a.n = 1;
	ck_assert_int_eq(launch(dev, fn, 0, 1, 1, &bad, 1, &a, sizeof(a)), -EINVAL);
	if (dev->info.memory) {
		bad = r;
		bad.length = sizeof(pages) + 4;
		ck_assert_int_eq(call(0, &bad, 1, FN_WORKS), -EFAULT);
	}
	take();
	for (uint32_t k = 0; k < 1024; k++)
		ck_assert_int_eq(pages[k], 0);
	ck_assert_int_eq(call(0, &r, 1, FN_WORKS), 0);
	close_variant();
}
END_TEST

/* Kernels and functions on one queue, four at once, each on what the one before it has left. */
START_TEST(in_order)
{
	struct arax_launch_range r;

	open_variant(_i);
	r = put(0, ITEMS);
	for (int32_t round = 1; round < 200; round++) {
		struct fn_args a = { round * 100, FN_WORKS, ITEMS };

		ck_assert_int_eq(submit(inc, &r, NULL, 0, 0), 0);
		ck_assert_int_eq(submit(fn, &r, &a, 1, 0), 0);
		for (uint64_t i = 2; i < ARAX_LANE_DEPTH; i++)
			ck_assert_int_eq(submit(inc, &r, NULL, i, 0), 0);
		ck_assert_int_eq(submit(fn, &r, &a, 1, 0), -EAGAIN);
		for (uint64_t i = 0; i < ARAX_LANE_DEPTH; i++)
			ck_assert_int_eq(wait_for(i), 0);
		take();
		ck_assert_int_eq(pages[3], round * 100 + ARAX_LANE_DEPTH - 2);
	}
	close_variant();
}
END_TEST

/* Kernels may come after a function; a function itself is called when it has nothing to wait for. */
START_TEST(followed)
{
	struct arax_launch_range r;

	open_variant(0);
	if (!device_follows(dev)) {
		be_skip("followed", "this driver's launches can't wait for each other's success");
		close_variant();
		return;
	}
	r = put(0, ITEMS);
	for (int32_t round = 1; round < 500; round++) {
		struct fn_args a = { round * 10, FN_WORKS, ITEMS };

		ck_assert_int_eq(submit(fn, &r, &a, 0, 0), 0);
		ck_assert_int_eq(submit(inc, &r, NULL, 1, 1), 0);
		ck_assert_int_eq(submit(inc, &r, NULL, 2, 3), 0);
		ck_assert_int_eq(submit(fn, &r, &a, 3, 1), -EAGAIN);
		for (uint64_t i = 0; i < 3; i++)
			ck_assert_int_eq(wait_for(i), 0);
		ck_assert_int_eq(pages[3], round * 10 + 2);
	}
	close_variant();
}
END_TEST

static struct opencl_api real;
static bool broken;

static cl_int CL_API_CALL finish(cl_command_queue q)
{
	cl_int err = real.Finish(q);

	return broken ? CL_OUT_OF_RESOURCES : err;
}

/* A function that breaks the context says nothing of that: its queue does. */
START_TEST(lost_by_a_function)
{
	const struct fn_args a = { 7, FN_FAILS, ITEMS };
	struct arax_launch_range r;
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = 1, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
		.group_end = 1, .ranges = &r, .args = &a, .arg_len = sizeof(a),
	};
	struct arax_backend_run run = { .size = sizeof(run), .launch = &l, .name = "test" };

	open_variant(_i / 2);
	real = cl;
	cl.Finish = finish;
	r = put(0, ITEMS);
	run.kernel = fn;
	broken = true;
	if (_i % 2) {
		struct arax_backend_done done = { 0 };

		ck_assert_int_eq(device_submit(dev, &run, 5), 0);
		ck_assert_int_eq(device_wait(dev, 0, &done), 0);
		ck_assert_uint_eq(done.cookie, 5);
		ck_assert_int_eq(done.result, -ENODEV);
		ck_assert_uint_eq(done.flags, ARAX_DONE_ALONE);
	} else {
		ck_assert_int_eq(device_run(dev, &run), -ENODEV);
		ck_assert_uint_eq(run.alone, 1);
	}
	broken = false;
	ck_assert_int_eq(device_reset(dev), 0);
	own = 0;
	r = put(0, ITEMS);
	ck_assert_int_eq(call(0, &r, 8, FN_WORKS), 0);
	take();
	ck_assert_int_eq(pages[3], 8);
	close_variant();
}
END_TEST

/* What it keeps for a queue goes with that, and comes again. */
START_TEST(a_new_context)
{
	struct arax_launch_range r;

	open_variant(_i);
	for (int32_t turn = 1; turn < 4; turn++) {
		r = put(0, ITEMS);
		ck_assert_int_eq(call(0, &r, turn, FN_WORKS), 0);
		take();
		ck_assert_int_eq(pages[3], turn);
		ck_assert_int_eq(fn_states(), 1);
		ck_assert_int_eq(device_reset(dev), 0);
		ck_assert_int_eq(fn_states(), 0);
		own = 0;
	}
	close_variant();
}
END_TEST

static int try_load(const struct arax_backend_kernel *d)
{
	void *k;

	return device_kernel_load(dev, d, &k);
}

START_TEST(what_is_refused)
{
	struct arax_backend_kernel gpus;
	char path[128];

	ck_assert_int_eq(open_opencl(""), 0);
	dev = devices_at(devices, 0);
	be_write(folder, "k.cl", INC);
	snprintf(path, sizeof(path), "%s/k.cl", folder);
	fn_assert_refused(try_load, -ENOEXEC, path, "inc");
	assert_logged("invalid ELF header");
	fn_assert_refused(try_load, -ENOENT, FN_FILE, "fn_spill");
	assert_logged("there is no function fn_spill in it");
	setenv("ARAX_TEST_STREAM_OPEN", "no library of that name", 1);
	fn_assert_refused(try_load, -ENOENT, FN_FILE, "fn_fill");
	assert_logged("fn_fill: no library of that name");
	unsetenv("ARAX_TEST_STREAM_OPEN");
	/* PoCL's is none: whatever the code is. */
	gpus = fn_desc(FN_FILE, "fn_fill");
	gpus.flags |= ARAX_KERNEL_GPUS;
	ck_assert_int_eq(try_load(&gpus), -EOPNOTSUPP);
	gpus.flags = ARAX_KERNEL_GPUS;
	ck_assert_int_eq(try_load(&gpus), -EOPNOTSUPP);
	close(gpus.fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("opencl_stream");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, ranges_are_buffers, 0, 2);
	tcase_add_loop_test(t, how_it_ends, 0, 2);
	tcase_add_loop_test(t, bad_launches, 0, 2);
	tcase_add_loop_test(t, in_order, 0, 2);
	tcase_add_test(t, followed);
	tcase_add_loop_test(t, lost_by_a_function, 0, 4);
	tcase_add_loop_test(t, a_new_context, 0, 2);
	tcase_add_test(t, what_is_refused);
	suite_add_tcase(s, t);
	return run_opencl(s);
}
