// SPDX-License-Identifier: MIT
/*
 * The poller's side of the broker: which clients' rings are looked at when.
 *
 *   hot	worked in the last tenth of a millisecond: at every turn
 *   warm	a few at every turn, in rotation
 *   starved	as many, in another one: they stay for as long as their clients like
 *   cold	not at all: sq_need_wakeup is set, the client rings its bell
 *
 * So sixty idle contexts cost nothing, and an awake client no system call.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "daemon/link/broker_impl.h"
#include "daemon/log.h"

#define WARM_US		100u	/* without work: from hot to warm */
#define COLD_US		10000u	/* and to cold */
#define WARM_PER_TURN	4u
#define STARVED_NS	1000000u	/* until those that starve are looked at again, */
#define STARVED_MAX_NS	64000000u	/* and twice as long each time, up to this */

static struct broker *broker_of(struct link *l)
{
	return (struct broker *)l;
}

static int set_reserve(struct conn_set *s, uint32_t n)
{
	uint32_t cap = s->cap ?: 64;
	struct conn **at;

	while (cap < n)
		cap *= 2;
	if (cap == s->cap)
		return 0;
	at = realloc(s->at, cap * sizeof(*at));
	if (!at)
		return -ENOMEM;
	s->at = at;
	s->cap = cap;
	return 0;
}

static struct conn_set *set_of(struct broker *b, enum conn_where where)
{
	return where == CONN_HOT ? &b->hot :
	       where == CONN_WARM ? &b->warm :
	       where == CONN_STARVED ? &b->starved : NULL;
}

static void leave(struct conn *c)
{
	struct conn_set *s = set_of(c->broker, c->where);

	if (s) {
		s->at[c->index] = s->at[--s->n];
		s->at[c->index]->index = c->index;
	}
	c->where = CONN_NOWHERE;
}

static void set_need_wakeup(struct conn *c, uint32_t value)
{
	__atomic_store_n(&core_ctl(c->client)->sq_need_wakeup, value, __ATOMIC_RELAXED);
}

/* All sets have room: add_now() has seen to it. */
static void move(struct conn *c, enum conn_where where)
{
	struct conn_set *s = set_of(c->broker, where);

	/* Of those that starve it is set whenever the poller has slept. */
	if (c->where == CONN_COLD || c->where == CONN_STARVED)
		set_need_wakeup(c, 0);
	leave(c);
	c->where = where;
	c->index = s->n;
	s->at[s->n++] = c;
}

static void make_hot(struct conn *c, uint64_t ticks)
{
	c->active = ticks;
	move(c, CONN_HOT);
}

/* False: there is an entry after all, and the client stays where it was. */
static bool make_cold(struct conn *c)
{
	set_need_wakeup(c, 1);
	/* Pairs with the client's barrier between its seq word and this flag. */
	core_full_barrier();
	if (core_submit_ready(c->client)) {
		set_need_wakeup(c, 0);
		return false;
	}
	leave(c);
	c->where = CONN_COLD;
	return true;
}

int conn_consume(struct conn *c, uint32_t max)
{
	struct broker *b = c->broker;
	struct poller *p = b->link.poller;
	int n;

	if (c->where == CONN_NOWHERE)
		return -EPIPE;
	/* Afresh: from here on its tasks wait. */
	p->now = ticks_now(&p->ticks);
	p->exact = true;
	/* A cancel of many tasks takes milliseconds, which are the client's own and nobody else's. */
	n = core_submit_try(c->client, max);
	if (n == -EBUSY)
		return n;
	/* Refused ones may have reached timelines, even before the ring was found corrupt. */
	b->unsettled = true;
	if (n > 0) {
		if (c->where != CONN_HOT)
			make_hot(c, p->now);
		c->active = p->now;
	} else if (n == -EAGAIN) {
		c->starved_at = core_read_once(c->client->cq_seen);
		if (c->where != CONN_STARVED) {
			move(c, CONN_STARVED);
			b->starved_ns = STARVED_NS;
		}
	} else if (n != -EAGAIN && n != -EINVAL) {
		leave(c);
	}
	return n;
}

void conn_comes_back(struct conn *c)
{
	if (c->where == CONN_COLD)
		make_hot(c, c->broker->link.poller->now);
}

