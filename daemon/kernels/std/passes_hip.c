// SPDX-License-Identifier: MIT
/* passes.c for HIP devices.  PASS_IMAGE: the file that hipcc made of passes.cu. */
#define __HIP_PLATFORM_AMD__	1
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <hip/hip_runtime_api.h>

#include "daemon/kernels/std/passes_gpu.h"

const struct pass_names pass_names = {
	.load = "hipModuleLoadDataEx",
	.unload = "hipModuleUnload",
	.function = "hipModuleGetFunction",
	.about_function = "hipFuncGetAttribute",
	.about_device = "hipDeviceGetAttribute",
	.launch = "hipModuleLaunchKernel",
	.allocate = "hipMalloc",
	.release = "hipFree",
	.multiprocessors = hipDeviceAttributeMultiprocessorCount,
	.most_threads = HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
};

#include "daemon/kernels/std/passes_image.h"
