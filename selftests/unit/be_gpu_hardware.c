// SPDX-License-Identifier: MIT
/*
 * A GPU backend on the machine's own GPU and driver: real memory, kernels, and contexts that
 * kernels break.  Skipped where there is none.
 *
 *	be_gpu_hardware [BACKEND [PLUG-IN]]
 *
 * BACKEND is cuda, hip for AMD's devices, or hip with the plug-in for NVIDIA's.  All is done twice:
 * where a device is by its default, which is in a process of its own for AMD's and else in this one,
 * and in the other place, with option "apart".  The flow in all its cases is be_gpu.c's and
 * be_apart.c's, on a driver in software.
 */
#include <dlfcn.h>
#include <time.h>

#include "daemon/backends/gpu/gpu.h"
#include "selftests/unit/be_gpu.h"
#include "selftests/unit/be_launch.h"

#define MIB (1ull << 20)
#define KERNELS "build/test/kernels/hardware"

static const char *backend, *file;
static bool amd;
static bool other;		/* not where it is by its default */
static struct backend_plugin plugin;
static const struct arax_backend *ops = &plugin.ops;
static void *dev;
static char why[512];

/* ------------------------------------------------------------------ */

static int probe(const char *const *options)
{
	ck_assert_int_eq(backend_plugin_load(&plugin, backend, file, why, sizeof(why)), 0);
	ck_assert_int_eq(ops->load(), 0);
	if (other)
		ck_assert_int_eq(ops->config("apart", amd ? "no" : "yes"), 0);
	for (; options && *options; options += 2)
		ck_assert_int_eq(ops->config(options[0], options[1]), 0);
	return ops->probe(why, sizeof(why));
}

static void setup_other(void)
{
	other = true;
	setup();
}

static bool is_apart(void)
{
	return amd != other;
}

static void open_gpu(const char *const *options)
{
	int n = probe(options);

	ck_assert_msg(n > 0, "%d: %s", n, why);
	ck_assert_int_eq(ops->open(0, &dev), 0);
}

static void close_gpu(void)
{
	if (dev)
		ops->close(dev);
	be_rmdir(folder);
}

static int try_load(const char *path, const char *name, const char *signature, void **k)
{
	struct arax_backend_kernel desc = { .size = sizeof(desc), .file = path, .symbol = name,
					    .signature = signature };
	int err;

	desc.fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(desc.fd >= 0, "%s", path);
	err = ops->kernel_load(dev, &desc, k);
	/* Of a kernel that is loaded the file stays open: until the end, for a test. */
	if (err)
		close(desc.fd);
	return err;
}

static const char *kernels(void)
{
	return amd ? KERNELS ".co" : KERNELS ".ptx";
}

static void *load(const char *name, const char *signature)
{
	void *k;
	int err = try_load(kernels(), name, signature, &k);

	ck_assert_msg(!err, "%s: %d\n%s", name, err, take_log());
	return k;
}

#define ADD	"test_add", "add(in i32 a[], out i32 b[], i32 by)"
#define RESULT	"test_result", "result(inout i32 x[], i32 err)"
#define PLAIN	"test_plain", "plain(out u64 out[], i8 a, u64 b, u16 c, f64 d, f32 e)"
#define GROUPS	"test_groups", "groups(out u32 out[])"
#define SPIN	"test_spin", "spin(inout i32 x[], u64 ns)"
#define FAIL	"test_fail", "fail(inout i32 x[], u32 how)"

static int run(void *kernel, uint32_t lane, uint32_t grid, uint32_t block,
	       const struct arax_launch_range *r, uint32_t n, const void *args, uint32_t len)
{
	struct job j;

	return ops->run(dev, fill(&j, kernel, lane, grid, block, r, n, args, len));
}

static uint64_t take_memory(uint64_t bytes)
{
	uint64_t a = 0;

	ck_assert_int_eq(ops->alloc(dev, bytes, 0, &a), 0);
	return a;
}

static int32_t word_at(uint64_t a)
{
	int32_t x = -1;

	ck_assert_int_eq(ops->copy_out(dev, 0, &x, a, 4), 0);
	return x;
}

