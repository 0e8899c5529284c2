// SPDX-License-Identifier: MIT
/* What the core asks of the broker: memfds, eventfds, sockets and cgroups. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/link/broker_impl.h"
#include "daemon/link/filemap.h"
#include "daemon/link/memfd.h"
#include "daemon/link/wake.h"
#include "daemon/memory/guard.h"
#include "daemon/memory/holes.h"
#include "daemon/memory/hostmap.h"

#define SEALS_OURS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SEALS_RING	(SEALS_OURS | F_SEAL_FUTURE_WRITE)
#define SAME_FILE_MAX	32u	/* buffers that are one file, of a user; libarax names it */

static struct broker *broker_of_client(struct core_client *c)
{
	return c->core->link;
}

/* memfd_pages(), in the time of its owner. */
static int look_at_pages(struct conn *c, int fd, const struct stat *st, uint64_t bytes,
			 uint64_t *surplus)
{
	uint64_t ns = wake_thread_ns();
	int err = memfd_pages(fd, st, bytes, surplus);

	ns = wake_beyond_usual(wake_thread_ns() - ns);
	broker_time_taken(c->broker, c->uid, c->admin, ns);
	return err;
}

/*
 * One that has the seals, is writable for ever, and whose pages are there.  @bytes: what is mapped
 * of it; 0: all.  *@surplus: what it has behind that, which is its user's as well.
 */
static int inspect(struct conn *c, int fd, int seals, uint64_t bytes, struct stat *st,
		   uint64_t *surplus)
{
	int got = memfd_identify(fd, st);

	if (got < 0)
		return got;
	if ((got & seals) != seals || got & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EINVAL;
	return look_at_pages(c, fd, st, bytes ? bytes : (uint64_t)st->st_size, surplus);
}

/* What of the kernel's own it is, without asking whoever serves it. */
static bool is_called(int fd, const char *name, size_t len)
{
	char path[32], found[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, found, sizeof(found));
	return n >= (ssize_t)len && !memcmp(found, name, len);
}

static bool is_eventfd(int fd)
{
	static const char name[] = "anon_inode:[eventfd]";

	return is_called(fd, name, sizeof(name) - 1);
}

/* A descriptor of our own to the client's eventfd, which must not block us. */
static int take_eventfd(int fd)
{
	int own;

	if (fd < 0)
		return -EBADF;
	if (!is_eventfd(fd))
		return -EINVAL;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	if (fcntl(own, F_SETFL, O_NONBLOCK)) {
		close(own);
		return -EINVAL;
	}
	return own;
}

/* ------------------------------------------------------------------ */
/* Rings                                                               */

/*
 * Where the rings are, if they are sealed and were mapped before that.  -EINPROGRESS: they are
 * mapped now, and nothing of them is touched until their client has sealed them.
 */
static int find_region(struct core_client *cc, int fd, u32 bytes, void **region)
{
	struct conn *c = cc->link;
	uint64_t surplus;
	struct stat st;
	int err, seals = memfd_identify(fd, &st);

	if (seals < 0)
		return seals;
	if ((u64)st.st_size != bytes)
		return -EINVAL;
	if (!(seals & F_SEAL_FUTURE_WRITE)) {
		err = conn_region_map(c, fd, seals, &st);
		return err ? err : -EINPROGRESS;
	}
	*region = conn_region(c, &st);
	if (!*region || (seals & SEALS_RING) != SEALS_RING || seals & F_SEAL_WRITE)
		return -EINVAL;
	err = look_at_pages(c, fd, &st, bytes, &surplus);
	return err ? err : core_buffer_charge_more(cc->ring_buf, surplus);
}

static int ring_alloc(struct core_client *cc, struct arax_context_init *init, u32 bytes)
{
	struct conn *c = cc->link;
	void *region;
	int err;

	err = find_region(cc, init->ring_fd, bytes, &region);
	if (err)
		return err;
	c->wake_fd = take_eventfd(init->wake_fd);
	if (c->wake_fd < 0)
		return c->wake_fd;
	c->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->bell_fd < 0) {
		err = -errno;
		goto close_wake;
	}
	err = guard_add_told(region, bytes, cc->id, &c->lost, &c->guard);
	if (err)
		goto close_bell;
	c->guarded = true;
	cc->region = region;
	cc->link_ring = c;
	conn_region_charged(c, cc->ring_buf);
	init->doorbell_fd = c->bell_fd;
	return 0;
close_bell:
	close(c->bell_fd);
	c->bell_fd = -1;
close_wake:
	close(c->wake_fd);
	c->wake_fd = -1;
	return err;
}