/* The first line is here; fetch the second, if there is one, while the locks are taken. */
static void prefetch_entry(const struct core_client *c)
{
	const uint8_t *entry = c->region + c->layout.sq_offset +
			       (size_t)(c->sq_head & (c->depth - 1)) * c->entry_size;
	const struct arax_task *t = (const void *)entry;

	/* Not to be trusted, nor is it: the core reads it anew. */
	if (!(__atomic_load_n(&t->flags, __ATOMIC_RELAXED) & ARAX_TASK_SHORT))
		__builtin_prefetch(entry + 64);
}

/* The next ones of a rotation; how many entries they had. */
static uint32_t poll_some(const struct conn_set *s, uint32_t *next, uint32_t *asked)
{
	uint32_t i, n = 0;
	int got;

	for (i = 0; i < WARM_PER_TURN && i < s->n; i++) {
		struct conn *c = s->at[(*next)++ % s->n];

		if (!core_submit_ready(c->client))
			continue;
		got = conn_consume(c, TAKE_PER_TURN);
		++*asked;
		if (got > 0)
			n += (uint32_t)got;
	}
	return n;
}

static uint32_t broker_poll(struct link *l, uint64_t ticks)
{
	struct broker *b = broker_of(l);
	uint32_t i, n = 0, asked = 0, head = l->head;
	const bool empty = !core_ring_peek(l->ring, l->cells, &head);
	int got;

	if (b->quiet)
		return 0;
	for (i = 0; i < b->hot.n; i++) {
		struct conn *c = b->hot.at[i];

		if (!core_submit_ready(c->client))
			continue;
		prefetch_entry(c->client);
		got = conn_consume(c, TAKE_PER_TURN);
		asked++;
		if (got > 0)
			n += (uint32_t)got;
		else if (c->where != CONN_HOT)
			i--;	/* another took its place */
	}
	n += poll_some(&b->warm, &b->warm_next, &asked);
	n += poll_some(&b->starved, &b->starved_next, &asked);
	/* The first one of several, or of another client, has not waited since then alone. */
	if (asked > 1 || n > 1 || !empty)
		l->poller->exact = false;
	return n;
}

static void broker_house(struct link *l, uint64_t ticks)
{
	struct broker *b = broker_of(l);
	uint32_t i;

	for (i = b->hot.n; i--;) {
		struct conn *c = b->hot.at[i];

		if (ticks - c->active > b->warm_ticks && (int64_t)(ticks - c->active) > 0)
			move(c, CONN_WARM);
	}
	for (i = b->warm.n; i--;) {
		struct conn *c = b->warm.at[i];

		if (ticks - c->active > b->cold_ticks &&
		    (int64_t)(ticks - c->active) > 0 && !make_cold(c))
			make_hot(c, ticks);
	}
}

/*
 * Nothing of it can be taken now.  Nothing tells of credit, but who has read nothing has no more; of
 * room the ends of tasks do, which are committed here.  What else makes some (a cancel, a context's
 * end, another limit) is seen later.
 */
static bool is_stuck(const struct conn *c)
{
	if (core_read_once(c->client->awaits_room))
		return core_awaits_room(c->client);
	return core_read_once(core_ctl(c->client)->cq_head) == c->starved_at;
}

static void set_need_wakeups(const struct conn_set *s, uint32_t value)
{
	for (uint32_t i = 0; i < s->n; i++)
		set_need_wakeup(s->at[i], value);
}

/* All flags are set, and a barrier was issued.  Who has something is not left to its rotation. */
static bool some_are_ready(struct broker *b)
{
	uint64_t ticks = b->link.poller->now;
	bool ready = false;
	uint32_t i;

	for (i = 0; i < b->hot.n; i++)
		ready |= core_submit_ready(b->hot.at[i]->client);
	for (i = b->warm.n; i--;) {
		if (!core_submit_ready(b->warm.at[i]->client))
			continue;
		make_hot(b->warm.at[i], ticks);
		ready = true;
	}
	for (i = b->starved.n; i--;) {
		if (is_stuck(b->starved.at[i]) || !core_submit_ready(b->starved.at[i]->client))
			continue;
		make_hot(b->starved.at[i], ticks);
		ready = true;
	}
	return ready;
}

static void make_all_cold(struct conn_set *s)
{
	while (s->n) {
		struct conn *c = s->at[s->n - 1];

		leave(c);
		c->where = CONN_COLD;
	}
}