static void put_word(uint64_t a, int32_t x)
{
	ck_assert_int_eq(ops->copy_in(dev, 0, a, &x, 4), 0);
}

/* ------------------------------------------------------------------ */

START_TEST(device_is_described)
{
	struct arax_backend_info info = { .size = sizeof(info) };

	open_gpu(NULL);
	ck_assert_int_eq(ops->info(dev, &info), 0);
	ck_assert_uint_eq(info.lanes, 4);
	ck_assert_uint_gt(info.units, 0);
	ck_assert_uint_gt(info.memory, 256 * MIB);
	ck_assert_int_eq(memcmp(info.name, backend, strlen(backend)), 0);
	ck_assert_uint_eq(info.lost, 0);
	if (is_apart())
		assert_logged("is driven in a process of its own");
	printf("# %s, %s\n", info.name, is_apart() ? "in a process of its own" : "in araxd's");
}
END_TEST

START_TEST(gauges)
{
	struct arax_backend_gauges g = { .size = sizeof(g) };
	char text[256] = "";

	open_gpu(NULL);
	if (strcmp(backend, "cuda")) {
		be_skip("gauges", "of cuda alone");
		return;
	}
	ck_assert_msg(!ops->gauges(dev, &g, text, sizeof(text)), "%s", text);
	ck_assert_uint_eq(g.known & (ARAX_GAUGE_BUSY | ARAX_GAUGE_MEMORY),
			  ARAX_GAUGE_BUSY | ARAX_GAUGE_MEMORY);
	ck_assert_uint_le(g.busy, 100);
	ck_assert_uint_eq(g.known & ARAX_GAUGE_TAKEN, ARAX_GAUGE_TAKEN);
	ck_assert_uint_gt(g.memory_taken, 1 << 20);
	ck_assert_uint_le(g.memory_busy, 100);
	if (g.known & ARAX_GAUGE_POWER)
		ck_assert_msg(g.power_mw > 1000 && g.power_mw < 3000000, "%llu mW",
			      (unsigned long long)g.power_mw);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Memory                                                                */

static const char *const pools[][5] = {
	{ "memory", "100M", "pools", "auto", NULL }, { "memory", "100M", "pools", "no", NULL },
};

START_TEST(memory)
{
	char out[8];
	uint64_t a, b, c;

	open_gpu(pools[_i]);
	a = take_memory(60 * MIB);
	ck_assert_int_eq(ops->alloc(dev, 41 * MIB, 0, &b), -ENOMEM);
	assert_logged("no room for 42991616 bytes: 62914560 of 104857600 are in use");
	b = take_memory(40 * MIB);
	ck_assert_int_eq(ops->alloc(dev, 1, 0, &c), -ENOMEM);
	ck_assert_int_eq(ops->copy_in(dev, 0, a + 60 * MIB - 5, "last", 5), 0);
	ck_assert_int_eq(ops->copy_in(dev, 1, b, "first", 6), 0);
	ck_assert_int_eq(ops->copy_out(dev, 2, out, a + 60 * MIB - 5, 5), 0);
	ck_assert_str_eq(out, "last");
	ck_assert_int_eq(ops->copy_out(dev, 3, out, b, 6), 0);
	ck_assert_str_eq(out, "first");
	if (is_apart()) {
		ck_assert_int_eq(ops->copy_peer(dev, a + 1, dev, b, 6), -EOPNOTSUPP);
	} else {
		ck_assert_int_eq(ops->copy_peer(dev, a + 1, dev, b, 6), 0);
		ck_assert_int_eq(ops->copy_out(dev, 0, out, a + 1, 6), 0);
		ck_assert_str_eq(out, "first");
	}
	/* Behind the one that lies behind the other. */
	c = (a > b ? a + 60 * MIB : b + 40 * MIB) + 4 * MIB;
	ck_assert_int_eq(ops->copy_out(dev, 0, out, c, 1), -EFAULT);
	ops->free(dev, a);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, 1), -EFAULT);
	a = take_memory(60 * MIB);
	ops->free(dev, a);
	ops->free(dev, b);
}
END_TEST

