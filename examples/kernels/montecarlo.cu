// SPDX-License-Identifier: MIT
/* montecarlo.c for GPUs, by CUDA and HIP: a block's threads take turns in its samples. */
#include <arax/gpu.h>

/* splitmix64 (Steele, Lea, Flood 2014): a counter-based generator. */
static __device__ uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

ARAX_GPU_KERNEL mc_pi(uint64_t *hits, uint64_t nhits, uint32_t samples, uint32_t seed,
		      arax_gpu_result result)
{
	__shared__ uint32_t all;
	const uint64_t g = arax_group();
	uint32_t n = 0;

	if (result.canceled())
		return;
	if (nhits < arax_groups()) {
		*result = -EINVAL;
		return;
	}
	if (!arax_item())
		all = 0;
	__syncthreads();
	for (uint64_t i = arax_item(); i < samples; i += arax_items()) {
		uint64_t r = mix64((uint64_t)seed << 48 ^ g << 32 ^ i);
		double x = (double)(r >> 32) / 4294967296.0;
		double y = (double)(uint32_t)r / 4294967296.0;

		n += x * x + y * y < 1.0;
	}
	atomicAdd(&all, n);
	__syncthreads();
	if (!arax_item())
		hits[g] = all;
}
