// SPDX-License-Identifier: MIT
/*
 * Devices of XRT, the stack of Xilinx's and AMD's FPGA cards.
 *
 * They are configured for what they run: a kernel is part of an .xclbin file, and its
 * compute units are circuits that are there while this file is on the device.  OpenCL
 * kernels for FPGAs go by XRT's OpenCL driver and the opencl backend.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/builtin.h"
#include "daemon/backends/options.h"
#include "daemon/backends/xrt/backend.h"
#include "uapi/arax.h"

#define DEFAULT_LANES	16
#define DEFAULT_SWITCH	1000000000ull	/* a guess, until one was measured */
#define MAX_SWITCH_MS	600000

struct xrt_options xrt_options;
static const struct arax_backend_host *araxd;

void xrt_log(int level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	araxd->log(level, "xrt", text);
}

void xrt_explain(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!ARAX_HOST_HAS(araxd, explain) || !araxd->explain)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	araxd->explain(text);
}

/* ------------------------------------------------------------------ */
/* Options                                                               */

static int load(void)
{
	xrt_options = (struct xrt_options){
		.lanes = DEFAULT_LANES, .switch_ns = DEFAULT_SWITCH, .zero_copy = true,
	};
	return 0;
}

static const char *const auto_or_no[] = { "auto", "no", NULL };

static int config(const char *key, const char *value)
{
	struct xrt_options *o = &xrt_options;
	static const char *const emulations[] = { "noop", "sw_emu", "hw_emu", NULL };
	uint64_t v;
	int err;

	if (!strcmp(key, "root"))
		return option_path(araxd, o->root, sizeof(o->root), value);
	if (!strcmp(key, "emulation")) {
		err = option_word(araxd, emulations, value);
		if (err < 0)
			return err;
		strcpy(o->emulation, value);
		return 0;
	}
	if (!strcmp(key, "lanes"))
		return option_small(araxd, &o->lanes, XRT_MAX_LANES, value);
	if (!strcmp(key, "memory"))
		return option_size(araxd, &o->memory, value);
	if (!strcmp(key, "switch-ms")) {
		err = option_number(araxd, &v, MAX_SWITCH_MS, value);
		o->switch_ns = err ? o->switch_ns : v * 1000000;
		return err;
	}
	if (!strcmp(key, "zero-copy")) {
		err = option_word(araxd, auto_or_no, value);
		o->zero_copy = !err;
		return err < 0 ? err : 0;
	}
	return -ENOENT;
}

/* ------------------------------------------------------------------ */
/* Operations                                                            */

static int probe(char *why, uint32_t len)
{
	const struct xrt_options *o = &xrt_options;
	int err = xrt_api_open(o->root[0] ? o->root : NULL,
			       o->emulation[0] ? o->emulation : NULL, why, len);

	return err ? err : xrt_find(why, len);
}

/* The libraries stay: they have exit handlers, and not all survive being unmapped. */
static void unload(void)
{
	xrt_api_close();
}

static int open_device(uint32_t index, void **dev)
{
	return xrt_device_open(index, (struct xrt_device **)dev);
}

static void close_device(void *dev)
{
	xrt_device_close(dev);
}

static int info(void *dev, struct arax_backend_info *info)
{
	struct xrt_device *d = dev;
	uint32_t units = xrt_units(d);

	info->kind = ARAX_DEVICE_XRT;
	/* Before any kernel is known, the most that there may be. */
	info->lanes = units && units < d->nr_lanes ? units : d->nr_lanes;
	info->units = units;
	info->memory = d->bytes;
	snprintf(info->name, sizeof(info->name), "%s", d->name);
	info->cpus[0] = '\0';
	return 0;
}

static int kernel_load(void *dev, const struct arax_backend_kernel *desc, void **kernel)
{
	return xrt_kernel_load(dev, desc, (struct xrt_kernel **)kernel);
}

static void kernel_unload(void *dev, void *kernel)
{
	xrt_kernel_unload(dev, kernel);
}

static int run(void *dev, struct arax_backend_run *run)
{
	return xrt_run(dev, run);
}

static int alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	return wanted ? -EOPNOTSUPP : xrt_alloc(dev, bytes, NULL, address);
}

static int alloc_on(void *dev, uint64_t bytes, void *host, uint64_t *address)
{
	return host ? xrt_alloc(dev, bytes, host, address) : -EOPNOTSUPP;
}

static void free_memory(void *dev, uint64_t address)
{
	xrt_free(dev, address);
}

static int copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	return xrt_copy_in(dev, to, from, bytes);
}

static int copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	return xrt_copy_out(dev, to, from, bytes);
}

static uint32_t configuration(void *dev, void *kernel)
{
	return ((const struct xrt_kernel *)kernel)->image->number;
}

static int configure(void *dev, void *kernel)
{
	return xrt_configure(dev, kernel);
}

static uint64_t switch_ns(void *dev, void *kernel)
{
	return xrt_switch_ns(dev, kernel);
}

static const struct arax_backend backend = {
	.struct_size = sizeof(backend),
	.api_version = ARAX_BACKEND_API,
	.name = "xrt",
	.longname = "FPGA cards with Xilinx's XRT",
	.version = ARAX_VERSION,
	.load = load,
	.unload = unload,
	.config = config,
	.probe = probe,
	.open = open_device,
	.close = close_device,
	.info = info,
	.kernel_load = kernel_load,
	.kernel_unload = kernel_unload,
	.run = run,
	.alloc = alloc,
	.free = free_memory,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.configuration = configuration,
	.configure = configure,
	.switch_ns = switch_ns,
	.alloc_on = alloc_on,
};

const struct arax_backend *xrt_backend_init(const struct arax_backend_host *host)
{
	araxd = host;
	return &backend;
}
