// SPDX-License-Identifier: MIT
/*
 * Runs the registered tests, each in a child with a deadline.
 * usage: PROGRAM [--list] [NAME...]
 * TAP_UID=N in the environment: become that user and group first;
 * TAP_SECONDS=N: a test's deadline.
 */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS	120	/* an emulated machine is slow; a hang is still a failure */
#define SKIPPED	77
#define FAILED	1

static int seconds = SECONDS;
static struct test *first, **last = &first;
static int skip_pipe = -1;

void tap_register(struct test *test)
{
	*last = test;
	last = &test->next;
}

void tap_skip(const char *reason)
{
	if (write(skip_pipe, reason, strlen(reason)) < 0)
		_exit(FAILED);
	_exit(SKIPPED);
}

void tap_fail(const char *file, int line, const char *what, long long a, long long b)
{
	printf("# %s:%d: %s", file, line, what);
	if (a || b)
		printf(" (%lld, %lld)", a, b);
	printf("\n");
	fflush(stdout);
	_exit(FAILED);
}

static int run_one(const struct test *t, int number)
{
	char reason[256] = "";
	int fds[2], status = 0, i;
	pid_t pid;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC))
		return 1;
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		skip_pipe = fds[1];
		t->run();
		fflush(stdout);
		_exit(0);
	}
	close(fds[1]);
	for (i = 0; i < seconds * 100; i++) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			break;
		usleep(10000);
	}
	if (i == seconds * 100) {
		printf("# %s: still running after %d s\n", t->name, seconds);
		kill(-pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	kill(-pid, SIGKILL);	/* what the test left behind */
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		ssize_t n = read(fds[0], reason, sizeof(reason) - 1);

		printf("ok %d %s # SKIP %s\n", number, t->name, n > 0 ? reason : "");
		close(fds[0]);
		return 0;
	}
	close(fds[0]);
	if (WIFSIGNALED(status))
		printf("# %s: killed by signal %d\n", t->name, WTERMSIG(status));
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		printf("ok %d %s\n", number, t->name);
		return 0;
	}
	printf("not ok %d %s\n", number, t->name);
	return 1;
}

static int wanted(const struct test *t, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], t->name))
			return 1;
	return argc < 2;
}

static int become(const char *uid)
{
	unsigned int id;

	if (!uid)
		return 0;
	id = (unsigned int)strtoul(uid, NULL, 10);
	if (!setgroups(0, NULL) && !setresgid(id, id, id) && !setresuid(id, id, id))
		return 0;
	perror("TAP_UID");
	return -1;
}

int main(int argc, char **argv)
{
	const struct test *t;
	int n = 0, failed = 0;

	if (become(getenv("TAP_UID")))
		return 1;

	if (getenv("TAP_SECONDS"))
		seconds = atoi(getenv("TAP_SECONDS"));
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (t = first; t; t = t->next)
		n += wanted(t, argc, argv);
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (t = first; t; t = t->next)
			printf("%s\n", t->name);
		return 0;
	}
	printf("TAP version 13\n1..%d\n", n);
	for (n = 0, t = first; t; t = t->next)
		if (wanted(t, argc, argv))
			failed += run_one(t, ++n);
	return failed ? 1 : 0;
}
