// SPDX-License-Identifier: MIT
/*
 * The main loop.  Each turn takes in what clients published, lets the graph
 * and the scheduler decide, runs or hands over what is ready, and commits in
 * batches; without work it spins for about the price of a wake-up, and sleeps.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/backends/stacks.h"
#include "daemon/dispatch/ahead.h"
#include "daemon/dispatch/aside.h"
#include "daemon/dispatch/back.h"
#include "daemon/dispatch/follow.h"
#include "daemon/dispatch/lone.h"
#include "daemon/dispatch/models.h"
#include "daemon/dispatch/own.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/race.h"
#include "daemon/dispatch/recover.h"
#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"
#include "daemon/dispatch/rest.h"
#include "daemon/kernels/manifest.h"
#include "daemon/log.h"
#include "daemon/memory/memory.h"
#include "daemon/observe/trace.h"

#define TAKE_MAX	256u		/* ring entries of one turn */
#define TURN_NS		50000u		/* inline work before looking at the rings again */
#define HOUSE_US	50u
#define SLOW_US		100000u
#define TELL_TIMES	8u	/* of ARAX_TELL_MAX tenants each, at most */
/* Between two writings of learnt run times: at first, each time twice as long, and at last. */
#define SAVE_FIRST_US	(10u * 1000000u)
#define SAVE_US		(300u * 1000000u)
#define LOOKS		8u		/* turns between two looks at the clock */
#define EVENTS		16

static __thread bool here;

bool poller_is_here(void)
{
	return here;
}

void poller_be_here(bool yes)
{
	here = yes;
}

static bool role_stopped(struct poller *p)
{
	return __atomic_load_n(&p->role.stop, __ATOMIC_ACQUIRE);
}

void poller_kick(struct poller *p)
{
	const uint64_t one = 1;
	ssize_t n = write(p->event_fd, &one, sizeof(one));

	(void)n;	/* full: it is awake anyway */
}

void poller_post(struct poller *p, struct work *w)
{
	work_push(&p->work, w);
	/* Pairs with go_to_sleep(): it sees the work, or we see it asleep. */
	core_full_barrier();
	if (__atomic_load_n(&p->asleep, __ATOMIC_RELAXED))
		poller_kick(p);
}

