// SPDX-License-Identifier: MIT
/* araxd's small parts: identity, guard, mappings, host operations, work, role. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "daemon/dispatch/host.h"
#include "daemon/dispatch/role.h"
#include "daemon/dispatch/ticks.h"
#include "daemon/dispatch/work.h"
#include "daemon/graph/internal.h"
#include "daemon/complaints.h"
#include "daemon/link/barred.h"
#include "daemon/link/holdings.h"
#include "daemon/link/patience.h"
#include "daemon/link/identity.h"
#include "daemon/link/wake.h"
#include "daemon/memory/guard.h"
#include "daemon/memory/mapping.h"
#include "daemon/memory/reserve.h"
#include "daemon/observe/trace.h"
#include "daemon/options.h"
#include "kmod/core/core.h"
#include "selftests/unit/tmp.h"
#include "selftests/unit/wait.h"

START_TEST(cgroup_line)
{
	char path[64];

	ck_assert_int_eq(identity_parse_cgroup("4:memory:/x\n0::/a/b\n", path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/a/b");
	ck_assert_int_eq(identity_parse_cgroup("0::/\n", path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/");
	ck_assert_int_eq(identity_parse_cgroup("10::/no\n1:cpu:/0::/x\n", path, sizeof(path)),
			 -ENOENT);
	ck_assert_int_eq(identity_parse_cgroup("", path, sizeof(path)), -ENOENT);
	ck_assert_int_eq(identity_parse_cgroup("0::/abcdef", path, 6), -ENAMETOOLONG);
}
END_TEST

/* Why it can't be told which process is at the other end. */
static int no_peer;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	if (!no_peer || name == SO_PEERCRED)
		return __real_getsockopt(fd, level, name, value, size);
	errno = no_peer;
	return -1;
}

/* By its number only where Linux knows nothing better: else another one may have that by now. */
START_TEST(peers_are_who_connected)
{
	struct peer peer;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(identity_peer(pair[0], NULL, NULL, &peer), 0);
	ck_assert_int_eq(peer.pid, getpid());
	no_peer = ENOPROTOOPT;
	ck_assert_int_eq(identity_peer(pair[0], NULL, NULL, &peer), 0);
	ck_assert_int_eq(peer.pid, getpid());
	no_peer = EMFILE;
	ck_assert_int_eq(identity_peer(pair[0], NULL, NULL, &peer), -EMFILE);
	no_peer = EINVAL;
	ck_assert_int_eq(identity_peer(pair[0], NULL, NULL, &peer), -ESRCH);
	no_peer = 0;
	close(pair[0]);
	close(pair[1]);
}
END_TEST

/* A new one, below where cgroup2 is mounted. */
static bool own_cgroup_make(char *path, size_t size)
{
	char line[4096], at[4096];
	FILE *f = fopen("/proc/mounts", "re");
	bool found = false;

	ck_assert_ptr_nonnull(f);
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*s %4095s cgroup2 ", at) == 1 && strstr(line, " cgroup2 ");
	fclose(f);
	snprintf(path, size, "%s/arax-parts-%d", found ? at : "/none", (int)getpid());
	return !mkdir(path, 0755);
}

static void cgroup_enter(const char *top, const char *name, pid_t pid)
{
	char path[8192], text[16];
	int fd;

	snprintf(path, sizeof(path), "%s/%s/cgroup.procs", top, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	snprintf(text, sizeof(text), "%d", (int)pid);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static struct sockaddr_un parts_name;
static int parts_go;

static void *connect_when_told(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char c;

	if (read(parts_go, &c, 1) == 1 &&
	    !connect(fd, (struct sockaddr *)&parts_name, sizeof(parts_name)))
		pause();
	_exit(1);
}

static void connect_without_leader(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, connect_when_told, NULL))
		pthread_exit(NULL);
	_exit(1);
}

static bool has_ended(pid_t pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'Z';
}

/* The kernel moves a process whose main thread has ended, but not what stands for that. */
START_TEST(cgroup_of_who_has_no_main_thread)
{
	int p[2], fd, listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char top[4200], path[4300];
	struct peer peer;
	pid_t pid;

	if (!own_cgroup_make(top, sizeof(top))) {
		printf("skipped: no cgroup can be made here: %s\n", strerror(errno));
		close(listener);
		return;
	}
	snprintf(path, sizeof(path), "%s/before", top);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/after", top);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	parts_name.sun_family = AF_UNIX;
	snprintf(parts_name.sun_path + 1, sizeof(parts_name.sun_path) - 1, "arax-parts-%d",
		 (int)getpid());
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&parts_name, sizeof(parts_name)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(pipe(p), 0);
	parts_go = p[0];
	pid = fork();
	if (!pid)
		connect_without_leader();
	cgroup_enter(top, "before", pid);
	while (!has_ended(pid))
		usleep(1000);
	cgroup_enter(top, "after", pid);
	ck_assert_int_eq(write(p[1], "", 1), 1);
	fd = accept(listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(identity_peer(fd, NULL, NULL, &peer), 0);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	snprintf(path, sizeof(path), "%s/before", top);
	ck_assert_int_eq(rmdir(path), 0);
	snprintf(path, sizeof(path), "%s/after", top);
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(rmdir(top), 0);
	ck_assert_str_eq(strrchr(peer.cgroup, '/'), "/after");
	ck_assert_int_eq(peer.pid, pid);
	close(fd);
	close(listener);
	close(p[0]);
	close(p[1]);
}
END_TEST

/* The sanitizer has threads of its own. */
#ifndef __SANITIZE_THREAD__
static int parts_end[2], parts_made;

static void *end_when_told(void *arg)
{
	char c;
	ssize_t n = read(parts_end[0], &c, 1);

	(void)n;
	return NULL;
}

/* The last one is the one that lives. */
static void connect_behind(uint32_t ended)
{
	pthread_attr_t small;
	pthread_t thread;
	uint32_t i;

	close(parts_end[1]);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (i = 0; i <= ended; i++)
		if (pthread_create(&thread, &small, i < ended ? end_when_told : connect_when_told,
				   NULL))
			_exit(1);
	if (write(parts_made, "", 1) == 1)
		pthread_exit(NULL);
	_exit(1);
}

/* How many threads a process has, and how many of them have ended; each is @traced from now on. */
static uint32_t count_threads(pid_t pid, bool traced, uint32_t *ended)
{
	char path[64], name[96], state;
	uint32_t threads = 0;
	struct dirent *e;
	DIR *dir;
	FILE *f;

	*ended = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		if (atoi(e->d_name) <= 0)
			continue;
		threads++;
		/* The first of them stays anyhow, and may have ended by now. */
		if (traced && atoi(e->d_name) != pid)
			ck_assert_int_eq(ptrace(PTRACE_SEIZE, atoi(e->d_name), 0, 0), 0);
		snprintf(name, sizeof(name), "%s/%d/stat", path, atoi(e->d_name));
		f = fopen(name, "re");
		*ended += f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'Z';
		if (f)
			fclose(f);
	}
	closedir(dir);
	return threads;
}

static int not_now(void *arg, const struct peer *peer)
{
	ck_assert_ptr_eq(arg, &parts_name);
	ck_assert_int_gt(peer->pid, 0);
	return -EACCES;
}

static const struct {
	uint32_t ended;
	int err;
} behind[] = { { 10, 0 }, { 200, -ESRCH } };

