// SPDX-License-Identifier: MIT
/* The kernels that come with Arax, on OpenCL: see be_cases.h. */
#include <math.h>

#include "selftests/unit/be_opencl.h"

#define KIND		ARAX_DEVICE_OPENCL
#define open_kind	open_opencl
#define BLOCK		16	/* PoCL compiles each kernel for each size of a work-group */
#define VENDORS		true
#define DEVICE_BYTES(address, bytes)	NULL

/* Without company: no barrier has two sides then. */
static const uint32_t odd_blocks[] = { 1 };

static const char *const variants[] = { "", "\"zero-copy=no\"" };

#include "selftests/unit/be_cases.h"

static void *load_one(const char *name)
{
	const struct kernel *k = registry_find(registry, name);
	const struct kernel_impl *impl = k ? kernel_impl(k, KIND) : NULL;
	struct arax_backend_kernel desc = { .size = sizeof(desc) };
	void *kernel;

	ck_assert_msg(impl && !impl->host, "no kernel %s", name);
	desc.fd = impl->fd;
	desc.file = impl->file;
	desc.symbol = impl->symbol;
	desc.signature = k->sig.text;
	ck_assert_int_eq(device_kernel_load(dev, &desc, &kernel), 0);
	return kernel;
}

/*
 * Who launches many more work-groups than there is to do has no more done for it: what each of them
 * did again would take these longer than the test may.
 */
START_TEST(idle_groups_histogram)
{
	struct { float low, high; uint32_t n, bins; } args = { 0, 1, 1u << 23, 65536 };
	uint32_t *bin, sum = 0;
	struct trial t;
	void *kernel;
	float *x;

	open_all(variants[0]);
	kernel = load_one("histogram_f32");
	trial_open(&t, NULL, SIZE_NONE);
	x = add_bytes(&t, args.n * sizeof(*x));
	bin = add_bytes(&t, args.bins * sizeof(*bin));
	for (uint32_t i = 0; i < args.n; i++)
		x[i] = (float)(i % args.bins) / (float)args.bins;
	memcpy(t.args, &args, sizeof(args));
	t.arg_len = sizeof(args);
	ck_assert_int_eq(run(&t, kernel, 1u << 16, BLOCK), 0);
	for (uint32_t i = 0; i < args.bins; i++)
		sum += bin[i] == args.n / args.bins;
	ck_assert_uint_eq(sum, args.bins);
	trial_close(&t);
	device_kernel_unload(dev, kernel);
	close_all();
}
END_TEST

START_TEST(idle_groups_blur)
{
	struct { uint32_t width, height, size; float sigma; } args = { 1, 1, 129, 10 };
	struct trial t;
	void *kernel;

	open_all(variants[0]);
	kernel = load_one("blur");
	trial_open(&t, NULL, SIZE_NONE);
	*(float *)add_bytes(&t, sizeof(float)) = 3;
	add_bytes(&t, sizeof(float));
	memcpy(t.args, &args, sizeof(args));
	t.arg_len = sizeof(args);
	ck_assert_int_eq(run(&t, kernel, 1u << 24, BLOCK), 0);
	ck_assert(fabsf(*(float *)t.r[1].data - 3) < 1e-4f);
	trial_close(&t);
	device_kernel_unload(dev, kernel);
	close_all();
}
END_TEST

int main(void)
{
	Suite *suite = case_suite("opencl_std", 2, NULL);
	TCase *t = tcase_create("idle");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, idle_groups_histogram);
	tcase_add_test(t, idle_groups_blur);
	suite_add_tcase(suite, t);
	return run_opencl(suite);
}
