/* SPDX-License-Identifier: MIT */
/* broker_impl.h - what the broker's files share; nobody else includes it */
#ifndef ARAXD_LINK_BROKER_IMPL_H
#define ARAXD_LINK_BROKER_IMPL_H

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "daemon/config.h"
#include "daemon/dispatch/host.h"
#include "daemon/dispatch/poller.h"
#include "daemon/link/answers.h"
#include "daemon/link/barred.h"
#include "daemon/link/broker.h"
#include "daemon/link/closer.h"
#include "daemon/complaints.h"
#include "daemon/link/holdings.h"
#include "daemon/link/identity.h"
#include "daemon/link/link.h"
#include "daemon/link/patience.h"
#include "daemon/link/wake.h"
#include "daemon/memory/mapping.h"
#include "kmod/core/core.h"
#include "kmod/core/heap.h"

#define CONN_MAX_WAITS		256u	/* calls that wait for timelines, of one connection */
#define CONN_MAX_PENDING	320u	/* and all that wait: so places are left for the others */
#define CONN_MAX_TOKENS		256u	/* exported timelines of one connection */
#define TAKE_PER_TURN	16u	/* of one client: what then is worked on stays in the first cache */

/* What a connection has: its socket and the eventfds of its rings. */
#define CONN_FDS		3u

struct conn;
struct region;

struct request;

/* What a descriptor in the service's epoll set belongs to. */
enum source_kind { SOURCE_CONN, SOURCE_LISTEN, SOURCE_EVENT, SOURCE_TOKEN };

struct source {
	enum source_kind kind;
};

/* A call that is answered later: SUBMIT and WAIT. */
struct pending {
	struct clist node;	/* conn->pending, or ->waits; service thread */
	struct conn *conn;
	uint32_t nr;
	uint32_t id;
	uint32_t size;		/* of the struct as the client sent it */
	union core_args args;
	struct work work;	/* SUBMIT: to the poller and back */
	int result;
	bool at_poller;
	bool begun;		/* the poller's: @from is known */
	uint32_t from;		/* where the ring's head was then */
	bool waiting;		/* counted in client->sleepers, or waiters */
	bool timed;		/* it has a deadline: @due is in broker->due */
	struct cheap due;
	struct core_wait wait;
};

enum conn_where {
	CONN_NOWHERE,		/* no rings yet, or taken out */
	CONN_HOT,		/* polled at every turn */
	CONN_WARM,		/* polled in rotation */
	CONN_STARVED,		/* published without credit, or room: in a rotation of their own */
	CONN_COLD,		/* need_wakeup is set: rings its bell */
};

/*
 * A connection.  @where and the lines below it are the poller's, from the
 * moment at which CMD_ADD is posted to that at which the removal comes back.
 */
struct conn {
	struct source source;	/* first */
	struct clist node;	/* broker->conns; service thread */
	struct broker *broker;
	int fd;
	pid_t pid;
	uid_t uid;
	bool admin;
	uint64_t since_ns;	/* connected */
	bool closing;
	bool paused;
	bool short_of_fds;	/* that is why: what it sends brings some */
	bool at_poller;		/* ring added and not removed */
	uint32_t guard;
	bool guarded;
	uint32_t lost;		/* atomic: its rings are zeros of ours, nothing there reaches the client */
	struct core_client *client;
	struct clist pending, waits;	/* calls, and those that are a WAIT */
	uint32_t nr_waits;
	uint32_t nr_pending;		/* in both */
	uint32_t reached;	/* client->reached, when @waits were last looked at */
	struct clist late;	/* calls that wait for what is on its way back: see broker_call.c */
	uint32_t nr_late;
	struct holder *holder;
	uint32_t nr_fds;	/* of CONN_FDS: the others have been handed to the closer */
	uint32_t nr_flying;	/* answers with descriptors that may be unread */
	struct clist tokens;	/* exported timelines that still live */
	uint32_t nr_tokens;
	struct region *mapped;	/* for its rings */
	int wake_fd;
	struct wake_watch wake;
	int bell_fd;
	struct work add;
	struct work remove;
	struct work_queue calls;	/* for the poller: SUBMITs, and what comes after entries */
	uint32_t nr_calls;	/* atomic: in it, and taken from it but not done */
	struct work take;	/* at the poller while there are any */
	bool removed;
	uint32_t hostile;	/* atomic: its eventfd made us wait */
	bool slow;		/* to be told anything, many watch its socket */
	uint32_t woken;		/* atomic: look at the pending calls */

