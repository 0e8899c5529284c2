// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

static struct opencl_root *roots[OPENCL_MAX_DEVICES];
static struct opencl_place places[OPENCL_MAX_DEVICES];
static uint32_t nr_roots, nr_places;
static bool told_full;

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

/* Where units don't come out even, the first parts have one more each. */
static cl_int by_counts(struct opencl_root *r, cl_uint units, cl_uint wanted)
{
	/* The end of the counts is a 0, and so is the end of it all. */
	cl_device_partition_property how[OPENCL_MAX_DEVICES + 3] = { CL_DEVICE_PARTITION_BY_COUNTS };
	cl_uint got = 0, i;
	cl_int err;

	for (i = 0; i < wanted; i++)
		how[1 + i] = (cl_device_partition_property)(units / wanted + (i < units % wanted));
	err = cl.CreateSubDevices(r->id, how, wanted, r->subs, &got);
	if (!err)
		r->nr_subs = got;
	return err;
}

/* As many parts of one size as there are; those beyond @wanted, 7 units by 2 are 3, go back. */
static cl_int equally(struct opencl_root *r, cl_uint units, cl_uint wanted)
{
	cl_device_partition_property how[] = {
		CL_DEVICE_PARTITION_EQUALLY, (cl_device_partition_property)(units / wanted), 0,
	};
	cl_device_id *all;
	cl_uint n = 0;
	cl_int err = cl.CreateSubDevices(r->id, how, 0, NULL, &n);

	if (err)
		return err;
	all = calloc(n ? n : 1, sizeof(*all));
	if (!all)
		return CL_OUT_OF_HOST_MEMORY;
	err = cl.CreateSubDevices(r->id, how, n, all, &n);
	while (!err && n > wanted)
		cl.ReleaseDevice(all[--n]);
	if (!err) {
		memcpy(r->subs, all, n * sizeof(*all));
		r->nr_subs = n;
	}
	free(all);
	return err;
}

/*
 * A device that has too few units, or can't be divided, is used whole: what it computes is the
 * same.
 */
static void divide(struct opencl_root *r, const char *name)
{
	cl_uint wanted = opencl_options.sub_devices, units = 0, max = 0, used;
	cl_int counts, equal;

	if (!cl.CreateSubDevices || !cl.ReleaseDevice) {
		opencl_log(ARAX_LOG_WARNING, "%s is not divided: libOpenCL is older than 1.2", name);
		return;
	}
	cl.GetDeviceInfo(r->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
	cl.GetDeviceInfo(r->id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof(max), &max, NULL);
	if (units < wanted || max < wanted) {
		opencl_log(ARAX_LOG_WARNING, "%s is not divided: sub-devices = %u, it has %u units and its driver allows %u parts: ask for fewer",
			   name, wanted, units, max);
		return;
	}
	counts = by_counts(r, units, wanted);
	if (!counts && r->nr_subs)
		return;
	/* Not each driver knows counts. */
	equal = equally(r, units, wanted);
	if (equal || !r->nr_subs) {
		opencl_log(ARAX_LOG_WARNING, "%s is not divided: its driver makes no %u parts by counts of units (%s) nor of %u units each (%s): try another number, or remove sub-devices",
			   name, wanted, opencl_error_name(counts), units / wanted,
			   opencl_error_name(equal));
		return;
	}
	used = r->nr_subs * (units / wanted);
	if (used < units)
		opencl_log(ARAX_LOG_WARNING, "%s: %u of its %u units are not used: its driver makes parts of one size alone (%s): take sub-devices that divide %u",
			   name, units - used, units, opencl_error_name(counts), units);
}

/* Once for all that follow, too. */
static void say_full(const char *name)
{
	if (!told_full)
		opencl_log(ARAX_LOG_WARNING, "%s, or parts of it, and whatever follows are left out: there are %u devices already: see the options platforms, devices, sub-devices",
			   name, OPENCL_MAX_DEVICES);
	told_full = true;
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
	if (nr_places == OPENCL_MAX_DEVICES) {
		say_full(name);
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	roots[nr_roots++] = r;
	r->platform = platform;
	r->id = id;
	if (opencl_options.sub_devices > 1)
		divide(r, name);
	if (r->nr_subs > OPENCL_MAX_DEVICES - nr_places)
		say_full(name);
	for (uint32_t i = 0; i < r->nr_subs && nr_places < OPENCL_MAX_DEVICES; i++)
		places[nr_places++] = (struct opencl_place){ r, r->subs[i] };
	if (!r->nr_subs)
		places[nr_places++] = (struct opencl_place){ r, id };
	return 0;
}

static int add_platform(cl_platform_id platform, cl_uint *seen)
{
	cl_device_id *ids;
	char name[256] = "";
	cl_uint n = 0, most;
	cl_int cerr;
	int err = 0;

	cl.GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof(name), name, NULL);
	name[sizeof(name) - 1] = '\0';
	if (fnmatch(opencl_options.platforms, name, 0))
		return 0;
	/* All of them: whoever names devices may name the last one. */
	cerr = cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n);
	most = n;
	ids = calloc(most + 1ul, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	if (!cerr && most)
		cerr = cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, most, ids, &n);
	if (cerr && cerr != CL_DEVICE_NOT_FOUND)
		opencl_log(ARAX_LOG_WARNING, "platform %s: %s", name, opencl_error_name(cerr));
	n = cerr ? 0 : n < most ? n : most;
	*seen += n;
	for (cl_uint i = 0; !err && i < n; i++)
		err = add_device(platform, ids[i]);
	free(ids);
	return err;
}

/* 0: there is none */
static int find_platforms(cl_platform_id **platforms, char *why, uint32_t len)
{
	cl_uint most = 0, n = 0;
	cl_int cerr = cl.GetPlatformIDs(0, NULL, &most);

	*platforms = calloc(most + 1ul, sizeof(**platforms));
	if (!*platforms)
		return -ENOMEM;
	if (!cerr && most)
		cerr = cl.GetPlatformIDs(most, *platforms, &n);
	if (cerr || !n) {
		snprintf(why, len, "no OpenCL driver: install one (Debian: pocl-opencl-icd): %s",
			 cerr ? opencl_error_name(cerr) : "no platform");
		return 0;
	}
	return (int)(n < most ? n : most);
}

int opencl_find(char *why, uint32_t len)
{
	cl_platform_id *platforms;
	cl_uint seen = 0;
	int n, err = 0;

	opencl_forget();
	told_full = false;
	n = find_platforms(&platforms, why, len);
	for (int i = 0; !err && i < n; i++)
		err = add_platform(platforms[i], &seen);
	free(platforms);
	if (n <= 0)
		return n ? n : -ENODEV;
	if (err) {
		opencl_forget();
		return err;
	}
	if (!nr_places && seen)
		snprintf(why, len, "no usable device of %u: see the options platforms = %s, devices = %s",
			 seen, opencl_options.platforms, opencl_options.devices);
	else if (!nr_places)
		snprintf(why, len, "%d OpenCL platforms, but no device in those that match \"%s\"", n,
			 opencl_options.platforms);
	return nr_places ? (int)nr_places : -ENODEV;
}
