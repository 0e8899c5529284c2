// SPDX-License-Identifier: MIT
/*
 * How fast this machine's time stamp counter runs, in kHz, which an emulated machine's does as well:
 * to be told to a guest's kernel.  That measures it by timers of the emulator's, which may be late.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>

#define SPAN_NS		20000000	/* the clock's own error is some 50 ns: 3 ppm */

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void)
{
	int64_t start = now_ns(), end;
	uint64_t ticks = __rdtsc();

	do
		end = now_ns();
	while (end < start + SPAN_NS);
	ticks = __rdtsc() - ticks;
	printf("%.0f\n", (double)ticks * 1e6 / (double)(end - start));
	return 0;
}
#else
int main(void)
{
	fputs("tsc: no such counter\n", stderr);
	return 1;
}
#endif
