// SPDX-License-Identifier: MIT
/* The broker's life and its service thread: sockets in, calls run, answers out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/backends/device.h"
#include "daemon/link/broker_impl.h"
#include "daemon/link/wake.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"

/* Its reader empties it at each turn, so it may be small: it stays in the cache. */
#define CELLS		2048u
#define SLOTS		16384u
#define EVENTS		32
#define MESSAGES_PER_TURN	16u	/* of each user */
#define PER_UID_SPARE	64u	/* connections of one user beside its contexts */
#define ADMIN_SHARE	16	/* of max_clients, one part is administrators' alone */
#define IDLE_NS		5000000000u	/* so long one may be without rings where places are few */
#define IDLE_LOOK_NS	500000000u
#define PAUSE_MS	5		/* between two looks whether it is over */
#define BARRED_MS	100		/* and whether those who may not connect may again */
#define LATE_MS		1		/* and whether there is room for what waits for it */
#define LISTEN_AGAIN_NS	100000000u	/* after descriptors or memory gave out */
#define FOREIGN_SHARE	16	/* of our descriptors those of a user that may wait to be closed */
#define FOREIGN_MOST	4096u
#define FOREIGN_ALL	8	/* and those of users together */

void broker_kick(struct broker *b)
{
	const uint64_t one = 1;
	ssize_t n = write(b->event_fd, &one, sizeof(one));

	(void)n;
}

void broker_has_given(struct broker *b)
{
	/* Release: who looks for room finds it. */
	__atomic_add_fetch(&b->given, 1, __ATOMIC_RELEASE);
}

void broker_reply_later(struct broker *b, struct work *w)
{
	if (work_push(&b->replies, w))
		broker_kick(b);
}

void broker_time_taken(struct broker *b, uid_t uid, bool admin, uint64_t ns)
{
	if (!ns)
		return;
	if (!admin)
		patience_spend(&b->patience, uid, ns == WAKE_BLOCKED ? WAKE_TICK_NS : ns,
			       monotonic_ns());
	__atomic_store_n(&b->look, 1, __ATOMIC_RELEASE);
	broker_kick(b);
}

void broker_close_foreign(struct broker *b, uid_t uid, bool admin, int fd)
{
	struct holder *holder = holdings_owe(b->holdings, uid, admin, 1);

	/* Without memory it stays open: better than to wait for it. */
	if (holder)
		closer_close(b->closer, holder, CLOSER_FOREIGN, fd);
}

/* ------------------------------------------------------------------ */
/* Connections                                                         */

/*
 * All who watch the other end are told, of who has taken too much time by it by the closer's thread.
 * That one may be behind what has no end: once slow, as happens to anyone, is no reason for it.
 */
static void conn_shutdown(struct conn *c)
{
	struct broker *b = c->broker;
	uint64_t ns;

	if (!c->admin && patience_is_over(&b->patience, c->uid, monotonic_ns())) {
		c->slow = true;
		return;
	}
	ns = wake_thread_ns();
	shutdown(c->fd, SHUT_RDWR);
	ns = wake_beyond_usual(wake_thread_ns() - ns);
	c->slow |= ns > 0;
	broker_time_taken(b, c->uid, c->admin, ns);
}

/* Nothing is freed here: the caller may be in the midst of it. */
void conn_close(struct conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	c->broker->any_closing = true;
	c->broker->nr_paused -= c->paused;
	c->paused = false;
	epoll_ctl(c->broker->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
	conn_shutdown(c);
	if (c->at_poller)
		conn_remove_ring(c);
}

void conn_pause(struct conn *c)
{
	if (c->paused)
		return;
	c->paused = true;
	c->broker->nr_paused++;
	epoll_ctl(c->broker->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
}

/* Those of users who have too much to be closed: until it is, or is seen to have no end. */
static void look_at_paused(struct broker *b)
{
	struct clist *pos, *tmp;

	if (!b->nr_paused)
		return;
	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &c->source };
		enum closer_state state;

		if (!c->paused)
			continue;
		/* Nothing else tells of it meanwhile. */
		if (conn_has_hung_up(c)) {
			conn_close(c);
			continue;
		}
		state = closer_state(b->closer, c->uid);
		if (state == CLOSER_FULL ||
		    (state == CLOSER_ROOM && c->short_of_fds && !holdings_may_owe(b->holdings)))
			continue;
		if (state == CLOSER_STUCK || epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev)) {
			conn_close(c);
			continue;
		}
		c->paused = c->short_of_fds = false;
		b->nr_paused--;
	}
}

