/* SPDX-License-Identifier: MIT */
/*
 * be_gpu.h - what the tests of the GPU backends share
 *
 * They run the real backends "cuda" and "hip" on a driver in software (emulated, not
 * hardware: selftests/gpu-emulated), which is loaded by its path.
 */
#ifndef ARAX_SELFTESTS_UNIT_BE_GPU_H
#define ARAX_SELFTESTS_UNIT_BE_GPU_H

#include <dlfcn.h>

#include "daemon/backends/plugin.h"
#include "selftests/gpu-emulated/emulated.h"
#include "selftests/unit/be_device.h"

static const struct gpu_which {
	const char *name;
	uint32_t kind;
} gpus[] = {
#ifdef GPU_HAS_CUDA
	{ "cuda", ARAX_DEVICE_CUDA },
#endif
#ifdef GPU_HAS_HIP
	{ "hip", ARAX_DEVICE_HIP },
#endif
};

#define NR_GPUS ((int)(sizeof(gpus) / sizeof(gpus[0])))

/* Of the variant that this program is of: a sanitizer wants all or nothing. */
static inline const char *emulated_library(char path[4096], const char *name)
{
	char cwd[3072];

	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	snprintf(path, 4096, "%s/build/test/" VARIANT "/lib%s-emulated.so", cwd, name);
	return path;
}

static inline const char *emulated_path(const struct gpu_which *w)
{
	static char path[4096];

	return emulated_library(path, w->name);
}

#endif /* ARAX_SELFTESTS_UNIT_BE_GPU_H */