/* Those that have ended are looked at one by one: some, and none of who is not to be asked. */
START_TEST(few_threads_are_asked)
{
	int made[2], go[2], fd, listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct peer peer;
	uint32_t ended, n = behind[_i].ended;
	pid_t pid;
	char c;

	parts_name.sun_family = AF_UNIX;
	snprintf(parts_name.sun_path + 1, sizeof(parts_name.sun_path) - 1, "arax-behind-%d",
		 (int)getpid());
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&parts_name, sizeof(parts_name)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(made), 0);
	ck_assert_int_eq(pipe(parts_end), 0);
	parts_go = go[0];
	parts_made = made[1];
	pid = fork();
	if (!pid)
		connect_behind(n);
	ck_assert_int_eq(read(made[0], &c, 1), 1);
	ck_assert_uint_eq(count_threads(pid, true, &ended), n + 2);
	close(parts_end[1]);
	/* What has ended of it stays, as we don't wait for it. */
	do {
		usleep(1000);
		ck_assert_uint_eq(count_threads(pid, false, &ended), n + 2);
	} while (ended < n + 1);
	ck_assert_int_eq(write(go[1], "", 1), 1);
	fd = accept(listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(identity_peer(fd, not_now, &parts_name, &peer), -EACCES);
	ck_assert_int_eq(identity_peer(fd, NULL, NULL, &peer), behind[_i].err);
	kill(pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	close(fd);
	close(listener);
	close(go[0]);
	close(go[1]);
	close(made[0]);
	close(made[1]);
	close(parts_end[0]);
}
END_TEST
#endif

START_TEST(holdings_are_parted)
{
	const struct holdings_limits l = { .fds = 40, .maps = 20 };
	struct holdings *h = holdings_create(&l);
	struct holder *a, *b, *root, *c;

	ck_assert_int_eq(holdings_take(h, 1, false, 11, 0, &a), -EDQUOT);
	ck_assert_int_eq(holdings_take(h, 1, false, 3, 1, &a), 0);
	ck_assert_int_eq(holder_take(a, 7, 0), 0);
	ck_assert_int_eq(holder_take(a, 1, 0), -EDQUOT);
	ck_assert_int_eq(holder_take(a, 0, 4), 0);
	ck_assert_int_eq(holder_take(a, 0, 1), -EDQUOT);
	/* The same user's, by another connection; and it stays when the first one goes. */
	ck_assert_int_eq(holdings_take(h, 1, false, 1, 0, &b), -EDQUOT);
	holder_give(a, 3, 1);
	ck_assert_int_eq(holdings_take(h, 1, false, 3, 1, &b), 0);
	ck_assert_ptr_eq(a, b);
	/* Others have theirs, until all have three quarters; administrators in one go. */
	ck_assert_int_eq(holdings_take(h, 2, false, 10, 5, &b), 0);
	ck_assert_int_eq(holdings_take(h, 0, true, 16, 0, &root), -EMFILE);
	ck_assert_int_eq(holdings_take(h, 0, true, 10, 5, &root), 0);
	ck_assert_int_eq(holdings_take(h, 3, false, 1, 0, &c), -EMFILE);
	ck_assert_int_eq(holdings_take(h, 3, false, 0, 1, &c), -ENOMEM);
	/* An eighth is administrators' alone; a uid may be one, and another's, too. */
	ck_assert_int_eq(holder_take(root, 5, 2), 0);
	ck_assert_int_eq(holder_take(root, 1, 0), -EMFILE);
	ck_assert_int_eq(holder_take(root, 0, 1), -ENOMEM);
	holder_give(root, 5, 2);
	ck_assert_int_eq(holdings_take(h, 0, false, 1, 0, &c), -EMFILE);
	holder_give(b, 10, 5);
	ck_assert_int_eq(holder_take(root, 10, 5), 0);
	holder_give(root, 20, 10);
	holder_give(a, 10, 5);
	ck_assert_int_eq(holdings_take(h, 0, true, 30, 15, &root), 0);
	holder_give(root, 30, 15);
	holdings_destroy(h);
}
END_TEST

/* Nobody was asked, so nobody refuses it; but it takes room like what was. */
START_TEST(what_came_unasked_counts)
{
	const struct holdings_limits l = { .fds = 40, .maps = 20 };
	struct holdings *h = holdings_create(&l);
	struct holder *a, *b;

	a = holdings_owe(h, 1, false, 12);
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(holder_uid(a), 1);
	ck_assert(!holder_is_unlimited(a));
	ck_assert_int_eq(holdings_take(h, 1, false, 1, 0, &b), -EDQUOT);
	holder_give(a, 3, 0);
	ck_assert_int_eq(holdings_take(h, 1, false, 1, 0, &b), 0);
	ck_assert_ptr_eq(a, b);
	/* What nobody gives back ends with all. */
	holdings_destroy(h);
}
END_TEST

START_TEST(what_is_given_back_later_makes_room_at_once)
{
	const struct holdings_limits l = { .fds = 40, .maps = 80 };
	struct holdings *h = holdings_create(&l);
	struct holder *a, *b, *root;

	ck_assert_int_eq(holdings_take(h, 1, false, 10, 20, &a), 0);
	holder_give_later(a, 1, 1);
	ck_assert_int_eq(holder_take(a, 1, 1), 0);
	/* But only for half as much again, */
	holder_give_later(a, 5, 5);
	ck_assert_int_eq(holder_take(a, 4, 5), 0);
	ck_assert_int_eq(holder_take(a, 1, 0), -EDQUOT);
	/* and it counts to all users' together, for it is still there. */
	ck_assert_int_eq(holdings_take(h, 2, false, 10, 0, &b), 0);
	ck_assert_int_eq(holdings_take(h, 0, true, 11, 0, &root), -EMFILE);
	ck_assert_int_eq(holdings_take(h, 0, true, 10, 0, &root), 0);
	holder_given(a, 6, 6);
	ck_assert_int_eq(holder_take(a, 1, 0), 0);
	ck_assert_int_eq(holder_take(a, 1, 0), -EDQUOT);
	holder_give(root, 10, 0);
	holder_give(b, 10, 0);
	holder_give(a, 10, 20);
	/* The last that is given ends it. */
	ck_assert_int_eq(holdings_take(h, 1, false, 10, 0, &a), 0);
	holder_give_later(a, 10, 0);
	ck_assert_int_eq(holdings_take(h, 1, false, 5, 0, &b), 0);
	ck_assert_ptr_eq(a, b);
	holder_given(a, 10, 0);
	holder_give(a, 5, 0);
	holdings_destroy(h);
}
END_TEST

START_TEST(complaints_are_a_line_a_second)
{
	struct complaints all = { 0 };
	uint64_t unsaid = 7;

	ck_assert(complaints_say(&all, 1, 5, &unsaid));
	ck_assert_uint_eq(unsaid, 0);
	ck_assert(!complaints_say(&all, 1, 6, &unsaid));
	ck_assert(!complaints_say(&all, 1, 4 + COMPLAINTS_NS, &unsaid));
	/* Nobody else's are kept back by that. */
	ck_assert(complaints_say(&all, 2, 7, &unsaid));
	ck_assert_uint_eq(unsaid, 0);
	ck_assert(complaints_say(&all, 1, 5 + COMPLAINTS_NS, &unsaid));
	ck_assert_uint_eq(unsaid, 2);
	ck_assert(!complaints_say(&all, 1, 6 + COMPLAINTS_NS, &unsaid));
}
END_TEST

/* ------------------------------------------------------------------ */
/* Cgroups, as folders elsewhere                                       */

static struct identity *ident;
static struct core *core;
static char folder[UNIT_TMP_LEN];

static bool tenant_gone(struct core *of, const struct core_tenant *t)
{
	return identity_tenant_gone(ident, t);
}

static void tenant_free(struct core *of, struct core_tenant *t)
{
	identity_tenant_free(t);
}

static void cgroups_open(const char *root)
{
	static const struct core_ops ops = {
		.tenant_gone = tenant_gone, .tenant_free = tenant_free,
	};
	const struct core_params params = { .cells = CORE_MIN_CELLS, .slots = 2, .max_handles = 1 };
	int err;

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "arax-parts-XXXXXX")));
	ident = identity_create_at(folder, root);
	ck_assert_ptr_nonnull(ident);
	core = core_create(&ops, &params, NULL, &err);
	ck_assert_ptr_nonnull(core);
}

static void cgroups_close(void)
{
	core_destroy(core);
	identity_destroy(ident);
	ck_assert_int_eq(rmdir(folder), 0);
}

static uint64_t cgroup_make(const char *path)
{
	char full[8192];
	struct stat st;

	snprintf(full, sizeof(full), "%s%s", folder, path);
	ck_assert_int_eq(mkdir(full, 0755), 0);
	ck_assert_int_eq(stat(full, &st), 0);
	return st.st_ino;
}

static void cgroup_drop(const char *path)
{
	char full[8192];

	snprintf(full, sizeof(full), "%s%s", folder, path);
	ck_assert_int_eq(rmdir(full), 0);
}

static struct core_tenant *tenant_at(const char *path)
{
	struct core_tenant *t;

	ck_assert_int_eq(identity_tenant(ident, core, path, &t), 0);
	return t;
}

static void tenant_put(struct core_tenant *t)
{
	core_mutex_lock(&core->lock);
	core_tenant_put(core, t);
	core_mutex_unlock(&core->lock);
}

static int by_fd_as(int fd, bool itself, struct core_tenant **t)
{
	int err;

	core_mutex_lock(&core->lock);
	err = identity_tenant_by_fd(ident, core, fd, itself, t);
	core_mutex_unlock(&core->lock);
	return err;
}

static int by_fd(int fd, struct core_tenant **t)
{
	return by_fd_as(fd, false, t);
}