/* As many as there have been descriptors. */
static int make_place(struct poller *p, uint32_t nr)
{
	struct watch **more;

	if (nr <= p->nr_watches)
		return 0;
	nr = nr < 2 * p->nr_watches ? 2 * p->nr_watches : nr;
	more = realloc(p->watches, nr * sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset(more + p->nr_watches, 0, (nr - p->nr_watches) * sizeof(*more));
	p->watches = more;
	p->nr_watches = nr;
	return 0;
}

/*
 * Events have the descriptor, not the watch: when one is looked at that may be gone, see
 * await_events(), and what has its number by then is told once in vain.
 */
int poller_watch(struct poller *p, int fd, struct watch *w, bool edge)
{
	struct epoll_event ev = { .events = EPOLLIN | (edge ? EPOLLET : 0), .data.fd = fd };
	int err = fd < 0 ? -EBADF : make_place(p, (uint32_t)fd + 1);

	if (err)
		return err;
	p->watches[fd] = w;
	err = epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
	if (err)
		p->watches[fd] = NULL;
	return err;
}

void poller_unwatch(struct poller *p, int fd)
{
	if ((uint32_t)fd >= p->nr_watches || !p->watches[fd])
		return;
	p->watches[fd] = NULL;
	epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ------------------------------------------------------------------ */
/* From the rings into the graph                                       */

/* When the timeline of a blocked task was reached, for its record; 0: not yet. */
static __attribute__((cold)) void note_unblocked(struct link *l, uint64_t tag, uint64_t ns)
{
	struct graph_node *node = graph_find(l->graph, tag);

	if (node)
		node->run_ns = ns;
}

static void add_task(struct poller *p, struct link *l, const struct arax_dispatch *d)
{
	int err = graph_add(l->graph, d);

	if (unlikely(d->flags & ARAX_DISPATCH_BLOCKED) && p->trace && !err)
		note_unblocked(l, d->tag, 0);
	if (unlikely(p->foresees) && !err)
		remote_foresee(l, graph_find(l->graph, d->tag));
	if (!err && unlikely(d->error))
		graph_unblock(l->graph, d->tag, d->error);
	if (unlikely(err)) {
		struct commit_info info = { .result = err, .device = ~0u };

		/* In the order of failures' numbers. */
		poller_commit_ended(p, l);
		info.failure = graph_refuse(l->graph, d);
		POLLER_COUNT(p, errors);
		log_warn("task can't be taken", log_str("link", l->name),
			 log_u64("context", d->context), log_errno(err));
		poller_commit(p, l, d->tag, &info);
	}
}

/*
 * Every tag is committed once, so the tasks of a context that is gone are
 * cancelled rather than forgotten; what runs comes to its own end.
 */
static void context_gone(struct poller *p, struct link *l, uint32_t context)
{
	graph_cancel_all(l->graph, context);
	poller_commit_ended(p, l);
	/* Tells of those that wait and are more than may keep their place when canceled. */
	graph_context_gone(l->graph, context);
	poller_commit_ended(p, l);
	sched_context_gone(p->sched, l->place, context);
	own_context_gone(l, context);
	aside_context_gone(l, context);
	remote_context_gone(l, context);
	p->fetches.look = true;
}

static void take_note(struct poller *p, struct link *l, const struct arax_dispatch *d)
{
	switch (d->type) {
	case ARAX_DISPATCH_CANCEL:
		if (graph_cancel(l->graph, d->tag) == -EBUSY) {
			p->fetches.look = true;
			remote_cancel(l, graph_find(l->graph, d->tag));
		}
		break;
	case ARAX_DISPATCH_UNBLOCK:
		if (p->memory)
			remote_distrust(p, l, graph_find(l->graph, d->tag));
		if (unlikely(p->trace))
			note_unblocked(l, d->tag, poller_ns(p));
		graph_unblock(l->graph, d->tag, d->error);
		break;
	case ARAX_DISPATCH_BUFFER:
		l->ops->drop(l, d->object);
		break;
	case ARAX_DISPATCH_CONTEXT:
		context_gone(p, l, d->context);
		break;
	case ARAX_DISPATCH_DEVICES:
		figures_ask(p);
		break;
	default:
		log_err("unknown dispatch entry", log_str("link", l->name),
			log_u64("type", d->type));
		break;
	}
}

/* Tells the graph of the tasks at the ring's head; returns for how many of them that does. */
static unsigned int expect_tasks(struct link *l)
{
	const struct arax_dispatch *d[GRAPH_EXPECT];
	uint32_t head = l->head;
	unsigned int n = 0;

	while (n < GRAPH_EXPECT && (d[n] = core_ring_peek(l->ring, l->cells, &head)) &&
	       d[n]->type == ARAX_DISPATCH_TASK)
		head += d[n++]->cells;
	return graph_expect(l->graph, d, n);
}

/* Ticks of inline work after which the rings have their turn again. */
static uint64_t turn_limit(const struct poller *p)
{
	return TURN_NS / 1000 * p->ticks.per_us;
}

/* Returns how many there were, or -1: the role is lost. */
static int take_entries(struct poller *p, struct link *l)
{
	const bool large = graph_is_large(l->graph);
	const struct arax_dispatch *d;
	enum run_outcome outcome;
	unsigned int expected = 0;
	uint64_t first = 0;
	bool ran = false, late = false;
	uint32_t n = 0;

	while (n < TAKE_MAX && (d = core_ring_peek(l->ring, l->cells, &l->head))) {
		if (unlikely(large)) {
			if (!expected)
				expected = expect_tasks(l);
			expected -= expected > 0;	/* 0: none was told of */
		}
		l->head += d->cells;
		n++;
		if (unlikely(d->type != ARAX_DISPATCH_TASK)) {
			take_note(p, l, d);
			p->exact = false;
			continue;
		}
		p->lone.row = n > 1;
		if (late || !lone_run(p, l, d, &outcome)) {
			add_task(p, l, d);
			/* Not the next one's time. */
			p->exact = false;
			continue;
		}
		if (outcome == RUN_LOST)
			return -1;
		if (!ran)
			first = p->lone.begin;
		ran = true;
		/* The graph has the rest: in the ring those behind wait for all before them. */
		late = p->now - first > turn_limit(p);
	}
	if (n > 1)
		lone_had_company(p);
	/* The cells may be written again; pairs with the core's acquire. */
	if (n)
		__atomic_store_n(&l->page->head, l->head, __ATOMIC_RELEASE);
	/* No more of this link's ends in this turn: a row is not to wait for what others' take. */
	if (ran && l->commit_count && (late || !graph_has_ready(l->graph)))
		poller_tell(p, l);
	return (int)n;
}

/* ------------------------------------------------------------------ */
/* From the graph to the devices                                       */

static void expire(struct poller *p, struct link *l)
{
	uint64_t now = poller_ns(p);

	if (graph_next_deadline(l->graph) > now)
		return;
	/* What can be stopped has its deadline where it runs. */
	while (graph_expire(l->graph, now))
		p->fetches.look = true;
	if (p->fetches.look)
		fetch_look(p);
	p->unfinished = true;	/* others may have become ready */
	poller_commit_ended(p, l);
}

/* Returns how many tasks were popped, or -1: the role is lost. */
static int take_ready(struct poller *p, struct link *l, uint64_t first)
{
	struct graph_node *node;
	enum run_outcome outcome;
	int n = 0, pushed = 0;

	/* Not only when the house is kept: what is late already would be started before. */
	if (unlikely(graph_next_deadline(l->graph) != UINT64_MAX))
		expire(p, l);
	poller_commit_ended(p, l);
	while ((node = graph_pop_ready(l->graph))) {
		node->priv = l;
		n++;
		if (unlikely(p->foresees) && !node->foreseen)
			remote_foresee(l, node);
		if (node->d.opcode == ARAX_OP_MARKER) {
			if (!p->memory)
				run_refuse(p, node, 0);
			else if (fetch_for_host(p, node) == RUN_LOST)
				return -1;
		} else if (own_is_unload(node)) {
			run_refuse(p, node, own_unload(node));
		} else if (!p->stopping && !p->visitor && run_direct(p, node, &outcome)) {
			if (outcome == RUN_LOST)
				return -1;
			if (p->now - first > turn_limit(p)) {
				p->unfinished = true;
				return n;
			}
		} else if (!run_anywhere(p, node)) {
			run_refuse_for_good(p, node);
		} else if (unlikely(p->memory) && fetch_before_queue(p, node)) {
			p->exact = false;
		} else if (sched_push(p->sched, node, poller_ns(p))) {
			run_refuse(p, node, -ENOMEM);
		} else if (++pushed > 1) {
			/* What it takes to queue others is not the first one's time. */
			p->exact = false;
		}
		poller_commit_ended(p, l);
	}
	return n;
}

/* Returns how many tasks were started, or -1: the role is lost. */
static int start_ready(struct poller *p)
{
	uint64_t first = p->now;
	int n = 0;
	uint32_t i;

	p->unfinished = false;
	for (;;) {
		struct graph_node *node;

		for (i = 0; i < p->nr_links; i++) {
			int popped = take_ready(p, p->links[i], first);

			if (popped < 0)
				return -1;
			n += popped;
		}
		if (p->stopping)
			return n;
		node = sched_pick(p->sched, poller_ns(p));
		if (!node) {
			if (unlikely(p->memory))
				back_others_wait(p, sched_queued(p->sched));
			if (unlikely(p->aheads) && sched_queued(p->sched))
				ahead_look(p);
			/* It makes a plan, a piece at a time. */
			p->unfinished |= !sched_next_wake(p->sched);
			return n + (p->follow ? follow_start(p) : 0);
		}
		n++;
		if (run_start(p, node) == RUN_LOST)
			return -1;
		if (p->now - first > turn_limit(p)) {
			p->unfinished = true;
			return n;
		}
	}
}

/* ------------------------------------------------------------------ */
/* Now and then                                                        */

void poller_publish_devices(struct poller *p)
{
	uint32_t i, j;

	for (i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];
		struct arax_device a = {
			.size = sizeof(a), .index = i, .kind = pd->dev->info.kind,
			.flags = pd->lost ? 0 : ARAX_DEVICE_ONLINE, .lanes = pd->lanes_now,
			.units = pd->dev->info.units, .memory = pd->dev->info.memory,
			.busy_ns = pd->busy_ns, .tasks = pd->tasks,
		};

		if (!pd->changed)
			continue;
		pd->changed = false;
		memcpy(a.name, pd->dev->info.name, sizeof(a.name));
		a.name[sizeof(a.name) - 1] = 0;
		figures_fill(p, pd, &a);
		if (pd->lost)
			snprintf(a.reason, sizeof(a.reason), "%s, %s; araxd's log has more",
				 pd->dev->info.lost ? "not had yet since araxd began" :
						      "lost while it was in use",
				 recover_expected(pd) && pd->dev->info.lost ? "and is tried again" :
				 recover_expected(pd) ? "and is being rebuilt" :
							"until araxd is started anew");
		for (j = 0; j < p->nr_links; j++)
			p->links[j]->ops->device(p->links[j], &a);
	}
}

/* The module can't forget those of the daemon before us: they are offline. */
static void publish_gone(struct link *l, uint32_t first)
{
	struct arax_device a = { .size = sizeof(a), .index = first };

	for (; l->ops->device_at && !l->ops->device_at(l, &a); a.index++) {
		a.flags = 0;
		a.lanes = 0;
		snprintf(a.reason, sizeof(a.reason), "an araxd had it that has ended");
		l->ops->device(l, &a);
	}
}

/* Returns whether it took the place of a device. */
static bool publish_without(struct poller *p, uint32_t index, const char *name, const char *why)
{
	struct arax_device a = { .size = sizeof(a), .index = index };
	uint32_t j;

	/* A name may have a suffix: "opencl.gpus". */
	if (manifest_kind(name, strcspn(name, "."), &a.kind))
		return false;
	snprintf(a.name, sizeof(a.name), "%s", name);
	snprintf(a.reason, sizeof(a.reason), "%s", why);
	for (j = 0; j < p->nr_links; j++)
		p->links[j]->ops->device(p->links[j], &a);
	return true;
}

/* Stacks without a device: people see the reason where they look for the device. */
static void publish_absent(struct poller *p)
{
	char why[ARAX_REASON_LEN];
	uint32_t i, j, n = p->nr_devs;
	const char *name;

	for (i = 0; i < devices_nr_absent(p->devices); i++) {
		const struct device_absent *absent = devices_absent(p->devices, i);

		n += publish_without(p, n, absent->backend, absent->why);
	}
	for (i = 0; (name = stack_at(i)); i++)
		if (stack_is_unused(p->config, name, why, sizeof(why)))
			n += publish_without(p, n, name, why);
	for (j = 0; j < p->nr_links; j++)
		publish_gone(p->links[j], n);
}

/*
 * Till there are events; 0: none came, negative: a signal.  They are handled when the door is shut
 * again: by then a visitor may have ended what they belong to.
 */
static int await_events(struct poller *p, uint64_t limit_ns, struct epoll_event *ev)
{
	struct timespec t = {
		.tv_sec = (time_t)(limit_ns / 1000000000u),
		.tv_nsec = (long)(limit_ns % 1000000000u),
	};
	const struct timespec *limit = limit_ns == UINT64_MAX ? NULL : &t;
	struct pollfd fd = { .fd = p->epoll_fd, .events = POLLIN };
	int n = (int)syscall(SYS_epoll_pwait2, p->epoll_fd, ev, EVENTS, limit, NULL, 0);

	if (n >= 0 || (errno != ENOSYS && errno != EPERM))
		return n;
	/* A container's filter may be older than this call. */
	n = ppoll(&fd, 1, limit, NULL);
	return n > 0 ? epoll_wait(p->epoll_fd, ev, EVENTS, 0) : n;
}

static void handle_events(struct poller *p, const struct epoll_event *ev, int n)
{
	uint64_t count;
	ssize_t got;
	int i;

	for (i = 0; i < n; i++) {
		const struct watch *w = p->watches[ev[i].data.fd];

		if (w && w->link) {
			w->link->ops->event(w->link, w->cookie, p->now);
		} else if (w) {
			got = read(p->event_fd, &count, sizeof(count));
			(void)got;
		}
	}
}

static void look_for_events(struct poller *p)
{
	struct epoll_event ev[EVENTS];

	handle_events(p, ev, epoll_wait(p->epoll_fd, ev, EVENTS, 0));
}

/* Most of what a new araxd learns it learns soon. */
static void next_save(struct poller *p)
{
	p->next_save = p->now + p->save_us * p->ticks.per_us;
	p->save_us = p->save_us < SAVE_US / 2 ? 2 * p->save_us : SAVE_US;
}

/* Some of many at a time: nothing is lost by being told later. */
static __attribute__((cold, noinline)) void tell_tenants(struct poller *p)
{
	struct arax_tenants_tell a;
	struct sched_stat stats[ARAX_TELL_MAX];
	uint32_t i, j, times = 0;

	do {
		a = (struct arax_tenants_tell){ .size = sizeof(a) };
		a.count = sched_stats(p->sched, stats, ARAX_TELL_MAX, poller_ns(p));
		for (i = 0; i < a.count; i++)
			a.news[i] = (struct arax_tenant_news){
				.id = stats[i].tenant, .nr_periods = stats[i].nr_periods,
				.nr_throttled = stats[i].nr_throttled,
				.throttled_ns = stats[i].throttled_ns,
				.waiting_ns = stats[i].waiting_ns,
			};
		/* The first time of none: then it is known that there are none. */
		for (j = 0; j < p->nr_links && (a.count || !p->tenants_told); j++)
			p->links[j]->ops->tell(p->links[j], &a);
		p->tenants_told = true;
	} while (a.count == ARAX_TELL_MAX && ++times < TELL_TIMES);
}

static void *thread_main(void *arg);

static int start_thread(struct poller *p, void *(*run)(void *))
{
	int err = -pthread_create(&p->threads[p->nr_threads], NULL, run, p);

	if (!err)
		pthread_setname_np(p->threads[p->nr_threads++], "arax-poll");
	return err;
}

/* By the holder of the role.  Those that there may be come back from what they run by and by. */
static int add_thread(struct poller *p)
{
	int err = 0;

	pthread_mutex_lock(&p->threads_lock);
	if (p->nr_threads < POLLER_THREADS && !role_stopped(p)) {
		role_expect(&p->role);
		err = start_thread(p, thread_main);
		if (err)
			role_expect_not(&p->role);
	}
	pthread_mutex_unlock(&p->threads_lock);
	return err;
}

/* Till somebody can, nothing is run by who polls: see run.c. */
static void have_it_watched(struct poller *p)
{
	if (!role_is_watched(&p->role))
		add_thread(p);
}

static void keep_house(struct poller *p)
{
	uint32_t i;

	p->next_house = p->now + HOUSE_US * p->ticks.per_us;
	look_for_events(p);
	/* Before deadlines are looked at: the machine may have slept. */
	if (ticks_between(p->ticks.anchor, p->now) > 1000 * p->ticks.per_us)
		ticks_anchor(&p->ticks);
	for (i = 0; i < p->nr_links; i++) {
		expire(p, p->links[i]);
		if (p->links[i]->ops->house)
			p->links[i]->ops->house(p->links[i], p->now);
	}
	if (p->now < p->next_slow)
		return;
	p->next_slow = p->now + SLOW_US * p->ticks.per_us;
	figures_look(p);
	poller_publish_devices(p);
	run_look_at_buffers(p);
	if (p->recover_again)
		recover_again(p);
	have_it_watched(p);
	if (p->trace)
		trace_flush(p->trace);
	for (i = 0; i < p->nr_links; i++)
		if (p->links[i]->ops->weights)
			p->links[i]->ops->weights(p->links[i]);
	sched_round(p->sched);
	tell_tenants(p);
	/* Who is asleep learns nothing; the rest is written at the end. */
	if (p->models && p->now >= p->next_save && models_save(p->models))
		next_save(p);
}

/* ------------------------------------------------------------------ */
/* Sleep                                                               */

static bool devices_changed(const struct poller *p)
{
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++)
		if (p->devs[i].changed)
			return true;
	return false;
}

