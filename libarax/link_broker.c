// SPDX-License-Identifier: MIT
/*
 * The link to araxd's broker: calls over a socket, rings and buffers in memory
 * files that this side makes, so that they are charged to this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "error.h"
#include "eventfd.h"
#include "filelimit.h"
#include "internal.h"
#include "kmod/core/layout.h"
#include "link.h"
#include "nap.h"

/* A call that waits for its reply; on the stack of the thread that makes it. */
struct pending {
	struct pending *next;
	uint32_t id;
	bool done;
	int result;
	size_t bytes;			/* of @arg, then of the reply's */
	int fds[ARAX_MSG_FDS];
	unsigned int nr_fds;
	bool fds_lost;			/* this process had no room for all of them */
	unsigned char reply[ARAX_MSG_MAX];
};

/* What recv_reply() reads. */
struct reply {
	struct arax_msg msg;
	unsigned char arg[ARAX_MSG_MAX];
	int fds[ARAX_MSG_FDS];
	unsigned int nr_fds;
	bool fds_lost;
};

struct link_broker {
	struct link link;
	int sock;
	int wake_fd;
	int sleep_fd;		/* has events of wake_fd and sock for who sleeps */
	bool polled;		/* atomic; others look whether wake_fd is readable, so it is emptied */
	int doorbell_fd;
	void *region;
	size_t region_size;

	/*
	 * Replies come in any order (a wait for a timeline stays away for
	 * long).  One of the waiting threads at a time reads the socket, for all.
	 */
	pthread_mutex_t lock;		/* guards all below */
	pthread_cond_t cond;
	struct pending *pending;
	uint32_t next_id;
	bool reading;
	int dead;			/* what calls return from then on: a negative errno */
};

/* Of sleep_fd's events. */
enum { WOKEN, ENDED };

static struct link_broker *to_broker(struct link *l)
{
	return (struct link_broker *)l;
}

static size_t page_round(uint64_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) & ~(page - 1);
}

/* ------------------------------------------------------------------ */
/* Messages                                                            */

static int send_request(struct link_broker *b, const struct arax_msg *msg, const void *arg,
			size_t bytes, const int *fds)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int) * ARAX_MSG_FDS)];
	} control;
	struct iovec iov[2] = {
		{ .iov_base = (void *)msg, .iov_len = sizeof(*msg) },
		{ .iov_base = (void *)arg, .iov_len = bytes },
	};
	struct msghdr h = { .msg_iov = iov, .msg_iovlen = 2 };

	if (msg->nr_fds) {
		memset(&control, 0, sizeof(control));
		h.msg_control = &control;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * msg->nr_fds);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int) * msg->nr_fds);
		memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * msg->nr_fds);
	}
	while (sendmsg(b->sock, &h, MSG_NOSIGNAL) < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			return -ENOTCONN;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static void close_all(const int *fds, unsigned int n)
{
	while (n--) {
		if (fds[n] >= 0)
			close(fds[n]);
	}
}

static void take_fds(struct reply *r, struct msghdr *h)
{
	struct cmsghdr *c;
	size_t n, i;
	int fd;

	r->nr_fds = 0;
	for (c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			/* The control buffer is rounded up: there may be more than we take. */
			if (r->nr_fds < ARAX_MSG_FDS)
				r->fds[r->nr_fds++] = fd;
			else
				close(fd);
		}
	}
}

/* Reads one reply.  Returns its bytes behind the header, or a negative errno. */
static ssize_t recv_reply(struct link_broker *b, struct reply *r)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int) * ARAX_MSG_FDS)];
	} control;
	struct iovec iov[2] = {
		{ .iov_base = &r->msg, .iov_len = sizeof(r->msg) },
		{ .iov_base = r->arg, .iov_len = sizeof(r->arg) },
	};
	struct msghdr h = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	unsigned int reset = 0;
	ssize_t n;

	do {
		n = recvmsg(b->sock, &h, MSG_CMSG_CLOEXEC);
		/* That ours was not read comes before what had been sent to us, and once. */
	} while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++)));
	if (n < 0)
		return errno == ECONNRESET ? -ENOTCONN : -errno;
	take_fds(r, &h);
	/* Where descriptors are lost the rest is as good: one call fails for it, no other. */
	r->fds_lost = h.msg_flags & MSG_CTRUNC;
	if (n >= (ssize_t)sizeof(r->msg) && !(h.msg_flags & MSG_TRUNC))
		return n - (ssize_t)sizeof(r->msg);
	close_all(r->fds, r->nr_fds);
	return n ? -EPROTO : -ENOTCONN;
}

