// SPDX-License-Identifier: MIT
/* What the man pages say that calls fail with, on both links. */
#include "stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS(...) (&(struct arax_options){ .size = sizeof(struct arax_options), __VA_ARGS__ })

#define TIMELINE_EVENTS	128	/* CORE_MAX_EVENTS */

TEST(options_that_cant_be)
{
	struct {
		struct arax_options o;
		uint64_t more;
	} later = { .o.size = sizeof(later), .more = 0 };
	struct arax *ax;

	CHECK_EQ(arax_open(&ax, OPTIONS(.depth = 3)), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.depth = 1)), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.depth = 1 << 17)), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.entry_size = 64)), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.arena_size = 100)), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.arena_size = 32 << 20)), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.reserved = { 1 })), -EINVAL);
	CHECK_EQ(arax_open(&ax, &(struct arax_options){ 0 }), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.flags = 2)), -EOPNOTSUPP);
	/* A program of a later library's may say nothing there, but not what this one doesn't know. */
	CHECK_EQ(arax_open(&ax, &later.o), 0);
	arax_close(ax);
	later.more = 1;
	CHECK_EQ(arax_open(&ax, &later.o), -E2BIG);
	/* The environment says where in spite of the program. */
	CHECK_EQ(unsetenv("ARAX_LINK"), 0);
	CHECK_EQ(arax_open(&ax, OPTIONS(.link = "nonsense")), -EINVAL);
	CHECK_EQ(arax_open(&ax, OPTIONS(.link = "broker:/nonexistent/socket")), -ENOENT);
}

/* Why a memfd is refused is said. */
static void refuse_memfd(struct stack *s, off_t bytes, int seals, const char *why)
{
	int fd = memfd_create("mine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct arax_buffer *b;

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, bytes), 0);
	CHECK(!bytes || !fallocate(fd, 0, 0, bytes));
	CHECK(!seals || !fcntl(fd, F_ADD_SEALS, seals));
	CHECK_EQ(arax_buffer_import(s->ax, ARAX_IMPORT_MEMFD, fd, &b), -EINVAL);
	CHECK(strstr(arax_error_text(), why));
	close(fd);
}

TEST(imports_that_cant_be)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct stack other = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b, *theirs;
	int fds[2], fd;

	refuse_memfd(&s, 4096, 0, "F_SEAL_SHRINK");
	refuse_memfd(&s, 4096, F_SEAL_SHRINK | F_SEAL_WRITE, "sealed against writing");
	refuse_memfd(&s, 4097, F_SEAL_SHRINK, "whole number of pages");
	refuse_memfd(&s, 0, F_SEAL_SHRINK, "whole number of pages");
	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_MEMFD, fds[0], &b), -EINVAL);
	CHECK(strstr(arax_error_text(), "no memfd"));
	CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_USER, fds[0], &b), -EINVAL);
	CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_DMABUF + 1, fds[0], &b), -EOPNOTSUPP);
	close(fds[0]);
	close(fds[1]);
	fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	/* Not every kernel has such. */
	if (fd >= 0) {
		CHECK_EQ(ftruncate(fd, 2 << 20), 0);
		CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_MEMFD, fd, &b), -EINVAL);
		CHECK(strstr(arax_error_text(), "MFD_HUGETLB"));
		close(fd);
	}
	CHECK_EQ(arax_buffer_create(other.ax, 4096, 0, &theirs), 0);
	fd = arax_buffer_export(theirs, ARAX_EXPORT_ARAX);
	CHECK(fd >= 0);
	CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_ARAX, fd, &b), 0);
	close(fd);
	CHECK_EQ(arax_buffer_export(b, ARAX_EXPORT_ARAX), -EPERM);
	CHECK(strstr(arax_error_text(), "can't pass it on"));
	CHECK_EQ(arax_buffer_revoke(b), -EPERM);
	CHECK(strstr(arax_error_text(), "can't take it from others"));
	stack_close(&other);
	stack_close(&s);
}

