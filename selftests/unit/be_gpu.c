// SPDX-License-Identifier: MIT
/*
 * The GPU backends' flow on a driver in software: emulated, not hardware.  Each test runs
 * once for each backend that is built in.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/backends/apart/apart.h"
#include "daemon/backends/gpu/gpu.h"
#include "daemon/reason.h"
#include "selftests/unit/be_gpu_calls.h"
#include "selftests/unit/wait.h"

#define MIB (1ull << 20)

/* Contexts are built anew in this process; be_apart.c has a driver that doesn't do that. */
static void setup_forgiving(void)
{
	setenv("EMULATED_FORGIVING", "1", 1);
	setup();
}

/* ------------------------------------------------------------------ */
/* What there is                                                         */

START_TEST(devices_are_described)
{
	struct arax_backend_info info = { .size = sizeof(info) };
	void *dev = open_gpu(_i, NULL);

	ck_assert_int_eq(ops->info(dev, &info), 0);
	ck_assert_uint_eq(info.kind, which->kind);
	ck_assert_uint_eq(info.lanes, 4);
	ck_assert_uint_eq(info.units, 3);
	/* A part is the driver's. */
	ck_assert_uint_eq(info.memory, 60 * MIB);
	ck_assert_msg(!!strstr(info.name, EMULATED_NAME), "%s", info.name);
	ck_assert_int_eq(memcmp(info.name, which->name, strlen(which->name)), 0);
	assert_logged("memory pools: yes, memory at wanted addresses: yes");
}
END_TEST

START_TEST(an_old_driver_has_less)
{
	uint64_t a;
	void *dev;

	setenv("EMULATED_OLD", "1", 1);
	dev = open_gpu(_i, NULL);
	assert_logged("memory pools: no, memory at wanted addresses: no");
	ck_assert_int_eq(ops->alloc(dev, 4096, 1ull << 40, &a), -EOPNOTSUPP);
	a = take_memory(dev, 4096);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, "x", 2), 0);
	ops->free(dev, a);
	ck_assert_uint_eq(emu_used(), 0);
}
END_TEST

static const struct {
	const char *key, *value;
	int err;
} options[] = {
	{ "lanes", "1", 0 }, { "lanes", "16", 0 }, { "lanes", "0", -EINVAL },
	{ "lanes", "17", -EINVAL }, { "lanes", "x", -EINVAL }, { "lanes", "2x", -EINVAL },
	{ "memory", "1M", 0 }, { "memory", "0", -EINVAL }, { "memory", "1X", -EINVAL },
	{ "memory", "99999999999T", -EINVAL }, { "devices", "*", 0 }, { "devices", "", -EINVAL },
	{ "pools", "auto", 0 }, { "pools", "no", 0 }, { "pools", "yes", -EINVAL },
	{ "careful", "yes", 0 }, { "careful", "no", -EINVAL }, { "library", "/x.so", 0 }, { "library", "x.so", -EINVAL },
	{ "helper", "/x", 0 }, { "helper", "x", -EINVAL }, { "nonsense", "1", -ENOENT },
};

START_TEST(options_are_checked)
{
	static const char *const none[] = { "devices", "no such*", NULL };

	which = &gpus[_i];
	ck_assert_int_eq(backend_plugin_load(&plugin, which->name, NULL, why, sizeof(why)), 0);
	ck_assert_int_eq(ops->load(), 0);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		ck_assert_msg(ops->config(options[i].key, options[i].value) == options[i].err,
			      "%s=%s", options[i].key, options[i].value);
	ck_assert_int_eq(probe(_i, emulated_path(which), none), -ENODEV);
	ck_assert_msg(!!strstr(why, "no usable device of 2: see the option devices = no such*"),
		      "%s", why);
}
END_TEST

START_TEST(no_driver)
{
	ck_assert_int_eq(probe(_i, "/nowhere/driver.so", NULL), -ENOENT);
	ck_assert_msg(strstr(why, "install") && strstr(why, "/nowhere/driver.so"), "%s", why);
	/* A library, but of something else. */
	ck_assert_int_eq(probe(_i, emulated_path(&gpus[_i]), NULL), 2);
}
END_TEST

START_TEST(another_library)
{
	static const char *const names[] = { "/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6" };
	const char *path = access(names[0], R_OK) ? names[1] : names[0];

	if (access(path, R_OK)) {
		be_skip("another_library", "libm.so.6 is elsewhere");
		return;
	}
	ck_assert_int_eq(probe(_i, path, NULL), -ENOEXEC);
	ck_assert_msg(!!strstr(why, "it is too old: install a newer"), "%s", why);
}
END_TEST

START_TEST(no_device)
{
	setenv("EMULATED_DEVICES", "0", 1);
	ck_assert_int_eq(probe(_i, emulated_path(&gpus[_i]), NULL), -ENODEV);
	ck_assert_msg(strstr(why, which->kind == ARAX_DEVICE_CUDA ?
			     "CUDA_ERROR_NO_DEVICE: the driver sees no GPU" :
			     "hipErrorNoDevice: ROCm sees no GPU"), "%s", why);
}
END_TEST

/* ------------------------------------------------------------------ */
/* What NVML says; of the machine's there is none or another here        */

static void open_with_nvml(int i, const char *mode, const char *library)
{
	const char *options[] = { "nvml", library, NULL };

	if (mode)
		setenv("EMULATED_NVML", mode, 1);
	open_gpu(i, options);
}

static const struct {
	const char *mode;
	int err;
	uint32_t known;
	const char *why;
} nvmls[] = {
	{ NULL, 0, ARAX_GAUGE_BUSY | ARAX_GAUGE_MEMORY | ARAX_GAUGE_TAKEN | ARAX_GAUGE_POWER, "" },
	{ "power", 0, ARAX_GAUGE_BUSY | ARAX_GAUGE_MEMORY | ARAX_GAUGE_TAKEN, "" },
	{ "none", -EOPNOTSUPP, 0, "NVML: Not Supported" },
	{ "lost", -EOPNOTSUPP, 0, "NVML: 0000:a1:00.0: Not Found" },
	{ "init", -EOPNOTSUPP, 0, "NVML: Driver Not Loaded" },
};

#define NR_NVMLS ((int)(sizeof(nvmls) / sizeof(nvmls[0])))

START_TEST(gauges_are_nvmls)
{
	struct arax_backend_gauges g = { .size = sizeof(g) };
	const bool known = nvmls[_i].known & ARAX_GAUGE_POWER;
	char path[4096], text[256] = "";

	if (gpus[0].kind != ARAX_DEVICE_CUDA) {
		be_skip("gauges_are_nvmls", "built without CUDA's headers");
		return;
	}
	open_with_nvml(0, nvmls[_i].mode, emulated_library(path, "nvml"));
	/* The second device: each is found by its place on the bus. */
	ck_assert_int_eq(ops->gauges(devs[1], &g, text, sizeof(text)), nvmls[_i].err);
	ck_assert_str_eq(text, nvmls[_i].why);
	ck_assert_uint_eq(g.known, nvmls[_i].known);
	ck_assert_uint_eq(g.busy, g.known & ARAX_GAUGE_BUSY ? 11 : 0);
	ck_assert_uint_eq(g.memory_busy, g.known & ARAX_GAUGE_MEMORY ? 6 : 0);
	ck_assert_uint_eq(g.memory_taken, g.known & ARAX_GAUGE_TAKEN ? 4u << 20 : 0);
	ck_assert_uint_eq(g.power_mw, known ? 100001 : 0);
}
END_TEST

