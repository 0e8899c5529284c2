// SPDX-License-Identifier: MIT
#include "daemon/backends/opencl/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/backends/opencl/opencl.h"

#define TICK_MS 100
#define REST_LOOKS 1000	/* a millisecond apart or more: one may hang in the kernel */
#define ALONE_MAX 1024	/* bytes of an answer */

void child_signals(void)
{
	sigset_t none;

	for (int s = 1; s < SIGRTMIN; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Where memory is short: the unit keeps araxd for the last, and so it would us. */
static void go_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "500", 3);
	close(fd);
}

static void work_here(const struct child *c, pid_t parent, int out)
{
	const struct rlimit no_core = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setpgid(0, 0);	/* that what it starts, a linker say, goes with it */
	setrlimit(RLIMIT_CORE, &no_core);
	go_first();
	child_signals();
	c->work(c->arg, c->answer);
	_exit(write(out, c->answer, c->len) == (ssize_t)c->len ? 0 : 1);
}

/* A compiler that gives up says why, and then prints its stack. */
static bool tells_why(const char *line)
{
	return strstr(line, "Assertion") || strstr(line, "LLVM ERROR");
}

/* Keeps that line, else the last one that has something in it; nobody asked for the others. */
static void listen_to(struct child_end *e, int fd)
{
	char text[512];
	ssize_t n;

	/* What never stops talking is not to keep us from looking at the time. */
	for (int i = 0; i < 64 && (n = read(fd, text, sizeof(text) - 1)) > 0; i++) {
		char *line, *state;

		text[n] = '\0';
		for (line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
			if (!tells_why(e->said))
				snprintf(e->said, sizeof(e->said), "%s", line);
	}
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* It stays a zombie: nobody else has its number, nor that of its group. */
static bool has_ended(pid_t pid)
{
	siginfo_t si = { 0 };

	return !waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) && si.si_pid == pid;
}

/* Until it has answered, has ended, or has had its time. */
static void attend(const struct child *c, struct child_end *e, pid_t pid, int answers, int says)
{
	uint64_t until = now_ms() + 1000ull * e->seconds;
	struct pollfd fds[] = {
		{ .fd = answers, .events = POLLIN }, { .fd = says, .events = POLLIN },
	};
	bool ended = false;

	while (!e->answered && !ended) {
		ended = has_ended(pid);
		e->hung = !ended && now_ms() >= until;
		if (e->hung)
			break;
		poll(fds, 2, ended ? 0 : TICK_MS);
		if (fds[1].revents & POLLIN)
			listen_to(e, says);
		else if (fds[1].revents)
			fds[1].fd = -1;
		if (fds[0].revents & POLLIN && read(answers, c->answer, c->len) == (ssize_t)c->len)
			e->answered = true;
		else if (fds[0].revents)
			fds[0].fd = -1;		/* it is about to end */
	}
	kill(pid, SIGKILL);
	kill(-pid, SIGKILL);	/* what it has started */
	waitpid(pid, &e->status, 0);
}

int child_run(const struct child *c, struct child_end *e)
{
	int answers[2], says[2];
	pid_t pid, us = getpid();

	memset(e, 0, sizeof(*e));
	e->seconds = c->seconds;
	if (pipe2(answers, O_CLOEXEC))
		return -errno;
	if (pipe2(says, O_CLOEXEC) || fcntl(says[0], F_SETFL, O_NONBLOCK)) {
		close(answers[0]);
		close(answers[1]);
		return -EMFILE;
	}
	fflush(NULL);
	pid = fork();
	if (!pid) {
		opencl_say_nothing();
		dup2(says[1], STDOUT_FILENO);
		dup2(says[1], STDERR_FILENO);
		work_here(c, us, answers[1]);
	}
	close(answers[1]);
	close(says[1]);
	if (pid > 0)
		attend(c, e, pid, answers[0], says[0]);
	close(answers[0]);
	close(says[0]);
	return pid > 0 ? 0 : -EAGAIN;
}

static pid_t parent_of(const char *pid)
{
	char path[300], text[128] = "", *name_end;
	int fd, parent = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	/* PID (NAME) STATE PARENT, and any character may be in the name. */
	text[n > 0 ? n : 0] = '\0';
	name_end = strrchr(text, ')');
	return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static bool is_of(pid_t pid, const pid_t *of, size_t nr)
{
	while (nr && of[nr - 1] != pid)
		nr--;
	return nr;
}

bool child_end_others(const pid_t *but, size_t nr)
{
	DIR *d = opendir("/proc");
	const pid_t us = getpid();
	struct dirent *e;

	if (!d)
		return false;
	/* Nobody else reaps them: no number is another one's by now. */
	while ((e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && parent_of(e->d_name) == us &&
		    !is_of(atoi(e->d_name), but, nr))
			kill(atoi(e->d_name), SIGKILL);
	closedir(d);
	return true;
}

void child_end_rest(void)
{
	for (int looks = 0; looks < REST_LOOKS; looks++) {
		pid_t pid;

		do
			pid = waitpid(-1, NULL, WNOHANG);
		while (pid > 0);
		if (pid < 0 || !child_end_others(NULL, 0))
			return;
		usleep(1000);
	}
}

/* What is told of child_run() by who is between. */
struct told {
	struct child_end end;
	int err;
	char answer[ALONE_MAX];
};

static void be_between(const struct child *c, pid_t parent, int out)
{
	struct told told = { .err = 0 };
	struct child own = *c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	own.answer = told.answer;
	told.err = child_run(&own, &told.end);
	child_end_rest();
	_exit(write(out, &told, sizeof(told)) == sizeof(told) ? 0 : 1);
}

int child_run_alone(const struct child *c, struct child_end *e)
{
	pid_t pid, us = getpid();
	struct told told;
	int tells[2];
	ssize_t n;

	if (c->len > ALONE_MAX)
		return -EINVAL;
	/* What it leaves if it is ended itself may have the other end: that is no end of the pipe. */
	if (pipe2(tells, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	memset(e, 0, sizeof(*e));
	e->seconds = c->seconds;
	fflush(NULL);
	pid = fork();
	if (!pid)
		be_between(c, us, tells[1]);
	while (pid > 0 && waitpid(pid, &e->status, 0) < 0 && errno == EINTR)
		;
	n = read(tells[0], &told, sizeof(told));
	close(tells[0]);
	close(tells[1]);
	if (pid < 0)
		return -EAGAIN;
	if (n != sizeof(told))
		return 0;
	*e = told.end;
	memcpy(c->answer, told.answer, c->len);
	return told.err;
}

void child_describe(const struct child_end *e, const char *option, char *what, size_t len)
{
	size_t at;

	if (e->hung)
		snprintf(what, len, "did not answer within %u s%s", e->seconds, option);
	else if (WIFSIGNALED(e->status))
		snprintf(what, len, "crashed (%s)", strsignal(WTERMSIG(e->status)));
	else
		snprintf(what, len, "ended its process (status %d)", WEXITSTATUS(e->status));
	at = strlen(what);
	if (e->said[0])
		snprintf(what + at, len - at, ", saying \"%s\"", e->said);
}
