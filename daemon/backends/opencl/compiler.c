// SPDX-License-Identifier: MIT
/*
 * Three processes: one that waits for requests, one for each of them that watches, and one that
 * compiles.  Each of them ends when the one before it does.  What a compiler leaves behind comes to
 * who watches, and with him gone to who waits: it is ended there.
 */
#include "daemon/backends/opencl/compiler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/notify.h"

#define FDS	3	/* the source; what comes out; who reads the reply */
#define FROM_FD	(STDERR_FILENO + 1)	/* requests */
/* That who watches is late at most; and that starting goes on for after a source. */
#define GRACE_SECONDS	30u
#define START_SECONDS	120u

struct request {
	uint32_t index;
	char key[sizeof(((struct opencl_device *)0)->key)];	/* not another one by now */
	char file[256], symbol[128];
};

struct reply {
	struct child_end end;
	int err;
	int untried;	/* why no process could be had for it; 0: it was tried */
};

struct job {
	struct request r;
	int fds[FDS];
};

static int door = -1;
static pid_t waiter;
static bool told;	/* that it is gone */

/* ------------------------------------------------------------------ */
/* There                                                                 */

static int read_all(int fd, struct blob *b)
{
	struct stat st;
	char *text;

	*b = (struct blob){ NULL, 0 };
	if (fstat(fd, &st))
		return -errno;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (b->bytes < (size_t)st.st_size) {
		ssize_t n = pread(fd, text + b->bytes, (size_t)st.st_size - b->bytes,
				  (off_t)b->bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			free(text);
			return -EIO;
		}
		b->bytes += (size_t)n;
	}
	text[b->bytes] = '\0';
	b->data = text;
	return 0;
}

static int compile_it(const struct job *j)
{
	const struct arax_backend_kernel k = {
		.size = sizeof(k), .fd = -1, .file = j->r.file, .symbol = j->r.symbol,
	};
	struct opencl_device *d;
	struct blob source;
	char why[256];
	int err = read_all(j->fds[0], &source);

	if (!err)
		err = opencl_api_open(why, sizeof(why));
	if (err)
		return err;
	err = opencl_find(why, sizeof(why));
	if (err < 0)
		return err;
	err = opencl_device_open_bare(j->r.index, &d);
	if (err)
		return err;
	return strcmp(d->key, j->r.key) ? -ENODEV : opencl_program_compile(d, &k, &source, j->fds[1]);
}

static void work(void *arg, void *answer)
{
	*(int *)answer = compile_it(arg);
}

/* Of a terminal, or for all of a service: it is araxd that ends then, and we with it. */
static void ignore_ends(void)
{
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	/* Who asked may have given up. */
	signal(SIGPIPE, SIG_IGN);
}

/* Whoever is gone reads no reply. */
static void watch(struct job *j, pid_t parent)
{
	struct reply reply = { .err = 0 };
	const struct child c = {
		.work = work, .arg = j, .answer = &reply.err, .len = sizeof(reply.err),
		.seconds = opencl_options.compile_seconds,
	};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	close(FROM_FD);	/* else requests would wait for us, if nobody else takes them */
	child_signals();
	ignore_ends();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	reply.untried = child_run(&c, &reply.end);
	child_end_rest();
	_exit(write(j->fds[2], &reply, sizeof(reply)) == sizeof(reply) ? 0 : 1);
}

/* Who watch, of whom this process is. */
static pid_t *watchers;
static size_t nr_watchers;

static int start_watcher(struct job *j)
{
	pid_t *more = realloc(watchers, (nr_watchers + 1) * sizeof(*more)), us = getpid(), pid;

	if (!more)
		return -ENOMEM;
	watchers = more;
	pid = fork();
	if (!pid)
		watch(j, us);
	if (pid < 0)
		return -errno;
	watchers[nr_watchers++] = pid;
	return 0;
}

/* What else is ours was one's that has been ended itself. */
static void reap(void)
{
	pid_t pid;
	size_t i;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (i = 0; i < nr_watchers && watchers[i] != pid; i++)
			;
		if (i < nr_watchers)
			watchers[i] = watchers[--nr_watchers];
	}
	if (!pid)
		child_end_others(watchers, nr_watchers);
}

static void child_ended(int sig)
{
	(void)sig;
}

/* Until there is a request; whoever ends meanwhile is reaped. */
static void await_request(void)
{
	struct pollfd p = { .fd = FROM_FD, .events = POLLIN };
	sigset_t none;

	sigemptyset(&none);
	do
		reap();
	while (ppoll(&p, 1, NULL, &none) < 0 && errno == EINTR);
}

/* Nobody can watch it. */
static void give_back(const struct job *j, int err)
{
	const struct reply reply = { .untried = err };

	(void)!write(j->fds[2], &reply, sizeof(reply));
}

static bool receive(int from, struct job *j)
{
	char space[CMSG_SPACE(sizeof(j->fds))] = { 0 };
	struct iovec iov = { &j->r, sizeof(j->r) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space),
	};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	c = CMSG_FIRSTHDR(&msg);
	if (n != sizeof(j->r) || !c || c->cmsg_len != CMSG_LEN(sizeof(j->fds)))
		return false;
	memcpy(j->fds, CMSG_DATA(c), sizeof(j->fds));
	return true;
}

