// SPDX-License-Identifier: MIT
/* Manifests and the checks on who could have written them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "daemon/kernels/manifest.h"
#include "daemon/kernels/registry.h"
#include "daemon/kernels/overlap.h"
#include "daemon/kernels/work.h"
#include "daemon/log.h"
#include "daemon/reason.h"
#include "libarax/admin/trusted.h"
#include "selftests/unit/be_test.h"

#define KERNEL(name)                                                                              \
	"{ \"signature\": \"" name "(in u8 x[])\", \"implementations\": [ { \"kind\": \"cpu\", "   \
	"\"file\": \"l.so\", \"symbol\": \"f\" } ] }"
#define MANIFEST(kernels) "{ \"library\": \"l\", \"version\": \"1\", \"kernels\": [ " kernels " ] }"

static char folder[64], log_path[80];
static struct registry *r;

static void setup(void)
{
	int fd;

	be_mkdir(folder);
	snprintf(log_path, sizeof(log_path), "%s.log", folder);
	fd = open(log_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	log_init(fd, LOG_LEVEL_DEBUG, LOG_FORMAT_PLAIN);
	r = registry_create();
	ck_assert_ptr_nonnull(r);
	be_write(folder, "l.so", "not a library: the registry opens, it does not load");
}

static void teardown(void)
{
	registry_destroy(r);
	unlink(log_path);
	be_rmdir(folder);
}

static void assert_logged(const char *text)
{
	char buf[8192];
	FILE *f = fopen(log_path, "r");
	size_t n = fread(buf, 1, sizeof(buf) - 1, f);

	fclose(f);
	buf[n] = '\0';
	ck_assert_msg(strstr(buf, text), "'%s' is not in:\n%s", text, buf);
}

static void mode(const char *name, mode_t m)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	ck_assert_int_eq(chmod(path, m), 0);
}

static void own(const char *name, uid_t uid)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	ck_assert_int_eq(chown(path, uid, 0), 0);
}

static int open_fds(void)
{
	int n = 0;
	DIR *d = opendir("/proc/self/fd");

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

START_TEST(loads)
{
	const struct kernel *k;

	be_write(folder, "b.json", MANIFEST(KERNEL("two") ", " KERNEL("three")));
	be_write(folder, "a.json", MANIFEST(KERNEL("one")));
	be_write(folder, "c.txt", "not a manifest");
	ck_assert_int_eq(registry_load_folder(r, folder), 3);
	ck_assert_uint_eq(registry_count(r), 3);
	ck_assert_str_eq(registry_at(r, 0)->sig.name, "one");
	ck_assert_str_eq(registry_at(r, 2)->sig.name, "three");
	ck_assert_ptr_null(registry_at(r, 3));
	ck_assert_ptr_null(registry_find(r, "four"));
	k = registry_find(r, "two");
	ck_assert_uint_eq(k->index, 1);
	ck_assert_uint_eq(k->kinds, 1u << ARAX_DEVICE_CPU);
	ck_assert_int_eq(k->addressing, KERNEL_ADDRESSING_DATA);	/* the careful default */
	ck_assert(!k->split);
	ck_assert_int_ge(kernel_impl(k, ARAX_DEVICE_CPU)->fd, 0);
	ck_assert_ptr_null(kernel_impl(k, ARAX_DEVICE_CUDA));
	/* One manifest's kernels share the descriptor. */
	ck_assert_int_eq(k->impls[0].fd, registry_at(r, 2)->impls[0].fd);
}
END_TEST

#define WORK(more) \
	MANIFEST("{ \"signature\": \"f(in u8 x[], u64 a, u32 n, u32 k)\", \"addressing\": \"launch\", " \
		 "\"work\": { " more " }, " \
		 "\"implementations\": [ { \"kind\": \"cpu\", \"file\": \"l.so\", \"symbol\": \"f\" } ] }")

#define SIZE(more) \
	MANIFEST("{ \"signature\": \"f(u32 n)\", " more ", " \
		 "\"implementations\": [ { \"kind\": \"cpu\", \"file\": \"l.so\", \"symbol\": \"f\" } ] }")

