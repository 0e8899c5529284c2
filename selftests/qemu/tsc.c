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

struct sample {
	int64_t ns;
	uint64_t ticks;
};

/* Of several the one that was read most quickly: between the two of others somebody else may have run. */
static struct sample sample(void)
{
	struct sample best = { 0, 0 };
	int64_t least = INT64_MAX;

	for (int i = 0; i < 100; i++) {
		int64_t before = now_ns();
		uint64_t ticks = __rdtsc();
		int64_t took = now_ns() - before;

		if (took < least) {
			least = took;
			best.ns = before + took / 2;
			best.ticks = ticks;
		}
	}
	return best;
}

int main(void)
{
	const struct timespec span = { 0, SPAN_NS };
	struct sample start, end;

	start = sample();
	nanosleep(&span, NULL);
	end = sample();
	printf("%.0f\n", (double)(end.ticks - start.ticks) * 1e6 / (double)(end.ns - start.ns));
	return 0;
}
#else
int main(void)
{
	fputs("tsc: no such counter\n", stderr);
	return 1;
}
#endif
