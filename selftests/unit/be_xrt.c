// SPDX-License-Identifier: MIT
/*
 * The XRT backend on XRT's own user space with its noop shim: the whole flow, from an
 * .xclbin to the end of a run.  No kernel computes anything there, so what is looked at
 * is which calls succeed, which bytes the copies leave where, and what is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "daemon/backends/device.h"
#include "daemon/backends/xrt/api.h"
#include "daemon/log.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/xclbin_write.h"
#include "uapi/arax.h"

#define PAGE	4096u

#define VADD	"vadd(in i32 a[], inout i32 b[], f32 f)"
#define VSUB	"vsub(inout i32 a[])"
#define VMUL	"vmul(inout i32 a[], i8 c, i16 s, u32 u, i64 l, f64 d)"

static struct config config;
static struct devices *devices;
static struct device *dev;
static char folder[64];

static int open_xrt(const char *options)
{
	char text[512], error[256];

	snprintf(text, sizeof(text), "cpu { enable = false } backend \"xrt\" { options = { \"emulation=noop\"%s%s } }",
		 options[0] ? ", " : "", options);
	ck_assert_msg(!config_parse(&config, "test", text, strlen(text), error, sizeof(error)), "%s",
		      error);
	return devices_open(&config, &devices);
}

static void write_xclbin(const char *name, uint8_t id, const char *const *kernels, int nr)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	ck_assert_int_eq(xclbin_save(path, id, kernels, nr), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

static void setup(void)
{
	static const char *const a[] = { "vadd 2 G0UG0Uf", "vsub 1 G0U" };
	static const char *const b[] = { "vmul 1 G1UcsuUd" };
	char path[80];
	int fd;

	be_mkdir(folder);
	snprintf(path, sizeof(path), "%s/log", folder);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	log_init(fd, LOG_LEVEL_DEBUG, LOG_FORMAT_PLAIN);
	write_xclbin("a.xclbin", 0xaa, a, 2);
	write_xclbin("b.xclbin", 0xbb, b, 1);
}

static void teardown(void)
{
	devices_close(devices);
	devices = NULL;
	config_free(&config);
	be_rmdir(folder);
}

static void start(const char *options)
{
	ck_assert_int_eq(open_xrt(options), 0);
	dev = devices_at(devices, 0);
	ck_assert_ptr_nonnull(dev);
}

/* The log so far, quotes as they were; it is empty afterwards. */
static const char *take_log(void)
{
	static char text[65536];
	char path[80], *to = text;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/log", folder);
	fd = open(path, O_RDWR | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	for (const char *from = text; *from; from++)
		if (from[0] != '\\' || from[1] != '"')
			*to++ = *from;
	*to = '\0';
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	close(fd);
	return text;
}

static void assert_logged(const char *text)
{
	const char *log = take_log();

	ck_assert_msg(strstr(log, text), "'%s' is not in:\n%s", text, log);
}

static int try_load(const char *file, const char *symbol, const char *signature, void **kernel)
{
	struct arax_backend_kernel k = { .size = sizeof(k), .symbol = symbol,
					 .signature = signature };
	char path[128];
	int err;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	k.file = path;
	k.fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(k.fd, 0);
	err = device_kernel_load(dev, &k, kernel);
	close(k.fd);
	return err;
}

static void *load(const char *file, const char *symbol, const char *signature)
{
	void *k = NULL;
	int err = try_load(file, symbol, signature, &k);

	ck_assert_msg(!err, "%s: %d\n%s", symbol, err, take_log());
	return k;
}

static void configure(void *kernel)
{
	int err = device_configure(dev, kernel);

	ck_assert_msg(!err, "%d\n%s", err, take_log());
}

static struct arax_launch_range at(uint64_t address, uint64_t bytes)
{
	return (struct arax_launch_range){ (void *)(uintptr_t)address, bytes, 0, 1 };
}

static int launch(void *kernel, uint32_t lane, const struct arax_launch_range *r, uint32_t n,
		  const void *args, uint32_t arg_len)
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = n, .grid = { 8, 1, 1 }, .block = { 1, 1, 1 },
		.group_end = 8, .ranges = r, .args = args, .arg_len = arg_len,
	};
	struct arax_backend_run run = { .size = sizeof(run), .lane = lane, .kernel = kernel,
					.launch = &l, .name = "test" };

	return device_run(dev, &run);
}