/* With b->lock held: give a reply to the thread that waits for it. */
static void deliver(struct link_broker *b, const struct reply *r, size_t bytes)
{
	struct pending *p;

	for (p = b->pending; p; p = p->next) {
		if (p->id == r->msg.id && !p->done)
			break;
	}
	if (!p) {
		close_all(r->fds, r->nr_fds);
		return;
	}
	p->result = r->msg.result;
	p->bytes = bytes;
	memcpy(p->reply, r->arg, bytes);
	memcpy(p->fds, r->fds, r->nr_fds * sizeof(*r->fds));
	p->nr_fds = r->nr_fds;
	p->fds_lost = r->fds_lost;
	p->done = true;
}

/* With b->lock held: nobody gets a reply any more. */
static void end_all(struct link_broker *b, int result)
{
	struct pending *p;

	b->dead = result == -EPROTO ? -ENOTCONN : result;
	for (p = b->pending; p; p = p->next) {
		if (p->done)
			continue;
		p->done = true;
		p->result = result;
	}
}

static void forget(struct link_broker *b, const struct pending *p)
{
	struct pending **at;

	for (at = &b->pending; *at != p; at = &(*at)->next)
		;
	*at = p->next;
}

/* ------------------------------------------------------------------ */
/* Calls that sleep: their threads may be cancelled there              */

struct sleeper {
	struct link_broker *b;
	struct pending *p;
};

/* With b->lock held. */
static void waiter_gone(void *arg)
{
	struct sleeper *s = arg;

	forget(s->b, s->p);
	pthread_mutex_unlock(&s->b->lock);
}

/* With b->reading set by this thread. */
static void reader_gone(void *arg)
{
	struct sleeper *s = arg;

	pthread_mutex_lock(&s->b->lock);
	s->b->reading = false;
	pthread_cond_broadcast(&s->b->cond);
	waiter_gone(s);
}

static void await_reader(struct link_broker *b, struct pending *p, int cancel)
{
	struct sleeper s = { b, p };

	pthread_cleanup_push(waiter_gone, &s);
	pthread_setcancelstate(cancel, NULL);
	pthread_cond_wait(&b->cond, &b->lock);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
}

/* Not in recvmsg() itself: a thread that ends there may take another's reply with it. */
static void await_message(struct link_broker *b, struct pending *p, int cancel)
{
	struct pollfd fd = { .fd = b->sock, .events = POLLIN };
	struct sleeper s = { b, p };

	pthread_cleanup_push(reader_gone, &s);
	pthread_setcancelstate(cancel, NULL);
	while (poll(&fd, 1, -1) < 0 && errno == EINTR)
		;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
}

/* ------------------------------------------------------------------ */
/* Calls                                                               */

/* With b->lock held, which it drops to read: reads one reply, for whomever. */
static void read_one(struct link_broker *b, struct pending *p, int cancel)
{
	struct reply r;
	ssize_t n;

	b->reading = true;
	pthread_mutex_unlock(&b->lock);
	if (cancel == PTHREAD_CANCEL_ENABLE)
		await_message(b, p, cancel);
	n = recv_reply(b, &r);
	pthread_mutex_lock(&b->lock);
	b->reading = false;
	if (n >= 0 && r.msg.id == ARAX_MSG_REFUSED && r.msg.result < 0)
		end_all(b, r.msg.result);
	else if (n >= 0)
		deliver(b, &r, (size_t)n);
	else
		end_all(b, n == -EPROTO ? -EPROTO : -ENOTCONN);
	pthread_cond_broadcast(&b->cond);
}