/*
 * After shutdown(), when nothing more comes: has it a message that was not read?  The kernel
 * would close what it carries, on the thread that closes the socket.
 */
static bool has_unread(int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr mh = { .msg_control = &control, .msg_controllen = sizeof(control) };

	/* The end has no sender; a message has one, even if it is empty. */
	return recvmsg(fd, &mh, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) >= 0 &&
	       mh.msg_controllen;
}

static void conn_free(struct conn *c)
{
	struct broker *b = c->broker;

	conn_drop_pending(c);
	conn_drop_late(c);
	broker_tokens_forget(c);
	core_client_release(c->client);
	conn_region_drop(c);
	/* At the broker's end it is still open. */
	if (!c->closing)
		conn_shutdown(c);
	if (c->slow || has_unread(c->fd)) {
		closer_close(b->closer, c->holder, CLOSER_FOREIGN, c->fd);
		c->nr_fds--;
	} else {
		close(c->fd);
	}
	/* If the closer has had all of them, the holder may have ended with the last one. */
	if (c->nr_fds)
		holder_give(c->holder, c->nr_fds, 0);
	clist_del(&c->node);
	b->nr_conns--;
	free(c);
}

static void free_closed(struct broker *b)
{
	struct clist *pos, *tmp;

	if (!b->any_closing)
		return;
	b->any_closing = false;
	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);

		if (!c->closing)
			continue;
		if (c->at_poller || conn_at_poller(c))
			b->any_closing = true;
		else
			conn_free(c);
	}
}

/* What was closed or destroyed has gone by now, or is about to. */
static void look_at_late(struct broker *b)
{
	struct clist *pos, *tmp;

	if (!b->nr_late)
		return;
	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);

		if (c->nr_late && !c->closing)
			conn_try_late(c);
	}
}

struct conn *broker_conn_by_context(struct broker *b, uint32_t context)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);

		if (c->client->id == context)
			return c;
	}
	return NULL;
}

/* But administrators', and those that are about to go: these still count as descriptors do. */
static uint32_t conns_of(struct broker *b, uid_t uid)
{
	struct clist *pos, *tmp;
	uint32_t n = 0;

	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);

		n += c->uid == uid && !c->admin && !c->closing;
	}
	return n;
}

/*
 * Who has no rings is no tenant's context, and counts by uid alone, of which one user may have
 * thousands.  So where places are few, others need those more.
 */
static void close_idle(struct broker *b, uint64_t now)
{
	struct clist *pos, *tmp;

	if (b->nr_conns <= b->config->link.max_clients / 2 ||
	    now - b->looked_idle_ns < IDLE_LOOK_NS)
		return;
	b->looked_idle_ns = now;
	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);

		if (!c->admin && !core_read_once(c->client->ready) && now - c->since_ns > IDLE_NS)
			conn_close(c);
	}
}

static uint32_t places(const struct broker *b, bool admin)
{
	uint32_t all = b->config->link.max_clients;

	return admin ? all : all - all / ADMIN_SHARE;
}

/*
 * All of a connection's calls that wait may be answered at once, before it reads one of them: there
 * has to be room for that, and for some others, or it would be closed as one that does not read.
 */
static void make_room(struct broker *b, int fd)
{
	answers_make_room(&b->answers, fd, CONN_MAX_WAITS, CONN_MAX_PENDING - CONN_MAX_WAITS + 64);
}

static bool is_admin(const struct broker *b, const struct peer *peer)
{
	return peer->root || (b->own_admin && peer->uid == b->own_uid);
}

static int has_patience(void *arg, const struct peer *peer)
{
	struct broker *b = arg;

	return !is_admin(b, peer) && patience_is_over(&b->patience, peer->uid, monotonic_ns()) ?
	       -EACCES : 0;
}

/* It may take as long as whoever connects has made it. */
static int identify(struct broker *b, int fd, struct peer *peer)
{
	uint64_t ns = wake_thread_ns();
	int err = identity_peer(fd, has_patience, b, peer);

	ns = wake_beyond_usual(wake_thread_ns() - ns);
	if (peer->pid > 0)
		broker_time_taken(b, peer->uid, is_admin(b, peer), ns);
	return err;
}

