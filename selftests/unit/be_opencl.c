// SPDX-License-Identifier: MIT
/* The OpenCL backend on a real driver: memory, kernels, errors. */
#include <dirent.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/backends/opencl/build_log.h"
#include "daemon/backends/opencl/built.h"
#include "daemon/backends/opencl/opencl.h"
#include "daemon/reason.h"
#include "selftests/unit/be_opencl.h"
#include "selftests/unit/refuse_call.h"
#include "selftests/unit/wait.h"

#define PAGE 4096u

static const char kernels[] =
	"__kernel void where(__global ulong *at, ulong n, ulong v)\n"
	"{ at[0] = (ulong)at; at[n - 1] = v; }\n"
	"__kernel void add(__global const int *a, ulong na, __global int *b, ulong nb, int by)\n"
	"{ ARAX_EACH(i, min(na, nb)) b[i] = a[i] + by; }\n"
	"__kernel void deal(__global uint *who, ulong nr, ulong n)\n"
	"{ ARAX_EACH(i, n) who[i] += 0x10000 + arax_item() + arax_items() * arax_group(); }\n"
	"__kernel void names(__global uint *x, ulong n, ulong i_first, ulong i_all, ulong i_each,\n"
	"                    ulong i_end)\n"
	"{ ARAX_EACH(i, i_all) x[i] = i + i_first + i_each + i_end; }\n"
	"__kernel void inc(__global int *x, ulong n) { ARAX_EACH(i, n) x[i]++; }\n"
	"__kernel void sizes(__global const double *d, ulong nd, __global uchar *b, ulong nb,\n"
	"                    __global ulong *out, ulong nout)\n"
	"{ out[0] = nd; out[1] = nb; out[2] = nout; out[3] = b == 0; }\n"
	"__kernel void plain(__global ulong *out, ulong n, char a, ulong b, ushort c, double d)\n"
	"{ out[0] = a; out[1] = b; out[2] = c; out[3] = (ulong)d; }\n"
	"__kernel void fail(__global int *x, ulong n, int err, __global int *result)\n"
	"{ x[0]++; if (err) *result = err; }\n"
	"__kernel void two(__global int *a, ulong na, __global int *b, ulong nb)\n"
	"{ a[0] = 1; b[nb - 1] = 2; }\n"
	"__kernel void three(__global const int *a, ulong na, __global int *b, ulong nb,\n"
	"                    __global int *c, ulong nc)\n"
	"{ b[0] = a[0] + 1; c[0] = 7; }\n"
	"__kernel void groups(__global uint *out, ulong n)\n"
	"{ ulong i = arax_item() + arax_items() * arax_group(); if (i < n)\n"
	"  out[i] = get_global_id(0) + 100 * get_global_id(1) + 10000 * get_global_id(2); }\n";

#define WHERE	"where(inout u64 at[], u64 v)"
#define ADD	"add(in i32 a[], out i32 b[], i32 by)"
#define NAMES	"names(out u32 x[], u64 i_first, u64 i_all, u64 i_each, u64 i_end)"
#define DEAL	"deal(inout u32 who[], u64 n)"
#define INC	"inc(inout i32 x[])"
#define SIZES	"sizes(in f64 d[], inout u8 b[], out u64 o[])"
#define PLAIN	"plain(i8 a, out u64 out[], u64 b, u16 c, f64 d)"
#define FAIL	"fail(inout i32 x[], i32 err)"
#define GROUPS	"groups(out u32 out[])"
#define TWO	"two(out i32 a[], out i32 b[])"
#define THREE	"three(in i32 a[], out i32 b[], out i32 c[])"

static struct device *open_one(const char *options)
{
	ck_assert_int_eq(open_opencl(options), 0);
	be_write(folder, "k.cl", kernels);
	return devices_at(devices, 0);
}

static void *load(struct device *dev, const char *symbol, const char *signature)
{
	void *k;
	int err = load_from(dev, "k.cl", symbol, signature, &k);

	ck_assert_msg(!err, "%s: %d\n%s", symbol, err, take_log());
	return k;
}

static struct arax_launch_range range(void *data, uint64_t bytes)
{
	return (struct arax_launch_range){ data, bytes, 0, 1 };
}

static struct arax_launch_range device_range(uint64_t address, uint64_t bytes)
{
	return range((void *)(uintptr_t)address, bytes);
}

/* ------------------------------------------------------------------ */
/* Host pages                                                            */

/* A client's buffer: a memfd that is mapped more than once. */
static char *map(int fd, size_t bytes, void *at)
{
	char *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static int memfd(size_t bytes)
{
	int fd = memfd_create("buffer", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

/*
 * The kernel's pointer is the page's address, and what it writes is in the buffer's
 * other mapping when the launch returns: nothing was copied.  At page boundaries
 * and at odd places, long and short.
 */
START_TEST(host_pages_are_the_same)
{
	static const struct { size_t offset, bytes; } at[] = {
		{ 0, PAGE }, { 0, 16 * PAGE }, { 8, 16 }, { PAGE - 8, 24 }, { 5 * PAGE + 40, 2 * PAGE },
	};
	struct device *dev = open_one("");
	int fd = memfd(16 * PAGE);
	char *here = map(fd, 16 * PAGE, NULL), *client = map(fd, 16 * PAGE, NULL);
	void *k = load(dev, "where", WHERE);

	if (dev->info.memory) {
		be_skip("host_pages_are_the_same", "no OpenCL device here works on host pages");
		device_kernel_unload(dev, k);
		return;
	}
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		struct arax_launch_range r = range(here + at[i].offset, at[i].bytes);
		uint64_t v = 77 + i, got;

		ck_assert_int_eq(launch(dev, k, 0, 1, 1, &r, 1, &v, 8), 0);
		memcpy(&got, client + at[i].offset, 8);
		ck_assert_uint_eq(got, (uintptr_t)here + at[i].offset);
		memcpy(&got, client + at[i].offset + at[i].bytes - 8, 8);
		ck_assert_uint_eq(got, v);
	}
	device_kernel_unload(dev, k);
}
END_TEST

/* Another client's buffer at the address of one that is gone. */
START_TEST(pages_change_behind_an_address)
{
	struct device *dev = open_one("");
	int fd[2] = { memfd(PAGE), memfd(PAGE) };
	void *k = load(dev, "inc", INC);
	int *here = (int *)map(fd[0], PAGE, NULL);
	struct arax_launch_range r = range(here, PAGE);

	if (dev->info.memory) {
		be_skip("pages_change_behind_an_address",
			"no OpenCL device here works on host pages");
		device_kernel_unload(dev, k);
		return;
	}
	for (int i = 0; i < 6; i++) {
		int *client = (int *)map(fd[i % 2], PAGE, NULL);

		map(fd[i % 2], PAGE, here);
		client[1] = 10 * i;	/* after an earlier launch on this address */
		ck_assert_int_eq(launch(dev, k, 0, 4, 1, &r, 1, NULL, 0), 0);
		ck_assert_int_eq(client[1], 10 * i + 1);
		ck_assert_int_eq(client[0], i / 2 + 1);
		munmap(client, PAGE);
	}
	device_kernel_unload(dev, k);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Own memory                                                            */

START_TEST(device_memory)
{
	struct device *dev = open_one("\"zero-copy=no\", \"memory=1M\"");
	uint64_t a, b, c;
	char out[64];

	ck_assert_uint_eq(dev->info.memory, 1 << 20);
	ck_assert_int_eq(device_alloc(dev, 600 << 10, 0, &a), 0);
	ck_assert_int_eq(device_alloc(dev, 500 << 10, 0, &b), -ENOMEM);
	assert_logged("no room for 512000 bytes: 614400 of 1048576 are in use");
	ck_assert_int_eq(device_alloc(dev, 424 << 10, 0, &b), 0);
	ck_assert_int_eq(device_alloc(dev, 1, 0, &c), -ENOMEM);
	ck_assert_int_eq(device_alloc(dev, UINT64_MAX, 0, &c), -ENOMEM);
	ck_assert_int_eq(device_alloc(dev, 0, 0, &c), -EINVAL);
	ck_assert_int_eq(device_alloc(dev, 1, 4096, &c), -EOPNOTSUPP);
	/* Apart, and neither reaches into the other. */
	ck_assert(a + (600 << 10) < b || b + (424 << 10) < a);
	ck_assert_int_eq(device_copy_in(dev, 0, a, "hello", 6), 0);
	ck_assert_int_eq(device_copy_in(dev, 1, b + 1000, "world", 6), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a + (600 << 10) - 3, "end", 3), 0);
	ck_assert_int_eq(device_copy_out(dev, 1, out, a, 6), 0);
	ck_assert_str_eq(out, "hello");
	ck_assert_int_eq(device_copy_out(dev, 0, out, b + 1000, 6), 0);
	ck_assert_str_eq(out, "world");
	ck_assert_int_eq(device_copy_out(dev, 0, out, b, 0), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a + (600 << 10) - 3, "end", 4), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, a - 1, 1), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, 0, 1), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, a + 1, UINT64_MAX), -EFAULT);
	device_free(dev, a);
	ck_assert_int_eq(device_copy_out(dev, 0, out, a, 1), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, b + 1000, 6), 0);
	ck_assert_str_eq(out, "world");
	ck_assert_int_eq(device_alloc(dev, 600 << 10, 0, &c), 0);
	take_log();
	device_free(dev, a);
	assert_logged("nothing was allocated at");
	device_free(dev, b);
	device_free(dev, c);
	ck_assert_int_eq(device_alloc(dev, 1 << 20, 0, &a), 0);
	device_free(dev, a);
}
END_TEST

/* Ranges anywhere inside an allocation, where buffers may begin and where not. */
START_TEST(device_ranges)
{
	static const uint32_t offsets[] = { 0, 128, 1024, 4, 132, 4092, 65536 };
	struct device *dev = open_one("\"zero-copy=no\", \"memory=8M\"");
	void *inc = load(dev, "inc", INC), *add = load(dev, "add", ADD);
	const uint32_t bytes = 1 << 18;
	int32_t *host = calloc(1, bytes), *want = calloc(1, bytes), by = 1000;
	struct arax_launch_range r[2];
	uint64_t a;

	ck_assert_int_eq(device_alloc(dev, bytes, 0, &a), 0);
	for (uint32_t i = 0; i < bytes / 4; i++)
		host[i] = (int32_t)i;
	memcpy(want, host, bytes);
	ck_assert_int_eq(device_copy_in(dev, 0, a, host, bytes), 0);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		uint32_t n = 1 + 37 * (uint32_t)i;

		r[0] = device_range(a + offsets[i], 4 * n);
		ck_assert_int_eq(launch(dev, inc, i % 2, 3, 2, r, 1, NULL, 0), 0);
		for (uint32_t j = 0; j < n; j++)
			want[offsets[i] / 4 + j]++;
	}
	/* From one odd place to another of the same allocation. */
	r[0] = device_range(a + 36, 400);
	r[1] = device_range(a + 131076, 400);
	ck_assert_int_eq(launch(dev, add, 0, 5, 1, r, 2, &by, 4), 0);
	for (uint32_t j = 0; j < 100; j++)
		want[131076 / 4 + j] = want[9 + j] + by;
	ck_assert_int_eq(device_copy_out(dev, 0, host, a, bytes), 0);
	for (uint32_t i = 0; i < bytes / 4; i++)
		ck_assert_msg(host[i] == want[i], "%u: %d, not %d", i, host[i], want[i]);
	/* A host address is none of the device's, nor is one byte too far. */
	r[0] = range(host, 4);
	ck_assert_int_eq(launch(dev, inc, 0, 1, 1, r, 1, NULL, 0), -EFAULT);
	r[0] = device_range(a + bytes - 4, 8);
	ck_assert_int_eq(launch(dev, inc, 0, 1, 1, r, 1, NULL, 0), -EFAULT);
	device_free(dev, a);
	device_kernel_unload(dev, inc);
	device_kernel_unload(dev, add);
	free(host);
	free(want);
}
END_TEST

