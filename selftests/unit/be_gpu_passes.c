// SPDX-License-Identifier: MIT
/*
 * Kernels of our own in several passes (daemon/kernels/std/passes.c), on a GPU driver in software:
 * emulated, not hardware.  What they compute at usual lengths is tested by be_gpu_std.
 */
#include <fcntl.h>

#include "selftests/unit/be_gpu_calls.h"

#define SCRATCH	(256u << 10)	/* at first */
#define NO_BINARY	209	/* for this device, of CUDA's errors and HIP's */

static int passes_fd;
static void *kernel;

static const char *file_of(int which_gpu)
{
	return gpus[which_gpu].kind == ARAX_DEVICE_CUDA ?
	       "build/lib/arax/kernels/arax-std-passes-cuda.so" :
	       "build/lib/arax/kernels/arax-std-passes-hip.so";
}

static void load_passes(void *dev, const char *symbol, const char *signature)
{
	const char *file = file_of((int)(which - gpus));
	struct arax_backend_kernel desc = {
		.size = sizeof(desc), .flags = ARAX_KERNEL_STREAM, .symbol = symbol, .file = file,
		.signature = signature, .fd = open(file, O_RDONLY | O_CLOEXEC),
	};

	ck_assert_int_ge(desc.fd, 0);
	passes_fd = desc.fd;
	ck_assert_msg(!ops->kernel_load(dev, &desc, &kernel), "%s", take_log());
}

static void unload_passes(void *dev)
{
	ops->kernel_unload(dev, kernel);
	close(passes_fd);
}

#define SUM_F32		"arax_std_passes_sum_f32", "sum_f32(in f32 x[], out f64 sum[], u32 n)"
#define SUM_F64		"arax_std_passes_sum_f64", "sum_f64(in f64 x[], out f64 sum[], u32 n)"
#define DOT_F32		"arax_std_passes_dot_f32", "dot_f32(in f32 x[], in f32 y[], out f64 dot[], u32 n)"
#define MAX_F32		"arax_std_passes_max_f32", "max_f32(in f32 x[], out f32 max[], u32 n)"
#define SCAN_F32	"arax_std_passes_scan_f32", "scan_f32(in f32 x[], out f32 y[], u32 n, u32 exclusive)"
#define COUNT_U8	"arax_std_passes_histogram_u8", "histogram_u8(in u8 x[], out u32 bin[], u32 n)"
#define COUNT_F32	"arax_std_passes_histogram_f32", \
			"histogram_f32(in f32 x[], out u32 bin[], f32 low, f32 high, u32 n, u32 bins)"
#define MEANS		"arax_std_passes_kmeans_update", \
			"kmeans_update(in f32 x[], in u32 label[], inout f32 center[], u32 n, u32 dims, u32 k)"
#define SORT_U32	"arax_std_passes_sort_u32", "sort_u32(inout u32 key[], u32 n)"
#define SORT_F32	"arax_std_passes_sort_f32", "sort_f32(inout f32 key[], u32 n)"
#define SORT_PAIRS	"arax_std_passes_sort_pairs_u32", \
			"sort_pairs_u32(inout u32 key[], inout u32 value[], u32 n)"

/* Exact sums: small whole numbers. */
static float item(uint64_t i)
{
	return (float)(i % 17);
}

static double sum_to(uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += (double)item(i);
	return sum;
}

/* The sum of @n floats, which are at @at; its result is in front of them. */
static int sum_at(void *dev, uint32_t lane, uint64_t at, uint32_t n, double *sum)
{
	struct arax_launch_range r[2] = { range(at + 16, 4ull * n), range(at, 8) };
	int err;

	*sum = -1;
	ck_assert_int_eq(ops->copy_in(dev, lane, at, sum, 8), 0);
	err = run(dev, kernel, lane, 1, 1, r, 2, &n, 4);
	ck_assert_int_eq(ops->copy_out(dev, lane, sum, at, 8), 0);
	return err;
}

static uint64_t items_at(void *dev, uint32_t n)
{
	float *x = malloc(4ull * n);
	uint64_t at = take_memory(dev, 16 + 4ull * n);

	for (uint32_t i = 0; i < n; i++)
		x[i] = item(i);
	ck_assert_int_eq(ops->copy_in(dev, 0, at + 16, x, 4ull * n), 0);
	free(x);
	return at;
}