static bool awaits_house(const struct poller *p)
{
	return p->running || sched_queued(p->sched) || devices_changed(p) ||
	       sched_has_stats(p->sched) || p->recover_again;
}

static uint64_t sleep_limit(struct poller *p)
{
	uint64_t now = poller_ns(p), limit = UINT64_MAX;
	uint64_t wake = sched_next_wake(p->sched), tries = quota_next(p);
	uint32_t i;

	/* Of a tenant that has used up its device time, or its quota. */
	wake = tries < wake ? tries : wake;
	if (wake != UINT64_MAX && !p->stopping)
		limit = wake > now ? wake - now : 0;

	for (i = 0; i < p->nr_links; i++) {
		uint64_t d = graph_next_deadline(p->links[i]->graph);

		if (d != UINT64_MAX && (d > now ? d - now : 0) < limit)
			limit = d > now ? d - now : 0;
	}
	/*
	 * The last figures are published a little after the last task; visitors change them.
	 * And who waits for device time may be given some: not every link tells that unasked.
	 */
	if (awaits_house(p) && limit > SLOW_US * 1000ull && !RACE_TEST)
		limit = SLOW_US * 1000ull;
	return limit;
}

bool poller_sleep_links(struct poller *p, uint64_t *limit)
{
	bool quiet = true;
	uint32_t i;

	*limit = sleep_limit(p);
	for (i = 0; i < p->nr_links; i++)
		quiet &= p->links[i]->ops->sleep(p->links[i], limit);
	return quiet;
}

