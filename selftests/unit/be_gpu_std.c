// SPDX-License-Identifier: MIT
/*
 * arax-std's and arax-blas's GPU kernels, from their CUDA C++ source, and by vendors' libraries:
 * on a driver, and with libraries, in software (emulated, not hardware; see selftests/gpu-emulated);
 * or, with the argument "hardware", on the first device of the machine's own driver.  See be_cases.h.
 */
#include "selftests/unit/be_gpu.h"

static const struct gpu_which *which;
static bool hardware;

#define KIND (which->kind)
/* In software each is a thread, where a kernel has barriers. */
#define BLOCK		(hardware ? 256u : 8u)
#define VENDORS		true
#define DEVICE_BYTES	emulated_bytes

static int open_kind(const char *options)
{
	char text[5000], library[4200] = "";

	if (!hardware)
		snprintf(library, sizeof(library), ", \"library=%s\", \"apart=no\"",
			 emulated_path(which));
	snprintf(text, sizeof(text), "cpu { enable = false } backend \"%s\" { options = { \"follow=yes\", \"lanes=1\"%s%s } }",
		 which->name, library, options);
	return open_devices(text);
}

static void *emulated_bytes(uint64_t address, uint64_t bytes)
{
	static __typeof__(emulated_memory) *where;
	void *library;

	if (hardware)
		return NULL;
	if (!where) {
		library = dlopen(emulated_path(which), RTLD_NOW | RTLD_LOCAL);
		ck_assert_ptr_nonnull(library);
		*(void **)&where = dlsym(library, "emulated_memory");
		ck_assert_ptr_nonnull(where);
	}
	ck_assert_ptr_nonnull(where(address, bytes));
	return where(address, bytes);
}

/*
 * Without company: no barrier has two sides then; halves that differ; and more than PARTS of
 * std_gpu.h, the others of which take no part but in barriers; what kernels are made for; and as
 * many as there may be.
 */
static const uint32_t odd_blocks[] = { 1, 7, 259, 256, 1024 };

static const char *const variants[] = { "" };

#include "selftests/unit/be_cases.h"

static bool is_compiled(const struct gpu_which *w)
{
	return !access(w->kind == ARAX_DEVICE_CUDA ? "build/lib/arax/kernels/arax-std.ptx" :
						     "build/lib/arax/kernels/arax-std.co", R_OK);
}

static void use_first(void)
{
	which = &gpus[0];
}

static void use_last(void)
{
	which = &gpus[NR_GPUS - 1];
}

int main(int argc, char **argv)
{
	Suite *all = suite_create("gpu_std");
	SRunner *sr = srunner_create(all);
	char why[512];
	int failed;

	hardware = argc > 1 && !strcmp(argv[1], "hardware");
	puts(hardware ? "# hardware" : "# emulated, not hardware");
	for (int i = 0; i < NR_GPUS; i++) {
		if (hardware && real_gpus(&gpus[i], why, sizeof(why)) <= 0)
			be_skip(gpus[i].name, why);
		else if (is_compiled(&gpus[i]))
			srunner_add_suite(sr, case_suite(gpus[i].name, 1, i ? use_last : use_first));
		else
			be_skip(gpus[i].name, "arax-std has no kernels for it: no nvcc, or no hipcc");
	}
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
