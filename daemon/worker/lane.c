// SPDX-License-Identifier: MIT
/*
 * A device's lanes: each has a queue, and a thread that serves it.  A task that makes way keeps
 * its thread, and its lane gets another one.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backends/device.h"
#include "daemon/brief_mutex.h"
#include "daemon/preempted.h"
#include "daemon/worker/await.h"
#include "daemon/worker/inside.h"

_Thread_local struct lane_thread *this_thread;
_Thread_local struct lane *this_lane;

uint32_t runner_depth(const struct runner *r)
{
	return device_depth(r->dev);
}

/* (locked) */
static void take_first(struct lane *lane)
{
	lane->head = lane->head->next;
	if (!lane->head)
		lane->tail = &lane->head;
	lane->taken++;
}

/* What is queued, without waiting. */
static struct runner_task *another(struct lane *lane)
{
	struct runner_task *t;

	pthread_mutex_lock(&lane->lock);
	t = lane->stop ? NULL : lane->head;
	if (t)
		take_first(lane);
	pthread_mutex_unlock(&lane->lock);
	return t;
}

/* The next task; NULL: stop. */
static struct runner_task *next_task(struct lane *lane)
{
	uint64_t handed_ns;
	struct runner_task *t;

	pthread_mutex_lock(&lane->lock);
	lane->handed_ns = 0;
	while (!lane->head && !lane->stop) {
		lane->asleep = true;
		pthread_cond_wait(&lane->cond, &lane->lock);
	}
	lane->asleep = false;
	handed_ns = lane->handed_ns;
	t = lane->stop ? NULL : lane->head;
	if (t)
		take_first(lane);
	pthread_mutex_unlock(&lane->lock);
	if (handed_ns)
		await_woken(lane->runner, handed_ns);
	return t;
}

/* A run of more than a few time slices is long, however often it lost the CPU. */
#define EXCUSED_NS	10000000u

static bool lost_cpu(const struct runner_task *t, long *seen)
{
	return t->short_ns && t->wall_ns > t->short_ns && t->wall_ns < EXCUSED_NS &&
	       was_preempted(seen);
}

/* On this thread, since the last reason_forget(). */
static void note_reason(struct runner_task *t)
{
	if (t->result)
		reason_take(t->reason);
}

/* False: the task is somebody else's now. */
static bool run_staged(struct runner *r, struct runner_task *t)
{
	uint64_t start = t->enter ? now_ns() : 0, ran;
	long seen = 0;

	if (t->short_ns)
		was_preempted(&seen);
	atomic_fetch_add_explicit(&r->busy, 1, memory_order_relaxed);
	t->flags |= RUNNER_TIMED;
	reason_forget();
	t->result = t->enter ? t->enter(t) : 0;
	t->enter_ns = t->enter ? now_ns() - start : 0;
	if (!t->result) {
		runner_run(r, t);
		t->lost_cpu = lost_cpu(t, &seen);
		ran = t->leave ? now_ns() : 0;
		t->hold_ns = ran - start;
		if (t->hand_over && t->hand_over(t)) {
			atomic_fetch_sub_explicit(&r->busy, 1, memory_order_relaxed);
			return false;
		}
		if (t->leave)
			t->result = t->leave(t, t->result);
		t->leave_ns = t->leave ? now_ns() - ran : 0;
	}
	note_reason(t);
	t->hold_ns = t->enter ? now_ns() - start - turn_paused_ns(t) : t->wall_ns;
	atomic_fetch_sub_explicit(&r->busy, 1, memory_order_relaxed);
	return true;
}

/**
 * struct under_way - a lane's launches on a device that takes several
 * @tasks:	from @first on, oldest first
 * @began:	when each of them did, with its @enter
 * @entered:	the one that comes next has passed its @enter
 * @accounted_ns: until when the lane's time has been given to tasks
 * @ended:	has, and nobody knows yet; its data may be held still.  Or NULL
 */
