// SPDX-License-Identifier: MIT
#include "daemon/dispatch/recover.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/dispatch/ahead.h"
#include "daemon/dispatch/aside.h"
#include "daemon/dispatch/gate.h"
#include "daemon/dispatch/run.h"
#include "daemon/log.h"
#include "daemon/memory/memory.h"

/* Given up after so many times in a row with fewer tasks than that in between. */
#define HASTY_TIMES	3
#define HASTY_TASKS	100

struct recovery {
	struct work work;
	struct poller *poller;
	struct poller_device *pd;
	pthread_t thread;
	bool begun;
	bool waits;		/* for a thread: that has been said */
	int err;
};

static bool is_worth_it(struct poller_device *pd, bool counts)
{
	if (!device_can_reset(pd->dev))
		return false;
	if (!counts)
		return true;
	pd->hasty = pd->tasks - pd->tasks_at_loss < HASTY_TASKS ? pd->hasty + 1 : 1;
	pd->tasks_at_loss = pd->tasks;
	if (pd->hasty > HASTY_TIMES) {
		log_err("device is given up", log_str("device", pd->dev->info.name),
			log_u64("losses", pd->hasty));
		return false;
	}
	return true;
}

void recover_forgive(struct poller_device *pd)
{
	if (pd->hasty && pd->rebuilt)
		pd->hasty--;
}

bool recover_plan(struct poller *p, struct poller_device *pd, bool counts)
{
	struct recovery *r;

	pd->rebuilt = is_worth_it(pd, counts);
	if (!pd->rebuilt && !memory_has_device(p->memory, pd->dev->index))
		return false;
	r = calloc(1, sizeof(*r));
	if (!r)
		return false;
	r->poller = p;
	r->pd = pd;
	pd->recovery = r;
	return pd->rebuilt;
}

/* What it takes is not there for a while: once more, as where there is no thread. */
static void put_off(struct recovery *r)
{
	pthread_join(r->thread, NULL);
	r->begun = false;
	r->poller->recover_again = true;
}

/* Back on the poller's thread. */
static void ended(struct work *w)
{
	struct recovery *r = (struct recovery *)((char *)w - offsetof(struct recovery, work));
	struct poller_device *pd = r->pd;
	struct poller *p = r->poller;
	int err = r->err;

	if (err == -EAGAIN) {
		put_off(r);
		return;
	}
	recover_stop(pd);
	if (!pd->rebuilt) {
		log_info("memory of a lost device is given up", log_str("device", pd->dev->info.name));
		return;
	}
	if (!err)
		err = sched_device_set(p->sched, pd->dev->index, pd->lanes);
	if (err) {
		/* It was said to be on its way. */
		pd->changed = true;
		log_err("device stays lost", log_str("device", pd->dev->info.name), log_errno(err));
		run_refuse_stranded(p);
		return;
	}
	pd->lost = false;
	pd->dev->info.lost = 0;
	pd->changed = true;
	log_warn("device is back", log_str("device", pd->dev->info.name));
}

static void *rebuild(void *arg)
{
	struct recovery *r = arg;
	struct poller *p = r->poller;

	/* Results that are on it alone are lost with it, and must not be taken for the host's. */
	if (memory_has_device(p->memory, r->pd->dev->index))
		memory_lose(p->memory, r->pd->dev->index);
	if (r->pd->rebuilt)
		r->err = device_reset(r->pd->dev);
	/* Nobody is inside, as nothing runs. */
	if (r->pd->gate)
		gate_forget(r->pd->gate);
	poller_post(p, &r->work);
	return NULL;
}

/* What workers run has nothing of what is made anew, and may go on for as long as it likes. */
static bool is_busy(const struct poller_device *pd)
{
	for (const struct run *run = pd->runs; run <= run_end(pd); run++)
		if (run->node && !aside_is_elsewhere(run))
			return true;
	return ahead_is_busy(pd);
}

void recover_begin(struct poller *p, struct poller_device *pd)
{
	struct recovery *r = pd->recovery;
	int err;

	if (r->begun || is_busy(pd))
		return;
	r->work.run = ended;
	/* From here on r->err is the thread's. */
	err = -pthread_create(&r->thread, NULL, rebuild, r);
	r->begun = !err;
	if (!err)
		return;
	/* Tenants' processes can be as many as may be, for a while. */
	p->recover_again = true;
	if (!r->waits)
		log_warn("a lost device waits: there is no thread to be had",
			 log_str("device", pd->dev->info.name), log_errno(err));
	r->waits = true;
}

void recover_again(struct poller *p)
{
	p->recover_again = false;
	for (uint32_t i = 0; i < p->nr_devs; i++)
		if (recover_pending(&p->devs[i]))
			recover_begin(p, &p->devs[i]);
}

void recover_stop(struct poller_device *pd)
{
	struct recovery *r = pd->recovery;

	if (!r)
		return;
	if (r->begun)
		pthread_join(r->thread, NULL);
	pd->recovery = NULL;
	free(r);
}
