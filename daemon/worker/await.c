// SPDX-License-Identifier: MIT
#include <sched.h>

#include "daemon/awake.h"
#include "daemon/crowd.h"
#include "daemon/worker/await.h"
#include "daemon/worker/inside.h"

#define WAKE_FIRST_NS	25000u	/* until it has been measured */
#define WAKE_LEAST_NS	5000u
#define WAKE_PART	16	/* by this part it is corrected each time: their median, about */

#define WAKE_UPS	3
#define MORE_NS		1000000u	/* as long as tasks run elsewhere */

#define LOOKS		16	/* between two times that others on this core come first */
#define CROWD_YIELDS	16	/* between two looks whether there are any */
#define CROWDS		2	/* looks in a row that are believed */
/* One of them computes: so many waits are short, and twice as many each time that it still does. */
#define LOST_NS		200000u
#define LOST_WAITS	8
#define LOST_DOUBLED	7

void await_init(struct runner *r)
{
	atomic_store_explicit(&r->wake_ns, WAKE_FIRST_NS, memory_order_relaxed);
}

uint32_t await_learn(uint32_t wake_ns, uint64_t took_ns)
{
	wake_ns += took_ns > wake_ns ? wake_ns / WAKE_PART : -(wake_ns / WAKE_PART);
	if (wake_ns < WAKE_LEAST_NS)
		return WAKE_LEAST_NS;
	return wake_ns < AWAIT_WAKE_MOST_NS ? wake_ns : AWAIT_WAKE_MOST_NS;
}

void await_woken(struct runner *r, uint64_t handed_ns)
{
	uint32_t wake = atomic_load_explicit(&r->wake_ns, memory_order_relaxed);
	uint64_t took = now_ns() - handed_ns;

	/* Where a CPU has to become free first, that is what it took. */
	if (!crowd_is_there())
		atomic_store_explicit(&r->wake_ns, await_learn(wake, took), memory_order_relaxed);
}

static bool has_come(const void *arg)
{
	const struct lane *lane = arg;

	return atomic_load_explicit(&lane->submitted, memory_order_relaxed) != lane->taken;
}

/* Of several lanes it may be another one that gets it. */
static bool more_to_come(const struct runner *r)
{
	return r->nr_lanes == 1 && r->more && __atomic_load_n(r->more, __ATOMIC_RELAXED);
}

bool await_on(uint64_t now, uint64_t began, uint64_t *since, uint32_t wake_ns, bool more)
{
	/* Whoever waited for the end of what ran may be back soon after it. */
	if (more && now - began < MORE_NS)
		*since = now;
	return now - *since < (uint64_t)WAKE_UPS * wake_ns;
}

/*
 * On a core that nobody else wants.  Who was just woken there may be the one who has the next task;
 * only of one's own cgroup he gets it by a yield, and others by the next look whether there are any.
 */
static bool await_on_core(struct lane *lane)
{
	const struct runner *r = lane->runner;
	uint32_t wake = atomic_load_explicit(&r->wake_ns, memory_order_relaxed), yields = 0, crowds = 0;
	uint64_t began = now_ns(), since = began, now = began, before;
	int i;

	while (await_on(now, began, &since, wake, more_to_come(r))) {
		for (i = 0; i < LOOKS; i++) {
			if (has_come(lane)) {
				lane->losses = yields ? 0 : lane->losses;
				return true;
			}
			relax();
		}
		/* Once it may be somebody who was just woken, and is about to wait again. */
		if (!(yields++ % CROWD_YIELDS)) {
			crowds = crowd_is_there() ? crowds + 1 : 0;
			if (crowds == CROWDS)
				break;
		}
		before = now_ns();
		sched_yield();
		now = now_ns();
		if (now - before > LOST_NS) {
			lane->lost_waits = LOST_WAITS << lane->losses;
			lane->losses += lane->losses < LOST_DOUBLED;
			break;
		}
	}
	return has_come(lane);
}

bool await_next(struct lane *lane)
{
	struct runner *r = lane->runner;
	uint64_t me = 1ull << lane->index, awake;
	bool come, alone;

	if (has_come(lane))
		return true;
	alone = r->host && !awake_many_cpus() && !lane->lost_waits;
	if (lane->lost_waits)
		lane->lost_waits--;
	/* Where CPUs are many they wait for long: most of a group's are for its kernels and for programs. */
	awake = atomic_fetch_or_explicit(&r->awake, me, memory_order_relaxed);
	if (alone)
		come = await_on_core(lane);
	else if (!awake_many_cpus() || (uint32_t)__builtin_popcountll(awake) < awake_cpus() / AWAKE_SHARE)
		come = awake_for(has_come, lane);
	else
		come = has_come(lane);
	atomic_fetch_and_explicit(&r->awake, ~me, memory_order_relaxed);
	return come;
}

void runner_expects(struct runner *r, const uint32_t *more)
{
	r->more = more;
}

uint64_t runner_awake(const struct runner *r)
{
	return atomic_load_explicit(&r->awake, memory_order_relaxed);
}

uint64_t runner_hand_over_ns(const struct runner *r, uint64_t lanes)
{
	if (runner_awake(r) & lanes)
		return 0;
	return atomic_load_explicit(&r->wake_ns, memory_order_relaxed);
}
