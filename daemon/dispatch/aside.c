// SPDX-License-Identifier: MIT
/* Tasks that stand aside: between the runner, which stops them, and the scheduler. */
#include "daemon/dispatch/aside.h"

#include <errno.h>
#include <stddef.h>

#include "daemon/dispatch/run.h"

#define NEVER_ASKED_MS	100u	/* between two looks, only for those that nobody wants any more */
#define LONG_NS		20000000u	/* a launch of less has ended before it would make way */

uint32_t aside_room(const struct poller *p, const struct poller_device *pd)
{
	uint32_t room = runner_spare_workers(pd->runner);

	/* Who looks at what a task has written can't look while others write. */
	if (!p->config->worker.slice_ms || p->config->debug.check_access)
		return 0;
	return room < MAX_RUNS ? room : MAX_RUNS - 1;
}

static struct run *of_turn(struct runner_turn *turn)
{
	return (struct run *)((char *)turn - offsetof(struct run, aside.turn));
}

static struct poller_device *device_of(const struct run *run)
{
	return &run->poller->devs[run->device];
}

static uint64_t ran_ns(const struct run *run)
{
	return atomic_load_explicit(&run->aside.turn.ran_ns, memory_order_relaxed);
}

/* It is no longer asked, or has been heard. */
static void forget_asked(struct run *run)
{
	device_of(run)->nr_aside -= run->aside.asked;
	run->aside.asked = false;
}

/* On the thread that waits for the worker, or runs the launch. */
static void tell_slice(struct runner_turn *turn)
{
	struct run *run = of_turn(turn);

	/* Acquire pairs with hear_slice(): it is in no queue any more. */
	if (!__atomic_exchange_n(&run->aside.told, true, __ATOMIC_ACQUIRE))
		poller_post(run->poller, &run->aside.slice);
}

/*
 * Who changes places with one that has begun needs a place only for a moment, which is kept for
 * that (see aside_full()); and one tenant's programs shall not take all, by making way for each
 * other.
 */
static enum sched_room room_left(const struct poller_device *pd, const struct run *run)
{
	uint32_t others = pd->nr_aside - run->aside.asked;

	if (others + 1 >= pd->max_aside)
		return SCHED_ROOM_NONE;
	return others < pd->max_aside / 2 ? SCHED_ROOM_PLENTY : SCHED_ROOM_SOME;
}

static void hear_slice(struct work *w)
{
	struct run *run = (struct run *)((char *)w - offsetof(struct run, aside.slice));
	struct poller_device *pd = device_of(run);
	struct poller *p = run->poller;
	struct aside *a = &run->aside;
	uint64_t ran = ran_ns(run);

	__atomic_store_n(&a->told, false, __ATOMIC_RELEASE);
	/* It may be over since, and there may be another one. */
	if (!run->node || !run->rt.turn || a->laneless)
		return;
	sched_progress(p->sched, run->node, ran - a->charged_ns, poller_ns(p));
	/* It was asked, and could not: there was no thread for its lane. */
	if (atomic_exchange(&a->turn.refused, false))
		forget_asked(run);
	if (a->asked || p->stopping || pd->nr_aside >= pd->max_aside ||
	    !sched_makes_way(p->sched, run->node, ran, room_left(pd, run), poller_ns(p)))
		return;
	a->asked = true;
	pd->nr_aside++;
	runner_make_way(&a->turn);
}

/* On that thread: it stands still, and the lane is another's. */
static void tell_parked(struct runner_turn *turn)
{
	struct run *run = of_turn(turn);

	poller_post(run->poller, &run->aside.parked);
}

static void hear_parked(struct work *w)
{
	struct run *run = (struct run *)((char *)w - offsetof(struct run, aside.parked));
	struct poller_device *pd = device_of(run);
	struct poller *p = run->poller;
	struct aside *a = &run->aside;
	uint64_t ran = ran_ns(run);
	int err = p->stopping || pd->lost ? -ENODEV :
		sched_put_back(p->sched, run->node, ran - a->charged_ns, ran, ran - a->place_ns,
			       room_left(pd, run), poller_ns(p));

	/* Whatever became of that: it has a place from now on. */
	pd->nr_aside += !a->asked;
	a->asked = true;
	if (err < 0) {
		forget_asked(run);
		runner_go_on(pd->runner, &a->turn);
		return;
	}
	POLLER_COUNT(p, aside);
	a->laneless = true;
	pd->busy_ns += ran - a->charged_ns;
	pd->changed = true;
	a->charged_ns = ran;
	if (err)
		a->place_ns = ran;
	pd->lanes_busy &= ~(1ull << run->token);
	run_give_cpus(run);
}

