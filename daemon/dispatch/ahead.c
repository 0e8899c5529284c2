// SPDX-License-Identifier: MIT
#include "daemon/dispatch/ahead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/dispatch/beside.h"
#include "daemon/dispatch/gate.h"
#include "daemon/dispatch/own.h"
#include "daemon/dispatch/recover.h"
#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"

/* Between two looks at who has become first of all, while enough wait. */
#define STALE_US	10000u
/* Who could not pay, and tries in vain again, waits for twice as long before the next time, so often. */
#define PAY_US		100u
#define PAY_DOUBLED	6u

/**
 * struct coming - what one task needs
 * @node:	NULL: it has begun, or is no more
 * @run:	by which it has, until it has ended
 * @out:	with the thread; @over: atomic: no longer
 * @stop:	atomic: nobody wants it any more
 * @taken:	atomic: who sets it has the buffers to let go
 * @unpaid:	its owner could not pay for it, after memory_settles() was @settles
 * @bytes:	that it takes on the device
 */
struct coming {
	struct host_job job;
	struct work work;
	struct poller *poller;
	struct poller_device *pd;
	const struct graph_node *node;
	struct run *run;
	bool out, over, stop, taken;
	bool unpaid;
	uint32_t configuration;
	uint64_t bytes, settles;
	struct memory_ahead task;
	uint32_t nr;
	struct memory_range ranges[];
};

/**
 * struct ahead - a device's
 * @of:		so many can be waiting for a lane, or on their way still
 * @most:	of the first
 * @look_at:	ticks: when to look again; @vain: times in a row that nothing was found
 * @rests:	ticks: but not before that
 * @stale_at:	ticks: by then others may be next than those that wait with what came for them
 * @pay_at:	ticks: not before, who could not pay tries again; @refused: times in a row that it was so
 */
struct ahead {
	struct ahead *next;
	struct host_thread *thread;
	struct coming *of[SCHED_NEXT + AHEAD_OUT];
	uint32_t most;
	uint32_t vain;
	uint64_t look_at, rests, stale_at;
	uint64_t pay_at;
	uint32_t refused;
};

#define PLACES	(sizeof(((struct ahead *)NULL)->of) / sizeof(((struct ahead *)NULL)->of[0]))

int ahead_create(struct poller *p, struct poller_device *pd)
{
	struct ahead *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	err = host_thread_create("arax-ahead", &a->thread);
	if (err) {
		free(a);
		return err;
	}
	a->most = AHEAD_MOST(pd->lanes);
	a->next = p->aheads;
	p->aheads = a;
	pd->ahead = a;
	return 0;
}

static bool take(struct coming *c)
{
	return !__atomic_exchange_n(&c->taken, true, __ATOMIC_ACQ_REL);
}

static void let_go(struct coming *c)
{
	for (uint32_t i = 0; i < c->nr; i++)
		memory_buffer_let_go(c->poller->memory, c->ranges[i].buffer);
}

/* Whoever waits for its buffers doesn't wait for what comes for others before it. */
static void stop(struct coming *c)
{
	__atomic_store_n(&c->stop, true, __ATOMIC_RELEASE);
	if (!c->out)
		return;
	if (take(c))
		let_go(c);
	else
		memory_bring_stopped(c->poller->memory, c->pd->dev->index);
}

void ahead_stop_all(struct poller *p)
{
	for (struct ahead *a = p->aheads; a; a = a->next) {
		for (uint32_t i = 0; i < PLACES; i++)
			if (a->of[i])
				stop(a->of[i]);
		host_thread_destroy(a->thread);
	}
}

void ahead_free_all(struct poller *p)
{
	struct ahead *a;

	while ((a = p->aheads)) {
		p->aheads = a->next;
		for (uint32_t i = 0; i < PLACES; i++)
			free(a->of[i]);
		free(a);
	}
}

/* ------------------------------------------------------------------ */
/* On the thread                                                       */

static bool is_wanted(void *arg)
{
	const struct coming *c = arg;

	/* Who waits there waits for all that are inside. */
	return !__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE) &&
	       (!c->pd->gate || !gate_waiting(c->pd->gate));
}

static void bring(struct host_job *job)
{
	struct coming *c = (struct coming *)((char *)job - offsetof(struct coming, job));
	struct memory *m = c->poller->memory;
	struct gate *gate = c->pd->gate;
	bool mine = take(c);

	if (mine && (!gate || gate_try_enter(gate, c->configuration))) {
		c->unpaid = !memory_bring(m, c->pd->dev->index, c->ranges, c->nr, &c->task);
		if (gate)
			gate_leave(gate);
	}
	if (mine)
		let_go(c);
	__atomic_store_n(&c->over, true, __ATOMIC_RELEASE);
	poller_post(c->poller, &c->work);
}

