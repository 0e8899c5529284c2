/* SPDX-License-Identifier: MIT */
/*
 * calls.h - the calls that CUDA's driver and HIP have in common, written once
 *
 * Included by cuda.c and hip.c, each after
 *
 *	AS(cuda, hip)	picks its own of two names
 *	CALL_TYPE(...)	the type of a call, from its own header
 *	ADDRESS		the type of a device address
 *	POINTER		the same, where HIP has a pointer whatever its addresses are
 *	HANDLE(index)	a device's handle
 *
 * and fills in a struct gpu_driver with what is here.  With CALLS_ARE_LINKED the calls are
 * functions of its header, and no library is opened; with NO_PLACES it has none for memory
 * at a wanted address.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * X(field, CUDA's type in cudaTypedefs.h, CUDA's symbol, HIP's): the first column is
 * the name of a call in `drv`.  CUDA's symbols say which version of a call is meant.
 */
#define GPU_CALLS(X); \
	X(Init, cuInit_v2000, cuInit, hipInit); \
	X(DriverGetVersion, cuDriverGetVersion_v2020, cuDriverGetVersion, hipDriverGetVersion); \
	X(DeviceGetCount, cuDeviceGetCount_v2000, cuDeviceGetCount, hipGetDeviceCount); \
	X(DeviceGetName, cuDeviceGetName_v2000, cuDeviceGetName, hipDeviceGetName); \
	X(DeviceTotalMem, cuDeviceTotalMem_v3020, cuDeviceTotalMem_v2, hipDeviceTotalMem); \
	X(DeviceGetAttribute, cuDeviceGetAttribute_v2000, cuDeviceGetAttribute, \
	  hipDeviceGetAttribute); \
	X(MemGetInfo, cuMemGetInfo_v3020, cuMemGetInfo_v2, hipMemGetInfo); \
	X(DeviceCanAccessPeer, cuDeviceCanAccessPeer_v4000, cuDeviceCanAccessPeer, \
	  hipDeviceCanAccessPeer); \
	X(StreamCreate, cuStreamCreate_v2000, cuStreamCreate, hipStreamCreateWithFlags); \
	X(StreamDestroy, cuStreamDestroy_v4000, cuStreamDestroy_v2, hipStreamDestroy); \
	X(StreamSynchronize, cuStreamSynchronize_v2000, cuStreamSynchronize, hipStreamSynchronize); \
	X(StreamQuery, cuStreamQuery_v2000, cuStreamQuery, hipStreamQuery); \
	X(EventCreate, cuEventCreate_v2000, cuEventCreate, hipEventCreateWithFlags); \
	X(EventDestroy, cuEventDestroy_v4000, cuEventDestroy_v2, hipEventDestroy); \
	X(EventRecord, cuEventRecord_v2000, cuEventRecord, hipEventRecord); \
	X(EventQuery, cuEventQuery_v2000, cuEventQuery, hipEventQuery); \
	X(EventElapsedTime, cuEventElapsedTime_v2000, cuEventElapsedTime, hipEventElapsedTime); \
	X(MemAlloc, cuMemAlloc_v3020, cuMemAlloc_v2, hipMalloc); \
	X(MemFree, cuMemFree_v3020, cuMemFree_v2, hipFree); \
	X(MemHostAlloc, cuMemHostAlloc_v2020, cuMemHostAlloc, hipHostMalloc); \
	X(MemFreeHost, cuMemFreeHost_v2000, cuMemFreeHost, hipHostFree); \
	X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v3020, cuMemHostGetDevicePointer_v2, \
	  hipHostGetDevicePointer); \
	X(MemHostRegister, cuMemHostRegister_v6050, cuMemHostRegister_v2, hipHostRegister); \
	X(MemHostUnregister, cuMemHostUnregister_v4000, cuMemHostUnregister, hipHostUnregister); \
	X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v3020, cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync); \
	X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v3020, cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync); \
	X(MemcpyPeerAsync, cuMemcpyPeerAsync_v4000, cuMemcpyPeerAsync, hipMemcpyPeerAsync); \
	X(ModuleLoadDataEx, cuModuleLoadDataEx_v2010, cuModuleLoadDataEx, hipModuleLoadDataEx); \
	X(ModuleUnload, cuModuleUnload_v2000, cuModuleUnload, hipModuleUnload); \
	X(ModuleGetFunction, cuModuleGetFunction_v2000, cuModuleGetFunction, hipModuleGetFunction); \
	X(FuncGetAttribute, cuFuncGetAttribute_v2020, cuFuncGetAttribute, hipFuncGetAttribute); \
	X(LaunchKernel, cuLaunchKernel_v4000, cuLaunchKernel, hipModuleLaunchKernel)