void aside_init(struct run *run)
{
	struct aside *a = &run->aside;

	a->slice.run = hear_slice;
	a->parked.run = hear_parked;
	a->turn.slice_ns = (run->poller->config->worker.slice_ms ?: NEVER_ASKED_MS) * 1000000ull;
	a->turn.slice = tell_slice;
	a->turn.parked = tell_parked;
}

void aside_begin(struct run *run)
{
	struct aside *a = &run->aside;

	run->rt.turn = &a->turn;
	run->rt.unpaid_ns = 0;
	atomic_store_explicit(&a->turn.ran_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&a->turn.want, RUNNER_WANT_NOTHING, memory_order_relaxed);
	atomic_store_explicit(&a->turn.refused, false, memory_order_relaxed);
	atomic_store_explicit(&a->turn.pool, NULL, memory_order_relaxed);
	a->turn.paused_ns = 0;
	a->turn.past_ns = 0;
	a->since = run->start;
	a->charged_ns = 0;
	a->place_ns = 0;
	a->here = false;
}

bool aside_in_parts(const struct poller_device *pd, const struct kernel *k, uint64_t ns)
{
	return (!ns || ns >= LONG_NS) && runner_has_parts(pd->runner, k);
}

void aside_begin_parts(struct run *run)
{
	aside_begin(run);
	run->aside.here = true;
}

bool aside_is_elsewhere(const struct run *run)
{
	return run->rt.turn && !run->aside.here;
}

uint64_t aside_settle(struct run *run, struct graph_node *node, uint64_t all_ns, bool learn)
{
	struct poller *p = run->poller;
	struct aside *a = &run->aside;
	uint64_t ns = all_ns > a->charged_ns ? all_ns - a->charged_ns : 0;

	if (a->laneless) {
		/* By its deadline, as nobody wants it, or as somebody has let it go on. */
		sched_remove(p->sched, node);
		if (ns)
			sched_charge(p->sched, node, run->device, ns, false);
		run_take_cpus(run);
	} else {
		sched_finish(p->sched, node, ns, learn && !a->charged_ns);
		device_of(run)->lanes_busy &= ~(1ull << run->token);
	}
	if (run->rt.unpaid_ns)
		sched_charge(p->sched, node, run->device, run->rt.unpaid_ns, false);
	if (learn && a->charged_ns)
		sched_observe(p->sched, sched_kernel_key(node), run->device, sched_work(node),
			      all_ns);
	a->laneless = false;
	forget_asked(run);
	run->rt.turn = NULL;
	return ns;
}

bool aside_go_on(struct poller *p, struct graph_node *node)
{
	struct poller_device *pd = &p->devs[node->device];
	struct run *run = pd->runs, *end = run_end(pd);

	while (run < end && !(run->aside.laneless && run->node == node))
		run++;
	if (run == end)
		return false;
	run->aside.laneless = false;
	forget_asked(run);
	run->aside.since = p->now;
	run->token = run_free_lane(p, pd);
	pd->lanes_busy |= 1ull << run->token;
	run_take_cpus(run);
	runner_go_on(pd->runner, &run->aside.turn);
	return true;
}

void aside_context_gone(struct link *l, uint32_t context)
{
	struct poller *p = l->poller;

	for (uint32_t i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];

		for (struct run *run = pd->runs; run < run_end(pd); run++)
			if (run->node && run->rt.turn && run->link == l &&
			    run->node->d.context == context)
				runner_end(pd->runner, &run->aside.turn);
	}
}

void aside_let_go(struct poller_device *pd)
{
	for (struct run *run = pd->runs; run < run_end(pd); run++)
		if (run->aside.laneless)
			runner_go_on(pd->runner, &run->aside.turn);
}
