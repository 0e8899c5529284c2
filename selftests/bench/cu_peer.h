/* SPDX-License-Identifier: MIT */
/*
 * CUDA's driver itself, as somebody would use it who has the device for himself: the peer
 * of what goes through araxd.  For files that are built with HAVE_CUDA.
 */
#ifndef BENCH_CU_PEER_H
#define BENCH_CU_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#define CU_PEER_STREAMS	10

/* X(call, its type in cudaTypedefs.h, its symbol), which says which version is meant. */
#define CU_CALLS(X); \
	X(GetErrorName, cuGetErrorName_v6000, "cuGetErrorName"); \
	X(Init, cuInit_v2000, "cuInit"); \
	X(DriverGetVersion, cuDriverGetVersion_v2020, "cuDriverGetVersion"); \
	X(DeviceGetCount, cuDeviceGetCount_v2000, "cuDeviceGetCount"); \
	X(DeviceGet, cuDeviceGet_v2000, "cuDeviceGet"); \
	X(DeviceGetName, cuDeviceGetName_v2000, "cuDeviceGetName"); \
	X(DeviceGetAttribute, cuDeviceGetAttribute_v2000, "cuDeviceGetAttribute"); \
	X(CtxCreate, cuCtxCreate_v3020, "cuCtxCreate_v2"); \
	X(CtxDestroy, cuCtxDestroy_v4000, "cuCtxDestroy_v2"); \
	X(StreamCreate, cuStreamCreate_v2000, "cuStreamCreate"); \
	X(StreamDestroy, cuStreamDestroy_v4000, "cuStreamDestroy_v2"); \
	X(StreamSynchronize, cuStreamSynchronize_v2000, "cuStreamSynchronize"); \
	X(StreamWaitEvent, cuStreamWaitEvent_v3020, "cuStreamWaitEvent"); \
	X(EventCreate, cuEventCreate_v2000, "cuEventCreate"); \
	X(EventDestroy, cuEventDestroy_v4000, "cuEventDestroy_v2"); \
	X(EventRecord, cuEventRecord_v2000, "cuEventRecord"); \
	X(MemAlloc, cuMemAlloc_v3020, "cuMemAlloc_v2"); \
	X(MemFree, cuMemFree_v3020, "cuMemFree_v2"); \
	X(MemHostAlloc, cuMemHostAlloc_v2020, "cuMemHostAlloc"); \
	X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v3020, \
	  "cuMemHostGetDevicePointer_v2"); \
	X(MemFreeHost, cuMemFreeHost_v2000, "cuMemFreeHost"); \
	X(MemcpyHtoD, cuMemcpyHtoD_v3020, "cuMemcpyHtoD_v2"); \
	X(MemcpyDtoH, cuMemcpyDtoH_v3020, "cuMemcpyDtoH_v2"); \
	X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v3020, "cuMemcpyHtoDAsync_v2"); \
	X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v3020, "cuMemcpyDtoHAsync_v2"); \
	X(ModuleLoadDataEx, cuModuleLoadDataEx_v2010, "cuModuleLoadDataEx"); \
	X(ModuleUnload, cuModuleUnload_v2000, "cuModuleUnload"); \
	X(ModuleGetFunction, cuModuleGetFunction_v2000, "cuModuleGetFunction"); \
	X(LaunchKernel, cuLaunchKernel_v4000, "cuLaunchKernel"); \
	X(GraphCreate, cuGraphCreate_v10000, "cuGraphCreate"); \
	X(GraphAddKernelNode, cuGraphAddKernelNode_v10000, "cuGraphAddKernelNode"); \
	X(GraphAddMemcpyNode, cuGraphAddMemcpyNode_v10000, "cuGraphAddMemcpyNode"); \
	X(GraphInstantiate, cuGraphInstantiateWithFlags_v11040, "cuGraphInstantiateWithFlags"); \
	X(GraphLaunch, cuGraphLaunch_v10000, "cuGraphLaunch"); \
	X(GraphExecDestroy, cuGraphExecDestroy_v10000, "cuGraphExecDestroy"); \
	X(GraphDestroy, cuGraphDestroy_v10000, "cuGraphDestroy")

struct cu_calls {
#define X(call, type, symbol) PFN_##type call
	CU_CALLS(X);
#undef X
};

extern struct cu_calls cu;

/* As struct arax_gpu_result of arax/gpu.h: nobody looks whether one has failed. */
struct cu_result {
	CUdeviceptr value;
	uint64_t unused[3];
};

/**
 * struct cu_peer - the first device
 * @units:	multiprocessors
 * @emulated:	the driver is one in software: it computes, and no figure means anything
 * @streams:	none waits for the legacy stream
 * @result:	where kernels store how they fared, @result_at to them: 0, or a negative errno
 */
struct cu_peer {
	CUdevice device;
	char name[128];
	int units, version;
	bool emulated;
	CUcontext context;
	CUmodule module;
	CUstream streams[CU_PEER_STREAMS];
	int32_t *result;
	struct cu_result result_at;
};

/* One GPU alone, for this program and the araxds that it starts.  Before the first call. */
void cu_peer_narrow(void);
/* The driver that is to be used: ARAX_BENCH_CUDA, or the machine's. */
const char *cu_peer_library(void);
/* The kernels of the PTX in @path.  -1: @why says why not. */
int cu_peer_open(struct cu_peer *p, const char *path, char *why, size_t len);
/* Of what was opened, as far as it was. */
void cu_peer_close(struct cu_peer *p);

/* Ends the program, if @err, with the driver's name for it. */
void must_cu(CUresult err, const char *what);
CUfunction cu_peer_kernel(struct cu_peer *p, const char *name);
void cu_peer_finish(struct cu_peer *p, int stream);
/* Pinned. */
void *cu_peer_pages(uint64_t bytes);
CUdeviceptr cu_peer_memory(uint64_t bytes);
/* That no kernel has refused its arguments; and from then on again. */
void cu_peer_check(struct cu_peer *p, const char *what);

#endif