/* With nothing to be done but what others bring, who may come in and do it. */
static void sleep_with_open_door(struct poller *p, uint64_t limit)
{
	uint64_t slept = p->now, now = poller_ns(p);
	struct epoll_event ev[EVENTS];
	bool pending;
	int n;

	POLLER_COUNT(p, sleeps);
	role_sleep(&p->role);
	p->sleep_until = limit < UINT64_MAX - now ? now + limit : UINT64_MAX;
	door_open(&p->door);
	/* door_open() has the barrier: see poller_bring(). */
	pending = work_pending(&p->work);
	n = await_events(p, pending ? 0 : limit, ev);
	door_shut(&p->door);
	p->rest.alone = !n && !pending;
	role_wake(&p->role);
	__atomic_store_n(&p->asleep, 0, __ATOMIC_RELAXED);
	rest_slept(p, slept);
	if (p->now - p->ticks.anchor > 1000 * p->ticks.per_us)
		ticks_anchor(&p->ticks);
	handle_events(p, ev, n);
	if (awaits_house(p) && p->now >= p->next_slow)
		keep_house(p);
}

static void go_to_sleep(struct poller *p)
{
	uint64_t limit;
	uint32_t i;

	__atomic_store_n(&p->asleep, 1, __ATOMIC_RELAXED);
	RACE_POINT();
	/* Pairs with poller_post(); each link issues its own, see its sleep(). */
	core_full_barrier();
	if (poller_sleep_links(p, &limit) && !work_pending(&p->work) && !role_stopped(p))
		sleep_with_open_door(p, limit);
	__atomic_store_n(&p->asleep, 0, __ATOMIC_RELAXED);
	for (i = 0; i < p->nr_links; i++)
		p->links[i]->ops->awake(p->links[i], p->now);
	/* It is for what the house looks at that it wakes by itself. */
	p->next_house = p->rest.alone ? p->now : p->now + HOUSE_US * p->ticks.per_us;
}