struct under_way {
	struct runner_task *tasks[ARAX_LANE_DEPTH];
	uint64_t began[ARAX_LANE_DEPTH];
	uint32_t first, nr;
	bool entered;
	uint64_t next_began;
	uint64_t accounted_ns;
	struct runner_task *ended;
};

enum started { STARTED, HAS_ENDED, NOT_YET };

/* NOT_YET: where others have to end first.  @behind: some of which it waits for. */
static enum started enter(struct runner_task *t, struct under_way *u, bool behind)
{
	u->next_began = now_ns();
	t->wall_ns = t->hold_ns = t->device_ns = t->enter_ns = 0;
	t->start_ns = u->next_began;
	t->result = 0;
	if (t->enter) {
		bool others = u->nr || u->ended;

		t->flags &= ~(RUNNER_NO_WAIT | RUNNER_BEHIND);
		t->flags |= (others ? RUNNER_NO_WAIT : 0) | (behind ? RUNNER_BEHIND : 0);
		t->result = t->enter(t);
		if (t->result == -EAGAIN && others)
			return NOT_YET;
		t->start_ns = now_ns();
		t->enter_ns = t->start_ns - u->next_began;
	}
	return t->result || t->flags & RUNNER_ENTER_ONLY ? HAS_ENDED : STARTED;
}

/*
 * It is over, with what comes after the run.  Of the lane's time it pays for what nobody has
 * paid for yet, so that none is paid twice however many are under way.
 */
static void account(struct runner_task *t, struct under_way *u, uint64_t began)
{
	uint64_t now = now_ns(), since = u->accounted_ns > began ? u->accounted_ns : began;

	since += turn_paused_ns(t);
	t->hold_ns = now > since ? now - since : 0;
	u->accounted_ns = now;
}

/* How far back a launch is among those under way: 1 is the last one; 0: it has ended. */
static uint32_t how_far(const struct under_way *u, uint32_t ticket)
{
	for (uint32_t i = 1; i <= u->nr; i++)
		if (u->tasks[(u->first + u->nr - i) % ARAX_LANE_DEPTH]->ticket == ticket)
			return i;
	return 0;
}

/*
 * What it is to run after: -ECANCELED, that has not succeeded; -EAGAIN, nor ended, and the device
 * can't see to it; else @after is what the device is to see to.
 */
static int look_before(const struct lane *lane, const struct runner_task *t,
		       const struct under_way *u, uint32_t *after)
{
	int err = 0;

	*after = 0;
	for (uint32_t i = 0; i < t->nr_after; i++) {
		uint32_t back = how_far(u, t->after[i]);

		if (back)
			*after |= 1u << (back - 1);
		else if (lane->results[t->after[i] % RUNNER_LATE])
			err = -ECANCELED;
	}
	return err ? err : *after && !lane->runner->follows ? -EAGAIN : 0;
}

/* What runs in a worker is not on the device. */
static void run_alone(struct lane *lane, struct runner_task *t)
{
	bool here = !runner_needs_worker(lane->runner, t->kernel);

	t->flags |= RUNNER_TIMED;
	if (here)
		pthread_mutex_lock(&lane->beginning);
	runner_run(lane->runner, t);
	if (here)
		pthread_mutex_unlock(&lane->beginning);
}

static enum started start_next(struct lane *lane, struct runner_task *t, struct under_way *u)
{
	struct runner *r = lane->runner;
	enum started s;
	uint32_t place = (u->first + u->nr) % ARAX_LANE_DEPTH, after;

