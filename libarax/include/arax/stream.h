/* SPDX-License-Identifier: MIT */
/*
 * arax/stream.h - what the author of a function that calls a vendor's library includes
 *
 * Libraries such as cuBLAS or CLBlast are called by the host and put their kernels onto a
 * device's stream.  An implementation with "entry": "host" in its manifest is a function
 * that does so:
 *
 *	#include <arax/stream.h>
 *
 *	ARAX_KERNEL int scale_cublas(const struct arax_launch *l, const struct arax_stream *s)
 *	{
 *		struct { float factor; uint32_t n; } a;
 *		float *x;
 *
 *		if (arax_launch_args(l, &a, sizeof(a)) || a.n > INT32_MAX)
 *			return -EINVAL;
 *		x = ARAX_ITEMS(l, 0, a.n, float);
 *		if (!x)
 *			return -EINVAL;
 *		return call_cublas(s, (int)a.n, a.factor, x);
 *	}
 *
 * It belongs to a shared object, runs in araxd (or in the process that has the device), on the
 * thread of one of the device's lanes, and is for kernels with "addressing": "launch" alone.
 *
 * RULES, beside those of arax/kernel.h
 *
 *   - A range's @data is no address of the host: on CUDA and HIP devices it is the device's, on
 *     OpenCL ones a cl_mem that begins with the range; NULL if the range is empty.
 *     Lengths are in @length as ever, and are the client's choice.  Ranges are flat, lie in
 *     this device's memory and are aligned to their type: araxd has checked that.
 *   - Put everything onto @stream, or have @stream wait for it.  Don't wait for it yourself, but
 *     for what a library can't do without.
 *   - Return 0, or a negative errno, which becomes the task's result.  -EOPNOTSUPP, with
 *     nothing put onto the stream: not for this launch, and the kernel's next implementation
 *     of this kind has it, if there is one; else the task goes to another device, if one
 *     has the kernel.  -ENODEV becomes -EIO: what became of the device its backend sees by
 *     itself.  So does -EAGAIN: a launch that may be on the stream is not begun once more.
 *   - On CUDA and HIP devices the context is current; leave it so, and the stream alone.
 *
 * THREADS	For one stream one call at a time; for several at once.
 *
 * This ABI only grows: struct arax_stream by fields at its end.
 */
#ifndef ARAX_STREAM_H
#define ARAX_STREAM_H

#include <arax/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of arax_stream.kind, as in arax/uapi.h. */
#define ARAX_STREAM_OPENCL	1
#define ARAX_STREAM_CUDA	2
#define ARAX_STREAM_HIP		3

/**
 * struct arax_stream - where a launch goes
 * @size:	of this struct as the caller knows it
 * @kind:	ARAX_STREAM_*
 * @device:	cl_device_id; or the device's number, as CUdevice or hipDevice_t, in a pointer
 * @context:	cl_context, CUcontext; NULL on HIP devices
 * @stream:	cl_command_queue (in order), CUstream, hipStream_t
 * @state:	of this file on this stream: NULL at first; what the file keeps there, such as a
 *		library's handle, is given to its arax_stream_close()
 * @driver:	what dlopen() gave for the vendor's driver, whose @stream and @context are; NULL on
 *		OpenCL devices.  A library that comes with a driver of its own must not be used.
 * @arch:	for whom code is compiled, as "gfx90a" or "9.0"; NULL on OpenCL devices
 * @result:	the struct arax_gpu_result (arax/gpu.h) of this launch, for kernels of the file's own
 *		that it puts onto @stream; NULL on OpenCL devices.  See arax_stream_behind.  An araxd
 *		whose @size does not reach so far has none
 */
struct arax_stream {
	uint32_t size;
	uint32_t kind;
	void *device;
	void *context;
	void *stream;
	void **state;
	void *driver;
	const char *arch;
	const void *result;
};

/* The type of such a function. */
typedef int arax_stream_fn(const struct arax_launch *launch, const struct arax_stream *stream);

/*
 * A file may have these, by their names.
 *
 * arax_stream_open(): whether its functions can work on the device, asked once for each of them
 * there (@stream and @state are NULL).  0, or a negative errno with the reason in @why, of @len
 * bytes: then the next implementation is taken.  Here is where a library is opened.
 *
 * arax_stream_close(): a stream goes, or the device's context, which may be broken: nothing runs
 * on it.  Called if *@state is not NULL, which it is afterwards.
 */
typedef int arax_stream_open_fn(const struct arax_stream *stream, char *why, size_t len);
typedef void arax_stream_close_fn(const struct arax_stream *stream);
/*
 * arax_stream_behind = 1: all that its functions put onto the stream are kernels that get @result and
 * look whether they are to run, and of these there is at least one if they return 0.  So they are called
 * before the launches have ended whose results they need.  Kernels that have been put there do not fail.
 */
extern const uint32_t arax_stream_behind;

#ifdef __cplusplus
}
#endif

#endif /* ARAX_STREAM_H */