/* Its client may have an epoll set watch it, and keep that busy. */
static void close_polled(struct conn *c, int fd)
{
	closer_close(c->broker->closer, c->holder, CLOSER_OURS, fd);
	c->nr_fds--;
}

/* client->region is NULL by now; only the connection knows where it was. */
static void ring_free(struct core_client *cc)
{
	struct conn *c = cc->link_ring;

	if (c->guarded)
		guard_remove(c->guard);
	c->guarded = false;
	conn_region_drop(c);
	close_polled(c, c->wake_fd);
	close_polled(c, c->bell_fd);
	c->wake_fd = c->bell_fd = -1;
}

static void client_wake(struct core_client *cc, u32 what)
{
	struct conn *c = cc->link;
	struct broker *b = c->broker;

	if (what & CORE_WAKE_TASKS && cc->region && c->wake_fd >= 0 &&
	    !__atomic_load_n(&c->hostile, __ATOMIC_RELAXED) &&
	    core_read_once(core_ctl(cc)->cq_need_wakeup)) {
		uint64_t ns = wake_write(c->wake_fd, &c->wake);

		if (ns) {
			if (ns == WAKE_BLOCKED)
				__atomic_store_n(&c->hostile, 1, __ATOMIC_RELAXED);
			broker_time_taken(b, c->uid, c->admin, ns);
		}
		if (poller_is_here()) {
			rest_woke(b->link.poller, core_read_once(core_ctl(cc)->cq_cpu) - 1);
			conn_comes_back(c);
		}
	}
	if (what & CORE_WAKE_POINTS || core_atomic_read(&cc->sleepers)) {
		__atomic_store_n(&c->woken, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&b->look, 1, __ATOMIC_RELEASE);
		broker_kick(b);
	}
}

static void mediator_wake(struct core *core)
{
	struct broker *b = core->link;

	if (b->link.poller)
		poller_kick(b->link.poller);
}

static void *mediator_alloc(struct core *core, size_t bytes, bool writable)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct broker *b = core->link;

	if (mem == MAP_FAILED)
		return NULL;
	*(writable ? &b->shared_bytes : &b->ring_bytes) = bytes;
	return mem;
}

static void mediator_free(struct core *core, void *mem, bool writable)
{
	struct broker *b = core->link;

	munmap(mem, writable ? b->shared_bytes : b->ring_bytes);
}

/* ------------------------------------------------------------------ */
/* Buffers                                                             */

/*
 * Who makes a file, or a socket, can go on until its number suits him: all of his are not to be in one
 * bucket, which is looked through for each call that brings one.
 */
static uint64_t keyed(const struct broker *b, uint64_t x, uint64_t y)
{
	unsigned __int128 m = (unsigned __int128)(x ^ b->key[0]) * (y ^ b->key[1]);

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint32_t bucket(const struct broker *b, dev_t dev, ino_t ino)
{
	return (uint32_t)(keyed(b, ino, dev) % IDENT_BUCKETS);
}

/* The buffer that was created of that memfd, if there is one. */
static struct bbuf *find_ident(struct broker *b, const struct stat *st)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &b->idents[bucket(b, st->st_dev, st->st_ino)]) {
		struct bbuf *bb = clist_entry(pos, struct bbuf, ident);

		if (bb->dev == st->st_dev && bb->ino == st->st_ino && !bb->buf->type)
			return bb;
	}
	return NULL;
}

/*
 * Then its creator decides who uses it and for how long, and not who was handed the descriptor: a
 * second buffer of the same bytes would be out of his reach.
 */
static bool is_buffer(struct broker *b, const struct stat *st)
{
	bool is;

	pthread_mutex_lock(&b->ident_lock);
	is = find_ident(b, st);
	pthread_mutex_unlock(&b->ident_lock);
	return is;
}

