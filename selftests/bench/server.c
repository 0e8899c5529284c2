// SPDX-License-Identifier: MIT
/* The araxd that is measured. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "place.h"

#define READY_MS	60000
#define COMPILE_MS	240000	/* of kernels, the first time */
#define STOP_S		30

void build_path(char *path, size_t size, const char *name)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	int i;

	if (n < 0)
		bench_fail("/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	/* build/bin/arax-bench -> build, and PREFIX/bin/arax-bench -> PREFIX */
	for (i = 0; i < 2; i++) {
		slash = strrchr(self, '/');
		if (slash)
			*slash = '\0';
	}
	if ((size_t)snprintf(path, size, "%s/%s", self, name) >= size)
		bench_fail("the path of %s is too long", name);
}

/*
 * Into a folder of our own: araxd refuses libraries that somebody else could
 * have written, and a build folder often lies where a group may.
 */
static void copy_file(const char *from, const char *to)
{
	char buf[65536];
	ssize_t n;
	int in, out;

	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		bench_fail("%s: %s", from, strerror(errno));
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (out < 0)
		bench_fail("%s: %s", to, strerror(errno));
	while ((n = read(in, buf, sizeof(buf))) > 0) {
		if (write(out, buf, (size_t)n) != n)
			bench_fail("%s: %s", to, strerror(errno));
	}
	if (n < 0)
		bench_fail("%s: %s", from, strerror(errno));
	close(in);
	close(out);
}

/* One device of one core on each of the pinned CPUs, as many as @devices. */
static void write_groups(FILE *f, int devices)
{
	if (devices > 1 && place_cpu[0] != place_cpu[1])
		fprintf(f, "cpu { groups = { \"%d\", \"%d\" } }\n", place_cpu[0], place_cpu[1]);
	else if (devices)
		fprintf(f, "cpu { groups = { \"%d\" } }\n", place_cpu[1]);
}

/**
 * struct setup - an araxd to be started
 * @devices:	of one core each; 0: those of @kind
 * @kind:	of devices; NULL: all
 * @config:	goes into its configuration, and it has three standard kernels; or NULL
 * @standard:	it has all of the standard kernels
 */
struct setup {
	int devices;
	const char *kind;
	const char *config;
	bool standard;
};

/* As @name is now: a manifest without one of its files is refused. */
static void copy_kernels(const struct server *s, const char *name)
{
	char from[4200], path[256], below[128];
	glob_t found;
	size_t i;

	snprintf(below, sizeof(below), "lib/arax/%s", name);
	build_path(from, sizeof(from), below);
	/* There are none of arax-blas without OpenBLAS. */
	if (glob(from, 0, NULL, &found) && !strstr(name, "arax-blas"))
		bench_fail("there is no %s", from);
	for (i = 0; i < found.gl_pathc; i++) {
		snprintf(path, sizeof(path), "%s/kernels/%s", s->dir,
			 strrchr(found.gl_pathv[i], '/') + 1);
		copy_file(found.gl_pathv[i], path);
	}
	globfree(&found);
}

/*
 * A bench of schedules has the same kernels as its peers, who launch those of the file by
 * themselves: so none that a function launches in another way.
 */
static void drop_functions(const struct server *s)
{
	json_t *manifest, *kernel, *impls, *entry;
	char path[256];
	size_t i, k;

	snprintf(path, sizeof(path), "%s/kernels/arax-std.json", s->dir);
	manifest = json_load_file(path, 0, NULL);
	json_array_foreach(json_object_get(manifest, "kernels"), i, kernel) {
		impls = json_object_get(kernel, "implementations");
		for (k = json_array_size(impls); k--; ) {
			entry = json_object_get(json_array_get(impls, k), "entry");
			if (json_is_string(entry) && !strcmp(json_string_value(entry), "host"))
				json_array_remove(impls, k);
		}
	}
	if (!manifest || json_dump_file(manifest, path, 0))
		bench_fail("%s: can't be read, or not written", path);
	json_decref(manifest);
}