/* Where the call is refused, or there is none. */
static void close_each_from(int first)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	if (!d) {
		for (long i = first; i < sysconf(_SC_OPEN_MAX); i++)
			close((int)i);
		return;
	}
	while ((e = readdir(d))) {
		int fd = atoi(e->d_name);

		if (fd >= first && fd != dirfd(d))
			close(fd);
	}
	closedir(d);
}

/* Nothing of araxd's stays open here, nor is it kept from ending by us. */
__attribute__((noreturn))
static void serve(int from)
{
	const struct sigaction ended = { .sa_handler = child_ended };
	sigset_t ends;
	struct job j;
	int err;

	opencl_say_nothing();
	prctl(PR_SET_NAME, "araxd-compile");
	child_signals();
	setsid();
	ignore_ends();
	/* While a request is awaited alone. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	sigaction(SIGCHLD, &ended, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (dup2(from, FROM_FD) < 0)
		_exit(1);
	if (syscall(SYS_close_range, FROM_FD + 1, ~0u, 0))
		close_each_from(FROM_FD + 1);
	for (;;) {
		await_request();
		if (!receive(FROM_FD, &j))
			break;
		err = start_watcher(&j);
		if (err)
			give_back(&j, err);
		for (int i = 0; i < FDS; i++)
			close(j.fds[i]);
	}
	child_end_rest();
	_exit(0);
}

/* ------------------------------------------------------------------ */
/* Here                                                                  */

void compiler_start(void)
{
	int pair[2];

	compiler_stop();
	told = false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;
	fflush(NULL);
	waiter = fork();
	if (!waiter)
		serve(pair[1]);
	close(pair[1]);
	door = pair[0];
	if (waiter < 0)
		compiler_stop();
}

void compiler_stop(void)
{
	if (door < 0)
		return;
	close(door);
	door = -1;
	if (waiter > 0)
		waitpid(waiter, NULL, 0);
}

static int put_source(const struct blob *source)
{
	int fd = memfd_create("source", MFD_CLOEXEC);

	if (fd >= 0 && blob_write(fd, source->data, source->bytes)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int send_job(const struct job *j)
{
	char space[CMSG_SPACE(sizeof(j->fds))] = { 0 };
	struct iovec iov = { (void *)&j->r, sizeof(j->r) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(j->fds));
	memcpy(CMSG_DATA(c), j->fds, sizeof(j->fds));
	return sendmsg(door, &msg, MSG_NOSIGNAL) == sizeof(j->r) ? 0 : -errno;
}

/* -EPIPE: who watches has ended as well; -ETIMEDOUT. */
static int read_reply(int fd, struct reply *reply)
{
	const uint32_t seconds = opencl_options.compile_seconds + GRACE_SECONDS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, (int)seconds * 1000);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n ? -errno : -ETIMEDOUT;
	/* Written at once, short as it is. */
	return read(fd, reply, sizeof(*reply)) == sizeof(*reply) ? 0 : -EPIPE;
}

static int put_job(struct job *j, const struct opencl_device *d, const struct arax_backend_kernel *k,
		   const struct blob *source)
{
	j->r.index = d->index;
	snprintf(j->r.key, sizeof(j->r.key), "%s", d->key);
	snprintf(j->r.file, sizeof(j->r.file), "%s", k->file);
	snprintf(j->r.symbol, sizeof(j->r.symbol), "%s", k->symbol);
	j->fds[0] = put_source(source);
	if (j->fds[0] < 0)
		return -errno;
	j->fds[1] = memfd_create("built", MFD_CLOEXEC);
	return j->fds[1] < 0 ? -errno : send_job(j);
}

/* From now on nobody is there to be asked, or so it was this time. */
static void tell_gone(int err)
{
	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		opencl_log(ARAX_LOG_WARNING, "the process that compiles sources can't be asked (%s): araxd does so itself, and ends where a driver's compiler does not survive one; start it anew (said once)",
			   strerror(-err));
}

/* systemd ends who takes too long to start: not for this. */
static void ask_for_time(void)
{
	char text[64];

	snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%u000000",
		 opencl_options.compile_seconds + GRACE_SECONDS + START_SECONDS);
	notify_manager(text);
}

int compiler_ask(const struct opencl_device *d, const struct arax_backend_kernel *k,
		 const struct blob *source, struct compiled *c)
{
	struct job j = { .fds = { -1, -1, -1 } };
	int replies[2], err;
	struct reply reply;

	memset(c, 0, sizeof(*c));
	if (door < 0)
		return -ENOENT;
	ask_for_time();
	if (pipe2(replies, O_CLOEXEC)) {
		tell_gone(-errno);
		return -ENOENT;
	}
	j.fds[2] = replies[1];
	err = put_job(&j, d, k, source);
	close(replies[1]);
	if (err) {
		tell_gone(err);
		err = -ENOENT;
	} else {
		err = read_reply(replies[0], &reply);
	}
	close(replies[0]);
	/* Another time it may be. */
	if (!err && reply.untried) {
		tell_gone(reply.untried);
		err = -ENOENT;
	}
	if (!err) {
		c->end = reply.end;
		c->err = reply.err;
		if (c->end.answered && !c->err)
			c->err = read_all(j.fds[1], &c->built);
	}
	for (int i = 0; i < FDS - 1; i++)
		if (j.fds[i] >= 0)
			close(j.fds[i]);
	return err;
}
