// SPDX-License-Identifier: MIT
/*
 * Peer credentials, pidfds and cgroup paths.
 *
 * A tenant's id is its cgroup's, which is the inode number of the directory.  Where
 * no cgroup2 is mounted, or the cgroup is not below what is, it is drawn from the path
 * instead, by a sum with a secret key: nobody can look for a path that gets another
 * one's id.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/link/identity.h"
#include "kmod/core/core.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD	77
#endif
#ifndef CGROUP2_SUPER_MAGIC
#define CGROUP2_SUPER_MAGIC 0x63677270
#endif

#define CGROUP_TEXT_MAX	(1u << 20)
#define TASK_EXITS	0x4u	/* PF_EXITING, as the kernel tells it in /proc/PID/stat */
#define LISTED_BYTES	2048u	/* of a process's threads: some 64 with long numbers */

struct identity {
	bool mounted;
	unsigned long magic;	/* of the file system that is mounted */
	uint64_t key;
	char mount[4096];	/* where */
	char root[4096];	/* which cgroup is there; "" for the root */
};

/* "36 35 0:29 / /sys/fs/cgroup rw,... - cgroup2 cgroup2 rw": octal escapes stay. */
static void find_mount(struct identity *id)
{
	char line[16384], root[4096], mount[4096];
	FILE *f = fopen("/proc/self/mountinfo", "re");

	if (!f)
		return;
	while (!id->mounted && fgets(line, sizeof(line), f)) {
		if (!strstr(line, " - cgroup2 "))
			continue;
		if (sscanf(line, "%*d %*d %*s %4095s %4095s", root, mount) != 2)
			continue;
		strcpy(id->mount, mount);
		strcpy(id->root, strcmp(root, "/") ? root : "");
		id->mounted = true;
	}
	fclose(f);
}

static struct identity *create(unsigned long magic)
{
	struct identity *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->magic = magic;
	if (getrandom(&id->key, sizeof(id->key), 0) != sizeof(id->key)) {
		free(id);
		return NULL;
	}
	return id;
}

struct identity *identity_create(void)
{
	struct identity *id = create(CGROUP2_SUPER_MAGIC);

	if (id)
		find_mount(id);
	return id;
}

struct identity *identity_create_at(const char *mount, const char *root)
{
	struct identity *id;
	struct statfs fs;

	if (statfs(mount, &fs))
		return NULL;
	id = create((unsigned long)fs.f_type);
	if (!id)
		return NULL;
	snprintf(id->mount, sizeof(id->mount), "%s", mount);
	snprintf(id->root, sizeof(id->root), "%s", root);
	id->mounted = true;
	return id;
}

void identity_destroy(struct identity *id)
{
	free(id);
}

int identity_parse_cgroup(const char *text, char *path, size_t len)
{
	const char *line, *end;

	for (line = text; *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		if (strncmp(line, "0::/", 4))
			continue;
		line += 3;
		if ((size_t)(end - line) >= len)
			return -ENAMETOOLONG;
		memcpy(path, line, (size_t)(end - line));
		path[end - line] = 0;
		return 0;
	}
	return -ENOENT;
}

