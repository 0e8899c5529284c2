// SPDX-License-Identifier: MIT
/* OpenCL itself: a device, a queue, a program. */
#ifdef HAVE_OPENCL
#include "cl_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	long n;

	if (f && !fseek(f, 0, SEEK_END)) {
		n = ftell(f);
		rewind(f);
		text = n < 0 ? NULL : calloc(1, (size_t)n + 1);
		if (text && fread(text, 1, (size_t)n, f) != (size_t)n) {
			free(text);
			text = NULL;
		}
	}
	if (f)
		fclose(f);
	return text;
}

/* The program again from its binary, as araxd has it out of its cache. */
static cl_int from_binary(struct cl_peer *p)
{
	unsigned char *data = NULL;
	cl_program program = NULL;
	cl_int err, status;
	size_t bytes = 0;

	err = cl.GetProgramInfo(p->program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, NULL);
	if (!err && bytes)
		data = malloc(bytes);
	/* A driver without binaries: araxd compiles the source each time, too. */
	if (err || !data)
		return err;
	err = cl.GetProgramInfo(p->program, CL_PROGRAM_BINARIES, sizeof(data), &data, NULL);
	if (!err)
		program = cl.CreateProgramWithBinary(p->context, 1, &p->device, &bytes,
						     (const unsigned char **)&data, &status, &err);
	free(data);
	if (!err)
		err = cl.BuildProgram(program, 1, &p->device, "", NULL, NULL);
	if (err) {
		if (program)
			cl.ReleaseProgram(program);
		return err;
	}
	cl.ReleaseProgram(p->program);
	p->program = program;
	return CL_SUCCESS;
}

/*
 * From source and from its binary a driver may make different machine code (PoCL: for one
 * size of work-groups, for any), of which either may be quicker: both ways have the same.
 */
static cl_int build(struct cl_peer *p, const char *text)
{
	const char *texts[] = { NULL, text };
	cl_device_type type = 0;
	cl_int err;

	cl.GetDeviceInfo(p->device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
	texts[0] = opencl_prelude(type & CL_DEVICE_TYPE_GPU);
	p->program = cl.CreateProgramWithSource(p->context, 2, texts, NULL, &err);
	if (!err)
		err = cl.BuildProgram(p->program, 1, &p->device, "-cl-kernel-arg-info", NULL, NULL);
	return err ? err : from_binary(p);
}

cl_int cl_peer_kernel(struct cl_peer *p, const char *name, bool has_result, cl_kernel *kernel)
{
	cl_uint args;
	cl_int err;

	*kernel = cl.CreateKernel(p->program, name, &err);
	if (err || !has_result)
		return err;
	err = cl.GetKernelInfo(*kernel, CL_KERNEL_NUM_ARGS, sizeof(args), &args, NULL);
	if (!err)
		err = cl.SetKernelArg(*kernel, args - 1, sizeof(p->result_mem), &p->result_mem);
	return err;
}

static cl_int start(struct cl_peer *p, const char *text)
{
	cl_platform_id platform;
	cl_int err = cl.GetPlatformIDs(1, &platform, NULL);

	if (!err)
		err = cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &p->device, &p->nr_devices);
	if (err)
		return err;
	cl.GetDeviceInfo(p->device, CL_DEVICE_NAME, sizeof(p->name) - 1, p->name, NULL);
	p->context = cl.CreateContext(NULL, 1, &p->device, NULL, NULL, &err);
	if (!err)
		p->queue = cl.CreateCommandQueue(p->context, p->device, 0, &err);
	if (!err)
		p->result_mem = cl.CreateBuffer(p->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
						sizeof(*p->result), p->result, &err);
	return err ? err : build(p, text);
}

int cl_peer_open(struct cl_peer *p, const char *path, char *why, size_t len)
{
	char *text = read_file(path);
	cl_int err;

	memset(p, 0, sizeof(*p));
	if (!text) {
		snprintf(why, len, "%s: %s", path, strerror(errno));
		return -1;
	}
	if (opencl_api_open(why, len)) {
		free(text);
		return -1;
	}
	p->result = aligned_alloc(128, 128);
	if (!p->result) {
		snprintf(why, len, "no memory");
		free(text);
		return -1;
	}
	*p->result = 0;
	err = start(p, text);
	free(text);
	if (!err)
		return 0;
	snprintf(why, len, "no OpenCL device: %s", opencl_error_name(err));
	cl_peer_close(p);
	return -1;
}

void cl_peer_close(struct cl_peer *p)
{
	if (p->program)
		cl.ReleaseProgram(p->program);
	if (p->result_mem)
		cl.ReleaseMemObject(p->result_mem);
	if (p->queue)
		cl.ReleaseCommandQueue(p->queue);
	if (p->context)
		cl.ReleaseContext(p->context);
	free(p->result);
	memset(p, 0, sizeof(*p));
}
#else
/* A unit of nothing is none. */
typedef int no_opencl;
#endif
