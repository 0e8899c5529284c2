// SPDX-License-Identifier: MIT
/*
 * Run a program where Arax can be reached: at the system's daemon, or else at one
 * of our own that lives as long as the program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* As the unit's: an OpenCL compiler may hang for all of compile-seconds, and others be slow. */
#define START_SECONDS	600
#define PATIENCE_SECONDS 3	/* then it is said what is waited for */
#define STOP_SECONDS	5
#define LAST_LINES	4	/* of the log of an araxd that died */
#define MAX_COMPLAINTS	32
#define MAX_KERNELS	16	/* as many as araxd takes */

static volatile sig_atomic_t child;

static void forward(int sig)
{
	if (child > 0)
		kill(child, sig);
}

/* From a keyboard these go to the program as well; where somebody has sent them, to us alone. */
static void forward_sent(int sig, siginfo_t *info, void *context)
{
	if (info->si_code <= 0)
		forward(sig);
}

/*
 * While the private araxd starts: what would end this process waits until it has been noted
 * here, so that nothing is left behind.
 */
static const int endings[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGALRM };
/* These are the program's: they wait until there is one. */
static const int for_program[] = { SIGUSR1, SIGUSR2 };

#define NR_ENDINGS	(sizeof(endings) / sizeof(endings[0]))
#define NR_FOR_PROGRAM	(sizeof(for_program) / sizeof(for_program[0]))

static volatile sig_atomic_t ending;

struct signals {
	struct sigaction child;		/* of SIGCHLD, as it was */
	sigset_t mask;			/* as they were */
	sigset_t starting;		/* as @mask, but without those for the program */
	struct sigaction actions[NR_ENDINGS];
};

static void note_ending(int sig)
{
	ending = sig;
}

static void hold_endings(struct signals *s)
{
	struct sigaction note = { .sa_handler = note_ending };
	sigset_t held;
	size_t i;

	/* Who ignores it, as what has started us may have us do, is not told how a child ends. */
	sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, &s->child);
	sigemptyset(&held);
	for (i = 0; i < NR_ENDINGS; i++) {
		sigaction(endings[i], NULL, &s->actions[i]);
		/* Of nohup, and what a shell leaves running. */
		if (s->actions[i].sa_handler == SIG_IGN)
			continue;
		sigaction(endings[i], &note, NULL);
		sigaddset(&held, endings[i]);
	}
	for (i = 0; i < NR_FOR_PROGRAM; i++)
		sigaddset(&held, for_program[i]);
	sigprocmask(SIG_BLOCK, &held, &s->mask);
	s->starting = s->mask;
	for (i = 0; i < NR_FOR_PROGRAM; i++)
		sigaddset(&s->starting, for_program[i]);
}

