// SPDX-License-Identifier: MIT
#include "daemon/link/holdings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "daemon/log.h"
#include "kmod/core/list.h"

#define USUAL_MAPS	65530u	/* the kernel's own default */

enum kind { FDS, MAPS, NR_KINDS };

/*
 * What there is of a kind, what is had, how much of it is on its way back, and whether it has
 * been said that it is too much.
 */
struct count {
	uint64_t most[NR_KINDS], used[NR_KINDS], going[NR_KINDS];
	bool said[NR_KINDS];
};

struct holder {
	struct clist node;
	struct holdings *set;
	uid_t uid;
	bool unlimited;
	struct count count;
};

struct holdings {
	pthread_mutex_t lock;		/* all that follows, and holders */
	struct clist holders;
	struct count count;
	uint64_t of_one[NR_KINDS];
	uint64_t more[NR_KINDS];	/* of all together, for those without a limit of their own */
};

void holdings_limits(struct holdings_limits *l)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long long maps;
	struct rlimit r;

	l->fds = getrlimit(RLIMIT_NOFILE, &r) ? 1024 : r.rlim_cur;
	l->maps = f && fscanf(f, "%llu", &maps) == 1 ? maps : USUAL_MAPS;
	if (f)
		fclose(f);
}

struct holdings *holdings_create(const struct holdings_limits *l)
{
	const uint64_t all[NR_KINDS] = { l->fds, l->maps };
	struct holdings *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	clist_init(&h->holders);
	for (int i = 0; i < NR_KINDS; i++) {
		h->of_one[i] = all[i] / 4;
		h->more[i] = all[i] / 8;
		h->count.most[i] = all[i] - all[i] / 4;
	}
	return h;
}

