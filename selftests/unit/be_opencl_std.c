// SPDX-License-Identifier: MIT
/* The kernels that come with Arax, on OpenCL: see be_cases.h. */
#include "selftests/unit/be_opencl.h"

#define KIND		ARAX_DEVICE_OPENCL
#define open_kind	open_opencl
#define BLOCK		16	/* PoCL compiles each kernel for each size of a work-group */
#define VENDORS		true

/* Without company: no barrier has two sides then. */
static const uint32_t odd_blocks[] = { 1 };

static const char *const variants[] = { "", "\"zero-copy=no\"" };

#include "selftests/unit/be_cases.h"

int main(void)
{
	return run_opencl(case_suite("opencl_std", 2, NULL));
}