/* All else works, and the log says it once for each device. */
START_TEST(without_nvml)
{
	struct arax_backend_gauges g = { .size = sizeof(g) };
	char text[256] = "";
	const char *other;

	if (gpus[0].kind != ARAX_DEVICE_CUDA) {
		be_skip("without_nvml", "built without CUDA's headers");
		return;
	}
	/* No library, or one that isn't NVML. */
	other = _i ? emulated_path(&gpus[0]) : "/nowhere/nvml.so";
	open_with_nvml(0, NULL, other);
	assert_logged(_i ? "utilisation and power are not known: /" :
			   "utilisation and power are not known: no NVML, install it");
	ck_assert_int_eq(ops->gauges(devs[0], &g, text, sizeof(text)), -EOPNOTSUPP);
	ck_assert_msg(!!strstr(text, _i ? "has no nvmlInit_v2: install a newer" : "/nowhere/nvml.so"),
		      "%s", text);
	ck_assert_uint_eq(g.known, 0);
	ops->free(devs[0], take_memory(devs[0], 100));
	ck_assert_int_eq(ops->config("nvml", "libnvidia-ml.so.1"), -EINVAL);
}
END_TEST

START_TEST(hip_has_no_nvml)
{
	struct arax_backend_gauges g = { .size = sizeof(g) };
	char text[256] = "?";

	if (gpus[NR_GPUS - 1].kind != ARAX_DEVICE_HIP) {
		be_skip("hip_has_no_nvml", "built without HIP's headers");
		return;
	}
	open_gpu(NR_GPUS - 1, NULL);
	ck_assert_int_eq(ops->gauges(devs[0], &g, text, sizeof(text)), -EOPNOTSUPP);
	ck_assert_str_eq(text, "");
	ck_assert_int_eq(ops->config("nvml", "/x.so"), -ENOENT);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Memory                                                                */

static const char *const pools[][3] = { { "pools", "auto", NULL }, { "pools", "no", NULL } };

static void try_memory(const char *const *how)
{
	void *dev = open_gpu(which - gpus, how);
	uint64_t a, b, c;
	char out[64];

	a = take_memory(dev, 40 * MIB);
	ck_assert_int_eq(ops->alloc(dev, 21 * MIB, 0, &b), -ENOMEM);
	assert_logged("no room for 22020096 bytes: 41943040 of 62914560 are in use");
	b = take_memory(dev, 20 * MIB);
	ck_assert_int_eq(ops->alloc(dev, 1, 0, &c), -ENOMEM);
	ck_assert_int_eq(ops->alloc(dev, UINT64_MAX, 0, &c), -ENOMEM);
	ck_assert_int_eq(ops->alloc(dev, 0, 0, &c), -EINVAL);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, "hello", 6), 0);
	ck_assert_int_eq(ops->copy_in(dev, 1, b + 1000, "world", 6), 0);
	ck_assert_int_eq(ops->copy_in(dev, 0, a + 40 * MIB - 3, "end", 3), 0);
	ck_assert_int_eq(ops->copy_out(dev, 1, out, a, 6), 0);
	ck_assert_str_eq(out, "hello");
	ck_assert_int_eq(ops->copy_out(dev, 0, out, b + 1000, 6), 0);
	ck_assert_str_eq(out, "world");
	ck_assert_int_eq(ops->copy_out(dev, 0, out, b, 0), 0);
	/* The driver never sees these. */
	ck_assert_int_eq(ops->copy_in(dev, 0, a + 40 * MIB - 3, "end", 4), -EFAULT);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a - 1, 1), -EFAULT);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, 0, 1), -EFAULT);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a + 1, UINT64_MAX), -EFAULT);
	ck_assert_int_eq(ops->copy_out(devs[1], 0, out, a, 1), -EFAULT);
	ops->free(dev, a);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, 1), -EFAULT);
	take_log();
	ops->free(dev, a);
	assert_logged("nothing was allocated at");
	ops->free(dev, b);
	ck_assert_uint_eq(emu_used(), 0);
}

START_TEST(memory)
{
	which = &gpus[_i % NR_GPUS];
	try_memory(pools[_i / NR_GPUS]);
}
END_TEST

/* The device is fuller than we know, or a copy fails: that call alone does. */
START_TEST(failures_of_calls)
{
	void *dev = open_gpu(_i, NULL);
	uint64_t a, b;

	a = take_memory(dev, 100);
	emu_fail(EMULATED_ALLOC, 0, OUT_OF_MEMORY);
	take_log();
	ck_assert_int_eq(ops->alloc(dev, 4096, 0, &b), -ENOMEM);
	assert_logged("100 of 62914560 were in use by our count");
	emu_fail(EMULATED_COPY, 0, 1);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, "x", 1), -EINVAL);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, "x", 1), 0);
	/* The pool has given it, and its stream does not say that it is there. */
	emu_fail(EMULATED_WAIT, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(ops->alloc(dev, 4096, 0, &b), -ENOMEM);
	ck_assert_uint_eq(emu_used(), 100);
	emu_fail(EMULATED_WAIT, 0, 0);
	/* What had failed is not counted. */
	b = take_memory(dev, 60 * MIB - 100);
	ops->free(dev, b);
	ops->free(dev, a);
	ck_assert_uint_eq(emu_used(), 0);
}
END_TEST

/* One address space for all devices: one after the other, not both at once. */
START_TEST(wanted_addresses)
{
	const uint64_t at = 1ull << 42;
	void *dev = open_gpu(_i, NULL);
	uint64_t a = 0, b = 0;
	char out[8];

	ck_assert_int_eq(ops->alloc(dev, 5, at, &a), 0);
	ck_assert_uint_eq(a, at);
	ck_assert_uint_eq(emu_used(), 65536);
	ck_assert_int_eq(ops->copy_in(dev, 0, at, "here", 5), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, at, 5), 0);
	ck_assert_str_eq(out, "here");
	ck_assert_int_eq(ops->alloc(dev, 5, at, &b), -EADDRINUSE);
	ck_assert_int_eq(ops->alloc(devs[1], 5, at, &b), -EADDRINUSE);
	ck_assert_int_eq(ops->alloc(devs[1], 5, at + 65536, &b), 0);
	ops->free(devs[1], b);
	ck_assert_int_eq(ops->alloc(dev, 5, at + 4096, &b), -EINVAL);
	ck_assert_int_eq(ops->alloc(dev, UINT64_MAX, at, &b), -EINVAL);
	ck_assert_int_eq(ops->alloc(dev, 61 * MIB, 2 * at, &b), -ENOMEM);
	ops->free(dev, a);
	ck_assert_uint_eq(emu_used(), 0);
	emu_fail(EMULATED_ALLOC, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(ops->alloc(devs[1], 5, at, &b), -ENOMEM);
	/* The failed one has left nothing there. */
	ck_assert_int_eq(ops->alloc(devs[1], 5, at, &b), 0);
	ck_assert_uint_eq(b, at);
	ops->free(devs[1], b);
	ck_assert_uint_eq(emu_used(), 0);
}
END_TEST

START_TEST(peers)
{
	void *dev = open_gpu(_i, NULL);
	uint64_t a = take_memory(dev, 100), b = take_memory(devs[1], 100);
	char out[8] = "";

	ck_assert_int_eq(ops->copy_in(dev, 0, a + 3, "peer", 5), 0);
	ck_assert_int_eq(ops->copy_peer(devs[1], b + 7, dev, a + 3, 5), 0);
	ck_assert_int_eq(ops->copy_out(devs[1], 0, out, b + 7, 5), 0);
	ck_assert_str_eq(out, "peer");
	ck_assert_int_eq(ops->copy_peer(dev, a + 50, devs[1], b + 7, 5), 0);
	ck_assert_int_eq(ops->copy_peer(dev, a + 60, dev, a + 50, 5), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a + 60, 5), 0);
	ck_assert_str_eq(out, "peer");
	ck_assert_int_eq(ops->copy_peer(devs[1], b + 96, dev, a, 5), -EFAULT);
	ck_assert_int_eq(ops->copy_peer(devs[1], b, dev, a + 96, 5), -EFAULT);
	ops->free(dev, a);
	ops->free(devs[1], b);
}
END_TEST

static void copy_across(void)
{
	uint64_t a = take_memory(devs[0], 8), b = take_memory(devs[1], 8);
	char out[8] = "";
	int before = emu_direct();

	ck_assert_int_eq(ops->copy_in(devs[0], 0, a, "across", 7), 0);
	ck_assert_int_eq(ops->copy_peer(devs[1], b, devs[0], a, 7), 0);
	ck_assert_int_eq(ops->copy_out(devs[1], 0, out, b, 7), 0);
	ck_assert_str_eq(out, "across");
	ck_assert_int_eq(emu_direct() - before, 1);
	ops->free(devs[0], a);
	ops->free(devs[1], b);
}

