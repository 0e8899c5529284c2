// SPDX-License-Identifier: MIT
/*
 * Waiting: look, spin for about the price of one wake-up, then sleep.
 *
 * Any number of threads wait at once.  One of them, the leader, sleeps on the
 * link; the others, followers, on a condition.  Whoever takes completions
 * (leader, spinner or passer-by) hands out all of them and wakes the followers,
 * who look for their own; when the leader leaves, one of them takes its place.
 *
 * A thread may be cancelled while it sleeps, so it leaves in order there as well.  Where
 * it has something to hand over, and on its way to sleep, nothing is a cancellation
 * point: see eventfd.h.
 */
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "awake.h"
#include "internal.h"

/* More than this between two looks at the clock: somebody else had the CPU. */
#define SPIN_PREEMPTED_NS	20000u
#define SPIN_HOT		1024	/* looks, without pause, before the clock is asked */
#define SPIN_LOOKS		16	/* looks between two clock readings */
#define ONE_EVENT		1	/* the price of a look */
/* The link's end shows only to a system call: not at every look of who never sleeps. */
#define END_LOOKS		64	/* in vain, before the clock is asked */
#define END_NS			1000000u

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t arax_deadline(uint64_t ns)
{
	uint64_t now = now_ns();

	return ns >= ARAX_DEADLINE_NONE - now ? ARAX_DEADLINE_NONE : now + ns;
}

/* ------------------------------------------------------------------ */
/* Spinning: see awake.h for how long                                  */

/* Fewer where one is a look at @price events: the clock is asked no later for that. */
static inline __attribute__((always_inline))
uint32_t looks_of(uint32_t looks, uint32_t price)
{
	return price < looks ? looks / price : 1;
}

static inline __attribute__((always_inline))
enum spin spin(struct arax *ax, bool (*done)(void *), void *arg, uint32_t price,
	       uint64_t deadline, uint64_t *start, struct woken *w)
{
	const uint32_t hot = looks_of(SPIN_HOT, price), looks = looks_of(SPIN_LOOKS, price);
	uint32_t i, budget = load_relaxed(&ax->spin_ns);
	bool woke = load_relaxed(&ax->woke), probe = false;
	uint64_t now, last;

	if (unlikely(woke))
		budget = woken_begin(ax, w);
	if (unlikely(load_relaxed(&ax->hold))) {
		budget = 0;
	} else if (unlikely(!budget) && probe_due(ax)) {
		budget = 2 * load_relaxed(&ax->slept_ns);
		probe = true;
	}
	if (budget) {
		for (i = 0; i < hot; i++) {
			if (ring_cq_ready(&ax->ring) || done(arg)) {
				store_relaxed(&ax->awake, load_relaxed(&ax->awake) + 1);
				if (unlikely(load_relaxed(&ax->hold_length)))
					store_relaxed(&ax->hold_length, 0);
				if (unlikely(probe))
					probe_hit(ax);
				return SPIN_HIT;
			}
		}
	}
	last = now_ns();
	if (!*start)
		*start = last;
	while (budget) {
		for (i = 0; i < looks; i++) {
			if (ring_cq_ready(&ax->ring) || done(arg)) {
				store_relaxed(&ax->awake, load_relaxed(&ax->awake) + 1);
				if (probe)
					probe_hit(ax);
				else if (woke)
					store_relaxed(&ax->woke_worth, true);
				return SPIN_HIT;
			}
			cpu_relax();
		}
		now = now_ns();
		if (now - last > SPIN_PREEMPTED_NS) {
			/* Perhaps by the very peer that is waited for. */
			spin_adapt(ax, false);
			break;
		}
		if (now - *start > budget || now >= deadline ||
		    (!woke && !ax->link->ops->peer_awake(ax->link)))
			break;
		last = now;
	}
	if (woke && budget && !probe)
		store_relaxed(&ax->woke_worth, false);
	return budget ? SPIN_MISS : SPIN_NONE;
}

/* ------------------------------------------------------------------ */
/* Sleeping                                                            */