/* Copies of odd ranges are the device's memory, too; without room there they are made elsewhere. */
START_TEST(odd_ranges_are_accounted)
{
	struct device *dev = open_one("\"zero-copy=no\", \"memory=1M\"");
	void *inc = load(dev, "inc", INC);
	const uint32_t bytes = 600 << 10;
	int32_t *host = calloc(1, bytes);
	struct arax_launch_range r[1];
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = 1, .grid = { 3, 1, 1 }, .block = { 2, 1, 1 },
		.group_end = 3, .ranges = r,
	};
	struct arax_backend_run run = { .size = sizeof(run), .kernel = inc, .launch = &l, .name = "test" };
	struct arax_backend_done done;
	uint64_t a, b;

	ck_assert_int_eq(device_alloc(dev, bytes, 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, host, bytes), 0);
	r[0] = device_range(a + 4, 400 << 10);
	/* Until it is over. */
	ck_assert_int_eq(device_submit(dev, &run, 7), 0);
	ck_assert_int_eq(device_alloc(dev, 100 << 10, 0, &b), -ENOMEM);
	ck_assert_int_eq(device_wait(dev, 0, &done), 0);
	ck_assert_int_eq(done.result, 0);
	ck_assert_int_eq(device_alloc(dev, 424 << 10, 0, &b), 0);
	/* Full. */
	ck_assert_int_eq(launch(dev, inc, 0, 3, 2, r, 1, NULL, 0), 0);
	device_free(dev, b);
	ck_assert_int_eq(device_alloc(dev, 424 << 10, 0, &b), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, host, a, bytes), 0);
	for (uint32_t i = 0; i < bytes / 4; i++)
		ck_assert_int_eq(host[i], i >= 1 && i <= (400u << 10) / 4 ? 2 : 0);
	device_free(dev, a);
	device_free(dev, b);
	device_kernel_unload(dev, inc);
	free(host);
}
END_TEST

static cl_int (CL_API_CALL *real_copy_buffer)(cl_command_queue q, cl_mem from, cl_mem to, size_t from_at,
					      size_t to_at, size_t bytes, cl_uint nr,
					      const cl_event *after, cl_event *event);
static cl_mem (CL_API_CALL *real_create_buffer)(cl_context context, cl_mem_flags flags, size_t bytes,
						void *host, cl_int *err);
static cl_int copies_fail;
static int copies_in_device, copies_in_host;
static cl_mem in_host;

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes,
					void *host, cl_int *err)
{
	cl_mem mem = real_create_buffer(context, flags, bytes, host, err);

	if (flags & CL_MEM_ALLOC_HOST_PTR)
		in_host = mem;
	return mem;
}

/* A driver whose device is full: it says so when a buffer is first used. */
static cl_int CL_API_CALL copy_buffer(cl_command_queue q, cl_mem from, cl_mem to, size_t from_at,
				      size_t to_at, size_t bytes, cl_uint nr, const cl_event *after,
				      cl_event *event)
{
	if (in_host && to == in_host) {
		copies_in_host++;
	} else if (copies_fail && !in_host) {
		copies_in_device++;
		return copies_fail;
	}
	return real_copy_buffer(q, from, to, from_at, to_at, bytes, nr, after, event);
}

/* Nor does the launch fail where only the driver knows that there is no room. */
START_TEST(odd_ranges_on_a_full_device)
{
	static const cl_int full[] = { CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES,
				       CL_OUT_OF_HOST_MEMORY };
	struct device *dev = open_one("\"zero-copy=no\", \"memory=1M\"");
	void *inc = load(dev, "inc", INC);
	int32_t host[64] = { 0 };
	struct arax_launch_range r[1];
	uint64_t a, b;

	real_create_buffer = cl.CreateBuffer;
	real_copy_buffer = cl.EnqueueCopyBuffer;
	cl.CreateBuffer = create_buffer;
	cl.EnqueueCopyBuffer = copy_buffer;
	ck_assert_int_eq(device_alloc(dev, sizeof(host), 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, host, sizeof(host)), 0);
	r[0] = device_range(a + 4, 40);
	copies_fail = full[_i];
	ck_assert_int_eq(launch(dev, inc, 0, 3, 2, r, 1, NULL, 0), 0);
	copies_fail = 0;
	ck_assert_int_eq(copies_in_device, 1);
	ck_assert_int_eq(copies_in_host, 1);
	/* What was not had is not accounted for. */
	ck_assert_int_eq(device_alloc(dev, (1 << 20) - sizeof(host), 0, &b), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, host, a, sizeof(host)), 0);
	for (uint32_t i = 0; i < 64; i++)
		ck_assert_int_eq(host[i], i >= 1 && i <= 10);
	cl.CreateBuffer = real_create_buffer;
	cl.EnqueueCopyBuffer = real_copy_buffer;
	device_free(dev, a);
	device_free(dev, b);
	device_kernel_unload(dev, inc);
}
END_TEST

/* Wherever a range begins, and however little of it a kernel writes. */
START_TEST(what_no_kernel_wrote_stays)
{
	struct device *dev = open_one("\"zero-copy=no\", \"memory=8M\"");
	void *add = load(dev, "add", ADD);
	const uint32_t bytes = 60 << 10;
	uint32_t *host = malloc(bytes + 8), *got = calloc(1, bytes + 8);
	struct arax_launch_range r[2];
	int32_t by = 7;
	uint64_t a;

	for (uint32_t i = 0; i < bytes / 4 + 2; i++)
		host[i] = i ^ 0x5ec2e700;
	ck_assert_int_eq(device_alloc(dev, bytes + 8, 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, host, bytes + 8), 0);
	r[0] = device_range(a, 4);
	r[1] = device_range(a + 4, bytes);
	ck_assert_int_eq(launch(dev, add, 0, 1, 1, r, 2, &by, 4), 0);
	host[1] = host[0] + 7;
	/* In its own place, too. */
	r[0] = device_range(a + 8, bytes - 8);
	r[1] = device_range(a + 8, 4);
	ck_assert_int_eq(launch(dev, add, 0, 1, 1, r, 2, &by, 4), 0);
	host[2] += 7;
	ck_assert_int_eq(device_copy_out(dev, 0, got, a, bytes + 8), 0);
	for (uint32_t i = 0; i < bytes / 4 + 2; i++)
		ck_assert_msg(got[i] == host[i], "%u: %x, not %x", i, got[i], host[i]);
	device_free(dev, a);
	device_kernel_unload(dev, add);
	free(host);
	free(got);
}
END_TEST

/* Neither can have both's results where buffers have to be put together from copies. */
START_TEST(odd_ranges_that_overlap)
{
	struct device *dev = open_one("\"zero-copy=no\", \"memory=8M\"");
	void *two = load(dev, "two", TWO);
	struct arax_launch_range r[2];
	int32_t got[4] = { 0 };
	uint64_t a;

	ck_assert_int_eq(device_alloc(dev, 8192, 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a + 4, got, 16), 0);
	r[0] = device_range(a + 4, 8);
	r[1] = device_range(a + 8, 8);
	ck_assert_int_eq(launch(dev, two, 0, 1, 1, r, 2, NULL, 0), -EINVAL);
	assert_logged("overlaps range");
	r[1] = device_range(a + 12, 8);
	ck_assert_int_eq(launch(dev, two, 0, 1, 1, r, 2, NULL, 0), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, got, a + 4, 16), 0);
	ck_assert(got[0] == 1 && got[1] == 0 && got[2] == 0 && got[3] == 2);
	/* The same place is one buffer. */
	memset(got, 0, sizeof(got));
	ck_assert_int_eq(device_copy_in(dev, 0, a + 4, got, 16), 0);
	r[1] = device_range(a + 4, 16);
	ck_assert_int_eq(launch(dev, two, 0, 1, 1, r, 2, NULL, 0), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, got, a + 4, 16), 0);
	ck_assert(got[0] == 1 && got[1] == 0 && got[2] == 0 && got[3] == 2);
	device_free(dev, a);
	device_kernel_unload(dev, two);
}
END_TEST

/* What is only read isn't written back, over what is written in its place. */
START_TEST(odd_ranges_go_back_as_far_as_written)
{
	struct device *dev = open_one("\"zero-copy=no\", \"memory=8M\"");
	void *three = load(dev, "three", THREE);
	struct arax_launch_range r[3];
	int32_t got[2048] = { 0 };
	uint64_t a;

	ck_assert_int_eq(device_alloc(dev, sizeof(got), 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, got, sizeof(got)), 0);
	r[0] = device_range(a + 4, sizeof(got) - 4);
	r[1] = device_range(a + 4, 4);
	r[2] = device_range(a + 4096, 4);
	ck_assert_int_eq(launch(dev, three, 0, 1, 1, r, 3, NULL, 0), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, got, a, sizeof(got)), 0);
	ck_assert_int_eq(got[1], 1);
	ck_assert_int_eq(got[1024], 7);
	device_free(dev, a);
	device_kernel_unload(dev, three);
}
END_TEST

/* One CPU as two accelerators.  Needs a driver that can divide its device. */
START_TEST(sub_devices)
{
	struct device *dev = open_one("\"sub-devices=2\", \"zero-copy=no\", \"memory=1M\"");
	struct device *other = devices_at(devices, 1);
	char out[8] = "";
	uint64_t a, b;

	if (!other) {
		assert_logged("is not divided");
		be_skip("sub_devices", "the OpenCL device has one unit, or can't be divided");
		return;
	}
	ck_assert_uint_eq(devices_count(devices), 2);
	ck_assert_str_ne(dev->info.name, other->info.name);
	ck_assert_uint_le(dev->info.units - other->info.units, 1);
	ck_assert_int_eq(device_alloc(dev, 100, 0, &a), 0);
	ck_assert_int_eq(device_alloc(other, 100, 0, &b), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a + 3, "peer", 5), 0);
	ck_assert_int_eq(device_copy_peer(other, b + 7, dev, a + 3, 5), 0);
	ck_assert_int_eq(device_copy_out(other, 0, out, b + 7, 5), 0);
	ck_assert_str_eq(out, "peer");
	ck_assert_int_eq(device_copy_peer(other, b + 96, dev, a, 5), -EFAULT);
	ck_assert_int_eq(device_copy_peer(other, b, dev, a + 96, 5), -EFAULT);
	device_free(dev, a);
	device_free(other, b);
}
END_TEST

