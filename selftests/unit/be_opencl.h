/* SPDX-License-Identifier: MIT */
/*
 * be_opencl.h - what the tests of the OpenCL backend share
 *
 * They run the real backend on whatever driver is there (Debian: pocl-opencl-icd).
 * Drivers don't survive a fork once they are loaded: each test opens its own, in
 * the process that libcheck forks for it.
 */
#ifndef ARAX_SELFTESTS_UNIT_BE_OPENCL_H
#define ARAX_SELFTESTS_UNIT_BE_OPENCL_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "daemon/backends/device.h"
#include "daemon/log.h"
#include "selftests/unit/be_test.h"
#include "uapi/arax.h"

/*
 * Without leak checks: PoCL and LLVM leave megabytes at exit (suppressions can tell
 * those apart), but the checker itself crashes now and then where it walks the
 * thread-local storage of their threads ("Tracer caught signal 11").
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

static struct config config;
static struct devices *devices;
static char folder[64];		/* kernels, the cache, the log */

static inline int open_opencl(const char *options)
{
	char text[512], error[256];

	snprintf(text, sizeof(text), "cpu { enable = false } backend \"opencl\" { options = { \"cache=%s/cache\"%s%s } }",
		 folder, options[0] ? ", " : "", options);
	ck_assert_msg(!config_parse(&config, "test", text, strlen(text), error, sizeof(error)), "%s",
		      error);
	return devices_open(&config, &devices);
}

static inline void close_opencl(void)
{
	devices_close(devices);
	devices = NULL;
	config_free(&config);
}

static inline void setup(void)
{
	char path[80];
	int fd;

	be_mkdir(folder);
	snprintf(path, sizeof(path), "%s/log", folder);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	log_init(fd, LOG_LEVEL_DEBUG, LOG_FORMAT_PLAIN);
}

static inline void teardown(void)
{
	close_opencl();
	be_rmdir(folder);
}

/* The log so far, quotes as they were; it is empty afterwards. */
static inline const char *take_log(void)
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

static inline void assert_logged(const char *text)
{
	const char *log = take_log();

	ck_assert_msg(strstr(log, text), "'%s' is not in:\n%s", text, log);
}

/* A kernel of a file in the folder, or of one by absolute path. */
static inline int load_from(struct device *dev, const char *file, const char *symbol,
			    const char *signature, void **kernel)
{
	struct arax_backend_kernel k = { .size = sizeof(k), .symbol = symbol,
					 .signature = signature };
	char path[512];
	int err;

	snprintf(path, sizeof(path), "%s%s%s", file[0] == '/' ? "" : folder,
		 file[0] == '/' ? "" : "/", file);
	k.file = path;
	k.fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(k.fd, 0);
	err = device_kernel_load(dev, &k, kernel);
	close(k.fd);
	return err;
}

/* One launch; groups of `block` work-items. */
static inline int launch(struct device *dev, void *kernel, uint32_t lane, uint32_t grid,
			 uint32_t block, const struct arax_launch_range *r, uint32_t n,
			 const void *args, uint32_t arg_len)
{
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = n, .grid = { grid, 1, 1 }, .block = { block, 1, 1 },
		.group_end = grid, .ranges = r, .args = args, .arg_len = arg_len,
	};
	struct arax_backend_run run = { .size = sizeof(run), .lane = lane, .kernel = kernel,
					.launch = &l, .name = "test" };

	return device_run(dev, &run);
}

/* In a child, so that no driver is loaded here: why there is no device, or "". */
static inline void why_not(char *why, size_t len)
{
	int p[2];
	pid_t pid;
	ssize_t n;

	if (pipe(p))
		abort();
	pid = fork();
	if (!pid) {
		const char *text = "backend \"opencl\" { options = { \"cache=no\" } }";
		char error[256];

		log_max_level = LOG_LEVEL_ERR;
		if (config_parse(&config, "test", text, strlen(text), error, sizeof(error)) ||
		    devices_open(&config, &devices))
			_exit(1);
		if (devices_nr_absent(devices)) {
			const char *s = devices_absent(devices, 0)->why;

			if (write(p[1], s, strlen(s)) < 0)
				_exit(1);
		}
		_exit(0);
	}
	close(p[1]);
	n = read(p[0], why, len - 1);
	why[n > 0 ? n : 0] = '\0';
	close(p[0]);
	waitpid(pid, NULL, 0);
}

/*
 * What PoCL compiles to machine code is the same in each test: kept for the run, in
 * a place of its own.  Ours is not: each test has its own.
 */
static inline int run_opencl(Suite *s)
{
	char pocl[] = "/tmp/arax-be-XXXXXX", command[64], why[256];
	int ret;

	if (!mkdtemp(pocl))	/* outside of a test there is no ck_assert */
		return 1;
	setenv("POCL_CACHE_DIR", pocl, 1);
	why_not(why, sizeof(why));
	if (why[0])
		be_skip("opencl", why);
	ret = why[0] ? 0 : be_main(s);
	snprintf(command, sizeof(command), "rm -rf %s", pocl);
	return system(command) ? 1 : ret;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_OPENCL_H */