/* Short ones are for one block; and what a longer one left in scratch memory is no matter. */
START_TEST(short_and_long)
{
	static const uint32_t lengths[] = { 192, 50000, 193, 1000, 50000 };
	void *dev = open_gpu(_i, NULL);
	uint64_t at = items_at(dev, 50000);
	double sum;

	load_passes(dev, SUM_F32);
	ck_assert_int_eq(sum_at(dev, 0, at, 0, &sum), -EOPNOTSUPP);
	ck_assert_int_eq(sum_at(dev, 0, at, 191, &sum), -EOPNOTSUPP);
	ck_assert_double_eq(sum, -1);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		ck_assert_int_eq(sum_at(dev, 0, at, lengths[i], &sum), 0);
		ck_assert_double_eq(sum, sum_to(lengths[i]));
	}
	ops->free(dev, at);
	unload_passes(dev);
}
END_TEST

/* Of numbers that are rounded when they are added up. */
START_TEST(the_same_each_time)
{
	void *dev = open_gpu(_i, NULL);
	const uint32_t n = 70001;
	uint64_t at = take_memory(dev, 16 + 4ull * n);
	double *x = malloc(8ull * n), first, again;

	for (uint32_t i = 0; i < n; i++)
		((float *)x)[i] = 1 / (float)(i + 1);
	ck_assert_int_eq(ops->copy_in(dev, 0, at + 16, x, 4ull * n), 0);
	load_passes(dev, SUM_F32);
	ck_assert_int_eq(sum_at(dev, 0, at, n, &first), 0);
	for (uint32_t lane = 0; lane < 3; lane++) {
		ck_assert_int_eq(sum_at(dev, lane, at, n, &again), 0);
		ck_assert_double_eq(again, first);
	}
	free(x);
	ops->free(dev, at);
	unload_passes(dev);
}
END_TEST

/* Ranges begin at any item: what is loaded 16 bytes at once has to be aligned to these. */
START_TEST(any_alignment)
{
	void *dev = open_gpu(_i, NULL);
	const uint32_t n = 3001;
	uint64_t at = items_at(dev, 2 * n);
	double wanted = 0, got;

	load_passes(dev, DOT_F32);
	for (uint32_t x = 0; x < 5; x++)
		for (uint32_t y = 0; y < 5; y++) {
			struct arax_launch_range r[3] = { range(at + 16 + 4 * x, 4 * n),
							  range(at + 16 + 4 * y, 4 * n),
							  range(at, 8) };

			wanted = 0;
			for (uint32_t i = 0; i < n; i++)
				wanted += (double)(item(i + x) * item(i + y));
			ck_assert_int_eq(run(dev, kernel, 0, 7, 1, r, 3, &n, 4), 0);
			ck_assert_int_eq(ops->copy_out(dev, 0, &got, at, 8), 0);
			ck_assert_double_eq(got, wanted);
		}
	unload_passes(dev);
	ops->free(dev, at);
}
END_TEST

START_TEST(any_alignment_of_f64)
{
	void *dev = open_gpu(_i, NULL);
	const uint32_t n = 3001;
	uint64_t at = take_memory(dev, 8 * (n + 4));
	double *x = malloc(8 * (n + 2)), got;

	for (uint32_t i = 0; i < n + 2; i++)
		x[i] = (double)item(i);
	ck_assert_int_eq(ops->copy_in(dev, 0, at + 16, x, 8 * (n + 2)), 0);
	load_passes(dev, SUM_F64);
	for (uint32_t from = 0; from < 3; from++) {
		struct arax_launch_range r[2] = { range(at + 16 + 8 * from, 8 * n), range(at, 8) };

		ck_assert_int_eq(run(dev, kernel, 0, 7, 1, r, 2, &n, 4), 0);
		ck_assert_int_eq(ops->copy_out(dev, 0, &got, at, 8), 0);
		ck_assert_double_eq(got, sum_to(n + from) - sum_to(from));
	}
	unload_passes(dev);
	free(x);
	ops->free(dev, at);
}
END_TEST

