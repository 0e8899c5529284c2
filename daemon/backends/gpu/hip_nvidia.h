/* SPDX-License-Identifier: MIT */
/*
 * hip_nvidia.h - HIP's own headers for NVIDIA's devices, of 5.2
 *
 * There each call of HIP is a function in the header, which calls CUDA's runtime or driver;
 * so both are linked, and not opened.  They were written for CUDA up to 12: what 13 took away
 * or changed is put here in front of them.  It is all used by functions that we don't call.
 */
#ifndef ARAX_DAEMON_BACKENDS_GPU_HIP_NVIDIA_H
#define ARAX_DAEMON_BACKENDS_GPU_HIP_NVIDIA_H

#include <cuda_runtime_api.h>
#include <cuda.h>

#if CUDA_VERSION >= 13000
#define cudaMemAdvise(address, bytes, advice, device)		cudaErrorNotSupported
#define cudaMemPrefetchAsync(address, bytes, device, stream)	cudaErrorNotSupported
#define cudaChooseDevice(device, prop)				cudaErrorNotSupported
#define cudaDevAttrCooperativeMultiDeviceLaunch			cudaDevAttrCooperativeLaunch
#undef cudaGetDeviceProperties
#define cudaGetDeviceProperties(prop, device)			cudaErrorNotSupported
#undef cuCtxCreate
#define cuCtxCreate(context, flags, device)			CUDA_ERROR_NOT_SUPPORTED

struct hip_old_device_prop {
	char name[256];
	size_t totalGlobalMem, sharedMemPerBlock, totalConstMem, sharedMemPerMultiprocessor;
	size_t memPitch, textureAlignment, texturePitchAlignment;
	int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
	int clockRate, memoryClockRate, memoryBusWidth, major, minor, multiProcessorCount;
	int l2CacheSize, maxThreadsPerMultiProcessor, computeMode, concurrentKernels;
	int pciDomainID, pciBusID, pciDeviceID, isMultiGpuBoard, canMapHostMemory, integrated;
	int cooperativeLaunch, cooperativeMultiDeviceLaunch, kernelExecTimeoutEnabled;
	int ECCEnabled, tccDriver, maxTexture1D, maxTexture2D[2], maxTexture3D[3];
};

#define cudaDeviceProp hip_old_device_prop
#endif

/*
 * What they make hipErrorUnknown of.  Of a module, by its own name here: a PTX version from after
 * them, and what a driver without its compiler says.
 */
static inline CUresult hip_module_error(CUresult err)
{
	switch ((int)err) {
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case 223:	/* CUDA_ERROR_JIT_COMPILATION_DISABLED, from 11.2 on */
		return CUDA_ERROR_INVALID_PTX;
	default:
		return err;
	}
}

#define cuModuleLoadData(module, image)	hip_module_error(cuModuleLoadData(module, image))
#define cuModuleLoadDataEx(module, image, nr, options, values) \
	hip_module_error(cuModuleLoadDataEx(module, image, nr, options, values))

#define __HIP_PLATFORM_NVIDIA__	1
#define __HIP_PLATFORM_NVCC__	1
#include <hip/hip_runtime_api.h>

/*
 * Of a context, by asking CUDA: one that a kernel broke says so to every call.  They know four of
 * the ways to break it, and not an address that isn't aligned or an instruction that isn't one.
 */
static inline hipError_t hip_context_error(hipError_t err)
{
	if (err != hipErrorUnknown)
		return err;
	switch ((int)cuStreamQuery(CU_STREAM_LEGACY)) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
		return hipErrorLaunchFailure;
	default:
		return err;
	}
}

/* Not by this name. */
#define hipMemPoolAttrReleaseThreshold	cudaMemPoolAttrReleaseThreshold
#define hipMemLocationTypeDevice	cudaMemLocationTypeDevice
#define hipMemAccessFlagsProtReadWrite	cudaMemAccessFlagsProtReadWrite

#endif /* ARAX_DAEMON_BACKENDS_GPU_HIP_NVIDIA_H */