/* Not through the host, out of pools or not, whichever of the two has got a new context. */
START_TEST(peers_are_direct)
{
	which = &gpus[_i % NR_GPUS];
	open_gpu(_i % NR_GPUS, pools[_i / NR_GPUS]);
	copy_across();
	copy_across();
	ck_assert_int_eq(ops->reset(devs[0]), 0);
	copy_across();
	ck_assert_int_eq(ops->reset(devs[1]), 0);
	copy_across();
}
END_TEST

/* A copy is the first to see that a kernel broke the context of the device that it is from. */
START_TEST(a_peer_that_is_broken)
{
	void *dev = open_gpu(_i, NULL);
	void *gate = load(devs[1], GATE), *whole = load(dev, GATE);
	uint64_t a = take_memory(dev, 4), b = take_memory(devs[1], 4);
	struct arax_launch_range r = range(b, 4);
	struct arax_backend_done done;
	struct job j;

	fill(&j, gate, 0, 1, 1, &r, 1, &bad, 4);
	emu_gate(0);
	ck_assert_int_eq(ops->submit(devs[1], &j.run, 1), 0);
	emu_gate(1);
	ck_assert_int_eq(ops->quiesce(devs[1], UINT64_MAX), 0);
	ck_assert_int_eq(ops->copy_peer(dev, a, devs[1], b, 4), -ENODEV);
	assert_whole(dev, whole);
	assert_broken(devs[1], gate, b);
	ck_assert_int_eq(ops->wait(devs[1], 0, &done), 0);
	ck_assert_int_eq(done.result, -EFAULT);
	ck_assert_int_eq(ops->reset(devs[1]), 0);
	ops->kernel_unload(dev, whole);
	ops->kernel_unload(devs[1], gate);
}
END_TEST

START_TEST(host_memory)
{
	static char pages[8192] __attribute__((aligned(4096)));
	void *dev = open_gpu(_i, NULL);

	ck_assert_int_eq(ops->host_register(dev, pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(devs[1], pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(dev, pages, 8192), -EINVAL);
	ck_assert_int_eq(emu_registered(), 1);
	ops->host_unregister(dev, pages);
	ck_assert_int_eq(emu_registered(), 1);
	ops->host_unregister(devs[1], pages);
	ck_assert_int_eq(emu_registered(), 0);
	ops->host_unregister(devs[1], pages);	/* once too often */
	ck_assert_int_eq(emu_registered(), 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Launches                                                              */

START_TEST(arguments)
{
	struct { int8_t a; uint64_t b; uint16_t c; double d; } args = { -3, 1ull << 60, 65535, 2e9 };
	void *dev = open_gpu(_i, NULL);
	void *sizes = load(dev, SIZES), *plain = load(dev, PLAIN);
	uint64_t d = take_memory(dev, 72), b = take_memory(dev, 7), o = take_memory(dev, 32), out[4];
	struct arax_launch_range r[3] = { range(d, 71), range(b, 7), range(o, 32) };

	ck_assert_int_eq(run(dev, sizes, 0, 1, 1, r, 3, NULL, 0), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, o, 32), 0);
	ck_assert_uint_eq(out[0], 8);	/* whole elements */
	ck_assert_uint_eq(out[1], 7);
	ck_assert_uint_eq(out[2], 4);
	ck_assert_uint_eq(out[3], 0);
	r[0].length = 0;
	r[1].length = 0;
	ck_assert_int_eq(run(dev, sizes, 0, 1, 1, r, 3, NULL, 0), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, o, 32), 0);
	ck_assert_uint_eq(out[0], 0);
	ck_assert_uint_eq(out[1], 0);
	ck_assert_uint_eq(out[3], 1);	/* of nothing, nothing is given */
	ck_assert_int_eq(run(dev, plain, 0, 1, 1, &r[2], 1, &args, sizeof(args)), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, o, 32), 0);
	ck_assert_uint_eq(out[0], (uint64_t)-3);
	ck_assert_uint_eq(out[1], 1ull << 60);
	ck_assert_uint_eq(out[2], 65535);
	ck_assert_uint_eq(out[3], 2000000000);
	ops->kernel_unload(dev, sizes);
	ops->kernel_unload(dev, plain);
	ops->free(dev, d);
	ops->free(dev, b);
	ops->free(dev, o);
}
END_TEST

START_TEST(results)
{
	static const int32_t codes[] = { 0, -22, 0, -5, -ENODEV, 0, 0 };
	void *dev = open_gpu(_i, NULL);
	void *k = load(dev, RESULT), *inc = load(dev, INC);
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	int32_t x = 0;

	ck_assert_int_eq(ops->copy_in(dev, 0, a, &x, 4), 0);
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		/* That the device is lost is not a kernel's to say. */
		ck_assert_int_eq(run(dev, k, i % 3, 1, 1, &r, 1, &codes[i], 4),
				 codes[i] == -ENODEV ? -EIO : codes[i]);
		/* One that has none is not given another's. */
		ck_assert_int_eq(run(dev, inc, i % 3, 1, 1, &r, 1, NULL, 0), 0);
	}
	ck_assert_int_eq(ops->copy_out(dev, 0, &x, a, 4), 0);
	ck_assert_int_eq(x, 14);
	ops->kernel_unload(dev, k);
	ops->kernel_unload(dev, inc);
	ops->free(dev, a);
}
END_TEST

START_TEST(geometry)
{
	void *dev = open_gpu(_i, NULL);
	void *k = load(dev, GROUPS);
	uint32_t out[120], seen = 0;
	uint64_t a = take_memory(dev, sizeof(out));
	struct arax_launch_range r = range(a, sizeof(out));
	struct job j;

	fill(&j, k, 0, 5, 2, &r, 1, NULL, 0);
	j.l.grid[1] = 3;
	j.l.grid[2] = 2;
	j.l.block[1] = 2;
	ck_assert_int_eq(ops->run(dev, &j.run), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, sizeof(out)), 0);
	/* Every place of 10 x 6 x 2 once. */
	for (uint32_t z = 0; z < 2; z++)
		for (uint32_t y = 0; y < 6; y++)
			for (uint32_t x = 0; x < 10; x++)
				for (uint32_t i = 0; i < 120; i++)
					seen += out[i] == x + 100 * y + 10000 * z;
	ck_assert_uint_eq(seen, 120);
	ck_assert_uint_gt(j.run.device_ns, 0);
	ck_assert(!j.run.declined);
	take_log();
	j.l.block[0] = 2048;			/* the device's 1024 */
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	ck_assert(j.run.declined);
	assert_logged("geometry: of grid 5, block 2048 in dimension 0: this device takes 2147483647 and 1024");
	j.l.block[0] = 257;			/* twice that is above the kernel's 512 */
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	j.l.block[0] = 1;
	j.l.grid[1] = 65536;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	j.l.grid[1] = 1;
	j.l.grid[0] = UINT32_MAX;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	j.l.grid[0] = INT32_MAX;		/* of each no more than a device takes, but in all */
	j.l.grid[2] = 3;
	j.l.block[1] = 1;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	j.l.grid[2] = 1;
	j.l.grid[0] = 0;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	ck_assert_str_eq(take_log(), "");	/* said once */
	ops->kernel_unload(dev, k);
	ops->free(dev, a);
}
END_TEST