void holdings_destroy(struct holdings *h)
{
	struct clist *pos, *tmp;

	if (!h)
		return;
	clist_for_each_safe(pos, tmp, &h->holders)
		free(clist_entry(pos, struct holder, node));
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* Once, until there is less again: who is refused comes back at once. */
static bool is_news(struct count *c, enum kind kind)
{
	bool said = c->said[kind];

	c->said[kind] = true;
	return !said;
}

static const char *remedy_of(enum kind kind)
{
	return kind == FDS ? "a higher LimitNOFILE= of araxd's unit, or fewer connections, buffers, exported timelines and armed eventfds" :
			     "a higher vm.max_map_count (sysctl), or fewer connections and buffers";
}

/* (locked) */
static int refuse_one(struct holder *o, enum kind kind)
{
	if (is_news(&o->count, kind))
		log_warn(kind == FDS ? "a user has as many of araxd's descriptors as one may have" :
				       "a user has as many of araxd's mappings as one may have",
			 log_u64("uid", o->uid), log_u64("limit", o->count.most[kind]),
			 log_str("remedy", remedy_of(kind)));
	return -EDQUOT;
}

/* (locked) */
static int refuse_all(struct holdings *h, enum kind kind)
{
	if (is_news(&h->count, kind))
		log_warn(kind == FDS ? "clients have as many of araxd's descriptors as they may have" :
				       "clients have as many of araxd's mappings as they may have",
			 log_u64("limit", h->count.most[kind]),
			 log_str("remedy", remedy_of(kind)));
	return kind == FDS ? -EMFILE : -ENOMEM;
}

static bool is_over(const struct count *c, enum kind kind, uint32_t more)
{
	uint64_t most = c->most[kind], going = c->going[kind], used = c->used[kind] + more;

	return more && (used - going > most || used > most + most / 2);
}

static void add(struct count *c, const uint32_t *n)
{
	for (int i = 0; i < NR_KINDS; i++)
		__atomic_fetch_add(&c->used[i], n[i], __ATOMIC_RELAXED);
}

static void sub(struct count *c, const uint32_t *n)
{
	for (int i = 0; i < NR_KINDS; i++) {
		__atomic_fetch_sub(&c->used[i], n[i], __ATOMIC_RELAXED);
		if (c->used[i] <= c->most[i] / 2)
			c->said[i] = false;
	}
}

/* Of all users' together nothing is on its way back: it is there, or not. */
static bool all_are_over(const struct holder *o, enum kind kind, uint32_t more)
{
	const struct holdings *h = o->set;
	uint64_t most = h->count.most[kind] + (o->unlimited ? h->more[kind] : 0);

	return more && h->count.used[kind] + more > most;
}

/* (locked) */
static int take(struct holder *o, const uint32_t *n)
{
	for (int i = 0; i < NR_KINDS; i++) {
		if (is_over(&o->count, (enum kind)i, n[i]))
			return refuse_one(o, (enum kind)i);
		if (all_are_over(o, (enum kind)i, n[i]))
			return refuse_all(o->set, (enum kind)i);
	}
	add(&o->count, n);
	add(&o->set->count, n);
	return 0;
}

/* (locked) */
static void end_if_empty(struct holder *o)
{
	for (int i = 0; i < NR_KINDS; i++)
		if (o->count.used[i])
			return;
	clist_del(&o->node);
	free(o);
}

/* (locked) A uid may be two: 0 is root of this machine, and of containers. */
static struct holder *find(struct holdings *h, uid_t uid, bool unlimited)
{
	struct clist *pos, *tmp;
	struct holder *o;

	clist_for_each_safe(pos, tmp, &h->holders) {
		o = clist_entry(pos, struct holder, node);
		if (o->uid == uid && o->unlimited == unlimited)
			return o;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->set = h;
	o->uid = uid;
	o->unlimited = unlimited;
	for (int i = 0; i < NR_KINDS; i++)
		o->count.most[i] = unlimited ? h->count.most[i] + h->more[i] : h->of_one[i];
	clist_add_tail(&o->node, &h->holders);
	return o;
}

int holdings_take(struct holdings *h, uid_t uid, bool unlimited, uint32_t fds, uint32_t maps,
		  struct holder **holder)
{
	const uint32_t n[NR_KINDS] = { fds, maps };
	int err = -ENOMEM;
	struct holder *o;

	pthread_mutex_lock(&h->lock);
	o = find(h, uid, unlimited);
	if (o) {
		err = take(o, n);
		if (err)
			end_if_empty(o);
		else
			*holder = o;
	}
	pthread_mutex_unlock(&h->lock);
	return err;
}

struct holder *holdings_owe(struct holdings *h, uid_t uid, bool unlimited, uint32_t fds)
{
	const uint32_t n[NR_KINDS] = { fds, 0 };
	struct holder *o;

	pthread_mutex_lock(&h->lock);
	o = find(h, uid, unlimited);
	if (o) {
		add(&o->count, n);
		add(&h->count, n);
	}
	pthread_mutex_unlock(&h->lock);
	return o;
}

/* At every message, so without the lock. */
bool holdings_may_owe(const struct holdings *h)
{
	return __atomic_load_n(&h->count.used[FDS], __ATOMIC_RELAXED) <= h->count.most[FDS];
}

bool holdings_have(const struct holdings *h, uint32_t fds)
{
	return __atomic_load_n(&h->count.used[FDS], __ATOMIC_RELAXED) + fds <=
	       h->count.most[FDS] + h->more[FDS];
}

uid_t holder_uid(const struct holder *holder)
{
	return holder->uid;
}

bool holder_is_unlimited(const struct holder *holder)
{
	return holder->unlimited;
}

int holder_take(struct holder *holder, uint32_t fds, uint32_t maps)
{
	const uint32_t n[NR_KINDS] = { fds, maps };
	int err;

	pthread_mutex_lock(&holder->set->lock);
	err = take(holder, n);
	pthread_mutex_unlock(&holder->set->lock);
	return err;
}

void holder_give_later(struct holder *holder, uint32_t fds, uint32_t maps)
{
	pthread_mutex_lock(&holder->set->lock);
	holder->count.going[FDS] += fds;
	holder->count.going[MAPS] += maps;
	pthread_mutex_unlock(&holder->set->lock);
}

bool holder_is_giving(struct holder *holder)
{
	bool is;

	pthread_mutex_lock(&holder->set->lock);
	is = holder->count.going[MAPS];
	pthread_mutex_unlock(&holder->set->lock);
	return is;
}

void holder_given(struct holder *holder, uint32_t fds, uint32_t maps)
{
	const uint32_t n[NR_KINDS] = { fds, maps };
	struct holdings *h = holder->set;

	pthread_mutex_lock(&h->lock);
	holder->count.going[FDS] -= fds;
	holder->count.going[MAPS] -= maps;
	sub(&holder->count, n);
	sub(&h->count, n);
	end_if_empty(holder);
	pthread_mutex_unlock(&h->lock);
}

void holder_give(struct holder *holder, uint32_t fds, uint32_t maps)
{
	holder_give_later(holder, fds, maps);
	holder_given(holder, fds, maps);
}
