// SPDX-License-Identifier: MIT
/* Kernels for measuring: nothing at all, and time. */
#include <time.h>

#include "daemon/kernels/std/std.h"

#define SPIN_MAX_US 10000000u

int arax_std_null(const struct arax_launch *l);
int arax_std_spin(const struct arax_launch *l);

/* null(in u8 a[], inout u8 b[], u64 x, u64 y) */
ARAX_KERNEL int arax_std_null(const struct arax_launch *l)
{
	return 0;
}

/* spin(inout u8 token[], u32 us): keep the core busy; at most 10 s */
ARAX_KERNEL int arax_std_spin(const struct arax_launch *l)
{
	struct timespec start, now;
	uint32_t us;

	if (arax_launch_args(l, &us, sizeof(us)) || us > SPIN_MAX_US)
		return -EINVAL;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000000L + (now.tv_nsec - start.tv_nsec) <
		 (long)us * 1000L);
	return 0;
}