TEST(questions_without_an_answer)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	char name[ARAX_NAME_LEN + 1];
	struct arax_device d = { .size = sizeof(d) };
	struct arax_kernel k;
	struct arax_usage u = { .size = sizeof(u) };

	CHECK_EQ(arax_get_device(s.ax, 999, &d), -ENOENT);
	CHECK_EQ(arax_get_usage(s.ax, 9, &u), -EOPNOTSUPP);
	CHECK_EQ(arax_kernel_find(s.ax, "nope", 0, &k), -ENOENT);
	CHECK_EQ(arax_kernel_find(s.ax, "", 0, &k), -EINVAL);
	memset(name, 'x', sizeof(name));
	name[ARAX_NAME_LEN] = '\0';
	CHECK_EQ(arax_kernel_find(s.ax, name, 0, &k), -EINVAL);
	CHECK_EQ(arax_kernel_next(s.ax, ~0u, &k), -ENOENT);
	stack_close(&s);
}

/* Without rings there are no objects. */
TEST(contexts_to_ask_with)
{
	struct arax_own_kernel own = { .signature = "a(in f32 x[])" };
	int fd = memfd_create("buffer", MFD_ALLOW_SEALING);
	struct arax_timeline *t;
	struct arax_buffer *b;
	struct arax_queue *q;
	struct arax_kernel k;
	struct arax *ax;

	CHECK_EQ(ftruncate(fd, 4096), 0);
	CHECK_EQ(arax_open(&ax, OPTIONS(.flags = ARAX_OPEN_QUERY)), 0);
	CHECK_EQ(arax_buffer_create(ax, 4096, 0, &b), -ENXIO);
	CHECK_EQ(arax_buffer_import(ax, ARAX_IMPORT_MEMFD, fd, &b), -ENXIO);
	CHECK_EQ(arax_queue_create(ax, 0, 0, &q), -ENXIO);
	CHECK_EQ(arax_timeline_create(ax, 0, &t), -ENXIO);
	CHECK_EQ(arax_timeline_import(ax, fd, &t), -ENXIO);
	CHECK_EQ(arax_module_load(ax, ARAX_DEVICE_CPU, "x", 1, &own, 1, &k), -ENXIO);
	arax_close(ax);
	close(fd);
}

/* What was wanted, and what stood in the way. */
static void says(const char *words)
{
	if (!strstr(arax_error_text(), words)) {
		printf("# no \"%s\" in: %s\n", words, arax_error_text());
		CHECK(0);
	}
}

TEST(objects_that_cant_be)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b;
	struct arax_queue *q;

	CHECK_EQ(arax_buffer_create(s.ax, 0, 0, &b), -EINVAL);
	CHECK_EQ(arax_buffer_create(s.ax, 4096, 8, &b), -EOPNOTSUPP);
	says("flags 0x8: want 0 or ARAX_BUFFER_EXPLICIT");
	CHECK_EQ(arax_queue_create(s.ax, 0, 20, &q), -EINVAL);
	CHECK_EQ(arax_queue_create(s.ax, 0, -21, &q), -EINVAL);
	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_FLAGS + 1, 0, &q), -EOPNOTSUPP);
	says("flags 0x8: want ARAX_QUEUE_IN_ORDER");
	stack_close(&s);
}