static int conn_create(struct broker *b, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct core_tenant *tenant;
	struct peer peer;
	struct conn *c;
	uint64_t now = monotonic_ns();
	bool admin;
	int err;

	close_idle(b, now);
	err = identify(b, fd, &peer);
	if (err)
		return err;
	admin = is_admin(b, &peer);
	if (!admin && closer_state(b->closer, peer.uid) == CLOSER_STUCK)
		return -EDQUOT;
	if (b->nr_conns >= places(b, admin))
		return -EUSERS;
	if (!admin && conns_of(b, peer.uid) >= b->config->limits.contexts + PER_UID_SPARE)
		return -EUSERS;
	c = aligned_alloc(64, (sizeof(*c) + 63) & ~(size_t)63);
	if (!c)
		return -ENOMEM;
	memset(c, 0, sizeof(*c));
	make_room(b, fd);
	c->source.kind = SOURCE_CONN;
	c->broker = b;
	c->fd = fd;
	c->pid = peer.pid;
	c->uid = peer.uid;
	c->nr_fds = CONN_FDS;
	c->admin = admin;
	c->since_ns = now;
	c->wake_fd = c->bell_fd = -1;
	clist_init(&c->pending);
	clist_init(&c->waits);
	clist_init(&c->late);
	clist_init(&c->tokens);
	err = holdings_take(b->holdings, peer.uid, c->admin, CONN_FDS, 0, &c->holder);
	if (err)
		goto free;
	err = identity_tenant(b->identity, b->core, peer.cgroup, &tenant);
	if (err)
		goto give;
	c->client = core_client_create(b->core, c, peer.uid, peer.gid, peer.pid, peer.comm,
				       tenant, &err);
	if (!c->client) {
		core_mutex_lock(&b->core->lock);
		core_tenant_put(b->core, tenant);
		core_mutex_unlock(&b->core->lock);
		goto give;
	}
	ev.data.ptr = &c->source;
	if (epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		err = -errno;
		core_client_release(c->client);
		goto give;
	}
	clist_add_tail(&c->node, &b->conns);
	b->nr_conns++;
	return 0;
give:
	holder_give(c->holder, CONN_FDS, 0);
free:
	free(c);
	return err;
}

static void listen_on(struct broker *b, bool on)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &b->listen_source };

	if (b->listening == on)
		return;
	b->listening = on;
	epoll_ctl(b->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, b->listen_fd, &ev);
}

/* Which limit it was, and what helps. */
static void say_limit(const struct broker *b, int err, char *text, size_t bytes)
{
	if (err == -EUSERS && b->nr_conns >= places(b, false))
		snprintf(text, bytes, "link.max_clients: %u connections, %u of them administrators' alone; a higher one in araxd.conf helps",
			 b->config->link.max_clients,
			 b->config->link.max_clients - places(b, false));
	else if (err == -EUSERS)
		snprintf(text, bytes, "limits.contexts, and %u: %llu connections of a user; a higher one in araxd.conf helps",
			 PER_UID_SPARE,
			 (unsigned long long)b->config->limits.contexts + PER_UID_SPARE);
	else if (err == -EACCES)
		snprintf(text, bytes, "the time that a user's eventfds, sockets and memfds may take to write to and to map, its threads to look at, and holes in its buffers others; it comes back in some seconds");
	else if (err == -EDQUOT)
		snprintf(text, bytes, "that user's part of araxd's descriptors and mappings, those that it sent and that are still to be closed among them; fewer connections and buffers help");
	else if (err == -ESRCH)
		snprintf(text, bytes, "a process that lives, among whose 60 oldest threads is one that has not ended; where a debugger keeps those that have, it is to reap them");
	else
		snprintf(text, bytes, "none of users' connections");
}

static void complain_refused(struct broker *b, const struct ucred *peer, int err)
{
	uint64_t unsaid;
	char limit[200];

	if (!complaints_say(&b->refused, peer->uid, monotonic_ns(), &unsaid))
		return;
	say_limit(b, err, limit, sizeof(limit));
	log_notice("client refused", log_u64("uid", peer->uid), log_i64("pid", peer->pid),
		   log_errno(err), log_str("limit", limit), log_u64("unsaid", unsaid));
}

/*
 * One who can't be barred would have by and by what is administrators' and araxd's own.  Once users have
 * all that they may have, none of them would be taken anyhow: so nobody is kept out in vain.
 */