START_TEST(any_alignment_of_bytes)
{
	void *dev = open_gpu(_i, NULL);
	const uint32_t most = 5000;
	uint64_t at = take_memory(dev, most + 1024);
	uint32_t got[256], wanted[256];
	uint8_t *x = malloc(most);

	for (uint32_t i = 0; i < most; i++)
		x[i] = (uint8_t)(i * i / 7);
	ck_assert_int_eq(ops->copy_in(dev, 0, at + 1024, x, most), 0);
	load_passes(dev, COUNT_U8);
	for (uint32_t from = 0; from < 18; from++) {
		const uint32_t n = most - 100 - from * from;
		struct arax_launch_range r[2] = { range(at + 1024 + from, n), range(at, 1024) };

		memset(wanted, 0, sizeof(wanted));
		for (uint32_t i = 0; i < n; i++)
			wanted[x[from + i]]++;
		ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 2, &n, 4), 0);
		ck_assert_int_eq(ops->copy_out(dev, 0, got, at, 1024), 0);
		ck_assert_mem_eq(got, wanted, sizeof(got));
	}
	unload_passes(dev);
	free(x);
	ops->free(dev, at);
}
END_TEST

/* A NaN is none of the greatest, whoever of the passes meets it; of these alone it is -infinity. */
START_TEST(no_number)
{
	void *dev = open_gpu(_i, NULL);
	const uint32_t n = 9001;
	uint64_t at = take_memory(dev, 16 + 4 * n);
	struct arax_launch_range r[2] = { range(at + 16, 4 * n), range(at, 4) };
	float *x = malloc(4 * n), got;

	load_passes(dev, MAX_F32);
	for (int one = 0; one < 2; one++) {
		for (uint32_t i = 0; i < n; i++)
			x[i] = NAN;
		x[n / 2] = one ? -3 : NAN;
		ck_assert_int_eq(ops->copy_in(dev, 0, at + 16, x, 4 * n), 0);
		ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 2, &n, 4), 0);
		ck_assert_int_eq(ops->copy_out(dev, 0, &got, at, 4), 0);
		ck_assert(got == (one ? -3 : -INFINITY));
	}
	unload_passes(dev);
	free(x);
	ops->free(dev, at);
}
END_TEST

/* In place: a tile is read before it is written, and sums of parts before all. */
START_TEST(scan_in_place)
{
	const struct { uint32_t n, exclusive; } args = { 60001, 1 };
	void *dev = open_gpu(_i, NULL);
	uint64_t at = items_at(dev, args.n);
	struct arax_launch_range r[2] = { range(at + 16, 4 * args.n), range(at + 16, 4 * args.n) };
	float *y = malloc(4 * args.n);
	double sum = 0;

	load_passes(dev, SCAN_F32);
	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 2, &args, sizeof(args)), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, y, at + 16, 4 * args.n), 0);
	for (uint32_t i = 0; i < args.n; i++) {
		ck_assert_double_eq((double)y[i], sum);
		sum += (double)item(i);
	}
	unload_passes(dev);
	free(y);
	ops->free(dev, at);
}
END_TEST

/* More than a block has room for: by several, each of its own bins. */
START_TEST(many_bins)
{
	const struct { float low, high; uint32_t n, bins; } args = { 0, 65536, 40000, 65536 };
	void *dev = open_gpu(_i, NULL);
	const uint64_t bytes = 4ull * args.bins;
	uint64_t at = take_memory(dev, bytes + 4 * args.n);
	struct arax_launch_range r[2] = { range(at + bytes, 4 * args.n), range(at, bytes) };
	uint32_t *got = malloc(bytes), *wanted = calloc(args.bins, 4);
	float *x = malloc(4 * args.n);

	for (uint32_t i = 0; i < args.n; i++) {
		uint32_t bin = i % 3 ? (i * 40503u) % args.bins : 65535;

		x[i] = (float)bin;
		wanted[bin]++;
	}
	memset(got, 0xff, bytes);
	ck_assert_int_eq(ops->copy_in(dev, 0, at, got, bytes), 0);
	ck_assert_int_eq(ops->copy_in(dev, 0, at + bytes, x, 4 * args.n), 0);
	load_passes(dev, COUNT_F32);
	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 2, &args, sizeof(args)), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, got, at, bytes), 0);
	ck_assert_mem_eq(got, wanted, bytes);
	unload_passes(dev);
	free(x);
	free(got);
	free(wanted);
	ops->free(dev, at);
}
END_TEST

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* So long that steps between far items take several launches a merge, and no power of two. */
static void sort_long(void *dev, uint32_t n, bool pairs)
{
	const uint64_t bytes = 4ull * n;
	uint64_t at = take_memory(dev, 2 * bytes), seed = 1;
	struct arax_launch_range r[2] = { range(at, bytes), range(at + bytes, bytes) };
	uint32_t *key = malloc(2 * bytes), *value = key + n;
	uint64_t *wanted = malloc(8ull * n);

	/* Of keys there are equal ones. */
	for (uint32_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		key[i] = (uint32_t)(seed >> 40);
		value[i] = (uint32_t)(seed >> 20);
		wanted[i] = pairs ? (uint64_t)key[i] << 32 | value[i] : key[i];
	}
	ck_assert_int_eq(ops->copy_in(dev, 0, at, key, 2 * bytes), 0);
	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, pairs ? 2 : 1, &n, 4), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, key, at, 2 * bytes), 0);
	qsort(wanted, n, 8, by_number);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(pairs ? (uint64_t)key[i] << 32 | value[i] : key[i], wanted[i]);
	free(wanted);
	free(key);
	ops->free(dev, at);
}

