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

#define __HIP_PLATFORM_NVIDIA__	1
#define __HIP_PLATFORM_NVCC__	1
#include <hip/hip_runtime_api.h>

/* Not by this name. */
#define hipMemPoolAttrReleaseThreshold	cudaMemPoolAttrReleaseThreshold

#endif /* ARAX_DAEMON_BACKENDS_GPU_HIP_NVIDIA_H */
