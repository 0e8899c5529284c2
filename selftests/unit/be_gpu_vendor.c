// SPDX-License-Identifier: MIT
/*
 * When vendors' libraries work on a GPU and when not, on a driver and with libraries in software:
 * emulated, not hardware.  What they compute is tested by be_gpu_std.
 */
#include <fcntl.h>

#include "daemon/kernels/blas/blas.h"
#include "selftests/unit/be_gpu_calls.h"

#define N	3	/* rows and columns */

static struct arax_backend_kernel desc;

static int load_vendor(void *dev, const char *file, const char *symbol, const char *signature,
		       void **kernel)
{
	desc = (struct arax_backend_kernel){
		.size = sizeof(desc), .flags = ARAX_KERNEL_STREAM, .symbol = symbol, .file = file,
		.signature = signature, .fd = open(file, O_RDONLY | O_CLOEXEC),
	};
	ck_assert_int_ge(desc.fd, 0);
	return ops->kernel_load(dev, &desc, kernel);
}

static int load_gemm(void *dev, void **kernel)
{
	return load_vendor(dev, which->kind == ARAX_DEVICE_CUDA ?
				"build/lib/arax/kernels/arax-blas-cublas.so" :
				"build/lib/arax/kernels/arax-blas-rocblas.so",
			   "arax_blas_vendor_gemm_f64",
			   "gemm_f64(in f64 a[], in f64 b[], inout f64 c[], f64 alpha, f64 beta, u32 m, u32 n, u32 k, u32 flags)",
			   kernel);
}

static int load_fft(void *dev, void **kernel)
{
	return load_vendor(dev, which->kind == ARAX_DEVICE_CUDA ?
				"build/lib/arax/kernels/arax-std-cufft.so" :
				"build/lib/arax/kernels/arax-std-hipfft.so",
			   "arax_std_vendor_fft_c32",
			   "fft_c32(in f32 x[], out f32 y[], out f32 work[], u32 n, u32 batch, u32 inverse)",
			   kernel);
}

/* c = 2 a a for a full of ones. */
static int multiply(void *dev, void *gemm, uint32_t lane)
{
	const struct blas_gemm args = { .alpha = 2, .m = N, .n = N, .k = N };
	const uint64_t bytes = N * N * sizeof(double);
	struct arax_launch_range r[3];
	double x[N * N];
	uint64_t at = take_memory(dev, 2048);
	int err;

	for (int i = 0; i < N * N; i++)
		x[i] = 1;
	ck_assert_int_eq(ops->copy_in(dev, lane, at, x, bytes), 0);
	r[0] = range(at, bytes);
	r[1] = r[0];
	r[2] = range(at + 1024, bytes);
	err = run(dev, gemm, lane, 1, 1, r, 3, &args, sizeof(args));
	if (!err)
		ck_assert_int_eq(ops->copy_out(dev, lane, x, at + 1024, bytes), 0);
	for (int i = 0; !err && i < N * N; i++)
		ck_assert_double_eq(x[i], 2 * N);
	ops->free(dev, at);
	return err;
}

/* A handle of a broken context is not ended by what would end the process with it. */
START_TEST(a_new_context)
{
	struct arax_launch_range r;
	void *dev, *gemm, *trap;

	setenv("EMULATED_FORGIVING", "1", 1);
	dev = open_gpu(_i, NULL);
	trap = load(dev, TRAP);
	ck_assert_msg(!load_gemm(dev, &gemm), "%s", take_log());
	for (uint32_t lane = 0; lane < 3; lane++)
		ck_assert_int_eq(multiply(dev, gemm, lane), 0);
	r = range(take_memory(dev, 4), 4);
	ck_assert_int_eq(run(dev, trap, 0, 1, 1, &r, 1, &bad, 4), -EFAULT);
	ck_assert_int_eq(ops->reset(dev), 0);
	for (uint32_t lane = 0; lane < 3; lane++)
		ck_assert_int_eq(multiply(dev, gemm, lane), 0);
	ops->kernel_unload(dev, gemm);
	ops->kernel_unload(dev, trap);
	close(desc.fd);
}
END_TEST

/*
 * A range of floats may begin in the middle of a library's complex number: such a launch it is not
 * given, as it would break the context, and everybody's memory with it.
 */
