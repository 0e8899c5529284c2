// SPDX-License-Identifier: MIT
/* arax-std on OpenCL, see be_same.h. */
#include "selftests/unit/be_opencl.h"

#define KIND ARAX_DEVICE_OPENCL
#define open_kind(options) open_opencl(options)

static const char *const variants[] = { "", "\"zero-copy=no\"" };

#include "selftests/unit/be_same.h"

int main(void)
{
	return run_opencl(same_suite("opencl_std", 2, NULL));
}
