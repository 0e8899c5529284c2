// SPDX-License-Identifier: MIT
#include "daemon/link/closer.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/link/holdings.h"
#include "daemon/log.h"
#include "kmod/core/list.h"

#define MAX_THREADS	1024u	/* of all users; administrators have theirs in any case */
#define LINGER_S	1	/* so long a thread waits for more to close */
#define STUCK_NS	1000000000u
#define STACK_BYTES	(128u * 1024)

struct item {
	struct item *next;
	struct holder *holder;
	enum closer_kind kind;
	int fd;
	size_t bytes;		/* of msg, to be sent first */
	uint8_t msg[CLOSER_MSG];
};

/* A user of whom something is to be closed, or was a moment ago. */
struct closer_user {
	struct clist node;
	struct closer *set;
	uid_t uid;
	bool unlimited;
	struct item *first, **last;
	uint32_t foreign;	/* waiting, and being closed */
	uint64_t since_ns;	/* one is being closed, or waits for a thread; 0: none */
	bool has_thread;
	bool said;
	pthread_cond_t more;
};

struct closer {
	pthread_mutex_t lock;	/* all that follows, and users */
	struct clist users;
	uint32_t most, of_all;
	uint32_t threads;
	bool ended;
	uint32_t foreign;	/* of all but administrators; atomic */
};

struct closer *closer_create(uint32_t most, uint32_t of_all)
{
	struct closer *cl = calloc(1, sizeof(*cl));

	if (!cl)
		return NULL;
	pthread_mutex_init(&cl->lock, NULL);
	clist_init(&cl->users);
	cl->most = most ?: 1;
	cl->of_all = of_all > cl->most ? of_all : cl->most;
	return cl;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void user_free(struct closer_user *u)
{
	clist_del(&u->node);
	pthread_cond_destroy(&u->more);
	free(u);
}

/* (locked) */
static struct closer_user *find(struct closer *cl, uid_t uid, bool unlimited)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &cl->users) {
		struct closer_user *u = clist_entry(pos, struct closer_user, node);

		if (u->uid == uid && u->unlimited == unlimited)
			return u;
	}
	return NULL;
}

/* (locked) */
static struct closer_user *begin(struct closer *cl, uid_t uid, bool unlimited)
{
	struct closer_user *u = calloc(1, sizeof(*u));
	pthread_condattr_t a;

	if (!u)
		return NULL;
	u->set = cl;
	u->uid = uid;
	u->unlimited = unlimited;
	u->last = &u->first;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&u->more, &a);
	pthread_condattr_destroy(&a);
	clist_add_tail(&u->node, &cl->users);
	return u;
}

static struct item *take_first(struct closer_user *u)
{
	struct item *it = u->first;

	u->first = it->next;
	if (!u->first)
		u->last = &u->first;
	return it;
}

/* (locked, but not while it closes) */
static void close_first(struct closer_user *u)
{
	struct closer *cl = u->set;
	struct item *it = take_first(u);

	u->since_ns = now_ns();
	pthread_mutex_unlock(&cl->lock);
	if (it->bytes)
		send(it->fd, it->msg, it->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(it->fd);
	pthread_mutex_lock(&cl->lock);
	u->since_ns = u->first ? now_ns() : 0;
	if (it->kind == CLOSER_FOREIGN) {
		u->foreign--;
		if (!u->unlimited)
			__atomic_fetch_sub(&cl->foreign, 1, __ATOMIC_RELAXED);
		if (u->foreign < cl->most / 2)
			u->said = false;
	}
	if (!cl->ended)
		holder_given(it->holder, 1, 0);
	free(it);
}

/* (locked) False: nothing came. */
static bool await_more(struct closer_user *u)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LINGER_S;
	while (!u->first && !u->set->ended)
		if (pthread_cond_timedwait(&u->more, &u->set->lock, &until))
			break;
	return u->first;
}

/* (locked) One who has waited for a thread. */
static struct closer_user *without_thread(struct closer *cl)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &cl->users)
		if (!clist_entry(pos, struct closer_user, node)->has_thread)
			return clist_entry(pos, struct closer_user, node);
	return NULL;
}

static void *close_all(void *arg)
{
	struct closer_user *u = arg;
	struct closer *cl = u->set;
	bool last;

	pthread_mutex_lock(&cl->lock);
	while (u) {
		do {
			while (u->first)
				close_first(u);
		} while (await_more(u));
		user_free(u);
		u = without_thread(cl);
		if (u)
			u->has_thread = true;
	}
	cl->threads--;
	last = cl->ended && !cl->threads;
	pthread_mutex_unlock(&cl->lock);
	if (last) {
		pthread_mutex_destroy(&cl->lock);
		free(cl);
	}
	return NULL;
}

