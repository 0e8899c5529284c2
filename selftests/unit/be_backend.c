// SPDX-License-Identifier: MIT
/* Devices, the plug-in ABI, filters, CPU lists, gangs. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "daemon/backends/cpulist.h"
#include "daemon/backends/device.h"
#include "daemon/backends/gang.h"
#include "daemon/log.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/wait.h"
#include "uapi/arax.h"

static struct config config;
static struct devices *devices;
static char log_path[UNIT_TMP_LEN];

static void setup(void)
{
	int fd = mkstemp(unit_tmp(log_path, "arax-be-XXXXXX"));

	ck_assert_int_ge(fd, 0);
	log_init(fd, LOG_LEVEL_DEBUG, LOG_FORMAT_PLAIN);
}

static void teardown(void)
{
	devices_close(devices);
	devices = NULL;
	config_free(&config);
	unlink(log_path);
}

static int open_with(const char *text)
{
	char error[512];

	ck_assert_msg(!config_parse(&config, "test", text, strlen(text), error, sizeof(error)), "%s",
		      error);
	return devices_open(&config, &devices);
}

static const char *plugin_path(const char *name)
{
	static char path[PATH_MAX + 64];
	char cwd[PATH_MAX];

	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	snprintf(path, sizeof(path), "%s/build/test/plugins/%s.so", cwd, name);
	return path;
}

static int open_plugin(const char *section, const char *name, const char *file, const char *more)
{
	char text[PATH_MAX + 512];

	snprintf(text, sizeof(text), "cpu { enable = false } %s \"%s\" { file = \"%s\" } %s", section,
		 name, plugin_path(file), more);
	return open_with(text);
}

static void assert_logged(const char *text)
{
	char buf[16384];
	FILE *f = fopen(log_path, "r");
	size_t n = fread(buf, 1, sizeof(buf) - 1, f);

	fclose(f);
	buf[n] = '\0';
	ck_assert_msg(strstr(buf, text), "'%s' is not in:\n%s", text, buf);
}

/* ------------------------------------------------------------------ */

START_TEST(cpu_lists)
{
	static const struct { const char *in, *out; int err; } cases[] = {
		{ "0", "0", 0 }, { "0-3", "0-3", 0 }, { "3,1,2", "1-3", 0 },
		{ "0-1,8,10-11", "0-1,8,10-11", 0 }, { "1023", "1023", 0 },
		{ "", "", -EINVAL }, { "1-", "", -EINVAL }, { "-1", "", -EINVAL },
		{ "2-1", "", -EINVAL }, { "1,,2", "", -EINVAL }, { "1 ", "", -EINVAL },
		{ "x", "", -EINVAL }, { "1024", "", -ERANGE },
		{ "99999999999999999999", "", -ERANGE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];
		cpu_set_t set;

		ck_assert_int_eq(cpulist_parse(cases[i].in, &set), cases[i].err);
		if (cases[i].err)
			continue;
		cpulist_format(&set, text, sizeof(text));
		ck_assert_str_eq(text, cases[i].out);
	}
}
END_TEST

START_TEST(cpu_default_has_devices)
{
	cpu_set_t all;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	ck_assert_int_eq(open_with(""), 0);
	ck_assert_uint_ge(devices_count(devices), 1);
	if (CPU_COUNT(&all) == 2)
		ck_assert_uint_eq(devices_count(devices), 2);
	ck_assert_uint_eq(devices_at(devices, 0)->info.kind, ARAX_DEVICE_CPU);
	ck_assert_uint_eq(devices_at(devices, 0)->info.lanes,
			  devices_at(devices, 0)->info.units < 64 ?
			  devices_at(devices, 0)->info.units : 64);
	ck_assert_uint_eq(devices_at(devices, 0)->info.memory, 0);
	ck_assert_str_eq(devices_at(devices, 0)->info.name, "cpu0");
	ck_assert_ptr_null(devices_at(devices, devices_count(devices)));
}
END_TEST

START_TEST(cpu_groups)
{
	ck_assert_int_eq(open_with("cpu { groups = { \"0\" } }"), 0);
	ck_assert_uint_eq(devices_count(devices), 1);
	ck_assert_str_eq(devices_at(devices, 0)->info.cpus, "0");
	ck_assert_uint_eq(devices_at(devices, 0)->info.units, 1);
}
END_TEST

START_TEST(cpu_group_that_is_not_there)
{
	ck_assert_int_eq(open_with("cpu { groups = { \"0\", \"1000\" } }"), -ENODEV);
	assert_logged("cpu.groups item 2 names a CPU that araxd may not use");
}
END_TEST