/*
 * Says what to be woken for, under ring_lock: each wake-up in vain takes a CPU from who
 * does the work.  Who leads others, and they come at any time, has to be woken for all.
 * So has who may have to call a notify: what that does, others may wait for.
 */
static void say_what_for(struct arax *ax, struct wake (*wake)(void *), void *arg, int cpu)
{
	struct wake w = { .why = ARAX_WAKE_ANY };

	if (wake && !ax->notes && !load_relaxed(&ax->armed))
		w = wake(arg);
	store_relaxed(&ax->ring.ctl->cq_wake_at, ax->ring.cq_head + w.more);
	store_relaxed(&ax->ring.ctl->cq_wake_for, w.ticket);
	store_relaxed(&ax->ring.ctl->cq_cpu, (uint32_t)(cpu + 1));
	/* Release: pairs with the core's acquire, it takes the two words with it. */
	store_release(&ax->ring.ctl->cq_need_wakeup, w.why);
	/*
	 * Pairs with the core's barrier between an entry's seq and this flag, and with
	 * those in sleep_as_follower() and arax_poll_fd(): one of both sees the other.
	 */
	full_barrier();
	if (unlikely(load_relaxed(&ax->followers) || load_relaxed(&ax->armed))) {
		store_relaxed(&ax->ring.ctl->cq_need_wakeup, ARAX_WAKE_ANY);
		full_barrier();
	}
}

/* Whoever sleeps by now has said for what; who comes later sees the count. */
void wait_note(struct arax *ax)
{
	struct arax_ring_ctl *ctl = ax->ring.ctl;

	ax->notes++;
	/* The entry's release takes it to the core. */
	if (load_relaxed(&ctl->cq_need_wakeup))
		store_relaxed(&ctl->cq_need_wakeup, ARAX_WAKE_ANY);
}

void wait_noted(struct arax *ax)
{
	ax->notes--;
}

/* Somebody has begun to poll, and the leader has just taken back his word with its own. */
static __attribute__((cold)) void poll_goes_on(struct arax *ax)
{
	store_relaxed(&ax->ring.ctl->cq_need_wakeup, ARAX_WAKE_ANY);
	/* Pairs with the core's. */
	full_barrier();
	if (ring_cq_ready(&ax->ring) || load_relaxed(&ax->ring.ctl->dead))
		eventfd_ring(ax->nudge_fd);
}

static void want_no_wake(struct arax *ax)
{
	/* Not even for a moment if somebody polls: what came in it would wake nobody. */
	if (unlikely(load_relaxed(&ax->armed))) {
		/* What woke us was for who polls as well, and may have been this. */
		if (load_relaxed(&ax->ring.ctl->dead))
			eventfd_ring(ax->nudge_fd);
		return;
	}
	store_relaxed(&ax->ring.ctl->cq_need_wakeup, 0);
	/* Pairs with those in arax_poll_fd(): its store comes last, or we see that it was there. */
	full_barrier();
	if (unlikely(load_acquire(&ax->armed)))
		poll_goes_on(ax);
}

static void leave_lead(struct arax *ax)
{
	pthread_mutex_lock(&ax->sleep_lock);
	ax->leader = false;
	if (ax->followers)
		pthread_cond_broadcast(&ax->sleep_cond);
	pthread_mutex_unlock(&ax->sleep_lock);
}

static void leader_gone(void *arg)
{
	struct arax *ax = arg;

	/* It may have taken what woke it, too, before anybody else who polls saw that. */
	if (load_acquire(&ax->armed))
		poll_goes_on(ax);
	else
		want_no_wake(ax);
	leave_lead(ax);
}

/* With ax->leader set by this thread. */
static int sleep_on_link(struct arax *ax, uint64_t deadline, uint32_t seen)
{
	int ret;

	pthread_cleanup_push(leader_gone, ax);
	ret = ax->link->ops->sleep(ax->link, deadline, seen);
	pthread_cleanup_pop(0);
	return ret;
}