/* All of its pages are there. */
static int memory_of(size_t bytes, int seals)
{
	int fd = memfd_create("buffer", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, (off_t)bytes), 0);
	if (bytes)
		CHECK_EQ(posix_fallocate(fd, 0, (off_t)bytes), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int imported(struct stack *s, unsigned int type, int fd)
{
	struct arax_buffer *b;
	int ret = arax_buffer_import(s->ax, type, fd, &b);

	if (!ret)
		arax_buffer_destroy(b);
	return ret;
}

TEST(descriptors_that_are_no_memory)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	int pipes[2], fd, read_only, ret;
	char path[64];

	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(imported(&s, ARAX_IMPORT_ARAX, 777), -EBADF);
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, 777), -EBADF);
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, -1), -EBADF);
	CHECK_EQ(imported(&s, ARAX_IMPORT_ARAX, pipes[0]), -EINVAL);
	says("is not what arax_buffer_export() gave");
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, pipes[0]), -EINVAL);
	ret = imported(&s, ARAX_IMPORT_DMABUF, pipes[0]);
	CHECK(ret == -EINVAL || ret == -EOPNOTSUPP);
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, memory_of(4096, 0)), -EINVAL);
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, memory_of(4096, F_SEAL_SHRINK | F_SEAL_WRITE)),
		 -EINVAL);
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, memory_of(0, F_SEAL_SHRINK)), -EINVAL);
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, memory_of(100, F_SEAL_SHRINK)), -EINVAL);
	fd = memory_of(4096, F_SEAL_SHRINK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY);
	CHECK(read_only >= 0);
	CHECK_EQ(imported(&s, ARAX_IMPORT_MEMFD, read_only), -EACCES);
	stack_close(&s);
}

TEST(memory_of_a_program_that_cant_be)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	const int there = stack_on_kernel(&s) ? 0 : -EOPNOTSUPP;
	struct arax_buffer *b;
	char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(m != MAP_FAILED);
	CHECK_EQ(arax_buffer_import_user(s.ax, m + 4, 4096, &b), -EINVAL);
	CHECK_EQ(arax_buffer_import_user(s.ax, m, 4095, &b), -EINVAL);
	CHECK_EQ(arax_buffer_import_user(s.ax, m, 0, &b), -EINVAL);
	CHECK_EQ(munmap(m + 4096, 4096), 0);
	CHECK_EQ(arax_buffer_import_user(s.ax, m, 8192, &b), there ?: -EFAULT);
	CHECK_EQ(mprotect(m, 4096, PROT_READ), 0);
	CHECK_EQ(arax_buffer_import_user(s.ax, m, 4096, &b), there ?: -EFAULT);
	stack_close(&s);
}

TEST(exports_that_cant_be)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW), other = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096), *theirs, *own;
	struct arax_info info;
	int fd;

	CHECK_EQ(arax_buffer_export(b, 7), -EOPNOTSUPP);
	says("as type 7: want ARAX_EXPORT_ARAX");
	CHECK_EQ(arax_buffer_create(s.ax, 4096, ARAX_BUFFER_EXPLICIT, &own), 0);
	CHECK_EQ(arax_buffer_export(own, ARAX_EXPORT_ARAX), -EOPNOTSUPP);
	says("has ARAX_BUFFER_EXPLICIT");
	CHECK_EQ(arax_get_info(s.ax, &info), 0);
	if (!(info.guarantees & ARAX_GUAR_DMABUF)) {
		CHECK_EQ(arax_buffer_export(b, ARAX_EXPORT_DMABUF), -EOPNOTSUPP);
		says("takes arax.ko");
	}
	fd = memory_of(4096, F_SEAL_SHRINK);
	CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_MEMFD, fd, &own), 0);
	CHECK_EQ(arax_buffer_export(own, ARAX_EXPORT_ARAX), -EOPNOTSUPP);
	says("that was imported");
	close(fd);
	fd = arax_buffer_export(b, ARAX_EXPORT_ARAX);
	CHECK(fd >= 0);
	CHECK_EQ(arax_buffer_import(other.ax, ARAX_IMPORT_ARAX, fd, &theirs), 0);
	CHECK_EQ(arax_buffer_export(theirs, ARAX_EXPORT_ARAX), -EPERM);
	CHECK_EQ(arax_buffer_revoke(theirs), -EPERM);
	CHECK_EQ(arax_buffer_revoke(b), 0);
	CHECK_EQ(arax_buffer_export(b, ARAX_EXPORT_ARAX), -ESTALE);
	CHECK_EQ(imported(&other, ARAX_IMPORT_ARAX, fd), -ESTALE);
	stack_close(&other);
	stack_close(&s);
}

