// SPDX-License-Identifier: MIT
/*
 * The client's end of the broker's socket, against a server that does as a test says: what comes
 * may be cut, too much, or late, and who waits for it may be cancelled.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/link/barred.h"
#include "libarax/internal.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/refuse_call.h"

static char folder[64], path[96];
static int server, peer;
static pthread_t serving;
static struct link *l;
static unsigned int attached;		/* descriptors that come with what is exported */
static uint32_t held[8];		/* the waits that have no answer yet */
static uint64_t held_until[8];		/* their deadlines */
static atomic_uint nr_held;

static int refused;			/* the result of buffers' creation, */
static atomic_uint over;		/* of so many more that they are over a limit */
static atomic_uint no_place;		/* of so many calls that destroy something */
static atomic_uint nr_created, nr_memories;	/* calls of that, descriptors in them */

static void answer(uint32_t id, int result, const void *body, size_t bytes, unsigned int nr_fds)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int) * 8)];
	} control = { 0 };
	struct arax_msg msg = { .id = id, .result = result, .nr_fds = nr_fds };
	struct iovec iov[2] = {
		{ .iov_base = &msg, .iov_len = sizeof(msg) },
		{ .iov_base = (void *)body, .iov_len = bytes },
	};
	struct msghdr h = { .msg_iov = iov, .msg_iovlen = 2 };
	unsigned int i;

	if (nr_fds) {
		h.msg_control = &control;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * nr_fds);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int) * nr_fds);
		for (i = 0; i < nr_fds; i++)
			memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &peer, sizeof(int));
	}
	ck_assert_int_eq(sendmsg(peer, &h, 0), (ssize_t)(sizeof(msg) + bytes));
}

static int result_of(const struct arax_msg *msg)
{
	if (msg->nr == ARAX_NR_BUFFER_DESTROY && no_place) {
		no_place--;
		return -ENOSPC;
	}
	if (msg->nr != ARAX_NR_BUFFER_CREATE)
		return 0;
	nr_created++;
	nr_memories += msg->nr_fds;
	if (!over)
		return refused;
	over--;
	return -EDQUOT;
}

static void *serve(void *arg)
{
	unsigned char m[ARAX_MSG_MAX];
	struct arax_context_init init;
	struct arax_msg msg;
	ssize_t n;

	while ((n = recv(peer, m, sizeof(m), 0)) > 0) {
		memcpy(&msg, m, sizeof(msg));
		if (msg.nr == ARAX_NR_CONTEXT_INIT) {
			/* The first descriptor that comes with it is the doorbell. */
			memcpy(&init, m + sizeof(msg), sizeof(init));
			init.doorbell_fd = 0;
			answer(msg.id, 0, &init, sizeof(init), 1);
			continue;
		}
		if (msg.nr == ARAX_NR_WAIT) {
			memcpy(&held_until[nr_held], m + sizeof(msg) +
			       offsetof(struct arax_wait, deadline_ns), sizeof(held_until[0]));
			held[nr_held] = msg.id;
			nr_held++;
		} else {
			answer(msg.id, result_of(&msg), m + sizeof(msg), (size_t)n - sizeof(msg),
			       msg.nr == ARAX_NR_TIMELINE_EXPORT ? attached : 0);
		}
	}
	return NULL;
}

