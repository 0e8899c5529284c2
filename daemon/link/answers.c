// SPDX-License-Identifier: MIT
#include "daemon/link/answers.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uapi/arax.h"

static int unread_bytes(int fd)
{
	int bytes;

	return ioctl(fd, SIOCOUTQ, &bytes) ? -errno : bytes;
}

/* Negative errno, or what counts for one message. */
static int measure(size_t bytes)
{
	static const uint8_t any[ARAX_MSG_MAX];
	int pair[2], got;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	got = send(pair[0], any, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno :
									   unread_bytes(pair[0]);
	close(pair[0]);
	close(pair[1]);
	return got;
}

int answers_measure(struct answers *a)
{
	int shortest = measure(sizeof(struct arax_msg));
	int wait = measure(sizeof(struct arax_msg) + sizeof(struct arax_wait));

	if (shortest <= 0 || wait <= 0)
		return shortest < 0 ? shortest : wait < 0 ? wait : -EIO;
	a->shortest = (uint32_t)shortest;
	a->wait = (uint32_t)wait;
	return 0;
}

/* What Linux grants anybody by default (wmem_max) is enough; it allows for half of what it counts. */
void answers_make_room(const struct answers *a, int fd, uint32_t waits, uint32_t others)
{
	const int bytes = (int)(waits * a->wait + others * a->shortest) / 2;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int64_t answers_unread(const struct answers *a, int fd)
{
	int bytes = unread_bytes(fd);

	return bytes < 0 ? -1 : (int64_t)((uint32_t)bytes / a->shortest);
}
