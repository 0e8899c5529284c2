// SPDX-License-Identifier: MIT
/*
 * Functions that put work onto a stream, for tests of the backends that call them: by OpenCL,
 * or by the driver in software that ARAX_TEST_STREAM_DRIVER names.
 *
 *	fn_fill		"fill(out i32 x[], i32 value, i32 mode, u32 n)"
 *
 * What ARAX_TEST_STREAM_OPEN says, if it is set, is why they can't work on any device.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <arax/stream.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "selftests/unit/stream_fn.h"

ARAX_KERNEL arax_stream_fn fn_fill;
ARAX_KERNEL arax_stream_open_fn arax_stream_open;
ARAX_KERNEL arax_stream_close_fn arax_stream_close;
ARAX_KERNEL int fn_states(void);

struct kept {
	void *stream;
	int32_t values[FN_MAX];		/* until the stream has read them */
};

static int states;

int fn_states(void)
{
	return __atomic_load_n(&states, __ATOMIC_ACQUIRE);
}

int arax_stream_open(const struct arax_stream *s, char *why, size_t len)
{
	const char *text = getenv("ARAX_TEST_STREAM_OPEN");

	if (s->size < sizeof(*s) || s->stream || s->state)
		return -EINVAL;
	if (!text)
		return 0;
	snprintf(why, len, "%s", text);
	return -ENOENT;
}

void arax_stream_close(const struct arax_stream *s)
{
	struct kept *k = *s->state;

	/* It is this stream's, and nobody else's. */
	if (k->stream != s->stream)
		abort();
	free(k);
	__atomic_fetch_sub(&states, 1, __ATOMIC_RELEASE);
}

static void *call_of(const char *library, const char *name)
{
	void *handle = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
	void *call = handle ? dlsym(handle, name) : NULL;

	if (!call)
		abort();
	return call;
}

/* As buffers do that nobody has put onto memory of his. */
static bool begins_as_buffers_do(const struct arax_stream *s, cl_mem mem)
{
	__typeof__(clGetMemObjectInfo) *mem_info = call_of("libOpenCL.so.1", "clGetMemObjectInfo");
	__typeof__(clGetDeviceInfo) *device_info = call_of("libOpenCL.so.1", "clGetDeviceInfo");
	cl_uint bits = 0;
	void *at;

	if (mem_info(mem, CL_MEM_HOST_PTR, sizeof(at), &at, NULL) ||
	    device_info(s->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(bits), &bits, NULL))
		abort();
	return !((uintptr_t)at % (bits / 8));
}

static int put(const struct arax_stream *s, struct kept *k, void *to, uint32_t n)
{
	const char *driver = getenv("ARAX_TEST_STREAM_DRIVER");
	const size_t bytes = n * sizeof(int32_t);

	if (s->kind == ARAX_STREAM_OPENCL) {
		__typeof__(clEnqueueFillBuffer) *fill = call_of("libOpenCL.so.1", "clEnqueueFillBuffer");

		if (!begins_as_buffers_do(s, to))
			return -EIO;
		return fill(s->stream, to, k->values, sizeof(int32_t), 0, bytes, 0, NULL, NULL);
	}
	if (s->kind == ARAX_STREAM_CUDA) {
		int (*copy)(unsigned long long to, const void *from, size_t bytes, void *stream) =
			(__typeof__(copy))call_of(driver, "cuMemcpyHtoDAsync_v2");

		return copy((uintptr_t)to, k->values, bytes, s->stream);
	}
	if (s->kind == ARAX_STREAM_HIP) {
		int (*copy)(void *to, void *from, size_t bytes, void *stream) =
			(__typeof__(copy))call_of(driver, "hipMemcpyHtoDAsync");

		return copy(to, k->values, bytes, s->stream);
	}
	abort();
}

int fn_fill(const struct arax_launch *l, const struct arax_stream *s)
{
	static const int codes[] = { [FN_FAILS] = -EIO, [FN_LOST] = -ENODEV, [FN_AGAIN] = -EAGAIN,
				     [FN_POSITIVE] = 7 };
	struct fn_args a;
	struct kept *k = *s->state;

	if (arax_launch_args(l, &a, sizeof(a)) || l->nr_ranges != 1 || a.n > FN_MAX ||
	    l->ranges[0].length / sizeof(int32_t) < a.n || l->ranges[0].count != 1 ||
	    !l->ranges[0].data != !l->ranges[0].length)
		return -EINVAL;
	if (a.mode == FN_OTHER)
		return -EOPNOTSUPP;
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return -ENOMEM;
		k->stream = s->stream;
		*s->state = k;
		__atomic_fetch_add(&states, 1, __ATOMIC_RELAXED);
	}
	/* Tests don't have two of different values under way. */
	for (uint32_t i = 0; i < FN_MAX && k->values[0] != a.value; i++)
		k->values[FN_MAX - 1 - i] = a.value;
	if (a.n && put(s, k, l->ranges[0].data, a.n))
		return -EIO;
	return codes[a.mode];
}