/* Sizes and places that are no device's favourites, registered and not. */
START_TEST(copies)
{
	static const uint64_t sizes[] = { 1, 3, 511, 4096, 4097, 65535, 1000003, 9 * MIB + 7 };
	const uint64_t room = 12 * MIB;
	uint8_t *host = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint8_t *back = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t a;

	ck_assert(host != MAP_FAILED && back != MAP_FAILED);
	open_gpu(NULL);
	a = take_memory(room);
	for (uint64_t i = 0; i < room; i++)
		host[i] = (uint8_t)(i * 2654435761u >> 13);
	for (int registered = 0; registered < 2; registered++) {
		/* Of what is in no client's buffer another process has no pages. */
		if (registered) {
			int err = is_apart() ? -EOPNOTSUPP : 0;

			ck_assert_int_eq(ops->host_register(dev, host, room), err);
			ck_assert_int_eq(ops->host_register(dev, back, room), err);
		}
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			uint64_t at = 12345 * i, n = sizes[i];

			memset(back, 0xa5, room);
			ck_assert_int_eq(ops->copy_in(dev, i % 4, a + at, host + 7 * i, n), 0);
			ck_assert_int_eq(ops->copy_out(dev, (i + 1) % 4, back + 3 * i, a + at, n), 0);
			ck_assert_msg(!memcmp(back + 3 * i, host + 7 * i, n), "%zu bytes", (size_t)n);
			ck_assert_uint_eq(back[3 * i + n], 0xa5);
		}
	}
	ops->host_unregister(dev, host);
	ops->host_unregister(dev, back);
	ops->free(dev, a);
}
END_TEST

/* One that is free: the driver's choice, given back. */
static uint64_t free_address(void)
{
	int (*reserve)(uint64_t *at, size_t bytes, size_t align, uint64_t hint, uint64_t flags);
	int (*unreserve)(uint64_t at, size_t bytes);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	uint64_t at = 0;

	ck_assert_msg(!!driver, "%s", dlerror());
	*(void **)&reserve = dlsym(driver, "cuMemAddressReserve");
	*(void **)&unreserve = dlsym(driver, "cuMemAddressFree");
	ck_assert(reserve && unreserve);
	ck_assert_int_eq(reserve(&at, 64 * MIB, 0, 0, 0), 0);
	ck_assert_int_eq(unreserve(at, 64 * MIB), 0);
	return (at + 2 * MIB - 1) & -(2 * MIB);
}

/* The driver takes a wanted address as a hint; some take none that they did not give before. */
START_TEST(wanted_addresses)
{
	uint64_t a = 0, b = 0, at;
	void *add;

	open_gpu(NULL);
	if (strcmp(backend, "cuda")) {
		ck_assert_int_eq(ops->alloc(dev, 5, 1ull << 42, &a), -EOPNOTSUPP);
		return;
	}
	if (is_apart()) {
		be_skip("wanted_addresses", "which are free in the other process is not known here");
		return;
	}
	at = free_address();
	for (int again = 0; again < 2; again++) {
		struct arax_launch_range r[2];
		int32_t by = 5;

		ck_assert_int_eq(ops->alloc(dev, 3 * MIB, at, &a), 0);
		ck_assert_uint_eq(a, at);
		ck_assert_int_eq(ops->alloc(dev, MIB, at, &b), -EADDRINUSE);
		ck_assert_int_eq(ops->alloc(dev, MIB, at + 4096, &b), -EINVAL);
		put_word(at, 37);
		add = load(ADD);
		r[0] = range(at, 4);
		r[1] = range(at + 2 * MIB, 4);
		ck_assert_int_eq(run(add, 0, 1, 32, r, 2, &by, 4), 0);
		ck_assert_int_eq(word_at(at + 2 * MIB), 42);
		ops->kernel_unload(dev, add);
		ops->free(dev, a);
	}
}
END_TEST

/* ------------------------------------------------------------------ */
/* Launches                                                              */

