// SPDX-License-Identifier: MIT
/*
 * PID 1 of the guests that scripts/qemu-run boots.
 *
 * Mounts what tests need, loads the modules listed in /etc/arax-modules, runs
 * the commands of /etc/arax-tests, and reports on the virtio-serial port named
 * "arax.result", never on the console, which anything in the guest can write:
 *
 *	H arax-result 1 <kernel release>
 *	C <n> <command>			a command starts
 *	O <line>			a line of its output
 *	K <line>			the kernel complained
 *	R <n> <how> ok=<n> notok=<n> skip=<n> ms=<n>	it ended; how: "exit=0", "signal=9", ...
 *	F <reason>			something besides the commands failed
 *	T <token> commands= failed= ok= notok= skip= faults=
 *
 * The token is in a file of the initramfs that is gone before a test starts,
 * and the port can be opened only once, so a test can't write the last line.
 *
 * The pattern is WireGuard's src/tests/qemu/init.c.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define TESTS		"/etc/arax-tests"
#define EARLY_MODULES	"/etc/arax-modules-early"
#define MODULES		"/etc/arax-modules"
#define TOKEN		"/etc/arax-token"
#define OUT		"/etc/arax-out"
#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
#define KSFT_SKIP	4
#define PATIENCE_MS	60000	/* with what comes at once on a machine that is not slow */

static int result = -1;		/* the port */
static int kmsg = -1;
static char cmdline[4096];
static char token[128];

static char loaded_at[1024];	/* to read addresses by, once the module is gone */

static unsigned int commands, failed, total_ok, total_notok, total_skip, faults;

struct lines {
	char buf[8192];
	size_t len;
	bool long_line;		/* the rest of an over-long line is coming */
};

struct run {
	unsigned int ok, notok, skip, planned, plans;
	bool bailed;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

static void write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (w <= 0)
			return;
		p += w;
		n -= w;
	}
}

/* One line to the result port; the caller leaves no newline in it. */
static void report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void report(const char *fmt, ...)
{
	static char line[sizeof(((struct lines *)0)->buf) + 512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (result >= 0)
		write_all(result, line, n);
	write_all(STDOUT_FILENO, line, n);
}

static void fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void fault(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	faults++;
	report("F %s", text);
}

static void leave(void) __attribute__((noreturn));
static void leave(void)
{
	sync();
	tcdrain(STDOUT_FILENO);
	/* qemu runs with -no-reboot, so this ends it, ACPI or not. */
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

static ssize_t read_file(const char *path, char *buf, size_t size)
{
	size_t n = 0;
	ssize_t r;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while (n < size - 1 && (r = read(fd, buf + n, size - 1 - n)) > 0)
		n += r;
	close(fd);
	buf[n] = '\0';
	return n;
}

static int write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text), w;
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	w = write(fd, text, len);
	close(fd);
	return w == len ? 0 : -1;
}

/* The value of NAME= on the kernel's command line, or NULL. */
static const char *option(const char *name)
{
	static char value[256];
	size_t len = strlen(name);
	const char *p = cmdline;

	while ((p = strstr(p, name))) {
		if ((p == cmdline || p[-1] == ' ') && p[len] == '=') {
			size_t n = strcspn(p + len + 1, " \n");

			if (n >= sizeof(value))
				n = sizeof(value) - 1;
			memcpy(value, p + len + 1, n);
			value[n] = '\0';
			return value;
		}
		p += len;
	}
	return NULL;
}

static void try_mount(const char *type, const char *dir, const char *opts, bool must)
{
	mkdir(dir, 0755);
	if (mount(type, dir, type, MS_NOSUID, opts) && errno != EBUSY && must)
		fault("mount %s on %s: %m", type, dir);
}

static void mount_all(void)
{
	static const char *const controllers[] = { "+memory", "+pids", "+cpu", "+cpuset" };

	try_mount("proc", "/proc", NULL, true);
	try_mount("sysfs", "/sys", NULL, true);
	try_mount("devtmpfs", "/dev", NULL, true);
	mkdir("/dev/shm", 01777);
	try_mount("tmpfs", "/dev/shm", "mode=1777", true);
	try_mount("devpts", "/dev/pts", "mode=620,ptmxmode=666", false);
	try_mount("tmpfs", "/tmp", "mode=1777", true);
	try_mount("tmpfs", "/run", "mode=0755", true);
	try_mount("cgroup2", "/sys/fs/cgroup", NULL, true);
	try_mount("debugfs", "/sys/kernel/debug", NULL, true);
	try_mount("tracefs", "/sys/kernel/tracing", NULL, false);
	for (size_t i = 0; i < sizeof(controllers) / sizeof(*controllers); i++)
		write_file("/sys/fs/cgroup/cgroup.subtree_control", controllers[i]);
	if (symlink("/proc/self/fd", "/dev/fd") || symlink("fd/0", "/dev/stdin") ||
	    symlink("fd/1", "/dev/stdout") || symlink("fd/2", "/dev/stderr"))
		fputs("init: no /dev/fd\n", stderr);	/* only a convenience */
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;		/* a kernel without IP */
	ioctl(fd, SIOCSIFFLAGS, &ifr);
	close(fd);
}

