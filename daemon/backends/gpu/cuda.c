// SPDX-License-Identifier: MIT
/*
 * NVIDIA's driver API: what it does in ways of its own.
 *
 * One context a device, ours alone: destroying it gives back all that a kernel left behind,
 * which is not possible with the primary context that libraries share.
 */
#include "daemon/backends/gpu/driver.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdlib.h>

#include "daemon/backends/gpu/cuda_image.h"
#include "uapi/arax.h"

#define AS(cuda, hip)		cuda
#define CALL_TYPE(type, hip)	PFN_##type
#define ADDRESS			CUdeviceptr
#define POINTER			CUdeviceptr
#define HANDLE(index)		device_handle(index)
static int device_handle(int index);
#define GPU_CALLS_OWN(X); \
	X(GetErrorName, cuGetErrorName_v6000, cuGetErrorName, -); \
	X(DeviceGet, cuDeviceGet_v2000, cuDeviceGet, -); \
	X(DeviceGetPCIBusId, cuDeviceGetPCIBusId_v4010, cuDeviceGetPCIBusId, -); \
	X(CtxCreate, cuCtxCreate_v3020, cuCtxCreate_v2, -); \
	X(CtxDestroy, cuCtxDestroy_v4000, cuCtxDestroy_v2, -); \
	X(CtxSetCurrent, cuCtxSetCurrent_v4000, cuCtxSetCurrent, -); \
	X(CtxEnablePeerAccess, cuCtxEnablePeerAccess_v4000, cuCtxEnablePeerAccess, -)

#include "daemon/backends/gpu/calls.h"

static CUdevice device_handle(int index)
{
	CUdevice handle = -1;

	drv.DeviceGet(&handle, index);
	return handle;
}

#define LIBRARY		"libcuda.so.1"

/* cuFuncGetParamInfo: neither every driver nor every header that has the rest has it (12.4). */
typedef CUresult func_param_fn(CUfunction function, size_t i, size_t *offset, size_t *bytes);
static func_param_fn *func_param;

/* Likewise (11.7). */
typedef CUresult write_value_fn(CUstream stream, CUdeviceptr address, cuuint32_t value,
				unsigned int flags);
static write_value_fn *write_value;

/* By their numbers: headers before 13 lack some of them. */
#define CONTAINED		226	/* an error of memory or NVLink that stayed in this process */
#define TENSOR_MEMORY_LEAK	721
#define MPS_CLIENT_TERMINATED	810
#define EXTERNAL_DEVICE		911