START_TEST(arguments)
{
	struct { int8_t a; uint64_t b; uint16_t c; double d; float e; } args = {
		-3, 1ull << 60, 65535, 2e9, 77.0f
	};
	struct arax_launch_range r;
	uint64_t a, out[5];
	void *k;

	open_gpu(NULL);
	k = load(PLAIN);
	a = take_memory(40);
	r = range(a, 40);
	ck_assert_int_eq(run(k, 0, 3, 64, &r, 1, &args, sizeof(args)), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, 40), 0);
	ck_assert_uint_eq(out[0], (uint64_t)-3);
	ck_assert_uint_eq(out[1], 1ull << 60);
	ck_assert_uint_eq(out[2], 65535);
	ck_assert_uint_eq(out[3], 2000000000);
	ck_assert_uint_eq(out[4], 77);
}
END_TEST

START_TEST(results)
{
	static const int32_t codes[] = { 0, -22, 0, -5, -22, 0, 0 };
	struct arax_launch_range r;
	uint64_t a;
	void *k;

	open_gpu(NULL);
	k = load(RESULT);
	a = take_memory(4);
	r = range(a, 4);
	put_word(a, 0);
	/* Long enough that timed ones are among them, and others. */
	for (int i = 0; i < 700; i++)
		ck_assert_int_eq(run(k, i % 4, 2, 32, &r, 1, &codes[i % 7], 4), codes[i % 7]);
	ck_assert_int_eq(word_at(a), 700);
}
END_TEST

START_TEST(geometry)
{
	uint32_t out[120], seen = 0;
	struct arax_launch_range r;
	struct job j;
	uint64_t a;
	void *k;

	open_gpu(NULL);
	k = load(GROUPS);
	a = take_memory(sizeof(out));
	r = range(a, sizeof(out));
	fill(&j, k, 0, 5, 2, &r, 1, NULL, 0);
	j.l.grid[1] = 3;
	j.l.grid[2] = 2;
	j.l.block[1] = 2;
	ck_assert_int_eq(ops->run(dev, &j.run), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, sizeof(out)), 0);
	for (uint32_t z = 0; z < 2; z++)
		for (uint32_t y = 0; y < 6; y++)
			for (uint32_t x = 0; x < 10; x++)
				for (uint32_t i = 0; i < 120; i++)
					seen += out[i] == x + 100 * y + 10000 * z;
	ck_assert_uint_eq(seen, 120);
	j.l.block[0] = 2048;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	j.l.block[0] = 1;
	j.l.grid[1] = 65536;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
}
END_TEST

/* By the device's clock, so never less than the kernel spun. */
START_TEST(times)
{
	static const uint64_t spins[] = { 300000, 300000, 2000000, 2000000, 20000000 };
	struct arax_launch_range r;
	struct job j;
	uint64_t a;
	void *k;

	open_gpu(NULL);
	k = load(SPIN);
	a = take_memory(4);
	r = range(a, 4);
	for (size_t i = 0; i < sizeof(spins) / sizeof(spins[0]); i++) {
		uint64_t ns = spins[i];

		fill(&j, k, 1, 1, 1, &r, 1, &ns, 8);
		ck_assert_int_eq(ops->run(dev, &j.run), 0);
		/* Its two clocks may tick at other moments. */
		ck_assert_msg(j.run.device_ns + 2000 >= ns, "%llu of %llu",
			      (unsigned long long)j.run.device_ns, (unsigned long long)ns);
	}
}
END_TEST

