/* SPDX-License-Identifier: MIT */
/*
 * be_gpu_calls.h - a GPU backend on the driver in software, opened, and calls of it: what
 * the tests of its flow share
 */
#ifndef ARAX_SELFTESTS_UNIT_BE_GPU_CALLS_H
#define ARAX_SELFTESTS_UNIT_BE_GPU_CALLS_H

#include <pthread.h>

#include "selftests/unit/be_gpu.h"
#include "selftests/unit/be_launch.h"

#define FAULT 700		/* illegal address, in CUDA and in HIP */
#define ECC 214
#define OUT_OF_MEMORY 2

static const struct gpu_which *which;
static const char *plugin_file;		/* NULL: it is built in */
static struct backend_plugin plugin;
static const struct arax_backend *ops = &plugin.ops;
static void *devs[2];
static int nr_devs;
static char why[512];

static void (*emu_fail)(enum emulated_call call, int after, int err);
static void (*emu_gate)(int open);
static int (*emu_waiting)(void);
static int (*emu_registered)(void);
static uint64_t (*emu_all_used)(void);
static uint64_t own_bytes;		/* that open devices have for themselves */
static int (*emu_direct)(void);

/* ------------------------------------------------------------------ */
/* Opening                                                               */

/* What probe says, with the driver at @library and these options, NULL behind the last. */
static inline int probe(int which_gpu, const char *library, const char *const *options)
{
	which = &gpus[which_gpu];
	ck_assert_msg(!backend_plugin_load(&plugin, which->name, plugin_file, why, sizeof(why)),
		      "%s", why);
	ck_assert_int_eq(ops->load(), 0);
	if (library)
		ck_assert_int_eq(ops->config("library", library), 0);
	/* Else HIP's devices are in a process of their own. */
	ck_assert_int_eq(ops->config("apart", "no"), 0);
	for (; options && *options; options += 2)
		ck_assert_int_eq(ops->config(options[0], options[1]), 0);
	why[0] = '\0';
	return ops->probe(why, sizeof(why));
}

static inline void *symbol(void *library, const char *name)
{
	void *s = dlsym(library, name);

	ck_assert_ptr_nonnull(s);
	return s;
}

static inline void *open_gpu(int which_gpu, const char *const *options)
{
	const char *path = emulated_path(&gpus[which_gpu]);
	void *library = dlopen(path, RTLD_NOW);

	ck_assert_msg(!!library, "%s", dlerror());
	emu_fail = symbol(library, "emulated_fail");
	emu_gate = symbol(library, "emulated_gate");
	emu_waiting = symbol(library, "emulated_waiting");
	emu_registered = symbol(library, "emulated_registered");
	emu_all_used = symbol(library, "emulated_used");
	emu_direct = symbol(library, "emulated_direct");
	nr_devs = probe(which_gpu, path, options);
	ck_assert_msg(nr_devs == 2, "%d: %s", nr_devs, why);
	for (int i = 0; i < nr_devs; i++)
		ck_assert_int_eq(ops->open((uint32_t)i, &devs[i]), 0);
	own_bytes = emu_all_used();
	return devs[0];
}

static inline uint64_t emu_used(void)
{
	return emu_all_used() - own_bytes;
}

static inline void close_gpu(void)
{
	while (nr_devs > 0)
		ops->close(devs[--nr_devs]);
	be_rmdir(folder);
}

/* ------------------------------------------------------------------ */
/* Kernels: the driver in software has the code, the file says what is in it */

static const char ptx_head[] = ".version 9.0\n.target sm_75\n.address_size 64\n";
static const char ptx[] =
	".visible .entry test_add(\n\t.param .u64 .ptr .align 1 p0,\n\t.param .u64 p1,\n"
	"\t.param .u64 p2,\n\t.param .u64 p3,\n\t.param .u32 p4\n)\n{ ret; }\n"
	".visible .entry test_inc(.param .u64 a, .param .u64 b)\n{ ret; }\n"
	".entry test_sizes ( .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e, .param .u64 f ) { }\n"
	".entry test_plain(.param .u64 a,.param .u64 b,.param .u8 c,.param .u64 d,.param .u16 e,.param .f64 f) { }\n"
	".entry test_result(.param .u64 a, .param .u64 b, .param .u32 c, .param .u64 d) { }\n"
	".entry test_order(.param .u64 a, .param .u64 b, .param .u32 c, .param .align 8 .b8 d[32]) { }\n"
	".entry test_twice(.param .u64 a,.param .u64 b,.param .u32 c,.param .align 8 .b8 d[32]) { }\n"
	".entry test_gate_order(.param .u64 a,.param .u64 b,.param .u32 c,.param .align 8 .b8 d[32]) { }\n"
	".entry test_groups(.param .u64 a, .param .u64 b) { }\n"
	".entry test_trap(.param .u64 a, .param .u64 b, .param .b32 c) { }\n"
	".entry test_gate(.param .u64 a, .param .u64 b, .param .s32 c) { }\n";

/* A file that begins as code for this device does. */
static inline void write_image(const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(which->kind == ARAX_DEVICE_CUDA ? ptx_head : "\177ELF", f);
	fputs(text, f);
	if (which->kind != ARAX_DEVICE_CUDA)
		fputc('\0', f);
	fclose(f);
}