static const struct gpu_error errors[] = {
	{ CUDA_ERROR_INVALID_VALUE, EINVAL, GPU_HARM_NONE },
	{ CUDA_ERROR_OUT_OF_MEMORY, ENOMEM, GPU_HARM_NONE },
	{ CUDA_ERROR_NOT_INITIALIZED, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_DEINITIALIZED, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_STUB_LIBRARY, ENODEV, GPU_HARM_NONE },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, EBUSY, GPU_HARM_NONE },
	{ CUDA_ERROR_NO_DEVICE, ENODEV, GPU_HARM_NONE },
	{ CUDA_ERROR_INVALID_DEVICE, ENODEV, GPU_HARM_NONE },
	{ CUDA_ERROR_INVALID_IMAGE, ENOEXEC, GPU_HARM_NONE },
	{ CUDA_ERROR_INVALID_CONTEXT, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_NO_BINARY_FOR_GPU, ENOEXEC, GPU_HARM_NONE },
	{ CUDA_ERROR_ECC_UNCORRECTABLE, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, EOPNOTSUPP, GPU_HARM_NONE },
	{ CUDA_ERROR_INVALID_PTX, ENOEXEC, GPU_HARM_NONE },
	{ CUDA_ERROR_NVLINK_UNCORRECTABLE, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_JIT_COMPILER_NOT_FOUND, ENOEXEC, GPU_HARM_NONE },
	{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, ENOEXEC, GPU_HARM_NONE },
	{ CUDA_ERROR_JIT_COMPILATION_DISABLED, ENOEXEC, GPU_HARM_NONE },
	{ CUDA_ERROR_INVALID_SOURCE, ENOEXEC, GPU_HARM_NONE },
	{ CUDA_ERROR_INVALID_HANDLE, EINVAL, GPU_HARM_NONE },
	{ CONTAINED, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_NOT_FOUND, ENOENT, GPU_HARM_NONE },
	{ CUDA_ERROR_NOT_READY, EAGAIN, GPU_HARM_NONE },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, EFAULT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, EINVAL, GPU_HARM_NONE },
	{ CUDA_ERROR_LAUNCH_TIMEOUT, ETIMEDOUT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, EALREADY, GPU_HARM_NONE },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_ASSERT, EFAULT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, EALREADY, GPU_HARM_NONE },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, EINVAL, GPU_HARM_NONE },
	{ CUDA_ERROR_HARDWARE_STACK_ERROR, EFAULT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_ILLEGAL_INSTRUCTION, EFAULT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_MISALIGNED_ADDRESS, EFAULT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_INVALID_ADDRESS_SPACE, EFAULT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_INVALID_PC, EFAULT, GPU_HARM_KERNEL },
	{ CUDA_ERROR_LAUNCH_FAILED, EFAULT, GPU_HARM_KERNEL },
	{ TENSOR_MEMORY_LEAK, EFAULT, GPU_HARM_KERNEL },
	{ MPS_CLIENT_TERMINATED, ENODEV, GPU_HARM_DEVICE },
	{ EXTERNAL_DEVICE, ENODEV, GPU_HARM_DEVICE },
	{ CUDA_ERROR_NOT_PERMITTED, EPERM, GPU_HARM_NONE },
	{ CUDA_ERROR_NOT_SUPPORTED, EOPNOTSUPP, GPU_HARM_NONE },
	{ CUDA_ERROR_SYSTEM_NOT_READY, ENODEV, GPU_HARM_NONE },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ENODEV, GPU_HARM_NONE },
};

static const struct gpu_error *find_error(int err)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].err == err)
			return &errors[i];
	return NULL;
}

static const char *error_name(int err)
{
	static _Thread_local char number[32];
	const char *name = NULL;

	if (!drv.GetErrorName((CUresult)err, &name) && name)
		return name;
	snprintf(number, sizeof(number), "CUDA error %d", err);
	return number;
}

static const char *remedy(int err)
{
	switch (err) {
	case CUDA_ERROR_NO_DEVICE:
		return "the driver sees no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
	case CUDA_ERROR_STUB_LIBRARY:
		return "this is the CUDA Toolkit's stub for linking: install the driver (Debian: nvidia-driver)";
	case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
		return "kernel module and library are of different versions: reboot";
	default:
		return "is the nvidia kernel module loaded (see nvidia-smi)?";
	}
}

/* Compiled PTX goes where the rest of what was compiled is kept, if that is ours alone. */
static void place_cache(void)
{
	const char *folder = getenv("CACHE_DIRECTORY");
	char path[512];

	if (!folder || folder[0] != '/' || strchr(folder, ':') ||
	    (size_t)snprintf(path, sizeof(path), "%s/cuda", folder) >= sizeof(path))
		return;
	setenv("CUDA_CACHE_PATH", path, 0);
}

static int open_driver(const char *library, char *why, size_t len)
{
	char text[256];
	int err;

	if (drv.library)
		return 0;
	place_cache();
	err = open_library(library ? library : LIBRARY, text, sizeof(text));
	if (err == -ENOENT)
		snprintf(why, len, "no NVIDIA driver: install one (Debian: nvidia-driver): %s", text);
	else if (err)
		snprintf(why, len, "%s: install a newer NVIDIA driver", text);
	if (err)
		return err;
	err = drv.Init(0);
	if (err) {
		snprintf(why, len, "%s: %s", error_name(err), remedy(err));
		err = -ENODEV;
		dlclose(drv.library);
		memset(&drv, 0, sizeof(drv));
		return err;
	}
	func_param = (func_param_fn *)dlsym(drv.library, "cuFuncGetParamInfo");
	write_value = (write_value_fn *)dlsym(drv.library, "cuStreamWriteValue32_v2");
	return 0;
}

