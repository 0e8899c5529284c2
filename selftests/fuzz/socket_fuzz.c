// SPDX-License-Identifier: MIT
/*
 * Bytes become messages to a broker in this process: number, sizes, true or not, which
 * descriptors go along, and the struct itself.  A marked INFO at the end shows
 * that everything before it was taken, and a fresh connection that the broker
 * still serves.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/backends/device.h"
#include "daemon/config.h"
#include "daemon/dispatch/poller.h"
#include "daemon/kernels/registry.h"
#include "daemon/link/broker.h"
#include "daemon/memory/guard.h"
#include "kmod/core/layout.h"
#include "selftests/unit/tmp.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct config config;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static int pool[4];	/* ring, eventfd, buffer, /dev/null */
static size_t region_size;

#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void die(const char *what)
{
	perror(what);
	abort();
}

static int memfd(size_t bytes, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) || fallocate(fd, 0, 0, (off_t)bytes) ||
	    fcntl(fd, F_ADD_SEALS, seals))
		die("memfd");
	return fd;
}

static void remove_files(void)
{
	char lock[sizeof(address.sun_path) + 8];

	snprintf(lock, sizeof(lock), "%s.lock", address.sun_path);
	unlink(lock);
	unlink(address.sun_path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct broker *broker;
	static struct poller *poller;
	struct broker_params bp = { .config = &config, .mode = 0600, .own_admin = true };
	struct arax_layout l;
	static struct devices *devices;
	char name[40];

	log_init(STDERR_FILENO, LOG_LEVEL_ERR, LOG_FORMAT_PLAIN);
	snprintf(name, sizeof(name), "arax-fuzz-%d.sock", (int)getpid());
	unit_tmp(address.sun_path, name);
	atexit(remove_files);
	bp.path = address.sun_path;
	if (config_init(&config) || guard_init() || devices_open(&config, &devices) ||
	    broker_create(&bp, &broker) ||
	    poller_create(&config, registry_create(), devices, &poller) ||
	    poller_add_link(poller, broker_link(broker)) || poller_start(poller) ||
	    broker_start(broker))
		die("daemon");
	arax_layout(8, 128, 4096, &l);
	region_size = l.region_size;
	pool[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pool[2] = memfd(4096, SEALS);
	pool[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
	return 0;
}

static int dial(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("connect");
	return fd;
}

/* Returns false if the other side hung up.  @head: so much of the header. */
static bool post_some(int fd, const struct arax_msg *msg, size_t head, const void *body,
		      size_t bytes, const int *fds, uint32_t nr)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
	} control = { .bytes = { 0 } };
	struct iovec iov[2] = { { (void *)msg, head }, { (void *)body, bytes } };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };

	if (nr) {
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * nr);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * nr);
		memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * nr);
	}
	return sendmsg(fd, &mh, MSG_NOSIGNAL) >= 0;
}

static bool post(int fd, const struct arax_msg *msg, const void *body, size_t bytes,
		 const int *fds, uint32_t nr)
{
	return post_some(fd, msg, sizeof(*msg), body, bytes, fds, nr);
}

/* Reads answers until the marked one; false: hung up. */
static bool settle(int fd)
{
	struct arax_info info = { .size = sizeof(info) };
	struct arax_msg msg = { .nr = ARAX_NR_INFO, .id = 0xfeedbeef };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t buf[2048];

	if (!post(fd, &msg, &info, sizeof(info), NULL, 0))
		return false;
	for (;;) {
		if (poll(&p, 1, 20000) != 1)
			die("no answer");
		if (recv(fd, buf, sizeof(buf), 0) <= 0)
			return false;
		memcpy(&msg, buf, sizeof(msg));
		if (msg.id == 0xfeedbeef)
			return true;
	}
}

/*
 * The fourth byte of a message's input: what is done after it, or wrong with it.  The least three
 * bits of ODD and LONGER are by how many bytes it is longer than that, less 4.
 */
enum {
	WRONG_FDS = 0xff, WRONG_RESULT = 0xfe, SEAL_AFTER = 0xfd,
	ANY_SIZE = 0xfc,	/* what the struct says of its size comes from the input, too */
	LONGER = 0xf0,		/* the struct says the size without them */
	ODD = 0xe0,		/* the struct says the size with them */
	NO_STRUCT = 0xd0,	/* part of a header */
	TOO_LONG = 0xd1,	/* for any message */
};

#define MOST_BYTES	(255u * 4)	/* of a struct */
#define TIMES		5u		/* that, for TOO_LONG */

/* The bytes of the struct, and what it says that they are. */
static size_t length_of(size_t bytes, uint8_t what, uint32_t *given)
{
	bool odd = (what & 0xf8) == ODD, longer = (what & 0xf8) == LONGER;
	size_t n = bytes;

	if (odd || longer)
		n = bytes + (what & 7) >= 4 ? bytes + (what & 7) - 4 : 0;
	if (what == TOO_LONG)
		n = bytes * TIMES;
	*given = (uint32_t)(longer ? bytes : n);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = dial();
	bool up = true;

	/* To be sealed when it has been mapped: afresh for each. */
	pool[0] = memfd(region_size, 0);
	/* number, length, descriptors (two bits each, 3 of them), what is wrong or done */
	while (size >= 4 && up) {
		struct arax_msg msg = { .nr = data[0], .id = 1 };
		uint32_t nr = data[2] >> 6 & 3, i, given;
		size_t bytes = (size_t)data[1] * 4, head = sizeof(msg);
		uint8_t body[MOST_BYTES * TIMES] = { 0 }, what = data[3];
		int fds[3];

		for (i = 0; i < nr; i++)
			fds[i] = pool[data[2] >> (2 * i) & 3];
		msg.nr_fds = nr ^ (what == WRONG_FDS);
		msg.result = what == WRONG_RESULT;
		data += 4;
		size -= 4;
		if (what == NO_STRUCT) {
			head = bytes / 4 % sizeof(msg);
			bytes = 0;
		}
		bytes = length_of(bytes, what, &given);
		memcpy(body, &given, 4);
		for (i = what == ANY_SIZE ? 0 : 4; i < bytes && size; i++, size--)
			body[i] = *data++;
		up = post_some(fd, &msg, head, body, bytes, fds, nr);
		if (what == SEAL_AFTER && up && settle(fd))
			fcntl(pool[0], F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE);
	}
	if (up)
		settle(fd);
	close(fd);
	close(pool[0]);
	fd = dial();
	if (!settle(fd))
		die("refused");
	close(fd);
	return 0;
}
