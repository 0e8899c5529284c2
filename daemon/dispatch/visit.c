// SPDX-License-Identifier: MIT
/*
 * What a device's thread does at the end of a task while the poller sleeps: one or a few of
 * the poller's turns.  It comes and goes as the poller wakes and falls asleep, but for two
 * things that stay the poller's own: its events, which wake it anyway, and the time at which
 * it wakes by itself; if that has to be earlier now, it is woken.
 */
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/race.h"
#include "daemon/dispatch/run.h"
#include "daemon/link/wake.h"

/* As long as more comes; then the poller is woken for it. */
#define TURNS		4
#define VISITS		8

/* For so many times loop.poll_us: it has to be woken, and to come back from there. */
#define STAY_SPINS	2
/* So many stays in vain, and some visits go without. */
#define STAYS		4
#define STAYS_NOT	16
/* Between two times that others on a core come first. */
#define LOOKS		8
/*
 * Who doesn't have it back by then shares the core with somebody who computes, and keeps all others
 * from the poller's work meanwhile: as many visits then go without.
 */
#define LOST_US		500u
#define LOST_NOT	1000

/* As the poller does before it sleeps; false: there is something to be done. */
static bool leave_asleep(struct poller *p)
{
	uint64_t limit, now;

	if (p->kept)
		return false;
	poller_settle(p);
	if (!poller_sleep_links(p, &limit))
		return false;
	now = poller_ns(p);
	if (limit < UINT64_MAX - now && now + limit < p->sleep_until) {
		p->sleep_until = now + limit;
		poller_kick(p);
	}
	return true;
}

/*
 * A program that is alone, and waits for each of its tasks, is back with the next one soon.
 * Whoever waits awake for it here spares waking the poller, and the lane's thread, which this is.
 */
static bool may_stay(struct poller *p)
{
	if (!p->rest.may_spin || p->running || sched_queued(p->sched) ||
	    (p->visitor->depth > 1 && !run_was_alone(p)))
		return false;
	if (p->stays_not) {
		p->stays_not--;
		return false;
	}
	return true;
}

/* Whoever was woken may have to run on this very core.  False: so does somebody else. */
static bool let_others(struct poller *p)
{
	sched_yield();
	if (ticks_now(&p->ticks) - p->now < LOST_US * p->ticks.per_us)
		return true;
	p->stays_not = LOST_NOT;
	return false;
}

static void stay(struct poller *p)
{
	uint64_t since = p->now = ticks_now(&p->ticks);
	uint32_t looks = 0;
	int n = 0;

	if (!may_stay(p))
		return;
	while (!n && p->now - since < STAY_SPINS * p->rest.spin_ticks && !door_is_awaited(&p->door)) {
		if (p->visitor->depth == 1 && !(++looks % LOOKS) && !let_others(p))
			break;
		cpu_relax();
		n = poller_turn(p);
		p->now = ticks_now(&p->ticks);
	}
	if (n)
		POLLER_COUNT(p, stayed);
	p->stays = n || p->stays_not ? 0 : p->stays + 1;
	if (p->stays == STAYS) {
		p->stays = 0;
		p->stays_not = STAYS_NOT;
	}
}

static void take_turns(struct poller *p)
{
	uint32_t turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		p->now = ticks_now(&p->ticks);
		for (i = 0; i < p->nr_links; i++)
			p->links[i]->ops->awake(p->links[i], p->now);
		poller_turn(p);
		if (!turn)
			stay(p);
		if (leave_asleep(p))
			return;
	}
	poller_kick(p);
}

/* Inside.  False: it is not for visitors to go on. */
static bool visit(struct poller *p, uint32_t device, uint32_t lane)
{
	bool welcome = !p->stopping;

	POLLER_COUNT(p, visits);
	if (welcome) {
		poller_be_here(true);
		p->visitor = &p->devs[device];
		p->visitor_lane = lane;
		sched_near(p->sched, device);
		take_turns(p);
		sched_near(p->sched, SCHED_NO_DEVICE);
		p->visitor = NULL;
		p->exact = false;
		poller_be_here(false);
		/* What runs next on this thread may not expect its signals. */
		wake_rest();
	}
	/* The end is the poller's to see, also if nothing else is left for it. */
	welcome = !p->stopping;
	if (!welcome) {
		p->unfinished = true;
		poller_kick(p);
	}
	door_leave(&p->door);
	return welcome;
}

/* See door.h for why nothing gets lost. */
void poller_come(struct poller *p, uint32_t device, uint32_t lane)
{
	uint32_t n;

	RACE_POINT();
	for (n = 0; n < VISITS; n++)
		if (!work_pending(&p->work) || !door_enter(&p->door) || !visit(p, device, lane))
			return;
	/* Others bring without end, and this thread may have been given a task itself. */
	if (work_pending(&p->work))
		poller_kick(p);
}

void poller_bring(struct poller *p, struct work *w, uint32_t device, uint32_t lane)
{
	work_push(&p->work, w);
	poller_come(p, device, lane);
}
