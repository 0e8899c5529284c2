// SPDX-License-Identifier: MIT
/*
 * NVML in software, for the devices of driver.c: emulated, not hardware.
 *
 * Device n is busy 10 + n per cent, its memory 5 + n, of which 3 + n MiB are taken, and takes 100 W
 * and n mW.  In the
 * environment, EMULATED_NVML is "init": nothing works; "lost": no device is there; "power": none
 * is measured; "none": nothing is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT		__attribute__((visibility("default")))
#define FIRST_BUS	0xa0u
#define DEVICES		16u
#define NOT_SUPPORTED	3
#define NOT_FOUND	6
#define NO_DRIVER	9

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

struct utilization {
	unsigned int gpu, memory;
};

struct memory {
	unsigned long long total, free, used;
};

static int devices[DEVICES];

static int is(const char *how)
{
	const char *mode = getenv("EMULATED_NVML");

	return mode && !strcmp(mode, how);
}

EXPORT int nvmlInit_v2(void)
{
	return is("init") ? NO_DRIVER : 0;
}

EXPORT const char *nvmlErrorString(int err)
{
	return err == NOT_SUPPORTED ? "Not Supported" : err == NOT_FOUND ? "Not Found" :
	       err == NO_DRIVER ? "Driver Not Loaded" : "Unknown Error";
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *text, void **device)
{
	unsigned int bus;

	if (is("lost") || sscanf(text, "0000:%x:00.0", &bus) != 1 || bus - FIRST_BUS >= DEVICES)
		return NOT_FOUND;
	*device = &devices[bus - FIRST_BUS];
	return 0;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *device, struct utilization *u)
{
	unsigned int n = (unsigned int)((int *)device - devices);

	u->gpu = 10 + n;
	u->memory = 5 + n;
	return is("none") ? NOT_SUPPORTED : 0;
}

EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts)
{
	*milliwatts = 100000 + (unsigned int)((int *)device - devices);
	return is("none") || is("power") ? NOT_SUPPORTED : 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *m)
{
	m->total = 1ull << 30;
	m->used = (3 + (unsigned long long)((int *)device - devices)) << 20;
	m->free = m->total - m->used;
	return is("none") ? NOT_SUPPORTED : 0;
}