/*
 * To unmap one piece waits for whoever has the file's mappings looked through, and all who map
 * anything wait for that; so however often a user has a file mapped is how often it can be waited for.
 * Those that are destroyed count until they are unmapped.
 */
static bool is_mapped_often(struct broker *b, const struct holder *holder, const struct stat *st)
{
	struct clist *pos, *tmp;
	uint32_t n = 0;

	if (holder_is_unlimited(holder))
		return false;
	pthread_mutex_lock(&b->ident_lock);
	clist_for_each_safe(pos, tmp, &b->files[bucket(b, st->st_dev, st->st_ino)]) {
		const struct bbuf *bb = clist_entry(pos, struct bbuf, same);

		n += bb->dev == st->st_dev && bb->ino == st->st_ino && bb->holder == holder;
	}
	pthread_mutex_unlock(&b->ident_lock);
	return n >= SAME_FILE_MAX;
}

/* What one has of ours. */
#define BUFFER_FDS	1u
#define BUFFER_MAPS	1u

static int map_buffer(struct conn *c, struct core_buffer *buf, int fd, const struct stat *st)
{
	struct broker *b = c->broker;
	struct bbuf *bb;
	uint64_t ns;
	int err;

	if (is_mapped_often(b, c->holder, st))
		return -EMLINK;
	bb = calloc(1, sizeof(*bb));
	if (!bb)
		return -ENOMEM;
	err = holder_take(c->holder, BUFFER_FDS, BUFFER_MAPS);
	if (err)
		goto free;
	bb->holder = c->holder;
	bb->broker = b;
	clist_init(&bb->ident);
	bb->buf = buf;
	bb->dev = st->st_dev;
	bb->ino = st->st_ino;
	bb->map.id = buf->id;
	bb->map.bytes = buf->bytes;
	bb->map.serial = mapping_serial();
	bb->map.lazy = buf->flags & ARAX_BUFFER_EXPLICIT;
	bb->map.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (bb->map.fd < 0) {
		err = -errno;
		goto give;
	}
	bb->map.base = filemap_map(fd, buf->bytes, &ns);
	err = bb->map.base == MAP_FAILED ? -errno : 0;
	broker_time_taken(b, c->uid, c->admin, ns);
	if (err)
		goto close;
	err = guard_add_told(bb->map.base, buf->bytes, buf->context, &bb->map.lost,
			     &bb->map.guard);
	if (err)
		goto unmap;
	/* Else they are looked for while tasks run, see broker_mend.c. */
	if (b->cores_alone)
		holes_fault(bb->map.base, buf->bytes);
	err = hostmap_add(&bb->map);
	if (err)
		goto unguard;
	err = mapping_set(&b->link.mappings, &bb->map);
	if (err)
		goto forget;
	pthread_mutex_lock(&b->ident_lock);
	clist_add_tail(&bb->ident, &b->idents[bucket(b, bb->dev, bb->ino)]);
	clist_add_tail(&bb->same, &b->files[bucket(b, bb->dev, bb->ino)]);
	pthread_mutex_unlock(&b->ident_lock);
	buf->link = bb;
	return 0;
forget:
	hostmap_remove(&bb->map);
unguard:
	guard_remove(bb->map.guard);
unmap:
	munmap(bb->map.base, buf->bytes);
close:
	close(bb->map.fd);
give:
	holder_give(c->holder, BUFFER_FDS, BUFFER_MAPS);
free:
	free(bb);
	return err;
}

static int buffer_create(struct core_client *c, struct core_buffer *buf,
			 struct arax_buffer_create *arg)
{
	uint64_t surplus;
	struct stat st;
	int err = inspect(c->link, arg->fd, SEALS_OURS, buf->bytes, &st, &surplus);

	if (err)
		return err;
	if ((u64)st.st_size != buf->bytes || is_buffer(broker_of_client(c), &st))
		return -EINVAL;
	err = core_buffer_charge_more(buf, surplus);
	if (err)
		return err;
	arg->map_offset = 0;
	return map_buffer(c->link, buf, arg->fd, &st);
}

static int buffer_inspect(struct core_client *c, struct arax_buffer_import *arg,
			  struct core_buffer **existing)
{
	struct broker *b = broker_of_client(c);
	uint64_t surplus;
	struct bbuf *bb;
	struct stat st;
	int err;