/* Whatever the factors are: nothing, the most, more, and more than 64 bits hold. */
START_TEST(work_has_a_bound)
{
	static const struct { uint32_t n, k; int err; } cases[] = {
		{ 0, UINT32_MAX, 0 }, { 1000, 1, 0 }, { 1001, 1, -EINVAL }, { 30, 2, -EINVAL },
		{ UINT32_MAX, 0, 0 }, { UINT32_MAX, UINT32_MAX, -EINVAL },
	};
	struct { uint64_t a; uint32_t n, k; } args = { .a = UINT64_MAX };
	struct arax_launch l = { .args = &args, .arg_len = sizeof(args) };
	const struct kernel *k;
	char why[REASON_LEN];

	be_write(folder, "a.json", WORK("\"product\": [ \"n\", \"k\", \"k\", \"k\", \"k\", \"k\", \"k\" ], "
					"\"most\": 1000"));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	k = registry_find(r, "f");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		args.n = cases[i].n;
		args.k = cases[i].k;
		reason_forget();
		ck_assert_int_eq(work_check(k, &l, false), cases[i].err);
		reason_take(why);
		ck_assert_int_eq(!!why[0], !!cases[i].err);
	}
	args.n = 30;
	args.k = 2;
	ck_assert_int_eq(work_check(k, &l, false), -EINVAL);
	reason_take(why);
	ck_assert_str_eq(why, "kernel f would take 1920 steps, and nothing could end it: it does at most 1000 in a launch; launch it on smaller ranges (steps are n * k * k * k * k * k * k)");
	/* Those that the kernel itself refuses. */
	l.arg_len = 8;
	ck_assert_int_eq(work_check(k, &l, false), 0);
}
END_TEST

#define PRODUCT(one)	WORK("\"product\": [ \"" one "\" ], \"most\": 1")
#define N16	"n+n+n+n+n+n+n+n+n+n+n+n+n+n+n+n"
#define BLANK	"                                                                        "
#define LONG	"n " BLANK BLANK BLANK "                                     "

/* As long and as deep as they may be. */
START_TEST(products_at_their_ends)
{
	static const char *const texts[] = {
		PRODUCT("((((((((n))))))))"), PRODUCT("n-(n-(n-(n-(n-(n-(n-n))))))"),
		PRODUCT(N16 "+" N16), PRODUCT(LONG), PRODUCT("4294967295"),
	};

	ck_assert_uint_eq(sizeof(LONG), 256);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct registry *one = registry_create();

		be_write(folder, "a.json", texts[i]);
		ck_assert_msg(registry_load_folder(one, folder) == 1, "%s", texts[i]);
		registry_destroy(one);
	}
}
END_TEST

/* Factors are sums of products, counted upwards from 0; what has no room is too much. */
START_TEST(steps_are_counted)
{
	static const struct { const char *product; uint32_t n, k; uint64_t steps; } cases[] = {
		{ "\"7\"", 0, 0, 7 },
		{ "\" ( n + 2 * 3 - k ) / 2 + 1 \"", 10, 3, 7 },
		{ "\"n - k - 1\", \"2\"", 10, 3, 12 }, { "\"n - k\"", 3, 10, 0 },
		{ "\"n / k / 2\"", 100, 7, 7 }, { "\"n / 2 % 2 * k\"", 6, 9, 9 },
		{ "\"n / 2 % 2 * k\"", 5, 9, 0 }, { "\"n\", \"k + 1\", \"(n) - 2\"", 5, 1, 30 },
		{ "\"groups\", \"n\"", 5, 0, 30 }, { "\"n / k\"", 5, 0, UINT64_MAX },
		{ "\"n % k\"", 5, 0, UINT64_MAX }, { "\"n * n * n / n\"", UINT32_MAX, 0, UINT64_MAX },
		{ "\"n * n * n - n\"", UINT32_MAX, 0, UINT64_MAX },
		{ "\"n * n * n + 1\"", UINT32_MAX, 0, UINT64_MAX },
		{ "\"n * n * n % 7\"", UINT32_MAX, 0, UINT64_MAX },
		{ "\"n\", \"n\", \"n\", \"k\"", UINT32_MAX, 0, 0 },
	};
	struct { uint64_t a; uint32_t n, k; } args = { 0, 0, 0 };
	struct arax_launch l = { .args = &args, .arg_len = sizeof(args), .grid = { 3, 1, 2 } };
	char text[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct registry *one = registry_create();

		snprintf(text, sizeof(text), WORK("\"product\": [ %s ], \"most\": 1"),
			 cases[i].product);
		be_write(folder, "a.json", text);
		ck_assert_int_eq(registry_load_folder(one, folder), 1);
		args.n = cases[i].n;
		args.k = cases[i].k;
		ck_assert_msg(steps_of(&registry_find(one, "f")->work.steps, &l) == cases[i].steps,
			      "%s: %llu", cases[i].product, (unsigned long long)
			      steps_of(&registry_find(one, "f")->work.steps, &l));
		registry_destroy(one);
	}
}
END_TEST