/* In order on a lane, so many as there may be, whatever is on other lanes. */
START_TEST(submitted)
{
	const uint64_t slow = 3000000, fast = 1;
	struct arax_backend_done done[4];
	struct arax_launch_range r[2];
	struct job j;
	uint64_t a;
	void *k;

	open_gpu(NULL);
	k = load(SPIN);
	a = take_memory(8);
	put_word(a, 0);
	put_word(a + 4, 10);
	r[0] = range(a, 4);
	r[1] = range(a + 4, 4);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < ARAX_LANE_DEPTH; i++)
			ck_assert_int_eq(ops->submit(dev, fill(&j, k, 0, 1, 1, &r[0], 1,
							       i ? &fast : &slow, 8), i), 0);
		ck_assert_int_eq(ops->submit(dev, fill(&j, k, 0, 1, 1, &r[0], 1, &fast, 8), 9),
				 -EAGAIN);
		ck_assert_int_eq(ops->submit(dev, fill(&j, k, 1, 1, 1, &r[1], 1, &fast, 8), 77), 0);
		memset(&j, 0x5a, sizeof(j));
		ck_assert_int_eq(ops->wait(dev, 1, &done[0]), 0);
		ck_assert_uint_eq(done[0].cookie, 77);
		ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
		for (uint32_t i = 0; i < ARAX_LANE_DEPTH; i++) {
			ck_assert_int_eq(ops->wait(dev, 0, &done[0]), 0);
			ck_assert_uint_eq(done[0].cookie, i);
			ck_assert_int_eq(done[0].result, 0);
		}
		ck_assert_int_eq(ops->wait(dev, 0, &done[0]), -ENOENT);
	}
	ck_assert_int_eq(word_at(a), 3 * ARAX_LANE_DEPTH);
	ck_assert_int_eq(word_at(a + 4), 13);
}
END_TEST

/* Lanes at once, each with memory and arguments of its own. */
struct worker {
	void *kernel;
	uint32_t lane;
	int err;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	static const int n = 10000;
	int32_t *in = malloc(4u * n), *out = malloc(4u * n);
	uint64_t a = 0, bytes = 4u * n;

	for (int32_t turn = 0; !w->err && turn < 300; turn++) {
		int32_t by = turn + 1000 * (int32_t)w->lane;
		struct arax_launch_range r[2];

		w->err = ops->alloc(dev, 2 * bytes, 0, &a);
		if (w->err)
			break;
		r[0] = range(a, bytes);
		r[1] = range(a + bytes, bytes);
		for (int32_t i = 0; i < n; i++)
			in[i] = i ^ turn;
		w->err = ops->copy_in(dev, w->lane, a, in, bytes);
		if (!w->err)
			w->err = run(w->kernel, w->lane, 7, 64, r, 2, &by, 4);
		if (!w->err)
			w->err = ops->copy_out(dev, w->lane, out, a + bytes, bytes);
		for (int32_t i = 0; !w->err && i < n; i++)
			w->err = out[i] == (i ^ turn) + by ? 0 : -1000;
		if (w->err != -ENODEV)
			ops->free(dev, a);
	}
	free(in);
	free(out);
	return NULL;
}

START_TEST(lanes)
{
	pthread_t threads[4];
	struct worker w[4];
	void *k;

	open_gpu(NULL);
	k = load(ADD);
	for (uint32_t i = 0; i < 4; i++) {
		w[i] = (struct worker){ k, i, 0 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].err, 0);
	}
}
END_TEST

/* ------------------------------------------------------------------ */
/* Broken contexts                                                       */

static void assert_whole(void *kernel)
{
	uint64_t a = take_memory(4);
	struct arax_launch_range r = range(a, 4);
	uint32_t how = 0;

	put_word(a, 5);
	for (uint32_t lane = 0; lane < 4; lane++)
		ck_assert_int_eq(run(kernel, lane, 1, 1, &r, 1, &how, 4), 0);
	ck_assert_int_eq(word_at(a), 9);
	ops->free(dev, a);
}

/* Alone it is known by its error; or, as ROCm's runtime ends its process, by having been alone there. */
static void assert_faults(void *k, uint32_t lane, const struct arax_launch_range *r, uint32_t how)
{
	struct job j;

	ck_assert_int_eq(ops->run(dev, fill(&j, k, lane, 1, 1, r, 1, &how, 4)),
			 amd ? -ENODEV : -EFAULT);
	ck_assert(!amd || j.run.alone);
}

/* In this process that would be the test's end. */
static bool must_not_fault(const char *test)
{
	if (amd && !is_apart())
		be_skip(test, "ROCm's runtime ends the process of a kernel that faults");
	return amd && !is_apart();
}