TEST(timelines_that_cant_be)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW), other = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_point p[ARAX_WAIT_MAX + 1];
	struct arax_timeline *t, *theirs, *none;
	int pipes[2], ring = eventfd(0, 0), fd, i, ret;

	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(arax_timeline_create(s.ax, 5, &t), 0);
	CHECK_EQ(arax_timeline_create(other.ax, 5, &theirs), 0);
	CHECK_EQ(arax_timeline_advance(t, 4, 0), -EINVAL);
	CHECK(strstr(arax_error_text(), "never goes back"));
	CHECK_EQ(arax_timeline_advance(t, 6, 5), -EINVAL);
	CHECK(strstr(arax_error_text(), "a negative errno"));
	CHECK_EQ(arax_timeline_import(s.ax, 777, &none), -EBADF);
	CHECK_EQ(arax_timeline_import(s.ax, -1, &none), -EBADF);
	CHECK_EQ(arax_timeline_import(s.ax, pipes[0], &none), -EINVAL);
	CHECK_EQ(arax_timeline_import(s.ax, ring, &none), -EINVAL);
	CHECK(strstr(arax_error_text(), "not what arax_timeline_export() gave"));
	CHECK_EQ(arax_timeline_eventfd(t, 9, pipes[1]), -EINVAL);
	CHECK(strstr(arax_error_text(), "no eventfd"));
	CHECK_EQ(arax_timeline_eventfd(t, 9, 777), -EBADF);
	CHECK_EQ(arax_timeline_eventfd(t, 9, -1), -EBADF);
	CHECK_EQ(arax_timeline_wait_all(NULL, 0, 0), -EINVAL);
	for (i = 0; i <= ARAX_WAIT_MAX; i++)
		p[i] = (struct arax_point){ t, 9 };
	CHECK_EQ(arax_timeline_wait_any(p, ARAX_WAIT_MAX + 1, 0), -EINVAL);
	CHECK_EQ(arax_timeline_wait_any(p, ARAX_WAIT_MAX, 1), -ETIMEDOUT);
	CHECK_EQ(arax_timeline_wait_all(p, ARAX_WAIT_MAX, 1), -ETIMEDOUT);
	p[1].timeline = theirs;
	CHECK_EQ(arax_timeline_wait_any(p, 2, 0), -EINVAL);
	for (ret = i = 0; !ret && i < 1000; i++)
		ret = arax_timeline_eventfd(t, 100 + (uint64_t)i, ring);
	/* araxd has a descriptor for each: a user's part of these may be used up before. */
	if (stack_on_kernel(&s) || i > TIMELINE_EVENTS)
		CHECK_EQ(ret, -ENOSPC);
	else
		CHECK_EQ(ret, -EDQUOT);
	CHECK(ret == -EDQUOT || i == TIMELINE_EVENTS + 1);
	CHECK(ret == -EDQUOT || strstr(arax_error_text(), "128 armed"));
	/* What is no more is nobody's. */
	fd = arax_timeline_export(theirs);
	CHECK(fd >= 0);
	CHECK_EQ(arax_timeline_import(s.ax, fd, &none), 0);
	stack_close(&other);
	stack_close(&s);
}

TEST(submissions_that_cant_be)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_desc d = { .opcode = ARAX_OP_MARKER };
	struct arax_event e = { 0 };
	struct arax_timeline *gate;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	d.wait = gate;
	d.wait_value = 1;
	d.event = &e;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), -EBUSY);
	CHECK_EQ(arax_marker(s.q, &e), -EBUSY);
	CHECK_EQ(arax_queue_finish(s.q, 1), -ETIMEDOUT);
	CHECK_EQ(arax_wait(&e, 1), -ETIMEDOUT);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	stack_close(&s);
}