/* ------------------------------------------------------------------ */
/* The loop                                                            */

/*
 * What others have brought, for as long as a turn may take: the rest is kept for the next one, and
 * what comes meanwhile is behind it.  Returns how much.
 */
static uint32_t do_work(struct poller *p)
{
	struct work *w = p->kept ?: work_take(&p->work), *next;
	uint64_t first = 0;
	uint32_t n = 0;

	p->kept = NULL;
	for (; w; w = next) {
		next = w->next;
		/* Mostly there is one: it needs no clock. */
		if (next && !first)
			first = ticks_now(&p->ticks);
		w->run(w);
		n++;
		if (next && ticks_now(&p->ticks) - first > turn_limit(p)) {
			p->kept = next;
			break;
		}
	}
	return n;
}

/* But for the links @but (bits). */
static void settle(struct poller *p, uint32_t but)
{
	uint32_t i;

	for (i = 0; i < p->nr_links; i++)
		if (p->links[i]->ops->settle && !(but >> i & 1))
			p->links[i]->ops->settle(p->links[i]);
}

void poller_settle(struct poller *p)
{
	settle(p, 0);
}

static void check_stopped(struct poller *p)
{
	/* Who visits leaves that to the poller's own threads. */
	if (!p->stopping || p->stopped || p->running || p->visitor)
		return;
	poller_flush(p);
	poller_settle(p);
	p->stopped = true;
	poller_publish_devices(p);
	tell_tenants(p);
	if (p->on_stopped)
		p->on_stopped(p->stopped_arg);
}