/* Into which a launch on cores can be cut: then it is split. */
START_TEST(parts_are_told)
{
	const uint32_t n = 5;
	struct arax_launch l = { .args = &n, .arg_len = sizeof(n), .grid = { 3, 1, 2 } };
	const struct kernel *k;

	be_write(folder, "a.json", SIZE("\"parts\": \"n / 2 + 1\""));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	k = registry_find(r, "f");
	ck_assert(k->split);
	ck_assert_uint_eq(steps_of(&k->parts, &l), 3);
	ck_assert_uint_eq(k->size.nr, 0);
	registry_destroy(r);
	r = registry_create();
	be_write(folder, "a.json", SIZE("\"split\": \"groups\""));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	ck_assert(registry_find(r, "f")->split);
	ck_assert_uint_eq(registry_find(r, "f")->parts.nr, 0);
}
END_TEST

/* By itself, or it is the product; of a kernel in a worker, too. */
START_TEST(sizes_are_told)
{
	static const struct { const char *more; uint64_t size; } cases[] = {
		{ "\"addressing\": \"launch\", \"size\": \"n + 2\"", 7 },
		{ "\"size\": \"n * groups\"", 30 },
		{ "\"addressing\": \"launch\", \"work\": { \"product\": [ \"n\", \"n\" ], \"most\": 1 }", 25 },
		{ "\"addressing\": \"launch\", \"work\": { \"product\": [ \"n\", \"n\" ], \"most\": 1 }, "
		  "\"size\": \"n\"", 5 },
	};
	const uint32_t n = 5;
	struct arax_launch l = { .args = &n, .arg_len = sizeof(n), .grid = { 3, 1, 2 } };
	char text[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct registry *one = registry_create();
		const struct kernel *k;

		snprintf(text, sizeof(text), SIZE("%s"), cases[i].more);
		be_write(folder, "a.json", text);
		ck_assert_int_eq(registry_load_folder(one, folder), 1);
		k = registry_find(one, "f");
		ck_assert_uint_eq(steps_of(&k->size, &l), cases[i].size);
		/* It is no bound. */
		ck_assert_int_eq(!k->work.steps.nr, i < 2);
		registry_destroy(one);
	}
	be_write(folder, "a.json", SIZE("\"addressing\": \"launch\""));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	ck_assert_uint_eq(registry_find(r, "f")->size.nr, 0);
}
END_TEST

/* A GPU may have more of it. */
START_TEST(gpus_have_a_bound_of_their_own)
{
	struct { uint64_t a; uint32_t n, k; } args = { 0, 5000, 1 };
	struct arax_launch l = { .args = &args, .arg_len = sizeof(args), .grid = { 1, 1, 1 },
				 .block = { 1, 1, 1 } };
	const struct kernel *k;
	char why[REASON_LEN];

	be_write(folder, "a.json", WORK("\"product\": [ \"n\", \"k - 0\" ], \"most\": 1000, "
					"\"gpus\": 5000"));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	k = registry_find(r, "f");
	ck_assert_int_eq(work_check(k, &l, true), 0);
	ck_assert_int_eq(work_check(k, &l, false), -EINVAL);
	args.n++;
	ck_assert_int_eq(work_check(k, &l, true), -EINVAL);
	reason_take(why);
	ck_assert_str_eq(why, "kernel f would take 5001 steps, and nothing could end it: it does at most 5000 in a launch; launch it on smaller ranges (steps are n * (k - 0))");
}
END_TEST