/* @cancel: whether the thread may be cancelled while it waits; else it is not, here. */
static void exchange(struct link_broker *b, struct pending *p, struct arax_msg *msg,
		     const void *arg, size_t bytes, const int *fds, int cancel)
{
	int dead, ret;

	pthread_mutex_lock(&b->lock);
	if (++b->next_id == ARAX_MSG_REFUSED)
		b->next_id++;
	p->id = msg->id = b->next_id;
	p->done = false;
	p->bytes = 0;
	p->nr_fds = 0;
	p->fds_lost = false;
	p->next = b->pending;
	b->pending = p;
	dead = b->dead;
	pthread_mutex_unlock(&b->lock);

	ret = dead ? dead : send_request(b, msg, arg, bytes, fds);

	pthread_mutex_lock(&b->lock);
	/* Why there is nobody to send to may have been said before. */
	if (dead || (ret && ret != -ENOTCONN)) {
		p->result = ret;
		p->done = true;
	}
	while (!p->done) {
		if (b->reading)
			await_reader(b, p, cancel);
		else
			read_one(b, p, cancel);
	}
	forget(b, p);
	pthread_mutex_unlock(&b->lock);
}

static int call_once(struct link *l, unsigned int nr, void *arg)
{
	const struct link_call *c = link_call_find(nr);
	struct link_broker *b = to_broker(l);
	unsigned char request[ARAX_MSG_MAX];
	int fds[ARAX_MSG_FDS], given[2] = { -1, -1 };
	struct arax_msg msg = { .nr = nr };
	struct pending p;
	unsigned int i;
	int *field, cancel;

	if (!c)
		return -ENOTTY;
	memcpy(request, arg, c->size);
	for (i = 0; i < 2 && c->fd_in[i]; i++) {
		field = (int *)(request + c->fd_in[i]);
		given[i] = *field;
		if (*field < 0)
			continue;
		fds[msg.nr_fds] = *field;
		*field = (int)msg.nr_fds++;
	}

	/* The others are short, and have more to lose than they gain by it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	exchange(b, &p, &msg, request, c->size, fds,
		 nr == ARAX_NR_WAIT ? cancel : PTHREAD_CANCEL_DISABLE);

	if (p.result != -ENOTCONN && p.result != -EPROTO && p.bytes >= c->size)
		memcpy(arg, p.reply, c->size);
	for (i = 0; i < 2 && c->fd_in[i]; i++)
		*(int *)((char *)arg + c->fd_in[i]) = given[i];
	if (c->fd_out && !p.result) {
		field = (int *)((char *)arg + c->fd_out);
		if (*field >= 0 && (unsigned int)*field < p.nr_fds) {
			i = (unsigned int)*field;
			*field = p.fds[i];
			p.fds[i] = -1;
		} else {
			*field = -1;
			p.result = p.fds_lost ? -EMFILE : -EPROTO;
		}
	}
	close_all(p.fds, p.nr_fds);
	pthread_setcancelstate(cancel, NULL);
	return p.result;
}

#define SLICE_NS	1000000000u	/* of a wait: so long one that was cancelled keeps its place */
#define PLACE_NS	1000000000u	/* so long one is waited for by what should not fail */

/*
 * The broker doesn't hear of a thread that was cancelled, and a connection has so many places for
 * waits.  One that has begun doesn't end because others have taken them all between two slices.
 * In a namespace of times whose clock is behind the broker's all slices would be over at once: there
 * it is as long as it is.
 */
static int call_wait(struct link *l, struct arax_wait *a)
{
	const uint64_t deadline = a->deadline_ns;
	struct timespec for_place = NAP_FIRST;
	bool begun = false, whole = false;
	uint64_t now, until;
	int ret;

	for (;;) {
		now = now_ns();
		until = !whole && deadline > now && deadline - now > SLICE_NS ? now + SLICE_NS :
										deadline;
		a->deadline_ns = until;
		ret = call_once(l, ARAX_NR_WAIT, a);
		a->deadline_ns = deadline;
		if (ret == -ETIMEDOUT && until != deadline) {
			begun = true;
			whole = now_ns() < until;
			for_place = NAP_FIRST;
		} else if (ret == -ENOSPC && begun) {
			if (now >= deadline)
				return -ETIMEDOUT;
			nap(&for_place);
		} else {
			return ret;
		}
	}
}

/*
 * What has no other reason for it finds all places taken by others that are as short.  Most of
 * them return nothing to their callers, who could not try again.
 */
static int call_with_place(struct link *l, unsigned int nr, void *arg)
{
	const uint64_t until = now_ns() + PLACE_NS;
	struct timespec for_place = NAP_FIRST;
	int ret, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while ((ret = call_once(l, nr, arg)) == -ENOSPC && now_ns() < until)
		nap(&for_place);
	pthread_setcancelstate(cancel, NULL);
	return ret;
}

static int broker_call(struct link *l, unsigned int nr, void *arg)
{
	switch (nr) {
	case ARAX_NR_WAIT:
		return call_wait(l, arg);
	case ARAX_NR_CANCEL:
	case ARAX_NR_BUFFER_DESTROY:
	case ARAX_NR_BUFFER_REVOKE:
	case ARAX_NR_QUEUE_DESTROY:
	case ARAX_NR_TIMELINE_DESTROY:
		return call_with_place(l, nr, arg);
	}
	return call_once(l, nr, arg);
}

/* ------------------------------------------------------------------ */
/* Memory                                                              */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23	/* from Linux 5.14 on */
#endif

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE	0x0010	/* from Linux 5.1 on */
#endif

#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#define THP	"/sys/kernel/mm/transparent_hugepage/"

static bool read_text(const char *path, char *text, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, len - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The size of the huge pages that memory files have for who asks; 0: none. */
static size_t huge_page(void)
{
	static size_t known = 1;
	size_t size = load_relaxed(&known);
	char text[128];

	if (size != 1)
		return size;
	size = 0;
	if (read_text(THP "shmem_enabled", text, sizeof(text)) && strstr(text, "[advise]") &&
	    read_text(THP "hpage_pmd_size", text, sizeof(text)))
		size = strtoull(text, NULL, 10);
	store_relaxed(&known, size);
	return size;
}

/*
 * To ask for what no machine of this size has would take all of it first, from everybody; and who
 * asks for more than he may have in a file dies of SIGXFSZ.
 */
static bool may_be(size_t bytes)
{
	struct sysinfo s;

	return bytes <= PTRDIFF_MAX && bytes <= file_limit() &&
	       (sysinfo(&s) || bytes / s.mem_unit <= s.totalram);
}

#define PIECE_MAX	((size_t)16 << 20)
#define PIECE_MIN	((size_t)64 << 10)

/*
 * Where a signal comes, many a kernel gives back all that the call has brought so far.  So under
 * a timer, a profiler's say, no call may be longer than what comes from one signal to the next.
 */
static int bring_pages(int fd, size_t bytes)
{
	size_t at, n, piece = PIECE_MAX;

	for (at = 0; at < bytes; at += n) {
		n = bytes - at < piece ? bytes - at : piece;
		while (fallocate(fd, 0, (off_t)at, (off_t)n)) {
			if (errno != EINTR)
				return -1;
			if (piece > PIECE_MIN)
				piece /= 2;
			n = n < piece ? n : piece;
		}
	}
	return 0;
}

/*
 * A memory file whose pages are there and whose size, when it has the @seals, can't change any
 * more.  Returns its descriptor.
 */
static int make_memory(const char *name, size_t bytes, int seals, void **data)
{
	/* One that the end is in would be more than was asked, and is charged, for. */
	size_t page = huge_page(), huge = page ? bytes / page * page : 0;
	void *p = MAP_FAILED;
	int err, fd;

	if (!may_be(bytes))
		return -ENOMEM;
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes))
		goto fail;
	/* Huge ones come by being touched; what comes by fallocate() is small. */
	if (!huge && bring_pages(fd, bytes))
		goto fail;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (huge ? 0 : MAP_POPULATE), fd, 0);
	if (p == MAP_FAILED)
		goto fail;
	if (huge && !madvise(p, huge, MADV_HUGEPAGE))
		madvise(p, huge, MADV_POPULATE_WRITE);
	if (huge && bring_pages(fd, bytes))
		goto fail;
	if (huge)
		madvise(p, bytes, MADV_POPULATE_WRITE);
	if (seals && fcntl(fd, F_ADD_SEALS, seals))
		goto fail;
	*data = p;
	return fd;