/* ------------------------------------------------------------------ */
/* On the poller's                                                     */

/* Nobody has it any more. */
static void free_place(struct ahead *a, struct coming **place)
{
	struct coming *c = *place;

	if (c->out || c->node || c->run)
		return;
	*place = NULL;
	a->look_at = 0;
	free(c);
}

static void came(struct work *w)
{
	struct coming *c = (struct coming *)((char *)w - offsetof(struct coming, work));
	struct poller_device *pd = c->pd;
	struct poller *p = c->poller;

	c->out = false;
	pd->ahead->look_at = 0;
	if (!c->unpaid)
		pd->ahead->refused = 0;
	for (uint32_t i = 0; i < PLACES; i++)
		if (pd->ahead->of[i] == c)
			free_place(pd->ahead, &pd->ahead->of[i]);
	if (recover_pending(pd))
		recover_begin(p, pd);
}

static void forget(struct poller *p, struct coming *c)
{
	stop(c);
	c->node = NULL;
	c->pd->ahead->look_at = 0;
	p->nr_ahead--;
}

void ahead_forget(struct poller *p, const struct graph_node *node, struct run *run)
{
	for (struct ahead *a = p->aheads; a; a = a->next) {
		for (uint32_t i = 0; i < PLACES; i++) {
			struct coming *c = a->of[i];

			if (!c || c->node != node)
				continue;
			forget(p, c);
			/* What came to another device is no part of it. */
			if (run && c->pd->dev->index == run->device && run->remote) {
				c->run = run;
				run->coming = c;
			}
			free_place(a, &a->of[i]);
		}
	}
}

uint64_t ahead_moved(const struct coming *c)
{
	uint64_t bytes = 0;

	/* Else it is just over, or has not begun. */
	for (uint32_t i = 0; __atomic_load_n(&c->over, __ATOMIC_ACQUIRE) && i < c->nr; i++)
		bytes += c->ranges[i].moved;
	return bytes;
}

void ahead_run_over(struct run *run)
{
	struct coming *c = run->coming;
	struct ahead *a = c->pd->ahead;

	run->coming = NULL;
	c->run = NULL;
	for (uint32_t i = 0; i < PLACES; i++)
		if (a->of[i] == c)
			free_place(a, &a->of[i]);
}

void ahead_stop(struct poller_device *pd)
{
	struct ahead *a = pd->ahead;

	for (uint32_t i = 0; a && i < PLACES; i++) {
		if (!a->of[i] || !a->of[i]->node)
			continue;
		/* It may come to another device, and what has come counts no longer. */
		forget(a->of[i]->poller, a->of[i]);
		free_place(a, &a->of[i]);
	}
}

static uint32_t count_out(const struct ahead *a)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < PLACES; i++)
		n += a->of[i] && a->of[i]->out;
	return n;
}

bool ahead_is_busy(const struct poller_device *pd)
{
	return pd->ahead && count_out(pd->ahead);
}

static bool is_coming(const struct poller *p, const struct graph_node *node)
{
	for (const struct ahead *a = p->aheads; a; a = a->next)
		for (uint32_t i = 0; i < PLACES; i++)
			if (a->of[i] && a->of[i]->node == node)
				return true;
	return false;
}

/* What it needs could not be brought, or was there: it waits with nothing, so more may come. */
static bool is_in_vain(const struct coming *c)
{
	return c->node && !c->out && !ahead_moved(c);
}

/* Of tasks that have not begun: what came for them takes on all devices. */
static uint64_t bytes_beside(const struct poller *p, uint64_t tenant)
{
	uint64_t bytes = 0;

	for (const struct ahead *a = p->aheads; a; a = a->next)
		for (uint32_t i = 0; i < PLACES; i++) {
			const struct coming *c = a->of[i];

			if (c && c->node && !is_in_vain(c) && c->task.owner.tenant == tenant)
				bytes += c->bytes;
		}
	return bytes;
}

static uint32_t count_in_vain(const struct ahead *a)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < PLACES; i++)
		n += a->of[i] && is_in_vain(a->of[i]);
	return n;
}

static bool are_enough(const struct ahead *a)
{
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < PLACES; i++)
		waiting += a->of[i] && a->of[i]->node && !is_in_vain(a->of[i]);
	return waiting >= a->most || count_out(a) >= AHEAD_OUT;
}

/* Where one more can be put; NULL: there are enough. */
static struct coming **find_place(struct ahead *a)
{
	uint32_t i = 0;

	while (i < PLACES && a->of[i])
		i++;
	return i < PLACES && !are_enough(a) ? &a->of[i] : NULL;
}