/* Of one thread each; those that have nothing to do don't count. */
START_TEST(idle_groups_are_no_help)
{
	static const struct { uint32_t grid, block; int err; const char *or; } cases[] = {
		{ 1, 1, -EINVAL, ", or a larger grid" }, { 2, 1, -EINVAL, ", or larger work-groups" },
		{ 1u << 16, 1, -EINVAL, ", or larger work-groups" }, { 1, 2, -EINVAL, ", or a larger grid" },
		{ 2, 2, 0, NULL }, { 1u << 16, 2, 0, NULL }, { 1, 4, 0, NULL },
	};
	struct { uint64_t a; uint32_t n, k; } args = { 0, 1u << 31, 8 };
	struct arax_launch l = { .args = &args, .arg_len = sizeof(args) };
	const struct kernel *k;
	char why[REASON_LEN];

	be_write(folder, "a.json", WORK("\"product\": [ \"n\", \"k\" ], \"busy\": \"k / 4\", "
					"\"most\": 17179869184"));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	k = registry_find(r, "f");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int j = 0; j < 3; j++) {
			l.grid[j] = j ? 1 : cases[i].grid;
			l.block[j] = j ? 1 : cases[i].block;
		}
		ck_assert_int_eq(work_check(k, &l, true), cases[i].err);
		ck_assert_int_eq(work_allows(k, &l, true), !cases[i].err);
		ck_assert_int_eq(work_check(k, &l, false), 0);
		reason_take(why);
		ck_assert_msg(!cases[i].or || strstr(why, cases[i].or), "%zu: %s", i, why);
	}
}
END_TEST

#define APART(addressing, overlap) \
	MANIFEST("{ \"signature\": \"f(in u8 x[], in u8 y[], out u8 z[], inout u8 w[])\", " \
		 "\"addressing\": \"" addressing "\", \"overlap\": " overlap ", " \
		 "\"implementations\": [ { \"kind\": \"cpu\", \"file\": \"l.so\", \"symbol\": \"f\" } ] }")

/* What is written overlaps nothing; what is only read may. */
START_TEST(written_apart)
{
	char bytes[100], why[REASON_LEN];
	struct arax_launch_range ranges[4];
	const struct arax_launch l = { .ranges = ranges, .nr_ranges = 4 };
	const struct {
		struct arax_launch_range r[4];
		const char *which;
	} cases[] = {
		/* Side by side. */
		{ { { bytes, 10, 0, 1 }, { bytes + 10, 10, 0, 1 }, { bytes + 20, 10, 0, 1 },
		    { bytes + 30, 10, 0, 1 } }, NULL },
		{ { { bytes, 10, 0, 1 }, { bytes, 10, 0, 1 }, { bytes + 20, 10, 0, 1 },
		    { bytes + 30, 10, 0, 1 } }, NULL },
		/* Nothing has no place. */
		{ { { bytes + 5, 0, 0, 1 }, { NULL, 0, 0, 1 }, { bytes, 10, 0, 1 },
		    { bytes + 5, 0, 0, 1 } }, NULL },
		{ { { bytes, 10, 0, 1 }, { bytes + 10, 10, 0, 1 }, { bytes, 10, 0, 1 },
		    { bytes + 30, 10, 0, 1 } }, "0 and 2" },
		{ { { bytes, 10, 0, 1 }, { bytes + 10, 10, 0, 1 }, { bytes + 19, 1, 0, 1 },
		    { bytes + 30, 10, 0, 1 } }, "1 and 2" },
		{ { { bytes, 10, 0, 1 }, { bytes + 10, 10, 0, 1 }, { bytes + 20, 11, 0, 1 },
		    { bytes + 30, 10, 0, 1 } }, "2 and 3" },
		/* Rows from 0, 40 and 80 on. */
		{ { { bytes, 10, 40, 3 }, { bytes, 10, 0, 1 }, { bytes + 90, 10, 0, 1 },
		    { bytes + 89, 1, 0, 1 } }, "0 and 3" },
	};
	const struct kernel *k;

	be_write(folder, "a.json", APART("launch", "\"none\""));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	k = registry_find(r, "f");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(ranges, cases[i].r, sizeof(ranges));
		reason_forget();
		ck_assert_int_eq(overlap_check(k, &l), cases[i].which ? -EINVAL : 0);
		reason_take(why);
		ck_assert_msg(cases[i].which ? !!strstr(why, cases[i].which) : !why[0], "%zu: %s", i, why);
	}
}
END_TEST

/* Most kernels work in place, and whoever says nothing of it may. */
START_TEST(written_anywhere)
{
	char byte;
	const struct arax_launch_range ranges[4] = { { &byte, 1, 0, 1 }, { &byte, 1, 0, 1 },
						     { &byte, 1, 0, 1 }, { &byte, 1, 0, 1 } };
	const struct arax_launch l = { .ranges = ranges, .nr_ranges = 4 };

	be_write(folder, "a.json", APART("launch", "\"any\""));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	ck_assert_int_eq(overlap_check(registry_find(r, "f"), &l), 0);
}
END_TEST