/* "PATH[ PARAM...]" a line */
static void load_modules(const char *list)
{
	char line[1024];
	FILE *f = fopen(list, "re");

	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		char *params;
		int fd;

		line[strcspn(line, "\n")] = '\0';
		params = line + strcspn(line, " ");
		if (*params)
			*params++ = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || syscall(SYS_finit_module, fd, params, 0))
			fault("insmod %s: %m", line);
		if (fd >= 0)
			close(fd);
	}
	fclose(f);
}

/* Unload in the reverse order; a module that is still in use is a leak. */
/*
 * Start the CPUs that maxcpus= held back.  An emulator may lose a race between
 * one CPU that remaps device memory, as loading a PCI driver does, and another
 * that runs: so they come after the drivers.
 */
static void start_cpus(void)
{
	char path[64], state[4];
	unsigned int cpu;

	for (cpu = 1; cpu < 256; cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
		if (read_file(path, state, sizeof(state)) < 0)
			return;
		if (state[0] == '0' && write_file(path, "1"))
			fault("cpu%u does not start: %m", cpu);
	}
}

static void unload_modules(const char *list)
{
	char names[16][64];
	char line[1024];
	int n = 0;
	FILE *f = fopen(list, "re");

	if (!f)
		return;
	while (n < 16 && fgets(line, sizeof(line), f)) {
		char *base, *p;

		line[strcspn(line, " \n")] = '\0';
		base = strrchr(line, '/');
		base = base ? base + 1 : line;
		base[strcspn(base, ".")] = '\0';
		for (p = base; *p; p++)
			if (*p == '-')
				*p = '_';
		snprintf(names[n++], sizeof(names[0]), "%.63s", base);
	}
	fclose(f);

	while (n--) {
		uint64_t end = now_ms() + PATIENCE_MS;
		char path[128], text[64];
		size_t used = strlen(loaded_at);
		int err;

		snprintf(path, sizeof(path), "/sys/module/%s/sections/.text", names[n]);
		if (read_file(path, text, sizeof(text)) > 0) {
			text[strcspn(text, "\n")] = '\0';
			snprintf(loaded_at + used, sizeof(loaded_at) - used, " %s=%s", names[n],
				 text);
		}

		while ((err = syscall(SYS_delete_module, names[n], O_NONBLOCK) ? errno : 0)) {
			if ((err != EAGAIN && err != EBUSY && err != EWOULDBLOCK) ||
			    now_ms() > end)
				break;
			usleep(50000);
		}
		if (err && err != ENOENT)
			fault("rmmod %s: %s (references left behind?)", names[n], strerror(err));
	}
}

/* The virtio-serial port of that name: /sys/class/virtio-ports/<dev>/name */
static int open_port(const char *name, int flags)
{
	char path[384], got[64];
	struct dirent *e;
	uint64_t end = now_ms() + PATIENCE_MS;
	int fd = -1;

	do {
		DIR *d = opendir("/sys/class/virtio-ports");

		while (d && fd < 0 && (e = readdir(d))) {
			if (e->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name",
				 e->d_name);
			if (read_file(path, got, sizeof(got)) <= 0)
				continue;
			got[strcspn(got, "\n")] = '\0';
			if (strcmp(got, name))
				continue;
			snprintf(path, sizeof(path), "/dev/%s", e->d_name);
			fd = open(path, flags | O_CLOEXEC);
		}
		if (d)
			closedir(d);
		if (fd < 0)
			usleep(20000);
	} while (fd < 0 && now_ms() < end);
	return fd;
}