static void write_config(const struct server *s, const struct setup *setup)
{
	static const char *const all[] = {
		"bench-kernels/*", "kernels/arax-blas*", "kernels/arax-std*", NULL
	};
	static const char *const without_std[] = { "bench-kernels/*", "kernels/arax-blas*", NULL };
	static const char *const rodinia[] = { "rodinia-kernels/*", NULL };
	static const char *const few[] = { "bench-std/*", "kernels/arax-std.so", NULL };
	const char *const *list = setup->standard || setup->devices ? all : setup->config ? few :
				  setup->kind ? rodinia : without_std;
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/kernels", s->dir);
	if (mkdir(path, 0755) < 0)
		bench_fail("%s: %s", path, strerror(errno));
	for (; *list; list++)
		copy_kernels(s, *list);
	if (setup->standard)
		drop_functions(s);
	snprintf(path, sizeof(path), "%s/araxd.conf", s->dir);
	f = fopen(path, "w");
	if (!f)
		bench_fail("%s: %s", path, strerror(errno));
	/*
	 * All else is as it comes.  Idle contexts of a bench are more than a user has
	 * where no cgroup can be made to say otherwise.
	 */
	fprintf(f, "kernels { path = { \"%s/kernels\" } }\nlimits { contexts = 256 }\n", s->dir);
	write_groups(f, setup->devices);
	if (setup->config)
		fprintf(f, "%s\n", setup->config);
	if (fclose(f))
		bench_fail("%s: %s", path, strerror(errno));
}

struct exec {
	struct server *server;
	const char *kind;	/* or NULL */
	int ready;
};

static void run_araxd(void *arg)
{
	struct exec *e = arg;
	char araxd[4200], conf[128], sock[128], fd[16], log[128];
	const char *user = getenv("ARAX_BENCH_ARAXD");
	int out;

	/* What an earlier one learnt is none of this one's. */
	setenv("XDG_STATE_HOME", e->server->dir, 1);
	/* It has workers to end: the default of a child is harsher. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	build_path(araxd, sizeof(araxd), "bin/araxd");
	snprintf(conf, sizeof(conf), "%s/araxd.conf", e->server->dir);
	snprintf(sock, sizeof(sock), "%s/arax.sock", e->server->dir);
	snprintf(log, sizeof(log), "%s/log", e->server->dir);
	snprintf(fd, sizeof(fd), "%d", e->ready);
	out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (out >= 0) {
		dup2(out, 1);
		dup2(out, 2);
	}
	if (!user)
		user = araxd;
	execl(user, "araxd", "--user", "--config", conf, "--socket", sock,
	      "--ready-fd", fd, e->kind ? "--kind" : NULL, e->kind, NULL);
	dprintf(2, "%s: %s\n", user, strerror(errno));
	_exit(127);
}

static void show_log(const struct server *s)
{
	char path[128], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/log", s->dir);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		fprintf(stderr, "araxd: %s", line);
	if (f)
		fclose(f);
}

#define MAX_DIRS 8

static char dirs[MAX_DIRS][64];
static int nr_dirs;

/* In a handler, perhaps: by a process of its own. */
static void remove_dirs(void)
{
	int i, status;
	pid_t pid;

	for (i = 0; i < nr_dirs; i++) {
		pid = fork();
		if (!pid) {
			execlp("rm", "rm", "-rf", "--", dirs[i], NULL);
			_exit(127);
		}
		if (pid > 0)
			waitpid(pid, &status, 0);
	}
}

static void make_dir(struct server *s)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(s->dir, sizeof(s->dir), "%.30s/arax-bench.XXXXXX", tmp ? tmp : "/tmp");
	if (nr_dirs == MAX_DIRS || !mkdtemp(s->dir))
		bench_fail("%s: %s", s->dir, strerror(errno));
	if (!nr_dirs)
		child_after(remove_dirs);
	memcpy(dirs[nr_dirs++], s->dir, sizeof(s->dir));
}

void server_start(struct server *s, const char *link)
{
	server_start_devices(s, link, 0);
}

static void start_private(struct server *s, const struct setup *setup)
{
	struct pollfd p = { .events = POLLIN };
	struct exec e = { .server = s, .kind = setup->kind };
	int ready[2];
	char byte;

	memset(s, 0, sizeof(*s));
	make_dir(s);
	snprintf(s->link, sizeof(s->link), "broker:%s/arax.sock", s->dir);
	write_config(s, setup);
	if (pipe2(ready, 0) < 0)
		bench_fail("pipe: %s", strerror(errno));
	fcntl(ready[0], F_SETFD, FD_CLOEXEC);
	e.ready = ready[1];
	s->pid = child_start(run_araxd, &e);
	close(ready[1]);
	p.fd = ready[0];
	if (poll(&p, 1, setup->kind ? COMPILE_MS : READY_MS) != 1 || read(ready[0], &byte, 1) != 1) {
		show_log(s);
		bench_fail("araxd did not become ready");
	}
	close(ready[0]);
}

