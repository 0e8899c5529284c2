// SPDX-License-Identifier: MIT
#include "libarax/admin/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check(int fd, mode_t type, char *why, size_t len)
{
	struct stat st;

	if (fstat(fd, &st)) {
		int err = -errno;

		snprintf(why, len, "fstat: %m");
		return err;
	}
	if ((st.st_mode & S_IFMT) != type) {
		snprintf(why, len, "not a %s", type == S_IFDIR ? "folder" : "regular file");
		return -EINVAL;
	}
	if (st.st_uid != 0 && st.st_uid != geteuid()) {
		if (geteuid() == 0)
			snprintf(why, len, "owner is uid %u, must be root", st.st_uid);
		else
			snprintf(why, len, "owner is uid %u, must be root or %u", st.st_uid,
				 geteuid());
		return -EPERM;
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		snprintf(why, len, "mode %#o: writable by %s, take that away with chmod go-w",
			 st.st_mode & 07777, st.st_mode & S_IWOTH ? "everyone" : "its group");
		return -EPERM;
	}
	return 0;
}

static int checked(int fd, mode_t type, char *why, size_t len)
{
	int err;

	if (fd < 0) {
		err = -errno;
		snprintf(why, len, err == -ELOOP ? "is a symbolic link" : "open: %m");
		return err;
	}
	err = check(fd, type, why, len);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int trusted_open_folder(const char *path, char *why, size_t len)
{
	/* O_NOFOLLOW with O_DIRECTORY reports a link as ENOTDIR: look first. */
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd >= 0) {
		int link = fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);

		close(fd);
		if (link) {
			snprintf(why, len, "is a symbolic link");
			return -ELOOP;
		}
	}
	return checked(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), S_IFDIR, why,
		       len);
}

int trusted_open_file(int folder, const char *name, char *why, size_t len)
{
	/* O_NONBLOCK: a FIFO must not hold up the daemon before it is refused. */
	return checked(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), S_IFREG,
		       why, len);
}

int trusted_open_path(const char *path, char *why, size_t len)
{
	const char *slash = strrchr(path, '/');
	char *folder;
	int dir, fd;

	if (!slash || !slash[1]) {
		snprintf(why, len, "not an absolute path of a file");
		return -EINVAL;
	}
	folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!folder)
		return -ENOMEM;
	dir = trusted_open_folder(folder, why, len);
	free(folder);
	if (dir < 0) {
		size_t used = strlen(why);

		if (used < len)
			snprintf(why + used, len - used, " (its folder)");
		return dir;
	}
	fd = trusted_open_file(dir, slash + 1, why, len);
	close(dir);
	return fd;
}

int trusted_read(int fd, size_t max, char **text, size_t *bytes)
{
	size_t size = 4096, used = 0;
	char *buf = malloc(size + 1), *more;
	int err = -ENOMEM;

	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t n = read(fd, buf + used, size - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = -errno;
			goto out;
		}
		if (n == 0)
			break;
		used += (size_t)n;
		if (used > max) {
			err = -E2BIG;
			goto out;
		}
		if (used == size) {
			more = realloc(buf, size * 2 + 1);
			if (!more)
				goto out;
			buf = more;
			size *= 2;
		}
	}
	buf[used] = '\0';
	*text = buf;
	*bytes = used;
	return 0;
out:
	free(buf);
	return err;
}