#define OF(kind, file, more) "{ \"kind\": \"" kind "\", \"file\": \"" file "\", \"symbol\": \"f\"" more " }"
#define HOST	", \"entry\": \"host\""
#define GPUS	", \"devices\": \"gpus\""
#define SEVERAL(addressing, impls) MANIFEST("{ \"signature\": \"f()\", \"addressing\": \"" addressing \
					    "\", \"implementations\": [ " impls " ] }")

/* The first of a kind, and what is behind it, in their order. */
START_TEST(several_of_a_kind)
{
	const struct kernel_impl *impl;
	const struct kernel *k;

	be_write(folder, "l.cl", "");
	be_write(folder, "h.so", "");
	be_write(folder, "a.json",
		 SEVERAL("launch", OF("opencl", "h.so", HOST GPUS) "," OF("cuda", "h.so", HOST) ","
			 OF("cpu", "l.so", ", \"entry\": \"device\", \"devices\": \"any\"") ","
			 OF("opencl", "h.so", HOST) "," OF("opencl", "l.cl", "")));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	k = registry_find(r, "f");
	ck_assert_uint_eq(k->kinds, 1u << ARAX_DEVICE_CPU | 1u << ARAX_DEVICE_OPENCL |
				    1u << ARAX_DEVICE_CUDA);
	impl = kernel_impl(k, ARAX_DEVICE_OPENCL);
	ck_assert(impl->host && impl->gpus && impl == &k->impls[0]);
	impl = kernel_impl_next(k, impl);
	ck_assert(impl->host && !impl->gpus && impl == &k->impls[3]);
	impl = kernel_impl_next(k, impl);
	ck_assert(!impl->host && !impl->gpus && impl == &k->impls[4]);
	ck_assert_ptr_null(kernel_impl_next(k, impl));
	impl = kernel_impl(k, ARAX_DEVICE_CUDA);
	ck_assert(impl->host);
	ck_assert_ptr_null(kernel_impl_next(k, impl));
	impl = kernel_impl(k, ARAX_DEVICE_CPU);
	ck_assert(!impl->host && !impl->gpus);
	ck_assert_ptr_null(kernel_impl_next(k, impl));
}
END_TEST

START_TEST(folder_must_be_trusted)
{
	char link[80];

	ck_assert_int_eq(chmod(folder, 0775), 0);
	ck_assert_int_eq(registry_load_folder(r, folder), -EPERM);
	assert_logged("writable by its group");
	ck_assert_int_eq(chmod(folder, 0757), 0);
	ck_assert_int_eq(registry_load_folder(r, folder), -EPERM);
	assert_logged("writable by everyone");
	ck_assert_int_eq(chmod(folder, 0755), 0);
	ck_assert_int_eq(registry_load_folder(r, folder), 0);

	snprintf(link, sizeof(link), "%s.link", folder);
	ck_assert_int_eq(symlink(folder, link), 0);
	ck_assert_int_eq(registry_load_folder(r, link), -ELOOP);
	unlink(link);
	assert_logged("symbolic link");
	ck_assert_int_eq(registry_load_folder(r, "/nonexistent/arax"), -ENOENT);
	ck_assert_int_eq(registry_load_folder(r, log_path), -ENOTDIR);
}
END_TEST

START_TEST(folder_of_another_user)
{
	ck_assert_int_eq(chown(folder, 1234, 0), 0);
	ck_assert_int_eq(registry_load_folder(r, folder), -EPERM);
	assert_logged("owner is uid 1234");
	ck_assert_int_eq(chown(folder, 0, 0), 0);
}
END_TEST

/* What is wrong with a.json, or with l.so: both must be refused. */
START_TEST(files_must_be_trusted)
{
	static const char *const names[] = { "a.json", "l.so" };
	const char *name = names[_i];

	be_write(folder, "a.json", MANIFEST(KERNEL("one")));
	mode(name, 0664);
	ck_assert_int_eq(registry_load_folder(r, folder), 0);
	assert_logged("0664: writable by its group");
	mode(name, 0646);
	ck_assert_int_eq(registry_load_folder(r, folder), 0);
	assert_logged("0646: writable by everyone");
	mode(name, 0644);
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
}
END_TEST

START_TEST(files_of_another_user)
{
	static const char *const names[] = { "a.json", "l.so" };

	be_write(folder, "a.json", MANIFEST(KERNEL("one")));
	own(names[_i], 1234);
	ck_assert_int_eq(registry_load_folder(r, folder), 0);
	assert_logged("owner is uid 1234, must be root");
	own(names[_i], 0);
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
}
END_TEST