/* NULL where the library is older. */
#define GPU_CALLS_LATER(X); \
	X(DeviceGetUuid, cuDeviceGetUuid_v11040, cuDeviceGetUuid_v2, hipDeviceGetUuid); \
	X(Occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050, \
	  cuOccupancyMaxActiveBlocksPerMultiprocessor, \
	  hipModuleOccupancyMaxActiveBlocksPerMultiprocessor); \
	X(MemAllocAsync, cuMemAllocAsync_v11020, cuMemAllocAsync, hipMallocAsync); \
	X(MemFreeAsync, cuMemFreeAsync_v11020, cuMemFreeAsync, hipFreeAsync); \
	X(DeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool_v11020, cuDeviceGetDefaultMemPool, \
	  hipDeviceGetDefaultMemPool); \
	X(MemPoolSetAttribute, cuMemPoolSetAttribute_v11020, cuMemPoolSetAttribute, \
	  hipMemPoolSetAttribute); \
	X(MemPoolSetAccess, cuMemPoolSetAccess_v11020, cuMemPoolSetAccess, hipMemPoolSetAccess)

#ifdef NO_PLACES
#define GPU_CALLS_PLACES(X)
#else
#define GPU_CALLS_PLACES(X); \
	X(MemGetAllocationGranularity, cuMemGetAllocationGranularity_v10020, \
	  cuMemGetAllocationGranularity, hipMemGetAllocationGranularity); \
	X(MemAddressReserve, cuMemAddressReserve_v10020, cuMemAddressReserve, \
	  hipMemAddressReserve); \
	X(MemAddressFree, cuMemAddressFree_v10020, cuMemAddressFree, hipMemAddressFree); \
	X(MemCreate, cuMemCreate_v10020, cuMemCreate, hipMemCreate); \
	X(MemRelease, cuMemRelease_v10020, cuMemRelease, hipMemRelease); \
	X(MemMap, cuMemMap_v10020, cuMemMap, hipMemMap); \
	X(MemUnmap, cuMemUnmap_v10020, cuMemUnmap, hipMemUnmap); \
	X(MemSetAccess, cuMemSetAccess_v10020, cuMemSetAccess, hipMemSetAccess)
#endif

static struct {
	void *library;
#define X(field, type, cuda, hip) CALL_TYPE(type, hip) field
	GPU_CALLS(X);
	GPU_CALLS_LATER(X);
	GPU_CALLS_PLACES(X);
	GPU_CALLS_OWN(X);
#undef X
} drv;

#ifdef CALLS_ARE_LINKED
static int open_library(const char *file, char *why, size_t len)
{
#define X(field, type, cuda, hip) drv.field = AS(cuda, hip)
	GPU_CALLS(X);
	GPU_CALLS_LATER(X);
	GPU_CALLS_OWN(X);
#undef X
	drv.library = &drv;
	return 0;
}

static void *drv_library(void)
{
	return NULL;
}
#else
static void *drv_library(void)
{
	return drv.library;
}

/* NULL, or the name if there is no such call. */
static const char *take_call(const char *name, void **call)
{
	*call = dlsym(drv.library, name);
	return *call ? NULL : name;
}

/* All calls of @file.  -ENOENT: no such library; -ENOEXEC: @why says what it lacks. */
static int open_library(const char *file, char *why, size_t len)
{
	const char *missing = NULL;

	drv.library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!drv.library) {
		snprintf(why, len, "%s", dlerror());
		return -ENOENT;
	}
	/* # and not a macro around it: to cuda.h some of these names are macros. */
#define X(field, type, cuda, hip) take_call(AS(#cuda, #hip), (void **)&drv.field)
	GPU_CALLS_LATER(X);
	GPU_CALLS_PLACES(X);
