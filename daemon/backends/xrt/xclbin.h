/* SPDX-License-Identifier: MIT */
/*
 * xclbin.h - what araxd reads of an .xclbin file itself
 *
 * XRT trusts the lengths and offsets in it, and tells of its kernels only once it is on
 * a device.  So the container is checked before XRT sees it, and a kernel's arguments,
 * compute units and banks are looked up here.
 *
 * Plain functions of bytes, without XRT's library.
 */
#ifndef ARAX_DAEMON_BACKENDS_XRT_XCLBIN_H
#define ARAX_DAEMON_BACKENDS_XRT_XCLBIN_H

#include <stddef.h>
#include <stdint.h>

#define XCLBIN_MAX_ARGS		72
#define XCLBIN_MAX_BANKS	64

/* XRT's addressQualifier. */
enum xclbin_space {
	XCLBIN_SCALAR	= 0,
	XCLBIN_GLOBAL	= 1,
	XCLBIN_CONSTANT	= 2,
	XCLBIN_LOCAL	= 3,
	XCLBIN_STREAM	= 4,
};

/**
 * struct xclbin_arg - an argument of a kernel
 * @size:	bytes in the kernel's registers
 * @type:	as the tools wrote it: "int*", "uint", "float"...
 */
struct xclbin_arg {
	uint32_t space;
	uint32_t size;
	char type[48];
};

/**
 * struct xclbin_kernel - a kernel
 * @units:	compute units
 * @banks:	bit for each bank of memory to which all of its arguments in memory are
 *		connected, on all units
 */
struct xclbin_kernel {
	uint32_t units;
	uint32_t nr_args;
	uint64_t banks;
	struct xclbin_arg args[XCLBIN_MAX_ARGS];
};

/**
 * struct xclbin - a checked file
 * @data, @bytes: the file; the caller's
 * @uuid:	inside it
 * @units:	compute units of all kernels
 */
struct xclbin {
	const uint8_t *data;
	size_t bytes;
	const uint8_t *uuid;
	uint32_t units;
};

/* -ENOEXEC: @why says what is wrong with it. */
int xclbin_parse(struct xclbin *x, const void *data, size_t bytes, char *why, size_t len);

/* -ENOENT: no such kernel; -ENOEXEC: it can't be understood.  @why says more. */
int xclbin_find(const struct xclbin *x, const char *name, struct xclbin_kernel *k, char *why,
		size_t len);

/* Of a bank; 0: it is not known. */
uint64_t xclbin_bank_bytes(const struct xclbin *x, uint32_t bank);

#endif /* ARAX_DAEMON_BACKENDS_XRT_XCLBIN_H */