static void setup(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	be_mkdir(folder);
	snprintf(path, sizeof(path), "%s/s", folder);
	strcpy(addr.sun_path, path);
	server = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	ck_assert_int_eq(bind(server, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(server, 1), 0);
	ck_assert_int_eq(link_broker_open(&l, path, getuid(), false), 0);
	peer = accept(server, NULL, NULL);
	ck_assert_int_ge(peer, 0);
	nr_held = 0;
	no_place = 0;
	nr_created = 0;
	nr_memories = 0;
	over = 0;
	ck_assert_int_eq(pthread_create(&serving, NULL, serve, NULL), 0);
}

static void teardown(void)
{
	l->ops->close(l, false);
	pthread_join(serving, NULL);
	close(peer);
	close(server);
	be_rmdir(folder);
}

/* Once @l has been closed, and who served it has ended. */
static void begin_again(void)
{
	close(peer);
	close(server);
	be_rmdir(folder);
	setup();
}

static unsigned int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int export(struct arax_timeline_share *a)
{
	*a = (struct arax_timeline_share){ .size = sizeof(*a), .handle = 1 };
	return l->ops->call(l, ARAX_NR_TIMELINE_EXPORT, a);
}

static int other_call(void)
{
	struct arax_info a = { .size = sizeof(a) };

	return l->ops->call(l, ARAX_NR_INFO, &a);
}

/* A program that has no descriptor left loses the call that needs one, and nothing else. */
START_TEST(no_descriptor_left)
{
	struct arax_timeline_share a;
	struct rlimit limit, none;
	int lowest = dup(0);

	attached = 1;
	close(lowest);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = (rlim_t)lowest;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_int_eq(export(&a), -EMFILE);
	ck_assert_int_eq(a.fd, -1);
	ck_assert_int_eq(other_call(), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(export(&a), 0);
	ck_assert_int_ge(a.fd, 0);
	close(a.fd);
	ck_assert_ptr_nonnull(strstr(arax_strerror(-EMFILE), "ulimit -n"));
}
END_TEST

/* More than any reply has: the control buffer holds them, since it is rounded up. */
START_TEST(too_many_descriptors)
{
	struct arax_timeline_share a;
	unsigned int before = open_files();

	for (attached = 4; attached <= 8; attached++) {
		ck_assert_int_eq(export(&a), 0);
		close(a.fd);
		ck_assert_uint_eq(open_files(), before);
		ck_assert_int_eq(other_call(), 0);
	}
}
END_TEST

static void *wait_long(void *arg)
{
	struct arax_wait a = { .size = sizeof(a), .count = 1, .deadline_ns = ARAX_DEADLINE_NONE };

	return (void *)(intptr_t)l->ops->call(l, ARAX_NR_WAIT, &a);
}

/* The one that reads for all, or one that it reads for: the others get what is theirs. */
START_TEST(cancelled_while_waiting)
{
	struct arax_wait body = { .size = sizeof(body) };
	unsigned int gone = _i, i;
	pthread_t t[3];
	void *result;

	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(pthread_create(&t[i], NULL, wait_long, NULL), 0);
		while (nr_held <= i)
			usleep(100);
		usleep(5000);
	}
	ck_assert_int_eq(pthread_cancel(t[gone]), 0);
	pthread_join(t[gone], &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert_int_eq(other_call(), 0);
	for (i = 0; i < 3; i++)
		answer(held[i], 0, &body, sizeof(body), 0);
	for (i = 0; i < 3; i++) {
		if (i == gone)
			continue;
		pthread_join(t[i], &result);
		ck_assert_ptr_null(result);
	}
	ck_assert_int_eq(other_call(), 0);
}
END_TEST

static struct arax_wait waited;

static void *wait_till(void *arg)
{
	return (void *)(intptr_t)l->ops->call(l, ARAX_NR_WAIT, &waited);
}

static void begin_wait(pthread_t *t, uint64_t deadline)
{
	waited = (struct arax_wait){ .size = sizeof(waited), .count = 1, .deadline_ns = deadline };
	ck_assert_int_eq(pthread_create(t, NULL, wait_till, NULL), 0);
}

/* @until: 0: a slice, which is over by then */
static void held_is(unsigned int nth, int result, uint64_t until)
{
	while (nr_held <= nth)
		usleep(100);
	if (until)
		ck_assert_uint_eq(held_until[nth], until);
	else
		ck_assert_uint_le(held_until[nth], now_ns() + 1000000000);
	while (!until && result == -ETIMEDOUT && now_ns() < held_until[nth])
		usleep(1000);
	answer(held[nth], result, &(struct arax_wait){ .size = sizeof(waited), .index = nth },
	       sizeof(waited), 0);
}

static void wait_is(pthread_t t, int result, uint64_t deadline)
{
	void *got;

	ck_assert_int_eq(pthread_join(t, &got), 0);
	ck_assert_int_eq((int)(intptr_t)got, result);
	ck_assert_uint_eq(waited.deadline_ns, deadline);
}

/*
 * What was given up keeps its place for a moment only, as no wait is for longer; and what has begun
 * goes on where others have all places by the time that it asks for another one.
 */
START_TEST(waits_are_short)
{
	const uint64_t long_after = now_ns() + 3600000000000u;
	uint64_t soon;
	pthread_t t;

	begin_wait(&t, _i ? ARAX_DEADLINE_NONE : long_after);
	held_is(0, -ETIMEDOUT, 0);
	held_is(1, -ETIMEDOUT, 0);
	held_is(2, -ENOSPC, 0);
	held_is(3, 0, 0);
	wait_is(t, 0, _i ? ARAX_DEADLINE_NONE : long_after);
	ck_assert_uint_eq(waited.index, 3);
	/* The one that finds none is told so. */
	begin_wait(&t, long_after);
	held_is(4, -ENOSPC, 0);
	wait_is(t, -ENOSPC, long_after);
	soon = now_ns() + 500000000;
	begin_wait(&t, soon);
	held_is(5, -ETIMEDOUT, soon);
	wait_is(t, -ETIMEDOUT, soon);
	begin_wait(&t, 1);
	held_is(6, -ETIMEDOUT, 1);
	wait_is(t, -ETIMEDOUT, 1);
	ck_assert_uint_eq(nr_held, 7);
}
END_TEST

/* As in a namespace of times: the broker's clock is past what is asked for, again and again. */
START_TEST(waits_of_another_clock)
{
	const uint64_t until = _i ? ARAX_DEADLINE_NONE : now_ns() + 3600000000000u;
	pthread_t t;

	begin_wait(&t, until);
	while (!nr_held)
		usleep(100);
	ck_assert_uint_lt(held_until[0], until);
	held_is(0, -ETIMEDOUT, held_until[0]);
	held_is(1, 0, until);
	wait_is(t, 0, until);
	ck_assert_uint_eq(nr_held, 2);
}
END_TEST

/* Nobody would hear that a buffer was not given back. */
START_TEST(a_place_is_waited_for)
{
	struct arax_handle h = { .size = sizeof(h), .handle = 1 };

	no_place = 3;
	ck_assert_int_eq(l->ops->call(l, ARAX_NR_BUFFER_DESTROY, &h), 0);
	ck_assert_uint_eq(no_place, 0);
}
END_TEST

static atomic_bool enough;

static void *call_often(void *arg)
{
	int ret = 0;

	while (!enough && !ret)
		ret = other_call();
	return (void *)(intptr_t)ret;
}

/* Short calls are no cancellation points. */
START_TEST(cancelled_in_a_call)
{
	pthread_t t;
	void *result;

	ck_assert_int_eq(pthread_create(&t, NULL, call_often, NULL), 0);
	usleep(5000);
	ck_assert_int_eq(pthread_cancel(t), 0);
	usleep(5000);
	ck_assert_int_eq(other_call(), 0);
	enough = true;
	pthread_join(t, &result);
	ck_assert_ptr_null(result);
}
END_TEST

static struct arax_ring_ctl module_ctl;
static unsigned int not_yet;		/* so many submissions find no room in the module, */
static uint32_t dies;			/* and then the context ends, if not 0 */

static int submit_to_module(struct arax_submit *s)
{
	if (not_yet) {
		if (!--not_yet)
			module_ctl.dead = dies;
		errno = EAGAIN;
		return -1;
	}
	/* One that has ended takes no more. */
	ck_assert_uint_eq(module_ctl.dead, 0);
	s->submitted = s->to_submit;
	return 0;
}

/* As in the module, until a signal comes. */
int ioctl(int fd, unsigned long request, ...)
{
	struct arax_submit *s;
	va_list args;

	va_start(args, request);
	s = va_arg(args, struct arax_submit *);
	va_end(args);
	if (_IOC_NR(request) == ARAX_NR_SUBMIT && s->to_submit)
		return submit_to_module(s);
	nr_held++;
	return (int)syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
}

static void *sleep_in_the_module(void *arg)
{
	struct link *kernel = arg;

	return (void *)(intptr_t)kernel->ops->sleep(kernel, ARAX_DEADLINE_NONE, 0);
}

static void *wait_in_the_module(void *arg)
{
	struct arax_wait a = { .size = sizeof(a), .count = 1, .deadline_ns = ARAX_DEADLINE_NONE };
	struct link *kernel = arg;

	return (void *)(intptr_t)kernel->ops->call(kernel, ARAX_NR_WAIT, &a);
}

/* On the other link a thread sleeps in a system call that is no cancellation point. */
START_TEST(cancelled_in_the_module)
{
	struct timespec end;
	struct link *kernel;
	pthread_t t;
	void *result;

	ck_assert_int_eq(link_kernel_open(&kernel, "/dev/null"), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, _i ? sleep_in_the_module : wait_in_the_module,
					kernel), 0);
	while (!nr_held)
		usleep(100);
	usleep(5000);
	ck_assert_int_eq(pthread_cancel(t), 0);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 5;
	ck_assert_int_eq(pthread_timedjoin_np(t, &result, &end), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	kernel->ops->close(kernel, false);
}
END_TEST

/* It may have no room for a while, whatever the queues are: that is not the context's end. */
START_TEST(module_without_room)
{
	static const uint32_t ends[] = { 0, EOWNERDEAD, EPIPE };
	static const int results[] = { 0, -ENOTCONN, -EPIPE };
	struct link *kernel;
	bool woke;

	ck_assert_int_eq(link_kernel_open(&kernel, "/dev/null"), 0);
	kernel->ctl = &module_ctl;
	module_ctl.dead = 0;
	dies = ends[_i];
	not_yet = 5;
	ck_assert_int_eq(kernel->ops->kick(kernel, 3, &woke), results[_i]);
	ck_assert_uint_eq(not_yet, 0);
	kernel->ops->close(kernel, false);
}
END_TEST

static unsigned int interrupted;
static size_t uninterrupted_bytes;

/* As under a timer: what takes too long never comes to its end. */
int fallocate(int fd, int mode, off_t at, off_t bytes)
{
	if ((size_t)bytes > uninterrupted_bytes || interrupted++ % 3 == 0) {
		errno = EINTR;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

START_TEST(buffer_under_a_timer)
{
	struct arax_buffer_create a = {
		.size = sizeof(a), .bytes = (40 << 20) + 4096, .fd = -1,
	};
	void *data;

	uninterrupted_bytes = 1 << 20;
	ck_assert_int_eq(l->ops->buffer_create(l, &a, &data), 0);
	ck_assert_uint_ge(interrupted, 40);
	memset(data, 1, a.bytes);
	munmap(data, a.bytes);
}
END_TEST

static unsigned int signals;

/* As where the server has as many waiting as it lets, and signals come. */
int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (signals) {
		signals--;
		errno = EINTR;
		return -1;
	}
	return (int)syscall(SYS_connect, fd, addr, len);
}

START_TEST(connected_under_a_timer)
{
	struct link *other;

	signals = 3;
	ck_assert_int_eq(link_broker_open(&other, path, getuid(), false), 0);
	ck_assert_uint_eq(signals, 0);
	other->ops->close(other, false);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
static _Thread_local bool no_memory;

void *__libc_calloc(size_t n, size_t size);

void *calloc(size_t n, size_t size)
{
	return no_memory ? NULL : __libc_calloc(n, size);
}

/* The text is never that of a call before. */
START_TEST(no_memory_to_open)
{
	struct link *other;
	int ret;

	ck_assert_int_eq(link_open(&other, "nonsense", false), -EINVAL);
	no_memory = true;
	ret = _i ? link_kernel_open(&other, "/dev/null") :
		   link_broker_open(&other, path, getuid(), false);
	no_memory = false;
	ck_assert_int_eq(ret, -ENOMEM);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), arax_strerror(-ENOMEM)));
}
END_TEST
#endif

#define STRANGER	100000u

/* As @STRANGER: what he is told, whether that is an access list's doing. */
static int told_of_a_list(void)
{
	struct link *other;

	if (setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
	    setresuid(STRANGER, STRANGER, STRANGER))
		return 2;
	if (link_broker_open(&other, path, 0, false) != -EACCES)
		return 3;
	return !strstr(arax_error_text(), "access list");
}

static int as_stranger(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(told_of_a_list());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* araxd keeps out for a while who has it close too much: that is told, and nothing else taken for it. */
START_TEST(kept_out_by_an_access_list)
{
	struct barred b = { .nr = 0 };

	if (getuid()) {
		printf("skipped: not root, so no other user to be kept out\n");
		return;
	}
	ck_assert_int_eq(chmod(folder, 0755), 0);
	ck_assert_int_eq(chmod(path, 0666), 0);
	if (barred_add(&b, path, STRANGER)) {
		printf("skipped: no ACLs in %s\n", path);
		return;
	}
	ck_assert_int_eq(as_stranger(), 0);
	/* Its mode forbids it. */
	barred_remove(&b, 0);
	ck_assert_int_eq(chmod(path, 0660), 0);
	ck_assert_int_eq(as_stranger(), 1);
	/* That of its folder does. */
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(chmod(folder, 0700), 0);
	ck_assert_int_eq(as_stranger(), 1);
}
END_TEST

/* Where a path is missing anybody may listen, on the name of nothing but NULs. */
START_TEST(a_path_that_is_missing)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int other = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct link *to;

	ck_assert_int_eq(bind(other, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(other, 3), 0);
	ck_assert_int_eq(link_open(&to, "broker:", false), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "no path"));
	ck_assert_int_eq(setenv("ARAX_LINK", "broker:", 1), 0);
	ck_assert_int_eq(link_open(&to, NULL, false), -EINVAL);
	ck_assert_int_eq(unsetenv("ARAX_LINK"), 0);
	ck_assert_int_eq(link_broker_open(&to, "", getuid(), false), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "without a path"));
	close(other);
}
END_TEST

