/* SPDX-License-Identifier: MIT */
/*
 * ticks.h - a clock that costs a few nanoseconds
 *
 * The time stamp counter where it is constant and goes on in sleep states, else
 * CLOCK_MONOTONIC.  ticks_ns() gives CLOCK_MONOTONIC nanoseconds, anchored anew every
 * millisecond or so.  It never goes back but when the machine has slept: where it is ahead it
 * runs slower for a while, so that it and a system clock, slewed or not, stay together within
 * a microsecond.
 */
#ifndef ARAXD_DISPATCH_TICKS_H
#define ARAXD_DISPATCH_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

/**
 * struct ticks - the clock of one thread at a time
 * @tsc:	it is the time stamp counter
 * @mult:	ns = ticks * mult >> 32
 * @per_us:	ticks, for limits: it may be off by as much as @mult was at first
 * @anchor:	ticks at the last anchor, what ticks_ns() says of then, and what
 *		CLOCK_MONOTONIC said
 * @steer:	as @mult, of ticks_ns() for the first @lose ticks since then
 * @lost_ns:	what these ticks are
 * @base:	ticks and CLOCK_MONOTONIC at the beginning of what @mult is learnt from; 0: that
 *		is still to come
 * @learn_ns:	how long that has to be, at least
 */
struct ticks {
	bool tsc;
	uint64_t mult;
	uint64_t per_us;
	uint64_t anchor;
	uint64_t anchor_ns;
	uint64_t read_ns;
	uint64_t steer;
	uint64_t lose;
	uint64_t lost_ns;
	uint64_t base;
	uint64_t base_ns;
	uint64_t learn_ns;
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
	uint64_t since = now - t->anchor;

	if (__builtin_expect(now < t->anchor, 0))
		return t->anchor_ns;
	if (since < t->lose)
		return t->anchor_ns + (uint64_t)(((unsigned __int128)since * t->steer) >> 32);
	return t->anchor_ns + t->lost_ns + ticks_to_ns(t, since - t->lose);
}

/* Of two readings, by two CPUs perhaps: 0 if the later one is less. */
static inline uint64_t ticks_between(uint64_t start, uint64_t end)
{
	return end > start ? end - start : 0;
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
/* The same with a reading of both clocks; @width: ticks that it may be off by. */
void ticks_steer(struct ticks *t, uint64_t ticks, uint64_t ns, uint64_t width);

#endif /* ARAXD_DISPATCH_TICKS_H */
