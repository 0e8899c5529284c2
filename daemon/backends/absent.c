// SPDX-License-Identifier: MIT
/*
 * In the place of backends whose headers were not there when araxd was built: they say
 * so where people look for their devices.
 */
#include <errno.h>
#include <stdio.h>

#include "daemon/backends/builtin.h"

/* Options are for when it is there. */
static int config(const char *key, const char *value)
{
	return 0;
}

static int open_device(uint32_t index, void **dev)
{
	return -ENODEV;
}

static void close_device(void *dev)
{
}

static int info(void *dev, struct arax_backend_info *info)
{
	return -ENODEV;
}

static int kernel_load(void *dev, const struct arax_backend_kernel *k, void **kernel)
{
	return -ENODEV;
}

static void kernel_unload(void *dev, void *kernel)
{
}

static int run(void *dev, struct arax_backend_run *run)
{
	return -ENODEV;
}

#define ABSENT(which, what) \
	static int which##_probe(char *why, uint32_t len) \
	{ \
		snprintf(why, len, "built without " what); \
		return -ENOSYS; \
	} \
	static const struct arax_backend which##_backend = { \
		.struct_size = sizeof(which##_backend), \
		.api_version = ARAX_BACKEND_API, \
		.name = #which, \
		.config = config, \
		.probe = which##_probe, \
		.open = open_device, \
		.close = close_device, \
		.info = info, \
		.kernel_load = kernel_load, \
		.kernel_unload = kernel_unload, \
		.run = run, \
	}; \
	const struct arax_backend *which##_backend_init(const struct arax_backend_host *host) \
	{ \
		return &which##_backend; \
	}

#ifdef OPENCL_ABSENT
ABSENT(opencl, "OpenCL headers (Debian: opencl-c-headers)")
#endif
#ifdef XRT_ABSENT
ABSENT(xrt, "XRT's headers (Debian: libxrt-dev)")
#endif
#ifndef GPU_HAS_CUDA
ABSENT(cuda, "the CUDA Toolkit's headers: install it, and give make CUDA_HOME= if it is not in /usr/local/cuda")
#endif
#ifndef GPU_HAS_HIP
ABSENT(hip, "HIP's headers (Debian: libamdhip64-dev)")
#endif
