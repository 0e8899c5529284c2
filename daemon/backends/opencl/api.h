/* SPDX-License-Identifier: MIT */
/*
 * api.h - the OpenCL calls that are used, from a library opened at run time
 *
 * No call is linked: a machine without OpenCL runs the same araxd.
 */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_API_H
#define ARAX_DAEMON_BACKENDS_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION	300
/* clCreateCommandQueue: the one that every version has. */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

/* Without these there is no backend. */
#define OPENCL_CALLS(X) \
	X(GetPlatformIDs); X(GetPlatformInfo); X(GetDeviceIDs); X(GetDeviceInfo); \
	X(CreateContext); X(ReleaseContext); X(CreateCommandQueue); X(ReleaseCommandQueue); \
	X(CreateProgramWithSource); X(CreateProgramWithBinary); X(BuildProgram); \
	X(GetProgramInfo); X(GetProgramBuildInfo); X(ReleaseProgram); X(CreateKernel); \
	X(ReleaseKernel); X(GetKernelInfo); X(GetKernelWorkGroupInfo); X(SetKernelArg); \
	X(CreateBuffer); X(CreateSubBuffer); X(ReleaseMemObject); \
	X(EnqueueNDRangeKernel); X(EnqueueReadBuffer); X(EnqueueWriteBuffer); \
	X(EnqueueCopyBuffer); X(Finish); X(Flush); X(WaitForEvents); \
	X(GetEventProfilingInfo); X(GetEventInfo); X(ReleaseEvent)

/* Of OpenCL 1.1, 1.2, 2.0 and 2.1; NULL where the library is older. */
#define OPENCL_CALLS_LATER(X) \
	X(CreateSubDevices); X(ReleaseDevice); X(GetKernelArgInfo); X(EnqueueFillBuffer); \
	X(EnqueueMigrateMemObjects); X(SetKernelArgSVMPointer); X(CreateProgramWithIL); \
	X(SetEventCallback); X(RetainEvent); X(EnqueueMarkerWithWaitList); \
	X(GetExtensionFunctionAddressForPlatform)

struct opencl_api {
#define X(name) __typeof__(cl##name) *name
	OPENCL_CALLS(X);
	OPENCL_CALLS_LATER(X);
#undef X
};

/* All calls, once opencl_api_open() succeeded. */
extern struct opencl_api cl;

/* Opens libOpenCL.so.1.  -ENOENT, -ENOEXEC: @why says what to do.  Once is enough. */
int opencl_api_open(char *why, size_t len);
bool opencl_api_is_open(void);
void opencl_api_close(void);

/* "CL_OUT_OF_RESOURCES" */
const char *opencl_error_name(cl_int err);

/* 0, or the negative errno that stands for it; -ENODEV: the device is lost. */
int opencl_errno(cl_int err);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_API_H */
