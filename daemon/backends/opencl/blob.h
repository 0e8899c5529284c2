/* SPDX-License-Identifier: MIT */
/* blob.h - bytes and how many, on their way to a file */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_BLOB_H
#define ARAX_DAEMON_BACKENDS_OPENCL_BLOB_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

struct blob {
	void *data;
	size_t bytes;
};

/* All of it, or a negative errno. */
static inline int blob_write(int fd, const void *data, size_t bytes)
{
	const char *from = data;

	while (bytes) {
		ssize_t n = write(fd, from, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		from += n;
		bytes -= (size_t)n;
	}
	return 0;
}

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_BLOB_H */
