/* SPDX-License-Identifier: MIT */
/* A clock that costs less than what it measures. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * Ticks of the processor's counter: 8 ns a reading where clock_gettime() takes
 * 25, or 500 in an emulated guest.
 */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#else
	return clock_ns();
#endif
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/* Measure how long a tick is; before any of the next two. */
void clock_calibrate(void);
double ticks_to_ns(uint64_t t);
uint64_t ns_to_ticks(double ns);

#endif
