/* SPDX-License-Identifier: MIT */
/*
 * api.h - the XRT calls that are used, from a library opened at run time
 *
 * No call is linked: a machine without XRT runs the same araxd.
 */
#ifndef ARAX_DAEMON_BACKENDS_XRT_API_H
#define ARAX_DAEMON_BACKENDS_XRT_API_H

#include <stdbool.h>	/* the headers below count on it */
#include <stddef.h>
#include <stdint.h>

#include <xrt/xrt.h>
#include <xrt/xrt/xrt_bo.h>
#include <xrt/xrt/xrt_device.h>
#include <xrt/xrt/xrt_kernel.h>

#define XRT_CALLS(X) \
	X(DeviceOpen); X(DeviceClose); X(DeviceLoadXclbin); X(DeviceToXclDevice); \
	X(PLKernelOpen); X(KernelClose); X(KernelArgGroupId); \
	X(RunOpen); X(RunSetArg); X(RunStart); X(RunWait); X(RunClose); \
	X(BOAlloc); X(BOAllocUserPtr); X(BOSubAlloc); X(BOFree); X(BOSync); X(BOWrite); X(BORead)

struct xrt_api {
#define X(name) __typeof__(xrt##name) *name
	XRT_CALLS(X);
#undef X
	/* Of the driver's part, the "shim"; NULL where it has none such. */
	__typeof__(xclProbe) *probe;
	__typeof__(xclGetDeviceInfo2) *info;
};

/* All calls, once xrt_api_open() succeeded. */
extern struct xrt_api xrt;

/**
 * xrt_api_open - open XRT and the shim that it will use
 * @root:	the folder above lib; NULL: XILINX_XRT, /opt/xilinx/xrt or where the
 *		library was found
 * @emulation:	as of XCL_EMULATION_MODE; NULL: what is in the environment
 *
 * Once is enough, and the first time counts.  -ENOENT, -ENOEXEC: @why says what to do.
 */
int xrt_api_open(const char *root, const char *emulation, char *why, size_t len);
/* The kind of emulation, NULL: hardware. */
const char *xrt_emulation(void);
/* What was made for it; the libraries stay. */
void xrt_api_close(void);

/* The negative errno that XRT left, or -EIO. */
int xrt_errno(void);

#endif /* ARAX_DAEMON_BACKENDS_XRT_API_H */
