// SPDX-License-Identifier: MIT
#include "daemon/backends/opencl/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libOpenCL.so.1"

struct opencl_api cl;
static void *library;

/* NULL, or the name if there is no such call. */
static const char *take(const char *name, void **call)
{
	*call = dlsym(library, name);
	return *call ? NULL : name;
}

int opencl_api_open(char *why, size_t len)
{
	const char *missing = NULL;

	if (library)
		return 0;
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(why, len, "no OpenCL loader: install one (Debian: ocl-icd-libopencl1): %s",
			 dlerror());
		return -ENOENT;
	}
#define X(name) take("cl" #name, (void **)&cl.name)
	OPENCL_CALLS_LATER(X);
#undef X
#define X(name) missing = missing ? missing : take("cl" #name, (void **)&cl.name)
	OPENCL_CALLS(X);
#undef X
	if (!missing)
		return 0;
	snprintf(why, len, LIBRARY " has no %s: it is too old", missing);
	opencl_api_close();
	return -ENOEXEC;
}

bool opencl_api_is_open(void)
{
	return library;
}

void opencl_api_close(void)
{
	if (library)
		dlclose(library);
	library = NULL;
	memset(&cl, 0, sizeof(cl));
}

static const struct {
	cl_int err;
	int code;
	const char *name;
} errors[] = {
#define E(name, code) { CL_##name, code, "CL_" #name }
	E(SUCCESS, 0),
	E(DEVICE_NOT_FOUND, ENODEV),
	E(DEVICE_NOT_AVAILABLE, ENODEV),
	E(COMPILER_NOT_AVAILABLE, ENOEXEC),
	E(MEM_OBJECT_ALLOCATION_FAILURE, ENOMEM),
	E(OUT_OF_RESOURCES, ENOMEM),
	E(OUT_OF_HOST_MEMORY, ENOMEM),
	E(MEM_COPY_OVERLAP, EINVAL),
	E(BUILD_PROGRAM_FAILURE, ENOEXEC),
	E(MAP_FAILURE, EIO),
	E(MISALIGNED_SUB_BUFFER_OFFSET, EINVAL),
	E(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, EIO),
	E(COMPILE_PROGRAM_FAILURE, ENOEXEC),
	E(LINKER_NOT_AVAILABLE, ENOEXEC),
	E(LINK_PROGRAM_FAILURE, ENOEXEC),
	E(DEVICE_PARTITION_FAILED, EINVAL),
	E(KERNEL_ARG_INFO_NOT_AVAILABLE, EOPNOTSUPP),
	E(INVALID_VALUE, EINVAL),
	E(INVALID_PLATFORM, ENODEV),
	E(INVALID_DEVICE, ENODEV),
	E(INVALID_CONTEXT, ENODEV),
	E(INVALID_COMMAND_QUEUE, ENODEV),
	E(INVALID_HOST_PTR, EFAULT),
	E(INVALID_MEM_OBJECT, EFAULT),
	E(INVALID_BINARY, ENOEXEC),
	E(INVALID_BUILD_OPTIONS, EINVAL),
	E(INVALID_PROGRAM, ENOEXEC),
	E(INVALID_PROGRAM_EXECUTABLE, ENOEXEC),
	E(INVALID_KERNEL_NAME, ENOENT),
	E(INVALID_KERNEL, ENOEXEC),
	E(INVALID_ARG_INDEX, EINVAL),
	E(INVALID_ARG_VALUE, EINVAL),
	E(INVALID_ARG_SIZE, EINVAL),
	E(INVALID_KERNEL_ARGS, EINVAL),
	E(INVALID_WORK_DIMENSION, EINVAL),
	E(INVALID_WORK_GROUP_SIZE, EINVAL),
	E(INVALID_WORK_ITEM_SIZE, EINVAL),
	E(INVALID_GLOBAL_OFFSET, EINVAL),
	E(INVALID_OPERATION, EOPNOTSUPP),
	E(INVALID_BUFFER_SIZE, EINVAL),
	E(INVALID_GLOBAL_WORK_SIZE, EINVAL),
	E(INVALID_DEVICE_PARTITION_COUNT, EINVAL),
	{ -1001, ENODEV, "no platform is installed" },	/* cl_khr_icd */
#undef E
};

const char *opencl_error_name(cl_int err)
{
	static _Thread_local char number[32];

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].err == err)
			return errors[i].name;
	snprintf(number, sizeof(number), "OpenCL error %d", err);
	return number;
}

int opencl_errno(cl_int err)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].err == err)
			return -errors[i].code;
	return -EIO;
}
