// SPDX-License-Identifier: MIT
#include "daemon/libexec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int libexec_open(const char *name, const char *given)
{
	static const char *const places[] = { "../libexec/arax", "../libexec", "." };
	char self[PATH_MAX], path[PATH_MAX + 64], *slash;
	ssize_t n;
	int fd;

	if (given)
		return open(given, O_PATH | O_CLOEXEC);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return -1;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash) {
		errno = ENOENT;
		return -1;
	}
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", self, places[i], name);
		fd = open(path, O_PATH | O_CLOEXEC);
		/* What can't be opened for the moment may be the one. */
		if (fd >= 0 || errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return fd;
	}
	return -1;
}
