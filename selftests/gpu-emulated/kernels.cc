// SPDX-License-Identifier: MIT
/*
 * The kernels of arax-std, arax-blas, systest and an example, from their CUDA C++ source, and some more
 * for tests, as functions of the CPU: a thread of a block is one of a team if the block has barriers, else a
 * turn of a loop.
 */
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "selftests/gpu-emulated/emulated.h"
#include "selftests/gpu-emulated/block.hh"

struct index3 {
	unsigned int x, y, z;
};

static thread_local index3 threadIdx, blockIdx, blockDim, gridDim;
static thread_local int trapped;

/*
 * Kernels that have it run one at a time, and so do their blocks: there is one of it.  A block
 * finds in it what another may have left, and nothing that is of use.  ASan looks at its ends,
 * which it doesn't in sections of other names.
 */
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static

static void spoil_shared()
{
}
#else
#define __shared__ static __attribute__((section("shared")))

extern "C" char __start_shared[], __stop_shared[];

static void spoil_shared()
{
	memset(__start_shared, 0xa5, __stop_shared - __start_shared);
}
#endif

#define __global__
#define __device__
#define __launch_bounds__(...)

/* A member's place is its own, also where they are one thread. */
static inline void __syncthreads()
{
	const index3 me = threadIdx;

	block_barrier();
	threadIdx = me;
}