static int cgroup_open(const char *path)
{
	char full[8192];
	int fd;

	snprintf(full, sizeof(full), "%s%s", folder, path);
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(limits_go_with_the_folder)
{
	struct core_tenant *t;
	uint64_t a, id;
	int fd, i;

	cgroups_open("");
	a = cgroup_make("/a");
	for (i = 0; i < 50; i++) {
		id = cgroup_make("/a/b");
		fd = cgroup_open("/a/b");
		ck_assert_int_eq(by_fd(fd, &t), 0);
		ck_assert_uint_eq(t->id, id);
		ck_assert_uint_eq(t->parent->id, a);
		ck_assert_str_eq(t->path, "/a/b");
		t->weight = 200;
		tenant_put(t);
		/* There: it stays, and whoever comes finds it. */
		t = tenant_at("/a/b");
		ck_assert_uint_eq(t->weight, 200);
		tenant_put(t);
		ck_assert_uint_eq(tenant_at("/a/b")->refs, 1);
		cgroup_drop("/a/b");
		/* Held, though gone; and not by that name any more. */
		ck_assert_int_eq(by_fd(fd, &t), -ENOENT);
		close(fd);
		t = core_tenant_of(*core_tree_place(&core->tenants, id));
		ck_assert_ptr_nonnull(t);
		tenant_put(t);
		ck_assert_ptr_null(*core_tree_place(&core->tenants, id));
	}
	ck_assert_ptr_null(core->tenants);
	cgroup_drop("/a");
	cgroups_close();
}
END_TEST

/* Who may set limits may still open the wrong thing. */
START_TEST(what_is_no_cgroup)
{
	struct core_tenant *t;
	char beside[96];
	int fd, p[2];

	cgroups_open("");
	ck_assert_int_eq(by_fd(-1, &t), -EBADF);
	ck_assert_int_eq(pipe(p), 0);
	ck_assert_int_eq(by_fd(p[0], &t), -EBADF);
	close(p[0]);
	close(p[1]);
	fd = cgroup_open("/..");
	ck_assert_int_eq(by_fd(fd, &t), -EBADF);
	close(fd);
	/* It is called as cgroups are, and goes on. */
	snprintf(beside, sizeof(beside), "%sx", folder);
	ck_assert_int_eq(mkdir(beside, 0700), 0);
	fd = open(beside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_eq(by_fd(fd, &t), -EBADF);
	close(fd);
	rmdir(beside);
	/* In one, but it is a file. */
	snprintf(beside, sizeof(beside), "%s/f", folder);
	fd = open(beside, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(by_fd(fd, &t), -EBADF);
	close(fd);
	unlink(beside);
	ck_assert_ptr_null(core->tenants);
	fd = cgroup_open("/");
	ck_assert_int_eq(by_fd(fd, &t), 0);
	tenant_put(t);
	close(fd);
	cgroups_close();
}
END_TEST

/* A limit must not land upon the cgroup that has got the name since. */
START_TEST(the_name_is_anothers)
{
	struct core_tenant *t;
	char deleted[80];
	int fd;

	cgroups_open("");
	cgroup_make("/a");
	fd = cgroup_open("/a");
	cgroup_drop("/a");
	cgroup_make("/b");	/* so that the number is not given again */
	cgroup_make("/a");
	ck_assert_int_eq(by_fd(fd, &t), -ENOENT);
	/* What readlink() says of a removed one. */
	snprintf(deleted, sizeof(deleted), "/a (deleted)");
	cgroup_make(deleted);
	ck_assert_int_eq(by_fd(fd, &t), -ENOENT);
	ck_assert_ptr_null(core->tenants);
	close(fd);
	cgroup_drop(deleted);
	cgroup_drop("/a");
	cgroup_drop("/b");
	cgroups_close();
}
END_TEST

/* Who makes his cgroup vanish, or nest too deep, counts for what is above it. */
START_TEST(no_escape_by_path)
{
	char path[512] = "", *end;
	struct core_tenant *t;
	uint64_t id[41];
	int i, fd;

	cgroups_open("");
	id[0] = cgroup_make("/a");
	t = tenant_at("/a/removed/below");
	ck_assert_uint_eq(t->id, id[0]);
	ck_assert_str_eq(t->path, "/a");
	tenant_put(t);
	cgroup_drop("/a");
	for (i = 0; i < 40; i++) {
		strcat(path, "/d");
		id[i + 1] = cgroup_make(path);
		fd = cgroup_open(path);
		/* With the root it is the one after the next. */
		if (i + 2 > CORE_TENANT_DEPTH) {
			ck_assert_int_eq(by_fd_as(fd, true, &t), -ELOOP);
		} else {
			ck_assert_int_eq(by_fd_as(fd, true, &t), 0);
			ck_assert_uint_eq(t->id, id[i + 1]);
			tenant_put(t);
		}
		close(fd);
	}
	t = tenant_at(path);
	ck_assert_uint_eq(t->id, id[CORE_TENANT_DEPTH - 1]);
	fd = cgroup_open(path);
	ck_assert_int_eq(by_fd(fd, &t), 0);
	ck_assert_uint_eq(t->id, id[CORE_TENANT_DEPTH - 1]);
	close(fd);
	tenant_put(t);
	tenant_put(t);
	/* Nor by the name of one that has gone, as deep as there are any. */
	path[2 * (CORE_TENANT_DEPTH - 1)] = '\0';
	fd = cgroup_open(path);
	for (i = 40; i >= CORE_TENANT_DEPTH - 1; i--) {
		memset(path, 0, sizeof(path));
		while (strlen(path) < 2 * (size_t)i)
			strcat(path, "/d");
		cgroup_drop(path);
	}
	cgroup_make("/a");	/* so that the number is not given again */
	cgroup_make(path);
	ck_assert_int_eq(by_fd(fd, &t), -ENOENT);
	close(fd);
	cgroup_drop("/a");
	for (end = path + strlen(path); end > path; end -= 2, *end = '\0')
		cgroup_drop(path);
	cgroups_close();
}
END_TEST

/* What is not below the mount is known by its path alone, and stays apart. */
START_TEST(outside_of_the_mount)
{
	struct core_tenant *a, *b, *out;

	cgroups_open("/box");
	cgroup_make("/a");
	a = tenant_at("/box/a");
	ck_assert_int_eq(a->id >> 63, 0);
	ck_assert_int_eq(a->parent->id >> 63, 0);
	ck_assert_int_eq(a->parent->parent->id >> 63, 1);
	/* Its name only begins like ours. */
	b = tenant_at("/boxa");
	ck_assert_int_eq(b->id >> 63, 1);
	ck_assert_ptr_null(b->link);
	out = tenant_at("/box/../a");
	ck_assert_int_eq(out->id >> 63, 1);
	ck_assert_uint_ne(out->id, b->id);
	ck_assert_ptr_eq(tenant_at("/boxa"), b);
	tenant_put(b);
	tenant_put(b);
	tenant_put(a);
	tenant_put(out);
	ck_assert_ptr_null(core->tenants);
	cgroup_drop("/a");
	cgroups_close();
}
END_TEST

/* Two machines, or two starts, draw different ids: nobody can look for one. */
START_TEST(ids_are_secret)
{
	struct core_tenant *t;
	uint64_t id;

	cgroups_open("/elsewhere");
	t = tenant_at("/a");
	id = t->id;
	tenant_put(t);
	cgroups_close();
	cgroups_open("/elsewhere");
	t = tenant_at("/a");
	ck_assert_uint_ne(t->id, id);
	tenant_put(t);
	cgroups_close();
}
END_TEST

static bool is_one_mapping(const volatile void *start, size_t bytes)
{
	unsigned long from, to;
	bool one = false;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2)
			one |= from <= (unsigned long)start && (unsigned long)start + bytes <= to;
	fclose(f);
	return one;
}

/* Kernels may have anything in the stack pointer if they have given signals another stack. */
START_TEST(handlers_are_on_signals_stack)
{
	const int ours[] = { SIGBUS, SIGRTMIN + 1 };
	struct sigaction sa;

	ck_assert_int_eq(guard_init(), 0);
	ck_assert_int_eq(wake_init(), 0);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		ck_assert_int_eq(sigaction(ours[i], NULL, &sa), 0);
		ck_assert_msg(sa.sa_flags & SA_ONSTACK, "signal %d", ours[i]);
	}
	guard_exit();
}
END_TEST

/* A file shorter than its mapping: every access is a SIGBUS, until all of it is zeros. */
START_TEST(guard_survives)
{
	int fd = memfd_create("short", MFD_CLOEXEC), ev = eventfd(0, EFD_NONBLOCK);
	volatile uint8_t *map;
	uint32_t slot, other, lost = 0;
	uint64_t count = 0;
	size_t i;

	ck_assert_int_eq(guard_init(), 0);
	guard_notify(ev);
	map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne((void *)map, MAP_FAILED);
	ck_assert_int_eq(guard_add(&slot, sizeof(slot), 5, &other), 0);
	ck_assert_int_eq(guard_add_told((void *)map, 64 * 4096, 77, &lost, &slot), 0);
	ck_assert_uint_eq(guard_next_marked(), 0);
	ck_assert(!guard_any_lost());
	ck_assert_uint_eq(map[4100], 0);
	map[4100] = 3;
	ck_assert_uint_eq(map[4100], 3);
	ck_assert_int_eq(read(ev, &count, sizeof(count)), sizeof(count));
	ck_assert_uint_eq(guard_next_marked(), 77);
	ck_assert_uint_eq(guard_next_marked(), 0);
	ck_assert(guard_any_lost());
	ck_assert_uint_eq(lost, 1);
	/* As many mappings as before, wherever it is touched. */
	for (i = 0; i < 64; i += 2)
		map[4096 * i] = 1;
	ck_assert_uint_eq(guard_next_marked(), 0);
	ck_assert(is_one_mapping(map, 64 * 4096));
	guard_remove(slot);
	guard_remove(other);
	ck_assert(!guard_any_lost());
	munmap((void *)map, 64 * 4096);
	guard_exit();
	close(fd);
	close(ev);
}
END_TEST

/* The sanitizers need memory themselves. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Of private memory that may be written to; mappings of files are no part of that. */
static void limit_data(bool on)
{
	struct rlimit r;

	ck_assert_int_eq(getrlimit(RLIMIT_DATA, &r), 0);
	r.rlim_cur = on ? 4096 : r.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &r), 0);
}

static volatile uint8_t *bare;
static uint32_t go;

/* Two pages at a time, as a copy does, which others take from it. */
static void *copy_there(void *arg)
{
	uintptr_t wrong = 0;
	uint32_t i;

	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		sched_yield();
	for (i = 0; i < 10000; i++) {
		uint8_t x = bare[4096 * (i % 599)];

		bare[4096 * (i % 599 + 1)] = 1;
		wrong += x > 1;
	}
	return (void *)wrong;
}