START_TEST(files_must_not_be_links)
{
	char real[512], name[512];

	be_write(folder, "a.json", MANIFEST(KERNEL("one")));
	snprintf(real, sizeof(real), "%s/real", folder);
	snprintf(name, sizeof(name), "%s/%s", folder, _i ? "l.so" : "a.json");
	ck_assert_int_eq(rename(name, real), 0);
	ck_assert_int_eq(symlink("real", name), 0);
	ck_assert_int_eq(registry_load_folder(r, folder), 0);
	assert_logged("symbolic link");
}
END_TEST

START_TEST(files_must_be_regular)
{
	char name[512];

	if (_i) {	/* a FIFO must neither be read nor waited for */
		be_write(folder, "a.json", MANIFEST(KERNEL("one")));
		snprintf(name, sizeof(name), "%s/l.so", folder);
	} else {
		snprintf(name, sizeof(name), "%s/a.json", folder);
	}
	unlink(name);
	ck_assert_int_eq(mkfifo(name, 0644), 0);
	ck_assert_int_eq(registry_load_folder(r, folder), 0);
	assert_logged("not a regular file");
}
END_TEST

START_TEST(names_are_unique)
{
	be_write(folder, "a.json", MANIFEST(KERNEL("one")));
	be_write(folder, "b.json", MANIFEST(KERNEL("two") ", " KERNEL("one")));
	ck_assert_int_eq(registry_load_folder(r, folder), 1);
	ck_assert_ptr_null(registry_find(r, "two"));	/* refused whole */
	assert_logged("kernel one is already provided by l 1");
}
END_TEST

START_TEST(refused_manifests_leave_nothing)
{
	int before = open_fds();

	be_write(folder, "a.json", MANIFEST(KERNEL("one") ", { \"signature\": \"x(\" }"));
	be_write(folder, "b.json",
		 MANIFEST("{ \"signature\": \"two()\", \"implementations\": [ { \"kind\": \"cpu\", "
			  "\"file\": \"l.so\", \"symbol\": \"f\" }, { \"kind\": \"hip\", "
			  "\"file\": \"missing.so\", \"symbol\": \"f\" } ] }"));
	ck_assert_int_eq(registry_load_folder(r, folder), 0);
	ck_assert_int_eq(open_fds(), before);
	assert_logged("library missing.so: open: No such file");
}
END_TEST

START_TEST(too_long)
{
	char path[512];

	be_write(folder, "a.json", MANIFEST(KERNEL("one")));
	snprintf(path, sizeof(path), "%s/a.json", folder);
	ck_assert_int_eq(truncate(path, MANIFEST_MAX_BYTES + 1), 0);
	ck_assert_int_eq(registry_load_folder(r, folder), 0);
	assert_logged("longer than 1048576 bytes");
}
END_TEST

