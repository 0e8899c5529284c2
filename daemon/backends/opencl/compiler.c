// SPDX-License-Identifier: MIT
/*
 * Three processes: one that waits for requests, one for each of them that watches, and one that
 * compiles.  Each of them ends when the one before it does.
 */
#include "daemon/backends/opencl/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
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

#define FDS	3	/* the source; what comes out; who reads the reply */

struct request {
	uint32_t index;
	char key[sizeof(((struct opencl_device *)0)->key)];	/* not another one by now */
	char file[256], symbol[128];
};

struct reply {
	struct child_end end;
	int err;
};

struct job {
	struct request r;
	int fds[FDS];
};

static int door = -1;
static pid_t waiter;

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

/* Whoever is gone reads no reply. */
static void watch(struct job *j)
{
	struct reply reply = { .err = 0 };
	const struct child c = {
		.work = work, .arg = j, .answer = &reply.err, .len = sizeof(reply.err),
		.seconds = opencl_options.compile_seconds,
	};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_DFL);
	_exit(!child_run(&c, &reply.end) &&
	      write(j->fds[2], &reply, sizeof(reply)) == sizeof(reply) ? 0 : 1);
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

/* Nothing of araxd's stays open here, nor is it kept from ending by us. */
__attribute__((noreturn))
static void serve(int from)
{
	struct job j;

	opencl_say_nothing();
	prctl(PR_SET_NAME, "araxd-compile");
	child_signals();
	signal(SIGINT, SIG_IGN);	/* of a terminal: it is araxd that ends then */
	signal(SIGCHLD, SIG_IGN);
	if (dup2(from, STDERR_FILENO + 1) < 0 ||
	    syscall(SYS_close_range, STDERR_FILENO + 2, ~0u, 0))
		_exit(1);
	from = STDERR_FILENO + 1;
	while (receive(from, &j)) {
		if (!fork())
			watch(&j);
		for (int i = 0; i < FDS; i++)
			close(j.fds[i]);
	}
	_exit(0);
}

/* ------------------------------------------------------------------ */
/* Here                                                                  */

void compiler_start(void)
{
	int pair[2];

	compiler_stop();
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

static bool send_job(const struct job *j)
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
	return sendmsg(door, &msg, MSG_NOSIGNAL) == sizeof(j->r);
}

/* Nothing comes if who watches has ended as well. */
static bool read_reply(int fd, struct reply *reply)
{
	ssize_t n;

	do
		n = read(fd, reply, sizeof(*reply));
	while (n < 0 && errno == EINTR);
	return n == sizeof(*reply);
}

bool compiler_ask(const struct opencl_device *d, const struct arax_backend_kernel *k,
		  const struct blob *source, struct compiled *c)
{
	struct job j = { .r.index = d->index };
	struct reply reply;
	int replies[2] = { -1, -1 };
	bool asked;

	memset(c, 0, sizeof(*c));
	if (door < 0 || pipe2(replies, O_CLOEXEC))
		return false;
	snprintf(j.r.key, sizeof(j.r.key), "%s", d->key);
	snprintf(j.r.file, sizeof(j.r.file), "%s", k->file);
	snprintf(j.r.symbol, sizeof(j.r.symbol), "%s", k->symbol);
	j.fds[0] = put_source(source);
	j.fds[1] = memfd_create("built", MFD_CLOEXEC);
	j.fds[2] = replies[1];
	asked = j.fds[0] >= 0 && j.fds[1] >= 0 && send_job(&j);
	close(replies[1]);
	asked = asked && read_reply(replies[0], &reply);
	close(replies[0]);
	if (asked) {
		c->end = reply.end;
		c->err = reply.err;
		if (c->end.answered && !c->err)
			c->err = read_all(j.fds[1], &c->built);
	}
	for (int i = 0; i < FDS - 1; i++)
		if (j.fds[i] >= 0)
			close(j.fds[i]);
	return asked;
}
