// SPDX-License-Identifier: MIT
/*
 * One message: framing, sender, descriptors, struct; then the core's own table
 * says what runs.  Everything is copied by recvmsg() and used from that copy.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/link/broker_impl.h"
#include "daemon/log.h"

#define MAX_FDS			253	/* of a message, by the kernel */
#define LATE_FDS		2u	/* of CONTEXT_INIT: as many as its eventfds will be */
#define MAX_FLYING		64u	/* answers with descriptors that a connection has not read */
#define LATE_NS			1000000000u	/* so long a call may wait for others to have gone */
#define LATE_MOST		4u	/* of a connection */

/* Room for all that can come: what has none is closed by the kernel, on our thread. */
struct request {
	struct arax_msg msg;
	uint8_t body[ARAX_MSG_MAX - sizeof(struct arax_msg) + 1];
	size_t bytes;		/* of body */
	int fds[MAX_FDS];
	uint32_t nr_fds;
	pid_t sender;
	bool cut;		/* there was no room for all of them */
	bool kept;	/* the call has what the descriptors stand for by others */
};

/* A call that waits for room.  @given: as broker->given was before it last had none. */
struct late {
	struct clist node;	/* conn->late */
	struct request r;
	uint64_t until_ns;
	uint32_t given;
	bool waits;
};

static void close_fds(struct conn *c, struct request *r)
{
	for (; r->nr_fds; r->nr_fds--) {
		int fd = r->fds[r->nr_fds - 1];

		if (r->kept)
			close(fd);
		else
			broker_close_foreign(c->broker, c->uid, c->admin, fd);
	}
}

static void take_control(struct msghdr *mh, struct request *r)
{
	struct cmsghdr *cm;

	for (cm = CMSG_FIRSTHDR(mh); cm; cm = CMSG_NXTHDR(mh, cm)) {
		size_t n = cm->cmsg_len - CMSG_LEN(0);

		if (cm->cmsg_level != SOL_SOCKET)
			continue;
		if (cm->cmsg_type == SCM_CREDENTIALS && n >= sizeof(struct ucred)) {
			struct ucred cred;

			memcpy(&cred, CMSG_DATA(cm), sizeof(cred));
			r->sender = cred.pid;
		} else if (cm->cmsg_type == SCM_RIGHTS) {
			size_t i;

			for (i = 0; i < n / sizeof(int); i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
				if (r->nr_fds < MAX_FDS)
					r->fds[r->nr_fds++] = fd;
			}
		}
	}
}

/* All who watch the other end are told when it is sent something, and when what it sent is read. */
static void time_taken_since(struct conn *c, uint64_t thread_ns)
{
	uint64_t ns = wake_beyond_usual(wake_thread_ns() - thread_ns);

	c->slow |= ns > 0;
	broker_time_taken(c->broker, c->uid, c->admin, ns);
}