/* ------------------------------------------------------------------ */

START_TEST(the_device)
{
	void *a, *b;

	start("\"lanes=3\", \"memory=48M\"");
	ck_assert_uint_eq(devices_count(devices), 1);
	ck_assert_str_eq(dev->info.name, "xrt0 noop");
	ck_assert_uint_eq(dev->info.kind, ARAX_DEVICE_XRT);
	ck_assert_uint_eq(dev->info.lanes, 3);
	ck_assert_uint_eq(dev->info.memory, 48 << 20);
	assert_logged("its kernels compute nothing");
	/* Its lanes are compute units: first of the file that has most, then of the one loaded. */
	b = load("b.xclbin", "vmul", VMUL);
	device_refresh(dev);
	ck_assert_uint_eq(dev->info.lanes, 1);
	a = load("a.xclbin", "vadd", VADD);
	device_refresh(dev);
	ck_assert_uint_eq(dev->info.units, 3);
	ck_assert_uint_eq(dev->info.lanes, 3);
	configure(b);
	device_refresh(dev);
	ck_assert_uint_eq(dev->info.units, 1);
	ck_assert_uint_eq(dev->info.lanes, 1);
	device_kernel_unload(dev, a);
	device_kernel_unload(dev, b);
}
END_TEST

/* What is allocated lies in the bank that the kernels are connected to. */
START_TEST(memory)
{
	uint64_t a, b, c;
	char out[64];
	void *k;

	start("\"memory=1M\"");
	k = load("b.xclbin", "vmul", VMUL);
	ck_assert_int_eq(device_alloc(dev, 64, 0, &a), -EAGAIN);
	configure(k);
	assert_logged("1 compute units, bank 1");
	ck_assert_int_eq(device_alloc(dev, 600 << 10, 0, &a), 0);
	ck_assert_int_eq(device_alloc(dev, 500 << 10, 0, &b), -ENOMEM);
	assert_logged("no room for 512000 bytes: 614400 of 1048576 are in use");
	ck_assert_int_eq(device_alloc(dev, 424 << 10, 0, &b), 0);
	ck_assert_int_eq(device_alloc(dev, 1, 0, &c), -ENOMEM);
	ck_assert_int_eq(device_alloc(dev, UINT64_MAX, 0, &c), -ENOMEM);
	ck_assert_int_eq(device_alloc(dev, 0, 0, &c), -EINVAL);
	ck_assert_int_eq(device_alloc(dev, 1, 4096, &c), -EOPNOTSUPP);
	ck_assert(a + (600 << 10) < b || b + (424 << 10) < a);
	ck_assert_int_eq(device_copy_in(dev, 0, a, "hello", 6), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, b + 1000, "world", 6), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a + (600 << 10) - 3, "end", 3), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, out, a, 6), 0);
	ck_assert_str_eq(out, "hello");
	ck_assert_int_eq(device_copy_out(dev, 0, out, b + 1000, 6), 0);
	ck_assert_str_eq(out, "world");
	ck_assert_int_eq(device_copy_out(dev, 0, out, a + (600 << 10) - 3, 3), 0);
	ck_assert_int_eq(memcmp(out, "end", 3), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, out, b, 0), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a + (600 << 10) - 3, "end", 4), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, a - 1, 1), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, 0, 1), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, a + 1, UINT64_MAX), -EFAULT);
	device_free(dev, a);
	ck_assert_int_eq(device_copy_out(dev, 0, out, a, 1), -EFAULT);
	ck_assert_int_eq(device_copy_out(dev, 0, out, b + 1000, 6), 0);
	ck_assert_str_eq(out, "world");
	take_log();
	device_free(dev, a);
	assert_logged("nothing was allocated at");
	device_free(dev, b);
	device_kernel_unload(dev, k);
}
END_TEST