	switch (arg->type) {
	case ARAX_IMPORT_ARAX:
		err = memfd_identify(arg->fd, &st);
		if (err < 0)
			return err;
		pthread_mutex_lock(&b->ident_lock);
		bb = find_ident(b, &st);
		err = !bb || !bb->exported ? -EINVAL : core_buffer_use(bb->buf) ? 0 : -ESTALE;
		if (!err)
			*existing = bb->buf;
		pthread_mutex_unlock(&b->ident_lock);
		return err;
	case ARAX_IMPORT_MEMFD:
		err = inspect(c->link, arg->fd, F_SEAL_SHRINK, 0, &st, &surplus);
		if (!err && is_buffer(b, &st))
			err = -EINVAL;
		if (!err)
			arg->bytes = (u64)st.st_size;
		return err;
	}
	return -EOPNOTSUPP;
}

static int buffer_import(struct core_client *c, struct core_buffer *buf,
			 struct arax_buffer_import *arg)
{
	uint64_t surplus;
	struct stat st;
	int err = inspect(c->link, arg->fd, F_SEAL_SHRINK, buf->bytes, &st, &surplus);

	if (err)
		return err;
	/* It may have grown; what was charged is what is mapped. */
	if ((u64)st.st_size < buf->bytes)
		return -EINVAL;
	err = core_buffer_charge_more(buf, surplus);
	if (err)
		return err;
	arg->map_offset = 0;
	return map_buffer(c->link, buf, arg->fd, &st);
}

static int buffer_export(struct core_client *c, struct core_buffer *buf,
			 struct arax_buffer_export *arg)
{
	struct broker *b = broker_of_client(c);
	struct bbuf *bb = buf->link;

	/* What is imported is somebody else's, or has a descriptor already. */
	if (arg->type != ARAX_EXPORT_ARAX || buf->type)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&b->ident_lock);
	bb->exported = true;
	pthread_mutex_unlock(&b->ident_lock);
	arg->fd = bb->map.fd;
	return 0;
}