static void shut_if_short(struct broker *b, uid_t uid, int err)
{
	/* No mode keeps the owner out. */
	if (b->barred.shut || err == -EPERM || holdings_may_owe(b->holdings))
		return;
	if (!barred_shut(&b->barred, b->path))
		log_warn("users have all of araxd's descriptors that they may have, and send more: none can connect until some are closed",
			 log_u64("uid", uid), log_errno(err), log_u64("barred", b->barred.nr),
			 log_str("path", b->path), log_str("remedy", barred_remedy(err)));
}

/*
 * Who has as much to be closed as may wait has as much again by being refused, if he sends it before
 * that: there is no end to it but that he can't connect.  Who is in the queue by now is still to come.
 */
static void bar_if_full(struct broker *b, uid_t uid)
{
	uint64_t unsaid;
	int err;

	if (b->barred.shut || closer_state(b->closer, uid) == CLOSER_ROOM)
		return;
	err = barred_add(&b->barred, b->path, uid);
	if (!err || err == -EEXIST)
		return;
	shut_if_short(b, uid, err);
	if (!complaints_say(&b->unbarred, uid, monotonic_ns(), &unsaid))
		return;
	log_warn("a user who sends descriptors that take long to close can't be kept from connecting",
		 log_u64("uid", uid), log_errno(err), log_u64("barred", b->barred.nr),
		 log_u64("unsaid", unsaid), log_str("remedy", barred_remedy(err)));
}

static void look_at_barred(struct broker *b)
{
	uint64_t now;

	if (!b->barred.nr && !b->barred.shut)
		return;
	now = monotonic_ns();
	if (now - b->looked_barred_ns < BARRED_MS * 1000000ull)
		return;
	b->looked_barred_ns = now;
	if (b->barred.shut && holdings_may_owe(b->holdings))
		barred_open(&b->barred);
	if (b->barred.shut)
		return;
	for (uint32_t i = b->barred.nr; i--;)
		if (closer_state(b->closer, b->barred.uid[i]) == CLOSER_ROOM)
			barred_remove(&b->barred, i);
}

/* Closed by another thread, once @msg has been sent if there is one. */
static void refuse_later(struct broker *b, uid_t uid, int fd, const struct arax_msg *msg)
{
	struct holder *holder = holdings_owe(b->holdings, uid, false, 1);

	if (holder && msg)
		closer_tell(b->closer, holder, fd, msg, sizeof(*msg));
	else if (holder)
		closer_close(b->closer, holder, CLOSER_FOREIGN, fd);
	bar_if_full(b, uid);
}

static void refuse(struct broker *b, int fd, int err)
{
	struct arax_msg msg = { .result = err, .id = ARAX_MSG_REFUSED };
	struct ucred peer = { .uid = b->own_uid };
	socklen_t size = sizeof(peer);
	uint64_t ns;

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	complain_refused(b, &peer, err);
	/* Many may watch this one, too.  But no more are kept for that than those to be closed. */
	if (err == -EACCES && closer_state(b->closer, peer.uid) == CLOSER_ROOM) {
		refuse_later(b, peer.uid, fd, &msg);
		return;
	}
	ns = wake_thread_ns();
	send(fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_NOSIGNAL);
	ns = wake_beyond_usual(wake_thread_ns() - ns);
	broker_time_taken(b, peer.uid, false, ns);
	/* It may have sent something before it was accepted. */
	if (!ns)
		shutdown(fd, SHUT_RDWR);
	if (ns || has_unread(fd))
		refuse_later(b, peer.uid, fd, NULL);
	else
		close(fd);
}

static void listen_later(struct broker *b)
{
	listen_on(b, false);
	b->listen_ns = monotonic_ns() + LISTEN_AGAIN_NS;
}

/*
 * To be refused takes a descriptor as well, of who has sent something: so nobody comes when not even an
 * administrator could be taken.  What is left then is araxd's own, as for its workers.
 */
static bool has_room(struct broker *b)
{
	if (holdings_have(b->holdings, CONN_FDS)) {
		b->said_full &= !holdings_may_owe(b->holdings);
		return true;
	}
	if (!b->said_full)
		log_warn("no new client can be taken: clients have all of araxd's descriptors but its own",
			 log_str("effect", "who connects waits until some are closed, administrators as well"),
			 log_str("remedy", "end the programs of users that the lines above name; a higher LimitNOFILE= of araxd's unit"));
	b->said_full = true;
	return false;
}

