// SPDX-License-Identifier: MIT
/*
 * NVML: how busy and how full NVIDIA's devices are and what power they take, by the driver's own
 * measure.
 *
 * The library comes with the driver, its header not with every toolkit: what is used of it
 * stands here.  These calls have been the same since CUDA 5.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backends/gpu/gpu.h"

#define LIBRARY "libnvidia-ml.so.1"

typedef int nvml_code;		/* 0: success */

struct nvml_utilization {
	unsigned int gpu, memory;	/* per cent of the last second, or a sixth of it */
};

struct nvml_memory {
	unsigned long long total, free, used;
};

static struct {
	void *library;
	nvml_code (*init)(void);
	const char *(*error_string)(nvml_code err);
	nvml_code (*get_handle)(const char *bus_id, void **device);
	nvml_code (*get_utilization)(void *device, struct nvml_utilization *u);
	nvml_code (*get_power)(void *device, unsigned int *milliwatts);
	nvml_code (*get_memory)(void *device, struct nvml_memory *m);
} nvml;

static const struct {
	const char *symbol;
	void **call;
} calls[] = {
	{ "nvmlInit_v2", (void **)&nvml.init },
	{ "nvmlErrorString", (void **)&nvml.error_string },
	{ "nvmlDeviceGetHandleByPciBusId_v2", (void **)&nvml.get_handle },
	{ "nvmlDeviceGetUtilizationRates", (void **)&nvml.get_utilization },
	{ "nvmlDeviceGetPowerUsage", (void **)&nvml.get_power },
	{ "nvmlDeviceGetMemoryInfo", (void **)&nvml.get_memory },
};

/* As the driver, it stays for as long as the process. */
static int open_library(const char *file, char *why, size_t len)
{
	nvml_code err;

	if (nvml.library)
		return 0;
	nvml.library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!nvml.library) {
		snprintf(why, len, "no NVML, install it (Debian: libnvidia-ml1): %s", dlerror());
		return -ENOENT;
	}
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		*calls[i].call = dlsym(nvml.library, calls[i].symbol);
		if (*calls[i].call)
			continue;
		snprintf(why, len, "%s has no %s: install a newer NVIDIA driver", file,
			 calls[i].symbol);
		goto fail;
	}
	err = nvml.init();
	if (!err)
		return 0;
	snprintf(why, len, "NVML: %s", nvml.error_string(err));
fail:
	dlclose(nvml.library);
	memset(&nvml, 0, sizeof(nvml));
	return -ENODEV;
}

int gpu_nvml_open(const char *library, const char *bus_id, void **device, char *why, size_t len)
{
	nvml_code err;
	int ret;

	*device = NULL;
	ret = open_library(library ? library : LIBRARY, why, len);
	if (ret)
		return ret;
	err = nvml.get_handle(bus_id, device);
	if (!err)
		return 0;
	*device = NULL;
	snprintf(why, len, "NVML: %s: %s", bus_id, nvml.error_string(err));
	return -ENODEV;
}

/*
 * Not every board measures its power, and a part of one (MIG) has no utilisation: nor is the
 * board's memory its own.
 */
int gpu_nvml_read(void *device, struct arax_backend_gauges *g, char *why, size_t len)
{
	struct nvml_utilization u = { 0, 0 };
	struct nvml_memory m = { 0, 0, 0 };
	unsigned int power = 0;
	nvml_code err, no_power;

	err = nvml.get_utilization(device, &u);
	if (!err) {
		g->known |= ARAX_GAUGE_BUSY | ARAX_GAUGE_MEMORY;
		g->busy = u.gpu;
		g->memory_busy = u.memory;
		if (!nvml.get_memory(device, &m)) {
			g->known |= ARAX_GAUGE_TAKEN;
			g->memory_taken = m.used;
		}
	}
	no_power = nvml.get_power(device, &power);
	if (!no_power) {
		g->known |= ARAX_GAUGE_POWER;
		g->power_mw = power;
	}
	if (g->known)
		return 0;
	snprintf(why, len, "NVML: %s", nvml.error_string(err));
	return -EOPNOTSUPP;
}
