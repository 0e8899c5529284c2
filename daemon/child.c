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

/* Killed, it runs nothing more; so long it may take to be gone. */
#define KILLED_MS	1000

/* The kernel copies a table by as many at a time, and closes in the child what was not to be. */
#define TABLE_FDS	64

/*
 * @lock:	one child at a time, until it has a table of its own
 * @place:	for what it is given; else /dev/null
 * @told:	it says that it has; @tells: there
 * @end:	what is below is ours alone, and copied
 */
static struct {
	pthread_mutex_t lock;
	bool reserved;
	int place[CHILD_FDS];
	int told, tells, null, end;
} own = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What is free below is not to become a client's. */
static int fill(void)
{
	int fd;

	do
		fd = fcntl(own.null, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	while (fd >= 0 && fd < own.end);
	/* Nothing is free at all. */
	if (fd < 0)
		return errno == EMFILE ? 0 : -errno;
	close(fd);
	return 0;
}

static int take_places(void)
{
	int pipe[2], n = 0;

	own.null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (own.null < 0)
		return -errno;
	for (; n < (int)CHILD_FDS; n++) {
		own.place[n] = fcntl(own.null, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (own.place[n] < 0)
			goto undo;
	}
	if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK))
		goto undo;
	own.told = pipe[0];
	own.tells = pipe[1];
	/* The highest, as the lowest that is free is taken each time. */
	own.end = own.tells + TABLE_FDS - own.tells % TABLE_FDS;
	own.reserved = true;
	return 0;
undo:
	while (n-- > 0)
		close(own.place[n]);
	close(own.null);
	return -EMFILE;
}

static int reserve(void)
{
	int err = own.reserved ? 0 : take_places();

	return err ? err : fill();
}

int child_reserve(void)
{
	int err;

	pthread_mutex_lock(&own.lock);
	err = reserve();
	pthread_mutex_unlock(&own.lock);
	return err;
}

void child_close(int fd)
{
	pthread_mutex_lock(&own.lock);
	if (!own.reserved || fd >= own.end)
		close(fd);
	else
		dup3(own.null, fd, O_CLOEXEC);
	pthread_mutex_unlock(&own.lock);
}

/* In the child. */
static void leave_table(void)
{
	if (syscall(SYS_close_range, own.end, ~0u, CLOSE_RANGE_UNSHARE))
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
 * ours as well, so that it has no end.  False: it has not, for very long.
 */
static bool await_leaving(pid_t pid)
{
	struct pollfd p = { .fd = own.told, .events = POLLIN };
	bool ended = false;
	int ms = 0;
	char any;

	while (read(own.told, &any, 1) < 0 && !ended) {
		ended = has_ended(pid);
		if (!ended && ms >= LEAVE_MS)
			return false;
		if (!ended)
			poll(&p, 1, LOOK_MS);
		ms += LOOK_MS;
	}
	return true;
}

/* One that was given up, and killed, may have told by then: it would be the next one's word. */
static void forget_told(void)
{
	char any;

	while (read(own.told, &any, 1) > 0)
		;
}

/* It does nothing more, so what it sees in our table is all the same to it. */
static int end_it(pid_t pid)
{
	kill(pid, SIGKILL);
	for (int ms = 0; ms < KILLED_MS && waitpid(pid, NULL, WNOHANG) == 0; ms += LOOK_MS)
		poll(NULL, 0, LOOK_MS);
	return -ETIMEDOUT;
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
	if (!err)
		forget_told();
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
	if (pid > 0 && !await_leaving(pid))
		pid = end_it(pid);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	for (uint32_t i = 0; i < nr && own.reserved; i++)
		dup3(own.null, own.place[i], O_CLOEXEC);
	pthread_mutex_unlock(&own.lock);
	return pid;
}