static void accept_some(struct broker *b)
{
	int i, fd, err;

	for (i = 0; i < 16; i++) {
		if (!has_room(b)) {
			listen_later(b);
			return;
		}
		fd = accept4(b->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			/* Out of descriptors: wait until some come back. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
				log_warn("no new client can be taken", log_errno(errno));
				listen_later(b);
			}
			return;
		}
		if (b->arriving)
			b->arriving(b->arriving_arg);
		err = conn_create(b, fd);
		if (err)
			refuse(b, fd, err);
	}
}

/* ------------------------------------------------------------------ */
/* The service thread                                                  */

static void take_replies(struct broker *b)
{
	struct work *w, *next;

	for (w = work_take(&b->replies); w; w = next) {
		next = w->next;
		w->run(w);
	}
}

/* A client whose memory gave out has lost its context. */
static void kill_marked(struct broker *b)
{
	uint32_t context;
	uint64_t unsaid;

	while ((context = guard_next_marked())) {
		struct conn *c = broker_conn_by_context(b, context);

		if (complaints_say(&b->killed, c ? c->uid : 0, monotonic_ns(), &unsaid))
			log_warn("a client's memory could not be read: context killed",
				 log_u64("context", context), log_u64("unsaid", unsaid));
		if (c)
			core_client_kill(c->client, EFAULT);
		if (c && __atomic_load_n(&c->lost, __ATOMIC_RELAXED))
			conn_close(c);
	}
}

static bool is_harmful(struct conn *c, uint64_t now)
{
	const char *why = NULL;
	uint64_t unsaid;

	if (__atomic_load_n(&c->hostile, __ATOMIC_RELAXED))
		why = "eventfd of a client blocks: context killed";
	else if (!c->admin && patience_is_over(&c->broker->patience, c->uid, now))
		why = "a user's eventfds or sockets take long to write to, many watch them, or memfds to map, they are mapped very often, or its buffers got holes: context killed, no more for some seconds";
	if (why && complaints_say(&c->broker->killed, c->uid, now, &unsaid))
		log_warn(why, log_u64("context", c->client->id), log_u64("uid", c->uid),
			 log_u64("unsaid", unsaid));
	return why;
}

/* At those of whom something has happened; deadlines are seen by broker_settle_due(). */
static void look_at_woken(struct broker *b)
{
	uint64_t now = monotonic_ns();
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);

		if (!c->closing && is_harmful(c, now)) {
			core_client_kill(c->client, EPIPE);
			conn_close(c);
		}
		if (c->nr_pending && !c->closing &&
		    __atomic_exchange_n(&c->woken, 0, __ATOMIC_ACQUIRE))
			conn_check_pending(c, now);
	}
}

static int next_timeout(struct broker *b)
{
	uint64_t next, now;

	if (!b->due)
		return -1;
	next = cheap_first(b->due)->key;
	now = monotonic_ns();
	if (next <= now)
		return 0;
	next = (next - now + 999999) / 1000000;
	return next > 1000000 ? 1000000 : (int)next;
}

/* Whatever else goes on meanwhile: without an event, too. */
static int until_listening(const struct broker *b, int timeout)
{
	uint64_t now = monotonic_ns(), ms;

	ms = b->listen_ns > now ? (b->listen_ns - now + 999999) / 1000000 : 0;
	return timeout < 0 || ms < (uint64_t)timeout ? (int)ms : timeout;
}

static void listen_again(struct broker *b)
{
	if (__atomic_load_n(&b->refuse, __ATOMIC_ACQUIRE)) {
		listen_on(b, false);
		b->listen_ns = 0;
	} else if (b->listen_ns && monotonic_ns() >= b->listen_ns) {
		b->listen_ns = 0;
		listen_on(b, true);
	}
}

static void on_event(struct broker *b)
{
	uint64_t count;
	ssize_t n = read(b->event_fd, &count, sizeof(count));

	(void)n;
	take_replies(b);
	kill_marked(b);
	broker_reap(b);
	broker_close_ended(b);
	if (__atomic_exchange_n(&b->look, 0, __ATOMIC_ACQUIRE))
		look_at_woken(b);
}

/* NULL: something else. */
static struct conn *conn_of(const struct epoll_event *ev)
{
	struct source *s = ev->data.ptr;

	return s->kind == SOURCE_CONN ? (struct conn *)s : NULL;
}

/*
 * How many messages are taken of each: who has many connections gets no more of a turn than who
 * has one.  Before any is: what is read can be the end of others.
 */
static void share_turn(const struct epoll_event *ev, int n, uint32_t *most)
{
	int i, k;

	for (i = 0; i < n; i++) {
		const struct conn *c = conn_of(&ev[i]), *other;
		uint32_t same = 0;

		for (k = 0; c && k < n; k++) {
			other = conn_of(&ev[k]);
			same += other && other->uid == c->uid;
		}
		most[i] = c && same < MESSAGES_PER_TURN ? MESSAGES_PER_TURN / same : 1;
	}
}

static void *serve(void *arg)
{
	struct broker *b = arg;
	struct epoll_event ev[EVENTS];
	uint32_t most[EVENTS];
	int i, n, timeout;

	while (!__atomic_load_n(&b->stop, __ATOMIC_ACQUIRE)) {
		timeout = next_timeout(b);
		if (b->listen_ns)
			timeout = until_listening(b, timeout);
		if (b->nr_paused && (timeout < 0 || timeout > PAUSE_MS))
			timeout = PAUSE_MS;
		if ((b->barred.nr || b->barred.shut) && (timeout < 0 || timeout > BARRED_MS))
			timeout = BARRED_MS;
		if (b->nr_late && (timeout < 0 || timeout > LATE_MS))
			timeout = LATE_MS;
		n = epoll_wait(b->epoll_fd, ev, EVENTS, timeout);
		share_turn(ev, n, most);
		for (i = 0; i < n; i++) {
			struct source *s = ev[i].data.ptr;

			switch (s->kind) {
			case SOURCE_LISTEN:
				accept_some(b);
				break;
			case SOURCE_EVENT:
				on_event(b);
				break;
			case SOURCE_CONN:
				if (!((struct conn *)s)->closing)
					conn_readable((struct conn *)s, most[i]);
				break;
			case SOURCE_TOKEN:
				broker_token_gone(b, (struct token *)s);
				break;
			}
		}
		broker_settle_due(b);
		look_at_paused(b);
		look_at_barred(b);
		free_closed(b);
		look_at_late(b);
		broker_reap(b);
		listen_again(b);
	}
	return NULL;
}

/* ------------------------------------------------------------------ */
/* Life                                                                */

/* A socket that was left behind is replaced, nothing else is. */
static int look_at_path(const char *path)
{
	struct stat st;

	if (lstat(path, &st) || S_ISSOCK(st.st_mode))
		return 0;
	log_err("there is something else in the socket's place", log_str("path", path),
		log_str("remedy", "remove it, or give another path by --socket or link.socket"));
	return -EEXIST;
}

/*
 * The lock beside the socket says whether somebody serves it: a socket's file
 * outlives its server, a lock doesn't.
 */
static int take_socket(struct broker *b, const char *path, unsigned int mode)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char lock[128];
	struct timespec pause = { .tv_nsec = 10000000 };
	mode_t mask;
	int one = 1, err, tries;

	_Static_assert(BROKER_PATH_MOST < sizeof(sa.sun_path) && BROKER_PATH_MOST < sizeof(b->path), "");
	if (strlen(path) > BROKER_PATH_MOST) {
		log_err("socket path too long", log_str("path", path),
			log_u64("limit", BROKER_PATH_MOST),
			log_str("remedy", "give a shorter one by --socket or link.socket"));
		return -ENAMETOOLONG;
	}
	err = look_at_path(path);
	if (err)
		return err;
	strcpy(sa.sun_path, path);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	b->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (b->lock_fd < 0) {
		err = -errno;
		log_err("lock can't be opened", log_str("path", lock), log_errno(err),
			log_str("remedy", "make its folder, for araxd's user to write to, or give another path by --socket or link.socket"));
		return err;
	}
	/* One that was killed just now may not have wholly gone. */
	for (tries = 0; flock(b->lock_fd, LOCK_EX | LOCK_NB) && tries < 20; tries++)
		nanosleep(&pause, NULL);
	if (tries == 20) {
		log_err("another araxd serves this socket", log_str("path", path));
		return -EADDRINUSE;
	}
	b->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (b->listen_fd < 0)
		return -errno;
	/* Inherited by what is accepted, so that no message comes without. */
	if (setsockopt(b->listen_fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)))
		return -errno;
	unlink(path);
	mask = umask(0777 & ~mode);
	err = bind(b->listen_fd, (struct sockaddr *)&sa, sizeof(sa)) ? -errno : 0;
	umask(mask);
	if (err) {
		log_err("socket can't be bound", log_str("path", path), log_errno(err));
		return err;
	}
	strcpy(b->path, path);
	return 0;
}

