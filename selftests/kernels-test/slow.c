// SPDX-License-Identifier: MIT
/* A worker that gets hardly any CPU: it is some time until it says that it is ready. */
#include <time.h>

__attribute__((constructor)) static void wait_for_cpu(void)
{
	const struct timespec ts = { .tv_sec = 2 };

	nanosleep(&ts, NULL);
}