static bool broker_sleep(struct link *l, uint64_t *timeout_ns)
{
	struct broker *b = broker_of(l);
	struct arax_fetch fetch = { .size = sizeof(fetch) };
	bool ready;

	/* All flags, one barrier, all rings: */
	set_need_wakeups(&b->hot, 1);
	set_need_wakeups(&b->warm, 1);
	set_need_wakeups(&b->starved, 1);
	__atomic_store_n(&l->page->need_wakeup, 1, __ATOMIC_RELAXED);
	/*
	 * Pairs with the client's barrier between seq word and sq_need_wakeup,
	 * and with the core's between publishing and page->need_wakeup.
	 */
	core_full_barrier();
	/* Of what waits for room some may be left without being in the ring. */
	ready = !core_fetch(b->core, &fetch) && fetch.ready;
	ready |= !b->quiet && some_are_ready(b);
	if (ready) {
		set_need_wakeups(&b->hot, 0);
		set_need_wakeups(&b->warm, 0);
		set_need_wakeups(&b->starved, 0);
		return false;
	}
	make_all_cold(&b->hot);
	make_all_cold(&b->warm);
	/* Credit comes back without a bell: look again soon. */
	if (b->starved.n && *timeout_ns > b->starved_ns) {
		*timeout_ns = b->starved_ns;
		b->starved_ns = b->starved_ns < STARVED_MAX_NS ? 2 * b->starved_ns : b->starved_ns;
	}
	return true;
}

static void broker_awake(struct link *l, uint64_t ticks)
{
	__atomic_store_n(&l->page->need_wakeup, 0, __ATOMIC_RELAXED);
}

/* A doorbell. */
static void broker_event(struct link *l, void *cookie, uint64_t ticks)
{
	struct conn *c = cookie;

	if (c->where != CONN_HOT && c->where != CONN_NOWHERE)
		make_hot(c, ticks);
}

static void broker_commit(struct link *l)
{
	struct broker *b = broker_of(l);
	uint32_t stale;

	core_commit_entries(b->core, l->commits, l->commit_count, l->commit_entries - 1,
			    l->commit_first, &stale);
	if (stale)
		log_warn("commits of unknown tags", log_u64("count", stale));
	l->commit_first += l->commit_count;
	l->commit_count = 0;
	b->unsettled = true;
}

static void broker_settle(struct link *l)
{
	struct broker *b = broker_of(l);

	if (!b->unsettled)
		return;
	b->unsettled = false;
	core_wake_deferred(b->core);
}

/* They are mapped from their creation on. */
static struct mapping *broker_map(struct link *l, uint64_t buffer)
{
	return NULL;
}

static int broker_charge(struct link *l, uint32_t resource, uint32_t context, int64_t bytes)
{
	const struct arax_charge a = {
		.size = sizeof(a), .resource = resource, .context = context, .delta = bytes,
	};

	return core_mediator_charge(broker_of(l)->core, &a);
}

static uint64_t broker_limit(struct link *l, uint64_t tenant, uint64_t *left)
{
	uint64_t least = ARAX_LIMIT_MAX, least_left = ARAX_LIMIT_MAX;
	struct broker *b = broker_of(l);
	const struct core_tenant *t;

	core_mutex_lock(&b->core->lock);
	t = core_tenant_from(b->core->tenants, tenant);
	for (t = t && t->id == tenant ? t : NULL; t; t = t->parent) {
		const struct core_counter *c = &t->res[ARAX_RES_DEVICE_MEMORY];

		link_least(core_atomic_read(&c->max), core_atomic_read(&c->used), &least,
			   &least_left);
	}
	core_mutex_unlock(&b->core->lock);
	if (left)
		*left = least_left;
	return least;
}

/* Never sent. */
static void broker_drop(struct link *l, uint64_t buffer)
{
}

static int broker_device(struct link *l, const struct arax_device *dev)
{
	return core_device_publish(broker_of(l)->core, dev);
}

static void broker_explain(struct link *l, uint64_t tag, const char *text)
{
	struct arax_task_why a = { .size = sizeof(a), .tag = tag };

	snprintf(a.text, sizeof(a.text), "%s", text);
	core_task_explain(broker_of(l)->core, &a);
}

static int broker_kernel(struct link *l, struct arax_kernel_publish *k)
{
	return core_kernel_publish(broker_of(l)->core, k);
}

void broker_tenant_of(const struct core_tenant *from, struct sched_tenant *t)
{
	*t = (struct sched_tenant){
		.id = from->id, .parent = from->parent ? from->parent->id : 0,
		.weight = from->weight, .max_ns = from->max_ns, .period_ns = from->period_ns,
	};
}

