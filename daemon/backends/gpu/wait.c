// SPDX-License-Identifier: MIT
/*
 * Waiting for the device.  To sleep until the driver's interrupt costs 15 us and more, and
 * up to 100 us behind what was long, and has each launch cost a microsecond more whether or
 * not somebody sleeps (docs/benchmarks.md, cuda); to look costs a CPU.  So: look while the end
 * is near, sleep before it for a part of what it has taken so far.
 */
#include <sys/prctl.h>
#include <time.h>

#include "daemon/awake.h"
#include "daemon/backends/gpu/gpu.h"

#define SPIN_NS		30000u		/* about what a sleep and its end cost, twice; */
#define SPIN_MANY_NS	100000u		/* where there are CPUs for all lanes */
#define NAP_PART	8		/* of what it has taken so far */
#define AWAY_PART	4		/* of what is left of what was expected */
#define NAP_MIN_NS	5000u
#define LONG_NS		10000000u	/* from here on a nap is this part of it */
#define LONG_PART	20
#define LOOKS		4		/* between two looks at the clock */

/* To the microsecond: a thread's sleeps are up to 50 us longer unless it asks. */
void gpu_nap(uint64_t ns)
{
	static _Thread_local bool asked;

	if (!asked)
		prctl(PR_SET_TIMERSLACK, 1000);
	asked = true;
	nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				      .tv_nsec = (long)(ns % 1000000000u) }, NULL);
}

/*
 * How long to sleep now: for a part of what it has taken so far, so that it is late by no more
 * than that; and for less the nearer it is to what is expected, whether before or behind.
 */
static uint64_t nap_ns(uint64_t spent, uint64_t expected)
{
	uint64_t nap = spent / NAP_PART, away;

	if (spent < (awake_many_cpus() ? SPIN_MANY_NS : SPIN_NS))
		return 0;
	if (expected) {
		away = spent < expected ? expected - spent : spent - expected;
		nap = nap < away / AWAY_PART ? nap : away / AWAY_PART;
	}
	return nap < NAP_MIN_NS ? 0 : nap;
}

static bool is_written(const struct gpu_end *end)
{
	/* Acquire: what the kernel wrote to host memory is there, too. */
	return (int32_t)(__atomic_load_n(end->word, __ATOMIC_ACQUIRE) - end->turn) >= 0;
}

bool gpu_has_ended(const struct gpu_device *d, const struct gpu_end *end, int *err)
{
	const struct gpu_driver *v = d->driver;

	*err = 0;
	if (!end->event && is_written(end))
		return true;
	*err = end->event ? v->event_query(end->event) : v->stream_query(end->stream);
	return !v->not_ready(*err);
}

/* A look at a word costs nothing, and to ask the driver is of use only where it never comes. */
static bool look(const struct gpu_device *d, const struct gpu_end *end, uint64_t spent, int *err)
{
	if (end->event || spent > SPIN_NS)
		return gpu_has_ended(d, end, err);
	*err = 0;
	return is_written(end);
}

int gpu_await(const struct gpu_device *d, const struct gpu_end *end, uint64_t expected_ns)
{
	uint64_t began = monotonic_ns(), spent = 0, nap;
	uint32_t looks;
	int err;

	while (spent < LONG_NS) {
		for (looks = 0; looks < LOOKS; looks++) {
			if (look(d, end, spent, &err))
				return err;
			relax();
		}
		spent = monotonic_ns() - began;
		nap = nap_ns(spent, expected_ns);
		if (nap)
			gpu_nap(nap);
	}
	/* Without the driver's wait, which has its events cost more: see calls.h. */
	while (!gpu_has_ended(d, end, &err))
		gpu_nap(LONG_NS / LONG_PART);
	return err;
}