START_TEST(long_sorts)
{
	void *dev = open_gpu(_i, NULL);

	load_passes(dev, SORT_U32);
	sort_long(dev, 140001, false);
	unload_passes(dev);
	/* Numbers above 0 are in the order of their bits. */
	load_passes(dev, SORT_F32);
	sort_long(dev, 70001, false);
	unload_passes(dev);
	load_passes(dev, SORT_PAIRS);
	sort_long(dev, 70001, true);
	unload_passes(dev);
}
END_TEST

/* It is bounded, stays, and is the kernel's: what can't have it is left to others. */
START_TEST(scratch_memory)
{
	struct { uint32_t n, dims, k; } args = { 4096, 32, 200 };
	const uint64_t most = 16 << 20;
	struct arax_launch_range r[3];
	void *dev = open_gpu(_i, NULL);
	uint64_t at = take_memory(dev, most);
	double sum;

	load_passes(dev, SUM_F32);
	emu_fail(EMULATED_ALLOC, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(sum_at(dev, 0, at, 50000, &sum), -EOPNOTSUPP);
	ck_assert_double_eq(sum, -1);
	ck_assert_uint_eq(emu_used(), most);
	for (int again = 0; again < 3; again++)
		ck_assert_int_eq(sum_at(dev, 0, at, 50000, &sum), 0);
	ck_assert_uint_eq(emu_used(), most + SCRATCH);
	ck_assert_int_eq(sum_at(dev, 1, at, 50000, &sum), 0);
	ck_assert_uint_eq(emu_used(), most + 2 * SCRATCH);
	unload_passes(dev);
	ck_assert_uint_eq(emu_used(), most);
	load_passes(dev, MEANS);
	r[0] = range(at, 4ull * args.n * args.dims);
	r[1] = range(at, 4ull * args.n);
	r[2] = range(at + (8 << 20), 8 << 20);
	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 3, &args, sizeof(args)), 0);
	ck_assert_uint_eq(emu_used(), most + SCRATCH);
	/* It grows. */
	args.dims = 1;
	args.k = 25000;
	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 3, &args, sizeof(args)), 0);
	ck_assert_uint_eq(emu_used(), most + 2 * SCRATCH);
	unload_passes(dev);
	ck_assert_uint_eq(emu_used(), most);
	ops->free(dev, at);
}
END_TEST

static void *open_gate(void *arg)
{
	(void)arg;
	wait_for_kernels(1);
	usleep(20000);
	emu_gate(1);
	return NULL;
}

