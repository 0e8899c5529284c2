// SPDX-License-Identifier: MIT
#include "daemon/dispatch/rest.h"

#include <sched.h>

#include "daemon/awake.h"
#include "daemon/dispatch/poller.h"

#define PREEMPTED_US	200u	/* a gap this long while spinning */
#define SHORT_SPINS	4u	/* a sleep is short: two wake-ups and a spin */
#define SHORT_SLEEPS	2u	/* in a row, before spinning is tried */
#define LONG_SLEEPS	3u	/* in a row, before it is thought to be in vain */
#define SPIN_PAUSE	64u	/* sleeps before it is tried again */
#define SAME_CPU_US	40u
#define CROWDED		1u	/* times in a row, before it is believed */
#define NEAR_SLEEPS	3u	/* the same of a peer that sleeps as we do */
#define MOVE_US		5000u	/* at most once in this time */
#define RUNNING_SPINS	4u	/* spins, while tasks are under way on other threads */
#define HOT_US		5u	/* of spinning without pause */

/* Among the CPUs that this thread may use; it may go on to any of them. */
static bool move_to(const cpu_set_t *cpus, const cpu_set_t *all)
{
	if (!CPU_COUNT(cpus) || sched_setaffinity(0, sizeof(*cpus), cpus))
		return false;
	sched_setaffinity(0, sizeof(*all), all);
	return true;
}

/* At most once in a while, and if @cpu is one of @all: this thread's CPUs. */
static bool may_move(struct poller *p, uint32_t cpu, cpu_set_t *all)
{
	if (p->now < p->rest.next_move || sched_getaffinity(0, sizeof(*all), all) ||
	    !CPU_ISSET(cpu, all))
		return false;
	p->rest.next_move = p->now + MOVE_US * p->ticks.per_us;
	return true;
}

/*
 * We span in vain, and as soon as we slept the peer was there: it had been
 * waiting for this very CPU.  Move to another one; if that doesn't help, leave
 * the CPU to it for a while and sleep at once.
 */
static void same_cpu(struct poller *p)
{
	cpu_set_t all, others;
	int cpu = sched_getcpu();

	if (++p->rest.crowded < CROWDED)
		return;
	p->rest.crowded = 0;
	if (cpu >= 0 && may_move(p, (uint32_t)cpu, &all)) {
		others = all;
		CPU_CLR(cpu, &others);
		if (move_to(&others, &all)) {
			POLLER_COUNT(p, moves);
			return;
		}
	}
	p->rest.spin_pause = SPIN_PAUSE;
}

/*
 * The one peer there is has been asleep on the same CPU time and again, for as long as we
 * have: to be woken there costs a fraction of what it does to wake another CPU, and the peer
 * has no use for it until we are done.  The kernel wakes a thread where it was before, so
 * once is enough.
 */
static void come_near(struct poller *p)
{
	cpu_set_t all, there;
	uint32_t cpu = p->rest.near_cpu;

	/* What is run elsewhere has more to wake than this thread. */
	if (p->last_handed || cpu >= CPU_SETSIZE || (int)cpu == sched_getcpu() ||
	    !may_move(p, cpu, &all))
		return;
	CPU_ZERO(&there);
	CPU_SET(cpu, &there);
	if (move_to(&there, &all))
		POLLER_COUNT(p, moves);
}

/*
 * Who preempted its peer has woken nobody, and learns nothing of where that is.  Returns
 * whether the one peer that it has woken has slept there before, as long as we have.
 */
static bool note_near(struct rest *r)
{
	bool one = r->woken == 1;

	if (r->woken) {
		r->near_sleeps = r->woken == 1 && r->woken_cpu == r->near_cpu ?
				 r->near_sleeps + 1 : 0;
		r->near_cpu = r->woken_cpu;
	}
	if (!r->long_sleeps)
		r->near_sleeps = 0;
	r->woken = 0;
	return one && r->near_sleeps >= NEAR_SLEEPS;
}

/*
 * Two that wake each other by system calls would do so for ever: each sees the
 * other asleep.  A row of sleeps shorter than a spin shows that the peer comes
 * back at once, and one side has to begin to stay awake.
 */
