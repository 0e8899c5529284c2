// SPDX-License-Identifier: MIT
/* Kernels for be_gpu_hardware.c: what a real GPU computes, and how it fails. */
#include "arax/gpu.h"

ARAX_GPU_KERNEL test_add(const int32_t *a, uint64_t na, int32_t *b, uint64_t nb, int32_t by)
{
	ARAX_EACH(i, na < nb ? na : nb)
		b[i] = a[i] + by;
}

ARAX_GPU_KERNEL test_result(int32_t *x, uint64_t n, int32_t err, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (n && !arax_group() && !arax_item()) {
		x[0]++;
		*result = err;
	}
}

ARAX_GPU_KERNEL test_plain(uint64_t *out, uint64_t n, int8_t a, uint64_t b, uint16_t c, double d,
			   float e)
{
	if (n < 5 || arax_group() || arax_item())
		return;
	out[0] = (uint64_t)a;
	out[1] = b;
	out[2] = c;
	out[3] = (uint64_t)d;
	out[4] = (uint64_t)e;
}

ARAX_GPU_KERNEL test_groups(uint32_t *out, uint64_t n)
{
	uint64_t i = arax_item() + arax_items() * arax_group();

	if (i < n)
		out[i] = blockIdx.x * blockDim.x + threadIdx.x +
			 100 * (blockIdx.y * blockDim.y + threadIdx.y) +
			 10000 * (blockIdx.z * blockDim.z + threadIdx.z);
}

/* AMD's ticks 100 times in a microsecond, or less often: then more passes than is said. */
static __device__ uint64_t clock_ns(void)
{
#ifdef __HIP_PLATFORM_AMD__
	return __builtin_amdgcn_s_memrealtime() * 10;
#else
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
#endif
}

/* For at least @ns by the device's clock; then counts. */
ARAX_GPU_KERNEL test_spin(int32_t *x, uint64_t n, uint64_t ns)
{
	uint64_t began = clock_ns();

	while (clock_ns() - began < ns)
		;
	if (n)
		x[0]++;
}

/* How to fail: 1 writes where nothing is, 2 not to an aligned address, 3 traps; 0 doesn't. */
ARAX_GPU_KERNEL test_fail(int32_t *x, uint64_t n, uint32_t how)
{
	if (!n)
		return;
	if (how == 1)
		*(volatile int32_t *)(uintptr_t)0xdead0000 = 1;
	if (how == 2)
		*(volatile int32_t *)((char *)x + 1) = 1;
	if (how == 3)
#ifdef __HIP_PLATFORM_AMD__
		__builtin_trap();
#else
		asm volatile("trap;");
#endif
	x[0]++;
}