/* The server hears of the end, whoever else has the socket. */
START_TEST(closed_beside_a_child)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	ck_assert_int_gt(child, 0);
	l->ops->close(l, false);
	pthread_join(serving, NULL);
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	begin_again();
}
END_TEST

/* What is over a limit has no page made for it; small ones are not asked for twice. */
START_TEST(large_buffers_are_asked_for)
{
	static const int results[] = { -EDQUOT, -ENOSPC, -EBADF };
	struct arax_buffer_create a = { .size = sizeof(a), .bytes = 256 << 20, .fd = -1 };
	void *data;

	uninterrupted_bytes = 1 << 20;
	refused = results[_i];
	ck_assert_int_eq(l->ops->buffer_create(l, &a, &data), refused);
	ck_assert_uint_eq(nr_created, refused == -EBADF ? 2 : refused == -EDQUOT ? 3 : 1);
	ck_assert_uint_eq(nr_memories, refused == -EBADF);
	a.bytes = 4096;
	nr_created = 0;
	ck_assert_int_eq(l->ops->buffer_create(l, &a, &data), refused);
	ck_assert_uint_eq(nr_created, 1);
}
END_TEST

/* What can never be is refused by the limit first, of which one can have more. */
START_TEST(more_than_the_machine_has)
{
	struct arax_buffer_create a = { .size = sizeof(a), .bytes = 1ull << 45, .fd = -1 };
	void *data;

	uninterrupted_bytes = 1 << 20;
	refused = _i ? -EDQUOT : -EBADF;
	ck_assert_int_eq(l->ops->buffer_create(l, &a, &data), _i ? -EDQUOT : -ENOMEM);
	ck_assert_uint_eq(nr_memories, 0);
}
END_TEST

