/* SPDX-License-Identifier: MIT */
/* be_runner.h - what the tests of runners share */
#ifndef ARAX_SELFTESTS_UNIT_BE_RUNNER_H
#define ARAX_SELFTESTS_UNIT_BE_RUNNER_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

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
