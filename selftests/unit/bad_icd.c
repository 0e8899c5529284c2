// SPDX-License-Identifier: MIT
/*
 * An OpenCL driver that does what BAD_ICD says: as soon as its loader asks it for anything; or,
 * in front of the driver BAD_ICD_DRIVER, which does the rest, when a source that has the word
 * SPOILT is compiled ("build-...") or what came of it is asked for ("binary-..."), or when memory
 * goes that a kernel's arguments name ("stale-...").  "orphan" and "widow" do it to who watches
 * the compiler, and to whom that one is of.  "leave" leaves a process behind that is of no group and
 * nobody's child, and whose number is in the file BAD_ICD_LEFT, and aborts; "leave-orphan" and
 * "leave-hang" do so and are "orphan" and "hang" then.  "no-counts" divides no device into parts
 * of several sizes, "no-parts" none at all; "four-dims" says that there are as many.  "crowd" has
 * platforms without a device before the driver's, and devices of the name "filler" before its own.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define CROWD 300u

void *clGetExtensionFunctionAddress(const char *name);

static struct _cl_icd_dispatch before;	/* the driver's */
static bool spoilt;			/* the last source */
static struct { cl_kernel kernel; cl_uint index; cl_mem mem; } args[256];

/* Of araxd's process for that, and of no other one. */
static pid_t parent_of(pid_t pid)
{
	char path[32], name[32] = "";
	int parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*d (%31[^)]) %*c %d", name, &parent) != 2 ||
	    strcmp(name, "araxd-compile"))
		abort();
	fclose(f);
	return parent;
}

static pid_t watcher(void)
{
	pid_t pid = getppid();

	parent_of(pid);
	return pid;
}

static pid_t waiter(void)
{
	pid_t pid = parent_of(watcher());

	parent_of(pid);
	return pid;
}

/* As systemd does to all of a service, and a terminal to those in front. */
static void stop(pid_t pid)
{
	kill(pid, SIGTERM);
	kill(pid, SIGINT);
	kill(pid, SIGHUP);
}

static void leave_one(void)
{
	FILE *f = fopen(getenv("BAD_ICD_LEFT"), "w");
	pid_t pid = f ? fork() : -1;

	if (pid < 0)
		abort();
	if (pid) {
		waitpid(pid, NULL, 0);
		return;
	}
	setsid();
	pid = fork();
	if (!pid) {
		alarm(300);
		for (;;)
			pause();
	}
	fprintf(f, "%d\n", (int)pid);
	fclose(f);
	_exit(0);
}

static void do_it(const char *what)
{
	if (what && !strncmp(what, "leave", 5)) {
		leave_one();
		what = what[5] ? what + 6 : "abort";
	}
	if (what && !strcmp(what, "kill"))
		raise(SIGKILL);
	if (what && !strcmp(what, "orphan")) {
		kill(watcher(), SIGKILL);
		what = "hang";
	}
	if (what && !strcmp(what, "widow")) {
		kill(waiter(), SIGKILL);
		what = "hang";
	}
	if (what && !strcmp(what, "stop")) {
		stop(waiter());
		stop(watcher());
		what = "abort";
	}
	if (what && !strcmp(what, "abort")) {
		fprintf(stderr, "bad_icd: out of luck\n");
		abort();
	}
	if (what && !strcmp(what, "exit"))
		_exit(7);
	while (what && !strcmp(what, "hang"))
		pause();
}

/* "build-abort" at "build-" aborts. */
static void come_to(const char *where)
{
	const char *what = getenv("BAD_ICD");

	if (what && !strncmp(what, where, strlen(where)))
		do_it(what + strlen(where));
}

/* Objects that have the driver's table and nothing else, of "crowd". */
static struct { struct _cl_icd_dispatch *table; } crowd[CROWD];
static cl_platform_id theirs;		/* the driver's first platform */

static cl_program CL_API_CALL create_program(cl_context context, cl_uint nr, const char **texts,
					     const size_t *sizes, cl_int *err)
{
	spoilt = false;
	for (cl_uint i = 0; i < nr; i++)
		spoilt |= sizes && memmem(texts[i], sizes[i], "SPOILT", 6);
	return before.clCreateProgramWithSource(context, nr, texts, sizes, err);
}

static cl_int CL_API_CALL build(cl_program program, cl_uint nr, const cl_device_id *devices,
				const char *options, void (CL_CALLBACK *notify)(cl_program, void *),
				void *arg)
{
	if (spoilt)
		come_to("build-");
	return before.clBuildProgram(program, nr, devices, options, notify, arg);
}

static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t bytes,
				       void *value, size_t *needs)
{
	if (spoilt && what == CL_PROGRAM_BINARY_SIZES)
		come_to("binary-");
	return before.clGetProgramInfo(program, what, bytes, value, needs);
}

static cl_int CL_API_CALL set_arg(cl_kernel kernel, cl_uint index, size_t bytes, const void *value)
{
	size_t i = 0;

	while (i < 255 && args[i].kernel && (args[i].kernel != kernel || args[i].index != index))
		i++;
	args[i].kernel = kernel;
	args[i].index = index;
	args[i].mem = NULL;
	if (value && bytes == sizeof(args[i].mem))
		memcpy(&args[i].mem, value, bytes);
	return before.clSetKernelArg(kernel, index, bytes, value);
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
	for (size_t i = 0; i < 256; i++)
		if (args[i].kernel == kernel)
			args[i].mem = NULL;
	return before.clReleaseKernel(kernel);
}