/* More parts than units: whole, and said so. */
START_TEST(too_many_sub_devices)
{
	ck_assert_int_eq(open_opencl("\"sub-devices=256\""), 0);
	assert_logged("is not divided: sub-devices = 256, it has ");
	ck_assert_uint_ge(devices_count(devices), 1);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Launches                                                              */

static const char *const memories[] = { "", "\"zero-copy=no\"" };

/* Memory of either sort, as a range. */
static struct arax_launch_range put(struct device *dev, void *data, uint64_t bytes)
{
	uint64_t a;

	if (!dev->info.memory)
		return range(data, bytes);
	ck_assert_int_eq(device_alloc(dev, bytes ? bytes : 1, 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, data, bytes), 0);
	return device_range(a, bytes);
}

static void take(struct device *dev, struct arax_launch_range r, void *data)
{
	if (!dev->info.memory)
		return;
	ck_assert_int_eq(device_copy_out(dev, 0, data, (uintptr_t)r.data, r.length), 0);
	device_free(dev, (uintptr_t)r.data);
}

START_TEST(arguments)
{
	struct device *dev = open_one(memories[_i]);
	void *sizes = load(dev, "sizes", SIZES), *plain = load(dev, "plain", PLAIN);
	struct { int8_t a; uint64_t b; uint16_t c; double d; } args = { -3, 1ull << 60, 65535, 2e9 };
	double d[9] = { 0 };
	uint8_t b[7] = { 0 };
	uint64_t out[4] = { 0 };
	struct arax_launch_range r[3];

	r[0] = put(dev, d, 9 * 8 - 1);
	r[1] = put(dev, b, 7);
	r[2] = put(dev, out, 32);
	ck_assert_int_eq(launch(dev, sizes, 0, 1, 1, r, 3, NULL, 0), 0);
	take(dev, r[0], d);
	take(dev, r[1], b);
	take(dev, r[2], out);
	ck_assert_uint_eq(out[0], 8);	/* whole elements */
	ck_assert_uint_eq(out[1], 7);
	ck_assert_uint_eq(out[2], 4);
	ck_assert_uint_eq(out[3], 0);
	r[0] = put(dev, d, 0);
	r[1] = put(dev, b, 0);
	r[2] = put(dev, out, 32);
	ck_assert_int_eq(launch(dev, sizes, 0, 1, 1, r, 3, NULL, 0), 0);
	take(dev, r[2], out);
	ck_assert_uint_eq(out[0], 0);
	ck_assert_uint_eq(out[1], 0);
	ck_assert_uint_eq(out[3], 1);	/* of nothing, nothing is given */
	r[0] = put(dev, out, 32);
	ck_assert_int_eq(launch(dev, plain, 0, 1, 1, r, 1, &args, sizeof(args)), 0);
	take(dev, r[0], out);
	ck_assert_uint_eq(out[0], (uint64_t)-3);
	ck_assert_uint_eq(out[1], 1ull << 60);
	ck_assert_uint_eq(out[2], 65535);
	ck_assert_uint_eq(out[3], 2000000000);
	device_kernel_unload(dev, sizes);
	device_kernel_unload(dev, plain);
}
END_TEST

START_TEST(results)
{
	static const int32_t codes[] = { 0, -22, 0, -5, -ENODEV, 0, 0 };
	struct device *dev = open_one(memories[_i]);
	void *k = load(dev, "fail", FAIL), *inc = load(dev, "inc", INC);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x, 4);

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		/* That the device is lost is not a kernel's to say. */
		ck_assert_int_eq(launch(dev, k, i % 3, 1, 1, &r, 1, &codes[i], 4),
				 codes[i] == -ENODEV ? -EIO : codes[i]);
		/* One that has none is not given another's. */
		ck_assert_int_eq(launch(dev, inc, i % 3, 1, 1, &r, 1, NULL, 0), 0);
	}
	take(dev, r, &x);
	ck_assert_int_eq(x, 14);
	device_kernel_unload(dev, k);
	device_kernel_unload(dev, inc);
}
END_TEST

static int submit_after(struct device *dev, void *kernel, uint32_t lane,
			const struct arax_launch_range *r, const int32_t *arg, uint64_t cookie,
			uint32_t after)
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = 1, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
		.group_end = 1, .ranges = r, .args = arg, .arg_len = arg ? 4 : 0,
	};
	struct arax_backend_run run = { .size = sizeof(run), .lane = lane, .kernel = kernel,
					.launch = &l, .name = "test", .after = after };
	int err = device_submit(dev, &run, cookie);

	/* All of it is a copy. */
	memset(&l, 0xff, sizeof(l));
	return err;
}

static int submit(struct device *dev, void *kernel, uint32_t lane, const struct arax_launch_range *r,
		  const int32_t *arg, uint64_t cookie)
{
	return submit_after(dev, kernel, lane, r, arg, cookie, 0);
}

/* So many, one after another, each with a result of its own. */
START_TEST(several_on_a_lane)
{
	struct device *dev = open_one(memories[_i]);
	void *k = load(dev, "fail", FAIL), *inc = load(dev, "inc", INC);
	struct arax_backend_done done;
	int32_t x = 0, codes[ARAX_LANE_DEPTH], i, round;
	struct arax_launch_range r = put(dev, &x, 4);

	ck_assert_uint_eq(device_depth(dev), ARAX_LANE_DEPTH);
	ck_assert_int_eq(device_wait(dev, 0, &done), -ENOENT);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < ARAX_LANE_DEPTH; i++) {
			codes[i] = (round + i) % 3 ? -1 - i - round : 0;
			ck_assert_int_eq(submit(dev, k, 0, &r, &codes[i], 100 * round + i), 0);
		}
		ck_assert_int_eq(submit(dev, inc, 0, &r, NULL, 7), -EAGAIN);
		/* Some end, others come behind. */
		for (i = 0; i < ARAX_LANE_DEPTH; i++) {
			ck_assert_int_eq(device_wait(dev, 0, &done), 0);
			ck_assert_uint_eq(done.cookie, 100 * round + i);
			ck_assert_int_eq(done.result, codes[i]);
			if (i == 1)
				ck_assert_int_eq(submit(dev, inc, 0, &r, NULL, 8), 0);
		}
		ck_assert_int_eq(device_wait(dev, 0, &done), 0);
		ck_assert_uint_eq(done.cookie, 8);
		ck_assert_int_eq(done.result, 0);
		ck_assert_int_eq(device_wait(dev, 0, &done), -ENOENT);
	}
	/* One that is refused leaves the others alone. */
	ck_assert_int_eq(submit(dev, inc, 0, &r, NULL, 1), 0);
	ck_assert_int_eq(submit(dev, inc, 0, &r, &x, 2), -EAGAIN);
	ck_assert_int_eq(submit(dev, inc, 0, &r, NULL, 3), 0);
	for (i = 1; i <= 3; i += 2) {
		ck_assert_int_eq(device_wait(dev, 0, &done), 0);
		ck_assert_uint_eq(done.cookie, i);
	}
	take(dev, r, &x);
	ck_assert_int_eq(x, 20 * (ARAX_LANE_DEPTH + 1) + 2);
	device_kernel_unload(dev, k);
	device_kernel_unload(dev, inc);
}
END_TEST

/* Of random shape: who comes after a failure does nothing, and says so; all others run. */
START_TEST(after_others)
{
	struct device *dev = open_one("");
	void *k = load(dev, "fail", FAIL), *inc = load(dev, "inc", INC);
	struct arax_backend_done done[ARAX_LANE_DEPTH];
	int32_t x = 0, codes[ARAX_LANE_DEPTH], i, round, ran = 0, left_out = 0;
	uint32_t after[ARAX_LANE_DEPTH], seed = 7;
	struct arax_launch_range r = put(dev, &x, 4);

	if (!device_follows(dev)) {
		be_skip("after_others", "this driver's launches can't wait for each other's success");
		return;
	}
	for (round = 0; round < 3000; round++) {
		for (i = 0; i < ARAX_LANE_DEPTH; i++) {
			seed = seed * 1103515245 + 12345;
			codes[i] = seed >> 16 & 3 ? 0 : -5 - i;
			after[i] = (seed >> 20) & ((1u << i) - 1);
			/* One without a result of its own, now and then. */
			ck_assert_int_eq(submit_after(dev, codes[i] || seed >> 24 & 1 ? k : inc, 0, &r,
						      codes[i] || seed >> 24 & 1 ? &codes[i] : NULL,
						      i, after[i]), 0);
		}
		for (i = 0; i < ARAX_LANE_DEPTH; i++)
			ck_assert_int_eq(device_wait(dev, 0, &done[i]), 0);
		for (i = 0; i < ARAX_LANE_DEPTH; i++) {
			bool must_not = false, not = done[i].flags & ARAX_DONE_NOT_RUN;

			ck_assert_uint_eq(done[i].cookie, i);
			for (int32_t b = 0; b < i; b++)
				must_not |= after[i] >> (i - 1 - b) & 1 && done[b].result;
			ck_assert(not == must_not);
			ck_assert_int_eq(done[i].result, not ? -ECANCELED : codes[i]);
			ran += !not;
			left_out += not;
		}
		/* The lane is as good as new. */
		ck_assert_int_eq(launch(dev, inc, 0, 1, 1, &r, 1, NULL, 0), 0);
		ran++;
	}
	take(dev, r, &x);
	ck_assert_int_eq(x, ran);
	ck_assert_int_gt(left_out, 1000);
	device_kernel_unload(dev, k);
	device_kernel_unload(dev, inc);
}
END_TEST

/* What is submitted when the one before it is known to have failed already. */
START_TEST(after_one_that_failed)
{
	static const int32_t bad = -EIO;
	struct device *dev = open_one("");
	void *k = load(dev, "fail", FAIL), *inc = load(dev, "inc", INC);
	struct arax_backend_done done;
	int32_t x = 0, round;
	struct arax_launch_range r = put(dev, &x, 4);

	if (!device_follows(dev)) {
		be_skip("after_one_that_failed", "this driver's launches can't wait for each other's success");
		return;
	}
	for (round = 0; round < 300; round++) {
		ck_assert_int_eq(submit(dev, k, 0, &r, &bad, 1), 0);
		ck_assert_int_eq(submit_after(dev, inc, 0, &r, NULL, 2, 1), 0);
		ck_assert_int_eq(device_wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, -EIO);
		usleep(round % 3 * 100);
		ck_assert_int_eq(submit_after(dev, inc, 0, &r, NULL, 3, 1), 0);
		for (int i = 2; i <= 3; i++) {
			ck_assert_int_eq(device_wait(dev, 0, &done), 0);
			ck_assert_uint_eq(done.cookie, i);
			ck_assert_int_eq(done.result, -ECANCELED);
			ck_assert_uint_eq(done.flags, ARAX_DONE_NOT_RUN);
		}
	}
	take(dev, r, &x);
	ck_assert_int_eq(x, 300);
	device_kernel_unload(dev, k);
	device_kernel_unload(dev, inc);
}
END_TEST

/* Where results have to be fetched first nobody may come after another. */
START_TEST(never_on_its_own_memory)
{
	struct device *dev = open_one("\"zero-copy=no\"");

	ck_assert(!device_follows(dev));
}
END_TEST

/* The last call's, for the task's owner: each time, whatever is in the log. */
static void assert_reason(const char *text)
{
	char said[REASON_LEN];

	reason_take(said);
	ck_assert_msg(strstr(said, text), "'%s' is not in: %s", text, said);
}