	enum conn_where where __attribute__((aligned(64)));
	uint32_t index;
	uint32_t starved_at;	/* what it had read by when it was last found to have none */
	uint64_t active;	/* ticks of the last task */
	struct work *taken;	/* from @calls, oldest first */
	struct watch bell;
};

/* Backs a core_buffer. */
struct bbuf {
	struct mapping map;
	struct core_buffer *buf;
	struct holder *holder;
	struct bbuf *reap;	/* broker->reap */
	struct broker *broker;
	struct host_job job;	/* when it goes */
	struct poller *poller;
	struct host_job mend;	/* see broker_mend.c */
	int mending;		/* broker->mend_lock, once that was told */
	bool told;		/* (poller) and so is this */
	dev_t dev;
	ino_t ino;
	bool exported;
	struct clist ident;	/* broker->idents[hash]; ident_lock */
	struct clist same;	/* broker->files[hash], until it is unmapped; ident_lock */
};

/* A client's eventfd that a timeline signals. */
struct event {
	struct holder *holder;
	struct broker *broker;
	struct event *next;	/* broker->ended */
	uid_t uid;
	bool admin;
	int fd;
};

/* Which socket it is. */
struct sock_id {
	uint64_t cookie;
	ino_t ino;
};

/* A timeline that somebody may import by the other end of a pair of sockets. */
struct token {
	struct source source;	/* first */
	struct clist node;	/* broker->tokens[hash]: see keyed() */
	struct clist of_conn;	/* conn->tokens */
	struct core_timeline *tl;
	struct conn *conn;	/* NULL once that is gone */
	struct core_tenant *user;	/* of whose handles it is one, reference held */
	struct holder *holder;
	int fd;
	struct sock_id other;	/* the end that was given out */
};

struct conn_set {
	struct conn **at;
	uint32_t n, cap;
};

#define IDENT_BUCKETS	1024u
#define TOKEN_BUCKETS	1024u

struct broker {
	struct link link;	/* first */
	const struct config *config;
	void (*arriving)(void *arg);
	void *arriving_arg;
	struct core *core;
	char path[108];
	size_t ring_bytes, shared_bytes;	/* of the mediator's memory */
	struct identity *identity;
	struct holdings *holdings, *own_holdings;
	struct closer *closer;
	struct patience patience;
	struct answers answers;
	uid_t own_uid;
	bool own_admin;

	/* The service thread's. */
	pthread_t thread;
	bool started;
	int listen_fd;
	int lock_fd;
	int epoll_fd;
	int event_fd;
	struct source listen_source, event_source;
	bool listening;
	bool said_full;		/* nobody is taken, as there is no room for anybody */
	uint64_t listen_ns;	/* not before; 0: not by itself */
	uint32_t nr_paused;	/* connections from which nothing is read for now */
	uint32_t nr_late;	/* of all their late calls */
	uint32_t given;		/* atomic: buffers and rings whose bytes have come back */
	struct barred barred;	/* users whose refused connections have too much to be closed */
	uint64_t looked_barred_ns;
	bool any_closing;
	struct complaints refused, malformed, killed, unbarred;
	struct clist conns;
	uint32_t nr_conns;
	uint64_t looked_idle_ns;	/* last search for connections without rings */
	struct cheap *due;		/* waiting calls by their deadlines */
	struct clist tokens[TOKEN_BUCKETS];	/* by their other ends */
	uint32_t refuse;	/* atomic */
	uint32_t stop;		/* atomic */
	struct work_queue replies;	/* from the poller */
	struct bbuf *reap;	/* atomic stack: buffers without users */
	struct event *ended;	/* atomic stack: eventfds to be closed */
	uint32_t look;		/* atomic: some conn->woken is set */
	bool unsettled;		/* the poller's: see broker_settle() */

	struct host_thread *mender;
	pthread_mutex_t mend_lock;
	pthread_cond_t mended;

	uint64_t key[2];		/* of both tables: see keyed() */
	pthread_mutex_t ident_lock;
	struct clist idents[IDENT_BUCKETS];
	struct clist files[IDENT_BUCKETS];
	bool cores_alone;	/* nothing but processors touches buffers: see holes.h */

