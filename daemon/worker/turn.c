// SPDX-License-Identifier: MIT
/*
 * Tasks that make way for others: in workers, and between the parts of a launch in this process.
 *
 * The thread that waits for the worker, or runs the launch, does it all: it tells who decides, it
 * stops the worker, gives its lane to another thread, and waits for its task's next turn.
 */
#include <errno.h>

#include "daemon/worker/inside.h"

/* For the answer of who was told. */
#define ANSWER_NS	1000000u

/* A launch that ends just as it is stopped has told so by then. */
#define STOPPED_NS	2000000u

void runner_make_way(struct runner_turn *turn)
{
	uint32_t nothing = RUNNER_WANT_NOTHING;

	atomic_compare_exchange_strong(&turn->want, &nothing, RUNNER_WANT_WAY);
}

/* (locked) Whoever waits with it sees to it. */
static void signal_waiting(struct runner *r, const struct runner_turn *turn)
{
	struct lane_thread *t;

	for (t = r->threads; t; t = t->next)
		if (t->turn == turn)
			pthread_cond_signal(&t->cond);
}

void runner_go_on(struct runner *r, struct runner_turn *turn)
{
	pthread_mutex_lock(&r->lock);
	turn->waits = false;
	signal_waiting(r, turn);
	pthread_mutex_unlock(&r->lock);
}

void runner_end(struct runner *r, struct runner_turn *turn)
{
	struct runner *pool;

	pthread_mutex_lock(&r->lock);
	atomic_store(&turn->want, RUNNER_WANT_END);
	signal_waiting(r, turn);
	pthread_mutex_unlock(&r->lock);
	/* Or it has no worker yet.  seq_cst: pairs with take_place(). */
	pool = atomic_load(&turn->pool);
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pthread_cond_broadcast(&pool->room);
	pthread_mutex_unlock(&pool->lock);
}

static void set_ran(struct runner_turn *turn, uint64_t ns)
{
	atomic_store_explicit(&turn->ran_ns, turn->past_ns + ns, memory_order_relaxed);
}

/* Until it may go on (0), its end, or @until_ns, if not 0: -ETIMEDOUT. */
static int await_turn(struct runner_turn *turn, uint64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};
	struct lane_thread *me = this_thread;
	struct runner *r = me->runner;
	int err = 0;

	pthread_mutex_lock(&r->lock);
	me->turn = turn;
	while (!err && turn->waits && !r->ending && !runner_is_ended(turn))
		err = -(until_ns ? pthread_cond_timedwait(&me->cond, &r->lock, &until) :
				   pthread_cond_wait(&me->cond, &r->lock));
	me->turn = NULL;
	if (runner_is_ended(turn))
		err = -ECANCELED;
	pthread_mutex_unlock(&r->lock);
	return err;
}

/* Its worker, if it has one, stands still, and its lane has another thread. */
static int stand_aside(struct worker_time *time, const struct worker *w)
{
	struct runner_turn *turn = time->turn;
	struct runner *r = this_thread->runner;
	uint64_t since = now_ns(), stopped = since + STOPPED_NS;
	bool in_time = w && (!time->deadline_ns || stopped < time->deadline_ns), ran_on = false;
	int err;

	set_ran(turn, since - time->began_ns - time->paused_ns);
	atomic_fetch_sub_explicit(&r->busy, 1, memory_order_relaxed);
	/* Before it is told, as from then on it may be let go on. */
	pthread_mutex_lock(&r->lock);
	turn->waits = true;
	pthread_mutex_unlock(&r->lock);
	turn->parked(turn);
	err = await_turn(turn, in_time ? stopped : time->deadline_ns);
	if (in_time && err == -ETIMEDOUT && worker_answered(w)) {
		/* It is over, without a lane. */
		err = 0;
	} else if (in_time && err == -ETIMEDOUT) {
		err = await_turn(turn, time->deadline_ns);
		ran_on = worker_answered(w);
	}
	atomic_fetch_add_explicit(&r->busy, 1, memory_order_relaxed);
	/* If somebody else has let it go on meanwhile that was its own time. */
	since = ran_on ? 0 : now_ns() - since;
	time->paused_ns += since;
	turn->paused_ns += since;
	return err;
}

static int make_way(struct worker_time *time, struct worker *w)
{
	uint32_t way = RUNNER_WANT_WAY;
	int err;

	bool may_wait = time->may_wait;

	if (may_wait && w)
		worker_halt(w);
	/* It has just ended; or no second thread can be had for this lane. */
	if (!may_wait || (w && worker_answered(w)) || (this_lane && !lane_hand_over())) {
		if (may_wait && w)
			worker_go_on(w);
		/* In this order: who sees that it was refused may ask again at once. */
		atomic_compare_exchange_strong(&time->turn->want, &way, RUNNER_WANT_NOTHING);
		atomic_store(&time->turn->refused, true);
		return 0;
	}
	err = stand_aside(time, w);
	atomic_compare_exchange_strong(&time->turn->want, &way, RUNNER_WANT_NOTHING);
	if (!err && w)
		worker_go_on(w);
	return err;
}

static int give_way(struct worker_time *time, struct worker *w)
{
	int err = make_way(time, w);

	time->told = false;
	time->look_ns = now_ns() + time->turn->slice_ns;
	return err;
}

static void tell_slice(struct worker_time *time)
{
	struct runner_turn *turn = time->turn;
	uint64_t now = now_ns();

	if (!time->told) {
		set_ran(turn, now - time->began_ns - time->paused_ns);
		turn->slice(turn);
	}
	time->told = !time->told;
	time->look_ns = now + (time->told ? ANSWER_NS : turn->slice_ns);
}

int turn_look(struct worker_time *time, struct worker *w)
{
	switch (atomic_load(&time->turn->want)) {
	case RUNNER_WANT_END:
		return -ECANCELED;
	case RUNNER_WANT_WAY:
		return give_way(time, w);
	}
	tell_slice(time);
	return 0;
}

int turn_between(void *arg, int still)
{
	struct worker_time *time = arg;
	uint64_t now;

	switch (atomic_load_explicit(&time->turn->want, memory_order_relaxed)) {
	case RUNNER_WANT_END:
		return -ECANCELED;
	case RUNNER_WANT_WAY:
		return still ? give_way(time, NULL) : -EAGAIN;
	}
	now = now_ns();
	if (time->deadline_ns && now >= time->deadline_ns)
		return -ETIMEDOUT;
	if (now >= time->look_ns)
		tell_slice(time);
	return 0;
}

void turn_ran(struct runner_turn *turn, const struct worker_time *time)
{
	if (time->began_ns)
		turn->past_ns += now_ns() - time->began_ns - time->paused_ns;
	set_ran(turn, 0);
}
