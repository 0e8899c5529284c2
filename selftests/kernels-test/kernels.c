// SPDX-License-Identifier: MIT
/* Kernels that misbehave on purpose; never installed. */
#include <arax/kernel.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/worker/proto.h"

int test_crash(const struct arax_launch *l);
int test_error(const struct arax_launch *l);
int test_gather(const struct arax_launch *l);
int test_hang(const struct arax_launch *l);
int test_exit(const struct arax_launch *l);
int test_abort(const struct arax_launch *l);
int test_identity(const struct arax_launch *l);
int test_until(const struct arax_launch *l);
int test_child(const struct arax_launch *l);
int test_groups(const struct arax_launch *l);
int test_steps(const struct arax_launch *l);
int test_clog(const struct arax_launch *l);
int test_deaf(const struct arax_launch *l);
int test_sends(const struct arax_launch *l);

/* test_crash(inout u32 x[]) */
ARAX_KERNEL int test_crash(const struct arax_launch *l)
{
	int *volatile nowhere = NULL;

	*(volatile int *)nowhere = 1;
	return 0;
}

/* test_error(inout u32 x[], i32 result): returns it */
ARAX_KERNEL int test_error(const struct arax_launch *l)
{
	int32_t result;

	if (arax_launch_args(l, &result, sizeof(result)))
		return -EINVAL;
	return result;
}

/* test_gather(in u32 index[], in u32 src[], out u32 dst[], u32 n): no check at all */
ARAX_KERNEL int test_gather(const struct arax_launch *l)
{
	const volatile uint32_t *index, *src;
	volatile uint32_t *dst;
	uint32_t n;

	if (arax_launch_args(l, &n, sizeof(n)))
		return -EINVAL;
	index = ARAX_ITEMS(l, 0, n, uint32_t);
	src = ARAX_ITEMS(l, 1, 0, uint32_t);
	dst = ARAX_ITEMS(l, 2, n, uint32_t);
	if (!index || !src || !dst)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		dst[i] = src[index[i]];
	return 0;
}

/* test_hang(inout u32 x[]) */
ARAX_KERNEL int test_hang(const struct arax_launch *l)
{
	const struct timespec hour = { .tv_sec = 3600 };

	for (;;)
		nanosleep(&hour, NULL);
}

/* test_abort(inout u32 x[]) */
ARAX_KERNEL int test_abort(const struct arax_launch *l)
{
	abort();
}

/* test_exit(inout u32 x[]) */
ARAX_KERNEL int test_exit(const struct arax_launch *l)
{
	_exit(3);
}

/*
 * test_identity(out u32 x[]): who runs this?  pid, uid, gid, no_new_privs,
 * number of open descriptors that a worker should not have, effective
 * capabilities' lowest 32 bits, environment variables, dumpable.
 */
ARAX_KERNEL int test_identity(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 8, uint32_t);
	extern char **environ;
	char line[256];
	FILE *f;

	if (!x)
		return -EINVAL;
	x[0] = (uint32_t)getpid();
	x[1] = getuid();
	x[2] = getgid();
	x[3] = (uint32_t)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	x[4] = 0;
	for (int fd = 0; fd < 4096; fd++)
		x[4] += lseek(fd, 0, SEEK_CUR) != -1 || errno != EBADF;
	x[5] = ~0u;
	f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			x[5] = (uint32_t)strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	x[6] = 0;
	while (environ && environ[x[6]])
		x[6]++;
	x[7] = (uint32_t)prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	return 0;
}

/* test_until(inout u32 x[]): counts in x[0] until x[1] is set, and copies that to x[2] */
ARAX_KERNEL int test_until(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 3, uint32_t);

	if (!x)
		return -EINVAL;
	while (!__atomic_load_n(&x[1], __ATOMIC_RELAXED))
		__atomic_fetch_add(&x[0], 1, __ATOMIC_RELAXED);
	x[2] = x[1];
	return 0;
}

/* test_child(inout u32 x[]): the same, beside a process that counts in x[3] for ever */
ARAX_KERNEL int test_child(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 4, uint32_t);
	pid_t pid;

	if (!x)
		return -EINVAL;
	pid = fork();
	if (pid < 0)
		return -errno;
	while (!pid)
		__atomic_fetch_add(&x[3], 1, __ATOMIC_RELAXED);
	return test_until(l);
}

