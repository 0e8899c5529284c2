// SPDX-License-Identifier: MIT
#include "daemon/dispatch/back.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/dispatch/host.h"
#include "daemon/dispatch/run.h"
#include "daemon/memory/memory.h"
#include "daemon/reason.h"

/* To wake threads for less takes as long. */
#define WORTH_NS	50000u

/**
 * struct back - a device's
 * @out:	atomic: tasks that have left their lanes, or are about to
 */
struct back {
	struct host_thread *thread;
	uint32_t out;
};

int back_create(struct poller_device *pd)
{
	struct back *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	err = host_thread_create("arax-back", &b->thread);
	if (err) {
		free(b);
		return err;
	}
	pd->back = b;
	return 0;
}

void back_destroy(struct poller_device *pd)
{
	if (!pd->back)
		return;
	host_thread_destroy(pd->back->thread);
	free(pd->back);
	pd->back = NULL;
}

void back_others_wait(struct poller *p, bool wait)
{
	/* It is a hint. */
	if (p->others_wait != wait)
		__atomic_store_n(&p->others_wait, wait, __ATOMIC_RELAXED);
}

static bool may_leave(struct back *b)
{
	if (__atomic_fetch_add(&b->out, 1, __ATOMIC_RELAXED) < BACK_MOST)
		return true;
	__atomic_fetch_sub(&b->out, 1, __ATOMIC_RELAXED);
	return false;
}

/* On the lane's thread.  Its end comes to the poller behind this. */
static bool hand_over(struct runner_task *rt)
{
	struct run *run = (struct run *)((char *)rt - offsetof(struct run, rt));
	const uint32_t device = run->device, lane = run->lane;
	struct poller *p = run->poller;
	struct back *b = p->devs[device].back;

	if (rt->result || !__atomic_load_n(&p->others_wait, __ATOMIC_RELAXED) ||
	    memory_back_ns(p->memory, device, run->remote, rt->launch.nr_ranges) < WORTH_NS ||
	    !may_leave(b))
		return false;
	run->lane_ns = rt->hold_ns;
	work_push(&p->work, &run->leaves);
	/* From here on it may be over at any time. */
	host_thread_push(b->thread, &run->back);
	poller_come(p, device, lane);
	return true;
}

static void take_back(struct host_job *job)
{
	struct run *run = (struct run *)((char *)job - offsetof(struct run, back));
	struct runner_task *rt = &run->rt;
	uint64_t start = monotonic_ns();

	reason_forget();
	rt->result = rt->leave(rt, rt->result);
	if (rt->result)
		reason_take(rt->reason);
	rt->leave_ns = monotonic_ns() - start;
	rt->hold_ns = run->lane_ns + rt->leave_ns;
	poller_bring(run->poller, &run->work, run->device, POLLER_NO_LANE);
}

/* On the poller's. */
static void leaves(struct work *w)
{
	struct run *run = (struct run *)((char *)w - offsetof(struct run, leaves));
	struct poller *p = run->poller;

	run->left = true;
	sched_leave(p->sched, run->node, run->lane_ns);
	p->devs[run->device].lanes_busy &= ~(1ull << run->token);
	run_give_cpus(run);
	run->cpus = 0;
	POLLER_COUNT(p, left);
}

void back_over(struct run *run)
{
	run->left = false;
	__atomic_fetch_sub(&run->poller->devs[run->device].back->out, 1, __ATOMIC_RELAXED);
}

void back_init(struct run *run)
{
	run->rt.hand_over = hand_over;
	run->leaves.run = leaves;
	run->back.run = take_back;
}
