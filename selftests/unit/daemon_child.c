// SPDX-License-Identifier: MIT
/* daemon_child - children that have what they are given, and nothing else of ours */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/child.h"
#include "selftests/unit/tmp.h"

#define FDS	200	/* of clients', so to say */
#define THREADS	8
#define TIMES	50

static int theirs[FDS];

static void open_theirs(void)
{
	/* Children have a copy of what is below, so that has to be ours. */
	ck_assert_int_eq(child_reserve(), 0);
	for (int i = 0; i < FDS; i++) {
		theirs[i] = eventfd(1000, EFD_CLOEXEC | EFD_NONBLOCK);
		ck_assert_int_ge(theirs[i], 0);
	}
}

static int status_of(pid_t pid)
{
	int status;

	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(it_has_what_it_is_given)
{
	int give[CHILD_FDS], have[CHILD_FDS], low;
	uint64_t n;
	pid_t pid;

	open_theirs();
	for (uint32_t i = 0; i < CHILD_FDS; i++)
		give[i] = i == 2 ? -1 : eventfd(i + 1, EFD_CLOEXEC | EFD_NONBLOCK);
	pid = child_begin(0, give, CHILD_FDS, have);
	if (!pid) {
		if (have[2] != -1)
			_exit(1);
		for (uint32_t i = 0; i < CHILD_FDS; i++)
			if (i != 2 && (read(have[i], &n, sizeof(n)) != sizeof(n) || n != i + 1))
				_exit(2);
		for (int i = 0; i < FDS; i++)
			if (fcntl(theirs[i], F_GETFD) >= 0)
				_exit(3);
		/* Its table is its own. */
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		_exit(0);
	}
	ck_assert_int_eq(status_of(pid), 0);
	for (int i = 0; i < FDS; i++)
		ck_assert_int_eq(read(theirs[i], &n, sizeof(n)), sizeof(n));
	/* Read there, so of the same file; and ours has nothing of it in its place any more. */
	for (uint32_t i = 0; i < CHILD_FDS; i++) {
		if (i == 2)
			continue;
		ck_assert_int_eq(read(give[i], &n, sizeof(n)), -1);
		ck_assert_int_eq(read(have[i], &n, sizeof(n)), 0);
	}
	low = dup(0);
	close(low);
	ck_assert_int_ge(low, 64);
}
END_TEST

/* However few may be open: then there are fewer for clients. */
START_TEST(it_has_none_of_few)
{
	struct rlimit few = { 150, 150 };
	int none = -1, have, fd;
	pid_t pid;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	ck_assert_int_eq(child_reserve(), 0);
	fd = eventfd(0, EFD_CLOEXEC);
	ck_assert_int_ge(fd, 64);
	pid = child_begin(0, &none, 1, &have);
	if (!pid)
		_exit(fcntl(fd, F_GETFD) >= 0);
	ck_assert_int_eq(status_of(pid), 0);
}
END_TEST

/* Once clients have all that may be open: there are places for what children are given. */
START_TEST(it_has_its_own_when_all_are_taken)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), given = null, have;
	struct rlimit few = { 300, 300 };
	pid_t pid;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	ck_assert_int_eq(child_reserve(), 0);
	while (dup(null) >= 0)
		;
	ck_assert_int_eq(errno, EMFILE);
	ck_assert_int_eq(child_reserve(), 0);
	pid = child_begin(0, &given, 1, &have);
	if (!pid)
		_exit(fcntl(have, F_GETFD) < 0 || fcntl(299, F_GETFD) >= 0);
	ck_assert_int_eq(status_of(pid), 0);
	/* A sanitizer's last look needs some. */
	ck_assert_int_eq(close_range(280, 299, 0), 0);
}
END_TEST

/* With so many bytes in it; -1: there is none. */
static int pipe_with(int bytes)
{
	int n;

	for (int fd = 3; fd < 64; fd++)
		if (!ioctl(fd, FIONREAD, &n) && n == bytes)
			return fd;
	return -1;
}

/* As a child does that was given up just before. */
static void tell_once_more(void)
{
	struct stat st;

	for (int fd = 3; fd < 64; fd++)
		if (!fstat(fd, &st) && S_ISFIFO(st.st_mode) && write(fd, "", 1) == 1)
			_exit(0);
	_exit(1);
}

/* What a child tells late is not taken for the next one's word, by which that has left our table. */
START_TEST(what_is_told_late_is_forgotten)
{
	const int none = -1;
	int have;
	pid_t pid;

	ck_assert_int_eq(child_reserve(), 0);
	pid = child_begin(0, &none, 1, &have);
	if (!pid)
		tell_once_more();
	ck_assert_int_eq(status_of(pid), 0);
	ck_assert_int_ge(pipe_with(1), 0);
	pid = child_begin(0, &none, 1, &have);
	if (!pid)
		_exit(0);
	ck_assert_int_eq(status_of(pid), 0);
	ck_assert_int_lt(pipe_with(1), 0);
}
END_TEST