static inline uint32_t atomicAdd(uint32_t *to, uint32_t n)
{
	return __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

#include "daemon/kernels/std/arax-std.cu"
#define ST_PAUSE() emulated_pause()
#include "selftests/system/kernels/systest.cu"
#include "examples/kernels/montecarlo.cu"

/* Apart, as it is for nvcc. */
namespace passes {
#include "daemon/kernels/std/passes.cu"
}
using namespace passes;
namespace blas {
#include "daemon/kernels/blas/arax-blas.cu"
}
using namespace blas;

/* ------------------------------------------------------------------ */
/* For tests                                                             */

ARAX_GPU_KERNEL test_add(const int32_t *a, uint64_t na, int32_t *b, uint64_t nb, int32_t by)
{
	ARAX_EACH(i, na < nb ? na : nb)
		b[i] = a[i] + by;
}

ARAX_GPU_KERNEL test_inc(int32_t *x, uint64_t n)
{
	ARAX_EACH(i, n)
		x[i]++;
}

ARAX_GPU_KERNEL test_sizes(const double *d, uint64_t nd, uint8_t *b, uint64_t nb, uint64_t *out,
			   uint64_t nout)
{
	out[0] = nd;
	out[1] = nb;
	out[2] = nout;
	out[3] = !b;
	(void)d;
}

ARAX_GPU_KERNEL test_plain(uint64_t *out, uint64_t n, int8_t a, uint64_t b, uint16_t c, double d)
{
	if (n < 4)
		return;
	out[0] = (uint64_t)a;
	out[1] = b;
	out[2] = c;
	out[3] = (uint64_t)d;
}

ARAX_GPU_KERNEL test_result(int32_t *x, uint64_t n, int32_t err, int32_t *result)
{
	if (n)
		x[0]++;
	if (err)
		*result = err;
}

/* Who comes behind it may begin before it has ended. */
ARAX_GPU_KERNEL test_order(int32_t *x, uint64_t n, int32_t err, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (n)
		x[0]++;
	if (err)
		*result = err;
}

ARAX_GPU_KERNEL test_twice(int32_t *x, uint64_t n, int32_t err, arax_gpu_result result)
{
	if (result.canceled())
		return;
	if (n)
		x[0]++;
	*result = err;
	*result = 0;
}

ARAX_GPU_KERNEL test_gate_order(int32_t *x, uint64_t n, int32_t err, arax_gpu_result result)
{
	if (result.canceled())
		return;
	emulated_wait_at_gate();
	if (n)
		x[0]++;
	if (err)
		*result = err;
}

ARAX_GPU_KERNEL test_groups(uint32_t *out, uint64_t n)
{
	uint64_t i = arax_item() + arax_items() * arax_group();

	if (i < n)
		out[i] = blockIdx.x * blockDim.x + threadIdx.x +
			 100 * (blockIdx.y * blockDim.y + threadIdx.y) +
			 10000 * (blockIdx.z * blockDim.z + threadIdx.z);
}

/* As a bad access would: the context is broken by @err, a number of the driver's. */
ARAX_GPU_KERNEL test_trap(int32_t *x, uint64_t n, int32_t err)
{
	if (n)
		x[0]++;
	trapped = err;
}

ARAX_GPU_KERNEL test_gate(int32_t *x, uint64_t n, int32_t err)
{
	emulated_wait_at_gate();
	if (n)
		x[0]++;
	trapped = err;
}

/* ------------------------------------------------------------------ */
/* Calling                                                               */

template <typename T> struct value {
	static T take(const uint64_t *v)
	{
		T t;

		memcpy(&t, v, sizeof(t));
		return t;
	}
};

template <typename T> struct value<T *> {
	static T *take(const uint64_t *v)
	{
		return (T *)emulated_translate(*v);
	}
};

template <> struct value<arax_gpu_result> {
	static arax_gpu_result take(const uint64_t *v)
	{
		arax_gpu_result r;

		memcpy(&r, v, sizeof(r));
		r.value = (int32_t *)emulated_translate((uint64_t)r.value);
		if (r.failed)
			r.failed = (uint32_t *)emulated_translate((uint64_t)r.failed);
		return r;
	}
};

/* Where parameter @i of these begins, in words. */
template <typename... A> constexpr size_t word_of(size_t i)
{
	const size_t sizes[] = { sizeof(A)... };
	size_t word = 0;

	for (size_t k = 0; k < i; k++)
		word += (sizes[k] + 7) / 8;
	return word;
}

struct kernel {
	const char *name;
	bool barriers;
	uint32_t nr;
	uint32_t sizes[32];
	int items[32];			/* bytes of what a pointer points to, negative if const; 0: it is none */
	void (*call)(const uint64_t *values);
};

template <typename T> constexpr int item_of(T **)
{
	return sizeof(T);
}

template <typename T> constexpr int item_of(const T **)
{
	return -(int)sizeof(T);
}

static constexpr int item_of(const void *)
{
	return 0;
}

template <auto F> struct caller;

template <typename... A, void (*F)(A...)> struct caller<F> {
	template <size_t... I> static void with(const uint64_t *v, std::index_sequence<I...>)
	{
		F(value<A>::take(v + word_of<A...>(I))...);
	}
	static void call(const uint64_t *v)
	{
		with(v, std::index_sequence_for<A...>());
	}
	static kernel describe(const char *name, bool barriers)
	{
		return kernel{ name, barriers, sizeof...(A), { (uint32_t)sizeof(A)... },
			       { item_of((A *)nullptr)... }, call };
	}
};

#define KERNEL(name, barriers) caller<name>::describe(#name, barriers)

static const kernel kernels[] = {
	KERNEL(arax_std_null, false), KERNEL(arax_std_vadd, false),
	KERNEL(arax_std_saxpy, false), KERNEL(arax_std_triad, false),
	KERNEL(arax_std_square, false), KERNEL(arax_std_sum_f32, true),
	KERNEL(arax_std_max_f32, true), KERNEL(arax_std_min_f32, true),
	KERNEL(arax_std_rgb_to_gray, false), KERNEL(arax_std_gray_to_u8, false),
	KERNEL(arax_std_blur, true), KERNEL(arax_std_sobel, false),
	KERNEL(arax_std_extend, false), KERNEL(arax_std_unsharpen, false),
	KERNEL(arax_std_combine, false),
	KERNEL(arax_std_sum_diff, true), KERNEL(arax_std_dot_f32, true),
	KERNEL(arax_std_divide, false), KERNEL(arax_std_black_scholes, false),
	KERNEL(arax_std_spmv, true), KERNEL(arax_std_matmul_i32, true),
	KERNEL(arax_std_matmul_f32, true), KERNEL(arax_std_row_max, true),
	KERNEL(arax_std_log_sum_exp, true), KERNEL(arax_std_exp_rows, false),
	KERNEL(arax_std_softmax, true), KERNEL(arax_std_zscore, true),
	KERNEL(arax_std_add_row, false), KERNEL(arax_std_argmax_sum, true),
	KERNEL(arax_std_conv_relu, true), KERNEL(arax_std_mean_pool, false),
	KERNEL(arax_std_concat, false),
	KERNEL(arax_std_sum_f64, true), KERNEL(arax_std_sum_parts_f32, true),
	KERNEL(arax_std_sum_parts_u32, true), KERNEL(arax_std_dot_parts_f32, true),
	KERNEL(arax_std_max_parts_f32, true), KERNEL(arax_std_min_parts_f32, true),
	KERNEL(arax_std_scan_u32, true), KERNEL(arax_std_scan_f32, true),
	KERNEL(arax_std_scan_parts_u32, true), KERNEL(arax_std_scan_parts_f32, true),
	KERNEL(arax_std_sort_u32, true), KERNEL(arax_std_sort_f32, true),
	KERNEL(arax_std_sort_pairs_u32, true), KERNEL(arax_std_histogram_u8, true),
	KERNEL(arax_std_histogram_f32, true), KERNEL(arax_std_transpose_f32, true),
	KERNEL(arax_std_stencil5_f32, false), KERNEL(arax_std_stencil7_f32, false),
	KERNEL(arax_std_distances_f32, true), KERNEL(arax_std_kmeans_assign, true),
	KERNEL(arax_std_kmeans_update, true), KERNEL(arax_std_conv2d_f32, true),
	KERNEL(arax_std_max_pool_f32, false), KERNEL(arax_std_avg_pool_f32, false),
	KERNEL(arax_std_fft_c32, true),
	KERNEL(arax_pass_sum_f32, true), KERNEL(arax_pass_sum_f64, true),
	KERNEL(arax_pass_dot_f32, true), KERNEL(arax_pass_sum_diff, true),
	KERNEL(arax_pass_greatest, true), KERNEL(arax_pass_sum_parts, true),
	KERNEL(arax_pass_greatest_parts, true), KERNEL(arax_pass_scan_sums_u32, true),
	KERNEL(arax_pass_scan_sums_f32, true), KERNEL(arax_pass_scan_u32, true),
	KERNEL(arax_pass_scan_f32, true), KERNEL(arax_pass_clear, false),
	KERNEL(arax_pass_count_u8, true), KERNEL(arax_pass_count_f32, true),
	KERNEL(arax_pass_mean_sums, true), KERNEL(arax_pass_means, true),
	KERNEL(arax_pass_sort_tile_u32, true), KERNEL(arax_pass_sort_tile_f32, true),
	KERNEL(arax_pass_sort_tile_pairs, true), KERNEL(arax_pass_sort_far_u32, false),
	KERNEL(arax_pass_sort_far_f32, false), KERNEL(arax_pass_sort_far_pairs, false),
	KERNEL(arax_blas_gemm_f32, true), KERNEL(arax_blas_gemm_f64, true),
	KERNEL(arax_blas_gemv_f32, true), KERNEL(arax_blas_gemv_f64, true),
	KERNEL(arax_blas_trsm_f64, true), KERNEL(arax_blas_syrk_f64, true),
	KERNEL(arax_blas_potrf_f64, true), KERNEL(arax_blas_getrf_nopiv_f64, true),
	KERNEL(st_add, false), KERNEL(st_fail, false), KERNEL(st_mix, false),
	KERNEL(st_mix_groups, false), KERNEL(mc_pi, true),
	KERNEL(test_add, false), KERNEL(test_inc, false),
	KERNEL(test_sizes, false), KERNEL(test_plain, false), KERNEL(test_result, false),
	KERNEL(test_order, false), KERNEL(test_gate_order, false),
	KERNEL(test_twice, false),
	KERNEL(test_groups, false), KERNEL(test_trap, false), KERNEL(test_gate, false),
};

#define NR_KERNELS (sizeof(kernels) / sizeof(kernels[0]))

extern "C" int emulated_find(const char *name)
{
	for (size_t i = 0; i < NR_KERNELS; i++)
		if (!strcmp(kernels[i].name, name))
			return (int)i;
	return -1;
}

/*
 * What chooses its blocks by what the driver says gets few, as each thread of a block with barriers
 * is one; those of other kernels are the tests' choice: Arax's own take the largest that there are.
 */
extern "C" int emulated_threads(int k)
{
	if (!strncmp(kernels[k].name, "arax_pass_", 10))
		return 8;
	return strncmp(kernels[k].name, "arax_", 5) ? 512 : 1024;
}

extern "C" uint32_t emulated_param(int k, uint32_t i)
{
	return i < kernels[k].nr ? kernels[k].sizes[i] : 0;
}

/* Ranges come first, a pointer and its items each. */
extern "C" bool emulated_range(int k, uint32_t i, const uint64_t *values, uint64_t *address,
			       uint64_t *bytes, bool *writes)
{
	int item = 2 * i + 1 < kernels[k].nr ? kernels[k].items[2 * i] : 0;

	*address = values[2 * i];
	*writes = item > 0;
	*bytes = values[2 * i + 1] * (uint64_t)(item > 0 ? item : -item);
	return item && kernels[k].sizes[2 * i + 1] == 8 && !kernels[k].items[2 * i + 1];
}

static void place(index3 *at, uint64_t i, const index3 &of)
{
	at->x = (unsigned int)(i % of.x);
	at->y = (unsigned int)(i / of.x % of.y);
	at->z = (unsigned int)(i / of.x / of.y);
}

/* A block's threads, one block after the other. */
static void run_team(const kernel &k, const uint64_t *values, uint64_t blocks, uint64_t threads)
{
	const index3 grid = gridDim, block = blockDim;

	block_run(threads, [&](uint64_t i) {
		gridDim = grid;
		blockDim = block;
		for (uint64_t b = 0; b < blocks; b++) {
			if (!i)
				spoil_shared();
			block_barrier();
			place(&threadIdx, i, block);
			place(&blockIdx, b, grid);
			k.call(values);
			/* The next block's shared memory is this one's. */
			block_barrier();
		}
	});
}

static void run_turns(const kernel &k, const uint64_t *values, uint64_t blocks, uint64_t threads)
{
	for (uint64_t b = 0; b < blocks; b++) {
		if (k.barriers)
			spoil_shared();
		place(&blockIdx, b, gridDim);
		for (uint64_t i = 0; i < threads; i++) {
			place(&threadIdx, i, blockDim);
			k.call(values);
		}
	}
}

extern "C" int emulated_invoke(int which, const uint32_t grid[3], const uint32_t block[3],
			       const uint64_t *values)
{
	static std::mutex shared;
	const kernel &k = kernels[which];
	uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
	std::unique_lock<std::mutex> lock(shared, std::defer_lock);

	gridDim = index3{ grid[0], grid[1], grid[2] };
	blockDim = index3{ block[0], block[1], block[2] };
	trapped = 0;
	if (k.barriers)
		lock.lock();
	if (k.barriers && threads > 1)
		run_team(k, values, blocks, threads);
	else
		run_turns(k, values, blocks, threads);
	return trapped;
}
