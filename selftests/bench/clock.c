// SPDX-License-Identifier: MIT
/* How long a tick is. */
#include "clock.h"

static double ns_per_tick = 1;

void clock_calibrate(void)
{
	uint64_t n0, n1, t0, t1;

	n0 = clock_ns();
	t0 = ticks();
	do {
		n1 = clock_ns();
		t1 = ticks();
	} while (n1 - n0 < 50 * 1000 * 1000);
	ns_per_tick = (double)(n1 - n0) / (double)(t1 - t0);
}

double ticks_to_ns(uint64_t t)
{
	return (double)t * ns_per_tick;
}

uint64_t ns_to_ticks(double ns)
{
	return (uint64_t)(ns / ns_per_tick);
}