/* As with vm.overcommit_memory = 2: no mapping of zeros is to be had. */
START_TEST(guard_without_memory)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	uint32_t slot, other, lost = 0, i, wrong = 0;
	volatile uint8_t *map[2];
	pthread_t threads[4];
	void *bad;

	ck_assert_int_eq(guard_init(), 0);
	for (i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, copy_there, NULL), 0);
	for (i = 0; i < 2; i++) {
		map[i] = mmap(NULL, 600 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ck_assert_ptr_ne((void *)map[i], MAP_FAILED);
	}
	ck_assert_int_eq(guard_add_told((void *)map[0], 600 * 4096, 77, &lost, &slot), 0);
	ck_assert_int_eq(guard_add((void *)map[1], 600 * 4096, 78, &other), 0);
	limit_data(true);
	/* More than there are spare ones; each has what was written to it, if anything. */
	for (i = 0; i < 600; i++) {
		wrong += map[0][4096 * i] != 0;
		map[0][4096 * i] = 1;
		wrong += map[0][4096 * i] != 1;
	}
	for (i = 0; i < 600; i++)
		wrong += map[0][4096 * i + 1] != 0 || map[0][4096 * i] > 1;
	bare = map[0];
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	for (i = 0; i < 4; i++) {
		pthread_join(threads[i], &bad);
		wrong += !!bad;
	}
	/* What one had another one doesn't see. */
	for (i = 0; i < 600; i++)
		wrong += map[1][4096 * i] != 0;
	wrong += !guard_lose(slot) || map[0][4096] != 0;
	/* Nor is anything done to what comes into the place of one that has gone. */
	map[0][4096 * 5] = 1;
	guard_remove(slot);
	wrong += mmap((void *)map[0], 600 * 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
		 MAP_FAILED;
	wrong += !!ftruncate(fd, 600 * 4096);
	for (i = 0; i < 600; i++)
		map[1][4096 * i] = 2;
	for (i = 0; i < 600; i++)
		wrong += map[0][4096 * i] != 0;
	limit_data(false);
	ck_assert(is_one_mapping(map[0], 600 * 4096));
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_eq(lost, 1);
	guard_remove(other);
	guard_exit();
	for (i = 0; i < 2; i++)
		munmap((void *)map[i], 600 * 4096);
	close(fd);
}
END_TEST
#endif

/* A mapping that is long in coming: of one thread, once. */
static __thread bool comes_late;
static int mapping, may_come;	/* it has begun; it may go on */

void *__real_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (comes_late) {
		comes_late = false;
		__atomic_store_n(&mapping, 1, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&may_come, __ATOMIC_ACQUIRE))
			usleep(100);
	}
	return __real_mmap(at, bytes, prot, flags, fd, offset);
}

#ifdef __LP64__		/* else mmap() has another name */
struct region {
	void *start;
	bool bare, served;
	int tid;
};

static void *serve_late(void *arg)
{
	struct region *r = arg;

	comes_late = true;
	r->served = reserve_serve((uintptr_t)r->start, 4096, &r->bare, 0);
	return NULL;
}

static void *forget_region(void *arg)
{
	struct region *r = arg;

	__atomic_store_n(&r->tid, gettid(), __ATOMIC_RELEASE);
	reserve_forget((uintptr_t)r->start, 4096);
	return NULL;
}

/* Of a thread of this process, as ps shows it; 0: it is none. */
static char state_of(int tid)
{
	char path[64], line[512] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = tid ? fopen(path, "re") : NULL;
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	end = strrchr(line, ')');
	return end ? end[2] : 0;
}

/* For who maps one, whose address space may be locked for long. */
START_TEST(who_needs_the_reserve_sleeps)
{
	struct region one = { 0 }, other = { 0 };
	pthread_t threads[2];

	ck_assert_int_eq(reserve_init(), 0);
	one.start = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	ck_assert_ptr_ne(one.start, MAP_FAILED);
	other.start = (uint8_t *)one.start + 4096;
	ck_assert_int_eq(pthread_create(&threads[0], NULL, serve_late, &one), 0);
	ck_assert(comes_true(__atomic_load_n(&mapping, __ATOMIC_ACQUIRE), 100));
	ck_assert_int_eq(pthread_create(&threads[1], NULL, forget_region, &other), 0);
	ck_assert(comes_true(state_of(__atomic_load_n(&other.tid, __ATOMIC_ACQUIRE)) == 'S', 100));
	__atomic_store_n(&may_come, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert(one.served && one.bare);
	munmap(one.start, 2 * 4096);
	reserve_exit();
}
END_TEST
#endif

static struct {
	bool armed;
	void *next;
	uint32_t slot;
	int err;
} race;

void race_point(void);
void race_point(void)
{
	if (!race.armed)
		return;
	race.armed = false;
	guard_remove(race.slot);
	race.err = guard_add(race.next, 4096, 6, &race.slot);
}

/* While the handler looks at one region that goes, and a smaller one has its slot. */
START_TEST(guard_slot_is_reused)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	uint32_t slot;
	uint8_t *map;

	ck_assert_int_eq(guard_init(), 0);
	map = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	ck_assert_ptr_ne(mmap(map + 12 * 4096, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0),
			 MAP_FAILED);
	map[11 * 4096] = 5;
	ck_assert_int_eq(guard_add(map, 8 * 4096, 5, &race.slot), 0);
	ck_assert_int_eq(guard_add(map + 12 * 4096, 4096, 7, &slot), 0);
	race.next = map + 11 * 4096;
	race.armed = true;
	ck_assert_uint_eq(*(volatile uint8_t *)&map[12 * 4096], 0);
	ck_assert(!race.armed);
	ck_assert_int_eq(race.err, 0);
	/* The neighbour has what it had, and nobody ends for it. */
	ck_assert_uint_eq(map[11 * 4096], 5);
	ck_assert_uint_eq(guard_next_marked(), 7);
	ck_assert_uint_eq(guard_next_marked(), 0);
	guard_remove(slot);
	guard_remove(race.slot);
	guard_exit();
	munmap(map, 16 * 4096);
	close(fd);
}
END_TEST

static void on_bus(int sig)
{
	(void)sig;
	_exit(3);
}

/* A compiler within a driver has put its own handler in front. */
START_TEST(guard_comes_back)
{
	struct sigaction theirs = { .sa_handler = on_bus }, former = { .sa_handler = SIG_IGN }, now;
	int fd = memfd_create("short", MFD_CLOEXEC);
	volatile uint8_t *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	uint32_t slot;

	ck_assert_int_eq(sigaction(SIGBUS, &former, NULL), 0);
	ck_assert_int_eq(guard_init(), 0);
	ck_assert_int_eq(sigaction(SIGBUS, &theirs, NULL), 0);
	ck_assert_int_eq(guard_init(), 0);
	ck_assert_int_eq(guard_add((void *)map, 4096, 9, &slot), 0);
	ck_assert_uint_eq(map[0], 0);
	ck_assert_uint_eq(guard_next_marked(), 9);
	guard_remove(slot);
	guard_exit();
	ck_assert_int_eq(sigaction(SIGBUS, NULL, &now), 0);
	ck_assert(now.sa_handler == SIG_IGN);
	munmap((void *)map, 4096);
	close(fd);
}
END_TEST

/* Outside every region SIGBUS is what it was; the sanitizers have their own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
START_TEST(guard_is_not_deaf)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	volatile uint8_t *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	uint32_t slot;

	ck_assert_int_eq(guard_init(), 0);
	ck_assert_int_eq(guard_add((void *)map, 4096, 9, &slot), 0);
	guard_remove(slot);
	(void)map[0];
}
END_TEST
#endif

/* Nobody asks for it: no mark that others would find, and nobody is woken. */
START_TEST(guard_without_owner)
{
	int fd = memfd_create("short", MFD_CLOEXEC), ev = eventfd(0, EFD_NONBLOCK);
	volatile uint8_t *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	uint32_t slot, lost = 0;
	uint64_t count;

	ck_assert_int_eq(guard_init(), 0);
	guard_notify(ev);
	ck_assert_int_eq(guard_add_told((void *)map, 4096, 0, &lost, &slot), 0);
	ck_assert_uint_eq(map[0], 0);
	ck_assert_uint_eq(lost, 1);
	ck_assert_int_eq(read(ev, &count, sizeof(count)), -1);
	ck_assert_uint_eq(guard_next_marked(), 0);
	guard_remove(slot);
	guard_exit();
	munmap((void *)map, 4096);
	close(fd);
	close(ev);
}
END_TEST

START_TEST(guard_many)
{
	static uint8_t bytes[5000];
	uint32_t slot[5000], i;

	ck_assert_int_eq(guard_init(), 0);
	for (i = 0; i < 5000; i++)
		ck_assert_int_eq(guard_add(&bytes[i], 1, i + 1, &slot[i]), 0);
	for (i = 0; i < 5000; i++)
		guard_remove(slot[i]);
	ck_assert_int_eq(guard_add(bytes, 1, 1, &slot[0]), 0);
	ck_assert_uint_lt(slot[0], 5000);	/* places are used again */
	guard_remove(slot[0]);
	guard_exit();
}
END_TEST

START_TEST(mappings)
{
	struct mappings *m = calloc(1, sizeof(*m));
	struct mapping a = { .id = 5 | 1u << 20 }, b = { .id = 70000 | 2u << 20 };

	ck_assert_int_eq(mapping_set(m, &a), 0);
	ck_assert_int_eq(mapping_set(m, &b), 0);
	ck_assert_ptr_eq(mapping_find(m, a.id), &a);
	ck_assert_ptr_eq(mapping_find(m, b.id), &b);
	ck_assert_ptr_null(mapping_find(m, 5 | 2u << 20));	/* another generation */
	ck_assert_ptr_null(mapping_find(m, (uint64_t)a.id | 1ull << 40));
	ck_assert_ptr_null(mapping_find(m, 6));
	mapping_clear(m, a.id);
	ck_assert_ptr_null(mapping_find(m, a.id));
	mappings_destroy(m);
	free(m);
}
END_TEST