/* A closed context's memory counts for a moment. */
START_TEST(what_leaves_is_waited_for)
{
	struct arax_buffer_create a = { .size = sizeof(a), .bytes = 256 << 20, .fd = -1 };
	void *data;

	uninterrupted_bytes = 1 << 20;
	refused = -EBADF;
	over = 2;
	ck_assert_int_eq(l->ops->buffer_create(l, &a, &data), -EBADF);
	ck_assert_uint_eq(nr_created, 4);
	ck_assert_uint_eq(nr_memories, 1);
}
END_TEST

/* Buffers and rings are files: who may have none so long is told, not killed. */
START_TEST(longer_than_a_file_may_be)
{
	struct arax_options o = { .depth = 64, .entry_size = 128, .arena_size = 4096 };
	struct arax_buffer *b = NULL;
	struct rlimit limit, few;
	struct arax *ax;

	uninterrupted_bytes = 1 << 20;
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	few = limit;
	few.rlim_cur = _i ? 8192 : 65536;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
	if (_i) {
		ck_assert_int_eq(context_new(&ax, l, &o), -ENOMEM);
		ck_assert_ptr_nonnull(strstr(arax_error_text(), "RLIMIT_FSIZE lets this program have 8192 bytes"));
	} else {
		ck_assert_int_eq(context_new(&ax, l, &o), 0);
		ck_assert_int_eq(arax_buffer_create(ax, 65537, 0, &b), -ENOMEM);
		ck_assert_ptr_nonnull(strstr(arax_error_text(), "ulimit -f"));
		ck_assert_int_eq(arax_buffer_create(ax, 1 << 30, 0, &b), -ENOMEM);
		ck_assert_int_eq(arax_buffer_create(ax, 65536, 0, &b), 0);
		arax_close(ax);
	}
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	pthread_join(serving, NULL);
	begin_again();
}
END_TEST