/* The same. */
static int sleep_as_leader(struct arax *ax, bool (*done)(void *), struct wake (*wake)(void *),
			   void *arg, uint64_t deadline)
{
	int cpu = sched_getcpu();	/* not under the lock: a system call in places */
	uint32_t seen;
	bool look;
	int ret = 0;

	/*
	 * The lock, since another thread may be between taking a completion out
	 * of the ring and marking its event.
	 */
	lock_take(&ax->ring_lock);
	say_what_for(ax, wake, arg, cpu);
	seen = ax->ring.cq_head;
	look = ring_cq_ready(&ax->ring) || done(arg) || ax->dead ||
	       load_relaxed(&ax->ring.ctl->dead);
	lock_drop(&ax->ring_lock);
	if (!look)
		ret = sleep_on_link(ax, deadline, seen);
	want_no_wake(ax);
	return ret;
}

static void follower_gone(void *arg)
{
	struct arax *ax = arg;

	store_relaxed(&ax->followers, ax->followers - 1);
	pthread_mutex_unlock(&ax->sleep_lock);
}

static int sleep_on_condition(struct arax *ax, uint64_t deadline)
{
	const struct timespec t = {
		.tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u),
	};
	int err;

	pthread_cleanup_push(follower_gone, ax);
	err = deadline == ARAX_DEADLINE_NONE ?
		pthread_cond_wait(&ax->sleep_cond, &ax->sleep_lock) :
		pthread_cond_timedwait(&ax->sleep_cond, &ax->sleep_lock, &t);
	pthread_cleanup_pop(0);
	return -err;
}

/* With sleep_lock held, which it keeps. */
static int sleep_as_follower(struct arax *ax, bool (*done)(void *), void *arg, uint64_t deadline)
{
	int ret = 0;

	store_relaxed(&ax->followers, ax->followers + 1);
	/* Pairs with the barriers in wait_wake_followers() and say_what_for(). */
	full_barrier();
	/* The leader may sleep for what it waits for alone.  It sleeps on: nothing came. */
	if (load_relaxed(&ax->ring.ctl->cq_need_wakeup)) {
		store_relaxed(&ax->ring.ctl->cq_need_wakeup, ARAX_WAKE_ANY);
		/* Pairs with the core's, as the leader's does: so look at the ring. */
		full_barrier();
	}
	if (!done(arg) && !load_acquire(&ax->dead) && !ring_cq_ready(&ax->ring))
		ret = sleep_on_condition(ax, deadline);
	store_relaxed(&ax->followers, ax->followers - 1);
	return ret;
}

void wait_wake_followers(struct arax *ax)
{
	/* Orders the events' states before the count; pairs as said above. */
	full_barrier();
	if (likely(!load_relaxed(&ax->followers)))
		return;
	pthread_mutex_lock(&ax->sleep_lock);
	pthread_cond_broadcast(&ax->sleep_cond);
	pthread_mutex_unlock(&ax->sleep_lock);
}

static int sleep_once(struct arax *ax, bool (*done)(void *), struct wake (*wake)(void *),
		      void *arg, uint64_t deadline)
{
	int ret;

	pthread_mutex_lock(&ax->sleep_lock);
	if (ax->leader) {
		ret = sleep_as_follower(ax, done, arg, deadline);
		pthread_mutex_unlock(&ax->sleep_lock);
		return ret;
	}
	ax->leader = true;
	pthread_mutex_unlock(&ax->sleep_lock);
	ret = sleep_as_leader(ax, done, wake, arg, deadline);
	leave_lead(ax);
	return ret;
}

/* ------------------------------------------------------------------ */
/* Both                                                                */

/*
 * The first looks at what is in flight, if that is one task and may be worth it: see quiet.h.
 * Where the peer sleeps, or somebody else has its processor, nothing of this counts.
 */
