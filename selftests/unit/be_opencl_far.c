// SPDX-License-Identifier: MIT
/*
 * The kernels that come with Arax, on OpenCL, where 32 bits do not count their items (far.h).  PoCL
 * takes buffers of a quarter of the memory that there is.
 *
 *	be_opencl_far [KERNEL...]
 */
#include <setjmp.h>

#include "daemon/kernels/registry.h"
#include "selftests/unit/be_opencl.h"
#include "selftests/unit/far.h"

#define FOLDER	"build/lib/arax/kernels"
#define GROUPS	4
#define BLOCK	16

static struct registry *registry;
static struct device *dev;
static jmp_buf too_large;

static void launch_on_opencl(const char *name, const struct arax_launch_range *r, uint32_t nr,
			     const void *args, uint32_t arg_len)
{
	const struct kernel *k = registry_find(registry, name);
	const struct kernel_impl *impl = k ? kernel_impl(k, ARAX_DEVICE_OPENCL) : NULL;
	struct arax_backend_kernel desc = { .size = sizeof(desc) };
	void *kernel;
	int err;

	/* Those that call vendors' libraries are for GPUs. */
	while (impl && impl->host)
		impl = kernel_impl_next(k, impl);
	ck_assert_msg(impl, "no kernel %s for OpenCL", name);
	desc.fd = impl->fd;
	desc.file = impl->file;
	desc.symbol = impl->symbol;
	desc.signature = k->sig.text;
	ck_assert_int_eq(device_kernel_load(dev, &desc, &kernel), 0);
	err = launch(dev, kernel, 0, GROUPS, BLOCK, r, nr, args, arg_len);
	if (err && strstr(read_log(), "CL_INVALID_BUFFER_SIZE"))
		longjmp(too_large, 1);
	ck_assert_msg(!err, "%s: %d\n%s", name, err, read_log());
	device_kernel_unload(dev, kernel);
}

START_TEST(far)
{
	const char *name = far_name((size_t)_i);

	log_max_level = LOG_LEVEL_WARNING;
	ck_assert_int_eq(open_opencl(""), 0);
	dev = devices_at(devices, 0);
	if (dev->info.memory) {
		be_skip(name, "the device has memory of its own");
		return;
	}
	registry = registry_create();
	ck_assert_int_gt(registry_load_folder(registry, FOLDER), 0);
	if (setjmp(too_large))
		be_skip(far_name((size_t)_i),
			"the driver takes no buffer of that size (CL_INVALID_BUFFER_SIZE)");
	else
		far_run((size_t)_i, launch_on_opencl);
	registry_destroy(registry);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("opencl_far");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 600);
	tcase_add_checked_fixture(t, setup, teardown);
	for (size_t i = 0; i < far_nr(); i++) {
		bool wanted = argc < 2;

		for (int k = 1; k < argc; k++)
			wanted |= !strcmp(argv[k], far_name(i));
		if (wanted)
			tcase_add_loop_test(t, far, (int)i, (int)i + 1);
	}
	suite_add_tcase(suite, t);
	return run_opencl(suite);
}