static int attach(struct broker *b)
{
	struct arax_attach a = { .size = sizeof(a) };
	struct link *l = &b->link;
	int err = core_attach(b->core, &a);

	if (err)
		return err;
	l->ring = b->core->ring;
	l->cells = a.cells;
	l->slots = a.slots;
	l->page = b->core->page;
	l->states = b->core->states;
	l->commits = b->core->commits;
	return 0;
}

static uint64_t eighth_of_ram(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 8;
}

/* Far less than a user's part, far more than is ever sent in earnest within the time of a close. */
static uint32_t foreign_most(const struct holdings_limits *l)
{
	uint64_t n = l->fds / FOREIGN_SHARE;

	return n < FOREIGN_MOST ? (uint32_t)n : FOREIGN_MOST;
}

static int add_sources(struct broker *b)
{
	struct epoll_event ev = { .events = EPOLLIN };

	b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	b->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->epoll_fd < 0 || b->event_fd < 0)
		return -errno;
	b->listen_source.kind = SOURCE_LISTEN;
	b->event_source.kind = SOURCE_EVENT;
	ev.data.ptr = &b->event_source;
	if (epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, b->event_fd, &ev))
		return -errno;
	guard_notify(b->event_fd);
	return 0;
}

int broker_create(const struct broker_params *params, struct broker **out)
{
	struct core_params cp = {
		.link = ARAX_LINK_BROKER, .guarantees = ARAX_GUAR_CGROUP_TENANT,
		.cells = CELLS, .slots = SLOTS,
		.max_handles = (u32)params->config->limits.handles,
		/* Our memory, which nothing else counts for them. */
		.user_handles = 2 * (u32)params->config->limits.handles,
		.defers_wakes = true,
		.user_memory = params->config->limits.memory,
		.user_tasks = params->config->limits.tasks,
		.user_contexts = params->config->limits.contexts,
	};
	struct broker *b = aligned_alloc(64, (sizeof(*b) + 63) & ~(size_t)63);
	struct holdings_limits limits;
	uint32_t i;
	int err;

	if (!b)
		return -ENOMEM;
	memset(b, 0, sizeof(*b));
	b->listen_fd = b->lock_fd = b->epoll_fd = b->event_fd = -1;
	b->config = params->config;
	b->arriving = params->arriving;
	b->arriving_arg = params->arg;
	b->own_uid = geteuid();
	b->own_admin = params->own_admin;
	b->link.ops = &broker_link_ops;
	b->link.name = "broker";
	clist_init(&b->conns);
	for (i = 0; i < TOKEN_BUCKETS; i++)
		clist_init(&b->tokens[i]);
	for (i = 0; i < IDENT_BUCKETS; i++) {
		clist_init(&b->idents[i]);
		clist_init(&b->files[i]);
	}
	pthread_mutex_init(&b->ident_lock, NULL);
	pthread_mutex_init(&b->mend_lock, NULL);
	pthread_cond_init(&b->mended, NULL);
	if (!cp.user_memory)
		cp.user_memory = eighth_of_ram();
	err = wake_init();
	if (!err)
		err = answers_measure(&b->answers);
	patience_init(&b->patience, wake_slowness());
	if (err)
		goto fail;
	if (b->patience.slowness > 1)
		log_info("eventfds are slow on this machine: users may take more of araxd's time",
			 log_u64("times", b->patience.slowness));
	err = -EIO;
	if (getrandom(b->key, sizeof(b->key), 0) != sizeof(b->key))
		goto fail;
	err = -ENOMEM;
	b->identity = identity_create();
	if (!b->identity)
		goto fail;
	holdings_limits(&limits);
	if (!params->holdings)
		b->own_holdings = holdings_create(&limits);
	b->holdings = params->holdings ?: b->own_holdings;
	if (!b->holdings)
		goto fail;
	b->closer = closer_create(foreign_most(&limits), (uint32_t)(limits.fds / FOREIGN_ALL));
	if (!b->closer)
		goto fail;
	err = host_thread_create("arax-mend", &b->mender);
	if (err)
		goto fail;
	err = take_socket(b, params->path, params->mode);
	if (err)
		goto fail;
	err = add_sources(b);
	if (err)
		goto fail;
	b->core = core_create(&broker_ops, &cp, b, &err);
	if (!b->core)
		goto fail;
	err = attach(b);
	if (err)
		goto fail;
	*out = b;
	return 0;
fail:
	broker_destroy(b);
	return err;
}