/* From any thread, the poller's too. */
static void buffer_idle(struct core_buffer *buf)
{
	struct broker *b = buf->core->link;
	struct bbuf *bb = buf->link;

	if (buf->type == CORE_BUFFER_RING) {
		region_idle(buf);	/* ring_free() came before */
		return;
	}
	bb->reap = __atomic_load_n(&b->reap, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&b->reap, &bb->reap, bb, true, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	broker_kick(b);
}

/* Nobody finds it any more.  Its bytes are its tenant's until they have come back: see unmap(). */
static void take_out(struct broker *b, struct bbuf *bb)
{
	pthread_mutex_lock(&b->ident_lock);
	clist_del(&bb->ident);
	pthread_mutex_unlock(&b->ident_lock);
	mapping_clear(&b->link.mappings, bb->map.id);
	holder_give_later(bb->holder, BUFFER_FDS, BUFFER_MAPS);
}

/* Any thread. */
static void unmap(struct bbuf *bb)
{
	bbuf_await_mending(bb);
	hostmap_remove(&bb->map);
	guard_remove(bb->map.guard);
	broker_time_taken(bb->broker, holder_uid(bb->holder), holder_is_unlimited(bb->holder),
			  filemap_unmap(bb->map.base, bb->map.bytes));
	pthread_mutex_lock(&bb->broker->ident_lock);
	clist_del(&bb->same);
	pthread_mutex_unlock(&bb->broker->ident_lock);
	close(bb->map.fd);
	core_buffer_free(bb->buf);
	broker_has_given(bb->broker);
	holder_given(bb->holder, BUFFER_FDS, BUFFER_MAPS);
	free(bb);
}

static void bury(struct host_job *job)
{
	struct bbuf *bb = (struct bbuf *)((char *)job - offsetof(struct bbuf, job));

	poller_buffer_gone(bb->poller, &bb->map);
	unmap(bb);
}

/* To unmap takes half a second for some GiB, of which nobody else's call is to wait for any. */
void broker_reap(struct broker *b)
{
	struct bbuf *bb = __atomic_exchange_n(&b->reap, NULL, __ATOMIC_ACQUIRE);
	struct poller *p = b->link.poller;

	while (bb) {
		struct bbuf *next = bb->reap;

		take_out(b, bb);
		if (p) {
			bb->poller = p;
			bb->job.run = bury;
			host_thread_push(p->undertaker, &bb->job);
		} else {
			unmap(bb);
		}
		bb = next;
	}
}

/* The sharers' mappings of a memfd can't be taken away; the core refuses tasks. */
static void buffer_revoke(struct core_buffer *buf)
{
}

static int buffer_get(struct core_buffer *buf, struct arax_buffer_get *arg)
{
	return -EOPNOTSUPP;	/* the broker's own poller needs no descriptor */
}

/* ------------------------------------------------------------------ */
/* Events and timelines                                                */

static void *event_get(struct core_client *c, int fd, int *err)
{
	struct event *e = calloc(1, sizeof(*e));
	struct conn *conn = c->link;

	if (!e) {
		*err = -ENOMEM;
		return NULL;
	}
	*err = holder_take(conn->holder, 1, 0);
	if (*err)
		goto free;
	e->holder = conn->holder;
	e->broker = conn->broker;
	e->uid = conn->uid;
	e->admin = conn->admin;
	e->fd = take_eventfd(fd);
	if (e->fd < 0) {
		*err = e->fd;
		goto give;
	}
	return e;
give:
	holder_give(e->holder, 1, 0);
free:
	free(e);
	return NULL;
}

static void event_end(void *event, bool fired)
{
	struct event *e = event;
	struct wake_watch each = { .looks = 1 };
	uint64_t ns = fired ? wake_write(e->fd, &each) : 0;

	/* What is full, or waits for no reader, is its client's affair. */
	if (ns)
		broker_time_taken(e->broker, e->uid, e->admin, ns);
	/* On any thread, the poller's too: what closes it is the service thread's affair. */
	e->next = __atomic_load_n(&e->broker->ended, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&e->broker->ended, &e->next, e, true,
					    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	broker_kick(e->broker);
}

void broker_close_ended(struct broker *b)
{
	struct event *e = __atomic_exchange_n(&b->ended, NULL, __ATOMIC_ACQUIRE), *next;

	for (; e; e = next) {
		next = e->next;
		closer_close(b->closer, e->holder, CLOSER_OURS, e->fd);
		free(e);
	}
}

/*
 * False: it is no socket.  A cookie is given once, as long as the machine runs; but once in each
 * network namespace before Linux 5.4, so the number has to be the same as well.
 */
static bool identify_socket(int fd, struct sock_id *id)
{
	socklen_t size = sizeof(id->cookie);
	struct stat st;

	/* First: it asks no file system. */
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &id->cookie, &size) || fstat(fd, &st))
		return false;
	id->ino = st.st_ino;
	return true;
}

static struct clist *token_bucket(struct broker *b, const struct sock_id *id)
{
	return &b->tokens[keyed(b, id->cookie, id->ino) % TOKEN_BUCKETS];
}

/*
 * The descriptor is an end of a pair of sockets.  When its last copy is closed the other end, which
 * we keep, is told: so the reference that the descriptor stands for ends exactly with it, or when
 * somebody who has it shuts it down.  Nothing can be sent by it, nor is it charged to our user as a
 * pipe would be, which any holder may make as large as all pipes of that user may be.
 */
static int make_pair(int *theirs, int *ours)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds))
		return -errno;
	/* Before anybody has the other end: else it could be full of descriptors, ours to close. */
	shutdown(fds[1], SHUT_RD);
	*theirs = fds[0];
	*ours = fds[1];
	return 0;
}