fail:
	err = errno == ENOSPC || errno == EFBIG ? -ENOMEM : -errno;
	if (p != MAP_FAILED)
		munmap(p, bytes);
	close(fd);
	return err;
}

/*
 * araxd uses nothing that holes could be punched into.  The seal against that forbids mappings to
 * come, too, so it asks for the seals when it has one.
 */
static int init_context(struct link *l, struct arax_context_init *init)
{
	int ret, wake_fd = init->wake_fd;

	init->wake_fd = -1;
	ret = broker_call(l, ARAX_NR_CONTEXT_INIT, init);
	init->wake_fd = wake_fd;
	if (ret != -EINPROGRESS)
		return ret;
	if (fcntl(init->ring_fd, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE))
		return -errno;
	return broker_call(l, ARAX_NR_CONTEXT_INIT, init);
}

/*
 * One call for who sleeps, in place of two: edge-triggered until somebody polls, so that wake_fd
 * need not be emptied.  Replies on the socket are not for him, its end is.
 */
static int make_wakes(struct link_broker *b)
{
	struct epoll_event wake = { .events = EPOLLIN | EPOLLET, .data.u32 = WOKEN };
	struct epoll_event end = { .events = EPOLLRDHUP, .data.u32 = ENDED };

	b->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	b->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
	if (b->wake_fd < 0 || b->sleep_fd < 0 ||
	    epoll_ctl(b->sleep_fd, EPOLL_CTL_ADD, b->wake_fd, &wake) ||
	    epoll_ctl(b->sleep_fd, EPOLL_CTL_ADD, b->sock, &end))
		return -errno;
	return 0;
}