START_TEST(a_bank_is_the_limit)
{
	uint64_t a;
	void *k;

	start("\"memory=1G\"");
	k = load("a.xclbin", "vadd", VADD);
	configure(k);
	ck_assert_int_eq(device_alloc(dev, ((uint64_t)XCLBIN_BANK_KB << 10) + 1, 0, &a), -ENOMEM);
	assert_logged("no room for 67112960 bytes: 0 of 67108864 are in use");
	ck_assert_int_eq(device_alloc(dev, (uint64_t)XCLBIN_BANK_KB << 10, 0, &a), 0);
	device_free(dev, a);
	device_kernel_unload(dev, k);
}
END_TEST

/*
 * On pages of the host the buffer object is those pages, and the shim moves nothing: so
 * all that can be seen is that they stay as they are, and that no other bytes get in.
 */
START_TEST(host_pages)
{
	char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char other[64] = "other";
	uint64_t a, b;
	void *k;

	ck_assert_ptr_ne(pages, MAP_FAILED);
	start("");
	k = load("a.xclbin", "vsub", VSUB);
	configure(k);
	strcpy(pages + PAGE + 100, "mine");
	ck_assert_int_eq(device_alloc_on(dev, 2 * PAGE + 10, pages + PAGE, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a + 100, pages + PAGE + 100, 5), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, pages + PAGE + 100, a + 100, 5), 0);
	ck_assert_str_eq(pages + PAGE + 100, "mine");
	ck_assert_int_eq(device_copy_in(dev, 0, a + 100, other, 6), -EINVAL);
	ck_assert_int_eq(device_copy_in(dev, 0, a + 104, pages + PAGE + 100, 6), -EINVAL);
	ck_assert_int_eq(device_copy_out(dev, 0, other, a + 100, 5), -EINVAL);
	ck_assert_str_eq(pages + PAGE + 100, "mine");
	ck_assert_str_eq(other, "other");
	/* Where nothing may begin, it has pages of its own, and takes what there is. */
	ck_assert_int_eq(device_alloc_on(dev, PAGE, pages + 100, &b), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, b, other, 6), 0);
	memset(other, 0, sizeof(other));
	ck_assert_int_eq(device_copy_out(dev, 0, other, b, 6), 0);
	ck_assert_str_eq(other, "other");
	ck_assert_int_eq(pages[100], 0);
	device_free(dev, a);
	device_free(dev, b);
	device_kernel_unload(dev, k);
	munmap(pages, 4 * PAGE);
}
END_TEST

START_TEST(host_pages_can_be_refused)
{
	char *pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t a;
	void *k;

	start("\"zero-copy=no\"");
	k = load("a.xclbin", "vsub", VSUB);
	configure(k);
	strcpy(pages, "before");
	ck_assert_int_eq(device_alloc_on(dev, PAGE, pages, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, pages, PAGE), 0);
	strcpy(pages, "after");
	ck_assert_int_eq(device_copy_out(dev, 0, pages, a, PAGE), 0);
	ck_assert_str_eq(pages, "before");
	device_free(dev, a);
	device_kernel_unload(dev, k);
	munmap(pages, PAGE);
}
END_TEST

/* ------------------------------------------------------------------ */

