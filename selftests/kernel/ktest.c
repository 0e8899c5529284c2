// SPDX-License-Identifier: MIT
/* A test's frame: its process, its deadline, and the books after it. */
#include "ktest.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define EARLIER		20	/* than tap.c's deadline, which would not see the books */
#define SECONDS		100
#define BOOKS_SECONDS	20

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void sleep_ms(unsigned int ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

int call(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

bool ktest_debug_kernel(void)
{
	return !access("/sys/kernel/debug/kmemleak", F_OK);
}

/* Times as many rounds. */
static int soak(void)
{
	const char *text = getenv("KTEST_SOAK");

	return text ? atoi(text) : 0;
}

int ktest_rounds(int stock)
{
	if (soak())
		return stock * soak();
	return ktest_debug_kernel() ? (stock + 9) / 10 : stock;
}

/* ------------------------------------------------------------------ */
/* The books                                                           */

static bool books_even(int ctl, char *why, size_t size)
{
	struct arax_context c = { .size = sizeof(c) };
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };
	int err, i;

	err = CALL(ctl, CONTEXT_QUERY, &c);
	if (err != -ENOENT) {
		snprintf(why, size, "context %u of %d (%s) remains, %llu tasks", c.id, c.pid,
			 c.comm, (unsigned long long)c.usage.counters[ARAX_RES_TASKS].used);
		return false;
	}
	while (!(err = CALL(ctl, TENANT_QUERY, &t))) {
		for (i = 0; i < ARAX_RES_MAX; i++) {
			if (!t.usage.counters[i].used)
				continue;
			snprintf(why, size, "%llu of resource %d charged to %s",
				 (unsigned long long)t.usage.counters[i].used, i, t.path);
			return false;
		}
		t.id++;
		t.cgroup_fd = -1;
	}
	if (err != -ENOENT) {
		snprintf(why, size, "tenant query: %d", err);
		return false;
	}
	if (read_number("/sys/module/arax/refcnt") != 1) {
		snprintf(why, size, "module is used %lld times",
			 read_number("/sys/module/arax/refcnt"));
		return false;
	}
	return true;
}

/* What a killed process held goes a little later. */
static int check_books(void)
{
	uint64_t end = now_ns() + BOOKS_SECONDS * 1000 * MS;
	char why[512];
	int ctl = open_node("/dev/arax-ctl");

	if (ctl < 0) {
		printf("# no /dev/arax-ctl: %s\n", strerror(-ctl));
		return 1;
	}
	while (!books_even(ctl, why, sizeof(why))) {
		if (now_ns() > end) {
			printf("# the books: %s\n", why);
			close(ctl);
			return 1;
		}
		sleep_ms(5);
	}
	close(ctl);
	return 0;
}

static void too_long(int signal)
{
	static const char text[] = "# still running\n";
	ssize_t n = write(STDOUT_FILENO, text, sizeof(text) - 1);

	(void)n;
}

void ktest_run(void (*body)(void))
{
	const char *seconds = getenv("TAP_SECONDS");
	struct sigaction sa = { .sa_handler = too_long };
	int status = 0, s;
	pid_t pid, p;

	/* Orphans become ours, so that all is over before the books are read. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		body();
		fflush(stdout);
		_exit(0);
	}
	setpgid(pid, pid);
	sigaction(SIGALRM, &sa, NULL);
	alarm(seconds ? (unsigned int)atoi(seconds) - EARLIER : SECONDS);
	if (waitpid(pid, &status, 0) != pid) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		status = 1 << 8;
	}
	alarm(0);
	kill(-pid, SIGKILL);
	while ((p = waitpid(-1, &s, 0)) > 0)
		;
	/* The last of a process goes after its parent could have seen it end. */
	if (check_books())
		status = status ? status : 1 << 8;
	fflush(stdout);
	if (WIFSIGNALED(status)) {
		printf("# killed by signal %d\n", WTERMSIG(status));
		fflush(stdout);
		_exit(1);
	}
	_exit(WEXITSTATUS(status));
}

/* ------------------------------------------------------------------ */
/* Processes                                                           */

pid_t child_run(int (*fn)(void *arg), void *arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		int ret = fn(arg);

		fflush(stdout);
		_exit(ret);
	}
	return pid;
}

int child_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		CHECK_EQ(errno, EINTR);
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

void become(unsigned int uid)
{
	CHECK_SYS(setresgid(uid, uid, uid));
	CHECK_SYS(setresuid(uid, uid, uid));
}

void meet_init(struct meet *m)
{
	CHECK_SYS(pipe2(m->fd, O_CLOEXEC));
}

void meet_say(struct meet *m)
{
	CHECK_EQ(write(m->fd[1], "x", 1), 1);
}

void meet_hear(struct meet *m)
{
	char c;

	CHECK_EQ(read(m->fd[0], &c, 1), 1);
}

void fd_send(int socket, int fd)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	char c = 'f';
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof(u.space) };

	u.h.cmsg_len = CMSG_LEN(sizeof(int));
	u.h.cmsg_level = SOL_SOCKET;
	u.h.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&u.h), &fd, sizeof(fd));
	CHECK_EQ(sendmsg(socket, &m, 0), 1);
}

int fd_receive(int socket)
{
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof(u.space) };
	int fd;

	CHECK_EQ(recvmsg(socket, &m, MSG_CMSG_CLOEXEC), 1);
	CHECK(CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static sigjmp_buf fault_jump;

static void on_fault(int signal)
{
	siglongjmp(fault_jump, signal);
}

bool faults(volatile void *address, bool write)
{
	struct sigaction sa = { .sa_handler = on_fault }, bus, segv;
	volatile uint8_t *p = address;
	bool faulted = true;

	sigaction(SIGBUS, &sa, &bus);
	sigaction(SIGSEGV, &sa, &segv);
	if (!sigsetjmp(fault_jump, 1)) {
		if (write)
			*p = 1;
		else
			(void)*p;
		faulted = false;
	}
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	return faulted;
}

unsigned int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

long long read_number(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? atoll(text) : -1;
}
