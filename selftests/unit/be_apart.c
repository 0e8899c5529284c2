// SPDX-License-Identifier: MIT
/*
 * GPUs that go on in a process of their own, after a fault that this one's driver does not get
 * over: emulated, not hardware.  Each test runs once for each backend that is built in.
 */
#include <dirent.h>
#include <signal.h>

#include "daemon/backends/gpu/gpu.h"
#include "daemon/memory/hostmap.h"
#include "selftests/unit/be_gpu_calls.h"

#define MIB	(1ull << 20)
#define STAGE	MIB		/* of a channel: what is longer goes in pieces */

static char helper_path[4096];

/* A driver that is not forgiving, and whose gate is in shared memory. */
static void setup_sticky(void)
{
	char path[128];

	setup();
	snprintf(path, sizeof(path), "%s/shared", folder);
	setenv("EMULATED_SHARED", path, 1);
	ck_assert_ptr_nonnull(getcwd(helper_path, 3072));
	strcat(helper_path, "/build/test/" VARIANT "/arax-device");
}

static void *open_apart(int which_gpu)
{
	const char *options[] = { "helper", helper_path, NULL };

	return open_gpu(which_gpu, options);
}

/* One bad kernel, alone. */
static void fault(void *dev, void *trap)
{
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);

	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &bad, 4), -EFAULT);
}

/* ------------------------------------------------------------------ */

START_TEST(goes_on_after_a_fault)
{
	void *dev = open_apart(_i), *k, *trap = load(dev, TRAP), *other = load(devs[1], TRAP);
	struct arax_backend_info before = { .size = sizeof(before) }, after = before;
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	char out[4];

	ck_assert_int_eq(ops->info(dev, &before), 0);
	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &bad, 4), -EFAULT);
	assert_broken(dev, trap, a);
	take_log();
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_logged("goes on in a process of its own");
	/* Nothing is left of it here, and what it had is not there. */
	ck_assert_uint_eq(emu_used(), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, 4), -EFAULT);
	assert_whole(dev, trap);
	assert_whole(devs[1], other);
	ck_assert_int_eq(ops->info(dev, &after), 0);
	ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
	/* Kernels come and go there as well. */
	k = load(dev, INC);
	ops->kernel_unload(dev, k);
	ops->kernel_unload(dev, trap);
	k = load(dev, TRAP);
	assert_whole(dev, k);
	ops->kernel_unload(dev, k);
	ops->kernel_unload(devs[1], other);
}
END_TEST

/* The second process is replaced, and so is the third. */
START_TEST(three_faults_in_a_row)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);

	for (int i = 0; i < 3; i++) {
		fault(dev, trap);
		ck_assert_int_eq(ops->reset(dev), 0);
		assert_whole(dev, trap);
	}
	ops->kernel_unload(dev, trap);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("apart");
	TCase *t = tcase_create("all");

	puts("# emulated, not hardware");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup_sticky, close_gpu);
#define ALL(test) tcase_add_loop_test(t, test, 0, NR_GPUS)
	ALL(goes_on_after_a_fault);
	ALL(three_faults_in_a_row);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
