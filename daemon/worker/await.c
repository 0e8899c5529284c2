// SPDX-License-Identifier: MIT
#include <sched.h>

#include "daemon/awake.h"
#include "daemon/worker/await.h"
#include "daemon/worker/inside.h"

#define WAKE_FIRST_NS	25000u	/* until it has been measured */
#define WAKE_LEAST_NS	5000u
#define WAKE_MOST_NS	75000u
#define WAKE_PART	16	/* by this part it is corrected each time: their median, about */

#define WAKE_UPS	3	/* of this thread, of the poller, of whoever has the next task */
#define MORE_NS		1000000u	/* as long as more is to come */

/* Between two looks at the clock, at which others on this core come first. */
#define LOOKS		16
/* Somebody else computes here: so many waits go without. */
#define LOST_NS		200000u
#define LOST_WAITS	32

void await_init(struct runner *r)
{
	atomic_store_explicit(&r->wake_ns, WAKE_FIRST_NS, memory_order_relaxed);
}

void await_woken(struct runner *r, uint64_t handed_ns)
{
	uint32_t wake = atomic_load_explicit(&r->wake_ns, memory_order_relaxed);

	if (now_ns() - handed_ns > wake)
		wake += wake / WAKE_PART;
	else
		wake -= wake / WAKE_PART;
	if (wake >= WAKE_LEAST_NS && wake <= WAKE_MOST_NS)
		atomic_store_explicit(&r->wake_ns, wake, memory_order_relaxed);
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

/* On a core that programs use, too: they come first. */
static bool await_on_core(struct lane *lane)
{
	const struct runner *r = lane->runner;
	uint64_t most = WAKE_UPS * atomic_load_explicit(&r->wake_ns, memory_order_relaxed);
	uint64_t began = now_ns(), since = began, now = began, before;
	int i;

	while (now - since < most) {
		for (i = 0; i < LOOKS; i++) {
			if (has_come(lane))
				return true;
			relax();
		}
		before = now;
		sched_yield();
		now = now_ns();
		if (now - before > LOST_NS) {
			lane->lost_waits = LOST_WAITS;
			break;
		}
		/* Whoever waits for the end of what runs may be back soon after it. */
		if (now - began < MORE_NS && more_to_come(r))
			since = now;
	}
	return has_come(lane);
}

bool await_next(struct lane *lane)
{
	struct runner *r = lane->runner;
	uint32_t awake;
	bool come;

	if (lane->lost_waits) {
		lane->lost_waits--;
		return has_come(lane);
	}
	/* Where CPUs are many they wait for long: most of a group's are for its kernels and for programs. */
	awake = atomic_fetch_add_explicit(&r->awake, 1, memory_order_relaxed);
	if (r->host && !awake_many_cpus())
		come = await_on_core(lane);
	else if (!awake_many_cpus() || awake < awake_cpus() / AWAKE_SHARE)
		come = awake_for(has_come, lane);
	else
		come = has_come(lane);
	atomic_fetch_sub_explicit(&r->awake, 1, memory_order_relaxed);
	return come;
}

void runner_expects(struct runner *r, const uint32_t *more)
{
	r->more = more;
}

uint64_t runner_hand_over_ns(const struct runner *r)
{
	if (atomic_load_explicit(&r->awake, memory_order_relaxed))
		return 0;
	return atomic_load_explicit(&r->wake_ns, memory_order_relaxed);
}