static void *start_some(void *arg)
{
	for (int i = 0; i < TIMES; i++) {
		unsigned int number = 1 + (unsigned int)(uintptr_t)arg * TIMES % 200 + (unsigned int)i % 50;
		int give = eventfd(number, EFD_CLOEXEC), have;
		uint64_t n = 0;
		pid_t pid = child_begin(0, &give, 1, &have);

		if (!pid)
			_exit(read(have, &n, sizeof(n)) == sizeof(n) && n == number ? 0 : 1);
		close(give);
		ck_assert_int_eq(status_of(pid), 0);
	}
	return NULL;
}

START_TEST(each_has_its_own)
{
	pthread_t threads[THREADS];

	open_theirs();
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, start_some, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
	const int give = 1000000;
	int have;

	ck_assert_int_eq(child_begin(0, &give, 1, &have), -EBADF);
	ck_assert_int_eq(child_begin(~0ul, NULL, 0, NULL), -EINVAL);
	start_some((void *)1);
}
END_TEST

/* ------------------------------------------------------------------ */
/* A file system that never answers when a descriptor of its files is closed */

static int device;

static void answer(uint64_t unique, int err, const void *body, size_t bytes)
{
	struct { struct fuse_out_header head; uint8_t body[256]; } a = {
		.head = { .len = (uint32_t)(sizeof(a.head) + bytes), .error = err, .unique = unique },
	};

	memcpy(a.body, body, bytes);
	ck_assert_int_eq(write(device, &a, a.head.len), a.head.len);
}

static void *serve(void *arg)
{
	static struct { struct fuse_in_header head; uint8_t body[1 << 17]; } q;

	(void)arg;
	while (read(device, &q, sizeof(q)) > 0) {
		struct fuse_attr attr = {
			.ino = q.head.nodeid, .nlink = 1, .blksize = 4096,
			.mode = q.head.nodeid == 1 ? S_IFDIR | 0755 : S_IFREG | 0666,
		};
		struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = 65536 };
		struct fuse_entry_out entry = { .nodeid = 2, .entry_valid = 100, .attr_valid = 100 };
		struct fuse_attr_out attributes = { .attr_valid = 100, .attr = attr };
		struct fuse_open_out open = { .fh = 1 };

		entry.attr = attr;
		entry.attr.ino = 2;
		entry.attr.mode = S_IFREG | 0666;
		switch (q.head.opcode) {
		case FUSE_INIT:
			answer(q.head.unique, 0, &init, sizeof(init));
			break;
		case FUSE_LOOKUP:
			answer(q.head.unique, 0, &entry, sizeof(entry));
			break;
		case FUSE_GETATTR:
			answer(q.head.unique, 0, &attributes, sizeof(attributes));
			break;
		case FUSE_OPEN:
			answer(q.head.unique, 0, &open, sizeof(open));
			break;
		case FUSE_FLUSH:
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			answer(q.head.unique, -ENOSYS, NULL, 0);
		}
	}
	return NULL;
}

static bool mount_it(const char *where)
{
	char options[64];

	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
	return device >= 0 && !unshare(CLONE_NEWNS) &&
	       !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("fuse", where, "fuse", MS_NOSUID | MS_NODEV, options);
}

static const int inherited[] = { 1, 53, 70 };

START_TEST(who_closes_it_waits_for_ever)
{
	char where[UNIT_TMP_LEN], path[UNIT_TMP_LEN + 8];
	const int none = -1;
	pthread_t server;
	int have, fd;
	pid_t pid;

	/* As araxd may be given by who starts it; one of them it closes later. */
	for (int i = 0; i < inherited[_i]; i++)
		ck_assert_int_ge(dup(0), 0);
	ck_assert_int_eq(child_reserve(), 0);
	child_close(3);
	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(where, "arax-child-XXXXXX")));
	if (!mount_it(where)) {
		printf("# SKIP who_closes_it_waits_for_ever: it takes root and /dev/fuse\n");
		return;
	}
	ck_assert_int_eq(pthread_create(&server, NULL, serve, NULL), 0);
	snprintf(path, sizeof(path), "%s/file", where);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 64);
	ck_assert_int_gt(fd, inherited[_i]);
	/* It would be in the kernel for so long that it can't even be killed. */
	pid = child_begin(0, &none, 1, &have);
	if (!pid)
		_exit(0);
	ck_assert_int_eq(status_of(pid), 0);
	umount2(where, MNT_FORCE | MNT_DETACH);
	rmdir(where);
	_exit(0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("daemon child");
	TCase *c = tcase_create("child");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_test(c, it_has_what_it_is_given);
	tcase_add_test(c, it_has_none_of_few);
	tcase_add_test(c, it_has_its_own_when_all_are_taken);
	tcase_add_test(c, what_is_told_late_is_forgotten);
	tcase_add_test(c, each_has_its_own);
	tcase_add_test(c, what_is_no_file_is_refused);
	tcase_add_loop_exit_test(c, who_closes_it_waits_for_ever, 0, 0, 3);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