static int open_thread(pid_t pid, pid_t tid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * All of it or an error: the line that matters comes last, and those above it may be
 * as long as their owner likes.  The kernel gives ENAMETOOLONG for a path beyond
 * PATH_MAX.
 */
static int read_cgroups(pid_t pid, pid_t tid, char **text)
{
	size_t size = 4096, used = 0;
	char *buf = malloc(size), *more;
	int fd = open_thread(pid, tid, "cgroup"), err = 0;
	ssize_t n = 1;

	if (fd < 0 || !buf)
		err = fd < 0 ? fd : -ENOMEM;
	while (!err && n > 0) {
		n = read(fd, buf + used, size - 1 - used);
		if (n < 0)
			err = -errno;
		else
			used += (size_t)n;
		if (used + 1 < size)
			continue;
		more = size < CGROUP_TEXT_MAX ? realloc(buf, 2 * size) : NULL;
		if (!more)
			err = size < CGROUP_TEXT_MAX ? -ENOMEM : -E2BIG;
		else
			buf = more;
		size *= 2;
	}
	if (fd >= 0)
		close(fd);
	if (err) {
		free(buf);
		return err;
	}
	buf[used] = 0;
	*text = buf;
	return 0;
}

static int read_cgroup(pid_t pid, pid_t tid, struct peer *peer)
{
	char *text;
	int err;

	err = read_cgroups(pid, tid, &text);
	if (err)
		return err;
	err = identity_parse_cgroup(text, peer->cgroup, sizeof(peer->cgroup));
	free(text);
	/* A machine without cgroup2 has one tenant. */
	if (err == -ENOENT) {
		strcpy(peer->cgroup, "/");
		err = 0;
	}
	return err;
}

/* "PID (COMM) STATE PPID PGRP SESSION TTY TPGID FLAGS ...", and what is in COMM is its own. */
static bool exits(pid_t pid, pid_t tid)
{
	int fd = open_thread(pid, tid, "stat");
	unsigned int flags;
	char text[512];
	const char *at;
	ssize_t n;

	if (fd < 0)
		return true;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	at = strrchr(text, ')');
	return !at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1 ||
	       flags & TASK_EXITS;
}

/*
 * Some of a process's threads, the oldest first.  Not by readdir(), which has the kernel make
 * entries of a thousand before it gives the first.
 */
static ssize_t list_threads(pid_t pid, void *buf, size_t bytes)
{
	char path[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = getdents64(fd, buf, bytes);
	if (n < 0)
		n = errno == ENOENT ? -ESRCH : -errno;
	close(fd);
	return n;
}

/*
 * What the kernel does not move any more is a thread that exits, be it that of the process's
 * number, which stays as long as there are others: any that is alive knows.  It was when it was
 * read if it is afterwards.  A debugger that reaps none can have thousands stay that have exited.
 */
static int read_living_cgroup(pid_t pid, struct peer *peer)
{
	char buf[LISTED_BYTES] __attribute__((aligned(__alignof__(struct dirent64))));
	int err = read_cgroup(pid, pid, peer);
	const struct dirent64 *e;
	ssize_t n, at;
	pid_t tid;

	if (err || !exits(pid, pid))
		return err;
	n = list_threads(pid, buf, sizeof(buf));
	if (n < 0)
		return (int)n;
	err = -ESRCH;
	for (at = 0; err && at < n; at += e->d_reclen) {
		e = (const struct dirent64 *)(buf + at);
		tid = (pid_t)atoi(e->d_name);
		if (tid <= 0 || tid == pid)
			continue;
		err = read_cgroup(pid, tid, peer);
		if (!err && exits(pid, tid))
			err = -ESRCH;
	}
	return err == -ENOENT ? -ESRCH : err;
}

static int read_comm(pid_t pid, struct peer *peer)
{
	int fd = open_thread(pid, pid, "comm");
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, peer->comm, sizeof(peer->comm) - 1);
	close(fd);
	if (n < 0)
		return -errno;
	peer->comm[strcspn(peer->comm, "\n")] = 0;
	return 0;
}

/* Root of a container has the uid as well; what it has not is the capability, or not here. */
static int read_root(pid_t pid, struct peer *peer)
{
	const unsigned long long admin = 1ull << CAP_SYS_ADMIN;
	unsigned long long caps = 0;
	struct stat own, its;
	char path[64], line[256];
	FILE *f;

	if (peer->uid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f) && sscanf(line, "CapEff: %llx", &caps) != 1)
		;
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	/* What we can't look into is in another one. */
	peer->root = caps & admin && !stat("/proc/self/ns/user", &own) && !stat(path, &its) &&
		     own.st_dev == its.st_dev && own.st_ino == its.st_ino;
	return 0;
}