/* For lanes that have nothing: what runs elsewhere, whoever's it is, may be what their next task waits for. */
static void tell_lanes(struct poller *p)
{
	uint32_t more = p->running != 0;

	if (unlikely(more != p->more))
		__atomic_store_n(&p->more, more, __ATOMIC_RELAXED);
}

int poller_turn(struct poller *p)
{
	uint32_t i;
	int n = 0, started, taken;

	p->told = 0;
	if (p->kept || work_pending(&p->work))
		n += (int)do_work(p);
	for (i = 0; i < p->nr_links; i++) {
		struct link *l = p->links[i];

		p->exact = false;
		if (l->ops->poll && !p->stopping)
			n += (int)l->ops->poll(l, p->now);
		taken = take_entries(p, l);
		if (taken < 0)
			return -1;
		n += taken;
	}
	if (unlikely(p->fetches.look))
		fetch_look(p);
	if (unlikely(p->quota.lines))
		quota_look(p);
	if (!n && !p->unfinished && !sched_queued(p->sched)) {
		poller_settle(p);
		return 0;
	}
	p->now = ticks_now(&p->ticks);
	p->exact = true;
	if (p->memory)
		remote_look_ahead(p);
	if (n)
		p->rest.woke_peer = false;
	started = start_ready(p);
	if (started < 0)
		return -1;
	n += started;
	poller_flush(p);
	tell_lanes(p);
	check_stopped(p);
	/*
	 * What is queued may have to wait for long, and so would whoever is asleep.  And where all that
	 * comes has to wait for something else, or is another link's, no commit wakes him either,
	 * however much comes.
	 */
	settle(p, n ? p->told : 0);
	return n;
}

/* Until the role is lost or the poller stopped. */
static void loop(struct poller *p)
{
	uint64_t idle_since = 0;

	here = true;
	p->now = ticks_now(&p->ticks);
	p->unfinished = true;	/* who held the role before may have left in the middle */
	lone_inherit(p);
	/* What he had not told of by then, nor woken anybody for: the next one may run on as well. */
	poller_flush(p);
	poller_settle(p);
	while (!role_stopped(p)) {
		unsigned int i;
		int n = poller_turn(p);

		for (i = 1; i < LOOKS && !n && idle_since; i++)
			n = poller_turn(p);
		if (n < 0)
			break;
		if (p->now >= p->next_house)
			keep_house(p);
		if (n) {
			idle_since = 0;
			rest_over(p);
			continue;
		}
		/* What an expiry has made ready. */
		if (p->unfinished)
			continue;
		if (rest_awake(p, &idle_since))
			continue;
		/* What expire() and the like found must not wait for the next task. */
		poller_flush(p);
		poller_settle(p);
		go_to_sleep(p);
		idle_since = 0;
		p->rest.woke_peer = false;
	}
	here = false;
}

static void nap_tick(void *arg)
{
}

/* The first thread has two: one as the first holder, one from its first wait on. */
_Static_assert(POLLER_THREADS < ROLE_SEATS, "a seat for each thread");

static void *thread_main(void *arg)
{
	struct poller *p = arg;
	struct role_seat *seat = role_seat(&p->role);

	while (role_await(&p->role, seat, nap_tick, p)) {
		POLLER_COUNT(p, stolen);
		/* Who watches the watchman: the other may be away for long. */
		have_it_watched(p);
		loop(p);
		role_expect(&p->role);
	}
	return NULL;
}

static void *first_main(void *arg)
{
	struct poller *p = arg;

	loop(p);
	role_expect(&p->role);
	return thread_main(p);
}

