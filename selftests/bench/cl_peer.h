/* SPDX-License-Identifier: MIT */
/*
 * OpenCL itself, as somebody would use it who has the device for himself: the peer of
 * what goes through araxd.  For files that are built with HAVE_OPENCL.
 */
#ifndef BENCH_CL_PEER_H
#define BENCH_CL_PEER_H

#include "daemon/backends/opencl/api.h"

/**
 * struct cl_peer - the first device
 * @queue:	in order
 * @result_mem:	on @result, for kernels that tell how they fared: 0, or a negative errno
 */
struct cl_peer {
	cl_device_id device;
	cl_uint nr_devices;
	char name[256];
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_int *result;
	cl_mem result_mem;
};

/* The kernels of the source @path behind what araxd puts in front.  -1: @why says why not. */
int cl_peer_open(struct cl_peer *p, const char *path, char *why, size_t len);
/* Of what was opened, as far as it was. */
void cl_peer_close(struct cl_peer *p);
/* With its result argument set, if it @has_result: that is its last one. */
cl_int cl_peer_kernel(struct cl_peer *p, const char *name, bool has_result, cl_kernel *kernel);

#endif
