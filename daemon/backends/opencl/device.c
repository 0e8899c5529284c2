// SPDX-License-Identifier: MIT
/* One device: its context and queues, where its kernels find their data, and a new context. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

int opencl_check_whole(struct opencl_device *d, cl_command_queue copies, cl_int err)
{
	int code = opencl_check(d, err);
	cl_int whole;

	if (!err || code == -ENODEV)
		return code;
	/* Nothing is in it but copies that somebody waits for. */
	whole = cl.Finish(copies);
	if (!whole || whole == CL_OUT_OF_HOST_MEMORY)
		return code;
	if (!__atomic_exchange_n(&d->lost, true, __ATOMIC_RELAXED))
		opencl_log(ARAX_LOG_ERR, "%s is lost: %s, and then %s", d->name,
			   opencl_error_name(err), opencl_error_name(whole));
	return -ENODEV;
}

cl_int opencl_outcome(cl_event event)
{
	cl_int status = CL_COMPLETE, err = CL_SUCCESS;

	if (event)
		err = cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
				      &status, NULL);
	if (err)
		return err;
	return status < 0 ? status : CL_SUCCESS;
}

int opencl_lose(struct opencl_device *d, cl_int err)
{
	if (!__atomic_exchange_n(&d->lost, true, __ATOMIC_RELAXED))
		opencl_log(ARAX_LOG_ERR, "%s is lost: a launch there has no end: %s", d->name,
			   opencl_error_name(err));
	return -ENODEV;
}

int opencl_enter(struct opencl_device *d)
{
	pthread_rwlock_rdlock(&d->context_lock);
	if (!__atomic_load_n(&d->lost, __ATOMIC_RELAXED))
		return 0;
	pthread_rwlock_unlock(&d->context_lock);
	return -ENODEV;
}