/* 1: a message; 0: none there; -EPIPE: the connection has ended; -EPROTO */
static int receive(struct conn *c, struct request *r)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) +
			   CMSG_SPACE(sizeof(int) * MAX_FDS)];
	} control;
	struct iovec iov[2] = {
		{ &r->msg, sizeof(r->msg) }, { r->body, sizeof(r->body) },
	};
	struct msghdr mh = {
		.msg_iov = iov, .msg_iovlen = 2,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	uint64_t ns;
	ssize_t n;
	int err;

	r->nr_fds = 0;
	r->sender = 0;
	r->cut = r->kept = false;
	ns = wake_thread_ns();
	n = recvmsg(c->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	err = errno;
	time_taken_since(c, ns);
	if (n < 0)
		return err == EAGAIN || err == EINTR ? 0 : -EPIPE;
	take_control(&mh, r);
	if (!n && !r->nr_fds)
		return -EPIPE;
	/* There is space for as many as can be: it is araxd that has no more of them. */
	r->cut = mh.msg_flags & MSG_CTRUNC;
	if ((size_t)n < sizeof(r->msg) || n > ARAX_MSG_MAX || mh.msg_flags & MSG_TRUNC ||
	    (r->msg.nr_fds != r->nr_fds && (!r->cut || r->msg.nr_fds < r->nr_fds)) ||
	    r->msg.nr_fds > ARAX_MSG_FDS || r->msg.result) {
		close_fds(c, r);
		return -EPROTO;
	}
	r->bytes = (size_t)n - sizeof(r->msg);
	return 1;
}

/*
 * Descriptors that nobody has received count for our user, wherever they are: where there are too many,
 * nobody can be sent any.
 */
static bool may_fly(struct conn *c)
{
	int64_t unread;

	if (c->nr_flying < MAX_FLYING)
		return true;
	unread = answers_unread(&c->broker->answers, c->fd);
	if (unread < 0)
		return true;
	if (unread < c->nr_flying)
		c->nr_flying = (uint32_t)unread;
	return c->nr_flying < MAX_FLYING;
}

static bool send_answer(struct conn *c, struct arax_msg *msg, struct msghdr *mh)
{
	bool flies = mh->msg_control;

	if (!flies || may_fly(c)) {
		if (sendmsg(c->fd, mh, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
			c->nr_flying += flies;
			return true;
		}
		if (!flies || errno != ETOOMANYREFS)
			return false;
	}
	/* Which may be others' doing: so it costs no more than the descriptor. */
	mh->msg_control = NULL;
	mh->msg_controllen = 0;
	msg->nr_fds = 0;
	msg->result = -EMFILE;
	return sendmsg(c->fd, mh, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

void conn_answer(struct conn *c, uint32_t nr, uint32_t id, int result, union core_args *a,
		 uint32_t size, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct arax_msg msg = { .nr = nr, .result = result, .id = id, .nr_fds = fd >= 0 };
	uint8_t body[ARAX_MSG_MAX] = { 0 };
	struct iovec iov[2] = { { &msg, sizeof(msg) }, { body, a ? size : 0 } };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };
	uint64_t ns;
	bool sent;

	if (c->closing)
		return;
	if (a)
		memcpy(body, a, size < sizeof(*a) ? size : sizeof(*a));
	if (fd >= 0) {
		struct cmsghdr *cm = &control.align;

		memset(&control, 0, sizeof(control));
		mh.msg_control = &control;
		mh.msg_controllen = sizeof(control);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(fd));
	}
	ns = wake_thread_ns();
	sent = send_answer(c, &msg, &mh);
	time_taken_since(c, ns);
	/* Who doesn't read his answers has lost his connection. */
	if (!sent)
		conn_close(c);
}

/* ------------------------------------------------------------------ */

/* The in-going descriptor fields of a call, at most two. */
static uint32_t fd_fields(uint32_t nr, union core_args *a, int32_t *field[2])
{
	switch (nr) {
	case ARAX_NR_CONTEXT_INIT:
		field[0] = &a->context_init.ring_fd;
		field[1] = &a->context_init.wake_fd;
		return 2;
	case ARAX_NR_BUFFER_CREATE:
		field[0] = &a->buffer_create.fd;
		return 1;
	case ARAX_NR_BUFFER_IMPORT:
		field[0] = &a->buffer_import.fd;
		return 1;
	case ARAX_NR_TIMELINE_EVENTFD:
		field[0] = &a->timeline_eventfd.fd;
		return 1;
	case ARAX_NR_TIMELINE_IMPORT:
		field[0] = &a->timeline_share.fd;
		return 1;
	case ARAX_NR_LIMIT_SET:
		field[0] = &a->limit.cgroup_fd;
		return 1;
	case ARAX_NR_TENANT_QUERY:
		field[0] = &a->tenant.cgroup_fd;
		return 1;
	}
	return 0;
}

/* From index to descriptor. */
static int resolve(const struct request *r, int32_t *field)
{
	if (*field == -1)
		return 0;
	if (*field < 0 || (uint32_t)*field >= r->nr_fds)
		return -EBADF;
	*field = r->fds[*field];
	return 0;
}

/* The descriptor that the answer carries; *own: close it when it is sent. */
static int fd_out(struct conn *c, uint32_t nr, union core_args *a, bool *own)
{
	int fd = -1;

	*own = false;
	switch (nr) {
	case ARAX_NR_CONTEXT_INIT:
		fd = a->context_init.doorbell_fd;
		a->context_init.doorbell_fd = 0;
		break;
	case ARAX_NR_BUFFER_EXPORT:
		fd = a->buffer_export.fd;
		a->buffer_export.fd = 0;
		break;
	case ARAX_NR_TIMELINE_EXPORT:
		fd = a->timeline_share.fd;
		a->timeline_share.fd = 0;
		*own = true;
		break;
	}
	return fd;
}

struct part_work {
	struct work work;
	struct link *link;
	struct sched_tenant tenant;
};

static void part_now(struct work *w)
{
	struct part_work *pw = (void *)w;

	poller_tell_tenant(pw->link->poller, pw->link, &pw->tenant);
	free(pw);
}

/* The scheduler learns a new weight or maximum of device time. */
static void tell_part(struct broker *b, const struct arax_limit *l)
{
	struct part_work *pw;
	struct core_tenant *t;

	if (l->what != ARAX_SET_WEIGHT && l->what != ARAX_SET_DEVICE_TIME)
		return;
	pw = calloc(1, sizeof(*pw));
	if (!pw)
		return;
	core_mutex_lock(&b->core->lock);
	if (b->core->ops->tenant_by_fd(b->core, l->cgroup_fd, true, &t)) {
		core_mutex_unlock(&b->core->lock);
		free(pw);
		return;
	}
	broker_tenant_of(t, &pw->tenant);
	core_tenant_put(b->core, t);
	core_mutex_unlock(&b->core->lock);
	pw->work.run = part_now;
	pw->link = &b->link;
	poller_post(b->link.poller, &pw->work);
}

int broker_limit_set(struct broker *b, const struct arax_limit *a)
{
	int err = core_limit_set(b->core, a);

	if (!err)
		tell_part(b, a);
	return err;
}

static int permitted(const struct conn *c, const struct core_call *call)
{
	if (call->flags & CORE_ROLE_CLIENT)
		return 0;
	if (!(call->flags & CORE_ROLE_ADMIN) || call->nr < ARAX_NR_LIMIT_SET)
		return -ENOTTY;		/* the mediator's: we are it */
	return c->admin ? 0 : -EPERM;
}

/* The struct, zero-extended; a tail that we don't know must be zero. */
static int take_struct(const struct request *r, const struct core_call *call,
		       union core_args *a, uint32_t *size)
{
	size_t i;

	memset(a, 0, sizeof(*a));
	if (r->bytes < sizeof(*size))
		return -EINVAL;
	memcpy(size, r->body, sizeof(*size));
	if (*size != r->bytes || *size < call->min_size)
		return -EINVAL;
	for (i = call->size; i < *size; i++)
		if (r->body[i])
			return -E2BIG;
	memcpy(a, r->body, *size < call->size ? *size : call->size);
	return 0;
}

static int later(struct conn *c, const struct request *r, union core_args *a, uint32_t size)
{
	if (core_read_once(c->client->dead))
		return -(int)core_read_once(c->client->dead);
	if (!c->client->ready)
		return -ENXIO;
	if (r->msg.nr == ARAX_NR_SUBMIT)
		return conn_submit(c, r->msg.nr, r->msg.id, size, a);
	if (r->msg.nr == ARAX_NR_WAIT)
		return conn_wait(c, r->msg.id, size, a);
	return -ENOTTY;
}

/* On the kernel link such a call finds the entries consumed; so it does here. */
static bool after_submitted(uint32_t nr)
{
	switch (nr) {
	case ARAX_NR_CANCEL:
	case ARAX_NR_BUFFER_DESTROY:
	case ARAX_NR_BUFFER_REVOKE:
	case ARAX_NR_QUEUE_DESTROY:
	case ARAX_NR_TIMELINE_DESTROY:
		return true;
	}
	return false;
}

/*
 * Of what these take there is a mapping, or another descriptor of ours, when they have succeeded:
 * the ones that came are not the last.  @named: so many it names; one beside them is anything.
 */
static bool is_kept(uint32_t nr, int err, uint32_t nr_fds, uint32_t named)
{
	/* The memfd is mapped, and nothing else was looked at. */
	if (nr == ARAX_NR_CONTEXT_INIT && err == -EINPROGRESS)
		return nr_fds == 1;
	return !err && nr_fds == named &&
	       (nr == ARAX_NR_CONTEXT_INIT || nr == ARAX_NR_BUFFER_CREATE ||
		nr == ARAX_NR_BUFFER_IMPORT || nr == ARAX_NR_TIMELINE_EVENTFD);
}

bool conn_has_hung_up(const struct conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* Whether contexts of that user count that have been closed, or of which nobody has anything. */
static bool some_are_leaving(const struct conn *c)
{
	struct core_tenant *user = c->client->user;
	struct clist *pos, *tmp;
	uint64_t stay = 0;

	clist_for_each_safe(pos, tmp, &c->broker->conns) {
		struct conn *o = clist_entry(pos, struct conn, node);

		stay += o->client->user == user && core_read_once(o->client->ready) &&
			!o->closing && !conn_has_hung_up(o);
	}
	return core_atomic_read(&user->res[ARAX_RES_CONTEXTS].used) > stay;
}

/* What was destroyed, and has not come back yet, is about to make room for it; or has just done so. */
static bool room_comes(const struct conn *c, uint32_t given)
{
	return holder_is_giving(c->holder) ||
	       __atomic_load_n(&c->broker->given, __ATOMIC_RELAXED) != given;
}

static bool is_worth_waiting(struct conn *c, uint32_t nr, bool waits, uint32_t given, int err)
{
	switch (nr) {
	case ARAX_NR_CONTEXT_INIT:
		return err == -EDQUOT && (waits || some_are_leaving(c) || room_comes(c, given));
	case ARAX_NR_BUFFER_CREATE:
	case ARAX_NR_BUFFER_IMPORT:
		return (err == -EDQUOT || err == -ENOSPC) && room_comes(c, given);
	}
	return false;
}

/*
 * A program that closes a context and opens another one has one.  But what was closed counts until
 * the poller has let go of it, so the other one has to wait for that.  So it is with buffers, which
 * count until they are unmapped.
 */
static bool run_later(struct conn *c, struct request *r, struct late *l, uint32_t given, int err)
{
	if (!is_worth_waiting(c, r->msg.nr, l, given, err))
		return false;
	if (l) {
		l->given = given;
		l->waits = monotonic_ns() < l->until_ns;
		return l->waits;
	}
	if (c->nr_late == LATE_MOST || r->nr_fds > LATE_FDS)
		return false;
	l = malloc(sizeof(*l));
	if (!l)
		return false;
	l->r = *r;
	r->nr_fds = 0;
	l->until_ns = monotonic_ns() + LATE_NS;
	l->given = given;
	clist_add_tail(&l->node, &c->late);
	c->nr_late++;
	c->broker->nr_late++;
	return true;
}

/* @late: what it is the request of, or NULL. */
static void run_call(struct conn *c, struct request *r, const struct core_call *call,
		     struct late *late)
{
	struct broker *b = c->broker;
	/* Acquire: what has come back before is there. */
	uint32_t given = __atomic_load_n(&b->given, __ATOMIC_ACQUIRE);
	int32_t *field[2], sent[2] = { -1, -1 };
	union core_args a;
	uint32_t i, n, size;
	bool own = false;
	int err, fd = -1;

	err = take_struct(r, call, &a, &size);
	if (err) {
		conn_answer(c, r->msg.nr, r->msg.id, err, NULL, 0, -1);
		return;
	}
	if (call->flags & CORE_CALL_LINK) {
		err = later(c, r, &a, size);
		if (err)
			conn_answer(c, r->msg.nr, r->msg.id, err, &a, size, -1);
		return;
	}
	if (after_submitted(call->nr) && core_read_once(c->client->ready) &&
	    !core_read_once(c->client->dead)) {
		err = conn_after_submitted(c, call->nr, r->msg.id, size, &a);
		if (err)
			conn_answer(c, r->msg.nr, r->msg.id, err, &a, size, -1);
		return;
	}
	n = fd_fields(call->nr, &a, field);
	for (i = 0; i < n && !err; i++) {
		sent[i] = *field[i];
		err = resolve(r, field[i]);
	}
	if (!err)
		err = core_call_run(call, b->core, c->client, &a);
	if (err && run_later(c, r, late, given, err))
		return;
	r->kept = is_kept(call->nr, err, r->nr_fds, n);
	if (!err && call->nr == ARAX_NR_CONTEXT_INIT)
		err = conn_add_ring(c);
	if (!err && call->nr == ARAX_NR_LIMIT_SET)
		tell_part(b, &a.limit);
	if (!err)
		fd = fd_out(c, call->nr, &a, &own);
	for (i = 0; i < n; i++)
		*field[i] = sent[i];
	conn_answer(c, r->msg.nr, r->msg.id, err, &a, size, fd);
	/* Its receiver may have polled and closed his copy by now. */
	if (own && fd >= 0)
		broker_close_foreign(c->broker, c->uid, c->admin, fd);
}

static void drop(struct conn *c, struct late *l)
{
	clist_del(&l->node);
	c->nr_late--;
	c->broker->nr_late--;
	close_fds(c, &l->r);
	free(l);
}

void conn_drop_late(struct conn *c)
{
	while (!clist_empty(&c->late))
		drop(c, clist_entry(c->late.next, struct late, node));
}

/* Each try that is refused would be told of: so what waits for bytes is tried when there are some. */
static bool is_worth_a_try(const struct conn *c, const struct late *l)
{
	return l->r.msg.nr == ARAX_NR_CONTEXT_INIT || monotonic_ns() >= l->until_ns ||
	       __atomic_load_n(&c->broker->given, __ATOMIC_RELAXED) != l->given;
}

void conn_try_late(struct conn *c)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &c->late) {
		struct late *l = clist_entry(pos, struct late, node);

		if (!is_worth_a_try(c, l))
			continue;
		l->waits = false;
		run_call(c, &l->r, core_call_find(l->r.msg.nr), l);
		if (!l->waits)
			drop(c, l);
	}
}

static void handle(struct conn *c, struct request *r)
{
	const struct core_call *call = core_call_find(r->msg.nr);
	int err;

	/* A forked child, or whoever was handed the socket. */
	if (r->sender != c->pid)
		err = -EPERM;
	else if (r->cut)
		err = -EMFILE;
	else
		err = call ? permitted(c, call) : -ENOTTY;
	if (err)
		conn_answer(c, r->msg.nr, r->msg.id, err, NULL, 0, -1);
	else
		run_call(c, r, call, NULL);
	close_fds(c, r);
}

static void complain(struct conn *c)
{
	uint64_t unsaid;

	if (complaints_say(&c->broker->malformed, c->uid, monotonic_ns(), &unsaid))
		log_warn("malformed message: connection ended", log_u64("context", c->client->id),
			 log_i64("pid", c->pid), log_u64("uid", c->uid),
			 log_u64("unsaid", unsaid));
}

/* Whether the next message carries any.  They stay in it: what is shown here is none of them. */
static bool brings_fds(const struct conn *c)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr mh = { .msg_control = &control, .msg_controllen = sizeof(control) };

	return recvmsg(c->fd, &mh, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) >= 0 &&
	       mh.msg_flags & MSG_CTRUNC;
}