struct link *broker_link(struct broker *b)
{
	return &b->link;
}

/* Another's driver may have the kernel touch a page, and take it for its device's end if it can't. */
static bool is_processor(const struct arax_backend_info *i)
{
	return i->kind == ARAX_DEVICE_CPU || i->kind == ARAX_DEVICE_SIM ||
	       (i->kind == ARAX_DEVICE_OPENCL && !i->gpu && !i->bus[0] && !i->memory);
}

static bool has_processors_alone(const struct poller *p)
{
	for (uint32_t i = 0; p && i < devices_count(p->devices); i++)
		if (!is_processor(&devices_at(p->devices, i)->info))
			return false;
	return p;
}

int broker_start(struct broker *b)
{
	int err;

	if (listen(b->listen_fd, 128))
		return -errno;
	b->cores_alone = has_processors_alone(b->link.poller);
	listen_on(b, true);
	err = -pthread_create(&b->thread, NULL, serve, b);
	if (err)
		return err;
	pthread_setname_np(b->thread, "arax-broker");
	b->started = true;
	return 0;
}

void broker_refuse(struct broker *b)
{
	if (b->path[0])
		unlink(b->path);
	__atomic_store_n(&b->refuse, 1, __ATOMIC_RELEASE);
	broker_kick(b);
}