START_TEST(misaligned_numbers)
{
	static const struct { uint64_t x, y; int err; } cases[] = {
		{ 0, 0, 0 }, { 4, 0, -EOPNOTSUPP }, { 0, 4, -EOPNOTSUPP }, { 4, 4, -EOPNOTSUPP },
		{ 8, 8, 0 },
	};
	const struct { uint32_t n, batch, inverse; } args = { 4, 2, 0 };
	const uint64_t bytes = 2 * sizeof(float) * 4 * 2;
	void *dev = open_gpu(_i, NULL), *fft;
	uint64_t at = take_memory(dev, 4096);

	ck_assert_msg(!load_fft(dev, &fft), "%s", take_log());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arax_launch_range r[3] = { range(at + cases[i].x, bytes),
						  range(at + 1024 + cases[i].y, bytes),
						  range(at, 0) };

		ck_assert_int_eq(run(dev, fft, 0, 1, 1, r, 3, &args, sizeof(args)), cases[i].err);
	}
	ops->free(dev, at);
	ops->kernel_unload(dev, fft);
	close(desc.fd);
}
END_TEST

/* A transform of @batch times @n; x is y, as what comes out is no matter here. */
static int transform(void *dev, void *fft, uint64_t at, uint32_t n, uint32_t batch)
{
	const struct { uint32_t n, batch, inverse; } args = { n, batch, 0 };
	const uint64_t bytes = 2 * sizeof(float) * n * batch;
	struct arax_launch_range r[3] = { range(at, bytes), range(at, bytes), range(at, 0) };

	return run(dev, fft, 0, 1, 1, r, 3, &args, sizeof(args));
}

/*
 * What a library's plans work in is nobody's, and stays: so it is one area for all of a stream's plans,
 * and one transform that would take more of it is left to others.
 */
START_TEST(memory_of_plans)
{
	const uint64_t most = 80ull << 20;
	void *dev, *fft;
	uint64_t at;

	setenv("EMULATED_MEMORY", "400000000", 1);
	dev = open_gpu(_i, NULL);
	ck_assert_msg(!load_fft(dev, &fft), "%s", take_log());
	at = take_memory(dev, most);
	/* None, then some, more, and of other shapes again and again. */
	ck_assert_int_eq(transform(dev, fft, at, 8, 100), 0);
	ck_assert_uint_eq(emu_used(), most);
	ck_assert_int_eq(transform(dev, fft, at, 128, 2), 0);
	ck_assert_uint_eq(emu_used(), most + (1 << 20));
	for (uint32_t batch = 1; batch <= 20; batch++) {
		ck_assert_int_eq(transform(dev, fft, at, 128, batch), 0);
		ck_assert_int_eq(transform(dev, fft, at, 128, 21 - batch), 0);
	}
	ck_assert_uint_eq(emu_used(), most + (1 << 20));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(transform(dev, fft, at, 9 << 20, 1), -EOPNOTSUPP);
	ck_assert_uint_eq(emu_used(), most + (1 << 20));
	/* There is none. */
	emu_fail(EMULATED_ALLOC, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(transform(dev, fft, at, 128, 2000), -EOPNOTSUPP);
	ck_assert_int_eq(transform(dev, fft, at, 128, 2000), 0);
	ck_assert_uint_eq(emu_used(), most + (2 << 20));
	ops->kernel_unload(dev, fft);
	ck_assert_uint_eq(emu_used(), most);
	ops->free(dev, at);
	close(desc.fd);
}
END_TEST

#define LENGTH	80u

/* Of each an impulse, by number: all of what comes out is that. */
static void transform_impulses(void *dev, void *fft, uint32_t batch)
{
	const struct { uint32_t n, batch, inverse; } args = { LENGTH, batch, 0 };
	const uint64_t bytes = 2 * sizeof(float) * LENGTH * batch;
	uint64_t at = take_memory(dev, 2 * bytes);
	struct arax_launch_range r[3] = { range(at, bytes), range(at + bytes, bytes), range(at, 0) };
	float *x = calloc(1, bytes);

	for (uint64_t i = 0; i < batch; i++)
		x[2 * i * LENGTH] = (float)(i + 1);
	ck_assert_int_eq(ops->copy_in(dev, 0, at, x, bytes), 0);
	ck_assert_int_eq(run(dev, fft, 0, 1, 1, r, 3, &args, sizeof(args)), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, x, at + bytes, bytes), 0);
	for (uint64_t i = 0; i < (uint64_t)LENGTH * batch; i++) {
		ck_assert_float_eq_tol(x[2 * i], (float)(i / LENGTH + 1), 1e-3f);
		ck_assert_float_eq_tol(x[2 * i + 1], 0, 1e-3f);
	}
	free(x);
	ops->free(dev, at);
}