START_TEST(host_copies)
{
	uint8_t from[32], to[32];
	struct arax_launch_range r[2] = {
		{ from, 4, 8, 3 },	/* 0-3, 8-11, 16-19 */
		{ to, 6, 10, 2 },	/* 0-5, 10-15 */
	};
	struct arax_dispatch d = { .opcode = ARAX_OP_COPY };
	const uint8_t want[] = { 0, 1, 2, 3, 8, 9, 255, 255, 255, 255, 10, 11, 16, 17, 18, 19,
				 255 };
	int i;

	for (i = 0; i < 32; i++)
		from[i] = (uint8_t)i;
	memset(to, 255, sizeof(to));
	ck_assert_int_eq(host_run(&d, r, NULL), 0);
	ck_assert_mem_eq(to, want, sizeof(want));
	r[0].length = r[1].length = 0;
	ck_assert_int_eq(host_run(&d, r, NULL), 0);
}
END_TEST

#define PLACES	160u

static uint32_t below(uint32_t n)
{
	return (uint32_t)rand() % n;
}

/* At any place, with as many rows as there are bytes for. */
static struct arax_launch_range any_range(uint8_t *base, uint64_t bytes)
{
	struct arax_launch_range r = { .length = bytes, .count = 1 };
	uint64_t all = bytes;

	do {
		r.count = 1 + below((uint32_t)bytes);
	} while (bytes % r.count);
	r.length = bytes / r.count;
	if (r.count > 1) {
		r.stride = (uint32_t)r.length + below(4);
		all = (r.count - 1) * (uint64_t)r.stride + r.length;
	}
	r.data = base + below(PLACES - (uint32_t)all + 1);
	return r;
}

static void gather(const struct arax_launch_range *r, uint8_t *to)
{
	for (uint32_t i = 0; i < r->count; i++, to += r->length)
		memcpy(to, (uint8_t *)r->data + i * (uint64_t)r->stride, r->length);
}

static void scatter(const struct arax_launch_range *r, const uint8_t *from)
{
	for (uint32_t i = 0; i < r->count; i++, from += r->length)
		memcpy((uint8_t *)r->data + i * (uint64_t)r->stride, from, r->length);
}

/* Whatever the rows of either: each byte is what it was at its source before. */
START_TEST(host_copies_onto_its_source)
{
	struct arax_dispatch d = { .opcode = ARAX_OP_COPY };
	uint8_t place[PLACES], before[PLACES], want[PLACES], bytes[PLACES];

	for (uint32_t i = 0; i < PLACES; i++)
		before[i] = (uint8_t)i;
	for (uint32_t i = 0; i < 200000; i++) {
		uint64_t n = 1 + below(PLACES / 5);
		struct arax_launch_range r[2] = { any_range(place, n), any_range(place, n) };

		memcpy(place, before, PLACES);
		gather(&r[0], bytes);
		scatter(&r[1], bytes);
		memcpy(want, place, PLACES);
		memcpy(place, before, PLACES);
		ck_assert_int_eq(host_run(&d, r, NULL), 0);
		ck_assert_mem_eq(place, want, PLACES);
	}
}
END_TEST

START_TEST(host_fills)
{
	uint32_t width;

	for (width = 1; width <= 16; width *= 2) {
		uint8_t pattern[16], to[80];
		struct arax_launch_range r = { to, 32, 40, 2 };
		struct arax_dispatch d = { .opcode = ARAX_OP_FILL, .arg_len = (uint16_t)width };
		uint32_t i;

		for (i = 0; i < 16; i++)
			pattern[i] = (uint8_t)(i + 1);
		memset(to, 0, sizeof(to));
		ck_assert_int_eq(host_run(&d, &r, pattern), 0);
		for (i = 0; i < 80; i++)
			ck_assert_uint_eq(to[i], i % 40 < 32 ? pattern[i % 40 % width] : 0);
	}
}
END_TEST

/* The core lets as many rows of nothing pass as can be said. */
START_TEST(host_fills_nothing_at_once)
{
	uint8_t pattern = 1, to = 7;
	struct arax_launch_range r = { &to, 0, 0, UINT32_MAX };
	struct arax_dispatch d = { .opcode = ARAX_OP_FILL, .arg_len = 1 };
	int i;

	/* Each would take some seconds. */
	for (i = 0; i < 1000; i++)
		ck_assert_int_eq(host_run(&d, &r, &pattern), 0);
	ck_assert_uint_eq(to, 7);
}
END_TEST

START_TEST(host_services)
{
	uint8_t a[8] = "1234567", b[8] = "";
	struct arax_launch_range r[2] = { { a, 8, 0, 1 }, { b, 8, 0, 1 } };
	struct arax_dispatch d = { .opcode = ARAX_OP_CALL, .kernel = ARAX_SERVICE_PING,
				   .nr_ranges = 2, .access = ARAX_IN | ARAX_OUT << 2 };

	ck_assert_int_eq(host_run(&d, r, NULL), 0);
	ck_assert_mem_eq(a, b, 8);
	r[1].length = 4;
	ck_assert_int_eq(host_run(&d, r, NULL), -EINVAL);
	d.nr_ranges = 1;
	ck_assert_int_eq(host_run(&d, r, NULL), -EINVAL);
	d.kernel = 9;
	ck_assert_int_eq(host_run(&d, r, NULL), -EOPNOTSUPP);
}
END_TEST

START_TEST(ticks_follow_the_clock)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	struct ticks t;
	int i;

	ticks_init(&t);
	for (i = 0; i < 5; i++) {
		int64_t off = (int64_t)(ticks_ns(&t, ticks_now(&t)) - monotonic_ns());

		/* A preemption in between makes ours the older one. */
		ck_assert_int_lt(off, 200000);
		nanosleep(&pause, NULL);
		ticks_anchor(&t);
	}
	ck_assert_uint_eq(ticks_ns(&t, t.anchor - 5), t.anchor_ns);
}
END_TEST

/*
 * A counter of 2.5 GHz, known too well or not well enough, with anchors as the poller makes them,
 * and time that passes between: it never goes back, and is soon where the clock is, at its rate.
 */
#define RATE		((1ull << 32) * 2 / 5)
#define MEGA_TICKS(ns)	((uint64_t)((unsigned __int128)(ns) * 5 / 2))
#define START_NS	123456789000ull

static const int32_t rates_off[] = { 0, 10, -10, 300, -300, 2500, -2500 };	/* ppm */
static const uint64_t anchored_each[] = { 1000000, 1300000, 100000000, 2000000000, 60000000000 };

static void steer_for(struct ticks *t, uint64_t *ns, uint64_t length, uint64_t each, uint64_t off)
{
	for (uint64_t end = *ns + length; *ns < end; ) {
		uint64_t before;

		*ns += each;
		before = ticks_ns(t, MEGA_TICKS(*ns));
		ticks_steer(t, MEGA_TICKS(*ns), *ns, 100);
		ck_assert_uint_ge(before + off, *ns);
		ck_assert_uint_ge(ticks_ns(t, MEGA_TICKS(*ns)), before);
		ck_assert_uint_ge(ticks_ns(t, MEGA_TICKS(*ns) + 1), ticks_ns(t, MEGA_TICKS(*ns)));
		/* Not further ahead than what a rate can be off by. */
		ck_assert_uint_le(ticks_ns(t, MEGA_TICKS(*ns)), *ns + off);
	}
}

START_TEST(ticks_are_steered)
{
	uint64_t each = anchored_each[_i / 7], ns = START_NS, said;
	struct ticks t = {
		.tsc = true, .mult = (uint64_t)((int64_t)RATE + (int64_t)RATE / 1000000 * rates_off[_i % 7]),
		.per_us = 2500, .anchor = MEGA_TICKS(START_NS), .anchor_ns = START_NS,
		.read_ns = START_NS, .base = MEGA_TICKS(START_NS), .base_ns = START_NS,
		.learn_ns = 40000000,
	};

	steer_for(&t, &ns, 3000000000 + 3 * each, each, each / 200 + 10000);
	/* It has been learnt, and what it was ahead is lost. */
	steer_for(&t, &ns, 1000 * 1000000ull, 1000000, each / 200 + 10000);
	ck_assert_int_le(llabs((int64_t)t.mult - (int64_t)RATE), (int64_t)RATE / 1000000);
	said = ticks_ns(&t, MEGA_TICKS(ns + 1000000));
	ck_assert_int_le(llabs((int64_t)(said - (ns + 1000000))), 1000);
	/* The system's clock goes by 300 ppm slower from now on: ours follows. */
	for (int i = 0; i < 30000; i++) {
		uint64_t ticks = MEGA_TICKS(ns + (uint64_t)i * 1000300);

		ticks_steer(&t, ticks, ns + (uint64_t)i * 1000000, 100);
		ck_assert_uint_le(ticks_ns(&t, ticks), ns + (uint64_t)i * 1000000 + 1000);
	}
	ck_assert_int_le(llabs((int64_t)t.mult - (int64_t)(RATE - RATE / 10000 * 3)),
			 (int64_t)RATE / 100000);
}
END_TEST

