// SPDX-License-Identifier: MIT
/* The link to arax.ko: system calls on /dev/arax. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "barrier.h"
#include "error.h"
#include "link.h"
#include "nap.h"

struct link_kernel {
	struct link link;
	int fd;
	void *region;
	size_t region_size;
	uint32_t sleep_flags;		/* those of SUBMIT that the module knows */
};

static struct link_kernel *to_kernel(struct link *l)
{
	return (struct link_kernel *)l;
}

static int kernel_call(struct link *l, unsigned int nr, void *arg)
{
	const struct link_call *c = link_call_find(nr);

	if (!c)
		return -ENOTTY;
	if (ioctl(to_kernel(l)->fd, _IOC(_IOC_READ | _IOC_WRITE, ARAX_IOC_TYPE, nr, c->size), arg))
		return -errno;
	return 0;
}

/*
 * A call that sleeps.  An ioctl() is no cancellation point, but there is nothing in it that a
 * thread which ends anywhere in it would leave undone.
 */
static int kernel_call_sleeping(struct link *l, unsigned int nr, void *arg)
{
	int type, ret;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	ret = kernel_call(l, nr, arg);
	pthread_setcanceltype(type, NULL);
	return ret;
}

static int kernel_map(struct link_kernel *k, uint64_t bytes, uint64_t offset, void **data)
{
	void *p;

	/* More than an address has bits for. */
	if ((size_t)bytes != bytes)
		return -ENOMEM;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, k->fd, (off_t)offset);
	if (p == MAP_FAILED)
		return -errno;
	*data = p;
	return 0;
}

static int kernel_region(struct link *l, struct link_region *r)
{
	struct link_kernel *k = to_kernel(l);
	void *p = NULL;
	int ret;

	r->init.ring_fd = -1;
	r->init.wake_fd = -1;
	r->init.doorbell_fd = -1;
	ret = kernel_call(l, ARAX_NR_CONTEXT_INIT, &r->init);
	if (ret)
		return ret;
	ret = kernel_map(k, r->init.region_size, 0, &p);
	if (ret)
		return ret;
	k->region = p;
	k->region_size = r->init.region_size;
	r->base = p;
	l->ctl = p;
	return 0;
}

static int kernel_buffer_create(struct link *l, struct arax_buffer_create *a, void **data)
{
	struct arax_handle h = { .size = sizeof(h) };
	int ret;

	a->fd = -1;
	ret = kernel_call(l, ARAX_NR_BUFFER_CREATE, a);
	if (ret)
		return ret;
	ret = kernel_map(to_kernel(l), a->bytes, a->map_offset, data);
	if (ret) {
		h.handle = a->handle;
		kernel_call(l, ARAX_NR_BUFFER_DESTROY, &h);
	}
	return ret;
}

static int kernel_buffer_map(struct link *l, const struct arax_buffer_import *a, int fd,
			     void **data)
{
	return kernel_map(to_kernel(l), a->bytes, a->map_offset, data);
}

/*
 * Nothing taken, and nothing wrong: others' tasks may have to end first, or the module to be done
 * with what a daemon has left, and nothing tells of that.
 */
static int await_room(struct link *l, struct timespec *for_room)
{
	uint32_t dead = load_relaxed(&l->ctl->dead);
	int cancel;

	if (dead)
		return dead == EOWNERDEAD ? -ENOTCONN : -EPIPE;
	/* What is left to submit is this thread's to do, so it isn't cancelled here. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	nap(for_room);
	pthread_setcancelstate(cancel, NULL);
	return 0;
}

static int kernel_kick(struct link *l, uint32_t count, bool *woke)
{
	struct arax_submit s = { .size = sizeof(s), .deadline_ns = ARAX_DEADLINE_NONE };
	struct timespec for_room = NAP_FIRST;
	int ret;

	*woke = false;
	while (count) {
		s.to_submit = count;
		s.submitted = 0;
		ret = kernel_call(l, ARAX_NR_SUBMIT, &s);
		count -= s.submitted < count ? s.submitted : count;
		if (s.submitted)
			for_room = NAP_FIRST;
		else if (ret == -EAGAIN)
			ret = await_room(l, &for_room);
		else if (!ret)
			ret = -EAGAIN;
		if (ret && ret != -EINTR)
			return ret;
	}
	return 0;
}

/* The daemon's state isn't known here: the waiter's own history decides. */
static bool kernel_peer_awake(struct link *l)
{
	return true;
}

/* The younger one goes first.  Only one thread sleeps here at a time. */
static bool older_flags(uint32_t *flags)
{
	uint32_t had = *flags;

	*flags = had & ARAX_SUBMIT_AS_ASKED ? ARAX_SUBMIT_SEEN : 0;
	return had;
}

static int kernel_sleep(struct link *l, uint64_t deadline, uint32_t seen)
{
	struct arax_submit s = {
		.size = sizeof(s),
		.min_complete = 1,
		.deadline_ns = deadline,
	};
	uint32_t *flags = &to_kernel(l)->sleep_flags;
	int ret;

	do {
		s.flags = *flags;
		s.seen = s.flags ? seen : 0;
		ret = kernel_call_sleeping(l, ARAX_NR_SUBMIT, &s);
	} while (ret == -EOPNOTSUPP && older_flags(flags));
	return ret == -EINTR ? 0 : ret;
}

static int kernel_poll_fds(struct link *l, int fds[2])
{
	fds[0] = to_kernel(l)->fd;
	fds[1] = -1;
	return 0;
}

/* Only the module can end a context, and it says so in the control page. */
static bool kernel_hangup(struct link *l)
{
	return false;
}

static void kernel_close(struct link *l, bool forked)
{
	struct link_kernel *k = to_kernel(l);

	/* A child has no such mapping: something else may be in its place. */
	if (k->region && !forked)
		munmap(k->region, k->region_size);
	close(k->fd);
	free(k);
}

static int kernel_call_any(struct link *l, unsigned int nr, void *arg)
{
	return nr == ARAX_NR_WAIT ? kernel_call_sleeping(l, nr, arg) : kernel_call(l, nr, arg);
}

static const struct link_ops kernel_ops = {
	.call = kernel_call_any,
	.region = kernel_region,
	.buffer_create = kernel_buffer_create,
	.buffer_map = kernel_buffer_map,
	.kick = kernel_kick,
	.peer_awake = kernel_peer_awake,
	.sleep = kernel_sleep,
	.poll_fds = kernel_poll_fds,
	.hangup = kernel_hangup,
	.close = kernel_close,
};

int link_kernel_open(struct link **l, const char *path)
{
	struct link_kernel *k = calloc(1, sizeof(*k));

	if (!k)
		return error_set(-ENOMEM, "arax_open");
	k->fd = open(path, O_RDWR | O_CLOEXEC);
	if (k->fd < 0) {
		int err = -errno;

		free(k);
		return error_set(err, "%s (is arax.ko loaded, and may you open it?)", path);
	}
	k->link.ops = &kernel_ops;
	k->link.type = ARAX_LINK_KERNEL;
	k->sleep_flags = ARAX_SUBMIT_FLAGS;
	*l = &k->link;
	return 0;
}
