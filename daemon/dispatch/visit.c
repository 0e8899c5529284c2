// SPDX-License-Identifier: MIT
/*
 * What a device's thread does at the end of a task while the poller sleeps: one or a few of
 * the poller's turns.  It comes and goes as the poller wakes and falls asleep, but for two
 * things that stay the poller's own: its events, which wake it anyway, and the time at which
 * it wakes by itself; if that has to be earlier now, it is woken.
 */
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/race.h"
#include "daemon/link/wake.h"

/* As long as more comes; then the poller is woken for it. */
#define TURNS		4
#define VISITS		8

/* As the poller does before it sleeps; false: there is something to be done. */
static bool leave_asleep(struct poller *p)
{
	uint64_t limit, now;

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

static void take_turns(struct poller *p)
{
	uint32_t turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		p->now = ticks_now(&p->ticks);
		for (i = 0; i < p->nr_links; i++)
			p->links[i]->ops->awake(p->links[i], p->now);
		poller_turn(p);
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
		sched_near(p->sched, device, p->inline_ns);
		take_turns(p);
		sched_near(p->sched, SCHED_NO_DEVICE, 0);
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
void poller_bring(struct poller *p, struct work *w, uint32_t device, uint32_t lane)
{
	uint32_t n;

	work_push(&p->work, w);
	RACE_POINT();
	for (n = 0; n < VISITS; n++)
		if (!work_pending(&p->work) || !door_enter(&p->door) || !visit(p, device, lane))
			return;
	/* Others bring without end, and this thread may have been given a task itself. */
	if (work_pending(&p->work))
		poller_kick(p);
}