static int broker_region(struct link *l, struct link_region *r)
{
	struct link_broker *b = to_broker(l);
	struct arax_layout layout;
	void *p;
	int ret;

	if (arax_layout(r->init.depth, r->init.entry_size, r->init.arena_size, &layout))
		return -EINVAL;
	r->init.region_size = layout.region_size;
	ret = make_memory("arax-ring", layout.region_size, 0, &p);
	if (ret < 0)
		return ret;
	r->init.ring_fd = ret;
	ret = make_wakes(b);
	if (ret)
		goto out;
	r->init.wake_fd = b->wake_fd;
	r->init.doorbell_fd = -1;
	r->init.sq_offset = layout.sq_offset;
	r->init.cq_offset = layout.cq_offset;
	r->init.arena_offset = layout.arena_offset;
	ret = init_context(l, &r->init);
	if (!ret) {
		b->doorbell_fd = r->init.doorbell_fd;
		b->region = p;
		b->region_size = layout.region_size;
		r->base = p;
		l->ctl = p;
		/* A child that forgets who it is shall not write here. */
		madvise(p, layout.region_size, MADV_DONTFORK);
	}
out:
	if (ret)
		munmap(p, layout.region_size);
	close(r->init.ring_fd);
	r->init.ring_fd = -1;
	return ret;
}

#define LARGE_BUFFER	((size_t)256 << 20)	/* takes a tenth of a second to be made */
#define LEAVING_MS	120u			/* so long others' buffers may still count */

/*
 * Pages take long to come, and room from others: so what will be refused asks for none.  The same
 * call without a memory file gets as far as that, and counts as a refusal of its limit.
 */
static int ask_for_room(struct link *l, const struct arax_buffer_create *a)
{
	struct arax_buffer_create trial = *a;
	int ret = broker_call(l, ARAX_NR_BUFFER_CREATE, &trial);

	/* What a context had that was just closed is let go of while pages would have come. */
	for (unsigned int ms = 8; ret == -EDQUOT && ms < LEAVING_MS; ms *= 4) {
		nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000l }, NULL);
		trial = *a;
		ret = broker_call(l, ARAX_NR_BUFFER_CREATE, &trial);
	}
	return ret == -EBADF ? 0 : ret;
}

