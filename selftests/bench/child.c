// SPDX-License-Identifier: MIT
/* Child processes that never outlive this one. */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CHILDREN	128
#define MAX_AFTER	4

static volatile pid_t children[MAX_CHILDREN];
static pid_t owner;
static int here;

int child_here(void)
{
	return here;
}

static void (*after[MAX_AFTER])(void);
static int nr_after;

/* Also called by the handler: kill(), waitpid() and sleeping are all it does. */
static void end_all(void)
{
	int i;

	if (getpid() != owner)
		return;
	for (i = 0; i < MAX_CHILDREN; i++) {
		if (children[i] > 0)
			child_end(children[i]);
	}
	while (nr_after)
		after[--nr_after]();
}

static void on_signal(int sig)
{
	end_all();
	_exit(128 + sig);
}

static void setup(void)
{
	struct sigaction sa;

	if (owner)
		return;
	owner = getpid();
	atexit(end_all);
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_signal;
	/* Not one within the other. */
	sigaddset(&sa.sa_mask, SIGINT);
	sigaddset(&sa.sa_mask, SIGTERM);
	sigaddset(&sa.sa_mask, SIGHUP);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

void child_after(void (*run)(void))
{
	setup();
	if (nr_after < MAX_AFTER)
		after[nr_after++] = run;
}

pid_t child_start(void (*run)(void *arg), void *arg)
{
	pid_t pid;
	int i;

	setup();
	for (i = 0; i < MAX_CHILDREN && children[i] > 0; i++)
		;
	fflush(NULL);
	pid = i < MAX_CHILDREN ? fork() : -1;
	if (pid < 0) {
		fprintf(stderr, "arax-bench: can't fork: %s\n", strerror(errno));
		exit(1);
	}
	if (pid) {
		children[i] = pid;
		return pid;
	}
	here = 1;
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != owner)
		_exit(1);
	run(arg);
	_exit(0);
}

static void forget(pid_t pid)
{
	int i;

	for (i = 0; i < MAX_CHILDREN; i++) {
		if (children[i] == pid)
			children[i] = 0;
	}
}

int child_join(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	forget(pid);
	return status;
}

int child_end(pid_t pid)
{
	return child_end_within(pid, 3);
}

int child_end_within(pid_t pid, int seconds)
{
	int status = -1, i;

	kill(pid, SIGTERM);
	for (i = 0; i < 100 * seconds; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			forget(pid);
			return status;
		}
		usleep(10000);
	}
	kill(pid, SIGKILL);
	return child_join(pid);
}