/* Feed N bytes; call FN for each whole line. */
static void feed(struct lines *l, const char *p, size_t n, void (*fn)(void *, char *), void *arg)
{
	for (; n; p++, n--) {
		if (*p != '\n' && l->len < sizeof(l->buf) - 1) {
			if (*p && *p != '\r')
				l->buf[l->len++] = *p;
			continue;
		}
		l->buf[l->len] = '\0';
		if (!l->long_line || l->len)
			fn(arg, l->buf);
		l->long_line = *p != '\n';
		l->len = 0;
		if (l->long_line && *p)
			l->buf[l->len++] = *p;
	}
}

static bool has_directive(const char *line, const char *word)
{
	const char *hash = strchr(line, '#');

	while (hash) {
		const char *p = hash + 1 + strspn(hash + 1, " \t");

		if (!strncasecmp(p, word, strlen(word)))
			return true;
		hash = strchr(hash + 1, '#');
	}
	return false;
}

static bool tap_word(const char *line, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(line, word, n) && (!line[n] || line[n] == ' ');
}

static void one_line(void *arg, char *line)
{
	struct run *r = arg;
	unsigned int n;
	int end = 0;

	report("O %s", line);
	if (tap_word(line, "ok")) {
		if (has_directive(line, "skip"))
			r->skip++;
		else
			r->ok++;
	} else if (tap_word(line, "not ok")) {
		if (has_directive(line, "todo") || has_directive(line, "skip"))
			r->skip++;
		else
			r->notok++;
	} else if (sscanf(line, "1..%u%n", &n, &end) == 1 && end) {
		if (!n && has_directive(line, "skip"))
			r->skip++;
		else
			r->planned += n, r->plans++;
	} else if (!strncmp(line, "Bail out!", 9)) {
		r->bailed = true;
	}
}

/*
 * panic_on_warn sees WARN() and KASAN; lockdep, the RCU checks and the hung
 * task detector only print.
 */