/* HIP counts a launch's threads in 32 bits, in each dimension. */
START_TEST(wide_launch)
{
	bool counts = gpus[_i].kind == ARAX_DEVICE_HIP;
	void *dev = open_gpu(_i, NULL);
	void *k = load(dev, GROUPS);
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	struct job j;

	fill(&j, k, 0, 1 << 24, 256, &r, 1, NULL, 0);
	take_log();
	/* That its kernel would run for minutes: as far as the driver, which refuses it. */
	emu_fail(EMULATED_LAUNCH, 0, 1);
	reason_forget();
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	ck_assert_msg(counts == !!strstr(reason_text, "geometry of grid 16777216, block 256 in dimension 0: this device takes 4294967295 threads in one"),
		      "%s", reason_text);
	/* One less is not too many, and what was not refused by the driver is, now. */
	j.l.grid[0]--;
	if (counts) {
		reason_forget();
		ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
		ck_assert_ptr_null(strstr(reason_text, "geometry"));
	}
	ops->kernel_unload(dev, k);
	ops->free(dev, a);
}
END_TEST

START_TEST(bad_ranges)
{
	void *dev = open_gpu(_i, NULL);
	void *k = load(dev, ADD);
	uint64_t a = take_memory(dev, 256), other = take_memory(devs[1], 256);
	struct arax_launch_range good[2] = { range(a, 128), range(a + 128, 128) }, r[2];
	int32_t by = 1, host[32] = { 0 };

	memcpy(r, good, sizeof(r));
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, &by, 4), 0);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 1, &by, 4), -EINVAL);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, &by, 3), -EINVAL);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, NULL, 0), -EINVAL);
	r[1].count = 2;
	r[1].stride = 8;
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, &by, 4), -EINVAL);
	memcpy(r, good, sizeof(r));
	r[0] = range(a + 2, 124);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, &by, 4), -EINVAL);
	r[0] = range((uintptr_t)host, sizeof(host));
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, &by, 4), -EFAULT);
	r[0] = range(a + 252, 8);		/* one byte too far is too far */
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, &by, 4), -EFAULT);
	r[0] = range(other, 128);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, r, 2, &by, 4), -EFAULT);
	memcpy(r, good, sizeof(r));
	ck_assert_int_eq(run(dev, k, 1, 1, 1, r, 2, &by, 4), 0);
	ops->kernel_unload(dev, k);
	ops->free(dev, a);
	ops->free(devs[1], other);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Copies on one lane by several threads                                 */

#define COPIERS	(GPU_COPY_EVENTS + 2)
#define COPIES	40

struct copier {
	void *dev;
	uint64_t at;
	int first, wrong;
};

static void *copy_both_ways(void *arg)
{
	struct copier *c = arg;
	uint8_t bytes[1024], want[sizeof(bytes)];

	for (int i = 0; i < COPIES; i++) {
		memset(bytes, c->first + i, sizeof(bytes));
		memset(want, c->first + i, sizeof(want));
		c->wrong += !!ops->copy_in(c->dev, 0, c->at, bytes, sizeof(bytes));
		/* It is the caller's again. */
		memset(bytes, 0, sizeof(bytes));
		c->wrong += !!ops->copy_out(c->dev, 0, bytes, c->at, sizeof(bytes));
		c->wrong += !!memcmp(bytes, want, sizeof(bytes));
	}
	return NULL;
}

/* Others flush, and bring ahead, by a lane that is not theirs: each waits for its own copy. */
START_TEST(copies_of_several_threads)
{
	pthread_t threads[COPIERS];
	struct copier c[COPIERS];
	void *dev;

	setenv("EMULATED_SLOW", "300", 1);
	setenv("EMULATED_LATE", "300", 1);
	dev = open_gpu(_i, NULL);
	for (int i = 0; i < COPIERS; i++) {
		c[i] = (struct copier){ dev, take_memory(dev, 1024), 10 * i, 0 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, copy_both_ways, &c[i]), 0);
	}
	for (int i = 0; i < COPIERS; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(c[i].wrong, 0);
	}
	for (int i = 0; i < COPIERS; i++)
		ops->free(dev, c[i].at);
}
END_TEST

START_TEST(lanes)
{
	void *dev = open_gpu(_i, NULL);
	void *k = load(dev, ADD);
	struct worker w[4];
	pthread_t threads[4];

	for (uint32_t i = 0; i < 4; i++) {
		w[i] = (struct worker){ dev, k, i, 0 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].err, 0);
	}
	ops->kernel_unload(dev, k);
	ck_assert_uint_eq(emu_used(), 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Without waiting                                                       */

START_TEST(submitted)
{
	void *dev = open_gpu(_i, NULL);
	void *gate = load(dev, GATE), *inc = load(dev, INC);
	uint64_t a = take_memory(dev, 8);
	struct arax_launch_range r[2] = { range(a, 4), range(a + 4, 4) };
	struct arax_backend_done done[4];
	int32_t x[2] = { 0, 10 };
	struct job j, other;

	ck_assert_int_eq(ops->copy_in(dev, 0, a, x, 8), 0);
	ck_assert_int_eq(ops->poll(dev, done, 4, 0), 0);
	emu_gate(0);
	fill(&j, gate, 0, 1, 1, &r[0], 1, &fine, 4);
	fill(&other, inc, 1, 1, 1, &r[1], 1, NULL, 0);
	ck_assert_int_eq(ops->submit(dev, &j.run, 77), 0);
	wait_for_kernels(1);
	ck_assert_int_eq(ops->submit(dev, &other.run, 78), 0);
	/* Everything is copied by now. */
	memset(&j, 0x5a, sizeof(j));
	ck_assert_int_eq(ops->poll(dev, done, 4, UINT64_MAX), 1);
	ck_assert_uint_eq(done[0].cookie, 78);
	ck_assert_int_eq(done[0].result, 0);
	/* So many are taken on a lane. */
	for (int i = 1; i <= ARAX_LANE_DEPTH; i++) {
		fill(&j, gate, 0, 1, 1, &r[0], 1, &fine, 4);
		ck_assert_int_eq(ops->submit(dev, &j.run, 100 + i), i < ARAX_LANE_DEPTH ? 0 : -EAGAIN);
	}
	ck_assert_int_eq(ops->quiesce(dev, 1), -ETIMEDOUT);
	ck_assert_int_eq(ops->poll(dev, done, 4, 0), 0);
	emu_gate(1);
	ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
	/* In their order, whoever asks. */
	ck_assert_int_eq(ops->poll(dev, done, 1, UINT64_MAX), 1);
	ck_assert_uint_eq(done[0].cookie, 77);
	ck_assert_uint_gt(done[0].device_ns, 0);
	for (uint32_t i = 1; i < ARAX_LANE_DEPTH; i++) {
		ck_assert_int_eq(ops->wait(dev, 0, done), 0);
		ck_assert_uint_eq(done[0].cookie, 100 + i);
		ck_assert_int_eq(done[0].result, 0);
	}
	ck_assert_int_eq(ops->wait(dev, 0, done), -ENOENT);
	ck_assert_int_eq(ops->poll(dev, done, 4, 0), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, x, a, 8), 0);
	ck_assert_int_eq(x[0], ARAX_LANE_DEPTH);
	ck_assert_int_eq(x[1], 11);
	/* That it takes none like this is run()'s to say. */
	j.l.block[0] = 0;
	ck_assert_int_eq(ops->submit(dev, &j.run, 80), -EAGAIN);
	j.run.declined = 0;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	ck_assert(j.run.declined);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, inc);
	ops->free(dev, a);
}
END_TEST

static _Atomic bool gate_opened;

static void *open_gate(void *arg)
{
	wait_for_kernels(1);
	gate_opened = true;
	emu_gate(1);
	return NULL;
}

