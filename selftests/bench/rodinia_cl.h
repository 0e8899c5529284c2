/* SPDX-License-Identifier: MIT */
/* OpenCL itself as the Rodinia programs' machine: what Arax is compared with. */
#ifndef BENCH_RODINIA_CL_H
#define BENCH_RODINIA_CL_H

#include "examples/rodinia/rodinia.h"

struct rodinia_cl;

/*
 * The first device, one in-order queue, buffers on host memory, the kernels of the OpenCL
 * source @path behind what araxd puts in front of every source.  NULL: @why says why not.
 */
struct rodinia_cl *rodinia_cl_open(const char *path, char *why, size_t len);
void rodinia_cl_close(struct rodinia_cl *c);
struct ro_machine *rodinia_cl_machine(struct rodinia_cl *c);
/* The device's name, and how many there are. */
const char *rodinia_cl_device(const struct rodinia_cl *c);
unsigned int rodinia_cl_devices(const struct rodinia_cl *c);

#endif
