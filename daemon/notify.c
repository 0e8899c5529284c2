// SPDX-License-Identifier: MIT
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/notify.h"

void notify_manager(const char *state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path = secure_getenv("NOTIFY_SOCKET");
	size_t len;
	ssize_t n;
	int fd;

	if (!path || (path[0] != '/' && path[0] != '@'))
		return;
	len = strlen(path);
	if (len >= sizeof(sa.sun_path))
		return;
	memcpy(sa.sun_path, path, len);
	if (path[0] == '@')
		sa.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	n = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	(void)n;	/* who asked and doesn't listen has himself to blame */
	close(fd);
}

void notify_ready_fd(int fd)
{
	ssize_t n;

	if (fd < 0)
		return;
	n = write(fd, "1", 1);
	(void)n;
}