/* 20 us ahead and asleep for a second: that is lost, and no more. */
START_TEST(ticks_after_a_sleep)
{
	uint64_t ns = START_NS, end;
	struct ticks t = {
		.tsc = true, .mult = RATE, .per_us = 2500, .anchor = MEGA_TICKS(START_NS),
		.anchor_ns = START_NS + 20000, .read_ns = START_NS,
		.base = MEGA_TICKS(START_NS), .base_ns = START_NS,
		.learn_ns = 40000000,
	};

	for (int i = 0; i < 5; i++) {
		ns += 1000000;
		ticks_steer(&t, MEGA_TICKS(ns), ns, 100);
		t.anchor_ns += 20000;
		for (end = ns + 1000000000; ns < end; ns += 1000000)
			ck_assert_uint_ge(ticks_ns(&t, MEGA_TICKS(ns)) + 1000, ns);
		ck_assert_uint_le(ticks_ns(&t, MEGA_TICKS(ns)), ns + 21000);
	}
}
END_TEST

/* The machine slept, was another one meanwhile, or a reading took long: no nonsense is learnt. */
START_TEST(ticks_after_a_jump)
{
	static const struct { int64_t ticks, ns; } jumps[] = {
		{ 3600000000000, 0 },		/* the counter went on alone */
		{ 0, 3600000000000 },		/* the clock did */
		{ -(int64_t)START_NS, 0 },	/* it began anew */
		{ 0, -1000000000 },
	};
	uint64_t ns = START_NS, ticks = MEGA_TICKS(START_NS);
	struct ticks t = {
		.tsc = true, .mult = RATE, .per_us = 2500, .anchor = ticks,
		.anchor_ns = ns, .read_ns = ns, .base = ticks, .base_ns = ns,
		.learn_ns = 40000000,
	};

	for (int i = 0; i < 2000; i++) {
		if (i == 1000) {
			ns += (uint64_t)jumps[_i].ns;
			ticks += (uint64_t)jumps[_i].ticks;
		}
		ns += 1000000;
		ticks += 2500000;
		/* Of a clock that was read 14 ms later. */
		if (i == 1000)
			ticks_steer(&t, ticks, ns + 14000000, 40000000);
		ticks_steer(&t, ticks, ns, 100);
		/* 300 us later: no reason to go there. */
		if (i % 10 == 5)
			ticks_steer(&t, ticks, ns + 300000, 1500000);
		ck_assert_int_le(llabs((int64_t)(ticks_ns(&t, ticks) - ns)), 1000);
		ck_assert_int_le(llabs((int64_t)t.mult - (int64_t)RATE), (int64_t)RATE / 1000000);
	}
	ck_assert_uint_eq(ticks_between(5, 7), 2);
	ck_assert_uint_eq(ticks_between(7, 5), 0);
}
END_TEST

/* ------------------------------------------------------------------ */

#define PRODUCERS	4
#define EACH		20000

struct item {
	struct work work;
	uint32_t producer, number;
};

static struct work_queue queue;
static uint32_t next_of[PRODUCERS], taken;

static void take(struct work *w)
{
	struct item *it = (struct item *)w;

	ck_assert_uint_eq(it->number, next_of[it->producer]++);
	taken++;
	free(it);
}

static void *produce(void *arg)
{
	uint32_t i;

	for (i = 0; i < EACH; i++) {
		struct item *it = calloc(1, sizeof(*it));

		it->work.run = take;
		it->producer = (uint32_t)(uintptr_t)arg;
		it->number = i;
		work_push(&queue, &it->work);
	}
	return NULL;
}

/* Nothing is lost, nothing twice, and each producer's in its order. */
START_TEST(work_in_order)
{
	pthread_t t[PRODUCERS];
	uintptr_t i;

	for (i = 0; i < PRODUCERS; i++)
		pthread_create(&t[i], NULL, produce, (void *)i);
	while (taken < PRODUCERS * EACH) {
		struct work *w = work_take(&queue), *next;

		for (; w; w = next) {
			next = w->next;
			w->run(w);
		}
	}
	for (i = 0; i < PRODUCERS; i++)
		pthread_join(t[i], NULL);
	ck_assert(!work_pending(&queue));
}
END_TEST

/*
 * Two threads hand the role to and fro: what it guards is a plain counter, so
 * that TSan sees a hand-over without order, and everybody a lost update.
 */
#define STEALS	6u

static struct role role;
static uint64_t guarded, steals, kept;

static void no_tick(void *arg)
{
}

/* Lends the role many times; once the kernel runs on, and the role is gone. */
static bool hold(uint32_t turns, bool stuck)
{
	struct timespec long_ = { .tv_nsec = 15000000 };
	uint32_t i;

	for (i = 0; i < turns; i++) {
		struct role_seat *seat;

		guarded++;
		seat = role_lend(&role);
		if (stuck && i == turns / 2)
			nanosleep(&long_, NULL);
		if (!role_return(&role, seat))
			return false;
		kept++;
	}
	return true;
}

static void *hander(void *arg)
{
	struct role_seat *seat = role_seat(&role);
	bool first = arg;

	while (first || role_await(&role, seat, no_tick, NULL)) {
		if (!first)
			steals++;
		first = false;
		while (hold(1000, steals < STEALS)) {
			if (steals >= STEALS) {
				role_stop(&role);
				return NULL;
			}
		}
		role_expect(&role);
	}
	return NULL;
}

START_TEST(role_hand_over)
{
	pthread_t t[2];

	ck_assert_int_eq(role_init(&role), 0);
	ck_assert(!role_is_watched(&role));
	role_expect(&role);
	pthread_create(&t[0], NULL, hander, (void *)1);
	pthread_create(&t[1], NULL, hander, NULL);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	ck_assert_uint_ge(steals, STEALS);
	/* Each loan either came back or was stolen. */
	ck_assert_uint_eq(guarded, kept + steals);
	/* Neither is there any more, however each has ended. */
	ck_assert(!role_is_watched(&role));
	role_destroy(&role);
}
END_TEST

static void *sleeper(void *arg)
{
	return (void *)(uintptr_t)role_await(&role, role_seat(&role), no_tick, NULL);
}

/* The standby goes to deep sleep only behind a sleeping holder, and wakes. */
START_TEST(role_deep_sleep)
{
	pthread_t t;
	void *got;

	ck_assert_int_eq(role_init(&role), 0);
	role_sleep(&role);
	role_expect(&role);
	pthread_create(&t, NULL, sleeper, NULL);
	ck_assert(comes_true(__atomic_load_n(&role.standby_asleep, __ATOMIC_RELAXED) == 1, 1000));
	/* Who watches is still relied on, until it has the role itself. */
	ck_assert(role_is_watched(&role));
	role_wake(&role);
	role_lend(&role);	/* and never comes back */
	pthread_join(t, &got);
	ck_assert_ptr_nonnull(got);
	ck_assert(!role_is_watched(&role));
	role_destroy(&role);
}
END_TEST

START_TEST(role_stops)
{
	struct timespec ms = { .tv_nsec = 200000000 };
	pthread_t t;
	void *got;

	ck_assert_int_eq(role_init(&role), 0);
	role_sleep(&role);
	role_expect(&role);
	pthread_create(&t, NULL, sleeper, NULL);
	nanosleep(&ms, NULL);
	role_stop(&role);
	pthread_join(t, &got);
	ck_assert_ptr_null(got);
	role_destroy(&role);
}
END_TEST

/* A client fills its eventfd and clears O_NONBLOCK: the write comes back. */
START_TEST(wake_blocks_bounded)
{
	const uint64_t full = UINT64_MAX - 1;
	struct wake_watch w = { 0 };
	int fd = eventfd(0, EFD_CLOEXEC);

	ck_assert_int_eq(wake_init(), 0);
	ck_assert_int_eq(write(fd, &full, sizeof(full)), sizeof(full));
	ck_assert_uint_eq(wake_write(fd, &w), WAKE_BLOCKED);
	/* And where it is measured. */
	w.looks = 1;
	ck_assert_uint_eq(wake_write(fd, &w), WAKE_BLOCKED);
	close(fd);
}
END_TEST

/* Adds @n epoll sets to those that watch @fd. */
static void watch(int fd, int *sets, int n)
{
	struct epoll_event ev = { .events = EPOLLIN };

	for (int i = 0; i < n; i++) {
		sets[i] = epoll_create1(EPOLL_CLOEXEC);
		ck_assert_int_ge(sets[i], 0);
		ck_assert_int_eq(epoll_ctl(sets[i], EPOLL_CTL_ADD, fd, &ev), 0);
	}
}

/* The timer comes in the midst of them, and then they are measured. */
START_TEST(wake_measures_what_takes_long)
{
	enum { SETS = 900, COPIES = 20 };
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), copy[COPIES], sets[SETS];
	struct wake_watch w = { 0 }, none = { .looks = 255 };
	struct epoll_event ev = { .events = EPOLLIN };
	uint64_t ns = 0;
	int much = 0;

	ck_assert_int_eq(wake_init(), 0);
	/* A host that is shared may take its time from any of them, but not from most. */
	for (int i = 0; i < 64; i++)
		much += wake_write(fd, &none) > 0;
	ck_assert_int_lt(much, 32);
	watch(fd, sets, SETS);
	/* A set watches a descriptor once, but any number of its copies. */
	for (int c = 0; c < COPIES; c++) {
		copy[c] = dup(fd);
		for (int i = 0; i < SETS; i++)
			ck_assert_int_eq(epoll_ctl(sets[i], EPOLL_CTL_ADD, copy[c], &ev), 0);
	}
	while (!ns)
		ns = wake_write(fd, &w);
	ck_assert_uint_ne(ns, WAKE_BLOCKED);
	for (int i = 0; i < SETS; i++)
		close(sets[i]);
	for (int c = 0; c < COPIES; c++)
		close(copy[c]);
	close(fd);
}
END_TEST

