// SPDX-License-Identifier: MIT
/*
 * HIP: what it does in ways of its own; on ROCm, or on NVIDIA's devices by HIP's headers for
 * those (GPU_HIP_NVIDIA: see `make hip-nvidia`).
 *
 * A device is its own context; what hipDeviceReset() leaves of it is a new one.
 */
#include "daemon/backends/gpu/driver.h"

#ifdef GPU_HIP_NVIDIA
#include "daemon/backends/gpu/cuda_image.h"
#include "daemon/backends/gpu/hip_nvidia.h"
#define CALLS_ARE_LINKED
#define NO_PLACES
#else
/* Its templates and inline functions are not for us, nor its warnings. */
#define __HIP_PLATFORM_AMD__	1
#define __HIP_PLATFORM_HCC__	1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <hip/hip_runtime_api.h>
#pragma GCC diagnostic pop
#endif

#include "uapi/arax.h"

#define AS(cuda, hip)		hip
#define CALL_TYPE(type, hip)	__typeof__(hip) *
#define ADDRESS			hipDeviceptr_t
#define POINTER			void *
#define HANDLE(index)		(index)
/* By its symbol: since version 6 the name is a macro. */
#ifdef GPU_HIP_NVIDIA
#define GET_PROPERTIES(X)
#elif HIP_VERSION_MAJOR >= 6
#define GET_PROPERTIES(X)	X(GetDeviceProperties, -, -, hipGetDevicePropertiesR0600)
#else
#define GET_PROPERTIES(X)	X(GetDeviceProperties, -, -, hipGetDeviceProperties)
#endif
#define GPU_CALLS_OWN(X); \
	GET_PROPERTIES(X); \
	X(GetErrorName, -, -, hipGetErrorName); \
	X(SetDevice, -, -, hipSetDevice); \
	X(DeviceReset, -, -, hipDeviceReset); \
	X(GetLastError, -, -, hipGetLastError); \
	X(DeviceGetPCIBusId, -, -, hipDeviceGetPCIBusId); \
	X(DeviceEnablePeerAccess, -, -, hipDeviceEnablePeerAccess)

#include "daemon/backends/gpu/calls.h"

/* Enumerations change with the major number: it must be the headers' own. */
#define SONAME(major)	"libamdhip64.so." #major
#define LIBRARY_OF(major)	SONAME(major)
#define LIBRARY		LIBRARY_OF(HIP_VERSION_MAJOR)

#ifdef GPU_HIP_NVIDIA
#define NO_GPU		"the driver sees no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES"
#define NO_MODULE	"is the nvidia kernel module loaded (see nvidia-smi)?"
#else
#define NO_GPU		"ROCm sees no GPU: look at rocminfo, /dev/kfd and HIP_VISIBLE_DEVICES"
#define NO_MODULE	"is the amdgpu kernel module loaded (see rocminfo)?"
#define BUNDLE_MAGIC	"__CLANG_OFFLOAD_BUNDLE__"
#endif