void rest_slept(struct poller *p, uint64_t since)
{
	struct rest *r = &p->rest;
	bool is_short;

	p->now = ticks_now(&p->ticks);
	is_short = p->now - since < SHORT_SPINS * r->spin_ticks;
	r->short_sleeps = is_short ? r->short_sleeps + 1 : 0;
	r->long_sleeps = is_short ? 0 : r->long_sleeps + 1;
	if (r->spin_pause)
		r->spin_pause--;
	if (r->spun && p->now - since < SAME_CPU_US * p->ticks.per_us)
		same_cpu(p);
	else
		r->crowded = 0;
	r->spun = false;
	if (note_near(r))
		come_near(p);
}

/* What runs elsewhere will come back, and there are CPUs for whoever else wants one. */
static bool awaits_devices(const struct poller *p)
{
	return p->running && p->cpus >= AWAKE_MANY_CPUS;
}

/*
 * A peer that always comes after a long sleep, and sleeps on this very CPU, was preempted by
 * our being woken where it is awake now: it can go on only once we have stopped.
 */
static bool is_in_the_way(const struct rest *r)
{
	return r->long_sleeps >= LONG_SLEEPS && (int)r->near_cpu == sched_getcpu();
}

bool rest_in_the_way(const struct poller *p)
{
	const struct poller_device *pd = p->last_handed;

	return pd && pd->cpus_taken >= pd->dev->info.units && CPU_ISSET(sched_getcpu(), &pd->cpus);
}

/*
 * Who had to wake its peer sleeps at once (they may share a CPU), unless the
 * peer was seen to come back faster than that.
 */
static bool worth_spinning(struct poller *p)
{
	/* Nor while devices take all CPUs, or this one: it would be from one of them. */
	if (!p->rest.may_spin || p->cpus_taken >= p->cpus ||
	    rest_in_the_way(p))
		return false;
	if (awaits_devices(p))
		return true;
	if (p->rest.spin_pause || is_in_the_way(&p->rest))
		return false;
	if (!p->rest.woke_peer)
		return true;
	if (p->rest.short_sleeps < SHORT_SLEEPS)
		return false;
	p->rest.tried = true;
	return true;
}

/*
 * No `pause' at first: it makes the answer later by its own length, and a peer that was
 * just answered asks soon.
 */
static bool spin(struct poller *p, uint64_t *idle_since)
{
	uint64_t now;
	int i;

	/* Nobody has come, so nobody is about to come back. */
	if (p->rest.alone || !worth_spinning(p))
		return false;
	now = ticks_now(&p->ticks);
	p->rest.spun = true;
	/* Somebody else wants this CPU: waiting awake would take it from him. */
	if (now - p->now > PREEMPTED_US * p->ticks.per_us && *idle_since)
		return false;
	p->now = now;
	if (!*idle_since)
		*idle_since = now;
	if (now - *idle_since > HOT_US * p->ticks.per_us)
		for (i = 0; i < 4; i++)
			cpu_relax();
	if (awaits_devices(p))
		return now - *idle_since < RUNNING_SPINS * p->rest.spin_ticks;
	/* A peer that is asleep needs a wake-up's time more to come back. */
	return now - *idle_since < (p->rest.tried ? 2 * p->rest.spin_ticks : p->rest.spin_ticks);
}

bool rest_awake(struct poller *p, uint64_t *idle_since)
{
	if (spin(p, idle_since))
		return true;
	if (p->rest.tried) {
		p->rest.tried = false;
		p->rest.short_sleeps = 0;
		p->rest.spin_pause = SPIN_PAUSE;
	}
	return false;
}

void rest_over(struct poller *p)
{
	p->rest.tried = p->rest.spun = p->rest.alone = false;
}

void rest_woke(struct poller *p, uint32_t cpu)
{
	p->rest.woke_peer = true;
	p->rest.woken++;
	p->rest.woken_cpu = cpu;
}

void rest_init(struct poller *p)
{
	p->rest.may_spin = p->cpus > 1;
	p->rest.spin_ticks = p->config->loop.poll_us * p->ticks.per_us;
	p->rest.woken_cpu = p->rest.near_cpu = REST_NO_CPU;
}