static inline __attribute__((always_inline))
void look_late(struct arax *ax, bool (*done)(void *), void *arg)
{
	struct quiet *q = &ax->quiet;
	uint64_t start, ticks;
	uint32_t wait;

	if (!QUIET_HAS_TICKS || load_relaxed(&ax->ring.nr_free) != ax->ring.depth - 1 ||
	    !load_relaxed(&ax->spin_ns) || load_relaxed(&ax->woke) || load_relaxed(&ax->hold) ||
	    done(arg))
		return;
	if (unlikely(quiet_tries(q))) {
		start = QUIET_TICKS();
		do
			ticks = QUIET_TICKS() - start;
		while (!ring_cq_ready(&ax->ring) && ticks < QUIET_MAX);
		quiet_tried(q, ticks);
		return;
	}
	if (!load_relaxed(&q->bound))
		return;
	start = QUIET_TICKS();
	wait = load_relaxed(&q->ticks);
	/* A clock that goes back, as that of another processor may, ends it: the difference is huge. */
	while (QUIET_TICKS() - start < wait)
		;
	quiet_learn(q, ring_cq_ready(&ax->ring));
}

static inline __attribute__((always_inline))
int wait_for(struct arax *ax, bool (*done)(void *), struct wake (*wake)(void *), void *arg,
	     uint32_t price, uint64_t deadline)
{
	uint64_t start = 0, from, end;
	struct woken w = { 0 };
	enum spin spun;
	int ret;

	look_late(ax, done, arg);
	for (;;) {
		if (done(arg)) {
			if (unlikely(w.since))
				woken_end(ax, &w);
			return 0;
		}
		if (ring_cq_ready(&ax->ring)) {
			complete_all(ax);
			continue;
		}
		spun = spin(ax, done, arg, price, deadline, &start, &w);
		if (spun == SPIN_HIT)
			continue;
		ret = context_dead(ax);
		if (ret)
			return done(arg) ? 0 : ret;
		from = now_ns();
		ret = sleep_once(ax, done, wake, arg, deadline);
		end = now_ns();
		sleep_adapt(ax, spun, end - from, end - start);
		start = end;
		if (ret == -ENOTCONN || ret == -EPIPE)
			complete_dead(ax, ret);
		if (ret == -ETIMEDOUT) {
			complete_all(ax);
			return done(arg) ? 0 : ret;
		}
		if (ret && ret != -ENOTCONN && ret != -EPIPE)
			return ret;
	}
}

int wait_until(struct arax *ax, bool (*done)(void *arg), struct wake (*wake)(void *arg),
	       void *arg, uint64_t deadline)
{
	return wait_for(ax, done, wake, arg, ONE_EVENT, deadline);
}

static bool event_done(void *arg)
{
	return arax_event_done(arg);
}

static struct wake event_wake(void *arg)
{
	const struct arax_event *e = arg;

	return (struct wake){ .why = ARAX_WAKE_FOR, .ticket = e->ticket };
}

/* May this event be waited for? */
static int check_event(const struct arax_event *e)
{
	uint32_t state = load_acquire(&e->state);

	if (unlikely(state != EVENT_PENDING && state != EVENT_DONE))
		return error_set(-EINVAL, "waiting for an event that was never submitted");
	if (unlikely(e->notify))
		return error_set(-EINVAL, "waiting for an event that has a notify function");
	if (unlikely(!is_owner(e->ax)))
		return not_owner();
	return 0;
}

/* What the daemon has said of it, or what it was that was refused before. */
void task_why(struct arax *ax, uint64_t tag, int result, char *text)
{
	struct arax_task_why a = { .size = sizeof(a), .tag = tag };

	text[0] = '\0';
	if (load_acquire(&ax->dead))
		return;
	if (!ARAX_TAG_EPOCH(tag)) {
		memcpy(text, ": ", 3);
		if (!refusal_text(ax, tag, result, text + 2, WHY_LEN - 2))
			text[0] = '\0';
		return;
	}
	if (ax->link->ops->call(ax->link, ARAX_NR_TASK_WHY, &a))
		return;
	a.text[sizeof(a.text) - 1] = '\0';
	snprintf(text, WHY_LEN, ": %s", a.text);
}