/* It grows while launches are on their way that have it. */
START_TEST(scratch_in_use)
{
	const struct { uint32_t n, dims, k; } small = { 1000, 1, 10 }, large = { 1000, 1, 25000 };
	const uint64_t bytes = 4ull * large.k;
	void *dev = open_gpu(_i, NULL), *gate = load(dev, GATE);
	uint64_t at = take_memory(dev, bytes);
	struct arax_launch_range r[3] = { range(at, 4000), range(at, 4000), range(at, bytes) };
	pthread_t thread;
	struct job j[3];

	load_passes(dev, MEANS);
	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 3, &small, sizeof(small)), 0);
	emu_gate(0);
	ck_assert_int_eq(pthread_create(&thread, NULL, open_gate, NULL), 0);
	fill(&j[0], gate, 0, 1, 1, r, 1, &fine, 4);
	fill(&j[1], kernel, 0, 1, 1, r, 3, &small, sizeof(small));
	fill(&j[2], kernel, 0, 1, 1, r, 3, &large, sizeof(large));
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_int_eq(ops->submit(dev, &j[i].run, i), 0);
	for (uint64_t i = 0; i < 3; i++) {
		struct arax_backend_done done;

		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, 0);
	}
	pthread_join(thread, NULL);
	unload_passes(dev);
	ops->kernel_unload(dev, gate);
	ops->free(dev, at);
}
END_TEST

/* Centers of which all parts together would be more than that. */
START_TEST(too_many_centers)
{
	const struct { uint32_t n, dims, k; } args = { 100, 1, 6 << 20 };
	const uint64_t bytes = 4ull * args.k;
	void *dev = open_gpu(_i, NULL);
	uint64_t at = take_memory(dev, bytes);
	struct arax_launch_range r[3] = { range(at, 400), range(at, 400), range(at, bytes) };

	load_passes(dev, MEANS);
	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, r, 3, &args, sizeof(args)), -EOPNOTSUPP);
	ck_assert_uint_eq(emu_used(), bytes);
	unload_passes(dev);
	ops->free(dev, at);
}
END_TEST