void opencl_leave(struct opencl_device *d)
{
	pthread_rwlock_unlock(&d->context_lock);
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

/* Sub-devices may be lost at the same time. */
static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER;

/* (roots_lock) Of the device's root; where others have that still, perhaps a broken one, its own. */
static cl_int create_context(struct opencl_device *d, bool again)
{
	struct opencl_root *r = d->place->root;
	cl_context_properties props[] = { CL_CONTEXT_PLATFORM,
					  (cl_context_properties)r->platform, 0 };
	cl_int err = CL_SUCCESS;

	d->own_context = again && r->users;
	if (d->own_context) {
		d->context = cl.CreateContext(props, 1, &d->id, NULL, NULL, &err);
	} else {
		if (!r->users)
			r->context = cl.CreateContext(props, r->nr_subs ? r->nr_subs : 1,
						      r->nr_subs ? r->subs : &r->id, NULL, NULL,
						      &err);
		r->users += !err;
		d->context = r->context;
	}
	if (err)
		d->context = NULL;
	return err;
}

static int join_context(struct opencl_device *d, bool again)
{
	cl_int err;

	pthread_mutex_lock(&roots_lock);
	err = create_context(d, again);
	pthread_mutex_unlock(&roots_lock);
	if (err)
		opencl_log(ARAX_LOG_ERR, "%s: no context: %s", d->name, opencl_error_name(err));
	return opencl_errno(err);
}

static void leave_context(struct opencl_device *d)
{
	struct opencl_root *r = d->place->root;

	pthread_mutex_lock(&roots_lock);
	if (d->context && (d->own_context || !--r->users))
		cl.ReleaseContext(d->context);
	d->context = NULL;
	pthread_mutex_unlock(&roots_lock);
}

static int open_lane(struct opencl_device *d, struct opencl_lane *lane)
{
	const size_t bytes = OPENCL_RESULTS * OPENCL_RESULT_STRIDE * sizeof(cl_int);
	cl_int err;

	lane->queue = cl.CreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &err);
	if (!err)
		lane->copies = cl.CreateCommandQueue(d->context, d->id, 0, &err);
	if (err) {
		opencl_log(ARAX_LOG_ERR, "%s: no queue: %s", d->name, opencl_error_name(err));
		return opencl_errno(err);
	}
	lane->index = (uint32_t)(lane - d->lanes);
	if (!lane->results)
		lane->results = aligned_alloc(128, bytes);
	if (!lane->results)
		return -ENOMEM;
	memset(lane->results, 0, bytes);
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
		x->result_dirty = false;
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

/*
 * The file that drives the platform: it is built or mended without a new version, too.  Numbers of
 * files and file systems say nothing here, as they are others after a boot or in another container.
 */
static void find_driver(const struct opencl_device *d, char *file, size_t len)
{
	Dl_info in;
	struct stat st;
	void *entry;

	file[0] = '\0';
	if (!cl.GetExtensionFunctionAddressForPlatform)
		return;
	entry = cl.GetExtensionFunctionAddressForPlatform(d->place->root->platform,
							  "clIcdGetPlatformIDsKHR");
	if (!entry || !dladdr(entry, &in) || !in.dli_fname || stat(in.dli_fname, &st))
		return;
	snprintf(file, len, "%.160s %lld bytes of %lld.%09ld", in.dli_fname, (long long)st.st_size,
		 (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* Three dimensions are the least, but for custom devices; a driver tells of all of them or of none. */
static void learn_items(struct opencl_device *d)
{
	cl_uint dims = 3, i;
	size_t *sizes;

	for (i = 0; i < 3; i++)
		d->max_items[i] = 1;
	cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, sizeof(dims), &dims, NULL);
	sizes = dims ? calloc(dims, sizeof(*sizes)) : NULL;
	if (sizes && !cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, dims * sizeof(*sizes),
				       sizes, NULL))
		memcpy(d->max_items, sizes, (dims < 3 ? dims : 3) * sizeof(*sizes));
	free(sizes);
}

static void learn(struct opencl_device *d)
{
	char name[256], version[128], driver[128], il[64], platform[128] = "", file[256];
	cl_uint units = 1, align = 1024;
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
	cl.GetDeviceInfo(d->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(max_alloc), &max_alloc, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(unified), &unified, NULL);
	cl.GetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(d->max_group), &d->max_group,
			 NULL);
	learn_items(d);
	snprintf(d->name, sizeof(d->name), "opencl%u %.48s", d->index, name);
	snprintf(d->make, sizeof(d->make), "%.40s, %u units", name, units);
	find_driver(d, file, sizeof(file));
	snprintf(d->key, sizeof(d->key), "%s|%s|%s|%s|%s", platform, name, version, driver, file);
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

static struct opencl_device *new_device(uint32_t index)
{
	const struct opencl_place *place = opencl_place(index);
	struct opencl_device *d = place ? calloc(1, sizeof(*d)) : NULL;

	if (!d)
		return NULL;
	d->index = index;
	d->place = place;
	d->id = place->id;
	pthread_rwlock_init(&d->context_lock, NULL);
	pthread_rwlock_init(&d->lock, NULL);
	pthread_mutex_init(&d->programs_lock, NULL);
	pthread_mutex_init(&d->run_alone, NULL);
	pthread_mutex_init(&d->parts_lock, NULL);
	learn(d);
	return d;
}

int opencl_device_open_bare(uint32_t index, struct opencl_device **dev)
{
	*dev = new_device(index);
	return *dev ? join_context(*dev, false) : -ENODEV;
}

/* Some drivers give more than they say: where this one does, longer ranges go there, too. */
static uint64_t find_largest(const struct opencl_device *d)
{
	cl_int err = CL_SUCCESS;
	cl_mem mem;

	if (d->memory == OPENCL_SVM || !d->max_alloc)
		return 0;
	mem = cl.CreateBuffer(d->context, CL_MEM_READ_WRITE, d->max_alloc + PAGE, NULL, &err);
	if (!err)
		cl.ReleaseMemObject(mem);
	return err == CL_INVALID_BUFFER_SIZE ? d->max_alloc : 0;
}

int opencl_device_open(uint32_t index, struct opencl_device **dev)
{
	static const char *const where[] = {
		[OPENCL_SVM] = "host pages (system SVM)", [OPENCL_HOST_PTR] = "host pages",
		[OPENCL_OWN] = "its own memory",
	};
	struct opencl_device *d;
	int err;

	if (!opencl_place(index))
		return -ENODEV;
	d = new_device(index);
	if (!d)
		return -ENOMEM;
	err = join_context(d, false);
	while (!err && d->nr_lanes < opencl_options.lanes)
		err = open_lane(d, &d->lanes[d->nr_lanes++]);
	if (!err) {
		choose_memory(d);
		d->largest = find_largest(d);
	}
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

static void close_lane(struct opencl_device *d, struct opencl_lane *lane)
{
	if (lane->queue)
		cl.ReleaseCommandQueue(lane->queue);
	if (lane->copies)
		cl.ReleaseCommandQueue(lane->copies);
	lane->queue = NULL;
	lane->copies = NULL;
	for (int i = 0; i < ARAX_LANE_DEPTH; i++) {
		if (lane->launches[i].result_mem && d->memory == OPENCL_OWN)
			cl.ReleaseMemObject(lane->launches[i].result_mem);
		lane->launches[i].result_mem = NULL;
	}
	for (int i = 0; i < OPENCL_RESULTS; i++) {
		if (lane->result_mems[i])
			cl.ReleaseMemObject(lane->result_mems[i]);
		lane->result_mems[i] = NULL;
	}
}

void opencl_device_close(struct opencl_device *d)
{
	if (!opencl_after_close(d))
		return;
	opencl_memory_drop(d);
	for (uint32_t i = 0; i < d->nr_lanes; i++) {
		close_lane(d, &d->lanes[i]);
		free(d->lanes[i].results);
	}
	leave_context(d);
	opencl_program_forget(d);
	pthread_rwlock_destroy(&d->context_lock);
	pthread_rwlock_destroy(&d->lock);
	pthread_mutex_destroy(&d->programs_lock);
	pthread_mutex_destroy(&d->run_alone);
	pthread_mutex_destroy(&d->parts_lock);
	free(d);
}

/* ------------------------------------------------------------------ */
/* A new context                                                         */

/* (programs_lock) With all that is in it; who has it broken fails at some of it. */
static void close_context(struct opencl_device *d)
{
	opencl_memory_drop(d);
	for (struct opencl_kernel *k = d->kernels; k; k = k->next)
		opencl_kernel_close(k);
	for (struct opencl_program *p = d->programs; p; p = p->next) {
		if (p->program)
			cl.ReleaseProgram(p->program);
		p->program = NULL;
	}
	opencl_stream_close(d);
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		close_lane(d, &d->lanes[i]);
	leave_context(d);
}

/* (programs_lock) As it was: what its kernels work on stays what it is. */
static int open_again(struct opencl_device *d)
{
	int err = join_context(d, true);

	for (uint32_t i = 0; !err && i < d->nr_lanes; i++)
		err = open_lane(d, &d->lanes[i]);
	for (uint32_t i = 0; !err && i < d->nr_lanes; i++)
		err = open_results(d, &d->lanes[i]);
	for (struct opencl_kernel *k = d->kernels; !err && k; k = k->next)
		err = opencl_kernel_again(d, k);
	return err;
}

static bool is_busy(const struct opencl_device *d)
{
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		if (d->lanes[i].under_way)
			return true;
	return (uint32_t)__atomic_load_n(&d->launches, __ATOMIC_ACQUIRE);
}

int opencl_device_reset(struct opencl_device *d)
{
	int err;

	if (is_busy(d))
		return -EBUSY;
	/* What calls back would find another context's. */
	if (!opencl_after_over(d, "it gets no new context"))
		return -ENODEV;
	pthread_rwlock_wrlock(&d->context_lock);
	__atomic_store_n(&d->lost, true, __ATOMIC_RELAXED);
	pthread_mutex_lock(&d->programs_lock);
	close_context(d);
	err = open_again(d);
	pthread_mutex_unlock(&d->programs_lock);
	__atomic_store_n(&d->careful, OPENCL_CAREFUL, __ATOMIC_RELAXED);
	__atomic_store_n(&d->lost, err != 0, __ATOMIC_RELAXED);
	pthread_rwlock_unlock(&d->context_lock);
	if (err)
		opencl_log(ARAX_LOG_ERR, "%s: no new context: %s", d->name, strerror(-err));
	else
		opencl_log(ARAX_LOG_WARNING,
			   "%s: has a new context; the next %u launches run one at a time", d->name,
			   OPENCL_CAREFUL);
	return err ? -ENODEV : 0;
}