	pool_keep_for(t);
	reason_forget();
	t->before = 0;
	t->result = look_before(lane, t, u, &after);
	if (t->result == -EAGAIN)
		return NOT_YET;
	if (t->result) {
		t->reason[0] = '\0';
		u->entered = false;
		t->skipped = true;
		t->hold_ns = t->wall_ns = t->device_ns = 0;
		return HAS_ENDED;
	}
	s = u->entered ? STARTED : enter(t, u, after);
	if (s != STARTED) {
		if (s == HAS_ENDED) {
			note_reason(t);
			account(t, u, u->next_began);
		}
		return s;
	}
	pthread_mutex_lock(&lane->beginning);
	t->result = runner_start(r, t, after);
	pthread_mutex_unlock(&lane->beginning);
	/*
	 * With nothing before it the device wants this one run by itself, which may take long: what
	 * has ended shall not be told of late.
	 */
	u->entered = t->result == -EAGAIN && (u->nr || u->ended);
	if (u->entered)
		return NOT_YET;
	if (!t->result) {
		u->tasks[place] = t;
		u->began[place] = u->next_began;
		u->nr++;
		return STARTED;
	}
	if (t->result == -EAGAIN)
		run_alone(lane, t);
	if (t->leave)
		t->result = t->leave(t, t->result);
	note_reason(t);
	runner_note(r, t);
	account(t, u, u->next_began);
	return HAS_ENDED;
}

/* Until it is on the device, or, where it is in a worker, over. */
static enum started start(struct lane *lane, struct runner_task *t, struct under_way *u)
{
	struct runner *r = lane->runner;
	enum started s;

	atomic_fetch_add_explicit(&r->busy, 1, memory_order_relaxed);
	s = start_next(lane, t, u);
	atomic_fetch_sub_explicit(&r->busy, 1, memory_order_relaxed);
	return s;
}

/*
 * It has run, but one that it was to run after has not succeeded though its kernel has: its results
 * could not be taken.
 */
static int result_before(const struct runner_task *t)
{
	return t->before && t->before != -ENODEV ? -ECANCELED : t->before;
}

/*
 * @t has failed, behind which the device has them.  Of one that is lost, and so may be run again by another
 * device, they come too early, whatever it is to them.
 */
static void tell_behind(const struct runner_task *t, struct under_way *u)
{
	for (uint32_t i = 0; i < u->nr; i++) {
		struct runner_task *n = u->tasks[(u->first + i) % ARAX_LANE_DEPTH];

		for (uint32_t k = 0; k < n->nr_after; k++)
			if (n->after[k] == t->ticket &&
			    (!(n->order >> k & 1) || t->result == -ENODEV))
				n->before = t->result;
	}
}

/*
 * The oldest one comes to its end.  How long its kernel took its device knows best: here it is
 * only seen by when others that were before it, and what this thread did meanwhile, were done.
 */
static void end_oldest(struct lane *lane, struct under_way *u)
{
	struct runner_task *t = u->tasks[u->first];
	uint64_t began = u->began[u->first];
	struct arax_backend_done done = { 0 };
	uint64_t now;
	int err;

	reason_forget();
	err = device_wait(lane->runner->dev, lane->index, &done);
	now = now_ns();

	u->first = (u->first + 1) % ARAX_LANE_DEPTH;
	u->nr--;
	if (t->start_ns < u->accounted_ns)
		t->start_ns = u->accounted_ns;
	t->wall_ns = now > t->start_ns ? now - t->start_ns : 1;
	if (done.device_ns && done.device_ns < t->wall_ns) {
		t->start_ns = now - done.device_ns;
		t->wall_ns = done.device_ns;
	}
	t->device_ns = t->wall_ns;
	t->result = err ? checked(err) : checked(done.result);
	if (!t->result)
		t->result = result_before(t);
	t->skipped = !err && done.flags & ARAX_DONE_NOT_RUN;
	t->alone = !err && done.flags & ARAX_DONE_ALONE;
	if (t->leave)
		t->result = t->leave(t, t->result);
	note_reason(t);
	account(t, u, began);
	t->leave_ns = u->accounted_ns - now;
	if (t->skipped)
		t->hold_ns = t->wall_ns = t->device_ns = 0;
	else
		count(&lane->runner->runs);
	runner_note(lane->runner, t);
	lane->results[t->ticket % RUNNER_LATE] = t->result;
	if (t->result)
		tell_behind(t, u);
	u->ended = t;
}