static const struct {
	const char *text, *error;
} bad[] = {
	{ "", "line" },
	{ "{", "line" },
	{ "[]", "manifest is not an object" },
	{ "{}", "manifest needs a string 'library'" },
	{ "{ \"library\": \"l\" }", "needs a string 'version'" },
	{ "{ \"library\": \"l\", \"library\": \"l\" }", "duplicate" },
	{ "{ \"library\": \"l\", \"version\": \"1\" }", "needs an array 'kernels'" },
	{ "{ \"library\": 1, \"version\": \"1\", \"kernels\": [] }", "needs a string 'library'" },
	{ "{ \"library\": \"\", \"version\": \"1\", \"kernels\": [] }", "must have 1 to 63" },
	{ "{ \"library\": \"\\n\", \"version\": \"1\", \"kernels\": [] }", "not printable" },
	{ "{ \"library\": \"l\", \"version\": \"1\", \"kernels\": [], \"x\": 1 }", "unknown key 'x'" },
	{ MANIFEST("1"), "kernel 0 is not an object" },
	{ MANIFEST("{}"), "kernel 0 needs a string 'signature'" },
	{ MANIFEST("{ \"signature\": \"f()\", \"extra\": 1 }"), "unknown key 'extra'" },
	{ MANIFEST("{ \"signature\": \"f(\" }"), "signature: type expected" },
	{ MANIFEST("{ \"signature\": \"f()\" }"), "needs an array 'implementations'" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [] }"), "needs an array" },
	{ MANIFEST("{ \"signature\": \"f()\", \"addressing\": \"x\" }"), "must be \"launch\" or" },
	{ MANIFEST("{ \"signature\": \"f()\", \"split\": true }"), "must be \"none\" or" },
	{ APART("launch", "true"), "must be \"any\" or \"none\"" },
	{ APART("data", "\"none\""), "\"overlap\" needs \"addressing\"" },
	{ MANIFEST("{ \"signature\": \"f()\", \"work\": {} }"), "\"work\" needs \"addressing\"" },
	{ WORK("\"least\": 1"), "work has an unknown key 'least'" },
	{ WORK("\"most\": 1"), "work needs an array 'product'" },
	{ WORK("\"product\": []"), "work needs an array 'product'" },
	{ WORK("\"product\": [ \"n\" ]"), "work needs an integer 'most'" },
	{ WORK("\"product\": [ \"n\" ], \"most\": 0"), "work needs an integer 'most'" },
	{ WORK("\"product\": [ \"n\" ], \"most\": 1.5"), "work needs an integer 'most'" },
	{ WORK("\"product\": [ \"n\" ], \"most\": 1, \"gpus\": 0"), "work needs an integer 'gpus'" },
	{ WORK("\"product\": [ 1 ], \"most\": 1"), "'product' is of strings" },
	{ WORK("\"product\": [ \"n\" ], \"most\": 1, \"busy\": 1"), "f needs a string 'busy'" },
	{ WORK("\"product\": [ \"n\" ], \"most\": 1, \"busy\": \"a\""),
	  "f: 'busy' may name plain arguments of type u32, and not 'a'" },
	{ SIZE("\"parts\": \"x\""), "f: 'parts' may name plain arguments of type u32, and not 'x'" },
	{ SIZE("\"parts\": 4"), "f needs a string 'parts'" },
	{ SIZE("\"parts\": \"n\", \"split\": \"groups\""),
	  "f has 'parts', which stand in the place of 'split'" },
	{ SIZE("\"parts\": \"n\", \"size\": \"n * groups\""),
	  "f: 'work' and 'size' may name groups if 'parts' is \"groups\" alone" },
	{ SIZE("\"size\": \"x\""), "f: 'size' may name plain arguments of type u32, and not 'x'" },
	{ SIZE("\"size\": 5"), "f needs a string 'size'" },
	{ SIZE("\"size\": \"\""), "f: 'size' must have 1 to 256 bytes" },
	{ SIZE("\"size\": \"n +\""), "f: 'size' has no number or name at byte 4" },
	{ PRODUCT("x"), "may name plain arguments of type u32, and not 'x'" },
	{ PRODUCT("a"), "may name plain arguments of type u32, and not 'a'" },
	{ PRODUCT("f"), "may name plain arguments of type u32, and not 'f'" },
	{ PRODUCT(""), "has no number or name at byte 1" },
	{ PRODUCT("n +"), "has no number or name at byte 4" },
	{ PRODUCT("-n"), "has no number or name at byte 1" },
	{ PRODUCT("(n + k"), "has no ')' at byte 7" },
	{ PRODUCT("n + k)"), "goes on at byte 6" },
	{ PRODUCT("n k"), "goes on at byte 3" },
	{ PRODUCT("4294967296"), "a number of more than 32 bits" },
	{ PRODUCT("(((((((((n)))))))))"), "is too deep" },
	{ PRODUCT("n-(n-(n-(n-(n-(n-(n-(n-n)))))))"), "too long, or too deep" },
	{ PRODUCT(N16 "+" N16 "+n"), "too long, or too deep" },
	{ PRODUCT(LONG " "), "more than 255 bytes" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [ { \"kind\": \"cpu\", "
		   "\"file\": \"../l.so\", \"symbol\": \"f\" } ] }"), "not a plain name" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [ { \"kind\": \"cpu\", "
		   "\"file\": \"/l.so\", \"symbol\": \"f\" } ] }"), "not a plain name" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [ { \"kind\": \"cpu\", "
		   "\"file\": \".l.so\", \"symbol\": \"f\" } ] }"), "not a plain name" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [ { \"kind\": \"abacus\", "
		   "\"file\": \"l.so\", \"symbol\": \"f\" } ] }"), "unknown kind 'abacus'" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [ { \"kind\": \"cpu\", "
		   "\"file\": \"l.so\", \"symbol\": \"f\" }, { \"kind\": \"cpu\", "
		   "\"file\": \"m.so\", \"symbol\": \"f\" } ] }"),
	  "no device would take this implementation of kind 'cpu'" },
	{ SEVERAL("launch", OF("opencl", "l.cl", "") "," OF("opencl", "h.so", HOST)),
	  "no device would take this implementation of kind 'opencl'" },
	{ SEVERAL("launch", OF("opencl", "h.so", ", \"entry\": \"library\"")),
	  "'entry' must be \"device\" or \"host\"" },
	{ SEVERAL("launch", OF("opencl", "h.so", ", \"entry\": 1")), "'entry' must be" },
	{ SEVERAL("launch", OF("opencl", "h.so", ", \"devices\": \"cpus\"")),
	  "'devices' must be \"any\" or \"gpus\"" },
	{ SEVERAL("launch", OF("cpu", "h.so", HOST)),
	  "\"entry\": \"host\" is for the kinds opencl, cuda and hip" },
	{ SEVERAL("launch", OF("xrt", "h.so", HOST)), "is for the kinds opencl, cuda and hip" },
	{ SEVERAL("launch", OF("cpu", "h.so", GPUS)),
	  "\"devices\": \"gpus\" is for the kinds opencl, cuda and hip" },
	{ SEVERAL("data", OF("opencl", "h.so", HOST)),
	  "\"entry\": \"host\" needs \"addressing\": \"launch\"" },
	{ SEVERAL("data", OF("opencl", "l.cl", GPUS)),
	  "\"devices\": \"gpus\" needs \"addressing\": \"launch\"" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [ { \"kind\": \"cpu\" } ] }"),
	  "needs a string 'file'" },
	{ MANIFEST(KERNEL("f") ", " KERNEL("f")), "stands here twice" },
	{ MANIFEST("{ \"signature\": \"f()\", \"implementations\": [ 1,2,3,4,5,6,7,8,9 ] }"),
	  "more than 8" },
};

START_TEST(bad_manifests)
{
	char error[512] = "";
	struct manifest m;

	ck_assert_int_lt(manifest_parse(&m, bad[_i].text, strlen(bad[_i].text), error,
					sizeof(error)), 0);
	ck_assert_msg(strstr(error, bad[_i].error), "'%s' gives '%s'", bad[_i].text, error);
}
END_TEST

START_TEST(trusted_path_checks_both)
{
	char path[512], why[256];
	int fd;

	snprintf(path, sizeof(path), "%s/l.so", folder);
	fd = trusted_open_path(path, why, sizeof(why));
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(chmod(folder, 0777), 0);
	ck_assert_int_eq(trusted_open_path(path, why, sizeof(why)), -EPERM);
	ck_assert_ptr_nonnull(strstr(why, "its folder"));
	ck_assert_int_eq(chmod(folder, 0755), 0);
	ck_assert_int_eq(trusted_open_path("l.so", why, sizeof(why)), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("registry");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, loads);
	tcase_add_test(t, work_has_a_bound);
	tcase_add_test(t, parts_are_told);
	tcase_add_test(t, sizes_are_told);
	tcase_add_test(t, written_apart);
	tcase_add_test(t, written_anywhere);
	tcase_add_test(t, products_at_their_ends);
	tcase_add_test(t, steps_are_counted);
	tcase_add_test(t, gpus_have_a_bound_of_their_own);
	tcase_add_test(t, idle_groups_are_no_help);
	tcase_add_test(t, several_of_a_kind);
	tcase_add_test(t, folder_must_be_trusted);
	tcase_add_loop_test(t, files_must_be_trusted, 0, 2);
	tcase_add_loop_test(t, files_must_not_be_links, 0, 2);
	tcase_add_loop_test(t, files_must_be_regular, 0, 2);
	tcase_add_test(t, names_are_unique);
	tcase_add_test(t, refused_manifests_leave_nothing);
	tcase_add_test(t, too_long);
	tcase_add_loop_test(t, bad_manifests, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, trusted_path_checks_both);
	if (geteuid() == 0) {	/* chown(2) needs it */
		tcase_add_test(t, folder_of_another_user);
		tcase_add_loop_test(t, files_of_another_user, 0, 2);
	} else {
		be_skip("folder_of_another_user", "not root: nothing can be given away");
		be_skip("files_of_another_user:0", "not root: nothing can be given away");
		be_skip("files_of_another_user:1", "not root: nothing can be given away");
	}
	suite_add_tcase(suite, t);
	return be_main(suite);
}