/* Ranges anywhere inside an allocation; the bytes stay, as nothing is computed. */
START_TEST(runs_end)
{
	static const uint64_t offsets[] = { 0, 4, 100, 4096, 8188 };
	int32_t host[4096], back[4096];
	struct arax_launch_range r[2];
	struct { int8_t c; int16_t s; uint32_t u; int64_t l; double d; } args = { -1, -2, 3, -4, 5 };
	float f = 1.5f;
	uint64_t mem;
	void *vadd, *vsub, *vmul;

	start("");
	vadd = load("a.xclbin", "vadd", VADD);
	vsub = load("a.xclbin", "vsub", VSUB);
	vmul = load("b.xclbin", "vmul", VMUL);
	configure(vadd);
	ck_assert_int_eq(device_alloc(dev, sizeof(host), 0, &mem), 0);
	for (int i = 0; i < 4096; i++)
		host[i] = i * 7;
	ck_assert_int_eq(device_copy_in(dev, 0, mem, host, sizeof(host)), 0);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		r[0] = at(mem + offsets[i], 64);
		r[1] = at(mem + offsets[i] + 64, 4);
		ck_assert_int_eq(launch(vadd, i % 3, r, 2, &f, sizeof(f)), 0);
		ck_assert_int_eq(launch(vsub, i % 2, r, 1, NULL, 0), 0);
	}
	r[0] = at(mem, 0);
	r[1] = at(mem + sizeof(host), 0);
	ck_assert_int_eq(launch(vadd, 0, r, 2, &f, sizeof(f)), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, back, mem, sizeof(back)), 0);
	ck_assert_int_eq(memcmp(host, back, sizeof(host)), 0);
	device_free(dev, mem);
	configure(vmul);
	ck_assert_int_eq(device_alloc(dev, 64, 0, &mem), 0);
	r[0] = at(mem, 64);
	ck_assert_int_eq(launch(vmul, 0, r, 1, &args, sizeof(args)), 0);
	device_free(dev, mem);
	device_kernel_unload(dev, vadd);
	device_kernel_unload(dev, vsub);
	device_kernel_unload(dev, vmul);
}
END_TEST

static enum ert_cmd_state (*wait_for_run)(xrtRunHandle run);
static enum ert_cmd_state state;

static enum ert_cmd_state end_as_told(xrtRunHandle run)
{
	enum ert_cmd_state s = wait_for_run(run);

	return state ? state : s;
}

/* A unit that may still write to its buffers has none of them given to others. */
START_TEST(runs_without_an_end)
{
	static const struct { enum ert_cmd_state state; int err; } ends[] = {
		{ ERT_CMD_STATE_ERROR, -EIO }, { ERT_CMD_STATE_ABORT, -EIO },
		{ ERT_CMD_STATE_TIMEOUT, -ENODEV }, { ERT_CMD_STATE_NORESPONSE, -ENODEV },
	};
	struct arax_launch_range r;
	uint64_t mem, more;
	void *vsub;

	start("");
	vsub = load("a.xclbin", "vsub", VSUB);
	configure(vsub);
	ck_assert_int_eq(device_alloc(dev, 64, 0, &mem), 0);
	r = at(mem, 64);
	wait_for_run = xrt.RunWait;
	xrt.RunWait = end_as_told;
	state = ends[_i].state;
	ck_assert_int_eq(launch(vsub, 0, &r, 1, NULL, 0), ends[_i].err);
	state = 0;
	ck_assert_int_eq(launch(vsub, 0, &r, 1, NULL, 0), ends[_i].err == -ENODEV ? -ENODEV : 0);
	ck_assert_int_eq(device_alloc(dev, 64, 0, &more), ends[_i].err == -ENODEV ? -ENODEV : 0);
	if (ends[_i].err != -ENODEV)
		device_free(dev, more);
	device_free(dev, mem);
	device_kernel_unload(dev, vsub);
}
END_TEST