/* The eventfd with the highest number: the one that was made last. */
static int last_eventfd(void)
{
	char name[64], what[64];
	int fd;

	for (fd = 1023; fd >= 0; fd--) {
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, what, sizeof(what) - 1);
		if (n > 0 && strstr((what[n] = '\0', what), "[eventfd]"))
			return fd;
	}
	return -1;
}

static void *ring_later(void *arg)
{
	const uint64_t one = 1;

	usleep(20000);
	ck_assert_int_eq(write(*(int *)arg, &one, sizeof(one)), sizeof(one));
	return NULL;
}

static void *hang_up_later(void *arg)
{
	usleep(20000);
	shutdown(peer, SHUT_RDWR);
	return NULL;
}

static int sleep_beside(void *(*run)(void *arg), int *fd, uint64_t ns)
{
	uint64_t deadline = ns == ARAX_DEADLINE_NONE ? ns : now_ns() + ns;
	pthread_t other;
	int ret;

	ck_assert_int_eq(pthread_create(&other, NULL, run, fd), 0);
	ret = l->ops->sleep(l, deadline, 0);
	pthread_join(other, NULL);
	return ret;
}

/* Also where a container's filter does not know the call for it. */
START_TEST(asleep)
{
	static const uint32_t refusals[] = { 0, ENOSYS, EPERM };
	struct link_region r = { .init = {
		.size = sizeof(r.init), .depth = 64, .entry_size = 128, .arena_size = 4096,
	} };
	uint64_t one = 1, start;
	int fds[2], bell;

	if (refusals[_i])
		refuse_call(SYS_epoll_pwait2, refusals[_i]);
	uninterrupted_bytes = 1 << 20;
	ck_assert_int_eq(l->ops->region(l, &r), 0);
	bell = last_eventfd();
	ck_assert_int_ge(bell, 0);

	start = now_ns();
	ck_assert_int_eq(l->ops->sleep(l, start + 10000000, 0), -ETIMEDOUT);
	ck_assert_uint_ge(now_ns() - start, 10000000);
	/* It is over already. */
	ck_assert_int_eq(l->ops->sleep(l, 1, 0), -ETIMEDOUT);

	/* Each ring wakes once, though nobody empties it. */
	ck_assert_int_eq(sleep_beside(ring_later, &bell, 20000000000u), 0);
	ck_assert_int_eq(l->ops->sleep(l, now_ns() + 1000000, 0), -ETIMEDOUT);
	ck_assert_int_eq(sleep_beside(ring_later, &bell, 20000000000u), 0);
	ck_assert_int_eq(sleep_beside(ring_later, &bell, ARAX_DEADLINE_NONE), 0);

	/* Who polls sees a ring, and who sleeps beside him has it as well, once. */
	ck_assert_int_eq(l->ops->poll_fds(l, fds), 0);
	ck_assert_int_eq(fds[0], bell);
	/* The rings from before nobody has emptied. */
	ck_assert_int_eq(l->ops->sleep(l, now_ns() + 20000000000u, 0), 0);
	ck_assert_int_eq(sleep_beside(ring_later, &bell, 20000000000u), 0);
	ck_assert_int_eq(l->ops->sleep(l, now_ns() + 1000000, 0), -ETIMEDOUT);
	ck_assert_int_eq(write(bell, &one, sizeof(one)), sizeof(one));
	ck_assert_int_eq(l->ops->sleep(l, now_ns() + 20000000000u, 0), 0);

	ck_assert_int_eq(sleep_beside(hang_up_later, NULL, 20000000000u), -ENOTCONN);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libarax-broker");
	TCase *t = tcase_create("broker");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, no_descriptor_left);
	tcase_add_test(t, too_many_descriptors);
	tcase_add_loop_test(t, large_buffers_are_asked_for, 0, 3);
