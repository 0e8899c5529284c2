/* SPDX-License-Identifier: MIT */
/*
 * arax/gpu.h - what the author of a GPU kernel includes
 *
 * One source in CUDA C++ for both kinds: nvcc makes PTX of it, hipcc a code object.
 *
 *	#include <arax/gpu.h>
 *
 *	ARAX_GPU_KERNEL scale(float *x, uint64_t x_items, float factor, uint32_t n,
 *			      arax_gpu_result result)
 *	{
 *		if (result.canceled())
 *			return;
 *		if (n > x_items) {
 *			*result = -EINVAL;
 *			return;
 *		}
 *		ARAX_EACH(i, n)
 *			x[i] *= factor;
 *	}
 *
 * The parameters are, in this order, for "scale(inout f32 x[], f32 factor, u32 n)":
 * for each range a pointer (const if it is `in`; NULL if it is empty) and a uint64_t,
 * the whole elements in it, which the client chose: check it; each plain argument as its
 * type; and last, if you want one, an arax_gpu_result: 0, or the negative errno that you
 * store.  A kernel that has one may be started before the tasks that it depends on have
 * ended, see below.  It may be an int32_t * instead, of a kernel that never is.
 * docs/kernels-reference.md has the rest.
 */
#ifndef ARAX_GPU_H
#define ARAX_GPU_H

#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif
#include <stdint.h>

/* The numbers of Linux, whatever the host compiler's <errno.h> would bring along. */
#ifndef EINVAL
#define EIO 5
#define EFAULT 14
#define EINVAL 22
#define EDOM 33
#define ERANGE 34
#define EOPNOTSUPP 95
#endif

/* By its name in the manifest. */
#define ARAX_GPU_KERNEL extern "C" __global__ void

/**
 * struct arax_gpu_result - a kernel's result, and whether it is to run at all
 *
 * A GPU takes the next launch while one runs, which spares what lies between the two.  So a task
 * is handed over before those have ended whose results it needs, if its kernel says by this
 * parameter that it looks whether they have failed:
 *
 *	if (result.canceled())
 *		return;
 *
 * first of all, by all threads: they get the same answer.  And whoever fails has those that come
 * behind it see that, by *result = -EINVAL, for instance, which any thread may do.
 *
 * @value:	host memory
 * @failed:	of the device, ARAX_GPU_RESULTS words; NULL: nobody will look
 * @number:	this launch's, not 0
 * @behind:	those of launches whose results it needs; 0: none
 */
#define ARAX_GPU_RESULTS	4u
#define ARAX_GPU_CANCELED	INT32_MIN	/* @value of one that did nothing */

struct arax_gpu_result {
	struct place {
		const arax_gpu_result *of;

		__device__ void operator=(int32_t err) const
		{
			/* What those behind it may have seen it does not take back. */
			if (!err)
				return;
			*of->value = err;
			of->fail();
		}
	};

	int32_t *value;
	uint32_t *failed;
	uint32_t number;
	uint32_t behind[3];

	__device__ place operator*() const
	{
		return place{ this };
	}
	__device__ void fail() const
	{
		if (failed)
			*(volatile uint32_t *)&failed[number % ARAX_GPU_RESULTS] = number;
	}
	static __device__ bool is_first()
	{
		return !(blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x | threadIdx.y |
			 threadIdx.z);
	}
	__device__ void cancel() const
	{
		*value = ARAX_GPU_CANCELED;
		fail();
	}
	__device__ bool canceled() const
	{
		for (int i = 0; i < 3; i++) {
			const volatile uint32_t *of = &failed[behind[i] % ARAX_GPU_RESULTS];

			if (behind[i] && *of == behind[i]) {
				if (is_first())
					cancel();
				return true;
			}
		}
		return false;
	}
};

/* Blocks of the grid, and which of them this is; through all dimensions. */
static __device__ inline uint64_t arax_groups(void)
{
	return (uint64_t)gridDim.x * gridDim.y * gridDim.z;
}

static __device__ inline uint64_t arax_group(void)
{
	return blockIdx.x + (uint64_t)gridDim.x * (blockIdx.y + (uint64_t)gridDim.y * blockIdx.z);
}

/* Threads of a block, and which of them this is. */
static __device__ inline uint64_t arax_items(void)
{
	return (uint64_t)blockDim.x * blockDim.y * blockDim.z;
}

static __device__ inline uint64_t arax_item(void)
{
	return threadIdx.x +
	       (uint64_t)blockDim.x * (threadIdx.y + (uint64_t)blockDim.y * threadIdx.z);
}

/* Where the share of block @group of @n items begins: as arax/kernel.h deals them. */
static __device__ inline uint64_t arax_share(uint64_t n, uint64_t group)
{
	uint64_t each = n / arax_groups(), more = n % arax_groups();

	return group * each + (group < more ? group : more);
}

/*
 * A loop over this thread's part of @n items, each of which is some thread's once,
 * whatever grid and block are.  Threads of a block take turns in its share, so that
 * neighbours read neighbouring memory.
 */
#define ARAX_EACH(i, n) \
	for (uint64_t i = arax_share((n), arax_group()) + arax_item(), \
	     arax_end_##i = arax_share((n), arax_group() + 1); \
	     i < arax_end_##i; i += arax_items())

#endif /* ARAX_GPU_H */
