// SPDX-License-Identifier: MIT
/*
 * Discovery in a child first: what a driver does there that it had better not (end the
 * process, wait for ever) becomes the reason why its devices are not there, with the driver's name,
 * and araxd starts without it: with the others, if they answer alone, else without OpenCL.  Comes before araxd has threads, and before a driver is in it: they
 * don't survive a fork.
 */
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

#include "daemon/backends/opencl/drivers.h"
#include "daemon/backends/opencl/opencl.h"
#include "daemon/backends/stacks.h"

#define TICK_MS 100
/* For each driver alone, once they have hung together: what answers, answers sooner. */
#define ALONE_SECONDS 10u

/* What the child found out, and what became of it. */
struct trial {
	int found;		/* as of opencl_find() */
	char why[256];
	bool answered;		/* else: */
	bool hung;
	uint32_t seconds;	/* that it had */
	int status;		/* as of waitpid() */
	char said[160];		/* its last line */
};

struct answer {
	int found;
	char why[256];
};

static void try_here(int out, const char *icd)
{
	const struct rlimit no_core = { 0 };
	struct answer a = { 0 };
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	for (int s = 1; s < SIGRTMIN; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (icd)
		setenv("OCL_ICD_VENDORS", icd, 1);
	a.found = opencl_api_open(a.why, sizeof(a.why));
	if (!a.found)
		a.found = opencl_find(a.why, sizeof(a.why));
	_exit(write(out, &a, sizeof(a)) == sizeof(a) ? 0 : 1);
}

/* Keeps the last line that has something in it; nobody asked for the others. */
static void listen_to(struct trial *t, int fd)
{
	char text[512];
	ssize_t n;

	/* What never stops talking is not to keep us from looking at the time. */
	for (int i = 0; i < 64 && (n = read(fd, text, sizeof(text))) > 0; i++)
		for (ssize_t from = 0, to; from < n; from = to + 1) {
			for (to = from; to < n && text[to] != '\n'; to++)
				;
			if (to > from)
				snprintf(t->said, sizeof(t->said), "%.*s", (int)(to - from),
					 text + from);
		}
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Until it has answered, has ended, or has had its time. */
static void attend(struct trial *t, pid_t pid, int answers, int says)
{
	uint64_t until = now_ms() + 1000ull * t->seconds;
	struct pollfd fds[] = {
		{ .fd = answers, .events = POLLIN }, { .fd = says, .events = POLLIN },
	};
	bool ended = false;
	struct answer a;

	while (!t->answered && !ended) {
		ended = waitpid(pid, &t->status, WNOHANG) == pid;
		t->hung = !ended && now_ms() >= until;
		if (t->hung)
			break;
		poll(fds, 2, ended ? 0 : TICK_MS);
		if (fds[1].revents & POLLIN)
			listen_to(t, says);
		else if (fds[1].revents)
			fds[1].fd = -1;
		if (fds[0].revents & POLLIN && read(answers, &a, sizeof(a)) == sizeof(a)) {
			t->found = a.found;
			memcpy(t->why, a.why, sizeof(t->why));
			t->answered = true;
		} else if (fds[0].revents) {
			fds[0].fd = -1;		/* it is about to end */
		}
	}
	if (ended)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, &t->status, 0);
}

/* One @icd alone; NULL: all of them, as the loader finds them. */
static int try_one(struct trial *t, const char *icd, uint32_t seconds)
{
	int answers[2], says[2];
	pid_t pid;

	memset(t, 0, sizeof(*t));
	t->seconds = seconds;
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
		try_here(answers[1], icd);
	}
	close(answers[1]);
	close(says[1]);
	if (pid > 0)
		attend(t, pid, answers[0], says[0]);
	close(answers[0]);
	close(says[0]);
	return pid > 0 ? 0 : -EAGAIN;
}

static void describe(const struct trial *t, char *what, size_t len)
{
	size_t at;

	if (t->hung)
		snprintf(what, len, "did not answer within %u s%s", t->seconds,
			 t->seconds == opencl_options.probe_seconds ? " (option probe-seconds)" : "");
	else if (WIFSIGNALED(t->status))
		snprintf(what, len, "crashed (%s)", strsignal(WTERMSIG(t->status)));
	else
		snprintf(what, len, "ended its process (status %d)", WEXITSTATUS(t->status));
	at = strlen(what);
	if (t->said[0])
		snprintf(what + at, len - at, ", saying \"%s\"", t->said);
}

static uint32_t alone_seconds(void)
{
	uint32_t seconds = opencl_options.probe_seconds;

	return seconds > ALONE_SECONDS ? ALONE_SECONDS : seconds;
}

/*
 * Who it is: each alone, as long as there is more than one to suspect.  @others, of DRIVERS_LEN
 * bytes: those that have answered, if any has not.
 */
static void blame(const struct trial *all, char *why, size_t len, char *others)
{
	char *files[STACK_ICD_MAX], who[160] = "", what[300];
	uint32_t nr = stack_icd_files(files), guilty = 0;
	struct trial t = *all;

	others[0] = '\0';
	for (uint32_t i = 0; i < nr && nr > 1; i++) {
		struct trial one;
		size_t at = strlen(who);

		if (try_one(&one, files[i], alone_seconds()))
			continue;
		if (one.answered) {
			drivers_add(others, files[i]);
			continue;
		}
		snprintf(who + at, sizeof(who) - at, "%s%s", guilty++ ? ", " : "", files[i]);
		t = one;
	}
	describe(&t, what, sizeof(what));
	if (!guilty)
		others[0] = '\0';
	if (!guilty && nr == 1)
		snprintf(who, sizeof(who), "%s", files[0]);
	else if (!guilty && nr)
		stack_icds(who, sizeof(who));
	snprintf(why, len, "%s%s %s while araxd looked for its devices: remove it, or name others in OCL_ICD_VENDORS",
		 nr == 1 || guilty ? "OpenCL driver " : nr ? "one of the OpenCL drivers " :
						"the OpenCL loader libOpenCL.so.1",
		 who, what);
	while (nr)
		free(files[--nr]);
}

static char folder[] = "/tmp/arax-icd-XXXXXX";
static bool made;

/* Once more together, as that is how they will be opened. */
static int go_on_with(const char *others)
{
	const char *before = getenv("OCL_ICD_VENDORS");
	char *was = before ? strdup(before) : NULL;
	struct trial t;
	int err = -ENODEV;

	if (before && !was)
		return -ENOMEM;
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	made = mkdtemp(folder);
	if (made && !drivers_only(others, folder) && !try_one(&t, NULL, alone_seconds()) &&
	    t.answered && t.found > 0)
		err = setenv(DRIVERS_VARIABLE, others, 1) ? -errno : 0;
	if (err && was)
		setenv("OCL_ICD_VENDORS", was, 1);
	else if (err)
		unsetenv("OCL_ICD_VENDORS");
	if (err)
		opencl_try_forget();
	free(was);
	return err;
}

void opencl_try_forget(void)
{
	if (made)
		drivers_remove(folder);
	made = false;
}

int opencl_try(char *why, size_t len)
{
	char others[DRIVERS_LEN];
	struct trial t;

	why[0] = '\0';
	unsetenv(DRIVERS_VARIABLE);
	if (opencl_api_is_open() || try_one(&t, NULL, opencl_options.probe_seconds))
		return 0;
	if (!t.answered) {
		blame(&t, why, len, others);
		return others[0] ? go_on_with(others) : -ENODEV;
	}
	if (t.found > 0)
		return 0;
	snprintf(why, len, "%s", t.why);
	return t.found ? t.found : -ENODEV;
}