void server_start_devices(struct server *s, const char *link, int devices)
{
	if (strcmp(link, "kernel")) {
		start_private(s, &(struct setup){ .devices = devices });
		return;
	}
	memset(s, 0, sizeof(*s));
	snprintf(s->link, sizeof(s->link), "kernel");
	if (getenv("ARAX_BENCH_PID"))
		s->pid = (pid_t)atoi(getenv("ARAX_BENCH_PID"));
}

void server_start_kind(struct server *s, const char *kind)
{
	start_private(s, &(struct setup){ .kind = kind });
}

void server_start_config(struct server *s, const char *kind, const char *config)
{
	start_private(s, &(struct setup){ .kind = kind, .config = config });
}

void server_start_standard(struct server *s, const char *kind, const char *config)
{
	start_private(s, &(struct setup){ .kind = kind, .config = config, .standard = true });
}

void server_stop(struct server *s)
{
	int status;

	if (!s->pid || !s->dir[0])
		return;
	status = child_end_within(s->pid, STOP_S);
	s->pid = 0;
	if (!status)
		return;
	show_log(s);
	if (WIFEXITED(status))
		bench_fail("araxd exited with %d", WEXITSTATUS(status));
	if (WTERMSIG(status) == SIGKILL)
		bench_fail("araxd was killed, or did not end within %d s", STOP_S);
	bench_fail("araxd was ended by signal %d", WTERMSIG(status));
}

void server_place(const struct server *s, int cpu)
{
	if (s->pid)
		place_process(s->pid, cpu);
}

long server_cpu_ticks(const struct server *s)
{
	char path[64], line[1024], *p;
	unsigned long user, sys;
	FILE *f;

	if (!s->pid)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/stat", s->pid);
	f = fopen(path, "r");
	p = f ? fgets(line, sizeof(line), f) : NULL;
	if (f)
		fclose(f);
	/* The name may have spaces and brackets; nothing after it has. */
	p = p ? strrchr(p, ')') : NULL;
	if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			 &user, &sys) != 2)
		return -1;
	return (long)(user + sys);
}

/* False: @line has no @key, which a space comes before and '=' behind. */
static bool counter_of(const char *line, const char *key, uint64_t *value)
{
	size_t len = strlen(key);
	const char *at = line;

	while ((at = strstr(at, key)) != NULL) {
		if (at > line && at[-1] == ' ' && at[len] == '=')
			return sscanf(at + len + 1, "%" SCNu64, value) == 1;
		at += len;
	}
	return false;
}

/* How many lines of the log tell of a device's memory; sums of those behind the first @skip. */
static int memory_lines(const struct server *s, int skip, struct server_memory *m)
{
	char path[128], line[2100];
	struct server_memory one;
	const char *at;
	FILE *f;
	int n = 0;

	memset(m, 0, sizeof(*m));
	snprintf(path, sizeof(path), "%s/log", s->dir);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		at = strstr(line, "notice: device memory ");
		if (!at || !strchr(line, '\n'))
			continue;
		if (!counter_of(at, "copied_in", &one.copied_in) ||
		    !counter_of(at, "copied_out", &one.copied_out) ||
		    !counter_of(at, "evictions", &one.evictions) || !counter_of(at, "waits", &one.waits))
			bench_fail("araxd's statistics can't be read: %s", line);
		if (n++ < skip)
			continue;
		m->copied_in += one.copied_in;
		m->copied_out += one.copied_out;
		m->evictions += one.evictions;
		m->waits += one.waits;
	}
	if (f)
		fclose(f);
	return n;
}

void server_memory(const struct server *s, struct server_memory *m)
{
	int before = memory_lines(s, 0, m), turn;

	kill(s->pid, SIGUSR1);
	for (turn = 0; turn < READY_MS; turn++) {
		if (memory_lines(s, before, m) > before)
			return;
		usleep(1000);
	}
	bench_fail("araxd does not tell what went through its devices' memory");
}