static bool broker_tenant(struct link *l, struct sched_tenant *t)
{
	struct broker *b = broker_of(l);
	const struct core_tenant *found;
	bool known;

	core_mutex_lock(&b->core->lock);
	found = core_tenant_from(b->core->tenants, t->id);
	known = found && found->id == t->id;
	if (known)
		broker_tenant_of(found, t);
	core_mutex_unlock(&b->core->lock);
	return known;
}

/* A change is told at once; this is so that the scheduler may forget what is not told. */
static void broker_weights(struct link *l)
{
	struct broker *b = broker_of(l);
	struct sched_tenant told;
	struct core_tenant *t;
	uint64_t id = 0;

	if (++b->weights_asked % (SCHED_ROUNDS / 10))
		return;
	/* Not under the lock: the scheduler may ask for the parent. */
	do {
		core_mutex_lock(&b->core->lock);
		t = core_tenant_from(b->core->tenants, id);
		if (t)
			broker_tenant_of(t, &told);
		core_mutex_unlock(&b->core->lock);
		if (!t)
			return;
		poller_tell_tenant(l->poller, l, &told);
		id = told.id + 1;
	} while (id);
}

static void broker_tell(struct link *l, const struct arax_tenants_tell *told)
{
	struct arax_tenants_tell a = *told;

	core_tenants_tell(broker_of(l)->core, &a);
}

static void broker_quiesce(struct link *l)
{
	broker_of(l)->quiet = true;
}

const struct link_ops broker_link_ops = {
	.poll = broker_poll,
	.house = broker_house,
	.sleep = broker_sleep,
	.awake = broker_awake,
	.event = broker_event,
	.commit = broker_commit,
	.settle = broker_settle,
	.map = broker_map,
	.drop = broker_drop,
	.look_at = broker_look_at,
	.charge = broker_charge,
	.limit = broker_limit,
	.device = broker_device,
	.explain = broker_explain,
	.kernel = broker_kernel,
	.weights = broker_weights,
	.tenant = broker_tenant,
	.tell = broker_tell,
	.quiesce = broker_quiesce,
};

/* ------------------------------------------------------------------ */
/* Coming and going                                                    */

/* Whoever has an eventfd can have its lock held, by a write that many watch: that time is his. */
static void charge_since(struct conn *c, uint64_t begin_ns)
{
	broker_time_taken(c->broker, c->uid, c->admin,
			  wake_beyond_usual(wake_thread_ns() - begin_ns));
}

static void add_now(struct work *w)
{
	struct conn *c = (struct conn *)((char *)w - offsetof(struct conn, add));
	uint64_t begin_ns;
	struct broker *b = c->broker;
	uint64_t per_us = b->link.poller->ticks.per_us;

	b->warm_ticks = WARM_US * per_us;
	b->cold_ticks = COLD_US * per_us;
	c->active = b->link.poller->now;
	c->bell.link = &b->link;
	c->bell.cookie = c;
	/* Edge-triggered and never read: its counter is the client's affair. */
	begin_ns = wake_thread_ns();
	if (poller_watch(b->link.poller, c->bell_fd, &c->bell, true))
		log_warn("doorbell can't be watched", log_u64("context", c->client->id));
	charge_since(c, begin_ns);
	b->nr_rings++;
	if (set_reserve(&b->hot, b->nr_rings) || set_reserve(&b->warm, b->nr_rings) ||
	    set_reserve(&b->starved, b->nr_rings))
		log_warn("no memory to poll a context", log_u64("context", c->client->id));
	else
		move(c, CONN_HOT);
}

/* Back on the service thread. */
static void removed(struct work *w)
{
	struct conn *c = (struct conn *)((char *)w - offsetof(struct conn, remove));

	c->at_poller = false;
	c->broker->any_closing = true;
}

static void remove_now(struct work *w)
{
	struct conn *c = (struct conn *)((char *)w - offsetof(struct conn, remove));
	uint64_t begin_ns = wake_thread_ns();

	poller_unwatch(c->broker->link.poller, c->bell_fd);
	charge_since(c, begin_ns);
	leave(c);
	c->broker->nr_rings--;
	w->run = removed;
	broker_reply_later(c->broker, w);
}

int conn_add_ring(struct conn *c)
{
	c->add.run = add_now;
	c->at_poller = true;
	poller_post(c->broker->link.poller, &c->add);
	return 0;
}

/* Comes back as a reply, after every SUBMIT that was posted before it. */
void conn_remove_ring(struct conn *c)
{
	c->remove.run = remove_now;
	poller_post(c->broker->link.poller, &c->remove);
}