	/* The poller's. */
	struct conn_set hot, warm, starved;
	uint32_t warm_next, starved_next;
	uint32_t nr_rings;		/* for so many there is room in each */
	uint64_t warm_ticks, cold_ticks;
	uint64_t starved_ns;		/* until they are looked at again */
	uint32_t weights_asked;
	bool quiet;		/* take in nothing */
};

/* broker.c */
void broker_kick(struct broker *b);
/* Any thread: bytes have come back to a tenant.  Before holder_given() of what they were of. */
void broker_has_given(struct broker *b);
void broker_reply_later(struct broker *b, struct work *w);
struct conn *broker_conn_by_context(struct broker *b, uint32_t context);
void conn_close(struct conn *c);
bool conn_has_hung_up(const struct conn *c);
/* Nothing is read from it until its user's descriptors are closed. */
void conn_pause(struct conn *c);
/*
 * Of any thread's, by what @uid has it wake or map: @ns beyond the usual.  0: nothing.  With locks held
 * nobody can be killed, so the service thread does.
 */
void broker_time_taken(struct broker *b, uid_t uid, bool admin, uint64_t ns);
/* Of that user, who can make closing it wait; not counted yet. */
void broker_close_foreign(struct broker *b, uid_t uid, bool admin, int fd);

/* broker_call.c: a readable socket, of which so many messages are taken */
void conn_readable(struct conn *c, uint32_t most);
void conn_answer(struct conn *c, uint32_t nr, uint32_t id, int result, union core_args *a,
		 uint32_t size, int fd);

/* Once more, or for the last time, what would have had no room. */
void conn_try_late(struct conn *c);
void conn_drop_late(struct conn *c);

/* broker_wait.c */
int conn_submit(struct conn *c, uint32_t nr, uint32_t id, uint32_t size,
		const union core_args *a);
/*
 * Runs a call when every entry that was published before it has been consumed:
 * a task may name what the next call destroys, or be what it cancels.
 */
int conn_after_submitted(struct conn *c, uint32_t nr, uint32_t id, uint32_t size,
			 const union core_args *a);
int conn_wait(struct conn *c, uint32_t id, uint32_t size, const union core_args *a);
void conn_check_pending(struct conn *c, uint64_t now_ns);
void conn_drop_pending(struct conn *c);
/* Answers those whose deadline has come, of all connections. */
void broker_settle_due(struct broker *b);
bool conn_at_poller(const struct conn *c);

/* broker_ops.c */
extern const struct core_ops broker_ops;
void broker_reap(struct broker *b);
void broker_close_ended(struct broker *b);
void broker_token_gone(struct broker *b, struct token *t);
void broker_tokens_forget(struct conn *c);
void broker_tokens_end(struct broker *b);

/* broker_region.c: the memory of a client's rings */
/* Maps all of a memfd, in place of what was mapped before.  -EINVAL, -ENOMEM, -EDQUOT. */
int conn_region_map(struct conn *c, int fd, int seals, const struct stat *st);
/* Where that file is mapped; NULL: it isn't, or had another size. */
void *conn_region(const struct conn *c, const struct stat *st);
void conn_region_drop(struct conn *c);
/* It is charged as @ring, until it is unmapped; region_idle(): and no task uses that, any thread. */
void conn_region_charged(struct conn *c, struct core_buffer *ring);
void region_idle(struct core_buffer *ring);

/* broker_mend.c: buffers with holes */
/* See link_ops.look_at. */
void broker_look_at(struct link *l, struct mapping *m);
/* No task uses it: until nobody changes its mapping any more. */
void bbuf_await_mending(struct bbuf *bb);

/* broker_ring.c: the poller's side */
extern const struct link_ops broker_link_ops;
/* What the scheduler is to know of a tenant; under the core's lock. */
void broker_tenant_of(const struct core_tenant *from, struct sched_tenant *t);
int conn_add_ring(struct conn *c);
void conn_remove_ring(struct conn *c);
/* (poller) As core_submit_try(): after -EBUSY the entries are still there. */
int conn_consume(struct conn *c, uint32_t max);
/* (poller, with the core's locks) Its client has been woken, and may have something to send soon. */
void conn_comes_back(struct conn *c);

#endif /* ARAXD_LINK_BROKER_IMPL_H */