static __attribute__((cold)) int failed(const struct arax_event *e)
{
	char why[WHY_LEN];

	task_why(e->ax, e->origin ? e->origin : e->tag, e->result, why);
	if (e->origin)
		return error_set(e->result, "task %#llx, because task %#llx failed%s",
				 (unsigned long long)e->tag, (unsigned long long)e->origin, why);
	if (!e->tag)
		return error_set(e->result, "a task that was in flight when its context ended");
	if (!ARAX_TAG_EPOCH(e->tag))
		return error_set(e->result, "task %#llx, before a daemon had it%s",
				 (unsigned long long)e->tag, why);
	return error_set(e->result, "task %#llx%s", (unsigned long long)e->tag, why);
}

static __attribute__((noinline)) int wait_event(struct arax_event *event, uint64_t deadline)
{
	int ret = check_event(event);

	if (unlikely(ret))
		return ret;
	ret = wait_for(event->ax, event_done, event_wake, event, ONE_EVENT, deadline);
	if (unlikely(ret))
		return error_set(ret, "waiting for a task");
	return likely(!event->result) ? 0 : failed(event);
}

int arax_wait(struct arax_event *event, uint64_t deadline)
{
	/* Of tasks that were submitted together most are done when the first one is. */
	if (arax_event_done(event) && likely(!event->notify && is_owner(event->ax)))
		return likely(!event->result) ? 0 : failed(event);
	return wait_event(event, deadline);
}

int arax_wait_all(struct arax_event *const *events, size_t count, uint64_t deadline)
{
	int ret, result = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		ret = check_event(events[i]);
		if (ret)
			return ret;
	}
	/* From the end: who waits for the last one sleeps once, mostly. */
	for (i = count; i--;) {
		ret = wait_for(events[i]->ax, event_done, event_wake, events[i], ONE_EVENT,
			       deadline);
		if (ret)
			return error_set(ret, "waiting for %zu tasks", count);
	}
	for (i = 0; i < count; i++) {
		if (!result && events[i]->result)
			result = failed(events[i]);
	}
	return result;
}

struct any {
	struct arax_event *const *events;
	size_t count;
	size_t index;
};

static bool any_done(void *arg)
{
	struct any *a = arg;
	size_t i;

	for (i = 0; i < a->count; i++) {
		if (arax_event_done(a->events[i])) {
			a->index = i;
			return true;
		}
	}
	return false;
}

int arax_wait_any(struct arax_event *const *events, size_t count, uint64_t deadline)
{
	struct any any = { .events = events, .count = count };
	size_t i;
	int ret;

	if (!count || count > INT32_MAX)
		return error_set(-EINVAL, "waiting for any of %zu events", count);
	for (i = 0; i < count; i++) {
		ret = check_event(events[i]);
		if (ret)
			return ret;
		if (events[i]->ax != events[0]->ax)
			return error_set(-EINVAL, "waiting for any of several contexts' events");
	}
	ret = wait_for(events[0]->ax, any_done, NULL, &any, (uint32_t)count, deadline);
	return ret ? error_set(ret, "waiting for any of %zu tasks", count) : (int)any.index;
}

