// SPDX-License-Identifier: MIT
/* One device: its context and queues, and where its kernels find their data. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

#include <CL/cl_ext.h>	/* for the version that api.h asks for */

#define PAGE 4096u

int opencl_check(struct opencl_device *d, cl_int err)
{
	int code = opencl_errno(err);

	if (code == -ENODEV && !__atomic_exchange_n(&d->lost, true, __ATOMIC_RELAXED))
		opencl_log(ARAX_LOG_ERR, "%s is lost: %s", d->name, opencl_error_name(err));
	return code;
}

/* ------------------------------------------------------------------ */
/* Host pages                                                            */

/*
 * Whether a buffer on host memory is that memory, in both directions and without
 * map or unmap: what the device writes is there, and what is written there later
 * the device reads.  The standard lets a driver keep a copy between two maps, and
 * some do where address or length don't suit them, so it is tried on an odd one too.
 */
static bool same_pages(struct opencl_device *d, cl_command_queue q, char *at, size_t bytes)
{
	const uint32_t first = 0x61726178, second = 0x78617261;
	uint32_t seen = 0;
	bool same = false;
	cl_int err;
	cl_mem mem;

	memset(at, 0, bytes);
	mem = cl.CreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, at, &err);
	if (err)
		return false;
	err = cl.EnqueueFillBuffer(q, mem, &first, sizeof(first), 0, bytes, 0, NULL, NULL);
	if (!err)
		err = cl.Finish(q);
	if (!err && !memcmp(at, &first, sizeof(first)) &&
	    !memcmp(at + bytes - sizeof(first), &first, sizeof(first))) {
		memcpy(at, &second, sizeof(second));
		err = cl.EnqueueReadBuffer(q, mem, CL_FALSE, 0, sizeof(seen), &seen, 0, NULL, NULL);
		if (!err)
			err = cl.Finish(q);
		same = !err && seen == second;
	}
	cl.ReleaseMemObject(mem);
	return same;
}

static bool host_pointers_work(struct opencl_device *d, cl_command_queue q, char *pages)
{
	return d->host_unified && same_pages(d, q, pages, PAGE) &&
	       same_pages(d, q, pages + 4, 40) && same_pages(d, q, pages + 20, PAGE + 4);
}

static void choose_memory(struct opencl_device *d)
{
	cl_device_svm_capabilities svm = 0;
	char *pages;

	d->memory = OPENCL_OWN;
	pages = opencl_options.zero_copy ? aligned_alloc(PAGE, 2 * PAGE) : NULL;
	if (!pages)
		return;
	cl.GetDeviceInfo(d->id, CL_DEVICE_SVM_CAPABILITIES, sizeof(svm), &svm, NULL);
	if ((svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) && cl.SetKernelArgSVMPointer)
		d->memory = OPENCL_SVM;
	else if (cl.EnqueueFillBuffer && host_pointers_work(d, d->lanes[0].queue, pages))
		d->memory = OPENCL_HOST_PTR;
	if (d->memory != OPENCL_OWN)
		d->follows = opencl_after_works(d, pages);
	/* A driver that has not come to an end with them may have them still. */
	if (d->memory == OPENCL_OWN || d->follows)
		free(pages);
}

/* ------------------------------------------------------------------ */
/* Opening                                                               */

static int join_context(struct opencl_device *d)
{
	struct opencl_root *r = d->place->root;
	cl_context_properties props[] = { CL_CONTEXT_PLATFORM,
					  (cl_context_properties)r->platform, 0 };
	cl_int err = CL_SUCCESS;

	if (!r->users)
		r->context = cl.CreateContext(props, r->nr_subs ? r->nr_subs : 1,
					      r->nr_subs ? r->subs : &r->id, NULL, NULL, &err);
	if (err) {
		opencl_log(ARAX_LOG_ERR, "%s: no context: %s", d->name, opencl_error_name(err));
		return opencl_errno(err);
	}
	r->users++;
	d->context = r->context;
	return 0;
}

static void leave_context(struct opencl_device *d)
{
	struct opencl_root *r = d->place->root;

	if (d->context && !--r->users)
		cl.ReleaseContext(r->context);
	d->context = NULL;
}

static int open_lane(struct opencl_device *d, struct opencl_lane *lane)
{
	cl_int err;

	lane->queue = cl.CreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &err);
	if (!err)
		lane->copies = cl.CreateCommandQueue(d->context, d->id, 0, &err);
	if (err) {
		opencl_log(ARAX_LOG_ERR, "%s: no queue: %s", d->name, opencl_error_name(err));
		return opencl_errno(err);
	}
	lane->index = (uint32_t)(lane - d->lanes);
	lane->results = aligned_alloc(128, OPENCL_RESULTS * OPENCL_RESULT_STRIDE * sizeof(cl_int));
	if (!lane->results)
		return -ENOMEM;
	memset(lane->results, 0, OPENCL_RESULTS * OPENCL_RESULT_STRIDE * sizeof(cl_int));
	return 0;
}

/* On the host's, or, where kernels can't write there, one for each that is under way. */
static int open_results(struct opencl_device *d, struct opencl_lane *lane)
{
	cl_mem_flags flags = CL_MEM_READ_WRITE;
	cl_int err = CL_SUCCESS;

	flags |= d->memory == OPENCL_HOST_PTR ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
	for (int i = 0; !err && i < OPENCL_RESULTS && d->memory == OPENCL_HOST_PTR; i++)
		lane->result_mems[i] = cl.CreateBuffer(d->context, flags, sizeof(cl_int),
						       lane->results + i * OPENCL_RESULT_STRIDE,
						       &err);
	for (int i = 0; !err && i < ARAX_LANE_DEPTH; i++) {
		struct opencl_launch *x = &lane->launches[i];

		x->result = lane->results;
		x->result_mem = lane->result_mems[0];
		if (d->memory == OPENCL_OWN)
			x->result_mem = cl.CreateBuffer(d->context, flags, sizeof(cl_int), x->result,
							&err);
	}
	if (err)
		opencl_log(ARAX_LOG_ERR, "%s: no buffer for results: %s", d->name,
			   opencl_error_name(err));
	return opencl_errno(err);
}