/* It has none of its parent's context. */
static int child(struct stack *s, struct arax_buffer *b, struct arax_timeline *t, int fd)
{
	struct arax_own_kernel own = { .signature = "a(in f32 x[])" };
	struct arax_buffer_query query = { .size = sizeof(query) };
	struct arax_device d = { .size = sizeof(d) };
	struct arax_usage u = { .size = sizeof(u) };
	struct arax_point p = { t, 1 };
	struct arax_event e = { 0 };
	struct arax_timeline *t2;
	struct arax_range r = arax_in(b);
	struct arax_buffer *b2;
	struct arax_queue *q;
	struct arax_kernel k = { .id = 1 };
	struct arax_info i;
	uint64_t v;
	const int results[] = {
		arax_get_info(s->ax, &i), arax_get_device(s->ax, 0, &d),
		arax_get_usage(s->ax, ARAX_USAGE_USER, &u), arax_kernel_find(s->ax, "st_add", 0, &k),
		arax_kernel_next(s->ax, 0, &k), arax_buffer_create(s->ax, 1, 0, &b2),
		arax_buffer_import(s->ax, ARAX_IMPORT_ARAX, fd, &b2),
		arax_buffer_import_user(s->ax, (void *)4096, 4096, &b2),
		arax_buffer_export(b, ARAX_EXPORT_ARAX), arax_buffer_revoke(b),
		arax_buffer_query(b, &query), arax_queue_create(s->ax, 0, 0, &q),
		arax_queue_cancel(s->q), arax_queue_finish(s->q, 0),
		arax_fill(s->q, arax_out(b), "a", 1, &e),
		arax_copy(s->q, arax_out(b), arax_in(b), &e), arax_marker(s->q, &e),
		arax_call(s->q, 0, ARAX_NO_ARGS, ARAX_NO_RANGES, &e),
		arax_submit(s->q, &(struct arax_desc){ 0 }, 1, 0),
		arax_access_begin(s->q, r, 0), arax_access_begin_all(s->q, &r, 1, 0),
		arax_access_end(s->q, r), arax_timeline_create(s->ax, 0, &t2),
		arax_timeline_query(t, &v), arax_timeline_advance(t, 2000, 0),
		arax_timeline_eventfd(t, 2000, 0), arax_timeline_export(t),
		arax_timeline_import(s->ax, 0, &t2), arax_timeline_wait_all(&p, 1, 0),
		arax_timeline_wait_any(&p, 1, 0),
		arax_module_load(s->ax, ARAX_DEVICE_CPU, "xxxx", 4, &own, 1, &k),
		arax_module_unload(s->ax, &k), arax_process(s->ax), arax_poll_fd(s->ax),
	};
	unsigned int n;

	for (n = 0; n < sizeof(results) / sizeof(results[0]); n++)
		if (results[n] != -EPERM)
			return (int)n + 1;
	arax_close(s->ax);
	return 0;
}

TEST(a_forked_child_has_nothing)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_timeline *t;
	int fd, status;
	pid_t pid;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &t), 0);
	fd = arax_buffer_export(b, ARAX_EXPORT_ARAX);
	CHECK(fd >= 0);
	pid = fork();
	if (!pid)
		_exit(child(&s, b, t, fd));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	/* And has done the parent no harm. */
	CHECK_EQ(arax_timeline_advance(t, 1, 0), 0);
	stack_close(&s);
}

TEST(no_descriptor_is_left)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct rlimit limit, few;
	struct arax_timeline *t;
	struct arax *ax;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &t), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = 3;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_EQ(arax_open(&ax, NULL), -EMFILE);
	CHECK_EQ(arax_buffer_export(b, ARAX_EXPORT_ARAX), -EMFILE);
	CHECK_EQ(arax_timeline_export(t), -EMFILE);
	CHECK_EQ(arax_poll_fd(s.ax), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK(arax_poll_fd(s.ax) >= 0);
	stack_close(&s);
}