static cl_int CL_API_CALL release_mem(cl_mem mem)
{
	for (size_t i = 0; i < 256; i++)
		if (args[i].mem == mem)
			come_to("stale-");
	return before.clReleaseMemObject(mem);
}

static bool is(const char *what)
{
	return getenv("BAD_ICD") && !strcmp(getenv("BAD_ICD"), what);
}

static cl_int CL_API_CALL sub_devices(cl_device_id device, const cl_device_partition_property *how,
				      cl_uint nr, cl_device_id *to, cl_uint *got)
{
	if (is("no-parts") || (is("no-counts") && how[0] == CL_DEVICE_PARTITION_BY_COUNTS))
		return CL_INVALID_VALUE;
	return before.clCreateSubDevices(device, how, nr, to, got);
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t bytes,
				      void *value, size_t *needs)
{
	const cl_uint dims = 4;
	const size_t one = 1;

	if (is("four-dims") && what == CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS && bytes >= sizeof(dims)) {
		memcpy(value, &dims, sizeof(dims));
		return CL_SUCCESS;
	}
	if (is("four-dims") && what == CL_DEVICE_MAX_WORK_ITEM_SIZES) {
		if (bytes < 4 * sizeof(one))
			return CL_INVALID_VALUE;
		memcpy((size_t *)value + 3, &one, sizeof(one));
		bytes -= sizeof(one);
	}
	if ((void *)device >= (void *)crowd && (void *)device < (void *)(crowd + CROWD)) {
		memcpy(value, "filler", bytes < 7 ? bytes : 7);
		return CL_SUCCESS;
	}
	return before.clGetDeviceInfo(device, what, bytes, value, needs);
}

static cl_int CL_API_CALL devices_of(cl_platform_id platform, cl_device_type type, cl_uint nr,
				     cl_device_id *to, cl_uint *got)
{
	cl_uint own = 0, ahead = nr < CROWD ? nr : CROWD;
	cl_int err;

	if (!is("crowd"))
		return before.clGetDeviceIDs(platform, type, nr, to, got);
	if (platform != theirs)
		return CL_DEVICE_NOT_FOUND;
	for (cl_uint i = 0; to && i < ahead; i++)
		to[i] = (cl_device_id)&crowd[i];
	err = before.clGetDeviceIDs(theirs, type, to ? nr - ahead : 0,
				    to && nr > ahead ? to + ahead : NULL, &own);
	if (got)
		*got = CROWD + own;
	return to && nr == ahead ? CL_SUCCESS : err;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t bytes,
					void *value, size_t *needs)
{
	return before.clGetPlatformInfo(is("crowd") ? theirs : platform, what, bytes, value, needs);
}

static cl_int CL_API_CALL platforms_too_many(cl_uint nr, cl_platform_id *to, cl_uint *got)
{
	for (cl_uint i = 0; i < nr && to; i++)
		to[i] = i < CROWD ? (cl_platform_id)&crowd[i] : theirs;
	if (got)
		*got = CROWD + 1;
	return CL_SUCCESS;
}

/* All of the driver's objects have this one table. */
static void get_between(struct _cl_icd_dispatch *table)
{
	uintptr_t from = (uintptr_t)table & ~(uintptr_t)(PAGE - 1);

	if (before.clBuildProgram)
		return;
	before = *table;
	if (mprotect((void *)from, (uintptr_t)(table + 1) - from, PROT_READ | PROT_WRITE))
		abort();
	table->clCreateProgramWithSource = create_program;
	table->clBuildProgram = build;
	table->clGetProgramInfo = program_info;
	table->clSetKernelArg = set_arg;
	table->clReleaseKernel = release_kernel;
	table->clReleaseMemObject = release_mem;
	table->clGetDeviceInfo = device_info;
	table->clCreateSubDevices = sub_devices;
	table->clGetDeviceIDs = devices_of;
	table->clGetPlatformInfo = platform_info;
	for (size_t i = 0; i < CROWD; i++)
		crowd[i].table = table;
}

__attribute__((visibility("default")))
void *clGetExtensionFunctionAddress(const char *name)
{
	const char *driver = getenv("BAD_ICD_DRIVER");
	clIcdGetPlatformIDsKHR_fn platforms;
	void *(*find)(const char *name);
	cl_uint nr;
	void *library;

	do_it(getenv("BAD_ICD"));
	if (!driver)
		return NULL;
	library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
	find = library ? dlsym(library, "clGetExtensionFunctionAddress") : NULL;
	platforms = find ? find("clIcdGetPlatformIDsKHR") : NULL;
	if (!platforms || platforms(1, &theirs, &nr) || !nr)
		return NULL;
	get_between(*(struct _cl_icd_dispatch **)theirs);
	if (is("crowd") && !strcmp(name, "clIcdGetPlatformIDsKHR"))
		return (void *)platforms_too_many;
	return find(name);
}
