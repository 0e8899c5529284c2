// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/awake.h"
#include "daemon/crowd.h"

static int loadavg = -1;
static long cpus;

/* To count the CPUs takes as long as all the rest. */
static void open_once(void)
{
	loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
}

bool crowd_in(const char *text, long most)
{
	long running;

	/* Averages, "runnable/all", the last process. */
	return sscanf(text, "%*s %*s %*s %ld/", &running) != 1 || running > most;
}

bool crowd_is_there(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char text[128];
	ssize_t n;

	pthread_once(&once, open_once);
	if (loadavg < 0 || cpus > (long)awake_cpus())
		return true;
	n = pread(loadavg, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	return crowd_in(text, cpus);
}