START_TEST(nothing_at_all)
{
	ck_assert_int_eq(open_with("cpu { enable = false }"), -ENODEV);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The ABI                                                               */

static const char *const old_files[] = {
	"first-today",
#ifdef __x86_64__
	"first",	/* a binary of then */
#endif
};

START_TEST(old_backend_runs)
{
	struct arax_backend_kernel k = { .size = sizeof(k), .fd = -1 };
	struct arax_backend_run r = { .size = sizeof(r), .lane = 2, .name = "x" };
	struct device *dev;
	uint64_t address;

	ck_assert_int_eq(open_plugin("backend", "first", old_files[_i], "filter \"stats\" { }"), 0);
	ck_assert_uint_eq(devices_count(devices), 2);
	dev = devices_at(devices, 1);
	ck_assert_uint_eq(dev->info.lanes, 3);
	ck_assert_uint_eq(dev->info.units, 4);
	ck_assert_str_eq(dev->info.name, "first0");
	ck_assert_int_eq(device_kernel_load(dev, &k, &r.kernel), 0);
	ck_assert_int_eq(device_run(dev, &r), -1);
	ck_assert_int_eq(device_run(dev, &r), -2);
	/* What it did not know is absent, not garbage. */
	ck_assert_int_eq(device_alloc(dev, 1, 0, &address), -EOPNOTSUPP);
	ck_assert_int_eq(device_quiesce(dev, 0), -EOPNOTSUPP);
	ck_assert_int_eq(device_reset(dev), -EOPNOTSUPP);
	device_kernel_unload(dev, r.kernel);
}
END_TEST

START_TEST(old_filter_passes_on)
{
	struct arax_backend_run r = { .size = sizeof(r), .lane = 2, .name = "x" };
	char more[PATH_MAX + 256];
	struct device *dev;

	snprintf(more, sizeof(more), "filter \"first\" { file = \"%s\" }", plugin_path(old_files[_i]));
	ck_assert_int_eq(open_plugin("backend", "variant", "variant0", more), 0);
	dev = devices_at(devices, 0);
	ck_assert_int_eq(device_run(dev, &r), 0);
}
END_TEST

START_TEST(backend_options_are_checked)
{
	char text[PATH_MAX + 512];
	static const struct { const char *option; int err; const char *logged; } cases[] = {
		{ "answer=42", 0, "device" },
		{ "answer=41", -EINVAL, "the value can't be" },
		{ "question=42", -ENOENT, "there is no such key" },
	};

	snprintf(text, sizeof(text),
		 "cpu { enable = false } backend \"variant\" { file = \"%s\" options = { \"%s\" } }",
		 plugin_path("variant0"), cases[_i].option);
	ck_assert_int_eq(open_with(text), cases[_i].err);
	assert_logged(cases[_i].logged);
	assert_logged("plug-in says plugin=variant text=\"hello\\x0a\"");
}
END_TEST

static const struct {
	const char *name, *file;
	int err;
	const char *logged;
} plugins[] = {
	{ "variant", "variant1", -EINVAL, "is of API version 2, this araxd has 1" },
	{ "variant", "variant2", -EINVAL, "the first version had" },
	{ "variant", "variant3", -EINVAL, "lacks the mandatory call run" },
	{ "variant", "variant4", -EINVAL, "calls itself somebody, not variant" },
	{ "variant", "variant5", -EINVAL, "init returned NULL" },
	{ "variant", "variant6", 0, "name=variant0" },
	{ "variant", "nothing-there", -ENOENT, "open: No such file" },
	{ "other", "variant0", -EINVAL, "calls itself variant, not other" },
};

START_TEST(plugins_are_checked)
{
	ck_assert_int_eq(open_plugin("backend", plugins[_i].name, plugins[_i].file, ""),
			 plugins[_i].err);
	assert_logged(plugins[_i].logged);
}
END_TEST

START_TEST(plugin_file_must_be_trusted)
{
	char folder[64], text[512], path[128];
	char from[PATH_MAX + 64];

	be_mkdir(folder);
	strcpy(from, plugin_path("variant0"));
	be_copy(from, folder, "p.so");
	snprintf(path, sizeof(path), "%s/p.so", folder);
	snprintf(text, sizeof(text), "backend \"variant\" { file = \"%s\" }", path);
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(open_with(text), -EPERM);
	assert_logged("writable by everyone");
	config_free(&config);
	ck_assert_int_eq(chmod(path, 0644), 0);
	be_write(folder, "p.so", "not a library");
	ck_assert_int_eq(open_with(text), -ENOEXEC);
	config_free(&config);
	be_copy("build/test/kernels/arax-test.so", folder, "p.so");
	ck_assert_int_eq(open_with(text), -ENOEXEC);
	assert_logged("has no symbol arax_backend_init");
	be_rmdir(folder);
}
END_TEST

START_TEST(absent_backend_says_why)
{
	char text[PATH_MAX + 128];

	snprintf(text, sizeof(text), "backend \"variant\" { file = \"%s\" }",
		 plugin_path("variant7"));
	ck_assert_int_eq(open_with(text), 0);	/* the CPUs go on */
	ck_assert_uint_eq(devices_nr_absent(devices), 1);
	ck_assert_str_eq(devices_absent(devices, 0)->backend, "variant");
	ck_assert_str_eq(devices_absent(devices, 0)->why, "libvariant.so.1 is not installed");
	ck_assert_ptr_null(devices_absent(devices, 1));
}
END_TEST

START_TEST(unknown_and_double_names)
{
	ck_assert_int_eq(open_with("backend \"abacus\" { }"), -ENOENT);
	assert_logged("no such backend is built in");
	config_free(&config);
	ck_assert_int_eq(open_with("filter \"abacus\" { }"), -ENOENT);
	assert_logged("no such filter is built in");
	config_free(&config);
	ck_assert_int_eq(open_with("backend \"cpu\" { }"), -EEXIST);
}
END_TEST

START_TEST(memory_goes_through_filters)
{
	struct device *dev;
	uint64_t address;
	char out[8];
	json_t *root, *dump;
	char *text;

	ck_assert_int_eq(open_plugin("backend", "variant", "variant8", "filter \"stats\" { } "
				     "filter \"delay\" { options = { \"copy-ms=3\" } }"), 0);
	dev = devices_at(devices, 0);
	ck_assert_int_eq(device_alloc(dev, 100, 16, &address), 0);
	ck_assert_uint_eq(address, 16);
	ck_assert_int_eq(device_alloc(dev, 5000, 0, &address), -ENOMEM);
	ck_assert_int_eq(device_copy_in(dev, 0, 16, "morning", 8), 0);
	ck_assert_int_eq(device_copy_out(dev, 0, out, 16, 8), 0);
	ck_assert_str_eq(out, "morning");
	device_free(dev, 16);
	text = devices_dump(devices);
	root = json_loads(text, 0, NULL);
	ck_assert_ptr_nonnull(root);
	dump = json_object_get(json_array_get(root, 0), "data");
	ck_assert_int_eq(json_integer_value(json_object_get(dump, "bytes_in")), 8);
	/* Stats stands above delay: it saw the 3 ms. */
	ck_assert_int_ge(json_integer_value(json_object_get(json_object_get(dump, "copy_out"),
							    "min_ns")), 3000000);
	json_decref(root);
	free(text);
}
END_TEST

START_TEST(host_devices_have_no_memory)
{
	uint64_t address;

	ck_assert_int_eq(open_with("filter \"stats\" { }"), 0);
	ck_assert_int_eq(device_alloc(devices_at(devices, 0), 1, 0, &address), -EOPNOTSUPP);
	ck_assert_int_eq(device_copy_in(devices_at(devices, 0), 0, 0, "", 1), -EOPNOTSUPP);
	ck_assert_int_eq(device_copy_out(devices_at(devices, 0), 0, &address, 0, 1), -EOPNOTSUPP);
}
END_TEST

START_TEST(cpus_with_memory_of_their_own)
{
	struct device *dev;
	uint64_t a, b;
	char out[8];

	ck_assert_int_eq(open_with("cpu { memory = \"64K\" }"), 0);
	dev = devices_at(devices, 0);
	ck_assert_uint_eq(dev->info.memory, 65536);
	ck_assert_uint_eq(dev->info.lanes, 2);
	ck_assert_int_eq(device_alloc(dev, 65537, 0, &a), -ENOMEM);
	ck_assert_int_eq(device_alloc(dev, UINT64_MAX, 0, &a), -ENOMEM);
	ck_assert_int_eq(device_alloc(dev, 1, 4096, &a), -EOPNOTSUPP);
	ck_assert_int_eq(device_alloc(dev, 65000, 0, &a), 0);
	ck_assert_int_eq(device_alloc(dev, 1000, 0, &b), -ENOMEM);
	ck_assert_int_eq(device_copy_in(dev, 0, a + 10, "morning", 8), 0);
	ck_assert_int_eq(device_copy_out(dev, 1, out, a + 10, 8), 0);
	ck_assert_str_eq(out, "morning");
	device_free(dev, a);
	ck_assert_int_eq(device_alloc(dev, 65536, 0, &b), 0);
	device_free(dev, b);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Filters                                                               */

static int run_named(const char *name)
{
	struct arax_backend_run r = { .size = sizeof(r), .name = name };

	return device_run(devices_at(devices, 0), &r);
}

static void open_filters(const char *filters)
{
	ck_assert_int_eq(open_plugin("backend", "variant", "variant0", filters), 0);
}

START_TEST(error_every)
{
	open_filters("filter \"error\" { options = { \"errno=ENOSPC\", \"every=3\" } }");
	for (int i = 1; i <= 30; i++)
		ck_assert_int_eq(run_named("k"), i % 3 ? 0 : -ENOSPC);
}
END_TEST

START_TEST(error_by_name)
{
	char *text, want[128];

	open_filters("filter \"error\" { options = { \"errno=5\", \"kernel=b*r\" } }");
	ck_assert_int_eq(run_named("blur"), -EIO);
	ck_assert_int_eq(run_named("blurs"), 0);
	ck_assert_int_eq(run_named("blur"), -EIO);
	text = devices_dump(devices);
	snprintf(want, sizeof(want), "\"seen\": 2, \"failed\": 2");
	ck_assert_ptr_nonnull(strstr(text, want));
	free(text);
}
END_TEST

START_TEST(error_probability)
{
	int failed = 0;

	open_filters("filter \"error\" { options = { \"probability=0.25\", \"seed=7\" } }");
	for (int i = 0; i < 4000; i++)
		failed += run_named("k") == -EIO;
	ck_assert_int_gt(failed, 850);
	ck_assert_int_lt(failed, 1150);
}
END_TEST

START_TEST(delay_takes_its_time)
{
	struct timespec a, b;
	long ms;

	open_filters("filter \"delay\" { options = { \"run-ms=20\", \"jitter-ms=5\", \"kernel=slow\" } }");
	clock_gettime(CLOCK_MONOTONIC, &a);
	ck_assert_int_eq(run_named("slow"), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
	ck_assert_int_ge(ms, 19);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(run_named("fast"), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert_int_lt(b.tv_sec - a.tv_sec, 10);	/* 1,000 delays are 20 s */
}
END_TEST

START_TEST(stats_counts_and_writes)
{
	char folder[64], text[256], path[128];
	json_t *root, *k;

	be_mkdir(folder);
	snprintf(path, sizeof(path), "%s/stats.json", folder);
	snprintf(text, sizeof(text),
		 "filter \"stats\" { options = { \"file=%s\" } } "
		 "filter \"error\" { options = { \"kernel=bad\" } }", path);
	open_filters(text);
	for (int i = 0; i < 5; i++)
		run_named("good");
	for (int i = 0; i < 3; i++)
		run_named("bad");
	devices_close(devices);
	devices = NULL;
	root = json_load_file(path, 0, NULL);
	ck_assert_ptr_nonnull(root);
	k = json_object_get(json_object_get(root, "kernels"), "good");
	ck_assert_int_eq(json_integer_value(json_object_get(k, "count")), 5);
	ck_assert_int_eq(json_integer_value(json_object_get(k, "errors")), 0);
	k = json_object_get(json_object_get(root, "kernels"), "bad");
	ck_assert_int_eq(json_integer_value(json_object_get(k, "count")), 3);
	ck_assert_int_eq(json_integer_value(json_object_get(k, "errors")), 3);
	json_decref(root);
	be_rmdir(folder);
}
END_TEST

/* Nobody counts for days to learn that there is no such folder. */
START_TEST(stats_says_what_it_cannot_write)
{
	ck_assert_int_eq(open_with("filter \"stats\" { options = { \"file=/nowhere/at/all\" } }"),
			 -ENOENT);
	assert_logged("file can't be written");
}
END_TEST

/* A disk may be full by the end. */
START_TEST(stats_says_what_is_lost)
{
	open_filters("filter \"stats\" { options = { \"file=/dev/full\" } }");
	run_named("good");
	devices_close(devices);
	devices = NULL;
	assert_logged("figures are lost");
}
END_TEST

START_TEST(stats_bounds_its_table)
{
	char name[16];
	char *text;

	open_filters("filter \"stats\" { }");
	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		run_named(name);
	}
	text = devices_dump(devices);
	ck_assert_ptr_nonnull(strstr(text, "\"(others)\": {\"count\": 88"));
	free(text);
}
END_TEST

START_TEST(filters_choose_devices)
{
	open_filters("filter \"error.a\" { devices = \"cpu*\" options = { \"every=1\" } }");
	ck_assert_int_eq(run_named("k"), 0);
}
END_TEST

/* The first filter of the file is outermost: stats below error sees nothing. */
START_TEST(order_is_the_files)
{
	char *text;

	open_filters("filter \"error\" { options = { \"every=1\" } } filter \"stats\" { }");
	ck_assert_int_eq(run_named("k"), -EIO);
	text = devices_dump(devices);
	ck_assert_ptr_nonnull(strstr(text, "\"kernels\": {}"));
	free(text);
}
END_TEST

static const struct {
	const char *filter, *option, *logged;
	int err;
} bad_options[] = {
	{ "delay", "run-ms=-1", "want a number from 0 to 3.6e+06", -EINVAL },
	{ "delay", "run-ms=x", "want a number", -EINVAL },
	{ "delay", "run-ms=nan", "want a number", -EINVAL },
	{ "delay", "copy-ms=1e99", "want a number", -EINVAL },
	{ "delay", "speed=1", "there is no such key", -ENOENT },
	{ "error", "probability=1.1", "want a number from 0 to 1", -EINVAL },
	{ "error", "errno=EWRONG", "want a name such as EIO, or a number from 1 to 4095", -EINVAL },
	{ "error", "errno=0", "want a name such as EIO", -EINVAL },
	{ "error", "every=-1", "want a number", -EINVAL },
	{ "error", "colour=1", "there is no such key", -ENOENT },
	{ "error", "errno=EIO", "give every, probability or kernel", -EINVAL },
	{ "stats", "file=relative", "want a path that begins with /", -EINVAL },
	{ "stats", "x=1", "there is no such key", -ENOENT },
};

START_TEST(filter_options_are_checked)
{
	char text[256];

	snprintf(text, sizeof(text), "filter \"%s\" { options = { \"%s\" } }",
		 bad_options[_i].filter, bad_options[_i].option);
	ck_assert_int_eq(open_with(text), bad_options[_i].err);
	assert_logged(bad_options[_i].logged);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Gangs                                                                 */

#define GROUPS 10000u

static _Atomic uint32_t visits[GROUPS];

static int visit(const struct arax_launch *l)
{
	for (uint64_t g = l->group_begin; g < l->group_end; g++)
		atomic_fetch_add_explicit(&visits[g], 1, memory_order_relaxed);
	return 0;
}

static int fail_at_7(const struct arax_launch *l)
{
	return l->group_begin <= 7 && 7 < l->group_end ? -EDOM : 0;
}

static struct gang *make_gang(void)
{
	struct gang *g;
	cpu_set_t all;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	ck_assert_int_eq(gang_create(&all, &g), 0);
	return g;
}

static void *visitor(void *arg)
{
	struct arax_launch l = { .size = sizeof(l), .grid = { GROUPS, 1, 1 }, .group_end = GROUPS };

	for (int i = 0; i < 500; i++)
		ck_assert_int_eq(gang_run(arg, visit, &l, true), 0);
	return NULL;
}

START_TEST(gang_serves_several_callers)
{
	struct gang *g = make_gang();
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, visitor, g), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	for (uint32_t i = 0; i < GROUPS; i++)
		ck_assert_uint_eq(visits[i], 1500);
	gang_destroy(g);
}
END_TEST

/* A launch, or several: spans begun, by how many threads at once, and what they wait for. */
struct crowd {
	_Atomic uint32_t threads, spans;
	_Atomic uint32_t helped;	/* spans that another thread ran than launched it */
	struct crowd *other;
	uint32_t wanted;		/* threads, of this and of the other */
	uint32_t released;		/* its caller's own span ends when so many others have one */
};

struct caller {
	pthread_t thread, self;
	struct gang *gang;
	struct crowd *crowd;
	uint64_t groups;
	bool split;
	int err;
};

/* Its caller came too late to have a span itself: others have them all. */
static bool is_late(const struct crowd *c)
{
	return c->released && c->helped > c->released;
}

static bool crowd_is_there(const struct crowd *c)
{
	return is_late(c) || (c->threads >= c->wanted &&
			      (!c->other || c->other->threads >= c->other->wanted));
}

/* Each span stays until as many threads are in as are wanted, at most WAIT_S. */
static int gather(const struct arax_launch *l)
{
	const struct caller *caller = *(struct caller *const *)l->args;
	struct crowd *c = caller->crowd;

	c->spans++;
	c->helped += !pthread_equal(pthread_self(), caller->self);
	c->threads++;
	if (c->released && pthread_equal(pthread_self(), caller->self))
		return comes_true(c->helped >= c->released, 1000) ? 0 : -ETIME;
	if (!comes_true(crowd_is_there(c), 1000))
		return -ETIME;
	/* Nobody leaves before all have seen it. */
	usleep(20000);
	return 0;
}

static void *call_gang(void *arg)
{
	struct caller *c = arg;
	struct arax_launch l = { .size = sizeof(l), .grid = { (uint32_t)c->groups, 1, 1 },
				 .group_end = c->groups, .args = &c, .arg_len = sizeof(c) };

	c->self = pthread_self();
	c->err = gang_run(c->gang, gather, &l, c->split);
	return NULL;
}

static void start_caller(struct caller *c, struct gang *g, struct crowd *crowd, uint64_t groups,
			 bool split)
{
	*c = (struct caller){ .gang = g, .crowd = crowd, .groups = groups, .split = split };
	ck_assert_int_eq(pthread_create(&c->thread, NULL, call_gang, c), 0);
}

static void end_caller(struct caller *c)
{
	pthread_join(c->thread, NULL);
	ck_assert_int_eq(c->err, 0);
}

/* Of four cores, whatever this machine has. */
static struct gang *gang_of_four(void)
{
	struct gang *g;
	cpu_set_t all;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; CPU_COUNT(&all) != 4; cpu++) {
		if (CPU_COUNT(&all) > 4)
			CPU_CLR(cpu, &all);
		else
			CPU_SET(cpu, &all);
	}
	ck_assert_int_eq(gang_create(&all, &g), 0);
	ck_assert_uint_eq(gang_size(g), 4);
	return g;
}

/* Two at once: neither has to wait for the other, and each has half of the cores. */
START_TEST(gang_shares_cores)
{
	struct crowd a = { .wanted = 2 }, b = { .wanted = 2, .other = &a };
	struct gang *g = gang_of_four();
	struct caller c[2];

	a.other = &b;
	for (int i = 0; i < 20; i++) {
		a.threads = b.threads = 0;
		start_caller(&c[0], g, &a, 2, true);
		start_caller(&c[1], g, &b, 2, true);
		end_caller(&c[0]);
		end_caller(&c[1]);
		ck_assert_uint_eq(a.threads, 2);
		ck_assert_uint_eq(b.threads, 2);
	}
	gang_destroy(g);
}
END_TEST

/* Callers have a core each: helpers have what they leave, and as soon as they leave it. */
START_TEST(gang_helps_with_free_cores)
{
	struct crowd held = { .wanted = 4 }, alone = { .wanted = 1 }, more = { .wanted = 2 };
	struct crowd crowd = { .wanted = 4 };
	struct gang *g = gang_of_four();
	struct caller holders[3], last;

	for (int i = 0; i < 3; i++)
		start_caller(&holders[i], g, &held, 1, false);
	while (held.threads < 3)
		usleep(1000);
	/* A span at a time, as there is nobody else: each waits for itself alone. */
	start_caller(&last, g, &alone, 8, true);
	end_caller(&last);
	ck_assert_uint_eq(alone.spans, 8);
	ck_assert_uint_eq(alone.helped, 0);
	/* Until the holders leave, which are let go while it waits. */
	start_caller(&last, g, &more, 2, true);
	while (!more.threads)
		usleep(1000);
	usleep(20000);
	ck_assert_uint_eq(more.threads, 1);
	held.threads++;
	for (int i = 0; i < 3; i++)
		end_caller(&holders[i]);
	end_caller(&last);
	/* All of them, when nobody else is there. */
	start_caller(&last, g, &crowd, 4, true);
	end_caller(&last);
	gang_destroy(g);
}
END_TEST

/* Whether it was seen: not where all helpers help the one that is to wait. */
static bool waits_without_a_core(struct gang *g)
{
	struct crowd b = { .wanted = 2 }, a = { .wanted = 3, .released = 2, .other = &b };
	struct caller c[2];

	/* Its two helpers wait for the other's two threads: five, but for the caller that waits. */
	start_caller(&c[0], g, &a, 3, true);
	while (a.helped < 2)
		usleep(1000);
	usleep(20000);
	start_caller(&c[1], g, &b, 2, true);
	end_caller(&c[0]);
	end_caller(&c[1]);
	if (is_late(&a))
		return false;
	ck_assert_uint_eq(b.helped, 1);
	return true;
}

/* Who waits for helpers to end has no use for a core: another launch has. */
START_TEST(gang_waits_without_a_core)
{
	struct gang *g = gang_of_four();
	int tries = 0;

	while (!waits_without_a_core(g))
		ck_assert_int_lt(tries++, 20);
	gang_destroy(g);
}
END_TEST

/* No more cores than it is given, and all again. */
START_TEST(gang_is_limited)
{
	struct crowd alone = { .wanted = 1 }, two = { .wanted = 2 }, all = { .wanted = 4 };
	struct gang *g = gang_of_four();
	struct caller c;

	gang_limit(g, 1);
	start_caller(&c, g, &alone, 8, true);
	end_caller(&c);
	ck_assert_uint_eq(alone.spans, 4);	/* four for each core */
	ck_assert_uint_eq(alone.helped, 0);
	gang_limit(g, 2);
	start_caller(&c, g, &two, 2, true);
	end_caller(&c);
	ck_assert_uint_eq(two.helped, 1);
	gang_limit(g, 9);
	start_caller(&c, g, &all, 4, true);
	end_caller(&c);
	gang_limit(g, 0);
	all.threads = 0;
	start_caller(&c, g, &all, 4, true);
	end_caller(&c);
	gang_destroy(g);
}
END_TEST

/* More at once than it has slots, and cores. */
START_TEST(gang_of_many_callers)
{
	struct crowd crowd = { .wanted = 80 };
	struct gang *g = gang_of_four();
	struct caller c[80];

	/* Each has a span, at least, before any of them ends. */
	for (int i = 0; i < 80; i++)
		start_caller(&c[i], g, &crowd, 2, true);
	for (int i = 0; i < 80; i++)
		end_caller(&c[i]);
	gang_destroy(g);
}
END_TEST

START_TEST(gang_reports_errors)
{
	struct arax_launch l = { .size = sizeof(l), .grid = { 100, 1, 1 }, .group_end = 100 };
	struct gang *g = make_gang();
	cpu_set_t none;

	CPU_ZERO(&none);
	for (int i = 0; i < 200; i++) {
		ck_assert_int_eq(gang_run(g, fail_at_7, &l, true), -EDOM);
		ck_assert_int_eq(gang_run(g, visit, &l, true), 0);	/* no left-over error */
	}
	gang_destroy(g);
	ck_assert_int_eq(gang_create(&none, &g), -EINVAL);
	gang_destroy(NULL);
}
END_TEST

/* A launch in parts: each group's visits, who is inside, what it is told between two spans. */
struct parted {
	struct gang *gang;
	uint32_t visits[100];
	_Atomic int inside;
	pthread_t caller;
	int calls, stills;
	int until;			/* so many calls it goes on */
	int then, last;			/* what it is told at that one, and when it stands still */
	bool others;			/* other launches run while it does */
	uint64_t fails;			/* the group before it, of which the kernel ends with -EDOM */
};

static int visit_part(const struct arax_launch *l)
{
	struct parted *p = *(struct parted *const *)l->args;
	int err = 0;

	p->inside++;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		__atomic_fetch_add(&p->visits[g], 1, __ATOMIC_RELAXED);
		usleep(100);
		if (g + 1 == p->fails)
			err = -EDOM;
	}
	p->inside--;
	return err;
}

static int between_parts(void *arg, int still)
{
	struct parted *p = arg;

	ck_assert(pthread_equal(pthread_self(), p->caller));
	if (!still)
		return ++p->calls % p->until ? 0 : p->then;
	p->stills++;
	ck_assert_int_eq(p->inside, 0);
	usleep(2000);
	ck_assert_int_eq(p->inside, 0);
	if (p->others) {
		/* All cores are free. */
		struct crowd all = { .wanted = gang_size(p->gang) };
		struct caller c;

		start_caller(&c, p->gang, &all, gang_size(p->gang), true);
		end_caller(&c);
	}
	return p->last;
}

static int run_parted(struct parted *p, struct gang *g, uint64_t groups)
{
	struct arax_launch l = { .size = sizeof(l), .grid = { (uint32_t)groups, 1, 1 },
				 .group_end = groups, .args = &p, .arg_len = sizeof(p) };
	const struct gang_parts parts = { .between = between_parts, .arg = p };

	p->gang = g;
	p->caller = pthread_self();
	return gang_run_in_parts(g, visit_part, &l, &parts);
}

/* Again, until it has stood still, or ended: others may have all spans by then. */
static int run_told(struct parted *p, struct gang *g, uint64_t groups)
{
	const struct parted fresh = *p;
	int err = 0;

	for (int tries = 0; !err && !p->stills; tries++) {
		ck_assert_int_lt(tries, 1000);
		*p = fresh;
		err = run_parted(p, g, groups);
	}
	return err;
}

static uint32_t all_visits(const struct parted *p)
{
	uint32_t n = 0;

	for (int i = 0; i < 100; i++) {
		ck_assert_uint_le(p->visits[i], 1);
		n += p->visits[i];
	}
	return n;
}

static struct gang *gang_of_one(void)
{
	struct gang *g;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	ck_assert_int_eq(gang_create(&one, &g), 0);
	return g;
}

/* Each group once, however often it stands still; then the cores are others'. */
START_TEST(gang_runs_in_parts)
{
	struct gang *g = _i ? gang_of_four() : gang_of_one();
	struct parted goes_on = { .until = 1000 }, stops = { .until = 1, .then = -EAGAIN };
	struct parted others = { .until = 5, .then = -EAGAIN, .others = true };
	struct parted few = { .until = 1, .then = -EAGAIN }, one = { .until = 1, .then = -EAGAIN };

	ck_assert_int_eq(run_parted(&goes_on, g, 100), 0);
	ck_assert_uint_eq(all_visits(&goes_on), 100);
	ck_assert_int_eq(goes_on.stills, 0);
	ck_assert_int_eq(run_told(&stops, g, 100), 0);
	ck_assert_uint_eq(all_visits(&stops), 100);
	ck_assert_int_ge(stops.stills, 1);
	if (!_i)
		ck_assert_int_eq(stops.stills, 99);
	ck_assert_int_eq(run_told(&others, g, 100), 0);
	ck_assert_uint_eq(all_visits(&others), 100);
	ck_assert_int_ge(others.stills, 1);
	/* No more parts than groups. */
	ck_assert_int_eq(run_parted(&few, g, 3), 0);
	ck_assert_uint_eq(all_visits(&few), 3);
	ck_assert_int_eq(run_parted(&one, g, 1), 0);
	ck_assert_uint_eq(all_visits(&one), 1);
	ck_assert_int_eq(one.calls, 0);
	gang_destroy(g);
}
END_TEST

/* What is left is not begun, and the kernel's own error comes first. */
START_TEST(gang_ends_between_parts)
{
	struct gang *g = _i ? gang_of_four() : gang_of_one();
	struct parted ends = { .until = 3, .then = -ECANCELED };
	struct parted late = { .until = 3, .then = -EAGAIN, .last = -ETIMEDOUT };
	struct parted fails = { .until = 1000, .fails = 1 };
	struct parted again = { .until = 1000 };

	ck_assert_int_eq(run_told(&ends, g, 100), -ECANCELED);
	ck_assert_int_eq(ends.inside, 0);
	ck_assert_uint_lt(all_visits(&ends), 100);
	ck_assert_int_eq(run_told(&late, g, 100), -ETIMEDOUT);
	ck_assert_int_eq(late.stills, 1);
	ck_assert_uint_lt(all_visits(&late), 100);
	ck_assert_int_eq(run_parted(&fails, g, 100), -EDOM);
	ck_assert_uint_lt(all_visits(&fails), 100);
	/* Nothing is left over. */
	ck_assert_int_eq(run_parted(&again, g, 100), 0);
	ck_assert_uint_eq(all_visits(&again), 100);
	gang_destroy(g);
}
END_TEST

#define CHEAP	10000u

/* Groups that do nothing, and then some that take a while: how often it was told in these. */
struct uneven {
	uint64_t at;			/* the group that its caller has come to */
	int told;
	bool all, fails;		/* always counted; at its first group */
};

static int visit_uneven(const struct arax_launch *l)
{
	struct uneven *u = *(struct uneven *const *)l->args;

	__atomic_store_n(&u->at, l->group_end, __ATOMIC_RELAXED);
	if (u->fails)
		return -EDOM;
	for (uint64_t g = l->group_begin; g < l->group_end && !u->all; g++)
		if (g >= CHEAP)
			usleep(100);
	return 0;
}

static int told_uneven(void *arg, int still)
{
	struct uneven *u = arg;

	u->told += u->all || __atomic_load_n(&u->at, __ATOMIC_RELAXED) > CHEAP;
	return 0;
}

static int run_uneven(struct uneven *u, struct gang *g, uint64_t groups)
{
	struct arax_launch l = { .size = sizeof(l), .grid = { (uint32_t)groups, 1, 1 },
				 .group_end = groups, .args = &u, .arg_len = sizeof(u) };
	const struct gang_parts parts = { .part_ns = 1000000, .between = told_uneven, .arg = u };

	return gang_run_in_parts(g, visit_uneven, &l, &parts);
}

/* Those before them are no measure of groups, and of what fails nothing more is counted. */
START_TEST(gang_of_uneven_groups)
{
	struct gang *g = _i ? gang_of_four() : gang_of_one();
	struct uneven u = { 0 }, even = { .all = true }, fails = { .all = true, .fails = true };

	ck_assert_int_eq(run_uneven(&u, g, CHEAP + 1000), 0);
	ck_assert_int_ge(u.told, 20);
	/* Some thousand calls, however many groups there are. */
	ck_assert_int_eq(run_uneven(&even, g, UINT32_MAX), 0);
	ck_assert_int_le(even.told, 10000);
	ck_assert_int_eq(run_uneven(&fails, g, UINT32_MAX), -EDOM);
	ck_assert_int_le(fails.told, 100);
	gang_destroy(g);
}
END_TEST

static void *parted_caller(void *arg)
{
	for (int i = 0; i < 5; i++) {
		struct parted p = { .until = 2, .then = -EAGAIN };

		ck_assert_int_eq(run_parted(&p, arg, 100), 0);
		ck_assert_uint_eq(all_visits(&p), 100);
	}
	return NULL;
}

/* More than there are slots, each of which has one only while it runs. */
START_TEST(gang_of_many_in_parts)
{
	struct gang *g = gang_of_four();
	pthread_t t[80];

	for (int i = 0; i < 80; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, parted_caller, g), 0);
	for (int i = 0; i < 80; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(gang_size(g), 4);
	gang_destroy(g);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("backend");
	TCase *t = tcase_create("all");
	int nr_old = (int)(sizeof(old_files) / sizeof(old_files[0]));

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, cpu_lists);
	tcase_add_test(t, cpu_default_has_devices);
	tcase_add_test(t, cpu_groups);
	tcase_add_test(t, cpu_group_that_is_not_there);
	tcase_add_test(t, nothing_at_all);
	tcase_add_loop_test(t, old_backend_runs, 0, nr_old);
	tcase_add_loop_test(t, old_filter_passes_on, 0, nr_old);
	tcase_add_loop_test(t, backend_options_are_checked, 0, 3);
	tcase_add_loop_test(t, plugins_are_checked, 0, sizeof(plugins) / sizeof(plugins[0]));
	tcase_add_test(t, plugin_file_must_be_trusted);
	tcase_add_test(t, absent_backend_says_why);
	tcase_add_test(t, unknown_and_double_names);
	tcase_add_test(t, memory_goes_through_filters);
	tcase_add_test(t, host_devices_have_no_memory);
	tcase_add_test(t, cpus_with_memory_of_their_own);
	tcase_add_test(t, error_every);
	tcase_add_test(t, error_by_name);
	tcase_add_test(t, error_probability);
	tcase_add_test(t, delay_takes_its_time);
	tcase_add_test(t, stats_counts_and_writes);
	tcase_add_test(t, stats_says_what_it_cannot_write);
	tcase_add_test(t, stats_says_what_is_lost);
	tcase_add_test(t, stats_bounds_its_table);
	tcase_add_test(t, filters_choose_devices);
	tcase_add_test(t, order_is_the_files);
	tcase_add_loop_test(t, filter_options_are_checked, 0,
			    sizeof(bad_options) / sizeof(bad_options[0]));
	tcase_add_test(t, gang_serves_several_callers);
	tcase_add_test(t, gang_shares_cores);
	tcase_add_test(t, gang_helps_with_free_cores);
	tcase_add_test(t, gang_waits_without_a_core);
	tcase_add_test(t, gang_is_limited);
	tcase_add_test(t, gang_of_many_callers);
	tcase_add_test(t, gang_reports_errors);
	tcase_add_loop_test(t, gang_runs_in_parts, 0, 2);
	tcase_add_loop_test(t, gang_ends_between_parts, 0, 2);
	tcase_add_loop_test(t, gang_of_uneven_groups, 0, 2);
	tcase_add_test(t, gang_of_many_in_parts);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
