// SPDX-License-Identifier: MIT
/*
 * Between fork() and exec the child makes system calls only: other threads of
 * araxd may have held any lock at the fork.  Identity is changed by raw calls,
 * because the C library's would signal threads that don't exist here.
 */
#include "daemon/worker/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

enum step {
	STEP_FDS = 1, STEP_SIGNALS, STEP_SESSION, STEP_LIMITS, STEP_CPUS, STEP_CAPS, STEP_IDENTITY,
	STEP_PRIVS, STEP_PARENT, STEP_EXEC,
};

static _Noreturn void give_up(int socket, enum step step, int err)
{
	struct worker_msg msg = { .type = WORKER_MSG_FAILED, .flags = step, .id = (uint64_t)err };

	send(socket, &msg, sizeof(msg), MSG_NOSIGNAL);
	_exit(127);
}

/* Put the descriptors in their places and close everything else. */
static int place_fds(const struct spawn *s, int *socket)
{
	int high[WORKER_NR_FDS], null;

	/* Above all targets first, so that no move overwrites a source. */
	for (int i = WORKER_FD_SOCKET; i < WORKER_NR_FDS; i++) {
		high[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, 64);
		if (high[i] < 0)
			return errno;
	}
	*socket = high[WORKER_FD_SOCKET];
	for (int i = WORKER_FD_SOCKET; i < WORKER_NR_FDS; i++)
		if (dup3(high[i], i, i == WORKER_FD_PROGRAM ? O_CLOEXEC : 0) < 0)
			return errno;
	*socket = WORKER_FD_SOCKET;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return errno;
	for (int i = 0; i < 3; i++)
		if (null == i ? fcntl(i, F_SETFD, 0) : dup2(null, i) < 0)
			return errno;
	return syscall(SYS_close_range, WORKER_NR_FDS, ~0u, 0) ? errno : 0;
}

static int reset_signals(void)
{
	struct sigaction dfl;
	sigset_t none;

	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);	/* fails for a few: they have no other */
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) ? errno : 0;
}

/*
 * Where memory is short: araxd may be spared, and its children would be with it.  There
 * are containers that can't write there: they have their own limits.
 */
static void go_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "1000", 4) < 0)
		(void)errno;
	close(fd);
}

static int set_limit(int what, rlim_t value)
{
	struct rlimit now;

	if (getrlimit((__rlimit_resource_t)what, &now))
		return errno;
	if (now.rlim_max < value)
		value = now.rlim_max;
	now.rlim_cur = now.rlim_max = value;
	return setrlimit((__rlimit_resource_t)what, &now) ? errno : 0;
}

static int set_limits(const struct spawn *s)
{
	int err = set_limit(RLIMIT_CORE, 0);

	if (!err)
		err = set_limit(RLIMIT_FSIZE, 0);
	if (!err)
		err = set_limit(RLIMIT_MEMLOCK, 0);
	if (!err)
		err = set_limit(RLIMIT_MSGQUEUE, 0);
	if (!err)
		err = set_limit(RLIMIT_RTPRIO, 0);
	if (!err)
		err = set_limit(RLIMIT_NICE, 0);
	if (!err)
		err = set_limit(RLIMIT_NOFILE, 4200);
	if (!err && s->memory)
		err = set_limit(RLIMIT_DATA, s->memory);
	return err;
}

/* Uid 0 means nothing from here on, not even after exec. */
static int drop_bounding_set(void)
{
	for (unsigned long cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno != EINVAL)
			return errno;
	return prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
		     SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0, 0) ?
		       errno : 0;
}

static int drop_caps(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	return syscall(SYS_capset, &head, none) ? errno : 0;
}

static int set_identity(const struct spawn *s)
{
	if (syscall(SYS_geteuid) != 0)	/* a private daemon: its own user's worker only */
		return syscall(SYS_geteuid) == (long)s->uid ? 0 : EPERM;
	if (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, s->gid, s->gid, s->gid) ||
	    syscall(SYS_setresuid, s->uid, s->uid, s->uid))
		return errno;
	return 0;
}

static _Noreturn void child(const struct spawn *s, pid_t parent)
{
	char *const argv[] = { (char *)"arax-worker", s->foreign ? (char *)WORKER_FOREIGN : NULL,
			       NULL }, *const envp[] = { NULL };
	int socket = s->fds[WORKER_FD_SOCKET];
	int root = syscall(SYS_geteuid) == 0;
	int err = place_fds(s, &socket);

	if (err)
		give_up(socket, STEP_FDS, err);
	err = reset_signals();
	if (err)
		give_up(socket, STEP_SIGNALS, err);
	if (setsid() < 0 || chdir("/"))
		give_up(socket, STEP_SESSION, errno);
	umask(077);
	if (s->foreign)
		go_first();
	err = set_limits(s);
	if (err)
		give_up(socket, STEP_LIMITS, err);
	if (sched_setaffinity(0, sizeof(s->cpus), &s->cpus))
		give_up(socket, STEP_CPUS, errno);
	err = root ? drop_bounding_set() : 0;
	if (err)
		give_up(socket, STEP_CAPS, err);
	err = set_identity(s);
	if (err)
		give_up(socket, STEP_IDENTITY, err);
	err = drop_caps();
	if (err)
		give_up(socket, STEP_CAPS, err);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		give_up(socket, STEP_PRIVS, errno);
	/* After the identity, which resets it; the parent may have gone before. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		give_up(socket, STEP_PARENT, errno);
	syscall(SYS_execveat, WORKER_FD_PROGRAM, "", argv, envp, AT_EMPTY_PATH);
	give_up(socket, STEP_EXEC, errno);
}

pid_t spawn_worker(const struct spawn *s)
{
	pid_t parent = getpid(), pid;
	sigset_t all, old;

	/* No handler of araxd's may run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (!pid)
		child(s, parent);
	if (pid < 0)
		pid = -errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}