START_TEST(geometry)
{
	struct device *dev = open_one("");
	void *k = load(dev, "groups", GROUPS);
	uint32_t out[2 * 3 * 4 * 5] = { 0 };
	struct arax_launch_range r = put(dev, out, sizeof(out));
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 1, .grid = { 5, 3, 2 },
				 .block = { 2, 2, 1 }, .ranges = &r };
	struct arax_backend_run run = { .size = sizeof(run), .kernel = k, .launch = &l, .name = "x" };
	uint32_t seen = 0;

	ck_assert_int_eq(device_run(dev, &run), 0);
	take(dev, r, out);
	/* Every place of 10 x 6 x 2 once. */
	for (uint32_t z = 0; z < 2; z++)
		for (uint32_t y = 0; y < 6; y++)
			for (uint32_t x = 0; x < 10; x++)
				for (uint32_t i = 0; i < 120; i++)
					seen += out[i] == x + 100 * y + 10000 * z;
	ck_assert_uint_eq(seen, 120);
	ck_assert_uint_gt(run.device_ns, 0);
	r = put(dev, out, sizeof(out));
	l.block[0] = 1u << 31;
	take_log();
	ck_assert_int_eq(device_run(dev, &run), -EINVAL);
	assert_logged("groups: block: of 2147483648 work-items in dimension 0: this device takes ");
	assert_reason("groups: block of 2147483648 work-items in dimension 0: this device takes ");
	l.block[0] = 1024;
	l.block[1] = 1024;
	ck_assert_int_eq(device_run(dev, &run), -EINVAL);
	assert_reason("groups: block of 1048576 work-items: this kernel takes ");
	l.block[0] = 1;
	l.block[1] = 1;
	for (int i = 0; i < 3; i++)
		l.grid[i] = UINT32_MAX;
	ck_assert_int_eq(device_run(dev, &run), -EINVAL);
	assert_reason("groups: grid and block are 4294967295 x 4294967295 x 4294967295 times 1 x 1 x 1 work-items: the limit is 4294967296");
	/* They would be begun one by one, whether they have anything to do or not. */
	l.grid[0] = 1u << 20;
	l.grid[1] = 1u << 9;
	l.grid[2] = 1;
	ck_assert_int_eq(device_run(dev, &run), -EINVAL);
	assert_reason("groups: grid of 536870912 work-groups: the limit is 268435456");
	l.grid[0] = 0;
	ck_assert_int_eq(device_run(dev, &run), -EINVAL);
	ck_assert_str_eq(take_log(), "");	/* said once */
	device_kernel_unload(dev, k);
}
END_TEST

/* Items, groups and work-items of a group. */
static const struct deal { uint64_t n; uint32_t grid, block; } deals[] = {
	{ 0, 3, 4 }, { 1, 1, 1 }, { 1, 3, 4 }, { 7, 2, 4 }, { 100, 3, 1 }, { 100, 1, 16 }, { 101, 3, 8 },
	{ 127, 4, 32 }, { 128, 4, 32 }, { 129, 4, 32 }, { 4096, 5, 64 },
};

/* Each once, whatever the geometry; and to neighbours on a processor, where turns are slow. */
START_TEST(items_are_dealt)
{
	struct device *dev = open_one("");
	const struct deal *c = &deals[_i];
	void *k = load(dev, "deal", DEAL);
	struct arax_launch_range r;
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 1, .grid = { c->grid, 1, 1 },
				 .block = { c->block, 1, 1 }, .ranges = &r, .args = &c->n,
				 .arg_len = sizeof(c->n) };
	struct arax_backend_run run = { .size = sizeof(run), .kernel = k, .launch = &l, .name = "x" };
	uint32_t *who = calloc(c->n + 1, sizeof(*who));

	ck_assert_ptr_nonnull(who);
	r = put(dev, who, (c->n + 1) * sizeof(*who));
	ck_assert_int_eq(device_run(dev, &run), 0);
	take(dev, r, who);
	for (uint64_t i = 0; i < c->n; i++) {
		ck_assert_uint_eq(who[i] >> 16, 1);
		ck_assert_uint_lt(who[i] & 0xffff, c->grid * c->block);
		if (i && !dev->info.gpu)
			ck_assert_uint_ge(who[i], who[i - 1]);
	}
	ck_assert_uint_eq(who[c->n], 0);
	free(who);
}
END_TEST

/* The loop has names that no kernel's own are kept out by. */
START_TEST(names_are_the_kernels)
{
	struct device *dev = open_one("");
	const uint64_t args[] = { 1000, 12, 200, 30 };
	uint32_t x[12] = { 0 };
	struct arax_launch_range r = put(dev, x, sizeof(x));
	struct arax_launch l = { .size = sizeof(l), .nr_ranges = 1, .grid = { 2, 1, 1 },
				 .block = { 3, 1, 1 }, .ranges = &r, .args = args,
				 .arg_len = sizeof(args) };
	struct arax_backend_run run = { .size = sizeof(run), .kernel = load(dev, "names", NAMES),
					.launch = &l, .name = "x" };

	ck_assert_int_eq(device_run(dev, &run), 0);
	take(dev, r, x);
	for (uint32_t i = 0; i < 12; i++)
		ck_assert_uint_eq(x[i], i + 1230);
}
END_TEST

START_TEST(bad_ranges)
{
	struct device *dev = open_one("");
	void *k = load(dev, "add", ADD);
	int32_t data[64] = { 0 }, by = 1;
	struct arax_launch_range good[2] = { put(dev, data, 128), put(dev, data + 32, 128) }, r[2];

	memcpy(r, good, sizeof(r));
	ck_assert_int_eq(launch(dev, k, 0, 1, 1, r, 2, &by, 4), 0);
	ck_assert_int_eq(launch(dev, k, 0, 1, 1, r, 1, &by, 4), -EINVAL);
	ck_assert_int_eq(launch(dev, k, 0, 1, 1, r, 2, &by, 3), -EINVAL);
	ck_assert_int_eq(launch(dev, k, 0, 1, 1, r, 2, NULL, 0), -EINVAL);
	r[1].count = 2;
	r[1].stride = 8;
	ck_assert_int_eq(launch(dev, k, 0, 1, 1, r, 2, &by, 4), -EINVAL);
	memcpy(r, good, sizeof(r));
	r[0].data = (char *)r[0].data + 2;
	r[0].length -= 4;
	ck_assert_int_eq(launch(dev, k, 0, 1, 1, r, 2, &by, 4), -EINVAL);
	memcpy(r, good, sizeof(r));
	ck_assert_int_eq(launch(dev, k, 1, 1, 1, r, 2, &by, 4), 0);
	device_kernel_unload(dev, k);
}
END_TEST

/* Lanes run at once, each with arguments of its own. */
struct worker {
	struct device *dev;
	void *kernel;
	uint32_t lane;
	int err;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	int32_t in[100], out[100];
	struct arax_launch_range r[2] = { range(in, sizeof(in)), range(out, sizeof(out)) };

	for (int32_t turn = 0; !w->err && turn < 300; turn++) {
		int32_t by = turn + 1000 * (int32_t)w->lane;

		for (int32_t i = 0; i < 100; i++)
			in[i] = i;
		w->err = launch(w->dev, w->kernel, w->lane, 7, 1, r, 2, &by, 4);
		for (int32_t i = 0; !w->err && i < 100; i++)
			w->err = out[i] == i + by ? 0 : -1000;
	}
	return NULL;
}

START_TEST(lanes)
{
	struct device *dev = open_one("\"lanes=4\"");
	void *k = load(dev, "add", ADD);
	struct worker w[4];
	pthread_t threads[4];

	ck_assert_uint_eq(dev->info.lanes, 4);
	if (dev->info.memory) {
		be_skip("lanes", "no OpenCL device here works on host pages");
		device_kernel_unload(dev, k);
		return;
	}
	for (uint32_t i = 0; i < 4; i++) {
		w[i] = (struct worker){ dev, k, i, 0 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].err, 0);
	}
	device_kernel_unload(dev, k);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Kernels that are not what their signature says                        */

static const struct {
	const char *source, *signature;
	int err;
	const char *logged;
} wrong[] = {
	{ "(__global int *x, ulong n)", "k(inout i32 x[])", 0, "" },
	{ "(__global int *x, ulong n, __global int *result)", "k(inout i32 x[])", 0, "" },
	{ "(__global int *x, ulong n, unsigned int a)", "k(inout i32 x[], u32 a)", 0, "" },
	{ "(__global int *x)", "k(inout i32 x[])", -ENOEXEC, " has 1 arguments, must have 2" },
	{ "(__global int *x, ulong n, int a, int b)", "k(inout i32 x[])", -ENOEXEC,
	  " has 4 arguments, must have 2" },
	{ "(__global int *x, uint n)", "k(inout i32 x[])", -ENOEXEC,
	  "argument 2 is \"uint\", must be \"ulong\"" },
	{ "(__global float *x, ulong n)", "k(inout i32 x[])", -ENOEXEC,
	  "argument 1 is \"__global float*\", must be \"__global int*\"" },
	{ "(__global int4 *x, ulong n)", "k(inout i32 x[])", -ENOEXEC, "must be \"__global int*\"" },
	{ "(__global const int *x, ulong n)", "k(out i32 x[])", -ENOEXEC,
	  "argument 1 is \"__global const int*\", must be \"__global int*\"" },
	{ "(__global int *x, ulong n)", "k(in i32 x[])", -ENOEXEC,
	  "must be \"__global const int*\" for k(in i32 x[])" },
	{ "(__local int *x, ulong n)", "k(inout i32 x[])", -ENOEXEC, "argument 1 is \"__local int*\"" },
	{ "(__constant int *x, ulong n)", "k(in i32 x[])", -ENOEXEC, "argument 1 is \"__constant" },
	{ "(float a)", "k(f64 a)", -ENOEXEC, "argument 1 is \"float\", must be \"double\"" },
	{ "(int a)", "k(u32 a)", -ENOEXEC, "must be \"uint\"" },
	{ "(int2 a)", "k(i64 a)", -ENOEXEC, "must be \"long\"" },
	{ "(int a, __global uint *result)", "k(i32 a)", -ENOEXEC,
	  "argument 2 is \"__global uint*\", must be \"__global int*\"" },
};

/* All in one file, as to compile one takes as long as sixteen. */
static void write_wrong(void)
{
	char text[4096];
	size_t n = 0;

	n += (size_t)snprintf(text, sizeof(text), "__kernel void right(int a) { }\n");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "__kernel void k%zu%s { }\n", i,
				      wrong[i].source);
		ck_assert_uint_lt(n, sizeof(text));
	}
	be_write(folder, "wrong.cl", text);
}

START_TEST(arguments_are_checked)
{
	struct device *dev;
	void *right, *k = NULL;

	ck_assert_int_eq(open_opencl(""), 0);
	dev = devices_at(devices, 0);
	write_wrong();
	/* From source, then from a binary: drivers know less of that one. */
	for (int cached = 0; cached < 2; cached++) {
		take_log();
		/* As long as one of its kernels is there the program is. */
		ck_assert_int_eq(load_from(dev, "wrong.cl", "right", "right(i32 a)", &right), 0);
		assert_logged(cached ? "from the cache" : "compiled for");
		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
			char symbol[16];
			const char *log;
			int err;

			snprintf(symbol, sizeof(symbol), "k%zu", i);
			take_log();
			err = load_from(dev, "wrong.cl", symbol, wrong[i].signature, &k);
			log = take_log();
			ck_assert_msg(err == wrong[i].err && strstr(log, wrong[i].logged),
				      "%s for %s: %d, %s", wrong[i].source, wrong[i].signature, err,
				      log);
			if (err)
				assert_reason(wrong[i].logged);
			if (!err)
				device_kernel_unload(dev, k);
		}
		device_kernel_unload(dev, right);
	}
}
END_TEST

