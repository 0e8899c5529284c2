// SPDX-License-Identifier: MIT
/* passes.c for CUDA devices.  PASS_IMAGE: the file that nvcc made of passes.cu. */
#include <cuda.h>

#include "daemon/kernels/std/passes_gpu.h"

const struct pass_names pass_names = {
	.load = "cuModuleLoadDataEx",
	.unload = "cuModuleUnload",
	.function = "cuModuleGetFunction",
	.about_function = "cuFuncGetAttribute",
	.about_device = "cuDeviceGetAttribute",
	.launch = "cuLaunchKernel",
	.allocate = "cuMemAlloc_v2",
	.release = "cuMemFree_v2",
	.multiprocessors = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
	.most_threads = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
};

#include "daemon/kernels/std/passes_image.h"