/* test_groups(inout u32 x[]): counts each work-group's visits; split */
ARAX_KERNEL int test_groups(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, arax_launch_groups(l), uint32_t);

	if (!x)
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++)
		__atomic_fetch_add(&x[g], 1, __ATOMIC_RELAXED);
	return 0;
}

/* test_steps(inout u32 x[]): 0.2 ms a work-group, counted in x[0], until x[1] is set; split */
ARAX_KERNEL int test_steps(const struct arax_launch *l)
{
	const struct timespec step = { .tv_nsec = 200000 };
	uint32_t *x = ARAX_ITEMS(l, 0, 2, uint32_t);

	if (!x)
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		if (!__atomic_load_n(&x[1], __ATOMIC_RELAXED))
			nanosleep(&step, NULL);
		__atomic_fetch_add(&x[0], 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static struct worker_slot *find_slot(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long at = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:arax-worker"))
			at = strtoul(line, NULL, 16);
	if (f)
		fclose(f);
	return (struct worker_slot *)at;
}

/* So that whoever writes to it waits, unless he sees to it that he does not: is it one? */
static bool fill_eventfd(int fd)
{
	const uint64_t most = UINT64_MAX - 1;
	char path[32], name[32] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0 || strcmp(name, "anon_inode:[eventfd]"))
		return false;
	/* Once for what is in it already. */
	while (write(fd, &most, sizeof(most)) > 0)
		;
	fcntl(fd, F_SETFL, 0);
	return true;
}

/*
 * test_clog(inout u32 x[]): has what it shares with araxd so that it is hard to wake, says that
 * it is done and asleep, and goes on.
 */
ARAX_KERNEL int test_clog(const struct arax_launch *l)
{
	struct worker_slot *s = find_slot();
	const struct timespec hour = { .tv_sec = 3600 };
	const uint64_t one = 1;
	int filled = -1;

	if (!s)
		return -EIO;
	for (int fd = 3; fd < 64; fd++)
		if (fill_eventfd(fd))
			filled = fd;
	atomic_store(&s->worker_sleeps, 1);
	atomic_store(&s->result, 0);
	atomic_store(&s->reply, atomic_load(&s->request));
	/*
	 * araxd may have emptied it before there was a reply, and would sleep until the launch
	 * has run out of time.  Where it is still full it wakes araxd as it is, and we wait here.
	 */
	if (write(filled, &one, sizeof(one)) < 0)
		return -EIO;
	for (;;)
		nanosleep(&hour, NULL);
}

/* test_sends(inout u32 x[]): a descriptor to araxd; what came of that */
ARAX_KERNEL int test_sends(const struct arax_launch *l)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { "", 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	return sendmsg(WORKER_FD_SOCKET, &h, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A pipe that takes a while to free: its end from which that could be read. */
static int full_pipe(void)
{
	static const char mib[1 << 20];
	int p[2];

	if (pipe(p))
		return -1;
	fcntl(p[1], F_SETPIPE_SZ, sizeof(mib));
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	(void)!write(p[1], mib, sizeof(mib));
	close(p[1]);
	return p[0];
}

/*
 * It has ended well after its end of araxd's socket is closed: what is in a socket goes when all its
 * files have been closed.
 */
static void end_slowly(int signal)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(64 * sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(64 * sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { "", 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	int pair[2], *fds = (int *)CMSG_DATA(&control.head);

	for (int i = 0; i < 64; i++)
		fds[i] = full_pipe();
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || sendmsg(pair[0], &h, 0) != 1)
		_exit(4);
	for (int i = 0; i < 64; i++)
		close(fds[i]);
	raise(signal);
}

/*
 * test_deaf(inout u32 x[]): says of every launch that it is done, takes no message any more, and
 * is ahead of what it is asked by x[1]; counts in x[2] how often it has said so; with x[3] it says so
 * aloud; ends by the signal x[0]
 */
ARAX_KERNEL int test_deaf(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 4, uint32_t);
	struct worker_slot *s = find_slot();
	const uint64_t one = 1;

	if (!s || !x)
		return -EIO;
	atomic_store(&s->result, 0);
	for (;;) {
		atomic_store(&s->reply, atomic_load(&s->request) +
			     __atomic_load_n(&x[1], __ATOMIC_RELAXED));
		__atomic_fetch_add(&x[2], 1, __ATOMIC_RELEASE);
		if (__atomic_load_n(&x[0], __ATOMIC_RELAXED))
			end_slowly((int)x[0]);
		if (x[3] && write(WORKER_FD_REPLY, &one, sizeof(one)) < 0)
			_exit(5);
		usleep(50);
	}
}