START_TEST(bad_sources)
{
	static const unsigned char spirv[] = { 3, 2, 0x23, 7, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0 };
	struct device *dev;
	char path[80], text[256];
	const char *log;
	void *k;
	FILE *f;

	ck_assert_int_eq(open_opencl(""), 0);
	dev = devices_at(devices, 0);
	be_write(folder, "bad.cl", "__kernel void k(int a) {\n\n  no_such_thing(a); }");
	ck_assert_int_eq(load_from(dev, "bad.cl", "k", "k(i32 a)", &k), -ENOEXEC);
	log = take_log();
	ck_assert_msg(strstr(log, "bad.cl: does not compile for opencl0"), "%s", log);
	ck_assert_msg(strstr(log, "wanted for kernel k)"), "%s", log);
	ck_assert_msg(strstr(log, "no_such_thing"), "%s", log);
	ck_assert_msg(strstr(log, "3:3"), "%s", log);	/* the author's line, not ours */
	assert_reason("no_such_thing");
	/* Its other kernels: nobody compiles it for these. */
	ck_assert_int_eq(load_from(dev, "bad.cl", "other", "other(i32 a)", &k), -ENOEXEC);
	assert_reason("no_such_thing");
	ck_assert_str_eq(take_log(), "");
	/* What it includes is mended while araxd runs. */
	snprintf(text, sizeof(text), "#include \"%s/by.h\"\n__kernel void k(int a) { }", folder);
	be_write(folder, "by.cl", text);
	be_write(folder, "by.h", "#error not yet\n");
	ck_assert_int_eq(load_from(dev, "by.cl", "k", "k(i32 a)", &k), -ENOEXEC);
	assert_reason("not yet");
	be_write(folder, "by.h", "\n");
	ck_assert_int_eq(load_from(dev, "by.cl", "k", "k(i32 a)", &k), 0);
	device_kernel_unload(dev, k);
	be_write(folder, "good.cl", "__kernel void k(int a) { }");
	ck_assert_int_eq(load_from(dev, "good.cl", "other", "other(i32 a)", &k), -ENOENT);
	assert_logged("good.cl: has no kernel other");
	assert_reason("good.cl: has no kernel other");
	be_write(folder, "empty.cl", "");
	ck_assert_int_lt(load_from(dev, "empty.cl", "k", "k(i32 a)", &k), 0);
	/* A header and nothing behind it: no driver takes that. */
	snprintf(path, sizeof(path), "%s/k.spv", folder);
	f = fopen(path, "w");
	ck_assert_uint_eq(fwrite(spirv, 1, sizeof(spirv), f), sizeof(spirv));
	fclose(f);
	take_log();
	ck_assert_int_lt(load_from(dev, "k.spv", "k", "k(i32 a)", &k), 0);
	assert_logged("k.spv");
}
END_TEST

/* ------------------------------------------------------------------ */
/* On the way from who compiles to who runs it                           */

static int read_built(const char *bytes, size_t n)
{
	/* Of just that size, for the sanitizer. */
	struct blob file = { memcpy(malloc(n + !n), bytes, n), n }, binary;
	char *table = NULL;
	int err = built_read(&file, &table, &binary);

	if (!err)
		ck_assert(binary.bytes && (char *)binary.data + binary.bytes == (char *)file.data + n);
	free(table);
	free(file.data);
	return err;
}

START_TEST(built_is_read_again)
{
	static char bytes[256];
	struct blob binary = { (char *)"\1\2\3\0\5", 5 }, file = { bytes, 0 }, back;
	int fd = memfd_create("built", MFD_CLOEXEC);
	char *table;

	ck_assert_int_eq(built_write(fd, "k\tg:int*:\nl\n", &binary), 0);
	file.bytes = (size_t)pread(fd, bytes, sizeof(bytes), 0);
	ck_assert_uint_eq(file.bytes, 24 + 12 + 5);
	ck_assert_int_eq(built_read(&file, &table, &back), 0);
	ck_assert_str_eq(table, "k\tg:int*:\nl\n");
	ck_assert(back.bytes == 5 && !memcmp(back.data, binary.data, 5));
	free(table);
	/* Cut anywhere, or longer, it is none. */
	for (size_t n = 0; n < file.bytes; n++)
		ck_assert_int_eq(read_built(bytes, n), -ENOEXEC);
	ck_assert_int_eq(read_built(bytes, file.bytes + 1), -ENOEXEC);
	ck_assert_int_eq(read_built(bytes, file.bytes), 0);
	/* A table that ends in a line, or has an end within; sizes that are beyond all. */
	bytes[24 + 11] = 'x';
	ck_assert_int_eq(read_built(bytes, file.bytes), -ENOEXEC);
	bytes[24 + 11] = '\n';
	bytes[24 + 3] = '\0';
	ck_assert_int_eq(read_built(bytes, file.bytes), -ENOEXEC);
	bytes[24 + 3] = 'x';
	for (int i = 0; i < 24; i++) {
		bytes[i] ^= 0x80;
		ck_assert_int_eq(read_built(bytes, file.bytes), -ENOEXEC);
		bytes[i] ^= 0x80;
	}
	close(fd);
}
END_TEST

static const struct {
	const char *table;
	int err;
} tables[] = {
	{ "k\tg:int*:\tp:ulong:\n", 0 }, { "k\t?\t?\n", 0 }, { "k\t?x\t?y\n", 0 }, { "l\n", -ENOENT }, { "", -ENOENT },
	/* By the table with a result, which the driver denies. */
	{ "k\t?x\t?y\t?z\n", -ENOEXEC },
	{ "k\n", -ENOEXEC }, { "k\t\t\n", -ENOEXEC }, { "k\tg\tp\n", -ENOEXEC }, { "k\tg:\tp:\n", -ENOEXEC },
	{ "k\tg:int*:\t\n", -ENOEXEC }, { "k\tg:int*\tp:\n", -ENOEXEC }, { "k\t?\tp:ulong:x\n", 0 },
};

/* Who compiles may have become somebody else's: what it says of a kernel is right, or that is refused. */
START_TEST(tables_are_anybodys)
{
	char path[UNIT_TMP_LEN + 8], text[] = "__kernel void k(__global int *x, ulong n) { }", *table;
	const struct arax_backend_kernel desc = { .size = sizeof(desc), .file = "k", .symbol = "k" };
	const struct blob source = { text, sizeof(text) - 1 };
	struct device *dev = open_one("");
	struct opencl_device *bare;
	struct blob binary, file;
	int fd;
	void *k;

	ck_assert_int_eq(opencl_device_open_bare(0, &bare), 0);
	fd = memfd_create("built", MFD_CLOEXEC);
	ck_assert_int_eq(opencl_program_compile(bare, &desc, &source, fd), 0);
	file.bytes = (size_t)lseek(fd, 0, SEEK_END);
	file.data = malloc(file.bytes);
	ck_assert_int_eq(pread(fd, file.data, file.bytes, 0), file.bytes);
	close(fd);
	ck_assert_int_eq(built_read(&file, &table, &binary), 0);
	free(table);
	snprintf(path, sizeof(path), "%s/built", folder);
	be_write(folder, "built", "");
	opencl_options.built = true;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		fd = open(path, O_RDWR | O_TRUNC);
		ck_assert_int_eq(built_write(fd, tables[i].table, &binary), 0);
		close(fd);
		ck_assert_int_eq(load_from(dev, "built", "k", "k(inout i32 x[])", &k), tables[i].err);
		if (!tables[i].err)
			device_kernel_unload(dev, k);
	}
	free(file.data);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The cache                                                             */

#define CACHE_FILES "find '%s/cache' -maxdepth 1 -name '*.program'"

static int count_entries(void)
{
	char command[256];
	FILE *f;
	int n = -1;

	snprintf(command, sizeof(command), CACHE_FILES " | wc -l", folder);
	f = popen(command, "r");
	ck_assert_int_eq(fscanf(f, "%d", &n), 1);
	pclose(f);
	return n;
}

static void spoil(const char *how)
{
	char command[512];

	snprintf(command, sizeof(command), "for f in $(" CACHE_FILES "); do %s; done", folder, how);
	ck_assert_int_eq(system(command), 0);
}

static void load_expecting(const char *text)
{
	struct device *dev = devices_at(devices, 0);
	struct arax_launch_range r;
	int32_t x[3] = { 1, 2, 3 };
	void *k;

	take_log();
	k = load(dev, "inc", INC);
	assert_logged(text);
	r = put(dev, x, sizeof(x));
	ck_assert_int_eq(launch(dev, k, 0, 2, 1, &r, 1, NULL, 0), 0);
	take(dev, r, x);
	ck_assert_int_eq(x[2], 4);
	device_kernel_unload(dev, k);
}

static const char *const spoilings[] = {
	": >$f",				/* empty */
	"truncate -s 20 $f",			/* not even a head */
	"truncate -s -1 $f",
	"printf x >>$f",
	"printf y | dd of=$f conv=notrunc bs=1 seek=3 2>/dev/null",	/* magic */
	"printf x | dd of=$f conv=notrunc bs=1 seek=15 2>/dev/null",	/* a length */
	"printf x | dd of=$f conv=notrunc bs=1 seek=$(($(stat -c %s $f) / 2)) 2>/dev/null",
	"chmod 666 $f",				/* somebody else's, perhaps */
	"cp $f $f.x; rm $f; ln -s $f.x $f",
	"rm $f; mkdir $f",
};

START_TEST(cache_is_used_and_mended)
{
	void *k;

	open_one("");
	load_expecting("compiled for");
	ck_assert_int_eq(count_entries(), 1);
	load_expecting("from the cache");
	close_devices();
	open_one("");
	load_expecting("from the cache");
	spoil(spoilings[_i]);
	load_expecting("compiled for");
	if (!strstr(spoilings[_i], "mkdir"))	/* that one stays in the way */
		load_expecting("from the cache");
	be_write(folder, "other.cl", "__kernel void k(int a) { }");
	ck_assert_int_eq(load_from(devices_at(devices, 0), "other.cl", "k", "k(i32 a)", &k), 0);
	ck_assert_int_eq(count_entries(), 2);
	device_kernel_unload(devices_at(devices, 0), k);
}
END_TEST

static bool mended_driver;

/* Instead of the C library's: shared objects are newer than they are. */
int stat(const char *restrict path, struct stat *restrict st)
{
	int err = fstatat(AT_FDCWD, path, st, 0);

	if (!err && mended_driver && strstr(path, ".so"))
		st->st_mtim.tv_sec++;
	return err;
}

/* Its version is the same. */
START_TEST(cache_of_a_driver_that_was_mended)
{
	open_one("");
	load_expecting("compiled for");
	load_expecting("from the cache");
	close_devices();
	mended_driver = true;
	open_one("");
	load_expecting("compiled for");
	load_expecting("from the cache");
}
END_TEST

/* However that is written. */
static const char *const includings[] = {
	"# include \"%s\"", "#/**/include \"%s\"", "#\\\ninclude \"%s\"", "#inc\\ \r\nlude \"%s\"",
	"#\f/* a */ /**\\\n/import \"%s\"", "%%:include_next \"%s\"", "?\?=inc?\?/\nlude \"%s\"",
	"#if __has_include(\"%s\")\n#define BY 8\n#endif\n#ifndef BY\n#define BY 0\n#endif",
#ifdef __x86_64__
	/* The digit in that line of text, by the assembler, whose words a preprocessor puts together. */
	"#define BINARY \"bin\"\n"
	"int by(void)\n{ int v; __asm__(\"jmp 2f\\n1: .inc\" BINARY \" \\\"%s\\\"\\n2: movzbl 1b+11(%%%%rip), %%0\" : \"=r\"(v)); return v - '0'; }\n"
	"#define BY by()",
#endif
};