/* Each way to fail is the kernel's fault, and over with a new context, here or elsewhere. */
START_TEST(a_kernel_that_faults)
{
	struct arax_launch_range r;
	void *k, *none;
	uint64_t a, b;
	char byte;
	int err;

	if (must_not_fault("a_kernel_that_faults"))
		return;
	open_gpu(NULL);
	k = load(FAIL);
	for (uint32_t how = 1; how <= 3; how++) {
		/* AMD's take any address for a word. */
		if (amd && how == 2)
			continue;
		a = take_memory(8);
		r = range(a, 8);
		take_log();
		assert_faults(k, how, &r, how);
		assert_logged(amd ? "the process of a device has ended" : "its context is broken");
		ck_assert_int_eq(run(k, 0, 1, 1, &r, 1, &how, 4), -ENODEV);
		ck_assert_int_eq(ops->copy_out(dev, 0, &byte, a, 1), -ENODEV);
		ck_assert_int_eq(ops->alloc(dev, 1, 0, &b), -ENODEV);
		ck_assert_int_eq(try_load(kernels(), ADD, &none), -ENODEV);
		err = ops->reset(dev);
		ck_assert_msg(!err, "%d\n%s", err, take_log());
		ck_assert_int_eq(ops->copy_out(dev, 0, &byte, a, 1), -EFAULT);
		assert_whole(k);
	}
}
END_TEST

/* Of two nobody knows whose fault it is; then one at a time, and it is known. */
START_TEST(a_kernel_that_faults_in_company)
{
	const uint64_t slow = 50000000;
	struct arax_backend_done done[2];
	struct arax_launch_range r[2];
	uint32_t how = 1;
	struct job j[2];
	void *k, *spin;
	uint64_t a;
	int n = 0;

	if (must_not_fault("a_kernel_that_faults_in_company"))
		return;
	open_gpu(NULL);
	k = load(FAIL);
	spin = load(SPIN);
	a = take_memory(8);
	r[0] = range(a, 4);
	r[1] = range(a + 4, 4);
	ck_assert_int_eq(ops->submit(dev, fill(&j[0], spin, 0, 1, 1, &r[0], 1, &slow, 8), 0), 0);
	ck_assert_int_eq(ops->submit(dev, fill(&j[1], k, 1, 1, 1, &r[1], 1, &how, 4), 1), 0);
	while (n < 2)
		n += ops->poll(dev, &done[n], (uint32_t)(2 - n), UINT64_MAX);
	for (int i = 0; i < 2; i++)
		ck_assert_msg(done[i].result == -ENODEV || (!done[i].cookie && !done[i].result),
			      "%u: %d", (unsigned int)done[i].cookie, done[i].result);
	ck_assert_int_eq(ops->reset(dev), 0);
	a = take_memory(4);
	r[0] = range(a, 4);
	assert_faults(k, 0, &r[0], how);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(k);
}
END_TEST

/* While others copy, allocate and launch. */
static void *disturb(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 8; i++) {
		struct arax_launch_range r;
		uint32_t how = i % 4;
		uint64_t a = 0;

		if (!ops->alloc(dev, 8, 0, &a)) {
			r = range(a, 8);
			run(w->kernel, w->lane, 1, 1, &r, 1, &how, 4);
		}
		w->err = ops->reset(dev);
	}
	return NULL;
}