/* (locked) Where none is to be had what there is to close waits, for another thread or another try. */
static void start_thread(struct closer_user *u)
{
	struct closer *cl = u->set;
	pthread_attr_t a;
	pthread_t t;

	if (cl->threads >= MAX_THREADS && !u->unlimited)
		return;
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	if (!pthread_create(&t, &a, close_all, u)) {
		pthread_setname_np(t, "arax-closer");
		u->has_thread = true;
		cl->threads++;
	}
	pthread_attr_destroy(&a);
}

/* (locked) */
static bool add(struct closer *cl, struct holder *holder, enum closer_kind kind, int fd,
		const void *msg, size_t bytes)
{
	uid_t uid = holder_uid(holder);
	bool unlimited = holder_is_unlimited(holder);
	struct closer_user *u = find(cl, uid, unlimited) ?: begin(cl, uid, unlimited);
	struct item *it = u ? calloc(1, sizeof(*it)) : NULL;

	if (!it) {
		if (u && !u->has_thread && !u->first)
			user_free(u);
		return false;
	}
	*it = (struct item){ .holder = holder, .kind = kind, .fd = fd, .bytes = bytes };
	if (bytes)
		memcpy(it->msg, msg, bytes);
	if (!u->since_ns)
		u->since_ns = now_ns();
	*u->last = it;
	u->last = &it->next;
	holder_give_later(holder, 1, 0);
	if (kind == CLOSER_FOREIGN) {
		u->foreign++;
		if (!unlimited)
			__atomic_fetch_add(&cl->foreign, 1, __ATOMIC_RELAXED);
	}
	if (u->has_thread)
		pthread_cond_signal(&u->more);
	else
		start_thread(u);
	return true;
}

static void close_later(struct closer *cl, struct holder *holder, enum closer_kind kind, int fd,
			const void *msg, size_t bytes)
{
	bool added;

	pthread_mutex_lock(&cl->lock);
	added = add(cl, holder, kind, fd, msg, bytes);
	pthread_mutex_unlock(&cl->lock);
	if (!added)
		log_warn("no memory to close a descriptor: it stays open",
			 log_u64("uid", holder_uid(holder)));
}

void closer_close(struct closer *cl, struct holder *holder, enum closer_kind kind, int fd)
{
	close_later(cl, holder, kind, fd, NULL, 0);
}

void closer_tell(struct closer *cl, struct holder *holder, int fd, const void *msg, size_t bytes)
{
	close_later(cl, holder, CLOSER_FOREIGN, fd, msg, bytes < CLOSER_MSG ? bytes : CLOSER_MSG);
}

/*
 * (locked) Many users, each with less than one may have, could have all descriptors that there are.  So
 * where there are many in all, who has any waits for them; others are none the worse for it.
 */
static bool is_full(const struct closer *cl, const struct closer_user *u)
{
	return u->foreign >= cl->most ||
	       (u->foreign && __atomic_load_n(&cl->foreign, __ATOMIC_RELAXED) >= cl->of_all);
}

/* (locked) By his own doing: there may be no thread for what he has, as others' are stuck. */
static bool is_stuck(const struct closer *cl, const struct closer_user *u)
{
	return (u->has_thread || u->foreign >= cl->most) && u->since_ns &&
	       now_ns() - u->since_ns > STUCK_NS;
}

enum closer_state closer_state(struct closer *cl, uid_t uid)
{
	enum closer_state state = CLOSER_ROOM;
	struct closer_user *u;
	bool news = false;

	/* All together have fewer: at every message, so without the lock. */
	if (__atomic_load_n(&cl->foreign, __ATOMIC_RELAXED) < cl->most)
		return CLOSER_ROOM;
	pthread_mutex_lock(&cl->lock);
	u = find(cl, uid, false);
	if (u && is_full(cl, u))
		state = is_stuck(cl, u) ? CLOSER_STUCK : CLOSER_FULL;
	if (state == CLOSER_STUCK) {
		news = !u->said;
		u->said = true;
	}
	pthread_mutex_unlock(&cl->lock);
	if (news)
		log_warn("a user has sent descriptors that take long to close: connections ended, no more until they are closed",
			 log_u64("uid", uid), log_u64("limit", cl->most),
			 log_u64("of_all", cl->of_all),
			 log_str("remedy", "end that user's programs, or what serves their files"));
	return state;
}

void closer_end(struct closer *cl)
{
	struct clist *pos, *tmp;
	bool last;

	if (!cl)
		return;
	pthread_mutex_lock(&cl->lock);
	cl->ended = true;
	clist_for_each_safe(pos, tmp, &cl->users) {
		struct closer_user *u = clist_entry(pos, struct closer_user, node);

		if (u->has_thread) {
			pthread_cond_signal(&u->more);
			continue;
		}
		while (u->first)
			free(take_first(u));
		user_free(u);
	}
	last = !cl->threads;
	pthread_mutex_unlock(&cl->lock);
	if (last) {
		pthread_mutex_destroy(&cl->lock);
		free(cl);
	}
}
