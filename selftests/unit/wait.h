/* SPDX-License-Identifier: MIT */
/* wait.h - waiting in unit tests for what others do: on a busy machine that takes its time */
#ifndef ARAX_SELFTESTS_UNIT_WAIT_H
#define ARAX_SELFTESTS_UNIT_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S		60	/* no machine is that busy */
#define WAIT_MS		(WAIT_S * 1000)

static inline uint64_t wait_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Of a clock that no test moves on for what it tests: only for how long something takes. */
static inline uint64_t wait_raw_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * Whether @condition holds within WAIT_S; it is looked at every @us.  By the clock, since a nap
 * may take many times as long as was asked for, and once more when all of that has passed.
 */
#define comes_true(condition, us) ({						\
	const uint64_t start_ = wait_raw_ns();					\
	bool late_, true_;							\
										\
	for (;;) {								\
		late_ = wait_raw_ns() - start_ >= WAIT_S * 1000000000ull;	\
		true_ = (condition);						\
		if (true_ || late_)						\
			break;							\
		usleep(us);							\
	}									\
	true_;									\
})

#endif /* ARAX_SELFTESTS_UNIT_WAIT_H */