/* What it includes may have changed, and is not in the text. */
START_TEST(includes_are_not_cached)
{
	char text[512], path[UNIT_TMP_LEN + 8];
	bool asks = strstr(includings[_i], "has");
	struct arax_launch_range r;
	int32_t x[1] = { 1 };
	struct device *dev;
	size_t n;
	void *k;

	snprintf(path, sizeof(path), "%s/by.h", folder);
	n = (size_t)snprintf(text, sizeof(text), includings[_i], path);
	snprintf(text + n, sizeof(text) - n, "\n__kernel void k(__global int *x, ulong n) { x[0] += BY; }");
	be_write(folder, "by.cl", text);
	for (int by = 3; by <= 5; by += 2) {
		snprintf(text, sizeof(text), "#define BY %d\n", by);
		if (!asks || by == 5)
			be_write(folder, "by.h", text);
		dev = open_one("");
		ck_assert_int_eq(load_from(dev, "by.cl", "k", "k(inout i32 x[])", &k), 0);
		ck_assert_int_eq(count_entries(), 0);
		r = put(dev, x, sizeof(x));
		ck_assert_int_eq(launch(dev, k, 0, 1, 1, &r, 1, NULL, 0), 0);
		take(dev, r, x);
		device_kernel_unload(dev, k);
		close_devices();
	}
	ck_assert_int_eq(x[0], 1 + 3 + 5);
}
END_TEST

/* What only has the word in it is. */
START_TEST(others_are_cached)
{
	struct device *dev = open_one("");
	void *k;

	be_write(folder, "by.cl", "/* It may include: whatever. */\n__kernel void k(int include) { int embed = include, asmus = 0, plasm; }");
	ck_assert_int_eq(load_from(dev, "by.cl", "k", "k(i32 include)", &k), 0);
	ck_assert_int_eq(count_entries(), 1);
	device_kernel_unload(dev, k);
}
END_TEST

/* Of a part of a device, too: PoCL names the whole one in its programs. */
START_TEST(cache_of_sub_devices)
{
	struct device *dev;
	void *k;

	open_one("\"sub-devices=2\"");
	dev = devices_at(devices, 1);
	if (!dev) {
		be_skip("cache_of_sub_devices", "the OpenCL device has one unit, or can't be divided");
		return;
	}
	for (int cached = 0; cached < 2; cached++) {
		take_log();
		k = load(dev, "inc", INC);
		assert_logged(cached ? "from the cache" : "compiled for");
		device_kernel_unload(dev, k);
	}
}
END_TEST

/* What others could have written is neither read nor written. */
START_TEST(cache_of_others)
{
	char command[128];

	open_one("");
	load_expecting("compiled for");
	close_devices();
	snprintf(command, sizeof(command), "chmod 777 %s/cache", folder);
	ck_assert_int_eq(system(command), 0);
	take_log();
	open_one("");
	assert_logged("no cache of built programs");
	load_expecting("compiled for");
	ck_assert_int_eq(count_entries(), 1);
}
END_TEST

/* What PoCL can't write there ends the process: it writes elsewhere. */
START_TEST(cache_without_room)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/cache", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("arax-test", path, "tmpfs", 0, "size=1m,mode=0700")) {
		be_skip("cache_without_room", "no namespace of mounts can be had here");
		return;
	}
	unsetenv("POCL_CACHE_DIR");
	open_one("");
	ck_assert_int_eq(strncmp(getenv("POCL_CACHE_DIR"), "/tmp/arax-pocl-", 15), 0);
	assert_logged("/cache/pocl is not used: fewer than 64 MiB, or no file, are free there");
	close_devices();
	ck_assert_int_eq(umount2(path, MNT_DETACH), 0);
	unsetenv("POCL_CACHE_DIR");
	open_one("");
	snprintf(path, sizeof(path), "%s/cache/pocl", folder);
	ck_assert_str_eq(getenv("POCL_CACHE_DIR"), path);
}
END_TEST

static unsigned int nr_counted;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	nr_counted += type == FTW_F;
	return 0;
}

/* Files that PoCL has in its folder. */
static unsigned int count_pocl_files(void)
{
	nr_counted = 0;
	ck_assert_int_eq(nftw(getenv("POCL_CACHE_DIR"), count_one, 16, FTW_PHYS), 0);
	return nr_counted;
}

static const struct {
	bool several_users;
	const char *options, *variable;
	bool specializes;
} specializations[] = {
	{ false, "", NULL, true },
	{ true, "", NULL, false },
	{ true, ", \"specialize=auto\"", NULL, false },
	{ true, ", \"specialize=yes\"", NULL, true },
	{ false, ", \"specialize=no\"", NULL, false },
	{ true, "", "1", true },
	{ false, "", "0", false },
};