static const struct gpu_error errors[] = {
	{ hipErrorInvalidValue, EINVAL, GPU_HARM_NONE },
	{ hipErrorOutOfMemory, ENOMEM, GPU_HARM_NONE },
	{ hipErrorNotInitialized, ENODEV, GPU_HARM_DEVICE },
	{ hipErrorDeinitialized, ENODEV, GPU_HARM_DEVICE },
	{ hipErrorInvalidConfiguration, EINVAL, GPU_HARM_NONE },
	{ hipErrorInvalidDevicePointer, EFAULT, GPU_HARM_NONE },
	{ hipErrorInvalidDeviceFunction, ENOEXEC, GPU_HARM_NONE },
	{ hipErrorNoDevice, ENODEV, GPU_HARM_NONE },
	{ hipErrorInvalidDevice, ENODEV, GPU_HARM_NONE },
	{ hipErrorInvalidImage, ENOEXEC, GPU_HARM_NONE },
	{ hipErrorInvalidContext, ENODEV, GPU_HARM_DEVICE },
	{ hipErrorNoBinaryForGpu, ENOEXEC, GPU_HARM_NONE },
	{ hipErrorECCNotCorrectable, ENODEV, GPU_HARM_DEVICE },
	{ hipErrorPeerAccessUnsupported, EOPNOTSUPP, GPU_HARM_NONE },
	{ hipErrorInvalidKernelFile, ENOEXEC, GPU_HARM_NONE },
	{ hipErrorInvalidSource, ENOEXEC, GPU_HARM_NONE },
	{ hipErrorSharedObjectInitFailed, ENOEXEC, GPU_HARM_NONE },
	{ hipErrorInvalidHandle, EINVAL, GPU_HARM_NONE },
	{ hipErrorNotFound, ENOENT, GPU_HARM_NONE },
	{ hipErrorNotReady, EAGAIN, GPU_HARM_NONE },
	{ hipErrorIllegalAddress, EFAULT, GPU_HARM_KERNEL },
	{ hipErrorLaunchOutOfResources, EINVAL, GPU_HARM_NONE },
	{ hipErrorLaunchTimeOut, ETIMEDOUT, GPU_HARM_KERNEL },
	{ hipErrorPeerAccessAlreadyEnabled, EALREADY, GPU_HARM_NONE },
	{ hipErrorContextIsDestroyed, ENODEV, GPU_HARM_DEVICE },
	{ hipErrorAssert, EFAULT, GPU_HARM_KERNEL },
	{ hipErrorHostMemoryAlreadyRegistered, EALREADY, GPU_HARM_NONE },
	{ hipErrorHostMemoryNotRegistered, EINVAL, GPU_HARM_NONE },
	{ hipErrorLaunchFailure, EFAULT, GPU_HARM_KERNEL },
	{ hipErrorNotSupported, EOPNOTSUPP, GPU_HARM_NONE },
};

static const struct gpu_error *find_error(int err)
{
#ifdef GPU_HIP_NVIDIA
	err = hip_context_error((hipError_t)err);
#endif
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if ((int)errors[i].err == err)
			return &errors[i];
	return NULL;
}

static const char *error_name(int err)
{
	return drv.GetErrorName((hipError_t)err);
}

static int open_driver(const char *library, char *why, size_t len)
{
	char text[256];
	int err, nr = 0;

	if (drv.library)
		return 0;
	err = open_library(library ? library : LIBRARY, text, sizeof(text));
	if (err == -ENOENT)
		snprintf(why, len, "no HIP runtime: install ROCm (Debian: libamdhip64-5): %s", text);
	else if (err)
		snprintf(why, len, "%s: install a newer ROCm", text);
	if (err)
		return err;
	/* Of the two the second says it in clearer words (5.2: "invalid device" comes first). */
	err = drv.Init(0);
	if (!err || err == hipErrorInvalidDevice)
		err = drv.DeviceGetCount(&nr);
	if (!err)
		return 0;
	snprintf(why, len, "%s: %s", error_name(err), err == hipErrorNoDevice ? NO_GPU : NO_MODULE);
	/* It stays: it has threads by now.  It is asked again at the next probe. */
	memset(&drv, 0, sizeof(drv));
	return -ENODEV;
}

#ifdef GPU_HIP_NVIDIA
static int describe_arch(int index, struct gpu_limits *l)
{
	uint32_t major = 0, minor = 0;
	int err = drv_attribute(index, hipDeviceAttributeComputeCapabilityMajor, &major);

	if (!err)
		err = drv_attribute(index, hipDeviceAttributeComputeCapabilityMinor, &minor);
	snprintf(l->arch, sizeof(l->arch), "%u.%u", major, minor);
	return err;
}
#else
static int describe_arch(int index, struct gpu_limits *l)
{
	hipDeviceProp_t props = { .gcnArchName = "" };
	int err = drv.GetDeviceProperties(&props, index);

	/* See hipModuleLaunchKernel() in its header. */
	l->max_threads = UINT32_MAX;
	/* As in "gfx90a:sramecc+:xnack-". */
	snprintf(l->arch, sizeof(l->arch), "%.*s", (int)strcspn(props.gcnArchName, ":"),
		 props.gcnArchName);
	return err;
}
#endif