static bool is_complaint(const char *text)
{
	static const char *const bad[] = {
		"BUG: ", "WARNING: ", "KASAN: ", "UBSAN: ", "ODEBUG: ", "Oops", "refcount_t: ",
		"kernel BUG at", "general protection fault", "suspicious RCU usage",
		"possible circular locking", "possible recursive locking",
		"inconsistent lock state", "locking dependency detected",
		"sleeping function called", "scheduling while atomic",
		"turning off the locking correctness validator",
		"blocked for more than", "self-detected stall", "detected stalls",
		"list_add corruption", "list_del corruption", "Bad page state",
		"Bad page map", "bad: scheduling", "possible memory leak",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (strstr(text, bad[i]))
			return true;
	return false;
}

static void read_kmsg(void)
{
	char rec[8192];
	ssize_t n;

	if (kmsg < 0)
		return;
	for (;;) {
		unsigned int prio;
		char *text;

		n = read(kmsg, rec, sizeof(rec) - 1);
		if (n < 0 && errno == EPIPE)
			continue;	/* overrun: go on with the oldest */
		if (n <= 0)
			return;
		rec[n] = '\0';
		text = strchr(rec, ';');
		/* A facility other than 0 was written by a program. */
		if (!text || sscanf(rec, "%u", &prio) != 1 || prio >> 3)
			continue;
		text++;
		text[strcspn(text, "\n")] = '\0';
		if (is_complaint(text)) {
			faults++;
			report("K %s", text);
		}
	}
}

static pid_t spawn(char *const argv[], int out)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setsid();
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int null = open("/dev/null", O_RDONLY);

	dup2(null, 0);
	dup2(out, 1);
	dup2(out, 2);
	/* The standard signals as a program expects them. */
	signal(SIGPIPE, SIG_DFL);
	execv(argv[0], argv);
	dprintf(2, "exec %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static void dump_stack_of(pid_t pid)
{
	char path[64], buf[4096];
	char *save, *line;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	if (read_file(path, buf, sizeof(buf)) <= 0)
		return;
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		report("O # stack: %s", line);
}

static void run_command(unsigned int n, char *command, unsigned int seconds, int sigs)
{
	char *argv[] = { "/bin/busybox", "sh", "-c", command, NULL };
	static struct lines lines;
	struct run run = { 0 };
	uint64_t start = now_ms(), deadline = start + seconds * 1000ull;
	char how[64] = "", buf[4096];
	bool killed = false, gone = false, bad;
	int status = 0, out[2];
	ssize_t got;
	pid_t pid;

	lines = (struct lines){ 0 };
	report("C %u %s", n, command);
	if (pipe2(out, O_CLOEXEC)) {
		fault("pipe: %m");
		return;
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	pid = spawn(argv, out[1]);
	close(out[1]);
	if (pid < 0) {
		fault("fork: %m");
		close(out[0]);
		return;
	}

	while (!gone) {
		struct pollfd p[] = {
			{ .fd = out[0], .events = POLLIN },
			{ .fd = sigs, .events = POLLIN },
			{ .fd = kmsg, .events = POLLIN },
		};
		uint64_t now = now_ms();
		struct signalfd_siginfo si;
		pid_t dead;
		int st;

		poll(p, 3, now < deadline ? (int)(deadline - now) : 0);
		while ((got = read(out[0], buf, sizeof(buf))) > 0)
			feed(&lines, buf, got, one_line, &run);
		if (!got) {		/* end of file, but it may run on */
			close(out[0]);
			out[0] = -1;
		}
		got = read(sigs, &si, sizeof(si));	/* waitpid says the rest */
		read_kmsg();
		while ((dead = waitpid(-1, &st, WNOHANG)) > 0)
			if (dead == pid) {
				status = st;
				gone = true;
			}
		if (gone || now_ms() < deadline)
			continue;
		if (killed) {
			dump_stack_of(pid);
			fault("command %u does not die; giving up", n);
			report("R %u stuck ok=%u notok=%u skip=%u ms=%u", n, run.ok, run.notok,
			       run.skip, (unsigned int)(now_ms() - start));
			failed++;
			leave();
		}
		dump_stack_of(pid);
		killed = true;
		kill(-1, SIGKILL);
		deadline = now_ms() + PATIENCE_MS;
	}
	if (out[0] >= 0) {
		while ((got = read(out[0], buf, sizeof(buf))) > 0)
			feed(&lines, buf, got, one_line, &run);
		close(out[0]);
	}
	if (lines.len)
		feed(&lines, "\n", 1, one_line, &run);

	if (killed)
		snprintf(how, sizeof(how), "timeout=%u", seconds);
	else if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "signal=%d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "exit=%d", WEXITSTATUS(status));

	bad = killed || !WIFEXITED(status) ||
	      (WEXITSTATUS(status) && WEXITSTATUS(status) != KSFT_SKIP);
	if (run.plans && run.planned != run.ok + run.notok + run.skip) {
		report("O # planned %u tests, saw %u", run.planned,
		       run.ok + run.notok + run.skip);
		bad = true;
	}
	if (run.bailed)
		bad = true;
	if (bad && !run.notok) {
		run.notok = 1;		/* it failed without saying which test */
	} else if (WEXITSTATUS(status) == KSFT_SKIP && !run.notok && !run.skip) {
		run.skip = 1;
	} else if (!run.ok && !run.notok && !run.skip) {
		if (run.plans)
			run.notok = 1;	/* who has a plan of no tests was to have some */
		else
			run.ok = 1;	/* no TAP: the command is the test */
	}
	if (run.notok)
		bad = true;

	commands++;
	failed += bad;
	total_ok += run.ok;
	total_notok += run.notok;
	total_skip += run.skip;
	report("R %u %s ok=%u notok=%u skip=%u ms=%u", n, how, run.ok, run.notok, run.skip,
	       (unsigned int)(now_ms() - start));
}

/* "SECONDS<tab>COMMAND" a line */
static void run_commands(int sigs)
{
	char *line = NULL;
	size_t size = 0;
	unsigned int n = 0;
	FILE *f = fopen(TESTS, "re");

	if (!f) {
		fault("%s: %m", TESTS);
		return;
	}
	while (getline(&line, &size, f) > 0) {
		char *command;
		unsigned long seconds = strtoul(line, &command, 10);

		line[strcspn(line, "\n")] = '\0';
		if (*command != '\t') {
			fault("%s: bad line", TESTS);
			continue;
		}
		run_command(++n, command + 1, seconds, sigs);
	}
	free(line);
	fclose(f);
	if (!n)
		fault("no commands");
}

static void reap_all(void)
{
	uint64_t end = now_ms() + PATIENCE_MS;

	kill(-1, SIGKILL);
	while (now_ms() < end) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0)
			return;
		if (!pid)
			usleep(10000);
	}
	fault("a process does not die");
}

static void kmemleak_start(void)
{
	if (access(KMEMLEAK, F_OK))
		return;
	/* What booting left behind is not ours, if anybody has seen it. */
	write_file(KMEMLEAK, "clear");
}

static void kmemleak_end(void)
{
	static char buf[65536];
	char *save, *line;
	uint64_t start;
	int i;

	if (access(KMEMLEAK, F_OK))
		return;
	/*
	 * It reports only what is older than five seconds and has not changed
	 * since the scan before.
	 */
	start = now_ms();
	write_file(KMEMLEAK, "scan");
	while (now_ms() < start + 6000)
		usleep(100000);
	write_file(KMEMLEAK, "scan");
	if (read_file(KMEMLEAK, buf, sizeof(buf)) == 0)
		return;
	/* A pointer may have been on its way from one place to another. */
	sleep(1);
	write_file(KMEMLEAK, "scan");
	if (read_file(KMEMLEAK, buf, sizeof(buf)) == 0)
		return;
	fault("kmemleak found something; .text was at:%s", loaded_at);
	for (i = 0, line = strtok_r(buf, "\n", &save); line && i < 200;
	     line = strtok_r(NULL, "\n", &save), i++)
		report("K %s", line);
}

static void check_lockdep(void)
{
	static char buf[16384];
	char *p;
	int on;

	if (read_file("/proc/lockdep_stats", buf, sizeof(buf)) <= 0)
		return;
	p = strstr(buf, "debug_locks:");
	if (p && sscanf(p, "debug_locks: %d", &on) == 1 && !on)
		fault("lockdep has turned itself off");
}

static void check_taint(void)
{
	const char *s = option("arax.taint");
	unsigned long allowed = s ? strtoul(s, NULL, 0) : 0, taint;
	char buf[64];

	if (read_file("/proc/sys/kernel/tainted", buf, sizeof(buf)) <= 0) {
		fault("/proc/sys/kernel/tainted: %m");
		return;
	}
	taint = strtoul(buf, NULL, 10);
	if (taint & ~allowed)
		fault("the kernel is tainted: %lu, allowed %lu", taint, allowed);
}

/* Stream the directory that --out named as a tar file. */
static void send_out(void)
{
	char dir[512];
	char *argv[] = { "/bin/busybox", "tar", "-c", "-C", dir, ".", NULL };
	int fd, st = -1;
	pid_t pid;

	if (read_file(OUT, dir, sizeof(dir)) <= 0)
		return;
	dir[strcspn(dir, "\n")] = '\0';
	if (access(dir, F_OK)) {
		fault("--out: no %s in the guest", dir);
		return;
	}
	fd = open_port("arax.out", O_WRONLY);
	if (fd < 0) {
		fault("port arax.out: %m");
		return;
	}
	pid = fork();
	if (!pid) {
		dup2(fd, 1);
		execv(argv[0], argv);
		_exit(127);
	}
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	close(fd);
	if (st)
		fault("--out: tar failed (%d)", st);
}

static void interactive(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		ioctl(0, TIOCSCTTY, 1);
		execl("/bin/busybox", "sh", "-l", (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) != pid)
		;
}

int main(void)
{
	struct utsname uts;
	sigset_t mask;
	int fd, sigs;

	if (getpid() != 1) {
		fputs("This is the init of a test guest.\n", stderr);
		return 1;
	}
	umask(022);
	mount_all();
	fd = open("/dev/console", O_RDWR | O_NOCTTY);
	if (fd >= 0) {
		dup2(fd, 0);
		dup2(fd, 1);
		dup2(fd, 2);
		if (fd > 2)
			close(fd);
	}
	read_file("/proc/cmdline", cmdline, sizeof(cmdline));
	read_file(TOKEN, token, sizeof(token));
	token[strcspn(token, "\n")] = '\0';
	unlink(TOKEN);
	uname(&uts);
	sethostname("guest", 5);
	setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("TERM", "dumb", 1);
	setenv("ARAX_GUEST", uts.release, 1);
	if (chdir("/root"))
		fault("/root: %m");
	loopback_up();

	load_modules(EARLY_MODULES);
	start_cpus();
	if (option("arax.interactive")) {
		load_modules(MODULES);
		interactive();
		leave();
	}
	result = open_port("arax.result", O_WRONLY);
	if (result < 0) {
		fault("no port arax.result");
		leave();
	}
	report("H arax-result 1 %s", uts.release);

	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg < 0)
		fault("/dev/kmsg: %m");
	else
		lseek(kmsg, 0, SEEK_END);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	sigs = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);

	kmemleak_start();
	load_modules(MODULES);
	run_commands(sigs);
	send_out();
	reap_all();
	unload_modules(MODULES);
	kmemleak_end();
	check_lockdep();
	check_taint();
	read_kmsg();
	report("T %s commands=%u failed=%u ok=%u notok=%u skip=%u faults=%u", token, commands,
	       failed, total_ok, total_notok, total_skip, faults);
	leave();
}
