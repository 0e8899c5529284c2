/* SPDX-License-Identifier: MIT */
/*
 * ticks.h - a clock that costs a few nanoseconds
 *
 * The time stamp counter where it is constant and goes on in sleep states, else
 * CLOCK_MONOTONIC.  ticks_ns() gives CLOCK_MONOTONIC nanoseconds, anchored
 * anew every millisecond or so, so that a slewed system clock and ours stay
 * together within a microsecond.
 */
#ifndef ARAXD_DISPATCH_TICKS_H
#define ARAXD_DISPATCH_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

struct ticks {
	bool tsc;
	uint64_t mult;		/* ns = ticks * mult >> 32 */
	uint64_t per_us;
	uint64_t anchor;
	uint64_t anchor_ns;
};

static inline uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t ticks_now(const struct ticks *t)
{
#if defined(__x86_64__) || defined(__i386__)
	if (t->tsc)
		return __rdtsc();
#endif
	return monotonic_ns();
}

static inline uint64_t ticks_to_ns(const struct ticks *t, uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * t->mult) >> 32);
}

static inline uint64_t ticks_ns(const struct ticks *t, uint64_t now)
{
	return now < t->anchor ? t->anchor_ns :
	       t->anchor_ns + ticks_to_ns(t, now - t->anchor);
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	_mm_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Takes a few milliseconds to learn the counter's rate. */
void ticks_init(struct ticks *t);
/* By the owner of @t, now and then. */
void ticks_anchor(struct ticks *t);

#endif /* ARAXD_DISPATCH_TICKS_H */
