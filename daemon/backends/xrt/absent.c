// SPDX-License-Identifier: MIT
/* In the XRT backend's place where araxd was built without the headers. */
#include <errno.h>
#include <stdio.h>

#include "daemon/backends/builtin.h"

static int probe(char *why, uint32_t len)
{
	snprintf(why, len, "built without XRT's headers (Debian: libxrt-dev)");
	return -ENOSYS;
}

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

static const struct arax_backend backend = {
	.struct_size = sizeof(backend),
	.api_version = ARAX_BACKEND_API,
	.name = "xrt",
	.config = config,
	.probe = probe,
	.open = open_device,
	.close = close_device,
	.info = info,
	.kernel_load = kernel_load,
	.kernel_unload = kernel_unload,
	.run = run,
};

const struct arax_backend *xrt_backend_init(const struct arax_backend_host *host)
{
	return &backend;
}
