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

#include <sys/wait.h>

#include "selftests/unit/be_device.h"

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

static inline int open_opencl(const char *options)
{
	char text[512];

	snprintf(text, sizeof(text), "cpu { enable = false } backend \"opencl\" { options = { \"cache=%s/cache\"%s%s } }",
		 folder, options[0] ? ", " : "", options);
	return open_devices(text);
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
	char pocl[UNIT_TMP_LEN], command[UNIT_TMP_LEN + 16], why[256];
	int ret;

	if (!mkdtemp(unit_tmp(pocl, "arax-pocl-XXXXXX")))	/* outside of a test there is no ck_assert */
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