static inline int try_load(void *dev, const char *file, const char *name, const char *signature, void **k)
{
	struct arax_backend_kernel desc = { .size = sizeof(desc), .symbol = name,
					    .signature = signature };
	char path[512];
	int err;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	desc.file = path;
	desc.fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(desc.fd, 0);
	err = ops->kernel_load(dev, &desc, k);
	/* Of a kernel that is loaded the file stays open: until the end, for a test. */
	if (err)
		close(desc.fd);
	return err;
}

static inline void *load(void *dev, const char *name, const char *signature)
{
	void *k;
	int err;

	write_image("k", ptx);
	err = try_load(dev, "k", name, signature, &k);
	ck_assert_msg(!err, "%s: %d\n%s", name, err, take_log());
	return k;
}

#define ADD	"test_add", "add(in i32 a[], out i32 b[], i32 by)"
#define INC	"test_inc", "inc(inout i32 x[])"
#define SIZES	"test_sizes", "sizes(in f64 d[], inout u8 b[], out u64 o[])"
#define PLAIN	"test_plain", "plain(i8 a, out u64 out[], u64 b, u16 c, f64 d)"
#define RESULT	"test_result", "result(inout i32 x[], i32 err)"
#define ORDER	"test_order", "order(inout i32 x[], i32 err)"
#define TWICE	"test_twice", "twice(inout i32 x[], i32 err)"
#define GATE_ORDER "test_gate_order", "gate_order(inout i32 x[], i32 err)"
#define GROUPS	"test_groups", "groups(out u32 out[])"
#define TRAP	"test_trap", "trap(inout i32 x[], i32 err)"
#define GATE	"test_gate", "gate(inout i32 x[], i32 err)"

static inline int run(void *dev, void *kernel, uint32_t lane, uint32_t grid, uint32_t block,
	       const struct arax_launch_range *r, uint32_t n, const void *args, uint32_t len)
{
	struct job j;

	fill(&j, kernel, lane, grid, block, r, n, args, len);
	return ops->run(dev, &j.run);
}

static inline uint64_t take_memory(void *dev, uint64_t bytes)
{
	uint64_t a = 0;

	ck_assert_int_eq(ops->alloc(dev, bytes, 0, &a), 0);
	ck_assert_uint_ne(a, 0);
	return a;
}

/* Lanes run at once, each with arguments of its own. */
struct worker {
	void *dev, *kernel;
	uint32_t lane;
	int err;
};

static inline void *work(void *arg)
{
	struct worker *w = arg;
	int32_t in[100], out[100];
	uint64_t a = 0;

	for (int32_t turn = 0; !w->err && turn < 100; turn++) {
		int32_t by = turn + 1000 * (int32_t)w->lane;
		struct arax_launch_range r[2];

		w->err = ops->alloc(w->dev, 800, 0, &a);
		r[0] = range(a, 400);
		r[1] = range(a + 400, 400);
		for (int32_t i = 0; i < 100; i++)
			in[i] = i;
		if (!w->err)
			w->err = ops->copy_in(w->dev, w->lane, a, in, 400);
		if (!w->err)
			w->err = run(w->dev, w->kernel, w->lane, 7, 1, r, 2, &by, 4);
		if (!w->err)
			w->err = ops->copy_out(w->dev, w->lane, out, a + 400, 400);
		for (int32_t i = 0; !w->err && i < 100; i++)
			w->err = out[i] == i + by ? 0 : -1000;
		if (w->err != -ENODEV)
			ops->free(w->dev, a);
	}
	return NULL;
}

static const int32_t fine = 0, bad = FAULT, ecc = ECC;

static inline void wait_for_kernels(int n)
{
	while (emu_waiting() < n)
		usleep(100);
}

struct victim {
	struct job job;
	void *dev;
	int result;
};

static inline void *run_victim(void *arg)
{
	struct victim *v = arg;

	v->result = ops->run(v->dev, &v->job.run);
	return NULL;
}

/* Nothing goes on a broken device, whatever is asked. */
static inline void assert_broken(void *dev, void *kernel, uint64_t a)
{
	struct arax_launch_range r = range(a, 4);
	char byte;
	uint64_t b;
	void *k;

	ck_assert_int_eq(run(dev, kernel, 0, 1, 1, &r, 1, &fine, 4), -ENODEV);
	ck_assert_int_eq(ops->copy_out(dev, 0, &byte, a, 1), -ENODEV);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, &byte, 1), -ENODEV);
	ck_assert_int_eq(ops->alloc(dev, 1, 0, &b), -ENODEV);
	ck_assert_int_eq(ops->host_register(dev, &byte, 1), -ENODEV);
	ck_assert_int_eq(try_load(dev, "k", INC, &k), -ENODEV);
}

/* And on one with a new context everything does, with the kernels from before. */
static inline void assert_whole(void *dev, void *kernel)
{
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	int32_t x = 5;

	ck_assert_int_eq(ops->copy_in(dev, 0, a, &x, 4), 0);
	for (uint32_t lane = 0; lane < 4; lane++)
		ck_assert_int_eq(run(dev, kernel, lane, 1, 1, &r, 1, &fine, 4), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, &x, a, 4), 0);
	ck_assert_int_eq(x, 9);
	ops->free(dev, a);
}

#endif /* ARAX_SELFTESTS_UNIT_BE_GPU_CALLS_H */