/* The machine's, not ours: a peer may run where we may not. */
static uint32_t online_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (uint32_t)n : 1;
}

/* The first link that knows of a tenant, with what it knows; NULL: none does. */
static const struct link *link_that_knows(struct poller *p, struct sched_tenant *t)
{
	uint32_t i;

	for (i = 0; i < p->nr_links; i++)
		if (p->links[i]->ops->tenant && p->links[i]->ops->tenant(p->links[i], t))
			return p->links[i];
	return NULL;
}

/* A tenant's first task: what do the links know of it? */
static bool tenant_of(void *arg, struct sched_tenant *t)
{
	return link_that_knows(arg, t);
}

void poller_tell_tenant(struct poller *p, const struct link *l, const struct sched_tenant *t)
{
	struct sched_tenant first = { .id = t->id };

	if (l == p->links[0] || link_that_knows(p, &first) == l)
		sched_tenant_set(p->sched, t);
}

/* Who has much more to come may be later with one task: see sched.h. */
static uint64_t live_beside(void *arg, const struct graph_node *node)
{
	return graph_live_beside(node);
}

/* Short ones the poller runs itself, whoever sleeps. */
static uint64_t hand_over_ns(void *arg, uint32_t device, uint64_t run_ns)
{
	const struct poller *p = arg;
	const struct poller_device *pd = &p->devs[device];

	if (!p->visitor && run_ns < p->inline_ns)
		return 0;
	return runner_hand_over_ns(pd->runner, pd->depth > 1 ? ~0ull : ~pd->lanes_busy);
}

/* Which of its lanes the device's next task had better have, where the scheduler says which. */
static uint64_t awake(void *arg, uint32_t device)
{
	const struct poller *p = arg;

	return runner_awake(p->devs[device].runner);
}

/* ... and how late, if it is known what is to come. */
static void followers(void *arg, const struct graph_node *node,
		      void (*each)(void *to, const struct graph_node *node, uint32_t waits), void *to)
{
	graph_each_successor(node, each, to);
}

/* Of a program's tasks, which all come by one link. */
struct back {
	void *link;
	bool (*each)(void *to, struct graph_node *node);
	void *to;
};

static bool look_at(void *arg, struct graph_node *node)
{
	const struct back *b = arg;

	/* One that waits has not been taken yet, and the scheduler may ask about it. */
	node->priv = b->link;
	return b->each(b->to, node);
}

static bool look_back(void *arg, const struct graph_node *node, bool anew,
		      bool (*each)(void *to, struct graph_node *node), void *to)
{
	struct back b = { .link = node->priv, .each = each, .to = to };

	return graph_look_back(node, anew, look_at, &b);
}

/* A popped task that ends without running: the scheduler forgets it. */
static void forget(void *arg, struct graph_node *node)
{
	struct poller *p = arg;

	sched_remove(p->sched, node);
	ahead_left(p, node, NULL);
	if (unlikely(p->quota.lines))
		quota_gone(p, node);
}

int poller_create(const struct config *config, const struct registry *registry,
		  struct devices *devices, struct poller **out)
{
	struct sched_params sp = {
		.ops = { .can_run = run_can, .tenant = tenant_of }, .stats = true,
	};
	struct poller *p;
	int err;

	p = aligned_alloc(64, (sizeof(*p) + 63) & ~(size_t)63);
	if (!p)
		return -ENOMEM;
	memset(p, 0, sizeof(*p));
	p->config = config;
	p->registry = registry;
	p->event_fd = p->epoll_fd = -1;
	pthread_mutex_init(&p->threads_lock, NULL);
	err = role_init(&p->role);
	if (err)
		goto fail;
	ticks_init(&p->ticks);
	p->now = ticks_now(&p->ticks);
	p->cpus = online_cpus();
	rest_init(p);
	p->inline_ns = config->loop.inline_us * 1000ull;
	p->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->event_fd < 0 || p->epoll_fd < 0) {
		err = -errno;
		goto fail;
	}
	err = poller_watch(p, p->event_fd, &p->event_watch, false);
	if (err)
		goto fail;
	err = remote_create(p, devices);
	if (err)
		goto fail;
	sp.arg = p;
	sp.ops.live = live_beside;
	sp.ops.hand_over_ns = hand_over_ns;
	sp.ops.awake = awake;
	sp.ops.followers = followers;
	sp.ops.look_back = look_back;
	if (p->memory)
		remote_answers(&sp.ops);
	/* It is asked for each task that is placed. */
	if (run_takes_turns(devices))
		sp.ops.part = run_part;
	sp.policy = config->sched.policy;
	p->sched = sched_create(&sp);
	if (!p->sched) {
		err = -errno;
		goto fail;
	}
	err = runs_create(p, devices);
	if (err)
		goto fail;
	*out = p;
	return 0;
fail:
	poller_destroy(p);
	return err;
}