static void release_endings(const struct signals *s)
{
	size_t i;

	for (i = 0; i < NR_ENDINGS; i++)
		sigaction(endings[i], &s->actions[i], NULL);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

/* One has come, or waits to. */
static bool is_ending(void)
{
	sigset_t pending;
	size_t i;

	sigpending(&pending);
	for (i = 0; i < NR_ENDINGS && !ending; i++)
		if (sigismember(&pending, endings[i]) == 1)
			ending = endings[i];
	return ending;
}

static void pause_ms(int ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000L };

	nanosleep(&t, NULL);
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

/* Behind what the log's format puts in front: a time, or the level's number. */
static bool is_complaint(const char *line)
{
	if (*line == '<')
		line += strcspn(line, ">") + 1;
	else if (*line >= '0' && *line <= '9')
		line += strcspn(line, " ") + 1;
	return !strncmp(line, "err: ", 5) || !strncmp(line, "warning: ", 9);
}

/* What is wrong shall be seen without --verbose.  From @at, where the next one goes on. */
static void show_complaints(const char *path, long *at)
{
	FILE *f = fopen(path, "re");
	size_t size = 0, shown = 0;
	char *line = NULL;

	if (f && !fseek(f, *at, SEEK_SET)) {
		while (getline(&line, &size, f) > 0)
			if (is_complaint(line) && ++shown <= MAX_COMPLAINTS)
				fprintf(stderr, "araxd: %s", line);
		*at = ftell(f);
	}
	if (shown > MAX_COMPLAINTS)
		fprintf(stderr, "araxd: %zu more; --verbose shows them\n", shown - MAX_COMPLAINTS);
	free(line);
	if (f)
		fclose(f);
}

static void show_last_lines(const char *path)
{
	char *lines[LAST_LINES] = { NULL };
	size_t size[LAST_LINES] = { 0 }, n = 0, i;
	FILE *f = fopen(path, "re");

	while (f && getline(&lines[n % LAST_LINES], &size[n % LAST_LINES], f) > 0)
		n++;
	for (i = n > LAST_LINES ? n - LAST_LINES : 0; i < n; i++)
		fprintf(stderr, "araxd: %s", lines[i % LAST_LINES]);
	for (i = 0; i < LAST_LINES; i++)
		free(lines[i]);
	if (f)
		fclose(f);
}

struct private {
	const char *socket_path;
	const char *log;
	const char *config;	/* or NULL */
	const char *kinds;	/* or NULL */
	const char *kernels[MAX_KERNELS];
	int nr_kernels;
	const char *trace;	/* or NULL */
	bool wanted;		/* even if the system has one */
	bool verbose;
};

static pid_t start_daemon(const struct private *p, const struct signals *s, int ready_fd)
{
	char number[16], *argv[16 + 2 * MAX_KERNELS] = { "araxd", "--user", "--no-kernel", "--socket",
				       (char *)p->socket_path, "--ready-fd", number };
	pid_t parent = getpid(), pid;
	int fd, i, n = 7;

	snprintf(number, sizeof(number), "%d", ready_fd);
	if (p->config) {
		argv[n++] = "--config";
		argv[n++] = (char *)p->config;
	}
	if (p->trace) {
		argv[n++] = "--trace";
		argv[n++] = (char *)p->trace;
	}
	if (p->kinds) {
		argv[n++] = "--kind";
		argv[n++] = (char *)p->kinds;
	}
	for (i = 0; i < p->nr_kernels; i++) {
		argv[n++] = "--kernels";
		argv[n++] = (char *)p->kernels[i];
	}
	pid = fork();

	if (pid)
		return pid;
	/* Outlives a ^C that is meant for the program, but not this process. */
	setpgid(0, 0);
	release_endings(s);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	if (!p->verbose) {
		fd = open(p->log, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
			_exit(EXIT_FAILED);
		/* It is one of the two already if they were closed. */
		if (fd > STDERR_FILENO)
			close(fd);
	} else {
		/* A terminal may stop who writes to it from beside the program (stty tostop). */
		signal(SIGTTOU, SIG_IGN);
	}
	cli_exec(argv[0], argv);
	fprintf(stderr, "araxd, beside arax or in PATH, can't be run: %s\n", strerror(errno));
	_exit(EXIT_FAILED);
}

/* The daemon writes a byte when it serves, and closes the pipe however it ends. */
static bool wait_ready(int fd, const struct signals *s)
{
	const struct timespec patience = { .tv_sec = PATIENCE_SECONDS };
	const struct timespec more = { .tv_sec = START_SECONDS - PATIENCE_SECONDS };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = ppoll(&p, 1, &patience, &s->starting);
	char byte;

	if (!n) {
		fprintf(stderr, "arax: araxd is starting: the first time that it meets a device or new kernels it compiles them, which may take a minute\n");
		n = ppoll(&p, 1, &more, &s->starting);
	}
	return n == 1 && read(fd, &byte, 1) == 1;
}

/* Nobody but us has stopped it. */
static void tell_of_death(int status, const struct private *p)
{
	if (WIFSIGNALED(status))
		fprintf(stderr, "arax: the private araxd died of signal %d (%s)\n", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	else
		fprintf(stderr, "arax: the private araxd ended with exit status %d\n",
			WEXITSTATUS(status));
	if (!p->verbose)
		show_last_lines(p->log);
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM)
		fprintf(stderr, "arax: a kernel whose manifest says \"addressing\": \"launch\" runs in araxd itself, and so does a\n"
			"device's driver; \"addressing\": \"data\" gives a kernel a process of its own, which contains such a crash\n");
}

/* Returns how it ended. */
static int stop_daemon(pid_t pid)
{
	int ms, status = 0;

	kill(pid, SIGTERM);
	for (ms = 0; ms < STOP_SECONDS * 1000; ms += 5) {
		if (waitpid(pid, &status, WNOHANG))
			return status;
		pause_ms(5);
	}
	fprintf(stderr, "arax: the private araxd does not stop: killing it\n");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return 0;
}

/* After the program: it may be gone, or be writing its core still. */
/* False: it had died, and that is told, with the last that it said. */
static bool end_daemon(pid_t pid, const struct private *p)
{
	int status;

	if (waitpid(pid, &status, WNOHANG) == pid) {
		tell_of_death(status, p);
		return false;
	}
	status = stop_daemon(pid);
	if (WIFSIGNALED(status))
		tell_of_death(status, p);
	return !WIFSIGNALED(status);
}

static bool is_ignored(const struct signals *s, int sig)
{
	size_t i;

	for (i = 0; i < NR_ENDINGS && endings[i] != sig; i++)
		;
	return i < NR_ENDINGS && s->actions[i].sa_handler == SIG_IGN;
}

/* Why it can't be run. */
static int exec_failed(const char *program)
{
	/* Standard error may be closed. */
	const int err = errno;

	fprintf(stderr, "arax: %s: %s\n", program, strerror(err));
	return err == ENOENT ? 127 : 126;
}

/* Runs the program as a child.  Returns the exit status to pass on. */
static int run_child(char **argv, const struct signals *s)
{
	static const int passed_on[] = { SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM };
	static const int keys[] = { SIGINT, SIGQUIT };
	struct sigaction handler = { .sa_handler = forward };
	struct sigaction sent = { .sa_sigaction = forward_sent, .sa_flags = SA_SIGINFO };
	pid_t pid, ended;
	int status;
	size_t i;

	pid = fork();
	if (!pid) {
		release_endings(s);
		sigaction(SIGCHLD, &s->child, NULL);
		execvp(argv[0], argv);
		_exit(exec_failed(argv[0]));
	}
	if (pid < 0) {
		perror("arax: fork");
		return EXIT_FAILED;
	}
	child = pid;
	for (i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaction(passed_on[i], &handler, NULL);
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!is_ignored(s, keys[i]))
			sigaction(keys[i], &sent, NULL);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
	while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	child = 0;
	if (ended < 0) {
		perror("arax: waiting for the program");
		return EXIT_FAILED;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* With what the daemon left there: it is ours alone. */
static void remove_folder(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	if (rmdir(path))
		fprintf(stderr, "arax: %s: %s\n", path, strerror(errno));
}

/*
 * Above what the daemon writes its log to, which may be closed here and so be given to the pipe.
 * The daemon has the second.
 */
static bool make_pipe(int ready[2])
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return false;
	ready[0] = fcntl(fds[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	ready[1] = fcntl(fds[1], F_DUPFD, STDERR_FILENO + 1);
	close(fds[0]);
	close(fds[1]);
	return ready[0] >= 0 && ready[1] >= 0;
}

static int run_private(char **argv, struct private *p)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	/* A socket's path has 107 bytes at most. */
	char dir[90], socket_path[108], log[108], value[120];
	int ready[2], ret = EXIT_FAILED;
	struct signals signals;
	long shown = 0;
	pid_t pid;

	if (!base || access(base, W_OK) || strlen(base) > 64)
		base = "/tmp";
	snprintf(dir, sizeof(dir), "%s/arax-run-XXXXXX", base);
	hold_endings(&signals);
	if (!mkdtemp(dir)) {
		fprintf(stderr, "arax: %s: %s\n", dir, strerror(errno));
		return EXIT_FAILED;
	}
	if (!make_pipe(ready)) {
		perror("arax: making a pipe");
		remove_folder(dir);
		return EXIT_FAILED;
	}
	snprintf(socket_path, sizeof(socket_path), "%s/arax.sock", dir);
	snprintf(log, sizeof(log), "%s/araxd.log", dir);
	snprintf(value, sizeof(value), "broker:%s", socket_path);
	p->socket_path = socket_path;
	p->log = log;
	pid = start_daemon(p, &signals, ready[1]);
	close(ready[1]);
	if (pid < 0) {
		perror("arax: fork");
	} else if (!wait_ready(ready[0], &signals) && !is_ending()) {
		fprintf(stderr, "arax: a private araxd did not start:\n");
		show_log(log);
		stop_daemon(pid);
	} else if (is_ending()) {
		stop_daemon(pid);
	} else {
		if (!p->verbose)
			show_complaints(log, &shown);
		setenv("ARAX_LINK", value, 1);
		ret = run_child(argv, &signals);
		if (end_daemon(pid, p) && !p->verbose)
			show_complaints(log, &shown);
	}
	close(ready[0]);
	remove_folder(dir);
	if (ending) {
		release_endings(&signals);
		raise(ending);
	}
	return ret;
}

/*
 * Takes the options in front of the program; *first is then the program's place.
 * Returns -1 to go on, else the exit status.
 */
static int take_options(const struct command *self, int argc, char **argv, struct private *p,
			int *first)
{
	int i, two = 2;

	for (i = 1; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (!strcmp(argv[i], "--private")) {
			p->wanted = true;
		} else if (!strcmp(argv[i], "--verbose")) {
			p->verbose = true;
		} else if (!strcmp(argv[i], "--config")) {
			if (++i == argc)
				return cli_usage(self, "--config: which file?");
			p->config = argv[i];
		} else if (!strcmp(argv[i], "--trace")) {
			if (++i == argc)
				return cli_usage(self, "--trace: which file?");
			p->trace = argv[i];
		} else if (!strcmp(argv[i], "--kind")) {
			if (++i == argc)
				return cli_usage(self, "--kind: which kind of device?");
			p->kinds = argv[i];
		} else if (!strcmp(argv[i], "--kernels")) {
			if (++i == argc)
				return cli_usage(self, "--kernels: which folder?");
			if (p->nr_kernels == MAX_KERNELS)
				return cli_usage(self, "more than %d --kernels", MAX_KERNELS);
			p->kernels[p->nr_kernels++] = argv[i];
		} else {
			return cli_options(self, &two, (char *[]){ argv[0], argv[i], NULL }, NULL);
		}
	}
	if (i >= argc)
		return cli_usage(self, "which program?");
	/* The system's daemon has its own. */
	if (p->config || p->nr_kernels || p->trace || p->kinds)
		p->wanted = true;
	*first = i;
	return -1;
}

enum found {
	FOUND_NOTHING,		/* arax_error_text() says why */
	FOUND_CLOSED,		/* likewise; there is one, which this program can't have */
	FOUND_MODULE,		/* /dev/arax, and no daemon that would run a task */
	FOUND_DAEMON,
};

/* Nobody answers: a module that is gone, or an araxd that has left its socket. */
static bool is_absence(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -ENXIO || err == -ENODEV;
}

/* @link: as in arax_options; ARAX_LINK overrides it. */
static enum found look_for(const char *link)
{
	struct arax_options o = { .size = sizeof(o), .flags = ARAX_OPEN_QUERY, .link = link };
	struct arax_info info = { 0 };
	enum found found = FOUND_CLOSED;
	struct arax *ax;
	int err = arax_open(&ax, &o);

	if (err)
		return is_absence(err) ? FOUND_NOTHING : FOUND_CLOSED;
	if (!arax_get_info(ax, &info))
		found = info.epoch ? FOUND_DAEMON : FOUND_MODULE;
	arax_close(ax);
	return found;
}

/* Sets what leads the program to it. */
static enum found look_for_daemon(bool asked)
{
	enum found found = look_for(NULL);

	if (found != FOUND_MODULE || asked)
		return found;
	/* It may have been loaded under an araxd that serves its socket alone. */
	found = look_for("broker");
	if (found == FOUND_CLOSED)
		return found;
	if (found != FOUND_DAEMON)
		return FOUND_MODULE;
	fprintf(stderr, "arax: no araxd is attached to /dev/arax: taking the one that serves a socket\n");
	setenv("ARAX_LINK", "broker", 1);
	return FOUND_DAEMON;
}

static int run(const struct command *self, int argc, char **argv)
{
	const char *link = getenv("ARAX_LINK");
	bool asked = link && *link;
	struct private p = { 0 };
	enum found found;
	int i = 0, ret;

	ret = take_options(self, argc, argv, &p, &i);
	if (ret >= 0)
		return ret;
	if (p.wanted)
		return run_private(argv + i, &p);
	found = look_for_daemon(asked);
	if (found == FOUND_DAEMON) {
		execvp(argv[i], argv + i);
		return exec_failed(argv[i]);
	}
	/* Whoever asked for a certain Arax doesn't want another one. */
	if (asked && found == FOUND_MODULE) {
		fprintf(stderr, "arax: ARAX_LINK=%s: no araxd is attached to /dev/arax: start it as root,\n"
			"or leave ARAX_LINK out for a private one\n", link);
		return EXIT_FAILED;
	}
	if (asked)
		return cli_fail(NULL);
	/* Another one would have none of the devices that are in use, and none of the limits. */
	if (found == FOUND_CLOSED) {
		fprintf(stderr, "arax: %s\n"
			"arax: not starting a private araxd beside that one: --private does\n",
			arax_error_text());
		return EXIT_FAILED;
	}
	if (found == FOUND_MODULE)
		fprintf(stderr, "arax: no araxd is attached to /dev/arax: starting a private one\n");
	return run_private(argv + i, &p);
}

const struct command cmd_run = {
	.name = "run",
	.args = "[--private] [--verbose] [--config FILE] [--kernels DIR] [--kind KIND] [--trace FILE] [--] PROGRAM [ARGUMENTS]",
	.summary = "run a program with Arax: the system's, or else a private one",
	.help = "  --private      start a private araxd even if the system has one\n"
		"  --verbose      show all that the private araxd prints, not only what is wrong\n"
		"  --config FILE  the private araxd's configuration; implies --private\n"
		"  --kernels DIR  its folder of kernel libraries, instead of the installed ones;\n"
		"                 may be given several times; implies --private\n"
		"  --kind KIND[,KIND...]  only devices of these kinds, such as cpu, opencl,\n"
		"                 cuda, hip or xrt; implies --private\n"
		"  --trace FILE   have it record every task there, for arax trace; implies\n"
		"                 --private\n\n"
		"The exit status is the program's: 128 + the signal that ended it, 126 if it\n"
		"can't be run, 127 if it isn't there, 1 if no araxd could be started.\n",
	.run = run,
};
