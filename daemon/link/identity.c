// SPDX-License-Identifier: MIT
/* Peer credentials, pidfds and cgroup paths. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

struct identity {
	bool mounted;
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

struct identity *identity_create(void)
{
	struct identity *id = calloc(1, sizeof(*id));

	if (id)
		find_mount(id);
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

static int read_proc(pid_t pid, const char *name, char *buf, size_t len)
{
	char path[64];
	size_t done = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (done + 1 < len && (n = read(fd, buf + done, len - 1 - done)) > 0)
		done += (size_t)n;
	close(fd);
	buf[done] = 0;
	return 0;
}

/* A descriptor of the very process that connected. */
static int peer_pidfd(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) && pidfd >= 0)
		return pidfd;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return pidfd < 0 ? -errno : pidfd;
}

int identity_peer(int fd, struct peer *peer)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	char text[8192];
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
		err = read_proc(cred.pid, "cgroup", text, sizeof(text));
	if (!err && identity_parse_cgroup(text, peer->cgroup, sizeof(peer->cgroup)))
		strcpy(peer->cgroup, "/");
	if (!err)
		err = read_proc(cred.pid, "comm", text, sizeof(text));
	if (!err) {
		text[strcspn(text, "\n")] = 0;
		memcpy(peer->comm, text, strnlen(text, sizeof(peer->comm) - 1));
	}
	/* If it lives still, what was read by number was its own. */
	if (!err && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) && errno == ESRCH)
		err = -ESRCH;
	close(pidfd);
	return err;
}

static uint64_t path_hash(const char *path)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * 0x100000001b3ull;
	return h ? h : 1;
}

/* The inode number is what the kernel calls the cgroup's id. */
static uint64_t tenant_id(const struct identity *id, const char *path)
{
	size_t cut = strlen(id->root);
	char full[8300];
	struct stat st;

	if (!id->mounted || strncmp(path, id->root, cut))
		return path_hash(path);
	snprintf(full, sizeof(full), "%s%s", id->mount, path + cut);
	if (stat(full, &st))
		return path_hash(path);
	return st.st_ino;
}

static int tenant_locked(struct identity *id, struct core *core, const char *path,
			 struct core_tenant **out)
{
	struct core_tenant *t = NULL, *parent = NULL;
	char prefix[4096] = "/";
	const char *at = path;
	size_t n = 0;
	uint32_t depth = 0;

	/* "/", then each component more. */
	for (;;) {
		t = ++depth > CORE_TENANT_DEPTH ? NULL :
		    core_tenant_get(core, tenant_id(id, prefix), parent, prefix);
		if (parent)
			core_tenant_put(core, parent);	/* the child holds it now */
		if (!t)
			return depth > CORE_TENANT_DEPTH ? -EINVAL : -ENOMEM;
		parent = t;
		while (*at == '/')
			at++;
		if (!*at)
			break;
		if (n + strcspn(at, "/") + 2 > sizeof(prefix)) {
			core_tenant_put(core, t);
			return -EINVAL;
		}
		prefix[n++] = '/';
		while (*at && *at != '/')
			prefix[n++] = *at++;
		prefix[n] = 0;
	}
	*out = t;
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

int identity_tenant_by_fd(struct identity *id, struct core *core, int fd,
			  struct core_tenant **out)
{
	char link[32], path[4096], full[8300];
	size_t cut = strlen(id->mount);
	struct statfs fs;
	struct stat st;
	ssize_t n;

	if (!id->mounted)
		find_mount(id);
	if (!id->mounted)
		return -EOPNOTSUPP;
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return -EBADF;
	if (!S_ISDIR(st.st_mode) || (uint32_t)fs.f_type != CGROUP2_SUPER_MAGIC)
		return -EBADF;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return -EBADF;
	path[n] = 0;
	/* By another mount, or removed: there is no path to give it. */
	if (strncmp(path, id->mount, cut) || (path[cut] && path[cut] != '/'))
		return -EBADF;
	snprintf(full, sizeof(full), "%s%s", id->root, path[cut] ? path + cut : "/");
	if (strlen(full) >= sizeof(path))
		return -EBADF;
	return tenant_locked(id, core, full, out);
}