START_TEST(faults_among_threads)
{
	pthread_t threads[4];
	struct worker w[4];
	void *add, *k;

	if (must_not_fault("faults_among_threads"))
		return;
	open_gpu(NULL);
	add = load(ADD);
	k = load(FAIL);
	for (uint32_t i = 0; i < 4; i++) {
		w[i] = (struct worker){ i ? add : k, i, 0 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, i ? work : disturb, &w[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++)
		ck_assert_msg(!w[i].err || w[i].err == -ENODEV || w[i].err == -EFAULT, "%d", w[i].err);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(k);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Files                                                                 */

START_TEST(images)
{
	static const char *const files[] = { KERNELS ".ptx", KERNELS ".fatbin" };
	struct arax_launch_range r[2];
	uint64_t a;
	void *k;

	if (amd) {
		be_skip("images", "of NVIDIA's devices alone");
		return;
	}
	open_gpu(NULL);
	a = take_memory(8);
	r[0] = range(a, 4);
	r[1] = range(a + 4, 4);
	for (int i = 0; i < 2; i++) {
		int32_t by = 3 + i;
		int err = try_load(files[i], ADD, &k);

		ck_assert_msg(!err, "%s: %d\n%s", files[i], err, take_log());
		put_word(a, 10);
		ck_assert_int_eq(run(k, 0, 1, 1, r, 2, &by, 4), 0);
		ck_assert_int_eq(word_at(a + 4), 13 + i);
		ops->kernel_unload(dev, k);
		/* By its text, or as the driver tells, if it is new enough. */
		err = try_load(files[i], "test_add", "add(in i32 a[], i32 by)", &k);
		if (err)
			assert_logged("has 5 parameters, must have 3");
		else
			ck_assert_int_eq(i, 1);
		ck_assert_int_eq(try_load(files[i], "test_none", "none(i32 a)", &k), -ENOENT);
	}
}
END_TEST

/* What the compiler in the driver says of a file is in the log. */
START_TEST(bad_images)
{
	static const struct {
		const char *text, *logged;
	} bad[] = {
		{ ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() { nonsense; }\n",
		  "ptxas" },
		{ ".version 99.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n",
		  "ersion" },
		{ ".version 8.0\n.target sm_999\n.address_size 64\n.visible .entry k() { ret; }\n",
		  "sm_999" },
	};
	char path[512];
	void *k;

	if (amd) {
		be_skip("bad_images", "of NVIDIA's devices alone");
		return;
	}
	open_gpu(NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *log;
		int err;

		be_write(folder, "bad.ptx", bad[i].text);
		snprintf(path, sizeof(path), "%s/bad.ptx", folder);
		take_log();
		err = try_load(path, "k", "k()", &k);
		log = take_log();
		ck_assert_msg(err == -ENOEXEC, "%zu: %d\n%s", i, err, log);
		/* HIP's headers for NVIDIA's devices have no log. */
		ck_assert_msg(!!strstr(log, !strcmp(backend, "cuda") ? bad[i].logged : "Ptx"),
			      "%zu: %s", i, log);
	}
	/* None of that breaks anything. */
	k = load(FAIL);
	assert_whole(k);
}
END_TEST

/* ------------------------------------------------------------------ */

static TCase *all_of(const char *name, void (*begin)(void))
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, begin, close_gpu);
	tcase_add_test(t, device_is_described);
	tcase_add_test(t, gauges);
	tcase_add_loop_test(t, memory, 0, 2);
	tcase_add_test(t, copies);
	tcase_add_test(t, wanted_addresses);
	tcase_add_test(t, arguments);
	tcase_add_test(t, results);
	tcase_add_test(t, geometry);
	tcase_add_test(t, times);
	tcase_add_test(t, submitted);
	tcase_add_test(t, lanes);
	tcase_add_test(t, a_kernel_that_faults);
	tcase_add_test(t, a_kernel_that_faults_in_company);
	tcase_add_test(t, faults_among_threads);
	tcase_add_test(t, images);
	tcase_add_test(t, bad_images);
	return t;
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create("gpu_hardware");
	const struct gpu_which cuda = { "cuda", ARAX_DEVICE_CUDA, NULL };
	struct gpu_which which = gpus[0];
	char other[sizeof(why)];

	if (argc > 1)
		which = (struct gpu_which){ .name = argv[1], .file = argc > 2 ? argv[2] : NULL };
	backend = which.name;
	file = which.file;
	amd = !strcmp(backend, "hip") && !file;
	if (real_gpus(&which, why, sizeof(why)) <= 0) {
		if (file && real_gpus(&cuda, other, sizeof(other)) > 0) {
			fprintf(stderr, "CUDA has a device, and by %s there is none: %s\n", file, why);
			return 1;
		}
		be_skip(backend, why);
		return 0;
	}
	if (access(kernels(), R_OK)) {
		be_skip(backend, "no kernels for it: its compiler was not there when this was built");
		return 0;
	}
	suite_add_tcase(suite, all_of("default", setup));
	suite_add_tcase(suite, all_of("other", setup_other));
	return be_main(suite);
}