/* Those that wait, but are not among @nodes, which are first now and have no place. */
static void forget_others(struct poller *p, struct ahead *a, struct graph_node *const *nodes,
			  uint32_t nr)
{
	for (uint32_t i = 0, k; nr && i < PLACES; i++) {
		struct coming *c = a->of[i];

		if (!c || !c->node || c->out)
			continue;
		for (k = 0; k < nr && nodes[k] != c->node; k++)
			;
		if (k < nr)
			continue;
		forget(p, c);
		free_place(a, &a->of[i]);
	}
}

/* To the thread: as what is there, and who may come, is now. */
static void push(struct coming *c)
{
	const struct graph_node *node = c->node;
	struct poller *p = c->poller;

	c->task.last = graph_last_seq(((struct link *)node->priv)->graph);
	c->task.beside = bytes_beside(p, node->d.tenant);
	c->settles = memory_settles(p->memory);
	c->out = true;
	c->over = false;
	c->taken = false;
	c->unpaid = false;
	for (uint32_t i = 0; i < c->nr; i++)
		memory_buffer_keep(p->memory, c->ranges[i].buffer);
	host_thread_push(c->pd->ahead->thread, &c->job);
}

/* Those that could not be paid for, as somebody has given something back since. */
static void try_again(struct poller *p, struct ahead *a)
{
	uint64_t settles = memory_settles(p->memory);
	bool any = false;

	if (p->now < a->pay_at)
		return;
	for (uint32_t i = 0; i < PLACES && !are_enough(a); i++) {
		struct coming *c = a->of[i];

		if (!c || !is_in_vain(c) || !c->unpaid || c->settles == settles)
			continue;
		any = true;
		push(c);
	}
	if (!any)
		return;
	a->pay_at = p->now + ((uint64_t)PAY_US << a->refused) * p->ticks.per_us;
	a->refused += a->refused < PAY_DOUBLED;
}

/* False: it has all, or nothing that would be worth it. */
static bool begin(struct poller *p, struct poller_device *pd, struct coming **place,
		  const struct graph_node *node)
{
	uint32_t nr = node->d.nr_ranges;
	struct memory_range ranges[ARAX_MAX_RANGES];
	struct coming *c;

	if (node->d.opcode != ARAX_OP_LAUNCH || own_is_launch(node) || is_coming(p, node) ||
	    !remote_look_ahead_of(p, node, ranges) ||
	    memory_bring_ns(p->memory, pd->dev->index, ranges, nr, node->seq) < AHEAD_WORTH_NS)
		return false;
	c = calloc(1, sizeof(*c) + nr * sizeof(c->ranges[0]));
	if (!c)
		return false;
	c->job.run = bring;
	c->work.run = came;
	c->poller = p;
	c->pd = pd;
	c->node = node;
	c->configuration = pd->gate ? runner_configuration(pd->runner, run_kernel(node)) : 0;
	c->bytes = memory_bytes(ranges, nr);
	c->task = (struct memory_ahead){
		.seq = node->seq, .owner = remote_owner(node->priv, node),
		.piece = AHEAD_PIECE_BYTES, .go_on = is_wanted, .arg = c,
	};
	c->nr = nr;
	memcpy(c->ranges, ranges, nr * sizeof(ranges[0]));
	push(c);
	*place = c;
	p->nr_ahead++;
	POLLER_COUNT(p, ahead);
	return true;
}

static void look(struct poller *p, struct poller_device *pd)
{
	struct graph_node *nodes[PLACES];
	struct ahead *a = pd->ahead;
	struct coming **place;
	bool any = false;
	uint32_t nr, most;
	uint64_t begun;

	try_again(p, a);
	place = find_place(a);
	if (!place && p->now < a->stale_at) {
		a->look_at = a->stale_at;
		return;
	}
	begun = ticks_now(&p->ticks);
	most = a->most + count_in_vain(a);
	nr = sched_next(p->sched, pd->dev->index, nodes, most < PLACES ? most : PLACES,
			poller_ns(p));
	if (!place) {
		a->stale_at = p->now + STALE_US * p->ticks.per_us;
		forget_others(p, a, nodes, nr);
		place = find_place(a);
	}
	for (uint32_t i = 0; i < nr && place; i++) {
		if (!begin(p, pd, place, nodes[i]))
			continue;
		any = true;
		place = find_place(a);
	}
	a->vain = any ? 0 : a->vain + (a->vain < AHEAD_DOUBLED);
	a->look_at = any ? 0 : p->now + ((uint64_t)AHEAD_PAUSE_US << a->vain) * p->ticks.per_us;
	a->rests = begun + AHEAD_LOOK_PART * (ticks_now(&p->ticks) - begun);
}

void ahead_look(struct poller *p)
{
	for (uint32_t i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];

		if (pd->ahead && !pd->lost && p->now >= pd->ahead->look_at &&
		    p->now >= pd->ahead->rests)
			look(p, pd);
	}
}