/* What the driver does not take as a module is not tried again, until the context is another one. */
START_TEST(no_module)
{
	void *dev = open_gpu(_i, NULL);
	uint64_t at = items_at(dev, 5000);
	double sum;

	load_passes(dev, SUM_F32);
	emu_fail(EMULATED_MODULE, 0, NO_BINARY);
	for (int again = 0; again < 2; again++)
		ck_assert_int_eq(sum_at(dev, 0, at, 5000, &sum), -EOPNOTSUPP);
	ck_assert_double_eq(sum, -1);
	/* For want of memory it is tried again. */
	unload_passes(dev);
	load_passes(dev, SUM_F32);
	emu_fail(EMULATED_MODULE, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(sum_at(dev, 0, at, 5000, &sum), -EOPNOTSUPP);
	ck_assert_int_eq(sum_at(dev, 0, at, 5000, &sum), 0);
	ck_assert_double_eq(sum, sum_to(5000));
	unload_passes(dev);
	load_passes(dev, SUM_F32);
	ck_assert_int_eq(sum_at(dev, 0, at, 5000, &sum), 0);
	ck_assert_double_eq(sum, sum_to(5000));
	unload_passes(dev);
	ops->free(dev, at);
}
END_TEST

/* The first pass is on its way: no other implementation may have the launch. */
START_TEST(a_pass_fails)
{
	void *dev = open_gpu(_i, NULL);
	uint64_t at = items_at(dev, 5000);
	double sum;

	load_passes(dev, SUM_F32);
	emu_fail(EMULATED_LAUNCH, 1, OUT_OF_MEMORY);
	ck_assert_int_eq(sum_at(dev, 0, at, 5000, &sum), -EIO);
	ck_assert_int_eq(sum_at(dev, 0, at, 5000, &sum), 0);
	ck_assert_double_eq(sum, sum_to(5000));
	unload_passes(dev);
	ops->free(dev, at);
}
END_TEST

/* The module and the memory of a broken context are another one's no more. */
START_TEST(a_new_context)
{
	struct arax_launch_range r;
	void *dev, *trap;
	uint64_t at;
	double sum;

	setenv("EMULATED_FORGIVING", "1", 1);
	dev = open_gpu(_i, NULL);
	trap = load(dev, TRAP);
	load_passes(dev, SUM_F32);
	at = items_at(dev, 5000);
	for (uint32_t lane = 0; lane < 3; lane++)
		ck_assert_int_eq(sum_at(dev, lane, at, 5000, &sum), 0);
	r = range(at, 4);
	ck_assert_int_eq(run(dev, trap, 0, 1, 1, &r, 1, &bad, 4), -EFAULT);
	ck_assert_int_eq(ops->reset(dev), 0);
	at = items_at(dev, 5000);
	for (uint32_t lane = 0; lane < 3; lane++) {
		ck_assert_int_eq(sum_at(dev, lane, at, 5000, &sum), 0);
		ck_assert_double_eq(sum, sum_to(5000));
	}
	unload_passes(dev);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* All passes of a launch are put behind one that runs, and none does anything if that fails. */
START_TEST(behind_others)
{
	static const int32_t bad_result = -EIO;
	uint32_t n = 50000;
	void *dev = open_gpu(_i, NULL);
	uint64_t at = items_at(dev, n), word = take_memory(dev, 4);
	struct arax_launch_range r[2] = { range(at + 16, 4ull * n), range(at, 8) };
	struct arax_launch_range w = range(word, 4);
	struct arax_backend_done done;
	void *gate = load(dev, GATE_ORDER);
	bool tells = which->kind == ARAX_DEVICE_CUDA;
	double sum;

	load_passes(dev, SUM_F32);
	ck_assert_int_eq(sum_at(dev, 0, at, n, &sum), 0);
	for (int fails = 0; tells && fails < 2; fails++) {
		struct job j;

		sum = -1;
		ck_assert_int_eq(ops->copy_in(dev, 0, at, &sum, 8), 0);
		emu_gate(0);
		fill(&j, gate, 0, 1, 1, &w, 1, fails ? &bad_result : &fine, 4);
		ck_assert_int_eq(ops->submit(dev, &j.run, 1), 0);
		wait_for_kernels(1);
		fill(&j, kernel, 0, 1, 1, r, 2, &n, 4);
		j.run.after = 1;
		ck_assert_int_eq(ops->submit(dev, &j.run, 2), 0);
		emu_gate(1);
		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, fails ? -EIO : 0);
		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, fails ? -ECANCELED : 0);
		ck_assert_uint_eq(done.flags, fails ? ARAX_DONE_NOT_RUN : 0);
		ck_assert_int_eq(ops->copy_out(dev, 0, &sum, at, 8), 0);
		ck_assert_double_eq(sum, fails ? -1 : sum_to(n));
	}
	/* Behind each other on any device. */
	for (uint64_t i = 0; i < 3; i++) {
		struct job j;

		fill(&j, kernel, 0, 1, 1, r, 2, &n, 4);
		j.run.after = i > 0;
		ck_assert_int_eq(ops->submit(dev, &j.run, i), 0);
	}
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, 0);
	}
	ck_assert_int_eq(ops->copy_out(dev, 0, &sum, at, 8), 0);
	ck_assert_double_eq(sum, sum_to(n));
	unload_passes(dev);
	ops->kernel_unload(dev, gate);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gpu_passes");
	TCase *t = tcase_create("emulated");

	puts("# emulated, not hardware");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, close_gpu);
	for (int i = 0; i < NR_GPUS; i++) {
		if (access(file_of(i), R_OK)) {
			be_skip(gpus[i].name, "arax-std has no passes for it: no nvcc, or no hipcc");
			continue;
		}
		tcase_add_loop_test(t, short_and_long, i, i + 1);
		tcase_add_loop_test(t, the_same_each_time, i, i + 1);
		tcase_add_loop_test(t, any_alignment, i, i + 1);
		tcase_add_loop_test(t, any_alignment_of_f64, i, i + 1);
		tcase_add_loop_test(t, any_alignment_of_bytes, i, i + 1);
		tcase_add_loop_test(t, no_number, i, i + 1);
		tcase_add_loop_test(t, scan_in_place, i, i + 1);
		tcase_add_loop_test(t, many_bins, i, i + 1);
		tcase_add_loop_test(t, long_sorts, i, i + 1);
		tcase_add_loop_test(t, scratch_memory, i, i + 1);
		tcase_add_loop_test(t, scratch_in_use, i, i + 1);
		tcase_add_loop_test(t, too_many_centers, i, i + 1);
		tcase_add_loop_test(t, no_module, i, i + 1);
		tcase_add_loop_test(t, a_pass_fails, i, i + 1);
		tcase_add_loop_test(t, a_new_context, i, i + 1);
		tcase_add_loop_test(t, behind_others, i, i + 1);
	}
	suite_add_tcase(s, t);
	return be_main(s);
}