START_TEST(bad_launches)
{
	struct arax_launch_range r[2], strided;
	char host[64];
	float f = 1;
	uint64_t mem;
	void *k;

	start("");
	k = load("a.xclbin", "vadd", VADD);
	configure(k);
	ck_assert_int_eq(device_alloc(dev, 4096, 0, &mem), 0);
	r[0] = at(mem, 64);
	r[1] = at(mem + 64, 64);
	ck_assert_int_eq(launch(k, 0, r, 2, &f, 4), 0);
	take_log();
	ck_assert_int_eq(launch(k, 0, r, 1, &f, 4), -EINVAL);
	assert_logged("arguments: are not as the signature says (said once)");
	ck_assert_int_eq(launch(k, 0, r, 2, &f, 8), -EINVAL);
	strided = r[0];
	r[0].count = 2;
	r[0].stride = 128;
	ck_assert_int_eq(launch(k, 0, r, 2, &f, 4), -EINVAL);
	r[0] = at(mem + 1, 64);
	ck_assert_int_eq(launch(k, 0, r, 2, &f, 4), -EINVAL);
	r[0] = at((uintptr_t)host, 64);
	ck_assert_int_eq(launch(k, 0, r, 2, &f, 4), -EFAULT);
	r[0] = at(mem + 4092, 8);
	ck_assert_int_eq(launch(k, 0, r, 2, &f, 4), -EFAULT);
	r[0] = strided;
	ck_assert_int_eq(launch(k, 0, r, 2, &f, 4), 0);
	ck_assert_str_eq(take_log(), "");
	device_free(dev, mem);
	device_kernel_unload(dev, k);
}
END_TEST

/* Lanes beside each other, each with memory of its own. */
#define LANES	3
#define RUNS	50

struct lane_arg {
	void *kernel;
	uint32_t lane;
};

static void *lane_main(void *p)
{
	const struct lane_arg *arg = p;
	struct arax_launch_range r[2];
	float f = 1;
	uint64_t mem, value, back;

	for (uint64_t i = 0; i < RUNS; i++) {
		ck_assert_int_eq(device_alloc(dev, 4096, 0, &mem), 0);
		value = i << 8 | arg->lane;
		ck_assert_int_eq(device_copy_in(dev, arg->lane, mem + 8, &value, 8), 0);
		r[0] = at(mem, 16);
		r[1] = at(mem + 8, 8);
		ck_assert_int_eq(launch(arg->kernel, arg->lane, r, 2, &f, 4), 0);
		ck_assert_int_eq(device_copy_out(dev, arg->lane, &back, mem + 8, 8), 0);
		ck_assert_uint_eq(back, value);
		device_free(dev, mem);
	}
	return NULL;
}

START_TEST(lanes_side_by_side)
{
	struct lane_arg args[LANES];
	pthread_t threads[LANES];
	void *k;

	start("");
	k = load("a.xclbin", "vadd", VADD);
	configure(k);
	for (uint32_t i = 0; i < LANES; i++) {
		args[i] = (struct lane_arg){ k, i };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, lane_main, &args[i]), 0);
	}
	for (uint32_t i = 0; i < LANES; i++)
		pthread_join(threads[i], NULL);
	device_kernel_unload(dev, k);
}
END_TEST

/* ------------------------------------------------------------------ */

