// SPDX-License-Identifier: MIT
/*
 * arax-std's GPU kernels, from their CUDA C++ source, on a driver in software: emulated,
 * not hardware; see be_cases.h and selftests/gpu-emulated.
 */
#include "selftests/unit/be_gpu.h"

static const struct gpu_which *which;

#define KIND (which->kind)
#define BLOCK		8	/* each is a thread, where a kernel has barriers */

static int open_kind(const char *options)
{
	char text[5000];

	snprintf(text, sizeof(text), "cpu { enable = false } backend \"%s\" { options = { \"lanes=1\", \"library=%s\"%s } }",
		 which->name, emulated_path(which), options);
	return open_devices(text);
}

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

int main(void)
{
	Suite *all = suite_create("gpu_std");
	SRunner *sr = srunner_create(all);
	int failed;

	puts("# emulated, not hardware");
	for (int i = 0; i < NR_GPUS; i++) {
		if (is_compiled(&gpus[i]))
			srunner_add_suite(sr, case_suite(gpus[i].name, 1, i ? use_last : use_first));
		else
			be_skip(gpus[i].name, "arax-std has no kernels for it: no nvcc, or no hipcc");
	}
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