/* What one user launches is compiled in a process that others use only where it is their own. */
START_TEST(sizes_of_groups)
{
	char path[80], options[80];
	unsigned int before;
	struct device *dev;
	void *k;

	/* PoCL's alone, of this test alone. */
	snprintf(path, sizeof(path), "%s/pocl", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	setenv("POCL_CACHE_DIR", path, 1);
	unsetenv("POCL_WORK_GROUP_SPECIALIZATION");
	if (specializations[_i].variable)
		setenv("POCL_WORK_GROUP_SPECIALIZATION", specializations[_i].variable, 1);
	several_users = specializations[_i].several_users;
	snprintf(options, sizeof(options), "\"platforms=Portable Computing Language\"%s",
		 specializations[_i].options);
	if (open_opencl(options) == -ENODEV) {
		be_skip("sizes_of_groups", "PoCL is not among the OpenCL drivers");
		return;
	}
	be_write(folder, "k.cl", kernels);
	dev = devices_at(devices, 0);
	k = load(dev, "groups", GROUPS);
	before = count_pocl_files();
	for (uint32_t items = 1; items <= 5; items++) {
		uint32_t out[15] = { 0 };
		struct arax_launch_range r = range(out, sizeof(out));

		ck_assert_int_eq(launch(dev, k, 0, 3, items, &r, 1, NULL, 0), 0);
		for (uint32_t i = 0; i < 15; i++)
			ck_assert_uint_eq(out[i], i < 3 * items ? i : 0);
	}
	if (specializations[_i].specializes)
		ck_assert_uint_ge(count_pocl_files(), before + 5);
	else
		ck_assert_uint_eq(count_pocl_files(), before);
	device_kernel_unload(dev, k);
}
END_TEST

START_TEST(cache_is_bounded)
{
	char command[512];

	open_one("");
	snprintf(command, sizeof(command),
		 "cd %s/cache && for i in $(seq 1100); do : >$i.program; done && touch -d '1 day ago' *.program && touch -d '2 days ago' .tmp-1-x",
		 folder);
	ck_assert_int_eq(system(command), 0);
	load_expecting("compiled for");
	ck_assert_int_eq(count_entries(), 1024);
	load_expecting("from the cache");	/* the oldest went */
	snprintf(command, sizeof(command), "test ! -e %s/cache/.tmp-1-x", folder);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Options                                                               */

static const struct {
	const char *option;
	int err;
} options[] = {
	{ "lanes=1", 0 }, { "lanes=16", 0 }, { "lanes=0", -EINVAL }, { "lanes=17", -EINVAL },
	{ "lanes=x", -EINVAL }, { "lanes=-1", -EINVAL }, { "sub-devices=0", -EINVAL },
	{ "zero-copy=yes", -EINVAL }, { "zero-copy=no", 0 }, { "memory=12K", 0 },
	{ "memory=0", -EINVAL }, { "memory=1X", -EINVAL }, { "memory=99999999999T", -EINVAL },
	{ "platforms=*", 0 }, { "platforms=", -EINVAL }, { "cache=here", -EINVAL },
	{ "cache=no", 0 }, { "nonsense=1", -ENOENT }, { "devices=", -EINVAL },
	{ "probe-seconds=600", 0 }, { "probe-seconds=0", -EINVAL }, { "probe-seconds=3601", -EINVAL },
	{ "compile-seconds=3600", 0 }, { "compile-seconds=0", -EINVAL },
	{ "compile-seconds=3601", -EINVAL }, { "specialize=auto", 0 }, { "specialize=yes", 0 },
	{ "specialize=no", 0 }, { "specialize=1", -EINVAL },
};

START_TEST(options_are_checked)
{
	char text[64];

	snprintf(text, sizeof(text), "\"%s\"", options[_i].option);
	ck_assert_int_eq(open_opencl(text), options[_i].err);
}
END_TEST

START_TEST(patterns_choose)
{
	static const char *const none[] = { "platforms=no such", "devices=no such" };
	char text[64];

	snprintf(text, sizeof(text), "\"%s\"", none[_i]);
	ck_assert_int_eq(open_opencl(text), -ENODEV);
	assert_logged(_i ? "no usable device of" : "no device in those that match \"no such\"");
}
END_TEST

START_TEST(no_driver)
{
	setenv("OCL_ICD_VENDORS", "/nowhere", 1);
	setenv("OPENCL_VENDOR_PATH", "/nowhere", 1);
	ck_assert_int_eq(open_opencl(""), -ENODEV);
	assert_logged("no OpenCL driver: install one (Debian: pocl-opencl-icd)");
}
END_TEST

/* ------------------------------------------------------------------ */
/* Drivers that do worse than to say no                                  */

#define BAD_ICD	"build/test/bad_icd.so"

static const struct {
	const char *does, *what, *why;
} bad[] = {
	{ "abort", "crashed", "bad.icd crashed (Aborted), saying \"bad_icd: out of luck\"" },
	{ "exit", "ended its process", "bad.icd ended its process (status 7)" },
	{ "hang", "did not answer", "bad.icd did not answer within 1 s (option probe-seconds)" },
};

static void install_bad(const char *does)
{
	char path[96], *at = realpath(BAD_ICD, NULL);

	ck_assert_ptr_nonnull(at);
	snprintf(path, sizeof(path), "%s/icd", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	setenv("OCL_ICD_VENDORS", path, 1);
	setenv("BAD_ICD", does, 1);
	be_write(path, "bad.icd", at);
	free(at);
}

/* With the processor, which goes on. */
static const char *open_beside(const char *option)
{
	char text[256];

	snprintf(text, sizeof(text), "cpu { groups = { \"%d\" } } backend \"opencl\" { options = { \"cache=no\"%s } }",
		 sched_getcpu(), option);
	ck_assert_int_eq(open_devices(text), 0);
	ck_assert_uint_eq(devices_count(devices), 1);
	ck_assert_uint_eq(devices_nr_absent(devices), 1);
	ck_assert_str_eq(devices_absent(devices, 0)->backend, "opencl");
	return devices_absent(devices, 0)->why;
}

START_TEST(bad_drivers)
{
	const char *why;

	install_bad(bad[_i].does);
	why = open_beside(strcmp(bad[_i].does, "hang") ? "" : ", \"probe-seconds=1\"");
	ck_assert_msg(strstr(why, bad[_i].why), "%s", why);
	ck_assert_msg(strstr(why, "remove it, or name others in OCL_ICD_VENDORS"), "%s", why);
	/* It is not here, nor anything that could have loaded it. */
	ck_assert_int_ne(system("grep -q -e bad_icd -e libOpenCL /proc/$PPID/maps"), 0);
}
END_TEST

/* Whether the others go on, and none of them is blamed, if each has so long to answer. */
static bool others_go_on(unsigned int seconds)
{
	const char *why, *blamed;
	char text[256];

	snprintf(text, sizeof(text), "cpu { enable = false } backend \"opencl\" { options = { \"cache=no\", \"probe-seconds=%u\" } }",
		 seconds);
	if (open_devices(text) || !devices_count(devices))
		return false;
	ck_assert_uint_eq(devices_nr_absent(devices), 1);
	why = devices_absent(devices, 0)->why;
	blamed = strstr(why, "bad.icd");
	return blamed && strstr(why, ".icd") == blamed + 3;
}

/* Beside those that are installed, which go on. */
START_TEST(bad_driver_of_several)
{
	/* All of that is waited for if one hangs: it is as short as this machine allows. */
	unsigned int seconds = strcmp(bad[_i].does, "hang") ? 16 : 1;
	char command[160], what[64];
	const char *why;

	install_bad(bad[_i].does);
	snprintf(command, sizeof(command), "cp /etc/OpenCL/vendors/*.icd %s/icd", folder);
	if (system(command)) {
		be_skip("bad_driver_of_several", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	for (; !others_go_on(seconds); seconds *= 2) {
		ck_assert_uint_lt(seconds, 64);
		close_devices();
	}
	why = devices_absent(devices, 0)->why;
	snprintf(what, sizeof(what), "/icd/bad.icd %s", bad[_i].what);
	ck_assert_msg(strstr(why, "OpenCL driver /") && strstr(why, what), "%s", why);
	/* Workers are told of the others; it is not here. */
	ck_assert_ptr_nonnull(getenv("ARAX_OPENCL_DRIVERS"));
	ck_assert_int_ne(system("grep -q bad_icd /proc/$PPID/maps"), 0);
	ck_assert_int_eq(system("grep -q -r bad_icd $OCL_ICD_VENDORS"), 256);
}
END_TEST

/* Behind many: each of them has its turn. */
START_TEST(bad_driver_behind_many)
{
	char path[96], name[32], library[64];
	const char *why;

	install_bad("abort");
	snprintf(path, sizeof(path), "%s/icd", folder);
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "a%02d.icd", i);
		snprintf(library, sizeof(library), "/nowhere/driver-%02d.so", i);
		be_write(path, name, library);
	}
	why = open_beside("");
	ck_assert_msg(strstr(why, "OpenCL driver /") && strstr(why, "/icd/bad.icd crashed"), "%s", why);
	ck_assert_ptr_null(strstr(why, "is left out"));
}
END_TEST

/* In front of the one that is installed.  False: there is none. */
static bool install_in_front(const char *does)
{
	FILE *f = popen("cat /etc/OpenCL/vendors/*.icd 2>/dev/null | head -n 1", "r");
	char driver[256] = "";

	ck_assert_ptr_nonnull(f);
	if (fgets(driver, sizeof(driver), f))
		driver[strcspn(driver, "\n")] = '\0';
	pclose(f);
	if (!driver[0])
		return false;
	setenv("BAD_ICD_DRIVER", driver, 1);
	install_bad(does);
	be_write(folder, "spoilt.cl", "/* SPOILT */ __kernel void k(int a) { }");
	be_write(folder, "k.cl", kernels);
	return true;
}

/* A device of so many units in so many parts, where the driver does @does. */
static bool divided(const char *does, int units, const char *option, int parts)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", units);
	setenv("POCL_MAX_PTHREAD_COUNT", text, 1);
	if (!install_in_front(does) || !strstr(getenv("BAD_ICD_DRIVER"), "pocl")) {
		be_skip("sub-devices", "the first driver in /etc/OpenCL/vendors is not PoCL, whose units can be set");
		return false;
	}
	ck_assert_int_eq(open_opencl(option), 0);
	ck_assert_uint_eq(devices_count(devices), parts);
	return true;
}

/* No unit is left out, and parts are as equal as can be. */
START_TEST(uneven_sub_devices)
{
	if (!divided("", 7, "\"sub-devices=4\"", 4))
		return;
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(devices_at(devices, i)->info.units, i < 3 ? 2 : 1);
	ck_assert_ptr_null(strstr(read_log(), "not used"));
}
END_TEST

/* What is left over is said, with what would help. */
START_TEST(sub_devices_of_one_size)
{
	if (!divided("no-counts", 7, "\"sub-devices=2\"", 2))
		return;
	ck_assert_uint_eq(devices_at(devices, 0)->info.units, 3);
	ck_assert_uint_eq(devices_at(devices, 1)->info.units, 3);
	assert_logged("1 of its 7 units are not used: its driver makes parts of one size alone (CL_INVALID_VALUE): take sub-devices that divide 7");
}
END_TEST

/* More parts of that size than there may be devices: 300 of one unit. */
START_TEST(many_sub_devices_of_one_size)
{
	if (divided("no-counts", 300, "\"sub-devices=200\"", 200))
		assert_logged("100 of its 300 units are not used");
}
END_TEST

/* The second device has no room for all its parts, the third one for none: said once. */
START_TEST(more_devices_than_may_be)
{
	const char *first, text[] = "there are 256 devices already";

	setenv("POCL_DEVICES", "pthread pthread pthread", 1);
	if (!divided("", 130, "\"sub-devices=130\"", 256))
		return;
	first = strstr(read_log(), text);
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_null(strstr(first + 1, text));
}
END_TEST

START_TEST(no_sub_devices)
{
	if (divided("no-parts", 7, "\"sub-devices=2\"", 1))
		assert_logged("is not divided: its driver makes no 2 parts by counts of units (CL_INVALID_VALUE) nor of 3 units each (CL_INVALID_VALUE): try another number");
}
END_TEST

/* The 301st platform's 301st device is as good as any. */
START_TEST(last_of_many)
{
	if (!install_in_front("crowd")) {
		be_skip("last_of_many", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl("\"devices=[!f]*\""), 0);
	ck_assert_uint_ge(devices_count(devices), 1);
	ck_assert_ptr_null(strstr(read_log(), "left out"));
}
END_TEST

/* A fourth dimension, which nobody asks for, is no reason to have groups of one work-item. */
START_TEST(more_dimensions)
{
	int32_t x[8] = { 0 };
	struct arax_launch_range r = range(x, sizeof(x));
	struct device *dev;
	void *inc;

	if (!install_in_front("four-dims")) {
		be_skip("more_dimensions", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl(""), 0);
	dev = devices_at(devices, 0);
	inc = load(dev, "inc", INC);
	ck_assert_int_eq(launch(dev, inc, 0, 1, 8, &r, 1, NULL, 0), 0);
	ck_assert_int_eq(x[7], 1);
	device_kernel_unload(dev, inc);
}
END_TEST

/* What goes is no kernel's argument any more: parts, copies of parts, and whole allocations. */
START_TEST(no_stale_arguments)
{
	struct arax_launch_range r[2];
	int32_t zero[4096] = { 0 };
	struct device *dev;
	uint64_t a, b;
	void *two;

	if (!install_in_front("stale-abort")) {
		be_skip("no_stale_arguments", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl("\"zero-copy=no\", \"memory=8M\""), 0);
	dev = devices_at(devices, 0);
	two = load(dev, "two", TWO);
	ck_assert_int_eq(device_alloc(dev, sizeof(zero), 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, zero, sizeof(zero)), 0);
	r[0] = device_range(a + 8192, 8);
	r[1] = device_range(a + 4, 8);
	ck_assert_int_eq(launch(dev, two, 0, 1, 1, r, 2, NULL, 0), 0);
	r[0] = device_range(a + 4, 16);
	ck_assert_int_eq(launch(dev, two, 0, 1, 1, r, 2, NULL, 0), 0);
	ck_assert_int_eq(device_alloc(dev, sizeof(zero), 0, &b), 0);
	r[0] = device_range(a, sizeof(zero));
	r[1] = device_range(b, sizeof(zero));
	ck_assert_int_eq(launch(dev, two, 0, 1, 1, r, 2, NULL, 0), 0);
	device_free(dev, a);
	device_free(dev, b);
	device_kernel_unload(dev, two);
}
END_TEST

static const struct {
	const char *does, *what, *option;
} compilers[] = {
	{ "build-abort", "crashed (Aborted), saying \"bad_icd: out of luck\"", "" },
	{ "build-exit", "ended its process (status 7)", "" },
	/* What all of a service gets does not reach who watches. */
	{ "build-stop", "crashed (Aborted), saying \"bad_icd: out of luck\"", "" },
	/* PoCL compiles there. */
	{ "binary-abort", "crashed (Aborted), saying \"bad_icd: out of luck\"", "" },
	{ "build-hang", "did not answer within 1 s (option compile-seconds)", "\"compile-seconds=1\"" },
};

static void is_refused(const char *logged)
{
	struct device *dev = devices_at(devices, 0);
	void *k;

	take_log();
	ck_assert_int_eq(load_from(dev, "spoilt.cl", "k", "k(i32 a)", &k), -ENOEXEC);
	assert_logged(logged);
	assert_reason("the driver's compiler");
	/* Its other kernels: that was said. */
	ck_assert_int_eq(load_from(dev, "spoilt.cl", "other", "other(i32 a)", &k), -ENOEXEC);
	ck_assert_ptr_null(strstr(take_log(), "spoilt.cl: no kernel"));
	assert_reason("the driver's compiler");
}

/* It costs what is in that file, and is remembered for a day. */
START_TEST(bad_compilers)
{
	char says[256];
	void *k;

	snprintf(says, sizeof(says), "%s (wanted for kernel k): use another version of the driver",
		 compilers[_i].what);
	if (!install_in_front(compilers[_i].does)) {
		be_skip("bad_compilers", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl(compilers[_i].option), 0);
	is_refused(says);
	ck_assert_int_eq(count_entries(), 1);
	/* A sound one in the time that one has there takes a fast machine. */
	if (!compilers[_i].option[0])
		load_expecting("compiled for");
	close_devices();
	ck_assert_int_eq(open_opencl(compilers[_i].option), 0);
	snprintf(says, sizeof(says), "%s, as the cache says, and is asked again by an araxd that starts a day after that",
		 compilers[_i].what);
	is_refused(says);
	close_devices();
	spoil("touch -d '25 hours ago' $f");
	setenv("BAD_ICD", "", 1);
	ck_assert_int_eq(open_opencl(""), 0);
	ck_assert_int_eq(load_from(devices_at(devices, 0), "spoilt.cl", "k", "k(i32 a)", &k), 0);
	device_kernel_unload(devices_at(devices, 0), k);
	assert_logged("spoilt.cl: compiled for");
}
END_TEST

/* That what is installed then starts a process that is no longer of its group. */
static void expect_one(void)
{
	char path[UNIT_TMP_LEN + 8];

	snprintf(path, sizeof(path), "%s/left", folder);
	setenv("BAD_ICD_LEFT", path, 1);
}

static bool has_left(void)
{
	FILE *f = fopen(getenv("BAD_ICD_LEFT"), "re");
	int pid = 0;

	ck_assert(f && fscanf(f, "%d", &pid) == 1 && pid > 0);
	fclose(f);
	return !kill(pid, 0) || errno != ESRCH;
}

/* It is gone when the answer comes. */
START_TEST(nothing_is_left)
{
	expect_one();
	if (!install_in_front("build-leave")) {
		be_skip("nothing_is_left", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl(""), 0);
	is_refused("crashed (Aborted)");
	ck_assert(!has_left());
}
END_TEST

/* Soon, where those that look after it are ended themselves: who watches... */
START_TEST(nothing_is_left_by_an_orphan)
{
	expect_one();
	if (!install_in_front("build-leave-orphan")) {
		be_skip("nothing_is_left_by_an_orphan", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl(""), 0);
	is_refused("the driver's compiler is gone, and so is who watched it");
	ck_assert(comes_true(!has_left(), 1000));
	/* It waits for others as before. */
	load_expecting("compiled for");
}
END_TEST

/* ... and who asked. */
START_TEST(nothing_is_left_by_who_is_killed)
{
	char path[UNIT_TMP_LEN + 8];
	struct stat st;
	pid_t pid;
	void *k;

	expect_one();
	snprintf(path, sizeof(path), "%s", getenv("BAD_ICD_LEFT"));
	if (!install_in_front("build-leave-hang")) {
		be_skip("nothing_is_left_by_who_is_killed", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	pid = fork();
	if (!pid) {
		if (!open_opencl(""))
			load_from(devices_at(devices, 0), "spoilt.cl", "k", "k(i32 a)", &k);
		_exit(0);
	}
	ck_assert(comes_true(!stat(path, &st) && st.st_size, 1000));
	ck_assert(has_left());
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert(comes_true(!has_left(), 1000));
}
END_TEST

/* Nor by a driver that is asked for its devices. */
START_TEST(nothing_is_left_of_trials)
{
	expect_one();
	install_bad("leave");
	ck_assert_ptr_nonnull(strstr(open_beside(""), bad[0].why));
	ck_assert(!has_left());
}
END_TEST

/* What was too slow is asked again at once by who gives it more time. */
START_TEST(more_time)
{
	void *k;

	if (!install_in_front("build-hang")) {
		be_skip("more_time", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl("\"compile-seconds=1\""), 0);
	is_refused("did not answer within 1 s");
	ck_assert_int_eq(count_entries(), 1);
	close_devices();
	setenv("BAD_ICD", "", 1);
	ck_assert_int_eq(open_opencl("\"compile-seconds=1\""), 0);
	is_refused("as the cache says");
	close_devices();
	ck_assert_int_eq(open_opencl(""), 0);
	ck_assert_int_eq(load_from(devices_at(devices, 0), "spoilt.cl", "k", "k(i32 a)", &k), 0);
	device_kernel_unload(devices_at(devices, 0), k);
	assert_logged("spoilt.cl: compiled for");
}
END_TEST

/* By others, for want of memory say: it is not remembered, and the next kernel's load asks anew. */
START_TEST(ended_compilers)
{
	struct device *dev;
	void *k;

	if (!install_in_front("build-kill")) {
		be_skip("ended_compilers", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl(""), 0);
	dev = devices_at(devices, 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(load_from(dev, "spoilt.cl", "k", "k(i32 a)", &k), -ENOEXEC);
		assert_logged("something else has ended the driver's compiler (Killed)");
		assert_reason("something else has ended the driver's compiler (Killed)");
		take_log();
	}
	ck_assert_int_eq(count_entries(), 0);
}
END_TEST

/* Who watches, and who waits for requests: araxd does not compile what may be why. */
START_TEST(nobody_watches)
{
	static const char *const gone[] = { "build-orphan", "build-widow" };

	if (!install_in_front(gone[_i])) {
		be_skip("nobody_watches", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	ck_assert_int_eq(open_opencl(""), 0);
	is_refused("the driver's compiler is gone, and so is who watched it");
	ck_assert_int_eq(count_entries(), 0);
	load_expecting(_i ? "the process that compiles sources can't be asked" : "compiled for");
	ck_assert_int_eq(count_entries(), 1);
}
END_TEST

static int limit_child(const struct dirent *e)
{
	const struct rlimit none_more = { 7, 7 };
	char path[300], name[32] = "";
	int parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%31[^)]) %*c %d", name, &parent) == 2 && parent == getpid() &&
	    !strcmp(name, "araxd-compile"))
		ck_assert_int_eq(prlimit(atoi(e->d_name), RLIMIT_NOFILE, &none_more, NULL), 0);
	if (f)
		fclose(f);
	return 0;
}

/* For want of descriptors, or of processes: the sources are none the worse for it. */
START_TEST(nobody_can_watch)
{
	struct dirent **none;
	struct device *dev;

	dev = open_one("\"cache=no\"");
	ck_assert_int_eq(scandir("/proc", &none, limit_child, NULL), 0);
	free(none);
	device_kernel_unload(dev, load(dev, "inc", INC));
	assert_logged("the process that compiles sources can't be asked (Too many open files): araxd does so itself");
}
END_TEST

/* As long as one source may take, and longer; once for each, and not where it is there. */
START_TEST(systemd_waits)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	char text[64] = "";
	void *k;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/notify", folder);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	setenv("NOTIFY_SOCKET", at.sun_path, 1);
	open_one("\"compile-seconds=400\"");
	for (int i = 0; i < 2; i++) {
		k = load(devices_at(devices, 0), "inc", INC);
		device_kernel_unload(devices_at(devices, 0), k);
	}
	ck_assert_int_gt(recv(fd, text, sizeof(text) - 1, 0), 0);
	ck_assert_str_eq(text, "EXTEND_TIMEOUT_USEC=550000000");
	ck_assert_int_lt(recv(fd, text, sizeof(text) - 1, 0), 0);
	close(fd);
}
END_TEST

/* As in some containers: it compiles in a process of its own all the same. */
START_TEST(no_close_range)
{
	if (!install_in_front("build-abort")) {
		be_skip("no_close_range", "no driver is registered in /etc/OpenCL/vendors");
		return;
	}
	refuse_call(SYS_close_range, EPERM);
	ck_assert_int_eq(open_opencl(""), 0);
	is_refused("crashed (Aborted)");
}
END_TEST

static void add_line(void *arg, const char *line)
{
	char *all = arg;
	size_t at = strlen(all);

	snprintf(all + at, 256 - at, "%s|", line);
}

START_TEST(errors_come_first)
{
	char text[] = "1:2: warning: odd\n  source\n\n3:4: error: wrong\n  of this\n4:5: note: since that\n"
		      "5:6: Warning: odder\nERROR: at last\n";
	char all[256] = "";

	build_log_each(text, strlen(text), add_line, all);
	ck_assert_str_eq(all, "3:4: error: wrong|  of this|4:5: note: since that|ERROR: at last|"
			 "1:2: warning: odd|  source|5:6: Warning: odder|");
	all[0] = '\0';
	strcpy(text, "no end");
	build_log_each(text, strlen(text), add_line, all);
	ck_assert_str_eq(all, "no end|");
	all[0] = '\0';
	build_log_each(text, 0, add_line, all);
	ck_assert_str_eq(all, "");
}
END_TEST

static const struct {
	const char *line, *shorter;
} places[] = {
	{ "error: /a/b c/d.cl:3:4: a/b", "error: d.cl:3:4: a/b" }, { "/a/d.cl:3: wrong", "d.cl:3: wrong" },
	{ "3:4: error: /a/b", "3:4: error: /a/b" }, { "error: no /a/b: none", "error: no /a/b: none" },
	{ "a/b:3: wrong", "a/b:3: wrong" }, { "/", "/" }, { "", "" },
};

START_TEST(places_are_short)
{
	char text[64];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		build_log_shorten(places[i].line, text, sizeof(text));
		ck_assert_str_eq(text, places[i].shorter);
	}
	build_log_shorten("/a/b:3: wrong", text, 4);
	ck_assert_str_eq(text, "b:3");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("opencl");
	TCase *t = tcase_create("all"), *much = tcase_create("much");
	TCase *found = tcase_create("discovery");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(much, 120);
	tcase_set_timeout(found, 120);
	tcase_add_checked_fixture(found, setup, teardown);
	tcase_set_tags(much, "long");
	tcase_add_checked_fixture(much, setup, teardown);
	tcase_add_test(t, lanes);
	suite_add_tcase(suite, t);
#ifdef __SANITIZE_THREAD__
	/* The rest has one thread of ours, and takes minutes: it compiles for each. */
	return run_opencl(suite);
#endif
	tcase_add_test(t, host_pages_are_the_same);
	tcase_add_test(t, pages_change_behind_an_address);
	tcase_add_test(t, device_memory);
	tcase_add_test(t, device_ranges);
	tcase_add_test(t, odd_ranges_are_accounted);
	tcase_add_loop_test(t, odd_ranges_on_a_full_device, 0, 3);
	tcase_add_test(t, what_no_kernel_wrote_stays);
	tcase_add_test(t, odd_ranges_that_overlap);
	tcase_add_test(t, odd_ranges_go_back_as_far_as_written);
	tcase_add_test(much, many_sub_devices_of_one_size);
	tcase_add_test(much, more_devices_than_may_be);
	tcase_add_test(found, sub_devices);
	tcase_add_test(found, too_many_sub_devices);
	tcase_add_test(found, uneven_sub_devices);
	tcase_add_test(found, sub_devices_of_one_size);
	tcase_add_test(found, no_sub_devices);
	tcase_add_test(found, more_dimensions);
	tcase_add_test(found, last_of_many);
	tcase_add_loop_test(t, arguments, 0, 2);
	tcase_add_loop_test(t, results, 0, 2);
	tcase_add_loop_test(t, several_on_a_lane, 0, 2);
	tcase_add_test(t, after_others);
	tcase_add_test(t, after_one_that_failed);
	tcase_add_test(t, never_on_its_own_memory);
	tcase_add_test(t, geometry);
	tcase_add_loop_test(t, items_are_dealt, 0, sizeof(deals) / sizeof(deals[0]));
	tcase_add_test(t, names_are_the_kernels);
	tcase_add_test(t, bad_ranges);
	tcase_add_test(much, arguments_are_checked);
	tcase_add_test(much, bad_sources);
	tcase_add_loop_test(much, cache_is_used_and_mended, 0, sizeof(spoilings) / sizeof(spoilings[0]));
	tcase_add_loop_test(much, includes_are_not_cached, 0, sizeof(includings) / sizeof(includings[0]));
	tcase_add_test(much, others_are_cached);
	tcase_add_test(t, cache_of_a_driver_that_was_mended);
	tcase_add_test(t, cache_of_others);
	tcase_add_test(t, cache_without_room);
	tcase_add_test(t, cache_of_sub_devices);
	tcase_add_test(t, built_is_read_again);
	tcase_add_test(t, tables_are_anybodys);
	tcase_add_test(t, cache_is_bounded);
	tcase_add_loop_test(much, sizes_of_groups, 0,
			    sizeof(specializations) / sizeof(specializations[0]));
	tcase_add_loop_test(t, options_are_checked, 0, sizeof(options) / sizeof(options[0]));
	tcase_add_loop_test(t, patterns_choose, 0, 2);
	tcase_add_test(t, no_driver);
	tcase_add_loop_test(t, bad_drivers, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, nothing_is_left_of_trials);
	tcase_add_test(t, errors_come_first);
	tcase_add_test(t, places_are_short);
	tcase_add_loop_test(much, bad_driver_of_several, 0, 3);
	tcase_add_test(much, bad_driver_behind_many);
	tcase_add_test(much, no_stale_arguments);
	tcase_add_loop_test(much, bad_compilers, 0, sizeof(compilers) / sizeof(compilers[0]));
	tcase_add_test(much, nothing_is_left);
	tcase_add_test(much, nothing_is_left_by_an_orphan);
	tcase_add_test(much, nothing_is_left_by_who_is_killed);
	tcase_add_test(much, more_time);
	tcase_add_test(much, systemd_waits);
	tcase_add_test(much, ended_compilers);
	tcase_add_loop_test(much, nobody_watches, 0, 2);
	tcase_add_test(much, nobody_can_watch);
	tcase_add_test(much, no_close_range);
	suite_add_tcase(suite, found);
	suite_add_tcase(suite, much);
	return run_opencl(suite);
}
