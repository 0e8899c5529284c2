/* SPDX-License-Identifier: MIT */
/*
 * Whether a signal was sent to the process group.  A key's is, a shell's that ends a job, and
 * timeout(1)'s; a supervisor knows of one process alone.  Nothing that comes with a signal tells one
 * from the other, and who is in the group and who sends may be the same in either case.  So a further process
 * of the group has them blocked: what waits there was sent to all.
 */
#include "group.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LATE_NS		20000000	/* members have a signal one after the other */
#define PATIENCE_S	1		/* it may be stopped */

static int line = -1;
static pid_t member;

static void be_member(int fd, pid_t parent)
{
	const struct timespec late = { .tv_nsec = LATE_NS };
	sigset_t all, one;
	int sig;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Keys' that stop a job are for it as well. */
	sigfillset(&all);
	sigdelset(&all, SIGTSTP);
	sigdelset(&all, SIGTTIN);
	sigdelset(&all, SIGTTOU);
	sigprocmask(SIG_SETMASK, &all, NULL);
	while (getppid() == parent && recv(fd, &sig, sizeof(sig), 0) == sizeof(sig)) {
		sigemptyset(&one);
		sigaddset(&one, sig);
		sig = sigtimedwait(&one, NULL, &late) == sig;
		if (send(fd, &sig, sizeof(sig), MSG_NOSIGNAL) != sizeof(sig))
			break;
	}
	_exit(0);
}

void group_watch(void)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return;
	member = fork();
	if (!member) {
		close(fds[0]);
		be_member(fds[1], parent);
	}
	close(fds[1]);
	if (member < 0) {
		close(fds[0]);
		return;
	}
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	line = fds[0];
}

void group_unwatch(void)
{
	if (line < 0)
		return;
	close(line);
	line = -1;
	kill(member, SIGKILL);
	waitpid(member, NULL, 0);
}

bool group_had(int sig)
{
	const struct timespec now = { 0 };
	int had = 0;
	sigset_t one;

	if (line < 0 || send(line, &sig, sizeof(sig), MSG_NOSIGNAL) != sizeof(sig) ||
	    recv(line, &had, sizeof(had), 0) != sizeof(had) || !had)
		return false;
	/* To this process first, and then to all: that is one signal, too. */
	sigemptyset(&one);
	sigaddset(&one, sig);
	sigtimedwait(&one, NULL, &now);
	return true;
}