/*
 * A descriptor of the very process that connected.  Only Linux before 6.5 can't say: asked by its number
 * after any other error, it could be another one that has the number by now.
 */
static int peer_pidfd(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		return pidfd;
	if (errno != ENOPROTOOPT)
		return errno == EINVAL ? -ESRCH : -errno;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return pidfd < 0 ? -errno : pidfd;
}

int identity_peer(int fd, identity_may *may, void *arg, struct peer *peer)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	struct stat st;
	char dir[32];
	int pidfd, err;

	memset(peer, 0, sizeof(*peer));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.pid <= 0)
		return -ESRCH;		/* of a pid namespace that we can't see */
	pidfd = peer_pidfd(fd, cred.pid);
	if (pidfd < 0)
		return pidfd;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	snprintf(dir, sizeof(dir), "/proc/%d", (int)cred.pid);
	err = stat(dir, &st) ? -ESRCH : 0;
	if (!err)
		err = read_root(cred.pid, peer);
	if (!err && may)
		err = may(arg, peer);
	if (!err)
		err = read_living_cgroup(cred.pid, peer);
	if (!err)
		err = read_comm(cred.pid, peer);
	/* If it lives still, what was read by number was its own. */
	if (!err && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) && errno == ESRCH)
		err = -ESRCH;
	close(pidfd);
	return err;
}

/* ------------------------------------------------------------------ */
/* From paths to tenants                                               */

/*
 * A polynomial in the key, modulo the prime 2^61 - 1: two paths have one id with a
 * chance of their length in 2^61, whoever chose them.  No inode has the top bit.
 */
static uint64_t path_id(const struct identity *id, const char *path)
{
	const uint64_t prime = (1ull << 61) - 1, key = id->key % prime;
	uint64_t sum = 1;

	for (; *path; path++)
		sum = (uint64_t)(((unsigned __int128)sum * key + (uint8_t)*path + 1) % prime);
	return sum | 1ull << 63;
}

/* Is there a ".." on it: to what is outside of our cgroup namespace? */
static bool leads_out(const char *path)
{
	for (; path; path = strchr(path + 1, '/'))
		if (!strncmp(path, "/..", 3) && (!path[3] || path[3] == '/'))
			return true;
	return false;
}

/* The directory of a cgroup, or NULL where it is not below what is mounted. */
static const char *directory(const struct identity *id, const char *cgroup, char *out, size_t len)
{
	size_t cut = strlen(id->root);

	if (!id->mounted || leads_out(cgroup) || strncmp(cgroup, id->root, cut) ||
	    (cut && cgroup[cut] && cgroup[cut] != '/'))
		return NULL;
	if ((size_t)snprintf(out, len, "%s%s", id->mount, cgroup + cut) >= len)
		return NULL;
	return out;
}

int identity_own_cgroup(const struct identity *id, char *dir, size_t len)
{
	struct peer self;
	int err = read_cgroup(getpid(), getpid(), &self);

	if (err)
		return err;
	return directory(id, self.cgroup, dir, len) ? 0 : -ENOENT;
}

static int get_one(const struct identity *id, struct core *core, struct core_tenant *parent,
		   const char *cgroup, struct core_tenant **out)
{
	char full[8300];
	const char *dir = directory(id, cgroup, full, sizeof(full));
	struct core_tenant *t;
	struct stat st;

	if (dir && stat(dir, &st))
		return -ENOENT;
	t = core_tenant_get(core, dir ? st.st_ino : path_id(id, cgroup), parent, cgroup);
	if (!t)
		return -ENOMEM;
	if (dir && !t->link)
		t->link = strdup(dir);
	if (dir && !t->link) {
		core_tenant_put(core, t);
		return -ENOMEM;
	}
	*out = t;
	return 0;
}

