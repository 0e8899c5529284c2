// SPDX-License-Identifier: MIT
#include "daemon/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between two looks at whether it is there still. */
#define LOOK_MS	20

/* It has to get a CPU for that, and copy a small table: else something is wrong with it. */
#define LEAVE_MS	5000

/* The kernel copies as many of a table at least, however few are asked for. */
#define LOWEST_FDS	64

/*
 * @lock:	one child at a time, until it has a table of its own
 * @place:	for what it is given; else /dev/null
 * @told:	it says that it has; @tells: there
 */
static struct {
	pthread_mutex_t lock;
	bool reserved;
	int place[CHILD_FDS];
	int told, tells, null;
} own = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What was ours may have been closed since, and is not to become a client's. */
static int fill_lowest(void)
{
	int fd;

	do
		fd = fcntl(own.null, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	while (fd >= 0 && fd < LOWEST_FDS);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int reserve(void)
{
	int pipe[2];

	if (own.reserved)
		return fill_lowest();
	own.null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (own.null < 0)
		return -errno;
	for (uint32_t i = 0; i < CHILD_FDS; i++) {
		own.place[i] = fcntl(own.null, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (own.place[i] < 0)
			return -errno;
	}
	if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	own.told = pipe[0];
	own.tells = pipe[1];
	own.reserved = true;
	return fill_lowest();
}

int child_reserve(void)
{
	int err;

	pthread_mutex_lock(&own.lock);
	err = reserve();
	pthread_mutex_unlock(&own.lock);
	return err;
}

static int last_place(void)
{
	int last = own.tells > LOWEST_FDS - 1 ? own.tells : LOWEST_FDS - 1;

	for (uint32_t i = 0; i < CHILD_FDS; i++)
		last = own.place[i] > last ? own.place[i] : last;
	return last;
}

/* In the child. */
static void leave_table(void)
{
	if (syscall(SYS_close_range, last_place() + 1, ~0u, CLOSE_RANGE_UNSHARE))
		_exit(127);
	if (write(own.tells, "", 1) != 1)
		_exit(127);
}

/* What it would tell is told by then. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) || info.si_pid;
}

/*
 * Until it has left ours, or is no more: then the places are ours again.  The other end of the pipe is
 * ours as well, so that it has no end.
 */
static void await_leaving(pid_t pid)
{
	struct pollfd p = { .fd = own.told, .events = POLLIN };
	bool ended = false;
	int ms = 0;
	char any;

	while (read(own.told, &any, 1) < 0 && !ended && own.reserved) {
		ended = has_ended(pid);
		if (!ended)
			poll(&p, 1, LOOK_MS);
		ms += LOOK_MS;
		/* Others get new ones. */
		if (ms >= LEAVE_MS)
			own.reserved = false;
	}
}

static pid_t begin(unsigned long flags)
{
#ifdef __SANITIZE_THREAD__
	/* Its library has to know of a child, and knows of fork() alone. */
	if (!flags)
		return fork();
#endif
	return (pid_t)syscall(SYS_clone, flags | CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
}

pid_t child_begin(unsigned long flags, const int *fds, uint32_t nr, int *have)
{
	sigset_t all, old;
	pid_t pid;
	int err;

	pthread_mutex_lock(&own.lock);
	err = reserve();
	for (uint32_t i = 0; i < nr && !err; i++) {
		have[i] = fds[i] < 0 ? -1 : own.place[i];
		if (fds[i] >= 0 && dup3(fds[i], own.place[i], O_CLOEXEC) < 0)
			err = -errno;
	}
	/* No handler of ours may run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = err ? err : begin(flags);
	if (!pid) {
		leave_table();
		return 0;
	}
	if (pid < 0 && !err)
		pid = -errno;
	if (pid > 0)
		await_leaving(pid);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	for (uint32_t i = 0; i < nr && own.reserved; i++)
		dup3(own.null, own.place[i], O_CLOEXEC);
	pthread_mutex_unlock(&own.lock);
	return pid;
}