START_TEST(patience_is_each_users)
{
	const uint64_t s = 1000000000u;
	struct patience p;

	patience_init(&p, 1);
	ck_assert(!patience_is_over(&p, 1, s));
	ck_assert(patience_spend(&p, 1, PATIENCE_NS, s));
	ck_assert(patience_spend(&p, 2, 1, s));
	ck_assert(!patience_is_over(&p, 1, s));
	ck_assert(!patience_spend(&p, 1, 1, s));
	ck_assert(patience_is_over(&p, 1, s));
	ck_assert(!patience_is_over(&p, 2, s));
	ck_assert(!patience_is_over(&p, 3, s));
	/* Until half of it is regained, and not only what was too much. */
	ck_assert(patience_is_over(&p, 1, s + s));
	ck_assert(patience_is_over(&p, 1, s + PATIENCE_NS / 2 * PATIENCE_SHARE));
	ck_assert(!patience_is_over(&p, 1, s + (PATIENCE_NS / 2 + 1) * PATIENCE_SHARE));
	/* Time that did not come from one clock in order gives nothing back twice. */
	ck_assert(!patience_is_over(&p, 1, s));
	ck_assert(patience_spend(&p, 1, PATIENCE_NS / 2, s));
	ck_assert(!patience_spend(&p, 1, UINT64_MAX, s));
	ck_assert(patience_is_over(&p, 1, 40 * s));
	/* Who has spent nothing is no longer known. */
	ck_assert(!patience_is_over(&p, 1, 4000 * s));
	ck_assert_uint_eq(p.nr, 0);
	ck_assert(patience_spend(&p, 7, 1, s));
	patience_destroy(&p);
	/* Where all takes ten times as long there is ten times as much, and the same part of the time. */
	patience_init(&p, 10);
	ck_assert(patience_spend(&p, 1, 10 * PATIENCE_NS, s));
	ck_assert(!patience_spend(&p, 1, 10, s));
	ck_assert(patience_is_over(&p, 1, s + PATIENCE_NS / 2 * PATIENCE_SHARE));
	ck_assert(!patience_is_over(&p, 1, s + (PATIENCE_NS / 2 + 1) * PATIENCE_SHARE));
	patience_destroy(&p);
}
END_TEST

static const struct timespec tenth = { .tv_nsec = 100000000 };

/* Whether its timer interrupts the thread: who sleeps too late has had all of its ticks. */
static bool wake_interrupts(int fd, struct wake_watch *w)
{
	int err = 0;

	for (int tries = 0; tries < 20 && !err; tries++) {
		ck_assert_uint_ne(wake_write(fd, w), WAKE_BLOCKED);
		err = nanosleep(&tenth, NULL);
	}
	return err;
}

/* Its timer interrupts the thread for some ticks more, unless it says that it is done. */
START_TEST(wake_rests)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct wake_watch w = { 0 };

	ck_assert_int_eq(wake_init(), 0);
	ck_assert(wake_interrupts(fd, &w));
	ck_assert_uint_ne(wake_write(fd, &w), WAKE_BLOCKED);
	wake_rest();
	ck_assert_int_eq(nanosleep(&tenth, NULL), 0);
	wake_rest();
	/* And again, as if nothing had been. */
	ck_assert(wake_interrupts(fd, &w));
	close(fd);
}
END_TEST

static int parse(struct options *o, const char *a, const char *b)
{
	char *argv[] = { (char *)"araxd", (char *)a, (char *)b, NULL };

	return options_parse(o, b ? 3 : 2, argv);
}

START_TEST(options)
{
	struct options o;
	char path[64];

	ck_assert_int_eq(parse(&o, "--user", NULL), 0);
	ck_assert(o.user);
	ck_assert_int_eq(o.ready_fd, -1);
	ck_assert_int_eq(parse(&o, "--ready-fd", "7"), 0);
	ck_assert_int_eq(o.ready_fd, 7);
	ck_assert_int_eq(parse(&o, "--ready-fd", "x"), -1);
	ck_assert_int_eq(parse(&o, "--log-level", "loud"), -1);
	ck_assert_int_eq(parse(&o, "--nonsense", NULL), -1);
	ck_assert_int_eq(parse(&o, "word", NULL), -1);
	ck_assert_int_eq(parse(&o, "--user", "--no-broker"), -1);
	ck_assert_int_eq(parse(&o, "--version", NULL), 1);
	ck_assert_int_eq(parse(&o, "--socket", "/tmp/x"), 0);
	ck_assert_int_eq(options_socket(&o, "/conf", path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/tmp/x");
	ck_assert_int_eq(parse(&o, "--user", NULL), 0);
	ck_assert_int_eq(options_socket(&o, "/conf", path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/conf");
	unsetenv("XDG_RUNTIME_DIR");
	ck_assert_int_eq(options_socket(&o, "", path, sizeof(path)), -EINVAL);
	ck_assert_int_eq(options_socket(&o, "/much/longer/than/this", path, 10), -ENAMETOOLONG);
}
END_TEST

/* Who made the file, or has it open, is not to read what others do. */
START_TEST(trace_is_its_owners)
{
	char folder[UNIT_TMP_LEN], path[128];
	struct stat before, st;
	struct trace *t;
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "arax-trace-XXXXXX")));
	snprintf(path, sizeof(path), "%s/t", folder);
	fd = open(path, O_RDWR | O_CREAT, 0666);
	ck_assert_int_eq(fchmod(fd, 0666), 0);
	ck_assert_int_eq(fstat(fd, &before), 0);
	ck_assert_int_eq(trace_open(path, &t), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	ck_assert_uint_ne(st.st_ino, before.st_ino);
	trace_close(t);
	close(fd);
	if (!geteuid()) {
		ck_assert_int_eq(chown(path, 1, 1), 0);
		ck_assert_int_eq(trace_open(path, &t), -EPERM);
	}
	unlink(path);
	/* Nobody may ever read from it. */
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(trace_open(path, &t), -EINVAL);
	unlink(path);
	rmdir(folder);
}
END_TEST

/* A driver may call its device anything. */
START_TEST(trace_quotes_names)
{
	struct node node = { .pub.d.opcode = ARAX_OP_MARKER };
	struct trace_task task = {
		.link = "broker", .kernel = "copy", .device = "G\"P\\U\n\303\033[0m",
	};
	char path[UNIT_TMP_LEN], text[1024] = "";
	json_t *line, *device;
	struct trace *t;
	FILE *f;
	int i;

	close(mkstemp(unit_tmp(path, "arax-trace-XXXXXX")));
	ck_assert_int_eq(trace_open(path, &t), 0);
	for (i = 0; i < 2; i++) {
		trace_task(t, &node.pub, &task);
		/* As long as one can be, and each takes six bytes. */
		task.device = "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1"
			      "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1";
	}
	trace_close(t);
	f = fopen(path, "re");
	for (i = 0; i < 2; i++) {
		ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
		line = json_loads(text, 0, NULL);
		ck_assert_ptr_nonnull(line);
		device = json_object_get(line, "device");
		if (i)
			ck_assert_uint_eq(json_string_length(device), strlen(task.device));
		else
			ck_assert_str_eq(json_string_value(device), "G\"P\\U\n?\033[0m");
		json_decref(line);
	}
	fclose(f);
	unlink(path);
}
END_TEST

/* Who launches what is refused for being too much spoils nobody's record. */
START_TEST(trace_of_too_much)
{
	struct node node = { .pub.d.opcode = ARAX_OP_LAUNCH, .pub.sched.work = UINT64_MAX };
	struct trace_task task = { .link = "broker", .kernel = "k", .device = "d" };
	char path[UNIT_TMP_LEN];
	json_t *line;
	struct trace *t;

	close(mkstemp(unit_tmp(path, "arax-trace-XXXXXX")));
	ck_assert_int_eq(trace_open(path, &t), 0);
	trace_task(t, &node.pub, &task);
	trace_close(t);
	line = json_load_file(path, 0, NULL);
	ck_assert_ptr_nonnull(line);
	ck_assert(json_integer_value(json_object_get(line, "work")) == INT64_MAX);
	json_decref(line);
	unlink(path);
}
END_TEST

#define READERS	200u

/* However many wait for a task, all are in its line. */
START_TEST(trace_names_all_successors)
{
	struct graph *g = graph_create(&(struct graph_params){ .slots = 1024 });
	struct trace_task task = { .link = "broker", .kernel = "k", .device = "d" };
	char path[UNIT_TMP_LEN], *text = NULL;
	struct graph_node *writer;
	struct trace *t;
	json_t *line;
	size_t size = 0;
	FILE *f;
	uint32_t i;

	for (i = 0; i <= READERS; i++) {
		struct {
			struct arax_dispatch d;
			struct arax_dispatch_range r;
			uint8_t rest[64];
		} e = {
			.d = { .type = ARAX_DISPATCH_TASK, .opcode = ARAX_OP_LAUNCH,
			       .cells = sizeof(struct arax_dispatch) / 64 + 1,
			       .tag = 1ull << 32 | i, .context = 1, .queue = i + 1,
			       .queue_flags = ARAX_QUEUE_DATAFLOW, .nr_ranges = 1,
			       .access = i ? ARAX_IN : ARAX_OUT, .grid = { 1, 1, 1 },
			       .block = { 1, 1, 1 } },
			.r = { .buffer = 1, .length = 64, .count = 1 },
		};

		ck_assert_int_eq(graph_add(g, &e.d), 0);
	}
	writer = graph_pop_ready(g);
	ck_assert_ptr_nonnull(writer);
	ck_assert_ptr_null(graph_pop_ready(g));
	close(mkstemp(unit_tmp(path, "arax-trace-XXXXXX")));
	ck_assert_int_eq(trace_open(path, &t), 0);
	trace_task(t, writer, &task);
	trace_close(t);
	f = fopen(path, "re");
	ck_assert_int_gt(getline(&text, &size, f), 0);
	line = json_loads(text, 0, NULL);
	ck_assert_uint_eq(json_array_size(json_object_get(line, "then")), READERS);
	json_decref(line);
	free(text);
	fclose(f);
	unlink(path);
	graph_destroy(g);
}
END_TEST

#define ACL	"system.posix_acl_access"
#define STRANGER	100000u	/* nobody here */

static bool has_acl(const char *path)
{
	return getxattr(path, ACL, NULL, 0) > 0;
}

/* A file of ours; false, and said: it can't have an access list. */
static bool make_file(char path[UNIT_TMP_LEN])
{
	int fd = mkstemp(unit_tmp(path, "arax-barred-XXXXXX"));

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, 0626), 0);
	close(fd);
	if (getxattr(path, ACL, NULL, 0) >= 0 || errno != EOPNOTSUPP)
		return true;
	printf("skipped: no ACLs in %s\n", path);
	unlink(path);
	return false;
}

