// SPDX-License-Identifier: MIT
/* CUDA's driver itself: a device, streams, a module. */
#ifdef HAVE_CUDA
#include "cu_peer.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "selftests/gpu-emulated/emulated.h"

#define LIBRARY "libcuda.so.1"

struct cu_calls cu;

void cu_peer_narrow(void)
{
	const char *all = getenv("CUDA_VISIBLE_DEVICES");
	char first[128];

	snprintf(first, sizeof(first), "%s", all && *all ? all : "0");
	first[strcspn(first, ",")] = '\0';
	setenv("CUDA_VISIBLE_DEVICES", first, 1);
}

const char *cu_peer_library(void)
{
	const char *library = getenv("ARAX_BENCH_CUDA");

	return library ? library : LIBRARY;
}

static const char *name_of(CUresult err)
{
	const char *name = NULL;

	return !cu.GetErrorName(err, &name) && name ? name : "unknown error";
}

void must_cu(CUresult err, const char *what)
{
	if (err)
		bench_fail("CUDA: %s: %s", what, name_of(err));
}

static void *take_call(void *library, const char *symbol, const char **missing)
{
	void *call = dlsym(library, symbol);

	if (!call)
		*missing = symbol;
	return call;
}

static int open_library(char *why, size_t len)
{
	void *library = dlopen(cu_peer_library(), RTLD_NOW | RTLD_LOCAL);
	const char *missing = NULL;

	if (!library) {
		snprintf(why, len, "no NVIDIA driver: %s", dlerror());
		return -1;
	}
#define X(call, type, symbol) \
	*(void **)&cu.call = take_call(library, symbol, &missing)
	CU_CALLS(X);
#undef X
	if (!missing)
		return 0;
	snprintf(why, len, "%s has no %s: a driver for CUDA 11.4 or newer is needed",
		 cu_peer_library(), missing);
	return -1;
}

static char *read_text(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t n = 0;

	if (f && getdelim(&text, &n, '\0', f) < 0) {
		free(text);
		text = NULL;
	}
	if (f)
		fclose(f);
	return text;
}

static CUresult find_device(struct cu_peer *p)
{
	int nr = 0;
	CUresult err = cu.Init(0);

	if (!err)
		err = cu.DeviceGetCount(&nr);
	if (!err && !nr)
		err = CUDA_ERROR_NO_DEVICE;
	if (!err)
		err = cu.DeviceGet(&p->device, 0);
	if (!err)
		err = cu.DeviceGetName(p->name, sizeof(p->name), p->device);
	if (!err)
		err = cu.DeviceGetAttribute(&p->units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					    p->device);
	if (!err)
		err = cu.DriverGetVersion(&p->version);
	p->name[sizeof(p->name) - 1] = '\0';
	p->emulated = !strcmp(p->name, EMULATED_NAME);
	return err;
}

/* As whoever wants low latency has it: threads that wait look, and don't sleep. */
static CUresult start(struct cu_peer *p, const char *text)
{
	CUresult err = cu.CtxCreate(&p->context, CU_CTX_SCHED_SPIN | CU_CTX_MAP_HOST, p->device);
	void *pages = NULL;
	int i;

	for (i = 0; !err && i < CU_PEER_STREAMS; i++)
		err = cu.StreamCreate(&p->streams[i], CU_STREAM_NON_BLOCKING);
	if (!err)
		err = cu.MemHostAlloc(&pages, sizeof(*p->result), CU_MEMHOSTALLOC_DEVICEMAP);
	if (err)
		return err;
	p->result = pages;
	*p->result = 0;
	err = cu.MemHostGetDevicePointer(&p->result_at.value, pages, 0);
	return err ? err : cu.ModuleLoadDataEx(&p->module, text, 0, NULL, NULL);
}

int cu_peer_open(struct cu_peer *p, const char *path, char *why, size_t len)
{
	char *text;
	CUresult err;

	memset(p, 0, sizeof(*p));
	if (open_library(why, len))
		return -1;
	err = find_device(p);
	if (err) {
		snprintf(why, len, "no CUDA device: %s", name_of(err));
		return -1;
	}
	text = read_text(path);
	if (!text) {
		snprintf(why, len, "no kernels for CUDA, built without nvcc: %s: %s", path,
			 strerror(errno));
		return -1;
	}
	err = start(p, text);
	free(text);
	if (!err)
		return 0;
	snprintf(why, len, "%s: %s", p->name, name_of(err));
	cu_peer_close(p);
	return -1;
}

void cu_peer_close(struct cu_peer *p)
{
	int i;

	if (p->module)
		cu.ModuleUnload(p->module);
	if (p->result)
		cu.MemFreeHost(p->result);
	for (i = 0; i < CU_PEER_STREAMS; i++) {
		if (p->streams[i])
			cu.StreamDestroy(p->streams[i]);
	}
	if (p->context)
		cu.CtxDestroy(p->context);
	memset(p, 0, sizeof(*p));
}

CUfunction cu_peer_kernel(struct cu_peer *p, const char *name)
{
	CUfunction function;
	char symbol[128];

	snprintf(symbol, sizeof(symbol), "arax_std_%s", name);
	must_cu(cu.ModuleGetFunction(&function, p->module, symbol), symbol);
	return function;
}

void cu_peer_finish(struct cu_peer *p, int stream)
{
	must_cu(cu.StreamSynchronize(p->streams[stream]), "a stream");
}

void *cu_peer_pages(uint64_t bytes)
{
	void *pages;

	must_cu(cu.MemHostAlloc(&pages, bytes, CU_MEMHOSTALLOC_PORTABLE), "pinned memory");
	memset(pages, 0, bytes);
	return pages;
}

CUdeviceptr cu_peer_memory(uint64_t bytes)
{
	CUdeviceptr at;

	must_cu(cu.MemAlloc(&at, bytes), "device memory");
	return at;
}

void cu_peer_check(struct cu_peer *p, const char *what)
{
	int32_t result = *(volatile int32_t *)p->result;

	if (result)
		bench_fail("%s: a kernel says %d", what, result);
}
#else
/* A unit of nothing is none. */
typedef int no_cuda;
#endif
