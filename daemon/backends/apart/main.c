// SPDX-License-Identifier: MIT
/*
 * arax-device: drives one GPU for araxd, in whose process its driver is broken (apart.h).
 *
 * araxd starts it (helper.c) with the descriptors of proto.h.  It has araxd's rights, believes
 * it, and ends when it does.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/backends/apart/serve.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"

static void *serve(void *arg)
{
	struct slot *s = arg;
	uint32_t seen = 0;

	for (;;) {
		slot_await(s, &seen);
		serve_call(s);
		slot_answer(s, seen);
	}
	return NULL;
}

/* A thread for each channel: as many as araxd has that call at the same time. */
static void add_channel(int fd)
{
	struct slot *s = slot_map(fd);
	pthread_attr_t attr;
	pthread_t thread;

	close(fd);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (!s || pthread_create(&thread, &attr, serve, s))
		_exit(APART_EXIT_SHORT);
	pthread_attr_destroy(&attr);
}

/* The next message and its descriptor, -1: there was no place for it.  False: araxd has closed its end. */
static bool receive(struct apart_fd *msg, int *fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { msg, sizeof(*msg) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	const struct cmsghdr *c;
	ssize_t n;

	do {
		n = recvmsg(APART_FD_SOCKET, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	c = CMSG_FIRSTHDR(&m);
	*fd = -1;
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n == sizeof(*msg);
}

int main(int argc, char **argv)
{
	static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE };
	struct apart_fd msg;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "arax-device is started by araxd\n");
		return 2;
	}
	prctl(PR_SET_NAME, "arax-device");
	/* A service manager asks all of a service's processes to end: araxd has tasks to finish. */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	log_init(APART_FD_LOG, (enum log_level)atoi(argv[1]), (enum log_format)atoi(argv[2]));
	if (guard_init())
		return 1;
	while (receive(&msg, &fd)) {
		if (msg.version != APART_VERSION) {
			log_err("arax-device is of another build", log_u64("version", APART_VERSION),
				log_u64("wanted", msg.version));
			_exit(1);
		}
		if (fd < 0)
			_exit(APART_EXIT_SHORT);
		if (msg.kind == APART_FD_CHANNEL)
			add_channel(fd);
		else
			serve_fd(msg.id, fd);
	}
	/* Without ado: its threads use all that there is. */
	_exit(0);
}
