// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

#define MAX_PLATFORMS 32

static struct opencl_root *roots[OPENCL_MAX_DEVICES];
static struct opencl_place places[OPENCL_MAX_DEVICES];
static uint32_t nr_roots, nr_places;

const struct opencl_place *opencl_place(uint32_t index)
{
	return index < nr_places ? &places[index] : NULL;
}

void opencl_forget(void)
{
	while (nr_roots) {
		struct opencl_root *r = roots[--nr_roots];

		while (r->nr_subs)
			cl.ReleaseDevice(r->subs[--r->nr_subs]);
		free(r);
	}
	nr_places = 0;
}

/*
 * Equal parts.  A device that has too few units, or can't be divided, is used
 * whole: what it computes is the same.
 */
static void divide(struct opencl_root *r, const char *name)
{
	cl_device_partition_property how[] = { CL_DEVICE_PARTITION_EQUALLY, 0, 0 };
	uint32_t wanted = opencl_options.sub_devices;
	cl_uint units = 0, max = 0, got = 0;
	cl_int err;

	cl.GetDeviceInfo(r->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
	cl.GetDeviceInfo(r->id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof(max), &max, NULL);
	if (!cl.CreateSubDevices || !cl.ReleaseDevice || units < wanted || max < wanted) {
		opencl_log(ARAX_LOG_WARNING, "%s is not divided: sub-devices = %u, it has %u units and allows %u",
			   name, wanted, units, max);
		return;
	}
	how[1] = (cl_device_partition_property)(units / wanted);
	err = cl.CreateSubDevices(r->id, how, OPENCL_MAX_DEVICES, r->subs, &got);
	if (err || !got) {
		opencl_log(ARAX_LOG_WARNING, "%s is not divided: %s", name, opencl_error_name(err));
		return;
	}
	r->nr_subs = got;
	/* 7 units by 2 are 3 parts of 2. */
	while (r->nr_subs > wanted)
		cl.ReleaseDevice(r->subs[--r->nr_subs]);
}

static int add_device(cl_platform_id platform, cl_device_id id)
{
	struct opencl_root *r;
	char name[256] = "";
	cl_bool available = CL_FALSE, compiler = CL_FALSE;

	cl.GetDeviceInfo(id, CL_DEVICE_NAME, sizeof(name), name, NULL);
	name[sizeof(name) - 1] = '\0';
	if (fnmatch(opencl_options.devices, name, 0))
		return 0;
	cl.GetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof(available), &available, NULL);
	cl.GetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(compiler), &compiler, NULL);
	if (!available || !compiler) {
		opencl_log(ARAX_LOG_WARNING, "%s is left out: it %s", name,
			   available ? "can't compile" : "is not available");
		return 0;
	}
	if (nr_places == OPENCL_MAX_DEVICES)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	roots[nr_roots++] = r;
	r->platform = platform;
	r->id = id;
	if (opencl_options.sub_devices > 1)
		divide(r, name);
	for (uint32_t i = 0; i < r->nr_subs && nr_places < OPENCL_MAX_DEVICES; i++)
		places[nr_places++] = (struct opencl_place){ r, r->subs[i] };
	if (!r->nr_subs)
		places[nr_places++] = (struct opencl_place){ r, id };
	return 0;
}

static int add_platform(cl_platform_id platform, cl_uint *seen)
{
	cl_device_id ids[OPENCL_MAX_DEVICES];
	char name[256] = "";
	cl_uint n = 0;
	cl_int cerr;
	int err = 0;

	cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, NULL);
	name[sizeof(name) - 1] = '\0';
	if (fnmatch(opencl_options.platforms, name, 0))
		return 0;
	cerr = cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, OPENCL_MAX_DEVICES, ids, &n);
	if (cerr && cerr != CL_DEVICE_NOT_FOUND)
		opencl_log(ARAX_LOG_WARNING, "platform %s: %s", name, opencl_error_name(cerr));
	if (cerr)
		return 0;
	if (n > OPENCL_MAX_DEVICES)
		n = OPENCL_MAX_DEVICES;
	*seen += n;
	for (cl_uint i = 0; !err && i < n; i++)
		err = add_device(platform, ids[i]);
	return err;
}

int opencl_find(char *why, uint32_t len)
{
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_uint n = 0, seen = 0;
	cl_int cerr;
	int err = 0;

	opencl_forget();
	cerr = cl.GetPlatformIDs(MAX_PLATFORMS, platforms, &n);
	if (cerr || !n) {
		snprintf(why, len, "no OpenCL driver: install one (Debian: pocl-opencl-icd): %s",
			 cerr ? opencl_error_name(cerr) : "no platform");
		return -ENODEV;
	}
	if (n > MAX_PLATFORMS)
		n = MAX_PLATFORMS;
	for (cl_uint i = 0; !err && i < n; i++)
		err = add_platform(platforms[i], &seen);
	if (err) {
		opencl_forget();
		return err;
	}
	if (!nr_places && seen)
		snprintf(why, len, "no usable device of %u: see the options platforms = %s, devices = %s",
			 seen, opencl_options.platforms, opencl_options.devices);
	else if (!nr_places)
		snprintf(why, len, "%u OpenCL platforms, but no device in those that match \"%s\"", n,
			 opencl_options.platforms);
	return nr_places ? (int)nr_places : -ENODEV;
}