START_TEST(configurations)
{
	void *vadd, *vsub, *vmul;
	struct arax_launch_range r;
	uint64_t mem;

	start("\"switch-ms=70000\"");
	ck_assert(device_is_configured(dev));
	vadd = load("a.xclbin", "vadd", VADD);
	vmul = load("b.xclbin", "vmul", VMUL);
	vsub = load("a.xclbin", "vsub", VSUB);
	/* By what is in the files. */
	ck_assert_uint_gt(device_configuration(dev, vadd), 0);
	ck_assert_uint_eq(device_configuration(dev, vadd), device_configuration(dev, vsub));
	ck_assert_uint_ne(device_configuration(dev, vadd), device_configuration(dev, vmul));
	ck_assert_uint_eq(device_switch_ns(dev, vadd), 70000000000);
	ck_assert_int_eq(launch(vsub, 0, NULL, 0, NULL, 0), -ENOEXEC);
	assert_logged("its xclbin is not on the device");
	configure(vadd);
	assert_logged("switch 1");
	ck_assert_uint_eq(device_switch_ns(dev, vadd), 0);
	ck_assert_uint_eq(device_switch_ns(dev, vsub), 0);
	/* As that one took, until it was there itself. */
	ck_assert_uint_gt(device_switch_ns(dev, vmul), 0);
	ck_assert_uint_lt(device_switch_ns(dev, vmul), 70000000000);
	configure(vsub);
	ck_assert_str_eq(take_log(), "");
	ck_assert_int_eq(device_alloc(dev, 64, 0, &mem), 0);
	r = at(mem, 64);
	ck_assert_int_eq(launch(vsub, 0, &r, 1, NULL, 0), 0);
	ck_assert_int_eq(device_configure(dev, vmul), -EBUSY);
	assert_logged("1 allocations are in the way");
	ck_assert_int_eq(launch(vsub, 0, &r, 1, NULL, 0), 0);
	device_free(dev, mem);
	for (int i = 0; i < 4; i++) {
		char text[32];

		configure(i % 2 ? vadd : vmul);
		snprintf(text, sizeof(text), "switch %d", i + 2);
		assert_logged(text);
		ck_assert_uint_eq(device_switch_ns(dev, i % 2 ? vadd : vmul), 0);
		ck_assert_uint_gt(device_switch_ns(dev, i % 2 ? vmul : vadd), 0);
		ck_assert_int_eq(device_alloc(dev, 64, 0, &mem), 0);
		r = at(mem, 64);
		ck_assert_int_eq(launch(vsub, 0, &r, 1, NULL, 0), i % 2 ? 0 : -ENOEXEC);
		device_free(dev, mem);
	}
	/* What is loaded goes with its last kernel. */
	device_kernel_unload(dev, vadd);
	device_kernel_unload(dev, vsub);
	ck_assert_int_eq(device_alloc(dev, 64, 0, &mem), -EAGAIN);
	configure(vmul);
	device_kernel_unload(dev, vmul);
}
END_TEST

/* ------------------------------------------------------------------ */

static void write_bytes(const char *name, const uint8_t *data, size_t bytes)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "wb");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
	ck_assert_int_eq(fclose(f), 0);
}

static void assert_refused(const char *file, const char *symbol, const char *signature, int err,
			   const char *text)
{
	void *k = NULL;

	take_log();
	ck_assert_int_eq(try_load(file, symbol, signature, &k), err);
	ck_assert_ptr_null(k);
	assert_logged(text);
}

START_TEST(bad_files)
{
	static const char *const kernels[] = { "vsub 1 G0U" };
	uint8_t *data;
	size_t bytes;

	start("");
	data = xclbin_write(1, kernels, 1, &bytes);
	write_bytes("t.xclbin", data, bytes - 1);
	assert_refused("t.xclbin", "vsub", VSUB, -ENOEXEC, "it is truncated");
	write_bytes("t.xclbin", data, sizeof(struct axlf));
	assert_refused("t.xclbin", "vsub", VSUB, -ENOEXEC, "it is truncated");
	write_bytes("t.xclbin", data, 100);
	assert_refused("t.xclbin", "vsub", VSUB, -ENOEXEC, "100 bytes, the header alone has 496");
	write_bytes("t.xclbin", data, 0);
	assert_refused("t.xclbin", "vsub", VSUB, -ENOEXEC, "not an xclbin");
	data[6]++;
	write_bytes("t.xclbin", data, bytes);
	assert_refused("t.xclbin", "vsub", VSUB, -ENOEXEC, "does not begin with \"xclbin2\"");
	data[6]--;
	/* The last section ends behind the end. */
	data[offsetof(struct axlf, m_sections[0].m_sectionSize) + 3 * 40 + 2]++;
	write_bytes("t.xclbin", data, bytes);
	assert_refused("t.xclbin", "vsub", VSUB, -ENOEXEC, "section 3 (kind 2) ends at byte");
	data[offsetof(struct axlf, m_sections[0].m_sectionSize) + 3 * 40 + 2]--;
	data[offsetof(struct axlf, m_header.m_numSections) + 1]++;
	write_bytes("t.xclbin", data, bytes);
	assert_refused("t.xclbin", "vsub", VSUB, -ENOEXEC, "260 sections in");
	data[offsetof(struct axlf, m_header.m_numSections) + 1]--;
	write_bytes("t.xclbin", data, bytes);
	device_kernel_unload(dev, load("t.xclbin", "vsub", VSUB));
	free(data);
}
END_TEST