/* Whoever is barred is for a time: then the file is as it was. */
START_TEST(barred_come_and_go)
{
	static struct barred b;
	char path[UNIT_TMP_LEN];
	struct stat st;
	uint32_t i;

	if (!make_file(path))
		return;
	ck_assert_int_eq(barred_add(&b, path, getuid()), -EPERM);
	for (i = 0; i < BARRED_MOST; i++)
		ck_assert_int_eq(barred_add(&b, path, STRANGER + i), 0);
	ck_assert_int_eq(barred_add(&b, path, STRANGER + 7), -EEXIST);
	/* Who has many uids pushes nobody out, and the log says what it is. */
	ck_assert_int_eq(barred_add(&b, path, STRANGER + i), -ENOSPC);
	ck_assert_uint_eq(b.nr, BARRED_MOST);
	for (i = 0; i < BARRED_MOST; i++)
		ck_assert_int_eq(barred_add(&b, path, STRANGER + i), -EEXIST);
	ck_assert_ptr_nonnull(strstr(barred_remedy(-ENOSPC), "as many users are barred as may be"));
	ck_assert_ptr_nonnull(strstr(barred_remedy(-EPERM), "the socket's owner"));
	ck_assert_ptr_nonnull(strstr(barred_remedy(-EBUSY), "setfacl -b"));
	ck_assert_ptr_nonnull(strstr(barred_remedy(-EOPNOTSUPP), "tmpfs"));
	ck_assert(has_acl(path));
	barred_remove(&b, 7);
	ck_assert_uint_eq(b.uid[7], STRANGER + BARRED_MOST - 1);
	ck_assert_int_eq(barred_add(&b, path, STRANGER + 7), 0);
	for (i = 0; i < BARRED_MOST; i++)
		barred_remove(&b, b.nr / 2);
	ck_assert_uint_eq(b.nr, 0);
	ck_assert(!has_acl(path));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0626);
	unlink(path);
}
END_TEST

/* Somebody who knows what he does has given the socket a list. */
START_TEST(barred_leave_others_lists_alone)
{
	struct barred b = { .nr = 0 }, other = { .nr = 0 };
	char path[UNIT_TMP_LEN], before[512], after[512];
	ssize_t n;

	if (!make_file(path))
		return;
	ck_assert_int_eq(barred_add(&other, path, STRANGER), 0);
	n = getxattr(path, ACL, before, sizeof(before));
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(barred_add(&b, path, STRANGER + 1), -EBUSY);
	ck_assert_uint_eq(b.nr, 0);
	ck_assert_int_eq(getxattr(path, ACL, after, sizeof(after)), n);
	ck_assert_mem_eq(before, after, (size_t)n);
	unlink(path);
}
END_TEST

/* Who can't be taken from the list is in it still, and is tried again; where it is gone he is not. */
START_TEST(barred_stay_known)
{
	struct barred b = { .nr = 0 };
	char path[UNIT_TMP_LEN], below[UNIT_TMP_LEN + 2];

	if (!make_file(path))
		return;
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(barred_add(&b, path, STRANGER), 0);
		ck_assert_int_eq(barred_add(&b, path, STRANGER + 1), 0);
		/* ENOTDIR is none of the errors that say that there is none. */
		snprintf(below, sizeof(below), "%s/x", path);
		b.path = below;
		barred_remove(&b, 0);
		ck_assert_uint_eq(b.nr, 2);
		ck_assert_uint_eq(b.uid[0], STRANGER + 1);
		ck_assert_uint_eq(b.uid[1], STRANGER);
		b.path = path;
		barred_remove(&b, 0);
		ck_assert_uint_eq(b.nr, 1);
		b.path = below;
		barred_remove(&b, 0);
		ck_assert_uint_eq(b.nr, 1);
		b.path = path;
		if (i)
			unlink(path);
		barred_remove(&b, 0);
		ck_assert_uint_eq(b.nr, 0);
	}
	/* Nor is somebody added who could not be. */
	ck_assert_int_eq(barred_add(&b, path, STRANGER), -ENOENT);
	ck_assert_uint_eq(b.nr, 0);
}
END_TEST

static mode_t mode_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* All for a while, with the list and without it: then it is as it was, or as somebody has made it since. */
START_TEST(barred_all_at_once)
{
	struct barred b = { .nr = 0 };
	char path[UNIT_TMP_LEN];

	if (!make_file(path))
		return;
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(barred_shut(&b, path), 0);
		ck_assert_uint_eq(mode_of(path), 0600);
		barred_open(&b);
		ck_assert(!b.shut);
		ck_assert_uint_eq(mode_of(path), 0626);
		ck_assert_int_eq(has_acl(path), i);
		ck_assert_int_eq(barred_add(&b, path, STRANGER + i), 0);
	}
	barred_remove(&b, 0);
	barred_remove(&b, 0);
	ck_assert_uint_eq(mode_of(path), 0626);
	ck_assert_int_eq(barred_shut(&b, path), 0);
	ck_assert_int_eq(chmod(path, 0660), 0);
	barred_open(&b);
	ck_assert(!b.shut);
	ck_assert_uint_eq(mode_of(path), 0660);
	/* Nobody comes where it has gone. */
	ck_assert_int_eq(barred_shut(&b, path), 0);
	unlink(path);
	barred_open(&b);
	ck_assert(!b.shut);
	ck_assert_int_eq(barred_shut(&b, path), -ENOENT);
	ck_assert(!b.shut);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("daemon parts");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 120);
	tcase_add_test(t, cgroup_line);
	tcase_add_test(t, trace_names_all_successors);
	tcase_add_test(t, trace_is_its_owners);
	tcase_add_test(t, peers_are_who_connected);
	tcase_add_test(t, cgroup_of_who_has_no_main_thread);
#ifndef __SANITIZE_THREAD__
	tcase_add_loop_test(t, few_threads_are_asked, 0, 2);
#endif
	tcase_add_test(t, holdings_are_parted);
	tcase_add_test(t, what_came_unasked_counts);
	tcase_add_test(t, what_is_given_back_later_makes_room_at_once);
	tcase_add_test(t, barred_come_and_go);
	tcase_add_test(t, barred_leave_others_lists_alone);
	tcase_add_test(t, barred_stay_known);
	tcase_add_test(t, barred_all_at_once);
	tcase_add_test(t, complaints_are_a_line_a_second);
	tcase_add_test(t, limits_go_with_the_folder);
	tcase_add_test(t, what_is_no_cgroup);
	tcase_add_test(t, the_name_is_anothers);
	tcase_add_test(t, no_escape_by_path);
	tcase_add_test(t, outside_of_the_mount);
	tcase_add_test(t, ids_are_secret);
	tcase_add_test(t, handlers_are_on_signals_stack);
	tcase_add_test(t, guard_survives);
	tcase_add_test(t, guard_slot_is_reused);
	tcase_add_test(t, guard_comes_back);
	tcase_add_test(t, guard_without_owner);
#ifdef __LP64__
	tcase_add_test(t, who_needs_the_reserve_sleeps);
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	tcase_add_test_raise_signal(t, guard_is_not_deaf, SIGBUS);
	tcase_add_test(t, guard_without_memory);
#endif
	tcase_add_test(t, guard_many);
	tcase_add_test(t, mappings);
	tcase_add_test(t, host_copies);
	tcase_add_test(t, host_copies_onto_its_source);
	tcase_add_test(t, host_fills);
	tcase_add_test(t, host_fills_nothing_at_once);
	tcase_add_test(t, host_services);
	tcase_add_test(t, ticks_follow_the_clock);
	tcase_add_loop_test(t, ticks_are_steered, 0, 7 * 5);
	tcase_add_test(t, ticks_after_a_sleep);
	tcase_add_loop_test(t, ticks_after_a_jump, 0, 4);
	tcase_add_test(t, work_in_order);
	tcase_add_test(t, role_hand_over);
	tcase_add_test(t, role_deep_sleep);
	tcase_add_test(t, role_stops);
	tcase_add_test(t, wake_blocks_bounded);
	tcase_add_test(t, wake_rests);
	tcase_add_test(t, wake_measures_what_takes_long);
	tcase_add_test(t, patience_is_each_users);
	tcase_add_test(t, options);
	tcase_add_test(t, trace_quotes_names);
	tcase_add_test(t, trace_of_too_much);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
