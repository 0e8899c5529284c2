// SPDX-License-Identifier: MIT
/*
 * Loaders take one folder, or one file: for two drivers of three there is a folder of our own.  It
 * has the names of their libraries again, since workers can't read everybody's files.
 */
#include "daemon/backends/opencl/drivers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int drivers_add(char *libraries, const char *icd)
{
	size_t at = strlen(libraries), n;
	int fd = open(icd, O_RDONLY | O_CLOEXEC);
	char name[512];
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (got < 0)
		return -EIO;
	name[got] = '\0';
	n = strcspn(name, "\n");
	name[n] = '\0';
	if (!n || strchr(name, ':'))
		return -EINVAL;
	if (at + 1 + n >= DRIVERS_LEN)
		return -ENOSPC;
	snprintf(libraries + at, DRIVERS_LEN - at, "%s%s", at ? ":" : "", name);
	return 0;
}

static void name_of(char *path, size_t len, const char *folder, int i)
{
	snprintf(path, len, "%s/%02d.icd", folder, i);
}

int drivers_only(const char *libraries, const char *folder)
{
	const char *from = libraries;
	char path[256];

	for (int i = 0; *from; i++) {
		size_t n = strcspn(from, ":");
		int fd;

		name_of(path, sizeof(path), folder, i);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		if (write(fd, from, n) != (ssize_t)n || write(fd, "\n", 1) != 1) {
			close(fd);
			return -EIO;
		}
		close(fd);
		from += n + (from[n] == ':');
	}
	return setenv("OCL_ICD_VENDORS", folder, 1) ? -errno : 0;
}

void drivers_remove(const char *folder)
{
	char path[256];

	for (int i = 0;; i++) {
		name_of(path, sizeof(path), folder, i);
		if (unlink(path))
			break;
	}
	rmdir(folder);
}