/*
 * As far down as there is a directory, and as tenants nest: who makes his cgroup
 * vanish, or deep, counts for what is above it.
 */
static int tenant_locked(struct identity *id, struct core *core, const char *path,
			 struct core_tenant **out)
{
	struct core_tenant *t, *parent = NULL;
	char prefix[4096] = "/";
	const char *at = path;
	uint32_t depth;
	size_t n = 0;
	int err = 0;

	/* "/", then each component more. */
	for (depth = 0; depth < CORE_TENANT_DEPTH; depth++) {
		err = get_one(id, core, parent, prefix, &t);
		if (err)
			break;
		if (parent)
			core_tenant_put(core, parent);	/* the child holds it now */
		parent = t;
		while (*at == '/')
			at++;
		if (!*at || n + strcspn(at, "/") + 2 > sizeof(prefix))
			break;
		prefix[n++] = '/';
		while (*at && *at != '/')
			prefix[n++] = *at++;
		prefix[n] = 0;
	}
	if (err && (err != -ENOENT || !parent)) {
		if (parent)
			core_tenant_put(core, parent);
		return err;
	}
	*out = parent;
	return 0;
}

int identity_tenant(struct identity *id, struct core *core, const char *path,
		    struct core_tenant **out)
{
	int err;

	core_mutex_lock(&core->lock);
	err = tenant_locked(id, core, path, out);
	core_mutex_unlock(&core->lock);
	return err;
}

/* The cgroup that an open directory has been opened as. */
static int cgroup_of_fd(const struct identity *id, int fd, char *cgroup, size_t len)
{
	size_t cut = strlen(id->mount);
	char link[32], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return -EBADF;
	path[n] = 0;
	/* By another mount: there is no path to give it. */
	if (strncmp(path, id->mount, cut) || (path[cut] && path[cut] != '/'))
		return -EBADF;
	n = snprintf(cgroup, len, "%s%s", id->root, path[cut] ? path + cut : "/");
	return n < 0 || (size_t)n >= len ? -EBADF : 0;
}

/* As tenants nest: "/" is 1, "/a" is 2. */
static uint32_t levels(const char *cgroup)
{
	uint32_t n = 1;

	for (; *cgroup; cgroup++)
		n += *cgroup == '/' && cgroup[1] && cgroup[1] != '/';
	return n;
}

int identity_tenant_by_fd(struct identity *id, struct core *core, int fd, bool itself,
			  struct core_tenant **out)
{
	struct core_tenant *t;
	char cgroup[4096];
	struct statfs fs;
	struct stat st;
	bool deep;
	int err;

	if (!id->mounted)
		find_mount(id);
	if (!id->mounted)
		return -EOPNOTSUPP;
	/* The name first, which asks no file system: others might not answer. */
	err = cgroup_of_fd(id, fd, cgroup, sizeof(cgroup));
	if (err)
		return err;
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return -EBADF;
	if (!S_ISDIR(st.st_mode) || (unsigned long)fs.f_type != id->magic)
		return -EBADF;
	/* Then it counts for the ancestor that it has there. */
	deep = levels(cgroup) > CORE_TENANT_DEPTH;
	if (deep && itself)
		return -ELOOP;
	err = tenant_locked(id, core, cgroup, &t);
	if (err)
		return err;
	if (t->id != st.st_ino && !deep) {
		/* The name is free again, or another's. */
		core_tenant_put(core, t);
		return -ENOENT;
	}
	*out = t;
	return 0;
}

bool identity_tenant_gone(const struct identity *id, const struct core_tenant *t)
{
	struct statfs fs;
	struct stat st;

	if (!stat(t->link, &st))
		return st.st_ino != t->id;
	/* Or is it the whole file system that we don't see any more? */
	return errno == ENOENT && !statfs(id->mount, &fs) && (unsigned long)fs.f_type == id->magic;
}

void identity_tenant_free(struct core_tenant *t)
{
	free(t->link);
}