static int broker_buffer_create(struct link *l, struct arax_buffer_create *a, void **data)
{
	size_t bytes = page_round(a->bytes);
	void *p;
	int ret;

	if (bytes < a->bytes)
		return -ENOMEM;
	/* A limit comes before what the machine has: whoever is told of that can do something. */
	if (bytes >= LARGE_BUFFER) {
		ret = ask_for_room(l, a);
		if (ret)
			return ret;
	}
	a->fd = make_memory("arax-buffer", bytes, SEALS, &p);
	if (a->fd < 0)
		return a->fd;
	a->bytes = bytes;
	ret = broker_call(l, ARAX_NR_BUFFER_CREATE, a);
	close(a->fd);
	a->fd = -1;
	if (ret)
		munmap(p, bytes);
	else
		*data = p;
	return ret;
}

static int broker_buffer_map(struct link *l, const struct arax_buffer_import *a, int fd,
			     void **data)
{
	size_t bytes = page_round(a->bytes);
	void *p;

	/* More than an address has bits for. */
	if (bytes < a->bytes)
		return -ENOMEM;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	*data = p;
	return 0;
}

/* ------------------------------------------------------------------ */
/* Waking and sleeping                                                 */

static int broker_kick(struct link *l, uint32_t count, bool *woke)
{
	/*
	 * Orders the entries' seq words before the read below.  Pairs with the
	 * barrier of the broker between setting sq_need_wakeup and its last look.
	 */
	full_barrier();
	*woke = load_relaxed(&l->ctl->sq_need_wakeup);
	return *woke ? eventfd_ring(to_broker(l)->doorbell_fd) : 0;
}

static bool broker_peer_awake(struct link *l)
{
	return !load_relaxed(&l->ctl->sq_need_wakeup);
}

/* Of CLOCK_MONOTONIC. */
static struct timespec time_left(uint64_t deadline)
{
	uint64_t now = now_ns(), ns = deadline > now ? deadline - now : 0;

	return (struct timespec){
		.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u),
	};
}

/* How many there are; 0: the time has come.  Negative errno. */
static int await_events(int fd, struct epoll_event *events, int most, uint64_t deadline)
{
	struct pollfd poll = { .fd = fd, .events = POLLIN };
	struct timespec left;
	int n;

	if (deadline == ARAX_DEADLINE_NONE) {
		n = epoll_wait(fd, events, most, -1);
		return n < 0 ? -errno : n;
	}
	left = time_left(deadline);
	n = epoll_pwait2(fd, events, most, &left, NULL);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
		/* A container's filter may be older than this call. */
		n = ppoll(&poll, 1, &left, NULL);
		if (n > 0)
			n = epoll_wait(fd, events, most, 0);
	}
	return n < 0 ? -errno : n;
}

static int broker_sleep(struct link *l, uint64_t deadline, uint32_t seen)
{
	struct link_broker *b = to_broker(l);
	struct epoll_event events[2];
	int i, n = await_events(b->sleep_fd, events, 2, deadline);

	/* Level-triggered then. */
	if (unlikely(load_relaxed(&b->polled)))
		eventfd_empty(b->wake_fd);
	if (n < 0)
		return n == -EINTR ? 0 : n;
	for (i = 0; i < n; i++) {
		if (events[i].data.u32 == ENDED)
			return -ENOTCONN;
	}
	return n ? 0 : -ETIMEDOUT;
}

static int broker_poll_fds(struct link *l, int fds[2])
{
	struct epoll_event wake = { .events = EPOLLIN, .data.u32 = WOKEN };
	struct link_broker *b = to_broker(l);

	store_relaxed(&b->polled, true);
	/*
	 * Who sleeps by now is woken by that, and so will be who sleeps after one that was cancelled
	 * before it emptied what others poll.
	 */
	if (epoll_ctl(b->sleep_fd, EPOLL_CTL_MOD, b->wake_fd, &wake))
		return -errno;
	fds[0] = b->wake_fd;
	fds[1] = b->sock;
	return 0;
}