/* What a launch or a copy ends with can't be had, when it is under way: it has ended all the same. */
START_TEST(ends_that_are_not_to_be_seen)
{
	void *dev = open_gpu(_i, NULL);
	void *gate = load(dev, GATE);
	uint64_t a = take_memory(dev, 4), much = take_memory(dev, 32 * MIB);
	struct arax_launch_range r = range(a, 4);
	char *bytes = calloc(1, 32 * MIB);
	pthread_t opener;
	struct job j;

	/* The first launches are timed, and have an event before them, too. */
	for (int submits = 0; submits < 2; submits++) {
		gate_opened = false;
		emu_gate(0);
		ck_assert_int_eq(pthread_create(&opener, NULL, open_gate, NULL), 0);
		fill(&j, gate, 0, 1, 1, &r, 1, &fine, 4);
		emu_fail(EMULATED_END, 1, OUT_OF_MEMORY);
		ck_assert_int_eq(submits ? ops->submit(dev, &j.run, 1) : ops->run(dev, &j.run), -ENOMEM);
		ck_assert(gate_opened);
		pthread_join(opener, NULL);
	}
	ck_assert_int_eq(ops->quiesce(dev, 0), 0);
	assert_whole(dev, gate);
	memset(bytes, 1, 32 * MIB);
	ck_assert_int_eq(ops->copy_in(dev, 0, much, bytes, 32 * MIB), 0);
	memset(bytes, 0, 32 * MIB);
	emu_fail(EMULATED_END, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(ops->copy_out(dev, 0, bytes, much, 32 * MIB), -ENOMEM);
	ck_assert_int_eq(bytes[32 * MIB - 1], 1);
	free(bytes);
	ops->kernel_unload(dev, gate);
	ops->free(dev, a);
	ops->free(dev, much);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Broken contexts                                                       */

START_TEST(a_kernel_that_faults_alone)
{
	void *dev = open_gpu(_i, NULL);
	void *trap = load(dev, TRAP), *other = load(devs[1], TRAP);
	uint64_t a = take_memory(dev, 4), placed = 0;
	struct arax_launch_range r = range(a, 4);

	ck_assert_int_eq(ops->alloc(dev, 4, 1ull << 42, &placed), 0);
	ck_assert_int_eq(run(dev, trap, 0, 1, 1, &r, 1, &fine, 4), 0);
	take_log();
	/* It is to blame: it fails, and is not run again. */
	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &bad, 4), -EFAULT);
	assert_logged("its context is broken");
	assert_broken(dev, trap, a);
	assert_whole(devs[1], other);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_logged("has a new context");
	ck_assert_int_eq(ops->copy_out(dev, 0, &a, a, 4), -EFAULT);	/* its memory is gone */
	ck_assert_uint_eq(emu_used(), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
	ops->kernel_unload(devs[1], other);
}
END_TEST

/* It is registered in the first one's context, and leaves that though the last one's is broken. */
START_TEST(host_memory_of_another_context)
{
	static char pages[4096] __attribute__((aligned(4096)));
	void *dev = open_gpu(_i, NULL);
	void *trap = load(devs[1], TRAP);
	uint64_t a;
	struct arax_launch_range r;

	ck_assert_int_eq(ops->alloc(devs[1], 4, 0, &a), 0);
	r = range(a, 4);
	ck_assert_int_eq(ops->host_register(dev, pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(devs[1], pages, 4096), 0);
	ops->host_unregister(dev, pages);
	take_log();
	ck_assert_int_eq(run(devs[1], trap, 1, 1, 1, &r, 1, &bad, 4), -EFAULT);
	assert_logged("its context is broken");
	ops->host_unregister(devs[1], pages);
	ck_assert_int_eq(emu_registered(), 0);
	ops->kernel_unload(devs[1], trap);
}
END_TEST

static char shared_pages[4096] __attribute__((aligned(4096)));

static void *unregister_it(void *dev)
{
	ops->host_unregister(dev, shared_pages);
	return NULL;
}

static atomic_bool is_closed;

static void *close_it(void *dev)
{
	ops->close(dev);
	is_closed = true;
	return NULL;
}

/* Another device takes it out of the context of the one that goes: which stays until that is done. */
START_TEST(host_memory_of_a_device_that_goes)
{
	void *dev = open_gpu(_i, NULL);
	pthread_t threads[2];

	ck_assert_int_eq(ops->host_register(dev, shared_pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(devs[1], shared_pages, 4096), 0);
	ops->host_unregister(dev, shared_pages);
	emu_gate(EMULATED_NO_UNREGISTER);
	ck_assert_int_eq(pthread_create(&threads[0], NULL, unregister_it, devs[1]), 0);
	while (!emu_waiting())
		usleep(100);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, close_it, dev), 0);
	usleep(50000);
	ck_assert(!is_closed);
	emu_gate(1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(emu_registered(), 0);
	devs[0] = devs[--nr_devs];
}
END_TEST

static void *reset_it(void *dev)
{
	ck_assert_int_eq(ops->reset(dev), 0);
	return NULL;
}

static int (*real_module_load)(const void *image, char *log, size_t len, void **module);
static void (*real_context_destroy)(int index, void *context);
static atomic_bool module_waits, destroy_waits, destroy_has_come;

static int load_late(const void *image, char *log, size_t len, void **module)
{
	while (module_waits)
		usleep(1000);
	return real_module_load(image, log, len, module);
}

static void destroy_late(int index, void *context)
{
	destroy_has_come = true;
	while (destroy_waits)
		usleep(1000);
	real_context_destroy(index, context);
}

static atomic_bool is_unregistered;

static void *unregister_both(void *dev)
{
	ops->host_unregister(dev, shared_pages);
	ops->host_unregister(devs[1], shared_pages);
	is_unregistered = true;
	return NULL;
}

/* It goes with the old context: nobody waits for the new one to let go of it, nor has that any of it. */
START_TEST(host_memory_goes_before_a_new_context)
{
	static char pages[4096] __attribute__((aligned(4096)));
	void *dev = open_gpu(_i, NULL), *k = load(dev, INC);
	struct gpu_device *d = ((struct apart_device *)dev)->here;
	const struct gpu_driver *real = d->driver;
	struct gpu_driver late = *real;
	pthread_t threads[2];
	bool done;

	ck_assert_int_eq(ops->host_register(dev, shared_pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(devs[1], shared_pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(dev, pages, 4096), 0);
	real_module_load = real->module_load;
	real_context_destroy = real->context_destroy;
	late.module_load = load_late;
	late.context_destroy = destroy_late;
	module_waits = true;
	destroy_waits = true;
	d->driver = &late;
	ck_assert_int_eq(pthread_create(&threads[0], NULL, reset_it, dev), 0);
	ck_assert(comes_true(destroy_has_come, 1000));
	ck_assert_int_eq(pthread_create(&threads[1], NULL, unregister_both, dev), 0);
	usleep(50000);
	ck_assert(!is_unregistered);
	destroy_waits = false;
	done = comes_true(is_unregistered, 1000);
	module_waits = false;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	d->driver = real;
	ck_assert(done);
	ck_assert_int_eq(emu_registered(), 1);
	ops->host_unregister(dev, pages);
	ck_assert_int_eq(emu_registered(), 0);
	ops->kernel_unload(dev, k);
}
END_TEST

/* Taken away as soon as it is in the new context: that lets go of it, though it is not told of yet. */
START_TEST(host_memory_goes_from_a_new_context)
{
	static char pages[4096] __attribute__((aligned(4096)));
	void *dev = open_gpu(_i, NULL);
	static char line[512];
	int pipes[2], in = 0;
	pthread_t thread;

	/* It went with the context of another device. */
	ck_assert_int_eq(ops->host_register(devs[1], pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(dev, pages, 4096), 0);
	ops->host_unregister(devs[1], pages);
	ops->close(devs[--nr_devs]);
	ck_assert_int_eq(emu_registered(), 0);
	/* A log that nobody reads: who writes a line waits. */
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(pipes[1], line, sizeof(line)) > 0)
		in += (int)sizeof(line);
	ck_assert_int_eq(fcntl(pipes[1], F_SETFL, 0), 0);
	log_init(pipes[1], LOG_LEVEL_DEBUG, LOG_FORMAT_PLAIN);
	ck_assert_int_eq(pthread_create(&thread, NULL, reset_it, dev), 0);
	while (!emu_registered())
		usleep(100);
	ops->host_unregister(dev, pages);
	ck_assert_int_eq(emu_registered(), 0);
	while (in > 0 && read(pipes[0], line, sizeof(line)) > 0)
		in -= (int)sizeof(line);
	pthread_join(thread, NULL);
}
END_TEST

/* With no process that it could go on in it is as lost as it was. */
START_TEST(a_device_that_fails)
{
	static const char *const no_helper[] = { "helper", "/nowhere/arax-device", NULL };
	void *dev = open_gpu(_i, no_helper);
	void *trap = load(dev, TRAP);
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	struct job j;

	/* Not the kernel's fault, but for all that is known: it may run elsewhere. */
	fill(&j, trap, 1, 1, 1, &r, 1, &ecc, 4);
	ck_assert_int_eq(ops->run(dev, &j.run), -ENODEV);
	ck_assert_uint_eq(j.run.alone, 1);
	assert_broken(dev, trap, a);
	/* One that did not begin. */
	fill(&j, trap, 1, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(ops->run(dev, &j.run), -ENODEV);
	ck_assert_uint_eq(j.run.alone, 0);
	emu_fail(EMULATED_CONTEXT, 0, ECC);
	ck_assert_int_eq(ops->reset(dev), -ENODEV);
	assert_logged("no such program");
	assert_broken(dev, trap, a);
	emu_fail(EMULATED_STREAM, 5, OUT_OF_MEMORY);	/* some way into it */
	ck_assert_int_eq(ops->reset(dev), -ENODEV);
	emu_fail(EMULATED_MODULE, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(ops->reset(dev), -ENODEV);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	/* What was not broken can be had anew as well. */
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* The driver says so while it takes the launch, which counts as one that ran all the same. */
START_TEST(a_device_that_fails_as_it_is_handed_a_launch)
{
	void *dev = open_gpu(_i, NULL);
	void *trap = load(dev, TRAP);
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	struct arax_backend_done done;
	struct job j;

	fill(&j, trap, 0, 1, 1, &r, 1, &fine, 4);
	/* Behind another one it may be that one's fault, and is told at once. */
	ck_assert_int_eq(ops->submit(dev, &j.run, 1), 0);
	emu_fail(EMULATED_LAUNCH, 0, ECC);
	ck_assert_int_eq(ops->submit(dev, &j.run, 2), -ENODEV);
	ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
	ck_assert_uint_eq(done.cookie, 1);
	ck_assert_int_eq(ops->wait(dev, 0, &done), -ENOENT);
	ops->kernel_unload(dev, trap);

	dev = open_gpu(_i, NULL);
	trap = load(dev, TRAP);
	a = take_memory(dev, 4);
	r = range(a, 4);
	fill(&j, trap, 0, 1, 1, &r, 1, &fine, 4);
	emu_fail(EMULATED_LAUNCH, 0, ECC);
	ck_assert_int_eq(ops->submit(dev, &j.run, 3), 0);
	assert_logged("its context is broken");
	ck_assert_int_eq(ops->submit(dev, &j.run, 4), -ENODEV);
	ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
	ck_assert_uint_eq(done.cookie, 3);
	ck_assert_int_eq(done.result, -ENODEV);
	ck_assert_uint_eq(done.flags, ARAX_DONE_ALONE);
	ck_assert_int_eq(ops->wait(dev, 0, &done), -ENOENT);
	ck_assert_int_eq(ops->quiesce(dev, 0), 0);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* What a driver says of a device that is gone: known, new since, or no more than "unknown". */
static const int32_t sticky[] = { 53, 226, 721, 810, 911, 999, 1053 };

#define NR_STICKY ((int)(sizeof(sticky) / sizeof(sticky[0])))

START_TEST(errors_that_are_not_known)
{
	void *dev = open_gpu(_i % NR_GPUS, NULL);
	void *trap = load(dev, TRAP);
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	const int32_t *err = &sticky[_i / NR_GPUS];
	int code;

	/* Of one call alone: that fails, and the next one doesn't. */
	emu_fail(EMULATED_COPY, 0, 999);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, "x", 1), -EIO);
	emu_fail(EMULATED_LAUNCH, 0, 999);
	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &fine, 4), -EIO);
	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &fine, 4), 0);
	take_log();
	code = run(dev, trap, 1, 1, 1, &r, 1, err, 4);
	ck_assert_msg(code == -ENODEV || (code == -EFAULT && *err == 721), "%d: %d", *err, code);
	assert_logged("its context is broken");
	assert_broken(dev, trap, a);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Copies of others run beside it, and one of them sees what it did before it is asked itself. */
START_TEST(a_kernel_that_faults_beside_copies)
{
	void *dev = open_gpu(_i, NULL);
	void *gate = load(dev, GATE);
	uint64_t a = take_memory(dev, 8);
	struct arax_launch_range r = range(a, 4);
	struct arax_backend_done done[2];
	struct job j;
	char byte;
	int err;

	fill(&j, gate, 0, 1, 1, &r, 1, &bad, 4);
	emu_gate(0);
	ck_assert_int_eq(ops->submit(dev, &j.run, 7), 0);
	wait_for_kernels(1);
	emu_gate(1);
	/* Not what the kernel writes, which nobody may look at meanwhile. */
	do
		err = ops->copy_out(dev, 1, &byte, a + 4, 1);
	while (!err);
	ck_assert_int_eq(err, -ENODEV);
	ck_assert_int_eq(ops->poll(dev, done, 1, UINT64_MAX), 1);
	ck_assert_int_eq(done[0].result, -EFAULT);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, gate);
	ops->kernel_unload(dev, gate);
}
END_TEST

struct copy_out {
	void *dev;
	uint64_t from;
	char to[4096];
	int err;
	_Atomic bool over;
};

static void *copy_out(void *arg)
{
	struct copy_out *c = arg;

	c->err = ops->copy_out(c->dev, 1, c->to, c->from, sizeof(c->to));
	c->over = true;
	return NULL;
}

/* Who is told that it failed may have the host's bytes written by others next. */
START_TEST(a_copy_has_ended_when_it_failed)
{
	void *dev = open_gpu(_i, NULL);
	void *trap = load(dev, TRAP);
	static struct copy_out c;
	struct arax_launch_range r;
	pthread_t thread;
	uint64_t a = take_memory(dev, 4);

	r = range(a, 4);
	c = (struct copy_out){ .dev = dev, .from = take_memory(dev, sizeof(c.to)) };
	emu_gate(EMULATED_NO_COPIES);
	ck_assert_int_eq(pthread_create(&thread, NULL, copy_out, &c), 0);
	wait_for_kernels(1);
	ck_assert_int_eq(run(dev, trap, 0, 1, 1, &r, 1, &bad, 4), -EFAULT);
	/* It could have seen that in this time. */
	usleep(100000);
	ck_assert(!c.over);
	emu_gate(1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(c.err, -ENODEV);
	assert_broken(dev, trap, a);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Launches that nobody has asked for yet have their ends, and what was there goes as ever. */
START_TEST(a_context_that_ended_early)
{
	void *dev = open_gpu(_i, NULL);
	void *gate = load(dev, GATE), *trap = load(dev, TRAP);
	struct arax_launch_range r[2];
	struct arax_backend_done done;
	uint64_t a = take_memory(dev, 16), b;
	struct job j[2];
	char byte;
	int err;

	r[0] = range(a, 4);
	r[1] = range(a + 4, 4);
	fill(&j[0], gate, 0, 1, 1, &r[0], 1, &fine, 4);
	fill(&j[1], gate, 0, 1, 1, &r[1], 1, &bad, 4);
	emu_gate(0);
	ck_assert_int_eq(ops->submit(dev, &j[0].run, 7), 0);
	ck_assert_int_eq(ops->submit(dev, &j[1].run, 8), 0);
	wait_for_kernels(1);
	emu_gate(1);
	do
		err = ops->copy_out(dev, 1, &byte, a + 8, 1);
	while (!err);
	ck_assert_int_eq(err, -ENODEV);
	ck_assert_int_eq(ops->alloc(dev, 4, 0, &b), -ENODEV);
	for (uint64_t i = 0; i < 2; i++) {
		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert_uint_eq(done.cookie, 7 + i);
		/* In company, so that nobody is to blame. */
		ck_assert_int_eq(done.result, -ENODEV);
	}
	/* All of it can go before there is a new one. */
	ops->kernel_unload(dev, gate);
	ops->free(dev, a);
	ck_assert_int_eq(ops->reset(dev), 0);
	a = take_memory(dev, 4);
	assert_whole(dev, trap);
	ops->free(dev, a);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ... nor does a registration stay that is in a broken context: others' pages come to these addresses. */
START_TEST(host_memory_leaves_a_broken_context)
{
	static char pages[4096] __attribute__((aligned(4096)));
	void *dev = open_gpu(_i, NULL);
	void *trap = load(dev, TRAP);
	struct arax_launch_range r = range(take_memory(dev, 4), 4);

	ck_assert_int_eq(ops->host_register(dev, pages, 4096), 0);
	ck_assert_int_eq(ops->host_register(devs[1], pages, 4096), 0);
	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &bad, 4), -EFAULT);
	ops->host_unregister(dev, pages);
	ck_assert_int_eq(emu_registered(), 1);
	ops->host_unregister(devs[1], pages);
	ck_assert_int_eq(emu_registered(), 0);
	ck_assert_int_eq(ops->host_register(devs[1], pages, 4096), 0);
	ck_assert_int_eq(emu_registered(), 1);
	ck_assert_int_eq(ops->reset(dev), 0);
	ops->host_unregister(devs[1], pages);
	ck_assert_int_eq(emu_registered(), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Of several nobody knows whose fault it is: all may run again; then one at a time. */
START_TEST(a_kernel_that_faults_in_company)
{
	void *dev = open_gpu(_i, NULL);
	void *gate = load(dev, GATE);
	uint64_t a = take_memory(dev, 8);
	struct arax_launch_range r[2] = { range(a, 4), range(a + 4, 4) };
	struct arax_backend_done done[4];
	struct job j[2];
	int n = 0;

	emu_gate(0);
	fill(&j[0], gate, 0, 1, 1, &r[0], 1, &bad, 4);
	fill(&j[1], gate, 1, 1, 1, &r[1], 1, &fine, 4);
	ck_assert_int_eq(ops->submit(dev, &j[0].run, 0), 0);
	ck_assert_int_eq(ops->submit(dev, &j[1].run, 1), 0);
	wait_for_kernels(2);
	emu_gate(1);
	ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
	while (n < 2)
		n += ops->poll(dev, &done[n], (uint32_t)(4 - n), UINT64_MAX);
	ck_assert_int_eq(n, 2);
	/* The innocent one may have come to its end before. */
	for (int i = 0; i < 2; i++) {
		ck_assert_msg(done[i].result == -ENODEV || (done[i].cookie && !done[i].result),
			      "%u: %d", (unsigned int)done[i].cookie, done[i].result);
		ck_assert_uint_eq(done[i].flags, 0);
	}
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, gate);
	a = take_memory(dev, 8);
	r[0] = range(a, 4);
	ck_assert_int_eq(run(dev, gate, 0, 1, 1, r, 1, &bad, 4), -EFAULT);
	ck_assert_int_eq(ops->reset(dev), 0);
	ops->kernel_unload(dev, gate);
}
END_TEST

/* After a fault launches of other lanes wait for each other: two never wait at the gate. */
START_TEST(one_at_a_time_after_a_fault)
{
	void *dev = open_gpu(_i, NULL);
	void *gate = load(dev, GATE);
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r[2] = { range(a, 4) };
	struct victim v[2] = { 0 };
	pthread_t threads[2];

	ck_assert_int_eq(run(dev, gate, 0, 1, 1, r, 1, &bad, 4), -EFAULT);
	ck_assert_int_eq(ops->reset(dev), 0);
	a = take_memory(dev, 8);
	emu_gate(0);
	for (uint32_t i = 0; i < 2; i++) {
		r[i] = range(a + 4 * i, 4);
		v[i].dev = dev;
		fill(&v[i].job, gate, i, 1, 1, &r[i], 1, i ? &bad : &fine, 4);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_victim, &v[i]), 0);
	}
	wait_for_kernels(1);
	usleep(20000);
	ck_assert_int_eq(emu_waiting(), 1);
	emu_gate(1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	/* The culprit is known, whichever came first; the other ran well, or not at all. */
	ck_assert_int_eq(v[1].result, -EFAULT);
	ck_assert_msg(!v[0].result || v[0].result == -ENODEV, "%d", v[0].result);
	ck_assert_int_eq(ops->reset(dev), 0);
	ops->kernel_unload(dev, gate);
}
END_TEST

/* What was submitted in a context that is gone has ended with it. */
START_TEST(submitted_before_a_reset)
{
	void *dev = open_gpu(_i, NULL);
	void *inc = load(dev, INC);
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	struct arax_backend_done done;
	struct job j;

	fill(&j, inc, 2, 1, 1, &r, 1, NULL, 0);
	ck_assert_int_eq(ops->submit(dev, &j.run, 5), 0);
	ck_assert_int_eq(ops->reset(dev), 0);
	ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
	ck_assert_int_eq(ops->poll(dev, &done, 1, UINT64_MAX), 1);
	ck_assert_int_eq(done.result, -ENODEV);
	ck_assert_uint_eq(done.cookie, 5);
	a = take_memory(dev, 4);
	r = range(a, 4);
	/* First they have to be run one by one. */
	for (int i = 0; i < GPU_CAREFUL; i++) {
		ck_assert_int_eq(ops->submit(dev, &j.run, 6), -EAGAIN);
		ck_assert_int_eq(ops->run(dev, &j.run), 0);
	}
	ck_assert_int_eq(ops->submit(dev, &j.run, 6), 0);
	ck_assert_int_eq(ops->poll(dev, &done, 1, UINT64_MAX), 1);
	ck_assert_int_eq(done.result, 0);
	ops->kernel_unload(dev, inc);
	ops->free(dev, a);
}
END_TEST

/* Threads that compute, copy and allocate while one faults and another resets. */
static void *disturb(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 20; i++) {
		uint64_t a = 0;
		struct arax_launch_range r;

		if (!ops->alloc(w->dev, 4, 0, &a)) {
			r = range(a, 4);
			run(w->dev, w->kernel, w->lane, 1, 1, &r, 1, i % 2 ? &bad : &fine, 4);
		}
		w->err = ops->reset(w->dev);
	}
	return NULL;
}

START_TEST(faults_among_threads)
{
	void *dev = open_gpu(_i, NULL);
	void *add = load(dev, ADD), *trap = load(dev, TRAP);
	struct worker w[4];
	pthread_t threads[4];

	for (uint32_t i = 0; i < 4; i++) {
		w[i] = (struct worker){ dev, i ? add : trap, i, 0 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, i ? work : disturb, &w[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	/* Whatever happened to them, it was the loss of the device or of its memory. */
	for (int i = 0; i < 4; i++)
		ck_assert_msg(!w[i].err || w[i].err == -ENODEV || w[i].err == -EFAULT, "%d",
			      w[i].err);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, add);
	ops->kernel_unload(dev, trap);
	ck_assert_uint_eq(emu_used(), 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Files                                                                 */

static const struct {
	const char *params, *signature;
	int err;
	const char *logged;
} wrong[] = {
	{ ".param .u64 a, .param .u64 b", "k(inout i32 x[])", 0, "" },
	{ ".param .u64 a, .param .u64 b, .param .u64 r", "k(inout i32 x[])", 0, "" },
	{ ".param .u64 .ptr .align 4 a, .param .b64 b, .param .s32 c", "k(in i32 x[], u32 c)", 0, "" },
	{ ".param .u64 a", "k(inout i32 x[])", -ENOEXEC, "has 1 parameters, must have 2" },
	{ "", "k(inout i32 x[])", -ENOEXEC, "has 0 parameters, must have 2" },
	{ ".param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d", "k(inout i32 x[])", -ENOEXEC,
	  "has 4 parameters, must have 2" },
	{ ".param .u64 a, .param .u32 b", "k(inout i32 x[])", -ENOEXEC,
	  "parameter 2 is of type \"32-bit integer\", must be \"pointer or 64-bit integer\"" },
	{ ".param .f32 a", "k(f64 a)", -ENOEXEC, "is of type \"float\", must be \"double\"" },
	{ ".param .f32 a", "k(u32 a)", -ENOEXEC, "must be \"32-bit integer\"" },
	{ ".param .u16 a", "k(u8 a)", -ENOEXEC, "must be \"8-bit integer\"" },
	{ ".param .align 8 .b8 a[16]", "k(u64 a)", -ENOEXEC, "is of type \"struct or array\"" },
	{ ".param .u32 a, .param .u32 r", "k(i32 a)", -ENOEXEC, "parameter 2 is of type" },
};

/* Of PTX; the names are those of a kernel that the driver in software has. */
START_TEST(parameters_are_checked)
{
	void *dev = open_gpu(_i, NULL), *k;
	char text[512];

	for (size_t i = 0; which->kind == ARAX_DEVICE_CUDA && i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *log;
		int err;

		snprintf(text, sizeof(text),
			 "// %zu\n.entry test_inc_not(.param .u8 x)\n.visible .entry\ttest_inc\n(\n%s\n)\n{ }",
			 i, wrong[i].params);
		write_image("wrong", text);
		take_log();
		err = try_load(dev, "wrong", "test_inc", wrong[i].signature, &k);
		log = take_log();
		ck_assert_msg(err == wrong[i].err && strstr(log, wrong[i].logged), "%s for %s: %d, %s",
			      wrong[i].params, wrong[i].signature, err, log);
		if (!err)
			ops->kernel_unload(dev, k);
	}
}
END_TEST

/* Of an image without text the driver tells the sizes, if it can. */
START_TEST(sizes_are_checked)
{
	static const char elf[] = "\177ELF test_add test_plain\0";
	void *dev = open_gpu(_i, NULL), *k = NULL;
	bool tells = which->kind == ARAX_DEVICE_CUDA;
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/elf", folder);
	f = fopen(path, "w");
	ck_assert_uint_eq(fwrite(elf, 1, sizeof(elf), f), sizeof(elf));
	fclose(f);
	ck_assert_int_eq(try_load(dev, "elf", ADD, &k), 0);
	ops->kernel_unload(dev, k);
	ck_assert_int_eq(try_load(dev, "elf", "test_add", "add(in i32 a[], i32 by)", &k),
			 tells ? -ENOEXEC : 0);
	if (tells)
		assert_logged("has 5 parameters, must have 3");
	else
		ops->kernel_unload(dev, k);
	ck_assert_int_eq(try_load(dev, "elf", "test_plain", "plain(out u64 o[], u8 a, u32 b, u16 c, f64 d)",
				  &k), tells ? -ENOEXEC : 0);
	if (tells)
		assert_logged("parameter 4 has 8 bytes, must have 4");
	else
		ops->kernel_unload(dev, k);
}
END_TEST

START_TEST(bad_files)
{
	void *dev = open_gpu(_i, NULL), *k, *same;
	char name[400];

	be_write(folder, "text", "__kernel void k() { }");
	ck_assert_int_eq(try_load(dev, "text", INC, &k), -ENOEXEC);
	assert_logged(which->kind == ARAX_DEVICE_CUDA ?
		      "text: is not PTX, a cubin or a fatbin: compile it with nvcc" :
		      "text: is not a code object: compile it with hipcc --genco");
	be_write(folder, "empty", "");
	ck_assert_int_eq(try_load(dev, "empty", INC, &k), -ENOEXEC);
	write_image("bad", "syntax error");
	take_log();
	ck_assert_int_eq(try_load(dev, "bad", INC, &k), -ENOEXEC);
	assert_logged(which->kind == ARAX_DEVICE_CUDA ? "bad: line 1: syntax error" :
							"hipErrorInvalidImage");
	write_image("good", ptx);
	ck_assert_int_eq(try_load(dev, "good", "test_none", "none(i32 a)", &k), -ENOENT);
	assert_logged("good: has no kernel test_none: is it extern \"C\"");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ck_assert_int_eq(try_load(dev, "good", name, "none(i32 a)", &k), -ENAMETOOLONG);
	emu_fail(EMULATED_MODULE, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(try_load(dev, "good", INC, &k), -ENOMEM);
	/* One module for both: the second one is not loaded, so it can't fail. */
	ck_assert_int_eq(try_load(dev, "good", INC, &k), 0);
	emu_fail(EMULATED_MODULE, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(try_load(dev, "good", ADD, &same), 0);
	emu_fail(EMULATED_MODULE, 0, 0);
	ops->kernel_unload(dev, k);
	ops->kernel_unload(dev, same);
}
END_TEST

/* ------------------------------------------------------------------ */

/* What the machine itself has: each stack's own library, without a device or with. */
START_TEST(this_machine)
{
	int n = probe(_i, NULL, NULL);

	if (n > 0) {
		printf("# %s: %d real devices\n", which->name, n);
		return;
	}
	printf("# %s: %s\n", which->name, why);
	ck_assert_msg(n == -ENOENT || n == -ENODEV, "%d: %s", n, why);
	ck_assert_msg(strstr(why, "install") || strstr(why, "look at") || strstr(why, "loaded"),
		      "no remedy: %s", why);
}
END_TEST

/* The toolkit's stub for linking, where there is one, is told apart from a driver. */
START_TEST(stub_of_the_toolkit)
{
	static const char *const stubs[] = { CUDA_STUBS "/lib64/stubs/libcuda.so",
					     CUDA_STUBS "/lib/stubs/libcuda.so" };
	const char *stub = access(stubs[0], R_OK) ? stubs[1] : stubs[0];

	if (gpus[0].kind != ARAX_DEVICE_CUDA || access(stub, R_OK)) {
		be_skip("stub_of_the_toolkit", "no CUDA Toolkit here");
		return;
	}
	ck_assert_int_eq(probe(0, stub, NULL), -ENODEV);
	ck_assert_msg(strstr(why, "is the CUDA Toolkit's stub for linking: install the driver"), "%s",
		      why);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("gpu");
	TCase *t = tcase_create("all");

	puts("# emulated, not hardware");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup_forgiving, close_gpu);
#define ALL(test) tcase_add_loop_test(t, test, 0, NR_GPUS)
	ALL(devices_are_described);
	ALL(an_old_driver_has_less);
	ALL(options_are_checked);
	ALL(no_driver);
	ALL(another_library);
	ALL(no_device);
	tcase_add_loop_test(t, memory, 0, 2 * NR_GPUS);
	ALL(failures_of_calls);
	ALL(wanted_addresses);
	ALL(peers);
	tcase_add_loop_test(t, peers_are_direct, 0, 2 * NR_GPUS);
	ALL(host_memory);
	ALL(arguments);
	ALL(results);
	ALL(geometry);
	ALL(wide_launch);
	ALL(bad_ranges);
	ALL(copies_of_several_threads);
	ALL(lanes);
	ALL(submitted);
	ALL(ends_that_are_not_to_be_seen);
	ALL(a_kernel_that_faults_alone);
	ALL(host_memory_of_another_context);
	ALL(host_memory_of_a_device_that_goes);
	ALL(a_peer_that_is_broken);
	ALL(host_memory_goes_before_a_new_context);
	ALL(host_memory_goes_from_a_new_context);
	ALL(a_device_that_fails);
	ALL(a_device_that_fails_as_it_is_handed_a_launch);
	tcase_add_loop_test(t, errors_that_are_not_known, 0, NR_STICKY * NR_GPUS);
	ALL(a_kernel_that_faults_beside_copies);
	ALL(a_copy_has_ended_when_it_failed);
	ALL(a_context_that_ended_early);
	ALL(host_memory_leaves_a_broken_context);
	ALL(a_kernel_that_faults_in_company);
	ALL(one_at_a_time_after_a_fault);
	ALL(submitted_before_a_reset);
	ALL(faults_among_threads);
	ALL(parameters_are_checked);
	ALL(sizes_are_checked);
	ALL(bad_files);
	ALL(this_machine);
	tcase_add_test(t, stub_of_the_toolkit);
	tcase_add_loop_test(t, gauges_are_nvmls, 0, NR_NVMLS);
	tcase_add_loop_test(t, without_nvml, 0, 2);
	tcase_add_test(t, hip_has_no_nvml);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