/* XRT would read on behind their ends; also of what no kernel here asks for. */
START_TEST(tables_longer_than_their_sections)
{
	static const char *const kernels[] = { "nop 1 U" };
	static const struct { uint32_t section, kind; const char *why; } tables[] = {
		{ 0, IP_LAYOUT, "section IP_LAYOUT has 88 bytes, too few for 60000 entries" },
		{ 1, MEM_TOPOLOGY, "section MEM_TOPOLOGY has 88 bytes" },
		{ 1, ASK_GROUP_TOPOLOGY, "section GROUP_TOPOLOGY has 88 bytes" },
		{ 2, CONNECTIVITY, "section CONNECTIVITY has 4 bytes" },
		{ 2, ASK_GROUP_CONNECTIVITY, "section GROUP_CONNECTIVITY has 4 bytes" },
	};

	start("");
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		const int32_t count = 60000;
		struct axlf_section_header h;
		uint8_t *data, *at;
		size_t bytes;

		data = xclbin_write(1, kernels, 1, &bytes);
		at = data + offsetof(struct axlf, m_sections) + tables[i].section * sizeof(h);
		memcpy(&h, at, sizeof(h));
		h.m_sectionKind = tables[i].kind;
		memcpy(at, &h, sizeof(h));
		memcpy(data + h.m_sectionOffset, &count, sizeof(count));
		write_bytes("t.xclbin", data, bytes);
		assert_refused("t.xclbin", "nop", "nop(u64 a)", -ENOEXEC, tables[i].why);
		free(data);
	}
}
END_TEST

START_TEST(bad_kernels)
{
	static const char *const kernels[] = {
		"vsub 1 G0U", "nounit 0 G0U", "apart 1 G0UG1U", "other 1 G1U", "pointer 1 G0Up",
		"ints 1 G0Ui", "words 1 G0UU", "short 1 G0u",
	};
	void *k;

	start("");
	write_xclbin("k.xclbin", 3, kernels, 8);
	assert_refused("k.xclbin", "nope", VSUB, -ENOENT, "has no kernel nope");
	assert_refused("k.xclbin", "no", VSUB, -ENOENT, "has no kernel no");
	assert_refused("k.xclbin", "vsu", VSUB, -ENOENT, "has no kernel vsu");
	assert_refused("k.xclbin", "nounit", "nounit(inout i32 a[])", -ENOENT,
		       "has no compute unit of kernel nounit");
	assert_refused("k.xclbin", "vsub", "vsub(inout i32 a[], u32 n)", -ENOEXEC,
		       "vsub has 2 arguments, must have 3");
	assert_refused("k.xclbin", "vsub", "vsub()", -ENOEXEC, "vsub has 2 arguments, must have 0");
	assert_refused("k.xclbin", "vsub", "vsub(u64 a, u64 b)", -ENOEXEC,
		       "argument 0 is in memory of 8 bytes (\"int*\"), must be a scalar of 8");
	assert_refused("k.xclbin", "words", "words(u64 a, u64 b, u64 c)", -ENOEXEC,
		       "argument 0 is in memory");
	assert_refused("k.xclbin", "short", "short(inout i32 a[])", -ENOEXEC,
		       "argument 1 is a scalar of 4 bytes (\"uint\"), must be a scalar of 8");
	assert_refused("k.xclbin", "pointer", "pointer(inout i32 a[], u64 c)", -ENOEXEC,
		       "argument 2 is a scalar of 8 bytes (\"int*\")");
	assert_refused("k.xclbin", "ints", "ints(inout i32 a[], i64 c)", -ENOEXEC,
		       "argument 2 is a scalar of 4 bytes");
	assert_refused("k.xclbin", "apart", "apart(inout i32 a[], inout i32 b[])", -ENOEXEC,
		       "no bank of memory in common: link it with one for all");
	k = load("k.xclbin", "vsub", VSUB);
	assert_refused("k.xclbin", "other", "other(inout i32 a[])", -ENOEXEC,
		       "no bank of memory in common with the file's other kernels (banks 0x2, theirs 0x1)");
	device_kernel_unload(dev, k);
}
END_TEST

