// SPDX-License-Identifier: MIT
/*
 * Run a program where Arax can be reached: at the system's daemon, or else at one
 * of our own that lives as long as the program.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define START_SECONDS	20
#define STOP_SECONDS	5

static volatile sig_atomic_t child;

static void forward(int sig)
{
	if (child > 0)
		kill(child, sig);
}

static void pause_ms(int ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000L };

	nanosleep(&t, NULL);
}

static bool can_connect(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool ok;

	memcpy(addr.sun_path, path, strnlen(path, sizeof(addr.sun_path) - 1));
	ok = fd >= 0 && !connect(fd, (struct sockaddr *)&addr, sizeof(addr));
	if (fd >= 0)
		close(fd);
	return ok;
}

static void show_log(const char *path)
{
	char buf[4096];
	FILE *f = fopen(path, "re");
	size_t n;

	while (f && (n = fread(buf, 1, sizeof(buf), f)))
		fwrite(buf, 1, n, stderr);
	if (f)
		fclose(f);
}

static pid_t start_daemon(const char *socket_path, const char *log, bool verbose)
{
	char *argv[] = { "araxd", "--user", "--socket", (char *)socket_path, NULL };
	pid_t parent = getpid(), pid = fork();
	int fd;

	if (pid)
		return pid;
	/* Outlives a ^C that is meant for the program, but not this process. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	if (!verbose) {
		fd = open(log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
			_exit(EXIT_FAILED);
	}
	cli_exec(argv[0], argv);
	fprintf(stderr, "araxd: %s\n", strerror(errno));
	_exit(EXIT_FAILED);
}

/* Sets *pid to 0 if it has ended by itself. */
static bool wait_ready(pid_t *pid, const char *socket_path)
{
	int ms, status;

	for (ms = 0; ms < START_SECONDS * 1000; ms += 10) {
		if (can_connect(socket_path))
			return true;
		if (waitpid(*pid, &status, WNOHANG) == *pid) {
			*pid = 0;
			return false;
		}
		pause_ms(10);
	}
	return false;
}

static void stop_daemon(pid_t pid)
{
	int ms, status;

	if (!pid)
		return;
	kill(pid, SIGTERM);
	for (ms = 0; ms < STOP_SECONDS * 1000; ms += 5) {
		if (waitpid(pid, &status, WNOHANG))
			return;
		pause_ms(5);
	}
	fprintf(stderr, "arax: the private araxd does not stop: killing it\n");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* Runs the program as a child.  Returns the exit status to pass on. */
static int run_child(char **argv)
{
	static const int passed_on[] = { SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	struct sigaction handler = { .sa_handler = forward };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction old_int, old_quit;
	int status;
	size_t i;
	pid_t pid;

	/* From the keyboard, these go to the program as well. */
	sigaction(SIGINT, &ignore, &old_int);
	sigaction(SIGQUIT, &ignore, &old_quit);
	pid = fork();
	if (!pid) {
		sigaction(SIGINT, &old_int, NULL);
		sigaction(SIGQUIT, &old_quit, NULL);
		execvp(argv[0], argv);
		fprintf(stderr, "arax: %s: %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	if (pid < 0) {
		perror("arax: fork");
		return EXIT_FAILED;
	}
	child = pid;
	for (i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaction(passed_on[i], &handler, NULL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	child = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_private(char **argv, bool verbose)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	/* A socket's path has 107 bytes at most. */
	char dir[90], socket_path[108], log[108], value[120];
	int ret = EXIT_FAILED;
	pid_t pid;

	if (!base || access(base, W_OK) || strlen(base) > 64)
		base = "/tmp";
	snprintf(dir, sizeof(dir), "%s/arax-run-XXXXXX", base);
	if (!mkdtemp(dir)) {
		perror(dir);
		return EXIT_FAILED;
	}
	snprintf(socket_path, sizeof(socket_path), "%s/arax.sock", dir);
	snprintf(log, sizeof(log), "%s/araxd.log", dir);
	snprintf(value, sizeof(value), "broker:%s", socket_path);
	pid = start_daemon(socket_path, log, verbose);
	if (pid < 0) {
		perror("arax: fork");
	} else if (!wait_ready(&pid, socket_path)) {
		fprintf(stderr, "arax: a private araxd did not start:\n");
		show_log(log);
		stop_daemon(pid);
	} else {
		setenv("ARAX_LINK", value, 1);
		ret = run_child(argv);
		stop_daemon(pid);
	}
	unlink(socket_path);
	unlink(log);
	rmdir(dir);
	return ret;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct arax_options o = { .size = sizeof(o), .flags = ARAX_OPEN_QUERY };
	bool private = false, verbose = false, json;
	struct arax *ax;
	int i, one = 2;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (!strcmp(argv[i], "--private"))
			private = true;
		else if (!strcmp(argv[i], "--verbose"))
			verbose = true;
		else
			return cli_options(self, &one, (char *[]){ argv[0], argv[i], NULL }, &json);
	}
	if (i >= argc)
		return cli_usage(self, "which program?");
	if (!private && !arax_open(&ax, &o)) {
		arax_close(ax);
		execvp(argv[i], argv + i);
		fprintf(stderr, "arax: %s: %s\n", argv[i], strerror(errno));
		return errno == ENOENT ? 127 : 126;
	}
	/* Whoever asked for a certain Arax doesn't want another one. */
	if (!private && getenv("ARAX_LINK") && *getenv("ARAX_LINK"))
		return cli_fail(NULL);
	return run_private(argv + i, verbose);
}

const struct command cmd_run = {
	.name = "run",
	.args = "[--private] [--verbose] [--] PROGRAM [ARGUMENTS]",
	.summary = "run a program with Arax: the system's, or else a private one",
	.help = "  --private  start a private araxd even if the system has one\n"
		"  --verbose  show what the private araxd prints\n\n"
		"The exit status is the program's: 128 + the signal that ended it, 126 if it\n"
		"can't be run, 127 if it isn't there, 1 if no araxd could be started.\n",
	.run = run,
};
