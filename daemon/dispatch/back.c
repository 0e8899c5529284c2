// SPDX-License-Identifier: MIT
#include "daemon/dispatch/back.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/dispatch/host.h"
#include "daemon/dispatch/run.h"
#include "daemon/memory/memory.h"
#include "daemon/reason.h"

/**
 * struct back - a device's
 * @threads:	one for each place, as small results are not to wait for large ones
 * @taken:	atomic: places (bits) of tasks that have left their lanes, or are about to
 */
struct back {
	struct host_thread *threads[BACK_MOST];
	uint32_t taken;
};

int back_create(struct poller_device *pd)
{
	struct back *b = calloc(1, sizeof(*b));
	int err = 0;

	if (!b)
		return -ENOMEM;
	pd->back = b;
	for (uint32_t i = 0; i < BACK_MOST && !err; i++)
		err = host_thread_create("arax-back", &b->threads[i]);
	if (err)
		back_destroy(pd);
	return err;
}

void back_destroy(struct poller_device *pd)
{
	if (!pd->back)
		return;
	for (uint32_t i = 0; i < BACK_MOST; i++)
		host_thread_destroy(pd->back->threads[i]);
	free(pd->back);
	pd->back = NULL;
}

void back_others_wait(struct poller *p, bool wait)
{
	/* It is a hint. */
	if (p->others_wait != wait)
		__atomic_store_n(&p->others_wait, wait, __ATOMIC_RELAXED);
}

static bool may_leave(struct back *b, uint32_t *place)
{
	for (uint32_t i = 0; i < BACK_MOST; i++) {
		*place = i;
		if (!(__atomic_fetch_or(&b->taken, 1u << i, __ATOMIC_RELAXED) & 1u << i))
			return true;
	}
	return false;
}

/* On the lane's thread.  Its end comes to the poller behind this. */
static bool hand_over(struct runner_task *rt)
{
	struct run *run = (struct run *)((char *)rt - offsetof(struct run, rt));
	const uint32_t device = run->device, lane = run->lane;
	struct poller *p = run->poller;
	struct back *b = p->devs[device].back;
	uint32_t place;

	if (rt->result || !__atomic_load_n(&p->others_wait, __ATOMIC_RELAXED) ||
	    memory_back_ns(p->memory, device, run->remote, rt->launch.nr_ranges) < BACK_WORTH_NS ||
	    !may_leave(b, &run->back_place))
		return false;
	place = run->back_place;
	run->lane_ns = rt->hold_ns;
	work_push(&p->work, &run->leaves);
	/* From here on it may be over at any time. */
	host_thread_push(b->threads[place], &run->back);
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
	__atomic_fetch_and(&run->poller->devs[run->device].back->taken, ~(1u << run->back_place),
			   __ATOMIC_RELAXED);
}

void back_init(struct run *run)
{
	run->rt.hand_over = hand_over;
	run->leaves.run = leaves;
	run->back.run = take_back;
}