int poller_add_link(struct poller *p, struct link *l)
{
	int err;

	if (p->nr_links == POLLER_LINKS)
		return -ENOSPC;
	l->place = p->nr_links;
	err = link_init(l, p, l->slots, forget, p, run_record_ended);
	if (err)
		return err;
	p->links[p->nr_links++] = l;
	return link_publish(l, p->registry);
}

void poller_set_trace(struct poller *p, struct trace *t)
{
	p->trace = t;
}

int poller_keep_models(struct poller *p, const char *path)
{
	p->models = models_open(p, path);
	p->save_us = SAVE_FIRST_US;
	next_save(p);
	return p->models ? 0 : -ENOMEM;
}

static void save_now(struct work *w)
{
	struct poller *p = (struct poller *)((char *)w - offsetof(struct poller, save));

	__atomic_store_n(&p->saving, false, __ATOMIC_RELEASE);
	/* One that is still being written lacks what came since. */
	if (p->models && !models_save(p->models))
		p->next_save = p->now;
}

void poller_save_models(struct poller *p)
{
	if (__atomic_exchange_n(&p->saving, true, __ATOMIC_ACQ_REL))
		return;
	p->save.run = save_now;
	poller_post(p, &p->save);
}

int poller_start(struct poller *p)
{
	int err;

	poller_publish_devices(p);
	publish_absent(p);
	tell_tenants(p);
	/* The standby first: the first task may be one that runs on. */
	err = add_thread(p);
	if (err)
		return err;
	pthread_mutex_lock(&p->threads_lock);
	err = start_thread(p, first_main);
	pthread_mutex_unlock(&p->threads_lock);
	return err;
}

struct stop_work {
	struct work work;
	struct poller *poller;
	void (*on_stopped)(void *arg);
	void *arg;
};

static void stop_now(struct work *w)
{
	struct stop_work *s = (struct stop_work *)((char *)w - offsetof(struct stop_work, work));
	struct poller *p = s->poller;
	uint32_t i;

	p->on_stopped = s->on_stopped;
	p->stopped_arg = s->arg;
	p->stopping = true;
	p->fetches.look = true;
	for (i = 0; i < p->nr_devs; i++)
		aside_let_go(&p->devs[i]);
	for (i = 0; i < p->nr_links; i++)
		if (p->links[i]->ops->quiesce)
			p->links[i]->ops->quiesce(p->links[i]);
	free(s);
}

void poller_stop(struct poller *p, void (*on_stopped)(void *arg), void *arg)
{
	struct stop_work *s = calloc(1, sizeof(*s));

	if (!s) {
		on_stopped(arg);
		return;
	}
	s->work.run = stop_now;
	s->poller = p;
	s->on_stopped = on_stopped;
	s->arg = arg;
	poller_post(p, &s->work);
}

struct policy_work {
	struct work work;
	struct poller *poller;
	char name[];
};

static void set_policy_now(struct work *w)
{
	struct policy_work *pw = (struct policy_work *)((char *)w - offsetof(struct policy_work, work));
	struct sched *s = pw->poller->sched;
	int err = strcmp(sched_policy_name(s), pw->name) ? sched_policy_set(s, pw->name) : 1;

	if (err < 0)
		log_err("scheduling policy not changed", log_str("policy", pw->name),
			log_errno(err));
	else if (!err)
		log_info("scheduling policy changed", log_str("policy", pw->name));
	free(pw);
}

int poller_set_policy(struct poller *p, const char *name)
{
	struct policy_work *pw = malloc(sizeof(*pw) + strlen(name) + 1);

	if (!pw)
		return -ENOMEM;
	pw->work = (struct work){ .run = set_policy_now };
	pw->poller = p;
	strcpy(pw->name, name);
	poller_post(p, &pw->work);
	return 0;
}

void poller_destroy(struct poller *p)
{
	uint32_t i;

	role_stop(&p->role);
	if (p->event_fd >= 0)
		poller_kick(p);
	/* Each thread is joined once; none is added after role_stop(). */
	for (i = 0;; i++) {
		pthread_t thread;

		pthread_mutex_lock(&p->threads_lock);
		if (i >= p->nr_threads) {
			pthread_mutex_unlock(&p->threads_lock);
			break;
		}
		thread = p->threads[i];
		pthread_mutex_unlock(&p->threads_lock);
		pthread_join(thread, NULL);
	}
	models_close(p->models);
	p->models = NULL;
	runs_destroy(p);
	quota_end(p);
	trace_close(p->trace);
	ahead_free_all(p);
	for (i = 0; i < p->nr_links; i++)
		link_fini(p->links[i]);
	if (p->sched)
		sched_destroy(p->sched);
	if (p->event_fd >= 0)
		close(p->event_fd);
	if (p->epoll_fd >= 0)
		close(p->epoll_fd);
	free(p->watches);
	role_destroy(&p->role);
	pthread_mutex_destroy(&p->threads_lock);
	free(p);
}