static bool broker_hangup(struct link *l)
{
	struct pollfd fd = { .fd = to_broker(l)->sock, .events = POLLRDHUP };

	return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void broker_close(struct link *l, bool forked)
{
	struct link_broker *b = to_broker(l);

	/* MADV_DONTFORK: in a child something else may be in its place. */
	if (b->region && !forked)
		munmap(b->region, b->region_size);
	if (b->sleep_fd >= 0)
		close(b->sleep_fd);
	if (b->wake_fd >= 0)
		close(b->wake_fd);
	if (b->doorbell_fd >= 0)
		close(b->doorbell_fd);
	/* A child that lives on has it, too, and would keep the context. */
	if (!forked)
		shutdown(b->sock, SHUT_RDWR);
	close(b->sock);
	if (!forked) {
		pthread_mutex_destroy(&b->lock);
		pthread_cond_destroy(&b->cond);
	}
	free(b);
}

static const struct link_ops broker_ops = {
	.call = broker_call,
	.region = broker_region,
	.buffer_create = broker_buffer_create,
	.buffer_map = broker_buffer_map,
	.kick = broker_kick,
	.peer_awake = broker_peer_awake,
	.sleep = broker_sleep,
	.poll_fds = broker_poll_fds,
	.hangup = broker_hangup,
	.close = broker_close,
};

/* Its mode lets anybody, and it has one. */
static bool has_access_list(const char *path)
{
	struct stat st;

	return !stat(path, &st) && st.st_mode & 0002 &&
	       getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

static int not_connected(int err, const char *path)
{
	if (err == -EACCES && has_access_list(path))
		return error_set(err, "connecting to %s, whose access list forbids it: araxd may be about to close what this user has sent it, which takes long; its log says so",
				 path);
	if (err == -EACCES)
		return error_set(err, "connecting to %s, which its mode or its folder's forbids: this user is not in its group, or users have all of araxd's descriptors that they may have, which its log says; then it lets some in again when some are closed",
				 path);
	return error_set(err, "connecting to %s (" ERROR_NO_DAEMON ")", path);
}

static int connect_to(const char *path, uint32_t uid, bool any_uid)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(struct ucred);
	struct ucred peer;
	socklen_t addr_len;
	int fd, err;

	/* Nor is it to be a name without a file: anybody may listen on any of those. */
	if (!*path)
		return error_set(-EINVAL, "a socket without a path");
	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(-ENAMETOOLONG, "a socket's path has %zu bytes at most, and this one %zu: give a shorter one (ARAX_LINK=broker:PATH, XDG_RUNTIME_DIR): %s",
				 sizeof(addr.sun_path) - 1, strlen(path), path);
	strcpy(addr.sun_path, path);
	addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(-errno, "making a socket");
	/* It sleeps where many connect at once. */
	while (connect(fd, (struct sockaddr *)&addr, addr_len)) {
		if (errno == EINTR)
			continue;
		err = not_connected(-errno, path);
		goto fail;
	}
	/* Of the process that called listen(). */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)) {
		err = error_set(-errno, "asking who listens on %s", path);
		goto fail;
	}
	if (!any_uid && peer.uid != uid) {
		err = error_set(-EPERM, "%s belongs to uid %u, expected %u: not trusted", path,
				peer.uid, uid);
		goto fail;
	}
	return fd;
fail:
	close(fd);
	return err;
}

int link_broker_open(struct link **l, const char *path, uint32_t uid, bool any_uid)
{
	struct link_broker *b = calloc(1, sizeof(*b));

	if (!b)
		return error_set(-ENOMEM, "arax_open");
	b->wake_fd = b->sleep_fd = -1;
	b->doorbell_fd = -1;
	b->sock = connect_to(path, uid, any_uid);
	if (b->sock < 0) {
		int err = b->sock;

		free(b);
		return err;
	}
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->cond, NULL);
	b->link.ops = &broker_ops;
	b->link.type = ARAX_LINK_BROKER;
	*l = &b->link;
	return 0;
}
