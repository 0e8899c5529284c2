// SPDX-License-Identifier: MIT
/* Of systest.c's what is for GPUs, too; and mix.h's arithmetic, whose ranges are flat ones here. */
#include <arax/gpu.h>

ARAX_GPU_KERNEL st_add(uint32_t *x, uint64_t n, uint32_t value)
{
	ARAX_EACH(i, n)
		x[i] += value;
}

ARAX_GPU_KERNEL st_fail(uint32_t *x, uint64_t n, uint32_t value, arax_gpu_result result)
{
	if (result.canceled())
		return;
	*result = -(int32_t)value;
}

#define MIX_FAILS (1u << 24)	/* as in mix.h */

/* Of a driver in software: what has been read may be written much later. */
#ifndef ST_PAUSE
#define ST_PAUSE()
#endif

static __device__ inline uint64_t st_hash(uint64_t hash, const uint8_t *p, uint64_t n)
{
	for (uint64_t k = 0; k < n; k++)
		hash = (hash ^ p[k]) * 1099511628211ull;
	return hash;
}

/* By one thread: each byte depends on those before it. */
ARAX_GPU_KERNEL st_mix(const uint8_t *a, uint64_t na, uint8_t *b, uint64_t nb, uint8_t *c,
		       uint64_t nc, uint32_t salt, arax_gpu_result result)
{
	uint64_t hash;

	if (result.canceled() || arax_group() || arax_item())
		return;
	hash = st_hash(st_hash(14695981039346656037ull + salt, a, na), b, nb);
	ST_PAUSE();
	for (uint64_t k = 0; k < nb; k++)
		if (hash >> k % 61 & 1)
			b[k] = (uint8_t)(3 * b[k] + (hash >> k % 8));
	for (uint64_t k = 0; k < nc; k++)
		c[k] = (uint8_t)((hash >> k % 56) + k);
	if (salt & MIX_FAILS)
		*result = -EIO;
}

ARAX_GPU_KERNEL st_mix_groups(uint8_t *x, uint64_t n, uint32_t salt, arax_gpu_result result)
{
	uint64_t end = n * (arax_group() + 1) / arax_groups();

	if (result.canceled())
		return;
	for (uint64_t k = n * arax_group() / arax_groups() + arax_item(); k < end; k += arax_items())
		x[k] = (uint8_t)(5 * x[k] + salt + k);
	if (salt & MIX_FAILS)
		*result = -EIO;
}
