/* SPDX-License-Identifier: MIT */
/*
 * be_device.h - what the tests of backends with kernels of their own share: a folder for
 * each test, with its log, and calls of one device
 */
#ifndef ARAX_SELFTESTS_UNIT_BE_DEVICE_H
#define ARAX_SELFTESTS_UNIT_BE_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "daemon/backends/device.h"
#include "daemon/log.h"
#include "selftests/unit/be_test.h"
#include "uapi/arax.h"

static struct config config;
static struct devices *devices;
static char folder[64];		/* kernels, the cache, the log */
static bool several_users;	/* are served, as far as backends are told */

/* With this alone as the configuration. */
static inline int open_devices(const char *text)
{
	char error[256];

	ck_assert_msg(!config_parse(&config, "test", text, strlen(text), error, sizeof(error)), "%s",
		      error);
	config.shared = several_users;
	return devices_open(&config, &devices);
}

static inline void close_devices(void)
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
	close_devices();
	be_rmdir(folder);
}

/* The log so far, quotes as they were. */
static inline const char *read_log(void)
{
	static char text[65536];
	char path[80], *to = text;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/log", folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	for (const char *from = text; *from; from++)
		if (from[0] != '\\' || from[1] != '"')
			*to++ = *from;
	*to = '\0';
	close(fd);
	return text;
}

/* It is empty afterwards. */
static inline const char *take_log(void)
{
	const char *text = read_log();
	char path[80];

	snprintf(path, sizeof(path), "%s/log", folder);
	ck_assert_int_eq(truncate(path, 0), 0);
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

#endif /* ARAX_SELFTESTS_UNIT_BE_DEVICE_H */