/* Nothing has completed; each context counts for itself, or one might never get its turn. */
static inline void look_for_end(struct arax *ax)
{
	uint32_t looks = load_relaxed(&ax->looks) + 1;
	uint64_t now;
	bool ended;
	int cancel;

	store_relaxed(&ax->looks, looks);
	if (likely(looks % END_LOOKS))
		return;
	now = now_ns();
	if (now - load_relaxed(&ax->looked) < END_NS)
		return;
	store_relaxed(&ax->looked, now);
	/* Who only looks does not wait: a thread is not cancelled there. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	ended = ax->link->ops->hangup(ax->link);
	pthread_setcancelstate(cancel, NULL);
	if (ended)
		complete_dead(ax, -ENOTCONN);
}

void wait_look_for_end(struct arax *ax)
{
	look_for_end(ax);
}

int arax_test(struct arax_event *event)
{
	struct arax *ax = event->ax;
	int ret;

	if (arax_event_done(event))
		return 1;
	ret = check_event(event);
	if (ret)
		return ret;
	if (ring_cq_ready(&ax->ring))
		complete_all(ax);
	else if (!context_dead(ax))
		look_for_end(ax);
	return arax_event_done(event);
}

int arax_process(struct arax *ax)
{
	bool lead = false;
	int n, cancel, ret = 0;

	if (!is_owner(ax))
		return not_owner();
	if (!ax->has_rings)
		return error_set(-ENXIO, "arax_process");
	/* Pairs with the release in arax_poll_fd(): so is nudge_fd there. */
	if (load_acquire(&ax->armed)) {
		/* A sleeping leader must see what woke it: leave that alone. */
		pthread_mutex_lock(&ax->sleep_lock);
		if (!ax->leader)
			lead = ax->leader = true;
		pthread_mutex_unlock(&ax->sleep_lock);
		eventfd_empty(ax->nudge_fd);
	}
	if (lead) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		ret = sleep_on_link(ax, 0, load_relaxed(&ax->ring.cq_head));
		pthread_setcancelstate(cancel, NULL);
		leave_lead(ax);
	}
	if (ret == -ENOTCONN || ret == -EPIPE)
		complete_dead(ax, ret);
	n = complete_all(ax);
	/*
	 * This thread's own, of what the caller is about to be told; and nobody else polls: he
	 * would never hear of it.  See arax_poll_fd() in arax.h.
	 */
	if (n && load_acquire(&ax->armed))
		eventfd_empty(ax->nudge_fd);
	ret = context_dead(ax);
	if (!n && !ret) {
		look_for_end(ax);
		ret = load_acquire(&ax->dead);
	}
	/* Others may poll as well, and the caller is told of the completions first. */
	if (ret && load_acquire(&ax->armed))
		eventfd_ring(ax->nudge_fd);
	if (n || !ret)
		return n;
	return error_set(ret, "arax_process");
}

static int make_poll_fd(struct arax *ax)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP };
	int i, fd, err, fds[2];

	fd = epoll_create1(EPOLL_CLOEXEC);
	ax->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0 || ax->nudge_fd < 0)
		goto fail;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, ax->nudge_fd, &event))
		goto fail;
	err = ax->link->ops->poll_fds(ax->link, fds);
	if (err)
		goto undo;
	for (i = 0; i < 2; i++) {
		/* Replies in the second are not for the poller, its end is. */
		if (i)
			event.events = EPOLLRDHUP;
		if (fds[i] >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, fds[i], &event))
			goto fail;
	}
	return fd;
fail:
	err = -errno;
undo:
	if (fd >= 0)
		close(fd);
	if (ax->nudge_fd >= 0)
		close(ax->nudge_fd);
	ax->nudge_fd = -1;
	return err;
}

int arax_poll_fd(struct arax *ax)
{
	int fd, cancel;

	if (!is_owner(ax))
		return not_owner();
	if (!ax->has_rings)
		return error_set(-ENXIO, "arax_poll_fd");
	pthread_mutex_lock(&ax->object_lock);
	if (ax->poll_fd < 0) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		fd = make_poll_fd(ax);
		pthread_setcancelstate(cancel, NULL);
		if (fd < 0) {
			pthread_mutex_unlock(&ax->object_lock);
			return error_set(fd, "making the poll descriptor");
		}
		ax->poll_fd = fd;
		store_release(&ax->armed, true);
		/* Pairs with those in sleep_as_leader() and say_what_for(). */
		full_barrier();
		store_relaxed(&ax->ring.ctl->cq_cpu, 0);
		store_relaxed(&ax->ring.ctl->cq_need_wakeup, ARAX_WAKE_ANY);
		/* Pairs with the one in the core. */
		full_barrier();
	}
	fd = ax->poll_fd;
	pthread_mutex_unlock(&ax->object_lock);
	/* What was published before that has woken nobody, nor has the context's end. */
	complete_all(ax);
	if (context_dead(ax))
		eventfd_ring(ax->nudge_fd);
	return fd;
}