static int timeline_export(struct core_client *cc, struct core_timeline *tl)
{
	struct conn *c = cc->link;
	struct broker *b = c->broker;
	struct epoll_event ev = { 0 };
	struct token *t;
	int fd = -1, err;

	if (c->nr_tokens >= CONN_MAX_TOKENS)
		return -ENOSPC;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	/* Until the last copy is closed: that may be long after the connection. */
	err = holder_take(c->holder, 1, 0);
	if (err)
		goto free;
	/* What Linux needs for the pair is more than a handle is, and is ours. */
	err = core_user_handle_take(b->core, cc->user);
	if (err)
		goto give;
	err = make_pair(&fd, &t->fd);
	if (err)
		goto give_handle;
	t->source.kind = SOURCE_TOKEN;
	ev.data.ptr = &t->source;
	if (!identify_socket(fd, &t->other) ||
	    epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, t->fd, &ev)) {
		err = -ENOMEM;
		goto close;
	}
	t->tl = tl;
	t->conn = c;
	t->user = cc->user;
	t->holder = c->holder;
	c->nr_tokens++;
	clist_add_tail(&t->of_conn, &c->tokens);
	clist_add_tail(&t->node, token_bucket(b, &t->other));
	return fd;
close:
	close(fd);
	close(t->fd);
give_handle:
	core_user_handle_give(b->core, cc->user);
give:
	holder_give(c->holder, 1, 0);
free:
	free(t);
	return err;
}

void broker_token_gone(struct broker *b, struct token *t)
{
	epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, t->fd, NULL);
	/* One that was shut down may have many who watch it, and are told. */
	closer_close(b->closer, t->holder, CLOSER_OURS, t->fd);
	if (t->conn)
		t->conn->nr_tokens--;
	clist_del(&t->of_conn);
	clist_del(&t->node);
	core_timeline_put(b->core, t->tl);
	core_user_handle_give(b->core, t->user);
	free(t);
}

void broker_tokens_forget(struct conn *c)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &c->tokens) {
		clist_entry(pos, struct token, of_conn)->conn = NULL;
		clist_del(pos);
	}
}

void broker_tokens_end(struct broker *b)
{
	struct clist *pos, *tmp;
	uint32_t i;

	for (i = 0; i < TOKEN_BUCKETS; i++)
		clist_for_each_safe(pos, tmp, &b->tokens[i])
			broker_token_gone(b, clist_entry(pos, struct token, node));
}

static struct core_timeline *timeline_import(struct core_client *cc, int fd, int *err)
{
	struct broker *b = broker_of_client(cc);
	struct clist *pos, *tmp;
	struct sock_id id;

	*err = fd < 0 ? -EBADF : -EINVAL;
	if (fd < 0 || !identify_socket(fd, &id))
		return NULL;
	clist_for_each_safe(pos, tmp, token_bucket(b, &id)) {
		struct token *t = clist_entry(pos, struct token, node);

		if (t->other.cookie != id.cookie || t->other.ino != id.ino)
			continue;
		core_spin_lock(&b->core->dispatch);
		t->tl->refs++;
		core_spin_unlock(&b->core->dispatch);
		*err = 0;
		return t->tl;
	}
	return NULL;
}

static int tenant_by_fd(struct core *core, int fd, bool itself, struct core_tenant **out)
{
	struct broker *b = core->link;

	return identity_tenant_by_fd(b->identity, core, fd, itself, out);
}

static bool tenant_gone(struct core *core, const struct core_tenant *t)
{
	struct broker *b = core->link;

	return identity_tenant_gone(b->identity, t);
}

static void tenant_free(struct core *core, struct core_tenant *t)
{
	identity_tenant_free(t);
}

/*
 * By the poller only, as every core_submit() is: conn_consume() has read its clock.
 */
static u64 now(struct core *core)
{
	struct broker *b = core->link;

	return poller_ns(b->link.poller);
}

const struct core_ops broker_ops = {
	.ring_alloc = ring_alloc,
	.ring_free = ring_free,
	.buffer_create = buffer_create,
	.buffer_inspect = buffer_inspect,
	.buffer_import = buffer_import,
	.buffer_export = buffer_export,
	.buffer_idle = buffer_idle,
	.buffer_revoke = buffer_revoke,
	.buffer_get = buffer_get,
	.client_wake = client_wake,
	.mediator_wake = mediator_wake,
	.mediator_alloc = mediator_alloc,
	.mediator_free = mediator_free,
	.event_get = event_get,
	.event_end = event_end,
	.timeline_export = timeline_export,
	.timeline_import = timeline_import,
	.tenant_by_fd = tenant_by_fd,
	.tenant_gone = tenant_gone,
	.tenant_free = tenant_free,
	.now = now,
};
