/* SPDX-License-Identifier: MIT */
/* be_runner.h - what the tests of runners share */
#ifndef ARAX_SELFTESTS_UNIT_BE_RUNNER_H
#define ARAX_SELFTESTS_UNIT_BE_RUNNER_H

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/backends/device.h"
#include "daemon/config.h"
#include "daemon/kernels/registry.h"
#include "daemon/log.h"
#include "daemon/worker/runner.h"

#define TENANT		((uint32_t)(geteuid() ? geteuid() : 12345))
#define TENANT_GID	((uint32_t)(geteuid() ? getegid() : 12346))
#define PAGE		4096u

/* A buffer as the daemon has them: a memfd, mapped here too. */
struct buffer {
	uint64_t id, bytes;
	int fd;
	uint32_t *data;
};

static inline struct buffer make_buffer(uint64_t bytes)
{
	static uint64_t ids;
	struct buffer b = { .id = ++ids, .bytes = (bytes + PAGE - 1) / PAGE * PAGE };

	b.fd = memfd_create("buffer", MFD_CLOEXEC);
	ck_assert_int_ge(b.fd, 0);
	ck_assert_int_eq(ftruncate(b.fd, (off_t)b.bytes), 0);
	b.data = mmap(NULL, b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
	ck_assert_ptr_ne(b.data, MAP_FAILED);
	return b;
}

static inline void free_buffer(struct buffer *b)
{
	munmap(b->data, b->bytes);
	close(b->fd);
}

/* One device's runner, and what it needs. */
static struct config config;
static struct devices *devices;
static struct registry *registry;
static struct runner *runner;

/* The first device that there is by such an araxd.conf, and the tests' own kernels. */
static inline void open_device(const char *text, int level)
{
	char error[256];

	ck_assert_msg(!config_parse(&config, "test", text, strlen(text), error, sizeof(error)), "%s",
		      error);
	log_max_level = level;
	ck_assert_int_eq(devices_open(&config, &devices), 0);
	registry = registry_create();
	ck_assert_int_eq(registry_load_folder(registry, "build/test/kernels"), 19);
}

static inline void open_runner(void)
{
	ck_assert_int_eq(runner_create(devices_at(devices, 0), registry, &config, &runner), 0);
}

/* As it is configured by now. */
static inline void open_runner_anew(void)
{
	runner_destroy(runner);
	open_runner();
}

static inline void close_runner(void)
{
	runner_destroy(runner);
	runner = NULL;
	registry_destroy(registry);
	devices_close(devices);
	config_free(&config);
}

/* Not even a dead one. */
static inline void assert_no_process_left(void)
{
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
}

/* Of this tenant's, on whole buffers: @ranges and @buffers have room for @n. */
static inline void fill_task(struct runner_task *t, const char *name, const struct buffer *b,
			     uint32_t n, struct arax_launch_range *ranges,
			     struct runner_buffer *buffers)
{
	t->kernel = registry_find(registry, name);
	ck_assert_ptr_nonnull(t->kernel);
	for (uint32_t i = 0; i < n; i++) {
		ranges[i] = (struct arax_launch_range){ b[i].data, b[i].bytes, 0, 1 };
		buffers[i] = (struct runner_buffer){ b[i].id, b[i].bytes, 0, b[i].fd, 0 };
	}
	t->launch = (struct arax_launch){
		.size = sizeof(t->launch), .nr_ranges = n, .grid = { 1, 1, 1 },
		.block = { 1, 1, 1 }, .group_end = 1, .ranges = ranges,
	};
	t->buffers = buffers;
	t->uid = TENANT;
	t->gid = TENANT_GID;
}

/* Who goes first when memory is short. */
static inline int oom_score_adj(pid_t pid)
{
	char path[64];
	int score;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%d", &score), 1);
	fclose(f);
	return score;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_RUNNER_H */