/* A batch that the area is too small for goes in parts, of which the last one may be smaller. */
START_TEST(batches_in_parts)
{
	static const uint32_t batches[] = {
		13, 1, 12, 7, 5, 6,
#ifndef __SANITIZE_THREAD__	/* the same for longer, and of that there are no two threads */
		209,
#endif
		13,
	};
	/* For a number: 64 MiB are enough for 104, 5 or one at once. */
	static const char *const work[] = { "8000", "157000", "700000" };
	void *dev, *fft;

	setenv("EMULATED_FFT_WORK", work[_i % 3], 1);
	setenv("EMULATED_MEMORY", "400000000", 1);
	dev = open_gpu(_i / 3, NULL);
	ck_assert_msg(!load_fft(dev, &fft), "%s", take_log());
	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		transform_impulses(dev, fft, batches[i]);
		ck_assert_uint_le(emu_used(), 64 << 20);
	}
	ops->kernel_unload(dev, fft);
	ck_assert_uint_eq(emu_used(), 0);
	close(desc.fd);
}
END_TEST

#ifdef GPU_HAS_HIP
#define HIP	(NR_GPUS - 1)

/* rocBLAS would end the process. */
START_TEST(no_kernels_for_it)
{
	void *dev, *gemm;

	setenv("EMULATED_ARCH", "gfx1035", 1);
	dev = open_gpu(HIP, NULL);
	ck_assert_int_eq(load_gemm(dev, &gemm), -EOPNOTSUPP);
	assert_logged("librocblas.so.4: rocBLAS has no kernels for gfx1035");
	close(desc.fd);
	/* Nor on the next device, with the library open by now. */
	ck_assert_int_eq(load_gemm(devs[1], &gemm), -EOPNOTSUPP);
	assert_logged("rocBLAS has no kernels for gfx1035");
	close(desc.fd);
}
END_TEST

/* Where rocBLAS is told to look it is looked for them as well. */
START_TEST(kernels_elsewhere)
{
	char path[512];
	void *dev, *gemm;

	setenv("ROCBLAS_TENSILE_LIBPATH", folder, 1);
	dev = open_gpu(HIP, NULL);
	ck_assert_int_eq(load_gemm(dev, &gemm), -EOPNOTSUPP);
	close(desc.fd);
	snprintf(path, sizeof(path), "%s/TensileLibrary_" EMULATED_GFX ".dat", folder);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	ck_assert_msg(!load_gemm(dev, &gemm), "%s", take_log());
	ck_assert_int_eq(multiply(dev, gemm, 0), 0);
	ops->kernel_unload(dev, gemm);
	close(desc.fd);
}
END_TEST

/* The backend's driver is another file than that which the library is linked with. */
START_TEST(another_rocm)
{
	char path[512], command[8192];
	void *dev, *gemm;

	snprintf(path, sizeof(path), "%s/libamdhip64.so.9", folder);
	snprintf(command, sizeof(command), "cp '%s' '%s'", emulated_path(&gpus[HIP]), path);
	ck_assert_int_eq(system(command), 0);
	nr_devs = probe(HIP, path, NULL);
	ck_assert_int_eq(nr_devs, 2);
	for (int i = 0; i < nr_devs; i++)
		ck_assert_int_eq(ops->open((uint32_t)i, &devs[i]), 0);
	dev = devs[0];
	ck_assert_int_eq(load_gemm(dev, &gemm), -ENOENT);
	assert_logged("librocblas.so.4: it is of another version of ROCm");
	close(desc.fd);
}
END_TEST
#endif

int main(void)
{
	Suite *s = suite_create("gpu_vendor");
	TCase *t = tcase_create("emulated");

	puts("# emulated, not hardware");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, close_gpu);
	tcase_add_loop_test(t, a_new_context, 0, NR_GPUS);
	tcase_add_loop_test(t, misaligned_numbers, 0, NR_GPUS);
	tcase_add_loop_test(t, memory_of_plans, 0, NR_GPUS);
	tcase_add_loop_test(t, batches_in_parts, 0, 3 * NR_GPUS);
#ifdef GPU_HAS_HIP
	tcase_add_test(t, no_kernels_for_it);
	tcase_add_test(t, kernels_elsewhere);
	tcase_add_test(t, another_rocm);
#endif
	suite_add_tcase(s, t);
	return be_main(s);
}