#if __SIZEOF_POINTER__ == 8
	tcase_add_loop_test(t, more_than_the_machine_has, 0, 2);
#endif
	tcase_add_test(t, what_leaves_is_waited_for);
	tcase_add_loop_test(t, longer_than_a_file_may_be, 0, 2);
	if (BE_CANCELS) {
		tcase_add_loop_test(t, cancelled_while_waiting, 0, 3);
		tcase_add_test(t, cancelled_in_a_call);
		tcase_add_loop_test(t, cancelled_in_the_module, 0, 2);
	}
	tcase_add_loop_test(t, module_without_room, 0, 3);
	tcase_add_loop_test(t, waits_are_short, 0, 2);
	tcase_add_loop_test(t, waits_of_another_clock, 0, 2);
	tcase_add_test(t, a_place_is_waited_for);
	tcase_add_test(t, buffer_under_a_timer);
	tcase_add_test(t, connected_under_a_timer);
	tcase_add_loop_test(t, asleep, 0, 3);
	tcase_add_test(t, kept_out_by_an_access_list);
	tcase_add_test(t, a_path_that_is_missing);
	tcase_add_test(t, closed_beside_a_child);
#ifndef __SANITIZE_ADDRESS__
	tcase_add_loop_test(t, no_memory_to_open, 0, 2);
#endif
	suite_add_tcase(s, t);
	return be_main(s);
}