static void end_clients(struct broker *b)
{
	struct clist *pos, *tmp;

	/* The poller is gone: what it would have sent back, it won't. */
	take_replies(b);
	clist_for_each_safe(pos, tmp, &b->conns)
		core_client_kill(clist_entry(pos, struct conn, node)->client, EOWNERDEAD);
	core_detach(b->core);
	core_mediator_gone(b->core, b->core->epoch);
	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *c = clist_entry(pos, struct conn, node);
		struct clist *pp, *pt;

		clist_for_each_safe(pp, pt, &c->pending)
			clist_entry(pp, struct pending, node)->at_poller = false;
		conn_free(c);
	}
	broker_tokens_end(b);
	broker_reap(b);
	broker_close_ended(b);
}

void broker_stop(struct broker *b)
{
	__atomic_store_n(&b->stop, 1, __ATOMIC_RELEASE);
	if (b->started) {
		broker_kick(b);
		pthread_join(b->thread, NULL);
	}
	b->started = false;
}

/* In its queue are sockets that nobody has accepted, with what was sent on them. */
static void close_listener(struct broker *b)
{
	if (b->listen_fd >= 0 && b->closer)
		broker_close_foreign(b, b->own_uid, true, b->listen_fd);
	else if (b->listen_fd >= 0)
		close(b->listen_fd);
	closer_end(b->closer);
}

void broker_destroy(struct broker *b)
{
	broker_stop(b);
	b->link.poller = NULL;	/* it has ended */
	host_thread_destroy(b->mender);
	if (b->core) {
		end_clients(b);
		core_destroy(b->core);
		broker_close_ended(b);
	}
	if (b->path[0] && !b->refuse)
		unlink(b->path);
	guard_notify(-1);
	close_listener(b);
	if (b->epoll_fd >= 0)
		close(b->epoll_fd);
	if (b->event_fd >= 0)
		close(b->event_fd);
	if (b->lock_fd >= 0)
		close(b->lock_fd);
	mappings_destroy(&b->link.mappings);
	identity_destroy(b->identity);
	holdings_destroy(b->own_holdings);
	free(b->hot.at);
	free(b->warm.at);
	free(b->starved.at);
	pthread_mutex_destroy(&b->ident_lock);
	pthread_mutex_destroy(&b->mend_lock);
	pthread_cond_destroy(&b->mended);
	patience_destroy(&b->patience);
	free(b);
}