#undef X
#define X(field, type, cuda, hip) \
	missing = missing ? missing : \
		  take_call(AS(#cuda, #hip), (void **)&drv.field)
	GPU_CALLS(X);
	GPU_CALLS_OWN(X);
#undef X
	if (!missing)
		return 0;
	snprintf(why, len, "%s has no %s: it is too old", file, missing);
	dlclose(drv.library);
	memset(&drv, 0, sizeof(drv));
	return -ENOEXEC;
}
#endif

/* ------------------------------------------------------------------ */
/* Devices                                                               */

static int drv_count(int *nr)
{
	return drv.DeviceGetCount(nr);
}

static int drv_attribute(int index, AS(CUdevice_attribute, hipDeviceAttribute_t) what,
			 uint32_t *value)
{
	int v = 0, err = drv.DeviceGetAttribute(&v, what, HANDLE(index));

	if (!err)
		*value = v > 0 ? (uint32_t)v : 0;
	return err;
}

/* Of a part of a device (MIG), too. */
static void drv_uuid(int index, uint8_t uuid[16])
{
	AS(CUuuid, hipUUID) u = { .bytes = { 0 } };

	if (drv.DeviceGetUuid && drv.DeviceGetUuid(&u, HANDLE(index))) {
		memset(&u, 0, sizeof(u));
		/* It is also this thread's last error, which nobody asks for: take it away. */
		AS((void)0, (void)drv.GetLastError());
	}
	memcpy(uuid, u.bytes, 16);
}

/* But for what has a name of its own in each. */
static int drv_describe(int index, struct gpu_limits *l)
{
	static const AS(CUdevice_attribute, hipDeviceAttribute_t) dims[] = {
		AS(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, hipDeviceAttributeMaxBlockDimX),
		AS(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, hipDeviceAttributeMaxBlockDimY),
		AS(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, hipDeviceAttributeMaxBlockDimZ),
		AS(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, hipDeviceAttributeMaxGridDimX),
		AS(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, hipDeviceAttributeMaxGridDimY),
		AS(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, hipDeviceAttributeMaxGridDimZ),
	};
	size_t bytes = 0;
	int err = drv.DeviceGetName(l->name, sizeof(l->name), HANDLE(index));

	l->name[sizeof(l->name) - 1] = '\0';
	if (!err)
		err = drv.DeviceTotalMem(&bytes, HANDLE(index));
	l->bytes = bytes;
	for (int i = 0; !err && i < 6; i++)
		err = drv_attribute(index, dims[i],
				    i < 3 ? &l->max_block[i] : &l->max_grid[i - 3]);
	if (!err)
		err = drv_attribute(index, AS(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
					      hipDeviceAttributeMaxThreadsPerBlock), &l->max_group);
	if (!err)
		err = drv_attribute(index, AS(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					      hipDeviceAttributeMultiprocessorCount), &l->units);
	return err;
}

static int drv_memory_info(uint64_t *free, uint64_t *total)
{
	size_t f = 0, t = 0;
	int err = drv.MemGetInfo(&f, &t);

	*free = f;
	*total = t;
	return err;
}

/* ------------------------------------------------------------------ */
/* Streams and events                                                    */

/* Not behind the legacy stream, which others in this process might use. */
static int drv_stream_create(void **stream)
{
	return drv.StreamCreate((AS(CUstream, hipStream_t) *)stream,
				AS(CU_STREAM_NON_BLOCKING, hipStreamNonBlocking));
}

static void drv_stream_destroy(void *stream)
{
	drv.StreamDestroy(stream);
}

static int drv_stream_wait(void *stream)
{
	return drv.StreamSynchronize(stream);
}

static int drv_stream_query(void *stream)
{
	return drv.StreamQuery(stream);
}

/* Without an interrupt when it comes: that costs each time, whether or not somebody sleeps. */
static int drv_event_create(bool timed, void **event)
{
	return drv.EventCreate((AS(CUevent, hipEvent_t) *)event,
			       timed ? 0 : AS(CU_EVENT_DISABLE_TIMING, hipEventDisableTiming));
}

static void drv_event_destroy(void *event)
{
	drv.EventDestroy(event);
}

static int drv_event_record(void *event, void *stream)
{
	return drv.EventRecord(event, stream);
}

static int drv_event_query(void *event)
{
	return drv.EventQuery(event);
}

static int drv_event_ns(void *from, void *to, uint64_t *ns)
{
	float ms = 0;
	int err = drv.EventElapsedTime(&ms, from, to);

	*ns = !err && ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
	return err;
}

static bool drv_not_ready(int err)
{
	return err == (int)AS(CUDA_ERROR_NOT_READY, hipErrorNotReady);
}

/* ------------------------------------------------------------------ */
/* Memory                                                                */

#define TO_ADDRESS(a)	((ADDRESS)(uintptr_t)(a))
#define TO_POINTER(a)	((POINTER)(uintptr_t)(a))
#define FROM_ADDRESS(a)	((uint64_t)(uintptr_t)(a))

static bool drv_has_pools(void)
{
	return drv.MemAllocAsync && drv.MemFreeAsync && drv.DeviceGetDefaultMemPool &&
	       drv.MemPoolSetAttribute;
}

static int drv_alloc(bool pooled, void *stream, uint64_t bytes, uint64_t *address)
{
	POINTER a = 0;
	int err = pooled ? drv.MemAllocAsync(&a, bytes, stream) : drv.MemAlloc(&a, bytes);

	*address = FROM_ADDRESS(a);
	return err;
}

static int drv_free(bool pooled, void *stream, uint64_t address)
{
	return pooled ? drv.MemFreeAsync(TO_POINTER(address), stream) :
			drv.MemFree(TO_POINTER(address));
}

static int drv_pool_keep(int index)
{
	AS(CUmemoryPool, hipMemPool_t) pool;
	uint64_t keep = UINT64_MAX;
	int err = drv.DeviceGetDefaultMemPool(&pool, HANDLE(index));

	return err ? err :
	       (int)drv.MemPoolSetAttribute(pool, AS(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
						     hipMemPoolAttrReleaseThreshold), &keep);
}

/* What is in the pool of device @index @other may use, too. */
static int drv_pool_share(int index, int other)
{
	AS(CUmemAccessDesc, hipMemAccessDesc) access = {
		.location = {
			.type = AS(CU_MEM_LOCATION_TYPE_DEVICE, hipMemLocationTypeDevice),
			.id = other,
		},
		.flags = AS(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, hipMemAccessFlagsProtReadWrite),
	};
	AS(CUmemoryPool, hipMemPool_t) pool;
	int err;

	if (!drv.MemPoolSetAccess)
		return AS(CUDA_ERROR_NOT_SUPPORTED, hipErrorNotSupported);
	err = drv.DeviceGetDefaultMemPool(&pool, HANDLE(index));
	return err ? err : (int)drv.MemPoolSetAccess(pool, &access, 1);
}

static void drv_host_free(void *host)
{
	drv.MemFreeHost(host);
}

static int drv_host_alloc(uint64_t bytes, void **host, uint64_t *address)
{
	POINTER a = 0;
	int err = drv.MemHostAlloc(host, bytes,
				   AS(CU_MEMHOSTALLOC_DEVICEMAP, hipHostMallocMapped) |
				   AS(CU_MEMHOSTALLOC_PORTABLE, hipHostMallocPortable));

	if (err)
		return err;
	err = drv.MemHostGetDevicePointer(&a, *host, 0);
	if (err)
		drv_host_free(*host);
	*address = FROM_ADDRESS(a);
	return err;
}

static int drv_host_register(void *host, uint64_t bytes)
{
	return drv.MemHostRegister(host, bytes,
				   AS(CU_MEMHOSTREGISTER_PORTABLE, hipHostRegisterPortable));
}

static int drv_host_unregister(void *host)
{
	return drv.MemHostUnregister(host);
}

static int drv_copy_in(uint64_t to, const void *from, uint64_t bytes, void *stream)
{
	return drv.MemcpyHtoDAsync(TO_ADDRESS(to), (void *)from, bytes, stream);
}

static int drv_copy_out(void *to, uint64_t from, uint64_t bytes, void *stream)
{
	return drv.MemcpyDtoHAsync(to, TO_ADDRESS(from), bytes, stream);
}

/* ------------------------------------------------------------------ */
/* Memory at a wanted address                                            */

#ifdef NO_PLACES
static bool drv_has_places(void)
{
	return false;
}

#define drv_map_granule		NULL
#define drv_memory_map		NULL
#define drv_memory_unmap	NULL
#else
static bool drv_has_places(void)
{
	return drv.MemGetAllocationGranularity && drv.MemAddressReserve && drv.MemAddressFree &&
	       drv.MemCreate && drv.MemRelease && drv.MemMap && drv.MemUnmap && drv.MemSetAccess;
}

static AS(CUmemAllocationProp, hipMemAllocationProp) drv_prop(int index)
{
	const AS(CUmemAllocationProp, hipMemAllocationProp) prop = {
		.type = AS(CU_MEM_ALLOCATION_TYPE_PINNED, hipMemAllocationTypePinned),
		.location = {
			.type = AS(CU_MEM_LOCATION_TYPE_DEVICE, hipMemLocationTypeDevice),
			.id = index,
		},
	};

	return prop;
}

static int drv_map_granule(int index, uint64_t *bytes)
{
	AS(CUmemAllocationProp, hipMemAllocationProp) prop = drv_prop(index);
	size_t n = 0;
	int err = drv.MemGetAllocationGranularity(&n, &prop,
						  AS(CU_MEM_ALLOC_GRANULARITY_MINIMUM,
						     hipMemAllocationGranularityMinimum));

	*bytes = n;
	return err;
}

/* Room, memory, one on the other, and the right to use it: back in this order on failure. */
static int drv_memory_map(int index, uint64_t address, uint64_t bytes, uint64_t *at,
			  uint64_t *handle)
{
	AS(CUmemAllocationProp, hipMemAllocationProp) prop = drv_prop(index);
	AS(CUmemAccessDesc, hipMemAccessDesc) access = {
		.location = prop.location,
		.flags = AS(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, hipMemAccessFlagsProtReadWrite),
	};
	AS(CUmemGenericAllocationHandle, hipMemGenericAllocationHandle_t) h;
	ADDRESS a = 0;
	int err;

	err = drv.MemAddressReserve(&a, bytes, 0, TO_ADDRESS(address), 0);
	if (err)
		return err;
	*at = FROM_ADDRESS(a);
	if (*at != address)
		goto free_address;
	err = drv.MemCreate(&h, bytes, &prop, 0);
	if (err)
		goto free_address;
	err = drv.MemMap(a, bytes, 0, h, 0);
	if (err)
		goto release;
	err = drv.MemSetAccess(a, bytes, &access, 1);
	if (err)
		goto unmap;
	*handle = (uint64_t)(uintptr_t)h;
	return 0;
unmap:
	drv.MemUnmap(a, bytes);
release:
	drv.MemRelease(h);
free_address:
	drv.MemAddressFree(a, bytes);
	return err;
}

static void drv_memory_unmap(uint64_t address, uint64_t bytes, uint64_t handle)
{
	drv.MemUnmap(TO_ADDRESS(address), bytes);
	drv.MemRelease((AS(CUmemGenericAllocationHandle, hipMemGenericAllocationHandle_t))
		       (uintptr_t)handle);
	drv.MemAddressFree(TO_ADDRESS(address), bytes);
}
#endif

/* ------------------------------------------------------------------ */
/* Code                                                                  */

static void drv_module_unload(void *module)
{
	drv.ModuleUnload(module);
}

static int drv_function_get(void *module, const char *symbol, void **function)
{
	return drv.ModuleGetFunction((AS(CUfunction, hipFunction_t) *)function, module, symbol);
}

static int drv_function_cost(void *function, struct gpu_cost *cost)
{
	static const AS(CUfunction_attribute, hipFunction_attribute) what[] = {
		AS(CU_FUNC_ATTRIBUTE_NUM_REGS, HIP_FUNC_ATTRIBUTE_NUM_REGS),
		AS(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
		AS(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
		AS(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
		   HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
	};
	int v[4] = { 0 }, blocks = 0, err = 0;

	for (int i = 0; !err && i < 4; i++)
		err = drv.FuncGetAttribute(&v[i], what[i], function);
	*cost = (struct gpu_cost){ (uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3],
				   0 };
	if (!err && drv.Occupancy && v[3] >= 256 && !drv.Occupancy(&blocks, function, 256, 0))
		cost->blocks = (uint32_t)blocks;
	return err;
}

static int drv_launch(void *function, const uint32_t grid[3], const uint32_t block[3],
		      void *stream, void **params)
{
	return drv.LaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
				0, stream, params, NULL);
}

/* ------------------------------------------------------------------ */

/* The errors that a driver has, what they are here, and what they leave broken. */
struct gpu_error {
	int err;
	int code;
	enum gpu_harm harm;
};

static const struct gpu_error *find_error(int err);

static int drv_error_code(int err)
{
	const struct gpu_error *e = find_error(err);

	return !err ? 0 : e ? -e->code : -EIO;
}

static enum gpu_harm drv_harm(int err)
{
	const struct gpu_error *e = find_error(err);

	return e ? e->harm : GPU_HARM_UNKNOWN;
}

#define GPU_COMMON_CALLS \
	.library = drv_library, .error_code = drv_error_code, .harm = drv_harm, .not_ready = drv_not_ready, \
	.count = drv_count, .uuid = drv_uuid, .memory_info = drv_memory_info, \
	.stream_create = drv_stream_create, .stream_destroy = drv_stream_destroy, \
	.stream_wait = drv_stream_wait, .stream_query = drv_stream_query, \
	.event_create = drv_event_create, \
	.event_destroy = drv_event_destroy, .event_record = drv_event_record, \
	.event_query = drv_event_query, .event_ns = drv_event_ns, \
	.alloc = drv_alloc, .free = drv_free, .pool_keep = drv_pool_keep, \
	.host_alloc = drv_host_alloc, .host_free = drv_host_free, \
	.host_register = drv_host_register, .host_unregister = drv_host_unregister, \
	.copy_in = drv_copy_in, .copy_out = drv_copy_out, .module_unload = drv_module_unload, \
	.function_get = drv_function_get, .function_cost = drv_function_cost, \
	.launch = drv_launch, .map_granule = drv_map_granule, .memory_map = drv_memory_map, \
	.memory_unmap = drv_memory_unmap