/* What has ended is its caller's again. */
static void tell(struct under_way *u)
{
	struct runner_task *t = u->ended;

	u->ended = NULL;
	if (t)
		t->done(t);
}

/*
 * While one runs the next ones' data comes, and they are handed to the device; and while
 * its results go back the next one runs.  What was waiting for it to end begins before anybody
 * is told that it has: that may take as long as a short kernel.
 */
static void lane_main_ahead(struct lane *lane)
{
	struct under_way u = { .nr = 0 };
	struct runner_task *t;

	while ((t = next_task(lane))) {
		while (t || u.nr) {
			enum started s = t ? start(lane, t, &u) : NOT_YET;
			bool had_ended = u.ended;

			tell(&u);
			if (s == HAS_ENDED) {
				/* Those that it was to run after are told of first. */
				while (t->nr_after && u.nr) {
					end_oldest(lane, &u);
					tell(&u);
				}
				/* Of a lane that has another thread now nobody asks for it. */
				if (this_lane == lane)
					lane->results[t->ticket % RUNNER_LATE] = t->result;
				t->done(t);
			}
			/* It was in a worker, so nothing else of this thread's is under way. */
			if (this_lane != lane)
				return;
			/* What was told may have brought another, to be prepared while the next one runs. */
			if (!t && had_ended && u.nr < ARAX_LANE_DEPTH)
				t = another(lane);
			if (s == NOT_YET && t && had_ended)
				continue;
			if (s == NOT_YET && u.nr)
				end_oldest(lane, &u);
			if (s == NOT_YET && t)
				continue;
			t = u.nr < ARAX_LANE_DEPTH ? another(lane) : NULL;
		}
		tell(&u);
		if (!await_next(lane))
			pool_keep_no_more(lane);
	}
}

/* Until there is nothing more, or another thread has it. */
static void lane_main(struct lane *lane)
{
	struct runner_task *t;

	while (this_lane == lane && (t = next_task(lane))) {
		pool_keep_for(t);
		if (run_staged(lane->runner, t))
			t->done(t);
		if (this_lane == lane && !await_next(lane))
			pool_keep_no_more(lane);
	}
}

/* What was queued and not begun. */
static void cancel_queued(struct lane *lane)
{
	struct runner_task *t;

	for (;;) {
		pthread_mutex_lock(&lane->lock);
		t = lane->head;
		if (t)
			take_first(lane);
		pthread_mutex_unlock(&lane->lock);
		if (!t)
			return;
		t->result = -ECANCELED;
		t->done(t);
	}
}

/* A lane for it, or NULL: none will come. */
static struct lane *await_lane(struct lane_thread *me)
{
	struct runner *r = me->runner;
	struct lane_thread **p;

	pthread_mutex_lock(&r->lock);
	if (!me->lane) {
		me->idle = r->idle;
		r->idle = me;
		while (!me->lane && !r->ending)
			pthread_cond_wait(&me->cond, &r->lock);
	}
	if (!me->lane) {
		for (p = &r->idle; *p != me; p = &(*p)->idle)
			;
		*p = me->idle;
	}
	this_lane = me->lane;
	pthread_mutex_unlock(&r->lock);
	return this_lane;
}

/*
 * Workers end with the thread that started them, whoever uses them now: so none ends before all
 * have nothing to do.
 */