static int describe(int index, struct gpu_limits *l)
{
	uint64_t granule = 0;
	uint32_t yes = 0;
	int err = drv_describe(index, l);

	if (!err)
		err = describe_arch(index, l);
	l->pools = drv_has_pools() &&
		   !drv_attribute(index, hipDeviceAttributeMemoryPoolsSupported, &yes) && yes;
	/* No attribute tells in every version; asking for the granule does. */
	l->places = drv_has_places() && !gpu_hip.map_granule(index, &granule) && granule;
	return err;
}

static int bus_id(int index, char *text, int len)
{
	return drv.DeviceGetPCIBusId(text, len, index);
}

static int context_create(int index, void **context)
{
	*context = NULL;
	return drv.SetDevice(index);
}

static void context_destroy(int index, void *context)
{
	if (!drv.SetDevice(index))
		drv.DeviceReset();
}

static int context_use(int index, void *context)
{
	return drv.SetDevice(index);
}

static int peer_enable(int index, int other, void *other_context, bool pooled)
{
	int can = 0, err = drv.DeviceCanAccessPeer(&can, index, other);

	if (!err && !can)
		err = hipErrorPeerAccessUnsupported;
	if (!err)
		err = drv.DeviceEnablePeerAccess(other, 0);
	if ((!err || err == hipErrorPeerAccessAlreadyEnabled) && pooled)
		err = drv_pool_share(other, index);
	/* It is also this thread's last error, which nobody asks for: take it away. */
	if (err)
		(void)drv.GetLastError();
	return err == hipErrorPeerAccessAlreadyEnabled ? 0 : err;
}

static int copy_peer(uint64_t to, int index, void *context, uint64_t from, int src_index,
		     void *src_context, uint64_t bytes, void *stream)
{
	return drv.MemcpyPeerAsync(TO_POINTER(to), index, TO_POINTER(from), src_index, bytes, stream);
}

#ifndef GPU_HIP_NVIDIA
static bool is_image(const void *data, size_t bytes)
{
	const unsigned char elf[] = { 0x7f, 'E', 'L', 'F' };
	const size_t bundle = sizeof(BUNDLE_MAGIC) - 1;

	return (bytes > sizeof(elf) && !memcmp(data, elf, sizeof(elf))) ||
	       (bytes > bundle && !memcmp(data, BUNDLE_MAGIC, bundle));
}
#endif

static int module_load(const void *image, char *log, size_t len, void **module)
{
	int err = drv.ModuleLoadDataEx((hipModule_t *)module, image, 0, NULL, NULL);

	log[0] = '\0';
	if (err == hipErrorNoBinaryForGpu)
		snprintf(log, len, "it has no code for this architecture: see hipcc --offload-arch");
	return err;
}

static void function_param(void *function, uint32_t i, int *bytes)
{
	*bytes = -EOPNOTSUPP;
}

const struct gpu_driver gpu_hip = {
	.name = "hip",
#ifdef GPU_HIP_NVIDIA
	/* The devices are NVIDIA's, and so are the kernels. */
	.kind = ARAX_DEVICE_CUDA,
	.images = CUDA_IMAGES,
	.remedy = CUDA_REMEDY,
	.is_image = is_cuda_image,
	.nvml = true,
#else
	.kind = ARAX_DEVICE_HIP,
	.images = "a code object",
	.remedy = "compile it with hipcc --genco",
	.is_image = is_image,
#endif
	GPU_COMMON_CALLS,
	.open = open_driver,
	.error_name = error_name,
	.describe = describe,
	.bus_id = bus_id,
	.context_create = context_create,
	.context_destroy = context_destroy,
	.context_use = context_use,
	.peer_enable = peer_enable,
	.copy_peer = copy_peer,
	.module_load = module_load,
	.function_param = function_param,
};