static int describe(int index, struct gpu_limits *l)
{
	uint32_t major = 0, minor = 0, yes = 0;
	int err = drv_describe(index, l);

	if (!err)
		err = drv_attribute(index, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
	if (!err)
		err = drv_attribute(index, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
	snprintf(l->arch, sizeof(l->arch), "%u.%u", major, minor);
	/* Older drivers don't know the attributes. */
	l->pools = drv_has_pools() &&
		   !drv_attribute(index, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &yes) && yes;
	yes = 0;
	l->places = drv_has_places() &&
		    !drv_attribute(index,
				   CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &yes) &&
		    yes;
	return err;
}

static int bus_id(int index, char *text, int len)
{
	return drv.DeviceGetPCIBusId(text, len, HANDLE(index));
}

static int context_create(int index, void **context)
{
	return drv.CtxCreate((CUcontext *)context, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST,
			     HANDLE(index));
}

static void context_destroy(int index, void *context)
{
	drv.CtxDestroy(context);
}

static int context_use(int index, void *context)
{
	return drv.CtxSetCurrent(context);
}

static int mark(void *stream, uint64_t address, uint32_t value)
{
	return write_value ? (int)write_value(stream, TO_ADDRESS(address), value,
					      CU_STREAM_WRITE_VALUE_DEFAULT) :
			     (int)CUDA_ERROR_NOT_SUPPORTED;
}

static int peer_enable(int index, int other, void *other_context, bool pooled)
{
	int can = 0, err = drv.DeviceCanAccessPeer(&can, HANDLE(index), HANDLE(other));

	if (!err && !can)
		err = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (!err)
		err = drv.CtxEnablePeerAccess(other_context, 0);
	if (err == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		err = 0;
	return !err && pooled ? drv_pool_share(other, index) : err;
}

static int copy_peer(uint64_t to, int index, void *context, uint64_t from, int src_index,
		     void *src_context, uint64_t bytes, void *stream)
{
	return drv.MemcpyPeerAsync(TO_ADDRESS(to), context, TO_ADDRESS(from), src_context, bytes,
				   stream);
}

/* What stands in the log when nothing is wrong is of no interest. */
static int module_load(const void *image, char *log, size_t len, void **module)
{
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *values[] = { log, (void *)len };
	int err;

	log[0] = '\0';
	err = drv.ModuleLoadDataEx((CUmodule *)module, image, 2, options, values);
	log[len - 1] = '\0';
	if (err == CUDA_ERROR_UNSUPPORTED_PTX_VERSION && !log[0])
		snprintf(log, len, "the driver is older than the CUDA Toolkit that made this PTX");
	return err;
}

static void function_param(void *function, uint32_t i, int *bytes)
{
	size_t offset, size = 0;
	int err = func_param ? (int)func_param(function, i, &offset, &size) :
			       (int)CUDA_ERROR_NOT_SUPPORTED;

	/* There is no such parameter. */
	if (err == CUDA_ERROR_INVALID_VALUE)
		*bytes = 0;
	else
		*bytes = err ? -EOPNOTSUPP : (int)size;
}

const struct gpu_driver gpu_cuda = {
	.name = "cuda",
	.kind = ARAX_DEVICE_CUDA,
	.images = CUDA_IMAGES,
	.remedy = CUDA_REMEDY,
	GPU_COMMON_CALLS,
	.open = open_driver,
	.error_name = error_name,
	.is_image = is_cuda_image,
	.describe = describe,
	.nvml = true,
	.bus_id = bus_id,
	.context_create = context_create,
	.context_destroy = context_destroy,
	.context_use = context_use,
	.mark = mark,
	.peer_enable = peer_enable,
	.copy_peer = copy_peer,
	.module_load = module_load,
	.function_param = function_param,
};