static void end_together(struct runner *r)
{
	pthread_mutex_lock(&r->lock);
	r->at_end++;
	pthread_cond_broadcast(&r->end);
	while (r->at_end < r->nr_threads)
		pthread_cond_wait(&r->end, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

static void *thread_main(void *arg)
{
	struct lane_thread *me = arg;
	struct lane *lane;
	char name[16];

	snprintf(name, sizeof(name), "arax-%.8s", me->runner->dev->info.name);
	pthread_setname_np(pthread_self(), name);
	this_thread = me;
	while ((lane = await_lane(me))) {
		if (runner_depth(me->runner) > 1)
			lane_main_ahead(lane);
		else
			lane_main(lane);
		if (this_lane != lane)
			continue;
		pool_keep_no_more(lane);
		cancel_queued(lane);
		break;
	}
	end_together(me->runner);
	return NULL;
}

/* ------------------------------------------------------------------ */
/* Threads                                                               */

static int start_thread(struct runner *r, struct lane *lane)
{
	struct lane_thread *t = calloc(1, sizeof(*t));
	pthread_condattr_t cond;
	pthread_attr_t attr;
	int err;

	if (!t)
		return -ENOMEM;
	t->runner = r;
	t->lane = lane;
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&t->cond, &cond);
	pthread_condattr_destroy(&cond);
	pthread_attr_init(&attr);
	if (r->dev->info.cpus[0])
		pthread_attr_setaffinity_np(&attr, sizeof(r->options.cpus), &r->options.cpus);
	/* It can't look for itself in the list before it is there. */
	pthread_mutex_lock(&r->lock);
	err = pthread_create(&t->thread, &attr, thread_main, t);
	if (!err) {
		t->next = r->threads;
		r->threads = t;
		r->nr_threads++;
	}
	pthread_mutex_unlock(&r->lock);
	pthread_attr_destroy(&attr);
	if (err) {
		pthread_cond_destroy(&t->cond);
		free(t);
	}
	return -err;
}

/* One that has no lane takes it. */
static bool give_to_idle(struct runner *r, struct lane *lane)
{
	struct lane_thread *t;

	pthread_mutex_lock(&r->lock);
	t = r->idle;
	if (t) {
		r->idle = t->idle;
		t->lane = lane;
		pthread_cond_signal(&t->cond);
	}
	pthread_mutex_unlock(&r->lock);
	return t;
}

bool lane_hand_over(void)
{
	struct lane *lane = this_lane;
	struct runner *r = lane->runner;

	pool_keep_no_more(lane);
	if (!give_to_idle(r, lane) && start_thread(r, lane))
		return false;
	this_lane = NULL;
	pthread_mutex_lock(&r->lock);
	this_thread->lane = NULL;
	pthread_mutex_unlock(&r->lock);
	return true;
}

int lanes_create(struct runner *r, uint32_t nr)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < nr; i++) {
		struct lane *lane = &r->lanes[i];

		lane->runner = r;
		lane->index = i;
		lane->tail = &lane->head;
		brief_mutex_init(&lane->beginning);
		brief_mutex_init(&lane->lock);
		pthread_cond_init(&lane->cond, NULL);
		r->nr_lanes++;
		err = start_thread(r, lane);
	}
	return err;
}

/* Those that are parked go on: what they have in workers has its own end. */
static void end_threads(struct runner *r)
{
	struct lane_thread *t;

	pthread_mutex_lock(&r->lock);
	r->ending = true;
	for (t = r->threads; t; t = t->next) {
		if (t->turn)
			t->turn->waits = false;
		pthread_cond_signal(&t->cond);
	}
	while ((t = r->threads)) {
		r->threads = t->next;
		pthread_mutex_unlock(&r->lock);
		pthread_join(t->thread, NULL);
		pthread_cond_destroy(&t->cond);
		free(t);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
}

void lanes_destroy(struct runner *r)
{
	for (uint32_t i = 0; i < r->nr_lanes; i++) {
		struct lane *lane = &r->lanes[i];

		pthread_mutex_lock(&lane->lock);
		lane->stop = true;
		pthread_cond_signal(&lane->cond);
		pthread_mutex_unlock(&lane->lock);
	}
	end_threads(r);
	for (uint32_t i = 0; i < r->nr_lanes; i++) {
		pthread_cond_destroy(&r->lanes[i].cond);
		pthread_mutex_destroy(&r->lanes[i].beginning);
		pthread_mutex_destroy(&r->lanes[i].lock);
	}
}