START_TEST(bad_options)
{
	static const char *const bad[] = {
		"\"root=here\"", "\"emulation=yes\"", "\"lanes=0\"", "\"lanes=65\"", "\"memory=1X\"",
		"\"memory=\"", "\"memory=99999999999999G\"", "\"switch-ms=0\"", "\"switch-ms=600001\"",
		"\"zero-copy=yes\"", "\"speed=1\"",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(open_xrt(bad[i]) < 0, "%s", bad[i]);
		assert_logged(strstr(bad[i], "speed") ? "there is no such key" : "want ");
		config_free(&config);
	}
}
END_TEST

/* Its parts are looked for before XRT is: the reason is short enough for `arax devices`. */
START_TEST(parts_are_missing)
{
	static char text[256];
	char root[sizeof(folder) + 32];
	const char *why;

	snprintf(root, sizeof(root), "\"root=%s/none\"", folder);
	ck_assert_int_eq(open_xrt(root), -ENODEV);
	why = strstr(take_log(), "XRT's driver part is missing");
	ck_assert_ptr_nonnull(why);
	snprintf(text, sizeof(text), "%s/none/lib/libxrt_noop.so.2: No such file", folder);
	ck_assert_msg(strstr(why, text), "'%s' is not in: %s", text, why);
	config_free(&config);
	/* What is there, but no library. */
	snprintf(root, sizeof(root), "%s/lib", folder);
	ck_assert_int_eq(mkdir(root, 0755), 0);
	be_write(root, "libxrt_noop.so.2", "no library");
	snprintf(root, sizeof(root), "\"root=%s\"", folder);
	ck_assert_int_eq(open_xrt(root), -ENODEV);
	assert_logged("XRT's driver part can't be opened");
}
END_TEST

/* ------------------------------------------------------------------ */

/* In a child, so that XRT isn't loaded here: why there is no device, or "". */
static void why_not(char *why, size_t len)
{
	int p[2];
	pid_t pid;
	ssize_t n;

	if (pipe(p))
		abort();
	pid = fork();
	if (!pid) {
		const char *text = "backend \"xrt\" { options = { \"emulation=noop\" } }", *s;
		char error[256];

		log_max_level = LOG_LEVEL_ERR;
		if (config_parse(&config, "test", text, strlen(text), error, sizeof(error)) ||
		    devices_open(&config, &devices))
			_exit(1);
		s = devices_nr_absent(devices) ? devices_absent(devices, 0)->why : "";
		if (write(p[1], s, strlen(s)) < 0)
			_exit(1);
		devices_close(devices);
		_exit(0);
	}
	close(p[1]);
	n = read(p[0], why, len - 1);
	why[n > 0 ? n : 0] = '\0';
	close(p[0]);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	Suite *s = suite_create("xrt");
	TCase *c = tcase_create("xrt");
	char why[256];

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, the_device);
	tcase_add_test(c, memory);
	tcase_add_test(c, a_bank_is_the_limit);
	tcase_add_test(c, host_pages);
	tcase_add_test(c, host_pages_can_be_refused);
	tcase_add_test(c, runs_end);
	tcase_add_loop_test(c, runs_without_an_end, 0, 4);
	tcase_add_test(c, bad_launches);
	tcase_add_test(c, lanes_side_by_side);
	tcase_add_test(c, configurations);
	tcase_add_test(c, bad_files);
	tcase_add_test(c, tables_longer_than_their_sections);
	tcase_add_test(c, bad_kernels);
	tcase_add_test(c, bad_options);
	tcase_add_test(c, parts_are_missing);
	suite_add_tcase(s, c);
	why_not(why, sizeof(why));
	if (why[0]) {
		be_skip("xrt", why);
		return 0;
	}
	return be_main(s);
}