/*
 * What finds no place as it is received the kernel closes, on our thread, and that may have no end.
 * So it stays where it is until there is one; what brings none goes on.
 */
static bool is_short_of_fds(struct conn *c)
{
	c->short_of_fds = !c->admin && !holdings_may_owe(c->broker->holdings) && brings_fds(c);
	return c->short_of_fds;
}

void conn_readable(struct conn *c, uint32_t most)
{
	struct request r;
	uint32_t i;
	int got;

	for (i = 0; i < most && !c->closing; i++) {
		/* It is about to be closed, and one more may take as long as all that were. */
		if (!c->admin &&
		    patience_is_over(&c->broker->patience, c->uid, monotonic_ns())) {
			__atomic_store_n(&c->broker->look, 1, __ATOMIC_RELEASE);
			broker_kick(c->broker);
			return;
		}
		/* What came before is still to be closed: that takes its time, or has no end. */
		if ((!c->admin && closer_state(c->broker->closer, c->uid) != CLOSER_ROOM) ||
		    is_short_of_fds(c)) {
			conn_pause(c);
			return;
		}
		got = receive(c, &r);
		if (!got)
			return;
		if (got < 0) {
			if (got == -EPROTO)
				complain(c);
			conn_close(c);
			return;
		}
		handle(c, &r);
	}
}