static void device_text(struct opencl_device *d, cl_device_info what, char *text, size_t len)
{
	text[0] = '\0';
	cl.GetDeviceInfo(d->id, what, len, text, NULL);
	text[len - 1] = '\0';
}

/* By an extension, which drivers without it answer with an error. */
static void find_bus(struct opencl_device *d)
{
#ifdef cl_khr_pci_bus_info
	cl_device_pci_bus_info_khr at;

	if (!cl.GetDeviceInfo(d->id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof(at), &at, NULL))
		snprintf(d->bus, sizeof(d->bus), "%04x:%02x:%02x.%x", at.pci_domain & 0xffff,
			 at.pci_bus & 0xff, at.pci_device & 0xff, at.pci_function & 0xf);
#endif
}

static void learn(struct opencl_device *d)
{
	char name[256], version[128], driver[128], il[64], platform[128] = "";
	cl_uint units = 1, align = 1024, dims = 3;
	cl_ulong bytes = 0, max_alloc = 0;
	cl_bool unified = CL_FALSE;
	cl_device_type type = 0;

	find_bus(d);
	device_text(d, CL_DEVICE_NAME, name, sizeof(name));
	device_text(d, CL_DEVICE_VERSION, version, sizeof(version));
	device_text(d, CL_DRIVER_VERSION, driver, sizeof(driver));
	device_text(d, CL_DEVICE_IL_VERSION, il, sizeof(il));
	cl.GetPlatformInfo(d->place->root->platform, CL_PLATFORM_VERSION, sizeof(platform), platform,
			   NULL);
	platform[sizeof(platform) - 1] = '\0';
	cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(align), &align, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, sizeof(dims), &dims, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(max_alloc), &max_alloc, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(unified), &unified, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(d->max_group), &d->max_group,
			 NULL);
	for (size_t i = 0; i < 3; i++)
		d->max_items[i] = 1;
	if (dims == 3)	/* the least, but for custom devices */
		cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(d->max_items),
				 d->max_items, NULL);
	snprintf(d->name, sizeof(d->name), "opencl%u %.48s", d->index, name);
	snprintf(d->make, sizeof(d->make), "%.40s, %u units", name, units);
	snprintf(d->key, sizeof(d->key), "%s|%s|%s|%s", platform, name, version, driver);
	d->units = units;
	d->align = align / 8 ? align / 8 : 1;
	d->has_il = il[0] && cl.CreateProgramWithIL;
	d->host_unified = unified;
	d->is_gpu = type & CL_DEVICE_TYPE_GPU;
	d->max_alloc = max_alloc;
	/* Sub-devices have one memory between them. */
	d->bytes = bytes / (d->place->root->nr_subs ? d->place->root->nr_subs : 1);
	if (opencl_options.memory && opencl_options.memory < d->bytes)
		d->bytes = opencl_options.memory;
}

int opencl_device_open(uint32_t index, struct opencl_device **dev)
{
	static const char *const where[] = {
		[OPENCL_SVM] = "host pages (system SVM)", [OPENCL_HOST_PTR] = "host pages",
		[OPENCL_OWN] = "its own memory",
	};
	const struct opencl_place *place = opencl_place(index);
	struct opencl_device *d;
	int err;

	if (!place)
		return -ENODEV;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->index = index;
	d->place = place;
	d->id = place->id;
	pthread_rwlock_init(&d->lock, NULL);
	pthread_mutex_init(&d->programs_lock, NULL);
	learn(d);
	err = join_context(d);
	while (!err && d->nr_lanes < opencl_options.lanes)
		err = open_lane(d, &d->lanes[d->nr_lanes++]);
	if (!err)
		choose_memory(d);
	for (uint32_t i = 0; !err && i < d->nr_lanes; i++)
		err = open_results(d, &d->lanes[i]);
	if (err) {
		opencl_device_close(d);
		return err;
	}
	opencl_after_open(d);
	opencl_log(ARAX_LOG_INFO, "%s: %s; works on %s", d->name, d->key, where[d->memory]);
	*dev = d;
	return 0;
}

void opencl_device_close(struct opencl_device *d)
{
	if (!opencl_after_close(d))
		return;
	opencl_memory_close(d);
	for (uint32_t i = 0; i < d->nr_lanes; i++) {
		struct opencl_lane *lane = &d->lanes[i];

		if (lane->queue)
			cl.ReleaseCommandQueue(lane->queue);
		if (lane->copies)
			cl.ReleaseCommandQueue(lane->copies);
		for (int j = 0; j < ARAX_LANE_DEPTH && d->memory == OPENCL_OWN; j++)
			if (lane->launches[j].result_mem)
				cl.ReleaseMemObject(lane->launches[j].result_mem);
		for (int j = 0; j < OPENCL_RESULTS; j++)
			if (lane->result_mems[j])
				cl.ReleaseMemObject(lane->result_mems[j]);
		free(lane->results);
	}
	leave_context(d);
	pthread_rwlock_destroy(&d->lock);
	pthread_mutex_destroy(&d->programs_lock);
	free(d);
}
